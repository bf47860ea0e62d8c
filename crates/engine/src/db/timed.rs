//! Writes in families with timestamps.

use super::Cf;
use crate::read::check_timestamp;
use crate::write::{WriteBatch, WriteOptions};
use spanlith_base::Result;

impl Cf {
    /// Key and timestamp as they are stored.
    fn timed_key(&self, key: &[u8], timestamp: &[u8]) -> Result<Vec<u8>> {
        let size = self.family.comparator.timestamp_size();
        check_timestamp(size, &self.family.name, Some(timestamp))?;
        Ok([key, timestamp].concat())
    }

    /// Sets a key as of a timestamp.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a timestamp of the family; else as
    /// [`Db::write`](super::Db::write).
    pub fn put_at(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let key = self.timed_key(key.as_ref(), timestamp)?;
        let mut batch = WriteBatch::new();
        batch.put_cf(self.family.id, key, value);
        self.db.write_opt(&batch, options)
    }

    /// Removes a key as of a timestamp.
    ///
    /// # Errors
    /// As [`Self::put_at`].
    pub fn delete_at(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let key = self.timed_key(key.as_ref(), timestamp)?;
        let mut batch = WriteBatch::new();
        batch.delete_cf(self.family.id, key);
        self.db.write_opt(&batch, options)
    }
}
