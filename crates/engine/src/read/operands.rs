//! Describes what the merge operands of a key are, before anything folds them.

use super::get::{Lookup, ReadContext};
use crate::core::SuperVersion;
use spanlith_base::{Error, Pinned, Result, SequenceNumber, SubCode};

impl SuperVersion {
    /// The operands of `key`, oldest first, after the value they apply to if there is one.
    ///
    /// # Errors
    /// `Incomplete` if they are more than `max`; of the tables.
    pub(super) fn merge_operands(
        &self,
        key: &[u8],
        max: usize,
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
    ) -> Result<Vec<Pinned>> {
        let mut lookup = Lookup::new(key, snapshot, ctx.ignore_ranges);
        self.look_up(&mut lookup, ctx)?;
        let (operands, base) = lookup.into_operands();
        let operands = operands.operands();
        if operands.len() + usize::from(base.is_some()) > max {
            return Err(
                Error::incomplete("").with_subcode(SubCode::MergeOperandsInsufficientCapacity)
            );
        }
        let base = base.map(|stored| stored.into_value(key, ctx.blobs(&self.version)));
        let mut all: Vec<Pinned> = base.transpose()?.into_iter().collect();
        all.extend(operands.iter().rev().cloned());
        Ok(all)
    }
}
