//! The source of a sync's snapshot: converts `--snapshot` into a file or a stream.
//!
//! `peers` are chunks from peers, of the highest known snapshot or of `peers:HASH`.
//! A path is a file, or a pipe or device that is read sequentially; `-` is standard input; URLs are mirrors of
//! one file (feature `fetch`); `auto` takes URLs from a list (docs/snapshots.md describes its format).
//!
//! Absent on purpose: validating and loading the snapshot (`node`).

use crate::Failure;
use consensus::Params;
use node::Message;
use node::jobs::{FromSnapshot, Got, SharedStream, SnapshotStream};
use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Name of the list in the data directory.
const LIST: &str = "snapshots.txt";
/// Maximum size of the list in bytes.
const LIST_BYTES_MAX: u64 = 1 << 20;
/// Bytes of one read from a pipe, and the number of pieces buffered ahead of the loader.
const PIECE_BYTES: usize = 1 << 20;
const PIECES_AHEAD: usize = 4;

/// The snapshot options of the command line.
pub(crate) struct Asked<'a> {
    /// `--snapshot`.
    pub(crate) values: &'a [String],
    /// `--snapshot-list`.
    pub(crate) list: Option<&'a Path>,
    pub(crate) datadir: &'a Path,
    pub(crate) params: &'a Params,
    /// `--proxy`.
    pub(crate) proxy: Option<&'a str>,
}

/// Whether a value is a URL of a mirror.
fn is_url(value: &str) -> bool {
    let start = value.get(..8).unwrap_or(value).to_ascii_lowercase();
    start.starts_with("http://") || start.starts_with("https://")
}

/// Returns the file or stream of a sync, without reading from it.
///
/// # Errors
///
/// [`Failure`]: the values contradict each other, the list names no snapshot, or this build lacks the feature.
pub(crate) fn source(asked: &Asked<'_>) -> Result<FromSnapshot, Failure> {
    match asked.values {
        [] => Ok(FromSnapshot::default()),
        [one] if one == "-" => Ok(of_stream(SharedStream::new(Piped::stdin()))),
        [one] if one == "auto" => mirrors(&listed(asked)?, asked),
        [one] if one == "peers" || one.starts_with("peers:") => of_peers(one, asked.params),
        urls if urls.iter().all(|value| is_url(value)) => mirrors(urls, asked),
        [one] => {
            let path = PathBuf::from(one);
            let kind = std::fs::metadata(&path).map(|found| found.file_type());
            if kind.is_ok_and(is_piped) {
                return Ok(of_stream(SharedStream::new(Piped::of(path))));
            }
            Ok(FromSnapshot { file: Some(path), ..FromSnapshot::default() })
        }
        several => {
            let other = several.iter().find(|value| !is_url(value)).map_or("", String::as_str);
            Err(Failure::Usage(format!(
                "--snapshot {other}: given several times, each must be the URL (http:// or https://) of a mirror of one file"
            )))
        }
    }
}

/// The base block of a set that peers send: `peers`, the highest that is known, or `peers:HASH`.
fn of_peers(value: &str, params: &Params) -> Result<FromSnapshot, Failure> {
    let base = match value.strip_prefix("peers:") {
        Some(hash) => primitives::BlockHash::from_display(hash).ok_or_else(|| {
            Failure::Usage(format!(
                "--snapshot {value}: expected peers:HASH, with the hash of a block (64 hexadecimal digits)"
            ))
        })?,
        None => {
            let highest = params.assumeutxo.iter().max_by_key(|known| known.height);
            let chain = params.chain;
            let none = || {
                Failure::Usage(format!(
                    "--snapshot peers: this program knows no snapshot of {chain}. Give its block as peers:HASH, and --snapshot-hash"
                ))
            };
            highest.ok_or_else(none)?.block_hash
        }
    };
    Ok(FromSnapshot { peers: Some(base), ..FromSnapshot::default() })
}

fn of_stream(stream: SharedStream) -> FromSnapshot {
    FromSnapshot { stream: Some(stream), ..FromSnapshot::default() }
}

/// Whether a file has no length and is read sequentially: a named pipe, a shell's `<(...)`, a terminal.
fn is_piped(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device() || kind.is_socket()
}

#[cfg(feature = "fetch")]
fn mirrors(urls: &[String], asked: &Asked<'_>) -> Result<FromSnapshot, Failure> {
    let agent = concat!("ffwd/", env!("CARGO_PKG_VERSION"));
    let mirrors = fetch::Mirrors::new(urls, asked.proxy.map(str::to_owned), agent)
        .map_err(|why| Failure::Usage(format!("--snapshot {why}")))?;
    Ok(of_stream(SharedStream::new(mirrors)))
}

#[cfg(not(feature = "fetch"))]
fn mirrors(_: &[String], asked: &Asked<'_>) -> Result<FromSnapshot, Failure> {
    let _ = asked.proxy;
    Err(Failure::Usage(crate::features::told("--snapshot with the URL of a mirror", "fetch")))
}

