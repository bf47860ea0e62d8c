//! The file-system interface of [`MemFs`].
//!
//! Every change takes the tree's lock, so that a clone is a state that existed; reads of an open file
//! take only the file's. An observer is called before each change without a lock held: it may clone,
//! or use the clone, or use the file system itself.

use super::content::{Content, Pieces};
use super::crash;
use super::device::MemDevice;
use super::tree::{DirId, Errno, FileRef, Node, Tree, normal};
use crate::device::{BlockDevice, DeviceAccess};
use crate::errors::{self, Poison};
use crate::traits::{
    Directory, EntryKind, FileLock, FileSystem, IoActivity, RandomAccessFile, SequentialFile,
    WritableFile,
};
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result, SubCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above all callers' ranks, below the files'.
const TREE_RANK: u8 = 96;
/// Taken and released before the tree's.
const OBSERVER_RANK: u8 = 95;

/// Space reported as free.
const FREE_SPACE: u64 = 1 << 40;

/// A change about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum FsOp {
    Create {
        path: PathBuf,
    },
    Append {
        path: PathBuf,
        len: usize,
    },
    Write {
        path: PathBuf,
        offset: u64,
        len: usize,
    },
    Truncate {
        path: PathBuf,
        len: u64,
    },
    Sync {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Delete {
        path: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    CreateDir {
        path: PathBuf,
    },
    DeleteDir {
        path: PathBuf,
    },
    SyncDir {
        path: PathBuf,
    },
}

/// Called before each change.
pub type Observer = Arc<dyn Fn(&FsOp) + Send + Sync>;

/// An in-memory file system that knows which bytes and names a power loss would leave.
///
/// Paths are taken from the root; a relative path starts there too. The root exists; every other
/// directory has to be created, and is durable once its parent was synced. `clone` is another handle
/// to the same file system; a copy is made by [`Self::crash_clone`] and its siblings.
#[derive(Clone)]
pub struct MemFs {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) tree: Mutex<Tree>,
    observer: Mutex<Option<Observer>>,
    /// Changes so far. Relaxed: a counter.
    ops: AtomicU64,
    /// Changes made before this copy; with `ops` the clock of modification times.
    ops_before: u64,
}

impl MemFs {
    /// An empty file system.
    pub fn new() -> Self {
        Self::with_tree(Tree::new(), 0)
    }

    fn with_tree(tree: Tree, ops_before: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                tree: Mutex::new(TREE_RANK, tree),
                observer: Mutex::new(OBSERVER_RANK, None),
                ops: AtomicU64::new(0),
                ops_before,
            }),
        }
    }

    /// A copy in a state that a power loss at this moment may leave.
    ///
    /// `choice(n)` answers each question with a number below `n`. Always 0 gives [`Self::strict_clone`]
    /// (only what is durable), always `n - 1` keeps everything; random numbers visit the states
    /// between. Per directory, a prefix of the changes since its last sync persists. Per file, a prefix
    /// of the appends since its last sync persists; the last of them may be torn at any byte, and the
    /// file may be longer than its data, the rest reading as zeros. A file cut by `create` may have its
    /// old durable bytes back.
    ///
    /// Everything that is left is durable in the copy, no lock is held in it, and no observer watches it. Costs a
    /// pointer per file and a name per directory entry, not the bytes.
    pub fn crash_clone(&self, choice: &mut dyn FnMut(u64) -> u64) -> Self {
        // The questions are asked about a private copy, so that `choice` may take locks of its own.
        let still = crash::after_process_crash(&self.shared.tree.lock());
        Self::with_tree(crash::after_power_loss(&still, choice), self.shared.now())
    }

    /// A copy after a power loss that took everything it legally could.
    pub fn strict_clone(&self) -> Self {
        self.crash_clone(&mut |_| 0)
    }

    /// A copy after the process ended: everything appended is there, and what was not synced can still
    /// be lost to a later power loss.
    pub fn process_crash_clone(&self) -> Self {
        let tree = crash::after_process_crash(&self.shared.tree.lock());
        Self::with_tree(tree, self.shared.now())
    }

    /// Changes asked for so far (each is an [`FsOp`]), failed ones included. A copy begins at 0.
    pub fn op_count(&self) -> u64 {
        self.shared.ops.load(Ordering::Relaxed)
    }

    /// Calls `observer` before each change, on the thread that makes it and without a lock held.
    pub fn set_observer(&self, observer: Option<Observer>) {
        *self.shared.observer.lock() = observer;
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// As [`FileSystem::open_sequential`].
    pub fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self
            .shared
            .with(errors::OPEN_SEQUENTIAL, path, |tree| tree.find_file(path))?;
        let pieces = file.lock().pieces.clone();
        Ok(pieces.to_vec())
    }

    /// Puts a device of `size` bytes there, all of them zero, with its directories, durable and seen by no observer.
    ///
    /// A path `/dev/memory/SIZE/NAME` is such a device when it is first opened as one: for those who know only the trait.
    ///
    /// # Errors
    /// As [`Self::write_file`].
    pub fn make_device(&self, path: &Path, size: u64) -> Result<()> {
        self.shared.with(errors::OPEN_WRITE, path, |tree| {
            tree.put_durable(path, Content::of_device(size))
        })
    }

    /// Puts a file there, with its directories, all of it durable at once and seen by no observer.
    ///
    /// # Errors
    /// `Io` if a directory has the file's name or a file a directory's.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let content = Content::durable(Pieces::of(bytes), self.shared.now());
        self.shared.with(errors::OPEN_WRITE, path, |tree| {
            tree.put_durable(path, content)
        })
    }

    /// Flips bit `bit` (0 to 7) of byte `offset`, on the disk and for all who read from now on.
    ///
    /// # Errors
    /// As [`FileSystem::open_sequential`]; `InvalidArgument` if the file is shorter.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> Result<()> {
        let file = self
            .shared
            .with(errors::OPEN_SEQUENTIAL, path, |tree| tree.find_file(path))?;
        let flipped = file.lock().flip_bit(offset, bit);
        if flipped {
            Ok(())
        } else {
            let e = Error::invalid_argument("no such byte in the file");
            Err(e.with_path(path).with_offset(offset))
        }
    }
}

