//! A write batch whose updates can be looked up by key: RocksDB's `WriteBatchWithIndex`.
//!
//! The index maps each key, in the order of its family, to where its updates stand in the batch. Only
//! updates that a lookup can need are kept: a put or delete hides all that came before, merges pile
//! up. Hence RocksDB's mode that overwrites index entries and the one that does not answer alike
//! here. Range deletions are refused, as there.

use crate::db::Cf;
use crate::merge::{MergeBase, MergeResult, full_merge};
use crate::read::{Entity, ReadOptions};
use spanlith_base::timestamp::put_padded;
use spanlith_base::wide_columns::WideColumns;
use spanlith_base::{Comparator, Error, ErrorKind, Pinned, Result};
use spanlith_wal::{BatchIter, BatchOp, WriteBatch};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key without timestamp, in the order of its family.
#[derive(Debug)]
struct IndexKey {
    key: Box<[u8]>,
    order: Comparator,
}

impl Ord for IndexKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order
            .compare_without_timestamp(&self.key, false, &other.key, false)
    }
}

impl PartialOrd for IndexKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for IndexKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for IndexKey {}

/// Keys of one family, and the offsets of their updates in the batch, oldest first: one that hides
/// what lies below, or none, then merges.
#[derive(Debug, Default)]
struct FamilyIndex {
    order: Comparator,
    keys: BTreeMap<IndexKey, Vec<usize>>,
}

impl FamilyIndex {
    fn key(&self, key: &[u8]) -> IndexKey {
        IndexKey {
            key: key.into(),
            order: self.order.clone(),
        }
    }

    fn add(&mut self, key: &[u8], offset: usize, is_merge: bool) {
        let updates = self.keys.entry(self.key(key)).or_default();
        if !is_merge {
            updates.clear();
        }
        updates.push(offset);
    }
}

/// Describes what lies below the merge operands of a key in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below<'a> {
    /// Nothing in the batch: the database has to say.
    Unknown,
    /// A deletion.
    Deleted,
    /// A value.
    Value(&'a [u8]),
    /// An encoded entity.
    Entity(&'a [u8]),
}

/// Describes what a batch says about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Merge operands, oldest first.
    pub operands: Vec<&'a [u8]>,
    /// Says what they apply to.
    pub below: Below<'a>,
}

impl Found<'_> {
    /// Returns whether the batch says nothing.
    pub fn is_nothing(&self) -> bool {
        self.operands.is_empty() && self.below == Below::Unknown
    }

    /// The value that readers of plain values see; `None` if the batch says nothing or that the key is
    /// absent. `stored` is what the database has for the key, asked if operands need it.
    ///
    /// # Errors
    /// Those of `stored`; `InvalidArgument` for operands without a family or an operator, `Corruption` if
    /// the operator gives up or an entity does not decode.
    pub(super) fn value(
        &self,
        cf: Option<&Cf>,
        key: &[u8],
        stored: impl FnOnce() -> Result<Option<Entity>>,
    ) -> Result<Option<Vec<u8>>> {
        let entity;
        let base = match self.below {
            Below::Unknown | Below::Deleted if self.operands.is_empty() => return Ok(None),
            Below::Value(value) if self.operands.is_empty() => return Ok(Some(value.to_vec())),
            Below::Entity(bytes) if self.operands.is_empty() => {
                return default_value(bytes).map(Some);
            }
            Below::Deleted => MergeBase::None,
            Below::Value(value) => MergeBase::Value(value),
            Below::Entity(bytes) => MergeBase::Entity(WideColumns::decode(bytes)?),
            Below::Unknown => match stored()? {
                None => MergeBase::None,
                Some(found) => {
                    entity = found;
                    let columns = entity.columns()?;
                    match columns.default_column() {
                        Some(default) if columns.len() == 1 => MergeBase::Value(default.value),
                        _ => MergeBase::Entity(columns),
                    }
                }
            },
        };
        let cf = cf.ok_or_else(|| Error::invalid_argument("Must provide a column family"))?;
        let operator = cf.merge_operator().ok_or_else(|| {
            Error::invalid_argument("Merge operator must be set for column family")
        })?;
        match full_merge(operator, key, base, &self.operands)? {
            MergeResult::Value(value) => Ok(Some(value)),
            MergeResult::Entity(entity) => default_value(&entity).map(Some),
        }
    }
}

