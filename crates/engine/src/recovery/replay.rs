//! Replays write-ahead logs in the default mode (point in time), exactly as RocksDB 11.8: replay
//! stops at the first irregularity, the rest of that log is dropped, and a later log counts only if
//! its first batch continues the sequence without a gap (`docs/formats/log.md`). On top of that, a log
//! of ours names the log before it; if that one ended elsewhere or is missing, replay stops at the gap
//! (see `core::opening`).
//!
//! Not left to the mode, because it would lose data that is whole: a batch that cannot be decoded, a
//! merge without an operator, an entry of a kind this build does not execute, and a read error all
//! fail the open.

use crate::core::{Engine, Opening};
use crate::flush::{TableRequest, build_table};
use crate::version::{NewFile, filenames};
use crate::write::not_executed;
use spanlith_base::{Error, Result, SequenceNumber, ValueType};
use spanlith_memtable::MemTable;
use spanlith_wal::{BATCH_HEADER_SIZE, BatchIter, BatchOp, LogReader, ReadEvent};
use std::path::Path;
use std::sync::Arc;

/// What the logs held.
pub(super) struct Replayed {
    /// Tables written because memtables filled up, oldest first.
    pub tables: Vec<NewFile>,
    /// Memtables with what was not written, oldest first.
    pub mems: Vec<Arc<MemTable>>,
    /// Highest sequence number seen, or what recovery began with.
    pub last_sequence: SequenceNumber,
    /// Sequence number of the first batch replayed.
    pub first_sequence: Option<SequenceNumber>,
    /// Dropped tails: log, offset, reason.
    pub dropped: Vec<(u64, u64, String)>,
}

pub(super) struct Replay<'a> {
    engine: &'a Engine,
    /// Write tables when memtables fill up (else keep them all).
    may_flush: bool,
    mem: Arc<MemTable>,
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
        let first_log = engine.state.lock().log_number;
        Self {
            engine,
            may_flush,
            mem: new_memtable(engine),
            out: Replayed {
                tables: Vec::new(),
                mems: Vec::new(),
                last_sequence,
                first_sequence: None,
                dropped: Vec::new(),
            },
            stopped: false,
            next_sequence: None,
            first_log,
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
        if !self.mem.is_empty() {
            self.out.mems.push(self.mem);
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
                        .batch(reader.record(), offset, first)
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

    fn batch(&mut self, rep: &[u8], offset: u64, first: bool) -> Result<Step> {
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
            let (kind, key, value): (_, _, &[u8]) = match op? {
                BatchOp::LogData { blob } => {
                    let opening = Opening::parse(blob, &self.engine.c.db_id);
                    if first && opening.is_some_and(|o| !self.continues(&o)) {
                        let why = "the log before it is missing or ended early".to_string();
                        return Ok(Step::Stop(offset, why));
                    }
                    continue;
                }
                BatchOp::Put { cf: 0, key, value } => (ValueType::Value, key, value),
                BatchOp::Delete { cf: 0, key } => (ValueType::Deletion, key, &[]),
                BatchOp::SingleDelete { cf: 0, key } => (ValueType::SingleDeletion, key, &[]),
                BatchOp::Merge { cf: 0, key, value } => {
                    if self.engine.c.family.merge_operator.is_none() {
                        return Err(Error::invalid_argument(
                            "merge_operator is not properly initialized. The log holds merge \
                             records: open with the operator they were written with",
                        ));
                    }
                    (ValueType::Merge, key, value)
                }
                BatchOp::DeleteRange { cf: 0, begin, end } => {
                    match self.engine.c.family.comparator.compare(begin, end) {
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
                op if op.cf().is_some_and(|cf| cf != 0) => {
                    return Err(Error::not_supported("column families other than default"));
                }
                other => return Err(not_executed(&other)),
            };
            entries.push((seqno, kind, key, value));
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
        for (seqno, kind, key, value) in entries {
            if !self.mem.add(seqno, kind, key, value) {
                return Err(Error::corruption("the log holds one sequence number twice")
                    .with("seqno", seqno));
            }
        }
        self.next_sequence = Some(seqno);
        self.out.last_sequence = self.out.last_sequence.max(seqno.saturating_sub(1));
        self.seal_if_full()?;
        Ok(Step::GoOn)
    }

    /// A full memtable becomes a table at once, so that replay needs no more memory than writing did.
    fn seal_if_full(&mut self) -> Result<()> {
        let limit = self.engine.c.family.options.write_buffer_size as usize;
        if !self.mem.should_flush(limit) {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.mem, new_memtable(self.engine));
        if self.may_flush {
            self.out
                .tables
                .extend(flush_recovered(self.engine, &[full])?);
        } else {
            self.out.mems.push(full);
        }
        Ok(())
    }
}

fn new_memtable(engine: &Engine) -> Arc<MemTable> {
    let c = engine.c.family.comparator.clone();
    Arc::new(MemTable::new(c, engine.arena_block_size()))
}

/// Writes recovered memtables as one table.
pub(super) fn flush_recovered(engine: &Engine, mems: &[Arc<MemTable>]) -> Result<Option<NewFile>> {
    let number = engine.new_file_number();
    let request = TableRequest {
        number,
        mems,
        snapshots: Vec::new(),
    };
    build_table(engine, &request)
}
