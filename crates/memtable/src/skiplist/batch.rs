//! Insertion of several entries with their searches interleaved.
//!
//! A search in a large list is a chain of cache misses. Eight searches taken in turns, each
//! prefetching its next node before the turn passes on, overlap their misses.

use super::insert::Splice;
use super::list::SkipList;
use super::node::{Content, MAX_HEIGHT, NodeRef, Target};
use crate::memtable::Entry;
use spanlith_base::keys::pack_tag;
use spanlith_base::sync::atomic::Ordering;

/// Searches in flight.
const LANES: usize = 8;

/// One search: at `splice.previous[level]`, about to look at `next`.
struct Descent<'a> {
    splice: Splice<'a>,
    node: NodeRef<'a>,
    next: Option<NodeRef<'a>>,
    bound: Option<NodeRef<'a>>,
    level: usize,
}

impl SkipList {
    /// Adds the entries whose key and sequence number are not taken.
    pub(crate) fn insert_many(&self, entries: &[Entry<'_>]) {
        for chunk in entries.chunks(LANES) {
            self.insert_chunk(chunk);
        }
    }

    fn insert_chunk(&self, entries: &[Entry<'_>]) {
        let mut targets = [Target {
            prefix: 0,
            key: b"",
            tag: 0,
        }; LANES];
        for (target, entry) in targets.iter_mut().zip(entries) {
            *target = Target::for_insert(&self.comparator, entry.key, entry.seqno);
        }
        let targets = &targets[..entries.len()];
        let mut splices = self.find_splices(targets);
        for ((entry, target), splice) in entries.iter().zip(targets).zip(&mut splices) {
            let tag = pack_tag(entry.seqno, entry.kind as u8);
            let content = Content {
                prefix: target.prefix,
                tag,
                key: entry.key,
                value: entry.value,
            };
            self.insert_shared(&mut splice.splice, target, entry.kind, &content);
        }
    }

    fn find_splices(&self, targets: &[Target<'_>]) -> [Descent<'_>; LANES] {
        let top = self.height.load(Ordering::Relaxed) - 1;
        let head = self.head();
        let mut lanes = std::array::from_fn(|_| Descent {
            splice: Splice {
                previous: [head; MAX_HEIGHT],
                next: [None; MAX_HEIGHT],
            },
            node: head,
            // SAFETY: The head has every level.
            next: unsafe { head.next(top) },
            bound: None,
            level: top,
        });
        let mut active: u32 = (1 << targets.len()) - 1;
        while active != 0 {
            let mut turn = active;
            while turn != 0 {
                let i = turn.trailing_zeros() as usize;
                turn &= turn - 1;
                if self.step(&mut lanes[i], &targets[i]) {
                    active &= !(1 << i);
                }
            }
        }
        lanes
    }

    /// One comparison; true when the search is done.
    #[inline(always)]
    fn step<'a>(&'a self, lane: &mut Descent<'a>, target: &Target<'_>) -> bool {
        match lane.next {
            Some(n) if n.is_before(target, &self.comparator) => lane.node = n,
            next => {
                lane.bound = next;
                loop {
                    lane.splice.previous[lane.level] = lane.node;
                    lane.splice.next[lane.level] = lane.bound;
                    if lane.level == 0 {
                        return true;
                    }
                    lane.level -= 1;
                    // SAFETY: `node` is the head or was reached on a higher level.
                    if unsafe { lane.node.next(lane.level) } != lane.bound {
                        break;
                    }
                }
            }
        }
        // SAFETY: `node` is the head or was reached on this level or a higher one.
        lane.next = unsafe { lane.node.next(lane.level) };
        if let Some(next) = lane.next {
            next.prefetch();
        }
        false
    }
}
