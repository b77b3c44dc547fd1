//! The messages as values: parsing of untrusted payloads, and serialization.
//!
//! Absent on purpose: transactions, compact blocks, received filters, and everything else that a block download does
//! not need; such messages are [`Message::Ignored`].

use super::address::{AddressEntry, get_entry_v1, get_entry_v2, put_entry_v1, put_entry_v2};
use super::feature::{parse_feature, put_feature};
use super::filters::{FilterRange, parse_range, put_range};
use super::parse_error::ParseError;
use super::utxo_sets::ChunkTree;
use super::{Command, hash};
use primitives::encode::put_compact_size;
use primitives::{BlockHash, Hash256, Header, Reader};

/// Service bits. Source: Bitcoin Core b88bffe, `ServiceFlags`.
pub mod services {
    /// Has every block.
    pub const NETWORK: u64 = 1;
    /// Serves blocks with witnesses.
    pub const WITNESS: u64 = 1 << 3;
    /// Serves basic block filters. Source: BIP-0157.
    pub const COMPACT_FILTERS: u64 = 1 << 6;
    /// Has the last 288 blocks.
    pub const NETWORK_LIMITED: u64 = 1 << 10;
    /// Supports BIP324.
    pub const P2P_V2: u64 = 1 << 11;
    /// Serves UTXO sets at scheduled heights. Source: BIP-0452, draft 0.5.0.
    pub const UTXO_SET: u64 = 1 << 14;
    /// Follows the chain that left Bitcoin's rules at 961,640: its headers have 164 bytes. Source:
    /// bitcoinknots/bitcoin 29.4.1.
    pub const OTHER_CHAIN: u64 = 1 << 28;
}

/// Limits of lists. Source: Bitcoin Core b88bffe, net_processing.cpp.
pub mod limits {
    /// Maximum number of hashes of a locator, `MAX_LOCATOR_SZ`.
    pub const LOCATOR_COUNT_MAX: usize = 101;
    /// Maximum number of entries of inv, getdata and notfound, `MAX_INV_SZ`.
    pub const INVENTORY_COUNT_MAX: usize = 50_000;
    /// Maximum number of addresses in one message, `MAX_ADDR_TO_SEND`.
    pub const ADDRESS_COUNT_MAX: usize = 1000;
    /// Maximum bytes of a user agent, `MAX_SUBVERSION_LENGTH`.
    pub const AGENT_BYTES_MAX: usize = 256;
}

/// The version message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Protocol version.
    pub version: u32,
    /// Services offered.
    pub services: u64,
    /// Clock, seconds since 1970.
    pub time: i64,
    /// Nonce that detects a connection to oneself; 1 if a peer sends none (as in Core).
    pub nonce: u64,
    /// User agent.
    pub agent: Vec<u8>,
    /// Height of the tip.
    pub height: i32,
    /// Whether transactions are to be relayed.
    pub relay: bool,
}

/// An entry of an inventory: announced, requested, or not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inventory {
    /// A block without its witnesses.
    Block(BlockHash),
    /// A block with its witnesses. Source: BIP-0144.
    WitnessBlock(BlockHash),
    /// A transaction, or another unused kind.
    Other {
        /// Kind, with flags.
        kind: u32,
        /// Hash.
        hash: Hash256,
    },
}

impl Inventory {
    const BLOCK: u32 = 2;
    const FILTERED_BLOCK: u32 = 3;
    const WITNESS_BLOCK: u32 = 0x4000_0002;

    fn new(kind: u32, hash: Hash256) -> Inventory {
        match kind {
            Inventory::BLOCK => Inventory::Block(BlockHash::from_hash256(hash)),
            Inventory::WITNESS_BLOCK => Inventory::WitnessBlock(BlockHash::from_hash256(hash)),
            kind => Inventory::Other { kind, hash },
        }
    }

