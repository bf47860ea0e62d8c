//! Describes what listeners are told of jobs: numbers as RocksDB 11.8.1 tells them of the same operations, properties of
//! tables, and compactions that are given up.

use spanlith::listener::{CompactionInfo, CompactionStats, FlushInfo, MemtableInfo, TableFileInfo};
use spanlith::options::{CfOptions, CompressionType, DbOptions};
use spanlith::{
    Cf, CompactionFilter, Db, ErrorKind, EventListener, FamilyOptions, FilterDecision, FilterValue,
    SubCode, UInt64Add, WriteOptions,
};
use spanlith_env::{Env, FaultFs, FaultRule, MemFs, OpClass};
use spanlith_testkit::{TempDir, copy_dir, fixtures_dir};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps what it hears.
#[derive(Default)]
struct Heard {
    begun: Mutex<Vec<CompactionInfo>>,
    ended: Mutex<Vec<CompactionInfo>>,
    parts: Mutex<Vec<CompactionInfo>>,
    created: Mutex<Vec<TableFileInfo>>,
    sealed: Mutex<Vec<MemtableInfo>>,
    flush_threads: Mutex<Vec<(u64, u64)>>,
}

impl EventListener for Heard {
    fn on_compaction_begin(&self, info: &CompactionInfo) {
        self.begun.lock().unwrap().push(info.clone());
    }
    fn on_compaction_completed(&self, info: &CompactionInfo) {
        assert_eq!(info.thread_id, spanlith_env::thread_number());
        self.ended.lock().unwrap().push(info.clone());
    }
    fn on_subcompaction_completed(&self, info: &CompactionInfo) {
        assert_eq!(info.thread_id, spanlith_env::thread_number());
        self.parts.lock().unwrap().push(info.clone());
    }
    fn on_table_file_created(&self, info: &TableFileInfo) {
        self.created.lock().unwrap().push(info.clone());
    }
    fn on_memtable_sealed(&self, info: &MemtableInfo) {
        self.sealed.lock().unwrap().push(info.clone());
    }
    fn on_flush_completed(&self, info: &FlushInfo) {
        let threads = (info.thread_id, spanlith_env::thread_number());
        self.flush_threads.lock().unwrap().push(threads);
    }
}

impl Heard {
    fn last(&self) -> CompactionInfo {
        self.ended.lock().unwrap().last().unwrap().clone()
    }
}

/// Two levels at first, and nobody compacts by himself.
fn options() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.level_compaction_dynamic_level_bytes = false;
    cf.disable_auto_compactions = true;
    cf
}

struct World {
    dir: tempfile::TempDir,
    db: Db,
    heard: Arc<Heard>,
}

fn open(cf: FamilyOptions, db: DbOptions) -> World {
    let dir = tempfile::tempdir().unwrap();
    let heard = Arc::new(Heard::default());
    let builder = Db::builder(dir.path()).options(db).create_if_missing(true);
    let builder = builder.no_info_log().listener(heard.clone()).family(cf);
    let db = builder.open().unwrap();
    World { dir, db, heard }
}

fn plain() -> World {
    let family = FamilyOptions::new("default").options(options());
    open(family, DbOptions::default())
}

fn single_delete(cf: &Cf, key: &str) {
    cf.single_delete_opt(key, &WriteOptions::default()).unwrap();
}

fn flush(cf: &Cf) {
    cf.flush(true).unwrap();
}

/// Without what depends on sizes of files and on time.
fn settled(mut stats: CompactionStats) -> CompactionStats {
    stats.elapsed_micros = 0;
    stats.cpu_micros = 0;
    stats.input_bytes = 0;
    stats.output_bytes = 0;
    stats
}

