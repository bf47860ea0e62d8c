//! How long writing tables takes, by kind of call (`report_bg_io_stats`).
//!
//! Measured next to the file itself: what a rate limiter holds a writer up is not in it.

use spanlith_base::Result;
use spanlith_env::{Clock, WritableFile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds that the calls of a job's tables took. Relaxed: sums that are read when the job is done.
pub struct IoTimes {
    clock: Arc<dyn Clock>,
    write: AtomicU64,
    range_sync: AtomicU64,
    sync: AtomicU64,
    prepare: AtomicU64,
}

/// Describes what [`IoTimes`] has summed up, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoNanos {
    /// Appends.
    pub write: u64,
    /// Requests for write-back.
    pub range_sync: u64,
    /// Syncs.
    pub sync: u64,
    /// Reservations of room.
    pub prepare: u64,
}

impl IoTimes {
    /// Nothing yet, by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            write: AtomicU64::new(0),
            range_sync: AtomicU64::new(0),
            sync: AtomicU64::new(0),
            prepare: AtomicU64::new(0),
        }
    }

    /// The sums up to now.
    pub fn nanos(&self) -> IoNanos {
        IoNanos {
            write: self.write.load(Ordering::Relaxed),
            range_sync: self.range_sync.load(Ordering::Relaxed),
            sync: self.sync.load(Ordering::Relaxed),
            prepare: self.prepare.load(Ordering::Relaxed),
        }
    }

    fn time<T>(&self, sum: &AtomicU64, call: impl FnOnce() -> T) -> T {
        let began = self.clock.monotonic_nanos();
        let result = call();
        let took = self.clock.monotonic_nanos().saturating_sub(began);
        sum.fetch_add(took, Ordering::Relaxed);
        result
    }
}

impl IoNanos {
    /// Takes in another part of the job.
    pub fn add(&mut self, other: &Self) {
        self.write += other.write;
        self.range_sync += other.range_sync;
        self.sync += other.sync;
        self.prepare += other.prepare;
    }
}

/// A file whose calls are measured.
pub(super) struct MeteredFile {
    pub file: Box<dyn WritableFile>,
    pub times: Arc<IoTimes>,
}

impl WritableFile for MeteredFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let t = &self.times;
        t.time(&t.write, || self.file.append(data))
    }

    fn sync(&mut self) -> Result<()> {
        let t = &self.times;
        t.time(&t.sync, || self.file.sync())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        let t = &self.times;
        t.time(&t.range_sync, || self.file.write_back(offset, len))
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        let t = &self.times;
        t.time(&t.range_sync, || self.file.write_back_strictly(offset, len))
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)
    }

    fn preallocate(&mut self, len: u64) {
        let t = &self.times;
        t.time(&t.prepare, || self.file.preallocate(len));
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{FileSystem, IoActivity, MemFs};
    use std::time::Duration;

    /// Every look at it is a nanosecond later.
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now_micros(&self) -> u64 {
            0
        }
        fn monotonic_nanos(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn sleep(&self, _duration: Duration) {}
    }

    #[test]
    fn each_kind_of_call_has_its_own_sum() {
        let fs = MemFs::new();
        fs.create_dir_if_missing(Path::new("/d")).unwrap();
        let times = Arc::new(IoTimes::new(Arc::new(Ticking(AtomicU64::new(0)))));
        let file = fs.create(Path::new("/d/f"), IoActivity::Compaction);
        let mut file = MeteredFile {
            file: file.unwrap(),
            times: times.clone(),
        };
        for _ in 0..4 {
            file.append(b"x").unwrap();
        }
        file.write_back(0, 1).unwrap();
        file.write_back_strictly(1, 1).unwrap();
        file.sync().unwrap();
        for _ in 0..3 {
            file.preallocate(10);
        }
        assert_eq!(file.len(), 4);
        file.close().unwrap();
        let mut nanos = times.nanos();
        let expected = IoNanos {
            write: 4,
            range_sync: 2,
            sync: 1,
            prepare: 3,
        };
        assert_eq!(nanos, expected);
        nanos.add(&expected);
        assert_eq!((nanos.write, nanos.prepare), (8, 6));
    }
}
