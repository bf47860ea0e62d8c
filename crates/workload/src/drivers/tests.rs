//! Every driver on a small store, and what is refused.

use super::*;
use spanlith_testkit::{TempDir, test_name};

/// Parameters that make a driver small.
const SMALL: [&str; 3] = ["keys=300", "ops=400", "threads=2"];
const MORE: [(&str, &[&str]); 7] = [
    ("logger", &["ops=20", "pages=4"]),
    ("tpcc", &["customers=20", "items=200"]),
    (
        "ycsb",
        &["workloads=a,b,c,d,e,f,w", "fields=3", "value_size=10"],
    ),
    ("payload", &["payloads=100,1000", "bytes=20000"]),
    (
        "burst",
        &["bursts=1", "quiet_seconds=0.02", "burst_seconds=0.02"],
    ),
    ("sweep", &["clients=1,2"]),
    ("raw", &["file_bytes=40960", "sync=0"]),
];

fn settings(driver: &Driver) -> Settings {
    let more = MORE
        .iter()
        .find(|m| m.0 == driver.name)
        .map_or(&[][..], |m| m.1);
    Settings::of(driver, SMALL.iter().chain(more)).unwrap()
}

#[test]
fn every_driver_runs_and_what_must_hold_holds() {
    let temp = TempDir::new(test_name!());
    for driver in DRIVERS {
        let dir = temp.join(driver.name);
        let settings = settings(driver);
        let run = driver.drive(&StoreName::Ours, &dir, &StoreOptions::default(), &settings);
        let (label, phases) = run.unwrap_or_else(|e| panic!("{}: {e}", driver.name));
        assert!(label.starts_with("spanlith"));
        assert!(phases.len() > 1, "{}", driver.name);
        for phase in &phases {
            assert!(phase.tally.ops > 0, "{} {}", driver.name, phase.name);
            assert!(phase.holds(), "{} {:?}", driver.name, phase.verdicts);
            assert!(phase.json()["ops"].as_u64() > Some(0));
        }
    }
}

#[test]
fn one_thread_and_one_seed_make_the_same_operations() {
    let temp = TempDir::new(test_name!());
    for driver in DRIVERS
        .iter()
        .filter(|d| !["burst", "raw", "logger", "sweep"].contains(&d.name))
    {
        let more = settings(driver);
        let counts = |round: u32| {
            let changes: Vec<String> = more
                .iter()
                .filter(|(name, _)| *name != "threads")
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let settings = Settings::of(driver, changes).unwrap();
            let dir = temp.join(format!("{}-{round}", driver.name));
            let run = driver.drive(&StoreName::Ours, &dir, &StoreOptions::default(), &settings);
            let phases = run.unwrap().1.into_iter();
            phases
                .map(|p| (p.name, p.tally.ops, p.tally.bytes, p.tally.found))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(0), counts(1), "{}", driver.name);
    }
}

#[test]
fn wrong_parameters_are_refused_by_name() {
    let mixgraph = find("mixgraph").unwrap();
    let e = Settings::of(mixgraph, ["bogus=1"]).unwrap_err();
    assert!(e.contains("bogus") && e.contains("key_size"), "{e}");
    assert!(
        Settings::of(mixgraph, ["keys"])
            .unwrap_err()
            .contains("name=value")
    );
    let temp = TempDir::new(test_name!());
    for (n, (name, wrong)) in [
        ("mixgraph", "variant=x"),
        ("mixgraph", "keys=0"),
        ("mixgraph", "compression_ratio=7"),
        ("ycsb", "workloads=z"),
        ("ycsb", "mix=1,2,3"),
        ("ycsb", "mix=50,50,50,0,0"),
        ("ycsb", "distribution=x"),
        ("sweep", "clients=0"),
        ("tpcc", "isolation=x"),
    ]
    .into_iter()
    .enumerate()
    {
        let driver = find(name).unwrap();
        let settings = Settings::of(driver, [wrong]).unwrap();
        let dir = temp.join(format!("{n}"));
        let run = driver.drive(&StoreName::Ours, &dir, &StoreOptions::default(), &settings);
        let e = run
            .err()
            .unwrap_or_else(|| panic!("{name} {wrong} was taken"));
        let (what, _) = wrong.split_once('=').unwrap();
        assert!(e.to_string().contains(what) || name == "ycsb", "{e}");
    }
    let full = temp.join("0");
    std::fs::write(full.join("x"), "").unwrap();
    let settings = settings(mixgraph);
    let run = mixgraph.drive(&StoreName::Ours, &full, &StoreOptions::default(), &settings);
    assert!(run.unwrap_err().to_string().contains("is not empty"));
}
