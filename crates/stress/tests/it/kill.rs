//! The kill loop with real processes, a few rounds.

use spanlith_stress::kill::{KillPlan, run_kill};
use spanlith_testkit::{TempDir, seed, test_name};

/// Holds W1.
#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let temp = TempDir::new("stress-kill-test");
    let plan = KillPlan {
        command: (
            env!("CARGO_BIN_EXE_spanlith-stress").into(),
            vec!["kill-child"],
        ),
        dir: temp.join("db"),
        seed: seed(test_name!()),
        rounds: 6,
        writers: 2,
        own: "witness_spacing=4k".to_string(),
    };
    let report = run_kill(&plan, |_| {}).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.rounds, 6);
    assert!(report.acknowledged > 0, "{report:?}");
}
