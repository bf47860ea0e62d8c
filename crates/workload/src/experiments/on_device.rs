//! Worlds for experiments on emulated devices: one in memory under a virtual clock, in which only devices take time, and
//! the real one, in which calls wait for them.

use super::{Error, Result};
use spanlith_env::emulated::{DeviceFs, DeviceSpec, Emulator};
use spanlith_env::{Clock, Env, FileSystem, MemFs, VirtualClock, create_device_file};
use spanlith_speed::{FormatOptions, Target, format_disk};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Where the log of a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogPlace {
    /// With the tables.
    WithTables,
    /// In files on another device.
    Files(&'static str),
    /// On a speed disk on another device.
    SpeedDisk(&'static str),
}

/// Operations by second of `threads` clients that run for `millis`: each waits at the barrier once it is ready, stops when it
/// is told to, and counts what it has done.
///
/// # Errors
/// Of a client.
pub(super) fn rate_of(
    threads: u64,
    millis: u64,
    client: impl Fn(u64, &Barrier, &AtomicBool, &AtomicU64) -> Result<()> + Sync,
) -> Result<f64> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let ready = Barrier::new(threads as usize + 1);
    let seconds = std::thread::scope(|scope| {
        let (client, ready, stop, done) = (&client, &ready, &stop, &done);
        let start = |n| scope.spawn(move || client(n, ready, stop, done));
        let running: Vec<_> = (0..threads).map(start).collect();
        ready.wait();
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(millis));
        stop.store(true, Ordering::Relaxed);
        running.into_iter().try_for_each(|t| match t.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })?;
        Ok::<f64, Error>(begun.elapsed().as_secs_f64())
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / seconds)
}

/// A device by its name.
///
/// # Errors
/// An unknown name.
pub(super) fn spec(name: &str) -> Result<DeviceSpec> {
    name.parse().map_err(|e: String| Error::new(e))
}

/// Puts the directory `dir` of `env` on the device `tables`, and its log where `log` says: files in `logs`, or a speed
/// disk that is opened by way of it.
fn on_devices(env: Env, tables: DeviceSpec, logs: &Path, log: LogPlace) -> Result<Env> {
    let emulator = |spec| Emulator::new(spec, env.clock.clone());
    let other = match log {
        LogPlace::WithTables => None,
        LogPlace::Files(name) | LogPlace::SpeedDisk(name) => Some(emulator(spec(name)?)),
    };
    let files = Some(emulator(tables));
    let fs = match (log, other) {
        (LogPlace::Files(_), Some(other)) => {
            DeviceFs::new(env.fs.clone(), files, None).with_directory(logs, other)
        }
        (_, other) => DeviceFs::new(env.fs.clone(), files, other),
    };
    Ok(Env {
        fs: Arc::new(fs.without_syncs()),
        ..env
    })
}

fn format(fs: &dyn FileSystem, disk: &Path, seed: u64) -> Result<()> {
    let target = Target::parse(&disk.to_string_lossy())?;
    let device = target.open(fs, false)?;
    let mut instance = [0; 16];
    instance[..8].copy_from_slice(&seed.to_le_bytes());
    format_disk(&*device, &FormatOptions::default(), instance)?;
    Ok(())
}

/// A world in memory.
pub(super) struct Virtual {
    pub(super) mem: MemFs,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) env: Env,
    /// Own options that the database needs.
    pub(super) own: String,
    log: LogPlace,
    tables: DeviceSpec,
}

impl Virtual {
    pub(super) const DB: &'static str = "/db";
    pub(super) const LOGS: &'static str = "/logs";
    const DISK: &'static str = "/speed-disk";

    /// An empty world with tables on `tables`; a speed disk has `disk_bytes`.
    pub(super) fn new(tables: &str, log: LogPlace, disk_bytes: u64, seed: u64) -> Result<Self> {
        let mem = MemFs::new();
        mem.create_dir_if_missing(Path::new(Self::LOGS))?;
        if let LogPlace::SpeedDisk(_) = log {
            mem.make_device(Path::new(Self::DISK), disk_bytes)?;
            format(&mem, Path::new(Self::DISK), seed)?;
        }
        Self::over(mem, spec(tables)?, log, seed)
    }

    fn over(mem: MemFs, tables: DeviceSpec, log: LogPlace, seed: u64) -> Result<Self> {
        let (env, _, clock) = Env::test(Arc::new(mem.clone()), seed);
        let own = match log {
            LogPlace::SpeedDisk(_) => format!("sd_path={}", Self::DISK),
            _ => String::new(),
        };
        Ok(Self {
            env: on_devices(env, tables, Path::new(Self::LOGS), log)?,
            mem,
            clock,
            own,
            log,
            tables,
        })
    }

    /// The world after the process has been killed: devices are idle and caches empty.
    pub(super) fn after_kill(&self, seed: u64) -> Result<Self> {
        let mem = self.mem.process_crash_clone();
        Self::over(mem, self.tables, self.log, seed)
    }

    /// Nanoseconds by its clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }
}

/// A place on the real disk whose files take the time of devices.
pub(super) struct Real {
    pub(super) env: Env,
    pub(super) db: PathBuf,
    pub(super) logs: PathBuf,
    /// Own options that the database needs.
    pub(super) own: String,
}

impl Real {
    /// In the empty directory `dir`, with tables on `tables`; a speed disk has `disk_bytes`.
    pub(super) fn new(dir: &Path, tables: &str, log: LogPlace, disk_bytes: u64) -> Result<Self> {
        let (db, logs, disk) = (dir.join("db"), dir.join("logs"), dir.join("speed-disk"));
        let env = Env::system();
        env.fs.create_dir_if_missing(&logs)?;
        let mut own = String::new();
        if let LogPlace::SpeedDisk(_) = log {
            create_device_file(&disk, disk_bytes)?;
            format(&*env.fs, &disk, 1)?;
            own = format!("sd_path={}", disk.display());
        }
        Ok(Self {
            env: on_devices(env, spec(tables)?, &logs, log)?,
            db,
            logs,
            own,
        })
    }
}
