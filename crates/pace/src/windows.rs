//! How evenly bytes came while writers were held up: a series of windows of 100 ms.
//!
//! It costs whoever waits a few additions and everybody else nothing: the series goes on while waits are noted, and begins
//! anew after a calm stretch, in which nobody waited and nothing has to be explained.

use crate::evenness::{Evenness, evenness};
use std::collections::VecDeque;

/// Length of a window in nanoseconds.
pub const WINDOW_NANOS: u64 = 100_000_000;
/// Windows that are kept: the last minute under pressure.
const KEPT: usize = 600;
/// Longest time between two waits of one stretch.
const CALM_NANOS: u64 = 1_000_000_000;

/// The series of one database.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// When `total` was right; `None` before the first wait.
    at_nanos: Option<u64>,
    total: u64,
    /// Bytes and nanoseconds of the window that is being filled.
    bytes: f64,
    filled: u64,
    done: VecDeque<f64>,
}

impl Windows {
    /// Somebody has waited for `waited_nanos` until `now_nanos`, when `total` bytes had been written in all.
    pub fn note(&mut self, now_nanos: u64, waited_nanos: u64, total: u64) {
        let began = now_nanos.saturating_sub(waited_nanos);
        let Some(at) = self
            .at_nanos
            .filter(|&at| began <= at.saturating_add(CALM_NANOS))
        else {
            // Writes in the calm are not known by windows.
            self.at_nanos = Some(now_nanos);
            self.total = total;
            (self.bytes, self.filled) = (0.0, 0);
            return;
        };
        let Some(passed) = now_nanos.checked_sub(at).filter(|&p| p > 0) else {
            // A clock that stands or goes back: the bytes belong to the next look.
            return;
        };
        let rate = total.saturating_sub(self.total) as f64 / passed as f64;
        let mut left = passed.min(WINDOW_NANOS * KEPT as u64);
        while left > 0 {
            let part = left.min(WINDOW_NANOS - self.filled);
            self.bytes += rate * part as f64;
            self.filled += part;
            left -= part;
            if self.filled == WINDOW_NANOS {
                self.done.push_back(std::mem::take(&mut self.bytes));
                self.filled = 0;
            }
        }
        while self.done.len() > KEPT {
            self.done.pop_front();
        }
        self.at_nanos = Some(now_nanos);
        self.total = total;
    }

    /// How even the windows are.
    pub fn evenness(&self) -> Evenness {
        let series: Vec<f64> = self.done.iter().copied().collect();
        evenness(&series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_flat_stretch_is_even_and_a_stop_is_a_gap() {
        let mut w = Windows::default();
        for i in 1..=200 {
            w.note(i * 10 * MS, 5 * MS, i * 1000);
        }
        let e = w.evenness();
        assert_eq!((e.windows, e.below_half, e.longest_gap), (19, 0, 0));
        assert!(
            e.variation < 1e-6 && (e.mean - 10_000.0).abs() < 1e-3,
            "{e:?}"
        );
        // Nobody wrote for a second and a half.
        w.note(3500 * MS, 1500 * MS, 200_000);
        let e = w.evenness();
        assert_eq!((e.windows, e.below_tenth), (34, 14));
    }

    #[test]
    fn what_comes_in_the_calm_is_not_counted() {
        let mut w = Windows::default();
        w.note(100 * MS, MS, 0);
        w.note(900_000 * MS, MS, 1 << 40);
        assert_eq!(w.evenness(), Evenness::default());
        w.note(900_200 * MS, MS, (1 << 40) + 2000);
        assert!((w.evenness().mean - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn clocks_that_jump_and_long_stops_are_bounded() {
        let mut w = Windows::default();
        w.note(u64::MAX, 5, 10);
        w.note(5, 0, 20);
        w.note(0, u64::MAX, u64::MAX);
        w.note(u64::MAX, u64::MAX, 0);
        assert!(w.evenness().windows <= KEPT);
    }
}
