//! Timers that share threads: a process with a thousand open databases has thousands of timers, and
//! none of them runs for more than a moment.
//!
//! One thread, the leader, sleeps until the first timer is due. Before it runs a tick it hands the
//! lead to an idle thread, or to a new one, so a tick that takes long delays no other timer until
//! [`LIMIT`] of them run at once: a disk that hangs may hold the ticks of all databases on it, and the one
//! that reports it must still run. There are no more threads than ticks that ever ran at once, and one. Threads are named `spanlith-time-0` and so on; the first starts with
//! the first timer, and all stay until the executor is dropped.
//!
//! Locks: one leaf mutex, never held while a tick runs or is dropped.

use crate::process::Process;
#[cfg(shuttle)]
use shuttle::thread::{self, JoinHandle, ThreadId};
use spanlith_base::sync::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(not(shuttle))]
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

const RANK: u8 = 94;

/// Threads at most. Ticks that wait for a device hold one each.
pub(super) const LIMIT: usize = 256;

pub(super) type Tick = Box<dyn FnMut() -> bool + Send>;

/// The timers of an executor.
pub(super) struct Timers {
    /// Whose threads they are.
    process: Process,
    state: Mutex<State>,
    /// Wakes the leader: an earlier timer has come, or the end.
    lead: Condvar,
    /// Wakes a thread that waits to be leader.
    follow: Condvar,
    /// Signalled when a tick ends that a guard waits for.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Timers that wait, the next one first. Those that are never due are only in `timers`.
    due: BTreeSet<(Instant, u64)>,
    timers: HashMap<u64, Entry>,
    next_id: u64,
    /// A thread sleeps until the first of `due`.
    led: bool,
    /// Threads that wait to be leader, or have just been started.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

struct Entry {
    period: Duration,
    /// Its place in [`State::due`].
    due: Option<Instant>,
    run: Run,
    /// The guard waits for the tick that runs.
    cancelled: bool,
}

enum Run {
    Waits(Tick),
    Runs(ThreadId),
}

impl Timers {
    pub(super) fn new() -> Self {
        Self {
            process: Process::current(),
            state: Mutex::new(RANK, State::default()),
            lead: Condvar::new(),
            follow: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// Calls `tick` every `period` until it returns false or the guard is dropped. If the system
    /// refuses the first thread, the timer starts with the next one that gets a thread.
    pub(super) fn start(self: &Arc<Self>, period: Duration, tick: Tick) -> Timer {
        // A period beyond the end of time never comes due.
        let due = Instant::now().checked_add(period);
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        let run = Run::Waits(tick);
        let cancelled = false;
        let entry = Entry {
            period,
            due,
            run,
            cancelled,
        };
        state.timers.insert(id, entry);
        if !self.enqueue(&mut state, due, id) {
            self.appoint(&mut state);
        }
        drop(state);
        Timer {
            timers: Arc::clone(self),
            id,
        }
    }

    /// Threads started.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.state.lock().threads.len()
    }

    /// Returns whether a leader knows of it now.
    fn enqueue(&self, state: &mut State, due: Option<Instant>, id: u64) -> bool {
        state.due.extend(due.map(|due| (due, id)));
        if state.led && state.due.first().map(|(_, first)| *first) == Some(id) {
            self.lead.notify_one();
        }
        state.led
    }

    /// Nobody leads: sees to it that somebody will. If every thread there may be runs a tick, the first
    /// that is done leads.
    fn appoint(self: &Arc<Self>, state: &mut State) {
        if state.due.is_empty() || state.closed {
            return;
        }
        if state.idle > 0 {
            self.follow.notify_one();
        } else if state.threads.len() < LIMIT {
            let timers = Arc::clone(self);
            let thread = thread::Builder::new()
                .name(format!("spanlith-time-{}", state.threads.len()))
                .spawn(move || timers.work());
            if let Ok(thread) = thread {
                // It looks for work as soon as it runs.
                state.idle += 1;
                state.threads.push(thread);
            }
        }
    }

    /// The life of a thread.
    fn work(self: Arc<Self>) {
        let mut state = self.state.lock();
        state.idle -= 1;
        while !state.closed {
            let first = state.due.first().copied();
            state = match first {
                Some((due, id)) if !state.led => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.tick(state, due, id)
                    } else {
                        state.led = true;
                        let mut state = self.lead.wait_timeout(state, left).0;
                        state.led = false;
                        state
                    }
                }
                _ => {
                    state.idle += 1;
                    let mut state = self.follow.wait(state);
                    state.idle -= 1;
                    state
                }
            };
        }
    }

