//! How many slots and segments a Ribbon filter gets.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use crate::filter::balance::Lengths;
use crate::filter::rate;

/// Most keys of one filter; above it is a Bloom filter.
pub(in crate::filter) const KEYS_MAX: u64 = 950_000_000;

/// Keys that fit into 2^8 ... 2^17 slots with one failed seed in about twenty.
const CAPACITIES: [f64; 10] = [
    248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126_506.0,
];

/// Slots per key of 2^17 slots, and how it grows with each doubling.
const RATIO_AT_17: f64 = (1 << 17) as f64 / 126_506.0;
const RATIO_STEP: f64 = 0.0038;

/// Keys that fit into 2^`log2` slots; 0 below 2^8.
fn keys_in(log2: u32) -> f64 {
    match log2 {
        0..8 => 0.0,
        8..18 => CAPACITIES
            .get(log2 as usize - 8)
            .copied()
            .unwrap_or_default(),
        // Evaluated in this order, for the last bit of the result.
        _ => {
            f64::from(log2).exp2()
                / ((RATIO_AT_17 - 17.0 * RATIO_STEP) + f64::from(log2) * RATIO_STEP)
        }
    }
}

/// Slots for `entries` keys: a multiple of 128, at least 256.
pub(super) fn slots_for(entries: u64) -> u64 {
    let n = entries as f64;
    #[expect(clippy::approx_constant, reason = "RocksDB has these digits")]
    let mut log2 = (n.ln() * 1.442_695_040_9 + 0.5) as u32;
    let mut low = keys_in(log2);
    if log2 == 0 || low == 0.0 {
        return 256;
    }
    let high;
    if n < low {
        high = low;
        log2 -= 1;
        low = keys_in(log2);
    } else {
        high = keys_in(log2 + 1);
    }
    let step = f64::from(log2).exp2();
    let slots = ((n - low) / (high - low) * step + step + 0.999_999_999) as u64;
    slots.next_multiple_of(128).max(256)
}

/// One of how many absent keys may pass: what a Bloom filter of those bits does.
fn one_in(bits: f64) -> f64 {
    let probes = rate::probes_for(rate::millibits(bits));
    1.0 / rate::cache_local(bits, probes)
}

/// Bytes of segments for that many slots. `bias`, in [0, 1), decides how a fraction of a block is
/// rounded.
fn len_of(slots: u64, one_in: f64, bias: f64) -> u64 {
    let rate = 1.0 / one_in;
    // Not a number either.
    if !(one_in > 1.0 && rate < 1.0) {
        return 16;
    }
    if one_in > f64::from(u32::MAX) {
        return slots * 4;
    }
    let columns = (one_in as u64).ilog2();
    let low = (-f64::from(columns)).exp2();
    let high = (-f64::from(columns + 1)).exp2();
    let portion = (rate - high) / (low - high);
    let blocks = slots / 128;
    let starts = (slots - 127) as f64;
    let narrow = ((portion * starts + bias) / 128.0) as u64;
    16 * (blocks * u64::from(columns) + blocks.saturating_sub(narrow))
}

/// Filters with so many slots.
pub(in crate::filter) struct InSlots(pub u64);

impl Lengths for InSlots {
    fn round_down(&self, len: u64) -> u64 {
        ((len - 5) & !15) + 5
    }

    /// Each column of a slot halves it; blocks before some have one column less.
    fn rate(&self, len: u64) -> f64 {
        let (blocks, segments) = (self.0 / 128, (len - 5) / 16);
        let columns = segments.div_ceil(blocks);
        let (columns, lower_blocks) = match columns {
            33.. => (32, 0),
            _ => (columns, columns * blocks - segments),
        };
        let lower = (lower_blocks * 128) as f64 / (self.0 - 127) as f64;
        let upper_rate = 0.5f64.powi(columns as i32);
        lower * (2.0 * upper_rate) + (1.0 - lower) * upper_rate
    }
}

/// Slots and bytes of segments for a filter of Bloom-equivalent `bits` per key over `entries`
/// hashes, the first of which is `first`.
pub(in crate::filter) fn len_for(entries: u64, bits: f64, first: u64) -> (u64, u64) {
    let slots = slots_for(entries);
    let bias = ((first >> 32) as f64 + 0.5) / 4_294_967_296.0;
    (slots, len_of(slots, one_in(bits), bias))
}

/// The most hashes whose filter has at most `bytes`, by RocksDB's estimate; `bloom` is what a Bloom
/// filter of that size holds.
pub(in crate::filter) fn capacity(bytes: u64, bits: f64, bloom: u64) -> u64 {
    let len = bytes.saturating_sub(5) & !15;
    let one_in = one_in(bits);
    let bits_per_slot = if one_in >= 4_294_967_296.0 {
        32.0
    } else {
        let upper = 1 + (one_in as u64).max(1).ilog2();
        let unit = (-f64::from(upper)).exp2();
        f64::from(upper) - (1.0 / one_in - unit) / unit
    };
    let mut slots = ((len * 8) as f64 / bits_per_slot) as u64;
    slots = slots.next_multiple_of(128);
    if slots == 128 {
        slots = 256;
    }
    // The estimate may be a little too large.
    for _ in 0..2 {
        if slots > 0 && len_of(slots, one_in, 0.5 / 4_294_967_296.0) > len {
            slots = (slots - 1) / 128 * 128;
            if slots == 128 {
                slots = 0;
            }
        }
    }
    if slots == 0 {
        return bloom;
    }
    let log2 = (slots as f64).log2();
    let floor = slots.ilog2();
    let n = if floor < 17 {
        let weight = slots as f64 / f64::from(floor).exp2() - 1.0;
        weight * keys_in(floor + 1) + (1.0 - weight) * keys_in(floor)
    } else {
        slots as f64 / (RATIO_AT_17 + (log2 - 17.0) * RATIO_STEP)
    } as u64;
    if slots < 1024 {
        n.max(bloom)
    } else {
        n.min(KEYS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_table() {
        let cases = [
            (1, 256),
            (248, 256),
            (249, 384),
            (374, 384),
            (375, 512),
            (499, 512),
            (500, 640),
            (625, 768),
            (750, 768),
            (1001, 1024),
            (2000, 2048),
            (5000, 5120),
            (10_000, 10_368),
            (100_000, 103_552),
            (1_000_000, 1_047_552),
            (10_000_000, 10_604_800),
        ];
        for (keys, slots) in cases {
            assert_eq!(slots_for(keys), slots, "{keys} keys");
        }
    }

    #[test]
    fn a_filter_at_its_capacity_is_about_as_large_as_asked() {
        for bits in [5.0, 10.0, 16.0] {
            for bytes in [2000, 4096, 65_536, 1 << 20] {
                let n = capacity(bytes, bits, 0);
                let (_, len) = len_for(n, bits, 0);
                assert!(
                    len <= bytes + bytes / 1000 + 64,
                    "{bits} bits, {bytes} bytes: {len}"
                );
                assert!(len * 10 > bytes * 8, "{bits} bits, {bytes} bytes: {len}");
            }
        }
    }
}
