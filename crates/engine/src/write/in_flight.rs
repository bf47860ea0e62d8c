//! Groups that ask for a sync, on a log that syncs beside others: several are on their way to the disk at a time.
//!
//! ```text
//!   lead: order, log, begin the sync ─► pass leadership on ─► end the sync ─► apply ─► publish ─► land
//! ```
//!
//! The next group is ordered, logged and sent off while this one is being written. A group is applied once it and all
//! groups before it are durable, and released once it is visible. Only plain groups go this way ([`may_take_off`]):
//! all others wait until no group is in flight ([`Leadership::lock`]), among them those that seal memtables, begin a log
//! or change families. So nothing that an insertion needs changes while a group is in flight.
//!
//! A group whose sync fails takes those behind it along: their pages may be durable, but a recovery ends before them (D6).
//!
//! [`Leadership::lock`]: crate::core::Leadership::lock

use super::apply::{Published, apply};
use super::count::GroupFacts;
use super::measured::Stages;
use super::pipeline::own;
use crate::core::{Engine, LeaderState, MemSlot, Part, Parts, Payload, Place, Request};
use spanlith_base::keys::MAX_SEQUENCE;
use spanlith_base::perf::{self, PerfTime};
use spanlith_base::stats::Histogram;
use spanlith_base::sync::{Group, Ticket, Waiter};
use spanlith_base::{Error, Result};
use spanlith_env::SyncUnderWay;

/// A group in flight. Dropping it lands it and lets its writers go.
struct InFlight<'a> {
    engine: &'a Engine,
    group: Group<Request<'static>>,
    ticket: Ticket,
    /// Somebody else may lead.
    has_passed_on: bool,
    /// It is applied and visible, or all of its requests say how they failed.
    is_over: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let e = self.engine.write_panicked();
            self.give_up(&e);
        }
        self.engine.leader.land();
        if !self.has_passed_on {
            self.engine.queue.pass_on(&self.group);
        }
        self.engine.queue.release(&self.group);
    }
}

impl InFlight<'_> {
    /// It failed, and with it all groups behind it; the database refuses writes until it is resumed.
    fn fail(&mut self, place: Place, error: &Error) {
        // First: groups behind it fail with what is refused from now on.
        self.engine.set_error(place, error);
        self.give_up(error);
    }

    fn give_up(&mut self, error: &Error) {
        self.engine.order.fail(self.ticket);
        self.end_with(error);
    }

    fn end_with(&mut self, error: &Error) {
        self.group
            .for_each(|r| r.error = Some(r.error.take().unwrap_or_else(|| error.clone())));
        self.is_over = true;
    }

    /// Applies and publishes the group, once it and all groups before it are durable.
    fn finish(&mut self, synced: Result<()>, stages: &mut Stages<'_>) {
        stages.end(Part::Log);
        if let Err(e) = synced {
            return self.fail(Place::Log, &e);
        }
        let mut to = Published {
            engine: self.engine,
            last: None,
        };
        let mut applied = Ok(());
        self.group.for_each(|r| {
            if applied.is_ok() {
                applied = apply(&mut to, r);
            }
        });
        if let Err(e) = applied {
            return self.fail(Place::Insert, &e);
        }
        stages.end(Part::Memtable);
        let order = &self.engine.order;
        order.finish(self.ticket);
        if !order.wait(self.ticket) {
            let refusal = self.engine.refusal();
            let e = refusal.unwrap_or_else(|| Error::aborted("a write before this one failed"));
            return self.end_with(&e);
        }
        stages.end(Part::Publish);
        self.is_over = true;
    }
}

/// The figures of a group that is about to take off.
struct Load {
    count: u64,
    logged: u32,
    calls: u64,
    bytes: usize,
}

