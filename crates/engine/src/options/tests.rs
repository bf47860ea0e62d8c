//! Options against files that RocksDB wrote, and against themselves.

use super::table::OptionTable;
use super::values::OptionValue;
use super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn golden(case: &str) -> String {
    let path = format!(
        "{}/../../fixtures/golden/{case}/db/OPTIONS-000007",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn rewrite(parsed: &ParsedOptions) -> String {
    let cfs: Vec<_> = parsed
        .cfs
        .iter()
        .map(|cf| (cf.name.clone(), cf.options.clone(), cf.table.clone()))
        .collect();
    write_options_file(&parsed.db, &cfs)
}

#[test]
fn every_golden_options_file_round_trips_and_those_of_11_8_byte_for_byte() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden");
    let mut files = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("OPTIONS-")
            {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 100, "{} files", files.len());
    // The comment at the top is free text.
    let body = |text: &str| text[text.find("[Version]").unwrap()..].to_string();
    let mut equal = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed =
            parse_options_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let ours = rewrite(&parsed);
        if parsed.rocksdb_version == [11, 8, 1] {
            assert_eq!(body(&ours), body(&text), "{}", path.display());
            equal += 1;
        }
        let again = parse_options_file(&ours).unwrap();
        assert_eq!(
            (&again.db, &again.cfs),
            (&parsed.db, &parsed.cfs),
            "{}",
            path.display()
        );
    }
    assert!(equal > 90, "{equal} files of 11.8");
}

#[test]
fn defaults_after_sanitising_are_those_a_new_database_of_11_8_shows() {
    let parsed = parse_options_file(&golden("golden-11.8/default")).unwrap();
    let mut db = DbOptions::new()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .db_host_id("golden");
    let mut cf = CfOptions::new();
    assert_eq!(sanitize_db(&mut db, None), Vec::<String>::new());
    assert_eq!(sanitize_cf(&mut cf), Vec::<String>::new());
    assert_eq!(db, parsed.db);
    assert_eq!(cf, parsed.cfs[0].options);
    assert_eq!(BlockBasedTableOptions::new(), parsed.cfs[0].table);
}

/// Four more CFOptions names are aliases, see `set_cf_option`.
#[test]
fn every_name_of_rocksdb_is_accepted_once() {
    fn names<T: OptionTable>() -> Vec<&'static str> {
        T::ROWS
            .iter()
            .map(|r| r.name)
            .chain(T::IGNORED.iter().copied())
            .collect()
    }
    for (all, count) in [
        (names::<DbOptions>(), 125),
        (names::<CfOptions>(), 115),
        (names::<BlockBasedTableOptions>(), 50),
    ] {
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(all.len(), count);
    }
    for row in DbOptions::ROWS {
        assert!(!row.doc.trim().is_empty() && !row.type_name.is_empty());
    }
}

