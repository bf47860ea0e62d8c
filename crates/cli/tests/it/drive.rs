//! `spanlith drive`: stores by name, and drivers in processes that are killed (R-WL-35).

use crate::support::run;
use spanlith_testkit::{TempDir, test_name};

#[test]
fn what_must_hold_holds_after_a_kill() {
    let temp = TempDir::new(test_name!());
    let dir = temp.path().to_str().unwrap();
    for (driver, more) in [
        ("tpcc", vec!["customers=20", "items=200", "isolation=rr"]),
        ("linkbench", vec!["keys=300"]),
    ] {
        let mut args = vec!["drive", driver, "threads=2", "--kill", "2", "--dir", dir];
        args.extend(more);
        let out = run(args).ok();
        assert_eq!(out.matches(": holds (").count(), 2, "{out}");
        assert!(out.contains("kill 2 after"), "{out}");
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn drivers_without_conditions_are_not_killed() {
    let temp = TempDir::new(test_name!());
    let dir = temp.path().to_str().unwrap();
    let err = run(["drive", "ycsb", "--kill", "1", "--dir", dir]).fails(1);
    assert!(err.contains("linkbench and tpcc have"), "{err}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_slab_store_is_driven_and_refuses_transactions() {
    let temp = TempDir::new(test_name!());
    let dir = temp.path().to_str().unwrap();
    let small = ["keys=200", "ops=300", "--store", "slab", "--dir", dir];
    let out = run([&["drive", "ycsb", "workloads=a,e"][..], &small[..]].concat()).ok();
    assert!(out.contains("ycsb on slab"), "{out}");
    let err = run([&["drive", "linkbench"][..], &small[..]].concat()).fails(1);
    assert!(err.contains("slab: the store has no transactions"), "{err}");
}