/// Carries the group of a writer that asks for a sync through all stages, beside others. False, and nothing has
/// happened, if it cannot go this way.
#[cold]
#[inline(never)]
pub(super) fn lead_in_flight(
    engine: &Engine,
    waiter: &Waiter<Request<'static>>,
    parts: Option<&mut Parts>,
) -> bool {
    let most = engine.leader.most_in_flight();
    if most <= 1 {
        return false;
    }
    let mut leader = engine.leader.lock_beside();
    // Writers that come meanwhile make this group larger.
    if engine.leader.in_flight() >= most {
        engine.leader.await_landings(most - 1);
    }
    if !may_take_off(engine, &leader) {
        return false;
    }
    let mut take = engine.taking(own(waiter).payload.bytes());
    let mut group = engine.queue.form(waiter, &mut take);
    engine.await_company(&mut leader.company, &mut group, take);
    let Some(load) = load_of(engine, &leader, &mut group) else {
        return false;
    };
    let mut stages = Stages::begin(engine, parts);
    engine.leader.take_off();
    let mut flight = InFlight {
        engine,
        group,
        ticket: engine.order.begin(load.count),
        has_passed_on: false,
        is_over: false,
    };
    match log_and_begin(engine, &mut leader, &mut flight, &load) {
        Ok(Some(sync)) => {
            drop(leader);
            engine.queue.pass_on(&flight.group);
            flight.has_passed_on = true;
            let (timed, began) = (
                engine.reporter.timed(),
                engine.c.env.clock.monotonic_nanos(),
            );
            let synced = sync.end();
            engine
                .leader
                .note_sync(engine.c.env.clock.monotonic_nanos().saturating_sub(began));
            engine
                .reporter
                .record_since(timed, Histogram::WalFileSyncMicros);
            flight.finish(synced, &mut stages);
        }
        Ok(None) => {
            // All others.
            engine.leader.await_landings(1);
            let synced = leader.log.sync(engine);
            flight.finish(synced, &mut stages);
            drop(leader);
        }
        Err(e) => {
            flight.finish(Err(e), &mut stages);
            drop(leader);
        }
    }
    true
}

/// Returns whether a group may be sent off without more ado: nobody has to wait, be told or make room, and all memtables
/// take entries of several threads.
fn may_take_off(engine: &Engine, leader: &LeaderState) -> bool {
    let is_open = engine.gate.is_open_to_leaders();
    let takes_more = |slot: &MemSlot| {
        slot.merges.max == 0 && slot.charge.is_none() && !slot.mem.should_flush(slot.limit)
    };
    let log = leader.log.writer();
    is_open
        && engine.c.options.allow_concurrent_memtable_write
        && leader.untold.is_empty()
        && !leader.first_is_new
        && leader.log.takes_plain_records()
        && log.is_some_and(|log| engine.logs.has_durable_name(log.log_number()))
        && leader.slots.iter().all(takes_more)
        && !engine.tracing.is_ordered()
        && !perf::is_timed(PerfTime::Work)
        && engine.logs.are_closed_synced()
}

/// Gives the requests of a group their numbers; `None` if one of them needs all of leadership.
fn load_of(
    engine: &Engine,
    leader: &LeaderState,
    group: &mut Group<Request<'static>>,
) -> Option<Load> {
    let base = engine.order.next();
    let mut load = Load {
        count: 0,
        logged: 0,
        calls: 0,
        bytes: 0,
    };
    let mut is_plain = true;
    group.for_each(|r| {
        r.seqno = base + load.count;
        is_plain &= r.generation == leader.generation
            && !r.disable_wal
            && !matches!(r.payload, Payload::Transaction(_));
        load.count += u64::from(r.payload.count());
        load.logged = load.logged.wrapping_add(r.payload.log_count());
        load.calls += u64::from(r.payload.calls());
        load.bytes += r.payload.bytes();
    });
    (is_plain && base + load.count <= MAX_SEQUENCE).then_some(load)
}

/// Logs the group and begins its sync. Requires: leadership, which may be passed on if there is a sync.
fn log_and_begin(
    engine: &Engine,
    leader: &mut LeaderState,
    flight: &mut InFlight<'_>,
    load: &Load,
) -> Result<Option<Box<dyn SyncUnderWay>>> {
    let first = flight.ticket.first;
    leader.log.expect_sync();
    leader.log_group(engine, &mut flight.group, first, load.logged)?;
    leader.log.note_batches(load.bytes, first);
    // Nobody says which memtables the group fills.
    if leader.slots.len() > 1 {
        leader.touched = (1..leader.slots.len()).collect();
    }
    // These counters have one writer at a time.
    engine.counters.count_group(
        &engine.reporter,
        &GroupFacts {
            writes: load.calls,
            keys: load.count,
            bytes: load.bytes as u64,
            is_logged: true,
            is_synced: true,
        },
    );
    let begun = leader.log.open_writer()?.begin_sync()?;
    if begun.is_some() {
        leader.log.expect_witness(engine);
        leader.company.sent_off(flight.group.len());
    }
    Ok(begun)
}
