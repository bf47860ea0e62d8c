//! `rocksdb_optimistictransactiondb_t`: a database whose transactions lock nothing and are checked when they commit.

use crate::batch::rocksdb_writebatch_t;
use crate::checkpoint::{rocksdb_checkpoint_object_create, rocksdb_checkpoint_t};
use crate::db::{rocksdb_open, rocksdb_open_column_families, rocksdb_t};
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, unbox};
use crate::options::rocksdb_options_t;
use crate::property::{rocksdb_property_int, rocksdb_property_value};
use crate::transaction_db::{close_base, forwarded};
use crate::txn_options::rocksdb_optimistictransactiondb_options_t;
use crate::write::rocksdb_write;
use crate::write_options::rocksdb_writeoptions_t;
use libc::c_char;

/// A database with transactions that do not lock: a `rocksdb_t`.
#[repr(transparent)]
pub struct rocksdb_optimistictransactiondb_t {
    pub(crate) base: rocksdb_t,
}

forwarded! { rocksdb_optimistictransactiondb_t {
    /// Applies a batch: all of it or nothing. The batch learns its sequence number.
    fn rocksdb_optimistictransactiondb_write(
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) = rocksdb_write;

    /// A property as text, from `malloc`; NULL if there is no such property.
    fn rocksdb_optimistictransactiondb_property_value(propname: *const c_char) -> *mut c_char
        = rocksdb_property_value;

    /// A property as a number: 0, or -1 if there is no such property.
    fn rocksdb_optimistictransactiondb_property_int(
        propname: *const c_char,
        out_val: *mut u64,
    ) -> i32 = rocksdb_property_int;

    /// Something that makes checkpoints of the database as long as it is open.
    fn rocksdb_optimistictransactiondb_checkpoint_object_create(
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_checkpoint_t = rocksdb_checkpoint_object_create;
}}

c_api! {
    /// Opens a database with its default column family.
    fn rocksdb_optimistictransactiondb_open(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        rocksdb_open(options, name, errptr).cast()
    }

    /// As without options of the database, of which none has an effect.
    fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: *const rocksdb_options_t,
        _otxn_db_options: *const rocksdb_optimistictransactiondb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        rocksdb_open(options, name, errptr).cast()
    }

    /// Opens a database with column families; a handle for each goes to `column_family_handles`.
    fn rocksdb_optimistictransactiondb_open_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        let opened = rocksdb_open_column_families(
            options,
            name,
            num_column_families,
            column_family_names,
            column_family_options,
            column_family_handles,
            errptr,
        );
        opened.cast()
    }

    /// As without options of the database, of which none has an effect.
    fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        options: *const rocksdb_options_t,
        _otxn_db_options: *const rocksdb_optimistictransactiondb_options_t,
        name: *const c_char,
        num_column_families: i32,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        let opened = rocksdb_open_column_families(
            options,
            name,
            num_column_families,
            column_family_names,
            column_family_options,
            column_family_handles,
            errptr,
        );
        opened.cast()
    }

    /// Closes the database, as `rocksdb_close`; NULL is ignored.
    fn rocksdb_optimistictransactiondb_close(otxn_db: *mut rocksdb_optimistictransactiondb_t) {
        if let Some(db) = unbox(otxn_db) {
            db.base.close();
        }
    }

    /// The database without transactions: what it writes transactions see as conflicts all the same.
    fn rocksdb_optimistictransactiondb_get_base_db(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
    ) -> *mut rocksdb_t {
        boxed((*otxn_db).base.again())
    }

    /// Frees a handle of the database without transactions, which stays open; NULL is ignored.
    fn rocksdb_optimistictransactiondb_close_base_db(base_db: *mut rocksdb_t) {
        close_base(base_db);
    }
}
