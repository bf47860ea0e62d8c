//! Collects the operands of one key, newest first, and folds them when the base is known.

use super::{MergeBase, MergeOperator, MergeResult};
use spanlith_base::{Error, Pinned, Result, SubCode};
use std::sync::Arc;

/// Folds `operands` (newest first, as collected) onto `base`, which may be an entity; the result is
/// one then too.
///
/// # Errors
/// `InvalidArgument` without an operator, `Corruption` if the operator gives up; texts as RocksDB's
/// point reads.
pub fn full_merge_onto(
    operator: Option<&Arc<dyn MergeOperator>>,
    key: &[u8],
    base: MergeBase<'_>,
    newest_first: &[Pinned],
) -> Result<MergeResult> {
    let operator = operator
        .ok_or_else(|| Error::invalid_argument("merge_operator is not properly initialized."))?;
    let operands: Vec<&[u8]> = newest_first.iter().rev().map(|p| &**p).collect();
    full_merge(operator, key, base, &operands)
}

/// Folds `operands`, oldest first, onto `base`.
///
/// # Errors
/// `Corruption` if the operator gives up.
pub fn full_merge(
    operator: &Arc<dyn MergeOperator>,
    key: &[u8],
    base: MergeBase<'_>,
    operands: &[&[u8]],
) -> Result<MergeResult> {
    operator
        .full_merge_v3(key, base, operands)
        .ok_or_else(|| Error::corruption("").with_subcode(SubCode::MergeOperatorFailed))
}

/// Operands met so far while a lookup descends from newer to older places.
#[derive(Debug, Default)]
pub struct MergeState {
    /// `None` before the first, so that lookups that meet none make and drop one word.
    met: Option<Box<Met>>,
}

#[derive(Debug, Default)]
struct Met {
    newest_first: Vec<Pinned>,
}

impl MergeState {
    /// No operand.
    pub const EMPTY: Self = Self { met: None };

    /// Adds an operand older than all before.
    pub fn push(&mut self, operand: Pinned) {
        self.met.get_or_insert_default().newest_first.push(operand);
    }

    /// Returns whether none was met.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.met.is_none()
    }

    /// The operands, newest first.
    pub fn operands(&self) -> &[Pinned] {
        self.met.as_ref().map_or(&[], |met| &met.newest_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::operator_by_name;
    use spanlith_base::wide_columns::{ColumnKind, WideColumn, WideColumns, encode_entity};

    fn entity(columns: &[WideColumn<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_entity(&mut columns.to_vec(), &mut out).unwrap();
        out
    }

    fn merge_onto(bytes: &[u8]) -> Result<MergeResult> {
        let base = MergeBase::Entity(WideColumns::decode(bytes).unwrap());
        let operands = [Pinned::from_static(b"new"), Pinned::from_static(b"old")];
        full_merge_onto(
            operator_by_name("stringappend").as_ref(),
            b"k",
            base,
            &operands,
        )
    }

    #[test]
    fn operands_on_an_entity_change_its_default_column() {
        let other = WideColumn::new(b"c", b"stays");
        let bytes = entity(&[other, WideColumn::new(b"", b"base")]);
        let expected = entity(&[other, WideColumn::new(b"", b"base,old,new")]);
        assert_eq!(merge_onto(&bytes).unwrap(), MergeResult::Entity(expected));
        // Without a default column the base is empty, not absent.
        let expected = entity(&[other, WideColumn::new(b"", b",old,new")]);
        assert_eq!(
            merge_onto(&entity(&[other])).unwrap(),
            MergeResult::Entity(expected)
        );
    }

    #[test]
    fn a_default_column_in_a_blob_file_is_not_mistaken_for_the_value() {
        let blob = WideColumn {
            kind: ColumnKind::Blob,
            ..WideColumn::new(b"", b"index")
        };
        let e = merge_onto(&entity(&[blob])).unwrap_err();
        assert_eq!(e.subcode(), Some(SubCode::MergeOperatorFailed));
    }

    #[test]
    fn plain_bases_make_plain_values() {
        let operator = operator_by_name("max");
        let operands = [Pinned::from_static(b"m")];
        let merge = |base| full_merge_onto(operator.as_ref(), b"k", base, &operands).unwrap();
        assert_eq!(merge(MergeBase::None), MergeResult::Value(b"m".to_vec()));
        assert_eq!(
            merge(MergeBase::Value(b"z")),
            MergeResult::Value(b"z".to_vec())
        );
        let e = full_merge_onto(None, b"k", MergeBase::None, &operands).unwrap_err();
        assert_eq!(
            e.to_string(),
            "Invalid argument: merge_operator is not properly initialized."
        );
    }
}
