//! Random tables against a sorted vector: scans, seeks and lookups at snapshots, both orders, all
//! shapes of blocks.

mod common;

use common::{Random, build, open};
use spanlith_base::CompressionType;
use spanlith_base::checksum::ChecksumKind;
use spanlith_base::keys::{
    MAX_SEQUENCE, internal_key, pack_tag, seek_tag, split_internal, user_key,
};
use spanlith_base::{Comparator, SliceTransform, UserComparator};
use spanlith_table::{
    BlockCache, BuilderOptions, FilterKind, IndexShortening, IndexType, ReadParams, ReaderOptions,
    TableGet, TableOptions, TableReader,
};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Orders by length, then bytes.
struct ByLength;

impl UserComparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Few distinct bytes, among them those of tags, so that prefixes run into tags.
fn random_key(random: &mut Random) -> Vec<u8> {
    const BYTES: [u8; 6] = [0, 1, 2, b'a', b'b', 0xff];
    let len = random.below(14);
    let mut key: Vec<u8> = match random.below(4) {
        0 => b"a common beginning ".to_vec(),
        _ => Vec::new(),
    };
    key.extend((0..len).map(|_| BYTES[random.below(6) as usize]));
    if random.below(40) == 0 {
        key.extend(std::iter::repeat_n(b'l', 300));
    }
    key
}

fn random_entries(random: &mut Random, cmp: &Comparator) -> Entries {
    let count = 1 + random.below(400);
    let mut entries: Entries = Vec::new();
    for _ in 0..count {
        let user = random_key(random);
        for _ in 0..1 + random.below(6) * random.below(2) {
            let kind = [0, 1, 1, 1, 2, 7][random.below(6) as usize];
            let seqno = if random.below(8) == 0 {
                0
            } else {
                random.below(600)
            };
            let len = if random.below(30) == 0 {
                400
            } else {
                random.below(20)
            };
            let value = (0..len).map(|_| random.next() as u8 & 3).collect();
            entries.push((internal_key(&user, pack_tag(seqno, kind)), value));
        }
    }
    entries.sort_by(|a, b| cmp.compare_internal(&a.0, &b.0));
    entries.dedup_by(|a, b| {
        // No two entries of a key share a sequence number.
        cmp.equal(user_key(&a.0), user_key(&b.0))
            && split_internal(&a.0).unwrap().1 >> 8 == split_internal(&b.0).unwrap().1 >> 8
    });
    entries
}

fn random_options(random: &mut Random, cmp: &Comparator) -> BuilderOptions {
    let pick = |random: &mut Random, of: &[usize]| of[random.below(of.len() as u64) as usize];
    let format_version = pick(random, &[5, 7]) as u32;
    // Keys of a prefix must be neighbours.
    let prefix_extractor = match (cmp, random.below(4)) {
        (Comparator::User(_), _) | (_, 0 | 1) => None,
        (_, 2) => Some(SliceTransform::FixedPrefix(2)),
        _ => Some(SliceTransform::CappedPrefix(3)),
    };
    let mut index_types = vec![
        IndexType::BinarySearch,
        IndexType::TwoLevelIndexSearch,
        IndexType::TwoLevelIndexSearch,
        IndexType::BinarySearchWithFirstKey,
    ];
    if prefix_extractor.is_some() {
        index_types.push(IndexType::HashSearch);
    }
    BuilderOptions {
        prefix_extractor,
        table: TableOptions {
            block_size: pick(random, &[1, 30, 100, 300, 1000, 4096]),
            block_size_deviation: pick(random, &[0, 10, 100]) as u32,
            block_restart_interval: pick(random, &[1, 2, 3, 16, 1000]),
            index_block_restart_interval: pick(random, &[1, 2, 7, 100]),
            format_version,
            checksum: if random.below(2) == 0 {
                ChecksumKind::Xxh3
            } else {
                ChecksumKind::Crc32c
            },
            filter: [
                FilterKind::None,
                FilterKind::Bloom { bits: 10.0 },
                FilterKind::Bloom { bits: 1.0 },
                FilterKind::Ribbon {
                    bits: 8.0,
                    bloom_before_level: 0,
                },
            ][random.below(4) as usize],
            whole_key_filtering: random.below(4) > 0,
            index_type: index_types[random.below(index_types.len() as u64) as usize],
            metadata_block_size: pick(random, &[1, 50, 200, 4096]),
            partition_filters: random.below(2) == 0,
            decouple_partitioned_filters: random.below(2) == 0,
            index_shortening: [
                IndexShortening::None,
                IndexShortening::Separators,
                IndexShortening::SeparatorsAndSuccessor,
            ][random.below(3) as usize],
            ..TableOptions::default()
        },
        comparator: cmp.clone(),
        compression: [CompressionType::None, CompressionType::Lz4][random.below(2) as usize],
        ..BuilderOptions::default()
    }
}

