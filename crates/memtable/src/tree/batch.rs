//! Several entries at once, with their searches interleaved.
//!
//! A search waits for memory at the lower levels. Eight searches that go down level by level
//! together, each prefetching its next node, wait for all of them at once.

use super::EntryRef;
use super::insert::{Above, Pending, Place};
use super::node::NodeRef;
use super::record::Target;
use super::search::{Position, Tree};
use super::totals::Counts;
use crate::memtable::Entry;
use spanlith_base::keys::seek_tag;
use spanlith_base::{SequenceNumber, ValueType};

/// Searches in flight.
const LANES: usize = 8;

/// An entry to be added.
pub(super) trait Arriving {
    fn seqno(&self) -> SequenceNumber;
    fn kind(&self) -> ValueType;
    fn key(&self) -> &[u8];
    fn pending<'s>(&'s self, tree: &'s Tree) -> Pending<'s, 's>;
}

impl Arriving for Entry<'_> {
    #[inline]
    fn seqno(&self) -> SequenceNumber {
        self.seqno
    }

    #[inline]
    fn kind(&self) -> ValueType {
        self.kind
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.key
    }

    #[inline]
    fn pending<'s>(&'s self, tree: &'s Tree) -> Pending<'s, 's> {
        Pending::new(tree.protection, self.seqno, self.kind, self.key, self.value)
    }
}

impl Tree {
    /// Adds the entries whose key and sequence number are not taken; the sequence number of the first that
    /// is.
    pub(crate) fn insert_many(&self, entries: &[Entry<'_>]) -> Option<SequenceNumber> {
        self.insert_all(entries)
    }

    /// [`Self::insert_many`], of what may be written already.
    pub(super) fn insert_all<A: Arriving>(&self, entries: &[A]) -> Option<SequenceNumber> {
        let mut counts = Counts::none();
        let mut refused = None;
        let mut rest = entries;
        while !rest.is_empty() {
            // Entries in order need no search.
            let lanes = if self.is_appending() { 1 } else { LANES };
            let (chunk, behind) = rest.split_at(lanes.min(rest.len()));
            refused = refused.or(self.insert_chunk(chunk, &mut counts));
            rest = behind;
        }
        if counts.entries > 0 {
            self.totals.add(&counts);
        }
        refused
    }

    fn insert_chunk<A: Arriving>(
        &self,
        entries: &[A],
        counts: &mut Counts,
    ) -> Option<SequenceNumber> {
        let mut refused = None;
        let mut leaves = [None; LANES];
        if entries.len() > 1 {
            let target = |i: usize| Target::for_insert(entries[i].key(), entries[i].seqno());
            self.find_leaves(entries.len(), target, &mut leaves);
        }
        for (i, entry) in entries.iter().enumerate() {
            let mut pending = entry.pending(self);
            let added = leaves[i].and_then(|(leaf, version)| {
                // A full leaf is left to the ordinary way, which knows what is above it.
                let place = Place {
                    leaf,
                    version,
                    above: Above::Unknown,
                };
                self.insert_into(&place, &mut pending)
            });
            let added = match added {
                Some(added) => {
                    // This thread need not search again for its own last change.
                    if added && let Some((leaf, version)) = leaves[i] {
                        let same = Some((leaf, version));
                        let changed = Some((leaf, version + 2));
                        for other in leaves[i + 1..].iter_mut().filter(|l| **l == same) {
                            *other = changed;
                        }
                    }
                    added
                }
                None => self.insert_pending(&mut pending),
            };
            if added {
                counts.add(entry.seqno(), entry.kind(), pending.data_bytes());
            } else {
                refused = refused.or(Some(entry.seqno()));
            }
        }
        refused
    }

    /// Newest entries of `keys` with sequence numbers of at most `snapshot`.
    pub(crate) fn find_many<'a>(
        &'a self,
        keys: &[&[u8]],
        snapshot: SequenceNumber,
        found: &mut [Option<EntryRef<'a>>],
    ) {
        let found = &mut found[..keys.len()];
        for (keys, found) in keys.chunks(LANES).zip(found.chunks_mut(LANES)) {
            let target = |i: usize| Target::new(keys[i], seek_tag(snapshot));
            let mut leaves = [None; LANES];
            self.find_leaves(keys.len(), target, &mut leaves);
            // Known by now: where the key's record is, or that there is none.
            let mut known: [Option<Option<Position<'_>>>; LANES] = [None; LANES];
            for (i, known) in known.iter_mut().enumerate().take(keys.len()) {
                let Some((leaf, version)) = leaves[i] else {
                    continue;
                };
                let target = target(i);
                let at = leaf.lower_bound(&target, &self.comparator);
                if at >= leaf.count() {
                    continue;
                }
                let is_other = !leaf.has_word_of(at, target.key, &self.comparator);
                if let Some(record) = leaf.record(at)
                    && leaf.is_unchanged(version)
                {
                    *known = Some((!is_other).then(|| {
                        record.prefetch();
                        Position {
                            leaf,
                            version,
                            at,
                            record,
                        }
                    }));
                }
            }
            for (i, found) in found.iter_mut().enumerate() {
                // A key whose place changed on the way, or is in the next leaf, is searched alone.
                let position = known[i].unwrap_or_else(|| self.find_same(&target(i)));
                *found = position.and_then(|p| self.entry_of(p, &target(i)));
            }
        }
    }

    /// Leaves and versions for the first `count` targets; `None` where something changed on the way.
    fn find_leaves<'a, 'k>(
        &'a self,
        count: usize,
        target: impl Fn(usize) -> Target<'k>,
        leaves: &mut [Option<(NodeRef<'a>, u64)>; LANES],
    ) {
        let root = self.enter();
        leaves[..count].fill(Some(root));
        for _ in 0..root.0.level() {
            let mut children = [None; LANES];
            for (i, child) in children.iter_mut().enumerate().take(count) {
                let Some((node, _)) = leaves[i] else { continue };
                *child = node.child(node.lower_bound(&target(i), &self.comparator));
                if let Some(child) = child {
                    child.prefetch(node.level() - 1);
                }
            }
            for (lane, child) in leaves.iter_mut().zip(children) {
                *lane = lane.and_then(|(node, version)| {
                    let child = child?;
                    let child_version = child.begin();
                    node.is_unchanged(version).then_some((child, child_version))
                });
            }
        }
    }
}
