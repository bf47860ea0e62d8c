//! RocksDB's tools under their own names: what they print is what RocksDB 7.8.3's print.

use crate::support::{SPANLITH, contents, run, run_with_input};
use spanlith_testkit::{TempDir, fixtures_dir, golden_case, test_name};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `spanlith TOOL …` in a directory; standard output and exit code.
fn tool(at: &Path, line: &str) -> (String, Option<i32>) {
    let output = Command::new(SPANLITH)
        .args(line.split(' '))
        .current_dir(at)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{line}: {err}");
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        output.status.code(),
    )
}

#[test]
fn ldb_and_sst_dump_print_what_those_of_rocksdb_7_8_3_print() {
    let temp = TempDir::new(test_name!());
    let path = fixtures_dir().join("tools/transcript-7.8.3.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let (mut case, mut checked) = (None, 0);
    let mut wrong = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("# ") {
            let (version, name) = name.split_once('/').unwrap();
            case = Some(golden_case(version, name));
            continue;
        }
        let command = line.strip_prefix("$ ").unwrap_or_else(|| panic!("{line}"));
        let mut expected = Vec::new();
        let code = loop {
            let line = lines.next().unwrap();
            match line.strip_prefix("= ") {
                Some(code) => break code.parse::<i32>().unwrap(),
                None => expected.push(line),
            }
        };
        let at = temp.join(checked.to_string());
        std::fs::create_dir(&at).unwrap();
        case.as_ref().unwrap().copy_to(&at);
        let (out, found) = tool(&at, command);
        let (out, expected) = (out.trim_end_matches('\n'), expected.join("\n"));
        // Blank output counts as none.
        let same = out == expected || (out.trim().is_empty() && expected.is_empty());
        if !same || found != Some(code) {
            wrong.push(format!(
                "$ {command}\n{out}\n= {found:?}\nexpected:\n{expected}\n= {code}\n"
            ));
        }
        checked += 1;
    }
    assert!(checked > 45, "{checked}");
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn reading_with_ldb_and_sst_dump_changes_nothing() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "default").copy_to(temp.join(""));
    let before = contents(&dir);
    for line in [
        "ldb --db=db scan",
        "ldb --db=db get key00010",
        "ldb --db=db multi_get key00010 nokey",
        "ldb --db=db dump --stats",
        "ldb --db=db idump --stats",
        "ldb --db=db checkconsistency",
        "ldb --db=db approxsize --from=a --to=z",
        "ldb --db=db list_column_families",
        "ldb --db=db get_property rocksdb.stats",
        "ldb --db=db manifest_dump --json",
        "ldb --db=db file_checksum_dump",
        "ldb --db=db dump_live_files",
        "ldb --db=db list_live_files_metadata",
        "ldb --db=db list_file_range_deletes",
        "sst_dump --file=db --show_properties",
        "sst_dump db --command=recompress --compression_types=kNoCompression,kZSTD",
    ] {
        let (out, code) = tool(&temp.join(""), line);
        assert_eq!(code, Some(0), "{line}: {out}");
        assert!(!out.is_empty(), "{line}");
        assert!(contents(&dir) == before, "{line} changed something");
    }
}

