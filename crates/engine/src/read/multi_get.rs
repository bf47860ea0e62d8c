//! Many point reads at one consistent point.
//!
//! Keys are sorted and go through the places in batches of [`BATCH`], as in RocksDB: all keys of a
//! batch through one memtable, then through one file of a level, before the next. So a file's filter
//! is asked for its keys in one pass, and index partitions and blocks that neighbours share are fetched
//! once. A key leaves the batch as soon as its answer is known; what follows from the answers is the
//! same as for single gets. The answers come back in the caller's order.
//!
//! Used by any thread; takes no lock.

use super::get::{Lookup, ReadContext};
use super::observed::{Observer, is_merge_failure};
use super::sampled::Sample;
use crate::core::SuperVersion;
use crate::version::{FileMeta, Level, RowCache, RowPlace, RowWriter};
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_base::{Comparator, Error, ErrorKind, Pinned, Result, SequenceNumber};
use spanlith_memtable::{EntryRef, MemTable};
use spanlith_table::{TableGet, TableReader, ThreadReads, reads_of_thread};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Keys that go through the places together; RocksDB's number, which the soft limit makes visible.
const BATCH: usize = 32;

/// The answer for one key.
pub(crate) type Answer = Result<Option<Pinned>>;

/// Takes the answers, each with the place of its key, in no order.
pub(crate) type Sink<'a> = dyn FnMut(usize, Answer) + 'a;

/// Describes what became of a call.
pub(crate) struct Outcome {
    /// Keys with a value.
    pub found: u64,
    /// Bytes of the values.
    pub value_bytes: u64,
    /// Why it stopped early, which is then the answer of all later keys.
    pub stopped: Result<()>,
}

/// When a multi-get gives up.
pub(crate) struct BatchLimits<'a> {
    /// Bytes of values after which keys that have no answer yet get `Operation aborted`.
    pub value_bytes: u64,
    /// Asked before each batch; an error is the answer of all keys from there on.
    pub proceed: &'a dyn Fn() -> Result<()>,
    /// Says who measures, if anybody does.
    pub observer: Option<Observer<'a>>,
}

/// A set of a batch's keys, by bit.
type Keys = u32;

/// The keys of a range.
fn between(range: &Range<usize>) -> Keys {
    let below = |n: usize| ((1u64 << n) - 1) as Keys;
    below(range.end) & !below(range.start)
}

/// The numbers of the keys, in order.
fn each(mut keys: Keys) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (keys != 0).then(|| {
            let n = keys.trailing_zeros() as usize;
            keys &= keys - 1;
            n
        })
    })
}

/// Describes what stays the same for all keys of a call.
#[derive(Clone, Copy)]
struct Scope<'a> {
    sv: &'a SuperVersion,
    snapshot: SequenceNumber,
    ctx: &'a ReadContext<'a>,
    observer: Option<&'a Observer<'a>>,
}

/// The batch under way; `Run` is used for one after the other.
struct Run<'k, 'a, 'o> {
    scope: Scope<'a>,
    /// In order; arrays instead of lists, because they are too large for an allocator's fast path.
    lookups: [Lookup<'k>; BATCH],
    /// Keys of the batch.
    len: usize,
    /// The level that is asked.
    level: usize,
    /// A table with range tombstones was visited.
    met_ranges: bool,
    /// Words and places of the batch's keys among the caller's.
    batch: &'o [(u64, u32)],
    /// Keys without an answer yet.
    open: Keys,
    /// Keys whose values lie in blob files, with the blob indexes: they are read together.
    blobs: Vec<(usize, Pinned)>,
    /// As `lookups`, for tables; filled before the first.
    gets: [TableGet<'k>; BATCH],
    sink: &'o mut Sink<'a>,
    found: u64,
    value_bytes: u64,
    value_bytes_max: u64,
    /// There is such a limit: as in RocksDB, a key under a range tombstone then has its answer only where an
    /// entry of it is found, or after all places, so that it may be among those that the limit leaves out.
    waits: bool,
    /// Where reads are counted: tables of the level `level_read` that were read from, and levels so far.
    tables_read: u64,
    /// Blocks of indexes and filters of that level that were read.
    metadata_read: u64,
    level_read: usize,
    levels_read: u64,
}

impl SuperVersion {
    /// Gives one answer per key.
    pub(crate) fn multi_get<'a>(
        &'a self,
        keys: &[&[u8]],
        snapshot: SequenceNumber,
        ctx: &'a ReadContext<'a>,
        limits: &'a BatchLimits<'a>,
        sink: &mut Sink<'a>,
    ) -> Outcome {
        let order = sorted(ctx.comparator, keys);
        let mut run = Run {
            scope: Scope {
                sv: self,
                snapshot,
                ctx,
                observer: limits.observer.as_ref(),
            },
            lookups: [const { Lookup::NONE }; BATCH],
            len: 0,
            level: 0,
            met_ranges: false,
            batch: &[],
            open: 0,
            blobs: Vec::new(),
            gets: [const { TableGet::NONE }; BATCH],
            sink: &mut *sink,
            found: 0,
            value_bytes: 0,
            value_bytes_max: limits.value_bytes,
            waits: limits.value_bytes != u64::MAX,
            tables_read: 0,
            metadata_read: 0,
            level_read: 0,
            levels_read: 0,
        };
        let mut rest = &order[..];
        let mut stopped = Ok(());
        while !rest.is_empty() && stopped.is_ok() {
            let (batch, behind) = rest.split_at(rest.len().min(BATCH));
            stopped = (limits.proceed)();
            if stopped.is_ok() {
                rest = behind;
                stopped = run.batch(keys, batch);
            }
        }
        let (found, value_bytes) = (run.found, run.value_bytes);
        if let Err(e) = &stopped {
            for &(_, place) in rest {
                sink(place as usize, Err(e.clone()));
            }
        }
        Outcome {
            found,
            value_bytes,
            stopped,
        }
    }
}

