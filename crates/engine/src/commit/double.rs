//! A double of an engine for the tests of the driver: a log, a memtable and a disk that are lists of numbers, and faults at
//! each stage. What the driver promises of order is asserted where a stage begins.

use super::{
    CommitPipeline, Entries, GroupLoad, Leadership, Request, Stage, Stages, TimesByStage, commit,
};
use spanlith_base::sync::{CommitOrder, Condvar, Group, Mutex, MutexGuard, Waiter, thread};
use spanlith_base::{Error, Result, SequenceNumber, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number that was published before the first write.
pub(super) const BEGAN: u64 = 10;

/// A place where a stage can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Making room.
    Room,
    /// The check of the writer.
    Check(u32),
    /// The record that has the writer.
    Log(u32),
    /// The sync of the record that begins with the number; of any if it is 0.
    Sync(u64),
    /// The insertion of the writer.
    Insert(u32),
}

/// The way in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Fails,
    Panics,
}

/// The numbers that a writer writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub writer: u32,
    pub count: u32,
    pub bytes: usize,
}

impl Entries for Numbers {
    fn count(&self) -> u32 {
        self.count
    }

    fn log_count(&self) -> u32 {
        self.count
    }

    fn calls(&self) -> u32 {
        1
    }

    fn is_checked(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub first: u64,
    pub count: u64,
    pub writers: Vec<u32>,
}

/// The state that leadership guards.
#[derive(Default)]
pub(super) struct Leader {
    /// Makes the next leader wait for room.
    pub is_full: bool,
}

#[derive(Default)]
struct World {
    log: Vec<Record>,
    /// First numbers of the records that are durable.
    durable: BTreeSet<u64>,
    /// Writer by sequence number.
    inserted: BTreeMap<u64, u32>,
    /// Insertions without leadership.
    beside: usize,
    /// First numbers of the groups whose sync is under way, and of those whose sync may end.
    syncing: BTreeSet<u64>,
    may_land: BTreeSet<u64>,
    /// Syncs in flight wait for [`Double::land`].
    holds_syncs: bool,
    faults: Vec<(At, Fault)>,
    failed: Vec<Stage>,
    published: Vec<GroupLoad>,
}

/// The double.
pub(super) struct Double {
    pipeline: CommitPipeline<Numbers>,
    leadership: Leadership<Leader>,
    order: CommitOrder,
    world: Mutex<World>,
    changed: Condvar,
    /// Writers that a leader waits for before a sync.
    company: AtomicUsize,
}

impl Double {
    /// Up to `most` groups are in flight.
    pub(super) fn new(most: u64) -> Self {
        Self {
            pipeline: CommitPipeline::new(),
            leadership: Leadership::new(1, Leader::default(), Some(most)),
            order: CommitOrder::new(BEGAN),
            world: Mutex::new(50, World::default()),
            changed: Condvar::new(),
            company: AtomicUsize::new(1),
        }
    }

    pub(super) fn with(self, at: At, fault: Fault) -> Self {
        self.world.lock().faults.push((at, fault));
        self
    }

    /// Leaders of groups that are synced wait for so many writers.
    pub(super) fn in_groups_of(self, writers: usize) -> Self {
        self.company.store(writers, Ordering::Relaxed);
        self
    }

    /// Syncs in flight end when the test says so.
    pub(super) fn holding_syncs(self) -> Self {
        self.world.lock().holds_syncs = true;
        self
    }

    pub(super) fn fill(&self) {
        self.leadership.lock().is_full = true;
    }

    /// Writes, and returns the first number or the error.
    pub(super) fn write(&self, numbers: Numbers, sync: bool) -> Result<u64> {
        self.write_timed(numbers, sync, None)
    }

    pub(super) fn write_timed(
        &self,
        payload: Numbers,
        sync: bool,
        times: Option<&mut Vec<Stage>>,
    ) -> Result<u64> {
        let mut waiter = Waiter::new(Request {
            payload,
            sync,
            disable_wal: false,
            no_slowdown: false,
            generation: 0,
            seqno: 0,
            error: None,
        });
        commit(self, &waiter, times);
        let request = waiter.data_mut();
        match request.error.take() {
            None => Ok(request.seqno),
            Some(e) => Err(e),
        }
    }

    /// Waits until `is_so`.
    fn await_world(&self, mut is_so: impl FnMut(&World) -> bool) {
        let mut world = self.world.lock();
        while !is_so(&world) {
            world = self.changed.wait(world);
        }
    }