#[test]
fn ldb_writes_loads_and_asks_line_by_line() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    let db = format!("--db={}", dir.display());
    let ldb = |args: &[&str], input: &str| {
        let mut all = vec!["ldb", &db];
        all.extend(args);
        run_with_input(all, input.as_bytes())
    };
    assert_eq!(
        ldb(&["put", "--create_if_missing", "a", "1"], "").out,
        "OK\n"
    );
    let loaded = ldb(
        &["load", "--disable_wal", "--compact"],
        "b ==> 2\nbad\nKeys in range: 9\nc ==> 3 ==> 4\n",
    );
    assert_eq!(loaded.out, "Warning: 1 bad lines ignored.\n", "{loaded:?}");
    let asked = ldb(&["query"], "get b\nget no\nput d 4\ndelete a\nwhat\nhelp\n");
    let expected = "b ==> 2\nNot found no\nSuccessfully put d 4\nSuccessfully deleted a\nUnknown command what\n\
                    get <key>\nput <key> <value>\ndelete <key>\n";
    assert_eq!(asked.out, expected, "{asked:?}");
    assert_eq!(
        ldb(&["dump"], "").out,
        "b ==> 2\nc ==> 3 ==> 4\nd ==> 4\nKeys in range: 3\n"
    );
    assert_eq!(ldb(&["multi_get", "b", "x"], "").out, "2\nKey not found\n");
    assert_eq!(ldb(&["create_column_family", "f"], "").out, "OK\n");
    assert_eq!(ldb(&["--column_family=f", "put", "k", "v"], "").out, "OK\n");
    assert_eq!(ldb(&["--column_family=f", "scan"], "").out, "k : v\n");
    assert_eq!(ldb(&["drop_column_family", "f"], "").out, "OK\n");
    let to = format!("--checkpoint_dir={}", temp.join("made").display());
    assert_eq!(ldb(&["checkpoint", &to], "").out, "OK\n");
    let again = ldb(&["checkpoint", &to], "");
    assert_eq!(again.err, "Failed: Invalid argument: Directory exists\n");
    let backups = format!("--backup_dir={}", temp.join("backups").display());
    let backup = ldb(&["backup", &backups], "");
    let said = "open db OK\nopen backup engine OK\ncreate new backup OK\n";
    assert_eq!(backup.out, said, "{backup:?}");
    let before = ldb(&["scan"], "").out;
    let file = temp.join("x.sst").display().to_string();
    for (args, input, text) in [
        (&["write_extern_sst", &file][..], "x ==> 1\ny ==> 2\n", format!("external SST file written to {file}\n")),
        (&["ingest_extern_sst", &file], "", "external SST files ingested\n".to_string()),
        (&["write_extern_sst"], "", "Failed: output SST file path must be specified\n".to_string()),
        (&["ingest_extern_sst"], "", "Failed: input SST path must be specified\n".to_string()),
        (&["backup"], "", "Failed: --backup_dir: missing backup directory\n".to_string()),
        (
            &["write_extern_sst", &file],
            "b ==> 1\na ==> 2\n",
            "Failed: failed to write record to file: Invalid argument: Keys must be added in strict ascending order.\n".to_string(),
        ),
    ] {
        assert_eq!(ldb(args, input).err, text, "{args:?}");
    }
    assert_eq!(ldb(&["scan"], "").out, format!("{before}x : 1\ny : 2\n"));
    let restored = ldb(&["restore", &backups], "");
    assert_eq!(
        restored.out, "open restore engine OK\nrestore from backup OK\n",
        "{restored:?}"
    );
    assert_eq!(ldb(&["scan"], "").out, before);
    assert_eq!(ldb(&["repair"], "").ok(), "OK\n");
    assert_eq!(ldb(&["scan"], "").out, before);
    let nowhere = ldb(&["checkpoint"], "").err;
    let text = "Failed: Invalid argument: invalid checkpoint directory name\n";
    assert_eq!(nowhere, text);
    for (args, text) in [
        (
            &["update_manifest"][..],
            "Failed: Not implemented: the command update_manifest\n",
        ),
        (&["get", "zz"], "Failed: Get failed: NotFound: \n"),
        (
            &["get", "--hex", "zz"],
            "Failed: Invalid hex input zz.  Must start with 0x\n",
        ),
        (
            &["scan", "--max_keys=x"],
            "Failed: max_keys has an invalid value\n",
        ),
        (
            &["put", "a", "b", "--bloom_bits=5"],
            "Failed: Not implemented: --bloom_bits (the OPTIONS file decides)\n",
        ),
    ] {
        let run = ldb(args, "");
        assert_eq!((run.code, run.err.as_str()), (Some(1), text), "{args:?}");
    }
    assert!(
        ldb(&["bogus"], "")
            .err
            .starts_with("Unknown command\nldb - ")
    );
    let times = temp.join("times");
    let db = format!("--db={}", times.display());
    run(["ldb", &db, "--ttl", "put", "--create_if_missing", "a", "b"]).ok();
    assert_eq!(run(["ldb", &db, "--ttl", "scan"]).ok(), "a : b\n");
    let stamped = run(["ldb", &db, "--ttl", "dump", "--timestamp"]).ok();
    let head = "Dumping key-values from Fri May 10 00:40:02 2013 to Tue Jan 19 03:14:07 2038\n";
    assert!(
        stamped.starts_with(head) && stamped.contains(" a ==> b\n"),
        "{stamped}"
    );
    assert_eq!(
        run(["ldb", &db, "--ttl", "scan", "--end_time=1400000000"]).ok(),
        ""
    );
}

