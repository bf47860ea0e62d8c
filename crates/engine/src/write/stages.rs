//! The engine's stages of a write, which the driver of groups calls in order ([`crate::commit`]).
//!
//! A lone writer's stages are inlined into the driver's short way: no timers, no sums. The stages of groups may take longer.

use super::apply::{Published, Slots, apply};
use super::check::check_again;
use super::count::{GroupFacts, perf_time};
use super::room::{Room, Waited};
use crate::commit::{CommitPipeline, Entries, GroupLoad, Stage, Stages, TimesByStage};
use crate::core::{
    Engine, LeaderState, Leadership, MemSlot, Part, Parts, Payload, Place, Request, WaitCause,
};
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::Histogram;
use spanlith_base::sync::{CommitOrder, Group, MutexGuard};
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_env::SyncUnderWay;
use std::ops::ControlFlow;

impl TimesByStage for Parts {
    fn add(&mut self, stage: Stage, nanos: u64) {
        let part = match stage {
            Stage::Room => Part::Throttle,
            Stage::Log => Part::Log,
            Stage::Insert => Part::Memtable,
            Stage::Publish => Part::Publish,
        };
        Self::add(self, part, nanos);
    }
}

impl Stages for Engine {
    type Payload = Payload<'static>;
    type Leader = LeaderState;
    type Room = Result<Room>;
    type Times = Parts;
    type Sync = Box<dyn SyncUnderWay>;
    type Beside<'a> = Published<'a>;

