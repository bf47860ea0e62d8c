//! The cost of flushes, compactions and openings is counted where RocksDB counts it. The numbers are those
//! that RocksDB 11.8.1 gives for the same calls (R-COMPAT).

use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType};
use spanlith::{Cf, Db, MergeOperator, ReadOptions, WriteOptions};
use spanlith_base::SliceTransform;
use spanlith_base::perf::{self, PerfCounter};
use spanlith_base::stats::{Histogram, Statistics, StatsLevel, Ticker};
use spanlith_env::{RateLimiter, RateLimiterOptions, SystemClock};
use spanlith_testkit::TempDir;
use std::sync::Arc;

fn open(dir: &TempDir, s: &Arc<Statistics>, change: impl FnOnce(&mut CfOptions)) -> Db {
    let mut options = CfOptions::default();
    options.disable_auto_compactions = true;
    options.compression = CompressionType::None;
    change(&mut options);
    Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(options)
        .table_options(BlockBasedTableOptions::default())
        .statistics(s.clone())
        .open()
        .unwrap()
}

fn fill(cf: &Cf, count: usize) {
    for n in 0..count {
        cf.put(format!("k{n:05}"), [b'v'; 50]).unwrap();
    }
}

/// How often histograms were recorded in and tickers rose while `work` ran.
fn risen(
    s: &Statistics,
    tickers: &[Ticker],
    histograms: &[Histogram],
    work: impl FnOnce(),
) -> (Vec<u64>, Vec<u64>) {
    let now = || -> (Vec<u64>, Vec<u64>) {
        (
            tickers.iter().map(|t| s.ticker(*t)).collect(),
            histograms.iter().map(|h| s.histogram(*h).count).collect(),
        )
    };
    let before = now();
    work();
    let after = now();
    let since = |now: Vec<u64>, before: Vec<u64>| {
        let pairs = now.into_iter().zip(before);
        pairs.map(|(now, before)| now - before).collect()
    };
    (since(after.0, before.0), since(after.1, before.1))
}

/// A merge operator that gives up.
struct Refusing;

impl MergeOperator for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

fn all_levels() -> Arc<Statistics> {
    let s = Arc::new(Statistics::new());
    s.set_level(StatsLevel::All);
    s
}

#[test]
fn a_flush_counts_what_it_writes_and_what_opening_its_table_reads() {
    let dir = TempDir::new("counted-flush");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    fill(&cf, 100);
    let tickers = [
        Ticker::NoFileOpens,
        Ticker::NonLastLevelReadCount,
        Ticker::LastLevelReadCount,
        Ticker::BlockChecksumComputeCount,
        Ticker::NumberBlockCompressionBypassed,
        Ticker::NumberBlockCompressed,
    ];
    let histograms = [
        Histogram::TableOpenIoMicros,
        Histogram::TableSyncMicros,
        Histogram::CompactionOutfileSyncMicros,
        Histogram::WriteRawBlockMicros,
        Histogram::FileReadFlushMicros,
        Histogram::SstReadMicros,
        Histogram::ReadBlockGetMicros,
    ];
    let flush = || cf.flush(true).unwrap();
    // Two blocks of data, index, properties and metaindex are written. Of the table footer, metaindex,
    // properties and index are read, and the checksums of properties are verified apart.
    let expected = (vec![1, 4, 0, 2, 3, 0], vec![1, 1, 0, 5, 4, 4, 1]);
    assert_eq!(risen(&s, &tickers, &histograms, flush), expected);
}

