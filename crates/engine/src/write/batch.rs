//! The user's batch: updates applied together or not at all.

use spanlith_base::{Error, Result};
use spanlith_wal::{BatchOp, ContentFlags, PrepareKind};

/// Updates applied together or not at all. Reusable after `clear`.
///
/// An update that breaks a limit is not added; the error is kept and returned by the write.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    raw: spanlith_wal::WriteBatch,
    error: Option<Error>,
    /// The database of the families it has updates of, if one was named by its handle.
    database: Option<u64>,
}

/// A family as an update of a batch names it: by its handle, `&cf`.
///
/// Families of two databases may have the same number. With handles a batch belongs to one database: an update of
/// another one's family is refused, and so is a write to another one.
#[derive(Clone, Copy, Debug)]
pub struct FamilyRef {
    id: u32,
    database: Option<u64>,
}

impl FamilyRef {
    /// The family of that number in whichever database the batch is written to: for who replays the batches of a
    /// database on another that has the same families under the same numbers.
    pub fn by_id(id: u32) -> Self {
        Self { id, database: None }
    }

    pub(crate) fn of(id: u32, database: u64) -> Self {
        Self {
            id,
            database: Some(database),
        }
    }
}

fn another_database() -> Error {
    Error::invalid_argument("a column family of another database")
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
            database: None,
        })
    }

    /// An empty batch with room for `reserved_bytes`, which refuses to grow over `size_max` bytes
    /// (0: no limit).
    pub fn with_limits(reserved_bytes: usize, size_max: usize) -> Self {
        Self {
            raw: spanlith_wal::WriteBatch::with_limits(reserved_bytes, size_max),
            error: None,
            database: None,
        }
    }

    /// Keeps checksums of the updates from now on, and of those it has: the write fails with
    /// `Corruption` if the batch has changed meanwhile otherwise than by its methods.
    pub fn protect(&mut self) -> &mut Self {
        let r = self.raw.protect();
        self.note(r)
    }

    fn note(&mut self, result: Result<()>) -> &mut Self {
        if let Err(e) = result
            && self.error.is_none()
        {
            self.error = Some(e);
        }
        self
    }

    /// Adds an update of a family unless that is another database's.
    fn of_family(
        &mut self,
        cf: FamilyRef,
        add: impl FnOnce(&mut spanlith_wal::WriteBatch, u32) -> Result<()>,
    ) -> &mut Self {
        let own = self.database.or(cf.database);
        let r = match cf.database.is_none_or(|database| own == Some(database)) {
            true => add(&mut self.raw, cf.id),
            false => Err(another_database()),
        };
        self.database = own;
        self.note(r)
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

    /// Removes the keys from `begin` up to, not including, `end`.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> &mut Self {
        self.delete_range_cf(FamilyRef::by_id(0), begin, end)
    }

    /// Sets a key of family `cf`.
    pub fn put_cf(
        &mut self,
        cf: impl Into<FamilyRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.of_family(cf.into(), |raw, id| {
            raw.put_cf(id, key.as_ref(), value.as_ref())
        })
    }

    /// Removes a key of family `cf`.
    pub fn delete_cf(&mut self, cf: impl Into<FamilyRef>, key: impl AsRef<[u8]>) -> &mut Self {
        self.of_family(cf.into(), |raw, id| raw.delete_cf(id, key.as_ref()))
    }

    /// Removes a key of family `cf` that was put at most once since its last removal.
    pub fn single_delete_cf(
        &mut self,
        cf: impl Into<FamilyRef>,
        key: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.of_family(cf.into(), |raw, id| raw.single_delete_cf(id, key.as_ref()))
    }

    /// Adds a merge operand in family `cf`.
    pub fn merge_cf(
        &mut self,
        cf: impl Into<FamilyRef>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.of_family(cf.into(), |raw, id| {
            raw.merge_cf(id, key.as_ref(), operand.as_ref())
        })
    }

    /// Removes the keys of family `cf` from `begin` up to, not including, `end`.
    pub fn delete_range_cf(
        &mut self,
        cf: impl Into<FamilyRef>,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.of_family(cf.into(), |raw, id| {
            raw.delete_range_cf(id, begin.as_ref(), end.as_ref())
        })
    }

    /// Sets a key of family `cf` to wide columns in their encoded form.
    pub fn put_entity_cf(
        &mut self,
        cf: impl Into<FamilyRef>,
        key: impl AsRef<[u8]>,
        entity: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.of_family(cf.into(), |raw, id| {
            raw.put_entity_cf(id, key.as_ref(), entity.as_ref())
        })
    }

    /// Sets a key of family `cf` to a value that counts as written at `write_unix_time` (seconds).
    pub fn timed_put_cf(
        &mut self,
        cf: impl Into<FamilyRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        write_unix_time: u64,
    ) -> &mut Self {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.of_family(cf.into(), |raw, id| {
            raw.timed_put_cf(id, key, value, write_unix_time)
        })
    }

    /// Adds a note that goes to the log only.
    pub fn put_log_data(&mut self, blob: impl AsRef<[u8]>) -> &mut Self {
        let r = self.raw.put_log_data(blob.as_ref());
        self.note(r)
    }

    /// Appends the updates of another batch.
    pub fn append(&mut self, other: &WriteBatch) -> &mut Self {
        let own = self.database.or(other.database);
        let r = match other.database.is_none_or(|database| own == Some(database)) {
            true => other.raw().and_then(|raw| self.raw.append(raw)),
            false => Err(another_database()),
        };
        self.database = own;
        self.note(r)
    }

    /// Remembers the present contents.
    pub fn set_save_point(&mut self) {
        self.raw.set_save_point();
    }

    /// Returns to the latest save point and removes it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.raw.rollback_to_save_point()
    }

    /// Removes the latest save point and keeps the contents.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.raw.pop_save_point()
    }

    /// Overwrites the timestamps at the ends of all keys, for families for which `size_of` says
    /// their size in bytes; 0 leaves a family alone.
    ///
    /// # Errors
    /// `NotFound` for a family that `size_of` does not know, `InvalidArgument` for one whose size
    /// is not that of `ts`. The batch is unchanged then.
    pub fn update_timestamps(
        &mut self,
        ts: &[u8],
        size_of: impl Fn(u32) -> Option<usize>,
    ) -> Result<()> {
        self.raw.update_timestamps(ts, size_of)
    }

    /// Adds an entry that does nothing; the first entry of a batch that is to be prepared.
    pub fn mark_noop(&mut self) -> &mut Self {
        self.raw.mark_noop();
        self
    }

    /// Makes the batch, which begins with a no-op, the prepared section of transaction `xid`.
    ///
    /// # Errors
    /// `InvalidArgument` if it begins otherwise.
    pub fn mark_prepared(&mut self, xid: &[u8], kind: PrepareKind) -> Result<()> {
        self.raw.mark_prepared(xid, kind)
    }

    /// Adds the marker that commits transaction `xid`.
    pub fn mark_commit(&mut self, xid: &[u8]) -> &mut Self {
        let r = self.raw.mark_commit(xid);
        self.note(r)
    }

    /// Adds the marker that commits transaction `xid`, whose entries get timestamp `ts`.
    pub fn mark_commit_with_timestamp(&mut self, xid: &[u8], ts: &[u8]) -> &mut Self {
        let r = self.raw.mark_commit_with_timestamp(xid, ts);
        self.note(r)
    }

    /// Adds the marker that rolls transaction `xid` back.
    pub fn mark_rollback(&mut self, xid: &[u8]) -> &mut Self {
        let r = self.raw.mark_rollback(xid);
        self.note(r)
    }

    /// Which kinds of entries it holds.
    pub fn flags(&self) -> ContentFlags {
        self.raw.flags()
    }

    /// Sets the limit of [`Self::size_bytes`]; 0 means none.
    pub fn set_size_max(&mut self, size_max: usize) {
        self.raw.set_size_max(size_max);
    }

    /// Number of updates.
    pub fn len(&self) -> usize {
        self.raw.count() as usize
    }

    /// Returns whether there is none.
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
        self.database = None;
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

    /// The batch underneath for a write to a database, or the error that an update met.
    pub(crate) fn raw_for(&self, database: u64) -> Result<&spanlith_wal::WriteBatch> {
        match self.database.is_none_or(|own| own == database) {
            true => self.raw(),
            false => Err(another_database()),
        }
    }

    /// The batch underneath, or the error that an update met.
    pub(crate) fn raw(&self) -> Result<&spanlith_wal::WriteBatch> {
        self.error.clone().map_or(Ok(&self.raw), Err)
    }
}