#[test]
fn a_compaction_says_what_it_read_dropped_and_wrote() {
    let family = FamilyOptions::new("default").options(options());
    let family = family.merge_operator(Arc::new(UInt64Add));
    let w = open(family, DbOptions::default());
    let cf = w.db.default_cf();
    for (key, value) in [
        ("alpha", "1"),
        ("beta-long-key", "2"),
        ("gamma", "3"),
        ("s1", "x"),
        ("delta", "4"),
    ] {
        cf.put(key, value).unwrap();
    }
    cf.merge("m", "12345678").unwrap();
    cf.put("pair", "y").unwrap();
    cf.delete("nothing").unwrap();
    flush(&cf);
    cf.put("alpha", "11").unwrap();
    cf.delete("gamma").unwrap();
    single_delete(&cf, "s1");
    single_delete(&cf, "s2-none");
    cf.merge("m", "12345678").unwrap();
    cf.put("zeta-longer-than-8", "9").unwrap();
    cf.delete("pair").unwrap();
    single_delete(&cf, "delta");
    cf.put("delta", "again").unwrap();
    cf.delete_range("b", "c").unwrap();
    flush(&cf);
    cf.compact_range(None, None).unwrap();
    let (begin, end) = (w.heard.begun.lock().unwrap()[0].clone(), w.heard.last());
    let inputs = CompactionStats {
        input_files: 2,
        is_full: true,
        is_manual: true,
        ..CompactionStats::default()
    };
    assert_eq!(settled(begin.stats.clone()), inputs);
    assert_eq!(begin.stats.input_bytes, end.stats.input_bytes);
    // 18 entries, one of which is a range tombstone. Not looked at for themselves are the values of `s1` and
    // of `delta` and the older operand of `m`: 32 bytes of keys and 10 of values.
    let expected = CompactionStats {
        input_records: 17,
        input_key_bytes: 198,
        input_value_bytes: 20,
        input_deletions: 6,
        output_records: 4,
        output_files: 1,
        replaced_records: 6,
        expired_deletions: 7,
        single_deletes_of_nothing: 1,
        smallest_output_prefix: b"alpha".to_vec(),
        largest_output_prefix: b"zeta-lon".to_vec(),
        ..inputs
    };
    assert_eq!(settled(end.stats.clone()), expected);
    let size = |number| {
        let files = cf.live_files();
        files.iter().find(|f| f.number == number).unwrap().size
    };
    assert_eq!(
        end.stats.output_bytes,
        size(end.output_file_infos[0].number)
    );
    let part = w.heard.parts.lock().unwrap()[0].stats.clone();
    assert_eq!((part.input_records, part.replaced_records), (17, 6));
    assert_eq!(part.cpu_micros, end.stats.cpu_micros);

    cf.put("alpha", "12").unwrap();
    cf.delete("zeta-longer-than-8").unwrap();
    flush(&cf);
    cf.compact_range(None, None).unwrap();
    let stats = w.heard.last().stats;
    let at_output = (stats.input_files, stats.input_files_at_output_level);
    assert_eq!(at_output, (2, 1));
    assert_eq!(
        w.heard.begun.lock().unwrap()[1]
            .stats
            .input_files_at_output_level,
        0
    );
    assert_eq!(stats.largest_output_prefix, b"m");
}

#[test]
fn a_move_is_told_with_its_files_only() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let w = plain();
    let cf = w.db.default_cf();
    cf.put("a", "1").unwrap();
    flush(&cf);
    cf.compact_range(None, None).unwrap();
    let end = w.heard.last();
    let expected = CompactionStats {
        input_files: 1,
        moved_files: 1,
        ..CompactionStats::default()
    };
    assert_eq!(end.stats, expected);
    let paths: Vec<_> = end.table_properties.iter().map(|t| t.0.clone()).collect();
    assert_eq!(paths, end.input_files, "one table, told once");
    assert_eq!(end.output_files, end.input_files);
}

#[test]
fn what_a_deletion_passes_over_at_the_bottom_is_not_counted() {
    let w = plain();
    let cf = w.db.default_cf();
    cf.put("a", "old").unwrap();
    cf.put("b", "old").unwrap();
    single_delete(&cf, "q");
    flush(&cf);
    let snapshot = w.db.snapshot();
    for (key, value) in [("a", "mid1"), ("c", "mid"), ("q", "mid")] {
        cf.put(key, value).unwrap();
    }
    flush(&cf);
    cf.put("a", "mid2").unwrap();
    cf.put("c", "mid2").unwrap();
    flush(&cf);
    for key in ["a", "c", "b"] {
        cf.delete(key).unwrap();
    }
    single_delete(&cf, "q");
    flush(&cf);
    cf.compact_range(None, None).unwrap();
    drop(snapshot);
    let s = w.heard.last().stats;
    assert_eq!((s.input_records, s.output_records), (12, 4));
    assert_eq!((s.input_key_bytes, s.input_value_bytes), (63, 6));
    assert_eq!((s.replaced_records, s.expired_deletions), (1, 2));
    assert_eq!((s.input_deletions, s.single_deletes_of_nothing), (5, 1));
}

