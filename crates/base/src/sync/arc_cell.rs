//! A shared pointer that readers load without a lock and without touching a shared counter.
//!
//! Readers announce the pointer they use in a *slot* (a hazard pointer); slots are spread over cache
//! lines and a thread keeps to its own, so that readers on different cores write different lines.
//! A replaced value is *retired* and freed once no slot names it.
//!
//! ```text
//!   reader                                 writer
//!   p = current                            old = swap(current, new)
//!   slot: null -> p        (SeqCst)        push old on the retired list
//!   again if current != p  (SeqCst)        for each retired r: free r unless a slot names it
//!   … use p …                                                   (SeqCst)
//!   slot: p -> null        (Release)
//! ```
//!
//! Either the reader's second look sees the new pointer and retries, or the writer's scan sees the
//! reader's slot: both are SeqCst, so one of them comes first (R2).
//!
//! Threads: any number of readers and writers. A reader that finds all slots taken spins; there are
//! far more slots than cores. Values may be freed by a reader, after its own use of them.
#![expect(
    unsafe_code,
    reason = "lock-free publication; model-checked with loom and shuttle"
)]

use super::atomic::{AtomicBool, AtomicPtr, Ordering};
use super::{locks, thread};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::Arc;

const SLOTS: usize = if cfg!(loom) {
    2
} else if cfg!(shuttle) {
    8
} else {
    64
};

/// One reader's announcement. Two lines, because the hardware fetches lines in pairs.
#[repr(align(128))]
struct Slot<T>(
    /// Published by SeqCst CAS or store in `load`, cleared by Release in `Guard::drop`, read by
    /// SeqCst in `collect`.
    AtomicPtr<T>,
);

/// A replaceable `Arc` with wait-free-in-practice loads.
pub struct ArcCell<T> {
    /// Publishes the value; swapped SeqCst by `replace`.
    current: AtomicPtr<T>,
    slots: Box<[Slot<T>]>,
    retired: locks::Mutex<Vec<RetiredPtr<T>>>,
    /// Says whether the retired list may hold something: a hint that makes the last reader collect.
    pending: AtomicBool,
    owns: PhantomData<Arc<T>>,
}

struct RetiredPtr<T>(*mut T);
// SAFETY: A retired pointer is an Arc that nobody else will drop.
unsafe impl<T: Send + Sync> Send for RetiredPtr<T> {}

// SAFETY: The cell hands out &T and Arc<T> across threads.
unsafe impl<T: Send + Sync> Send for ArcCell<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for ArcCell<T> {}

/// A loaded value; as long as it lives the value is not freed.
pub struct Guard<'a, T> {
    cell: &'a ArcCell<T>,
    slot: &'a Slot<T>,
    ptr: *mut T,
}

#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
fn slot_hint() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HINT: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    HINT.with(|h| *h)
}

#[cfg(any(loom, shuttle))]
fn slot_hint() -> usize {
    0
}

/// Nothing in the program that ships: SeqCst accesses already have one total order. loom treats them
/// as AcqRel and models the order only for fences, so its model gets the fence.
#[inline]
fn total_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

impl<T> ArcCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: Arc<T>) -> Self {
        Self {
            current: AtomicPtr::new(Arc::into_raw(value).cast_mut()),
            slots: (0..SLOTS)
                .map(|_| Slot(AtomicPtr::new(null_mut())))
                .collect(),
            retired: locks::Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            owns: PhantomData,
        }
    }

    /// The current value, pinned by the guard. One compare-and-swap, no shared counter.
    #[inline]
    pub fn load(&self) -> Guard<'_, T> {
        let mut at = slot_hint() % SLOTS;
        let mut tried = 0;
        let mut ptr = self.current.load(Ordering::Acquire);
        let slot = loop {
            let slot = &self.slots[at];
            if slot
                .0
                .compare_exchange(null_mut(), ptr, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                break slot;
            }
            at = (at + 1) % SLOTS;
            tried += 1;
            if tried % SLOTS == 0 {
                thread::yield_now();
            }
        };
        loop {
            total_order();
            let again = self.current.load(Ordering::SeqCst);
            if again == ptr {
                return Guard {
                    cell: self,
                    slot,
                    ptr,
                };
            }
            ptr = again;
            slot.0.store(ptr, Ordering::SeqCst);
        }
    }

    /// The current value with a count of its own, for readers that keep it long.
    pub fn load_full(&self) -> Arc<T> {
        self.load().to_arc()
    }

    /// Publishes `value`; the old one is freed when its last user lets go.
    pub fn replace(&self, value: Arc<T>) {
        let old = self
            .current
            .swap(Arc::into_raw(value).cast_mut(), Ordering::SeqCst);
        total_order();
        self.retired
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(RetiredPtr(old));
        self.collect();
    }

    /// Frees what no slot names. Values are dropped outside the lock.
    #[cold]
    fn collect(&self) {
        let mut free = Vec::new();
        {
            let mut retired = self
                .retired
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            retired.retain(|r| {
                let used = self.slots.iter().any(|s| s.0.load(Ordering::SeqCst) == r.0);
                if !used {
                    free.push(r.0);
                }
                used
            });
            self.pending.store(!retired.is_empty(), Ordering::Relaxed);
        }
        for ptr in free {
            // SAFETY: `ptr` came from Arc::into_raw, left the cell by a swap, and no slot names it:
            // a reader that names it later sees the new pointer on its second look and lets go
            // without using it.
            drop(unsafe { Arc::from_raw(ptr) });
        }
    }
}

