//! The suite with a speed disk: `SPANLITH_TEST_SPEED_DISK=logs` gives every database that names none a disk of its own for
//! its logs, `=tables` one that takes tables, too (docs/testing.md).
//!
//! A database in memory has its disk in the same file system, so that both lose power together; one in real files has a
//! file beside its directory. A test that is about files of logs or of tables says so in its own code by [`needs_log_files`]
//! or [`needs_table_files`]: it runs without, and the run prints and counts it.

use spanlith_env::{DeviceAccess, Env};
use spanlith_speed::{FormatOptions, Target, format_disk, read_superblock};
use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

const LOGS_BYTES: u64 = 12 << 20;
const TABLES_BYTES: u64 = 20 << 20;

/// Modules whose tests make the speed disks of their databases themselves.
const OWN_DISKS: [&str; 4] = [
    "speed::",
    "speed_faults::",
    "speed_tables::",
    "disk_tables::",
];

/// Says which files are on the disks of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// There are none.
    Files,
    /// Logs.
    Logs,
    /// Logs and tables.
    Tables,
}

static SUITE: LazyLock<Suite> =
    LazyLock::new(
        || match std::env::var("SPANLITH_TEST_SPEED_DISK").as_deref() {
            Err(_) | Ok("") => Suite::Files,
            Ok("logs") => Suite::Logs,
            Ok("tables") => Suite::Tables,
            Ok(other) => panic!("SPANLITH_TEST_SPEED_DISK={other:?}: it is logs or tables"),
        },
    );

/// Tests that ran without.
static WITHOUT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Says which the databases of this thread, which is a test, may have there.
    static HERE: Cell<Option<Suite>> = const { Cell::new(None) };
}

/// Installed before the first test.
#[used]
#[allow(
    unsafe_code,
    reason = "the harness has no place for what comes before all tests"
)]
// SAFETY: the section holds functions without arguments that run before `main`; this one allocates and sets a cell.
#[unsafe(link_section = ".init_array")]
static INSTALL: extern "C" fn() = install;

extern "C" fn install() {
    if std::env::var_os("SPANLITH_TEST_SPEED_DISK").is_some() {
        spanlith::set_open_hook(disk_of);
    }
}

/// Called after the last test.
#[used]
#[allow(
    unsafe_code,
    reason = "the harness has no place for what comes after all tests"
)]
// SAFETY: as above, for functions that run when the process ends; this one deletes files.
#[unsafe(link_section = ".fini_array")]
static CLEAN: extern "C" fn() = clean;

/// Files that are disks. They lie beside directories, which tests delete without them.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

extern "C" fn clean() {
    if std::env::var_os("KEEP_TMP").is_none() {
        let made = MADE.lock().map(|mut made| std::mem::take(&mut *made));
        for path in made.unwrap_or_default() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// This test is about logs that are files: its databases have them. `reason`: a sentence without its end.
pub fn needs_log_files(reason: &str) {
    limit(Suite::Files, reason);
}

/// This test is about tables in the directory of the database: they are there, and its logs may be on a disk.
pub fn needs_table_files(reason: &str) {
    limit(Suite::Logs, reason);
}

/// Returns whether logs are files: for what a test expects besides of those.
pub fn has_log_files() -> bool {
    HERE.get().unwrap_or(*SUITE) == Suite::Files
}

fn limit(most: Suite, reason: &str) {
    let now = HERE.get().unwrap_or(*SUITE);
    let wanted = match most {
        Suite::Files => Suite::Files,
        _ if now == Suite::Tables => Suite::Logs,
        _ => now,
    };
    if wanted == now {
        return;
    }
    HERE.set(Some(wanted));
    let thread = std::thread::current();
    // A test whose threads open databases says it in each of them, and is counted once.
    let Some(name) = thread.name() else {
        return;
    };
    let count = WITHOUT.fetch_add(1, Ordering::Relaxed) + 1;
    // Not through the macros, whose output the harness keeps to itself.
    let line = format!("speed disk: {count} without: {name}: {wanted:?} only: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The options of a database in `dir`.
fn disk_of(dir: &Path, env: &Env) -> Option<String> {
    let tables = match HERE.get().unwrap_or(*SUITE) {
        Suite::Files => return None,
        Suite::Logs => 0,
        Suite::Tables => TABLES_BYTES,
    };
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    if OWN_DISKS.iter().any(|module| name.starts_with(module)) {
        return None;
    }
    let dir = env.fs.absolute(dir);
    let path = make(&dir, env, LOGS_BYTES + tables)?;
    let is_in_memory = path.starts_with("/dev/memory");
    let path = path.to_str()?;
    let device = Target::parse(path).unwrap().open(&*env.fs, true).unwrap();
    // The database has no disk: one whose directory was real, a test has deleted by hand or moved away.
    let is_another = |owner: &str| !is_in_memory && !owner.is_empty();
    if read_superblock(&*device).map_or(true, |(block, _)| is_another(&block.owner)) {
        let device = Target::parse(path).unwrap().open(&*env.fs, false).ok()?;
        let options = FormatOptions {
            group_bytes: 64 << 10,
            tables,
            force: true,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, instance()).unwrap();
    }
    Some(format!("sd_path={path}"))
}

/// Another one for each disk, which one that is formatted again is known by.
fn instance() -> [u8; 16] {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) as u64;
    let both = u128::from(number) << 64 | u128::from(std::process::id());
    both.to_le_bytes()
}

/// The device of a database; `None` where there cannot be one.
fn make(dir: &Path, env: &Env, bytes: u64) -> Option<PathBuf> {
    let name: String = dir.to_string_lossy().replace('/', "-");
    let memory = PathBuf::from(format!("/dev/memory/{bytes}/{name}"));
    if env.fs.open_device(&memory, DeviceAccess::Read).is_ok() {
        return Some(memory);
    }
    let name = format!("{}.speed-disk", dir.file_name()?.to_str()?);
    let path = dir.with_file_name(name);
    if !path.is_file() {
        let file = std::fs::File::create(&path).ok()?;
        file.set_len(bytes).ok()?;
        MADE.lock().unwrap().push(path.clone());
    }
    env.fs
        .open_device(&path, DeviceAccess::Read)
        .is_ok()
        .then_some(path)
}