    #[inline(always)]
    fn pipeline(&self) -> &CommitPipeline<Payload<'static>> {
        &self.pipeline
    }

    #[inline(always)]
    fn leadership(&self) -> &Leadership {
        &self.leader
    }

    #[inline(always)]
    fn order(&self) -> &CommitOrder {
        &self.order
    }

    fn now_nanos(&self) -> u64 {
        self.c.env.clock.monotonic_nanos()
    }

    #[cold]
    fn slept(&self, since_nanos: u64) {
        let nanos = self.now_nanos().saturating_sub(since_nanos);
        self.throttle.times().add(WaitCause::Queue, nanos);
    }

    #[inline(always)]
    fn make_room(
        &self,
        leader: &mut LeaderState,
        request: &Request<'static>,
    ) -> ControlFlow<Result<Room>> {
        match leader.make_room(self, request.no_slowdown, Waited::default()) {
            Ok(Room::Made) if leader.untold.is_empty() => ControlFlow::Continue(()),
            room => ControlFlow::Break(room),
        }
    }

    fn wait_for_room<'a>(
        &'a self,
        leader: MutexGuard<'a, LeaderState>,
        room: Result<Room>,
        request: &Request<'static>,
        bytes: usize,
    ) -> (MutexGuard<'a, LeaderState>, Result<()>) {
        self.leader
            .make_room_slowly(self, leader, room, request.no_slowdown, bytes)
    }

    #[inline(always)]
    fn may_go_alone(&self) -> bool {
        !perf::is_timed(PerfTime::Work)
    }

    /// RocksDB's rule, so that a small write does not wait for a large one.
    fn group_limit(&self, first: usize) -> usize {
        let max = self.c.options.max_write_batch_group_size_bytes as usize;
        let small = max / 8;
        if first <= small {
            first + small
        } else {
            max.max(first)
        }
    }

    /// Waits for the writers that synced together last time and are on their way back: one sync for all is cheaper than
    /// one each. A lone writer does not wait.
    fn await_company(
        &self,
        leader: &mut LeaderState,
        before: usize,
        mut grow: impl FnMut() -> Option<usize>,
    ) {
        let company = &mut leader.company;
        if before >= company.writers() {
            return;
        }
        let clock = &self.c.env.clock;
        let until = clock.monotonic_nanos() + company.patience(self.leader.sync_nanos());
        let mut len = before;
        while len < company.writers() && clock.monotonic_nanos() < until {
            Leadership::pause();
            match grow() {
                Some(grown) => len = grown,
                None => return,
            }
        }
        company.waited(before, len);
    }

    fn synced_together(&self, leader: &mut LeaderState, len: usize, joined: usize) {
        leader.company.synced(len, joined);
    }

    #[inline(always)]
    fn check(
        &self,
        leader: &LeaderState,
        request: &Request<'static>,
        last: SequenceNumber,
    ) -> Result<()> {
        if request.generation != leader.generation {
            check_again(self, leader, &request.payload, last)?;
        }
        if self.tracing.is_ordered() {
            self.tracing.record_led(&request.payload);
        }
        Ok(())
    }

    #[inline(always)]
    fn log_alone(
        &self,
        leader: &mut LeaderState,
        request: &Request<'static>,
        bytes: usize,
    ) -> Result<()> {
        if request.disable_wal {
            self.logs.note_unlogged();
            return Ok(());
        }
        leader.log_alone(self, request, request.payload.log_count())?;
        leader.log.note_batches(bytes, request.seqno);
        Ok(())
    }

    fn log(
        &self,
        leader: &mut LeaderState,
        group: &mut Group<Request<'static>>,
        load: &GroupLoad,
    ) -> Result<()> {
        if !load.is_logged {
            self.logs.note_unlogged();
            return Ok(());
        }
        let _timer = perf_time(&self.c.env.clock, PerfCounter::WriteWalTime);
        if load.is_synced && self.c.speed.is_some() {
            leader.log.expect_sync();
        }
        leader.log_group(self, group, load.first, load.logged)?;
        leader.log.note_batches(load.bytes, load.first);
        Ok(())
    }

    fn sync(&self, leader: &mut LeaderState) -> Result<()> {
        let clock = &self.c.env.clock;
        let _timer = perf_time(clock, PerfCounter::WriteWalTime);
        let began = clock.monotonic_nanos();
        let timed = self.reporter.timed();
        leader.log.sync(self)?;
        debug_assert!(leader.log.is_synced(), "W6: synced before acknowledged");
        self.reporter
            .record_since(timed, Histogram::WalFileSyncMicros);
        let nanos = clock.monotonic_nanos().saturating_sub(began);
        self.leader.note_sync(nanos);
        self.throttle.times().add(WaitCause::Sync, nanos);
        Ok(())
    }

    /// All memtables take entries of several threads, too.
    fn may_take_off(&self, leader: &LeaderState) -> bool {
        let is_open = self.gate.is_open_to_leaders();
        let takes_more = |slot: &MemSlot| {
            slot.merges.max == 0 && slot.charge.is_none() && !slot.mem.should_flush(slot.limit)
        };
        let log = leader.log.writer();
        is_open
            && self.c.options.allow_concurrent_memtable_write
            && leader.untold.is_empty()
            && !leader.first_is_new
            && leader.log.takes_plain_records()
            && log.is_some_and(|log| self.logs.has_durable_name(log.log_number()))
            && leader.slots.iter().all(takes_more)
            && !self.tracing.is_ordered()
            && !perf::is_timed(PerfTime::Work)
            && self.logs.are_closed_synced()
    }

    fn may_fly(&self, leader: &LeaderState, request: &Request<'static>) -> bool {
        request.generation == leader.generation
            && !matches!(request.payload, Payload::Transaction(_))
    }

    fn send_off(
        &self,
        leader: &mut LeaderState,
        group: &mut Group<Request<'static>>,
        load: &GroupLoad,
    ) -> Result<Option<Box<dyn SyncUnderWay>>> {
        leader.log.expect_sync();
        leader.log_group(self, group, load.first, load.logged)?;
        leader.log.note_batches(load.bytes, load.first);
        touch_all(leader);
        // These counters have one writer at a time.
        self.published(load);
        let begun = leader.log.open_writer()?.begin_sync()?;
        if begun.is_some() {
            leader.log.expect_witness(self);
            leader.company.sent_off(group.len());
        }
        Ok(begun)
    }

    fn end_sync(&self, sync: Box<dyn SyncUnderWay>) -> Result<()> {
        let clock = &self.c.env.clock;
        let (timed, began) = (self.reporter.timed(), clock.monotonic_nanos());
        let synced = sync.end();
        let nanos = clock.monotonic_nanos().saturating_sub(began);
        self.leader.note_sync(nanos);
        self.throttle.times().add(WaitCause::Sync, nanos);
        self.reporter
            .record_since(timed, Histogram::WalFileSyncMicros);
        synced
    }

    fn begin_inserts(&self) -> impl Sized {
        perf_time(&self.c.env.clock, PerfCounter::WriteMemtableTime)
    }

    #[inline(always)]
    fn insert(&self, leader: &mut LeaderState, request: &Request<'static>) -> Result<()> {
        debug_assert!(
            request.disable_wal
                || (leader.log.last_record() > self.order.visible()
                    && leader.log.last_record() <= request.seqno),
            "W1: logged first"
        );
        let mut to = Slots {
            engine: self,
            slots: &leader.slots,
            touched: &mut leader.touched,
        };
        apply(&mut to, request)
    }

    fn lets_followers_insert(&self, leader: &mut LeaderState) -> bool {
        let lets = self.c.options.allow_concurrent_memtable_write
            && leader.slots.iter().all(|s| s.merges.max == 0);
        if lets {
            touch_all(leader);
        }
        lets
    }

    fn beside(&self) -> Published<'_> {
        Published {
            engine: self,
            last: None,
        }
    }

    fn insert_beside(to: &mut Published<'_>, request: &Request<'static>) -> Result<()> {
        apply(to, request)
    }

    #[inline(always)]
    fn inserted(&self, leader: &mut LeaderState, request: &Request<'static>) {
        if let Payload::Transaction(t) = request.payload {
            leader.take_mark(self, t, request.seqno);
        }
    }

    #[inline(always)]
    fn inserted_all(&self, leader: &mut LeaderState) {
        if leader.first_is_new {
            note_first_write(self, leader);
        }
    }

    #[inline(always)]
    fn published(&self, load: &GroupLoad) {
        self.counters.count_group(
            &self.reporter,
            &GroupFacts {
                writes: load.calls,
                keys: load.count,
                bytes: load.bytes as u64,
                is_logged: load.is_logged,
                is_synced: load.is_synced,
            },
        );
    }

    #[cold]
    fn failed(&self, stage: Stage, error: &Error) {
        let place = match stage {
            Stage::Insert => Place::Insert,
            _ => Place::Log,
        };
        self.set_error(place, error);
    }

    #[cold]
    fn panicked(&self) -> Error {
        self.write_panicked()
    }

    #[cold]
    fn refusal(&self) -> Option<Error> {
        self.lsm().refusal()
    }
}

/// Nobody says which memtables are filled without leadership: all may be.
fn touch_all(leader: &mut LeaderState) {
    if leader.slots.len() > 1 {
        leader.touched = (1..leader.slots.len()).collect();
    }
}

/// Tells the first memtable when its first entry came, if it has one.
#[cold]
fn note_first_write(engine: &Engine, leader: &mut LeaderState) {
    let mem = &leader.slots[0].mem;
    if !mem.is_empty() {
        mem.note_first_write(|| engine.c.env.clock.now_seconds());
        leader.first_is_new = false;
    }
}
