//! The properties block: what a table says about itself.
//!
//! A generic block with one restart point, names ascending; integers are varint64, strings raw. A
//! few properties are needed to read the table, the rest are statistics. Names this build does not
//! know are kept as bytes.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::block::build::{BlockBuilder, ONE_RESTART};
use crate::block::{entry, parts};
use spanlith_base::byte_text::{bytes_of_text, text_of_bytes};
use spanlith_base::coding::{get_fixed32, get_varint64, put_varint64};
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;

/// Type of the index block (fixed32).
pub(crate) const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
/// Says whether whole keys are in the filter (`0` or `1`).
pub(crate) const WHOLE_KEY_FILTERING: &str = "rocksdb.block.based.table.whole.key.filtering";
/// Says whether prefixes are in the filter (`0` or `1`).
pub(crate) const PREFIX_FILTERING: &str = "rocksdb.block.based.table.prefix.filtering";
/// Written (`1`) if partitioned filters would be cut apart from the index.
pub(crate) const DECOUPLED_FILTERS: &str =
    "rocksdb.block.based.table.decoupled.partitioned.filters";
/// Present in files made for ingestion (fixed32).
pub const EXTERNAL_VERSION: &str = "rocksdb.external_sst_file.version";
/// Of the files that this build makes for ingestion.
pub(crate) const EXTERNAL_VERSION_WRITTEN: u32 = 2;
/// Sequence number of all entries of such a file (fixed64); 0 leaves it to the MANIFEST.
pub const GLOBAL_SEQNO: &str = "rocksdb.external_sst_file.global_seqno";
/// Oldest user-defined timestamp of a table.
pub const TIMESTAMP_MIN: &str = "rocksdb.timestamp_min";
/// Newest user-defined timestamp of a table.
pub const TIMESTAMP_MAX: &str = "rocksdb.timestamp_max";
/// Present in files with blobs of their own.
pub(crate) const EMBEDDED_BLOBS: &str = "rocksdb.embedded.blob.stats";

/// Properties of a table. A number that a file does not record is 0, a text empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields carry the names of RocksDB's properties"
)]
pub struct TableProperties {
    pub data_size: u64,
    pub index_size: u64,
    pub index_partitions: u64,
    pub top_level_index_size: u64,
    pub index_key_is_user_key: bool,
    pub index_value_is_delta_encoded: bool,
    pub filter_size: u64,
    pub raw_key_size: u64,
    pub raw_value_size: u64,
    pub num_data_blocks: u64,
    pub num_data_blocks_compression_rejected: u64,
    pub num_data_blocks_compression_bypassed: u64,
    pub num_uniform_blocks: u64,
    pub num_entries: u64,
    pub num_filter_entries: u64,
    pub num_deletions: u64,
    pub num_merge_operands: u64,
    pub num_range_deletions: u64,
    pub format_version: u64,
    pub fixed_key_length: u64,
    pub column_family_id: u64,
    pub column_family_name: String,
    pub comparator_name: String,
    pub merge_operator_name: String,
    pub prefix_extractor_name: String,
    pub property_collectors_names: String,
    pub filter_policy_name: String,
    pub compression_name: String,
    pub compression_options: String,
    pub creation_time: u64,
    pub oldest_key_time: u64,
    pub newest_key_time: u64,
    pub file_creation_time: u64,
    pub db_id: String,
    pub db_session_id: String,
    pub db_host_id: String,
    pub orig_file_number: u64,
    pub slow_compression_estimated_data_size: u64,
    pub fast_compression_estimated_data_size: u64,
    pub tail_start_offset: u64,
    pub data_block_restart_interval: u64,
    pub index_block_restart_interval: u64,
    pub separate_key_value_in_data_block: u64,
    /// `None` if the file does not say; 0 means stripped timestamps.
    pub user_defined_timestamps_persisted: Option<u64>,
    /// `None` if unknown.
    pub key_largest_seqno: Option<u64>,
    /// `None` if unknown.
    pub key_smallest_seqno: Option<u64>,
    /// Says whether an index of a plug-in is meant to be asked instead of the table's own, which is there, too.
    pub udi_is_primary_index: u64,
    /// Level that the table was written to, in the low eight bits, and in the next two 1 if data lay below it, 2 if not,
    /// 3 for a table of no database. RocksDB writes it since 11.12; 0 if the file does not say.
    pub lsm_info_at_creation: u64,
    /// Encoded mapping from sequence numbers to time; kept as it is.
    pub seqno_to_time_mapping: Vec<u8>,
    /// Everything else, by name.
    pub user_collected: BTreeMap<String, Vec<u8>>,
    /// Where the number that all entries of a table from outside have stands in the file. Known of a table that
    /// was opened; 0 if it has none.
    pub external_sst_file_global_seqno_offset: u64,
    /// Bytes of data blocks before they were compressed. Known to the writer of the table only, as in RocksDB;
    /// no file records it.
    pub uncompressed_data_size: u64,
    /// Properties that collectors added, as people read them. Known to the writer of the table only.
    pub readable: BTreeMap<String, String>,
}

