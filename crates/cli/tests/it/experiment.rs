//! `spanlith experiment`: the registry, a run, its files, and what is refused.

use crate::support::run;
use spanlith_testkit::{TempDir, test_name};

#[test]
fn an_experiment_runs_passes_and_leaves_numbers_and_a_page() {
    let temp = TempDir::new(test_name!());
    let at = |name: &str| temp.join(name).to_str().unwrap().to_string();
    let (json, page, again) = (at("x.json"), at("x.html"), at("again.html"));
    let out = run([
        "experiment",
        "run",
        "x-sp-1",
        "--scale",
        "0.03",
        "--json",
        &json,
        "--report",
        &page,
        "--dir",
        &at("."),
    ])
    .ok();
    assert!(out.contains("dynamic, level 0"), "{out}");
    let text = std::fs::read_to_string(&json).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let one = &value[0];
    assert_eq!(one["id"], "X-SP-1");
    assert_eq!(
        one["figures"][0]["printed"][0]["values"][0]["median"],
        1.111
    );
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("X-SP-1") && html.contains("<svg"));
    run(["experiment", "report", &json, "--output", &again]).ok();
    assert_eq!(std::fs::read_to_string(&again).unwrap(), html);
    // Nothing else is left.
    assert_eq!(std::fs::read_dir(temp.join(".")).unwrap().count(), 3);
}

/// In virtual time: whether it passes does not depend on the machine.
#[test]
fn an_experiment_that_passes_is_a_success() {
    let one = ["experiment", "run", "x-sd-1", "--scale", "0.2"];
    let out = run(one.iter().chain(&["--check"])).ok();
    assert!(out.contains("passed  O: "), "{out}");
}

#[test]
fn experiments_are_listed_for_people_and_machines() {
    let out = run(["experiment", "list"]).ok();
    assert!(out.contains("X-SP-1") && out.contains("[SPACE]"), "{out}");
    let out = run(["experiment", "list", "--json"]).ok();
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(
        value
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["id"] == "X-SP-1")
    );
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let err = run(["experiment", "run", "X-NO-1"]).fails(2);
    assert!(
        err.contains("unknown experiment 'X-NO-1'") && err.contains("X-SP-1"),
        "{err}"
    );
    let err = run(["experiment", "run", "X-SP-1", "--store", "oracle"]).fails(2);
    assert!(err.contains("unknown store 'oracle'"), "{err}");
    let library = "rocksdb:/nowhere/librocksdb.so";
    let err = run(["experiment", "run", "X-SP-1", "--store", library]).fails(1);
    assert!(err.contains("/nowhere/librocksdb.so"), "{err}");
    let err = run(["experiment", "run", "X-SP-1", "--scale", "0"]).fails(2);
    assert!(err.contains("above 0"), "{err}");
    let temp = TempDir::new(test_name!());
    let file = temp.join("bad.json");
    std::fs::write(&file, "[{\"id\": \"X\"}]").unwrap();
    let (file, page) = (file.to_str().unwrap(), temp.join("p.html"));
    let err = run(["experiment", "report", file, "-o", page.to_str().unwrap()]).fails(1);
    assert!(
        err.contains("bad.json") && err.contains("is missing"),
        "{err}"
    );
}
