//! Says whether the programmes find what they are there to find: a disk that lies is planted, each lie must
//! be caught. Bugs planted in the sources are the business of `scripts/plants.py`.

use spanlith_env::{Effect, FaultFs, FaultRule, OpClass};
use spanlith_stress::crash::{CrashPlan, run_crash};
use spanlith_stress::model::run::{ModelPlan, run_model};
use spanlith_stress::model::world::FaultPlan;
use std::sync::Arc;

/// Every call of `class` on files whose name contains `part` does nothing and reports success.
fn lie(class: OpClass, part: &'static str) -> FaultPlan {
    Arc::new(move |fs: &FaultFs| {
        let rule = FaultRule::with_effect(class, 1, Effect::Skip).forever();
        fs.add(if part.is_empty() {
            rule
        } else {
            rule.named(part)
        });
    })
}

/// States opened until the first violation.
fn caught_by_crash(plan: FaultPlan, workload: &str) -> Option<u64> {
    let mut crash = CrashPlan::new(1, 3000);
    crash.only = Some(workload.to_string());
    crash.faults = Some(plan);
    crash.images = 4;
    crash.double_one_in = 0;
    let report = run_crash(&crash, |_| {});
    (!report.is_clean()).then_some(report.states)
}

/// Holds W6.
#[test]
fn a_sync_that_does_nothing_is_caught_whatever_file_it_was_for() {
    for (part, workload) in [
        (".log", "sync"),
        ("MANIFEST", "fill"),
        (".sst", "fill"),
        ("dbtmp", "create"),
    ] {
        let states = caught_by_crash(lie(OpClass::Sync, part), workload);
        assert!(states.is_some(), "sync of {part} skipped, not caught");
    }
}

#[test]
fn a_directory_that_is_never_synced_is_caught() {
    assert!(caught_by_crash(lie(OpClass::SyncDir, ""), "fill").is_some());
}

#[test]
fn a_lost_append_to_a_table_is_caught_by_the_model() {
    let plan = ModelPlan {
        faults: Some(Arc::new(|fs: &FaultFs| {
            fs.add(FaultRule::with_effect(OpClass::Append, 3, Effect::Skip).named(".sst"));
        })),
        real_one_in: 0,
        reduce_budget: 20,
        ..ModelPlan::new(3, 20_000)
    };
    assert!(run_model(&plan, |_| {}).is_err());
}

#[test]
fn a_flipped_bit_that_a_read_returns_is_caught_by_the_model() {
    let plan = ModelPlan {
        faults: Some(Arc::new(|fs: &FaultFs| {
            let flip = Effect::FlipBit { bit: 77 };
            fs.add(FaultRule::with_effect(OpClass::Read, 2, flip).named(".sst"));
        })),
        real_one_in: 0,
        reduce_budget: 20,
        ..ModelPlan::new(3, 20_000)
    };
    let failure = run_model(&plan, |_| {}).expect_err("a flipped bit");
    assert!(failure.original.text.contains("Corruption"), "{failure}");
}
