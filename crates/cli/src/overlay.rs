//! A file system whose changes stay in memory: what lies below is read and never touched.
//!
//! On it a directory can be opened for writing to see what that would do. Files that are made or
//! extended live in a [`MemFs`] under numbers; a map says which path means which file. Every change is
//! noted, in order. Locks are granted without taking them below.

use crate::shadow::Shadow;
use spanlith::Result;
use spanlith_base::{Error, SubCode};
use spanlith_env::{
    BlockDevice, DeviceAccess, Directory, EntryKind, FileLock, FileSystem, IoActivity, MemFs,
    RandomAccessFile, SequentialFile, WritableFile,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Describes what would have changed below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file would be made or written anew.
    Made(PathBuf),
    /// A file would get another name.
    Moved(PathBuf, PathBuf),
    /// A file would be deleted.
    Deleted(PathBuf),
}

/// Where a path leads that does not lead below as it is.
#[derive(Clone)]
enum Place {
    /// To a file below, perhaps of another name.
    Below(PathBuf),
    /// To a file in memory.
    Memory(PathBuf),
    /// To a directory that is not below.
    Dir,
    /// Nowhere any more.
    Gone,
}

/// The file system.
pub struct Overlay {
    below: Arc<dyn FileSystem>,
    memory: MemFs,
    places: Mutex<BTreeMap<PathBuf, Place>>,
    changes: Mutex<Vec<Change>>,
    /// Devices that were opened.
    devices: Mutex<BTreeMap<PathBuf, Arc<Shadow>>>,
    /// Number of the next file in memory. Relaxed: a counter.
    next: AtomicU64,
}

/// A lock nobody else sees.
struct Granted;

impl FileLock for Granted {}

/// A directory in which nothing is durable.
struct Unsynced;

impl Directory for Unsynced {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under the locks can panic half-way.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing(path: &Path) -> Error {
    Error::io("No such file or directory")
        .with_subcode(SubCode::PathNotFound)
        .with_path(path)
}

impl Overlay {
    /// Over a file system.
    pub fn new(below: Arc<dyn FileSystem>) -> Self {
        Self {
            below,
            memory: MemFs::new(),
            places: Mutex::default(),
            changes: Mutex::default(),
            devices: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Returns what would have changed, in order.
    pub fn changes(&self) -> Vec<Change> {
        held(&self.changes).clone()
    }

    fn key(&self, path: &Path) -> PathBuf {
        self.below.absolute(path)
    }

    fn place(&self, path: &Path) -> Place {
        let key = self.key(path);
        let found = held(&self.places).get(&key).cloned();
        found.unwrap_or(Place::Below(key))
    }

    fn put(&self, path: &Path, place: Place) {
        held(&self.places).insert(self.key(path), place);
    }

    fn note(&self, change: Change) {
        held(&self.changes).push(change);
    }

    /// The file system and the path there of an existing file or directory.
    fn find(&self, path: &Path) -> Result<(&dyn FileSystem, PathBuf)> {
        match self.place(path) {
            Place::Below(p) => Ok((&*self.below, p)),
            Place::Memory(p) => Ok((&self.memory, p)),
            Place::Dir | Place::Gone => Err(missing(path)),
        }
    }

    fn new_file(
        &self,
        path: &Path,
        activity: IoActivity,
    ) -> Result<(PathBuf, Box<dyn WritableFile>)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let file = PathBuf::from(format!("/{number}"));
        let writer = self.memory.create(&file, activity)?;
        self.put(path, Place::Memory(file.clone()));
        Ok((file, writer))
    }
}

impl FileSystem for Overlay {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let (fs, path) = self.find(path)?;
        fs.open_sequential(&path)
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let (fs, path) = self.find(path)?;
        fs.open_random(&path)
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.note(Change::Made(path.to_path_buf()));
        Ok(self.new_file(path, activity)?.1)
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let Place::Memory(file) = self.place(path) else {
            // A copy in memory is what grows.
            let (fs, source) = self.find(path)?;
            let bytes = fs.read_all(&source, u64::MAX)?;
            let (file, mut writer) = self.new_file(path, activity)?;
            writer.append(&bytes)?;
            writer.close()?;
            drop(writer);
            self.note(Change::Made(path.to_path_buf()));
            return self.memory.reopen(&file, activity);
        };
        self.memory.reopen(&file, activity)
    }

