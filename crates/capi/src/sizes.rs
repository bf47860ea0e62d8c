//! How much of a database lies in ranges of keys.

use crate::db::rocksdb_t;
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{array, boxed, bytes, report};
use libc::c_char;
use spanlith::{Cf, SizeOf};
use spanlith_base::{Error, Result};

/// Describes what counts.
#[derive(Default)]
pub struct rocksdb_size_approximation_options_t {
    of: SizeOf,
    include_blob_files: bool,
}

/// Bits of `include_flags`.
const INCLUDE_MEMTABLES: u8 = 1;
const INCLUDE_FILES: u8 = 2;
const INCLUDE_BLOB_FILES: u8 = 4;

impl rocksdb_size_approximation_options_t {
    fn from_flags(flags: u8) -> Self {
        Self {
            of: SizeOf {
                files: flags & INCLUDE_FILES != 0,
                memtables: flags & INCLUDE_MEMTABLES != 0,
                ..SizeOf::default()
            },
            include_blob_files: flags & INCLUDE_BLOB_FILES != 0,
        }
    }

    fn checked(&self) -> Result<SizeOf> {
        if !self.of.files && !self.of.memtables && !self.include_blob_files {
            return Err(Error::invalid_argument("Invalid options"));
        }
        Ok(self.of)
    }
}

/// Keys and their lengths.
type Keys = (*const *const c_char, *const usize);

/// # Safety
/// The arrays have `count` elements each, and each key its length.
unsafe fn measure(
    cf: &Cf,
    options: &rocksdb_size_approximation_options_t,
    count: i32,
    (starts, start_lens): Keys,
    (limits, limit_lens): Keys,
    sizes: *mut u64,
) -> Result<()> {
    let of = options.checked()?;
    let count = usize::try_from(count).unwrap_or(0);
    for at in 0..count {
        // SAFETY: The caller says so.
        unsafe {
            let start = bytes(array(starts, count)[at], array(start_lens, count)[at]);
            let limit = bytes(array(limits, count)[at], array(limit_lens, count)[at]);
            sizes.add(at).write(cf.approximate_size(start, limit, of)?);
        }
    }
    Ok(())
}

/// Functions over ranges: parameters before and after the ranges, the family, the options.
macro_rules! sizes {
    ($(
        $(#[$meta:meta])*
        $name:ident($($before:ident: $before_type:ty),*; $($behind:ident: $behind_type:ty)?),
            $db:ident => $family:expr, $options:expr;
    )*) => {
        c_api! {$(
            $(#[$meta])*
            fn $name(
                $db: *mut rocksdb_t,
                $($before: $before_type,)*
                num_ranges: i32,
                range_start_key: *const *const c_char,
                range_start_key_len: *const usize,
                range_limit_key: *const *const c_char,
                range_limit_key_len: *const usize,
                $($behind: $behind_type,)?
                sizes: *mut u64,
                errptr: *mut *mut c_char,
            ) {
                let _ = $db;
                report(errptr, (), || {
                    let starts = (range_start_key, range_start_key_len);
                    let limits = (range_limit_key, range_limit_key_len);
                    measure($family, $options, num_ranges, starts, limits, sizes)
                });
            }
        )*}
    };
}

type Handle = *mut rocksdb_column_family_handle_t;
type Options = *const rocksdb_size_approximation_options_t;

/// # Safety
/// NULL or a handle.
unsafe fn or_default<'a>(options: Options) -> &'a rocksdb_size_approximation_options_t {
    static DEFAULT: rocksdb_size_approximation_options_t = rocksdb_size_approximation_options_t {
        of: SizeOf {
            files: true,
            memtables: false,
            margin: -1.0,
        },
        include_blob_files: false,
    };
    // SAFETY: The caller says so.
    unsafe { options.as_ref() }.unwrap_or(&DEFAULT)
}

sizes! {
    /// Bytes of tables in ranges of the default family.
    rocksdb_approximate_sizes(;), db => &(*db).cf, or_default(std::ptr::null());
    /// Bytes of tables in ranges of a family.
    rocksdb_approximate_sizes_cf(column_family: Handle;),
        db => &(*column_family).cf, or_default(std::ptr::null());
    /// Bytes in ranges of a family; `include_flags` say what counts.
    rocksdb_approximate_sizes_cf_with_flags(column_family: Handle; include_flags: u8),
        db => &(*column_family).cf,
        &rocksdb_size_approximation_options_t::from_flags(include_flags);
    /// Bytes in ranges of the default family. NULL options are the defaults.
    rocksdb_approximate_sizes_with_options(options: Options;),
        db => &(*db).cf, or_default(options);
    /// Bytes in ranges of a family. NULL options are the defaults.
    rocksdb_approximate_sizes_cf_with_options(column_family: Handle, options: Options;),
        db => &(*column_family).cf, or_default(options);
}

c_api! {
    /// RocksDB's defaults: tables only.
    fn rocksdb_size_approximation_options_create() -> *mut rocksdb_size_approximation_options_t {
        boxed(rocksdb_size_approximation_options_t::default())
    }

    /// Sets the part of the result that it may be off.
    fn rocksdb_size_approximation_options_set_files_size_error_margin(
        options: *mut rocksdb_size_approximation_options_t,
        value: f64,
    ) {
        (*options).of.margin = value;
    }

    /// Part of the result that it may be off; negative for as little as possible.
    fn rocksdb_size_approximation_options_get_files_size_error_margin(
        options: *mut rocksdb_size_approximation_options_t,
    ) -> f64 {
        (*options).of.margin
    }
}

macro_rules! switches {
    ($($(#[$meta:meta])* $($field:ident).+: $set:ident, $get:ident;)*) => {
        c_api! {$(
            $(#[$meta])*
            fn $set(options: *mut rocksdb_size_approximation_options_t, value: u8) {
                (*options).$($field).+ = value != 0;
            }

            $(#[$meta])*
            fn $get(options: *mut rocksdb_size_approximation_options_t) -> u8 {
                (*options).$($field).+.into()
            }
        )*}
    };
}

switches! {
    /// Says whether memtables count.
    of.memtables:
        rocksdb_size_approximation_options_set_include_memtables,
        rocksdb_size_approximation_options_get_include_memtables;
    /// Says whether tables count.
    of.files:
        rocksdb_size_approximation_options_set_include_files,
        rocksdb_size_approximation_options_get_include_files;
    /// Says whether blob files count, in proportion to the tables that refer to them.
    include_blob_files:
        rocksdb_size_approximation_options_set_include_blob_files,
        rocksdb_size_approximation_options_get_include_blob_files;
}

destroyers! {
    rocksdb_size_approximation_options_destroy(rocksdb_size_approximation_options_t);
}
