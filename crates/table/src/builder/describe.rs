//! Properties of a block-based table, from its options and from what was counted.

use super::TableBuilder;
use crate::properties::{self, TableProperties};
use spanlith_base::{CompressionType, SliceTransform};

impl TableBuilder {
    /// Returns what the table says of itself, but for what index and filter say.
    pub(super) fn properties(&self, data_size: u64) -> TableProperties {
        let (o, c) = (&self.options, &self.counters);
        let flag = |b: bool| if b { b"1".to_vec() } else { b"0".to_vec() };
        let mut user_collected = std::collections::BTreeMap::new();
        let mut collect = |name: &str, value| user_collected.insert(name.to_string(), value);
        collect(
            properties::INDEX_TYPE,
            (o.table.index_type as u32).to_le_bytes().to_vec(),
        );
        collect(
            properties::WHOLE_KEY_FILTERING,
            flag(o.table.whole_key_filtering),
        );
        for (name, value) in &self.extra_properties {
            collect(name, value.clone());
        }
        collect(
            properties::PREFIX_FILTERING,
            flag(o.prefix_extractor.is_some()),
        );
        if o.table.decouple_partitioned_filters {
            collect(properties::DECOUPLED_FILTERS, flag(true));
        }
        if o.is_external {
            let version = properties::EXTERNAL_VERSION_WRITTEN.to_le_bytes();
            collect(properties::EXTERNAL_VERSION, version.to_vec());
            collect(properties::GLOBAL_SEQNO, 0u64.to_le_bytes().to_vec());
        }
        let or_none = |s: &str| {
            if s.is_empty() {
                "nullptr".to_string()
            } else {
                s.to_string()
            }
        };
        let sampled = self.sampling.as_ref().map(|s| s.estimates());
        let (slow, fast) = sampled.unwrap_or_default();
        TableProperties {
            slow_compression_estimated_data_size: slow,
            fast_compression_estimated_data_size: fast,
            seqno_to_time_mapping: o.seqno_to_time_mapping.clone(),
            data_size,
            uncompressed_data_size: c.raw_block_bytes,
            raw_key_size: c.key_bytes,
            raw_value_size: c.value_bytes,
            num_data_blocks: c.data_blocks,
            num_data_blocks_compression_rejected: c.rejected,
            num_data_blocks_compression_bypassed: c.bypassed,
            num_entries: c.entries,
            num_deletions: c.deletions,
            num_merge_operands: c.merges,
            num_range_deletions: c.range_deletions,
            separate_key_value_in_data_block: o.table.separate_key_value_in_data_block.into(),
            format_version: o.table.format_version.into(),
            column_family_id: o.column_family_id.into(),
            column_family_name: o.column_family_name.clone(),
            comparator_name: o.comparator.name().to_string(),
            merge_operator_name: or_none(&o.merge_operator_name),
            prefix_extractor_name: o
                .prefix_extractor
                .as_ref()
                .map_or_else(|| or_none(""), SliceTransform::name),
            property_collectors_names: o.collectors.names(),
            filter_policy_name: o.table.filter.policy_name().to_string(),
            compression_name: self.compression_name(),
            compression_options: o
                .compression_options
                .property(o.table.max_compressed_bytes_per_kb, o.compression),
            creation_time: o.creation_time,
            oldest_key_time: o.oldest_key_time,
            newest_key_time: o.newest_key_time,
            file_creation_time: o.file_creation_time,
            db_id: o.db_id.clone(),
            db_session_id: o.db_session_id.clone(),
            db_host_id: o.db_host_id.clone(),
            orig_file_number: o.file_number,
            tail_start_offset: data_size,
            data_block_restart_interval: o.table.block_restart_interval as u64,
            index_block_restart_interval: o.table.index_block_restart_interval as u64,
            key_smallest_seqno: c.seqnos().map(|s| s.0),
            key_largest_seqno: c.seqnos().map(|s| s.1),
            user_collected,
            ..TableProperties::default()
        }
    }

    fn compression_name(&self) -> String {
        let codec = self.options.compression;
        if self.options.table.format_version < 7 {
            return codec.word().to_string();
        }
        if codec == CompressionType::None {
            return ";;".to_string();
        }
        let used = (0..8u8).filter(|byte| self.used_codecs >> byte & 1 == 1);
        let used: String = used.map(|byte| format!("{byte:02X}")).collect();
        format!("BuiltinV2;{used};")
    }
}
