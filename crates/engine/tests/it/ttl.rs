//! Databases with times to live: what is stored, what is shown, what is dropped. Expectations are what RocksDB 11.8.1
//! does with the same calls, but for what `docs/compat.md` names.

use spanlith::{
    Cf, CompactionFilter, CompactionFilterFactory, Db, FamilyOptions, FilterContext,
    FilterDecision, FilterValue, IndexedBatch, OpenBuilder, ReadOptions, StringAppend, WriteBatch,
    WriteOptions,
};
use spanlith_base::stats::{Statistics, StatsLevel};
use spanlith_env::{Clock, Env, MemFs, VirtualClock};
use spanlith_testkit::{TempDir, golden_cases};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Seconds since the epoch at which tests begin.
const NOW: u64 = 1_700_000_000;

struct World {
    env: Env,
    clock: Arc<VirtualClock>,
}

impl World {
    fn new() -> Self {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 7);
        clock.set_micros(NOW * 1_000_000);
        Self { env, clock }
    }

    fn builder(&self) -> OpenBuilder {
        Db::builder(Path::new("/db"))
            .create_if_missing(true)
            .env(self.env.clone())
            .merge_operator(Arc::new(StringAppend::new(b",")))
    }

    fn open(&self, ttl: Duration) -> Db {
        self.builder().with_ttl(ttl).open().unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds));
    }
}

fn entries(cf: &Cf) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let entry = |e: spanlith::Result<_>| {
        let (k, v): (spanlith::Pinned, spanlith::Pinned) = e.unwrap();
        (text(&k), text(&v))
    };
    cf.iter().map(entry).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |p: &(&str, &str)| (p.0.to_string(), p.1.to_string());
    expected.iter().map(pair).collect()
}

