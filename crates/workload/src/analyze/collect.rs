//! One pass over a trace.

use super::keys::{Collected, Keys, Seen};
use super::spool::{SectionWriter, Spool};
use super::{AnalyzerOptions, Operation};
use spanlith::trace::{Query, TraceForm, TraceHeader, TraceReader, TraceRecord};
use spanlith_base::{Error, Result};
use spanlith_wal::{BatchIter, BatchOp};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A line is written for each second of a trace: a clock that was set while it was taken must not fill a disk.
const LONGEST: u64 = 366 * 24 * 60 * 60;
pub(super) const SECOND: u64 = 1_000_000;
/// Bytes of an access in the series.
pub(super) const SERIES: usize = 12;
/// Says what `trace_analyzer` takes for the bytes of a value where there is none.
const NO_VALUE: u64 = 10;
/// Classes of value sizes that have a counter each from the beginning.
const SMALL: usize = 1024;
/// Records between two reports of progress.
const REPORT: u64 = 1024;

/// Numbers by second. Accesses of one second come together, as a rule.
#[derive(Debug, Default)]
pub(super) struct PerSecond {
    past: BTreeMap<u32, u32>,
    now: (u32, u32),
}

impl PerSecond {
    #[inline]
    fn add(&mut self, second: u32) {
        if self.now.0 != second {
            self.settle();
            self.now.0 = second;
        }
        self.now.1 += 1;
    }

    fn settle(&mut self) {
        let (second, n) = std::mem::take(&mut self.now);
        if n > 0 {
            *self.past.entry(second).or_default() += n;
        }
    }

    /// Numbers of all seconds; everything has been settled.
    pub(super) fn all(&self) -> &BTreeMap<u32, u32> {
        debug_assert_eq!(self.now.1, 0, "settled");
        &self.past
    }
}

/// The accesses before on a key, by what stands for the key; only kept if pairs of operations are counted.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Time of the last access.
    latest: Vec<u64>,
    /// Of each pair of operations, for each key: how often, and microseconds in between.
    pairs: Vec<(u64, u64)>,
}

impl Followed {
    /// Notes an access at a time, which completes the pairs that `completed` lists, of so many.
    fn note(&mut self, ordinal: u32, time: u64, completed: &[(usize, u64)], pairs: usize) {
        let at = ordinal as usize;
        if self.latest.len() <= at {
            self.latest.resize(at + 1, 0);
            self.pairs.resize((at + 1) * pairs, (0, 0));
        }
        self.latest[at] = time;
        for (pair, after) in completed {
            let counted = &mut self.pairs[at * pairs + pair];
            counted.0 += 1;
            counted.1 = counted.1.wrapping_add(*after);
        }
    }

    /// How often a pair, of so many, was seen on a key, and the microseconds in between.
    pub(super) fn of(&self, ordinal: u32, pair: usize, pairs: usize) -> (u64, u64) {
        let at = ordinal as usize * pairs + pair;
        self.pairs.get(at).copied().unwrap_or_default()
    }
}

/// An operation on a family.
#[derive(Debug, Default)]
pub(super) struct FamilyStats {
    pub accesses: u64,
    pub key_bytes: u64,
    pub key_bytes_squared: u64,
    pub value_bytes: u64,
    pub value_bytes_squared: u64,
    collected: Collected,
    /// In the end.
    pub keys: Keys,
    /// By size divided by the interval; the small ones are there in the end.
    pub value_sizes: BTreeMap<u64, u64>,
    small_values: Vec<u64>,
    pub followed: Followed,
    pub qps: PerSecond,
    pub prefix_qps: BTreeMap<u32, BTreeMap<Box<[u8]>, u32>>,
    /// Seconds at whose end the distinct keys are counted, with the accesses so far.
    marks: BTreeMap<u32, u64>,
    /// Distinct keys so far, at the end of a second.
    pub distinct: BTreeMap<u32, u64>,
    /// Second (8 bytes) and what stands for the key (4 bytes).
    pub series: Spool,
    /// Places of keys in their order, by what stands for them.
    pub ids: Vec<u32>,
}

