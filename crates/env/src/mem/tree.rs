//! Directories and which of their changes would survive a power loss.
//!
//! A directory has the names a caller sees, the names on the disk, and the ordered changes between
//! them. One change may touch two names (a rename within the directory) and persists as a whole. A
//! rename across directories is a change in each, and each waits for the sync of its own directory.
//!
//! Files are counted pointers, so that a file lives as long as a name or an open handle, and two names
//! of one file are one pointer. Directories are numbers into the tree.

use super::content::{Content, Pieces};
use spanlith_base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Above the tree's own lock, under which files are locked one at a time.
const FILE_RANK: u8 = 97;

/// A file that names and handles share.
pub(super) type FileRef = Arc<Mutex<Content>>;

pub(super) fn new_file(content: Content) -> FileRef {
    Arc::new(Mutex::new(FILE_RANK, content))
}

/// Number of a directory in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirId(u64);

impl DirId {
    pub(super) const ROOT: Self = Self(0);
}

/// Describes what a name stands for.
#[derive(Clone)]
pub(super) enum Node {
    File(FileRef),
    Dir(DirId),
}

pub(super) type Names = BTreeMap<String, Node>;

/// Names set or removed together.
#[derive(Clone)]
pub(super) struct Change(pub(super) Vec<(String, Option<Node>)>);

impl Change {
    pub(super) fn apply(&self, names: &mut Names) {
        for (name, node) in &self.0 {
            match node {
                Some(node) => names.insert(name.clone(), node.clone()),
                None => names.remove(name),
            };
        }
    }
}

/// A directory.
#[derive(Clone, Default)]
pub(super) struct Dir {
    /// Says what a caller sees.
    pub(super) names: Names,
    /// Says what is on the disk.
    pub(super) durable: Names,
    /// Leads from `durable` to `names`. Oldest first.
    pub(super) pending: Vec<Change>,
}

impl Dir {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }
}

/// All directories, and the locks held.
pub(super) struct Tree {
    pub(super) dirs: BTreeMap<DirId, Dir>,
    next_dir: u64,
    /// Paths of held LOCK files, with the call number of their taking and the taker's thread.
    pub(super) locks: BTreeMap<PathBuf, (u64, u64)>,
}

/// Error number of the system call that would have failed.
pub(super) type Errno = i32;

/// Path from the root without `.` and `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

impl Tree {
    /// A tree with an empty root.
    pub(super) fn new() -> Self {
        let mut dirs = BTreeMap::new();
        dirs.insert(DirId::ROOT, Dir::default());
        Self {
            dirs,
            next_dir: 1,
            locks: BTreeMap::new(),
        }
    }

    /// A directory that no name leads to yet.
    pub(super) fn new_dir(&mut self) -> DirId {
        let id = DirId(self.next_dir);
        self.next_dir += 1;
        self.dirs.insert(id, Dir::default());
        id
    }

    pub(super) fn dir(&self, id: DirId) -> Result<&Dir, Errno> {
        self.dirs.get(&id).ok_or(libc::ENOENT)
    }

    pub(super) fn dir_mut(&mut self, id: DirId) -> Result<&mut Dir, Errno> {
        self.dirs.get_mut(&id).ok_or(libc::ENOENT)
    }

    /// The node at `path`.
    pub(super) fn find(&self, path: &Path) -> Result<Node, Errno> {
        let mut node = Node::Dir(DirId::ROOT);
        for name in normal(path).components().skip(1) {
            let Node::Dir(id) = node else {
                return Err(libc::ENOTDIR);
            };
            let name = name.as_os_str().to_string_lossy();
            node = self
                .dir(id)?
                .names
                .get(&*name)
                .cloned()
                .ok_or(libc::ENOENT)?;
        }
        Ok(node)
    }

