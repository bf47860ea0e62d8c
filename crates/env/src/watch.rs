//! Notices calls that do not come back: a file system that tells a watchdog what is going on.
//!
//! Each file that is written has a slot. A call counts it up when it begins and when it ends, so an odd
//! count means that one is under way; that is two stores without order, and no clock is read. Whoever
//! looks now and then sees that a count has not moved since the look before, and for how long. So a
//! stall is noticed late by up to one period of looking, and calls that hang pay, not those that do
//! not.
//!
//! Watched are appends, syncs, truncations and closings of files, creations, renames, deletions and
//! syncs of directories, and whatever else is said to be under way ([`IoWatch::during`]). Reads are not.

use crate::device::{BlockDevice, DeviceAccess};
use crate::traits::{
    Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow, RandomAccessFile,
    SequentialFile, SyncUnderWay, Unlinked, WritableFile,
};
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Above all others: nothing is called under it.
const RANK: u8 = 98;

/// A call that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the name says it")]
pub enum WatchedCall {
    Append = 0,
    Sync = 1,
    Truncate = 2,
    Close = 3,
    Create = 4,
    Rename = 5,
    Delete = 6,
    SyncDir = 7,
    /// A job of the background as a whole.
    Job = 8,
}

impl WatchedCall {
    const ALL: [Self; 9] = [
        Self::Append,
        Self::Sync,
        Self::Truncate,
        Self::Close,
        Self::Create,
        Self::Rename,
        Self::Delete,
        Self::SyncDir,
        Self::Job,
    ];

    /// As messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Truncate => "truncate",
            Self::Close => "close",
            Self::Create => "create",
            Self::Rename => "rename",
            Self::Delete => "delete",
            Self::SyncDir => "sync of the directory",
            Self::Job => "job",
        }
    }
}

/// Describes what one file, or one call, is doing.
struct Slot {
    path: PathBuf,
    /// Odd while a call is under way. Relaxed: it stands for itself, and one thread writes it.
    count: AtomicU64,
    /// Which. Relaxed: a look that sees an older one names a neighbouring call.
    call: AtomicU8,
}

impl Slot {
    #[inline]
    fn enter(&self, call: WatchedCall) {
        self.call.store(call as u8, Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
    }

    #[inline]
    fn leave(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
    }
}

/// A slot as the last look saw it.
struct Seen {
    slot: Weak<Slot>,
    count: u64,
    /// Monotonic time of the look that saw this count first, in nanoseconds.
    since: u64,
    is_told: bool,
}

/// A call that has not come back for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The file, or the name of the job.
    pub path: PathBuf,
    /// The call.
    pub call: WatchedCall,
    /// For how long it was seen under way, at least.
    pub lasting: Duration,
    /// Not told by an earlier look.
    pub is_new: bool,
}

/// Describes what is under way.
pub struct IoWatch {
    slots: Mutex<Vec<Seen>>,
}

impl std::fmt::Debug for IoWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoWatch").finish_non_exhaustive()
    }
}

impl Default for IoWatch {
    fn default() -> Self {
        Self {
            slots: Mutex::new(RANK, Vec::new()),
        }
    }
}

impl IoWatch {
    fn slot(&self, path: &Path) -> Arc<Slot> {
        let slot = Arc::new(Slot {
            path: path.to_path_buf(),
            count: AtomicU64::new(0),
            call: AtomicU8::new(0),
        });
        let seen = Seen {
            slot: Arc::downgrade(&slot),
            count: 0,
            since: 0,
            is_told: false,
        };
        let mut slots = self.slots.lock();
        // Nobody may ever look.
        if slots.len() == slots.capacity() {
            slots.retain(|s| s.slot.strong_count() > 0);
        }
        slots.push(seen);
        slot
    }

    /// Does something that is seen meanwhile under the name of `path`.
    pub fn during<T>(&self, path: &Path, call: WatchedCall, what: impl FnOnce() -> T) -> T {
        let slot = self.slot(path);
        slot.enter(call);
        let done = what();
        slot.leave();
        done
    }

