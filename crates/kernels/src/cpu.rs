//! Which kernels run: all that the processor has, or those of one kind of processor, to measure and to test.
//!
//! A choice is made once, before the first kernel runs, and holds for the whole program. The functions that take a kernel
//! by name (`_with`, [`crate::secp256k1::Lanes::prove`]) do what they are told, whatever was chosen.
//!
//! Absent on purpose: libraries that look at the processor by themselves (`sha2`, `memchr`, libsecp256k1).

use std::fmt;
use std::sync::OnceLock;

/// A kind of processor, by what its kernels need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cpu {
    /// Whatever this one has.
    Auto,
    /// Nothing: portable code.
    Plain,
    /// NEON, which every ARM of 64 bits has.
    Neon,
    /// AVX2 and FMA; SHA-NI, SSE 4.2 and PCLMULQDQ where they are there.
    Avx2,
    /// The same and AVX-IFMA.
    AvxIfma,
    /// AVX-512 F and IFMA, and all of [`Cpu::Avx2`].
    Avx512,
}

/// Why a kind cannot be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChoiceError {
    /// This processor lacks what the kind needs.
    Missing(Cpu),
    /// A kernel of this other choice ran already.
    Late(Cpu),
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChoiceError::Missing(cpu) => {
                write!(f, "the kernels of {} need {}, which this processor lacks", cpu.name(), cpu.needs())
            }
            ChoiceError::Late(cpu) => write!(f, "kernels of {} are in use already", cpu.name()),
        }
    }
}

impl std::error::Error for ChoiceError {}

static CHOSEN: OnceLock<Cpu> = OnceLock::new();

/// Chooses for the whole program.
///
/// # Errors
///
/// [`ChoiceError`].
pub fn choose(cpu: Cpu) -> Result<(), ChoiceError> {
    if !cpu.is_here() {
        return Err(ChoiceError::Missing(cpu));
    }
    match *CHOSEN.get_or_init(|| cpu) {
        chosen if chosen == cpu => Ok(()),
        other => Err(ChoiceError::Late(other)),
    }
}

/// What was chosen; without a choice, from now on, [`Cpu::Auto`].
#[must_use]
pub fn chosen() -> Cpu {
    *CHOSEN.get_or_init(|| Cpu::Auto)
}

impl Cpu {
    /// All of them.
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

    /// The kind of this name.
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

    /// Whether this processor has what the kind needs.
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
            matches!(self, Cpu::Auto | Cpu::Plain) || self == Cpu::Neon && cfg!(target_arch = "aarch64")
        }
    }

    /// Whether kernels of `other` may run where this kind was chosen.
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
    fn choices_hold_for_the_whole_program() {
        assert_eq!(choose(Cpu::Auto), Ok(()), "nothing else is chosen in these tests");
        assert_eq!((chosen(), choose(Cpu::Auto)), (Cpu::Auto, Ok(())));
        for cpu in Cpu::ALL.into_iter().skip(1) {
            let want = if cpu.is_here() { ChoiceError::Late(Cpu::Auto) } else { ChoiceError::Missing(cpu) };
            let why = choose(cpu).expect_err(cpu.name());
            assert_eq!(why, want);
            assert!(why.to_string().contains(if cpu.is_here() { "auto" } else { cpu.name() }), "{why}");
        }
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
