//! A moving window over one file of records, with the obfuscation undone.

use crate::fault::Result;
use crate::open_files::RecordFile;
use crate::xor::Key;
use memchr::memmem::Finder;

/// Plain bytes of a file, read in pieces of a size that the reader chooses.
pub(crate) struct View {
    file: RecordFile,
    end: u64,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    start: u64,
    /// The minimum size of a read in bytes.
    read_bytes: usize,
}

impl View {
    /// A view of the first `end` bytes of `file`.
    pub(crate) fn new(file: RecordFile, end: u64) -> View {
        View { file, end, buffer: Vec::new(), start: 0, read_bytes: 0 }
    }

    /// The end of the view; less than requested if the file turned out to be shorter.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Sets the minimum size of a read in bytes.
    pub(crate) fn set_read_bytes(&mut self, bytes: usize) {
        self.read_bytes = bytes;
    }

    /// Up to `want` bytes at `offset`; fewer only at the end.
    pub(crate) fn peek(&mut self, offset: u64, want: usize) -> Result<&[u8]> {
        let want = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX).min(want);
        let is_held = offset >= self.start && offset + want as u64 <= self.start + self.buffer.len() as u64;
        if !is_held {
            self.fill(offset, want)?;
        }
        let at = (offset - self.start) as usize;
        let have = want.min(self.buffer.len().saturating_sub(at));
        Ok(&self.buffer[at..at + have])
    }

    fn fill(&mut self, offset: u64, want: usize) -> Result<()> {
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = want.max(self.read_bytes).min(left);
        self.buffer.resize(bytes, 0);
        let have = self.file.read_at(offset, &mut self.buffer)?;
        if have < bytes {
            self.end = offset + have as u64;
            self.buffer.truncate(have);
        }
        self.start = offset;
        Ok(())
    }

    /// Whether `bytes`, seen at `offset`, are zeros in the file itself: reserved space that was never written.
    pub(crate) fn is_untouched(key: Key, offset: u64, bytes: &[u8]) -> bool {
        bytes.iter().zip(offset..).all(|(&byte, at)| byte == key[(at % 8) as usize])
    }

    /// The next magic after `at`, and whether the bytes from `at` up to it are anything but reserved space. Looks at
    /// `step_bytes` at a time.
    pub(crate) fn search(&mut self, magic: [u8; 4], at: u64, step_bytes: usize) -> Result<(Option<u64>, bool)> {
        let finder = Finder::new(&magic);
        let key = self.key();
        let mut from = at + 1;
        let mut is_touched = !View::is_untouched(key, at, self.peek(at, 1)?);
        while from < self.end {
            let bytes = self.peek(from, step_bytes)?;
            let hit = finder.find(bytes);
            let seen = &bytes[..hit.unwrap_or(bytes.len())];
            is_touched = is_touched || !View::is_untouched(key, from, seen);
            if let Some(hit) = hit {
                return Ok((Some(from + hit as u64), is_touched));
            }
            // A magic may begin in the last bytes of this step.
            let last = bytes.len() < step_bytes;
            from += (bytes.len() - if last { 0 } else { magic.len() - 1 }) as u64;
        }
        Ok((None, is_touched))
    }

    /// The key of the obfuscation.
    pub(crate) fn key(&self) -> Key {
        self.file.key()
    }
}
