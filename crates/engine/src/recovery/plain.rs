//! The way of ordinary batches through replay: those that say nothing of transactions, whose entries take
//! a number each and need no second look. One walk collects what is to be inserted, and it is inserted
//! together with that of other batches ([`Loader`](spanlith_memtable::Loader)).
//!
//! Batches that hold anything else, and damaged ones, are left to the way that knows all of it
//! ([`super::replay`]): nothing was inserted by then.

use super::replay::{Recovering, is_new, recycled};
use crate::write::deletion_type;
use spanlith_base::{Result, SequenceNumber, ValueType};
use spanlith_wal::{BatchIter, BatchOp};
use std::collections::BTreeMap;

/// An entry to insert.
struct Entry<'e> {
    cf: u32,
    seqno: SequenceNumber,
    kind: ValueType,
    key: &'e [u8],
    value: &'e [u8],
}

/// The entries of a batch.
pub(super) struct Plain<'e> {
    entries: Vec<Entry<'e>>,
    /// The first number that is free after the batch.
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

/// Returns what the batch `rep` of the log `log` comes to, numbered from `next` on; `None` if it is no ordinary one.
pub(super) fn collect<'e>(
    rep: &'e [u8],
    log: u64,
    families: &BTreeMap<u32, Recovering>,
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
            cf,
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
    /// Has the entries inserted, and leaves their memory in `spare`.
    ///
    /// # Errors
    /// `Corruption` if a sequence number is taken.
    pub(super) fn insert(
        mut self,
        families: &mut BTreeMap<u32, Recovering>,
        spare: &mut Spare,
    ) -> Result<()> {
        let mut rest = self.entries.drain(..).peekable();
        while let Some(e) = rest.next() {
            let Some(family) = families.get_mut(&e.cf) else {
                continue;
            };
            family.add(&e)?;
            while let Some(e) = rest.next_if(|next| next.cf == e.cf) {
                family.add(&e)?;
            }
        }
        drop(rest);
        spare.0 = recycled(self.entries);
        Ok(())
    }
}

impl Recovering {
    fn add(&mut self, e: &Entry<'_>) -> Result<()> {
        is_new(self.loader.add(e.seqno, e.kind, e.key, e.value))
    }
}
