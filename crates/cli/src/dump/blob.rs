//! Dumps a blob file.

use super::kind::AtFile;
use super::{Dump, Record};
use spanlith::blob::{BlobFooter, BlobHeader, FOOTER_LEN, HEADER_LEN, read_range, walk_blobs};
use spanlith::{Error, Result};
use spanlith_env::Env;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Bytes gathered before they are written out.
const OUTPUT_BUFFER: usize = 256 << 10;

pub fn run(args: &Dump) -> anyhow::Result<ExitCode> {
    let path = args.file.as_path();
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER, std::io::stdout().lock());
    let dumped = dump(path, args, &mut out)?;
    out.flush()?;
    dumped.map_err(|e| e.with_path(path)).at_file(path)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints everything; the inner result is that of reading the file.
fn dump(path: &Path, args: &Dump, out: &mut dyn Write) -> std::io::Result<Result<()>> {
    let (hex, json) = (args.hex, args.json);
    let head = || -> Result<_> {
        let file = Env::system().fs.open_random(path)?;
        let header = BlobHeader::decode(&read_range(&file, 0, HEADER_LEN as u64)?)?;
        Ok((file, header))
    };
    let (file, header) = match head() {
        Ok(head) => head,
        Err(e) => return Ok(Err(e)),
    };
    let end = file.size().saturating_sub(FOOTER_LEN as u64);
    let footer = read_range(&file, end, FOOTER_LEN as u64).and_then(|b| BlobFooter::decode(&b));
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
    let mut printed = Ok(());
    let walked = walk_blobs(&file, &mut |key, value, pointer| {
        printed = Record::new("blob")
            .with("offset", pointer.offset)
            .with("stored_bytes", pointer.size)
            .bytes("key", key, hex)
            .bytes("value", value, hex)
            .print(out, json);
        match &printed {
            Ok(()) => Ok(()),
            // Said by what printing returned.
            Err(_) => Err(Error::aborted("")),
        }
    });
    printed?;
    Ok(walked.map(drop))
}
