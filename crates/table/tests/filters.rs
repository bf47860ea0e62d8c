//! Filters and indexes of every kind: byte for byte those of RocksDB, and read back by all paths.

mod common;

use common::{MemFile, build, expected, fixture, open};
use spanlith_base::keys::{internal_key, pack_tag, user_key};
use spanlith_base::{ErrorKind, SliceTransform};
use spanlith_table::filter::FilterPolicy;
use spanlith_table::{
    BuilderOptions, FilterKind, IndexType, PrefixSeek, ReadParams, ReaderOptions, TableBuilder,
    TableOptions, TableReader,
};
use std::ops::ControlFlow;

const BLOOM: FilterKind = FilterKind::Bloom { bits: 10.0 };
const RIBBON: FilterKind = FilterKind::Ribbon {
    bits: 10.0,
    bloom_before_level: 0,
};

fn shape(format_version: u32, filter: FilterKind) -> BuilderOptions {
    BuilderOptions {
        table: TableOptions {
            format_version,
            filter,
            optimize_filters_for_memory: false,
            ..TableOptions::default()
        },
        ..BuilderOptions::default()
    }
}

fn partitioned(mut o: BuilderOptions, block_size: usize, metadata: usize) -> BuilderOptions {
    o.table.index_type = IndexType::TwoLevelIndexSearch;
    o.table.partition_filters = true;
    o.table.block_size = block_size;
    o.table.metadata_block_size = metadata;
    o
}

/// The extractor of the vectors with prefixes.
const FOUR: SliceTransform = SliceTransform::FixedPrefix(4);

#[test]
fn partitioned_filters_are_cut_and_built_as_by_rocksdb() {
    let bits = |bits| FilterKind::Bloom { bits };
    // File, entries, partitions, version, filter, block and partition size, prefixes, whole keys.
    let cases = [
        (
            "r118-v7-part-both.sst",
            "dataset-c.tsv",
            7,
            7,
            BLOOM,
            256,
            128,
            true,
            true,
        ),
        (
            "r118-v7-part-both-coupled.sst",
            "dataset-c.tsv",
            9,
            7,
            BLOOM,
            256,
            128,
            true,
            true,
        ),
        (
            "r118-v7-part-prefixonly.sst",
            "dataset-c.tsv",
            2,
            7,
            bits(50.0),
            256,
            128,
            true,
            false,
        ),
        (
            "r118-v7-part-ribbon.sst",
            "dataset-e.tsv",
            5,
            7,
            RIBBON,
            256,
            300,
            false,
            true,
        ),
        (
            "r118-v7-twolevel.sst",
            "dataset-a.tsv",
            2,
            7,
            BLOOM,
            400,
            160,
            false,
            true,
        ),
        (
            "r78-v5-twolevel.sst",
            "dataset-a.tsv",
            2,
            5,
            BLOOM,
            400,
            160,
            false,
            true,
        ),
    ];
    for (file, contents, partitions, version, filter, block, metadata, prefixes, whole) in cases {
        let mut o = partitioned(shape(version, filter), block, metadata);
        o.table.decouple_partitioned_filters =
            !file.contains("coupled") && !file.starts_with("r78");
        o.table.whole_key_filtering = whole;
        o.prefix_extractor = prefixes.then_some(FOUR);
        let bytes = build(o, &expected(contents));
        let reader = open(bytes.clone(), ReaderOptions::default()).unwrap();
        let dump = reader.dump().unwrap();
        assert_eq!(dump.filter_partitions.len(), partitions, "{file}");
        let original = fixture(file);
        let mut behind = 0;
        for (i, (_, handle)) in dump.filter_partitions.iter().enumerate() {
            let filter = &bytes[handle.offset as usize..][..handle.size as usize];
            let found = original[behind..]
                .windows(filter.len())
                .position(|part| part == filter);
            let at = found.unwrap_or_else(|| panic!("{file}: partition {i} differs"));
            behind += at + filter.len();
        }
    }
}

