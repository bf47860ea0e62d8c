//! The verbs of the stages, which the driver calls in order.

use super::{CommitPipeline, Entries, GroupLoad, Leadership, Request};
use spanlith_base::sync::{CommitOrder, Group, MutexGuard};
use spanlith_base::{Error, Result, SequenceNumber};
use std::ops::ControlFlow;

/// A stage of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Making room. It ends before there is a group.
    Room,
    /// Appending to the log, and the sync.
    Log,
    /// Inserting into memtables.
    Insert,
    /// Making it visible.
    Publish,
}

/// Sums of times by stage, of a request that is measured.
pub(crate) trait TimesByStage {
    /// The stage has taken so long.
    fn add(&mut self, stage: Stage, nanos: u64);
}

/// An engine, as the driver needs it. All verbs with `leader` are called under leadership.
pub(crate) trait Stages: Sized {
    /// The entries that requests write.
    type Payload: Entries;
    /// The state that leadership guards: log, memtables.
    type Leader;
    /// How far a leader is with making room, if it has to wait.
    type Room;
    /// Where times are noted.
    type Times: TimesByStage;
    /// A sync that has begun.
    type Sync;
    /// The way to memtables without leadership.
    type Beside<'a>
    where
        Self: 'a;

    /// The queue.
    fn pipeline(&self) -> &CommitPipeline<Self::Payload>;

    /// The right to lead.
    fn leadership(&self) -> &Leadership<Self::Leader>;

    /// The sequence numbers that are assigned and visible.
    fn order(&self) -> &CommitOrder;

    /// The time, for sums of times.
    fn now_nanos(&self) -> u64;

    /// Queue: a writer has slept in it since then, by [`Self::now_nanos`].
    fn slept(&self, since_nanos: u64);

    /// Room: makes room for a group that begins with this request. `Break` if that takes a wait, or is refused.
    fn make_room(
        &self,
        leader: &mut Self::Leader,
        request: &Request<Self::Payload>,
    ) -> ControlFlow<Self::Room>;

    /// Room: goes on where [`Self::make_room`] broke off. Others may lead meanwhile; the writer stays first in the queue.
    fn wait_for_room<'a>(
        &'a self,
        leader: MutexGuard<'a, Self::Leader>,
        room: Self::Room,
        request: &Request<Self::Payload>,
        bytes: usize,
    ) -> (MutexGuard<'a, Self::Leader>, Result<()>);

    /// Group: returns whether a lone writer needs nothing that only groups have.
    fn may_go_alone(&self) -> bool;

    /// Group: bytes that a group may have whose first request has so many.
    fn group_limit(&self, first: usize) -> usize;

    /// Group: waits for writers that are worth waiting for before a sync. `grow` returns the new length, or `None` if nobody
    /// can join any more.
    fn await_company(
        &self,
        leader: &mut Self::Leader,
        len: usize,
        grow: impl FnMut() -> Option<usize>,
    );

    /// Group: so many writers were synced together, while `joined` others came.
    fn synced_together(&self, leader: &mut Self::Leader, len: usize, joined: usize);

    /// Order: checks a request once more, which sees writes up to `last`. One that is refused fails alone.
    fn check(
        &self,
        leader: &Self::Leader,
        request: &Request<Self::Payload>,
        last: SequenceNumber,
    ) -> Result<()>;

    /// Log: appends the record of a lone request, unless it is not to be logged.
    fn log_alone(
        &self,
        leader: &mut Self::Leader,
        request: &Request<Self::Payload>,
        bytes: usize,
    ) -> Result<()>;

    /// Log: appends one record for the group, without its refused requests, unless it is not to be logged.
    fn log(
        &self,
        leader: &mut Self::Leader,
        group: &mut Group<Request<Self::Payload>>,
        load: &GroupLoad,
    ) -> Result<()>;

    /// Log: makes all that was logged durable.
    fn sync(&self, leader: &mut Self::Leader) -> Result<()>;

    /// Flight: returns whether a group may take off without more ado: nobody has to wait or make room.
    fn may_take_off(&self, leader: &Self::Leader) -> bool;

    /// Flight: returns whether the request needs nothing that others must not change meanwhile.
    fn may_fly(&self, leader: &Self::Leader, request: &Request<Self::Payload>) -> bool;

    /// Flight: logs the group and begins its sync; `None` if only [`Self::sync`] makes it durable.
    fn send_off(
        &self,
        leader: &mut Self::Leader,
        group: &mut Group<Request<Self::Payload>>,
        load: &GroupLoad,
    ) -> Result<Option<Self::Sync>>;

    /// Flight: waits for the end of a sync, without leadership.
    fn end_sync(&self, sync: Self::Sync) -> Result<()>;

    /// Insert: begins; the answer is dropped at the end.
    fn begin_inserts(&self) -> impl Sized;

    /// Insert: by the leader.
    fn insert(&self, leader: &mut Self::Leader, request: &Request<Self::Payload>) -> Result<()>;

    /// Insert: prepares for followers that insert; false if the leader has to insert all.
    fn lets_followers_insert(&self, leader: &mut Self::Leader) -> bool;

    /// Insert: beside a leader or without one, while nobody changes memtables.
    fn beside(&self) -> Self::Beside<'_>;

    /// Insert: as [`Self::insert`], by [`Self::beside`].
    fn insert_beside(to: &mut Self::Beside<'_>, request: &Request<Self::Payload>) -> Result<()>;

    /// Insert: a request that is not refused is in the memtables.
    fn inserted(&self, leader: &mut Self::Leader, request: &Request<Self::Payload>);

    /// Insert: the whole group is.
    fn inserted_all(&self, leader: &mut Self::Leader);

    /// Publish: a group that did not fly is visible.
    fn published(&self, load: &GroupLoad);

    /// Failure: a stage failed; writes are refused from now on.
    fn failed(&self, stage: Stage, error: &Error);

    /// Failure: as [`Self::failed`], by a panic somewhere in the stages.
    fn panicked(&self) -> Error;

    /// Failure: why writes are refused, if they are.
    fn refusal(&self) -> Option<Error>;
}
