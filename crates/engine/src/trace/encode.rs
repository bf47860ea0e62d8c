//! The records of traces, written. What [`super::TraceHeader::decode`] takes apart is put together here.

use super::access::{BlockAccess, FileCall};
use super::{kinds, query::member};
use spanlith_base::coding::{put_fixed32, put_fixed64, put_length_prefixed, put_varint32};

/// Release that headers name: the one whose formats are written. Traces are alike in all releases since 7.0.
pub const RELEASE: (u32, u32) = (11, 8);

/// Every trace begins with it.
pub(super) const MAGIC: &[u8] = b"feedcafedeadbeef";

/// Appends a whole record.
pub fn put_record(to: &mut Vec<u8>, timestamp: u64, kind: u8, payload: &[u8]) {
    put_fixed64(to, timestamp);
    to.push(kind);
    put_fixed32(to, u32::try_from(payload.len()).unwrap_or(u32::MAX));
    to.extend_from_slice(payload);
}

/// Payload of the header of a trace of queries.
pub fn put_query_header(to: &mut Vec<u8>) {
    to.extend_from_slice(MAGIC);
    let (major, minor) = RELEASE;
    let text = format!(
        "\tTrace Version: 0.2\tRocksDB Version: {major}.{minor}\tFormat: Timestamp OpType Payload\n"
    );
    to.extend_from_slice(text.as_bytes());
}

/// Payload of the header of the other two kinds.
pub fn put_access_header(to: &mut Vec<u8>) {
    put_length_prefixed(to, MAGIC);
    put_fixed32(to, RELEASE.0);
    put_fixed32(to, RELEASE.1);
}

/// Payload of a write before the bytes of its batch, which are `len`.
#[inline]
pub fn put_write_head(to: &mut Vec<u8>, len: usize) {
    to.extend_from_slice(&u64::to_le_bytes(1 << member::WRITE_BATCH));
    put_len(to, len);
}

/// Payload of a get.
#[inline]
pub fn put_get(to: &mut Vec<u8>, cf: u32, key: &[u8]) {
    let mut head = [0; 12];
    head[..8].copy_from_slice(&u64::to_le_bytes(
        1 << member::GET_FAMILY | 1 << member::GET_KEY,
    ));
    head[8..].copy_from_slice(&cf.to_le_bytes());
    to.extend_from_slice(&head);
    put_len(to, key.len());
    to.extend_from_slice(key);
}

/// A length as those of most keys and batches are, without a loop.
#[inline]
fn put_len(to: &mut Vec<u8>, len: usize) {
    match len {
        0..0x80 => to.push(len as u8),
        0x80..0x4000 => to.extend_from_slice(&[len as u8 | 0x80, (len >> 7) as u8]),
        _ => put_varint32(to, u32::try_from(len).unwrap_or(u32::MAX)),
    }
}

/// Payload of a seek in either direction. Bounds that are empty are not recorded.
pub fn put_seek(to: &mut Vec<u8>, cf: u32, key: &[u8], lower: Option<&[u8]>, upper: Option<&[u8]>) {
    let (lower, upper) = (lower.unwrap_or_default(), upper.unwrap_or_default());
    let map = 1 << member::ITERATOR_FAMILY
        | 1 << member::ITERATOR_KEY
        | u64::from(!lower.is_empty()) << member::LOWER_BOUND
        | u64::from(!upper.is_empty()) << member::UPPER_BOUND;
    put_fixed64(to, map);
    put_fixed32(to, cf);
    put_length_prefixed(to, key);
    for bound in [lower, upper] {
        if !bound.is_empty() {
            put_length_prefixed(to, bound);
        }
    }
}

/// Payload of a multi-get: families and keys in one order.
pub fn put_multi_get<'a>(to: &mut Vec<u8>, keys: impl Iterator<Item = (u32, &'a [u8])>) {
    let (mut families, mut bytes, mut size) = (Vec::new(), Vec::new(), 0);
    for (cf, key) in keys {
        put_fixed32(&mut families, cf);
        put_length_prefixed(&mut bytes, key);
        size += 1;
    }
    let map =
        1 << member::MULTI_GET_SIZE | 1 << member::MULTI_GET_FAMILIES | 1 << member::MULTI_GET_KEYS;
    put_fixed64(to, map);
    put_fixed32(to, size);
    put_length_prefixed(to, &families);
    put_length_prefixed(to, &bytes);
}

impl BlockAccess<'_> {
    /// Its kind of record.
    pub fn kind(&self) -> u8 {
        kinds::BLOCK_FIRST + self.block as u8
    }

    /// Appends its payload.
    pub fn encode(&self, to: &mut Vec<u8>) {
        put_length_prefixed(to, self.key);
        put_fixed64(to, self.size);
        put_fixed64(to, self.cf);
        put_length_prefixed(to, self.cf_name);
        put_fixed32(to, self.level);
        put_fixed64(to, self.file);
        to.extend_from_slice(&[self.caller.0, self.is_hit.into(), self.no_insert.into()]);
        if let Some(reference) = &self.reference {
            put_fixed64(to, reference.get_id);
            to.push(reference.from_snapshot.into());
            put_length_prefixed(to, reference.internal_key);
            if let Some((bytes, keys, exists)) = reference.found {
                put_fixed64(to, bytes);
                put_fixed64(to, keys);
                to.push(exists.into());
            }
        }
    }
}

impl FileCall<'_> {
    /// Appends its payload.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let numbers = [self.file_size, self.length, self.offset];
        let map = numbers
            .iter()
            .enumerate()
            .fold(0, |map, (bit, n)| map | u64::from(n.is_some()) << bit);
        put_fixed64(to, map);
        put_length_prefixed(to, self.operation);
        put_fixed64(to, self.latency);
        put_length_prefixed(to, self.status);
        put_length_prefixed(to, self.file_name);
        for number in numbers.into_iter().flatten() {
            put_fixed64(to, number);
        }
        put_fixed64(to, self.request_id.is_some().into());
        if let Some(id) = self.request_id {
            put_length_prefixed(to, id);
        }
    }
}
