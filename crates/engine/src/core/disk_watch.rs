//! Calls to the disk, and jobs, that do not come back: noticed by a timer, told to listeners, the info
//! log and the property `spanlith.disk-stalls`.
//!
//! Readers that find what they need in memory go on; the watchdog holds no lock that they take.

use super::Engine;
use crate::listener::DiskStallInfo;
use spanlith_env::{Stalled, WatchedCall};
use std::fmt::Write;
use std::sync::PoisonError;
use std::time::Duration;

/// How much longer than a call to the disk a job may take.
const JOB_FACTOR: u32 = 30;

/// Looks in the time of the bound.
const LOOKS: u32 = 4;

/// Longest and shortest time between two looks.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(10));

impl Engine {
    /// Starts looking, if the options say so. The timer also sees whether writers are idle.
    pub(crate) fn watch_disk(&self) {
        let bound = Duration::from_secs(self.c.options.own.disk_stall_threshold);
        let period = match (&self.c.watchers.stalls, self.c.options.own.evidence) {
            (Some(_), _) => (bound / LOOKS).clamp(PERIODS.1, PERIODS.0),
            (None, true) => PERIODS.0,
            (None, false) => return,
        };
        let me = self.me.clone();
        let tick = Box::new(move || {
            let me = me.upgrade().filter(|me| !me.stopping());
            me.inspect(|me| {
                me.look_at_disk();
                me.vouch_when_idle();
            })
            .is_some()
        });
        let timer = self.c.env.executor.periodic("disk", period, tick);
        let mut slot = self
            .disk_timer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *slot = Some(timer);
    }

    /// One look.
    fn look_at_disk(&self) {
        let Some(watch) = &self.c.watchers.stalls else {
            return;
        };
        let bound = Duration::from_secs(self.c.options.own.disk_stall_threshold);
        let now = self.c.env.clock.monotonic_nanos();
        let stalled = watch.look(now, |call| match call {
            WatchedCall::Job => bound * JOB_FACTOR,
            _ => bound,
        });
        let before = std::mem::replace(&mut *self.stalled.lock(), stalled.clone());
        // Listeners first: the info log may be on the same disk.
        for s in stalled.iter().filter(|s| s.is_new) {
            self.c.listeners.on_disk_stalled(|| DiskStallInfo {
                path: s.path.clone(),
                call: s.call.name(),
                lasting: s.lasting,
            });
        }
        for s in stalled.iter().filter(|s| s.is_new) {
            self.c.log.warn(format_args!(
                "{} of {} has not come back for {} s",
                s.call.name(),
                s.path.display(),
                s.lasting.as_secs()
            ));
        }
        if stalled.is_empty() && !before.is_empty() {
            self.c
                .log
                .info(format_args!("what had not come back is over"));
        }
    }

    /// One line for each call that has not come back, as of the last look.
    pub(crate) fn disk_stalls_text(&self) -> String {
        let mut out = String::new();
        for Stalled {
            path,
            call,
            lasting,
            ..
        } in &*self.stalled.lock()
        {
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{} {} seconds {}",
                call.name(),
                path.display(),
                lasting.as_secs()
            );
        }
        out
    }
}
