//! Makes room before a group is written: refuses, delays or stops it, and seals a full memtable.

use super::WriteOptions;
use super::count::WriteWaits;
use super::urgent::address;
use crate::core::{
    DbState, Family, LeaderState, Leadership, Lsm, PaceControl, Place, StallCondition, WaitCause,
    gate,
};
use crate::listener::FlushReason;
use spanlith_base::sync::{MutexGuard, assert_no_lock_is_held};
use spanlith_base::{Error, ErrorKind, Result, callbacks};
use std::time::Duration;

/// Longest wait of a writer for an ingestion.
const HOLD_MAX: Duration = Duration::from_secs(10);
/// Longest wait of a writer whose family is full before it looks how far flushes and compactions have come: a stop of the device is known
/// by that nothing moves.
const LOOK: Duration = Duration::from_millis(100);
/// Longest single sleep of a delayed writer, so that it notices soon that the delay is lifted.
const SLICE: Duration = Duration::from_millis(1);

/// How far a leader is with making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is some.
    Made,
    /// Listeners are to hear of something first.
    Told,
    /// Background work has to catch up.
    Gate,
    /// A write buffer manager waits for flushes.
    Budget,
}

/// Describes what a leader has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    /// Its delay, or the end of a stop.
    gate: bool,
    /// Room in the budget, which nobody is left to free.
    budget: bool,
}

/// Returns what a writer is told who does not want to wait.
pub(super) fn no_room() -> Error {
    Error::incomplete("Write stall")
}

/// Returns what a writer is told who has waited, or would have to wait, for longer than it wants to.
pub(super) fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "Write stall")
}

impl LeaderState {
    /// Called by the leader before it forms a group.
    #[inline]
    pub(super) fn make_room(
        &mut self,
        lsm: &Lsm,
        no_slowdown: bool,
        waited: Waited,
    ) -> Result<Room> {
        let bits = lsm.gate.bits() & !gate::NOT_LEADERS;
        if bits != 0 && (!waited.gate || bits & gate::STOP != 0) && !passes(lsm, bits) {
            return Ok(Room::Gate);
        }
        if self.log.is_out_of_room() {
            self.limit_logs(lsm)?;
        }
        let first = &self.slots[0];
        if first.mem.should_flush(first.limit) || !self.touched.is_empty() || first.charge.is_some()
        {
            return self.seal_full(lsm, no_slowdown, waited);
        }
        Ok(Room::Made)
    }

    /// Seals the memtables that are full.
    fn seal_full(&mut self, lsm: &Lsm, no_slowdown: bool, waited: Waited) -> Result<Room> {
        let mut full = Vec::new();
        let mut touched = std::mem::take(&mut self.touched);
        touched.push(0);
        touched.sort_unstable();
        touched.dedup();
        for &at in &touched {
            if let Some(slot) = self.slots.get(at)
                && slot.mem.should_flush(slot.limit)
            {
                full.push(at);
            }
        }
        if !full.is_empty() {
            let clock = &lsm.c.env.clock;
            let began = clock.monotonic_nanos();
            let switched = self.switch_memtables(lsm, &full, FlushReason::WriteBufferFull);
            let nanos = clock.monotonic_nanos().saturating_sub(began);
            lsm.throttle.times().add(WaitCause::Switch, nanos);
            switched.inspect_err(|e| lsm.set_error(Place::Seal, e))?;
            // The sealed memtable may be the one too many.
            if lsm.gate.has(gate::STOP) && !lsm.throttle.has_urgent() {
                self.touched = touched;
                return Ok(Room::Gate);
            }
        }
        let room = match self.slots[0].charge {
            Some(_) => self.keep_budget(lsm, &touched, no_slowdown, waited.budget)?,
            None => Room::Made,
        };
        match room {
            Room::Budget => self.touched = touched,
            _ => {
                touched.clear();
                self.touched = touched;
            }
        }
        Ok(match room {
            Room::Made if !self.untold.is_empty() => Room::Told,
            room => room,
        })
    }
}

