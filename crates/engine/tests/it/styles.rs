//! Universal and FIFO compaction, and changes of style, through the database (R-SPACE).

use spanlith::options::{CfOptions, DbOptions, OptionTable, Temperature};
use spanlith::{
    BottommostCompaction, Cf, CompactFilesOptions, CompactRangeOptions, CompactionFilter, Db,
    FilterDecision, FilterValue, ReadOptions,
};
use spanlith_base::stats::{Statistics, Ticker};
use spanlith_env::{Env, Executor, FaultFs, ManualExecutor, MemFs, VirtualClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct World {
    env: Env,
    executor: Arc<ManualExecutor>,
    clock: Arc<VirtualClock>,
    /// Says what the database holds.
    model: BTreeMap<String, String>,
    next: u64,
}

impl World {
    fn new() -> Self {
        let (env, executor, clock) = Env::test(Arc::new(MemFs::new()), 11);
        clock.set_micros(1_000_000 * 1_000_000);
        Self {
            env,
            executor,
            clock,
            model: BTreeMap::new(),
            next: 1,
        }
    }

    fn open(&self, cf: CfOptions) -> Db {
        let db = Db::builder("/db").create_if_missing(true).no_info_log();
        let db = db.env(self.env.clone()).cf_options(cf).open().unwrap();
        self.settle();
        db
    }

    fn settle(&self) {
        while self.executor.help() {}
    }

    /// Writes, deletes and flushes; then all compactions run.
    fn step(&mut self, cf: &Cf) {
        for i in 0..60 {
            let link = self.next.wrapping_mul(6_364_136_223_846_793_005);
            self.next = link.wrapping_add(1_442_695_040_888_963_407);
            let n = self.next >> 40;
            let key = format!("key{:03}", n % 400);
            if i % 20 == 19 {
                let end = format!("key{:03}", (n % 400 + 5).min(400));
                cf.delete_range(&key, &end).unwrap();
                self.model.retain(|k, _| *k < key || *k >= end);
            } else if i % 5 == 4 {
                cf.delete(&key).unwrap();
                self.model.remove(&key);
            } else {
                let value = format!("{n:050}");
                cf.put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
        }
        cf.flush(true).unwrap();
        self.settle();
    }

    fn check(&self, cf: &Cf, what: &str) {
        for n in 0..400 {
            let key = format!("key{n:03}");
            let found = cf.get(&key).unwrap().map(|v| v.to_vec());
            let wanted = self.model.get(&key).map(|v| v.clone().into_bytes());
            assert_eq!(found, wanted, "{what}: {key}");
        }
    }
}

fn style(text: &str) -> CfOptions {
    let mut cf = CfOptions::default();
    cf.level0_file_num_compaction_trigger = 3;
    cf.target_file_size_base = 2 << 10;
    cf.max_bytes_for_level_base = 8 << 10;
    for pair in text.split_whitespace() {
        let (name, value) = pair.split_once('=').unwrap();
        cf.set_option(name, value).unwrap();
    }
    cf
}

const UNIVERSAL: &str = "compaction_style=kCompactionStyleUniversal";
const FIFO: &str = "compaction_style=kCompactionStyleFIFO";

fn levels(cf: &Cf) -> Vec<usize> {
    cf.live_files().iter().map(|f| f.level).collect()
}

#[test]
fn universal_compaction_merges_runs_of_any_number_of_levels_and_loses_nothing() {
    for more in [
        "",
        "num_levels=1",
        "num_levels=3 compaction_options_universal={max_size_amplification_percent=900}",
        "compaction_options_universal={allow_trivial_move=true;max_size_amplification_percent=25}",
        "compaction_options_universal={incremental=true;max_size_amplification_percent=40}",
    ] {
        let mut world = World::new();
        let db = world.open(style(&format!("{UNIVERSAL} {more}")));
        let cf = db.default_cf();
        for _ in 0..30 {
            world.step(&cf);
        }
        world.check(&cf, more);
        let runs = levels(&cf).iter().filter(|l| **l == 0).count();
        assert!(runs <= 4, "{more}: {runs} files in level 0");
        cf.compact_range(None, None).unwrap();
        world.check(&cf, more);
        let deepest = if more == "num_levels=1" {
            0
        } else {
            cf.num_levels() - 1
        };
        assert!(levels(&cf).iter().all(|l| *l == deepest), "{more}");
        world.step(&cf);
        let numbers: Vec<u64> = cf.live_files().iter().map(|f| f.number).collect();
        cf.compact_files(&numbers, deepest, &CompactFilesOptions::default())
            .unwrap();
        world.check(&cf, more);
        drop(cf);
        db.close().unwrap();
    }
}

#[test]
fn a_database_goes_from_style_to_style() {
    let mut world = World::new();
    let fifo = format!("{FIFO} compaction_options_fifo={{allow_compaction=true}} ttl=0");
    let universal = UNIVERSAL.to_string();
    let fixed = "level_compaction_dynamic_level_bytes=false".to_string();
    let none = "compaction_style=kCompactionStyleNone".to_string();
    let texts = [
        "", &universal, &fixed, &fifo, &universal, "", &none, &fifo, &fixed,
    ];
    for text in texts {
        let db = world.open(style(text));
        let cf = db.default_cf();
        world.check(&cf, text);
        for _ in 0..8 {
            world.step(&cf);
        }
        world.check(&cf, text);
        db.verify_checksums().unwrap();
        drop(cf);
        db.close().unwrap();
    }
}

#[test]
fn fifo_compaction_deletes_the_oldest_tables_by_size_and_by_age() {
    let mut world = World::new();
    let db = world.open(style(&format!(
        "{FIFO} compaction_options_fifo={{max_table_files_size=20000}} ttl=1000"
    )));
    let cf = db.default_cf();
    let snapshot = db.snapshot();
    for _ in 0..20 {
        world.step(&cf);
    }
    let size: u64 = cf.live_files().iter().map(|f| f.size).sum();
    assert!((10_000..=20_000).contains(&size), "{size}");
    assert!(levels(&cf).iter().all(|l| *l == 0));
    drop(snapshot);
    // One second is not enough, and then all of it is too old.
    world.clock.advance(Duration::from_secs(1000));
    cf.compact_range(None, None).unwrap();
    assert!(!cf.live_files().is_empty());
    world.clock.advance(Duration::from_secs(2));
    cf.compact_range(None, None).unwrap();
    assert!(cf.live_files().is_empty(), "{:?}", cf.live_files());
    world.model.clear();
    world.step(&cf);
    world.check(&cf, "after everything went");
    let changed = cf.set_options(&[("compaction_options_fifo", "{max_table_files_size=1}")]);
    changed.unwrap();
    world.model.clear();
    world.step(&cf);
    assert!(cf.live_files().is_empty(), "nothing fits");
    drop(cf);
    db.close().unwrap();
}

#[test]
fn fifo_compaction_changes_the_temperature_of_what_has_aged() {
    let mut world = World::new();
    let db = world.open(style(&format!(
        "{FIFO} num_levels=1 ttl=0 compaction_options_fifo={{file_temperature_age_thresholds=\
         {{{{temperature=kWarm;age=100}}:{{temperature=kCold;age=300}}}}}}"
    )));
    let cf = db.default_cf();
    for _ in 0..4 {
        world.step(&cf);
        world.clock.advance(Duration::from_secs(110));
    }
    world.step(&cf);
    let found: Vec<Temperature> = cf.live_files().iter().map(|f| f.temperature).collect();
    use Temperature::{Cold, Unknown, Warm};
    assert_eq!(found, [Unknown, Warm, Warm, Cold, Cold]);
    world.check(&cf, "rewritten");
    drop(cf);
    db.close().unwrap();
}

#[test]
fn options_that_contradict_their_style_are_refused_in_rocksdbs_words() {
    let world = World::new();
    let refusal = |text: &str| {
        let db = Db::builder("/db").create_if_missing(true).no_info_log();
        let db = db.env(world.env.clone()).cf_options(style(text));
        db.open().err().map(|e| e.to_string()).unwrap_or_default()
    };
    for (text, wanted) in [
        (
            "compaction_style=kCompactionStyleUniversal compaction_options_universal={max_read_amp=2}",
            "limits the number of sorted runs but is smaller",
        ),
        (
            "compaction_style=kCompactionStyleUniversal compaction_options_universal={max_read_amp=-2}",
            "max_read_amp should be at least -1.",
        ),
        (
            "compaction_options_fifo={file_temperature_age_thresholds={{temperature=kWarm;age=9}}}",
            "file_temperature_age_thresholds only supports FIFO compaction.",
        ),
        (
            "compaction_style=kCompactionStyleFIFO compaction_options_fifo={file_temperature_age_thresholds={{temperature=kWarm;age=9}}}",
            "is only supported when num_levels = 1.",
        ),
    ] {
        let found = refusal(text);
        assert!(found.contains(wanted), "{text}: {found}");
    }
    let options = DbOptions::new().create_if_missing(true).max_open_files(100);
    let db = Db::builder("/db").options(options).no_info_log();
    let db = db.env(world.env.clone()).cf_options(style(FIFO));
    let e = db.open().err().unwrap();
    assert!(e.to_string().contains("max_open_files = -1"), "{e}");
}

/// `codec_choice=adaptive`, set on an open database: noise is left as it is, text is compressed, and both are read by a
/// database that knows nothing of the choice.
#[test]
fn blocks_get_the_codec_that_pays_and_all_of_them_are_read() {
    let world = World::new();
    let options =
        style("compression=kZSTD target_file_size_base=1048576 disable_auto_compactions=true");
    let db = world.open(options.clone());
    let cf = db.default_cf();
    let mut state = 1u64;
    let mut noise = || -> Vec<u8> {
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        (0..400).map(|_| byte()).collect()
    };
    let mut model = BTreeMap::new();
    let mut write = |cf: &Cf, model: &mut BTreeMap<String, Vec<u8>>, round: u32| {
        for n in 0..3000u32 {
            // Noise first, text after it.
            let value = match n < 600 {
                true => noise(),
                false => format!("the balance of account {n} is {round}; ")
                    .repeat(10)
                    .into_bytes(),
            };
            let key = format!("key{n:05}");
            cf.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        cf.flush(true).unwrap();
        let of_flush = cf.live_files().iter().map(|f| f.size).max().unwrap();
        cf.compact_range(None, None).unwrap();
        let sizes = cf.live_files();
        (of_flush, sizes.iter().map(|f| f.size).sum::<u64>())
    };
    let fixed = write(&cf, &mut model, 1);
    cf.set_options(&[("codec_choice", "adaptive")]).unwrap();
    let adaptive = write(&cf, &mut model, 2);
    // Zstandard saves nothing in noise, so that little is lost where it is not tried; a flush, whose tables are soon
    // read again, leaves all to the compaction.
    assert!(
        adaptive.1 < fixed.1 + fixed.1 / 10,
        "{adaptive:?} {fixed:?}"
    );
    assert!(adaptive.0 > 2 * fixed.0, "{adaptive:?} {fixed:?}");
    drop(cf);
    db.close().unwrap();
    let db = world.open(options);
    let cf = db.default_cf();
    for (key, value) in &model {
        assert_eq!(cf.get(key).unwrap().as_deref(), Some(&value[..]), "{key}");
    }
    db.verify_checksums().unwrap();
}

/// Acknowledged writes of a database that ends in the middle of a job, whatever the style, are found by the next
/// open with another style; a full disk is named with the file.
#[test]
fn a_full_disk_in_any_job_of_any_style_and_then_another_style_lose_nothing() {
    crate::suite_disk::needs_table_files(
        "the file system of the tables is full here, not the disk",
    );
    let texts = [
        UNIVERSAL.to_string(),
        format!(
            "{UNIVERSAL} compaction_options_universal={{incremental=true;max_size_amplification_percent=40}}"
        ),
        format!("{FIFO} compaction_options_fifo={{allow_compaction=true}} ttl=0"),
    ];
    let mut stopped = 0;
    for (n, text) in texts.iter().enumerate() {
        for budget in (0..16).map(|i| 700 + i * 1900) {
            let mem = Arc::new(MemFs::new());
            let fs = Arc::new(FaultFs::new(mem.clone()));
            let (env, executor, _) = Env::test(fs.clone(), 17);
            let open = |env: &Env, text: &str| {
                let db = Db::builder("/db").create_if_missing(true).no_info_log();
                db.env(env.clone()).cf_options(style(text)).open()
            };
            let db = open(&env, text).unwrap();
            let cf = db.default_cf();
            fs.set_budget(Some(budget));
            let mut model = BTreeMap::new();
            let mut failed = None;
            'work: for round in 0..12u32 {
                for i in 0..20u32 {
                    let key = format!("key{:03}", (i * 7 + round) % 50);
                    let value = format!("{round}-{i}-{}", "v".repeat(40));
                    if let Err(e) = cf.put(&key, &value) {
                        failed = Some(e);
                        break 'work;
                    }
                    model.insert(key, value);
                }
                if let Err(e) = cf.flush(true) {
                    failed = Some(e);
                    break;
                }
                while executor.help() {}
            }
            if let Some(e) = &failed {
                stopped += 1;
                let e = e.to_string();
                assert!(e.contains("No space left on device"), "{e}");
            }
            for (key, value) in &model {
                let found = cf.get(key).unwrap();
                assert_eq!(
                    found.as_deref(),
                    Some(value.as_bytes()),
                    "{text} {budget}: {key}"
                );
            }
            // The process ends here; what it had written is there.
            let after = Arc::new(mem.process_crash_clone());
            drop((cf, db));
            let (env, executor, _) = Env::test(after, 18);
            let db = open(&env, &texts[(n + 1) % texts.len()]).unwrap();
            while executor.help() {}
            let cf = db.default_cf();
            for (key, value) in &model {
                let found = cf.get(key).unwrap();
                assert_eq!(
                    found.as_deref(),
                    Some(value.as_bytes()),
                    "{text} {budget}: {key}"
                );
            }
            db.verify_checksums().unwrap();
            drop(cf);
            db.close().unwrap();
        }
    }
    assert!(stopped > 20, "{stopped} of 48 ran into the full disk");
}

/// Tables of a family in which reads of every other key pass through the upper one: it holds the others.
fn two_levels(more: &str) -> (World, Db) {
    let world = World::new();
    let db = world.open(style(more));
    let cf = db.default_cf();
    for n in (0..400).step_by(2) {
        cf.put(format!("key{n:03}"), "below").unwrap();
    }
    cf.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    for n in (1..400).step_by(2) {
        cf.put(format!("key{n:03}"), "above").unwrap();
    }
    cf.flush(true).unwrap();
    world.settle();
    (world, db)
}

/// Has the database look at its files, as it does by itself after some time.
fn look_at_files(world: &World, cf: &Cf) {
    cf.set_options(&[("report_bg_io_stats", "true")]).unwrap();
    world.settle();
}

/// Reads keys that lie below, and lets the database look at its files.
fn read_in_vain(world: &World, cf: &Cf, times: usize) {
    let keys: Vec<String> = (0..400).step_by(2).map(|n| format!("key{n:03}")).collect();
    for at in 0..times {
        let key = &keys[at % keys.len()];
        assert_eq!(&*cf.get(key).unwrap().unwrap(), b"below");
    }
    look_at_files(world, cf);
}

#[test]
fn files_that_reads_pass_through_in_vain_are_compacted() {
    let base = "level0_file_num_compaction_trigger=8 level0_slowdown_writes_trigger=20";
    let levels_of = |style: &str, threshold: &str, multi: bool| {
        let (world, db) = two_levels(&format!("{base} {style}"));
        let cf = db.default_cf();
        assert!(levels(&cf).contains(&0), "{style}");
        cf.set_options(&[("read_triggered_compaction_threshold", threshold)])
            .unwrap();
        if multi {
            let keys: Vec<String> = (0..400).step_by(2).map(|n| format!("key{n:03}")).collect();
            for _ in 0..100 {
                cf.multi_get(&keys)
                    .into_iter()
                    .for_each(|v| drop(v.unwrap()));
            }
        }
        read_in_vain(&world, &cf, if multi { 1 } else { 20_000 });
        let mut found = levels(&cf);
        found.dedup();
        found
    };
    // On average 20 of 20,000 reads are counted, for 1024 each; the table has some kilobytes.
    for multi in [false, true] {
        assert_eq!(levels_of("", "0.0000001", multi), [6]);
        assert_eq!(levels_of("", "0", multi), [0, 6]);
        assert_eq!(levels_of("", "1000000", multi), [0, 6]);
    }
    assert_eq!(levels_of(UNIVERSAL, "0.0000001", false), [6]);
    assert_eq!(levels_of(UNIVERSAL, "0", false), [0, 6]);
}

#[test]
fn deletions_that_iterators_meet_count_as_reads_in_vain() {
    let (world, db) = two_levels(
        "read_triggered_compaction_threshold=0.0000001 target_file_size_base=1000000 \
         max_bytes_for_level_base=1000000 level_compaction_dynamic_level_bytes=false",
    );
    let cf = db.default_cf();
    let move_all = |from: usize, to: usize| {
        let files = cf.live_files();
        let files = files.iter().filter(|f| f.level <= from);
        let numbers: Vec<u64> = files.map(|f| f.number).collect();
        cf.compact_files(&numbers, to, &CompactFilesOptions::default())
            .unwrap();
        world.settle();
    };
    move_all(6, 2);
    assert_eq!(levels(&cf), [2]);
    // Deletions a level above, which no size asks to go down.
    for n in 0..200 {
        cf.delete(format!("key{n:03}")).unwrap();
    }
    cf.flush(true).unwrap();
    move_all(0, 1);
    assert_eq!(levels(&cf), [1, 2]);
    for _ in 0..8_000 {
        let mut c = cf.cursor(ReadOptions::new());
        assert!(c.seek_to_first().unwrap());
        assert_eq!(c.key(), b"key200");
    }
    look_at_files(&world, &cf);
    assert_eq!(levels(&cf), [2]);
}

#[test]
fn tables_under_a_range_tombstone_are_dropped_without_reading_them() {
    // Bytes that the compaction reads, and keys that are left.
    let compacted = |begin: u64, end: u64, snapshot: bool| {
        let statistics = Arc::new(Statistics::new());
        let (env, ..) = Env::test(Arc::new(MemFs::new()), 3);
        let db = Db::builder("/db").create_if_missing(true).no_info_log();
        let mut o = CfOptions::default();
        o.target_file_size_base = 4 << 10;
        let db = db.env(env).cf_options(o).statistics(statistics.clone());
        let db = db.open().unwrap();
        let cf = db.default_cf();
        let key = |n: u64| format!("key{n:05}");
        for n in 0..2000 {
            cf.put(key(n), format!("{:0100}", n * 7919)).unwrap();
        }
        cf.flush(true).unwrap();
        cf.compact_range(None, None).unwrap();
        let kept = snapshot.then(|| db.snapshot());
        cf.delete_range(key(begin), key(end)).unwrap();
        // Something to merge with at both ends.
        cf.put(key(0), "first").unwrap();
        cf.put(key(1999), "last").unwrap();
        cf.flush(true).unwrap();
        let read = || statistics.ticker(Ticker::LastLevelReadBytes);
        let before = read();
        let options = CompactRangeOptions {
            bottommost: BottommostCompaction::Force,
            ..CompactRangeOptions::default()
        };
        cf.compact_range_opt(None, None, &options).unwrap();
        let read = read() - before;
        let left = cf.iter().map(Result::unwrap).count() as u64;
        assert_eq!(left, 2000 - (end.min(1999) - begin.max(1)));
        if let Some(snapshot) = kept {
            let old = cf.iter_opt(ReadOptions::new().snapshot(&snapshot));
            assert_eq!(old.map(Result::unwrap).count(), 2000);
        }
        read
    };
    let all = compacted(5, 6, false);
    let few = compacted(0, 2000, false);
    assert!(few * 4 < all, "{few} of {all}");
    // A snapshot sees what is deleted.
    assert!(compacted(0, 2000, true) > all / 2);
}

/// Counts what it is shown, and keeps it.
#[derive(Default)]
struct Shown(AtomicU64);

impl CompactionFilter for Shown {
    fn name(&self) -> &str {
        "test.Shown"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: FilterValue<'_>) -> FilterDecision {
        self.0.fetch_add(1, Ordering::Relaxed);
        FilterDecision::Keep
    }
}

#[test]
fn compaction_filters_are_shown_what_lies_under_a_range_tombstone() {
    let filter = Arc::new(Shown::default());
    let (env, ..) = Env::test(Arc::new(MemFs::new()), 3);
    let mut o = CfOptions::default();
    o.target_file_size_base = 4 << 10;
    let db = Db::builder("/db").create_if_missing(true).no_info_log();
    let db = db.env(env).cf_options(o).compaction_filter(filter.clone());
    let db = db.open().unwrap();
    let cf = db.default_cf();
    let key = |n: u64| format!("key{n:05}");
    for n in 0..2000 {
        cf.put(key(n), format!("{:0100}", n * 7919)).unwrap();
    }
    cf.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    cf.delete_range(key(0), key(2000)).unwrap();
    cf.put(key(0), "first").unwrap();
    cf.put(key(1999), "last").unwrap();
    cf.flush(true).unwrap();
    let before = filter.0.load(Ordering::Relaxed);
    cf.compact_range(None, None).unwrap();
    assert_eq!(filter.0.load(Ordering::Relaxed) - before, 2000);
    assert_eq!(cf.iter().map(Result::unwrap).count(), 2);
}
