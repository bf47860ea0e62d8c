//! The file of a table without blocks.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use spanlith_base::{Error, Result};
use spanlith_env::RandomAccessFile;
use std::sync::Arc;

/// A file, and where its entries end.
pub(crate) struct FlatFile {
    file: Arc<dyn RandomAccessFile>,
    data_end: u64,
}

impl FlatFile {
    /// The file, whose entries lie before `data_end`.
    pub(crate) fn new(file: Arc<dyn RandomAccessFile>, data_end: u64) -> Self {
        Self { file, data_end }
    }

    /// Where the entries end at the latest.
    pub(crate) fn data_end(&self) -> u64 {
        self.data_end
    }

    /// Bytes of the file, all of them before [`Self::data_end`].
    ///
    /// # Errors
    /// `Corruption` if they are not there; of the file.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.data_end) {
            return Err(self.bad("entry reaches beyond the entries of the table", offset));
        }
        let mut bytes = vec![0; len];
        spanlith_base::sync::assert_only_tokens_are_held();
        let n = self.file.read_at(offset, &mut bytes)?;
        match n == len {
            true => Ok(bytes),
            false => Err(self.bad("file ends within an entry", offset)),
        }
    }

    /// An error of what lies at `offset`.
    #[cold]
    pub(crate) fn bad(&self, what: &str, offset: u64) -> Error {
        let e = Error::corruption(what).with_path(self.file.path());
        e.with_offset(offset)
    }
}
