//! Bad peers, met by the whole of `sync` over sockets on loopback: the honest tip is reached, and only what is bad is
//! refused.

use crate::chain::{block, file, hash_of, id, numbered_coinbase, spend_to_one};
use crate::data_directory::options;
use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use node::jobs::{self, Failed, SyncOptions};
use node::options::Options;
use node::reporting::{Event, JobReport};
use primitives::{BlockHash, Height, Txid, encode};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A chain on regtest's genesis block, which comes first.
pub(crate) type Blocks = Vec<Vec<u8>>;
/// Open from the start, or when it is opened.
pub(crate) type Gate = Arc<AtomicBool>;
/// What a peer says when it is asked for this block: other bytes, or what it has.
pub(crate) type Bend = Arc<dyn Fn(&BlockHash) -> Option<Vec<u8>> + Send + Sync>;
/// Commands and payloads.
pub(crate) type Messages = Vec<(&'static str, Vec<u8>)>;
/// What a peer answers to a message instead of what it should.
pub(crate) type Manner = Arc<dyn Fn(&str) -> Option<Messages> + Send + Sync>;

/// A chain, and where each block of it is.
struct Served {
    blocks: Blocks,
    places: HashMap<BlockHash, usize>,
}

impl Served {
    fn new(blocks: &Blocks) -> Served {
        let places = blocks.iter().enumerate().map(|(place, block)| (hash_of(block), place)).collect();
        Served { blocks: blocks.clone(), places }
    }
}

/// What peers with one chain serve, and to whom.
pub(crate) struct Shared {
    served: RwLock<Served>,
    streams: Mutex<Vec<Arc<Mutex<TcpStream>>>>,
}

impl Shared {
    /// From now on another chain, whose last `count` headers everybody is told.
    pub(crate) fn switch(&self, blocks: &Blocks, count: usize) {
        *self.served.write().unwrap() = Served::new(blocks);
        let headers = headers_of(&blocks[blocks.len() - count..]);
        for stream in &*self.streams.lock().unwrap() {
            // Who is gone hears nothing.
            let _ = send(stream, "headers", &headers);
        }
    }
}

pub(crate) fn send(stream: &Mutex<TcpStream>, command: &str, payload: &[u8]) -> std::io::Result<()> {
    let mut name = [0; 12];
    name[..command.len()].copy_from_slice(command.as_bytes());
    let (magic, size) = (Params::new(Chain::Regtest).magic, (payload.len() as u32).to_le_bytes());
    let check = kernels::sha256::sha256d(payload);
    stream.lock().unwrap().write_all(&[&magic[..], &name, &size, &check[..4], payload].concat())
}

pub(crate) fn headers_of(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::put_compact_size(&mut out, blocks.len() as u64);
    for block in blocks {
        out.extend(&block[..80]);
        out.push(0);
    }
    out
}

/// A peer that speaks v1 and has a chain.
pub(crate) struct Far {
    pub(crate) shared: Arc<Shared>,
    /// Only now does it take part.
    gate: Gate,
    bend: Bend,
    manner: Manner,
}

impl Far {
    /// An honest one.
    pub(crate) fn new(blocks: &Blocks) -> Far {
        let shared = Arc::new(Shared { served: RwLock::new(Served::new(blocks)), streams: Mutex::default() });
        Far { shared, gate: open(), bend: honest(), manner: Arc::new(|_: &str| None) }
    }

    /// One that answers as it likes.
    pub(crate) fn with_manner(self, manner: Manner) -> Far {
        Far { manner, ..self }
    }

    /// One that never sends this block.
    pub(crate) fn without(mut self, hash: BlockHash) -> Far {
        let bend: Bend = Arc::new(move |asked| (*asked == hash).then(Vec::new));
        self.bend = bend;
        self
    }

    /// Listens until the test ends; the address.
    pub(crate) fn listen(blocks: &Blocks, bend: Bend, gate: &Gate) -> String {
        Far { bend, gate: Arc::clone(gate), ..Far::new(blocks) }.listen_at("127.0.0.1:0")
    }

    /// Listens there until the test ends; the address.
    pub(crate) fn listen_at(self, address: &str) -> String {
        let far = Arc::new(self);
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let far = Arc::clone(&far);
                // It ends when the other side closes.
                std::thread::spawn(move || far.talk(stream));
            }
        });
        address
    }

    fn talk(&self, mut stream: TcpStream) -> std::io::Result<()> {
        while !self.gate.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        stream.set_nodelay(true)?;
        let out = Arc::new(Mutex::new(stream.try_clone()?));
        self.shared.streams.lock().unwrap().push(Arc::clone(&out));
        loop {
            let mut head = [0; 24];
            stream.read_exact(&mut head)?;
            let mut payload = vec![0; u32::from_le_bytes(head[16..20].try_into().unwrap()) as usize];
            stream.read_exact(&mut payload)?;
            let command = std::str::from_utf8(&head[4..16]).unwrap_or_default().trim_end_matches('\0');
            let answers = (self.manner)(command).unwrap_or_else(|| self.answer(command, &payload));
            for (command, payload) in answers {
                if command == "block" && payload.is_empty() {
                    continue;
                }
                send(&out, command, &payload)?;
            }
        }
    }

    fn answer(&self, command: &str, payload: &[u8]) -> Messages {
        match command {
            "version" => vec![("version", self.version()), ("verack", vec![])],
            "ping" => vec![("pong", payload.to_vec())],
            "getheaders" => vec![("headers", self.headers(payload))],
            // Behind the count, of one byte or of three.
            "getdata" => payload[payload.len() % 36..]
                .chunks_exact(36)
                .filter_map(|entry| {
                    let hash = BlockHash::from_bytes(*entry[4..].first_chunk().unwrap());
                    let served = self.shared.served.read().unwrap();
                    (self.bend)(&hash).or_else(|| served.places.get(&hash).map(|&place| served.blocks[place].clone()))
                })
                .map(|block| ("block", block))
                .collect(),
            _ => vec![],
        }
    }

    fn version(&self) -> Vec<u8> {
        let mut out = 70016i32.to_le_bytes().to_vec();
        out.extend(9u64.to_le_bytes()); // NODE_NETWORK and NODE_WITNESS.
        out.extend([0; 8 + 26 + 26]);
        out.extend(7u64.to_le_bytes());
        out.push(0);
        out.extend((self.shared.served.read().unwrap().blocks.len() as i32 - 1).to_le_bytes());
        out.push(1);
        out
    }

    fn headers(&self, payload: &[u8]) -> Vec<u8> {
        let locator = payload[5..payload.len() - 32].chunks_exact(32);
        let served = self.shared.served.read().unwrap();
        let known =
            locator.filter_map(|hash| served.places.get(&BlockHash::from_bytes(*hash.first_chunk().unwrap()))).next();
        let rest = &served.blocks[known.map_or(1, |place| place + 1)..];
        headers_of(&rest[..rest.len().min(p2p::HEADERS_COUNT_MAX)])
    }
}

