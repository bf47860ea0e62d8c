//! Backups: copies of databases in a directory of their own, which share the tables that they have in common, in
//! RocksDB's form, so that either engine restores what the other saved.
//!
//! ```text
//! DIR/meta/ID                    which files, with checksums; a backup is there once this has its name
//! DIR/private/ID/                CURRENT, MANIFEST, OPTIONS, logs
//! DIR/shared_checksum/...        tables and blob files
//! ```
//!
//! A backup is one moment of the database ([`crate::Db::storage_files`]). A list is written after everything it names, and
//! goes before what it names: a crash leaves files that nobody needs, which [`BackupEngine::collect_garbage`] deletes,
//! and never a list of files that are not there. Lists that cannot be read keep all files that they might name.

mod create;
mod files;
mod meta;
mod restore;

use super::dirs::{delete_dir_of_files, delete_if_there, make_durable_dir};
use meta::{BYTES_MAX, META_DIR, Meta, PRIVATE_DIR, SHARED_CHECKSUM_DIR, SHARED_DIR, backup_id};
use spanlith_base::{Error, Result};
use spanlith_env::{Env, FileSystem, RateLimiter, RateLimiterOptions};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By what backups know the tables that they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupNames {
    /// By number, CRC32C and size: each table is read once more before it is known whether it is there.
    ChecksumAndSize,
    /// By number and the session that wrote it.
    Session,
    /// By number, session and size.
    #[default]
    SessionAndSize,
}

/// How backups are made and restored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupOptions {
    /// The directory of the backups.
    pub dir: PathBuf,
    /// The world that the directory is in; `None` is that of the databases.
    pub env: Option<Env>,
    /// Backups share tables and blob files. Default true; otherwise each backup is a full copy.
    pub share_table_files: bool,
    /// Shared files have names that tell different files apart. Default true; otherwise they are known by number only,
    /// which is right for the backups of one database only.
    pub share_files_with_checksum: bool,
    /// Says what those names are.
    pub names: BackupNames,
    /// Everything is durable before a backup counts. Default true.
    pub sync: bool,
    /// Backups that are there are deleted when the directory is opened. Default false.
    pub destroy_old_data: bool,
    /// Logs are copied, too. Default true; otherwise what no table holds is not in the backup, unless it is flushed.
    pub backup_log_files: bool,
    /// Bytes of one read; 0 leaves it to the engine.
    pub io_buffer_size: u64,
    /// Slows backups down.
    pub backup_limiter: Option<Arc<RateLimiter>>,
    /// Slows restoring down.
    pub restore_limiter: Option<Arc<RateLimiter>>,
    /// Bytes between calls of [`CreateBackupOptions::progress`]. Default 4 MiB.
    pub progress_interval: u64,
    /// The form of lists: 1, or 2, which lists that leave files out need.
    pub schema_version: u32,
}

impl BackupOptions {
    /// The defaults, for a directory.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        Self {
            dir: dir.as_ref().to_path_buf(),
            env: None,
            share_table_files: true,
            share_files_with_checksum: true,
            names: BackupNames::default(),
            sync: true,
            destroy_old_data: false,
            backup_log_files: true,
            io_buffer_size: 0,
            backup_limiter: None,
            restore_limiter: None,
            progress_interval: 4 << 20,
            schema_version: 1,
        }
    }

    /// Backups write at most so many bytes per second.
    #[must_use]
    pub fn backup_rate_limit(mut self, bytes_per_second: u64, env: &Env) -> Self {
        self.backup_limiter = limiter(bytes_per_second, env);
        self
    }

    /// Restoring writes at most so many bytes per second.
    #[must_use]
    pub fn restore_rate_limit(mut self, bytes_per_second: u64, env: &Env) -> Self {
        self.restore_limiter = limiter(bytes_per_second, env);
        self
    }
}

fn limiter(bytes_per_second: u64, env: &Env) -> Option<Arc<RateLimiter>> {
    (bytes_per_second > 0).then(|| {
        let options = RateLimiterOptions::new(bytes_per_second);
        Arc::new(RateLimiter::new(&options, env.clock.clone()))
    })
}

