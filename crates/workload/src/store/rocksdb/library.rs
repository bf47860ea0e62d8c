//! The C functions of a `librocksdb.so` that was loaded at run time.
//!
//! A library is loaded once and never unloaded: its threads outlive a database. Types of the C interface are
//! opaque pointers here.
#![allow(unsafe_code)]

use crate::store::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An opaque pointer of the C interface.
pub(super) type Handle = *mut c_void;
/// Where a function leaves its error text.
pub(super) type ErrorText = *mut *mut c_char;

macro_rules! functions {
    (
        required { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)* }
        optional { $($other:ident($($other_argument:ty),*) $(-> $other_result:ty)?;)* }
    ) => {
        /// The functions, by their names without `rocksdb_`; optional ones came after 7.8.
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "the names of the C interface")]
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(super) $other: Option<unsafe extern "C" fn($($other_argument),*) $(-> $other_result)?>,)*
        }

        impl Library {
            fn resolve(find: impl Fn(&str) -> Result<*mut c_void>) -> Result<Self> {
                Ok(Self {
                    $($name: {
                        let address = find(concat!("rocksdb_", stringify!($name)))?;
                        // SAFETY: the symbol has this name, and RocksDB's header declares a function of this
                        // type under it; the library stays loaded.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address)
                        }
                    },)*
                    $($other: {
                        let address = find(concat!("rocksdb_", stringify!($other))).ok();
                        // SAFETY: as above.
                        address.map(|address| unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($other_argument),*) $(-> $other_result)?>(address)
                        })
                    },)*
                })
            }
        }
    };
}

functions! {
required {
    free(Handle);
    options_create() -> Handle;
    options_destroy(Handle);
    options_set_create_if_missing(Handle, c_uchar);
    options_set_create_missing_column_families(Handle, c_uchar);
    options_set_uint64add_merge_operator(Handle);
    options_enable_statistics(Handle);
    options_statistics_get_string(Handle) -> *mut c_char;
    options_set_block_based_table_factory(Handle, Handle);
    get_options_from_string(Handle, *const c_char, Handle, ErrorText);
    block_based_options_create() -> Handle;
    block_based_options_destroy(Handle);
    block_based_options_set_block_cache(Handle, Handle);
    cache_create_lru(usize) -> Handle;
    cache_destroy(Handle);
    open_column_families(Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorText) -> Handle;
    column_family_handle_destroy(Handle);
    close(Handle);
    writeoptions_create() -> Handle;
    writeoptions_destroy(Handle);
    writeoptions_set_sync(Handle, c_uchar);
    writeoptions_disable_WAL(Handle, c_int);
    readoptions_create() -> Handle;
    readoptions_destroy(Handle);
    put_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorText);
    delete_cf(Handle, Handle, Handle, *const c_char, usize, ErrorText);
    singledelete_cf(Handle, Handle, Handle, *const c_char, usize, ErrorText);
    merge_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorText);
    get_pinned_cf(Handle, Handle, Handle, *const c_char, usize, ErrorText) -> Handle;
    pinnableslice_value(Handle, *mut usize) -> *const c_char;
    pinnableslice_destroy(Handle);
    batched_multi_get_cf(Handle, Handle, Handle, usize, *const *const c_char, *const usize, *mut Handle, *mut *mut c_char, bool);
    write(Handle, Handle, Handle, ErrorText);
    writebatch_create() -> Handle;
    writebatch_destroy(Handle);
    writebatch_put_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    writebatch_delete_cf(Handle, Handle, *const c_char, usize);
    create_iterator_cf(Handle, Handle, Handle) -> Handle;
    iter_destroy(Handle);
    iter_seek(Handle, *const c_char, usize);
    iter_seek_for_prev(Handle, *const c_char, usize);
    iter_next(Handle);
    iter_prev(Handle);
    iter_valid(Handle) -> c_uchar;
    iter_key(Handle, *mut usize) -> *const c_char;
    iter_value(Handle, *mut usize) -> *const c_char;
    iter_get_error(Handle, ErrorText);
    flushoptions_create() -> Handle;
    flushoptions_destroy(Handle);
    flush_cf(Handle, Handle, Handle, ErrorText);
    compact_range_cf(Handle, Handle, *const c_char, usize, *const c_char, usize);
    property_int_cf(Handle, Handle, *const c_char, *mut u64) -> c_int;
    transactiondb_options_create() -> Handle;
    transactiondb_options_destroy(Handle);
    transactiondb_open_column_families(Handle, Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorText) -> Handle;
    transactiondb_close(Handle);
    transaction_options_create() -> Handle;
    transaction_options_destroy(Handle);
    transaction_options_set_deadlock_detect(Handle, c_uchar);
    transaction_options_set_set_snapshot(Handle, c_uchar);
    transaction_get_snapshot(Handle) -> Handle;
    readoptions_set_snapshot(Handle, Handle);
    transaction_begin(Handle, Handle, Handle, Handle) -> Handle;
    transaction_destroy(Handle);
    transaction_commit(Handle, ErrorText);
    transaction_get_cf(Handle, Handle, Handle, *const c_char, usize, *mut usize, ErrorText) -> *mut c_char;
    transaction_get_for_update_cf(Handle, Handle, Handle, *const c_char, usize, *mut usize, c_uchar, ErrorText) -> *mut c_char;
    transaction_put_cf(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorText);
    transaction_delete_cf(Handle, Handle, *const c_char, usize, ErrorText);
    transaction_create_iterator_cf(Handle, Handle, Handle) -> Handle;
    create_default_env() -> Handle;
    env_destroy(Handle);
    envoptions_create() -> Handle;
    envoptions_destroy(Handle);
    livefiles(Handle) -> Handle;
    livefiles_count(Handle) -> c_int;
    livefiles_level(Handle, c_int) -> c_int;
    livefiles_size(Handle, c_int) -> usize;
    livefiles_destroy(Handle);
}
optional {
    transactiondb_get_base_db(Handle) -> Handle;
    transactiondb_close_base_db(Handle);
    trace_options_create() -> Handle;
    trace_options_destroy(Handle);
    start_trace(Handle, Handle, Handle, Handle, *const c_char, ErrorText);
    end_trace(Handle, ErrorText);
}
}

