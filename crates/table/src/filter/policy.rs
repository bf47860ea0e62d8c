//! Which filter is written.

use super::balance::FilterBalance;
use super::hash::hash64;
use super::hash32::bloom_hash;
use super::rate::{millibits, sanitize_bits};
use super::{Filter, bloom, legacy, ribbon};

/// Level number of tables whose level is not known when they are written: the bottommost.
pub const BOTTOMMOST: i32 = i32::MAX - 1;

/// The filter policy of a column family.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FilterKind {
    /// No filter.
    #[default]
    None,
    /// Bloom with that many bits per key; below 0.5 no filter. Format versions before 5 get the
    /// legacy form.
    Bloom {
        /// Bits per key.
        bits: f64,
    },
    /// Ribbon, as good as a Bloom filter of that many bits per key and smaller; below 0.5 no filter.
    Ribbon {
        /// Bits per key of the Bloom filter with the same rate.
        bits: f64,
        /// Bloom instead for tables of levels below this one; a flush counts as level -1.
        bloom_before_level: i32,
    },
}

impl FilterKind {
    /// The name recorded in tables; empty for none.
    pub fn policy_name(&self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bloom { .. } => "bloomfilter",
            Self::Ribbon { .. } => "ribbonfilter",
        }
    }
}

/// The form in which a filter is built.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Fast local Bloom.
    FastLocal,
    /// Legacy Bloom with whole bits per key.
    Legacy(u64),
    /// Ribbon with Bloom-equivalent bits per key, where it is the better choice.
    Ribbon(f64),
}

/// How the filters of one table are built.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPolicy {
    form: Form,
    /// Of fast local Bloom, also where Ribbon falls back to it.
    millibits: u64,
    /// Lengths follow the memory that is really taken.
    balance: Option<FilterBalance>,
}

impl FilterPolicy {
    /// The policy for a table of that format version and level (-1 for a flush, [`i32::MAX`] - 1 if
    /// unknown); `None` if there is no filter.
    pub fn new(
        kind: FilterKind,
        format_version: u32,
        level: i32,
        balance: Option<FilterBalance>,
    ) -> Option<Self> {
        let (bits, ribbon) = match kind {
            FilterKind::None => return None,
            FilterKind::Bloom { bits } => (sanitize_bits(bits)?, false),
            FilterKind::Ribbon {
                bits,
                bloom_before_level,
            } => (sanitize_bits(bits)?, level >= bloom_before_level),
        };
        let millibits = millibits(bits);
        let form = if ribbon {
            Form::Ribbon(bits)
        } else if format_version < 5 {
            Form::Legacy((millibits + 500) / 1000)
        } else {
            Form::FastLocal
        };
        Some(Self {
            form,
            millibits,
            balance,
        })
    }

    /// Bits per key, if the filter is a fast local Bloom filter whatever is added.
    pub(super) fn fast_local(&self) -> Option<f64> {
        (self.form == Form::FastLocal).then_some(self.millibits as f64 / 1000.0)
    }

    /// The balance that lengths keep, if they follow the memory that is really taken.
    pub(super) fn balance(&self) -> Option<&FilterBalance> {
        self.balance.as_ref()
    }

    /// The hash of an entry.
    #[inline]
    pub fn hash(&self, entry: &[u8]) -> u64 {
        match self.form {
            Form::Legacy(_) => bloom_hash(entry).into(),
            _ => hash64(entry),
        }
    }

    /// Size of a filter over that many entries, in bytes; of Ribbon about.
    pub fn size(&self, entries: u64) -> u64 {
        match self.form {
            Form::FastLocal => bloom::size(entries, self.millibits),
            Form::Legacy(bits) => legacy::size(entries, bits),
            Form::Ribbon(bits) => ribbon::len_for(entries.max(1), bits, 0).1 + 5,
        }
    }

    /// The most entries whose filter has about `bytes`; at least 1.
    pub fn capacity(&self, bytes: u64) -> u64 {
        let fits = |bytes: u64| {
            let bloom = bloom::capacity(bytes, self.millibits);
            match self.form {
                Form::FastLocal => bloom,
                Form::Legacy(bits) => legacy::capacity(bytes, bits),
                Form::Ribbon(bits) => ribbon::capacity(bytes, bits, bloom),
            }
        };
        let mut bytes = bytes;
        let mut entries = fits(bytes);
        if entries == 0 {
            bytes = (bytes + 4).max(16);
            entries = fits(bytes);
        }
        while entries == 0 && bytes < 100_000 {
            bytes += bytes / 4;
            entries = fits(bytes);
        }
        entries.max(1)
    }

    /// Returns whether a filter answers for all these entries. Legacy filters are not asked, as in RocksDB.
    pub(super) fn has_all(&self, contents: &[u8], hashes: &[u64]) -> bool {
        matches!(self.form, Form::Legacy(_))
            || hashes.iter().all(|&h| Filter::query_bytes(contents, h))
    }