    fn kind_and_hash(&self) -> (u32, Hash256) {
        match *self {
            Inventory::Block(hash) => (Inventory::BLOCK, hash.to_hash256()),
            Inventory::WitnessBlock(hash) => (Inventory::WITNESS_BLOCK, hash.to_hash256()),
            Inventory::Other { kind, hash } => (kind, hash),
        }
    }

    /// Whether it requests a block by a bloom filter. Source: BIP-0037, `MSG_FILTERED_BLOCK`.
    pub fn is_filtered_block(&self) -> bool {
        self.kind_and_hash().0 == Inventory::FILTERED_BLOCK
    }

    /// The hash if it names a block.
    pub fn block(&self) -> Option<BlockHash> {
        match *self {
            Inventory::Block(hash) | Inventory::WitnessBlock(hash) => Some(hash),
            Inventory::Other { .. } => None,
        }
    }

    /// The hash, of any kind.
    pub fn hash(&self) -> Hash256 {
        self.kind_and_hash().1
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// `version`
    Version(Version),
    /// `verack`
    Verack,
    /// `ping`, with the nonce to be echoed; `None` from peers older than BIP31.
    Ping(Option<u64>),
    /// `pong`; a payload too short for a nonce is 0.
    Pong(u64),
    /// `headers`
    Headers(Vec<Header>),
    /// `getheaders`: locator and stop
    GetHeaders(Vec<BlockHash>, BlockHash),
    /// `getblocks`: locator and stop
    GetBlocks(Vec<BlockHash>, BlockHash),
    /// `getdata`
    GetData(Vec<Inventory>),
    /// `inv`
    Inv(Vec<Inventory>),
    /// `notfound`
    NotFound(Vec<Inventory>),
    /// `addr`: entries of IPv4 and IPv6
    Addr(Vec<AddressEntry>),
    /// `addrv2`: entries of known networks
    AddrV2(Vec<AddressEntry>),
    /// `sendaddrv2`
    SendAddrV2,
    /// `sendheaders`
    SendHeaders,
    /// `feature`: its name; `None` if it is not well-formed
    Feature(Option<Vec<u8>>),
    /// `getaddr`
    GetAddr,
    /// `getcfilters`
    GetCFilters(FilterRange),
    /// `getcfheaders`
    GetCFHeaders(FilterRange),
    /// `getcfcheckpt`: filter type, last block
    GetCFCheckpt(u8, BlockHash),
    /// `getutxotree`: the base block of a UTXO set
    GetUtxoTree(BlockHash),
    /// `utxotree`: that block, and the hashes of the set's chunks
    UtxoTree(BlockHash, ChunkTree),
    /// `getutxoset`: that block, and the index of a chunk
    GetUtxoSet(BlockHash, u32),
    /// `filteradd`, `filterclear`, `filterload` or `mempool`, for nodes that offer bloom filters.
    OfBloom(Command),
    /// Anything else.
    Ignored,
}

/// Reads a count and checks it against `max` before anything is allocated.
fn count(reader: &mut Reader<'_>, max: usize) -> Result<usize, ParseError> {
    let have = reader.compact_size()?;
    if have > max {
        return Err(ParseError::Count { have, max });
    }
    Ok(have)
}

impl Message {
    /// Parses the payload of a message other than `block`. Bytes after it are ignored, as in Core.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]. The payload is untrusted: no input panics, and no allocation is larger than the payload.
    pub fn parse(command: Command, payload: &[u8]) -> Result<Message, ParseError> {
        let mut reader = Reader::new(payload);
        let reader = &mut reader;
        Ok(match command {
            Command::Version => Message::Version(parse_version(reader)?),
            Command::Verack => Message::Verack,
            Command::Ping => Message::Ping(reader.u64().ok()),
            Command::Pong => Message::Pong(reader.u64().unwrap_or(0)),
            Command::Headers => Message::Headers(parse_headers(reader)?),
            Command::GetHeaders => {
                let (locator, stop) = parse_locator(reader)?;
                Message::GetHeaders(locator, stop)
            }
            Command::GetBlocks => {
                let (locator, stop) = parse_locator(reader)?;
                Message::GetBlocks(locator, stop)
            }
            Command::GetData => Message::GetData(parse_inventory(reader)?),
            Command::Inv => Message::Inv(parse_inventory(reader)?),
            Command::NotFound => Message::NotFound(parse_inventory(reader)?),
            Command::Addr => Message::Addr(parse_addresses(reader, |r| get_entry_v1(r).map(Some))?),
            Command::AddrV2 => Message::AddrV2(parse_addresses(reader, get_entry_v2)?),
            Command::SendAddrV2 => Message::SendAddrV2,
            Command::SendHeaders => Message::SendHeaders,
            Command::Feature => Message::Feature(parse_feature(payload)),
            Command::GetAddr => Message::GetAddr,
            Command::GetCFilters => Message::GetCFilters(parse_range(reader)?),
            Command::GetCFHeaders => Message::GetCFHeaders(parse_range(reader)?),
            Command::GetCFCheckpt => Message::GetCFCheckpt(reader.u8()?, hash(reader)?),
            Command::GetUtxoTree => Message::GetUtxoTree(hash(reader)?),
            Command::UtxoTree => {
                let (base, tree) = ChunkTree::parse(payload)?;
                Message::UtxoTree(base, tree)
            }
            Command::GetUtxoSet => Message::GetUtxoSet(hash(reader)?, reader.u32()?),
            Command::FilterAdd | Command::FilterClear | Command::FilterLoad | Command::Mempool => {
                Message::OfBloom(command)
            }
            Command::Block
            | Command::CFilter
            | Command::CFHeaders
            | Command::CFCheckpt
            | Command::UtxoSet
            | Command::Other => Message::Ignored,
        })
    }

