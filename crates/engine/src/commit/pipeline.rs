//! Joins the queue, leads a group, follows in one.
//!
//! 1. A request joins the queue; whoever finds it empty leads, the others wait.
//! 2. The leader makes room. It is alone if nobody joined meanwhile: then it takes the short way ([`carry_alone`]),
//!    which does what [`carry`] does for one request without a sync.
//! 3. Otherwise it forms a group of those that joined, which takes a contiguous range of sequence numbers.
//! 4. The group is logged as one record and synced if its leader asks for it.
//! 5. The leader inserts all requests, or each follower its own if the group is large.
//! 6. The group becomes visible, leadership goes on, and the followers return.
//!
//! Groups that ask for a sync may take another way, with several in flight (`in_flight.rs`).
#![expect(
    unsafe_code,
    reason = "a request belongs to its leader or its owner, as the queue hands it over"
)]

use super::in_flight::lead_in_flight;
use super::times::GroupTimes;
use super::unwind::{Carried, Following, Unled};
use super::{Entries, GroupLoad, Request, Stage, Stages, TimesByStage};
use spanlith_base::keys::MAX_SEQUENCE;
use spanlith_base::sync::atomic::{AtomicUsize, Ordering};
use spanlith_base::sync::{Group, GroupQueue, MutexGuard, Role, Waiter, thread};
use spanlith_base::{Error, Result, Severity};
use std::ops::ControlFlow;

/// Groups at least this large insert into the memtable on their own threads; waking a thread costs
/// more than a few inserts.
pub(super) const PARALLEL_BYTES: usize = 32 << 10;

/// A writer in the queue.
pub(super) type Writer<S> = Waiter<Request<<S as Stages>::Payload>>;

/// The writers of a group.
pub(super) type GroupOf<S> = Group<Request<<S as Stages>::Payload>>;

/// The queue of writers, and who of a group still inserts.
pub(crate) struct CommitPipeline<P> {
    pub(super) queue: GroupQueue<Request<P>>,
    /// Followers that still insert their own batches. Set by the leader before it releases them,
    /// counted down with Release, awaited with Acquire.
    pub(super) apply_left: AtomicUsize,
}

impl<P: Entries> CommitPipeline<P> {
    /// With an empty queue.
    pub(crate) fn new() -> Self {
        Self {
            queue: GroupQueue::new(),
            apply_left: AtomicUsize::new(0),
        }
    }
}

/// Brings a request through the queue and all stages: afterwards it has its first sequence number and says how it went. A
/// leader adds the times of its stages to `times`. Nobody else looks at the request after the return.
#[inline(always)]
pub(crate) fn commit<S: Stages>(
    stages: &S,
    waiter: &Waiter<Request<S::Payload>>,
    times: Option<&mut S::Times>,
) {
    let role = stages.pipeline().queue.join_around(waiter, |sleep| {
        let since = stages.now_nanos();
        let role = sleep();
        stages.slept(since);
        role
    });
    match role {
        Role::Leader => match times {
            None => lead(stages, waiter),
            Some(times) => lead_timed(stages, waiter, times),
        },
        Role::Apply => follow(stages, waiter),
        Role::Done => {}
    }
}

/// Carries the group that begins with this writer through all stages.
#[inline(never)]
fn lead<S: Stages>(stages: &S, waiter: &Writer<S>) {
    let first = own(waiter);
    if first.sync && lead_in_flight(stages, waiter, None) {
        return;
    }
    let bytes = first.payload.bytes();
    let mut leader = stages.leadership().lock();
    // The leader's own request decides what it may wait for; followers that differ are left out.
    let unled = Unled { stages, waiter };
    let room = stages.make_room(&mut leader, first);
    if room.is_continue()
        && !first.sync
        && stages.may_go_alone()
        && let Some(group) = stages.pipeline().queue.form_alone(waiter)
    {
        std::mem::forget(unled);
        let mut carried = Carried {
            stages,
            group,
            is_done: false,
        };
        if let Err(e) = carry_alone(stages, &mut leader, first, bytes) {
            first.error = Some(e);
        }
        carried.is_done = true;
        // Before the group ends, which lets the next leader come.
        drop(leader);
    } else {
        let (leader, room) = wait_for_room(stages, first, leader, room, bytes);
        std::mem::forget(unled);
        lead_group(stages, waiter, leader, (room, bytes), None);
    }
}

