//! Where results are left: one cell for a group of writes, one for each read.
//!
//! Describes who settles a cell stores the result and takes the wakers in one step, under the lock of the wakers; whoever registers a waker looks
//! for the result under the same lock. So no wakeup is lost. Wakers are woken without a lock.

use super::Requests;
use crate::core::rank;
use spanlith_base::Result;
use spanlith_base::sync::Mutex;
use std::sync::{OnceLock, Weak};
use std::task::Waker;

/// How a group went.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All of its writes alike.
    Same(Result<()>),
    /// Each by itself.
    Each(Vec<Result<()>>),
}

impl Outcome {
    /// Of one member.
    pub(super) fn of(&self, member: u32) -> Result<()> {
        match self {
            Self::Same(result) => result.clone(),
            Self::Each(results) => results[member as usize].clone(),
        }
    }
}

/// The result of a group of writes. Each of its futures holds it.
pub(super) struct GroupCell {
    /// None in tests of the queue alone.
    pub requests: Weak<Requests>,
    outcome: OnceLock<Outcome>,
    /// By member; `None` where nobody waits.
    wakers: Mutex<Vec<Option<Waker>>>,
}

/// Describes who is to be woken, without a lock.
#[derive(Default)]
pub(super) struct Wakers(Vec<Option<Waker>>);

impl Wakers {
    /// Adds one.
    pub(super) fn push(&mut self, waker: Option<Waker>) {
        self.0.push(waker);
    }

    /// Wakes all; a task with several requests in a row once for these.
    pub(super) fn wake(self) {
        let mut last: Option<Waker> = None;
        for waker in self.0.into_iter().flatten() {
            if last.as_ref().is_none_or(|last| !last.will_wake(&waker)) {
                waker.wake_by_ref();
                last = Some(waker);
            }
        }
    }
}

impl GroupCell {
    pub(super) fn new(requests: Weak<Requests>) -> Self {
        Self {
            requests,
            outcome: OnceLock::new(),
            wakers: Mutex::new(rank::WAKERS, Vec::new()),
        }
    }

    /// The result of a member, once the group is done.
    pub(super) fn result(&self, member: u32) -> Option<Result<()>> {
        self.outcome.get().map(|outcome| outcome.of(member))
    }

    /// Has `waker` woken when the group is done; false if it is.
    pub(super) fn register(&self, member: u32, waker: Waker) -> bool {
        let mut wakers = self.wakers.lock();
        if self.outcome.get().is_some() {
            return false;
        }
        let at = member as usize;
        if wakers.len() <= at {
            wakers.resize(at + 1, None);
        }
        let old = wakers[at].replace(waker);
        // Dropping a waker may drop a task, and with it a future that looks here.
        drop(wakers);
        drop(old);
        true
    }

    /// Forgets the waker of a member whose future is gone.
    pub(super) fn forget(&self, member: u32) {
        let mut wakers = self.wakers.lock();
        let old = wakers.get_mut(member as usize).and_then(Option::take);
        drop(wakers);
        drop(old);
    }

    /// Leaves the outcome; returns who waits for it.
    pub(super) fn settle(&self, outcome: Outcome) -> Wakers {
        let mut wakers = self.wakers.lock();
        let settled = self.outcome.set(outcome);
        debug_assert!(settled.is_ok(), "a group is settled once");
        Wakers(std::mem::take(&mut *wakers))
    }
}

/// The result of a read or another job.
pub(super) struct JobCell<T> {
    pub requests: Weak<Requests>,
    state: Mutex<JobState<T>>,
}

enum JobState<T> {
    /// Queued, or being carried out.
    Pending(Option<Waker>),
    Done(T),
    /// The result was taken, or nobody wants it any more.
    Over,
}

impl<T> JobCell<T> {
    pub(super) fn new(requests: Weak<Requests>) -> Self {
        Self {
            requests,
            state: Mutex::new(rank::WAKERS, JobState::Pending(None)),
        }
    }

    /// Returns whether somebody wants the result.
    pub(super) fn is_wanted(&self) -> bool {
        !matches!(*self.state.lock(), JobState::Over)
    }

    /// Returns whether the result is there.
    pub(super) fn is_done(&self) -> bool {
        matches!(*self.state.lock(), JobState::Done(_))
    }

    /// Leaves the result; returns who waits for it.
    pub(super) fn settle(&self, result: T) -> Option<Waker> {
        let mut state = self.state.lock();
        let is_wanted = matches!(*state, JobState::Pending(_));
        let left = match is_wanted {
            true => std::mem::replace(&mut *state, JobState::Done(result)),
            // Nobody wants it.
            false => JobState::Done(result),
        };
        drop(state);
        match left {
            JobState::Pending(waker) => waker,
            _ => None,
        }
    }

    /// The result, if it is there; else `waker` is woken when it is. Taken once.
    pub(super) fn take(&self, waker: Option<Waker>) -> Option<T> {
        let mut state = self.state.lock();
        let (result, old) = match &mut *state {
            JobState::Pending(slot) => (None, waker.and_then(|waker| slot.replace(waker))),
            JobState::Done(_) => match std::mem::replace(&mut *state, JobState::Over) {
                JobState::Done(result) => (Some(result), None),
                _ => (None, None),
            },
            JobState::Over => (None, None),
        };
        drop(state);
        // As in `GroupCell::register`.
        drop(old);
        result
    }

    /// Nobody wants the result any more: a job that has not begun is left out.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        let old = std::mem::replace(&mut *state, JobState::Over);
        drop(state);
        drop(old);
    }
}
