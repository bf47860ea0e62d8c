//! How much room for tables is left, for the policy `smooth`: on the disk, within the limit of an SST file manager, and in
//! the budget of garbage in blob files.
//!
//! The pressure of the disk begins at [`ABOVE`] times the bytes that compactions have to leave free, and is full where they
//! are held back; that of a limit begins at four fifths of it. Jobs ask the file system before they begin and after
//! flushes; in between the number is as old as the last job.

use spanlith_env::SstFileManager;
use spanlith_pace::SpaceFacts;
use std::sync::atomic::{AtomicU64, Ordering};

/// From how many times the bound on free space is scarce.
const ABOVE: u64 = 8;
/// Part of a limit up to which there is no pressure.
const FREE_SHARE: f64 = 0.8;

/// Free space of the fullest disk as far as it is known. Relaxed: estimates.
pub(crate) struct SpaceRoom {
    /// `u64::MAX` if nobody knows.
    free: AtomicU64,
    /// Below that, compactions are held back.
    bound: AtomicU64,
}

impl Default for SpaceRoom {
    fn default() -> Self {
        Self {
            free: AtomicU64::new(u64::MAX),
            bound: AtomicU64::new(0),
        }
    }
}

impl SpaceRoom {
    /// The fullest of the disks has `free` bytes, of which compactions leave `bound`.
    pub(super) fn note(&self, free: u64, bound: u64) {
        self.free.store(free, Ordering::Relaxed);
        self.bound.store(bound, Ordering::Relaxed);
    }

    /// The disk.
    fn disk(&self) -> SpaceFacts {
        let (free, bound) = (
            self.free.load(Ordering::Relaxed),
            self.bound.load(Ordering::Relaxed),
        );
        let max = bound.saturating_mul(ABOVE - 1);
        SpaceFacts {
            used: max.saturating_sub(free.saturating_sub(bound)),
            target: 0,
            max,
            drains: true,
        }
    }
}

/// The limit of a manager.
fn limit(manager: &SstFileManager) -> SpaceFacts {
    let max = manager.options().max_space_bytes;
    SpaceFacts {
        used: manager.total_bytes(),
        target: (max as f64 * FREE_SHARE) as u64,
        max,
        drains: true,
    }
}

/// How full it is.
fn fullness(s: &SpaceFacts) -> f64 {
    match s.max > s.target {
        true => s.used.saturating_sub(s.target) as f64 / (s.max - s.target) as f64,
        false => 0.0,
    }
}

/// The space that is scarcest for a family whose budget of garbage is `garbage`. `gives` says whether a compaction that
/// runs or is due gives space back; without one there is no pressure.
pub(super) fn space_facts(
    room: &SpaceRoom,
    manager: Option<&SstFileManager>,
    garbage: SpaceFacts,
    gives: bool,
) -> SpaceFacts {
    let disk = room.disk();
    let limit = manager.map_or_else(SpaceFacts::default, limit);
    let mut scarcest = garbage;
    for other in [disk, limit] {
        if fullness(&other) > fullness(&scarcest) {
            scarcest = other;
        }
    }
    SpaceFacts {
        drains: gives,
        ..scarcest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_presses_from_eight_times_the_bound_on() {
        let room = SpaceRoom::default();
        assert_eq!(fullness(&room.disk()), 0.0, "nobody has asked yet");
        for (free, full) in [
            (u64::MAX, 0.0),
            (8000, 0.0),
            (4500, 0.5),
            (1000, 1.0),
            (0, 1.0),
        ] {
            room.note(free, 1000);
            assert_eq!(fullness(&room.disk()), full, "{free}");
        }
        // No bound.
        room.note(0, 0);
        assert_eq!(fullness(&room.disk()), 0.0);
        room.note(0, u64::MAX);
        assert_eq!(fullness(&room.disk()), 1.0);
    }
}
