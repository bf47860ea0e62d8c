//! The shared state of an open database.

use super::Speed;
use super::disk_watch::DiskWatch;
use super::family::Families;
use super::free_space::Reserve;
use super::leadership::Leadership;
use super::options_file::{OptionsFiles, OptionsWriter};
use super::owner::Owner;
use super::purge::PurgeQueue;
use super::spare::SpareMemory;
use super::stall::{Throttle, ThrottleSettings};
use super::state::{DbState, LeaderState, rank};
use super::state_mutex::StateMutex;
use super::switches::CompactionSwitches;
use super::timers::Timers;
use super::times::KeptTimes;
use super::transactions::Transactions;
use super::write_gate::WriteGate;
use super::{
    Catalog, DbCounters, Directories, Family, FamilySet, LogSet, Outstanding, Reporter, Request,
    Resources, SnapshotList, Tracing, Watchers,
};
use crate::options::{DbOptions, FixedDbOptions};
use crate::version::TableIo;
use spanlith_base::perf::PerfCounter;
use spanlith_base::sync::{ArcCell, CommitOrder, GroupQueue, Guard, Mutex};
use spanlith_base::{Comparator, Error, FileNumber, Result, SequenceNumber};
use spanlith_env::{Env, FileLock};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Describes what an engine is made of, once recovery has read the directory.
pub(crate) struct Components {
    pub env: Env,
    pub dir: PathBuf,
    /// These, and those of tables, held open for syncs.
    pub dirs: Arc<Directories>,
    /// Options that stay as they were at open. Those that may change are read through [`Engine::options`].
    pub options: FixedDbOptions,
    pub purge: Arc<PurgeQueue>,
    /// How tables are opened and written.
    pub io: Arc<TableIo>,
    /// Budgets and limits shared with other databases.
    pub resources: Resources,
    pub snapshots: Arc<SnapshotList>,
    pub lock: Option<Box<dyn FileLock>>,
    pub db_id: String,
    pub session_id: String,
    pub host_id: String,
    pub read_only: bool,
    /// It follows a database that another process writes.
    pub is_secondary: bool,
    /// Recorders of calls to the file system and of lookups in the block cache.
    pub watchers: Watchers,
    /// The speed disk with the logs, if there is one.
    pub speed: Option<Speed>,
}

/// The parts of an engine that are made before it.
pub(crate) struct EngineParts {
    pub reporter: Reporter,
    pub catalog: Catalog,
    pub logs: LogSet,
}

/// An open database.
pub(crate) struct Engine {
    pub c: Components,
    /// Says what happens: info log, listeners, statistics.
    pub reporter: Reporter,
    /// The MANIFEST, and the numbers of files (V4).
    pub catalog: Catalog,
    /// The files of the logs.
    pub logs: LogSet,
    /// Itself, for timers.
    pub me: Weak<Self>,
    /// The process that opened it: nobody else writes, deletes, or waits for its threads.
    pub owner: Owner,
    /// Options in force; replaced as a whole under the state mutex.
    options: ArcCell<DbOptions>,
    /// The OPTIONS files, and the order in which they are written.
    pub options_files: OptionsFiles,
    /// Work done so far.
    pub counters: DbCounters,
    /// All families that were not dropped.
    pub families: Families,
    /// Assigned and visible sequence numbers (W2, W3). Groups begin under leadership; readers ask for the visible
    /// number after the superversion.
    pub order: CommitOrder,
    pub queue: GroupQueue<Request<'static>>,
    /// Followers that still insert their own batches. Set by the leader before it releases them,
    /// counted down with Release, awaited with Acquire.
    pub apply_left: AtomicUsize,
    /// Says what transactions share.
    pub transactions: Transactions,
    /// Held by who resumes after an error.
    pub resume_token: Mutex<()>,
    pub leader: Leadership,
    pub state: StateMutex,
    /// The conditions that writers look at once per call and once per group, and readers once per call.
    pub gate: WriteGate,
    pub throttle: Throttle,
    /// Counts ingestions, twice each: odd while superversions of one are being replaced.
    pub ingestions: AtomicU64,
    /// Which compactions may not begin or go on.
    pub switches: CompactionSwitches,
    /// Set when close began; long jobs look at it.
    pub stopping: AtomicBool,
    /// The timers of what is done from time to time.
    pub timers: Timers,
    /// When sequence numbers were assigned, if a family wants to know.
    pub times: KeptTimes,
    /// Calls to the disk that do not come back.
    pub disk: DiskWatch,
    /// The file that reserves room on the disk.
    pub reserve: Reserve,
    /// Traces that are being written.
    pub tracing: Tracing,
    /// Asynchronous requests, from the first one on.
    pub requests: OnceLock<Arc<dyn Outstanding>>,
    /// Dropped behind all that holds memtables.
    #[expect(dead_code, reason = "does its work when it is dropped")]
    spare: SpareMemory,
}

