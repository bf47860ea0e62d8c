//! Point reads: memtables, then tables from newer to older places, until the answer is known.

use super::ReadOptions;
use super::stored::{Blobs, Stored};
use crate::blob::{BlobRead, BlobSource};
use crate::core::{Family, SuperVersion};
use crate::merge::{MergeOperator, MergeState};
use crate::version::{FileMeta, TableCache, Version};
use spanlith_base::keys::{self, ValueType};
use spanlith_base::range_del::FragmentedTombstones;
use spanlith_base::{Comparator, Error, Pinned, Result, SequenceNumber};
use spanlith_memtable::{EntryRef, MemTable};
use spanlith_table::{ReadActivity, ReadParams, TableReader};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Values found in a memtable up to this size are copied, so that a small result does not hold a
/// whole memtable.
const COPY_MAX: usize = 4096;

/// Describes what point reads need besides the superversion.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub comparator: &'a Comparator,
    pub cache: &'a TableCache,
    pub blobs: &'a BlobSource,
    pub merge_operator: Option<&'a Arc<dyn MergeOperator>>,
    pub params: ReadParams,
    /// Read as if no range tombstone existed.
    pub ignore_ranges: bool,
}

impl<'a> ReadContext<'a> {
    /// Describes reads of a family; `is_counted` says whether someone counts what they do.
    #[inline]
    pub(crate) fn new(family: &'a Family, options: &ReadOptions, is_counted: bool) -> Self {
        let mut params = options.params();
        params.is_counted = is_counted;
        params.activity = ReadActivity::Get;
        params.extractor = Some(family.cache.extractor.get());
        Self {
            comparator: &family.comparator,
            cache: &family.cache,
            blobs: &family.blobs,
            merge_operator: family.merge_operator.as_ref(),
            params,
            ignore_ranges: options.ignore_range_deletions,
        }
    }
}

/// Where a lookup stands.
enum Answer {
    /// Nothing decisive yet.
    Open,
    Found(Pinned),
    /// Something else than a plain value.
    Other(Stored),
    /// A tombstone: older places do not matter.
    Deleted,
}

/// One lookup, carried from newer to older places.
pub(super) struct Lookup<'a> {
    key: &'a [u8],
    snapshot: SequenceNumber,
    answer: Answer,
    merge: MergeState,
    /// Newest visible range tombstone over the key so far; 0 if none. All older entries are gone.
    covering: SequenceNumber,
    ignore_ranges: bool,
}

impl<'a> Lookup<'a> {
    /// A lookup of nothing.
    pub(super) const NONE: Self = Self {
        key: &[],
        snapshot: 0,
        answer: Answer::Deleted,
        merge: MergeState::EMPTY,
        covering: 0,
        ignore_ranges: false,
    };

    #[inline]
    pub(super) fn new(key: &'a [u8], snapshot: SequenceNumber, ignore_ranges: bool) -> Self {
        Self {
            key,
            snapshot,
            answer: Answer::Open,
            merge: MergeState::default(),
            covering: 0,
            ignore_ranges,
        }
    }

    #[inline]
    pub(super) fn done(&self) -> bool {
        !matches!(self.answer, Answer::Open)
    }

    /// Returns whether the search ended with something else than that the key is gone.
    pub(super) fn is_found(&self) -> bool {
        matches!(self.answer, Answer::Found(_) | Answer::Other(_)) || !self.merge.is_empty()
    }

    /// Merge operands met.
    pub(super) fn operands(&self) -> usize {
        self.merge.operands().len()
    }

    /// The sequence number it reads at.
    pub(super) fn snapshot(&self) -> SequenceNumber {
        self.snapshot
    }

    /// Returns whether a visible range tombstone over the key was met.
    pub(super) fn is_covered(&self) -> bool {
        self.covering != 0
    }

