//! The directories a family's tables lie in (`db_paths`, `cf_paths`), and which of them a new table
//! goes to.
//!
//! Tables of a flush go to the first. A compaction's output goes to the first directory that still has
//! room for its level once all levels above it are full: sizes of levels are the targets of the options,
//! level 0 counts as much as level 1, and what no directory has room for goes to the last.
//!
//! A directory on a speed disk has the path id [`SPEED_PATH`], whatever other directories there are: it is none of the
//! user's. Which tables go there is decided table by table, by [`SpeedTables`].

use super::LevelOptions;
use super::filenames;
use spanlith_speed::SpeedTables;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory for tables, and how much of them it should take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbPath {
    /// The directory; a relative one starts at the directory of the process.
    pub dir: PathBuf,
    /// Bytes of tables it should hold; of the last directory it does not matter.
    pub target_bytes: u64,
}

impl DbPath {
    /// A directory that should take about `target_bytes` of tables.
    pub fn new(dir: impl Into<PathBuf>, target_bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            target_bytes,
        }
    }
}

/// Most directories, as in RocksDB.
pub const PATHS_MAX: usize = 4;

/// Path id of tables on a speed disk: the largest that a MANIFEST holds. Without such a directory it is an id as any
/// other.
pub const SPEED_PATH: u32 = super::edit::MAX_PATH_ID;

/// Directories by path id. Id 0 is the first; an id beyond the last means the last, as in RocksDB.
#[derive(Clone, Debug)]
pub struct FilePaths {
    paths: Arc<[DbPath]>,
    /// The directory on a speed disk.
    speed: Option<Arc<SpeedTables>>,
}

impl FilePaths {
    /// One directory.
    pub fn one(dir: &Path) -> Self {
        Self {
            paths: Arc::new([DbPath::new(dir, u64::MAX)]),
            speed: None,
        }
    }

    /// Several; `paths` is not empty.
    pub fn new(paths: Vec<DbPath>) -> Self {
        debug_assert!(!paths.is_empty());
        Self {
            paths: paths.into(),
            speed: None,
        }
    }

    /// The same, and a directory on a speed disk.
    #[must_use]
    pub fn with_speed(self, speed: Option<Arc<SpeedTables>>) -> Self {
        Self { speed, ..self }
    }

    /// The directory on a speed disk, if there is one.
    pub fn speed(&self) -> Option<&Arc<SpeedTables>> {
        self.speed.as_ref()
    }

    /// All directories: the user's by path id, then the one on a speed disk.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        let speed = self.speed.iter().map(|s| s.dir());
        self.users().chain(speed)
    }

    /// The directories that users name, by path id.
    pub fn users(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(|p| p.dir.as_path())
    }

    /// Number of directories that users name.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    /// How much each directory should hold, in bytes.
    pub fn targets(&self) -> Vec<u64> {
        self.paths.iter().map(|p| p.target_bytes).collect()
    }

    /// Directory of a path id.
    pub fn dir(&self, path_id: u32) -> &Path {
        if let Some(speed) = self.speed.as_ref().filter(|_| path_id == SPEED_PATH) {
            return speed.dir();
        }
        let at = (path_id as usize).min(self.paths.len() - 1);
        &self.paths[at].dir
    }

    /// Path of a blob file: they lie in the first directory.
    pub fn blob(&self, number: u64) -> PathBuf {
        self.dir(0).join(filenames::blob_file_name(number))
    }

    /// Path of a table.
    pub fn table(&self, number: u64, path_id: u32) -> PathBuf {
        self.dir(path_id).join(filenames::table_file_name(number))
    }
}

/// Path id of tables that a compaction writes to `level`.
pub(super) fn output_path(o: &LevelOptions, level: usize) -> u32 {
    let last = o.path_targets.len().saturating_sub(1);
    let mut path = 0;
    let mut room = o.path_targets.first().copied().unwrap_or(u64::MAX);
    let mut size = o.max_bytes_for_level_base;
    let mut at = 0;
    while path < last {
        if size > room {
            path += 1;
            room = o.path_targets[path];
            continue;
        }
        if at == level {
            break;
        }
        room -= size;
        if at > 0 {
            let further = o.max_bytes_for_level_multiplier_additional.get(at);
            let further = further.map_or(1.0, |&n| f64::from(n.max(1)));
            size = (size as f64 * o.max_bytes_for_level_multiplier * further) as u64;
        }
        at += 1;
    }
    path as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(targets: &[u64]) -> LevelOptions {
        LevelOptions {
            path_targets: targets.to_vec(),
            max_bytes_for_level_base: 100,
            max_bytes_for_level_multiplier: 10.0,
            ..LevelOptions::default()
        }
    }

    fn ids(o: &LevelOptions) -> Vec<u32> {
        (0..6).map(|level| o.output_path(level)).collect()
    }

    #[test]
    fn levels_fill_the_directories_in_order_and_the_last_takes_the_rest() {
        assert_eq!(ids(&options(&[])), [0; 6]);
        assert_eq!(ids(&options(&[1])), [0; 6]);
        // Level 0 and level 1 take 100 bytes each, level 2 takes 1000, level 3 takes 10000.
        assert_eq!(ids(&options(&[199, 1, 1])), [0, 2, 2, 2, 2, 2]);
        assert_eq!(ids(&options(&[200, 1000, 1])), [0, 0, 1, 2, 2, 2]);
        assert_eq!(ids(&options(&[200, 11_000, 1])), [0, 0, 1, 1, 2, 2]);
        assert_eq!(ids(&options(&[99, 99, 5])), [2; 6]);
        assert_eq!(ids(&options(&[u64::MAX, 1])), [0; 6]);
    }

    #[test]
    fn an_id_beyond_the_last_means_the_last() {
        let paths = FilePaths::new(vec![DbPath::new("a", 1), DbPath::new("b", 2)]);
        assert_eq!(paths.dir(7), Path::new("b"));
        assert_eq!(paths.table(5, 0), Path::new("a/000005.sst"));
        assert_eq!((paths.count(), paths.targets()), (2, vec![1, 2]));
    }
}
