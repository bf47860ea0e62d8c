//! Reads on the engine: choose superversion and sequence number, then answer.

use super::db_iter::{Counting, DbIter, DbIterParts, DeadKeys};
use super::get::{Lookup, ReadContext};
use super::multi_get::{Answer, BatchLimits, Sink};
use super::stored::{Entity, Stored};
use super::timestamps::Timed;
use super::view::{View, ViewOptions, check_timestamp};
use super::{ReadOptions, ReadPurpose, ReadTier};
use crate::blob::{BlobRead, Part, part_of};
use crate::core::{Engine, Family, SuperVersion, count_reads, gate};
use crate::iter::RangeWatch;
use crate::options::objects::hashes_prefixes;
use crate::ttl::{shown, shown_all};
use crate::version::Version;
use spanlith_base::perf;
use spanlith_base::stats::Histogram;
use spanlith_base::{Error, ErrorKind, Pinned, Result, SequenceNumber, SubCode};
use spanlith_table::ReadActivity;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One family's part of a read over several.
pub(crate) struct FamilyKeys<'a> {
    pub family: &'a Arc<Family>,
    pub keys: Vec<&'a [u8]>,
}

/// Keys of one family.
struct FamilyPart<'a> {
    family: &'a Family,
    keys: &'a [&'a [u8]],
}

/// Attempts to find superversions of several families that belong together, before writers are
/// kept out for a moment.
const CONSISTENT_TRIES: usize = 3;

