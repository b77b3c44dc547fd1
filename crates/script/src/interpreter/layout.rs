//! The positions of a script's instructions, found once for all its signature checks.
//!
//! Before segwit each check takes its own signature and all CODESEPARATORs out of the script. Reading the script from the
//! start for each, as [`super::signatures`] does with short scripts, takes longer than hashing it. A deleted push is one
//! whole instruction, so that the others begin where they began before.

use crate::opcode::{Instructions, OP_CODESEPARATOR, push_prefix};
use memchr::memmem::Finder;
use std::ops::Range;

/// A push with at least this number of bytes is searched in the script's bytes. A shorter one, which no signature has,
/// may occur everywhere, so each instruction is compared.
const SEARCHED_BYTES_MIN: usize = 16;

/// The instructions of a script that does not end inside one.
#[derive(Debug)]
pub(super) struct Layout {
    /// A bit for each byte: whether an instruction begins there.
    starts: Vec<u64>,
    /// Positions of its CODESEPARATORs.
    separators: Vec<usize>,
}

/// A script code without CODESEPARATORs.
pub(super) struct Cleaned {
    pub(super) bytes: Vec<u8>,
    /// Whether a push of a signature was removed from it.
    pub(super) has_deleted: bool,
}

impl Layout {
    /// `None` if the script ends inside an instruction.
    pub(super) fn of(script: &[u8]) -> Option<Layout> {
        let mut layout = Layout { starts: vec![0; script.len().div_ceil(64)], separators: Vec::new() };
        let mut instructions = Instructions::new(script);
        loop {
            let at = instructions.offset();
            let Some(instruction) = instructions.next() else { break };
            layout.starts[at / 64] |= 1 << (at % 64);
            if instruction.opcode == OP_CODESEPARATOR {
                layout.separators.push(at);
            }
        }
        (!instructions.is_cut()).then_some(layout)
    }

    fn is_start(&self, at: usize) -> bool {
        self.starts[at / 64] >> (at % 64) & 1 == 1
    }

    /// Appends the positions at which `push` is an instruction of the script.
    fn find(&self, script: &[u8], code_start: usize, push: &[u8], out: &mut Vec<Range<usize>>) {
        let finder = Finder::new(push);
        let mut at = code_start;
        while at < script.len() {
            let found = match push.len() >= SEARCHED_BYTES_MIN {
                true => finder.find(&script[at..]).map(|found| at + found),
                false => (at..script.len()).find(|&at| self.is_start(at) && script[at..].starts_with(push)),
            };
            let Some(found) = found else { break };
            // Bytes that begin inside another push are not an instruction, and the next one may begin among them.
            at = found + 1;
            if self.is_start(found) {
                out.push(found..found + push.len());
                at = found + push.len();
            }
        }
    }

    /// The code from an instruction on without CODESEPARATORs and without pushes of these signatures.
    pub(super) fn clean<'b>(
        &self,
        script: &[u8],
        code_start: usize,
        signatures: impl Iterator<Item = &'b [u8]>,
    ) -> Cleaned {
        let first = self.separators.partition_point(|at| *at < code_start);
        let mut removed: Vec<Range<usize>> = self.separators[first..].iter().map(|&at| at..at + 1).collect();
        let separators = removed.len();
        for signature in signatures {
            let (prefix, used) = push_prefix(signature.len());
            self.find(script, code_start, &[&prefix[..used], signature].concat(), &mut removed);
        }
        let has_deleted = removed.len() > separators;
        removed.sort_unstable_by_key(|range| range.start);
        let mut bytes = Vec::with_capacity(script.len() - code_start);
        let mut at = code_start;
        for range in removed {
            // The same signature may occur twice.
            if range.start >= at {
                bytes.extend_from_slice(&script[at..range.start]);
                at = range.end;
            }
        }
        bytes.extend_from_slice(&script[at..]);
        Cleaned { bytes, has_deleted }
    }
}

#[cfg(test)]
mod tests {
    use super::super::signatures::find_and_delete;
    use super::*;
    use testkit::Rng;

    /// As short scripts are treated: read from the start for each signature, then for the separators.
    fn plain(script_code: &[u8], signatures: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut code = script_code.to_vec();
        let mut has_deleted = false;
        for signature in signatures {
            if let Some(rest) = find_and_delete(&code, signature) {
                (code, has_deleted) = (rest, true);
            }
        }
        let mut bytes = Vec::new();
        let mut instructions = Instructions::new(&code);
        let mut at = 0;
        while let Some(instruction) = instructions.next() {
            if instruction.opcode != OP_CODESEPARATOR {
                bytes.extend_from_slice(&code[at..instructions.offset()]);
            }
            at = instructions.offset();
        }
        (bytes, has_deleted)
    }

    #[test]
    fn cleaned_code_agrees_with_plain_one() {
        let mut rng = Rng::new(17);
        let mut deleted = 0;
        for round in 0..2000 {
            // Few different bytes: pushes stand inside others, and begin among their bytes.
            let bytes = [&[0xab, 1, 2, 3][..], &[0, 1, 0x51, 0xab], &[1, 2, 17, 18, 0x61]][round % 3];
            let signatures: Vec<Vec<u8>> = (0..rng.below(4))
                .map(|_| {
                    (0..[0, 1, 2, 3, 17, 18, 76, 300][rng.below(8)]).map(|_| bytes[rng.below(bytes.len())]).collect()
                })
                .collect();
            let mut script: Vec<u8> = Vec::new();
            for _ in 0..rng.below(60) {
                match rng.below(3) {
                    0 if !signatures.is_empty() => {
                        let signature = &signatures[rng.below(signatures.len())];
                        let (prefix, used) = push_prefix(signature.len());
                        script.extend_from_slice(&prefix[..used]);
                        script.extend_from_slice(signature);
                    }
                    _ => script.extend((0..rng.below(20)).map(|_| bytes[rng.below(bytes.len())])),
                }
            }
            let Some(layout) = Layout::of(&script) else { continue };
            let starts: Vec<usize> =
                (0..script.len()).filter(|at| layout.is_start(*at)).chain([script.len()]).collect();
            let code_start = starts[rng.below(starts.len())];
            let signatures: Vec<&[u8]> = signatures.iter().map(|signature| &signature[..]).collect();
            let have = layout.clean(&script, code_start, signatures.iter().copied());
            let (want, has_deleted) = plain(&script[code_start..], &signatures);
            assert_eq!(
                (have.bytes, have.has_deleted),
                (want, has_deleted),
                "{script:02x?} from {code_start}, {signatures:02x?}"
            );
            deleted += usize::from(has_deleted);
        }
        assert!(deleted > 100, "{deleted} scripts had a signature");
    }
}