#[test]
fn values_parse_and_fail_as_rocksdb_does() {
    let set = |name: &str, value: &str| {
        let mut db = DbOptions::default();
        let mut cf = CfOptions::default();
        let mut table = BlockBasedTableOptions::default();
        let text = format!("{name}={value}");
        match apply_options_string(&text, &mut db, &mut cf, &mut table) {
            Ok(()) => db
                .get_option(name)
                .or_else(|| cf.get_option(name))
                .unwrap_or_else(|| "set".to_string()),
            Err(e) => e.rocksdb_text(),
        }
    };
    for (name, value, want) in [
        ("max_open_files", "100", "100"),
        (
            "max_open_files",
            "abc",
            "Invalid argument: Error parsing max_open_files:stoi",
        ),
        (
            "max_open_files",
            "",
            "Invalid argument: Error parsing max_open_files:stoi",
        ),
        // Shifted out of its type, as there.
        ("max_open_files", "3g", "-1073741824"),
        ("max_open_files", "1T", "1"),
        ("max_open_files", "0x10", "0"),
        ("max_open_files", "7 7", "7"),
        ("max_open_files", "{7}", "7"),
        ("max_background_jobs", "1:2:3", "1"),
        ("write_buffer_size", "1kb", "1024"),
        (
            "max_subcompactions",
            "4294967296",
            "Invalid argument: Error parsing max_subcompactions:4294967296",
        ),
        (
            "bloom_locality",
            "-1",
            "Invalid argument: Error parsing bloom_locality:-1",
        ),
        ("allow_2pc", "{1}", "true"),
        ("memtable_prefix_bloom_size_ratio", "4K", "4.000000"),
        ("max_bytes_for_level_multiplier", "0x10", "16.000000"),
        ("max_bytes_for_level_multiplier", "-0X1.8p+1z", "-3.000000"),
        ("max_bytes_for_level_multiplier", "0x", "0.000000"),
        ("max_bytes_for_level_multiplier", "+.5e1e2", "5.000000"),
        ("max_bytes_for_level_multiplier", "7.e+", "7.000000"),
        ("max_bytes_for_level_multiplier", "-INFinite", "-inf"),
        // The text of a large number is longer than most.
        (
            "max_bytes_for_level_multiplier",
            "4742843975160471364549467545955856705669938571904637503056182640964121790051778560",
            "4742843975160471364549467545955856705669938571904637503056182640964121790051778560.000000",
        ),
        (
            "max_bytes_for_level_multiplier",
            ".",
            "Invalid argument: Error parsing max_bytes_for_level_multiplier:stod",
        ),
        (
            "max_bytes_for_level_multiplier",
            "1e400",
            "Invalid argument: Error parsing max_bytes_for_level_multiplier:stod",
        ),
        ("max_bytes_for_level_multiplier_additional", "{1:2}", "1:2"),
        (
            "info_log_level",
            "2g",
            "Invalid argument: No mapping for enum : info_log_level",
        ),
        (
            "compression_opts",
            "kZSTD",
            "Invalid argument: Error parsing compression_opts:stoi",
        ),
        (
            "compression_opts",
            "",
            "Invalid argument: unable to parse the specified CF option compression_opts",
        ),
        (
            "compression_opts",
            "1:2:3:4:5:6",
            "Invalid argument: Error parsing compression_opts:",
        ),
        (
            "compaction_options_fifo",
            "True",
            "Invalid argument: Error parsing compaction_options_fifo:stoull",
        ),
        ("write_buffer_size", "4M", "4194304"),
        ("write_buffer_size", "2t", "2199023255552"),
        (
            "write_buffer_size",
            "abc",
            "Invalid argument: Error parsing write_buffer_size:stoull",
        ),
        ("ttl", "-1", "18446744073709551615"),
        (
            "ttl",
            "18446744073709551616",
            "Invalid argument: Error parsing ttl:stoull",
        ),
        ("create_if_missing", "1", "true"),
        (
            "create_if_missing",
            "yes",
            "Invalid argument: Error parsing create_if_missing:",
        ),
        ("compression", "kZSTD", "kZSTD"),
        (
            "compression",
            "kCustomCompression8A",
            "kCustomCompression8A",
        ),
        (
            "compression",
            "kFoo",
            "Invalid argument: Error parsing:: compression",
        ),
        (
            "compression_per_level",
            "kNoCompression:kLZ4Compression",
            "kNoCompression:kLZ4Compression",
        ),
        ("max_bytes_for_level_multiplier", "8.5", "8.500000"),
        (
            "max_bytes_for_level_multiplier",
            "x",
            "Invalid argument: Error parsing max_bytes_for_level_multiplier:stod",
        ),
        (
            "max_bytes_for_level_multiplier_additional",
            "1:2:3",
            "1:2:3",
        ),
        (
            "nosuch",
            "1",
            "Invalid argument: Extra option not recognized: nosuch",
        ),
        ("soft_rate_limit", "1", "set"),
        ("compression_opts.level", "4", "set"),
        (
            "compression_opts.nosuch",
            "4",
            "Invalid argument: Unrecognized option: compression_opts.nosuch",
        ),
        (
            "block_based_table_factory",
            "{block_size=8k;checksum=kCRC32c}",
            "set",
        ),
        (
            "block_based_table_factory",
            "{nosuch=8k}",
            "Invalid argument: Extra option not recognized: block_based_table_factory",
        ),
        ("table_factory.block_size", "16384", "set"),
    ] {
        assert_eq!(set(name, value), want, "{name}={value}");
    }
}

