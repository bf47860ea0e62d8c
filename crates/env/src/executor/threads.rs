//! Background work on threads: one pool per class, shared by all databases of the process.
//!
//! A pool starts a thread when a job comes, no thread is idle and the reserved number is not reached;
//! it never shrinks before the executor is dropped. Threads are named `spanlith-high-0` and so on. A
//! job that panics takes nothing with it: the panic has been printed by the hook, and the job's
//! boundary in the engine reports it.
//!
//! If the system refuses a thread, jobs wait for the threads there are. If there are none, a timer asks
//! again every [`RETRY`], and whoever waits for background work helps meanwhile.
//!
//! Timers have threads of their own ([`super::timers`]).
//!
//! A child made by `fork` has none of these threads. It gets pools and timers of its own when it first asks for them,
//! with as many threads as had been reserved; what was queued in the parent is the parent's.
//!
//! Dropping the executor ends the timers of this process, lets the queues drain and waits for the threads, except for a thread that is
//! itself running the drop (a job held the last handle); that one ends by itself.
//!
//! Locks: one leaf mutex per pool, never held while a job runs; before them the one of the timer that asks
//! again.

use super::timers::{Timer, Timers};
use crate::process::PerProcess;
use crate::sys;
use crate::traits::{Executor, Job, JobClass, Lowered};
use spanlith_base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const RANK: u8 = 94;
const RETRY_RANK: u8 = 93;

/// Time between two requests for a thread while jobs wait and there is none.
const RETRY: Duration = Duration::from_millis(100);

/// Threads per class, one pool each, and threads that all timers share.
pub struct ThreadExecutor {
    threads: PerProcess<Threads>,
    /// Threads reserved by class: what the pools of a child begin with. Relaxed: numbers that stand for themselves.
    reserved: [AtomicUsize; 4],
    /// Priorities by class, which the threads of children have, too.
    priorities: [Arc<Priorities>; 4],
}

/// Priorities that the threads of a class are to have. Relaxed: numbers that stand for themselves.
#[derive(Default)]
struct Priorities {
    nice: AtomicU8,
    idle_disk: AtomicBool,
}

impl Priorities {
    fn are_lowered(&self) -> bool {
        self.nice.load(Ordering::Relaxed) > 0 || self.idle_disk.load(Ordering::Relaxed)
    }

    /// Called by a thread before each job: lowers its own, which were at `mine`.
    fn take_on(&self, mine: &mut (u8, bool)) {
        let wanted = (
            self.nice.load(Ordering::Relaxed),
            self.idle_disk.load(Ordering::Relaxed),
        );
        if wanted == *mine {
            return;
        }
        // A refusal is not asked for again.
        if wanted.0 > mine.0 {
            let _ = sys::lower_cpu(wanted.0);
        }
        if wanted.1 && !mine.1 {
            let _ = sys::lower_io();
        }
        *mine = wanted;
    }
}

/// The threads of one process.
struct Threads {
    /// Indexed by `JobClass as usize`.
    pools: [Arc<Pool>; 4],
    timers: Arc<Timers>,
    /// The timer that asks again for threads, from the first refusal on.
    retry: Mutex<Option<Timer>>,
    /// That timer runs. Set under the lock of `retry`; the timer takes it back when it ends.
    retries: Arc<AtomicBool>,
}

struct Pool {
    name: &'static str,
    priorities: Arc<Priorities>,
    state: Mutex<PoolState>,
    /// Signalled when a job is queued and when the pool closes.
    work: Condvar,
    /// Requests for a thread that are refused from now on.
    #[cfg(test)]
    pub(super) refusals: std::sync::atomic::AtomicUsize,
}

