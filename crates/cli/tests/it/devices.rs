//! Emulated devices from outside: `bench`, `drive` and `experiment` with `--device`, and `bench raw`.

use crate::support::run;
use spanlith_testkit::{TempDir, test_name};

#[test]
fn raw_devices_show_the_printed_ratios() {
    let out = run(["bench", "raw"]).ok();
    assert!(out.contains("O over S: 15.7"), "{out}");
    assert!(out.contains("by way of files: 4.05, printed 4.05"), "{out}");
    let out = run(["bench", "raw", "--device", "N1:scale=50", "--json"]).ok();
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(
        all.as_array()
            .unwrap()
            .iter()
            .all(|r| r["device"] == "N1:scale=50")
    );
    let err = run(["bench", "raw", "fillseq"]).fails(2);
    assert!(
        err.contains("load of a device and not of a database"),
        "{err}"
    );
}

#[test]
fn benchmarks_drivers_and_experiments_run_on_a_device() {
    let temp = TempDir::new(test_name!());
    let dir = temp.path().to_str().unwrap();
    let fill = [
        "bench",
        "fillsync",
        "--num",
        "3000",
        "--device",
        "O:cache=0",
    ];
    let out = run(fill.iter().chain(&["--json"])).ok();
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["settings"]["device"], "O:cache=0");
    assert!(value["device"]["syncs"].as_u64() >= Some(3), "{value}");
    let out = run(fill).ok();
    assert!(out.contains("device O:cache=0: "), "{out}");
    run([
        "drive",
        "linkbench",
        "keys=50",
        "ops=50",
        "--device",
        "S",
        "--dir",
        dir,
    ])
    .ok();
    let err = run([
        "drive",
        "linkbench",
        "--device",
        "S",
        "--store",
        "slab",
        "--dir",
        dir,
    ])
    .fails(1);
    assert!(err.contains("env_device=S"), "{err}");
    let err = run(["drive", "raw", "--device", "S", "--dir", dir]).fails(2);
    assert!(err.contains("measures the real disk"), "{err}");
    let one = [
        "experiment",
        "run",
        "X-SP-1",
        "--scale",
        "0.01",
        "--dir",
        dir,
    ];
    let out = run(one.iter().chain(&["--device", "O"])).ok();
    assert!(out.contains("X-SP-1"), "{out}");
    // A simulated tree is on no device.
    let err = run([
        "experiment",
        "run",
        "X-WC-10",
        "--scale",
        "0.01",
        "--device",
        "O",
    ])
    .fails(1);
    assert!(err.contains("leave --device out"), "{err}");
    let twice = ["bench", "fillseq", "--device", "O", "--set", "env_device=S"];
    let err = run(twice).fails(2);
    assert!(err.contains("one device on another"), "{err}");
    let err = run(["bench", "raw", "--report", "raw.html"]).fails(2);
    assert!(err.contains("draws no page"), "{err}");
    let err = run(["bench", "fillseq", "--device", "floppy"]).fails(2);
    assert!(
        err.contains("one of H, S, N1, N2, O, H-RAID5, S-RAID5"),
        "{err}"
    );
}

#[test]
fn a_machine_with_a_speed_disk_is_simulated() {
    let sim = ["sim", "sd", "--mix", "writes", "--seconds", "0.05"];
    let out = run(sim).ok();
    assert!(out.contains("the same, asynchronous calls"), "{out}");
    let out = run(sim.iter().chain(&["--json", "--cores", "2"])).ok();
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    let runs = value["runs"].as_array().unwrap();
    let rate = |n: usize| runs[n]["per_second"].as_f64().unwrap();
    assert!(runs.len() == 4 && rate(3) > rate(0), "{value}");
    let err = run(["sim", "sd", "--mix", "Z"]).fails(2);
    assert!(err.contains("one of writes, A, B, E, F"), "{err}");
    run(["sim", "sd", "--seconds", "0"]).fails(2);
}
