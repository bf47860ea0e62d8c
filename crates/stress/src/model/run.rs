//! Runs many programs, counts, and reduces the first that fails.

use super::generate::{draw_len, draw_program};
use super::player::{Failure, Player, Tally};
use super::program::{Op, Program};
use super::reduce::reduce;
use super::world::FaultPlan;
use crate::watchdog::watched;
use spanlith_testkit::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Describes what to run.
#[derive(Clone)]
pub struct ModelPlan {
    /// Seed of the run; programs are numbered from it.
    pub seed: u64,
    /// Operations in all; the last program is finished.
    pub ops: u64,
    /// One in so many programs runs on real files; 0 is none.
    pub real_one_in: u64,
    /// Faults under every open.
    pub faults: Option<FaultPlan>,
    /// Calls a reduction may make.
    pub reduce_budget: usize,
    /// Options that RocksDB does not have, of every program; empty for the defaults.
    pub own: &'static str,
}

impl ModelPlan {
    /// `ops` operations from `seed`, mostly in memory.
    pub fn new(seed: u64, ops: u64) -> Self {
        Self {
            seed,
            ops,
            real_one_in: 25,
            faults: None,
            reduce_budget: 2000,
            own: "",
        }
    }
}

/// Describes what was done.
#[derive(Clone, Debug, Default)]
pub struct ModelReport {
    /// Programs finished.
    pub programs: u64,
    /// Counts over all.
    pub tally: Tally,
}

/// A program that failed.
#[derive(Clone, Debug)]
pub struct ModelFailure {
    /// Its number in the run.
    pub number: u64,
    /// Says what went wrong in the original.
    pub original: Failure,
    /// The reduced program.
    pub program: Program,
    /// Says what goes wrong in the reduced program.
    pub failure: Failure,
    /// Says what was done before it.
    pub report: ModelReport,
}

impl std::fmt::Display for ModelFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "# program {} failed at operation {}: {}",
            self.number, self.original.op, self.original.text
        )?;
        writeln!(
            f,
            "# reduced to {} operations, fails at {}: {}",
            self.program.ops.len(),
            self.failure.op,
            self.failure.text.replace('\n', "\n# ")
        )?;
        write!(f, "{}", self.program)
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("of another kind"))
}

/// Runs a program to its end.
///
/// # Errors
/// Where it failed and how; a panic is a failure.
pub fn run_program(program: &Program, faults: Option<&FaultPlan>) -> (Result<(), Failure>, Tally) {
    let mut at = 0;
    let mut tally = Tally::default();
    let copy = program.clone();
    let _watched = watched(move || copy.to_string());
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut player = Player::new(program, faults.cloned());
        player.start()?;
        for op in &program.ops {
            let done = player.step(op);
            tally = player.tally.clone();
            done?;
            at += 1;
        }
        match player.finish() {
            Ok(t) => {
                tally = t;
                Ok(())
            }
            Err((text, t)) => {
                tally = t;
                Err(text)
            }
        }
    }));
    let text = match result {
        Ok(Ok(())) => return (Ok(()), tally),
        Ok(Err(text)) => text,
        Err(payload) => panic_text(&*payload),
    };
    (Err(Failure { op: at, text }), tally)
}

/// Program `number` of a run.
pub fn program_of(plan: &ModelPlan, number: u64) -> Program {
    let mut rng = Rng::new(plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let real = plan.real_one_in > 0 && rng.one_in(plan.real_one_in);
    let len = draw_len(&mut rng);
    let mut program = draw_program(&mut rng, len, real);
    program.setup = program.setup.with_own(plan.own);
    program
}

/// Shortens a failing program.
pub fn reduce_program(
    program: &Program,
    failure: &Failure,
    faults: Option<&FaultPlan>,
    budget: usize,
) -> Program {
    let with = |ops: &[Op]| Program {
        ops: ops.to_vec(),
        ..program.clone()
    };
    let end = (failure.op + 1).min(program.ops.len());
    let fails = |ops: &[Op]| run_program(&with(ops), faults).0.is_err();
    let start = if fails(&program.ops[..end]) {
        &program.ops[..end]
    } else {
        &program.ops[..]
    };
    with(&reduce(start, budget, fails))
}

/// Runs programs until so many operations are done; `progress` is told after each program.
///
/// # Errors
/// The first program that fails, reduced.
pub fn run_model(
    plan: &ModelPlan,
    mut progress: impl FnMut(&ModelReport),
) -> Result<ModelReport, Box<ModelFailure>> {
    let mut report = ModelReport::default();
    while report.tally.get("operations") < plan.ops {
        let program = program_of(plan, report.programs);
        let (result, tally) = run_program(&program, plan.faults.as_ref());
        report.tally.merge(&tally);
        if let Err(original) = result {
            let faults = plan.faults.as_ref();
            let short = reduce_program(&program, &original, faults, plan.reduce_budget);
            let failure = run_program(&short, faults).0.err();
            return Err(Box::new(ModelFailure {
                number: report.programs,
                failure: failure.unwrap_or_else(|| original.clone()),
                original,
                program: short,
                report,
            }));
        }
        report.programs += 1;
        progress(&report);
    }
    Ok(report)
}
