//! Carries out what the queue gives: by worker threads, by whoever waits, and by whoever closes the database.
//!
//! A worker is a job of the executor. It takes work as long as there is any for its lane, and ends: at rest there is no
//! worker, and the threads of the executor sleep. Whoever adds work starts a worker if none looks for work already; so does whoever has carried
//! something out.
//!
//! A group is one batch for the write path: its checks, stalls, log and memtables are those of any other write. A group
//! that is refused as a whole before anything happened is written again one by one, so that only those fail that must.

use super::cell::{Outcome, Wakers};
use super::plan::{Kind, Plan};
use super::queue::{After, Entry, Issued, Job, Limits, Queue, Run, Segment, Work, closed};
use super::tally::{self, Tally};
use crate::core::{Engine, Outstanding, rank};
use spanlith_base::sync::{Condvar, Mutex, thread};
use spanlith_base::{Error, ErrorKind, Result};
use spanlith_env::JobClass;
use spanlith_wal::WriteBatch;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Most yields of a worker that waits for the writers of the group before.
const COMPANY_YIELDS: u32 = 32;

/// The asynchronous requests of a database.
pub(crate) struct Requests {
    me: Weak<Self>,
    engine: Weak<Engine>,
    plan: Plan,
    queue: Mutex<Queue<Arc<Engine>>>,
    /// Something was carried out.
    done: Condvar,
    /// No request is accepted any more. Relaxed: the queue decides; this one saves reads a lock.
    is_closed: AtomicBool,
    /// How long a group with a sync takes, on average; 0 before the first one.
    sync_nanos: AtomicU64,
    pub(super) tally: Tally,
}

impl Requests {
    /// Those of `engine`; the first call makes them, and starts no thread.
    pub(crate) fn of(engine: &Arc<Engine>) -> Arc<Self> {
        let any = engine.requests.get_or_init(|| Self::new(engine)).clone();
        let own = any.into_any().downcast::<Self>();
        own.unwrap_or_else(|_| unreachable!("the engine has requests of one type"))
    }

