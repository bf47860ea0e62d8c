//! A file system that fails when told to, over any other.
//!
//! A plan is a list of [`FaultRule`]s. Each counts the calls it matches from the moment it is added and
//! takes effect at its n-th, once, some times, or until it is removed. A budget of bytes makes a full
//! disk. What is returned reads exactly as if the operating system had failed: same words, subcode and
//! error number; and a file that is being written keeps its first failure (E2).
//!
//! Threads: any. A rule's predicate is called under the plan's lock and must not use the file system.

use crate::device::{BlockDevice, DeviceAccess};
use crate::errors::{self, Poison};
use crate::traits::{
    Access, Directory, EntryKind, FileLock, FileSystem, IoActivity, OpenHow, RandomAccessFile,
    SequentialFile, WritableFile,
};
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod device;

/// Above all callers' ranks; nothing is called under it but predicates.
const RANK: u8 = 95;

/// Describes what a call does; rules match one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum OpClass {
    Append,
    Sync,
    Close,
    /// Creating a file, or opening one to append.
    Create,
    Truncate,
    Rename,
    Delete,
    Link,
    /// Creating and deleting directories.
    Dir,
    OpenDir,
    SyncDir,
    Lock,
    Open,
    Read,
    List,
    /// Asking for kind, size and time.
    Stat,
    /// Opening a device.
    DeviceOpen,
    DeviceRead,
    DeviceWrite,
    DeviceFlush,
}

/// Describes what happens instead of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// The call fails with `errno`; an append, or a write to a device, has written the first `keep` bytes by then.
    Fail {
        /// Error number.
        errno: i32,
        /// Bytes of an append or a device's write that arrive nevertheless.
        keep: usize,
    },
    /// The call reports success and does nothing: a lying disk, or a bug planted to see whether a test
    /// finds it. Calls that return something are made as usual.
    Skip,
    /// A read returns its bytes with bit `bit` (modulo their number) flipped; the file is unharmed.
    FlipBit {
        /// Which bit, counted from the first byte's lowest.
        bit: u64,
    },
}

type Predicate = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// When a call fails, and how.
#[derive(Clone)]
pub struct FaultRule {
    class: OpClass,
    effect: Effect,
    /// First matching call that is hit, from 1.
    nth: u64,
    /// Matching calls that are hit from there on.
    times: u64,
    /// Calls on other paths do not match.
    when: Option<Predicate>,
}

impl FaultRule {
    /// The `nth` call of `class` (from 1) fails once with `errno`.
    pub fn fail(class: OpClass, nth: u64, errno: i32) -> Self {
        Self::with_effect(class, nth, Effect::Fail { errno, keep: 0 })
    }

    /// The `nth` call of `class` (from 1) has `effect`, once.
    pub fn with_effect(class: OpClass, nth: u64, effect: Effect) -> Self {
        Self {
            class,
            effect,
            nth: nth.max(1),
            times: 1,
            when: None,
        }
    }

    /// From the n-th call on, all calls are hit.
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// From the n-th call on, `times` calls are hit.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// An append that fails has written its first `keep` bytes.
    #[must_use]
    pub fn short(mut self, keep: usize) -> Self {
        if let Effect::Fail { keep: old, .. } = &mut self.effect {
            *old = keep;
        }
        self
    }

    /// Only calls on paths that `when` accepts match. Of two paths the first counts (rename: source).
    #[must_use]
    pub fn when(mut self, when: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    /// Only calls on paths whose last component contains `part` match.
    #[must_use]
    pub fn named(self, part: &str) -> Self {
        let part = part.to_string();
        self.when(move |path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().contains(&part))
        })
    }
}

/// Names a rule of a [`FaultFs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

struct Active {
    rule: FaultRule,
    matched: u64,
    fired: u64,
}

#[derive(Default)]
struct Plan {
    rules: BTreeMap<RuleId, Active>,
    next_rule: u64,
    calls: BTreeMap<OpClass, u64>,
    fired: u64,
    /// Bytes that may still be appended; `None` means any number.
    budget: Option<u64>,
    free_space: BTreeMap<PathBuf, u64>,
    appended: u64,
}

struct Shared {
    inner: Arc<dyn FileSystem>,
    plan: Mutex<Plan>,
}

/// A file system that fails when told to. `clone` is another handle to the same plan.
#[derive(Clone)]
pub struct FaultFs {
    shared: Arc<Shared>,
}

