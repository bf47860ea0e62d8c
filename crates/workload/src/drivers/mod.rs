//! Drivers: loads that run on any store behind [`Store`](crate::store::Store).
//!
//! A driver is one file with one constant and one function, and one row of [`DRIVERS`]. [`settings`] reads its
//! parameters, [`load`] runs its clients on threads, in a closed loop or at intended start times, and [`Phase`] is what
//! came out. Operations follow from the seed; on one thread so does their order.

mod burst;
mod linkbench;
pub mod load;
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

/// A load by its name.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub title: &'static str,
    /// Its parameters beside the common ones.
    pub parameters: &'static [Parameter],
    /// Families that it needs beside the default one.
    pub families: &'static [&'static str],
    /// Whether it needs transactions.
    pub transactions: bool,
    /// Runs it on an empty store.
    pub run: fn(&Drive<'_>) -> Result<Vec<Phase>>,
}

/// What a driver's function gets.
pub struct Drive<'a> {
    /// The store, empty.
    pub store: &'a dyn Store,
    /// Its parameters.
    pub settings: &'a Settings,
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
        let options = StoreOptions {
            families: self.families.iter().map(ToString::to_string).collect(),
            transactions: self.transactions,
            ..options.clone()
        };
        let store = name.open(dir, &options)?;
        let label = store.label().to_string();
        let drive = Drive {
            store: store.as_ref(),
            settings,
        };
        let phases = (self.run)(&drive)?;
        store.close()?;
        Ok((label, phases))
    }
}

#[cfg(test)]
mod tests;
