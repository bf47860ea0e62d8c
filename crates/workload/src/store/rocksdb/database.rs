//! A database that RocksDB's own library has open.
#![allow(unsafe_code)]

use super::library::{Handle, Library};
use super::transaction::RocksTransaction;
use crate::store::spec::nested;
use crate::store::{
    Batch, Change, Counters, Direction, Error, Isolation, Level, Result, Store, StoreOptions,
    Transaction,
};
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::time::Duration;

pub(super) const NAME: &str = "rocksdb";

/// A database of RocksDB. All handles are the library's and live until [`Drop`].
#[derive(Debug)]
pub struct RocksDb {
    label: String,
    dir: PathBuf,
    pub(super) library: &'static Library,
    pub(super) db: Handle,
    /// The same database as one with transactions; null without.
    pub(super) transactions: Handle,
    pub(super) families: Vec<Handle>,
    options: Handle,
    pub(super) read: Handle,
    pub(super) write: Handle,
    flush: Handle,
}

// SAFETY: RocksDB allows calls on one database, with its options and families, from any thread.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

pub(super) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(NAME, format!("'{text}' holds a zero byte")))
}

/// Runs a call that leaves an error text.
pub(super) fn checked<T>(library: &Library, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut text = null_mut();
    let result = call(&raw mut text);
    match library.take_text(text) {
        None => Ok(result),
        Some(text) => Err(Error::new(NAME, text)),
    }
}

/// The release that wrote the newest OPTIONS file of a directory.
fn release(dir: &Path) -> Option<String> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let newest = entries
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("OPTIONS-") && !name.ends_with("dbtmp")
        })
        .max()?;
    let text = std::fs::read_to_string(newest).ok()?;
    let line = text
        .lines()
        .find_map(|l| l.trim().strip_prefix("rocksdb_version="))?;
    Some(line.to_string())
}

/// Options of the library as the text and the cache say.
fn options_of(library: &Library, options: &StoreOptions) -> Result<Handle> {
    let text = c_text(&nested(&options.options))?;
    // SAFETY: handles come from the library and are destroyed once; the text ends with a zero byte. A table factory
    // and a cache are shared by those who hold them, so that ours may be given up at once.
    unsafe {
        let base = (library.options_create)();
        (library.options_set_uint64add_merge_operator)(base);
        (library.options_set_create_if_missing)(base, 1);
        (library.options_set_create_missing_column_families)(base, 1);
        (library.options_enable_statistics)(base);
        let table = (library.block_based_options_create)();
        if let Some(bytes) = options.cache_bytes {
            let cache = (library.cache_create_lru)(usize::try_from(bytes).unwrap_or(usize::MAX));
            (library.block_based_options_set_block_cache)(table, cache);
            (library.cache_destroy)(cache);
        }
        (library.options_set_block_based_table_factory)(base, table);
        (library.block_based_options_destroy)(table);
        let made = (library.options_create)();
        let result = checked(library, |e| {
            (library.get_options_from_string)(base, text.as_ptr(), made, e);
        });
        (library.options_destroy)(base);
        if let Err(e) = result {
            (library.options_destroy)(made);
            return Err(e);
        }
        Ok(made)
    }
}

