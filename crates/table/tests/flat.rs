//! Tables without blocks: those of RocksDB are read and rebuilt byte for byte, ours are what was written, and damage
//! is an error.

mod common;

use common::{MemFile, Random, fixture, open, scan};
use spanlith_base::keys::{MAX_SEQUENCE, internal_key, pack_tag, split_internal, tag_sequence};
use spanlith_base::{Error, Result, SliceTransform};
use spanlith_table::{
    BuilderOptions, CuckooOptions, PlainEncoding, PlainOptions, ReadParams, ReaderOptions,
    TableBuilder, TableFormat, TableGet, TableOptions, TableReader,
};
use std::ops::ControlFlow;
use std::sync::Arc;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn cuckoo(change: impl FnOnce(&mut CuckooOptions)) -> TableFormat {
    let mut options = CuckooOptions::default();
    change(&mut options);
    TableFormat::Cuckoo(options)
}

/// The fixtures, with what they were written with.
fn fixtures() -> Vec<(&'static str, TableFormat)> {
    let tight = |o: &mut CuckooOptions| {
        (o.hash_table_ratio, o.cuckoo_block_size, o.max_search_depth) = (0.97, 1, 7);
    };
    vec![
        ("r118-cuckoo.sst", cuckoo(|_| {})),
        (
            "r118-cuckoo-mask.sst",
            cuckoo(|o| o.use_module_hash = false),
        ),
        (
            "r118-cuckoo-mask-tight.sst",
            cuckoo(|o| {
                o.use_module_hash = false;
                tight(o);
            }),
        ),
        ("r118-cuckoo-last.sst", cuckoo(|_| {})),
        (
            "r118-cuckoo-identity.sst",
            cuckoo(|o| o.identity_as_first_hash = true),
        ),
        ("r118-cuckoo-tight.sst", cuckoo(tight)),
        ("r118-plain.sst", plain(|_| {})),
        ("r118-plain-fixed.sst", plain(|o| o.user_key_len = 16)),
        (
            "r118-plain-prefix.sst",
            plain(|o| o.encoding_type = PlainEncoding::Prefix),
        ),
        (
            "r118-plain-store.sst",
            plain(|o| o.store_index_in_file = true),
        ),
        (
            "r118-plain-store-local.sst",
            plain(|o| (o.store_index_in_file, o.bloom_locality) = (true, 1)),
        ),
        (
            "r118-plain-prefix-store.sst",
            plain(|o| {
                o.encoding_type = PlainEncoding::Prefix;
                (o.store_index_in_file, o.index_sparseness) = (true, 4);
            }),
        ),
        (
            "r118-plain-total-store.sst",
            plain(|o| {
                o.store_index_in_file = true;
                (o.bloom_bits_per_key, o.hash_table_ratio) = (8, 0.0);
            }),
        ),
    ]
}

fn plain(change: impl FnOnce(&mut PlainOptions)) -> TableFormat {
    let mut options = PlainOptions::default();
    change(&mut options);
    TableFormat::Plain(options)
}

fn write(options: BuilderOptions, entries: &Entries) -> Result<Vec<u8>> {
    let (file, bytes) = MemFile::create();
    let mut builder = TableBuilder::new(options, file);
    for (key, value) in entries {
        builder.add(key, value)?;
    }
    let summary = builder.finish()?;
    let bytes = std::mem::take(&mut *bytes.lock().unwrap());
    assert_eq!(summary.file_size, bytes.len() as u64);
    assert_eq!(summary.properties.num_entries, entries.len() as u64);
    Ok(bytes)
}

/// Options that record of a table what another one records.
fn options_like(reader: &TableReader, format: TableFormat) -> BuilderOptions {
    let p = reader.properties();
    BuilderOptions {
        table: TableOptions {
            format,
            ..TableOptions::default()
        },
        column_family_id: p.column_family_id as u32,
        column_family_name: p.column_family_name.clone(),
        file_number: p.orig_file_number,
        db_id: p.db_id.clone(),
        db_session_id: p.db_session_id.clone(),
        db_host_id: p.db_host_id.clone(),
        prefix_extractor: (p.prefix_extractor_name == "rocksdb.FixedPrefix.8")
            .then_some(SliceTransform::FixedPrefix(8)),
        ..BuilderOptions::default()
    }
}