/// Updates applied together or not at all, that can be looked up by key before. Reusable after
/// `clear`.
#[derive(Debug, Default)]
pub struct IndexedBatch {
    batch: WriteBatch,
    families: BTreeMap<u32, FamilyIndex>,
}

/// The value a reader of plain values sees in an entity.
fn default_value(entity: &[u8]) -> Result<Vec<u8>> {
    let columns = WideColumns::decode(entity)?;
    Ok(columns
        .default_column()
        .map_or_else(Vec::new, |c| c.value.to_vec()))
}

impl IndexedBatch {
    /// An empty batch; `order` is that of the default family.
    pub fn new(order: Comparator) -> Self {
        Self::with_limits(order, 0, 0)
    }

    /// As [`Self::new`], with room for `reserved_bytes` bytes and a limit of `size_max` bytes (0:
    /// none).
    pub fn with_limits(order: Comparator, reserved_bytes: usize, size_max: usize) -> Self {
        let mut new = Self {
            batch: WriteBatch::with_limits(reserved_bytes, size_max),
            families: BTreeMap::new(),
        };
        new.families.entry(0).or_default().order = order;
        new
    }

    /// Keeps checksums of the updates; see [`WriteBatch::protect`].
    ///
    /// # Errors
    /// As there.
    pub fn protect(&mut self) -> Result<()> {
        self.batch.protect()
    }

    /// The updates.
    pub fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Order of the keys of a family, as far as the batch knows it.
    pub fn order(&self, cf: u32) -> Comparator {
        self.families
            .get(&cf)
            .map_or_else(Comparator::default, |f| f.order.clone())
    }

    /// Notes the sequence number that its first update got.
    pub fn set_sequence(&mut self, sequence: u64) {
        self.batch.set_sequence(sequence);
    }

    /// Adds an update of a key; `None` is the default family.
    fn add(
        &mut self,
        cf: Option<&Cf>,
        key: &[u8],
        is_merge: bool,
        update: impl FnOnce(&mut WriteBatch, u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let id = cf.map_or(0, Cf::id);
        let offset = self.batch.as_bytes().len();
        let family = self.families.entry(id).or_default();
        // A handle knows the order better than who made the batch, the default family's too.
        if let Some(cf) = cf
            && family.keys.is_empty()
        {
            family.order = cf.comparator().clone();
        }
        match family.order.timestamp_size() {
            0 => update(&mut self.batch, id, key)?,
            // The place of a timestamp, which is set later.
            size => {
                let mut padded = Vec::new();
                put_padded(&mut padded, key, size, 0);
                update(&mut self.batch, id, &padded)?;
                self.batch.mark_lacking_timestamps();
            }
        }
        family.add(key, offset, is_merge);
        Ok(())
    }

    /// Sets a key; without a family, one of the default family.
    ///
    /// # Errors
    /// `MemoryLimit` if the batch would grow over its limit, `InvalidArgument` for a key or value
    /// that is too large; the batch is unchanged then.
    pub fn put(&mut self, cf: Option<&Cf>, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(cf, key, false, |b, id, key| b.put_cf(id, key, value))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()> {
        self.add(cf, key, false, |b, id, key| b.delete_cf(id, key))
    }

    /// Removes a key that was put at most once since its last removal.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn single_delete(&mut self, cf: Option<&Cf>, key: &[u8]) -> Result<()> {
        self.add(cf, key, false, |b, id, key| b.single_delete_cf(id, key))
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn merge(&mut self, cf: Option<&Cf>, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(cf, key, true, |b, id, key| b.merge_cf(id, key, operand))
    }

    /// Adds an entry that does nothing; the first entry of a batch that may be prepared.
    pub(super) fn mark_noop(&mut self) {
        self.batch.mark_noop();
    }

    /// Adds a note that goes to the log only.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_log_data(&mut self, blob: &[u8]) -> Result<()> {
        self.batch.put_log_data(blob)
    }

    /// Forgets all updates and save points.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.clear_index();
    }

    fn clear_index(&mut self) {
        for family in self.families.values_mut() {
            family.keys.clear();
        }
    }

    /// Remembers the present contents.
    pub fn set_save_point(&mut self) {
        self.batch.set_save_point();
    }

