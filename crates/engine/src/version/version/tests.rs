use super::super::testing::{numbers, parse_key, version_of};
use super::*;
use spanlith_base::UserComparator;
use spanlith_base::keys::{internal_key, pack_tag};
use spanlith_testkit::{Rng, seed, test_name};
use std::cmp::Ordering;

fn key(text: &str) -> Vec<u8> {
    parse_key(text)
}

#[test]
fn the_first_file_not_ending_before_a_key_is_found() {
    let v = version_of(3, "L1 1 b#9..d#5 1\nL1 2 d#4..f! 1\nL1 3 f#7..h#7 1");
    let found = |text: &str| v.find_file(1, &key(text));
    assert_eq!(found("a"), Some(0));
    assert_eq!(found("d#5"), Some(0));
    // Older versions of the key lie in the next file.
    assert_eq!(found("d#4"), Some(1));
    assert_eq!(
        found("f#9"),
        Some(2),
        "the end of a range tombstone is exclusive"
    );
    assert_eq!(found("h#8"), Some(2));
    assert_eq!(found("h#6"), None);
    assert_eq!(found("i"), None);
    assert_eq!(v.find_file(2, &key("a")), None);
    let by_user_key = |text: &str| v.levels[1].find_file_for_user_key(text.as_bytes());
    assert_eq!(by_user_key("d"), Some(0));
    assert_eq!(by_user_key("e"), Some(1));
    assert_eq!(by_user_key("f"), Some(2));
    assert_eq!(by_user_key("z"), None);
}

#[test]
fn ranges_that_only_touch_a_sentinel_do_not_overlap() {
    let v = version_of(3, "L1 1 b..d! 1\nL1 2 d#4..f#3 1\nL1 3 f#2..h 1");
    let over = |b: Option<&str>, e: Option<&str>| {
        numbers(&v.overlapping(1, b.map(str::as_bytes), e.map(str::as_bytes)))
    };
    assert_eq!(over(Some("d"), Some("d")), [2]);
    assert_eq!(over(Some("c"), Some("d")), [1, 2]);
    assert_eq!(over(Some("f"), Some("f")), [2, 3]);
    assert_eq!(over(None, Some("c")), [1]);
    assert_eq!(over(Some("g"), None), [3]);
    assert_eq!(over(None, None), [1, 2, 3]);
    assert_eq!(over(Some("i"), Some("k")), [0; 0]);
    assert!(v.overlaps(1, b"d", b"d") && !v.overlaps(1, b"hh", b"z") && !v.overlaps(1, b"", b"a"));
}

#[test]
fn overlap_in_level_zero_is_transitive_and_newest_first() {
    let v = version_of(2, "L0 1 a..c 1\nL0 2 c..f 1\nL0 3 f..h 1\nL0 4 x..z 1");
    assert_eq!(
        numbers(&v.overlapping(0, Some(b"a"), Some(b"b"))),
        [3, 2, 1]
    );
    assert_eq!(numbers(&v.overlapping(0, Some(b"i"), Some(b"k"))), [0; 0]);
    assert_eq!(numbers(&v.overlapping(0, None, Some(b"y"))), [4, 3, 2, 1]);
    assert!(v.overlaps(0, b"g", b"g") && !v.overlaps(0, b"i", b"w"));
}

#[test]
fn level_zero_offers_only_files_that_cover_a_key() {
    let v = version_of(2, "L0 1 a..c 1\nL0 2 c..f! 1\nL0 3 f..h 1");
    let covering = |k: &str| {
        let files: Vec<_> = v.levels[0].files_covering(k.as_bytes()).cloned().collect();
        numbers(&files)
    };
    assert_eq!(covering("c"), [2, 1]);
    assert_eq!(covering("f"), [3]);
    assert_eq!(covering("ff"), [3]);
    assert_eq!(covering("hh"), [0; 0]);
    assert_eq!(covering(""), [0; 0]);
}

#[test]
fn counts_and_bytes_are_per_level() {
    let v = version_of(4, "L0 9 a#3..b#8 10\nL2 5 a..c 70\nL2 6 d..e 5");
    assert_eq!(
        (v.num_levels(), v.num_non_empty_levels(), v.total_files()),
        (4, 3, 3)
    );
    assert_eq!(
        (v.level_bytes(0), v.level_bytes(1), v.level_bytes(2)),
        (10, 0, 75)
    );
    assert_eq!(
        (v.total_size(), v.max_seqno(), v.max_epoch_number()),
        (85, 8, 9)
    );
    assert_eq!(v.locate(6), Some((2, 1)));
    assert_eq!(v.locate(7), None);
    assert_eq!((v.num_files(9), v.level_bytes(9)), (0, 0));
    let all: Vec<_> = v.file_iter().map(|(level, f)| (level, f.number)).collect();
    assert_eq!(all, [(0, 9), (2, 5), (2, 6)]);
}

