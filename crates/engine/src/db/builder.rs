//! Collects what an open needs, checks it, opens.

use super::open_hook;
use super::ttl::unwrap_ttl;
use super::{Db, FamilyOptions, RepairPlaces, Secondary};
use crate::core::{Resources, Speed, SpeedSource, TableDir, Watchers};
use crate::filter::{CompactionFilter, CompactionFilterFactory};
use crate::info_log::Logger;
use crate::listener::{EventListener, Listeners};
use crate::merge::MergeOperator;
use crate::options::device::emulate;
use crate::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, OptionsFile, OwnCfOptions, OwnDbOptions, Sidecar,
    apply_own, sanitize_db, sanitize_wal_dir,
};
use crate::recovery::{self, OpenRequest, WalFilter};
use crate::version::{CurrentMarks, DbPath, PATHS_MAX, SpeedMark, filenames};
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::stats::Statistics;
use spanlith_base::{Comparator, Error, ErrorKind, Result, SubCode, WriteBufferManager};
use spanlith_env::{BlockDevice, EntryKind, Env, IoWatch, RateLimiter, SstFileManager, WatchedFs};
use spanlith_speed::{SpeedFs, SpeedTables, Target};
use spanlith_table::{BlockCache, CacheUsageOptions, TablePropertiesCollectorFactory};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to open a database. Settings are plain data; components are attached here and persisted by
/// name only.
#[must_use]
pub struct OpenBuilder {
    dir: PathBuf,
    env: Option<Env>,
    options: DbOptions,
    /// Own options by name, applied last.
    sets: Vec<String>,
    /// The first is the default family.
    families: Vec<FamilyOptions>,
    all_families: bool,
    no_info_log: bool,
    resources: Resources,
    write_prepared: bool,
    statistics: Option<Arc<Statistics>>,
    listeners: Vec<Arc<dyn EventListener>>,
    logger: Option<Arc<dyn Logger>>,
    wal_filter: Option<Arc<dyn WalFilter>>,
    speed_device: Option<(String, Arc<dyn BlockDevice>)>,
}

