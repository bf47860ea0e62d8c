//! Replays write-ahead logs in the default mode (point in time), exactly as RocksDB 11.8: replay
//! stops at the first irregularity, the rest of that log is dropped, and a later log counts only if
//! its first batch continues the sequence without a gap (`docs/formats/log.md`). On top of that, a log
//! of ours names the log before it; if that one ended elsewhere or is missing, replay stops at the gap
//! (see `core::opening`).
//!
//! Not left to the mode, because it would lose data that is whole: a batch that cannot be decoded, a
//! merge without an operator, an entry of a kind this build does not execute, and a read error all
//! fail the open.

use crate::core::{Engine, Family, FamilySettings, Opening};
use crate::flush::{TableRequest, build_table};
use crate::version::{NewFile, filenames};
use crate::write::not_executed;
use spanlith_base::{Error, Result, SequenceNumber, ValueType};
use spanlith_memtable::MemTable;
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, LogReader, ReadEvent};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What the logs held.
pub(super) struct Replayed {
    /// What each family got, by id.
    pub families: BTreeMap<u32, Recovering>,
    /// Highest sequence number seen, or what recovery began with.
    pub last_sequence: SequenceNumber,
    /// Sequence number of the first batch replayed.
    pub first_sequence: Option<SequenceNumber>,
    /// Dropped tails: log, offset, reason.
    pub dropped: Vec<(u64, u64, String)>,
}

/// What the logs held for one family.
pub(super) struct Recovering {
    pub family: Arc<Family>,
    pub settings: Arc<FamilySettings>,
    /// Older logs hold nothing for it.
    log_number: u64,
    mem: Arc<MemTable>,
    /// Tables written because memtables filled up, oldest first.
    pub tables: Vec<NewFile>,
    /// Memtables with what was not written, oldest first.
    pub mems: Vec<Arc<MemTable>>,
}

pub(super) struct Replay<'a> {
    engine: &'a Engine,
    /// Write tables when memtables fill up (else keep them all).
    may_flush: bool,
    out: Replayed,
    /// The sequence number a continuing log has to begin with, once replay has stopped.
    stopped: bool,
    next_sequence: Option<SequenceNumber>,
    /// Logs below this are retired: all they held is in tables.
    first_log: u64,
    /// Number of the log replayed last, and where the records replayed end.
    before: Option<(u64, u64)>,
    /// End of the last record replayed of the current log.
    end: u64,
}

enum Step {
    GoOn,
    /// The rest of this log is dropped.
    Stop(u64, String),
}

impl<'a> Replay<'a> {
    pub(super) fn new(engine: &'a Engine, last_sequence: u64, may_flush: bool) -> Self {
        let state = engine.state.lock();
        let families = state.families.values().map(|f| Recovering {
            family: f.family.clone(),
            settings: f.settings.clone(),
            log_number: f.log_number,
            mem: new_memtable(&f.family, &f.settings),
            tables: Vec::new(),
            mems: Vec::new(),
        });
        Self {
            engine,
            may_flush,
            out: Replayed {
                families: families.map(|f| (f.family.id, f)).collect(),
                last_sequence,
                first_sequence: None,
                dropped: Vec::new(),
            },
            stopped: false,
            next_sequence: None,
            first_log: state.kept_log,
            before: None,
            end: 0,
        }
    }

    /// Replays the logs `numbers`, ascending.
    pub(super) fn run(mut self, numbers: &[u64]) -> Result<Replayed> {
        for &n in numbers {
            let path = self.engine.path(filenames::log_file_name(n));
            self.end = 0;
            if let Step::Stop(offset, why) = self.log(n, &path)? {
                self.stopped = true;
                self.out.dropped.push((n, offset, why));
            }
            self.before = Some((n, self.end));
        }
        for f in self.out.families.values_mut() {
            if !f.mem.is_empty() {
                f.mems.push(f.mem.clone());
            }
        }
        Ok(self.out)
    }

    fn log(&mut self, number: u64, path: &Path) -> Result<Step> {
        let at = |e: Error, offset: u64| e.with_path(path).with_offset(offset);
        let file = self.engine.c.env.fs.open_sequential(path)?;
        let mut reader = LogReader::new(file, number);
        let mut first = true;
        loop {
            match reader.next_event().map_err(|e| e.with_path(path))? {
                ReadEvent::Record { offset, end } => {
                    let step = self
                        .batch(reader.record(), number, offset, first)
                        .map_err(|e| at(e, offset))?;
                    if let Step::Stop(..) = step {
                        return Ok(step);
                    }
                    self.end = end;
                    first = false;
                }
                ReadEvent::Corruption { offset, kind, .. } => {
                    return Ok(Step::Stop(offset, kind.to_string()));
                }
                ReadEvent::OldRecord { offset } => {
                    return Ok(Step::Stop(offset, "record of an older log".to_string()));
                }
                ReadEvent::TimestampSizes(_) => {
                    return Err(at(Error::not_supported("user-defined timestamps"), 0));
                }
                ReadEvent::Predecessor { .. } => {
                    return Err(at(Error::not_supported("track_and_verify_wals"), 0));
                }
                ReadEvent::Eof => return Ok(Step::GoOn),
            }
        }
    }

    /// Whether the log before ended where this one says it did.
    fn continues(&self, opening: &Opening) -> bool {
        opening.number < self.first_log || self.before == Some((opening.number, opening.size))
    }

