//! Transactions, and databases with them.

use crate::support::*;
use spanlith_capi::*;
use std::ffi::c_char;
use std::ptr;
use std::time::Duration;

const TIMEOUT: &str = "Operation timed out: Timeout waiting to lock key";
const CONFLICT: &str = "Resource busy: ";

/// A value from `malloc`.
///
/// # Safety
/// `value` is NULL or has `len` bytes from `malloc`.
unsafe fn taken(value: *mut c_char, len: usize) -> Option<Vec<u8>> {
    if value.is_null() {
        assert_eq!(len, 0, "the length of nothing");
        return None;
    }
    // SAFETY: The caller says so.
    unsafe {
        let out = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
        libc_free(value);
        Some(out)
    }
}

/// A database with transactions that lock, in a [`World`].
struct Locking {
    db: *mut rocksdb_transactiondb_t,
    options: *mut rocksdb_transaction_options_t,
}

impl Locking {
    fn open(world: &World) -> Self {
        // SAFETY: Handles are valid, and destroyed once.
        unsafe {
            let how = rocksdb_transactiondb_options_create();
            rocksdb_transactiondb_options_set_transaction_lock_timeout(how, 30);
            rocksdb_transactiondb_options_set_default_lock_timeout(how, 20);
            let path = world.path.as_ptr();
            let db = call(|e| rocksdb_transactiondb_open(world.options, how, path, e)).unwrap();
            rocksdb_transactiondb_options_destroy(how);
            let options = rocksdb_transaction_options_create();
            Self { db, options }
        }
    }

    fn put(&self, world: &World, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: Handles are valid; lengths are right.
        call(|e| unsafe {
            let (k, v) = (p(key), p(value));
            rocksdb_transactiondb_put(self.db, world.write, k, key.len(), v, value.len(), e);
        })
    }

    fn get(&self, world: &World, key: &[u8]) -> Option<Vec<u8>> {
        let mut len = 77;
        // SAFETY: Handles are valid; lengths are right.
        unsafe {
            let (k, n) = (p(key), key.len());
            let get = |e| rocksdb_transactiondb_get(self.db, world.read, k, n, &raw mut len, e);
            let value = call(get).unwrap();
            taken(value, len)
        }
    }

    fn begin(&self, world: &World) -> Txn {
        // SAFETY: Handles are valid.
        let txn = unsafe {
            rocksdb_transaction_begin(self.db, world.write, self.options, ptr::null_mut())
        };
        Txn(txn)
    }

    /// Handles of prepared transactions.
    fn prepared(&self) -> Vec<Txn> {
        let mut count = 77;
        // SAFETY: The handle is valid; the array has as many elements as it says.
        unsafe {
            let array = rocksdb_transactiondb_get_prepared_transactions(self.db, &raw mut count);
            assert_eq!(array.is_null(), count == 0);
            let all = (0..count).map(|at| Txn(*array.add(at))).collect();
            rocksdb_free(array.cast());
            all
        }
    }

    fn close(self) {
        // SAFETY: Nobody uses them any more.
        unsafe {
            rocksdb_transaction_options_destroy(self.options);
            rocksdb_transactiondb_close(self.db);
        }
    }
}

/// A transaction; destroyed when it is dropped.
struct Txn(*mut rocksdb_transaction_t);

impl Drop for Txn {
    fn drop(&mut self) {
        // SAFETY: Not used any more.
        unsafe { rocksdb_transaction_destroy(self.0) }
    }
}