impl FaultFs {
    /// `inner`, with an empty plan.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        let plan = Mutex::new(RANK, Plan::default());
        Self {
            shared: Arc::new(Shared { inner, plan }),
        }
    }

    /// Adds a rule; it counts calls from now on. Where several hit one call, the oldest decides.
    pub fn add(&self, rule: FaultRule) -> RuleId {
        let mut plan = self.shared.plan.lock();
        let id = RuleId(plan.next_rule);
        plan.next_rule += 1;
        plan.rules.insert(
            id,
            Active {
                rule,
                matched: 0,
                fired: 0,
            },
        );
        id
    }

    /// Removes a rule.
    pub fn remove(&self, id: RuleId) {
        self.shared.plan.lock().rules.remove(&id);
    }

    /// Removes all rules and the budget: the cause has ended. Counters stay.
    pub fn clear(&self) {
        let mut plan = self.shared.plan.lock();
        plan.rules.clear();
        plan.budget = None;
    }

    /// Allows `bytes` more to be appended, to all files together; then the disk is full. `None` lifts
    /// the limit.
    pub fn set_budget(&self, bytes: Option<u64>) {
        self.shared.plan.lock().budget = bytes;
    }

    /// Sets what the free space of a directory is said to be, for as long as there is no budget; nothing is
    /// limited by it.
    pub fn set_free_space(&self, dir: &Path, bytes: u64) {
        let mut plan = self.shared.plan.lock();
        plan.free_space.insert(dir.to_path_buf(), bytes);
    }

    /// Calls of a class so far, failed ones included.
    pub fn calls(&self, class: OpClass) -> u64 {
        self.shared
            .plan
            .lock()
            .calls
            .get(&class)
            .copied()
            .unwrap_or(0)
    }

    /// How often a rule took effect; 0 for one that was removed.
    pub fn fired(&self, id: RuleId) -> u64 {
        self.shared
            .plan
            .lock()
            .rules
            .get(&id)
            .map_or(0, |active| active.fired)
    }

    /// How often any rule or the budget took effect.
    pub fn fired_total(&self) -> u64 {
        self.shared.plan.lock().fired
    }

    fn writable(&self, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(FaultWritable {
            shared: Arc::clone(&self.shared),
            len: file.len(),
            file,
            poison: Poison::default(),
        })
    }

    /// Bytes appended so far, those of failed appends included.
    pub fn appended(&self) -> u64 {
        self.shared.plan.lock().appended
    }
}

impl Shared {
    /// Counts a call and tells what happens to it.
    fn decide(&self, class: OpClass, path: &Path) -> Option<Effect> {
        let mut plan = self.plan.lock();
        *plan.calls.entry(class).or_default() += 1;
        let mut effect = None;
        for active in plan.rules.values_mut() {
            let rule = &active.rule;
            if rule.class != class || rule.when.as_ref().is_some_and(|when| !when(path)) {
                continue;
            }
            active.matched += 1;
            let hit = active.matched >= rule.nth && active.matched - rule.nth < rule.times;
            if hit && effect.is_none() {
                active.fired += 1;
                effect = Some(rule.effect);
            }
        }
        if effect.is_some() {
            plan.fired += 1;
        }
        effect
    }

    /// Makes `call` unless a rule says otherwise; `skipped` is what a skipped call returns.
    fn call<T>(
        &self,
        class: OpClass,
        (context, path): (&str, &Path),
        skipped: impl FnOnce() -> Option<T>,
        call: impl FnOnce(&dyn FileSystem) -> Result<T>,
    ) -> Result<T> {
        match self.decide(class, path) {
            Some(Effect::Fail { errno, .. }) => Err(errors::from_errno(context, path, errno)),
            Some(Effect::Skip) => match skipped() {
                Some(value) => Ok(value),
                None => call(&*self.inner),
            },
            Some(Effect::FlipBit { .. }) | None => call(&*self.inner),
        }
    }

    /// As [`Self::call`] for a call that returns nothing.
    fn act(
        &self,
        class: OpClass,
        context: &str,
        path: &Path,
        call: impl FnOnce(&dyn FileSystem) -> Result<()>,
    ) -> Result<()> {
        self.call(class, (context, path), || Some(()), call)
    }

    /// As [`Self::call`] for a call that cannot be skipped.
    fn ask<T>(
        &self,
        class: OpClass,
        context: &str,
        path: &Path,
        call: impl FnOnce(&dyn FileSystem) -> Result<T>,
    ) -> Result<T> {
        self.call(class, (context, path), || None, call)
    }

    /// How many of `len` bytes fit into the budget; they are taken from it.
    fn spend(&self, len: usize) -> usize {
        let mut plan = self.plan.lock();
        let fits = match plan.budget {
            None => len,
            Some(left) => len.min(usize::try_from(left).unwrap_or(usize::MAX)),
        };
        if let Some(left) = &mut plan.budget {
            *left -= fits as u64;
        }
        if fits < len {
            plan.fired += 1;
        }
        plan.appended += fits as u64;
        fits
    }

