//! Options about writes, memory, new files and the MANIFEST, each by its effect. What merges, tables
//! and files look like was compared with RocksDB 11.8.1.

use spanlith::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, OptionTable, OptionsFile, Temperature,
    set_cf_option,
};
use spanlith::{
    Cf, CompactFilesOptions, Db, ErrorKind, FamilyOptions, OpenBuilder, ReadOptions, WriteBatch,
};
use spanlith_env::{Env, FileSystem, FsOp, MemFs};
use spanlith_testkit::{TempDir, fixtures_dir};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DIR: &str = "/db";

fn env(fs: &MemFs) -> Env {
    let mut env = Env::system();
    env.fs = Arc::new(fs.clone());
    env
}

fn open(fs: &MemFs, db: &[(&str, &str)], cf: &[(&str, &str)]) -> spanlith::Result<Db> {
    builder(fs, db, cf)?.open()
}

fn builder(fs: &MemFs, db: &[(&str, &str)], cf: &[(&str, &str)]) -> spanlith::Result<OpenBuilder> {
    let mut options = DbOptions::new();
    for (name, value) in db {
        options.set_option(name, value)?;
    }
    let mut family = CfOptions::new().disable_auto_compactions(true);
    let mut table = BlockBasedTableOptions::new();
    for (name, value) in cf {
        set_cf_option(&mut family, &mut table, name, value)?;
    }
    Ok(Db::builder(Path::new(DIR))
        .env(env(fs))
        .no_info_log()
        .options(options.create_if_missing(true))
        .cf_options(family)
        .table_options(table))
}

/// Writes operands `0`, `1` … one by one; what a read of operands shows after each.
fn merged(cf: &Cf, key: &str, from: u32, count: u32) -> Vec<String> {
    let shown = |n: u32| {
        cf.merge(key, n.to_string()).unwrap();
        let operands = cf
            .get_merge_operands(key, 100, &ReadOptions::new())
            .unwrap();
        let texts = operands
            .iter()
            .map(|o| String::from_utf8_lossy(o).into_owned());
        texts.collect::<Vec<_>>().join("|")
    };
    (from..from + count).map(shown).collect()
}

const APPEND: (&str, &str) = ("merge_operator", "stringappend");