/// Says of a shared file, by its path below the backup directory, whether it is left out.
pub type ExcludeFile = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// How one backup is made.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CreateBackupOptions {
    /// Memtables are flushed first: needed for what was written without a log, and without `backup_log_files`.
    pub flush_before_backup: bool,
    /// All families are flushed at one moment.
    pub atomic_flush: bool,
    /// Kept with the backup for the program.
    pub app_metadata: Vec<u8>,
    /// Called as the backup goes on, by the thread that makes it.
    pub progress: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Which shared files are left out, because the program keeps them elsewhere. Asked of those only that the
    /// directory does not have. A backup with such files cannot be restored from this directory alone.
    pub exclude: Option<ExcludeFile>,
}

impl std::fmt::Debug for CreateBackupOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateBackupOptions")
            .field("flush_before_backup", &self.flush_before_backup)
            .field("atomic_flush", &self.atomic_flush)
            .finish_non_exhaustive()
    }
}

/// The files of an existing database that a restore leaves alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreMode {
    /// Tables and blob files that the backup has, too, by size and checksum of all bytes, stay and are not copied.
    KeepSame,
    /// Nothing.
    #[default]
    PurgeAll,
}

/// How a backup is restored.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// Logs that are there stay, those of the archive come back: to restore a backup made without logs, and go on
    /// from it with the logs that were kept.
    pub keep_log_files: bool,
    /// Says what else stays.
    pub mode: RestoreMode,
}

/// Describes what there is to know of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number, from 1 on.
    pub id: u32,
    /// Unix seconds.
    pub timestamp: i64,
    /// Sequence number of the database when it was begun.
    pub sequence: u64,
    /// Bytes of its files, shared ones among them.
    pub size: u64,
    /// Number of its files; without those left out.
    pub files: u32,
    /// Files that were left out, by their path below the directory.
    pub excluded: Vec<String>,
    /// Says what the program gave.
    pub app_metadata: Vec<u8>,
}

/// A backup that can be restored, as far as its list and the sizes of its files tell.
#[derive(Clone, Debug)]
struct Backup {
    meta: Meta,
    size: u64,
}

/// A file that backups have.
#[derive(Clone, Debug)]
struct Known {
    size: u64,
    crc: Option<u32>,
    /// Backups that have it.
    users: u32,
}

/// Describes what the directory holds.
#[derive(Default)]
struct State {
    backups: BTreeMap<u32, Backup>,
    /// Lists that cannot be read, or name files that are not there.
    damaged: BTreeMap<u32, Error>,
    known: HashMap<String, Known>,
}

/// A directory of backups. Its methods may be called by any thread, and wait for each other; that no other process,
/// and no other engine, writes there is the program's duty.
///
/// ```no_run
/// use spanlith::{BackupEngine, BackupOptions, CreateBackupOptions, Db, Env, RestoreOptions};
/// # fn main() -> spanlith::Result<()> {
/// let db = Db::open("data")?;
/// let backups = BackupEngine::open(BackupOptions::new("backups"), &Env::system())?;
/// let id = backups.create(&db, &CreateBackupOptions::default())?;
/// backups.purge(7)?;
/// db.close()?;
/// backups.restore(Some(id), "data", "data", &RestoreOptions::default())?;
/// # Ok(())
/// # }
/// ```
pub struct BackupEngine {
    /// The world of the backups.
    env: Env,
    /// The world that databases are restored to.
    db_env: Env,
    options: BackupOptions,
    state: Mutex<State>,
    stop: AtomicBool,
}

impl std::fmt::Debug for BackupEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupEngine")
            .field("dir", &self.options.dir)
            .finish_non_exhaustive()
    }
}

impl BackupEngine {
    /// Opens a directory of backups, and makes it if it is missing; `env` is the databases' world. Reads all lists, and asks for the size of each
    /// file that they name.
    ///
    /// # Errors
    /// `Io`. A backup that is damaged is no error: [`Self::damaged`].
    pub fn open(options: BackupOptions, env: &Env) -> Result<Self> {
        let engine = Self {
            env: options.env.as_ref().unwrap_or(env).clone(),
            db_env: env.clone(),
            options,
            state: Mutex::default(),
            stop: AtomicBool::new(false),
        };
        let fs = engine.fs();
        make_durable_dir(fs, &engine.options.dir)?;
        let o = &engine.options;
        let shared = match o.share_files_with_checksum {
            true => SHARED_CHECKSUM_DIR,
            false => SHARED_DIR,
        };
        let dirs = [PRIVATE_DIR, META_DIR, shared];
        for dir in &dirs[..2 + usize::from(o.share_table_files)] {
            make_durable_dir(fs, &o.dir.join(dir))?;
        }
        let mut state = engine.lock();
        engine.load(&mut state)?;
        if engine.options.destroy_old_data {
            engine.delete_all(&mut state)?;
        }
        drop(state);
        Ok(engine)
    }

