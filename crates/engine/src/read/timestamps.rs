//! Point reads in families with timestamps: the newest version of a key that is not later than the
//! timestamp of the read.
//!
//! As in RocksDB the newest place that holds such a version answers: of one key, later timestamps are
//! expected to be written later.

use super::get::{Lookup, ReadContext};
use super::stored::Stored;
use crate::core::SuperVersion;
use crate::version::FileMeta;
use spanlith_base::keys;
use spanlith_base::{Comparator, Error, Pinned, Result, SequenceNumber};
use spanlith_table::ReadParams;

/// A value and its timestamp.
pub(crate) type Timed = (Pinned, Vec<u8>);

/// One lookup.
struct Versions<'a, 'k> {
    lookup: Lookup<'k>,
    /// Key and timestamp of the read.
    sought: &'k [u8],
    snapshot: SequenceNumber,
    ctx: &'a ReadContext<'a>,
    /// The newest version met.
    newest: Option<Vec<u8>>,
}

impl Versions<'_, '_> {
    /// Takes in one entry of the key; true when older ones do not matter.
    fn visit(&mut self, user_key: &[u8], tag: u64, pin: impl FnOnce() -> Pinned) -> Result<bool> {
        if keys::tag_sequence(tag) > self.snapshot {
            return Ok(false);
        }
        if self.newest.is_none() {
            self.newest = Some(user_key.to_vec());
        }
        self.lookup.visit(tag, pin)
    }

    fn in_table(&mut self, file: &FileMeta, params: ReadParams) -> Result<()> {
        let reader = self.ctx.cache.reader(file)?;
        if let Some(list) = file.tombstones.get() {
            let timestamp = self.ctx.comparator.split_timestamp(self.sought).1;
            self.lookup.note_ranges_at(list, self.sought, timestamp);
        }
        if !reader.may_match_version(self.sought, &params) {
            return Ok(());
        }
        let mut iter = reader.iter(params);
        iter.seek(&keys::internal_key(
            self.sought,
            keys::seek_tag(keys::MAX_SEQUENCE),
        ));
        let mut found = false;
        while iter.valid() {
            let (user, tag) = (keys::user_key(iter.key()), keys::tag(iter.key()));
            if !self.ctx.comparator.same_key(user, self.sought) {
                return Ok(());
            }
            if !found {
                found = true;
                reader.note_found(&params);
            }
            if self.visit(user, tag, || iter.value_pinned())? {
                return Ok(());
            }
            iter.next();
        }
        iter.status()
    }
}

impl SuperVersion {
    /// Fails if history as of `timestamp` may have been given up.
    ///
    /// # Errors
    /// `InvalidArgument` in RocksDB's words.
    pub(super) fn check_history(&self, comparator: &Comparator, timestamp: &[u8]) -> Result<()> {
        let low = &self.history_low;
        if low.is_empty() || comparator.compare_timestamp(timestamp, low).is_ge() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "Read timestamp: {} is smaller than full_history_ts_low: {}\n",
            comparator.timestamp_text(timestamp),
            comparator.timestamp_text(low)
        )))
    }

    /// The value of `key` as of `timestamp`, and the timestamp it was written with.
    pub(super) fn get_version(
        &self,
        key: &[u8],
        timestamp: &[u8],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
    ) -> Result<Option<Timed>> {
        let Some((stored, newest)) = self.get_stored_version(key, timestamp, snapshot, ctx)? else {
            return Ok(None);
        };
        let value = stored.into_value(&newest, ctx.blobs(&self.version))?;
        let timestamp = ctx.comparator.split_timestamp(&newest).1.to_vec();
        Ok(Some((value, timestamp)))
    }

    /// Returns what is stored for `key` as of `timestamp`, and the user key of its newest version.
    pub(super) fn get_stored_version(
        &self,
        key: &[u8],
        timestamp: &[u8],
        snapshot: SequenceNumber,
        ctx: &ReadContext<'_>,
    ) -> Result<Option<(Stored, Vec<u8>)>> {
        self.check_history(ctx.comparator, timestamp)?;
        let sought = [key, timestamp].concat();
        let mut v = Versions {
            lookup: Lookup::new(key, snapshot, ctx.ignore_ranges),
            sought: &sought,
            snapshot,
            ctx,
            newest: None,
        };
        self.visit_places(key, &mut v)?;
        let Versions { lookup, newest, .. } = v;
        let Some(newest) = newest else {
            return Ok(None);
        };
        let blobs = ctx.blobs(&self.version);
        let stored = lookup.finish(ctx.merge_operator, blobs)?;
        Ok(stored.map(|stored| (stored, newest)))
    }

    fn visit_places(&self, key: &[u8], v: &mut Versions<'_, '_>) -> Result<()> {
        for mem in std::iter::once(&self.mem).chain(&self.imm) {
            if let Some(list) = mem.range_tombstones() {
                mem.check_fragments()?;
                let timestamp = v.ctx.comparator.split_timestamp(v.sought).1;
                v.lookup.note_ranges_at(&list, v.sought, timestamp);
            }
            let mut entry = mem.find_version(v.sought, v.snapshot);
            while let Some(e) = entry {
                e.verify()?;
                if v.visit(e.user_key(), e.tag(), || Pinned::copy_of(e.value()))? {
                    return Ok(());
                }
                entry = e.next_version();
            }
            v.lookup.end_place();
            if v.lookup.done() {
                return Ok(());
            }
        }
        let c = v.ctx.comparator;
        for (n, level) in self.version.levels.iter().enumerate() {
            let first = if n == 0 {
                0
            } else {
                level.files.partition_point(|f| {
                    c.compare_without_timestamp(f.largest_user_key(), true, key, false)
                        .is_lt()
                })
            };
            for file in &level.files[first..] {
                let holds = |bound| c.compare_without_timestamp(bound, true, key, false);
                let begins = holds(file.smallest_user_key()).is_le();
                if begins && holds(file.largest_user_key()).is_ge() {
                    v.in_table(file, v.ctx.at(&self.version, n, file).params)?;
                    if n == 0 {
                        v.lookup.end_place();
                    }
                    if v.lookup.done() {
                        return Ok(());
                    }
                } else if n > 0 {
                    break;
                }
            }
            v.lookup.end_place();
            if v.lookup.done() {
                return Ok(());
            }
        }
        Ok(())
    }
}
