//! Directories of tables when a database is opened: made, searched for numbers, their tables opened,
//! several at a time, and the manager of table files told which there are.

use super::OpenRequest;
use crate::core::{Components, Directories, Engine, Family, FamilySet, create_dir, family_paths};
use crate::version::{FileMeta, parse_file_name};
use spanlith_base::sync::{Condvar, Mutex};
use spanlith_base::{Error, Result};
use spanlith_env::JobClass;
use spanlith_table::ReadActivity;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewer tables than this are opened by one thread.
const PARALLEL_MIN: usize = 32;
/// Tables of a family whose properties are known after an open.
const SAMPLE: usize = 20;
/// A leaf among the engine's locks.
const RANK: u8 = 90;

/// One table to open.
struct Task {
    family: Arc<Family>,
    file: Arc<FileMeta>,
}

/// Tables that several threads open.
struct Tasks {
    list: Vec<Task>,
    /// The next one that nobody took.
    next: AtomicUsize,
    progress: Mutex<Progress>,
    finished: Condvar,
}

struct Progress {
    opened: usize,
    error: Option<Error>,
}

impl Tasks {
    /// Opens tables until none is left, or one failed.
    fn work(&self) {
        let _activity = ReadActivity::DbOpen.enter();
        while let Some(task) = self.list.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let cache = &task.family.cache;
            let result = cache.reader(&task.file).map(drop);
            let mut progress = self.progress.lock();
            progress.opened += 1;
            if let Err(e) = result {
                progress.error.get_or_insert(e);
                // Tables that nobody took yet need no opening any more.
                let rest = self.next.swap(self.list.len(), Ordering::Relaxed);
                progress.opened += self.list.len().saturating_sub(rest);
            }
            if progress.opened >= self.list.len() {
                self.finished.notify_all();
            }
        }
    }

    /// Waits until all tables are open.
    fn wait(&self) -> Result<()> {
        let mut progress = self.progress.lock();
        while progress.opened < self.list.len() {
            progress = self.finished.wait(progress);
        }
        progress.error.take().map_or(Ok(()), Err)
    }
}

/// The tables to open now: upper levels first, since they are asked first.
fn tasks(engine: &Engine) -> Vec<Task> {
    let mut list = Vec::new();
    for family in engine.families.load_full().iter() {
        let version = family.superversion.load().version.clone();
        list.extend(version.file_iter().map(|(_, file)| Task {
            family: family.clone(),
            file: file.clone(),
        }));
    }
    let most = engine.c.io.open_at_start();
    if list.len() > most {
        list.sort_by_key(|t| t.file.level);
        list.truncate(most);
    }
    list
}

/// Opens as many tables as may be open, and has a look at the properties of some of the others: estimates
/// begin with what is known of a sample.
///
/// # Errors
/// The first that a table failed to open with.
pub(super) fn open_tables(engine: &Engine) -> Result<()> {
    let _activity = ReadActivity::DbOpen.enter();
    open_all(engine, tasks(engine))?;
    schedule_rewrites(engine);
    if !engine.c.options.skip_stats_update_on_db_open {
        sample(engine);
    }
    Ok(())
}

/// Lets the scores of families know of tables that turned out to need rewriting when they were opened.
fn schedule_rewrites(engine: &Engine) {
    for family in engine.families.load_full().iter() {
        let version = family.superversion.load().version.clone();
        if version.file_iter().any(|(_, file)| file.is_misleading()) {
            let mut state = engine.state.lock();
            engine.install_superversion(&mut state, family.id);
        }
    }
}

/// Looks at tables of each family, upper levels first, until a sample of RocksDB's size is known. A table
/// that cannot be opened is the business of whoever reads it.
fn sample(engine: &Engine) {
    for family in engine.families.load_full().iter() {
        let version = family.superversion.load().version.clone();
        for (_, file) in version.file_iter().take(SAMPLE) {
            if file.stats.get().is_none() {
                let _ = family.cache.learn_stats(file);
            }
        }
    }
}

