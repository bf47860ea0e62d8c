//! Waiting for a device that is emulated.

use crate::traits::Clock;
use spanlith_base::sync::thread::yield_now;
use std::time::Duration;

/// A sleep of the system is late by about so much.
const SPIN_NANOS: u64 = 60_000;

/// Returns when `clock` shows `done`, and not much later: the last microseconds are waited for awake, while other threads
/// may have the processor. A virtual clock is moved there.
pub fn wait_until(clock: &dyn Clock, done: u64) {
    loop {
        let now = clock.monotonic_nanos();
        let left = done.saturating_sub(now);
        if left == 0 {
            return;
        }
        if left > SPIN_NANOS {
            clock.sleep(Duration::from_nanos(left - SPIN_NANOS));
        } else {
            // A virtual clock advances; a real one is waited for.
            clock.sleep(Duration::ZERO);
            if clock.monotonic_nanos() == now {
                clock.sleep(Duration::from_nanos(left));
            }
            yield_now();
        }
    }
}