    /// Runs the timer that is due. Late ticks are not made up for.
    fn tick<'s>(
        self: &'s Arc<Self>,
        mut state: MutexGuard<'s, State>,
        due: Instant,
        id: u64,
    ) -> MutexGuard<'s, State> {
        state.due.remove(&(due, id));
        let me = Run::Runs(thread::current().id());
        let taken = state.timers.get_mut(&id).map(|entry| {
            entry.due = None;
            std::mem::replace(&mut entry.run, me)
        });
        let Some(Run::Waits(mut tick)) = taken else {
            return state;
        };
        self.appoint(&mut state);
        drop(state);
        // A tick that panics is not called again, so nothing is seen half changed.
        let again = catch_unwind(AssertUnwindSafe(&mut tick)).unwrap_or(false);
        let mut tick = Some(tick);
        let mut state = self.state.lock();
        let closed = state.closed;
        // Gone if the guard was dropped meanwhile, by the tick itself or by a thread that waits.
        if again
            && !closed
            && let Some(entry) = state.timers.get_mut(&id).filter(|entry| !entry.cancelled)
            && let Some(tick) = tick.take()
        {
            let due = Instant::now().checked_add(entry.period);
            entry.due = due;
            entry.run = Run::Waits(tick);
            // If nobody leads, this thread does next.
            self.enqueue(&mut state, due, id);
            return state;
        }
        drop(state);
        drop(tick);
        let mut state = self.state.lock();
        state.timers.remove(&id);
        self.ended.notify_all();
        state
    }

    /// Ends the threads and waits for them, except for one that is itself in this call.
    pub(super) fn close(&self) {
        let me = thread::current().id();
        let mut state = self.state.lock();
        state.closed = true;
        state.due.clear();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.lead.notify_all();
        self.follow.notify_all();
        for thread in threads {
            if thread.thread().id() != me {
                // Threads catch the panics of ticks, so joining brings no news.
                let _ = thread.join();
            }
        }
        // Ticks that nobody will call are dropped where they may do what they like.
        let timers = std::mem::take(&mut self.state.lock().timers);
        drop(timers);
        self.ended.notify_all();
    }
}

/// Ends its timer when dropped, and waits for a tick that another thread runs. In a child of the process that started
/// it there is nothing to end.
pub(super) struct Timer {
    timers: Arc<Timers>,
    id: u64,
}

impl Drop for Timer {
    fn drop(&mut self) {
        if !self.timers.process.is_current() {
            // The thread that ticks is the parent's, and may have held the lock when it forked.
            return;
        }
        let me = thread::current().id();
        let mut state = self.timers.state.lock();
        while let Some(entry) = state.timers.get_mut(&self.id) {
            match entry.run {
                Run::Runs(thread) if thread != me => {
                    entry.cancelled = true;
                    state = self.timers.ended.wait(state);
                }
                _ => {
                    let place = entry.due.take();
                    let entry = state.timers.remove(&self.id);
                    if let Some(due) = place {
                        state.due.remove(&(due, self.id));
                    }
                    drop(state);
                    drop(entry);
                    return;
                }
            }
        }
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use spanlith_base::sync::explore;
    use std::sync::Weak;

    /// Under shuttle no wait times out, so a wake-up that is missing stops the model.
    const HOUR: Duration = Duration::from_secs(3600);

    /// Ticks `left` times at once, unless its guard goes first; says how often it did so far.
    struct Counted {
        seen: Arc<(Mutex<u32>, Condvar)>,
        alive: Weak<()>,
        guard: Timer,
    }

    fn counted(timers: &Arc<Timers>, left: u32) -> Counted {
        let seen = Arc::new((Mutex::new(0, 0), Condvar::new()));
        let held = Arc::new(());
        let alive = Arc::downgrade(&held);
        let theirs = Arc::clone(&seen);
        let tick = move || {
            let _held = &held;
            let mut ticks = theirs.0.lock();
            *ticks += 1;
            theirs.1.notify_all();
            *ticks < left
        };
        let guard = timers.start(Duration::ZERO, Box::new(tick));
        Counted { seen, alive, guard }
    }

    impl Counted {
        fn wait_for(&self, ticks: u32) {
            let (seen, changed) = &*self.seen;
            let mut now = seen.lock();
            while *now < ticks {
                now = changed.wait(now);
            }
        }
    }

    fn model(rare: bool) -> impl Fn() + Send + Sync + 'static {
        move || {
            let timers = Arc::new(Timers::new());
            // Somebody leads already, for a time that does not come.
            let far = rare.then(|| timers.start(HOUR, Box::new(|| unreachable!("not due"))));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let timers = Arc::clone(&timers);
                    thread::spawn(move || {
                        let waited = counted(&timers, 3);
                        let dropped = counted(&timers, 2);
                        waited.wait_for(2);
                        for timer in [dropped, waited] {
                            drop(timer.guard);
                            assert!(timer.alive.upgrade().is_none(), "the tick is gone");
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            drop(far);
            timers.close();
        }
    }

    #[test]
    fn no_timer_is_forgotten_and_none_ticks_behind_its_guard() {
        explore("timers", model(false));
    }

    #[test]
    fn a_timer_in_front_of_the_first_is_heard() {
        explore("timers behind one that is not due", model(true));
    }

    #[test]
    fn closing_ends_all_threads() {
        explore("timers: close", || {
            let timers = Arc::new(Timers::new());
            let ticking = counted(&timers, 2);
            let far = timers.start(HOUR, Box::new(|| true));
            timers.close();
            assert!(ticking.alive.upgrade().is_none(), "the tick is gone");
            drop((ticking, far));
        });
    }
}
