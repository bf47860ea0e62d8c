//! Families whose tables hold keys without their timestamps (`persist_user_defined_timestamps=false`), and the
//! timestamps in their memtables.

use super::{Family, FamilySettings};
use spanlith_base::{Comparator, keys};
use spanlith_memtable::MemTable;
use std::sync::Arc;

/// Returns whether tables of the family hold keys without their timestamps.
pub(crate) fn strips_timestamps(family: &Family, settings: &FamilySettings) -> bool {
    family.comparator.timestamp_size() != 0 && !settings.options.persist_user_defined_timestamps
}

/// Shows the timestamps of all entries and range tombstones of a memtable, in no order.
pub(crate) fn each_timestamp(c: &Comparator, mem: &Arc<MemTable>, mut visit: impl FnMut(&[u8])) {
    let mut iter = mem.iter();
    iter.seek_to_first();
    while iter.valid() {
        visit(c.split_timestamp(keys::user_key(iter.key())).1);
        iter.next();
    }
    if let Some(list) = mem.range_tombstones() {
        for f in list.iter() {
            f.timestamps.chunks(c.timestamp_size()).for_each(&mut visit);
        }
    }
}

/// The latest timestamp in a memtable by the order of the family; empty if there is none.
pub(crate) fn newest_timestamp(c: &Comparator, mem: &Arc<MemTable>) -> Vec<u8> {
    let mut newest = Vec::new();
    each_timestamp(c, mem, |timestamp| {
        if newest.is_empty() || c.compare_timestamp(timestamp, &newest).is_gt() {
            newest.clear();
            newest.extend_from_slice(timestamp);
        }
    });
    newest
}
