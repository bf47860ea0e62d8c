//! Each structure against the plain definition, over small random inputs.

use super::*;
use crate::keys::{self, MAX_SEQUENCE, ValueType};
use crate::timestamp::{U64Timestamps, encode_u64_timestamp};
use crate::{Comparator, SequenceNumber};
use std::sync::Arc;

type Raw = (Vec<u8>, Vec<u8>, SequenceNumber);

/// Numbers below a bound, from a seed.
struct Random(u64);
impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
    fn key(&mut self) -> Vec<u8> {
        vec![b'a' + self.below(12) as u8]
    }
    fn tombstones(&mut self, most: u64) -> Vec<Raw> {
        (0..self.below(most + 1))
            .map(|_| (self.key(), self.key(), 1 + self.below(20)))
            .collect()
    }
}

fn seeds(name: &str) -> impl Iterator<Item = u64> {
    let first = 0x5eed_0000;
    println!("{name}: seeds from {first:#x}");
    first..first + 400
}

fn view(raw: &[Raw]) -> impl Iterator<Item = RangeTombstone<'_>> {
    raw.iter().map(|(start, end, seqno)| RangeTombstone {
        start,
        end,
        seqno: *seqno,
    })
}

fn build(c: &Comparator, raw: &[Raw]) -> Arc<FragmentedTombstones> {
    Arc::new(FragmentedTombstones::build(c, view(raw)))
}

fn newest_over(c: &Comparator, raw: &[Raw], key: &[u8], snapshot: u64) -> u64 {
    let over = |t: &&Raw| c.compare(&t.0, key).is_le() && c.compare(key, &t.1).is_lt();
    let seqnos = raw.iter().filter(over).map(|t| t.2);
    seqnos.filter(|&s| s <= snapshot).max().unwrap_or(0)
}

fn all_keys() -> impl DoubleEndedIterator<Item = Vec<u8>> {
    (b'`'..b'o').map(|b| vec![b])
}

#[test]
fn overlapping_tombstones_are_cut_at_each_others_ends() {
    let raw = [
        (b"a".to_vec(), b"e".to_vec(), 5),
        (b"c".to_vec(), b"g".to_vec(), 9),
        (b"c".to_vec(), b"d".to_vec(), 5),
        (b"x".to_vec(), b"x".to_vec(), 7),
        (b"z".to_vec(), b"y".to_vec(), 7),
    ];
    let list = build(&Comparator::Bytewise, &raw);
    let seen: Vec<_> = list.iter().map(|f| (f.start, f.end, f.seqnos)).collect();
    let expected: [(&[u8], &[u8], &[u64]); 4] = [
        (b"a", b"c", &[5]),
        (b"c", b"d", &[9, 5]),
        (b"d", b"e", &[9, 5]),
        (b"e", b"g", &[9]),
    ];
    assert_eq!(seen, expected);
    assert_eq!(list.originals(), 5);
    assert_eq!(list.max_covering(b"c", 8), 5);
    assert_eq!(list.max_covering(b"g", MAX_SEQUENCE), 0);
    assert!(list.overlaps(Some(b"f"), None) && !list.overlaps(Some(b"g"), None));
    assert!(list.overlaps(None, Some(b"a")) && !list.overlaps(None, Some(b"A")));
}

#[test]
fn a_lookup_finds_what_the_definition_says_in_either_order() {
    for seed in seeds("lookup") {
        let mut random = Random(seed);
        let raw = random.tombstones(9);
        for c in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            let list = build(&c, &raw);
            for key in all_keys() {
                for snapshot in [0, 3, 10, 15, MAX_SEQUENCE] {
                    assert_eq!(
                        list.max_covering(&key, snapshot),
                        newest_over(&c, &raw, &key, snapshot),
                        "seed {seed:#x} key {key:?} snapshot {snapshot}"
                    );
                }
            }
            for pair in list.iter().collect::<Vec<_>>().windows(2) {
                assert!(c.compare(pair[0].end, pair[1].start).is_le());
            }
        }
    }
}

