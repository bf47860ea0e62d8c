//! `rocksdb_walfilter_t`: C code that decides over the batches of logs when a database is opened.

use crate::batch::rocksdb_writebatch_t;
use crate::comparator::{DestructorFn, NameFn, State};
use crate::ffi::{boxed, text};
use crate::options::rocksdb_options_t;
use libc::{c_char, c_void};
use spanlith::{WalFilter, WalVerdict, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A filter; shared with the options that use it.
pub struct rocksdb_walfilter_t(Arc<CFilter>);

/// State; ids of families and the first log that each needs; names, their lengths and ids.
pub type FamilyLogsFn = unsafe extern "C" fn(
    *mut c_void,
    *const u32,
    *const u64,
    usize,
    *const *const c_char,
    *const usize,
    *const u32,
    usize,
);

/// State, number and path of the log, batch, batch to replace it, whether that is to be: 0 goes on, 1
/// leaves the batch out, 2 ends the replay, 3 calls it damaged.
pub type LogRecordFn = unsafe extern "C" fn(
    *mut c_void,
    u64,
    *const c_char,
    usize,
    *const rocksdb_writebatch_t,
    *mut rocksdb_writebatch_t,
    *mut u8,
) -> i32;

struct CFilter {
    state: State,
    families: Option<FamilyLogsFn>,
    record: LogRecordFn,
    name: String,
}

impl WalFilter for CFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn families(&self, log_numbers: &BTreeMap<u32, u64>, ids: &BTreeMap<String, u32>) {
        let Some(families) = self.families else {
            return;
        };
        let (by_id, logs): (Vec<u32>, Vec<u64>) = log_numbers.iter().unzip();
        let names: Vec<*const c_char> = ids.keys().map(|name| name.as_ptr().cast()).collect();
        let lengths: Vec<usize> = ids.keys().map(String::len).collect();
        let by_name: Vec<u32> = ids.values().copied().collect();
        // SAFETY: The arrays are lent during the call, each as long as its count says.
        unsafe {
            families(
                self.state.state,
                by_id.as_ptr(),
                logs.as_ptr(),
                by_id.len(),
                names.as_ptr(),
                lengths.as_ptr(),
                by_name.as_ptr(),
                names.len(),
            );
        }
    }

    fn record(&self, log_number: u64, log_path: &str, batch: &WriteBatch) -> WalVerdict {
        let Ok(batch) = spanlith_wal::WriteBatch::from_bytes(batch.as_bytes()) else {
            return WalVerdict::Corrupted;
        };
        let batch = rocksdb_writebatch_t::from(batch);
        let mut new = rocksdb_writebatch_t::default();
        let mut is_changed = 0;
        // SAFETY: Text and batches are lent during the call; the function is the C program's.
        let wanted = unsafe {
            (self.record)(
                self.state.state,
                log_number,
                log_path.as_ptr().cast(),
                log_path.len(),
                &raw const batch,
                &raw mut new,
                &raw mut is_changed,
            )
        };
        match wanted {
            0 if is_changed != 0 => {
                WriteBatch::from_bytes(new.rep()).map_or(WalVerdict::Corrupted, WalVerdict::Replace)
            }
            0 => WalVerdict::Keep,
            1 => WalVerdict::Ignore,
            2 => WalVerdict::Stop,
            3 => WalVerdict::Corrupted,
            _ => WalVerdict::Unknown,
        }
    }
}

c_api! {
    /// A filter by callbacks; that of families may be NULL.
    fn rocksdb_walfilter_create(
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        column_family_log_number_map: Option<FamilyLogsFn>,
        log_record_found: LogRecordFn,
        name: NameFn,
    ) -> *mut rocksdb_walfilter_t {
        let name = text(name(state)).into_owned();
        boxed(rocksdb_walfilter_t(Arc::new(CFilter {
            state: State::new(state, destructor),
            families: column_family_log_number_map,
            record: log_record_found,
            name,
        })))
    }

    /// Shares a filter; NULL removes it.
    fn rocksdb_options_set_wal_filter(
        options: *mut rocksdb_options_t,
        filter: *mut rocksdb_walfilter_t,
    ) {
        let filter = filter.as_ref().map(|f| f.0.clone() as Arc<dyn WalFilter>);
        (*options).parts.wal_filter = filter;
    }

    /// Removes the filter.
    fn rocksdb_options_clear_wal_filter(options: *mut rocksdb_options_t) {
        (*options).parts.wal_filter = None;
    }
}

destroyers! {
    rocksdb_walfilter_destroy(rocksdb_walfilter_t);
}
