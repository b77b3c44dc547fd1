//! Blocks as in a typical library: every transaction, input, output and script is an object, read and written field by
//! field through `Read` and `Write`. The baseline for ffwd's tables of offsets.
//!
//! Absent on purpose: optimization. It is not artificially slow either.

use kernels::sha256::Sha256;
use primitives::encode::{COMPACT_SIZE_MAX, compact_size_bytes};
use primitives::{Hash256, OutPoint, Txid};
use std::io::{self, Read, Write};

/// Scripts and witness items are read in pieces of this many bytes, so that a false length allocates little.
/// Source: Bitcoin Core b88bffe, `MAX_VECTOR_ALLOCATE` in serialize.h.
const PIECE_BYTES: usize = 5_000_000;

pub(crate) struct Block {
    pub(crate) header: Header,
    pub(crate) transactions: Vec<Transaction>,
}

pub(crate) struct Header {
    pub(crate) version: i32,
    pub(crate) prev: Txid,
    pub(crate) merkle_root: Hash256,
    pub(crate) time: u32,
    pub(crate) bits: u32,
    pub(crate) nonce: u32,
}

pub(crate) struct Transaction {
    pub(crate) version: u32,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) lock_time: u32,
}

pub(crate) struct Input {
    pub(crate) prevout: OutPoint,
    pub(crate) script_sig: Vec<u8>,
    pub(crate) sequence: u32,
    pub(crate) witness: Vec<Vec<u8>>,
}

pub(crate) struct Output {
    pub(crate) value: i64,
    pub(crate) script: Vec<u8>,
}

/// XORs the bytes that pass through it field by field, like Core's files.
pub(crate) struct Obfuscating<T> {
    pub(crate) inner: T,
    pub(crate) key: [u8; 8],
    pub(crate) at: u64,
}

impl<R: Read> Read for Obfuscating<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        kernels::Kernels::AUTO.xor(&mut out[..count], self.key, self.at);
        self.at += count as u64;
        Ok(count)
    }
}

impl<W: Write> Write for Obfuscating<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut piece = [0; 4096];
        let count = bytes.len().min(piece.len());
        piece[..count].copy_from_slice(&bytes[..count]);
        kernels::Kernels::AUTO.xor(&mut piece[..count], self.key, self.at);
        self.inner.write_all(&piece[..count])?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Counts the written bytes.
#[derive(Default)]
pub(crate) struct Counter(pub(crate) u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes the written bytes.
#[derive(Clone)]
pub(crate) struct Hasher(pub(crate) Sha256);

impl Hasher {
    pub(crate) fn new() -> Hasher {
        Hasher(Sha256::new())
    }

    /// The double SHA-256.
    pub(crate) fn finish(self) -> [u8; 32] {
        kernels::sha256::sha256(&self.0.finalize())
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    Ok(u32::from_le_bytes(array(from)?))
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(crate) fn read_compact_size(from: &mut impl Read) -> io::Result<u64> {
    let [first] = array(from)?;
    let value = match first {
        253 => u64::from(u16::from_le_bytes(array(from)?)),
        254 => u64::from(read_u32(from)?),
        255 => u64::from_le_bytes(array(from)?),
        small => u64::from(small),
    };
    let bytes = [1, 3, 5, 9][usize::from(first.saturating_sub(252))];
    if compact_size_bytes(value) != bytes || value > COMPACT_SIZE_MAX {
        return Err(bad("a CompactSize too long or too large"));
    }
    Ok(value)
}

pub(crate) fn write_compact_size(to: &mut impl Write, value: u64) -> io::Result<()> {
    match value {
        0..=252 => to.write_all(&[value as u8]),
        253..=0xffff => {
            to.write_all(&[253])?;
            to.write_all(&(value as u16).to_le_bytes())
        }
        0x1_0000..=0xffff_ffff => {
            to.write_all(&[254])?;
            to.write_all(&(value as u32).to_le_bytes())
        }
        _ => {
            to.write_all(&[255])?;
            to.write_all(&value.to_le_bytes())
        }
    }
}

/// A byte string, read in pieces, because its length is untrusted.
pub(crate) fn read_bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let count = read_compact_size(from)? as usize;
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let have = bytes.len();
        bytes.resize(have + (count - have).min(PIECE_BYTES), 0);
        from.read_exact(&mut bytes[have..])?;
    }
    Ok(bytes)
}

pub(crate) fn write_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write_compact_size(to, bytes.len() as u64)?;
    to.write_all(bytes)
}

