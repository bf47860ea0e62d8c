//! Describes what a caller wants to open, and what lies in its directories.

use super::best_efforts::list_manifests;
use super::wal_filter::WalFilter;
use crate::core::{Engine, FamilyRequest, Resources, Speed, Watchers};
use crate::info_log::Logger;
use crate::listener::Listeners;
use crate::options::DbOptions;
use crate::version::{FileKind, filenames, parse_file_name};
use spanlith_base::Result;
use spanlith_base::stats::Statistics;
use spanlith_env::Env;
use std::path::PathBuf;
use std::sync::Arc;

/// Describes what the caller wants to open, and how. Options are validated.
pub struct OpenRequest {
    /// Directory of the database.
    pub dir: PathBuf,
    /// The outside world.
    pub env: Env,
    /// Options of the database.
    pub options: DbOptions,
    /// The families to open; contains `default`.
    pub(crate) families: Vec<FamilyRequest>,
    /// Budgets and limits shared with other databases.
    pub(crate) resources: Resources,
    /// Recorders of calls to the file system, which `env` tells, and of lookups in the block cache.
    pub(crate) watchers: Watchers,
    /// The speed disk that was asked for or that CURRENT names; `env` has its logs once it is attached.
    pub(crate) speed: Option<Speed>,
    /// Change nothing on disk.
    pub read_only: bool,
    /// Follow a database that another process writes, with this directory for the info log.
    pub(crate) secondary: Option<PathBuf>,
    /// The same database as it was opened before: tables that are still there stay open.
    pub(crate) before: Option<Arc<Engine>>,
    /// Write no `LOG` file.
    pub no_info_log: bool,
    /// Write no OPTIONS file: that of the directory goes on to say what it said.
    pub(crate) keeps_options: bool,
    /// Transactions in the logs were written under the policy write-prepared.
    pub write_prepared: bool,
    /// Counters that somebody asked for.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// Says who is told what happens.
    pub(crate) listeners: Arc<Listeners>,
    /// Decides over the batches of logs.
    pub(crate) wal_filter: Option<Arc<dyn WalFilter>>,
    /// Takes the lines of the info log.
    pub(crate) logger: Option<Arc<dyn Logger>>,
}

impl OpenRequest {
    /// The same once more.
    pub(crate) fn again(&self) -> Self {
        Self {
            dir: self.dir.clone(),
            env: self.env.clone(),
            options: self.options.clone(),
            families: self.families.clone(),
            resources: self.resources.clone(),
            speed: self.speed.clone(),
            watchers: self.watchers.clone(),
            read_only: self.read_only,
            secondary: self.secondary.clone(),
            before: self.before.clone(),
            no_info_log: self.no_info_log,
            keeps_options: self.keeps_options,
            write_prepared: self.write_prepared,
            statistics: self.statistics.clone(),
            listeners: self.listeners.clone(),
            wal_filter: self.wal_filter.clone(),
            logger: self.logger.clone(),
        }
    }

    pub(super) fn default_family(&self) -> &FamilyRequest {
        let named = self.families.iter().find(|f| f.name == "default");
        named.expect("checked by the builder")
    }

    /// Returns whether there is a database to open: CURRENT says so, or, to best efforts, any MANIFEST.
    pub(super) fn database_exists(&self) -> Result<bool> {
        let (env, dir) = (&self.env, &self.dir);
        if self.options.best_efforts_recovery {
            return Ok(!list_manifests(env, dir)?.is_empty());
        }
        let current = dir.join(filenames::CURRENT_FILE);
        Ok(env.fs.entry(dir)?.is_some() && env.fs.entry(&current)?.is_some())
    }

    /// The directory of the logs.
    pub(crate) fn wal_dir(&self) -> PathBuf {
        match self.options.wal_dir.as_str() {
            "" => self.dir.clone(),
            other => PathBuf::from(other),
        }
    }

    /// Highest number of any file, and the numbers of all logs, ascending.
    pub(crate) fn list_numbers(&self) -> Result<(u64, Vec<u64>)> {
        let fs = &self.env.fs;
        let mut highest = 0;
        let mut logs = Vec::new();
        let wal_dir = self.wal_dir();
        for name in fs.list(&self.dir)? {
            if let Some(kind) = parse_file_name(&name) {
                highest = highest.max(kind.number().unwrap_or(0));
                if let FileKind::Log(n) = kind
                    && wal_dir == self.dir
                {
                    logs.push(n);
                }
            }
        }
        if wal_dir != self.dir && fs.entry(&wal_dir)?.is_some() {
            for name in fs.list(&wal_dir)? {
                if let Some(FileKind::Log(n)) = parse_file_name(&name) {
                    highest = highest.max(n);
                    logs.push(n);
                }
            }
        }
        logs.sort_unstable();
        Ok((highest, logs))
    }
}
