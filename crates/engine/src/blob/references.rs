//! Which blobs an entry of a table refers to.

use super::format::RECORD_HEADER_LEN;
use super::index::{BlobIndex, BlobPointer};
use spanlith_base::Result;
use spanlith_base::keys::{self, ValueType};
use spanlith_base::wide_columns::{ColumnKind, WideColumns};

/// Calls `each` with file and bytes of the record of every blob that an entry refers to.
///
/// An entry that does not decode is left out: readers report it, and garbage that is not counted only keeps
/// a file longer.
pub(crate) fn each_reference(internal_key: &[u8], value: &[u8], mut each: impl FnMut(u64, u64)) {
    let key_len = keys::user_key(internal_key).len() as u64;
    each_pointer(internal_key, value, |pointer| {
        if let Ok(pointer) = pointer
            && pointer.file != 0
        {
            let bytes = pointer
                .size
                .saturating_add(key_len + RECORD_HEADER_LEN as u64);
            each(pointer.file, bytes);
        }
    });
}

/// Calls `each` with every blob index of an entry, decoded.
pub(crate) fn each_pointer(
    internal_key: &[u8],
    value: &[u8],
    mut each: impl FnMut(Result<BlobPointer>),
) {
    let mut one = |index: &[u8]| each(BlobIndex::decode(index).and_then(|i| i.pointer()));
    match ValueType::from_byte(keys::tag_type(keys::tag(internal_key))) {
        Some(ValueType::BlobIndex) => one(value),
        Some(ValueType::WideColumnEntity) => {
            if let Ok(columns) = WideColumns::decode(value)
                && columns.has_blobs()
            {
                let blobs = columns.iter().filter(|c| c.kind == ColumnKind::Blob);
                blobs.for_each(|c| one(c.value));
            }
        }
        _ => {}
    }
}
