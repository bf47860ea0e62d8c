//! Options of databases with transactions, and of transactions.
//!
//! An option that only tunes RocksDB's inner workings is kept and given back, and changes nothing: there is one way to commit here,
//! one manager of locks, and conflicts of optimistic transactions are looked for without buckets.

use crate::convert::Deferred;
use crate::ffi::boxed;
use spanlith::{LockOptions, TxnOptions};
use spanlith_base::{Error, Result};

/// Options of a database with transactions that lock.
pub struct rocksdb_transactiondb_options_t {
    max_num_locks: i64,
    max_num_deadlocks: u32,
    num_stripes: u64,
    transaction_lock_timeout: i64,
    default_lock_timeout: i64,
    write_policy: i32,
    rollback_merge_operands: bool,
    use_per_key_point_lock_mgr: bool,
    skip_concurrency_control: bool,
    default_write_batch_flush_threshold: i64,
    enable_udt_validation: bool,
    txn_commit_bypass_memtable_threshold: u32,
    /// Any value fits; kept for the table of accessors.
    deferred: Deferred,
}

impl Default for rocksdb_transactiondb_options_t {
    fn default() -> Self {
        let locks = LockOptions::default();
        Self {
            max_num_locks: locks.max_num_locks,
            max_num_deadlocks: 5,
            num_stripes: locks.num_stripes as u64,
            transaction_lock_timeout: locks.transaction_lock_timeout,
            default_lock_timeout: locks.default_lock_timeout,
            write_policy: 0,
            rollback_merge_operands: false,
            use_per_key_point_lock_mgr: false,
            skip_concurrency_control: locks.skip_concurrency_control,
            default_write_batch_flush_threshold: 0,
            enable_udt_validation: true,
            txn_commit_bypass_memtable_threshold: u32::MAX,
            deferred: Deferred::new(),
        }
    }
}

impl rocksdb_transactiondb_options_t {
    /// Returns what is refused.
    pub(crate) fn check(&self) -> Result<()> {
        if self.write_policy != 0 {
            let error = Error::not_supported("transactions are written when they are committed");
            return Err(error.with("write_policy", self.write_policy));
        }
        Ok(())
    }

    pub(crate) fn locks(&self) -> LockOptions {
        let mut locks = LockOptions::default();
        locks.max_num_locks = self.max_num_locks;
        locks.num_stripes = usize::try_from(self.num_stripes).unwrap_or(usize::MAX);
        locks.transaction_lock_timeout = self.transaction_lock_timeout;
        locks.default_lock_timeout = self.default_lock_timeout;
        locks.skip_concurrency_control = self.skip_concurrency_control;
        locks
    }
}

/// Options of a transaction that locks.
pub struct rocksdb_transaction_options_t {
    set_snapshot: bool,
    deadlock_detect: bool,
    use_only_the_last_commit_time_batch_for_recovery: bool,
    lock_timeout: i64,
    deadlock_timeout_us: i64,
    expiration: i64,
    deadlock_detect_depth: i64,
    max_write_batch_size: u64,
    skip_concurrency_control: bool,
    skip_prepare: bool,
    write_batch_flush_threshold: i64,
    write_batch_track_timestamp_size: bool,
    commit_bypass_memtable: bool,
    large_txn_commit_optimize_threshold: u32,
    large_txn_commit_optimize_byte_threshold: u64,
    /// Any value fits; kept for the table of accessors.
    deferred: Deferred,
}

impl Default for rocksdb_transaction_options_t {
    fn default() -> Self {
        let own = TxnOptions::default();
        Self {
            set_snapshot: own.set_snapshot,
            deadlock_detect: own.deadlock_detect,
            use_only_the_last_commit_time_batch_for_recovery: false,
            lock_timeout: own.lock_timeout,
            deadlock_timeout_us: 500,
            expiration: own.expiration,
            deadlock_detect_depth: own.deadlock_detect_depth as i64,
            max_write_batch_size: own.max_write_batch_size as u64,
            skip_concurrency_control: own.skip_concurrency_control,
            skip_prepare: own.skip_prepare,
            write_batch_flush_threshold: -1,
            write_batch_track_timestamp_size: false,
            commit_bypass_memtable: false,
            large_txn_commit_optimize_threshold: 0,
            large_txn_commit_optimize_byte_threshold: 0,
            deferred: Deferred::new(),
        }
    }
}

impl rocksdb_transaction_options_t {
    pub(crate) fn options(&self) -> TxnOptions {
        let mut options = TxnOptions::pessimistic();
        options.set_snapshot = self.set_snapshot;
        options.deadlock_detect = self.deadlock_detect;
        options.lock_timeout = self.lock_timeout;
        options.expiration = self.expiration;
        options.deadlock_detect_depth = usize::try_from(self.deadlock_detect_depth).unwrap_or(0);
        options.max_write_batch_size =
            usize::try_from(self.max_write_batch_size).unwrap_or(usize::MAX);
        options.skip_concurrency_control = self.skip_concurrency_control;
        options.skip_prepare = self.skip_prepare;
        options
    }
}

