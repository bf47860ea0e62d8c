//! Tables on a speed disk without a file system: files in runs of pages after the page groups of the logs (the TopFS of the
//! document SPAN).
//!
//! | module | |
//! |---|---|
//! | `extents` | which pages are free |
//! | `record`, `meta` | the metadata log: which files there are |
//! | `file` | a file that is written or read |
//!
//! The order of writes: the bytes of a file are flushed before the record that names it is durable, and that before its
//! sync returns; a deletion is durable before the pages are free, and they are not free while somebody has the file open. A
//! rename is one record. So a loss of power leaves every file that was synced, whole, under its last name, and
//! none that was deleted; a file that was not synced is gone, and takes no room.
//!
//! Locks: `meta` (rank 25, a token) orders changes and is held during their I/O; `state` (rank 93) is bookkeeping; those of
//! files (95) lie after it.

mod extents;
mod file;
mod meta;
mod record;

pub use extents::Extent;
pub(crate) use file::{TopFromFront, TopReader, TopWriter};
pub use record::{StoredFile, TableRecord};

use crate::plant::Plant;
use crate::superblock::Superblock;
use extents::FreeSpace;
use file::TopFile;
use meta::{Meta, MetaPlace, recover, write_checkpoint};
use record::{Files, NAME_MAX, RUNS_MAX};
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::BlockDevice;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const META_RANK: u8 = 25;
const STATE_RANK: u8 = 93;

/// Figures of the tables of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopUsage {
    /// Files.
    pub files: usize,
    /// Bytes for tables in all.
    pub capacity: u64,
    /// Bytes that no file has.
    pub free: u64,
    /// Bytes of the longest run that is free.
    pub longest: u64,
}

struct State {
    files: BTreeMap<String, Arc<TopFile>>,
    free: FreeSpace,
}

/// The tables of a speed disk.
pub(crate) struct Top {
    device: Arc<dyn BlockDevice>,
    path: PathBuf,
    place: MetaPlace,
    /// Nobody writes: it was opened so, or closed. Relaxed: those who write have ended before.
    is_closed: AtomicBool,
    /// Somebody holds the lock of the directory. Acquire and release: the next one sees what this one did.
    is_locked: AtomicBool,
    /// Flushes of the device that failed, whoever asked for them: what was cached then may be lost (E2). Relaxed: who
    /// looks has flushed itself.
    failed_flushes: AtomicU64,
    /// There is hardly any room in the metadata log. Relaxed: a figure.
    is_full: AtomicBool,
    meta: Mutex<Meta>,
    state: Mutex<State>,
}

pub(crate) fn no_space(path: &Path) -> Error {
    let text = format!("No space left on speed disk for table {}", path.display());
    Error::io(text)
        .with_subcode(SubCode::NoSpace)
        .with_path(path)
}

fn missing(what: &str, path: &Path) -> Error {
    Error::from_io(what, path, std::io::Error::from_raw_os_error(2))
}

/// Writes the metadata log of a disk that has no tables yet, if it is going to have some.
pub(crate) fn format_tables(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    let Some(place) = place_of(superblock, None) else {
        return Ok(());
    };
    // Pages of an earlier disk have another instance.
    write_checkpoint(device, &place, 0, 1, &Files::new()).map(|_| ())
}

fn place_of(superblock: &Superblock, plant: Option<Plant>) -> Option<MetaPlace> {
    superblock.tables.map(|area| MetaPlace {
        area,
        page_size: superblock.layout.page_size as usize,
        instance: superblock.instance,
        plant,
    })
}

