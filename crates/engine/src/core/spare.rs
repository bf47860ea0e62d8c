//! Memory that memtables left for the next ones: who gives it to the system.
//!
//! While writers fill one memtable after the other, its pages serve again and again, and a cache that
//! fills behind a load takes them over. When nobody has taken any for [`IDLE`], fresh pages would cost
//! nothing worth mentioning; then it goes, and with the last database at the latest.

use super::Engine;
use spanlith_base::memory::{release_spare, release_spare_unless_taken};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long spare memory waits for somebody who needs it.
const IDLE: Duration = Duration::from_secs(10);

/// What a database has to do with spare memory.
#[derive(Default)]
pub(crate) struct SpareMemory {
    /// The timer runs.
    is_watched: Arc<AtomicBool>,
    pub timer: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Drop for SpareMemory {
    fn drop(&mut self) {
        release_spare();
    }
}

impl Engine {
    /// A flush gave memory back: sees to it that it does not stay for long if nobody needs it.
    pub(crate) fn watch_spare(&self) {
        let is_watched = &self.spare.is_watched;
        if self.stopping() || is_watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let flag = is_watched.clone();
        let tick = Box::new(move || {
            let is_over = release_spare_unless_taken(IDLE);
            if is_over {
                flag.store(false, Ordering::Relaxed);
            }
            !is_over
        });
        let timer = self.c.env.executor.periodic("spare", IDLE, tick);
        let mut slot = self
            .spare
            .timer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let old = slot.replace(timer);
        drop(slot);
        // The timer before has said that it ends.
        drop(old);
    }
}
