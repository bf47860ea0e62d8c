//! Describes what the transactions of a database share: locks, names, and the buckets that commits without locks go through.

use crate::locks::{LockOptions, LockTable};
use spanlith_base::sync::Mutex;
use spanlith_env::Clock;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, MutexGuard, OnceLock};

/// Buckets of keys, through which commits that are checked go one by one.
const BUCKETS: usize = 4096;

/// See the module.
pub(crate) struct Transactions {
    clock: Arc<dyn Clock>,
    locks: OnceLock<LockTable>,
    /// Names of the transactions that somebody holds.
    pub names: Mutex<HashSet<Vec<u8>>>,
    buckets: OnceLock<Box<[std::sync::Mutex<()>]>>,
}

impl Transactions {
    /// There is none.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            locks: OnceLock::new(),
            names: Mutex::new(super::state::rank::NAMES, HashSet::new()),
            buckets: OnceLock::new(),
        }
    }

    /// All locks.
    pub(crate) fn locks(&self) -> &LockTable {
        self.locks
            .get_or_init(|| LockTable::new(LockOptions::default(), self.clock.clone()))
    }

    /// Forgets those of a family that was dropped.
    pub(crate) fn forget_family(&self, cf: u32) {
        if let Some(locks) = self.locks.get() {
            locks.forget_family(cf);
        }
    }

    /// Limits them; false if there are locks already.
    pub(crate) fn set_lock_options(&self, options: LockOptions) -> bool {
        self.locks
            .set(LockTable::new(options, self.clock.clone()))
            .is_ok()
    }

    /// Nobody else commits with a key of these as long as the answer lives.
    pub(crate) fn enter<'a>(
        &self,
        keys: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Vec<MutexGuard<'_, ()>> {
        let buckets = self.buckets.get_or_init(|| {
            let bucket = || std::sync::Mutex::new(());
            (0..BUCKETS).map(|_| bucket()).collect()
        });
        let mut of_keys: Vec<usize> = keys
            .map(|key| {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                // Below the number of buckets, so it fits.
                (hasher.finish() % BUCKETS as u64) as usize
            })
            .collect();
        // In one order for all: nobody waits for one who waits for him.
        of_keys.sort_unstable();
        of_keys.dedup();
        let lock = |at: usize| buckets[at].lock().unwrap_or_else(|e| e.into_inner());
        of_keys.into_iter().map(lock).collect()
    }
}