/// Wait for a change after which it is asked whether jobs have threads.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Such waits after which, in builds with assertions, somebody has to be going to make a change.
const LONGEST_WAIT: u32 = 120;

/// Bits of [`WriteGate`].
pub(crate) mod gate {
    /// Writes are delayed.
    pub const DELAY: u16 = 1;
    /// Writes are stopped until background work catches up.
    pub const STOP: u16 = 2;
    /// A background error, or closing.
    pub const REFUSE: u16 = 4;
    /// Files are taken in, and writers were in the way of the flush before: they wait, but not for ever.
    pub const HOLD: u16 = 8;
    /// Writers look at the pace of the families they write to, before they join the queue.
    pub const PACE: u16 = 16;
    /// A trace of queries may be on.
    pub const TRACE: u16 = 32;
    /// There are statistics.
    pub const MEASURE: u16 = 64;
    /// The database was opened for reading only.
    pub const READ_ONLY: u16 = 128;
    /// Inserting into a memtable calls user code, which may call back: a comparator that is none of ours. Never taken back.
    pub const CALLS_BACK: u16 = 256;
    /// Some family plans its level 0 by reads and writes.
    pub const COUNT_READS: u16 = 512;
    /// Reads take part in a trace: of queries, or of looked-up blocks.
    pub const TRACE_READS: u16 = 1024;
    /// Bits of which a writer looks at each before it joins the queue.
    pub const WATCHED: u16 = PACE | TRACE | MEASURE | READ_ONLY | CALLS_BACK;
    /// Bits that are not meant for leaders.
    pub const NOT_LEADERS: u16 = WATCHED | READS;
    /// Bits that a reader looks at.
    pub const READS: u16 = TRACE_READS | COUNT_READS;
}

/// Returns whether an order is code of the user's.
pub(super) fn is_users(comparator: &Comparator) -> bool {
    matches!(comparator, Comparator::User(_)) && Comparator::from_name(comparator.name()).is_none()
}

