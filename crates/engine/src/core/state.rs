//! Describes what the state mutex, the write leadership and the manifest token guard.

use super::background_error::Trouble;
use super::mem_charge::MemCharge;
use super::news::Sealed;
use super::pacer::PaceState;
use super::{
    CompactionTurn, Company, CurrentLog, Family, FamilySettings, FlushTurn, Jobs, KeptTimes,
    Lifecycle, LogList,
};
use crate::commit;
use crate::listener::FlushReason;
use crate::options::{CfOptions, DbOptions, seconds_to_next_off_peak};
use crate::picker::{PickerInput, needs_compaction};
use crate::version::Version;
use spanlith_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber, WriteBufferManager};
use spanlith_memtable::MemTable;
use spanlith_pace::{Change, StallCondition};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Places in the lock order (docs/architecture.md, "Threads, locks and tokens").
pub(crate) mod rank {
    /// Contents of OPTIONS files. Held across I/O.
    pub const OPTIONS: u8 = 5;
    /// Resuming after an error. Held across I/O.
    pub const RESUME: u8 = 7;
    /// Write leadership: group formation, sequence assignment, the current log.
    pub const LEADER: u8 = 10;
    /// Closed logs that are not synced yet. Held across I/O.
    pub const OLD_LOGS: u8 = 15;
    /// Manifest writer: order of version edits. Held across I/O, like leadership.
    pub const MANIFEST: u8 = 20;
    /// Names of live transactions.
    pub const NAMES: u8 = 25;
    /// `DbState`.
    pub const STATE: u8 = 30;
    /// Queues of asynchronous requests; bookkeeping only.
    pub const REQUESTS: u8 = 80;
    /// A request that waits for room.
    pub const REQUEST: u8 = 81;
    /// Says who is to be woken when a request is done.
    pub const WAKERS: u8 = 82;
    /// Leaves.
    pub const LEAF: u8 = 90;
}

/// A sealed memtable waiting to become a table.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub mem: Arc<MemTable>,
    /// Number of the log that was opened when this memtable was sealed: once it is flushed, older
    /// logs hold nothing for the family.
    pub next_log: FileNumber,
    /// Sequence number of the newest write when it was sealed.
    pub last_sequence: SequenceNumber,
    /// Why it was sealed.
    pub reason: FlushReason,
    /// The latest timestamp in it, once somebody asked; `None` in it if it has none.
    pub newest_timestamp: Arc<OnceLock<Option<u64>>>,
}

/// The entries of a transaction that was prepared and not decided yet.
#[derive(Clone, Debug)]
pub(crate) struct PreparedSection {
    /// Number of the log that holds it.
    pub log: FileNumber,
    /// Sequence number of the batch that holds it.
    pub sequence: SequenceNumber,
    /// Its entries, encoded as in a batch.
    pub entries: Vec<u8>,
}

/// The part of one family.
pub(crate) struct FamilyState {
    pub family: Arc<Family>,
    /// Options in force.
    pub settings: Arc<FamilySettings>,
    /// The mutable memtable; the same as in the leader's slot.
    pub mem: Arc<MemTable>,
    /// Sealed memtables, oldest first.
    pub imm: Vec<Immutable>,
    /// The installed version.
    pub version: Arc<Version>,
    /// Counts superversions.
    pub superversion_number: u64,
    /// Logs with a smaller number hold nothing unflushed of this family.
    pub log_number: FileNumber,
    /// How far its flush is.
    pub flush: FlushTurn,
    /// Sequence number up to which nothing is in the mutable memtable; 0 if an open made it.
    pub mem_since: u64,
    /// Its compactions: whether one is due, and which run.
    pub compaction: CompactionTurn,
    /// Says whether its writes are delayed or stopped, and why.
    pub stall: StallCondition,
    /// The next superversion refuses no more reads of history than the last.
    pub keeps_history_low: bool,
    /// Says what the pace of its writers depends on.
    pub pace: PaceState,
}

