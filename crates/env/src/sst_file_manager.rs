//! How much space table files take together, and how fast they are deleted: RocksDB's SST file manager,
//! shared by the databases of a process.
//!
//! Databases tell which files come and go; the manager adds up sizes and compares them with a limit.
//! With a rate, a file to be deleted is renamed to `NAME.trash` and waits; ticks delete as many bytes as
//! the rate allows, a large file in chunks from its end. If the trash grows beyond its share of all, files
//! are deleted at once.
//!
//! Trash left by a crash is found by [`SstFileManager::adopt_trash`], at open.
//!
//! Threads: any; no file is touched under the lock. [`SstFileManager::tick`] is called by one thread at
//! a time, as [`SstFileManager::start`] sees to.

use crate::process::{PerProcess, Process};
use crate::traits::{Clock, Env, Executor, FileSystem, IoActivity};
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result, SubCode};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Above the engine's locks, below those of file systems.
const RANK: u8 = 92;
/// Ending of a file that waits to be deleted.
pub const TRASH_SUFFIX: &str = ".trash";
/// Time between ticks.
const TICK: Duration = Duration::from_millis(100);

/// Describes what the manager does; all of it can be changed later.
#[derive(Clone, Copy, Debug)]
pub struct SstFileManagerOptions {
    /// Bytes deleted per second; 0 deletes at once.
    pub delete_bytes_per_second: u64,
    /// Trash as a share of all tracked bytes beyond which files are deleted at once.
    pub max_trash_ratio: f64,
    /// Largest part of a file deleted in one step, in bytes; 0 deletes whole files.
    pub delete_chunk_bytes: u64,
    /// Bytes all files may take together; 0 means no limit.
    pub max_space_bytes: u64,
    /// Bytes that must stay free on the disk when a compaction begins.
    pub compaction_buffer_bytes: u64,
}

impl Default for SstFileManagerOptions {
    fn default() -> Self {
        Self {
            delete_bytes_per_second: 0,
            max_trash_ratio: 0.25,
            delete_chunk_bytes: 64 << 20,
            max_space_bytes: 0,
            compaction_buffer_bytes: 0,
        }
    }
}

struct Trash {
    path: PathBuf,
    bytes: u64,
}

struct State {
    options: SstFileManagerOptions,
    files: HashMap<PathBuf, u64>,
    total_bytes: u64,
    /// Bytes that running compactions may write.
    reserved_bytes: u64,
    trash: VecDeque<Trash>,
    trash_bytes: u64,
    /// Bytes that may be deleted now; negative after a large file.
    allowance: i128,
    last_tick_nanos: u64,
}

/// How ticks were started, for children of the process that did.
struct Started {
    process: Process,
    manager: Weak<SstFileManager>,
    executor: Arc<dyn Executor>,
}

/// Adds up sizes of table files and deletes them at a rate.
pub struct SstFileManager {
    started: OnceLock<Started>,
    /// Timers of children of the process that started the first one.
    in_child: PerProcess<Box<dyn Send + Sync>>,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl std::fmt::Debug for SstFileManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstFileManager")
            .field("total_bytes", &self.total_bytes())
            .finish_non_exhaustive()
    }
}

impl SstFileManager {
    /// A manager of no files.
    pub fn new(env: &Env, options: SstFileManagerOptions) -> Arc<Self> {
        Arc::new(Self {
            started: OnceLock::new(),
            in_child: PerProcess::new(),
            fs: Arc::clone(&env.fs),
            clock: Arc::clone(&env.clock),
            state: Mutex::new(
                RANK,
                State {
                    options,
                    files: HashMap::new(),
                    total_bytes: 0,
                    reserved_bytes: 0,
                    trash: VecDeque::new(),
                    trash_bytes: 0,
                    allowance: 0,
                    last_tick_nanos: env.clock.monotonic_nanos(),
                },
            ),
        })
    }

    /// Starts a thread that deletes trash until the returned guard is dropped. A child made by `fork` starts its own when
    /// it has trash.
    #[must_use]
    pub fn start(self: &Arc<Self>, env: &Env) -> Box<dyn Send + Sync> {
        // Started twice, it is the first that children repeat.
        let _ = self.started.set(Started {
            process: Process::current(),
            manager: Arc::downgrade(self),
            executor: Arc::clone(&env.executor),
        });
        let manager = Arc::clone(self);
        env.executor.periodic(
            "sst-file-manager",
            TICK,
            Box::new(move || {
                manager.tick();
                true
            }),
        )
    }

