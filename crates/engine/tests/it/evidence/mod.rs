//! Evidence: damage to bytes that had been synced is told from torn tails, and nothing is destroyed
//! without proof.

mod kept;
mod logs;
mod manifests;
mod power;

use spanlith::options::{CfOptions, CompressionType, DbOptions, OwnDbOptions, WalRecoveryMode};
use spanlith::{Db, FamilyOptions, OpenBuilder, Result, WriteOptions};
use spanlith_env::{Env, FileSystem, MemFs, VirtualClock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Everything about an open that the tests vary.
#[derive(Clone, Default)]
struct Setup {
    evidence: OwnDbOptions,
    options: DbOptions,
    families: Vec<&'static str>,
    /// Virtual time at the open, in microseconds; 0 for the usual.
    micros: u64,
}

impl Setup {
    /// A witness with every group that follows a sync.
    fn dense() -> Self {
        Self {
            evidence: OwnDbOptions::new().witness_spacing(0u64),
            ..Self::default()
        }
    }

    fn mode(mut self, mode: WalRecoveryMode) -> Self {
        self.options.wal_recovery_mode = mode;
        self
    }

    fn builder(&self, fs: &Arc<MemFs>) -> OpenBuilder {
        let (mut env, ..) = Env::test(fs.clone(), 9);
        if self.micros > 0 {
            env.clock = Arc::new(VirtualClock::at(self.micros));
        }
        let mut cf = CfOptions::default();
        cf.disable_auto_compactions = true;
        cf.compression = CompressionType::None;
        let mut builder = Db::builder("/db")
            .options(self.options.clone())
            .create_if_missing(true)
            .cf_options(cf)
            .own(self.evidence.clone())
            .env(env)
            .no_info_log();
        for name in &self.families {
            builder = builder.family(FamilyOptions::new(*name));
        }
        builder
    }

    fn open(&self, fs: &Arc<MemFs>) -> Result<Db> {
        self.builder(fs).open()
    }

    /// Returns what an open for reading finds.
    fn look(&self, fs: MemFs) -> Result<Rows> {
        Ok(rows(&self.builder(&Arc::new(fs)).open_read_only()?))
    }
}

fn rows(db: &Db) -> Rows {
    let mut all = Rows::new();
    for cf in db.cfs() {
        for entry in &cf.iter().collect::<Result<Vec<_>>>().unwrap() {
            let key = (cf.name().to_string(), entry.0.to_vec());
            all.insert(key, entry.1.to_vec());
        }
    }
    all
}

fn synced() -> WriteOptions {
    WriteOptions::new().sync(true)
}

/// Paths in the directory, or in one below it, whose names end so.
fn paths(fs: &MemFs, dir: &str, end: &str) -> Vec<PathBuf> {
    let names = fs.list(Path::new(dir)).unwrap_or_default();
    let found = names.into_iter().filter(|n| n.ends_with(end));
    found.map(|n| Path::new(dir).join(n)).collect()
}

/// The only log.
fn log_path(fs: &MemFs) -> PathBuf {
    let logs = paths(fs, "/db", ".log");
    assert_eq!(logs.len(), 1, "{logs:?}");
    logs[0].clone()
}

fn manifest_path(fs: &MemFs) -> PathBuf {
    let current = fs.read_file(Path::new("/db/CURRENT")).unwrap();
    let current = String::from_utf8(current).unwrap();
    Path::new("/db").join(current.lines().next().unwrap())
}

/// Offsets at which `needle` begins.
fn places(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(needle.len()).enumerate();
    windows.filter(|w| w.1 == needle).map(|w| w.0).collect()
}
