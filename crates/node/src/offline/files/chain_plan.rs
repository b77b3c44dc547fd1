//! A plan: the part of the block index that ranges of a chain need, in one file by height. Each range reads its own
//! part.
//!
//! ```text
//! head         "ffwdplan" | version u32 | magic of the network [u8; 4] | blocks u32 | hash of the last block 32
//! ancestors    of each block from the genesis block on: time u32 | nBits u32
//! checksum     SHA-256 of all before, 32
//! places       of each block: version i32 | parent 32 | merkle root 32 | nonce u32 | bytes of the block u32, about
//!                | file u32 | place of the block in it u32, 0 where it is not stored | place of its undo data u32, likewise
//! ```
//!
//! Numbers are little endian. File positions have no checksum, because a range reads few of them: damaged headers have
//! no proof of work or do not link, and data at a wrong position does not match the block's header.

use crate::fault::Fault;
use crate::offline::files::chain_rules::{put_ancestors, read_ancestors};
use crate::offline::files::chain_source::{ChainBlock, ChainSource, IndexSource};
use crate::options::Options;
use consensus::Params;
use consensus::header::Ancestor;
use disk::{Disk, DiskFile, RealDisk};
use kernels::Kernels;
use kernels::sha256::sha256;
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Hash256, Header, Height};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use store::FilePos;

const MAGIC: &[u8; 8] = b"ffwdplan";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 8 + 4 + 4 + 4 + 32;
const ANCESTOR_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 32;
const PLACE_BYTES: usize = 4 + 32 + 32 + 4 + 4 + 12;
/// Number of rows read at a time.
const ROWS_AT_ONCE: usize = 1024;

/// Makes the plan of a data directory's whole chain.
///
/// # Errors
///
/// There is no block index, or it is damaged; an I/O error.
pub fn encode_plan(options: &Options) -> Result<Vec<u8>, Fault> {
    encode(&options.params, &IndexSource::open(options)?)
}

fn encode(params: &Params, source: &dyn ChainSource) -> Result<Vec<u8>, Fault> {
    let (height, hash) = source.tip();
    let count = height.to_usize() + 1;
    let mut out = Vec::with_capacity(HEAD_BYTES + CHECKSUM_BYTES + count * (ANCESTOR_BYTES + PLACE_BYTES));
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&params.magic);
    out.extend_from_slice(&(height.to_u32() + 1).to_le_bytes());
    out.extend_from_slice(hash.as_bytes());
    put_ancestors(&mut out, &source.ancestors(count)?);
    let checksum = sha256(&out);
    out.extend_from_slice(&checksum);
    for start in (0..count).step_by(ROWS_AT_ONCE) {
        for place in source.places(start..count.min(start + ROWS_AT_ONCE))? {
            put_place(&mut out, &place);
        }
    }
    Ok(out)
}