/// Returns what a lookup must see: entries of the key up to the snapshot, newest first.
fn visible<'a>(
    entries: &'a Entries,
    cmp: &Comparator,
    user: &[u8],
    snapshot: u64,
) -> Vec<(u64, &'a [u8])> {
    let mut found = Vec::new();
    for (key, value) in entries {
        let (u, tag) = split_internal(key).unwrap();
        if cmp.equal(u, user) && tag >> 8 <= snapshot {
            found.push((tag, &value[..]));
        }
    }
    found
}

/// A batch of present and absent keys finds what single lookups must find.
fn check_batches(
    reader: &TableReader,
    entries: &Entries,
    cmp: &Comparator,
    random: &mut Random,
    params: &ReadParams,
    context: &str,
) {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for (key, _) in entries {
        if random.below(3) == 0 {
            keys.push(user_key(key).to_vec());
        }
        if random.below(6) == 0 {
            let mut absent = user_key(key).to_vec();
            absent.push(random.below(256) as u8);
            keys.push(absent);
        }
    }
    keys.sort_by(|a, b| cmp.compare(a, b));
    let snapshot = [MAX_SEQUENCE, random.below(200)][random.below(2) as usize];
    let newest_only = random.below(2) == 0;
    let mut batch: Vec<TableGet<'_>> = keys
        .iter()
        .map(|key| TableGet::new(key, TableReader::filter_hash(key)))
        .collect();
    let mut found: Vec<Vec<(u64, Vec<u8>)>> = vec![Vec::new(); keys.len()];
    reader.multi_get(&mut batch, snapshot, params, |n, tag, value, _| {
        found[n].push((tag, value.to_vec()));
        if newest_only {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    for (n, key) in keys.iter().enumerate() {
        assert!(batch[n].result.is_ok(), "{context}");
        let mut want = visible(entries, cmp, key, snapshot);
        if newest_only {
            want.truncate(1);
        }
        let got: Vec<_> = found[n].iter().map(|(tag, v)| (*tag, &v[..])).collect();
        assert_eq!(got, want, "{context}: key {key:?} at {snapshot}");
    }
}

fn check_lookups(
    reader: &TableReader,
    entries: &Entries,
    cmp: &Comparator,
    random: &mut Random,
    params: &ReadParams,
    context: &str,
) {
    for _ in 0..60 {
        let user = match random.below(3) {
            0 => random_key(random),
            _ => user_key(&entries[random.below(entries.len() as u64) as usize].0).to_vec(),
        };
        let snapshot = if random.below(3) == 0 {
            MAX_SEQUENCE
        } else {
            random.below(620)
        };
        let mut want = visible(entries, cmp, &user, snapshot);
        // Stop after some entries, as a get that found its value does.
        let limit = 1 + random.below(4) as usize;
        want.truncate(limit);
        let mut got: Vec<(u64, Vec<u8>)> = Vec::new();
        reader
            .get(&user, snapshot, params, |tag, value, block| {
                assert_eq!(&*block.pin(value), value);
                got.push((tag, value.to_vec()));
                if got.len() == limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        let got: Vec<(u64, &[u8])> = got.iter().map(|(t, v)| (*t, &v[..])).collect();
        assert_eq!(
            got,
            want,
            "{context}: get {} at {snapshot}",
            user.escape_ascii()
        );
    }
}

fn check_walks(
    reader: &Arc<TableReader>,
    entries: &Entries,
    cmp: &Comparator,
    random: &mut Random,
    params: ReadParams,
    context: &str,
) {
    let mut iter = reader.iter(params);
    for _ in 0..12 {
        let target = match random.below(3) {
            0 => internal_key(&random_key(random), seek_tag(random.below(620))),
            _ => entries[random.below(entries.len() as u64) as usize]
                .0
                .clone(),
        };
        let low =
            entries.partition_point(|(k, _)| cmp.compare_internal(k, &target) == Ordering::Less);
        let high =
            entries.partition_point(|(k, _)| cmp.compare_internal(k, &target) != Ordering::Greater);
        // `at` is the index of the current entry; `None` is off the ends.
        let mut at = match random.below(6) {
            0 => {
                iter.seek_to_first();
                Some(0)
            }
            1 => {
                iter.seek_to_last();
                Some(entries.len() - 1)
            }
            2 | 3 => {
                iter.seek(&target);
                Some(low).filter(|&i| i < entries.len())
            }
            _ => {
                iter.seek_for_prev(&target);
                high.checked_sub(1)
            }
        };
        for _ in 0..random.below(80) {
            iter.status().unwrap();
            assert_eq!(iter.valid(), at.is_some(), "{context}");
            let Some(i) = at else { break };
            assert_eq!(iter.key(), entries[i].0, "{context}: entry {i}");
            assert_eq!(iter.value(), entries[i].1, "{context}: entry {i}");
            assert_eq!(&*iter.value_pinned(), entries[i].1, "{context}: entry {i}");
            // Mostly one direction for a while, sometimes a turn.
            if (random.below(8) == 0) ^ (target.len() % 2 == 0) {
                iter.prev();
                at = i.checked_sub(1);
            } else {
                iter.next();
                at = Some(i + 1).filter(|&i| i < entries.len());
            }
        }
    }
}

#[test]
fn tables_behave_as_sorted_vectors() {
    let (mut random, seed) = Random::seeded(20_260);
    for round in 0..150 {
        let cmp = match random.below(5) {
            0 | 1 => Comparator::Bytewise,
            2 | 3 => Comparator::ReverseBytewise,
            _ => Comparator::User(Arc::new(ByLength)),
        };
        let entries = random_entries(&mut random, &cmp);
        let options = random_options(&mut random, &cmp);
        let context = format!("SEED={seed} round {round}: {options:?}");
        let prefix_extractor = options.prefix_extractor.clone();
        let bytes = build(options, &entries);
        let with_cache = random.below(2) == 0;
        let cache = with_cache.then(|| {
            let policy = [spanlith_cache::Policy::Lru, spanlith_cache::Policy::Clock];
            BlockCache::new(
                [20_000, 1 << 20][random.below(2) as usize],
                policy[round % 2],
            )
        });
        let reader = open(
            bytes,
            ReaderOptions {
                comparator: cmp.clone(),
                cache,
                cache_index_and_filter_blocks: random.below(2) == 0,
                pin_top_level_index_and_filter: random.below(2) == 0,
                pin_l0_filter_and_index_blocks_in_cache: random.below(2) == 0,
                level: random.below(2) as i32,
                prefix_extractor,
                ..ReaderOptions::default()
            },
        )
        .unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(
            reader.verify_contents().unwrap(),
            entries.len() as u64,
            "{context}"
        );
        let params = ReadParams {
            fill_cache: random.below(4) > 0,
            bypass_cache: random.below(4) == 0,
            readahead: [0, 100, 5000][random.below(3) as usize],
            ..ReadParams::default()
        };
        check_lookups(&reader, &entries, &cmp, &mut random, &params, &context);
        check_walks(&reader, &entries, &cmp, &mut random, params, &context);
        for (key, _) in &entries {
            assert!(
                reader.may_match_version(user_key(key), &params),
                "{context}"
            );
        }
        check_batches(&reader, &entries, &cmp, &mut random, &params, &context);
        let mut last = 0;
        for (key, _) in &entries {
            let offset = reader.approximate_offset(key);
            assert!(offset >= last && offset <= reader.file_size(), "{context}");
            last = offset;
        }
        // Behind all keys of these orders and the separators they get; in the reverse order nothing
        // stands after the empty key.
        let behind = match cmp {
            Comparator::ReverseBytewise => Vec::new(),
            _ => vec![0xff; 400],
        };
        let is_behind = |(key, _): &(Vec<u8>, Vec<u8>)| user_key(key) != behind;
        if entries.last().is_some_and(is_behind) {
            let end = reader.approximate_offset(&internal_key(&behind, 0));
            assert_eq!(end, reader.file_size(), "{context}");
        }
    }
}
