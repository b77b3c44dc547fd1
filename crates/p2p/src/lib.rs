//! The peer-to-peer network: messages to and from peers, and the choice of peers.
//!
//! In: bytes from sockets, the time, and answers of the chain ([`ChainView`]).
//! Out: bytes to sockets, and events to the node ([`Event`]): headers accepted, blocks arrived, peers disconnected.
//! Must never know: a rule of headers or blocks, a file, a script, the coins.
//!
//! The core is without I/O: state machines whose inputs are bytes and the time, and whose outputs are bytes, events
//! and actions. Only [`net`] has sockets and threads.
//!
//! Use by a node, in one thread that handles the events in order:
//!
//! | event | action of the node |
//! |---|---|
//! | [`Event::Targets`], [`Event::WantMore`] | [`Network::want`] with missing blocks up to each target, lowest first |
//! | [`Event::Block`] | decodes it; [`Network::verdict`]: `Stored` or `BadBody`; drops [`BlockBytes`] with the memory |
//! | (a block proves invalid) | marks it in the tree, then [`Network::verdict`] `Invalid`, then [`Network::want`] |
//! | (a block is connected) | [`Network::new_tip`] |
//! | [`Event::HeadersDone`] | with [`Progress::best_claim`] connected: this is the tip that the peers have |
//! | [`Event::Addresses`], [`Event::Anchors`] | stores the bytes, for the next run's [`Config`] |
//! | [`Event::PeerConnected`], [`Event::PeerGone`], [`Event::Note`] | logs a line |
//! | (every event, once taken from the channel) | [`Network::heard`]: few events about peers may be unread |

mod address_answers;
mod address_bucket;
pub mod addresses;
pub mod api;
pub mod bad_ports;
pub mod bans;
mod budget;
pub mod chain;
pub mod download;
pub mod facts;
pub mod filter_request;
pub mod fixed_seeds;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
pub mod hub;
mod journal;
mod lag;
pub mod low_work;
mod names;
pub mod net;
pub mod own_addresses;
pub mod packet;
pub mod params;
pub mod peer;
pub mod permissions;
mod pongs;
pub mod reason;
pub mod rng;
pub mod set_exchange;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod sim;
pub mod socks5;
pub mod stats;
pub mod transport;
pub mod trouble;
pub mod upload_target;
pub mod v2;
pub mod wire;

pub mod time;

pub use api::{BlockBytes, BlockVerdict, Config, Event, LogLines, Outbound, PeerId, PeerInfo, Progress, Want};
pub use budget::{BufferPool, InFlightBudget, Reservation};
pub use chain::{ChainView, FilterHeader, HEADERS_COUNT_MAX, HeaderInfo, HeaderRefusal, HeadersVerdict};
pub use facts::NetworkFacts;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use fuzz::{fuzz_codec, fuzz_peer, fuzz_socks5};
pub use hub::own::{Machine, announced, own_addresses};
pub use net::{AddedPeer, Network, Peers, Reached};
pub use packet::Packet;
pub use params::NetworkParams;
pub use reason::Reason;
pub use set_exchange::SetExchange;
pub use stats::PeerStats;
pub use wire::utxo_sets::{self, ChunkTree, SetSource};
