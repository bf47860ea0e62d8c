//! Opens a database: directory, lock, MANIFEST, logs, new MANIFEST, new log, cleaning up.
//!
//! Every step may be repeated after a crash at any point (O1), and what an open returned survives
//! every later crash (D8): recovered memtables become tables before it returns.

use super::create::{create_database, new_db_id, write_identity};
use super::current::{read_current, read_identity};
use super::manifest::{Expectation, Recovered, read_manifest};
use super::obsolete::{Explanation, remove_obsolete};
use super::replay::{Replay, flush_recovered};
use crate::core::{
    Components, DbState, DelayController, Engine, Family, LeaderState, ManifestState, PurgeQueue,
    SnapshotList, Throttle, level_options, table_options,
};
use crate::info_log::InfoLog;
use crate::merge::MergeOperator;
use crate::options::{BlockBasedTableOptions, CfOptions, DbOptions};
use crate::version::{FileKind, PurgeSink, TableCache, VersionEdit, filenames, parse_file_name};
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::{Env, IoActivity, JobClass};
use spanlith_memtable::MemTable;
use spanlith_table::BlockCache;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the caller wants to open, and how. Options are validated.
pub struct OpenRequest {
    /// Directory of the database.
    pub dir: PathBuf,
    /// The outside world.
    pub env: Env,
    /// Options of the database.
    pub options: DbOptions,
    /// Names of the families to open; contains `default`.
    pub families: Vec<String>,
    /// Options of the default family.
    pub cf_options: CfOptions,
    /// Its table options.
    pub table_options: BlockBasedTableOptions,
    /// Order of its user keys.
    pub comparator: Comparator,
    /// Its merge operator.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Its block cache.
    pub block_cache: Option<BlockCache>,
    /// Change nothing on disk.
    pub read_only: bool,
    /// Write no `LOG` file.
    pub no_info_log: bool,
}

/// 20 base-36 digits from two random words, as RocksDB forms session ids.
fn new_session_id(env: &Env) -> String {
    let (upper, lower) = (env.rng.next_u64() >> 2, env.rng.next_u64());
    let digits = |mut v: u64, n: usize| {
        let mut out = vec![b'0'; n];
        for d in out.iter_mut().rev() {
            *d = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(v % 36) as usize];
            v /= 36;
        }
        String::from_utf8(out).expect("ASCII digits")
    };
    let a = digits((upper << 2) | (lower >> 62), 8);
    let b = digits(lower & ((1 << 62) - 1), 12);
    a + &b
}

