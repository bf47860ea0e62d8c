//! When sequence numbers were assigned, about.
//!
//! Pairs of a sequence number and a time in seconds since 1970, both strictly ascending; a pair says that
//! the number was assigned at or before that time. The database keeps pairs from now on back to the span
//! its families ask for; tables carry those of their own entries in a property, which compactions hand
//! on. Pure bookkeeping: the caller brings clock and lock.

use spanlith_base::coding::{get_varint64, put_varint64};
use spanlith_base::{Error, Result, SequenceNumber};

/// Numbers that a new database gives to no write, so that the time before it is told apart.
pub(crate) const RESERVED: SequenceNumber = 100;

/// Pairs in a span: it is recorded in as many steps.
pub(crate) const STEPS: u64 = 100;

/// Pairs kept in memory, about.
const IN_MEMORY_MAX: usize = 1000;

/// Pairs in a table.
const IN_TABLE_MAX: usize = 100;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeqnoTimes {
    pairs: Vec<(SequenceNumber, u64)>,
}

impl SeqnoTimes {
    /// Numbers from 1 to `last`, spread evenly between two times.
    pub(crate) fn spread(last: SequenceNumber, from: u64, to: u64) -> Self {
        let mut times = Self::default();
        let steps = last.saturating_sub(1).max(1);
        for i in 0..last {
            times.push((i + 1, from + to.saturating_sub(from) * i / steps));
        }
        times
    }

    /// Returns whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Notes that `seqno` was assigned at or before `now`, and forgets what lies more than `span` seconds
    /// back.
    pub(crate) fn record(&mut self, seqno: SequenceNumber, now: u64, span: u64) {
        if seqno == 0 {
            return;
        }
        self.push((seqno, now));
        self.forget_before(now, span);
        if self.pairs.len() > IN_MEMORY_MAX + IN_MEMORY_MAX / 8 {
            self.thin(IN_MEMORY_MAX);
        }
    }

    /// Adds a newer pair, or lets it correct the last ones: of one number the earlier time counts, of one
    /// time the larger number, and times that go back are believed.
    fn push(&mut self, pair: (SequenceNumber, u64)) {
        while let Some(last) = self.pairs.last_mut() {
            if last.0 == pair.0 {
                last.1 = last.1.min(pair.1);
                return;
            }
            if last.1 < pair.1 {
                break;
            }
            self.pairs.pop();
        }
        self.pairs.push(pair);
    }

    /// Takes in the property of a table; [`Self::settle`] brings it in order.
    ///
    /// # Errors
    /// `Corruption` if it is none; what stands before the mistake is kept.
    pub(crate) fn add_encoded(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let bad = || Error::corruption("times of sequence numbers cannot be read");
        let (count, mut rest) = get_varint64(bytes).ok_or_else(bad)?;
        let (mut seqno, mut time) = (0u64, 0u64);
        for _ in 0..count {
            let (by, left) = get_varint64(rest).ok_or_else(bad)?;
            let (later, left) = get_varint64(left).ok_or_else(bad)?;
            rest = left;
            seqno = seqno.wrapping_add(by);
            time = time.wrapping_add(later);
            self.pairs.push((seqno, time));
        }
        Ok(())
    }

    /// Brings pairs of several tables in order and forgets what lies more than `span` seconds back.
    pub(crate) fn settle(&mut self, now: u64, span: u64) {
        let mut all = std::mem::take(&mut self.pairs);
        all.retain(|p| p.0 != 0);
        all.sort_unstable();
        for pair in all {
            self.push(pair);
        }
        self.forget_before(now, span);
    }

    /// Keeps one pair at or before the time that lies `span` seconds back.
    fn forget_before(&mut self, now: u64, span: u64) {
        let Some(oldest) = now.checked_sub(span) else {
            return;
        };
        let old = self.pairs.partition_point(|p| p.1 <= oldest);
        self.pairs.drain(..old.saturating_sub(1));
    }

    /// The largest number known to have been assigned at or before a time; 0 if none is.
    pub(crate) fn seqno_before(&self, seconds: u64) -> SequenceNumber {
        let after = self.pairs.partition_point(|p| p.1 <= seconds);
        after.checked_sub(1).map_or(0, |i| self.pairs[i].0)
    }

    /// Returns what a table needs whose numbers lie from `smallest` to `largest`, as its property has it; empty
    /// for nothing.
    pub(crate) fn encode_part(&self, smallest: SequenceNumber, largest: SequenceNumber) -> Vec<u8> {
        let from = self.pairs.partition_point(|p| p.0 < smallest);
        let to = self.pairs.partition_point(|p| p.0 <= largest);
        let from = from.saturating_sub(1);
        if from >= to {
            return Vec::new();
        }
        let mut part = Self {
            pairs: self.pairs[from..to].to_vec(),
        };
        part.thin(IN_TABLE_MAX);
        let mut out = Vec::new();
        put_varint64(&mut out, part.pairs.len() as u64);
        let mut before = (0, 0);
        for pair in part.pairs {
            put_varint64(&mut out, pair.0 - before.0);
            put_varint64(&mut out, pair.1 - before.1);
            before = pair;
        }
        out
    }

