//! Describes what is outstanding: a state machine under one mutex, which knows no engine.
//!
//! ```text
//!   issue ──► forming segment ──take──► being written ──settled──► gone
//!     │              ▲                                     │
//!     └─► waiting ───┘◄──────────── room ──────────────────┘
//! ```
//!
//! A *segment* is a group of writes that share options; it is encoded as one batch. Segments are taken from the front, one
//! at a time, so that writes take effect in the order in which they were accepted. A write is accepted into the
//! last segment if its options allow, else into a new one after it.
//!
//! When there is no room, a write waits with bytes of its own. Waiting writes are accepted in their order as soon as there is room, and no later
//! write overtakes them, so that none starves.

use super::carry::Requests;
use super::cell::{GroupCell, Wakers};
use super::plan::{Kind, Plan};
use crate::core::rank;
use crate::write::WriteOptions;
use spanlith_base::sync::Mutex;
use spanlith_base::{Error, Result};
use spanlith_wal::WriteBatch;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::Waker;

/// Called with the result of a write before anybody else learns of it. Dropped later, without a lock.
pub(super) type Hook = Box<dyn FnMut(&Result<()>) + Send>;

/// A write on its way into the queue.
pub(super) struct Entry {
    pub options: WriteOptions,
    /// It is written by itself, with what its batch has besides entries.
    pub is_alone: bool,
    pub hook: Option<Hook>,
}

/// Writes that are written as one batch.
pub(super) struct Segment {
    pub options: WriteOptions,
    pub batch: WriteBatch,
    /// Where each write ends: bytes of the batch, entries.
    pub ends: Vec<(usize, u32)>,
    pub cell: Arc<GroupCell>,
    /// Nothing is added to it.
    pub is_closed: bool,
    /// When the oldest of its writes was accepted, in nanoseconds.
    pub issued: u64,
    /// Of some of its writes.
    pub hooks: Vec<(u32, Hook)>,
}

impl Segment {
    /// Number of writes.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes that count against the limit.
    fn bytes(&self) -> usize {
        self.batch.as_bytes().len()
    }

    /// Returns whether a write with these options may be part of it. One that does not ask for a sync may go with others that do, but does not
    /// wait for one that comes later.
    fn takes(&self, entry: &Entry, size_max: usize) -> bool {
        let mut like = self.options;
        like.sync = entry.options.sync;
        !self.is_closed
            && !entry.is_alone
            && self.bytes() < size_max
            && (self.options.sync || !entry.options.sync)
            && like == entry.options
    }
}

/// Describes what a job leaves to be done once it counts as done.
#[derive(Default)]
pub(super) struct After {
    pub waker: Option<Waker>,
    /// Dropped last: it may hold the last handle of the database.
    pub garbage: Option<Box<dyn Any + Send>>,
}

/// The work of a job. `C` is what a thread hands to it: the engine, outside tests.
pub(super) type Run<C> = Box<dyn FnOnce(&C) -> After + Send>;

/// A read, or something else that a thread carries out.
pub(super) struct Job<C> {
    pub issued: u64,
    pub run: Run<C>,
}

/// A write that waits for room.
pub(super) struct Slot {
    pub requests: Weak<Requests>,
    state: Mutex<SlotState>,
    bytes: usize,
}

enum SlotState {
    /// With what is to be written.
    Waiting(Box<(WriteBatch, Entry)>, Option<Waker>),
    /// A member of a group.
    Accepted(Arc<GroupCell>, u32),
    Failed(Error),
    Withdrawn,
}

/// Describes what became of a write that waited.
pub(super) enum Fate {
    Waiting,
    Accepted(Arc<GroupCell>, u32),
    Failed(Error),
}

impl Slot {
    fn new(requests: Weak<Requests>, batch: WriteBatch, entry: Entry) -> Self {
        Self {
            requests,
            bytes: batch.as_bytes().len(),
            state: Mutex::new(
                rank::REQUEST,
                SlotState::Waiting(Box::new((batch, entry)), None),
            ),
        }
    }

