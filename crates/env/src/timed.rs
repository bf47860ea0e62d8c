//! A file system that tells the perf context how long its calls take: RocksDB's timed environment.
//!
//! Wrapped around another it feeds the counters `env_..._nanos` of the thread that calls, at the levels
//! that record times. What files and open directories do is not measured here.
//!
//! Threads: as the wrapped file system.

use crate::device::{BlockDevice, DeviceAccess};
use crate::traits::{
    Clock, Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow, RandomAccessFile,
    SequentialFile, Unlinked, WritableFile,
};
use spanlith_base::Result;
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Measures the calls of another file system.
#[derive(Clone)]
pub struct TimedFs {
    inner: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
}

impl TimedFs {
    /// Measures `inner` by `clock`.
    pub fn new(inner: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock }
    }

    /// Makes a call, measured.
    fn time<T>(&self, counter: PerfCounter, call: impl FnOnce(&dyn FileSystem) -> T) -> T {
        let _timer = perf::timer(counter, PerfTime::Work, || self.clock.monotonic_nanos());
        call(&*self.inner)
    }
}

/// A lock whose release is measured.
struct TimedLock {
    lock: Option<Box<dyn FileLock>>,
    clock: Arc<dyn Clock>,
}

impl FileLock for TimedLock {}

impl Drop for TimedLock {
    fn drop(&mut self) {
        let _timer = perf::timer(PerfCounter::EnvUnlockFileNanos, PerfTime::Work, || {
            self.clock.monotonic_nanos()
        });
        self.lock = None;
    }
}

impl FileSystem for TimedFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.time(PerfCounter::EnvNewSequentialFileNanos, |fs| {
            fs.open_sequential(path)
        })
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.time(PerfCounter::EnvNewRandomAccessFileNanos, |fs| {
            fs.open_random(path)
        })
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.time(PerfCounter::EnvNewWritableFileNanos, |fs| {
            fs.create(path, activity)
        })
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        self.time(PerfCounter::EnvNewRandomAccessFileNanos, |fs| {
            fs.open_random_how(path, how)
        })
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        self.time(PerfCounter::EnvNewWritableFileNanos, |fs| {
            fs.create_how(path, activity, how)
        })
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        // RocksDB has no counter for it.
        self.inner.reopen(path, activity)
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.time(PerfCounter::EnvReuseWritableFileNanos, |fs| {
            fs.overwrite(path, activity)
        })
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        self.inner.check_direct(path)
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        self.inner.open_device(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.time(PerfCounter::EnvRenameFileNanos, |fs| fs.rename(from, to))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.time(PerfCounter::EnvDeleteFileNanos, |fs| fs.delete(path))
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        self.time(PerfCounter::EnvDeleteFileNanos, |fs| fs.unlink(path))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.time(PerfCounter::EnvLinkFileNanos, |fs| fs.link(from, to))
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(path)
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.time(PerfCounter::EnvCreateDirIfMissingNanos, |fs| {
            fs.create_dir_if_missing(path)
        })
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.time(PerfCounter::EnvDeleteDirNanos, |fs| fs.delete_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.time(PerfCounter::EnvGetChildrenNanos, |fs| fs.list(dir))
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        self.time(PerfCounter::EnvFileExistsNanos, |fs| fs.entry(path))
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.time(PerfCounter::EnvGetFileSizeNanos, |fs| fs.size(path))
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        self.time(PerfCounter::EnvGetFileModificationTimeNanos, |fs| {
            fs.modified(path)
        })
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        self.time(PerfCounter::EnvNewDirectoryNanos, |fs| fs.open_dir(dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let lock = self.time(PerfCounter::EnvLockFileNanos, |fs| fs.lock(path))?;
        Ok(Box::new(TimedLock {
            lock: Some(lock),
            clock: self.clock.clone(),
        }))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }

    fn total_space(&self, path: &Path) -> Option<u64> {
        self.inner.total_space(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.inner.absolute(path)
    }

    fn read_all(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        self.inner.read_all(path, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemFs;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A clock on which every look takes a nanosecond.
    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Clock for Counting {
        fn now_micros(&self) -> u64 {
            0
        }
        fn monotonic_nanos(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn sleep(&self, _duration: Duration) {}
    }

    #[test]
    fn calls_are_measured_at_the_levels_that_record_times() {
        let clock = Arc::new(Counting::default());
        let fs = TimedFs::new(Arc::new(MemFs::new()), clock.clone());
        let dir = Path::new("/timed");
        let (file, other) = (dir.join("file"), dir.join("other"));
        let work = || {
            fs.create_dir_if_missing(dir).unwrap();
            fs.create(&file, IoActivity::Other)
                .unwrap()
                .close()
                .unwrap();
            fs.sync_dir(dir).unwrap();
            drop(fs.open_sequential(&file).unwrap());
            drop(fs.open_random(&file).unwrap());
            assert_eq!(fs.size(&file).unwrap(), 0);
            assert!(fs.list(dir).unwrap().contains(&"file".to_string()));
            assert!(fs.entry(&file).unwrap().is_some());
            fs.rename(&file, &other).unwrap();
            drop(fs.lock(&dir.join("LOCK")).unwrap());
            fs.delete(&other).unwrap();
        };
        perf::reset();
        perf::set_level(3);
        work();
        assert_eq!(clock.0.load(Ordering::Relaxed), 0);
        perf::set_level(4);
        work();
        perf::set_level(1);
        for counter in [
            PerfCounter::EnvCreateDirIfMissingNanos,
            PerfCounter::EnvNewWritableFileNanos,
            PerfCounter::EnvNewDirectoryNanos,
            PerfCounter::EnvNewSequentialFileNanos,
            PerfCounter::EnvNewRandomAccessFileNanos,
            PerfCounter::EnvGetFileSizeNanos,
            PerfCounter::EnvGetChildrenNanos,
            PerfCounter::EnvFileExistsNanos,
            PerfCounter::EnvRenameFileNanos,
            PerfCounter::EnvLockFileNanos,
            PerfCounter::EnvUnlockFileNanos,
            PerfCounter::EnvDeleteFileNanos,
        ] {
            assert_eq!(perf::value(counter), 1, "{}", counter.name());
        }
    }
}