#[test]
fn full_filters_are_built_as_by_rocksdb() {
    let bloom = |bits| FilterKind::Bloom { bits };
    let ribbon = |bits| FilterKind::Ribbon {
        bits,
        bloom_before_level: 0,
    };
    let capped = SliceTransform::CappedPrefix(4);
    let cases = [
        (
            "r78-v4-legacybloom400.sst",
            "dataset-b.tsv",
            4,
            bloom(10.0),
            None,
            true,
        ),
        (
            "r78-v4-legacy-23bit.sst",
            "dataset-c.tsv",
            4,
            bloom(23.0),
            None,
            true,
        ),
        (
            "r118-v7-ribbon400.sst",
            "dataset-b.tsv",
            7,
            ribbon(10.0),
            None,
            true,
        ),
        (
            "r118-v7-ribbon1000.sst",
            "dataset-e.tsv",
            7,
            ribbon(12.3),
            None,
            true,
        ),
        (
            "r118-v7-longkeys-ribbon.sst",
            "dataset-d.tsv",
            7,
            ribbon(10.0),
            None,
            true,
        ),
        (
            "r118-v7-full-both-capped.sst",
            "dataset-c.tsv",
            7,
            bloom(9.5),
            Some(capped),
            true,
        ),
        (
            "r118-v7-full-prefixonly-fixed.sst",
            "dataset-c.tsv",
            7,
            bloom(10.0),
            Some(FOUR),
            false,
        ),
    ];
    for (file, contents, version, filter, extractor, whole) in cases {
        if version < 5 {
            let policy = FilterPolicy::new(filter, version, 0, None).unwrap();
            let keys = expected(contents);
            let hashes: Vec<u64> = keys.iter().map(|(k, _)| policy.hash(user_key(k))).collect();
            let filter = policy.build(&hashes);
            let found = fixture(file)
                .windows(filter.len())
                .any(|part| part == filter);
            assert!(found, "{file}: the filter block is not in the file");
            continue;
        }
        let mut o = shape(version, filter);
        o.table.whole_key_filtering = whole;
        o.prefix_extractor = extractor;
        let bytes = build(o, &expected(contents));
        let reader = open(bytes.clone(), ReaderOptions::default()).unwrap();
        let dump = reader.dump().unwrap();
        let (_, handle) = dump
            .metaindex
            .iter()
            .find(|(name, _)| name.starts_with("fullfilter."))
            .unwrap_or_else(|| panic!("{file}: no filter"));
        let filter = &bytes[handle.offset as usize..][..handle.size as usize];
        let found = fixture(file)
            .windows(filter.len())
            .any(|part| part == filter);
        assert!(found, "{file}: the filter block is not in the file");
    }
}

/// Up to its index a table with a range tombstone is as any other.
#[test]
fn indexes_of_every_type_are_encoded_as_by_rocksdb() {
    let cases = [
        ("r78-v5-hashsearch.sst", IndexType::HashSearch),
        ("r78-v5-firstkey.sst", IndexType::BinarySearchWithFirstKey),
        ("r78-v5-twolevel.sst", IndexType::TwoLevelIndexSearch),
    ];
    for (file, index_type) in cases {
        let mut o = partitioned(shape(5, BLOOM), 400, 160);
        o.table.index_type = index_type;
        o.table.decouple_partitioned_filters = false;
        if index_type == IndexType::BinarySearchWithFirstKey {
            o.table.index_block_restart_interval = 2;
        }
        if index_type == IndexType::HashSearch {
            o.prefix_extractor = Some(FOUR);
        }
        let bytes = build(o, &expected("dataset-a.tsv"));
        let reader = open(bytes.clone(), ReaderOptions::default()).unwrap();
        let handle = reader.dump().unwrap().index_handle;
        let end = (handle.offset + handle.size + 5) as usize;
        let original = fixture(file);
        let differs = (0..end).find(|&i| original.get(i) != Some(&bytes[i]));
        assert_eq!(differs, None, "{file}: first difference before {end}");
    }
}

