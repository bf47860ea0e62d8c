//! Where a program runs: in memory under a virtual clock, with background jobs that run when told to;
//! or on real files with the threads of the process.

use super::setup::{MergeKind, Setup, Tuning};
use spanlith::options::{OwnDbOptions, apply_own};
use spanlith::{Comparator, Db, FamilyOptions, Result, StringAppend, UInt64Add};
use spanlith_cache::Policy;
use spanlith_env::{DeviceAccess, Env, FaultFs, FileSystem, ManualExecutor, MemFs, VirtualClock};
use spanlith_speed::{FormatOptions, format_disk};
use spanlith_table::BlockCache;
use spanlith_testkit::TempDir;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A fault plan is laid over the file system by this before each open. For planted bugs.
pub type FaultPlan = Arc<dyn Fn(&FaultFs) + Send + Sync>;

/// Directory of the database in a file system in memory.
pub const MEM_DIR: &str = "/db";

/// Directory of the logs in that of the database, if they lie apart.
pub const LOGS_DIR: &str = "logs";

/// Own options of a database in memory whose logs are on a speed disk.
pub const SPEED_DISK: &str = "sd_path=/fast/disk";

/// Own options of a database in memory with tables in a directory of a speed disk: flushes and the level at the top.
pub const SPEED_TABLES: &str = "sd_tables_path=/fast-tables;sd_placement=lad:1";

/// The same, with the logs on a speed disk, too.
pub const SPEED_BOTH: &str =
    "sd_path=/fast/disk;sd_tables_path=/fast-tables;sd_placement=lad:2;sd_tables_size=100000";

/// Logs and tables of the upper levels on a speed disk without a file system.
pub const SPEED_WHOLE: &str = "sd_path=/fast/whole;sd_placement=lad:2";

/// Bytes of such a disk for tables, so few that it is full now and then.
const WHOLE_TABLES: u64 = 512 << 10;

/// Makes a disk: 28 page groups of 64 KiB, so that logs outgrow it now and then, and `tables` bytes more.
fn make_speed_disk(fs: &MemFs, path: &str, tables: u64) {
    let path = Path::new(path);
    let options = FormatOptions {
        group_bytes: 64 << 10,
        tables,
        ..FormatOptions::default()
    };
    let made = fs
        .make_device(path, (2 << 20) + tables)
        .and_then(|()| fs.open_device(path, DeviceAccess::Read))
        .and_then(|device| format_disk(&*device, &options, *b"0123456789abcdef"));
    // Nothing else is there yet.
    made.expect("a device in memory can be formatted");
}

enum Place {
    Mem(MemFs),
    Real(TempDir),
}

/// A place for one database, and what runs there.
pub struct World {
    place: Place,
    setup: Setup,
    plan: Option<FaultPlan>,
    executor: Option<Arc<ManualExecutor>>,
    clock: Option<Arc<VirtualClock>>,
    /// Seconds that have passed, over all opens.
    passed: u64,
    opens: u64,
}

impl World {
    /// An empty place.
    pub fn new(setup: &Setup, plan: Option<FaultPlan>) -> Self {
        let place = if setup.real {
            Place::Real(TempDir::new("stress"))
        } else {
            let fs = MemFs::new();
            if setup.own.contains(SPEED_DISK) {
                make_speed_disk(&fs, "/fast/disk", 0);
            }
            if setup.own.contains(SPEED_WHOLE) {
                make_speed_disk(&fs, "/fast/whole", WHOLE_TABLES);
            }
            Place::Mem(fs)
        };
        Self {
            place,
            setup: *setup,
            plan,
            executor: None,
            clock: None,
            passed: 0,
            opens: 0,
        }
    }

    /// A place with the given files.
    pub fn on(setup: &Setup, fs: MemFs, plan: Option<FaultPlan>) -> Self {
        Self {
            place: Place::Mem(fs),
            setup: *setup,
            plan,
            executor: None,
            clock: None,
            passed: 0,
            opens: 0,
        }
    }

    /// The file system in memory, if that is where it runs.
    pub fn mem(&self) -> Option<&MemFs> {
        match &self.place {
            Place::Mem(fs) => Some(fs),
            Place::Real(_) => None,
        }
    }

    /// Goes on with another file system in memory.
    pub fn replace_mem(&mut self, fs: MemFs) {
        self.executor = None;
        self.place = Place::Mem(fs);
    }

