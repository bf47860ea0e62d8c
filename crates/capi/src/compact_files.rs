//! Compactions of named tables, and their options.

use crate::convert::FromC;
use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, malloc_array, malloc_copy, report, text};
use crate::job_info::rocksdb_compactionjobinfo_t;
use libc::{c_char, c_void};
use spanlith::options::{CompressionType, Temperature};
use spanlith::version::{FileKind, filenames, parse_file_name};
use spanlith::{Cf, CompactFilesOptions};
use spanlith_base::{Error, Result};
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Options of a compaction of named tables.
pub struct rocksdb_compaction_options_t {
    /// RocksDB's number; the level's own codec unless it was changed.
    compression: i32,
    output_file_size_limit: u64,
    max_subcompactions: u32,
    /// RocksDB's number of a temperature.
    temperature: i32,
    allow_trivial_move: bool,
    /// The C program's flag.
    canceled: *mut u8,
}

/// "As the level's options say".
const LEVELS_OWN: i32 = 255;

impl rocksdb_compaction_options_t {
    /// # Safety
    /// The flag, if there is one, is valid and comes from `rocksdb_compaction_options_canceled_create`.
    unsafe fn checked(&self) -> Result<CompactFilesOptions> {
        let compression = match self.compression {
            LEVELS_OWN => None,
            number => Some(CompressionType::from_c(number)?),
        };
        let mut options = CompactFilesOptions {
            output_file_size_limit: self.output_file_size_limit,
            max_subcompactions: self.max_subcompactions,
            compression,
            output_temperature: Temperature::from_c(self.temperature)?,
            ..CompactFilesOptions::default()
        };
        if !self.canceled.is_null() {
            // SAFETY: The caller says so; the flag stays with the C program.
            let flag = unsafe {
                Arc::increment_strong_count(self.canceled.cast::<AtomicBool>());
                Arc::from_raw(self.canceled.cast::<AtomicBool>())
            };
            options.canceled = Some(flag);
        }
        Ok(options)
    }
}

/// Number of a table by its name, with or without directories; 0, which no table has, by any other name.
fn number_of(name: &str) -> u64 {
    let file = Path::new(name).file_name().unwrap_or_default();
    match parse_file_name(&file.to_string_lossy()) {
        Some(FileKind::Table(number)) => number,
        _ => 0,
    }
}

/// Compacts tables; returns the paths of those it made.
fn run(
    cf: &Cf,
    options: &CompactFilesOptions,
    names: &[String],
    level: i32,
) -> Result<Vec<String>> {
    let numbers: Vec<u64> = names.iter().map(|n| number_of(n)).collect();
    let level = usize::try_from(level)
        .map_err(|_| Error::invalid_argument("Output level cannot be negative."))?;
    let made = cf.compact_files(&numbers, level, options)?;
    let files = cf.live_files();
    let path = |number: u64| {
        let known = files
            .iter()
            .find(|f| f.number == number)
            .map(|f| f.path.clone());
        let path = known.unwrap_or_else(|| cf.db().path().join(filenames::table_file_name(number)));
        path.to_string_lossy().into_owned()
    };
    Ok(made.into_iter().map(path).collect())
}

