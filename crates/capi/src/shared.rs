//! Batches and transactions that several handles share: with iterators over them, with views of them, and prepared
//! transactions with those that ask a database for them.
//!
//! All that share one are used by one thread at a time.

use spanlith::{IndexedBatch, Transaction, TxnOptions, WriteOptions};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Describes what is used by one thread at a time.
struct Cell<T>(UnsafeCell<T>);

// SAFETY: What shares a cell may move between threads and is used by one at a time: the C program promises it, and
// `get` asks for it.
unsafe impl<T: Send> Sync for Cell<T> {}

/// A batch that iterators share: one of its own, or that of a transaction.
#[derive(Clone)]
pub(crate) struct SharedBatch(Source);

#[derive(Clone)]
enum Source {
    Own(Arc<Cell<IndexedBatch>>),
    Of(SharedTransaction),
}

impl SharedBatch {
    pub(crate) fn new(batch: IndexedBatch) -> Self {
        Self(Source::Own(Arc::new(Cell(UnsafeCell::new(batch)))))
    }

    /// # Safety
    /// No other thread uses the batch or what shares it, and no reference for changes to it is alive.
    pub(crate) unsafe fn get(&self) -> &IndexedBatch {
        match &self.0 {
            // SAFETY: The caller says so.
            Source::Own(cell) => unsafe { &*cell.0.get() },
            // SAFETY: As above.
            Source::Of(transaction) => unsafe { transaction.get() }.batch(),
        }
    }

    /// # Safety
    /// As [`Self::get`], and no other reference to it is alive.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller says that nobody else has it"
    )]
    pub(crate) unsafe fn get_mut(&self) -> &mut IndexedBatch {
        match &self.0 {
            // SAFETY: The caller says so.
            Source::Own(cell) => unsafe { &mut *cell.0.get() },
            // SAFETY: As above.
            Source::Of(transaction) => unsafe { transaction.get_mut() }.batch_mut(),
        }
    }
}

/// A transaction and those who have it.
struct Held {
    transaction: Cell<Transaction>,
    /// Handles, without iterators. Changed below the lock of the registry, if it is there.
    handles: AtomicUsize,
    /// It is, or was, in the registry.
    is_noted: AtomicBool,
    registry: Arc<Registry>,
}

/// Prepared transactions of a database that have handles, by name.
#[derive(Default)]
pub(crate) struct Registry(Mutex<BTreeMap<Vec<u8>, Weak<Held>>>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Weak<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, each for another handle, in the order of their names. `more` tells of those without handles.
    pub(crate) fn all(
        self: &Arc<Self>,
        more: impl FnOnce() -> Vec<Transaction>,
    ) -> Vec<SharedTransaction> {
        let mut known = self.lock();
        // Kept until they are counted below, as all others are.
        let new: Vec<_> = more()
            .into_iter()
            .map(|transaction| {
                let name = transaction.name().to_vec();
                let new = SharedTransaction::with_handles(transaction, self.clone(), 0);
                new.0.is_noted.store(true, Ordering::Relaxed);
                known.insert(name, Arc::downgrade(&new.0));
                new
            })
            .collect();
        let found = known.values().filter_map(Weak::upgrade);
        let found = found.inspect(|held| {
            held.handles.fetch_add(1, Ordering::Relaxed);
        });
        let found = found.map(SharedTransaction).collect();
        drop(new);
        found
    }
}

/// A transaction that is shared.
#[derive(Clone)]
pub(crate) struct SharedTransaction(Arc<Held>);

impl SharedTransaction {
    /// For one handle.
    pub(crate) fn new(transaction: Transaction, registry: Arc<Registry>) -> Self {
        Self::with_handles(transaction, registry, 1)
    }

    fn with_handles(transaction: Transaction, registry: Arc<Registry>, handles: usize) -> Self {
        Self(Arc::new(Held {
            transaction: Cell(UnsafeCell::new(transaction)),
            handles: AtomicUsize::new(handles),
            is_noted: AtomicBool::new(false),
            registry,
        }))
    }

    /// # Safety
    /// No other thread uses the transaction or what shares it, and no reference for changes to it is alive.
    pub(crate) unsafe fn get(&self) -> &Transaction {
        // SAFETY: The caller says so.
        unsafe { &*self.0.transaction.0.get() }
    }

    /// # Safety
    /// As [`Self::get`], and no other reference to it is alive.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller says that nobody else has it"
    )]
    pub(crate) unsafe fn get_mut(&self) -> &mut Transaction {
        // SAFETY: The caller says so.
        unsafe { &mut *self.0.transaction.0.get() }
    }

    /// Its batch, for an iterator or a view.
    pub(crate) fn batch(&self) -> SharedBatch {
        SharedBatch(Source::Of(self.clone()))
    }

    /// It was prepared as `name`.
    pub(crate) fn note(&self, name: &[u8]) {
        let mut known = self.0.registry.lock();
        self.0.is_noted.store(true, Ordering::Relaxed);
        known.insert(name.to_vec(), Arc::downgrade(&self.0));
    }

    /// It was decided, or begins anew.
    pub(crate) fn forget(&self) {
        // Relaxed: whoever has a handle set it, or got the handle below the lock.
        if self.0.is_noted.load(Ordering::Relaxed) {
            self.remove_from(&mut self.0.registry.lock());
        }
    }

    fn remove_from(&self, known: &mut BTreeMap<Vec<u8>, Weak<Held>>) {
        known.retain(|_, held| held.as_ptr() != Arc::as_ptr(&self.0));
    }

    /// A handle goes. With the last the transaction ends as if it were dropped, also if there are iterators over it.
    ///
    /// # Safety
    /// As [`Self::get_mut`].
    pub(crate) unsafe fn leave(self) {
        let mut known = None;
        if self.0.is_noted.load(Ordering::Relaxed) {
            known = Some(self.0.registry.lock());
        }
        if self.0.handles.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        if let Some(known) = &mut known {
            self.remove_from(known);
        }
        drop(known);
        if Arc::strong_count(&self.0) > 1 {
            // SAFETY: The caller says so.
            unsafe { self.get_mut() }.restart(TxnOptions::default(), WriteOptions::default());
        }
    }
}
