//! The way of ordinary batches through replay: those that say nothing of transactions, whose entries take
//! a number each and need no second look. One walk collects what is to be inserted.
//!
//! Whatever else a batch holds, and whatever is wrong with it, is left to the way that knows all of it
//! ([`super::replay`]): nothing was inserted by then.

use super::replay::{Recovering, recycled};
use crate::write::deletion_type;
use spanlith_base::{Error, Result, SequenceNumber, ValueType};
use spanlith_memtable::MemTable;
use spanlith_wal::{BatchIter, BatchOp};
use std::collections::BTreeMap;

/// An entry to insert.
struct Entry<'e> {
    mem: &'e MemTable,
    seqno: SequenceNumber,
    kind: ValueType,
    key: &'e [u8],
    value: &'e [u8],
}

/// The entries of a batch.
pub(super) struct Plain<'e> {
    entries: Vec<Entry<'e>>,
    /// The first number that is free behind the batch.
    pub(super) next: SequenceNumber,
    /// The families that got something: none, the one, or several.
    pub(super) written: Written,
}

/// Families that a batch wrote to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Nothing,
    One(u32),
    Several,
}

impl Written {
    fn and(self, cf: u32) -> Self {
        match self {
            Self::Nothing => Self::One(cf),
            Self::One(known) if known == cf => self,
            _ => Self::Several,
        }
    }
}

/// Memory for the entries of the next batch: most have one, and a list of its own would cost as much.
#[derive(Default)]
pub(super) struct Spare(Vec<Entry<'static>>);

/// What the batch `rep` of the log `log` comes to, numbered from `next` on; `None` if it is no ordinary one.
pub(super) fn collect<'e>(
    rep: &'e [u8],
    log: u64,
    families: &'e BTreeMap<u32, Recovering>,
    mut next: SequenceNumber,
    spare: &mut Spare,
) -> Option<Plain<'e>> {
    let mut entries: Vec<Entry<'e>> = recycled(std::mem::take(&mut spare.0));
    let mut written = Written::Nothing;
    let mut last: Option<(u32, &Recovering)> = None;
    for op in BatchIter::new(rep).ok()? {
        let (cf, kind, key, value): (_, _, _, &[u8]) = match op.ok()? {
            BatchOp::Put { cf, key, value } => (cf, ValueType::Value, key, value),
            BatchOp::Delete { cf, key } => (cf, ValueType::Deletion, key, &[]),
            BatchOp::SingleDelete { cf, key } => (cf, ValueType::SingleDeletion, key, &[]),
            BatchOp::Merge { cf, key, value } => (cf, ValueType::Merge, key, value),
            BatchOp::LogData { .. } | BatchOp::Noop => continue,
            _ => return None,
        };
        let seqno = next;
        next += 1;
        let family = match last {
            Some((known, family)) if known == cf => family,
            _ => {
                // Of a family that was dropped, or is not opened.
                let Some(family) = families.get(&cf) else {
                    continue;
                };
                last = Some((cf, family));
                family
            }
        };
        if log < family.log_number {
            continue;
        }
        let kind = match kind {
            ValueType::Merge if family.family.merge_operator.is_none() => return None,
            ValueType::Deletion => deletion_type(family.family.comparator.timestamp_size() != 0),
            kind => kind,
        };
        written = written.and(cf);
        entries.push(Entry {
            mem: &family.mem,
            seqno,
            kind,
            key,
            value,
        });
    }
    Some(Plain {
        entries,
        next,
        written,
    })
}

impl Plain<'_> {
    /// Inserts the entries, and leaves their memory in `spare`.
    ///
    /// # Errors
    /// `Corruption` if a sequence number is taken.
    pub(super) fn insert(mut self, spare: &mut Spare) -> Result<()> {
        for e in self.entries.drain(..) {
            if !e.mem.add(e.seqno, e.kind, e.key, e.value) {
                return Err(taken(e.seqno));
            }
        }
        spare.0 = recycled(self.entries);
        Ok(())
    }
}

/// Two entries of the logs have one sequence number.
pub(super) fn taken(seqno: SequenceNumber) -> Error {
    Error::corruption("the log holds one sequence number twice").with("seqno", seqno)
}