/// Opens what `request` describes.
///
/// # Errors
/// With RocksDB's status and text before the colon. The directory is as recoverable as before.
pub(crate) fn open(request: OpenRequest) -> Result<Arc<Engine>> {
    let OpenRequest {
        dir,
        env,
        options,
        read_only,
        ..
    } = &request;
    let mut lock = None;
    let mut log = InfoLog::none();
    if !read_only {
        let existed = env.fs.entry(dir)?.is_some();
        if options.create_if_missing || existed {
            env.fs.create_dir_if_missing(dir)?;
        }
        if !existed
            && options.create_if_missing
            && let Some(parent) = env.fs.absolute(dir).parent()
        {
            // A new directory is durable once its parent is.
            env.fs.sync_dir(parent)?;
        }
        let current = dir.join(filenames::CURRENT_FILE);
        let missing = || {
            Error::invalid_argument(format!(
                "{}: does not exist (create_if_missing is false)",
                current.display()
            ))
            .with_path(&current)
        };
        // Before the lock file is made: a refusal leaves nothing behind.
        let absent = env.fs.entry(dir)?.is_none() || env.fs.entry(&current)?.is_none();
        if absent && !options.create_if_missing {
            return Err(missing());
        }
        lock = Some(env.fs.lock(&dir.join(filenames::LOCK_FILE))?);
        match env.fs.entry(&current)? {
            None if !options.create_if_missing => return Err(missing()),
            None => {
                let logs = list_numbers(env, dir)?.1;
                if !logs.is_empty() {
                    return Err(Error::corruption(
                        "While creating a new Db, wal_dir contains existing log file",
                    )
                    .with_path(&dir.join(filenames::log_file_name(logs[0]))));
                }
                create_database(env, dir, request.comparator.name())?;
            }
            Some(_) if options.error_if_exists => {
                return Err(Error::invalid_argument(format!(
                    "{}: exists (error_if_exists is true)",
                    dir.display()
                ))
                .with_path(dir));
            }
            Some(_) => {}
        }
        if !request.no_info_log {
            log = InfoLog::open(env, dir, options).unwrap_or_else(|_| InfoLog::none());
        }
    }
    let manifest_number = read_current(env, dir)?;
    let purge = Arc::new(PurgeQueue::new(dir.clone(), env.fs.clone()));
    let sink: Arc<dyn PurgeSink> = purge.clone();
    let expect = Expectation {
        comparator: &request.comparator,
        num_levels: request.cf_options.num_levels.max(1) as usize,
        families: &request.families,
        read_only: *read_only,
        sink: Arc::downgrade(&sink),
    };
    let recovered = read_manifest(env, dir, manifest_number, &expect)?;
    check_files(&request, &recovered, manifest_number)?;
    let db_id = match (&recovered.db_id, read_identity(env, dir)?) {
        (Some(id), file) => {
            if !read_only && file.as_deref() != Some(id) && options.write_identity_file {
                write_identity(env, dir, id)?;
            }
            id.clone()
        }
        (None, Some(id)) => id,
        (None, None) => {
            let id = new_db_id(env);
            if !read_only {
                write_identity(env, dir, &id)?;
            }
            id
        }
    };
    let (highest, mut logs) = list_numbers(env, dir)?;
    let first_log = recovered.log_number.max(recovered.min_log_number);
    let next_file = recovered.next_file.max(recovered.log_number).max(highest) + 1;
    logs.retain(|&n| n >= first_log);
    let engine = assemble(
        &request,
        recovered_parts(&recovered, first_log),
        Parts {
            purge,
            log,
            lock,
            db_id,
            manifest_number,
            next_file,
            version: recovered.version,
        },
    );
    if !*read_only {
        engine.describe();
    }
    if let Some(offset) = recovered.torn_at {
        engine.c.log.warn(format_args!(
            "MANIFEST {manifest_number:06} dropped from offset {offset} on: a torn append"
        ));
    }
    // All tables are opened now, as RocksDB does: what this build cannot read is refused here, before
    // anything is changed, and not in the middle of a scan or a compaction.
    let tables = engine.state.lock().version.clone();
    for (_, file) in tables.file_iter() {
        engine.c.cache.reader(file)?;
    }
    drop(tables);
    let replay = Replay::new(&engine, recovered.last_sequence, !read_only);
    let replayed = replay.run(&logs)?;
    for (n, offset, why) in &replayed.dropped {
        engine.c.log.warn(format_args!(
            "log {n:06} dropped from offset {offset} on: {why}; recovery mode is kPointInTimeRecovery"
        ));
    }
    engine
        .visible
        .store(replayed.last_sequence, Ordering::Release);
    if *read_only {
        let mut state = engine.state.lock();
        for mem in replayed.mems {
            state.imm.push(crate::core::Immutable {
                mem,
                next_log: 0,
                last_sequence: replayed.last_sequence,
            });
        }
        engine.install_superversion(&mut state);
        drop(state);
        return Ok(engine);
    }
    let explanation = Explanation {
        deleted: recovered.deleted,
        manifest_sequence: recovered.last_sequence,
        replayed: replayed.first_sequence.map(|f| (f, replayed.last_sequence)),
    };
    finish(&engine, replayed, &logs)?;
    engine.write_options_file()?;
    remove_obsolete(&engine, &explanation)?;
    engine.start();
    Ok(engine)
}

struct Parts {
    purge: Arc<PurgeQueue>,
    log: Arc<InfoLog>,
    lock: Option<Box<dyn spanlith_env::FileLock>>,
    db_id: String,
    manifest_number: u64,
    next_file: u64,
    version: crate::version::Version,
}

