//! Which blob files a table refers to, exactly: its property `spanlith.blob.refs`.
//!
//! ```text
//!   u8 1, varint64 files, files × (varint64 number - number before, varint64 records, varint64 bytes)
//! ```
//!
//! Numbers ascend strictly. Bytes are those of whole records, so that the sums over all tables are what
//! the MANIFEST says of a file less its garbage. RocksDB keeps properties it does not know and ignores
//! them; a table of RocksDB has none, and only its oldest blob file is known.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::coding::{get_varint64, put_varint64};
use spanlith_base::{Error, FileNumber, Result};

/// Name of the property.
pub const BLOB_REFS: &str = "spanlith.blob.refs";

const VERSION: u8 = 1;

/// Describes what a table refers to in one blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobRef {
    /// Number of the blob file.
    pub file: FileNumber,
    /// References.
    pub count: u64,
    /// Bytes of the records.
    pub bytes: u64,
}

/// Describes what a table refers to, by number of the blob file, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobRefs(Vec<BlobRef>);

impl BlobRefs {
    /// Counts a reference to a record of so many bytes.
    pub fn add(&mut self, file: FileNumber, bytes: u64) {
        // Neighbouring entries mostly refer to the same file, and new files have the largest numbers.
        let at = match self.0.last() {
            Some(last) if last.file < file => self.0.len(),
            _ => self.0.partition_point(|r| r.file < file),
        };
        match self.0.get_mut(at) {
            Some(found) if found.file == file => {
                found.count += 1;
                found.bytes = found.bytes.saturating_add(bytes);
            }
            _ => self.0.insert(
                at,
                BlobRef {
                    file,
                    count: 1,
                    bytes,
                },
            ),
        }
    }

    /// The files, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &BlobRef> {
        self.0.iter()
    }

    /// Returns whether the table refers to no blob file.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what the table refers to in a blob file, if anything.
    pub fn get(&self, file: FileNumber) -> Option<&BlobRef> {
        let at = self.0.binary_search_by_key(&file, |r| r.file).ok()?;
        self.0.get(at)
    }

    /// Bytes of all records that the table refers to.
    pub fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, r| sum.saturating_add(r.bytes))
    }

    /// The value of the property.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint64(&mut out, self.0.len() as u64);
        let mut before = 0;
        for r in &self.0 {
            put_varint64(&mut out, r.file - before);
            put_varint64(&mut out, r.count);
            put_varint64(&mut out, r.bytes);
            before = r.file;
        }
        out
    }

    /// Reads the value of the property. Costs time and memory in proportion to its length.
    ///
    /// # Errors
    /// `Corruption` of anything that [`Self::encode`] does not write; `NotSupported` of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::corruption(format!("malformed table property {BLOB_REFS}"));
        let (&version, rest) = bytes.split_first().ok_or_else(bad)?;
        if version != VERSION {
            return Err(Error::not_supported(format!("{BLOB_REFS} {version}")));
        }
        let (files, mut rest) = get_varint64(rest).ok_or_else(bad)?;
        let mut refs: Vec<BlobRef> = Vec::new();
        let mut number = 0u64;
        for _ in 0..files {
            let mut next = || -> Option<u64> {
                let (value, left) = get_varint64(rest)?;
                rest = left;
                Some(value)
            };
            let (step, count, bytes) = match (next(), next(), next()) {
                (Some(step), Some(count), Some(bytes)) => (step, count, bytes),
                _ => return Err(bad()),
            };
            number = number.checked_add(step).ok_or_else(bad)?;
            if step == 0 || count == 0 {
                return Err(bad());
            }
            refs.push(BlobRef {
                file: number,
                count,
                bytes,
            });
        }
        match rest.is_empty() {
            true => Ok(Self(refs)),
            false => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_summed_by_file_and_read_back() {
        let mut refs = BlobRefs::default();
        for (file, bytes) in [(9, 100), (4, 10), (9, 1), (700, 5), (4, 2)] {
            refs.add(file, bytes);
        }
        let all: Vec<_> = refs.iter().map(|r| (r.file, r.count, r.bytes)).collect();
        assert_eq!(all, [(4, 2, 12), (9, 2, 101), (700, 1, 5)]);
        assert_eq!((refs.bytes(), refs.get(9).map(|r| r.count)), (118, Some(2)));
        assert_eq!(refs.get(5), None);
        let bytes = refs.encode();
        assert_eq!(BlobRefs::decode(&bytes).unwrap(), refs);
        for cut in 0..bytes.len() {
            assert!(BlobRefs::decode(&bytes[..cut]).is_err(), "cut to {cut}");
        }
        assert!(BlobRefs::decode(&[&bytes[..], b"x"].concat()).is_err());
        assert!(
            BlobRefs::decode(&[2, 0])
                .unwrap_err()
                .to_string()
                .contains("spanlith.blob.refs 2")
        );
        // A number twice.
        assert!(BlobRefs::decode(&[1, 2, 4, 1, 1, 0, 1, 1]).is_err());
        // So many files are not allocated.
        assert!(BlobRefs::decode(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
    }
}