    fn new(engine: &Arc<Engine>) -> Arc<Self> {
        let own = &engine.c.options.own;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let plan = Plan::new(own.async_mode, own.async_threads, cores);
        engine
            .c
            .env
            .executor
            .reserve(JobClass::Request, plan.total());
        let of = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let limits = Limits {
            requests: of(own.async_queue_length),
            bytes: of(own.async_queue_bytes),
            segment_bytes: of(engine.c.options.max_write_batch_group_size_bytes),
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            engine: Arc::downgrade(engine),
            plan,
            queue: Mutex::new(rank::REQUESTS, Queue::new(me.clone(), plan, limits)),
            done: Condvar::new(),
            is_closed: AtomicBool::new(false),
            sync_nanos: AtomicU64::new(0),
            tally: Tally::default(),
        })
    }

    /// Itself. Whoever calls a method has a handle.
    fn handle(&self) -> Arc<Self> {
        let me = self.me.upgrade();
        me.unwrap_or_else(|| unreachable!("a method runs on a handle"))
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// Fails once the database is being closed.
    pub(super) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Relaxed) {
            true => Err(closed()),
            false => Ok(()),
        }
    }

    /// Issues a write of about `bytes`, which `add` encodes.
    ///
    /// # Errors
    /// Those of [`Queue::write`].
    pub(super) fn write(
        &self,
        engine: &Engine,
        entry: Entry,
        waits: bool,
        bytes: usize,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<Issued> {
        let now = engine.c.env.clock.monotonic_nanos();
        let mut queue = self.queue.lock();
        let issued = queue.write(entry, waits, bytes, now, add);
        // Where nobody may ever wait, a thread begins at once.
        if !self.plan.waiters_carry {
            self.staff(&mut queue);
        }
        drop(queue);
        match &issued {
            Ok(Issued::Waiting(_)) => tally::count(&self.tally.waited),
            Err(e) if e.kind() == ErrorKind::Busy => tally::count(&self.tally.busy),
            _ => {}
        }
        issued
    }

    /// Queues a job.
    ///
    /// # Errors
    /// Those of [`Queue::job`].
    pub(super) fn job(
        &self,
        engine: &Engine,
        kind: Kind,
        waits: bool,
        run: Run<Arc<Engine>>,
    ) -> Result<()> {
        let issued = engine.c.env.clock.monotonic_nanos();
        let mut queue = self.queue.lock();
        let queued = queue.job(kind, waits, Job { issued, run });
        if !self.plan.waiters_carry {
            self.staff(&mut queue);
        }
        drop(queue);
        match &queued {
            Ok(()) => tally::count(&self.tally.jobs),
            Err(e) if e.kind() == ErrorKind::Busy => tally::count(&self.tally.busy),
            Err(_) => {}
        }
        queued
    }

    /// Starts the workers that are missing.
    fn staff(&self, queue: &mut Queue<Arc<Engine>>) {
        while let Some(lane) = queue.staff() {
            tally::count(&self.tally.wakeups);
            let Some(engine) = self.engine.upgrade() else {
                return;
            };
            let me = self.handle();
            // Counted, a worker that never runs would keep the engine.
            let work = move || {
                if let Some(engine) = me.engine.upgrade() {
                    me.serve(&engine, lane);
                }
            };
            (engine.c.env.executor).spawn(JobClass::Request, Box::new(work));
        }
    }

    /// Somebody is interested in a request and does not carry it out: sees to it that a thread does.
    pub(super) fn attend(&self) {
        if self.is_here() {
            self.staff(&mut self.queue.lock());
        }
    }

    /// Returns whether this is the process that opened the database: in a child of it there are no threads, and locks may be
    /// held by nobody.
    pub(super) fn is_here(&self) -> bool {
        let engine = self.engine.upgrade();
        engine.is_some_and(|engine| engine.owner.is_current())
    }

    /// A worker.
    fn serve(&self, engine: &Arc<Engine>, lane: usize) {
        loop {
            if self.plan.lane(Kind::Write) == lane {
                self.await_company(engine);
            }
            let mut queue = self.queue.lock();
            let work = queue.take_for_worker(lane);
            self.staff(&mut queue);
            drop(queue);
            let Some(work) = work else { return };
            self.perform(engine, work, Some(lane));
        }
    }

    /// Waits for writers that synced together last time and are on their way back, for at most an eighth of a sync, as
    /// leaders of synchronous writes do.
    fn await_company(&self, engine: &Engine) {
        let clock = &engine.c.env.clock;
        let sync_nanos = self.sync_nanos.load(Ordering::Relaxed);
        let until = clock.monotonic_nanos() + sync_nanos / 8;
        for _ in 0..COMPANY_YIELDS {
            let queue = self.queue.lock();
            let is_small = queue
                .forming_for_sync()
                .is_some_and(|n| n < queue.last_group);
            drop(queue);
            if !is_small || clock.monotonic_nanos() >= until {
                return;
            }
            thread::yield_now();
        }
    }

    /// Returns whether a thread that waits may carry out work of a kind itself.
    fn may_carry(&self, engine: &Engine, queue: &Queue<Arc<Engine>>, kind: Kind) -> bool {
        let executor = &engine.c.env.executor;
        (self.plan.waiters_carry && !queue.is_attended(kind))
            || executor.is_manual()
            || executor.lacks_threads()
    }

    /// Carries out the oldest work of a kind on the calling thread, if it may; says whether there was any.
    pub(super) fn carry_one(&self, kind: Kind) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return false;
        };
        let mut queue = self.queue.lock();
        if !self.may_carry(&engine, &queue, kind) {
            return false;
        }
        let work = queue.take(std::iter::once(kind));
        drop(queue);
        let Some(work) = work else {
            // The request may wait for a job that only the caller can run.
            return engine.c.env.executor.help();
        };
        tally::count(&self.tally.inline);
        self.perform(&engine, work, None);
        true
    }

    /// Carries out a piece of work for a worker of `lane`, or for somebody else.
    fn perform(&self, engine: &Arc<Engine>, work: Work<Arc<Engine>>, lane: Option<usize>) {
        match work {
            Work::Group(segment) => self.perform_group(engine, *segment, lane),
            Work::Job(job) => {
                self.record_wait(engine, job.issued);
                let After { waker, garbage } = (job.run)(engine);
                let mut queue = self.queue.lock();
                queue.job_done();
                self.go_on(&mut queue, lane);
                drop(queue);
                self.done.notify_all();
                contain(|| {
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                    drop(garbage);
                });
            }
        }
    }

    /// Says who has carried something out looks for more, or has others do it.
    fn go_on(&self, queue: &mut Queue<Arc<Engine>>, lane: Option<usize>) {
        if let Some(lane) = lane {
            queue.seek(lane);
        }
        self.staff(queue);
    }

    fn record_wait(&self, engine: &Engine, issued: u64) -> u64 {
        let now = engine.c.env.clock.monotonic_nanos();
        let waited = now.saturating_sub(issued) / 1000;
        self.tally.queue_micros.record(waited);
        now
    }

    fn perform_group(&self, engine: &Arc<Engine>, mut segment: Segment, lane: Option<usize>) {
        let began = self.record_wait(engine, segment.issued);
        tally::count(&self.tally.groups);
        tally::add(&self.tally.writes, segment.len());
        let outcome = self.write_group(engine, &segment);
        for (member, hook) in &mut segment.hooks {
            contain(|| hook(&outcome.of(*member)));
        }
        let now = engine.c.env.clock.monotonic_nanos();
        if segment.options.sync {
            let old = self.sync_nanos.load(Ordering::Relaxed);
            let mean = (old * 7 + now.saturating_sub(began)) / 8;
            self.sync_nanos.store(mean, Ordering::Relaxed);
        }
        let mut queue = self.queue.lock();
        // Under the lock: whoever has a result finds the room that its write took, and whoever finds nothing
        // outstanding finds all results.
        let mut wakers = segment.cell.settle(outcome);
        queue.settled(&mut segment, now, &mut wakers);
        self.go_on(&mut queue, lane);
        drop(queue);
        self.done.notify_all();
        contain(|| {
            wakers.wake();
            // Its hooks may hold the last handle of the database.
            drop(segment);
        });
    }

    fn write_group(&self, engine: &Arc<Engine>, segment: &Segment) -> Outcome {
        let count = segment.len() as u32;
        // A trace has each write by itself.
        if count > 1 && engine.tracing.queries.is_on() {
            return self.write_each(engine, segment);
        }
        match write(engine, &segment.batch, count, segment) {
            Err(e) if count > 1 && has_done_nothing(&e) => self.write_each(engine, segment),
            result => Outcome::Same(result),
        }
    }

    /// Writes each member by itself, in their order.
    fn write_each(&self, engine: &Arc<Engine>, segment: &Segment) -> Outcome {
        tally::count(&self.tally.split);
        let bytes = segment.batch.as_bytes();
        let mut from = (spanlith_wal::BATCH_HEADER_SIZE, 0);
        let each = segment.ends.iter().map(|&(end, count)| {
            let mut own = WriteBatch::new().into_bytes();
            let entries = count - from.1;
            own[8..].copy_from_slice(&entries.to_le_bytes());
            own.extend_from_slice(&bytes[from.0..end]);
            from = (end, count);
            let own = WriteBatch::from_bytes(own)?;
            write(engine, &own, 1, segment)
        });
        Outcome::Each(each.collect())
    }
}