pub(crate) fn honest() -> Bend {
    Arc::new(|_| None)
}

pub(crate) fn open() -> Gate {
    Arc::new(AtomicBool::new(true))
}

/// When a sync is enough.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Until {
    /// At the tip that the peers have.
    Tip,
    /// When it is told to be there.
    Seen(u32),
    /// At this height.
    Stop(u32),
}

pub(crate) fn sync_options(peers: &[String], until: Until) -> SyncOptions {
    SyncOptions {
        connect: Some(peers.to_vec()),
        exit_at_tip: until == Until::Tip,
        v2transport: false,
        outbound: 8,
        ..SyncOptions::alone()
    }
}

/// How a sync from these peers ended, and what it said.
pub(crate) fn sync(peers: &[String], until: Until) -> (JobReport, Vec<String>, Options) {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(crate::data_directory::DATADIR)).unwrap();
    let stop_at_height = if let Until::Stop(height) = until { Some(Height::new(height)) } else { None };
    // With that many workers several threads store blocks; `following` has one.
    let options = Options { par: 16, stop_at_height, ..options(&disk, false) };
    let sync = sync_options(peers, until);
    let (said, start) = (Mutex::new(Vec::new()), Instant::now());
    let report = jobs::sync(&options, &sync, &|event| match event {
        Event::Note(text) | Event::Warning(text) => said.lock().unwrap().push(text),
        Event::Refused { height, hash, why, .. } => {
            said.lock().unwrap().push(format!("refused {height} {hash}: {why}"))
        }
        Event::Ready | Event::Tip { .. } => {}
        // A sync that never ends fails its test, and does not hang it.
        Event::Progress(progress) => {
            if until == Until::Seen(progress.height.to_u32()) || start.elapsed() > MINUTE {
                options.stop.store(true, Ordering::Relaxed);
            }
        }
    });
    let said = said.into_inner().unwrap();
    let report = report.unwrap_or_else(|fault| panic!("{fault}: {said:#?}"));
    assert!(start.elapsed() < MINUTE, "{report:?}, {said:#?}");
    (report, said, options)
}

