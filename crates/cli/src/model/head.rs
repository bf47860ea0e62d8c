//! The first requests of a trace, as a trace: what `twin` replays of long ones.
//!
//! Of the file beside it only the records of these requests are copied, since each replay reads that file as a whole. They are not
//! strictly in the order of their requests: that of an iterator comes when it ends.

use crate::fail::At;
use anyhow::Context;
use spanlith::trace::{Extension, ExtensionReader, TraceReader, extension_path};
use spanlith_env::Env;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Records of later requests beside a trace, one after the other, after which no earlier one is looked for.
const LATER_MAX: u64 = 200_000;

/// Copies the first requests of a trace, so many, to a new file, and what lies beside it. A trace that has no more is its own head.
pub fn head(trace: &Path, requests: u64, to: &Path) -> anyhow::Result<PathBuf> {
    let fs = Env::system().fs;
    let mut reader = TraceReader::new(fs.open_sequential(trace).at(trace)?);
    // The header comes first.
    for _ in 0..=requests {
        if reader.next_record().at(trace)?.is_none() {
            return Ok(trace.to_path_buf());
        }
    }
    let bytes = reader.position();
    let copy = || -> std::io::Result<()> {
        let from = File::open(trace)?;
        std::io::copy(&mut from.take(bytes), &mut File::create(to)?)?;
        Ok(())
    };
    copy().with_context(|| format!("copying the beginning of {}", trace.display()))?;
    let beside = extension_path(trace);
    if beside.exists() {
        head_beside(&beside, requests, &extension_path(to))?;
    }
    Ok(to.to_path_buf())
}

/// Copies the records of the first requests, so many, of the file beside a trace.
fn head_beside(beside: &Path, requests: u64, to: &Path) -> anyhow::Result<()> {
    let file = Env::system().fs.open_sequential(beside).at(beside)?;
    let in_file = |e: spanlith::Error| e.with_path(beside);
    let mut reader = ExtensionReader::new(file).map_err(in_file).at(beside)?;
    let writing = || format!("writing {}", to.display());
    let mut out = BufWriter::new(File::create(to).with_context(writing)?);
    let mut encoded = Vec::new();
    Extension::put_header(&mut encoded, reader.timestamp());
    let mut later = 0;
    while later < LATER_MAX
        && let Some(record) = reader.next_record().map_err(in_file).at(beside)?
    {
        if record.ordinal >= requests {
            later += 1;
            continue;
        }
        later = 0;
        record.encode(&mut encoded);
        out.write_all(&encoded).with_context(writing)?;
        encoded.clear();
    }
    out.write_all(&encoded).with_context(writing)?;
    out.flush().with_context(writing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_testkit::{TempDir, test_name};

    /// A trace of so many seeks and its file beside it, where the record of one comes `late` records after its turn.
    fn trace(dir: &TempDir, requests: u64, late: u64) -> PathBuf {
        let path = dir.join("trace");
        let (mut records, mut beside) = (Vec::new(), Vec::new());
        // Times, kinds and payloads are not looked at.
        for at in 0..=requests {
            records.extend_from_slice(&at.to_le_bytes());
            records.push(1);
            records.extend_from_slice(&2u32.to_le_bytes());
            records.extend_from_slice(b"xy");
        }
        Extension::put_header(&mut beside, 7);
        let record = |ordinal| Extension {
            ordinal,
            next: ordinal + 3,
            ..Extension::default()
        };
        for at in 1..requests {
            record(at).encode(&mut beside);
            if at == late {
                record(0).encode(&mut beside);
            }
        }
        std::fs::write(&path, &records).unwrap();
        std::fs::write(extension_path(&path), &beside).unwrap();
        path
    }

    #[test]
    fn a_head_has_what_lies_beside_its_requests_and_nothing_else() {
        let dir = TempDir::new(test_name!());
        let whole = trace(&dir, 5000, 4000);
        let to = dir.join("head");
        assert_eq!(head(&whole, 5000, &to).unwrap(), to);
        assert_eq!(head(&whole, 5001, &to).unwrap(), whole);
        assert_eq!(head(&whole, 100, &to).unwrap(), to);
        assert_eq!(std::fs::metadata(&to).unwrap().len(), 101 * 15);
        let file = Env::system().fs.open_sequential(&extension_path(&to));
        let mut reader = ExtensionReader::new(file.unwrap()).unwrap();
        assert_eq!(reader.timestamp(), 7);
        let mut ordinals = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!(record.next, record.ordinal + 3);
            ordinals.push(record.ordinal);
        }
        // The late one comes last, as it did.
        assert_eq!(ordinals, (1..100).chain([0]).collect::<Vec<_>>());
    }
}
