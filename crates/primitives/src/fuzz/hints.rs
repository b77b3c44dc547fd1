//! Bytes of any kind as hints: the lists that a plain reader finds, or a refusal where it has one.

use super::Plain;
use crate::Reader;
use crate::hints::{self, OUTPUTS_MAX, header, put_list, read_header, read_list};

/// Lists that are read: a height may say more than there are bytes.
const LISTS_MAX: u32 = 1000;

/// Reads a whole file.
pub fn fuzz_hints(data: &[u8]) {
    let mut reader = Reader::new(data);
    let Ok(height) = read_header(&mut reader) else {
        let begins = data.starts_with(&hints::MAGIC) && data.get(4) == Some(&hints::VERSION) && data.len() >= 9;
        assert!(!begins || data[8] > 0, "a header that is one");
        return;
    };
    assert_eq!(data[..hints::HEADER_BYTES], header(height));
    let mut plain = Plain(&data[hints::HEADER_BYTES..]);
    for _ in 0..height.to_u32().min(LISTS_MAX) {
        let start = reader.offset();
        match (read_list(&mut reader), plain_list(&mut plain)) {
            (Ok(list), Some(wanted)) => {
                assert_eq!(list, wanted);
                let mut again = Vec::new();
                put_list(&mut again, &list);
                assert_eq!(again, reader.since(start), "one form only");
            }
            (Err(_), None) => return,
            (read, wanted) => panic!("{read:?}, and the plain reader says {wanted:?}"),
        }
    }
}

/// Bit by bit, as the BIP says it.
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
        // The lists end together: what stands behind either is wrong.
        (!padding.contains(&true)).then(|| bits.to_vec())
    };
    let (lows, highs) = (bits(count * low)?, bits(count + (greatest >> low))?);
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
    use crate::Height;

    /// Good files, and such with some bytes changed, cut off or put in.
    #[test]
    fn bent_hints_are_read_as_by_the_plain_reader() {
        let mut rng = testkit::Rng::new(9);
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
            fuzz_hints(&file);
        }
    }

    #[test]
    fn seeds_are_hints() {
        for seed in std::fs::read_dir("../../fuzz/seeds/hints").unwrap() {
            fuzz_hints(&std::fs::read(seed.unwrap().path()).unwrap());
        }
    }
}
