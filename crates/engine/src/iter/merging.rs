//! Merges sorted streams of internal keys into one.
//!
//! A binary heap of children with the runner-up cached: as long as the winner stays before it, a
//! step costs one comparison, so a long run from one table costs one comparison per entry. Each
//! child caches the eight-byte prefix of its user key, which decides most comparisons.
//!
//! Equal internal keys (replayed logs only) come from the child with the lower index first: callers
//! list newer places first.

use super::{Coverage, Source};
use crate::version::FileMeta;
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::{Comparator, Error, Pinned, Result, keys};
use spanlith_env::Clock;
use spanlith_table::{PrefixSeek, ReadParams};
use std::cmp::Ordering;
use std::sync::Arc;

struct Child {
    source: Source,
    prefix: u64,
    /// Left out since a filter said that it holds nothing of what is sought.
    left_out: bool,
}

impl Child {
    /// Moves the stream, measured if there is a clock, and has it take part.
    #[inline]
    fn go(&mut self, clock: Option<&dyn Clock>, go: &mut impl FnMut(&mut Source)) {
        match clock {
            None => go(&mut self.source),
            Some(clock) => timed(clock, &mut self.source, go),
        }
        self.left_out = false;
    }
}

/// Describes what brings the children left out back: an entry that has another prefix than the one sought.
struct Awaited {
    extractor: SliceTransform,
    prefix: Vec<u8>,
    /// Internal key of the seek.
    key: Vec<u8>,
}

/// Moves a child, measured.
#[cold]
fn timed(clock: &dyn Clock, source: &mut Source, go: &mut impl FnMut(&mut Source)) {
    let timer = |counter| perf::timer(counter, PerfTime::Work, || clock.monotonic_nanos());
    let _child = timer(PerfCounter::SeekChildSeekTime);
    let is_memtable = matches!(source, Source::Mem(_));
    let _memtable = is_memtable.then(|| timer(PerfCounter::SeekOnMemtableTime));
    go(source);
}

/// The merged stream.
pub struct MergingIter {
    comparator: Comparator,
    children: Vec<Child>,
    /// Indices of valid children; heap order by `before`.
    heap: Vec<u32>,
    /// Heap position (1 or 2) of the runner-up; 0 if the heap holds one child.
    second: usize,
    forward: bool,
    /// A step forward has more to do than to step: it turns, or children left out may come back.
    is_odd: bool,
    awaited: Option<Box<Awaited>>,
    error: Option<Error>,
    /// A step took another child than the first to its end, since this was last reset.
    has_ended: bool,
    /// Measures seeks, if they may be measured.
    clock: Option<Arc<dyn Clock>>,
    /// Memtables are found by prefix alone: neither their first entry nor their last.
    is_hashed: bool,
}

impl MergingIter {
    /// Merges `sources`, newer places first.
    pub fn new(comparator: Comparator, sources: Vec<Source>) -> Self {
        let mut this = Self::with_capacity(comparator, sources.len());
        sources.into_iter().for_each(|source| this.push(source));
        this
    }

    /// Merges nothing yet; has room for so many sources.
    pub fn with_capacity(comparator: Comparator, sources: usize) -> Self {
        Self {
            comparator,
            children: Vec::with_capacity(sources),
            heap: Vec::new(),
            second: 0,
            forward: true,
            is_odd: false,
            awaited: None,
            error: None,
            has_ended: false,
            clock: None,
            is_hashed: false,
        }
    }

    /// Seeks that the perf context of their thread wants to know the times of are measured by `clock`.
    pub fn time_by(&mut self, clock: &Arc<dyn Clock>) {
        self.clock = Some(clock.clone());
    }

    /// The clock if times are wanted.
    #[inline]
    fn wanted_clock(&self) -> Option<Arc<dyn Clock>> {
        match perf::is_timed(PerfTime::Work) {
            true => self.clock.clone(),
            false => None,
        }
    }

    /// Adds a source, of an older place than those added before. Stands nowhere until it is
    /// positioned.
    #[inline]
    pub fn push(&mut self, source: Source) {
        self.children.push(Child {
            source,
            prefix: 0,
            left_out: false,
        });
    }

    /// Returns whether child `a` comes before child `b` in the current direction.
    #[inline]
    fn before(&self, a: u32, b: u32) -> bool {
        perf::add(PerfCounter::UserKeyComparisonCount, 1);
        let (x, y) = (&self.children[a as usize], &self.children[b as usize]);
        if x.prefix != y.prefix {
            return (x.prefix < y.prefix) == self.forward;
        }
        match self
            .comparator
            .compare_internal(x.source.key(), y.source.key())
        {
            Ordering::Equal => a < b,
            o => (o == Ordering::Less) == self.forward,
        }
    }

