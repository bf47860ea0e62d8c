//! Single deletes in flushes and compactions: each cancels the one value below it.

use super::CompactionIter;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::{Error, Pinned, Result, SequenceNumber};

/// Returns what a single delete is for.
fn is_value(kind: Option<ValueType>) -> bool {
    use ValueType::{BlobIndex, Value, ValuePreferredSeqno, WideColumnEntity};
    matches!(
        kind,
        Some(Value | BlobIndex | WideColumnEntity | ValuePreferredSeqno)
    )
}

#[cold]
fn broken_contract() -> Error {
    Error::corruption(
        "Found SD and type: 0 on the same key, violating the contract of SingleDelete. \
         Check your application to make sure the application does not mix SingleDelete and \
         Delete for the same key.",
    )
}

impl CompactionIter {
    /// Handles a single delete, or an entry that a filter turns into one.
    pub(super) fn single_deletion(&mut self, seqno: SequenceNumber, stripe: usize) -> Result<()> {
        self.step();
        let timed = self.is_timed();
        // It deletes the version below, whatever its timestamp; history has to keep both.
        let kept = timed && !self.is_history;
        let follows = match timed {
            true => self.on_version(),
            false => self.on_user_key(),
        };
        if !follows {
            self.input.status()?;
            let gone = !kept && self.seen_by_all(seqno) && self.nothing_below();
            if gone {
                self.dropped.obsolete += 1;
                self.dropped.single_fallthru += 1;
            } else {
                self.enqueue(ValueType::SingleDeletion, seqno, Pinned::default());
            }
            return Ok(());
        }
        let next = keys::tag(self.input.key());
        if self.stripe_of(keys::tag_sequence(next)) != stripe {
            self.enqueue(ValueType::SingleDeletion, seqno, Pinned::default());
            return Ok(());
        }
        match ValueType::from_byte(keys::tag_type(next)) {
            Some(kind @ (ValueType::SingleDeletion | ValueType::Deletion)) => {
                // The older one takes over: look at it as the first of its stripe.
                self.dropped.cancelled += 1;
                self.dropped.superseded += 1;
                self.dropped.mismatched += 1;
                self.stripe = None;
                if kind == ValueType::Deletion && self.s.enforce_single_deletes {
                    return Err(broken_contract());
                }
                Ok(())
            }
            _ if kept => {
                self.enqueue(ValueType::SingleDeletion, seqno, Pinned::default());
                Ok(())
            }
            // A transaction looks for it: the single delete stays and hides the value.
            kind if is_value(kind) && seqno > self.s.conflicts_from => {
                self.enqueue(ValueType::SingleDeletion, seqno, Pinned::default());
                Ok(())
            }
            kind => {
                if !is_value(kind) {
                    self.dropped.mismatched += 1;
                }
                // The pair cancels. Older entries of the stripe stay hidden.
                self.dropped.cancelled += 2;
                self.dropped.pairs += 1;
                self.step_joined();
                Ok(())
            }
        }
    }
}