#[test]
fn opening_a_database_counts_its_tables_and_the_last_level_is_told_apart() {
    let dir = TempDir::new("counted-open");
    let s = all_levels();
    {
        let db = open(&dir, &s, |options| options.num_levels = 3);
        let cf = db.default_cf();
        fill(&cf, 10);
        cf.flush(true).unwrap();
        fill(&cf, 10);
        cf.flush(true).unwrap();
        let tickers = [Ticker::LastLevelReadCount, Ticker::NonLastLevelReadCount];
        let histograms = [
            Histogram::FileReadCompactionMicros,
            Histogram::CompactionOutfileSyncMicros,
        ];
        let compact = || cf.compact_range(None, None).unwrap();
        // A block of each input, and the output as it is opened.
        let expected = (vec![4, 2], vec![6, 1]);
        assert_eq!(risen(&s, &tickers, &histograms, compact), expected);
    }
    let s = all_levels();
    let db = open(&dir, &s, |options| options.num_levels = 3);
    assert_eq!(s.ticker(Ticker::NoFileOpens), 1);
    assert_eq!(s.histogram(Histogram::FileReadDbOpenMicros).count, 4);
    assert_eq!(s.ticker(Ticker::LastLevelReadCount), 4);
    let bytes = s.ticker(Ticker::LastLevelReadBytes);
    assert!(bytes > 53 && s.ticker(Ticker::NonLastLevelReadBytes) == 0);
    db.default_cf().get("k00001").unwrap().unwrap();
    assert_eq!(s.ticker(Ticker::LastLevelReadCount), 5);
}

#[test]
fn blocks_are_counted_when_they_are_compressed_and_when_they_come_back() {
    let dir = TempDir::new("counted-codec");
    let s = all_levels();
    let db = open(&dir, &s, |options| {
        options.compression = CompressionType::Zstd;
    });
    let cf = db.default_cf();
    fill(&cf, 3000);
    let packed = [
        Ticker::NumberBlockCompressed,
        Ticker::NumberBlockCompressionRejected,
        Ticker::NumberBlockCompressionBypassed,
        Ticker::NumberBlockDecompressed,
    ];
    let times = [
        Histogram::CompressionTimesNanos,
        Histogram::DecompressionTimesNanos,
    ];
    let flush = || cf.flush(true).unwrap();
    let (tickers, histograms) = risen(&s, &packed, &times, flush);
    let blocks = tickers[0] - 1;
    assert!(blocks > 5, "some data blocks and the index: {tickers:?}");
    assert_eq!(tickers[1..], [0, 0, 1], "the index comes back");
    assert_eq!(histograms, [blocks + 1, 1]);
    let (from, to) = (
        s.ticker(Ticker::BytesCompressedFrom),
        s.ticker(Ticker::BytesCompressedTo),
    );
    assert!(from > 3000 * 50 && to < from / 2);
    let scan = || {
        let entries = cf.iter().map(|e| e.unwrap());
        assert_eq!(entries.count(), 3000);
    };
    let (tickers, histograms) = risen(&s, &packed, &times, scan);
    assert_eq!((tickers[3], histograms[1]), (blocks, blocks));
    assert_eq!(
        s.ticker(Ticker::BytesDecompressedTo),
        s.ticker(Ticker::BytesCompressedFrom),
        "all blocks came back once"
    );
    s.set_level(StatsLevel::ExceptDetailedTimers);
    fill(&cf, 3000);
    let (tickers, histograms) = risen(&s, &packed, &times, flush);
    assert!(tickers[0] > 5);
    assert_eq!(histograms, [0, 0], "they are details");
}

#[test]
fn nobody_is_counted_for_at_the_level_that_counts_nothing() {
    let dir = TempDir::new("counted-nothing");
    let s = Arc::new(Statistics::new());
    s.set_level(StatsLevel::DisableAll);
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    fill(&cf, 10);
    cf.flush(true).unwrap();
    assert!(Ticker::ALL.iter().all(|t| s.ticker(*t) == 0));
    assert!(Histogram::ALL.iter().all(|h| s.histogram(*h).count == 0));
}

