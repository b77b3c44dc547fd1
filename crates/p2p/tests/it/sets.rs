//! A UTXO set of several chunks over sockets (BIP 452): from two nodes, one of which has a false chunk.

use crate::node::Node;
use crate::{S, chain_of, config};
use p2p::sim::Chain;
use p2p::utxo_sets::CHUNK_BYTES;
use p2p::{ChunkTree, Config, Outbound, SetExchange, SetSource};
use primitives::{BlockHash, Hash256};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

const BASE: BlockHash = BlockHash::from_bytes([4; 32]);
const CHUNKS: usize = 5;

/// A set in memory; what is read of it may differ from what its tree says.
#[derive(Debug)]
struct Set {
    bytes: Vec<u8>,
    tree: Arc<ChunkTree>,
}

impl SetSource for Set {
    fn bases(&self) -> Vec<BlockHash> {
        vec![BASE]
    }

    fn tree(&self, base: &BlockHash) -> Option<Arc<ChunkTree>> {
        (*base == BASE).then(|| Arc::clone(&self.tree))
    }

    fn read(&self, _: &BlockHash, offset: u64, out: &mut [u8]) -> bool {
        let found = self.bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        found.map(|bytes| out.copy_from_slice(bytes)).is_some()
    }
}

fn serving(chain: &Arc<Chain>, set: Set) -> (Node, SocketAddr) {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let node = Node::start(Config { listen, utxo_sets: Some(Arc::new(set)), ..config() }, Arc::clone(chain));
    let address = node.network.listening()[0];
    (node, address)
}

#[test]
fn a_set_comes_over_sockets_and_a_false_chunk_ends_the_connection() {
    let chain = chain_of(3, 100);
    let bytes: Vec<u8> = (0..CHUNKS * CHUNK_BYTES - 9).map(|at| (at / 4096) as u8 ^ at as u8).collect();
    let hashes = bytes.chunks(CHUNK_BYTES).map(|chunk| Hash256(kernels::sha256::sha256d(chunk))).collect();
    let tree = Arc::new(ChunkTree { version: 2, bytes: bytes.len() as u64, hashes });
    let mut wrong = bytes.clone();
    wrong.iter_mut().step_by(CHUNK_BYTES).for_each(|byte| *byte ^= 1);
    let (_good, good) = serving(&chain, Set { bytes: bytes.clone(), tree: Arc::clone(&tree) });
    let (_liar, liar) = serving(&chain, Set { bytes: wrong, tree });
    let exchange = Arc::new(SetExchange::default());
    exchange.want(BASE);
    let connect = [liar, good].map(|address| address.to_string()).to_vec();
    let set_exchange = Some(Arc::clone(&exchange));
    let node = Node::start(Config { outbound: Outbound::Only(connect), set_exchange, ..config() }, Arc::default());
    let (begun, mut got) = (Instant::now(), Vec::new());
    for index in 0..CHUNKS as u32 {
        let chunk = exchange.take(index, 60 * S).unwrap_or_else(|| panic!("chunk {index}: {}", node.state()));
        got.extend_from_slice(chunk.bytes());
    }
    assert!(got == bytes, "{} bytes in {:?}", got.len(), begun.elapsed());
    let is_found = |node: &Node| node.gone.lock().unwrap().iter().any(|(_, reason)| reason.is_offence());
    assert!(node.wait(10 * S, is_found), "{}", node.state());
}
