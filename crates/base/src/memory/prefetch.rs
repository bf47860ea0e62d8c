//! The prefetch instructions.
#![expect(unsafe_code, reason = "an intrinsic")]

/// Starts loading `LINES` cache lines from the one at `at` on. Any address will do: nothing is read or
/// written as far as the program can tell, and nothing faults.
#[inline(always)]
pub fn prefetch<const LINES: usize>(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in 0..LINES {
            // SAFETY: A prefetch of any address has no effect on the program's state.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(64 * line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// As [`prefetch`] for one cache line that is going to be written: other processors give it up meanwhile.
#[inline(always)]
pub fn prefetch_to_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: The instruction changes neither memory nor registers, and raises no fault whatever the address.
    // Processors that do not know it take it for one that does nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
