//! Flushes of families that do not persist timestamps (`persist_user_defined_timestamps=false`).
//!
//! The memtables are copied into one whose keys all have the smallest timestamp, which the table
//! builder cuts off. Of the versions of a key the one that was written last wins, whatever its
//! timestamp was. What such a table cannot tell any more, the family's `full_history_ts_low` says:
//! it rises above every timestamp that was flushed.
//!
//! Once somebody set that bound, a flush that nobody asked for waits until it has passed the timestamps
//! in the memtables, as long as no writer has to wait in turn.

use crate::core::{
    Family, FamilySettings, FamilyState, Immutable, StallCondition, StallInput, StateMutex,
    each_timestamp, stall_condition, stall_input, strips_timestamps,
};
use spanlith_base::timestamp::{decode_u64_timestamp, encode_u64_timestamp, put_padded};
use spanlith_base::{Comparator, ValueType, keys};
use spanlith_memtable::MemTable;
use std::sync::Arc;

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
    let newest = mems
        .iter()
        .filter_map(|m| newest_timestamp(&family.comparator, m));
    let newest = newest.max()?;
    Some(encode_u64_timestamp(newest.saturating_add(1)).to_vec())
}

/// The latest timestamp in a memtable.
fn newest_timestamp(c: &Comparator, mem: &Arc<MemTable>) -> Option<u64> {
    let mut newest: Option<u64> = None;
    each_timestamp(c, mem, |t| newest = newest.max(decode_u64_timestamp(t)));
    newest
}

/// Returns whether a flush of the family waits: its memtables hold timestamps that `full_history_ts_low` still
/// keeps readable, and waiting stalls no writer. To be asked after [`read_timestamps`].
pub(super) fn keeps_timestamps(f: &FamilyState) -> bool {
    let low = &f.version.history_low;
    if f.flush.is_at_once() || low.is_empty() || !strips_timestamps(&f.family, &f.settings) {
        return false;
    }
    let Some(low) = decode_u64_timestamp(low) else {
        return false;
    };
    // One that was sealed just now is looked at when the flush is looked at again.
    let newest = f.imm.iter().map(|i| i.newest_timestamp.get());
    let mut newest = newest.map(|n| n.copied().unwrap_or(Some(u64::MAX)));
    if !newest.any(|n| n.is_some_and(|n| n >= low)) {
        return false;
    }
    // The mutable memtable counts as soon as it holds anything: it is the next to be sealed.
    let input = StallInput {
        immutable_count: f.imm.len() + usize::from(!f.mem.is_empty()),
        disable_auto_compactions: true,
        ..stall_input(f)
    };
    stall_condition(&input) == StallCondition::Normal
}

/// Reads the timestamps of sealed memtables whose flush they may hold back. Takes the state mutex, and reads without it.
pub(super) fn read_timestamps(state: &StateMutex, family: &Family) {
    if family.comparator.timestamp_size() == 0 {
        return;
    }
    let sealed: Vec<Immutable> = {
        let state = state.lock();
        let f = state.family(family.id).filter(|f| {
            !f.version.history_low.is_empty() && strips_timestamps(family, &f.settings)
        });
        f.map(|f| f.imm.clone()).unwrap_or_default()
    };
    for i in sealed {
        i.newest_timestamp
            .get_or_init(|| newest_timestamp(&family.comparator, &i.mem));
    }
}
