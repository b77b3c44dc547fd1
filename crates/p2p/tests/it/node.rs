//! A node over [`p2p::sim::Chain`]: does with events what a real one does, in a thread.

use p2p::sim::Chain;
use p2p::{BlockVerdict, ChainView, Config, Event, Network, PeerInfo, Peers, Reason};
use primitives::BlockHash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many blocks are asked for at a time.
const WANT_COUNT: usize = 2000;

/// A node that follows its peers.
pub(crate) struct Node {
    pub(crate) network: Arc<Network>,
    pub(crate) chain: Arc<Chain>,
    pub(crate) connected: Arc<Mutex<Vec<PeerInfo>>>,
    pub(crate) gone: Arc<Mutex<Vec<(String, Reason)>>>,
    addresses: Arc<OnceLock<Vec<u8>>>,
    blocks: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn start(config: Config, chain: Arc<Chain>) -> Node {
        Node::start_for(&Arc::default(), config, chain)
    }

    /// The same, for `peers` to ask.
    pub(crate) fn start_for(peers: &Arc<Peers>, config: Config, chain: Arc<Chain>) -> Node {
        let (sender, inbox) = channel();
        let view: Arc<dyn ChainView> = Arc::clone(&chain) as Arc<dyn ChainView>;
        let network = Arc::new(Network::start_for(Arc::clone(peers), config, view, sender).unwrap());
        let mut node = Node {
            network: Arc::clone(&network),
            chain: Arc::clone(&chain),
            connected: Arc::default(),
            gone: Arc::default(),
            addresses: Arc::default(),
            blocks: Arc::default(),
            thread: None,
        };
        let (connected, gone) = (Arc::clone(&node.connected), Arc::clone(&node.gone));
        let (addresses, blocks) = (Arc::clone(&node.addresses), Arc::clone(&node.blocks));
        node.thread = Some(std::thread::spawn(move || {
            follow(&inbox, network, &chain, &connected, &gone, &addresses, &blocks);
        }));
        node
    }

    /// Waits until something holds; whether it did within `limit`.
    pub(crate) fn wait(&self, limit: Duration, until: impl Fn(&Node) -> bool) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if until(self) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    pub(crate) fn state(&self) -> String {
        let gone = self.gone.lock().unwrap();
        format!("height {}, gone {:?}, {:?}", self.chain.tip().height, *gone, self.network.progress())
    }

    /// Stops the network and waits for the end; the address memory.
    pub(crate) fn stop(mut self) -> Vec<u8> {
        self.end();
        self.addresses.get().cloned().unwrap_or_default()
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.network.halt();
        thread.join().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

fn follow(
    inbox: &Receiver<Event>,
    network: Arc<Network>,
    chain: &Chain,
    connected: &Mutex<Vec<PeerInfo>>,
    gone: &Mutex<Vec<(String, Reason)>>,
    addresses: &OnceLock<Vec<u8>>,
    blocks: &AtomicU64,
) {
    let mut targets = Vec::new();
    let want = |targets: &[BlockHash]| {
        network.want(targets.iter().map(|target| chain.wanted_up_to(target, WANT_COUNT)).collect());
    };
    for event in inbox {
        network.heard(&event);
        match event {
            Event::Targets(list) => {
                targets = list;
                want(&targets);
            }
            Event::WantMore => want(&targets),
            Event::Block { peer, hash, bytes, .. } => {
                blocks.fetch_add(1, Ordering::Relaxed);
                network.verdict(hash, chain.store(peer, &bytes));
                for refused in chain.connect() {
                    network.verdict(refused, BlockVerdict::Invalid("bad-blk".to_owned()));
                    want(&targets);
                }
                network.new_tip();
            }
            Event::PeerConnected { info, .. } => connected.lock().unwrap().push(info),
            Event::PeerGone { address, reason, .. } => gone.lock().unwrap().push((address, reason)),
            Event::Anchors(..) => {}
            Event::Addresses(bytes) => _ = addresses.set(bytes),
            Event::Headers { .. } | Event::HeadersDone | Event::Echo | Event::Note(_) | Event::PeerNote { .. } => {}
        }
    }
}
