//! The files of block filters (`fltr?????.dat`): presence and size, and with `--deep` every filter against its row.

use super::{At, Depth, Kind, Look, read_through};
use indexes::heights::{self, FilterPos, FilterRow};
use primitives::{BlockHash, Height};
use std::collections::BTreeSet;
use store::indexes::{FilterFiles, IndexDb, read_filter};
use store::{Fault, FaultKind};

/// Size of a full filter file, for estimates.
const FILE_BYTES: u64 = 16 << 20;
/// Bytes of mainnet's blocks per filter file: they are read to make the filters again.
const BLOCKS_BYTES_PER_FILE: u64 = 100 * FILE_BYTES;

impl Look<'_> {
    /// Checks the filter files that the database of the filters names.
    ///
    /// # Errors
    ///
    /// A damaged database.
    pub(super) fn filter_files(&mut self, db: &IndexDb) -> store::Result<()> {
        let Some(next) = db.get(heights::FILTER_POSITION)? else { return Ok(()) };
        let bad = |why: primitives::DecodeError| {
            db.bad_record(heights::FILTER_POSITION, "the place of the next filter", why.to_string())
        };
        let next = FilterPos::decode(&next).map_err(bad)?;
        let files = FilterFiles::new(self.options.disk.clone(), &self.layout, next);
        let mut noted: BTreeSet<u32> = BTreeSet::new();
        for number in files.missing()? {
            let path = store::indexes::filter_file(&self.layout, number);
            self.find(Kind::FilterFileDamaged, &path, At::ALL, "it is missing or too short", remade());
            noted.insert(number);
        }
        if self.depth == Depth::Deep && !self.is_beside {
            self.every_filter(db, &mut noted)?;
        }
        Ok(())
    }

    /// Reads every filter; reports the first damaged one of each file.
    fn every_filter(&mut self, db: &IndexDb, noted: &mut BTreeSet<u32>) -> store::Result<()> {
        for prefix in [b't', b's'] {
            let mut records = db.with_prefix(&[prefix])?;
            while let Some((key, value)) = records.next_record()? {
                if self.reporter.is_stopping() {
                    return Ok(());
                }
                let bad = |why: primitives::DecodeError| db.bad_record(&key, "a row of a filter", why.to_string());
                let (block, row) = heights::split_row(&key, &value).map_err(bad)?;
                if noted.contains(&row.pos.file) {
                    continue;
                }
                if let Err(fault) = self.filter(&block, &row) {
                    noted.insert(row.pos.file);
                    let height = heights::height_of(&key);
                    let at = At { height, hash: Some(block), ..At::ALL };
                    self.filter_fault(&fault, &row, at);
                }
            }
        }
        Ok(())
    }

    fn filter(&self, block: &BlockHash, row: &FilterRow) -> store::Result<()> {
        let (of, _) = read_filter(&*self.options.disk, &self.layout, row.pos, &row.hash)?;
        if of == *block {
            return Ok(());
        }
        let path = store::indexes::filter_file(&self.layout, row.pos.file);
        let wanted = format!("the filter of block {block}");
        let advice = "Run ffwd repair, which makes this file again";
        Err(Fault::new(FaultKind::Damaged, &path, wanted, format!("that of block {of}"), advice))
    }

    fn filter_fault(&mut self, fault: &Fault, row: &FilterRow, at: At) {
        let path = store::indexes::filter_file(&self.layout, row.pos.file);
        if matches!(fault.kind(), FaultKind::Permission | FaultKind::Io) {
            return self.fault(Kind::FilterFileDamaged, fault, at, remade());
        }
        let of = at.height.map_or_else(String::new, |height: Height| format!(" at height {height}"));
        let what = format!("filter of the block{of}: wanted {}, found {}", fault.detail().wanted, fault.detail().found);
        let at = At { offset: Some(u64::from(row.pos.offset)), ..at };
        self.find(Kind::FilterFileDamaged, &path, at, what, remade());
    }
}

/// Seconds to make the filters of one file again.
fn remade() -> u64 {
    read_through(BLOCKS_BYTES_PER_FILE)
}