impl Txn {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: The handle is valid; lengths are right.
        call(|e| unsafe {
            rocksdb_transaction_put(self.0, p(key), key.len(), p(value), value.len(), e);
        })
    }

    fn get_at(
        &self,
        options: *mut rocksdb_readoptions_t,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        let mut len = 77;
        // SAFETY: Handles are valid; lengths are right.
        unsafe {
            let (k, n) = (p(key), key.len());
            let value = call(|e| rocksdb_transaction_get(self.0, options, k, n, &raw mut len, e))?;
            Ok(taken(value, len))
        }
    }

    fn get(&self, world: &World, key: &[u8]) -> Option<Vec<u8>> {
        self.get_at(world.read, key).unwrap()
    }

    fn get_for_update(
        &self,
        world: &World,
        key: &[u8],
        exclusive: u8,
    ) -> Result<Option<Vec<u8>>, String> {
        let (mut len, k, n) = (77, p(key), key.len());
        // SAFETY: Handles are valid; lengths are right.
        unsafe {
            let value = call(|e| {
                let len = &raw mut len;
                rocksdb_transaction_get_for_update(self.0, world.read, k, n, len, exclusive, e)
            });
            Ok(taken(value?, len))
        }
    }

    fn commit(&self) -> Result<(), String> {
        // SAFETY: The handle is valid.
        call(|e| unsafe { rocksdb_transaction_commit(self.0, e) })
    }

    fn rollback(&self) -> Result<(), String> {
        // SAFETY: The handle is valid.
        call(|e| unsafe { rocksdb_transaction_rollback(self.0, e) })
    }

    fn set_name(&self, name: &[u8]) -> Result<(), String> {
        // SAFETY: The handle is valid; the length is right.
        call(|e| unsafe { rocksdb_transaction_set_name(self.0, p(name), name.len(), e) })
    }

    fn name(&self) -> Vec<u8> {
        let mut len = 77;
        // SAFETY: The handle is valid; the name has that length.
        unsafe {
            let name = rocksdb_transaction_get_name(self.0, &raw mut len);
            taken(name, len).unwrap()
        }
    }

    fn prepare(&self) -> Result<(), String> {
        // SAFETY: The handle is valid.
        call(|e| unsafe { rocksdb_transaction_prepare(self.0, e) })
    }
}

fn invalid(text: &str) -> Result<(), String> {
    Err(format!("Invalid argument: {text}"))
}

fn err<T>(text: &str) -> Result<T, String> {
    Err(text.into())
}