#[test]
fn operands_in_a_row_are_folded_into_a_value_as_rocksdb_does() {
    let fs = MemFs::new();
    let db = open(&fs, &[], &[APPEND, ("max_successive_merges", "2")]).unwrap();
    let cf = db.default_cf();
    assert_eq!(
        merged(&cf, "k", 0, 6),
        ["0", "0|1", "0,1,2", "0,1,2|3", "0,1,2|3|4", "0,1,2,3,4,5"]
    );
    cf.put("x", "base").unwrap();
    assert_eq!(
        merged(&cf, "x", 0, 4),
        ["base|0", "base|0|1", "base,0,1,2", "base,0,1,2|3"]
    );
    // Within a batch the operands before count too.
    let mut batch = WriteBatch::new();
    for n in 0..3 {
        batch.merge("b", n.to_string());
    }
    db.write(&batch).unwrap();
    let operands = cf.get_merge_operands("b", 9, &ReadOptions::new()).unwrap();
    assert_eq!(operands.len(), 1);
    assert_eq!(&*operands[0], b"0,1,2");
    // A deletion ends the row.
    cf.delete("x").unwrap();
    assert_eq!(merged(&cf, "x", 0, 3), ["0", "0|1", "0,1,2"]);
    // Folded again, or not, from the operands in the log.
    drop(cf);
    db.close().unwrap();
    let db = open(&fs, &[], &[APPEND, ("max_successive_merges", "2")]).unwrap();
    let value = db.default_cf().get("k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"0,1,2,3,4,5"[..]));
}

#[test]
fn operands_over_a_table_that_is_not_in_memory_are_folded_if_strict() {
    for strict in [false, true] {
        let strictly = (
            "strict_max_successive_merges",
            if strict { "true" } else { "false" },
        );
        let db = open(
            &MemFs::new(),
            &[],
            &[APPEND, ("max_successive_merges", "2"), strictly],
        )
        .unwrap();
        let cf = db.default_cf();
        cf.put("k", "base").unwrap();
        db.flush(true).unwrap();
        let options = ReadOptions::new();
        for n in 0..3 {
            cf.merge("k", n.to_string()).unwrap();
        }
        let operands = cf.get_merge_operands("k", 9, &options).unwrap();
        assert_eq!(operands.len(), if strict { 1 } else { 4 });
        assert_eq!(cf.get("k").unwrap().as_deref(), Some(&b"base,0,1,2"[..]));
        if !strict {
            // The block is in the cache now.
            cf.merge("k", "3").unwrap();
            let operands = cf.get_merge_operands("k", 9, &options).unwrap();
            assert_eq!(&*operands[0], b"base,0,1,2,3");
        }
    }
}

#[test]
fn another_limit_of_operands_counts_from_the_next_memtable_on() {
    let db = open(
        &MemFs::new(),
        &[],
        &[APPEND, ("max_successive_merges", "1")],
    )
    .unwrap();
    let cf = db.default_cf();
    cf.set_options(&[("max_successive_merges", "0")]).unwrap();
    assert_eq!(merged(&cf, "k", 0, 3), ["0", "0,1", "0,1|2"]);
    db.flush(true).unwrap();
    assert_eq!(merged(&cf, "m", 0, 3), ["0", "0|1", "0|1|2"]);
}

#[test]
fn what_does_not_go_together_is_refused_in_rocksdbs_words() {
    for (db, cf, want) in [
        (
            &[("unordered_write", "true")][..],
            &[("max_successive_merges", "2")][..],
            "Invalid argument: max_successive_merges larger than 0 is currently inconsistent with \
             unordered_write",
        ),
        (
            &[],
            &[("inplace_update_support", "true")],
            "Invalid argument: In-place memtable updates (inplace_update_support) is not compatible \
             with concurrent writes (allow_concurrent_memtable_write)",
        ),
        (
            &[],
            &[("memtable_protection_bytes_per_key", "3")],
            "Not implemented: Memtable per key-value checksum protection only supports 0, 1, 2, 4 or \
             8 bytes per key.",
        ),
        (
            &[],
            &[("block_protection_bytes_per_key", "5")],
            "Not implemented: Block per key-value checksum protection only supports 0, 1, 2, 4 or 8 \
             bytes per key.",
        ),
        (
            &[("daily_offpeak_time_utc", "abc")],
            &[],
            "Invalid argument: daily_offpeak_time_utc should be set in the format HH:mm-HH:mm (e.g. \
             04:30-07:30)",
        ),
        (
            &[],
            &[("disallow_memtable_writes", "true")],
            "Invalid argument: Default column family cannot use disallow_memtable_writes=true",
        ),
    ] {
        let refused = open(&MemFs::new(), db, cf).err().map(|e| e.to_string());
        assert_eq!(refused.as_deref(), Some(want));
    }
    let inplace = open(
        &MemFs::new(),
        &[("allow_concurrent_memtable_write", "false")],
        &[("inplace_update_support", "true")],
    );
    inplace.unwrap().default_cf().put("k", "v").unwrap();
}

/// As in RocksDB, with and without an extractor; for reading only nobody writes.
#[test]
fn memtables_that_hash_prefixes_take_one_writer_at_a_time() {
    let want = "Invalid argument: Memtable doesn't allow concurrent writes \
                (allow_concurrent_memtable_write)";
    for factory in ["prefix_hash:1000", "{id=HashLinkListRepFactory;}"] {
        let fs = MemFs::new();
        let cf = [("memtable_factory", factory)];
        let refused = open(&fs, &[], &cf).err().map(|e| e.to_string());
        assert_eq!(refused.as_deref(), Some(want));

        let one_writer = [("allow_concurrent_memtable_write", "false")];
        open(&fs, &one_writer, &cf).unwrap().close().unwrap();
        let options = CfOptions::new().memtable_factory(factory);
        let reader = Db::builder(DIR).env(env(&fs)).cf_options(options.clone());
        reader.open_read_only().unwrap();

        let db = open(&fs, &[], &[]).unwrap();
        let family = FamilyOptions::new("hashing").options(options);
        let refused = db.create_cf(family).err().map(|e| e.to_string());
        assert_eq!(refused.as_deref(), Some(want));
    }
}

/// Measured on 11.8.1, which takes all of these for reading only.
#[test]
fn what_only_writers_use_is_not_looked_at_when_a_database_is_opened_for_reading() {
    let fs = MemFs::new();
    let db = open(&fs, &[], &[]).unwrap();
    db.default_cf().put("flushed", "1").unwrap();
    db.flush(true).unwrap();
    db.default_cf().put("logged", "2").unwrap();
    drop(db);
    let of_the_database = [
        ("keep_log_file_num", "0"),
        ("open_files_async", "true"),
        ("daily_offpeak_time_utc", "xx"),
        ("read_io_executor_threads", "0"),
    ];
    let of_the_family = [
        ("inplace_update_support", "true"),
        ("compression", "kXpressCompression"),
        ("compression", "kDisableCompressionOption"),
        ("compression_per_level", "kXpressCompression"),
        ("blob_compression_type", "kXpressCompression"),
        ("read_triggered_compaction_threshold", "-1"),
        ("memtable_protection_bytes_per_key", "3"),
        ("block_protection_bytes_per_key", "3"),
        ("compression_opts", "{zstd_max_train_bytes=5}"),
        ("disallow_memtable_writes", "true"),
    ];
    let of_the_database = of_the_database.map(|o| (vec![o], vec![]));
    let of_the_family = of_the_family.map(|o| (vec![], vec![o]));
    for (db, cf) in of_the_database.into_iter().chain(of_the_family) {
        assert!(open(&fs, &db, &cf).is_err(), "{db:?} {cf:?}");
        let reader = builder(&fs, &db, &cf).unwrap().open_read_only().unwrap();
        let get = |key| reader.default_cf().get(key).unwrap();
        assert!(get("flushed").is_some() && get("logged").is_some());
    }
}

#[test]
fn guarded_memtables_and_blocks_answer_as_others_do() {
    let guards = [
        ("memtable_protection_bytes_per_key", "8"),
        ("paranoid_memory_checks", "true"),
        ("memtable_verify_per_key_checksum_on_seek", "true"),
        ("block_protection_bytes_per_key", "4"),
    ];
    for some in 0..=guards.len() {
        let with = [&guards[..some], &[APPEND]].concat();
        let db = open(&MemFs::new(), &[], &with).unwrap();
        let cf = db.default_cf();
        for n in 0..300 {
            cf.put(format!("{n:04}"), format!("value {n}")).unwrap();
        }
        cf.merge("0007", "more").unwrap();
        cf.delete("0008").unwrap();
        cf.delete_range("0100", "0110").unwrap();
        for flushed in [false, true] {
            assert_eq!(
                cf.get("0007").unwrap().as_deref(),
                Some(&b"value 7,more"[..])
            );
            assert_eq!(cf.get("0008").unwrap(), None);
            assert_eq!(cf.get("0300").unwrap(), None);
            let many = cf.multi_get(["0001", "0105", "0299"]).into_iter();
            let many: Vec<bool> = many.map(|v| v.unwrap().is_some()).collect();
            assert_eq!(many, [true, false, true]);
            assert_eq!(cf.iter().count(), 289);
            if !flushed {
                db.flush(true).unwrap();
            }
        }
    }
}

/// Bytes of all tables by temperature.
fn temperatures(cf: &Cf) -> Vec<(usize, Temperature)> {
    cf.live_files()
        .iter()
        .map(|f| (f.level, f.temperature))
        .collect()
}

#[test]
fn tables_get_the_temperature_of_their_maker_and_level_and_keep_it_over_moves_and_reopens() {
    crate::suite_disk::needs_table_files(
        "a table that changes to a level on other storage is written anew",
    );
    use Temperature::{Cold, Ice, Unknown, Warm};
    let fs = MemFs::new();
    let cf_options = [
        ("default_write_temperature", "kWarm"),
        ("last_level_temperature", "kCold"),
        ("num_levels", "3"),
    ];
    let db = open(&fs, &[], &cf_options).unwrap();
    let cf = db.default_cf();
    for _ in 0..2 {
        cf.put("a", "1").unwrap();
        cf.put("b", "2").unwrap();
        db.flush(true).unwrap();
    }
    assert_eq!(temperatures(&cf), [(0, Warm), (0, Warm)]);
    cf.compact_range(None, None).unwrap();
    assert_eq!(temperatures(&cf), [(2, Cold)]);
    cf.put("c", "1").unwrap();
    db.flush(true).unwrap();
    // Moved, not rewritten.
    cf.compact_range(None, None).unwrap();
    assert_eq!(temperatures(&cf), [(2, Cold), (2, Warm)]);
    cf.set_options(&[("default_write_temperature", "kIce")])
        .unwrap();
    cf.put("d", "1").unwrap();
    db.flush(true).unwrap();
    assert_eq!(temperatures(&cf)[0], (0, Ice));
    let cold = cf.property("rocksdb.live-sst-files-size-at-temperature12");
    assert_eq!(cold, Some(cf.live_files()[1].size.to_string()));
    cf.put("e", "1").unwrap();
    drop(cf);
    db.close().unwrap();
    let db = open(
        &fs,
        &[("avoid_flush_during_recovery", "false")],
        &cf_options,
    )
    .unwrap();
    // A table of a recovery has no temperature.
    let all: Vec<_> = temperatures(&db.default_cf());
    assert_eq!(all, [(0, Unknown), (0, Ice), (2, Cold), (2, Warm)]);
}

#[test]
fn a_named_compaction_may_say_the_temperature() {
    let db = open(&MemFs::new(), &[], &[("last_level_temperature", "kCold")]).unwrap();
    let cf = db.default_cf();
    for n in 0..2 {
        cf.put("a", n.to_string()).unwrap();
        db.flush(true).unwrap();
    }
    let numbers: Vec<u64> = cf.live_files().iter().map(|f| f.number).collect();
    let options = CompactFilesOptions {
        output_temperature: Temperature::Hot,
        ..Default::default()
    };
    cf.compact_files(&numbers, 6, &options).unwrap();
    assert_eq!(temperatures(&cf), [(6, Temperature::Hot)]);
}

#[test]
fn a_family_that_takes_tables_only_refuses_writes() {
    let db = open(&MemFs::new(), &[], &[]).unwrap();
    let closed = CfOptions::new().disallow_memtable_writes(true);
    let cf = db
        .create_cf(FamilyOptions::new("x").options(closed))
        .unwrap();
    let want = "Invalid argument: This column family has disallow_memtable_writes=true";
    assert_eq!(cf.put("k", "v").unwrap_err().to_string(), want);
    assert_eq!(cf.delete("k").unwrap_err().to_string(), want);
    assert_eq!(cf.delete_range("k", "m").unwrap_err().to_string(), want);
    let mut batch = WriteBatch::new();
    batch.put("k", "v");
    batch.put_cf(&cf, "k", "v");
    assert_eq!(db.write(&batch).unwrap_err().to_string(), want);
    assert_eq!(db.default_cf().get("k").unwrap(), None);
    db.default_cf().put("k", "v").unwrap();
    assert_eq!(cf.iter().count(), 0);
}

fn manifests(fs: &MemFs) -> Vec<String> {
    let names = fs.list(Path::new(DIR)).unwrap();
    let mut names: Vec<String> = names
        .into_iter()
        .filter(|n| n.starts_with("MANIFEST"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_manifest_that_changed_while_the_database_was_open_is_written_anew_on_close() {
    for verify in [false, true] {
        let fs = MemFs::new();
        let on = if verify { "true" } else { "false" };
        let db = open(&fs, &[("verify_manifest_content_on_close", on)], &[]).unwrap();
        for n in 0..3 {
            db.default_cf().put(format!("k{n}"), "v").unwrap();
            db.flush(true).unwrap();
        }
        let before = manifests(&fs);
        assert_eq!(before.len(), 1);
        let path = Path::new(DIR).join(&before[0]);
        let size = fs.size(&path).unwrap();
        fs.flip_bit(&path, size - 10, 0).unwrap();
        db.close().unwrap();
        assert_eq!(manifests(&fs) == before, !verify);
        let reopened = open(&fs, &[], &[]);
        if verify {
            assert_eq!(reopened.unwrap().default_cf().iter().count(), 3);
        }
    }
    // Nothing is written anew if nothing is wrong.
    let fs = MemFs::new();
    let db = open(&fs, &[], &[]).unwrap();
    db.set_options(&[("verify_manifest_content_on_close", "true")])
        .unwrap();
    db.default_cf().put("k", "v").unwrap();
    db.flush(true).unwrap();
    let before = manifests(&fs);
    db.close().unwrap();
    assert_eq!(manifests(&fs), before);
}

#[test]
fn every_key_may_get_a_block_of_its_own() {
    for (policy, blocks) in [
        ("FlushBlockBySizePolicyFactory", "1"),
        ("FlushBlockEveryKeyPolicyFactory", "20"),
        ("{id=FlushBlockEveryKeyPolicyFactory;}", "20"),
    ] {
        let text = format!("{{flush_block_policy_factory={policy}}}");
        let db = open(&MemFs::new(), &[], &[("block_based_table_factory", &text)]).unwrap();
        let cf = db.default_cf();
        for n in 0..20 {
            cf.put(format!("k{n:02}"), "v").unwrap();
        }
        db.flush(true).unwrap();
        let shown = cf.property("rocksdb.aggregated-table-properties").unwrap();
        let want = format!("# data blocks={blocks};");
        assert!(shown.contains(&want), "{policy}: {shown}");
        assert_eq!(cf.iter().count(), 20);
    }
}

/// Sizes of the tables after a compaction of 4 MB into tables of 256 KiB.
fn sizes(upper_bound: &str) -> Vec<u64> {
    let db = open(
        &MemFs::new(),
        &[],
        &[
            ("target_file_size_is_upper_bound", upper_bound),
            ("target_file_size_base", "262144"),
            ("compression", "kNoCompression"),
            (
                "block_based_table_factory",
                "{filter_policy=bloomfilter:20}",
            ),
        ],
    )
    .unwrap();
    let cf = db.default_cf();
    for n in 0..40_000u32 {
        // All odd numbers, then all even ones.
        let n = n * 2 % 40_000 + u32::from(n < 20_000);
        cf.put(format!("{n:08}"), vec![b'v'; 80]).unwrap();
        if n >= 39_998 {
            db.flush(true).unwrap();
        }
    }
    db.flush(true).unwrap();
    cf.compact_range(None, None).unwrap();
    cf.live_files().iter().map(|f| f.size).collect()
}

#[test]
fn the_target_size_of_files_may_include_filter_and_index() {
    let (without, with) = (sizes("false"), sizes("true"));
    let full = |sizes: &[u64]| sizes[..sizes.len() - 1].to_vec();
    assert!(full(&without).iter().all(|&s| s > 262_144), "{without:?}");
    // RocksDB's have 261581 to 261588 bytes. One more block would have been too much.
    let below = |s: &u64| (258_000..=262_144).contains(s);
    assert!(full(&with).iter().all(below), "{with:?}");
    assert_eq!((without.len(), with.len()), (15, 15));
}

#[test]
fn outputs_of_compactions_are_verified_as_the_flags_say() {
    const OF_COMPACTIONS: u32 = 1 << 10;
    for (flags, file_checksum, is_found) in [
        (0, true, false),
        (7, true, false),
        (1 | OF_COMPACTIONS, false, true),
        (2 | OF_COMPACTIONS, false, true),
        (4 | OF_COMPACTIONS, false, false),
        (4 | OF_COMPACTIONS, true, true),
        (u32::MAX, true, true),
    ] {
        let fs = MemFs::new();
        let (damaged, damages) = (fs.clone(), Arc::new(AtomicBool::new(false)));
        let on = damages.clone();
        fs.set_observer(Some(Arc::new(move |op: &FsOp| {
            if let FsOp::Sync { path } = op
                && path.extension().is_some_and(|e| e == "sst")
                && on.swap(false, Ordering::Relaxed)
            {
                damaged.flip_bit(path, 20, 3).unwrap();
            }
        })));
        let factory = match file_checksum {
            true => "FileChecksumGenCrc32cFactory",
            false => "nullptr",
        };
        let db = open(
            &fs,
            &[("file_checksum_gen_factory", factory)],
            &[("verify_output_flags", &flags.to_string())],
        )
        .unwrap();
        let cf = db.default_cf();
        for n in 0..2 {
            cf.put("one key", n.to_string()).unwrap();
            cf.put("some other key", n.to_string()).unwrap();
            db.flush(true).unwrap();
        }
        damages.store(true, Ordering::Relaxed);
        let compacted = cf.compact_range(None, None);
        assert!(!damages.load(Ordering::Relaxed), "nothing was rewritten");
        assert_eq!(compacted.is_err(), is_found, "{flags:x} {file_checksum}");
        if let Err(e) = compacted {
            assert_eq!(e.kind(), ErrorKind::Corruption);
        }
    }
}

/// An OPTIONS file of RocksDB 7.8 with plain tables, a Ribbon filter and a family whose name is escaped is read whole
/// and written again, and a database made with it.
#[test]
fn an_options_file_with_objects_of_others_is_read() {
    let path = fixtures_dir().join("options/plain-and-ribbon.OPTIONS");
    let read = OptionsFile::read(&Env::system(), &path, false).unwrap();
    let names: Vec<&str> = read.families.iter().map(|f| f.0.as_str()).collect();
    assert_eq!(names, ["default", r"cf: a#b\c"]);
    assert_eq!(read.db.db_host_id, "golden");
    let (_, plain, _) = &read.families[0];
    assert!(plain.table_factory.contains("PlainTable"));
    assert!(plain.memtable_factory.contains("HashLinkListRepFactory"));
    let (_, other, table) = &read.families[1];
    assert!(other.memtable_factory.contains("VectorRepFactory"));
    assert_eq!(table.filter_policy, "ribbonfilter:9.5:2");
    let dir = TempDir::new("options-of-others");
    let again = dir.path().join("OPTIONS-000001");
    std::fs::write(&again, read.to_text()).unwrap();
    let again = OptionsFile::read(&Env::system(), &again, false).unwrap();
    assert_eq!(again.families, read.families);
    assert_eq!(again.db, read.db);
    let opened = Db::builder(dir.path().join("db"))
        // Its memtable takes one writer at a time.
        .options(DbOptions::new().allow_concurrent_memtable_write(false))
        .create_if_missing(true)
        .cf_options(plain.clone())
        .open();
    opened.unwrap().close().unwrap();
}

/// Each answer is what 11.8.1 says to an open with that value, or what it makes of it.
#[test]
fn values_that_make_no_sense_are_refused_or_corrected_at_open_as_measured() {
    let table = |value: &str| format!("{{{value}}}");
    let refused = [
        (
            "read_io_executor_threads",
            "0".into(),
            "read_io_executor_threads must be greater than zero",
        ),
        (
            "read_triggered_compaction_threshold",
            "-1.5".into(),
            "read_triggered_compaction_threshold must be >= 0.0 and finite. Use 0.0 to disable.",
        ),
        (
            "compression",
            "kDisableCompressionOption".into(),
            "kDisableCompressionOption not permitted for option: compression",
        ),
        (
            "blob_compression_type",
            "kXpressCompression".into(),
            "The specified blob compression type Xpress is not available.",
        ),
        (
            "blob_compression_type",
            "kDisableCompressionOption".into(),
            "The specified blob compression type DisableOption is not available.",
        ),
        (
            "compression_opts",
            "{zstd_max_train_bytes=1}".into(),
            "The dictionary size limit (`CompressionOptions::max_dict_bytes`) should be nonzero if \
             we're using zstd's dictionary generator.",
        ),
        (
            "block_based_table_factory",
            table("super_block_alignment_size=4294967296"),
            "Super block alignment size exceeds maximum number (4GiB) allowed",
        ),
        (
            "block_based_table_factory",
            table("use_udi_as_primary_index=true"),
            "use_udi_as_primary_index requires user_defined_index_factory",
        ),
    ];
    let with = |name: &str, value: &str| {
        let fs = MemFs::new();
        let db = match DbOptions::row(name) {
            Some(_) => open(&fs, &[(name, value)], &[]),
            None => open(&fs, &[], &[(name, value)]),
        };
        (fs, db)
    };
    for (name, value, text) in refused {
        let (_, result) = with(name, &value);
        let error = result.err().map(|e| e.to_string());
        assert_eq!(error, Some(format!("Invalid argument: {text}")), "{name}");
    }
    let corrected = [
        (
            "wal_compression",
            "kLZ4Compression".into(),
            "wal_compression=kNoCompression",
        ),
        ("wal_compression", "kZSTD".into(), "wal_compression=kZSTD"),
        (
            "block_based_table_factory",
            table("format_version=0"),
            "format_version=2",
        ),
        (
            "block_based_table_factory",
            table("format_version=1"),
            "format_version=2",
        ),
        (
            "block_based_table_factory",
            table("fail_if_no_udi_on_open=true"),
            "fail_if_no_udi_on_open=true",
        ),
        (
            "block_based_table_factory",
            table("block_restart_interval=0"),
            "block_restart_interval=1",
        ),
        (
            "block_based_table_factory",
            table("index_block_restart_interval=-1"),
            "index_block_restart_interval=1",
        ),
        (
            "block_based_table_factory",
            table("block_size_deviation=101"),
            "block_size_deviation=0",
        ),
        (
            "block_based_table_factory",
            table("partition_filters=true"),
            "partition_filters=false",
        ),
        (
            "block_based_table_factory",
            table("partition_filters=true;index_type=kTwoLevelIndexSearch"),
            "partition_filters=true",
        ),
        (
            "max_write_buffer_size_to_maintain",
            "-1".into(),
            "max_write_buffer_size_to_maintain=134217728",
        ),
        (
            "blob_direct_write_partitions",
            "0".into(),
            "blob_direct_write_partitions=1",
        ),
    ];
    for (name, value, line) in corrected {
        let (fs, db) = with(name, &value);
        let db = db.unwrap();
        db.default_cf().put("k", "v").unwrap();
        db.flush(true).unwrap();
        drop(db);
        let names = fs.list(Path::new(DIR)).unwrap();
        let file = names.iter().filter(|n| n.starts_with("OPTIONS-")).max();
        let text = fs.read_file(&Path::new(DIR).join(file.unwrap())).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().any(|l| l.trim() == line), "{value}: {text}");
    }
}

/// No more tables are kept open than the process may have files.
#[test]
fn max_open_files_is_at_most_what_the_system_allows() {
    let dir = TempDir::new("open files");
    let db = Db::builder(dir.path())
        .options(
            DbOptions::new()
                .create_if_missing(true)
                .max_open_files(i32::MAX),
        )
        .open()
        .unwrap();
    let most = Env::system().fs.open_files_max();
    let most = most.and_then(|n| i32::try_from(n).ok()).unwrap_or(i32::MAX);
    assert_eq!(db.options().db.max_open_files, most.max(20));
}

/// A log reserves at most 1 GiB, however large memtables may become: RocksDB reserves all of it, and with
/// 64 GiB fills a disk that has less.
#[test]
fn little_is_reserved_for_a_log_of_large_memtables() {
    use std::os::unix::fs::MetadataExt;
    let dir = TempDir::new("reserved");
    let db = Db::builder(dir.path())
        .options(DbOptions::new().create_if_missing(true))
        .cf_options(CfOptions::new().write_buffer_size(u64::MAX))
        .open()
        .unwrap();
    db.default_cf().put("k", "v").unwrap();
    let names = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap());
    let logs = names.filter(|e| e.file_name().to_string_lossy().ends_with(".log"));
    let blocks: u64 = logs.map(|e| e.metadata().unwrap().blocks()).sum();
    assert!(blocks * 512 <= (1 << 30) + (1 << 20), "{blocks}");
    db.flush(true).unwrap();
}
