//! Describes what calls say about themselves: priorities of writes at the rate limiter, and what reads are for.

use spanlith::options::{CfOptions, DbOptions};
use spanlith::{Db, ErrorKind, ReadOptions, ReadPurpose, WriteBatch, WriteOptions};
use spanlith_base::stats::Statistics;
use spanlith_env::{IoPriority, RateLimiter, RateLimiterMode, RateLimiterOptions, SystemClock};
use std::path::Path;
use std::sync::Arc;

/// A database with a limiter that makes nobody wait, but counts.
fn open(dir: &Path, mode: RateLimiterMode, manual_wal_flush: bool) -> (Db, Arc<RateLimiter>) {
    let limits = RateLimiterOptions {
        mode,
        ..RateLimiterOptions::new(1 << 40)
    };
    let limiter = Arc::new(RateLimiter::new(&limits, Arc::new(SystemClock)));
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.manual_wal_flush = manual_wal_flush;
    let builder = Db::builder(dir).options(options).no_info_log();
    let builder = builder.cf_options(CfOptions::default());
    let db = builder.rate_limiter(limiter.clone()).open().unwrap();
    (db, limiter)
}

fn at(priority: IoPriority) -> WriteOptions {
    WriteOptions::new().rate_limiter_priority(Some(priority))
}

#[test]
fn a_write_with_a_priority_asks_the_limiter_for_its_bytes_in_the_log() {
    for mode in [RateLimiterMode::Writes, RateLimiterMode::Reads] {
        let dir = tempfile::tempdir().unwrap();
        let (db, limiter) = open(dir.path(), mode, false);
        let cf = db.default_cf();
        let value = vec![b'v'; 1000];
        let asked = || limiter.total_bytes(Some(IoPriority::User));
        cf.put("k", &value).unwrap();
        assert_eq!(asked(), 0, "nobody said so");
        cf.put_opt("k", &value, &at(IoPriority::User)).unwrap();
        // Headers of record and batch, 7 and 12 bytes, type, lengths, key and value.
        let one = 7 + 12 + 1 + 1 + 2 + 1 + 1000;
        let writes = u64::from(mode == RateLimiterMode::Writes);
        assert_eq!(asked(), one * writes);
        let mut batch = WriteBatch::new();
        batch.put("a", &value);
        batch.put("b", &value);
        db.write_opt(&batch, &at(IoPriority::User)).unwrap();
        assert_eq!(asked(), (one + one + 1005) * writes);
        assert_eq!(cf.get("b").unwrap().unwrap().len(), 1000);
    }
}

#[test]
fn priorities_that_a_write_cannot_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _limiter) = open(dir.path(), RateLimiterMode::Writes, false);
    let cf = db.default_cf();
    let refused = |options: &WriteOptions| {
        let e = cf.put_opt("k", "v", options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        e.to_string()
    };
    let only = "Invalid argument: WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and \
                Env::IO_USER due to implementation constraints";
    for priority in [IoPriority::Low, IoPriority::Mid, IoPriority::High] {
        assert_eq!(refused(&at(priority)), only);
    }
    let needs_log = "Invalid argument: WriteOptions::rate_limiter_priority currently only supports \
                     rate-limiting automatic WAL flush, which requires `WriteOptions::disableWAL` and \
                     `DBOptions::manual_wal_flush` both set to false";
    let unlogged = at(IoPriority::User).disable_wal(true);
    assert_eq!(refused(&unlogged), needs_log);
    // Before what is wrong with a sync of no log.
    assert_eq!(refused(&unlogged.sync(true)), needs_log);
    assert!(cf.get("k").unwrap().is_none());
    drop((cf, db));
    let (db, _limiter) = open(dir.path(), RateLimiterMode::Writes, true);
    let e = db.default_cf().put_opt("k", "v", &at(IoPriority::User));
    assert_eq!(e.unwrap_err().to_string(), needs_log);
}

#[test]
fn a_read_that_is_said_to_be_another_is_refused() {
    use ReadPurpose::{Get, Iterator, MultiGet, Other, Unsaid};
    for observed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = Db::builder(dir.path()).create_if_missing(true);
        if observed {
            builder = builder.statistics(Arc::new(Statistics::new()));
        }
        let db = builder.no_info_log().open().unwrap();
        let cf = db.default_cf();
        cf.put("k", "v").unwrap();
        for purpose in [Unsaid, Get, MultiGet, Iterator, Other] {
            let mut options = ReadOptions::new();
            options.purpose = purpose;
            let check =
                |call: &str, name: &str, own: ReadPurpose, done: spanlith::Result<usize>| {
                    if purpose == Unsaid || purpose == own {
                        assert_eq!(done.unwrap(), 1, "{call}");
                        return;
                    }
                    let expected = format!(
                        "Invalid argument: Can only call {call} with `ReadOptions::io_activity` is \
                     `Env::IOActivity::kUnknown` or `Env::IOActivity::{name}`"
                    );
                    assert_eq!(done.unwrap_err().to_string(), expected);
                };
            let found = |v: Option<spanlith::Pinned>| v.map_or(0, |v| v.len());
            check("Get", "kGet", Get, cf.get_opt("k", &options).map(found));
            let timed = cf.get_with_timestamp("k", &options);
            let timed = timed.map(|v| v.map_or(0, |v| v.0.len()));
            check("Get", "kGet", Get, timed);
            let one = |mut all: Vec<spanlith::Result<Option<spanlith::Pinned>>>| {
                all.pop().unwrap().map(found)
            };
            let keys = [&b"k"[..]];
            let several = one(cf.multi_get_opt(&keys, &options));
            check("MultiGet", "kMultiGet", MultiGet, several);
            let several = one(db.multi_get_opt(&[(&cf, b"k")], &options));
            check("MultiGet", "kMultiGet", MultiGet, several);
            let mut cursor = cf.cursor(options.clone());
            let moved = cursor.seek_to_first().map(usize::from);
            check("NewIterator", "kDBIterator", Iterator, moved);
            // It may be for anything.
            assert!(cf.key_may_exist("k", &options).unwrap().is_some());
        }
    }
}
