//! Dumps a blob file.

use super::{Dump, Record, folder};
use crate::bytes::show;
use crate::fail::At;
use spanlith::blob::{
    BlobFileReader, BlobFooter, BlobHeader, BlobPointer, BlobRecordHeader, ExpectedFamily,
    FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN,
};
use spanlith::{Error, Result};
use spanlith_env::{Env, RandomAccessFile};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

pub fn run(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    let dumped = dump(path, args, &mut out)?;
    out.flush()?;
    dumped.map_err(|e| e.with_path(path)).at(folder(path))?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes of the file from `offset`.
fn read(file: &Arc<dyn RandomAccessFile>, offset: u64, len: u64) -> Result<Vec<u8>> {
    if offset.checked_add(len).is_none_or(|end| end > file.size()) {
        return Err(Error::corruption("blob record goes beyond the file").with_offset(offset));
    }
    let mut buf = vec![0; usize::try_from(len).unwrap_or(0)];
    let n = file.read_at(offset, &mut buf)?;
    buf.truncate(n);
    Ok(buf)
}

/// Prints everything; the inner result is that of reading the file.
fn dump(path: &Path, args: &Dump, out: &mut dyn Write) -> std::io::Result<Result<()>> {
    let (hex, json) = (args.hex, args.json);
    let head = || -> Result<_> {
        let file = Env::system().fs.open_random(path)?;
        let header = BlobHeader::decode(&read(&file, 0, HEADER_LEN as u64)?)?;
        Ok((file, header))
    };
    let (file, header) = match head() {
        Ok(head) => head,
        Err(e) => return Ok(Err(e)),
    };
    let end = file.size().saturating_sub(FOOTER_LEN as u64);
    let footer = read(&file, end, FOOTER_LEN as u64).and_then(|b| BlobFooter::decode(&b));
    Record::new("blob_file")
        .with("file", path.display().to_string())
        .with("bytes", file.size())
        .with("column_family", header.column_family)
        .with("compression", header.compression)
        .with("blobs", footer.as_ref().map_or(0, |f| f.blobs))
        .print(out, json)?;
    if let Err(e) = footer {
        return Ok(Err(e));
    }
    each(&file, &header, end, &mut |key, value, pointer| {
        Record::new("blob")
            .with("offset", pointer.offset)
            .with("stored_bytes", pointer.size)
            .with("key", show(key, hex))
            .with("value", show(value, hex))
            .print(out, json)
    })
}

/// Reads a whole blob file and verifies its checksums; returns the number of its blobs.
///
/// # Errors
/// The first damage, or failure to read.
pub fn verify(path: &Path) -> Result<u64> {
    let file = Env::system().fs.open_random(path)?;
    let header = BlobHeader::decode(&read(&file, 0, HEADER_LEN as u64)?)?;
    let end = file.size().saturating_sub(FOOTER_LEN as u64);
    let footer = BlobFooter::decode(&read(&file, end, FOOTER_LEN as u64)?)?;
    let mut blobs = 0;
    let walked = each(&file, &header, end, &mut |_, _, _| {
        blobs += 1;
        Ok(())
    });
    // The visitor does no I/O.
    walked.unwrap_or(Ok(()))?;
    if blobs != footer.blobs {
        return Err(Error::corruption(
            "blob file with another number of blobs than its footer says",
        )
        .with("footer", footer.blobs)
        .with("found", blobs));
    }
    Ok(blobs)
}

/// What is done with each blob: its key, its value and where it is.
type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8], &BlobPointer) -> std::io::Result<()>;

/// Visits each blob before `end`; the inner result is that of reading the file.
fn each(
    file: &Arc<dyn RandomAccessFile>,
    header: &BlobHeader,
    end: u64,
    visit: Visit<'_>,
) -> std::io::Result<Result<()>> {
    let reader = match BlobFileReader::open(file.clone(), ExpectedFamily::Any) {
        Ok(reader) => reader,
        Err(e) => return Ok(Err(e)),
    };
    let mut at = HEADER_LEN as u64;
    while at < end {
        let next = || -> Result<_> {
            let head = read(file, at, RECORD_HEADER_LEN as u64)?;
            let head = BlobRecordHeader::decode(&head).map_err(|e| e.with_offset(at))?;
            let key_at = at + RECORD_HEADER_LEN as u64;
            let key = read(file, key_at, head.key_len)?;
            let pointer = BlobPointer {
                file: 0,
                offset: key_at + head.key_len,
                size: head.value_len,
                compression: header.compression,
            };
            let value = reader.get(&key, &pointer, true);
            let value = value.map_err(|e| e.with_offset(at))?;
            Ok((key, value, pointer))
        };
        let (key, value, pointer) = match next() {
            Ok(record) => record,
            Err(e) => return Ok(Err(e)),
        };
        visit(&key, &value, &pointer)?;
        at = pointer.offset + pointer.size;
    }
    Ok(Ok(()))
}