    /// How it stands; while it waits, `waker` is woken when that changes.
    pub(super) fn fate(&self, waker: Option<Waker>) -> Fate {
        let mut state = self.state.lock();
        let (fate, old) = match &mut *state {
            SlotState::Waiting(_, slot) => {
                (Fate::Waiting, waker.and_then(|waker| slot.replace(waker)))
            }
            SlotState::Accepted(cell, member) => (Fate::Accepted(cell.clone(), *member), None),
            SlotState::Failed(e) => (Fate::Failed(e.clone()), None),
            SlotState::Withdrawn => (Fate::Waiting, None),
        };
        drop(state);
        // Dropping a waker may drop a task and its futures.
        drop(old);
        fate
    }

    /// Withdraws it if it waits: it is not written. Returns the group that took it otherwise.
    pub(super) fn withdraw(&self) -> Option<(Arc<GroupCell>, u32)> {
        let mut state = self.state.lock();
        if let SlotState::Accepted(cell, member) = &*state {
            return Some((cell.clone(), *member));
        }
        let old = std::mem::replace(&mut *state, SlotState::Withdrawn);
        drop(state);
        // A hook may hold a handle of the database.
        drop(old);
        None
    }

    /// Ends the wait with an error; returns who waits.
    fn fail(&self, error: Error) -> (Option<Waker>, Option<Box<(WriteBatch, Entry)>>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, SlotState::Failed(error)) {
            SlotState::Waiting(parts, waker) => (waker, Some(parts)),
            other => {
                *state = other;
                (None, None)
            }
        }
    }
}

/// Where a write went.
pub(super) enum Issued {
    /// It is a member of a group.
    Accepted(Arc<GroupCell>, u32),
    /// It waits for room.
    Waiting(Arc<Slot>),
}

/// Limits of what may be outstanding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub requests: usize,
    pub bytes: usize,
    /// Bytes after which a segment takes no more.
    pub segment_bytes: usize,
}

/// Threads of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Started and not ended.
    workers: usize,
    /// Of these, those that carry nothing: they look for work, or are about to.
    seeking: usize,
}

/// A piece of work, taken from the queue.
pub(super) enum Work<C> {
    Group(Box<Segment>),
    Job(Job<C>),
}

/// Everything outstanding. `C` is what jobs work on.
pub(super) struct Queue<C> {
    /// Whose queue it is; none in tests of the queue alone.
    requests: Weak<Requests>,
    limits: Limits,
    plan: Plan,
    segments: VecDeque<Segment>,
    jobs: VecDeque<Job<C>>,
    long: VecDeque<Job<C>>,
    waiting: VecDeque<Arc<Slot>>,
    /// A group is being written.
    is_writing: bool,
    /// Groups and jobs being carried out.
    running: usize,
    /// Writes that were accepted and are not settled, and their bytes.
    writes: usize,
    bytes: usize,
    lanes: [Lane; 3],
    /// Buffers of groups that are done.
    spare: Vec<(WriteBatch, Vec<(usize, u32)>)>,
    /// Writes of the group before.
    pub last_group: usize,
    is_closed: bool,
}

/// Buffers that are kept for the next groups, and the largest one.
const SPARE_MAX: usize = 2;
const SPARE_BYTES_MAX: usize = 4 << 20;

