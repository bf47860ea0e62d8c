//! A simulated database whose tables lie on two devices: the real picker and the real rule of placement, on tables without
//! values, under a virtual clock.
//!
//! ```text
//! step   calls ─► what processors, readers, devices and memtables carry ─► memtable ─► flush ─► levels ─► compactions
//!                                  ▲ how busy the devices are ◄────────── tables that are read and written
//! ```
//!
//! Calls and bytes flow in steps of ten milliseconds; single requests are not told apart. A device serves calls first, and what it
//! does for tables makes their requests wait as a queue does: by `1 / (1 - busy)`. The log is on the speed disk and counts as calls.

use super::costs::Costs;
use super::load::{Device, Load};
use crate::sim::tree::Tree;
use spanlith::picker::CompactionPlan;
use spanlith::version::LevelOptions;
use spanlith_env::emulated::DeviceSpec;
use spanlith_pace::{SpeedUpInput, wants_speed_up};
use spanlith_speed::{Facts, LogTime, Placement, Pointer, Policy};
use std::collections::HashMap;

/// Seconds of a step.
const STEP: f64 = 0.01;
/// Steps of a window of the outcome.
const WINDOW: u64 = 10;
/// Bytes per second that a compaction, and a flush, does of the processor alone.
const MERGE_SPEED: f64 = 500e6;
const FLUSH_SPEED: f64 = 1e9;
/// Files of level 0 from which on writes are slowed down, and stop.
const SLOWDOWN: i32 = 20;
const STOP: i32 = 36;
/// Bytes that compactions have to rewrite, from which on writes are slowed down, and stop.
const SOFT: u64 = 64 << 30;
const HARD: u64 = 256 << 30;
/// Most seconds of rest before the load.
const REST_MAX: u64 = 3_600;
/// Weight of the last second in the share of the bandwidth, as the engine has it.
const SHARE_FRESH: f64 = 0.2;
/// Memtables, the active one among them.
const MEMTABLES: usize = 4;
/// The speed disk among the two devices.
pub(super) const FAST: usize = 1;

/// How many flushes and compactions run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// One flush and one compaction.
    Few,
    /// Two and six.
    Many,
    /// One compaction, and six while they fall behind, as in the engine.
    Auto,
}

/// A part of the load.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// How long it is.
    pub seconds: f64,
    /// Reads of a hundred calls.
    pub read_percent: u64,
    /// So many calls come at once every so many seconds; `None` if there are always more.
    pub burst: Option<(f64, f64)>,
}

/// Describes what is simulated.
#[derive(Clone, Debug)]
pub struct TableParams {
    /// Device of the tables.
    pub tables: DeviceSpec,
    /// The speed disk.
    pub log: DeviceSpec,
    /// Which tables go there.
    pub policy: Policy,
    /// Bytes of it for tables.
    pub space: u64,
    /// Flushes and compactions.
    pub jobs: Jobs,
    /// Bytes of all keys, each once. The last level begins with all of them.
    pub data_bytes: u64,
    /// Bytes of a memtable.
    pub memtable_bytes: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// Calls that clients have outstanding.
    pub outstanding: u64,
    /// Threads of the engine that read.
    pub readers: u64,
    /// Reads of a hundred that caches answer.
    pub cached_percent: u64,
    /// The service times of processors.
    pub costs: Costs,
    /// Seconds that are not counted: of the first part of the load, or of writes for a tree that grows.
    pub warm_seconds: f64,
    /// The tree begins with its last level alone, writes fill the others, and compactions come to rest before the load. Otherwise all
    /// levels are full at once, and compactions and placement find their balance under the load.
    pub grows: bool,
    /// The load, one part after the other.
    pub phases: Vec<Phase>,
}

impl TableParams {
    /// The set-up of the document: 512 GB, memtables of 1 GB, 365 GB of the speed disk for tables, 400 calls outstanding.
    pub fn new(tables: DeviceSpec, log: DeviceSpec, policy: Policy) -> Self {
        Self {
            tables,
            log,
            policy,
            space: 365 << 30,
            jobs: Jobs::Auto,
            data_bytes: 512 << 30,
            memtable_bytes: 1 << 30,
            entry_bytes: 1040,
            outstanding: 400,
            readers: 64,
            cached_percent: 60,
            costs: Costs::reference(),
            warm_seconds: 600.0,
            grows: false,
            phases: Vec::new(),
        }
    }
}