#[test]
fn nested_values_keep_what_they_do_not_name_and_take_positions() {
    let mut o = CompressionOptions::default();
    o.parse_into("{level=3;strategy=1}").unwrap();
    assert_eq!((o.level, o.strategy, o.window_bits), (3, 1, -14));
    o.parse_into("4:5:6:7:8:9:true:11:false").unwrap();
    assert_eq!(
        (o.window_bits, o.level, o.strategy, o.max_dict_bytes),
        (4, 5, 6, 7)
    );
    assert_eq!(
        (o.zstd_max_train_bytes, o.parallel_threads, o.enabled),
        (8, 9, true)
    );
    assert_eq!(
        (o.max_dict_buffer_bytes, o.use_zstd_dict_trainer),
        (11, false)
    );
    o.parse_into("1:2:3:4:5:false").unwrap();
    assert_eq!((o.enabled, o.parallel_threads), (false, 9));
    assert!(o.parse_into("1:2").is_err());
    let mut u = UniversalCompactionOptions::default();
    u.parse_into("{size_ratio=7;stop_style=kCompactionStopStyleSimilarSize;}")
        .unwrap();
    assert_eq!((u.size_ratio, u.min_merge_width), (7, 2));
}

#[test]
fn a_string_of_options_is_applied_whole_or_not_at_all() {
    let (mut db, mut cf, mut table) = (
        DbOptions::default(),
        CfOptions::default(),
        BlockBasedTableOptions::default(),
    );
    let text = "max_background_jobs=3; write_buffer_size=1m; memtable=skip_list:16;\
                block_based_table_factory={block_size=8192;filter_policy=bloomfilter:10:false;\
                metadata_cache_options={unpartitioned_pinning=kAll;};};\
                merge_operator={id=StringAppendOperator;delimiter=;};max_total_wal_size=5";
    let before = (db.clone(), cf.clone(), table.clone());
    let e = apply_options_string(&format!("{text};bad=1"), &mut db, &mut cf, &mut table);
    assert_eq!(
        e.unwrap_err().rocksdb_text(),
        "Invalid argument: Extra option not recognized: bad"
    );
    assert_eq!((&db, &cf, &table), (&before.0, &before.1, &before.2));
    apply_options_string(text, &mut db, &mut cf, &mut table).unwrap();
    assert_eq!((db.max_background_jobs, cf.write_buffer_size), (3, 1 << 20));
    assert_eq!(cf.memtable_factory, "skip_list:16");
    assert_eq!(
        (table.block_size, table.filter_policy.as_str()),
        (8192, "bloomfilter:10:false")
    );
    assert_eq!(
        table.metadata_cache_options.unpartitioned_pinning,
        PinningTier::All
    );
    let merge = MergeOperatorChoice::parse(&cf.merge_operator).unwrap();
    assert_eq!(
        merge,
        MergeOperatorChoice::StringAppend {
            delimiter: String::new()
        }
    );
    for (text, want) in [
        (
            "a",
            "Invalid argument: Mismatched key value pair, '=' expected",
        ),
        (
            "compression_opts={level=1",
            "Invalid argument: Mismatched curly braces for nested options",
        ),
        (
            "compression_opts={level=1}}",
            "Invalid argument: Unexpected chars after nested options",
        ),
        (
            "compression_opts={level=1} x",
            "Invalid argument: Unexpected chars after nested options",
        ),
        (
            "write_buffer_size=1;;num_levels=3",
            "Invalid argument: Unexpected char in key",
        ),
        (";", "Invalid argument: Unexpected char in key"),
        // Structs and braces without pairs, each with the words of the struct's own parser.
        (
            "compaction_options_universal={}",
            "Invalid argument: Unexpected char in key",
        ),
        (
            "block_based_table_factory={metadata_cache_options={};}",
            "Invalid argument: Unexpected char in key",
        ),
        (
            "block_based_table_factory={read_amp_bytes_per_bit={1};}",
            "Invalid argument: Error parsing read_amp_bytes_per_bit:stoull",
        ),
        (
            "compaction_options_fifo={1}",
            "Invalid argument: Error parsing compaction_options_fifo:stoull",
        ),
        (
            "compression_opts={}",
            "Invalid argument: Error parsing compression_opts:stoi",
        ),
        (
            "bottommost_compression_opts={4:5:6}",
            "Invalid argument: Error parsing bottommost_compression_opts:stoi",
        ),
    ] {
        let e = apply_options_string(text, &mut db, &mut cf, &mut table).unwrap_err();
        assert_eq!(e.rocksdb_text(), want);
    }
    for text in [
        "compaction_options_universal={ }",
        "compaction_options_universal=;num_levels=3",
        "block_based_table_factory={}",
    ] {
        apply_options_string(text, &mut db, &mut cf, &mut table).unwrap();
    }
}

