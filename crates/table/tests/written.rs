//! Tables written with every codec and shape: read again, and compared with RocksDB's byte for byte
//! where the format leaves no freedom.

mod common;

use common::{MemFile, Random, expected, expected_tombstones, fixture, open, scan};
use spanlith_base::CompressionType;
use spanlith_base::keys::{append_internal, internal_key, pack_tag};
use spanlith_table::{
    BuilderOptions, CompressionOptions, FilterKind, ReaderOptions, TableBuilder, TableOptions,
};
use std::ops::ControlFlow;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes a table with point entries and range tombstones.
fn write(
    options: BuilderOptions,
    entries: &Entries,
    deletions: &[(Vec<u8>, Vec<u8>, u64)],
) -> Vec<u8> {
    let (file, bytes) = MemFile::create();
    let mut builder = TableBuilder::new(options, file);
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    for (start, end, seqno) in deletions {
        let mut key = Vec::new();
        append_internal(&mut key, start, pack_tag(*seqno, 0x0f));
        builder.add_range_tombstone(&key, end).unwrap();
    }
    builder.finish().unwrap();
    std::mem::take(&mut bytes.lock().unwrap())
}

/// Options that RocksDB had when it wrote `table`, as far as the table records them.
fn options_of(table: &str) -> BuilderOptions {
    let reader = open(fixture(table), ReaderOptions::default()).unwrap();
    let p = reader.properties();
    BuilderOptions {
        table: TableOptions {
            format_version: reader.footer().format_version,
            checksum: reader.footer().checksum.kind,
            block_size: 400,
            block_restart_interval: p.data_block_restart_interval as usize,
            index_block_restart_interval: p.index_block_restart_interval as usize,
            filter: FilterKind::Bloom { bits: 10.0 },
            optimize_filters_for_memory: false,
            separate_key_value_in_data_block: p.separate_key_value_in_data_block != 0,
            ..TableOptions::default()
        },
        column_family_id: p.column_family_id as u32,
        column_family_name: p.column_family_name.clone(),
        file_number: p.orig_file_number,
        db_id: p.db_id.clone(),
        db_session_id: p.db_session_id.clone(),
        db_host_id: p.db_host_id.clone(),
        merge_operator_name: p.merge_operator_name.clone(),
        creation_time: p.creation_time,
        oldest_key_time: p.oldest_key_time,
        newest_key_time: p.newest_key_time,
        file_creation_time: p.file_creation_time,
        context_checksum_base: Some(reader.footer().checksum.base),
        ..BuilderOptions::default()
    }
}

/// Holds T3.
#[test]
fn tables_of_every_version_checksum_and_shape_are_rebuilt_byte_for_byte() {
    let tables = [
        "r118-v2-xxh3-none.sst",
        "r118-v3-xxh3-none.sst",
        "r118-v4-xxh3-none.sst",
        "r118-v5-xxh3-none.sst",
        "r118-v6-xxh3-none.sst",
        "r118-v6-crc32c.sst",
        "r118-v6-nochecksum.sst",
        "r118-v6-xxhash.sst",
        "r118-v6-xxhash64.sst",
        "r118-v7-xxh3-none.sst",
        "r118-v7-sepkv.sst",
        "r118-v7-sepkv-hash.sst",
        "r118-v7-zstd.sst",
        "r118-v7-zstd-dict.sst",
    ];
    let (entries, deletions) = (
        expected("dataset-a.tsv"),
        expected_tombstones("dataset-a.tsv"),
    );
    let mut different = Vec::new();
    for table in tables {
        let mut options = options_of(table);
        if table.contains("sepkv-hash") {
            options.table.data_block_hash_index = Some(0.75);
        }
        if table.contains("zstd") {
            options.compression = CompressionType::Zstd;
        }
        if table.contains("dict") {
            options.compression_options.max_dict_bytes = 1024;
            options.compression_options.zstd_max_train_bytes = 16 << 10;
            options.compression_options.enabled = true;
        }
        let written = write(options, &entries, &deletions);
        let original = fixture(table);
        let at = written.iter().zip(&original).position(|(a, b)| a != b);
        if at.is_some() || written.len() != original.len() {
            different.push((table, at, written.len(), original.len()));
        }
    }
    assert!(different.is_empty(), "{different:?}");
}

/// Entries with values that shrink, some that do not, and keys with several versions.
fn sample(random: &mut Random, n: usize) -> Entries {
    let mut out = Vec::new();
    for i in 0..n {
        let user = format!("user{i:06}").into_bytes();
        let len = random.below(200) as usize;
        let value: Vec<u8> = match random.below(4) {
            0 => (0..len).map(|_| random.next() as u8).collect(),
            _ => format!("value of {i} ").into_bytes().repeat(len / 12 + 1),
        };
        let versions = 1 + random.below(3);
        for v in (1..=versions).rev() {
            out.push((
                internal_key(&user, pack_tag(10 * i as u64 + v, 1)),
                value.clone(),
            ));
        }
    }
    out
}