    /// Reads through `read`, failing or flipping by plan.
    fn read(
        &self,
        context: impl FnOnce() -> String,
        path: &Path,
        buf: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        match self.decide(OpClass::Read, path) {
            Some(Effect::Fail { errno, .. }) => Err(errors::from_errno(&context(), path, errno)),
            Some(Effect::FlipBit { bit }) => {
                let n = read(buf)?;
                if n > 0 {
                    let bit = bit % (n as u64 * 8);
                    buf[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                Ok(n)
            }
            Some(Effect::Skip) | None => read(buf),
        }
    }
}

impl FileSystem for FaultFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self
            .shared
            .ask(OpClass::Open, errors::OPEN_SEQUENTIAL, path, |fs| {
                fs.open_sequential(path)
            })?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(FaultSequential {
            shared,
            file,
            path: path.to_path_buf(),
        }))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open_random_how(path, OpenHow::default())
    }

    fn open_random_how(&self, path: &Path, how: OpenHow) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self
            .shared
            .ask(OpClass::Open, errors::OPEN_RANDOM, path, |fs| {
                fs.open_random_how(path, how)
            })?;
        Ok(Arc::new(FaultRandom {
            shared: Arc::clone(&self.shared),
            file,
        }))
    }

    fn create(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        self.create_how(path, activity, OpenHow::default())
    }

    fn create_how(
        &self,
        path: &Path,
        activity: IoActivity,
        how: OpenHow,
    ) -> Result<Box<dyn WritableFile>> {
        let file = self
            .shared
            .ask(OpClass::Create, errors::OPEN_WRITE, path, |fs| {
                fs.create_how(path, activity, how)
            })?;
        Ok(self.writable(file))
    }

    fn reopen(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = self
            .shared
            .ask(OpClass::Create, errors::OPEN_WRITE, path, |fs| {
                fs.reopen(path, activity)
            })?;
        Ok(self.writable(file))
    }

    fn overwrite(&self, path: &Path, activity: IoActivity) -> Result<Box<dyn WritableFile>> {
        let file = self
            .shared
            .ask(OpClass::Create, errors::OPEN_WRITE, path, |fs| {
                fs.overwrite(path, activity)
            })?;
        Ok(self.writable(file))
    }

    fn open_device(&self, path: &Path, access: DeviceAccess) -> Result<Arc<dyn BlockDevice>> {
        const OPEN: &str = "While opening a speed disk";
        let inner = self.shared.ask(OpClass::DeviceOpen, OPEN, path, |fs| {
            fs.open_device(path, access)
        })?;
        let shared = Arc::clone(&self.shared);
        Ok(Arc::new(device::FaultDevice { shared, inner }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let context = errors::rename_context(to);
        self.shared
            .act(OpClass::Rename, &context, from, |fs| fs.rename(from, to))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.shared
            .act(OpClass::Delete, errors::UNLINK, path, |fs| fs.delete(path))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let context = errors::link_context(to);
        self.shared
            .act(OpClass::Link, &context, from, |fs| fs.link(from, to))
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.shared
            .ask(OpClass::Stat, errors::ENTRY, path, |fs| fs.link_count(path))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.shared.act(OpClass::Dir, errors::MKDIR, path, |fs| {
            fs.create_dir_if_missing(path)
        })
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.shared
            .act(OpClass::Dir, errors::RMDIR, path, |fs| fs.delete_dir(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.shared
            .ask(OpClass::List, errors::LIST, dir, |fs| fs.list(dir))
    }

    fn entry(&self, path: &Path) -> Result<Option<EntryKind>> {
        self.shared
            .ask(OpClass::Stat, errors::ENTRY, path, |fs| fs.entry(path))
    }

    fn size(&self, path: &Path) -> Result<u64> {
        self.shared
            .ask(OpClass::Stat, errors::SIZE, path, |fs| fs.size(path))
    }

    fn modified(&self, path: &Path) -> Result<u64> {
        self.shared
            .ask(OpClass::Stat, errors::MODIFIED, path, |fs| {
                fs.modified(path)
            })
    }

    fn open_dir(&self, dir: &Path) -> Result<Arc<dyn Directory>> {
        let inner = self
            .shared
            .ask(OpClass::OpenDir, errors::OPEN_DIR, dir, |fs| {
                fs.open_dir(dir)
            })?;
        Ok(Arc::new(FaultDirectory {
            shared: Arc::clone(&self.shared),
            inner,
            path: dir.to_path_buf(),
        }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.shared
            .ask(OpClass::Lock, errors::LOCK, path, |fs| fs.lock(path))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let free = self.shared.inner.free_space(path)?;
        let plan = self.shared.plan.lock();
        let said = plan.budget.or(plan.free_space.get(path).copied());
        Ok(said.map_or(free, |said| said.min(free)))
    }

    fn open_files_max(&self) -> Option<u64> {
        self.shared.inner.open_files_max()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.shared.inner.absolute(path)
    }
}

struct FaultDirectory {
    shared: Arc<Shared>,
    inner: Arc<dyn Directory>,
    path: PathBuf,
}

impl Directory for FaultDirectory {
    fn sync(&self) -> Result<()> {
        self.shared
            .act(OpClass::SyncDir, errors::SYNC_DIR, &self.path, |_| {
                self.inner.sync()
            })
    }
}

struct FaultSequential {
    shared: Arc<Shared>,
    file: Box<dyn SequentialFile>,
    path: PathBuf,
}

impl SequentialFile for FaultSequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let context = || errors::READ_SEQUENTIAL.to_string();
        self.shared
            .read(context, &self.path, buf, |buf| self.file.read(buf))
    }
}

struct FaultRandom {
    shared: Arc<Shared>,
    file: Arc<dyn RandomAccessFile>,
}

impl RandomAccessFile for FaultRandom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let len = buf.len();
        let context = || errors::read_context(offset, len);
        self.shared.read(context, self.file.path(), buf, |buf| {
            self.file.read_at(offset, buf)
        })
    }

    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_ahead(&self, offset: u64, len: usize) {
        self.file.read_ahead(offset, len);
    }

    fn advise(&self, access: Access) {
        self.file.advise(access);
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

struct FaultWritable {
    shared: Arc<Shared>,
    file: Box<dyn WritableFile>,
    /// Bytes appended by the caller's lights; a skipped append counts.
    len: u64,
    poison: Poison,
}

impl FaultWritable {
    fn errno(&self, context: &str, errno: i32) -> Error {
        errors::from_errno(context, self.file.path(), errno)
    }

    fn append_by_plan(&mut self, data: &[u8]) -> Result<()> {
        let (keep, errno) = match self.shared.decide(OpClass::Append, self.file.path()) {
            Some(Effect::Skip) => return Ok(()),
            Some(Effect::Fail { errno, keep }) => (keep.min(data.len()), Some(errno)),
            Some(Effect::FlipBit { .. }) | None => (data.len(), None),
        };
        let fits = self.shared.spend(keep);
        if fits > 0 {
            self.file.append(&data[..fits])?;
        }
        let full = if fits < keep {
            Some(libc::ENOSPC)
        } else {
            None
        };
        match full.or(errno) {
            Some(errno) => Err(self.errno(errors::APPEND, errno)),
            None => Ok(()),
        }
    }

    fn by_plan(
        &mut self,
        class: OpClass,
        context: &str,
        call: impl FnOnce(&mut dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        match self.shared.decide(class, self.file.path()) {
            Some(Effect::Skip) => Ok(()),
            Some(Effect::Fail { errno, .. }) => Err(self.errno(context, errno)),
            Some(Effect::FlipBit { .. }) | None => call(&mut *self.file),
        }
    }
}

impl WritableFile for FaultWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.poison.check()?;
        let result = self.append_by_plan(data);
        self.poison.keep(result)?;
        self.len += data.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.poison.check()?;
        let result = self.by_plan(OpClass::Sync, errors::SYNC, |file| file.sync());
        self.poison.keep(result)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn expect_sync(&mut self) {
        self.file.expect_sync();
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.poison.check()?;
        let result = self.file.write_back(offset, len);
        self.poison.keep(result)
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.poison.check()?;
        let result = self.file.write_back_strictly(offset, len);
        self.poison.keep(result)
    }

    fn write_over(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.poison.check()?;
        let over = |file: &mut dyn WritableFile| file.write_over(offset, data);
        let result = self.by_plan(OpClass::Append, errors::APPEND, over);
        self.poison.keep(result)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.poison.check()?;
        let context = errors::truncate_context(len);
        let result = self.by_plan(OpClass::Truncate, &context, |file| file.truncate(len));
        self.poison.keep(result)?;
        self.len = len;
        Ok(())
    }

    fn preallocate(&mut self, len: u64) {
        self.file.preallocate(len);
    }

    fn close(&mut self) -> Result<()> {
        let result = match self.poison.check() {
            Ok(()) => self.by_plan(OpClass::Close, errors::CLOSE, |file| file.close()),
            Err(e) => Err(e),
        };
        if result.is_err() {
            // The descriptor goes whatever happens; the first failure is the answer.
            let _ = self.file.close();
        }
        self.poison.keep(result)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests;
