//! The cost of reads is counted where RocksDB counts it. The numbers of gets, multi-gets and iterators are
//! those that RocksDB 11.8.1 gives for the same calls.

use spanlith::options::{BlockBasedTableOptions, CfOptions};
use spanlith::{Cf, Db, FamilyOptions, MemoryOwner, ReadOptions, WriteOptions};
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::stats::{Histogram, Statistics, Ticker};
use spanlith_base::timestamp::{U64Timestamps, encode_u64_timestamp};
use spanlith_testkit::TempDir;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ten keys in a table of level 0.
fn ten(cf: &Cf) {
    for n in 0..10 {
        cf.put(format!("k{n}"), "value").unwrap();
    }
    cf.flush(true).unwrap();
}

/// Ten keys in a table of level 6, the third of which a memtable deletes; the fourth is there again.
fn world(dir: &TempDir, statistics: &Arc<Statistics>) -> Db {
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(CfOptions::default())
        .table_options(BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false"))
        .statistics(statistics.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    ten(&cf);
    cf.compact_range(None, None).unwrap();
    cf.delete("k2").unwrap();
    cf.put("k3", "newer").unwrap();
    db
}

fn risen(s: &Statistics, tickers: &[Ticker], work: impl FnOnce()) -> Vec<u64> {
    let before: Vec<u64> = tickers.iter().map(|t| s.ticker(*t)).collect();
    work();
    let now = tickers.iter().map(|t| s.ticker(*t));
    now.zip(before).map(|(now, before)| now - before).collect()
}

const POINT: &[Ticker] = &[
    Ticker::MemtableHit,
    Ticker::MemtableMiss,
    Ticker::BloomFilterUseful,
    Ticker::BloomFilterFullPositive,
    Ticker::BloomFilterFullTruePositive,
];

#[test]
fn writes_are_counted_with_the_bytes_of_their_batches_and_syncs_of_the_log() {
    let dir = TempDir::new("counted-writes");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let cf = db.default_cf();
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    let bytes = |work: &dyn Fn()| risen(&s, &[Ticker::BytesWritten, Ticker::WalBytes], work);
    // Header, type, lengths, key and value.
    let put = |cf: &Cf, len: usize| cf.put("k00000", "v".repeat(len)).unwrap();
    assert_eq!(bytes(&|| put(&cf, 50)), [71, 71]);
    assert_eq!(bytes(&|| put(&cf, 200)), [222, 222]);
    assert_eq!(bytes(&|| put(&other, 50)), [72, 72]);
    assert_eq!(bytes(&|| cf.delete("k00000").unwrap()), [20, 20]);
    let synced = WriteOptions::new().sync(true);
    let syncs = |work: &dyn Fn()| risen(&s, &[Ticker::WalSynced], work);
    assert_eq!(syncs(&|| cf.put_opt("k", "v", &synced).unwrap()), [1]);
    assert_eq!(syncs(&|| db.flush_wal(true).unwrap()), [1]);
    assert_eq!(syncs(&|| db.flush_wal(false).unwrap()), [0]);
}

#[test]
fn gets_and_multi_gets_are_counted_by_place() {
    let dir = TempDir::new("counted-gets");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let cf = db.default_cf();
    let keys: [&[u8]; 4] = [b"k1", b"k2", b"k3", b"k4x"];
    let get = || keys.iter().for_each(|k| drop(cf.get(k).unwrap()));
    let multi_get = || drop(cf.multi_get_opt(&keys, &ReadOptions::new()));
    // The deleted key and the newer one are in memory; of the others one is absent.
    assert_eq!(risen(&s, POINT, get), [2, 2, 1, 1, 1]);
    assert_eq!(risen(&s, POINT, multi_get), [2, 2, 1, 1, 1]);
    let counts = [Ticker::NumberKeysRead, Ticker::BytesRead];
    assert_eq!(risen(&s, &counts, get), [4, 10]);
    let counts = [
        Ticker::NumberMultigetGet,
        Ticker::NumberMultigetKeysRead,
        Ticker::NumberMultigetKeysFound,
        Ticker::NumberMultigetBytesRead,
    ];
    assert_eq!(risen(&s, &counts, multi_get), [1, 4, 2, 10]);
    let levels = [Ticker::L0Hit, Ticker::L1Hit, Ticker::L2andupHit];
    let before: u64 = levels.iter().map(|t| s.ticker(*t)).sum();
    get();
    multi_get();
    let now: u64 = levels.iter().map(|t| s.ticker(*t)).sum();
    assert_eq!(now - before, 2, "one table answers one key each time");
    assert_eq!(s.histogram(Histogram::DbGetMicros).count, 12);
    assert_eq!(s.histogram(Histogram::DbMultigetMicros).count, 3);
}

#[test]
fn a_get_under_a_deleted_range_asks_no_older_place() {
    let dir = TempDir::new("counted-ranges");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let cf = db.default_cf();
    cf.delete_range("k0", "k9").unwrap();
    cf.flush(true).unwrap();
    let asked = [
        Ticker::BloomFilterFullPositive,
        Ticker::BlockCacheDataHit,
        Ticker::BlockCacheDataMiss,
    ];
    // The tombstone is in a table of level 0, the values below it in level 6.
    let get = || assert_eq!(cf.get("k5").unwrap(), None);
    assert_eq!(risen(&s, &asked, get), [0, 0, 0]);
    let multi_get = || {
        let found = cf.multi_get_opt(&[b"k5", b"k6"], &ReadOptions::new());
        assert!(found.into_iter().all(|value| value.unwrap().is_none()));
    };
    assert_eq!(risen(&s, &asked, multi_get), [0, 0, 0]);
}

#[test]
fn gets_at_a_timestamp_are_counted_like_others() {
    let dir = TempDir::new("counted-timestamps");
    let s = Arc::new(Statistics::new());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .comparator(U64Timestamps::Bytewise.into())
        .table_options(BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false"))
        .statistics(s.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    let written = WriteOptions::default();
    for n in 0..10u64 {
        let key = format!("k{n}");
        cf.put_at(&key, &encode_u64_timestamp(5), "value", &written)
            .unwrap();
        cf.put_at(&key, &encode_u64_timestamp(7), "newer", &written)
            .unwrap();
    }
    cf.flush(true).unwrap();
    let filter = &POINT[2..];
    let get = |key: &str, at: u64| {
        let options = ReadOptions::new().timestamp(encode_u64_timestamp(at));
        cf.get_opt(key, &options).unwrap().map(|v| v.to_vec())
    };
    let mut found = None;
    assert_eq!(risen(&s, filter, || found = get("k4", 6)), [0, 1, 1]);
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    assert_eq!(risen(&s, filter, || found = get("k4x", 6)), [1, 0, 0]);
    assert_eq!(found, None);
    perf::reset();
    perf::set_level(2);
    get("k4", 8);
    get("k4x", 8);
    perf::set_level(1);
    assert_eq!(perf::value(PerfCounter::BloomSstHitCount), 1);
    assert_eq!(perf::value(PerfCounter::BloomSstMissCount), 1);
}

#[test]
fn blocks_that_a_multi_get_reads_together_are_counted_once_as_a_batch() {
    let dir = TempDir::new("counted-batches");
    let s = Arc::new(Statistics::new());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .statistics(s.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    // A hundred bytes each: some forty to a block.
    for n in 0..1000 {
        cf.put(format!("k{n:04}"), [b'v'; 100]).unwrap();
    }
    cf.flush(true).unwrap();
    let batches = |keys: &[&[u8]]| {
        let found = cf.multi_get_opt(keys, &ReadOptions::new());
        assert!(found.into_iter().all(|value| value.unwrap().is_some()));
        let h = s.histogram(Histogram::MultigetIoBatchSize);
        (h.count, h.sum)
    };
    // Blocks of their own.
    assert_eq!(batches(&[b"k0000", b"k0300", b"k0600", b"k0900"]), (1, 4));
    // All of them are in the cache now.
    assert_eq!(batches(&[b"k0000", b"k0300", b"k0600", b"k0900"]), (1, 4));
    // One block for all keys is a batch of its own.
    assert_eq!(batches(&[b"k0450", b"k0451"]), (2, 5));
    // Neighbours share one of two blocks, and what is in the cache is not read again.
    let keys: [&[u8]; 5] = [b"k0000", b"k0100", b"k0101", b"k0750", b"k0751"];
    assert_eq!(batches(&keys), (3, 7));
    // One table of one level was read from three times.
    for h in [
        Histogram::NumSstReadPerLevel,
        Histogram::NumLevelReadPerMultiget,
    ] {
        assert_eq!((s.histogram(h).count, s.histogram(h).sum), (3, 3));
    }
}

#[test]
fn levels_metadata_and_verification_are_counted_as_far_as_they_are_read() {
    let dir = TempDir::new("counted-levels");
    let s = Arc::new(Statistics::new());
    s.set_level(spanlith_base::stats::StatsLevel::All);
    // Partitions of an index are read when they are needed.
    let table =
        BlockBasedTableOptions::new().index_type(spanlith::options::IndexType::TwoLevelIndexSearch);
    let mut options = CfOptions::default();
    options.disable_auto_compactions = true;
    let open = || {
        Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(options.clone())
            .table_options(table.clone())
            .statistics(s.clone())
            .open()
            .unwrap()
    };
    let db = open();
    for key in ["a", "b"] {
        db.default_cf().put(key, "value").unwrap();
        db.default_cf().put("z", "value").unwrap();
        db.default_cf().flush(true).unwrap();
    }
    db.close().unwrap();
    let db = open();
    let cf = db.default_cf();
    s.reset();
    let counted = |h| (s.histogram(h).count, s.histogram(h).sum);
    let levels = Histogram::NumLevelReadPerMultiget;
    let tables = Histogram::NumSstReadPerLevel;
    let metadata = Histogram::NumIndexAndFilterBlocksReadPerLevel;
    for round in 1..=2 {
        let found = cf.multi_get(["a", "b"]);
        assert!(found.into_iter().all(|value| value.unwrap().is_some()));
        // Tables of level 0 are levels of their own; what was read is in the cache then.
        assert_eq!(counted(tables), (2, 2), "round {round}");
        assert_eq!(counted(levels), (1, 2), "round {round}");
        assert_eq!(counted(metadata), (2, 2), "round {round}");
    }
    let verified = Histogram::FileReadVerifyDbChecksumMicros;
    assert_eq!(s.histogram(verified).count, 0);
    cf.verify_checksums().unwrap();
    // Of each table at least the index and a block of data.
    assert!(s.histogram(verified).count >= 4);
}

#[test]
fn moves_of_cursors_are_counted() {
    let dir = TempDir::new("counted-moves");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let cf = db.default_cf();
    let tickers = [
        Ticker::NumIteratorCreated,
        Ticker::NumIteratorDeleted,
        Ticker::NumberDbSeek,
        Ticker::NumberDbSeekFound,
        Ticker::NumberDbNext,
        Ticker::NumberDbNextFound,
        Ticker::NumberDbPrev,
        Ticker::NumberDbPrevFound,
        Ticker::DbIterBytesRead,
    ];
    let walk = |cf: &Cf| {
        let mut c = cf.cursor(ReadOptions::new());
        c.seek(b"k1").unwrap();
        c.next().unwrap();
        c.prev().unwrap();
        c.seek(b"z").unwrap();
        c.seek_for_prev(b"z").unwrap();
        c.next().unwrap();
    };
    let got = risen(&s, &tickers, || walk(&cf));
    assert_eq!(got, [1, 1, 3, 2, 2, 1, 1, 1, 4 * 7]);
    assert_eq!(s.histogram(Histogram::DbSeekMicros).count, 3);
}

#[test]
fn the_perf_context_counts_for_its_thread_from_level_two_on() {
    let dir = TempDir::new("counted-perf");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let cf = db.default_cf();
    let work = || {
        perf::reset();
        cf.get("k1").unwrap();
        let mut c = cf.cursor(ReadOptions::new());
        c.seek(b"k1").unwrap();
        c.next().unwrap();
    };
    let counted = |counter| perf::value(counter);
    work();
    assert_eq!(counted(PerfCounter::GetFromMemtableCount), 0);
    perf::set_level(2);
    work();
    assert_eq!(counted(PerfCounter::GetFromMemtableCount), 1);
    assert_eq!(counted(PerfCounter::BloomSstHitCount), 1);
    assert_eq!(counted(PerfCounter::GetReadBytes), 5);
    assert_eq!(counted(PerfCounter::IterSeekCount), 1);
    assert_eq!(counted(PerfCounter::SeekChildSeekCount), 2);
    assert_eq!(counted(PerfCounter::SeekOnMemtableCount), 1);
    // From k1 over the tombstone of k2, and what it hides, to k3.
    assert_eq!(counted(PerfCounter::InternalDeleteSkippedCount), 1);
    assert_eq!(counted(PerfCounter::InternalKeySkippedCount), 2);
    assert_eq!(counted(PerfCounter::GetFromMemtableTime), 0);
    perf::set_level(1);
}

#[test]
fn metrics_say_what_properties_say() {
    let dir = TempDir::new("metrics");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let snapshot = db.snapshot();
    let m = db.metrics();
    let sst = db.int_property("rocksdb.live-sst-files-size").unwrap();
    assert_eq!(m.live_bytes, sst);
    assert!(sst > 0 && m.wal_bytes > 0 && m.open_files > 0);
    let of = |owner| m.memory.iter().find(|(o, _)| *o == owner).unwrap().1;
    assert!(of(MemoryOwner::Memtables) > 0 && of(MemoryOwner::TableReaders) > 0);
    assert!(m.oldest_snapshot_age.is_some());
    assert_eq!((m.stall.len(), m.write_pace_bytes_per_sec), (3, None));
    drop(snapshot);
    assert!(db.metrics().oldest_snapshot_age.is_none());
    let mut text = String::new();
    m.write_prometheus(&mut text).unwrap();
    assert!(text.contains(&format!(
        "# TYPE spanlith_live_bytes gauge\nspanlith_live_bytes {sst}\n"
    )));
    // Flushes and compactions write what the levels hold.
    let held: u64 = m.levels.iter().map(|l| l.bytes).sum();
    assert_eq!(held, sst);
    let first = &m.levels[0];
    assert!(first.jobs > 0 && first.written_bytes > 0 && first.read_from_above_bytes == 0);
    let tombstones: u64 = m.levels.iter().map(|l| l.tombstones).sum();
    assert!(text.contains("# TYPE spanlith_level_written_bytes_total counter\n"));
    let property = db.property("spanlith.tombstones").unwrap();
    let told = property.lines().map(|line| {
        let (_, counts) = line.split_once(": ").unwrap();
        counts.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(told.sum::<u64>(), tombstones, "{property}");
    let stalls = "spanlith_write_stops_total{cf=\"default\",cause=\"memtable-limit\"} 0\n";
    assert!(text.contains(stalls));
}

#[test]
fn steps_within_memtables_and_comparisons_of_keys_are_counted_from_level_two_on() {
    let dir = TempDir::new("counted-steps");
    let s = Arc::new(Statistics::new());
    let db = world(&dir, &s);
    let cf = db.default_cf();
    for n in 0..100 {
        cf.put(format!("m{n:03}"), "value").unwrap();
    }
    let counted = [
        PerfCounter::SeekOnMemtableCount,
        PerfCounter::NextOnMemtableCount,
        PerfCounter::PrevOnMemtableCount,
    ];
    let work = || {
        let mut i = cf.cursor(ReadOptions::new());
        assert!(i.seek(b"m").unwrap());
        let mut steps = 0;
        while i.valid() {
            i.next().unwrap();
            steps += 1;
        }
        assert_eq!(steps, 100);
        assert!(i.seek_to_last().unwrap());
        i.prev().unwrap();
    };
    perf::reset();
    work();
    assert_eq!(counted.map(perf::value), [0, 0, 0]);
    perf::set_level(2);
    work();
    cf.get("m050").unwrap();
    perf::set_level(1);
    let [seeks, next, prev] = counted.map(perf::value);
    assert_eq!((seeks, next), (1, 100));
    assert!(prev >= 1);
    assert!(perf::value(PerfCounter::UserKeyComparisonCount) > 0);
}

/// A client asserts that a get compares keys. RocksDB counts 1 with one entry, 11 with 100, 18 with 1,000.
#[test]
fn comparisons_of_keys_are_counted_where_memtables_are_searched() {
    let dir = TempDir::new("counted-comparisons");
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .open()
        .unwrap();
    let cf = db.default_cf();
    let counted = |work: &dyn Fn()| {
        perf::reset();
        work();
        perf::value(PerfCounter::UserKeyComparisonCount)
    };
    let get = || drop(cf.get("k000").unwrap());
    let seek = || {
        cf.cursor(ReadOptions::new()).seek(b"k000").unwrap();
    };
    perf::set_level(2);
    assert_eq!(counted(&get), 0, "nothing is there to compare with");
    assert_eq!(counted(&seek), 0);
    cf.put("k000", "value").unwrap();
    let (get_of_one, seek_of_one) = (counted(&get), counted(&seek));
    assert!((1..=6).contains(&get_of_one), "{get_of_one}");
    assert!((1..=6).contains(&seek_of_one), "{seek_of_one}");
    for n in 1..1000 {
        cf.put(format!("k{n:03}"), "value").unwrap();
    }
    let all = counted(&get);
    assert!((10..=25).contains(&all), "{all}");
    let all = counted(&seek);
    assert!((10..=25).contains(&all), "{all}");
    let many = || drop(cf.multi_get(["k000", "k500", "absent"]));
    assert_eq!(counted(&many), 3 * counted(&get));
    perf::set_level(1);
    assert_eq!(counted(&get), 0);
    assert_eq!(counted(&seek), 0);
}

#[test]
fn reads_of_tables_are_timed_by_what_they_are_for() {
    let dir = TempDir::new("counted-activities");
    let s = Arc::new(Statistics::new());
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .table_options({
            let mut table = BlockBasedTableOptions::default();
            table.no_block_cache = true;
            table
        })
        .statistics(s.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    ten(&cf);
    let count = |h: Histogram| s.histogram(h).count;
    let all = Histogram::SstReadMicros;
    let reads = |histogram: Histogram, work: &dyn Fn()| {
        let before = (count(histogram), count(all));
        work();
        (count(histogram) - before.0, count(all) - before.1)
    };
    let get = || drop(cf.get("k3").unwrap());
    assert_eq!(reads(Histogram::FileReadGetMicros, &get), (1, 1));
    let multi_get = || drop(cf.multi_get_opt(&[b"k3", b"k4"], &ReadOptions::new()));
    assert_eq!(reads(Histogram::FileReadMultigetMicros, &multi_get), (1, 1));
    let scan = || assert!(cf.cursor(ReadOptions::new()).seek(b"k1").unwrap());
    assert_eq!(reads(Histogram::FileReadDbIteratorMicros, &scan), (1, 1));
    cf.put("k3", "newer").unwrap();
    cf.flush(true).unwrap();
    let compact = || cf.compact_range(None, None).unwrap();
    // Two blocks of the inputs; footer, metaindex, properties and index of the output.
    assert_eq!(
        reads(Histogram::FileReadCompactionMicros, &compact).0,
        2 + 4
    );
}

#[test]
fn the_last_place_to_look_is_not_asked_by_its_filter_where_hits_are_expected() {
    let dir = TempDir::new("counted-hits");
    let open = |hits| {
        let s = Arc::new(Statistics::new());
        let mut options = CfOptions::default();
        options.optimize_filters_for_hits = hits;
        options.disable_auto_compactions = true;
        let db = Db::builder(dir.path())
            .create_if_missing(true)
            .cf_options(options)
            .table_options(BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false"))
            .statistics(s.clone())
            .open()
            .unwrap();
        (db, s)
    };
    // Useful, positive, truly positive, of a key that is in no table and of one in the oldest.
    let check = |db: &Db, s: &Statistics, expected: [u64; 3]| {
        let cf = db.default_cf();
        let keys: [&[u8]; 2] = [b"k4x", b"k4"];
        let get = || keys.iter().for_each(|k| drop(cf.get(k).unwrap()));
        assert_eq!(risen(s, &POINT[2..], get), expected);
        let multi_get = || drop(cf.multi_get_opt(&keys, &ReadOptions::new()));
        assert_eq!(risen(s, &POINT[2..], multi_get), expected);
    };
    {
        let (db, s) = open(true);
        for n in 0..10 {
            db.default_cf().put(format!("k{n}"), "value").unwrap();
        }
        db.flush(true).unwrap();
        // A flush writes the filter all the same.
        check(&db, &s, [0, 0, 0]);
        db.default_cf().put("k0", "a").unwrap();
        db.default_cf().put("k9", "b").unwrap();
        db.flush(true).unwrap();
        // The newer table of level 0 is asked for both keys.
        check(&db, &s, [2, 0, 0]);
    }
    {
        let (db, s) = open(false);
        check(&db, &s, [3, 1, 1]);
        db.default_cf().compact_range(None, None).unwrap();
        check(&db, &s, [1, 1, 1]);
    }
    // The last level has filters of the time before.
    let (db, s) = open(true);
    check(&db, &s, [0, 0, 0]);
    db.default_cf().put("k0", "a").unwrap();
    db.default_cf().put("k9", "b").unwrap();
    db.flush(true).unwrap();
    check(&db, &s, [2, 0, 0]);
}

/// The dashboard asks for what is exported, and leaves nothing out that is always exported.
#[test]
fn the_dashboard_and_the_exported_metrics_name_the_same() {
    let dir = TempDir::new("dashboard");
    let db = world(&dir, &Arc::new(Statistics::new()));
    let mut text = String::new();
    db.metrics().write_prometheus(&mut text).unwrap();
    let exported = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let exported: BTreeSet<&str> = exported.filter_map(|l| l.split(' ').next()).collect();
    let dashboard = include_str!("../../../../docs/dashboard.json");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = dashboard.split(|c| !is_part(c));
    let asked: BTreeSet<&str> = words.filter(|w| w.starts_with("spanlith_")).collect();
    assert_eq!(asked, exported);
}
