//! Mutex with a rank: in debug builds, taking a lock whose rank is not above every rank already
//! held by the thread panics, so that a lock-order inversion is found by the first test that
//! reaches it and not by the first deadlock. Ranks: docs/architecture.md, "Threads,
//! locks and tokens".
//!
//! A poisoned mutex is entered: a panicking job is reported by the job boundary, and the state it
//! guards is bookkeeping that is consistent between statements.

use super::locks;
#[cfg(debug_assertions)]
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(all(debug_assertions, not(shuttle)))]
thread_local! {
    static HELD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
#[cfg(all(debug_assertions, shuttle))]
shuttle::thread_local! {
    static HELD: RefCell<Vec<u8>> = RefCell::new(Vec::new());
}

#[inline]
fn enter(_rank: u8) {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let mut held = held.borrow_mut();
        assert!(
            held.iter().all(|&r| r < _rank),
            "lock order: rank {_rank} taken while holding {held:?}"
        );
        held.push(_rank);
    });
}

#[inline]
fn leave(_rank: u8) {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let mut held = held.borrow_mut();
        if let Some(at) = held.iter().rposition(|&r| r == _rank) {
            held.remove(at);
        }
    });
}

/// In debug builds, panics if the thread holds a mutex with a rank: nobody sleeps with one.
#[inline]
pub fn assert_no_lock_is_held() {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let held = held.borrow();
        assert!(held.is_empty(), "a sleep while holding ranks {held:?}");
    });
}

/// In debug builds, panics if the thread holds a mutex that is no token: a thread that reads a file holds only
/// tokens (R2).
#[inline]
pub fn assert_only_tokens_are_held() {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let held = held.borrow();
        let is_token = |&rank: &u8| rank < FIRST_PLAIN_RANK || rank == TRACE_FILE_RANK;
        assert!(
            held.iter().all(is_token),
            "R2: a read of a file while holding ranks {held:?}"
        );
    });
}

/// Ranks from here on belong to mutexes that are no tokens, except the rank of the trace file.
#[cfg(debug_assertions)]
const FIRST_PLAIN_RANK: u8 = 30;
#[cfg(debug_assertions)]
const TRACE_FILE_RANK: u8 = 94;

/// A mutex with a place in the lock order.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    rank: u8,
    inner: locks::Mutex<T>,
}

/// Releases the mutex when dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    // A guard that is handed on is two words in release builds.
    #[cfg(debug_assertions)]
    rank: u8,
    inner: Option<locks::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A mutex of `rank` around `value`.
    pub const fn new(rank: u8, value: T) -> Self {
        Self {
            rank,
            inner: locks::Mutex::new(value),
        }
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock of the same or a higher rank.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        enter(self.rank);
        let inner = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        MutexGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner: Some(inner),
        }
    }

    /// Takes the lock if nobody holds it.
    ///
    /// # Panics
    /// As [`Self::lock`], if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(std::sync::TryLockError::Poisoned(e)) => e.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        enter(self.rank);
        Some(MutexGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner: Some(inner),
        })
    }

    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> MutexGuard<'_, T> {
    /// The rank of its mutex, which release builds do not keep.
    #[inline]
    fn rank(&self) -> u8 {
        #[cfg(debug_assertions)]
        return self.rank;
        #[cfg(not(debug_assertions))]
        0
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("held until drop")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("held until drop")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            leave(self.rank());
        }
    }
}

/// Condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(locks::Condvar);

impl Condvar {
    /// A new one.
    pub const fn new() -> Self {
        Self(locks::Condvar::new())
    }

    /// Releases the lock, waits for a notification, takes the lock again.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let rank = guard.rank();
        let inner = guard.inner.take().expect("held until drop");
        leave(rank);
        let inner = self
            .0
            .wait(inner)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        enter(rank);
        MutexGuard {
            #[cfg(debug_assertions)]
            rank,
            inner: Some(inner),
        }
    }

    /// As [`Self::wait`], at most `limit`; the flag says whether time ran out.
    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let rank = guard.rank();
        let inner = guard.inner.take().expect("held until drop");
        leave(rank);
        let (inner, result) = self
            .0
            .wait_timeout(inner, limit)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        enter(rank);
        (
            MutexGuard {
                #[cfg(debug_assertions)]
                rank,
                inner: Some(inner),
            },
            result.timed_out(),
        )
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_taken_in_rank_order_are_fine() {
        let a = Mutex::new(10, 1);
        let b = Mutex::new(20, 2);
        let ga = a.lock();
        let gb = b.lock();
        drop(ga);
        assert_eq!(*gb, 2);
        drop(gb);
        assert_eq!(*a.lock(), 1);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn taking_a_lower_rank_second_is_caught() {
        let r = std::thread::spawn(|| {
            let a = Mutex::new(10, ());
            let b = Mutex::new(20, ());
            let _gb = b.lock();
            let _ga = a.lock();
        })
        .join();
        assert!(r.is_err());
    }
}