/// Changes of a real file and what RocksDB says to them, from `options-file.md` section 10.
#[test]
fn edited_files_are_accepted_or_refused_as_measured() {
    let base = golden("golden-11.8/default");
    let parse = |text: &str| match parse_options_file(text) {
        Ok(p) => format!("{}|{}", p.db.max_open_files, p.db.db_host_id),
        Err(e) => e.rocksdb_text(),
    };
    let line = |new: &str| base.replace("  max_open_files=-1", &format!("  {new}"));
    let number = base
        .lines()
        .position(|l| l.trim() == "max_open_files=-1")
        .unwrap()
        + 1;
    let at = |text: &str, n: usize| {
        format!("Invalid argument: [RocksDBOptionsParser Error] : {text} (at line {n})")
    };
    let end = base.lines().count() + 1;
    let not_default = "Default column family must be the first CFOptions section in the option \
                       config file";
    let cf_line = base
        .lines()
        .position(|l| l.starts_with("[CFOptions"))
        .unwrap()
        + 1;
    for (text, want) in [
        (
            line("brand_new_option=1"),
            "Invalid argument: Extra option not recognized: brand_new_option".into(),
        ),
        (
            line("brand_new_option=1\n  max_open_files=x"),
            "Invalid argument: Error parsing max_open_files:stoi".into(),
        ),
        (
            format!("{base}[Bogus]\n"),
            "Invalid argument: Unknown section [Bogus]".into(),
        ),
        (
            base.replace("[CFOptions \"default\"]", "[CFOptions default]"),
            "Invalid argument: Unknown section [CFOptions default]".into(),
        ),
        (
            base.replace(
                "[Version]\n  rocksdb_version=11.8.1\n  options_file_version=1.1\n",
                "",
            ),
            "-1|golden".into(),
        ),
        (
            base.replace("options_file_version=1.1", "options_file_version=0.9"),
            "Invalid argument: A valid options_file_version must be at least 1.".into(),
        ),
        (
            base.replace("options_file_version=1.1", "options_file_version=2.0"),
            "-1|golden".into(),
        ),
        (
            base.replace("11.8.1", "11.8.1.1"),
            "Invalid argument: A valid rocksdb_version can only contains at most 2 dots.".into(),
        ),
        (
            base.replace("[DBOptions]", "#"),
            "Corruption: A RocksDB Option file must have a single DBOptions section".into(),
        ),
        (
            format!("{base}[DBOptions]\n"),
            at(
                "More than one DBOption section found in the option config file",
                end,
            ),
        ),
        (
            base.replace("[CFOptions \"default\"]", "[CFOptions \"x\"]"),
            at(not_default, cf_line),
        ),
        (
            format!("{base}[CFOptions \"default\"]\n"),
            at(not_default, end),
        ),
        (
            format!("{base}[TableOptions/BlockBasedTable \"zzz\"]\n"),
            at(
                "Does not find a matched column family name in TableOptions section.  Column Family Name:zzz",
                end,
            ),
        ),
        (
            line("max_open_files=100\n  max_open_files=200"),
            "100|golden".into(),
        ),
        (line("\t max_open_files \t= 77  "), "77|golden".into()),
        (line("max_open_files=88 # a comment"), "88|golden".into()),
        (
            base.replace("db_host_id=golden", "db_host_id=a\\#b"),
            "-1|a#b".into(),
        ),
        (
            base.replace("db_host_id=golden", "db_host_id=a:b"),
            "-1|a:b".into(),
        ),
        (base.replace('\n', "\r\n"), "-1|golden".into()),
        (
            line("nonsense"),
            at("A valid statement must have a '='.", number),
        ),
        (
            line("=3"),
            at("A valid statement must have a variable name.", number),
        ),
        (
            line("max_open_files="),
            "Invalid argument: Error parsing max_open_files:stoi".into(),
        ),
        (
            "[Version]\n[DBOptions]\n[CFOptions \"default\"]\n".into(),
            "-1|__hostname__".into(),
        ),
        (
            "[DBOptions]\n".into(),
            "Corruption: A RocksDB Option file must have a single CFOptions:default section".into(),
        ),
    ] {
        assert_eq!(parse(&text), want, "{text}");
    }
}