impl Engine {
    /// Assembles an engine from its parts.
    pub(crate) fn new(
        mut c: Components,
        parts: EngineParts,
        leader: LeaderState,
        state: DbState,
        options: DbOptions,
    ) -> Arc<Self> {
        let families: Vec<_> = state.families.values().map(|f| f.family.clone()).collect();
        if families.iter().any(|f| f.comparator.timestamp_size() != 0) {
            parts.logs.note_timestamps();
        }
        let calls_back = families.iter().any(|f| is_users(&f.comparator));
        let families = FamilySet::new(families);
        let lock = c.lock.take();
        let throttle = Throttle::new(ThrottleSettings::of(&options));
        let in_flight = (c.speed.is_some()).then_some(c.options.own.sd_writes_in_flight);
        let now = c.env.clock.monotonic_nanos();
        let clock = c.env.clock.clone();
        let spare = SpareMemory::new(c.env.executor.clone());
        let mut first_gate = 0;
        if parts.reporter.statistics().is_some() {
            first_gate |= gate::MEASURE;
        }
        if calls_back {
            first_gate |= gate::CALLS_BACK;
        }
        if c.read_only {
            first_gate |= gate::READ_ONLY;
        }
        let own = &c.options.own;
        let bound = Duration::from_secs(own.disk_stall_threshold);
        let disk = DiskWatch::new(c.watchers.stalls.clone(), bound);
        let reserve = Reserve::new(c.env.clone(), &c.dir, own.reserve_file_bytes);
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            reporter: parts.reporter,
            catalog: parts.catalog,
            logs: parts.logs,
            disk,
            reserve,
            times: KeptTimes::new(clock.clone()),
            timers: Timers::default(),
            switches: CompactionSwitches::default(),
            owner: Owner::new(lock),
            options: ArcCell::new(Arc::new(options)),
            options_files: OptionsFiles::default(),
            counters: DbCounters::new(now),
            c,
            families: Families::new(families),
            order: CommitOrder::new(0),
            queue: GroupQueue::new(),
            apply_left: AtomicUsize::new(0),
            transactions: Transactions::new(clock.clone()),
            resume_token: Mutex::new(rank::RESUME, ()),
            leader: Leadership::new(leader, in_flight),
            state: StateMutex::new(state, clock.clone()),
            gate: WriteGate::new(first_gate),
            throttle,
            ingestions: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            spare,
            tracing: Tracing::default(),
            requests: OnceLock::new(),
        })
    }

    /// Options in force.
    #[inline]
    pub(crate) fn options(&self) -> Guard<'_, DbOptions> {
        self.options.load()
    }

    /// Puts other options in force. Requires: the state mutex.
    pub(crate) fn replace_options(&self, options: Arc<DbOptions>) {
        self.options.replace(options);
    }

    /// Returns whether close began.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Writes OPTIONS files, and deletes them.
    pub(crate) fn options_writer(&self) -> OptionsWriter<'_> {
        OptionsWriter::new(self, &self.options_files, &self.options)
    }

    /// Returns whether writers are delayed or stopped: then background work is urgent.
    pub(crate) fn is_held_up(&self) -> bool {
        self.gate.has(gate::DELAY | gate::STOP | gate::PACE)
    }

    /// Deletes a blob file that a job wrote and no version names.
    pub(crate) fn discard_blob_file(&self, family: &Family, number: FileNumber) {
        family.blobs.forget(number);
        self.c
            .purge
            .discard(number, &family.cache.paths.blob(number));
    }

    /// Highest sequence number new reads see.
    #[inline]
    pub(crate) fn visible(&self) -> SequenceNumber {
        self.order.visible()
    }

    /// Path of a file in the database directory.
    pub(crate) fn path(&self, name: impl AsRef<std::path::Path>) -> PathBuf {
        self.c.dir.join(name)
    }

    /// Refuses what changes the database when it was opened for reading only, or by the parent of this process, whose
    /// log, file numbers and threads are its own.
    #[inline]
    pub(crate) fn writable(&self) -> Result<()> {
        if !self.owner.is_current() {
            return Err(Error::not_supported(
                "Writing in a child of the process that opened the database",
            ));
        }
        if self.c.read_only {
            return Err(Error::not_supported(match self.c.is_secondary {
                true => "Not supported operation in secondary mode.",
                false => "Not supported operation in read only mode.",
            }));
        }
        Ok(())
    }

    /// The error that refuses writes, if any.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let state = self.state.lock();
        if state.life.is_closing() {
            return Some(Error::shutdown(""));
        }
        state.trouble.refusal()
    }

    /// Waits for a change of the state, running a background job on this thread instead if the executor is
    /// manual or lacks threads.
    pub(crate) fn wait_changed<'a>(
        &'a self,
        guard: spanlith_base::sync::MutexGuard<'a, DbState>,
    ) -> spanlith_base::sync::MutexGuard<'a, DbState> {
        if self.c.env.executor.is_manual() {
            drop(guard);
            let helped = self.c.env.executor.help();
            debug_assert!(helped, "waiting for a job that nobody will run");
            return self.state.lock();
        }
        let mut guard = guard;
        let mut waits = 0;
        while !self.c.env.executor.lacks_threads() {
            let _timer = self.state.time(PerfCounter::DbConditionWaitNanos);
            let (state, is_long) = self.state.wait_timeout(guard, SHORT_WAIT);
            if !is_long {
                return state;
            }
            waits += 1;
            // Nothing waits for ever (reliability, section 3.2): who waits in vain is found by any test.
            debug_assert!(
                // A caller who aborted compactions is going to resume them.
                waits < LONGEST_WAIT || state.is_going_to_change() || self.switches.all_are_off(),
                "a wait that no job, no timer and no caller is going to end"
            );
            guard = state;
        }
        drop(guard);
        self.c.env.executor.help();
        self.state.lock()
    }
}
