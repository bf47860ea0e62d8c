//! `rocksdb_table_properties_t`: what a table says of itself; lent by the object it belongs to.

use crate::ffi::lend_if;
use crate::live_files::c_string;
use libc::c_char;
use spanlith_table::TableProperties;
use std::ffi::CString;
use std::sync::Arc;

/// Properties of a table.
pub struct rocksdb_table_properties_t {
    properties: Arc<TableProperties>,
    /// Names and values of user-collected properties, in the order of the names.
    collected: Vec<(CString, Vec<u8>)>,
    /// The same as people read them.
    readable: Vec<(CString, CString)>,
    /// Texts with a NUL after them, by name of the getter.
    texts: Texts,
}

impl From<Arc<TableProperties>> for rocksdb_table_properties_t {
    fn from(properties: Arc<TableProperties>) -> Self {
        let collected = properties.user_collected.iter();
        Self {
            collected: collected
                .map(|(name, value)| (c_string(name.as_bytes()), value.clone()))
                .collect(),
            readable: (properties.readable.iter())
                .map(|(name, text)| (c_string(name.as_bytes()), c_string(text.as_bytes())))
                .collect(),
            texts: Texts::new(&properties),
            properties,
        }
    }
}

macro_rules! numbers {
    ($($getter:ident: |$p:ident| $value:expr;)*) => {
        c_api! {$(
            #[doc = concat!("`", stringify!($value), "` as a number.")]
            fn $getter(props: *const rocksdb_table_properties_t) -> u64 {
                let $p: &TableProperties = &(&*props).properties;
                $value
            }
        )*}
    };
}

numbers! {
    rocksdb_table_properties_orig_file_number: |p| p.orig_file_number;
    rocksdb_table_properties_data_size: |p| p.data_size;
    rocksdb_table_properties_uncompressed_data_size: |p| p.uncompressed_data_size;
    rocksdb_table_properties_index_size: |p| p.index_size;
    rocksdb_table_properties_index_partitions: |p| p.index_partitions;
    rocksdb_table_properties_top_level_index_size: |p| p.top_level_index_size;
    rocksdb_table_properties_index_key_is_user_key: |p| p.index_key_is_user_key.into();
    rocksdb_table_properties_index_value_is_delta_encoded:
        |p| p.index_value_is_delta_encoded.into();
    rocksdb_table_properties_udi_is_primary_index: |p| p.udi_is_primary_index;
    rocksdb_table_properties_filter_size: |p| p.filter_size;
    rocksdb_table_properties_raw_key_size: |p| p.raw_key_size;
    rocksdb_table_properties_raw_value_size: |p| p.raw_value_size;
    rocksdb_table_properties_num_data_blocks: |p| p.num_data_blocks;
    rocksdb_table_properties_num_data_blocks_compression_rejected:
        |p| p.num_data_blocks_compression_rejected;
    rocksdb_table_properties_num_data_blocks_compression_bypassed:
        |p| p.num_data_blocks_compression_bypassed;
    rocksdb_table_properties_num_uniform_blocks: |p| p.num_uniform_blocks;
    rocksdb_table_properties_num_entries: |p| p.num_entries;
    rocksdb_table_properties_num_filter_entries: |p| p.num_filter_entries;
    rocksdb_table_properties_num_deletions: |p| p.num_deletions;
    rocksdb_table_properties_num_merge_operands: |p| p.num_merge_operands;
    rocksdb_table_properties_num_range_deletions: |p| p.num_range_deletions;
    rocksdb_table_properties_format_version: |p| p.format_version;
    rocksdb_table_properties_fixed_key_len: |p| p.fixed_key_length;
    rocksdb_table_properties_column_family_id: |p| p.column_family_id;
    rocksdb_table_properties_creation_time: |p| p.creation_time;
    rocksdb_table_properties_oldest_ancestor_time: |p| p.creation_time;
    rocksdb_table_properties_lsm_info_at_creation: |p| p.lsm_info_at_creation;
    rocksdb_table_properties_oldest_key_time: |p| p.oldest_key_time;
    rocksdb_table_properties_newest_key_time: |p| p.newest_key_time;
    rocksdb_table_properties_file_creation_time: |p| p.file_creation_time;
    rocksdb_table_properties_slow_compression_estimated_data_size:
        |p| p.slow_compression_estimated_data_size;
    rocksdb_table_properties_fast_compression_estimated_data_size:
        |p| p.fast_compression_estimated_data_size;
    rocksdb_table_properties_external_sst_file_global_seqno_offset:
        |p| p.external_sst_file_global_seqno_offset;
    rocksdb_table_properties_tail_start_offset: |p| p.tail_start_offset;
    rocksdb_table_properties_user_defined_timestamps_persisted:
        |p| p.user_defined_timestamps_persisted.unwrap_or(1);
    rocksdb_table_properties_key_largest_seqno: |p| p.key_largest_seqno.unwrap_or(u64::MAX);
    rocksdb_table_properties_key_smallest_seqno: |p| p.key_smallest_seqno.unwrap_or(u64::MAX);
    rocksdb_table_properties_data_block_restart_interval: |p| p.data_block_restart_interval;
    rocksdb_table_properties_index_block_restart_interval: |p| p.index_block_restart_interval;
    rocksdb_table_properties_separate_key_value_in_data_block:
        |p| p.separate_key_value_in_data_block;
}