#[test]
fn a_hash_search_index_needs_a_prefix_extractor() {
    let mut o = shape(7, FilterKind::None);
    o.table.index_type = IndexType::HashSearch;
    let (file, _) = MemFile::create();
    let mut builder = TableBuilder::new(o, file);
    let e = builder.add(b"key\x01\0\0\0\0\0\0\0", b"").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    assert!(
        e.to_string().contains("prefix_extractor is not given"),
        "{e}"
    );
}

/// Keys of 300 prefixes of four bytes, a few of each, with gaps between the prefixes.
fn grouped() -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..300)
        .flat_map(|group| (0..3).map(move |i| format!("{:04}-{i}", 2 * group)))
        .map(|key| (internal_key(key.as_bytes(), pack_tag(7, 1)), b"v".to_vec()))
        .collect()
}

fn prefix_options(extractor: Option<SliceTransform>) -> ReaderOptions {
    ReaderOptions {
        prefix_extractor: extractor,
        ..ReaderOptions::default()
    }
}

#[test]
fn prefix_filters_exclude_seeks_to_absent_prefixes_and_no_others() {
    for (partitions, whole) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut o = shape(7, FilterKind::Bloom { bits: 16.0 });
        if partitions {
            o = partitioned(o, 200, 300);
        }
        o.table.whole_key_filtering = whole;
        o.prefix_extractor = Some(FOUR);
        let bytes = build(o, &grouped());
        let reader = open(bytes.clone(), prefix_options(Some(FOUR))).unwrap();
        let case = format!("partitions {partitions}, whole keys {whole}");
        assert!(reader.has_prefix_filter(), "{case}");
        let params = ReadParams::default();
        let ask = |reader: &TableReader, key: &[u8], upper_bound: Option<&[u8]>| {
            let seek = PrefixSeek {
                key,
                upper_bound,
                needs_bound: false,
            };
            reader.prefix_may_match(seek, &params)
        };
        let mut passed = 0;
        for group in 0..300 {
            // From before, within and after the keys of the prefix.
            for tail in ["", "-1", "-9"] {
                let present = format!("{:04}{tail}", 2 * group);
                assert!(ask(&reader, present.as_bytes(), None), "{case}: {present}");
            }
            let absent = format!("{:04}-1", 2 * group + 1);
            passed += usize::from(ask(&reader, absent.as_bytes(), None));
        }
        assert!(passed < 15, "{case}: {passed} of 300 absent prefixes pass");
        assert!(ask(&reader, b"abc", None), "{case}: no prefix");
        let passed = (0..300).filter(|i| {
            let key = format!("{:04}-1", 2 * i + 1);
            reader.may_match_version(key.as_bytes(), &ReadParams::default())
        });
        assert!(passed.count() < 15, "{case}: lookups");

        // With another extractor only a bound makes the filter usable.
        for other in [None, Some(SliceTransform::FixedPrefix(3))] {
            let reader = open(bytes.clone(), prefix_options(other)).unwrap();
            assert!(ask(&reader, b"0001-1", None), "{case}");
            assert!(ask(&reader, b"0001-1", Some(b"0003")), "{case}");
            let asked = |i: u32| format!("{:04}-1", 2 * i + 1);
            for bound in [
                |i: u32| format!("{:04}-5", 2 * i + 1),
                |i| format!("{:04}", 2 * i + 2),
            ] {
                // A bound that is no successor in bytes ("0009" and "0010") proves nothing.
                let passed = (0..300)
                    .filter(|&i| i % 5 != 4)
                    .filter(|&i| ask(&reader, asked(i).as_bytes(), Some(bound(i).as_bytes())));
                assert!(passed.count() < 15, "{case}");
            }
            let present = (0..300).map(|i| format!("{:04}-1", 2 * i));
            for key in present {
                assert!(ask(&reader, key.as_bytes(), Some(b"9999")), "{case}: {key}");
                assert!(
                    ask(&reader, key.as_bytes(), Some(key.as_bytes())),
                    "{case}: {key}"
                );
            }
        }
    }
}

