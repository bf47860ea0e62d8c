//! Memory that memtables left for the next ones: who gives it to the system.
//!
//! While writers fill one memtable after the other, its pages serve again and again, and a cache that
//! fills after a load takes them over; so does the next database that is opened. When nobody has taken any
//! for [`OFFERED_AFTER`], the system may take what it needs, and after [`RELEASED_AFTER`] all of it goes: by
//! then fresh pages would cost nothing worth mentioning. One timer does it for all databases of the process,
//! and goes on when they are closed. A child made by `fork` has a timer of its own.

use spanlith_base::memory::tend_spare;
use spanlith_env::{Executor, PerProcess};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long nobody took a region until the system may have the spare ones.
const OFFERED_AFTER: Duration = Duration::from_secs(1);
/// And until it gets them.
const RELEASED_AFTER: Duration = Duration::from_secs(10);

/// The one timer.
static SPARE: PerProcess<Arc<Spare>> = PerProcess::new();

#[derive(Default)]
struct Spare {
    /// The timer runs, or is about to end.
    is_watched: AtomicBool,
    /// Keeps the timer. A leaf but for the timers' own lock.
    timer: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// Describes what the timer owns: gone when it will not come again, or never came.
struct Watch(Arc<Spare>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.is_watched.store(false, Ordering::Relaxed);
    }
}

/// Part of a database that is dropped after all that holds memtables.
pub(crate) struct SpareMemory(Arc<dyn Executor>);

impl SpareMemory {
    pub(crate) fn new(executor: Arc<dyn Executor>) -> Self {
        Self(executor)
    }
}

impl Drop for SpareMemory {
    fn drop(&mut self) {
        watch_spare(&*self.0);
    }
}

/// Memory was given back: sees to it that it does not stay for long if nobody needs it.
pub(crate) fn watch_spare(executor: &dyn Executor) {
    let spare = SPARE.get_or_init(Arc::default);
    if spare.is_watched.swap(true, Ordering::Relaxed) {
        return;
    }
    let watch = Watch(spare.clone());
    let tick = Box::new(move || {
        let _owned = &watch;
        !tend_spare(OFFERED_AFTER, RELEASED_AFTER)
    });
    let timer = executor.periodic("spare", OFFERED_AFTER, tick);
    let mut slot = spare.timer.lock().unwrap_or_else(PoisonError::into_inner);
    let old = slot.replace(timer);
    drop(slot);
    // The timer before has said that it ends.
    drop(old);
}
