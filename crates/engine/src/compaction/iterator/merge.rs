//! Folding of merge operands in flushes and compactions.
//!
//! Operands of one key in one stripe are folded onto what lies below them, or with one another. With
//! timestamps only entries of one timestamp are, except in history that was given up: there the newest
//! version takes in all earlier ones. A version that may still be read at its own time never takes in an
//! earlier one, which would vanish for reads between the two. RocksDB lets it.

use super::{CompactionIter, short_timed_put};
use crate::blob::BlobRead;
use crate::filter::{FilterDecision, FilterValue};
use crate::merge::{MergeBase, MergeResult, full_merge_onto};
use spanlith_base::keys::{self, ValueType};
use spanlith_base::wide_columns::WideColumns;
use spanlith_base::{Error, Pinned, Result, SequenceNumber};

/// Describes what tells entries of one key apart.
struct Own {
    seqno: SequenceNumber,
    /// Empty in families without timestamps.
    timestamp: Vec<u8>,
}

impl CompactionIter {
    /// Returns whether the input stands on an entry that may be folded with the current key: one of the same
    /// timestamp or, in history that was given up, of any earlier one.
    fn on_foldable(&self) -> bool {
        if self.is_history {
            self.on_version()
        } else {
            self.on_user_key()
        }
    }

    /// Returns what tells the input's entry from others of the current key.
    fn own(&self, seqno: SequenceNumber) -> Own {
        let user = keys::user_key(self.input.key());
        Own {
            seqno,
            timestamp: self.s.comparator.split_timestamp(user).1.to_vec(),
        }
    }

    /// Folds the merge operands of one stripe.
    pub(super) fn merge(&mut self, newest: SequenceNumber, stripe: usize) -> Result<()> {
        let mut operands: Vec<Pinned> = Vec::new();
        let mut owns: Vec<Own> = Vec::new();
        let mut base: Option<(ValueType, Own, Pinned)> = None;
        // A range tombstone ends the history, and itself stays in the output.
        let mut ended = false;
        let mut is_first = true;
        while self.on_foldable() {
            let tag = keys::tag(self.input.key());
            let seqno = keys::tag_sequence(tag);
            if self.stripe_of(seqno) != stripe {
                break;
            }
            if !self.s.ranges.is_empty() && self.is_covered(seqno) {
                if keys::tag_type(tag) == ValueType::Merge as u8 {
                    // Goes, and decides nothing: only a value below the tombstone ends the history,
                    // as in RocksDB. Folded here, a filter would meet a value instead of operands. It
                    // is asked before anyone looks at the range.
                    if let Err(until) = self.filter_operand(seqno, self.input.value_pinned()) {
                        self.dropped.filtered += operands.len() as u64;
                        self.skip_until(&until);
                        return Ok(());
                    }
                    self.dropped.covered += 1;
                    self.step();
                    continue;
                }
                ended = true;
                break;
            }
            match ValueType::from_byte(keys::tag_type(tag)) {
                Some(ValueType::Merge) => {
                    let joined = !std::mem::take(&mut is_first);
                    match self.filter_operand(seqno, self.input.value_pinned()) {
                        Ok(Some(operand)) => {
                            operands.push(operand);
                            owns.push(self.own(seqno));
                        }
                        Ok(None) => self.dropped.filtered += 1,
                        Err(until) => {
                            self.dropped.filtered += operands.len() as u64;
                            self.skip_until(&until);
                            return Ok(());
                        }
                    }
                    if joined {
                        self.step_joined();
                    } else {
                        self.step();
                    }
                }
                Some(_) if operands.is_empty() => break,
                Some(
                    k @ (ValueType::Value
                    | ValueType::BlobIndex
                    | ValueType::WideColumnEntity
                    | ValueType::ValuePreferredSeqno
                    | ValueType::Deletion
                    | ValueType::DeletionWithTimestamp
                    | ValueType::SingleDeletion),
                ) => {
                    base = Some((k, self.own(seqno), self.input.value_pinned()));
                    self.step_joined();
                    break;
                }
                _ => break,
            }
        }
        self.input.status()?;
        if operands.is_empty() {
            // A filter or range tombstones left nothing to fold. As in RocksDB, what lies below counts as a
            // key's newest entry: a filter is asked about it, even if the range covers it as well.
            self.has_user = false;
            return Ok(());
        }
        let Some(operator) = self.s.merge_operator.clone() else {
            return Err(Error::invalid_argument(
                "merge_operator is not properly initialized.",
            ));
        };
        // The beginning of history counts as a deletion. As in RocksDB, only the deepest compaction
        // looks for it: a filter would see a value where there are operands.
        let folded = (operands.len() + usize::from(base.is_some())) as u64 - 1;
        let at_beginning = base.is_none()
            && !ended
            && (!self.is_timed() || self.is_history)
            && !self.on_foldable()
            && self.s.bottommost
            && self.nothing_below();
        if base.is_some() || at_beginning || ended {
            let blob = match &base {
                Some((ValueType::BlobIndex, _, index)) => {
                    let how = BlobRead::of_job();
                    let (blobs, version) = (&self.s.blobs, &self.s.version);
                    let value = blobs.resolve(version, self.user(), index, how)?;
                    if let Some(counts) = &mut self.counts {
                        counts.blob(self.user_len, index);
                    }
                    Some(value)
                }
                _ => None,
            };
            let entity = match &base {
                Some((ValueType::WideColumnEntity, _, v)) => self.whole_entity(v)?,
                _ => None,
            };
            let existing = match (&base, &blob) {
                (_, Some(value)) => MergeBase::Value(value),
                (Some((ValueType::Value, _, v)), _) => MergeBase::Value(v),
                (Some((ValueType::ValuePreferredSeqno, _, v)), _) => {
                    MergeBase::Value(keys::timed_value(v).ok_or_else(short_timed_put)?)
                }
                (Some((ValueType::WideColumnEntity, _, v)), _) => {
                    MergeBase::Entity(WideColumns::decode(entity.as_deref().unwrap_or(v))?)
                }
                _ => MergeBase::None,
            };
            match full_merge_onto(Some(&operator), self.user(), existing, &operands) {
                Ok(MergeResult::Value(v)) => {
                    self.dropped.folded += folded;
                    self.enqueue(ValueType::Value, newest, Pinned::from_vec(v));
                    return Ok(());
                }
                Ok(MergeResult::Entity(v)) => {
                    self.dropped.folded += folded;
                    self.enqueue(ValueType::WideColumnEntity, newest, Pinned::from_vec(v));
                    return Ok(());
                }
                Err(_) => {}
            }
            // An operator that gives up fails reads, not compactions: keep everything.
        } else if operands.len() > 1 {
            let oldest_first: Vec<&[u8]> = operands.iter().rev().map(|p| &**p).collect();
            if let Some(v) = operator.partial_merge(self.user(), &oldest_first) {
                self.dropped.folded += folded;
                self.enqueue(ValueType::Merge, newest, Pinned::from_vec(v));
                self.has_user = false;
                return Ok(());
            }
        }
        for (own, operand) in owns.iter().zip(operands) {
            self.enqueue_unchanged(ValueType::Merge, own, operand);
        }
        match base {
            Some((kind, own, value)) if self.is_timed() => {
                self.enqueue_unchanged(kind, &own, value);
            }
            Some((kind, own, value)) => self.enqueue(kind, own.seqno, value),
            // As in RocksDB, what lies below operands without a base counts as a key's newest
            // entry: a filter is asked about it, whatever snapshots see.
            None => self.has_user = false,
        }
        Ok(())
    }

