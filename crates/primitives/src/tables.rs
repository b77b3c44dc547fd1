//! Offsets of all parts of a block: three tables, filled in one pass over its bytes.
//!
//! block:       header 80 | CompactSize count | transactions
//! transaction: version u32 | [00 01] | inputs | outputs | [a witness stack an input] | locktime u32
//! input:       txid 32 | vout u32 | CompactSize length, script | sequence u32
//! output:      value i64 | CompactSize length, script
//!
//! Filling does not allocate once the three vectors have grown. Absent on purpose: rules. The parser accepts and
//! refuses exactly what Core's parser does.

use crate::encode::{DecodeError, Reader};
use crate::header::HEADER_BYTES;
use kernels::Kernels;

/// Minimum sizes of an input, an output, a transaction: upper limits for a declared count.
const INPUT_BYTES_MIN: usize = 41;
const OUTPUT_BYTES_MIN: usize = 9;
const TRANSACTION_BYTES_MIN: usize = 10;

/// Offsets of a transaction. Its inputs and outputs end where the next transaction's begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransactionAt {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Offset of the witnesses; of the locktime without witnesses.
    pub(crate) witness: u32,
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    /// 6 with marker and flag, 4 without.
    pub(crate) body: u8,
}

impl TransactionAt {
    /// Bytes of the serialization without witness: version, body, locktime.
    #[inline]
    pub(crate) fn stripped_bytes(&self) -> usize {
        4 + (self.witness - self.start - u32::from(self.body)) as usize + 4
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct InputAt {
    pub(crate) start: u32,
    pub(crate) script: u32,
    pub(crate) script_bytes: u32,
    /// Offset of this input's witness stack; 0 if the transaction has no witness.
    pub(crate) witness: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputAt {
    pub(crate) start: u32,
    pub(crate) script: u32,
    pub(crate) script_bytes: u32,
}

/// Offsets of all parts of one block, or of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub(crate) transactions: Vec<TransactionAt>,
    pub(crate) inputs: Vec<InputAt>,
    pub(crate) outputs: Vec<OutputAt>,
    /// Bytes of the block or transaction.
    pub(crate) bytes: usize,
    /// Bytes of all transactions without their witnesses, summed while they are parsed.
    pub(crate) stripped_bytes: usize,
    /// The kernels that hash the transactions of a block parsed into them.
    pub(crate) kernels: Kernels,
}

impl Tables {
    /// Tables without capacity.
    pub fn new() -> Tables {
        Tables::default()
    }

    /// [`Tables::new`] with the kernels that hash the transactions.
    pub fn with(kernels: Kernels) -> Tables {
        Tables { kernels, ..Tables::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.transactions.clear();
        self.inputs.clear();
        self.outputs.clear();
        (self.bytes, self.stripped_bytes) = (0, 0);
    }

    /// Bytes held by the tables themselves.
    pub fn memory_bytes(&self) -> usize {
        self.transactions.capacity() * size_of::<TransactionAt>()
            + self.inputs.capacity() * size_of::<InputAt>()
            + self.outputs.capacity() * size_of::<OutputAt>()
    }

    pub(crate) fn fill_block(&mut self, bytes: &[u8]) -> Result<usize, DecodeError> {
        offset_fits(bytes)?;
        let mut reader = Reader::new(bytes);
        reader.take(HEADER_BYTES)?;
        let count = reader.compact_size()?;
        // A count beyond the bytes fails at the first missing transaction; this only limits memory.
        self.transactions.reserve(count.min(reader.remaining() / TRANSACTION_BYTES_MIN));
        for _ in 0..count {
            self.fill_transaction(&mut reader)?;
        }
        Ok(reader.offset())
    }

    pub(crate) fn fill_transaction(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let start = reader.offset();
        let mut at = TransactionAt {
            start: start as u32,
            inputs: self.inputs.len() as u32,
            outputs: self.outputs.len() as u32,
            body: 4,
            ..TransactionAt::default()
        };
        reader.take(4)?;
        let mut flag = 0;
        let mut inputs = reader.compact_size()?;
        if inputs == 0 {
            flag = reader.u8()?;
            if flag != 0 {
                at.body = 6;
                inputs = reader.compact_size()?;
            }
        }
        if inputs != 0 || flag != 0 {
            self.fill_inputs(reader, inputs)?;
            self.fill_outputs(reader)?;
        }
        at.witness = reader.offset() as u32;
        if flag & 1 != 0 {
            let any = self.fill_witnesses(reader, at.inputs as usize)?;
            if !any {
                return Err(DecodeError::SuperfluousWitness { offset: start });
            }
        }
        if flag > 1 {
            return Err(DecodeError::UnknownFlag { offset: start, flag });
        }
        reader.take(4)?;
        at.end = reader.offset() as u32;
        self.stripped_bytes += at.stripped_bytes();
        self.transactions.push(at);
        Ok(())
    }

    fn fill_inputs(&mut self, reader: &mut Reader<'_>, count: usize) -> Result<(), DecodeError> {
        self.inputs.reserve(count.min(reader.remaining() / INPUT_BYTES_MIN));
        for _ in 0..count {
            let start = reader.offset() as u32;
            reader.array::<36>()?;
            let script_bytes = reader.compact_size()?;
            let script = reader.offset() as u32;
            reader.take(script_bytes + 4)?;
            self.inputs.push(InputAt { start, script, script_bytes: script_bytes as u32, witness: 0 });
        }
        Ok(())
    }

    fn fill_outputs(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let count = reader.compact_size()?;
        self.outputs.reserve(count.min(reader.remaining() / OUTPUT_BYTES_MIN));
        for _ in 0..count {
            let start = reader.offset() as u32;
            reader.array::<8>()?;
            let script_bytes = reader.compact_size()?;
            let script = reader.offset() as u32;
            reader.take(script_bytes)?;
            self.outputs.push(OutputAt { start, script, script_bytes: script_bytes as u32 });
        }
        Ok(())
    }

    /// Returns whether any stack has an item.
    fn fill_witnesses(&mut self, reader: &mut Reader<'_>, first: usize) -> Result<bool, DecodeError> {
        let mut any = false;
        for input in &mut self.inputs[first..] {
            input.witness = reader.offset() as u32;
            let items = reader.compact_size()?;
            any |= items != 0;
            for _ in 0..items {
                let bytes = reader.compact_size()?;
                reader.take(bytes)?;
            }
        }
        Ok(any)
    }
}

/// Offsets are stored in 32 bits; no caller has more than Core's 32 MiB.
pub(crate) fn offset_fits(bytes: &[u8]) -> Result<(), DecodeError> {
    match u32::try_from(bytes.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(DecodeError::Value { offset: 0, what: "more than 4 GiB in one piece" }),
    }
}