    /// Returns to the latest save point and removes it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.batch.rollback_to_save_point()?;
        self.clear_index();
        let rep = self.batch.as_bytes();
        let mut entries = BatchIter::entries(self.batch.body());
        let mut offset = rep.len() - entries.rest().len();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let at = offset;
            offset = rep.len() - entries.rest().len();
            let (Some(id), Some(key)) = (entry.cf(), entry.key()) else {
                continue;
            };
            if let Some(family) = self.families.get_mut(&id) {
                let is_merge = matches!(entry, BatchOp::Merge { .. });
                let size = family.order.timestamp_size();
                let key = key.get(..key.len().saturating_sub(size)).unwrap_or(key);
                family.add(key, at, is_merge);
            }
        }
        Ok(())
    }

    /// Removes the latest save point and keeps the contents.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.batch.pop_save_point()
    }

    /// Overwrites the timestamps at the ends of all keys, see
    /// [`WriteBatch`](crate::WriteBatch::update_timestamps).
    ///
    /// # Errors
    /// As there.
    pub fn update_timestamps(
        &mut self,
        ts: &[u8],
        size_of: impl Fn(u32) -> Option<usize>,
    ) -> Result<()> {
        self.batch.update_timestamps(ts, size_of)
    }

    /// Returns what the updates at these offsets say.
    fn say(&self, updates: &[usize]) -> Result<Found<'_>> {
        let mut found = Found {
            operands: Vec::new(),
            below: Below::Unknown,
        };
        for &offset in updates {
            let rest = self.batch.as_bytes().get(offset..).unwrap_or_default();
            match BatchIter::entries(rest).next().transpose()? {
                Some(BatchOp::Put { value, .. }) => found.below = Below::Value(value),
                Some(BatchOp::WideColumnEntity { entity, .. }) => {
                    found.below = Below::Entity(entity);
                }
                Some(BatchOp::Delete { .. } | BatchOp::SingleDelete { .. }) => {
                    found.below = Below::Deleted;
                }
                Some(BatchOp::Merge { value, .. }) => found.operands.push(value),
                _ => return Err(Error::corruption("Unexpected entry in WriteBatchWithIndex")),
            }
        }
        Ok(found)
    }

    /// Returns what the batch says about a key of family `cf`.
    ///
    /// # Errors
    /// None for a batch that was filled through its methods.
    pub fn find(&self, cf: u32, key: &[u8]) -> Result<Found<'_>> {
        let updates = self
            .families
            .get(&cf)
            .and_then(|f| f.keys.get(&f.key(key)))
            .map_or(&[][..], Vec::as_slice);
        self.say(updates)
    }

    /// The neighbour of `key` among the keys the batch says something about; the first or last one
    /// without a key.
    pub(super) fn neighbour(&self, cf: u32, from: Bound<&[u8]>, forward: bool) -> Option<&[u8]> {
        let family = self.families.get(&cf)?;
        let from = match from {
            Bound::Included(key) => Bound::Included(family.key(key)),
            Bound::Excluded(key) => Bound::Excluded(family.key(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let entry = match forward {
            true => family.keys.range((from, Bound::Unbounded)).next(),
            false => family.keys.range((Bound::Unbounded, from)).next_back(),
        };
        entry.map(|(key, _)| &*key.key)
    }

    /// The value of a key as far as the batch says; `None` if it says nothing or that the key is
    /// absent.
    ///
    /// # Errors
    /// `MergeInProgress` if it holds operands only; `InvalidArgument` if it holds operands and no
    /// family or a family without operator is given; `Corruption` if the operator gives up.
    pub fn get(&self, cf: Option<&Cf>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.find(cf.map_or(0, Cf::id), key)?;
        found.value(cf, key, || Err(Error::new(ErrorKind::MergeInProgress, "")))
    }

    /// The value of a key as it would be if the batch were written now.
    ///
    /// # Errors
    /// Those of [`Self::get`] and of reading the database.
    pub fn get_over(&self, cf: &Cf, key: &[u8], options: &ReadOptions) -> Result<Option<Pinned>> {
        let found = self.find(cf.id(), key)?;
        if found.is_nothing() {
            return cf.get_opt(key, options);
        }
        let value = found.value(Some(cf), key, || cf.get_entity_opt(key, options))?;
        Ok(value.map(Pinned::from_vec))
    }
}
