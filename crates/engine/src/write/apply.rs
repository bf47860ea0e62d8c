//! Inserting what was logged into the memtables: the stage "apply" of a write.
//!
//! The leader inserts through its slots; followers of a large group insert their own batches at the
//! same time, through the superversions. Merge operands may be folded into what their keys hold
//! (`max_successive_merges`); that reads, so that groups which may meet such an operand are
//! inserted by the leader alone.

use super::check::not_executed;
use super::urgent::address;
use crate::core::{Engine, MemSlot, Payload, Request, TransactionWrite, slot_of};
use crate::read::folded;
use spanlith_base::{Error, Pinned, Result, SequenceNumber, Severity, ValueType, callbacks, keys};
use spanlith_memtable::MemTable;
use spanlith_wal::{BatchIter, BatchOp};
use std::sync::Arc;

/// Memtables by family.
pub(super) trait Memtables {
    /// The mutable memtable of a family that is known to exist.
    fn of(&mut self, cf: u32) -> Result<&MemTable>;

    /// Returns whether merge operands of that family may be folded into what their keys hold.
    #[inline]
    fn folds(&self, _: u32) -> bool {
        false
    }

    /// Inserts a merge operand, or what it makes of its key.
    #[inline]
    fn merge(&mut self, cf: u32, seqno: SequenceNumber, key: &[u8], operand: &[u8]) -> Result<()> {
        insert(self.of(cf)?, seqno, ValueType::Merge, key, operand)
    }
}

/// The leader's.
pub(super) struct Slots<'a> {
    pub engine: &'a Engine,
    pub slots: &'a [MemSlot],
    pub touched: &'a mut Vec<usize>,
}

impl Memtables for Slots<'_> {
    #[inline(always)]
    fn of(&mut self, cf: u32) -> Result<&MemTable> {
        if cf == 0 {
            return Ok(&self.slots[0].mem);
        }
        self.other(cf)
    }

    #[inline]
    fn folds(&self, cf: u32) -> bool {
        slot_of(self.slots, cf).is_some_and(|at| self.slots[at].merges.max != 0)
    }

    fn merge(&mut self, cf: u32, seqno: SequenceNumber, key: &[u8], operand: &[u8]) -> Result<()> {
        if self.folds(cf)
            && let Some((kind, value)) = self.fold(cf, seqno, key, operand)
        {
            return insert(self.of(cf)?, seqno, kind, key, &value);
        }
        insert(self.of(cf)?, seqno, ValueType::Merge, key, operand)
    }
}

impl Slots<'_> {
    /// The memtable of another family than the default one.
    fn other(&mut self, cf: u32) -> Result<&MemTable> {
        let at = slot_of(self.slots, cf).ok_or_else(unknown_family)?;
        if self.touched.last() != Some(&at) {
            self.touched.push(at);
            let clock = &self.engine.c.env.clock;
            self.slots[at].mem.note_first_write(|| clock.now_seconds());
        }
        Ok(&self.slots[at].mem)
    }

    /// Returns what the operand makes of its key, if the memtable has as many operands of it in a row as it
    /// may. A failure to tell leaves the operand as it is, as in RocksDB: readers meet it again.
    #[cold]
    fn fold(
        &self,
        cf: u32,
        seqno: SequenceNumber,
        key: &[u8],
        operand: &[u8],
    ) -> Option<(ValueType, Pinned)> {
        let slot = &self.slots[slot_of(self.slots, cf)?];
        if slot.family.comparator.timestamp_size() != 0 {
            return None;
        }
        let mut entry = slot.mem.find(key, seqno);
        for _ in 0..slot.merges.max {
            let e = entry?;
            if keys::tag_type(e.tag()) != ValueType::Merge as u8 {
                return None;
            }
            entry = e.next_older();
        }
        let cached_only = !slot.merges.reads_files;
        // Others wait behind this write, and a write of the operator would wait for this one.
        let _inside = callbacks::enter(callbacks::Place::Write(address(self.engine)));
        let is_counted = self.engine.counts_reads();
        let folded = folded(&slot.family, key, operand, seqno, cached_only, is_counted);
        folded.ok().flatten()
    }
}

/// Of a batch that touches only the default family.
struct Single<'a>(&'a MemTable);

impl Memtables for Single<'_> {
    #[inline(always)]
    fn of(&mut self, _: u32) -> Result<&MemTable> {
        Ok(self.0)
    }
}

/// A follower's, found through the superversions.
pub(crate) struct Published<'a> {
    pub engine: &'a Engine,
    pub last: Option<(u32, Arc<MemTable>)>,
}

impl Memtables for Published<'_> {
    fn of(&mut self, cf: u32) -> Result<&MemTable> {
        if self.last.as_ref().is_none_or(|l| l.0 != cf) {
            let set = self.engine.families.load();
            let family = set.get(cf).ok_or_else(unknown_family)?;
            let mem = family.superversion.load().mem.clone();
            if cf != 0 {
                mem.note_first_write(|| self.engine.c.env.clock.now_seconds());
            }
            self.last = Some((cf, mem));
        }
        match &self.last {
            Some((_, mem)) => Ok(mem),
            None => Err(unknown_family()),
        }
    }
}

#[cold]
fn unknown_family() -> Error {
    Error::corruption("W4: a checked write names an unknown column family")
        .with_severity(Severity::Fatal)
}

