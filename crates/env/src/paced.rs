//! Files whose I/O is spread over time: limited in bytes per second, and written back while they grow.
//!
//! [`PacedFile`] and [`PacedReader`] wrap a file of any file system, so that a file without limits pays
//! nothing. Appends are split at the limiter's burst, each part asked for before it is made.
//!
//! Write-back follows RocksDB's rule: the last mebibyte of a growing file is left alone, because it may
//! still change; of what lies before it, whole pages are handed to the kernel once at least
//! `bytes_per_sync` of them have gathered.
//!
//! Threads: as the wrapped file.

use crate::rate_limiter::{IoDirection, IoPriority, RateLimiter};
use crate::traits::{Access, RandomAccessFile, ReadRequest, SyncUnderWay, WritableFile};
use spanlith_base::Result;
use spanlith_base::stats::{Statistics, Ticker};
use std::path::Path;
use std::sync::Arc;

/// End of a growing file that is not written back.
const TAIL_BYTES: u64 = 1 << 20;
/// Ranges are cut to pages.
const PAGE_BYTES: u64 = 4096;

/// When a growing file is written back; RocksDB's `bytes_per_sync` and `strict_bytes_per_sync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncPace {
    /// Bytes between requests for write-back; 0 leaves it to the kernel.
    pub bytes_per_sync: u64,
    /// Waits for the write-back asked for before, so that no more than `bytes_per_sync` are dirty at a
    /// time. The appender then moves at the speed of the disk.
    pub is_strict: bool,
}

/// A writable file that asks a rate limiter before it writes and is written back while it grows.
pub struct PacedFile {
    file: Box<dyn WritableFile>,
    limiter: Option<(Arc<RateLimiter>, IoPriority)>,
    pace: SyncPace,
    /// End of what was handed to the kernel.
    written_back: u64,
    /// Counts what was asked for; `None` if nobody does.
    statistics: Option<Arc<Statistics>>,
}

impl PacedFile {
    /// `file` with write-back by `pace` and, if there is a limiter, asking it at a priority.
    pub fn new(
        file: Box<dyn WritableFile>,
        limiter: Option<(Arc<RateLimiter>, IoPriority)>,
        pace: SyncPace,
    ) -> Self {
        let written_back = file.len();
        Self {
            file,
            limiter,
            pace,
            written_back,
            statistics: None,
        }
    }

    /// Counts requests for bytes there.
    #[must_use]
    pub fn counted(mut self, statistics: Option<Arc<Statistics>>) -> Self {
        self.statistics = statistics;
        self
    }

    fn keep_pace(&mut self) -> Result<()> {
        let Some(end) = self.file.len().checked_sub(TAIL_BYTES) else {
            return Ok(());
        };
        let end = end - end % PAGE_BYTES;
        let len = end.saturating_sub(self.written_back);
        if len < self.pace.bytes_per_sync || len == 0 {
            return Ok(());
        }
        if self.pace.is_strict {
            self.file.write_back_strictly(self.written_back, len)?;
        } else {
            self.file.write_back(self.written_back, len)?;
        }
        self.written_back = end;
        Ok(())
    }
}

impl WritableFile for PacedFile {
    fn append(&mut self, mut data: &[u8]) -> Result<()> {
        let limiter = self
            .limiter
            .as_ref()
            .filter(|(limiter, _)| limiter.limits(IoDirection::Write));
        match limiter {
            None => self.file.append(data)?,
            Some((limiter, priority)) => loop {
                let burst = usize::try_from(limiter.single_burst_bytes()).unwrap_or(usize::MAX);
                let (part, rest) = data.split_at(data.len().min(burst.max(1)));
                if let Some(s) = &self.statistics {
                    s.add(Ticker::RateLimiterBytesWrite, part.len() as u64);
                    s.add(Ticker::RateLimiterRequestsWrite, 1);
                }
                limiter.request(part.len() as u64, *priority, IoDirection::Write);
                self.file.append(part)?;
                if rest.is_empty() {
                    break;
                }
                data = rest;
            },
        }
        if self.pace.bytes_per_sync > 0 {
            self.keep_pace()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn expect_sync(&mut self) {
        self.file.expect_sync();
    }

    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        self.file.begin_sync()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file.write_back(offset, len)
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file.write_back_strictly(offset, len)
    }

    fn preallocate(&mut self, len: u64) {
        self.file.preallocate(len);
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)?;
        self.written_back = self.written_back.min(len);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A file whose reads ask a rate limiter first.
pub struct PacedReader {
    file: Arc<dyn RandomAccessFile>,
    limiter: Arc<RateLimiter>,
    priority: IoPriority,
}

impl PacedReader {
    /// `file` whose reads have `priority` with `limiter`.
    pub fn new(
        file: Arc<dyn RandomAccessFile>,
        limiter: Arc<RateLimiter>,
        priority: IoPriority,
    ) -> Self {
        Self {
            file,
            limiter,
            priority,
        }
    }

    fn ask(&self, bytes: usize) {
        self.limiter
            .request(bytes as u64, self.priority, IoDirection::Read);
    }
}

impl RandomAccessFile for PacedReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.ask(buf.len());
        self.file.read_at(offset, buf)
    }

    fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        self.ask(requests.iter().map(|r| r.buf.len()).sum());
        self.file.read_many(requests);
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        self.file.read_ahead(offset, len);
    }

    fn advise(&self, access: Access) {
        self.file.advise(access);
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;
    use crate::mem::MemFs;
    use crate::rate_limiter::{RateLimiterMode, RateLimiterOptions};
    use crate::traits::{Clock, FileSystem, IoActivity};

    /// A file that only notes which ranges were to be written back.
    struct Noting {
        len: u64,
        ranges: Arc<std::sync::Mutex<Vec<(u64, u64, bool)>>>,
    }

    impl WritableFile for Noting {
        fn append(&mut self, data: &[u8]) -> Result<()> {
            self.len += data.len() as u64;
            Ok(())
        }
        fn sync(&mut self) -> Result<()> {
            Ok(())
        }
        fn len(&self) -> u64 {
            self.len
        }
        fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
            self.ranges.lock().unwrap().push((offset, len, false));
            Ok(())
        }
        fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
            self.ranges.lock().unwrap().push((offset, len, true));
            Ok(())
        }
        fn close(&mut self) -> Result<()> {
            Ok(())
        }
        fn path(&self) -> &Path {
            Path::new("noting")
        }
    }

    #[test]
    fn whole_pages_before_the_last_mebibyte_are_written_back_at_the_pace() {
        for is_strict in [false, true] {
            let ranges = Arc::default();
            let file = Box::new(Noting {
                len: 0,
                ranges: Arc::clone(&ranges),
            });
            let pace = SyncPace {
                bytes_per_sync: 100_000,
                is_strict,
            };
            let mut file = PacedFile::new(file, None, pace);
            for _ in 0..30 {
                file.append(&[0; 50_000]).unwrap();
            }
            let got = ranges.lock().unwrap().clone();
            let mut end = 0;
            for (offset, len, strict) in &got {
                assert_eq!(*offset, end);
                assert!(len % 4096 == 0 && *len >= 100_000, "{len}");
                assert_eq!(*strict, is_strict);
                end += len;
            }
            assert!(end + (1 << 20) <= file.len() && end + (1 << 20) + 200_000 > file.len());
            assert!(got.len() >= 3, "{got:?}");
        }
    }

    #[test]
    fn a_limited_file_and_its_reader_take_as_long_as_the_rate_says() {
        let fs = MemFs::new();
        let clock = Arc::new(VirtualClock::new());
        let mut options = RateLimiterOptions::new(1_000_000);
        options.mode = RateLimiterMode::All;
        let limiter = Arc::new(RateLimiter::new(&options, clock.clone()));
        let path = Path::new("/f");
        let data: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
        let file = fs.create(path, IoActivity::Flush).unwrap();
        let limit = Some((Arc::clone(&limiter), IoPriority::High));
        let mut file = PacedFile::new(file, limit, SyncPace::default());
        let begin = clock.monotonic_nanos();
        file.append(&data).unwrap();
        let waited = (clock.monotonic_nanos() - begin) / 1000;
        assert!((800_000..=1_000_000).contains(&waited), "{waited}");
        assert_eq!(limiter.total_bytes(Some(IoPriority::High)), 1_000_000);
        file.append(b"").unwrap();
        file.sync().unwrap();
        file.close().unwrap();

        let start = clock.monotonic_nanos();
        let reader = PacedReader::new(fs.open_random(path).unwrap(), limiter, IoPriority::Mid);
        let mut back = vec![0; 500_000];
        assert_eq!(reader.read_at(0, &mut back).unwrap(), 500_000);
        assert!(back == data[..500_000]);
        assert!(clock.monotonic_nanos() - start >= 400_000_000);
    }
}