/// As [`lead`], with the times of its stages: of groups only, so that a lone writer's way holds no timers.
#[cold]
#[inline(never)]
fn lead_timed<S: Stages>(stages: &S, waiter: &Writer<S>, times: &mut S::Times) {
    if own(waiter).sync && lead_in_flight(stages, waiter, Some(times)) {
        return;
    }
    let bytes = own(waiter).payload.bytes();
    let began = stages.now_nanos();
    let mut leader = stages.leadership().lock();
    let unled = Unled { stages, waiter };
    let room = stages.make_room(&mut leader, own(waiter));
    let (leader, room) = wait_for_room(stages, own(waiter), leader, room, bytes);
    std::mem::forget(unled);
    times.add(Stage::Room, stages.now_nanos().saturating_sub(began));
    lead_group(stages, waiter, leader, (room, bytes), Some(times));
}

/// Goes on with making room for the group that begins with this request, if there is none yet.
fn wait_for_room<'a, S: Stages>(
    stages: &'a S,
    first: &Request<S::Payload>,
    leader: MutexGuard<'a, S::Leader>,
    room: ControlFlow<S::Room>,
    bytes: usize,
) -> (MutexGuard<'a, S::Leader>, Result<()>) {
    match room {
        ControlFlow::Continue(()) => (leader, Ok(())),
        ControlFlow::Break(room) => stages.wait_for_room(leader, room, first, bytes),
    }
}

/// The general case: several writers, a sync, or no room.
#[inline(never)]
fn lead_group<S: Stages>(
    stages: &S,
    waiter: &Writer<S>,
    mut leader: MutexGuard<'_, S::Leader>,
    (room, bytes): (Result<()>, usize),
    times: Option<&mut S::Times>,
) {
    let queue = &stages.pipeline().queue;
    let mut take = taking(stages, bytes);
    let mut carried = Carried {
        stages,
        group: queue.form(waiter, &mut take),
        is_done: false,
    };
    let group = &mut carried.group;
    let is_synced = own(waiter).sync;
    if is_synced {
        await_company(stages, &mut leader, group, take);
    }
    let done = room.and_then(|()| carry(stages, waiter, &mut leader, group, times));
    if is_synced {
        let joined = queue.joined_after(group);
        stages.synced_together(&mut leader, group.len(), joined);
    }
    if let Err(e) = done {
        group.for_each(|r| r.error = Some(r.error.take().unwrap_or_else(|| e.clone())));
    }
    carried.is_done = true;
    drop(leader);
    drop(carried);
}

/// Says which writers join a group whose first request has `bytes`.
pub(super) fn taking<S: Stages>(
    stages: &S,
    bytes: usize,
) -> impl FnMut(&mut Request<S::Payload>, &mut Request<S::Payload>) -> bool + use<S> {
    let mut total = bytes;
    let limit = stages.group_limit(bytes);
    move |first, next| {
        total += next.payload.bytes();
        total <= limit
            && (first.sync || !next.sync)
            && first.disable_wal == next.disable_wal
            && first.no_slowdown == next.no_slowdown
            && first.payload.is_checked() == next.payload.is_checked()
    }
}

/// Has the group wait for writers that are worth it.
pub(super) fn await_company<S: Stages>(
    stages: &S,
    leader: &mut S::Leader,
    group: &mut GroupOf<S>,
    mut take: impl FnMut(&mut Request<S::Payload>, &mut Request<S::Payload>) -> bool,
) {
    let queue = &stages.pipeline().queue;
    let len = group.len();
    stages.await_company(leader, len, || {
        queue.grow(group, &mut take).then(|| group.len())
    });
}

/// As [`carry`] for a writer without company that asks for no sync: the common case, without
/// what a group needs.
#[inline]
fn carry_alone<S: Stages>(
    stages: &S,
    leader: &mut S::Leader,
    r: &mut Request<S::Payload>,
    bytes: usize,
) -> Result<()> {
    let order = stages.order();
    let base = order.next();
    r.seqno = base;
    stages.check(leader, r, base - 1)?;
    let count = r.payload.count();
    let next = base + u64::from(count);
    if next > MAX_SEQUENCE {
        return Err(used_up());
    }
    if let Err(e) = stages.log_alone(leader, r, bytes) {
        order.take(next - 1);
        return Err(failed(stages, Stage::Log, e));
    }
    if let Err(e) = stages.insert(leader, r) {
        return Err(failed(stages, Stage::Insert, e));
    }
    stages.inserted(leader, r);
    stages.inserted_all(leader);
    // Publish (W3).
    order.publish_alone(next - 1);
    stages.published(&GroupLoad {
        first: base,
        count: u64::from(count),
        logged: 0,
        calls: u64::from(r.payload.calls()),
        bytes,
        is_logged: !r.disable_wal,
        is_synced: false,
    });
    Ok(())
}

