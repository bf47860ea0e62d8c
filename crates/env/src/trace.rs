//! A file system that writes down what is done to another, for golden tests of the order of calls.
//!
//! One line per change, in the order in which the calls returned:
//!
//! ```text
//! mkdir .                          create 000004.log
//! append 000004.log 130            sync 000004.log
//! rename 000005.dbtmp CURRENT      link 000007.sst backup/000007.sst
//! delete 000004.log                syncdir .
//! rmdir backup                     lock LOCK
//! reopen 000004.log                truncate 000004.log 70
//! ```
//!
//! Paths are told from the root given at construction, which is `.` itself; its parent is `..`, and
//! of a path outside both only the last component is told. A call that failed has ` failed` after it.
//! Closing, hints and reads change nothing that a crash could show; [`TraceFs::with_reads`] tells reads at
//! offsets and hints, too: `open`, `read 000007.sst 4096`, `readahead`, `writeback`, `preallocate`.

use crate::device::{BlockDevice, DeviceAccess};
use crate::traits::{
    Access, Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow, RandomAccessFile,
    SequentialFile, WritableFile,
};
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Above all callers' ranks; nothing is called under it.
const RANK: u8 = 95;

struct Shared {
    inner: Arc<dyn FileSystem>,
    root: PathBuf,
    lines: Mutex<Vec<String>>,
    /// Reads and hints are told, too.
    tells_reads: bool,
}

/// Writes down every change. `clone` is another handle to the same trace.
#[derive(Clone)]
pub struct TraceFs {
    shared: Arc<Shared>,
}

impl TraceFs {
    /// Traces `inner`; names are told from `root`.
    pub fn new(inner: Arc<dyn FileSystem>, root: &Path) -> Self {
        Self::of(inner, root, false)
    }

    /// As [`Self::new`], with reads at offsets and hints.
    pub fn with_reads(inner: Arc<dyn FileSystem>, root: &Path) -> Self {
        Self::of(inner, root, true)
    }

    fn of(inner: Arc<dyn FileSystem>, root: &Path, tells_reads: bool) -> Self {
        let root = inner.absolute(root);
        Self {
            shared: Arc::new(Shared {
                inner,
                root,
                lines: Mutex::new(RANK, Vec::new()),
                tells_reads,
            }),
        }
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.shared.lines.lock().clone()
    }

    /// The lines so far, which are forgotten.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.lines.lock())
    }

    /// The lines so far as one text, which are forgotten. Appends are told without their sizes and
    /// once per run of appends to one file, so that the text changes only with the order of calls.
    pub fn take_order(&self) -> String {
        let mut text = String::new();
        let mut last = String::new();
        for line in self.take() {
            let line = match line
                .strip_prefix("append ")
                .and_then(|rest| rest.rsplit_once(' '))
            {
                Some((name, size)) if size != "failed" => format!("append {name}"),
                _ => line,
            };
            if line != last || !line.starts_with("append ") {
                text.push_str(&line);
                text.push('\n');
            }
            last = line;
        }
        text
    }
}

impl Shared {
    fn name(&self, path: &Path) -> String {
        let path = self.inner.absolute(path);
        if path == self.root {
            return ".".into();
        }
        if let Ok(inside) = path.strip_prefix(&self.root) {
            return inside.to_string_lossy().into_owned();
        }
        if self.root.parent() == Some(&path) {
            return "..".into();
        }
        path.file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned()
    }

    /// Writes a line about a read or a hint, if these are told.
    fn tell_read(&self, line: impl FnOnce() -> String) {
        if self.tells_reads {
            let line = line();
            self.lines.lock().push(line);
        }
    }

    /// The file with its reads told, if they are.
    fn random(
        self: &Arc<Self>,
        file: Arc<dyn RandomAccessFile>,
        path: &Path,
    ) -> Arc<dyn RandomAccessFile> {
        if !self.tells_reads {
            return file;
        }
        let name = self.name(path);
        self.tell_read(|| format!("open {name}"));
        let shared = Arc::clone(self);
        Arc::new(TraceRandom { shared, file, name })
    }

    /// Writes a line about a call that has returned and passes its result on.
    fn tell<T>(&self, result: Result<T>, line: impl FnOnce() -> String) -> Result<T> {
        let mut line = line();
        if result.is_err() {
            line.push_str(" failed");
        }
        self.lines.lock().push(line);
        result
    }
}