#[test]
fn bottommost_files_have_nothing_older_below() {
    let v = version_of(
        4,
        "L0 9 x..y 1\nL1 5 a..c 1\nL1 6 d..e 1\nL2 7 b..b 1\nL3 8 f..g 1",
    );
    let found: Vec<_> = v
        .bottommost_files()
        .iter()
        .map(|&(l, i)| v.files(l)[i].number)
        .collect();
    assert_eq!(
        found,
        [6, 7, 8],
        "level 0 is never bottommost above other levels"
    );
    let only_l0 = version_of(3, "L0 1 a..c 1\nL0 2 e..f 1");
    assert_eq!(only_l0.bottommost_files(), [(0, 1)], "the oldest only");
}

#[test]
fn overlap_bytes_count_the_next_level() {
    let v = version_of(
        4,
        "L1 1 a..c 1\nL1 2 d..m 1\nL1 3 x..z 1\n\
         L2 4 a..b 10\nL2 5 c..e 200\nL2 6 f..g 3000\nL2 7 h..w 40000",
    );
    assert_eq!(v.overlap_bytes(1), [10, 200 + 3000 + 40000, 0]);
    assert_eq!(v.overlap_bytes(2), [0, 0, 0, 0]);
    assert_eq!(v.overlap_bytes(7), [0; 0]);
}

struct ByLength;

impl UserComparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// Disjoint files over random keys that share prefixes of all lengths, in the order of `c`.
fn random_level(rng: &mut Rng, c: &Comparator) -> Vec<Arc<FileMeta>> {
    use crate::version::edit::NewFile;
    let common = rng.below(12);
    let mut bounds: Vec<Vec<u8>> = (0..rng.between(0, 40) * 2)
        .map(|_| {
            let mut k = vec![b'p'; common as usize];
            k.extend((0..rng.below(12)).map(|_| b'a' + rng.below(3) as u8));
            internal_key(&k, pack_tag(rng.between(1, 3), 1))
        })
        .collect();
    bounds.sort_by(|a, b| c.compare_internal(a, b));
    bounds.dedup();
    bounds
        .chunks_exact(2)
        .enumerate()
        .map(|(i, pair)| {
            let mut largest = pair[1].clone();
            if rng.below(4) == 0 && user_key(&largest) != user_key(&pair[0]) {
                largest = parse_key(&format!(
                    "{}!",
                    std::str::from_utf8(user_key(&largest)).unwrap()
                ));
            }
            let new = NewFile {
                number: i as u64,
                smallest: pair[0].clone(),
                largest,
                ..NewFile::default()
            };
            Arc::new(FileMeta::from_new_file(&new, None))
        })
        .collect()
}

#[test]
fn searches_agree_with_a_walk_over_all_files_in_any_order() {
    let mut rng = Rng::new(seed(test_name!()));
    let orders = [
        Comparator::Bytewise,
        Comparator::ReverseBytewise,
        Comparator::User(Arc::new(ByLength)),
    ];
    for round in 0..600 {
        let c = &orders[round % orders.len()];
        let files = random_level(&mut rng, c);
        let level = Level::new(c.clone(), files.clone());
        for _ in 0..20 {
            let mut k = vec![b'p'; rng.below(13) as usize];
            k.extend((0..rng.below(12)).map(|_| b'a' + rng.below(4) as u8));
            if let Some(f) = files.get(rng.index(files.len() + 1))
                && rng.below(2) == 0
            {
                k = f.largest_user_key().to_vec();
            }
            let target = internal_key(&k, pack_tag(rng.between(0, 4), 1));
            let expected = files
                .iter()
                .position(|f| c.compare_internal(&f.largest, &target).is_ge());
            assert_eq!(level.find_file(&target), expected, "{k:?}");

            let ends_before = |f: &FileMeta| {
                let o = c.compare(f.largest_user_key(), &k);
                o.is_lt() || (o.is_eq() && f.largest_is_sentinel())
            };
            let expected = files.iter().position(|f| !ends_before(f));
            assert_eq!(level.find_file_for_user_key(&k), expected);
            let covers =
                |f: &FileMeta| c.compare(f.smallest_user_key(), &k).is_le() && !ends_before(f);
            let covering: Vec<_> = (0..files.len()).filter(|&i| covers(&files[i])).collect();
            assert_eq!(level.find_covering(&k).collect::<Vec<_>>(), covering);
            let other = internal_key(&k[..k.len() / 2], pack_tag(2, 1));
            let (low, high) = if c.compare_internal(&target, &other).is_le() {
                (&target, &other)
            } else {
                (&other, &target)
            };
            let overlapping: Vec<_> = files
                .iter()
                .filter(|f| {
                    sstable_key_compare(c, &f.largest, low).is_ge()
                        && sstable_key_compare(c, &f.smallest, high).is_le()
                })
                .map(|f| f.number)
                .collect();
            assert_eq!(
                numbers(&files[level.overlapping_range(Some(low), Some(high))]),
                overlapping
            );
        }
    }
}
