//! Headers of block entries.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::coding::get_varint32;
use spanlith_base::{Error, Result};

/// The three lengths before an entry's key, and where the key begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Bytes taken from the previous key.
    pub(crate) shared: usize,
    /// Offset of the key bytes.
    pub(crate) key: usize,
    /// Offset of the value bytes: the end of the key bytes.
    pub(crate) value: usize,
    /// Offset after the value: the next entry.
    pub(crate) end: usize,
}

/// Decodes the header at `at`; `None` if the entry does not fit into `entries`.
#[inline(always)]
pub(crate) fn header(entries: &[u8], at: usize) -> Option<Header> {
    let rest = entries.get(at..)?;
    if let Some(word) = rest.first_chunk::<4>() {
        let word = u32::from_le_bytes(*word);
        if word & 0x0080_8080 == 0 {
            let key = at + 3;
            let value = key + (word >> 8 & 0x7f) as usize;
            let end = value + (word >> 16 & 0x7f) as usize;
            if end > entries.len() {
                return None;
            }
            return Some(Header {
                shared: (word & 0x7f) as usize,
                key,
                value,
                end,
            });
        }
        if word & 0x8080_8080 == 0x0080_0000 {
            // A value of up to 16 KiB.
            let key = at + 4;
            let value = key + (word >> 8 & 0x7f) as usize;
            let end = value + ((word >> 16 & 0x7f) | (word >> 17 & 0x3f80)) as usize;
            if end > entries.len() {
                return None;
            }
            return Some(Header {
                shared: (word & 0x7f) as usize,
                key,
                value,
                end,
            });
        }
    }
    long_header(entries, at)
}

/// The general form of [`header`].
#[inline(never)]
fn long_header(entries: &[u8], at: usize) -> Option<Header> {
    let rest = entries.get(at..)?;
    let (shared, rest) = get_varint32(rest)?;
    let (non_shared, rest) = get_varint32(rest)?;
    let (value_len, rest) = get_varint32(rest)?;
    let key = entries.len() - rest.len();
    let value = key.checked_add(non_shared as usize)?;
    let end = value.checked_add(value_len as usize)?;
    (end <= entries.len()).then_some(Header {
        shared: shared as usize,
        key,
        value,
        end,
    })
}

/// The header of an index entry with delta-encoded values, which has no value length: (shared,
/// offset of the key, offset of the value).
pub(crate) fn index_header(entries: &[u8], at: usize) -> Option<(usize, usize, usize)> {
    let (shared, rest) = get_varint32(entries.get(at..)?)?;
    let (non_shared, rest) = get_varint32(rest)?;
    let key = entries.len() - rest.len();
    let value = key.checked_add(non_shared as usize)?;
    (value <= entries.len()).then_some((shared as usize, key, value))
}

/// Returns what an undecodable entry is reported as.
#[cold]
pub(crate) fn bad_entry() -> Error {
    Error::corruption("bad entry in block")
}

/// Calls `each` with every (key, value) of a small block, in file order.
///
/// # Errors
/// `Corruption` for a bad entry; what `each` returns.
pub(crate) fn for_each(
    entries: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut key = Vec::new();
    let mut at = 0;
    while at < entries.len() {
        let h = header(entries, at)
            .filter(|h| h.shared <= key.len())
            .ok_or_else(bad_entry)?;
        key.truncate(h.shared);
        key.extend_from_slice(entries.get(h.key..h.value).ok_or_else(bad_entry)?);
        each(&key, entries.get(h.value..h.end).ok_or_else(bad_entry)?)?;
        at = h.end;
    }
    Ok(())
}
