//! `rocksdb_column_family_metadata_t`: levels and tables of a family.
//!
//! Handles of levels and tables share what they look into, so they may outlive the handle they came
//! from.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, lend_if, malloc_copy};
use crate::live_files::place;
use libc::c_char;
use spanlith::{Cf, LiveFile};
use spanlith_base::byte_text::bytes_of_text;
use std::cmp::Ordering;
use std::ptr;
use std::sync::Arc;

struct Shown {
    name: String,
    levels: Vec<(i32, Vec<LiveFile>)>,
}

/// A column family at one moment.
pub struct rocksdb_column_family_metadata_t(Arc<Shown>);

/// A level of it.
pub struct rocksdb_level_metadata_t(Arc<Shown>, usize);

/// A table of it.
pub struct rocksdb_sst_file_metadata_t(Arc<Shown>, usize, usize);

/// Which tables to show.
pub struct rocksdb_column_family_metadata_options_t {
    /// -1 for all.
    level: i32,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl Default for rocksdb_column_family_metadata_options_t {
    fn default() -> Self {
        Self {
            level: -1,
            start: None,
            end: None,
        }
    }
}

impl rocksdb_level_metadata_t {
    fn files(&self) -> &[LiveFile] {
        &self.0.levels[self.1].1
    }
}

impl rocksdb_sst_file_metadata_t {
    fn file(&self) -> &LiveFile {
        &self.0.levels[self.1].1[self.2]
    }
}

fn total(files: &[LiveFile]) -> u64 {
    files.iter().map(|f| f.size).sum()
}

/// The files of a level that overlap the range. As in RocksDB those of level 0 widen it to their own
/// keys, and the search begins anew until no file is added; they come in the order they are found.
fn within(
    cf: &Cf,
    options: &rocksdb_column_family_metadata_options_t,
    level: i32,
    files: Vec<LiveFile>,
) -> Vec<LiveFile> {
    let compare = |a: &[u8], b: &[u8]| cf.comparator().compare(a, b);
    let (mut start, mut end) = (options.start.clone(), options.end.clone());
    let (mut found, mut left) = (Vec::new(), files);
    loop {
        let known = found.len();
        let mut outside = Vec::new();
        for file in left {
            let is_before = |s: &Vec<u8>| compare(&file.largest, s) == Ordering::Less;
            let is_behind = |e: &Vec<u8>| compare(&file.smallest, e) == Ordering::Greater;
            if start.as_ref().is_some_and(is_before) || end.as_ref().is_some_and(is_behind) {
                outside.push(file);
                continue;
            }
            if level == 0 {
                if let Some(start) = &mut start
                    && compare(&file.smallest, start) == Ordering::Less
                {
                    start.clone_from(&file.smallest);
                }
                if let Some(end) = &mut end
                    && compare(&file.largest, end) == Ordering::Greater
                {
                    end.clone_from(&file.largest);
                }
            }
            found.push(file);
        }
        left = outside;
        if level != 0 || found.len() == known {
            return found;
        }
    }
}

fn all_levels(cf: &Cf) -> Vec<(i32, Vec<LiveFile>)> {
    let mut levels: Vec<(i32, Vec<LiveFile>)> = (0..cf.num_levels() as i32)
        .map(|n| (n, Vec::new()))
        .collect();
    for file in cf.live_files() {
        levels[file.level].1.push(file);
    }
    levels
}

/// All levels, with all tables.
fn look(cf: &Cf) -> *mut rocksdb_column_family_metadata_t {
    shown(cf, all_levels(cf))
}

/// Returns what options ask for; as in RocksDB these are only levels that have something. NULL options are the
/// defaults.
fn look_for(
    cf: &Cf,
    options: Option<&rocksdb_column_family_metadata_options_t>,
) -> *mut rocksdb_column_family_metadata_t {
    let all = rocksdb_column_family_metadata_options_t::default();
    let options = options.unwrap_or(&all);
    let mut levels = all_levels(cf);
    if options.level >= 0 {
        levels.retain(|(n, _)| *n == options.level);
    }
    for (level, files) in &mut levels {
        *files = within(cf, options, *level, std::mem::take(files));
    }
    levels.retain(|(_, files)| !files.is_empty());
    shown(cf, levels)
}

fn shown(cf: &Cf, levels: Vec<(i32, Vec<LiveFile>)>) -> *mut rocksdb_column_family_metadata_t {
    let name = cf.name().to_string();
    boxed(rocksdb_column_family_metadata_t(Arc::new(Shown {
        name,
        levels,
    })))
}

c_api! {
    /// Levels and tables of the default family.
    fn rocksdb_get_column_family_metadata(
        db: *mut rocksdb_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        look(&(*db).cf)
    }

    /// Levels and tables of the default family, those that options ask for.
    fn rocksdb_get_column_family_metadata_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_column_family_metadata_options_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        look_for(&(*db).cf, options.as_ref())
    }

