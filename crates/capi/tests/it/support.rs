//! A thin layer over the C functions, so that tests read as what they test.

use spanlith_capi::*;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

/// An error slot, as a C program has one.
pub struct Errptr(pub *mut c_char);

impl Errptr {
    pub fn new() -> Self {
        Self(ptr::null_mut())
    }

    pub fn slot(&mut self) -> *mut *mut c_char {
        &raw mut self.0
    }

    /// The text, freed as the C program frees it.
    pub fn take(&mut self) -> Option<String> {
        let at = std::mem::replace(&mut self.0, ptr::null_mut());
        // SAFETY: NULL, or a text from `malloc`.
        unsafe { take_text(at) }
    }
}

/// # Safety
/// `text` is NULL or from the library, and is not used again.
pub unsafe fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: The caller says so.
    unsafe {
        let out = CStr::from_ptr(text).to_str().unwrap().to_string();
        libc_free(text);
        Some(out)
    }
}

unsafe extern "C" {
    /// The C library's: results must be good for it, not only for `rocksdb_free`.
    #[link_name = "free"]
    fn libc_free_raw(block: *mut c_char);
}

/// # Safety
/// `block` is NULL or from `malloc`.
pub unsafe fn libc_free(block: *mut c_char) {
    // SAFETY: The caller says so.
    unsafe { libc_free_raw(block) }
}

/// A call with an error slot; `Err` is the text.
pub fn call<T>(f: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut err = Errptr::new();
    let out = f(err.slot());
    err.take().map_or(Ok(out), Err)
}

/// Bytes as a C function takes them.
pub fn p(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// A directory, and what most tests need.
pub struct World {
    pub dir: tempfile::TempDir,
    pub path: CString,
    pub options: *mut rocksdb_options_t,
    pub read: *mut rocksdb_readoptions_t,
    pub write: *mut rocksdb_writeoptions_t,
}

impl World {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = c_path(&dir.path().join("db"));
        // SAFETY: Constructors take nothing.
        let (options, read, write) = unsafe {
            (
                rocksdb_options_create(),
                rocksdb_readoptions_create(),
                rocksdb_writeoptions_create(),
            )
        };
        // SAFETY: The handle was just made.
        unsafe { rocksdb_options_set_create_if_missing(options, 1) };
        Self {
            dir,
            path,
            options,
            read,
            write,
        }
    }

    /// The directory as it stands in error texts.
    pub fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }

    pub fn open(&self) -> Result<*mut rocksdb_t, String> {
        // SAFETY: The handles live as long as `self`.
        let opened = call(|e| unsafe { rocksdb_open(self.options, self.path.as_ptr(), e) });
        assert!(
            !matches!(opened, Ok(db) if db.is_null()),
            "NULL without an error"
        );
        opened
    }

    pub fn put(&self, db: *mut rocksdb_t, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: `db` is open; lengths are right.
        call(|e| unsafe {
            rocksdb_put(db, self.write, p(key), key.len(), p(value), value.len(), e);
        })
    }

    pub fn get(&self, db: *mut rocksdb_t, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut len = 77;
        // SAFETY: `db` is open; lengths are right.
        let value =
            call(|e| unsafe { rocksdb_get(db, self.read, p(key), key.len(), &raw mut len, e) })?;
        if value.is_null() {
            assert_eq!(len, 0, "the length of nothing");
            return Ok(None);
        }
        // SAFETY: The value has `len` bytes and comes from `malloc`.
        unsafe {
            let out = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
            libc_free(value);
            Ok(Some(out))
        }
    }

    pub fn flush(&self, db: *mut rocksdb_t) -> Result<(), String> {
        // SAFETY: `db` is open.
        unsafe {
            let options = rocksdb_flushoptions_create();
            let flushed = call(|e| rocksdb_flush(db, options, e));
            rocksdb_flushoptions_destroy(options);
            flushed
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: Nobody uses them any more.
        unsafe {
            rocksdb_options_destroy(self.options);
            rocksdb_readoptions_destroy(self.read);
            rocksdb_writeoptions_destroy(self.write);
        }
    }
}

pub fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}
