//! Which tables go to the speed disk: a rule of what is measured, without I/O, lock or clock.
//!
//! Two disks that serve the same calls are used best when one more table on either costs calls the same time. So the rule
//! of `auto` compares what calls lose on each disk, as it was measured with all that the disks have to do at that time: a disk
//! that is full of work answers later. Calls wait in two places. They wait for blocks that no cache has, which the time
//! of a *read* says. And writers are held back while flushes and compactions are behind, which the time of a byte of this *work*
//! says. The place in which calls waited longer in the last seconds decides.
//!
//! | by the first row that holds | the pointer goes |
//! |---|---|
//! | less than 8 % of the space is free | half a level up, to 0 at most |
//! | writes of the log take more than 4 times as long as calibrated, and writers lose more by that than readers gain by the disk | a quarter up, to -1 at most |
//! | tables take more than 65 % of the bandwidth that is known, and nothing says that it pays | the same |
//! | what calls wait for takes 1.15 times as long here as on the other disk, and the last move is settled | a quarter up, to 0 at most |
//! | it takes 1.15 times as long there, or nobody knows and tables take less than 40 % of the bandwidth; more than 15 % of the space is free and the next quarter fits into 85 %; the log takes less than twice as long as calibrated, or writers lose less by it than readers gain; the last move is settled | a quarter down |
//!
//! *Up* is to fewer levels. The pointer is moved at most once a second. After a move it stays for three seconds, and after it went
//! up it does not come down for thirty, unless readers waited then and writers do now, or the reverse. Times are means in which half a minute ago counts a third. A quantity that nobody
//! measured (a bandwidth, a calibrated log, reads on one of the disks) decides nothing; where nothing is asked of a disk any more, its
//! last time stands. *Settled*: the bytes of tables on the disk are those of the levels that the pointer counts but for 15 %, or it has
//! stood for thirty seconds. A move is seen only in tables that are written after it; a rule that did not wait for them would have
//! moved on by levels before it saw what a quarter had brought.

use crate::pointer::{PARTS, Pointer, Policy};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Time between two looks.
const TICK: u64 = SECOND;
/// How long the pointer stays where it was moved to.
const HOLD: u64 = 3 * SECOND;
/// How long it does not come down after it went up.
const HOLD_DOWN: u64 = 30 * SECOND;
/// Nanoseconds after which a measurement counts a third, by the law of e.
const FADE: f64 = 30e9;
/// The same of who waits.
const FADE_WHO: f64 = 10e9;
/// How long the pointer waits at most for the tables that it counts.
const SETTLE: u64 = 30 * SECOND;
/// Shares of the space, in hundredths.
const SPACE_LOW: u64 = 8;
const SPACE_HIGH: u64 = 15;
const FILL: u64 = 85;
/// Hundredths that bytes may be short of those of the levels that the pointer counts, or these of them, when it goes on.
const THERE: u64 = 85;
/// Shares of the bandwidth.
const BANDWIDTH_LOW: f64 = 0.40;
const BANDWIDTH_HIGH: f64 = 0.65;
/// How many times as long as calibrated writes of the log take before the pointer goes no more down, and up.
const LOG_LOW: f64 = 2.0;
const LOG_HIGH: f64 = 4.0;
/// How many times as long the one disk takes before the pointer is moved.
const BAND: f64 = 1.15;
/// Reads, and bytes of work, of a disk from which on their mean says something.
const READS_LEAST: f64 = 100.0;
const BYTES_LEAST: f64 = (8u64 << 20) as f64;

/// Describes what the tables of a disk were asked for since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Reads of calls.
    pub reads: u64,
    /// Nanoseconds that these took.
    pub reads_nanos: u64,
    /// Bytes that flushes and compactions read.
    pub inputs: u64,
    /// Nanoseconds that these took.
    pub inputs_nanos: u64,
    /// Bytes that flushes and compactions wrote.
    pub outputs: u64,
    /// Nanoseconds that these took.
    pub outputs_nanos: u64,
}

