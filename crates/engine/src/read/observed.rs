//! Reads that are measured: for statistics, or for the perf context of the calling thread.
//!
//! They go a way of their own, which asks the same places in the same order and counts where RocksDB
//! counts; nobody else pays more than the branch that leads here.

use super::get::{Lookup, ReadContext};
use super::multi_get::{Answer, Outcome};
use super::sampled::Sample;
use super::{ReadOptions, ReadPurpose};
use crate::core::{Engine, Family, SuperVersion};
use crate::ttl::shown;
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::{Error, Pinned, Result, SequenceNumber, SubCode};
use spanlith_env::Clock;
use spanlith_memtable::MemTable;
use spanlith_table::TableReader;

/// Returns whether a merge operator gave up.
pub(crate) fn is_merge_failure(e: &Error) -> bool {
    e.subcode() == Some(SubCode::MergeOperatorFailed)
}

/// Describes who measures.
#[derive(Clone, Copy)]
pub(crate) struct Observer<'a> {
    /// Where it is counted, beside the perf context.
    pub statistics: Option<&'a Statistics>,
    /// Measures times.
    pub clock: &'a dyn Clock,
}

impl<'a> Observer<'a> {
    pub(super) fn add(&self, ticker: Ticker, n: u64) {
        if let Some(s) = self.statistics {
            s.add(ticker, n);
        }
    }

    /// Measures until the result is dropped.
    pub(super) fn time(&self, counter: PerfCounter) -> impl Drop + use<'a> {
        let clock = self.clock;
        perf::timer(counter, PerfTime::Work, move || clock.monotonic_nanos())
    }

    /// Counts an answer that a table of `level` gave.
    pub(super) fn hit_level(&self, level: usize) {
        let ticker = match level {
            0 => Ticker::L0Hit,
            1 => Ticker::L1Hit,
            _ => Ticker::L2andupHit,
        };
        self.add(ticker, 1);
    }

    /// Counts merge operands that were met on the way to a value.
    pub(super) fn met_operands(&self, operands: usize) {
        if operands == 0 {
            return;
        }
        let operands = operands as u64;
        perf::add(PerfCounter::InternalMergePointLookupCount, operands);
        self.record(Histogram::ReadNumMergeOperands, operands);
    }

    /// Records a value that is no time.
    pub(super) fn record(&self, histogram: Histogram, value: u64) {
        if let Some(s) = self.statistics {
            s.record(histogram, value);
        }
    }

    /// Counts a look into a memtable for `keys`, which are only those its filter let pass, if it has
    /// one.
    pub(super) fn looked_into(&self, mem: &MemTable, keys: impl Iterator<Item = bool>) {
        if !perf::is_on() {
            return;
        }
        perf::add(PerfCounter::GetFromMemtableCount, 1);
        let (mut searches, mut misses) = (0, 0);
        for passes in keys {
            searches += u64::from(passes);
            misses += u64::from(!passes);
        }
        let comparisons = searches * mem.search_steps();
        perf::add(PerfCounter::UserKeyComparisonCount, comparisons);
        if mem.has_key_filter() {
            perf::add(PerfCounter::BloomMemtableHitCount, searches);
            perf::add(PerfCounter::BloomMemtableMissCount, misses);
        }
    }
}