    /// The calls that have been under way at every look for at least as long as `bound` says for such
    /// a call; `now` is monotonic time in nanoseconds.
    pub fn look(&self, now: u64, bound: impl Fn(WatchedCall) -> Duration) -> Vec<Stalled> {
        let mut stalled = Vec::new();
        let mut slots = self.slots.lock();
        slots.retain_mut(|seen| {
            let Some(slot) = seen.slot.upgrade() else {
                return false;
            };
            let count = slot.count.load(Ordering::Relaxed);
            if count != seen.count {
                (seen.count, seen.since, seen.is_told) = (count, now, false);
            }
            let call = usize::from(slot.call.load(Ordering::Relaxed));
            let call = WatchedCall::ALL.get(call).copied();
            let lasting = Duration::from_nanos(now.saturating_sub(seen.since));
            if let Some(call) = call.filter(|_| count % 2 == 1)
                && lasting >= bound(call)
            {
                let is_new = !std::mem::replace(&mut seen.is_told, true);
                stalled.push(Stalled {
                    path: slot.path.clone(),
                    call,
                    lasting,
                    is_new,
                });
            }
            true
        });
        stalled
    }
}

/// A file system whose writing calls are watched.
pub struct WatchedFs {
    inner: Arc<dyn FileSystem>,
    watch: Arc<IoWatch>,
}

impl std::fmt::Debug for WatchedFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchedFs").finish_non_exhaustive()
    }
}

impl WatchedFs {
    /// `inner`, watched.
    pub fn new(inner: Arc<dyn FileSystem>, watch: Arc<IoWatch>) -> Self {
        Self { inner, watch }
    }

    fn opened(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<Box<dyn WritableFile>>,
    ) -> Result<Box<dyn WritableFile>> {
        let slot = self.watch.slot(path);
        slot.enter(WatchedCall::Create);
        let inner = open();
        slot.leave();
        Ok(Box::new(WatchedFile {
            inner: inner?,
            slot,
            syncs: Vec::new(),
            watch: self.watch.clone(),
        }))
    }
}

/// A file whose calls are watched.
struct WatchedFile {
    inner: Box<dyn WritableFile>,
    slot: Arc<Slot>,
    /// Slots of syncs beside each other, as many as there ever were at a time.
    syncs: Vec<Arc<Slot>>,
    watch: Arc<IoWatch>,
}

/// A sync whose end is watched.
struct WatchedSync {
    inner: Box<dyn SyncUnderWay>,
    slot: Arc<Slot>,
}

impl SyncUnderWay for WatchedSync {
    fn end(self: Box<Self>) -> Result<()> {
        self.slot.enter(WatchedCall::Sync);
        let ended = self.inner.end();
        self.slot.leave();
        ended
    }
}

impl WatchedFile {
    #[inline]
    fn during<T>(&mut self, call: WatchedCall, what: impl FnOnce(&mut dyn WritableFile) -> T) -> T {
        self.slot.enter(call);
        let done = what(&mut *self.inner);
        self.slot.leave();
        done
    }
}

