//! Reads beyond the value of a key: several families at once, columns, operands, existence, ranges.

use super::cursor::Iter;
use super::{Cf, Db};
use crate::read::{Entity, FamilyKeys, Newest, ReadOptions, ReadPurpose};
use crate::write::{WriteBatch, WriteOptions};
use spanlith_base::wide_columns::{WideColumn, encode_entity};
use spanlith_base::{Comparator, Error, Pinned, Result};
use std::collections::BTreeMap;
use std::ops::{Bound, Range, RangeBounds};

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueRange {
    /// Its bytes: fewer than were asked for where the value ends.
    pub bytes: Pinned,
    /// Length of the whole value.
    pub value_len: u64,
}

impl Cf {
    /// A part of the value of a key; `None` if there is none. Of a value that lies uncompressed in a blob file only these
    /// bytes are read, in one read, if [`ReadOptions::verify_checksums`] is off: a checksum is of the whole value. With it, and
    /// of any other value, the whole is read and cut. A range that begins after the value is empty.
    ///
    /// # Errors
    /// As [`Self::get_opt`].
    pub fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        range: Range<u64>,
        options: &ReadOptions,
    ) -> Result<Option<ValueRange>> {
        let part = (self.db().engine()).get_range(&self.family, key.as_ref(), &range, options)?;
        Ok(part.map(|(bytes, value_len)| ValueRange { bytes, value_len }))
    }
}

impl Db {
    /// Values of keys of several families at one consistent point, in the order given.
    pub fn multi_get(&self, keys: &[(&Cf, &[u8])]) -> Vec<Result<Option<Pinned>>> {
        self.multi_get_opt(keys, &ReadOptions::default())
    }

    /// As [`Self::multi_get`], with options.
    pub fn multi_get_opt(
        &self,
        keys: &[(&Cf, &[u8])],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Pinned>>> {
        // In the caller's order.
        let ticket =
            (self.engine()).trace_multi_get(keys.iter().map(|(cf, key)| (cf.family.id, *key)));
        let _lookups = self.engine().trace_lookups(options);
        let mut parts: Vec<FamilyKeys<'_>> = Vec::new();
        let mut part_of: BTreeMap<u32, usize> = BTreeMap::new();
        let mut places = Vec::with_capacity(keys.len());
        for (cf, key) in keys {
            let at = *part_of.entry(cf.family.id).or_insert_with(|| {
                parts.push(FamilyKeys {
                    family: &cf.family,
                    keys: Vec::new(),
                });
                parts.len() - 1
            });
            places.push(at);
            parts[at].keys.push(key);
        }
        let found = self.engine().multi_get_families(&parts, options);
        if ticket.is_some() {
            let values = || {
                found
                    .iter()
                    .flatten()
                    .filter_map(|a| a.as_ref().ok()?.as_ref())
            };
            let bytes = values().map(|value| value.len() as u64).sum();
            let cf = keys.first().map_or(0, |(cf, _)| cf.family.id);
            self.engine()
                .extend_multi_get(ticket, cf, values().count() as u64, bytes);
        }
        let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
        places
            .into_iter()
            .map(|at| found[at].next().unwrap_or(Ok(None)))
            .collect()
    }
}

impl Cf {
    /// Returns whether the key exists.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.get(key).map(|found| found.is_some())
    }

    /// Returns whether the key may exist, by what is in memory alone: `None` says that it does not, else
    /// comes the value if it was at hand.
    pub fn key_may_exist(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Option<Option<Pinned>> {
        let engine = self.db.engine();
        engine.may_exist(&self.family, key.as_ref(), options)
    }

    /// The columns of a key; a plain value is one column without a name.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_entity(&self, key: impl AsRef<[u8]>) -> Result<Option<Entity>> {
        self.get_entity_opt(key, &ReadOptions::default())
    }

