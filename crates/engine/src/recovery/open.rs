//! Opens a database: directory, lock, MANIFEST, logs, new MANIFEST, new log, cleaning up.
//!
//! Every step may be repeated after a crash at any point (O1), and what an open returned survives
//! every later crash (D8): recovered memtables become tables before it returns.

use super::assemble::{Parts, assemble};
use super::best_efforts::read_newest_manifest;
use super::checks::{check_recovered, check_tracked};
use super::create::{new_db_id, write_identity};
use super::current::{read_current, read_identity};
use super::elsewhere::check_elsewhere;
use super::enter::{Entered, enter, unmake};
use super::evidence::Known;
use super::finish::finish;
use super::lost::LostFiles;
use super::manifest::{Expectation, Recovered, read_family_names, read_manifest};
use super::obsolete::{Explanation, remove_obsolete, settle_newer_tables};
use super::open_tables::{highest_table, open_tables, open_tables_later, track_tables};
use super::replay::{Replay, Replayed};
use super::request::OpenRequest;
use super::reuse::Reusable;
use super::speed::settle;
use super::whose::check_whose;
use crate::core::{
    Engine, FamilyChanges, FamilyRequest, Immutable, Lsm, ManifestExtent, PurgeQueue,
    min_free_bytes,
};
use crate::info_log::events::RecoveryStarted;
use crate::info_log::{DumpParts, InfoLog};
use crate::listener::FlushReason;
use crate::options::SyncedLogDamage;
use crate::version::FileMeta;
use crate::version::filenames::{self, FILE_NUMBER_MAX};
use spanlith_base::{Error, ErrorKind, Result, SequenceNumber};
use spanlith_env::{Env, JobClass, Lowered};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// File numbers that a database has left when it is opened.
const NUMBERS_LEFT: u64 = 1 << 40;

/// How often an open for reading begins anew because another process changed what it read.
const READING_TRIES: u32 = 20;

/// Opens what `request` describes.
///
/// # Errors
/// With RocksDB's status and text before the colon. The directory is as recoverable as before.
pub(crate) fn open(request: &OpenRequest) -> Result<Arc<Engine>> {
    if !request.read_only {
        return open_once(request, None);
    }
    // The database may be open for writing elsewhere. What was read in two pieces with an edit between them
    // does not fit together, and is no damage: an edit that was half written looks torn, and files that the
    // MANIFEST named are gone.
    for _ in 0..READING_TRIES {
        let before = current_manifest(request);
        let opened = open_once(request, before);
        if opened.is_ok() || current_manifest(request) == before {
            return opened;
        }
    }
    open_once(request, None)
}

/// Number and size of the current MANIFEST; `None` if they cannot be told.
fn current_manifest(request: &OpenRequest) -> Option<(u64, u64)> {
    let OpenRequest { env, dir, .. } = request;
    let number = read_current(env, dir).ok()?;
    let path = dir.join(filenames::manifest_file_name(number));
    Some((number, env.fs.size(&path).ok()?))
}

/// Opens what `request` describes, unless logs went while the current MANIFEST became another than `before`.
fn open_once(request: &OpenRequest, before: Option<(u64, u64)>) -> Result<Arc<Engine>> {
    let entered = enter(request)?;
    let created = entered.created;
    let opened = OpenJob::begin(request, entered, before).and_then(OpenJob::run);
    let refused = |e: &Error| {
        matches!(
            e.kind(),
            ErrorKind::InvalidArgument | ErrorKind::NotSupported | ErrorKind::Corruption
        )
    };
    opened.inspect_err(|e| {
        if created && refused(e) {
            unmake(request);
        }
    })
}

/// An open in directories that are ours, once MANIFEST and directories are read: an engine that is not used yet, and what
/// is known of its files.
struct OpenJob<'a> {
    request: &'a OpenRequest,
    engine: Arc<Engine>,
    logs: Logs,
    /// Highest sequence number in tables.
    last_sequence: SequenceNumber,
    known: Known,
    explanation: Explanation,
    /// How the MANIFEST that was read may go on.
    reusable: Reusable,
    /// Families that are to be made.
    missing: Vec<FamilyRequest>,
    /// The database was made just now.
    created: bool,
}