#[test]
fn a_flush_says_what_of_its_memtables_was_garbage() {
    let dir = TempDir::new("counted-garbage");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    // Six bytes of key, eight of number and type, fifty of value.
    fill(&cf, 10);
    fill(&cf, 4);
    cf.single_delete_opt("k00009", &WriteOptions::new())
        .unwrap();
    let tickers = [
        Ticker::MemtablePayloadBytesAtFlush,
        Ticker::MemtableGarbageBytesAtFlush,
        Ticker::FilesDeletedImmediately,
    ];
    let histograms = [
        Histogram::FlushMemtableMemoryBytes,
        Histogram::FlushMemtableTotalDataSizeBytes,
        Histogram::ManifestFileSyncMicros,
    ];
    let flush = || cf.flush(true).unwrap();
    // RocksDB leaves out what a single delete cancels; the single delete itself and four puts are garbage.
    let (all, garbage) = (14 * 64 + 14 - 64, 4 * 64 + 14);
    let expected = (vec![all, garbage, 1], vec![1, 1, 1]);
    assert_eq!(risen(&s, &tickers, &histograms, flush), expected);
    let lengths = 2 * 15;
    let size = s.histogram(Histogram::FlushMemtableTotalDataSizeBytes).sum;
    assert_eq!(size, 14 * 64 + 14 + lengths);
    // Fragments of ranges can be more than the memtable held: then nothing is said.
    cf.delete_range("k00001", "k00005").unwrap();
    cf.delete_range("k00003", "k00007").unwrap();
    let (tickers, _) = risen(&s, &tickers, &[], flush);
    assert_eq!(tickers[..2], [0, 0]);
}

#[test]
fn a_compaction_counts_range_tombstones_and_pairs_among_what_it_drops() {
    let dir = TempDir::new("counted-dropped");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    fill(&cf, 10);
    cf.flush(true).unwrap();
    cf.single_delete_opt("k00009", &WriteOptions::new())
        .unwrap();
    cf.delete_range("k00001", "k00003").unwrap();
    cf.delete_range("k00002", "k00005").unwrap();
    cf.flush(true).unwrap();
    let tickers = [
        Ticker::CompactionRangeDelDropObsolete,
        Ticker::CompactionKeyDropObsolete,
        Ticker::CompactionKeyDropNew,
        Ticker::CompactionKeyDropRangeDel,
        Ticker::NumberSuperversionAcquires,
        Ticker::NumberSuperversionReleases,
    ];
    let histograms = [
        Histogram::NumfilesInSinglecompaction,
        Histogram::CompactionTimesCpuMicros,
    ];
    let compact = || cf.compact_range(None, None).unwrap();
    // Three fragments of the ranges and one pair; four keys in the ranges and the pair. A manual
    // compaction is not one that was picked.
    let expected = (vec![3, 4, 5, 4, 1, 1], vec![0, 1]);
    assert_eq!(risen(&s, &tickers, &histograms, compact), expected);
}

#[test]
fn a_superversion_is_counted_when_a_thread_takes_it_first() {
    let dir = TempDir::new("counted-superversion");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    fill(&cf, 10);
    let acquires = [Ticker::NumberSuperversionAcquires];
    let get = || drop(cf.get("k00001").unwrap());
    assert_eq!(risen(&s, &acquires, &[], get).0, [1]);
    assert_eq!(risen(&s, &acquires, &[], get).0, [0]);
    let scan = || assert_eq!(cf.iter().count(), 10);
    assert_eq!(risen(&s, &acquires, &[], scan).0, [0]);
    let elsewhere = || {
        std::thread::scope(|scope| scope.spawn(get).join().unwrap());
    };
    assert_eq!(risen(&s, &acquires, &[], elsewhere).0, [1]);
    cf.flush(true).unwrap();
    assert_eq!(risen(&s, &acquires, &[], scan).0, [1]);
    assert_eq!(risen(&s, &acquires, &[], get).0, [0]);
}

