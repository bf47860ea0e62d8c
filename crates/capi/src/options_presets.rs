//! Functions that set several options at once, with RocksDB's values.

use crate::env::set_threads;
use crate::options::rocksdb_options_t;
use spanlith::options::{CompactionStyle, CompressionOptions, CompressionType, DataBlockIndexType};
use spanlith_cache::Policy;
use spanlith_env::JobClass;
use spanlith_table::BlockCache;

/// Plain blocks in levels above `first`, those of `codec` from there on.
fn compress_from(o: &mut rocksdb_options_t, first: i32, codec: CompressionType) {
    o.cf.compression_per_level = (0..o.cf.num_levels)
        .map(|level| {
            if level < first {
                CompressionType::None
            } else {
                codec
            }
        })
        .collect();
}

/// Memtables that together take `budget` bytes.
fn memtables_of(o: &mut rocksdb_options_t, budget: u64) {
    o.cf.write_buffer_size = budget / 4;
    o.cf.min_write_buffer_number_to_merge = 2;
    o.cf.max_write_buffer_number = 6;
}

c_api! {
    /// Allows `total_threads` background jobs and makes threads for them, process-wide.
    fn rocksdb_options_increase_parallelism(options: *mut rocksdb_options_t, total_threads: i32) {
        (*options).db.max_background_jobs = total_threads;
        set_threads(JobClass::Low, total_threads);
        set_threads(JobClass::High, 1);
    }

    /// Sizes memtables and levels for leveled compaction within a memory budget.
    fn rocksdb_options_optimize_level_style_compaction(
        options: *mut rocksdb_options_t,
        memtable_memory_budget: u64,
    ) {
        let o = &mut *options;
        memtables_of(o, memtable_memory_budget);
        o.cf.level0_file_num_compaction_trigger = 2;
        o.cf.target_file_size_base = memtable_memory_budget / 8;
        o.cf.max_bytes_for_level_base = memtable_memory_budget;
        o.cf.compaction_style = CompactionStyle::Level;
        compress_from(o, 2, CompressionType::Lz4);
    }

    /// Sizes memtables for universal compaction within a memory budget.
    fn rocksdb_options_optimize_universal_style_compaction(
        options: *mut rocksdb_options_t,
        memtable_memory_budget: u64,
    ) {
        let o = &mut *options;
        memtables_of(o, memtable_memory_budget);
        o.cf.compaction_style = CompactionStyle::Universal;
    }

    /// A cache of `block_cache_size_mb`, filters and hash indexes for point reads.
    fn rocksdb_options_optimize_for_point_lookup(
        options: *mut rocksdb_options_t,
        block_cache_size_mb: u64,
    ) {
        let o = &mut *options;
        let bytes = usize::try_from(block_cache_size_mb.saturating_mul(1 << 20));
        o.block_cache = Some(BlockCache::new(bytes.unwrap_or(usize::MAX), Policy::Lru));
        o.table = spanlith::options::BlockBasedTableOptions::default();
        o.table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        o.table.data_block_hash_table_util_ratio = 0.75;
        o.table.filter_policy = "bloomfilter:10:false".to_string();
        o.cf.table_factory = "BlockBasedTable".to_string();
        o.cf.memtable_prefix_bloom_size_ratio = 0.02;
        o.cf.memtable_whole_key_filtering = true;
    }

    /// No compaction while data is loaded.
    fn rocksdb_options_prepare_for_bulk_load(options: *mut rocksdb_options_t) {
        let o = &mut *options;
        o.cf.level0_file_num_compaction_trigger = 1 << 30;
        o.cf.level0_slowdown_writes_trigger = 1 << 30;
        o.cf.level0_stop_writes_trigger = 1 << 30;
        o.cf.soft_pending_compaction_bytes_limit = 0;
        o.cf.hard_pending_compaction_bytes_limit = 0;
        o.cf.disable_auto_compactions = true;
        o.cf.max_compaction_bytes = 1 << 60;
        o.cf.num_levels = 2;
        o.cf.max_write_buffer_number = 6;
        o.cf.min_write_buffer_number_to_merge = 1;
        o.db.max_background_flushes = 4;
        o.db.max_background_compactions = 2;
        o.cf.target_file_size_base = 256 << 20;
    }

    /// Plain blocks in levels above `level`; from there on the codec that the options have by now.
    fn rocksdb_options_set_min_level_to_compress(options: *mut rocksdb_options_t, level: i32) {
        if level >= 0 {
            let o = &mut *options;
            compress_from(o, level, o.cf.compression);
        }
    }

    /// How the codec compresses.
    fn rocksdb_options_set_compression_options(
        options: *mut rocksdb_options_t,
        w_bits: i32,
        level: i32,
        strategy: i32,
        max_dict_bytes: i32,
    ) {
        let c = &mut (*options).cf.compression_opts;
        set_compression(c, w_bits, level, strategy, max_dict_bytes);
    }

    /// How the codec of the last level compresses.
    fn rocksdb_options_set_bottommost_compression_options(
        options: *mut rocksdb_options_t,
        w_bits: i32,
        level: i32,
        strategy: i32,
        max_dict_bytes: i32,
        enabled: u8,
    ) {
        let c = &mut (*options).cf.bottommost_compression_opts;
        set_compression(c, w_bits, level, strategy, max_dict_bytes);
        c.enabled = enabled != 0;
    }
}

