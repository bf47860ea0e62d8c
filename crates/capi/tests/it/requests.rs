//! Asynchronous requests of C programs: R-SPAN-10, R-SPAN-11, R-SPAN-12.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A value from `malloc`, with its length.
unsafe fn taken(value: *mut c_char, len: usize) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    // SAFETY: The library says so.
    unsafe {
        let out = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
        libc_free(value);
        Some(out)
    }
}

struct Open {
    db: *mut rocksdb_t,
    requests: *mut spanlith_async_t,
}

fn open(w: &World, own: &str) -> Open {
    let own = CString::new(own).unwrap();
    // SAFETY: All handles are live.
    unsafe {
        call(|e| spanlith_options_set(w.options, own.as_ptr(), e)).unwrap();
        let db = w.open().unwrap();
        let requests = spanlith_async_create(db, ptr::null_mut());
        Open { db, requests }
    }
}

impl Open {
    fn put(&self, w: &World, key: &[u8], value: &[u8]) -> Result<*mut spanlith_token_t, String> {
        let (k, v) = (p(key), p(value));
        // SAFETY: All handles are live; lengths are right.
        call(|e| unsafe {
            spanlith_async_put(self.requests, w.write, k, key.len(), v, value.len(), e)
        })
    }

    fn get(&self, w: &World, key: &[u8]) -> Option<Vec<u8>> {
        // SAFETY: All handles are live; lengths are right.
        unsafe {
            let token =
                call(|e| spanlith_async_get(self.requests, w.read, p(key), key.len(), e)).unwrap();
            let mut len = 77;
            let value = call(|e| spanlith_token_take_value(token, &raw mut len, e)).unwrap();
            let value = taken(value, len);
            let again = call(|e| spanlith_token_take_value(token, &raw mut len, e)).unwrap();
            assert!(again.is_null() && len == 0, "it is taken once");
            spanlith_token_destroy(token);
            value
        }
    }

    fn close(self) {
        // SAFETY: Nobody uses them any more.
        unsafe {
            spanlith_async_destroy(self.requests);
            rocksdb_close(self.db);
        }
    }
}

/// Waits, tells the status, and destroys.
fn finish(token: *mut spanlith_token_t) -> Result<(), String> {
    // SAFETY: The token is live.
    let status = call(|e| unsafe { spanlith_token_status(token, e) });
    // SAFETY: It is not used any more.
    unsafe { spanlith_token_destroy(token) };
    status
}

#[test]
fn requests_are_issued_checked_waited_for_and_taken() {
    let w = World::new();
    let o = open(&w, "async_mode=inline");
    // SAFETY: All handles are live; lengths are right.
    unsafe {
        let tokens: Vec<_> = (0..50u8)
            .map(|n| o.put(&w, &[n], b"value").unwrap())
            .collect();
        let last = tokens[49];
        spanlith_token_wait(last);
        assert_eq!(spanlith_token_check(last), 1);
        for token in tokens {
            assert_eq!(spanlith_token_check(token), 1, "the last one is done");
            finish(token).unwrap();
        }
        assert_eq!(o.get(&w, &[7]).as_deref(), Some(&b"value"[..]));
        assert_eq!(o.get(&w, b"none"), None);
        let deleted = call(|e| spanlith_async_delete(o.requests, w.write, p(&[7]), 1, e)).unwrap();
        finish(deleted).unwrap();
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p(b"x"), 1, p(b"1"), 1);
        rocksdb_writebatch_put(batch, p(b"y"), 1, p(b"2"), 1);
        let written = call(|e| spanlith_async_write(o.requests, w.write, batch, e)).unwrap();
        // It was copied.
        rocksdb_writebatch_destroy(batch);
        finish(written).unwrap();
        // Errors are results.
        let merged = call(|e| spanlith_async_merge(o.requests, w.write, p(b"x"), 1, p(b"1"), 1, e));
        let e = finish(merged.unwrap()).unwrap_err();
        assert_eq!(
            e,
            "Not implemented: Provide a merge_operator when opening DB"
        );
        finish(call(|e| spanlith_async_flush(o.requests, e)).unwrap()).unwrap();
        let scan = call(|e| spanlith_async_scan(o.requests, w.read, 3, e)).unwrap();
        assert_eq!(call(|e| spanlith_token_page_len(scan, e)).unwrap(), 3);
        let mut len = 0;
        let key = spanlith_token_page_key(scan, 2, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(key.cast::<u8>(), len), [2]);
        let value = spanlith_token_page_value(scan, 2, &raw mut len);
        assert_eq!(
            std::slice::from_raw_parts(value.cast::<u8>(), len),
            b"value"
        );
        assert!(spanlith_token_page_key(scan, 3, &raw mut len).is_null() && len == 0);
        let next = spanlith_token_page_next(scan, &raw mut len);
        assert_eq!(std::slice::from_raw_parts(next.cast::<u8>(), len), [3]);
        let wrong = call(|e| spanlith_token_take_value(scan, &raw mut len, e)).unwrap_err();
        assert_eq!(wrong, "Invalid argument: the request is not a get");
        spanlith_token_destroy(scan);
    }
    o.close();
}