/// A file's smallest or largest internal key: an entry or the end of a tombstone.
fn boundary(random: &mut Random, largest: bool) -> Vec<u8> {
    let user = random.key();
    let tag = match random.below(3) {
        0 if largest => keys::pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8),
        _ => keys::pack_tag(1 + random.below(20), ValueType::Value as u8),
    };
    keys::internal_key(&user, tag)
}

/// One source of a cursor: its tombstones, and the file's bounds if it is a file.
struct Source {
    raw: Vec<Raw>,
    bounds: Option<(Vec<u8>, Vec<u8>)>,
}

impl Source {
    fn random(random: &mut Random) -> Self {
        let raw = random.tombstones(6);
        let (a, b) = (boundary(random, false), boundary(random, true));
        let ordered = Comparator::Bytewise.compare_internal(&a, &b).is_le();
        Self {
            raw,
            bounds: (random.below(2) == 0 && ordered).then_some((a, b)),
        }
    }
    fn truncated(&self) -> TruncatedTombstones {
        let list = build(&Comparator::Bytewise, &self.raw);
        match &self.bounds {
            Some((a, b)) => TruncatedTombstones::of_file(list, a, b),
            None => TruncatedTombstones::whole(list),
        }
    }
    /// Newest tombstone that acts on an entry.
    fn newest_over(&self, key: &[u8], seqno: u64, snapshot: u64) -> u64 {
        let c = &Comparator::Bytewise;
        let entry = keys::internal_key(key, keys::pack_tag(seqno, 1));
        let within = self.bounds.as_ref().is_none_or(|(a, b)| {
            c.compare_internal(a, &entry).is_le() && c.compare_internal(&entry, b).is_le()
        });
        if within {
            newest_over(c, &self.raw, key, snapshot)
        } else {
            0
        }
    }
}

#[test]
fn a_cursor_over_many_sources_agrees_with_the_definition_in_every_direction() {
    for seed in seeds("cursor") {
        let mut random = Random(seed);
        let mut sources: Vec<Source> = (0..4).map(|_| Source::random(&mut random)).collect();
        let snapshot = [4, 12, MAX_SEQUENCE][random.below(3) as usize];
        let mut cursor = CoverageCursor::new(Comparator::Bytewise, snapshot);
        for s in &sources {
            cursor.push(Some(s.truncated()));
        }
        let entries: Vec<_> = all_keys()
            .flat_map(|k| (1..21).rev().map(move |s| (k.clone(), s)))
            .collect();
        let back = entries.iter().rev();
        let jumps: Vec<_> = (0..60)
            .map(|_| &entries[random.below(entries.len() as u64) as usize])
            .collect();
        for (i, (key, seqno)) in entries.iter().chain(back).chain(jumps).enumerate() {
            if i == 300 {
                // The stream over a level moves to another file.
                sources[2] = Source::random(&mut random);
                cursor.set(2, Some(sources[2].truncated()));
            }
            let newest = sources
                .iter()
                .map(|s| s.newest_over(key, *seqno, snapshot))
                .max()
                .unwrap();
            assert_eq!(
                cursor.covers(key, *seqno),
                newest > *seqno,
                "seed {seed:#x} key {key:?} seqno {seqno}"
            );
        }
    }
}

#[test]
fn keys_in_order_rarely_leave_the_span() {
    let c = Comparator::Bytewise;
    let lists: Vec<Vec<Raw>> = (0..3u32)
        .map(|i| {
            (0..10u32)
                .map(|j| {
                    let at = j * 1000 + i * 100;
                    let bytes = |n: u32| n.to_be_bytes().to_vec();
                    (bytes(at), bytes(at + 50), 7)
                })
                .collect()
        })
        .collect();
    let mut cursor = CoverageCursor::new(c.clone(), MAX_SEQUENCE);
    for raw in &lists {
        cursor.push(Some(TruncatedTombstones::whole(build(&c, raw))));
    }
    let covered = (0..20_000u32)
        .filter(|n| cursor.covers(&n.to_be_bytes(), 1))
        .count();
    assert_eq!(covered, 3 * 10 * 50);
    assert_eq!(cursor.spans(), 2 * 30, "one span per range and gap");
}

