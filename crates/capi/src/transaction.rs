//! `rocksdb_transaction_t`: from its begin to its end. Its reads stand in `transaction_reads.rs`.

use crate::batch::rocksdb_writebatch_t;
use crate::batch_with_index::{WithIndex, rocksdb_writebatch_wi_t};
use crate::family::rocksdb_column_family_handle_t;
use crate::ffi::{boxed, bytes, malloc_array, malloc_copy, report, unbox};
use crate::optimistic_db::rocksdb_optimistictransactiondb_t;
use crate::shared::{Registry, SharedTransaction};
use crate::snapshot::{LentSnapshots, rocksdb_snapshot_t};
use crate::transaction_db::rocksdb_transactiondb_t;
use crate::txn_options::{rocksdb_optimistictransaction_options_t, rocksdb_transaction_options_t};
use crate::write_options::rocksdb_writeoptions_t;
use libc::c_char;
use spanlith::{Cf, Transaction, TxnOptions, TxnState, WriteOptions};
use std::ptr;
use std::sync::Arc;

/// A transaction. What it lends lives as long as the handle.
pub struct rocksdb_transaction_t {
    shared: SharedTransaction,
    /// The default family.
    pub(crate) cf: Cf,
    /// Its batch, as handles of it see it; NULL before the first.
    view: *mut WithIndex,
    snapshots: LentSnapshots,
}

impl rocksdb_transaction_t {
    fn new(shared: SharedTransaction, cf: Cf) -> *mut Self {
        boxed(Self {
            shared,
            cf,
            view: ptr::null_mut(),
            snapshots: LentSnapshots::default(),
        })
    }

    /// # Safety
    /// No other thread uses it.
    pub(crate) unsafe fn get(&self) -> &Transaction {
        // SAFETY: The caller says so.
        unsafe { self.shared.get() }
    }

    /// # Safety
    /// No other thread uses it, and no other reference to it is alive.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller says that nobody else has it"
    )]
    pub(crate) unsafe fn get_mut(&self) -> &mut Transaction {
        // SAFETY: The caller says so.
        unsafe { self.shared.get_mut() }
    }

    pub(crate) fn shared(&self) -> &SharedTransaction {
        &self.shared
    }

    /// Forgets that it was prepared, if it is not any more.
    ///
    /// # Safety
    /// As [`Self::get`].
    unsafe fn settle(&self) {
        // SAFETY: The caller says so.
        if unsafe { self.get() }.state() != TxnState::Prepared {
            self.shared.forget();
        }
    }
}

impl Drop for rocksdb_transaction_t {
    fn drop(&mut self) {
        // SAFETY: Made by `boxed`, or NULL; handles of it do not outlive the transaction.
        drop(unsafe { unbox(self.view) });
        // SAFETY: Whoever destroys a handle uses nothing that shares the transaction meanwhile.
        unsafe { self.shared.clone().leave() };
    }
}

/// Begins a transaction, in the handle of an old one if there is one.
///
/// # Safety
/// `old` is NULL, or valid and used by nobody else.
unsafe fn begin(
    cf: &Cf,
    registry: &Arc<Registry>,
    options: TxnOptions,
    write: WriteOptions,
    old: *mut rocksdb_transaction_t,
) -> *mut rocksdb_transaction_t {
    // SAFETY: The caller says so.
    let Some(old) = (unsafe { old.as_mut() }) else {
        let new = cf.db().transaction_opt(options, write);
        let shared = SharedTransaction::new(new, registry.clone());
        return rocksdb_transaction_t::new(shared, cf.clone());
    };
    old.shared.forget();
    old.snapshots = LentSnapshots::default();
    // SAFETY: As above.
    unsafe { old.get_mut() }.restart(options, write);
    old
}

macro_rules! updates {
    ($(
        $put:ident, $merge:ident, $delete:ident,
        ($($cf:ident: $cf_type:ty)?), |$txn:ident| $family:expr;
    )*) => {
        c_api! {$(
            /// Sets a key.
            fn $put(
                $txn: *mut rocksdb_transaction_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                val: *const c_char,
                vlen: usize,
                errptr: *mut *mut c_char,
            ) {
                report(errptr, (), || {
                    (*$txn).get_mut().put($family, bytes(key, klen), bytes(val, vlen))
                });
            }

            /// Adds a merge operand.
            fn $merge(
                $txn: *mut rocksdb_transaction_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                val: *const c_char,
                vlen: usize,
                errptr: *mut *mut c_char,
            ) {
                report(errptr, (), || {
                    (*$txn).get_mut().merge($family, bytes(key, klen), bytes(val, vlen))
                });
            }

            /// Removes a key.
            fn $delete(
                $txn: *mut rocksdb_transaction_t,
                $($cf: $cf_type,)?
                key: *const c_char,
                klen: usize,
                errptr: *mut *mut c_char,
            ) {
                report(errptr, (), || (*$txn).get_mut().delete($family, bytes(key, klen)));
            }
        )*}
    };
}

updates! {
    rocksdb_transaction_put, rocksdb_transaction_merge, rocksdb_transaction_delete, (),
        |txn| &(*txn).cf;
    rocksdb_transaction_put_cf, rocksdb_transaction_merge_cf, rocksdb_transaction_delete_cf,
        (column_family: *mut rocksdb_column_family_handle_t), |txn| &(*column_family).cf;
}