    /// The filter over entries with these hashes, in the order they were added.
    pub fn build(&self, hashes: &[u64]) -> Vec<u8> {
        let bloom = || bloom::build(hashes, self.millibits, self.balance()).to_vec();
        let Some(&first) = hashes.first() else {
            return Vec::new();
        };
        let n = hashes.len() as u64;
        match self.form {
            Form::FastLocal => bloom(),
            Form::Legacy(bits) => legacy::build(hashes, bits),
            Form::Ribbon(bits) => {
                if n > ribbon::KEYS_MAX {
                    return bloom();
                }
                let (slots, len) = ribbon::len_for(n, bits, first);
                if slots < 1024 && bloom::size(n, self.millibits) < len + 5 {
                    return bloom();
                }
                let fit = || match self.balance() {
                    Some(balance) => balance.fit(len + 5, &ribbon::InSlots(slots)) - 5,
                    None => len,
                };
                ribbon::build(hashes, slots, fit).unwrap_or_else(bloom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;

    /// A key without pattern, which legacy filters like better than keys of some patterns.
    fn key(i: u32) -> [u8; 8] {
        let mut x = (u64::from(i) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ x >> 27)
            .wrapping_mul(0x94d0_49bb_1331_11eb)
            .to_le_bytes()
    }

    #[test]
    fn a_filter_that_lost_a_bit_does_not_have_all_its_entries() {
        for kind in [
            FilterKind::Bloom { bits: 10.0 },
            FilterKind::Ribbon {
                bits: 10.0,
                bloom_before_level: -1,
            },
        ] {
            let policy = FilterPolicy::new(kind, 5, 0, None).unwrap();
            let hashes: Vec<u64> = (0..100).map(|i| policy.hash(&key(i))).collect();
            let whole = policy.build(&hashes);
            assert!(policy.has_all(&whole, &hashes));
            let missed = (0..whole.len() - 5).filter(|&at| {
                let mut damaged = whole.clone();
                damaged[at] = 0;
                !policy.has_all(&damaged, &hashes)
            });
            assert!(missed.count() > whole.len() / 2);
        }
    }

    fn filter_of(policy: &FilterPolicy, entries: std::ops::Range<u32>) -> Vec<u8> {
        let hashes: Vec<u64> = entries.map(|i| policy.hash(&key(i))).collect();
        policy.build(&hashes)
    }

    const RIBBON: FilterKind = FilterKind::Ribbon {
        bits: 10.0,
        bloom_before_level: 0,
    };

    #[test]
    fn false_positives_stay_within_a_tenth_of_theory() {
        // Kind, format version, entries, rate in theory, absent keys asked.
        let bloom = |bits| FilterKind::Bloom { bits };
        let cases = [
            (bloom(5.0), 5, 20_000, 0.0927, 100_000),
            (bloom(10.0), 5, 20_000, 0.00953, 300_000),
            (bloom(5.0), 4, 20_000, 0.0966, 100_000),
            // The formula is an upper bound here; RocksDB's own filters were measured.
            (bloom(10.0), 4, 20_000, 0.012, 300_000),
            (RIBBON, 5, 10_000, 0.00953, 300_000),
        ];
        for (kind, version, entries, theory, asked) in cases {
            let policy = FilterPolicy::new(kind, version, BOTTOMMOST, None).unwrap();
            let filter = Filter::parse(filter_of(&policy, 0..entries));
            for i in 0..entries {
                assert!(filter.may_match(&key(i)), "{kind:?}: {i} is missed");
            }
            let absent = entries..entries + asked;
            let passed = absent.filter(|i| filter.may_match(&key(*i)));
            let rate = passed.count() as f64 / f64::from(asked);
            assert!(
                (rate / theory - 1.0).abs() < 0.1,
                "{kind:?}, version {version}: {rate} for {theory}"
            );
        }
    }

    #[test]
    fn ribbon_is_written_from_its_level_on_and_where_it_is_smaller() {
        let marker = |level: i32, entries: u32| {
            let policy =
                FilterPolicy::new(RIBBON, 7, level, Some(FilterBalance::default())).unwrap();
            let filter = filter_of(&policy, 0..entries);
            filter[filter.len() - 5]
        };
        assert_eq!(marker(-1, 1000), 0xff);
        assert_eq!(marker(0, 1000), 0xfe);
        assert_eq!(marker(BOTTOMMOST, 1000), 0xfe);
        assert_eq!(
            [100, 153, 160, 240].map(|n| marker(0, n)),
            [0xff, 0xff, 0xfe, 0xfe]
        );
        let always_bloom = FilterKind::Ribbon {
            bits: 10.0,
            bloom_before_level: i32::MAX,
        };
        let policy = FilterPolicy::new(always_bloom, 4, BOTTOMMOST, None).unwrap();
        assert_eq!(policy.form, Form::Legacy(10));
    }

    #[test]
    fn few_bits_mean_no_filter_and_small_targets_still_hold_a_key() {
        assert_eq!(
            FilterPolicy::new(FilterKind::Bloom { bits: 0.4 }, 5, 0, None),
            None
        );
        for kind in [RIBBON, FilterKind::Bloom { bits: 100.0 }] {
            for version in [4, 5] {
                let policy = FilterPolicy::new(kind, version, 0, None).unwrap();
                assert!(policy.capacity(1) >= 1);
                assert!(policy.capacity(4096) > 100);
            }
        }
    }
}
