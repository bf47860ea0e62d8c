//! Traces of looked-up blocks and of calls of the file system (R-WL-01 to R-WL-03), read with our reader. What RocksDB
//! 11.8.1 records for the same calls was looked at once and stands in the tests.

use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType};
use spanlith::trace::{
    BlockAccess, BlockTraceOptions, TraceForm, TraceHeader, TraceOptions, TraceReader, TraceRecord,
};
use spanlith::{Cf, Db, Env, ReadOptions};
use spanlith_base::ErrorKind;
use spanlith_env::mem::MemFs;
use spanlith_env::{FaultFs, FaultRule, OpClass, VirtualClock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn memory() -> Env {
    Env {
        fs: Arc::new(MemFs::new()),
        clock: Arc::new(VirtualClock::new()),
        ..Env::system()
    }
}

/// A database whose tables compress nothing and are not compacted.
fn open(env: &Env, change: impl FnOnce(&mut BlockBasedTableOptions)) -> Db {
    let mut options = CfOptions::default();
    options.disable_auto_compactions = true;
    options.compression = CompressionType::None;
    let mut table = BlockBasedTableOptions::default();
    change(&mut table);
    Db::builder("/db")
        .create_if_missing(true)
        .env(env.clone())
        .cf_options(options)
        .table_options(table)
        .open()
        .unwrap()
}

/// Keys `key000` on, in one table.
fn fill(cf: &Cf, count: usize) {
    for n in 0..count {
        cf.put(format!("key{n:03}"), [b'v'; 50]).unwrap();
    }
    cf.flush(true).unwrap();
}

/// Calls `each` with every record; timestamps must not fall, and nothing may be torn or of another kind.
fn for_each(env: &Env, path: &Path, mut each: impl FnMut(TraceRecord<'_>)) -> u64 {
    let mut reader = TraceReader::new(env.fs.open_sequential(path).unwrap());
    let header = TraceHeader::from_record(&reader.next_record().unwrap().unwrap()).unwrap();
    assert_eq!(header.form, TraceForm::Accesses);
    assert_eq!(header.rocksdb, (11, 8));
    let (mut last, mut records) = (0, 0);
    while let Some(record) = reader.next_record().unwrap() {
        assert!(record.timestamp >= last, "timestamps fall");
        last = record.timestamp;
        each(header.decode(&record).unwrap());
        records += 1;
    }
    assert_eq!(reader.torn(), None);
    records
}

/// Lookups as text, without what depends on the layout of blocks in memory.
fn lookups(env: &Env, path: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for_each(env, path, |record| {
        let TraceRecord::Block(b) = record else {
            panic!("{record:?}")
        };
        assert!(b.size > 0 && b.key.len() == 16);
        assert_eq!((b.cf, b.cf_name, b.level), (0, &b"default"[..], 0));
        lines.push(shown(&b));
    });
    lines
}

fn shown(b: &BlockAccess<'_>) -> String {
    let mut line = format!("{} for {}", b.block.name(), b.caller.name());
    for (is, word) in [(b.is_hit, "hit"), (b.no_insert, "no insert")] {
        if is {
            line.push_str(&format!(", {word}"));
        }
    }
    if let Some(r) = &b.reference {
        let snapshot = if r.from_snapshot { " in snapshot" } else { "" };
        line.push_str(&format!(", get {}{snapshot}", r.get_id));
        if let Some((bytes, entries, exists)) = r.found {
            let (key, tag) = r.internal_key.split_at(r.internal_key.len() - 8);
            let key = key.escape_ascii();
            let kind = tag[0];
            line.push_str(&format!(
                ", {key}:{kind} of {entries}, {bytes} bytes, {exists}"
            ));
        } else {
            assert_eq!(
                r.internal_key, b"",
                "RocksDB names the key of data blocks only"
            );
        }
    }
    line
}

/// RocksDB 11.8.1 records the same five lookups for these calls, with 72 or 73 entries of the block.
#[test]
fn lookups_are_recorded_as_rocksdb_does() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    let path = Path::new("/blocks");
    db.start_block_cache_trace(path, &BlockTraceOptions::default())
        .unwrap();
    fill(&cf, 100);
    for key in ["key001", "key002", "nosuch", "key0015"] {
        cf.get(key).unwrap();
    }
    cf.iter().next().unwrap().unwrap();
    cf.multi_get(["key001", "nosuch"]);
    let options = ReadOptions::default().snapshot(&db.snapshot());
    cf.get_opt("key003", &options).unwrap().unwrap();
    let options = ReadOptions::default().fill_cache(false);
    cf.get_opt("key099", &options).unwrap().unwrap();
    let summary = db.end_block_cache_trace().unwrap().unwrap();
    cf.get("key004").unwrap().unwrap();
    let expected = [
        "data for get, get 1, key001:1 of 50, 64 bytes, true",
        "data for get, hit, get 2, key002:1 of 50, 64 bytes, true",
        "data for get, hit, get 4, key0015:24 of 50, 0 bytes, false",
        "data for iterator, hit",
        "data for multi_get, hit, get 5, key001:1 of 50, 64 bytes, true",
        "data for get, hit, get 6 in snapshot, key003:1 of 50, 64 bytes, true",
        "data for get, no insert, get 7, key099:1 of 50, 64 bytes, true",
    ];
    assert_eq!(lookups(&env, path), expected);
    assert_eq!((summary.records, summary.dropped), (7, 0));
    assert_eq!(summary.bytes, env.fs.size(path).unwrap());
    assert_eq!(db.end_block_cache_trace().unwrap(), None);
}

#[test]
fn index_and_filter_are_recorded_where_they_live_in_the_cache() {
    let env = memory();
    let db = open(&env, |table| {
        table.cache_index_and_filter_blocks = true;
        table.filter_policy = "bloomfilter:10".into();
    });
    let cf = db.default_cf();
    fill(&cf, 100);
    let path = Path::new("/blocks");
    db.start_block_cache_trace(path, &BlockTraceOptions::default())
        .unwrap();
    cf.get("key001").unwrap().unwrap();
    cf.get("key0015").unwrap();
    cf.multi_get(["key002", "key060", "key099", "key098"]);
    db.end_block_cache_trace().unwrap();
    let expected = [
        // The table was opened without it.
        "filter for get, get 1",
        "index for get, hit, get 1",
        "data for get, get 1, key001:1 of 50, 64 bytes, true",
        "filter for get, hit, get 2",
        "filter for multi_get, hit, get 3",
        "index for multi_get, hit, get 3",
        "data for multi_get, hit, get 3, key002:1 of 50, 64 bytes, true",
        // For blocks that may be read together.
        "index for multi_get, hit, get 3",
        "data for multi_get, get 3, key098:1 of 50, 64 bytes, true",
    ];
    assert_eq!(lookups(&env, path), expected);
}

/// Blocks that a multi-get reads at once are each told with a key that was sought in them.
#[test]
fn blocks_that_are_read_together_have_each_their_key() {
    let env = memory();
    let db = open(&env, |table| table.block_size = 256);
    let cf = db.default_cf();
    fill(&cf, 100);
    let path = Path::new("/blocks");
    db.start_block_cache_trace(path, &BlockTraceOptions::default())
        .unwrap();
    let keys = ["key001", "key020", "key040", "key04x", "key080"];
    assert_eq!(cf.multi_get(keys).iter().filter(|v| v.is_ok()).count(), 5);
    db.end_block_cache_trace().unwrap();
    let mut seen = BTreeMap::new();
    for_each(&env, path, |record| {
        let TraceRecord::Block(b) = record else {
            panic!("{record:?}")
        };
        let reference = b.reference.unwrap();
        let (_, _, exists) = reference.found.unwrap();
        let key = &reference.internal_key[..6];
        let key = String::from_utf8(key.to_vec()).unwrap();
        let before = seen.insert(key, (b.key.to_vec(), exists));
        assert_eq!(before, None, "one lookup a block");
    });
    let found: Vec<_> = seen.iter().map(|(k, v)| (k.as_str(), v.1)).collect();
    let expected = [
        ("key001", true),
        ("key020", true),
        ("key040", true),
        ("key04x", false),
        ("key080", true),
    ];
    assert_eq!(found, expected);
    let blocks: std::collections::BTreeSet<_> = seen.values().map(|v| &v.0).collect();
    assert_eq!(blocks.len(), 5);
}

/// Sampling is by blocks: of a block all lookups are recorded, or none.
#[test]
fn a_sample_has_whole_histories_of_blocks() {
    let env = memory();
    let db = open(&env, |table| table.block_size = 256);
    let cf = db.default_cf();
    fill(&cf, 400);
    let path = Path::new("/blocks");
    let options = BlockTraceOptions {
        sampling_frequency: 4,
        ..BlockTraceOptions::default()
    };
    db.start_block_cache_trace(path, &options).unwrap();
    for _ in 0..3 {
        for n in 0..400 {
            cf.get(format!("key{n:03}")).unwrap().unwrap();
        }
    }
    db.end_block_cache_trace().unwrap();
    let mut times: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for_each(&env, path, |record| {
        let TraceRecord::Block(b) = record else {
            panic!("{record:?}")
        };
        *times.entry(b.key.to_vec()).or_default() += 1;
    });
    // 100 blocks of four entries, the last of fewer.
    assert!((10..50).contains(&times.len()), "{}", times.len());
    assert!(times.values().all(|n| n % 3 == 0 && *n >= 3), "{times:?}");
}

#[test]
fn sizes_limit_both_and_a_second_one_is_refused() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    fill(&cf, 10);
    let (blocks, calls) = (Path::new("/blocks"), Path::new("/calls"));
    let small = BlockTraceOptions {
        max_trace_file_size: 500,
        ..BlockTraceOptions::default()
    };
    db.start_block_cache_trace(blocks, &small).unwrap();
    let small = TraceOptions {
        max_trace_file_size: 500,
        ..TraceOptions::default()
    };
    db.start_io_trace(calls, &small).unwrap();
    for again in [
        db.start_block_cache_trace("/other", &BlockTraceOptions::default()),
        db.start_io_trace("/other", &TraceOptions::default()),
    ] {
        let e = again.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Busy);
        assert!(e.to_string().starts_with("Resource busy: "), "{e}");
    }
    assert!(env.fs.entry(Path::new("/other")).unwrap().is_none());
    for _ in 0..100 {
        cf.get("key001").unwrap().unwrap();
        cf.put("x", "y").unwrap();
    }
    let of_blocks = db.end_block_cache_trace().unwrap().unwrap();
    let of_calls = db.end_io_trace().unwrap().unwrap();
    for (path, summary, all) in [(blocks, of_blocks, 100), (calls, of_calls, 100)] {
        let size = env.fs.size(path).unwrap();
        assert!((500..700).contains(&size), "{size}");
        assert_eq!(size, summary.bytes);
        assert_eq!(for_each(&env, path, |_| {}), summary.records);
        // The first get reads a block.
        assert!((all..=all + 1).contains(&(summary.records + summary.dropped)));
    }
    assert_eq!(db.end_io_trace().unwrap(), None);
}