#[test]
fn unknown_names_are_skipped_only_if_asked_for_and_the_file_is_newer() {
    let base = golden("golden-11.8/default").replace("  max_open_files=-1", "  brand_new=1");
    let newer = base.replace("rocksdb_version=11.8.1", "rocksdb_version=99.1.0");
    assert!(ini::parse_options_file_with(&base, true).is_err());
    assert!(ini::parse_options_file_with(&newer, false).is_err());
    let parsed = ini::parse_options_file_with(&newer, true).unwrap();
    assert_eq!(parsed.ignored, ["brand_new"]);
}

#[test]
fn names_and_values_with_every_special_character_round_trip() {
    let name = "cf: a#b\\c \"q\" = [x]\r\n";
    let db = DbOptions::new()
        .db_log_dir("a#b\\c:d\ne\rf")
        .db_host_id("\\");
    let cf = CfOptions::new().merge_operator("{id=StringAppendOperator;delimiter=#;}");
    let table = BlockBasedTableOptions::new();
    let cfs = [("default", CfOptions::new()), (name, cf)]
        .map(|(name, cf)| (name.to_string(), cf, table.clone()));
    let text = write_options_file(&db, &cfs);
    let parsed = parse_options_file(&text).unwrap();
    assert_eq!(parsed.db, db);
    assert_eq!(parsed.cfs.len(), 2);
    assert_eq!(parsed.cf(name).unwrap().options, cfs[1].1);
}

/// A value other than the default, for whatever the text looks like.
fn other_value(text: &str, n: u64) -> Vec<String> {
    match text {
        "true" => vec!["false".into()],
        "false" => vec!["true".into()],
        _ => [
            (n % 200).to_string(),
            "1:2".into(),
            "{level=3;size_ratio=4;max_data_files_size=5;partition_pinning=kAll;}".into(),
            "{level=3;}".into(),
            "{size_ratio=4;}".into(),
            "{max_data_files_size=5;}".into(),
            "{partition_pinning=kAll;}".into(),
            "kLZ4HCCompression".into(),
            "kWarm".into(),
            "kFlushOnly".into(),
            "kNoShortening".into(),
            "kAuto".into(),
            "kDataBlockBinaryAndHash".into(),
            "kHashSearch".into(),
            "kCRC32c".into(),
            "kVolatileTier".into(),
            "kRoundRobin".into(),
            "kCompactionStyleFIFO".into(),
            "kSkipAnyCorruptedRecords".into(),
            "FATAL_LEVEL".into(),
            "kCustomOnly".into(),
            "kEnabled".into(),
        ]
        .into(),
    }
}

