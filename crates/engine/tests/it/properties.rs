//! Properties against known contents.

use spanlith::options::{BlockBasedTableOptions, CfOptions, CompressionType, DbOptions, IndexType};
use spanlith::{Db, DefaultCache, FamilyOptions, ReadOptions};
use spanlith_env::{Env, MemFs};
use std::path::Path;
use std::sync::Arc;

fn open() -> Db {
    let mut env = Env::system();
    env.fs = Arc::new(MemFs::new());
    Db::builder(Path::new("/db"))
        .create_if_missing(true)
        .env(env)
        .no_info_log()
        .cf_options(CfOptions::new().disable_auto_compactions(true))
        .open()
        .unwrap()
}

/// 1000 keys in level 6, 500 of them again in level 0, 10 deletions in memory.
fn filled() -> Db {
    let db = open();
    let cf = db.default_cf();
    let put = |n: u32| {
        cf.put(format!("key{n:08}"), vec![b'v'; 100]).unwrap();
    };
    (0..1000).for_each(put);
    db.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    (0..500).for_each(put);
    db.flush(true).unwrap();
    // A job counts as running for a moment after it has told who waits for it.
    db.wait_idle(None).unwrap();
    for n in 0..10 {
        cf.delete(format!("key{n:08}")).unwrap();
    }
    db
}

fn text(db: &Db, name: &str) -> String {
    db.property(&format!("rocksdb.{name}")).unwrap()
}

fn int(db: &Db, name: &str) -> u64 {
    let value = db.int_property(&format!("rocksdb.{name}")).unwrap();
    assert_eq!(text(db, name), value.to_string());
    value
}

#[test]
fn integers_tell_what_is_there() {
    let db = filled();
    let snapshot = db.snapshot();
    for (name, want) in [
        ("num-entries-active-mem-table", 10),
        ("num-deletes-active-mem-table", 10),
        ("num-immutable-mem-table", 0),
        ("num-entries-imm-mem-tables", 0),
        ("estimate-num-keys", 1000 + 500 + 10 - 2 * 10),
        ("num-snapshots", 1),
        ("oldest-snapshot-sequence", 1510),
        ("num-live-versions", 1),
        ("base-level", 6),
        ("background-errors", 0),
        ("is-file-deletions-enabled", 1),
        ("is-write-stopped", 0),
        ("actual-delayed-write-rate", 0),
        ("num-running-compactions", 0),
        ("num-running-compaction-sorted-runs", 0),
        ("num-running-flushes", 0),
        ("compaction-abort-count", 0),
        ("min-obsolete-sst-number-to-keep", u64::MAX),
        ("obsolete-sst-files-size", 0),
        ("block-cache-capacity", 32 << 20),
        ("num-blob-files", 0),
        ("live-blob-file-size", 0),
        ("estimate-pending-compaction-bytes", 0),
    ] {
        assert_eq!(int(&db, name), want, "{name}");
    }
    let sizes = [
        int(&db, "total-sst-files-size"),
        int(&db, "live-sst-files-size"),
    ];
    assert_eq!(sizes[0], sizes[1]);
    // Entries that level 0 holds again shadow those of level 6, by estimate.
    let live = int(&db, "estimate-live-data-size");
    assert!(live > 0 && live < sizes[0], "{live} {sizes:?}");
    drop(snapshot);
    assert_eq!(int(&db, "num-snapshots"), 0);
    assert_eq!(db.int_property("rocksdb.nosuch"), None);
    assert_eq!(db.int_property("num-snapshots"), None);
    assert_eq!(db.int_property("rocksdb.levelstats"), None);
}

/// Holds V5 and R2.
#[test]
fn an_iterator_keeps_its_version_and_its_tables_alive() {
    let db = filled();
    let before = int(&db, "live-sst-files-size");
    let mut cursor = db.default_cf().cursor(spanlith::ReadOptions::default());
    assert!(cursor.seek_to_first().unwrap());
    db.default_cf().compact_range(None, None).unwrap();
    assert!(int(&db, "num-live-versions") >= 2);
    let after = int(&db, "live-sst-files-size");
    assert!(int(&db, "total-sst-files-size") >= before + after);
    drop(cursor);
    assert_eq!(int(&db, "num-live-versions"), 1);
    assert_eq!(int(&db, "total-sst-files-size"), after);
}