#[test]
fn single_deletes_that_meet_other_deletions_are_mismatches() {
    let mut db = DbOptions::default();
    db.enforce_single_del_contracts = false;
    let family = FamilyOptions::new("default").options(options());
    let w = open(family, db);
    let cf = w.db.default_cf();
    cf.delete("b").unwrap();
    single_delete(&cf, "c");
    cf.put("d", "1").unwrap();
    flush(&cf);
    single_delete(&cf, "b");
    single_delete(&cf, "c");
    single_delete(&cf, "d");
    flush(&cf);
    cf.compact_range(None, None).unwrap();
    let s = w.heard.last().stats;
    let singles = (s.single_deletes_mismatched, s.single_deletes_of_nothing);
    assert_eq!(singles, (2, 1));
    assert_eq!((s.input_records, s.output_files), (6, 0));
}

#[test]
fn tables_are_told_with_their_properties_by_path() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let w = plain();
    let cf = w.db.default_cf();
    for round in ["1", "2"] {
        cf.put("a", round).unwrap();
        cf.put(format!("b{round}"), round).unwrap();
        flush(&cf);
    }
    cf.compact_range(None, None).unwrap();
    let end = w.heard.last();
    let told: Vec<_> = end.table_properties.iter().collect();
    let paths: Vec<_> = told.iter().map(|t| t.0.clone()).collect();
    let expected: Vec<_> = end
        .output_files
        .iter()
        .chain(&end.input_files)
        .cloned()
        .collect();
    assert_eq!(paths, expected);
    assert!(paths.iter().all(|p| p.starts_with(w.dir.path())));
    let entries: Vec<u64> = told.iter().map(|t| t.1.num_entries).collect();
    assert_eq!(entries, [3, 2, 2]);
    let created = w.heard.created.lock().unwrap();
    let created = created.last().unwrap();
    assert_eq!(
        (&created.path, created.properties.num_entries),
        (&paths[0], 3)
    );
    let (told, here) = w.heard.flush_threads.lock().unwrap()[0];
    assert_eq!(told, here);
}

#[test]
fn times_of_writes_are_told_if_they_are_asked_for() {
    for asked in [false, true] {
        let mut cf = options();
        cf.report_bg_io_stats = asked;
        let family = FamilyOptions::new("default").options(cf);
        let w = open(family, DbOptions::default());
        let cf = w.db.default_cf();
        for _ in 0..2 {
            cf.put("a", "1").unwrap();
            cf.put("b", "1").unwrap();
            flush(&cf);
        }
        cf.compact_range(None, None).unwrap();
        let s = w.heard.last().stats;
        assert_eq!(s.file_write_nanos > 0, asked);
        assert_eq!(s.file_sync_nanos > 0, asked);
        assert_eq!(s.file_prepare_nanos, 0, "no room is reserved");
    }
}

#[test]
fn a_compaction_that_fails_says_what_it_was_to_read() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let w = plain();
    let cf = w.db.default_cf();
    for key in ["b", "c"] {
        cf.put("a", "1").unwrap();
        cf.put(key, "1").unwrap();
        flush(&cf);
    }
    let newest = cf
        .live_files()
        .into_iter()
        .max_by_key(|f| f.number)
        .unwrap();
    let mut bytes = std::fs::read(&newest.path).unwrap();
    bytes[3] ^= 0xff;
    std::fs::write(&newest.path, bytes).unwrap();
    let e = cf.compact_range(None, None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    let end = w.heard.last();
    assert_eq!(end.result.unwrap_err().kind(), ErrorKind::Corruption);
    let s = &end.stats;
    assert_eq!(
        (s.input_records, s.output_records, s.output_files),
        (4, 0, 0)
    );
    assert_eq!((s.input_files, s.is_full, s.is_manual), (2, true, true));
    assert_eq!(end.table_properties.len(), 2, "the inputs");
    assert_eq!(w.heard.parts.lock().unwrap()[0].stats.input_records, 0);
}

