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
use crate::core::SuperVersion;
use crate::version::{FileMeta, Level};
use spanlith_base::{Comparator, Error, ErrorKind, Pinned, Result, SequenceNumber};
use spanlith_memtable::{EntryRef, MemTable};
use spanlith_table::{TableGet, TableReader};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Keys that go through the places together; RocksDB's number, which the soft limit makes visible.
const BATCH: usize = 32;

/// The answer for one key.
pub(crate) type Answer = Result<Option<Pinned>>;

/// When a multi-get gives up.
pub(crate) struct BatchLimits<'a> {
    /// Bytes of values after which keys that have no answer yet get `Operation aborted`.
    pub value_bytes: u64,
    /// Asked before each batch; an error is the answer of all keys from there on.
    pub proceed: &'a dyn Fn() -> Result<()>,
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

/// What stays the same for all keys of a call.
#[derive(Clone, Copy)]
struct Scope<'a> {
    sv: &'a SuperVersion,
    snapshot: SequenceNumber,
    ctx: &'a ReadContext<'a>,
}

/// The batch under way; `Run` is used for one after the other.
struct Run<'k, 'a, 'o> {
    scope: Scope<'a>,
    lookups: Vec<Lookup<'k>>,
    /// Places of the batch's keys in `out`.
    places: Vec<u32>,
    /// Keys without an answer yet.
    open: Keys,
    /// Filter hashes; filled before the first table.
    hashes: [u64; BATCH],
    gets: Vec<TableGet<'k>>,
    out: &'o mut [Answer],
    value_bytes: u64,
    value_bytes_max: u64,
}

impl SuperVersion {
    /// One result per key, in the order of `keys`; and the error that stopped it, if one did, which
    /// is then the answer of all keys behind.
    pub(crate) fn multi_get(
        &self,
        keys: &[&[u8]],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
        limits: &BatchLimits<'_>,
    ) -> (Vec<Answer>, Result<()>) {
        let mut out: Vec<Answer> = Vec::with_capacity(keys.len());
        out.resize_with(keys.len(), || Ok(None));
        let order = sorted(ctx.comparator, keys);
        let room = keys.len().min(BATCH);
        let mut run = Run {
            scope: Scope {
                sv: self,
                snapshot,
                ctx,
            },
            lookups: Vec::with_capacity(room),
            places: Vec::with_capacity(room),
            open: 0,
            hashes: [0; BATCH],
            gets: Vec::with_capacity(room),
            out: &mut out,
            value_bytes: 0,
            value_bytes_max: limits.value_bytes,
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
        if let Err(e) = &stopped {
            for &(_, place) in rest {
                out[place as usize] = Err(e.clone());
            }
        }
        (out, stopped)
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

impl<'k> Run<'k, '_, '_> {
    /// Takes some keys, in order, through all places.
    ///
    /// # Errors
    /// `Aborted` once the values are too large; the keys of the batch have their answers then, too.
    fn batch(&mut self, keys: &[&'k [u8]], batch: &[(u64, u32)]) -> Result<()> {
        let Scope { snapshot, ctx, .. } = self.scope;
        self.lookups.clear();
        self.places.clear();
        for &(_, place) in batch {
            let key = keys[place as usize];
            let lookup = Lookup::new(key, snapshot, ctx.ignore_ranges);
            self.lookups.push(lookup);
            self.places.push(place);
        }
        self.open = between(&(0..batch.len()));
        let visited = self.visit_places();
        // What no place decided is absent, or has operands without a base.
        for n in each(self.open) {
            if visited.is_err() {
                self.answer(n, Err(aborted()));
            } else {
                self.finish(n);
            }
        }
        visited.and_then(|()| self.check_size())
    }

    fn visit_places(&mut self) -> Result<()> {
        let sv = self.scope.sv;
        for mem in std::iter::once(&sv.mem).chain(&sv.imm) {
            if !mem.is_empty() && self.open != 0 {
                self.visit_memtable(mem)?;
            }
        }
        for n in each(self.open) {
            self.hashes[n] = TableReader::filter_hash(self.key(n));
        }
        for (n, level) in sv.version.levels.iter().enumerate() {
            if self.open == 0 {
                break;
            }
            if level.files.is_empty() {
                continue;
            }
            if n == 0 {
                self.visit_overlapping(level)?;
            } else {
                self.visit_disjoint(level)?;
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
        self.out[self.places[n] as usize] = answer;
    }

    /// Makes the answer of what was found of a key.
    fn finish(&mut self, n: usize) {
        let Scope { sv, ctx, .. } = self.scope;
        let answer = self.lookups[n].take_value(ctx.merge_operator, ctx.blobs(&sv.version));
        if let Ok(Some(value)) = &answer {
            self.value_bytes += value.len() as u64;
        }
        self.answer(n, answer);
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
        mem.find_many(&keys[..len], self.scope.snapshot, &mut found);
        for (n, entry) in each(open).zip(found) {
            let lookup = &mut self.lookups[n];
            if let Some(list) = &ranges {
                lookup.note_ranges(list);
            }
            if let Err(e) = lookup.visit_memtable(entry, mem) {
                self.answer(n, Err(e));
            }
        }
        self.finish_done(open)
    }

    /// The end of the run of keys, from `from` on, that do not lie behind a file.
    fn end_within(&self, level: &Level, at: usize, from: usize) -> usize {
        // By growing steps: mostly either one or all keys lie there.
        let keys = &self.lookups[from..];
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
        for (at, file) in level.files.iter().enumerate() {
            let begin = self.begin_within(level, at, 0..self.lookups.len());
            let end = self.end_within(level, at, begin);
            self.visit_file(between(&(begin..end)) & self.open, file)?;
        }
        Ok(())
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
        let Scope { snapshot, ctx, .. } = self.scope;
        let reader = match ctx.cache.reader(file) {
            Ok(reader) => reader,
            Err(e) => {
                each(keys).for_each(|n| self.answer(n, Err(e.clone())));
                return Ok(());
            }
        };
        let mut numbers = [0u8; BATCH];
        self.gets.clear();
        for n in each(keys) {
            if let Some(list) = file.tombstones.get() {
                self.lookups[n].note_ranges(list);
            }
            numbers[self.gets.len()] = n as u8;
            self.gets.push(TableGet::new(self.key(n), self.hashes[n]));
        }
        let lookups = &mut self.lookups;
        let mut failed: [Option<Error>; BATCH] = [const { None }; BATCH];
        reader.multi_get(
            &mut self.gets,
            snapshot,
            &ctx.params,
            |at, tag, value, block| match lookups[numbers[at] as usize]
                .visit(tag, || block.pin(value))
            {
                Ok(false) => ControlFlow::Continue(()),
                Ok(true) => ControlFlow::Break(()),
                Err(e) => {
                    failed[at] = Some(e);
                    ControlFlow::Break(())
                }
            },
        );
        for at in 0..self.gets.len() {
            let read = std::mem::replace(&mut self.gets[at].result, Ok(()));
            if let Some(e) = failed[at].take().or(read.err()) {
                self.answer(numbers[at] as usize, Err(e));
            }
        }
        self.finish_done(keys)
    }
}