impl<'a> OpenJob<'a> {
    /// Reads what is there, and makes an engine of it. Nothing is changed yet but IDENTITY.
    fn begin(
        request: &'a OpenRequest,
        entered: Entered,
        before: Option<(u64, u64)>,
    ) -> Result<Self> {
        let (options, resources) = (&request.options, &request.resources);
        let io = resources.table_io(&request.env, options, request.statistics.clone());
        let purge = PurgeQueue::new(io.clone(), resources.sst_files.clone());
        let on_disk = request.speed.as_ref().and_then(|s| s.fs.tables());
        let purge = Arc::new(purge.with_tables_on_disk(on_disk));
        let (manifest_number, mut recovered) = read_versions(request, &purge)?;
        check_recovered(request, &recovered, manifest_number)?;
        check_whose(request, &recovered, manifest_number)?;
        let db_id = database_id(request, &recovered, &entered.log)?;
        let logs = Logs::choose(request, &recovered, entered.created)?;
        if !entered.created {
            check_elsewhere(request, &logs.needed, logs.first, entered.was_open)?;
        }
        // Logs go in their order: as long as the first one is there, so are all that the MANIFEST as read needs.
        let is_first_gone = logs.needed.first() != Some(&logs.first);
        if before.is_some() && is_first_gone && current_manifest(request) != before {
            // Writes may have gone with it, into tables that were not read of. Nobody but `open` sees this.
            return Err(Error::new(ErrorKind::TryAgain, ""));
        }
        let known = Known::new(request, &recovered, manifest_number, &logs);
        let explanation = Explanation::new(&recovered);
        let engine = assemble(
            request,
            std::mem::take(&mut recovered.families),
            Parts {
                purge,
                io,
                log: entered.log,
                lock: entered.lock,
                dirs: entered.dirs,
                db_id,
                manifest_number,
                next_file: logs.next_file,
                first_log: logs.first,
                last_sequence: recovered.last_sequence,
                max_family: recovered.max_family,
            },
        );
        describe_recovery(&engine, manifest_number, &recovered);
        Ok(Self {
            request,
            engine,
            logs,
            last_sequence: recovered.last_sequence,
            known,
            explanation,
            missing: recovered.missing,
            created: entered.created,
            reusable: Reusable {
                len: recovered.whole_len,
                compact_size: recovered.compact_size,
                db_id: recovered.db_id,
                tracked: recovered.tracked_logs,
                cuts: recovered.log_cuts,
                ends: recovered.log_ends,
                oldest_log: recovered.oldest_log,
            },
        })
    }

    /// Opens tables, replays logs, and makes what was found durable.
    fn run(mut self) -> Result<Arc<Engine>> {
        if let Some(before) = &self.request.before {
            take_over_readers(&self.engine, before);
        }
        if !self.opens_tables_later() {
            open_tables(&self.engine)?;
        }
        let job = begin_replay(&self.engine, &self.logs.needed);
        let replayed = self.replay(job.unwrap_or(0))?;
        if self.request.read_only {
            end_replay(&self.engine, job);
            keep_replayed(&self.engine, replayed);
            return Ok(self.engine);
        }
        self.finish(replayed, job)
    }

    /// All tables are opened at once, as RocksDB does: what this build cannot read is refused before anything is changed,
    /// and not in the middle of a scan or a compaction. With a limit of open files, only some are, and with
    /// `open_files_async` they are opened later.
    fn opens_tables_later(&self) -> bool {
        self.request.options.open_files_async && !self.request.read_only
    }