    /// Waits until so many groups wait for their sync, and returns their first numbers.
    pub(super) fn await_syncs(&self, groups: usize) -> Vec<u64> {
        self.await_world(|w| w.syncing.len() == groups);
        self.world.lock().syncing.iter().copied().collect()
    }

    pub(super) fn await_inserted(&self, number: u64) {
        self.await_world(|w| w.inserted.contains_key(&number));
    }

    /// Ends the sync of the group that begins with `first`.
    pub(super) fn land(&self, first: u64) {
        self.world.lock().may_land.insert(first);
        self.changed.notify_all();
    }

    /// All that is visible is inserted. Returns up to where that is.
    pub(super) fn visible(&self) -> u64 {
        let visible = self.order.visible();
        let world = self.world.lock();
        for number in BEGAN + 1..=visible {
            let is_given_up = !world.failed.is_empty();
            assert!(
                world.inserted.contains_key(&number) || is_given_up,
                "W3: {number} of {visible}"
            );
        }
        visible
    }

    /// The number that the next group gets.
    pub(super) fn next(&self) -> u64 {
        self.order.next()
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.world.lock().log.clone()
    }

    pub(super) fn failures(&self) -> Vec<Stage> {
        self.world.lock().failed.clone()
    }

    /// Calls of the groups that were said to be published.
    pub(super) fn published_calls(&self) -> u64 {
        self.world.lock().published.iter().map(|l| l.calls).sum()
    }

    /// Insertions by followers and by groups in flight.
    pub(super) fn inserted_beside(&self) -> usize {
        self.world.lock().beside
    }

    fn fault(&self, at: At) -> Result<()> {
        let fault = self.world.lock().faults.iter().find(|f| f.0 == at).copied();
        match fault {
            None => Ok(()),
            Some((_, Fault::Fails)) => {
                Err(Error::io(format!("{at:?}")).with_severity(Severity::Fatal))
            }
            Some((_, Fault::Panics)) => panic!("planted at {at:?}"),
        }
    }

    fn append(&self, first: u64, count: u64, writers: Vec<u32>) -> Result<()> {
        for &writer in &writers {
            self.fault(At::Log(writer))?;
        }
        let mut world = self.world.lock();
        if let Some(last) = world.log.last() {
            assert!(last.first + last.count <= first, "W2: {last:?}, {first}");
        }
        let record = Record {
            first,
            count,
            writers,
        };
        world.log.push(record);
        Ok(())
    }

    fn put(&self, request: &Request<Numbers>, is_beside: bool) -> Result<()> {
        let Numbers { writer, count, .. } = request.payload;
        self.fault(At::Insert(writer))?;
        let mut world = self.world.lock();
        let record = world.log.iter().find(|r| r.writers.contains(&writer));
        let record = record.cloned().expect("W1: logged first");
        assert!(
            !request.sync || world.durable.contains(&record.first),
            "W6: durable before it is inserted"
        );
        for number in request.seqno..request.seqno + u64::from(count) {
            let last = record.first + record.count;
            assert!((record.first..last).contains(&number), "W2: {record:?}");
            assert!(self.order.visible() < number, "W3: {number}");
            assert_eq!(world.inserted.insert(number, writer), None, "{number}");
        }
        world.beside += usize::from(is_beside);
        drop(world);
        self.changed.notify_all();
        Ok(())
    }
}

impl TimesByStage for Vec<Stage> {
    fn add(&mut self, stage: Stage, _: u64) {
        self.push(stage);
    }
}

impl Stages for Double {
    type Payload = Numbers;
    type Leader = Leader;
    type Room = Result<()>;
    type Times = Vec<Stage>;
    type Sync = u64;
    type Beside<'a> = &'a Self;

    fn pipeline(&self) -> &CommitPipeline<Numbers> {
        &self.pipeline
    }

    fn leadership(&self) -> &Leadership<Leader> {
        &self.leadership
    }

    fn order(&self) -> &CommitOrder {
        &self.order
    }

    fn now_nanos(&self) -> u64 {
        0
    }

    fn slept(&self, _since_nanos: u64) {}

    fn make_room(&self, leader: &mut Leader, _: &Request<Numbers>) -> ControlFlow<Result<()>> {
        assert_eq!(self.leadership.in_flight(), 0, "a leader is alone");
        match (self.fault(At::Room), self.refusal(), leader.is_full) {
            (Err(e), _, _) | (Ok(()), Some(e), _) => ControlFlow::Break(Err(e)),
            (Ok(()), None, true) => ControlFlow::Break(Ok(())),
            (Ok(()), None, false) => ControlFlow::Continue(()),
        }
    }

