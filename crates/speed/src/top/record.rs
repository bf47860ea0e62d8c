//! Records of the metadata log of tables on a speed disk.
//!
//! | kind | | |
//! |---|---|---|
//! | 1 | a file is there, whole | bytes of its name (1), runs (2), size (8), name, per run: first page, pages (4 each) |
//! | 2 | it is gone | bytes of its name (1), name |
//! | 3 | it has another name, and replaces what had it | bytes of both names (1 each), old, new |
//!
//! A record of kind 1 replaces an earlier one of the same name. A name may have slashes, as `lost/000007.sst`; a directory is
//! there as long as a file is in it. Integers are little-endian.

use super::extents::Extent;
use crate::bytes::{u16_at, u32_at, u64_at};
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;

/// Most bytes of a name.
pub(crate) const NAME_MAX: usize = 255;
/// Most runs of a file.
pub(crate) const RUNS_MAX: usize = 256;

/// Describes what the metadata log says of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFile {
    /// Bytes.
    pub size: u64,
    /// Its pages, in order.
    pub runs: Vec<Extent>,
}

/// A change of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableRecord {
    /// A file is there, whole.
    Put(String, StoredFile),
    /// A file is gone.
    Delete(String),
    /// A file has another name.
    Rename(String, String),
}

/// Files by name.
pub(crate) type Files = BTreeMap<String, StoredFile>;

fn wrong(what: &str) -> Error {
    Error::corruption(format!("tables of a speed disk: {what}"))
}

impl TableRecord {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Put(name, file) => {
                out.extend_from_slice(&[1, name.len() as u8]);
                out.extend_from_slice(&(file.runs.len() as u16).to_le_bytes());
                out.extend_from_slice(&file.size.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                for run in &file.runs {
                    out.extend_from_slice(&run.first.to_le_bytes());
                    out.extend_from_slice(&run.pages.to_le_bytes());
                }
            }
            Self::Delete(name) => {
                out.extend_from_slice(&[2, name.len() as u8]);
                out.extend_from_slice(name.as_bytes());
            }
            Self::Rename(from, to) => {
                out.extend_from_slice(&[3, from.len() as u8, to.len() as u8]);
                out.extend_from_slice(from.as_bytes());
                out.extend_from_slice(to.as_bytes());
            }
        }
    }

    /// Bytes of [`Self::encode`].
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Put(name, file) => put_len(name, file),
            Self::Delete(name) => 2 + name.len(),
            Self::Rename(from, to) => 3 + from.len() + to.len(),
        }
    }

    /// The records that `bytes` hold.
    ///
    /// # Errors
    /// `Corruption` for anything that [`Self::encode`] does not write.
    pub fn decode_all(mut bytes: &[u8]) -> Result<Vec<Self>> {
        let mut records = Vec::new();
        while let Some((&kind, rest)) = bytes.split_first() {
            let (record, left) = match kind {
                1 => decode_put(rest)?,
                2 => {
                    let (len, rest) = first(rest)?;
                    let (name, rest) = name(rest, len)?;
                    (Self::Delete(name), rest)
                }
                3 => {
                    let (from, rest) = first(rest)?;
                    let (to, rest) = first(rest)?;
                    let (from, rest) = name(rest, from)?;
                    let (to, rest) = name(rest, to)?;
                    (Self::Rename(from, to), rest)
                }
                _ => return Err(wrong("a record of a kind nobody knows")),
            };
            records.push(record);
            bytes = left;
        }
        Ok(records)
    }

    /// Changes `files` as it says.
    ///
    /// # Errors
    /// `Corruption` if it names a file that is not there.
    pub(crate) fn apply(self, files: &mut Files) -> Result<()> {
        let missing = |name: &str| wrong(&format!("a record names {name}, which is not there"));
        match self {
            Self::Put(name, file) => {
                files.insert(name, file);
            }
            Self::Delete(name) => {
                files.remove(&name).ok_or_else(|| missing(&name))?;
            }
            Self::Rename(from, to) => {
                let file = files.remove(&from).ok_or_else(|| missing(&from))?;
                files.insert(to, file);
            }
        }
        Ok(())
    }
}

