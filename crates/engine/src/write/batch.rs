//! The user's batch: updates applied together or not at all.

use spanlith_base::{Error, Result};
use spanlith_wal::BatchOp;

/// Updates applied together or not at all. Reusable after `clear`.
///
/// An update that breaks a limit is not added; the error is kept and returned by the write.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    raw: spanlith_wal::WriteBatch,
    error: Option<Error>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// A batch of RocksDB's representation, checked.
    ///
    /// # Errors
    /// `Corruption` if the bytes are not a batch.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self {
            raw: spanlith_wal::WriteBatch::from_bytes(bytes)?,
            error: None,
        })
    }

    fn note(&mut self, result: Result<()>) -> &mut Self {
        if let Err(e) = result
            && self.error.is_none()
        {
            self.error = Some(e);
        }
        self
    }

    /// Sets a key.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.put(key.as_ref(), value.as_ref());
        self.note(r)
    }

    /// Removes a key.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.delete(key.as_ref());
        self.note(r)
    }

    /// Removes a key that was put at most once since its last removal.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.single_delete(key.as_ref());
        self.note(r)
    }

    /// Adds a merge operand.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.merge(key.as_ref(), operand.as_ref());
        self.note(r)
    }

    /// As [`Self::put`], in the column family of that id.
    pub fn put_cf(&mut self, cf: u32, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.put_cf(cf, key.as_ref(), value.as_ref());
        self.note(r)
    }

    /// As [`Self::delete`], in the column family of that id.
    pub fn delete_cf(&mut self, cf: u32, key: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.delete_cf(cf, key.as_ref());
        self.note(r)
    }

    /// Number of updates.
    pub fn len(&self) -> usize {
        self.raw.count() as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Bytes of the representation.
    pub fn size_bytes(&self) -> usize {
        self.raw.data_size()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.error = None;
    }

    /// RocksDB's representation.
    pub fn as_bytes(&self) -> &[u8] {
        self.raw.as_bytes()
    }

    /// The updates.
    ///
    /// # Errors
    /// None for a batch built or checked here.
    pub fn operations(&self) -> Result<impl Iterator<Item = Result<BatchOp<'_>>>> {
        self.raw.iter()
    }

    /// The batch underneath, or the error that an update met.
    pub(crate) fn raw(&self) -> Result<&spanlith_wal::WriteBatch> {
        self.error.clone().map_or(Ok(&self.raw), Err)
    }
}
