//! Flushes that scans ask for: `memtable_op_scan_flush_trigger` and `memtable_avg_op_scan_flush_trigger`.
//!
//! An iterator that passes over many deleted or overwritten entries of the mutable memtable marks it, and the next write to
//! the family seals and flushes it; a flush drops what no snapshot sees. As in RocksDB, moves forward count, an entry is
//! taken for one of the memtable by its sequence number, one move may ask, and so may the average of the moves since
//! the last move to a place, once they have passed over as many entries as a single move would have to. An iterator
//! marks its memtable once.
//!
//! Without the first option nothing is counted: [`DbIter::hidden_from`] is beyond all sequence numbers.

use super::DbIter;
use crate::core::SuperVersion;
use spanlith_base::SequenceNumber;
use spanlith_memtable::MemTable;
use std::sync::Arc;

/// Counts hidden entries of the mutable memtable.
pub(super) struct ScanFlush {
    mem: Arc<MemTable>,
    /// Hidden entries in one move that make the memtable due.
    per_move: u64,
    /// Hidden entries on average of the moves since the last move to a place; 0 for never.
    average: u64,
    in_move: u64,
    since_seek: u64,
    moves: u64,
}

impl ScanFlush {
    /// A counter for an iterator over that state, if it may mark the memtable, and the sequence number from which on
    /// entries count.
    pub(super) fn new(state: &SuperVersion, may_mark: bool) -> (SequenceNumber, Option<Box<Self>>) {
        let options = &state.settings.options;
        if options.memtable_op_scan_flush_trigger == 0 || !may_mark {
            return (SequenceNumber::MAX, None);
        }
        let counter = Self {
            mem: state.mem.clone(),
            per_move: options.memtable_op_scan_flush_trigger.into(),
            average: options.memtable_avg_op_scan_flush_trigger.into(),
            in_move: 0,
            since_seek: 0,
            moves: 1,
        };
        // An empty memtable has no first number: nothing in it is visible to the iterator.
        (state.mem.first_seqno(), Some(Box::new(counter)))
    }

    /// Counts an entry; true if the memtable has been marked for it.
    fn count(&mut self) -> bool {
        self.in_move += 1;
        self.since_seek += u64::from(self.average > 0);
        let is_due = self.in_move >= self.per_move;
        if is_due {
            self.mem.mark_for_flush();
        }
        is_due
    }

    /// Returns whether the moves since the last move to a place have passed over too much.
    fn is_due_on_average(&self) -> bool {
        self.average > 0
            && self.since_seek >= self.per_move
            && self.since_seek >= self.moves.saturating_mul(self.average)
    }
}

impl Drop for ScanFlush {
    fn drop(&mut self) {
        if self.is_due_on_average() {
            self.mem.mark_for_flush();
        }
    }
}

impl DbIter {
    /// A move to a place begins.
    #[cold]
    pub(super) fn begin_scan(&mut self) {
        let Some(scan) = &mut self.scan_flush else {
            return;
        };
        if scan.is_due_on_average() {
            // Its drop marks the memtable.
            return self.end_scan_flush();
        }
        (scan.in_move, scan.since_seek, scan.moves) = (0, 0, 1);
    }

    /// A move forward begins.
    #[cold]
    pub(super) fn begin_step(&mut self) {
        if let Some(scan) = &mut self.scan_flush {
            scan.in_move = 0;
            scan.moves += 1;
        }
    }

    /// An entry of the mutable memtable was passed over: it is deleted, a deletion, or overwritten.
    #[cold]
    pub(super) fn note_hidden(&mut self) {
        if self.scan_flush.as_mut().is_some_and(|scan| scan.count()) {
            self.end_scan_flush();
        }
    }

    fn end_scan_flush(&mut self) {
        self.scan_flush = None;
        self.hidden_from = SequenceNumber::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::Comparator;
    use spanlith_base::keys::ValueType;

    /// A counter over a memtable with one entry.
    fn counter(per_move: u64, average: u64) -> (Arc<MemTable>, ScanFlush) {
        let mem = Arc::new(MemTable::new(Comparator::Bytewise, 4096));
        assert!(mem.add(1, ValueType::Value, b"k", b""));
        let scan = ScanFlush {
            mem: mem.clone(),
            per_move,
            average,
            in_move: 0,
            since_seek: 0,
            moves: 1,
        };
        (mem, scan)
    }

    #[test]
    fn one_move_asks_from_the_trigger_on() {
        let (mem, mut scan) = counter(3, 0);
        assert!(!scan.count() && !scan.count());
        scan.in_move = 0;
        assert!(!scan.count() && !scan.count());
        assert!(!mem.should_flush(1 << 30));
        assert!(scan.count());
        assert!(mem.should_flush(1 << 30));
    }

    #[test]
    fn the_average_asks_when_it_and_the_sum_are_high_enough() {
        // Moves, hidden entries in each, whether it asks.
        for (moves, each, asks) in [(3, 2, true), (3, 1, false), (2, 2, false)] {
            let (mem, mut scan) = counter(5, 2);
            scan.moves = moves;
            for _ in 0..moves {
                scan.in_move = 0;
                (0..each).for_each(|_| assert!(!scan.count()));
            }
            drop(scan);
            assert_eq!(mem.should_flush(1 << 30), asks, "{moves} moves of {each}");
        }
    }
}
