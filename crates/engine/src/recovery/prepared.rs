//! Prepared sections of two-phase commit that are found in logs.
//!
//! A section is set aside under the name of its transaction until a log says what became of it: a
//! commit applies it at the sequence number of the commit, a rollback drops it. What is left at the
//! end is kept for whoever opens transactions, and so are the logs that hold it (WAL3). A decision
//! about an unknown name is none: its section was in a log that is gone, so everything is in tables.
//!
//! Sections of the policies write-prepared and write-unprepared are refused by name, as RocksDB
//! refuses them under its default policy, unless the caller says that the policy was write-prepared:
//! see [`super::numbering`]. Entries of such a section that nobody decided about may be in tables
//! already, where nothing tells them apart; then the open is refused.

use crate::core::PreparedSection;
use spanlith_base::{Error, Result, SequenceNumber};
use spanlith_wal::{PrepareKind, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};

/// How transactions of the logs were written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// There are none; a prepared section is refused.
    None,
    /// Entries take effect with the commit, and get their numbers then.
    WriteCommitted,
    /// Entries got their numbers when they were prepared.
    WritePrepared,
}

/// Describes what one batch says about transactions, beside its own entries.
#[derive(Default)]
pub(super) struct Sections<'r> {
    /// Name and entries.
    prepared: Vec<(&'r [u8], &'r [u8])>,
    /// Commits and rollbacks, in order.
    decided: Vec<&'r [u8]>,
    /// Where a section that has no end yet began.
    open: Option<&'r [u8]>,
    /// The sections were written before, to a log that failed since.
    are_repeated: bool,
}

impl<'r> Sections<'r> {
    /// Returns whether the walk stands inside a section.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// A section begins before `rest`.
    ///
    /// # Errors
    /// `NotSupported` unless prepared sections are allowed and of the right policy, `Corruption` for
    /// a section within a section.
    pub(super) fn begin(
        &mut self,
        kind: PrepareKind,
        rest: &'r [u8],
        policy: Policy,
    ) -> Result<()> {
        if policy == Policy::None {
            return Err(Error::not_supported(
                "WAL contains prepared transactions. Open with TransactionDB::Open().",
            ));
        }
        let tag = match (kind, policy) {
            (PrepareKind::Committed, Policy::WriteCommitted)
            | (PrepareKind::Prepared, Policy::WritePrepared) => {
                if self.open.replace(rest).is_some() {
                    return Err(Error::corruption("prepared section within another"));
                }
                return Ok(());
            }
            (PrepareKind::Committed, _) => {
                return Err(Error::not_supported(
                    "WriteCommitted txn tag when write_after_commit_ is disabled (in \
                     WritePrepared/WriteUnprepared mode). If it is not due to corruption, the WAL \
                     must be emptied before changing the WritePolicy.",
                ));
            }
            (PrepareKind::Prepared, _) => "WritePrepared/WriteUnprepared",
            (PrepareKind::Unprepared, _) => "WriteUnprepared",
        };
        Err(Error::not_supported(format!(
            "{tag} txn tag when write_after_commit_ is enabled (in default WriteCommitted mode). If \
             it is not due to corruption, the WAL must be emptied before changing the WritePolicy."
        )))
    }

    /// The section `xid` ends with a marker, the first of the bytes `before_marker`.
    ///
    /// # Errors
    /// `Corruption` if none began.
    pub(super) fn end(&mut self, xid: &'r [u8], before_marker: &'r [u8]) -> Result<()> {
        let Some(from) = self.open.take() else {
            return Err(Error::corruption("end of a prepared section without begin"));
        };
        let len = from.len() - before_marker.len();
        self.prepared.push((xid, &from[..len]));
        Ok(())
    }

    /// The sections of this batch are marked as repeated.
    pub(super) fn mark_repeated(&mut self) {
        self.are_repeated = true;
    }

    /// The transaction `xid` was decided.
    pub(super) fn decide(&mut self, xid: &'r [u8]) {
        self.decided.push(xid);
    }

    /// The entries prepared as `xid`, by this batch or an earlier one.
    pub(super) fn find<'x>(
        &self,
        known: &'x Prepared,
        xid: &[u8],
    ) -> Option<(&'x [u8], Option<&'x PreparedSection>)>
    where
        'r: 'x,
    {
        let own = self.prepared.iter().rev().find(|p| p.0 == xid);
        own.map(|p| (p.1, None)).or_else(|| {
            let section = known.sections.get(xid)?;
            Some((section.entries.as_slice(), Some(section)))
        })
    }

    /// The entries that this batch prepares, by section.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'r [u8]> + '_ {
        self.prepared.iter().map(|p| p.1)
    }
}

/// All sections that are not decided yet, by name of the transaction, and the names whose last section was decided.
#[derive(Default)]
pub(super) struct Prepared {
    sections: BTreeMap<Vec<u8>, PreparedSection>,
    decided: BTreeSet<Vec<u8>>,
}

impl Prepared {
    /// Takes in what a batch of `log` says, once it was replayed.
    pub(super) fn take(&mut self, sections: Sections<'_>, log: u64, sequence: SequenceNumber) {
        for (xid, entries) in sections.prepared {
            // A log that failed may hold the decision that its writer was not sure of when it wrote the section again.
            if sections.are_repeated && self.decided.contains(xid) {
                continue;
            }
            let entries = entries.to_vec();
            let section = PreparedSection {
                log,
                sequence,
                entries,
            };
            self.sections.insert(xid.to_vec(), section);
            self.decided.remove(xid);
        }
        for xid in sections.decided {
            if self.sections.remove(xid).is_some() {
                self.decided.insert(xid.to_vec());
            }
        }
    }

    /// Returns what is undecided, by name of the transaction.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &PreparedSection)> {
        self.sections
            .iter()
            .map(|(xid, section)| (xid.as_slice(), section))
    }

    /// Returns what is undecided.
    pub(super) fn into_inner(self) -> BTreeMap<Vec<u8>, PreparedSection> {
        self.sections
    }
}

/// The entries of a section with `ts` as timestamp of every key.
///
/// # Errors
/// As [`WriteBatch::update_timestamps`].
pub(super) fn with_timestamp(
    entries: &[u8],
    ts: &[u8],
    size_of: impl Fn(u32) -> Option<usize>,
) -> Result<Vec<u8>> {
    let mut rep = vec![0; spanlith_wal::BATCH_HEADER_SIZE];
    rep.extend_from_slice(entries);
    let mut batch = WriteBatch::from_rep(rep);
    batch.update_timestamps(ts, size_of)?;
    Ok(batch.body().to_vec())
}
