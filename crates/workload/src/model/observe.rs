//! One pass over a trace.

use super::content::ValueSample;
use super::keys::{AccessedKeys, Touch, lot};
use super::mix;
use super::shape::Sizes;
use super::stored::StoredKeys;
use crate::analyze::Operation;
use spanlith::trace::{
    Extension, ExtensionReader, Query, TraceForm, TraceHeader, TraceReader, TraceRecord,
};
use spanlith_base::{Error, Result};
use spanlith_wal::{BatchIter, BatchOp};
use std::collections::{BTreeMap, HashMap};

/// Operations that are told apart.
pub(super) const OPS: usize = Operation::ALL.len();
/// Parts of a trace's time at most.
const SLOTS: usize = 512;
/// Pairs of sizes that are kept for correlations.
const PAIRS: usize = 20_000;
/// Extensions that are read ahead of their records at most.
const AHEAD: usize = 200_000;

/// How a trace is observed.
#[derive(Clone, Copy, Debug)]
pub struct ObserveOptions {
    /// Keys of all families that are kept at most; of more a share is kept that hashes choose.
    pub keys_max: usize,
}

impl Default for ObserveOptions {
    fn default() -> Self {
        Self {
            keys_max: 2_000_000,
        }
    }
}

/// One key.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Accesses by operation.
    pub counts: [u32; OPS],
    /// Requests before the first and the last access, by operation. Time is counted in requests: how dense they are, the rate says.
    pub(super) first: [u64; OPS],
    pub(super) last: [u64; OPS],
    /// It was not there when the trace began, as far as is known: its first access found nothing, or a walk did not.
    pub is_absent: bool,
}

impl Counted {
    /// Accesses by all operations.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }
}

/// A column family.
#[derive(Clone, Debug, Default)]
pub struct FamilyObservation {
    /// Accesses by operation.
    pub accesses: [u64; OPS],
    /// Keys in their order.
    pub keys: AccessedKeys,
    /// Bytes of keys, over accesses.
    pub key_sizes: Sizes,
    /// Bytes of values written.
    pub value_sizes: Sizes,
    /// Steps after seeks, as far as the file beside the trace tells.
    pub scan_lengths: Sizes,
    /// Microseconds of requests, likewise, by operation.
    pub latencies: BTreeMap<usize, Sizes>,
    /// Bytes of key and value of writes.
    pub pairs: Vec<(f64, f64)>,
    /// Values written, a few of them.
    pub values: ValueSample,
    /// Keys and values that the database held before, if it was looked at.
    pub stored: Option<StoredKeys>,
}

/// Describes what a trace says.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// By id.
    pub families: BTreeMap<u32, FamilyObservation>,
    /// Entries of a write.
    pub batch_sizes: Sizes,
    /// Keys of a multi-get.
    pub multi_get_sizes: Sizes,
    /// Records.
    pub requests: u64,
    /// Microseconds from the first to the last record.
    pub span_micros: u64,
    /// Requests in equal parts of the span.
    pub slots: Vec<u64>,
    /// Of so many keys one was kept.
    pub keys_kept_one_of: f64,
    /// There is a file beside the trace.
    pub is_extended: bool,
    /// The trace ends inside a record.
    pub is_torn: bool,
    /// Timestamp of the header.
    pub began: u64,
}

struct Watch {
    all: Observation,
    options: ObserveOptions,
    /// Keys whose lot is not larger are kept.
    threshold: u64,
    slot_micros: u64,
    first: Option<u64>,
    last: u64,
    drawn: u64,
}