    /// The directory of the database.
    pub fn dir(&self) -> PathBuf {
        match &self.place {
            Place::Mem(_) => PathBuf::from(MEM_DIR),
            Place::Real(temp) => temp.join("db"),
        }
    }

    /// Opens the database.
    ///
    /// # Errors
    /// Of the open.
    pub fn open(&mut self, tuning: &Tuning) -> Result<Db> {
        self.opens += 1;
        let env = match &self.place {
            Place::Mem(fs) => {
                let fs = self.with_faults(Arc::new(fs.clone()));
                let (env, executor, clock) = Env::test(fs, self.setup.world_seed ^ self.opens);
                clock.advance(Duration::from_secs(self.passed));
                (self.executor, self.clock) = (Some(executor), Some(clock));
                env
            }
            Place::Real(_) => {
                let mut env = Env::system();
                env.fs = self.with_faults(env.fs);
                env
            }
        };
        open_with(&self.setup, tuning, env, &self.dir(), false)
    }

    fn with_faults(&self, fs: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        match &self.plan {
            None => fs,
            Some(plan) => {
                let fs = FaultFs::new(fs);
                plan(&fs);
                Arc::new(fs)
            }
        }
    }

    /// Moves the clock, if it does not move by itself.
    pub fn pass(&mut self, seconds: u32) {
        self.passed += u64::from(seconds);
        if let Some(clock) = &self.clock {
            clock.advance(Duration::from_secs(seconds.into()));
        }
    }

    /// Runs up to `count` background jobs, if they do not run by themselves. Returns how many ran.
    pub fn work(&self, count: u32) -> u32 {
        let Some(executor) = &self.executor else {
            return 0;
        };
        (0..count).take_while(|_| executor.run_one()).count() as u32
    }
}

/// Opens a database with the components of `setup`.
///
/// # Errors
/// Of the open.
pub fn open_with(
    setup: &Setup,
    tuning: &Tuning,
    env: Env,
    dir: &Path,
    read_only: bool,
) -> Result<Db> {
    let mut options = tuning.db_options();
    if setup.logs_apart {
        options.wal_dir = dir.join(LOGS_DIR).to_string_lossy().into_owned();
    }
    let mut builder = Db::builder(dir)
        .env(env)
        .options(options)
        .cf_options(tuning.cf_options(setup))
        .table_options(tuning.table_options())
        .block_cache(BlockCache::new(
            tuning.cache.max(1) as usize,
            if tuning.bloom == 0 {
                Policy::Clock
            } else {
                Policy::Lru
            },
        ))
        .no_info_log();
    if !setup.own.is_empty() {
        builder = builder.set(setup.own)?;
    }
    if let Some(cache) = blob_cache(tuning) {
        builder = builder.blob_cache(cache);
    }
    if setup.reverse {
        builder = builder.comparator(Comparator::ReverseBytewise);
    }
    builder = match setup.merge {
        MergeKind::None => builder,
        MergeKind::Add => builder.merge_operator(Arc::new(UInt64Add)),
        MergeKind::Append => builder.merge_operator(Arc::new(StringAppend::new(b","))),
    };
    for family in 1..setup.families {
        builder = builder.family(family_options(setup, tuning, family));
    }
    if read_only {
        builder.open_read_only()
    } else {
        builder.open()
    }
}

fn blob_cache(tuning: &Tuning) -> Option<BlockCache> {
    let bytes = tuning.blob_cache as usize;
    (bytes > 0).then(|| BlockCache::new(bytes, Policy::Lru))
}

/// A family other than the default one.
pub fn family_options(setup: &Setup, tuning: &Tuning, family: u64) -> FamilyOptions {
    let own = tuning.of_family(family);
    let mut cf = own.cf_options(setup);
    // Families that the program makes later are not those of the open. The text was accepted there.
    let _ = apply_own(setup.own, &mut OwnDbOptions::default(), &mut cf.own);
    let mut options = FamilyOptions::new(Setup::family_name(family))
        .options(cf)
        .table_options(own.table_options());
    if let Some(cache) = blob_cache(&own) {
        options = options.blob_cache(cache);
    }
    if setup.reverse {
        options = options.comparator(Comparator::ReverseBytewise);
    }
    match setup.merge {
        MergeKind::None => options,
        MergeKind::Add => options.merge_operator(Arc::new(UInt64Add)),
        MergeKind::Append => options.merge_operator(Arc::new(StringAppend::new(b","))),
    }
}
