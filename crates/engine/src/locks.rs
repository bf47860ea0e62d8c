//! Locks on keys, held by transactions: exclusive or shared, with timeouts, expiry and detection of deadlocks.
//!
//! Each family has stripes; a key's stripe is a map of what is held in it, below one mutex. Who waits, waits for its
//! stripe: a release wakes all who wait there, and each looks again. Whoever wants deadlocks found notes in one graph whom
//! it waits for, and looks before it sleeps whether somebody it waits for waits for it.
//!
//! Rules, defaults and codes are those of RocksDB (R-BASE-23); there a lock belongs to a transaction, too, and not to a
//! thread.

use spanlith_base::sync::{Condvar, Mutex};
use spanlith_base::{Error, ErrorKind, Result, SubCode};
use spanlith_env::Clock;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// Rank of a stripe's lock, of the graph's and of the map of families: leaves, never held together but for the graph
/// inside a stripe.
const STRIPE_RANK: u8 = 85;
const GRAPH_RANK: u8 = 90;

/// Limits of all locks of a database.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LockOptions {
    /// Most keys that may be locked in a family; negative for no limit.
    pub max_num_locks: i64,
    /// Parts of a family's locks that are guarded by themselves; at least 1.
    pub num_stripes: usize,
    /// How long transactions wait for a lock if they do not say themselves, in milliseconds; negative for ever, 0 not at
    /// all.
    pub transaction_lock_timeout: i64,
    /// The same of writes without a transaction.
    pub default_lock_timeout: i64,
    /// Batches that are written without a transaction lock nothing: the caller knows that there is no conflict.
    pub skip_concurrency_control: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            max_num_locks: -1,
            num_stripes: 16,
            transaction_lock_timeout: 1000,
            default_lock_timeout: 1000,
            skip_concurrency_control: false,
        }
    }
}

/// Shortest sleep of who waits.
const LEAST_WAIT: Duration = Duration::from_micros(50);

/// States of an [`Owner`].
mod state {
    /// May be robbed once it is past its time.
    pub(super) const OPEN: u8 = 0;
    /// Decided about its end: nobody robs it any more.
    pub(super) const DECIDED: u8 = 1;
    /// Somebody took a lock from it.
    pub(super) const ROBBED: u8 = 2;
}

/// Describes who holds locks.
pub struct Owner {
    id: u64,
    /// By the monotonic clock, in nanoseconds.
    expires: Option<u64>,
    clock: Arc<dyn Clock>,
    state: AtomicU8,
}

impl Owner {
    /// Its number, unique in the life of the database.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether its time is over.
    pub fn is_expired(&self) -> bool {
        self.expires
            .is_some_and(|at| self.clock.monotonic_nanos() >= at)
    }

