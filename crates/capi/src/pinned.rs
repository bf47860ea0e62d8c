//! `rocksdb_pinnableslice_t` and `rocksdb_pinnable_handle_t`: values that stay where they are.

use crate::ffi::lend_if;
use libc::c_char;
use spanlith::Pinned;

/// A value; its bytes stay valid until it is destroyed, whatever happens to the database.
pub struct rocksdb_pinnableslice_t(pub(crate) Pinned);

/// A value, as `rocksdb_pinnableslice_t`.
pub struct rocksdb_pinnable_handle_t(pub(crate) Pinned);

c_api! {
    /// The bytes; NULL and 0 for NULL.
    fn rocksdb_pinnableslice_value(
        slice: *const rocksdb_pinnableslice_t,
        vlen: *mut usize,
    ) -> *const c_char {
        lend_if(slice.as_ref().map(|s| &s.0[..]), vlen)
    }

    /// The bytes; NULL and 0 for NULL.
    fn rocksdb_pinnable_handle_get_value(
        handle: *const rocksdb_pinnable_handle_t,
        vallen: *mut usize,
    ) -> *const c_char {
        lend_if(handle.as_ref().map(|h| &h.0[..]), vallen)
    }
}

destroyers! {
    rocksdb_pinnableslice_destroy(rocksdb_pinnableslice_t);
    rocksdb_pinnable_handle_destroy(rocksdb_pinnable_handle_t);
}