fn get(cf: &Cf, key: &str) -> Option<String> {
    let value = cf.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

fn text<T: std::fmt::Debug>(result: spanlith::Result<T>) -> String {
    result.unwrap_err().to_string()
}

const TOO_SHORT: &str = "Corruption: Error: value's length less than timestamp's\n";

#[test]
fn values_and_operands_have_the_time_of_their_write_which_a_plain_open_shows() {
    let w = World::new();
    let db = w.open(DAY);
    let cf = db.default_cf();
    cf.put("a", "va").unwrap();
    cf.put("empty", "").unwrap();
    w.pass(1);
    let mut batch = WriteBatch::new();
    batch.put("b", "vb").put("gone", "x").delete("gone");
    batch.put("s", "x").single_delete("s");
    batch.put("r", "x").delete_range("r", "s");
    batch.put_log_data("note").merge("m", "x");
    batch.protect();
    db.write(&batch).unwrap();
    let checked = WriteOptions::new().protection_bytes_per_key(8);
    cf.merge_opt("m", "y", &checked).unwrap();
    assert_eq!(get(&cf, "m").as_deref(), Some("x,y"));
    let shown = pairs(&[("a", "va"), ("b", "vb"), ("empty", ""), ("m", "x,y")]);
    assert_eq!(entries(&cf), shown);
    cf.flush(true).unwrap();
    assert_eq!(entries(&cf), shown);
    db.close().unwrap();
    let db = w.builder().open().unwrap();
    let time = |seconds: u64| u32::try_from(seconds).unwrap().to_le_bytes();
    let stored = |value: &str, seconds| [value.as_bytes(), &time(seconds)].concat();
    let value = |key: &str| db.default_cf().get(key).unwrap().unwrap().to_vec();
    assert_eq!(value("a"), stored("va", NOW));
    assert_eq!(value("empty"), stored("", NOW));
    assert_eq!(value("b"), stored("vb", NOW + 1));
    // The flush merged.
    assert_eq!(value("m"), stored("x,y", NOW + 1));
}

#[test]
fn every_way_to_read_leaves_the_time_out() {
    for statistics in [None, Some(StatsLevel::All)] {
        let w = World::new();
        let mut builder = w.builder().with_ttl(DAY);
        if let Some(level) = statistics {
            let s = Arc::new(Statistics::new());
            s.set_level(level);
            builder = builder.statistics(s);
        }
        let db = builder.open().unwrap();
        let cf = db.default_cf();
        let other = db.create_cf(FamilyOptions::new("other")).unwrap();
        other.put("k", "other").unwrap();
        cf.put("k1", "v1").unwrap();
        cf.put("k2", "v2").unwrap();
        cf.flush(true).unwrap();
        cf.merge("k2", "more").unwrap();
        let values = |found: Vec<spanlith::Result<Option<spanlith::Pinned>>>| {
            let found = found.into_iter().map(|v| v.unwrap().map(|v| v.to_vec()));
            found.collect::<Vec<_>>()
        };
        let both = [Some(b"v1".to_vec()), Some(b"v2,more".to_vec()), None];
        assert_eq!(values(cf.multi_get(["k1", "k2", "k3"])), both);
        let keys: [(&Cf, &[u8]); 3] = [(&cf, b"k2"), (&other, b"k"), (&cf, b"k1")];
        let expected: [&[u8]; 3] = [b"v2,more", b"other", b"v1"];
        let expected = expected.map(|v| Some(v.to_vec()));
        assert_eq!(values(db.multi_get(&keys)), expected);
        let o = ReadOptions::new();
        let operands = cf.get_merge_operands("k2", 5, &o).unwrap();
        let operands: Vec<&[u8]> = operands.iter().map(|p| &**p).collect();
        assert_eq!(operands, [&b"v2"[..], b"more"]);
        let timed = cf.get_with_timestamp("k1", &o).unwrap().unwrap();
        assert_eq!(&*timed.0, b"v1");
        let entity = cf.get_entity("k1").unwrap().unwrap();
        let columns = entity.columns().unwrap();
        assert_eq!(columns.default_column().unwrap().value, b"v1");
        let there = cf.key_may_exist("k1", &o).unwrap();
        assert_eq!(there.as_deref(), Some(&b"v1"[..]));
        for (pin_data, tailing) in [(false, false), (true, false), (false, true)] {
            let mut options = ReadOptions::new();
            (options.pin_data, options.tailing) = (pin_data, tailing);
            let backward = !tailing;
            let mut c = cf.cursor(options);
            assert!(c.seek(b"k1").unwrap());
            assert_eq!(c.entry(), Some((&b"k1"[..], &b"v1"[..])));
            let entity = c.entity().unwrap();
            let columns = entity.columns().unwrap();
            assert_eq!(columns.default_column().unwrap().value, b"v1");
            assert!(c.next().unwrap());
            assert_eq!(c.value(), b"v2,more");
            assert!(!c.next().unwrap());
            assert_eq!((c.value(), c.entry()), (&b""[..], None));
            if backward {
                c.seek_to_last().unwrap();
                assert_eq!(c.value(), b"v2,more");
                c.prev().unwrap();
                assert_eq!(c.value(), b"v1");
            }
        }
    }
}

#[test]
fn a_batch_with_an_index_reads_values_without_times_and_writes_them_with() {
    let w = World::new();
    let db = w.open(DAY);
    let cf = db.default_cf();
    cf.put("k", "base").unwrap();
    let mut batch = IndexedBatch::new(spanlith::Comparator::Bytewise);
    batch.merge(Some(&cf), b"k", b"more").unwrap();
    batch.put(Some(&cf), b"new", b"value").unwrap();
    let over = |key: &[u8]| {
        let value = batch.get_over(&cf, key, &ReadOptions::new()).unwrap();
        value.map(|v| v.to_vec())
    };
    assert_eq!(over(b"k").as_deref(), Some(&b"base,more"[..]));
    assert_eq!(over(b"new").as_deref(), Some(&b"value"[..]));
    db.write_raw(batch.batch(), &WriteOptions::new()).unwrap();
    assert_eq!(entries(&cf), pairs(&[("k", "base,more"), ("new", "value")]));
}

#[test]
fn compactions_drop_values_whose_time_is_over_and_no_operands() {
    let w = World::new();
    let db = w.open(Duration::from_secs(100));
    let cf = db.default_cf();
    cf.put("old", "v").unwrap();
    cf.merge("operands", "x").unwrap();
    cf.put("renewed", "v").unwrap();
    // An operand on it makes a value of now.
    w.pass(1);
    cf.put("younger", "v").unwrap();
    cf.merge("renewed", "y").unwrap();
    cf.flush(true).unwrap();
    w.pass(99);
    let all = [
        ("old", "v"),
        ("operands", "x"),
        ("renewed", "v,y"),
        ("younger", "v"),
    ];
    cf.compact_all().unwrap();
    assert_eq!(entries(&cf), pairs(&all), "just old enough to stay");
    w.pass(1);
    assert_eq!(get(&cf, "old").as_deref(), Some("v"), "nobody compacted");
    cf.compact_range_opt(None, None, &forced()).unwrap();
    assert_eq!(entries(&cf), pairs(&all[1..]));
    db.close().unwrap();
    // Without a time to live nothing goes.
    let db = w.open(Duration::ZERO);
    let cf = db.default_cf();
    w.pass(1 << 30);
    cf.compact_range_opt(None, None, &forced()).unwrap();
    assert_eq!(entries(&cf), pairs(&all[1..]));
}

fn forced() -> spanlith::CompactRangeOptions {
    spanlith::CompactRangeOptions {
        bottommost: spanlith::BottommostCompaction::Force,
        ..spanlith::CompactRangeOptions::default()
    }
}

/// Notes what it is asked; drops `drop`, changes `change`.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl CompactionFilter for Asked {
    fn name(&self) -> &str {
        "asked"
    }

    fn filter(&self, _: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        let mut asked = self.0.lock().unwrap();
        asked.push(format!("{} {value:?}", key.escape_ascii()));
        match key {
            b"drop" => FilterDecision::Remove,
            b"change" => FilterDecision::ChangeValue(b"changed".to_vec()),
            _ => FilterDecision::Keep,
        }
    }
}