impl<T> Guard<'_, T> {
    /// A counted reference that may outlive the guard.
    pub fn to_arc(&self) -> Arc<T> {
        // SAFETY: The slot keeps the Arc of `ptr` alive, so its count is at least one.
        unsafe {
            Arc::increment_strong_count(self.ptr);
            Arc::from_raw(self.ptr)
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `load` saw the pointer current after announcing it, so it is not freed while the
        // slot names it.
        unsafe { &*self.ptr }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.0.store(null_mut(), Ordering::Release);
        // A collector that saw this slot set the hint. If the hint is read too early, the next
        // reader or writer collects.
        if self.cell.pending.load(Ordering::Relaxed) {
            self.cell.collect();
        }
    }
}

impl<T> Drop for ArcCell<T> {
    fn drop(&mut self) {
        // No guard can exist here. With them gone every pointer is free to go.
        let retired = std::mem::take(
            &mut *self
                .retired
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        let current = self.current.load(Ordering::SeqCst);
        for ptr in retired.into_iter().map(|r| r.0).chain([current]) {
            // SAFETY: Each came from Arc::into_raw and is dropped exactly once, here.
            drop(unsafe { Arc::from_raw(ptr) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Counted(Arc<AtomicUsize>, u64, u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.1 = 0;
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn every_value_is_freed_once_and_never_while_read() {
        let alive = Arc::new(AtomicUsize::new(0));
        let make = |n: u64| {
            alive.fetch_add(1, Ordering::SeqCst);
            Arc::new(Counted(alive.clone(), n, !n))
        };
        let cell = ArcCell::new(make(1));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for i in 0..20_000 {
                        let g = cell.load();
                        assert_eq!(g.1, !g.2);
                        if i % 100 == 0 {
                            let a = g.to_arc();
                            drop(g);
                            assert_eq!(a.1, !a.2);
                        }
                    }
                });
            }
            s.spawn(|| {
                for n in 2..3_000 {
                    cell.replace(make(n));
                }
            });
        });
        cell.replace(make(5_000));
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        drop(cell);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn nested_loads_take_different_slots() {
        let cell = ArcCell::new(Arc::new(1));
        let a = cell.load();
        cell.replace(Arc::new(2));
        let b = cell.load();
        assert_eq!((*a, *b), (1, 2));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Reader and writer in every order: the reader never sees a freed value (its flag is cleared
    /// by drop, and loom reports a leak or double free of the Arc).
    #[test]
    fn a_loaded_value_is_not_freed_under_the_reader() {
        struct V(loom::cell::UnsafeCell<bool>);
        impl Drop for V {
            fn drop(&mut self) {
                self.0.with_mut(|p| unsafe { *p = false });
            }
        }
        // SAFETY: test value; loom's cell checks the accesses.
        unsafe impl Sync for V {}
        // SAFETY: as above.
        unsafe impl Send for V {}
        loom::model(|| {
            let cell =
                loom::sync::Arc::new(ArcCell::new(Arc::new(V(loom::cell::UnsafeCell::new(true)))));
            let c = cell.clone();
            let t = loom::thread::spawn(move || {
                let g = c.load();
                assert!(g.0.with(|p| unsafe { *p }));
            });
            cell.replace(Arc::new(V(loom::cell::UnsafeCell::new(true))));
            t.join().unwrap();
        });
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use crate::sync::explore;
    use std::sync::atomic::AtomicUsize as Plain;

    struct Counted(Arc<Plain>, u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.1 = 0;
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Three readers, one of which keeps values beyond its guard, and two writers: a value that is
    /// read is alive and not older than the one read before, and each is freed once.
    #[test]
    fn values_replaced_under_readers_live_as_long_as_they_are_read() {
        explore("superversion: install, readers, drop", || {
            let alive = Arc::new(Plain::new(0));
            let make = |n: u64| {
                alive.fetch_add(1, Ordering::SeqCst);
                Arc::new(Counted(alive.clone(), n))
            };
            let cell = Arc::new(ArcCell::new(make(1)));
            let readers: Vec<_> = (0..3)
                .map(|reader| {
                    let cell = cell.clone();
                    shuttle::thread::spawn(move || {
                        let mut kept = Vec::new();
                        for _ in 0..2 {
                            let guard = cell.load();
                            assert_ne!(guard.1, 0, "freed under the reader");
                            let nested = cell.load();
                            assert_ne!(nested.1, 0, "freed under the reader");
                            if reader == 0 {
                                kept.push(nested.to_arc());
                            }
                        }
                        assert!(kept.iter().all(|value| value.1 != 0));
                    })
                })
                .collect();
            let values = [make(2), make(3)];
            let writers: Vec<_> = values
                .into_iter()
                .map(|value| {
                    let cell = cell.clone();
                    shuttle::thread::spawn(move || cell.replace(value))
                })
                .collect();
            for thread in readers.into_iter().chain(writers) {
                thread.join().unwrap();
            }
            // Nobody reads: whoever replaces next frees all that is left.
            cell.replace(make(4));
            assert_eq!(alive.load(Ordering::SeqCst), 1);
            drop(cell);
            assert_eq!(alive.load(Ordering::SeqCst), 0);
        });
    }
}