    /// The key sought.
    #[inline]
    pub(super) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Takes in one entry; true when older ones do not matter.
    #[inline]
    pub(super) fn visit(&mut self, tag: u64, pin: impl FnOnce() -> Pinned) -> Result<bool> {
        if keys::tag_sequence(tag) < self.covering {
            self.answer = Answer::Deleted;
            return Ok(true);
        }
        match ValueType::from_byte(keys::tag_type(tag)) {
            Some(ValueType::Value) => self.answer = Answer::Found(pin()),
            Some(ValueType::Deletion | ValueType::SingleDeletion) => self.answer = Answer::Deleted,
            Some(ValueType::Merge) => {
                self.merge.push(pin());
                return Ok(false);
            }
            kind => self.answer = rare_answer(kind, keys::tag_type(tag), pin())?,
        }
        Ok(true)
    }

    /// Takes in the range tombstones of a place, before its entries.
    #[cold]
    pub(super) fn note_ranges(&mut self, list: &FragmentedTombstones) {
        if !self.ignore_ranges {
            let here = list.max_covering(self.key, self.snapshot);
            self.covering = self.covering.max(here);
        }
    }

    /// As [`Self::note_ranges`] for `user_key` with the timestamp of the read.
    #[cold]
    pub(super) fn note_ranges_at(
        &mut self,
        list: &FragmentedTombstones,
        user_key: &[u8],
        timestamp: &[u8],
    ) {
        if !self.ignore_ranges {
            let here = list.max_covering_at(user_key, self.snapshot, Some(timestamp));
            self.covering = self.covering.max(here.0);
        }
    }

    /// After the entries of a place: under a tombstone of this place, older places hold nothing
    /// that counts (V2).
    #[inline]
    pub(super) fn end_place(&mut self) {
        if self.covering != 0 && !self.done() {
            self.answer = Answer::Deleted;
        }
    }

    /// Asks a memtable; whether an entry decided, and not only range tombstones.
    #[inline]
    pub(super) fn in_memtable(&mut self, mem: &Arc<MemTable>) -> Result<bool> {
        if let Some(list) = mem.range_tombstones() {
            self.note_ranges(&list);
        }
        if mem.is_guarded() {
            mem.check_search(self.key, self.snapshot)?;
        }
        self.visit_memtable(mem.find(self.key, self.snapshot), mem)
    }

    /// Takes in the entries of a memtable, from the newest one on, after its range tombstones.
    #[inline(always)]
    pub(super) fn visit_memtable(
        &mut self,
        entry: Option<EntryRef<'_>>,
        mem: &Arc<MemTable>,
    ) -> Result<bool> {
        let decided = self.visit_entries(entry, mem)?;
        if !decided {
            self.end_place();
        }
        Ok(decided)
    }

    /// As [`Self::visit_memtable`], but without the end of the place; true when older entries do not matter.
    #[inline(always)]
    pub(super) fn visit_entries(
        &mut self,
        mut entry: Option<EntryRef<'_>>,
        mem: &Arc<MemTable>,
    ) -> Result<bool> {
        while let Some(e) = entry {
            e.verify()?;
            debug_assert!(
                keys::tag_sequence(e.tag()) <= self.snapshot,
                "R1: an entry after the snapshot"
            );
            if self.visit(e.tag(), || value_in_memtable(e.value(), mem))? {
                return Ok(true);
            }
            entry = e.next_older();
        }
        Ok(false)
    }

    #[inline(always)]
    pub(super) fn in_table(
        &mut self,
        table: &TableReader,
        hash: u64,
        params: &ReadParams,
    ) -> Result<()> {
        self.in_table_seen(table, hash, params, |_, _| ())
    }