fn read_many<R: Read, T>(from: &mut R, one: impl Fn(&mut R) -> io::Result<T>) -> io::Result<Vec<T>> {
    (0..read_compact_size(from)?).map(|_| one(from)).collect()
}

impl Block {
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Block> {
        let header = Header {
            version: i32::from_le_bytes(array(from)?),
            prev: Txid::from_bytes(array(from)?),
            merkle_root: Hash256(array(from)?),
            time: read_u32(from)?,
            bits: read_u32(from)?,
            nonce: read_u32(from)?,
        };
        Ok(Block { header, transactions: read_many(from, Transaction::read)? })
    }

    pub(crate) fn write(&self, to: &mut impl Write, witness: bool) -> io::Result<()> {
        self.header.write(to)?;
        write_compact_size(to, self.transactions.len() as u64)?;
        self.transactions.iter().try_for_each(|tx| tx.write(to, witness))
    }
}

impl Header {
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.version.to_le_bytes())?;
        to.write_all(self.prev.as_bytes())?;
        to.write_all(&self.merkle_root.0)?;
        [self.time, self.bits, self.nonce].iter().try_for_each(|field| to.write_all(&field.to_le_bytes()))
    }
}

impl Transaction {
    pub(crate) fn read<R: Read>(from: &mut R) -> io::Result<Transaction> {
        let version = read_u32(from)?;
        let mut inputs = read_many(from, Input::read)?;
        let mut flag = 0;
        if inputs.is_empty() {
            [flag] = array(from)?;
            if flag != 1 {
                return Err(bad("a flag that is not known"));
            }
            inputs = read_many(from, Input::read)?;
        }
        let outputs = read_many(from, Output::read)?;
        if flag == 1 {
            for input in &mut inputs {
                input.witness = read_many(from, |from| read_bytes(from))?;
            }
        }
        Ok(Transaction { version, inputs, outputs, lock_time: read_u32(from)? })
    }

    pub(crate) fn has_witness(&self) -> bool {
        self.inputs.iter().any(|input| !input.witness.is_empty())
    }

    pub(crate) fn write(&self, to: &mut impl Write, witness: bool) -> io::Result<()> {
        let witness = witness && self.has_witness();
        to.write_all(&self.version.to_le_bytes())?;
        if witness {
            to.write_all(&[0])?;
            to.write_all(&[1])?;
        }
        write_compact_size(to, self.inputs.len() as u64)?;
        self.inputs.iter().try_for_each(|input| input.write(to))?;
        write_compact_size(to, self.outputs.len() as u64)?;
        for output in &self.outputs {
            to.write_all(&output.value.to_le_bytes())?;
            write_bytes(to, &output.script)?;
        }
        if witness {
            for input in &self.inputs {
                write_compact_size(to, input.witness.len() as u64)?;
                input.witness.iter().try_for_each(|item| write_bytes(to, item))?;
            }
        }
        to.write_all(&self.lock_time.to_le_bytes())
    }

    /// The id, computed like Core does after reading a transaction: field by field into a hasher.
    pub(crate) fn txid(&self) -> Txid {
        let mut hasher = Hasher::new();
        self.write(&mut hasher, false).expect("hashing cannot fail");
        Txid::from_bytes(hasher.finish())
    }
}

impl Input {
    fn read<R: Read>(from: &mut R) -> io::Result<Input> {
        let prevout = OutPoint { txid: Txid::from_bytes(array(from)?), vout: read_u32(from)? };
        Ok(Input { prevout, script_sig: read_bytes(from)?, sequence: read_u32(from)?, witness: Vec::new() })
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(self.prevout.txid.as_bytes())?;
        to.write_all(&self.prevout.vout.to_le_bytes())?;
        write_bytes(to, &self.script_sig)?;
        to.write_all(&self.sequence.to_le_bytes())
    }
}

impl Output {
    fn read<R: Read>(from: &mut R) -> io::Result<Output> {
        Ok(Output { value: i64::from_le_bytes(array(from)?), script: read_bytes(from)? })
    }
}
