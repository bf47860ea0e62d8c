//! Functions that releases before 11.8 had and older bindings name.
//!
//! Getters return what was set, or the default of the release that had them last. Nothing else comes of it: the options
//! are gone from the engine.

use crate::batch_with_index::rocksdb_writebatch_wi_t;
use crate::cache::rocksdb_cache_t;
use crate::db::rocksdb_t;
use crate::ffi::{report, text};
use crate::options::rocksdb_options_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::table_options::rocksdb_block_based_table_options_t;
use libc::c_char;
use std::ptr;

/// Options of a database that have no effect any more.
#[derive(Clone)]
pub(crate) struct OlderOptions {
    access_hint: i32,
    skips_sizes: u8,
    write_buffers_to_maintain: i32,
}

impl Default for OlderOptions {
    fn default() -> Self {
        const NORMAL_ACCESS: i32 = 1;
        Self {
            access_hint: NORMAL_ACCESS,
            skips_sizes: 0,
            write_buffers_to_maintain: 0,
        }
    }
}

c_api! {
    /// Is stored only: hints to the file system are given by each read.
    fn rocksdb_options_set_access_hint_on_compaction_start(
        options: *mut rocksdb_options_t,
        hint: i32,
    ) {
        (*options).parts.older.access_hint = hint;
    }

    /// The hint that was set; 1, a normal pattern, by default.
    fn rocksdb_options_get_access_hint_on_compaction_start(options: *mut rocksdb_options_t) -> i32 {
        (*options).parts.older.access_hint
    }

    /// Is stored only: sizes of tables are always compared with the MANIFEST when a database is opened.
    fn rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open(
        options: *mut rocksdb_options_t,
        value: u8,
    ) {
        (*options).parts.older.skips_sizes = u8::from(value != 0);
    }

    /// The value that was set; 0 by default.
    fn rocksdb_options_get_skip_checking_sst_file_sizes_on_db_open(
        options: *mut rocksdb_options_t,
    ) -> u8 {
        (*options).parts.older.skips_sizes
    }

    /// Is stored only: `max_write_buffer_size_to_maintain` took its place.
    fn rocksdb_options_set_max_write_buffer_number_to_maintain(
        options: *mut rocksdb_options_t,
        number: i32,
    ) {
        (*options).parts.older.write_buffers_to_maintain = number;
    }

    /// The number that was set; 0 by default.
    fn rocksdb_options_get_max_write_buffer_number_to_maintain(
        options: *mut rocksdb_options_t,
    ) -> i32 {
        (*options).parts.older.write_buffers_to_maintain
    }

    /// Has no effect, as it had none in any release that exported it.
    fn rocksdb_readoptions_set_managed(_options: *mut rocksdb_readoptions_t, _value: u8) {}

    /// Has no effect: there is no cache of compressed blocks.
    fn rocksdb_block_based_options_set_block_cache_compressed(
        _options: *mut rocksdb_block_based_table_options_t,
        _cache: *mut rocksdb_cache_t,
    ) {}

    /// NULL: headers declared the function, and no release defined it.
    fn rocksdb_writebatch_wi_create_from(
        _rep: *const c_char,
        _size: usize,
    ) -> *mut rocksdb_writebatch_wi_t {
        ptr::null_mut()
    }

    /// Deletes a table by its file name if nothing older lies below it, and does nothing otherwise. The function
    /// has no way to report an error.
    fn rocksdb_delete_file(db: *mut rocksdb_t, name: *const c_char) {
        let db = (*db).cf.db();
        let mut unreported = ptr::null_mut();
        report(&raw mut unreported, (), || db.delete_table_file(&text(name)));
        libc::free(unreported.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{
        rocksdb_options_create, rocksdb_options_create_copy, rocksdb_options_destroy,
    };

    #[test]
    fn options_that_are_gone_are_remembered() {
        // SAFETY: The handles are made, used and destroyed here.
        unsafe {
            let options = rocksdb_options_create();
            assert_eq!(
                rocksdb_options_get_access_hint_on_compaction_start(options),
                1
            );
            rocksdb_options_set_access_hint_on_compaction_start(options, 2);
            rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open(options, 7);
            rocksdb_options_set_max_write_buffer_number_to_maintain(options, 3);
            let copy = rocksdb_options_create_copy(options);
            rocksdb_options_destroy(options);
            assert_eq!(rocksdb_options_get_access_hint_on_compaction_start(copy), 2);
            assert_eq!(
                rocksdb_options_get_skip_checking_sst_file_sizes_on_db_open(copy),
                1
            );
            assert_eq!(
                rocksdb_options_get_max_write_buffer_number_to_maintain(copy),
                3
            );
            rocksdb_options_destroy(copy);
        }
    }
}