impl FamilyState {
    pub(crate) fn new(
        family: Arc<Family>,
        settings: Arc<FamilySettings>,
        mem: Arc<MemTable>,
        version: Arc<Version>,
        log_number: FileNumber,
    ) -> Self {
        Self {
            family,
            settings,
            mem,
            imm: Vec::new(),
            version,
            superversion_number: 0,
            log_number,
            flush: FlushTurn::default(),
            mem_since: 0,
            compaction: CompactionTurn::default(),
            stall: StallCondition::Normal,
            keeps_history_low: false,
            pace: PaceState::default(),
        }
    }

    /// Returns what a dropped family still shows: it does nothing any more.
    pub(crate) fn of_dropped(family: &Arc<Family>) -> Self {
        let last = family.superversion.load_full();
        let settings = last.settings.clone();
        let (mem, version) = (last.mem.clone(), last.version.clone());
        let sealed = last.imm.iter().rev().map(|mem| Immutable {
            mem: mem.clone(),
            next_log: 0,
            last_sequence: 0,
            reason: FlushReason::Others,
            newest_timestamp: Arc::default(),
        });
        Self {
            imm: sealed.collect(),
            ..Self::new(family.clone(), settings, mem, version, 0)
        }
    }

    /// Returns whether everything written to it is in tables.
    pub(crate) fn is_idle(&self) -> bool {
        self.imm.is_empty() && self.mem.is_empty()
    }

    /// Number of the oldest log that holds something unflushed of this family, prepared transactions that were committed
    /// since included.
    pub(crate) fn oldest_log(&self) -> FileNumber {
        let sealed = self.imm.iter().map(|i| i.mem.needed_log());
        let prepared = sealed.fold(self.mem.needed_log(), FileNumber::min);
        self.log_number.min(prepared)
    }

    /// The facts by which its compactions are picked, with the times that the database keeps and the options in force.
    pub(crate) fn picker_input(&self, times: &KeptTimes, options: &DbOptions) -> PickerInput<'_> {
        let now = self.compaction.judged_at();
        let released = self.compaction.oldest_snapshot();
        PickerInput {
            version: &self.version,
            options: &self.settings.levels,
            running: self.compaction.running(),
            // An entry that keeps its number because times are kept counts as protected.
            oldest_snapshot: (released > 0).then(|| released.min(times.keep_from(&self.settings))),
            now,
            ahead_seconds: seconds_to_next_off_peak(&options.daily_offpeak_time_utc, now),
            young_after: times.above_after(&self.settings),
            placed: self
                .compaction
                .placed(self.settings.options.preclude_last_level_data_seconds),
        }
    }

    /// Returns whether the tree asks for a compaction, whether or not one may begin by itself.
    pub(crate) fn wants_compaction(&self, times: &KeptTimes, options: &DbOptions) -> bool {
        needs_compaction(&self.picker_input(times, options))
    }

    /// Returns whether sealed memtables are to be flushed now, by themselves.
    pub(crate) fn flush_is_due(&self) -> bool {
        let merge_at = self.settings.options.min_write_buffer_number_to_merge;
        let enough = self.imm.len() >= merge_at.max(1) as usize;
        let is_asked = self.flush.is_requested() && !self.imm.is_empty();
        !self.flush.is_held() && (enough || is_asked)
    }
}

/// Guarded by the state mutex, which is held for bookkeeping only.
pub(crate) struct DbState {
    /// Families that were not dropped, by id. The default family, id 0, is always there.
    pub families: BTreeMap<u32, FamilyState>,
    /// Highest id a family ever had; ids are not used twice.
    pub max_family: u32,
    /// No log is needed for writes up to this sequence number by any family that has tables;
    /// recorded in the MANIFEST.
    pub table_sequence: SequenceNumber,
    /// The logs: which there are, and which are needed.
    pub logs: LogList,
    /// Prepared transactions that recovery found, by name. Their logs are kept (WAL3).
    pub prepared: BTreeMap<Vec<u8>, PreparedSection>,
    /// Background work that is queued and runs.
    pub jobs: Jobs,
    /// Says what went wrong in the background and is not over.
    pub trouble: Trouble,
    /// Which stage between open and close it is in.
    pub life: Lifecycle,
}