    /// The message as command and payload.
    pub fn encode(&self) -> (Command, Vec<u8>) {
        let mut out = Vec::new();
        let command = match self {
            Message::Version(version) => {
                put_version(&mut out, version);
                Command::Version
            }
            Message::Verack => Command::Verack,
            Message::Ping(nonce) => {
                out.extend(nonce.iter().flat_map(|n| n.to_le_bytes()));
                Command::Ping
            }
            Message::Pong(nonce) => {
                out.extend_from_slice(&nonce.to_le_bytes());
                Command::Pong
            }
            Message::Headers(headers) => {
                put_headers(&mut out, headers);
                Command::Headers
            }
            Message::GetHeaders(locator, stop) => {
                put_getheaders(&mut out, locator, stop);
                Command::GetHeaders
            }
            Message::GetBlocks(locator, stop) => {
                put_getheaders(&mut out, locator, stop);
                Command::GetBlocks
            }
            Message::GetData(list) => put_inventory(&mut out, list, Command::GetData),
            Message::Inv(list) => put_inventory(&mut out, list, Command::Inv),
            Message::NotFound(list) => put_inventory(&mut out, list, Command::NotFound),
            Message::Addr(entries) => {
                let short: Vec<_> = entries.iter().filter(|e| e.peer.address.is_ip()).collect();
                put_count(&mut out, short.len());
                short.iter().for_each(|entry| put_entry_v1(&mut out, entry));
                Command::Addr
            }
            Message::AddrV2(entries) => {
                put_count(&mut out, entries.len());
                entries.iter().for_each(|entry| put_entry_v2(&mut out, entry));
                Command::AddrV2
            }
            Message::SendAddrV2 => Command::SendAddrV2,
            Message::SendHeaders => Command::SendHeaders,
            Message::Feature(name) => {
                name.iter().for_each(|name| put_feature(&mut out, name));
                Command::Feature
            }
            Message::GetAddr => Command::GetAddr,
            Message::GetCFilters(range) => put_range(&mut out, range, Command::GetCFilters),
            Message::GetCFHeaders(range) => put_range(&mut out, range, Command::GetCFHeaders),
            Message::GetCFCheckpt(kind, stop) => {
                out.push(*kind);
                out.extend_from_slice(stop.as_bytes());
                Command::GetCFCheckpt
            }
            Message::GetUtxoTree(base) => put_set_request(&mut out, base, None),
            Message::UtxoTree(base, tree) => {
                tree.put(&mut out, base);
                Command::UtxoTree
            }
            Message::GetUtxoSet(base, index) => put_set_request(&mut out, base, Some(*index)),
            Message::OfBloom(command) => *command,
            Message::Ignored => Command::Other,
        };
        (command, out)
    }
}

/// `getutxotree`, or with the index of a chunk `getutxoset`.
fn put_set_request(out: &mut Vec<u8>, base: &BlockHash, index: Option<u32>) -> Command {
    out.extend_from_slice(base.as_bytes());
    let Some(index) = index else { return Command::GetUtxoTree };
    out.extend_from_slice(&index.to_le_bytes());
    Command::GetUtxoSet
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_compact_size(out, u64::try_from(count).expect("usize is at most 64 bits"));
}

fn parse_version(reader: &mut Reader<'_>) -> Result<Version, ParseError> {
    let version = reader.u32()?;
    let services = reader.u64()?;
    let time = reader.u64()?.cast_signed();
    reader.take(26)?; // The receiver's services, address and port.
    let mut out = Version { version, services, time, nonce: 1, agent: Vec::new(), height: -1, relay: true };
    if reader.remaining() == 0 {
        return Ok(out);
    }
    reader.take(26)?; // The sender's, which is left empty.
    out.nonce = reader.u64()?;
    if reader.remaining() == 0 {
        return Ok(out);
    }
    let bytes = count(reader, limits::AGENT_BYTES_MAX)?;
    out.agent = reader.take(bytes)?.to_vec();
    if reader.remaining() == 0 {
        return Ok(out);
    }
    out.height = reader.u32()?.cast_signed();
    if reader.remaining() > 0 {
        out.relay = reader.u8()? != 0;
    }
    Ok(out)
}

fn put_version(out: &mut Vec<u8>, version: &Version) {
    out.extend_from_slice(&version.version.to_le_bytes());
    out.extend_from_slice(&version.services.to_le_bytes());
    out.extend_from_slice(&version.time.to_le_bytes());
    out.extend_from_slice(&[0; 26]); // The receiver's address is left empty, because the receiver knows it.
    out.extend_from_slice(&version.services.to_le_bytes());
    out.extend_from_slice(&[0; 18]); // Our address: left empty, as Core does.
    out.extend_from_slice(&version.nonce.to_le_bytes());
    put_count(out, version.agent.len());
    out.extend_from_slice(&version.agent);
    out.extend_from_slice(&version.height.to_le_bytes());
    out.push(u8::from(version.relay));
}

fn parse_headers(reader: &mut Reader<'_>) -> Result<Vec<Header>, ParseError> {
    let have = count(reader, crate::chain::HEADERS_COUNT_MAX)?;
    let mut headers = Vec::with_capacity(have.min(reader.remaining() / 81));
    for place in 0..have {
        if are_of_other_chain(reader, have - place) {
            // Such headers end the chain of this message, as if they were not in it.
            reader.take(reader.remaining())?;
            break;
        }
        headers.push(Header(*reader.array()?));
        reader.compact_size()?; // The number of transactions: zero, and ignored.
    }
    Ok(headers)
}

/// Whether the `left` headers that follow belong to the chain of [`services::OTHER_CHAIN`]: 164 bytes each, with bit 31
/// of the version, which no header of Bitcoin's chain has. A message that spans the fork has both forms.
fn are_of_other_chain(reader: &Reader<'_>, left: usize) -> bool {
    const BYTES: usize = 164 + 1;
    let has_bit = reader.clone().u32().is_ok_and(|version| version >> 31 == 1);
    has_bit && reader.remaining() == left * BYTES
}

fn put_headers(out: &mut Vec<u8>, headers: &[Header]) {
    out.reserve(3 + headers.len() * 81);
    put_count(out, headers.len());
    for header in headers {
        out.extend_from_slice(&header.0);
        out.push(0);
    }
}

/// Locator and stop.
fn parse_locator(reader: &mut Reader<'_>) -> Result<(Vec<BlockHash>, BlockHash), ParseError> {
    reader.u32()?; // The sender's version.
    let have = count(reader, limits::LOCATOR_COUNT_MAX)?;
    let locator = (0..have).map(|_| hash(reader)).collect::<Result<Vec<_>, _>>()?;
    Ok((locator, hash(reader)?))
}

fn put_getheaders(out: &mut Vec<u8>, locator: &[BlockHash], stop: &BlockHash) {
    out.extend_from_slice(&super::PROTOCOL_VERSION.to_le_bytes());
    let locator = &locator[..locator.len().min(limits::LOCATOR_COUNT_MAX)];
    put_count(out, locator.len());
    locator.iter().chain([stop]).for_each(|hash| out.extend_from_slice(hash.as_bytes()));
}

fn parse_inventory(reader: &mut Reader<'_>) -> Result<Vec<Inventory>, ParseError> {
    let have = count(reader, limits::INVENTORY_COUNT_MAX)?;
    let mut list = Vec::with_capacity(have.min(reader.remaining() / 36));
    for _ in 0..have {
        list.push(Inventory::new(reader.u32()?, Hash256(*reader.array()?)));
    }
    Ok(list)
}

fn put_inventory(out: &mut Vec<u8>, list: &[Inventory], command: Command) -> Command {
    put_count(out, list.len());
    for entry in list {
        let (kind, hash) = entry.kind_and_hash();
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(hash.as_bytes());
    }
    command
}

fn parse_addresses(
    reader: &mut Reader<'_>,
    entry: impl Fn(&mut Reader<'_>) -> Result<Option<AddressEntry>, ParseError>,
) -> Result<Vec<AddressEntry>, ParseError> {
    let have = count(reader, limits::ADDRESS_COUNT_MAX)?;
    let mut entries = Vec::new();
    for _ in 0..have {
        entries.extend(entry(reader)?);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::{NetAddress, PeerAddress};
    use super::*;

    fn sample() -> Vec<Message> {
        let entry = |address| AddressEntry {
            peer: PeerAddress { address, port: 8333 },
            services: services::NETWORK | services::WITNESS,
            time: 1_700_000_000,
        };
        let v4 = entry(NetAddress::V4([1, 2, 3, 4]));
        let v6 = entry(NetAddress::V6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]));
        let list = vec![
            Inventory::Block(BlockHash::from_bytes([6; 32])),
            Inventory::WitnessBlock(BlockHash::from_bytes([7; 32])),
            Inventory::Other { kind: 1, hash: Hash256([8; 32]) },
        ];
        vec![
            Message::Version(Version {
                version: 70016,
                services: 0xc09,
                time: 1_700_000_000,
                nonce: 99,
                agent: b"/ffwd:0.1.0/".to_vec(),
                height: 800_000,
                relay: false,
            }),
            Message::Verack,
            Message::Ping(Some(5)),
            Message::Ping(None),
            Message::Pong(6),
            Message::Headers(vec![Header([3; 80]); 4]),
            Message::GetHeaders(vec![BlockHash::from_bytes([1; 32]), BlockHash::from_bytes([2; 32])], BlockHash::ZERO),
            Message::GetData(list.clone()),
            Message::Inv(list.clone()),
            Message::NotFound(list),
            Message::Addr(vec![v4.clone(), v6.clone()]),
            Message::AddrV2(vec![v4, v6, entry(NetAddress::TorV3([8; 32])), entry(NetAddress::I2p([9; 32]))]),
            Message::SendAddrV2,
            Message::SendHeaders,
            Message::Feature(Some(b"abcd".to_vec())),
            Message::GetAddr,
            Message::GetUtxoTree(BlockHash::from_bytes([5; 32])),
            Message::UtxoTree(
                BlockHash::from_bytes([5; 32]),
                ChunkTree { version: 2, bytes: 4_000_000, hashes: vec![Hash256([6; 32]), Hash256([7; 32])] },
            ),
            Message::GetUtxoSet(BlockHash::from_bytes([5; 32]), 3),
            Message::Ignored,
        ]
    }

    #[test]
    fn messages_round_trip() {
        for message in sample() {
            let (command, payload) = message.encode();
            assert_eq!(Message::parse(command, &payload).as_ref(), Ok(&message));
        }
    }

    #[test]
    fn parse_survives_every_cut_and_flipped_bit() {
        for message in sample() {
            let (command, payload) = message.encode();
            for cut in 0..payload.len() {
                let _ = Message::parse(command, &payload[..cut]);
            }
            for at in 0..payload.len() * 8 {
                let mut bytes = payload.clone();
                bytes[at / 8] ^= 1 << (at % 8);
                let _ = Message::parse(command, &bytes);
            }
        }
    }

    /// The form of bitcoinknots/bitcoin 29.4.1 from height 961,640 on: bit 31 of the version, 164 bytes.
    #[test]
    fn headers_of_another_chain_end_the_message() {
        let ours = Header([3; 80]);
        let negative = Header([0xa3; 80]);
        let payload = |short: &[&Header], long: usize| {
            let mut bytes = Vec::new();
            put_count(&mut bytes, short.len() + long);
            short.iter().for_each(|header| bytes.extend(header.0.iter().chain(&[0])));
            (0..long).for_each(|_| bytes.extend([0xa0; 164].iter().chain(&[0])));
            bytes
        };
        for (row, short, long, want) in [
            ("both forms", vec![&ours; 3], 4, Some(3)),
            ("the other form alone", vec![], 2, Some(0)),
            ("one of each", vec![&ours], 1, Some(1)),
            ("a negative version in 80 bytes", vec![&ours, &negative], 0, Some(2)),
            ("a negative version before the other form", vec![&negative], 1, Some(1)),
        ] {
            let parsed = Message::parse(Command::Headers, &payload(&short, long));
            let count = parsed.ok().map(|message| match message {
                Message::Headers(headers) => headers.len(),
                other => panic!("{row}: {other:?}"),
            });
            assert_eq!(count, want, "{row}");
        }
        let mut cut = payload(&[&ours], 2);
        cut.pop();
        let Message::Headers(read) = Message::parse(Command::Headers, &cut).unwrap() else { panic!() };
        assert_eq!(read.len(), 3, "cut, they are taken for headers of 80 bytes, whose work is none");
    }

    #[test]
    fn list_counts_are_checked_before_allocation() {
        for (row, command, want) in [
            ("headers", Command::Headers, "at most 2000"),
            ("inv", Command::Inv, "at most 50000"),
            ("addr", Command::Addr, "at most 1000"),
            ("addrv2", Command::AddrV2, "at most 1000"),
        ] {
            let mut payload = Vec::new();
            put_compact_size(&mut payload, 60_000);
            let why = Message::parse(command, &payload).unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        let mut payload = vec![0; 4];
        put_compact_size(&mut payload, 102);
        let why = Message::parse(Command::GetHeaders, &payload).unwrap_err().to_string();
        assert!(why.contains("size = 102, at most 101"), "{why}");
        let mut version = Message::Version(Version {
            version: 70016,
            services: 0,
            time: 0,
            nonce: 0,
            agent: vec![b'a'; 257],
            height: 0,
            relay: false,
        })
        .encode()
        .1;
        assert!(Message::parse(Command::Version, &version).unwrap_err().to_string().contains("at most 256"));
        // A version of before BIP37 and before the nonce was added still parses.
        version.truncate(46);
        let Ok(Message::Version(old)) = Message::parse(Command::Version, &version) else { panic!("parses") };
        assert_eq!((old.nonce, old.height, old.relay), (1, -1, true));
    }
}
