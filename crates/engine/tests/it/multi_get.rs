//! Many keys at once give what single gets give, wherever and however the entries lie.

use spanlith::options::{BlockBasedTableOptions, CfOptions, IndexType};
use spanlith::{Cf, Db, ErrorKind, ReadOptions, Snapshot, StringAppend};
use spanlith_testkit::{Rng, TempDir, seed, test_name};
use std::sync::Arc;

/// Options that change the way a table is asked.
fn shapes() -> Vec<(&'static str, CfOptions, BlockBasedTableOptions)> {
    let table = || {
        let mut table = BlockBasedTableOptions::default();
        table.block_size = 256;
        table
    };
    let cf = || {
        let mut cf = CfOptions::default().merge_operator("stringappend");
        cf.target_file_size_base = 6 << 10;
        cf.level0_file_num_compaction_trigger = 6;
        cf.max_bytes_for_level_base = 16 << 10;
        cf
    };
    let mut partitioned = table().filter_policy("bloomfilter:10:false");
    partitioned.partition_filters = true;
    partitioned.index_type = IndexType::TwoLevelIndexSearch;
    partitioned.metadata_block_size = 256;
    partitioned.cache_index_and_filter_blocks = true;
    let mut uncached = table().filter_policy("ribbonfilter:10");
    uncached.no_block_cache = true;
    let mut in_memory = cf().prefix_extractor("fixed:2");
    in_memory.memtable_prefix_bloom_size_ratio = 0.1;
    in_memory.memtable_whole_key_filtering = true;
    vec![
        ("plain", cf(), table()),
        ("partitioned", cf(), partitioned),
        ("uncached", cf(), uncached),
        ("memtable filter", in_memory, table()),
        (
            "reverse",
            cf().comparator("rocksdb.ReverseBytewiseComparator"),
            table().filter_policy("bloomfilter:10:false"),
        ),
    ]
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(600);
    // Keys of several lengths, some the beginning of others.
    match n % 7 {
        0 => format!("{:03}", n / 7).into_bytes(),
        1 => format!("{:03}-long-enough-to-have-no-word", n / 7).into_bytes(),
        _ => format!("key{n:05}").into_bytes(),
    }
}

fn change(rng: &mut Rng, cf: &Cf) {
    let k = key(rng);
    match rng.below(20) {
        0..8 => cf.put(&k, rng.bytes(30)).unwrap(),
        8..12 => cf.delete(&k).unwrap(),
        12..17 => cf.merge(&k, b"operand").unwrap(),
        17 => {
            let (mut a, mut b) = (k, key(rng));
            if cf.comparator().compare(&a, &b).is_gt() {
                std::mem::swap(&mut a, &mut b);
            }
            cf.delete_range(&a, &b).unwrap();
        }
        18 => cf
            .put_entity(&k, &[(b"", b"default"), (b"c", b"x")])
            .unwrap(),
        _ => cf.put(&k, vec![b'v'; 5000]).unwrap(),
    }
}

fn compare(rng: &mut Rng, cf: &Cf, options: &ReadOptions, shape: &str) {
    let count = *rng.pick(&[0usize, 1, 2, 31, 32, 33, 100]);
    let mut keys: Vec<Vec<u8>> = (0..count).map(|_| key(rng)).collect();
    if rng.one_in(3) {
        keys.sort();
    }
    let slices: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
    let found = cf.multi_get_opt(&slices, options);
    assert_eq!(found.len(), count);
    for (key, found) in keys.iter().zip(found) {
        let single = cf.get_opt(key, options).unwrap();
        assert_eq!(found.unwrap(), single, "{shape}: {}", key.escape_ascii());
    }
}

