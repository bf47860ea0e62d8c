//! The list itself: its fields, and searches that change nothing.

use super::insert::Writer;
use super::node::{Content, MAX_HEIGHT, NodeRef, Target};
use crate::arena::{Arena, ArenaUsage};
use spanlith_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use spanlith_base::{Comparator, SequenceNumber};

/// Keeps what many threads write off the lines that everyone reads.
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

/// Running totals. Relaxed: each is a counter of its own and publishes nothing.
pub(super) struct Totals {
    pub(super) entries: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) data_bytes: AtomicU64,
    pub(super) smallest: AtomicU64,
    pub(super) largest: AtomicU64,
}

impl Totals {
    pub(super) fn new() -> Self {
        Self {
            entries: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
            smallest: AtomicU64::new(u64::MAX),
            largest: AtomicU64::new(0),
        }
    }
}

/// Totals over all entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    pub(crate) data_bytes: u64,
    /// `SequenceNumber::MAX` while empty.
    pub(crate) smallest: SequenceNumber,
    /// Zero while empty.
    pub(crate) largest: SequenceNumber,
}

/// An ordered set of entries.
pub(crate) struct SkipList {
    pub(super) comparator: Comparator,
    /// Stands before all entries; has the maximal height and no key. A raw pointer into `arena`.
    head: *mut super::node::Node,
    /// Levels in use. Relaxed: a reader that sees a stale value only searches longer, and an upper
    /// level that is still empty ends at once.
    pub(super) height: AtomicUsize,
    pub(super) arena: Apart<Arena>,
    /// Counted by writers that do not own `writer`.
    pub(super) shared: Apart<Totals>,
    pub(super) writer: Apart<Writer>,
}

// SAFETY: Nodes are immutable but for their atomic links, and belong to the arena that is moved
// along.
unsafe impl Send for SkipList {}
// SAFETY: As above; the remembered splice is guarded by the writer's flag.
unsafe impl Sync for SkipList {}

impl SkipList {
    pub(crate) fn new(comparator: Comparator, arena_block_size: usize) -> Self {
        let arena = Arena::new(arena_block_size);
        let nothing = Content {
            prefix: 0,
            tag: 0,
            key: b"",
            value: b"",
        };
        let memory = arena.allocate(NodeRef::size(&nothing, MAX_HEIGHT));
        // SAFETY: Memory of that size, fresh from the arena, which outlives the node.
        let head = unsafe { NodeRef::write(memory, &nothing, MAX_HEIGHT) }.raw();
        Self {
            comparator,
            head,
            height: AtomicUsize::new(1),
            arena: Apart(arena),
            shared: Apart(Totals::new()),
            writer: Apart(Writer::new()),
        }
    }

    pub(crate) fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    /// Bytes obtained from the system.
    pub(crate) fn memory_usage(&self) -> usize {
        self.arena.0.usage().allocated + size_of::<Self>()
    }

    pub(crate) fn arena_usage(&self) -> ArenaUsage {
        self.arena.0.usage()
    }

    pub(crate) fn counts(&self) -> Counts {
        let (a, b) = (&self.shared.0, &self.writer.0.totals);
        let sum =
            |x: &AtomicU64, y: &AtomicU64| x.load(Ordering::Relaxed) + y.load(Ordering::Relaxed);
        Counts {
            entries: sum(&a.entries, &b.entries),
            deletes: sum(&a.deletes, &b.deletes),
            data_bytes: sum(&a.data_bytes, &b.data_bytes),
            smallest: a
                .smallest
                .load(Ordering::Relaxed)
                .min(b.smallest.load(Ordering::Relaxed)),
            largest: a
                .largest
                .load(Ordering::Relaxed)
                .max(b.largest.load(Ordering::Relaxed)),
        }
    }

    #[inline(always)]
    pub(super) fn head(&self) -> NodeRef<'_> {
        // SAFETY: Written in `new`, lives in the arena that `self` owns, never null.
        unsafe { NodeRef::from_raw(self.head).unwrap_unchecked() }
    }

    /// First entry.
    pub(super) fn first(&self) -> Option<NodeRef<'_>> {
        self.head().following()
    }

    /// First entry not before `target`.
    #[inline]
    pub(super) fn find_at_or_after(&self, target: &Target<'_>) -> Option<NodeRef<'_>> {
        let mut node = self.head();
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        // Known not to be before the target; met again one level down more often than not.
        let mut bound = None;
        loop {
            // SAFETY: `node` is the head or was reached on this level or a higher one.
            let next = unsafe { node.next(level) };
            match next {
                Some(n) if next != bound && n.is_before(target, &self.comparator) => node = n,
                _ if level == 0 => return next,
                _ => {
                    bound = next;
                    level -= 1;
                }
            }
        }
    }

    /// Last entry before `target`, or the head.
    pub(super) fn find_before(&self, target: &Target<'_>) -> NodeRef<'_> {
        let mut node = self.head();
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        let mut bound = None;
        loop {
            // SAFETY: `node` is the head or was reached on this level or a higher one.
            let next = unsafe { node.next(level) };
            match next {
                Some(n) if next != bound && n.is_before(target, &self.comparator) => node = n,
                _ if level == 0 => return node,
                _ => {
                    bound = next;
                    level -= 1;
                }
            }
        }
    }

    /// Last entry, or the head.
    pub(super) fn find_last(&self) -> NodeRef<'_> {
        let mut node = self.head();
        let mut level = self.height.load(Ordering::Relaxed) - 1;
        loop {
            // SAFETY: `node` is the head or was reached on this level or a higher one.
            match unsafe { node.next(level) } {
                Some(next) => node = next,
                None if level == 0 => return node,
                None => level -= 1,
            }
        }
    }
}
