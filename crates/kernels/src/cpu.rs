//! Kinds of processors, by the instructions that their kernels need: all instructions of this processor, or one kind
//! for measurements and tests.
//!
//! Absent on purpose: the kind that a job uses ([`crate::Kernels`]).

use std::fmt;

/// A kind of processor, by the instructions that its kernels need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cpu {
    /// Everything that this processor has.
    Auto,
    /// No instruction set extensions: portable code.
    Plain,
    /// NEON, which every 64-bit ARM has; only with the feature `unproven`.
    Neon,
    /// AVX2 and FMA; also SHA-NI, SSE 4.2 and PCLMULQDQ if available.
    Avx2,
    /// [`Cpu::Avx2`] and AVX-IFMA.
    AvxIfma,
    /// AVX-512 F and IFMA, and all of [`Cpu::Avx2`].
    Avx512,
}

/// This processor, or this build, lacks the instructions of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing(pub Cpu);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing(cpu) = *self;
        write!(f, "the kernels of {} need ", cpu.name())?;
        // Every 64-bit ARM has NEON, so only the build can lack it.
        if cpu == Cpu::Neon && cfg!(target_arch = "aarch64") {
            return f.write_str("a build with --features unproven");
        }
        write!(f, "{}, which this processor lacks", cpu.needs())?;
        if cpu == Cpu::Neon && !cfg!(feature = "unproven") {
            f.write_str("; they also need a build with --features unproven")?;
        }
        Ok(())
    }
}

impl std::error::Error for Missing {}

impl Cpu {
    /// All kinds.
    pub const ALL: [Cpu; 6] = [Cpu::Auto, Cpu::Plain, Cpu::Neon, Cpu::Avx2, Cpu::AvxIfma, Cpu::Avx512];

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cpu::Auto => "auto",
            Cpu::Plain => "plain",
            Cpu::Neon => "neon",
            Cpu::Avx2 => "avx2",
            Cpu::AvxIfma => "avxifma",
            Cpu::Avx512 => "avx512",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Cpu> {
        Cpu::ALL.into_iter().find(|cpu| cpu.name() == name)
    }

    fn needs(self) -> &'static str {
        match self {
            Cpu::Auto | Cpu::Plain => "nothing",
            Cpu::Neon => "an ARM of 64 bits",
            Cpu::Avx2 => "AVX2 and FMA",
            Cpu::AvxIfma => "AVX2, FMA and AVX-IFMA",
            Cpu::Avx512 => "AVX2, FMA, AVX-512 F and AVX-512 IFMA",
        }
    }

    /// Whether this processor has the instructions of the kind.
    #[must_use]
    pub fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            match self {
                Cpu::Auto | Cpu::Plain => true,
                Cpu::Neon => false,
                Cpu::Avx2 => avx2,
                Cpu::AvxIfma => avx2 && is_x86_feature_detected!("avxifma"),
                Cpu::Avx512 => avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            matches!(self, Cpu::Auto | Cpu::Plain)
                || self == Cpu::Neon && cfg!(all(target_arch = "aarch64", feature = "unproven"))
        }
    }

    /// Whether kernels of `other` may run if this kind was chosen.
    #[must_use]
    pub fn allows(self, other: Cpu) -> bool {
        match (self, other) {
            (Cpu::Auto, _) | (_, Cpu::Plain) | (Cpu::AvxIfma | Cpu::Avx512, Cpu::Avx2) => true,
            _ => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_back() {
        for cpu in Cpu::ALL {
            assert_eq!(Cpu::from_name(cpu.name()), Some(cpu));
        }
        assert_eq!(Cpu::from_name("abacus"), None);
    }

    #[test]
    fn a_kind_allows_itself_and_less() {
        let allowed = |cpu: Cpu| Cpu::ALL.into_iter().skip(1).filter(|&other| cpu.allows(other)).collect::<Vec<_>>();
        assert_eq!(allowed(Cpu::Auto), Cpu::ALL[1..]);
        assert_eq!(allowed(Cpu::Plain), [Cpu::Plain]);
        assert_eq!(allowed(Cpu::Neon), [Cpu::Plain, Cpu::Neon]);
        assert_eq!(allowed(Cpu::Avx2), [Cpu::Plain, Cpu::Avx2]);
        assert_eq!(allowed(Cpu::AvxIfma), [Cpu::Plain, Cpu::Avx2, Cpu::AvxIfma]);
        assert_eq!(allowed(Cpu::Avx512), [Cpu::Plain, Cpu::Avx2, Cpu::Avx512]);
    }
}