macro_rules! texts {
    ($($field:ident: $getter:ident;)*) => {
        struct Texts {
            $($field: CString,)*
        }

        impl Texts {
            fn new(p: &TableProperties) -> Self {
                Self {
                    $($field: c_string(p.$field.as_ref()),)*
                }
            }
        }

        c_api! {$(
            #[doc = concat!("`", stringify!($field), "`.")]
            fn $getter(
                props: *const rocksdb_table_properties_t,
                size: *mut usize,
            ) -> *const c_char {
                lend_if(Some((*props).texts.$field.as_bytes()), size)
            }
        )*}
    };
}

texts! {
    db_id: rocksdb_table_properties_db_id;
    db_session_id: rocksdb_table_properties_db_session_id;
    db_host_id: rocksdb_table_properties_db_host_id;
    column_family_name: rocksdb_table_properties_column_family_name;
    filter_policy_name: rocksdb_table_properties_filter_policy_name;
    comparator_name: rocksdb_table_properties_comparator_name;
    merge_operator_name: rocksdb_table_properties_merge_operator_name;
    prefix_extractor_name: rocksdb_table_properties_prefix_extractor_name;
    property_collectors_names: rocksdb_table_properties_property_collectors_names;
    compression_name: rocksdb_table_properties_compression_name;
    compression_options: rocksdb_table_properties_compression_options;
}

c_api! {
    /// Encoded mapping from sequence numbers to time.
    fn rocksdb_table_properties_seqno_to_time_mapping(
        props: *const rocksdb_table_properties_t,
        size: *mut usize,
    ) -> *const c_char {
        lend_if(Some(&(&*props).properties.seqno_to_time_mapping), size)
    }

    /// Returns whether the largest sequence number is known.
    fn rocksdb_table_properties_has_key_largest_seqno(
        props: *const rocksdb_table_properties_t,
    ) -> u8 {
        (&*props).properties.key_largest_seqno.is_some().into()
    }

    /// Returns whether the smallest sequence number is known.
    fn rocksdb_table_properties_has_key_smallest_seqno(
        props: *const rocksdb_table_properties_t,
    ) -> u8 {
        (&*props).properties.key_smallest_seqno.is_some().into()
    }

    /// Number of properties that the writer of the table added.
    fn rocksdb_table_properties_user_collected_properties_count(
        props: *const rocksdb_table_properties_t,
    ) -> usize {
        (&*props).collected.len()
    }

    /// Name of one of them; NULL if there are not so many.
    fn rocksdb_table_properties_user_collected_properties_key_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        let name = (&*props).collected.get(pos).map(|(name, _)| name.as_bytes());
        lend_if(name, key_len)
    }

    /// Value of one of them; NULL if there are not so many.
    fn rocksdb_table_properties_user_collected_properties_value_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        value_len: *mut usize,
    ) -> *const c_char {
        let value = (&*props).collected.get(pos).map(|(_, value)| &value[..]);
        lend_if(value, value_len)
    }

    /// Number of properties that the writer of the table has for people to read; none of a table that was
    /// opened.
    fn rocksdb_table_properties_readable_properties_count(
        props: *const rocksdb_table_properties_t,
    ) -> usize {
        (&*props).readable.len()
    }

    /// Name of one of them; NULL if there are not so many.
    fn rocksdb_table_properties_readable_properties_key_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        let name = (&*props).readable.get(pos).map(|(name, _)| name.as_bytes());
        lend_if(name, key_len)
    }

    /// Text of one of them; NULL if there are not so many.
    fn rocksdb_table_properties_readable_properties_value_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        value_len: *mut usize,
    ) -> *const c_char {
        let text = (&*props).readable.get(pos).map(|(_, text)| text.as_bytes());
        lend_if(text, value_len)
    }
}
