//! Moves of cursors that do more than move: those that follow what is written (tailing), those that
//! keep what they showed (`pin_data`), and those that are measured.

use super::cursor::Cursor;
use super::traces::TracedSeek;
use crate::read::{DbIter, Passed, is_merge_failure};
use crate::ttl::{TIME_LEN, too_short};
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_base::{Error, Pinned, Result};

/// A move.
#[derive(Clone, Copy)]
pub(super) enum Move<'a> {
    Seek(&'a [u8]),
    SeekForPrev(&'a [u8]),
    First,
    Last,
    Next,
    Prev,
}

impl Move<'_> {
    fn seeks_key(self) -> bool {
        matches!(self, Move::Seek(_) | Move::SeekForPrev(_))
    }

    fn goes_backward(self) -> bool {
        matches!(self, Move::SeekForPrev(_) | Move::Last | Move::Prev)
    }

    fn make(self, i: &mut DbIter) {
        match self {
            Move::Seek(key) => i.seek(key),
            Move::SeekForPrev(key) => i.seek_for_prev(key),
            Move::First => i.seek_to_first(),
            Move::Last => i.seek_to_last(),
            Move::Next => i.next(),
            Move::Prev => i.prev(),
        }
    }
}

impl Cursor {
    /// The way of all moves that are more than that.
    #[cold]
    #[inline(never)]
    pub(super) fn move_specially(&mut self, to: Move<'_>) -> Result<bool> {
        if self.engine.traced.is_some() || self.engine.tracing.queries.is_on() {
            return self.move_traced(to);
        }
        self.move_untraced(to)
    }

    /// Records a move to a place, and counts the steps after it.
    fn move_traced(&mut self, to: Move<'_>) -> Result<bool> {
        if matches!(to, Move::Next | Move::Prev) {
            if let Some(seek) = &mut self.engine.traced {
                seek.step(to);
            }
            return self.move_untraced(to);
        }
        if let Some(seek) = self.engine.traced.take() {
            seek.end(&self.engine.tracing);
        }
        let clock = self.engine.c.env.clock.clone();
        let (tracing, options) = (&self.engine.tracing, &self.options);
        let seek = TracedSeek::begin(tracing, &*clock, &self.family, options, to);
        let moved = self.move_untraced(to);
        if let Some(mut seek) = seek {
            let entry = self.valid().then(|| self.value().len());
            seek.note_found(&*clock, entry);
            self.engine.traced = Some(seek);
            // Steps come this way, too, so that they are counted.
            self.is_special = true;
        }
        moved
    }

    fn move_untraced(&mut self, to: Move<'_>) -> Result<bool> {
        let observed = self.engine.reporter.is_observed();
        let timed = observed && to.seeks_key();
        let began = timed
            .then(|| self.engine.reporter.timed())
            .flatten()
            .map(|t| t.1);
        let stood = self.iter.as_ref().is_ok_and(DbIter::stands_on_entry);
        let before = self.iter.as_ref().map_or(Passed::default(), |i| i.passed());
        let moved = if self.options.tailing {
            self.tail(to)
        } else {
            let clock = &self.engine.c.env.clock;
            let _cpu = observed.then(|| {
                let counter = match to {
                    Move::Next => PerfCounter::IterNextCpuNanos,
                    Move::Prev => PerfCounter::IterPrevCpuNanos,
                    _ => PerfCounter::IterSeekCpuNanos,
                };
                perf::timer(counter, PerfTime::Cpu, || clock.thread_cpu_nanos())
            });
            let _timer = observed.then(|| {
                let counter = match to {
                    Move::Next | Move::Prev => PerfCounter::FindNextUserEntryTime,
                    _ => PerfCounter::SeekInternalSeekTime,
                };
                perf::timer(counter, PerfTime::Work, || clock.monotonic_nanos())
            });
            let i = self.iter.as_mut().map_err(|e| e.clone())?;
            to.make(i);
            let valid = i.valid();
            i.status().map(|()| valid)
        };
        let moved = match self.family.times {
            Some(_) if moved.is_ok() => self.check_time(),
            _ => moved,
        };
        if self.options.pin_data && self.valid() {
            self.keep();
        }
        if observed {
            self.count(to, stood, before);
            if let Ok(i) = &mut self.iter
                && i.valid()
            {
                i.note_wanted(match to {
                    Move::Seek(key) => Some(key),
                    _ => None,
                });
            }
        }
        if let Some((s, began)) = self.engine.reporter.statistics().zip(began) {
            let took = self.engine.c.env.clock.monotonic_nanos() - began;
            s.record_time(Histogram::DbSeekMicros, took / 1000);
        }
        moved
    }

    /// Refuses an entry whose value is too short for the time it should have; the next move to a place goes on. RocksDB
    /// shows it with a length below zero.
    fn check_time(&mut self) -> Result<bool> {
        let i = self.iter.as_mut().map_err(|e| e.clone())?;
        if i.valid() && i.is_prepared() && i.value().len() < TIME_LEN && !i.has_entity() {
            i.fail(too_short());
        }
        let valid = i.valid();
        i.status().map(|()| valid)
    }

    /// Keeps the entry under the cursor where it is.
    fn keep(&mut self) {
        if let Ok(i) = &self.iter {
            let entry = (Pinned::copy_of(i.key()), i.value_pinned());
            self.kept.push(entry);
        }
    }