/// Shows the entries of an iterator and destroys it.
///
/// # Safety
/// `iter` is an iterator of the library, over a database that is open, and nobody else uses it.
pub(super) unsafe fn walk(
    l: &Library,
    iter: Handle,
    start: &[u8],
    direction: Direction,
    limit: usize,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<usize> {
    let mut seen = 0;
    // SAFETY: the iterator is valid until it is destroyed below; keys and values are looked at before it moves, and
    // have the lengths that the library says.
    unsafe {
        match direction {
            Direction::Forward => (l.iter_seek)(iter, chars(start), start.len()),
            Direction::Backward => (l.iter_seek_for_prev)(iter, chars(start), start.len()),
        }
        while seen < limit && (l.iter_valid)(iter) != 0 {
            seen += 1;
            let (mut key_len, mut value_len) = (0, 0);
            let key = (l.iter_key)(iter, &raw mut key_len);
            let value = (l.iter_value)(iter, &raw mut value_len);
            let key = std::slice::from_raw_parts(key.cast(), key_len);
            let value = std::slice::from_raw_parts(value.cast(), value_len);
            if !each(key, value) || seen == limit {
                break;
            }
            match direction {
                Direction::Forward => (l.iter_next)(iter),
                Direction::Backward => (l.iter_prev)(iter),
            }
        }
        let result = checked(l, |e| (l.iter_get_error)(iter, e));
        (l.iter_destroy)(iter);
        result.map(|()| seen)
    }
}

impl RocksDb {
    /// Opens the database in `dir` with the library in a file, or makes it.
    ///
    /// # Errors
    /// Of loading the library, of the options, and of opening.
    pub fn open(library: &Path, dir: &Path, options: &StoreOptions) -> Result<Self> {
        let library = Library::load(library)?;
        let base = match (options.transactions, library.transactiondb_get_base_db) {
            (true, None) => {
                let text =
                    "this release lacks rocksdb_transactiondb_get_base_db, which transactions need";
                return Err(Error::new(NAME, text));
            }
            (true, base) => base,
            (false, _) => None,
        };
        let made = options_of(library, options)?;
        let path = c_text(&dir.to_string_lossy())?;
        let mut names = vec![c_text("default")?];
        for name in &options.families {
            names.push(c_text(name)?);
        }
        let pointers: Vec<*const c_char> = names.iter().map(|n| n.as_ptr()).collect();
        let family_options = vec![made; names.len()];
        let mut families = vec![null_mut(); names.len()];
        let count = i32::try_from(names.len()).unwrap_or(i32::MAX);
        let (names, all) = (pointers.as_ptr(), family_options.as_ptr());
        // SAFETY: the three arrays have `count` members, texts end with a zero byte, and all outlive the call.
        let opened = checked(library, |e| unsafe {
            let families = families.as_mut_ptr();
            if !options.transactions {
                return (library.open_column_families)(
                    made,
                    path.as_ptr(),
                    count,
                    names,
                    all,
                    families,
                    e,
                );
            }
            let with = (library.transactiondb_options_create)();
            let db = (library.transactiondb_open_column_families)(
                made,
                with,
                path.as_ptr(),
                count,
                names,
                all,
                families,
                e,
            );
            (library.transactiondb_options_destroy)(with);
            db
        });
        let db = match opened {
            Ok(db) => db,
            Err(e) => {
                // SAFETY: nothing uses the options any more.
                unsafe { (library.options_destroy)(made) };
                return Err(e);
            }
        };
        let transactions = if options.transactions { db } else { null_mut() };
        let db = match base {
            // SAFETY: the database was opened with transactions.
            Some(base) => unsafe { base(db) },
            None => db,
        };
        // SAFETY: constructors without preconditions, and setters on what they made.
        let (read, write, flush) = unsafe {
            let write = (library.writeoptions_create)();
            (library.writeoptions_set_sync)(write, u8::from(options.sync));
            (library.writeoptions_disable_WAL)(write, i32::from(options.disable_wal));
            (
                (library.readoptions_create)(),
                write,
                (library.flushoptions_create)(),
            )
        };
        Ok(Self {
            label: format!("{NAME} {}", release(dir).unwrap_or_default())
                .trim()
                .to_string(),
            dir: dir.to_path_buf(),
            library,
            db,
            transactions,
            families,
            options: made,
            read,
            write,
            flush,
        })
    }

    fn property(&self, family: Handle, name: &str) -> u64 {
        let Ok(name) = c_text(name) else { return 0 };
        let mut out = 0;
        // SAFETY: the handles are open, the text ends with a zero byte, `out` outlives the call.
        let failed =
            unsafe { (self.library.property_int_cf)(self.db, family, name.as_ptr(), &raw mut out) };
        if failed == 0 { out } else { 0 }
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        let l = self.library;
        // SAFETY: each handle is destroyed once, the database after its families and before its options; nobody
        // else has them, because the value is being dropped.
        unsafe {
            for &family in &self.families {
                (l.column_family_handle_destroy)(family);
            }
            if self.transactions.is_null() {
                (l.close)(self.db);
            } else {
                if let Some(close) = l.transactiondb_close_base_db {
                    close(self.db);
                }
                (l.transactiondb_close)(self.transactions);
            }
            (l.readoptions_destroy)(self.read);
            (l.writeoptions_destroy)(self.write);
            (l.flushoptions_destroy)(self.flush);
            (l.options_destroy)(self.options);
        }
    }
}

impl Store for RocksDb {
    fn label(&self) -> &str {
        &self.label
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let (l, family) = (self.library, self.families[family]);
        // SAFETY: the handles are open; pointers and lengths are those of slices that outlive the call.
        checked(l, |e| unsafe {
            (l.put_cf)(
                self.db,
                self.write,
                family,
                chars(key),
                key.len(),
                chars(value),
                value.len(),
                e,
            );
        })
    }

    fn get(&self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let (l, family) = (self.library, self.families[family]);
        // SAFETY: as in `put`.
        let found = checked(l, |e| unsafe {
            (l.get_pinned_cf)(self.db, self.read, family, chars(key), key.len(), e)
        })?;
        if found.is_null() {
            return Ok(false);
        }
        let mut len = 0;
        // SAFETY: the value has `len` bytes until its slice is destroyed, after the copy.
        unsafe {
            let bytes = (l.pinnableslice_value)(found, &raw mut len);
            if len > 0 {
                value.extend_from_slice(std::slice::from_raw_parts(bytes.cast(), len));
            }
            (l.pinnableslice_destroy)(found);
        }
        Ok(true)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let (l, family) = (self.library, self.families[family]);
        // SAFETY: as in `put`.
        checked(l, |e| unsafe {
            (l.delete_cf)(self.db, self.write, family, chars(key), key.len(), e);
        })
    }

    fn single_delete(&self, family: usize, key: &[u8]) -> Result<()> {
        let (l, family) = (self.library, self.families[family]);
        // SAFETY: as in `put`.
        checked(l, |e| unsafe {
            (l.singledelete_cf)(self.db, self.write, family, chars(key), key.len(), e);
        })
    }

    fn merge(&self, family: usize, key: &[u8], operand: u64) -> Result<()> {
        let (l, family) = (self.library, self.families[family]);
        let operand = operand.to_le_bytes();
        // SAFETY: as in `put`.
        checked(l, |e| unsafe {
            (l.merge_cf)(
                self.db,
                self.write,
                family,
                chars(key),
                key.len(),
                chars(&operand),
                operand.len(),
                e,
            );
        })
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        let l = self.library;
        // SAFETY: the batch is made, filled from slices that it copies, written and destroyed here.
        unsafe {
            let out = (l.writebatch_create)();
            for change in batch.iter() {
                match change {
                    Change::Put { family, key, value } => (l.writebatch_put_cf)(
                        out,
                        self.families[family],
                        chars(key),
                        key.len(),
                        chars(value),
                        value.len(),
                    ),
                    Change::Delete { family, key } => {
                        (l.writebatch_delete_cf)(out, self.families[family], chars(key), key.len());
                    }
                }
            }
            let result = checked(l, |e| (l.write)(self.db, self.write, out, e));
            (l.writebatch_destroy)(out);
            result
        }
    }

    fn multi_get(&self, family: usize, keys: &[&[u8]]) -> Result<usize> {
        let l = self.library;
        let pointers: Vec<*const c_char> = keys.iter().map(|k| chars(k)).collect();
        let lens: Vec<usize> = keys.iter().map(|k| k.len()).collect();
        let mut values = vec![null_mut(); keys.len()];
        let mut errors = vec![null_mut(); keys.len()];
        // SAFETY: all arrays have as many members as there are keys, and outlive the call.
        unsafe {
            (l.batched_multi_get_cf)(
                self.db,
                self.read,
                self.families[family],
                keys.len(),
                pointers.as_ptr(),
                lens.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        let mut found = 0;
        for value in values.into_iter().filter(|v| !v.is_null()) {
            found += 1;
            // SAFETY: the slice was made for the caller and is destroyed once.
            unsafe { (l.pinnableslice_destroy)(value) };
        }
        let texts: Vec<String> = errors.into_iter().filter_map(|e| l.take_text(e)).collect();
        match texts.into_iter().next() {
            None => Ok(found),
            Some(text) => Err(Error::new(NAME, text)),
        }
    }

    fn scan(
        &self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        // SAFETY: the handles are open; the iterator belongs to the call.
        unsafe {
            let iter = (self.library.create_iterator_cf)(self.db, self.read, self.families[family]);
            walk(self.library, iter, start, direction, limit, each)
        }
    }

    fn begin(&self, isolation: Isolation) -> Result<Box<dyn Transaction + '_>> {
        match self.transactions.is_null() {
            true => Err(Error::unsupported(
                &self.label,
                "transactions as it was opened",
            )),
            false => Ok(Box::new(RocksTransaction::begin(self, isolation))),
        }
    }

    fn flush(&self) -> Result<()> {
        let l = self.library;
        for &family in &self.families {
            // SAFETY: the handles are open.
            checked(l, |e| unsafe {
                (l.flush_cf)(self.db, self.flush, family, e);
            })?;
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        for &family in &self.families {
            // SAFETY: the handles are open; no bounds are given.
            unsafe { (self.library.compact_range_cf)(self.db, family, null(), 0, null(), 0) };
        }
        Ok(())
    }

    fn wait_idle(&self) -> Result<()> {
        const WORK: [&str; 4] = [
            "rocksdb.num-running-compactions",
            "rocksdb.num-running-flushes",
            "rocksdb.compaction-pending",
            "rocksdb.mem-table-flush-pending",
        ];
        // A job that is due may not have begun: quiet counts when it lasts for a while.
        let mut quiet = 0;
        while quiet < 10 {
            let is_busy = self
                .families
                .iter()
                .any(|f| WORK.iter().any(|name| self.property(*f, name) > 0));
            quiet = if is_busy { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn levels(&self) -> Result<Vec<Level>> {
        let l = self.library;
        let mut levels = Vec::new();
        // SAFETY: the list lives from here to its destruction; indices stay below its count.
        unsafe {
            let files = (l.livefiles)(self.db);
            for index in 0..(l.livefiles_count)(files) {
                let level = usize::try_from((l.livefiles_level)(files, index)).unwrap_or(0);
                if levels.len() <= level {
                    levels.resize(level + 1, Level::default());
                }
                levels[level].files += 1;
                levels[level].bytes += (l.livefiles_size)(files, index) as u64;
            }
            (l.livefiles_destroy)(files);
        }
        Ok(levels)
    }

    fn counters(&self) -> Counters {
        // SAFETY: the options are open; the text is taken over.
        let text = unsafe { (self.library.options_statistics_get_string)(self.options) };
        Counters::of_text(&self.library.take_text(text).unwrap_or_default())
    }

    fn start_trace(&self, file: &Path) -> Result<()> {
        let l = self.library;
        let (Some(create), Some(destroy), Some(start)) = (
            l.trace_options_create,
            l.trace_options_destroy,
            l.start_trace,
        ) else {
            return Err(Error::unsupported(&self.label, "traces in its C functions"));
        };
        let file = c_text(&file.to_string_lossy())?;
        // SAFETY: all handles are made here and destroyed after the call, which copies what it keeps; the
        // environment is the process's own, of which the wrapper alone is destroyed.
        unsafe {
            let (env, with, options) =
                ((l.create_default_env)(), (l.envoptions_create)(), create());
            let result = checked(l, |e| start(self.db, env, with, options, file.as_ptr(), e));
            destroy(options);
            (l.envoptions_destroy)(with);
            (l.env_destroy)(env);
            result
        }
    }

    fn end_trace(&self) -> Result<()> {
        let l = self.library;
        let Some(end) = l.end_trace else {
            return Err(Error::unsupported(&self.label, "traces in its C functions"));
        };
        // SAFETY: the handle is open.
        checked(l, |e| unsafe { end(self.db, e) })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
