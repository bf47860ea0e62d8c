//! Runs a model under many schedules (only with `cfg(shuttle)`).
//!
//! Half of the schedules are drawn at random at every step. The others give each thread a priority and
//! change it at a few points (depths 3, 4 and 5), which finds in few schedules what needs few
//! particular preemptions. A failure prints the schedule, which `shuttle::replay` repeats.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Schedules of a model, unless `SHUTTLE_SCHEDULES` says how many.
const SCHEDULES: usize = 300;
/// Bytes of stack per thread: those of the engine go deeper than shuttle expects.
const STACK_BYTES: usize = 256 << 10;

/// Runs `model` under schedules and prints their number. `SHUTTLE_SCHEDULES` sets how many,
/// `SHUTTLE_SEED` where chance begins.
///
/// # Panics
/// If the model does under one of them, or if all its threads wait for each other.
pub fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let set = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let schedules = set("SHUTTLE_SCHEDULES").unwrap_or(SCHEDULES);
    let seed = set("SHUTTLE_SEED").unwrap_or(1);
    let model = std::sync::Arc::new(model);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    let each = schedules.div_ceil(6);
    let mut ran = 0;
    for (depth, count) in [
        (0, schedules.saturating_sub(3 * each)),
        (3, each),
        (4, each),
        (5, each),
    ] {
        let model = model.clone();
        let run = move || model();
        let seed = seed as u64 ^ (depth as u64) << 32;
        ran += match depth {
            0 => Runner::new(RandomScheduler::new_from_seed(seed, count), config.clone()).run(run),
            _ => Runner::new(
                PctScheduler::new_from_seed(seed, depth, count),
                config.clone(),
            )
            .run(run),
        };
    }
    println!("shuttle: {name}: {ran} schedules, seed {seed}");
}