#[test]
fn levels_are_told_by_number() {
    let db = filled();
    assert_eq!(text(&db, "num-files-at-level0"), "1");
    assert_eq!(text(&db, "num-files-at-level6"), "1");
    assert_eq!(text(&db, "compression-ratio-at-level3"), "-1.000000");
    let ratio: f64 = text(&db, "compression-ratio-at-level6").parse().unwrap();
    assert!(ratio > 1.0);
    for name in [
        "num-files-at-level",
        "num-files-at-level7",
        "num-files-at-level+1",
        "num-files-at-level99999999999",
        "compression-ratio-at-level7",
        "aggregated-table-properties-at-level7",
        "estimate-oldest-key-time",
        "blob-cache-capacity",
        "options-statistics",
        "nosuch",
    ] {
        assert_eq!(db.property(&format!("rocksdb.{name}")), None, "{name}");
    }
    let stats = text(&db, "levelstats");
    let lines: Vec<&str> = stats.lines().collect();
    assert_eq!(lines[0], "Level Files Size(MB)");
    assert_eq!(lines[2], "  0        1        0");
    assert_eq!(lines.len(), 9);
    let tables = text(&db, "sstables");
    assert!(tables.starts_with("--- level 0 --- version# "));
    assert!(tables.contains("'6B65793030303030303030' seq:"));
    let live = text(&db, "live-sst-files-size-at-temperature0");
    assert_eq!(live, int(&db, "live-sst-files-size").to_string());
}

#[test]
fn table_properties_add_up() {
    let db = filled();
    let all = text(&db, "aggregated-table-properties");
    assert!(all.starts_with("# data blocks="));
    assert!(all.contains("; # entries=1500; # deletions=0; "), "{all}");
    assert!(all.contains("raw key size=28500; raw average key size=19.000000; "));
    assert!(all.ends_with("Sequence number to time mapping=; "));
    let one = text(&db, "aggregated-table-properties-at-level0");
    assert!(one.contains("; # entries=500; "));
    let map = db
        .map_property("rocksdb.aggregated-table-properties")
        .unwrap();
    assert_eq!(map["num_entries"], "1500");
}

#[test]
fn statistics_of_compactions_have_rocksdbs_header_and_rows() {
    crate::suite_disk::needs_table_files(
        "a table that changes to a level on other storage is written anew",
    );
    let db = filled();
    let stats = text(&db, "cfstats-no-file-histogram");
    let lines: Vec<&str> = stats.lines().collect();
    assert_eq!(lines[1], "** Compaction Stats [default] **");
    assert_eq!(
        lines[2],
        "Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) \
         Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn \
         KeyDrop Rblob(GB) Wblob(GB)"
    );
    assert_eq!(lines[3], "-".repeat(205));
    let row = |name: &str| -> Vec<&str> {
        let line = lines.iter().find(|l| l.trim_start().starts_with(name));
        line.unwrap().split_whitespace().collect()
    };
    let (l0, sum) = (row("L0 "), row("Sum "));
    // Two flushes of 1500 entries in all; the first table was moved to level 6 as it was.
    assert_eq!((l0[1], l0[17], l0[19]), ("1/0", "2", "1500"));
    assert_eq!((sum[1], sum[17]), ("2/0", "2"));
    assert_eq!(row("High")[17], "2");
    let map = db.map_property("rocksdb.cfstats").unwrap();
    assert_eq!(map["compaction.L0.CompCount"], "2.000000");
    assert_eq!(map["total-stops"], "0");
    let all = text(&db, "stats");
    for part in [
        "** Compaction Stats [default] **",
        "Uptime(secs): ",
        "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 0, ",
        "Block cache SpanlithCache@",
        "** File Read Latency Histogram By Level [default] **",
        "** DB Stats **",
        "Cumulative writes: 1510 writes, 1510 keys, 1510 commit groups, 1.0 writes per commit group",
        "Write Stall (count): write-buffer-manager-limit-stops: 0",
    ] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    let second = text(&db, "dbstats");
    assert!(
        second.contains("Interval writes: 0 writes, 0 keys"),
        "{second}"
    );
    assert!(text(&db, "blob-stats").starts_with("Number of blob files: 0\n"));
    assert!(text(&db, "cf-write-stall-stats").contains("total-stops: 0\n"));
    assert!(text(&db, "block-cache-entry-stats").contains("capacity: 32.00 MB"));
}