/// # Safety
/// Pointers and arrays as in the C function.
unsafe fn compact(
    cf: &Cf,
    options: &rocksdb_compaction_options_t,
    (names, count): (*const *const c_char, usize),
    (level, path_id): (i32, i32),
    (output_names, output_count): (*mut *mut *mut c_char, *mut usize),
    job_info: *mut rocksdb_compactionjobinfo_t,
) -> Result<()> {
    // SAFETY: The caller says so.
    unsafe {
        if let Some(count) = output_count.as_mut() {
            *count = 0;
        }
        if let Some(list) = output_names.as_mut() {
            *list = ptr::null_mut();
        }
        let names: Vec<String> = array(names, count)
            .iter()
            .map(|n| text(*n).into_owned())
            .collect();
        let mut options = options.checked()?;
        let info = Arc::new(OnceLock::new());
        if !job_info.is_null() {
            options.info = Some(info.clone());
        }
        // Any negative number is "none".
        options.output_path_id = u32::try_from(path_id).ok();
        let made = run(cf, &options, &names, level);
        if let (Some(into), Some(info)) = (job_info.as_mut(), info.get()) {
            *into = rocksdb_compactionjobinfo_t::new(info);
        }
        let made = made?;
        if let (Some(list), Some(count)) = (output_names.as_mut(), output_count.as_mut()) {
            let copies: Vec<*mut c_char> = made.iter().map(|n| malloc_copy(n.as_bytes())).collect();
            (*list, *count) = (malloc_array(&copies), copies.len());
        }
    }
    Ok(())
}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_compaction_options_create() -> *mut rocksdb_compaction_options_t {
        boxed(rocksdb_compaction_options_t {
            compression: LEVELS_OWN,
            output_file_size_limit: u64::MAX,
            max_subcompactions: 0,
            temperature: 0,
            allow_trivial_move: false,
            canceled: ptr::null_mut(),
        })
    }

    /// A flag that calls a compaction off, not set.
    fn rocksdb_compaction_options_canceled_create() -> *mut u8 {
        Arc::into_raw(Arc::new(AtomicBool::new(false))).cast_mut().cast()
    }

    /// Destroys a flag; compactions that still look at it keep it alive.
    fn rocksdb_compaction_options_canceled_destroy(canceled: *mut u8) {
        if !canceled.is_null() {
            drop(Arc::from_raw(canceled.cast::<AtomicBool>()));
        }
    }

    /// Sets a flag, or takes it back.
    fn rocksdb_compaction_options_canceled_set(canceled: *mut u8, value: u8) {
        if let Some(flag) = canceled.cast::<AtomicBool>().as_ref() {
            flag.store(value != 0, std::sync::atomic::Ordering::Release);
        }
    }

    /// The flag that calls the compaction off; the C program keeps it. NULL for none.
    fn rocksdb_compaction_options_set_canceled(
        options: *mut rocksdb_compaction_options_t,
        canceled: *mut u8,
    ) {
        (*options).canceled = canceled;
    }

    /// Compacts tables of the default family into a level. Paths of the new tables are from
    /// `malloc`. `compaction_job_info` may be NULL; else it learns what the compaction did.
    fn rocksdb_compact_files(
        db: *mut rocksdb_t,
        options: *const rocksdb_compaction_options_t,
        input_file_names: *const *const c_char,
        num_input_file_names: usize,
        output_level: i32,
        output_path_id: i32,
        output_file_names: *mut *mut *mut c_char,
        num_output_file_names: *mut usize,
        compaction_job_info: *mut rocksdb_compactionjobinfo_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let inputs = (input_file_names, num_input_file_names);
            let outputs = (output_file_names, num_output_file_names);
            let place = (output_level, output_path_id);
            compact(&(*db).cf, &*options, inputs, place, outputs, compaction_job_info)
        });
    }

    /// Compacts tables of a family into a level, as `rocksdb_compact_files`.
    fn rocksdb_compact_files_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_compaction_options_t,
        input_file_names: *const *const c_char,
        num_input_file_names: usize,
        output_level: i32,
        output_path_id: i32,
        output_file_names: *mut *mut *mut c_char,
        num_output_file_names: *mut usize,
        compaction_job_info: *mut rocksdb_compactionjobinfo_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let inputs = (input_file_names, num_input_file_names);
            let outputs = (output_file_names, num_output_file_names);
            let place = (output_level, output_path_id);
            compact(&(*column_family).cf, &*options, inputs, place, outputs, compaction_job_info)
        });
    }

    /// Frees a list of paths.
    fn rocksdb_compact_files_output_file_names_destroy(
        output_file_names: *mut *mut c_char,
        num_output_file_names: usize,
    ) {
        if output_file_names.is_null() {
            return;
        }
        for name in array(output_file_names.cast_const(), num_output_file_names) {
            libc::free(name.cast::<c_void>());
        }
        libc::free(output_file_names.cast());
    }
}

macro_rules! fields {
    ($($field:ident: $ty:ty, $set:ident, $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(options: *mut rocksdb_compaction_options_t, value: $ty) {
                (*options).$field = value;
            }

            #[doc = concat!("Value of `", stringify!($field), "`.")]
            fn $get(options: *mut rocksdb_compaction_options_t) -> $ty {
                (*options).$field
            }
        )*}
    };
}

fields! {
    compression: i32, rocksdb_compaction_options_set_compression,
        rocksdb_compaction_options_get_compression;
    output_file_size_limit: u64, rocksdb_compaction_options_set_output_file_size_limit,
        rocksdb_compaction_options_get_output_file_size_limit;
    max_subcompactions: u32, rocksdb_compaction_options_set_max_subcompactions,
        rocksdb_compaction_options_get_max_subcompactions;
    temperature: i32, rocksdb_compaction_options_set_output_temperature_override,
        rocksdb_compaction_options_get_output_temperature_override;
}

c_api! {
    /// Sets whether tables that need no rewriting are moved; a hint.
    fn rocksdb_compaction_options_set_allow_trivial_move(
        options: *mut rocksdb_compaction_options_t,
        value: u8,
    ) {
        (*options).allow_trivial_move = value != 0;
    }

    /// Returns whether tables that need no rewriting are moved.
    fn rocksdb_compaction_options_get_allow_trivial_move(
        options: *mut rocksdb_compaction_options_t,
    ) -> u8 {
        (*options).allow_trivial_move.into()
    }
}

destroyers! {
    rocksdb_compaction_options_destroy(rocksdb_compaction_options_t);
}