    /// Keeps its locks from being taken from it from now on; false if one was.
    pub fn decide(&self) -> bool {
        // AcqRel: whoever robs it afterwards sees that it may not.
        self.state
            .compare_exchange(
                state::OPEN,
                state::DECIDED,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .map_or_else(|found| found == state::DECIDED, |_| true)
    }

    /// Takes [`Self::decide`] back: what it had decided to do failed.
    pub fn reconsider(&self) {
        // Fails if it was not decided, or is robbed: then there is nothing to take back.
        let _ = self.state.compare_exchange(
            state::DECIDED,
            state::OPEN,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// When its locks may be taken from it.
    fn may_expire(&self) -> Option<u64> {
        self.expires
            .filter(|_| self.state.load(Ordering::Acquire) != state::DECIDED)
    }

    /// Returns whether a lock was taken from it.
    pub fn is_robbed(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::ROBBED
    }

    /// Gives its locks up to whoever wants one, if its time is over.
    fn rob(&self) -> bool {
        self.is_expired()
            && self
                .state
                .compare_exchange(
                    state::OPEN,
                    state::ROBBED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .map_or_else(|found| found == state::ROBBED, |_| true)
    }
}

/// Says whether several may hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Anybody who asks for no more than this.
    Shared,
    /// One.
    Exclusive,
}

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// None: for ever.
    pub timeout: Option<Duration>,
    /// Looks for deadlocks, along so many transactions; a longer chain counts as one.
    pub detect: Option<usize>,
}

impl Patience {
    /// Of a timeout in milliseconds, negative for ever.
    pub fn of_millis(timeout: i64) -> Self {
        Self {
            timeout: u64::try_from(timeout).ok().map(Duration::from_millis),
            detect: None,
        }
    }
}

/// A key's lock.
struct Held {
    owners: Vec<Arc<Owner>>,
    mode: LockMode,
}

#[derive(Default)]
struct Stripe {
    held: HashMap<Box<[u8]>, Held>,
    waiters: usize,
}

struct StripeCell {
    stripe: Mutex<Stripe>,
    released: Condvar,
}

struct FamilyLocks {
    stripes: Box<[StripeCell]>,
    /// Keys that are locked; only counted if there is a limit.
    count: AtomicI64,
}

impl FamilyLocks {
    fn new(stripes: usize) -> Self {
        let cell = || StripeCell {
            stripe: Mutex::new(STRIPE_RANK, Stripe::default()),
            released: Condvar::new(),
        };
        Self {
            stripes: (0..stripes.max(1)).map(|_| cell()).collect(),
            count: AtomicI64::new(0),
        }
    }

    fn stripe(&self, key: &[u8]) -> &StripeCell {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // Below the number of stripes, so it fits.
        let at = (hasher.finish() % self.stripes.len() as u64) as usize;
        &self.stripes[at]
    }
}

/// Describes what became of one look at a lock.
enum Try {
    Got,
    /// Held by these; the time of the first of them to expire.
    Blocked(Vec<u64>, Option<u64>),
}

/// All locks of a database.
pub struct LockTable {
    clock: Arc<dyn Clock>,
    options: LockOptions,
    families: RwLock<HashMap<u32, Arc<FamilyLocks>>>,
    /// Whom each transaction that waits and wants deadlocks found waits for.
    waits: Mutex<HashMap<u64, Vec<u64>>>,
    next_owner: AtomicU64,
}

impl LockTable {
    /// Nothing is locked.
    pub fn new(options: LockOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            options,
            families: RwLock::default(),
            waits: Mutex::new(GRAPH_RANK, HashMap::new()),
            next_owner: AtomicU64::new(1),
        }
    }

    /// The limits.
    pub fn options(&self) -> &LockOptions {
        &self.options
    }

    /// Somebody who may hold locks; they can be taken from it once `lifetime` is over.
    pub fn owner(&self, lifetime: Option<Duration>) -> Arc<Owner> {
        Arc::new(Owner {
            id: self.next_owner.fetch_add(1, Ordering::Relaxed),
            expires: lifetime.map(|l| self.nanos_after(l)),
            clock: self.clock.clone(),
            state: AtomicU8::new(state::OPEN),
        })
    }

    /// The time on the clock so much later.
    fn nanos_after(&self, time: Duration) -> u64 {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.clock.monotonic_nanos().saturating_add(nanos)
    }

    fn family(&self, cf: u32) -> Arc<FamilyLocks> {
        let known = self.families.read().unwrap_or_else(|e| e.into_inner());
        if let Some(family) = known.get(&cf) {
            return family.clone();
        }
        drop(known);
        let mut known = self.families.write().unwrap_or_else(|e| e.into_inner());
        let new = || Arc::new(FamilyLocks::new(self.options.num_stripes));
        known.entry(cf).or_insert_with(new).clone()
    }

    /// Locks a key for `owner`, which holds it in no stronger mode yet.
    ///
    /// # Errors
    /// `TimedOut` with `LockTimeout`; `Busy` with `Deadlock`; `Aborted` with `LockLimit`.
    pub fn lock(
        &self,
        owner: &Arc<Owner>,
        (cf, key): (u32, &[u8]),
        mode: LockMode,
        patience: Patience,
    ) -> Result<()> {
        let family = self.family(cf);
        let cell = family.stripe(key);
        let until = patience.timeout.map(|t| self.nanos_after(t));
        let mut is_over = patience.timeout == Some(Duration::ZERO);
        let mut stripe = cell.stripe.lock();
        loop {
            let (blockers, expiry) = match self.try_lock(&family, &mut stripe, owner, key, mode)? {
                Try::Got => return Ok(()),
                Try::Blocked(blockers, expiry) => (blockers, expiry),
            };
            // A waiter that is woken again and again is never late.
            is_over |= until.is_some_and(|until| self.clock.monotonic_nanos() >= until);
            if is_over {
                return Err(Error::new(ErrorKind::TimedOut, "").with_subcode(SubCode::LockTimeout));
            }
            if let Some(depth) = patience.detect {
                self.wait_for(owner.id, blockers, depth)?;
            }
            stripe.waiters += 1;
            // Its holder may run out of time before it lets go.
            let wake = match (until, expiry) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            stripe = match wake {
                None => cell.released.wait(stripe),
                Some(at) => {
                    let left = at.saturating_sub(self.clock.monotonic_nanos());
                    // Not below a moment, or a time that is just over would be asked for again and again.
                    let left = Duration::from_nanos(left).max(LEAST_WAIT);
                    let (stripe, is_late) = cell.released.wait_timeout(stripe, left);
                    // The time that was waited decides, and not the clock, which may stand still.
                    is_over = is_late && wake == until;
                    stripe
                }
            };
            stripe.waiters -= 1;
            if patience.detect.is_some() {
                self.waits.lock().remove(&owner.id);
            }
        }
    }

    fn try_lock(
        &self,
        family: &FamilyLocks,
        stripe: &mut Stripe,
        owner: &Arc<Owner>,
        key: &[u8],
        mode: LockMode,
    ) -> Result<Try> {
        let max = self.options.max_num_locks;
        let held = match stripe.held.entry(key.into()) {
            Entry::Vacant(free) => {
                if max >= 0 {
                    // Relaxed: a count, and the limit need not be met to the key by threads that race.
                    if family.count.fetch_add(1, Ordering::Relaxed) >= max {
                        family.count.fetch_sub(1, Ordering::Relaxed);
                        let full = Error::new(ErrorKind::Aborted, "");
                        return Err(full.with_subcode(SubCode::LockLimit));
                    }
                }
                free.insert(Held {
                    owners: vec![owner.clone()],
                    mode,
                });
                return Ok(Try::Got);
            }
            Entry::Occupied(held) => held.into_mut(),
        };
        let is_mine = |o: &Arc<Owner>| o.id == owner.id;
        let shares = held.mode == LockMode::Shared && mode == LockMode::Shared;
        if !shares {
            held.owners.retain(|o| is_mine(o) || !o.rob());
        }
        if held.owners.iter().all(is_mine) {
            // Alone with it: the mode is what it asks for, weaker than before, too.
            held.owners = vec![owner.clone()];
            held.mode = mode;
            return Ok(Try::Got);
        }
        if shares {
            if !held.owners.iter().any(is_mine) {
                held.owners.push(owner.clone());
            }
            return Ok(Try::Got);
        }
        let others = held.owners.iter().filter(|o| !is_mine(o));
        let expiry = others.clone().filter_map(|o| o.may_expire()).min();
        Ok(Try::Blocked(others.map(|o| o.id).collect(), expiry))
    }

    /// Notes that `id` waits for `blockers`, unless one of them waits for it.
    ///
    /// # Errors
    /// `Busy` with `Deadlock`; nothing is noted then.
    fn wait_for(&self, id: u64, blockers: Vec<u64>, depth: usize) -> Result<()> {
        let mut waits = self.waits.lock();
        let mut next: VecDeque<u64> = blockers.iter().copied().collect();
        let mut seen = 0;
        let mut is_deadlock = false;
        while let Some(blocker) = next.pop_front() {
            seen += 1;
            if blocker == id || seen > depth {
                is_deadlock = true;
                break;
            }
            next.extend(waits.get(&blocker).into_iter().flatten());
        }
        if is_deadlock {
            return Err(Error::busy("").with_subcode(SubCode::Deadlock));
        }
        waits.insert(id, blockers);
        Ok(())
    }

    /// Gives up what `owner` holds of a key. Nothing, if that was taken from it.
    pub fn unlock(&self, owner: &Owner, (cf, key): (u32, &[u8])) {
        let family = self.family(cf);
        let cell = family.stripe(key);
        let mut stripe = cell.stripe.lock();
        let Some(held) = stripe.held.get_mut(key) else {
            return;
        };
        let before = held.owners.len();
        held.owners.retain(|o| o.id != owner.id);
        if held.owners.len() == before {
            return;
        }
        if held.owners.is_empty() {
            stripe.held.remove(key);
            if self.options.max_num_locks >= 0 {
                family.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let wakes = stripe.waiters > 0;
        drop(stripe);
        if wakes {
            cell.released.notify_all();
        }
    }

    /// Makes an exclusive lock of `owner` a shared one.
    pub fn weaken(&self, owner: &Owner, (cf, key): (u32, &[u8])) {
        let family = self.family(cf);
        let cell = family.stripe(key);
        let mut stripe = cell.stripe.lock();
        if let Some(held) = stripe.held.get_mut(key)
            && held.owners.iter().all(|o| o.id == owner.id)
        {
            held.mode = LockMode::Shared;
        }
        let wakes = stripe.waiters > 0;
        drop(stripe);
        if wakes {
            cell.released.notify_all();
        }
    }

    /// Forgets the locks of a family that was dropped. Its keys are locked by nobody any more: ids are not given twice.
    pub fn forget_family(&self, cf: u32) {
        let mut known = self.families.write().unwrap_or_else(|e| e.into_inner());
        if let Some(family) = known.remove(&cf) {
            for cell in &family.stripes {
                cell.stripe.lock().held.clear();
                cell.released.notify_all();
            }
        }
    }

    /// Number of keys that are locked in a family.
    #[cfg(test)]
    fn locked(&self, cf: u32) -> usize {
        let family = self.family(cf);
        let stripes = family.stripes.iter();
        stripes.map(|cell| cell.stripe.lock().held.len()).sum()
    }
}

#[cfg(test)]
mod tests;