impl DbState {
    /// Returns whether the sealed memtables of all families are to be flushed now, which were sealed together.
    pub(crate) fn atomic_flush_is_due(&self) -> bool {
        let all = || self.families.values();
        all().any(FamilyState::flush_is_due) && !all().any(|f| f.flush.has_untold_seals())
    }

    /// Says why the version of a family is about to change.
    pub(crate) fn changes(&mut self, id: u32, change: Change) {
        if let Some(f) = self.family_mut(id) {
            f.pace.change = Some(change);
        }
    }

    /// Says that a compaction that read `bytes` is about to be installed.
    pub(crate) fn compacted(&mut self, id: u32, bytes: u64) {
        if let Some(f) = self.family_mut(id) {
            f.pace.compacted(bytes);
        }
    }

    /// Says that a compaction with two outputs under `settings`, which is about to be installed, wrote these tables.
    pub(crate) fn placed(&mut self, id: u32, settings: &FamilySettings, tables: Vec<u64>) {
        if let Some(f) = self.family_mut(id) {
            let seconds = settings.options.preclude_last_level_data_seconds;
            f.compaction.note_placed(seconds, tables);
        }
    }

    /// Returns whether background work is over for good.
    pub fn ends(&self) -> bool {
        self.life.ends()
    }

    pub(crate) fn new(families: BTreeMap<u32, FamilyState>, table_sequence: u64) -> Self {
        Self {
            max_family: families.keys().max().copied().unwrap_or(0),
            families,
            table_sequence,
            logs: LogList::default(),
            prepared: BTreeMap::new(),
            jobs: Jobs::default(),
            trouble: Trouble::default(),
            life: Lifecycle::default(),
        }
    }

    /// Returns whether somebody is going to change something that others wait for: a job, the timer of tries or
    /// that of flushes that wait for history, a resume, a manual compaction, or a caller who paused work
    /// or closes the database.
    pub(crate) fn is_going_to_change(&self) -> bool {
        let tries = self.trouble.any().is_some() || self.trouble.resuming;
        let postponed = self.families.values().any(|f| f.flush.is_postponed());
        self.jobs.are_going_to_change() || tries || postponed || !self.life.runs()
    }

    /// A family's part; `None` once it was dropped.
    #[inline]
    pub(crate) fn family(&self, id: u32) -> Option<&FamilyState> {
        self.families.get(&id)
    }

    #[inline]
    pub(crate) fn family_mut(&mut self, id: u32) -> Option<&mut FamilyState> {
        self.families.get_mut(&id)
    }

    /// The family's part, or the error that says it was dropped.
    pub(crate) fn alive(&self, id: u32) -> Result<&FamilyState> {
        self.family(id)
            .ok_or_else(|| Error::new(ErrorKind::ColumnFamilyDropped, ""))
    }

    /// Number of the oldest log that some family or prepared transaction needs (WAL3).
    pub(crate) fn min_log_number(&self) -> FileNumber {
        self.min_log_without(|_| None)
    }

    /// As [`Self::min_log_number`], without what `gone` says of a family: of its memtables those are left out that were
    /// sealed before the log of the answer; all with the largest number.
    pub(crate) fn min_log_without(&self, gone: impl Fn(u32) -> Option<FileNumber>) -> FileNumber {
        let counted = self.families.iter().filter(|f| gone(*f.0).is_none());
        let numbers = counted.map(|(_, f)| f.log_number);
        let needed = numbers.chain([self.min_prepared_log_without(&gone)]).min();
        // Logs that were said to be gone are gone: families that were idle then still name them.
        needed.unwrap_or(0).max(self.logs.kept())
    }

    /// Number of the oldest log that holds a prepared transaction which is undecided; the largest number if none does.
    pub(crate) fn min_undecided_log(&self) -> FileNumber {
        let logs = self.prepared.values().map(|p| p.log);
        logs.min().unwrap_or(FileNumber::MAX)
    }