impl Top {
    /// The tables of a disk, if it has a part for them; and what is damaged of them, if anything is.
    ///
    /// # Errors
    /// `Corruption` if the metadata log cannot be read at all, or contradicts itself; of the device.
    pub(crate) fn open(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
        read_only: bool,
        plant: Option<Plant>,
    ) -> Result<Option<(Arc<Self>, Option<String>)>> {
        let Some(place) = place_of(superblock, plant) else {
            return Ok(None);
        };
        let found = recover(&**device, &place)?;
        let state = State {
            files: BTreeMap::new(),
            free: found.free,
        };
        let me = Arc::new(Self {
            device: device.clone(),
            path: device.path().to_path_buf(),
            is_closed: AtomicBool::new(read_only),
            is_locked: AtomicBool::new(false),
            failed_flushes: AtomicU64::new(0),
            is_full: AtomicBool::new(found.meta.is_full(&place)),
            place,
            meta: Mutex::new(META_RANK, found.meta),
            state: Mutex::new(STATE_RANK, state),
        });
        let files: BTreeMap<String, Arc<TopFile>> = {
            let meta = me.meta.lock();
            let files = meta.files().iter();
            files
                .map(|(name, file)| (name.clone(), TopFile::found(&me, name, file)))
                .collect()
        };
        me.state.lock().files = files;
        Ok(Some((me, found.damage)))
    }

