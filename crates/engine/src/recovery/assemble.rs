//! Puts an engine together from what recovery found.

use super::manifest::RecoveredFamily;
use super::request::OpenRequest;
use crate::core::{
    Catalog, Company, Components, CurrentLog, DbState, Directories, Engine, LeaderState, LogList,
    LogSet, LsmParts, MemSlot, Owner, PurgeQueue, Reporter, SnapshotList, host_name,
    new_session_id,
};
use crate::info_log::InfoLog;
use crate::options::AtOpen;
use crate::version::{TableIo, filenames};
use spanlith_wal::FileLogs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Describes what the steps before found.
pub(super) struct Parts {
    pub(super) purge: Arc<PurgeQueue>,
    pub(super) io: Arc<TableIo>,
    pub(super) log: Arc<InfoLog>,
    pub(super) lock: Option<Box<dyn spanlith_env::FileLock>>,
    pub(super) dirs: Directories,
    pub(super) db_id: String,
    pub(super) manifest_number: u64,
    pub(super) next_file: u64,
    pub(super) first_log: u64,
    pub(super) last_sequence: u64,
    pub(super) max_family: u32,
}

/// The logs of the database, in files.
fn log_files(request: &OpenRequest, dirs: &Arc<Directories>) -> FileLogs {
    let (dir, dirs) = (request.wal_dir(), dirs.clone());
    let archive = dir.join(filenames::ARCHIVE_DIR);
    let sync = Box::new(move |dir: &Path| dirs.sync(dir));
    FileLogs::new(request.env.fs.clone(), dir, archive, sync)
}

/// An engine without memtables of what is in the logs, and without a log.
pub(super) fn assemble(
    request: &OpenRequest,
    families: Vec<RecoveredFamily>,
    parts: Parts,
) -> Arc<Engine> {
    let env = request.env.clone();
    let session_id = new_session_id(&env);
    let host_id = host_name(&env, &request.options.db_host_id);
    let dirs = Arc::new(parts.dirs);
    let components = Components {
        purge: parts.purge,
        io: parts.io,
        resources: request.resources.clone(),
        snapshots: Arc::new(SnapshotList::default()),
        db_id: parts.db_id,
        session_id,
        host_id,
        read_only: request.read_only,
        env,
        dir: request.dir.clone(),
        dirs,
        options: request.options.at_open(),
        watchers: request.watchers.clone(),
        speed: request.speed.clone().filter(|s| s.fs.disk().is_some()),
    };
    let c = &components;
    let store = Arc::new(log_files(request, &c.dirs));
    let clock = c.env.clock.clone();
    let (listeners, statistics) = (request.listeners.clone(), request.statistics.clone());
    let lsm_parts = LsmParts {
        reporter: Reporter::new(parts.log, listeners, statistics, clock),
        catalog: Catalog::new(
            c.env.clone(),
            c.dir.clone(),
            c.dirs.clone(),
            c.options.own.evidence,
            (parts.manifest_number, parts.next_file),
        ),
        logs: LogSet::new(store, request.wal_dir(), &c.db_id, &c.options),
        owner: Owner::new(parts.lock, request.secondary.is_some()),
    };
    let mut slots = Vec::with_capacity(families.len());
    let mut states = BTreeMap::new();
    for f in families {
        let state = f.request.build(
            &components,
            &lsm_parts.reporter,
            f.id,
            f.version,
            f.sink,
            f.log_number,
        );
        let budget = request.resources.write_buffers.as_ref();
        if !state.mem.is_empty() {
            state
                .mem
                .note_first_write(|| components.env.clock.now_seconds());
        }
        slots.push(MemSlot::new(&state, budget));
        states.insert(f.id, state);
    }
    let leader = LeaderState {
        log: CurrentLog::none(),
        slots,
        first_is_new: true,
        touched: Vec::new(),
        generation: 0,
        company: Company::new(),
        untold: Vec::new(),
    };
    let mut state = DbState::new(states, parts.last_sequence);
    state.logs = LogList::new(parts.first_log);
    state.max_family = parts.max_family;
    Engine::new(
        components,
        lsm_parts,
        leader,
        state,
        request.options.clone(),
    )
}
