//! Opens a database: directory, lock, MANIFEST, logs, new MANIFEST, new log, cleaning up.
//!
//! Every step may be repeated after a crash at any point (O1), and what an open returned survives
//! every later crash (D8): recovered memtables become tables before it returns.

use super::best_efforts::{list_manifests, read_newest_manifest};
use super::create::{create_database, new_db_id, write_identity};
use super::current::{read_current, read_identity};
use super::evidence::Known;
use super::finish::finish;
use super::manifest::{Expectation, Recovered, RecoveredFamily, read_family_names, read_manifest};
use super::obsolete::{Explanation, remove_obsolete, settle_newer_tables};
use super::open_tables::{create_table_dirs, highest_table, open_tables, open_tables_later};
use super::replay::Replay;
use super::reuse::Reusable;
use crate::core::RESERVED;
use crate::core::{
    Components, DbState, DelayController, Engine, FamilyRequest, LeaderState, ManifestExtent,
    ManifestState, MemSlot, PurgeQueue, Resources, SnapshotList, Throttle, WitnessClock,
    family_paths,
};
use crate::info_log::{InfoLog, Logger};
use crate::listener::FlushReason;
use crate::listener::Listeners;
use crate::options::{DbOptions, EvidenceOptions, SyncedLogDamage};
use crate::version::{FileKind, TableIo, filenames, parse_file_name};
use spanlith_base::stats::Statistics;
use spanlith_base::{Error, Result};
use spanlith_env::{Env, IoActivity, JobClass};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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
    /// What is recorded about durability, and what an open makes of it.
    pub evidence: EvidenceOptions,
    /// The families to open; contains `default`.
    pub(crate) families: Vec<FamilyRequest>,
    /// Budgets and limits shared with other databases.
    pub(crate) resources: Resources,
    /// Change nothing on disk.
    pub read_only: bool,
    /// Write no `LOG` file.
    pub no_info_log: bool,
    /// Transactions in the logs were written under the policy write-prepared.
    pub write_prepared: bool,
    /// Counters that somebody asked for.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// Who is told what happens.
    pub(crate) listeners: Arc<Listeners>,
    /// Takes the lines of the info log.
    pub(crate) logger: Option<Arc<dyn Logger>>,
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
    let io = request.resources.table_io(env, options);
    let mut lock = None;
    let mut log = InfoLog::none();
    let mut created = false;
    if !read_only {
        let existed = env.fs.entry(dir)?.is_some();
        if options.create_if_missing || existed {
            env.fs.create_dir_if_missing(dir)?;
            env.fs.create_dir_if_missing(&wal_dir(&request))?;
            if options.wal_ttl_seconds > 0 || options.wal_size_limit_mb > 0 {
                let archive = wal_dir(&request).join(filenames::ARCHIVE_DIR);
                env.fs.create_dir_if_missing(&archive)?;
            }
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
        if !database_exists(&request)? && !options.create_if_missing {
            return Err(missing());
        }
        lock = Some(env.fs.lock(&dir.join(filenames::LOCK_FILE))?);
        match database_exists(&request)? {
            false if !options.create_if_missing => return Err(missing()),
            false => {
                let logs = list_numbers(&request)?.1;
                if !logs.is_empty() && !options.best_efforts_recovery {
                    return Err(Error::corruption(
                        "While creating a new Db, wal_dir contains existing log file",
                    )
                    .with_path(&wal_dir(&request).join(filenames::log_file_name(logs[0]))));
                }
                let preserve = |f: &FamilyRequest| f.options.preserve_internal_time_seconds > 0;
                let reserved = match request.families.iter().any(preserve) {
                    true => RESERVED,
                    false => 0,
                };
                create_database(env, dir, request.default_family(), options, reserved)?;
                created = true;
            }
            true if options.error_if_exists => {
                return Err(Error::invalid_argument(format!(
                    "{}: exists (error_if_exists is true)",
                    dir.display()
                ))
                .with_path(dir));
            }
            true => {}
        }
        if let Some(logger) = &request.logger {
            log = InfoLog::to_logger(env, logger.clone(), options.info_log_level);
        } else if !request.no_info_log {
            log = InfoLog::open(env, dir, options).unwrap_or_else(|_| InfoLog::none());
        }
    }
    if !read_only {
        create_table_dirs(&request)?;
    }
    let purge = Arc::new(PurgeQueue::new(
        io.clone(),
        request.resources.sst_files.clone(),
    ));
    let expect = Expectation {
        families: &request.families,
        read_only: *read_only,
        best_efforts: options.best_efforts_recovery,
        evidence: request.evidence.evidence,
        dir,
        purge: &purge,
    };
    let (manifest_number, recovered) = if options.best_efforts_recovery {
        read_newest_manifest(env, &expect)?
    } else {
        let number = read_current(env, dir)?;
        (number, read_manifest(env, number, &expect)?)
    };
    if options.use_direct_reads
        || options.use_direct_io_for_flush_and_compaction
        || options.use_direct_io_for_compaction_reads
    {
        let path = dir.join(filenames::manifest_file_name(manifest_number));
        env.fs.check_direct(&path)?;
    }
    if (!options.create_missing_column_families || *read_only)
        && let Some(f) = recovered.missing.first()
    {
        let text = format!("Column family not found: {}", f.name);
        return Err(Error::invalid_argument(text));
    }
    if !options.best_efforts_recovery {
        check_files(&request, &recovered, manifest_number)?;
    }
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
            if !read_only && options.write_identity_file {
                write_identity(env, dir, &id)?;
            }
            id
        }
    };
    let (mut highest, mut logs) = list_numbers(&request)?;
    let mut beyond = logs.last().map_or(0, |n| n + 1);
    if options.best_efforts_recovery {
        // None is replayed, now or later: sequence numbers are given out anew.
        logs.clear();
    } else if logs.is_empty() && options.track_and_verify_wals && !created {
        return Err(Error::corruption(
            "Opening an existing DB with no WAL files",
        ));
    }
    highest = highest.max(highest_table(&request)?);
    let oldest = recovered.families.iter().map(|f| f.log_number).min();
    let first_log = match options.allow_2pc {
        // A log that holds only a prepared transaction is needed by no family.
        true => recovered.min_log_number,
        false => oldest.unwrap_or(0).max(recovered.min_log_number),
    };
    let newest = recovered.families.iter().map(|f| f.log_number).max();
    let next_file = recovered.next_file.max(newest.unwrap_or(0)).max(highest) + 1;
    logs.retain(|&n| n >= first_log);
    if !options.best_efforts_recovery {
        beyond = logs.last().map_or(0, |n| n + 1);
    }
    if options.track_and_verify_wals_in_manifest && !options.best_efforts_recovery {
        check_tracked(&request, &recovered.tracked_logs, first_log, &logs)?;
    }
    let (last_sequence, max_family) = (recovered.last_sequence, recovered.max_family);
    let explanation = Explanation::new(&recovered);
    let (missing, torn_at) = (recovered.missing, recovered.torn_at);
    let curtailed = recovered.curtailed;
    let ends = recovered.tracked_logs.iter();
    let known = Known {
        is_used: request.evidence.evidence && !options.best_efforts_recovery,
        refuses: request.evidence.synced_log_damage == SyncedLogDamage::Refuse,
        // Those of RocksDB mean what its option says.
        ends: ends
            .filter(|_| recovered.is_marked)
            .filter_map(|(&n, size)| Some((n, (*size)?)))
            .chain(recovered.log_ends.iter().map(|(&n, &size)| (n, size)))
            .collect(),
        cuts: recovered.log_cuts.clone(),
        manifest: ManifestExtent {
            number: manifest_number,
            size: recovered.read_len,
        },
    };
    let reusable = Reusable {
        len: recovered.whole_len,
        compact_size: recovered.compact_size,
        db_id: recovered.db_id,
        tracked: recovered.tracked_logs,
        cuts: recovered.log_cuts,
        ends: recovered.log_ends,
    };
    let engine = assemble(
        &request,
        recovered.families,
        Parts {
            purge,
            io,
            log,
            lock,
            db_id,
            manifest_number,
            next_file,
            first_log,
            last_sequence,
            max_family,
        },
    );
    if !*read_only {
        engine.describe();
    }
    if let Some(offset) = torn_at {
        engine.c.log.warn(format_args!(
            "MANIFEST {manifest_number:06} dropped from offset {offset} on: a torn append"
        ));
    }
    if options.best_efforts_recovery {
        engine.c.log.warn(format_args!(
            "best-efforts recovery from MANIFEST {manifest_number:06}; logs are not replayed"
        ));
        for name in &curtailed {
            engine.c.log.warn(format_args!(
                "[{name}] opens with an earlier state: files are missing"
            ));
        }
    }
    // All tables are opened now, as RocksDB does: what this build cannot read is refused here, before
    // anything is changed, and not in the middle of a scan or a compaction. With a limit of open files,
    // only some are, and with `open_files_async` they are opened later.
    let later = options.open_files_async && !*read_only;
    if !later {
        open_tables(&engine)?;
    }
    let may_flush = !read_only;
    let replay = Replay::new(
        &engine,
        last_sequence,
        may_flush,
        request.write_prepared,
        &known,
    );
    let replayed = replay.run(&logs)?;
    let explanation = explanation.with_replayed(&replayed);
    // Best-efforts recovery puts aside what it cannot place by itself.
    if known.is_used {
        let judges = !engine.has_moved_on(&known);
        settle_newer_tables(&engine, &logs, &explanation, judges)?;
    }
    engine.report_dropped(&replayed)?;
    engine
        .visible
        .store(replayed.last_sequence, Ordering::Release);
    if *read_only {
        let mut state = engine.state.lock();
        for (id, recovering) in replayed.families {
            let Some(f) = state.family_mut(id) else {
                continue;
            };
            for mem in recovering.mems {
                f.imm.push(crate::core::Immutable {
                    mem,
                    next_log: 0,
                    last_sequence: replayed.last_sequence,
                    reason: FlushReason::Others,
                    newest_timestamp: Arc::default(),
                });
            }
            engine.install_superversion(&mut state, id);
        }
        drop(state);
        return Ok(engine);
    }
    if options.reuse_manifest_on_open && !options.best_efforts_recovery {
        engine.reuse_manifest(reusable)?;
    }
    finish(&engine, replayed, &logs, beyond)?;
    for family in &missing {
        engine.create_family(family)?;
    }
    engine.write_options_file()?;
    remove_obsolete(&engine, &explanation)?;
    engine.track_tables()?;
    engine.start();
    engine.keep_times(created);
    if later {
        open_tables_later(&engine);
    }
    Ok(engine)
}

