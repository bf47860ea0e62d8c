//! Describes what one memtable holds of the budget of a write buffer manager.

use spanlith_base::WriteBufferManager;
use spanlith_memtable::MemTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Follows the size of a memtable, and gives all of it back when the last holder of the memtable lets
/// go: readers may keep it longer than the flush.
pub(crate) struct MemCharge {
    manager: Arc<WriteBufferManager>,
    /// Bytes told to the manager; changed by the leader only.
    bytes: AtomicU64,
    is_sealed: AtomicBool,
}

impl MemCharge {
    /// The charge of `mem`, for as long as it lives.
    pub(crate) fn of(mem: &MemTable, manager: &Arc<WriteBufferManager>) -> Arc<Self> {
        let charge = Arc::new(Self {
            manager: manager.clone(),
            bytes: AtomicU64::new(0),
            is_sealed: AtomicBool::new(false),
        });
        mem.attach(Box::new(charge.clone()));
        charge.follow(mem.memory_usage() as u64);
        charge
    }

    /// The memtable holds `bytes` now.
    pub(crate) fn follow(&self, bytes: u64) {
        let before = self.bytes.load(Ordering::Relaxed);
        if bytes > before {
            self.bytes.store(bytes, Ordering::Relaxed);
            self.manager.reserve(bytes - before);
        }
    }

    /// The memtable takes no more entries.
    pub(crate) fn seal(&self) {
        if !self.is_sealed.swap(true, Ordering::Relaxed) {
            self.manager.seal(self.bytes.load(Ordering::Relaxed));
        }
    }
}

impl Drop for MemCharge {
    fn drop(&mut self) {
        self.seal();
        self.manager.free(self.bytes.load(Ordering::Relaxed));
    }
}