fn get(reader: &TableReader, user: &[u8], seqno: u64) -> Option<(u64, Vec<u8>)> {
    let mut found = None;
    let sink = |tag: u64, value: &[u8], block: &Arc<spanlith_table::Block>| {
        found = Some((tag, block.pin(value).to_vec()));
        ControlFlow::Break(())
    };
    reader
        .get(user, seqno, &ReadParams::default(), sink)
        .unwrap();
    found
}

#[test]
fn tables_of_rocksdb_are_read_and_rebuilt_byte_for_byte() {
    for (name, format) in fixtures() {
        let original = fixture(name);
        let reader = open(original.clone(), ReaderOptions::default()).unwrap();
        let entries = scan(&reader).unwrap();
        assert_eq!(entries.len() as u64, reader.properties().num_entries);
        reader
            .verify_contents()
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        reader.verify_checksums().unwrap();
        let written = write(options_like(&reader, format), &entries).unwrap();
        let at = written.iter().zip(&original).position(|(a, b)| a != b);
        assert_eq!((at, written.len()), (None, original.len()), "{name}");
    }
}

#[test]
fn lookups_and_walks_give_the_same() {
    for (name, _) in fixtures() {
        let reader = open(fixture(name), ReaderOptions::default()).unwrap();
        let entries = scan(&reader).unwrap();
        for (key, value) in &entries {
            let (user, tag) = split_internal(key).unwrap();
            assert_eq!(get(&reader, user, MAX_SEQUENCE), Some((tag, value.clone())));
            let before = tag_sequence(tag).checked_sub(1);
            assert_eq!(before.and_then(|n| get(&reader, user, n)), None, "{name}");
            let mut iter = reader.iter(ReadParams::default());
            iter.seek(&internal_key(user, pack_tag(MAX_SEQUENCE, 0x18)));
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        }
        assert_eq!(get(&reader, b"absent", MAX_SEQUENCE), None);
        let mut longer = split_internal(&entries[0].0).unwrap().0.to_vec();
        *longer.last_mut().unwrap() ^= 0x40;
        assert_eq!(get(&reader, &longer, MAX_SEQUENCE), None);
        let mut iter = reader.iter(ReadParams::default());
        let mut backwards = Vec::new();
        iter.seek_to_last();
        while iter.valid() {
            backwards.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.prev();
        }
        backwards.reverse();
        assert_eq!(backwards, entries, "{name}");

        let mut found = vec![None; entries.len()];
        let users: Vec<&[u8]> = (entries.iter())
            .map(|e| split_internal(&e.0).unwrap().0)
            .collect();
        let mut keys: Vec<TableGet<'_>> = users
            .iter()
            .map(|user| TableGet::new(user, TableReader::filter_hash(user)))
            .collect();
        let params = ReadParams::default();
        reader.multi_get(&mut keys, MAX_SEQUENCE, &params, |n, _, value, _| {
            found[n] = Some(value.to_vec());
            ControlFlow::Break(())
        });
        let expected: Vec<_> = entries.iter().map(|e| Some(e.1.clone())).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Reads all there is by a walk, and some of it by lookups.
fn read_all(bytes: Vec<u8>) -> Result<Entries> {
    let reader = open(bytes, ReaderOptions::default())?;
    let entries = scan(&reader)?;
    for (key, _) in entries.iter().step_by(50) {
        let (user, _) = split_internal(key).unwrap();
        reader.get(user, MAX_SEQUENCE, &ReadParams::default(), |_, _, _| {
            ControlFlow::Break(())
        })?;
    }
    Ok(entries)
}

#[test]
fn every_cut_is_an_error_that_names_the_file() {
    for (name, _) in fixtures() {
        let original = fixture(name);
        for len in 0..original.len() {
            let e = read_all(original[..len].to_vec()).unwrap_err();
            assert!(e.path().is_some(), "{name} cut at {len}: {e}");
        }
    }
}

#[test]
fn no_flipped_byte_ends_in_a_panic() {
    for (name, _) in fixtures() {
        let original = fixture(name);
        let reader = open(original.clone(), ReaderOptions::default()).unwrap();
        let data = reader.properties().data_size as usize;
        for at in 0..original.len() {
            let mut bytes = original.clone();
            bytes[at] ^= [1 << (at / 2 % 8), 0xff][at % 2];
            let Err(e) = read_all(bytes) else {
                // Entries have no checksums.
                continue;
            };
            assert!(e.path().is_some(), "{name} flipped at {at}: {e}");
            assert!(at >= data || e.offset().is_some(), "{name} at {at}: {e}");
        }
    }
}

fn numbered(n: u64, key: impl Fn(u64) -> Vec<u8>, seqno: u64) -> Entries {
    let mut entries: Entries = (0..n)
        .map(|i| {
            (
                internal_key(&key(i), pack_tag(seqno, 1)),
                i.to_le_bytes().to_vec(),
            )
        })
        .collect();
    entries.sort();
    entries
}

#[test]
fn cuckoo_tables_of_random_keys_hold_what_was_written() {
    let (mut random, seed) = Random::seeded(11);
    for round in 0..24 {
        let n = 1 + random.below(3000);
        let entries = numbered(
            n,
            |i| {
                (i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                    .to_be_bytes()
                    .to_vec()
            },
            round % 2 * 7,
        );
        let format = cuckoo(|o| {
            o.hash_table_ratio = 0.5 + random.below(49) as f64 / 100.0;
            o.cuckoo_block_size = 1 + random.below(6) as u32;
            o.use_module_hash = random.below(2) == 0;
            o.identity_as_first_hash = random.below(2) == 0;
        });
        let table = TableOptions {
            format,
            ..TableOptions::default()
        };
        let options = BuilderOptions {
            table,
            ..BuilderOptions::default()
        };
        let bytes = write(options, &entries).unwrap();
        let reader = open(bytes, ReaderOptions::default()).unwrap();
        assert_eq!(scan(&reader).unwrap(), entries, "seed {seed} round {round}");
        let verified = reader.verify_contents();
        assert_eq!(verified.unwrap(), n, "seed {seed} round {round}");
    }
}

/// Options of a table of that format.
fn of_format(format: TableFormat) -> BuilderOptions {
    BuilderOptions {
        table: TableOptions {
            format,
            ..TableOptions::default()
        },
        ..BuilderOptions::default()
    }
}

/// The error of a range deletion.
fn range_refused(format: TableFormat) -> Error {
    let mut builder = TableBuilder::new(of_format(format), MemFile::create().0);
    let begin = internal_key(b"a", pack_tag(1, 15));
    builder.add_range_tombstone(&begin, b"b").unwrap_err()
}

fn refused(format: TableFormat, entries: &[(&[u8], u8, &[u8])]) -> Error {
    let entries = entries.iter().enumerate();
    let entries = entries.map(|(i, (key, kind, value))| {
        (
            internal_key(key, pack_tag(100 - i as u64, *kind)),
            value.to_vec(),
        )
    });
    write(of_format(format), &entries.collect()).unwrap_err()
}

#[test]
fn cuckoo_tables_refuse_what_they_cannot_hold() {
    let default = || cuckoo(|_| {});
    let cases = [
        (
            refused(default(), &[(b"a", 1, b"x"), (b"bb", 1, b"x")]),
            "Not implemented: all keys have to be the same size",
        ),
        (
            refused(default(), &[(b"a", 1, b"x"), (b"b", 1, b"xx")]),
            "Not implemented: all values have to be the same size",
        ),
        (
            refused(default(), &[(b"a", 1, b"x"), (b"a", 1, b"y")]),
            "Not implemented: Same key is being inserted again.",
        ),
        (
            refused(default(), &[(b"a", 2, b"x")]),
            "Not implemented: Unsupported key type 2",
        ),
        (
            refused(
                cuckoo(|o| o.identity_as_first_hash = true),
                &[(b"a", 1, b"x")],
            ),
            "Not implemented: identity_as_first_hash needs keys of at least 8 bytes",
        ),
        (
            refused(cuckoo(|o| o.hash_table_ratio = 0.0), &[(b"a", 1, b"x")]),
            "Invalid argument: hash_table_ratio of a cuckoo table must be above 0 and at most 1",
        ),
    ];
    for (e, text) in cases {
        assert!(e.to_string().starts_with(text), "{e}");
    }
    assert_eq!(
        range_refused(default()).to_string(),
        "Not implemented: Unsupported key type 15"
    );
}

#[test]
fn a_table_keeps_the_numbers_of_its_entries_unless_all_are_zero() {
    let mut entries = numbered(20, |i| i.to_be_bytes().to_vec(), 0);
    let options = || BuilderOptions {
        table: TableOptions {
            format: cuckoo(|_| {}),
            ..TableOptions::default()
        },
        ..BuilderOptions::default()
    };
    let zero = write(options(), &entries).unwrap();
    let (user, _) = split_internal(&entries[7].0).unwrap();
    entries[7].0 = internal_key(user, pack_tag(9, 1));
    let mixed = write(options(), &entries).unwrap();
    assert!(zero.len() < mixed.len());
    let reader = open(mixed, ReaderOptions::default()).unwrap();
    assert_eq!(scan(&reader).unwrap(), entries);
}

#[test]
fn cuckoo_tables_want_files_that_may_be_mapped() {
    let options = ReaderOptions {
        allows_mapping: false,
        ..ReaderOptions::default()
    };
    let e = open(fixture("r118-cuckoo.sst"), options).unwrap_err();
    assert!(
        e.to_string()
            .starts_with("Invalid argument: File is not mmaped"),
        "{e}"
    );
}

#[test]
fn plain_tables_of_random_keys_hold_what_was_written() {
    let (mut random, seed) = Random::seeded(12);
    for round in 0..24 {
        let n = 1 + random.below(2000);
        let mut entries = Entries::new();
        for i in 0..n {
            let len = 3 + random.below(4) as usize;
            let mut user = format!("{:04}", i / 40).into_bytes();
            user.extend_from_slice(&i.to_be_bytes()[8 - len..]);
            let value = vec![b'v'; random.below(300) as usize];
            let kind = [1, 0, 2, 7][random.below(4) as usize];
            for seqno in (0..=random.below(3)).rev() {
                let tag = pack_tag(seqno, if seqno == 0 { 1 } else { kind });
                entries.push((internal_key(&user, tag), value.clone()));
            }
        }
        let order = spanlith_base::Comparator::Bytewise;
        entries.sort_by(|a, b| order.compare_internal(&a.0, &b.0));
        entries.dedup_by(|a, b| a.0 == b.0);
        let format = plain(|o| {
            o.index_sparseness = random.below(20);
            o.store_index_in_file = random.below(2) == 0;
            o.bloom_locality = random.below(2) as u32;
            o.encoding_type = match random.below(2) {
                0 => PlainEncoding::Plain,
                _ => PlainEncoding::Prefix,
            };
        });
        let options = BuilderOptions {
            table: TableOptions {
                format,
                ..TableOptions::default()
            },
            prefix_extractor: Some(SliceTransform::FixedPrefix(4)),
            ..BuilderOptions::default()
        };
        let bytes = write(options, &entries).unwrap();
        let reader = open(bytes, ReaderOptions::default()).unwrap();
        assert!(
            scan(&reader).unwrap() == entries,
            "seed {seed} round {round}"
        );
        let verified = reader.verify_contents();
        assert_eq!(
            verified.unwrap(),
            entries.len() as u64,
            "seed {seed} round {round}"
        );
    }
}

#[test]
fn plain_tables_refuse_what_they_cannot_hold() {
    let total = |change: fn(&mut PlainOptions)| {
        plain(|o| {
            o.hash_table_ratio = 0.0;
            change(o);
        })
    };
    let cases = [
        (
            refused(plain(|_| {}), &[(b"a", 1, b"x")]),
            "Not implemented: PlainTable requires a prefix extractor enable prefix hash mode.",
        ),
        (
            refused(
                total(|o| o.encoding_type = PlainEncoding::Prefix),
                &[(b"a", 1, b"x")],
            ),
            "Not implemented: PlainTable requires a prefix extractor for prefix encoding.",
        ),
        (
            refused(total(|o| o.user_key_len = 2), &[(b"a", 1, b"x")]),
            "Not implemented: a key of another length than user_key_len",
        ),
    ];
    for (e, text) in cases {
        assert!(e.to_string().starts_with(text), "{e}");
    }
    assert_eq!(
        range_refused(total(|_| {})).to_string(),
        "Not implemented: Range deletion unsupported"
    );
}
