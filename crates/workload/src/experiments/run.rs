//! Runs an experiment, several times if asked for, and removes what it left on disk.

use super::{Bench, Error, Experiment, Outcome, Progress, Result, Stores};
use crate::report::environment::Environment;
use crate::store::StoreName;
use spanlith_env::emulated::DeviceSpec;
use std::cell::Cell;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// Factor on the sizes of the set-up.
    pub scale: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// How often it is run; medians are judged.
    pub runs: u64,
    /// The stores to compare.
    pub stores: &'a [StoreName],
    /// An emulated device for the databases.
    pub device: Option<DeviceSpec>,
    /// Directory in which each run makes its own.
    pub dir: &'a Path,
}

/// Removes a directory when a run is over, however it ends.
struct Remove<'a>(&'a Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        // The run's own error is told; files that stay are found by their name.
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// Runs an experiment.
///
/// # Errors
/// A store that it cannot run on; the first error of a run.
pub fn run(experiment: &Experiment, plan: &Plan<'_>, progress: &dyn Progress) -> Result<Outcome> {
    if let Some(store) = plan.stores.iter().find(|s| !experiment.stores.allow(s)) {
        let text = format!(
            "{} runs on {}, not on {store}",
            experiment.id,
            experiment.stores.text()
        );
        return Err(Error::new(text));
    }
    if plan.device.is_some() && experiment.stores == Stores::OnDevices {
        let text = format!(
            "{} names its devices itself; leave --device out",
            experiment.id
        );
        return Err(Error::new(text));
    }
    // They open databases by themselves, or none.
    if plan.device.is_some() && experiment.stores == Stores::Ours {
        let text = format!(
            "{} opens no database that could be put on another device; leave --device out",
            experiment.id
        );
        return Err(Error::new(text));
    }
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let clock = Instant::now();
    let mut all = None;
    for round in 0..plan.runs.max(1) {
        let name = format!(
            "spanlith-{}-{}-{round}",
            experiment.id.to_lowercase(),
            std::process::id()
        );
        let dir = plan.dir.join(name);
        let _remove = Remove(&dir);
        let bench = Bench {
            progress,
            places: Cell::new(0),
            device: plan.device,
            ..Bench::new(plan.scale, plan.seed.wrapping_add(round), plan.stores, &dir)
        };
        let found = (experiment.run)(&bench)?;
        match &mut all {
            None => all = Some(found),
            Some(all) => all.merge(found),
        }
    }
    Ok(Outcome {
        id: experiment.id.to_string(),
        title: experiment.title.to_string(),
        document: experiment.document.to_string(),
        requirements: experiment.requirements.to_string(),
        setup: experiment.setup.to_string(),
        criterion: experiment.criterion.to_string(),
        scale: plan.scale,
        seed: plan.seed,
        runs: plan.runs.max(1),
        stores: plan.stores.iter().map(ToString::to_string).collect(),
        findings: all.unwrap_or_default(),
        environment: Environment::of(plan.dir)
            .rows()
            .iter()
            .map(|(name, value)| ((*name).to_string(), value.clone()))
            .chain(
                plan.device
                    .map(|d| ("emulated device".to_string(), d.to_string())),
            )
            .collect(),
        started,
        seconds: clock.elapsed().as_secs_f64(),
    })
}
