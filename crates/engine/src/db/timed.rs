//! Writes in families with timestamps, and the history they keep.

use super::{Cf, Db};
use crate::core::Family;
use crate::read::{ReadOptions, ReadPurpose, check_timestamp, timestamp_missing};
use crate::write::{WriteBatch, WriteOptions};
use spanlith_base::{Pinned, Result};

/// A value and the timestamp it was written with.
pub type TimedValue = (Pinned, Vec<u8>);

impl Db {
    /// Values and timestamps of keys of several families at one consistent point, in the order given, as
    /// [`Cf::get_with_timestamp`] has them. If the timestamp fits one family ill, no key is read: those of
    /// others are `Incomplete`. If one has given up history as of it, all are its error.
    pub fn multi_get_with_timestamps(
        &self,
        keys: &[(&Cf, &[u8])],
        options: &ReadOptions,
    ) -> Vec<Result<Option<TimedValue>>> {
        if let Err(e) = options.check_purpose(ReadPurpose::MultiGet) {
            return keys.iter().map(|_| Err(e.clone())).collect();
        }
        let families: Vec<&Family> = keys.iter().map(|(cf, _)| &*cf.family).collect();
        if let Some(errors) = self.engine().refused(&families, options) {
            return errors.into_iter().map(Err).collect();
        }
        let engine = self.engine();
        let _lookups = engine.trace_lookups(options);
        let mut options = options.clone();
        options
            .snapshot
            .get_or_insert_with(|| engine.take_snapshot());
        let ticket = engine.trace_multi_get(keys.iter().map(|(cf, key)| (cf.family.id, *key)));
        let get = |(cf, key): &(&Cf, &[u8])| engine.get_timed_untraced(&cf.family, key, &options);
        let all: Vec<_> = keys.iter().map(get).collect();
        if ticket.is_some() {
            let values = || all.iter().filter_map(|a| a.as_ref().ok()?.as_ref());
            let bytes = values().map(|found| found.0.len() as u64).sum();
            let cf = keys.first().map_or(0, |(cf, _)| cf.family.id);
            engine.extend_multi_get(ticket, cf, values().count() as u64, bytes);
        }
        all
    }
}

impl Cf {
    /// Refuses calls without timestamps in a family that has them.
    ///
    /// # Errors
    /// `InvalidArgument`.
    #[inline]
    pub fn check_untimed(&self) -> Result<()> {
        match self.family.comparator.timestamp_size() {
            0 => Ok(()),
            _ => Err(timestamp_missing(&self.family.name)),
        }
    }

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
        batch.put_cf(self, key, value);
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
        batch.delete_cf(self, key);
        self.db.write_opt(&batch, options)
    }

    /// Removes a key as of a timestamp that was put at most once since its last removal.
    ///
    /// # Errors
    /// As [`Self::put_at`].
    pub fn single_delete_at(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let key = self.timed_key(key.as_ref(), timestamp)?;
        let mut batch = WriteBatch::new();
        batch.single_delete_cf(self, key);
        self.db.write_opt(&batch, options)
    }

    /// Removes all keys from `begin` up to but not including `end` as of a timestamp.
    ///
    /// # Errors
    /// As [`Self::put_at`].
    pub fn delete_range_at(
        &self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        timestamp: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let begin = self.timed_key(begin.as_ref(), timestamp)?;
        let end = self.timed_key(end.as_ref(), timestamp)?;
        let mut batch = WriteBatch::new();
        batch.delete_range_cf(self, begin, end);
        self.db.write_opt(&batch, options)
    }

    /// The timestamp below which history may be given up; empty if it is whole. Reads at an earlier
    /// timestamp fail from the next flush or compaction on.
    pub fn full_history_ts_low(&self) -> Vec<u8> {
        let view = self.family.superversion.load();
        view.version.history_low.clone()
    }

    /// Gives up history before a timestamp; durable when this returns. Compactions keep of every key
    /// the newest version before it, from then on.
    ///
    /// # Errors
    /// `InvalidArgument` if that would lower it, or it is not a timestamp of the family; of the
    /// MANIFEST.
    pub fn increase_full_history_ts_low(&self, low: &[u8]) -> Result<()> {
        self.engine().increase_history_low(&self.family, low)
    }
}
