//! Arbitrary bytes as hints: the lists must be those of a plain reader, or an error if it has one.
//!
//! Data that begins like hints is a file. Otherwise the bytes after the first are choices of lists to make and mutate.

use super::Plain;
use super::choices::{Bend, Choices, bend};
use crate::hints::{self, OUTPUTS_MAX, header, put_list, read_header, read_list, skip_list};
use crate::{DecodeError, Height, Reader};

/// Maximum number of lists that are read: the height may promise more than the bytes contain.
const LISTS_MAX: u32 = 1000;
/// Maximum number of lists that are made.
const MADE_MAX: usize = 6;

/// Reads a whole file; returns the number of its non-empty lists, or the error.
///
/// # Errors
///
/// Those of [`read_list`].
pub fn fuzz_hints(data: &[u8]) -> Result<usize, DecodeError> {
    match data.split_first() {
        Some((first, choices)) if *first != hints::MAGIC[0] => {
            let (lists, file, bends) = made(choices);
            let read = read(&file);
            if bends.is_empty() {
                assert_eq!(read, Ok(lists.iter().filter(|list| !list.is_empty()).count()), "a file of lists is read");
            }
            read
        }
        _ => read(data),
    }
}

fn read(file: &[u8]) -> Result<usize, DecodeError> {
    let mut reader = Reader::new(file);
    let height = read_header(&mut reader).inspect_err(|_| {
        let begins = file.starts_with(&hints::MAGIC) && file.get(4) == Some(&hints::VERSION) && file.len() >= 9;
        assert!(!begins || file[8] > 0, "a header that is one");
    })?;
    assert_eq!(file[..hints::HEADER_BYTES], header(height));
    let mut plain = Plain(&file[hints::HEADER_BYTES..]);
    let mut count = 0;
    for _ in 0..height.to_u32().min(LISTS_MAX) {
        let start = reader.offset();
        let mut stepping = reader.clone();
        let stepped = skip_list(&mut stepping);
        match (read_list(&mut reader), plain_list(&mut plain)) {
            (Ok(list), Some(wanted)) => {
                assert_eq!(list, wanted);
                assert_eq!((stepped, stepping.offset()), (Ok(()), reader.offset()), "a step is as long as a list");
                let mut again = Vec::new();
                put_list(&mut again, &list);
                assert_eq!(again, reader.since(start), "one form only");
                count += usize::from(!list.is_empty());
            }
            (Err(why), None) => return Err(why),
            (read, wanted) => panic!("{read:?}, and the plain reader says {wanted:?}"),
        }
    }
    Ok(count)
}

/// Lists from choices, and a mutated file of them.
fn made(choices: &[u8]) -> (Vec<Vec<u32>>, Vec<u8>, Vec<Bend>) {
    let mut choices = Choices(choices);
    let bends = choices.bends();
    let lists: Vec<Vec<u32>> = (0..choices.below(MADE_MAX + 1)).map(|_| list(&mut choices)).collect();
    let mut file = header(Height::new(lists.len() as u32)).to_vec();
    lists.iter().for_each(|list| put_list(&mut file, list));
    bend(&mut file, &bends);
    (lists, file, bends)
}

/// A list: the number of indices, their minimum distance (times a power of two), then for each the additional distance.
fn list(choices: &mut Choices<'_>) -> Vec<u32> {
    let count = u32::from(choices.byte());
    let shape = choices.byte();
    // Lengths up to some thousand, and distances up to half of the possible range.
    let count = count << (shape >> 5 & 3);
    let apart = shape & 15;
    let mut next = 0;
    let mut list = Vec::new();
    for _ in 0..count {
        let index = next + (u32::from(choices.byte()) << apart >> 3);
        if index as usize >= OUTPUTS_MAX {
            break;
        }
        list.push(index);
        next = index + 1;
    }
    list
}

