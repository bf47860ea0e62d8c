//! Sequence numbers of groups of writes: which are assigned, and which are visible.
//!
//! ```text
//!             visible              assigned
//!   ──────────────┬───────────────────┬──────────►  sequence numbers
//!    published    │ in flight: logged,│ free
//!                 │ being applied     │
//! ```
//!
//! A group takes the numbers after all that are assigned ([`CommitOrder::begin`]), in the order in which groups go
//! to the log (W2). It is logged and applied, and reports that ([`CommitOrder::finish`]). Groups may be applied at
//! the same time and finish in any order; the visible number rises past a group only when it and all groups
//! before it have finished (W3). A group that failed never finishes, so that nothing behind it is published until
//! [`CommitOrder::skip_assigned`] gives its numbers up: no other group gets them (D6).
//!
//! A caller that lets no other group begin before it has published may use [`CommitOrder::next`] and
//! [`CommitOrder::publish_alone`], which touch no lock.
//!
//! Ownership: `assigned` is written by whoever orders the groups, one at a time (write leadership in the engine).
//! `visible` publishes with Release what `apply` wrote; readers load it with Acquire.

use super::atomic::{AtomicU64, Ordering};
use super::{Condvar, Mutex};
use crate::keys::MAX_SEQUENCE;
use std::collections::VecDeque;

/// Above the ranks of all callers; nothing is called under it.
const RANK: u8 = 94;

/// A group between `begin` and `finish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// First sequence number of the group.
    pub first: u64,
    /// Last one.
    pub last: u64,
}

#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    has_finished: bool,
}

/// Assigned and visible sequence numbers.
pub struct CommitOrder {
    assigned: AtomicU64,
    visible: AtomicU64,
    /// In the order of their numbers.
    in_flight: Mutex<VecDeque<InFlight>>,
    /// `visible` has risen, or numbers were given up.
    risen: Condvar,
}

impl CommitOrder {
    /// All numbers up to `visible` are assigned and visible.
    pub fn new(visible: u64) -> Self {
        Self {
            assigned: AtomicU64::new(visible),
            visible: AtomicU64::new(visible),
            in_flight: Mutex::new(RANK, VecDeque::new()),
            risen: Condvar::new(),
        }
    }

    /// Highest number that new reads see.
    #[inline]
    pub fn visible(&self) -> u64 {
        // Acquire: pairs with the Release of whoever published; the group's entries are seen.
        self.visible.load(Ordering::Acquire)
    }

    /// Highest number that some group has, or had.
    #[inline]
    pub fn assigned(&self) -> u64 {
        // Relaxed: written by whoever may call `begin`, and of no meaning to others.
        self.assigned.load(Ordering::Relaxed)
    }

    /// The number that the next group begins with. Requires: the right to begin groups.
    #[inline]
    pub fn next(&self) -> u64 {
        self.assigned() + 1
    }

    /// Begins a group of `count` numbers. Requires: the right to begin groups; the caller has seen that the numbers
    /// are not used up. A group without numbers has an empty range and is published like any other.
    pub fn begin(&self, count: u64) -> Ticket {
        let first = self.next();
        debug_assert!(
            first + count <= MAX_SEQUENCE + 1,
            "B2: {first} and {count} more"
        );
        let ticket = Ticket {
            first,
            last: first + count - 1,
        };
        let group = InFlight {
            ticket,
            has_finished: false,
        };
        self.in_flight.lock().push_back(group);
        self.assigned.store(ticket.last, Ordering::Relaxed);
        ticket
    }

    /// The group is applied: it becomes visible as soon as all groups before it are. Any thread, once.
    pub fn finish(&self, ticket: Ticket) {
        let mut groups = self.in_flight.lock();
        // Not found: its numbers were given up meanwhile.
        if let Some(group) = groups.iter_mut().find(|g| g.ticket == ticket) {
            debug_assert!(!group.has_finished, "W3: {ticket:?} finished twice");
            group.has_finished = true;
        }
        let mut last = None;
        while groups.front().is_some_and(|g| g.has_finished) {
            last = groups.pop_front().map(|g| g.ticket.last);
        }
        if let Some(last) = last {
            debug_assert!(last >= self.visible.load(Ordering::Relaxed), "W3");
            // Release: pairs with `visible`. What other groups applied came here through the lock.
            self.visible.store(last, Ordering::Release);
            drop(groups);
            self.risen.notify_all();
        }
    }

    /// Publishes all numbers up to `last`. Requires: the right to begin groups, held since [`Self::next`] was asked; no
    /// group in flight.
    #[inline]
    pub fn publish_alone(&self, last: u64) {
        debug_assert!(self.in_flight.lock().is_empty(), "W3");
        debug_assert!(last >= self.visible.load(Ordering::Relaxed), "W3");
        self.assigned.store(last, Ordering::Relaxed);
        // Release: pairs with `visible`.
        self.visible.store(last, Ordering::Release);
    }

    /// Numbers up to `last` may have been written by something that failed: nobody else gets them. Requires: as
    /// [`Self::begin`].
    pub fn take(&self, last: u64) {
        let last = last.max(self.assigned());
        self.assigned.store(last, Ordering::Relaxed);
    }

    /// Gives up the numbers of all groups that have not finished, and lets the visible number pass them: nothing
    /// has them. Requires: as [`Self::begin`]; all groups in flight have failed, or wait for one that has. Those
    /// that had finished behind a failed one become visible.
    pub fn skip_assigned(&self) {
        let mut groups = self.in_flight.lock();
        groups.clear();
        self.visible.store(self.assigned(), Ordering::Release);
        drop(groups);
        self.risen.notify_all();
    }

    /// Waits until the group is visible, or the numbers of failed groups before it were given up.
    pub fn wait(&self, ticket: Ticket) {
        let mut groups = self.in_flight.lock();
        while groups.iter().any(|g| g.ticket == ticket) {
            groups = self.risen.wait(groups);
        }
    }
}

#[cfg(test)]
mod tests;
