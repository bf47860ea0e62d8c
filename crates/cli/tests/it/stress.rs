//! `spanlith stress`: the programmes as verbs.

use crate::support::run;
use spanlith_testkit::{TempDir, test_name};

#[test]
fn a_process_is_killed_and_nothing_it_acknowledged_is_lost() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("db");
    let dir = dir.to_str().unwrap();
    let out = run(["stress", "kill", "--rounds", "4", "--db", dir, "--json"]).ok();
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&object["ok"], &object["kills"]), (&true.into(), &4.into()));
    assert!(object["acknowledged"].as_u64() > Some(0), "{out}");
    // Its output is a database like any other, and is not written over.
    assert!(run(["db", "verify", "--db", dir]).ok().contains("ok"));
    let err = run(["stress", "kill", "--db", dir]).fails(2);
    assert!(err.contains("give --db a name that is free"), "{err}");
}

#[test]
fn random_programs_run_and_say_what_they_did() {
    let out = run([
        "stress", "run", "--ops", "300", "--seed", "3", "--real", "0",
    ])
    .ok();
    assert!(out.contains("no difference from the reference"), "{out}");
    let out = run(["stress", "run", "--ops", "300", "--real", "0", "--json"]).ok();
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(
        object["counts"]["operations"].as_u64() >= Some(300),
        "{out}"
    );
}

#[test]
fn a_program_is_replayed_and_one_that_is_none_is_refused() {
    let temp = TempDir::new(test_name!());
    let file = temp.join("f.prog");
    let path = file.to_str().unwrap();
    std::fs::write(&file, include_str!("stress.prog")).unwrap();
    let out = run(["stress", "replay", path]).ok();
    assert!(out.contains("no difference"), "{out}");
    let err = run(["stress", "reduce", path]).fails(1);
    assert!(err.contains("the program does not fail"), "{err}");
    std::fs::write(&file, "no such operation").unwrap();
    for verb in ["replay", "reduce"] {
        let err = run(["stress", verb, path]).fails(2);
        assert!(
            err.contains("a program is what `spanlith stress run` prints"),
            "{err}"
        );
    }
    let err = run(["stress", "replay", "no-such-file"]).fails(1);
    assert!(err.contains("No such file"), "{err}");
}
