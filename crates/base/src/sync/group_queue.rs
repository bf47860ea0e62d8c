//! Orders writers and forms groups: the writer that finds the queue empty leads.
//!
//! A lock-free list of waiters that live on their callers' stacks, newest first:
//!
//! ```text
//!   newest ──► w3 ──older──► w2 ──older──► w1 (leader)
//!                 ◄──newer──    ◄──newer──      links filled in by the leader
//! ```
//!
//! Joining is one compare-and-swap; so is leaving, when nobody joined meanwhile. A lone writer
//! therefore pays two uncontended atomic operations and touches no lock, no list and no thread.
//!
//! States of a waiter: `WAIT → LEAD`, `WAIT → DONE`, or `WAIT → APPLY → DONE`; the bit `PARKED` says
//! that its thread sleeps. A waiter may free itself as soon as it sees `DONE`, so whoever sets the
//! state reads everything it needs from the waiter before, and nothing after.
//!
//! Ordering: a state is stored with Release and awaited with Acquire, so that what the leader wrote
//! into a waiter's data is seen by its owner. `newest` is swapped with AcqRel, so that a leader sees
//! the data of everyone it takes into its group.
#![expect(
    unsafe_code,
    reason = "waiters on foreign stacks; model-checked with loom and shuttle"
)]

use super::atomic::{AtomicPtr, AtomicU32, Ordering};
use super::thread;
#[cfg(shuttle)]
use shuttle::thread::{Thread, current, park};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
#[cfg(not(shuttle))]
use std::thread::{Thread, current, park};

const WAIT: u32 = 0;
const LEAD: u32 = 1;
const APPLY: u32 = 2;
const DONE: u32 = 3;
const PARKED: u32 = 8;

/// Describes what a writer is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Form a group and carry it through.
    Leader,
    /// Insert the own batch into the memtable, then report with [`GroupQueue::applied`].
    Apply,
    /// The leader did everything; the result is in the data.
    Done,
}

/// One writer in the queue.
pub struct Waiter<T> {
    /// Owned by the writer until it joins and after it sees `LEAD`, `APPLY` or `DONE`; by the leader
    /// of its group in between.
    data: UnsafeCell<T>,
    state: AtomicU32,
    /// Its wait takes longer than a sleep and a wake-up.
    is_long: bool,
    older: AtomicPtr<Waiter<T>>,
    newer: AtomicPtr<Waiter<T>>,
    /// Written by the owner before it sets `PARKED`, read by others only after they saw the bit.
    thread: UnsafeCell<Option<Thread>>,
}

// SAFETY: Access to the cells is handed over through `state`, as described in the module header.
unsafe impl<T: Send> Sync for Waiter<T> {}

impl<T> Waiter<T> {
    /// A writer that has not joined.
    pub fn new(data: T) -> Self {
        Self {
            data: UnsafeCell::new(data),
            state: AtomicU32::new(WAIT),
            is_long: false,
            older: AtomicPtr::new(null_mut()),
            newer: AtomicPtr::new(null_mut()),
            thread: UnsafeCell::new(None),
        }
    }

    /// Before it joins: the writer goes to sleep nearly at once, for a wait that `is_long`. Spinning would take the
    /// processor from those it waits for.
    #[inline]
    pub fn set_long(&mut self, is_long: bool) {
        self.is_long = is_long;
    }

    /// The data, once the writer has its result.
    #[cfg(test)]
    fn into_data(self) -> T {
        self.data.into_inner()
    }

    /// The data, once the writer has its result.
    #[inline]
    pub fn data_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }
}

/// The queue.
pub struct GroupQueue<T> {
    newest: AtomicPtr<Waiter<T>>,
}

/// The leader's group: itself and the writers behind it up to `last`.
pub struct Group<T> {
    leader: *mut Waiter<T>,
    last: *mut Waiter<T>,
    len: usize,
}

/// The role that a state other than `from` says.
#[inline]
fn role(state: u32, from: u32) -> Option<Role> {
    match state & !PARKED {
        s if s == from => None,
        LEAD => Some(Role::Leader),
        APPLY => Some(Role::Apply),
        _ => Some(Role::Done),
    }
}

#[inline]
fn pause(round: u32) {
    if round < SPINS {
        thread::spin()
    } else {
        thread::yield_now()
    }
}