/// Libraries that were loaded, by path.
static LOADED: Mutex<BTreeMap<PathBuf, &'static Library>> = Mutex::new(BTreeMap::new());

impl Library {
    /// The library in a file, loaded if it is not yet.
    ///
    /// # Errors
    /// Names the file, and the function that it lacks or the loader's reason.
    pub(super) fn load(path: &Path) -> Result<&'static Self> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = loaded.get(path) {
            return Ok(library);
        }
        let failed = |what: String| Error::new("rocksdb", format!("{}: {what}", path.display()));
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| failed("the name holds a zero byte".to_string()))?;
        // SAFETY: `name` ends with a zero byte. Loading runs the initialisers of a library that the user named.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(failed(format!("cannot be loaded: {}", loader_error())));
        }
        let library = Self::resolve(|symbol| {
            let text = CString::new(symbol).map_err(|e| failed(e.to_string()))?;
            // SAFETY: `handle` is that of a loaded library, `text` ends with a zero byte.
            let address = unsafe { libc::dlsym(handle, text.as_ptr()) };
            match address.is_null() {
                true => Err(failed(format!("has no function {symbol}"))),
                false => Ok(address),
            }
        })?;
        let library: &'static Self = Box::leak(Box::new(library));
        loaded.insert(path.to_path_buf(), library);
        Ok(library)
    }

    /// Takes over a text that the library allocated; `None` if there is none.
    pub(super) fn take_text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the library's texts end with a zero byte.
        let out = unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned();
        // SAFETY: the text was allocated by the library for its caller, and is not used any more.
        unsafe { (self.free)(text.cast()) };
        Some(out)
    }
}

fn loader_error() -> String {
    // SAFETY: no arguments; the text belongs to this thread until its next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason is given".to_string();
    }
    // SAFETY: the loader's text ends with a zero byte.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