/// Bit by bit, as specified in the BIP.
fn plain_list(plain: &mut Plain<'_>) -> Option<Vec<u32>> {
    let count = plain.size()?;
    if count == 0 {
        return Some(Vec::new());
    }
    let greatest = plain.size()?;
    if greatest >= OUTPUTS_MAX as u64 || count > greatest + 1 {
        return None;
    }
    let mut low = 0;
    while 2 << low <= (greatest + 1) / count {
        low += 1;
    }
    let mut bits = |count: u64| -> Option<Vec<bool>> {
        let bytes = plain.take(count.div_ceil(8))?;
        let all: Vec<bool> = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte & 1 << bit != 0)).collect();
        let (bits, padding) = all.split_at(count as usize);
        // The lists end together: padding bits that are set are wrong.
        (!padding.contains(&true)).then(|| bits.to_vec())
    };
    let lows = bits(count * low)?;
    let highs = bits(count + (greatest >> low))?;
    let mut list = Vec::new();
    for (place, _) in highs.iter().enumerate().filter(|(_, bit)| **bit) {
        let number = list.len();
        let rest = lows.get(number * low as usize..(number + 1) * low as usize)?;
        let rest = rest.iter().rev().fold(0, |sum, bit| sum << 1 | u32::from(*bit));
        list.push(((place - number) as u32) << low | rest);
    }
    let is_whole = list.len() as u64 == count && list.last().is_some_and(|last| u64::from(*last) == greatest);
    (is_whole && list.is_sorted_by(|a, b| a < b)).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Good files, and such with some bytes changed, cut off or put in.
    #[test]
    fn bent_hints_are_read_as_by_the_plain_reader() {
        let mut rng = testkit::Rng::new(9);
        let mut met = BTreeSet::new();
        for round in 0..if testkit::is_slow() { 200_000 } else { 3000 } {
            let lists = rng.below(6) as u32;
            let mut file = header(Height::new(lists)).to_vec();
            for _ in 0..lists {
                let (end, one_in) = (rng.below(300) as u32, 1 + rng.below(20));
                let list: Vec<u32> = (0..end).filter(|_| rng.one_in(one_in)).collect();
                put_list(&mut file, &list);
            }
            for _ in 0..round % 4 {
                let at = rng.below(file.len().max(1)).min(file.len() - 1);
                match rng.below(4) {
                    0 => file.truncate(at.max(1)),
                    1 => file.insert(at, rng.u64() as u8),
                    2 => file[at] = rng.u64() as u8,
                    _ => file[at] ^= 1 << rng.below(8),
                }
            }
            let _ = fuzz_hints(&file);
            // A byte that is no start of hints, then choices.
            let length = 1 + rng.below(400);
            let mut choices = rng.bytes(length);
            choices[0] = 1;
            met.insert(what(fuzz_hints(&choices)));
        }
        assert!(met.len() > 6, "{met:?}");
    }

    /// What came of it, in words.
    fn what(read: Result<usize, DecodeError>) -> String {
        match read {
            Ok(count) => format!("{} lists", count.min(2)),
            Err(DecodeError::Value { what, .. }) => what.to_owned(),
            Err(DecodeError::Cut { .. }) => "cut".to_owned(),
            Err(DecodeError::NonMinimal { .. }) => "not minimal".to_owned(),
            Err(DecodeError::TooLarge { .. }) => "too large".to_owned(),
            Err(why) => panic!("hints are not refused for {why}"),
        }
    }

    #[test]
    fn seeds_of_the_fuzzer_meet_every_refusal() {
        let (mut of_files, mut of_choices) = (BTreeSet::new(), BTreeSet::new());
        for data in testkit::fuzz_seeds("hints") {
            let met = if data.first() == Some(&hints::MAGIC[0]) { &mut of_files } else { &mut of_choices };
            met.insert(what(fuzz_hints(&data)));
        }
        assert!(of_files.contains("2 lists"), "{of_files:?}");
        for want in MET {
            assert!(of_choices.contains(want), "{want}: {of_choices:?}");
        }
    }

    const MET: [&str; 10] = [
        "0 lists",
        "1 lists",
        "2 lists",
        "cut",
        "not minimal",
        "too large",
        "a list of more outputs than a block can hold, or than come before its last",
        "a list with more indices than it counts",
        "a list whose indices do not rise",
        "a list with another last index than it says, or bits behind its end",
    ];
}