    /// Reads the logs, and judges what they say beside what is known of them. What they held is visible afterwards, once it
    /// is somewhere.
    fn replay(&mut self, job: u64) -> Result<Replayed> {
        let (request, engine, known) = (self.request, &self.engine, &self.known);
        let replay = Replay::new(
            engine,
            self.last_sequence,
            !request.read_only,
            request.write_prepared,
            known,
            job,
        )
        .filtered(request.wal_filter.clone());
        known.check_oldest_log(&engine.c, &engine.logs, &self.logs.needed)?;
        let replayed = replay.run(&self.logs.needed);
        // Damage of a speed disk says more than what comes of it in a replay, and refuses the open.
        settle(request)?;
        let replayed = replayed?;
        self.explanation.add_replayed(&replayed);
        // Best-efforts recovery puts aside what it cannot place by itself.
        if known.is_used {
            let judges = !known.has_moved_on(&engine.c);
            let newer = settle_newer_tables(engine, &self.logs.needed, &self.explanation, judges)?;
            self.explanation.add_unexplained_table(newer);
        }
        LostFiles::of(engine).report_dropped(&replayed)?;
        engine.order.publish_alone(replayed.last_sequence);
        // Logs that were not replayed, or not to their end.
        if let Some(disk) = engine.c.speed.as_ref().and_then(|s| s.fs.disk()) {
            disk.forget_kept();
        }
        Ok(replayed)
    }

    /// Makes what was recovered durable, and families that are missing; deletes what is obsolete, and starts background work.
    fn finish(self, replayed: Replayed, job: Option<u64>) -> Result<Arc<Engine>> {
        let later = self.opens_tables_later();
        let (options, engine) = (&self.request.options, self.engine);
        if options.reuse_manifest_on_open && !options.best_efforts_recovery {
            let log = engine.reporter.log();
            self.reusable
                .continue_manifest(&engine.c, &engine.catalog, log)?;
        }
        finish(&engine, replayed, &self.logs.needed, self.logs.beyond)?;
        end_replay(&engine, job);
        for family in &self.missing {
            FamilyChanges::of(&engine).create(family)?;
        }
        if !self.request.keeps_options {
            engine.options_writer().write()?;
        }
        debug_assert!(
            engine.catalog.lock().is_durable(),
            "O1: nothing is removed before what the next open reads is durable"
        );
        remove_obsolete(&engine, self.explanation)?;
        track_tables(&engine.c, &engine.families.load_full())?;
        let kept_free = min_free_bytes(&engine.options(), &engine.families.load());
        engine.reserve.keep(kept_free, engine.reporter.log());
        start_work(&engine);
        engine.keep_times(self.created);
        if later {
            open_tables_later(&engine);
        }
        Ok(engine)
    }
}

/// Notes in the info log that `logs` are about to be replayed. The job is the first of the database; there is none
/// without logs.
fn begin_replay(engine: &Engine, logs: &[u64]) -> Option<u64> {
    if logs.is_empty() {
        return None;
    }
    let job = engine.new_job();
    engine.reporter.log().recovery_started(&RecoveryStarted {
        job,
        wal_files: logs,
    });
    Some(job)
}

fn end_replay(engine: &Engine, job: Option<u64>) {
    if let Some(job) = job {
        engine.reporter.log().recovery_finished(job, &Ok(()));
    }
}

/// Reads the MANIFEST: its number, and what it says.
fn read_versions(request: &OpenRequest, purge: &Arc<PurgeQueue>) -> Result<(u64, Recovered)> {
    let best_efforts = request.options.best_efforts_recovery;
    let expect = Expectation {
        families: &request.families,
        read_only: request.read_only,
        best_efforts,
        evidence: request.options.own.evidence,
        dir: &request.dir,
        purge,
    };
    if best_efforts {
        return read_newest_manifest(&request.env, &expect);
    }
    let number = read_current(&request.env, &request.dir)?;
    Ok((number, read_manifest(&request.env, number, &expect)?))
}

/// Makes the IDENTITY file of a database with a speed disk that lacks it, as copies do, or has a damaged one: the disk is
/// the database's by its id. Requires: the lock.
///
/// # Errors
/// Of reading the MANIFEST, which the open meets again, and of writing the file.
pub(super) fn identify(request: &OpenRequest) -> Result<()> {
    let OpenRequest {
        env, dir, options, ..
    } = request;
    let has_disk = request.speed.is_some() || request.resources.tables.is_some();
    let writes = options.write_identity_file && !options.best_efforts_recovery;
    if !has_disk || !writes || read_identity(env, dir).is_ok_and(|id| id.is_some()) {
        return Ok(());
    }
    let io = request
        .resources
        .table_io(env, options, request.statistics.clone());
    let purge = Arc::new(PurgeQueue::new(io, request.resources.sst_files.clone()));
    let (_, recovered) = read_versions(request, &purge)?;
    database_id(request, &recovered, &InfoLog::none()).map(|_| ())
}

