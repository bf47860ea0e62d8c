//! Describes what memtables and tables have in a range of user keys.

use crate::core::{Family, SuperVersion};
use crate::picker::RunningCompaction;
use crate::version::{FileMeta, Version};
use spanlith_base::keys::{self, MAX_SEQUENCE, pack_tag};
use spanlith_base::{Comparator, Result};
use spanlith_memtable::MemTable;
use spanlith_table::ReadParams;
use std::sync::Arc;

/// A range of user keys, both ends included; with timestamps, which do not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub first: &'a [u8],
    pub last: &'a [u8],
}

impl Span<'_> {
    /// The internal key in front of all versions of the first key.
    fn start(&self, family: &Family) -> Vec<u8> {
        let bare = family.comparator.strip_timestamp(self.first);
        let first = family.padded(bare, 0xff);
        keys::internal_key(&first, pack_tag(MAX_SEQUENCE, 0xff))
    }

    fn ends_before(&self, comparator: &Comparator, key: &[u8]) -> bool {
        comparator
            .compare_without_timestamp(self.last, true, key, true)
            .is_lt()
    }

    fn begins_behind(&self, comparator: &Comparator, key: &[u8]) -> bool {
        comparator
            .compare_without_timestamp(self.first, true, key, true)
            .is_gt()
    }

    /// Returns whether it has a key in common with the user keys from `low` to `high`.
    fn meets(&self, comparator: &Comparator, low: &[u8], high: &[u8]) -> bool {
        !self.ends_before(comparator, low) && !self.begins_behind(comparator, high)
    }
}

/// Returns whether a memtable of the family, sealed or not, has something in the range.
pub(super) fn memtables_hold(family: &Family, sv: &SuperVersion, span: Span<'_>) -> bool {
    std::iter::once(&sv.mem)
        .chain(sv.imm.iter())
        .any(|mem| memtable_holds(family, mem, span))
}

fn memtable_holds(family: &Family, mem: &Arc<MemTable>, span: Span<'_>) -> bool {
    if mem.is_empty() {
        return false;
    }
    let c = &family.comparator;
    if let Some(list) = mem.range_tombstones()
        && list.overlaps(
            Some(c.strip_timestamp(span.first)),
            Some(c.strip_timestamp(span.last)),
        )
    {
        return true;
    }
    let mut iter = mem.iter();
    iter.seek(&span.start(family));
    iter.valid() && !span.ends_before(c, keys::user_key(iter.key()))
}

/// Returns whether a level has a file whose bounds meet the range.
pub(super) fn bounds_meet(version: &Version, level: usize, span: Span<'_>) -> bool {
    files_meeting(version, level, span).next().is_some()
}

fn files_meeting<'a>(
    version: &'a Version,
    level: usize,
    span: Span<'a>,
) -> impl Iterator<Item = &'a Arc<FileMeta>> {
    let c = &version.comparator;
    version.files(level).iter().filter(move |f| {
        let is_beside = f.largest_is_sentinel()
            && c.compare_without_timestamp(f.largest_user_key(), true, span.first, true)
                .is_eq();
        !is_beside && span.meets(c, f.smallest_user_key(), f.largest_user_key())
    })
}

/// Returns whether a level has a key or range tombstone in the range. Reads the tables whose bounds alone do not tell.
///
/// # Errors
/// Of reading them.
pub(super) fn level_holds(
    family: &Family,
    version: &Version,
    level: usize,
    span: Span<'_>,
    fill_cache: bool,
) -> Result<bool> {
    for file in files_meeting(version, level, span) {
        if table_holds(family, file, span, fill_cache)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn table_holds(family: &Family, file: &FileMeta, span: Span<'_>, fill_cache: bool) -> Result<bool> {
    let c = &family.comparator;
    let reader = family.cache.reader(file)?;
    if let Some(tombstones) = file.truncated_tombstones() {
        let (first, last) = (c.strip_timestamp(span.first), c.strip_timestamp(span.last));
        if tombstones.list().overlaps(Some(first), Some(last)) {
            return Ok(true);
        }
    }
    let mut iter = reader.iter(ReadParams {
        fill_cache,
        ..ReadParams::default()
    });
    iter.seek(&span.start(family));
    iter.status()?;
    Ok(iter.valid() && !span.ends_before(c, keys::user_key(iter.key())))
}

/// Returns whether a running compaction, or another ingestion, writes to that level into the range.
pub(super) fn output_meets(
    comparator: &Comparator,
    running: &[RunningCompaction],
    level: usize,
    span: Span<'_>,
) -> bool {
    running.iter().any(|r| {
        let writes =
            r.output_level == level || r.proximal.as_ref().is_some_and(|p| p.level == level);
        writes && span.meets(comparator, &r.smallest, &r.largest)
    })
}