/// Options of a transaction that does not lock.
#[derive(Default)]
pub struct rocksdb_optimistictransaction_options_t {
    set_snapshot: bool,
    /// Any value fits; kept for the table of accessors.
    deferred: Deferred,
}

impl rocksdb_optimistictransaction_options_t {
    pub(crate) fn options(&self) -> TxnOptions {
        TxnOptions::optimistic().set_snapshot(self.set_snapshot)
    }
}

/// Options of a database with transactions that do not lock; none has an effect.
pub struct rocksdb_optimistictransactiondb_options_t {
    validate_policy: i32,
    occ_lock_buckets: u32,
    /// Any value fits; kept for the table of accessors.
    deferred: Deferred,
}

impl Default for rocksdb_optimistictransactiondb_options_t {
    fn default() -> Self {
        Self {
            validate_policy: 1,
            occ_lock_buckets: 1 << 20,
            deferred: Deferred::new(),
        }
    }
}

/// Buckets that RocksDB's optimistic transactions lock while they are checked; here there are none, this is a name.
#[derive(Default)]
pub struct rocksdb_optimistictransactiondb_lock_buckets_t {
    _private: u8,
}

accessors! { rocksdb_transactiondb_options_t {
    max_num_locks:
        rocksdb_transactiondb_options_set_max_num_locks(i64),
        rocksdb_transactiondb_options_get_max_num_locks -> i64;
    max_num_deadlocks:
        rocksdb_transactiondb_options_set_max_num_deadlocks(u32),
        rocksdb_transactiondb_options_get_max_num_deadlocks -> u32;
    num_stripes:
        rocksdb_transactiondb_options_set_num_stripes(usize),
        rocksdb_transactiondb_options_get_num_stripes -> usize;
    transaction_lock_timeout:
        rocksdb_transactiondb_options_set_transaction_lock_timeout(i64),
        rocksdb_transactiondb_options_get_transaction_lock_timeout -> i64;
    default_lock_timeout:
        rocksdb_transactiondb_options_set_default_lock_timeout(i64),
        rocksdb_transactiondb_options_get_default_lock_timeout -> i64;
    write_policy:
        rocksdb_transactiondb_options_set_write_policy(i32),
        rocksdb_transactiondb_options_get_write_policy -> i32;
    rollback_merge_operands:
        rocksdb_transactiondb_options_set_rollback_merge_operands(u8),
        rocksdb_transactiondb_options_get_rollback_merge_operands -> u8;
    use_per_key_point_lock_mgr:
        rocksdb_transactiondb_options_set_use_per_key_point_lock_mgr(u8),
        rocksdb_transactiondb_options_get_use_per_key_point_lock_mgr -> u8;
    skip_concurrency_control:
        rocksdb_transactiondb_options_set_skip_concurrency_control(u8),
        rocksdb_transactiondb_options_get_skip_concurrency_control -> u8;
    default_write_batch_flush_threshold:
        rocksdb_transactiondb_options_set_default_write_batch_flush_threshold(i64),
        rocksdb_transactiondb_options_get_default_write_batch_flush_threshold -> i64;
    enable_udt_validation:
        rocksdb_transactiondb_options_set_enable_udt_validation(u8),
        rocksdb_transactiondb_options_get_enable_udt_validation -> u8;
    txn_commit_bypass_memtable_threshold:
        rocksdb_transactiondb_options_set_txn_commit_bypass_memtable_threshold(u32),
        rocksdb_transactiondb_options_get_txn_commit_bypass_memtable_threshold -> u32;
}}

