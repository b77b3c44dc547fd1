//! Many concurrent reads of files through the kernel's queue (io_uring; Linux 5.7 and newer).
//!
//! A [`Ring`] has a number of slots. A read occupies one, with the slot's piece of memory, until its answer has been
//! taken. Answers come in the order in which the disk completes them; reads from the page cache complete at once.
//!
//! Absent on purpose: writes; systems without such a queue, and containers that forbid it: there [`Ring::new`] returns
//! an error.

pub use system::Ring;

/// The kernel's io_uring.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod system {
    use io_uring::{IoUring, opcode, types};
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    /// Number of retries, a millisecond apart, while the kernel has no memory for a request.
    const TRIES_MAX: u32 = 1000;

    /// A queue of reads. The ring belongs to the thread that created it.
    pub struct Ring {
        queue: IoUring,
        /// One piece for each slot. The kernel writes to a slot's piece while its read is in flight.
        memory: *mut [u8],
        slot_bytes: usize,
        /// The tag of each slot's read.
        tags: Vec<u64>,
        /// Slots without a read.
        free: Vec<usize>,
    }

    impl Ring {
        /// A queue for `slots` reads of at most `slot_bytes` bytes each.
        ///
        /// # Errors
        ///
        /// The kernel does not support it, forbids it, or has no memory for it.
        pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Ring> {
            let entries = u32::try_from(slots).map_err(|_| io::ErrorKind::InvalidInput)?;
            let bytes = slots.checked_mul(slot_bytes).ok_or(io::ErrorKind::InvalidInput)?;
            // Completions are processed when this thread asks for them (Linux 6.1), not in the middle of other work.
            let mut builder = IoUring::builder();
            builder.setup_single_issuer().setup_defer_taskrun();
            let queue = builder.build(entries).or_else(|_| IoUring::new(entries))?;
            // This feature is as old as reads that wait for the page cache without a thread.
            if !queue.params().is_feature_fast_poll() {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let memory = Box::into_raw(vec![0; bytes].into_boxed_slice());
            Ok(Ring { queue, memory, slot_bytes, tags: vec![0; slots], free: (0..slots).rev().collect() })
        }

        /// Number of reads that can still be queued.
        pub fn room(&self) -> usize {
            self.free.len()
        }

        /// Number of reads queued and not answered.
        pub fn in_flight(&self) -> usize {
            self.tags.len() - self.free.len()
        }

        /// Queues a read of `bytes` bytes at `offset` of `file`; its answer has the tag `tag`. The read begins with
        /// [`Ring::submit`] or [`Ring::wait`]; the file must stay open until then.
        ///
        /// # Panics
        ///
        /// If all slots are in use, or for more bytes than a slot has.
        pub fn ask(&mut self, file: &File, offset: u64, bytes: usize, tag: u64) {
            assert!(bytes <= self.slot_bytes, "{bytes} bytes for a slot of {}", self.slot_bytes);
            let slot = self.free.pop().expect("there is room");
            self.tags[slot] = tag;
            let length = u32::try_from(bytes).expect("a slot is small");
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), self.piece(slot), length);
            let read = read.offset(offset).build().user_data(slot as u64);
            // SAFETY: the kernel writes at most `bytes` bytes, which are within the slot's piece; nothing else touches
            // that piece until the answer is taken, and it is freed only in `drop`, after every answer.
            let pushed = unsafe { self.queue.submission().push(&read) };
            pushed.expect("the queue has an entry for each slot");
        }

        /// Submits the queued reads to the kernel, without waiting.
        ///
        /// # Errors
        ///
        /// An I/O error.
        pub fn submit(&mut self) -> io::Result<()> {
            self.wait(0)
        }

        /// Submits the queued reads to the kernel, and waits until `count` answers are available.
        ///
        /// # Errors
        ///
        /// An I/O error.
        ///
        /// # Panics
        ///
        /// For more answers than reads in flight: they would never come.
        pub fn wait(&mut self, count: usize) -> io::Result<()> {
            assert!(count <= self.in_flight(), "{count} answers of {} reads", self.in_flight());
            let mut tries = 0;
            loop {
                match self.queue.submit_and_wait(count) {
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                    // The kernel has no memory for a request now; requests not submitted stay in the queue.
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock && tries < TRIES_MAX => {
                        tries += 1;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    done => return done.map(drop),
                }
            }
        }

        /// Passes the available answers to `each`: the tag, and either the bytes read (fewer than requested at the end
        /// of a file) or the I/O error. Returns their number.
        pub fn answers(&mut self, mut each: impl FnMut(u64, io::Result<&[u8]>)) -> usize {
            let memory = self.memory.cast::<u8>();
            let slot_bytes = self.slot_bytes;
            let mut count = 0;
            for answer in self.queue.completion() {
                let slot = usize::try_from(answer.user_data()).expect("the number of a slot");
                let tag = self.tags[slot];
                // No read takes it before this function returns, because it borrows the ring.
                self.free.push(slot);
                count += 1;
                let bytes = match usize::try_from(answer.result()) {
                    Ok(length) => {
                        let length = length.min(slot_bytes);
                        // SAFETY: the kernel is done with the slot's piece, of which it wrote `length` bytes; all of it
                        // was zeroed when it was made. There is no other reference to it, and none can be made while
                        // this one lives.
                        Ok(unsafe { std::slice::from_raw_parts(memory.add(slot * slot_bytes), length) })
                    }
                    Err(_) => Err(io::Error::from_raw_os_error(answer.result().saturating_neg())),
                };
                each(tag, bytes);
            }
            count
        }

        fn piece(&self, slot: usize) -> *mut u8 {
            assert!(slot < self.tags.len());
            // SAFETY: the slot's piece lies within `memory`, which has `slot_bytes` bytes for each slot.
            unsafe { self.memory.cast::<u8>().add(slot * self.slot_bytes) }
        }
    }

    impl Drop for Ring {
        fn drop(&mut self) {
            while self.in_flight() > 0 {
                if self.wait(1).is_err() {
                    // The kernel may still write there: it stays allocated.
                    return;
                }
                self.answers(|_, _| {});
            }
            // SAFETY: it came from a box, no read is under way, and no reference to it is left.
            drop(unsafe { Box::from_raw(self.memory) });
        }
    }
}