    /// As [`Self::in_table`]; `see` is told the entries taken in.
    #[inline(always)]
    pub(super) fn in_table_seen(
        &mut self,
        table: &TableReader,
        hash: u64,
        params: &ReadParams,
        mut see: impl FnMut(u64, &[u8]),
    ) -> Result<()> {
        let mut failed = None;
        let (key, snapshot) = (self.key, self.snapshot);
        table.get_hashed(key, hash, snapshot, params, |tag, value, block| {
            see(tag, value);
            match self.visit(tag, || block.pin(value)) {
                Ok(false) => ControlFlow::Continue(()),
                Ok(true) => ControlFlow::Break(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            }
        })?;
        // A tombstone of this table does not end the search: versions of one key may lie in two
        // adjacent tables of a level, and those in the next may be newer than it. The end of the
        // level ends it.
        failed.map_or(Ok(()), Err)
    }

    /// The result once all places were visited, or the answer is known.
    pub(super) fn finish(
        self,
        operator: Option<&Arc<dyn MergeOperator>>,
        blobs: Blobs<'_>,
    ) -> Result<Option<Stored>> {
        let base = self.answer.into_stored();
        if self.merge.is_empty() {
            return Ok(base);
        }
        let operands = self.merge.operands();
        Stored::merged(operator, self.key, base, operands, blobs).map(Some)
    }

    /// The value once all places were visited, or the answer is known.
    #[inline]
    pub(super) fn finish_value(
        self,
        operator: Option<&Arc<dyn MergeOperator>>,
        blobs: Blobs<'_>,
    ) -> Result<Option<Pinned>> {
        if self.merge.is_empty() {
            match self.answer {
                Answer::Found(v) => return Ok(Some(v)),
                Answer::Open | Answer::Deleted => return Ok(None),
                Answer::Other(_) => {}
            }
        }
        let key = self.key;
        match self.finish(operator, blobs)? {
            None => Ok(None),
            Some(stored) => stored.into_value(key, blobs).map(Some),
        }
    }

    /// As [`Self::finish_value`]; leaves a lookup behind that found nothing.
    #[inline]
    pub(super) fn take_value(
        &mut self,
        ctx: &ReadContext<'_>,
        version: &Version,
    ) -> Result<Option<Pinned>> {
        match self.take_plain() {
            Some(plain) => Ok(plain),
            None => self.take_unusual(ctx, version),
        }
    }

    /// The value, if all that was met is at most one plain value: then nothing is left to drop.
    #[inline(always)]
    fn take_plain(&mut self) -> Option<Option<Pinned>> {
        if !self.merge.is_empty() {
            return None;
        }
        match &self.answer {
            Answer::Open | Answer::Deleted => Some(None),
            Answer::Other(_) => None,
            Answer::Found(_) => match std::mem::replace(&mut self.answer, Answer::Deleted) {
                Answer::Found(value) => Some(Some(value)),
                Answer::Open | Answer::Deleted | Answer::Other(_) => None,
            },
        }
    }

    /// The blob index, if all that was met is one.
    #[inline]
    pub(super) fn take_blob_index(&mut self) -> Option<Pinned> {
        match &self.answer {
            Answer::Other(Stored::Blob(index)) if self.merge.is_empty() => {
                let index = index.clone();
                self.answer = Answer::Deleted;
                Some(index)
            }
            _ => None,
        }
    }

    /// As [`Self::take_value`], where it takes more than what a table or memtable holds. The key
    /// stays: a multi-get searches by the keys of lookups that ended.
    #[inline(never)]
    fn take_unusual(&mut self, ctx: &ReadContext<'_>, version: &Version) -> Result<Option<Pinned>> {
        let taken = Self {
            answer: std::mem::replace(&mut self.answer, Answer::Deleted),
            merge: std::mem::take(&mut self.merge),
            ..*self
        };
        taken.finish_value(ctx.merge_operator, ctx.blobs(version))
    }

    /// The operands met, newest first, and what they apply to.
    pub(super) fn into_operands(self) -> (MergeState, Option<Stored>) {
        (self.merge, self.answer.into_stored())
    }
}

impl Answer {
    fn into_stored(self) -> Option<Stored> {
        match self {
            Self::Found(value) => Some(Stored::Value(value)),
            Self::Other(stored) => Some(stored),
            Self::Open | Self::Deleted => None,
        }
    }
}

/// The answer of an entry of a rare type.
#[cold]
fn rare_answer(kind: Option<ValueType>, byte: u8, bytes: Pinned) -> Result<Answer> {
    match kind {
        Some(ValueType::DeletionWithTimestamp) => Ok(Answer::Deleted),
        Some(kind) => match Stored::of(kind, bytes)? {
            Some(Stored::Value(value)) => Ok(Answer::Found(value)),
            Some(stored) => Ok(Answer::Other(stored)),
            None => Err(unknown_type(byte)),
        },
        None => Err(unknown_type(byte)),
    }
}

/// Damage: an entry of a type that does not belong there.
#[cold]
pub(super) fn unknown_type(byte: u8) -> Error {
    Error::corruption("unknown value type in an internal key").with("type", byte)
}

impl<'a> ReadContext<'a> {
    /// The context for a file of a level: the last place to look asks no filter if hits are expected.
    #[inline]
    pub(super) fn at(&self, version: &Version, level: usize, file: &FileMeta) -> Self {
        let mut ctx = *self;
        ctx.params.skip_filters = self.cache.expects_hits && version.is_last_place(level, file);
        ctx
    }

