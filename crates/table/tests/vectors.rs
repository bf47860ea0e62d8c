//! Every table of the format's test vectors: opened, read in both directions, looked up key by key.

mod common;

use common::{expected, expected_tombstones, fixture, open, scan};
use spanlith_base::Comparator;
use spanlith_base::keys::split_internal;
use spanlith_table::{ReadParams, ReaderOptions};
use std::ops::ControlFlow;

/// Sequence number that the ingestion of `r78-v5-ingested.sst` patched in.
const INGESTED_AT: u64 = 3;

fn options(table: &str) -> ReaderOptions {
    let comparator = if table.contains("reverse") {
        Comparator::ReverseBytewise
    } else if table.contains("udt") {
        Comparator::from_name("leveldb.BytewiseComparator.u64ts").unwrap()
    } else {
        Comparator::Bytewise
    };
    ReaderOptions {
        comparator,
        ..ReaderOptions::default()
    }
}

/// Tables and what they hold, from the list beside them.
fn vectors() -> Vec<(String, String)> {
    let list = String::from_utf8(fixture("index.tsv")).unwrap();
    let rows = list.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let table = fields.next().filter(|name| name.ends_with(".sst"))?;
        Some((table.to_string(), fields.next()?.to_string()))
    });
    rows.collect()
}

/// Replaces references into the table by the bytes they refer to.
fn resolve(entries: &mut [(Vec<u8>, Vec<u8>)], file: &[u8]) {
    let varint = |bytes: &[u8]| {
        let (v, rest) = spanlith_base::coding::get_varint64(bytes).unwrap();
        (v as usize, rest.to_vec())
    };
    let payload = |reference: &[u8]| {
        assert_eq!(reference[..2], [1, 0], "a blob in the same file");
        let (offset, rest) = varint(&reference[2..]);
        let (size, rest) = varint(&rest);
        assert_eq!(rest, [0]);
        file[offset..offset + size].to_vec()
    };
    for (key, value) in entries {
        let kind = key.len() - 8;
        if key[kind] == 0x11 {
            key[kind] = 1;
            *value = payload(value);
        } else if key[kind] == 0x16 {
            // Columns "", col1 and col2, of which col1 is a blob; the sizes are in the dump.
            let blob = payload(&value[26..32]);
            assert_eq!(value[14..26], *b"col1col2dflt");
            let mut entity = vec![1, 3, 0, 4];
            entity.extend_from_slice(b"\x04col1");
            entity.push(blob.len() as u8);
            entity.extend_from_slice(b"\x04col2\x01dflt");
            entity.extend_from_slice(&blob);
            entity.extend_from_slice(&value[32..]);
            *value = entity;
        }
    }
}

#[test]
fn every_table_of_the_vectors_has_its_documented_contents() {
    let vectors = vectors();
    assert!(vectors.len() > 80, "{}", vectors.len());
    for (table, contents) in &vectors {
        let reader =
            open(fixture(table), options(table)).unwrap_or_else(|e| panic!("{table}: {e}"));
        let mut want = expected(contents);
        let mut tombstones = expected_tombstones(contents);
        if table.contains("ingested") {
            // All entries count as written at the number that the ingestion patched in.
            for (key, _) in &mut want {
                let tag = key.len() - 8;
                key[tag + 1..].copy_from_slice(&INGESTED_AT.to_le_bytes()[..7]);
            }
            for tombstone in &mut tombstones {
                tombstone.2 = INGESTED_AT;
            }
        }
        if table.contains("stripped") {
            // Timestamps that were cut off read as zeros.
            for (key, _) in &mut want {
                let tag = key.len() - 8;
                key.splice(tag..tag, [0; 8]);
            }
        }
        if table.contains("embedded") {
            // The list shows references as they are stored.
            resolve(&mut want, &fixture(table));
        }
        let got = scan(&reader).unwrap_or_else(|e| panic!("{table}: {e}"));
        assert_eq!(got, want, "{table}");
        assert_eq!(reader.range_tombstones().unwrap(), tombstones, "{table}");
        assert_eq!(reader.has_range_tombstones(), !tombstones.is_empty());
        assert_eq!(
            reader
                .verify_contents()
                .unwrap_or_else(|e| panic!("{table}: {e}")),
            want.len() as u64,
            "{table}"
        );
        reader
            .verify_checksums()
            .unwrap_or_else(|e| panic!("{table}: {e}"));

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
            let (user, tag) = split_internal(key).unwrap();
            let mut found = None;
            let params = ReadParams::default();
            let get = reader.get(user, tag >> 8, &params, |tag, value, block| {
                found = Some((tag, block.pin(value)));
                ControlFlow::Break(())
            });
            get.unwrap_or_else(|e| panic!("{table}: {e}"));
            let (found_tag, found) = found.unwrap_or_else(|| panic!("{table}: key not found"));
            assert_eq!((found_tag, &*found), (tag, &value[..]), "{table}");
        }
    }
}
