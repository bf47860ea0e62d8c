//! A database put together again from its files, whatever is left of CURRENT and the MANIFEST.
//!
//! All tables are read, and say of which column family they are. If a MANIFEST can be read to its end, tables that it
//! names keep their levels; without one all go to level 0, and what compactions had replaced may come to light. Logs
//! are replayed into tables as far as they can be read. A new MANIFEST then describes what there is. Nothing is deleted:
//! what cannot be read, what nothing needs, older MANIFESTs and the logs lie in `lost/` afterwards, and the report
//! names each of them.
//!
//! Everything is read and decided before anything is changed. Then, in an order that may be cut off anywhere and begun
//! again: logs get a second name in `lost/`; files are moved that an edit of the old MANIFEST made obsolete, of which the new
//! one says nothing; the new one is written and synced; CURRENT names it; what is left over is moved; the database is
//! opened, which replays the logs, and closed.

mod blobs;
mod files;
mod known;
mod logs;
mod place;
mod plan;
mod tables;

use crate::compaction::CompactRangeOptions;
use crate::core::{Engine, create_dir, family_paths, write_current};
use crate::db::{Db, FamilyOptions, OpenBuilder, RepairPlaces, compact_range};
use crate::options::{OptionsFile, STATS_FAMILY, SyncedLogDamage, WalRecoveryMode};
use crate::recovery::{self, LOST_DIR, OpenRequest};
use crate::version::{CurrentMarks, FilePaths, SPEED_PATH, filenames};
use files::Files;
use place::is_interleaved;
use plan::{Aside, FamilyPlan, NamedFamilies, Plan, Terms};
use spanlith_base::{Comparator, Error, Result};
use spanlith_env::{Env, FileSystem, IoActivity};
use spanlith_wal::LogWriter;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tables::Holes;

/// A file that a repair put into `lost/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFile {
    /// Where it lies now.
    pub path: PathBuf,
    /// Why it is no part of the database any more.
    pub why: String,
    /// Says that what it holds is missing now, as far as it is nowhere else.
    pub is_loss: bool,
}

impl From<Aside> for LostFile {
    fn from(aside: Aside) -> Self {
        let Aside {
            path, why, is_loss, ..
        } = aside;
        Self { path, why, is_loss }
    }
}

/// Describes what a repair did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Names of the column families, in the order of their ids.
    pub families: Vec<String>,
    /// Tables of the database now.
    pub tables: usize,
    /// Their bytes.
    pub table_bytes: u64,
    /// Logs that were replayed into tables.
    pub logs: usize,
    /// Files that were put aside.
    pub lost: Vec<LostFile>,
    /// Names what is missing of which no file is left: tables and blob files that others name, parts of logs.
    pub missing: Vec<String>,
    /// No MANIFEST could be read to its end, so that nothing says which of the tables are obsolete.
    pub is_without_manifest: bool,
    /// Names of families of which the MANIFEST does not fit the tables: their tables were placed as without one, and what
    /// it says was replaced may have come to light.
    pub doubted: Vec<String>,
}

/// Records of a MANIFEST that were made of tables, blob files and logs.
#[derive(Clone, Debug)]
pub struct RemadeManifest {
    /// The records.
    pub records: Vec<Vec<u8>>,
    /// Files that could not be taken, and why.
    pub left_out: Vec<String>,
}

/// Makes the records of a MANIFEST for a directory of which none can be read, and writes nothing. Tables with damaged
/// blocks are part of it. `named` are the families that the OPTIONS file lists, with the names of their orders. `None` if
/// there are neither tables nor logs.
///
/// # Errors
/// Of the file system.
pub fn remake_manifest(
    env: &Env,
    dir: &Path,
    wal_dir: &Path,
    named: &[(String, String)],
) -> Result<Option<RemadeManifest>> {
    let files = Files::find(&*env.fs, dir, wal_dir, &[])?;
    let terms = Terms {
        holes: Holes::Tolerated,
        asks_manifest: false,
    };
    let plan = Plan::make(env, dir, &files, named, terms)?;
    let mut logs = files.logs.values();
    let is_log = |path: &PathBuf| env.fs.size(path).is_ok_and(|size| size > 0);
    let is_empty = plan.families.values().all(|f| f.files.is_empty());
    if is_empty && !logs.any(is_log) {
        return Ok(None);
    }
    let lost = plan.aside.iter().filter(|a| a.is_loss);
    let left_out = lost.map(|a| {
        let name = a.path.file_name().unwrap_or_default();
        format!("{}: {}", name.to_string_lossy(), a.why)
    });
    Ok(Some(RemadeManifest {
        left_out: left_out.collect(),
        records: plan.records(),
    }))
}

