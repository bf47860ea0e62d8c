//! RocksDB's C interface of an older generation, served by Spanlith, under the name, version and features of the
//! published crate `librocksdb-sys` of that generation.
//!
//! The declarations are those of the newest generation but for the functions whose arguments have changed since. They
//! are declared here, where they hide the newer ones.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    clashing_extern_declarations,
    missing_docs,
    reason = "the names are those of the C interface, which docs/compat.md describes"
)]

// The functions are defined there; the linker takes them from it.
extern crate spanlith_capi as _;

#[rustfmt::skip]
#[path = "../src/bindings/constants.rs"]
mod constants;
#[rustfmt::skip]
#[path = "../src/bindings/database.rs"]
mod database;
#[rustfmt::skip]
#[path = "../src/bindings/jobs.rs"]
mod jobs;
#[rustfmt::skip]
#[path = "../src/bindings/options.rs"]
mod options;
#[rustfmt::skip]
#[path = "../src/bindings/settings.rs"]
mod settings;
#[rustfmt::skip]
#[path = "../src/bindings/transactions.rs"]
mod transactions;
#[rustfmt::skip]
#[path = "../src/bindings/types.rs"]
mod types;

pub use constants::*;
pub use database::*;
pub use jobs::*;
pub use options::*;
pub use settings::*;
pub use transactions::*;
pub use types::*;

unsafe extern "C" {
    /// Releases before 11 take `in_range`, too.
    pub fn rocksdb_slicetransform_create(
        state: *mut libc::c_void,
        destructor: Option<unsafe extern "C" fn(state: *mut libc::c_void)>,
        transform: Option<
            unsafe extern "C" fn(
                state: *mut libc::c_void,
                key: *const libc::c_char,
                length: usize,
                dst_length: *mut usize,
            ) -> *mut libc::c_char,
        >,
        in_domain: Option<
            unsafe extern "C" fn(
                state: *mut libc::c_void,
                key: *const libc::c_char,
                length: usize,
            ) -> libc::c_uchar,
        >,
        in_range: Option<
            unsafe extern "C" fn(
                state: *mut libc::c_void,
                key: *const libc::c_char,
                length: usize,
            ) -> libc::c_uchar,
        >,
        name: Option<unsafe extern "C" fn(state: *mut libc::c_void) -> *const libc::c_char>,
    ) -> *mut rocksdb_slicetransform_t;

    /// Releases before 9 take `force`, too.
    #[cfg(force_of_deletions)]
    pub fn rocksdb_enable_file_deletions(
        db: *mut rocksdb_t,
        force: libc::c_uchar,
        errptr: *mut *mut libc::c_char,
    );

    /// Releases up to 8.1 have no more parameters.
    #[cfg(short_plain_table)]
    pub fn rocksdb_options_set_plain_table_factory(
        options: *mut rocksdb_options_t,
        user_key_len: u32,
        bloom_bits_per_key: libc::c_int,
        hash_table_ratio: f64,
        index_sparseness: usize,
    );
}
