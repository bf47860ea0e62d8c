//! `twin`, with and without a checkpoint, and what it refuses (R-WL-26).

use crate::support::run;
use serde_json::Value;
use spanlith::trace::TraceOptions;
use spanlith::{Comparator, Db, FamilyOptions, ReadOptions};
use spanlith_testkit::{Rng, TempDir, seed, test_name};

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

/// The trace of gets from a database whose families are `default`, in an order of that name, and `other`, which is backward and
/// larger, and a checkpoint from before.
fn ordered(traced: &Traced, order: &str) -> (String, String) {
    let (db, checkpoint, trace) = (
        traced.file("ordered"),
        traced.file("ordered-checkpoint"),
        traced.file("ordered-trace"),
    );
    let order = Comparator::from_name(order).unwrap();
    let times = order.timestamp_size();
    let builder = Db::builder(&db).create_if_missing(true);
    let db = builder.family(FamilyOptions::new("default").comparator(order));
    let db = db.open().unwrap();
    let other = FamilyOptions::new("other").comparator(Comparator::ReverseBytewise);
    let other = db.create_cf(other).unwrap();
    let key = |n: u32| format!("{n:016}");
    let mut rng = Rng::new(seed(test_name!()));
    for n in 0..4000 {
        other.put(key(n), rng.bytes(480)).unwrap();
        if times == 0 {
            db.default_cf().put(key(n), rng.bytes(160)).unwrap();
        }
    }
    db.flush(true).unwrap();
    db.checkpoint(&checkpoint).unwrap();
    db.start_trace(&trace, &TraceOptions::default()).unwrap();
    let options = match times {
        0 => ReadOptions::new(),
        _ => ReadOptions::new().timestamp(1_u64.to_le_bytes()),
    };
    for _ in 0..1000 {
        let key = key(rng.below(4000) as u32);
        db.default_cf().get_opt(&key, &options).unwrap();
    }
    db.end_trace().unwrap();
    db.close().unwrap();
    (trace, checkpoint)
}

/// Families that nobody asks are carried along: they count for nothing, whatever their order is.
#[test]
fn a_twin_of_keys_in_reverse_begins_with_as_much_as_the_checkpoint_holds() {
    for order in [
        "rocksdb.ReverseBytewiseComparator",
        "leveldb.BytewiseComparator",
    ] {
        let traced = Traced::new(test_name!());
        let (trace, checkpoint) = ordered(&traced, order);
        std::fs::rename(trace, traced.file("trace")).unwrap();
        std::fs::remove_file(traced.file("trace.ext")).ok();
        let whole = traced.twin(&["--db", &checkpoint]);
        let bytes = |of: &str| whole["table_bytes"][of].as_f64().unwrap();
        let other = 4000.0 * 480.0;
        assert!(bytes("original") < other, "{order}: {whole}");
        let share = bytes("twin") / bytes("original");
        assert!((0.9..1.1).contains(&share), "{order}: {whole}");
        for run in whole["runs"].as_array().unwrap() {
            let reads = |of: &str| run[of]["block_reads"].as_f64().unwrap();
            let apart = reads("twin") / reads("original") - 1.0;
            assert!(apart.abs() < 0.15, "{order}: {run}");
        }
    }
}

#[test]
fn a_checkpoint_whose_keys_lie_in_another_order_is_refused_by_name() {
    let traced = Traced::new(test_name!());
    let order = "leveldb.BytewiseComparator.u64ts";
    let (trace, checkpoint) = ordered(&traced, order);
    let err = traced.refused(&trace, &["--db", &checkpoint]);
    let expected = format!("the keys of the family 'default' are in the order {order}");
    assert!(
        err.contains(&expected) && err.contains("leave --db out"),
        "{err}"
    );
}

/// A family that the trace names must be there.
#[test]
fn a_checkpoint_without_a_family_of_the_trace_is_refused_by_its_id() {
    let traced = Traced::new(test_name!());
    let (db, trace) = (traced.file("two"), traced.file("two-trace"));
    let db = Db::builder(&db).create_if_missing(true).open().unwrap();
    let more = db.create_cf(FamilyOptions::new("more")).unwrap();
    db.start_trace(&trace, &TraceOptions::default()).unwrap();
    more.put("a", "b").unwrap();
    db.end_trace().unwrap();
    db.close().unwrap();
    let err = traced.refused(&trace, &["--db", &traced.file("checkpoint")]);
    let expected = "there is no family with the id 1, which the trace names";
    assert!(err.contains(expected), "{err}");
}