    /// Levels and tables of a family.
    fn rocksdb_get_column_family_metadata_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        look(&(*column_family).cf)
    }

    /// Levels and tables of a family, those that options ask for.
    fn rocksdb_get_column_family_metadata_cf_with_options(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_column_family_metadata_options_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        look_for(&(*column_family).cf, options.as_ref())
    }

    /// All tables.
    fn rocksdb_column_family_metadata_options_create(
    ) -> *mut rocksdb_column_family_metadata_options_t {
        boxed(rocksdb_column_family_metadata_options_t::default())
    }

    /// Shows one level only; -1 for all.
    fn rocksdb_column_family_metadata_options_set_level(
        options: *mut rocksdb_column_family_metadata_options_t,
        value: i32,
    ) {
        (*options).level = value;
    }

    /// The level that is shown; -1 for all.
    fn rocksdb_column_family_metadata_options_get_level(
        options: *mut rocksdb_column_family_metadata_options_t,
    ) -> i32 {
        (*options).level
    }

    /// Shows tables with keys at or after `key` only.
    fn rocksdb_column_family_metadata_options_set_start_key(
        options: *mut rocksdb_column_family_metadata_options_t,
        key: *const c_char,
        key_len: usize,
    ) {
        (*options).start = (!key.is_null()).then(|| bytes(key, key_len).to_vec());
    }

    /// First key of interest, lent; NULL for none.
    fn rocksdb_column_family_metadata_options_get_start_key(
        options: *const rocksdb_column_family_metadata_options_t,
        key_len: *mut usize,
    ) -> *const c_char {
        lend_if((*options).start.as_deref(), key_len)
    }

    /// Shows tables with keys at or before `key` only.
    fn rocksdb_column_family_metadata_options_set_end_key(
        options: *mut rocksdb_column_family_metadata_options_t,
        key: *const c_char,
        key_len: usize,
    ) {
        (*options).end = (!key.is_null()).then(|| bytes(key, key_len).to_vec());
    }

    /// Last key of interest, lent; NULL for none.
    fn rocksdb_column_family_metadata_options_get_end_key(
        options: *const rocksdb_column_family_metadata_options_t,
        key_len: *mut usize,
    ) -> *const c_char {
        lend_if((*options).end.as_deref(), key_len)
    }

    /// Bytes of all tables.
    fn rocksdb_column_family_metadata_get_size(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> u64 {
        let shown = &(*cf_meta).0;
        shown.levels.iter().map(|(_, files)| total(files)).sum()
    }

    /// Number of tables.
    fn rocksdb_column_family_metadata_get_file_count(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> usize {
        let shown = &(*cf_meta).0;
        shown.levels.iter().map(|(_, files)| files.len()).sum()
    }

    /// Name of the family, from `malloc`.
    fn rocksdb_column_family_metadata_get_name(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> *mut c_char {
        let shown = &(*cf_meta).0;
        malloc_copy(&bytes_of_text(&shown.name))
    }

    /// Number of levels.
    fn rocksdb_column_family_metadata_get_level_count(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> usize {
        let shown = &(*cf_meta).0;
        shown.levels.len()
    }

    /// A level; NULL if there are not so many.
    fn rocksdb_column_family_metadata_get_level_metadata(
        cf_meta: *mut rocksdb_column_family_metadata_t,
        i: usize,
    ) -> *mut rocksdb_level_metadata_t {
        let shown = &(*cf_meta).0;
        if i >= shown.levels.len() {
            return ptr::null_mut();
        }
        boxed(rocksdb_level_metadata_t(shown.clone(), i))
    }

    /// Number of the level.
    fn rocksdb_level_metadata_get_level(level_meta: *mut rocksdb_level_metadata_t) -> i32 {
        let level = &*level_meta;
        level.0.levels[level.1].0
    }

    /// Bytes of its tables.
    fn rocksdb_level_metadata_get_size(level_meta: *mut rocksdb_level_metadata_t) -> u64 {
        total((*level_meta).files())
    }

    /// Number of its tables.
    fn rocksdb_level_metadata_get_file_count(level_meta: *mut rocksdb_level_metadata_t) -> usize {
        (*level_meta).files().len()
    }

    /// A table; NULL if there are not so many.
    fn rocksdb_level_metadata_get_sst_file_metadata(
        level_meta: *mut rocksdb_level_metadata_t,
        i: usize,
    ) -> *mut rocksdb_sst_file_metadata_t {
        let level = &*level_meta;
        if i >= level.files().len() {
            return ptr::null_mut();
        }
        boxed(rocksdb_sst_file_metadata_t(level.0.clone(), level.1, i))
    }

    /// Name of the file, from `malloc`.
    fn rocksdb_sst_file_metadata_get_relative_filename(
        file_meta: *mut rocksdb_sst_file_metadata_t,
    ) -> *mut c_char {
        malloc_copy(place((*file_meta).file()).0.as_bytes())
    }

    /// Directory of the file, from `malloc`.
    fn rocksdb_sst_file_metadata_get_directory(
        file_meta: *mut rocksdb_sst_file_metadata_t,
    ) -> *mut c_char {
        malloc_copy(place((*file_meta).file()).1.as_bytes())
    }

    /// Bytes of the file.
    fn rocksdb_sst_file_metadata_get_size(file_meta: *mut rocksdb_sst_file_metadata_t) -> u64 {
        (*file_meta).file().size
    }

    /// Smallest user key, from `malloc`.
    fn rocksdb_sst_file_metadata_get_smallestkey(
        file_meta: *mut rocksdb_sst_file_metadata_t,
        len: *mut usize,
    ) -> *mut c_char {
        let key = &(*file_meta).file().smallest;
        *len = key.len();
        malloc_copy(key)
    }

    /// Largest user key, from `malloc`.
    fn rocksdb_sst_file_metadata_get_largestkey(
        file_meta: *mut rocksdb_sst_file_metadata_t,
        len: *mut usize,
    ) -> *mut c_char {
        let key = &(*file_meta).file().largest;
        *len = key.len();
        malloc_copy(key)
    }
}

destroyers! {
    rocksdb_column_family_metadata_destroy(rocksdb_column_family_metadata_t);
    rocksdb_column_family_metadata_options_destroy(rocksdb_column_family_metadata_options_t);
    rocksdb_level_metadata_destroy(rocksdb_level_metadata_t);
    rocksdb_sst_file_metadata_destroy(rocksdb_sst_file_metadata_t);
}
