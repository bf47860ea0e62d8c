//! `rocksdb_slicetransform_t`: prefix extractors, built in or written in C.

use crate::comparator::{DestructorFn, NameFn, State};
use crate::ffi::{boxed, bytes, text, unbox};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith_base::{SliceTransform, UserSliceTransform};
use std::sync::Arc;

/// A prefix extractor.
pub struct rocksdb_slicetransform_t(pub(crate) SliceTransform);

/// State, key, length of the prefix. The prefix is a part of the key, or lives as long as the state.
pub type TransformFn =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
/// State, key: whether it has a prefix.
pub type InDomainFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u8;

struct CSliceTransform {
    state: State,
    transform: TransformFn,
    in_domain: InDomainFn,
    name: String,
}

impl UserSliceTransform for CSliceTransform {
    fn name(&self) -> &str {
        &self.name
    }

    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: The key is valid for its length, the state is the C program's.
        let prefix = unsafe {
            let at = key.as_ptr().cast();
            (self.transform)(self.state.state, at, key.len(), &raw mut len)
        };
        // SAFETY: The callback returns so many bytes of the key or of its state, which outlives all
        // who may use the prefix: they hold the extractor.
        unsafe { bytes(prefix, len) }
    }

    fn in_domain(&self, key: &[u8]) -> bool {
        // SAFETY: As above.
        unsafe { (self.in_domain)(self.state.state, key.as_ptr().cast(), key.len()) != 0 }
    }
}

/// An extractor by callbacks.
///
/// # Safety
/// The callbacks and the state keep the promises of the [crate documentation](crate#safety).
unsafe fn by_callbacks(
    state: *mut c_void,
    destructor: Option<DestructorFn>,
    transform: TransformFn,
    in_domain: InDomainFn,
    name: NameFn,
) -> *mut rocksdb_slicetransform_t {
    // SAFETY: The caller's promise.
    let name = unsafe { text(name(state)) }.into_owned();
    let state = State::new(state, destructor);
    let extractor = CSliceTransform {
        state,
        transform,
        in_domain,
        name,
    };
    boxed(rocksdb_slicetransform_t(SliceTransform::Custom(Arc::new(
        extractor,
    ))))
}

c_api! {
    /// An extractor by callbacks.
    #[cfg(not(feature = "generation-10-4"))]
    fn rocksdb_slicetransform_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        transform: TransformFn,
        in_domain: InDomainFn,
        name: NameFn,
    ) -> *mut rocksdb_slicetransform_t {
        by_callbacks(state, destructor, transform, in_domain, name)
    }

    /// An extractor by callbacks. `in_range` is never called, as in RocksDB.
    #[cfg(feature = "generation-10-4")]
    fn rocksdb_slicetransform_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        transform: TransformFn,
        in_domain: InDomainFn,
        _in_range: Option<InDomainFn>,
        name: NameFn,
    ) -> *mut rocksdb_slicetransform_t {
        by_callbacks(state, destructor, transform, in_domain, name)
    }

    /// The first `prefix_length` bytes; shorter keys have no prefix.
    fn rocksdb_slicetransform_create_fixed_prefix(
        prefix_length: usize,
    ) -> *mut rocksdb_slicetransform_t {
        boxed(rocksdb_slicetransform_t(SliceTransform::FixedPrefix(prefix_length)))
    }

    /// The whole key.
    fn rocksdb_slicetransform_create_noop() -> *mut rocksdb_slicetransform_t {
        boxed(rocksdb_slicetransform_t(SliceTransform::Noop))
    }

    /// Takes an extractor; NULL removes it.
    fn rocksdb_options_set_prefix_extractor(
        options: *mut rocksdb_options_t,
        prefix_extractor: *mut rocksdb_slicetransform_t,
    ) {
        let o = &mut *options;
        o.prefix_extractor = unbox(prefix_extractor).map(|e| e.0);
        o.cf.prefix_extractor =
            o.prefix_extractor.as_ref().map_or("nullptr".to_string(), SliceTransform::name);
    }
}

destroyers! {
    rocksdb_slicetransform_destroy(rocksdb_slicetransform_t);
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn up_to_dash(
        _: *mut c_void,
        key: *const c_char,
        len: usize,
        prefix_len: *mut usize,
    ) -> *mut c_char {
        // SAFETY: The adapter passes valid pointers and lengths.
        unsafe {
            *prefix_len = bytes(key, len).iter().position(|b| *b == b'-').unwrap_or(0);
        }
        key.cast_mut()
    }

    unsafe extern "C" fn has_dash(_: *mut c_void, key: *const c_char, len: usize) -> u8 {
        // SAFETY: As above.
        unsafe { bytes(key, len) }.contains(&b'-').into()
    }

    unsafe extern "C" fn name(_: *mut c_void) -> *const c_char {
        c"test.Dash".as_ptr()
    }

    #[test]
    fn callbacks_cut_prefixes_out_of_keys_in_their_domain() {
        let state = std::ptr::null_mut();
        // SAFETY: The callbacks fit.
        let handle =
            unsafe { rocksdb_slicetransform_create(state, None, up_to_dash, has_dash, name) };
        // SAFETY: The handle was just made and is not used again.
        let extractor = unsafe { unbox(handle) }.unwrap().0;
        assert_eq!(extractor.name(), "test.Dash");
        assert_eq!(extractor.prefix(b"ab-c"), Some(&b"ab"[..]));
        assert_eq!(extractor.prefix(b"abc"), None);
    }
}
