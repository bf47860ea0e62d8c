//! The merge operator interface.

use spanlith_base::wide_columns::{ColumnKind, WideColumns};

/// Folds operands into a value. Must be deterministic: it runs in reads, flushes and compactions.
pub trait MergeOperator: Send + Sync {
    /// Name recorded in tables.
    fn name(&self) -> &str;

    /// Text recorded in OPTIONS: the name, with the settings that change what the operator does if there
    /// are any, as `{id=StringAppendOperator;delimiter=,;}`.
    fn options_text(&self) -> String {
        self.name().to_string()
    }

    /// The value after applying `operands`, oldest first, to `existing` (`None` if the key was
    /// absent or deleted). `None` fails the read with `Corruption: Merge operator failed`.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;

    /// One operand equal to `operands`, oldest first, or `None` to keep them apart.
    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }

    /// As [`Self::full_merge`], for operators that know entities.
    ///
    /// By default an entity's default column is the existing value (empty if there is none) and
    /// takes the result; the other columns stay. Requires: the default column is no blob; callers
    /// fetch it first.
    fn full_merge_v3(
        &self,
        key: &[u8],
        existing: MergeBase<'_>,
        operands: &[&[u8]],
    ) -> Option<MergeResult> {
        let merged = |existing| self.full_merge(key, existing, operands);
        match existing {
            MergeBase::None => merged(None).map(MergeResult::Value),
            MergeBase::Value(value) => merged(Some(value)).map(MergeResult::Value),
            MergeBase::Entity(columns) => {
                let default = columns.default_column();
                if default.is_some_and(|c| c.kind == ColumnKind::Blob) {
                    return None;
                }
                let value = merged(Some(default.map_or(&[][..], |c| c.value)))?;
                let entity = columns.with_default_value(&value).ok()?;
                Some(MergeResult::Entity(entity))
            }
        }
    }

    /// Returns whether [`Self::partial_merge`] may be asked with a single operand.
    fn allow_single_operand(&self) -> bool {
        false
    }

    /// Returns whether a read that has met these operands, newest first, need not look for older ones.
    fn should_merge(&self, _newest_first: &[&[u8]]) -> bool {
        false
    }
}

/// Describes what operands are applied to.
#[derive(Clone, Copy, Debug)]
pub enum MergeBase<'a> {
    /// The key was absent or deleted.
    None,
    /// A value.
    Value(&'a [u8]),
    /// An entity.
    Entity(WideColumns<'a>),
}

/// Describes what a merge makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// A value.
    Value(Vec<u8>),
    /// An encoded entity.
    Entity(Vec<u8>),
}
