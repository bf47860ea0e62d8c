//! Probes and false-positive rates of Bloom filters in theory.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

/// Largest millibits per key for 1, 2, ... 12 probes.
const PROBE_LIMITS: [u64; 12] = [
    2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501,
];

/// Bits per key as RocksDB takes them: `None` below 0.5, else between 1 and 100.
pub fn sanitize_bits(bits: f64) -> Option<f64> {
    if bits < 0.5 {
        None
    } else if bits < 1.0 {
        Some(1.0)
    } else if bits < 100.0 {
        Some(bits)
    } else {
        // NaN too.
        Some(100.0)
    }
}

/// Thousandths of a bit per key, from sanitized bits.
pub(super) fn millibits(bits: f64) -> u64 {
    (bits * 1000.0 + 0.500_001) as u64
}

/// Probes of a fast local Bloom filter.
pub(super) fn probes_for(millibits: u64) -> u8 {
    if let Some(i) = PROBE_LIMITS.iter().position(|&limit| millibits <= limit) {
        return i as u8 + 1;
    }
    if millibits <= 50_000 {
        ((millibits - 1) / 2000 - 1) as u8
    } else {
        24
    }
}

/// Rate of a filter whose probes go anywhere.
fn standard(bits_per_key: f64, probes: f64) -> f64 {
    (1.0 - (-probes / bits_per_key).exp()).powf(probes)
}

/// Rate of a filter whose probes stay in one line of 512 bits. The keys of a line vary; the rates of
/// one standard deviation more and less are averaged.
pub(super) fn cache_local(bits_per_key: f64, probes: u8) -> f64 {
    let probes = f64::from(probes);
    let keys = 512.0 / bits_per_key;
    let deviation = keys.sqrt();
    let crowded = standard(512.0 / (keys + deviation), probes);
    let uncrowded = standard(512.0 / (keys - deviation), probes);
    f64::midpoint(crowded, uncrowded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_counts_follow_the_table() {
        let got = [1000, 2080, 2081, 10000, 10071, 25501, 25502, 50000, 50001].map(probes_for);
        assert_eq!(got, [1, 1, 2, 6, 7, 12, 11, 23, 24]);
        assert_eq!(sanitize_bits(0.4), None);
        assert_eq!(sanitize_bits(0.7), Some(1.0));
        assert_eq!(sanitize_bits(f64::NAN), Some(100.0));
    }

    #[test]
    fn rates_are_those_of_the_table() {
        for (bits, percent) in [(2.0, 39.3), (5.0, 9.27), (10.0, 0.953), (16.0, 0.080)] {
            let rate = 100.0 * cache_local(bits, probes_for(millibits(bits)));
            assert!((rate / percent - 1.0).abs() < 0.01, "{bits} bits: {rate}");
        }
    }
}