/// Without io_uring on this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod system {
    use std::convert::Infallible;
    use std::fs::File;
    use std::io;

    /// Never made: this system has no io_uring.
    pub struct Ring(Infallible);

    impl Ring {
        /// Returns the error that this system has no io_uring.
        ///
        /// # Errors
        ///
        /// Always.
        pub fn new(_: usize, _: usize) -> io::Result<Ring> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Like the implementation with io_uring.
        pub fn room(&self) -> usize {
            match self.0 {}
        }

        /// Like the implementation with io_uring.
        pub fn in_flight(&self) -> usize {
            match self.0 {}
        }

        /// Like the implementation with io_uring.
        pub fn ask(&mut self, _: &File, _: u64, _: usize, _: u64) {
            match self.0 {}
        }

        /// Like the implementation with io_uring.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn submit(&mut self) -> io::Result<()> {
            match self.0 {}
        }

        /// Like the implementation with io_uring.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn wait(&mut self, _: usize) -> io::Result<()> {
            match self.0 {}
        }

        /// Like the implementation with io_uring.
        pub fn answers(&mut self, _: impl FnMut(u64, io::Result<&[u8]>)) -> usize {
            match self.0 {}
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} reads under way)", self.in_flight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    /// A ring, or nothing where the system has none.
    fn ring(slots: usize, slot_bytes: usize) -> Option<Ring> {
        match Ring::new(slots, slot_bytes) {
            Ok(ring) => Some(ring),
            Err(why) => {
                println!("skipped: no queue of reads here ({why})");
                None
            }
        }
    }

    /// The reference implementation: each read by itself, at its place.
    fn plain(bytes: &[u8], offset: usize, length: usize) -> &[u8] {
        &bytes[offset.min(bytes.len())..(offset + length).min(bytes.len())]
    }

    #[test]
    fn ring_reads_what_the_file_has() {
        let Some(mut ring) = ring(8, 300) else { return };
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at * 7 / 5).to_le_bytes()[0]).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mut rng = testkit::Rng::new(3);
        let wanted: Vec<(usize, usize)> = (0..500).map(|_| (rng.below(51_000), rng.below(301))).collect();
        let (mut next, mut answered) = (0, 0);
        while answered < wanted.len() {
            while ring.room() > 0 && next < wanted.len() {
                let (offset, length) = wanted[next];
                ring.ask(&file, offset as u64, length, next as u64);
                next += 1;
            }
            ring.submit().unwrap();
            ring.wait(1.min(ring.in_flight())).unwrap();
            answered += ring.answers(|tag, read| {
                let (offset, length) = wanted[usize::try_from(tag).unwrap()];
                assert_eq!(read.unwrap(), plain(&bytes, offset, length), "{length} bytes at {offset}");
            });
        }
        assert_eq!((ring.in_flight(), ring.room()), (0, 8));
    }

    #[test]
    fn ring_says_what_the_system_says() {
        let Some(mut ring) = ring(2, 10) else { return };
        let directory = tempfile::tempdir().unwrap();
        let write_only = File::create(directory.path().join("file")).unwrap();
        ring.ask(&write_only, 0, 10, 5);
        ring.wait(1).unwrap();
        let mut said = Vec::new();
        ring.answers(|tag, read| said.push((tag, read.map(<[u8]>::len).map_err(|why| why.raw_os_error()))));
        assert_eq!(said, [(5, Err(Some(libc::EBADF)))]);
        // Dropped with a read that was never handed over.
        let file = tempfile::tempfile().unwrap();
        ring.ask(&file, 0, 10, 6);
        assert_eq!(ring.in_flight(), 1);
    }
}