/// The id of the database: what the MANIFEST says, else IDENTITY, else a new one. IDENTITY is made to
/// say the same.
fn database_id(request: &OpenRequest, recovered: &Recovered, log: &InfoLog) -> Result<String> {
    let OpenRequest { env, dir, .. } = request;
    let known = recovered.db_id.clone();
    let in_file = match read_identity(env, dir) {
        Err(e) if e.kind() == ErrorKind::Corruption && known.is_some() => {
            log.warn(format_args!("the MANIFEST's id is used: {e}"));
            None
        }
        read => read?,
    };
    let id = known.or_else(|| in_file.clone());
    let id = id.unwrap_or_else(|| new_db_id(env));
    let writes = !request.read_only && request.options.write_identity_file;
    if writes && in_file.as_ref() != Some(&id) {
        write_identity(env, dir, &id)?;
    }
    Ok(id)
}

/// The logs that are there, and which of them are replayed.
struct Logs {
    /// Those that recovery needs, ascending.
    needed: Vec<u64>,
    /// The first number that is needed.
    first: u64,
    /// One more than the last log that is there.
    beyond: u64,
    /// A number that no file has.
    next_file: u64,
}

impl Logs {
    fn choose(request: &OpenRequest, recovered: &Recovered, created: bool) -> Result<Self> {
        let options = &request.options;
        let (highest, mut logs) = request.list_numbers()?;
        let mut beyond = logs.last().map_or(0, |n| n + 1);
        if options.best_efforts_recovery {
            // None is replayed, now or later: sequence numbers are given out anew.
            logs.clear();
        } else if logs.is_empty() && options.track_and_verify_wals && !created {
            return Err(Error::corruption(
                "Opening an existing DB with no WAL files",
            ));
        }
        let highest = highest.max(highest_table(request)?);
        let oldest = recovered.families.iter().map(|f| f.log_number).min();
        let first = match options.allow_2pc {
            // A log that holds only a prepared transaction is needed by no family.
            true => recovered.min_log_number,
            false => oldest.unwrap_or(0).max(recovered.min_log_number),
        };
        let newest = recovered.families.iter().map(|f| f.log_number).max();
        // No overflow: file numbers leave the two highest bits free.
        let used = [newest.unwrap_or(0), recovered.min_log_number, highest];
        // As RocksDB counts: the MANIFEST's number is taken for one in use, and so is the next.
        let next_file = used.into_iter().fold(recovered.next_file + 1, u64::max) + 1;
        debug_assert!(
            used.iter().all(|&n| n < next_file),
            "V4: a number that is in use is given away again"
        );
        if next_file > FILE_NUMBER_MAX - NUMBERS_LEFT {
            let text = format!("file number {next_file} leaves none for files to come");
            return Err(Error::corruption(text));
        }
        logs.retain(|&n| n >= first);
        if !options.best_efforts_recovery {
            beyond = logs.last().map_or(0, |n| n + 1);
            if options.track_and_verify_wals_in_manifest {
                check_tracked(request, &recovered.tracked_logs, first, &logs)?;
            }
        }
        Ok(Self {
            needed: logs,
            first,
            beyond,
            next_file,
        })
    }
}

impl Known {
    fn new(request: &OpenRequest, recovered: &Recovered, manifest: u64, logs: &Logs) -> Self {
        // Those of RocksDB mean what its option says.
        let tracked = recovered.tracked_logs.iter();
        let tracked = tracked.filter(|_| recovered.is_marked);
        let tracked = tracked.filter_map(|(&n, size)| Some((n, (*size)?)));
        let ends = recovered.log_ends.iter().map(|(&n, &size)| (n, size));
        Self {
            is_used: request.options.own.evidence && !request.options.best_efforts_recovery,
            refuses: request.options.own.synced_log_damage == SyncedLogDamage::Refuse,
            names_database: recovered.is_marked && recovered.db_id.is_some(),
            ends: tracked.chain(ends).collect(),
            cuts: recovered.log_cuts.clone(),
            oldest_log: Some(recovered.oldest_log).filter(|&n| n > 0 && n >= logs.first),
            manifest: ManifestExtent {
                number: manifest,
                size: recovered.read_len,
            },
        }
    }
}