/// A group whose stage failed may or may not be in the log; its numbers stay assigned.
#[cold]
fn failed<S: Stages>(stages: &S, stage: Stage, error: Error) -> Error {
    stages.failed(stage, &error);
    error
}

/// Carries a group from the order of its numbers to its publication.
fn carry<S: Stages>(
    stages: &S,
    waiter: &Writer<S>,
    leader: &mut S::Leader,
    group: &mut GroupOf<S>,
    times: Option<&mut S::Times>,
) -> Result<()> {
    // One contiguous range of sequence numbers.
    let order = stages.order();
    let mut load = GroupLoad::led_by(own(waiter), order.next());
    let mut refused = 0;
    group.for_each(|r| {
        r.seqno = load.next();
        match stages.check(leader, r, load.first - 1) {
            Ok(()) => load.add(r),
            Err(e) => {
                r.error = Some(e);
                refused += 1;
            }
        }
    });
    if refused == group.len() {
        return Ok(());
    }
    if load.next() > MAX_SEQUENCE {
        return Err(used_up());
    }
    let ticket = order.begin(load.count);
    debug_assert_eq!(ticket.first, load.first, "W2: logged by its numbers");
    let mut times = GroupTimes::begin(stages, times);
    let logged = stages.log(leader, group, &load);
    let durable = logged.and_then(|()| match load.is_synced && load.is_logged {
        true => stages.sync(leader),
        false => Ok(()),
    });
    durable.map_err(|e| failed(stages, Stage::Log, e))?;
    times.end(Stage::Log);
    let parallel =
        group.len() > 1 && load.bytes >= PARALLEL_BYTES && stages.lets_followers_insert(leader);
    let inserting = stages.begin_inserts();
    let inserted = match parallel {
        true => insert_in_parallel(stages, waiter, leader, group),
        false => insert_alone(stages, leader, group),
    };
    drop(inserting);
    inserted.map_err(|e| failed(stages, Stage::Insert, e))?;
    times.end(Stage::Insert);
    group.for_each(|r| {
        if r.error.is_none() {
            stages.inserted(leader, r);
        }
    });
    stages.inserted_all(leader);
    // Publish (W3).
    order.finish(ticket);
    stages.published(&load);
    times.end(Stage::Publish);
    Ok(())
}

/// The leader inserts all requests of its group.
fn insert_alone<S: Stages>(
    stages: &S,
    leader: &mut S::Leader,
    group: &mut GroupOf<S>,
) -> Result<()> {
    let mut result = Ok(());
    group.for_each(|r| {
        if result.is_ok() && r.error.is_none() {
            result = stages.insert(leader, r);
        }
    });
    result
}

/// Followers insert their own batches while the leader inserts its own.
fn insert_in_parallel<S: Stages>(
    stages: &S,
    waiter: &Writer<S>,
    leader: &mut S::Leader,
    group: &mut GroupOf<S>,
) -> Result<()> {
    let CommitPipeline { queue, apply_left } = stages.pipeline();
    // Published to the followers by `start_apply`.
    apply_left.store(group.len() - 1, Ordering::Relaxed);
    queue.start_apply(group);
    let first = own(waiter);
    let mut result = match first.error {
        Some(_) => Ok(()),
        None => stages.insert(leader, first),
    };
    let mut round = 0u32;
    // Acquire: pairs with the Release in `follow`; the followers' inserts and errors are seen.
    while apply_left.load(Ordering::Acquire) != 0 {
        round += 1;
        if round < 200 {
            thread::spin()
        } else {
            thread::yield_now()
        }
    }
    group.for_each(|r| {
        // A follower that could not insert; a refused one fails alone.
        if let Some(e) = &r.error
            && e.severity() == Severity::Fatal
        {
            result = Err(e.clone());
        }
    });
    result
}

/// A follower's part of [`insert_in_parallel`]. The leader holds leadership until all followers are done: no memtable is
/// switched and no family dropped.
fn follow<S: Stages>(stages: &S, waiter: &Writer<S>) {
    let mut following = Following {
        stages,
        waiter,
        is_done: false,
    };
    let request = own(waiter);
    if request.error.is_none() {
        request.error = S::insert_beside(&mut stages.beside(), request).err();
    }
    following.is_done = true;
}

/// The caller's own request.
#[expect(clippy::mut_from_ref, reason = "ownership is handed over by the queue")]
pub(super) fn own<P: Send>(waiter: &Waiter<Request<P>>) -> &mut Request<P> {
    // SAFETY: Called by the leader for its own waiter while it walks no group, and by a follower in
    // role `Apply`, whose data is its own until it reports back.
    unsafe { waiter.own_data() }
}

#[cold]
fn used_up() -> Error {
    Error::aborted("sequence numbers are used up")
}