struct PoolState {
    /// Oldest first.
    queue: VecDeque<Job>,
    /// Threads the pool may have.
    limit: usize,
    /// Threads waiting for work.
    idle: usize,
    /// Threads started; they end only after `closed`.
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl ThreadExecutor {
    /// Pools that may have one thread each; [`Executor::reserve`] adds more. No thread starts before
    /// there is work.
    pub fn new() -> Self {
        Self {
            threads: PerProcess::new(),
            reserved: [const { AtomicUsize::new(1) }; 4],
            priorities: Default::default(),
        }
    }

    /// The threads of this process.
    fn mine(&self) -> &Threads {
        self.threads.get_or_init(|| {
            let reserved = self.reserved.each_ref().map(|n| n.load(Ordering::Relaxed));
            let threads = Threads::new(reserved, &self.priorities);
            if self.priorities.iter().any(|p| p.are_lowered()) {
                threads.pools.iter().for_each(Pool::fill);
            }
            threads
        })
    }

    fn pool(&self, class: JobClass) -> &Arc<Pool> {
        &self.mine().pools[class as usize]
    }

    /// Threads running for a class.
    pub fn threads(&self, class: JobClass) -> usize {
        self.pool(class).state.lock().threads.len()
    }

    /// Has the next requests for a thread of a class refused.
    #[cfg(test)]
    pub(super) fn refuse(&self, class: JobClass, requests: usize) {
        let refusals = &self.pool(class).refusals;
        refusals.store(requests, Ordering::Relaxed);
    }

    /// Threads of timers.
    #[cfg(test)]
    pub(super) fn timer_threads(&self) -> usize {
        self.mine().timers.threads()
    }

    /// Jobs of a class that no thread has taken yet.
    pub fn queued(&self, class: JobClass) -> usize {
        self.pool(class).state.lock().queue.len()
    }
}

impl Threads {
    fn new(reserved: [usize; 4], priorities: &[Arc<Priorities>; 4]) -> Self {
        /// In the order of `JobClass`.
        const NAMES: [&str; 4] = ["high", "low", "bottom", "request"];
        let pool = |i: usize| Pool::new(NAMES[i], reserved[i], priorities[i].clone());
        Self {
            pools: std::array::from_fn(|i| Arc::new(pool(i))),
            timers: Arc::new(Timers::new()),
            retry: Mutex::new(RETRY_RANK, None),
            retries: Arc::default(),
        }
    }

    /// A pool has jobs and no thread: asks again until each has one, or no job.
    fn ask_again(&self) {
        let mut slot = self.retry.lock();
        if self.retries.swap(true, Ordering::AcqRel) {
            return;
        }
        let (pools, retries) = (self.pools.clone(), self.retries.clone());
        let is_stranded = move || {
            let stranded = pools.iter().filter(|pool| pool.is_stranded());
            // Every pool is asked.
            stranded.count() > 0
        };
        let tick = move || {
            is_stranded() || {
                retries.store(false, Ordering::Release);
                // A caller that was stranded in between took it that the timer runs.
                is_stranded() && !retries.swap(true, Ordering::AcqRel)
            }
        };
        let timer = self.timers.start(RETRY, Box::new(tick));
        let old = slot.replace(timer);
        drop(slot);
        // The timer before has ended, or is about to.
        drop(old);
    }
}

impl Default for ThreadExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl Pool {
    fn new(name: &'static str, limit: usize, priorities: Arc<Priorities>) -> Self {
        Self {
            name,
            priorities,
            state: Mutex::new(
                RANK,
                PoolState {
                    queue: VecDeque::new(),
                    limit,
                    idle: 0,
                    threads: Vec::new(),
                    closed: false,
                },
            ),
            work: Condvar::new(),
            #[cfg(test)]
            refusals: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Starts threads while jobs wait that no idle thread will take. If the system refuses a thread,
    /// the jobs stay queued for the threads there are, or for `help` if there are none.
    fn grow(self: &Arc<Self>, state: &mut PoolState) {
        let mut wanted = state.queue.len().saturating_sub(state.idle);
        while wanted > 0 && state.threads.len() < state.limit {
            match self.start_thread(state.threads.len()) {
                Ok(handle) => state.threads.push(handle),
                Err(_) => break,
            }
            wanted -= 1;
        }
    }

    /// Starts all threads that the pool may have.
    fn fill(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while state.threads.len() < state.limit {
            match self.start_thread(state.threads.len()) {
                Ok(handle) => state.threads.push(handle),
                Err(_) => return,
            }
        }
    }

    fn start_thread(self: &Arc<Self>, number: usize) -> std::io::Result<JoinHandle<()>> {
        #[cfg(test)]
        {
            let less = |n: usize| n.checked_sub(1);
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.refusals.fetch_update(set, fetch, less).is_ok() {
                return Err(std::io::Error::from_raw_os_error(libc::EAGAIN));
            }
        }
        let pool = Arc::clone(self);
        let name = format!("spanlith-{}-{number}", self.name);
        let thread = std::thread::Builder::new().name(name);
        thread.spawn(move || pool.work())
    }

    /// Returns whether jobs wait and there is still no thread for them.
    fn is_stranded(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        self.grow(&mut state);
        state.is_stranded()
    }

    /// The life of a thread: jobs until the pool is closed and its queue empty.
    fn work(&self) {
        let mut mine = (0, false);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                self.priorities.take_on(&mut mine);
                run(job);
                state = self.state.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state);
                state.idle -= 1;
            }
        }
    }
}

