//! Insertion of several entries with their searches interleaved.
//!
//! A search waits for memory at the lower levels. Eight searches that go down level by level
//! together, each prefetching its next node, wait for all of them at once.

use super::insert::{Above, Pending, Place};
use super::node::NodeRef;
use super::record::Target;
use super::search::Tree;
use super::totals::Counts;
use crate::memtable::Entry;

/// Searches in flight.
const LANES: usize = 8;

impl Tree {
    /// Adds the entries whose key and sequence number are not taken.
    pub(crate) fn insert_many(&self, entries: &[Entry<'_>]) {
        let mut counts = Counts::none();
        let mut rest = entries;
        while !rest.is_empty() {
            // Entries in order need no search.
            let lanes = if self.is_appending() { 1 } else { LANES };
            let (chunk, behind) = rest.split_at(lanes.min(rest.len()));
            self.insert_chunk(chunk, &mut counts);
            rest = behind;
        }
        if counts.entries > 0 {
            self.totals.add(&counts);
        }
    }

    fn insert_chunk(&self, entries: &[Entry<'_>], counts: &mut Counts) {
        let mut leaves = [None; LANES];
        if entries.len() > 1 {
            self.find_leaves(entries, &mut leaves);
        }
        for (i, entry) in entries.iter().enumerate() {
            let mut pending = Pending::new(entry.seqno, entry.kind, entry.key, entry.value);
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
                    // What this thread just changed it need not search again.
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
                counts.add(entry.seqno, entry.kind, pending.data_bytes());
            }
        }
    }

    /// Leaves and versions for the entries; `None` where something changed on the way.
    fn find_leaves<'a>(
        &'a self,
        entries: &[Entry<'_>],
        leaves: &mut [Option<(NodeRef<'a>, u64)>; LANES],
    ) {
        let root = self.enter();
        leaves[..entries.len()].fill(Some(root));
        for _ in 0..root.0.level() {
            let mut children = [None; LANES];
            for ((lane, entry), child) in leaves.iter().zip(entries).zip(&mut children) {
                let Some((node, _)) = lane else { continue };
                let target = Target::for_insert(entry.key, entry.seqno);
                *child = node.child(node.lower_bound(&target, &self.comparator));
                if let Some(child) = child {
                    child.prefetch();
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
