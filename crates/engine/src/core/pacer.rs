//! Paces the writers of each family under the policy `smooth`.
//!
//! The facts that the policy works from are collected under the state mutex, when a version or a memtable is installed and,
//! while some pressure is worth watching, by the writers themselves, every few milliseconds. Nobody holds a lock while he
//! waits. Families are paced apart: a hot one does not slow the others.

use super::background_error::Place;
use super::hiding::{Pressure, garbage};
use super::level0_shape::ShapeState;
use super::progress::FlushProgress;
use super::space_room::space_facts;
use super::state::{DbState, FamilyState, rank};
use super::switches::WorkSwitches;
use super::{Family, Lsm, StateMutex, Throttle, WriteGate, gate};
use spanlith_base::sync::Mutex;
use spanlith_env::{Clock, SstFileManager};
use spanlith_pace::{
    Bucket, Change, DebtFacts, Decision, Facts, Level0Facts, MemoryFacts, Smooth, SpaceFacts,
    SpaceGiven, Stage, Ticket, WATCHED, WorkDebt,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time between two looks of writers at the state.
const TICK_NANOS: u64 = 2_000_000;
/// Files of level 0 are counted in such parts.
const PARTS: u64 = 1024;
/// Share of the rate that writes of the class `high` may have on top.
const HIGH_SHARE: f64 = 0.1;
/// Share of the rate that writes of the class `low` keep to, below and above half of the buffers.
const LOW_SHARES: [f64; 2] = [0.25, 0.0625];

/// Describes who goes first when writes are slowed down, under the policy `smooth`. The others do not tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteClass {
    /// May pass the others by a tenth of the rate.
    High,
    /// As fast as flushes and compactions allow.
    #[default]
    Normal,
    /// A quarter of that, and a sixteenth while more than half of the buffers is full.
    Low,
}

/// The pace of one family.
pub(crate) struct Pacer {
    /// Of the flush that runs.
    pub flush: FlushProgress,
    /// Some pressure is worth watching. Relaxed: the gate says so, too.
    watched: AtomicBool,
    /// Nanoseconds that writers waited, by stage.
    waited: [AtomicU64; 4],
    inner: Mutex<Inner>,
}

struct Inner {
    smooth: Smooth,
    all: Bucket,
    high: Bucket,
    low: Bucket,
    decision: Decision,
    next_tick: u64,
}

/// Describes what a family remembers for its pace; guarded by the state mutex.
#[derive(Default)]
pub(crate) struct PaceState {
    /// Why the version is going to change.
    pub change: Option<Change>,
    debt: WorkDebt,
    /// Files of level 0, in [`PARTS`].
    files: WorkDebt,
    /// Bytes of keys and values that flushes which ended have taken, and bytes of their tables.
    flushed_payload: u64,
    flushed_bytes: u64,
    /// Bytes of keys and values of one flush, averaged over the last few.
    flush_payload: f64,
    /// Bytes that compactions which ended took out of level 0, and how many did.
    level0_retired: u64,
    rounds: u64,
    /// Files that compactions within level 0 have taken off.
    merged: u64,
    space: SpaceGiven,
    /// How large the files of level 0 are to be.
    pub shape: ShapeState,
    /// Garbage in blob files and its budget, in parts of all of their bytes.
    garbage: SpaceFacts,
}

/// Places of a write in the buckets of its family.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    all: Option<Ticket>,
    /// In the bucket of its class.
    own: Option<(WriteClass, Ticket)>,
}

impl Pacer {
    pub(crate) fn new() -> Self {
        Self {
            flush: FlushProgress::default(),
            watched: AtomicBool::new(false),
            waited: Default::default(),
            inner: Mutex::new(
                rank::LEAF,
                Inner {
                    smooth: Smooth::new(Default::default()),
                    all: Bucket::new(),
                    high: Bucket::new(),
                    low: Bucket::new(),
                    decision: Decision::default(),
                    next_tick: 0,
                },
            ),
        }
    }

    /// Returns whether writers have to look at their pace.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Returns what was decided last, and the measured capacities by stage.
    pub(crate) fn decision(&self) -> (Decision, [Option<f64>; 4]) {
        let inner = self.inner.lock();
        (inner.decision, Stage::ALL.map(|s| inner.smooth.capacity(s)))
    }