    /// As [`Self::get_entity`], with options.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_entity_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Entity>> {
        let engine = self.db.engine();
        engine.get_entity(&self.family, key.as_ref(), options)
    }

    /// Sets a key to columns: names, which must differ, and values. The column without a name is the
    /// one that readers of plain values see.
    ///
    /// # Errors
    /// `Corruption` if two columns have one name; else as [`Db::write`].
    pub fn put_entity(&self, key: impl AsRef<[u8]>, columns: &[(&[u8], &[u8])]) -> Result<()> {
        self.put_entity_opt(key, columns, &WriteOptions::default())
    }

    /// As [`Self::put_entity`], with options.
    ///
    /// # Errors
    /// As [`Self::put_entity`].
    pub fn put_entity_opt(
        &self,
        key: impl AsRef<[u8]>,
        columns: &[(&[u8], &[u8])],
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_untimed()?;
        let mut columns: Vec<_> = columns.iter().map(|c| WideColumn::new(c.0, c.1)).collect();
        let mut entity = Vec::new();
        encode_entity(&mut columns, &mut entity)?;
        let mut batch = WriteBatch::new();
        batch.put_entity_cf(self, key, entity);
        self.db.write_opt(&batch, options)
    }

    /// The merge operands of a key, oldest first, after the value they apply to if there is one;
    /// empty if the key is absent.
    ///
    /// # Errors
    /// `Incomplete` if they are more than `max`; else as [`Self::get`].
    pub fn get_merge_operands(
        &self,
        key: impl AsRef<[u8]>,
        max: usize,
        options: &ReadOptions,
    ) -> Result<Vec<Pinned>> {
        let engine = self.db.engine();
        engine.merge_operands(&self.family, key.as_ref(), max, options)
    }

    /// The value of a key and the timestamp it was written with, at `options.timestamp`. Without
    /// timestamps in the family the latter is empty.
    ///
    /// # Errors
    /// `InvalidArgument` if the options' timestamp is not one of the family; else as [`Self::get`].
    pub fn get_with_timestamp(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<(Pinned, Vec<u8>)>> {
        options.check_purpose(ReadPurpose::Get)?;
        let engine = self.db.engine();
        engine.get_timed(&self.family, key.as_ref(), options)
    }

    /// Returns whether a key was written after the snapshot of `options`, be it deleted, too: `false` without a snapshot. Costs
    /// a search of the memtables, and of those tables that were written since.
    ///
    /// # Errors
    /// `NotSupported` for families with timestamps and for `ReadTier::Persisted`; those of tables.
    pub fn is_written_behind_snapshot(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<bool> {
        let engine = self.db.engine();
        let newest = Newest::new(engine.counts_reads());
        newest.is_written_behind_snapshot(&self.family, key.as_ref(), options)
    }

    /// The entries of a range of keys, in the order of the family. Yields `NotSupported` for a range
    /// without its first or with its last key in other than bytewise order.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        // The smallest key after another one is that with a zero byte appended, but in bytewise
        // order only.
        let needs_successor = matches!(range.start_bound(), Bound::Excluded(_))
            || matches!(range.end_bound(), Bound::Included(_));
        if needs_successor && !matches!(self.comparator(), Comparator::Bytewise) {
            let e = Error::not_supported(
                "ranges without their first or with their last key in this order of keys",
            );
            return Iter::new(self.cursor(ReadOptions::default()).failed(e));
        }
        let mut options = ReadOptions::default();
        let after = |key: &K| [key.as_ref(), &[0]].concat();
        options.lower = match range.start_bound() {
            Bound::Included(key) => Some(key.as_ref().to_vec()),
            Bound::Excluded(key) => Some(after(key)),
            Bound::Unbounded => None,
        };
        options.upper = match range.end_bound() {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        self.iter_opt(options)
    }

    /// The entries whose keys begin with `prefix`. Yields `NotSupported` in other than bytewise
    /// order, where they need not stand together.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        if !matches!(self.comparator(), Comparator::Bytewise) {
            let e = Error::not_supported("prefixes in this order of keys");
            return Iter::new(self.cursor(ReadOptions::default()).failed(e));
        }
        let mut options = ReadOptions::default().lower(prefix);
        options.upper = behind_prefix(prefix);
        self.iter_opt(options)
    }
}

/// The first key after all that begin with `prefix`; `None` if there is none.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::behind_prefix;

    #[test]
    fn the_end_of_a_prefix_carries_over() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind_prefix(b"\xff"), None);
        assert_eq!(behind_prefix(b""), None);
    }
}