/// Counters the state starts with.
struct Counters {
    log_number: u64,
    table_sequence: u64,
}

fn recovered_parts(r: &Recovered, first_log: u64) -> Counters {
    Counters {
        log_number: first_log,
        table_sequence: r.last_sequence,
    }
}

fn assemble(request: &OpenRequest, counters: Counters, parts: Parts) -> Arc<Engine> {
    let env = request.env.clone();
    let family = Family {
        id: 0,
        name: "default".to_string(),
        comparator: request.comparator.clone(),
        merge_operator: request.merge_operator.clone(),
        table: table_options(&request.table_options),
        levels: level_options(&request.cf_options),
        options: request.cf_options.clone(),
        table_options: request.table_options.clone(),
    };
    let cache = Arc::new(TableCache {
        fs: env.fs.clone(),
        dir: request.dir.clone(),
        comparator: request.comparator.clone(),
        block_cache: request.block_cache.clone(),
        cache_index_and_filter_blocks: request.table_options.cache_index_and_filter_blocks,
        verify_unique_id: request.options.verify_sst_unique_id_in_manifest,
    });
    let mem = Arc::new(MemTable::new(request.comparator.clone(), 64 << 10));
    let session_id = new_session_id(&env);
    let host_id = host_name(&env, &request.options.db_host_id);
    let components = Components {
        cache,
        purge: parts.purge,
        log: parts.log,
        snapshots: Arc::new(SnapshotList::default()),
        lock: parts.lock,
        db_id: parts.db_id,
        session_id,
        host_id,
        read_only: request.read_only,
        env,
        dir: request.dir.clone(),
        options: request.options.clone(),
        family,
    };
    let leader = LeaderState {
        log: None,
        older: Vec::new(),
        log_in_dir: false,
        mem,
        log_bytes: 0,
        sync_group: 1,
        sync_nanos: 0,
    };
    let state = DbState {
        imm: Vec::new(),
        version: Arc::new(parts.version),
        superversion_number: 0,
        log_number: counters.log_number,
        table_sequence: counters.table_sequence,
        logs: VecDeque::new(),
        flush_scheduled: false,
        flush_running: false,
        flush_requested: false,
        compactions_queued: 0,
        compactions_running: 0,
        running: Vec::new(),
        manual: 0,
        error: None,
        error_count: 0,
        started: false,
        closing: false,
        closed: false,
        next_job: 0,
        pending_compaction_bytes: 0,
        compaction_due: false,
    };
    let manifest = ManifestState {
        writer: None,
        number: parts.manifest_number,
    };
    let rate = request.options.delayed_write_rate;
    let throttle = Throttle::new(DelayController::new(rate));
    Engine::new(
        components,
        leader,
        manifest,
        state,
        0,
        parts.next_file,
        throttle,
    )
}

/// Name recorded in tables, as RocksDB's `__hostname__`.
fn host_name(env: &Env, option: &str) -> String {
    if option != "__hostname__" {
        return option.to_string();
    }
    // Not there in a test world: recorded as unknown.
    let name = env
        .fs
        .read_all(std::path::Path::new("/proc/sys/kernel/hostname"), 4096);
    let name = name.map(|n| String::from_utf8_lossy(&n).trim().to_string());
    name.unwrap_or_default()
}

/// Highest number of any file, and the numbers of all logs, ascending.
fn list_numbers(env: &Env, dir: &std::path::Path) -> Result<(u64, Vec<u64>)> {
    let mut highest = 0;
    let mut logs = Vec::new();
    for name in env.fs.list(dir)? {
        if let Some(kind) = parse_file_name(&name) {
            highest = highest.max(kind.number().unwrap_or(0));
            if let FileKind::Log(n) = kind {
                logs.push(n);
            }
        }
    }
    logs.sort_unstable();
    Ok((highest, logs))
}

