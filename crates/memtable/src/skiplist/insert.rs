//! Insertion of one entry, and the splice that makes insertion in key order cheap.

use super::list::{SkipList, Totals};
use super::node::{Content, MAX_HEIGHT, Node, NodeRef, Target};
use spanlith_base::ValueType;
use spanlith_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::cell::UnsafeCell;

/// Neighbours of a key on each level: `previous` is before the key, `next` is not.
pub(super) struct Splice<'a> {
    pub(super) previous: [NodeRef<'a>; MAX_HEIGHT],
    pub(super) next: [Option<NodeRef<'a>>; MAX_HEIGHT],
}

/// A splice kept between inserts: on each level two nodes that were neighbours, the pair of a lower
/// level inside that of a higher one. `height` 0 means none.
struct Remembered {
    height: usize,
    previous: [*mut Node; MAX_HEIGHT],
    next: [*mut Node; MAX_HEIGHT],
}

/// What one writer at a time owns.
pub(super) struct Writer {
    /// Taken by Acquire swap, given back by Release store; a writer that finds it taken does
    /// without.
    busy: AtomicBool,
    /// Guarded by `busy`.
    remembered: UnsafeCell<Remembered>,
    /// Written by the owner of `busy` only, hence without locked instructions; read by anyone.
    pub(super) totals: Totals,
}

impl Writer {
    pub(super) fn new() -> Self {
        let none = [std::ptr::null_mut(); MAX_HEIGHT];
        Self {
            busy: AtomicBool::new(false),
            remembered: UnsafeCell::new(Remembered {
                height: 0,
                previous: none,
                next: none,
            }),
            totals: Totals::new(),
        }
    }

    /// Becomes the owner, unless another thread is.
    #[inline]
    pub(super) fn try_own(&self) -> Option<Owned<'_>> {
        // The plain look first keeps a busy line shared.
        if self.busy.load(Ordering::Relaxed) || self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Owned { writer: self })
    }
}

/// Ownership of the remembered splice, given back on drop.
pub(super) struct Owned<'w> {
    writer: &'w Writer,
}

impl Drop for Owned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.writer.busy.store(false, Ordering::Release);
    }
}

impl Owned<'_> {
    #[inline]
    fn remembered(&mut self) -> &mut Remembered {
        // SAFETY: `busy` was taken by this owner, so nobody else has a reference.
        unsafe { &mut *self.writer.remembered.get() }
    }

    /// Counts one entry. Plain loads and stores: the owner is the only writer of these totals.
    #[inline]
    fn count(&mut self, kind: ValueType, content: &Content<'_>) {
        let totals = &self.writer.totals;
        let add = |counter: &AtomicU64, n: u64| {
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        let sequence = content.tag >> 8;
        add(&totals.entries, 1);
        add(&totals.data_bytes, data_bytes(content));
        if is_delete(kind) {
            add(&totals.deletes, 1);
        }
        if sequence < totals.smallest.load(Ordering::Relaxed) {
            totals.smallest.store(sequence, Ordering::Relaxed);
        }
        if sequence > totals.largest.load(Ordering::Relaxed) {
            totals.largest.store(sequence, Ordering::Relaxed);
        }
    }
}

/// Counts one entry into totals that several threads write.
fn count_shared(totals: &Totals, kind: ValueType, content: &Content<'_>) {
    let sequence = content.tag >> 8;
    totals.entries.fetch_add(1, Ordering::Relaxed);
    totals
        .data_bytes
        .fetch_add(data_bytes(content), Ordering::Relaxed);
    if is_delete(kind) {
        totals.deletes.fetch_add(1, Ordering::Relaxed);
    }
    if sequence < totals.smallest.load(Ordering::Relaxed) {
        totals.smallest.fetch_min(sequence, Ordering::Relaxed);
    }
    if sequence > totals.largest.load(Ordering::Relaxed) {
        totals.largest.fetch_max(sequence, Ordering::Relaxed);
    }
}

fn data_bytes(content: &Content<'_>) -> u64 {
    (content.key.len() + size_of::<u64>() + content.value.len()) as u64
}

fn is_delete(kind: ValueType) -> bool {
    matches!(
        kind,
        ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp
    )
}

/// Height of the `n`th node: each further level with probability one quarter. A hash of a running
/// number is random enough and needs no state of its own.
#[inline]
fn height_of(n: u64) -> usize {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    (1 + x.trailing_zeros() as usize / 2).min(MAX_HEIGHT)
}

impl SkipList {
    /// Adds an entry; false if its key and sequence number are taken (M2).
    pub(crate) fn insert(&self, sequence: u64, kind: ValueType, key: &[u8], value: &[u8]) -> bool {
        let target = Target::for_insert(&self.comparator, key, sequence);
        let tag = spanlith_base::keys::pack_tag(sequence, kind as u8);
        let content = Content {
            prefix: target.prefix,
            tag,
            key,
            value,
        };
        match self.writer.0.try_own() {
            Some(mut owned) => self.insert_owned(&mut owned, &target, kind, &content),
            None => {
                let mut splice = self.find_splice(&target);
                self.insert_shared(&mut splice, &target, kind, &content)
            }
        }
    }