/// How long durable writes of the log take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTime {
    /// Nanoseconds of one, of late.
    pub nanos: u64,
    /// Nanoseconds of one on the idle disk.
    pub calibrated: u64,
}

/// The findings of a look.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Nanoseconds of a clock that never goes back.
    pub now: u64,
    /// Bytes that tables may take on the speed disk.
    pub capacity: u64,
    /// Bytes that they take, and those that are being written.
    pub used: u64,
    /// Bytes kept free for what flushes and compactions write next.
    pub reserved: u64,
    /// Bytes of each level, wherever they are, from the top.
    pub levels: Vec<u64>,
    /// Share of the bandwidth that tables take; `None` if nobody knows.
    pub bandwidth: Option<f64>,
    /// Time of a durable write of the log; `None` if nobody knows.
    pub log: Option<LogTime>,
    /// The requests of tables on the speed disk.
    pub fast: Asked,
    /// The requests of all other tables.
    pub other: Asked,
    /// Writes since the open.
    pub writes: u64,
    /// Nanoseconds that writers were held back since the open, of all together.
    pub held_nanos: u64,
}

impl Facts {
    /// Hundredths of the space that are free.
    fn free(&self) -> u64 {
        let free = self.capacity.saturating_sub(self.used);
        u64::try_from(u128::from(free) * 100 / u128::from(self.capacity.max(1))).unwrap_or(0)
    }

    fn fits(&self, pointer: Pointer) -> bool {
        let expected = u128::from(pointer.expected(&self.levels)) + u128::from(self.reserved);
        expected * 100 <= u128::from(self.capacity) * u128::from(FILL)
    }

    /// The lowest pointer whose levels fit.
    fn lowest_fit(&self) -> Pointer {
        let mut all = (0..=self.lowest()).rev().map(Pointer);
        all.find(|p| self.fits(*p)).unwrap_or(Pointer(0))
    }

    /// The pointer that counts all levels.
    fn lowest(&self) -> i32 {
        i32::try_from(self.levels.len()).map_or(0, |n| n.saturating_mul(PARTS))
    }

    /// Returns whether the bytes of tables on the disk are those of the levels that `pointer` counts, or more.
    fn has_come(&self, pointer: Pointer) -> bool {
        let expected = u128::from(pointer.expected(&self.levels));
        u128::from(self.used) * 100 >= expected * u128::from(THERE)
    }

    /// Returns whether they are, or are less.
    fn has_gone(&self, pointer: Pointer) -> bool {
        let expected = u128::from(pointer.expected(&self.levels)) + u128::from(self.reserved);
        u128::from(self.used) * u128::from(THERE) <= expected * 100
    }
}

/// A quantity and its nanoseconds, of which older ones count less.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: f64,
    nanos: f64,
    /// Nanoseconds of one when there were enough of them last; 0: never.
    of_one: f64,
}

impl Mean {
    fn add(&mut self, keep: f64, (count, nanos): (u64, u64), least: f64) {
        self.count = self.count * keep + count as f64;
        self.nanos = self.nanos * keep + nanos as f64;
        // A clock that stands still says nothing.
        if self.count >= least && self.nanos > 0.0 {
            self.of_one = self.nanos / self.count;
        }
    }

    /// Nanoseconds of one, if they were ever known.
    fn of_one(&self) -> Option<f64> {
        (self.of_one > 0.0).then_some(self.of_one)
    }
}

/// The requests of a disk, of which older ones count less.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// The totals of the last look.
    seen: Asked,
    reads: Mean,
    inputs: Mean,
    outputs: Mean,
}

