//! Pointers, strings and errors on their way across the C boundary.

use libc::{c_char, c_void};
use spanlith_base::byte_text::text_of_bytes;
use spanlith_base::{Error, Result};
use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;

/// Bytes and their length, as RocksDB's C API passes them by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rocksdb_slice_t {
    /// First byte.
    pub data: *const c_char,
    /// Number of bytes.
    pub size: usize,
}

impl rocksdb_slice_t {
    /// Borrows `bytes`; not NULL, even if there are none.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr().cast(),
            size: bytes.len(),
        }
    }
}

/// A handle for the C program.
pub(crate) fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a handle back; `None` for NULL.
///
/// # Safety
/// `handle` is NULL or came from [`boxed`], and is not used again.
pub(crate) unsafe fn unbox<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: The caller says that it came from `Box::into_raw` and gives it up.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// Bytes of the caller; no pointer is looked at if there are none.
///
/// # Safety
/// `data` is valid for `len` bytes for as long as the result is used, or `len` is 0.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: The caller says so.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// An array of the caller; no pointer is looked at if it is empty.
///
/// # Safety
/// `data` is valid for `len` elements for as long as the result is used, or `len` is 0.
pub(crate) unsafe fn array<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: The caller says so.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// Bytes of the caller, `None` for NULL.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_bytes<'a>(data: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: The caller says so.
    (!data.is_null()).then(|| unsafe { bytes(data, len) })
}

/// Lends bytes to the caller, and says how many they are.
///
/// # Safety
/// `len` may be written.
#[inline(always)]
pub(crate) unsafe fn lend(bytes: &[u8], len: *mut usize) -> *const c_char {
    // SAFETY: The caller says so.
    unsafe { *len = bytes.len() };
    bytes.as_ptr().cast()
}

/// As [`lend`], where there may be nothing, which is NULL and 0, and where nobody may ask how many.
///
/// # Safety
/// `len` is NULL or may be written.
#[inline]
pub(crate) unsafe fn lend_if(bytes: Option<&[u8]>, len: *mut usize) -> *const c_char {
    // SAFETY: The caller says so.
    if let Some(len) = unsafe { len.as_mut() } {
        *len = bytes.map_or(0, <[u8]>::len);
    }
    bytes.map_or(ptr::null(), |b| b.as_ptr().cast())
}

/// A NUL-terminated string.
///
/// # Safety
/// `text` is NUL-terminated and stays valid while the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Cow<'a, str> {
    // SAFETY: The caller says so.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// The name of a family, which may be any bytes.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn family_name(name: *const c_char) -> String {
    // SAFETY: The caller says so.
    text_of_bytes(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// A path.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path(name: *const c_char) -> PathBuf {
    // SAFETY: The caller says so.
    OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()).into()
}

/// A copy of `bytes` from `malloc`, followed by a NUL that is not counted. Never NULL.
pub(crate) fn malloc_copy(bytes: &[u8]) -> *mut c_char {
    // SAFETY: `malloc` may be called with any size.
    let to = unsafe { libc::malloc(bytes.len() + 1) }.cast::<u8>();
    if to.is_null() {
        std::alloc::handle_alloc_error(std::alloc::Layout::for_value(bytes));
    }
    // SAFETY: The block was just allocated with one byte more than there are in `bytes`.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        to.add(bytes.len()).write(0);
    }
    to.cast()
}

/// An array from `malloc`. Never NULL.
pub(crate) fn malloc_array<T: Copy>(values: &[T]) -> *mut T {
    // SAFETY: `malloc` may be called with any size.
    let to = unsafe { libc::malloc(size_of_val(values).max(1)) }.cast::<T>();
    if to.is_null() {
        std::alloc::handle_alloc_error(std::alloc::Layout::for_value(values));
    }
    // SAFETY: The block was just allocated with room for all values, aligned for any of them.
    unsafe { ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
    to
}

/// RocksDB's text of an error, from `malloc`.
#[cold]
pub(crate) fn malloc_error(error: &Error) -> *mut c_char {
    malloc_copy(error.rocksdb_text().as_bytes())
}

/// Replaces the text at `errptr`.
///
/// # Safety
/// `errptr` is NULL or valid; `*errptr` is NULL or came from `malloc`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn set_error(errptr: *mut *mut c_char, error: &Error) {
    if errptr.is_null() {
        return;
    }
    // SAFETY: The caller says that both pointers are good; `free` takes NULL.
    unsafe {
        libc::free((*errptr).cast());
        *errptr = malloc_error(error);
        debug_assert!(!(*errptr).is_null(), "A1: a failure leaves a text");
    }
}

#[cold]
#[inline(never)]
fn from_panic(payload: &(dyn Any + Send)) -> Error {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic");
    Error::aborted(text)
}

/// Runs the body of a function with an `errptr`: errors and panics become text, and the result is
/// `default` then.
///
/// # Safety
/// As [`set_error`].
#[inline(always)]
pub(crate) unsafe fn report<T>(
    errptr: *mut *mut c_char,
    default: T,
    body: impl FnOnce() -> Result<T>,
) -> T {
    // State that a panic may leave half done is the engine's, which poisons or repairs it; the body's own
    // values are gone.
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error,
        Err(payload) => from_panic(&*payload),
    };
    // SAFETY: The caller says so.
    unsafe { set_error(errptr, &error) };
    default
}

c_api! {
    /// Frees what the library handed out; the same as `free`.
    fn rocksdb_free(block: *mut c_void) {
        libc::free(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(errptr: &mut *mut c_char) -> String {
        // SAFETY: The text was just set.
        let text = unsafe { text(*errptr) }.into_owned();
        // SAFETY: It came from `malloc`.
        unsafe { rocksdb_free((*errptr).cast()) };
        *errptr = ptr::null_mut();
        text
    }

    #[test]
    fn success_leaves_an_older_error_text_alone() {
        let mut err = malloc_copy(b"older");
        let before = err;
        // SAFETY: `err` is valid and from `malloc`.
        assert_eq!(unsafe { report(&raw mut err, 0, || Ok(7)) }, 7);
        assert_eq!(err, before);
        assert_eq!(taken(&mut err), "older");
    }

    #[test]
    fn failure_replaces_an_older_error_text() {
        let mut err = malloc_copy(b"older");
        // SAFETY: `err` is valid and from `malloc`.
        let result = unsafe { report(&raw mut err, 0, || Err::<i32, _>(Error::busy(""))) };
        assert_eq!(result, 0);
        assert_eq!(taken(&mut err), "Resource busy: ");
    }

    /// Holds A1.
    #[test]
    fn a_panic_becomes_an_error_text() {
        let mut err = ptr::null_mut();
        // SAFETY: `err` is valid.
        unsafe { report(&raw mut err, (), || panic!("lost {}", 3)) };
        assert_eq!(taken(&mut err), "Operation aborted: lost 3");
    }

    #[test]
    fn no_bytes_need_no_pointer() {
        // SAFETY: The length is 0.
        assert!(unsafe { bytes(ptr::null(), 0) }.is_empty());
        // SAFETY: NULL is allowed.
        assert!(unsafe { optional_bytes(ptr::null(), 0) }.is_none());
    }
}
