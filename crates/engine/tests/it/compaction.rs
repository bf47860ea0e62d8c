//! Manual compactions and their options, subcompactions, files dropped by range.

use spanlith::listener::CompactionInfo;
use spanlith::options::{
    BlockBasedTableOptions, CfOptions, CompactionPri, CompressionType, DbOptions,
};
use spanlith::{
    BottommostCompaction, Cf, CompactFilesOptions, CompactRangeOptions, CompactionFilter,
    CompactionFilterFactory, Db, ErrorKind, EventListener, FilterContext, FlushOptions, LiveFile,
    SubCode, WriteBatch,
};
use spanlith_env::{Env, FsOp, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) fn small() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 64 << 10;
    cf.target_file_size_base = 16 << 10;
    cf.max_bytes_for_level_base = 64 << 10;
    cf.disable_auto_compactions = true;
    cf
}

pub(crate) fn open_with(dir: &Path, cf: CfOptions) -> Db {
    Db::builder(dir)
        .create_if_missing(true)
        .no_info_log()
        .cf_options(cf)
        .open()
        .unwrap()
}

pub(crate) fn keys(cf: &Cf) -> String {
    let all = cf.iter().map(|e| e.unwrap().0.into_vec());
    all.map(|k| String::from_utf8(k).unwrap())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Files per level, up to the deepest that has any.
pub(crate) fn shape(cf: &Cf) -> String {
    let counts: Vec<String> = (0..7)
        .map(|l| {
            let name = format!("rocksdb.num-files-at-level{l}");
            cf.property(&name).unwrap()
        })
        .collect();
    counts.join(" ").trim_end_matches(" 0").to_string()
}

fn force() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost: BottommostCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

fn fill(cf: &Cf, rounds: u32, seed: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rng = spanlith_testkit::Rng::new(spanlith_testkit::seed(seed));
    let mut model = BTreeMap::new();
    for _ in 0..rounds {
        for _ in 0..400 {
            let key = format!("{:06}", rng.next_u64() % 5000).into_bytes();
            let mut value = vec![0; 100];
            for chunk in value.chunks_mut(8) {
                chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
            }
            cf.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        cf.flush(true).unwrap();
    }
    model
}

fn assert_same(cf: &Cf, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let got: Vec<_> = cf
        .iter()
        .map(|e| e.map(|(k, v)| (k.into_vec(), v.into_vec())).unwrap())
        .collect();
    let want: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(got == want, "{} entries, want {}", got.len(), want.len());
}

/// Counts the parts of compactions: each of them asks for a filter.
#[derive(Default)]
struct Parts(AtomicUsize);

impl CompactionFilterFactory for Parts {
    fn name(&self) -> &str {
        "test.Parts"
    }

    fn create(&self, _: &FilterContext) -> Option<Box<dyn CompactionFilter>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Returns what compacting everything in so many parts came to: contents of level 6 as far as they do not depend
/// on where tables are cut, and what the statistics say.
fn compacted_in(max_subcompactions: u32) -> (Vec<u64>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let parts = Arc::new(Parts::default());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .no_info_log()
        .cf_options(small())
        .compaction_filter_factory(parts.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    let model = fill(&cf, 6, "a_split_compaction");
    let before = parts.0.load(Ordering::Relaxed);
    let options = CompactRangeOptions {
        max_subcompactions,
        bottommost: BottommostCompaction::Skip,
        ..CompactRangeOptions::default()
    };
    cf.compact_range_opt(None, None, &options).unwrap();
    assert_same(&cf, &model);
    let ran = parts.0.load(Ordering::Relaxed) - before;
    let stats = cf.map_property("rocksdb.cfstats").unwrap();
    let number = |name: &str| {
        let text = &stats[&format!("compaction.{name}")];
        text.parse::<f64>().unwrap() as u64
    };
    assert_eq!(number("L6.CompCount"), 1);
    assert_eq!(number("L0.CompCount"), 6);
    assert!(number("L6.KeyDrop") > 0);
    assert_eq!(
        number("L6.KeyIn"),
        model.len() as u64 + number("L6.KeyDrop")
    );
    let files = cf.live_files();
    assert!(files.iter().all(|f| f.level == 6));
    let sum = |of: fn(&LiveFile) -> u64| files.iter().map(of).sum::<u64>();
    let facts = vec![
        number("L6.KeyIn"),
        number("L6.KeyDrop"),
        sum(|f| f.entries),
        sum(|f| f.deletions),
        files.iter().map(|f| f.smallest_seqno).min().unwrap(),
        files.iter().map(|f| f.largest_seqno).max().unwrap(),
    ];
    cf.compact_range_opt(None, None, &force()).unwrap();
    assert_same(&cf, &model);
    (facts, ran)
}

#[test]
fn a_split_compaction_writes_what_a_whole_one_does() {
    let (whole, one) = compacted_in(1);
    let (split, several) = compacted_in(4);
    assert_eq!(split, whole);
    assert_eq!((one, several), (1, 4));
}

/// Hears of compactions and their parts.
#[derive(Default)]
struct Heard(Mutex<Vec<(&'static str, CompactionInfo)>>);

impl EventListener for Heard {
    fn on_compaction_begin(&self, info: &CompactionInfo) {
        self.0.lock().unwrap().push(("begin", info.clone()));
    }
    fn on_compaction_completed(&self, info: &CompactionInfo) {
        self.0.lock().unwrap().push(("end", info.clone()));
    }
    fn on_subcompaction_begin(&self, info: &CompactionInfo) {
        self.0.lock().unwrap().push(("begin part", info.clone()));
    }
    fn on_subcompaction_completed(&self, info: &CompactionInfo) {
        self.0.lock().unwrap().push(("end part", info.clone()));
    }
}

/// A database with small memtables, and what its listener hears.
fn heard_in(dir: &Path) -> (Db, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let db = Db::builder(dir)
        .create_if_missing(true)
        .no_info_log()
        .cf_options(small())
        .listener(heard.clone())
        .open()
        .unwrap();
    (db, heard)
}

#[test]
fn listeners_hear_of_every_part_of_a_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let (db, heard) = heard_in(dir.path());
    let cf = db.default_cf();
    fill(&cf, 6, "listeners_hear_of_every_part");
    let options = CompactRangeOptions {
        max_subcompactions: 4,
        bottommost: BottommostCompaction::Skip,
        ..CompactRangeOptions::default()
    };
    cf.compact_range_opt(None, None, &options).unwrap();
    let heard = heard.0.lock().unwrap();
    assert_eq!((heard[0].0, heard[heard.len() - 1].0), ("begin", "end"));
    let whole = &heard[heard.len() - 1].1;
    assert_eq!((whole.base_input_level, whole.output_level), (0, 6));
    let parts = |what: &str| {
        let mut parts: Vec<&CompactionInfo> =
            heard.iter().filter(|h| h.0 == what).map(|h| &h.1).collect();
        parts.sort_by_key(|info| info.subcompaction);
        parts
    };
    for what in ["begin part", "end part"] {
        let numbers: Vec<u64> = parts(what).iter().map(|p| p.subcompaction).collect();
        assert_eq!(numbers, [0, 1, 2, 3], "{what}");
        for part in parts(what) {
            assert_eq!((part.job, part.cf_id), (whole.job, whole.cf_id));
            assert_eq!((part.base_input_level, part.output_level), (0, 6));
            assert_eq!(part.reason, whole.reason);
            assert!(part.result.is_ok());
        }
    }
    let ended = parts("end part");
    let sum = |of: fn(&CompactionInfo) -> u64| ended.iter().map(|p| of(p)).sum::<u64>();
    assert_eq!(sum(|i| i.stats.input_records), whole.stats.input_records);
    assert_eq!(sum(|i| i.stats.output_records), whole.stats.output_records);
    let files: Vec<_> = ended.iter().flat_map(|p| p.output_files.clone()).collect();
    assert_eq!(files, whole.output_files);
    assert_eq!(heard[0].1.stats.input_bytes, whole.stats.input_bytes);
}

#[test]
fn listeners_hear_of_a_move_as_of_a_compaction_without_parts() {
    let dir = tempfile::tempdir().unwrap();
    let (db, heard) = heard_in(dir.path());
    let cf = db.default_cf();
    cf.put("a", "b").unwrap();
    cf.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    let heard = heard.0.lock().unwrap();
    let kinds: Vec<&str> = heard.iter().map(|h| h.0).collect();
    assert_eq!(kinds, ["begin", "end"]);
    let (begin, end) = (&heard[0].1, &heard[1].1);
    assert_eq!((begin.input_files.len(), begin.output_files.len()), (1, 0));
    assert_eq!(end.output_files, end.input_files);
    assert_eq!((begin.job, begin.output_level), (end.job, end.output_level));
    assert!(end.result.is_ok() && end.stats.input_bytes == 0);
}

#[test]
fn files_that_take_turns_are_remembered_in_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.compaction_pri = CompactionPri::RoundRobin;
    options.level_compaction_dynamic_level_bytes = false;
    options.disable_auto_compactions = false;
    options.level0_file_num_compaction_trigger = 2;
    let open = || open_with(dir.path(), options.clone());
    let db = open();
    let cf = db.default_cf();
    let model = fill(&cf, 12, "files_that_take_turns");
    db.wait_idle(None).unwrap();
    assert_same(&cf, &model);
    let before = shape(&cf);
    assert!(before.split(' ').count() > 2, "{before}");
    drop((cf, db));
    let db = open();
    let cf = db.default_cf();
    db.wait_idle(None).unwrap();
    assert_eq!(shape(&cf), before);
    let cursors = cf.compact_cursors();
    assert!(cursors.contains_key(&1), "{cursors:?}");
    assert_same(&cf, &model);
}

#[test]
fn a_manual_compaction_can_leave_its_files_in_another_level() {
    let dir = tempfile::tempdir().unwrap();
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    db.flush(true).unwrap();
    let to = |target_level| CompactRangeOptions {
        change_level: true,
        target_level,
        exclusive: true,
        ..CompactRangeOptions::default()
    };
    cf.compact_range_opt(None, None, &to(Some(2))).unwrap();
    assert_eq!(shape(&cf), "0 0 1");
    let e = cf.compact_range_opt(None, None, &to(Some(9))).unwrap_err();
    assert_eq!(
        (e.kind(), e.message()),
        (
            ErrorKind::InvalidArgument,
            "Target level exceeds number of levels"
        )
    );
    assert_eq!(keys(&cf), "a");
    drop((cf, db));
    let db = open_with(dir.path(), small());
    assert_eq!(keys(&db.default_cf()), "a");
}

/// Holds manual compactions until it is let go, and hears of all.
#[derive(Default)]
struct Held {
    heard: Mutex<Vec<(&'static str, String)>>,
    is_free: AtomicBool,
}

impl Held {
    fn note(&self, what: &'static str, info: &CompactionInfo) {
        let family = info.cf_name.clone();
        self.heard.lock().unwrap().push((what, family));
    }

    fn wait_for(&self, what: &'static str, family: &str) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let wanted = (what, family.to_string());
        while !self.heard.lock().unwrap().contains(&wanted) {
            if std::time::Instant::now() > deadline {
                // Else the test would wait for the compaction that it holds.
                self.is_free.store(true, Ordering::Relaxed);
                panic!("not heard: {wanted:?}");
            }
            std::thread::yield_now();
        }
    }
}

impl EventListener for Held {
    fn on_compaction_begin(&self, info: &CompactionInfo) {
        self.note("begin", info);
        while info.cf_name == "default" && !self.is_free.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
    fn on_compaction_completed(&self, info: &CompactionInfo) {
        self.note("end", info);
    }
}

#[test]
fn automatic_compactions_wait_for_an_exclusive_manual_one_and_for_no_other() {
    for exclusive in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let held = Arc::new(Held::default());
        let mut several = DbOptions::default();
        (several.create_if_missing, several.max_background_jobs) = (true, 8);
        let db = Db::builder(dir.path())
            .options(several)
            .cf_options(small())
            .listener(held.clone())
            .open()
            .unwrap();
        let automatic = CfOptions::default().level0_file_num_compaction_trigger(1);
        let family = spanlith::FamilyOptions::new("other").options(automatic);
        let (cf, other) = (db.default_cf(), db.create_cf(family).unwrap());
        for _ in 0..2 {
            cf.put("a", "1").unwrap();
            cf.put("b", "1").unwrap();
            cf.flush(true).unwrap();
        }
        let options = CompactRangeOptions {
            exclusive,
            ..CompactRangeOptions::default()
        };
        std::thread::scope(|scope| {
            let manual = scope.spawn(|| cf.compact_range_opt(None, None, &options));
            held.wait_for("begin", "default");
            // So many that a second job is worth it.
            for _ in 0..4 {
                other.put("a", "1").unwrap();
                other.flush(true).unwrap();
            }
            if !exclusive {
                held.wait_for("end", "other");
            }
            held.is_free.store(true, Ordering::Relaxed);
            manual.join().unwrap().unwrap();
        });
        held.wait_for("end", "other");
        let heard = held.heard.lock().unwrap();
        let place = |what| heard.iter().position(|h| *h == what).unwrap();
        let manual_ended = place(("end", "default".to_string()));
        let other_began = place(("begin", "other".to_string()));
        assert_eq!(manual_ended < other_began, exclusive, "{heard:?}");
    }
}

/// One more file of level 0 would delay writers: a flush, or the one that a manual compaction begins with, waits for
/// the compaction that runs, unless it is told not to care.
#[test]
fn flushes_and_manual_compactions_stall_writers_only_if_they_may() {
    for (allow_write_stall, is_flush) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let held = Arc::new(Held::default());
        let mut several = DbOptions::default();
        (several.create_if_missing, several.max_background_jobs) = (true, 8);
        let mut options = CfOptions::default().level0_file_num_compaction_trigger(2);
        options.level0_slowdown_writes_trigger = 3;
        let db = Db::builder(dir.path())
            .options(several)
            .cf_options(options)
            .listener(held.clone())
            .open()
            .unwrap();
        let cf = db.default_cf();
        for key in ["a", "b"] {
            cf.put(key, "1").unwrap();
            cf.put("c", "1").unwrap();
            cf.flush(true).unwrap();
        }
        held.wait_for("begin", "default");
        cf.put("a", "2").unwrap();
        let options = CompactRangeOptions {
            allow_write_stall,
            ..CompactRangeOptions::default()
        };
        let level0 = || shape(&cf).split(' ').next().unwrap().to_string();
        std::thread::scope(|scope| {
            let manual = scope.spawn(|| match is_flush {
                true => cf.flush_opt(FlushOptions {
                    wait: false,
                    allow_write_stall,
                    ..FlushOptions::default()
                }),
                false => cf.compact_range_opt(None, None, &options),
            });
            let wait = std::time::Duration::from_secs(if allow_write_stall { 60 } else { 1 });
            let deadline = std::time::Instant::now() + wait;
            while level0() == "2" && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            let files = level0();
            held.is_free.store(true, Ordering::Relaxed);
            manual.join().unwrap().unwrap();
            assert_eq!(files, if allow_write_stall { "3" } else { "2" });
        });
        assert_eq!(cf.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    }
}

#[test]
fn a_manual_compaction_that_is_called_off_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    cf.put("a", "1").unwrap();
    let paused = |result: spanlith::Result<()>| {
        let e = result.unwrap_err();
        (e.kind(), e.subcode()) == (ErrorKind::Incomplete, Some(SubCode::ManualCompactionPaused))
    };
    db.disable_manual_compaction();
    assert!(paused(cf.compact_range(None, None)));
    db.enable_manual_compaction();
    let canceled = CompactRangeOptions {
        canceled: Some(Arc::new(AtomicBool::new(true))),
        ..CompactRangeOptions::default()
    };
    assert!(paused(cf.compact_range_opt(None, None, &canceled)));
    cf.compact_range(None, None).unwrap();
    assert_eq!(shape(&cf), "0 0 0 0 0 0 1");
}

#[test]
fn named_files_are_compacted_together_with_what_must_go_along() {
    let dir = tempfile::tempdir().unwrap();
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    for round in 0..3 {
        cf.put("k", format!("{round}")).unwrap();
        db.flush(true).unwrap();
    }
    let newest = cf.tables().iter().map(|f| f.1.number).max().unwrap();
    let options = CompactFilesOptions::default();
    let made = cf.compact_files(&[newest], 1, &options).unwrap();
    assert_eq!(made.len(), 1);
    assert_eq!(shape(&cf), "0 1", "older files of level 0 went along");
    assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"2"[..]));
    let e = cf.compact_files(&[newest], 1, &options).unwrap_err();
    let name = format!("/{newest:06}.sst");
    assert_eq!(
        (e.kind(), e.message()),
        (
            ErrorKind::InvalidArgument,
            &*format!(
                "Specified compaction input file {name} does not exist in column family default."
            )
        )
    );
    let e = cf.compact_files(&made, 0, &options).unwrap_err();
    assert!(
        e.message()
            .starts_with("Cannot compact file to up level, input file: /0"),
        "{e}"
    );
    let e = cf.compact_files(&made, 7, &options).unwrap_err();
    assert_eq!(
        e.message(),
        "Output level for column family default must between [0, 6]."
    );
}

#[test]
fn files_wholly_in_a_range_are_dropped_without_looking_at_their_keys() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let dir = tempfile::tempdir().unwrap();
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    let model = fill(&cf, 6, "files_wholly_in_a_range");
    cf.compact_range(None, None).unwrap();
    let before: u64 = shape(&cf)
        .split(' ')
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    db.disable_file_deletions();
    cf.delete_files_in_ranges(&[(Some(b"001000"), Some(b"003000"))], true)
        .unwrap();
    let after: u64 = shape(&cf)
        .split(' ')
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    assert!(after > 0 && after + 2 < before, "{before} {after}");
    let tables = || {
        let names = std::fs::read_dir(dir.path()).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.ends_with(".sst")).count() as u64
    };
    assert!(tables() > after, "deletions are disabled");
    db.enable_file_deletions();
    assert_eq!(tables(), after);
    let outside = |k: &[u8]| k < b"001000" || k > b"003000";
    for (key, value) in model.iter().filter(|(k, _)| outside(k)) {
        assert_eq!(cf.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

#[test]
fn a_named_table_is_deleted_where_nothing_older_lies_below() {
    let dir = tempfile::tempdir().unwrap();
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    let names = || {
        let tables = cf.tables().into_iter();
        tables
            .map(|(level, file)| (level, format!("/{:06}.sst", file.number)))
            .collect::<Vec<_>>()
    };
    for value in ["old", "new"] {
        cf.put("key", value).unwrap();
        cf.put(value, value).unwrap();
        cf.flush(true).unwrap();
    }
    let [(0, newest), (0, oldest)] = &names()[..] else {
        panic!("{:?}", names());
    };
    for (name, why) in [
        ("000999.sst", "File not found: 000999.sst"),
        ("nonsense", "Invalid file name: nonsense"),
        ("000001.log", "Invalid file name: 000001.log"),
        (newest, "File in level 0, but not oldest"),
    ] {
        let e = db.delete_table_file(name).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().starts_with(why), "{e}");
    }
    db.delete_table_file(oldest).unwrap();
    assert_eq!(cf.get("old").unwrap(), None);
    assert_eq!(cf.get("key").unwrap().as_deref(), Some(&b"new"[..]));
    cf.compact_range(None, None).unwrap();
    cf.put("late", "v").unwrap();
    cf.flush(true).unwrap();
    let (level, upper) = names()[0].clone();
    assert_eq!(level, 0);
    let e = db.delete_table_file(&upper).unwrap_err();
    assert!(e.message().starts_with("File not in last level"), "{e}");
    let (level, lower) = names()[1].clone();
    assert!(level > 0 && !dir.path().join(&oldest[1..]).exists());
    db.delete_table_file(&lower).unwrap();
    drop((cf, db));
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    assert_eq!(cf.get("key").unwrap(), None);
    assert_eq!(cf.get("late").unwrap().as_deref(), Some(&b"v"[..]));
}

/// Holds C1.
#[test]
fn a_released_snapshot_lets_bottommost_files_shed_what_it_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.disable_auto_compactions = false;
    let db = open_with(dir.path(), options);
    let cf = db.default_cf();
    cf.put("k", "old").unwrap();
    let snapshot = db.snapshot();
    cf.put("k", "new").unwrap();
    cf.compact_range(None, None).unwrap();
    db.wait_idle(None).unwrap();
    let entries = |cf: &Cf| cf.property("rocksdb.estimate-num-keys").unwrap();
    assert_eq!(entries(&cf), "2");
    // As RocksDB: what is visible must have passed the file.
    cf.put("other", "1").unwrap();
    drop(snapshot);
    db.wait_idle(None).unwrap();
    db.flush(true).unwrap();
    assert_eq!(entries(&cf), "2", "one of each");
}

#[test]
fn a_suggested_range_and_paused_work_go_on_when_they_are_let() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.disable_auto_compactions = false;
    let db = open_with(dir.path(), options);
    let cf = db.default_cf();
    cf.put("k", "1").unwrap();
    cf.compact_range(None, None).unwrap();
    cf.put("k", "2").unwrap();
    db.flush(true).unwrap();
    assert_eq!(shape(&cf), "1 0 0 0 0 0 1");
    db.pause_background_work().unwrap();
    cf.suggest_compact_range(None, None).unwrap();
    assert_eq!(shape(&cf), "1 0 0 0 0 0 1");
    db.continue_background_work().unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(shape(&cf), "0 0 0 0 0 0 1");
    let e = db.continue_background_work().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn outputs_are_cut_where_the_partitioners_prefix_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.sst_partitioner_factory = "{id=SstPartitionerFixedPrefixFactory;length=1;}".to_string();
    let db = open_with(dir.path(), options);
    let cf = db.default_cf();
    for key in ["a1", "a2", "b1", "c1", "c2"] {
        cf.put(key, "v").unwrap();
    }
    cf.flush(true).unwrap();
    let numbers: Vec<u64> = db.live_files().iter().map(|f| f.number).collect();
    let as_configured = CompactFilesOptions::default();
    cf.compact_files(&numbers, 0, &as_configured).unwrap();
    assert_eq!(shape(&cf), "1", "level 0 is in one piece");
    cf.compact_range(None, None).unwrap();
    assert_eq!(shape(&cf), "0 0 0 0 0 0 1", "a move into the last level");
    cf.compact_range_opt(None, None, &force()).unwrap();
    assert_eq!(shape(&cf), "0 0 0 0 0 0 3");
}