#[test]
fn a_transaction_is_seen_by_itself_and_then_by_all() {
    let world = World::new();
    let db = Locking::open(&world);
    let txn = db.begin(&world);
    txn.put(b"a", b"1").unwrap();
    assert_eq!(txn.get(&world, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(&world, b"a"), None);
    // SAFETY: Handles are valid.
    unsafe {
        rocksdb_transaction_set_savepoint(txn.0);
        txn.put(b"b", b"1").unwrap();
        call(|e| rocksdb_transaction_delete(txn.0, p(b"a"), 1, e)).unwrap();
        let back = || call(|e| rocksdb_transaction_rollback_to_savepoint(txn.0, e));
        back().unwrap();
        assert_eq!(back(), err("NotFound: "));
        // Its lock went with it.
        db.put(&world, b"b", b"2").unwrap();
        let mut no = 77;
        let pinned = call(|e| rocksdb_transaction_get_pinned(txn.0, world.read, p(b"a"), 1, e));
        let value = pinned.unwrap();
        assert!(!rocksdb_pinnableslice_value(value, &raw mut no).is_null());
        assert_eq!(no, 1);
        rocksdb_pinnableslice_destroy(value);
    }
    txn.commit().unwrap();
    assert_eq!(db.get(&world, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(
        txn.commit(),
        invalid("Transaction has already been committed.")
    );
    assert_eq!(
        txn.rollback(),
        invalid("This transaction has already been committed.")
    );

    let undone = db.begin(&world);
    undone.put(b"a", b"2").unwrap();
    undone.rollback().unwrap();
    undone.put(b"c", b"3").unwrap();
    drop(undone);
    assert_eq!(db.get(&world, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(&world, b"c"), None);
    db.put(&world, b"c", b"").unwrap();
    drop(txn);
    db.close();
    // SAFETY: NULL is allowed.
    unsafe {
        rocksdb_transaction_destroy(ptr::null_mut());
        rocksdb_transactiondb_close(ptr::null_mut());
        rocksdb_transactiondb_close_base_db(ptr::null_mut());
        rocksdb_optimistictransactiondb_close(ptr::null_mut());
        rocksdb_writebatch_wi_destroy(ptr::null_mut());
    }
}

#[test]
fn locks_keep_transactions_and_plain_writes_out() {
    let world = World::new();
    let db = Locking::open(&world);
    let (one, two) = (db.begin(&world), db.begin(&world));
    one.put(b"a", b"1").unwrap();
    assert_eq!(two.put(b"a", b"2"), err(TIMEOUT));
    assert_eq!(two.get_for_update(&world, b"a", 1), err(TIMEOUT));
    assert_eq!(db.put(&world, b"a", b"2"), err(TIMEOUT));
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let (w, k) = (world.write, p(b"a"));
        let deleted = call(|e| rocksdb_transactiondb_delete(db.db, w, k, 1, e));
        assert_eq!(deleted, err(TIMEOUT));
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p(b"b"), 1, p(b"b"), 1);
        rocksdb_writebatch_put(batch, k, 1, p(b"b"), 1);
        let write = |b| call(|e| rocksdb_transactiondb_write(db.db, w, b, e));
        assert_eq!(write(batch), err(TIMEOUT));
        assert_eq!(db.get(&world, b"b"), None);
        drop(one);
        write(batch).unwrap();
        let mut len = 0;
        let header = rocksdb_writebatch_data(batch, &raw mut len).cast::<u8>();
        assert_ne!(std::slice::from_raw_parts(header, 8), [0; 8]);
        rocksdb_writebatch_delete_range(batch, p(b"x"), 1, p(b"y"), 1);
        assert_eq!(write(batch), invalid("DeleteRangeCF not implemented"));
        rocksdb_writebatch_destroy(batch);
    }
    // Shared by readers, and nobody writes.
    let three = db.begin(&world);
    two.get_for_update(&world, b"a", 0).unwrap();
    three.get_for_update(&world, b"a", 0).unwrap();
    assert_eq!(three.put(b"a", b"3"), err(TIMEOUT));
    drop(two);
    three.put(b"a", b"3").unwrap();
    drop(three);
    db.close();
}

#[test]
fn a_snapshot_makes_later_writes_conflicts() {
    let world = World::new();
    let db = Locking::open(&world);
    db.put(&world, b"s", b"1").unwrap();
    // SAFETY: Handles are valid.
    unsafe {
        rocksdb_transaction_options_set_set_snapshot(db.options, 1);
        let txn = db.begin(&world);
        db.put(&world, b"s", b"2").unwrap();
        assert_eq!(txn.put(b"s", b"3"), err(CONFLICT));
        assert_eq!(txn.get_for_update(&world, b"s", 1), err(CONFLICT));
        assert_eq!(txn.get(&world, b"s").as_deref(), Some(&b"2"[..]));

        // The moment of the transaction, in read options.
        let read = rocksdb_readoptions_create();
        let snapshot = rocksdb_transaction_get_snapshot(txn.0);
        assert!(rocksdb_snapshot_get_sequence_number(snapshot) > 0);
        rocksdb_readoptions_set_snapshot(read, snapshot);
        rocksdb_free(snapshot.cast_mut().cast());
        let again = rocksdb_transaction_get_snapshot(txn.0);
        // Never released by contract; harmless if it is.
        rocksdb_release_snapshot(ptr::null_mut(), again);
        assert_eq!(txn.get_at(read, b"s"), Ok(Some(b"1".to_vec())));
        drop(txn);
        assert_eq!(db.get(&world, b"s").as_deref(), Some(&b"2"[..]));

        rocksdb_transaction_options_set_set_snapshot(db.options, 0);
        let without = db.begin(&world);
        let none = rocksdb_transaction_get_snapshot(without.0);
        assert!(!none.is_null());
        assert_eq!(rocksdb_snapshot_get_sequence_number(none), 0);
        rocksdb_readoptions_set_snapshot(read, none);
        rocksdb_free(none.cast_mut().cast());
        assert_eq!(without.get_at(read, b"s"), Ok(Some(b"2".to_vec())));

        // The database's.
        let snapshot = rocksdb_transactiondb_create_snapshot(db.db);
        rocksdb_readoptions_set_snapshot(read, snapshot);
        db.put(&world, b"s", b"4").unwrap();
        assert_eq!(without.get_at(read, b"s"), Ok(Some(b"2".to_vec())));
        rocksdb_transactiondb_release_snapshot(db.db, snapshot);
        rocksdb_readoptions_destroy(read);
        drop(without);
    }
    db.close();
}

/// Describes what moves to another thread.
struct Sent<T>(T);
// SAFETY: Transactions may move between threads.
unsafe impl<T> Send for Sent<T> {}

#[test]
fn a_circle_of_waits_is_a_deadlock() {
    let world = World::new();
    let db = Locking::open(&world);
    // SAFETY: The handle is valid.
    unsafe {
        rocksdb_transaction_options_set_deadlock_detect(db.options, 1);
        rocksdb_transaction_options_set_lock_timeout(db.options, 20_000);
    }
    let (one, two) = (db.begin(&world), Sent(db.begin(&world)));
    one.put(b"a", b"1").unwrap();
    two.0.put(b"b", b"2").unwrap();
    let waiting = std::thread::spawn(move || {
        let two = two;
        (two.0.put(b"a", b"2"), two.0.commit())
    });
    std::thread::sleep(Duration::from_millis(200));
    // One of them is told, whoever came last.
    let mine = one.put(b"b", b"1");
    drop(one);
    let (theirs, committed) = waiting.join().unwrap();
    let mut both = [mine, theirs];
    both.sort();
    assert_eq!(both, [Ok(()), err("Resource busy: Deadlock")]);
    committed.unwrap();
    assert!(db.get(&world, b"b").is_some());
    db.close();
}

#[test]
fn limits_of_time_size_and_number() {
    let world = World::new();
    let db = Locking::open(&world);
    // SAFETY: Handles are valid.
    unsafe {
        rocksdb_transaction_options_set_expiration(db.options, 20);
        let late = db.begin(&world);
        late.put(b"e", b"1").unwrap();
        std::thread::sleep(Duration::from_millis(60));
        // Its lock can be taken from it.
        db.put(&world, b"e", b"2").unwrap();
        assert_eq!(late.commit(), err("Operation expired: "));
        late.rollback().unwrap();
        rocksdb_transaction_options_set_expiration(db.options, -1);

        rocksdb_transaction_options_set_max_write_batch_size(db.options, 40);
        let small = db.begin(&world);
        small.put(b"a", b"0123456789").unwrap();
        let full = "Operation aborted: Memory limit reached";
        assert_eq!(small.put(b"b", b"0123456789"), err(full));
        rocksdb_transaction_options_set_max_write_batch_size(db.options, 0);

        rocksdb_transaction_options_set_skip_prepare(db.options, 0);
        let hasty = db.begin(&world);
        assert_eq!(hasty.commit(), invalid("Txn not prepared"));
    }
    db.close();

    // SAFETY: Handles are valid.
    unsafe {
        let how = rocksdb_transactiondb_options_create();
        rocksdb_transactiondb_options_set_max_num_locks(how, 1);
        let path = world.path.as_ptr();
        let open = || call(|e| rocksdb_transactiondb_open(world.options, how, path, e));
        let options = rocksdb_transaction_options_create();
        let db = Locking {
            db: open().unwrap(),
            options,
        };
        let greedy = db.begin(&world);
        greedy.put(b"1", b"").unwrap();
        let limit = "Operation aborted: Failed to acquire lock due to max_num_locks limit";
        assert_eq!(greedy.put(b"2", b""), err(limit));
        assert_eq!(db.put(&world, b"3", b""), err(limit));
        drop(greedy);
        db.close();

        rocksdb_transactiondb_options_set_write_policy(how, 1);
        let refused = open().unwrap_err();
        assert!(refused.starts_with("Not implemented: ") && refused.contains("write_policy"));
        rocksdb_transactiondb_options_destroy(how);
    }
}

#[test]
fn an_old_transaction_becomes_a_new_one() {
    let world = World::new();
    let db = Locking::open(&world);
    let txn = db.begin(&world);
    txn.set_name(b"n").unwrap();
    txn.put(b"a", b"1").unwrap();
    // SAFETY: Handles are valid.
    unsafe {
        let view = rocksdb_transaction_get_writebatch_wi(txn.0);
        let new = rocksdb_transaction_begin(db.db, world.write, db.options, txn.0);
        assert_eq!(new, txn.0);
        assert_eq!(rocksdb_writebatch_wi_count(view), 0);
        rocksdb_free(view.cast());
    }
    assert_eq!(txn.name(), b"");
    assert_eq!(txn.get(&world, b"a"), None);
    db.put(&world, b"a", b"2").unwrap();
    txn.set_name(b"n").unwrap();
    txn.put(b"a", b"3").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.get(&world, b"a").as_deref(), Some(&b"3"[..]));
    drop(txn);
    db.close();
}

#[test]
fn prepared_transactions_outlive_their_handles_and_the_database() {
    let world = World::new();
    let db = Locking::open(&world);
    let (one, two) = (db.begin(&world), db.begin(&world));
    let wrong = "Cannot prepare a transaction that has not been named.";
    assert_eq!(one.prepare(), invalid(wrong));
    let wrong = "Transaction name length must be between 1 and 512 chars.";
    assert_eq!(one.set_name(b""), invalid(wrong));
    assert_eq!(one.set_name(&[b'n'; 513]), invalid(wrong));
    one.set_name(b"one").unwrap();
    assert_eq!(
        one.set_name(b"uno"),
        invalid("Transaction has already been named.")
    );
    assert_eq!(two.set_name(b"one"), invalid("Duplicate txn name one"));
    two.set_name(b"a two").unwrap();
    assert_eq!(one.name(), b"one");
    one.put(b"1", b"one").unwrap();
    two.put(b"2", b"two").unwrap();
    assert!(db.prepared().is_empty());
    one.prepare().unwrap();
    assert_eq!(
        one.prepare(),
        invalid("Transaction has already been prepared.")
    );
    two.prepare().unwrap();
    assert_eq!(
        one.set_name(b"x"),
        invalid("Transaction is beyond state for naming.")
    );
    let names = |all: &[Txn]| all.iter().map(Txn::name).collect::<Vec<_>>();
    {
        // Of those that have handles.
        let all = db.prepared();
        assert_eq!(names(&all), [b"a two".to_vec(), b"one".to_vec()]);
        assert_eq!(all[1].get(&world, b"1").as_deref(), Some(&b"one"[..]));
    }
    assert_eq!(db.put(&world, b"1", b""), err(TIMEOUT));
    // Of one that has none, twice.
    drop(two);
    let (all, again) = (db.prepared(), db.prepared());
    assert_eq!(names(&all), names(&again));
    drop(again);
    // Taken late, and written with the commit.
    one.put(b"late", b"1").unwrap();
    one.commit().unwrap();
    assert_eq!(db.get(&world, b"late").as_deref(), Some(&b"1"[..]));
    assert_eq!(db.prepared().len(), 1);
    assert_eq!(
        all[1].commit(),
        invalid("Transaction has already been committed.")
    );
    drop((one, all));
    db.close();

    let db = Locking::open(&world);
    let all = db.prepared();
    assert_eq!(names(&all), [b"a two".to_vec()]);
    assert_eq!(db.get(&world, b"2"), None);
    assert_eq!(all[0].get(&world, b"2").as_deref(), Some(&b"two"[..]));
    let other = db.begin(&world);
    assert_eq!(
        other.set_name(b"a two"),
        invalid("Duplicate txn name a two")
    );
    all[0].commit().unwrap();
    assert_eq!(db.get(&world, b"2").as_deref(), Some(&b"two"[..]));
    assert!(db.prepared().is_empty());
    other.set_name(b"a two").unwrap();
    other.put(b"2", b"other").unwrap();
    other.prepare().unwrap();
    other.rollback().unwrap();
    let wrong = "Two phase transaction is not in state for rollback.";
    assert_eq!(other.rollback(), invalid(wrong));
    assert_eq!(
        other.commit(),
        invalid("Transaction has already been rolledback.")
    );
    assert_eq!(db.get(&world, b"2").as_deref(), Some(&b"two"[..]));
    drop((other, all));
    db.close();
}

/// Keys that an iterator shows from the first on.
fn keys(iterator: *mut rocksdb_iterator_t) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    // SAFETY: The handle is valid; keys have their length.
    unsafe {
        rocksdb_iter_seek_to_first(iterator);
        while rocksdb_iter_valid(iterator) == 1 {
            let mut len = 0;
            let key = rocksdb_iter_key(iterator, &raw mut len).cast::<u8>();
            keys.push(std::slice::from_raw_parts(key, len).to_vec());
            rocksdb_iter_next(iterator);
        }
        call(|e| rocksdb_iter_get_error(iterator, e)).unwrap();
    }
    keys
}

