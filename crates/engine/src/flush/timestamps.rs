//! Flushes of families that do not persist timestamps (`persist_user_defined_timestamps=false`).
//!
//! The memtables are copied into one whose keys all have the smallest timestamp, which the table
//! builder cuts off. Of the versions of a key the one that was written last wins, whatever its
//! timestamp was. What such a table cannot tell any more, the family's `full_history_ts_low` says:
//! it rises above every timestamp that was flushed.

use crate::core::{Family, FamilySettings};
use spanlith_base::timestamp::{decode_u64_timestamp, encode_u64_timestamp, put_padded};
use spanlith_base::{Comparator, ValueType, keys};
use spanlith_memtable::MemTable;
use std::sync::Arc;

/// Whether tables of the family hold keys without their timestamps.
pub(crate) fn strips_timestamps(family: &Family, settings: &FamilySettings) -> bool {
    family.comparator.timestamp_size() != 0 && !settings.options.persist_user_defined_timestamps
}

/// A user key with the smallest timestamp in the place of its own.
fn with_smallest(comparator: &Comparator, user_key: &[u8]) -> Vec<u8> {
    let bare = comparator.strip_timestamp(user_key);
    let mut key = Vec::new();
    put_padded(&mut key, bare, user_key.len() - bare.len(), 0);
    key
}

/// The entries of all memtables with the smallest timestamp.
pub(super) fn with_smallest_timestamps(
    family: &Family,
    settings: &FamilySettings,
    mems: &[Arc<MemTable>],
) -> Arc<MemTable> {
    let c = &family.comparator;
    let out = settings.new_memtable(c);
    for mem in mems {
        let mut iter = mem.iter();
        iter.seek_to_first();
        while iter.valid() {
            let (user, tag) = (keys::user_key(iter.key()), keys::tag(iter.key()));
            if let Some(kind) = ValueType::from_byte(keys::tag_type(tag)) {
                let key = with_smallest(c, user);
                out.add(keys::tag_sequence(tag), kind, &key, iter.value());
            }
            iter.next();
        }
        let Some(list) = mem.range_tombstones() else {
            continue;
        };
        for f in list.iter() {
            let smallest = vec![0; c.timestamp_size()];
            let (start, end) = ([f.start, &smallest].concat(), [f.end, &smallest].concat());
            for &seqno in f.seqnos {
                out.add_range_tombstone(seqno, &start, &end);
            }
        }
    }
    out
}

/// The `full_history_ts_low` that a table of these memtables asks for: one above their newest
/// timestamp. `None` if timestamps are persisted.
pub(crate) fn history_low_after(
    family: &Family,
    settings: &FamilySettings,
    mems: &[Arc<MemTable>],
) -> Option<Vec<u8>> {
    if !strips_timestamps(family, settings) {
        return None;
    }
    let c = &family.comparator;
    let mut newest: Option<u64> = None;
    let mut note = |timestamp: &[u8]| newest = newest.max(decode_u64_timestamp(timestamp));
    for mem in mems {
        let mut iter = mem.iter();
        iter.seek_to_first();
        while iter.valid() {
            note(c.split_timestamp(keys::user_key(iter.key())).1);
            iter.next();
        }
        if let Some(list) = mem.range_tombstones() {
            for f in list.iter() {
                f.timestamps.chunks(c.timestamp_size()).for_each(&mut note);
            }
        }
    }
    newest.map(|n| encode_u64_timestamp(n.saturating_add(1)).to_vec())
}