impl CompactionFilterFactory for Asked {
    fn name(&self) -> &str {
        "asking"
    }

    fn create(&self, _: &FilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(self.clone()))
    }
}

#[test]
fn filters_of_the_user_see_what_is_left_without_times() {
    for by_factory in [false, true] {
        let w = World::new();
        let asked = Asked::default();
        let mut builder = w.builder();
        builder = match by_factory {
            true => builder.compaction_filter_factory(Arc::new(asked.clone())),
            false => builder.compaction_filter(Arc::new(asked.clone())),
        };
        let db = builder.with_ttl(Duration::from_secs(100)).open().unwrap();
        let cf = db.default_cf();
        cf.put("change", "1").unwrap();
        cf.put("old", "2").unwrap();
        cf.flush(true).unwrap();
        w.pass(50);
        cf.put("drop", "3").unwrap();
        cf.put("old", "4").unwrap();
        cf.flush(true).unwrap();
        w.pass(50);
        cf.compact_all().unwrap();
        let seen = std::mem::take(&mut *asked.0.lock().unwrap());
        let expected = ["change Value([49])", "drop Value([51])", "old Value([52])"];
        assert_eq!(seen, expected);
        assert_eq!(entries(&cf), pairs(&[("change", "changed"), ("old", "4")]));
        // A changed value is as old as before.
        w.pass(1);
        cf.compact_range_opt(None, None, &forced()).unwrap();
        assert_eq!(entries(&cf), pairs(&[("old", "4")]));
        assert_eq!(*asked.0.lock().unwrap(), ["old Value([52])"]);
    }
}

#[test]
fn families_have_times_to_live_of_their_own() {
    let w = World::new();
    let db = w.open(Duration::from_secs(100));
    let forever = db.create_cf(FamilyOptions::new("forever")).unwrap();
    let short = FamilyOptions::new("short").with_ttl(Duration::from_secs(10));
    let short = db.create_cf(short).unwrap();
    let all = [db.default_cf(), forever, short];
    for cf in &all {
        cf.put("k", "v").unwrap();
    }
    db.flush(true).unwrap();
    let left = |seconds| {
        w.pass(seconds);
        all.each_ref().map(|cf| {
            cf.compact_range_opt(None, None, &forced()).unwrap();
            entries(cf).len()
        })
    };
    assert_eq!(left(10), [1, 1, 1]);
    assert_eq!(left(1), [1, 1, 0]);
    assert_eq!(left(1000), [0, 1, 0]);
    for cf in &all {
        cf.put("k", "v").unwrap();
    }
    drop(all);
    db.close().unwrap();
    // As the options file has them, and under one that says so.
    let db = w.builder().with_ttl(DAY).all_families().open().unwrap();
    let all = ["default", "forever", "short"].map(|name| db.cf(name).unwrap());
    db.flush(true).unwrap();
    w.pass(11);
    let left = all.each_ref().map(|cf| {
        cf.compact_range_opt(None, None, &forced()).unwrap();
        entries(cf).len()
    });
    assert_eq!(left, [1, 1, 0]);
    drop(all);
    db.close().unwrap();
    let db = w.builder().all_families().open().unwrap();
    let value = db.cf("forever").unwrap().get("k").unwrap();
    assert_eq!(value.unwrap().len(), 5);
    let late = FamilyOptions::new("late").with_ttl(DAY);
    assert_eq!(
        text(db.create_cf(late)),
        "Invalid argument: a time to live in a database that was opened without"
    );
}

