//! `bench` and `tour`, small.

use crate::support::{contents, db, run};
use serde_json::Value;
use spanlith_testkit::TempDir;

#[test]
fn every_benchmark_runs_and_reports() {
    let names = "fillseq,fillrandom,filluniquerandom,fillbatch,fillsync,fill100K,fillrandom,overwrite,\
                 updaterandom,appendrandom,readrandom,readhot,readmissing,readseq,readreverse,seekrandom,\
                 multireadrandom,readwhilewriting,readwhilemerging,seekrandomwhilewriting,\
                 seekrandomwhilemerging,readrandomwriterandom,mixed,deleterandom,deleterangerandom,\
                 mergerandom,fillfamilies,readfamilies,flush,compact,waitforcompaction,stats,levelstats,\
                 sstables,deleteseq";
    let out = run([
        "bench",
        "--benchmarks",
        names,
        "--num",
        "2000",
        "--threads",
        "2",
        "--json",
    ])
    .ok();
    let object: Value = serde_json::from_str(&out).unwrap();
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), names.split(',').count());
    for r in results {
        let name = r["name"].as_str().unwrap();
        let ops = r["ops"].as_u64().unwrap();
        let expected = match name {
            "fillsync" | "fill100K" | "deleterangerandom" => 2,
            // The keys that random writes left.
            "readseq" | "readreverse" => ops,
            "flush" | "compact" | "waitforcompaction" | "stats" | "levelstats" | "sstables" => 1,
            // In calls of 32.
            "multireadrandom" => 2016,
            _ => 2000,
        };
        assert_eq!(ops, expected, "{name}");
        assert!(ops > 0, "{name}");
        match name {
            "readmissing" => assert_eq!(r["found"], 0),
            "readrandom" | "readfamilies" => assert!(r["found"].as_u64().unwrap() > 0),
            _ => {}
        }
    }
}