    /// Adds an entry through the remembered splice.
    pub(super) fn insert_owned(
        &self,
        owned: &mut Owned<'_>,
        target: &Target<'_>,
        kind: ValueType,
        content: &Content<'_>,
    ) -> bool {
        let (mut splice, fresh) = match self.recall(owned.remembered(), target) {
            Some(splice) => (splice, false),
            None => (self.find_splice(target), true),
        };
        let height = height_of(owned.writer.totals.entries.load(Ordering::Relaxed));
        let node = self.link(&mut splice, target, content, height, fresh);
        if let Some(node) = node {
            // The next insert in key order belongs right behind this one.
            for level in splice.previous.iter_mut().take(height) {
                *level = node;
            }
            owned.count(kind, content);
        }
        let remembered = owned.remembered();
        remembered.height = self.height.load(Ordering::Relaxed);
        for level in 0..remembered.height {
            remembered.previous[level] = splice.previous[level].raw();
            remembered.next[level] = splice.next[level].map_or(std::ptr::null_mut(), NodeRef::raw);
        }
        node.is_some()
    }

    /// Adds an entry without the remembered splice.
    pub(super) fn insert_shared<'a>(
        &'a self,
        splice: &mut Splice<'a>,
        target: &Target<'_>,
        kind: ValueType,
        content: &Content<'_>,
    ) -> bool {
        // Another sequence of heights than the owner's.
        let n = !self.shared.0.entries.load(Ordering::Relaxed) ^ target.tag.rotate_left(32);
        let linked = self
            .link(splice, target, content, height_of(n), true)
            .is_some();
        if linked {
            count_shared(&self.shared.0, kind, content);
        }
        linked
    }

    /// The remembered splice, if it brackets `target`.
    #[inline]
    fn recall(&self, remembered: &Remembered, target: &Target<'_>) -> Option<Splice<'_>> {
        if remembered.height == 0 || remembered.height < self.height.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: The remembered nodes were linked nodes (or the head) of this list.
        let (previous, next) = unsafe {
            (
                NodeRef::from_raw(remembered.previous[0])?,
                NodeRef::from_raw(remembered.next[0]),
            )
        };
        let behind = previous == self.head() || previous.is_before(target, &self.comparator);
        if !behind
            || previous.following() != next
            || next.is_some_and(|n| n.is_before(target, &self.comparator))
        {
            return None;
        }
        // Upper levels bracket whatever the bottom one does; whether their nodes are still
        // neighbours is found out when linking.
        let mut splice = Splice {
            previous: [self.head(); MAX_HEIGHT],
            next: [None; MAX_HEIGHT],
        };
        for level in 0..remembered.height {
            // SAFETY: As above; levels below the remembered height are never null.
            unsafe {
                splice.previous[level] = NodeRef::from_raw(remembered.previous[level])?;
                splice.next[level] = NodeRef::from_raw(remembered.next[level]);
            }
        }
        Some(splice)
    }

    /// Neighbours of `target` on every level.
    pub(super) fn find_splice(&self, target: &Target<'_>) -> Splice<'_> {
        let mut splice = Splice {
            previous: [self.head(); MAX_HEIGHT],
            next: [None; MAX_HEIGHT],
        };
        let mut node = self.head();
        let mut bound = None;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: `node` is the head or was reached on this level or a higher one.
                let next = unsafe { node.next(level) };
                match next {
                    Some(n) if next != bound && n.is_before(target, &self.comparator) => node = n,
                    _ => {
                        bound = next;
                        break;
                    }
                }
            }
            splice.previous[level] = node;
            splice.next[level] = bound;
        }
        splice
    }

    /// Moves the neighbours of `target` on `level` forward to where they belong now.
    #[cold]
    fn advance<'a>(&'a self, splice: &mut Splice<'a>, target: &Target<'_>, level: usize) {
        loop {
            // SAFETY: A splice holds on each level nodes of at least that height.
            let next = unsafe { splice.previous[level].next(level) };
            match next {
                Some(n) if n.is_before(target, &self.comparator) => splice.previous[level] = n,
                _ => {
                    splice.next[level] = next;
                    return;
                }
            }
        }
    }

    /// Writes a node and links it; `None` if its key and sequence number are taken. `fresh` tells
    /// that the splice was searched for this insert, so that its nodes are near.
    fn link<'a>(
        &'a self,
        splice: &mut Splice<'a>,
        target: &Target<'_>,
        content: &Content<'_>,
        height: usize,
        mut fresh: bool,
    ) -> Option<NodeRef<'a>> {
        if target.is_taken_by(splice.next[0], &self.comparator) {
            return None;
        }
        let memory = self.arena.0.allocate(NodeRef::size(content, height));
        // SAFETY: Memory of that size, fresh from the arena, which lives as long as `self`.
        let node = unsafe { NodeRef::write(memory, content, height) };
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        for level in 0..height {
            // SAFETY: `level` is below the node's height, and a splice holds on each level nodes of
            // at least that height (the head where it was not searched).
            while !unsafe { node.link_after(splice.previous[level], splice.next[level], level) } {
                if fresh {
                    self.advance(splice, target, level);
                } else {
                    // Others were here since; walking from a stale place could take long.
                    *splice = self.find_splice(target);
                    fresh = true;
                }
                if level == 0 && target.is_taken_by(splice.next[0], &self.comparator) {
                    return None;
                }
            }
        }
        Some(node)
    }
}