#[test]
fn iterators_show_a_family_as_if_the_transaction_were_committed() {
    let world = World::new();
    let db = Locking::open(&world);
    for key in [b"a", b"c", b"e"] {
        db.put(&world, key, b"old").unwrap();
    }
    let txn = db.begin(&world);
    txn.put(b"b", b"new").unwrap();
    // SAFETY: Handles are valid, bounds as long as they are used.
    unsafe {
        call(|e| rocksdb_transaction_delete(txn.0, p(b"c"), 1, e)).unwrap();
        let iterator = rocksdb_transaction_create_iterator(txn.0, world.read);
        assert_eq!(keys(iterator), [b"a", b"b", b"e"]);
        txn.put(b"d", b"new").unwrap();
        assert_eq!(keys(iterator), [b"a", b"b", b"d", b"e"]);
        let refreshed = call(|e| rocksdb_iter_refresh(iterator, e));
        assert_eq!(
            refreshed,
            err("Not implemented: Refresh() is not supported")
        );

        let read = rocksdb_readoptions_create();
        rocksdb_readoptions_set_iterate_upper_bound(read, p(b"d"), 1);
        let bounded = rocksdb_transaction_create_iterator(txn.0, read);
        assert_eq!(keys(bounded), [b"a", b"b"]);
        rocksdb_iter_destroy(bounded);
        rocksdb_readoptions_destroy(read);

        // Its end does not wait for them.
        drop(txn);
        db.put(&world, b"b", b"plain").unwrap();
        assert_eq!(keys(iterator), [b"a", b"c", b"e"]);
        rocksdb_iter_destroy(iterator);

        let plain = rocksdb_transactiondb_create_iterator(db.db, world.read);
        assert_eq!(keys(plain), [b"a", b"b", b"c", b"e"]);
        rocksdb_iter_destroy(plain);
    }
    db.close();
}