/// Number properties: name, field.
macro_rules! numbers {
    ($each:ident, $p:expr) => {
        $each!($p, data_size, "rocksdb.data.size");
        $each!($p, index_size, "rocksdb.index.size");
        $each!($p, index_partitions, "rocksdb.index.partitions");
        $each!($p, top_level_index_size, "rocksdb.top-level.index.size");
        $each!($p, filter_size, "rocksdb.filter.size");
        $each!($p, raw_key_size, "rocksdb.raw.key.size");
        $each!($p, raw_value_size, "rocksdb.raw.value.size");
        $each!($p, num_data_blocks, "rocksdb.num.data.blocks");
        $each!(
            $p,
            num_data_blocks_compression_rejected,
            "rocksdb.num.data.blocks.compression.rejected"
        );
        $each!(
            $p,
            num_data_blocks_compression_bypassed,
            "rocksdb.num.data.blocks.compression.bypassed"
        );
        $each!($p, num_uniform_blocks, "rocksdb.num.uniform.blocks");
        $each!($p, num_entries, "rocksdb.num.entries");
        $each!($p, num_filter_entries, "rocksdb.num.filter_entries");
        $each!($p, num_deletions, "rocksdb.deleted.keys");
        $each!($p, num_merge_operands, "rocksdb.merge.operands");
        $each!($p, num_range_deletions, "rocksdb.num.range-deletions");
        $each!($p, format_version, "rocksdb.format.version");
        $each!($p, fixed_key_length, "rocksdb.fixed.key.length");
        $each!($p, column_family_id, "rocksdb.column.family.id");
        $each!($p, creation_time, "rocksdb.creation.time");
        $each!($p, oldest_key_time, "rocksdb.oldest.key.time");
        $each!($p, newest_key_time, "rocksdb.newest.key.time");
        $each!($p, file_creation_time, "rocksdb.file.creation.time");
        $each!($p, orig_file_number, "rocksdb.original.file.number");
        $each!(
            $p,
            slow_compression_estimated_data_size,
            "rocksdb.sample_for_compression.slow.data.size"
        );
        $each!(
            $p,
            fast_compression_estimated_data_size,
            "rocksdb.sample_for_compression.fast.data.size"
        );
        $each!($p, tail_start_offset, "rocksdb.tail.start.offset");
        $each!($p, udi_is_primary_index, "rocksdb.udi.is.primary.index");
        $each!($p, lsm_info_at_creation, "rocksdb.lsm.info.at.creation");
        $each!(
            $p,
            data_block_restart_interval,
            "rocksdb.data.block.restart.interval"
        );
        $each!(
            $p,
            index_block_restart_interval,
            "rocksdb.index.block.restart.interval"
        );
        $each!(
            $p,
            separate_key_value_in_data_block,
            "rocksdb.separate.key.value.in.data.block"
        );
    };
}

/// Number properties that are left out when 0.
const ONLY_IF_SET: [&str; 12] = [
    "rocksdb.data.block.restart.interval",
    "rocksdb.index.block.restart.interval",
    "rocksdb.lsm.info.at.creation",
    "rocksdb.index.partitions",
    "rocksdb.top-level.index.size",
    "rocksdb.num.data.blocks.compression.rejected",
    "rocksdb.num.data.blocks.compression.bypassed",
    "rocksdb.file.creation.time",
    "rocksdb.sample_for_compression.slow.data.size",
    "rocksdb.sample_for_compression.fast.data.size",
    "rocksdb.separate.key.value.in.data.block",
    "rocksdb.udi.is.primary.index",
];