impl Db {
    /// Puts the database in a directory together again, each family with the options that the newest OPTIONS file has for
    /// it. See [`OpenBuilder::repair`].
    ///
    /// # Errors
    /// As there.
    pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
        Self::builder(path).like_recorded().repair()
    }
}

impl OpenBuilder {
    /// Puts a database together again from the tables, blob files and logs that are left, and closes it. Families that
    /// were not named have the options that the newest OPTIONS file has for them, if it can be read; their names and
    /// ids come from the MANIFEST or the tables. Of a directory that is missing or empty an empty database is made, as
    /// with RocksDB. OPTIONS files stay as they are.
    ///
    /// Costs a read of all tables and logs, and the tables made of the logs are written. Nothing is deleted: what is no
    /// part of the database any more is in `lost/` afterwards. Without a MANIFEST values that had been deleted or
    /// overwritten may come to light, and all tables are in level 0.
    ///
    /// # Errors
    /// Those of the lock; `InvalidArgument` if the keys of a family are ordered by another comparator than its options
    /// have, or if the MANIFEST has tables in a fourth directory that was not named; `NotSupported` if logs or tables are
    /// on a speed disk, or if this build does not read a table; of the file system, but for bytes of tables and blob
    /// files that a device cannot read; as [`Self::open`]. Nothing is changed by most of them; after one of the open at
    /// the end the repair may be begun again.
    pub fn repair(self) -> Result<RepairReport> {
        let RepairPlaces { env, dir, .. } = self.repair_places();
        let recorded = OptionsFile::load(&env, &dir).ok();
        self.repair_with(&|name| {
            let mut all = recorded.iter().flat_map(|o| &o.families);
            let family = FamilyOptions::new(name);
            match all.find(|f| f.0 == name) {
                Some((_, options, table)) => {
                    family.options(options.clone()).table_options(table.clone())
                }
                None => family,
            }
        })
    }

    /// As [`Self::repair`]; `others` says which options families have that were not named. Their order is the one that
    /// their tables name, if this build knows it.
    ///
    /// # Errors
    /// As there.
    pub fn repair_with(self, others: &dyn Fn(&str) -> FamilyOptions) -> Result<RepairReport> {
        let places = self.repair_places();
        refuse_speed_disk(&places)?;
        self.check()?;
        let fs = places.env.fs.clone();
        create_dir(&*fs, &places.dir)?;
        if places.wal_dir != places.dir {
            create_dir(&*fs, &places.wal_dir)?;
        }
        let lock = fs.lock(&places.dir.join(filenames::LOCK_FILE))?;
        let files = Files::find(&*fs, &places.dir, &places.wal_dir, &places.others)?;
        let recorded = OptionsFile::load(&places.env, &places.dir).ok();
        let named: Vec<(String, String)> = recorded.as_ref().map_or_else(Vec::new, |o| {
            let families = o.families.iter();
            let pairs = families.map(|f| (f.0.clone(), f.1.comparator.clone()));
            pairs.collect()
        });
        let mut repair = Repair::plan(&places, files, &named)?;
        let mut request = repair.request(self, others)?;
        request.keeps_options = recorded.is_some();
        repair.settle(&request)?;
        repair.write()?;
        drop(lock);
        repair.finish(&request)
    }
}

/// A repair between reading and writing.
struct Repair<'a> {
    places: &'a RepairPlaces,
    files: Files,
    plan: Plan,
    lost: Vec<LostFile>,
}

impl<'a> Repair<'a> {
    fn plan(places: &'a RepairPlaces, files: Files, named: NamedFamilies<'_>) -> Result<Self> {
        let terms = Terms {
            holes: Holes::Refused,
            asks_manifest: true,
        };
        let plan = Plan::make(&places.env, &places.dir, &files, named, terms)?;
        if let Some(number) = plan
            .far_away
            .filter(|_| places.paths_count <= SPEED_PATH as usize)
        {
            return Err(Error::invalid_argument(format!(
                "table {number:06}.sst was in the fourth directory of tables, which is not named, or on a speed disk: name \
                 all directories (db_paths, cf_paths), or copy the tables of the speed disk into that of the database"
            ))
            .with_path(&places.dir));
        }
        Ok(Self {
            places,
            files,
            plan,
            lost: Vec::new(),
        })
    }

    fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.places.env.fs
    }

    /// How the database is opened at the end: with the families that there are, and as much of the logs as can be read.
    fn request(
        &self,
        builder: OpenBuilder,
        others: &dyn Fn(&str) -> FamilyOptions,
    ) -> Result<OpenRequest> {
        let families = self.plan.families.values();
        let families = families.filter(|f| f.name != STATS_FAMILY);
        let families: Vec<(&str, &str)> = families
            .map(|f| (f.name.as_str(), f.comparator.as_str()))
            .collect();
        let mut request = builder.into_repair(&families, others)?;
        let o = &mut request.options;
        o.create_if_missing = false;
        o.error_if_exists = false;
        o.best_efforts_recovery = false;
        o.reuse_manifest_on_open = false;
        o.avoid_flush_during_recovery = false;
        o.open_files_async = false;
        o.track_and_verify_wals = false;
        o.wal_recovery_mode = WalRecoveryMode::SkipAnyCorruptedRecords;
        o.own.synced_log_damage = SyncedLogDamage::Truncate;
        // Prepared transactions that nobody decided about stay in their logs.
        o.allow_2pc = true;
        for family in &mut request.families {
            family.options.disable_auto_compactions = true;
        }
        Ok(request)
    }

    /// Compares the families with their options: orders, and the directories of their tables.
    fn settle(&mut self, request: &OpenRequest) -> Result<()> {
        for family in self.plan.families.values_mut() {
            let Some(asked) = request.families.iter().find(|f| f.name == family.name) else {
                continue;
            };
            let order = asked.comparator.name();
            if family.comparator.is_empty() {
                family.comparator = order.to_string();
            } else if family.comparator != order && !is_stripped(family, &asked.comparator) {
                return Err(Error::invalid_argument(format!(
                    "column family '{}' is ordered by {}, its options have {order}: a repair needs the order that \
                     its tables were written in",
                    family.name, family.comparator
                )));
            }
        }
        let dirs = self.plan.families.values().map(|family| {
            let asked = request.families.iter().find(|f| f.name == family.name);
            asked.map_or_else(
                || FilePaths::one(&self.places.dir),
                |asked| family_paths(&self.places.dir, asked),
            )
        });
        let dirs: Vec<FilePaths> = dirs.collect();
        let fs = self.fs().clone();
        self.plan.find_paths(&*fs, &self.files, &dirs);
        Ok(())
    }

    /// Writes the MANIFEST, makes it current and puts aside what is left over.
    fn write(&mut self) -> Result<()> {
        let (env, dir) = (&self.places.env, &self.places.dir);
        let fs = env.fs.clone();
        let mut synced = BTreeSet::from([dir.clone()]);
        let needed = self.plan.needed_logs(&self.files);
        for path in needed.values() {
            let kept = keep(&*fs, path)?;
            let why = "its updates are in tables now".to_string();
            self.lost.push(LostFile {
                path: kept,
                why,
                is_loss: false,
            });
            synced.insert(self.places.wal_dir.clone());
        }
        let (first, rest): (Vec<Aside>, Vec<Aside>) =
            self.plan.aside.iter().cloned().partition(|a| a.goes_first);
        for file in first {
            self.set_aside(file.into(), &mut synced)?;
        }
        self.sync(&synced)?;
        let number = self.plan.take_number();
        let path = dir.join(filenames::manifest_file_name(number));
        let mut log = LogWriter::new(fs.create(&path, IoActivity::Manifest)?, 0);
        for record in self.plan.records() {
            log.add_record(&record)?;
        }
        log.sync()?;
        log.close()?;
        let open = fs.open_dir(dir)?;
        open.sync()?;
        write_current(env, dir, &*open, number, &CurrentMarks::default())?;
        let manifests = self.files.manifests.iter().filter(|&&n| n != number);
        let manifests =
            manifests.map(|&n| (dir.join(filenames::manifest_file_name(n)), "replaced"));
        let logs = self
            .files
            .logs
            .iter()
            .filter(|log| !needed.contains_key(log.0));
        let logs = logs.map(|(_, path)| (path.clone(), "no column family needs it"));
        let mut all: Vec<LostFile> = manifests
            .chain(logs)
            .map(|(path, why)| LostFile {
                path,
                why: why.to_string(),
                is_loss: false,
            })
            .collect();
        all.extend(rest.into_iter().map(LostFile::from));
        for file in all {
            self.set_aside(file, &mut synced)?;
        }
        self.sync(&synced)
    }

    /// Moves a file to `lost/`; `synced` gets its directory.
    fn set_aside(&mut self, file: LostFile, synced: &mut BTreeSet<PathBuf>) -> Result<()> {
        synced.extend(file.path.parent().map(Path::to_path_buf));
        let path = recovery::put_aside(&**self.fs(), &file.path)?;
        self.lost.push(LostFile { path, ..file });
        Ok(())
    }

    /// Makes names in directories and their `lost/` durable.
    fn sync(&self, dirs: &BTreeSet<PathBuf>) -> Result<()> {
        let fs = self.fs();
        for dir in dirs {
            let lost = dir.join(LOST_DIR);
            if fs.entry(&lost)?.is_some() {
                fs.sync_dir(&lost)?;
            }
            fs.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Opens the database, which makes tables of the logs, brings interleaved tables in order, and closes it.
    fn finish(mut self, request: &OpenRequest) -> Result<RepairReport> {
        let engine = recovery::open(request)?;
        let done = self.compact(&engine).map(|()| self.report(&engine));
        let closed = engine.close();
        let report = done?;
        closed?;
        Ok(report)
    }

    /// Compacts families in whose level 0 no order of the tables shows the newest entry of each key first.
    fn compact(&self, engine: &Engine) -> Result<()> {
        for (id, family) in &self.plan.families {
            let Some(open) = engine.families.load().get(*id).cloned() else {
                continue;
            };
            // Those that were made of the logs, too.
            let version = open.superversion.load_full().version.clone();
            let upper = version.file_iter().filter(|(level, _)| *level == 0);
            let upper: Vec<_> = upper.map(|(_, f)| f.to_new_file(0)).collect();
            if !is_interleaved(&upper, &open.comparator) {
                continue;
            }
            engine.reporter.log().warn(format_args!(
                "[{}] tables overlap in keys and sequence numbers: compacted",
                family.name
            ));
            let options = CompactRangeOptions::default();
            compact_range(engine, &open, (None, None), &options, None)?;
        }
        Ok(())
    }

    fn report(&mut self, engine: &Engine) -> RepairReport {
        let families = self.plan.families.values().map(|f| f.name.clone());
        let mut report = RepairReport {
            families: families.collect(),
            logs: self.plan.needed_logs(&self.files).len(),
            lost: std::mem::take(&mut self.lost),
            missing: std::mem::take(&mut self.plan.missing),
            doubted: std::mem::take(&mut self.plan.doubted),
            is_without_manifest: !self.plan.has_manifest,
            ..RepairReport::default()
        };
        for family in engine.state.lock().families.values() {
            for (_, file) in family.version.file_iter() {
                report.tables += 1;
                report.table_bytes += file.size;
            }
        }
        let log = engine.reporter.log();
        for file in &report.lost {
            log.warn(format_args!("{}: {}", file.path.display(), file.why));
        }
        for what in &report.missing {
            log.warn(format_args!("missing: {what}"));
        }
        for name in &report.doubted {
            log.warn(format_args!(
                "[{name}] the MANIFEST does not fit the tables: placed as without one"
            ));
        }
        log.warn(format_args!(
            "**** Repaired rocksdb {}; recovered {} files; {} bytes. Some data may have been lost. ****",
            engine.c.dir.display(),
            report.tables,
            report.table_bytes
        ));
        report
    }
}

/// Returns whether tables without timestamps are of a family whose order has them, which reads them, or the other way round.
fn is_stripped(family: &FamilyPlan, order: &Comparator) -> bool {
    let has_stripped = family
        .files
        .iter()
        .any(|f| !f.user_defined_timestamps_persisted);
    has_stripped && order.timestamp_size() > 0
}

fn refuse_speed_disk(places: &RepairPlaces) -> Result<()> {
    let RepairPlaces { env, dir, .. } = places;
    let is_there = env.fs.entry(dir)?.is_some();
    let marks = is_there
        .then(|| recovery::read_marked_current(env, dir).ok())
        .flatten()
        .map(|(_, marks)| marks)
        .unwrap_or_default();
    if marks == CurrentMarks::default() && !places.asks_for_speed_disk {
        return Ok(());
    }
    let text = "repair of a database of which a part is on a speed disk";
    Err(Error::not_supported(text).with_path(dir))
}

/// Gives a log a second name in `lost/`, by a copy where links are not possible. One that an earlier repair, which did
/// not end, gave it is enough.
fn keep(fs: &dyn FileSystem, path: &Path) -> Result<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::invalid_argument("not a file in a directory").with_path(path));
    };
    let usual = dir.join(LOST_DIR).join(name);
    if fs.entry(&usual)?.is_some() && is_equal(fs, path, &usual)? {
        return Ok(usual);
    }
    let target = recovery::free_name(fs, path)?;
    if fs.link(path, &target).is_err() {
        let bytes = fs.read_all(path, u64::MAX)?;
        let mut copy = fs.create(&target, IoActivity::Other)?;
        copy.append(&bytes)?;
        copy.sync()?;
        copy.close()?;
    }
    Ok(target)
}

fn is_equal(fs: &dyn FileSystem, a: &Path, b: &Path) -> Result<bool> {
    if fs.size(a)? != fs.size(b)? {
        return Ok(false);
    }
    let (mut a, mut b) = (fs.open_sequential(a)?, fs.open_sequential(b)?);
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let n = a.read(&mut left)?;
        let mut m = 0;
        while m < n {
            match b.read(&mut right[m..n])? {
                0 => return Ok(false),
                more => m += more,
            }
        }
        if left[..n] != right[..n] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}