/// A tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Calls that were answered.
    pub calls: f64,
    /// Sum of their nanoseconds.
    pub nanos: f64,
    /// Seconds in which there were calls to answer.
    pub busy: f64,
    /// Flushes and compactions at its end.
    pub jobs: usize,
    /// Calls that wait at its end, of a burst.
    pub left: f64,
    /// Levels that the pointer of placement counts at its end.
    pub levels: f64,
    /// Bytes that compactions have to rewrite at its end.
    pub debt: f64,
}

/// Describes what came of it.
#[derive(Clone, Debug, Default)]
pub struct TableOutcome {
    /// Tenths of seconds.
    pub windows: Vec<Window>,
    /// Most bytes of all levels but the last, over what they aim at.
    pub bulge: f64,
    /// Bytes that were written to tables, by those of calls.
    pub amplification: f64,
}

impl TableOutcome {
    /// Calls by second and mean nanoseconds of one, of windows from `from` to before `to`, while there were calls to answer.
    pub fn mean(&self, from: usize, to: usize) -> (f64, f64) {
        let part = self.windows.get(from..to.min(self.windows.len()));
        let part = part.unwrap_or_default();
        let sum = |of: &dyn Fn(&Window) -> f64| part.iter().map(of).sum::<f64>();
        let calls = sum(&|w| w.calls).max(1.0);
        (
            calls / sum(&|w| w.busy).max(STEP),
            sum(&|w| w.nanos) / calls,
        )
    }
}

/// A compaction that runs.
struct Job {
    plan: CompactionPlan,
    left: f64,
    /// Shares of what is read, and of what is written, by device.
    from: [f64; 2],
    to: [f64; 2],
    /// Bytes written by bytes read.
    ratio: f64,
}

struct Sim<'a> {
    p: &'a TableParams,
    tree: Tree,
    /// Tables that are on the speed disk, with their bytes.
    fast: HashMap<u64, u64>,
    seen: u64,
    placement: Placement,
    /// Share of the bandwidth of the speed disk that tables take, smoothed.
    share: f64,
    /// Shares of the reads of tables by device.
    read_shares: [f64; 2],
    devices: [Device; 2],
    active: f64,
    /// Sealed memtables: what is left to flush of each.
    sealed: Vec<f64>,
    jobs: Vec<Job>,
    is_behind: bool,
    /// Bytes that compactions have to rewrite.
    debt: u64,
    /// Writes, and nanoseconds that writers were held back.
    held: (f64, f64),
    /// Bytes that went to tables, of calls, and to tables of the speed disk since the last look.
    written: (f64, f64, f64),
    out: TableOutcome,
}

/// Runs it.
pub fn run_levels(p: &TableParams) -> TableOutcome {
    let options = LevelOptions {
        write_buffer_size: p.memtable_bytes,
        max_bytes_for_level_base: p.memtable_bytes * 4,
        target_file_size_base: p.memtable_bytes / 2,
        ..LevelOptions::default()
    };
    let mut tree = Tree::new(options, p.data_bytes);
    tree.fill();
    if !p.grows {
        tree.fill_upper();
    }
    let mut sim = Sim {
        p,
        tree,
        fast: HashMap::new(),
        seen: 0,
        placement: Placement::default(),
        share: 0.0,
        read_shares: [0.0; 2],
        devices: [
            Device::new(&p.tables, 1 << 20),
            Device::new(&p.log, 64 << 10),
        ],
        active: 0.0,
        sealed: Vec::new(),
        jobs: Vec::new(),
        is_behind: false,
        debt: 0,
        held: (0.0, 0.0),
        written: (0.0, 0.0, 0.0),
        out: TableOutcome::default(),
    };
    sim.look(1);
    sim.settle(false);
    let mut step = 0;
    sim.warm(&mut step);
    for phase in &p.phases {
        sim.phase(phase, &mut step);
    }
    sim.out.amplification = sim.written.0 / sim.written.1.max(1.0);
    sim.out
}

