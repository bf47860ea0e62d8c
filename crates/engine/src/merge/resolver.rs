//! Collects the operands of one key, newest first, and folds them when the base is known.

use super::MergeOperator;
use spanlith_base::{Error, Pinned, Result, SubCode};
use std::sync::Arc;

/// Folds `operands` (newest first, as collected) onto `base`.
///
/// # Errors
/// `InvalidArgument` without an operator, `Corruption` if the operator gives up; texts as RocksDB's
/// point reads.
pub fn full_merge(
    operator: Option<&Arc<dyn MergeOperator>>,
    key: &[u8],
    base: Option<&[u8]>,
    newest_first: &[Pinned],
) -> Result<Vec<u8>> {
    let operator = operator
        .ok_or_else(|| Error::invalid_argument("merge_operator is not properly initialized."))?;
    let operands: Vec<&[u8]> = newest_first.iter().rev().map(|p| &**p).collect();
    operator
        .full_merge(key, base, &operands)
        .ok_or_else(|| Error::corruption("").with_subcode(SubCode::MergeOperatorFailed))
}

/// Operands met so far while a lookup descends from newer to older places.
#[derive(Debug, Default)]
pub struct MergeState {
    operands: Vec<Pinned>,
}

impl MergeState {
    /// Adds an operand older than all before.
    pub fn push(&mut self, operand: Pinned) {
        self.operands.push(operand);
    }

    /// Whether none was met.
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The operands, newest first.
    pub fn operands(&self) -> &[Pinned] {
        &self.operands
    }
}