macro_rules! texts {
    ($each:ident, $p:expr) => {
        $each!($p, column_family_name, "rocksdb.column.family.name");
        $each!($p, comparator_name, "rocksdb.comparator");
        $each!($p, merge_operator_name, "rocksdb.merge.operator");
        $each!($p, prefix_extractor_name, "rocksdb.prefix.extractor.name");
        $each!($p, property_collectors_names, "rocksdb.property.collectors");
        $each!($p, filter_policy_name, "rocksdb.filter.policy");
        $each!($p, compression_name, "rocksdb.compression");
        $each!($p, compression_options, "rocksdb.compression_options");
        $each!($p, db_id, "rocksdb.creating.db.identity");
        $each!($p, db_session_id, "rocksdb.creating.session.identity");
        $each!($p, db_host_id, "rocksdb.creating.host.identity");
    };
}

const USER_KEY: &str = "rocksdb.index.key.is.user.key";
const DELTA: &str = "rocksdb.index.value.is.delta.encoded";
const UDT_PERSISTED: &str = "rocksdb.user.defined.timestamps.persisted";
const LARGEST_SEQNO: &str = "rocksdb.key.largest.seqno";
const SMALLEST_SEQNO: &str = "rocksdb.key.smallest.seqno";
const TIME_MAP: &str = "rocksdb.seqno.time.map";

fn varint(v: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint64(&mut out, v);
    out
}

