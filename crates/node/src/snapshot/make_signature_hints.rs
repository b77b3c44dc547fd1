//! `hints make --signatures`: the parity of R of each input's ECDSA signature, as a file of
//! [`store::signature_hints`].
//!
//! Each block is read once with its undo data, and its scripts run, but no signature is verified: wrong hints do no
//! harm. Absent on purpose: the use of the file, in the stages of the pipeline and of an audit.

use super::dump::begin;
use super::unfinished::{Claim, new_file};
use crate::fault::Fault;
use crate::offline::files::{self, ChainFiles, Needs};
use crate::options::Options;
use crate::reporting::Events;
use crate::threads::shares::in_order;
use primitives::{BlockHash, Height};
use std::path::{Path, PathBuf};
use store::signature_hints::Writer;

/// Result of the command.
#[derive(Clone, Debug)]
pub struct SignatureHintsReport {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Height of the last block.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Number of inputs, without the coinbases'.
    pub inputs: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Writes the hints of the best chain.
///
/// # Errors
///
/// The file exists or cannot be written, blocks or undo data are missing, this processor has no vector lanes for
/// signatures, damage, or an I/O error.
pub fn make_signature_hints(options: &Options, path: &Path, events: Events<'_>) -> Result<SignatureHintsReport, Fault> {
    let path = new_file(&*options.disk, path)?;
    let (locked, reporter, _) = begin(options, events)?;
    let mut chain = ChainFiles::open(options, Height::GENESIS, None, Needs::Rules, None)?;
    chain.hints = None; // No signature is verified.
    let last = chain.last();
    let claim = Claim::take(&locked.disk, &path)?;
    let unfinished = claim.create()?;
    let mut writer = Writer::new(unfinished.file.clone(), last);
    let work = |share: usize| {
        let height = Height::new(share as u32 + 1);
        let hash = chain.hash(height);
        let made = files::judge(&chain, height).and_then(|judged| files::hints(&judged));
        match made.map_err(|why| of_block(height, &hash, why))? {
            Some(hints) => Ok((hash, hints)),
            None => Err(Fault::refused(
                "this processor has no vector lanes for signatures, which find their hints",
                "Make the file on a machine with AVX2, or go on without it",
            )),
        }
    };
    let mut inputs = 0;
    in_order(options.par, last.to_usize(), work, |(hash, hints)| {
        inputs += hints.len() as u64;
        Ok(writer.put(&hash, &hints)?)
    })?;
    let bytes = writer.finish()?;
    unfinished.finish()?;
    let best = chain.hash(last);
    Ok(SignatureHintsReport { path, height: last, best, inputs, bytes, seconds: reporter.seconds() })
}

/// The fault of a block that has no hints.
fn of_block(height: Height, hash: &BlockHash, why: files::Wrong) -> Fault {
    match why {
        files::Wrong::Fault(fault) => fault,
        why => Fault::refused(
            format!("block {hash} at height {height}: {why}"),
            "Run ffwd repair, or ffwd reindex if that finds nothing",
        ),
    }
}