fn set_compression(
    c: &mut CompressionOptions,
    window_bits: i32,
    level: i32,
    strategy: i32,
    max_dict_bytes: i32,
) {
    c.window_bits = window_bits;
    c.level = level;
    c.strategy = strategy;
    c.max_dict_bytes = max_dict_bytes as u32;
}

macro_rules! compression_fields {
    ($($field:ident: $ty:ty, $set:ident, $get:ident, $set_bottommost:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "` of the codec.")]
            fn $set(options: *mut rocksdb_options_t, value: $ty) {
                let c = &mut (*options).cf.compression_opts;
                c.$field = crate::convert::FromC::from_c(value).unwrap_or(c.$field);
            }

            #[doc = concat!("`", stringify!($field), "` of the codec.")]
            fn $get(options: *mut rocksdb_options_t) -> $ty {
                crate::convert::ToC::to_c(&(&*options).cf.compression_opts.$field)
            }

            #[doc = concat!("Sets `", stringify!($field), "` of the last level's codec.")]
            fn $set_bottommost(options: *mut rocksdb_options_t, value: $ty, enabled: u8) {
                let c = &mut (*options).cf.bottommost_compression_opts;
                c.$field = crate::convert::FromC::from_c(value).unwrap_or(c.$field);
                c.enabled = enabled != 0;
            }
        )*}
    };
}

compression_fields! {
    zstd_max_train_bytes: i32,
        rocksdb_options_set_compression_options_zstd_max_train_bytes,
        rocksdb_options_get_compression_options_zstd_max_train_bytes,
        rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes;
    use_zstd_dict_trainer: u8,
        rocksdb_options_set_compression_options_use_zstd_dict_trainer,
        rocksdb_options_get_compression_options_use_zstd_dict_trainer,
        rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer;
    max_dict_buffer_bytes: u64,
        rocksdb_options_set_compression_options_max_dict_buffer_bytes,
        rocksdb_options_get_compression_options_max_dict_buffer_bytes,
        rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes;
}

c_api! {
    /// Returns whether the last level's codec trains its dictionary.
    fn rocksdb_options_get_bottommost_compression_options_use_zstd_dict_trainer(
        options: *mut rocksdb_options_t,
    ) -> u8 {
        (*options).cf.bottommost_compression_opts.use_zstd_dict_trainer.into()
    }

    /// Threads that compress one file.
    fn rocksdb_options_set_compression_options_parallel_threads(
        options: *mut rocksdb_options_t,
        value: i32,
    ) {
        (*options).cf.compression_opts.parallel_threads = value as u32;
    }

    /// Threads that compress one file.
    fn rocksdb_options_get_compression_options_parallel_threads(
        options: *mut rocksdb_options_t,
    ) -> i32 {
        (*options).cf.compression_opts.parallel_threads as i32
    }
}