impl Leadership {
    /// Goes on with making room for a group of at least `bytes`. Meanwhile others may lead: they change options, flush
    /// and sync while writers wait, and listeners may have them do it. The writer stays first in the queue.
    #[cold]
    pub(super) fn make_room_slowly<'a>(
        &'a self,
        lsm: &Lsm,
        mut leader: MutexGuard<'a, LeaderState>,
        mut room: Result<Room>,
        no_slowdown: bool,
        mut bytes: usize,
    ) -> (MutexGuard<'a, LeaderState>, Result<()>) {
        let _inside = callbacks::enter(callbacks::Place::Write(address(lsm)));
        let (mut waited, waits) = (Waited::default(), RoomWaits::new(lsm));
        loop {
            let has_news = !leader.untold.is_empty();
            if has_news {
                lsm.let_go(leader);
                leader = self.lock();
            }
            match room {
                Ok(Room::Made) => return (leader, Ok(())),
                Err(e) => return (leader, Err(e)),
                Ok(Room::Told) => {}
                Ok(Room::Gate) => {
                    drop(leader);
                    let lifted = waits.at_gate(no_slowdown, bytes);
                    lsm.reporter.tell_stalls();
                    leader = self.lock();
                    if let Err(e) = lifted {
                        return (leader, Err(e));
                    }
                    waited.gate = true;
                }
                Ok(Room::Budget) => {
                    drop(leader);
                    waited.budget = !waits.for_budget();
                    leader = self.lock();
                }
            }
            // Its delay is over.
            bytes = 0;
            room = leader.make_room(lsm, no_slowdown, waited);
        }
    }
}

/// Returns whether a leader goes on under these bits of the gate, for a write that others wait for.
#[cold]
fn passes(lsm: &Lsm, bits: u16) -> bool {
    bits & gate::REFUSE == 0 && lsm.throttle.has_urgent()
}

/// Says how long a writer waits for background work.
#[derive(Clone, Copy)]
struct Patience {
    no_slowdown: bool,
    /// Up to this time of the clock, looking every [`LOOK`] whether the state is another one; `None` for as long as it takes, until
    /// somebody says that it has changed.
    until: Option<u64>,
}

impl Patience {
    /// How long to wait before the next look; zero if it has waited for too long.
    fn nap(self, now: u64) -> Option<Duration> {
        let left = Duration::from_nanos(self.until?.saturating_sub(now));
        Some(left.min(LOOK))
    }
}

/// Waits of writers for room, without leadership.
pub(super) struct RoomWaits<'a> {
    pub(super) lsm: &'a Lsm,
}

impl<'a> RoomWaits<'a> {
    /// For room in these trees.
    pub(super) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Returns what a write that does not want to wait is told before it joins the queue, where it would stand behind one that
    /// does.
    #[cold]
    pub(super) fn check(&self) -> Result<()> {
        if self.lsm.gate.has(gate::STOP) {
            self.wait_at_gate(true, 0)?;
        }
        let manager = self.lsm.c.resources.write_buffers.as_ref();
        if manager.is_some_and(|m| m.should_stall()) {
            return Err(self.lsm.refusal().unwrap_or_else(no_room));
        }
        Ok(())
    }

    #[cold]
    fn at_gate(&self, no_slowdown: bool, bytes: usize) -> Result<()> {
        let began = self.lsm.c.env.clock.monotonic_nanos();
        let waits = WriteWaits::new(self.lsm);
        let cause = waits.cause();
        let waited = self.wait_at_gate(no_slowdown, bytes);
        let now = self.lsm.c.env.clock.monotonic_nanos();
        waits.count(now.saturating_sub(began), cause);
        waited
    }

    fn wait_at_gate(&self, no_slowdown: bool, bytes: usize) -> Result<()> {
        if let Some(e) = self.lsm.refusal() {
            return Err(e);
        }
        let bits = self.lsm.gate.bits();
        if bits & gate::DELAY != 0 && bytes > 0 {
            let clock = &self.lsm.c.env.clock;
            let mut left = self.lsm.throttle.delay(clock.monotonic_nanos(), bytes);
            if !left.is_zero() && no_slowdown {
                return Err(no_room());
            }
            let is_delayed = || self.lsm.gate.has(gate::DELAY);
            while !left.is_zero() && is_delayed() && !self.lsm.throttle.has_urgent() {
                let nap = left.min(SLICE);
                assert_no_lock_is_held();
                clock.sleep(nap);
                left -= nap;
            }
        }
        let mut state = self.lsm.state.lock();
        if bits & gate::HOLD != 0 && !no_slowdown {
            state = self.wait_for_ingestion(state);
        }
        let patience = Patience {
            no_slowdown,
            until: None,
        };
        self.wait_while(state, patience, |_| {
            self.lsm.gate.has(gate::STOP) && !self.lsm.throttle.has_urgent()
        })
    }

