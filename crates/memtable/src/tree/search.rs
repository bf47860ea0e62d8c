//! The tree: its fields, and searches.

use super::node::{Node, NodeRef, SLOTS};
use super::record::{RecordRef, Target};
use super::totals::{Counts, Totals};
use crate::arena::{Arena, ArenaUsage};
use crate::protection::Protection;
use spanlith_base::Comparator;
use spanlith_base::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::null_mut;

/// An ordered set of entries.
pub(crate) struct Tree {
    pub(super) comparator: Comparator,
    /// Release and Acquire publish the node. Changed by the holder of the old root only.
    pub(super) root: AtomicPtr<Node>,
    /// The last leaf, while entries come in order; else null. A hint: Release and Acquire publish
    /// the node, which may be the last no more.
    pub(super) last: AtomicPtr<Node>,
    /// Holds nodes only, so that they are aligned and close together.
    pub(super) nodes: Arena,
    pub(super) records: Arena,
    pub(super) totals: Totals,
    pub(crate) protection: Protection,
}

// SAFETY: Nodes and records belong to the arenas that move along; what of them changes is atomic.
unsafe impl Send for Tree {}
// SAFETY: As above.
unsafe impl Sync for Tree {}

/// A record found, and where: valid as long as the leaf's version is the same.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    pub(super) leaf: NodeRef<'a>,
    pub(super) version: u64,
    pub(super) at: usize,
    pub(super) record: RecordRef<'a>,
}

impl Tree {
    pub(crate) fn new(
        comparator: Comparator,
        arena_block_size: usize,
        protection: Protection,
    ) -> Self {
        let nodes = Arena::new(arena_block_size);
        let root = NodeRef::new(&nodes, 0, null_mut(), null_mut(), null_mut()).raw();
        Self {
            comparator,
            root: AtomicPtr::new(root),
            last: AtomicPtr::new(null_mut()),
            nodes,
            records: Arena::new(arena_block_size),
            totals: Totals::new(),
            protection,
        }
    }

    pub(crate) fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    pub(crate) fn counts(&self) -> Counts {
        self.totals.get()
    }

    /// Bytes obtained from the system.
    #[inline]
    pub(crate) fn memory_usage(&self) -> usize {
        self.records.reserved() + self.nodes.reserved() + size_of::<Self>()
    }

    /// Usage of the records' arena, with the nodes counted as far as they are in use.
    pub(crate) fn arena_usage(&self) -> ArenaUsage {
        let nodes = self.nodes.usage();
        let mut usage = self.records.usage();
        usage.allocated += nodes.allocated - nodes.unused;
        usage
    }

    /// Words of keys that a search compares, one by one in each node on its way, whatever it searches for. A
    /// user's comparator has no words, and counts itself.
    #[cold]
    pub(crate) fn search_steps(&self) -> u64 {
        let (root, _) = self.enter();
        let is_empty = root.is_leaf() && root.count() == 0;
        if is_empty || matches!(self.comparator, Comparator::User(_)) {
            return 0;
        }
        let nodes = 1 + root.level() as u64;
        nodes * u64::from(1 + SLOTS.ilog2())
    }

    /// The root and its version.
    #[inline(always)]
    pub(super) fn enter(&self) -> (NodeRef<'_>, u64) {
        loop {
            let raw = self.root.load(Ordering::Acquire);
            // SAFETY: Never null; published by Release after initialisation, lives in `nodes`.
            let root = unsafe { NodeRef::from_raw(raw).unwrap_unchecked() };
            let version = root.begin();
            // A root that was split meanwhile lost its right half.
            if self.root.load(Ordering::Acquire) == raw {
                return (root, version);
            }
        }
    }

    /// One step down, to the child after `at` separators; `None` if the node changed.
    #[inline(always)]
    pub(super) fn down<'a>(
        &'a self,
        (node, version): (NodeRef<'a>, u64),
        at: usize,
    ) -> Option<(NodeRef<'a>, u64)> {
        let child = node.child(at)?;
        child.prefetch(node.level() - 1);
        let child_version = child.begin();
        // Behind the child's version: a split of the child changes this node too.
        node.is_unchanged(version).then_some((child, child_version))
    }

    /// The leaf that `target` belongs to, and its version.
    #[inline]
    pub(super) fn descend(&self, target: &Target<'_>) -> (NodeRef<'_>, u64) {
        loop {
            let root = self.enter();
            if let Some(leaf) = self.descend_from(root, target) {
                return leaf;
            }
        }
    }

    /// The leaf below `place` that `target` belongs to, and its version; `None` if a node changed.
    #[inline(always)]
    fn descend_from<'a>(
        &'a self,
        mut place: (NodeRef<'a>, u64),
        target: &Target<'_>,
    ) -> Option<(NodeRef<'a>, u64)> {
        while !place.0.is_leaf() {
            let at = place.0.lower_bound(target, &self.comparator);
            place = self.down(place, at)?;
        }
        Some(place)
    }

