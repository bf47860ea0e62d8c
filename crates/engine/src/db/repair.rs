//! Collects what an [`OpenBuilder`] tells a repair before it is known which families there are.

use super::{FamilyOptions, OpenBuilder};
use crate::recovery::OpenRequest;
use spanlith_base::{Comparator, Result};
use spanlith_env::Env;
use std::path::PathBuf;

/// Where a repair finds files.
pub(crate) struct RepairPlaces {
    /// The outside world.
    pub env: Env,
    /// Directory of the database.
    pub dir: PathBuf,
    /// Directory of the logs.
    pub wal_dir: PathBuf,
    /// Directories of tables, as far as they were given.
    pub others: Vec<PathBuf>,
    /// Directories that a family has, at most.
    pub paths_count: usize,
    /// The options ask for a speed disk.
    pub asks_for_speed_disk: bool,
}

impl OpenBuilder {
    /// Returns the request to open these families, by name with the order that their tables name: named ones with their
    /// options, the others with those that `others` says. Others than these are left out.
    ///
    /// # Errors
    /// As of an open, before anything is touched.
    pub(crate) fn into_repair(
        mut self,
        families: &[(&str, &str)],
        others: &dyn Fn(&str) -> FamilyOptions,
    ) -> Result<OpenRequest> {
        let named = self.take_families();
        for (name, order) in families {
            let known = named.iter().find(|f| f.name() == *name).cloned();
            let family = known.unwrap_or_else(|| {
                let family = others(name);
                match Comparator::from_name(order) {
                    Some(order) => family.comparator(order),
                    None => family,
                }
            });
            self = self.family(family);
        }
        self.request(false)
    }
}
