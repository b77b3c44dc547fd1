//! A snapshot that arrives in chunks from the peers of this sync (BIP 452), as a stream for the loader.
//!
//! Absent on purpose: which peer sends which chunk, and the hash of each chunk (`p2p::hub::set_download`).

use super::stream::{Got, SnapshotStream};
use crate::fault::Message;
use p2p::SetExchange;
use p2p::set_exchange::Chunk;
use p2p::utxo_sets::CHUNK_BYTES;
use primitives::BlockHash;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The stream ends with an error after this time without a chunk.
const PATIENCE: Duration = Duration::from_secs(180);

/// The stream.
#[derive(Debug)]
pub(crate) struct PeerStream {
    exchange: Arc<SetExchange>,
    offset: u64,
    /// The chunk at the offset, and its index.
    chunk: Option<(u32, Chunk)>,
    patience: Duration,
    /// When a chunk last arrived.
    heard_at: Instant,
}

impl PeerStream {
    /// Begins to fetch the set of this block.
    pub(crate) fn new(exchange: Arc<SetExchange>, base: BlockHash) -> PeerStream {
        exchange.want(base);
        PeerStream { exchange, offset: 0, chunk: None, patience: PATIENCE, heard_at: Instant::now() }
    }

    fn waiting(&self) -> Result<Got, Message> {
        if self.heard_at.elapsed() < self.patience {
            return Ok(Got::Waiting);
        }
        let seconds = self.patience.as_secs();
        let why = match self.exchange.bytes() {
            None => format!("no peer offers this snapshot: no answer within {seconds} s"),
            Some(_) => format!("no peer sent a chunk of the snapshot for {seconds} s"),
        };
        let advice = "Name a node that serves it with --addnode (its files are in the directory share), or name a file or URL; \
                      the same command continues with the data already received";
        Err(Message::new(why, advice))
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        self.exchange.end();
    }
}

impl SnapshotStream for PeerStream {
    fn name(&self) -> String {
        "peers".to_owned()
    }

    fn bytes(&self) -> Option<u64> {
        self.exchange.bytes()
    }

    fn can_seek(&self) -> bool {
        true
    }

    fn seek(&mut self, offset: u64) -> Result<(), Message> {
        self.offset = offset;
        self.chunk = None;
        self.heard_at = Instant::now();
        Ok(())
    }

    fn read(&mut self, out: &mut [u8], patience: Duration) -> Result<Got, Message> {
        let Some(bytes) = self.exchange.wait_for_bytes(patience) else { return self.waiting() };
        if self.offset >= bytes {
            return Ok(Got::End);
        }
        let index = u32::try_from(self.offset / CHUNK_BYTES as u64).unwrap_or(u32::MAX);
        if self.chunk.as_ref().is_none_or(|(of, _)| *of != index) {
            match self.exchange.take(index, patience) {
                Some(chunk) => self.chunk = Some((index, chunk)),
                // The bytes do not form a complete set, so the loader asks for another one.
                None if self.exchange.is_cut() => return Ok(Got::End),
                None => return self.waiting(),
            }
            self.heard_at = Instant::now();
        }
        let Some((_, chunk)) = &self.chunk else { return self.waiting() };
        let start = usize::try_from(self.offset % CHUNK_BYTES as u64).expect("less than a chunk");
        let rest = chunk.bytes().get(start..).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.offset += count as u64;
        Ok(if count == 0 { Got::End } else { Got::Bytes(count) })
    }

    fn notes(&mut self) -> Vec<String> {
        self.exchange.notes()
    }

    fn try_others(&mut self) -> Option<String> {
        self.chunk = None;
        self.offset = 0;
        self.heard_at = Instant::now();
        let how = "Peers offer another set of this block, which is fetched now";
        self.exchange.refute().then(|| how.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_without_a_peer_waits_and_says_why_it_ends() {
        let exchange = Arc::new(SetExchange::default());
        let mut stream = PeerStream::new(exchange.clone(), BlockHash::from_bytes([7; 32]));
        let mut out = [0; 8];
        assert_eq!(stream.read(&mut out, Duration::ZERO).unwrap(), Got::Waiting);
        assert!(stream.bytes().is_none() && stream.try_others().is_none());
        stream.patience = Duration::ZERO;
        let why = stream.read(&mut out, Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("no peer offers this snapshot"), "{why}");
    }
}