    fn batch(&mut self, rep: &[u8], log: u64, offset: u64, first: bool) -> Result<Step> {
        if rep.len() < BATCH_HEADER_SIZE {
            return Ok(Step::Stop(offset, "log record too small".to_string()));
        }
        let iter = BatchIter::new(rep)?;
        let (sequence, count) = (iter.sequence(), iter.header_count());
        if self.stopped {
            if !first || self.next_sequence != Some(sequence) {
                return Ok(Step::Stop(
                    offset,
                    "does not continue the sequence".to_string(),
                ));
            }
            self.stopped = false;
        }
        if sequence > spanlith_base::MAX_SEQUENCE {
            return Ok(Step::Stop(
                offset,
                "sequence number out of range".to_string(),
            ));
        }
        if self.next_sequence.is_some_and(|next| sequence < next) {
            return Err(Error::corruption(format!(
                "Sequence number is being set backwards during recovery, expected at least {}",
                self.next_sequence.unwrap_or(0)
            ))
            .with("sequence", sequence));
        }
        // Decode everything before anything is inserted: a batch is recovered whole or not at all.
        let mut seqno = sequence;
        let mut found = 0u32;
        let mut entries = Vec::new();
        for op in iter {
            let op = op?;
            if let BatchOp::LogData { blob } = op {
                let opening = Opening::parse(blob, &self.engine.c.db_id);
                if first && opening.is_some_and(|o| !self.continues(&o)) {
                    let why = "the log before it is missing or ended early".to_string();
                    return Ok(Step::Stop(offset, why));
                }
                continue;
            }
            // A family that was dropped, or is not opened, or has everything in tables.
            let cf = op.cf().unwrap_or(0);
            let family = self.out.families.get(&cf);
            let Some(family) = family.filter(|f| log >= f.log_number) else {
                seqno += 1;
                found += 1;
                continue;
            };
            let (kind, key, value): (_, _, &[u8]) = match op {
                BatchOp::Put { key, value, .. } => (ValueType::Value, key, value),
                BatchOp::Delete { key, .. } => (ValueType::Deletion, key, &[]),
                BatchOp::SingleDelete { key, .. } => (ValueType::SingleDeletion, key, &[]),
                BatchOp::Merge { key, value, .. } => {
                    if family.family.merge_operator.is_none() {
                        return Err(Error::invalid_argument(
                            "merge_operator is not properly initialized. The log holds merge \
                             records: open with the operator they were written with",
                        ));
                    }
                    (ValueType::Merge, key, value)
                }
                BatchOp::DeleteRange { begin, end, .. } => {
                    match family.family.comparator.compare(begin, end) {
                        // Counted, but neither inserted nor given a number.
                        std::cmp::Ordering::Equal => {
                            found += 1;
                            continue;
                        }
                        std::cmp::Ordering::Greater => {
                            let why = "end key comes before start key".to_string();
                            return Ok(Step::Stop(offset, why));
                        }
                        std::cmp::Ordering::Less => {
                            return Err(Error::not_supported("range deletion"));
                        }
                    }
                }
                other => return Err(not_executed(&other)),
            };
            entries.push((cf, seqno, kind, key, value));
            seqno += 1;
            found += 1;
        }
        if found != count {
            return Err(Error::corruption("WriteBatch has wrong count"));
        }
        if seqno > spanlith_base::MAX_SEQUENCE {
            return Ok(Step::Stop(
                offset,
                "sequence number out of range".to_string(),
            ));
        }
        self.out.first_sequence.get_or_insert(sequence);
        for (cf, seqno, kind, key, value) in entries {
            let Some(family) = self.out.families.get(&cf) else {
                continue;
            };
            if !family.mem.add(seqno, kind, key, value) {
                return Err(Error::corruption("the log holds one sequence number twice")
                    .with("seqno", seqno));
            }
        }
        self.next_sequence = Some(seqno);
        self.out.last_sequence = self.out.last_sequence.max(seqno.saturating_sub(1));
        for family in self.out.families.values_mut() {
            family.seal_if_full(self.engine, self.may_flush)?;
        }
        Ok(Step::GoOn)
    }
}

impl Recovering {
    /// A full memtable becomes a table at once, so that replay needs no more memory than writing did.
    fn seal_if_full(&mut self, engine: &Engine, may_flush: bool) -> Result<()> {
        let limit = self.settings.options.write_buffer_size as usize;
        if !self.mem.should_flush(limit) {
            return Ok(());
        }
        let fresh = new_memtable(&self.family, &self.settings);
        let full = std::mem::replace(&mut self.mem, fresh);
        if may_flush {
            let table = self.flush(engine, &[full])?;
            self.tables.extend(table);
        } else {
            self.mems.push(full);
        }
        Ok(())
    }

    /// Writes recovered memtables as one table.
    pub(super) fn flush(&self, engine: &Engine, mems: &[Arc<MemTable>]) -> Result<Option<NewFile>> {
        if mems.is_empty() {
            return Ok(None);
        }
        let number = engine.new_file_number();
        let request = TableRequest {
            family: &self.family,
            settings: &self.settings,
            number,
            mems,
            snapshots: Vec::new(),
        };
        build_table(engine, &request)
    }
}

fn new_memtable(family: &Family, settings: &FamilySettings) -> Arc<MemTable> {
    let c = family.comparator.clone();
    Arc::new(MemTable::new(c, settings.arena_block_size()))
}