/// The URLs of the highest listed snapshot whose hash this program knows.
fn listed(asked: &Asked<'_>) -> Result<Vec<String>, Failure> {
    let default = asked.datadir.join(LIST);
    let path = asked.list.unwrap_or(&default);
    let advice = format!(
        "Write lines of network, height and URL into it, as docs/snapshots.md shows; known heights of {}: {}",
        asked.params.chain,
        heights(asked.params)
    );
    let failed = |why: String| Failure::fault(format!("--snapshot auto: {}: {why}", path.display()), advice.clone());
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(LIST_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|why| failed(why.to_string()))?;
    let mut found: Vec<(u32, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let height = words.get(1).and_then(|word| word.parse::<u32>().ok());
        let (&[chain, _, url], Some(height)) = (&words[..], height) else {
            return Err(failed(format!("line {} is not network, height and URL: {line:.120}", number + 1)));
        };
        if !is_url(url) {
            return Err(failed(format!("line {}: {url:.120} begins with neither http:// nor https://", number + 1)));
        }
        let is_known = asked.params.assumeutxo.iter().any(|known| known.height.to_u32() == height);
        if chain == asked.params.chain.name() && is_known {
            found.push((height, url.to_owned()));
        }
    }
    let best = found.iter().map(|(height, _)| *height).max();
    let urls: Vec<String> = found.into_iter().filter(|(height, _)| Some(*height) == best).map(|(_, url)| url).collect();
    if urls.is_empty() {
        return Err(failed(format!("it has no snapshot of {} that this program knows", asked.params.chain)));
    }
    Ok(urls)
}

fn heights(params: &Params) -> String {
    let heights: Vec<String> = params.assumeutxo.iter().map(|known| known.height.to_string()).collect();
    if heights.is_empty() { "none".to_owned() } else { heights.join(", ") }
}

/// A stream that can be read once: standard input or a pipe. A detached thread reads it, until the program ends.
struct Piped {
    name: String,
    /// The path that the first read opens; `None` for standard input.
    path: Option<PathBuf>,
    pieces: Option<Receiver<io::Result<Vec<u8>>>>,
    piece: Vec<u8>,
    at: usize,
}

impl Piped {
    fn stdin() -> Piped {
        Piped { name: "standard input".to_owned(), path: None, pieces: None, piece: Vec::new(), at: 0 }
    }

    fn of(path: PathBuf) -> Piped {
        Piped { name: path.display().to_string(), path: Some(path), pieces: None, piece: Vec::new(), at: 0 }
    }

    fn failed(&self, why: &io::Error) -> Message {
        let advice =
            "A pipe is read once, from its first byte: start the program that fills it, and the same command, again";
        Message::new(format!("{} cannot be read ({why})", self.name), advice)
    }

    /// Starts the thread that reads, and that also opens the pipe, because opening may block too.
    fn begin(&self) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
        let (sender, receiver) = sync_channel(PIECES_AHEAD);
        let path = self.path.clone();
        let work = move || match path {
            None => pour(io::stdin().lock(), &sender),
            Some(path) => match File::open(path) {
                Ok(file) => pour(file, &sender),
                Err(why) => drop(sender.send(Err(why))),
            },
        };
        std::thread::Builder::new().name("snapshot.pipe".to_owned()).spawn(work)?;
        Ok(receiver)
    }
}

/// Reads to the end, or until the receiver is dropped.
fn pour(mut from: impl Read, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match from.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => {
                piece.truncate(count);
                Ok(piece)
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => Err(why),
        };
        let is_last = read.is_err();
        if to.send(read).is_err() || is_last {
            return;
        }
    }
}

impl SnapshotStream for Piped {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn bytes(&self) -> Option<u64> {
        None
    }

    fn can_seek(&self) -> bool {
        false
    }

    fn seek(&mut self, _: u64) -> Result<(), Message> {
        Err(self.failed(&io::ErrorKind::NotSeekable.into()))
    }