#[test]
fn skipping_goes_to_the_end_of_touching_ranges_of_newer_sources_only() {
    let c = Comparator::Bytewise;
    let raw = [
        (b"b".to_vec(), b"d".to_vec(), 9),
        (b"d".to_vec(), b"f".to_vec(), 5),
        (b"f".to_vec(), b"h".to_vec(), 50),
        (b"k".to_vec(), b"m".to_vec(), 5),
    ];
    let mut cursor = CoverageCursor::new(c.clone(), 20);
    cursor.push(None);
    cursor.push(Some(TruncatedTombstones::whole(build(&c, &raw))));
    let end = cursor.skip_to(2, b"c", 1).unwrap();
    assert_eq!(end.get(), Place::Before(b"f"), "the third is not visible");
    assert_eq!(cursor.skip_to(1, b"c", 1), None);
    assert_eq!(cursor.skip_to(2, b"h", 1), None);
    // A file's own last key bounds the skip.
    let largest = keys::internal_key(b"c", keys::pack_tag(4, 1));
    let cut = TruncatedTombstones::of_file(
        build(&c, &raw),
        &keys::internal_key(b"a", keys::pack_tag(3, 1)),
        &largest,
    );
    cursor.set(1, Some(cut));
    let end = cursor.skip_to(2, b"bb", 1).unwrap();
    assert_eq!(end.get(), Place::At(b"c", keys::seek_tag(3)));
    assert!(cursor.covers(b"c", 4) && !cursor.covers(b"c", 3));
}

#[test]
fn an_iterator_clips_the_first_and_last_range_to_the_file() {
    let c = Comparator::Bytewise;
    let raw = [
        (b"a".to_vec(), b"d".to_vec(), 9),
        (b"f".to_vec(), b"k".to_vec(), 5),
        (b"m".to_vec(), b"p".to_vec(), 5),
    ];
    let smallest = keys::internal_key(b"b", keys::pack_tag(3, 1));
    let largest = keys::internal_key(b"h", keys::pack_tag(MAX_SEQUENCE, 0x0f));
    let cut = TruncatedTombstones::of_file(build(&c, &raw), &smallest, &largest);
    assert_eq!(cut.len(), 2);
    let mut it = cut.iter();
    it.seek_to_first();
    assert_eq!(it.start(), Place::At(b"b", keys::pack_tag(3, 1)));
    assert_eq!(it.end(), Place::Before(b"d"));
    it.next();
    assert_eq!(
        (it.start(), it.end()),
        (Place::Before(b"f"), Place::Before(b"h"))
    );
    it.next();
    assert!(!it.valid());
    it.seek(&Place::Before(b"h"));
    assert!(!it.valid(), "the bound itself is outside");
    it.seek(&Place::Before(b"d"));
    assert_eq!(it.fragment().start, b"f");
    it.seek_for_prev(&Place::Before(b"e"));
    assert_eq!(it.fragment().start, b"a");
    it.seek_for_prev(&Place::Before(b"z"));
    assert_eq!(it.fragment().start, b"f");
    it.seek_for_prev(&Place::Before(b"a"));
    assert!(!it.valid());
    it.seek_to_last();
    it.prev();
    it.prev();
    assert!(!it.valid());
}

fn same_stripe(snapshots: &[u64], a: u64, b: u64) -> bool {
    let stripe = |s| snapshots.partition_point(|&x| x < s);
    stripe(a) == stripe(b)
}

