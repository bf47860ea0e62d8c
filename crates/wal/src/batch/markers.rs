//! Markers of two-phase commit, and batches of which only a part goes to the log.
//!
//! ```text
//! a transaction's batch   Noop, entries...
//! prepared                BeginPrepare, entries..., EndPrepare(xid)     the Noop is overwritten
//! decided                 [commit-time entries,] Commit(xid) | Rollback(xid)
//! ```
//!
//! A committing write logs the decision only and applies the prepared entries as well: they are
//! appended after the point where the log ends ([`WriteBatch::end_log_here`]). Markers are not
//! counted and not subject to the batch's limit.

use super::{BATCH_HEADER_SIZE, ContentFlags, SavePoint, VALUE_SIZE_MAX, WriteBatch, too_long};
use crate::batch_iter::{PrepareKind, tag};
use spanlith_base::coding::put_varint64;
use spanlith_base::{Error, Result};

impl WriteBatch {
    /// Adds an entry that does nothing: a place for [`Self::mark_prepared`], or the border between
    /// two batches whose entries have different sequence numbers.
    pub fn mark_noop(&mut self) {
        self.rep.push(tag::NOOP);
    }

    /// Makes a batch that begins with a no-op the prepared section `xid`. Save points are forgotten.
    ///
    /// # Errors
    /// `InvalidArgument` if it begins otherwise, or if the name is too long.
    pub fn mark_prepared(&mut self, xid: &[u8], kind: PrepareKind) -> Result<()> {
        check_len(xid)?;
        let Some(first) = self
            .rep
            .get_mut(BATCH_HEADER_SIZE)
            .filter(|first| **first == tag::NOOP)
        else {
            return Err(Error::invalid_argument(
                "a batch to be prepared begins with a no-op",
            ));
        };
        let (begin, flag) = match kind {
            PrepareKind::Committed => (tag::BEGIN_PREPARE, ContentFlags::BEGIN_PREPARE),
            PrepareKind::Prepared => (tag::BEGIN_PERSISTED_PREPARE, ContentFlags::BEGIN_PREPARE),
            PrepareKind::Unprepared => (tag::BEGIN_UNPREPARE, ContentFlags::BEGIN_UNPREPARE),
        };
        *first = begin;
        self.save_points.clear();
        self.push_marker(tag::END_PREPARE, xid, flag | ContentFlags::END_PREPARE);
        Ok(())
    }

    /// Adds the marker that commits transaction `xid`.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is too long.
    pub fn mark_commit(&mut self, xid: &[u8]) -> Result<()> {
        check_len(xid)?;
        self.push_marker(tag::COMMIT, xid, ContentFlags::COMMIT);
        Ok(())
    }

    /// Adds the marker that commits transaction `xid`, whose entries get timestamp `ts`.
    ///
    /// # Errors
    /// `InvalidArgument` if the name or the timestamp is too long, or the timestamp is empty.
    pub fn mark_commit_with_timestamp(&mut self, xid: &[u8], ts: &[u8]) -> Result<()> {
        check_len(xid)?;
        check_len(ts)?;
        if ts.is_empty() {
            return Err(Error::invalid_argument("commit timestamp is empty"));
        }
        self.rep.push(tag::COMMIT_WITH_TIMESTAMP);
        put_varint64(&mut self.rep, ts.len() as u64);
        self.rep.extend_from_slice(ts);
        put_varint64(&mut self.rep, xid.len() as u64);
        self.rep.extend_from_slice(xid);
        self.flags.0 |= ContentFlags::COMMIT;
        Ok(())
    }

    /// Adds the marker that rolls transaction `xid` back.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is too long.
    pub fn mark_rollback(&mut self, xid: &[u8]) -> Result<()> {
        check_len(xid)?;
        self.push_marker(tag::ROLLBACK, xid, ContentFlags::ROLLBACK);
        Ok(())
    }

    fn push_marker(&mut self, marker: u8, xid: &[u8], flags: u16) {
        self.rep.push(marker);
        put_varint64(&mut self.rep, xid.len() as u64);
        self.rep.extend_from_slice(xid);
        self.flags.0 |= flags;
    }

    /// Every update added from now on is applied but does not go to the log.
    pub fn end_log_here(&mut self) {
        let (len, count, flags) = (self.rep.len(), self.count(), self.flags);
        self.log_end = Some(SavePoint { len, count, flags });
    }

    /// Returns whether a part of the batch does not go to the log.
    #[inline]
    pub fn ends_log_early(&self) -> bool {
        self.log_end.is_some()
    }

    /// The entries that go to the log, without the header, and their count.
    pub fn log_part(&self) -> (&[u8], u32) {
        match self.log_end {
            None => (self.body(), self.count()),
            Some(end) => (
                self.rep.get(BATCH_HEADER_SIZE..end.len).unwrap_or_default(),
                end.count,
            ),
        }
    }

    /// Appends those entries of `other` that go to the log; as [`Self::append`].
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_log_part(&mut self, other: &WriteBatch) -> Result<()> {
        let (body, count) = other.log_part();
        let flags = other.log_end.map_or(other.flags, |end| end.flags);
        let sums = other.checksums();
        let sums = sums.get(..count as usize).unwrap_or_default();
        self.append_entries(body, count, flags, sums)
    }
}

fn check_len(bytes: &[u8]) -> Result<()> {
    if bytes.len() as u64 > VALUE_SIZE_MAX {
        return Err(too_long("value is too large"));
    }
    Ok(())
}