    /// Moves a tailing cursor forward, the only way it goes. As in RocksDB a move to a place is over what
    /// there is now. A step goes on from where the streams stand: what is written between the entry and
    /// the next one of the memtable is met once a table ends, or by the next move to a place. When
    /// memtables or tables are others than those of the view, a step finds its way in a view of now.
    fn tail(&mut self, to: Move<'_>) -> Result<bool> {
        let refused = match to {
            Move::Seek(_) | Move::First | Move::Next => None,
            Move::SeekForPrev(_) => Some("ForwardIterator::SeekForPrev()"),
            // RocksDB looks for the last key in front of the bound.
            Move::Last if self.options.upper.is_some() => Some("ForwardIterator::SeekForPrev()"),
            Move::Last => Some("ForwardIterator::SeekToLast()"),
            Move::Prev => Some("ForwardIterator::Prev"),
        };
        if let Some(what) = refused {
            let e = Error::not_supported(what);
            self.iter = Err(e.clone());
            return Err(e);
        }
        if matches!(to, Move::Next) && !self.valid() {
            return self.status().map(|()| false);
        }
        let mut last = None;
        let follows = |i: &mut DbIter| self.engine.bring_up_to_date(&self.family, i);
        if !self.iter.as_mut().is_ok_and(follows) {
            last = Some(self.key().to_vec());
            self.iter = self.engine.iterate(&self.family, &self.options);
        }
        let i = self.iter.as_mut().map_err(|e| e.clone())?;
        match (to, last) {
            (Move::Next, Some(last)) => {
                i.seek(&last);
                if i.valid() && i.key() == last {
                    i.next();
                }
            }
            (Move::Next, None) => i.next_following(),
            _ => to.make(i),
        }
        let moved = i.valid();
        i.status().map(|()| moved)
    }

    /// Counts a move as RocksDB does; `stood` says whether there was an entry for it
    /// to leave.
    fn count(&self, to: Move<'_>, stood: bool, before: Passed) {
        let Ok(iter) = &self.iter else {
            return;
        };
        let (counter, [moved, found]) = match to {
            Move::Next => (
                PerfCounter::IterNextCount,
                [Ticker::NumberDbNext, Ticker::NumberDbNextFound],
            ),
            Move::Prev => (
                PerfCounter::IterPrevCount,
                [Ticker::NumberDbPrev, Ticker::NumberDbPrevFound],
            ),
            _ => (
                PerfCounter::IterSeekCount,
                [Ticker::NumberDbSeek, Ticker::NumberDbSeekFound],
            ),
        };
        perf::add(counter, 1);
        if to.seeks_key() {
            let (all, memtables) = iter.sources();
            // A single stream is not merged.
            if all > 1 {
                perf::add(PerfCounter::SeekChildSeekCount, all as u64);
            }
            perf::add(PerfCounter::SeekOnMemtableCount, memtables as u64);
        }
        let now = iter.passed();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let hidden = since(now.hidden, before.hidden);
        let deletions = since(now.deletions, before.deletions);
        let newer = since(now.newer, before.newer);
        let reseeks = since(now.reseeks, before.reseeks);
        let (all, memtables) = iter.sources();
        if all > 1 {
            perf::add(PerfCounter::SeekChildSeekCount, reseeks * all as u64);
        }
        perf::add(PerfCounter::SeekOnMemtableCount, reseeks * memtables as u64);
        let seeks = reseeks + u64::from(to.seeks_key());
        if seeks > 0 && perf::is_on() {
            let comparisons = seeks * iter.search_steps();
            perf::add(PerfCounter::UserKeyComparisonCount, comparisons);
        }
        // RocksDB seeks among versions of a key twice, and counts neither the entry it comes from nor the
        // one it comes to.
        let hidden_shown = match to.goes_backward() {
            true => hidden.saturating_sub(2 * reseeks),
            false => hidden,
        };
        let left = u64::from(matches!(to, Move::Next) && stood);
        for (counter, n) in [
            (PerfCounter::InternalKeySkippedCount, hidden_shown + left),
            (PerfCounter::InternalDeleteSkippedCount, deletions),
            (PerfCounter::InternalRecentSkippedCount, newer),
            (
                PerfCounter::InternalMergeCount,
                since(now.operands, before.operands),
            ),
        ] {
            perf::add(counter, n);
        }
        let Some(s) = self.engine.reporter.statistics() else {
            return;
        };
        s.add(moved, 1);
        let converted = since(now.converted, before.converted);
        let unconverted = since(now.unconverted, before.unconverted);
        s.add(Ticker::ReadPathRangeTombstonesInserted, converted);
        s.add(Ticker::ReadPathRangeTombstonesDiscarded, unconverted);
        let skipped = if to.goes_backward() {
            hidden.saturating_sub(u64::from(iter.valid()) + reseeks)
        } else {
            hidden + deletions + newer
        };
        s.add(Ticker::NumberIterSkip, skipped);
        s.add(Ticker::NumberReseeksIteration, reseeks);
        if iter.status().is_err_and(|e| is_merge_failure(&e)) {
            s.add(Ticker::NumberMergeFailures, 1);
        }
        // At most one value was made on the way to the entry: what is deleted has none.
        if now.merges > before.merges {
            let operands = since(now.operands, before.operands);
            s.record(Histogram::ReadNumMergeOperands, operands);
        }
        if iter.valid() {
            let bytes = (iter.key().len() + iter.value().len()) as u64;
            s.add(found, 1);
            s.add(Ticker::DbIterBytesRead, bytes);
            perf::add(PerfCounter::IterReadBytes, bytes);
        }
    }
}
