//! What flushes, compactions and openings cost is counted where RocksDB counts it. The numbers are those
//! that RocksDB 11.8.1 gives for the same calls (R-COMPAT).

use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType};
use spanlith::{Cf, Db};
use spanlith_base::stats::{Histogram, Statistics, StatsLevel, Ticker};
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