#[test]
fn many_keys_read_at_once_are_what_single_gets_find() {
    let seed = seed(test_name!());
    for (shape, options, table) in shapes() {
        let mut rng = Rng::new(seed);
        let dir = TempDir::new("multi-get");
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(options)
            .table_options(table)
            .open()
            .unwrap();
        let cf = db.default_cf();
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for round in 0..12 {
            for _ in 0..150 {
                change(&mut rng, &cf);
            }
            if round % 3 == 1 {
                snapshots.push(db.snapshot());
            }
            let at = rng.index(snapshots.len() + 1);
            let mut options = ReadOptions::new();
            if let Some(snapshot) = snapshots.get(at) {
                options = options.snapshot(snapshot);
            }
            for _ in 0..6 {
                compare(&mut rng, &cf, &options, shape);
            }
            cf.flush(true).unwrap();
            compare(&mut rng, &cf, &ReadOptions::new(), shape);
        }
        db.wait_idle(None).unwrap();
        assert!(cf.tables().iter().any(|(level, _)| *level > 0), "{shape}");
        for _ in 0..10 {
            compare(&mut rng, &cf, &ReadOptions::new(), shape);
        }
    }
}

#[test]
fn keys_behind_the_limit_of_value_bytes_are_aborted() {
    let dir = TempDir::new("multi-get-limit");
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .open()
        .unwrap();
    let cf = db.default_cf();
    let keys: Vec<String> = (0..80).map(|n| format!("k{n:02}")).collect();
    let slices: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for (n, key) in keys.iter().enumerate() {
        cf.put(key, [b'v'; 10]).unwrap();
        if n == 39 {
            cf.flush(true).unwrap();
        }
    }
    let answered = |limit: u64| -> Vec<usize> {
        let mut options = ReadOptions::new();
        options.value_size_soft_limit = limit;
        let found = cf.multi_get_opt(&slices, &options);
        let places = found.into_iter().enumerate().filter_map(|(n, answer)| {
            answer
                .inspect_err(|e| {
                    assert_eq!(e.kind(), ErrorKind::Aborted);
                    assert_eq!(e.rocksdb_text(), "Operation aborted: ");
                })
                .is_ok_and(|value| value.is_some())
                .then_some(n)
        });
        places.collect()
    };
    assert_eq!(answered(u64::MAX), (0..80).collect::<Vec<_>>());
    assert_eq!(answered(0), [0], "the one that passes the limit counts");
    assert_eq!(answered(35), [0, 1, 2, 3]);
    // The memtable's keys of a batch come before those of its files.
    let expected: Vec<usize> = (0..32).chain(40..44).collect();
    assert_eq!(answered(355), expected);
    assert_eq!(answered(800), (0..80).collect::<Vec<_>>());
}

/// A key under a range tombstone counts as absent only after all places, as in RocksDB, and so does one whose
/// operands have no base.
#[test]
fn absent_keys_may_be_among_those_behind_the_limit() {
    let dir = TempDir::new("multi-get-absent");
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .merge_operator(Arc::new(StringAppend::new(b",")))
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.put("a2", "covered").unwrap();
    cf.put("d", "in a table").unwrap();
    cf.flush(true).unwrap();
    cf.delete_range("a", "c").unwrap();
    cf.merge("m", "operand").unwrap();
    cf.delete("b").unwrap();
    let mut options = ReadOptions::new();
    options.value_size_soft_limit = 3;
    let told = |keys: &[&[u8]]| -> Vec<String> {
        let answers = cf.multi_get_opt(keys, &options).into_iter();
        let told = answers.map(|answer| match answer {
            Ok(Some(value)) => String::from_utf8_lossy(&value).into_owned(),
            Ok(None) => "absent".into(),
            Err(e) => format!("{:?}", e.kind()),
        });
        told.collect()
    };
    // A deletion answers at once, a range does not.
    let aborted = "Aborted";
    assert_eq!(told(&[b"a", b"b", b"d"]), [aborted, "absent", "in a table"]);
    assert_eq!(told(&[b"a", b"b"]), ["absent", "absent"]);
    // An entry under the range answers.
    assert_eq!(
        told(&[b"a2", b"a3", b"d"]),
        ["absent", aborted, "in a table"]
    );
    assert_eq!(told(&[b"a2", b"a3"]), ["absent", "absent"]);
    assert_eq!(told(&[b"l", b"m", b"n"]), ["absent", "operand", aborted]);
}

#[test]
fn a_deadline_that_has_passed_fails_all_keys() {
    let dir = TempDir::new("multi-get-deadline");
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    let mut options = ReadOptions::new();
    options.deadline_micros = 1;
    for answer in cf.multi_get_opt(&[b"a", b"b"], &options) {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
