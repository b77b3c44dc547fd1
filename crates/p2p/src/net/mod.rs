//! Sockets and threads around the state machines.
//!
//! One thread polls all sockets and runs the [`crate::hub::Hub`]; one reads blocks and filters for peers that request
//! them; and each connection attempt or name lookup has a short-lived thread, at most
//! [`crate::hub::outbound::DIAL_COUNT_MAX`] plus a few at a time.
//! A single thread receives well over 1 GB/s from loopback: more threads would only need locks.

mod descriptors;
mod dial;
mod peers;
mod rate;
mod run;
mod unread;

pub use dial::connect_through;
pub use peers::{AddedPeer, Peers, Reached};
pub use unread::LeftOut;

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
use unread::Unread;

/// A message from another thread to the polling thread.
enum LoopMessage {
    FromNode(NodeMessage),
    Dialed(PeerId, Result<TcpStream, DialError>),
    Served(PeerId, Served),
    Resolved(String, Result<Vec<SocketAddr>, String>),
    Asked(peers::Question),
    Stop,
}

/// Sender of messages; each wakes the polling thread.
#[derive(Clone)]
struct LoopSender {
    sender: Sender<LoopMessage>,
    waker: Waker,
}

impl LoopSender {
    fn send(&self, message: LoopMessage) {
        // The thread has ended only after a stop; there is nothing to do then.
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
    unread: Arc<Unread>,
}

impl Network {
    /// Starts: opens the listening sockets, begins to connect.
    ///
    /// `events` receives events in order; blocks in them are bounded by the download window, others as described at
    /// [`Network::heard`]. If its receiver is dropped, the network continues without events until it is stopped.
    ///
    /// # Errors
    ///
    /// An address in `config` that does not parse, or a socket that cannot be opened: the message names it.
    pub fn start(config: Config, chain: Arc<dyn ChainView>, events: Sender<Event>) -> io::Result<Network> {
        run::start(config, chain, events)
    }

    /// Like [`Network::start`], with a handle for other threads: peers and bans added to `peers` apply to this network,
    /// and `peers` shows its connections.
    ///
    /// # Errors
    ///
    /// Those of [`Network::start`].
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

    /// The sockets that accept inbound connections, with the port that the system chose for port 0.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Replaces the lists of blocks to download: for each of the [`Event::Targets`], in their order, the missing
    /// blocks up to it, lowest first; a few thousand are enough, [`Event::WantMore`] requests the next.
    ///
    /// Lists may include blocks in flight and blocks without a verdict: these are not requested again.
    /// Call it after every change of the targets, and with empty lists if no block is missing.
    pub fn want(&self, lists: Vec<Vec<Want>>) {
        self.inbox_sender.send(LoopMessage::FromNode(NodeMessage::Want(lists)));
    }

    /// Reports the verdict on a block of [`Event::Block`]; see [`BlockVerdict`].
    ///
    /// Also for a refusal after `Stored` (by a script, once the block is validated).
    pub fn verdict(&self, hash: BlockHash, verdict: BlockVerdict) {
        let can_wait = verdict == BlockVerdict::Stored;
        let message = LoopMessage::FromNode(NodeMessage::Verdict(hash, verdict));
        if can_wait {
            // If the network does not wait for it, it is read with the next message, or after a tenth of a second.
            let _ = self.inbox_sender.sender.send(message);
        } else {
            self.inbox_sender.send(message);
        }
        self.budget.verdict_said();
    }

    /// Reports that the node has taken an event from the channel. While many events about peers are unread, further ones
    /// are left out: a node that never calls this receives the first thousand. A repeated [`Event::Addresses`] or
    /// [`Event::HeadersDone`] is left out while an earlier one is unread.
    pub fn heard(&self, event: &Event) {
        self.unread.heard(event);
    }

    /// The numbers of events about peers that were left out since the last call.
    pub fn take_left_out(&self) -> LeftOut {
        self.unread.take_left_out()
    }

    /// While paused, hardly anything is read: the rest of requested blocks, pings, headers.
    pub fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Reports a new tip of the connected chain. It is announced to peers only if no better header is known, so this
    /// may be called for every block.
    pub fn new_tip(&self) {
        self.inbox_sender.send(LoopMessage::FromNode(NodeMessage::NewTip));
    }

    /// Requests an [`Event::Echo`] after all earlier events: it wakes a thread that waits for events.
    pub fn echo(&self) {
        self.inbox_sender.send(LoopMessage::FromNode(NodeMessage::Echo));
    }

    /// Progress of the network, at most a tenth of a second old.
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops: connections end, the address memory is sent ([`Event::Addresses`]), and when this returns, no thread of
    /// the network calls the chain any more.
    pub fn stop(self) {
        self.halt();
    }

    /// Like [`Network::stop`], for a network shared by several threads. Later calls have no effect.
    pub fn halt(&self) {
        if let Some(peers) = &self.peers {
            peers.detach_if(&self.progress);
        }
        self.inbox_sender.send(LoopMessage::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was reported by its own thread; there is nothing left to undo here.
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
    use super::unread::UNREAD_COUNT_MAX;
    use super::*;
    use crate::api::Outbound;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// A node that waits for disk space reads no events, and meanwhile somebody connects again and again.
    #[test]
    fn unread_events_about_peers_are_bounded() {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let outbound = Outbound::Only(Vec::new());
        let config = Config { outbound, listen, v2transport: false, ..Config::new(crate::params::REGTEST) };
        let (sender, events) = channel();
        let network = Network::start(config, Arc::new(crate::sim::Chain::new()), sender).unwrap();
        for _ in 0..UNREAD_COUNT_MAX + 100 {
            let mut near = TcpStream::connect(network.listening()[0]).unwrap();
            near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // Not a message: the connection is closed.
            near.write_all(&[7; 24]).unwrap();
            let _ = near.read_to_end(&mut Vec::new());
        }
        network.echo();
        let said = std::iter::from_fn(|| events.recv_timeout(Duration::from_secs(60)).ok());
        let said = said.take_while(|event| !matches!(event, Event::Echo));
        let gone: Vec<Event> = said.filter(|event| matches!(event, Event::PeerGone { .. })).collect();
        assert_eq!(gone.len(), UNREAD_COUNT_MAX);
        assert_eq!(network.take_left_out(), LeftOut { inbound: 100, outbound: 0 });
        gone.iter().for_each(|event| network.heard(event));
    }

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
        // One comes right after the stop, the others when the thread has ended.
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
