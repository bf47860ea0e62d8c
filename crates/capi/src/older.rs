//! Functions that releases before 11.8 had and older bindings name.
//!
//! Setters store nothing, and getters return the default of the release that had them last: the options are gone
//! from the engine.

use crate::batch_with_index::rocksdb_writebatch_wi_t;
use crate::cache::rocksdb_cache_t;
use crate::db::rocksdb_t;
use crate::ffi::{report, text};
use crate::options::rocksdb_options_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::table_options::rocksdb_block_based_table_options_t;
use libc::c_char;
use std::ptr;

/// `NORMAL`, the hint that was the default.
const NORMAL_ACCESS: i32 = 1;

c_api! {
    /// Has no effect: hints to the file system are given by each read.
    fn rocksdb_options_set_access_hint_on_compaction_start(
        _options: *mut rocksdb_options_t,
        _hint: i32,
    ) {}

    /// The former default.
    fn rocksdb_options_get_access_hint_on_compaction_start(_options: *mut rocksdb_options_t) -> i32 {
        NORMAL_ACCESS
    }

    /// Has no effect: sizes of tables are always compared with the MANIFEST when a database is opened.
    fn rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open(
        _options: *mut rocksdb_options_t,
        _value: u8,
    ) {}

    /// The former default.
    fn rocksdb_options_get_skip_checking_sst_file_sizes_on_db_open(
        _options: *mut rocksdb_options_t,
    ) -> u8 {
        0
    }

    /// Has no effect: `max_write_buffer_size_to_maintain` took its place.
    fn rocksdb_options_set_max_write_buffer_number_to_maintain(
        _options: *mut rocksdb_options_t,
        _number: i32,
    ) {}

    /// The former default.
    fn rocksdb_options_get_max_write_buffer_number_to_maintain(
        _options: *mut rocksdb_options_t,
    ) -> i32 {
        0
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