    /// The options in force.
    pub fn options(&self) -> SstFileManagerOptions {
        self.state.lock().options
    }

    /// Changes options.
    pub fn change(&self, change: impl FnOnce(&mut SstFileManagerOptions)) {
        change(&mut self.state.lock().options);
    }

    /// A file came, or has another size now. Fails if it is beyond the limit; it is counted all the same.
    ///
    /// # Errors
    /// `Io` with subcode `SpaceLimit`, in RocksDB's words.
    pub fn add(&self, path: &Path, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        let before = state.files.insert(path.to_path_buf(), bytes).unwrap_or(0);
        state.total_bytes = state.total_bytes.saturating_sub(before) + bytes;
        drop(state);
        self.check_space()
    }

    /// Fails if the limit is reached.
    ///
    /// # Errors
    /// `Io` with subcode `SpaceLimit`, in RocksDB's words.
    pub fn check_space(&self) -> Result<()> {
        if self.is_space_limit_reached() {
            let e = Error::io("Max allowed space was reached");
            return Err(e.with_subcode(SubCode::SpaceLimit));
        }
        Ok(())
    }

    /// A file is gone.
    pub fn forget(&self, path: &Path) {
        let mut state = self.state.lock();
        let bytes = state.files.remove(path).unwrap_or(0);
        state.total_bytes -= bytes;
    }

    /// A file has another name.
    pub fn rename(&self, from: &Path, to: &Path) {
        let mut state = self.state.lock();
        if let Some(bytes) = state.files.remove(from) {
            let replaced = state.files.insert(to.to_path_buf(), bytes).unwrap_or(0);
            state.total_bytes -= replaced;
        }
    }

    /// Bytes of all tracked files.
    pub fn total_bytes(&self) -> u64 {
        self.state.lock().total_bytes
    }

    /// Bytes that wait to be deleted.
    pub fn trash_bytes(&self) -> u64 {
        self.state.lock().trash_bytes
    }

    /// Returns whether all files take as much as they may.
    pub fn is_space_limit_reached(&self) -> bool {
        let state = self.state.lock();
        let limit = state.options.max_space_bytes;
        limit > 0 && state.total_bytes >= limit
    }

    /// As [`Self::is_space_limit_reached`], with what running compactions may write.
    pub fn is_space_limit_reached_with_compactions(&self) -> bool {
        let state = self.state.lock();
        let limit = state.options.max_space_bytes;
        limit > 0 && state.total_bytes.saturating_add(state.reserved_bytes) >= limit
    }

    /// Sets room aside for a compaction that reads `input_bytes` and writes below `dir`; false if there
    /// is not enough, within the limit or on the disk.
    pub fn reserve_for_compaction(&self, input_bytes: u64, dir: &Path) -> bool {
        // Not knowing is no reason to stop compactions.
        let free = self.fs.free_space(dir).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        let options = state.options;
        let reserved = state.reserved_bytes.saturating_add(input_bytes);
        let is_within = options.max_space_bytes == 0
            || state
                .total_bytes
                .saturating_add(reserved)
                .saturating_add(options.compaction_buffer_bytes)
                <= options.max_space_bytes;
        let has_room = reserved.saturating_add(options.compaction_buffer_bytes) <= free;
        if is_within && has_room {
            state.reserved_bytes = reserved;
        }
        is_within && has_room
    }

    /// A compaction that had room set aside has ended.
    pub fn release_compaction(&self, input_bytes: u64) {
        let mut state = self.state.lock();
        state.reserved_bytes = state.reserved_bytes.saturating_sub(input_bytes);
    }