    fn fs(&self) -> &dyn FileSystem {
        &*self.env.fs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves no more than an error does.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.options.dir.join(below)
    }

    fn meta_path(&self, id: u32) -> PathBuf {
        self.options.dir.join(META_DIR).join(id.to_string())
    }

    fn private_dir(&self, id: u32) -> PathBuf {
        self.options.dir.join(PRIVATE_DIR).join(id.to_string())
    }

    fn load(&self, state: &mut State) -> Result<()> {
        for name in self.fs().list(&self.path(META_DIR))? {
            let Some(id) = backup_id(&name) else {
                continue;
            };
            match self.load_one(state, id) {
                Ok((backup, sizes)) => add(state, id, backup, &sizes),
                Err(e) => {
                    state.damaged.insert(id, e.with_path(&self.meta_path(id)));
                }
            }
        }
        Ok(())
    }

    /// Reads a list, and the sizes of the files it names.
    fn load_one(&self, state: &State, id: u32) -> Result<(Backup, Vec<u64>)> {
        let bytes = self.fs().read_all(&self.meta_path(id), BYTES_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| Error::corruption("not UTF-8 text"))?;
        let meta = Meta::parse(&text)?;
        let (mut size, mut sizes) = (0u64, Vec::with_capacity(meta.files.len()));
        // Files that only another backup has are deleted with it.
        let own = format!("{PRIVATE_DIR}/{id}/");
        for file in meta.files.iter().filter(|f| !f.is_excluded) {
            if file.path.starts_with(PRIVATE_DIR) && !file.path.starts_with(&own) {
                let text = format!("a file of another backup: {}", file.path);
                return Err(Error::corruption(text));
            }
            let is = self.fs().size(&self.path(&file.path)).map_err(|e| {
                Error::corruption(format!(
                    "Pathname in meta file not found on disk: {}: {e}",
                    file.path
                ))
            })?;
            if let Some(expected) = file.size.or_else(|| meta::size_in_name(&file.path))
                && expected != is
            {
                return Err(size_error(&file.path, expected, is));
            }
            // Another backup's list may say otherwise of the same file; then one of them is wrong.
            let other = state.known.get(&file.path).and_then(|k| k.crc);
            if let (Some(crc), Some(other)) = (file.crc, other)
                && crc != other
            {
                return Err(Error::corruption(format!(
                    "backups have different checksums of {}",
                    file.path
                )));
            }
            size = size.saturating_add(is);
            sizes.push(is);
        }
        Ok((Backup { meta, size }, sizes))
    }

    /// The backups that can be restored, the oldest first.
    pub fn backups(&self) -> Vec<BackupInfo> {
        let state = self.lock();
        let info = |(&id, b): (&u32, &Backup)| {
            let excluded = b.meta.files.iter().filter(|f| f.is_excluded);
            let excluded: Vec<String> = excluded.map(|f| f.path.clone()).collect();
            let files = b.meta.files.len() - excluded.len();
            BackupInfo {
                id,
                timestamp: b.meta.timestamp,
                sequence: b.meta.sequence,
                size: b.size,
                files: u32::try_from(files).unwrap_or(u32::MAX),
                excluded,
                app_metadata: b.meta.app_metadata.clone(),
            }
        };
        state.backups.iter().map(info).collect()
    }

    /// Backups that cannot be restored, and why. They stay until they are deleted by their number.
    pub fn damaged(&self) -> Vec<(u32, Error)> {
        let state = self.lock();
        state
            .damaged
            .iter()
            .map(|(id, e)| (*id, e.clone()))
            .collect()
    }

    /// Ends what goes on, and refuses every further backup, with `Incomplete`.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Deletes the oldest backups until `keep` are left, and garbage. Damaged ones do not count and stay.
    ///
    /// # Errors
    /// `Io`; the rest is deleted all the same.
    pub fn purge(&self, keep: u32) -> Result<()> {
        let mut state = self.lock();
        let many = state.backups.len().saturating_sub(keep as usize);
        let ids: Vec<u32> = state.backups.keys().copied().take(many).collect();
        let deleted = ids.into_iter().map(|id| self.delete_one(&mut state, id));
        deleted.fold(Ok(()), Result::and)?;
        self.delete_garbage(&state)
    }