#[test]
fn a_compaction_drops_what_no_reader_tells_apart() {
    for seed in seeds("compaction") {
        let mut random = Random(seed);
        let mut snapshots: Vec<u64> = (0..random.below(4)).map(|_| random.below(20)).collect();
        snapshots.sort_unstable();
        let sources: Vec<Source> = (0..3).map(|_| Source::random(&mut random)).collect();
        let mut dels = CompactionRangeDels::new(Comparator::Bytewise, snapshots.clone());
        for s in &sources {
            dels.add(s.truncated());
        }
        for key in all_keys() {
            for seqno in (1..21).rev() {
                let expected = sources.iter().any(|s| {
                    (seqno + 1..=20).any(|t| {
                        same_stripe(&snapshots, seqno, t)
                            && s.raw.iter().any(|r| r.2 == t && r.0 <= key && key < r.1)
                            && s.newest_over(&key, seqno, t) > 0
                    })
                });
                assert_eq!(
                    dels.should_drop(&key, seqno),
                    expected,
                    "seed {seed:#x} key {key:?} seqno {seqno} snapshots {snapshots:?}"
                );
            }
        }
    }
}

#[test]
fn output_files_together_hide_from_every_snapshot_what_the_inputs_hid() {
    for seed in seeds("output") {
        let mut random = Random(seed);
        let mut snapshots: Vec<u64> = (0..random.below(4)).map(|_| random.below(20)).collect();
        snapshots.sort_unstable();
        let inputs: Vec<Vec<Raw>> = (0..3).map(|_| random.tombstones(5)).collect();
        let mut dels = CompactionRangeDels::new(Comparator::Bytewise, snapshots.clone());
        for raw in &inputs {
            dels.add(TruncatedTombstones::whole(build(
                &Comparator::Bytewise,
                raw,
            )));
        }
        let cut = random.key();
        let cut = before_versions(&Comparator::Bytewise, &cut);
        let oldest = snapshots.first().copied().unwrap_or(MAX_SEQUENCE);
        let drop_up_to = [None, Some(oldest)][random.below(2) as usize];
        let bounds = |lower, upper| OutputBounds {
            lower,
            upper,
            next: None,
            settled_up_to: oldest,
            drops_settled: drop_up_to.is_some(),
        };
        let first = dels.output(&bounds(None, Some(&cut)));
        let second = dels.output(&bounds(Some(&cut), None));
        let order = |a: &[u8], b: &[u8]| Comparator::Bytewise.compare_internal(a, b);
        for t in &first {
            assert!(t.start < t.end, "seed {seed:#x}");
            assert!(order(&t.smallest, &cut).is_lt(), "seed {seed:#x}");
            assert!(order(&t.largest, &cut).is_le(), "seed {seed:#x}");
        }
        for t in &second {
            assert!(order(&t.smallest, &cut).is_ge(), "seed {seed:#x}");
        }
        // Their effect within the bounds.
        let user = |key: &[u8]| keys::user_key(key).to_vec();
        let out: Vec<Raw> = first
            .into_iter()
            .chain(second)
            .map(|t| (user(&t.smallest), user(&t.largest), t.seqno))
            .collect();
        let all = inputs.concat();
        let c = &Comparator::Bytewise;
        for key in all_keys() {
            for &snapshot in snapshots.iter().chain(&[MAX_SEQUENCE]) {
                let before = newest_over(c, &all, &key, snapshot);
                let obsolete = drop_up_to.is_some_and(|d| before <= d);
                let expected = if obsolete { 0 } else { before };
                assert_eq!(
                    newest_over(c, &out, &key, snapshot),
                    expected,
                    "seed {seed:#x} key {key:?} snapshot {snapshot}"
                );
            }
        }
    }
}

