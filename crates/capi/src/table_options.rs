//! `rocksdb_block_based_table_options_t`.

use crate::cache::rocksdb_cache_t;
use crate::convert::{Deferred, assign};
use crate::ffi::{boxed, unbox};
use crate::filter_policy::rocksdb_filterpolicy_t;
use crate::generation;
use libc::c_char;
use spanlith::options::BlockBasedTableOptions;
use spanlith_table::BlockCache;

/// Options of block-based tables.
#[derive(Default)]
pub struct rocksdb_block_based_table_options_t {
    pub(crate) table: BlockBasedTableOptions,
    pub(crate) block_cache: Option<BlockCache>,
    /// Values that did not fit their option; opening reports them.
    pub(crate) deferred: Deferred,
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t {
        let mut options = rocksdb_block_based_table_options_t::default();
        generation::adjust_table_options(&mut options);
        boxed(options)
    }

    /// Shares a cache; NULL keeps the one before.
    fn rocksdb_block_based_options_set_block_cache(
        options: *mut rocksdb_block_based_table_options_t,
        block_cache: *mut rocksdb_cache_t,
    ) {
        if let Some(cache) = block_cache.as_ref() {
            (*options).block_cache = Some(cache.0.clone());
        }
    }

    /// Takes a filter policy; NULL means no filters.
    fn rocksdb_block_based_options_set_filter_policy(
        options: *mut rocksdb_block_based_table_options_t,
        filter_policy: *mut rocksdb_filterpolicy_t,
    ) {
        (*options).table.filter_policy =
            unbox(filter_policy).map_or_else(|| "nullptr".to_string(), |p| p.0);
    }

    /// Sets the kind of block checksums.
    fn rocksdb_block_based_options_set_checksum(
        options: *mut rocksdb_block_based_table_options_t,
        value: c_char,
    ) {
        let o = &mut *options;
        assign(&mut o.table.checksum, i32::from(value), "table.checksum", &mut o.deferred);
    }

    /// Kind of block checksums.
    fn rocksdb_block_based_options_get_checksum(
        options: *mut rocksdb_block_based_table_options_t,
    ) -> i32 {
        let o = &*options;
        match o.deferred.get("table.checksum") {
            None => o.table.checksum.number(),
            Some(complaint) => complaint.value as i32,
        }
    }

    /// Sets the load of hash indexes in data blocks.
    fn rocksdb_block_based_options_set_data_block_hash_ratio(
        options: *mut rocksdb_block_based_table_options_t,
        value: f64,
    ) {
        (*options).table.data_block_hash_table_util_ratio = value;
    }
}

macro_rules! pinning_tiers {
    ($($field:ident: $set:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(options: *mut rocksdb_block_based_table_options_t, value: i32) {
                let o = &mut *options;
                let slot = &mut o.table.metadata_cache_options.$field;
                assign(slot, value, concat!("table.", stringify!($field)), &mut o.deferred);
            }
        )*}
    };
}

pinning_tiers! {
    top_level_index_pinning: rocksdb_block_based_options_set_top_level_index_pinning_tier;
    partition_pinning: rocksdb_block_based_options_set_partition_pinning_tier;
    unpartitioned_pinning: rocksdb_block_based_options_set_unpartitioned_pinning_tier;
}

destroyers! {
    rocksdb_block_based_options_destroy(rocksdb_block_based_table_options_t);
}