/// Inserts the entries of one request. Fails only on a broken promise.
#[inline(always)]
pub(super) fn apply(to: &mut impl Memtables, r: &Request<'_>) -> Result<()> {
    match r.payload {
        Payload::One {
            cf,
            kind: ValueType::Merge,
            key,
            value,
        } => to.merge(cf, r.seqno, key, value),
        Payload::One {
            cf,
            kind,
            key,
            value,
        } => insert(to.of(cf)?, r.seqno, kind, key, value),
        Payload::Batch {
            body,
            families: true,
            ignore_missing: true,
            ..
        } => apply_known(to, body, r.seqno).map(drop),
        Payload::Batch { body, families, .. } => apply_batch(to, body, families, r.seqno),
        Payload::Transaction(t) => apply_parts(to, t, r.seqno),
    }
}

/// Inserts what a transaction has for the memtables.
#[cold]
fn apply_parts(
    to: &mut impl Memtables,
    step: &TransactionWrite<'_>,
    mut seqno: SequenceNumber,
) -> Result<()> {
    for part in step.applied {
        seqno = match step.ignore_missing {
            true => apply_known(to, part, seqno)?,
            false => apply_entries(to, part, seqno)?,
        };
    }
    Ok(())
}

#[inline(never)]
fn apply_batch(
    to: &mut impl Memtables,
    body: &[u8],
    families: bool,
    seqno: SequenceNumber,
) -> Result<()> {
    if families || to.folds(0) {
        apply_entries(to, body, seqno).map(drop)
    } else {
        apply_entries(&mut Single(to.of(0)?), body, seqno).map(drop)
    }
}

/// Inserts the entries of a batch whose families exist; the others take their numbers only.
#[cold]
fn apply_known(
    to: &mut impl Memtables,
    body: &[u8],
    mut seqno: SequenceNumber,
) -> Result<SequenceNumber> {
    let mut iter = BatchIter::entries(body);
    let mut before = iter.rest();
    while let Some(op) = iter.next() {
        let op = op?;
        let entry = &before[..before.len() - iter.rest().len()];
        before = iter.rest();
        match op.cf() {
            Some(cf) if to.of(cf).is_err() => seqno += 1,
            Some(_) => seqno = apply_entries(to, entry, seqno)?,
            None => {}
        }
    }
    Ok(seqno)
}

/// Inserts the entries of a batch, the first with number `seqno`; the number after the last.
#[inline]
fn apply_entries(
    to: &mut impl Memtables,
    body: &[u8],
    mut seqno: SequenceNumber,
) -> Result<SequenceNumber> {
    let mut iter = BatchIter::entries(body);
    loop {
        while let Some((key, value)) = iter.next_plain() {
            let mem = to.of(0)?;
            match value {
                Some(value) => insert(mem, seqno, ValueType::Value, key, value)?,
                None => {
                    let timed = mem.comparator().timestamp_size() != 0;
                    insert(mem, seqno, deletion_type(timed), key, &[])?;
                }
            }
            seqno += 1;
        }
        let Some(op) = iter.next() else {
            return Ok(seqno);
        };
        let (cf, kind, key, value): (_, _, _, &[u8]) = match op? {
            BatchOp::Put { cf, key, value } => (cf, ValueType::Value, key, value),
            BatchOp::Delete { cf, key } => {
                let mem = to.of(cf)?;
                let timed = mem.comparator().timestamp_size() != 0;
                insert(mem, seqno, deletion_type(timed), key, &[])?;
                seqno += 1;
                continue;
            }
            BatchOp::WideColumnEntity { cf, key, entity } => {
                (cf, ValueType::WideColumnEntity, key, entity)
            }
            BatchOp::ValuePreferredSeqno { cf, key, value } => {
                (cf, ValueType::ValuePreferredSeqno, key, value)
            }
            BatchOp::SingleDelete { cf, key } => (cf, ValueType::SingleDeletion, key, &[]),
            BatchOp::Merge { cf, key, value } => {
                to.merge(cf, seqno, key, value)?;
                seqno += 1;
                continue;
            }
            BatchOp::LogData { .. } | BatchOp::Noop => continue,
            BatchOp::DeleteRange { cf, begin, end } => {
                let mem = to.of(cf)?;
                // An empty range is counted but gets no number, as in replay.
                if mem.comparator().compare(begin, end).is_lt() {
                    mem.add_range_tombstone(seqno, begin, end);
                    seqno += 1;
                }
                continue;
            }
            other => return Err(not_executed(&other)),
        };
        insert(to.of(cf)?, seqno, kind, key, value)?;
        seqno += 1;
    }
}

#[inline]
fn insert(
    mem: &MemTable,
    seqno: SequenceNumber,
    kind: ValueType,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    if mem.add(seqno, kind, key, value) {
        return Ok(());
    }
    Err(entered_twice(seqno))
}

#[cold]
fn entered_twice(seqno: SequenceNumber) -> Error {
    Error::corruption("M2: two entries share user key and sequence number")
        .with("seqno", seqno)
        .with_severity(Severity::Fatal)
}

/// The type of a deletion in a table: another one in families with timestamps.
#[inline]
pub(crate) fn deletion_type(timed: bool) -> ValueType {
    if timed {
        ValueType::DeletionWithTimestamp
    } else {
        ValueType::Deletion
    }
}
