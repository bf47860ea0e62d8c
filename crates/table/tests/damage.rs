//! Damaged tables: every flipped byte and every length. Reading gives an error or the right
//! contents, never other contents, and never panics.

mod common;

use common::{build, fixture, open, scan};
use spanlith_base::CompressionType;
use spanlith_base::Result;
use spanlith_base::keys::{internal_key, pack_tag, split_internal};
use spanlith_table::{BuilderOptions, FilterKind, ReadParams, ReaderOptions, TableOptions};
use std::ops::ControlFlow;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn small(format_version: u32, compression: CompressionType) -> (Vec<u8>, Entries) {
    let entries: Entries = (0..40u64)
        .map(|i| {
            let key = internal_key(format!("key{:04}", i * 3).as_bytes(), pack_tag(i + 1, 1));
            (key, format!("value {i} value value value").into_bytes())
        })
        .collect();
    let options = BuilderOptions {
        table: TableOptions {
            format_version,
            block_size: 200,
            block_restart_interval: 4,
            filter: FilterKind::Bloom { bits: 10.0 },
            ..TableOptions::default()
        },
        compression,
        ..BuilderOptions::default()
    };
    (build(options, &entries), entries)
}

/// Opens, scans both ways and looks every key up. `verify` tells whether checksums are checked.
fn read_all(bytes: Vec<u8>, keys: &Entries, verify: bool) -> Result<Entries> {
    let options = ReaderOptions {
        verify_checksums: verify,
        ..ReaderOptions::default()
    };
    let params = ReadParams {
        verify_checksums: verify,
        ..ReadParams::default()
    };
    let reader = open(bytes, options)?;
    let mut found = Vec::new();
    let mut iter = reader.iter(params);
    iter.seek_to_first();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        assert!(found.len() < 100_000, "a scan does not end");
        iter.next();
    }
    iter.status()?;
    let mut back = 0;
    iter.seek_to_last();
    while iter.valid() {
        back += 1;
        assert!(back < 100_000, "a backward scan does not end");
        iter.prev();
    }
    iter.status()?;
    for (key, value) in keys {
        let (user, tag) = split_internal(key).unwrap();
        let mut seen = None;
        reader.get(user, tag >> 8, &params, |tag, value, _| {
            seen = Some((tag, value.to_vec()));
            ControlFlow::Break(())
        })?;
        if verify {
            assert_eq!(seen, Some((tag, value.clone())));
        }
        iter.seek(key);
        iter.status()?;
        iter.seek_for_prev(key);
        iter.status()?;
    }
    Ok(found)
}

fn tables() -> Vec<(&'static str, Vec<u8>, Entries)> {
    let abc: Entries = common::expected("abc.tsv");
    let (five, five_entries) = small(5, CompressionType::Lz4);
    let (seven, seven_entries) = small(7, CompressionType::None);
    vec![
        ("r78-v5-abc", fixture("r78-v5-abc.sst"), abc.clone()),
        ("r118-v7-abc", fixture("r118-v7-abc.sst"), abc),
        ("version 5, LZ4", five, five_entries),
        ("version 7", seven, seven_entries),
    ]
}

/// Holds T2.
#[test]
fn a_flipped_byte_is_an_error_or_changes_nothing() {
    // Bytes whose damage changes nothing: in version 5 what the two handles leave of their 40 bytes
    // in the footer (35, or 34 where a handle is longer); the filter's block of one line with its
    // trailer, because a filter that does not verify is left out.
    const FOOTER_PADDING: usize = 35;
    const FILTER: usize = 64 + 5 + 5;
    let mut unnoticed = Vec::new();
    for (name, bytes, entries) in tables() {
        let mut count = 0;
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                match read_all(damaged, &entries, true) {
                    Err(_) => {}
                    Ok(found) => {
                        assert_eq!(found, entries, "{name}: byte {at} ^ {mask:#x}");
                        count += usize::from(mask == 0xff);
                    }
                }
            }
        }
        unnoticed.push((name, count));
    }
    assert_eq!(
        unnoticed,
        [
            ("r78-v5-abc", FOOTER_PADDING),
            ("r118-v7-abc", 0),
            ("version 5, LZ4", FOOTER_PADDING - 1 + FILTER),
            ("version 7", FILTER),
        ]
    );
}

#[test]
fn a_cut_file_is_an_error() {
    for (name, bytes, entries) in tables() {
        for len in 0..bytes.len() {
            let done = read_all(bytes[..len].to_vec(), &entries, true);
            assert!(done.is_err(), "{name}: {len} bytes of {}", bytes.len());
        }
    }
}

#[test]
fn decoders_survive_any_byte_without_checksums() {
    for (name, bytes, entries) in tables() {
        let mut same = 0;
        for at in 0..bytes.len() {
            for mask in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                // Values and keys may change; the point is that nothing panics or runs forever.
                if read_all(damaged, &entries, false).is_ok_and(|found| found == entries) {
                    same += 1;
                }
            }
        }
        // Trailers, properties that are statistics, and the filter do not show in the entries.
        assert!(same > 0, "{name}");
        assert!(scan(&open(bytes, ReaderOptions::default()).unwrap()).unwrap() == entries);
    }
}

#[test]
fn a_mismatch_reads_as_rocksdb_prints_it() {
    let mut bytes = fixture("r118-v7-abc.sst");
    bytes[3] ^= 1;
    let reader = open(bytes, ReaderOptions::default()).unwrap();
    let e = scan(&reader).unwrap_err();
    let text = e.to_string();
    let head =
        "Corruption: block checksum mismatch: stored(context removed) = 958025550, computed = ";
    assert!(text.starts_with(head), "{text}");
    let tail = ", type = 4  in mem/000007.sst offset 0 size 47, block_type = Data";
    assert!(text.ends_with(tail), "{text}");
    assert_eq!(e.offset(), Some(0));
    assert_eq!(reader.verify_checksums().unwrap_err().to_string(), text);
    // Without verification the damage is read.
    let params = ReadParams {
        verify_checksums: false,
        ..ReadParams::default()
    };
    let mut iter = reader.iter(params);
    iter.seek_to_first();
    assert!(iter.valid());
    assert_eq!(iter.key()[0], b'a' ^ 1);
}

#[test]
fn a_damaged_filter_is_ignored_and_reported_by_verification() {
    let (bytes, entries) = small(7, CompressionType::None);
    let intact = open(bytes.clone(), ReaderOptions::default()).unwrap();
    assert!(intact.has_filter());
    let dump = intact.dump().unwrap();
    let filter = dump
        .metaindex
        .iter()
        .find(|(n, _)| n.starts_with("fullfilter."))
        .unwrap()
        .1;
    let mut bytes = bytes;
    bytes[filter.offset as usize] ^= 0x10;
    let reader = open(bytes, ReaderOptions::default()).unwrap();
    assert!(!reader.has_filter());
    assert!(reader.may_match_version(b"absent", &ReadParams::default()));
    assert_eq!(scan(&reader).unwrap(), entries);
    let e = reader.verify_checksums().unwrap_err();
    assert!(e.to_string().contains("block_type = Filter"), "{e}");
}
