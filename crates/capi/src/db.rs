//! `rocksdb_t`: opening and closing.

use crate::event_listener::{Listener, Place};
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, family_name, path, report, unbox};
use crate::options::{Parts, rocksdb_options_t};
use libc::c_char;
use spanlith::options::CfOptions;
use spanlith::version::{FileKind, parse_file_name};
use spanlith::{Cf, Db, FamilyOptions, OpenBuilder, Secondary};
use spanlith_base::{Error, Result};
use spanlith_env::Env;
use spanlith_wal::{BatchIter, LogReader, ReadEvent};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

/// An open database; a counted reference.
pub struct rocksdb_t {
    /// The default column family, and through it the database.
    pub(crate) cf: Cf,
    /// The world it was opened in.
    pub(crate) env: Env,
    /// Says what it was opened with; kept alive until it is closed.
    _parts: Parts,
    /// Follows another process.
    secondary: Option<Arc<Secondary>>,
}

impl rocksdb_t {
    /// A handle of what others keep open, for the time of a callback, say.
    pub(crate) fn lent(cf: Cf, env: Env) -> Self {
        Self {
            cf,
            env,
            _parts: Parts::default(),
            secondary: None,
        }
    }

    /// A second handle of the same database.
    pub(crate) fn again(&self) -> Self {
        Self::lent(self.cf.clone(), self.env.clone())
    }

    /// Finishes background work and gives the LOCK back. Nobody can be told what went wrong; the info log says it.
    pub(crate) fn close(self) {
        let _ = self.cf.db().clone().close();
    }
}

/// How to open.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'a> {
    ReadWrite,
    /// Without versions of keys that have a later timestamp.
    Trimmed(&'a [u8]),
    ReadOnly,
    /// With the directory of its info log.
    Secondary(&'a Path),
}

impl Mode<'_> {
    /// Complains about a value that did not fit its option. With RocksDB it fails when the options are written
    /// down, which a reader does not do.
    fn check(self, options: &rocksdb_options_t) -> Result<()> {
        match self {
            Self::ReadWrite | Self::Trimmed(_) => options.check(),
            Self::ReadOnly | Self::Secondary(_) => Ok(()),
        }
    }
}

/// A family with the options of a handle.
pub(crate) fn family_options(
    name: &str,
    options: &rocksdb_options_t,
    mode: Mode<'_>,
) -> Result<FamilyOptions> {
    mode.check(options)?;
    let mut cf = options.cf.clone();
    // Attached as objects below; their names need not be known ones.
    let defaults = CfOptions::default();
    (cf.comparator, cf.merge_operator) = (defaults.comparator, defaults.merge_operator);
    if options.prefix_extractor.is_some() {
        cf.prefix_extractor = defaults.prefix_extractor;
    }
    let mut family = FamilyOptions::new(name)
        .options(cf)
        .table_options(options.table.clone())
        .comparator(options.comparator.clone());
    if let Some(operator) = &options.merge_operator {
        family = family.merge_operator(operator.clone());
    }
    if let Some(extractor) = &options.prefix_extractor {
        family = family.prefix_extractor(extractor.clone());
    }
    if !options.parts.cf_paths.is_empty() {
        family = family.paths(options.parts.cf_paths.clone());
    }
    if let Some(filter) = &options.parts.compaction_filter {
        family = family.compaction_filter(filter.clone());
    }
    if let Some(factory) = &options.parts.compaction_filter_factory {
        family = family.compaction_filter_factory(factory.clone());
    }
    for factory in &options.parts.collectors.0 {
        family = family.table_properties_collector(factory.clone());
    }
    if let Some(cache) = &options.block_cache {
        family = family.block_cache(cache.clone());
    }
    if let Some(cache) = &options.parts.blob_cache {
        family = family.blob_cache(cache.clone());
    }
    Ok(family.default_cache(options.parts.default_cache.clone()))
}

/// How to open the given families, without listeners: they need a place of their own.
pub(crate) fn builder(
    dir: PathBuf,
    options: &rocksdb_options_t,
    families: Vec<FamilyOptions>,
) -> Result<OpenBuilder> {
    options.env.prepare(&dir)?;
    let mut builder = Db::builder(dir)
        .options(options.db.clone())
        .env(options.env());
    // Of a family that is listed twice the first options count, as in RocksDB; all its handles work.
    let mut named = HashSet::new();
    for family in families {
        if named.insert(family.name().to_string()) {
            builder = builder.family(family);
        }
    }
    let parts = &options.parts;
    if let Some(statistics) = &options.statistics {
        builder = builder.statistics(statistics.clone());
    }
    if let Some(logger) = &parts.logger {
        builder = builder.logger(logger.clone());
    }
    if let Some(filter) = &parts.wal_filter {
        builder = builder.wal_filter(filter.clone());
    }
    if let Some(limiter) = &parts.rate_limiter {
        builder = builder.rate_limiter(limiter.clone());
    }
    if let Some(budget) = &parts.write_buffers {
        builder = builder.write_buffer_manager(budget.clone());
    }
    if let Some(cache) = &parts.row_cache {
        builder = builder.row_cache(cache.clone());
    }
    if let Some(files) = &parts.sst_files {
        builder = builder.sst_file_manager(files.manager.clone());
    }
    if !parts.db_paths.is_empty() {
        builder = builder.db_paths(parts.db_paths.clone());
    }
    Ok(builder)
}

