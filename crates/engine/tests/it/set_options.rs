//! Options changed while the database is open.

use spanlith::options::{CfOptions, OptionsFile};
use spanlith::{Cf, Db, ErrorKind, FamilyOptions};
use spanlith_env::{Env, MemFs};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn open(fs: &MemFs, cf: CfOptions) -> (Db, Env) {
    let mut env = Env::system();
    env.fs = Arc::new(fs.clone());
    let db = Db::builder(Path::new(DIR))
        .create_if_missing(true)
        .env(env.clone())
        .no_info_log()
        .cf_options(cf)
        .open()
        .unwrap();
    (db, env)
}

fn plain() -> CfOptions {
    CfOptions::new().disable_auto_compactions(true)
}

fn fill(cf: &Cf, from: u32, keys: u32) {
    for n in from..from + keys {
        cf.put(format!("{n:06}"), vec![b'v'; 100]).unwrap();
    }
}

fn l0_files(cf: &Cf) -> String {
    cf.property("rocksdb.num-files-at-level0").unwrap()
}

#[test]
fn a_smaller_write_buffer_seals_the_memtable_with_the_next_write() {
    let (db, _) = open(&MemFs::new(), plain());
    let cf = db.default_cf();
    fill(&cf, 0, 1000);
    assert_eq!(l0_files(&cf), "0");
    cf.set_options(&[("write_buffer_size", "65536")]).unwrap();
    assert_eq!(cf.options().write_buffer_size, 65_536);
    fill(&cf, 1000, 2);
    db.wait_idle(None).unwrap();
    db.flush(true).unwrap();
    // One for what the change sealed, one for what came after.
    assert_eq!(l0_files(&cf), "2");
}

#[test]
fn automatic_compactions_are_switched_on_and_off_and_triggers_move() {
    let (db, _) = open(&MemFs::new(), plain().level0_file_num_compaction_trigger(4));
    let cf = db.default_cf();
    for round in 0..3 {
        fill(&cf, round * 10, 20);
        db.flush(true).unwrap();
    }
    db.enable_auto_compaction(&[&cf]).unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(l0_files(&cf), "3", "below the trigger");
    cf.set_options(&[("level0_file_num_compaction_trigger", "2")])
        .unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(l0_files(&cf), "0");
    cf.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    for round in 0..3 {
        fill(&cf, round * 10, 20);
        db.flush(true).unwrap();
    }
    db.wait_idle(None).unwrap();
    assert_eq!(l0_files(&cf), "3");
    cf.set_options(&[("disable_auto_compactions", "false")])
        .unwrap();
    db.wait_idle(None).unwrap();
    assert_eq!(l0_files(&cf), "0");
}

#[test]
fn changes_are_in_the_newest_options_file_of_which_two_are_kept() {
    crate::suite_disk::needs_log_files("options of recycled logs are corrected with a speed disk");
    let fs = MemFs::new();
    let (db, env) = open(&fs, plain());
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    other
        .set_options(&[
            ("write_buffer_size", "1048576"),
            ("block_based_table_factory", "{block_size=8192}"),
        ])
        .unwrap();
    db.set_options(&[("max_background_jobs", "5"), ("bytes_per_sync", "4096")])
        .unwrap();
    let file = OptionsFile::load(&env, Path::new(DIR)).unwrap();
    assert_eq!(file, db.options());
    assert_eq!(file.db.max_background_jobs, 5);
    assert_eq!(file.db.bytes_per_sync, 4096);
    let (name, options, table) = &file.families[1];
    assert_eq!(
        (name.as_str(), options.write_buffer_size),
        ("other", 1 << 20)
    );
    assert_eq!(table.block_size, 8192);
    assert_eq!(other.table_options().block_size, 8192);
    let names = env.fs.list(Path::new(DIR)).unwrap();
    let options = names.iter().filter(|n| n.starts_with("OPTIONS-"));
    assert_eq!(options.count(), 2);
}

