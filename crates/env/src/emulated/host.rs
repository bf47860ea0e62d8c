//! Files on an emulated device, and the host's page cache before it: when each call would be done, by a time that the
//! caller tells. Nothing waits here, so that a simulation can drive many callers; [`super::DeviceFs`] waits.
//!
//! With a cache, appended bytes stay in memory until a sync, or until a mebibyte of the file has gathered, which is
//! handed to the device without waiting; whoever writes faster than the device waits once an eighth of the cache is
//! under way. Reads take what the cache holds and fetch the rest. Without one, whole blocks are written and read by
//! the call itself, as with `O_DIRECT`.
//!
//! Making a file durable that has become longer writes the journal of a file system, too.

use super::model::{Direction, Model};
use super::pages::{PAGE, PageCache};
use super::spec::DeviceSpec;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of a file that are handed to the device together, and most of one request.
const WRITE_BACK: u64 = 1 << 20;
/// Bytes that are fetched at once for a reader that goes from front to back.
pub(super) const READ_AHEAD: u64 = 128 << 10;
/// Least that may be under way before writers wait.
const BACKLOG_MIN: u64 = 4 << 20;
/// Bits of a device address that belong to the place in a file.
const ADDRESS_BITS: u32 = 38;

/// Number of a file on an emulated device.
pub type FileId = u64;

/// Figures of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Reads that the device served.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that the device served.
    pub writes: u64,
    /// Their bytes, those of journals left out.
    pub write_bytes: u64,
    /// Times that files or directories were made durable.
    pub syncs: u64,
    /// Reads of files that the page cache answered whole.
    pub cached_reads: u64,
}

#[derive(Debug, Default)]
struct File {
    names: u64,
    len: u64,
    /// Everything below was handed to the device.
    handed: u64,
    /// When that is done.
    done: u64,
    /// Bytes that the file system knows durably.
    allocated: u64,
}

/// The files and the cache. One thread at a time.
pub struct Host {
    model: Model,
    cache: PageCache,
    names: HashMap<PathBuf, FileId>,
    files: HashMap<FileId, File>,
    next: FileId,
    /// Nanoseconds that writes under way may take before writers wait.
    backlog: u64,
    usage: DeviceUsage,
}

fn address(file: FileId, offset: u64) -> u64 {
    (file << ADDRESS_BITS).wrapping_add(offset)
}

fn floor(offset: u64) -> u64 {
    offset - offset % PAGE
}

fn ceil(offset: u64) -> u64 {
    offset.div_ceil(PAGE).saturating_mul(PAGE)
}

impl Host {
    /// An idle device, and an empty cache.
    pub fn new(spec: &DeviceSpec) -> Self {
        let profile = spec.scaled_profile();
        let bytes = u128::from((spec.cache_bytes / 8).max(BACKLOG_MIN));
        let nanos = bytes * 1_000_000_000 / u128::from(profile.write_bandwidth.max(1));
        Self {
            model: Model::new(profile),
            cache: PageCache::new(spec.cache_bytes),
            names: HashMap::new(),
            files: HashMap::new(),
            next: 1,
            backlog: u64::try_from(nanos).unwrap_or(u64::MAX),
            usage: DeviceUsage::default(),
        }
    }

    /// Figures.
    pub fn usage(&self) -> DeviceUsage {
        self.usage
    }

    /// Returns whether there is no cache.
    pub fn is_direct(&self) -> bool {
        self.cache.is_off()
    }

    /// The queue of the device, for what is no file.
    pub fn model(&mut self) -> &mut Model {
        &mut self.model
    }

    /// The file called `path`, which has `len` bytes on the device if it was not known.
    pub fn open(&mut self, path: &Path, len: u64) -> FileId {
        if let Some(&file) = self.names.get(path) {
            return file;
        }
        let file = File {
            names: 1,
            len,
            handed: len,
            done: 0,
            allocated: len,
        };
        self.add(path, file)
    }

    /// An empty file called `path`, in place of one that was there.
    pub fn create(&mut self, path: &Path) -> FileId {
        self.delete(path);
        let file = File {
            names: 1,
            ..File::default()
        };
        self.add(path, file)
    }