#[test]
fn sst_dump_names_damage_and_writes_raw_dumps_beside_the_table() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-7.8", "default").copy_to(temp.join(""));
    let (out, code) = tool(
        &temp.join(""),
        "sst_dump --file=db/000009.sst --command=raw",
    );
    assert_eq!(code, Some(0), "{out}");
    assert!(
        out.ends_with("raw dump written to file db/000009_dump.txt\n"),
        "{out}"
    );
    let raw = std::fs::read_to_string(dir.join("000009_dump.txt")).unwrap();
    assert!(raw.starts_with("Footer Details:\n--------------------------------------\n  metaindex handle: C64321\n  index handle: B63C27\n  table_magic_number: 9863518390377041911\n  format version: 5\n"), "{raw}");
    for part in [
        "  Properties block handle: E23CDF06\n",
        "  HEX    6B65793030313035: 00F31F\n  ASCII  k e y 0 0 1 0 5 \n  ------\n",
        "Data Block # 1 @ 00F31F\n",
        "  ASCII  k e y 0 0 0 0 0 : m e j g v f g u w c n y r 4 2 y z l 5 r \n",
        "  # data blocks: 2\n  min data block size: 3641\n  max data block size: 4083\n  avg data block size: 3862.000000\n",
    ] {
        assert!(raw.contains(part), "{part}");
    }
    let table = dir.join("000009.sst");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    for command in ["check", "verify"] {
        let path = table.display().to_string();
        let err = run([
            "sst_dump",
            &format!("--file={path}"),
            &format!("--command={command}"),
        ])
        .fails(1);
        assert!(err.contains("Corruption: "), "{command}: {err}");
    }
    std::fs::write(&table, &bytes[..500]).unwrap();
    let (_, code) = tool(
        &temp.join(""),
        "sst_dump --file=db/000009.sst --command=identify",
    );
    assert_eq!(code, Some(1));
    let (out, code) = tool(&temp.join(""), "sst_dump --file=db --command=identify");
    assert_eq!(code, Some(0));
    assert!(out.ends_with("Number of valid SST files: 1\n"), "{out}");
}

#[test]
fn db_bench_takes_the_flags_of_rocksdb_and_prints_its_lines() {
    let temp = TempDir::new(test_name!());
    let dir = format!("--db={}", temp.join("db").display());
    let rows = format!("--report_file={}", temp.join("rows.csv").display());
    let args = [
        "db_bench",
        &dir,
        "--benchmarks=fillseq,readrandom",
        "--num=200",
        "--histogram",
        "--statistics",
        "--stats_interval=100",
        &rows,
        "--report_interval_seconds=1",
        "--block_size=8192",
    ];
    let done = run(args);
    assert_eq!(
        (done.code, done.err.as_str()),
        (Some(0), "ignored: --stats_interval\n"),
        "{done:?}"
    );
    let line = done
        .out
        .lines()
        .find(|l| l.starts_with("fillseq      : "))
        .unwrap_or_else(|| panic!("{done:?}"));
    assert!(
        line.contains(" micros/op ")
            && line.contains(" ops/sec ")
            && line.contains(" 200 operations; "),
        "{line}"
    );
    assert!(done.out.contains("(200 of 200 found)"), "{done:?}");
    for part in [
        "\nMicroseconds per write:\nCount: 200 Average: ",
        "\nMicroseconds per read:\nCount: 200 Average: ",
        "\nSTATISTICS:\nrocksdb.block.cache.miss COUNT : ",
        "\nrocksdb.number.keys.written COUNT : 200\n",
    ] {
        assert!(done.out.contains(part), "{part}: {done:?}");
    }
    let rows = std::fs::read_to_string(temp.join("rows.csv")).unwrap();
    assert!(rows.starts_with("secs_elapsed,interval_qps\n1,"), "{rows}");
    run(["db_bench", "--benchmarks=fillseq", "--bogus=1"]).fails(2);
    assert!(
        run(["db_bench", "--help"])
            .ok()
            .contains("Example: db_bench")
    );
}

