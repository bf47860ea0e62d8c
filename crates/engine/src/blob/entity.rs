//! Entities whose columns lie in blob files.

use spanlith_base::wide_columns::{ColumnKind, WideColumn, WideColumns, encode_sorted};
use spanlith_base::{Pinned, Result};

/// The encoded entity with all columns in place of their blob indexes, which `fetch` resolves; `None` if
/// no column lies in a blob file.
///
/// # Errors
/// `Corruption` if `entity` is none; of `fetch`.
pub(crate) fn resolve_columns(
    entity: &[u8],
    mut fetch: impl FnMut(&[u8]) -> Result<Pinned>,
) -> Result<Option<Vec<u8>>> {
    let columns = WideColumns::decode(entity)?;
    if !columns.has_blobs() {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(columns.len());
    for c in &columns {
        values.push(match c.kind {
            ColumnKind::Inline => Pinned::copy_of(c.value),
            ColumnKind::Blob => fetch(c.value)?,
        });
    }
    let named: Vec<WideColumn<'_>> = columns
        .iter()
        .zip(&values)
        .map(|(c, value)| WideColumn::new(c.name, value))
        .collect();
    let mut out = Vec::new();
    encode_sorted(&named, &mut out)?;
    Ok(Some(out))
}
