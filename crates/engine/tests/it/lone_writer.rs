//! The short way of a lone writer does what the way of groups does: random programs on two databases, of which one is
//! made to take the long way by asking for times of its writes, leave the same bytes in the same logs.

use crate::world::World;
use spanlith::options::DbOptions;
use spanlith::{Cf, Db, FamilyOptions, StringAppend, TxnOptions, WriteBatch, WriteOptions};
use spanlith_base::perf;
use spanlith_env::FileSystem;
use spanlith_testkit::{Rng, seed, test_name};
use std::path::Path;
use std::sync::Arc;

/// Levels of the perf context: no times, and all times of work, which only groups take.
const LEVELS: [i32; 2] = [1, 5];

struct Side {
    w: World,
    db: Db,
    level: i32,
}

fn family(name: &str) -> FamilyOptions {
    let options = spanlith::options::CfOptions::new().write_buffer_size(64_u64 << 10);
    FamilyOptions::new(name)
        .options(options)
        .merge_operator(Arc::new(StringAppend::new(b",")))
}

impl Side {
    fn new(level: i32) -> Self {
        let w = World::new(1);
        let options = DbOptions::new()
            .allow_2pc(true)
            .create_if_missing(true)
            .create_missing_column_families(true);
        let builder = Db::builder("/db").options(options).env(w.env.clone());
        let builder = builder.family(family("default")).family(family("two"));
        let builder = builder.family(FamilyOptions::new("plain"));
        let db = builder.no_info_log().open().unwrap();
        Self { w, db, level }
    }

    /// Bytes of all logs by name.
    fn logs(&self) -> Vec<(String, Vec<u8>)> {
        let mut names = self.w.mem.list(Path::new("/db")).unwrap();
        names.retain(|n| n.ends_with(".log"));
        names.sort();
        let read = |n: String| {
            let bytes = self.w.mem.read_file(&Path::new("/db").join(&n)).unwrap();
            (n, bytes)
        };
        names.into_iter().map(read).collect()
    }

    fn contents(&self) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        let entries = |cf: Cf| {
            let all = cf.iter().map(|e| e.unwrap());
            all.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
        };
        self.db.cfs().into_iter().map(entries).collect()
    }
}

/// One step, drawn once and taken on both sides.
#[derive(Clone, Debug)]
enum Step {
    Put(usize, u8, usize, WriteOptions),
    Delete(usize, u8, WriteOptions),
    Merge(usize, u8, WriteOptions),
    Batch(Vec<(usize, u8, u8)>, WriteOptions),
    Commit(u8, bool),
    Replace,
    Flush,
}

fn draw(rng: &mut Rng) -> Step {
    let mut options = WriteOptions::new()
        .sync(rng.one_in(10))
        .protection_bytes_per_key(if rng.one_in(6) { 8 } else { 0 })
        .ignore_missing_column_families(rng.one_in(8));
    if !options.sync {
        options = options.disable_wal(rng.one_in(8));
    }
    let (cf, key) = (rng.index(3), rng.below(50) as u8);
    match rng.below(40) {
        0..12 => Step::Put(cf, key, rng.skewed(9000) as usize, options),
        12..18 => Step::Delete(cf, key, options),
        18..26 => Step::Merge(cf, key, options),
        26..35 => {
            let entry = |rng: &mut Rng| (rng.index(3), rng.below(50) as u8, rng.below(5) as u8);
            let count = rng.index(5);
            Step::Batch((0..count).map(|_| entry(rng)).collect(), options)
        }
        35..38 => Step::Commit(key, rng.one_in(2)),
        38 => Step::Replace,
        _ => Step::Flush,
    }
}

/// Families whose handles may be of one that is gone.
fn take(side: &Side, cfs: &mut [Cf; 3], step: &Step) -> Result<(), String> {
    let text = |e: spanlith::Error| e.to_string();
    match step {
        Step::Put(cf, key, len, o) => cfs[*cf].put_opt([*key], vec![*key; *len], o),
        Step::Delete(cf, key, o) => cfs[*cf].delete_opt([*key], o),
        Step::Merge(cf, key, o) => cfs[*cf].merge_opt([*key], "m", o),
        Step::Batch(entries, o) => {
            let mut batch = WriteBatch::new();
            for (cf, key, kind) in entries {
                match kind {
                    0 | 1 => batch.put_cf(&cfs[*cf], [*key], [b'v'; 20]),
                    2 => batch.delete_cf(&cfs[*cf], [*key]),
                    3 => batch.merge_cf(&cfs[*cf], [*key], "b"),
                    _ => batch.put_log_data("note"),
                };
            }
            side.db.write_opt(&batch, o)
        }
        Step::Commit(key, is_prepared) => {
            let mut txn = side.db.transaction(TxnOptions::pessimistic());
            txn.put(&cfs[0], [*key], "t").map_err(text)?;
            if *is_prepared {
                txn.set_name(b"name").map_err(text)?;
                txn.prepare().map_err(text)?;
            }
            txn.commit()
        }
        Step::Replace => {
            // The old handle is kept half of the time: writes to it are refused.
            let old = cfs[1].clone();
            side.db.drop_cf(&old).and_then(|()| {
                let new = side.db.create_cf(family("two"))?;
                if new.id() % 2 == 0 {
                    cfs[1] = new;
                }
                Ok(())
            })
        }
        Step::Flush => side.db.flush(true),
    }
    .map_err(text)
}

#[test]
fn a_lone_writer_leaves_the_bytes_that_a_group_would() {
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..12 {
        let sides = LEVELS.map(Side::new);
        let mut cfs = sides
            .each_ref()
            .map(|s| ["default", "two", "plain"].map(|n| s.db.cf(n).unwrap()));
        let mut done = Vec::new();
        for _ in 0..rng.between(20, 150) {
            let step = draw(&mut rng);
            let results = [0, 1].map(|n| {
                perf::set_level(sides[n].level);
                let result = take(&sides[n], &mut cfs[n], &step);
                perf::set_level(1);
                sides[n].w.executor.jobs.run_until_idle();
                (result, sides[n].db.latest_sequence_number())
            });
            done.push(step);
            assert_eq!(results[0], results[1], "{done:?}");
        }
        let [fast, plain] = &sides;
        assert_eq!(fast.logs(), plain.logs(), "{done:?}");
        assert_eq!(fast.contents(), plain.contents(), "{done:?}");
        let stats = |s: &Side| s.db.property("rocksdb.dbstats").unwrap();
        assert_eq!(stats(fast), stats(plain));
    }
}