#[test]
fn damage_to_indexes_and_filters_of_every_kind_is_found_or_harmless() {
    let entries = grouped();
    let kinds = [
        (IndexType::TwoLevelIndexSearch, RIBBON),
        (IndexType::BinarySearchWithFirstKey, BLOOM),
        (IndexType::HashSearch, RIBBON),
    ];
    for (index_type, filter) in kinds {
        let mut o = partitioned(shape(7, filter), 500, 300);
        o.table.index_type = index_type;
        o.prefix_extractor = Some(FOUR);
        let bytes = build(o, &entries);
        for at in (0..bytes.len()).step_by(13) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            for verify in [true, false] {
                let params = ReadParams {
                    verify_checksums: verify,
                    ..ReadParams::default()
                };
                let options = ReaderOptions {
                    verify_checksums: verify,
                    ..prefix_options(Some(FOUR))
                };
                let Ok(reader) = open(damaged.clone(), options) else {
                    continue;
                };
                let mut iter = reader.iter(params);
                let mut seen = 0;
                for (key, _) in entries.iter().step_by(90) {
                    iter.seek(key);
                    let mut steps = 0;
                    while iter.valid() && steps < 10_000 {
                        seen += usize::from(iter.key() == key);
                        iter.next();
                        steps += 1;
                    }
                    assert!(steps < 10_000, "{index_type:?}: byte {at}: no end");
                    let sound = iter.status().is_ok();
                    let mut found = false;
                    let got = reader.get(user_key(key), 100, &params, |_, _, _| {
                        found = true;
                        ControlFlow::Break(())
                    });
                    if verify {
                        assert!(got.is_err() || found, "{index_type:?}: byte {at}: lost");
                        assert!(!sound || seen > 0, "{index_type:?}: byte {at}: skipped");
                    }
                }
            }
        }
    }
}

/// A dictionary holds blocks back until it is made; what index and filter record by blocks waits as well.
#[test]
fn a_dictionary_changes_neither_hash_index_nor_partitions() {
    for (index_type, filter) in [
        (IndexType::HashSearch, BLOOM),
        (IndexType::TwoLevelIndexSearch, BLOOM),
        (IndexType::TwoLevelIndexSearch, RIBBON),
        (IndexType::BinarySearchWithFirstKey, BLOOM),
    ] {
        for (decoupled, limit) in [(true, 0), (false, 0), (false, 3000)] {
            let with = |dictionary: u32| {
                let mut o = partitioned(shape(7, filter), 256, 200);
                o.table.index_type = index_type;
                o.table.decouple_partitioned_filters = decoupled;
                o.prefix_extractor = Some(FOUR);
                o.compression = spanlith_base::CompressionType::Lz4;
                o.compression_options.max_dict_bytes = dictionary;
                o.compression_options.max_dict_buffer_bytes = limit;
                open(build(o, &grouped()), prefix_options(Some(FOUR))).unwrap()
            };
            let (plain, dictionary) = (with(0), with(4096));
            let name = format!("{index_type:?} {filter:?} {decoupled} {limit}");
            assert!(!plain.has_misleading_hash_index().unwrap(), "{name}");
            assert!(!dictionary.has_misleading_hash_index().unwrap(), "{name}");
            let dump = |reader: &TableReader| reader.dump().unwrap();
            let (plain, dictionary) = (dump(&plain), dump(&dictionary));
            let has = |name| dictionary.metaindex.iter().any(|m| m.0 == name);
            assert!(has("rocksdb.compression_dict"), "{name}");
            let keys = |list: &[(Vec<u8>, _)]| list.iter().map(|e| e.0.clone()).collect::<Vec<_>>();
            assert_eq!(keys(&plain.index), keys(&dictionary.index), "{name}");
            let (a, b) = (
                plain.filter_partitions.len(),
                dictionary.filter_partitions.len(),
            );
            assert!(a.abs_diff(b) <= a / 4, "{name}: {a} partitions, {b}");
            assert_eq!(
                plain.properties.num_filter_entries, dictionary.properties.num_filter_entries,
                "{name}"
            );
        }
    }
}