#[cfg(test)]
impl MemFs {
    /// Where the first append of a file lies in memory.
    pub(super) fn bytes_address(&self, path: &Path) -> Option<usize> {
        self.shared
            .tree
            .lock()
            .find_file(path)
            .ok()
            .and_then(|file| file.lock().pieces.address())
    }
}

impl Default for MemFs {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    /// Modification time of what is changed now.
    fn now(&self) -> u64 {
        self.ops_before + self.ops.load(Ordering::Relaxed)
    }

    /// Counts a change and shows it to the observer. Returns its modification time.
    pub(super) fn observe(&self, op: impl FnOnce() -> FsOp) -> u64 {
        let now = self.ops_before + self.ops.fetch_add(1, Ordering::Relaxed) + 1;
        let observer = self.observer.lock().clone();
        if let Some(observer) = observer {
            observer(&op());
        }
        now
    }

    /// Runs `call` on the tree; an error number becomes an error about `path`.
    fn with<T>(
        &self,
        context: &str,
        path: &Path,
        call: impl FnOnce(&mut Tree) -> Result<T, Errno>,
    ) -> Result<T> {
        let result = call(&mut self.tree.lock());
        result.map_err(|errno| errors::from_errno(context, path, errno))
    }
}

/// Bytes of a device below `/dev/memory`.
fn size_of_name(path: &Path) -> Option<u64> {
    let rest = path.strip_prefix("/dev/memory").ok()?;
    let size = rest.iter().next()?.to_str()?;
    (rest.iter().count() > 1)
        .then(|| size.parse().ok())
        .flatten()
}