/// Every byte that is appended to a file of the database stands in the trace of calls, and no call for a trace.
#[test]
fn calls_of_the_database_are_recorded_and_none_for_traces() {
    let env = memory();
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    let traces = ["/calls", "/blocks", "/queries"].map(Path::new);
    db.start_io_trace(traces[0], &TraceOptions::default())
        .unwrap();
    db.start_block_cache_trace(traces[1], &BlockTraceOptions::default())
        .unwrap();
    db.start_trace(traces[2], &TraceOptions::default()).unwrap();
    fill(&cf, 300);
    fill(&cf, 300);
    for n in 0..300 {
        cf.get(format!("key{n:03}")).unwrap().unwrap();
    }
    cf.compact_range(None, None).unwrap();
    cf.put("last", "one").unwrap();
    db.end_trace().unwrap();
    db.end_block_cache_trace().unwrap();
    let summary = db.end_io_trace().unwrap().unwrap();
    let (mut appended, mut operations) = (BTreeMap::new(), BTreeMap::new());
    let mut records = for_each(&env, traces[0], |record| {
        let TraceRecord::Call(call) = record else {
            panic!("{record:?}")
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (name, operation) = (text(call.file_name), text(call.operation));
        assert_eq!(call.status, b"OK", "{operation} {name}");
        if operation == "Append" {
            *appended.entry(name.clone()).or_insert(0) += call.length.unwrap();
        }
        if operation == "Read" {
            assert!(call.length.unwrap() > 0 && call.offset.is_some());
        }
        assert!(!traces.iter().any(|path| path.ends_with(&name)), "{name}");
        *operations.entry(operation).or_insert(0) += 1;
    });
    records -= summary.records;
    assert_eq!((records, summary.dropped), (0, 0));
    let mut tables = 0;
    for name in env.fs.list(Path::new("/db")).unwrap() {
        let size = env.fs.size(&Path::new("/db").join(&name)).unwrap();
        if name.ends_with(".sst") {
            tables += 1;
            assert_eq!(appended.get(&name), Some(&size), "{name}");
        }
        if name.ends_with(".log") && appended.contains_key(&name) {
            assert_eq!(appended[&name], size, "{name}");
        }
    }
    assert_eq!(tables, 1);
    for operation in ["NewWritableFile", "Sync", "Close", "Read", "DeleteFile"] {
        assert!(operations.contains_key(operation), "{operations:?}");
    }
    assert!(for_each(&env, traces[1], |_| {}) >= 300);
}

/// A disk that fills stops the trace, says so, and leaves the database alone.
#[test]
fn a_trace_that_cannot_be_written_stops_and_the_database_goes_on() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let env = Env {
        fs: fs.clone(),
        ..memory()
    };
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    fill(&cf, 100);
    db.start_block_cache_trace("/blocks", &BlockTraceOptions::default())
        .unwrap();
    db.start_io_trace("/calls", &TraceOptions::default())
        .unwrap();
    for name in ["blocks", "calls"] {
        fs.add(
            FaultRule::fail(OpClass::Append, 1, 28)
                .named(name)
                .forever(),
        );
    }
    for n in 0..3000 {
        cf.get(format!("key{:03}", n % 100)).unwrap().unwrap();
        cf.put("a", "b").unwrap();
    }
    for ended in [db.end_block_cache_trace(), db.end_io_trace()] {
        let e = ended.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    }
    fs.clear();
    assert_eq!(cf.get("a").unwrap().unwrap().as_ref(), b"b");
    // And begins again.
    db.start_block_cache_trace("/blocks", &BlockTraceOptions::default())
        .unwrap();
    cf.get("key001").unwrap().unwrap();
    assert_eq!(db.end_block_cache_trace().unwrap().unwrap().records, 1);
}