impl Sim<'_> {
    /// Runs what is not counted, and forgets it.
    fn warm(&mut self, step: &mut u64) {
        let first = self.p.phases.first().copied().filter(|_| !self.p.grows);
        let phase = |seconds, burst| Phase {
            seconds,
            read_percent: first.map_or(0, |p| p.read_percent),
            burst,
        };
        let burst = first.and_then(|p| p.burst);
        self.phase(&phase(self.p.warm_seconds, burst), step);
        let most = if self.p.grows { REST_MAX } else { 0 };
        for _ in 0..most {
            if self.jobs.is_empty() && self.sealed.is_empty() {
                break;
            }
            self.phase(&phase(1.0, Some((1.0, 0.0))), step);
        }
        self.written = (0.0, 0.0, self.written.2);
        self.out = TableOutcome::default();
    }

    fn phase(&mut self, phase: &Phase, step: &mut u64) {
        let steps = (phase.seconds / STEP) as u64;
        let mut left = if phase.burst.is_some() {
            0.0
        } else {
            f64::INFINITY
        };
        let mut window = Window::default();
        for n in 0..steps {
            if let Some((period, calls)) = phase.burst
                && n.is_multiple_of((period / STEP) as u64)
            {
                left += calls;
            }
            self.work();
            self.answer(phase, &mut left, &mut window);
            *step += 1;
            if step.is_multiple_of((1.0 / STEP) as u64) {
                self.look((*step as f64 * STEP * 1e9) as u64);
            }
            if (n + 1).is_multiple_of(WINDOW) {
                window.jobs = self.jobs.len() + usize::from(!self.sealed.is_empty());
                window.left = if left.is_finite() { left } else { 0.0 };
                window.levels = self.placement.pointer().levels();
                window.debt = self.debt as f64;
                self.out.windows.push(window);
                window = Window::default();
            }
        }
    }

    /// A level's place among those that have tables, as the engine counts it.
    fn rank(&self, level: usize) -> u32 {
        let version = &self.tree.version;
        let above = (1..level).filter(|&l| version.num_files(l) > 0).count();
        u32::try_from(above + usize::from(level > 0)).unwrap_or(u32::MAX)
    }

    /// Gives new tables their places, and forgets those that are gone.
    fn settle(&mut self, is_flush: bool) {
        let mut newest = self.seen;
        let mut kept = HashMap::new();
        let pointer = self.placement.pointer();
        let mut used: u64 = self.fast.values().sum();
        for (level, file) in self.tree.version.file_iter() {
            newest = newest.max(file.number);
            let is_new = file.number > self.seen;
            let takes = is_new
                && pointer.takes(self.rank(level), file.number, is_flush)
                && used + file.size <= self.p.space;
            if takes {
                used += file.size;
            }
            if takes || self.fast.contains_key(&file.number) {
                kept.insert(file.number, file.size);
            }
        }
        self.fast = kept;
        self.seen = newest;
        self.read_shares = self.reads();
    }

    fn look(&mut self, now: u64) {
        let version = &self.tree.version;
        let mut levels = Vec::new();
        for level in 0..version.num_levels() {
            let rank = self.rank(level) as usize;
            if levels.len() <= rank {
                levels.resize(rank + 1, 0);
            }
            levels[rank] += version.level_bytes(level);
        }
        let fast = &self.devices[FAST];
        let taken = self.written.2 / fast.write_bandwidth();
        self.written.2 = 0.0;
        self.share += (taken - self.share) * SHARE_FRESH;
        let facts = Facts {
            now,
            capacity: self.p.space,
            used: self.fast.values().sum(),
            reserved: self.p.memtable_bytes * 2,
            levels,
            bandwidth: Some(self.share),
            log: Some(LogTime {
                nanos: fast.write_nanos() as u64,
                calibrated: self.p.log.scaled_profile().write_nanos,
            }),
            fast: fast.asked(),
            other: self.devices[1 - FAST].asked(),
            writes: self.held.0 as u64,
            held_nanos: self.held.1 as u64,
        };
        self.placement.look(self.p.policy, &facts);
    }

    /// Shares of tables by device.
    fn shares<'f>(&self, files: impl Iterator<Item = (u64, u64)> + 'f) -> [f64; 2] {
        let (mut fast, mut all) = (0, 0);
        for (number, size) in files {
            all += size;
            fast += if self.fast.contains_key(&number) {
                size
            } else {
                0
            };
        }
        let fast = fast as f64 / all.max(1) as f64;
        [1.0 - fast, fast]
    }

    /// Shares of tables that will be written to a level.
    fn planned(&self, pointer: Pointer, level: usize, is_flush: bool) -> [f64; 2] {
        let rank = self.rank(level);
        let numbers = self.seen + 1..=self.seen + 32;
        let fast = numbers
            .filter(|n| pointer.takes(rank, *n, is_flush))
            .count() as f64
            / 32.0;
        [1.0 - fast, fast]
    }

    fn slots(&self) -> (usize, usize) {
        match (self.p.jobs, self.is_behind) {
            (Jobs::Few, _) => (1, 1),
            (Jobs::Auto, false) => (2, 1),
            (Jobs::Many, _) | (Jobs::Auto, true) => (2, 6),
        }
    }

    /// Takes in a new version and begins what it asks for.
    fn install(&mut self, is_flush: bool) {
        self.settle(is_flush);
        let targets = self.tree.targets();
        self.debt = targets.pending_compaction_bytes;
        let version = &self.tree.version;
        let last = version.num_levels() - 1;
        self.is_behind = wants_speed_up(&SpeedUpInput {
            l0_files: version.num_files(0),
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: SLOWDOWN,
            pending_compaction_bytes: targets.pending_compaction_bytes,
            soft_pending_compaction_bytes_limit: SOFT,
            bottommost_bytes: version.level_bytes(last),
            max_bytes_for_level_base: self.p.memtable_bytes * 4,
            marked_files: 0,
        });
        let upper: u64 = (0..last).map(|l| version.level_bytes(l)).sum();
        let aims = targets.max_bytes.iter().take(last);
        let aims: u64 = aims.filter(|&&b| b < u64::MAX).sum();
        let aims = aims + 4 * self.p.memtable_bytes;
        self.out.bulge = self.out.bulge.max(upper as f64 / aims as f64);
        while self.jobs.len() < self.slots().1 {
            let Some(plan) = self.tree.pick() else { break };
            let inputs = plan.input_bytes().max(1) as f64;
            let moves = plan.is_trivial_move;
            self.jobs.push(Job {
                left: if moves { 0.0 } else { inputs },
                from: self.shares(plan.input_files().map(|f| (f.number, f.size))),
                to: self.planned(self.placement.pointer(), plan.output_level, false),
                ratio: self.tree.merged(&plan) as f64 / inputs,
                plan,
            });
        }
    }

    /// One step of flushes and compactions.
    fn work(&mut self) {
        let to = self.planned(self.placement.pointer(), 0, true);
        let (flushes, _) = self.slots();
        let mut loads: Vec<(f64, Load)> = Vec::new();
        for left in self.sealed.iter().take(flushes) {
            loads.push((*left, Load::new(&self.devices, [0.0; 2], to, FLUSH_SPEED)));
        }
        let flushing = loads.len();
        for job in &self.jobs {
            let out = job.to.map(|share| share * job.ratio);
            loads.push((
                job.left,
                Load::new(&self.devices, job.from, out, MERGE_SPEED),
            ));
        }
        let done = Load::share(&mut self.devices, &loads, STEP);
        for (load, bytes) in loads.iter().zip(&done) {
            let written: f64 = load.1.writes.iter().sum();
            self.written.0 += written * bytes;
            self.written.2 += (load.1.writes[FAST] + load.1.reads[FAST]) * bytes;
        }
        for (left, bytes) in self.sealed.iter_mut().zip(done.iter().take(flushing)) {
            *left -= bytes;
        }
        for (job, bytes) in self.jobs.iter_mut().zip(done.iter().skip(flushing)) {
            job.left -= bytes;
        }
        while self.sealed.first().is_some_and(|left| *left <= 1.0) {
            self.sealed.remove(0);
            self.tree.flush(self.p.memtable_bytes);
            self.install(true);
        }
        while let Some(at) = self.jobs.iter().position(|j| j.left <= 1.0) {
            let job = self.jobs.swap_remove(at);
            self.tree.finish(&job.plan);
            self.install(false);
        }
    }

    /// Shares of the reads of tables by device: of a level, as the root of its bytes.
    fn reads(&self) -> [f64; 2] {
        let version = &self.tree.version;
        let (mut sums, mut all) = ([0.0; 2], 0.0);
        for level in (0..version.num_levels()).filter(|&l| version.num_files(l) > 0) {
            let weight = (version.level_bytes(level) as f64).sqrt();
            let files = version.files(level).iter();
            let shares = self.shares(files.map(|f| (f.number, f.size)));
            for (sum, share) in sums.iter_mut().zip(shares) {
                *sum += weight * share;
            }
            all += weight;
        }
        sums.map(|sum| sum / f64::max(all, 1.0))
    }

    /// Share of writes that may go on.
    fn gate(&self) -> f64 {
        let files = self.tree.version.num_files(0) as f64;
        let (from, to) = (f64::from(SLOWDOWN), f64::from(STOP));
        let by_files = (to - files) / (to - from);
        let by_debt = HARD.saturating_sub(self.debt) as f64 / (HARD - SOFT) as f64;
        by_files.min(by_debt).clamp(0.0, 1.0)
    }

    /// One step of calls.
    fn answer(&mut self, phase: &Phase, left: &mut f64, window: &mut Window) {
        let p = self.p;
        let c = p.costs;
        let room = p.memtable_bytes as f64;
        if self.active >= room && self.sealed.len() + 1 < MEMTABLES {
            self.sealed.push(room);
            self.active = 0.0;
        }
        let reads = phase.read_percent as f64 / 100.0;
        let (writes, miss) = (1.0 - reads, 1.0 - p.cached_percent as f64 / 100.0);
        let shares = self.read_shares;
        let fast = &self.devices[FAST];
        // One thread writes for all: a group's time in the log, and that of its entries.
        let log = p.entry_bytes as f64 * 1e9 / (fast.write_bandwidth() * (1.0 - fast.tables()));
        let write = (c.log_entry + c.insert) as f64 + log;
        let fetch: f64 = (0..2)
            .map(|d| shares[d] * self.devices[d].read_nanos())
            .sum();
        let read = c.get as f64 + miss * fetch;
        let own = (c.issue + c.request + c.switch) as f64;
        let alone = own + writes * (c.group as f64 + fast.write_nanos()) + reads * read;
        let mut most = p.outstanding as f64 * 1e9 / alone;
        let mut held = f64::INFINITY;
        if writes > 0.0 {
            let one_thread = 1e9 / write / writes;
            most = most.min(one_thread);
            // A memtable that is full while none may be sealed stops all who write.
            let free = (room - self.active).max(0.0) / p.entry_bytes as f64;
            held = (one_thread * self.gate()).min(free / STEP / writes);
        }
        if reads > 0.0 {
            most = most.min(p.readers as f64 * 1e9 / read / reads);
            for (device, share) in self.devices.iter().zip(shares) {
                let misses = reads * miss * share;
                if misses > 0.0 {
                    most = most.min(device.reads_per_second() / misses);
                }
            }
        }
        if held < most {
            // Calls that are neither served nor in a queue of a device stand before the memtable.
            let served = held * alone / 1e9;
            let standing = (p.outstanding as f64 - served).max(0.0);
            self.held.1 += if *left > 0.0 {
                standing * STEP * 1e9
            } else {
                0.0
            };
            most = held;
        }
        let calls = (most * STEP).min(*left);
        *left -= calls;
        self.held.0 += calls * writes;
        window.calls += calls;
        window.busy += if calls > 0.0 || *left > 0.0 {
            STEP
        } else {
            0.0
        };
        window.nanos += calls * p.outstanding as f64 * 1e9 / most.max(1.0);
        let bytes = calls * writes * p.entry_bytes as f64;
        self.active += bytes;
        self.written.1 += bytes;
        for (n, device) in self.devices.iter_mut().enumerate() {
            let logged = if n == FAST { bytes } else { 0.0 };
            device.note_calls(calls * reads * miss * shares[n], logged, STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(policy: Policy, read_percent: u64, warm_seconds: f64) -> TableOutcome {
        let mut params = TableParams::new("S-RAID5".parse().unwrap(), "O".parse().unwrap(), policy);
        params.warm_seconds = warm_seconds;
        params.phases.push(Phase {
            seconds: 10.0,
            read_percent,
            burst: None,
        });
        run_levels(&params)
    }

    #[test]
    fn a_run_is_a_function_of_its_parameters_and_fills_its_windows() {
        let one = outcome(Policy::Auto, 50, 20.0);
        assert_eq!(one.windows, outcome(Policy::Auto, 50, 20.0).windows);
        assert_eq!(one.windows.len(), 100);
        assert!(one.windows.iter().all(|w| w.calls >= 0.0 && w.nanos >= 0.0));
        assert!(one.mean(0, 100).0 > 1000.0, "{:?}", one.mean(0, 100));
    }

    /// Tables on the faster device are read sooner.
    #[test]
    fn reads_gain_by_levels_on_the_speed_disk() {
        let (pl, auto) = (outcome(Policy::Pl, 95, 0.0), outcome(Policy::Auto, 95, 0.0));
        assert!(auto.mean(20, 100).1 < pl.mean(20, 100).1);
        // All levels above the last one and a quarter of that: half of it does not fit into 85 %.
        assert_eq!(auto.windows[0].levels, 4.25);
    }

    #[test]
    fn a_burst_ends_and_waits_for_the_next() {
        let mut params =
            TableParams::new("S-RAID5".parse().unwrap(), "O".parse().unwrap(), Policy::Pl);
        params.warm_seconds = 20.0;
        params.phases.push(Phase {
            seconds: 10.0,
            read_percent: 0,
            burst: Some((5.0, 100_000.0)),
        });
        let out = run_levels(&params);
        let calls: f64 = out.windows.iter().map(|w| w.calls).sum();
        assert!((calls - 200_000.0).abs() < 1.0, "{calls}");
        assert_eq!(out.windows[40].calls, 0.0);
    }
}