/// Opens the given families.
pub(crate) fn open(
    dir: PathBuf,
    options: &rocksdb_options_t,
    families: Vec<FamilyOptions>,
    mode: Mode<'_>,
) -> Result<*mut rocksdb_t> {
    mode.check(options)?;
    let mut builder = builder(dir, options, families)?;
    let parts = &options.parts;
    let place = Place::new(options.env());
    for callbacks in &parts.listeners {
        builder = builder.listener(Arc::new(Listener {
            callbacks: callbacks.clone(),
            place: place.clone(),
        }));
    }
    let mut secondary = None;
    let opened = match mode {
        Mode::ReadWrite => builder.open(),
        Mode::Trimmed(timestamp) => builder.open_and_trim_history(timestamp),
        Mode::ReadOnly => builder.open_read_only(),
        Mode::Secondary(dir) => builder.open_secondary(dir).map(|opened| {
            let opened = secondary.insert(Arc::new(opened));
            opened.db().clone()
        }),
    };
    place.set(opened.as_ref().ok().map(Db::downgrade));
    let db = opened?;
    Ok(boxed(rocksdb_t {
        cf: db.default_cf(),
        env: options.env(),
        _parts: options.parts.clone(),
        secondary,
    }))
}

/// Opens a database with one family.
fn open_default(
    dir: PathBuf,
    options: &rocksdb_options_t,
    mode: Mode<'_>,
) -> Result<*mut rocksdb_t> {
    open(
        dir,
        options,
        vec![family_options("default", options, mode)?],
        mode,
    )
}

/// Opens families given as arrays, and makes a handle for each.
///
/// # Safety
/// The arrays have `count` elements each.
pub(crate) unsafe fn open_families(
    dir: PathBuf,
    options: &rocksdb_options_t,
    (count, names, cf_options): (i32, *const *const c_char, *const *const rocksdb_options_t),
    handles: *mut *mut rocksdb_column_family_handle_t,
    mode: Mode<'_>,
) -> Result<*mut rocksdb_t> {
    // SAFETY: The caller's promise.
    unsafe {
        let families = (count, names, cf_options);
        open_families_with(dir, options, families, handles, mode, &|_, family| family)
    }
}

/// As [`open_families`], with something more for the family at each place.
///
/// # Safety
/// As there.
pub(crate) unsafe fn open_families_with(
    dir: PathBuf,
    options: &rocksdb_options_t,
    (count, names, cf_options): (i32, *const *const c_char, *const *const rocksdb_options_t),
    handles: *mut *mut rocksdb_column_family_handle_t,
    mode: Mode<'_>,
    more: &dyn Fn(usize, FamilyOptions) -> FamilyOptions,
) -> Result<*mut rocksdb_t> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: The caller says so; names are NUL-terminated.
    let names: Vec<String> = unsafe {
        array(names, count)
            .iter()
            .map(|n| family_name(*n))
            .collect()
    };
    // SAFETY: As above.
    let cf_options = unsafe { array(cf_options, count) };
    let mut families = Vec::with_capacity(count);
    for (at, (name, o)) in names.iter().zip(cf_options).enumerate() {
        // SAFETY: Each is a handle.
        families.push(more(at, family_options(name, unsafe { &**o }, mode)?));
    }
    if !names.iter().any(|n| n == "default") {
        // As in RocksDB, where an open for writing first looks at the options.
        if matches!(mode, Mode::ReadWrite | Mode::Trimmed(_)) {
            builder(dir, options, families)?.check_for_writing()?;
        }
        return Err(Error::invalid_argument(
            "Default column family not specified",
        ));
    }
    let db = open(dir, options, families, mode)?;
    for (at, name) in names.iter().enumerate() {
        // SAFETY: The database was just opened; the array has room.
        unsafe {
            let cf = (*db).cf.db().cf(name).expect("opened above");
            handles
                .add(at)
                .write(boxed(rocksdb_column_family_handle_t::of(cf)));
        };
    }
    Ok(db)
}