#[test]
fn arguments_that_are_not_utf_8_are_taken_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    std::os::unix::fs::symlink(SPANLITH, at.join("ldb")).unwrap();
    let ldb = |args: &[&[u8]], by_name: bool, input: &[u8]| {
        let mut command = match by_name {
            true => Command::new("./ldb"),
            false => crate::support::command(["ldb"]),
        };
        command
            .args(
                [b"--db=a\xfe".as_slice()]
                    .iter()
                    .chain(args)
                    .map(|a| OsStr::from_bytes(a)),
            )
            .current_dir(&at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        done.stdout
    };
    let put: [&[u8]; 4] = [b"put", b"--create_if_missing", b"\xff\x01k", b"v\xfe"];
    ldb(&put, true, b"");
    assert!(
        at.join(OsStr::from_bytes(b"a\xfe"))
            .join("CURRENT")
            .exists()
    );
    ldb(
        &[b"put", b"\xf4\x8f\xbc\x80", b"a private code point"],
        false,
        b"",
    );
    let said = ldb(&[b"query"], true, b"put q\xff v\xfd\nget \xff\x01k\n");
    assert_eq!(said, b"Successfully put q\xff v\xfd\n\xff\x01k ==> v\xfe\n");
    for by_name in [true, false] {
        assert_eq!(ldb(&[b"get", b"\xff\x01k"], by_name, b""), b"v\xfe\n");
        let shown = ldb(&[b"scan", b"--from=q", b"--to=\xff\x02"], by_name, b"");
        let all = b"q\xff : v\xfd\n\xf4\x8f\xbc\x80 : a private code point\n\xff\x01k : v\xfe\n";
        assert_eq!(shown, all);
    }
}

#[test]
fn options_of_a_write_are_taken_and_a_refused_command_makes_nothing() {
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    let (out, code) = tool(
        &at,
        "ldb --db=d --create_if_missing --block_size=8192 put a b",
    );
    assert_eq!((out.as_str(), code), ("OK\n", Some(0)));
    let files = contents(&at.join("d"));
    let (_, options) = files
        .iter()
        .rfind(|(n, _)| n.starts_with("OPTIONS"))
        .unwrap();
    assert!(String::from_utf8_lossy(options).contains("block_size=8192"));
    for refused in [
        "--block_size=x put a b",
        "--bloom_bits=10 put a b",
        "--compression_type=x put a b",
        "--hex batchput 0x61 62",
    ] {
        let (_, code) = tool(&at, &format!("ldb --db=e --create_if_missing {refused}"));
        assert_eq!(code, Some(1), "{refused}");
        assert!(!at.join("e").exists(), "{refused}");
    }
}

#[test]
fn values_without_a_time_are_an_error_where_times_are_asked_for() {
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    assert_eq!(
        tool(&at, "ldb --db=d --create_if_missing put --ttl a 1").1,
        Some(0)
    );
    assert_eq!(tool(&at, "ldb --db=d put b 2").1, Some(0));
    assert_eq!(
        tool(&at, "ldb --db=d scan --ttl"),
        ("a : 1\n".to_string(), Some(1))
    );
    for command in ["dump --ttl", "get --ttl b", "multi_get --ttl a b"] {
        assert_eq!(
            tool(&at, &format!("ldb --db=d {command}")).1,
            Some(1),
            "{command}"
        );
    }
    assert_eq!(
        tool(&at, "ldb --db=d get --ttl a"),
        ("1\n".to_string(), Some(0))
    );
}

#[test]
fn bounds_of_tables_are_printed_as_the_bytes_they_are() {
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    let put = "ldb --db=d --create_if_missing put --key_hex 0xff016b v";
    assert_eq!(tool(&at, put).1, Some(0));
    assert_eq!(tool(&at, "ldb --db=d compact").1, Some(0));
    for command in [
        "manifest_dump",
        "manifest_dump --verbose",
        "dump_live_files",
    ] {
        let mut all = crate::support::command(["ldb", "--db=d"]);
        let all = all.args(command.split(' ')).current_dir(&at);
        let out = all.output().unwrap().stdout;
        let is_there = |bytes: &[u8]| out.windows(bytes.len()).any(|w| w == bytes);
        assert!(
            is_there(b"'\xff\x01k' seq:"),
            "{command}: {}",
            String::from_utf8_lossy(&out)
        );
        assert!(!is_there("\u{fffd}".as_bytes()), "{command}");
    }
}