    /// Number of the oldest log that holds a prepared transaction which is undecided, or whose entries are in no table yet.
    fn min_prepared_log_without(&self, gone: &dyn Fn(u32) -> Option<FileNumber>) -> FileNumber {
        let committed = self.families.iter().flat_map(|(&id, f)| {
            let until = gone(id).unwrap_or(0);
            let sealed = f.imm.iter().filter(move |i| i.next_log > until);
            let current = (until != FileNumber::MAX).then(|| f.mem.needed_log());
            sealed.map(|i| i.mem.needed_log()).chain(current)
        });
        committed.fold(self.min_undecided_log(), FileNumber::min)
    }
}

/// When merge operands are folded as they are written.
#[derive(Clone, Copy)]
pub(crate) struct MergeLimit {
    /// Operands of a key in a row in the memtable at which the next one is folded; 0 means never.
    pub max: u64,
    /// Folds even if that takes reading files.
    pub reads_files: bool,
}

impl MergeLimit {
    pub(crate) fn of(options: &CfOptions) -> Self {
        Self {
            max: options.max_successive_merges,
            reads_files: options.strict_max_successive_merges,
        }
    }
}

/// The mutable memtable of one family, as the leader sees it.
pub(crate) struct MemSlot {
    pub family: Arc<Family>,
    pub mem: Arc<MemTable>,
    /// `write_buffer_size`.
    pub limit: usize,
    /// As the options were when `mem` was made.
    pub merges: MergeLimit,
    /// Says what `mem` holds of the budget, if there is one.
    pub charge: Option<Arc<MemCharge>>,
}

impl MemSlot {
    /// The slot of a family, with its mutable memtable.
    pub(crate) fn new(f: &FamilyState, budget: Option<&Arc<WriteBufferManager>>) -> Self {
        Self {
            family: f.family.clone(),
            mem: f.mem.clone(),
            limit: f.settings.options.write_buffer_size as usize,
            merges: MergeLimit::of(&f.settings.options),
            charge: budget.map(|m| MemCharge::of(&f.mem, m)),
        }
    }

    /// Seals the memtable and begins with another.
    pub(crate) fn replace(
        &mut self,
        mem: &Arc<MemTable>,
        budget: Option<&Arc<WriteBufferManager>>,
    ) {
        if let Some(charge) = &self.charge {
            charge.follow(self.mem.memory_usage() as u64);
            charge.seal();
        }
        self.mem = mem.clone();
        self.merges = MergeLimit::of(&self.family.settings().options);
        self.charge = budget.map(|m| MemCharge::of(mem, m));
    }
}

/// Guarded by write leadership.
pub(crate) struct LeaderState {
    /// The log being written.
    pub log: CurrentLog,
    /// Mutable memtables by ascending family id; the first belongs to the default family.
    pub slots: Vec<MemSlot>,
    /// The first slot's memtable does not know yet when its first entry came.
    pub first_is_new: bool,
    /// Slots, besides the first, that took entries since they were last looked at. Sealing one may
    /// be due.
    pub touched: Vec<usize>,
    /// Counts removals of families: a request that was checked before one is checked again.
    pub generation: u64,
    /// Says for whom a leader waits before it syncs.
    pub company: Company,
    /// Memtables that are sealed and not told. The thread that seals lets go of leadership before he tells: listeners may want it.
    pub untold: Vec<Sealed>,
}

/// The right to order writes, and what it guards.
pub(crate) type Leadership = commit::Leadership<LeaderState>;

impl LeaderState {
    /// Where the slot of a family is.
    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        slot_of(&self.slots, id)
    }
}

/// Where the slot of family `id` is in slots of ascending id.
#[inline]
pub(crate) fn slot_of(slots: &[MemSlot], id: u32) -> Option<usize> {
    let at = id as usize;
    if slots.get(at).is_some_and(|s| s.family.id == id) {
        return Some(at);
    }
    slots.binary_search_by_key(&id, |s| s.family.id).ok()
}
