//! Options of a database.

use kernels::Kernels;

/// Sizes of tables and levels, and contents of tables. The defaults are Bitcoin Core's; tests make the sizes small.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A table is closed when its data reaches this size.
    pub table_bytes: u64,
    /// Level 1 stays below this size, each deeper level below ten times the one above.
    pub level1_bytes: u64,
    /// Whether new tables get filters, which serve only point look-ups. Existing tables are read with the filters that
    /// they have.
    pub has_filters: bool,
    /// Kernels for checksums, prefetches, and the memory of filters.
    pub kernels: Kernels,
}

impl Default for Options {
    fn default() -> Options {
        Options { table_bytes: 32 << 20, level1_bytes: 10 << 20, has_filters: true, kernels: Kernels::AUTO }
    }
}
