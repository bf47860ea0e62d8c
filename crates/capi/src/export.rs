//! Families as files of their own: `rocksdb_export_import_files_metadata_t`, and how they are imported.

use crate::checkpoint::rocksdb_checkpoint_t;
use crate::db::{Mode, family_options, rocksdb_t};
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, family_name, malloc_copy, path, report, text};
use crate::live_files::rocksdb_livefiles_t;
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith::{ExportedFamily, ImportOptions};
use std::ptr;

/// The order and the tables of an exported family.
#[derive(Default)]
pub struct rocksdb_export_import_files_metadata_t {
    comparator: String,
    files: rocksdb_livefiles_t,
}

/// How a family is imported.
#[derive(Default)]
pub struct rocksdb_import_column_family_options_t(ImportOptions);

c_api! {
    /// Puts the tables of a family, which is flushed first, into a directory that must not exist, linked where that is
    /// possible; NULL if that fails.
    fn rocksdb_checkpoint_export_column_family(
        checkpoint: *mut rocksdb_checkpoint_t,
        column_family: *mut rocksdb_column_family_handle_t,
        export_dir: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_export_import_files_metadata_t {
        report(errptr, ptr::null_mut(), || {
            let _open = (*checkpoint).database()?;
            let exported = (*column_family).cf.export(path(export_dir))?;
            Ok(boxed(rocksdb_export_import_files_metadata_t {
                comparator: exported.comparator,
                files: rocksdb_livefiles_t::of_export(exported.files),
            }))
        })
    }

    /// Creates a family of exported tables; NULL if that fails, and then there is no such family.
    fn rocksdb_create_column_family_with_import(
        db: *mut rocksdb_t,
        column_family_options: *mut rocksdb_options_t,
        column_family_name: *const c_char,
        import_options: *mut rocksdb_import_column_family_options_t,
        metadata: *mut rocksdb_export_import_files_metadata_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report(errptr, ptr::null_mut(), || {
            let name = family_name(column_family_name);
            let family = family_options(&name, &*column_family_options, Mode::ReadWrite)?;
            let exported = ExportedFamily {
                comparator: (*metadata).comparator.clone(),
                files: (*metadata).files.to_tables(),
            };
            let cf = (*db).cf.db().import_cf(family, &exported, (*import_options).0)?;
            Ok(boxed(rocksdb_column_family_handle_t::of(cf)))
        })
    }

    /// Files are copied.
    fn rocksdb_import_column_family_options_create() -> *mut rocksdb_import_column_family_options_t {
        boxed(rocksdb_import_column_family_options_t::default())
    }

    /// Says whether files are linked, and their own names go.
    fn rocksdb_import_column_family_options_set_move_files(
        options: *mut rocksdb_import_column_family_options_t,
        move_files: u8,
    ) {
        (*options).0.move_files = move_files != 0;
    }

    /// Returns whether files are linked, and their own names go.
    fn rocksdb_import_column_family_options_get_move_files(
        options: *mut rocksdb_import_column_family_options_t,
    ) -> u8 {
        (*options).0.move_files.into()
    }

    /// No order and no tables.
    fn rocksdb_export_import_files_metadata_create() -> *mut rocksdb_export_import_files_metadata_t {
        boxed(rocksdb_export_import_files_metadata_t::default())
    }

    /// Name of the order of keys, from `malloc`.
    fn rocksdb_export_import_files_metadata_get_db_comparator_name(
        metadata: *mut rocksdb_export_import_files_metadata_t,
    ) -> *mut c_char {
        malloc_copy((*metadata).comparator.as_bytes())
    }

    /// Sets the name of the order of keys.
    fn rocksdb_export_import_files_metadata_set_db_comparator_name(
        metadata: *mut rocksdb_export_import_files_metadata_t,
        name: *const c_char,
    ) {
        (*metadata).comparator = text(name).into_owned();
    }

    /// A copy of the list of tables.
    fn rocksdb_export_import_files_metadata_get_files(
        metadata: *mut rocksdb_export_import_files_metadata_t,
    ) -> *mut rocksdb_livefiles_t {
        boxed((*metadata).files.clone())
    }

    /// Copies a list of tables into it.
    fn rocksdb_export_import_files_metadata_set_files(
        metadata: *mut rocksdb_export_import_files_metadata_t,
        files: *mut rocksdb_livefiles_t,
    ) {
        (*metadata).files = (*files).clone();
    }
}

destroyers! {
    rocksdb_import_column_family_options_destroy(rocksdb_import_column_family_options_t);
    rocksdb_export_import_files_metadata_destroy(rocksdb_export_import_files_metadata_t);
}