impl<C> Queue<C> {
    pub(super) fn new(requests: Weak<Requests>, plan: Plan, limits: Limits) -> Self {
        Self {
            requests,
            limits,
            plan,
            segments: VecDeque::new(),
            jobs: VecDeque::new(),
            long: VecDeque::new(),
            waiting: VecDeque::new(),
            is_writing: false,
            running: 0,
            writes: 0,
            bytes: 0,
            lanes: [Lane::default(); 3],
            spare: Vec::new(),
            last_group: 0,
            is_closed: false,
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.writes == 0
            || (self.writes < self.limits.requests && self.bytes + bytes <= self.limits.bytes)
    }

    /// Issues a write of about `bytes`, which `add` encodes.
    ///
    /// # Errors
    /// `Busy` without room if it does not wait; `ShutdownInProgress` when closed; those of `add`. Nothing is outstanding then.
    pub(super) fn write(
        &mut self,
        entry: Entry,
        waits: bool,
        bytes: usize,
        now: u64,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<Issued> {
        if self.is_closed {
            return Err(closed());
        }
        if self.waiting.is_empty() && self.has_room(bytes) {
            let (cell, member) = self.accept(entry, now, add)?;
            return Ok(Issued::Accepted(cell, member));
        }
        if !waits {
            return Err(full());
        }
        let mut batch = WriteBatch::new();
        add(&mut batch)?;
        let slot = Arc::new(Slot::new(self.requests.clone(), batch, entry));
        self.waiting.push_back(slot.clone());
        Ok(Issued::Waiting(slot))
    }

    fn accept(
        &mut self,
        entry: Entry,
        now: u64,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<(Arc<GroupCell>, u32)> {
        let size_max = self.limits.segment_bytes;
        let fits = self
            .segments
            .back()
            .is_some_and(|last| last.takes(&entry, size_max));
        if !fits {
            let (batch, ends) = self.spare.pop().unwrap_or_default();
            self.segments.push_back(Segment {
                options: entry.options,
                batch,
                ends,
                cell: Arc::new(GroupCell::new(self.requests.clone())),
                is_closed: entry.is_alone,
                issued: now,
                hooks: Vec::new(),
            });
        }
        let Some(last) = self.segments.back_mut() else {
            return Err(closed());
        };
        let before = last.bytes();
        if let Err(e) = add(&mut last.batch) {
            if !fits {
                self.segments.pop_back();
            }
            return Err(e);
        }
        self.writes += 1;
        self.bytes += last.bytes() - before;
        let member = last.len() as u32;
        last.ends.push((last.bytes(), last.batch.count()));
        last.hooks.extend(entry.hook.map(|hook| (member, hook)));
        Ok((last.cell.clone(), member))
    }

    /// Accepts writes that waited, as far as there is room.
    fn admit(&mut self, now: u64, wakers: &mut Wakers) {
        while let Some(slot) = self.waiting.front() {
            let slot = slot.clone();
            if !self.has_room(slot.bytes) {
                // One that nobody wants any more makes way.
                if let SlotState::Waiting(..) = &*slot.state.lock() {
                    return;
                }
            }
            self.waiting.pop_front();
            let mut state = slot.state.lock();
            let waiting = std::mem::replace(&mut *state, SlotState::Withdrawn);
            let SlotState::Waiting(parts, waker) = waiting else {
                continue;
            };
            let (mut own, entry) = *parts;
            let add = |to: &mut WriteBatch| match to.as_bytes().len() == EMPTY {
                true => {
                    std::mem::swap(to, &mut own);
                    Ok(())
                }
                false => to.append(&own),
            };
            match self.accept(entry, now, add) {
                Ok((cell, member)) => {
                    if let Some(waker) = waker {
                        let is_pending = cell.register(member, waker);
                        debug_assert!(is_pending, "it was accepted a moment ago");
                    }
                    *state = SlotState::Accepted(cell, member);
                }
                Err(e) => {
                    *state = SlotState::Failed(e);
                    wakers.push(waker);
                }
            }
        }
    }

    /// Queues a job.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(super) fn job(&mut self, kind: Kind, waits: bool, job: Job<C>) -> Result<()> {
        if self.is_closed {
            return Err(closed());
        }
        if !waits && self.jobs.len() + self.long.len() >= self.limits.requests {
            return Err(full());
        }
        match kind {
            Kind::Long => self.long.push_back(job),
            _ => self.jobs.push_back(job),
        }
        Ok(())
    }

    /// When the oldest piece of work of a kind that may begin was issued.
    fn ready(&self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Write if self.is_writing => None,
            Kind::Write => self.segments.front().map(|s| s.issued),
            Kind::Job => self.jobs.front().map(|j| j.issued),
            Kind::Long => self.long.front().map(|j| j.issued),
        }
    }

    fn in_lane(&self, lane: usize) -> impl Iterator<Item = Kind> + use<C> {
        let plan = self.plan;
        Kind::ALL.into_iter().filter(move |k| plan.lane(*k) == lane)
    }

    /// Pieces of work of a lane that may begin.
    fn ready_in(&self, lane: usize) -> usize {
        let of = |kind| match kind {
            Kind::Write => usize::from(self.ready(Kind::Write).is_some()),
            Kind::Job => self.jobs.len(),
            Kind::Long => self.long.len(),
        };
        self.in_lane(lane).map(of).sum()
    }

    /// Takes the oldest piece of work of these kinds.
    pub(super) fn take(&mut self, kinds: impl Iterator<Item = Kind>) -> Option<Work<C>> {
        let oldest = kinds.filter_map(|k| Some((self.ready(k)?, k)));
        let (_, kind) = oldest.min_by_key(|(issued, _)| *issued)?;
        let work = match kind {
            Kind::Write => {
                self.is_writing = true;
                Work::Group(Box::new(self.segments.pop_front()?))
            }
            Kind::Job => Work::Job(self.jobs.pop_front()?),
            Kind::Long => Work::Job(self.long.pop_front()?),
        };
        self.running += 1;
        Some(work)
    }

    /// Takes work for a worker of a lane; without any, the worker is no more.
    pub(super) fn take_for_worker(&mut self, lane: usize) -> Option<Work<C>> {
        let kinds = self.in_lane(lane);
        let work = self.take(kinds);
        let threads = &mut self.lanes[lane];
        threads.seeking -= 1;
        if work.is_none() {
            threads.workers -= 1;
        }
        work
    }

    /// The worker looks for work again.
    pub(super) fn seek(&mut self, lane: usize) {
        self.lanes[lane].seeking += 1;
    }

    /// The next lane that lacks a worker for work that may begin; it counts as started.
    pub(super) fn staff(&mut self) -> Option<usize> {
        if self.is_closed {
            // The close carries out what is left.
            return None;
        }
        let lane = (0..self.lanes.len()).find(|&lane| {
            let threads = self.lanes[lane];
            threads.workers < self.plan.threads[lane] && threads.seeking < self.ready_in(lane)
        })?;
        self.lanes[lane].workers += 1;
        self.lanes[lane].seeking += 1;
        Some(lane)
    }

    /// Returns whether a thread takes care of work of a kind.
    pub(super) fn is_attended(&self, kind: Kind) -> bool {
        self.lanes[self.plan.lane(kind)].workers > 0
    }

    /// The group that would be taken next, if it still forms and asks for a sync: its writes.
    pub(super) fn forming_for_sync(&self) -> Option<usize> {
        let front = self.segments.front()?;
        let forms = self.segments.len() == 1 && !self.is_writing && !front.is_closed;
        (forms && front.options.sync).then(|| front.len())
    }

    /// A group is done: makes room, and accepts those that wait for it.
    pub(super) fn settled(&mut self, segment: &mut Segment, now: u64, wakers: &mut Wakers) {
        debug_assert!(self.is_writing, "one group at a time");
        self.is_writing = false;
        self.running -= 1;
        self.writes -= segment.len();
        self.bytes -= segment.bytes() - EMPTY;
        self.last_group = segment.len();
        let mut batch = std::mem::take(&mut segment.batch);
        let is_plain = !segment.is_closed && batch.as_bytes().len() <= SPARE_BYTES_MAX;
        if is_plain && self.spare.len() < SPARE_MAX {
            batch.clear();
            let mut ends = std::mem::take(&mut segment.ends);
            ends.clear();
            self.spare.push((batch, ends));
        }
        self.admit(now, wakers);
    }

    /// A job is done.
    pub(super) fn job_done(&mut self) {
        self.running -= 1;
    }

    /// Refuses what comes from now on, and fails what waits for room.
    pub(super) fn close(&mut self, wakers: &mut Wakers) -> Vec<Box<dyn Any + Send>> {
        self.is_closed = true;
        let mut garbage: Vec<Box<dyn Any + Send>> = Vec::new();
        for slot in self.waiting.drain(..) {
            let (waker, parts) = slot.fail(closed());
            wakers.push(waker);
            garbage.extend(parts.map(|p| p as Box<dyn Any + Send>));
        }
        garbage
    }

    /// Returns whether nothing is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
            && self.segments.is_empty()
            && self.jobs.is_empty()
            && self.long.is_empty()
    }

    /// Outstanding writes, their bytes, writes that wait for room, jobs, and threads.
    pub(super) fn figures(&self) -> [usize; 5] {
        let workers = self.lanes.iter().map(|lane| lane.workers).sum();
        let jobs = self.jobs.len() + self.long.len();
        [self.writes, self.bytes, self.waiting.len(), jobs, workers]
    }
}

/// Bytes of an empty batch.
const EMPTY: usize = spanlith_wal::BATCH_HEADER_SIZE;

#[cold]
fn full() -> Error {
    Error::busy("too many asynchronous requests are outstanding")
}

#[cold]
pub(super) fn closed() -> Error {
    Error::shutdown("asynchronous request")
}
