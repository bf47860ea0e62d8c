//! Checksums of data blocks in the cache.

mod common;

use common::{build, open};
use spanlith_base::keys::{MAX_SEQUENCE, internal_key, pack_tag, user_key};
use spanlith_cache::Policy;
use spanlith_table::{BlockCache, BuilderOptions, ReadParams, ReaderOptions, TableReader};
use std::ops::ControlFlow;
use std::sync::Arc;

const CHANGED: &str =
    "Corruption: Corrupted block entry: per key-value checksum verification failed.";

fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |i: u64| internal_key(format!("key{i:06}").as_bytes(), pack_tag(i + 1, 1));
    (0..500).map(|i| (key(i), vec![i as u8; 50])).collect()
}

fn opened(block_protection_bytes: u8) -> Arc<TableReader> {
    let options = ReaderOptions {
        cache: Some(BlockCache::new(1 << 20, Policy::Lru)),
        block_protection_bytes,
        ..ReaderOptions::default()
    };
    open(build(BuilderOptions::default(), &entries()), options).unwrap()
}

fn get(reader: &TableReader, n: usize) -> Result<Vec<u8>, String> {
    let mut value = Vec::new();
    let found = reader.get(
        user_key(&entries()[n].0),
        MAX_SEQUENCE,
        &ReadParams::default(),
        |_, v, _| {
            value = v.to_vec();
            ControlFlow::Break(())
        },
    );
    found.map(|()| value).map_err(|e| e.to_string())
}

/// Changes a byte of the value of entry `n` in the cache.
fn change(reader: &Arc<TableReader>, n: usize) {
    let mut iter = reader.iter(ReadParams::default());
    iter.seek(&entries()[n].0);
    assert!(iter.valid());
    let at = iter.value().as_ptr().cast_mut();
    // SAFETY: A byte of the block in the cache, which nobody looks at meanwhile.
    unsafe { at.write_volatile(at.read_volatile() ^ 1) };
}

#[test]
fn a_block_that_changed_in_the_cache_is_noticed_when_it_is_taken_from_there() {
    for bytes in [1, 2, 4, 8] {
        let reader = opened(bytes);
        // Twice: from the file, and from the cache.
        for _ in 0..2 {
            assert_eq!(get(&reader, 100), Ok(vec![100; 50]));
            let mut iter = reader.iter(ReadParams::default());
            iter.seek_to_first();
            let mut count = 0;
            while iter.valid() {
                count += 1;
                iter.next();
            }
            iter.status().unwrap();
            assert_eq!(count, 500);
        }
        change(&reader, 100);
        // Another entry of the same block, too.
        for n in [100, 101] {
            let e = get(&reader, n).unwrap_err();
            assert!(e.starts_with(CHANGED), "{e}");
        }
        assert_eq!(get(&reader, 400), Ok(vec![144; 50]));
        let mut iter = reader.iter(ReadParams::default());
        iter.seek(&entries()[100].0);
        assert!(!iter.valid());
        assert!(iter.status().unwrap_err().to_string().starts_with(CHANGED));
        let keys: Vec<_> = entries().into_iter().map(|e| e.0).collect();
        iter.seek(&keys[400]);
        assert!(iter.valid());
    }
}

#[test]
fn without_checksums_a_change_goes_unnoticed_and_blocks_are_smaller() {
    let reader = opened(0);
    assert_eq!(get(&reader, 100), Ok(vec![100; 50]));
    change(&reader, 100);
    let value = get(&reader, 100).unwrap();
    assert_eq!((value[0], value[1]), (101, 100));
}