    /// Nanoseconds that writers waited for a stage.
    pub(crate) fn waited_nanos(&self, stage: Stage) -> u64 {
        self.waited[stage as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add_wait(&self, nanos: u64) {
        let stage = self.inner.lock().decision.stage.unwrap_or(Stage::Memory);
        self.waited[stage as usize].fetch_add(nanos, Ordering::Relaxed);
    }

    /// Takes places for `bytes`; `None` if they would have to wait and `waits` is false: nothing is taken then.
    pub(crate) fn take(
        &self,
        now: u64,
        bytes: u64,
        class: WriteClass,
        waits: bool,
    ) -> Option<Places> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if class == WriteClass::High
            && inner.high.wait_for(now, bytes) <= inner.all.wait_for(now, bytes)
        {
            // Its own share is there sooner.
            if !waits && inner.high.would_wait(now, bytes) {
                return None;
            }
            let ticket = inner.high.take(now, bytes);
            return Some(Places {
                all: None,
                own: Some((class, ticket)),
            });
        }
        let is_low = class == WriteClass::Low;
        if !waits
            && (inner.all.would_wait(now, bytes) || is_low && inner.low.would_wait(now, bytes))
        {
            return None;
        }
        Some(Places {
            all: Some(inner.all.take(now, bytes)),
            own: is_low.then(|| (class, inner.low.take(now, bytes))),
        })
    }

    /// How long these places have to wait from now on, and whether it is time to look at the state again.
    pub(crate) fn wait(&self, now: u64, places: Places) -> (Duration, bool) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let all = places.all.map(|t| inner.all.wait(now, t));
        let own = places.own.map(|(class, t)| match class {
            WriteClass::High => inner.high.wait(now, t),
            _ => inner.low.wait(now, t),
        });
        let wait = all.unwrap_or_default().max(own.unwrap_or_default());
        (wait, inner.is_due(now))
    }

    /// Returns whether it is time to look at the state again; whoever is told so does it.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.inner.lock().is_due(now)
    }

    /// Has writers write `rate` bytes per second from now on, whatever the state is.
    #[cfg(test)]
    pub(crate) fn force(&self, now: u64, rate: f64) {
        let mut inner = self.inner.lock();
        let decision = Decision {
            rate: Some(rate),
            stage: Some(Stage::Level0),
            ..Decision::default()
        };
        inner.decide(now, decision);
        inner.next_tick = u64::MAX;
        drop(inner);
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Lets the state decide again.
    #[cfg(test)]
    pub(crate) fn allow_ticks(&self) {
        self.inner.lock().next_tick = 0;
    }

    /// A sleeper woke up `late`.
    pub(crate) fn overslept(&self, late: Duration) {
        let mut inner = self.inner.lock();
        inner.all.overslept(late);
        inner.low.overslept(late);
        inner.high.overslept(late);
    }
}

impl Inner {
    fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.next_tick;
        if due {
            self.next_tick = now + TICK_NANOS;
        }
        due
    }

    fn decide(&mut self, now: u64, decision: Decision) {
        self.decision = decision;
        self.next_tick = now + TICK_NANOS;
        let rate = decision.rate;
        self.all.set_rate(now, rate);
        self.high.set_rate(now, rate.map(|r| r * HIGH_SHARE));
        let high_pressure = decision.pressure.worst().1 >= 0.5;
        let share = LOW_SHARES[usize::from(high_pressure)];
        self.low.set_rate(now, rate.map(|r| r * share));
    }
}

impl PaceState {
    /// A flush of `payload` bytes of keys and values is going to install a table of `bytes`.
    pub(crate) fn flushed(&mut self, payload: u64, bytes: u64) {
        self.flushed_payload += payload;
        self.flushed_bytes += bytes;
        let before = match self.flush_payload {
            0.0 => payload as f64,
            before => before,
        };
        self.flush_payload = before + (payload as f64 - before) / 4.0;
        self.change = Some(Change::Flush(bytes));
    }

    /// A compaction has taken `bytes` out of level 0.
    pub(crate) fn retired_level0(&mut self, bytes: u64) {
        self.level0_retired += bytes;
        self.rounds += u64::from(bytes > 0);
    }

    /// A compaction within level 0 made one file of so many.
    pub(crate) fn merged_level0(&mut self, files: usize) {
        self.merged += (files as u64).saturating_sub(1);
    }

    /// A compaction that read `bytes` is going to be installed.
    pub(crate) fn compacted(&mut self, bytes: u64) {
        self.space.reads(bytes);
        self.change = Some(Change::Compaction);
    }

    /// Takes in the tree after a change, and how many bytes it takes if that is of interest.
    fn follow(&mut self, debt: u64, base_level: usize, level0_files: usize, bytes: Option<u64>) {
        let change = self.change.take().unwrap_or(Change::External);
        match bytes {
            Some(bytes) => self.space.follow(bytes, change),
            // Nobody asks: what compactions read meanwhile would stand beside nothing.
            None => self.space = SpaceGiven::default(),
        }
        self.debt.update(debt, base_level, change);
        // A flush brings one file, however small, and nothing but that.
        let of_files = match change {
            Change::Flush(_) => Change::Flush(PARTS),
            other => other,
        };
        self.files.update(level0_files as u64 * PARTS, 0, of_files);
    }