/// A coinbase that says its height as BIP34 wants it, and a number that makes it another one.
pub(crate) fn coinbase(height: u32, number: u32, value: u64) -> Vec<u8> {
    numbered_coinbase(height, number, value)
}

/// Spends the first output of a transaction; `number` makes it another one.
pub(crate) fn spend(of: Txid, value: u64, number: u32) -> Vec<u8> {
    // A number of satoshis is given away.
    spend_to_one(of, value - u64::from(number))
}

pub(crate) fn subsidy(height: u32) -> u64 {
    5_000_000_000_u64.checked_shr(height / 150).unwrap_or(0)
}

/// Adds blocks of a coinbase alone up to this height.
pub(crate) fn extend(blocks: &mut Blocks, to: u32, salt: u32) {
    for height in blocks.len() as u32..=to {
        let (prev, time) = (hash_of(&blocks[height as usize - 1]), time_of(height));
        blocks.push(block(prev, time, &[coinbase(height, salt, subsidy(height))]));
    }
}

pub(crate) fn time_of(height: u32) -> u32 {
    1_296_688_602 + 600 * height
}

pub(crate) fn genesis() -> Blocks {
    vec![Params::new(Chain::Regtest).genesis.to_vec()]
}

/// Two transactions whose ids one behind the other are the bytes of a third, with one input and no output: version, 1,
/// prevout, 13 bytes of script, sequence, 0, lock time.
fn two_that_look_like_one(height: u32, of: Txid) -> [Vec<u8>; 2] {
    let first =
        (0..).map(|number| coinbase(height, number, subsidy(height))).find(|tx| id(tx).as_bytes()[4] == 1).unwrap();
    let fits = |tx: &Vec<u8>| id(tx).as_bytes()[41 - 32] == 13 && id(tx).as_bytes()[59 - 32] == 0;
    let second = (0..).map(|number| spend(of, subsidy(1), number)).find(fits).unwrap();
    [first, second]
}

/// A block whose coinbase commits to its witness; the same without it; the same with another one.
pub(crate) fn committed(prev: BlockHash, height: u32) -> [Vec<u8>; 3] {
    let reserved = [5; 32];
    // The only wtxid is the coinbase's, which counts as zero.
    let commitment = kernels::sha256::sha256d(&[[0; 32], reserved].concat());
    let output = [&[0; 8][..], &[38, 0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed], &commitment].concat();
    let plain = coinbase(height, 0, subsidy(height));
    let (head, pay) = plain.split_at(plain.len() - 4 - 10 - 1);
    let plain = [head, &[2], &pay[1..11], &output, &[0; 4]].concat();
    let stripped = block(prev, time_of(height), std::slice::from_ref(&plain));
    let with = |reserved: [u8; 32]| {
        let body = &plain[4..plain.len() - 4];
        [&stripped[..81], &plain[..4], &[0, 1], body, &[1, 32], &reserved, &[0; 4]].concat()
    };
    [with(reserved), stripped.clone(), with([6; 32])]
}

