//! Solves the equations of a Ribbon filter.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use super::equation::{equation, raw_seed, starts};
use super::query::Layout;

/// Seeds that are tried.
const SEEDS: u32 = 256;

/// Coefficients and result of the equation that begins at each slot; no coefficients: none does.
struct Rows {
    coefficients: Vec<u128>,
    results: Vec<u32>,
}

impl Rows {
    /// Gaussian elimination while equations arrive; false if two contradict each other.
    fn fill(&mut self, hashes: &[u64], seed: u8, starts: u64) -> bool {
        self.coefficients.fill(0);
        let raw = raw_seed(seed);
        for &hash in hashes {
            let e = equation(hash, raw, starts);
            let (mut at, mut c, mut r) = (e.start, e.coefficients, e.result);
            loop {
                let (Some(row), Some(result)) =
                    (self.coefficients.get_mut(at), self.results.get_mut(at))
                else {
                    return false;
                };
                if *row == 0 {
                    (*row, *result) = (c, r);
                    break;
                }
                c ^= *row;
                r ^= *result;
                if c == 0 {
                    if r == 0 {
                        break;
                    }
                    return false;
                }
                let zeros = c.trailing_zeros();
                at += zeros as usize;
                c >>= zeros;
            }
        }
        true
    }

    /// Back substitution: the segments, and the tail.
    fn solve(&self, len: usize, seed: u8, layout: Layout) -> Vec<u8> {
        let blocks = layout.blocks();
        let mut out = vec![0; len];
        let mut end = len;
        let mut state = [0u128; 32];
        let rows = self.coefficients.chunks_exact(128);
        let results = self.results.chunks_exact(128);
        for (block, (rows, results)) in rows.zip(results).enumerate().rev() {
            let state = state
                .get_mut(..layout.columns_of(block))
                .unwrap_or_default();
            for (&c, &r) in rows.iter().zip(results).rev() {
                let r = if c == 0 { 0 } else { r };
                for (column, state) in state.iter_mut().enumerate() {
                    let shifted = *state << 1;
                    let parity = (shifted & c).count_ones() & 1;
                    *state = shifted | u128::from(parity ^ (r >> column & 1));
                }
            }
            let start = end.saturating_sub(16 * state.len());
            let segments = out.get_mut(start..end).unwrap_or_default();
            for (to, from) in segments.chunks_exact_mut(16).zip(state) {
                to.copy_from_slice(&from.to_le_bytes());
            }
            end = start;
        }
        let [a, b, c, _] = (blocks as u32).to_le_bytes();
        out.extend_from_slice(&[0xfe, seed, a, b, c]);
        out
    }
}

/// The filter over `hashes` with that many slots; `None` if no seed works. `len` is asked for the bytes
/// of segments once one does.
pub(in crate::filter) fn build(
    hashes: &[u64],
    slots: u64,
    len: impl FnOnce() -> u64,
) -> Option<Vec<u8>> {
    let blocks = u32::try_from(slots / 128).ok()?;
    let slots = usize::try_from(slots).ok()?;
    let mut rows = Rows {
        coefficients: vec![0; slots],
        results: vec![0; slots],
    };
    let first = *hashes.first()? as u8;
    for i in 0..SEEDS {
        let seed = first.wrapping_add(i as u8);
        if rows.fill(hashes, seed, starts(blocks)) {
            let len = usize::try_from(len()).ok()?;
            let layout = Layout::new(len, seed, blocks)?;
            return Some(rows.solve(len, seed, layout));
        }
    }
    None
}