impl WritableFile for WatchedFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.during(WatchedCall::Append, |f| f.append(data))
    }

    fn sync(&mut self) -> Result<()> {
        self.during(WatchedCall::Sync, |f| f.sync())
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    fn expect_sync(&mut self) {
        self.inner.expect_sync();
    }

    fn begin_sync(&mut self) -> Result<Option<Box<dyn SyncUnderWay>>> {
        let begun = self.inner.begin_sync()?;
        Ok(begun.map(|inner| {
            let idle = self.syncs.iter().find(|slot| Arc::strong_count(slot) == 1);
            let slot = idle.cloned().unwrap_or_else(|| {
                let slot = self.watch.slot(&self.slot.path);
                self.syncs.push(slot.clone());
                slot
            });
            Box::new(WatchedSync { inner, slot }) as Box<dyn SyncUnderWay>
        }))
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.during(WatchedCall::Sync, |f| f.write_back(offset, len))
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.during(WatchedCall::Sync, |f| f.write_back_strictly(offset, len))
    }

    fn write_over(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.during(WatchedCall::Append, |f| f.write_over(offset, data))
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.during(WatchedCall::Truncate, |f| f.truncate(len))
    }

    fn preallocate(&mut self, len: u64) {
        self.during(WatchedCall::Truncate, |f| f.preallocate(len));
    }

    fn close(&mut self) -> Result<()> {
        self.during(WatchedCall::Close, |f| f.close())
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

/// A directory whose syncs are watched. Threads share it, so each call has a slot of its own.
struct WatchedDirectory {
    inner: Arc<dyn Directory>,
    watch: Arc<IoWatch>,
    path: PathBuf,
}

impl Directory for WatchedDirectory {
    fn sync(&self) -> Result<()> {
        let sync = || self.inner.sync();
        self.watch.during(&self.path, WatchedCall::SyncDir, sync)
    }
}

impl FileSystem for WatchedFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.open_sequential(path)
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.open_random(path)
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.opened(path, || self.inner.create(path, activity))
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.open_random_how(path, how)
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        self.opened(path, || self.inner.create_how(path, activity, how))
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.opened(path, || self.inner.reopen(path, activity))
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.opened(path, || self.inner.overwrite(path, activity))
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        self.inner.check_direct(path)
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        self.inner.open_device(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let rename = || self.inner.rename(from, to);
        self.watch.during(to, WatchedCall::Rename, rename)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let delete = || self.inner.delete(path);
        self.watch.during(path, WatchedCall::Delete, delete)
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        let unlink = || self.inner.unlink(path);
        self.watch.during(path, WatchedCall::Delete, unlink)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(path)
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_if_missing(path)
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.inner.delete_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        self.inner.entry(path)
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.inner.size(path)
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        self.inner.modified(path)
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(WatchedDirectory {
            inner: self.inner.open_dir(dir)?,
            watch: self.watch.clone(),
            path: dir.to_path_buf(),
        }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
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

    const SECOND: u64 = 1_000_000_000;

    fn bound(call: WatchedCall) -> Duration {
        Duration::from_secs(if call == WatchedCall::Job { 300 } else { 10 })
    }

    #[test]
    fn a_call_that_does_not_come_back_is_told_once_and_then_as_lasting() {
        let watch = IoWatch::default();
        let path = Path::new("/db/000004.log");
        watch.during(path, WatchedCall::Sync, || {
            assert_eq!(watch.look(100 * SECOND, bound), []);
            assert_eq!(watch.look(109 * SECOND, bound), []);
            let told = watch.look(111 * SECOND, bound);
            let expected = Stalled {
                path: path.to_path_buf(),
                call: WatchedCall::Sync,
                lasting: Duration::from_secs(11),
                is_new: true,
            };
            assert_eq!(told, [expected]);
            let again = watch.look(112 * SECOND, bound);
            assert!(again.len() == 1 && !again[0].is_new);
        });
        assert_eq!(watch.look(200 * SECOND, bound), []);
        watch.during(Path::new("compaction"), WatchedCall::Job, || {
            assert_eq!(watch.look(0, bound), []);
            assert_eq!(watch.look(299 * SECOND, bound), []);
            assert_eq!(watch.look(300 * SECOND, bound).len(), 1);
        });
    }

    #[test]
    fn calls_that_come_back_are_not_told_however_many_and_files_that_are_gone_are_forgotten() {
        let watch = Arc::new(IoWatch::default());
        let fs = WatchedFs::new(Arc::new(MemFs::new()), watch.clone());
        let path = Path::new("/f");
        let mut file = fs.create(path, IoActivity::Wal).unwrap();
        for second in 0..100 {
            file.append(b"x").unwrap();
            file.sync().unwrap();
            assert_eq!(watch.look(second * SECOND, bound), []);
        }
        assert_eq!(file.len(), 100);
        file.close().unwrap();
        drop(file);
        for _ in 0..100 {
            fs.rename(path, Path::new("/g")).unwrap();
            fs.rename(Path::new("/g"), path).unwrap();
        }
        assert!(watch.slots.lock().len() < 100);
        assert_eq!(watch.look(0, bound), []);
        assert!(watch.slots.lock().is_empty());
    }
}
