//! Tables written by RocksDB: read with their documented contents, or refused by the name of what
//! this build lacks, and rebuilt byte for byte.

mod common;

use common::{expected, fixture, open, scan};
use spanlith_base::{Comparator, ErrorKind};
use spanlith_table::{ReadParams, ReaderOptions};
use std::ops::ControlFlow;

fn options(name: &str) -> ReaderOptions {
    let comparator = if name.contains("reverse") {
        Comparator::ReverseBytewise
    } else {
        Comparator::Bytewise
    };
    ReaderOptions {
        comparator,
        ..ReaderOptions::default()
    }
}

/// Table and its contents.
const READABLE: [(&str, &str); 17] = [
    ("r78-v5-abc.sst", "abc.tsv"),
    ("r118-v7-abc.sst", "abc.tsv"),
    ("r118-v7-reverse.sst", "r118-v7-reverse.tsv"),
    ("default-000012.sst", "default-000012.tsv"),
    ("default-000014.sst", "default-000014.tsv"),
    ("format-version-5-000012.sst", "format-version-5-000012.tsv"),
    ("format-version-5-000014.sst", "format-version-5-000014.tsv"),
    ("format-version-7-000012.sst", "format-version-7-000012.tsv"),
    ("format-version-7-000014.sst", "format-version-7-000014.tsv"),
    ("compression-lz4-000012.sst", "compression-lz4-000012.tsv"),
    ("compression-lz4-000014.sst", "compression-lz4-000014.tsv"),
    ("checksum-crc32c-000012.sst", "checksum-crc32c-000012.tsv"),
    ("checksum-crc32c-000014.sst", "checksum-crc32c-000014.tsv"),
    ("bloom-offm-000012.sst", "bloom-offm-000012.tsv"),
    ("bloom-offm-000014.sst", "bloom-offm-000014.tsv"),
    (
        "index-no-shortening-000012.sst",
        "index-no-shortening-000012.tsv",
    ),
    ("snapshots-kept-000016.sst", "snapshots-kept-000016.tsv"),
];

#[test]
fn tables_of_rocksdb_have_their_documented_contents() {
    for (table, contents) in READABLE {
        let want = expected(contents);
        let reader =
            open(fixture(table), options(table)).unwrap_or_else(|e| panic!("{table}: {e}"));
        assert_eq!(scan(&reader).unwrap(), want, "{table}");
        assert_eq!(
            reader.verify_contents().unwrap(),
            want.len() as u64,
            "{table}"
        );
        assert!(reader.verify_checksums().unwrap() >= 4, "{table}");

        let mut iter = reader.iter(ReadParams::default());
        iter.seek_to_last();
        for (key, value) in want.iter().rev() {
            assert!(iter.valid(), "{table}");
            assert_eq!(
                (iter.key(), iter.value()),
                (&key[..], &value[..]),
                "{table}"
            );
            iter.prev();
        }
        assert!(!iter.valid(), "{table}");
        iter.status().unwrap();

        for (key, value) in &want {
            let (user, tag) = spanlith_base::keys::split_internal(key).unwrap();
            let mut found = None;
            reader
                .get(
                    user,
                    tag >> 8,
                    &ReadParams::default(),
                    |tag, value, block| {
                        found = Some((tag, block.pin(value)));
                        ControlFlow::Break(())
                    },
                )
                .unwrap();
            let (found_tag, found) = found.unwrap_or_else(|| panic!("{table}: key not found"));
            assert_eq!((found_tag, &*found), (tag, &value[..]), "{table}");
        }
    }
}

#[test]
fn a_filter_of_rocksdb_rejects_most_absent_keys() {
    for table in ["bloom-offm-000012.sst", "format-version-7-000012.sst"] {
        let reader = open(fixture(table), options(table)).unwrap();
        assert!(reader.has_filter());
        let passed = (0..1000).filter(|i| {
            reader.may_match_version(format!("absent-{i}").as_bytes(), &ReadParams::default())
        });
        assert!(passed.count() < 50, "{table}");
    }
}

#[test]
fn the_recorded_unique_id_is_checked() {
    let bytes = fixture("default-000012.sst");
    let id = open(bytes.clone(), options(""))
        .unwrap()
        .properties()
        .unique_id();
    let good = ReaderOptions {
        expected_unique_id: Some(id),
        ..options("")
    };
    open(bytes.clone(), good).unwrap();
    let unknown = ReaderOptions {
        expected_unique_id: Some([0, 0]),
        ..options("")
    };
    open(bytes.clone(), unknown).unwrap();
    let bad = ReaderOptions {
        expected_unique_id: Some([id[0], id[1] ^ 1]),
        ..options("")
    };
    let e = open(bytes, bad).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    assert!(
        e.message()
            .starts_with("Mismatch in unique ID on table file. Expected: {"),
        "{e}"
    );
}

#[test]
fn what_this_build_lacks_is_refused_by_name() {
    let refused = [("r118-v7-udt.sst", "user-defined timestamps")];
    for (table, feature) in refused {
        let e = open(fixture(table), options(""))
            .map(|_| table)
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotSupported, "{table}: {e}");
        assert!(e.message().contains(feature), "{table}: {e}");
        assert!(e.to_string().contains("mem/000007.sst"), "{table}: {e}");
    }
}

#[test]
fn a_table_without_its_timestamps_is_read_as_one_that_never_had_any() {
    let table = "r118-v7-udt-stripped";
    let reader = open(fixture(&format!("{table}.sst")), options("")).unwrap();
    assert_eq!(
        common::scan(&reader).unwrap(),
        common::expected(&format!("{table}.tsv"))
    );
}

#[test]
fn another_comparator_is_refused() {
    let e = open(fixture("r118-v7-reverse.sst"), options("")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}