#[test]
fn a_refused_change_changes_nothing() {
    let fs = MemFs::new();
    let (db, env) = open(&fs, plain());
    let before = db.options();
    let newest = OptionsFile::find_newest(&env, Path::new(DIR)).unwrap();
    let cf = db.default_cf();
    let none: &[(&str, &str)] = &[];
    for (result, text) in [
        (cf.set_options(none), "Invalid argument: empty input"),
        (db.set_options(none), "Invalid argument: empty input"),
        (
            cf.set_options(&[("ttl", "x")]),
            "Invalid argument: Error parsing ttl:stoull",
        ),
        (
            cf.set_options(&[("write_buffer_size", "1"), ("nosuch", "1")]),
            "Invalid argument: Extra option not recognized: nosuch",
        ),
        (
            cf.set_options(&[("num_levels", "4")]),
            "Invalid argument: Option not changeable: num_levels",
        ),
        (
            db.set_options(&[("create_if_missing", "false")]),
            "NotFound: Unrecognized option: create_if_missing",
        ),
    ] {
        assert_eq!(result.unwrap_err().rocksdb_text(), text);
    }
    assert_eq!(db.options(), before);
    let after = OptionsFile::find_newest(&env, Path::new(DIR)).unwrap();
    assert_eq!(after, newest);
}