impl Load {
    fn add(&mut self, keep: f64, all: &Asked) {
        let old = std::mem::replace(&mut self.seen, *all);
        let since = |now: (u64, u64), before: (u64, u64)| {
            (
                now.0.saturating_sub(before.0),
                now.1.saturating_sub(before.1),
            )
        };
        let reads = since((all.reads, all.reads_nanos), (old.reads, old.reads_nanos));
        self.reads.add(keep, reads, READS_LEAST);
        let inputs = since(
            (all.inputs, all.inputs_nanos),
            (old.inputs, old.inputs_nanos),
        );
        self.inputs.add(keep, inputs, BYTES_LEAST);
        let outputs = since(
            (all.outputs, all.outputs_nanos),
            (old.outputs, old.outputs_nanos),
        );
        self.outputs.add(keep, outputs, BYTES_LEAST);
    }
}

/// Calls' waits of late.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    fast: Load,
    other: Load,
    /// Writes, and the nanoseconds that they were held back.
    held: Mean,
    /// Nanoseconds in which writers and readers waited, of a shorter time.
    writers: f64,
    readers: f64,
    seen: (u64, u64),
}

impl Waits {
    fn add(&mut self, passed: u64, facts: &Facts) {
        let keep = (-(passed as f64) / FADE).exp();
        let all = |fast: &Load, other: &Load| fast.seen.reads_nanos + other.seen.reads_nanos;
        let before = all(&self.fast, &self.other);
        self.fast.add(keep, &facts.fast);
        self.other.add(keep, &facts.other);
        let reads = all(&self.fast, &self.other).saturating_sub(before) as f64;
        let (writes, nanos) = self.seen;
        let nanos = facts.held_nanos.saturating_sub(nanos);
        let writes = facts.writes.saturating_sub(writes);
        self.held.add(keep, (writes, nanos), 1.0);
        let keep = (-(passed as f64) / FADE_WHO).exp();
        self.writers = self.writers * keep + nanos as f64;
        self.readers = self.readers * keep + reads;
        self.seen = (facts.writes, facts.held_nanos);
    }

    /// Returns whether calls wait longer to write than to read.
    fn are_writers(&self) -> bool {
        self.writers > self.readers
    }

    /// How many times as long the other disk takes for what calls wait for; `None` if nobody knows of both.
    fn gain(&self) -> Option<f64> {
        let ratio = |of: &dyn Fn(&Load) -> Mean| {
            let (fast, other) = (of(&self.fast).of_one(), of(&self.other).of_one());
            fast.zip(other)
        };
        if !self.are_writers() {
            let (fast, other) = ratio(&|l| l.reads)?;
            return Some(other / fast);
        }
        // Of a byte that is read and written, as far as both disks did.
        let inputs = ratio(&|l| l.inputs);
        let outputs = ratio(&|l| l.outputs);
        let known = inputs.iter().chain(&outputs);
        let (fast, other) = known.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (fast > 0.0).then(|| other / fast)
    }

    /// Returns whether writers lose more by a log that waits than readers gain by the disk.
    fn is_log_dearer(&self, log: LogTime) -> bool {
        let lost = self.held.count * log.nanos.saturating_sub(log.calibrated) as f64;
        let pair = self.fast.reads.of_one().zip(self.other.reads.of_one());
        let gained = pair.map_or(0.0, |(fast, other)| self.fast.reads.count * (other - fast));
        lost >= gained
    }
}

/// Why the pointer was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The policy says so, or it is the first look.
    Set,
    /// Space is short.
    Space,
    /// The log waits, or the bandwidth is taken.
    Load,
    /// The other disk takes less time.
    Dear,
    /// There is room, and the other disk takes more time.
    Room,
}

/// The rule and what it remembers.
#[derive(Clone, Debug)]
pub struct Placement {
    pointer: Pointer,
    policy: Option<Policy>,
    looked: u64,
    moved: u64,
    /// When it went up, and whether writers waited longer than readers then.
    went_up: Option<(u64, bool)>,
    waits: Waits,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            pointer: Pointer::NOTHING,
            policy: None,
            looked: 0,
            moved: 0,
            went_up: None,
            waits: Waits::default(),
        }
    }
}

impl Placement {
    /// Where the pointer is.
    pub fn pointer(&self) -> Pointer {
        self.pointer
    }