fn open_all(engine: &Engine, list: Vec<Task>) -> Result<()> {
    let executor = &engine.c.env.executor;
    let threads = usize::try_from(engine.c.options.max_file_opening_threads).unwrap_or(1);
    if list.len() < PARALLEL_MIN || threads < 2 || executor.is_manual() {
        return list.iter().try_for_each(|t| {
            let cache = &t.family.cache;
            cache.reader(&t.file).map(drop)
        });
    }
    let threads = threads.min(list.len() / (PARALLEL_MIN / 2));
    let tasks = Arc::new(Tasks {
        list,
        next: AtomicUsize::new(0),
        progress: Mutex::new(
            RANK,
            Progress {
                opened: 0,
                error: None,
            },
        ),
        finished: Condvar::new(),
    });
    // A class that nothing else of the engine uses.
    executor.reserve(JobClass::Bottom, threads - 1);
    for _ in 1..threads {
        let tasks = tasks.clone();
        executor.spawn(JobClass::Bottom, Box::new(move || tasks.work()));
    }
    tasks.work();
    tasks.wait()
}

/// Opens tables in the background (`open_files_async`). One that cannot be opened fails the reads that
/// need it, and is named in the info log now.
pub(super) fn open_tables_later(engine: &Arc<Engine>) {
    let weak = Arc::downgrade(engine);
    let executor = &engine.c.env.executor;
    executor.reserve(JobClass::Bottom, 1);
    executor.spawn(
        JobClass::Bottom,
        Box::new(move || {
            let Some(list) = weak.upgrade().map(|e| tasks(&e)) else {
                return;
            };
            let _activity = ReadActivity::DbOpen.enter();
            for task in list {
                // Not held for longer than one table takes: the database may be closed meanwhile.
                let Some(engine) = weak.upgrade().filter(|e| !e.stopping()) else {
                    return;
                };
                let cache = &task.family.cache;
                if let Err(e) = cache.reader(&task.file) {
                    let number = task.file.number;
                    engine
                        .reporter
                        .log()
                        .warn(format_args!("table {number:06} cannot be opened: {e}"));
                }
            }
            if let Some(engine) = weak.upgrade().filter(|e| !e.stopping()) {
                schedule_rewrites(&engine);
            }
        }),
    );
}

/// Directories of tables other than the database directory, each once.
fn table_dirs(request: &OpenRequest) -> Vec<PathBuf> {
    // Those of the database, too: a family to come may have none of its own.
    let of_database = request.resources.paths.iter().map(|p| p.dir.clone());
    let mut dirs: Vec<PathBuf> = Vec::new();
    let mut add = |dir: PathBuf| {
        if dir != request.dir && !dirs.contains(&dir) {
            dirs.push(dir);
        }
    };
    of_database.for_each(&mut add);
    for family in &request.families {
        let paths = family_paths(&request.dir, family);
        paths.dirs().map(Path::to_path_buf).for_each(&mut add);
    }
    dirs
}

/// Creates the directories of tables that are missing, and holds all of them.
pub(super) fn hold_table_dirs(request: &OpenRequest, open: &Directories) -> Result<()> {
    for dir in table_dirs(request) {
        create_dir(&*request.env.fs, &dir)?;
        open.hold(&dir)?;
    }
    Ok(())
}

/// Highest number of a file in the directories of tables, without the database directory (V4).
pub(super) fn highest_table(request: &OpenRequest) -> Result<u64> {
    let fs = &request.env.fs;
    let mut highest = 0;
    for dir in table_dirs(request) {
        if fs.entry(&dir)?.is_none() {
            continue;
        }
        for name in fs.list(&dir)? {
            let number = parse_file_name(&name).and_then(|kind| kind.number());
            highest = highest.max(number.unwrap_or(0));
        }
    }
    Ok(highest)
}

/// Tells the manager of table files which there are, and of trash that an earlier process left.
///
/// # Errors
/// Of listing the directories.
pub(super) fn track_tables(c: &Components, families: &FamilySet) -> Result<()> {
    let Some(manager) = &c.resources.sst_files else {
        return Ok(());
    };
    for family in families.iter() {
        let dirs = family.cache.paths.dirs();
        for dir in dirs.filter(|dir| c.purge.is_managed(dir)) {
            manager.adopt_trash(dir)?;
        }
        let version = family.superversion.load().version.clone();
        for (_, file) in version.file_iter() {
            c.resources.track_table(&c.purge, family, file);
        }
        for blob in version.blob_files.values() {
            c.resources.track_blob(&c.purge, family, &blob.file);
        }
    }
    Ok(())
}
