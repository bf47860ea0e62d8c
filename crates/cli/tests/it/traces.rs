//! Traces: what is shown of them, and `trace_analyzer`.

use crate::support::{SPANLITH, run};
use serde_json::Value;
use spanlith_testkit::{TempDir, fixtures_dir, test_name};
use std::path::Path;
use std::process::Command;

fn fixture(name: &str) -> String {
    fixtures_dir()
        .join("trace")
        .join(name)
        .display()
        .to_string()
}

#[test]
fn dumps_show_every_record_of_the_three_kinds() {
    let shown = run(["trace", "dump", &fixture("query.trace")]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[0],
        "trace\ttimestamp=1795215346336657\tof=queries\tversion=0.2\trocksdb_version=7.8"
    );
    assert_eq!(
        lines[1],
        "write\toffset=103\ttimestamp=1795215346336691\tbytes=17\tcount=1"
    );
    assert_eq!(lines[2], "put\tcf=0\tkey=a\tvalue=1");
    let seek =
        "seek\toffset=467\ttimestamp=1795215346337725\tcf=0\tkey=b\tlower_bound=a\tupper_bound=d";
    assert!(lines.contains(&seek), "{shown}");
    assert!(lines.contains(&"key\tcf=1\tkey=x"), "{shown}");
    assert_eq!(
        lines.last(),
        Some(&"end\toffset=614\ttimestamp=1795215346337806")
    );

    let shown = run(["trace", "dump", "--json", &fixture("blockcache.trace")]).ok();
    let blocks: Vec<Value> = shown
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(blocks.len(), 8);
    assert_eq!(blocks[1]["block_key"], "869ba85a6dad9f227c2b143fa59e8aec");
    assert_eq!(
        (&blocks[1]["hit"], &blocks[2]["hit"]),
        (&Value::from(false), &Value::from(true))
    );
    assert_eq!(blocks[3]["key_exists"], false);

    let shown = run(["trace", "dump", &fixture("io.trace")]).ok();
    let line = "call\toffset=109\ttimestamp=4609257441312\toperation=Append\tnanoseconds=3733\tstatus=OK\tfile=000004.log\tlength=25";
    assert!(shown.lines().any(|l| l == line), "{shown}");
}

#[test]
fn a_torn_end_is_told_and_damage_fails() {
    let temp = TempDir::new(test_name!());
    let torn = temp.join("torn.trace");
    let bytes = std::fs::read(fixture("query.trace")).unwrap();
    std::fs::write(&torn, &bytes[..400]).unwrap();
    let torn = torn.display().to_string();
    let shown = run(["trace", "dump", &torn]).ok();
    assert!(
        shown.ends_with("torn_end\toffset=389\tbytes=11\n"),
        "{shown}"
    );
    let checked = run(["trace", "check", &torn, &fixture("query.trace")]).ok();
    assert!(
        checked.contains("7 records, ends inside a record at 389"),
        "{checked}"
    );
    assert!(checked.contains("14 records\n"), "{checked}");

    let mut changed = bytes;
    changed[0x177] = 0xff;
    let damaged = temp.join("damaged.trace");
    std::fs::write(&damaged, changed).unwrap();
    let damaged = damaged.display().to_string();
    let dumped = run(["trace", "dump", &damaged]);
    assert_eq!(dumped.code, Some(1));
    assert!(dumped.out.contains("damage\toffset=362\t"), "{dumped:?}");
    // The records after it are shown, too.
    assert!(dumped.out.contains("\nend\t"), "{dumped:?}");
    assert!(dumped.err.contains("1 damaged record"), "{dumped:?}");
    assert_eq!(run(["trace", "check", &damaged]).code, Some(1));
    let analysed = run([
        "trace_analyzer",
        &format!("--trace_path={damaged}"),
        "--analyze_get",
    ]);
    assert_eq!(analysed.code, Some(1));
    assert!(
        analysed.err.contains("--try_process_corrupted_trace"),
        "{analysed:?}"
    );

    let none = run(["trace", "dump", &fixture("key-space/0.txt")]).fails(1);
    assert!(
        none.contains("Corrupted trace file") || none.contains("no trace"),
        "{none}"
    );
}