#[test]
fn every_row_round_trips_with_a_value_that_is_not_the_default() {
    fn change_all<T: OptionTable>(o: &mut T) {
        for (n, row) in T::ROWS.iter().enumerate() {
            let before = (row.get)(o);
            let changed = other_value(&before, n as u64 + 7)
                .into_iter()
                .any(|v| (row.set)(o, &v).is_ok() && (row.get)(o) != before);
            assert!(changed, "{} {before}", row.name);
        }
    }
    let (mut db, mut cf, mut table) = (
        DbOptions::default(),
        CfOptions::default(),
        BlockBasedTableOptions::default(),
    );
    change_all(&mut db);
    change_all(&mut cf);
    change_all(&mut table);
    assert_eq!(db.changed().len(), DbOptions::ROWS.len());
    cf.table_factory = "BlockBasedTable".to_string();
    let text = write_options_file(&db, &[("default".into(), cf.clone(), table.clone())]);
    let parsed = parse_options_file(&text).unwrap();
    // An option that is never written keeps its default.
    let default = DbOptions::default();
    db.env = default.env;
    db.rate_limiter_bytes_per_sec = default.rate_limiter_bytes_per_sec;
    db.statistics = default.statistics;
    db.listeners = default.listeners;
    cf.blob_cache = String::new();
    cf.blob_direct_write_partition_strategy = String::new();
    table.block_cache = String::new();
    assert_eq!(parsed.db, db);
    assert_eq!(parsed.cfs[0].options, cf);
    assert_eq!(parsed.cfs[0].table, table);
}

fn refused(text: &str) -> String {
    let (mut db, mut cf, mut table) = (
        DbOptions::default(),
        CfOptions::default(),
        BlockBasedTableOptions::default(),
    );
    apply_options_string(text, &mut db, &mut cf, &mut table).unwrap();
    let answer = |r: spanlith_base::Result<()>| match r {
        Ok(()) => String::new(),
        Err(e) => e.rocksdb_text(),
    };
    let plain = answer(check_supported(&db, &cf, &table));
    sanitize_db(&mut db, None);
    sanitize_cf(&mut cf);
    let sanitized = answer(check_supported(&db, &cf, &table));
    assert_eq!(plain, sanitized, "the same before and after sanitising");
    plain
}

#[test]
fn what_the_benchmark_sets_is_supported() {
    for text in [
        "",
        "compression=kNoCompression;block_based_table_factory={filter_policy=bloomfilter:10:false;}",
        "compression_per_level=kNoCompression:kLZ4Compression;bottommost_compression=kLZ4Compression",
        "compaction_pri=kOldestLargestSeqFirst;comparator=rocksdb.ReverseBytewiseComparator",
        "block_based_table_factory={format_version=5;checksum=kCRC32c;whole_key_filtering=false}",
        "merge_operator=uint64add;max_subcompactions=4;ttl=0;compression_opts={window_bits=-12;strategy=2;level=9}",
        "merge_operator={id=StringAppendOperator;delimiter=,;};memtable=skip_list:16",
        "compression=kZSTD;compression_opts={max_dict_bytes=4096;zstd_max_train_bytes=65536;level=-3}",
        "compression=kSnappyCompression;bottommost_compression=kZlibCompression",
        "compression=kNoCompression;block_based_table_factory={block_align=true;format_version=2}",
        "block_based_table_factory={checksum=kxxHash64;data_block_index_type=kDataBlockBinaryAndHash}",
    ] {
        assert_eq!(refused(text), "", "{text}");
    }
}

#[test]
fn what_does_not_exist_is_refused_all_at_once_by_name() {
    for (text, want) in [
        (
            "compression=kXpressCompression",
            "compression kXpressCompression",
        ),
        (
            "compression_per_level=kNoCompression:kXpressCompression",
            "compression_per_level kXpressCompression",
        ),
        (
            "bottommost_compression=kXpressCompression",
            "bottommost_compression kXpressCompression",
        ),
        (
            "compression=kZlibCompression;compression_opts.level=12",
            "compression_opts",
        ),
        (
            "block_based_table_factory={format_version=1}",
            "format_version",
        ),
        (
            "block_based_table_factory={filter_policy=plainfilter:10}",
            "filter_policy",
        ),
        (
            "enable_blob_direct_write=true;allow_ingest_behind=1;best_efforts_recovery=1",
            "allow_ingest_behind, enable_blob_direct_write",
        ),
        ("prefix_extractor=mine", "prefix_extractor"),
        ("merge_operator=cassandra", "merge_operator"),
        ("comparator=my.cmp", "comparator"),
        (
            "compaction_filter=my.Filter;sst_partitioner_factory=my.Partitioner",
            "compaction_filter, sst_partitioner_factory",
        ),
        ("memtable=mine", "memtable_factory"),
        ("table_factory=mine", "table_factory"),
        (
            "wal_compression=kLZ4Compression;allow_ingest_behind=1",
            "allow_ingest_behind",
        ),
    ] {
        assert_eq!(refused(text), format!("Not implemented: {want}"), "{text}");
    }
}

