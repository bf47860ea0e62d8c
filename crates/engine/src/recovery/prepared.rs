//! Prepared sections of two-phase commit that are found in logs.
//!
//! A section is set aside under the name of its transaction until a log says what became of it: a
//! commit applies it at the sequence number of the commit, a rollback drops it. What is left at the
//! end is kept for whoever opens transactions, and so are the logs that hold it (WAL3). A decision
//! about an unknown name is none: its section was in a log that is gone, so everything is in tables.
//!
//! Sections of the policies write-prepared and write-unprepared are refused by name, as RocksDB
//! refuses them under its default policy.

use crate::core::PreparedSection;
use spanlith_base::{Error, Result};
use spanlith_wal::{PrepareKind, WriteBatch};
use std::collections::BTreeMap;

/// What one batch says about transactions, beside its own entries.
#[derive(Default)]
pub(super) struct Sections<'r> {
    /// Name and entries.
    prepared: Vec<(&'r [u8], &'r [u8])>,
    /// Commits and rollbacks, in order.
    decided: Vec<&'r [u8]>,
    /// Where a section that has no end yet began.
    open: Option<&'r [u8]>,
}

impl<'r> Sections<'r> {
    /// Whether the walk stands inside a section.
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
        allow_2pc: bool,
    ) -> Result<()> {
        if !allow_2pc {
            return Err(Error::not_supported(
                "WAL contains prepared transactions. Open with TransactionDB::Open().",
            ));
        }
        let tag = match kind {
            PrepareKind::Committed => {
                if self.open.replace(rest).is_some() {
                    return Err(Error::corruption("prepared section within another"));
                }
                return Ok(());
            }
            PrepareKind::Prepared => "WritePrepared/WriteUnprepared",
            PrepareKind::Unprepared => "WriteUnprepared",
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

    /// The transaction `xid` was decided.
    pub(super) fn decide(&mut self, xid: &'r [u8]) {
        self.decided.push(xid);
    }

    /// The entries prepared as `xid`, by this batch or an earlier one.
    pub(super) fn find<'x>(&self, known: &'x Prepared, xid: &[u8]) -> Option<&'x [u8]>
    where
        'r: 'x,
    {
        let own = self.prepared.iter().rev().find(|p| p.0 == xid);
        own.map(|p| p.1)
            .or_else(|| known.0.get(xid).map(|p| p.entries.as_slice()))
    }
}

/// All sections that are not decided yet, by name of the transaction.
#[derive(Default)]
pub(super) struct Prepared(BTreeMap<Vec<u8>, PreparedSection>);

impl Prepared {
    /// Takes in what a batch of `log` says, once it was replayed.
    pub(super) fn take(&mut self, sections: Sections<'_>, log: u64) {
        for (xid, entries) in sections.prepared {
            let entries = entries.to_vec();
            self.0
                .insert(xid.to_vec(), PreparedSection { log, entries });
        }
        for xid in sections.decided {
            self.0.remove(xid);
        }
    }

    /// What is undecided.
    pub(super) fn into_inner(self) -> BTreeMap<Vec<u8>, PreparedSection> {
        self.0
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
