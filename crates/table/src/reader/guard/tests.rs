//! A bit that flips in a block of index or filter, held or cached, is reported with file and block.

use super::*;
use crate::filter::{Filter, FilterKind};
use crate::index::IndexType;
use crate::{BlockCache, BuilderOptions, PrefixSeek, ReadParams, ReaderOptions, TableBuilder};
use spanlith_base::keys::{MAX_SEQUENCE, internal_key, pack_tag};
use spanlith_cache::Policy;
use spanlith_env::{FileSystem, IoActivity, MemFs};
use std::ops::ControlFlow;
use std::path::Path;

const CHANGED: &str =
    "Corruption: Corrupted block entry: per key-value checksum verification failed.";

/// How a table is written and opened.
#[derive(Clone, Copy, Debug)]
struct Case {
    partitioned: bool,
    /// Index and filter live in the cache.
    in_cache: bool,
    /// There is a cache.
    cache: bool,
}

const CASES: [Case; 5] = [
    case(false, false, false),
    case(false, false, true),
    case(false, true, true),
    case(true, false, false),
    case(true, true, true),
];

const fn case(partitioned: bool, in_cache: bool, cache: bool) -> Case {
    Case {
        partitioned,
        in_cache,
        cache,
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn opened(case: Case, protection: u8) -> Arc<TableReader> {
    let fs = MemFs::new();
    let path = Path::new("/000007.sst");
    let mut options = BuilderOptions::default();
    options.table.block_size = 256;
    options.table.metadata_block_size = 256;
    options.table.filter = FilterKind::Bloom { bits: 10.0 };
    if case.partitioned {
        options.table.index_type = IndexType::TwoLevelIndexSearch;
        options.table.partition_filters = true;
    }
    let file = fs.create(path, IoActivity::Other).unwrap();
    let mut builder = TableBuilder::new(options, file);
    for i in 0..2000 {
        let internal = internal_key(&key(2 * i), pack_tag(i + 1, 1));
        builder.add(&internal, &[i as u8; 20]).unwrap();
    }
    let size = builder.finish().unwrap().file_size;
    let options = ReaderOptions {
        cache: case.cache.then(|| BlockCache::new(8 << 20, Policy::Lru)),
        cache_index_and_filter_blocks: case.in_cache,
        block_protection_bytes: protection,
        ..ReaderOptions::default()
    };
    TableReader::open(fs.open_random(path).unwrap(), size, options).unwrap()
}

fn get(reader: &TableReader, i: u64) -> Result<bool> {
    let mut found = false;
    let params = ReadParams::default();
    reader.get(&key(i), MAX_SEQUENCE, &params, |_, _, _| {
        found = true;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Puts `block` where the block at `handle` is.
fn replace(reader: &mut Arc<TableReader>, handle: BlockHandle, block: Block) {
    let block = Arc::new(block);
    let reader = Arc::get_mut(reader).unwrap();
    let guard = reader.guard.as_mut().unwrap();
    if let Some(held) = guard.held.iter_mut().find(|b| b.0 == handle) {
        held.1 = block;
        return;
    }
    reader.insert_meta(handle, &block).unwrap();
}

#[test]
fn what_is_not_changed_is_read_as_without_checksums() {
    for case in CASES {
        for protection in [0, 1, 8] {
            let reader = opened(case, protection);
            for i in 0..4000 {
                assert_eq!(get(&reader, i).unwrap(), i % 2 == 0, "{case:?} {i}");
            }
            let mut iter = reader.iter(ReadParams::default());
            iter.seek_to_first();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.next();
            }
            iter.status().unwrap();
            assert_eq!(count, 2000, "{case:?}");
            assert!(reader.has_filter());
        }
    }
}

#[test]
fn each_bit_of_an_index_in_memory_counts() {
    for case in [CASES[0], CASES[3]] {
        let reader = opened(case, 8);
        let load = || fresh_index(&reader);
        let bits = load().index_mut().flip(usize::MAX);
        assert!(bits > 1000, "{bits} bits");
        for bit in (0..bits).step_by(37) {
            let mut block = load();
            assert!(block.is_intact());
            block.index_mut().flip(bit);
            assert!(!block.is_intact(), "bit {bit}");
        }
    }
}

/// The index, or the top level of two, as it is in the file.
fn fresh_index(reader: &TableReader) -> Block {
    let form = match reader.has_two_levels() {
        true => reader.top_form(),
        false => reader.index_shape.form,
    };
    let params = ReadParams::default();
    let block = reader.load_index(reader.index_handle, form, BlockKind::Index, &params);
    block.unwrap()
}

/// Refuses errors that do not name table and block.
fn assert_names(e: &Error, handle: BlockHandle, what: &str) {
    assert!(e.to_string().starts_with(CHANGED), "{what}: {e}");
    assert_eq!(e.offset(), Some(handle.offset), "{what}: {e}");
    assert!(e.to_string().contains("000007.sst"), "{what}: {e}");
}

#[test]
fn an_index_that_changed_gives_no_wrong_answer_and_is_reported_by_whoever_goes_by_it() {
    for case in CASES {
        let mut reader = opened(case, 4);
        let handle = reader.index_handle;
        let bits = fresh_index(&reader).index_mut().flip(usize::MAX);
        let step = if case.partitioned { 13 } else { 211 };
        let mut reported = 0;
        for bit in (0..bits).step_by(step) {
            let what = format!("{case:?}, bit {bit}");
            let mut block = fresh_index(&reader);
            block.index_mut().flip(bit);
            replace(&mut reader, handle, block);
            for i in (bit as u64 % 97..4000).step_by(397) {
                match get(&reader, i) {
                    Ok(found) => assert_eq!(found, i % 2 == 0, "{what}, key {i}"),
                    Err(e) => {
                        assert_names(&e, handle, &what);
                        reported += 1;
                    }
                }
                let mut iter = reader.iter(ReadParams::default());
                iter.seek(&internal_key(&key(i), pack_tag(MAX_SEQUENCE, 1)));
                match iter.status() {
                    Ok(()) if i == 3999 => assert!(!iter.valid(), "{what}"),
                    Ok(()) => assert!(iter.key().starts_with(&key(i.next_multiple_of(2)))),
                    Err(e) => assert_names(&e, handle, &what),
                }
            }
            // A scan comes to every entry.
            let mut iter = reader.iter(ReadParams::default());
            iter.seek_to_first();
            while iter.valid() {
                iter.next();
            }
            assert_names(&iter.status().unwrap_err(), handle, &what);
        }
        assert!(reported > 0, "{case:?}");
    }
}

#[test]
fn a_filter_that_changed_anywhere_denies_nothing() {
    for case in CASES {
        let mut reader = opened(case, 2);
        let handle = first_filter(&reader);
        let right = reader.read(handle, BlockKind::Filter, true).unwrap();
        let mut reported = 0;
        for bit in (0..right.len() * 8).step_by(29) {
            let mut changed =
                reader.guarded(Block::raw_as(CacheRole::FilterBlock, right.clone()), handle);
            let mut bytes = right.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            changed.overwrite(&bytes);
            replace(&mut reader, handle, changed);
            for i in 0..40 {
                match get(&reader, i) {
                    Ok(found) => assert_eq!(found, i % 2 == 0, "{case:?}, bit {bit}, key {i}"),
                    Err(e) => {
                        assert_names(&e, handle, &format!("{case:?}, bit {bit}"));
                        reported += 1;
                    }
                }
            }
        }
        assert!(reported > 0, "{case:?}");
    }
}

/// The block of the filter that answers for the first keys.
fn first_filter(reader: &TableReader) -> BlockHandle {
    match reader.meta(FULL_FILTER_NAME) {
        Some(handle) => handle,
        None => {
            let top = reader.load_filter_top().unwrap().unwrap();
            top.index().unwrap().handle(0).unwrap()
        }
    }
}

#[test]
fn a_filter_that_changed_denies_nothing_and_is_reported() {
    for case in CASES {
        let mut reader = opened(case, 8);
        assert!(get(&reader, 0).unwrap());
        let handle = first_filter(&reader);
        let bytes = reader.read(handle, BlockKind::Filter, true).unwrap();
        // A filter that would deny every key, under the checksum of the right one.
        let none = vec![0; bytes.len() - 5];
        let none = [&none[..], &bytes[bytes.len() - 5..]].concat();
        assert!(!Filter::query_bytes_for(&none, &key(0)));
        let right = Block::raw_as(CacheRole::FilterBlock, bytes);
        let mut changed = reader.guarded(right, handle);
        changed.overwrite(&none);
        assert!(!changed.is_intact());
        replace(&mut reader, handle, changed);
        for _ in 0..2 {
            let e = get(&reader, 0).unwrap_err();
            assert!(e.to_string().starts_with(CHANGED), "{case:?}: {e}");
            assert_eq!(e.offset(), Some(handle.offset), "{case:?}: {e}");
        }
        // Without filters the table is as it was.
        let params = ReadParams {
            skip_filters: true,
            ..ReadParams::default()
        };
        let mut found = false;
        let sink = |_, _: &[u8], _: &Arc<Block>| {
            found = true;
            ControlFlow::Break(())
        };
        reader.get(&key(0), MAX_SEQUENCE, &params, sink).unwrap();
        assert!(found);
        let seek = PrefixSeek::default();
        assert!(reader.prefix_may_match(seek, &ReadParams::default()));
    }
}

#[test]
fn what_is_held_is_counted_as_memory_of_the_table() {
    for case in [CASES[0], CASES[3]] {
        let (with, without) = (opened(case, 8), opened(case, 0));
        let (with, without) = (with.memory_usage(), without.memory_usage());
        assert!(with >= without, "{case:?}: {with} {without}");
    }
}
