//! Iterators jump over runs of deleted keys that an earlier move found dead, and turn them into range tombstones
//! on request. Neither changes an answer: maps say what is there, now and at each snapshot.

use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith::{
    Cf, Db, FamilyOptions, IngestOptions, MergeOperator, ReadOptions, Snapshot, SstWriter,
    StringAppend,
};
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_env::{Env, MemFs};
use spanlith_testkit::{Rng, seed, test_name};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(cf: CfOptions, statistics: Option<&Arc<Statistics>>) -> Db {
    open_in(&Env::test(Arc::new(MemFs::new()), 1).0, cf, statistics)
}

fn open_in(env: &Env, cf: CfOptions, statistics: Option<&Arc<Statistics>>) -> Db {
    open_merging(env, cf, statistics, Arc::new(StringAppend::new(b",")))
}

fn open_merging(
    env: &Env,
    cf: CfOptions,
    statistics: Option<&Arc<Statistics>>,
    operator: Arc<dyn MergeOperator>,
) -> Db {
    let mut table = BlockBasedTableOptions::default();
    table.block_size = 256;
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    let mut builder = Db::builder("/db")
        .options(options)
        .cf_options(cf)
        .table_options(table)
        .merge_operator(operator)
        .env(env.clone());
    if let Some(s) = statistics {
        builder = builder.statistics(s.clone());
    }
    builder.open().unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

/// Returns what an iterator shows from `from` on, and after turns, given as steps forward (true) and backward.
fn walk(cf: &Cf, options: ReadOptions, from: &[u8], steps: &[bool]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut c = cf.cursor(options);
    let mut seen = Vec::new();
    let mut valid = c.seek(from).unwrap();
    for &forward in steps {
        if !valid {
            break;
        }
        seen.push((c.key().to_vec(), c.value().to_vec()));
        valid = if forward { c.next() } else { c.prev() }.unwrap();
    }
    seen
}

/// Keys and values that are there.
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns what [`walk`] must show of a map.
fn walk_in(
    map: &Map,
    options: &ReadOptions,
    from: &[u8],
    steps: &[bool],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_within = |key: &[u8]| {
        options.lower.as_deref().is_none_or(|lower| key >= lower)
            && options.upper.as_deref().is_none_or(|upper| key < upper)
    };
    let entries: Vec<_> = map.iter().filter(|(key, _)| is_within(key)).collect();
    let mut at = entries.partition_point(|(key, _)| key.as_slice() < from);
    let mut seen = Vec::new();
    for &forward in steps {
        let Some(&(key, value)) = entries.get(at) else {
            break;
        };
        seen.push((key.clone(), value.clone()));
        at = match (forward, at) {
            (true, _) => at + 1,
            (false, 0) => break,
            (false, _) => at - 1,
        };
    }
    seen
}

/// An iterator from somewhere shows what is in the map.
fn walks_in(map: &Map, cf: &Cf, options: &ReadOptions, rng: &mut Rng, space: u64) {
    let from = key(rng.below(space));
    let turns = rng.one_in(3);
    let steps: Vec<bool> = (0..rng.between(1, 40))
        .map(|_| !turns || rng.one_in(2))
        .collect();
    let got = walk(cf, options.clone(), &from, &steps);
    let from_text = String::from_utf8_lossy(&from);
    assert_eq!(
        got,
        walk_in(map, options, &from, &steps),
        "from {from_text}"
    );
}

/// The same iterator, which neither learns nor jumps.
fn plain(options: &ReadOptions) -> ReadOptions {
    let mut options = options.clone();
    options.max_skipped = u64::MAX;
    options
}

/// For states that no map describes.
fn same_as_plain(cf: &Cf, options: &ReadOptions, rng: &mut Rng, space: u64) {
    let from = key(rng.below(space));
    let steps = vec![true; rng.between(1, 40) as usize];
    let expected = walk(cf, plain(options), &from, &steps);
    let got = walk(cf, options.clone(), &from, &steps);
    assert_eq!(got, expected, "from {}", String::from_utf8_lossy(&from));
}

/// Takes a table in that holds two keys from `n` on.
fn ingest(env: &Env, cf: &Cf, n: u64, name: &str) {
    let path = format!("/{name}.sst");
    let family = FamilyOptions::new("");
    let made = SstWriter::new(family, &DbOptions::default(), env, None);
    let mut writer = made.unwrap();
    writer.open(&path).unwrap();
    writer.put(key(n), "taken in").unwrap();
    writer.put(key(n + 1), "taken in").unwrap();
    writer.finish().unwrap();
    cf.ingest(&[path], &IngestOptions::new()).unwrap();
}

/// A database, and maps of what it holds now and at its snapshots.
struct World {
    env: Env,
    db: Db,
    cf: Cf,
    space: u64,
    now: Map,
    snapshots: Vec<(Snapshot, Map)>,
}

impl World {
    /// All keys have a value.
    fn new(convert: u32, space: u64) -> Self {
        let mut o = CfOptions::default();
        o.min_tombstones_for_range_conversion = convert;
        o.level0_file_num_compaction_trigger = 3;
        let (env, ..) = Env::test(Arc::new(MemFs::new()), 1);
        let db = open_in(&env, o, None);
        let mut world = Self {
            cf: db.default_cf(),
            env,
            db,
            space,
            now: Map::new(),
            snapshots: Vec::new(),
        };
        (0..space).for_each(|n| world.put(n, "first"));
        world
    }

    fn put(&mut self, n: u64, value: &str) {
        self.cf.put(key(n), value).unwrap();
        self.now.insert(key(n), value.into());
    }

    fn delete(&mut self, n: u64) {
        self.cf.delete(key(n)).unwrap();
        self.now.remove(&key(n));
    }

    /// A random write; deletions come in runs.
    fn write(&mut self, rng: &mut Rng) {
        let n = rng.below(self.space);
        match rng.below(20) {
            0..6 => self.put(n, &format!("v{n}")),
            6 => {
                self.cf.merge(key(n), "m").unwrap();
                let value = self.now.entry(key(n)).or_default();
                if !value.is_empty() {
                    value.push(b',');
                }
                value.push(b'm');
            }
            7..9 => self.delete(n),
            9 => {
                let end = n + rng.below(20);
                self.cf.delete_range(key(n), key(end)).unwrap();
                self.now.retain(|k, _| *k < key(n) || *k >= key(end));
            }
            _ => {
                let count = rng.between(1, 200);
                (n..(n + count).min(self.space)).for_each(|n| self.delete(n));
            }
        }
    }

    fn ingest(&mut self, rng: &mut Rng, name: &str) {
        let n = rng.below(self.space);
        ingest(&self.env, &self.cf, n, name);
        self.now.insert(key(n), "taken in".into());
        self.now.insert(key(n + 1), "taken in".into());
    }

    fn walk_somewhere(&self, rng: &mut Rng) {
        let mut options = ReadOptions::new();
        let mut map = &self.now;
        if !self.snapshots.is_empty() && rng.one_in(3) {
            let (snapshot, then) = rng.pick(&self.snapshots);
            options = options.snapshot(snapshot);
            map = then;
        }
        if rng.one_in(4) {
            options.lower = Some(key(rng.below(self.space)));
        }
        if rng.one_in(4) {
            options.upper = Some(key(rng.below(self.space)));
        }
        options.ignore_range_deletions = rng.one_in(20);
        match options.ignore_range_deletions {
            true => same_as_plain(&self.cf, &options, rng, self.space),
            false => walks_in(map, &self.cf, &options, rng, self.space),
        }
    }

    /// Gets every key, and walks over all, now and at each snapshot.
    fn check_all(&self) {
        let then = (self.snapshots.iter()).map(|(s, map)| (ReadOptions::new().snapshot(s), map));
        for (options, map) in then.chain([(ReadOptions::new(), &self.now)]) {
            for n in 0..=self.space {
                let got = self.cf.get_opt(key(n), &options).unwrap();
                let expected = map.get(&key(n)).map(Vec::as_slice);
                assert_eq!(got.as_deref(), expected, "{n}");
            }
            let steps = vec![true; self.space as usize + 2];
            let got = walk(&self.cf, options.clone(), b"", &steps);
            assert_eq!(got, walk_in(map, &options, b"", &steps));
        }
    }
}

fn random_programs(convert: u32) {
    let mut rng = Rng::new(seed(&format!("{}-{convert}", test_name!())));
    for _ in 0..4 {
        let mut world = World::new(convert, *rng.pick(&[60, 300, 600]));
        for step in 0..250 {
            match rng.below(40) {
                0 => world.cf.flush(true).unwrap(),
                1 if rng.one_in(3) => world.cf.compact_range(None, None).unwrap(),
                2 => {
                    let snapshot = (world.db.snapshot(), world.now.clone());
                    world.snapshots.push(snapshot);
                }
                3 if !world.snapshots.is_empty() => {
                    let at = rng.index(world.snapshots.len());
                    drop(world.snapshots.swap_remove(at));
                }
                4 if rng.one_in(3) => world.ingest(&mut rng, &format!("outside{step}")),
                1 | 3 | 4 | 5..20 => world.write(&mut rng),
                20 if rng.one_in(2) => world.check_all(),
                _ => world.walk_somewhere(&mut rng),
            }
        }
        world.check_all();
        world.cf.flush(true).unwrap();
        world.check_all();
    }
}

#[test]
fn iterators_that_jump_show_what_is_there() {
    random_programs(0);
}

#[test]
fn runs_that_become_range_tombstones_change_no_answer() {
    random_programs(1);
    random_programs(20);
}

/// A reader at an old snapshot does not see what was taken in since, and must not hide it from the others.
#[test]
fn what_was_taken_in_is_not_hidden_by_a_run_that_an_older_reader_converts() {
    let mut o = CfOptions::default();
    o.min_tombstones_for_range_conversion = 10;
    o.disable_auto_compactions = true;
    let s = Arc::new(Statistics::new());
    let (env, ..) = Env::test(Arc::new(MemFs::new()), 1);
    let db = open_in(&env, o, Some(&s));
    let cf = db.default_cf();
    (10..=90).for_each(|n| cf.put(key(n), "first").unwrap());
    cf.flush(true).unwrap();
    (10..90).for_each(|n| cf.delete(key(n)).unwrap());
    cf.flush(true).unwrap();
    // As old as the snapshot, and not in the range of the table, so that the memtable stays.
    cf.put(key(0), "in the memtable").unwrap();
    let snapshot = db.snapshot();
    ingest(&env, &cf, 50, "outside");
    // Another state of the family, over which runs may be converted again.
    cf.set_options(&[("report_bg_io_stats", "true")]).unwrap();
    let pass = |options: ReadOptions, to: u64| {
        let mut c = cf.cursor(options);
        assert!(c.seek(&key(0)).unwrap() && c.next().unwrap());
        assert_eq!(c.key(), key(to));
        let tickers = [
            Ticker::ReadPathRangeTombstonesInserted,
            Ticker::ReadPathRangeTombstonesDiscarded,
        ];
        tickers.map(|t| s.ticker(t))
    };
    assert_eq!(pass(ReadOptions::new().snapshot(&snapshot), 90), [0, 1]);
    let is_there = || {
        for n in [50, 51] {
            assert_eq!(cf.get(key(n)).unwrap().as_deref(), Some(&b"taken in"[..]));
        }
    };
    is_there();
    // A reader that sees it may convert the run in front of it.
    assert_eq!(pass(ReadOptions::new(), 50), [1, 1]);
    is_there();
    cf.flush(true).unwrap();
    is_there();
}

/// An iterator that was made before writes learns nothing that is false after them.
#[test]
fn what_is_written_under_an_iterator_is_found_by_the_next() {
    let mut rng = Rng::new(seed(test_name!()));
    for _ in 0..40 {
        let mut world = World::new(0, 300);
        let cf = world.cf.clone();
        (10..250).for_each(|n| world.delete(n));
        let mut old = cf.cursor(ReadOptions::new());
        if rng.one_in(2) {
            old.seek(&key(rng.below(30))).unwrap();
        }
        for _ in 0..rng.below(3) {
            world.put(rng.below(300), "again");
        }
        old.seek(&key(rng.below(30))).unwrap();
        old.next().unwrap();
        for _ in 0..rng.below(3) {
            world.put(rng.below(300), "later");
        }
        for _ in 0..3 {
            walks_in(&world.now, &cf, &ReadOptions::new(), &mut rng, 300);
        }
    }
}

/// Panics while it is told to.
struct Panics(AtomicBool);

impl MergeOperator for Panics {
    fn name(&self) -> &str {
        "test.Panics"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        if self.0.load(Ordering::Relaxed) {
            resume_unwind(Box::new("the operator fails"));
        }
        Some(b"merged".to_vec())
    }
}

#[test]
fn readers_learn_on_after_merge_operators_panicked_behind_runs() {
    let operator = Arc::new(Panics(AtomicBool::new(true)));
    let (env, ..) = Env::test(Arc::new(MemFs::new()), 1);
    let db = open_merging(&env, CfOptions::default(), None, operator.clone());
    let cf = db.default_cf();
    (0..200).for_each(|n| cf.delete(key(n)).unwrap());
    cf.merge(key(200), "operand").unwrap();
    for _ in 0..20 {
        let mut c = cf.cursor(ReadOptions::new());
        catch_unwind(AssertUnwindSafe(|| c.seek_to_first())).unwrap_err();
    }
    operator.0.store(false, Ordering::Relaxed);
    perf::set_level(2);
    assert!(passed_by_first(&cf) >= 200);
    assert!(passed_by_first(&cf) <= 64);
    perf::set_level(1);
}

/// Deletions passed by one seek to the first key.
fn passed_by_first(cf: &Cf) -> u64 {
    perf::reset();
    let mut c = cf.cursor(ReadOptions::new());
    c.seek_to_first().unwrap();
    perf::value(PerfCounter::InternalDeleteSkippedCount)
}

#[test]
fn a_queue_costs_the_same_however_far_it_has_moved() {
    let s = Arc::new(Statistics::new());
    let db = open(CfOptions::default(), Some(&s));
    let cf = db.default_cf();
    perf::set_level(2);
    let (length, operations) = (50, 1000);
    (0..length).for_each(|n| cf.put(key(n), "item").unwrap());
    for n in 0..operations {
        cf.put(key(n + length), "item").unwrap();
        let passed = passed_by_first(&cf);
        // The first few dead keys are passed one by one, until it pays to ask.
        assert!(passed <= 64, "operation {n} passed {passed}");
        let mut c = cf.cursor(ReadOptions::new());
        assert!(c.seek_to_first().unwrap());
        assert_eq!(c.key(), key(n));
        cf.delete(key(n)).unwrap();
    }
    // Emptied, it is as cheap to find empty, and what comes then is found.
    (operations..operations + length).for_each(|n| cf.delete(key(n)).unwrap());
    let mut c = cf.cursor(ReadOptions::new());
    assert!(!c.seek_to_first().unwrap());
    assert!(passed_by_first(&cf) <= 64);
    cf.put(key(9000), "item").unwrap();
    assert!(passed_by_first(&cf) <= 64);
    let mut c = cf.cursor(ReadOptions::new());
    assert!(c.seek_to_first().unwrap());
    assert_eq!(c.key(), key(9000));
    // A value within the run is met.
    cf.put(key(70), "back").unwrap();
    c = cf.cursor(ReadOptions::new());
    c.seek_to_first().unwrap();
    assert_eq!(c.key(), key(70));
    perf::set_level(1);
}

/// Writers change a range while readers compare a jumping with a plain iterator at one snapshot.
#[test]
fn readers_beside_writers_see_what_their_snapshot_says() {
    let db = open(CfOptions::default(), None);
    let cf = db.default_cf();
    let space = 400;
    let is_over = AtomicBool::new(false);
    let seed = seed(test_name!());
    (0..space).for_each(|n| cf.put(key(n), "first").unwrap());
    (0..space).for_each(|n| cf.delete(key(n)).unwrap());
    std::thread::scope(|threads| {
        for writer in 0..2 {
            let (cf, is_over) = (&cf, &is_over);
            threads.spawn(move || {
                let mut rng = Rng::new(seed + writer);
                while !is_over.load(Ordering::Relaxed) {
                    let n = rng.below(space);
                    cf.put(key(n), "there").unwrap();
                    cf.delete(key(n)).unwrap();
                }
            });
        }
        let mut rng = Rng::new(seed + 10);
        for _ in 0..150 {
            let options = ReadOptions::new().snapshot(&db.snapshot());
            same_as_plain(&cf, &options, &mut rng, space);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Tombstones of ranges that a walk over deleted keys leaves behind: made, and found long enough but not made.
fn converted(min: u32, walk: impl FnOnce(&Db, &Cf)) -> (u64, u64, u64) {
    let s = Arc::new(Statistics::new());
    let mut o = CfOptions::default();
    o.min_tombstones_for_range_conversion = min;
    let db = open(o, Some(&s));
    let cf = db.default_cf();
    (0..30).for_each(|n| cf.put(key(n), "value").unwrap());
    (10..20).for_each(|n| cf.delete(key(n)).unwrap());
    walk(&db, &cf);
    (
        s.ticker(Ticker::ReadPathRangeTombstonesInserted),
        s.ticker(Ticker::ReadPathRangeTombstonesDiscarded),
        s.ticker(Ticker::NumIteratorCreated),
    )
}

#[test]
fn min_tombstones_for_range_conversion_turns_runs_into_range_tombstones() {
    let forward = |_: &Db, cf: &Cf| {
        let mut c = cf.cursor(ReadOptions::new());
        c.seek(&key(9)).unwrap();
        c.next().unwrap();
        assert_eq!(c.key(), key(20));
    };
    assert_eq!(converted(10, forward), (1, 0, 1));
    assert_eq!(converted(11, forward), (0, 0, 1));
    assert_eq!(converted(0, forward), (0, 0, 1));
    let backward = |_: &Db, cf: &Cf| {
        let mut c = cf.cursor(ReadOptions::new());
        c.seek_for_prev(&key(20)).unwrap();
        c.prev().unwrap();
        assert_eq!(c.key(), key(9));
    };
    assert_eq!(converted(10, backward), (1, 0, 1));
    assert_eq!(converted(11, backward), (0, 0, 1));
    // Deletions under a range tombstone are passed with it and make no run.
    let twice = |db: &Db, cf: &Cf| {
        forward(db, cf);
        forward(db, cf);
    };
    assert_eq!(converted(10, twice), (1, 0, 2));
    // A snapshot that is older than the memtable, and a state that is not the latest.
    let old = |db: &Db, cf: &Cf| {
        let mut c = cf.cursor(ReadOptions::new());
        cf.flush(true).unwrap();
        cf.put(key(40), "newer").unwrap();
        c.seek(&key(9)).unwrap();
        c.next().unwrap();
        let snapshot = db.snapshot();
        cf.flush(true).unwrap();
        cf.put(key(41), "newer").unwrap();
        let mut c = cf.cursor(ReadOptions::new().snapshot(&snapshot));
        c.seek(&key(9)).unwrap();
        c.next().unwrap();
    };
    assert_eq!(converted(10, old), (0, 2, 2));
}

/// A run too short to be converted that has grown since.
#[test]
fn a_run_that_was_passed_before_it_was_long_enough_is_converted() {
    let s = Arc::new(Statistics::new());
    let mut o = CfOptions::default();
    o.min_tombstones_for_range_conversion = 150;
    let db = open(o, Some(&s));
    let cf = db.default_cf();
    (0..300).for_each(|n| cf.put(key(n), "value").unwrap());
    let pass = |to: u64| {
        let mut c = cf.cursor(ReadOptions::new());
        assert!(c.seek(&key(9)).unwrap() && c.next().unwrap());
        assert_eq!(c.key(), key(to));
        s.ticker(Ticker::ReadPathRangeTombstonesInserted)
    };
    (10..110).for_each(|n| cf.delete(key(n)).unwrap());
    assert_eq!(pass(110), 0);
    (110..200).for_each(|n| cf.delete(key(n)).unwrap());
    assert_eq!(pass(200), 1);
}

#[test]
fn a_converted_run_spares_later_scans_what_lies_below() {
    let mut o = CfOptions::default();
    o.min_tombstones_for_range_conversion = 10;
    o.disable_auto_compactions = true;
    let s = Arc::new(Statistics::new());
    let db = open(o, Some(&s));
    let cf = db.default_cf();
    (0..2000).for_each(|n| cf.put(key(n), "value").unwrap());
    cf.flush(true).unwrap();
    (1..1999).for_each(|n| cf.delete(key(n)).unwrap());
    cf.flush(true).unwrap();
    cf.put(key(3000), "in the memtable").unwrap();
    let pass = || {
        let before = s.ticker(Ticker::NumberIterSkip);
        let mut c = cf.cursor(ReadOptions::new());
        c.seek(&key(0)).unwrap();
        c.next().unwrap();
        assert_eq!(c.key(), key(1999));
        s.ticker(Ticker::NumberIterSkip) - before
    };
    assert!(pass() > 1900);
    assert_eq!(s.ticker(Ticker::ReadPathRangeTombstonesInserted), 1);
    assert!(pass() < 50);
    // It is flushed with the rest, and a new memtable holds nothing of it.
    cf.flush(true).unwrap();
    assert!(pass() < 50);
}

#[test]
fn table_filters_are_refused_where_runs_are_converted() {
    let mut o = CfOptions::default();
    o.min_tombstones_for_range_conversion = 10;
    let db = open(o, None);
    let mut options = ReadOptions::new();
    options.table_filter = Some(spanlith::TableFilter::new(|_| true));
    let error = db.default_cf().cursor(options).status().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid argument: ReadOptions::table_filter is not supported when \
         min_tombstones_for_range_conversion > 0"
    );
}
