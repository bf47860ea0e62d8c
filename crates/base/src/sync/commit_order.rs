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
//! before it have finished (W3). A group that failed never finishes, so that nothing after it is published until
//! [`CommitOrder::skip_assigned`] gives its numbers up: no other group gets them (D6).
//!
//! A caller that lets no other group begin before it has published may use [`CommitOrder::next`] and
//! [`CommitOrder::publish_alone`], which touch no lock.
//!
//! Ownership: `assigned` is written by whoever orders the groups, one at a time (write leadership in the engine).
//! `visible` publishes with Release what `apply` wrote; readers load it with Acquire.

use super::atomic::{AtomicU64, Ordering};
use super::{Condvar, Mutex, MutexGuard};
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

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    UnderWay,
    Finished,
    Failed,
}

#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    progress: Progress,
}

/// Assigned and visible sequence numbers.
pub struct CommitOrder {
    assigned: AtomicU64,
    visible: AtomicU64,
    /// In the order of their numbers.
    in_flight: Mutex<VecDeque<InFlight>>,
    /// `visible` has risen, a group has failed, or numbers were given up.
    risen: Condvar,
    /// Threads that wait for that. Changed and read under the lock of the groups, so that all orders are Relaxed.
    waiting: AtomicU64,
}

impl CommitOrder {
    /// All numbers up to `visible` are assigned and visible.
    pub fn new(visible: u64) -> Self {
        Self {
            assigned: AtomicU64::new(visible),
            visible: AtomicU64::new(visible),
            in_flight: Mutex::new(RANK, VecDeque::new()),
            risen: Condvar::new(),
            waiting: AtomicU64::new(0),
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
            progress: Progress::UnderWay,
        };
        let mut groups = self.in_flight.lock();
        debug_assert!(
            groups.back().is_none_or(|g| g.ticket.last < first),
            "W2: {ticket:?} begins among numbers of a group in flight"
        );
        groups.push_back(group);
        drop(groups);
        self.assigned.store(ticket.last, Ordering::Relaxed);
        ticket
    }

    /// The group is applied: it becomes visible as soon as all groups before it are. Any thread, once.
    pub fn finish(&self, ticket: Ticket) {
        let mut groups = self.in_flight.lock();
        // Not found: its numbers were given up meanwhile.
        if let Some(group) = groups.iter_mut().find(|g| g.ticket == ticket) {
            debug_assert_eq!(group.progress, Progress::UnderWay, "W3: {ticket:?}");
            group.progress = Progress::Finished;
        }
        let mut last = None;
        while groups
            .front()
            .is_some_and(|g| g.progress == Progress::Finished)
        {
            last = groups.pop_front().map(|g| g.ticket.last);
        }
        if let Some(last) = last {
            debug_assert!(last >= self.visible.load(Ordering::Relaxed), "W3: it sinks");
            // Release: pairs with `visible`. What other groups applied came here through the lock.
            self.visible.store(last, Ordering::Release);
            self.notify(groups);
        }
    }

    fn notify(&self, groups: MutexGuard<'_, VecDeque<InFlight>>) {
        let is_awaited = self.waiting.load(Ordering::Relaxed) != 0;
        drop(groups);
        if is_awaited {
            self.risen.notify_all();
        }
    }

    /// The group has failed: neither it nor any group after it becomes visible until its numbers are given up. Any thread,
    /// once.
    pub fn fail(&self, ticket: Ticket) {
        let mut groups = self.in_flight.lock();
        if let Some(group) = groups.iter_mut().find(|g| g.ticket == ticket) {
            debug_assert_eq!(group.progress, Progress::UnderWay, "W3: {ticket:?}");
            group.progress = Progress::Failed;
        }
        self.notify(groups);
    }

    /// Publishes all numbers up to `last`. Requires: the right to begin groups, held since [`Self::next`] was asked; no
    /// group in flight.
    #[inline]
    pub fn publish_alone(&self, last: u64) {
        debug_assert!(
            self.in_flight.lock().is_empty(),
            "W3: past a group in flight"
        );
        debug_assert!(last >= self.visible.load(Ordering::Relaxed), "W3: it sinks");
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
    /// that had finished after a failed one become visible.
    pub fn skip_assigned(&self) {
        let mut groups = self.in_flight.lock();
        groups.clear();
        self.visible.store(self.assigned(), Ordering::Release);
        self.notify(groups);
    }

    /// Waits until the group, which has finished, is visible, or the numbers of failed groups before it were given up. Returns
    /// false as soon as a group before it has failed: nobody knows when it will be visible then.
    pub fn wait(&self, ticket: Ticket) -> bool {
        if self.visible() >= ticket.last {
            return true;
        }
        let mut groups = self.in_flight.lock();
        loop {
            let mut up_to = groups.iter().take_while(|g| g.ticket.last <= ticket.last);
            if up_to.any(|g| g.progress == Progress::Failed) {
                return false;
            }
            if !groups.iter().any(|g| g.ticket == ticket) {
                return true;
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            groups = self.risen.wait(groups);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