#[test]
fn a_dropped_family_takes_no_changes() {
    let (db, _) = open(&MemFs::new(), plain());
    let other = db.create_cf(FamilyOptions::new("other")).unwrap();
    db.drop_cf(&other).unwrap();
    let e = other.set_options(&[("ttl", "1")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ColumnFamilyDropped);
}

#[test]
fn the_rate_of_delayed_writes_follows_its_option() {
    let loose = plain().disable_auto_compactions(false);
    let loose = loose.level0_file_num_compaction_trigger(1000);
    let (db, _) = open(&MemFs::new(), loose);
    let cf = db.default_cf();
    // At open, the trigger of the delay would be raised to that of compactions.
    cf.set_options(&[("level0_slowdown_writes_trigger", "1")])
        .unwrap();
    let rate = || {
        db.int_property("rocksdb.actual-delayed-write-rate")
            .unwrap()
    };
    db.set_options(&[("delayed_write_rate", "1234567")])
        .unwrap();
    assert_eq!(rate(), 0);
    fill(&cf, 0, 1);
    db.flush(true).unwrap();
    assert_eq!(rate(), 1_234_567);
    assert_eq!(db.options().db.delayed_write_rate, 1_234_567);
}

/// Each answer is RocksDB 11.8.1's, but for the last: it writes a MANIFEST without the family, under the feet of whoever
/// has the database open.
#[test]
fn a_read_only_database_changes_options_in_memory_and_drops_nothing() {
    let fs = MemFs::new();
    let (db, env) = open(&fs, plain());
    db.create_cf(FamilyOptions::new("x")).unwrap();
    db.close().unwrap();
    let files = || env.fs.list(Path::new(DIR)).unwrap();
    let before = files();
    let db = Db::builder(Path::new(DIR))
        .env(env.clone())
        .family(FamilyOptions::new("x"))
        .open_read_only()
        .unwrap();
    let cf = db.default_cf();
    cf.set_options(&[("write_buffer_size", "100000")]).unwrap();
    assert_eq!(cf.options().write_buffer_size, 100_000);
    db.set_options(&[("max_background_jobs", "5")]).unwrap();
    assert_eq!(db.options().db.max_background_jobs, 5);
    let text = |r: spanlith::Result<()>| r.unwrap_err().rocksdb_text();
    assert_eq!(
        text(cf.set_options(&[("num_levels", "3")])),
        "Invalid argument: Option not changeable: num_levels"
    );
    assert_eq!(
        text(db.set_options(&[("nosuch", "1")])),
        "NotFound: Unrecognized option: nosuch"
    );
    assert_eq!(
        text(db.drop_cf(&cf)),
        "Invalid argument: Can't drop default column family"
    );
    assert_eq!(
        text(db.drop_cf(&db.cf("x").unwrap())),
        "Not implemented: Not supported operation in read only mode."
    );
    assert_eq!(files(), before);
}

#[test]
fn objects_that_nobody_knows_leave_what_was_there() {
    let fs = MemFs::new();
    let (db, _) = open(&fs, plain().prefix_extractor("rocksdb.FixedPrefix.3"));
    let cf = db.default_cf();
    let filter = "{filter_policy=bloomfilter:10:false}";
    cf.set_options(&[("block_based_table_factory", filter)])
        .unwrap();
    for change in [
        ("prefix_extractor", "nosuch"),
        ("prefix_extractor", "{id=nosuch}"),
        ("block_based_table_factory", "{filter_policy=nosuch:3}"),
        ("table_factory.filter_policy", "bloomfilter"),
        (
            "block_based_table_factory",
            "{flush_block_policy_factory=nosuch}",
        ),
    ] {
        cf.set_options(&[change]).unwrap();
        assert_eq!(cf.options().prefix_extractor, "rocksdb.FixedPrefix.3");
        let table = cf.table_options();
        assert_eq!(table.filter_policy, "bloomfilter:10:false");
        assert_eq!(
            table.flush_block_policy_factory,
            "FlushBlockBySizePolicyFactory"
        );
    }
    // No extractor by any text is the same.
    db.close().unwrap();
    let (db, _) = open(&MemFs::new(), plain());
    let cf = db.default_cf();
    for none in ["", "{}", "nullptr"] {
        cf.set_options(&[("prefix_extractor", none)]).unwrap();
    }
    let e = cf.set_options(&[("block_based_table_factory.nosuch", "1")]);
    assert_eq!(
        e.unwrap_err().rocksdb_text(),
        "Invalid argument: Extra option not recognized: block_based_table_factory.nosuch"
    );
}

#[test]
fn aligned_blocks_that_are_compressed_are_refused_before_they_stop_writes() {
    let change = [("table_factory.block_align", "true")];
    let refused = |cf: CfOptions| {
        let mut given = cf.clone();
        given.disable_auto_compactions = true;
        let table = spanlith::options::BlockBasedTableOptions::new().block_align(true);
        let at_open = Db::builder(Path::new("/other"))
            .create_if_missing(true)
            .env(open(&MemFs::new(), plain()).1)
            .cf_options(cf)
            .table_options(table)
            .open()
            .map(drop);
        let (db, _) = open(&MemFs::new(), given);
        let changed = db.default_cf().set_options(&change);
        let text = |r: spanlith::Result<()>| r.err().map_or(String::new(), |e| e.rocksdb_text());
        assert_eq!(text(at_open), text(changed.clone()));
        text(changed)
    };
    use spanlith::options::CompressionType::{Lz4, None};
    let plain = || CfOptions::new().compression(None);
    assert_eq!(refused(plain()), "");
    let lead = "Invalid argument: Enable block_align, but";
    let lz4 = plain().compression(Lz4);
    assert_eq!(refused(lz4), format!("{lead} compression enabled"));
    let bottom = plain().bottommost_compression(Lz4);
    assert_eq!(
        refused(bottom),
        format!("{lead} bottommost_compression enabled")
    );
    let levels = plain().compression_per_level(vec![None, Lz4]);
    assert_eq!(
        refused(levels),
        format!("{lead} compression_per_level enabled")
    );
}

/// An option that stops writes for good is corrected, as at open: a stop always has a job that ends it.
#[test]
fn no_change_of_options_stops_writes_for_ever() {
    for change in [
        &[
            ("level0_stop_writes_trigger", "1"),
            ("level0_file_num_compaction_trigger", "4"),
        ][..],
        &[
            ("level0_file_num_compaction_trigger", "0"),
            ("level0_slowdown_writes_trigger", "0"),
            ("level0_stop_writes_trigger", "0"),
        ],
        &[("max_write_buffer_number", "1")],
    ] {
        let loose = plain().disable_auto_compactions(false);
        let loose = loose
            .max_write_buffer_number(4)
            .min_write_buffer_number_to_merge(2);
        let (db, _) = open(&MemFs::new(), loose);
        let cf = db.default_cf();
        cf.set_options(change).unwrap();
        for part in 0..6 {
            fill(&cf, part * 10, part * 10 + 10);
            db.flush(true).unwrap();
        }
        let o = cf.options();
        assert!(o.level0_file_num_compaction_trigger >= 1, "{change:?}");
        assert!(
            o.level0_stop_writes_trigger >= o.level0_file_num_compaction_trigger,
            "{change:?}"
        );
        assert!(
            o.max_write_buffer_number > o.min_write_buffer_number_to_merge,
            "{change:?}"
        );
    }
}