/// The flags of the recorded run, under the tool's own name.
#[test]
fn trace_analyzer_writes_the_files_of_rocksdbs() {
    let temp = TempDir::new(test_name!());
    let tool = temp.join("trace_analyzer");
    std::os::unix::fs::symlink(SPANLITH, &tool).unwrap();
    let out = temp.join("out");
    std::fs::create_dir(&out).unwrap();
    let output = Command::new(&tool)
        .arg(format!("-trace_path={}", fixture("query2.trace")))
        .arg(format!("-output_dir={}", out.display()))
        .arg(format!("-key_space_dir={}", fixture("key-space")))
        .args("-analyze_get -analyze_put -analyze_delete -analyze_iterator".split(' '))
        .args("-output_access_count_stats -output_key_stats -output_qps_stats".split(' '))
        .args("-output_value_distribution -output_key_distribution -output_time_series".split(' '))
        .args("-output_prefix=t -output_prefix_cut=1 -print_overall_stats".split(' '))
        .args("-print_top_k_access=2 -convert_to_human_readable_trace -value_interval=8".split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let sums = "Total_requests: 240 Total_accessed_keys: 117 Total_gets: 97 Total_write_batches: 101 \
                Total_seeks: 24 Total_seek_for_prevs: 18 Total_multigets: 0\n";
    assert!(text.contains(sums), "{text}");
    let names = |dir: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let theirs = fixtures_dir().join("trace/analyzer-out");
    assert_eq!(names(&out), names(&theirs));
    for name in names(&out) {
        let both = [&out, &theirs].map(|dir| std::fs::read(dir.join(&name)).unwrap());
        assert!(both[0] == both[1], "{}", name.display());
    }
}

#[test]
fn trace_analyzer_refuses_what_makes_no_sense() {
    let e = run(["trace_analyzer", "--analyze_gets", "--trace_path=x"]).fails(2);
    assert!(
        e.contains("unknown command line flag 'analyze_gets'"),
        "{e}"
    );
    let e = run(["trace_analyzer"]).fails(2);
    assert!(e.contains("--trace_path=FILE"), "{e}");
    let trace = format!("--trace_path={}", fixture("io.trace"));
    let e = run(["trace_analyzer", &trace]).fails(1);
    assert!(e.contains("Incorrect magic"), "{e}");
    let trace = format!("--trace_path={}", fixture("query.trace"));
    let e = run([
        "trace_analyzer",
        &trace,
        "--analyze_put",
        "--output_key_stats",
        "--output_dir=/no/such",
    ])
    .fails(1);
    assert!(
        e.contains("Cannot open file: /no/such/trace-put-0-accessed_key_stats.txt"),
        "{e}"
    );
    assert!(
        run(["trace_analyzer", "--help"])
            .ok()
            .contains("Usage: trace_analyzer")
    );
}

#[test]
fn a_day_of_a_reference_workload_is_a_trace_that_the_analyzer_reads() {
    let temp = TempDir::new(test_name!());
    let trace = temp.join("day").display().to_string();
    let out = run(["trace", "gen", "zippydb", &trace, "--events", "3000"]).ok();
    assert!(out.contains("requests of a day of zippydb"), "{out}");
    let first = std::fs::read(&trace).unwrap();
    run(["trace", "check", &trace]).ok();
    let path = format!("--trace_path={trace}");
    let out = run([
        "trace_analyzer",
        &path,
        "--analyze_get",
        "--print_overall_stats",
    ])
    .ok();
    let gets = out
        .lines()
        .find_map(|l| l.strip_prefix("Total number of queries to this cf by get: "));
    let gets: f64 = gets.unwrap().parse().unwrap();
    // 78 % of ZippyDB's requests are gets.
    assert!((gets / 3000.0 - 0.78).abs() < 0.01, "{gets}");
    run(["trace", "gen", "zippydb", &trace, "--events", "3000"]).ok();
    assert_eq!(std::fs::read(&trace).unwrap(), first);
    let (page, tsv) = (temp.join("p.html"), temp.join("figures"));
    let at = |path: &Path| path.display().to_string();
    let out = run(["plot", &trace, "--page", &at(&page), "--tsv", &at(&tsv)]);
    assert_eq!(out.code, Some(0), "{}", out.err);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("Figure 7") && html.matches("<svg").count() > 6,
        "{html}"
    );
    let scans = std::fs::read_to_string(tsv.join("scans-0.tsv")).unwrap();
    assert!(
        scans.starts_with("series\tsteps\tshare of seeks\n"),
        "{scans}"
    );
    let err = run(["trace", "gen", "mysql", &trace]).fails(2);
    assert!(err.contains("udb zippydb up2x"), "{err}");
}