impl TableProperties {
    /// The properties block.
    pub fn encode(&self) -> Vec<u8> {
        let mut all: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        macro_rules! number {
            ($p:expr, $field:ident, $name:expr) => {
                if $p.$field != 0 || !ONLY_IF_SET.contains(&$name) {
                    all.insert($name, varint($p.$field));
                }
            };
        }
        macro_rules! text {
            ($p:expr, $field:ident, $name:expr) => {
                if !$p.$field.is_empty() {
                    all.insert($name, bytes_of_text(&$p.$field).into_owned());
                }
            };
        }
        numbers!(number, self);
        texts!(text, self);
        all.insert(USER_KEY, varint(self.index_key_is_user_key.into()));
        all.insert(DELTA, varint(self.index_value_is_delta_encoded.into()));
        let optional = [
            (UDT_PERSISTED, self.user_defined_timestamps_persisted),
            (LARGEST_SEQNO, self.key_largest_seqno),
            (SMALLEST_SEQNO, self.key_smallest_seqno),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                all.insert(name, varint(value));
            }
        }
        if !self.seqno_to_time_mapping.is_empty() {
            all.insert(TIME_MAP, self.seqno_to_time_mapping.clone());
        }
        // A property that a collector adds replaces nothing.
        for (name, value) in &self.user_collected {
            all.entry(name).or_insert_with(|| value.clone());
        }
        let mut builder = BlockBuilder::new(ONE_RESTART);
        let mut previous = "";
        for (name, value) in &all {
            builder.add_after(previous.as_bytes(), name.as_bytes(), value);
            previous = name;
        }
        builder.finish().to_vec()
    }

    /// Parses a properties block. An offset in the file is as if the block stood at its beginning.
    ///
    /// # Errors
    /// `Corruption` for bad entries, names out of order and numbers that do not decode.
    pub fn decode(block: &[u8]) -> Result<Self> {
        let parts = parts(block)?;
        let entries = block.get(..parts.entries_end).unwrap_or_default();
        let mut p = Self::default();
        let mut last: Option<Vec<u8>> = None;
        entry::for_each(entries, |name, value| {
            if last.as_deref().is_some_and(|last| last >= name) {
                return Err(Error::corruption("properties are not sorted"));
            }
            last = Some(name.to_vec());
            if name == GLOBAL_SEQNO.as_bytes() {
                // Values stand in the block as they are.
                let offset = value.as_ptr().addr() - block.as_ptr().addr();
                p.external_sst_file_global_seqno_offset = offset as u64;
            }
            p.set(&String::from_utf8_lossy(name), value)
        })?;
        Ok(p)
    }

    fn set(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let number = || match get_varint64(value) {
            Some((v, _)) => Ok(v),
            None => Err(Error::corruption("property is not a number").with("name", name)),
        };
        macro_rules! number {
            ($p:expr, $field:ident, $name:expr) => {
                if name == $name {
                    $p.$field = number()?;
                    return Ok(());
                }
            };
        }
        macro_rules! text {
            ($p:expr, $field:ident, $name:expr) => {
                if name == $name {
                    $p.$field = text_of_bytes(value);
                    return Ok(());
                }
            };
        }
        numbers!(number, self);
        texts!(text, self);
        match name {
            USER_KEY => self.index_key_is_user_key = number()? != 0,
            DELTA => self.index_value_is_delta_encoded = number()? != 0,
            UDT_PERSISTED => self.user_defined_timestamps_persisted = Some(number()?),
            LARGEST_SEQNO => self.key_largest_seqno = Some(number()?),
            SMALLEST_SEQNO => self.key_smallest_seqno = Some(number()?),
            TIME_MAP => self.seqno_to_time_mapping = value.to_vec(),
            _ => {
                self.user_collected.insert(name.to_string(), value.to_vec());
            }
        }
        Ok(())
    }

    /// Type of the index; `None` if the file does not say.
    pub(crate) fn index_type(&self) -> Option<u32> {
        self.user_collected
            .get(INDEX_TYPE)
            .and_then(|v| get_fixed32(v, 0))
    }

    /// Returns whether whole keys are in the filter.
    pub(crate) fn whole_key_filtering(&self) -> bool {
        self.user_collected
            .get(WHOLE_KEY_FILTERING)
            .is_none_or(|v| v.as_slice() != b"0")
    }

    /// Returns whether prefixes are in the filter.
    pub(crate) fn prefix_filtering(&self) -> bool {
        self.user_collected
            .get(PREFIX_FILTERING)
            .is_none_or(|v| v.as_slice() != b"0")
    }

    /// The unique id recorded in the MANIFEST.
    pub fn unique_id(&self) -> [u64; 2] {
        crate::unique_id::unique_id(&self.db_id, &self.db_session_id, self.orig_file_number)
    }

    /// Name and printable value of every property, sorted by name.
    pub fn display(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        macro_rules! number {
            ($p:expr, $field:ident, $name:expr) => {
                if $p.$field != 0 || !ONLY_IF_SET.contains(&$name) {
                    out.push(($name.to_string(), $p.$field.to_string()));
                }
            };
        }
        macro_rules! text {
            ($p:expr, $field:ident, $name:expr) => {
                if !$p.$field.is_empty() {
                    out.push(($name.to_string(), $p.$field.clone()));
                }
            };
        }
        numbers!(number, self);
        texts!(text, self);
        out.push((
            USER_KEY.to_string(),
            u8::from(self.index_key_is_user_key).to_string(),
        ));
        out.push((
            DELTA.to_string(),
            u8::from(self.index_value_is_delta_encoded).to_string(),
        ));
        let optional = [
            (UDT_PERSISTED, self.user_defined_timestamps_persisted),
            (LARGEST_SEQNO, self.key_largest_seqno),
            (SMALLEST_SEQNO, self.key_smallest_seqno),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                out.push((name.to_string(), value.to_string()));
            }
        }
        for (name, value) in &self.user_collected {
            out.push((name.clone(), value.escape_ascii().to_string()));
        }
        out.sort();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_global_number_leads_to_its_value() {
        let number = 0x0102_0304_0506_0708u64.to_le_bytes();
        let mut p = TableProperties {
            num_entries: 3,
            ..TableProperties::default()
        };
        let decoded = TableProperties::decode(&p.encode()).unwrap();
        assert_eq!(decoded.external_sst_file_global_seqno_offset, 0);
        let name = GLOBAL_SEQNO.to_string();
        p.user_collected.insert(name, number.to_vec());
        let block = p.encode();
        let decoded = TableProperties::decode(&block).unwrap();
        let at = decoded.external_sst_file_global_seqno_offset as usize;
        assert_eq!(block[at..at + 8], number);
    }

    #[test]
    fn what_only_the_writer_knows_is_not_stored() {
        let mut p = TableProperties {
            uncompressed_data_size: 7,
            udi_is_primary_index: 1,
            ..TableProperties::default()
        };
        p.readable.insert("a".to_string(), "b".to_string());
        let decoded = TableProperties::decode(&p.encode()).unwrap();
        assert_eq!(decoded.uncompressed_data_size, 0);
        assert!(decoded.readable.is_empty());
        assert_eq!(decoded.udi_is_primary_index, 1);
    }
}