    /// Asks the filter about an operand. `Err` holds the key to skip to.
    fn filter_operand(
        &self,
        seqno: SequenceNumber,
        operand: Pinned,
    ) -> std::result::Result<Option<Pinned>, Vec<u8>> {
        let Some((filter, level)) = &self.s.filter else {
            return Ok(Some(operand));
        };
        if self.s.snapshots.last().is_some_and(|&s| seqno <= s) {
            // A snapshot may need it to fold the same value as before.
            return Ok(Some(operand));
        }
        match filter.filter(*level, self.user(), FilterValue::Operand(&operand)) {
            FilterDecision::Keep | FilterDecision::Purge | FilterDecision::ChangeEntity(_) => {
                Ok(Some(operand))
            }
            FilterDecision::Remove => Ok(None),
            FilterDecision::ChangeValue(new) => Ok(Some(Pinned::from_vec(new))),
            FilterDecision::RemoveAndSkipUntil(until) => {
                if self.s.comparator.compare(&until, self.user()).is_gt() {
                    Err(until)
                } else {
                    Ok(Some(operand))
                }
            }
        }
    }

    /// Queues an entry of the current key with its own timestamp and number.
    fn enqueue_unchanged(&mut self, kind: ValueType, own: &Own, value: Pinned) {
        let mut key = keys::internal_key(self.user(), keys::pack_tag(own.seqno, kind as u8));
        let size = own.timestamp.len();
        key[self.user_len - size..self.user_len].copy_from_slice(&own.timestamp);
        self.queue.push_back((key, value));
        self.output_one = true;
    }
}