    /// Deletes a backup, damaged or not, the files that only it has, and garbage.
    ///
    /// # Errors
    /// `NotFound`; `Io`.
    pub fn delete(&self, id: u32) -> Result<()> {
        let mut state = self.lock();
        self.delete_one(&mut state, id)?;
        self.delete_garbage(&state)
    }

    fn delete_all(&self, state: &mut State) -> Result<()> {
        let ids: Vec<u32> = state
            .backups
            .keys()
            .chain(state.damaged.keys())
            .copied()
            .collect();
        for id in ids {
            self.delete_one(state, id)?;
        }
        self.delete_garbage(state)
    }

    fn delete_one(&self, state: &mut State, id: u32) -> Result<()> {
        let fs = self.fs();
        if !state.backups.contains_key(&id) && !state.damaged.contains_key(&id) {
            return Err(Error::not_found("Backup not found"));
        }
        // The list first: without it the files are nobody's.
        delete_if_there(fs, &self.meta_path(id))?;
        fs.sync_dir(&self.path(META_DIR))?;
        state.damaged.remove(&id);
        let backup = state.backups.remove(&id);
        let mut first = Ok(());
        let files = backup.iter().flat_map(|b| &b.meta.files);
        for file in files.filter(|f| !f.is_excluded) {
            let Some(known) = state.known.get_mut(&file.path) else {
                continue;
            };
            known.users = known.users.saturating_sub(1);
            if known.users == 0 {
                state.known.remove(&file.path);
                // A list that cannot be read may name it, too.
                let is_private = file.path.starts_with(PRIVATE_DIR);
                if is_private || state.damaged.is_empty() {
                    first = first.and(delete_if_there(fs, &self.path(&file.path)));
                }
            }
        }
        first.and(delete_dir_of_files(fs, &self.private_dir(id)))
    }

    /// Deletes what no backup has: leftovers of backups that were not finished. As long as there are damaged backups,
    /// shared files stay, which may be theirs; and everything stays if another engine has made a backup meanwhile.
    ///
    /// # Errors
    /// `Io`.
    pub fn collect_garbage(&self) -> Result<()> {
        self.delete_garbage(&self.lock())
    }

    fn delete_garbage(&self, state: &State) -> Result<()> {
        let fs = self.fs();
        let has = |id| state.backups.contains_key(&id) || state.damaged.contains_key(&id);
        let lists = fs.list(&self.path(META_DIR))?;
        if lists
            .iter()
            .filter_map(|name| backup_id(name))
            .any(|id| !has(id))
        {
            return Ok(());
        }
        for name in lists.iter().filter(|name| is_temporary(name)) {
            delete_if_there(fs, &self.path(META_DIR).join(name))?;
        }
        for name in fs.list(&self.path(PRIVATE_DIR))? {
            let id = backup_id(name.strip_suffix(".tmp").unwrap_or(&name));
            let is_left = id.is_some_and(|id| !has(id) || name.ends_with(".tmp"));
            if is_left {
                delete_dir_of_files(fs, &self.path(PRIVATE_DIR).join(name))?;
            }
        }
        for dir in [SHARED_DIR, SHARED_CHECKSUM_DIR] {
            if !state.damaged.is_empty() || fs.entry(&self.path(dir))?.is_none() {
                continue;
            }
            for name in fs.list(&self.path(dir))? {
                let path = format!("{dir}/{name}");
                let plain = path.strip_suffix(".tmp").unwrap_or(&path);
                if meta::database_name(plain).is_some() && !state.known.contains_key(&path) {
                    delete_if_there(fs, &self.path(&path))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a name is that of a list while it is written.
fn is_temporary(name: &str) -> bool {
    let id = name.strip_prefix('.').and_then(|n| n.strip_suffix(".tmp"));
    id.is_some_and(|id| backup_id(id).is_some())
}

/// Adds a backup whose files have these sizes, in their order.
fn add(state: &mut State, id: u32, backup: Backup, sizes: &[u64]) {
    let files = backup.meta.files.iter().filter(|f| !f.is_excluded);
    for (file, &size) in files.zip(sizes) {
        let known = state.known.entry(file.path.clone()).or_insert(Known {
            size,
            crc: file.crc,
            users: 0,
        });
        known.users += 1;
        known.crc = known.crc.or(file.crc);
    }
    state.backups.insert(id, backup);
}

fn size_error(path: &str, expected: u64, found: u64) -> Error {
    Error::corruption(format!("File corrupted: File size mismatch for {path}"))
        .with("expected", expected)
        .with("found", found)
}