/// Rounds of spinning, then of yielding, before a waiter sleeps. A group commit without sync takes
/// about as long as the spinning.
const SPINS: u32 = if cfg!(shuttle) { 1 } else { 200 };
const YIELDS: u32 = if cfg!(shuttle) { 1 } else { 4 };

impl<T: Send> Default for GroupQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send> GroupQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            newest: AtomicPtr::new(null_mut()),
        }
    }

    /// Joins and waits for a role.
    #[inline]
    pub fn join(&self, waiter: &Waiter<T>) -> Role {
        self.join_around(waiter, |sleep| sleep())
    }

    /// As [`Self::join`]. A writer that has to sleep does so within `around`, which returns what it is given; others never call it.
    #[inline]
    pub fn join_around(
        &self,
        waiter: &Waiter<T>,
        around: impl FnOnce(&dyn Fn() -> Role) -> Role,
    ) -> Role {
        let me = std::ptr::from_ref(waiter).cast_mut();
        let mut older = self.newest.load(Ordering::Relaxed);
        loop {
            waiter.older.store(older, Ordering::Relaxed);
            match self
                .newest
                .compare_exchange_weak(older, me, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(seen) => older = seen,
            }
        }
        if older.is_null() {
            return Role::Leader;
        }
        self.wait(waiter, WAIT, around)
    }

    /// Waits until the state is no longer `from`.
    #[cold]
    fn wait(
        &self,
        waiter: &Waiter<T>,
        from: u32,
        around: impl FnOnce(&dyn Fn() -> Role) -> Role,
    ) -> Role {
        let mut round = match waiter.is_long {
            true => SPINS + YIELDS - 1,
            false => 0,
        };
        while cfg!(loom) || round < SPINS + YIELDS {
            let state = waiter.state.load(Ordering::Acquire);
            if let Some(role) = role(state, from) {
                return role;
            }
            pause(round);
            round += 1;
        }
        around(&|| Self::sleep(waiter, from))
    }

    /// Sleeps until the state is no longer `from`.
    fn sleep(waiter: &Waiter<T>, from: u32) -> Role {
        loop {
            let state = waiter.state.load(Ordering::Acquire);
            if let Some(role) = role(state, from) {
                return role;
            }
            if state & PARKED == 0 {
                // SAFETY: Without PARKED nobody else looks at the cell.
                unsafe { *waiter.thread.get() = Some(current()) };
                let _ = waiter.state.compare_exchange(
                    state,
                    state | PARKED,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                continue;
            }
            park();
        }
    }

    /// Hands `state` to a waiter, which may vanish right after.
    fn set_state(waiter: *mut Waiter<T>, state: u32) {
        // SAFETY: The caller has not yet released this waiter, so it is alive up to the store below.
        let w = unsafe { &*waiter };
        let mut seen = w.state.load(Ordering::Acquire);
        loop {
            let thread = if seen & PARKED == 0 {
                None
            } else {
                // SAFETY: PARKED was seen with Acquire, so the owner's write to the cell is visible
                // and it does not touch the cell again.
                unsafe { (*w.thread.get()).clone() }
            };
            match w
                .state
                .compare_exchange(seen, state, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    if let Some(t) = thread {
                        t.unpark();
                    }
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Fills in `newer` links from `head` down to the first waiter that has one.
    fn link(head: *mut Waiter<T>) {
        let mut head = head;
        loop {
            // SAFETY: Waiters from `newest` down to the leader are alive: only the leader releases.
            let next = unsafe { (*head).older.load(Ordering::Relaxed) };
            if next.is_null() {
                return;
            }
            // SAFETY: As above.
            let next_ref = unsafe { &*next };
            if !next_ref.newer.load(Ordering::Relaxed).is_null() {
                return;
            }
            next_ref.newer.store(head, Ordering::Relaxed);
            head = next;
        }
    }

    /// The leader takes writers behind it, in order, as long as `take` says yes.
    #[inline]
    pub fn form(&self, leader: &Waiter<T>, take: impl FnMut(&mut T, &mut T) -> bool) -> Group<T> {
        let me = std::ptr::from_ref(leader).cast_mut();
        let mut group = Group {
            leader: me,
            last: me,
            len: 1,
        };
        self.grow(&mut group, take);
        group
    }

    /// The leader's group if nobody stands after it. A writer that joins meanwhile leads the next
    /// group.
    #[inline]
    pub fn form_alone(&self, leader: &Waiter<T>) -> Option<Group<T>> {
        let me = std::ptr::from_ref(leader).cast_mut();
        (self.newest.load(Ordering::Relaxed) == me).then_some(Group {
            leader: me,
            last: me,
            len: 1,
        })
    }

    /// Takes writers that have joined since, under the same rule. False if `take` said no: then the
    /// group is closed, for whoever comes later stands after the one that was left out.
    #[inline]
    pub fn grow(&self, group: &mut Group<T>, mut take: impl FnMut(&mut T, &mut T) -> bool) -> bool {
        let newest = self.newest.load(Ordering::Acquire);
        if newest == group.last {
            return true;
        }
        Self::link(newest);
        while group.last != newest {
            // SAFETY: Waiters up to `newest` are alive and linked; their data belongs to the leader.
            let (next, ok) = unsafe {
                let next = (*group.last).newer.load(Ordering::Relaxed);
                (
                    next,
                    take(&mut *(*group.leader).data.get(), &mut *(*next).data.get()),
                )
            };
            if !ok {
                return false;
            }
            group.last = next;
            group.len += 1;
        }
        true
    }

    /// Sends all followers of the group to insert their own batches; they answer with `applied`.
    pub fn start_apply(&self, group: &Group<T>) {
        let mut w = group.last;
        while w != group.leader {
            // SAFETY: Alive: a follower in APPLY does not return before DONE.
            let older = unsafe { (*w).older.load(Ordering::Relaxed) };
            Self::set_state(w, APPLY);
            w = older;
        }
    }

    /// Returns how many writers joined after the last one of the group, which still has leadership.
    pub fn joined_after(&self, group: &Group<T>) -> usize {
        let mut count = 0;
        let mut w = self.newest.load(Ordering::Acquire);
        while w != group.last {
            count += 1;
            // SAFETY: Waiters from `newest` down to the group are alive: only a leader releases, and the group's has not
            // passed leadership on.
            w = unsafe { (*w).older.load(Ordering::Relaxed) };
        }
        count
    }

    /// A follower is done with its insert: waits for the end of the group.
    pub fn applied(&self, waiter: &Waiter<T>) {
        let role = self.wait(waiter, APPLY, |sleep| sleep());
        debug_assert_eq!(role, Role::Done);
    }

    /// Ends the group: hands leadership on, then releases the followers.
    #[inline]
    pub fn finish(&self, group: &Group<T>) {
        self.pass_on(group);
        self.release(group);
    }

    /// Hands leadership on; the group stays with its leader until [`Self::release`]. Nobody joins it any more.
    #[inline]
    pub fn pass_on(&self, group: &Group<T>) {
        let alone = self
            .newest
            .compare_exchange(group.last, null_mut(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !alone {
            self.hand_over(group);
        }
    }

    /// Releases the followers of a group that has passed leadership on. Their links are its own: nobody else looks at them.
    #[inline]
    pub fn release(&self, group: &Group<T>) {
        let mut w = group.last;
        while w != group.leader {
            // SAFETY: Not yet released; its link is read before it is.
            let older = unsafe { (*w).older.load(Ordering::Relaxed) };
            Self::set_state(w, DONE);
            w = older;
        }
    }

    #[cold]
    fn hand_over(&self, group: &Group<T>) {
        Self::link(self.newest.load(Ordering::Acquire));
        // SAFETY: `last` is not released yet, and someone joined after it, so the link is set.
        let next = unsafe { (*group.last).newer.load(Ordering::Relaxed) };
        // SAFETY: `next` waits for a state.
        unsafe { (*next).older.store(null_mut(), Ordering::Relaxed) };
        Self::set_state(next, LEAD);
    }
}

impl<T> Group<T> {
    /// Number of writers, the leader included.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a group has a leader")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Calls `f` on the data of each member, in order.
    #[inline]
    pub fn for_each(&mut self, mut f: impl FnMut(&mut T)) {
        let mut w = self.leader;
        loop {
            // SAFETY: Members are alive and their data belongs to the leader until it lets go; `&mut
            // self` keeps two calls apart.
            f(unsafe { &mut *(*w).data.get() });
            if w == self.last {
                return;
            }
            // SAFETY: Linked in `form`.
            w = unsafe { (*w).newer.load(Ordering::Relaxed) };
        }
    }
}

impl<T> Waiter<T> {
    /// The data of a writer that is in role `Apply` or leads a group in which followers apply.
    ///
    /// # Safety
    /// Only the owner may call it, and only in role `Apply` (or as leader, for its own waiter).
    #[expect(
        clippy::mut_from_ref,
        reason = "ownership is handed over through the state"
    )]
    pub unsafe fn own_data(&self) -> &mut T {
        // SAFETY: See above.
        unsafe { &mut *self.data.get() }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn only_a_writer_that_has_to_sleep_does_so_within_what_it_is_given() {
        let queue = GroupQueue::new();
        let first = Waiter::new(());
        assert_eq!(
            queue.join_around(&first, |_| panic!("it leads")),
            Role::Leader
        );
        let slept = AtomicU32::new(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut second = Waiter::new(());
                second.set_long(true);
                let role = queue.join_around(&second, |sleep| {
                    slept.store(1, Ordering::Release);
                    sleep()
                });
                assert_eq!(role, Role::Leader);
                queue.finish(&queue.form(&second, |(), ()| false));
            });
            while slept.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            queue.finish(&queue.form(&first, |(), ()| false));
        });
    }

    #[test]
    fn every_writer_is_in_exactly_one_group_and_order_is_kept_per_thread() {
        let queue = GroupQueue::new();
        let log = Mutex::new(Vec::new());
        std::thread::scope(|s| {
            for t in 0..4u32 {
                let (queue, log) = (&queue, &log);
                s.spawn(move || {
                    for i in 0..5_000u32 {
                        let w = Waiter::new((t, i, false));
                        if queue.join(&w) == Role::Leader {
                            let mut left = 3;
                            let mut g = queue.form(&w, |_, _| {
                                left -= 1;
                                left > 0
                            });
                            let mut n = 0;
                            g.for_each(|d| {
                                n += 1;
                                d.2 = true;
                                log.lock().unwrap().push((d.0, d.1));
                            });
                            assert_eq!(n, g.len());
                            queue.finish(&g);
                        }
                        assert!(w.into_data().2);
                    }
                });
            }
        });
        let log = log.into_inner().unwrap();
        assert_eq!(log.len(), 20_000);
        for t in 0..4 {
            let mine: Vec<u32> = log.iter().filter(|e| e.0 == t).map(|e| e.1).collect();
            assert!(mine.iter().copied().eq(0..5_000));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// Two writers in every order: each is handled once, by a leader that is alone in its section.
    #[test]
    fn two_writers_are_each_handled_once_by_one_leader_at_a_time() {
        loom::model(|| {
            let queue = Arc::new(GroupQueue::<u32>::new());
            let inside = Arc::new(AtomicUsize::new(0));
            let done = Arc::new(AtomicUsize::new(0));
            let run =
                |queue: Arc<GroupQueue<u32>>, inside: Arc<AtomicUsize>, done: Arc<AtomicUsize>| {
                    let w = Waiter::new(0);
                    if queue.join(&w) == Role::Leader {
                        assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0);
                        let mut g = queue.form(&w, |_, _| true);
                        g.for_each(|d| {
                            *d += 1;
                            done.fetch_add(1, Ordering::Relaxed);
                        });
                        inside.fetch_sub(1, Ordering::AcqRel);
                        queue.finish(&g);
                    }
                    assert_eq!(w.into_data(), 1);
                };
            let (q, i, d) = (queue.clone(), inside.clone(), done.clone());
            let t = loom::thread::spawn(move || run(q, i, d));
            run(queue, inside, done.clone());
            t.join().unwrap();
            assert_eq!(done.load(Ordering::Relaxed), 2);
        });
    }

    /// Leadership goes on before the group is carried out, which is its leader's until it is released.
    #[test]
    fn two_writers_whose_groups_are_in_flight_are_each_handled_once() {
        loom::model(|| {
            let queue = Arc::new(GroupQueue::<u32>::new());
            let inside = Arc::new(AtomicUsize::new(0));
            let run = |queue: Arc<GroupQueue<u32>>, inside: Arc<AtomicUsize>| {
                let w = Waiter::new(0);
                if queue.join(&w) == Role::Leader {
                    assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0);
                    let mut g = queue.form(&w, |_, _| true);
                    inside.fetch_sub(1, Ordering::AcqRel);
                    queue.pass_on(&g);
                    g.for_each(|d| *d += 1);
                    queue.release(&g);
                }
                assert_eq!(w.into_data(), 1);
            };
            let (q, i) = (queue.clone(), inside.clone());
            let t = loom::thread::spawn(move || run(q, i));
            run(queue, inside);
            t.join().unwrap();
        });
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use crate::sync::explore;
    use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::Arc;

    /// Describes what the engine's leader works on: it alone may touch it.
    #[derive(Default)]
    struct Shared {
        inside: AtomicUsize,
        left: AtomicUsize,
        /// Groups that have passed leadership on and are not released.
        in_flight: AtomicUsize,
        /// Batches of the current memtable, and of those sealed before.
        memtable: shuttle::sync::Mutex<Vec<u32>>,
        sealed: shuttle::sync::Mutex<Vec<Vec<u32>>>,
    }

    /// One write as the engine does it: the leader may switch memtables before its group goes on, and
    /// groups of two and more are inserted by their writers.
    fn write(queue: &GroupQueue<u32>, shared: &Shared, number: u32, group_max: usize) {
        let waiter = Waiter::new(number);
        let role = queue.join(&waiter);
        if role == Role::Leader {
            assert_eq!(shared.inside.fetch_add(1, SeqCst), 0, "two leaders");
            let seals = shared.memtable.lock().unwrap().len() >= 2;
            // Those that fly need no lock of leadership to land.
            while seals && shared.in_flight.load(SeqCst) != 0 {
                thread::yield_now();
            }
            if seals {
                let full = std::mem::take(&mut *shared.memtable.lock().unwrap());
                shared.sealed.lock().unwrap().push(full);
            }
            let mut room = group_max;
            let mut group = queue.form(&waiter, |_, _| {
                room -= 1;
                room > 0
            });
            if number % 2 == 1 {
                shared.in_flight.fetch_add(1, SeqCst);
                assert_eq!(shared.inside.fetch_sub(1, SeqCst), 1);
                queue.pass_on(&group);
                group.for_each(|data| {
                    shared.memtable.lock().unwrap().push(*data);
                    *data += 100;
                });
                shared.in_flight.fetch_sub(1, SeqCst);
                queue.release(&group);
                return assert_eq!(waiter.into_data(), number + 100, "its own answer");
            }
            if group.len() > 1 {
                shared.left.store(group.len() - 1, SeqCst);
                queue.start_apply(&group);
                shared.memtable.lock().unwrap().push(number);
                while shared.left.load(SeqCst) != 0 {
                    thread::yield_now();
                }
                group.for_each(|data| *data += 100);
            } else {
                group.for_each(|data| {
                    shared.memtable.lock().unwrap().push(*data);
                    *data += 100;
                });
            }
            assert_eq!(shared.inside.fetch_sub(1, SeqCst), 1);
            queue.finish(&group);
        } else if role == Role::Apply {
            shared.memtable.lock().unwrap().push(number);
            shared.left.fetch_sub(1, SeqCst);
            queue.applied(&waiter);
        }
        assert_eq!(waiter.into_data(), number + 100, "the leader's answer");
    }

    fn model(group_max: usize) -> impl Fn() + Send + Sync + 'static {
        move || {
            let queue = Arc::new(GroupQueue::new());
            let shared = Arc::new(Shared::default());
            let writers: Vec<_> = (0..4)
                .map(|thread: u32| {
                    let (queue, shared) = (queue.clone(), shared.clone());
                    shuttle::thread::spawn(move || {
                        for n in 0..2 {
                            write(&queue, &shared, thread * 10 + n, group_max);
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            let mut all = shared.sealed.lock().unwrap().concat();
            all.extend(shared.memtable.lock().unwrap().iter());
            for thread in 0..4 {
                let mine: Vec<u32> = all.iter().copied().filter(|n| n / 10 == thread).collect();
                assert_eq!(mine, [thread * 10, thread * 10 + 1], "{all:?}");
            }
        }
    }

    #[test]
    fn four_writers_and_memtable_switches_lose_and_repeat_nothing() {
        explore("group queue: 4 writers, switches", model(4));
    }

    #[test]
    fn groups_that_are_closed_before_all_are_taken_hand_over() {
        explore("group queue: 4 writers, groups of 2", model(2));
    }
}