    fn open_device(&self, path: &Path, _access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        let below = self.below.open_device(path, DeviceAccess::Read)?;
        let mut devices = held(&self.devices);
        let shadow = devices.entry(self.key(path));
        let shadow = shadow.or_insert_with(|| Arc::new(Shadow::new(below)));
        Ok(shadow.clone())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.size(from)?;
        let place = self.place(from);
        self.put(to, place);
        self.put(from, Place::Gone);
        self.note(Change::Moved(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.size(path)?;
        self.put(path, Place::Gone);
        self.note(Change::Deleted(path.to_path_buf()));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.size(from)?;
        let place = self.place(from);
        self.put(to, place);
        self.note(Change::Made(to.to_path_buf()));
        Ok(())
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        match self.entry(path)? {
            Some(EntryKind::Dir) => {}
            _ => self.put(path, Place::Dir),
        }
        Ok(())
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.put(path, Place::Gone);
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let key = self.key(dir);
        let mut names: Vec<String> = match self.place(dir) {
            Place::Below(p) => self.below.list(&p)?,
            Place::Dir => Vec::new(),
            Place::Memory(_) | Place::Gone => return Err(missing(dir)),
        };
        let places = held(&self.places);
        let inside = places.iter().filter(|(p, _)| p.parent() == Some(&key));
        for (path, place) in inside {
            let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else {
                continue;
            };
            names.retain(|n| *n != name);
            if !matches!(place, Place::Gone) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        match self.place(path) {
            Place::Below(p) => self.below.entry(&p),
            Place::Memory(_) => Ok(Some(EntryKind::File)),
            Place::Dir => Ok(Some(EntryKind::Dir)),
            Place::Gone => Ok(None),
        }
    }

    fn size(&self, path: &Path) -> Result<u64> {
        let (fs, path) = self.find(path)?;
        fs.size(&path)
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        let (fs, path) = self.find(path)?;
        fs.modified(&path)
    }

    fn open_dir(&self, _dir: &Path) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(Unsynced))
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(Granted))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.below.free_space(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.below.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.below.absolute(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
        let mut file = fs.create(path, IoActivity::Other).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    }

    #[test]
    fn changes_are_seen_above_and_not_below() {
        let below = MemFs::new();
        let [a, b, c, lost] = ["/a", "/b", "/c", "/lost"].map(Path::new);
        write(&below, a, b"one");
        write(&below, b, b"two");
        let top = Overlay::new(Arc::new(below.clone()));
        assert_eq!(top.read_all(a, 9).unwrap(), b"one");
        write(&top, c, b"three");
        let mut file = top.reopen(a, IoActivity::Other).unwrap();
        file.append(b"!").unwrap();
        file.close().unwrap();
        top.delete(b).unwrap();
        top.create_dir_if_missing(lost).unwrap();
        top.rename(c, Path::new("/lost/c")).unwrap();
        assert_eq!(top.read_all(a, 9).unwrap(), b"one!");
        assert_eq!(top.read_all(Path::new("/lost/c"), 9).unwrap(), b"three");
        assert!(top.open_random(b).is_err() && top.size(c).is_err());
        let mut names = top.list(Path::new("/")).unwrap();
        names.sort();
        assert_eq!(names, ["a", "lost"]);
        assert_eq!(top.list(lost).unwrap(), ["c"]);
        assert!(top.rename(b, a).is_err() && top.delete(b).is_err());

        let mut names = below.list(Path::new("/")).unwrap();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(below.read_all(a, 9).unwrap(), b"one");
        let made = |p: &Path| Change::Made(p.to_path_buf());
        let moved = Change::Moved(c.to_path_buf(), PathBuf::from("/lost/c"));
        assert_eq!(
            top.changes(),
            [made(c), made(a), Change::Deleted(b.to_path_buf()), moved]
        );
    }
}