fn check(bytes: Vec<u8>, entries: &Entries, what: &str) {
    let reader = open(bytes, ReaderOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(&scan(&reader).unwrap(), entries, "{what}");
    reader.verify_checksums().unwrap();
    reader
        .verify_contents()
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    for (key, value) in entries.iter().step_by(7) {
        let (user, tag) = spanlith_base::keys::split_internal(key).unwrap();
        let mut found = None;
        let get = reader.get(user, tag >> 8, &Default::default(), |tag, value, _| {
            found = Some((tag, value.to_vec()));
            ControlFlow::Break(())
        });
        get.unwrap();
        assert_eq!(found, Some((tag, value.clone())), "{what}");
    }
    let absent = |_: u64, _: &[u8], _: &_| panic!("{what}: an absent key was found");
    reader
        .get(b"user0000005", 1 << 40, &Default::default(), absent)
        .unwrap();
}

#[test]
fn every_codec_with_and_without_dictionary_round_trips() {
    let (mut random, seed) = Random::seeded(11);
    let entries = sample(&mut random, 400);
    let raw: usize = entries.iter().map(|(k, v)| k.len() + v.len()).sum();
    for codec in CompressionType::written() {
        for max_dict_bytes in [0, 2048] {
            for train in [0, 64 << 10] {
                for max_dict_buffer_bytes in [0, 20_000] {
                    let options = BuilderOptions {
                        compression: codec,
                        compression_options: CompressionOptions {
                            max_dict_bytes,
                            zstd_max_train_bytes: train,
                            max_dict_buffer_bytes,
                            checksum: true,
                            ..CompressionOptions::default()
                        },
                        ..BuilderOptions::default()
                    };
                    let bytes = write(options, &entries, &[]);
                    let what = format!("{codec:?} {max_dict_bytes} {train} SEED={seed}");
                    assert_eq!(
                        bytes.len() < raw / 4 * 3,
                        codec != CompressionType::None,
                        "{what}"
                    );
                    check(bytes, &entries, &what);
                }
            }
        }
    }
}

#[test]
fn every_shape_of_data_blocks_round_trips() {
    let (mut random, seed) = Random::seeded(12);
    let entries = sample(&mut random, 300);
    for format_version in 2..=8 {
        for shape in 0..16 {
            let table = TableOptions {
                format_version,
                block_size: 1 << (8 + random.below(6)),
                block_restart_interval: 1 + random.below(20) as usize,
                separate_key_value_in_data_block: shape & 1 != 0,
                data_block_hash_index: (shape & 2 != 0).then_some(0.75),
                block_align: shape & 4 != 0,
                super_block_alignment_size: if shape & 8 != 0 { 4096 } else { 0 },
                super_block_alignment_space_overhead_ratio: 2,
                ..TableOptions::default()
            };
            let what = format!("version {format_version}, shape {shape}, SEED={seed}");
            let options = BuilderOptions {
                table,
                ..BuilderOptions::default()
            };
            check(write(options, &entries, &[]), &entries, &what);
        }
    }
}

#[test]
fn damaged_compressed_blocks_are_errors_of_bounded_size() {
    let (mut random, seed) = Random::seeded(13);
    let entries = sample(&mut random, 60);
    let raw: Vec<u8> = entries
        .iter()
        .flat_map(|(k, v)| [&k[..], v].concat())
        .collect();
    let options = CompressionOptions::default();
    for codec in CompressionType::written().skip(1) {
        let mut compressor = spanlith_table::Compressor::unlimited(codec, &options).unwrap();
        let packed = compressor.compress(&raw).unwrap().to_vec();
        let mut out = Vec::new();
        spanlith_table::format::decompress(codec, &packed, &mut out).unwrap();
        assert_eq!(out, raw, "{codec:?}");
        for round in 0..300 {
            let mut bad = packed.clone();
            if round % 3 == 0 {
                bad.truncate(random.below(bad.len() as u64) as usize);
            }
            for _ in 0..=random.below(3) {
                if !bad.is_empty() {
                    let at = random.below(bad.len() as u64) as usize;
                    bad[at] ^= 1 << random.below(8);
                }
            }
            // A claim of gigabytes in front of little.
            if round % 5 == 0 {
                bad.splice(0..bad.len().min(2), [0xff, 0xff, 0xff, 0xff, 0x07]);
            }
            let mut out = Vec::new();
            let done = spanlith_table::format::decompress(codec, &bad, &mut out);
            assert!(
                out.capacity() < 4 << 20,
                "{codec:?} {} SEED={seed}",
                out.capacity()
            );
            if done.is_ok() && !matches!(codec, CompressionType::Zlib) {
                assert!(out.len() < 2 * raw.len(), "{codec:?} SEED={seed}");
            }
        }
    }
}
