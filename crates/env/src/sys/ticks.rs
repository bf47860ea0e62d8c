//! The counter of the processor, for time stamps that cost less than a look at a clock.

/// A counter that rises at one pace, alike on all processors of the machine.
///
/// A reading says nothing about nanoseconds: who needs them reads a clock now and then, and interpolates. It is no
/// barrier: the processor may take it before what stands in front of it is done, by a fraction of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks(());

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
impl Ticks {
    /// `None` where nobody vouches for the counter. The processor says that its pace is one, the kernel, which compares
    /// processors as it starts and later, that it is alike on all of them: else it would have another clock.
    pub fn of_machine() -> Option<Self> {
        use std::sync::OnceLock;
        static IS_GOOD: OnceLock<bool> = OnceLock::new();
        const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let look = || {
            is_invariant() && std::fs::read_to_string(CLOCK).is_ok_and(|name| name.trim() == "tsc")
        };
        IS_GOOD.get_or_init(look).then_some(Self(()))
    }

    /// Reads it.
    #[inline]
    pub fn now(self) -> u64 {
        // SAFETY: Every processor with 64 bits has the instruction, and a system that forbade it would not have its own
        // clock made of it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

/// Returns whether the counter goes on at one pace whatever the processor's own pace and sleep.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[allow(unused_unsafe, reason = "safe in later releases of the compiler")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    // SAFETY: Every processor with 64 bits has the instruction; the leaf is asked for only where it exists.
    unsafe { __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0 }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
impl Ticks {
    /// `None`: nobody vouches for a counter here.
    pub fn of_machine() -> Option<Self> {
        None
    }

    /// Reads it.
    pub fn now(self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn the_counter_rises_with_time() {
        let Some(ticks) = Ticks::of_machine() else {
            return;
        };
        let before = ticks.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let passed = ticks.now() - before;
        // From 0.1 to 20 GHz, were it asleep for a second.
        assert!((200_000..20_000_000_000).contains(&passed), "{passed}");
    }
}