    fn wait_for_room<'a>(
        &'a self,
        leader: MutexGuard<'a, Leader>,
        room: Result<()>,
        _: &Request<Numbers>,
        _: usize,
    ) -> (MutexGuard<'a, Leader>, Result<()>) {
        drop(leader);
        thread::yield_now();
        let mut leader = self.leadership.lock();
        leader.is_full = false;
        (leader, room)
    }

    fn may_go_alone(&self) -> bool {
        true
    }

    fn group_limit(&self, _: usize) -> usize {
        1 << 20
    }

    fn await_company(
        &self,
        _: &mut Leader,
        mut len: usize,
        mut grow: impl FnMut() -> Option<usize>,
    ) {
        while len < self.company.load(Ordering::Relaxed) {
            thread::yield_now();
            match grow() {
                Some(grown) => len = grown,
                None => return,
            }
        }
    }

    fn synced_together(&self, _: &mut Leader, len: usize, _: usize) {
        assert!(len >= 1);
    }

    fn check(&self, _: &Leader, request: &Request<Numbers>, _: SequenceNumber) -> Result<()> {
        self.fault(At::Check(request.payload.writer))
            .map_err(|_| Error::aborted("refused"))
    }

    fn log_alone(&self, _: &mut Leader, request: &Request<Numbers>, _: usize) -> Result<()> {
        let Numbers { writer, count, .. } = request.payload;
        self.append(request.seqno, u64::from(count), vec![writer])
    }

    fn log(
        &self,
        _: &mut Leader,
        group: &mut Group<Request<Numbers>>,
        load: &GroupLoad,
    ) -> Result<()> {
        let mut writers = Vec::new();
        group.for_each(|r| {
            if r.error.is_none() {
                writers.push(r.payload.writer);
            }
        });
        self.append(load.first, load.count, writers)
    }

    fn sync(&self, _: &mut Leader) -> Result<()> {
        self.fault(At::Sync(0))?;
        let mut world = self.world.lock();
        let all: Vec<u64> = world.log.iter().map(|r| r.first).collect();
        world.durable.extend(all);
        Ok(())
    }

    fn may_take_off(&self, leader: &Leader) -> bool {
        !leader.is_full && self.refusal().is_none()
    }

    fn may_fly(&self, _: &Leader, _: &Request<Numbers>) -> bool {
        true
    }

    fn send_off(
        &self,
        leader: &mut Leader,
        group: &mut Group<Request<Numbers>>,
        load: &GroupLoad,
    ) -> Result<Option<u64>> {
        let unapplied = self.leadership.unapplied();
        assert!(unapplied <= self.leadership.most_in_flight());
        Stages::log(self, leader, group, load)?;
        Ok(Some(load.first))
    }

    fn end_sync(&self, first: u64) -> Result<()> {
        self.world.lock().syncing.insert(first);
        self.changed.notify_all();
        self.await_world(|w| !w.holds_syncs || w.may_land.contains(&first));
        let ended = self.fault(At::Sync(first));
        let mut world = self.world.lock();
        world.syncing.remove(&first);
        if ended.is_ok() {
            world.durable.insert(first);
        }
        ended
    }

    fn begin_inserts(&self) -> impl Sized {}

    fn insert(&self, _: &mut Leader, request: &Request<Numbers>) -> Result<()> {
        self.put(request, false)
    }

    fn lets_followers_insert(&self, _: &mut Leader) -> bool {
        true
    }

    fn beside(&self) -> &Self {
        self
    }

    fn insert_beside(to: &mut &Self, request: &Request<Numbers>) -> Result<()> {
        to.put(request, true)
    }

    fn inserted(&self, _: &mut Leader, request: &Request<Numbers>) {
        let world = self.world.lock();
        assert_eq!(
            world.inserted.get(&request.seqno),
            Some(&request.payload.writer)
        );
    }

    fn inserted_all(&self, _: &mut Leader) {}

    fn published(&self, load: &GroupLoad) {
        assert!(self.visible() >= load.first + load.count - 1, "published");
        self.world.lock().published.push(*load);
    }

    fn failed(&self, stage: Stage, _: &Error) {
        self.world.lock().failed.push(stage);
    }

    fn panicked(&self) -> Error {
        self.world.lock().failed.push(Stage::Publish);
        Error::aborted("panicked").with_severity(Severity::Fatal)
    }

    fn refusal(&self) -> Option<Error> {
        let has_failed = !self.world.lock().failed.is_empty();
        has_failed.then(|| Error::aborted("a stage has failed"))
    }
}