impl Engine {
    #[inline]
    pub(super) fn context<'a>(&self, family: &'a Family, options: &ReadOptions) -> ReadContext<'a> {
        ReadContext::new(family, options, self.counts_reads())
    }

    /// Returns whether someone counts what reads do.
    #[inline]
    pub(crate) fn counts_reads(&self) -> bool {
        self.reporter.is_observed() || self.c.watchers.blocks.is_on()
    }

    /// The sequence number of a read. Taken after the superversion: a number taken before could be
    /// older than what a flush in between has already dropped (R1).
    ///
    /// # Errors
    /// `InvalidArgument` for a snapshot of another database.
    #[inline]
    pub(super) fn read_sequence(&self, options: &ReadOptions) -> Result<SequenceNumber> {
        match &options.snapshot {
            Some(s) if s.database() == self.c.snapshots.database() => {
                debug_assert!(s.seqno() <= self.visible(), "R1: a read of the future");
                Ok(s.seqno())
            }
            Some(_) => Err(Error::invalid_argument("a snapshot of another database")),
            None => Ok(self.visible()),
        }
    }

    /// As [`Self::read_sequence`], where that was asked before.
    fn sequence_of(&self, options: &ReadOptions) -> SequenceNumber {
        let snapshot = options.snapshot.as_ref();
        snapshot.map_or_else(|| self.visible(), crate::core::Snapshot::seqno)
    }

    /// Fails once the deadline of a read has passed.
    fn check_deadline(&self, options: &ReadOptions) -> Result<()> {
        let late = options.deadline_micros != 0
            && self.c.env.clock.now_micros() >= options.deadline_micros;
        if late {
            return Err(Error::new(ErrorKind::TimedOut, ""));
        }
        Ok(())
    }

    /// The places an iterator of that tier may ask: in RocksDB, only iterators know memtables as a tier.
    fn in_iterator_tier(
        &self,
        family: &Family,
        some: Arc<SuperVersion>,
        tier: ReadTier,
    ) -> Arc<SuperVersion> {
        match tier {
            ReadTier::Memtables => Arc::new(SuperVersion {
                mem: some.mem.clone(),
                imm: some.imm.clone(),
                version: Arc::new(Version::empty(
                    family.comparator.clone(),
                    some.version.levels.len(),
                )),
                settings: some.settings.clone(),
                history_low: some.history_low.clone(),
                number: 0,
                asks_in_turn: some.asks_in_turn,
            }),
            _ => self.in_tier(family, some, tier),
        }
    }

    /// The places a lookup of that tier may ask.
    pub(super) fn in_tier(
        &self,
        family: &Family,
        superversion: Arc<SuperVersion>,
        tier: ReadTier,
    ) -> Arc<SuperVersion> {
        let some = &superversion;
        match tier {
            ReadTier::Persisted if self.logs.lacks_writes() => Arc::new(SuperVersion {
                mem: some.settings.new_memtable(&family.comparator),
                imm: Vec::new(),
                version: some.version.clone(),
                settings: some.settings.clone(),
                history_low: some.history_low.clone(),
                number: 0,
                asks_in_turn: some.asks_in_turn,
            }),
            _ => superversion,
        }
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Pinned>> {
        if self.gate.has(gate::READS) {
            return self.get_watched(family, key, options);
        }
        self.get_untraced(family, key, options)
    }

    /// As [`Self::get`], of a database whose reads are traced or counted.
    #[cold]
    #[inline(never)]
    fn get_watched(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Pinned>> {
        count_reads(self, family, 1);
        if self.gate.has(gate::TRACE_READS) {
            return self.get_traced(family, key, options);
        }
        self.get_untraced(family, key, options)
    }

    #[inline]
    pub(super) fn get_untraced(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Pinned>> {
        if self.reporter.is_observed() {
            return self.get_observed(family, key, options);
        }
        if options.is_special() || family.is_special {
            options.check_purpose(ReadPurpose::Get)?;
            return Ok(self
                .get_timed_untraced(family, key, options)?
                .map(|found| found.0));
        }
        let sv = family.superversion.load();
        let snapshot = self.read_sequence(options)?;
        sv.get_soon(key, snapshot, || ReadContext::new(family, options, false))
    }

    /// The value of a key and the timestamp it was written with, which is empty in a family without
    /// timestamps.
    #[inline(never)]
    pub(crate) fn get_timed(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Timed>> {
        count_reads(self, family, 1);
        if self.gate.has(gate::TRACE_READS) {
            return self.get_timed_traced(family, key, options);
        }
        self.get_timed_untraced(family, key, options)
    }

    pub(crate) fn get_timed_untraced(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Timed>> {
        let found = self.get_timed_stored(family, key, options)?;
        match found {
            Some((value, timestamp)) if family.times.is_some() => {
                Ok(Some((shown(value)?, timestamp)))
            }
            found => Ok(found),
        }
    }

    /// As [`Self::get_timed`], the value as it is stored.
    pub(super) fn get_timed_stored(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Timed>> {
        let size = family.comparator.timestamp_size();
        check_timestamp(size, &family.name, options.timestamp.as_deref())?;
        let sv = self.in_tier(family, family.superversion.load_full(), options.read_tier);
        let context = self.context(family, options);
        let snapshot = self.read_sequence(options)?;
        match &options.timestamp {
            Some(timestamp) => sv.get_version(key, timestamp, snapshot, &context),
            None => Ok(sv.get(key, snapshot, &context)?.map(|v| (v, Vec::new()))),
        }
    }

    /// The columns of a key.
    pub(crate) fn get_entity(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Entity>> {
        count_reads(self, family, 1);
        if self.gate.has(gate::TRACE_READS) {
            return self.get_entity_traced(family, key, options);
        }
        self.get_entity_untraced(family, key, options)
    }

    pub(crate) fn get_entity_untraced(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Entity>> {
        self.check_deadline(options)?;
        let size = family.comparator.timestamp_size();
        check_timestamp(size, &family.name, options.timestamp.as_deref())?;
        let sv = self.in_tier(family, family.superversion.load_full(), options.read_tier);
        let context = self.context(family, options);
        let snapshot = self.read_sequence(options)?;
        if let Some(timestamp) = &options.timestamp {
            let found = sv.get_stored_version(key, timestamp, snapshot, &context)?;
            let blobs = context.blobs(&sv.version);
            return found
                .map(|(s, newest)| s.into_shown_entity(&newest, family, blobs))
                .transpose();
        }
        let mut lookup = Lookup::new(key, snapshot, context.ignore_ranges);
        sv.look_up(&mut lookup, &context)?;
        let blobs = context.blobs(&sv.version);
        let stored = lookup.finish(context.merge_operator, blobs)?;
        let entity = |s: Stored| s.into_shown_entity(key, family, blobs);
        stored.map(entity).transpose()
    }

    /// A part of the value of a key.
    pub(crate) fn get_range(
        &self,
        family: &Family,
        key: &[u8],
        range: &Range<u64>,
        options: &ReadOptions,
    ) -> Result<Option<Part>> {
        // Statistics and the perf context have the numbers of a get.
        let is_unusual = options.is_special()
            || family.is_special
            || self.gate.has(gate::TRACE_READS)
            || self.reporter.is_observed();
        if is_unusual {
            let value = self.get(family, key, options)?;
            return Ok(value.map(|value| part_of(&value, range)));
        }
        options.check_purpose(ReadPurpose::Get)?;
        count_reads(self, family, 1);
        let sv = family.superversion.load_full();
        let context = self.context(family, options);
        let snapshot = self.read_sequence(options)?;
        let mut lookup = Lookup::new(key, snapshot, context.ignore_ranges);
        sv.look_up(&mut lookup, &context)?;
        let blobs = context.blobs(&sv.version);
        match lookup.finish(context.merge_operator, blobs)? {
            None => Ok(None),
            Some(Stored::Blob(index)) => {
                let entry = (key, &index[..]);
                let part = (blobs.source).resolve_part(blobs.version, entry, range, blobs.how);
                part.map(Some)
            }
            Some(stored) => {
                let value = stored.into_value(key, blobs)?;
                Ok(Some(part_of(&value, range)))
            }
        }
    }

    /// Refuses families with timestamps.
    fn check_plain(&self, family: &Family, options: &ReadOptions) -> Result<()> {
        let size = family.comparator.timestamp_size();
        check_timestamp(size, &family.name, options.timestamp.as_deref())?;
        if size != 0 {
            return Err(Error::not_supported(
                "this read in a family with user-defined timestamps",
            ));
        }
        Ok(())
    }

    /// The merge operands of a key.
    pub(crate) fn merge_operands(
        &self,
        family: &Family,
        key: &[u8],
        max: usize,
        options: &ReadOptions,
    ) -> Result<Vec<Pinned>> {
        count_reads(self, family, 1);
        if self.gate.has(gate::TRACE_READS) {
            return self.merge_operands_traced(family, key, max, options);
        }
        self.merge_operands_untraced(family, key, max, options)
    }

    pub(crate) fn merge_operands_untraced(
        &self,
        family: &Family,
        key: &[u8],
        max: usize,
        options: &ReadOptions,
    ) -> Result<Vec<Pinned>> {
        self.check_plain(family, options)?;
        let sv = self.in_tier(family, family.superversion.load_full(), options.read_tier);
        let context = self.context(family, options);
        let operands = sv.merge_operands(key, max, self.read_sequence(options)?, &context)?;
        match family.times {
            Some(_) => operands.into_iter().map(shown).collect(),
            None => Ok(operands),
        }
    }

    /// Returns whether a key may exist, without asking files: `None` if it does not, else the value if it
    /// was at hand.
    pub(crate) fn may_exist(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Option<Option<Pinned>> {
        let mut options = options.clone();
        options.cache_only = true;
        // As in RocksDB it may be for anything.
        options.purpose = ReadPurpose::Unsaid;
        match self.get(family, key, &options) {
            Ok(None) => None,
            Ok(Some(value)) => Some(Some(value)),
            // As in RocksDB: a key whose operands come to nothing is none.
            Err(e) if e.subcode() == Some(SubCode::MergeOperatorFailed) => None,
            // Nor is one at a timestamp that may not be asked for.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => None,
            // Nor is a value without the time it should have one, for RocksDB.
            Err(e) if family.times.is_some() && e.kind() == ErrorKind::Corruption => None,
            // True may be wrong.
            Err(_) => Some(None),
        }
    }

    /// Many values at one consistent point: gives one answer per key, in no order.
    pub(crate) fn multi_get(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) {
        count_reads(self, family, keys.len());
        if self.gate.has(gate::TRACE_READS) {
            return self.multi_get_traced(family, keys, options, sink);
        }
        self.multi_get_untraced(family, keys, options, sink);
    }

    pub(super) fn multi_get_untraced(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) {
        if let Err(e) = options.check_purpose(ReadPurpose::MultiGet) {
            (0..keys.len()).for_each(|at| sink(at, Err(e.clone())));
            return;
        }
        if family.is_special || options.timestamp.is_some() {
            return self.multi_get_special(family, keys, options, sink);
        }
        self.multi_get_stored(family, keys, options, sink);
    }

    #[cold]
    fn multi_get_special(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) {
        if family.comparator.timestamp_size() != 0 || options.timestamp.is_some() {
            return self.multi_get_timed(family, keys, options, sink);
        }
        self.multi_get_stored(family, keys, options, &mut |at, answer| {
            sink(at, answer.and_then(|value| value.map(shown).transpose()));
        });
    }

    /// As [`Self::multi_get`], in a family without timestamps, the values as they are stored.
    #[inline]
    fn multi_get_stored(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) {
        let part = FamilyPart { family, keys };
        if let Err(e) = self.read_sequence(options) {
            (0..keys.len()).for_each(|at| sink(at, Err(e.clone())));
            return;
        }
        if options.read_tier != ReadTier::All {
            let sv = self.in_tier(family, family.superversion.load_full(), options.read_tier);
            let sequence = self.sequence_of(options);
            // The keys' answers tell, too.
            let _ = self.multi_get_at(&part, (&sv, sequence), options, sink);
            return;
        }
        let sv = family.superversion.load();
        let sequence = self.sequence_of(options);
        // As above.
        let _ = self.multi_get_at(&part, (&sv, sequence), options, sink);
    }

    fn multi_get_at(
        &self,
        part: &FamilyPart<'_>,
        (sv, sequence): (&SuperVersion, SequenceNumber),
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let mut context = self.context(part.family, options);
        context.params.activity = ReadActivity::MultiGet;
        let observed = context.params.is_counted;
        let began = observed.then(|| self.reporter.timed()).flatten();
        let limits = BatchLimits {
            value_bytes: options.value_size_soft_limit,
            proceed: &|| self.check_deadline(options),
            observer: observed.then(|| self.observer()),
        };
        let outcome = sv.multi_get(part.keys, sequence, &context, &limits, sink);
        if observed {
            self.reporter
                .count_superversion(&part.family.superversion.load_full());
            self.count_multi_get(part.keys.len(), &outcome);
            self.reporter
                .record_since(began, Histogram::DbMultigetMicros);
        }
        outcome.stopped
    }

    /// With timestamps: key by key in their order, at one view.
    #[cold]
    fn multi_get_timed(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
        sink: &mut Sink<'_>,
    ) {
        let mut options = options.clone();
        options.purpose = ReadPurpose::Unsaid;
        if options.snapshot.is_none() {
            options.snapshot = Some(self.take_snapshot());
        }
        let c = &family.comparator;
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| c.compare_without_timestamp(keys[a], false, keys[b], false));
        let mut bytes = 0u64;
        for place in order {
            if bytes > options.value_size_soft_limit {
                sink(place, Err(Error::aborted("")));
                continue;
            }
            let answer = self.get_untraced(family, keys[place], &options);
            if let Ok(Some(value)) = &answer {
                bytes += value.len() as u64;
            }
            sink(place, answer);
        }
    }

    /// Values of keys of several families at one consistent point, in the order given.
    pub(crate) fn multi_get_families(
        &self,
        parts: &[FamilyKeys<'_>],
        options: &ReadOptions,
    ) -> Vec<Vec<Answer>> {
        let none = |part: &FamilyKeys<'_>| part.keys.iter().map(|_| Ok(None)).collect();
        let mut all: Vec<Vec<Answer>> = parts.iter().map(none).collect();
        if let Err(e) = options.check_purpose(ReadPurpose::MultiGet) {
            for answers in &mut all {
                answers.fill_with(|| Err(e.clone()));
            }
            return all;
        }
        let timed = options.timestamp.is_some()
            || parts
                .iter()
                .any(|p| p.family.comparator.timestamp_size() != 0);
        if timed {
            let families: Vec<&Family> = parts.iter().map(|p| &**p.family).collect();
            if let Some(errors) = self.refused(&families, options) {
                for (answers, error) in all.iter_mut().zip(errors) {
                    answers.fill_with(|| Err(error.clone()));
                }
                return all;
            }
        }
        if timed || parts.len() == 1 {
            let mut options = options.clone();
            if timed && options.snapshot.is_none() {
                options.snapshot = Some(self.take_snapshot());
            }
            for (part, answers) in parts.iter().zip(&mut all) {
                self.multi_get_untraced(part.family, &part.keys, &options, &mut |at, answer| {
                    answers[at] = answer;
                });
            }
            return all;
        }
        if let Err(e) = self.read_sequence(options) {
            for answers in &mut all {
                answers.fill_with(|| Err(e.clone()));
            }
            return all;
        }
        let (views, sequence) = self.consistent_views(parts, options);
        // As RocksDB goes through the families: what stops one stops those after it.
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_unstable_by_key(|&at| parts[at].family.id);
        let mut stopped = Ok(());
        for at in order {
            let (part, answers) = (&parts[at], &mut all[at]);
            if let Err(e) = &stopped {
                answers.fill_with(|| Err(Error::clone(e)));
                continue;
            }
            let sv = self.in_tier(part.family, views[at].clone(), options.read_tier);
            let part = FamilyPart {
                family: part.family,
                keys: &part.keys,
            };
            let mut sink = |at: usize, answer: Answer| answers[at] = answer;
            stopped = self.multi_get_at(&part, (&sv, sequence), options, &mut sink);
        }
        for (part, answers) in parts.iter().zip(&mut all) {
            if part.family.times.is_some() {
                shown_all(answers);
            }
        }
        all
    }

    /// The errors of a read at the timestamp of the options in families of which one does not take it. As in
    /// RocksDB nothing is read then: if it fits a family ill, the others are not asked, and history that
    /// one has given up is missing for all.
    #[cold]
    pub(crate) fn refused(
        &self,
        families: &[&Family],
        options: &ReadOptions,
    ) -> Option<Vec<Error>> {
        let timestamp = options.timestamp.as_deref();
        let check = |family: &&Family| {
            let size = family.comparator.timestamp_size();
            check_timestamp(size, &family.name, timestamp).err()
        };
        let checked: Vec<Option<Error>> = families.iter().map(check).collect();
        if checked.iter().any(Option::is_some) {
            let all = checked.into_iter();
            return Some(all.map(|e| e.unwrap_or_else(not_queried)).collect());
        }
        let lost = |family: &&Family| {
            let comparator = &family.comparator;
            let superversion = family.superversion.load();
            let error = superversion.check_history(comparator, timestamp?).err()?;
            Some((family.id, error))
        };
        let first = families.iter().filter_map(lost).min_by_key(|lost| lost.0);
        first.map(|(_, error)| vec![error; families.len()])
    }

    /// Superversions and a sequence number that none of them has lost anything of: had a memtable
    /// been sealed and flushed in between, what the number sees could be gone from one of them.
    fn consistent_views(
        &self,
        parts: &[FamilyKeys<'_>],
        options: &ReadOptions,
    ) -> (Vec<Arc<SuperVersion>>, SequenceNumber) {
        let load = || -> Vec<Arc<SuperVersion>> {
            let all = parts.iter().map(|p| p.family.superversion.load_full());
            all.collect()
        };
        for _ in 0..CONSISTENT_TRIES {
            // SeqCst: neither the views nor the second look may pass the first.
            let ingestions = self.ingestions.load(Ordering::SeqCst);
            let views = load();
            let sequence = self.sequence_of(options);
            let unchanged = parts
                .iter()
                .zip(&views)
                .all(|(p, sv)| Arc::ptr_eq(&sv.mem, &p.family.superversion.load().mem));
            // Files that several families took in together are in all views or in none.
            let is_whole = ingestions.is_multiple_of(2)
                && self.ingestions.load(Ordering::SeqCst) == ingestions;
            if is_whole && (unchanged || options.snapshot.is_some()) {
                return (views, sequence);
            }
        }
        // Memtables are switched, and sequence numbers published, by leaders only.
        let leader = self.leader.lock();
        let views = load();
        let sequence = self.sequence_of(options);
        drop(leader);
        (views, sequence)
    }

    /// The current state as a point in time, for one call: nobody asked for a snapshot.
    pub(crate) fn take_snapshot(&self) -> crate::core::Snapshot {
        let now = self.c.env.clock.now_seconds();
        self.c.snapshots.take_implicit(now, || self.visible())
    }

    /// Lets `iter` show what is visible by now; false if memtables and tables are others than its own.
    pub(crate) fn bring_up_to_date(&self, family: &Family, iter: &mut DbIter) -> bool {
        let state = family.superversion.load_full();
        iter.follow(&state, self.visible())
    }

    /// An iterator over the state of now, or of the snapshot.
    pub(crate) fn iterate(&self, family: &Family, options: &ReadOptions) -> Result<DbIter> {
        count_reads(self, family, 1);
        options.check_purpose(ReadPurpose::Iterator)?;
        // Opened for reading only, nothing is missing in the files.
        if options.read_tier == ReadTier::Persisted && !self.c.read_only {
            return Err(Error::not_supported(
                "ReadTier::kPersistedData is not yet supported in iterators.",
            ));
        }
        let mut params = options.params();
        params.is_counted = self.reporter.statistics().is_some()
            || perf::was_raised()
            || self.c.watchers.blocks.is_on();
        params.activity = ReadActivity::Iterator;
        let mut superversion = family.superversion.load_full();
        if let Some(timestamp) = &options.timestamp
            && family.comparator.timestamp_size() == timestamp.len()
        {
            superversion.check_history(&family.comparator, timestamp)?;
        }
        if options.read_tier != ReadTier::All {
            superversion = self.in_iterator_tier(family, superversion, options.read_tier);
        }
        params.extractor = Some(superversion.settings.extractor_id);
        let snapshot = self.read_sequence(options)?;
        let view = View::new(
            &family.comparator,
            &family.name,
            ViewOptions {
                timestamp: options.timestamp.as_deref(),
                start_timestamp: options.start_timestamp.as_deref(),
                extractor: superversion.settings.prefix_extractor.clone(),
                prefix_same_as_start: options.prefix_same_as_start,
                total_order: options.total_order,
                auto_prefix: options.auto_prefix && !options.total_order,
                may_put_off: options.allow_unprepared_value,
                params,
            },
        )?;
        let settings = &superversion.settings;
        let counting = Counting {
            reseek_after: settings.options.max_sequential_skip_in_iterations,
            total_order: settings.prefix_extractor.is_none()
                || options.total_order
                || options.auto_prefix,
        };
        if options.table_filter.is_some()
            && settings.options.min_tombstones_for_range_conversion > 0
            && !self.c.read_only
        {
            return Err(Error::invalid_argument(
                "ReadOptions::table_filter is not supported when min_tombstones_for_range_conversion > 0",
            ));
        }
        let dead = DeadKeys::of(options, &superversion, &view, counting.total_order);
        let ranges = RangeWatch::new(!options.ignore_range_deletions);
        let inner = superversion.merged(
            &family.comparator,
            &family.cache,
            params,
            &ranges,
            options.table_filter.as_ref(),
        )?;
        let mut inner = inner;
        if !counting.total_order && hashes_prefixes(&settings.options.memtable_factory) {
            inner.hash_memtables();
        }
        if params.is_counted {
            inner.time_by(&self.c.env.clock);
        }
        if let Some(upper) = &options.upper
            && family.comparator.timestamp_size() == 0
        {
            inner.bound(upper);
        }
        Ok(DbIter::new(DbIterParts {
            inner,
            pin: superversion,
            cache: family.cache.clone(),
            ranges,
            snapshot,
            comparator: family.comparator.clone(),
            merge_operator: family.merge_operator.clone(),
            lower: options.lower.clone(),
            upper: options.upper.clone(),
            max_skipped: options.max_skipped,
            counting,
            dead,
            blobs: family.blobs.clone(),
            blob_read: BlobRead {
                verify_checksums: params.verify_checksums,
                may_read: !params.cache_only,
                fill_cache: params.fill_cache,
            },
            view,
            may_mark: !options.tailing && !self.c.read_only,
        }))
    }
}

/// The answer for keys beside one that cannot be asked for.
#[cold]
fn not_queried() -> Error {
    Error::incomplete("DB not queried due to invalid argument(s) in the same MultiGet")
}
