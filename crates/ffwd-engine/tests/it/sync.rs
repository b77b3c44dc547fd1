//! A sync from a peer, which is another data directory of this library.

use crate::support::{SMALL_BEST, SMALL_HASH, indexed};
use ffwd_engine::{DataDir, Ended, Event, Network, Stop};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, mpsc};

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_sync_takes_the_chain_of_its_peer() {
    let (_served, server) = indexed();
    let folder = tempfile::tempdir().unwrap();
    let client = DataDir::open(folder.path(), Network::Regtest).unwrap();
    let stop = Stop::new();
    let address = free_address();
    let (ready, is_ready) = mpsc::channel();
    let ready = Mutex::new(ready);
    let say_ready = |event: Event| {
        if matches!(event, Event::Ready) {
            let _ = ready.lock().unwrap().send(());
        }
    };
    let nobody: [&str; 0] = [];
    let job = server.sync().connect(nobody).listen(address).follow().stop(&stop).cache_bytes(8 << 20);
    let job = job.on_event(say_ready);
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || job.run());
        is_ready.recv().unwrap();
        let part = client.sync().connect([address.to_string()]).stop_at_height(40).cache_bytes(8 << 20).run().unwrap();
        assert_eq!((part.height, part.blocks), (40, 40));
        let tips = Mutex::new(Vec::new());
        let note_tip = |event: Event| {
            if let Event::Tip { height, .. } = event {
                tips.lock().unwrap().push(height);
            }
        };
        let job = client.sync().connect([address.to_string()]).without_dns_seeds().cache_bytes(8 << 20);
        let report = job.on_event(note_tip).run().unwrap();
        stop.stop();
        assert_eq!((report.height, report.height_start), (107, 40));
        assert_eq!((report.best_block.to_string(), report.ended), (SMALL_BEST.to_owned(), Ended::Complete));
        assert_eq!(tips.into_inner().unwrap().last(), Some(&107));
        assert_eq!(serving.join().unwrap().unwrap().ended, Ended::Stopped);
    });
    assert_eq!(client.coins().unwrap().hash_serialized_3().unwrap().to_string(), SMALL_HASH);
    assert_eq!(client.verify().level(4).all_blocks().run().unwrap().blocks, 107);
}
