//! Options of universal and FIFO compaction.

use crate::convert::{Deferred, first_complaint};
use crate::ffi::boxed;
use crate::options::rocksdb_options_t;
use spanlith::options::{FifoCompactionOptions, UniversalCompactionOptions};

macro_rules! handle {
    ($(#[$meta:meta])* $name:ident($options:ty)) => {
        $(#[$meta])*
        #[derive(Default)]
        pub struct $name {
            options: $options,
            /// Values that did not fit their option; opening reports them.
            deferred: Deferred,
        }
    };
}

handle! {
    /// Options of universal compaction.
    rocksdb_universal_compaction_options_t(UniversalCompactionOptions)
}
handle! {
    /// Options of FIFO compaction.
    rocksdb_fifo_compaction_options_t(FifoCompactionOptions)
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_universal_compaction_options_create(
    ) -> *mut rocksdb_universal_compaction_options_t {
        boxed(rocksdb_universal_compaction_options_t::default())
    }

    /// RocksDB's defaults.
    fn rocksdb_fifo_compaction_options_create() -> *mut rocksdb_fifo_compaction_options_t {
        boxed(rocksdb_fifo_compaction_options_t::default())
    }

    /// Copies options of universal compaction.
    fn rocksdb_options_set_universal_compaction_options(
        options: *mut rocksdb_options_t,
        universal: *mut rocksdb_universal_compaction_options_t,
    ) {
        let Some(universal) = universal.as_ref() else { return };
        let o = &mut *options;
        o.cf.compaction_options_universal = universal.options.clone();
        keep_complaint(o, "universal", &universal.deferred);
    }

    /// Copies options of FIFO compaction.
    fn rocksdb_options_set_fifo_compaction_options(
        options: *mut rocksdb_options_t,
        fifo: *mut rocksdb_fifo_compaction_options_t,
    ) {
        let Some(fifo) = fifo.as_ref() else { return };
        let o = &mut *options;
        o.cf.compaction_options_fifo = fifo.options.clone();
        keep_complaint(o, "fifo", &fifo.deferred);
    }
}

fn keep_complaint(o: &mut rocksdb_options_t, name: &'static str, deferred: &Deferred) {
    match first_complaint(deferred) {
        Ok(()) => o.deferred.remove(name),
        Err(e) => o.deferred.insert(name, e.into()),
    };
}

destroyers! {
    rocksdb_universal_compaction_options_destroy(rocksdb_universal_compaction_options_t);
    rocksdb_fifo_compaction_options_destroy(rocksdb_fifo_compaction_options_t);
}

accessors! {
    rocksdb_universal_compaction_options_t {
        options.size_ratio:
            rocksdb_universal_compaction_options_set_size_ratio(i32),
            rocksdb_universal_compaction_options_get_size_ratio -> i32;
        options.min_merge_width:
            rocksdb_universal_compaction_options_set_min_merge_width(i32),
            rocksdb_universal_compaction_options_get_min_merge_width -> i32;
        options.max_merge_width:
            rocksdb_universal_compaction_options_set_max_merge_width(i32),
            rocksdb_universal_compaction_options_get_max_merge_width -> i32;
        options.max_size_amplification_percent:
            rocksdb_universal_compaction_options_set_max_size_amplification_percent(i32),
            rocksdb_universal_compaction_options_get_max_size_amplification_percent -> i32;
        options.compression_size_percent:
            rocksdb_universal_compaction_options_set_compression_size_percent(i32),
            rocksdb_universal_compaction_options_get_compression_size_percent -> i32;
        options.stop_style:
            rocksdb_universal_compaction_options_set_stop_style(i32),
            rocksdb_universal_compaction_options_get_stop_style -> i32;
        options.max_read_amp:
            rocksdb_universal_compaction_options_set_max_read_amp(i32),
            rocksdb_universal_compaction_options_get_max_read_amp -> i32;
        options.allow_trivial_move:
            rocksdb_universal_compaction_options_set_allow_trivial_move(u8),
            rocksdb_universal_compaction_options_get_allow_trivial_move -> u8;
        options.incremental:
            rocksdb_universal_compaction_options_set_incremental(u8),
            rocksdb_universal_compaction_options_get_incremental -> u8;
        options.reduce_file_locking:
            rocksdb_universal_compaction_options_set_reduce_file_locking(u8),
            rocksdb_universal_compaction_options_get_reduce_file_locking -> u8;
    }
}

accessors! {
    rocksdb_fifo_compaction_options_t {
        options.allow_compaction:
            rocksdb_fifo_compaction_options_set_allow_compaction(u8),
            rocksdb_fifo_compaction_options_get_allow_compaction -> u8;
        options.max_table_files_size:
            rocksdb_fifo_compaction_options_set_max_table_files_size(u64),
            rocksdb_fifo_compaction_options_get_max_table_files_size -> u64;
        options.max_data_files_size:
            rocksdb_fifo_compaction_options_set_max_data_files_size(u64),
            rocksdb_fifo_compaction_options_get_max_data_files_size -> u64;
        options.use_kv_ratio_compaction:
            rocksdb_fifo_compaction_options_set_use_kv_ratio_compaction(u8),
            rocksdb_fifo_compaction_options_get_use_kv_ratio_compaction -> u8;
        options.age_for_warm:
            rocksdb_fifo_compaction_options_set_age_for_warm(u64),
            rocksdb_fifo_compaction_options_get_age_for_warm -> u64;
        options.allow_trivial_copy_when_change_temperature:
            rocksdb_fifo_compaction_options_set_allow_trivial_copy_when_change_temperature(u8),
            rocksdb_fifo_compaction_options_get_allow_trivial_copy_when_change_temperature -> u8;
        options.trivial_copy_buffer_size:
            rocksdb_fifo_compaction_options_set_trivial_copy_buffer_size(u64),
            rocksdb_fifo_compaction_options_get_trivial_copy_buffer_size -> u64;
    }
}
