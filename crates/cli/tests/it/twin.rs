//! `twin`, with and without a checkpoint, and what it refuses (R-WL-26).

use crate::support::run;
use serde_json::Value;
use spanlith_testkit::{TempDir, test_name};

/// A database of 4000 keys that is asked for 1000 times at random, the trace of that, and a checkpoint from before.
struct Traced {
    temp: TempDir,
}

impl Traced {
    fn new(name: &str) -> Self {
        let temp = TempDir::new(name);
        let this = Self { temp };
        let (db, checkpoint, trace) =
            (this.file("db"), this.file("checkpoint"), this.file("trace"));
        let bench = ["bench", "--num", "4000", "--value-size", "200", "--db", &db];
        run(bench.iter().chain(&["fillseq"])).ok();
        run(["db", "checkpoint", "--db", &db, &checkpoint]).ok();
        let reads = [
            "readrandom",
            "--reads",
            "1000",
            "--use-existing-db",
            "--trace",
            &trace,
        ];
        run(bench.iter().chain(&reads)).ok();
        this
    }

    fn file(&self, name: &str) -> String {
        self.temp.join(name).display().to_string()
    }

    /// Runs `twin` on its trace; the numbers.
    fn twin(&self, more: &[&str]) -> Value {
        let (trace, page, json, dir) = (
            self.file("trace"),
            self.file("page"),
            self.file("json"),
            self.file("dir"),
        );
        let args = [
            "twin", &trace, "--page", &page, "--json", &json, "--dir", &dir,
        ];
        // The place of the page is told on standard error.
        let done = run(args.iter().chain(more));
        assert_eq!(done.code, Some(0), "{}", done.err);
        let page = std::fs::read_to_string(page).unwrap();
        assert!(
            page.contains("What both do to the engine") && !page.contains("NaN"),
            "{page}"
        );
        assert!(!std::path::Path::new(&dir).exists());
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
    }

    fn refused(&self, trace: &str, more: &[&str]) -> String {
        let (page, dir) = (self.file("page"), self.file("dir"));
        let args = ["twin", trace, "--page", &page, "--dir", &dir];
        let err = run(args.iter().chain(more)).fails(1);
        assert!(!std::path::Path::new(&dir).exists());
        err
    }
}

/// With a checkpoint both begin with all keys, which are four times as many as the trace names: so are bytes and blocks.
#[test]
fn a_twin_with_a_checkpoint_begins_with_as_much_as_it_holds() {
    let traced = Traced::new(test_name!());
    let checkpoint = traced.file("checkpoint");
    let alone = traced.twin(&[]);
    let whole = traced.twin(&["--db", &checkpoint]);
    assert_eq!(
        (&alone["from_checkpoint"], &whole["from_checkpoint"]),
        (&Value::Bool(false), &Value::Bool(true))
    );
    let bytes = |v: &Value, of: &str| v["table_bytes"][of].as_f64().unwrap();
    assert!(
        bytes(&whole, "original") > 3.0 * bytes(&alone, "original"),
        "{alone} {whole}"
    );
    let share = bytes(&whole, "twin") / bytes(&whole, "original");
    assert!((0.9..1.1).contains(&share), "{whole}");
    let largest = whole["runs"].as_array().unwrap().last().unwrap();
    let reads = |of: &str| largest[of]["block_reads"].as_f64().unwrap();
    assert!(
        reads("original") > 0.0 && (reads("twin") / reads("original") - 1.0).abs() < 0.15,
        "{largest}"
    );
}

/// In step with flushes and compactions the blocks that are read follow from the requests alone.
#[test]
fn a_twin_reads_as_many_blocks_each_time() {
    let traced = Traced::new(test_name!());
    let counts = |v: &Value| {
        let of = |r: &Value| [&r["original"], &r["twin"]].map(|e| e["block_reads"].clone());
        v["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(of)
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&traced.twin(&[])), counts(&traced.twin(&[])));
}

#[test]
fn checkpoints_of_other_databases_are_refused_by_name() {
    let traced = Traced::new(test_name!());
    let trace = traced.file("trace");
    // No key of it was ever in this database.
    let other = traced.file("other");
    run(["db", "put", "--db", &other, "--create", "nothing", "of it"]).ok();
    let err = traced.refused(&trace, &["--db", &other]);
    assert!(
        err.contains("of it") || err.contains("it lacks") || err.contains("it has none"),
        "{err}"
    );
    assert!(err.contains("another database"), "{err}");
    // A family that the checkpoint does not have.
    let (families, second) = (traced.file("families"), traced.file("second"));
    run(["db", "put", "--db", &families, "--create", "a", "b"]).ok();
    run([
        "db", "put", "--db", &families, "--cf", "more", "--create", "a", "b",
    ])
    .ok();
    run([
        "bench",
        "fillseq",
        "readrandom",
        "--num",
        "100",
        "--db",
        &second,
        "--trace",
        &traced.file("small"),
    ])
    .ok();
    let nowhere = traced.file("nowhere");
    let err = traced.refused(&trace, &["--db", &nowhere]);
    assert!(err.contains("nowhere"), "{err}");
    // The checkpoint itself is as it was.
    let checkpoint = traced.file("checkpoint");
    let names = || {
        let all = std::fs::read_dir(&checkpoint).unwrap();
        let mut names: Vec<_> = all.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    traced.twin(&["--db", &checkpoint]);
    assert_eq!(names(), before);
}