    /// Nobody writes any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn check_writable(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Relaxed) {
            true => Err(Error::not_supported(
                "a speed disk that is open for reading only",
            )),
            false => Ok(()),
        }
    }

    /// Figures.
    pub(crate) fn usage(&self) -> TopUsage {
        let page = self.place.page_size as u64;
        let state = self.state.lock();
        TopUsage {
            files: state.files.len(),
            capacity: self.place.area.data_bytes(),
            free: state.free.pages() * page,
            longest: state.free.longest(1) * page,
        }
    }

    /// Bytes that a new table may have: those of as many runs as it may be made of.
    pub(crate) fn free_bytes(&self) -> u64 {
        if self.is_full.load(Ordering::Relaxed) {
            return 0;
        }
        let runs = RUNS_MAX / 2;
        self.state.lock().free.longest(runs) * self.place.page_size as u64
    }

    /// Names of the files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state.lock().files.keys().cloned().collect()
    }

    /// The files that are on the disk, and their pages.
    pub(crate) fn stored(&self) -> Vec<(String, StoredFile)> {
        let meta = self.meta.lock();
        let files = meta.files().iter();
        files.map(|(n, f)| (n.clone(), f.clone())).collect()
    }

    /// Bytes of a file, if it is there.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.file(name).map(|file| file.len())
    }

    fn file(&self, name: &str) -> Option<Arc<TopFile>> {
        self.state.lock().files.get(name).cloned()
    }

    /// Opens a file for reading. `path`: what it is called.
    ///
    /// # Errors
    /// `Io` with subcode `PathNotFound` if it is missing, in the words `what`.
    pub(crate) fn read(self: &Arc<Self>, name: &str, path: &Path, what: &str) -> Result<TopReader> {
        let file = self.file(name).ok_or_else(|| missing(what, path))?;
        Ok(TopReader::new(self.clone(), file, path))
    }

    /// Creates a file; one of the same name is gone then.
    ///
    /// # Errors
    /// Of the device; `InvalidArgument` for a name that is too long.
    pub(crate) fn create(self: &Arc<Self>, name: &str, path: &Path) -> Result<TopWriter> {
        self.check_writable()?;
        if name.len() > NAME_MAX {
            let text = "a name that is too long for a speed disk";
            return Err(Error::invalid_argument(text).with_path(path));
        }
        if self.file(name).is_some() {
            self.delete(name, path)?;
        }
        let file = TopFile::new(self, name);
        let old = self
            .state
            .lock()
            .files
            .insert(name.to_string(), file.clone());
        // Its pages go back without a lock.
        drop(old);
        Ok(TopWriter::new(self.clone(), file, path))
    }

    /// Removes a file, durably. Its pages are free once nobody has it open any more.
    ///
    /// # Errors
    /// `Io` with subcode `PathNotFound` if it is missing; of the device: it is still there then.
    pub(crate) fn delete(&self, name: &str, path: &Path) -> Result<()> {
        self.check_writable()?;
        let mut meta = self.meta.lock();
        let file = self
            .file(name)
            .ok_or_else(|| missing("while unlink() file", path))?;
        match self.place.plant {
            Some(Plant::TablesEarlyReuse) => self.give_back(&file.rob()),
            _ if file.is_recorded() => {
                self.commit(&mut meta, TableRecord::Delete(name.to_string()))?;
            }
            _ => {}
        }
        if self.place.plant == Some(Plant::TablesReaders) {
            self.give_back(&file.rob());
        }
        file.rename(None);
        drop(meta);
        let gone = self.state.lock().files.remove(name);
        // Their pages go back without a lock.
        drop((gone, file));
        Ok(())
    }

    /// Renames a file, durably; one that had the new name is gone then.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub(crate) fn rename(&self, from: &str, to: &str, path: &Path) -> Result<()> {
        self.check_writable()?;
        if to.len() > NAME_MAX {
            let text = "a name that is too long for a speed disk";
            return Err(Error::invalid_argument(text).with_path(path));
        }
        let mut meta = self.meta.lock();
        let file = self
            .file(from)
            .ok_or_else(|| missing("While renaming a file", path))?;
        if from == to {
            return Ok(());
        }
        let old = self.file(to);
        let is_replaced = old.as_ref().is_some_and(|old| old.is_recorded());
        let mut commit = |record| self.commit(&mut meta, record);
        match file.is_recorded() {
            true if self.place.plant == Some(Plant::TablesTwoSteps) && is_replaced => {
                commit(TableRecord::Delete(to.to_string()))?;
                commit(TableRecord::Rename(from.to_string(), to.to_string()))?;
            }
            true => commit(TableRecord::Rename(from.to_string(), to.to_string()))?,
            false if is_replaced => commit(TableRecord::Delete(to.to_string()))?,
            false => {}
        }
        if let Some(old) = &old {
            old.rename(None);
        }
        file.rename(Some(to));
        let replaced = {
            let mut state = self.state.lock();
            state.files.remove(from);
            state.files.insert(to.to_string(), file)
        };
        drop(meta);
        // Their pages go back without a lock.
        drop((old, replaced));
        Ok(())
    }

    fn commit(&self, meta: &mut Meta, record: TableRecord) -> Result<()> {
        let committed = meta.commit(&*self.device, &self.place, &[record]);
        let is_full = meta.is_full(&self.place);
        self.is_full.store(is_full, Ordering::Relaxed);
        committed
    }

    /// Removes all files.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn clear(&self) -> Result<()> {
        self.check_writable()?;
        self.meta.lock().clear(&*self.device, &self.place)?;
        let files = std::mem::take(&mut self.state.lock().files);
        files.values().for_each(|file| file.rename(None));
        Ok(())
    }

    /// Takes the lock of the directory, if nobody has it.
    pub(crate) fn lock(&self) -> bool {
        !self.is_locked.swap(true, Ordering::AcqRel)
    }

    /// Gives the lock up.
    pub(crate) fn unlock(&self) {
        self.is_locked.store(false, Ordering::Release);
    }

    /// Makes durable what was cached since `failed_flushes` flushes had failed.
    fn flush(&self, failed_flushes: u64) -> Result<()> {
        if let Err(e) = self.device.flush() {
            self.note_failed_flush();
            return Err(e);
        }
        match self.failed_flushes.load(Ordering::Relaxed) == failed_flushes {
            true => Ok(()),
            false => {
                Err(Error::io("a flush of the speed disk failed before").with_path(&self.path))
            }
        }
    }

    /// A flush of the device has failed.
    pub(crate) fn note_failed_flush(&self) {
        self.failed_flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Flushes of the device that failed.
    pub(crate) fn failed_flushes(&self) -> u64 {
        self.failed_flushes.load(Ordering::Relaxed)
    }

    /// At most `want` free pages, those from `at` on if they are free.
    fn take(&self, at: Option<u32>, want: u32) -> Option<Extent> {
        let mut state = self.state.lock();
        let next = at.and_then(|at| state.free.take_at(at, want));
        next.or_else(|| state.free.take(want))
    }

    fn give_back(&self, runs: &[Extent]) {
        let mut state = self.state.lock();
        for run in runs {
            state.free.give(*run);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::emulated::{EmulatedDevice, Fault, FaultKind, Profile};
    use crate::{FormatOptions, LogFile, SpeedDisk, SpeedOptions, format_disk};
    use spanlith_base::SubCode;
    use spanlith_env::{BlockDevice, Durability, RandomAccessFile, WritableFile};
    use std::path::Path;
    use std::sync::Arc;

    const SIZE: u64 = 2 << 20;
    const PATH: &str = "table";

    fn world() -> (Arc<EmulatedDevice>, Arc<SpeedDisk>) {
        let device = Arc::new(EmulatedDevice::new(Profile::by_name("S").unwrap(), SIZE));
        let options = FormatOptions {
            group_bytes: 64 << 10,
            tables: 1 << 20,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, *b"0123456789abcdef").unwrap();
        (device.clone(), open(&device))
    }

    fn open(device: &Arc<EmulatedDevice>) -> Arc<SpeedDisk> {
        SpeedDisk::open(device.clone(), &SpeedOptions::default()).unwrap()
    }

    fn fail_next_flush(device: &EmulatedDevice, requests_before: u64) {
        device.add_fault(Fault {
            request: device.requests() + requests_before,
            kind: FaultKind::Error,
        });
    }

    /// E2: a flush that failed may have lost what anybody had cached.
    #[test]
    fn a_flush_that_fails_for_tables_fails_for_logs_and_the_other_way_round() {
        let (device, disk) = world();
        let top = disk.top().unwrap();
        let log = disk.create_log(4).unwrap();
        let mut log = LogFile::new(disk.clone(), log, Path::new("log"));
        log.append(&[1; 100]).unwrap();
        let mut table = top.create("1.sst", Path::new(PATH)).unwrap();
        table.append(&[2; 8192]).unwrap();
        fail_next_flush(&device, 0);
        table.sync().unwrap_err();
        table.sync().unwrap_err();
        let e = log.sync().unwrap_err();
        assert!(e.to_string().contains("failed before"), "{e}");
        assert_eq!(disk.stored_tables(), []);
        // The other way round: a second log, cached; another table, too.
        let second = disk.create_log(6).unwrap();
        let mut second = LogFile::new(disk.clone(), second, Path::new("log"));
        second.append(&[1; 100]).unwrap();
        let mut table = top.create("2.sst", Path::new(PATH)).unwrap();
        table.append(&[2; 8192]).unwrap();
        fail_next_flush(&device, 0);
        second.sync().unwrap_err();
        let e = table.sync().unwrap_err();
        assert!(e.to_string().contains("failed before"), "{e}");
        // Files that begin afterwards are not concerned.
        let mut table = top.create("3.sst", Path::new(PATH)).unwrap();
        table.append(&[2; 8192]).unwrap();
        table.close().unwrap();
        let third = disk.create_log(7).unwrap();
        let mut third = LogFile::new(disk.clone(), third, Path::new("log"));
        third.append(&[1; 100]).unwrap();
        third.sync().unwrap();
        assert_eq!(disk.stored_tables().len(), 1);
    }

    #[test]
    fn a_table_is_read_while_it_is_written_and_as_it_was_opened() {
        let (_, disk) = world();
        let top = disk.top().unwrap();
        let mut table = top.create("1.sst", Path::new(PATH)).unwrap();
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        table.append(&bytes[..5000]).unwrap();
        let early = top.read("1.sst", Path::new(PATH), "").unwrap();
        table.append(&bytes[5000..5001]).unwrap();
        table.append(&bytes[5001..]).unwrap();
        table.close().unwrap();
        let late = top.read("1.sst", Path::new(PATH), "").unwrap();
        for (file, len) in [(&early, 5000), (&late, 40_000)] {
            assert_eq!(file.size(), len as u64);
            for (at, n) in [(0, 10), (4000, 3000), (4999, 9), (0, 50_000), (60_000, 5)] {
                let mut buf = vec![0; n];
                let expected = bytes[..len].get(at..).unwrap_or_default();
                let expected = &expected[..expected.len().min(n)];
                assert_eq!(file.read_at(at as u64, &mut buf).unwrap(), expected.len());
                assert!(&buf[..expected.len()] == expected, "{at} {n}");
            }
        }
        // Its last page holds durable bytes, and is not written again.
        let e = table.append(b"more").unwrap_err();
        assert!(e.to_string().contains("that was synced"), "{e}");
    }

    #[test]
    fn a_full_disk_says_so_and_what_was_begun_gives_its_pages_back() {
        let (device, disk) = world();
        let top = disk.top().unwrap();
        let before = disk.tables_usage().unwrap();
        let mut table = top.create("1.sst", Path::new(PATH)).unwrap();
        let written = (0..100).try_for_each(|_| table.append(&[7; 50_000]));
        assert_eq!(written.unwrap_err().subcode(), Some(SubCode::NoSpace));
        assert_eq!(top.free_bytes(), 0);
        drop(table);
        top.delete("1.sst", Path::new(PATH)).unwrap();
        assert_eq!(disk.tables_usage(), Some(before));
        // Names run out as well, and those that are there can still go.
        let mut names = 0;
        let full = loop {
            let name = format!("{names:0>200}");
            let mut table = top.create(&name, Path::new(PATH)).unwrap();
            table.append(&[1]).unwrap();
            match table.close() {
                Ok(()) => names += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(full.subcode(), Some(SubCode::NoSpace), "{full}");
        assert!(names > 50 && top.free_bytes() == 0, "{names}");
        let found = open(&device).stored_tables();
        assert_eq!(found.len(), names);
        for (name, _) in found {
            top.delete(&name, Path::new(PATH)).unwrap();
        }
        assert_eq!(open(&device).stored_tables(), []);
    }

    #[test]
    fn a_damaged_metadata_log_is_told() {
        let (device, disk) = world();
        let top = disk.top().unwrap();
        for i in 0..3 {
            let mut table = top.create(&i.to_string(), Path::new(PATH)).unwrap();
            table.append(&[i; 5000]).unwrap();
            table.close().unwrap();
        }
        let area = SIZE - (1 << 20);
        let media = device.media();
        let at = |page: u64, byte: u64| area + page * 4096 + byte;
        let damaged = |page: u64| {
            let device =
                EmulatedDevice::with_media(Profile::by_name("S").unwrap(), SIZE, media.clone());
            device
                .write_at(at(page, 60), &[0xee; 4], Durability::Durable)
                .unwrap();
            Arc::new(device)
        };
        // The last page may be one that was never written whole; others were followed by one.
        let disk = open(&damaged(3));
        assert_eq!(disk.stored_tables().len(), 2);
        for page in [1, 2] {
            let device = damaged(page);
            let e = SpeedDisk::open(device.clone(), &SpeedOptions::default()).unwrap_err();
            assert!(
                e.to_string().contains("metadata log of tables is damaged"),
                "{e}"
            );
            let options = SpeedOptions {
                read_only: true,
                accept_damage: true,
                ..SpeedOptions::default()
            };
            let disk = SpeedDisk::open(device, &options).unwrap();
            assert_eq!(disk.stored_tables().len() as u64, page - 1);
            assert!(disk.found().damage.is_some());
        }
        let e = SpeedDisk::open(damaged(0), &SpeedOptions::default()).unwrap_err();
        assert!(e.to_string().contains("both halves"), "{e}");
    }
}