impl Engine {
    pub(super) fn observer(&self) -> Observer<'_> {
        Observer {
            statistics: self.reporter.statistics(),
            clock: &*self.c.env.clock,
        }
    }

    /// The value of a key, measured.
    #[cold]
    pub(super) fn get_observed(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Answer {
        options.check_purpose(ReadPurpose::Get)?;
        let began = self.reporter.timed();
        let observer = self.observer();
        let clock = &self.c.env.clock;
        let _cpu = perf::timer(PerfCounter::GetCpuNanos, PerfTime::Cpu, || {
            clock.thread_cpu_nanos()
        });
        let answer = if family.comparator.timestamp_size() != 0 || options.timestamp.is_some() {
            let found = self.get_timed_stored(family, key, options);
            found.map(|found| found.map(|(value, _)| value))
        } else {
            let timer = observer.time(PerfCounter::GetSnapshotTime);
            let sv = family.superversion.load_full();
            self.reporter.count_superversion(&sv);
            let sv = self.in_tier(family, sv, options.read_tier);
            let snapshot = self.read_sequence(options)?;
            drop(timer);
            let context = self.context(family, options);
            sv.get_counted(key, snapshot, &context, &observer)
        };
        let timer = observer.time(PerfCounter::GetPostProcessTime);
        observer.add(Ticker::NumberKeysRead, 1);
        if answer.as_ref().is_err_and(is_merge_failure) {
            observer.add(Ticker::NumberMergeFailures, 1);
        }
        let bytes = match &answer {
            Ok(Some(value)) => value.len() as u64,
            _ => 0,
        };
        observer.add(Ticker::BytesRead, bytes);
        perf::add(PerfCounter::GetReadBytes, bytes);
        observer.record(Histogram::BytesPerRead, bytes);
        drop(timer);
        self.reporter.record_since(began, Histogram::DbGetMicros);
        match answer {
            Ok(Some(value)) if family.times.is_some() => shown(value).map(Some),
            answer => answer,
        }
    }

    /// Counts a multi-get over one family.
    #[cold]
    pub(super) fn count_multi_get(&self, keys: usize, outcome: &Outcome) {
        perf::add(PerfCounter::MultigetReadBytes, outcome.value_bytes);
        let Some(s) = self.reporter.statistics() else {
            return;
        };
        s.add(Ticker::NumberMultigetGet, 1);
        s.add(Ticker::NumberMultigetKeysRead, keys as u64);
        s.add(Ticker::NumberMultigetKeysFound, outcome.found);
        s.add(Ticker::NumberMultigetBytesRead, outcome.value_bytes);
        s.record(Histogram::BytesPerMultiget, outcome.value_bytes);
    }
}

impl SuperVersion {
    /// As [`Self::get`], counted.
    fn get_counted(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
        observer: &Observer<'_>,
    ) -> Result<Option<Pinned>> {
        let mut lookup = Lookup::new(key, snapshot, ctx.ignore_ranges);
        let mut is_hit = false;
        for mem in std::iter::once(&self.mem).chain(&self.imm) {
            if mem.is_empty() || lookup.done() {
                continue;
            }
            let _timer = observer.time(PerfCounter::GetFromMemtableTime);
            observer.looked_into(mem, std::iter::once(mem.may_hold_key(key)));
            is_hit = lookup.in_memtable(mem)?;
        }
        // As in RocksDB a range tombstone does not answer by itself.
        let answered = match is_hit {
            true => Ticker::MemtableHit,
            false => Ticker::MemtableMiss,
        };
        observer.add(answered, 1);
        if !lookup.done() {
            let _timer = observer.time(PerfCounter::GetFromOutputFilesTime);
            self.tables_in_turn(&mut lookup, ctx, Some(observer))?;
        }
        observer.met_operands(lookup.operands());
        lookup.finish_value(ctx.merge_operator, ctx.blobs(&self.version))
    }

    /// Returns whether RocksDB asks all tables for a key, whatever their ranges: a few in level 0, and no others.
    pub(super) fn asks_all_files(&self) -> bool {
        match self.version.occupied() {
            [(0, level)] => level.files.len() <= 3,
            _ => false,
        }
    }

    /// Asks the tables one after the other, or the cache of rows what they would say.
    #[inline(never)]
    pub(super) fn tables_in_turn(
        &self,
        lookup: &mut Lookup<'_>,
        ctx: &ReadContext<'_>,
        observer: Option<&Observer<'_>>,
    ) -> Result<()> {
        let key = lookup.key();
        let hash = TableReader::filter_hash(key);
        let sample = Sample::new(self.settings.counts_wasted_reads());
        for &(n, ref level) in self.version.occupied() {
            let files: Vec<_> = match n {
                // RocksDB looks at ranges of files only if there are many.
                0 if observer.is_some() && self.asks_all_files() => level.files.iter().collect(),
                0 => level.files_covering(key).collect(),
                _ => level.files[level.find_covering(key)].iter().collect(),
            };
            for (at, file) in files.iter().enumerate() {
                let ctx = ctx.at(&self.version, n, file);
                match &ctx.cache.rows {
                    Some(rows) => lookup.in_table_by_row(rows, file, hash, &ctx)?,
                    None => lookup.in_file(file, hash, &ctx)?,
                }
                if !lookup.done() || !lookup.is_found() {
                    sample.wasted(file);
                }
                if n == 0 || at + 1 == files.len() {
                    lookup.end_place();
                }
                if lookup.done() {
                    if let Some(observer) = observer.filter(|_| lookup.is_found()) {
                        observer.hit_level(n);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
