//! Writes tables of RocksDB again, from their entries and properties, and compares the bytes.
//!
//! Where no block is compressed the format leaves no freedom: data blocks, their cuts, filter, index,
//! properties, metaindex and footer must be identical. LZ4 encoders differ in their choices, so of
//! compressed tables the uncompressed blocks are compared.

mod common;

use common::{build, expected, fixture, open};
use spanlith_base::Comparator;
use spanlith_base::CompressionType;
use spanlith_base::checksum::ChecksumKind;
use spanlith_table::{
    BuilderOptions, CommonPrefix, FilterKind, IndexShortening, ReaderOptions, TableDump,
    TableOptions, TableReader,
};
use std::sync::Arc;

fn reader_options(reverse: bool) -> ReaderOptions {
    let comparator = if reverse {
        Comparator::ReverseBytewise
    } else {
        Comparator::Bytewise
    };
    ReaderOptions {
        comparator,
        ..ReaderOptions::default()
    }
}

/// The options with which a table must have been written.
fn options_of(reader: &Arc<TableReader>) -> BuilderOptions {
    let p = reader.properties();
    let none = |s: &str| {
        if s == "nullptr" {
            String::new()
        } else {
            s.to_string()
        }
    };
    BuilderOptions {
        table: TableOptions {
            format_version: reader.footer().format_version,
            checksum: reader.footer().checksum.kind,
            block_restart_interval: p.data_block_restart_interval as usize,
            index_block_restart_interval: p.index_block_restart_interval as usize,
            ..TableOptions::default()
        },
        comparator: reader.options().comparator.clone(),
        compression: match p.compression_name.as_str() {
            ";;" | "NoCompression" => CompressionType::None,
            _ => CompressionType::Lz4,
        },
        compression_options: Default::default(),
        column_family_id: p.column_family_id as u32,
        column_family_name: p.column_family_name.clone(),
        file_number: p.orig_file_number,
        db_id: p.db_id.clone(),
        db_session_id: p.db_session_id.clone(),
        db_host_id: p.db_host_id.clone(),
        merge_operator_name: none(&p.merge_operator_name),
        creation_time: p.creation_time,
        oldest_key_time: p.oldest_key_time,
        newest_key_time: p.newest_key_time,
        file_creation_time: p.file_creation_time,
        skip_filters: false,
        context_checksum_base: Some(reader.footer().checksum.base),
        ..BuilderOptions::default()
    }
}

/// Position of the first difference.
fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let at = a.iter().zip(b).position(|(x, y)| x != y);
    at.or((a.len() != b.len()).then_some(a.len().min(b.len())))
}

#[test]
fn uncompressed_tables_are_rebuilt_byte_for_byte() {
    let cases = [
        ("r118-v7-abc.sst", "abc.tsv", 4096, None),
        ("r118-v7-reverse.sst", "r118-v7-reverse.tsv", 256, None),
        ("default-000012.sst", "default-000012.tsv", 4096, None),
        ("default-000014.sst", "default-000014.tsv", 4096, None),
        (
            "checksum-crc32c-000014.sst",
            "checksum-crc32c-000014.tsv",
            500,
            None,
        ),
        (
            "bloom-offm-000014.sst",
            "bloom-offm-000014.tsv",
            4096,
            Some(9.5),
        ),
    ];
    for (table, contents, block_size, bits) in cases {
        let original = fixture(table);
        let reader = open(original.clone(), reader_options(table.contains("reverse"))).unwrap();
        let mut options = options_of(&reader);
        options.table.block_size = block_size;
        options.table.filter = bits.map_or(FilterKind::None, |bits| FilterKind::Bloom { bits });
        let rebuilt = build(options, &expected(contents));
        assert_eq!(
            difference(&rebuilt, &original),
            None,
            "{table}: first difference"
        );
    }
}

/// Tables of families with timestamps: those that hold them, and those whose keys were cut.
#[test]
fn tables_with_timestamps_are_rebuilt_byte_for_byte() {
    for (table, persist) in [
        ("r118-v7-udt.sst", true),
        ("r118-v7-udt-stripped.sst", false),
    ] {
        let original = fixture(table);
        let options = ReaderOptions {
            comparator: Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap(),
            ..ReaderOptions::default()
        };
        let reader = open(original.clone(), options).unwrap();
        let entries = match persist {
            true => expected("udt.tsv"),
            false => expected_stripped(),
        };
        let mut read = entries.clone();
        if !persist {
            // Bytes that were cut off read as zeros.
            for (key, _) in &mut read {
                let len = key.len();
                key[len - 16..len - 8].fill(0);
            }
        }
        assert_eq!(common::scan(&reader).unwrap(), read, "{table}");
        for (key, _) in &read {
            let user = spanlith_base::keys::user_key(key);
            assert!(
                reader.may_match_version(user, &Default::default()),
                "{table}"
            );
        }
        assert!(reader.has_filter());
        let absent = [&b"absent"[..], &[0; 8]].concat();
        assert!(
            !reader.may_match_version(&absent, &Default::default()),
            "{table}"
        );
        let mut options = options_of(&reader);
        options.table.filter = FilterKind::Bloom { bits: 10.0 };
        options.persist_timestamps = persist;
        let rebuilt = build(options, &entries);
        assert_eq!(
            difference(&rebuilt, &original),
            None,
            "{table}: first difference"
        );
    }
}