    /// Returns whether it is time to look again.
    pub fn is_due(&self, policy: Policy, now: u64) -> bool {
        self.policy != Some(policy) || now.saturating_sub(self.looked) >= TICK
    }

    /// Looks, and moves the pointer if the rule says so.
    pub fn look(&mut self, policy: Policy, facts: &Facts) -> Option<Move> {
        let passed = facts.now.saturating_sub(self.looked);
        self.waits.add(passed, facts);
        self.looked = facts.now;
        if self.policy != Some(policy) {
            self.policy = Some(policy);
            self.went_up = None;
            let pointer = match policy {
                Policy::Pl => Pointer::NOTHING,
                Policy::Lad(levels) => Pointer::at(levels),
                Policy::Auto => facts.lowest_fit(),
            };
            return self.set(pointer, facts.now, Move::Set);
        }
        if policy != Policy::Auto || facts.now.saturating_sub(self.moved) < HOLD {
            return None;
        }
        let (to, why) = self.rule(facts)?;
        self.set(to, facts.now, why)
    }

    /// The disk had no room for a table: the pointer goes up at once, whatever the hold.
    pub fn note_full(&mut self, now: u64) -> Option<Move> {
        if self.policy != Some(Policy::Auto) || self.pointer.0 <= 0 {
            return None;
        }
        let to = Pointer((self.pointer.0 - PARTS / 2).max(0));
        self.set(to, now, Move::Space)
    }

    fn set(&mut self, to: Pointer, now: u64, why: Move) -> Option<Move> {
        if to == self.pointer {
            return None;
        }
        if to.0 < self.pointer.0 && why != Move::Set {
            self.went_up = Some((now, self.waits.are_writers()));
        }
        self.pointer = to;
        self.moved = now;
        Some(why)
    }

    /// The decision table of `auto`.
    fn rule(&self, facts: &Facts) -> Option<(Pointer, Move)> {
        let at = self.pointer.0;
        if facts.free() < SPACE_LOW && at > 0 {
            return Some((Pointer((at - PARTS / 2).max(0)), Move::Space));
        }
        let waits = |times: f64| {
            let is_late = |log: &LogTime| log.nanos as f64 > log.calibrated as f64 * times;
            let late = facts.log.filter(is_late);
            late.is_some_and(|log| self.waits.is_log_dearer(log))
        };
        let gain = self.waits.gain();
        let is_worth_it = gain.is_some_and(|g| g > BAND);
        let is_busy = facts.bandwidth.is_some_and(|u| u > BANDWIDTH_HIGH);
        if is_busy && !is_worth_it || waits(LOG_HIGH) {
            let to = Pointer((at - 1).max(-PARTS));
            return (to.0 < at).then_some((to, Move::Load));
        }
        let is_old = facts.now.saturating_sub(self.moved) >= SETTLE;
        if gain.is_some_and(|g| g < 1.0 / BAND) && at > 0 {
            // The next tables say what a move brings for those who write them.
            let is_settled = self.waits.are_writers() || is_old || facts.has_gone(self.pointer);
            return is_settled.then_some((Pointer(at - 1), Move::Dear));
        }
        // Another reason than that for which it went up holds nothing.
        let is_held = |(since, for_writers): (u64, bool)| {
            facts.now.saturating_sub(since) < HOLD_DOWN
                && (gain.is_none() || for_writers == self.waits.are_writers())
        };
        if self.went_up.is_some_and(is_held) || at >= facts.lowest() {
            return None;
        }
        let has_time = facts.bandwidth.is_none_or(|u| u < BANDWIDTH_LOW);
        let pays = (is_worth_it || gain.is_none() && has_time)
            && !waits(LOG_LOW)
            && (is_old || facts.has_come(self.pointer));
        let to = Pointer(at + 1);
        let has_room = facts.free() > SPACE_HIGH && facts.fits(to);
        (pays && has_room).then_some((to, Move::Room))
    }
}

#[cfg(test)]
mod tests;