/// Whatever the body is that comes first: the header is not marked, and the good body connects. The peer goes, but for bytes
/// that are no block at all: as in Core it is kept then.
#[test]
fn mutated_body_is_refused_without_marking_the_header() {
    let mut blocks = genesis();
    extend(&mut blocks, 105, 0);
    let spent = {
        let mut tables = primitives::Tables::new();
        tables.parse_block(&blocks[1]).unwrap().transaction(0).txid()
    };
    let pair = two_that_look_like_one(106, spent);
    let (prev, time) = (hash_of(&blocks[105]), time_of(106));
    let good = block(prev, time, &pair);
    let one = [id(&pair[0]).to_bytes(), id(&pair[1]).to_bytes()].concat();
    assert_eq!(one.len(), 64);
    blocks.push(good.clone());
    let [committed, stripped, changed] = committed(hash_of(&good), 107);
    blocks.push(committed);
    extend(&mut blocks, 110, 0);
    let header = &good[..80];
    let with = |body: &[&[u8]]| [header, &body.concat()].concat();
    let witness = [&pair[0][..4], &[0, 1], &pair[0][4..pair[0].len() - 4], &[1, 1, 7], &[0; 4]].concat();
    for (row, bad, want) in [
        ("a 64-byte transaction and no coinbase", with(&[&[1], &one]), "64"),
        ("the last one twice", with(&[&[3], &pair[0], &pair[1], &pair[1]]), "bad-txn"),
        ("the first alone", with(&[&[1], &pair[0]]), "bad-txnmrklroot"),
        ("a witness without a commitment", with(&[&[2], &witness, &pair[1]]), "unexpected-witness"),
        ("nothing", with(&[&[0]]), "bad-txnmrklroot"),
        ("a cut one", good[..good.len() - 1].to_vec(), "do not deserialize as a block"),
        ("the witness stripped", stripped, "bad-witness-nonce-size"),
        ("the witness changed", changed, "bad-witness-merkle-match"),
    ] {
        let (hash, first) = (hash_of(&bad), Arc::new(AtomicBool::new(true)));
        // The peer that is asked first gives the bad one.
        let bend: Bend =
            Arc::new(move |asked| (*asked == hash && first.swap(false, Ordering::Relaxed)).then(|| bad.clone()));
        let peers = [Far::listen(&blocks, Arc::clone(&bend), &open()), Far::listen(&blocks, bend, &open())];
        let (report, said, options) = sync(&peers, Until::Tip);
        assert_eq!((report.height.to_u32(), report.blocks_invalid), (110, 0), "{row}: {said:#?}");
        assert!(jobs::info(&options).unwrap().failed.is_empty(), "{row}: nothing is marked");
        let refused: Vec<&String> = said.iter().filter(|text| text.starts_with("refused 10")).collect();
        let [refused] = refused[..] else { panic!("{row}: once in {said:#?}") };
        assert!(refused.contains(want) && refused.contains("its header is not marked"), "{row}: {want} in {refused}");
        let gone = said.iter().filter(|text| text.contains(" gone: ") && text.contains(&hash.to_string()));
        let gone_count = usize::from(row != "a cut one");
        assert_eq!(gone.count(), gone_count, "{row}: who gave it is let go: {said:#?}");
    }
}

/// What follows a block in its message is left out: the block is taken, as by Core, and stored without it.
#[test]
fn bytes_after_a_block_are_not_stored() {
    let mut blocks = genesis();
    extend(&mut blocks, 30, 0);
    let chain = blocks.clone();
    let bend: Bend = Arc::new(move |asked| {
        let block = chain.iter().find(|block| hash_of(block) == *asked)?;
        Some([&block[..], &[9; 5000]].concat())
    });
    let (report, said, options) = sync(&[Far::listen(&blocks, bend, &open())], Until::Tip);
    assert_eq!((report.height.to_u32(), report.blocks_invalid), (30, 0), "{said:#?}");
    let path = Path::new(crate::data_directory::DATADIR).join("regtest/blocks/blk00000.dat");
    let stored = options.disk.open(&path).unwrap().bytes().unwrap().to_vec();
    for block in &blocks[1..] {
        let record = file(std::slice::from_ref(block));
        assert!(stored.windows(record.len()).any(|bytes| bytes == record));
    }
    let used = stored.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    assert!(file(&blocks).len() - used < 8, "and nothing else: {used} bytes");
    assert_eq!(jobs::verify(&options, 4, 0, &|_| ()).unwrap().blocks, 30);
}

