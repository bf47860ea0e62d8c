//! `rocksdb_logger_t`: takes the lines of the info log instead of the file `LOG`.

use crate::ffi::{boxed, text};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::Logger;
use spanlith::options::InfoLogLevel;
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

/// A logger; a counted reference.
pub struct rocksdb_logger_t(Arc<dyn Logger>);

/// State, level, line with a NUL after it, its length without the NUL.
pub type LogFn = unsafe extern "C" fn(*mut c_void, u32, *mut c_char, usize);

/// Returns whether a line is told: header lines always are.
fn is_told(least: i32, level: InfoLogLevel) -> bool {
    level == InfoLogLevel::Header || level.number() >= least
}

struct Stderr {
    level: i32,
    prefix: String,
}

impl Logger for Stderr {
    fn log(&self, level: InfoLogLevel, line: &str) {
        if is_told(self.level, level) {
            eprintln!("{}{line}", self.prefix);
        }
    }
}

struct Callback {
    level: i32,
    log: LogFn,
    state: *mut c_void,
}

// SAFETY: The C API demands that the callback may be called from any thread.
unsafe impl Send for Callback {}
// SAFETY: As above.
unsafe impl Sync for Callback {}

impl Logger for Callback {
    fn log(&self, level: InfoLogLevel, line: &str) {
        if !is_told(self.level, level) {
            return;
        }
        let Ok(copy) = CString::new(line) else {
            return;
        };
        let number = match level {
            InfoLogLevel::Header => InfoLogLevel::Info.number(),
            _ => level.number(),
        };
        let len = copy.as_bytes().len();
        let at = copy.into_raw();
        // SAFETY: The line is lent during the call, with its NUL.
        unsafe { (self.log)(self.state, number as u32, at, len) };
        // SAFETY: It came from `into_raw`, and the callback does not keep it.
        drop(unsafe { CString::from_raw(at) });
    }
}

c_api! {
    /// Writes lines from a level on to standard error, each after a prefix.
    fn rocksdb_logger_create_stderr_logger(
        log_level: i32,
        prefix: *const c_char,
    ) -> *mut rocksdb_logger_t {
        let prefix = if prefix.is_null() {
            String::new()
        } else {
            format!("{} ", text(prefix))
        };
        boxed(rocksdb_logger_t(Arc::new(Stderr { level: log_level, prefix })))
    }

    /// Hands lines from a level on to a callback; lines of the header at level 1, whatever the level.
    fn rocksdb_logger_create_callback_logger(
        log_level: i32,
        log: LogFn,
        state: *mut c_void,
    ) -> *mut rocksdb_logger_t {
        boxed(rocksdb_logger_t(Arc::new(Callback { level: log_level, log, state })))
    }

    /// Shares a logger; NULL keeps the one before.
    fn rocksdb_options_set_info_log(
        options: *mut rocksdb_options_t,
        logger: *mut rocksdb_logger_t,
    ) {
        if let Some(logger) = logger.as_ref() {
            (*options).parts.logger = Some(logger.0.clone());
        }
    }

    /// A new handle of the logger; NULL if there is none.
    fn rocksdb_options_get_info_log(options: *mut rocksdb_options_t) -> *mut rocksdb_logger_t {
        let logger = (*options).parts.logger.clone();
        logger.map_or(ptr::null_mut(), |l| boxed(rocksdb_logger_t(l)))
    }
}

destroyers! {
    rocksdb_logger_destroy(rocksdb_logger_t);
}