#[test]
fn what_has_no_time_is_an_error_that_passes() {
    let w = World::new();
    let db = w.builder().open().unwrap();
    let cf = db.default_cf();
    cf.put("a", "no time at all").unwrap();
    cf.put("b", "123").unwrap();
    cf.put("c", [&b"v"[..], &1_600_000_000u32.to_le_bytes()].concat())
        .unwrap();
    db.close().unwrap();
    let db = w.open(DAY);
    let cf = db.default_cf();
    // Letters read as a time are one: "all" is of 2028.
    let early = "Corruption: Error: Timestamp < ttl feature release time!\n";
    cf.put("z", "v").unwrap();
    assert_eq!(text(cf.get("b")), TOO_SHORT);
    assert_eq!(cf.key_may_exist("b", &ReadOptions::new()), None);
    let found = cf.multi_get(["b", "c"]);
    let found: Vec<_> = found
        .into_iter()
        .map(|v| v.map(|v| v.unwrap().to_vec()))
        .collect();
    assert_eq!(text(found[0].clone()), TOO_SHORT);
    assert_eq!(found[1].as_deref().unwrap(), b"v");
    db.close().unwrap();
    let db = w.builder().open().unwrap();
    db.default_cf().put("a", "v\x01\0\0\0").unwrap();
    db.close().unwrap();
    let db = w.open(DAY);
    let cf = db.default_cf();
    assert_eq!(text(cf.get("a")), early);
    let mut c = cf.cursor(ReadOptions::new());
    // Iterators do not look at the time, only for one.
    assert!(c.seek_to_first().unwrap());
    assert_eq!(c.entry(), Some((&b"a"[..], &b"v"[..])));
    assert_eq!(text(c.next()), TOO_SHORT);
    assert!(!c.valid());
    assert_eq!(text(c.status()), TOO_SHORT);
    assert!(c.seek(b"c").unwrap());
    assert_eq!(c.value(), b"v");
    // Compactions leave alone what they cannot tell the age of.
    w.pass(2 * DAY.as_secs());
    cf.compact_range_opt(None, None, &forced()).unwrap();
    assert_eq!(text(cf.get("b")), TOO_SHORT);
    assert!(cf.get("a").unwrap().is_none());
}

#[test]
fn what_has_no_place_for_a_time_is_refused() {
    let w = World::new();
    let db = w.open(DAY);
    let cf = db.default_cf();
    let e =
        "Not implemented: entities and values with a write time in a database with times to live";
    assert_eq!(text(cf.put_entity("k", &[(b"", b"v")])), e);
    let mut batch = spanlith_wal::WriteBatch::new();
    batch.put(b"a", b"v").unwrap();
    batch.timed_put_cf(0, b"k", b"v", 7).unwrap();
    assert_eq!(text(db.write_raw(&batch, &WriteOptions::new())), e);
    let mut batch = batch.into_bytes();
    batch.push(0xff);
    let damaged = spanlith_wal::WriteBatch::from_rep(batch);
    assert_eq!(
        text(db.write_raw(&damaged, &WriteOptions::new())),
        "Corruption: unknown WriteBatch tag: 4294967295"
    );
    assert_eq!(entries(&cf), []);
    db.close().unwrap();
    let (env, _, _) = Env::test(Arc::new(MemFs::new()), 7);
    let builder = Db::builder(Path::new("/db")).create_if_missing(true);
    let db = builder.env(env).with_ttl(DAY).open().unwrap();
    assert_eq!(
        text(db.default_cf().merge("k", "v")),
        "Invalid argument: Merge requires `ColumnFamilyOptions::merge_operator != nullptr`"
    );
}

/// `fixtures/golden/golden-11.8/ttl-db` is RocksDB's.
#[test]
fn a_database_of_rocksdb_is_read_without_its_times() {
    let cases = golden_cases();
    let case = cases.iter().find(|c| c.name == "ttl-db").unwrap();
    let temp = TempDir::new("golden-ttl");
    let copied = case.copy_to(temp.path());
    let db = Db::builder(&copied)
        .with_ttl(Duration::ZERO)
        .open()
        .unwrap();
    let cf = db.default_cf();
    assert_eq!(cf.iter().count(), 50);
    let value = cf.get("key00000").unwrap().unwrap();
    assert_eq!(&*value, b"0vipn93z55kvlqk7");
    let options = cf.options();
    assert_eq!(
        options.compaction_filter_factory,
        "{id=TtlCompactionFilterFactory;user_filter_factory=nullptr;ttl=0;}"
    );
}
