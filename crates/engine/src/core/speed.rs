//! The speed disk of a database: which one it is, the directory of tables on it, and what CURRENT says about both.

use super::{Family, Lsm};
use crate::picker::CompactionPlan;
use crate::version::{FilePaths, SPEED_PATH, SpeedMark, TablesMark, Version, filenames};
use spanlith_env::BlockDevice;
use spanlith_speed::{NewTable, SpeedFs, SpeedTables, SpeedUsage, TableBytes, TablesOptions};
use std::sync::{Arc, OnceLock};

/// A speed disk that somebody asks for.
#[derive(Clone)]
pub enum SpeedSource {
    /// A device, a file or a part of one, as [`spanlith_speed::Target`] reads it.
    Path(String),
    /// An open device, under a name.
    Device(String, Arc<dyn BlockDevice>),
}

impl std::fmt::Debug for SpeedSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.target())
    }
}

impl SpeedSource {
    /// Returns what it is called.
    pub fn target(&self) -> &str {
        let (Self::Path(target) | Self::Device(target, _)) = self;
        target
    }
}

/// The directory on a speed disk that has tables of a database.
#[derive(Clone, Debug)]
pub(crate) struct TableDir {
    /// The directory.
    pub state: Arc<SpeedTables>,
    /// Says what CURRENT says as long as the database is open.
    pub mark: Arc<OnceLock<TablesMark>>,
}

/// Describes what a database has of a speed disk.
#[derive(Clone)]
pub(crate) struct Speed {
    /// The file system with its logs, once the disk is attached.
    pub fs: Arc<SpeedFs>,
    /// The disk that was asked for; `None`: the one that CURRENT names.
    pub source: Option<SpeedSource>,
    /// Says what CURRENT says as long as the database is open.
    pub mark: Arc<OnceLock<SpeedMark>>,
}

impl Speed {
    /// Figures of the disk, if one is attached.
    pub fn usage(&self) -> Option<SpeedUsage> {
        self.fs.disk().map(|disk| disk.usage())
    }

    /// Returns whether more than three quarters of the page groups are taken.
    pub fn is_tight(&self) -> bool {
        self.usage().is_some_and(|u| u.free_groups < u.groups / 4)
    }
}

impl TableDir {
    /// Path id of the table `number` that goes to `level` of `family`: that of the directory on a speed disk, or
    /// `otherwise`. Requires: no lock.
    fn place(&self, lsm: &Lsm, family: &Family, table: NewTable, otherwise: u32) -> u32 {
        let options = self.options(lsm);
        // Not knowing is no reason to go elsewhere: the write says so.
        let free = lsm.c.env.fs.free_space(self.state.dir());
        let free = free.unwrap_or(u64::MAX);
        if self.state.is_due(&options)
            && let Some(why) = self.state.look(&options, self.bytes(lsm), free)
        {
            let levels = self.state.pointer().levels();
            let log = lsm.reporter.log();
            log.info(format_args!(
                "speed disk: flushes and {levels:.2} levels of tables ({why:?})"
            ));
        }
        let is_of_family = family.cache.paths.speed().is_some();
        match is_of_family && self.state.takes(&options, &table, free) {
            true => SPEED_PATH,
            false => otherwise,
        }
    }

    fn options(&self, lsm: &Lsm) -> TablesOptions {
        let options = lsm.options();
        let speed = lsm.c.speed.as_ref();
        let is_disk = speed.is_some_and(|s| s.fs.tables() == Some(self.state.dir()));
        let spare = match is_disk {
            // Nothing but tables is there, and what finds no room goes elsewhere.
            true => 0,
            false => super::min_free_bytes(&options, &lsm.families.load()),
        };
        TablesOptions {
            policy: options.own.sd_placement.0,
            size: options.own.sd_tables_size,
            bandwidth: options.own.sd_tables_bandwidth,
            spare,
        }
    }

    /// Bytes of all tables, and of those that flushes may write next; what became of the tables that were let in; how long
    /// writers have waited.
    fn bytes(&self, lsm: &Lsm) -> TableBytes {
        let begun = self.state.begun();
        let mut bytes = TableBytes {
            writes: lsm.counters.writes.get(),
            held_nanos: lsm.counters.stall_micros.get().saturating_mul(1000),
            ..TableBytes::default()
        };
        for family in lsm.families.load_full().iter() {
            let superversion = family.superversion.load_full();
            let version = &superversion.version;
            let most = version.num_levels().max(bytes.levels.len());
            bytes.levels.resize(most, 0);
            for (level, file) in version.file_iter() {
                if let Some(of_level) = bytes.levels.get_mut(rank(version, level) as usize) {
                    *of_level = of_level.saturating_add(file.size);
                }
                if file.path_id == SPEED_PATH {
                    bytes.there = bytes.there.saturating_add(file.size);
                    if begun.contains(&file.number) {
                        bytes.installed.push(file.number);
                    }
                }
            }
            let buffer = superversion.settings.options.write_buffer_size;
            bytes.reserved = bytes.reserved.saturating_add(buffer.saturating_mul(2));
        }
        let is_gone = |number: &u64| {
            let path = self.state.dir().join(filenames::table_file_name(*number));
            // Not knowing keeps its room.
            matches!(lsm.c.env.fs.entry(&path), Ok(None))
        };
        let rest = begun.into_iter().filter(|n| !bytes.installed.contains(n));
        bytes.gone = rest.filter(is_gone).collect();
        bytes
    }

    /// The figures as text, a line each.
    pub(crate) fn text(&self) -> String {
        let u = self.state.usage();
        format!(
            "levels={}\nused={}\ncapacity={}\nread={}\nwritten={}\nwaited-nanos={}\nrefused={}\n",
            u.levels, u.used, u.capacity, u.read, u.written, u.waited, u.refused
        )
    }
}

/// A level's place among those that have tables, counted from the top: with levels of dynamic size the second may be
/// the last.
fn rank(version: &Version, level: usize) -> u32 {
    let above = (1..level).filter(|&l| version.num_files(l) > 0).count();
    let rank = above + usize::from(level > 0);
    u32::try_from(rank).unwrap_or(u32::MAX)
}

/// Path id of the table that a flush writes.
pub(crate) fn path_of_flush(lsm: &Lsm, family: &Family, number: u64, bytes: u64) -> u32 {
    let table = NewTable {
        rank: 0,
        number,
        is_flush: true,
        bytes,
    };
    let tables = lsm.c.resources.tables.as_ref();
    tables.map_or(0, |t| t.place(lsm, family, table, 0))
}

/// Path id of a table that a compaction writes to `level`; without a speed disk `otherwise`.
pub(crate) fn path_of_output(
    lsm: &Lsm,
    family: &Family,
    (level, number): (usize, u64),
    bytes: u64,
    otherwise: u32,
) -> u32 {
    let Some(tables) = &lsm.c.resources.tables else {
        return otherwise;
    };
    let table = NewTable {
        rank: rank(&family.superversion.load().version, level),
        number,
        is_flush: false,
        bytes,
    };
    tables.place(lsm, family, table, otherwise)
}

/// A move changes no place. Tables on the speed disk that come to a level which is not there are written anew instead.
pub(crate) fn settle_move(version: &Version, paths: &FilePaths, plan: &mut CompactionPlan) {
    let Some(speed) = paths.speed().filter(|_| plan.is_trivial_move) else {
        return;
    };
    let leaves = !speed.keeps(rank(version, plan.output_level));
    if leaves && plan.input_files().any(|f| f.path_id == SPEED_PATH) {
        plan.is_trivial_move = false;
    }
}