fn put_place(out: &mut Vec<u8>, place: &ChainBlock) {
    let header = &place.header;
    out.extend_from_slice(&header.version().to_le_bytes());
    out.extend_from_slice(header.prev().as_bytes());
    out.extend_from_slice(&header.merkle_root().0);
    // Both are in one file.
    let file = place.data.or(place.undo).map_or(0, |at| at.file);
    let offset = |at: Option<FilePos>| at.map_or(0, |at| at.offset);
    for number in [header.nonce(), place.bytes, file, offset(place.data), offset(place.undo)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// An open plan.
pub(crate) struct PlanFile {
    file: Arc<dyn DiskFile>,
    tip: (Height, BlockHash),
    kernels: Kernels,
}

impl PlanFile {
    /// Opens the plan of a chain of this network.
    ///
    /// # Errors
    ///
    /// It is not a plan, of another network, or damaged; an I/O error.
    pub(crate) fn open(path: &Path, params: &Params, kernels: Kernels) -> Result<PlanFile, Fault> {
        PlanFile::of(RealDisk.open(path).map_err(store::Fault::from)?, params, kernels)
    }

    fn of(file: Arc<dyn DiskFile>, params: &Params, kernels: Kernels) -> Result<PlanFile, Fault> {
        let bad = |found: &str| bad(&*file, found);
        let mut head = [0; HEAD_BYTES];
        if file.read_at(0, &mut head).map_err(store::Fault::from)? < HEAD_BYTES || head[..8] != MAGIC[..] {
            return Err(bad("another file"));
        }
        let number = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("four bytes of the head"));
        if number(8) != VERSION {
            return Err(bad(&format!("one of version {}, of another ffwd", number(8))));
        }
        if head[12..16] != params.magic {
            return Err(bad("one of another network"));
        }
        let count = number(16);
        let bytes = HEAD_BYTES + CHECKSUM_BYTES + count as usize * (ANCESTOR_BYTES + PLACE_BYTES);
        let there = file.len().map_err(store::Fault::from)?;
        if count == 0 || there != bytes as u64 {
            return Err(bad(&format!("{there} bytes: it was cut, or is not complete")));
        }
        let hash = BlockHash::from_bytes(*head[20..].first_chunk().expect("a hash is in the head"));
        let tip = (Height::new(count - 1), hash);
        Ok(PlanFile { file, tip, kernels })
    }

    fn count(&self) -> usize {
        self.tip.0.to_usize() + 1
    }

    fn read(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, Fault> {
        let mut out = vec![0; bytes];
        self.file.read_exact_at(offset as u64, &mut out).map_err(store::Fault::from)?;
        Ok(out)
    }
}

/// Reads arbitrary bytes as a plan of the main network: unchanged, and with corrected header, length and checksum.
#[cfg(any(test, feature = "testing"))]
pub fn fuzz_plan(data: &[u8]) {
    let params = Params::new(consensus::Chain::Main);
    let row_bytes = ANCESTOR_BYTES + PLACE_BYTES;
    let rows = &data[..data.len() / row_bytes * row_bytes];
    let count = rows.len() / row_bytes;
    let mut right = [&MAGIC[..], &VERSION.to_le_bytes(), &params.magic, &(count as u32).to_le_bytes()].concat();
    right.resize(HEAD_BYTES, 7);
    right.extend_from_slice(&rows[..count * ANCESTOR_BYTES]);
    let checksum = sha256(&right);
    right.extend_from_slice(&checksum);
    right.extend_from_slice(&rows[count * ANCESTOR_BYTES..]);
    for bytes in [data, &right] {
        let file: Arc<dyn DiskFile> = Arc::new(disk::MemoryFile::new("plan"));
        file.write_at(0, bytes).expect("a file in memory takes all");
        let Ok(plan) = PlanFile::of(file, &params, Kernels::AUTO) else { continue };
        for count in [0, 1, plan.count()] {
            let _ = plan.ancestors(count);
            let _ = plan.places(plan.count() - count..plan.count());
        }
    }
}

fn bad(file: &dyn DiskFile, found: &str) -> Fault {
    let path = file.path().display();
    let why = format!("{path}: wanted a plan of this chain, found {found}");
    Fault::refused(why, "Make one with ffwd audit plan --out")
}

impl ChainSource for PlanFile {
    fn tip(&self) -> (Height, BlockHash) {
        self.tip
    }

    fn ancestors(&self, count: usize) -> Result<Vec<Ancestor>, Fault> {
        let end = HEAD_BYTES + self.count() * ANCESTOR_BYTES;
        let bytes = self.read(0, end + CHECKSUM_BYTES)?;
        if sha256(&bytes[..end])[..] != bytes[end..] {
            return Err(bad(&*self.file, "bytes whose checksum does not fit: it was damaged"));
        }
        Ok(read_ancestors(&bytes[HEAD_BYTES..HEAD_BYTES + count * ANCESTOR_BYTES]))
    }

    fn places(&self, heights: Range<usize>) -> Result<Vec<ChainBlock>, Fault> {
        let start = HEAD_BYTES + self.count() * ANCESTOR_BYTES + CHECKSUM_BYTES;
        let mut places = Vec::with_capacity(heights.len());
        for from in heights.clone().step_by(ROWS_AT_ONCE) {
            let count = ROWS_AT_ONCE.min(heights.end - from);
            let rows = self.read(start + from * PLACE_BYTES, count * PLACE_BYTES)?;
            let ancestors = self.read(HEAD_BYTES + from * ANCESTOR_BYTES, count * ANCESTOR_BYTES)?;
            put_places(self.kernels, &mut places, rows.as_chunks().0, &read_ancestors(&ancestors));
        }
        Ok(places)
    }
}

/// Appends the file positions in rows, with their hashes.
fn put_places(kernels: Kernels, out: &mut Vec<ChainBlock>, rows: &[[u8; PLACE_BYTES]], ancestors: &[Ancestor]) {
    let from = out.len();
    let mut headers: Vec<[u8; HEADER_BYTES]> = Vec::with_capacity(rows.len());
    for (row, ancestor) in rows.iter().zip(ancestors) {
        let number = |at: usize| u32::from_le_bytes(*row[at..].first_chunk().expect("four bytes of the row"));
        let hash = |at: usize| *row[at..].first_chunk().expect("a hash is in the row");
        let version = number(0).cast_signed();
        let prev = BlockHash::from_bytes(hash(4));
        let root = Hash256(hash(36));
        let header = Header::new(version, prev, root, ancestor.time, ancestor.bits, number(68));
        let pos = |offset: u32| (offset > 0).then_some(FilePos { file: number(76), offset });
        headers.push(header.0);
        let data = pos(number(80));
        let undo = pos(number(84));
        out.push(ChainBlock { hash: BlockHash::ZERO, header, data, undo, bytes: number(72) });
    }
    let mut hashes = vec![[0; 32]; headers.len()];
    kernels.sha256d_80(&headers, &mut hashes);
    for (place, hash) in out[from..].iter_mut().zip(hashes) {
        place.hash = BlockHash::from_bytes(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use disk::SimDisk;
    use testkit::Rng;

    /// A chain in memory.
    struct Known(Vec<ChainBlock>);

    impl ChainSource for Known {
        fn tip(&self) -> (Height, BlockHash) {
            (Height::from_index(self.0.len() - 1), self.0[self.0.len() - 1].hash)
        }

        fn ancestors(&self, count: usize) -> Result<Vec<Ancestor>, Fault> {
            let of = |place: &ChainBlock| Ancestor { time: place.header.time(), bits: place.header.bits() };
            Ok(self.0[..count].iter().map(of).collect())
        }

        fn places(&self, heights: Range<usize>) -> Result<Vec<ChainBlock>, Fault> {
            Ok(self.0[heights].to_vec())
        }
    }

    fn known(count: usize) -> Known {
        let mut rng = Rng::new(11);
        let place = |rng: &mut Rng| {
            let header = Header(std::array::from_fn(|_| rng.byte()));
            let file = rng.u32() % 9000;
            let mut pos = || (!rng.one_in(4)).then(|| FilePos { file, offset: 8 + rng.u32() / 2 });
            let (data, undo) = (pos(), pos());
            ChainBlock { hash: header.hash(), header, data, undo, bytes: rng.u32() }
        };
        Known((0..count).map(|_| place(&mut rng)).collect())
    }

    fn stored(bytes: &[u8]) -> Arc<dyn DiskFile> {
        let disk = SimDisk::new(0).shared();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let file = disk.create(Path::new("/d/plan")).unwrap();
        file.write_at(0, bytes).unwrap();
        file
    }

    #[test]
    fn a_plan_says_what_its_source_says() {
        let params = Params::new(Chain::Main);
        for count in [1, 2, 1023, 1024, 1025, 2500] {
            let known = known(count);
            let plan = PlanFile::of(stored(&encode(&params, &known).unwrap()), &params, Kernels::AUTO).unwrap();
            assert_eq!(plan.tip(), known.tip());
            for end in [1, count / 2, count] {
                assert_eq!(plan.ancestors(end).unwrap(), known.ancestors(end).unwrap());
            }
            for range in [0..count, count / 3..count / 2, count - 1..count, 0..0] {
                assert_eq!(plan.places(range.clone()).unwrap(), known.places(range).unwrap());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_as_a_plan_or_refused() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let count = rng.u32() % 2000;
            let bytes: Vec<u8> = (0..count).map(|_| rng.byte()).collect();
            fuzz_plan(&bytes);
        }
    }

    #[test]
    fn what_is_no_plan_of_this_chain_is_refused() {
        let params = Params::new(Chain::Main);
        let good = encode(&params, &known(7)).unwrap();
        let changed = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        };
        for (row, bytes, want) in [
            ("empty", Vec::new(), "another file"),
            ("another file", vec![7; 900], "another file"),
            ("another version", changed(8), "version"),
            ("another network", changed(12), "another network"),
            ("another count", changed(16), "cut"),
            ("cut", good[..good.len() - 1].to_vec(), "cut"),
            ("longer", [&good[..], &[0]].concat(), "cut"),
            ("no blocks", [&good[..16], &[0; 4], &good[20..HEAD_BYTES], &[0; 32]].concat(), "cut"),
        ] {
            let why = PlanFile::of(stored(&bytes), &params, Kernels::AUTO).map(drop).unwrap_err().to_string();
            assert!(why.contains(want) && why.contains("/d/plan"), "{row}: {why}");
        }
        let damaged = PlanFile::of(stored(&changed(HEAD_BYTES + 9)), &params, Kernels::AUTO).unwrap();
        assert!(damaged.ancestors(1).unwrap_err().to_string().contains("checksum"));
    }
}
