//! `rocksdb_mergeoperator_t`: merge operators written in C.

use crate::comparator::{DestructorFn, NameFn, State};
use crate::ffi::{boxed, bytes, text};
use libc::{c_char, c_void};
use spanlith::MergeOperator;
use std::ptr;
use std::sync::Arc;

/// A merge operator.
pub struct rocksdb_mergeoperator_t(pub(crate) Arc<dyn MergeOperator>);

/// State, key, existing value (NULL: none), operands oldest first, success, length of the result.
pub type FullMergeFn = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    i32,
    *mut u8,
    *mut usize,
) -> *mut c_char;
/// State, key, operands oldest first, success, length of the result.
pub type PartialMergeFn = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    i32,
    *mut u8,
    *mut usize,
) -> *mut c_char;
/// Frees a result.
pub type DeleteValueFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

struct CMergeOperator {
    state: State,
    full_merge: FullMergeFn,
    partial_merge: Option<PartialMergeFn>,
    delete_value: Option<DeleteValueFn>,
    name: String,
}

impl CMergeOperator {
    /// Hands operands to a callback and copies its result; the callback's buffer is given back also
    /// when it failed.
    fn call(
        &self,
        operands: &[&[u8]],
        callback: impl FnOnce(
            *const *const c_char,
            *const usize,
            i32,
            *mut u8,
            *mut usize,
        ) -> *mut c_char,
    ) -> Option<Vec<u8>> {
        let pointers: Vec<*const c_char> = operands.iter().map(|o| o.as_ptr().cast()).collect();
        let lengths: Vec<usize> = operands.iter().map(|o| o.len()).collect();
        let count = i32::try_from(operands.len()).ok()?;
        let (mut success, mut len) = (0u8, 0usize);
        let result = callback(
            pointers.as_ptr(),
            lengths.as_ptr(),
            count,
            &raw mut success,
            &raw mut len,
        );
        // SAFETY: A successful callback returns a buffer of the length it set.
        let value = (success != 0).then(|| unsafe { bytes(result, len) }.to_vec());
        // SAFETY: The buffer is the callback's, to be given back this way, once.
        unsafe {
            match self.delete_value {
                Some(delete) => delete(self.state.state, result, len),
                None => libc::free(result.cast()),
            }
        }
        value
    }
}

impl MergeOperator for CMergeOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let state = self.state.state;
        let (base, base_len) = existing.map_or((ptr::null(), 0), |e| (e.as_ptr().cast(), e.len()));
        let key_at = key.as_ptr().cast();
        self.call(operands, |list, lengths, count, success, len| {
            // SAFETY: All pointers are valid for their lengths during the call.
            unsafe {
                (self.full_merge)(
                    state,
                    key_at,
                    key.len(),
                    base,
                    base_len,
                    list,
                    lengths,
                    count,
                    success,
                    len,
                )
            }
        })
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial_merge = self.partial_merge?;
        let state = self.state.state;
        let key_at = key.as_ptr().cast();
        self.call(operands, |list, lengths, count, success, len| {
            // SAFETY: All pointers are valid for their lengths during the call.
            unsafe { partial_merge(state, key_at, key.len(), list, lengths, count, success, len) }
        })
    }
}

c_api! {
    /// A merge operator by callbacks; without `delete_value`, results are freed with `free`,
    /// without `partial_merge`, operands stay apart.
    fn rocksdb_mergeoperator_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        full_merge: FullMergeFn,
        partial_merge: Option<PartialMergeFn>,
        delete_value: Option<DeleteValueFn>,
        name: NameFn,
    ) -> *mut rocksdb_mergeoperator_t {
        let name = text(name(state)).into_owned();
        let state = State::new(state, destructor);
        boxed(rocksdb_mergeoperator_t(Arc::new(CMergeOperator {
            state,
            full_merge,
            partial_merge,
            delete_value,
            name,
        })))
    }
}

destroyers! {
    rocksdb_mergeoperator_destroy(rocksdb_mergeoperator_t);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::{array, malloc_copy, unbox};

    /// Existing value and operands in brackets; fails for the key `bad`.
    unsafe extern "C" fn list(
        _: *mut c_void,
        key: *const c_char,
        key_len: usize,
        existing: *const c_char,
        existing_len: usize,
        operands: *const *const c_char,
        lengths: *const usize,
        count: i32,
        success: *mut u8,
        len: *mut usize,
    ) -> *mut c_char {
        let n = usize::try_from(count).unwrap();
        // SAFETY: The adapter passes valid pointers and lengths.
        unsafe {
            if bytes(key, key_len) == b"bad" {
                *success = 0;
                return ptr::null_mut();
            }
            let mut out = match existing.is_null() {
                true => b"none".to_vec(),
                false => bytes(existing, existing_len).to_vec(),
            };
            for (&o, &l) in array(operands, n).iter().zip(array(lengths, n)) {
                out.extend_from_slice(b"[");
                out.extend_from_slice(bytes(o, l));
                out.extend_from_slice(b"]");
            }
            (*success, *len) = (1, out.len());
            malloc_copy(&out)
        }
    }

    unsafe extern "C" fn name(_: *mut c_void) -> *const c_char {
        c"test.List".as_ptr()
    }

    #[test]
    fn callbacks_get_operands_oldest_first_and_their_results_are_freed() {
        let state = ptr::null_mut();
        // SAFETY: The callbacks fit; results come from `malloc` and are freed with `free`.
        let handle = unsafe { rocksdb_mergeoperator_create(state, None, list, None, None, name) };
        // SAFETY: The handle was just made and is not used again.
        let operator = unsafe { unbox(handle) }.unwrap().0;
        assert_eq!(operator.name(), "test.List");
        let merge = |key: &[u8], base| operator.full_merge(key, base, &[b"a", b""]);
        assert_eq!(merge(b"k", None).unwrap(), b"none[a][]");
        assert_eq!(merge(b"k", Some(b"")).unwrap(), b"[a][]");
        assert_eq!(merge(b"bad", None), None);
        assert_eq!(operator.partial_merge(b"k", &[b"a", b"b"]), None);
    }
}
