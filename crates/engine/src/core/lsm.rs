//! The trees of all families, the MANIFEST that names their files, and the background work on them.
//!
//! An [`Lsm`] is all of an open database but the way of a write: it knows neither leadership, the queue of writers, the
//! current log nor transactions, so that flushes, compactions and the handling of errors cannot reach them.
//! [`Engine`](super::Engine) holds one and adds these.
//!
//! It queues jobs but has no bodies for them: those are in modules above `core`, which it reaches through
//! [`BackgroundWork`] only.

use super::disk_watch::DiskWatch;
use super::family::Families;
use super::free_space::Reserve;
use super::owner::Owner;
use super::purge::PurgeQueue;
use super::stall::{Throttle, ThrottleSettings};
use super::state::DbState;
use super::state_mutex::StateMutex;
use super::switches::WorkSwitches;
use super::timers::Timers;
use super::times::KeptTimes;
use super::write_gate::{WriteGate, gate};
use super::{
    Catalog, DbCounters, Directories, Family, FamilySet, LogSet, Reporter, Resources, SnapshotList,
    Speed, Together, Watchers,
};
use crate::options::{DbOptions, FixedDbOptions};
use crate::version::TableIo;
use spanlith_base::perf::PerfCounter;
use spanlith_base::sync::{ArcCell, CommitOrder, Guard, MutexGuard};
use spanlith_base::{Comparator, Error, FileNumber, Result, SequenceNumber};
use spanlith_env::Env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Describes what an engine is made of, once recovery has read the directory.
pub(crate) struct Components {
    pub env: Env,
    pub dir: PathBuf,
    /// These, and those of tables, held open for syncs.
    pub dirs: Arc<Directories>,
    /// Options that stay as they were at open. Those that may change are read through [`Lsm::options`].
    pub options: FixedDbOptions,
    pub purge: Arc<PurgeQueue>,
    /// How tables are opened and written.
    pub io: Arc<TableIo>,
    /// Budgets and limits shared with other databases.
    pub resources: Resources,
    pub snapshots: Arc<SnapshotList>,
    pub db_id: String,
    pub session_id: String,
    pub host_id: String,
    pub read_only: bool,
    /// Recorders of calls to the file system and of lookups in the block cache.
    pub watchers: Watchers,
    /// The speed disk with the logs, if there is one.
    pub speed: Option<Speed>,
}

/// The bodies of background work, which modules above `core` have. Held weakly: what is queued does not keep a database
/// open that nobody uses.
pub(crate) trait BackgroundWork: Send + Sync {
    /// The trees that the work is done on.
    fn lsm(&self) -> &Lsm;

    /// Flushes what is sealed of a family, or of all families if flushes are atomic, until nothing is due.
    fn flush(&self, family: &Arc<Family>);

    /// Flushes what is sealed of several families in one edit.
    fn flush_together(&self, listed: Together);

    /// Picks a compaction, runs it, and asks for the next.
    fn compact(&self);

    /// Merges files of level 0 beside a compaction out of it, until there is nothing to merge.
    fn merge_beside(&self);

    /// Tries to bring the database back after an error that refuses writes.
    ///
    /// # Errors
    /// The try failed; what comes of it is in the state.
    fn resume_by_itself(&self) -> Result<()>;

    /// Writes statistics to the info log, and adds them to the history, as far as these are due.
    fn report(&self, dump: bool, keep: bool);

    /// Tells the current log what is durable if nobody has written since the last call.
    fn vouch_when_idle(&self);
}

/// The parts of an open database that are made before it.
pub(crate) struct LsmParts {
    pub reporter: Reporter,
    pub catalog: Catalog,
    pub logs: LogSet,
    pub owner: Owner,
}

/// See the head of the module.
pub(crate) struct Lsm {
    pub c: Components,
    /// Says what happens: info log, listeners, statistics.
    pub reporter: Reporter,
    /// The MANIFEST, and the numbers of files (V4).
    pub catalog: Catalog,
    /// The files of the logs.
    pub logs: LogSet,
    /// The bodies of jobs.
    work: Weak<dyn BackgroundWork>,
    /// The process that opened it: nobody else writes, deletes, or waits for its threads.
    pub owner: Owner,
    /// Options in force; replaced as a whole under the state mutex.
    options: ArcCell<DbOptions>,
    /// Work done so far.
    pub counters: DbCounters,
    /// All families that were not dropped.
    pub families: Families,
    /// Assigned and visible sequence numbers (W2, W3). Groups begin under leadership; readers ask for the visible
    /// number after the superversion.
    pub order: CommitOrder,
    pub state: StateMutex,
    /// The conditions that writers look at once per call and once per group, and readers once per call.
    pub gate: WriteGate,
    pub throttle: Throttle,
    /// Which work may not begin or go on.
    pub switches: WorkSwitches,
    /// The timers of what is done from time to time.
    pub timers: Timers,
    /// When sequence numbers were assigned, if a family wants to know.
    pub times: KeptTimes,
    /// Calls to the disk that do not come back.
    pub disk: DiskWatch,
    /// The file that reserves room on the disk.
    pub reserve: Reserve,
}