/// Bytes of the record that says that a file is there.
pub(crate) fn put_len(name: &str, file: &StoredFile) -> usize {
    12 + name.len() + 8 * file.runs.len()
}

fn first(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let (&len, rest) = bytes
        .split_first()
        .ok_or_else(|| wrong("a record is cut"))?;
    Ok((usize::from(len), rest))
}

fn name(bytes: &[u8], len: usize) -> Result<(String, &[u8])> {
    let (name, rest) = bytes
        .split_at_checked(len)
        .ok_or_else(|| wrong("a name is cut"))?;
    let name = std::str::from_utf8(name).ok();
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    let name = name.filter(|n| n.split('/').all(is_part));
    let name = name.ok_or_else(|| wrong("a name that no file has"))?;
    Ok((name.to_string(), rest))
}

fn decode_put(bytes: &[u8]) -> Result<(TableRecord, &[u8])> {
    let (len, rest) = first(bytes)?;
    if rest.len() < 10 {
        return Err(wrong("a record is cut"));
    }
    let count = usize::from(u16_at(rest, 0));
    let size = u64_at(rest, 2);
    let (name, rest) = name(rest.get(10..).unwrap_or_default(), len)?;
    if count > RUNS_MAX {
        return Err(wrong("too many runs of a file"));
    }
    let (list, rest) = rest
        .split_at_checked(count * 8)
        .ok_or_else(|| wrong("a list of runs is cut"))?;
    let runs = list.chunks_exact(8).map(|run| Extent {
        first: u32_at(run, 0),
        pages: u32_at(run, 4),
    });
    let runs = runs.collect();
    Ok((TableRecord::Put(name, StoredFile { size, runs }), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<TableRecord> {
        let runs = |n: u32| {
            (0..n)
                .map(|i| Extent {
                    first: i * 9,
                    pages: i + 1,
                })
                .collect()
        };
        vec![
            TableRecord::Put(
                "000007.sst".into(),
                StoredFile {
                    size: 5000,
                    runs: runs(2),
                },
            ),
            TableRecord::Put(
                "x".repeat(255),
                StoredFile {
                    size: 0,
                    runs: runs(0),
                },
            ),
            TableRecord::Rename("a.tmp".into(), "a".into()),
            TableRecord::Delete("000007.sst".into()),
        ]
    }

    #[test]
    fn records_come_back_and_no_cut_is_taken_for_one() {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for record in examples() {
            let before = bytes.len();
            record.encode(&mut bytes);
            assert_eq!(bytes.len() - before, record.len());
            ends.push(bytes.len());
        }
        assert_eq!(TableRecord::decode_all(&bytes).unwrap(), examples());
        for len in 0..bytes.len() {
            let found = TableRecord::decode_all(&bytes[..len]);
            assert_eq!(found.is_ok(), ends.contains(&len), "{len}");
        }
        for bad in [
            &b"\x04"[..],
            b"\x02\x00",
            b"\x02\x01/",
            b"\x02\x01\xff",
            b"\x02\x02..",
        ] {
            let e = TableRecord::decode_all(bad).unwrap_err();
            assert!(e.to_string().starts_with("Corruption: tables"), "{e}");
        }
    }

    #[test]
    fn changes_name_files_that_are_there() {
        let mut files = Files::new();
        let put = |name: &str, size| {
            let runs = Vec::new();
            TableRecord::Put(name.into(), StoredFile { size, runs })
        };
        put("a", 1).apply(&mut files).unwrap();
        put("b", 2).apply(&mut files).unwrap();
        TableRecord::Rename("a".into(), "b".into())
            .apply(&mut files)
            .unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(files["b"].size, 1);
        TableRecord::Rename("a".into(), "c".into())
            .apply(&mut files)
            .unwrap_err();
        TableRecord::Delete("b".into()).apply(&mut files).unwrap();
        TableRecord::Delete("b".into())
            .apply(&mut files)
            .unwrap_err();
    }
}