#[test]
fn named_tables_are_written_with_the_codec_that_is_asked_for() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let dir = tempfile::tempdir().unwrap();
    let db = open_with(dir.path(), small());
    let cf = db.default_cf();
    cf.put("k", [b'x'; 1000]).unwrap();
    cf.flush(true).unwrap();
    let named = |db: &Db| vec![db.live_files()[0].number];
    for (level, compression, mark) in [
        (1, Some(CompressionType::Zstd), "BuiltinV2;07;"),
        (2, Some(CompressionType::None), ""),
        (3, None, "BuiltinV2;04;"),
    ] {
        let options = CompactFilesOptions {
            compression,
            ..CompactFilesOptions::default()
        };
        cf.compact_files(&named(&db), level, &options).unwrap();
        let bytes = std::fs::read(&db.live_files()[0].path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let found = text.find("BuiltinV2;").map_or("", |at| &text[at..at + 13]);
        assert_eq!(found, mark, "level {level}");
    }
    let options = CompactFilesOptions {
        compression: Some(CompressionType::Xpress),
        ..CompactFilesOptions::default()
    };
    let e = cf.compact_files(&named(&db), 4, &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported);
}

/// Names of codecs in the properties of a table; nothing where none was at work.
fn codec_of(file: &LiveFile) -> String {
    let bytes = std::fs::read(&file.path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let name = text.find("BuiltinV2;").map(|at| &text[at..at + 13]);
    name.unwrap_or_default().to_string()
}

#[test]
fn outputs_have_the_codec_of_their_level_and_the_deepest_its_own() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let dir = tempfile::tempdir().unwrap();
    let mut options = small();
    options.level_compaction_dynamic_level_bytes = false;
    options.compression_per_level = vec![
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Lz4,
    ];
    options.bottommost_compression = CompressionType::Zstd;
    let db = open_with(dir.path(), options);
    let cf = db.default_cf();
    let mut seen = Vec::new();
    for level in [6, 2, 1, 0] {
        for _ in 0..2 {
            cf.put("a", [b'x'; 1000]).unwrap();
            cf.put("b", [b'x'; 1000]).unwrap();
            cf.flush(true).unwrap();
        }
        let files = cf.live_files();
        let top: Vec<u64> = (files.iter().filter(|f| f.level == 0))
            .map(|f| f.number)
            .collect();
        if level > 0 {
            let as_configured = CompactFilesOptions::default();
            cf.compact_files(&top, level, &as_configured).unwrap();
        }
        let files = cf.live_files();
        seen.push(codec_of(files.iter().find(|f| f.level == level).unwrap()));
    }
    // The last entry of the list holds for all levels below, the deepest has its own.
    assert_eq!(
        seen,
        ["BuiltinV2;07;", "BuiltinV2;04;", "BuiltinV2;01;", ""]
    );
}