impl Observation {
    /// Reads a trace of queries to its end, and the file beside it.
    ///
    /// # Errors
    /// `Corruption` if it is no trace of queries, or a record is damaged; of reading.
    pub fn read(
        trace: &mut TraceReader,
        beside: Option<ExtensionReader>,
        options: ObserveOptions,
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
        let mut watch = Watch {
            all: Self::default(),
            options,
            threshold: u64::MAX,
            slot_micros: 1,
            first: None,
            last: 0,
            drawn: 0,
        };
        watch.all.began = header.timestamp;
        // One of another trace says nothing.
        let mut beside = beside
            .filter(|b| b.timestamp() == header.timestamp)
            .map(Beside::new);
        watch.all.is_extended = beside.is_some();
        let mut ordinal = 0;
        while let Some(record) = trace.next_record()? {
            let offset = record.offset;
            let timestamp = record.timestamp;
            let extension = match &mut beside {
                Some(beside) => beside.of(ordinal)?,
                None => None,
            };
            ordinal += 1;
            match header.decode(&record)? {
                TraceRecord::End => break,
                TraceRecord::Query(query) => watch
                    .query(&query, timestamp, extension.as_ref())
                    .map_err(|e| e.with("offset", offset))?,
                _ => {}
            }
        }
        watch.all.is_torn = trace.torn().is_some();
        watch.finish()
    }

    /// Accesses of an operation in all families.
    pub fn accesses(&self, operation: Operation) -> u64 {
        let of = |f: &FamilyObservation| f.accesses[operation.id()];
        self.families.values().map(of).sum()
    }
}

impl FamilyObservation {
    /// How many keys were accessed how often by an operation.
    pub fn access_counts(&self, operation: Operation) -> Sizes {
        let mut counts = Sizes::default();
        for key in self.keys.values() {
            let n = key.counts[operation.id()];
            counts.add(u64::from(n), u64::from(n > 0));
        }
        counts
    }
}

/// The file beside a trace, read as far ahead as its records are out of order.
struct Beside {
    reader: ExtensionReader,
    ahead: HashMap<u64, Extension>,
    is_over: bool,
}

impl Beside {
    fn new(reader: ExtensionReader) -> Self {
        Self {
            reader,
            ahead: HashMap::new(),
            is_over: false,
        }
    }

    fn of(&mut self, ordinal: u64) -> Result<Option<Extension>> {
        loop {
            if let Some(found) = self.ahead.remove(&ordinal) {
                return Ok(Some(found));
            }
            if self.is_over || self.ahead.len() >= AHEAD {
                return Ok(None);
            }
            match self.reader.next_record()? {
                // Most come in their turn.
                Some(next) if next.ordinal == ordinal => return Ok(Some(next)),
                Some(next) if next.ordinal < ordinal => {}
                Some(next) => {
                    self.ahead.insert(next.ordinal, next);
                }
                None => self.is_over = true,
            }
        }
    }
}

impl Watch {
    fn query(
        &mut self,
        query: &Query<'_>,
        timestamp: u64,
        extension: Option<&Extension>,
    ) -> Result<()> {
        let first = *self.first.get_or_insert(timestamp);
        let at = timestamp.saturating_sub(first);
        self.last = self.last.max(at);
        self.slot(at);
        // From here on.
        let at = self.all.requests;
        self.all.requests += 1;
        let absent = extension.is_some_and(|e| e.found == 0);
        let time = |f: &mut FamilyObservation, operation: Operation| {
            if let Some(e) = extension {
                f.latencies
                    .entry(operation.id())
                    .or_default()
                    .add(e.nanos / 1000, 1);
            }
        };
        match query {
            Query::Get { cf, key } => {
                time(self.family(*cf), Operation::Get);
                self.access(Operation::Get, *cf, key, None, at, absent)?;
            }
            Query::MultiGet(keys) => {
                self.all.multi_get_sizes.add(keys.len() as u64, 1);
                for (cf, key) in keys.iter() {
                    self.access(Operation::MultiGet, cf, key, None, at, false)?;
                }
            }
            Query::Seek {
                backward, cf, key, ..
            } => {
                let operation = match backward {
                    false => Operation::Seek,
                    true => Operation::SeekForPrev,
                };
                let family = self.family(*cf);
                time(family, operation);
                if let Some(e) = extension {
                    family.scan_lengths.add(e.next + e.prev, 1);
                }
                self.access(operation, *cf, key, None, at, false)?;
            }
            Query::Write { batch } => {
                let mut entries = 0;
                for op in BatchIter::new(batch)? {
                    let op = op?;
                    let (operation, key, value) = match op {
                        BatchOp::Put { key, value, .. } => (Operation::Put, key, Some(value)),
                        BatchOp::Delete { key, .. } => (Operation::Delete, key, None),
                        BatchOp::SingleDelete { key, .. } => (Operation::SingleDelete, key, None),
                        BatchOp::DeleteRange { begin, .. } => (Operation::RangeDelete, begin, None),
                        BatchOp::Merge { key, value, .. } => (Operation::Merge, key, Some(value)),
                        BatchOp::WideColumnEntity { key, entity, .. } => {
                            (Operation::PutEntity, key, Some(entity))
                        }
                        _ => continue,
                    };
                    entries += 1;
                    let cf = op.cf().unwrap_or(0);
                    self.access(operation, cf, key, value, at, false)?;
                }
                self.all.batch_sizes.add(entries, 1);
            }
        }
        Ok(())
    }

