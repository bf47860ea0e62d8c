//! One flush of several families in one edit, in a database whose other flushes take each family by itself.
//!
//! The caller that asks for it seals the families' memtables at one moment and lists them, both with leadership in hand. From
//! then on no job flushes one of these families by itself: a table with a part of what was sealed would be durable
//! without the others. `Lsm::schedule` begins with what is listed as soon as no job of any of the families
//! runs or is queued, in the order of asking where two lists have a family in common. A try that failed is listed
//! again.

use crate::core::{DbState, Place, Together, panicked, watch_spare};
use crate::flush::job::{Flusher, Picked};
use spanlith_base::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Flusher<'_> {
    /// Body of the job: flushes what is listed.
    pub(crate) fn flush_together(&self, listed: Together) {
        loop {
            let picked: Vec<Picked> = {
                let mut state = self.lsm.state.lock();
                if state.trouble.stops_work() || self.lsm.stopping() {
                    Self::list_again(&mut state, listed);
                    return;
                }
                let mut picked = Vec::new();
                for (id, newest) in &listed.0 {
                    picked.extend(Picked::up_to(&mut state, *id, newest));
                }
                picked
            };
            if picked.is_empty() {
                return;
            }
            let flush = || self.flush(&picked, 0);
            let flushed = catch_unwind(AssertUnwindSafe(flush));
            match flushed.unwrap_or_else(|panic| Err(panicked("flush", &*panic))) {
                Ok(()) => self.lsm.work_succeeded(Place::Flush),
                // Nothing was installed: once more, without it.
                Err(e) if e.kind() == ErrorKind::ColumnFamilyDropped => continue,
                Err(e) => {
                    self.failed(&picked, &e);
                    let mut state = self.lsm.state.lock();
                    // If a listener cleared the error nothing holds another try back, and each family's waits for
                    // the next write or flush.
                    if state.trouble.holds(Place::Flush) || state.trouble.refuses() {
                        Self::list_again(&mut state, listed);
                    }
                }
            }
            break;
        }
        self.lsm.purge_obsolete();
        watch_spare(&*self.lsm.c.env.executor);
    }

    /// Before all others, which have waited for this one's families.
    fn list_again(state: &mut DbState, listed: Together) {
        for (id, _) in &listed.0 {
            if let Some(f) = state.family_mut(*id) {
                f.flush.list();
            }
        }
        state.jobs.list_together_again(listed);
    }
}
