//! Reads on the engine: choose superversion and sequence number, then answer.

use super::ReadOptions;
use super::db_iter::{DbIter, DbIterParts};
use super::get::ReadContext;
use crate::core::{Engine, Family};
use crate::iter::RangeWatch;
use spanlith_base::{Pinned, Result, SequenceNumber};

impl Engine {
    #[inline]
    fn context<'a>(&self, family: &'a Family, options: &ReadOptions) -> ReadContext<'a> {
        ReadContext {
            comparator: &family.comparator,
            cache: &family.cache,
            merge_operator: family.merge_operator.as_ref(),
            params: options.params(),
            ignore_ranges: options.ignore_range_deletions,
        }
    }

    /// The sequence number of a read. Taken after the superversion: a number taken before could be
    /// older than what a flush in between has already dropped (R1).
    #[inline]
    fn read_sequence(&self, options: &ReadOptions) -> SequenceNumber {
        match &options.snapshot {
            Some(s) => s.seqno(),
            None => self.visible(),
        }
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Pinned>> {
        let sv = family.superversion.load();
        let context = self.context(family, options);
        sv.get(key, self.read_sequence(options), &context)
    }

    /// Many values at one consistent point.
    pub(crate) fn multi_get(
        &self,
        family: &Family,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Pinned>>> {
        let sv = family.superversion.load();
        let context = self.context(family, options);
        sv.multi_get(keys, self.read_sequence(options), &context)
    }

    /// An iterator over the state of now, or of the snapshot.
    pub(crate) fn iterate(&self, family: &Family, options: &ReadOptions) -> Result<DbIter> {
        let superversion = family.superversion.load_full();
        let snapshot = self.read_sequence(options);
        let ranges = RangeWatch::new(!options.ignore_range_deletions);
        let inner =
            superversion.merged(&family.comparator, &family.cache, options.params(), &ranges)?;
        Ok(DbIter::new(DbIterParts {
            inner,
            pin: superversion,
            cache: family.cache.clone(),
            ranges,
            snapshot,
            comparator: family.comparator.clone(),
            merge_operator: family.merge_operator.clone(),
            lower: options.lower.clone(),
            upper: options.upper.clone(),
            max_skipped: options.max_skipped,
        }))
    }
}
