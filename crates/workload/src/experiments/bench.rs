//! Describes what a run of an experiment may use: a directory, a scale, a seed, stores, and a line of progress.

use super::Result;
use crate::store::{Store, StoreName, StoreOptions};
use spanlith_env::emulated::DeviceSpec;
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Where a run says how far it is.
pub trait Progress {
    /// Step `step` of `steps` begins.
    fn step(&self, step: u64, steps: u64, what: &str);
}

/// Progress that nobody sees.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Progress for Quiet {
    fn step(&self, _step: u64, _steps: u64, _what: &str) {}
}

/// The surroundings of one run.
pub struct Bench<'a> {
    pub(super) scale: f64,
    pub(super) seed: u64,
    pub(super) stores: &'a [StoreName],
    pub(super) dir: &'a Path,
    pub(super) progress: &'a dyn Progress,
    pub(super) steps: Cell<(u64, u64)>,
    pub(super) places: Cell<u64>,
    pub(super) device: Option<DeviceSpec>,
}

impl<'a> Bench<'a> {
    /// Surroundings of a single run: `dir` is made and emptied by the run itself.
    pub fn new(scale: f64, seed: u64, stores: &'a [StoreName], dir: &'a Path) -> Self {
        Self {
            scale,
            seed,
            stores,
            dir,
            progress: &Quiet,
            steps: Cell::new((0, 0)),
            places: Cell::new(0),
            device: None,
        }
    }

    /// The factor of `--scale`.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// A number of the set-up at scale 1, scaled, but at least `least`.
    pub fn scaled(&self, at_scale_one: u64, least: u64) -> u64 {
        ((at_scale_one as f64 * self.scale) as u64).max(least)
    }

    /// Seed of one stream of random numbers; each run of an experiment has its own.
    pub fn seed(&self, stream: u64) -> u64 {
        self.seed
            .wrapping_add(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The stores to compare, in order; at least one.
    pub fn stores(&self) -> &'a [StoreName] {
        self.stores
    }

    /// Says how many steps there will be. A step is one call of [`Self::step`].
    pub fn expect(&self, steps: u64) {
        self.steps.set((0, steps));
    }

    /// Says what begins now.
    pub fn step(&self, what: &str) {
        let (step, steps) = self.steps.get();
        self.steps.set((step + 1, steps));
        self.progress.step(step + 1, steps, what);
    }

    /// An empty directory of the run, which is removed with all in it when the run is over.
    ///
    /// # Errors
    /// Of making it.
    pub fn place(&self) -> Result<PathBuf> {
        let number = self.places.get();
        self.places.set(number + 1);
        let dir = self.dir.join(format!("{number}"));
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// A new database in an empty directory.
    ///
    /// # Errors
    /// Of the directory and of opening.
    pub fn open(&self, store: &StoreName, options: &StoreOptions) -> Result<Box<dyn Store>> {
        self.reopen(store, &self.place()?, options)
    }

    /// The database in `dir`, which is made if it is missing.
    ///
    /// # Errors
    /// Of opening.
    pub fn reopen(
        &self,
        store: &StoreName,
        dir: &Path,
        options: &StoreOptions,
    ) -> Result<Box<dyn Store>> {
        let Some(device) = &self.device else {
            return Ok(store.open(dir, options)?);
        };
        let own = match options.own.as_str() {
            "" => format!("env_device={device}"),
            own => format!("{own};env_device={device}"),
        };
        let options = StoreOptions {
            own,
            ..options.clone()
        };
        Ok(store.open(dir, &options)?)
    }

    /// Closes a store and removes its files, so that the next one has the disk for itself.
    ///
    /// # Errors
    /// Of closing and removing.
    pub fn discard(&self, store: Box<dyn Store>) -> Result<()> {
        let dir = store.dir().to_path_buf();
        store.close()?;
        std::fs::remove_dir_all(dir)?;
        Ok(())
    }
}