/// The lines of a summary as objects.
fn summed(verb: &str, file: &str) -> Vec<Value> {
    let shown = run(["trace", verb, "--json", file]).ok();
    let lines = shown.lines().map(|l| serde_json::from_str(l).unwrap());
    lines.collect()
}

/// The number of a field in all lines of a kind, added up.
fn sum(lines: &[Value], record: &str, field: &str) -> u64 {
    let of_kind = lines.iter().filter(|l| l["record"] == record);
    of_kind.map(|l| l[field].as_u64().unwrap()).sum()
}

#[test]
fn traces_of_blocks_and_calls_are_summed_up() {
    let blocks = summed("blocks", &fixture("blockcache.trace"));
    assert_eq!(blocks[0]["record"], "all");
    assert_eq!(blocks[0]["lookups"], 7);
    let calls = summed("io", &fixture("io.trace"));
    let dumped = run(["trace", "dump", &fixture("io.trace")]).ok();
    let count = dumped.lines().filter(|l| l.starts_with("call\t")).count();
    assert_eq!(calls[0]["calls"], count);
    for (lines, fields) in [
        (
            &blocks,
            ["lookups", "hits", "bytes", "missed_bytes"].as_slice(),
        ),
        (&calls, &["calls", "failed", "bytes", "nanos"]),
    ] {
        for field in fields {
            let all = sum(lines, "all", field);
            for by in ["kind", "caller", "level", "family", "operation", "file"] {
                if lines.iter().any(|l| l["record"] == by) {
                    assert_eq!(sum(lines, by, field), all, "{field} by {by}");
                }
            }
        }
    }
    let wrong = run(["trace", "blocks", &fixture("io.trace")]);
    assert_eq!(wrong.code, Some(1));
    assert!(
        wrong.err.contains("no trace of looked-up blocks"),
        "{}",
        wrong.err
    );
}

#[test]
fn a_benchmark_records_the_three_kinds() {
    let temp = TempDir::new(test_name!());
    let file = |name: &str| temp.join(name).display().to_string();
    let (asked, blocks, calls, db) = (file("asked"), file("blocks"), file("calls"), file("db"));
    run([
        "bench",
        "fillrandom",
        "compact",
        "readrandom",
        "--num",
        "2000",
        "--db",
        &db,
        "--trace",
        &asked,
        "--trace-blocks",
        &blocks,
        "--trace-io",
        &calls,
    ])
    .ok();
    let checked = run(["trace", "check", &asked]).ok();
    assert!(
        checked.contains("4,000 records") || checked.contains("4 000 records"),
        "{checked}"
    );
    let blocks = summed("blocks", &blocks);
    let of_gets = blocks
        .iter()
        .find(|l| l["record"] == "caller" && l["name"] == "get")
        .unwrap_or_else(|| panic!("{blocks:?}"));
    assert!(of_gets["lookups"].as_u64().unwrap() > 1000, "{blocks:?}");
    let calls = summed("io", &calls);
    assert!(
        calls
            .iter()
            .any(|l| l["record"] == "file" && l["kind"] == "table")
    );
}
