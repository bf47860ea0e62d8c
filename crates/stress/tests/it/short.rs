//! Short forms of the programmes; the long ones are commands of `spanlith-stress`.

use spanlith_stress::crash::workloads::WORKLOADS;
use spanlith_stress::crash::{CrashPlan, CrashReport, run_crash, run_workload};
use spanlith_stress::damage::image::Wanted;
use spanlith_stress::damage::{DamagePlan, Outcome, run_damage};
use spanlith_stress::faults::{FaultsPlan, run_faults};
use spanlith_stress::histories::{HistoriesPlan, run_histories};
use spanlith_stress::model::program::Program;
use spanlith_stress::model::run::{ModelPlan, run_model, run_program};
use spanlith_stress::model::world::{SPEED_BOTH, SPEED_DISK, SPEED_TABLES, SPEED_WHOLE};
use spanlith_stress::threads::{ThreadsPlan, run_threads};
use spanlith_testkit::{seed, test_name};

/// Holds R1.
#[test]
fn random_programs_agree_with_the_reference() {
    let plan = ModelPlan::new(seed(test_name!()), 20_000);
    match run_model(&plan, |_| {}) {
        Ok(report) => {
            for what in [
                "power losses",
                "kills",
                "reopens",
                "read-only opens",
                "jobs",
            ] {
                assert!(report.tally.get(what) > 0, "{what}: {:?}", report.tally);
            }
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Every third workload from the `first` on: three tests, since one would be the longest of all.
fn keep_their_promises(first: usize, seed: u64) {
    let mut plan = CrashPlan::new(seed, 0);
    // Few images of many changes, so that each workload has its turn.
    plan.images = 3;
    plan.double_one_in = 40;
    let mut report = CrashReport::default();
    for name in WORKLOADS.iter().skip(first).step_by(3) {
        let before = report.states;
        run_workload(&plan, name, plan.seed, &mut report);
        assert!(report.states > before, "{name} changes nothing");
    }
    assert!(report.is_clean(), "{:#?}", report.failures);
    // A thousand of all three.
    assert!(report.states >= 334, "only {} states", report.states);
    assert!(report.double_states >= 334);
}

/// Holds WAL1, F1 and O1.
#[test]
fn every_workload_keeps_its_promises_after_a_power_loss_at_any_change() {
    keep_their_promises(0, seed(test_name!()));
}

#[test]
fn every_second_workload_keeps_its_promises_after_a_power_loss_at_any_change() {
    keep_their_promises(1, seed(test_name!()));
}

#[test]
fn every_third_workload_keeps_its_promises_after_a_power_loss_at_any_change() {
    keep_their_promises(2, seed(test_name!()));
}

#[test]
fn workloads_keep_their_promises_with_their_logs_on_a_speed_disk() {
    let mut plan = CrashPlan::new(seed(test_name!()), 0);
    plan.images = 3;
    plan.double_one_in = 40;
    plan.own = SPEED_DISK;
    let mut report = CrashReport::default();
    // All of them: `spanlith-stress crash --set sd_path=/fast/disk`.
    for name in ["sync", "families"] {
        run_workload(&plan, name, plan.seed, &mut report);
    }
    assert!(report.is_clean(), "{:#?}", report.failures);
    assert!(report.states >= 100, "only {} states", report.states);
}

#[test]
fn programs_differ_in_nothing_with_their_logs_on_a_speed_disk() {
    let mut plan = ModelPlan::new(seed(test_name!()), 3_000);
    plan.real_one_in = 0;
    plan.own = SPEED_DISK;
    if let Err(failure) = run_model(&plan, |_| {}) {
        panic!("{failure}");
    }
}

#[test]
fn workloads_keep_their_promises_with_tables_on_a_speed_disk() {
    let mut plan = CrashPlan::new(seed(test_name!()), 0);
    plan.images = 1;
    plan.double_one_in = 100;
    // All of them: `spanlith-stress crash --set 'sd_tables_path=/fast-tables;sd_placement=lad:1'`, or
    // `--set 'sd_path=/fast/whole;sd_placement=lad:2'`.
    for own in [SPEED_TABLES, SPEED_WHOLE] {
        plan.own = own;
        let mut report = CrashReport::default();
        run_workload(&plan, "sync", plan.seed, &mut report);
        assert!(report.is_clean(), "{own}: {:#?}", report.failures);
        assert!(report.states >= 50, "only {} states", report.states);
    }
}

#[test]
fn programs_differ_in_nothing_with_tables_on_a_speed_disk() {
    for own in [SPEED_TABLES, SPEED_BOTH, SPEED_WHOLE] {
        let mut plan = ModelPlan::new(seed(test_name!()), 2_000);
        plan.real_one_in = 0;
        plan.own = own;
        if let Err(failure) = run_model(&plan, |_| {}) {
            panic!("{own}: {failure}");
        }
    }
}

fn damage(seed: u64, wanted: Wanted) -> DamagePlan {
    DamagePlan {
        seed,
        cases: 4_000,
        per_image: 500,
        jobs: 2,
        wanted,
        only: None,
        stop: 50,
    }
}

#[test]
fn damaged_files_are_noticed_or_harmless_or_shorten_the_log() {
    let plan = damage(seed(test_name!()), Wanted::default());
    let report = run_damage(&plan, |_| {});
    assert_eq!(report.broken, 0, "{:#?}", report.failures);
    assert!(report.cases >= 4_000);
    for file in [".log", ".sst", "MANIFEST", "CURRENT"] {
        let noticed = report.of(file, Outcome::Refused) + report.of(file, Outcome::ReadFailed);
        assert!(noticed + report.of(file, Outcome::Shorter) > 0, "{file}");
    }
}

#[test]
fn the_damage_of_tables_without_checksums_is_caught() {
    let wanted = Wanted {
        unchecked: true,
        ..Wanted::default()
    };
    let report = run_damage(&damage(3, wanted), |_| {});
    assert!(
        report.failures.iter().any(|f| f.contains(".sst")),
        "{:#?}",
        report.failures
    );
}

#[test]
fn a_get_that_a_damaged_filter_denies_is_a_wrong_answer_and_no_error_of_a_read() {
    let wanted = Wanted {
        unchecked: true,
        ..Wanted::default()
    };
    let mut plan = damage(3, wanted);
    plan.per_image = 2_000;
    let mut seen = Vec::new();
    // Not all images have filters.
    let is_caught = (0..20).any(|image| {
        plan.only = Some(image);
        let report = run_damage(&plan, |_| {});
        let mut failures = report.failures.iter();
        let caught = failures.any(|f| f.contains("contradiction: point read of "));
        seen.extend(report.failures);
        caught
    });
    assert!(is_caught, "{seen:#?}");
}

#[test]
fn a_failing_call_loses_nothing_and_says_so() {
    let plan = FaultsPlan {
        seed: seed(test_name!()),
        runs: 500,
        jobs: 2,
        only: None,
        stop: 50,
    };
    let report = run_faults(&plan, |_| {});
    assert_eq!(report.broken, 0, "{:#?}", report.failures);
    let fired: u64 = report.fired.values().sum();
    assert!(fired > 300, "{fired} of {}", report.runs);
    assert!(report.surfaced > 150, "{}", report.surfaced);
}

#[test]
fn a_closed_log_in_a_reused_file_ends_where_its_records_end_before_a_table_refers_to_the_next() {
    let mut report = CrashReport::default();
    // Not every seed draws recycled logs.
    for seed in [12, 13, 14] {
        let mut plan = CrashPlan::new(seed, 0);
        plan.images = 3;
        run_workload(&plan, "families", seed, &mut report);
    }
    assert!(report.is_clean(), "{:#?}", report.failures);
    assert!(report.states > 100, "only {} states", report.states);
    assert!(report.reused_logs > 0, "no log is used again");
}

#[test]
fn a_table_newer_than_its_log_refuses_no_open_after_a_second_crash() {
    let plan = CrashPlan::new(3, 0);
    let mut report = CrashReport::default();
    run_workload(&plan, "continued", plan.seed, &mut report);
    assert!(report.is_clean(), "{:#?}", report.failures);
    assert!(report.double_states > 500, "{}", report.double_states);
}

#[test]
fn a_log_that_is_gone_is_not_needed_again_because_an_idle_family_names_it() {
    let program = "\
setup reverse=0 merge=none levels=3 families=3 real=0 world=4545274421077899915
open buffer=262144
logged put key0000000000007 1156.128.r
flush
synced put key0000000000009 1157.127.r
powerloss 6 0 stay=1
";
    let program = Program::parse(program).expect("a program");
    if let Err(failure) = run_program(&program, None).0 {
        panic!("operation {}: {}", failure.op, failure.text);
    }
}

#[test]
fn writers_and_readers_at_once_see_only_what_was_written() {
    let plan = ThreadsPlan {
        rounds: 3,
        ..ThreadsPlan::new(seed(test_name!()))
    };
    match run_threads(&plan, |_| {}) {
        Ok(report) => assert!(report.writes > 1000 && report.checks > 1000, "{report:?}"),
        Err(text) => panic!("{text}"),
    }
}

#[test]
fn a_run_that_is_asked_for_so_many_states_opens_them() {
    let plan = CrashPlan {
        only: Some("create".to_string()),
        ..CrashPlan::new(1, 50)
    };
    let report = run_crash(&plan, |_| {});
    assert!(report.is_clean(), "{:#?}", report.failures);
    assert!(report.states >= 50);
}

#[test]
fn what_threads_saw_has_one_order_that_explains_it() {
    let plan = HistoriesPlan {
        seed: seed(test_name!()),
        rounds: 160,
    };
    let report = run_histories(&plan, |_| {}).unwrap_or_else(|text| panic!("{text}"));
    assert_eq!((report.rounds, report.databases), (160, 4));
    assert_eq!(report.undecided, 0);
    // Not how often threads met: that is the machine's affair.
    for verb in [
        "batch",
        "delete",
        "delete_range",
        "get",
        "iterator",
        "iterator-back",
        "merge",
        "multi_get",
        "put",
        "snapshot",
    ] {
        assert!(report.operations.contains_key(verb), "{verb}");
    }
}