impl FamilyStats {
    /// Takes an access; with a directory its second is noted in the series.
    #[inline]
    fn add(&mut self, seen: &Seen<'_>, dir: Option<&Path>) -> std::io::Result<()> {
        let series = &mut self.series;
        self.collected.add(seen, &mut |second, ordinal| {
            note(series, dir, second, ordinal)
        })
    }

    /// Counts the accesses that wait; returns what stands for the key of the last.
    fn settle(&mut self, dir: Option<&Path>) -> std::io::Result<u32> {
        let (series, mut last) = (&mut self.series, 0);
        self.collected.settle(&mut |second, ordinal| {
            last = ordinal;
            note(series, dir, second, ordinal)
        })?;
        Ok(last)
    }

    fn count_value(&mut self, class: u64) {
        match usize::try_from(class) {
            Ok(class) if class < SMALL => {
                if self.small_values.is_empty() {
                    self.small_values.resize(SMALL, 0);
                }
                self.small_values[class] += 1;
            }
            _ => *self.value_sizes.entry(class).or_default() += 1,
        }
    }

    /// Puts the keys into order, and counts those of the marks.
    fn finish(&mut self, dir: &Path, has_series: bool) -> std::io::Result<()> {
        self.qps.settle();
        self.settle(has_series.then_some(dir))?;
        let small = (0..).zip(std::mem::take(&mut self.small_values));
        self.value_sizes.extend(small.filter(|(_, n)| *n > 0));
        let collected = std::mem::take(&mut self.collected);
        let mut bounds: Vec<u64> = self.marks.values().copied().collect();
        bounds.sort_unstable();
        let mut counts = vec![0_u64; bounds.len() + 1];
        let ordinals = if has_series { collected.ordinals() } else { 0 };
        let mut ids = vec![0; ordinals as usize];
        let mut id = 0_u32;
        self.keys = collected.finish(dir, &mut |stats, ordinals| {
            counts[bounds.partition_point(|bound| *bound < stats.first)] += 1;
            for ordinal in ordinals {
                if let Some(place) = ids.get_mut(*ordinal as usize) {
                    *place = id;
                }
            }
            id = id.saturating_add(1);
        })?;
        self.ids = ids;
        let mut sum = 0;
        let sums: Vec<u64> = counts
            .iter()
            .map(|n| {
                sum += n;
                sum
            })
            .collect();
        let up_to = |mark: u64| sums[bounds.partition_point(|bound| *bound < mark)];
        self.distinct = self
            .marks
            .iter()
            .map(|(second, mark)| (*second, up_to(*mark)))
            .collect();
        Ok(())
    }
}

/// Notes an access in the series, if there is one.
fn note(series: &mut Spool, dir: Option<&Path>, second: u64, ordinal: u32) -> std::io::Result<()> {
    let Some(dir) = dir else { return Ok(()) };
    let mut bytes = [0; SERIES];
    bytes[..8].copy_from_slice(&second.to_le_bytes());
    bytes[8..].copy_from_slice(&ordinal.to_le_bytes());
    series.push(dir, &bytes)
}

/// One column family over all operations.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub qps: PerSecond,
    /// Keys in the list of its whole key space.
    pub whole_keys: u64,
}

/// One access to a key, as the trace holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// Says what was done.
    pub operation: Operation,
    /// Id of the column family.
    pub cf: u32,
    /// The key; of a range deletion its begin.
    pub key: &'a [u8],
    /// Bytes of the value; 0 where there is none.
    pub value_size: u64,
    /// Microseconds since 1970.
    pub timestamp: u64,
}

/// Is told every access of a trace, in its order.
pub type Told<'a> = dyn FnMut(&Access<'_>) -> Result<()> + 'a;

/// How many requests the trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Totals {
    /// All records but the header and the end.
    pub requests: u64,
    pub gets: u64,
    pub write_batches: u64,
    pub seeks: u64,
    pub seeks_for_prev: u64,
    pub multi_gets: u64,
}