#[test]
fn the_batch_of_a_transaction_is_seen_and_rebuilt() {
    let world = World::new();
    let db = Locking::open(&world);
    let txn = db.begin(&world);
    txn.put(b"a", b"1").unwrap();
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let view = rocksdb_transaction_get_writebatch_wi(txn.0);
        assert_eq!(rocksdb_writebatch_wi_count(view), 1);
        txn.put(b"b", b"2").unwrap();
        assert_eq!(rocksdb_writebatch_wi_count(view), 2);
        // Added there, it is the transaction's, without a lock.
        rocksdb_writebatch_wi_put(view, p(b"c"), 1, p(b"3"), 1);
        assert_eq!(txn.get(&world, b"c").as_deref(), Some(&b"3"[..]));
        db.put(&world, b"c", b"0").unwrap();
        let base = rocksdb_transactiondb_create_iterator(db.db, world.read);
        let over = rocksdb_writebatch_wi_create_iterator_with_base(view, base);
        assert_eq!(keys(over), [b"a", b"b", b"c"]);
        rocksdb_iter_destroy(over);
        rocksdb_free(view.cast());
        // Never destroyed by contract; harmless if it is.
        rocksdb_writebatch_wi_destroy(rocksdb_transaction_get_writebatch_wi(txn.0));
        rocksdb_transaction_put_log_data(txn.0, p(b"note"), 4);
        txn.commit().unwrap();
        assert_eq!(db.get(&world, b"c").as_deref(), Some(&b"3"[..]));

        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p(b"x"), 1, p(b"1"), 1);
        rocksdb_writebatch_delete(batch, p(b"a"), 1);
        let txn = db.begin(&world);
        call(|e| rocksdb_transaction_rebuild_from_writebatch(txn.0, batch, e)).unwrap();
        assert_eq!(db.put(&world, b"x", b""), err(TIMEOUT));
        assert_eq!(txn.get(&world, b"a"), None);
        rocksdb_writebatch_clear(batch);
        rocksdb_writebatch_delete_range(batch, p(b"a"), 1, p(b"b"), 1);
        let range = call(|e| rocksdb_transaction_rebuild_from_writebatch(txn.0, batch, e));
        assert_eq!(range, invalid("DeleteRangeCF not implemented"));
        rocksdb_writebatch_destroy(batch);
        let indexed = rocksdb_writebatch_wi_create(0, 1);
        rocksdb_writebatch_wi_put(indexed, p(b"y"), 1, p(b"1"), 1);
        call(|e| rocksdb_transaction_rebuild_from_writebatch_wi(txn.0, indexed, e)).unwrap();
        rocksdb_writebatch_wi_destroy(indexed);
        assert_eq!(txn.get(&world, b"y").as_deref(), Some(&b"1"[..]));
        rocksdb_transaction_set_commit_timestamp(txn.0, 1);
        rocksdb_transaction_set_read_timestamp_for_validation(txn.0, 1);
    }
    drop(txn);
    db.close();
}