    /// Where the blobs of a version are.
    #[inline]
    pub(super) fn blobs(&self, version: &'a Version) -> Blobs<'a> {
        Blobs {
            source: self.blobs,
            version,
            how: BlobRead {
                verify_checksums: self.params.verify_checksums,
                may_read: !self.params.cache_only,
                fill_cache: self.params.fill_cache,
            },
        }
    }
}

/// A value of a memtable as a result.
#[inline]
fn value_in_memtable(value: &[u8], mem: &Arc<MemTable>) -> Pinned {
    if value.len() <= COPY_MAX {
        Pinned::copy_of(value)
    } else {
        pin_memtable(value, mem)
    }
}

#[cold]
#[expect(unsafe_code, reason = "a value is returned without a copy")]
fn pin_memtable(value: &[u8], mem: &Arc<MemTable>) -> Pinned {
    // SAFETY: Entries of a memtable never move or change before it is dropped (M1).
    unsafe { Pinned::from_owner(value, mem.clone()) }
}

impl SuperVersion {
    /// The value of `key` at `snapshot`. Looks at the mutable memtable first, which often decides:
    /// then no lookup is made, and no context.
    #[inline]
    pub(super) fn get_soon<'c>(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        context: impl FnOnce() -> ReadContext<'c>,
    ) -> Result<Option<Pinned>> {
        if self.mem.is_simple() {
            let Some(e) = self.mem.find_simple(key, snapshot) else {
                let ctx = context();
                let mut lookup = Lookup::new(key, snapshot, ctx.ignore_ranges);
                self.look_up_behind(&mut lookup, &ctx)?;
                let Some(plain) = lookup.take_plain() else {
                    return lookup.take_unusual(&ctx, &self.version);
                };
                // Saves a look at each of its parts.
                std::mem::forget(lookup);
                return Ok(plain);
            };
            match ValueType::from_byte(keys::tag_type(e.tag())) {
                Some(ValueType::Value) => return Ok(Some(value_in_memtable(e.value(), &self.mem))),
                Some(ValueType::Deletion | ValueType::SingleDeletion) => return Ok(None),
                _ => return self.get_from(e, (key, snapshot), &context()),
            }
        }
        self.get(key, snapshot, &context())
    }

    /// The value of the key whose newest entry is `entry` of the mutable memtable, which is simple.
    #[inline(never)]
    fn get_from(
        &self,
        entry: EntryRef<'_>,
        (key, snapshot): (&[u8], SequenceNumber),
        ctx: &ReadContext<'_>,
    ) -> Result<Option<Pinned>> {
        let mut lookup = Lookup::new(key, snapshot, ctx.ignore_ranges);
        lookup.visit_memtable(Some(entry), &self.mem)?;
        if !lookup.done() {
            self.look_up_behind(&mut lookup, ctx)?;
        }
        lookup.take_value(ctx, &self.version)
    }

    /// The value of `key` at `snapshot`.
    #[inline(never)]
    pub(crate) fn get(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
    ) -> Result<Option<Pinned>> {
        let mut lookup = Lookup::new(key, snapshot, ctx.ignore_ranges);
        self.look_up(&mut lookup, ctx)?;
        lookup.take_value(ctx, &self.version)
    }

    /// Carries a lookup through all places, until the answer is known.
    #[inline]
    pub(super) fn look_up(&self, lookup: &mut Lookup<'_>, ctx: &ReadContext<'_>) -> Result<()> {
        lookup.in_memtable(&self.mem)?;
        if lookup.done() {
            return Ok(());
        }
        self.look_up_behind(lookup, ctx)
    }

