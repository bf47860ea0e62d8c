//! The short forms of the programmes, for every `cargo test`; the long ones are commands of their own.

use spanlith_stress::crash::{CrashPlan, run_crash};
use spanlith_stress::model::run::{ModelPlan, run_model};
use spanlith_testkit::seed;

#[test]
fn random_programs_agree_with_a_map_that_remembers_history() {
    let plan = ModelPlan::new(seed("random_programs_agree"), 10_000);
    match run_model(&plan, |_| {}) {
        Ok(report) => {
            assert!(report.tally.get("power losses") > 5, "{report:?}");
            assert!(report.tally.get("operations") >= 10_000);
        }
        Err(f) => panic!(
            "program {} of seed {}: {:?}\n{:?}",
            f.number, plan.seed, f.failure, f.program
        ),
    }
}

#[test]
fn no_crash_state_loses_or_invents_anything() {
    let plan = CrashPlan::new(seed("no_crash_state_loses"), 800);
    let report = run_crash(&plan, |_| {});
    assert!(report.is_clean(), "{report:?}");
    assert!(
        report.states >= 800 && report.double_states > 100,
        "{report:?}"
    );
}