unsafe extern "C" fn count(state: *mut c_void) {
    // SAFETY: The state is a counter that outlives all requests.
    unsafe { &*state.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn callbacks_are_called_once_whether_the_request_is_done_or_not() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let w = World::new();
    let o = open(&w, "async_mode=shared");
    let state = ptr::from_ref(&CALLS).cast_mut().cast();
    // SAFETY: All handles are live.
    unsafe {
        let tokens: Vec<_> = (0..20u8).map(|n| o.put(&w, &[n], b"v").unwrap()).collect();
        for token in &tokens {
            spanlith_token_on_done(*token, Some(count), state);
        }
        for token in tokens {
            while spanlith_token_check(token) == 0 {
                std::thread::yield_now();
            }
            finish(token).unwrap();
        }
    }
    // The close has waited for all that is carried out; its last callback may still be on its way.
    o.close();
    while CALLS.load(Ordering::Relaxed) < 20 {
        std::thread::yield_now();
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 20);
}

/// R-SPAN-11: the client loop of refusals and repetitions.
#[test]
fn an_issue_without_room_is_refused_and_may_be_repeated() {
    let w = World::new();
    let o = open(&w, "async_mode=inline;async_queue_length=2");
    let (a, b) = (
        o.put(&w, b"a", b"1").unwrap(),
        o.put(&w, b"b", b"2").unwrap(),
    );
    let e = o.put(&w, b"c", b"3").unwrap_err();
    assert_eq!(
        e,
        "Resource busy: too many asynchronous requests are outstanding"
    );
    // SAFETY: All handles are live.
    unsafe {
        spanlith_async_set_waits(o.requests, 1);
        let patient = o.put(&w, b"c", b"3").unwrap();
        spanlith_async_set_waits(o.requests, 0);
        assert!(o.put(&w, b"d", b"4").is_err());
        finish(patient).unwrap();
        assert_eq!(spanlith_token_check(a), 1);
        finish(a).unwrap();
        // A token may go without its result.
        spanlith_token_destroy(b);
    }
    finish(o.put(&w, b"d", b"4").unwrap()).unwrap();
    for key in [b"a", b"b", b"c", b"d"] {
        assert!(w.get(o.db, key).unwrap().is_some());
    }
    o.close();
}

#[test]
fn a_transaction_is_committed_by_a_token() {
    let w = World::new();
    // SAFETY: All handles are live; lengths are right.
    unsafe {
        let how = rocksdb_transactiondb_options_create();
        let path = w.path.as_ptr();
        let db = call(|e| rocksdb_transactiondb_open(w.options, how, path, e)).unwrap();
        let options = rocksdb_transaction_options_create();
        let txn = rocksdb_transaction_begin(db, w.write, options, ptr::null_mut());
        call(|e| rocksdb_transaction_put(txn, p(b"k"), 1, p(b"v"), 1, e)).unwrap();
        let token = call(|e| spanlith_transaction_commit_async(txn, e)).unwrap();
        rocksdb_transaction_destroy(txn);
        finish(token).unwrap();
        let mut len = 0;
        let value =
            call(|e| rocksdb_transactiondb_get(db, w.read, p(b"k"), 1, &raw mut len, e)).unwrap();
        assert_eq!(taken(value, len).as_deref(), Some(&b"v"[..]));
        rocksdb_transactiondb_close(db);
        rocksdb_transaction_options_destroy(options);
        rocksdb_transactiondb_options_destroy(how);
    }
}