#[test]
fn sums_over_families_count_what_they_share_once() {
    let db = filled();
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    other.put("k", "v").unwrap();
    let sum = |name: &str| db.aggregated_int_property(&format!("rocksdb.{name}"));
    assert_eq!(sum("num-entries-active-mem-table"), Some(11));
    assert_eq!(sum("is-file-deletions-enabled"), Some(1));
    assert_eq!(
        sum("block-cache-capacity"),
        Some(32 << 20),
        "they share one"
    );
    let own = FamilyOptions::new("own").default_cache(DefaultCache::default());
    db.create_cf(own).unwrap();
    assert_eq!(sum("block-cache-capacity"), Some(64 << 20));
    assert_eq!(sum("nosuch"), None);
    assert_eq!(sum("levelstats"), None);
}

#[test]
fn megabytes_of_levels_are_rounded() {
    let db = Db::builder(Path::new("/db"))
        .create_if_missing(true)
        .env(Env::test(Arc::new(MemFs::new()), 1).0)
        .no_info_log()
        .cf_options(CfOptions::new().compression(CompressionType::None))
        .open()
        .unwrap();
    for (key, line) in [
        ("a", "  0        1        0"),
        ("b", "  0        2        1"),
    ] {
        db.default_cf().put(key, vec![b'v'; 400_000]).unwrap();
        db.flush(true).unwrap();
        assert_eq!(text(&db, "levelstats").lines().nth(2).unwrap(), line);
    }
}

/// RocksDB's tables that hold only ranges have an index above partitions, and no partition.
#[test]
fn a_partitioned_index_over_no_data_has_no_partition() {
    for format in [2_u32, 6] {
        let table = BlockBasedTableOptions::new()
            .index_type(IndexType::TwoLevelIndexSearch)
            .format_version(format);
        let db = Db::builder(Path::new("/db"))
            .create_if_missing(true)
            .env(Env::test(Arc::new(MemFs::new()), 1).0)
            .no_info_log()
            .table_options(table)
            .open()
            .unwrap();
        let cf = db.default_cf();
        cf.put("k", "v").unwrap();
        db.flush(true).unwrap();
        let all = text(&db, "aggregated-table-properties-at-level0");
        let top = all
            .split("; ")
            .find(|p| p.starts_with("top-level index size="));
        let top = top.unwrap().to_owned();
        cf.delete_range("a", "z").unwrap();
        db.flush(true).unwrap();
        let all = text(&db, "aggregated-table-properties-at-level0");
        assert!(all.contains("# index partitions=1;"), "{all}");
        assert!(all.contains(&top), "{all}");
        let delta = u32::from(format > 3);
        let first = if format > 3 { 2 } else { 1 };
        let kinds = format!("(user-key? {first}, delta-value? {})", 2 * delta);
        assert!(all.contains(&kinds), "{all}");
        assert_eq!(cf.get("k").unwrap(), None);
        let mut cursor = cf.cursor(ReadOptions::new());
        assert!(!cursor.seek_to_first().unwrap());
        assert!(!cursor.seek_to_last().unwrap());
        assert!(!cursor.seek(b"b").unwrap());
    }
}

/// As in RocksDB, properties of the first twenty tables are looked at when a database opens that may have
/// few files open, so that the estimate is exact up to there; unless that is not wanted.
#[test]
fn keys_are_estimated_from_a_sample_of_twenty_tables() {
    let fs = MemFs::new();
    let open = |skip: bool| {
        let mut env = Env::system();
        env.fs = Arc::new(fs.clone());
        let options = DbOptions::new()
            .create_if_missing(true)
            .max_open_files(20)
            .skip_stats_update_on_db_open(skip);
        let family = CfOptions::new().disable_auto_compactions(true);
        Db::builder("/db")
            .env(env)
            .no_info_log()
            .options(options)
            .cf_options(family)
            .open()
            .unwrap()
    };
    let db = open(false);
    for file in 0..20 {
        for n in 0..file + 2 {
            db.default_cf().put(format!("k{file}.{n}"), "v").unwrap();
        }
        db.flush(true).unwrap();
    }
    let all: u64 = (0..20).map(|file| file + 2).sum();
    assert_eq!(int(&db, "estimate-num-keys"), all);
    drop(db);
    assert_eq!(int(&open(false), "estimate-num-keys"), all);
    assert_ne!(int(&open(true), "estimate-num-keys"), all);
}
