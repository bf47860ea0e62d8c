//! Sets of small numbers in `rocksdb_options_t` that are hints: kinds of files whose checksums are handed
//! to the file system, styles of compaction that tell it how long tables live.

use crate::options::rocksdb_options_t;
use std::collections::BTreeSet;

/// Style of compaction by levels.
const BY_LEVELS: i32 = 0;

/// The sets; what they hold changes no result, because ordinary file systems take neither hint.
#[derive(Clone)]
pub(crate) struct HintSets {
    checksum_handoff: BTreeSet<i32>,
    lifetime_hint: BTreeSet<i32>,
}

impl Default for HintSets {
    fn default() -> Self {
        Self {
            checksum_handoff: BTreeSet::new(),
            lifetime_hint: BTreeSet::from([BY_LEVELS]),
        }
    }
}

macro_rules! sets {
    ($($(#[$doc:meta])* $field:ident: $clear:ident, $add:ident, $remove:ident, $contains:ident, $count:ident;)*) => {
        c_api! {$(
            #[doc = "Empties the set."]
            $(#[$doc])*
            fn $clear(options: *mut rocksdb_options_t) {
                (*options).parts.hint_sets.$field.clear();
            }

            #[doc = "Adds to the set."]
            $(#[$doc])*
            fn $add(options: *mut rocksdb_options_t, value: i32) {
                (*options).parts.hint_sets.$field.insert(value);
            }

            #[doc = "Takes from the set."]
            $(#[$doc])*
            fn $remove(options: *mut rocksdb_options_t, value: i32) {
                (*options).parts.hint_sets.$field.remove(&value);
            }

            #[doc = "Whether the set holds a number."]
            $(#[$doc])*
            fn $contains(options: *mut rocksdb_options_t, value: i32) -> u8 {
                (&*options).parts.hint_sets.$field.contains(&value).into()
            }

            #[doc = "How many numbers the set holds."]
            $(#[$doc])*
            fn $count(options: *mut rocksdb_options_t) -> usize {
                (&*options).parts.hint_sets.$field.len()
            }
        )*}
    };
}

sets! {
    /// Kinds of files whose checksums go to the file system.
    checksum_handoff:
        rocksdb_options_checksum_handoff_file_types_clear,
        rocksdb_options_checksum_handoff_file_types_add,
        rocksdb_options_checksum_handoff_file_types_remove,
        rocksdb_options_checksum_handoff_file_types_contains,
        rocksdb_options_checksum_handoff_file_types_count;
    /// Styles of compaction that tell the file system how long tables live.
    lifetime_hint:
        rocksdb_options_calculate_sst_write_lifetime_hint_set_clear,
        rocksdb_options_calculate_sst_write_lifetime_hint_set_add,
        rocksdb_options_calculate_sst_write_lifetime_hint_set_remove,
        rocksdb_options_calculate_sst_write_lifetime_hint_set_contains,
        rocksdb_options_calculate_sst_write_lifetime_hint_set_count;
}
