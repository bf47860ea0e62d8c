//! Blob files, blob indexes, what tables refer to, wide columns.

use super::assemble::MemoryFile;
use spanlith::blob::{
    BlobFileReader, BlobIndex, BlobPointer, ExpectedFamily, FOOTER_LEN, HEADER_LEN,
    RECORD_HEADER_LEN,
};
use spanlith::version::BlobRefs;
use spanlith_base::checksum::{crc32c, mask};
use spanlith_base::coding::get_fixed64;
use spanlith_base::wide_columns::{WideColumn, WideColumns, encode_sorted};
use std::sync::Arc;

/// An index decodes to what it encodes to.
pub fn blob_index(data: &[u8]) {
    let Ok(index) = BlobIndex::decode(data) else {
        return;
    };
    if let Ok(pointer) = index.pointer() {
        let mut out = Vec::new();
        pointer.encode(&mut out);
        assert_eq!(BlobIndex::decode(&out).ok(), Some(BlobIndex::Blob(pointer)));
    }
}

/// Bytes that decode encode to bytes that decode to the same.
pub fn blob_refs(data: &[u8]) {
    let Ok(refs) = BlobRefs::decode(data) else {
        return;
    };
    let numbers: Vec<u64> = refs.iter().map(|r| r.file).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "numbers ascend");
    for r in refs.iter() {
        assert_eq!(refs.get(r.file), Some(r));
    }
    let _ = refs.bytes();
    assert_eq!(BlobRefs::decode(&refs.encode()).ok(), Some(refs));
}

/// Where the records of a file are, as far as their lengths lead: offset, key length, value length.
fn records(file: &[u8]) -> Vec<(usize, usize, usize)> {
    let mut out = Vec::new();
    let end = file.len().saturating_sub(FOOTER_LEN);
    let mut at = HEADER_LEN;
    while at + RECORD_HEADER_LEN <= end {
        let length = |field| {
            let n = get_fixed64(file, at + field).unwrap_or(u64::MAX);
            usize::try_from(n).ok().filter(|n| *n <= end)
        };
        let (Some(key), Some(value)) = (length(0), length(8)) else {
            break;
        };
        if at + RECORD_HEADER_LEN + key + value > end {
            break;
        }
        out.push((at, key, value));
        at += RECORD_HEADER_LEN + key + value;
    }
    out
}

/// Reads every record of a file, and one at a place of the input's choice. Byte 0: bit 0 leaves the
/// checksums alone, bits 1.. shift that place.
pub fn blob_file(data: &[u8]) {
    let Some((&flags, file)) = data.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    let found = records(&file);
    if flags & 1 == 0 && file.len() >= HEADER_LEN + FOOTER_LEN {
        for &(at, key, value) in &found {
            let head = mask(crc32c(&file[at..at + 24])).to_le_bytes();
            let body = &file[at + RECORD_HEADER_LEN..][..key + value];
            let body = mask(crc32c(body)).to_le_bytes();
            file[at + 24..at + 28].copy_from_slice(&head);
            file[at + 28..at + 32].copy_from_slice(&body);
        }
        let footer = file.len() - FOOTER_LEN;
        let sum = mask(crc32c(&file[footer..footer + 28])).to_le_bytes();
        file[footer + 28..].copy_from_slice(&sum);
    }
    let Ok(reader) = BlobFileReader::open(Arc::new(MemoryFile(file.clone())), ExpectedFamily::Any)
    else {
        return;
    };
    for (at, key, value) in found {
        let start = at + RECORD_HEADER_LEN;
        let user_key = &file[start..start + key];
        for shift in [0, u64::from(flags >> 1)] {
            let pointer = BlobPointer {
                file: 7,
                offset: (start + key) as u64 + shift,
                size: value as u64,
                compression: reader.compression(),
            };
            let checked = reader.get(user_key, &pointer, true);
            let unchecked = reader.get(user_key, &pointer, false);
            if let (Ok(a), Ok(b)) = (&checked, &unchecked) {
                assert_eq!(a[..], b[..], "verification changes a value");
            }
        }
    }
}

/// Columns decode to what they encode to.
pub fn wide_columns(data: &[u8]) {
    let Ok(columns) = WideColumns::decode(data) else {
        return;
    };
    let _ = (columns.default_column(), columns.has_blobs());
    let all: Vec<WideColumn<'_>> = columns.iter().collect();
    assert_eq!(all.len(), columns.len());
    let mut out = Vec::new();
    if let Err(e) = encode_sorted(&all, &mut out) {
        panic!("what was decoded does not encode: {e}");
    }
    match WideColumns::decode(&out) {
        Ok(again) => assert!(again.iter().eq(all.iter().copied())),
        Err(e) => panic!("what was encoded does not decode: {e}"),
    }
}