    #[inline]
    fn refresh_prefix(&mut self, child: usize) {
        let c = &mut self.children[child];
        c.prefix = self.comparator.prefix(keys::user_key(c.source.key()));
    }

    fn sift_down(&mut self, mut at: usize) {
        let n = self.heap.len();
        loop {
            let mut least = 2 * at + 1;
            if least >= n {
                break;
            }
            if least + 1 < n && self.before(self.heap[least + 1], self.heap[least]) {
                least += 1;
            }
            if !self.before(self.heap[least], self.heap[at]) {
                break;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    #[inline]
    fn find_second(&mut self) {
        self.second = match self.heap.len() {
            0 | 1 => 0,
            2 => 1,
            _ => 1 + usize::from(self.before(self.heap[2], self.heap[1])),
        };
    }

    /// Rebuilds the heap after all children moved.
    fn rebuild(&mut self) {
        self.heap.clear();
        self.heap.reserve(self.children.len());
        self.error = None;
        for i in 0..self.children.len() {
            if self.children[i].left_out {
                continue;
            }
            if self.children[i].source.valid() {
                self.refresh_prefix(i);
                self.heap.push(i as u32);
            } else if let Err(e) = self.children[i].source.status() {
                self.error = Some(e);
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        self.find_second();
    }

    /// Restores the heap after its top child moved, to an entry or off its end.
    #[inline(always)]
    fn top_moved(&mut self, top: usize, is_valid: bool) {
        if is_valid {
            if self.second == 0 {
                // Alone: nothing compares its prefix before `rebuild` refreshes it.
                return;
            }
            self.refresh_prefix(top);
            if !self.before(self.heap[self.second], self.heap[0]) {
                return;
            }
            self.sift_down(0);
            self.find_second();
        } else {
            self.top_ended(top);
        }
    }

    /// Takes the top child, which has no more entries, out of the heap.
    #[cold]
    fn top_ended(&mut self, top: usize) {
        if let Err(e) = self.children[top].source.status() {
            self.error = Some(e);
        }
        self.has_ended |= top != 0;
        self.heap.swap_remove(0);
        if !self.heap.is_empty() {
            self.sift_down(0);
        }
        self.find_second();
    }

    /// Returns whether it stands on an entry. False after an error of any child.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.heap.is_empty() && self.error.is_none()
    }

    /// Tells the table that the entry comes from that somebody wants it.
    #[cold]
    pub fn note_wanted(&mut self, prefix: Option<PrefixSeek<'_>>) {
        if let Some(&top) = self.heap.first() {
            self.children[top as usize].source.note_wanted(prefix);
        }
    }

    /// The file that the entry comes from, if that lies in a level below level 0.
    pub fn top_file(&self) -> Option<&FileMeta> {
        match &self.children[*self.heap.first()? as usize].source {
            Source::Level(level) => level.current_file(),
            _ => None,
        }
    }

    #[inline]
    fn top(&self) -> &Source {
        &self.children[self.heap[0] as usize].source
    }

    /// Internal key. Requires: `valid`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.top().key()
    }

    /// Internal key; `None` if it stands on no entry.
    #[inline(always)]
    pub fn current_key(&self) -> Option<&[u8]> {
        let &top = self.heap.first()?;
        match self.error {
            None => Some(self.children[top as usize].source.key()),
            Some(_) => None,
        }
    }

    /// Internal key and value. Requires: `valid`.
    #[inline]
    pub fn entry(&self) -> (&[u8], &[u8]) {
        self.top().entry()
    }

    /// Value. Requires: `valid`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.top().value()
    }

    /// Tells tables of a user key after which nobody wants entries.
    pub fn bound(&mut self, upper: &[u8]) {
        let upper = Arc::from(upper);
        self.children
            .iter_mut()
            .for_each(|c| c.source.bound(&upper));
    }

    /// Returns whether it is known that the entry lies before the bound. Requires: `valid`.
    #[inline]
    pub fn is_within(&self) -> bool {
        self.top().is_within()
    }

    /// Index of the stream that holds the current entry, in the order they were given. Requires:
    /// `valid`.
    #[inline]
    pub fn top_index(&self) -> usize {
        self.heap[0] as usize
    }

    /// Moves the stream of the current entry to its first entry at or after `key`, and stands on the
    /// first entry of all. Requires: `valid`, and `key` not before the current entry.
    pub fn seek_top(&mut self, key: &[u8]) {
        if !self.forward {
            self.turn(true);
        }
        let top = self.top_index();
        self.children[top].source.seek(key);
        self.top_moved(top, self.children[top].source.valid());
        self.bring_back();
        self.check_place(top, key);
    }

    /// Moves the stream of the current entry to its last entry at or before `key`, and stands on
    /// the last entry of all. Requires: `valid`, and `key` not after the current entry.
    pub fn seek_top_for_prev(&mut self, key: &[u8]) {
        if self.forward {
            self.turn(false);
        }
        let top = self.top_index();
        self.children[top].source.seek_for_prev(key);
        self.top_moved(top, self.children[top].source.valid());
        self.check_place(top, key);
    }

    /// How many streams are merged, and how many of them are memtables.
    pub fn sources(&self) -> (usize, usize) {
        let of_memory = |c: &&Child| matches!(c.source, Source::Mem(_));
        (
            self.children.len(),
            self.children.iter().filter(of_memory).count(),
        )
    }

    /// About how many keys all memtables together compare for one seek.
    pub fn search_steps(&self) -> u64 {
        let steps = |c: &Child| match &c.source {
            Source::Mem(i) => i.search_steps(),
            _ => 0,
        };
        self.children.iter().map(steps).sum()
    }

    /// As [`Self::next`], with a first stream that grows: a step that takes another one to its end looks
    /// for the first one's place again. Requires: `valid`, and going forward.
    pub fn next_following(&mut self) {
        let left = self.key().to_vec();
        self.has_ended = false;
        self.next();
        if self.has_ended
            && let Some(first) = self.children.first_mut()
        {
            first.source.seek(&left);
            self.rebuild();
            self.bring_back();
        }
    }

    /// Value that outlives the position.
    pub fn value_pinned(&self) -> Pinned {
        self.top().value_pinned()
    }

    /// Value shared with its block; `None` in a memtable.
    pub fn value_shared(&self) -> Option<Pinned> {
        self.top().value_shared()
    }

    /// Next entry. Requires: `valid`.
    #[inline]
    pub fn next(&mut self) {
        self.next_inlined();
    }

    /// As [`Self::next`], for the one place of a loop that most entries pass.
    #[inline(always)]
    pub fn next_inlined(&mut self) {
        if self.is_odd {
            return self.next_odd();
        }
        let top = self.heap[0] as usize;
        let is_valid = self.children[top].source.next();
        self.top_moved(top, is_valid);
    }

    #[cold]
    fn next_odd(&mut self) {
        if !self.forward {
            self.turn(true);
        }
        let top = self.heap[0] as usize;
        let is_valid = self.children[top].source.next();
        self.top_moved(top, is_valid);
        self.bring_back();
    }

    /// Brings the children left out back, if they are awaited and the prefix sought is behind.
    fn bring_back(&mut self) {
        let Some(awaited) = &self.awaited else {
            return;
        };
        if self.error.is_some() {
            return;
        }
        if let Some(&top) = self.heap.first() {
            let key = keys::user_key(self.children[top as usize].source.key());
            if awaited.extractor.prefix(key) == Some(&awaited.prefix[..]) {
                return;
            }
        }
        for c in self.children.iter_mut().filter(|c| c.left_out) {
            c.source.seek(&awaited.key);
            c.left_out = false;
        }
        self.awaited = None;
        self.is_odd = !self.forward;
        self.rebuild();
    }

    /// Entry before. Requires: `valid`.
    #[inline]
    pub fn prev(&mut self) {
        if self.forward {
            self.turn(false);
        }
        let top = self.heap[0] as usize;
        self.children[top].source.prev();
        self.top_moved(top, self.children[top].source.valid());
    }

    /// Changes direction, keeping the position: every other child moves to the other side of it.
    #[cold]
    fn turn(&mut self, forward: bool) {
        let top = self.heap[0] as usize;
        let key = self.top().key().to_vec();
        for i in (0..self.children.len()).filter(|&i| i != top) {
            self.children[i].left_out = false;
            let s = &mut self.children[i].source;
            if forward {
                s.seek(&key);
                if s.valid() && s.key() == key {
                    s.next();
                }
            } else {
                s.seek_for_prev(&key);
                if s.valid() && s.key() == key {
                    s.prev();
                }
            }
        }
        self.set_direction(forward);
        self.rebuild();
    }

    /// Every child takes part, in this direction.
    fn set_direction(&mut self, forward: bool) {
        self.forward = forward;
        self.is_odd = !forward;
        self.awaited = None;
    }

    fn move_all(&mut self, forward: bool, mut go: impl FnMut(&mut Source)) {
        let clock = self.wanted_clock();
        for c in &mut self.children {
            c.go(clock.as_deref(), &mut go);
        }
        self.all_moved(forward, clock.as_deref());
    }

    /// All children stand where they are to begin.
    fn all_moved(&mut self, forward: bool, clock: Option<&dyn Clock>) {
        self.set_direction(forward);
        let heap = match forward {
            true => PerfCounter::SeekMinHeapTime,
            false => PerfCounter::SeekMaxHeapTime,
        };
        let _timer =
            clock.map(|clock| perf::timer(heap, PerfTime::Work, || clock.monotonic_nanos()));
        self.rebuild();
    }

    /// As [`Self::seek`]; streams begin after what newer places delete from `key` on, as `coverage` says.
    ///
    /// # Errors
    /// Of a table that has to be opened; then nothing has moved.
    pub fn seek_over(&mut self, key: &[u8], coverage: &mut Coverage) -> Result<()> {
        let clock = self.wanted_clock();
        let (user_key, seqno) = (keys::user_key(key), keys::tag_sequence(keys::tag(key)));
        let children = &mut self.children;
        coverage.begin_at(children.len(), user_key, seqno, |child, moved| {
            perf::add(
                PerfCounter::InternalRangeDelReseekCount,
                moved.is_some().into(),
            );
            let target = moved.unwrap_or(key);
            children[child].go(clock.as_deref(), &mut |source| source.seek(target));
        })?;
        self.all_moved(true, clock.as_deref());
        Ok(())
    }

    /// As [`Self::seek`]; streams older than that of index `newer`, which deletes all of theirs from `key` on up
    /// to `end`, begin there.
    pub fn seek_older_to(&mut self, key: &[u8], newer: usize, end: &[u8]) {
        let clock = self.wanted_clock();
        for (child, c) in self.children.iter_mut().enumerate() {
            let is_older = child > newer;
            perf::add(PerfCounter::InternalRangeDelReseekCount, is_older.into());
            let target = if is_older { end } else { key };
            c.go(clock.as_deref(), &mut |source| source.seek(target));
        }
        self.all_moved(true, clock.as_deref());
    }

    /// First entry at or after the internal key.
    pub fn seek(&mut self, key: &[u8]) {
        self.move_all(true, |s| s.seek(key));
    }

    /// [`Self::seek`] of one that is on its way: an error if it finds an entry before `key`. In a table
    /// whose keys are out of order a search that is repeated until it has passed an entry might never.
    pub fn reseek(&mut self, key: &[u8]) {
        self.seek(key);
        if let Some(&top) = self.heap.first() {
            self.check_place(top as usize, key);
        }
    }

    /// As [`Self::reseek`], backward.
    pub fn reseek_for_prev(&mut self, key: &[u8]) {
        self.seek_for_prev(key);
        if let Some(&top) = self.heap.first() {
            self.check_place(top as usize, key);
        }
    }

    fn check_place(&mut self, child: usize, key: &[u8]) {
        let source = &self.children[child].source;
        if self.error.is_some() || !source.valid() {
            return;
        }
        let wrong = match self.forward {
            true => Ordering::Less,
            false => Ordering::Greater,
        };
        if self.comparator.compare_internal(source.key(), key) == wrong {
            let e = Error::corruption("keys are not in their order");
            self.error = Some(match source.path() {
                Some(path) => e.with_path(path),
                None => e,
            });
        }
    }

    /// First entry at or after the internal key. Children whose filter says that they hold nothing
    /// with the prefix of `prefix.key` are left out: for good, or, with an extractor, until there is
    /// no more entry with the prefix it finds. That needs an order in which all keys with a prefix lie
    /// together.
    pub fn seek_prefix(
        &mut self,
        key: &[u8],
        prefix: PrefixSeek<'_>,
        params: &ReadParams,
        comes_back: Option<&SliceTransform>,
    ) {
        self.set_direction(true);
        let mut leaves_out = false;
        let clock = self.wanted_clock();
        for c in &mut self.children {
            let mut takes_part = false;
            let mut go = |s: &mut Source| takes_part = s.seek_prefix(key, prefix, params);
            match &clock {
                None => go(&mut c.source),
                Some(clock) => timed(&**clock, &mut c.source, &mut go),
            }
            c.left_out = !takes_part;
            leaves_out |= c.left_out;
        }
        self.rebuild();
        if leaves_out
            && let Some(extractor) = comes_back
            && let Some(own) = extractor.prefix(prefix.key)
        {
            self.awaited = Some(Box::new(Awaited {
                extractor: extractor.clone(),
                prefix: own.to_vec(),
                key: key.to_vec(),
            }));
            self.is_odd = true;
            self.bring_back();
        }
    }

    /// Last entry at or before the internal key.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        self.move_all(false, |s| s.seek_for_prev(key));
    }

    /// First entry.
    pub fn seek_to_first(&mut self) {
        match self.is_hashed {
            true => self.move_all(true, |source| source.leave_memory_or(Source::seek_to_first)),
            false => self.move_all(true, Source::seek_to_first),
        }
    }

    /// Last entry.
    pub fn seek_to_last(&mut self) {
        match self.is_hashed {
            true => self.move_all(false, |source| source.leave_memory_or(Source::seek_to_last)),
            false => self.move_all(false, Source::seek_to_last),
        }
    }

    /// From the ends of the order only tables are met, as with RocksDB's memtables that hash prefixes.
    pub fn hash_memtables(&mut self) {
        self.is_hashed = true;
    }

    /// The error that made it invalid.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }
}