#[test]
fn a_compaction_whose_edit_fails_is_told_as_failed() {
    let mem = Arc::new(MemFs::new());
    let (mut env, ..) = Env::test(mem.clone(), 7);
    let fs = Arc::new(FaultFs::new(mem));
    env.fs = fs.clone();
    let heard = Arc::new(Heard::default());
    let builder = Db::builder("/db").env(env).create_if_missing(true);
    let builder = builder.no_info_log().listener(heard.clone());
    let family = FamilyOptions::new("default").options(options());
    let db = builder.family(family).open().unwrap();
    let cf = db.default_cf();
    for key in ["b", "c"] {
        cf.put("a", "1").unwrap();
        cf.put(key, "1").unwrap();
        flush(&cf);
    }
    fs.add(FaultRule::fail(OpClass::Append, 1, 5).named("MANIFEST"));
    cf.compact_range(None, None).unwrap_err();
    assert_eq!(heard.begun.lock().unwrap().len(), 1);
    let end = heard.last();
    assert_eq!(end.result.unwrap_err().kind(), ErrorKind::Io);
    // Its parts went well, and nothing of it is there.
    assert!(heard.parts.lock().unwrap()[0].result.is_ok());
    assert_eq!((end.output_files.len(), end.stats.output_files), (0, 0));
    assert_eq!((end.stats.input_records, end.stats.output_records), (4, 0));
}

#[test]
fn the_newest_timestamp_of_a_memtable_is_told_if_its_table_leaves_timestamps_out() {
    for persist in [true, false] {
        let mut cf = options();
        cf.comparator = "leveldb.BytewiseComparator.u64ts".to_string();
        cf.persist_user_defined_timestamps = persist;
        let mut db = DbOptions::default();
        db.allow_concurrent_memtable_write = false;
        let w = open(FamilyOptions::new("default").options(cf), db);
        let cf = w.db.default_cf();
        let at = |n: u64| n.to_le_bytes();
        for (key, n) in [("b", 5u64), ("a", 300), ("c", 7)] {
            cf.put_at(key, &at(n), "v", &WriteOptions::default())
                .unwrap();
        }
        flush(&cf);
        let newest = w.heard.sealed.lock().unwrap()[0].newest_timestamp.clone();
        let expected = if persist {
            Vec::new()
        } else {
            at(300).to_vec()
        };
        assert_eq!(newest, expected);
    }
}

/// Looks at every value.
struct Keep;

impl CompactionFilter for Keep {
    fn name(&self) -> &str {
        "Keep"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: FilterValue<'_>) -> FilterDecision {
        FilterDecision::Keep
    }
}

#[test]
fn values_in_blob_files_that_a_compaction_reads_are_counted() {
    for filtered in [false, true] {
        let temp = TempDir::new("job-stats");
        let dir = temp.path().join("db");
        copy_dir(fixtures_dir().join("best-efforts/blobs"), &dir);
        let heard = Arc::new(Heard::default());
        let mut family = FamilyOptions::new("default").options(options());
        if filtered {
            family = family.compaction_filter(Arc::new(Keep));
        }
        let builder = Db::builder(&dir).no_info_log().listener(heard.clone());
        let db = builder.family(family).open().unwrap();
        let cf = db.default_cf();
        // With a newer key on either side, so that the tables are rewritten.
        cf.put("a", "1").unwrap();
        cf.put("z", "1").unwrap();
        flush(&cf);
        cf.compact_range(None, None).unwrap();
        let s = heard.last().stats;
        // Three records: 32 bytes, a key of 2 and a value of 24.
        let expected = if filtered { (3, 174) } else { (0, 0) };
        assert_eq!((s.blobs_read, s.blob_bytes_read), expected);
    }
}

/// Says when it is first asked, and waits until it may go on.
struct Gate {
    asked: Mutex<Option<Sender<()>>>,
    goes_on: Mutex<Receiver<()>>,
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "Gate"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: FilterValue<'_>) -> FilterDecision {
        if let Some(asked) = self.asked.lock().unwrap().take() {
            asked.send(()).unwrap();
            self.goes_on.lock().unwrap().recv().unwrap();
        }
        FilterDecision::Keep
    }
}

fn aborted(result: spanlith::Result<()>) -> bool {
    result.is_err_and(|e| {
        let code = (e.kind(), e.subcode());
        code == (ErrorKind::Incomplete, Some(SubCode::CompactionAborted))
            && e.to_string() == "Result incomplete: All compactions aborted"
    })
}