impl FileSystem for MemFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self
            .shared
            .with(errors::OPEN_SEQUENTIAL, path, |tree| tree.find_file(path))?;
        Ok(Box::new(MemSequential { file, offset: 0 }))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self
            .shared
            .with(errors::OPEN_RANDOM, path, |tree| tree.find_file(path))?;
        let size = file.lock().pieces.len();
        Ok(Arc::new(MemRandom {
            file,
            size,
            path: path.to_path_buf(),
        }))
    }

    fn create(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let now = self.shared.observe(|| FsOp::Create {
            path: path.to_path_buf(),
        });
        let file = self
            .shared
            .with(errors::OPEN_WRITE, path, |tree| tree.create(path, now))?;
        Ok(Box::new(MemWritable {
            shared: Arc::clone(&self.shared),
            file: Some(file),
            path: path.to_path_buf(),
            len: 0,
            poison: Poison::default(),
        }))
    }

    fn reopen(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let missing = self.shared.tree.lock().find(path).is_err();
        let now = if missing {
            self.shared.observe(|| FsOp::Create {
                path: path.to_path_buf(),
            })
        } else {
            self.shared.now()
        };
        let file = self
            .shared
            .with(errors::OPEN_WRITE, path, |tree| tree.reopen(path, now))?;
        let mut content = file.lock();
        content.end_overwrite();
        let len = content.pieces.len();
        drop(content);
        Ok(Box::new(MemWritable {
            shared: Arc::clone(&self.shared),
            file: Some(file),
            path: path.to_path_buf(),
            len,
            poison: Poison::default(),
        }))
    }

    fn overwrite(&self, path: &Path, _activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = self
            .shared
            .with(errors::OPEN_WRITE, path, |tree| tree.find_file(path))?;
        file.lock().begin_overwrite();
        Ok(Box::new(MemWritable {
            shared: Arc::clone(&self.shared),
            file: Some(file),
            path: path.to_path_buf(),
            len: 0,
            poison: Poison::default(),
        }))
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        const OPEN: &str = "While opening a speed disk";
        let find = |tree: &mut Tree| match (tree.find_file(path), size_of_name(path)) {
            // Its place in the tree is made with it, as if it had always been there.
            (Err(libc::ENOENT), Some(size)) => {
                tree.put_durable(path, Content::of_device(size))?;
                tree.find_file(path)
            }
            (found, _) => found,
        };
        let file = self.shared.with(OPEN, path, find)?;
        let mut content = file.lock();
        let Some(size) = content.device.as_ref().map(|(size, _)| *size) else {
            return Err(Error::not_supported("a device on a file in memory").with_path(path));
        };
        let holder = match access {
            DeviceAccess::Read => None,
            DeviceAccess::Write { .. } if content.holder.upgrade().is_some() => {
                let e = errors::from_errno("While lock speed disk", path, libc::EAGAIN);
                return Err(e.with_subcode(SubCode::LockHeld));
            }
            DeviceAccess::Write { .. } => {
                let holder = Arc::new(());
                content.holder = Arc::downgrade(&holder);
                Some(holder)
            }
        };
        drop(content);
        Ok(Arc::new(MemDevice {
            shared: Arc::clone(&self.shared),
            file,
            path: path.to_path_buf(),
            size,
            _holder: holder,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.shared.observe(|| FsOp::Rename {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
        });
        self.shared.with(&errors::rename_context(to), from, |tree| {
            tree.rename(from, to)
        })
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.shared.observe(|| FsOp::Delete {
            path: path.to_path_buf(),
        });
        self.shared
            .with(errors::UNLINK, path, |tree| tree.delete(path))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.shared.observe(|| FsOp::Link {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
        });
        self.shared
            .with(&errors::link_context(to), from, |tree| tree.link(from, to))
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.shared
            .with(errors::ENTRY, path, |tree| tree.link_count(path))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        let there = self.shared.tree.lock().find(path);
        match there {
            Ok(Node::Dir(_)) => return Ok(()),
            Ok(Node::File(_)) => return Err(errors::not_a_directory(path)),
            Err(_) => {}
        }
        self.shared.observe(|| FsOp::CreateDir {
            path: path.to_path_buf(),
        });
        self.shared
            .with(errors::MKDIR, path, |tree| match tree.create_dir(path) {
                // Somebody was faster.
                Err(libc::EEXIST) => tree.find_dir(path).map(drop),
                other => other,
            })
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.shared.observe(|| FsOp::DeleteDir {
            path: path.to_path_buf(),
        });
        self.shared
            .with(errors::RMDIR, path, |tree| tree.delete_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.shared.with(errors::LIST, dir, |tree| {
            let id = tree.find_dir(dir)?;
            Ok(tree.dir(id)?.names.keys().cloned().collect())
        })
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        Ok(match self.shared.tree.lock().find(path) {
            Ok(Node::File(_)) => Some(EntryKind::File),
            Ok(Node::Dir(_)) => Some(EntryKind::Dir),
            Err(_) => None,
        })
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.shared
            .with(errors::SIZE, path, |tree| match tree.find(path)? {
                Node::File(file) => Ok(file.lock().len()),
                Node::Dir(_) => Ok(0),
            })
    }

    /// The number of the change that last touched the file, so that runs repeat.
    fn modified(&self, path: &Path) -> Result<u64> {
        self.shared
            .with(errors::MODIFIED, path, |tree| match tree.find(path)? {
                Node::File(file) => Ok(file.lock().modified),
                Node::Dir(_) => Ok(0),
            })
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        let id = self
            .shared
            .with(errors::OPEN_DIR, dir, |tree| tree.find_dir(dir))?;
        Ok(Arc::new(MemDirectory {
            shared: Arc::clone(&self.shared),
            id,
            path: dir.to_path_buf(),
        }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let key = normal(path);
        let missing = self.shared.tree.lock().find(path).is_err();
        let now = if missing {
            self.shared.observe(|| FsOp::Create {
                path: path.to_path_buf(),
            })
        } else {
            self.shared.now()
        };
        let mut tree = self.shared.tree.lock();
        if let Some((seconds, thread)) = tree.locks.get(&key) {
            return Err(errors::held_by_us(path, *seconds, *thread));
        }
        if tree.find_file(path).is_err() {
            let created = tree.create(path, now);
            created.map_err(|errno| errors::from_errno(errors::OPEN_LOCK, path, errno))?;
        }
        tree.locks
            .insert(key.clone(), (now, crate::sys::thread_number()));
        Ok(Box::new(MemLock {
            shared: Arc::clone(&self.shared),
            key,
        }))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.shared.with(errors::FREE_SPACE, path, |tree| {
            tree.find(path).map(|_| FREE_SPACE)
        })
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        normal(path)
    }
}

struct MemLock {
    shared: Arc<Shared>,
    key: PathBuf,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.shared.tree.lock().locks.remove(&self.key);
    }
}

struct MemDirectory {
    shared: Arc<Shared>,
    /// Stays in the tree when no name leads to it any more.
    id: DirId,
    path: PathBuf,
}

impl Directory for MemDirectory {
    fn sync(&self) -> Result<()> {
        self.shared.observe(|| FsOp::SyncDir {
            path: self.path.clone(),
        });
        self.shared.with(errors::SYNC_DIR, &self.path, |tree| {
            tree.dir_mut(self.id)?.sync();
            Ok(())
        })
    }
}

struct MemSequential {
    file: FileRef,
    offset: u64,
}

impl SequentialFile for MemSequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.file.lock().pieces.read_at(self.offset, buf);
        self.offset += n as u64;
        Ok(n)
    }
}

struct MemRandom {
    file: FileRef,
    size: u64,
    path: PathBuf,
}

impl RandomAccessFile for MemRandom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // The list of appends is taken out, so that readers of one file copy at the same time.
        let pieces = self.file.lock().pieces.clone();
        Ok(pieces.read_at(offset, buf))
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct MemWritable {
    shared: Arc<Shared>,
    /// `None` once closed.
    file: Option<FileRef>,
    path: PathBuf,
    len: u64,
    poison: Poison,
}

impl MemWritable {
    fn open_file(&mut self, context: &str) -> Result<FileRef> {
        self.poison.check()?;
        let result = match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => Err(errors::from_errno(context, &self.path, libc::EBADF)),
        };
        self.poison.keep(result)
    }
}

impl WritableFile for MemWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let file = self.open_file(errors::APPEND)?;
        let op = || FsOp::Append {
            path: self.path.clone(),
            len: data.len(),
        };
        let now = self.shared.observe(op);
        let tree = self.shared.tree.lock();
        let mut content = file.lock();
        content.append(data);
        content.modified = now;
        drop((content, tree));
        self.len += data.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let file = self.open_file(errors::SYNC)?;
        self.shared.observe(|| FsOp::Sync {
            path: self.path.clone(),
        });
        let tree = self.shared.tree.lock();
        file.lock().sync();
        drop(tree);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.open_file(&format!(
            "While sync_file_range offset {offset} bytes {len}"
        ))
        .map(drop)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let file = self.open_file(&errors::truncate_context(len))?;
        let now = self.shared.observe(|| FsOp::Truncate {
            path: self.path.clone(),
            len,
        });
        let tree = self.shared.tree.lock();
        let mut content = file.lock();
        content.truncate(len);
        content.modified = now;
        drop((content, tree));
        self.len = len;
        Ok(())
    }

    fn write_over(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let file = self.open_file(errors::APPEND)?;
        let now = self.shared.observe(|| FsOp::Append {
            path: self.path.clone(),
            len: data.len(),
        });
        let tree = self.shared.tree.lock();
        let mut content = file.lock();
        // A crash may take what comes after, too, which no device does: who writes over what is needed is found out.
        let end = offset + data.len() as u64;
        let mut rest = vec![0; content.pieces.len().saturating_sub(end) as usize];
        content.pieces.read_at(end, &mut rest);
        content.truncate(offset);
        content.append(data);
        content.append(&rest);
        content.modified = now;
        drop((content, tree));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.file = None;
        self.poison.check()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
