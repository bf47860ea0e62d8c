//! Scans end at their upper bound, wherever in a block, a file or a level it lies.

use spanlith::options::{BlockBasedTableOptions, CfOptions, IndexType};
use spanlith::{Cf, Db, ReadOptions};
use spanlith_testkit::{Rng, TempDir, seed, test_name};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(400);
    // Some keys are the beginning of others.
    match n % 5 {
        0 => format!("k{:02}", n / 5).into_bytes(),
        _ => format!("k{n:03}").into_bytes(),
    }
}

fn check(cf: &Cf, model: &Model, reverse: bool, rng: &mut Rng, context: &str) {
    let (from, upper) = (key(rng), key(rng));
    let mut c = cf.cursor(ReadOptions::new().upper(&upper));
    let within = |k: &[u8]| match reverse {
        false => k >= &from[..] && k < &upper[..],
        true => k <= &from[..] && k > &upper[..],
    };
    let mut want: Vec<_> = model.iter().filter(|(k, _)| within(k)).collect();
    if reverse {
        want.reverse();
    }
    let mut want = want.into_iter();
    let mut on = c.seek(&from).unwrap();
    while on {
        let entry = want.next().map(|(k, v)| (&k[..], &v[..]));
        assert_eq!(c.entry(), entry, "{context}, {from:?} to {upper:?}");
        // Now and then one step back and forth.
        if rng.one_in(8) && c.prev().unwrap() {
            c.next().unwrap();
            assert_eq!(c.entry(), entry, "{context}, turned, {from:?} to {upper:?}");
        } else if !c.valid() {
            c.seek(entry.unwrap().0).unwrap();
        }
        on = c.next().unwrap();
    }
    assert_eq!(want.next(), None, "{context}, {from:?} to {upper:?}");
}

#[test]
fn scans_with_an_upper_bound_give_the_entries_before_it() {
    let seed = seed(test_name!());
    let mut rng = Rng::new(seed);
    for (reverse, partitioned) in [(false, false), (true, false), (false, true)] {
        let dir = TempDir::new("bounds");
        let mut table = BlockBasedTableOptions::default();
        table.block_size = 64;
        if partitioned {
            table.index_type = IndexType::TwoLevelIndexSearch;
            table.metadata_block_size = 64;
        }
        let mut options = CfOptions::default();
        options.target_file_size_base = 2 << 10;
        options.level0_file_num_compaction_trigger = 4;
        if reverse {
            options = options.comparator("rocksdb.ReverseBytewiseComparator");
        }
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(options)
            .table_options(table)
            .open()
            .unwrap();
        let cf = db.default_cf();
        let mut model = Model::new();
        for round in 0..12 {
            for _ in 0..120 {
                let k = key(&mut rng);
                if rng.one_in(4) {
                    cf.delete(&k).unwrap();
                    model.remove(&k);
                } else {
                    let value = rng.bytes(10);
                    cf.put(&k, &value).unwrap();
                    model.insert(k, value);
                }
            }
            if round % 3 != 2 {
                cf.flush(true).unwrap();
            }
            if round == 8 {
                cf.compact_range(None, None).unwrap();
            }
            for _ in 0..60 {
                let context = format!("seed {seed} round {round} {reverse} {partitioned}");
                check(&cf, &model, reverse, &mut rng, &context);
            }
        }
    }
}