#[test]
fn a_deletion_below_a_single_delete_is_an_error_only_if_the_contract_is_enforced() {
    for enforce in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = DbOptions::default();
        options.create_if_missing = true;
        options.enforce_single_del_contracts = enforce;
        let db = Db::builder(dir.path()).options(options).open().unwrap();
        let cf = db.default_cf();
        cf.put("k", "1").unwrap();
        cf.flush(true).unwrap();
        cf.delete("k").unwrap();
        cf.flush(true).unwrap();
        let mut batch = WriteBatch::new();
        // With a key on either side, so that the tables are rewritten, not moved.
        batch.single_delete("k").put("a", "1").put("z", "1");
        db.write(&batch).unwrap();
        cf.flush(true).unwrap();
        let compacted = cf.compact_range(None, None);
        match enforce {
            true => assert_eq!(compacted.unwrap_err().kind(), ErrorKind::Corruption),
            false => compacted.unwrap(),
        }
        assert_eq!(cf.get("k").unwrap(), None);
    }
}

#[test]
fn tables_of_the_last_level_have_no_filter_where_hits_are_expected() {
    for hits in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = CfOptions::default();
        options.optimize_filters_for_hits = hits;
        options.disable_auto_compactions = true;
        let mut table = BlockBasedTableOptions::default();
        table.filter_policy = "bloomfilter:10".into();
        let builder = Db::builder(dir.path()).create_if_missing(true);
        let builder = builder.cf_options(options).table_options(table);
        let db = builder.open().unwrap();
        let cf = db.default_cf();
        let filter_size = || {
            let text = cf.property("rocksdb.aggregated-table-properties").unwrap();
            let size = text
                .split("; ")
                .find_map(|p| p.strip_prefix("filter block size="));
            size.unwrap().parse::<u64>().unwrap()
        };
        for key in ["a", "b"] {
            cf.put(key, "1").unwrap();
            cf.put("z", key).unwrap();
            cf.flush(true).unwrap();
        }
        assert!(filter_size() > 0);
        cf.compact_range(None, None).unwrap();
        assert_eq!(filter_size() > 0, !hits);
        assert_eq!(cf.get("z").unwrap().as_deref(), Some(&b"b"[..]));
        assert_eq!(cf.get("c").unwrap(), None);
    }
}

#[test]
fn a_table_that_was_damaged_on_its_way_to_the_disk_is_found_before_it_is_recorded() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    for paranoid in [false, true] {
        let fs = MemFs::new();
        let damaged = fs.clone();
        fs.set_observer(Some(Arc::new(move |op: &FsOp| {
            if let FsOp::Sync { path } = op
                && path.extension().is_some_and(|e| e == "sst")
            {
                damaged.flip_bit(path, 20, 3).unwrap();
            }
        })));
        let mut options = CfOptions::default();
        options.paranoid_file_checks = paranoid;
        let env = Env {
            fs: Arc::new(fs),
            ..Env::system()
        };
        let builder = Db::builder("/db").create_if_missing(true).env(env);
        let db = builder.cf_options(options).open().unwrap();
        db.default_cf().put("some key", "some value").unwrap();
        let flushed = db.flush(true);
        match paranoid {
            true => assert_eq!(flushed.unwrap_err().kind(), ErrorKind::Corruption),
            false => flushed.unwrap(),
        }
    }
}