    /// As [`Self::open`], to be written from its front again: what it held stays allocated.
    pub fn overwrite(&mut self, path: &Path, len: u64) -> FileId {
        let id = self.open(path, len);
        if let Some(file) = self.files.get_mut(&id) {
            file.allocated = file.allocated.max(file.len);
            (file.len, file.handed) = (0, 0);
            self.model.open_stream(address(id, 0));
        }
        id
    }

    fn add(&mut self, path: &Path, file: File) -> FileId {
        let id = self.next;
        self.next += 1;
        self.model.open_stream(address(id, floor(file.len)));
        self.files.insert(id, file);
        self.names.insert(path.to_path_buf(), id);
        id
    }

    /// `path` names nothing any more.
    pub fn delete(&mut self, path: &Path) {
        let Some(id) = self.names.remove(path) else {
            return;
        };
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        file.names = file.names.saturating_sub(1);
        if file.names == 0 {
            let bytes = file.len.max(file.allocated);
            self.files.remove(&id);
            self.cache.forget(id, bytes);
        }
    }

    /// `to` names what `from` named, and `from` nothing. Names below it, if it is a directory, move with it.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        if from == to {
            return;
        }
        if let Some(id) = self.names.remove(from) {
            self.delete(to);
            self.names.insert(to.to_path_buf(), id);
            return;
        }
        // A file that was never opened is unknown; that of the target is gone all the same.
        self.delete(to);
        let below: Vec<PathBuf> = self
            .names
            .keys()
            .filter(|p| p.starts_with(from))
            .cloned()
            .collect();
        for old in below {
            if let (Some(id), Ok(rest)) = (self.names.remove(&old), old.strip_prefix(from)) {
                self.names.insert(to.join(rest), id);
            }
        }
    }

    /// `to` names what `from` names, too.
    pub fn link(&mut self, from: &Path, to: &Path) {
        if let Some(&id) = self.names.get(from)
            && let Some(file) = self.files.get_mut(&id)
        {
            file.names += 1;
            self.names.insert(to.to_path_buf(), id);
        }
    }

    /// When a call that arrives at `now` and appends `bytes` is done. `is_direct`: past the cache.
    pub fn append(&mut self, id: FileId, now: u64, bytes: u64, is_direct: bool) -> u64 {
        let is_direct = is_direct || self.cache.is_off();
        let Some(file) = self.files.get_mut(&id) else {
            return now;
        };
        let from = file.len;
        file.len += bytes;
        let (len, handed) = (file.len, file.handed);
        if is_direct {
            // Bytes that fill no block wait for more, or for a sync.
            return match floor(len) > handed {
                true => self.hand_over(id, now, floor(len), false),
                false => now,
            };
        }
        for page in from / PAGE..len.div_ceil(PAGE) {
            self.cache.insert(id, page, 0);
        }
        match len - handed >= WRITE_BACK {
            true => {
                let done = self.hand_over(id, now, floor(len), false);
                done.saturating_sub(self.backlog).max(now)
            }
            false => now,
        }
    }

    /// Appends `bytes` that stay in memory until they are handed over.
    pub(super) fn append_later(&mut self, id: FileId, bytes: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.len += bytes;
        }
    }

    /// Hands bytes of a file up to `end` to the device; when that is done.
    fn hand_over(&mut self, id: FileId, now: u64, end: u64, with_journal: bool) -> u64 {
        let Some(file) = self.files.get_mut(&id) else {
            return now;
        };
        if end <= file.handed {
            return file.done.max(now);
        }
        let mut at = floor(file.handed);
        let end_of_blocks = ceil(end);
        let mut done = file.done.max(now);
        while at < end_of_blocks {
            let n = (end_of_blocks - at).min(WRITE_BACK);
            let is_last = at + n == end_of_blocks;
            let served = match with_journal && is_last {
                true => self.model.serve_with_journal(now, address(id, at), n),
                false => self.model.serve(now, Direction::Write, address(id, at), n),
            };
            self.usage.writes += 1;
            self.usage.write_bytes += n;
            done = done.max(served);
            at += n;
        }
        file.handed = file.handed.max(end);
        file.done = done;
        done
    }

    /// When a sync of a file that arrives at `now` is done.
    pub fn sync(&mut self, id: FileId, now: u64) -> u64 {
        self.usage.syncs += 1;
        let Some(file) = self.files.get_mut(&id) else {
            return now;
        };
        let has_grown = file.len > file.allocated;
        let (len, is_dirty) = (file.len, file.len > file.handed);
        file.allocated = file.allocated.max(len);
        if !is_dirty && !has_grown && file.done <= now {
            // Nothing was written since the last one.
            return now;
        }
        let mut done = self.hand_over(id, now, len, has_grown);
        if has_grown && !is_dirty {
            self.usage.writes += 1;
            done = done.max(self.model.serve_with_journal(done, 0, 0));
        }
        self.model.flush(done)
    }

    /// Hands what a file holds below `end` to the device without waiting; when all of it is done.
    pub fn write_back(&mut self, id: FileId, now: u64, end: u64) -> u64 {
        let end = match self.files.get(&id) {
            Some(file) => end.min(file.len),
            None => return now,
        };
        self.hand_over(id, now, end, false)
    }

    /// When making a directory durable that arrives at `now` is done.
    pub fn sync_directory(&mut self, now: u64) -> u64 {
        self.usage.syncs += 1;
        self.usage.writes += 1;
        let done = self.model.serve_with_journal(now, 0, 0);
        self.model.flush(done)
    }

    /// A file has `len` bytes now.
    pub fn truncate(&mut self, id: FileId, len: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.len = len;
            file.handed = file.handed.min(len);
            // Another size is another entry of the journal.
            file.allocated = file.allocated.min(len.saturating_sub(1));
        }
    }

    /// When a read of `bytes` at `offset` that arrives at `now` is done. `is_direct`: past the cache. `ahead`: bytes
    /// that are fetched at once if something has to be fetched.
    pub fn read(
        &mut self,
        id: FileId,
        now: u64,
        (offset, bytes): (u64, u64),
        is_direct: bool,
        ahead: u64,
    ) -> u64 {
        let Some(file) = self.files.get(&id) else {
            return now;
        };
        let end = offset.saturating_add(bytes).min(file.len);
        if end <= offset {
            return now;
        }
        if is_direct || self.cache.is_off() {
            // Bytes that were not handed over are in memory still.
            let end = end.min(ceil(file.handed));
            if end <= offset {
                return now;
            }
            let (from, to) = (
                floor(offset),
                ceil(end.max(offset.saturating_add(ahead).min(file.handed))),
            );
            return self.fetch(id, now, from, to - from);
        }
        let pages_of_file = file.len.div_ceil(PAGE);
        let mut done = now;
        let mut page = offset / PAGE;
        let last = end.div_ceil(PAGE);
        let mut is_cached = true;
        while page < last {
            if let Some(ready) = self.cache.ready(id, page) {
                done = done.max(ready);
                page += 1;
                continue;
            }
            is_cached = false;
            let until = last.max(page + ahead / PAGE).min(pages_of_file);
            let mut to = page + 1;
            while to < until && self.cache.ready(id, to).is_none() {
                to += 1;
            }
            let fetched = self.fetch(id, now, page * PAGE, (to - page) * PAGE);
            for page in page..to {
                self.cache.insert(id, page, fetched);
            }
            done = done.max(fetched);
            page = to;
        }
        self.usage.cached_reads += u64::from(is_cached);
        done
    }

    fn fetch(&mut self, id: FileId, now: u64, from: u64, bytes: u64) -> u64 {
        let mut done = now;
        let mut at = 0;
        while at < bytes {
            let n = (bytes - at).min(WRITE_BACK);
            let served = self
                .model
                .serve(now, Direction::Read, address(id, from + at), n);
            self.usage.reads += 1;
            self.usage.read_bytes += n;
            done = done.max(served);
            at += n;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::new(&text.parse().unwrap())
    }

    const F: &str = "/db/000004.log";

    #[test]
    fn a_sync_takes_the_write_the_journal_and_the_flush() {
        let mut host = host("S");
        let file = host.create(Path::new(F));
        assert_eq!(host.append(file, 0, 100, false), 0);
        // 37 us for the page, 3.05 times as much for the journal, and a flush.
        assert_eq!(host.sync(file, 0), 37_000 + 112_850 + 400_000);
        let now = 1_000_000;
        assert_eq!(host.sync(file, now), now);
        // Space that is there already costs no journal.
        let file = host.overwrite(Path::new(F), 0);
        host.append(file, now, 100, false);
        assert_eq!(host.sync(file, now) - now, 37_000 + 400_000);
    }

    #[test]
    fn writers_wait_for_the_device_only_when_they_are_ahead_of_it() {
        let mut host = host("S:cache=64m");
        let file = host.create(Path::new(F));
        let mut now = 0;
        let mut last = 0;
        for _ in 0..1024 {
            now = host.append(file, now, 1 << 20, false);
            last = now;
        }
        // A gibibyte at 510 MB/s, less the eighth of the cache that is under way.
        let whole = (1u64 << 30) as f64 / 510e6 * 1e9;
        let ahead = (8u64 << 20) as f64 / 510e6 * 1e9;
        assert!(
            (last as f64 - (whole - ahead)).abs() < whole * 0.01,
            "{last}"
        );
        let synced = host.sync(file, now);
        assert!((synced as f64 - whole).abs() < whole * 0.01, "{synced}");
        assert_eq!(host.usage().write_bytes, 1 << 30);
    }

    #[test]
    fn reads_of_cached_pages_take_no_time_and_others_are_fetched_once() {
        let mut host = host("N1:cache=1m");
        let file = host.open(Path::new(F), 8 << 20);
        let read = |host: &mut Host, now, offset, ahead| {
            host.read(file, now, (offset, 4096), false, ahead) - now
        };
        assert_eq!(read(&mut host, 0, 0, 0), 77_000);
        assert_eq!(read(&mut host, 100_000, 0, 0), 0);
        // Fetched with what follows; somebody who comes meanwhile waits for the same request.
        let fetched = read(&mut host, 1_000_000, 1 << 20, READ_AHEAD);
        assert!(fetched > 77_000);
        assert_eq!(read(&mut host, 1_000_000, (1 << 20) + 8192, 0), fetched);
        assert_eq!(
            read(&mut host, 2_000_000, (1 << 20) + READ_AHEAD - 4096, 0),
            0
        );
        assert_eq!(
            read(&mut host, 3_000_000, (1 << 20) + READ_AHEAD, 0),
            77_000
        );
        // More than the cache holds: the first page is gone.
        for page in 0..700 {
            read(
                &mut host,
                4_000_000 + page * 100_000,
                (2 << 20) + page * 4096,
                0,
            );
        }
        assert_eq!(read(&mut host, 90_000_000, 0, 0), 77_000);
        assert_eq!(host.read(file, 0, (8 << 20, 10), false, 0), 0);
    }

    #[test]
    fn without_a_cache_every_whole_block_goes_to_the_device() {
        let mut host = host("O:cache=0");
        let file = host.create(Path::new(F));
        assert_eq!(host.append(file, 0, 1000, false), 0);
        assert_eq!(host.append(file, 0, 4000, false), 10_000);
        // The rest is read from memory, the block from the device.
        assert_eq!(host.read(file, 20_000, (4096, 100), false, 0), 20_000);
        assert_eq!(host.read(file, 20_000, (0, 100), false, 0), 30_000);
        assert_eq!(host.sync(file, 40_000), 40_000 + 10_000 + 30_500);
        // A direct file goes past the cache of another device.
        let mut host = Host::new(&"O".parse().unwrap());
        let file = host.create(Path::new(F));
        assert_eq!(host.append(file, 0, 4096, true), 10_000);
        assert_eq!(host.read(file, 20_000, (0, 4096), true, 0), 30_000);
    }

    #[test]
    fn names_lead_to_files_until_the_last_one_is_gone() {
        let mut host = host("S");
        let (a, b) = (Path::new("/d/a"), Path::new("/d/b"));
        let file = host.create(a);
        host.append(file, 0, 4096, false);
        host.link(a, b);
        host.delete(a);
        assert_eq!(host.open(b, 0), file);
        host.rename(Path::new("/d"), Path::new("/e"));
        assert_eq!(host.open(Path::new("/e/b"), 0), file);
        host.rename(Path::new("/e/b"), Path::new("/e/c"));
        assert_eq!(host.open(Path::new("/e/c"), 0), file);
        host.delete(Path::new("/e/c"));
        assert_ne!(host.open(Path::new("/e/c"), 0), file);
        // A file that is gone costs nothing.
        assert_eq!((host.append(file, 5, 1, false), host.sync(file, 5)), (5, 5));
        assert_eq!(host.cache.len(), 0);
    }
}
