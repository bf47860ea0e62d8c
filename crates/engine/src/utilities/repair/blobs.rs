//! Reads what a blob file says of itself.

use crate::blob::{BlobFooter, BlobHeader, FOOTER_LEN, HEADER_LEN, read_range};
use crate::version::{BlobFileAddition, NewFile};
use spanlith_base::Result;
use spanlith_env::Env;
use std::collections::BTreeSet;
use std::path::Path;

/// A blob file as its header and footer describe it.
#[derive(Clone, Debug)]
pub(super) struct BlobFile {
    pub family: u32,
    pub addition: BlobFileAddition,
}

impl BlobFile {
    /// Reads header and footer. Records are not looked at: each belongs to one value, whose reader checks it.
    ///
    /// # Errors
    /// Those of the file; `Corruption` if it is none of blobs, or unfinished.
    pub(super) fn describe(env: &Env, path: &Path, number: u64) -> Result<Self> {
        let file = env.fs.open_random(path)?;
        let header = BlobHeader::decode(&read_range(&file, 0, HEADER_LEN as u64)?)?;
        let end = file.size().saturating_sub(FOOTER_LEN as u64);
        let footer = BlobFooter::decode(&read_range(&file, end, FOOTER_LEN as u64)?)?;
        Ok(Self {
            family: header.column_family,
            addition: BlobFileAddition {
                number,
                total_count: footer.blobs,
                total_bytes: end.saturating_sub(HEADER_LEN as u64),
                ..BlobFileAddition::default()
            },
        })
    }
}

/// Makes tables refer to blob files that are there: a version with a table that refers to another one is refused as a
/// whole. The values in files that are lost cannot be read, the others can.
pub(super) fn relink(files: &mut [NewFile], blobs: &BTreeSet<u64>) {
    for f in files.iter_mut().filter(|f| f.oldest_blob_file_number > 0) {
        let there = blobs.range(f.oldest_blob_file_number..).next();
        f.oldest_blob_file_number = there.copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_refers_to_the_oldest_blob_file_that_is_left() {
        let file = |oldest| NewFile {
            oldest_blob_file_number: oldest,
            ..NewFile::default()
        };
        let mut files = [file(0), file(4), file(5), file(9)];
        relink(&mut files, &BTreeSet::from([4, 7]));
        let oldest = files.map(|f| f.oldest_blob_file_number);
        assert_eq!(oldest, [0, 4, 7, 0]);
    }
}