#[test]
fn seeks_count_the_blocks_they_come_to_and_whether_an_entry_was_wanted() {
    let dir = TempDir::new("counted-seeks");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    fill(&cf, 200);
    cf.flush(true).unwrap();
    let tickers = [
        Ticker::NonLastLevelSeekData,
        Ticker::NonLastLevelSeekDataUsefulNoFilter,
        Ticker::LastLevelSeekData,
    ];
    let scan = || assert_eq!(cf.iter().count(), 200);
    assert_eq!(risen(&s, &tickers, &[], scan).0, [1, 1, 0]);
    // An entry of a memtable comes first.
    cf.put("k00100x", "value").unwrap();
    let seek = || assert!(cf.cursor(ReadOptions::new()).seek(b"k00100w").unwrap());
    assert_eq!(risen(&s, &tickers, &[], seek).0, [1, 0, 0]);
    cf.compact_range(None, None).unwrap();
    assert_eq!(risen(&s, &tickers, &[], seek).0, [0, 0, 1]);
}

#[test]
fn reseeks_and_failed_merges_are_counted() {
    let dir = TempDir::new("counted-reseeks");
    let s = all_levels();
    let mut options = CfOptions::default();
    options.max_sequential_skip_in_iterations = 4;
    options.disable_auto_compactions = true;
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(options)
        .merge_operator(Arc::new(Refusing))
        .statistics(s.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    for _ in 0..20 {
        fill(&cf, 5);
    }
    let tickers = [Ticker::NumberReseeksIteration, Ticker::NumberIterSkip];
    let forward = || assert_eq!(cf.iter().count(), 5);
    assert_eq!(risen(&s, &tickers, &[], forward).0, [5, 25]);
    let backward = || {
        let mut c = cf.cursor(ReadOptions::new());
        c.seek_to_last().unwrap();
        while c.valid() {
            c.prev().unwrap();
        }
    };
    assert_eq!(risen(&s, &tickers, &[], backward).0, [5, 25]);
    cf.merge("k00002", "operand").unwrap();
    let failures = [Ticker::NumberMergeFailures];
    let get = || assert!(cf.get("k00002").is_err());
    assert_eq!(risen(&s, &failures, &[], get).0, [1]);
    let multi_get = || {
        let keys: [&[u8]; 2] = [b"k00001", b"k00002"];
        drop(cf.multi_get_opt(&keys, &ReadOptions::new()));
    };
    assert_eq!(risen(&s, &failures, &[], multi_get).0, [1]);
    let seek = || assert!(cf.cursor(ReadOptions::new()).seek(b"k00002").is_err());
    assert_eq!(risen(&s, &failures, &[], seek).0, [1]);
    let changes = || drop(db.changes(1).unwrap());
    let calls = [Ticker::GetupdatessinceCalls];
    assert_eq!(risen(&s, &calls, &[], changes).0, [1]);
}

#[test]
fn requests_to_a_rate_limiter_are_counted() {
    let dir = TempDir::new("counted-limiter");
    let s = all_levels();
    let limits = RateLimiterOptions::new(1 << 30);
    let limiter = RateLimiter::new(&limits, Arc::new(SystemClock));
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .rate_limiter(Arc::new(limiter))
        .statistics(s.clone())
        .open()
        .unwrap();
    fill(&db.default_cf(), 100);
    db.default_cf().flush(true).unwrap();
    let written = s.ticker(Ticker::FlushWriteBytes);
    assert_eq!(s.ticker(Ticker::RateLimiterBytesWrite), written);
    assert_eq!(s.ticker(Ticker::RateLimiterRequestsWrite), 1);
}

#[test]
fn a_filter_of_prefixes_that_a_seek_asks_is_counted_for_the_thread_and_the_level() {
    let dir = TempDir::new("counted-prefixes");
    let s = all_levels();
    let mut options = CfOptions::default();
    options.compression = CompressionType::None;
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .cf_options(options)
        .prefix_extractor(SliceTransform::FixedPrefix(3))
        .table_options(BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false"))
        .statistics(s.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    cf.put("aaa1", "value").unwrap();
    cf.put("ccc1", "value").unwrap();
    cf.flush(true).unwrap();
    let tickers = [
        Ticker::NonLastLevelSeekFilterMatch,
        Ticker::NonLastLevelSeekFiltered,
        Ticker::NonLastLevelSeekDataUsefulFilterMatch,
        Ticker::NonLastLevelSeekDataUsefulNoFilter,
    ];
    let seek = |key: &str| {
        let options = ReadOptions::new().prefix_same_as_start(true);
        cf.cursor(options).seek(key.as_bytes()).unwrap();
    };
    perf::reset();
    perf::set_level(2);
    assert_eq!(risen(&s, &tickers, &[], || seek("aaa1")).0, [1, 0, 1, 0]);
    assert_eq!(risen(&s, &tickers, &[], || seek("bbb1")).0, [0, 1, 0, 0]);
    perf::set_level(1);
    let counted = [
        PerfCounter::BloomSstHitCount,
        PerfCounter::BloomSstMissCount,
    ];
    assert_eq!(counted.map(perf::value), [1, 1]);
}

#[test]
fn a_manual_compaction_does_not_cost_the_thread_that_asks_for_it() {
    let dir = TempDir::new("counted-pause");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    for _ in 0..2 {
        fill(&cf, 10);
        cf.flush(true).unwrap();
    }
    perf::reset();
    perf::set_level(2);
    cf.compact_range(None, None).unwrap();
    assert_eq!(perf::value(PerfCounter::BlockReadCount), 0);
    cf.get("k00001").unwrap();
    perf::set_level(1);
    assert_eq!(perf::value(PerfCounter::BlockReadCount), 1);
}

#[test]
fn a_range_tombstone_in_a_memtable_answers_only_with_the_entry_it_deletes() {
    let dir = TempDir::new("counted-covered");
    let s = all_levels();
    let db = open(&dir, &s, |_| ());
    let cf = db.default_cf();
    fill(&cf, 4);
    cf.flush(true).unwrap();
    cf.put("k00001", "newer").unwrap();
    cf.delete_range("k00000", "k00003").unwrap();
    let tickers = [Ticker::MemtableHit, Ticker::MemtableMiss];
    let get = |key: &'static str| {
        let one = || assert!(cf.get(key).unwrap().is_none());
        let several = || {
            let found = cf.multi_get_opt(&[key.as_bytes()], &ReadOptions::new());
            assert!(found.into_iter().all(|value| value.unwrap().is_none()));
        };
        let of_one = risen(&s, &tickers, &[], one).0;
        assert_eq!(risen(&s, &tickers, &[], several).0, of_one);
        of_one
    };
    assert_eq!(get("k00001"), [1, 0]);
    assert_eq!(get("k00002"), [0, 1]);
}

#[test]
fn a_get_of_a_key_without_a_prefix_is_no_hit_of_a_filter_of_prefixes() {
    let dir = TempDir::new("counted-outside");
    let s = all_levels();
    let mut table = BlockBasedTableOptions::default().filter_policy("bloomfilter:10:false");
    table.whole_key_filtering = false;
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .prefix_extractor(SliceTransform::FixedPrefix(3))
        .table_options(table)
        .statistics(s.clone())
        .open()
        .unwrap();
    let cf = db.default_cf();
    for key in ["aaa1", "b"] {
        cf.put(key, "value").unwrap();
    }
    cf.flush(true).unwrap();
    let hits = |key: &str| {
        perf::reset();
        perf::set_level(2);
        assert!(cf.get(key).unwrap().is_some());
        perf::set_level(1);
        perf::value(PerfCounter::BloomSstHitCount)
    };
    let checked = [Ticker::BloomFilterPrefixChecked];
    let mut counted = 0;
    assert_eq!(risen(&s, &checked, &[], || counted = hits("aaa1")).0, [1]);
    assert_eq!(counted, 1);
    assert_eq!(risen(&s, &checked, &[], || counted = hits("b")).0, [1]);
    assert_eq!(counted, 0);
}
