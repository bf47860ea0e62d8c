//! All records of a blob file, front to back.

use super::format::{BlobFooter, BlobHeader, BlobRecordHeader};
use super::format::{FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN};
use super::index::BlobPointer;
use super::reader::{BlobFileReader, ExpectedFamily};
use spanlith_base::{Error, Result};
use spanlith_env::RandomAccessFile;
use std::sync::Arc;

/// Describes what is done with a blob: its key, its value, uncompressed, and where it is; the pointer's file is 0.
pub type VisitBlob<'v> = &'v mut dyn FnMut(&[u8], &[u8], &BlobPointer) -> Result<()>;

/// Visits every blob of a file, with its checksum verified, and compares their number with the footer;
/// returns it.
///
/// # Errors
/// The first damage, with its offset; of the file; the first error of `visit`.
pub fn walk_blobs(file: &Arc<dyn RandomAccessFile>, visit: VisitBlob<'_>) -> Result<u64> {
    let header = BlobHeader::decode(&read_range(file, 0, HEADER_LEN as u64)?)?;
    let end = file.size().saturating_sub(FOOTER_LEN as u64);
    let footer = BlobFooter::decode(&read_range(file, end, FOOTER_LEN as u64)?)?;
    let reader = BlobFileReader::open(file.clone(), ExpectedFamily::Any)?;
    let (mut at, mut blobs) = (HEADER_LEN as u64, 0);
    while at < end {
        let next = || -> Result<_> {
            let head = read_range(file, at, RECORD_HEADER_LEN as u64)?;
            let head = BlobRecordHeader::decode(&head)?;
            let key_at = at + RECORD_HEADER_LEN as u64;
            let key = read_range(file, key_at, head.key_len)?;
            let pointer = BlobPointer {
                file: 0,
                offset: key_at + head.key_len,
                size: head.value_len,
                compression: header.compression,
            };
            let value = reader.get(&key, &pointer, true)?;
            Ok((key, value, pointer))
        };
        let (key, value, pointer) = next().map_err(|e| e.with_offset(at))?;
        visit(&key, &value, &pointer)?;
        blobs += 1;
        at = pointer.offset + pointer.size;
    }
    if blobs != footer.blobs {
        return Err(Error::corruption(
            "blob file with another number of blobs than its footer says",
        )
        .with("footer", footer.blobs)
        .with("found", blobs));
    }
    Ok(blobs)
}

/// Bytes of a blob file from `offset`, fewer if it ends before. What is allocated is bounded by the file.
///
/// # Errors
/// `Corruption` of a range beyond the file; of the file.
pub fn read_range(file: &Arc<dyn RandomAccessFile>, offset: u64, len: u64) -> Result<Vec<u8>> {
    if offset.checked_add(len).is_none_or(|end| end > file.size()) {
        return Err(Error::corruption("blob record goes beyond the file").with_offset(offset));
    }
    let mut buf = vec![0; usize::try_from(len).unwrap_or(0)];
    let n = file.read_at(offset, &mut buf)?;
    buf.truncate(n);
    Ok(buf)
}