type MultiGet = unsafe extern "C" fn(
    *mut rocksdb_transaction_t,
    *const rocksdb_readoptions_t,
    usize,
    *const *const c_char,
    *const usize,
    *mut *mut c_char,
    *mut usize,
    *mut *mut c_char,
);

#[test]
fn many_keys_are_read_and_locked_at_once() {
    let world = World::new();
    let db = Locking::open(&world);
    db.put(&world, b"a", b"old").unwrap();
    let txn = db.begin(&world);
    txn.put(b"b", b"new").unwrap();
    let list = [p(b"a"), p(b"b"), p(b"c")];
    let garbage = ptr::dangling_mut::<c_char>();
    let read = |txn: &Txn, get: MultiGet, options| {
        let (mut values, mut sizes, mut errs) = ([garbage; 3], [77; 3], [garbage; 3]);
        // SAFETY: All arrays have three places.
        unsafe {
            let (v, s, e) = (values.as_mut_ptr(), sizes.as_mut_ptr(), errs.as_mut_ptr());
            get(txn.0, options, 3, list.as_ptr(), [1; 3].as_ptr(), v, s, e);
            [0, 1, 2].map(|at| {
                let value = taken(values[at], sizes[at]);
                take_text(errs[at]).map_or(Ok(value), Err)
            })
        }
    };
    let some = |value: &[u8]| Ok(Some(value.to_vec()));
    let all = [some(b"old"), some(b"new"), Ok(None)];
    assert_eq!(read(&txn, rocksdb_transaction_multi_get, world.read), all);
    assert_eq!(
        read(&txn, rocksdb_transaction_multi_get_for_update, world.read),
        all
    );
    assert_eq!(db.put(&world, b"c", b""), err(TIMEOUT));
    let other = db.begin(&world);
    let locked = [err(TIMEOUT), err(TIMEOUT), err(TIMEOUT)];
    assert_eq!(
        read(&other, rocksdb_transaction_multi_get_for_update, world.read),
        locked
    );
    // SAFETY: Handles are valid.
    unsafe {
        let get = rocksdb_readoptions_create();
        rocksdb_readoptions_set_io_activity(get, 3);
        assert_eq!(txn.get_at(get, b"a"), some(b"old"));
        let [wrong, ..] = read(&txn, rocksdb_transaction_multi_get, get);
        assert!(wrong.unwrap_err().contains("Can only call MultiGet with"));
        let [wrong, ..] = read(&txn, rocksdb_transaction_multi_get_for_update, get);
        assert!(
            wrong
                .unwrap_err()
                .contains("Cannot call MultiGetForUpdate with")
        );
        rocksdb_readoptions_destroy(get);
    }
    drop((txn, other));
    db.close();
}

