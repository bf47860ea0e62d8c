//! A file system whose logs are on a speed disk, and a directory of tables if the disk has a part for them.
//!
//! Everything but the logs of one directory, and the directory `tables` of the disk itself, goes to the file system below.
//! A log is created on the disk while that has room, otherwise as a file. One that outgrows the disk goes on as a file of
//! its name: what is on the disk is made durable and closed first, so that the two parts are one file for every
//! reader. Who renames a log out of the directory gets a copy in a file, and the disk has its room again.

use crate::disk::SpeedDisk;
use crate::spill::{EndedLog, FromFront, SpillingLog, Stored, StoredLog};
use crate::top::{Top, TopFromFront};
use crate::writer::LogFile;
use crate::yielding::Yielding;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::{
    BlockDevice, Clock, DeviceAccess, Directory, EntryKind, FileLock, FileSystem, IoActivity,
    OpenHow, RandomAccessFile, SequentialFile, Unlinked, WritableFile,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A log is not begun on the disk if less than one in so many of its page groups would be free then.
const RESERVE: u32 = 8;
/// Bytes copied at once.
const COPY_BYTES: usize = 256 << 10;
/// Name of the directory of tables of a disk that has a part for them.
const TABLES_NAME: &str = "tables";

/// Returns what the directory of tables of a disk is called: the disk is a file or a device, in which no other directory can be.
pub fn tables_dir(fs: &dyn FileSystem, target: &str) -> PathBuf {
    fs.absolute(Path::new(target)).join(TABLES_NAME)
}

/// The file system. Until a disk is attached it is the one below.
pub struct SpeedFs {
    below: Arc<dyn FileSystem>,
    dir: PathBuf,
    disk: OnceLock<Arc<SpeedDisk>>,
    /// The directory of tables of the disk, if it has one.
    tables: OnceLock<PathBuf>,
    /// Tables on the storage of the disk give way to the logs.
    yields: OnceLock<Yields>,
    /// Logs, or their ends, that are files for want of room. Relaxed: a figure.
    spilled: AtomicU64,
}

/// How tables give way.
struct Yields {
    clock: Arc<dyn Clock>,
    /// Those of this directory do so by themselves.
    except: Option<PathBuf>,
}

impl SpeedFs {
    /// Over `below`; the logs are those in the directory `dir`.
    pub fn new(below: Arc<dyn FileSystem>, dir: &Path) -> Self {
        Self {
            below,
            dir: dir.to_path_buf(),
            disk: OnceLock::new(),
            tables: OnceLock::new(),
            yields: OnceLock::new(),
            spilled: AtomicU64::new(0),
        }
    }

    /// Puts the logs on `disk` from now on, once, and shows its tables, if it has a part for them. `target`: what it is
    /// called.
    pub fn attach(&self, disk: Arc<SpeedDisk>, target: &str) {
        if disk.top().is_some() {
            let _ = self.tables.set(tables_dir(&*self.below, target));
        }
        // A second disk would hide the logs of the first.
        let _ = self.disk.set(disk);
    }

    /// From now on tables that are created on the storage that holds the disk give way to its logs, but for those in
    /// `except`. Returns whether those in `dir` do.
    pub fn give_way(&self, clock: &Arc<dyn Clock>, dir: &Path, except: Option<&Path>) -> bool {
        let Some(disk) = self.disk() else {
            return false;
        };
        let is_shared = self.is_beside(disk, dir);
        if is_shared {
            disk.gate().measure(clock);
            let yields = Yields {
                clock: clock.clone(),
                except: except.map(Path::to_path_buf),
            };
            // The first clock is as good as another.
            let _ = self.yields.set(yields);
        }
        is_shared
    }

    /// Returns whether `dir` is on the storage that holds the disk.
    fn is_beside(&self, disk: &SpeedDisk, dir: &Path) -> bool {
        disk.storage()
            .is_some_and(|storage| self.below.storage(dir) == Some(storage))
    }

    /// The disk, if one is attached.
    pub fn disk(&self) -> Option<&Arc<SpeedDisk>> {
        self.disk.get()
    }

    /// The directory of tables of the disk, if one with a part for them is attached.
    pub fn tables(&self) -> Option<&Path> {
        self.tables.get().map(PathBuf::as_path)
    }

    /// The tables of the disk, if `path` is their directory or in it, and what follows that in the path.
    fn inside<'p>(&self, path: &'p Path) -> Option<(&Arc<Top>, &'p str)> {
        let name = path.strip_prefix(self.tables.get()?).ok()?;
        Some((self.disk()?.top()?, name.to_str()?))
    }

    /// The tables of the disk and the name of one of them, if `path` is that of one.
    fn table<'p>(&self, path: &'p Path) -> Option<(&Arc<Top>, &'p str)> {
        self.inside(path).filter(|(_, name)| !name.is_empty())
    }

    /// The file system below.
    pub fn below(&self) -> &Arc<dyn FileSystem> {
        &self.below
    }

    /// Logs, or ends of logs, that were made files for want of room.
    pub fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    /// The number of the log that `path` names.
    fn number(&self, path: &Path) -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        let digits = name.strip_suffix(".log")?;
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let number = is_number.then(|| digits.parse().ok()).flatten()?;
        (path.parent() == Some(self.dir.as_path())).then_some(number)
    }

    /// `file`, which gives way to the logs if it is a table on the storage of the disk.
    fn beside(
        &self,
        file: Box<dyn WritableFile>,
        path: &Path,
        activity: IoActivity,
    ) -> Box<dyn WritableFile> {
        let is_table = matches!(activity, IoActivity::Flush | IoActivity::Compaction);
        let (Some(yields), Some(disk), Some(dir)) = (self.yields.get(), self.disk(), path.parent())
        else {
            return file;
        };
        if !is_table || yields.except.as_deref() == Some(dir) || !self.is_beside(disk, dir) {
            return file;
        }
        let (disk, clock) = (disk.clone(), yields.clock.clone());
        Box::new(Yielding::new(file, disk, clock, Arc::default()))
    }

    /// The log on the disk that `path` names.
    fn find(&self, path: &Path) -> Option<Stored> {
        let disk = self.disk.get()?;
        let log = disk.log(self.number(path)?)?;
        let disk = disk.clone();
        Some(Stored { disk, log })
    }

    /// The part of a log that is a file.
    fn rest(&self, path: &Path) -> Result<Option<Arc<dyn RandomAccessFile>>> {
        match self.below.open_random(path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn open_stored(&self, path: &Path, stored: Stored) -> Result<StoredLog> {
        Ok(StoredLog::new(stored, self.rest(path)?, path))
    }

    /// Copies a log on the disk into a file, durably but for its name.
    ///
    /// # Errors
    /// `Io` with subcode `PathNotFound` if there is no such log; of disk and file.
    pub fn copy_log(&self, from: &Path, to: &Path) -> Result<()> {
        match self.find(from) {
            Some(stored) => self.copy_out(stored, from, to),
            None => {
                let e = std::io::Error::from_raw_os_error(2);
                Err(Error::from_io(
                    "While copying a log from a speed disk",
                    from,
                    e,
                ))
            }
        }
    }

    fn copy_out(&self, stored: Stored, from: &Path, to: &Path) -> Result<()> {
        let log = self.open_stored(from, stored)?;
        let mut out = self.below.create(to, IoActivity::Wal)?;
        let mut buf = vec![0; COPY_BYTES];
        let mut at = 0;
        loop {
            let n = log.read_at(at, &mut buf)?;
            if n == 0 {
                break;
            }
            out.append(buf.get(..n).unwrap_or_default())?;
            at += n as u64;
        }
        out.sync()?;
        out.close()
    }

    /// Removes a log from the disk, and its part that is a file.
    fn delete_stored(&self, path: &Path, stored: &Stored) -> Result<()> {
        // The front goes last: an end without its front would be a log that begins in the middle.
        if self.below.entry(path)?.is_some() {
            self.below.delete(path)?;
        }
        stored.disk.delete_log(stored.log.number())
    }

    fn create_log(&self, path: &Path, number: u64) -> Result<Option<Box<dyn WritableFile>>> {
        let Some(disk) = self.disk.get() else {
            return Ok(None);
        };
        if let Some(stored) = self.find(path) {
            self.delete_stored(path, &stored)?;
        }
        let usage = disk.usage();
        if usage.free_groups <= usage.groups / RESERVE {
            self.spilled.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        if self.below.entry(path)?.is_some() {
            self.below.delete(path)?;
        }
        let log = disk.create_log(number)?;
        let front = LogFile::new(disk.clone(), log, path);
        Ok(Some(Box::new(SpillingLog::new(front, self.below.clone()))))
    }
}

/// Names of files and directories in the directory `dir` of files whose names have slashes; it is that of all if it is empty.
fn names_in(all: &[String], dir: &str) -> Vec<String> {
    let inside = all.iter().filter_map(|name| match dir {
        "" => Some(name.as_str()),
        _ => name.strip_prefix(dir)?.strip_prefix('/'),
    });
    let first = inside.map(|name| name.split_once('/').map_or(name, |(first, _)| first));
    let mut names: Vec<String> = first.map(str::to_string).collect();
    names.sort();
    names.dedup();
    names
}

impl FileSystem for SpeedFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        if let Some((top, name)) = self.table(path) {
            const WHAT: &str = "While opening a file for sequentially reading";
            let file = top.read(name, path, WHAT)?;
            return Ok(Box::new(TopFromFront::from(file)));
        }
        match self.find(path) {
            Some(stored) => Ok(Box::new(FromFront {
                log: self.open_stored(path, stored)?,
                at: 0,
            })),
            None => self.below.open_sequential(path),
        }
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        if let Some((top, name)) = self.table(path) {
            return Ok(Arc::new(top.read(
                name,
                path,
                "While open a file for random read",
            )?));
        }
        match self.find(path) {
            Some(stored) => Ok(Arc::new(self.open_stored(path, stored)?)),
            None => self.below.open_random(path),
        }
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        match self.table(path).is_some() || self.find(path).is_some() {
            true => self.open_random(path),
            false => self.below.open_random_how(path, how),
        }
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        if let Some(number) = self.number(path)
            && let Some(log) = self.create_log(path, number)?
        {
            return Ok(log);
        }
        if let Some((top, name)) = self.table(path) {
            return Ok(Box::new(top.create(name, path)?));
        }
        let file = self.below.create(path, activity)?;
        Ok(self.beside(file, path, activity))
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        if self.table(path).is_some() || self.disk.get().and_then(|_| self.number(path)).is_some() {
            return self.create(path, activity);
        }
        let file = self.below.create_how(path, activity, how)?;
        Ok(self.beside(file, path, activity))
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        if self.table(path).is_some() {
            let text = "going on with a table on a speed disk";
            return Err(Error::not_supported(text).with_path(path));
        }
        match self.find(path) {
            Some(stored) => {
                let rest = match self.below.entry(path)? {
                    Some(_) => Some(self.below.reopen(path, activity)?),
                    None => None,
                };
                Ok(Box::new(EndedLog {
                    stored,
                    rest,
                    path: path.to_path_buf(),
                }))
            }
            None => self.below.reopen(path, activity),
        }
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        match self.table(path).is_some() || self.find(path).is_some() {
            true => self.create(path, activity),
            false => self.below.overwrite(path, activity),
        }
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        if self.table(path).is_some() {
            return Ok(());
        }
        self.below.check_direct(path)
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        self.below.open_device(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match (self.table(from), self.table(to)) {
            (Some((top, from_name)), Some((_, to_name))) => {
                return top.rename(from_name, to_name, from);
            }
            (None, None) => {}
            _ => {
                let e = std::io::Error::from_raw_os_error(18);
                return Err(Error::from_io("While renaming a file", from, e));
            }
        }
        let Some(stored) = self.find(from) else {
            return self.below.rename(from, to);
        };
        self.copy_out(stored.clone(), from, to)?;
        if let Some(dir) = to.parent() {
            self.below.sync_dir(dir)?;
        }
        self.delete_stored(from, &stored)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        if let Some((top, name)) = self.table(path) {
            return top.delete(name, path);
        }
        match self.find(path) {
            Some(stored) => self.delete_stored(path, &stored),
            None => self.below.delete(path),
        }
    }

    fn unlink(&self, path: &Path) -> Result<Unlinked> {
        match self.table(path).is_some() || self.find(path).is_some() {
            true => self.delete(path).map(|()| Unlinked::default()),
            false => self.below.unlink(path),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let is_here = self.table(from).is_some() || self.table(to).is_some();
        match is_here || self.find(from).is_some() {
            true => Err(Error::not_supported("No cross FS links allowed")),
            false => self.below.link(from, to),
        }
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        match self.table(path).is_some() || self.find(path).is_some() {
            true => Ok(1),
            false => self.below.link_count(path),
        }
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        match self.inside(path) {
            // It is there as long as the disk is, and one in it as long as a file is in that.
            Some(_) => Ok(()),
            None => self.below.create_dir_if_missing(path),
        }
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        match self.inside(path) {
            Some(_) => Ok(()),
            None => self.below.delete_dir(path),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        if let Some((top, name)) = self.inside(dir) {
            return Ok(names_in(&top.names(), name));
        }
        let mut names = self.below.list(dir)?;
        if let Some(disk) = self.disk.get().filter(|_| dir == self.dir) {
            let numbers = disk.numbers().into_iter();
            names.extend(numbers.map(|number| format!("{number:06}.log")));
            names.sort();
            names.dedup();
        }
        Ok(names)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        if let Some((top, name)) = self.inside(path) {
            let is_dir = || name.is_empty() || !names_in(&top.names(), name).is_empty();
            return Ok(match top.size(name) {
                Some(_) => Some(EntryKind::File),
                None => is_dir().then_some(EntryKind::Dir),
            });
        }
        match self.find(path) {
            Some(_) => Ok(Some(EntryKind::File)),
            None => self.below.entry(path),
        }
    }

    fn size(&self, path: &Path) -> Result<u64> {
        if let Some((top, name)) = self.table(path) {
            return Ok(top.read(name, path, "while stat a file for size")?.size());
        }
        match self.find(path) {
            Some(stored) => Ok(self.open_stored(path, stored)?.size()),
            None => self.below.size(path),
        }
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        if self.table(path).is_some() {
            // No record says when it was written.
            return self.below.modified(&self.dir);
        }
        match self.find(path) {
            // No page says when it was written.
            Some(_) => self.below.modified(&self.dir),
            None => self.below.modified(path),
        }
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        match self.inside(dir) {
            Some(_) => Ok(Arc::new(TablesDir)),
            None => self.below.open_dir(dir),
        }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let Some((top, _)) = self.table(path) else {
            return self.below.lock(path);
        };
        // Other processes are kept out by the lock of the disk.
        match top.lock() {
            true => Ok(Box::new(TablesLock(top.clone()))),
            false => {
                let e = std::io::Error::from_raw_os_error(37);
                let e = Error::from_io("lock hold by current process", path, e);
                Err(e.with_subcode(SubCode::LockHeld))
            }
        }
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        match self.inside(path) {
            Some((top, _)) => Ok(top.free_bytes()),
            None => self.below.free_space(path),
        }
    }

    fn total_space(&self, path: &Path) -> Option<u64> {
        match self.inside(path) {
            Some((top, _)) => Some(top.usage().capacity),
            None => self.below.total_space(path),
        }
    }

    fn storage(&self, path: &Path) -> Option<u64> {
        match self.disk().filter(|_| self.inside(path).is_some()) {
            Some(disk) => disk.storage(),
            None => self.below.storage(path),
        }
    }

    fn open_files_max(&self) -> Option<u64> {
        self.below.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.below.absolute(path)
    }

    fn read_all(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        if self.table(path).is_none() && self.find(path).is_none() {
            return self.below.read_all(path, limit);
        }
        let file = self.open_random(path)?;
        if file.size() > limit {
            let e = Error::corruption("file is too large").with_path(path);
            return Err(e.with("limit", limit));
        }
        let mut out = vec![0; usize::try_from(file.size()).unwrap_or(0)];
        let n = file.read_at(0, &mut out)?;
        out.truncate(n);
        Ok(out)
    }
}

/// The directory of tables of a disk: every change in it is durable when it returns.
struct TablesDir;

impl Directory for TablesDir {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// The lock of that directory.
struct TablesLock(Arc<Top>);

impl FileLock for TablesLock {}

impl Drop for TablesLock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FormatOptions, SpeedOptions, Target, format_disk};
    use spanlith_env::MemFs;

    fn path(name: &str) -> PathBuf {
        Path::new("/fast/sd/tables").join(name)
    }

    /// The directory of a disk is one like any other, as far as a database needs that.
    #[test]
    fn the_tables_of_a_disk_are_a_directory_with_one_for_lost_files_in_it() {
        let mem = Arc::new(MemFs::new());
        mem.make_device(Path::new("/fast/sd"), 2 << 20).unwrap();
        let device = Target::parse("/fast/sd")
            .unwrap()
            .open(&*mem, false)
            .unwrap();
        let options = FormatOptions {
            tables: 1 << 20,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
        let disk = SpeedDisk::open(device, &SpeedOptions::default()).unwrap();
        let fs = SpeedFs::new(mem, Path::new("/db"));
        fs.attach(disk.clone(), "/fast/sd");
        let dir = path("");
        let dir = dir.as_path();
        assert_eq!(fs.tables(), Some(Path::new("/fast/sd/tables")));
        assert_eq!(fs.entry(dir).unwrap(), Some(EntryKind::Dir));
        assert_eq!(fs.list(dir).unwrap(), [""; 0]);
        for (name, len) in [("1.sst", 10), ("2.sst", 5000)] {
            let mut file = fs.create(&path(name), IoActivity::Flush).unwrap();
            file.append(&vec![len as u8; len]).unwrap();
            file.sync().unwrap();
            file.close().unwrap();
        }
        let lost = path("lost");
        assert_eq!(fs.entry(&lost).unwrap(), None);
        fs.create_dir_if_missing(&lost).unwrap();
        fs.rename(&path("1.sst"), &path("lost/1.sst")).unwrap();
        fs.sync_dir(&lost).unwrap();
        assert_eq!(fs.list(dir).unwrap(), ["2.sst", "lost"]);
        assert_eq!(fs.list(&lost).unwrap(), ["1.sst"]);
        assert_eq!(fs.entry(&lost).unwrap(), Some(EntryKind::Dir));
        assert_eq!(
            fs.entry(&path("lost/1.sst")).unwrap(),
            Some(EntryKind::File)
        );
        assert_eq!(fs.size(&path("lost/1.sst")).unwrap(), 10);
        assert_eq!(fs.read_all(&path("2.sst"), 5000).unwrap(), vec![136; 5000]);
        fs.read_all(&path("2.sst"), 4999).unwrap_err();
        let missing = fs.size(&path("3.sst")).unwrap_err();
        assert_eq!(missing.subcode(), Some(SubCode::PathNotFound));
        // Nothing crosses its border but by a copy.
        let out = fs
            .rename(&path("2.sst"), Path::new("/db/2.sst"))
            .unwrap_err();
        assert_eq!(out.os_error(), Some(18), "{out}");
        let linked = fs.link(&path("2.sst"), Path::new("/db/2.sst")).unwrap_err();
        assert!(linked.to_string().contains("No cross FS links"), "{linked}");
        let lock = fs.lock(&path("LOCK")).unwrap();
        let e = fs.lock(&path("LOCK")).err().unwrap();
        assert_eq!(e.subcode(), Some(SubCode::LockHeld));
        drop(lock);
        fs.lock(&path("LOCK")).unwrap();
        fs.delete(&path("lost/1.sst")).unwrap();
        assert_eq!(fs.entry(&lost).unwrap(), None);
        let usage = disk.tables_usage().unwrap();
        assert_eq!(fs.free_space(dir).unwrap(), usage.free);
        assert_eq!(fs.total_space(dir), Some(usage.capacity));
        assert_eq!(usage.capacity - usage.free, 8192);
    }
}
