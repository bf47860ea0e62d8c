//! Verification of the entries a search ends among, for memtables that are guarded.

use super::node::NodeRef;
use super::record::{RecordRef, Target};
use super::search::Tree;
use crate::protection::{changed, out_of_order};
use spanlith_base::keys::seek_tag;
use spanlith_base::{Result, SequenceNumber};

impl Tree {
    /// Verifies what a search for `key` at `snapshot` ends among, as far as the options say.
    pub(crate) fn check_search(&self, key: &[u8], snapshot: SequenceNumber) -> Result<()> {
        self.check_around(&Target::new(key, seek_tag(snapshot)))
    }

    /// Verifies the entries of the leaf that `target` belongs to.
    pub(super) fn check_around(&self, target: &Target<'_>) -> Result<()> {
        if !self.protection.checks_order {
            return Ok(());
        }
        loop {
            let (leaf, version) = self.descend(target);
            let checked = self.check_leaf(leaf);
            // A value that was read while a writer was at work says nothing.
            if leaf.is_unchanged(version) {
                return checked;
            }
        }
    }

    fn check_leaf(&self, leaf: NodeRef<'_>) -> Result<()> {
        let sums = match self.protection.checks_on_seek {
            true => usize::from(self.protection.bytes_per_key.min(8)),
            false => 0,
        };
        let mut before: Option<RecordRef<'_>> = None;
        for at in 0..leaf.count() {
            let Some(record) = leaf.record(at) else {
                continue;
            };
            if sums != 0 && !record.is_intact(sums) {
                return Err(changed());
            }
            if before.is_some_and(|b| !b.is_before(&record.place(), self.comparator())) {
                return Err(out_of_order());
            }
            before = Some(record);
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::{MemTable, MemTableOptions, Protection};
    use spanlith_base::{Comparator, ValueType};
    use std::sync::Arc;

    const CHANGED: &str =
        "Corruption: Corrupted memtable entry, per key-value checksum verification failed.";

    fn filled(protection: Protection) -> Arc<MemTable> {
        let table = MemTable::with_options(
            Comparator::Bytewise,
            &MemTableOptions {
                arena_block_size: 64 << 10,
                bloom: None,
                protection,
                max_range_deletions: 0,
            },
        );
        for n in 0..100u64 {
            let key = format!("key{n:03}");
            assert!(table.add(n + 1, ValueType::Value, key.as_bytes(), b"some value"));
        }
        Arc::new(table)
    }

    /// Changes the byte at `offset` of the internal key and value of the entry of `key`.
    fn change(table: &MemTable, key: &str, offset: usize) {
        let entry = table.find(key.as_bytes(), u64::MAX >> 8).unwrap();
        let at = entry
            .internal_key()
            .as_ptr()
            .cast_mut()
            .wrapping_add(offset);
        // SAFETY: A byte of the record in the arena's memory, which nobody looks at meanwhile.
        unsafe { at.write_volatile(at.read_volatile() ^ 0x40) };
    }

    fn protection(bytes_per_key: u8, checks_order: bool, checks_on_seek: bool) -> Protection {
        Protection {
            bytes_per_key,
            checks_order,
            checks_on_seek,
        }
    }

    #[test]
    fn a_changed_entry_is_noticed_by_gets_and_iterators_with_any_length_of_checksum() {
        for bytes in [1, 2, 4, 8] {
            let table = filled(protection(bytes, false, false));
            let entry = table.find(b"key050", 1000).unwrap();
            assert_eq!(entry.value(), b"some value");
            entry.verify().unwrap();
            let mut iter = table.iter();
            iter.seek_to_first();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.next();
            }
            iter.status().unwrap();
            assert_eq!(count, 100);
            // A byte of the value, after six of key and eight of tag.
            change(&table, "key050", 17);
            let entry = table.find(b"key050", 1000).unwrap();
            assert_eq!(entry.verify().unwrap_err().to_string(), CHANGED);
            iter.seek_to_first();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.next();
            }
            assert_eq!(count, 50);
            assert_eq!(iter.status().unwrap_err().to_string(), CHANGED);
            iter.seek_to_last();
            assert!(iter.status().is_ok());
            while iter.valid() {
                iter.prev();
            }
            assert_eq!(iter.status().unwrap_err().to_string(), CHANGED);
        }
    }

    #[test]
    fn without_checksums_nothing_is_noticed_and_nothing_is_stored() {
        let (plain, guarded) = (
            filled(protection(0, false, false)),
            filled(protection(8, false, false)),
        );
        change(&plain, "key050", 17);
        assert!(plain.find(b"key050", 1000).unwrap().verify().is_ok());
        assert!(!plain.is_guarded());
        let mut iter = plain.iter();
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        assert!(iter.status().is_ok());
        assert_eq!(plain.data_bytes(), guarded.data_bytes());
    }

    #[test]
    fn entries_out_of_order_are_noticed_where_order_is_verified() {
        for checks_order in [false, true] {
            let table = filled(protection(0, checks_order, false));
            // The last digit of a key in the middle of a leaf.
            change(&table, "key055", 5);
            let mut iter = table.iter();
            iter.seek_to_first();
            while iter.valid() {
                iter.next();
            }
            let failed = iter.status().err().map(|e| e.to_string());
            let want = "Corruption: Out-of-order keys found in skiplist.";
            assert_eq!(failed.as_deref(), checks_order.then_some(want));
            let checked = table.check_search(b"key054", 1000);
            assert_eq!(checked.is_err(), checks_order);
        }
    }

    #[test]
    fn a_search_verifies_checksums_of_all_it_ends_among_where_asked() {
        for checks_on_seek in [false, true] {
            let table = filled(protection(4, true, checks_on_seek));
            change(&table, "key055", 17);
            // A neighbour in the same leaf.
            let found = table.check_search(b"key056", 1000);
            assert_eq!(found.is_err(), checks_on_seek);
            let mut iter = table.iter();
            iter.seek(&[b"key056".as_slice(), &[0xff; 8]].concat());
            assert_eq!(iter.valid(), !checks_on_seek);
            assert_eq!(iter.status().is_err(), checks_on_seek);
        }
    }
}