/// The info log is a file of the database: the call that finds the trace full or failed may be one of its own lines.
#[test]
fn a_trace_of_calls_that_fails_under_a_line_of_the_info_log_stops_like_any_other() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let env = Env {
        fs: fs.clone(),
        ..memory()
    };
    let db = open(&env, |_| {});
    let cf = db.default_cf();
    for round in 0..12 {
        db.start_io_trace("/calls", &TraceOptions::default())
            .unwrap();
        fs.add(
            FaultRule::fail(OpClass::Append, 1, 28)
                .named("calls")
                .forever(),
        );
        // Most of the calls are lines of LOG; each round begins at another place of its own.
        for n in 0..60 + round {
            let ttl = (1000 + n).to_string();
            cf.set_options(&[("ttl", &ttl)]).unwrap();
        }
        assert!(db.end_io_trace().is_err(), "{round}");
        fs.clear();
    }
    db.close().unwrap();
}

/// Traces begin and end while threads read and write; each that ended reads back whole.
#[test]
fn traces_begin_and_end_while_threads_work_and_with_the_database() {
    let env = Env {
        fs: Arc::new(MemFs::new()),
        ..Env::system()
    };
    let db = open(&env, |table| table.block_size = 256);
    let cf = db.default_cf();
    fill(&cf, 100);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (cf, stop) = (&cf, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    cf.get(format!("key{:03}", thread * 50)).unwrap().unwrap();
                    cf.put(format!("w{thread}"), "v").unwrap();
                    cf.multi_get(["key010", "key060"]);
                    cf.iter().take(3).count();
                }
            });
        }
        for round in 0..20 {
            let (blocks, calls) = (format!("/b{round}"), format!("/c{round}"));
            db.start_block_cache_trace(&blocks, &BlockTraceOptions::default())
                .unwrap();
            db.start_io_trace(&calls, &TraceOptions::default()).unwrap();
            for _ in 0..20 {
                cf.get("key030").unwrap().unwrap();
            }
            cf.put("main", "v").unwrap();
            let blocks_end = db.end_block_cache_trace().unwrap().unwrap();
            let calls_end = db.end_io_trace().unwrap().unwrap();
            let records = for_each(&env, Path::new(&blocks), |_| {});
            assert_eq!(records, blocks_end.records);
            assert!(records >= 20);
            let records = for_each(&env, Path::new(&calls), |_| {});
            assert_eq!(records, calls_end.records);
            assert!(records >= 1);
        }
        stop.store(true, Ordering::Relaxed);
    });
    db.start_block_cache_trace("/b", &BlockTraceOptions::default())
        .unwrap();
    db.start_io_trace("/c", &TraceOptions::default()).unwrap();
    cf.get("key001").unwrap().unwrap();
    cf.put("main", "w").unwrap();
    drop(cf);
    db.close().unwrap();
    assert_eq!(for_each(&env, Path::new("/b"), |_| {}), 1);
    assert!(for_each(&env, Path::new("/c"), |_| {}) >= 1);
}
