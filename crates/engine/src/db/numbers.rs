//! How many sequence numbers a batch of a log took.
//!
//! One per update, but for two-phase commit under the default policy: updates of a prepared section are counted in the header
//! and take none; those of its transaction take theirs with the commit, whose header counts none of them.

use crate::write::WriteBatch;
use spanlith_wal::BatchOp;
use std::collections::BTreeMap;

/// Describes what one batch took.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Sequence numbers.
    pub(super) numbers: u64,
    /// It commits a section that was not seen: it took more, nobody knows how many.
    pub(super) or_more: bool,
}

/// Sections that were prepared and not decided yet, by name, with the number of their updates.
#[derive(Debug, Default)]
pub(super) struct Sections(BTreeMap<Vec<u8>, u64>);

impl Sections {
    /// Takes in a batch, in the order of the log. One that could not be shown yet may come again before [`Self::forget`].
    pub(super) fn take(&mut self, batch: &WriteBatch) -> Taken {
        if !batch.raw().is_ok_and(|raw| raw.has_two_phase()) {
            return Taken {
                numbers: batch.len() as u64,
                or_more: false,
            };
        }
        let mut taken = Taken::default();
        let mut section = None;
        for op in batch
            .operations()
            .into_iter()
            .flatten()
            .map_while(Result::ok)
        {
            match op {
                BatchOp::BeginPrepare(_) => section = Some(0),
                BatchOp::EndPrepare { xid } => {
                    let updates = section.take().unwrap_or(0);
                    self.0.insert(xid.to_vec(), updates);
                }
                BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
                    match self.0.get(xid) {
                        Some(updates) => taken.numbers += updates,
                        None => taken.or_more = true,
                    }
                }
                BatchOp::LogData { .. } => {}
                update if update.cf().is_some() => match &mut section {
                    Some(updates) => *updates += 1,
                    None => taken.numbers += 1,
                },
                _ => {}
            }
        }
        taken
    }

    /// Adds what is known from elsewhere.
    pub(super) fn add(&mut self, others: Self) {
        for (xid, updates) in others.0 {
            self.0.entry(xid).or_insert(updates);
        }
    }

    /// The batch was shown or passed over: what it decides about is not asked for again.
    pub(super) fn forget(&mut self, batch: &WriteBatch) {
        if !batch.raw().is_ok_and(|raw| raw.has_two_phase()) {
            return;
        }
        let operations = batch.operations().into_iter().flatten();
        for op in operations.map_while(Result::ok) {
            if let BatchOp::Commit { xid }
            | BatchOp::CommitWithTimestamp { xid, .. }
            | BatchOp::Rollback { xid } = op
            {
                self.0.remove(xid);
            }
        }
    }
}

/// Returns whether the batch is a section that was written before, for a log that failed.
pub(super) fn is_repeated(batch: &WriteBatch, mark: &[u8]) -> bool {
    if !batch.raw().is_ok_and(|raw| raw.has_begin_prepare()) {
        return false;
    }
    let operations = batch.operations().into_iter().flatten();
    let is_mark = |op| matches!(op, Ok(BatchOp::LogData { blob }) if blob == mark);
    operations.last().is_some_and(is_mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::FamilyRef;
    use spanlith_wal::PrepareKind;

    fn section(xid: &[u8], updates: u32) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.mark_noop();
        for n in 0..updates {
            batch.put_cf(FamilyRef::by_id(0), n.to_le_bytes(), "v");
        }
        batch.mark_prepared(xid, PrepareKind::Committed).unwrap();
        batch
    }

    fn taken(numbers: u64, or_more: bool) -> Taken {
        Taken { numbers, or_more }
    }

    #[test]
    fn a_section_takes_its_numbers_with_its_commit() {
        let mut sections = Sections::default();
        let mut plain = WriteBatch::new();
        plain.put("k", "v").put_log_data("x").delete("k");
        assert_eq!(sections.take(&plain), taken(2, false));
        let a = section(b"a", 3);
        assert_eq!(sections.take(&a), taken(0, false));
        let mut commit = WriteBatch::new();
        commit.put("k", "v").mark_commit(b"a");
        // A walk may come back to what it could not show yet.
        assert_eq!(sections.take(&commit), taken(4, false));
        assert_eq!(sections.take(&commit), taken(4, false));
        sections.forget(&commit);
        assert_eq!(sections.take(&commit), taken(1, true));
        let mut unknown = WriteBatch::new();
        unknown.mark_commit(b"b");
        assert_eq!(sections.take(&unknown), taken(0, true));
        let mut rollback = WriteBatch::new();
        rollback.mark_rollback(b"a");
        assert_eq!(sections.take(&rollback), taken(0, false));
    }
}