/// The entries of the stripped table, each with some timestamp.
fn expected_stripped() -> Vec<(Vec<u8>, Vec<u8>)> {
    let stored = expected("r118-v7-udt-stripped.tsv");
    let timed = stored.into_iter().map(|(mut key, value)| {
        let at = key.len() - 8;
        key.splice(at..at, 77u64.to_le_bytes());
        (key, value)
    });
    timed.collect()
}

#[test]
fn compressed_tables_are_rebuilt_block_for_block() {
    let cases = [
        (
            "format-version-5-000012.sst",
            "format-version-5-000012.tsv",
            400,
            Some(10.0),
        ),
        (
            "format-version-5-000014.sst",
            "format-version-5-000014.tsv",
            400,
            Some(10.0),
        ),
        (
            "format-version-7-000012.sst",
            "format-version-7-000012.tsv",
            400,
            Some(10.0),
        ),
        (
            "format-version-7-000014.sst",
            "format-version-7-000014.tsv",
            400,
            Some(10.0),
        ),
        (
            "bloom-offm-000012.sst",
            "bloom-offm-000012.tsv",
            4096,
            Some(9.5),
        ),
        (
            "checksum-crc32c-000012.sst",
            "checksum-crc32c-000012.tsv",
            500,
            None,
        ),
        (
            "compression-lz4-000012.sst",
            "compression-lz4-000012.tsv",
            4096,
            None,
        ),
        (
            "index-no-shortening-000012.sst",
            "index-no-shortening-000012.tsv",
            200,
            None,
        ),
        (
            "snapshots-kept-000016.sst",
            "snapshots-kept-000016.tsv",
            4096,
            None,
        ),
    ];
    for (table, contents, block_size, bits) in cases {
        let original_bytes = fixture(table);
        let original = open(original_bytes.clone(), reader_options(false)).unwrap();
        let mut options = options_of(&original);
        options.table.block_size = block_size;
        options.table.filter = bits.map_or(FilterKind::None, |bits| FilterKind::Bloom { bits });
        if table.contains("no-shortening") {
            options.table.index_shortening = IndexShortening::None;
        }
        let rebuilt_bytes = build(options, &expected(contents));
        let rebuilt = open(rebuilt_bytes.clone(), reader_options(false)).unwrap();
        let (a, b) = (original.dump().unwrap(), rebuilt.dump().unwrap());
        assert_eq!(a.index.len(), b.index.len(), "{table}");
        for (x, y) in a.index.iter().zip(&b.index) {
            assert_eq!(x.0, y.0, "{table}: separator");
            let block = original.read_data_block(x.1).unwrap();
            assert_eq!(
                block.bytes(),
                rebuilt.read_data_block(y.1).unwrap().bytes(),
                "{table}: data block at {}",
                x.1.offset
            );
        }
        let filter = |dump: &TableDump, bytes: &[u8]| {
            let (_, h) = dump
                .metaindex
                .iter()
                .find(|(name, _)| name.starts_with("fullfilter."))?;
            Some(bytes[h.offset as usize..(h.offset + h.size) as usize].to_vec())
        };
        assert_eq!(
            filter(&a, &original_bytes),
            filter(&b, &rebuilt_bytes),
            "{table}: filter"
        );
        assert_eq!(
            filter(&a, &original_bytes).is_some(),
            bits.is_some(),
            "{table}: filter"
        );
        let (mut p, q) = (a.properties, b.properties);
        // Only what depends on compressed sizes may differ.
        p.data_size = q.data_size;
        p.tail_start_offset = q.tail_start_offset;
        p.index_size = q.index_size;
        p.num_data_blocks_compression_rejected = q.num_data_blocks_compression_rejected;
        assert_eq!(p, q, "{table}");
    }
}

/// Tables with a range tombstone are not read yet, but up to their index they are as any other.
#[test]
fn data_blocks_filter_and_index_before_a_range_tombstone_are_identical() {
    // File, version, base of context checksums, block size, restart interval and end of the index.
    let cases = [
        ("r118-v5-xxh3-none.sst", 5, 0, 400, 1, 7303),
        (
            "r118-v7-xxh3-none.sst",
            7,
            base_of("r118-v7-xxh3-none.sst"),
            400,
            1,
            7303,
        ),
        (
            "r118-v7-span.sst",
            7,
            base_of("r118-v7-span.sst"),
            80,
            3,
            9801,
        ),
    ];
    for (table, format_version, base, block_size, interval, end) in cases {
        let options = BuilderOptions {
            table: TableOptions {
                format_version,
                checksum: ChecksumKind::Xxh3,
                block_size,
                index_block_restart_interval: interval,
                filter: FilterKind::Bloom { bits: 10.0 },
                optimize_filters_for_memory: false,
                ..TableOptions::default()
            },
            context_checksum_base: Some(base),
            ..BuilderOptions::default()
        };
        let rebuilt = build(options, &expected("dataset-a.tsv"));
        let original = fixture(table);
        assert_eq!(
            difference(&rebuilt[..end], &original[..end]),
            None,
            "{table}"
        );
    }
}

