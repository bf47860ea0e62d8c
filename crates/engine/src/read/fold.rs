//! Describes what a merge operand makes of its key, for writers that fold it in at once
//! (`max_successive_merges`).

use super::ReadOptions;
use super::get::{Lookup, ReadContext};
use super::stored::Stored;
use crate::core::Family;
use spanlith_base::wide_columns::WideColumns;
use spanlith_base::{Pinned, Result, SequenceNumber, ValueType};

/// The entry that `key` has once `operand` is merged into what it holds at `seqno`; `None` if it
/// holds nothing. Reads no file if `cached_only`.
///
/// # Errors
/// `Incomplete` if `cached_only` and a file would have to be read; of the files and of the
/// merge operator.
#[cold]
pub(crate) fn folded(
    family: &Family,
    key: &[u8],
    operand: &[u8],
    seqno: SequenceNumber,
    cached_only: bool,
    is_counted: bool,
) -> Result<Option<(ValueType, Pinned)>> {
    let options = ReadOptions {
        cache_only: cached_only,
        ..ReadOptions::default()
    };
    let sv = family.superversion.load_full();
    let context = ReadContext::new(family, &options, is_counted);
    let blobs = context.blobs(&sv.version);
    let mut lookup = Lookup::new(key, seqno, false);
    sv.look_up(&mut lookup, &context)?;
    let Some(held) = lookup.finish(context.merge_operator, blobs)? else {
        return Ok(None);
    };
    let base = match held {
        Stored::Entity(bytes) if has_default_only(&bytes)? => {
            Stored::Value(Stored::Entity(bytes).into_value(key, blobs)?)
        }
        held => held,
    };
    let operand = [Pinned::copy_of(operand)];
    let folded = Stored::merged(context.merge_operator, key, Some(base), &operand, blobs)?;
    Ok(match folded {
        Stored::Value(value) => Some((ValueType::Value, value)),
        Stored::Entity(bytes) => Some((ValueType::WideColumnEntity, bytes)),
        Stored::Blob(_) => None,
    })
}

/// Returns whether an entity is no more than a value.
fn has_default_only(entity: &[u8]) -> Result<bool> {
    let columns = WideColumns::decode(entity)?;
    Ok(columns.len() == 1 && columns.default_column().is_some())
}