    /// Bytes of keys and values for each byte of a table.
    fn expansion(&self) -> f64 {
        match self.flushed_bytes {
            0 => 1.0,
            bytes => (self.flushed_payload as f64 / bytes as f64).clamp(0.1, 1000.0),
        }
    }

    /// Debt that writes made and that they did not make.
    pub(crate) fn debt(&self) -> (u64, u64) {
        (self.debt.work(), self.debt.external())
    }
}

/// Decides how fast families may be written, from the state and what is beside it.
pub(crate) struct PaceControl<'a> {
    throttle: &'a Throttle,
    gate: &'a WriteGate,
    switches: &'a WorkSwitches,
    clock: &'a dyn Clock,
    /// Knows the limit on the bytes of tables, if there is one.
    sst_files: Option<&'a SstFileManager>,
}

impl<'a> PaceControl<'a> {
    /// That of a database.
    pub(crate) fn of(engine: &'a Lsm) -> Self {
        Self {
            throttle: &engine.throttle,
            gate: &engine.gate,
            switches: &engine.switches,
            clock: &*engine.c.env.clock,
            sst_files: engine.c.resources.sst_files.as_deref(),
        }
    }

    /// Looks at the state of a family, and decides how fast it may be written.
    pub(crate) fn tick(&self, state: &StateMutex, family: &Family) {
        let state = state.lock();
        if let Some(f) = state.family(family.id) {
            self.decide(&state, f);
        }
    }

    /// As [`Self::tick`], under the state mutex, if it is time to.
    pub(crate) fn look(&self, state: &DbState, family: &Family) {
        if family.pacer.is_due(self.clock.monotonic_nanos())
            && let Some(f) = state.family(family.id)
        {
            self.decide(state, f);
        }
    }

    /// As [`Self::tick`], after a version or a memtable was installed.
    pub(super) fn follow(&self, state: &mut DbState, id: u32, base_level: usize) {
        let is_smooth = self.throttle.is_smooth();
        let Some(f) = state.family_mut(id) else {
            return;
        };
        let files = f.settings.levels.sorted_runs(&f.version);
        let bytes = is_smooth.then(|| f.version.total_size() + f.version.blob_bytes());
        f.pace
            .follow(f.compaction.pending_bytes(), base_level, files, bytes);
        let budget = f.settings.levels.blob_budget;
        let budget = budget.filter(|_| is_smooth && f.settings.levels.is_leveled());
        f.pace.garbage = budget.map_or_else(SpaceFacts::default, |budget| {
            garbage(&f.version, budget, Pressure::of(f, budget))
        });
        if is_smooth && let Some(f) = state.family(id) {
            self.decide(state, f);
        } else if !is_smooth && let Some(f) = state.family(id) {
            f.family.pacer.watched.store(false, Ordering::Relaxed);
        }
    }

    fn decide(&self, state: &DbState, f: &FamilyState) {
        let now = self.clock.monotonic_nanos();
        let pacer = &f.family.pacer;
        let (facts, retired) = self.facts(state, f, now);
        let admitted = admitted(f);
        let options = self.throttle.settings_smooth();
        let mut inner = pacer.inner.lock();
        inner.smooth.set_options(options);
        let decision = inner.smooth.tick(now, &facts, retired, admitted);
        inner.decide(now, decision);
        drop(inner);
        // Until the next install: one that ends the pressure always comes.
        let watched = decision.pressure.worst().1 >= WATCHED || decision.rate.is_some();
        if watched {
            pacer.watched.store(true, Ordering::Relaxed);
            self.gate.set(gate::PACE);
        } else if facts.memory.unflushed == 0 {
            pacer.watched.store(false, Ordering::Relaxed);
        }
    }