    pub(super) fn find_file(&self, path: &Path) -> Result<FileRef, Errno> {
        match self.find(path)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(libc::EISDIR),
        }
    }

    pub(super) fn find_dir(&self, path: &Path) -> Result<DirId, Errno> {
        match self.find(path)? {
            Node::Dir(id) => Ok(id),
            Node::File(_) => Err(libc::ENOTDIR),
        }
    }

    /// The directory `path` is in and its name there; the root is in none.
    pub(super) fn place(&self, path: &Path) -> Result<(DirId, String), Errno> {
        let path = normal(path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(libc::EISDIR);
        };
        Ok((self.find_dir(parent)?, name.to_string_lossy().into_owned()))
    }

    fn named(&self, dir: DirId, name: &str) -> Result<Option<Node>, Errno> {
        Ok(self.dir(dir)?.names.get(name).cloned())
    }

    fn set(&mut self, dir: DirId, name: String, node: Option<Node>) -> Result<(), Errno> {
        self.dir_mut(dir)?.change(Change(vec![(name, node)]));
        Ok(())
    }

    /// The file at `path`, created or cut to nothing.
    pub(super) fn create(&mut self, path: &Path, now: u64) -> Result<FileRef, Errno> {
        let (dir, name) = self.place(path)?;
        match self.named(dir, &name)? {
            Some(Node::Dir(_)) => Err(libc::EISDIR),
            Some(Node::File(file)) => {
                let mut content = file.lock();
                content.cut_to_nothing();
                content.modified = now;
                drop(content);
                Ok(file)
            }
            None => {
                let file = new_file(Content::durable(Pieces::default(), now));
                self.set(dir, name, Some(Node::File(Arc::clone(&file))))?;
                Ok(file)
            }
        }
    }

    /// The file at `path`, created if it is missing.
    pub(super) fn reopen(&mut self, path: &Path, now: u64) -> Result<FileRef, Errno> {
        match self.find(path) {
            Ok(Node::File(file)) => Ok(file),
            Ok(Node::Dir(_)) => Err(libc::EISDIR),
            Err(_) => self.create(path, now),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (from_dir, from_name) = self.place(from)?;
        let node = self.named(from_dir, &from_name)?.ok_or(libc::ENOENT)?;
        let (to_dir, to_name) = self.place(to)?;
        if (from_dir, &from_name) == (to_dir, &to_name) {
            return Ok(());
        }
        match (&node, self.named(to_dir, &to_name)?) {
            (Node::File(_), Some(Node::Dir(_))) => return Err(libc::EISDIR),
            (Node::Dir(_), Some(Node::File(_))) => return Err(libc::ENOTDIR),
            (Node::Dir(_), Some(Node::Dir(id))) if !self.dir(id)?.names.is_empty() => {
                return Err(libc::ENOTEMPTY);
            }
            // Two names of one file: nothing happens, as POSIX has it.
            (Node::File(a), Some(Node::File(b))) if Arc::ptr_eq(a, &b) => return Ok(()),
            _ => {}
        }
        if matches!(node, Node::Dir(_)) && normal(to).starts_with(normal(from)) {
            return Err(libc::EINVAL);
        }
        if from_dir == to_dir {
            let change = Change(vec![(from_name, None), (to_name, Some(node))]);
            self.dir_mut(from_dir)?.change(change);
        } else {
            self.set(to_dir, to_name, Some(node))?;
            self.set(from_dir, from_name, None)?;
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, path: &Path) -> Result<(), Errno> {
        let (dir, name) = self.place(path)?;
        match self.named(dir, &name)? {
            None => Err(libc::ENOENT),
            Some(Node::Dir(_)) => Err(libc::EISDIR),
            Some(Node::File(_)) => self.set(dir, name, None),
        }
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let file = match self.find(from)? {
            Node::File(file) => file,
            Node::Dir(_) => return Err(libc::EPERM),
        };
        let (dir, name) = self.place(to)?;
        if self.named(dir, &name)?.is_some() {
            return Err(libc::EEXIST);
        }
        self.set(dir, name, Some(Node::File(file)))
    }

    /// Number of names of the file at `path`.
    pub(super) fn link_count(&self, path: &Path) -> Result<u64, Errno> {
        let file = self.find_file(path)?;
        let is_it = |node: &&Node| matches!(node, Node::File(other) if Arc::ptr_eq(other, &file));
        let names = self.dirs.values().flat_map(|dir| dir.names.values());
        Ok(names.filter(is_it).count() as u64)
    }

    /// Creates one level; `EEXIST` if anything is there.
    pub(super) fn create_dir(&mut self, path: &Path) -> Result<(), Errno> {
        if normal(path).parent().is_none() {
            return Err(libc::EEXIST);
        }
        let (dir, name) = self.place(path)?;
        if self.named(dir, &name)?.is_some() {
            return Err(libc::EEXIST);
        }
        let id = self.new_dir();
        self.set(dir, name, Some(Node::Dir(id)))
    }

    pub(super) fn delete_dir(&mut self, path: &Path) -> Result<(), Errno> {
        let (dir, name) = self.place(path)?;
        match self.named(dir, &name)? {
            None => Err(libc::ENOENT),
            Some(Node::File(_)) => Err(libc::ENOTDIR),
            Some(Node::Dir(id)) if !self.dir(id)?.names.is_empty() => Err(libc::ENOTEMPTY),
            Some(Node::Dir(_)) => self.set(dir, name, None),
        }
    }

    /// Puts a durable file with durable parents at `path`, creating what is missing.
    pub(super) fn put_durable(&mut self, path: &Path, content: Content) -> Result<(), Errno> {
        let path = normal(path);
        let mut at = PathBuf::from("/");
        let mut dir = DirId::ROOT;
        for part in path.parent().ok_or(libc::EISDIR)?.components().skip(1) {
            at.push(part);
            match self.create_dir(&at) {
                Ok(()) | Err(libc::EEXIST) => {}
                Err(e) => return Err(e),
            }
            self.make_durable(dir, &part.as_os_str().to_string_lossy())?;
            dir = self.find_dir(&at)?;
        }
        let (dir, name) = self.place(&path)?;
        match self.named(dir, &name)? {
            Some(Node::Dir(_)) => return Err(libc::EISDIR),
            Some(Node::File(file)) => *file.lock() = content,
            None => self.set(dir, name.clone(), Some(Node::File(new_file(content))))?,
        }
        self.make_durable(dir, &name)
    }

    /// Makes one name durable ahead of the changes before it, without touching them.
    fn make_durable(&mut self, dir: DirId, name: &str) -> Result<(), Errno> {
        let dir = self.dir_mut(dir)?;
        if let Some(node) = dir.names.get(name).cloned() {
            dir.durable.insert(name.to_string(), node);
        }
        for change in &mut dir.pending {
            change.0.retain(|(changed, _)| changed != name);
        }
        dir.pending.retain(|change| !change.0.is_empty());
        Ok(())
    }

    /// Directories that some name still leads to, durable or not. Others are forgotten.
    pub(super) fn reachable(&self) -> BTreeSet<DirId> {
        let mut seen = BTreeSet::new();
        let mut todo = vec![DirId::ROOT];
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Some(dir) = self.dirs.get(&id) else {
                continue;
            };
            let changed = dir
                .pending
                .iter()
                .flat_map(|c| &c.0)
                .filter_map(|(_, n)| n.as_ref());
            for node in dir
                .names
                .values()
                .chain(dir.durable.values())
                .chain(changed)
            {
                if let Node::Dir(id) = node {
                    todo.push(*id);
                }
            }
        }
        seen
    }
}