    /// Waits, before a write joins the queue, until the memtables of its family take more: nobody else waits for that. Returns for how
    /// many nanoseconds.
    ///
    /// # Errors
    /// `Incomplete` and `TimedOut` if it does not want to wait, or so long; of a database that takes no writes.
    #[cold]
    pub(super) fn for_family(&self, family: &Family, options: &WriteOptions) -> Result<u64> {
        let clock = &self.lsm.c.env.clock;
        let began = clock.monotonic_nanos();
        let stop = |state: &DbState| match state.family(family.id)?.stall {
            StallCondition::Stopped(cause) => Some(cause),
            _ => None,
        };
        let state = self.lsm.state.lock();
        let Some(cause) = stop(&state) else {
            return Ok(0);
        };
        let wait_max = options.wait_max.map(|max| max.as_nanos() as u64);
        let patience = Patience {
            no_slowdown: options.no_slowdown,
            until: Some(wait_max.map_or(u64::MAX, |max| began.saturating_add(max))),
        };
        let control = PaceControl::of(self.lsm);
        let waited = self.wait_while(state, patience, |state| {
            control.look(state, family);
            stop(state).is_some()
        });
        let nanos = clock.monotonic_nanos().saturating_sub(began);
        if nanos > 0 {
            WriteWaits::new(self.lsm).count(nanos, WaitCause::Rule(cause));
        }
        self.lsm.reporter.tell_stalls();
        waited.map(|()| nanos)
    }

    /// Waits for background work while writers are stopped.
    fn wait_while(
        &self,
        mut state: MutexGuard<'a, DbState>,
        patience: Patience,
        is_stopped: impl Fn(&DbState) -> bool,
    ) -> Result<()> {
        loop {
            if state.life.is_closing() {
                return Err(Error::shutdown("stalled writes"));
            }
            // W5: whoever waits is refused, too.
            if let Some(e) = state.trouble.refusal() {
                return Err(e);
            }
            if !is_stopped(&state) {
                return Ok(());
            }
            if state.life.gives_up() {
                // Nothing will lift the stop.
                return Err(Error::shutdown("stalled writes"));
            }
            if patience.no_slowdown {
                return Err(no_room());
            }
            let nap = patience.nap(self.lsm.c.env.clock.monotonic_nanos());
            if nap.is_some_and(|nap| nap.is_zero()) {
                return Err(too_slow());
            }
            if let Some(e) = self.lsm.escalate(&mut state) {
                return Err(e);
            }
            if state.trouble.next_release().is_some() && self.lsm.c.env.executor.is_manual() {
                drop(state);
                self.lsm.pass_time_for_tries();
                state = self.lsm.state.lock();
                continue;
            }
            // Ends with the flush or compaction that lifts the stop, with an error, with the try that
            // follows one, or with close.
            let executor = &self.lsm.c.env.executor;
            state = match nap.filter(|_| !executor.is_manual() && !executor.lacks_threads()) {
                Some(nap) => self.lsm.state.wait_timeout(state, nap).0,
                None => self.lsm.wait_changed(state),
            };
        }
    }

    /// Waits until no ingestion holds writers back, but not for ever.
    fn wait_for_ingestion(&self, mut state: MutexGuard<'a, DbState>) -> MutexGuard<'a, DbState> {
        let clock = &self.lsm.c.env.clock;
        let until = clock.monotonic_nanos() + HOLD_MAX.as_nanos() as u64;
        while state.jobs.hold_back_writers()
            && !state.life.gives_up()
            && !self.lsm.throttle.has_urgent()
        {
            let left = until.saturating_sub(clock.monotonic_nanos());
            if left == 0 {
                break;
            }
            let left = Duration::from_nanos(left);
            state = self.lsm.state.wait_timeout(state, left).0;
        }
        state
    }
}