/// Describes what a trace says.
#[derive(Debug)]
pub struct Analysis {
    pub(super) options: AnalyzerOptions,
    /// By operation, then by family.
    pub(super) stats: [BTreeMap<u32, FamilyStats>; Operation::ALL.len()],
    pub(super) families: BTreeMap<u32, Family>,
    /// How many ids of operations the release that wrote the trace knows.
    pub(super) columns: usize,
    totals: Totals,
    skipped: [u32; Operation::ALL.len()],
    /// Bytes of memory that all keys take, about.
    kept_bytes: usize,
    /// Where accesses of series wait, if there are series.
    series: Option<PathBuf>,
    /// When the trace was begun, of the first access that counts, of the last record.
    created: u64,
    begin: u64,
    end: u64,
    second: u32,
    /// Says what was wrong with the trace, if that was tolerated.
    damage: Option<Error>,
}

impl Analysis {
    /// Reads a trace of queries to its end. `progress` is told where in the file reading is, now and then;
    /// `told` gets every access that the trace holds, also of operations that are not analysed.
    ///
    /// # Errors
    /// `Corruption` if it is no trace of queries, or a record is damaged and that is not tolerated;
    /// `InvalidArgument` if it spans more than a year; what `told` returns.
    pub fn read(
        trace: &mut TraceReader,
        options: AnalyzerOptions,
        progress: &mut dyn FnMut(u64),
        told: &mut Told<'_>,
    ) -> Result<Self> {
        let header = match trace.next_record()? {
            Some(first) => TraceHeader::from_record(&first)?,
            None => return Err(Error::corruption("the trace has no header")),
        };
        let TraceForm::Queries { .. } = header.form else {
            return Err(Error::corruption(
                "Corrupted trace file. Incorrect magic. (a trace of blocks or of calls)",
            ));
        };
        let mut analysis = Self {
            series: options.time_series.then(|| options.scratch()),
            options,
            stats: Default::default(),
            families: BTreeMap::new(),
            // Entities came as an operation of their own with release 8.
            columns: Operation::ALL.len() - usize::from(header.rocksdb.0 < 8),
            totals: Totals::default(),
            skipped: Default::default(),
            kept_bytes: 0,
            created: header.timestamp,
            begin: 0,
            end: 0,
            second: 0,
            damage: None,
        };
        if let Err(e) = analysis.records(trace, &header, progress, told) {
            if !analysis.options.tolerate_damage || e.kind() != spanlith_base::ErrorKind::Corruption
            {
                return Err(e);
            }
            analysis.damage = Some(e);
        }
        analysis.finish().map_err(scratch)?;
        if analysis.begin == 0 {
            analysis.begin = analysis.created;
        }
        let span = analysis.end.saturating_sub(analysis.begin) / SECOND;
        if span > LONGEST {
            return Err(Error::invalid_argument(format!(
                "the trace spans {span} seconds, more than the {LONGEST} of a year"
            )));
        }
        Ok(analysis)
    }

    /// Puts everything into order.
    fn finish(&mut self) -> std::io::Result<()> {
        let (dir, has_series) = (self.options.scratch(), self.options.time_series);
        for stats in self.stats.iter_mut().flat_map(BTreeMap::values_mut) {
            stats.finish(&dir, has_series)?;
        }
        self.families.values_mut().for_each(|f| f.qps.settle());
        Ok(())
    }

    /// Moves keys into a file if they take more memory than they may. Which operation came before on a key is only known
    /// as long as the key is in memory, so that with correlations all stay.
    fn bound(&mut self) -> std::io::Result<()> {
        if self.kept_bytes < self.options.memory_bytes || !self.options.correlations.is_empty() {
            return Ok(());
        }
        self.kept_bytes = 0;
        let mut to = SectionWriter::create(&self.options.scratch())?;
        for stats in self.stats.iter_mut().flat_map(BTreeMap::values_mut) {
            stats.settle(self.series.as_deref())?;
            stats.collected.spill(&mut to)?;
        }
        Ok(())
    }

    /// Requests in the trace.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns what was wrong with a trace whose damage was tolerated.
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// Whole seconds from the first access that counts to the end.
    pub(super) fn duration(&self) -> u32 {
        let span = self.end.saturating_sub(self.begin) / SECOND;
        span.try_into().unwrap_or(u32::MAX)
    }