/// Names of the column families of a database, in the order of their creation.
///
/// # Errors
/// `Io` and `Corruption` of CURRENT and the MANIFEST.
pub(crate) fn list_families(env: &Env, dir: &Path) -> Result<Vec<String>> {
    read_family_names(env, dir, read_current(env, dir)?)
}

/// Says in the info log what is opened, and what was left out of the MANIFEST.
fn describe_recovery(lsm: &Lsm, manifest: u64, recovered: &Recovered) {
    let log = lsm.reporter.log();
    if !lsm.c.read_only {
        describe(lsm);
    }
    if let Some(offset) = recovered.torn_at {
        log.warn(format_args!(
            "MANIFEST {manifest:06} dropped from offset {offset} on: a torn append"
        ));
    }
    if lsm.c.options.best_efforts_recovery {
        log.warn(format_args!(
            "best-efforts recovery from MANIFEST {manifest:06}; logs are not replayed"
        ));
        for name in &recovered.curtailed {
            log.warn(format_args!(
                "[{name}] opens with an earlier state: files are missing"
            ));
        }
    }
}

/// Serves what was replayed from memory: an open for reading writes no tables.
fn keep_replayed(lsm: &Lsm, replayed: Replayed) {
    let mut state = lsm.state.lock();
    let ids: Vec<u32> = replayed.families.keys().copied().collect();
    for (id, recovering) in replayed.families {
        let Some(f) = state.family_mut(id) else {
            continue;
        };
        for mem in recovering.mems {
            f.imm.push(Immutable {
                mem,
                next_log: 0,
                last_sequence: replayed.last_sequence,
                reason: FlushReason::Others,
                newest_timestamp: Arc::default(),
            });
        }
    }
    lsm.install_superversions(&mut state, ids);
}

/// Keeps tables open that the same database had open before: their files may be gone by now.
fn take_over_readers(lsm: &Lsm, before: &Lsm) {
    for family in lsm.families.load().iter() {
        let version = family.superversion.load().version.clone();
        let old = before.families.load().get(family.id).cloned();
        let Some(old) = old else { continue };
        let old = old.superversion.load().version.clone();
        let known: BTreeMap<u64, &Arc<FileMeta>> = old
            .file_iter()
            .map(|(_, file)| (file.number, file))
            .collect();
        for (_, file) in version.file_iter() {
            if let Some(known) = known.get(&file.number) {
                file.take_over(known);
            }
        }
    }
}

/// The first lines of the info log: version, files, options.
fn describe(lsm: &Lsm) {
    let (c, log) = (&lsm.c, lsm.reporter.log());
    log.summary(&c.dir, &c.session_id);
    let parts = DumpParts {
        statistics: lsm.reporter.statistics().is_some(),
        rate_limiter: c.resources.rate_limiter.is_some(),
        row_cache: c.resources.row_cache.as_ref().map(|c| c.capacity()),
    };
    log.dump_db_options(&lsm.options(), parts);
    log.dump_support();
    for (before, f) in lsm.families.load().iter().enumerate() {
        lsm.reporter.describe_family(f, before);
    }
}

/// Starts background work.
fn start_work(lsm: &Lsm) {
    let executor = &lsm.c.env.executor;
    executor.reserve(JobClass::High, lsm.max_flushes());
    executor.reserve(JobClass::Low, lsm.compaction_threads());
    if let Ok(nice @ 1..) = u8::try_from(lsm.c.options.own.compaction_nice) {
        executor.lower(JobClass::Low, Lowered::Processor(nice));
    }
    lsm.watch_snapshots_and_ages();
    lsm.watch_disk();
    let mut state = lsm.state.lock();
    state.life.start();
    let ids: Vec<u32> = state.families.keys().copied().collect();
    lsm.install_superversions(&mut state, ids);
}