    /// Leaves out pairs between first and last until `max` are left: always the one whose neighbours are
    /// closest in time, of several the oldest.
    fn thin(&mut self, max: usize) {
        let max = max.max(2);
        while self.pairs.len() > max {
            let gaps = self.pairs.windows(3).map(|w| w[2].1 - w[0].1);
            let Some((at, _)) = gaps.enumerate().min_by_key(|&(at, gap)| (gap, at)) else {
                return;
            };
            self.pairs.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(u64, u64)]) -> SeqnoTimes {
        let mut times = SeqnoTimes::default();
        pairs.iter().for_each(|&p| times.push(p));
        times
    }

    #[test]
    fn of_one_number_the_earlier_time_counts_and_of_one_time_the_larger_number() {
        assert_eq!(of(&[(5, 10), (5, 20)]).pairs, [(5, 10)]);
        assert_eq!(of(&[(5, 10), (7, 10)]).pairs, [(7, 10)]);
        assert_eq!(
            of(&[(1, 5), (5, 10), (7, 4)]).pairs,
            [(7, 4)],
            "a clock that went back"
        );
        assert_eq!(of(&[(1, 5), (5, 10), (7, 8)]).pairs, [(1, 5), (7, 8)]);
    }

    #[test]
    fn a_time_has_the_largest_number_that_was_assigned_before() {
        let times = of(&[(5, 10), (9, 20)]);
        let asked: Vec<u64> = [9, 10, 19, 20, 99].map(|t| times.seqno_before(t)).to_vec();
        assert_eq!(asked, [0, 5, 5, 9, 9]);
    }

    #[test]
    fn one_pair_from_before_the_span_is_kept() {
        let mut times = SeqnoTimes::default();
        for i in 1..=10 {
            times.record(i, i * 10, 35);
        }
        assert_eq!(times.pairs, [(6, 60), (7, 70), (8, 80), (9, 90), (10, 100)]);
        times.record(0, 110, 35);
        assert_eq!(times.pairs.len(), 5, "0 is no number");
    }

    #[test]
    fn a_part_of_the_pairs_comes_back_from_its_property() {
        let times = of(&[(3, 10), (5, 20), (9, 40), (12, 50)]);
        let back = |smallest, largest| {
            let mut back = SeqnoTimes::default();
            back.add_encoded(&times.encode_part(smallest, largest))
                .unwrap();
            back.pairs
        };
        assert_eq!(back(6, 10), [(5, 20), (9, 40)]);
        assert_eq!(back(5, 5), [(3, 10), (5, 20)]);
        assert_eq!(back(1, 2), []);
        assert_eq!(back(20, 30), [(12, 50)]);
        assert_eq!(back(0, 0), []);
    }

    #[test]
    fn bytes_that_are_no_pairs_are_refused_without_allocating_for_them() {
        let mut all = of(&[(3, 10), (5, 20)]).encode_part(1, 9);
        assert_eq!(all, [2, 3, 10, 2, 10]);
        all[0] = 3;
        let mut times = SeqnoTimes::default();
        assert!(times.add_encoded(&all).is_err());
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(times.add_encoded(&huge).is_err());
        assert!(times.add_encoded(&[0x80]).is_err());
        times.settle(100, 1000);
        assert_eq!(times.pairs, [(3, 10), (5, 20)]);
    }

    #[test]
    fn pairs_that_are_closest_in_time_are_left_out_first() {
        let mut times = of(&[(1, 0), (2, 10), (3, 11), (4, 20), (5, 40)]);
        times.thin(4);
        assert_eq!(times.pairs, [(1, 0), (2, 10), (4, 20), (5, 40)]);
        times.thin(3);
        assert_eq!(times.pairs, [(1, 0), (4, 20), (5, 40)]);
        let many = SeqnoTimes::spread(1000, 0, 1_000_000);
        let mut back = SeqnoTimes::default();
        back.add_encoded(&many.encode_part(1, 1000)).unwrap();
        assert_eq!(back.pairs.len(), 100);
        assert_eq!((back.pairs[0], back.pairs[99]), ((1, 0), (1000, 1_000_000)));
    }

    #[test]
    fn numbers_that_a_new_database_reserves_are_spread_over_the_span() {
        let times = SeqnoTimes::spread(RESERVED, 1000, 3000);
        assert_eq!(times.pairs.len(), 100);
        assert_eq!((times.pairs[0], times.pairs[99]), ((1, 1000), (100, 3000)));
        assert_eq!(times.seqno_before(2000), 50);
    }
}