#[test]
fn a_running_compaction_is_given_up_with_all_others_and_says_so() {
    let (asked, was_asked) = channel();
    let (go_on, goes_on) = channel();
    let family = FamilyOptions::new("default").options(options());
    let family = family.compaction_filter(Arc::new(Gate {
        asked: Mutex::new(Some(asked)),
        goes_on: Mutex::new(goes_on),
    }));
    let w = open(family, DbOptions::default());
    let cf = w.db.default_cf();
    for _ in 0..2 {
        for n in 0..100 {
            cf.put(format!("{n:03}"), "1").unwrap();
        }
        flush(&cf);
    }
    std::thread::scope(|scope| {
        let running = scope.spawn(|| cf.compact_range(None, None));
        was_asked.recv().unwrap();
        let aborting = scope.spawn(|| w.db.abort_compactions());
        // Nothing says that the call has begun but that others are refused; a named file that does not exist
        // would be refused otherwise.
        let named = || cf.compact_files(&[999], 1, &Default::default()).map(drop);
        while !aborted(named()) {
            std::thread::yield_now();
        }
        assert!(!aborting.is_finished(), "it waits for the one that runs");
        go_on.send(()).unwrap();
        aborting.join().unwrap();
        assert!(aborted(running.join().unwrap()));
    });
    let end = w.heard.last();
    assert!(end.is_aborted());
    assert!(aborted(end.result.clone()));
    assert_eq!((end.stats.input_records, end.stats.output_files), (200, 0));
    assert_eq!(cf.property("rocksdb.num-files-at-level0").unwrap(), "2");
    assert_eq!(cf.property("rocksdb.background-errors").unwrap(), "0");
    w.db.resume_compactions();
    cf.compact_range(None, None).unwrap();
    assert!(!w.heard.last().is_aborted());
    assert_eq!(cf.property("rocksdb.num-files-at-level0").unwrap(), "0");
}

#[test]
fn aborts_of_all_compactions_count_and_what_was_due_is_done_afterwards() {
    let mut cf = options();
    cf.disable_auto_compactions = false;
    cf.level0_file_num_compaction_trigger = 2;
    let w = open(
        FamilyOptions::new("default").options(cf),
        DbOptions::default(),
    );
    let cf = w.db.default_cf();
    // More often than aborted: nothing is owed.
    w.db.resume_compactions();
    w.db.abort_compactions();
    w.db.abort_compactions();
    w.db.resume_compactions();
    for _ in 0..3 {
        cf.put("a", "1").unwrap();
        flush(&cf);
    }
    assert!(aborted(cf.compact_range(None, None)));
    // As in RocksDB, work that is due is waited for.
    let waited = w.db.wait_idle(Some(Duration::ZERO)).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::TimedOut);
    assert_eq!(cf.property("rocksdb.num-files-at-level0").unwrap(), "3");
    w.db.resume_compactions();
    w.db.wait_idle(None).unwrap();
    assert_eq!(cf.property("rocksdb.num-files-at-level0").unwrap(), "0");
    // A database may be closed meanwhile.
    w.db.abort_compactions();
    w.db.close().unwrap();
}

/// RocksDB 11.8.1 gives the replay of logs number 1, the deletion of obsolete files the next one, and the first flush
/// the one after it.
#[test]
fn an_open_that_replays_logs_says_so_as_a_job_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let heard = Arc::new(Heard::default());
    let open = || {
        let builder = Db::builder(dir.path()).create_if_missing(true);
        builder.listener(heard.clone()).open().unwrap()
    };
    let jobs = || -> Vec<u64> {
        let created = std::mem::take(&mut *heard.created.lock().unwrap());
        created.iter().map(|table| table.job).collect()
    };
    let db = open();
    db.default_cf().put("a", "1").unwrap();
    flush(&db.default_cf());
    assert_eq!(jobs(), [2], "a new database");
    db.default_cf().put("b", "1").unwrap();
    drop(db);

    let db = open();
    assert_eq!(jobs(), [1], "the table of what was replayed");
    db.default_cf().put("c", "1").unwrap();
    flush(&db.default_cf());
    assert_eq!(jobs(), [3]);
    drop(db);
    let log = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text} in {log}"));
    let begun = at(r#""job": 1, "event": "recovery_started", "wal_files": ["#);
    let table = at(r#""job": 1, "event": "table_file_creation""#);
    let ended = at(r#""job": 1, "event": "recovery_finished", "status": "OK""#);
    assert!(begun < table && table < ended);
}

#[test]
fn listeners_are_told_the_codec_of_a_compaction_by_rocksdbs_number() {
    for (codec, number) in [(CompressionType::Snappy, 1), (CompressionType::Zstd, 7)] {
        let mut cf = options();
        cf.compression = codec;
        let world = open(
            FamilyOptions::new("default").options(cf),
            DbOptions::default(),
        );
        let cf = world.db.default_cf();
        cf.put("k", [b'x'; 1000]).unwrap();
        cf.flush(true).unwrap();
        cf.compact_range(None, None).unwrap();
        assert_eq!(world.heard.last().compression, number, "{codec}");
    }
}
