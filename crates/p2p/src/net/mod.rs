//! Sockets and threads around the state machines.
//!
//! One thread polls all sockets and runs the [`crate::hub::Hub`]; one reads blocks and filters for peers that ask; and one lives
//! for as long as a connection is being made or a name looked up, at most
//! [`crate::hub::outbound::DIAL_COUNT_MAX`] and a few at a time.
//! A single thread receives well over 1 GB/s from loopback: more would only need locks.

mod descriptors;
mod dial;
mod peers;
mod rate;
mod run;

pub use peers::{AddedPeer, Peers, Reached};

use crate::api::PeerId;
use crate::api::{BlockVerdict, Config, Event, Progress, Want};
use crate::budget::{InFlightBudget, Waker};
use crate::chain::ChainView;
use crate::hub::{NodeMessage, Served};
use crate::trouble::DialError;
use primitives::BlockHash;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What other threads say to the one that polls.
enum LoopMessage {
    FromNode(NodeMessage),
    Dialed(PeerId, Result<TcpStream, DialError>),
    Served(PeerId, Served),
    Resolved(String, Result<Vec<SocketAddr>, String>),
    Asked(peers::Question),
    Stop,
}

/// Where messages go; each wakes the thread that polls.
#[derive(Clone)]
struct LoopSender {
    sender: Sender<LoopMessage>,
    waker: Waker,
}

impl LoopSender {
    fn send(&self, message: LoopMessage) {
        // The thread is gone only after a stop, and then nothing is to be done.
        if self.sender.send(message).is_ok() {
            self.waker.wake();
        }
    }
}

/// The running network.
pub struct Network {
    inbox_sender: LoopSender,
    budget: Arc<InFlightBudget>,
    progress: Arc<Mutex<Progress>>,
    listening: Vec<SocketAddr>,
    thread: Mutex<Option<JoinHandle<()>>>,
    peers: Option<Arc<Peers>>,
    is_paused: Arc<AtomicBool>,
}

impl Network {
    /// Starts: opens the listening sockets, begins to connect.
    ///
    /// `events` receives what happens, in order; blocks in it are bounded by the window. When its receiver is
    /// gone the network goes on without telling, until it is stopped.
    ///
    /// # Errors
    ///
    /// An address in `config` that does not parse, or a socket that cannot be opened: the message names it.
    pub fn start(config: Config, chain: Arc<dyn ChainView>, events: Sender<Event>) -> io::Result<Network> {
        run::start(config, chain, events)
    }

    /// The same, for `peers` to ask: what was added and banned there holds for this network, which tells it of its own.
    ///
    /// # Errors
    ///
    /// As [`Network::start`].
    pub fn start_for(
        peers: Arc<Peers>,
        mut config: Config,
        chain: Arc<dyn ChainView>,
        events: Sender<Event>,
    ) -> io::Result<Network> {
        let port = config.network.port;
        config.bans = peers.shared_bans();
        peers.note_reach(&config);
        config.add_nodes = peers.take_added(&config.add_nodes, port);
        let mut network = run::start(config, chain, events)?;
        peers.attach(network.inbox_sender.clone(), network.progress.clone(), port);
        network.peers = Some(peers);
        Ok(network)
    }

    /// Where inbound connections are taken: with the port that the system chose for port 0.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Replaces the lists of blocks wanted: for each of the [`Event::Targets`], in their order, the blocks up to it that are
    /// not stored, lowest first; a few thousand are enough, [`Event::WantMore`] asks for the next.
    ///
    /// Blocks that are in flight or were handed out and not judged may be in them: they are not asked for again.
    /// To be called with every change of the targets, and with empty lists when nothing is wanted.
    pub fn want(&self, lists: Vec<Vec<Want>>) {
        self.inbox_sender.send(LoopMessage::FromNode(NodeMessage::Want(lists)));
    }

    /// Says what became of a block of [`Event::Block`]; see [`BlockVerdict`].
    ///
    /// A refusal found after `Stored` (a script, when the block's turn came) is said here too.
    pub fn verdict(&self, hash: BlockHash, verdict: BlockVerdict) {
        let can_wait = verdict == BlockVerdict::Stored;
        let message = LoopMessage::FromNode(NodeMessage::Verdict(hash, verdict));
        if can_wait {
            // Where the network does not wait for it, it is read with the next message, or a tenth of a second later.
            let _ = self.inbox_sender.sender.send(message);
        } else {
            self.inbox_sender.send(message);
        }
        self.budget.verdict_said();
    }

    /// Hardly anything is read while the download is paused: what is left of blocks that were asked for, pings, headers.
    pub fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// The connected chain has a new tip. Peers are told only when no better header is known, so it may be
    /// called for every block.
    pub fn new_tip(&self) {
        self.inbox_sender.send(LoopMessage::FromNode(NodeMessage::NewTip));
    }

    /// Has [`Event::Echo`] said, behind all that was said before: for who waits for events, and has something else to look at.
    pub fn echo(&self) {
        self.inbox_sender.send(LoopMessage::FromNode(NodeMessage::Echo));
    }

    /// How far the network is; a tenth of a second old at most.
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops: connections end, the address memory is given out ([`Event::Addresses`]), and when this
    /// returns no thread of the network calls the chain any more.
    pub fn stop(self) {
        self.halt();
    }

    /// As [`Network::stop`], for a network that several threads hold. What is said to it afterwards is lost.
    pub fn halt(&self) {
        if let Some(peers) = &self.peers {
            peers.detach_if(&self.progress);
        }
        self.inbox_sender.send(LoopMessage::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was reported by its own thread; here there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.halt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Outbound;
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// A lookup or dial may end after the stop, which does not wait for it: its result is dropped.
    #[test]
    fn stop_discards_late_dial_and_lookup_results() {
        let config = Config { outbound: Outbound::Only(Vec::new()), ..Config::new(crate::params::REGTEST) };
        let (sender, events) = channel();
        let chain = Arc::new(crate::sim::Chain::new());
        let network = Network::start(config, chain.clone(), sender).unwrap();
        let inbox_sender = network.inbox_sender.clone();
        network.echo();
        let mut said = std::iter::from_fn(|| events.recv_timeout(Duration::from_secs(60)).ok());
        assert!(said.any(|event| matches!(event, Event::Echo)), "who waits is woken");
        // One comes right behind the stop, the others when the thread is gone.
        inbox_sender.send(LoopMessage::Stop);
        let found = Ok(vec!["30.1.7.7:18444".parse().unwrap()]);
        inbox_sender.send(LoopMessage::Resolved("seed.example".to_owned(), found));
        network.halt();
        inbox_sender.send(LoopMessage::Resolved("seed.example".to_owned(), Err("no such name".to_owned())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        inbox_sender.send(LoopMessage::Dialed(PeerId(1), Ok(near)));
        let (mut far, _) = listener.accept().unwrap();
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(far.read(&mut [0]).unwrap(), 0, "it is closed");
        let last = events.iter().last();
        assert!(matches!(last, Some(Event::Addresses(_))), "the end of all that is said: {last:?}");
        assert_eq!(Arc::strong_count(&chain), 1, "no thread calls the chain any more");
    }
}
