//! One pass over a trace.

use super::{AnalyzerOptions, Operation};
use spanlith::trace::{Query, TraceForm, TraceHeader, TraceReader, TraceRecord};
use spanlith_base::{Error, Result};
use spanlith_wal::{BatchIter, BatchOp};
use std::collections::BTreeMap;

/// A line is written for each second of a trace: a clock that was set while it was taken must not fill a disk.
const LONGEST: u64 = 366 * 24 * 60 * 60;
pub(super) const SECOND: u64 = 1_000_000;
/// What `trace_analyzer` takes for the bytes of a value where there is none.
const NO_VALUE: u64 = 10;

/// One key as an operation saw it.
#[derive(Clone, Debug)]
pub(super) struct KeyStats {
    /// When among the keys of its operation and family it came first.
    pub ordinal: u32,
    /// Of the first access.
    pub value_size: u64,
    pub accesses: u64,
    latest: u64,
    /// Of each pair of operations: how often, and microseconds in between.
    pub followed: Vec<(u64, u64)>,
}

/// An operation on a family.
#[derive(Debug, Default)]
pub(super) struct FamilyStats {
    pub accesses: u64,
    pub key_bytes: u64,
    pub key_bytes_squared: u64,
    pub value_bytes: u64,
    pub value_bytes_squared: u64,
    pub keys: BTreeMap<Box<[u8]>, KeyStats>,
    /// By size divided by the interval.
    pub value_sizes: BTreeMap<u64, u64>,
    /// By second.
    pub qps: BTreeMap<u32, u32>,
    pub prefix_qps: BTreeMap<u32, BTreeMap<Box<[u8]>, u32>>,
    /// Distinct keys so far, at the end of a second.
    pub distinct: BTreeMap<u32, u64>,
    /// Second and ordinal of the key.
    pub series: Vec<(u64, u32)>,
}

/// One column family over all operations.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub qps: BTreeMap<u32, u32>,
    /// Keys in the list of its whole key space.
    pub whole_keys: u64,
}

/// One access to a key, as the trace holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// What was done.
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

/// What a trace says.
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
    /// When the trace was begun, of the first access that counts, of the last record.
    created: u64,
    begin: u64,
    end: u64,
    second: u32,
    /// What was wrong with the trace, if that was tolerated.
    damage: Option<Error>,
}

impl Analysis {
    /// Reads a trace of queries to its end. `progress` is told where in the file reading is, at each record;
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
            options,
            stats: Default::default(),
            families: BTreeMap::new(),
            // Entities came as an operation of their own with release 8.
            columns: Operation::ALL.len() - usize::from(header.rocksdb.0 < 8),
            totals: Totals::default(),
            skipped: Default::default(),
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

    /// Requests in the trace.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What was wrong with a trace whose damage was tolerated.
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
        while let Some(record) = trace.next_record()? {
            progress(record.offset);
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

    /// What was asked for at once: keys of one call, or both ends of a range, of which only the first is told.
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
                self.count(access);
            }
        }
        Ok(())
    }

    fn count(&mut self, access: &Access<'_>) {
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
        let is_new = !self.stats[operation.id()].contains_key(&cf);
        let is_known = !is_new && self.stats[operation.id()][&cf].keys.contains_key(key);
        // The first key of all is compared with the other operations, later ones from their second access on.
        let followed = match is_new || is_known {
            true => self.followed(operation, cf, key, time),
            false => Vec::new(),
        };
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
        if !is_known {
            let unit = KeyStats {
                ordinal: u32::try_from(stats.keys.len()).unwrap_or(u32::MAX),
                value_size,
                accesses: 0,
                latest: time,
                followed: vec![(0, 0); pairs],
            };
            stats.keys.insert(key.into(), unit);
        }
        let distinct = stats.keys.len() as u64;
        if let Some(unit) = stats.keys.get_mut(key) {
            unit.accesses += 1;
            for (pair, after) in followed {
                unit.followed[pair].0 += 1;
                unit.followed[pair].1 = unit.followed[pair].1.wrapping_add(after);
            }
            unit.latest = time;
            if options.time_series {
                let of_trace = time.wrapping_sub(self.created) / SECOND;
                stats.series.push((of_trace, unit.ordinal));
            }
        }
        if second != self.second {
            stats.distinct.insert(self.second, distinct);
            self.second = second;
        }
        *stats
            .value_sizes
            .entry(value_size / options.value_interval.max(1))
            .or_default() += 1;
        *stats.qps.entry(second).or_default() += 1;
        if options.prefix_len > 0 {
            let prefix = key.get(..options.prefix_len).unwrap_or(key);
            let of_second = stats.prefix_qps.entry(second).or_default();
            *of_second.entry(prefix.into()).or_default() += 1;
        }
        let family = self.families.entry(cf).or_default();
        if options.qps {
            *family.qps.entry(second).or_default() += 1;
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
            let before = self.stats[first.id()]
                .get(&cf)
                .and_then(|s| s.keys.get(key));
            if let (Some(pair), Some(before)) = (pair, before)
                && before.latest != time
            {
                found.push((pair, time.wrapping_sub(before.latest)));
            }
        }
        found
    }
}

fn squared(n: u64) -> u64 {
    n.saturating_mul(n)
}