/// The base of context checksums in a footer of version 7.
fn base_of(table: &str) -> u32 {
    let bytes = fixture(table);
    let at = bytes.len() - 53 + 9;
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Filters of tables that are compressed with a codec this build lacks: the keys are known, and the
/// filter block is never compressed.
#[test]
fn filters_are_rebuilt_byte_for_byte() {
    let cases = [
        ("r78-v5-bloom400.sst", "dataset-b.tsv", 10.0, false, 512),
        ("r118-v7-bloom-1bit.sst", "dataset-c.tsv", 1.0, false, 64),
        ("r118-v7-offm.sst", "dataset-c.tsv", 10.0, true, 448),
        (
            "r78-v5-longkeys-bloom.sst",
            "dataset-d.tsv",
            16.0,
            false,
            128,
        ),
        ("r118-v7-bloom-30bit.sst", "dataset-d.tsv", 30.0, false, 192),
    ];
    for (table, contents, bits, optimize, len) in cases {
        let mut builder = spanlith_table::filter::FilterBuilder::new(
            bits,
            optimize.then(spanlith_table::filter::FilterBalance::default),
        );
        for (key, _) in expected(contents) {
            builder.add(spanlith_base::keys::user_key(&key));
        }
        let filter = builder.finish().to_vec();
        assert_eq!(filter.len(), len + 5, "{table}");
        let file = fixture(table);
        let found = file.windows(filter.len()).any(|part| part == filter);
        assert!(found, "{table}: the filter block is not in the file");
    }
}

#[test]
fn a_table_whose_zstd_dictionary_was_not_trained_is_rebuilt_byte_for_byte() {
    let original = fixture("r118-v7-zstd-finalized.sst");
    let reader = open(original.clone(), ReaderOptions::default()).unwrap();
    let entries = common::scan(&reader).unwrap();
    assert_eq!(entries.len(), 400);
    let mut options = options_of(&reader);
    options.compression = CompressionType::Zstd;
    options.target_file_size = 64 << 20;
    let codec = &mut options.compression_options;
    (codec.max_dict_bytes, codec.zstd_max_train_bytes) = (2048, 16 << 10);
    codec.use_zstd_dict_trainer = false;
    let rebuilt = build(options.clone(), &entries);
    assert_eq!(difference(&rebuilt, &original), None, "first difference");
    options.compression_options.use_zstd_dict_trainer = true;
    assert_ne!(build(options, &entries), original);
}

/// A table of the fixtures of RocksDB 11.12.
fn newest_golden(case: &str, table: &str) -> Vec<u8> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let path = root.join(format!("golden/golden-11.12/{case}/db/{table}.sst"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Data blocks of format version 8 with what their keys have in common stored once, without it, and with values and a
/// hash index beside the keys.
#[test]
fn data_blocks_of_format_version_8_are_rebuilt_byte_for_byte() {
    let mut stripped = 0;
    for (case, block_size, prefix) in [
        ("format-version-8-prefix", 600, CommonPrefix::Always),
        ("format-version-8-noprefix", 600, CommonPrefix::Never),
        ("format-version-8-hash", 500, CommonPrefix::Bytewise),
    ] {
        for table in ["000012", "000014"] {
            let original = open(newest_golden(case, table), reader_options(false)).unwrap();
            let mut options = options_of(&original);
            options.table.block_size = block_size;
            options.table.common_prefix = prefix;
            if case.ends_with("hash") {
                options.table.separate_key_value_in_data_block = true;
                options.table.data_block_hash_index = Some(0.75);
            }
            let entries = common::scan(&original).unwrap();
            let rebuilt = open(build(options, &entries), reader_options(false)).unwrap();
            assert_eq!(common::scan(&rebuilt).unwrap(), entries, "{case}/{table}");
            let (a, b) = (original.dump().unwrap(), rebuilt.dump().unwrap());
            assert_eq!(a.index.len(), b.index.len(), "{case}/{table}");
            for (x, y) in a.index.iter().zip(&b.index) {
                let theirs = original.read_data_block(x.1).unwrap();
                let ours = rebuilt.read_data_block(y.1).unwrap();
                assert_eq!(
                    ours.bytes(),
                    theirs.bytes(),
                    "{case}/{table} at {}",
                    x.1.offset
                );
                stripped += usize::from(prefix != CommonPrefix::Never);
            }
        }
    }
    assert!(stripped > 10);
}