    fn records(
        &mut self,
        trace: &mut TraceReader,
        header: &TraceHeader,
        progress: &mut dyn FnMut(u64),
        told: &mut Told<'_>,
    ) -> Result<()> {
        let mut records = 0_u64;
        while let Some(record) = trace.next_record()? {
            if records.is_multiple_of(REPORT) {
                progress(record.offset);
            }
            records += 1;
            self.end = record.timestamp;
            let offset = record.offset;
            let query = match header.decode(&record) {
                Ok(TraceRecord::End) => return Ok(()),
                other => {
                    self.totals.requests += 1;
                    match other? {
                        TraceRecord::Query(query) => query,
                        _ => continue,
                    }
                }
            };
            let time = record.timestamp;
            self.query(&query, time, told)
                .map_err(|e| e.with("offset", offset))?;
        }
        Ok(())
    }

    fn query(&mut self, query: &Query<'_>, timestamp: u64, told: &mut Told<'_>) -> Result<()> {
        let access = |operation, cf, key| Access {
            operation,
            cf,
            key,
            value_size: 0,
            timestamp,
        };
        match query {
            Query::Write { batch } => {
                self.totals.write_batches += 1;
                self.batch(batch, timestamp, told)
            }
            Query::Get { cf, key } => {
                self.totals.gets += 1;
                self.access(&[access(Operation::Get, *cf, key)], told)
            }
            Query::Seek {
                backward: false,
                cf,
                key,
                ..
            } => {
                self.totals.seeks += 1;
                self.access(&[access(Operation::Seek, *cf, key)], told)
            }
            Query::Seek { cf, key, .. } => {
                self.totals.seeks_for_prev += 1;
                self.access(&[access(Operation::SeekForPrev, *cf, key)], told)
            }
            Query::MultiGet(keys) => {
                self.totals.multi_gets += 1;
                let keys = keys.iter();
                let all: Vec<_> = keys
                    .map(|(cf, key)| access(Operation::MultiGet, cf, key))
                    .collect();
                self.access(&all, told)
            }
        }
    }

    /// The entries of a batch. One that was only prepared comes again when it is committed.
    fn batch(&mut self, batch: &[u8], timestamp: u64, told: &mut Told<'_>) -> Result<()> {
        let ops = BatchIter::new(batch)?;
        if ops.header_count() == 0 {
            return Ok(());
        }
        let (mut prepared, mut committed) = (false, false);
        for op in BatchIter::new(batch)? {
            match op? {
                BatchOp::BeginPrepare(_) => prepared = true,
                BatchOp::Commit { .. } | BatchOp::CommitWithTimestamp { .. } => committed = true,
                _ => {}
            }
        }
        if prepared && !committed {
            return Ok(());
        }
        for op in ops {
            let (operation, cf, key, size) = match op? {
                BatchOp::Put { cf, key, value }
                | BatchOp::ValuePreferredSeqno { cf, key, value, .. } => {
                    (Operation::Put, cf, key, value.len())
                }
                BatchOp::Merge { cf, key, value } => (Operation::Merge, cf, key, value.len()),
                BatchOp::WideColumnEntity { cf, key, entity } => {
                    (Operation::PutEntity, cf, key, entity.len())
                }
                BatchOp::Delete { cf, key } => (Operation::Delete, cf, key, 0),
                BatchOp::SingleDelete { cf, key } => (Operation::SingleDelete, cf, key, 0),
                BatchOp::DeleteRange { cf, begin, end } => {
                    let bound = |key| Access {
                        operation: Operation::RangeDelete,
                        cf,
                        key,
                        value_size: 0,
                        timestamp,
                    };
                    self.access(&[bound(begin), bound(end)], told)?;
                    continue;
                }
                // No caller writes references to blobs.
                _ => continue,
            };
            let access = Access {
                operation,
                cf,
                key,
                value_size: size as u64,
                timestamp,
            };
            self.access(&[access], told)?;
        }
        Ok(())
    }

