//! Clocks: the system's, and one that a test moves.

use crate::traits::Clock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Where the monotonic clock of this process begins.
static START: OnceLock<Instant> = OnceLock::new();

impl Clock for SystemClock {
    fn now_micros(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, saturating_micros)
    }

    fn monotonic_nanos(&self) -> u64 {
        let elapsed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    fn thread_cpu_nanos(&self) -> u64 {
        crate::sys::thread_cpu_nanos()
    }

    fn is_of_machine(&self) -> bool {
        true
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

fn saturating_micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// A clock that stands still until it is moved or somebody sleeps.
///
/// Threads: any. Wall and monotonic time are apart, so that setting the wall clock back does not
/// break the promise of the monotonic one.
#[derive(Debug)]
pub struct VirtualClock {
    /// Microseconds since the epoch. Relaxed: it orders nothing.
    wall_micros: AtomicU64,
    /// Nanoseconds advanced so far. Relaxed: it orders nothing.
    nanos: AtomicU64,
}

impl VirtualClock {
    /// Wall time of a new clock: a round number of seconds.
    pub const START_MICROS: u64 = 1_700_000_000_000_000;

    /// A clock at [`Self::START_MICROS`].
    pub fn new() -> Self {
        Self::at(Self::START_MICROS)
    }

    /// A clock whose wall time is `micros` since the epoch.
    pub fn at(micros: u64) -> Self {
        Self {
            wall_micros: AtomicU64::new(micros),
            nanos: AtomicU64::new(0),
        }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let before = self.nanos.fetch_add(nanos, Ordering::Relaxed);
        // Whole microseconds crossed by this step, so that many small steps add up.
        let crossed = (before.wrapping_add(nanos) / 1000).wrapping_sub(before / 1000);
        self.wall_micros.fetch_add(crossed, Ordering::Relaxed);
    }

    /// Sets the wall clock, back or forth; the monotonic clock does not move.
    pub fn set_micros(&self, micros: u64) {
        self.wall_micros.store(micros, Ordering::Relaxed);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now_micros(&self) -> u64 {
        self.wall_micros.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_clock_moves_only_when_told() {
        let clock = VirtualClock::at(5);
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (5, 0));
        clock.sleep(Duration::from_micros(3));
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (8, 3000));
        for _ in 0..2500 {
            clock.advance(Duration::from_nanos(1));
        }
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (10, 5500));
        clock.set_micros(2);
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (2, 5500));
        clock.advance(Duration::from_nanos(500));
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (3, 6000));
        clock.set_micros(61_000_000);
        assert_eq!(clock.now_seconds(), 61);
    }
}