c_api! {
    /// Begins a transaction that locks; `old_txn`, if not NULL, is ended and returned as the new one.
    fn rocksdb_transaction_begin(
        txn_db: *mut rocksdb_transactiondb_t,
        write_options: *const rocksdb_writeoptions_t,
        txn_options: *const rocksdb_transaction_options_t,
        old_txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_transaction_t {
        let (options, write) = ((*txn_options).options(), (*write_options).options);
        begin(&(*txn_db).base.cf, &(*txn_db).prepared, options, write, old_txn)
    }

    /// Begins a transaction that does not lock; `old_txn`, if not NULL, is ended and returned as the new one.
    fn rocksdb_optimistictransaction_begin(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
        write_options: *const rocksdb_writeoptions_t,
        otxn_options: *const rocksdb_optimistictransaction_options_t,
        old_txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_transaction_t {
        let (options, write) = ((*otxn_options).options(), (*write_options).options);
        // Never prepared, so never asked for.
        begin(&(*otxn_db).base.cf, &Arc::default(), options, write, old_txn)
    }

    /// Handles of all transactions that are prepared, in an array from `malloc`, in the order of their names; NULL if
    /// there are none. One that has a handle already gets another.
    fn rocksdb_transactiondb_get_prepared_transactions(
        txn_db: *mut rocksdb_transactiondb_t,
        cnt: *mut usize,
    ) -> *mut *mut rocksdb_transaction_t {
        let cf = &(*txn_db).base.cf;
        // Nobody can decide a transaction that cannot be read; the next open says so.
        let all = (*txn_db).prepared.all(|| cf.db().prepared_transactions().unwrap_or_default());
        *cnt = all.len();
        if all.is_empty() {
            return ptr::null_mut();
        }
        let handle = |shared| rocksdb_transaction_t::new(shared, cf.clone());
        malloc_array(&all.into_iter().map(handle).collect::<Vec<_>>())
    }

    /// Gives it a name, which it needs to be prepared.
    fn rocksdb_transaction_set_name(
        txn: *mut rocksdb_transaction_t,
        name: *const c_char,
        name_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*txn).get_mut().set_name(bytes(name, name_len)));
    }

    /// Its name, from `malloc`; not NUL-terminated by contract.
    fn rocksdb_transaction_get_name(
        txn: *mut rocksdb_transaction_t,
        name_len: *mut usize,
    ) -> *mut c_char {
        let name = (*txn).get().name();
        *name_len = name.len();
        malloc_copy(name)
    }

    /// First of two phases: it survives until it is committed or rolled back.
    fn rocksdb_transaction_prepare(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            (*txn).get_mut().prepare()?;
            (*txn).shared.note((*txn).get().name());
            Ok(())
        });
    }

    /// Makes its updates visible, all at once.
    fn rocksdb_transaction_commit(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            (*txn).get_mut().commit()?;
            (*txn).settle();
            Ok(())
        });
    }

    /// Takes its updates back.
    fn rocksdb_transaction_rollback(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, (), || {
            (*txn).get_mut().rollback()?;
            (*txn).settle();
            Ok(())
        });
    }

    /// Adds a note that goes to the log only.
    fn rocksdb_transaction_put_log_data(
        txn: *mut rocksdb_transaction_t,
        blob: *const c_char,
        len: usize,
    ) {
        // Nobody can be told of one that is too large.
        let _ = (*txn).get_mut().put_log_data(bytes(blob, len));
    }

    /// Remembers the present state.
    fn rocksdb_transaction_set_savepoint(txn: *mut rocksdb_transaction_t) {
        (*txn).get_mut().set_savepoint();
    }

    /// Goes back to the last state that was remembered, and forgets it.
    fn rocksdb_transaction_rollback_to_savepoint(
        txn: *mut rocksdb_transaction_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*txn).get_mut().rollback_to_savepoint());
    }

    /// Its updates, which are its own still: lent as long as it lives, in a handle that `rocksdb_free` frees. What is added
    /// there is neither locked nor checked.
    fn rocksdb_transaction_get_writebatch_wi(
        txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_writebatch_wi_t {
        let txn = &mut *txn;
        if txn.view.is_null() {
            txn.view = boxed(WithIndex::lent(txn.shared.batch()));
        }
        rocksdb_writebatch_wi_t::of(txn.view)
    }

    /// Adds the updates of a batch, as if they were called one by one.
    fn rocksdb_transaction_rebuild_from_writebatch(
        txn: *mut rocksdb_transaction_t,
        writebatch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*txn).get_mut().rebuild_from((*writebatch).checked()?));
    }

    /// Adds the updates of a batch with an index, as if they were called one by one.
    fn rocksdb_transaction_rebuild_from_writebatch_wi(
        txn: *mut rocksdb_transaction_t,
        wi: *mut rocksdb_writebatch_wi_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            // A copy: it may be the transaction's own.
            let batch = (*wi).with().checked()?.batch().clone();
            (*txn).get_mut().rebuild_from(&batch)
        });
    }

    /// Timestamp of its updates in families with timestamps, which transactions refuse to touch.
    fn rocksdb_transaction_set_commit_timestamp(
        _txn: *mut rocksdb_transaction_t,
        _commit_timestamp: u64,
    ) {
    }

    /// Timestamp that conflicts are looked for after in families with timestamps, which transactions refuse to touch.
    fn rocksdb_transaction_set_read_timestamp_for_validation(
        _txn: *mut rocksdb_transaction_t,
        _read_timestamp: u64,
    ) {
    }

    /// The snapshot it began with, lent as long as it lives, in a handle that `rocksdb_free` frees. Without a snapshot,
    /// reads with the handle are at the latest state.
    fn rocksdb_transaction_get_snapshot(
        txn: *mut rocksdb_transaction_t,
    ) -> *const rocksdb_snapshot_t {
        let txn = &mut *txn;
        txn.snapshots.lend(txn.shared.get().snapshot())
    }
}

destroyers! {
    rocksdb_transaction_destroy(rocksdb_transaction_t);
}