/// Every table that the MANIFEST names is there and has its size.
fn check_files(request: &OpenRequest, r: &Recovered, manifest: u64) -> Result<()> {
    let path_of = |n| request.dir.join(filenames::table_file_name(n));
    let suffix = format!(
        "  The file {} may be corrupted.",
        request
            .dir
            .join(filenames::manifest_file_name(manifest))
            .display()
    );
    for (_, f) in r.version.file_iter() {
        if f.path_id != 0 {
            return Err(Error::not_supported("db_paths").with("file", f.number));
        }
        let path = path_of(f.number);
        let size = match request.env.fs.size(&path) {
            Ok(s) => s,
            Err(e) if e.subcode() == Some(spanlith_base::SubCode::PathNotFound) => {
                let text = "No such file or directory";
                return Err(Error::corruption(format!(
                    "Corruption: IO error: {text}: While open a file for random read: {}: {text}{suffix}",
                    path.display()
                ))
                .with_path(&path));
            }
            Err(e) => return Err(e),
        };
        if size != f.size {
            return Err(Error::corruption(format!(
                "Sst file size mismatch between expected {} and file system {size} sstable: {}{suffix}",
                f.size,
                path.display()
            ))
            .with_path(&path));
        }
    }
    Ok(())
}

/// Makes what was recovered durable: tables, a new log, a new MANIFEST.
fn finish(engine: &Arc<Engine>, replayed: super::replay::Replayed, logs: &[u64]) -> Result<()> {
    let mut edit = VersionEdit {
        new_files: replayed.tables,
        last_sequence: Some(replayed.last_sequence),
        ..VersionEdit::default()
    };
    edit.new_files
        .extend(flush_recovered_all(engine, &replayed.mems)?);
    let mut epoch = engine.state.lock().version.max_epoch_number();
    for f in &mut edit.new_files {
        epoch += 1;
        f.epoch_number = epoch;
    }
    let number = engine.new_file_number();
    let log = engine.create_log(number)?;
    let beyond = logs.last().map_or(0, |n| n + 1);
    let log_number = engine.state.lock().log_number.max(beyond);
    edit.log_number = Some(log_number);
    {
        let mut leader = engine.leader.lock();
        leader.log = Some(log);
        let mut state = engine.state.lock();
        state.logs.push_back(number);
    }
    engine.log_and_apply(edit, |_| {})?;
    Ok(())
}

fn flush_recovered_all(
    engine: &Arc<Engine>,
    mems: &[Arc<MemTable>],
) -> Result<Option<crate::version::NewFile>> {
    if mems.is_empty() {
        Ok(None)
    } else {
        flush_recovered(engine, mems)
    }
}

impl Engine {
    /// The first lines of the info log: version, files, options.
    fn describe(&self) {
        let c = &self.c;
        c.log.summary(&c.dir, &c.session_id);
        c.log.dump_db_options(&c.options);
        c.log
            .dump_cf_options(&c.family.name, &c.family.options, &c.family.table_options);
    }

    /// Starts background work.
    fn start(self: &Arc<Self>) {
        let executor = &self.c.env.executor;
        executor.reserve(JobClass::High, 1);
        executor.reserve(JobClass::Low, self.max_compactions());
        let mut state = self.state.lock();
        state.started = true;
        self.install_superversion(&mut state);
    }

    /// Temporary file, sync, rename, directory sync; two numbers, as RocksDB.
    fn write_options_file(&self) -> Result<()> {
        let f = &self.c.family;
        let text = crate::options::write_options_file(
            &self.c.options,
            &[(f.name.clone(), f.options.clone(), f.table_options.clone())],
        );
        let temp = self.path(filenames::options_temp_file_name(self.new_file_number()));
        let fs = &self.c.env.fs;
        let mut file = fs.create(&temp, IoActivity::Other)?;
        file.append(text.as_bytes())?;
        file.sync()?;
        file.close()?;
        let number = self.new_file_number();
        fs.rename(&temp, &self.path(filenames::options_file_name(number)))?;
        fs.sync_dir(&self.c.dir)
    }
}