    /// First record not before `target`.
    #[inline]
    pub(super) fn find_at_or_after(&self, target: &Target<'_>) -> Option<Position<'_>> {
        self.search::<false>(target)
    }

    /// First record not before `target`, unless its word tells that its key is another than the
    /// target's. Such a record is not touched, which saves a wait for its memory.
    #[inline]
    pub(super) fn find_same(&self, target: &Target<'_>) -> Option<Position<'_>> {
        self.search::<true>(target)
    }

    #[inline(always)]
    fn search<const SAME: bool>(&self, target: &Target<'_>) -> Option<Position<'_>> {
        loop {
            let root = self.enter();
            if root.0.is_leaf() && root.0.count() == 0 && root.0.is_unchanged(root.1) {
                return None;
            }
            let Some((leaf, version)) = self.descend_from(root, target) else {
                continue;
            };
            let at = leaf.lower_bound(target, &self.comparator);
            if at < leaf.count() {
                let is_other = SAME && !leaf.has_word_of(at, target.key, &self.comparator);
                let record = leaf.record(at);
                if leaf.is_unchanged(version)
                    && let Some(record) = record
                {
                    return (!is_other).then_some(Position {
                        leaf,
                        version,
                        at,
                        record,
                    });
                }
            } else if let Ok(found) = self.first_at_right(leaf, version) {
                return found;
            }
        }
    }

    /// First record of the leaf at the right of `leaf`; an error if `leaf` changed.
    pub(super) fn first_at_right<'a>(
        &'a self,
        leaf: NodeRef<'a>,
        version: u64,
    ) -> Result<Option<Position<'a>>, Changed> {
        let right = leaf.link();
        if !leaf.is_unchanged(version) {
            return Err(Changed);
        }
        let Some(right) = right else { return Ok(None) };
        loop {
            let version = right.begin();
            let record = right.record(0);
            if right.is_unchanged(version)
                && let Some(record) = record
            {
                return Ok(Some(Position {
                    leaf: right,
                    version,
                    at: 0,
                    record,
                }));
            }
        }
    }

    /// Last record before `target`.
    pub(super) fn find_before(&self, target: &Target<'_>) -> Option<Position<'_>> {
        loop {
            let (leaf, version) = self.descend(target);
            let at = leaf.lower_bound(target, &self.comparator);
            // A leaf whose separator is before the target holds that separator: nothing before the
            // target in the leaf means that it is the first leaf.
            let record = at.checked_sub(1).and_then(|i| leaf.record(i));
            if leaf.is_unchanged(version) {
                return record.map(|record| Position {
                    leaf,
                    version,
                    at: at - 1,
                    record,
                });
            }
        }
    }

    /// First record.
    pub(super) fn first(&self) -> Option<Position<'_>> {
        'anew: loop {
            let mut place = self.enter();
            while !place.0.is_leaf() {
                let Some(below) = self.down(place, 0) else {
                    continue 'anew;
                };
                place = below;
            }
            let (leaf, version) = place;
            let record = if leaf.count() == 0 {
                None
            } else {
                leaf.record(0)
            };
            if leaf.is_unchanged(version) {
                return record.map(|record| Position {
                    leaf,
                    version,
                    at: 0,
                    record,
                });
            }
        }
    }

    /// Last record.
    pub(super) fn last(&self) -> Option<Position<'_>> {
        'anew: loop {
            let mut place = self.enter();
            while !place.0.is_leaf() {
                let at = place.0.count();
                let Some(below) = self.down(place, at) else {
                    continue 'anew;
                };
                place = below;
            }
            let (leaf, version) = place;
            let at = leaf.count();
            let record = at.checked_sub(1).and_then(|i| leaf.record(i));
            if leaf.is_unchanged(version) {
                return record.map(|record| Position {
                    leaf,
                    version,
                    at: at - 1,
                    record,
                });
            }
        }
    }

    /// The record after the one at `position`.
    #[inline]
    pub(super) fn after<'a>(&'a self, position: &Position<'a>) -> Option<Position<'a>> {
        let Position {
            leaf,
            version,
            at,
            record,
        } = *position;
        let at = at + 1;
        if at < leaf.count() {
            let next = leaf.record(at);
            if leaf.is_unchanged(version)
                && let Some(record) = next
            {
                return Some(Position {
                    leaf,
                    version,
                    at,
                    record,
                });
            }
        } else if let Ok(found) = self.first_at_right(leaf, version) {
            return found;
        }
        self.find_at_or_after(&record.place().behind())
    }

    /// The record before the one at `position`.
    #[inline]
    pub(super) fn before<'a>(&'a self, position: &Position<'a>) -> Option<Position<'a>> {
        let Position {
            leaf,
            version,
            at,
            record,
        } = *position;
        if let Some(at) = at.checked_sub(1) {
            let previous = leaf.record(at);
            if leaf.is_unchanged(version)
                && let Some(record) = previous
            {
                return Some(Position {
                    leaf,
                    version,
                    at,
                    record,
                });
            }
        }
        self.find_before(&record.place())
    }
}

/// The node changed since its version was noted.
pub(super) struct Changed;
