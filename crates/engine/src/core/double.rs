//! The trees of a database without a database: no directory, no writers, and background work that only notes that it was
//! asked for. For tests of the jobs that [`Lsm`] schedules and of the versions that it installs.

use super::families::FamilyRequest;
use super::lsm::{BackgroundWork, Components, Lsm, LsmParts};
use super::state::{DbState, Immutable};
use super::{
    Catalog, Directories, Family, LogSet, Owner, PurgeQueue, Reporter, Resources, SnapshotList,
    Together, Watchers,
};
use crate::info_log::InfoLog;
use crate::listener::{FlushReason, Listeners};
use crate::options::{AtOpen, CfOptions, DbOptions};
use crate::version::testing::version_of;
use crate::version::{PurgeSink, TableIo, TableIoOptions, Version};
use spanlith_base::sync::{Mutex, MutexGuard};
use spanlith_base::{Comparator, Result};
use spanlith_env::{Env, ManualExecutor, MemFs};
use spanlith_wal::MemLogs;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// Files that go unnoticed.
struct Nowhere;

impl PurgeSink for Nowhere {
    fn file_obsolete(&self, _: u64, _: u32, _: u64) {}

    fn blob_file_obsolete(&self, _: u64) {}
}

/// The trees, and the work that was asked for.
pub(super) struct Double {
    lsm: Lsm,
    executor: Arc<ManualExecutor>,
    asked: Mutex<Vec<String>>,
}

impl Double {
    /// Families of these names and options, without files.
    pub(super) fn new(options: &DbOptions, names: &[&str], of_families: &CfOptions) -> Arc<Self> {
        let (mut env, executor, _) = Env::test(Arc::new(MemFs::new()), 1);
        let watchers = Watchers::of(&mut env, None);
        let dir = PathBuf::from("/db");
        let io = TableIo::new(env.fs.clone(), TableIoOptions::default());
        let c = Components {
            dirs: Arc::new(Directories::new(env.fs.clone())),
            options: options.at_open(),
            purge: Arc::new(PurgeQueue::new(io.clone(), None)),
            io,
            resources: Resources::default(),
            snapshots: Arc::new(SnapshotList::default()),
            db_id: "double".to_string(),
            session_id: "DOUBLE".to_string(),
            host_id: String::new(),
            read_only: false,
            watchers,
            speed: None,
            env,
            dir,
        };
        let clock = c.env.clock.clone();
        let parts = LsmParts {
            reporter: Reporter::new(InfoLog::none(), Arc::new(Listeners::default()), None, clock),
            catalog: Catalog::new(
                c.env.clone(),
                c.dir.clone(),
                c.dirs.clone(),
                false,
                (1, 100),
            ),
            logs: LogSet::new(
                Arc::new(MemLogs::new()),
                c.dir.clone(),
                &c.db_id,
                &c.options,
            ),
            owner: Owner::new(None, false),
        };
        let mut families = BTreeMap::new();
        for (id, name) in (0..).zip(names) {
            let request = FamilyRequest {
                name: (*name).to_string(),
                options: of_families.clone(),
                ..FamilyRequest::of_persistent_stats()
            };
            let version = Version::empty(Comparator::Bytewise, 7);
            let sink = Arc::new(Nowhere);
            let family = request.build(&c, &parts.reporter, id, version, sink, 0);
            families.insert(id, family);
        }
        let mut state = DbState::new(families, 0);
        state.life.start();
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            lsm: Lsm::new(c, parts, state, options.clone(), me.clone()),
            executor,
            asked: Mutex::new(90, Vec::new()),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DbState> {
        self.lsm.state.lock()
    }

    /// Installs a version of a family, written down as text.
    pub(super) fn install(&self, id: u32, files: &str) {
        let mut state = self.state();
        state.family_mut(id).unwrap().version = version_of(7, files);
        self.lsm.install_superversion(&mut state, id);
    }

    /// Seals the memtable of a family.
    pub(super) fn seal(&self, id: u32) {
        let mut state = self.state();
        let f = state.family_mut(id).unwrap();
        let mem = f.settings.new_memtable(&f.family.comparator);
        f.imm.push(Immutable {
            mem: std::mem::replace(&mut f.mem, mem),
            next_log: 0,
            last_sequence: 0,
            reason: FlushReason::Others,
            newest_timestamp: Arc::default(),
        });
        self.lsm.install_superversion(&mut state, id);
    }

    /// Looks again whether there is work.
    pub(super) fn schedule(&self) {
        self.lsm.schedule(&mut self.state());
    }

    /// Runs what is queued, and returns what was asked for since the last call.
    pub(super) fn run(&self) -> Vec<String> {
        while self.executor.run_one() {}
        std::mem::take(&mut *self.asked.lock())
    }

    fn note(&self, what: String) {
        self.asked.lock().push(what);
    }
}

impl BackgroundWork for Double {
    fn lsm(&self) -> &Lsm {
        &self.lsm
    }

    fn flush(&self, family: &Arc<Family>) {
        self.note(format!("flush {}", family.name));
    }

    fn flush_together(&self, listed: Together) {
        self.note(format!("flush {} together", listed.0.len()));
    }

    fn compact(&self) {
        let family = self.state().jobs.pop_family();
        self.note(format!("compact {family:?}"));
    }

    fn merge_beside(&self) {
        self.state().jobs.free_beside();
        self.note("merge beside".to_string());
    }

    fn resume_by_itself(&self) -> Result<()> {
        self.note("resume".to_string());
        Ok(())
    }

    fn report(&self, _: bool, _: bool) {}

    fn vouch_when_idle(&self) {}
}