#[test]
fn families_of_a_database_with_transactions() {
    let world = World::new();
    let db = Locking::open(&world);
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let name = c"two";
        let cf = call(|e| {
            rocksdb_transactiondb_create_column_family(db.db, world.options, name.as_ptr(), e)
        });
        let cf = cf.unwrap();
        let txn = db.begin(&world);
        let key = p(b"k");
        call(|e| rocksdb_transaction_put_cf(txn.0, cf, key, 1, p(b"v"), 1, e)).unwrap();
        let read = world.read;
        let mut len = 77;
        let get = call(|e| {
            rocksdb_transaction_get_for_update_cf(txn.0, read, cf, key, 1, &raw mut len, 1, e)
        });
        assert_eq!(taken(get.unwrap(), len).as_deref(), Some(&b"v"[..]));
        assert_eq!(txn.get(&world, b"k"), None);
        let write = world.write;
        let put = call(|e| {
            rocksdb_transactiondb_put_cf(db.db, write, cf, key, 1, p(b"w"), 1, e);
        });
        assert_eq!(put, err(TIMEOUT));
        db.put(&world, b"k", b"default").unwrap();
        let over = rocksdb_transaction_create_iterator_cf(txn.0, read, cf);
        assert_eq!(keys(over), [b"k"]);
        rocksdb_iter_destroy(over);
        txn.commit().unwrap();
        drop(txn);

        // The database below: no locks, and it closes nothing.
        let base = rocksdb_transactiondb_get_base_db(db.db);
        let txn = db.begin(&world);
        txn.put(b"k", b"txn").unwrap();
        world.put(base, b"k", b"base").unwrap();
        let default = rocksdb_get_default_column_family_handle(base);
        rocksdb_transactiondb_close_base_db(base);
        let mut len = 77;
        let get =
            call(|e| rocksdb_transactiondb_get_cf(db.db, read, default, key, 1, &raw mut len, e));
        assert_eq!(taken(get.unwrap(), len).as_deref(), Some(&b"base"[..]));
        rocksdb_column_family_handle_destroy(default);
        drop(txn);

        let flush = rocksdb_flushoptions_create();
        call(|e| rocksdb_transactiondb_flush_cf(db.db, flush, cf, e)).unwrap();
        let mut cfs = [cf];
        call(|e| rocksdb_transactiondb_flush_cfs(db.db, flush, cfs.as_mut_ptr(), 1, e)).unwrap();
        rocksdb_flushoptions_destroy(flush);
        call(|e| rocksdb_transactiondb_flush_wal(db.db, 1, e)).unwrap();
        let mut count = 77;
        let property = c"rocksdb.num-immutable-mem-table".as_ptr();
        assert_eq!(
            rocksdb_transactiondb_property_int(db.db, property, &raw mut count),
            0
        );
        let text = rocksdb_transactiondb_property_value(db.db, property);
        assert_eq!(take_text(text), Some(count.to_string()));

        // Clients take one kind of handle for the other.
        call(|e| rocksdb_drop_column_family(db.db.cast(), cf, e)).unwrap();
        rocksdb_column_family_handle_destroy(cf);
        let point = call(|e| rocksdb_transactiondb_checkpoint_object_create(db.db, e)).unwrap();
        let to = c_path(&world.dir.path().join("copy"));
        call(|e| rocksdb_checkpoint_create(point, to.as_ptr(), 0, e)).unwrap();
        rocksdb_checkpoint_object_destroy(point);
        db.close();

        let how = rocksdb_transactiondb_options_create();
        let (names, options) = ([c"default".as_ptr()], [world.options.cast_const()]);
        let mut handles = [ptr::null_mut()];
        let (n, o, h) = (names.as_ptr(), options.as_ptr(), handles.as_mut_ptr());
        let path = to.as_ptr();
        let copy = call(|e| {
            rocksdb_transactiondb_open_column_families(world.options, how, path, 1, n, o, h, e)
        });
        let copy = copy.unwrap();
        let mut len = 77;
        let get =
            call(|e| rocksdb_transactiondb_get_cf(copy, read, handles[0], key, 1, &raw mut len, e));
        assert_eq!(taken(get.unwrap(), len).as_deref(), Some(&b"base"[..]));
        rocksdb_column_family_handle_destroy(handles[0]);
        rocksdb_transactiondb_close(copy);
        rocksdb_transactiondb_options_destroy(how);
    }
}