accessors! {
    rocksdb_block_based_table_options_t {
        table.cache_index_and_filter_blocks:
            rocksdb_block_based_options_set_cache_index_and_filter_blocks(u8),
            rocksdb_block_based_options_get_cache_index_and_filter_blocks -> u8;
        table.cache_index_and_filter_blocks_with_high_priority:
            rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(u8),
            rocksdb_block_based_options_get_cache_index_and_filter_blocks_with_high_priority -> u8;
        table.pin_l0_filter_and_index_blocks_in_cache:
            rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(u8),
            rocksdb_block_based_options_get_pin_l0_filter_and_index_blocks_in_cache -> u8;
        table.pin_top_level_index_and_filter:
            rocksdb_block_based_options_set_pin_top_level_index_and_filter(u8),
            rocksdb_block_based_options_get_pin_top_level_index_and_filter -> u8;
        table.index_type:
            rocksdb_block_based_options_set_index_type(i32),
            rocksdb_block_based_options_get_index_type -> i32;
        table.index_block_search_type:
            rocksdb_block_based_options_set_index_block_search_type(i32),
            rocksdb_block_based_options_get_index_block_search_type -> i32;
        table.data_block_index_type:
            rocksdb_block_based_options_set_data_block_index_type(i32),
            rocksdb_block_based_options_get_data_block_index_type -> i32;
        table.data_block_hash_table_util_ratio:
            rocksdb_block_based_options_set_data_block_hash_table_util_ratio(f64),
            rocksdb_block_based_options_get_data_block_hash_table_util_ratio -> f64;
        table.no_block_cache:
            rocksdb_block_based_options_set_no_block_cache(u8),
            rocksdb_block_based_options_get_no_block_cache -> u8;
        table.block_size:
            rocksdb_block_based_options_set_block_size(usize),
            rocksdb_block_based_options_get_block_size -> u64;
        table.block_size_deviation:
            rocksdb_block_based_options_set_block_size_deviation(i32),
            rocksdb_block_based_options_get_block_size_deviation -> i32;
        table.block_restart_interval:
            rocksdb_block_based_options_set_block_restart_interval(i32),
            rocksdb_block_based_options_get_block_restart_interval -> i32;
        table.index_block_restart_interval:
            rocksdb_block_based_options_set_index_block_restart_interval(i32),
            rocksdb_block_based_options_get_index_block_restart_interval -> i32;
        table.metadata_block_size:
            rocksdb_block_based_options_set_metadata_block_size(u64),
            rocksdb_block_based_options_get_metadata_block_size -> u64;
        table.partition_filters:
            rocksdb_block_based_options_set_partition_filters(u8),
            rocksdb_block_based_options_get_partition_filters -> u8;
        table.decouple_partitioned_filters:
            rocksdb_block_based_options_set_decouple_partitioned_filters(u8),
            rocksdb_block_based_options_get_decouple_partitioned_filters -> u8;
        table.optimize_filters_for_memory:
            rocksdb_block_based_options_set_optimize_filters_for_memory(u8),
            rocksdb_block_based_options_get_optimize_filters_for_memory -> u8;
        table.use_delta_encoding:
            rocksdb_block_based_options_set_use_delta_encoding(u8),
            rocksdb_block_based_options_get_use_delta_encoding -> u8;
        table.use_udi_as_primary_index:
            rocksdb_block_based_options_set_use_udi_as_primary_index(u8),
            rocksdb_block_based_options_get_use_udi_as_primary_index -> u8;
        table.fail_if_no_udi_on_open:
            rocksdb_block_based_options_set_fail_if_no_udi_on_open(u8),
            rocksdb_block_based_options_get_fail_if_no_udi_on_open -> u8;
        table.whole_key_filtering:
            rocksdb_block_based_options_set_whole_key_filtering(u8),
            rocksdb_block_based_options_get_whole_key_filtering -> u8;
        table.detect_filter_construct_corruption:
            rocksdb_block_based_options_set_detect_filter_construct_corruption(u8),
            rocksdb_block_based_options_get_detect_filter_construct_corruption -> u8;
        table.verify_compression:
            rocksdb_block_based_options_set_verify_compression(u8),
            rocksdb_block_based_options_get_verify_compression -> u8;
        table.read_amp_bytes_per_bit:
            rocksdb_block_based_options_set_read_amp_bytes_per_bit(u32),
            rocksdb_block_based_options_get_read_amp_bytes_per_bit -> u32;
        table.format_version:
            rocksdb_block_based_options_set_format_version(i32),
            rocksdb_block_based_options_get_format_version -> u32;
        table.separate_key_value_in_data_block:
            rocksdb_block_based_options_set_separate_key_value_in_data_block(u8),
            rocksdb_block_based_options_get_separate_key_value_in_data_block -> u8;
        table.optimize_key_common_prefix:
            rocksdb_block_based_options_set_optimize_key_common_prefix(i32),
            rocksdb_block_based_options_get_optimize_key_common_prefix -> i32;
        table.uniform_cv_threshold:
            rocksdb_block_based_options_set_uniform_cv_threshold(f64),
            rocksdb_block_based_options_get_uniform_cv_threshold -> f64;
        table.enable_index_compression:
            rocksdb_block_based_options_set_enable_index_compression(u8),
            rocksdb_block_based_options_get_enable_index_compression -> u8;
        table.block_align:
            rocksdb_block_based_options_set_block_align(u8),
            rocksdb_block_based_options_get_block_align -> u8;
        table.super_block_alignment_size:
            rocksdb_block_based_options_set_super_block_alignment_size(usize),
            rocksdb_block_based_options_get_super_block_alignment_size -> usize;
        table.super_block_alignment_space_overhead_ratio:
            rocksdb_block_based_options_set_super_block_alignment_space_overhead_ratio(usize),
            rocksdb_block_based_options_get_super_block_alignment_space_overhead_ratio -> usize;
        table.index_shortening:
            rocksdb_block_based_options_set_index_shortening(i32),
            rocksdb_block_based_options_get_index_shortening -> i32;
        table.max_auto_readahead_size:
            rocksdb_block_based_options_set_max_auto_readahead_size(usize),
            rocksdb_block_based_options_get_max_auto_readahead_size -> usize;
        table.prepopulate_block_cache:
            rocksdb_block_based_options_set_prepopulate_block_cache(i32),
            rocksdb_block_based_options_get_prepopulate_block_cache -> i32;
        table.initial_auto_readahead_size:
            rocksdb_block_based_options_set_initial_auto_readahead_size(usize),
            rocksdb_block_based_options_get_initial_auto_readahead_size -> usize;
        table.num_file_reads_for_auto_readahead:
            rocksdb_block_based_options_set_num_file_reads_for_auto_readahead(u64),
            rocksdb_block_based_options_get_num_file_reads_for_auto_readahead -> u64;
    }
}