    /// The state of a family as the policy sees it, and what its stages have retired, in bytes of keys and values.
    fn facts(&self, state: &DbState, f: &FamilyState, now: u64) -> (Facts, [u64; 4]) {
        let o = &f.settings.options;
        let pacer = &f.family.pacer;
        let flushed = pacer.flush.fraction(now);
        let sealed: u64 = f.imm.iter().map(|i| i.mem.data_bytes()).sum();
        let picked = f.imm.iter().take(f.flush.taken());
        let picked: u64 = picked.map(|i| i.mem.data_bytes()).sum();
        let flushed_bytes = (picked as f64 * flushed) as u64;
        let flush_may_run = !state.trouble.holds(Place::Flush) && !state.trouble.stops_work();
        let may_run = state.life.runs() && !state.jobs.are_paused();
        let flush_comes = f.flush.is_coming();
        let merge_at = o.min_write_buffer_number_to_merge.max(1) as usize;
        let flush_comes = flush_comes || f.imm.len() >= merge_at || f.flush.is_requested();
        let memory = MemoryFacts {
            unflushed: sealed.saturating_sub(flushed_bytes),
            room: room(f),
            drains: !f.imm.is_empty()
                && flush_comes
                && flush_may_run
                && may_run
                && !f.flush.is_postponed(),
        };
        let compacts = !o.disable_auto_compactions
            && may_run
            && !self.switches.all_are_off()
            && !state.trouble.holds(Place::Compaction)
            && !state.trouble.stops_work();
        let job_comes = f.compaction.is_coming() || state.jobs.has_manual();
        let compacts = compacts && job_comes;
        let (level0, done) = level0(f, flushed, compacts, now);
        let debt = DebtFacts {
            work: f.pace.debt.work(),
            hard: o.hard_pending_compaction_bytes_limit,
            drains: compacts,
        };
        let facts = Facts {
            memory,
            level0,
            debt,
            space: space_facts(
                self.throttle.room(),
                self.sst_files,
                f.pace.garbage,
                compacts && f.pace.space.gives(),
            ),
        };
        let expansion = f.pace.expansion();
        let in_payload = |bytes: u64| (bytes as f64 * expansion) as u64;
        let retired = [
            f.pace.flushed_payload + flushed_bytes,
            in_payload(f.pace.level0_retired + done),
            in_payload(f.pace.debt.retired_bytes()),
            in_payload(f.pace.space.bytes()),
        ];
        (facts, retired)
    }
}

/// Bytes of keys and values that may still be written before the memtable that is being filled would be one too many.
fn room(f: &FamilyState) -> u64 {
    let o = &f.settings.options;
    let limit = o.write_buffer_size;
    let used = f.mem.used_bytes() as u64;
    let whole = u64::try_from(i64::from(o.max_write_buffer_number) - 1)
        .unwrap_or(0)
        .saturating_sub(f.imm.len() as u64);
    let left = whole.saturating_mul(limit) + limit.saturating_sub(used);
    // In the measure of what is written: a memtable holds more than keys and values.
    let last = f.imm.last().map(|i| &i.mem);
    let full = last.filter(|m| m.used_bytes() > 0).unwrap_or(&f.mem);
    let share = match full.used_bytes() {
        0 => 1.0,
        used => (full.data_bytes() as f64 / used as f64).min(1.0),
    };
    (left as f64 * share) as u64
}

/// Bytes of keys and values that were written to a family in all, those in its memtables included.
fn admitted(f: &FamilyState) -> u64 {
    let sealed: u64 = f.imm.iter().map(|i| i.mem.data_bytes()).sum();
    f.pace.flushed_payload + sealed + f.mem.data_bytes()
}

/// Level 0, or the sorted runs of universal compaction, and bytes that running compactions have taken out of it.
fn level0(f: &FamilyState, flushed: f64, compacts: bool, now: u64) -> (Level0Facts, u64) {
    let o = &f.settings.options;
    let runs = f.settings.levels.sorted_runs(&f.version);
    let trigger = o.level0_file_num_compaction_trigger;
    let jobs = f
        .compaction
        .progress()
        .iter()
        .filter(|j| j.level0_bytes > 0);
    let known = jobs.clone().filter_map(|j| j.left_and_spent(now));
    let first = known.min_by(|a, b| a.0.total_cmp(&b.0));
    let external = f.pace.files.external() as f64 / PARTS as f64;
    // Elsewhere the runs are the whole tree.
    let volume = match f.settings.levels.is_leveled() && runs > 0 {
        true => f.version.level_bytes(0) as f64 * (1.0 - external / runs as f64).max(0.0),
        false => 0.0,
    };
    let facts = Level0Facts {
        files: (runs as f64 + flushed - external).max(0.0),
        file_bytes: f.pace.flush_payload,
        volume: volume * f.pace.expansion(),
        relief: first.map(|j| j.0),
        spent: first.map_or(0.0, |j| j.1),
        rounds: f.pace.rounds,
        merged: f.pace.merged,
        trigger,
        stop: o.level0_stop_writes_trigger,
        drains: compacts && runs as i64 >= i64::from(trigger),
    };
    (facts, jobs.map(|j| j.level0_done()).sum())
}

#[cfg(test)]
mod tests;
