//! The files that a repair finds, by kind.

use crate::version::{FileKind, parse_file_name};
use spanlith_base::Result;
use spanlith_env::FileSystem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files in the directories of a database.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Tables by number: where they lie. The first of two of one number counts.
    pub tables: BTreeMap<u64, PathBuf>,
    /// Blob files by number.
    pub blobs: BTreeMap<u64, PathBuf>,
    /// Logs by number.
    pub logs: BTreeMap<u64, PathBuf>,
    /// Numbers of the MANIFESTs.
    pub manifests: BTreeSet<u64>,
    /// Highest number of any file; 0 if there is none.
    pub highest: u64,
    /// Tables and blob files whose numbers others have.
    pub doubles: Vec<PathBuf>,
}

impl Files {
    /// Lists the directory of the database, that of its logs, and further ones with tables and blob files. One
    /// that is missing holds nothing.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn find(
        fs: &dyn FileSystem,
        dir: &Path,
        wal_dir: &Path,
        others: &[PathBuf],
    ) -> Result<Self> {
        let mut found = Self::default();
        let mut listed = BTreeSet::new();
        let further = others.iter().map(PathBuf::as_path);
        for place in [dir, wal_dir].into_iter().chain(further) {
            if !listed.insert(fs.absolute(place)) || fs.entry(place)?.is_none() {
                continue;
            }
            for name in fs.list(place)? {
                found.take(&name, place, dir, wal_dir);
            }
        }
        Ok(found)
    }

    fn take(&mut self, name: &str, place: &Path, dir: &Path, wal_dir: &Path) {
        let Some(kind) = parse_file_name(name) else {
            return;
        };
        let path = place.join(name);
        match kind {
            FileKind::Table(number) => keep(&mut self.tables, number, path, &mut self.doubles),
            FileKind::Blob(number) => keep(&mut self.blobs, number, path, &mut self.doubles),
            FileKind::Log(number) if place == wal_dir => {
                self.logs.insert(number, path);
            }
            FileKind::Manifest(number) if place == dir => {
                self.manifests.insert(number);
            }
            _ if place != dir => return,
            _ => {}
        }
        self.highest = self.highest.max(kind.number().unwrap_or(0));
    }
}

fn keep(map: &mut BTreeMap<u64, PathBuf>, number: u64, path: PathBuf, doubles: &mut Vec<PathBuf>) {
    match map.entry(number) {
        std::collections::btree_map::Entry::Vacant(free) => {
            free.insert(path);
        }
        std::collections::btree_map::Entry::Occupied(_) => doubles.push(path),
    }
}
