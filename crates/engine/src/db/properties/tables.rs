//! Describes what the properties of a family's tables add up to.

use crate::version::{TableCache, Version};
use spanlith_table::TableProperties;
use std::fmt::Write;

/// Properties added up over tables.
pub(super) struct Sum {
    pub(super) p: TableProperties,
    /// Tables whose index has keys without sequence numbers, and with lengths only.
    user_keys: u64,
    deltas: u64,
}

/// Adds up the tables of a version, or of one of its levels. A table that cannot be opened is left
/// out: the property is no place to report that.
pub(super) fn sum(version: &Version, cache: &TableCache, level: Option<usize>) -> Sum {
    let mut sum = Sum {
        p: TableProperties::default(),
        user_keys: 0,
        deltas: 0,
    };
    for (n, file) in version.file_iter() {
        if level.is_some_and(|level| level != n) {
            continue;
        }
        let Ok(reader) = cache.reader(file) else {
            continue;
        };
        let (to, p) = (&mut sum.p, reader.properties());
        to.data_size += p.data_size;
        to.index_size += p.index_size;
        to.index_partitions += p.index_partitions;
        to.top_level_index_size += p.top_level_index_size;
        to.filter_size += p.filter_size;
        to.raw_key_size += p.raw_key_size;
        to.raw_value_size += p.raw_value_size;
        to.num_data_blocks += p.num_data_blocks;
        to.num_data_blocks_compression_rejected += p.num_data_blocks_compression_rejected;
        to.num_data_blocks_compression_bypassed += p.num_data_blocks_compression_bypassed;
        to.num_uniform_blocks += p.num_uniform_blocks;
        to.num_entries += p.num_entries;
        to.num_filter_entries += p.num_filter_entries;
        to.num_deletions += p.num_deletions;
        to.num_merge_operands += p.num_merge_operands;
        to.num_range_deletions += p.num_range_deletions;
        to.slow_compression_estimated_data_size += p.slow_compression_estimated_data_size;
        to.fast_compression_estimated_data_size += p.fast_compression_estimated_data_size;
        sum.user_keys += u64::from(p.index_key_is_user_key);
        sum.deltas += u64::from(p.index_value_is_delta_encoded);
    }
    sum
}

/// Bytes of keys and values per byte of the files of a level; -1 if it is empty.
pub(super) fn compression_ratio(version: &Version, cache: &TableCache, level: usize) -> f64 {
    let sum = sum(version, cache, Some(level)).p;
    let files = version.files(level).iter().map(|f| f.size).sum::<u64>();
    match files {
        0 => -1.0,
        bytes => (sum.raw_key_size + sum.raw_value_size) as f64 / bytes as f64,
    }
}

impl Sum {
    fn average(&self, bytes: u64) -> f64 {
        match self.p.num_entries {
            0 => 0.0,
            entries => bytes as f64 / entries as f64,
        }
    }
}

/// The line of `aggregated-table-properties`. What cannot be added up has the value of no table.
pub(super) fn aggregated(version: &Version, cache: &TableCache, level: Option<usize>) -> String {
    let sum = sum(version, cache, level);
    let p = &sum.p;
    let mut out = String::new();
    let mut put = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(out, "{name}={value}; ");
    };
    put("# data blocks", &p.num_data_blocks);
    put(
        "# data blocks compression rejected",
        &p.num_data_blocks_compression_rejected,
    );
    put(
        "# data blocks compression bypassed",
        &p.num_data_blocks_compression_bypassed,
    );
    put("# uniform blocks", &p.num_uniform_blocks);
    put("# entries", &p.num_entries);
    put("# deletions", &p.num_deletions);
    put("# merge operands", &p.num_merge_operands);
    put("# range deletions", &p.num_range_deletions);
    put("raw key size", &p.raw_key_size);
    let average = sum.average(p.raw_key_size);
    put("raw average key size", &format_args!("{average:.6}"));
    put("raw value size", &p.raw_value_size);
    let average = sum.average(p.raw_value_size);
    put("raw average value size", &format_args!("{average:.6}"));
    put("data block size", &p.data_size);
    put("data uncompressed size", &0);
    put(
        &format!(
            "index block size (user-key? {}, delta-value? {})",
            sum.user_keys, sum.deltas
        ),
        &p.index_size,
    );
    if p.index_partitions != 0 {
        put("# index partitions", &p.index_partitions);
        put("top-level index size", &p.top_level_index_size);
    }
    put("filter block size", &p.filter_size);
    put("# entries for filter", &p.num_filter_entries);
    let table = p.data_size + p.index_size + p.filter_size;
    put("(estimated) table size", &table);
    for name in [
        "filter policy name",
        "prefix extractor name",
        "column family ID",
        "column family name",
        "comparator name",
    ] {
        put(name, &"N/A");
    }
    put("user defined timestamps persisted", &true);
    put("largest sequence number in file", &u64::MAX);
    put("smallest sequence number in file", &u64::MAX);
    for name in [
        "merge operator name",
        "property collectors names",
        "SST file compression algo",
        "SST file compression options",
    ] {
        put(name, &"N/A");
    }
    for name in [
        "creation time",
        "time stamp of earliest key",
        "time stamp of newest key",
        "file creation time",
    ] {
        put(name, &0);
    }
    put(
        "slow compression estimated data size",
        &p.slow_compression_estimated_data_size,
    );
    put(
        "fast compression estimated data size",
        &p.fast_compression_estimated_data_size,
    );
    for name in ["DB identity", "DB session identity", "DB host id"] {
        put(name, &"");
    }
    put("original file number", &0);
    put("unique ID", &"N/A");
    put("Sequence number to time mapping", &"");
    out
}