#[test]
fn a_cut_between_versions_of_a_key_leaves_its_tombstone_in_both_files() {
    let c = Comparator::Bytewise;
    let mut dels = CompactionRangeDels::new(c.clone(), vec![6]);
    let raw = [(b"a".to_vec(), b"z".to_vec(), 9)];
    dels.add(TruncatedTombstones::whole(build(&c, &raw)));
    // The first file's largest key is a version of "k", the second's smallest an older one.
    let largest = keys::internal_key(b"k", keys::pack_tag(5, 1));
    let smallest = keys::internal_key(b"k", keys::pack_tag(3, 1));
    let first = dels.output(&OutputBounds {
        upper: Some(&largest),
        ..OutputBounds::default()
    });
    let second = dels.output(&OutputBounds {
        lower: Some(&smallest),
        ..OutputBounds::default()
    });
    for t in [&first[0], &second[0]] {
        assert_eq!((&t.start[..], &t.end[..]), (&b"a"[..], &b"z"[..]));
    }
    assert_eq!(first[0].largest, largest);
    assert_eq!(second[0].smallest, smallest);
    let list = build(&c, &[(first[0].start.clone(), first[0].end.clone(), 9)]);
    let file = TruncatedTombstones::of_file(list, &first[0].smallest, &largest);
    let mut cursor = CoverageCursor::new(c, MAX_SEQUENCE);
    cursor.push(Some(file));
    assert!(cursor.covers(b"k", 5) && !cursor.covers(b"k", 4) && !cursor.covers(b"l", 1));
}

#[test]
fn of_two_files_that_share_a_key_the_first_has_tombstones_from_there_on_if_they_are_newer() {
    let c = Comparator::Bytewise;
    let of = |seqno, upper: u64| {
        let mut dels = CompactionRangeDels::new(c.clone(), vec![]);
        let raw = [(b"k".to_vec(), b"z".to_vec(), seqno)];
        dels.add(TruncatedTombstones::whole(build(&c, &raw)));
        let upper = keys::internal_key(b"k", keys::pack_tag(upper, 1));
        dels.output(&OutputBounds {
            upper: Some(&upper),
            ..OutputBounds::default()
        })
        .len()
    };
    assert_eq!((of(9, 5), of(4, 5)), (1, 0));
}

#[test]
fn fragments_of_a_file_know_only_tombstones_that_reach_into_it() {
    let c = Comparator::Bytewise;
    let mut dels = CompactionRangeDels::new(c.clone(), vec![5]);
    for raw in [
        (b"a".to_vec(), b"z".to_vec(), 4),
        (b"m".to_vec(), b"q".to_vec(), 7),
    ] {
        dels.add(TruncatedTombstones::whole(build(&c, &[raw])));
    }
    let of = |lower: Option<&[u8]>, upper: Option<&[u8]>| -> Vec<Raw> {
        let limit = |key: &[u8]| before_versions(&c, key);
        let (lower, upper) = (lower.map(limit), upper.map(limit));
        let bounds = OutputBounds {
            lower: lower.as_deref(),
            upper: upper.as_deref(),
            ..OutputBounds::default()
        };
        let out = dels.output(&bounds).into_iter();
        out.map(|t| (t.start, t.end, t.seqno)).collect()
    };
    let raw = |a: &str, b: &str, n| (a.as_bytes().to_vec(), b.as_bytes().to_vec(), n);
    assert_eq!(of(None, Some(b"k")), [raw("a", "z", 4)]);
    assert_eq!(of(None, Some(b"m")), [raw("a", "z", 4)]);
    assert_eq!(
        of(Some(b"k"), Some(b"n")),
        [raw("a", "m", 4), raw("m", "q", 7), raw("m", "q", 4)]
    );
    assert_eq!(of(Some(b"r"), None), [raw("a", "z", 4)]);
}