impl PoolState {
    fn is_stranded(&self) -> bool {
        self.threads.is_empty() && !self.queue.is_empty()
    }
}

/// Runs a job; its panic ends here.
fn run(job: Job) {
    // The captures of the job are gone with it, so nothing is seen half changed.
    let _ = catch_unwind(AssertUnwindSafe(job));
}

impl Executor for ThreadExecutor {
    fn spawn(&self, class: JobClass, job: Job) {
        let pool = self.pool(class);
        let is_stranded = {
            let mut state = pool.state.lock();
            state.queue.push_back(job);
            pool.grow(&mut state);
            state.is_stranded()
        };
        pool.work.notify_one();
        if is_stranded {
            self.mine().ask_again();
        }
    }

    fn reserve(&self, class: JobClass, threads: usize) {
        self.reserved[class as usize].fetch_max(threads, Ordering::Relaxed);
        let pool = self.pool(class);
        let mut state = pool.state.lock();
        state.limit = state.limit.max(threads);
        pool.grow(&mut state);
        drop(state);
        if self.priorities.iter().any(|p| p.are_lowered()) {
            pool.fill();
        }
    }

    fn lower(&self, class: JobClass, what: Lowered) {
        let priorities = &self.priorities[class as usize];
        match what {
            Lowered::Processor(nice) => _ = priorities.nice.fetch_max(nice, Ordering::Relaxed),
            Lowered::Disk => priorities.idle_disk.store(true, Ordering::Relaxed),
        }
        // A thread is born with the priority of the one that starts it: a lowered one must start none of another class.
        self.mine().pools.iter().for_each(Pool::fill);
    }

    fn lacks_threads(&self) -> bool {
        self.mine().pools.iter().any(|pool| pool.is_stranded())
    }

    fn help(&self) -> bool {
        for pool in &self.mine().pools {
            let job = {
                let mut state = pool.state.lock();
                pool.grow(&mut state);
                if state.threads.is_empty() {
                    state.queue.pop_front()
                } else {
                    None
                }
            };
            if let Some(job) = job {
                run(job);
                return true;
            }
        }
        false
    }

    fn lend(&self, class: JobClass) -> bool {
        let pool = self.pool(class);
        let job = {
            let mut state = pool.state.lock();
            pool.grow(&mut state);
            // A thread that was woken for a job is idle until it has taken it.
            match state.queue.len() > state.idle {
                true => state.queue.pop_front(),
                false => None,
            }
        };
        job.map(run).is_some()
    }

    fn periodic(
        &self,
        _name: &str,
        period: Duration,
        tick: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync> {
        Box::new(self.mine().timers.start(period, tick))
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        let Some(mine) = self.threads.take() else {
            return;
        };
        mine.timers.close();
        let me = std::thread::current().id();
        for pool in &mine.pools {
            let threads = {
                let mut state = pool.state.lock();
                state.closed = true;
                std::mem::take(&mut state.threads)
            };
            pool.work.notify_all();
            if threads.is_empty() {
                // No thread was ever to be had: what is queued runs here.
                while let Some(job) = { pool.state.lock().queue.pop_front() } {
                    run(job);
                }
            }
            for thread in threads {
                if thread.thread().id() != me {
                    // Threads catch the panics of jobs, so joining brings no news.
                    let _ = thread.join();
                }
            }
        }
    }
}
