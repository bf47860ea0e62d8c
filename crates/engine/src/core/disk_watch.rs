//! Calls to the disk, and jobs, that do not come back: noticed by a timer, told to listeners, the info
//! log and the property `spanlith.disk-stalls`.
//!
//! Readers that find what they need in memory go on; the watchdog holds no lock that they take.

use super::Reporter;
use super::state::rank;
use crate::listener::DiskStallInfo;
use spanlith_base::sync::Mutex;
use spanlith_env::{IoWatch, Stalled, WatchedCall};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// How much longer than a call to the disk a job may take.
const JOB_FACTOR: u32 = 30;

/// Looks in the time of the bound.
const LOOKS: u32 = 4;

/// Longest and shortest time between two looks.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(10));

/// Knows which calls have not come back.
pub(crate) struct DiskWatch {
    /// Knows which calls are under way; `None` if nobody wants to know.
    calls: Option<Arc<IoWatch>>,
    /// Time after which a call to the disk counts as stalled.
    bound: Duration,
    /// Calls that had not come back at the last look.
    stalled: Mutex<Vec<Stalled>>,
}

impl DiskWatch {
    /// Watches `calls`, if there are any to watch; those that take longer than `bound` are stalled.
    pub(crate) fn new(calls: Option<Arc<IoWatch>>, bound: Duration) -> Self {
        Self {
            calls,
            bound,
            stalled: Mutex::new(rank::LEAF, Vec::new()),
        }
    }

    /// Time between two looks, if there is something to look at. The timer also serves others, who want it at most
    /// [`PERIODS`] apart.
    pub(super) fn period(&self, others_want: bool) -> Option<Duration> {
        match (&self.calls, others_want) {
            (Some(_), _) => Some((self.bound / LOOKS).clamp(PERIODS.1, PERIODS.0)),
            (None, true) => Some(PERIODS.0),
            (None, false) => None,
        }
    }

    /// One look, at `now` in monotonic nanoseconds.
    pub(super) fn look(&self, now: u64, reporter: &Reporter) {
        let Some(calls) = &self.calls else {
            return;
        };
        let stalled = calls.look(now, |call| match call {
            WatchedCall::Job => self.bound * JOB_FACTOR,
            _ => self.bound,
        });
        let before = std::mem::replace(&mut *self.stalled.lock(), stalled.clone());
        // Listeners first: the info log may be on the same disk.
        for s in stalled.iter().filter(|s| s.is_new) {
            reporter.listeners().on_disk_stalled(|| DiskStallInfo {
                path: s.path.clone(),
                call: s.call.name(),
                lasting: s.lasting,
            });
        }
        for s in stalled.iter().filter(|s| s.is_new) {
            reporter.log().warn(format_args!(
                "{} of {} has not come back for {} s",
                s.call.name(),
                s.path.display(),
                s.lasting.as_secs()
            ));
        }
        if stalled.is_empty() && !before.is_empty() {
            let log = reporter.log();
            log.info(format_args!("what had not come back is over"));
        }
    }

    /// Runs a job, and watches how long it takes.
    pub(super) fn during<T>(&self, what: &str, job: impl FnOnce() -> T) -> T {
        match &self.calls {
            Some(calls) => calls.during(std::path::Path::new(what), WatchedCall::Job, job),
            None => job(),
        }
    }

    /// One line for each call that has not come back, as of the last look.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for s in &*self.stalled.lock() {
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{} {} seconds {}",
                s.call.name(),
                s.path.display(),
                s.lasting.as_secs()
            );
        }
        out
    }
}