#[test]
fn readers_at_a_timestamp_see_tombstones_up_to_it() {
    let c = Comparator::from(U64Timestamps::Bytewise);
    let key = |k: &str, ts: u64| [k.as_bytes(), &encode_u64_timestamp(ts)].concat();
    let raw = [
        (key("b", 20), key("f", 20), 9),
        (key("d", 10), key("h", 10), 5),
    ];
    let list = build(&c, &raw);
    let at = |k, snapshot, ts| {
        let ts = encode_u64_timestamp(ts);
        let (seqno, ts) = list.max_covering_at(k, snapshot, Some(&ts));
        (seqno, ts.map(<[u8]>::to_vec))
    };
    let probe = key("e", 1);
    assert_eq!(
        at(&probe, 100, 25),
        (9, Some(encode_u64_timestamp(20).to_vec()))
    );
    assert_eq!(
        at(&probe, 100, 19),
        (5, Some(encode_u64_timestamp(10).to_vec()))
    );
    assert_eq!(at(&probe, 100, 9), (0, None));
    assert_eq!(at(&key("c", 1), 100, 19), (0, None));
    let whole = TruncatedTombstones::whole(list);
    let mut cursor = CoverageCursor::new(
        c.clone(),
        ReadBound {
            snapshot: 100,
            timestamp: Some(encode_u64_timestamp(12).to_vec()),
        },
    );
    cursor.push(Some(whole.clone()));
    assert!(!cursor.covers(&key("c", 3), 1) && cursor.covers(&key("g", 3), 1));
    let mut dels = CompactionRangeDels::new(c, vec![]);
    dels.add(whole);
    assert!(!dels.should_drop(&key("e", 3), 1));
    dels.forget_history_below(encode_u64_timestamp(15).to_vec());
    assert!(dels.should_drop(&key("e", 3), 1) && !dels.should_drop(&key("c", 3), 1));
    let out = dels.output(&OutputBounds {
        settled_up_to: MAX_SEQUENCE,
        drops_settled: true,
        ..OutputBounds::default()
    });
    let ends: Vec<_> = out.iter().map(|t| (&t.start, &t.end, t.seqno)).collect();
    assert_eq!(
        ends,
        [
            (&key("b", 20), &key("d", 20), 9),
            (&key("d", 20), &key("f", 20), 9)
        ]
    );
}

#[test]
fn deeply_nested_tombstones_of_unknown_origin_are_refused() {
    let raw: Vec<Raw> = (0..2000u32)
        .map(|i| {
            let end = (u32::MAX - i).to_be_bytes().to_vec();
            (i.to_be_bytes().to_vec(), end, u64::from(i) + 1)
        })
        .collect();
    let c = Comparator::Bytewise;
    let e = FragmentedTombstones::build_bounded(&c, view(&raw), 100_000).unwrap_err();
    assert!(
        e.to_string()
            .starts_with("Corruption: too many overlapping range tombstones"),
        "{e}"
    );
    assert!(FragmentedTombstones::build_bounded(&c, view(&raw[..100]), 100_000).is_ok());
}

#[test]
fn keys_shorter_than_a_timestamp_are_left_out() {
    let c = Comparator::from(U64Timestamps::Bytewise);
    let raw = [(b"a".to_vec(), b"b".to_vec(), 9)];
    assert!(build(&c, &raw).is_empty());
}

#[test]
fn a_search_by_words_finds_the_first_key_behind() {
    // Keys of few letters, so that many begin alike, some of them longer than a word.
    let key = |random: &mut Random| -> Vec<u8> {
        (0..random.below(12))
            .map(|_| b"\0ab\xff"[random.below(4) as usize])
            .collect()
    };
    for seed in seeds("heads") {
        let mut random = Random(seed);
        let comparator = match seed % 2 {
            0 => Comparator::Bytewise,
            _ => Comparator::ReverseBytewise,
        };
        let common = &b"common"[..random.below(7) as usize];
        let mut keys: Vec<Vec<u8>> = (0..=random.below(40))
            .map(|_| [common, &key(&mut random)].concat())
            .collect();
        keys.sort_by(|a, b| comparator.compare(a, b));
        let (first, last) = (&keys[0], &keys[keys.len() - 1]);
        let all = keys.iter().map(|k| &k[..]);
        let heads = super::heads::Heads::of(&comparator, first, last, all).unwrap();
        for _ in 0..40 {
            let sought = match random.below(3) {
                0 => key(&mut random),
                1 => [common, &key(&mut random)].concat(),
                _ => keys[random.below(keys.len() as u64) as usize].clone(),
            };
            let expected = keys.partition_point(|k| comparator.compare(k, &sought).is_le());
            let found = heads.first_after(&comparator, &sought, |i| &keys[i]);
            assert_eq!(found, expected, "{sought:?} among {keys:?}, seed {seed}");
        }
    }
}