    /// Deletes a file: at once without a rate or with too much trash, else by and by.
    ///
    /// # Errors
    /// What deleting or renaming fails with; the file is there then.
    pub fn delete(&self, path: &Path) -> Result<()> {
        let (bytes, is_slow) = {
            let state = self.state.lock();
            let bytes = state.files.get(path).copied();
            let o = &state.options;
            // Trash is counted in the total no more, so both together are all there is.
            let all = state.total_bytes.saturating_add(state.trash_bytes) as f64;
            let is_slow = o.delete_bytes_per_second > 0
                && state.trash_bytes as f64 <= all * o.max_trash_ratio;
            (bytes, is_slow)
        };
        if !is_slow {
            self.fs.delete(path)?;
            self.forget(path);
            return Ok(());
        }
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => self.fs.size(path)?,
        };
        let mut name = path.as_os_str().to_owned();
        name.push(TRASH_SUFFIX);
        let trash = PathBuf::from(name);
        self.fs.rename(path, &trash)?;
        self.forget(path);
        self.queue(trash, bytes);
        Ok(())
    }

    /// Has somebody delete the trash in a child of the process that started the manager's thread.
    fn start_in_child(&self) {
        let Some(started) = self.started.get().filter(|s| !s.process.is_current()) else {
            return;
        };
        self.in_child.get_or_init(|| {
            let manager = started.manager.clone();
            let tick = move || manager.upgrade().inspect(|m| m.tick()).is_some();
            started
                .executor
                .periodic("sst-file-manager", TICK, Box::new(tick))
        });
    }

    fn queue(&self, path: PathBuf, bytes: u64) {
        self.start_in_child();
        let mut state = self.state.lock();
        if state.trash.is_empty() {
            // Time that was not needed while there was no trash is not owed now.
            state.last_tick_nanos = self.clock.monotonic_nanos();
            state.allowance = state.allowance.min(0);
        }
        state.trash_bytes += bytes;
        state.trash.push_back(Trash { path, bytes });
    }

    /// Queues the trash that an earlier process left in `dir`. What is queued already, of a database that this
    /// process had open, counts once.
    ///
    /// # Errors
    /// What listing the directory fails with.
    pub fn adopt_trash(&self, dir: &Path) -> Result<()> {
        let names = self.fs.list(dir)?;
        let known: HashSet<PathBuf> = {
            let state = self.state.lock();
            state.trash.iter().map(|t| t.path.clone()).collect()
        };
        for name in names {
            let path = dir.join(&name);
            if name.ends_with(TRASH_SUFFIX) && !known.contains(&path) {
                let bytes = self.fs.size(&path).unwrap_or(0);
                self.queue(path, bytes);
            }
        }
        Ok(())
    }

    /// Deletes what the time since the last tick allows; everything if there is no rate any more.
    pub fn tick(&self) {
        let now = self.clock.monotonic_nanos();
        let mut state = self.state.lock();
        let elapsed = now.saturating_sub(state.last_tick_nanos);
        state.last_tick_nanos = now;
        let rate = state.options.delete_bytes_per_second;
        if rate == 0 {
            state.allowance = i128::MAX / 2;
        } else {
            let more = i128::from(rate) * i128::from(elapsed) / 1_000_000_000;
            state.allowance = (state.allowance.min(i128::from(rate)) + more).min(i128::from(rate));
        }
        while state.allowance > 0 {
            let Some(mut trash) = state.trash.pop_front() else {
                return;
            };
            let chunk = state.options.delete_chunk_bytes;
            let is_whole = chunk == 0 || trash.bytes <= chunk;
            let bytes = if is_whole { trash.bytes } else { chunk };
            state.allowance -= i128::from(bytes);
            state.trash_bytes = state.trash_bytes.saturating_sub(bytes);
            drop(state);
            let left = trash.bytes - bytes;
            let is_cut = !is_whole && self.cut(&trash.path, left).is_ok();
            if !is_cut {
                // A file that cannot be deleted now is trash of the next open.
                let _ = self.fs.delete(&trash.path);
            }
            state = self.state.lock();
            if is_cut {
                trash.bytes = left;
                state.trash.push_front(trash);
            } else {
                state.trash_bytes = state.trash_bytes.saturating_sub(left);
            }
        }
    }

    /// Cuts trash that has no other name: a checkpoint may have linked the file.
    fn cut(&self, path: &Path, bytes: u64) -> Result<()> {
        if self.fs.link_count(path)? != 1 {
            return Err(Error::not_supported("cutting a file with several names"));
        }
        let mut file = self.fs.reopen(path, IoActivity::Other)?;
        file.truncate(bytes)?;
        file.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;
    use crate::mem::MemFs;

    const MB: u64 = 1_000_000;

    fn rig(options: SstFileManagerOptions) -> (MemFs, Arc<VirtualClock>, Arc<SstFileManager>) {
        let fs = MemFs::new();
        let (env, _, clock) = Env::test(Arc::new(fs.clone()), 1);
        (fs, clock, SstFileManager::new(&env, options))
    }

    fn put(fs: &MemFs, manager: &SstFileManager, name: &str, bytes: u64) -> PathBuf {
        let path = Path::new("/db").join(name);
        fs.write_file(&path, &vec![0; bytes as usize]).unwrap();
        manager.add(&path, bytes).unwrap();
        path
    }

    #[test]
    fn sizes_add_up_and_the_limit_is_told_in_rocksdbs_words() {
        let (fs, _, m) = rig(SstFileManagerOptions::default());
        let a = put(&fs, &m, "1.sst", 100);
        let b = put(&fs, &m, "2.sst", 50);
        m.add(&b, 70).unwrap();
        assert_eq!(m.total_bytes(), 170);
        m.rename(&b, Path::new("/db/3.sst"));
        m.delete(&a).unwrap();
        assert_eq!((m.total_bytes(), m.trash_bytes()), (70, 0));
        assert_eq!(fs.list(Path::new("/db")).unwrap(), ["2.sst"]);
        m.change(|o| o.max_space_bytes = 100);
        assert!(m.reserve_for_compaction(30, Path::new("/db")));
        assert!(!m.is_space_limit_reached() && m.is_space_limit_reached_with_compactions());
        assert!(!m.reserve_for_compaction(1, Path::new("/db")));
        m.release_compaction(30);
        assert!(m.reserve_for_compaction(1, Path::new("/db")));
        m.change(|o| o.compaction_buffer_bytes = u64::MAX);
        assert!(!m.reserve_for_compaction(1, Path::new("/db")));
        assert_eq!(
            m.add(&a, 30).unwrap_err().to_string(),
            "IO error: Space limit reached: Max allowed space was reached"
        );
        m.forget(&a);
        m.check_space().unwrap();
    }

    #[test]
    fn trash_goes_at_the_rate_and_large_files_in_chunks() {
        let (fs, clock, m) = rig(SstFileManagerOptions {
            delete_bytes_per_second: MB,
            max_trash_ratio: 1.0,
            delete_chunk_bytes: MB / 4,
            ..SstFileManagerOptions::default()
        });
        for name in ["1.sst", "2.sst"] {
            let path = put(&fs, &m, name, MB);
            m.delete(&path).unwrap();
        }
        assert_eq!((m.total_bytes(), m.trash_bytes()), (0, 2 * MB));
        assert_eq!(
            fs.list(Path::new("/db")).unwrap(),
            ["1.sst.trash", "2.sst.trash"]
        );
        m.tick();
        assert_eq!(m.trash_bytes(), 2 * MB);
        let mut ticks = 0;
        while m.trash_bytes() > 0 {
            clock.advance(TICK);
            let before = m.trash_bytes();
            m.tick();
            assert!(before - m.trash_bytes() <= MB / 4);
            ticks += 1;
        }
        assert!((16..=21).contains(&ticks), "{ticks}");
        assert!(fs.list(Path::new("/db")).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_somebody_linked_is_not_cut() {
        let (fs, clock, m) = rig(SstFileManagerOptions {
            delete_bytes_per_second: MB,
            max_trash_ratio: 1.0,
            delete_chunk_bytes: 10,
            ..SstFileManagerOptions::default()
        });
        let path = put(&fs, &m, "1.sst", 1000);
        fs.link(&path, Path::new("/db/checkpoint")).unwrap();
        m.delete(&path).unwrap();
        clock.advance(TICK);
        m.tick();
        assert_eq!(m.trash_bytes(), 0);
        assert_eq!(fs.list(Path::new("/db")).unwrap(), ["checkpoint"]);
        assert_eq!(fs.size(Path::new("/db/checkpoint")).unwrap(), 1000);
    }

    #[test]
    fn too_much_trash_is_deleted_at_once_and_left_trash_is_adopted() {
        let (fs, clock, m) = rig(SstFileManagerOptions {
            delete_bytes_per_second: 1,
            ..SstFileManagerOptions::default()
        });
        let files: Vec<_> = (0..4)
            .map(|n| put(&fs, &m, &format!("{n}.sst"), 100))
            .collect();
        for file in &files {
            m.delete(file).unwrap();
        }
        // After the second there are 200 bytes of trash among 400.
        assert_eq!(m.trash_bytes(), 200);
        let (env, _, _) = Env::test(Arc::new(fs.clone()), 1);
        let next = SstFileManager::new(&env, SstFileManagerOptions::default());
        for _ in 0..2 {
            next.adopt_trash(Path::new("/db")).unwrap();
            assert_eq!(next.trash_bytes(), 200);
        }
        next.tick();
        assert_eq!(next.trash_bytes(), 0);
        assert!(fs.list(Path::new("/db")).unwrap().is_empty());
        // Files that somebody else deleted do no harm.
        for left in [100, 0] {
            clock.advance(Duration::from_secs(1000));
            m.tick();
            assert_eq!(m.trash_bytes(), left);
        }
    }
}