#[test]
fn small_print_is_that_of_rocksdb_7_8_3() {
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    let copy = |case: &str| golden_case("golden-7.8", case).copy_to(at.join(case));
    copy("tombstones");
    let ranges = |n: u32| {
        tool(
            &at,
            &format!("ldb --db=tombstones/db list_file_range_deletes --max_keys={n}"),
        )
        .0
    };
    let first =
        "=== file : tombstones/db/000013.sst ===\nstart: 6B65793030303930 end: 7A7A7A seq: 122\n";
    let more = "(results may not be complete)\n\n";
    assert_eq!(ranges(1), format!("{first}{more}"));
    let second = "=== file : tombstones/db/000011.sst ===\nstart: 6B65793030303330 end: 6B65793030303335 seq: 116\n";
    assert_eq!(ranges(2), format!("{first}{second}{more}"));
    let scan = |rest: &str| tool(&at, &format!("ldb --db=tombstones/db {rest}"));
    let all = scan("scan");
    assert_eq!(scan("scan --to= --from= --max_keys= --column_family="), all);
    assert_eq!(scan("dump --to= --from="), scan("dump"));
    assert_eq!(
        scan("idump --hex --from=zz").0,
        "Internal keys in range: 0\n"
    );
    assert_eq!(
        scan("idump --hex --input_key_hex --from=0x7a7a").0,
        "Internal keys in range: 0\n"
    );

    copy("blob");
    let (out, _) = tool(
        &at,
        "ldb --db=blob/db list_live_files_metadata --sort_by_filename",
    );
    assert!(out.contains(".blob, column family 'default'\n"), "{out}");
    copy("multi-cf");
    let (out, _) = tool(&at, "ldb --db=multi-cf/db dump_live_files");
    assert_eq!(out.matches("\n\nColumn family name: ").count(), 1, "{out}");
    copy("dynamic-levels");
    let (out, _) = tool(&at, "ldb --db=dynamic-levels/db manifest_dump");
    let line = "--- level 4 --- version# 1 --- compact_cursor: 'key00391' seq:1442, type:1 ---\n";
    assert!(out.contains(line), "{out}");
    let (out, code) = tool(
        &at,
        "sst_dump --file=tombstones/db --readahead_size=4096 --command=none",
    );
    assert_eq!((out.lines().count(), code), (6, Some(0)), "{out}");
}

#[test]
fn a_record_behind_the_end_of_a_block_is_counted_from_there() {
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    let db = spanlith::Db::open(at.join("d")).unwrap();
    // Records of 32,764 and of a few bytes: the first leaves four of its block.
    let value = vec![b'v'; 32_764 - 7 - 12 - 1 - 2 - 3];
    db.default_cf().put("k", value).unwrap();
    db.default_cf().put("l", "v").unwrap();
    db.close().unwrap();
    let files = contents(&at.join("d"));
    let log = files
        .iter()
        .find(|(n, c)| n.ends_with(".log") && !c.is_empty());
    let (out, _) = tool(&at, &format!("ldb dump_wal --walfile=d/{}", log.unwrap().0));
    let offsets: Vec<&str> = out.lines().map(|l| l.split(',').nth(3).unwrap()).collect();
    assert_eq!(offsets[..2], ["0", "32764"], "{out}");
}

#[cfg(unix)]
#[test]
fn the_binary_is_the_tool_it_is_called() {
    let temp = TempDir::new(test_name!());
    let at = temp.join("");
    for (name, text) in [
        ("ldb", "Usage: ldb "),
        ("sst_dump", "Usage: sst_dump "),
        ("db_bench", "Usage: db_bench "),
    ] {
        std::os::unix::fs::symlink(SPANLITH, at.join(name)).unwrap();
        let output = Command::new(at.join(name)).arg("--help").output().unwrap();
        assert!(output.status.success());
        assert!(
            String::from_utf8_lossy(&output.stdout).contains(text),
            "{name}"
        );
    }
}
