//! `rocksdb_load_latest_options`: options of a database from its newest OPTIONS file.

use crate::cache::rocksdb_cache_t;
use crate::env::rocksdb_env_t;
use crate::ffi::{array, boxed, malloc_array, malloc_copy, path, report, unbox};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions, OptionsFile, Sidecar};
use spanlith_base::Result;
use spanlith_base::byte_text::bytes_of_text;
use spanlith_table::BlockCache;
use std::path::Path;
use std::ptr;

/// A handle with the options of a family; what they name is made.
fn handle(
    db: &DbOptions,
    cf: CfOptions,
    table: BlockBasedTableOptions,
    env: &rocksdb_env_t,
    cache: Option<&BlockCache>,
) -> Result<rocksdb_options_t> {
    let mut options = rocksdb_options_t::default().named(db.clone(), cf, table)?;
    options.env = env.clone();
    options.block_cache = cache.cloned();
    Ok(options)
}

struct Loaded {
    db: rocksdb_options_t,
    names: Vec<String>,
    families: Vec<rocksdb_options_t>,
}

fn load(
    dir: &Path,
    env: &rocksdb_env_t,
    ignore_unknown: bool,
    cache: Option<&BlockCache>,
) -> Result<Loaded> {
    let file = OptionsFile::find_newest(&env.env, dir)?;
    let file = OptionsFile::read(&env.env, &file, ignore_unknown)?;
    let plain = (CfOptions::default(), BlockBasedTableOptions::default());
    let mut loaded = Loaded {
        db: handle(&file.db, plain.0, plain.1, env, cache)?,
        names: Vec::new(),
        families: Vec::new(),
    };
    let own = Sidecar::load(&env.env, dir)?.unwrap_or_default();
    loaded.db.db.own = own.db.clone();
    for (name, mut cf, table) in file.families {
        cf.own = own.family(&name);
        loaded.names.push(name);
        loaded
            .families
            .push(handle(&DbOptions::default(), cf, table, env, cache)?);
    }
    Ok(loaded)
}

c_api! {
    /// Options of the database and of each family, with their names. On an error all results are
    /// NULL and 0.
    fn rocksdb_load_latest_options(
        db_path: *const c_char,
        env: *mut rocksdb_env_t,
        ignore_unknown_options: bool,
        cache: *mut rocksdb_cache_t,
        db_options: *mut *mut rocksdb_options_t,
        num_column_families: *mut usize,
        column_family_names: *mut *mut *mut c_char,
        column_family_options: *mut *mut *mut rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) {
        *db_options = ptr::null_mut();
        *num_column_families = 0;
        *column_family_names = ptr::null_mut();
        *column_family_options = ptr::null_mut();
        report(errptr, (), || {
            let env = env.as_ref().cloned().unwrap_or_default();
            let cache = cache.as_ref().map(|c| &c.0);
            let loaded = load(&path(db_path), &env, ignore_unknown_options, cache)?;
            let names: Vec<*mut c_char> =
                loaded.names.iter().map(|n| malloc_copy(&bytes_of_text(n))).collect();
            let families: Vec<*mut rocksdb_options_t> =
                loaded.families.into_iter().map(boxed).collect();
            *db_options = boxed(loaded.db);
            *num_column_families = names.len();
            *column_family_names = malloc_array(&names);
            *column_family_options = malloc_array(&families);
            Ok(())
        });
    }

    /// Frees what `rocksdb_load_latest_options` returned.
    fn rocksdb_load_latest_options_destroy(
        db_options: *mut rocksdb_options_t,
        list_column_family_names: *mut *mut c_char,
        list_column_family_options: *mut *mut rocksdb_options_t,
        len: usize,
    ) {
        drop(unbox(db_options));
        if !list_column_family_names.is_null() {
            for name in array(list_column_family_names.cast_const(), len) {
                libc::free(name.cast::<c_void>());
            }
            libc::free(list_column_family_names.cast());
        }
        if !list_column_family_options.is_null() {
            for options in array(list_column_family_options.cast_const(), len) {
                drop(unbox(*options));
            }
            libc::free(list_column_family_options.cast());
        }
    }
}