    /// As [`Self::look_up`], after the mutable memtable.
    #[inline]
    fn look_up_behind(&self, lookup: &mut Lookup<'_>, ctx: &ReadContext<'_>) -> Result<()> {
        if !self.imm.is_empty() {
            self.look_up_sealed(lookup)?;
            if lookup.done() {
                return Ok(());
            }
        }
        self.get_from_tables(lookup, ctx)
    }

    /// Carries a lookup through the sealed memtables, until the answer is known.
    #[inline(never)]
    fn look_up_sealed(&self, lookup: &mut Lookup<'_>) -> Result<()> {
        for mem in &self.imm {
            lookup.in_memtable(mem)?;
            if lookup.done() {
                break;
            }
        }
        Ok(())
    }

    /// Two rounds: the first collects the tables whose range holds the key and starts loading their
    /// filters' lines, so that the cache misses of a live tree overlap; the second asks them, newer
    /// places first.
    fn get_from_tables(&self, lookup: &mut Lookup<'_>, ctx: &ReadContext<'_>) -> Result<()> {
        if self.asks_in_turn {
            return self.tables_in_turn(lookup, ctx, None);
        }
        let key = lookup.key;
        let hash = TableReader::filter_hash(key);
        let mut some = Candidates::new();
        for (n, level) in self.version.occupied() {
            if *n == 0 {
                for file in level.files_covering(key) {
                    if some.is_full() {
                        ask_all(&mut some, lookup, hash, ctx)?;
                        if lookup.done() {
                            return Ok(());
                        }
                    }
                    some.push(file, hash, true);
                }
                continue;
            }
            let covering = level.find_covering(key);
            for at in covering.clone() {
                if some.is_full() {
                    ask_all(&mut some, lookup, hash, ctx)?;
                    if lookup.done() {
                        return Ok(());
                    }
                }
                some.push(&level.files[at], hash, at + 1 == covering.end);
            }
        }
        ask(&mut some, lookup, hash, ctx)
    }
}

/// Tables asked in one round; a tree with more is asked in several.
const MAX_CANDIDATES: usize = 24;

/// Tables to ask, newer places first.
struct Candidates<'a> {
    files: [Option<&'a FileMeta>; MAX_CANDIDATES],
    len: usize,
    /// By bit: those after it which only older entries lie.
    ends: u32,
}

impl<'a> Candidates<'a> {
    #[inline]
    fn new() -> Self {
        Self {
            files: [None; MAX_CANDIDATES],
            len: 0,
            ends: 0,
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.len == MAX_CANDIDATES
    }

    #[inline]
    fn push(&mut self, file: &'a FileMeta, hash: u64, ends_place: bool) {
        if let Some(reader) = file.reader.get() {
            reader.prefetch_filter(hash);
        }
        self.files[self.len] = Some(file);
        self.ends |= u32::from(ends_place) << self.len;
        self.len += 1;
    }
}

/// As [`ask`], where the list is full.
#[inline(never)]
fn ask_all(
    some: &mut Candidates<'_>,
    lookup: &mut Lookup<'_>,
    hash: u64,
    ctx: &ReadContext<'_>,
) -> Result<()> {
    ask(some, lookup, hash, ctx)
}

/// Asks the candidates in order and empties the list.
#[inline(always)]
fn ask(
    some: &mut Candidates<'_>,
    lookup: &mut Lookup<'_>,
    hash: u64,
    ctx: &ReadContext<'_>,
) -> Result<()> {
    let mut ends = std::mem::take(&mut some.ends);
    for file in some.files[..std::mem::take(&mut some.len)].iter().flatten() {
        let opened;
        let reader = match file.reader.get() {
            Some(reader) => reader,
            None => {
                opened = ctx.cache.reader(file)?;
                &*opened
            }
        };
        if let Some(list) = file.tombstones.get() {
            lookup.note_ranges(list);
        }
        lookup.in_table(reader, hash, &ctx.params)?;
        if ends & 1 != 0 {
            lookup.end_place();
        }
        ends >>= 1;
        if lookup.done() {
            break;
        }
    }
    Ok(())
}