#[test]
fn sync_returns_to_the_valid_chain_after_an_invalid_block() {
    let mut honest_blocks = genesis();
    extend(&mut honest_blocks, 10, 0);
    let mut bad_blocks = honest_blocks.clone();
    extend(&mut honest_blocks, 310, 1);
    extend(&mut bad_blocks, 299, 2);
    let prev = hash_of(&bad_blocks[299]);
    bad_blocks.push(block(prev, time_of(300), &[coinbase(300, 2, subsidy(300) + 1)]));
    extend(&mut bad_blocks, 340, 2);
    // The honest peer comes when the other is believed.
    let (gate, at) = (Gate::default(), hash_of(&bad_blocks[11]));
    let open_it = Arc::clone(&gate);
    let bend: Bend = Arc::new(move |asked| {
        open_it.fetch_or(*asked == at, Ordering::Relaxed);
        None
    });
    let peers = [Far::listen(&bad_blocks, bend, &open()), Far::listen(&honest_blocks, honest(), &gate)];
    let (report, said, options) = sync(&peers, Until::Seen(310));
    let best = hash_of(honest_blocks.last().unwrap());
    assert_eq!((report.height.to_u32(), report.best, report.blocks_invalid), (310, best, 1), "{said:#?}");
    let bad = hash_of(&bad_blocks[300]);
    let refused: Vec<&String> = said.iter().filter(|text| text.starts_with("refused")).collect();
    let [refused] = refused[..] else { panic!("once in {said:#?}") };
    assert!(refused.starts_with(&format!("refused 300 {bad}: bad-cb-amount")), "{refused}");
    let failed = jobs::info(&options).unwrap().failed;
    assert_eq!(
        failed,
        [Failed { height: Height::new(300), hash: bad, descendants: 40, shuts_out: true }],
        "it and what stands on it"
    );
    assert!(said.iter().any(|text| text.contains(" gone: ") && text.contains(&peers[0])), "{said:#?}");
    assert!(!said.iter().any(|text| text.contains(" gone: ") && text.contains(&peers[1])), "{said:#?}");
}

#[test]
fn header_ahead_of_the_clock_is_taken_when_it_is_not() {
    let mut blocks = genesis();
    extend(&mut blocks, 20, 0);
    let start = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    // Some seconds, for the clock goes on while the peers shake hands.
    let late = block(hash_of(&blocks[20]), now + 7206, &[coinbase(21, 0, subsidy(21))]);
    blocks.push(late.clone());
    let peers = [Far::listen(&blocks, honest(), &open())];
    let (report, said, _) = sync(&peers, Until::Stop(21));
    assert_eq!((report.height.to_u32(), report.best, report.blocks_invalid), (21, hash_of(&late), 0), "{said:#?}");
    assert!(start.elapsed() >= Duration::from_secs(1), "not before its time");
    assert!(said.iter().any(|text| text.contains("kept for later")), "{said:#?}");
    assert!(!said.iter().any(|text| text.contains(" gone: ")), "no offence: {said:#?}");
}

/// In the thread that connects, and in the one that takes what arrives.
#[test]
fn panic_of_a_thread_ends_the_sync() {
    for said in ["Enabling script verification", "Peer 0: connected"] {
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut blocks = genesis();
            extend(&mut blocks, 30, 0);
            let disk = SimDisk::new(0);
            disk.create_dir_all(Path::new(crate::data_directory::DATADIR)).unwrap();
            let (options, peers) = (options(&disk, false), [Far::listen(&blocks, honest(), &open())]);
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = jobs::sync(&options, &sync_options(&peers, Until::Tip), &|event| {
                    if let Event::Note(text) = event
                        && text.starts_with(said)
                    {
                        panic!("on purpose");
                    }
                });
            }));
            done.send(panicked.is_err())
        });
        assert_eq!(ended.recv_timeout(MINUTE), Ok(true), "{said}");
    }
}