impl FileSystem for TraceFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.shared.inner.open_sequential(path)
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.shared.inner.open_random(path)?;
        Ok(self.shared.random(file, path))
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.shared.inner.open_random_how(path, how)?;
        Ok(self.shared.random(file, path))
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.create_how(path, activity, OpenHow::default())
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let name = self.shared.name(path);
        let file = self.shared.inner.reopen(path, activity);
        let file = self.shared.tell(file, || format!("reopen {name}"))?;
        Ok(Box::new(TraceWritable {
            shared: Arc::clone(&self.shared),
            file,
            name,
        }))
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let name = self.shared.name(path);
        let file = self.shared.inner.overwrite(path, activity);
        let file = self.shared.tell(file, || format!("overwrite {name}"))?;
        Ok(Box::new(TraceWritable {
            shared: Arc::clone(&self.shared),
            file,
            name,
        }))
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        let name = self.shared.name(path);
        let file = self.shared.inner.create_how(path, activity, how);
        let file = self.shared.tell(file, || format!("create {name}"))?;
        Ok(Box::new(TraceWritable {
            shared: Arc::clone(&self.shared),
            file,
            name,
        }))
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        self.shared.inner.open_device(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let s = &self.shared;
        s.tell(s.inner.rename(from, to), || {
            format!("rename {} {}", s.name(from), s.name(to))
        })
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let s = &self.shared;
        s.tell(s.inner.delete(path), || format!("delete {}", s.name(path)))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let s = &self.shared;
        s.tell(s.inner.link(from, to), || {
            format!("link {} {}", s.name(from), s.name(to))
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.shared.inner.link_count(path)
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        let s = &self.shared;
        if matches!(s.inner.entry(path), Ok(Some(EntryKind::Dir))) {
            return s.inner.create_dir_if_missing(path);
        }
        s.tell(s.inner.create_dir_if_missing(path), || {
            format!("mkdir {}", s.name(path))
        })
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        let s = &self.shared;
        s.tell(s.inner.delete_dir(path), || {
            format!("rmdir {}", s.name(path))
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.shared.inner.list(dir)
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        self.shared.inner.entry(path)
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.shared.inner.size(path)
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        self.shared.inner.modified(path)
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(TraceDirectory {
            shared: Arc::clone(&self.shared),
            inner: self.shared.inner.open_dir(dir)?,
            name: self.shared.name(dir),
        }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let s = &self.shared;
        s.tell(s.inner.lock(path), || format!("lock {}", s.name(path)))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        self.shared.inner.free_space(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.shared.inner.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.shared.inner.absolute(path)
    }
}

struct TraceDirectory {
    shared: Arc<Shared>,
    inner: Arc<dyn Directory>,
    name: String,
}

impl Directory for TraceDirectory {
    fn sync(&self) -> Result<()> {
        self.shared
            .tell(self.inner.sync(), || format!("syncdir {}", self.name))
    }
}

struct TraceRandom {
    shared: Arc<Shared>,
    file: Arc<dyn RandomAccessFile>,
    name: String,
}

impl RandomAccessFile for TraceRandom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.shared
            .tell_read(|| format!("read {} {}", self.name, buf.len()));
        self.file.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn advise(&self, access: Access) {
        self.file.advise(access);
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        self.shared
            .tell_read(|| format!("readahead {} {len}", self.name));
        self.file.read_ahead(offset, len);
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

struct TraceWritable {
    shared: Arc<Shared>,
    file: Box<dyn WritableFile>,
    name: String,
}

impl WritableFile for TraceWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let result = self.file.append(data);
        self.shared
            .tell(result, || format!("append {} {}", self.name, data.len()))
    }

    fn sync(&mut self) -> Result<()> {
        let result = self.file.sync();
        self.shared.tell(result, || format!("sync {}", self.name))
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn expect_sync(&mut self) {
        self.file.expect_sync();
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.shared
            .tell_read(|| format!("writeback {} {len}", self.name));
        self.file.write_back(offset, len)
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.shared
            .tell_read(|| format!("writeback {} {len} strictly", self.name));
        self.file.write_back_strictly(offset, len)
    }

    fn write_over(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let result = self.file.write_over(offset, data);
        self.shared.tell(result, || {
            format!("write over {} {offset} {}", self.name, data.len())
        })
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let result = self.file.truncate(len);
        self.shared
            .tell(result, || format!("truncate {} {len}", self.name))
    }

    fn preallocate(&mut self, len: u64) {
        self.shared
            .tell_read(|| format!("preallocate {} {len}", self.name));
        self.file.preallocate(len);
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests;
