//! A transaction with locks in RocksDB's own library.
#![allow(unsafe_code)]

use super::database::{NAME, RocksDb, chars, checked, walk};
use super::library::Handle;
use crate::store::{Direction, Error, Isolation, Result, Transaction};
use std::ffi::c_char;
use std::ptr::null_mut;

/// A transaction. Destroying it takes back what was not committed.
pub(super) struct RocksTransaction<'a> {
    store: &'a RocksDb,
    handle: Handle,
    /// Options of reads at the transaction's snapshot, and that snapshot's wrapper; null without.
    read: Handle,
    snapshot: Handle,
}

/// Says what RocksDB says when another transaction is in the way.
const CONFLICTS: [&str; 4] = [
    "Resource busy",
    "Operation timed out",
    "Operation aborted",
    "Operation failed. Try again",
];

fn in_transaction<T>(result: Result<T>) -> Result<T> {
    result.map_err(|e| {
        let text = e.to_string();
        match CONFLICTS.iter().any(|c| text.contains(c)) {
            true => Error::conflict(NAME, text.trim_start_matches("rocksdb: ")),
            false => e,
        }
    })
}

impl<'a> RocksTransaction<'a> {
    /// Begins one in a store that was opened with transactions.
    pub(super) fn begin(store: &'a RocksDb, isolation: Isolation) -> Self {
        let l = store.library;
        let repeats = isolation == Isolation::RepeatableRead;
        // SAFETY: the handles are open; the options are copied.
        let handle = unsafe {
            let options = (l.transaction_options_create)();
            (l.transaction_options_set_deadlock_detect)(options, 1);
            (l.transaction_options_set_set_snapshot)(options, u8::from(repeats));
            let handle =
                (l.transaction_begin)(store.transactions, store.write, options, null_mut());
            (l.transaction_options_destroy)(options);
            handle
        };
        let mut out = Self {
            store,
            handle,
            read: null_mut(),
            snapshot: null_mut(),
        };
        if repeats {
            // SAFETY: the transaction has a snapshot, which lives as long as it does; both handles are given back in `drop`.
            unsafe {
                out.snapshot = (l.transaction_get_snapshot)(handle);
                out.read = (l.readoptions_create)();
                (l.readoptions_set_snapshot)(out.read, out.snapshot);
            }
        }
        out
    }

    /// The options of the transaction's reads.
    fn read_options(&self) -> Handle {
        match self.read.is_null() {
            true => self.store.read,
            false => self.read,
        }
    }

    /// Copies a value that the library allocated, and gives it back.
    fn copied(&self, found: *mut c_char, len: usize, value: &mut Vec<u8>) -> bool {
        value.clear();
        if found.is_null() {
            return false;
        }
        // SAFETY: the library allocated `len` bytes for its caller, which are not used after the copy.
        unsafe {
            value.extend_from_slice(std::slice::from_raw_parts(found.cast(), len));
            (self.store.library.free)(found.cast());
        }
        true
    }
}

impl Drop for RocksTransaction<'_> {
    fn drop(&mut self) {
        let l = self.store.library;
        // SAFETY: each handle is destroyed once, what reads at the snapshot before the transaction that has it. The
        // wrapper of the snapshot was allocated for the caller of the function that returned it.
        unsafe {
            if !self.read.is_null() {
                (l.readoptions_destroy)(self.read);
                (l.free)(self.snapshot);
            }
            (l.transaction_destroy)(self.handle);
        }
    }
}

impl Transaction for RocksTransaction<'_> {
    fn get(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (l, s, mut len) = (self.store.library, self.store, 0);
        // SAFETY: the handles are open; pointers and lengths are those of slices that outlive the call.
        let found = in_transaction(checked(l, |e| unsafe {
            let family = s.families[family];
            (l.transaction_get_cf)(
                self.handle,
                self.read_options(),
                family,
                chars(key),
                key.len(),
                &raw mut len,
                e,
            )
        }))?;
        Ok(self.copied(found, len, value))
    }

    fn get_for_update(&mut self, family: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (l, s, mut len) = (self.store.library, self.store, 0);
        // SAFETY: as in `get`.
        let found = in_transaction(checked(l, |e| unsafe {
            let family = s.families[family];
            (l.transaction_get_for_update_cf)(
                self.handle,
                self.read_options(),
                family,
                chars(key),
                key.len(),
                &raw mut len,
                1,
                e,
            )
        }))?;
        Ok(self.copied(found, len, value))
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let l = self.store.library;
        let family = self.store.families[family];
        // SAFETY: as in `get`.
        in_transaction(checked(l, |e| unsafe {
            (l.transaction_put_cf)(
                self.handle,
                family,
                chars(key),
                key.len(),
                chars(value),
                value.len(),
                e,
            );
        }))
    }

    fn delete(&mut self, family: usize, key: &[u8]) -> Result<()> {
        let l = self.store.library;
        let family = self.store.families[family];
        // SAFETY: as in `get`.
        in_transaction(checked(l, |e| unsafe {
            (l.transaction_delete_cf)(self.handle, family, chars(key), key.len(), e);
        }))
    }

    fn scan(
        &mut self,
        family: usize,
        start: &[u8],
        direction: Direction,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize> {
        let (l, s) = (self.store.library, self.store);
        // SAFETY: the handles are open; the iterator belongs to the call and ends before the transaction.
        unsafe {
            let iter = (l.transaction_create_iterator_cf)(
                self.handle,
                self.read_options(),
                s.families[family],
            );
            walk(l, iter, start, direction, limit, each)
        }
    }

    fn commit(self: Box<Self>) -> Result<()> {
        let l = self.store.library;
        // SAFETY: the handle is open.
        in_transaction(checked(l, |e| unsafe {
            (l.transaction_commit)(self.handle, e)
        }))
    }
}