#[test]
fn a_benchmark_prints_the_line_of_db_bench_and_keeps_a_database_it_was_given() {
    let temp = TempDir::new("cli bench");
    let dir = temp.join("db");
    let path = dir.to_str().unwrap();
    let out = run(["bench", "fillseq", "readseq", "--num", "1000", "--db", path]).ok();
    let line = out.lines().find(|l| l.starts_with("fillseq ")).unwrap();
    for part in [
        " : ",
        " micros/op ",
        " ops/sec ",
        " seconds 1000 operations;",
        " MB/s",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert!(out.contains("p99.9"), "{out}");
    assert_eq!(db("count", &dir, &[]).ok(), "1000\n");
    let before = contents(&dir);
    let err = run(["bench", "fillseq", "--num", "10", "--db", path]).fails(1);
    assert!(
        err.contains("holds a database") && err.contains("--use-existing-db"),
        "{err}"
    );
    assert!(contents(&dir) == before);
    let args = [
        "bench",
        "readrandom",
        "--num",
        "1000",
        "--use-existing-db",
        "--json",
        "--db",
        path,
    ];
    let object: Value = serde_json::from_str(&run(args).ok()).unwrap();
    assert_eq!(object["results"][0]["found"], 1000);
    let args = [
        "bench",
        "fillseq",
        "--num",
        "10",
        "--destroy",
        "--json",
        "--db",
        path,
    ];
    run(args).ok();
    assert_eq!(db("count", &dir, &[]).ok(), "10\n");
}

#[test]
fn ycsb_runs_in_its_order_and_finds_what_it_asks_for() {
    let args = "bench ycsb --num 500 --threads 2 --field-length 10 --json";
    let object: Value = serde_json::from_str(&run(args.split(' ')).ok()).unwrap();
    let results = object["results"].as_array().unwrap();
    let names: Vec<_> = results
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    let order = [
        "ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbf", "ycsbd", "ycsbload", "ycsbe",
    ];
    assert_eq!(names, order);
    let kinds = [
        &[][..],
        &["read", "update"],
        &["read", "update"],
        &["read"],
        &["read", "read-modify-write"],
        &["insert", "read"],
        &[],
        &["insert", "scan"],
    ];
    for (r, kinds) in results.iter().zip(kinds) {
        assert_eq!(r["ops"], 500, "{r}");
        let parts = r["parts"].as_object().unwrap();
        assert!(parts.keys().eq(kinds), "{r}");
        let sum: u64 = parts.values().map(|p| p["ops"].as_u64().unwrap()).sum();
        assert!(kinds.is_empty() || sum == 500, "{r}");
        // Every record that is asked for is there, also those that the run inserts.
        assert_eq!(r["found"], r["looked_up"], "{r}");
    }
}

#[test]
fn the_report_is_one_page_with_charts_and_numbers() {
    let temp = TempDir::new("cli report");
    let file = temp.join("a <b>.html");
    let path = file.to_str().unwrap();
    let args = [
        "bench",
        "fillrandom",
        "mixed",
        "stats",
        "--num",
        "3000",
        "--rate",
        "6000",
        "--report-interval-ms",
        "20",
        "--report",
        path,
    ];
    let out = run(args).ok();
    assert!(out.contains(&format!("report: {path}")), "{out}");
    assert!(
        out.contains("p99.99") && out.contains("from actual start"),
        "{out}"
    );
    let page = std::fs::read_to_string(&file).unwrap();
    for part in [
        "<h2>fillrandom</h2>",
        "<h3>Throughput",
        "<h3>Latency",
        "<h3>Shape of the tree",
        "What it cost",
        "Environment",
        "write_buffer_size",
        "a &lt;b&gt;.html",
        "Compaction Stats [default]",
        "Open loop",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in ["http", "src=", "<link", "<script", "NaN", "inf\"", "url("] {
        assert!(!page.contains(part), "{part}");
    }
    // All that is opened is closed.
    for tag in [
        "section", "div", "table", "svg", "details", "tr", "text", "p",
    ] {
        let opened =
            page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let err = run(["bench", "fillseq", "--report", "/no such dir/x.html"]).fails(1);
    assert!(err.contains("--report bench.html"), "{err}");
}

#[test]
fn an_open_loop_keeps_to_its_rate() {
    let args = "bench fillrandom --num 300 --rate 1000 --arrivals poisson --threads 3 --json";
    let object: Value = serde_json::from_str(&run(args.split(' ')).ok()).unwrap();
    let r = &object["results"][0];
    assert_eq!(
        (r["ops"].as_u64(), r["rate"].as_f64()),
        (Some(300), Some(1000.0))
    );
    // 300 arrivals at 1000 a second take about 0.3 s, whatever the machine, and not much less.
    assert!(r["seconds"].as_f64().unwrap() > 0.15, "{r}");
    let p50 = |name: &str| r[name]["p50"].as_u64().unwrap();
    assert!(p50("latency_ns") > 0 && p50("service_ns") > 0, "{r}");
}

#[test]
fn a_small_tour_ends_well_and_leaves_what_it_promises() {
    let temp = TempDir::new("cli tour");
    let dir = temp.join("tour");
    let path = dir.to_str().unwrap();
    let small = ["--entries", "20001", "--seconds", "1", "--acks", "40"];
    let tour = run(["tour", "--json", "--dir", path].iter().chain(&small));
    assert_eq!(tour.code, Some(0), "{tour:?}");
    let summary: Value = serde_json::from_str(&tour.out).unwrap();
    assert_eq!(summary["ok"], true, "{summary}");
    assert_eq!(summary["crash"]["lost"], 0);
    assert_eq!(summary["crash_on_speed_disk"]["lost"], 0);
    assert!(
        summary["speed_disk"]["logs_brought_back"].as_u64() > Some(0),
        "{summary}"
    );
    assert_eq!(summary["workload"]["recorded"], 2000);
    assert!(
        summary["crash"]["acknowledged"].as_u64().unwrap() >= 40,
        "{summary}"
    );
    assert_eq!(summary["rocksdb_directories"][0]["entries"], 377);
    assert!(
        tour.err.contains("Everything is as it should be"),
        "{}",
        tour.err
    );
    let entries = summary["check"]["entries"].as_u64().unwrap();
    let synced = summary["check"]["synced_entries"].as_u64().unwrap();
    let data = dir.join("data");
    assert_eq!(
        db("count", &data, &[]).ok(),
        format!("{}\n", entries + synced)
    );
    for command in summary["next"].as_array().unwrap() {
        let command = command.as_str().unwrap();
        let Some(rest) = command.strip_prefix(crate::support::SPANLITH) else {
            continue;
        };
        if rest.contains(" db ") {
            let args = rest.split_whitespace().map(|a| a.trim_matches('\''));
            assert_eq!(run(args).code, Some(0), "{command}");
        }
    }
    let again = run(["tour", "--dir", path]).fails(1);
    assert!(
        again.contains("is not empty") && again.contains("rm -r "),
        "{again}"
    );
}
