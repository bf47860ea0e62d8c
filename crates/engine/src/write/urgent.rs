//! Writes of threads whose end others wait for: user code that writes in a job, a compaction filter or a listener for
//! instance.
//!
//! While writers are stopped the job that ends the stop may be the one that writes. So such a write waits neither for
//! room nor for the pace of its family, and nobody who stands before it in the queue does: the group it is in, and
//! those before it, pass. A memtable, or level 0, is fuller for that by as much as the callbacks of jobs write.

use crate::core::Lsm;
use spanlith_base::callbacks::Place;
use spanlith_base::{Error, Result};

/// A write that nobody before it waits for room with.
pub(super) struct Urgent<'a>(&'a Lsm);

impl<'a> Urgent<'a> {
    /// A thread that is in a place of callbacks is about to write.
    ///
    /// # Errors
    /// `NotSupported` in a write that is first in the queue: this one would wait behind it for ever.
    #[cold]
    pub(super) fn begin(lsm: &'a Lsm, place: Place) -> Result<Option<Self>> {
        match place {
            Place::Write(database) if database == address(lsm) => Err(Error::not_supported(
                "Writing in a callback of a write that waits",
            )),
            // The write that waits is one of another database, whose queue is not this one's.
            Place::Write(_) => Ok(None),
            Place::Job => {
                let state = lsm.state.lock();
                lsm.throttle.begin_urgent();
                drop(state);
                // A leader that waits goes on.
                lsm.state.notify_all();
                Ok(Some(Self(lsm)))
            }
        }
    }
}

/// A number that tells databases that are open at the same time apart.
pub(super) fn address(lsm: &Lsm) -> usize {
    std::ptr::from_ref(lsm).addr()
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.throttle.end_urgent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::core::gate;
    use spanlith_base::callbacks;
    use spanlith_env::{Env, MemFs};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Says who comes first: the write of a job leads, or follows one that is stopped, delayed or held.
    #[test]
    fn a_write_of_a_job_passes_every_gate_with_those_before_it() {
        let env = Env {
            fs: Arc::new(MemFs::new()),
            ..Env::system()
        };
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.no_info_log().open().unwrap();
        let engine = db.engine().clone();
        for round in 0..60u32 {
            let bit = [gate::STOP, gate::HOLD][round as usize % 2];
            {
                let mut state = engine.state.lock();
                if bit == gate::HOLD {
                    state.jobs.hold_writers();
                }
                engine.gate.set(bit);
            }
            let begun = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begun.store(true, Ordering::Release);
                    db.default_cf().put("waits", round.to_be_bytes()).unwrap();
                });
                while !begun.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                let inside = callbacks::enter(Place::Job);
                db.default_cf().put("job", round.to_be_bytes()).unwrap();
                drop(inside);
                assert_ne!(engine.gate.bits() & bit, 0, "it is still shut");
                {
                    let mut state = engine.state.lock();
                    if state.jobs.hold_back_writers() {
                        state.jobs.release_writers();
                    }
                    engine.gate.clear(bit);
                }
                engine.state.notify_all();
            });
            assert!(!engine.throttle.has_urgent());
        }
        let inside = callbacks::enter(Place::Write(address(db.engine())));
        let e = db.default_cf().put("nested", "v").unwrap_err();
        assert_eq!(
            e.to_string(),
            "Not implemented: Writing in a callback of a write that waits"
        );
        drop(inside);
    }
}