/// The keys' places in their order, each with a word that decides most comparisons.
fn sorted(comparator: &Comparator, keys: &[&[u8]]) -> Vec<(u64, u32)> {
    // In the orders by bytes, bytes that all keys share decide nothing.
    let skip = match (comparator, keys) {
        (Comparator::User(_), _) | (_, []) => 0,
        (_, [first, others @ ..]) => others.iter().fold(first.len(), |skip, key| {
            if key.get(..skip) == Some(&first[..skip]) {
                return skip;
            }
            first.iter().zip(*key).take_while(|(a, b)| a == b).count()
        }),
    };
    let mut order: Vec<(u64, u32)> = (0u32..)
        .zip(keys)
        .map(|(place, key)| (comparator.prefix(&key[skip..]), place))
        .collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0)
            .then_with(|| comparator.compare(keys[a.1 as usize], keys[b.1 as usize]))
    });
    order
}

/// The error of keys that the limit of bytes left without an answer.
#[cold]
fn aborted() -> Error {
    Error::new(ErrorKind::Aborted, "")
}

impl<'k, 'a, 'o> Run<'k, 'a, 'o> {
    /// Takes some keys, in order, through all places.
    ///
    /// # Errors
    /// `Aborted` once the values are too large; the keys of the batch have their answers then, too.
    fn batch(&mut self, keys: &[&'k [u8]], batch: &'o [(u64, u32)]) -> Result<()> {
        let Scope { snapshot, ctx, .. } = self.scope;
        (self.batch, self.len) = (batch, batch.len());
        for (lookup, &(_, place)) in self.lookups.iter_mut().zip(batch) {
            *lookup = Lookup::new(keys[place as usize], snapshot, ctx.ignore_ranges);
        }
        self.open = between(&(0..batch.len()));
        let mut visited = self.visit_places();
        if let Some(observer) = self.scope.observer {
            self.count_levels(observer);
        }
        // A key that no place decided is absent, or has operands without a base.
        for n in each(self.open) {
            if visited.is_err() {
                self.answer(n, Err(aborted()));
            } else {
                self.finish(n);
                if self.waits {
                    visited = self.check_size();
                }
            }
        }
        if !self.blobs.is_empty() {
            self.read_blobs();
        }
        visited
    }

    fn visit_places(&mut self) -> Result<()> {
        let sv = self.scope.sv;
        for mem in std::iter::once(&sv.mem).chain(&sv.imm) {
            if !mem.is_empty() && self.open != 0 {
                self.visit_memtable(mem)?;
            }
        }
        if let Some(observer) = self.scope.observer {
            observer.add(Ticker::MemtableMiss, self.open.count_ones().into());
        }
        for n in each(self.open) {
            let key = self.key(n);
            let get = &mut self.gets[n];
            (get.user_key, get.hash) = (key, TableReader::filter_hash(key));
        }
        for &(n, ref level) in sv.version.occupied() {
            if self.open == 0 {
                break;
            }
            self.level = n;
            if n == 0 {
                self.visit_overlapping(level)?;
            } else {
                self.visit_disjoint(level)?;
                self.end_place(self.open)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn key(&self, n: usize) -> &'k [u8] {
        self.lookups[n].key()
    }

    /// Notes the answer of a key.
    fn answer(&mut self, n: usize, answer: Answer) {
        self.open &= !(1 << n);
        (self.sink)(self.batch[n].1 as usize, answer);
    }

    /// Makes the answer of what was found of a key.
    fn finish(&mut self, n: usize) {
        let Scope { sv, ctx, .. } = self.scope;
        if let Some(observer) = self.scope.observer {
            observer.met_operands(self.lookups[n].operands());
        }
        if !self.waits
            && let Some(index) = self.lookups[n].take_blob_index()
        {
            // The answer comes with those of the other keys in blob files.
            self.open &= !(1 << n);
            self.blobs.push((n, index));
            return;
        }
        let answer = self.lookups[n].take_value(ctx, &sv.version);
        self.count_and_answer(n, answer);
    }

    #[inline]
    fn count_and_answer(&mut self, n: usize, answer: Answer) {
        match &answer {
            Ok(Some(value)) => {
                self.found += 1;
                self.value_bytes += value.len() as u64;
            }
            Ok(None) => {}
            Err(e) => self.count_failure(e),
        }
        self.answer(n, answer);
    }

    /// Reads the values that lie in blob files.
    #[cold]
    fn read_blobs(&mut self) {
        let Scope { sv, ctx, .. } = self.scope;
        let blobs = std::mem::take(&mut self.blobs);
        let entries: Vec<(&[u8], &[u8])> = blobs
            .iter()
            .map(|(n, index)| (self.key(*n), &index[..]))
            .collect();
        let of = ctx.blobs(&sv.version);
        let values = of.source.resolve_many(of.version, &entries, of.how);
        for ((n, _), value) in blobs.iter().zip(values) {
            self.count_and_answer(*n, value.map(Some));
        }
    }

    /// Counts what was read of a table of the present level, the reads before being `before`. As in RocksDB a table of
    /// level 0 is a level of its own.
    #[cold]
    fn count_table(&mut self, observer: &Observer<'_>, before: ThreadReads) {
        if self.level == 0 || self.level_read != self.level {
            self.count_tables(observer);
        }
        let now = reads_of_thread();
        self.level_read = self.level;
        self.metadata_read += now.of_metadata - before.of_metadata;
        self.tables_read += u64::from(now.of_data() != before.of_data());
    }

    /// Counts what was read of a level, if anything was.
    fn count_tables(&mut self, observer: &Observer<'_>) {
        if self.metadata_read != 0 {
            let blocks = std::mem::take(&mut self.metadata_read);
            observer.record(Histogram::NumIndexAndFilterBlocksReadPerLevel, blocks);
        }
        if self.tables_read != 0 {
            observer.record(Histogram::NumSstReadPerLevel, self.tables_read);
            self.tables_read = 0;
            self.levels_read += 1;
        }
    }

    /// Counts the levels of a batch that were read from.
    #[cold]
    fn count_levels(&mut self, observer: &Observer<'_>) {
        self.count_tables(observer);
        if self.levels_read != 0 {
            let levels = std::mem::take(&mut self.levels_read);
            observer.record(Histogram::NumLevelReadPerMultiget, levels);
        }
    }

    #[cold]
    fn count_failure(&self, e: &Error) {
        if let Some(observer) = self.scope.observer.filter(|_| is_merge_failure(e)) {
            observer.add(Ticker::NumberMergeFailures, 1);
        }
    }

    /// Makes the answers of those keys that need no older place.
    ///
    /// # Errors
    /// `Aborted` as soon as the values are too large.
    #[inline]
    fn finish_done(&mut self, keys: Keys) -> Result<()> {
        for n in each(keys & self.open) {
            if self.lookups[n].done() {
                self.finish(n);
                self.check_size()?;
            }
        }
        Ok(())
    }

    #[inline]
    fn check_size(&self) -> Result<()> {
        if self.value_bytes > self.value_bytes_max {
            return Err(aborted());
        }
        Ok(())
    }

    fn visit_memtable(&mut self, mem: &Arc<MemTable>) -> Result<()> {
        let open = self.open;
        let ranges = mem.range_tombstones();
        let mut keys: [&[u8]; BATCH] = [&[]; BATCH];
        let mut found: [Option<EntryRef<'_>>; BATCH] = [const { None }; BATCH];
        let mut len = 0;
        for n in each(open) {
            keys[len] = self.key(n);
            len += 1;
        }
        if mem.is_guarded() {
            for key in &keys[..len] {
                mem.check_search(key, self.scope.snapshot)?;
            }
        }
        mem.find_many(&keys[..len], self.scope.snapshot, &mut found);
        let mut decided: Keys = 0;
        for (n, entry) in each(open).zip(found) {
            let lookup = &mut self.lookups[n];
            if let Some(list) = &ranges {
                lookup.note_ranges(list);
            }
            match lookup.visit_entries(entry, mem) {
                Ok(true) => decided |= 1 << n,
                Ok(false) if !self.waits => lookup.end_place(),
                Ok(false) => {}
                Err(e) => self.answer(n, Err(e)),
            }
        }
        if let Some(observer) = self.scope.observer {
            observer.looked_into(mem, each(open).map(|n| mem.may_hold_key(self.key(n))));
            let done = each(open & self.open).filter(|&n| self.lookups[n].done());
            let (done, hits) = (done.count() as u64, u64::from(decided.count_ones()));
            observer.add(Ticker::MemtableHit, hits);
            // As in RocksDB a range tombstone does not answer by itself.
            observer.add(Ticker::MemtableMiss, done.saturating_sub(hits));
        }
        self.finish_done(open)
    }

    /// The end of the run of keys, from `from` on, that do not lie after a file.
    fn end_within(&self, level: &Level, at: usize, from: usize) -> usize {
        // By growing steps: mostly either one or all keys lie there.
        let keys = &self.lookups[from..self.len];
        let within = |lookup: &Lookup<'_>| !level.ends_before(at, lookup.key());
        let (mut low, mut step) = (0, 1);
        while low + step <= keys.len() && within(&keys[low + step - 1]) {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(keys.len());
        from + low + keys[low..high].partition_point(within)
    }

    /// The first of a range of keys that does not lie before a file.
    fn begin_within(&self, level: &Level, at: usize, keys: Range<usize>) -> usize {
        let before = |lookup: &Lookup<'_>| level.begins_behind(at, lookup.key());
        keys.start + self.lookups[keys].partition_point(before)
    }

    /// Level 0: each file, newest first, gets the keys in its range.
    fn visit_overlapping(&mut self, level: &Level) -> Result<()> {
        if self.scope.observer.is_some() && self.scope.sv.asks_all_files() {
            return level.files.iter().try_for_each(|file| {
                let keys = self.open;
                self.visit_file(keys, file)?;
                self.end_place(keys)
            });
        }
        for (at, file) in level.files.iter().enumerate() {
            let begin = self.begin_within(level, at, 0..self.len);
            let end = self.end_within(level, at, begin);
            let keys = between(&(begin..end)) & self.open;
            self.visit_file(keys, file)?;
            self.end_place(keys)?;
        }
        Ok(())
    }

    /// Behind a place: keys under a tombstone met so far have their answer.
    fn end_place(&mut self, keys: Keys) -> Result<()> {
        if !self.met_ranges || self.waits {
            return Ok(());
        }
        each(keys & self.open).for_each(|n| self.lookups[n].end_place());
        self.finish_done(keys)
    }

    /// A level of disjoint files: each gets the run of keys in its range.
    fn visit_disjoint(&mut self, level: &Level) -> Result<()> {
        let mut from = 0;
        loop {
            let rest = self.open & !between(&(0..from));
            if rest == 0 {
                return Ok(());
            }
            let first = rest.trailing_zeros() as usize;
            let Some(mut at) = level.find_file_for_user_key(self.key(first)) else {
                return Ok(());
            };
            from = first + 1;
            if level.begins_behind(at, self.key(first)) {
                continue;
            }
            let end = self.end_within(level, at, from);
            self.visit_file(between(&(first..end)) & self.open, &level.files[at])?;
            // Versions of one user key may span adjacent files.
            let mut begin = first;
            while at + 1 < level.files.len() && !level.begins_behind(at + 1, self.key(end - 1)) {
                at += 1;
                begin = self.begin_within(level, at, begin..end);
                self.visit_file(between(&(begin..end)) & self.open, &level.files[at])?;
            }
            from = end;
        }
    }

    fn visit_file(&mut self, keys: Keys, file: &FileMeta) -> Result<()> {
        if keys == 0 {
            return Ok(());
        }
        let Scope { sv, ctx, .. } = self.scope;
        let last;
        let ctx = match ctx.cache.expects_hits {
            true => {
                last = ctx.at(&sv.version, self.level, file);
                &last
            }
            false => ctx,
        };
        if let Some(rows) = &ctx.cache.rows {
            return self.visit_file_by_rows(keys, file, rows, ctx);
        }
        self.ask_file(keys, file, ctx, |_, _, _, _| ());
        if sv.asks_in_turn {
            self.sample(keys, file);
        }
        self.finish_in_file(keys)
    }

    /// Counts lookups that found no value in a file they asked.
    #[cold]
    fn sample(&self, keys: Keys, file: &FileMeta) {
        let wanted = self.scope.sv.settings.counts_wasted_reads();
        for lookup in each(keys).map(|n| &self.lookups[n]) {
            if !lookup.done() || !lookup.is_found() {
                Sample::new(wanted).wasted(file);
            }
        }
    }

    /// Takes in what a table says of keys; `see` is told each entry that is taken in, and of which key.
    #[inline(always)]
    fn ask_file(
        &mut self,
        keys: Keys,
        file: &FileMeta,
        ctx: &ReadContext<'_>,
        mut see: impl FnMut(usize, &Lookup<'k>, u64, &[u8]),
    ) {
        let snapshot = self.scope.snapshot;
        let reader = match ctx.cache.reader(file) {
            Ok(reader) => reader,
            Err(e) => {
                each(keys).for_each(|n| self.answer(n, Err(e.clone())));
                return;
            }
        };
        let mut reads = ThreadReads::default();
        if let Some(observer) = self.scope.observer {
            observer.record(Histogram::SstBatchSize, keys.count_ones().into());
            reads = reads_of_thread();
        }
        if let Some(list) = file.tombstones.get() {
            self.met_ranges = true;
            each(keys).for_each(|n| self.lookups[n].note_ranges(list));
        }
        let range = keys.trailing_zeros() as usize..(Keys::BITS - keys.leading_zeros()) as usize;
        let gets = &mut self.gets[range.clone()];
        for (n, get) in range.clone().zip(gets.iter_mut()) {
            get.is_wanted = keys & (1 << n) != 0;
        }
        let lookups = &mut self.lookups[range.clone()];
        let mut failed = Vec::new();
        reader.multi_get(gets, snapshot, &ctx.params, |at, tag, value, block| {
            see(range.start + at, &lookups[at], tag, value);
            match lookups[at].visit(tag, || block.pin(value)) {
                Ok(false) => ControlFlow::Continue(()),
                Ok(true) => ControlFlow::Break(()),
                Err(e) => {
                    failed.push((range.start + at, e));
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(observer) = self.scope.observer {
            self.count_table(observer, reads);
        }
        for n in each(keys) {
            if self.gets[n].result.is_err() {
                let result = std::mem::replace(&mut self.gets[n].result, Ok(()));
                self.answer(n, result.map(|()| None));
            }
        }
        for (n, e) in failed {
            self.answer(n, Err(e));
        }
    }

    /// As [`Self::visit_file`] with a cache of rows: the table is asked for the rows that are not there, all
    /// together, and they are put there.
    #[cold]
    fn visit_file_by_rows(
        &mut self,
        keys: Keys,
        file: &FileMeta,
        rows: &RowCache,
        ctx: &ReadContext<'_>,
    ) -> Result<()> {
        let mut missing: Keys = 0;
        let mut new: [Option<(RowPlace<'k>, RowWriter)>; BATCH] = [const { None }; BATCH];
        for n in each(keys) {
            let key = (self.key(n), self.gets[n].hash);
            let place = RowPlace::new((file.number, file.largest_seqno), key, self.scope.snapshot);
            match rows.find(&place) {
                // A row says that no range tombstone of its table lies over the key, too.
                Some(row) => {
                    if let Err(e) = self.lookups[n].take_row(&row) {
                        self.answer(n, Err(e));
                    }
                }
                None => {
                    missing |= 1 << n;
                    new[n] = Some((place, RowWriter::new(&place)));
                }
            }
        }
        if missing != 0 {
            self.ask_file(missing, file, ctx, |n, lookup, tag, value| {
                if let Some((_, row)) = &mut new[n] {
                    match lookup.keeps_row_of(file, ctx) {
                        true => row.push(tag, value),
                        false => new[n] = None,
                    }
                }
            });
        }
        for n in each(missing & self.open) {
            if let Some((place, row)) = new[n].take() {
                rows.keep(&place, row);
            }
        }
        self.met_ranges |= file.tombstones.get().is_some();
        self.sample(keys, file);
        self.finish_in_file(keys)
    }

    /// Makes the answers that a file decided.
    #[inline]
    fn finish_in_file(&mut self, keys: Keys) -> Result<()> {
        if let Some(observer) = self.scope.observer {
            for lookup in each(keys & self.open).map(|n| &self.lookups[n]) {
                if lookup.done() && lookup.is_found() {
                    observer.hit_level(self.level);
                }
            }
        }
        self.finish_done(keys)
    }
}
