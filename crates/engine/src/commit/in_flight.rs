//! Groups that ask for a sync, on a log that syncs beside others: several are on their way to the disk at a time.
//!
//! ```text
//!   lead: order, log, begin the sync ─► pass leadership on ─► end the sync ─► insert ─► publish ─► land
//! ```
//!
//! The next group is ordered, logged and sent off while this one is being written. A group is inserted once its sync is
//! over, and released once it and all groups before it are visible; while it waits for those, another may take off. Only plain groups go this way ([`Stages::may_fly`]):
//! all others wait until no group is in flight ([`Leadership::lock`]), among them those that seal memtables, begin a log
//! or change families. So nothing that an insertion needs changes while a group is in flight.
//!
//! A group whose sync fails takes those after it along: their pages may be durable, but a recovery ends before them (D6).
//!
//! [`Leadership::lock`]: super::Leadership::lock

use super::pipeline::{GroupOf, Writer, await_company, own, taking};
use super::times::GroupTimes;
use super::{Entries, GroupLoad, Stage, Stages};
use spanlith_base::keys::MAX_SEQUENCE;
use spanlith_base::sync::Ticket;
use spanlith_base::{Error, Result};

/// A group in flight. Dropping it lands it and lets its writers go.
struct InFlight<'a, S: Stages> {
    stages: &'a S,
    group: GroupOf<S>,
    ticket: Ticket,
    /// Somebody else may lead.
    has_passed_on: bool,
    /// It keeps no other from taking off.
    is_applied: bool,
    /// It is inserted and visible, or all of its requests say how they failed.
    is_over: bool,
}

impl<S: Stages> Drop for InFlight<'_, S> {
    fn drop(&mut self) {
        if !self.is_over {
            let e = self.stages.panicked();
            self.abandon(&e);
        }
        self.applied();
        self.stages.leadership().land();
        let queue = &self.stages.pipeline().queue;
        if !self.has_passed_on {
            queue.pass_on(&self.group);
        }
        queue.release(&self.group);
    }
}

impl<S: Stages> InFlight<'_, S> {
    fn applied(&mut self) {
        if !std::mem::replace(&mut self.is_applied, true) {
            self.stages.leadership().applied();
        }
    }

    /// It failed, and with it all groups after it; the database refuses writes until it is resumed.
    fn fail(&mut self, stage: Stage, error: &Error) {
        // First: groups after it fail with what is refused from now on.
        self.stages.failed(stage, error);
        self.abandon(error);
    }

    fn abandon(&mut self, error: &Error) {
        self.stages.order().fail(self.ticket);
        self.end_with(error);
    }

    fn end_with(&mut self, error: &Error) {
        self.group
            .for_each(|r| r.error = Some(r.error.take().unwrap_or_else(|| error.clone())));
        self.is_over = true;
    }

    /// Inserts the group, once it is durable, and publishes it with all groups before it.
    fn finish(&mut self, synced: Result<()>, times: &mut GroupTimes<'_, S>) {
        times.end(Stage::Log);
        if let Err(e) = synced {
            return self.fail(Stage::Log, &e);
        }
        let mut to = self.stages.beside();
        let mut inserted = Ok(());
        self.group.for_each(|r| {
            if inserted.is_ok() {
                inserted = S::insert_beside(&mut to, r);
            }
        });
        drop(to);
        if let Err(e) = inserted {
            return self.fail(Stage::Insert, &e);
        }
        times.end(Stage::Insert);
        let order = self.stages.order();
        order.finish(self.ticket);
        self.applied();
        if !order.wait(self.ticket) {
            let refusal = self.stages.refusal();
            let e = refusal.unwrap_or_else(|| Error::aborted("a write before this one failed"));
            return self.end_with(&e);
        }
        times.end(Stage::Publish);
        self.is_over = true;
    }
}

/// Carries the group of a writer that asks for a sync through all stages, beside others. False, and nothing has
/// happened, if it cannot go this way.
#[cold]
#[inline(never)]
pub(super) fn lead_in_flight<S: Stages>(
    stages: &S,
    waiter: &Writer<S>,
    times: Option<&mut S::Times>,
) -> bool {
    let leadership = stages.leadership();
    let most = leadership.most_in_flight();
    if most <= 1 {
        return false;
    }
    let mut leader = leadership.lock_beside();
    // Writers that come meanwhile make this group larger.
    leadership.await_take_off();
    if !stages.may_take_off(&leader) {
        return false;
    }
    let queue = &stages.pipeline().queue;
    let mut take = taking(stages, own(waiter).payload.bytes());
    let mut group = queue.form(waiter, &mut take);
    await_company(stages, &mut leader, &mut group, take);
    let Some(load) = load_of(stages, &leader, waiter, &mut group) else {
        return false;
    };
    let mut times = GroupTimes::begin(stages, times);
    leadership.take_off();
    let mut flight = InFlight {
        stages,
        group,
        ticket: stages.order().begin(load.count),
        has_passed_on: false,
        is_applied: false,
        is_over: false,
    };
    debug_assert_eq!(flight.ticket.first, load.first, "W2: logged by its numbers");
    match stages.send_off(&mut leader, &mut flight.group, &load) {
        Ok(Some(sync)) => {
            drop(leader);
            queue.pass_on(&flight.group);
            flight.has_passed_on = true;
            let synced = stages.end_sync(sync);
            flight.finish(synced, &mut times);
        }
        Ok(None) => {
            // All others.
            leadership.await_landings(1);
            let synced = stages.sync(&mut leader);
            flight.finish(synced, &mut times);
            drop(leader);
        }
        Err(e) => {
            flight.finish(Err(e), &mut times);
            drop(leader);
        }
    }
    true
}

/// Gives the requests of a group their numbers; `None` if one of them needs all of leadership.
fn load_of<S: Stages>(
    stages: &S,
    leader: &S::Leader,
    waiter: &Writer<S>,
    group: &mut GroupOf<S>,
) -> Option<GroupLoad> {
    let mut load = GroupLoad::led_by(own(waiter), stages.order().next());
    let mut is_plain = true;
    group.for_each(|r| {
        r.seqno = load.next();
        is_plain &= !r.disable_wal && stages.may_fly(leader, r);
        load.add(r);
    });
    (is_plain && load.next() <= MAX_SEQUENCE).then_some(load)
}