#[test]
fn optimistic_transactions_conflict_when_they_commit() {
    let world = World::new();
    // SAFETY: Handles are valid; lengths are right.
    unsafe {
        let path = world.path.as_ptr();
        let open = call(|e| rocksdb_optimistictransactiondb_open(world.options, path, e));
        let db = open.unwrap();
        let base = rocksdb_optimistictransactiondb_get_base_db(db);
        let options = rocksdb_optimistictransaction_options_create();
        let begin = |old| rocksdb_optimistictransaction_begin(db, world.write, options, old);
        let txn = Txn(begin(ptr::null_mut()));
        txn.put(b"a", b"1").unwrap();
        world.put(base, b"a", b"2").unwrap();
        assert_eq!(txn.commit(), err(CONFLICT));
        assert_eq!(world.get(base, b"a"), Ok(Some(b"2".to_vec())));
        txn.rollback().unwrap();
        txn.put(b"a", b"3").unwrap();
        txn.commit().unwrap();
        assert_eq!(world.get(base, b"a"), Ok(Some(b"3".to_vec())));

        assert_eq!(begin(txn.0), txn.0);
        txn.get_for_update(&world, b"a", 1).unwrap();
        world.put(base, b"a", b"4").unwrap();
        txn.put(b"b", b"").unwrap();
        assert_eq!(txn.commit(), err(CONFLICT));

        rocksdb_optimistictransaction_options_set_set_snapshot(options, 1);
        begin(txn.0);
        world.put(base, b"a", b"5").unwrap();
        txn.put(b"a", b"6").unwrap();
        assert_eq!(txn.commit(), err(CONFLICT));
        let wrong = "Two phase commit not supported for optimistic transactions.";
        assert_eq!(txn.prepare(), invalid(wrong));
        let wrong = "Optimistic transactions cannot be named.";
        assert_eq!(txn.set_name(b"n"), invalid(wrong));
        drop(txn);

        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, p(b"w"), 1, p(b"1"), 1);
        let write = world.write;
        call(|e| rocksdb_optimistictransactiondb_write(db, write, batch, e)).unwrap();
        rocksdb_writebatch_destroy(batch);
        let point = call(|e| rocksdb_optimistictransactiondb_checkpoint_object_create(db, e));
        rocksdb_checkpoint_object_destroy(point.unwrap());
        let mut count = 77;
        let property = c"rocksdb.num-snapshots".as_ptr();
        let found = rocksdb_optimistictransactiondb_property_int(db, property, &raw mut count);
        assert_eq!((found, count), (0, 0));
        rocksdb_optimistictransactiondb_close_base_db(base);
        rocksdb_optimistictransactiondb_close(db);

        let how = rocksdb_optimistictransactiondb_options_create();
        let buckets = rocksdb_optimistictransactiondb_lock_buckets_create(16, 1);
        rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(how, buckets);
        rocksdb_optimistictransactiondb_lock_buckets_destroy(buckets);
        let open = call(|e| {
            rocksdb_optimistictransactiondb_open_with_otxn_db_options(world.options, how, path, e)
        });
        rocksdb_optimistictransactiondb_close(open.unwrap());
        rocksdb_optimistictransactiondb_options_destroy(how);
        rocksdb_optimistictransaction_options_destroy(options);
    }
}
