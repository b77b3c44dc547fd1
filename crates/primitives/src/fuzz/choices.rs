//! Bytes as choices: any bytes give a nearly valid file, so that a fuzzer that changes bytes changes the file's
//! contents and not only the validity of its first bytes. Past the last byte every choice is 0.

/// Maximum number of mutations of one file; more would only take time.
const BENDS_MAX: usize = 4;

/// The remaining choices.
pub(super) struct Choices<'a>(pub(super) &'a [u8]);

/// A change of one byte of a file.
pub(super) struct Bend {
    at: usize,
    how: usize,
    with: u8,
}

impl Choices<'_> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    pub(super) fn number(&mut self) -> u16 {
        u16::from(self.byte()) << 8 | u16::from(self.byte())
    }

    pub(super) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// The mutations of the file, chosen before the file: the last choices are then those of its last part.
    pub(super) fn bends(&mut self) -> Vec<Bend> {
        let count = self.below(BENDS_MAX + 1);
        (0..count).map(|_| Bend { at: self.number().into(), how: self.below(5), with: self.byte() }).collect()
    }
}

/// Mutates a file; places count from its end, where lists and coins are.
pub(super) fn bend(file: &mut Vec<u8>, bends: &[Bend]) {
    for Bend { at, how, with } in bends {
        let at = file.len() - at % (file.len() + 1);
        match how {
            0 => file.truncate(at),
            1 => file.insert(at, *with),
            _ if at == file.len() => file.push(*with),
            2 => drop(file.remove(at)),
            3 => file[at] = *with,
            _ => file[at] ^= with,
        }
    }
}
