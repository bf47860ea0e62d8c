//! A batch with marks of transactions as runs of entries, in the order in which they are inserted.

use super::prepared::{Policy, Prepared, Sections, with_timestamp};
use super::replay::Recovering;
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_wal::{BatchIter, BatchOp};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Entries that follow each other.
pub(super) struct Run<'e> {
    pub(super) entries: Cow<'e, [u8]>,
    /// Sequence number and log of a section that is inserted where it was prepared.
    pub(super) prepared_at: Option<(SequenceNumber, u64)>,
}

impl<'e> Run<'e> {
    fn new(entries: impl Into<Cow<'e, [u8]>>) -> Self {
        Self {
            entries: entries.into(),
            prepared_at: None,
        }
    }
}

/// Walks a batch whole and says what is to be inserted, as runs of entries in order, and what it
/// says about transactions.
pub(super) fn plan<'x, 'r: 'x>(
    rep: &'r [u8],
    known: &'x Prepared,
    families: &BTreeMap<u32, Recovering>,
    policy: Policy,
    repeated_mark: &[u8],
) -> Result<(Vec<Run<'x>>, Sections<'r>)> {
    let size_of = |cf: u32| {
        let family = families.get(&cf);
        Some(family.map_or(0, |f| f.family.comparator.timestamp_size()))
    };
    let mut runs: Vec<Run<'x>> = Vec::new();
    let mut sections = Sections::default();
    let mut iter = BatchIter::new(rep)?;
    // Where the present run begins, and what is not walked yet.
    let (mut from, mut rest) = (iter.rest(), iter.rest());
    while let Some(op) = iter.next() {
        let before = std::mem::replace(&mut rest, iter.rest());
        let own = &from[..from.len() - before.len()];
        match op? {
            BatchOp::BeginPrepare(kind) => {
                runs.push(Run::new(own));
                sections.begin(kind, rest, policy)?;
            }
            BatchOp::EndPrepare { xid } => sections.end(xid, before)?,
            BatchOp::Commit { xid } => {
                runs.push(Run::new(own));
                if let Some((entries, section)) = sections.find(known, xid) {
                    let at = section.filter(|_| policy == Policy::WritePrepared);
                    runs.push(Run {
                        prepared_at: at.map(|s| (s.sequence, s.log)),
                        ..Run::new(entries)
                    });
                }
                sections.decide(xid);
            }
            BatchOp::CommitWithTimestamp { ts, xid } => {
                runs.push(Run::new(own));
                if let Some((entries, _)) = sections.find(known, xid) {
                    runs.push(Run::new(with_timestamp(entries, ts, size_of)?));
                }
                sections.decide(xid);
            }
            BatchOp::Rollback { xid } => {
                runs.push(Run::new(own));
                sections.decide(xid);
            }
            BatchOp::LogData { blob } if !sections.is_open() && blob == repeated_mark => {
                sections.mark_repeated();
                continue;
            }
            _ => continue,
        }
        from = rest;
    }
    if sections.is_open() {
        return Err(Error::corruption("prepared section without end"));
    }
    runs.push(Run::new(from));
    Ok((runs, sections))
}
