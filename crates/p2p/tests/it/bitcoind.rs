//! A real bitcoind at the other end, where `BITCOIND_EXE` names one: we sync from it, it syncs from us.

use super::*;
use primitives::BlockHash;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A bitcoind on regtest, stopped when dropped.
struct Bitcoind {
    process: Child,
    directory: PathBuf,
    rpc_port: u16,
    port: u16,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Bitcoind {
    /// `None`, with a line that says so, where there is none.
    fn start(name: &str, options: &[&str]) -> Option<Bitcoind> {
        let Some(program) = std::env::var_os("BITCOIND_EXE") else {
            eprintln!("skipped: BITCOIND_EXE names no bitcoind");
            return None;
        };
        let directory = std::env::temp_dir().join(format!("ffwd-p2p-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (rpc_port, port) = (free_port(), free_port());
        let process = Command::new(program)
            .args(["-regtest", "-rpcuser=user", "-rpcpassword=pass", "-fallbackfee=0.0001", "-listenonion=0"])
            .arg(format!("-datadir={}", directory.display()))
            .arg(format!("-rpcport={rpc_port}"))
            .arg(format!("-bind=127.0.0.1:{port}"))
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let bitcoind = Bitcoind { process, directory, rpc_port, port };
        let end = Instant::now() + 60 * S;
        while bitcoind.call("getblockcount", "").is_none() {
            assert!(Instant::now() < end, "bitcoind does not start");
            std::thread::sleep(S / 10);
        }
        Some(bitcoind)
    }

    /// The result of a call as text, `None` when it fails.
    fn call(&self, method: &str, params: &str) -> Option<String> {
        let body = format!("{{\"method\":\"{method}\",\"params\":[{params}]}}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.rpc_port)).ok()?;
        // user:pass
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic dXNlcjpwYXNz\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, rest) = answer.split_once("\"result\":")?;
        let (result, _) = rest.split_once(",\"error\":null")?;
        Some(result.trim_matches('"').to_owned())
    }

    /// Mines blocks that pay to this script, in hexadecimal.
    fn mine(&self, count: usize, script: &str) {
        let info = self.call("getdescriptorinfo", &format!("\"raw({script})\"")).expect("has a checksum");
        let (_, rest) = info.split_once("\"descriptor\":\"").expect("names it");
        let (descriptor, _) = rest.split_once('"').expect("to its end");
        self.call("generatetodescriptor", &format!("{count}, \"{descriptor}\"")).expect("mines");
    }

    fn tip(&self) -> BlockHash {
        BlockHash::from_display(&self.call("getbestblockhash", "").expect("answers")).unwrap()
    }

    fn wait_for(&self, tip: BlockHash) {
        let end = Instant::now() + 30 * S;
        while self.tip() != tip {
            assert!(Instant::now() < end, "bitcoind is at {:?}", self.call("getpeerinfo", ""));
            std::thread::sleep(S / 10);
        }
    }
}

impl Drop for Bitcoind {
    fn drop(&mut self) {
        let _ = self.call("stop", "");
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn blocks_pass_from_one_bitcoind_to_another() {
    for (v2, flag) in [(true, "-v2transport=1"), (false, "-v2transport=0")] {
        let Some(source) = Bitcoind::start(&format!("source-{v2}"), &[flag, "-connect=0"]) else { return };
        source.mine(2200, "51");
        // By v2 first in both rounds: in the second round the other speaks v1 only, and we fall back.
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let outbound = Outbound::Only(vec![format!("127.0.0.1:{}", source.port)]);
        let node = Node::start(Config { outbound, listen, ..config() }, Arc::new(Chain::regtest()));
        let want = source.tip();
        assert!(node.wait(60 * S, |node| node.chain.tip().hash == want), "{}", node.state());
        assert!(node.wait(10 * S, |node| node.network.progress().headers_done), "{}", node.state());
        assert_eq!(node.connected.lock().unwrap().last().unwrap().v2, v2);

        let connect = format!("-connect={}", node.network.listening()[0]);
        let target = Bitcoind::start(&format!("target-{v2}"), &[flag, &connect]).expect("there is one");
        target.wait_for(want);
        let peers = target.call("getpeerinfo", "").expect("answers");
        let transport = if v2 { "\"transport_protocol_type\":\"v2\"" } else { "\"transport_protocol_type\":\"v1\"" };
        assert!(peers.contains("/ffwd:") && peers.contains(transport), "{peers}");

        // New blocks go through, and a reorg of twenty.
        source.mine(1, "51");
        let want = source.tip();
        assert!(node.wait(30 * S, |node| node.chain.tip().hash == want), "{}", node.state());
        target.wait_for(want);
        let fork = source.call("getblockhash", "2181").expect("answers");
        source.call("invalidateblock", &format!("\"{fork}\"")).expect("reorgs");
        source.mine(22, "52");
        let want = source.tip();
        assert!(node.wait(30 * S, |node| node.chain.tip().hash == want), "{}", node.state());
        target.wait_for(want);
        let gone = node.gone.lock().unwrap().clone();
        assert!(gone.iter().all(|(_, reason)| !reason.is_offence()), "{gone:?}");
    }
}