/// Wait for a change after which it is asked whether jobs have threads.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Such waits after which, in builds with assertions, somebody has to be going to make a change.
const LONGEST_WAIT: u32 = 120;

/// Returns whether an order is code of the user's.
pub(super) fn is_users(comparator: &Comparator) -> bool {
    matches!(comparator, Comparator::User(_)) && Comparator::from_name(comparator.name()).is_none()
}

impl Lsm {
    /// Assembles the trees from their parts. `work` has the bodies of their jobs.
    pub(super) fn new(
        c: Components,
        parts: LsmParts,
        state: DbState,
        options: DbOptions,
        work: Weak<dyn BackgroundWork>,
    ) -> Self {
        let families: Vec<_> = state.families.values().map(|f| f.family.clone()).collect();
        if families.iter().any(|f| f.comparator.timestamp_size() != 0) {
            parts.logs.note_timestamps();
        }
        let mut first_gate = 0;
        if parts.reporter.statistics().is_some() {
            first_gate |= gate::MEASURE;
        }
        if families.iter().any(|f| is_users(&f.comparator)) {
            first_gate |= gate::CALLS_BACK;
        }
        if c.read_only {
            first_gate |= gate::READ_ONLY;
        }
        let clock = c.env.clock.clone();
        let own = &c.options.own;
        let bound = Duration::from_secs(own.disk_stall_threshold);
        Self {
            reporter: parts.reporter,
            catalog: parts.catalog,
            logs: parts.logs,
            work,
            disk: DiskWatch::new(c.watchers.stalls.clone(), bound),
            reserve: Reserve::new(c.env.clone(), &c.dir, own.reserve_file_bytes),
            times: KeptTimes::new(clock.clone(), c.snapshots.clone()),
            timers: Timers::default(),
            switches: WorkSwitches::default(),
            owner: parts.owner,
            throttle: Throttle::new(ThrottleSettings::of(&options)),
            options: ArcCell::new(Arc::new(options)),
            counters: DbCounters::new(clock.monotonic_nanos()),
            c,
            families: Families::new(FamilySet::new(families)),
            order: CommitOrder::new(0),
            state: StateMutex::new(state, clock),
            gate: WriteGate::new(first_gate),
        }
    }

    /// The bodies of jobs; `None` once nobody uses the database any more.
    pub(super) fn work(&self) -> Option<Arc<dyn BackgroundWork>> {
        self.work.upgrade()
    }

    /// As [`Self::work`], for timers, which keep no database open.
    pub(super) fn weak_work(&self) -> Weak<dyn BackgroundWork> {
        self.work.clone()
    }

    /// The cell of the options in force.
    pub(super) fn options_cell(&self) -> &ArcCell<DbOptions> {
        &self.options
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
        self.switches.is_closing()
    }

    /// Returns whether writers are delayed or stopped: then background work is urgent.
    pub(crate) fn is_held_up(&self) -> bool {
        self.gate
            .has(gate::DELAY | gate::STOP | gate::FULL | gate::PACE)
    }

    /// Deletes a blob file that a job wrote and no version names.
    pub(crate) fn discard_blob_file(&self, family: &Family, number: FileNumber) {
        family.blobs.forget(number);
        self.c
            .purge
            .discard(number, &family.cache.paths.blob(number));
    }

    /// Unlinks what nothing refers to any more.
    pub(crate) fn purge_obsolete(&self) {
        for file in &self.c.purge.run() {
            self.reporter.note_deleted(file, &self.c.dir);
        }
    }

    /// As [`Self::purge_obsolete`]; when it returns, nothing is left that another thread began to unlink, either.
    pub(crate) fn purge_for_caller(&self) {
        self.purge_obsolete();
        self.c.purge.settle();
    }

    /// As [`Self::purge_obsolete`]; takes no lock if nothing is queued.
    pub(super) fn purge_queued(&self) {
        if self.c.purge.has_queued() {
            self.purge_obsolete();
        }
    }

    /// Highest sequence number new reads see.
    #[inline]
    pub(crate) fn visible(&self) -> SequenceNumber {
        self.order.visible()
    }

    /// Path of a file in the database directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
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
            return Err(Error::not_supported(match self.owner.follows_another() {
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
        guard: MutexGuard<'a, DbState>,
    ) -> MutexGuard<'a, DbState> {
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