c_api! {
    /// Opens a database with its default column family.
    fn rocksdb_open(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report(errptr, ptr::null_mut(), || open_default(path(name), &*options, Mode::ReadWrite))
    }

    /// Opens a database for reading. Logs are replayed into memory, whatever
    /// `error_if_wal_file_exists` says, as RocksDB does.
    fn rocksdb_open_for_read_only(
        options: *const rocksdb_options_t,
        name: *const c_char,
        _error_if_wal_file_exists: u8,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report(errptr, ptr::null_mut(), || open_default(path(name), &*options, Mode::ReadOnly))
    }

    /// Opens a database with column families; a handle for each goes to `column_family_handles`.
    fn rocksdb_open_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        let families = (num_column_families, column_family_names, column_family_options);
        report(errptr, ptr::null_mut(), || {
            open_families(path(name), &*options, families, column_family_handles, Mode::ReadWrite)
        })
    }

    /// Opens a database with column families, and drops the versions of keys that were written with a later timestamp
    /// than `trim_ts`, in all families that have timestamps.
    fn rocksdb_open_and_trim_history(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        trim_ts: *mut c_char,
        trim_tslen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        let families = (num_column_families, column_family_names, column_family_options);
        report(errptr, ptr::null_mut(), || {
            let mode = Mode::Trimmed(bytes(trim_ts.cast_const(), trim_tslen));
            open_families(path(name), &*options, families, column_family_handles, mode)
        })
    }

    /// Opens column families for reading.
    fn rocksdb_open_for_read_only_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        error_if_wal_file_exists: u8,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        let families = (num_column_families, column_family_names, column_family_options);
        report(errptr, ptr::null_mut(), || {
            if error_if_wal_file_exists != 0 {
                refuse_logs(&*options, &path(name))?;
            }
            open_families(path(name), &*options, families, column_family_handles, Mode::ReadOnly)
        })
    }

    /// Opens a database for reading beside the process that writes it; `secondary_path` is made if it is missing and
    /// takes the info log. `rocksdb_try_catch_up_with_primary` shows what was written since.
    fn rocksdb_open_as_secondary(
        options: *const rocksdb_options_t,
        name: *const c_char,
        secondary_path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report(errptr, ptr::null_mut(), || {
            open_default(path(name), &*options, Mode::Secondary(&path(secondary_path)))
        })
    }

    /// As `rocksdb_open_as_secondary`, with column families; a handle for each goes to `column_family_handles`.
    fn rocksdb_open_as_secondary_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        secondary_path: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        let families = (num_column_families, column_family_names, column_family_options);
        report(errptr, ptr::null_mut(), || {
            let dir = path(secondary_path);
            let mode = Mode::Secondary(&dir);
            open_families(path(name), &*options, families, column_family_handles, mode)
        })
    }

    /// Shows what the writer has written up to now. Fails with `NotSupported` where the database was not opened as a
    /// secondary one.
    fn rocksdb_try_catch_up_with_primary(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, (), || match &(*db).secondary {
            Some(secondary) => secondary.catch_up(),
            None => Err(Error::not_supported("Supported only by secondary instance")),
        });
    }

    /// Closes a database: finishes background work and gives the LOCK back, also when iterators,
    /// family handles or snapshots are still there. NULL is ignored.
    fn rocksdb_close(db: *mut rocksdb_t) {
        if let Some(db) = unbox(db) {
            db.close();
        }
    }

    /// Sequence number of the newest visible write.
    fn rocksdb_get_latest_sequence_number(db: *mut rocksdb_t) -> u64 {
        (*db).cf.db().latest_sequence_number()
    }
}

/// Fails if there is a log that holds an update, or anything that cannot be read. Notes about durability do not count:
/// they stand in logs of databases that were closed with nothing left to replay.
fn refuse_logs(options: &rocksdb_options_t, dir: &std::path::Path) -> Result<()> {
    let fs = options.env().fs;
    let dir = match options.db.wal_dir.as_str() {
        "" => dir,
        other => std::path::Path::new(other),
    };
    if fs.entry(dir)?.is_none() {
        return Ok(());
    }
    let holds_updates = |number, name: &str| -> Result<bool> {
        let mut reader = LogReader::new(fs.open_sequential(&dir.join(name))?, number);
        loop {
            match reader.next_event()? {
                ReadEvent::Record { .. } => {
                    let batch = BatchIter::new(reader.record());
                    if batch.map_or(true, |batch| batch.header_count() > 0) {
                        return Ok(true);
                    }
                }
                ReadEvent::Corruption { .. } => return Ok(true),
                ReadEvent::Eof => return Ok(false),
                _ => {}
            }
        }
    };
    for name in fs.list(dir)? {
        if let Some(FileKind::Log(number)) = parse_file_name(&name)
            && holds_updates(number, &name)?
        {
            return Err(Error::corruption(
                "The db was opened in readonly mode with error_if_wal_file_exists flag but a \
                 non-empty WAL file already exists",
            ));
        }
    }
    Ok(())
}