    fn family(&mut self, cf: u32) -> &mut FamilyObservation {
        self.all.families.entry(cf).or_default()
    }

    fn access(
        &mut self,
        operation: Operation,
        cf: u32,
        key: &[u8],
        value: Option<&[u8]>,
        at: u64,
        absent: bool,
    ) -> Result<()> {
        let id = operation.id();
        self.drawn = mix(self.drawn.wrapping_add(1));
        let drawn = self.drawn;
        let is_kept = self.threshold == u64::MAX || lot(key) <= self.threshold;
        let family = self.all.families.entry(cf).or_default();
        family.accesses[id] += 1;
        family.key_sizes.add(key.len() as u64, 1);
        if let Some(value) = value {
            let size = value.len() as u64;
            family.value_sizes.add(size, 1);
            family.values.add(value, drawn);
            let pair = (key.len() as f64, size as f64);
            // Each with the same chance.
            let seen = family.value_sizes.total();
            match family.pairs.len() < PAIRS {
                true => family.pairs.push(pair),
                false => {
                    if let Some(kept) = family.pairs.get_mut((drawn % seen) as usize) {
                        *kept = pair;
                    }
                }
            }
        }
        if !is_kept {
            return Ok(());
        }
        let had = family.keys.len();
        let touch = Touch { op: id, at, absent };
        family.keys.add(key, touch)?;
        match family.keys.len() == had {
            true => Ok(()),
            false => self.thin(),
        }
    }

    /// Keeps half of the keys as long as they are too many.
    fn thin(&mut self) -> Result<()> {
        let kept = |all: &Observation| all.families.values().map(|f| f.keys.len()).sum::<usize>();
        while kept(&self.all) > self.options.keys_max && self.threshold > 1 {
            self.threshold /= 2;
            for family in self.all.families.values_mut() {
                family.keys.settle()?;
                family.keys.thin(self.threshold)?;
            }
        }
        Ok(())
    }

    fn slot(&mut self, at: u64) {
        while at / self.slot_micros >= SLOTS as u64 {
            let halves = self.all.slots.chunks(2);
            self.all.slots = halves.map(|pair| pair.iter().sum()).collect();
            self.slot_micros = self.slot_micros.saturating_mul(2);
        }
        let slot = (at / self.slot_micros) as usize;
        if self.all.slots.len() <= slot {
            self.all.slots.resize(slot + 1, 0);
        }
        self.all.slots[slot] += 1;
    }

    fn finish(mut self) -> Result<Observation> {
        for family in self.all.families.values_mut() {
            family.keys.settle()?;
        }
        self.thin()?;
        for family in self.all.families.values_mut() {
            family.keys.sort();
        }
        self.all.span_micros = self.last;
        self.all.keys_kept_one_of = u64::MAX as f64 / self.threshold.max(1) as f64;
        Ok(self.all)
    }
}
