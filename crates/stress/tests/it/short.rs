//! Short forms of the programmes; the long ones are commands of `spanlith-stress`.

use spanlith_stress::crash::workloads::WORKLOADS;
use spanlith_stress::crash::{CrashPlan, CrashReport, run_crash, run_workload};
use spanlith_stress::model::program::Program;
use spanlith_stress::model::run::{ModelPlan, run_model, run_program};
use spanlith_stress::threads::{ThreadsPlan, run_threads};
use spanlith_testkit::{seed, test_name};

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

#[test]
fn every_workload_keeps_its_promises_after_a_power_loss_at_any_change() {
    let mut plan = CrashPlan::new(seed(test_name!()), 0);
    // Few images of many changes, so that each workload has its turn.
    plan.images = 3;
    plan.double_one_in = 40;
    let mut report = CrashReport::default();
    for name in WORKLOADS {
        let before = report.states;
        run_workload(&plan, name, plan.seed, &mut report);
        assert!(report.states > before, "{name} changes nothing");
    }
    assert!(report.is_clean(), "{:#?}", report.failures);
    assert!(report.states >= 1000, "only {} states", report.states);
    assert!(report.double_states >= 1000);
}

#[test]
fn a_closed_log_in_a_reused_file_ends_where_its_records_end_before_a_table_refers_to_the_next() {
    let mut plan = CrashPlan::new(12, 0);
    plan.images = 3;
    let mut report = CrashReport::default();
    run_workload(&plan, "families", plan.seed, &mut report);
    assert!(report.is_clean(), "{:#?}", report.failures);
    assert!(report.states > 100, "only {} states", report.states);
    assert!(report.reused_logs > 0, "no log is used again");
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