/// Names of the column families of a database, in the order of their creation.
///
/// # Errors
/// `Io` and `Corruption` of CURRENT and the MANIFEST.
pub(crate) fn list_families(env: &Env, dir: &Path) -> Result<Vec<String>> {
    read_family_names(env, dir, read_current(env, dir)?)
}

impl OpenRequest {
    fn default_family(&self) -> &FamilyRequest {
        let named = self.families.iter().find(|f| f.name == "default");
        named.expect("checked by the builder")
    }
}

struct Parts {
    purge: Arc<PurgeQueue>,
    io: Arc<TableIo>,
    log: Arc<InfoLog>,
    lock: Option<Box<dyn spanlith_env::FileLock>>,
    db_id: String,
    manifest_number: u64,
    next_file: u64,
    first_log: u64,
    last_sequence: u64,
    max_family: u32,
}

fn assemble(request: &OpenRequest, families: Vec<RecoveredFamily>, parts: Parts) -> Arc<Engine> {
    let env = request.env.clone();
    let session_id = new_session_id(&env);
    let host_id = host_name(&env, &request.options.db_host_id);
    let components = Components {
        purge: parts.purge,
        io: parts.io,
        resources: request.resources.clone(),
        log: parts.log,
        snapshots: Arc::new(SnapshotList::default()),
        lock: parts.lock,
        db_id: parts.db_id,
        session_id,
        host_id,
        read_only: request.read_only,
        statistics: request.statistics.clone(),
        listeners: request.listeners.clone(),
        env,
        dir: request.dir.clone(),
        wal_dir: wal_dir(request),
        options: request.options.clone(),
        evidence: request.evidence.clone(),
    };
    let mut slots = Vec::with_capacity(families.len());
    let mut states = BTreeMap::new();
    for f in families {
        let state = Engine::new_family(
            &components,
            f.id,
            &f.request,
            f.version,
            f.sink,
            f.log_number,
        );
        let budget = request.resources.write_buffers.as_ref();
        slots.push(MemSlot::new(&state, budget));
        states.insert(f.id, state);
    }
    let leader = LeaderState {
        log: None,
        log_in_dir: false,
        slots,
        touched: Vec::new(),
        generation: 0,
        log_bytes: 0,
        // Looked at by the first write.
        log_room: 0,
        last_record: 0,
        taken: 0,
        witness: WitnessClock::new(None),
        sync_group: 1,
        sync_nanos: 0,
    };
    let mut state = DbState::new(states, parts.last_sequence);
    state.kept_log = parts.first_log;
    state.max_family = parts.max_family;
    let manifest = ManifestState {
        writer: None,
        number: parts.manifest_number,
        compact_size: 0,
        first_size: 0,
        cuts: BTreeMap::new(),
        ends: BTreeMap::new(),
        // What older logs were is checked above; they are replayed and gone when the next MANIFEST
        // begins.
        tracked: BTreeMap::new(),
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

/// Whether there is a database to open: CURRENT says so, or, to best efforts, any MANIFEST.
fn database_exists(request: &OpenRequest) -> Result<bool> {
    let (env, dir) = (&request.env, &request.dir);
    if request.options.best_efforts_recovery {
        return Ok(!list_manifests(env, dir)?.is_empty());
    }
    let current = dir.join(filenames::CURRENT_FILE);
    Ok(env.fs.entry(dir)?.is_some() && env.fs.entry(&current)?.is_some())
}

/// The directory of the logs.
fn wal_dir(request: &OpenRequest) -> PathBuf {
    match request.options.wal_dir.as_str() {
        "" => request.dir.clone(),
        other => PathBuf::from(other),
    }
}

/// Highest number of any file, and the numbers of all logs, ascending.
fn list_numbers(request: &OpenRequest) -> Result<(u64, Vec<u64>)> {
    let fs = &request.env.fs;
    let mut highest = 0;
    let mut logs = Vec::new();
    let wal_dir = wal_dir(request);
    for name in fs.list(&request.dir)? {
        if let Some(kind) = parse_file_name(&name) {
            highest = highest.max(kind.number().unwrap_or(0));
            if let FileKind::Log(n) = kind
                && wal_dir == request.dir
            {
                logs.push(n);
            }
        }
    }
    if wal_dir != request.dir && fs.entry(&wal_dir)?.is_some() {
        for name in fs.list(&wal_dir)? {
            if let Some(FileKind::Log(n)) = parse_file_name(&name) {
                highest = highest.max(n);
                logs.push(n);
            }
        }
    }
    logs.sort_unstable();
    Ok((highest, logs))
}

/// Every log that the MANIFEST tracks and recovery needs is there and as long as was synced.
fn check_tracked(
    request: &OpenRequest,
    tracked: &BTreeMap<u64, Option<u64>>,
    first_log: u64,
    logs: &[u64],
) -> Result<()> {
    for (&n, &synced) in tracked.range(first_log..) {
        if !logs.contains(&n) {
            let text = format!("Missing WAL with log number: {n}.");
            return Err(Error::corruption(text));
        }
        let path = wal_dir(request).join(filenames::log_file_name(n));
        let size = request.env.fs.size(&path)?;
        if let Some(synced) = synced.filter(|&synced| size < synced) {
            return Err(Error::corruption(format!(
                "Size mismatch: WAL (log number: {n}) in MANIFEST is {synced} bytes , but actually \
                 is {size} bytes on disk."
            ))
            .with_path(&path));
        }
    }
    Ok(())
}

/// Every table that the MANIFEST names is there and has its size.
fn check_files(request: &OpenRequest, r: &Recovered, manifest: u64) -> Result<()> {
    let suffix = format!(
        "  The file {} may be corrupted.",
        request
            .dir
            .join(filenames::manifest_file_name(manifest))
            .display()
    );
    let files = r.families.iter().flat_map(|family| {
        let paths = family_paths(&request.dir, &family.request);
        let files = family.version.file_iter().map(|f| f.1.clone());
        files.map(move |f| (paths.clone(), f))
    });
    for (paths, f) in files {
        let path = paths.table(f.number, f.path_id);
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

impl Engine {
    /// The first lines of the info log: version, files, options.
    fn describe(&self) {
        let c = &self.c;
        c.log.summary(&c.dir, &c.session_id);
        c.log.dump_db_options(&c.options);
        c.log.dump_support();
        for f in self.families.load().iter() {
            let s = f.settings();
            c.log.dump_cf_options(&f.name, &s.options, &s.table_options);
        }
    }

    /// Starts background work.
    fn start(self: &Arc<Self>) {
        let executor = &self.c.env.executor;
        executor.reserve(JobClass::High, self.max_flushes());
        executor.reserve(JobClass::Low, self.max_compactions());
        self.watch_snapshots_and_ages();
        let mut state = self.state.lock();
        state.started = true;
        let ids: Vec<u32> = state.families.keys().copied().collect();
        for id in ids {
            self.install_superversion(&mut state, id);
        }
    }

    /// Temporary file, sync, rename, directory sync; two numbers, as RocksDB.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let _turn = self.options_file.lock();
        let families = self.families.load_full();
        let families = families.iter().map(|f| {
            let s = f.settings();
            (f.name.clone(), s.options.clone(), s.table_options.clone())
        });
        let families: Vec<_> = families.collect();
        let text = crate::options::write_options_file(&self.options(), &families);
        let temp = self.path(filenames::options_temp_file_name(self.new_file_number()));
        let fs = &self.c.env.fs;
        let mut file = fs.create(&temp, IoActivity::Other)?;
        file.append(text.as_bytes())?;
        file.sync()?;
        file.close()?;
        let number = self.new_file_number();
        fs.rename(&temp, &self.path(filenames::options_file_name(number)))?;
        fs.sync_dir(&self.c.dir)?;
        self.remove_old_options();
        Ok(())
    }

    /// Keeps the two newest OPTIONS files, as RocksDB. What cannot be deleted goes with the next one.
    fn remove_old_options(&self) {
        let fs = &self.c.env.fs;
        let names = fs.list(&self.c.dir).unwrap_or_default();
        let numbers = names.iter().filter_map(|n| match parse_file_name(n) {
            Some(FileKind::Options(n)) => Some(n),
            _ => None,
        });
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        for n in numbers.iter().rev().skip(2) {
            let _ = fs.delete(&self.path(filenames::options_file_name(*n)));
        }
    }
}
