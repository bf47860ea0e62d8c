//! From a key's hash to its equation.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

/// The equation of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Equation {
    /// First slot with a coefficient.
    pub(super) start: usize,
    /// Coefficients of the slots from there on; the lowest is set.
    pub(super) coefficients: u128,
    /// A bit for each column.
    pub(super) result: u32,
}

/// Starts of a filter with that many blocks.
pub(super) fn starts(blocks: u32) -> u64 {
    u64::from(blocks) * 128 - 127
}

/// Returns what a seed does to hashes.
#[inline(always)]
pub(super) fn raw_seed(seed: u8) -> u64 {
    let raw = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
    (raw ^ (raw & 0xf0f0_f0f0_f0f0_f0f0) >> 4) & 0xffff_ffff
}

/// The equation of a hash under a raw seed.
#[inline(always)]
pub(super) fn equation(hash: u64, raw_seed: u64, starts: u64) -> Equation {
    let seeded = (hash ^ raw_seed).wrapping_mul(0x6193_d459_236a_3a0d);
    let a = seeded.wrapping_mul(0xc28f_8282_2b65_0bed);
    let low = a ^ 0xc367_844a_6e52_731d;
    Equation {
        start: ((u128::from(seeded) * u128::from(starts)) >> 64) as usize,
        coefficients: u128::from(a) << 64 | u128::from(low) | 1,
        result: ((a >> 32) as u32).swap_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::hash64;

    #[test]
    fn equations_are_the_documented_ones() {
        assert_eq!(
            [0, 1, 2, 255].map(raw_seed),
            [0, 0x3de4_d003, 0x7ad8_b106, 0xa1fd_27f2]
        );
        let cases = [
            (
                &b"a"[..],
                0,
                14,
                218,
                0x3eb8_6dfc_8934_6aff_fddf_e9b6_e766_19e3,
                0xfc6d_b83e,
            ),
            (
                b"a",
                1,
                55,
                832,
                0x9e95_2138_2cd8_d3e4_5df2_a572_428a_a0f9,
                0x3821_959e,
            ),
            (
                b"key001000",
                0,
                99,
                1487,
                0x7a3c_344e_8e8a_83f5_b95b_b004_e0d8_f0e9,
                0x4e34_3c7a,
            ),
            (
                b"key001000",
                255,
                124,
                1859,
                0xe072_495a_57ad_0077_2315_cd10_39ff_736b,
                0x5a49_72e0,
            ),
        ];
        for (key, seed, two, sixteen, coefficients, result) in cases {
            for (blocks, start) in [(2, two), (16, sixteen)] {
                let got = equation(hash64(key), raw_seed(seed), starts(blocks));
                assert_eq!(
                    got,
                    Equation {
                        start,
                        coefficients,
                        result
                    }
                );
            }
        }
    }
}