/// Writes a batch; a panic of user code is an error.
fn write(engine: &Arc<Engine>, batch: &WriteBatch, calls: u32, segment: &Segment) -> Result<()> {
    let written = catch_unwind(AssertUnwindSafe(|| {
        engine.write_joined(batch, calls, &segment.options)
    }));
    match written {
        Ok(result) => result.map(drop),
        Err(_) => Err(panicked()),
    }
}

/// Runs foreign code whose panic, which the hook has printed, must not take a worker along.
fn contain(f: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(f));
    // Nothing waits for it, and all bookkeeping is done.
    drop(outcome);
}

/// The error of a request whose user code panicked.
#[cold]
pub(super) fn panicked() -> Error {
    Error::aborted("panic while an asynchronous request was carried out")
}

/// Returns whether nothing was written at this error, so that a part of the group may be tried again: refusals of the batch, and
/// of a wait.
fn has_done_nothing(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::InvalidArgument
            | ErrorKind::NotSupported
            | ErrorKind::Incomplete
            | ErrorKind::TimedOut
    )
}

impl Outstanding for Requests {
    fn finish(&self, engine: &Arc<Engine>) {
        self.is_closed.store(true, Ordering::Relaxed);
        let mut wakers = Wakers::default();
        let mut queue = self.queue.lock();
        let garbage = queue.close(&mut wakers);
        drop(queue);
        wakers.wake();
        drop(garbage);
        let mut queue = self.queue.lock();
        while !queue.is_idle() {
            match queue.take(Kind::ALL.into_iter()) {
                Some(work) => {
                    drop(queue);
                    self.perform(engine, work, None);
                    queue = self.queue.lock();
                }
                // Ends with the group or job that some thread is carrying out.
                None => queue = self.done.wait(queue),
            }
        }
    }

    fn report(&self) -> String {
        let [writes, bytes, waiting, jobs, workers] = self.queue.lock().figures();
        format!(
            "outstanding-writes: {writes}\noutstanding-bytes: {bytes}\nwaiting-for-room: {waiting}\n\
             queued-now: {jobs}\nworkers: {workers}\n{}",
            self.tally.text()
        )
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