    fn read(&mut self, out: &mut [u8], patience: Duration) -> Result<Got, Message> {
        if self.at == self.piece.len() {
            let pieces = match self.pieces.take() {
                Some(pieces) => pieces,
                None => self.begin().map_err(|why| self.failed(&why))?,
            };
            let next = pieces.recv_timeout(patience);
            self.pieces = Some(pieces);
            match next {
                Ok(Ok(piece)) => {
                    self.piece = piece;
                    self.at = 0;
                }
                Ok(Err(why)) => return Err(self.failed(&why)),
                Err(RecvTimeoutError::Timeout) => return Ok(Got::Waiting),
                Err(RecvTimeoutError::Disconnected) => return Ok(Got::End),
            }
        }
        let count = out.len().min(self.piece.len() - self.at);
        out[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(Got::Bytes(count))
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn try_others(&mut self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use std::io::Write;

    /// Core's highest regtest snapshot.
    const HIGHEST: &str = "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853";

    fn asked(values: &[&str], datadir: &Path) -> Result<String, String> {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        let params = Params::new(Chain::Regtest);
        let asked = Asked { values: &values, list: None, datadir, params: &params, proxy: None };
        match source(&asked) {
            Ok(FromSnapshot { file: Some(path), .. }) => Ok(format!("file {}", path.display())),
            Ok(FromSnapshot { stream: Some(stream), .. }) => Ok(format!("stream {}", stream.name())),
            Ok(FromSnapshot { peers: Some(base), .. }) => Ok(format!("peers {base}")),
            Ok(_) => Ok("none".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    }

    /// What this program makes of mirrors: without the feature it says which one it needs.
    fn mirrors_of(names: &str) -> Result<String, String> {
        match cfg!(feature = "fetch") {
            true => Ok(format!("stream {names}")),
            false => Err("without the feature `fetch`".to_owned()),
        }
    }

    fn is_as(got: &Result<String, String>, want: &Result<String, String>) -> bool {
        match (got, want) {
            (Ok(got), Ok(want)) => got == want,
            (Err(got), Err(want)) => got.contains(want.as_str()),
            _ => false,
        }
    }

    #[test]
    fn values_are_files_pipes_mirrors_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let name = pipe.to_str().unwrap();
        for (values, want) in [
            (&[][..], Ok("none".to_owned())),
            (&["utxo.dat"], Ok("file utxo.dat".to_owned())),
            (&["-"], Ok("stream standard input".to_owned())),
            (&[name], Ok(format!("stream {name}"))),
            (&["http://a/x"], mirrors_of("http://a/x")),
            (&["HTTPS://a/x", "http://b:81/y"], mirrors_of("https://a/x, http://b:81/y")),
            (&["http://a/x", "utxo.dat"], Err("--snapshot utxo.dat: given several times".to_owned())),
            (&["-", "-"], Err("given several times".to_owned())),
            (&["peers"], Ok(format!("peers {HIGHEST}"))),
            (&[&format!("peers:{HIGHEST}")], Ok(format!("peers {HIGHEST}"))),
            (&["peers:abc"], Err("expected peers:HASH, with the hash of a block (64 hexadecimal digits)".to_owned())),
            (&["peers", "utxo.dat"], Err("given several times".to_owned())),
        ] {
            let got = asked(values, dir.path());
            assert!(is_as(&got, &want), "{values:?}: {got:?} for {want:?}");
        }
    }

    #[test]
    fn auto_takes_the_mirrors_of_the_highest_snapshot_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let with = |list: &str| {
            std::fs::write(dir.path().join(LIST), list).unwrap();
            asked(&["auto"], dir.path())
        };
        let none = asked(&["auto"], dir.path()).unwrap_err();
        assert!(none.contains("snapshots.txt: No such file") && none.contains("110, 200, 299"), "{none}");
        let list = "# mine\n\nregtest 110 http://a/110\nregtest  299 http://a/299 # good\nregtest 299\thttp://b/299\n\
                    regtest 300 http://a/300\nmain 935000 http://a/main\n";
        for (list, want) in [
            (list, mirrors_of("http://a/299, http://b/299")),
            ("regtest 110 http://a/110\n", mirrors_of("http://a/110")),
            ("regtest 300 http://a/300\n", Err("no snapshot of regtest that this program knows".to_owned())),
            ("", Err("no snapshot of regtest".to_owned())),
            ("regtest 110\n", Err("line 1 is not network, height and URL: regtest 110".to_owned())),
            ("#\nregtest x http://a\n", Err("line 2 is not network".to_owned())),
            ("regtest 110 ftp://a/b\n", Err("begins with neither http:// nor https://".to_owned())),
        ] {
            let got = with(list);
            assert!(is_as(&got, &want), "{list:?}: {got:?} for {want:?}");
        }
    }

    #[test]
    fn pipes_are_read_in_order_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| ((number * 7) >> 3) as u8).collect();
        let mut stream = Piped::of(path.clone());
        let mut out = vec![0; 70_000];
        assert_eq!(stream.read(&mut out, Duration::from_millis(20)).unwrap(), Got::Waiting, "nobody writes");
        let written = bytes.clone();
        let writer =
            std::thread::spawn(move || std::fs::OpenOptions::new().write(true).open(path)?.write_all(&written));
        let mut got = Vec::new();
        loop {
            match stream.read(&mut out, Duration::from_secs(10)).unwrap() {
                Got::Bytes(count) => got.extend_from_slice(&out[..count]),
                Got::Waiting => panic!("the writer writes"),
                Got::End => break,
            }
        }
        writer.join().unwrap().unwrap();
        assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
        assert!(stream.seek(0).is_err() && !stream.can_seek());
        let mut missing = Piped::of(dir.path().join("nothing"));
        let why = missing.read(&mut out, Duration::from_secs(10)).unwrap_err().to_string();
        assert!(why.contains("cannot be read (No such file"), "{why}");
    }
}