accessors! { rocksdb_transaction_options_t {
    set_snapshot:
        rocksdb_transaction_options_set_set_snapshot(u8),
        rocksdb_transaction_options_get_set_snapshot -> u8;
    deadlock_detect:
        rocksdb_transaction_options_set_deadlock_detect(u8),
        rocksdb_transaction_options_get_deadlock_detect -> u8;
    use_only_the_last_commit_time_batch_for_recovery:
        rocksdb_transaction_options_set_use_only_the_last_commit_time_batch_for_recovery(u8),
        rocksdb_transaction_options_get_use_only_the_last_commit_time_batch_for_recovery -> u8;
    lock_timeout:
        rocksdb_transaction_options_set_lock_timeout(i64),
        rocksdb_transaction_options_get_lock_timeout -> i64;
    deadlock_timeout_us:
        rocksdb_transaction_options_set_deadlock_timeout_us(i64),
        rocksdb_transaction_options_get_deadlock_timeout_us -> i64;
    expiration:
        rocksdb_transaction_options_set_expiration(i64),
        rocksdb_transaction_options_get_expiration -> i64;
    deadlock_detect_depth:
        rocksdb_transaction_options_set_deadlock_detect_depth(i64),
        rocksdb_transaction_options_get_deadlock_detect_depth -> i64;
    max_write_batch_size:
        rocksdb_transaction_options_set_max_write_batch_size(usize),
        rocksdb_transaction_options_get_max_write_batch_size -> usize;
    skip_concurrency_control:
        rocksdb_transaction_options_set_skip_concurrency_control(u8),
        rocksdb_transaction_options_get_skip_concurrency_control -> u8;
    skip_prepare:
        rocksdb_transaction_options_set_skip_prepare(u8),
        rocksdb_transaction_options_get_skip_prepare -> u8;
    write_batch_flush_threshold:
        rocksdb_transaction_options_set_write_batch_flush_threshold(i64),
        rocksdb_transaction_options_get_write_batch_flush_threshold -> i64;
    write_batch_track_timestamp_size:
        rocksdb_transaction_options_set_write_batch_track_timestamp_size(u8),
        rocksdb_transaction_options_get_write_batch_track_timestamp_size -> u8;
    commit_bypass_memtable:
        rocksdb_transaction_options_set_commit_bypass_memtable(u8),
        rocksdb_transaction_options_get_commit_bypass_memtable -> u8;
    large_txn_commit_optimize_threshold:
        rocksdb_transaction_options_set_large_txn_commit_optimize_threshold(u32),
        rocksdb_transaction_options_get_large_txn_commit_optimize_threshold -> u32;
    large_txn_commit_optimize_byte_threshold:
        rocksdb_transaction_options_set_large_txn_commit_optimize_byte_threshold(u64),
        rocksdb_transaction_options_get_large_txn_commit_optimize_byte_threshold -> u64;
}}

accessors! { rocksdb_optimistictransaction_options_t {
    set_snapshot:
        rocksdb_optimistictransaction_options_set_set_snapshot(u8),
        rocksdb_optimistictransaction_options_get_set_snapshot -> u8;
}}

accessors! { rocksdb_optimistictransactiondb_options_t {
    validate_policy:
        rocksdb_optimistictransactiondb_options_set_validate_policy(i32),
        rocksdb_optimistictransactiondb_options_get_validate_policy -> i32;
    occ_lock_buckets:
        rocksdb_optimistictransactiondb_options_set_occ_lock_buckets(u32),
        rocksdb_optimistictransactiondb_options_get_occ_lock_buckets -> u32;
}}

c_api! {
    /// RocksDB's defaults.
    fn rocksdb_transactiondb_options_create() -> *mut rocksdb_transactiondb_options_t {
        boxed(rocksdb_transactiondb_options_t::default())
    }

    /// RocksDB's defaults.
    fn rocksdb_transaction_options_create() -> *mut rocksdb_transaction_options_t {
        boxed(rocksdb_transaction_options_t::default())
    }

    /// RocksDB's defaults.
    fn rocksdb_optimistictransaction_options_create() -> *mut rocksdb_optimistictransaction_options_t {
        boxed(rocksdb_optimistictransaction_options_t::default())
    }

    /// RocksDB's defaults.
    fn rocksdb_optimistictransactiondb_options_create() -> *mut rocksdb_optimistictransactiondb_options_t {
        boxed(rocksdb_optimistictransactiondb_options_t::default())
    }

    /// Stands for buckets, of which there are none.
    fn rocksdb_optimistictransactiondb_lock_buckets_create(
        _bucket_count: usize,
        _cache_aligned: u8,
    ) -> *mut rocksdb_optimistictransactiondb_lock_buckets_t {
        boxed(rocksdb_optimistictransactiondb_lock_buckets_t::default())
    }

    /// Memory that the buckets take.
    fn rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(
        lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
    ) -> usize {
        size_of_val(&*lock_buckets)
    }

    /// Has databases share buckets. They have none.
    fn rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(
        _opt: *mut rocksdb_optimistictransactiondb_options_t,
        _lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
    ) {
    }
}

destroyers! {
    rocksdb_transactiondb_options_destroy(rocksdb_transactiondb_options_t);
    rocksdb_transaction_options_destroy(rocksdb_transaction_options_t);
    rocksdb_optimistictransaction_options_destroy(rocksdb_optimistictransaction_options_t);
    rocksdb_optimistictransactiondb_options_destroy(rocksdb_optimistictransactiondb_options_t);
    rocksdb_optimistictransactiondb_lock_buckets_destroy(rocksdb_optimistictransactiondb_lock_buckets_t);
}
