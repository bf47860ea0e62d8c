//! How fast a device makes small writes durable.
//!
//! Writes go to a place in front of the page groups that nothing else uses, so that a disk in use can be measured.

use crate::format::read_superblock;
use crate::layout::SUPERBLOCKS;
use spanlith_base::Result;
use spanlith_env::{BlockDevice, Clock, Durability};

/// Where the unused pages begin.
const SCRATCH: u64 = 32 << 10;
/// The most that is written there.
const SCRATCH_BYTES: u64 = 32 << 10;
/// A flush that takes less does nothing, as far as one can see.
pub const NO_FLUSH_NANOS: u64 = 5_000;

/// Describes what was measured; times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// Median of a durable write of a page.
    pub write: u64,
    /// Of a hundred durable writes the slowest but one.
    pub write_p99: u64,
    /// Median of a write that stays in the cache.
    pub cached: u64,
    /// Median of a flush after one.
    pub flush: u64,
    /// Median of a flush with nothing to do.
    pub idle_flush: u64,
    /// Durable writes per second by so many threads.
    pub threads: Vec<(usize, u64)>,
}

fn at(sorted: &mut [u64], percent: usize) -> u64 {
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or(0)
}

/// Measures a formatted `device` with pages of its size, `rounds` calls of each kind.
///
/// # Errors
/// As [`read_superblock`]; of the device.
pub fn calibrate(device: &dyn BlockDevice, clock: &dyn Clock, rounds: u32) -> Result<Calibration> {
    let (superblock, _) = read_superblock(device)?;
    let page_size = u64::from(superblock.layout.page_size).min(SCRATCH_BYTES);
    let page = vec![0x5a; page_size as usize];
    let place = |i: u64| SCRATCH + i * page_size % SCRATCH_BYTES;
    let time = |call: &mut dyn FnMut() -> Result<()>| -> Result<u64> {
        let begun = clock.monotonic_nanos();
        call()?;
        Ok(clock.monotonic_nanos().saturating_sub(begun))
    };
    let mut found = Calibration::default();
    let (mut durable, mut cached, mut flush, mut idle) = (vec![], vec![], vec![], vec![]);
    for i in 0..u64::from(rounds.max(1)) {
        durable.push(time(&mut || {
            device.write_at(place(i), &page, Durability::Durable)
        })?);
        cached.push(time(&mut || {
            device.write_at(place(i), &page, Durability::Cached)
        })?);
        flush.push(time(&mut || device.flush())?);
        idle.push(time(&mut || device.flush())?);
    }
    found.write = at(&mut durable, 50);
    found.write_p99 = at(&mut durable, 99);
    found.cached = at(&mut cached, 50);
    found.flush = at(&mut flush, 50);
    found.idle_flush = at(&mut idle, 50);
    for threads in [1usize, 2, 4, 8] {
        let begun = clock.monotonic_nanos();
        let each = u64::from(rounds.max(1));
        std::thread::scope(|scope| {
            let work = |t: usize| {
                let page = &page;
                move || {
                    (0..each).try_for_each(|_| {
                        device.write_at(place(t as u64), page, Durability::Durable)
                    })
                }
            };
            let all: Vec<_> = (0..threads).map(|t| scope.spawn(work(t))).collect();
            all.into_iter().try_for_each(|t| match t.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        let nanos = clock.monotonic_nanos().saturating_sub(begun).max(1);
        let rate = u128::from(each) * threads as u128 * 1_000_000_000 / u128::from(nanos);
        found.threads.push((threads, rate as u64));
    }
    Ok(found)
}

/// Writes into the superblock what was measured.
///
/// # Errors
/// As [`read_superblock`]; of the device.
pub fn record_calibration(device: &dyn BlockDevice, found: &Calibration) -> Result<()> {
    let (mut superblock, slot) = read_superblock(device)?;
    superblock.write_nanos = found.write;
    superblock.flush_nanos = found.flush;
    superblock.generation += 1;
    let mut bytes = superblock.encode();
    let page_size = superblock.layout.page_size as usize;
    bytes.resize(bytes.len().next_multiple_of(page_size), 0);
    let place = SUPERBLOCKS.get(1 - slot.min(1)).copied();
    device.write_at(place.unwrap_or_default(), &bytes, Durability::Durable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::{EmulatedDevice, Profile};
    use crate::format::{FormatOptions, format_disk};
    use spanlith_env::VirtualClock;
    use std::sync::Arc;

    #[test]
    fn a_device_is_as_fast_as_its_profile_says() {
        let clock = Arc::new(VirtualClock::new());
        let profile = Profile::by_name("S").unwrap();
        let device = EmulatedDevice::new(profile, 1 << 20).with_clock(clock.clone());
        format_disk(&device, &FormatOptions::default(), [1; 16]).unwrap();
        let before = device.media();
        let found = calibrate(&device, &*clock, 20).unwrap();
        assert_eq!((found.cached, found.flush), (37_000, 400_000));
        assert_eq!((found.write, found.idle_flush), (437_000, 400_000));
        record_calibration(&device, &found).unwrap();
        let (superblock, _) = read_superblock(&device).unwrap();
        assert_eq!(
            (superblock.write_nanos, superblock.flush_nanos),
            (437_000, 400_000)
        );
        // Nothing but the place for it and the superblock has changed.
        let (mut then, mut now) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        before.read(0, &mut then);
        device.media().read(0, &mut now);
        let changed = then.iter().zip(&now).rposition(|(a, b)| a != b);
        assert!(changed.unwrap() < (64 << 10) + 512, "{changed:?}");
    }
}