impl OpenBuilder {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            env: None,
            options: DbOptions::default(),
            sets: Vec::new(),
            families: vec![FamilyOptions::new("default")],
            all_families: false,
            no_info_log: false,
            resources: Resources::default(),
            write_prepared: false,
            statistics: None,
            listeners: Vec::new(),
            logger: None,
            wal_filter: None,
            speed_device: None,
        }
    }

    /// Options of the database.
    pub fn options(mut self, options: DbOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets options that RocksDB does not have, by name: `evidence=false;witness_spacing=16k`. They are those of
    /// [`own_options`](crate::options::own_options). One of the database goes before what [`Self::options`]
    /// says, one of families is set in every family of this open, before what its own options say; of
    /// several calls the last one counts.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, with the nearest one that is known, for a wrong value, and for
    /// one out of bounds.
    pub fn set(mut self, text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        apply_own(
            &text,
            &mut OwnDbOptions::default(),
            &mut OwnCfOptions::default(),
        )?;
        self.sets.push(text);
        Ok(self)
    }

    /// Options of the database that RocksDB does not have; [`Self::options`] sets them, too, and the last call
    /// counts.
    pub fn own(mut self, own: OwnDbOptions) -> Self {
        self.options.own = own;
        self
    }

    /// Applies what [`Self::set`] took; each text was accepted there.
    fn apply_sets(&mut self) -> Result<()> {
        for text in std::mem::take(&mut self.sets) {
            let mut unused = OwnCfOptions::default();
            apply_own(&text, &mut self.options.own, &mut unused)?;
            let families = std::mem::take(&mut self.families).into_iter();
            let families = families.map(|f| f.set_of_family(&text));
            self.families = families.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Creates the database if there is none.
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.options.create_if_missing = create;
        self
    }

    /// Refuses a database that exists.
    pub fn must_be_new(mut self) -> Self {
        self.options.create_if_missing = true;
        self.options.error_if_exists = true;
        self
    }

    pub(super) fn change_default(
        mut self,
        change: impl FnOnce(FamilyOptions) -> FamilyOptions,
    ) -> Self {
        let default = self.families.remove(0);
        self.families.insert(0, change(default));
        self
    }

    /// Options of the default column family.
    pub fn cf_options(self, options: CfOptions) -> Self {
        self.change_default(|f| f.options(options))
    }

    /// Options of its tables.
    pub fn table_options(self, options: BlockBasedTableOptions) -> Self {
        self.change_default(|f| f.table_options(options))
    }

    /// Order of its user keys.
    pub fn comparator(self, comparator: Comparator) -> Self {
        self.change_default(|f| f.comparator(comparator))
    }

    /// Its merge operator.
    pub fn merge_operator(self, operator: Arc<dyn MergeOperator>) -> Self {
        self.change_default(|f| f.merge_operator(operator))
    }

    /// The part of its keys that is their prefix.
    pub fn prefix_extractor(self, extractor: SliceTransform) -> Self {
        self.change_default(|f| f.prefix_extractor(extractor))
    }

    /// Its compaction filter.
    pub fn compaction_filter(self, filter: Arc<dyn CompactionFilter>) -> Self {
        self.change_default(|f| f.compaction_filter(filter))
    }

    /// Its maker of compaction filters.
    pub fn compaction_filter_factory(self, factory: Arc<dyn CompactionFilterFactory>) -> Self {
        self.change_default(|f| f.compaction_filter_factory(factory))
    }

    /// Adds a maker of collectors of properties of its tables.
    pub fn table_properties_collector(
        self,
        factory: Arc<dyn TablePropertiesCollectorFactory>,
    ) -> Self {
        self.change_default(|f| f.table_properties_collector(factory))
    }

    /// Its cache for blocks; may be shared by several families and databases.
    pub fn block_cache(self, cache: BlockCache) -> Self {
        self.change_default(|f| f.block_cache(cache))
    }

    /// Cache for values in blob files; see [`FamilyOptions::blob_cache`].
    pub fn blob_cache(self, cache: BlockCache) -> Self {
        self.change_default(|f| f.blob_cache(cache))
    }

    /// A column family to open, the default one included; the last word on a name counts. All
    /// families of a database must be named to open it for writing, unless
    /// [`Self::all_families`] is set.
    pub fn family(mut self, family: FamilyOptions) -> Self {
        match self.families.iter_mut().find(|f| f.name() == family.name()) {
            Some(f) => *f = family,
            None => self.families.push(family),
        }
        self
    }

    /// Opens families that were not named, too, with the options the directory's newest OPTIONS file
    /// has for them.
    pub fn all_families(mut self) -> Self {
        self.all_families = true;
        self
    }

    /// As [`Self::all_families`], the default family included: none was named yet.
    pub(crate) fn like_recorded(mut self) -> Self {
        self.families.clear();
        self.all_families()
    }

    /// The outside world: files, time, threads, chance.
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Limits the writes of flushes and compactions, and the reads that have a priority. May be shared
    /// by several databases.
    pub fn rate_limiter(mut self, limiter: Arc<RateLimiter>) -> Self {
        self.resources.rate_limiter = Some(limiter);
        self
    }

    /// Adds up the sizes of tables, limits them, and deletes tables at a rate. May be shared by several
    /// databases; whoever made it starts its thread ([`SstFileManager::start`]).
    pub fn sst_file_manager(mut self, manager: Arc<SstFileManager>) -> Self {
        self.resources.sst_files = Some(manager);
        self
    }

    /// One budget for the memtables of all families, and of all databases that share the manager.
    pub fn write_buffer_manager(mut self, manager: Arc<WriteBufferManager>) -> Self {
        self.resources.write_buffers = Some(manager);
        self
    }

    /// Which memory of the default family outside its block cache is charged to it.
    pub fn cache_usage(self, options: CacheUsageOptions) -> Self {
        self.change_default(|f| f.cache_usage(options))
    }

    /// Keeps what tables answer to point lookups, by key. May be a block cache as well, and may be shared
    /// by several databases. Range deletions are refused then, as in RocksDB.
    pub fn row_cache(mut self, cache: BlockCache) -> Self {
        self.resources.row_cache = Some(cache);
        self
    }

    /// Directories of the tables of families that have no own ones; at most four. No file of the
    /// database names them: they must be given whenever it is opened.
    pub fn db_paths(mut self, paths: Vec<DbPath>) -> Self {
        self.resources.paths = paths;
        self
    }

    /// Writes no `LOG` file.
    pub fn no_info_log(mut self) -> Self {
        self.no_info_log = true;
        self
    }

    /// The logs come from a transaction database with the policy write-prepared, which no file says.
    /// Sections that were committed are visible, undecided ones are not. For reading only.
    pub fn write_prepared(mut self) -> Self {
        self.write_prepared = true;
        self
    }

    /// Counts into `statistics`, which may be shared by several databases.
    pub fn statistics(mut self, statistics: Arc<Statistics>) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// Tells `listener` what happens; listeners are told in the order in which they were added.
    pub fn listener(mut self, listener: Arc<dyn EventListener>) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Hands the lines of the info log to `logger` instead of the file `LOG`.
    pub fn logger(mut self, logger: Arc<dyn Logger>) -> Self {
        self.logger = Some(logger);
        self
    }

    /// Lets `filter` decide over each batch of the logs before it is replayed.
    pub fn wal_filter(mut self, filter: Arc<dyn WalFilter>) -> Self {
        self.wal_filter = Some(filter);
        self
    }

    /// Puts the logs on a speed disk that is open: an emulated one, or one of one's own making. `name` is what CURRENT calls
    /// it; later opens need it again. A path is given as the option `sd_path`.
    pub fn speed_device(mut self, name: impl Into<String>, device: Arc<dyn BlockDevice>) -> Self {
        self.speed_device = Some((name.into(), device));
        self
    }

    /// Says what CURRENT says of speed disks, as far as it makes sense. One that is there and cannot be read is an error: what is
    /// on the disk would be taken for lost.
    fn marks(&self, env: &Env) -> Result<CurrentMarks> {
        // A path that is no directory is refused by the open itself, in RocksDB's words.
        if env.fs.entry(&self.dir)? != Some(EntryKind::Dir) {
            return Ok(CurrentMarks::default());
        }
        match recovery::read_marked_current(env, &self.dir) {
            Ok((_, marks)) => Ok(marks),
            Err(e)
                if e.kind() == ErrorKind::Io
                    && e.subcode() != Some(SubCode::PathNotFound)
                    && !self.options.best_efforts_recovery =>
            {
                Err(e)
            }
            Err(_) => Ok(CurrentMarks::default()),
        }
    }

    /// The speed disk that was asked for or that `mark` names; `env` gets a file system with its logs.
    fn speed(&self, env: &mut Env, mark: Option<&SpeedMark>) -> Result<Option<Speed>> {
        let path = &self.options.own.sd_path;
        let source = match &self.speed_device {
            Some((name, device)) => Some(SpeedSource::Device(name.clone(), device.clone())),
            None if path.is_empty() => None,
            None => Some(SpeedSource::Path(path.clone())),
        };
        if let Some(source) = &source {
            Target::parse(source.target())?;
            if source.target().contains('\n') {
                return Err(Error::invalid_argument("sd_path with a line feed"));
            }
        }
        match (&source, mark) {
            (None, None) => return Ok(None),
            // Refused before anything is made.
            (Some(SpeedSource::Path(path)), None) => {
                let device = Target::parse(path)?.open(&*env.fs, true)?;
                spanlith_speed::read_superblock(&*device)?;
            }
            _ => {}
        }
        let wal_dir = match self.options.wal_dir.as_str() {
            "" => self.dir.clone(),
            other => PathBuf::from(other),
        };
        let fs = Arc::new(SpeedFs::new(env.fs.clone(), &wal_dir));
        env.fs = fs.clone();
        Ok(Some(Speed {
            fs,
            source,
            mark: Arc::default(),
        }))
    }

    /// The directory of tables on a speed disk that was asked for, that the disk of the logs has itself, or that CURRENT names.
    fn tables(
        &self,
        env: &Env,
        read_only: bool,
        marks: &CurrentMarks,
        speed: Option<&Speed>,
    ) -> Result<Option<TableDir>> {
        let asked = &self.options.own.sd_tables_path;
        let source = speed.and_then(|s| s.source.as_ref());
        let fs = speed.map_or(&env.fs, |s| s.fs.below());
        // A disk that the logs are leaving is nobody's in a moment.
        let logs = marks.logs.as_ref().filter(|mark| !mark.is_leaving);
        let on_disk = recovery::tables_on_disk(&**fs, source, logs);
        let mark = marks.tables.as_ref().filter(|mark| !mark.is_leaving);
        let dir = match (asked.as_str(), mark, on_disk) {
            ("", None, None) => return Ok(None),
            // A database without one is read as it is.
            (_, None, _) if read_only => return Ok(None),
            // The disk may have another name by now.
            ("", Some(_), Some(dir)) if recovery::are_tables_on_disk(&**fs, marks) => dir,
            ("", Some(mark), _) => PathBuf::from(&mark.dir),
            // Nobody asked, and CURRENT would say it in vain.
            ("", None, Some(_)) if self.options.best_efforts_recovery => return Ok(None),
            ("", None, Some(dir)) => dir,
            (asked, ..) => fs.absolute(Path::new(asked)),
        };
        let counts = self.families.iter().map(|f| f.own_paths().len());
        let count = counts.fold(self.resources.paths.len(), usize::max);
        let mut homes = vec![self.dir.clone()];
        if !self.options.wal_dir.is_empty() {
            homes.push(PathBuf::from(&self.options.wal_dir));
        }
        let of_families = self.families.iter().flat_map(FamilyOptions::own_paths);
        let paths = self.resources.paths.iter().chain(of_families);
        homes.extend(paths.map(|p| p.dir.clone()));
        recovery::check_apart(&*env.fs, &dir, &homes, count)?;
        Ok(Some(TableDir {
            state: Arc::new(SpeedTables::new(&dir, env.clock.clone())),
            mark: Arc::default(),
        }))
    }

    /// Reports invalid and unsupported options, before anything is touched.
    ///
    /// # Errors
    /// `NotSupported` with the names of all options whose feature does not exist yet.
    pub fn check(&self) -> Result<()> {
        // In RocksDB's order, which programs see by the first error.
        self.families
            .iter()
            .try_for_each(|f| f.check_values(&self.options))?;
        check_files(&self.options, &self.resources)?;
        let o = &self.options;
        let contradictions = [
            (
                o.keep_log_file_num == 0,
                "keep_log_file_num must be greater than 0",
            ),
            (
                o.unordered_write && !o.allow_concurrent_memtable_write,
                "unordered_write is incompatible with !allow_concurrent_memtable_write",
            ),
            (
                o.unordered_write && o.enable_pipelined_write,
                "unordered_write is incompatible with enable_pipelined_write",
            ),
            (
                o.atomic_flush && o.enable_pipelined_write,
                "atomic_flush is incompatible with enable_pipelined_write",
            ),
            (
                o.open_files_async && !o.skip_stats_update_on_db_open,
                "open_files_async requires skip_stats_update_on_db_open = true.",
            ),
        ];
        if let Some((_, text)) = contradictions.iter().find(|c| c.0) {
            return Err(Error::invalid_argument(*text));
        }
        o.check_values()?;
        if !o.write_dbid_to_manifest && !o.write_identity_file {
            return Err(Error::invalid_argument(
                "write_dbid_to_manifest and write_identity_file cannot both be false",
            ));
        }
        self.families
            .iter()
            .try_for_each(|f| f.check_supported(&self.options))
    }

    /// As [`Self::check`], and what an open for writing asks besides.
    ///
    /// # Errors
    /// As there.
    pub fn check_for_writing(&self) -> Result<()> {
        self.families
            .iter()
            .try_for_each(FamilyOptions::check_table)?;
        self.check()
    }

    /// Adds the families of the directory that were not named.
    fn add_families(&mut self, env: &Env) -> Result<()> {
        let current = self.dir.join(filenames::CURRENT_FILE);
        if env.fs.entry(&self.dir)?.is_none() || env.fs.entry(&current)?.is_none() {
            return Ok(());
        }
        let names = recovery::list_families(env, &self.dir)?;
        let has_times = self.families.iter().any(|f| f.ttl.is_some());
        // Without an OPTIONS file, or with one of another release, the defaults have to do.
        let persisted = OptionsFile::load(env, &self.dir).ok();
        let own = Sidecar::load(env, &self.dir).ok().flatten();
        for name in names {
            if self.families.iter().any(|f| f.name() == name) {
                continue;
            }
            let mut family = FamilyOptions::new(&name);
            let mut known = persisted.iter().flat_map(|p| &p.families);
            if let Some((_, options, table)) = known.find(|f| f.0 == name) {
                let mut options = options.clone();
                options.own = own.as_ref().map(|o| o.family(&name)).unwrap_or_default();
                if let Some(ttl) = unwrap_ttl(&mut options).filter(|_| has_times) {
                    family = family.with_ttl(ttl);
                }
                family = family.options(options);
                family = family.table_options(table.clone());
            }
            self.families.push(family);
        }
        Ok(())
    }

    /// Gives the families away that were named so far, and names none.
    pub(super) fn take_families(&mut self) -> Vec<FamilyOptions> {
        self.all_families = false;
        std::mem::take(&mut self.families)
    }

    /// Returns whether logs may stay that an open has replayed.
    pub(super) fn has_logs_kept(&self) -> bool {
        self.options.avoid_flush_during_recovery
    }

    /// Where files of the database may be.
    pub(crate) fn repair_places(&self) -> RepairPlaces {
        let paths = &self.resources.paths;
        let mut options = self.options.clone();
        sanitize_wal_dir(
            &mut options,
            &self.dir,
            paths.first().map(|p| p.dir.as_path()),
        );
        let mut own = options.own.clone();
        let mut unused = OwnCfOptions::default();
        for text in &self.sets {
            // Each was accepted by `set`.
            let _ = apply_own(text, &mut own, &mut unused);
        }
        let of_families = self.families.iter().flat_map(FamilyOptions::own_paths);
        let counts = self.families.iter().map(|f| f.own_paths().len());
        RepairPlaces {
            paths_count: counts.fold(paths.len(), usize::max),
            env: self.env.clone().unwrap_or_else(Env::system),
            wal_dir: match options.wal_dir.as_str() {
                "" => self.dir.clone(),
                other => PathBuf::from(other),
            },
            others: paths
                .iter()
                .chain(of_families)
                .map(|p| p.dir.clone())
                .collect(),
            asks_for_speed_disk: self.speed_device.is_some()
                || !own.sd_path.is_empty()
                || !own.sd_tables_path.is_empty(),
            dir: self.dir.clone(),
        }
    }

    pub(super) fn request(mut self, read_only: bool) -> Result<OpenRequest> {
        let mut env = self.env.take().unwrap_or_else(Env::system);
        if self.all_families {
            self.add_families(&env)?;
            if !self.families.iter().any(|f| f.name() == "default") {
                self.families.insert(0, FamilyOptions::new("default"));
            }
        }
        self.apply_sets()?;
        let own = &self.options.own;
        emulate(&mut env, own.env_device, own.sd_device);
        let first_path = self.resources.paths.first().map(|p| p.dir.as_path());
        sanitize_wal_dir(&mut self.options, &self.dir, first_path);
        let marks = self.marks(&env)?;
        let speed = self.speed(&mut env, marks.logs.as_ref())?;
        self.resources.tables = self.tables(&env, read_only, &marks, speed.as_ref())?;
        let mut watch = None;
        if self.options.own.disk_stall_threshold > 0 && !read_only {
            let calls = Arc::new(IoWatch::default());
            env.fs = Arc::new(WatchedFs::new(env.fs, calls.clone()));
            watch = Some(calls);
        }
        let watchers = Watchers::of(&mut env, watch);
        if self.write_prepared && !read_only {
            return Err(Error::not_supported(
                "the policy write-prepared, except for reading only",
            ));
        }
        if read_only {
            // Options that concern writers alone are not looked at, as in RocksDB.
            let mut families = self.families.iter_mut();
            families.try_for_each(|f| f.prepare_for_reading(&self.options))?;
        } else {
            self.check()?;
        }
        sanitize_db(&mut self.options, env.fs.open_files_max());
        self.resources.complete(&env, &mut self.options);
        if speed.is_some() {
            // Its page groups are written again as they are.
            self.options.recycle_log_file_num = 0;
        }
        let resources = &self.resources;
        let has_times = self.families.iter().any(|f| f.ttl.is_some());
        let clock = has_times.then_some(&env.clock);
        let families = self.families.into_iter();
        let families = families.map(|f| f.into_request(resources, clock));
        let families = families.collect();
        Ok(OpenRequest {
            dir: self.dir,
            env,
            options: self.options,
            families,
            resources: self.resources,
            watchers,
            speed,
            read_only,
            secondary: None,
            before: None,
            no_info_log: self.no_info_log || read_only,
            keeps_options: false,
            write_prepared: self.write_prepared,
            statistics: self.statistics,
            listeners: Arc::new(Listeners::new(self.listeners)),
            logger: self.logger,
            wal_filter: self.wal_filter,
        })
    }

    /// Adds what a test-suite has for databases that name no speed disk.
    fn ask_hook(&mut self) {
        let own = &self.options.own;
        let asks = self.speed_device.is_some()
            || !own.sd_path.is_empty()
            || !own.sd_tables_path.is_empty()
            || self.sets.iter().any(|text| text.contains("sd_"));
        if asks || !open_hook::is_set() {
            return;
        }
        let env = self.env.get_or_insert_with(Env::system).clone();
        let is_missing = |e: &Error| e.subcode() == Some(SubCode::PathNotFound);
        match recovery::read_marked_current(&env, &self.dir) {
            Ok((_, marks)) if marks.logs.is_none() => {}
            Err(e) if is_missing(&e) => {}
            _ => return,
        }
        // Before what the test sets.
        if let Some(text) = open_hook::asked(&self.dir, &env) {
            self.sets.insert(0, text);
        }
    }

    /// Opens for reading and writing.
    ///
    /// # Errors
    /// With RocksDB's kind and text before the colon: `Invalid argument` (missing, exists, wrong
    /// comparator, families left out), `IO error` (directory, lock), `Corruption` (with file and
    /// offset), `Not implemented` (an option or a feature found in the directory, by name).
    pub fn open(mut self) -> Result<Db> {
        self.ask_hook();
        self.families
            .iter()
            .try_for_each(FamilyOptions::check_table)?;
        let engine = recovery::open(&self.request(false)?)?;
        let no_reports = DbOptions::new()
            .stats_dump_period_sec(0u32)
            .stats_persist_period_sec(0u32);
        let now = engine.options().to_arc();
        let db = Db::from_engine(engine);
        db.prepare_stats_family(&now)?;
        db.engine().start_reports(&no_reports, &now);
        Ok(db)
    }

    /// Opens for reading: no LOCK, nothing on disk changes; logs are replayed into memory.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_read_only(self) -> Result<Db> {
        Ok(Db::from_engine(recovery::open(&self.request(true)?)?))
    }

    /// Opens for reading beside a process that writes, and follows it where [`Secondary::catch_up`] is called.
    /// `dir` is made if it is missing and takes the info log; in the database's directory nothing changes. All
    /// tables stay open (`max_open_files` is taken for -1), so that what the writer deletes can be read until the
    /// next call.
    ///
    /// # Errors
    /// As [`Self::open`]; of making `dir`.
    pub fn open_secondary(mut self, dir: impl Into<PathBuf>) -> Result<Secondary> {
        let wants_log = !self.no_info_log;
        self.options.max_open_files = -1;
        let mut request = self.request(true)?;
        if request.speed.is_some() {
            let text = "following a database whose logs are on a speed disk";
            return Err(Error::not_supported(text).with_path(&request.dir));
        }
        request.no_info_log = !wants_log;
        request.secondary = Some(dir.into());
        Secondary::open(request)
    }
}

/// Refuses what RocksDB refuses about files.
fn check_files(o: &DbOptions, resources: &Resources) -> Result<()> {
    if resources.paths.len() > PATHS_MAX {
        let text = "More than four DB paths are not supported yet. ";
        return Err(Error::not_supported(text));
    }
    let what = if o.allow_mmap_reads && o.use_direct_reads {
        "If memory mapped reads (allow_mmap_reads) are enabled then direct I/O reads \
         (use_direct_reads) must be disabled. "
    } else if o.allow_mmap_writes && o.use_direct_io_for_flush_and_compaction {
        "If memory mapped writes (allow_mmap_writes) are enabled then direct I/O writes \
         (use_direct_io_for_flush_and_compaction) must be disabled. "
    } else {
        return Ok(());
    };
    Err(Error::not_supported(what))
}
