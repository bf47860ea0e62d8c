//! Traces that the database writes of its callers (R-WL-01 to R-WL-03), read with our reader, and their replay
//! (R-WL-04).

use spanlith::trace::{
    Extension, ExtensionReader, Query, TraceHeader, TraceOptions, TraceReader, TraceRecord,
    extension_path, filter, kinds,
};
use spanlith::{
    Cf, Db, Env, ReadOptions, ReplayOptions, ReplaySummary, Replayer, Result, WriteBatch,
    WriteOptions,
};
use spanlith_base::ErrorKind;
use spanlith_env::mem::MemFs;
use spanlith_env::{Clock, FaultFs, FaultRule, OpClass, VirtualClock};
use spanlith_testkit::{Rng, TempDir, seed};
use spanlith_wal::{BatchIter, BatchOp};
use std::path::Path;
use std::sync::Arc;

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn shown(query: &Query<'_>) -> String {
    let bound = |b: &Option<&[u8]>| b.map_or("-".to_string(), text);
    match query {
        Query::Write { batch } => {
            let ops = BatchIter::new(batch).unwrap().map(|op| match op.unwrap() {
                BatchOp::Put { cf, key, value } => {
                    format!("put {cf} {} {}", text(key), text(value))
                }
                BatchOp::Delete { cf, key } => format!("delete {cf} {}", text(key)),
                other => format!("{other:?}"),
            });
            ops.collect::<Vec<_>>().join(", ")
        }
        Query::Get { cf, key } => format!("get {cf} {}", text(key)),
        Query::Seek {
            backward,
            cf,
            key,
            lower,
            upper,
        } => {
            let name = if *backward { "seek back" } else { "seek" };
            format!(
                "{name} {cf} {} {} {}",
                text(key),
                bound(lower),
                bound(upper)
            )
        }
        Query::MultiGet(keys) => {
            let keys = keys.iter().map(|(cf, key)| format!("{cf} {}", text(key)));
            format!("multi-get {}", keys.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Records of a trace as text; the last is `end` if it was ended. Timestamps must not fall.
fn lines(env: &Env, path: &Path) -> Vec<String> {
    let mut reader = TraceReader::new(env.fs.open_sequential(path).unwrap());
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    let mut last = header.timestamp;
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        assert!(record.timestamp >= last, "timestamps fall");
        last = record.timestamp;
        lines.push(match header.decode(&record).unwrap() {
            TraceRecord::End => "end".to_string(),
            TraceRecord::Query(query) => shown(&query),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(reader.torn(), None);
    lines
}

fn extensions(env: &Env, trace: &Path) -> Vec<Extension> {
    let file = env.fs.open_sequential(&extension_path(trace)).unwrap();
    let mut reader = ExtensionReader::new(file).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        all.push(record);
    }
    all
}

fn open(temp: &TempDir) -> (Db, Cf) {
    let db = Db::open(temp.join("db")).unwrap();
    let cf = db.cf_or_create(spanlith::FamilyOptions::new("f")).unwrap();
    (db, cf)
}

#[test]
fn each_call_is_recorded_once() {
    let temp = TempDir::new("traces");
    let (db, f) = open(&temp);
    let cf = db.default_cf();
    cf.put("before", "0").unwrap();
    let path = temp.join("trace");
    db.start_trace(&path, &TraceOptions::default()).unwrap();
    cf.put("a", "1").unwrap();
    f.delete("b").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("c", "3");
    batch.put_cf(&f, "d", "4");
    db.write(&batch).unwrap();
    cf.get("a").unwrap();
    f.get_entity("x").unwrap();
    cf.get_merge_operands("a", 9, &ReadOptions::default())
        .unwrap();
    cf.key_may_exist("m", &ReadOptions::default());
    let keys: [(&Cf, &[u8]); 2] = [(&cf, b"a"), (&f, b"d")];
    db.multi_get(&keys).len();
    cf.multi_get(["p", "q"]);
    let options = ReadOptions::default().lower("a").upper("z");
    let mut cursor = cf.cursor(options);
    cursor.seek(b"b").unwrap();
    cursor.next().unwrap();
    cursor.seek_for_prev(b"c").unwrap();
    cursor.seek_to_first().unwrap();
    cursor.seek_to_last().unwrap();
    drop(cursor);
    cf.iter().count();
    let summary = db.end_trace().unwrap();
    cf.get("after").unwrap();
    let expected = [
        "put 0 a 1",
        "delete 1 b",
        "put 0 c 3, put 1 d 4",
        "get 0 a",
        "get 1 x",
        "get 0 a",
        "get 0 m",
        "multi-get 0 a 1 d",
        "multi-get 0 p 0 q",
        "seek 0 b a z",
        "seek back 0 c a z",
        "seek 0 a a z",
        "seek back 0 z a z",
        "end",
    ];
    assert_eq!(lines(&Env::system(), &path), expected);
    assert_eq!(summary.records, expected.len() as u64 - 1);
    assert_eq!(summary.dropped, 0);
    assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
    let e = db.end_trace().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains("No trace file to close"), "{e}");
}

#[test]
fn the_file_beside_a_trace_says_what_was_found_and_how_long_a_scan_was() {
    let temp = TempDir::new("traces-extension");
    let (db, _) = open(&temp);
    let cf = db.default_cf();
    for key in ["a", "b", "c", "d"] {
        cf.put(key, "value").unwrap();
    }
    let path = temp.join("trace");
    let options = TraceOptions {
        with_extension: true,
        ..TraceOptions::default()
    };
    db.start_trace(&path, &options).unwrap();
    let mut cursor = cf.cursor(ReadOptions::default());
    cursor.seek(b"b").unwrap();
    cursor.next().unwrap();
    cursor.next().unwrap();
    cursor.prev().unwrap();
    cf.get("a").unwrap();
    cf.get("none").unwrap();
    cf.multi_get(["a", "z", "d"]);
    cf.put("e", "12345678").unwrap();
    cursor.seek(b"x").unwrap();
    // The iterator goes elsewhere and ends there: what became of its seek is told by another thread.
    std::thread::spawn(move || drop(cursor)).join().unwrap();
    db.end_trace().unwrap();
    let mut all = extensions(&Env::system(), &path);
    all.sort_by_key(|e| e.ordinal);
    let told: Vec<_> = all
        .iter()
        .map(|e| (e.ordinal, e.kind, e.found, e.bytes, e.next, e.prev))
        .collect();
    let expected = [
        (0, kinds::SEEK, 1, 5, 2, 1),
        (1, kinds::GET, 1, 5, 0, 0),
        (2, kinds::GET, 0, 0, 0, 0),
        (3, kinds::MULTI_GET, 2, 10, 0, 0),
        (4, kinds::WRITE, 1, 24, 0, 0),
        (5, kinds::SEEK, 0, 0, 0, 0),
    ];
    assert_eq!(told, expected);
    assert!(all.iter().all(|e| e.nanos > 0));
}

#[test]
fn filters_samples_and_sizes_limit_a_trace() {
    let temp = TempDir::new("traces-limits");
    let (db, _) = open(&temp);
    let cf = db.default_cf();
    let path = temp.join("trace");
    let run = |options: TraceOptions| {
        db.start_trace(&path, &options).unwrap();
        for i in 0..10 {
            cf.put(format!("k{i}"), "v").unwrap();
            cf.get(format!("k{i}")).unwrap();
        }
        let summary = db.end_trace().unwrap();
        (lines(&Env::system(), &path), summary)
    };
    let (all, _) = run(TraceOptions {
        filter: filter::WRITE,
        ..TraceOptions::default()
    });
    assert_eq!(all.len(), 11);
    assert!(all[..10].iter().all(|l| l.starts_with("get")));
    // As RocksDB counts: the third, the sixth, and so on.
    let (some, _) = run(TraceOptions {
        sampling_frequency: 3,
        ..TraceOptions::default()
    });
    let expected = [
        "put 0 k1 v",
        "get 0 k2",
        "put 0 k4 v",
        "get 0 k5",
        "put 0 k7 v",
        "get 0 k8",
        "end",
    ];
    assert_eq!(some, expected);
    let (few, summary) = run(TraceOptions {
        max_trace_file_size: 200,
        ..TraceOptions::default()
    });
    assert_eq!(summary.records + summary.dropped, 20);
    assert_eq!(few.len() as u64, summary.records + 1);
    // The record that passes the limit is the last one; the end follows it.
    assert!(
        summary.bytes > 200 && summary.bytes < 200 + 60 + 13,
        "{summary:?}"
    );
}

#[test]
fn what_several_threads_ask_is_recorded_wholly_and_each_thread_in_order() {
    let temp = TempDir::new("traces-threads");
    let (db, _) = open(&temp);
    for (ordered, extended) in [(false, true), (true, false)] {
        let path = temp.join("trace");
        let options = TraceOptions {
            preserve_write_order: ordered,
            with_extension: extended,
            ..TraceOptions::default()
        };
        db.start_trace(&path, &options).unwrap();
        let per_thread = 4000;
        std::thread::scope(|scope| {
            for t in 0..3 {
                let db = &db;
                scope.spawn(move || {
                    let cf = db.default_cf();
                    for i in 0..per_thread {
                        cf.put(format!("{t}"), format!("{i:06}")).unwrap();
                        cf.get(format!("{t}-{i:06}")).unwrap();
                    }
                });
            }
        });
        let summary = db.end_trace().unwrap();
        assert_eq!(summary.records, 3 * 2 * per_thread);
        assert_eq!(summary.dropped, 0);
        let lines = lines(&Env::system(), &path);
        for t in 0..3 {
            let of = |begin: String| {
                let own = lines.iter().filter(move |l| l.starts_with(&begin));
                own.cloned().collect::<Vec<_>>()
            };
            let puts = of(format!("put 0 {t} "));
            let gets = of(format!("get 0 {t}-"));
            assert_eq!((puts.len(), gets.len()), (4000, 4000));
            assert!(puts.is_sorted() && gets.is_sorted(), "thread {t}");
        }
        if extended {
            let mut all = extensions(&Env::system(), &path);
            all.sort_by_key(|e| e.ordinal);
            let ordinals: Vec<u64> = all.iter().map(|e| e.ordinal).collect();
            assert_eq!(ordinals, (0..summary.records).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    let fs = Arc::new(MemFs::new());
    let faults = FaultFs::new(fs.clone());
    let env = Env {
        fs: Arc::new(faults.clone()),
        ..Env::system()
    };
    let db = Db::builder("/db")
        .create_if_missing(true)
        .env(env.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    db.start_trace("/trace", &TraceOptions::default()).unwrap();
    cf.put("a", "1").unwrap();
    faults.add(
        FaultRule::fail(OpClass::Append, 1, 28)
            .named("trace")
            .forever(),
    );
    let value = vec![b'v'; 70_000];
    cf.put("b", &value).unwrap();
    cf.put("c", "3").unwrap();
    assert_eq!(cf.get("c").unwrap().as_deref(), Some(&b"3"[..]));
    let e = db.end_trace().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    cf.put("d", "4").unwrap();
    db.close().unwrap();
    let log = env.fs.read_all(Path::new("/db/LOG"), 1 << 20).unwrap();
    assert!(
        text(&log).contains("the trace stops here"),
        "the info log is silent"
    );
}

#[test]
fn closing_ends_a_trace_and_a_new_one_takes_the_place_of_another() -> Result<()> {
    let temp = TempDir::new("traces-close");
    let (db, _) = open(&temp);
    let cf = db.default_cf();
    db.start_trace(temp.join("one"), &TraceOptions::default())?;
    cf.put("a", "1")?;
    db.start_trace(temp.join("two"), &TraceOptions::default())?;
    cf.put_opt("b", "2", &WriteOptions::default())?;
    drop(cf);
    db.close()?;
    assert_eq!(
        lines(&Env::system(), &temp.join("one")),
        ["put 0 a 1", "end"]
    );
    assert_eq!(
        lines(&Env::system(), &temp.join("two")),
        ["put 0 b 2", "end"]
    );
    Ok(())
}

fn contents(db: &Db) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let of = |cf: &Cf| {
        let entries = cf.iter().map(|entry| entry.unwrap());
        entries.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    };
    db.cfs().iter().map(of).collect()
}

fn replayed(trace: &Path, into: &Db, options: &ReplayOptions) -> Result<ReplaySummary> {
    let mut replayer = Replayer::new(into, &[], &Env::system(), trace)?;
    let early = replayer.replay(options, None).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Incomplete);
    replayer.prepare()?;
    assert!(replayer.header_timestamp() > 0);
    let summary = replayer.replay(options, None)?;
    let late = replayer.replay(options, None).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Incomplete);
    Ok(summary)
}

fn at_once() -> ReplayOptions {
    ReplayOptions {
        fast_forward: 1e9,
        ..ReplayOptions::default()
    }
}

/// R-WL-04: one thread leaves the same contents, and so do several that keep the order of each key.
#[test]
fn a_replay_leaves_what_the_traced_database_has() {
    let temp = TempDir::new("replay");
    let (db, f) = open(&temp);
    let cf = db.default_cf();
    let path = temp.join("trace");
    let options = TraceOptions {
        with_extension: true,
        ..TraceOptions::default()
    };
    db.start_trace(&path, &options).unwrap();
    let mut rng = Rng::new(seed("replay"));
    for i in 0..2000 {
        let family = [&cf, &f][rng.index(2)];
        let key = format!("k{}", rng.below(50));
        match rng.below(8) {
            0 => family.delete(&key).unwrap(),
            1 => drop(family.get(&key).unwrap()),
            2 => {
                let mut batch = WriteBatch::new();
                batch.put(&key, "batch");
                batch.delete_range_cf(&f, &key, "k9");
                db.write(&batch).unwrap();
            }
            3 => {
                let mut cursor = family.cursor(ReadOptions::default());
                cursor.seek(key.as_bytes()).unwrap();
                cursor.next().unwrap();
            }
            _ => family.put(&key, format!("v{i}")).unwrap(),
        }
    }
    db.end_trace().unwrap();
    let threads = ReplayOptions {
        threads: 3,
        keeps_key_order: true,
        ..at_once()
    };
    for (name, options) in [("one", at_once()), ("three", threads)] {
        let (into, _) = {
            let into = Db::open(temp.join(name)).unwrap();
            let cf = into
                .cf_or_create(spanlith::FamilyOptions::new("f"))
                .unwrap();
            (into, cf)
        };
        let summary = replayed(&path, &into, &options).unwrap();
        assert_eq!(contents(&into), contents(&db), "{name}");
        assert_eq!(summary.requests(), 2000);
        assert!(
            summary.steps > 0,
            "the file beside the trace says how far scans went"
        );
    }
}

#[test]
fn a_transaction_that_was_prepared_is_replayed_once_it_is_committed() {
    let temp = TempDir::new("replay-prepared");
    let mut options = spanlith::options::DbOptions::default();
    options.allow_2pc = true;
    options.create_if_missing = true;
    let db = Db::builder(temp.join("db"))
        .options(options)
        .open()
        .unwrap();
    let cf = db.default_cf();
    let path = temp.join("trace");
    db.start_trace(&path, &TraceOptions::default()).unwrap();
    for (name, is_committed) in [("one", true), ("two", false)] {
        let mut txn = db.transaction(spanlith::TxnOptions::default());
        txn.set_name(name.as_bytes()).unwrap();
        txn.put(&cf, name, "v").unwrap();
        txn.prepare().unwrap();
        match is_committed {
            true => txn.commit().unwrap(),
            false => txn.rollback().unwrap(),
        }
    }
    cf.put("plain", "v").unwrap();
    db.end_trace().unwrap();
    let into = Db::open(temp.join("into")).unwrap();
    let summary = replayed(&path, &into, &at_once()).unwrap();
    assert_eq!(contents(&into), contents(&db));
    assert_eq!((summary.writes, summary.skipped), (2, 3));
}

#[test]
fn what_cannot_be_replayed_is_an_error_that_names_the_place() {
    let temp = TempDir::new("replay-bad");
    let (db, f) = open(&temp);
    let path = temp.join("trace");
    db.start_trace(&path, &TraceOptions::default()).unwrap();
    db.default_cf().put("a", "1").unwrap();
    f.get("b").unwrap();
    db.default_cf().put("c", "3").unwrap();
    db.end_trace().unwrap();
    // Without the family.
    let into = Db::open(temp.join("into")).unwrap();
    let e = replayed(&path, &into, &at_once()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    let told = e.to_string();
    assert!(
        told.contains("Invalid Column Family ID.") && told.contains("offset"),
        "{told}"
    );
    assert_eq!(contents(&into), [vec![(b"a".to_vec(), b"1".to_vec())]]);
    // Cut in a record: what is whole was asked.
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(temp.join("cut"), &whole[..whole.len() - 20]).unwrap();
    let summary = replayed(&temp.join("cut"), &db, &at_once()).unwrap();
    assert_eq!((summary.requests(), summary.torn.is_some()), (2, true));
    // Not a trace, and one of other things.
    std::fs::write(temp.join("foreign"), b"x".repeat(300)).unwrap();
    let e = replayed(&temp.join("foreign"), &db, &at_once()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    let blocks = spanlith_testkit::fixtures_dir().join("trace/blockcache.trace");
    let e = replayed(&blocks, &db, &at_once()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    for speed in [0.0, -1.0, f64::NAN] {
        let options = ReplayOptions {
            fast_forward: speed,
            ..ReplayOptions::default()
        };
        let mut replayer = Replayer::new(&db, &[], &Env::system(), &path).unwrap();
        let e = replayer.replay(&options, None).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    }
}

/// Requests come when they are due, by the clock: a virtual one only moves as it is slept on.
#[test]
fn requests_are_replayed_at_their_time() {
    let clock = Arc::new(VirtualClock::at(1_000_000));
    let env = Env {
        fs: Arc::new(MemFs::new()),
        clock: clock.clone(),
        ..Env::system()
    };
    let db = Db::builder("/db")
        .create_if_missing(true)
        .env(env.clone())
        .open()
        .unwrap();
    db.start_trace("/trace", &TraceOptions::default()).unwrap();
    for i in 1..=5u64 {
        clock.advance(std::time::Duration::from_millis(i));
        db.default_cf().get("a").unwrap();
    }
    db.end_trace().unwrap();
    for (speed, millis) in [(1.0, 15), (3.0, 5)] {
        let began = clock.monotonic_nanos();
        let options = ReplayOptions {
            fast_forward: speed,
            ..ReplayOptions::default()
        };
        let mut replayer = Replayer::new(&db, &[], &env, Path::new("/trace")).unwrap();
        replayer.prepare().unwrap();
        let late = std::sync::atomic::AtomicU64::new(0);
        let note = |r: spanlith::Replayed<'_>| {
            late.fetch_max(r.lag, std::sync::atomic::Ordering::Relaxed);
        };
        replayer.replay(&options, Some(&note)).unwrap();
        let took = clock.monotonic_nanos() - began;
        assert_eq!(took / 1_000_000, millis);
        assert_eq!(late.into_inner(), 0);
    }
}
