//! A file that a compaction reads from front to back, in large steps.
//!
//! A read that the last step does not hold fetches `step` bytes from its offset on. References of one
//! compaction lead through a blob file mostly in ascending order, because the file was written in the
//! order of keys.

use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use spanlith_env::RandomAccessFile;
use std::path::Path;
use std::sync::Arc;

/// Rank of a lock under which nothing else is taken.
const RANK: u8 = 90;

/// Reads `step` bytes at a time.
pub(crate) struct ReadAheadFile {
    file: Arc<dyn RandomAccessFile>,
    step: usize,
    window: Mutex<Window>,
}

/// Describes what was read last.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// `len` bytes from `offset` on, if it holds all of them.
    fn part(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

impl ReadAheadFile {
    /// Reads of `file`, each of at least `step` bytes as far as the file has them.
    pub(crate) fn new(file: Arc<dyn RandomAccessFile>, step: usize) -> Self {
        Self {
            file,
            step,
            window: Mutex::new(RANK, Window::default()),
        }
    }
}

impl RandomAccessFile for ReadAheadFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if buf.len() >= self.step {
            return self.file.read_at(offset, buf);
        }
        // Taken out, so that no lock is held while the file is read. A second reader reads anew.
        let mut window = std::mem::take(&mut *self.window.lock());
        if window.part(offset, buf.len()).is_none() {
            let left = self.file.size().saturating_sub(offset);
            let len = self.step.min(usize::try_from(left).unwrap_or(usize::MAX));
            window.start = offset;
            window.bytes.resize(len, 0);
            let read = self.file.read_at(offset, &mut window.bytes)?;
            window.bytes.truncate(read);
        }
        // Fewer bytes only if the file ends before.
        let part = window.part(offset, buf.len()).unwrap_or(&window.bytes);
        let n = part.len().min(buf.len());
        buf[..n].copy_from_slice(&part[..n]);
        *self.window.lock() = window;
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counted(Vec<u8>, AtomicUsize);

    impl RandomAccessFile for Counted {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let from = (offset as usize).min(self.0.len());
            let n = buf.len().min(self.0.len() - from);
            buf[..n].copy_from_slice(&self.0[from..from + n]);
            Ok(n)
        }
        fn size(&self) -> u64 {
            self.0.len() as u64
        }
        fn path(&self) -> &Path {
            Path::new("counted")
        }
    }

    #[test]
    fn reads_in_order_take_few_reads_of_the_file_and_yield_its_bytes() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        let file = Arc::new(Counted(bytes.clone(), AtomicUsize::new(0)));
        let ahead = ReadAheadFile::new(file.clone(), 256);
        for at in (0..1000).step_by(10) {
            let mut buf = [0; 10];
            assert_eq!(ahead.read_at(at, &mut buf).unwrap(), 10);
            assert_eq!(buf, bytes[at as usize..][..10]);
        }
        let reads = file.1.load(Ordering::Relaxed);
        assert!((4..=5).contains(&reads), "{reads} reads");
        // Back, beyond the end, and a read larger than a step.
        let mut buf = [0; 10];
        assert_eq!(ahead.read_at(3, &mut buf).unwrap(), 10);
        assert_eq!(buf, bytes[3..13]);
        assert_eq!(ahead.read_at(995, &mut buf).unwrap(), 5);
        assert_eq!(buf[..5], bytes[995..]);
        assert_eq!(ahead.read_at(2000, &mut buf).unwrap(), 0);
        let mut large = vec![0; 600];
        assert_eq!(ahead.read_at(100, &mut large).unwrap(), 600);
        assert_eq!(large, bytes[100..700]);
    }
}
