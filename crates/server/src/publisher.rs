//! Publisher of the page's events: one thread makes them once a second for all readers, only while there are readers.

use crate::connections::CONNECTIONS_MAX;
use futures_util::stream::{Stream, unfold};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::watch::{Receiver, Sender, channel};
use watch::Board;

/// Interval of events.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of readers: each has its own connection, and most connections are left for calls.
pub(crate) const READERS_MAX: usize = 24;
const _: () = assert!(READERS_MAX < CONNECTIONS_MAX / 4);

/// The events of the page.
pub(crate) struct Publisher {
    board: Arc<Board>,
    sender: Sender<Arc<str>>,
    is_running: AtomicBool,
}

impl Publisher {
    /// A publisher without readers.
    pub(crate) fn new(board: Arc<Board>) -> Publisher {
        Publisher { board, sender: channel("".into()).0, is_running: AtomicBool::new(false) }
    }

    /// The events from now on, the first immediately; `None` if there are too many readers. `is_over` ends the
    /// stream.
    pub(crate) fn events(
        self: &Arc<Self>,
        is_over: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<impl Stream<Item = Arc<str>> + Send + 'static> {
        if self.sender.receiver_count() >= READERS_MAX {
            return None;
        }
        let mut receiver = self.sender.subscribe();
        if !receiver.borrow().is_empty() {
            receiver.mark_changed();
        }
        self.run();
        Some(unfold((receiver, is_over), |(mut receiver, is_over)| async move {
            let text = next(&mut receiver, &is_over).await?;
            Some((text, (receiver, is_over)))
        }))
    }

    /// Starts the thread, unless it is running.
    fn run(self: &Arc<Self>) {
        if self.is_running.swap(true, SeqCst) {
            return;
        }
        let publisher = self.clone();
        let spawned = std::thread::Builder::new().name("ffwd-page".to_owned()).spawn(move || publisher.publish());
        if spawned.is_err() {
            self.is_running.store(false, SeqCst);
        }
    }

    fn publish(&self) {
        loop {
            while self.sender.receiver_count() > 0 {
                let _ = self.sender.send(self.board.view_json());
                std::thread::sleep(INTERVAL);
            }
            // The next reader's first event must be a new one.
            self.sender.send_replace("".into());
            self.is_running.store(false, SeqCst);
            // A reader may have connected before `is_running` was reset.
            if self.sender.receiver_count() == 0 || self.is_running.swap(true, SeqCst) {
                return;
            }
        }
    }
}

async fn next(receiver: &mut Receiver<Arc<str>>, is_over: &impl Fn() -> bool) -> Option<Arc<str>> {
    while !is_over() {
        match tokio::time::timeout(INTERVAL / 4, receiver.changed()).await {
            Ok(Ok(())) => {
                let text = receiver.borrow_and_update().clone();
                if !text.is_empty() {
                    return Some(text);
                }
            }
            Ok(Err(_)) => return None,
            Err(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use std::pin::pin;
    use watch::board::Settings;

    #[test]
    fn readers_share_events_and_the_thread_ends_with_the_last() {
        let board = Arc::new(Board::new(Settings::default(), Arc::default()));
        let publisher = Arc::new(Publisher::new(board));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let over = Arc::new(AtomicBool::new(false));
            let ends = over.clone();
            let mut one = pin!(publisher.events(move || ends.load(SeqCst)).unwrap());
            let first = one.next().await.unwrap();
            assert!(first.starts_with('{') && first.contains("\"state\":{\"name\":\"opening\""), "{first}");
            let mut two = pin!(publisher.events(|| false).unwrap());
            assert_eq!(two.next().await.unwrap(), first, "at once, and the same");
            assert!(one.next().await.is_some());
            over.store(true, SeqCst);
            assert!(one.next().await.is_none());
            let many: Vec<_> = (0..READERS_MAX).filter_map(|_| publisher.events(|| false)).collect();
            assert!(many.len() < READERS_MAX && publisher.events(|| false).is_none(), "{}", many.len());
        });
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while publisher.is_running.load(SeqCst) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!publisher.is_running.load(SeqCst), "no reader is left");
        publisher.board.stopping();
        runtime.block_on(async {
            let first = pin!(publisher.events(|| false).unwrap()).next().await.unwrap();
            assert!(first.contains("\"state\":{\"name\":\"stopping\""), "not what the last reader saw: {first}");
        });
    }
}