#[test]
fn names_of_supported_options_are_names_of_rows() {
    unsupported::check_lists();
}

#[test]
fn sanitising_corrects_what_rocksdb_corrects() {
    let mut cf = CfOptions::new()
        .write_buffer_size(1u64)
        .max_write_buffer_number(1)
        .min_write_buffer_number_to_merge(9)
        .num_levels(1)
        .level0_file_num_compaction_trigger(30)
        .max_bytes_for_level_multiplier(-1.0)
        .soft_pending_compaction_bytes_limit(1u64 << 50);
    let notes = sanitize_cf(&mut cf);
    assert_eq!((cf.write_buffer_size, cf.arena_block_size), (65536, 8192));
    assert_eq!(
        (
            cf.max_write_buffer_number,
            cf.min_write_buffer_number_to_merge
        ),
        (2, 1)
    );
    assert_eq!((cf.num_levels, cf.max_bytes_for_level_multiplier), (2, 1.0));
    assert_eq!(
        (
            cf.level0_slowdown_writes_trigger,
            cf.level0_stop_writes_trigger
        ),
        (30, 36)
    );
    assert_eq!(
        cf.soft_pending_compaction_bytes_limit,
        cf.hard_pending_compaction_bytes_limit
    );
    assert_eq!(notes[0], "write_buffer_size changed from 1 to 65536");
    assert_eq!(notes.len(), 7, "{notes:?}");
}

#[test]
fn a_limit_of_open_files_is_at_least_twenty() {
    for (given, most, kept) in [
        (0, None, 20),
        (19, None, 20),
        (20, None, 20),
        (21, None, 21),
        (-1, None, -1),
        (-1, Some(100), -1),
        (100, Some(100), 100),
        (101, Some(100), 100),
        (101, Some(10), 20),
        (101, Some(u64::MAX), 101),
    ] {
        let mut db = DbOptions::new().max_open_files(given);
        let said = sanitize_db(&mut db, most);
        assert_eq!((db.max_open_files, said.is_empty()), (kept, given == kept));
    }
}

#[test]
fn random_text_never_panics_the_parsers() {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words = [
        "[DBOptions]",
        "[CFOptions \"default\"]",
        "[TableOptions/BlockBasedTable \"default\"]",
        "\n",
        "max_open_files",
        "=",
        "{",
        "}",
        ";",
        ":",
        "\\",
        "#",
        "\"",
        "[",
        "]",
        "compression_opts",
        "ttl",
        "9999999999999999999999",
        "-",
        "1",
        "é",
        "\r",
        "id=",
        "true",
        ".",
        "level",
        "k",
    ];
    for _ in 0..20_000 {
        let text: String = (0..next() % 24)
            .map(|_| words[(next() % words.len() as u64) as usize])
            .collect();
        let _ = parse_options_file(&text);
        let (mut db, mut cf, mut table) = (
            DbOptions::default(),
            CfOptions::default(),
            BlockBasedTableOptions::default(),
        );
        let _ = apply_options_string(&text, &mut db, &mut cf, &mut table);
        let _ = objects::id(&text);
        let _ = MergeOperatorChoice::parse(&text);
        let _ = FilterPolicyChoice::parse(&text);
    }
}

/// As RocksDB 11.8.1 takes them.
#[test]
fn bits_per_key_that_make_no_sense_are_none_or_the_most() {
    for (text, expected) in [("-5", 0.0), ("NaN", 100.0), ("inf", 100.0), ("0.3", 0.3)] {
        let parsed = FilterPolicyChoice::parse(&format!("bloomfilter:{text}:false"));
        let expected = FilterPolicyChoice::Bloom {
            bits_per_key: expected,
        };
        assert_eq!(parsed, Some(expected), "{text}");
    }
}
