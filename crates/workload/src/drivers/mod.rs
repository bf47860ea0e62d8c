//! Drivers: loads that run on any store behind [`Store`](crate::store::Store).
//!
//! A driver is one file with one constant and one function, and one row of [`DRIVERS`]. [`settings`] reads its
//! parameters, [`load`] runs its clients on threads, in a closed loop or at intended start times, and [`Phase`] is what
//! came out. Operations follow from the seed; on one thread so does their order.

mod burst;
mod linkbench;
pub mod load;
mod logger;
mod mixed;
mod mixgraph;
mod payload;
mod phase;
mod process;
mod raw;
mod reference;
pub mod settings;
mod sweep;
mod tpcc;
mod two_phase;
mod ycsb;

pub use load::{Call, Client, Load};
pub use phase::{Part, Phase, Verdict};
pub use process::Usage;
pub use settings::{Parameter, Settings};

use crate::store::{Error, Result, Store, StoreName, StoreOptions};
use std::path::Path;

/// Describes what checks the data of a driver.
pub type Checked = fn(&Drive<'_>) -> Result<Vec<Verdict>>;

/// A load by its name.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Its name on the command line.
    pub name: &'static str,
    /// Says what it does, in a line.
    pub title: &'static str,
    /// Its parameters beside the common ones.
    pub parameters: &'static [Parameter],
    /// Families that it needs beside the default one.
    pub families: &'static [&'static str],
    /// Says whether it needs transactions.
    pub transactions: bool,
    /// Runs it on an empty store, or goes on with one that it loaded before, if [`Self::check`] is there.
    pub run: fn(&Drive<'_>) -> Result<Vec<Phase>>,
    /// Says what must hold of its data at any time, after a kill as well; `None` if nothing is known.
    pub check: Option<Checked>,
}

/// Describes what a driver's function gets.
pub struct Drive<'a> {
    /// The store, empty or loaded.
    pub store: &'a dyn Store,
    /// Its parameters.
    pub settings: &'a Settings,
    /// Says whether the store was loaded by an earlier run, so that only the measured part is left.
    pub is_loaded: bool,
    /// Called when the data set is there.
    pub loaded: &'a (dyn Fn() + Sync),
}

impl Drive<'_> {
    /// Where a run begins to number what it adds: one that goes on with another seed has numbers of its own.
    fn first_number(&self) -> Result<u64> {
        match self.is_loaded {
            true => Ok((self.settings.seed()? & u64::from(u32::MAX)) << 32),
            false => Ok(0),
        }
    }
}

/// All drivers, in the order in which lists show them.
pub const DRIVERS: &[Driver] = &[
    mixgraph::DRIVER,
    ycsb::DRIVER,
    linkbench::DRIVER,
    tpcc::DRIVER,
    reference::DRIVER,
    mixed::DRIVER,
    payload::DRIVER,
    burst::DRIVER,
    sweep::DRIVER,
    two_phase::DRIVER,
    raw::DRIVER,
    logger::DRIVER,
];

/// The driver of a name.
pub fn find(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|d| d.name == name)
}

impl Driver {
    /// Opens a store in an empty directory, runs the driver, and closes the store.
    ///
    /// # Errors
    /// Of the store. A directory that is not empty is refused.
    pub fn drive(
        &self,
        name: &StoreName,
        dir: &Path,
        options: &StoreOptions,
        settings: &Settings,
    ) -> Result<(String, Vec<Phase>)> {
        if std::fs::read_dir(dir).is_ok_and(|mut d| d.next().is_some()) {
            let text = format!(
                "{} is not empty: a driver begins with a new store",
                dir.display()
            );
            return Err(Error::new(self.name, text));
        }
        self.open_and_run(name, dir, options, settings, false, &|| {})
    }

    /// The same on a store that an earlier run loaded, if the directory is not empty. Says when the data set is there.
    ///
    /// # Errors
    /// Of the store. A driver without [`Self::check`] is refused.
    pub fn go_on(
        &self,
        name: &StoreName,
        dir: &Path,
        options: &StoreOptions,
        settings: &Settings,
        loaded: &(dyn Fn() + Sync),
    ) -> Result<(String, Vec<Phase>)> {
        self.checked()?;
        let is_loaded = std::fs::read_dir(dir).is_ok_and(|mut d| d.next().is_some());
        self.open_and_run(name, dir, options, settings, is_loaded, loaded)
    }

    /// Opens a store that the driver loaded, and looks at whether everything holds that must.
    ///
    /// # Errors
    /// Of the store. A driver that knows nothing that must hold is refused.
    pub fn verify(
        &self,
        name: &StoreName,
        dir: &Path,
        options: &StoreOptions,
        settings: &Settings,
    ) -> Result<(String, Vec<Verdict>)> {
        let check = self.checked()?;
        let store = name.open(dir, &self.options(options))?;
        let label = store.label().to_string();
        let verdicts = check(&Drive {
            store: store.as_ref(),
            settings,
            is_loaded: true,
            loaded: &|| {},
        })?;
        store.close()?;
        Ok((label, verdicts))
    }

    /// Opens a store that the driver loaded, shows it, and closes it.
    ///
    /// # Errors
    /// Of the store; of `show`.
    pub fn show<T>(
        &self,
        name: &StoreName,
        dir: &Path,
        options: &StoreOptions,
        show: impl FnOnce(&dyn Store) -> Result<T>,
    ) -> Result<T> {
        let store = name.open(dir, &self.options(options))?;
        let shown = show(store.as_ref())?;
        store.close()?;
        Ok(shown)
    }

    fn checked(&self) -> Result<Checked> {
        self.check.ok_or_else(|| {
            let names = DRIVERS.iter().filter(|d| d.check.is_some()).map(|d| d.name);
            let names: Vec<&str> = names.collect();
            let text = format!(
                "has no conditions to check after a kill: {}",
                names.join(" and ") + " have"
            );
            Error::new(self.name, text)
        })
    }

    fn options(&self, options: &StoreOptions) -> StoreOptions {
        StoreOptions {
            families: self.families.iter().map(ToString::to_string).collect(),
            transactions: self.transactions,
            ..options.clone()
        }
    }

    fn open_and_run(
        &self,
        name: &StoreName,
        dir: &Path,
        options: &StoreOptions,
        settings: &Settings,
        is_loaded: bool,
        loaded: &(dyn Fn() + Sync),
    ) -> Result<(String, Vec<Phase>)> {
        let store = name.open(dir, &self.options(options))?;
        let label = store.label().to_string();
        let drive = Drive {
            store: store.as_ref(),
            settings,
            is_loaded,
            loaded,
        };
        let phases = (self.run)(&drive)?;
        store.close()?;
        Ok((label, phases))
    }
}

#[cfg(test)]
mod tests;