    /// Returns what was asked for at once: keys of one call, or both ends of a range, of which only the first is told.
    fn access(&mut self, together: &[Access<'_>], told: &mut Told<'_>) -> Result<()> {
        let Some(first) = together.first() else {
            return Ok(());
        };
        for access in together {
            told(access)?;
            if first.operation == Operation::RangeDelete {
                break;
            }
        }
        let skipped = &mut self.skipped[first.operation.id()];
        if *skipped >= self.options.sample_every {
            *skipped = 0;
        }
        *skipped += 1;
        if *skipped == 1 && self.options.is_analysed(first.operation) {
            for access in together {
                self.count(access).map_err(scratch)?;
            }
            self.bound().map_err(scratch)?;
        }
        Ok(())
    }

    fn count(&mut self, access: &Access<'_>) -> std::io::Result<()> {
        let Access {
            operation,
            cf,
            key,
            value_size,
            timestamp: time,
        } = *access;
        let value_size = match value_size {
            0 => NO_VALUE,
            n => n,
        };
        if self.begin == 0 {
            self.begin = time;
        }
        let second = time.saturating_sub(self.begin) / SECOND;
        let second = u32::try_from(second).unwrap_or(u32::MAX);
        let completed = self.completed(operation, cf, key, time);
        let options = &self.options;
        let stats = self.stats[operation.id()].entry(cf).or_default();
        stats.accesses += 1;
        stats.key_bytes = stats.key_bytes.wrapping_add(key.len() as u64);
        stats.key_bytes_squared = stats
            .key_bytes_squared
            .wrapping_add(squared(key.len() as u64));
        stats.value_bytes = stats.value_bytes.wrapping_add(value_size);
        stats.value_bytes_squared = stats.value_bytes_squared.wrapping_add(squared(value_size));
        let pairs = options.correlations.len();
        let seen = Seen {
            key,
            number: stats.accesses,
            value_size,
            second: time.wrapping_sub(self.created) / SECOND,
        };
        let (before, dir) = (stats.collected.bytes(), self.series.as_deref());
        stats.add(&seen, dir)?;
        if pairs > 0 {
            let ordinal = stats.settle(dir)?;
            stats.followed.note(ordinal, time, &completed, pairs);
        }
        self.kept_bytes += stats.collected.bytes() - before;
        if second != self.second {
            stats.marks.insert(self.second, stats.accesses);
            self.second = second;
        }
        stats.count_value(value_size / options.value_interval.max(1));
        stats.qps.add(second);
        if options.prefix_len > 0 {
            let prefix = key.get(..options.prefix_len).unwrap_or(key);
            let of_second = stats.prefix_qps.entry(second).or_default();
            *of_second.entry(prefix.into()).or_default() += 1;
        }
        let family = self.families.entry(cf).or_default();
        if options.qps {
            family.qps.add(second);
        }
        Ok(())
    }

    /// As [`Self::followed`], of the accesses that are compared: the first one of all, and later ones from the second access to
    /// their key on.
    fn completed(&self, second: Operation, cf: u32, key: &[u8], time: u64) -> Vec<(usize, u64)> {
        if self.options.correlations.is_empty() {
            return Vec::new();
        }
        let known = self.stats[second.id()].get(&cf);
        match known.is_none_or(|stats| stats.collected.get(key).is_some()) {
            true => self.followed(second, cf, key, time),
            false => Vec::new(),
        }
    }

    /// The pairs that this access completes, each with the microseconds since its first operation.
    fn followed(&self, second: Operation, cf: u32, key: &[u8], time: u64) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        for first in Operation::ALL {
            // Of a pair that is listed twice the later place counts.
            let pair = self
                .options
                .correlations
                .iter()
                .rposition(|&p| p == (first, second));
            let latest = self.stats[first.id()].get(&cf).and_then(|s| {
                let before = s.collected.get(key)?;
                s.followed.latest.get(before.ordinal as usize)
            });
            if let (Some(pair), Some(&latest)) = (pair, latest)
                && latest != time
            {
                found.push((pair, time.wrapping_sub(latest)));
            }
        }
        found
    }
}

/// An error of the files in which keys wait.
fn scratch(e: std::io::Error) -> Error {
    Error::io(format!("keeping keys outside of memory: {e}"))
}

fn squared(n: u64) -> u64 {
    n.saturating_mul(n)
}
