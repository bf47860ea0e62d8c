//! An optional filter in front of a memtable's tree: which keys and prefixes were added.
//!
//! A Bloom filter in blocks of one cache line: a key's bits lie in one line, so a lookup costs one
//! cache miss at most. It lives in memory only; its layout is nobody's business.
//!
//! Bits are set before the entry is linked, and the entry before its sequence number becomes
//! visible, so a reader never misses what it may see. Any number of threads add and ask.

use spanlith_base::Comparator;
use spanlith_base::checksum::xxh3_64;
use spanlith_base::slice_transform::SliceTransform;
use spanlith_base::sync::atomic::{AtomicU64, Ordering};

/// Bits set per key.
const PROBES: u32 = 6;
const LINE_BITS: u32 = 512;

/// Describes what a memtable's filter holds.
#[derive(Clone, Debug)]
pub struct BloomOptions {
    /// Size in bytes; rounded up to whole lines of 64.
    pub size_bytes: usize,
    /// Says whether whole keys are added, without timestamps.
    pub whole_keys: bool,
    /// Extractor of the prefixes that are added.
    pub prefixes: Option<SliceTransform>,
}

/// One cache line. Relaxed: publication is the business of whoever publishes sequence numbers.
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// The filter.
pub(crate) struct Bloom {
    lines: Box<[Line]>,
    whole_keys: bool,
    prefixes: Option<SliceTransform>,
    timestamp_size: usize,
}

impl Bloom {
    /// `None` if nothing would be added or there is no room.
    pub(crate) fn new(options: &BloomOptions, comparator: &Comparator) -> Option<Self> {
        let useful = options.whole_keys || options.prefixes.is_some();
        let lines = options.size_bytes.div_ceil(size_of::<Line>());
        (useful && lines > 0).then(|| Self {
            lines: (0..lines)
                .map(|_| Line(std::array::from_fn(|_| AtomicU64::new(0))))
                .collect(),
            whole_keys: options.whole_keys,
            prefixes: options.prefixes.clone(),
            timestamp_size: comparator.timestamp_size(),
        })
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&*self.lines)
    }

    fn bare<'a>(&self, user_key: &'a [u8]) -> &'a [u8] {
        &user_key[..user_key.len().saturating_sub(self.timestamp_size)]
    }

    fn prefix<'a>(&self, bare: &'a [u8]) -> Option<&'a [u8]> {
        self.prefixes.as_ref()?.prefix(bare)
    }

    /// Adds a key, or its prefix, or both.
    pub(crate) fn add(&self, user_key: &[u8]) {
        let key = self.bare(user_key);
        if self.whole_keys {
            self.set(key);
        }
        if let Some(prefix) = self.prefix(key) {
            self.set(prefix);
        }
    }

    /// False if the key was not added.
    pub(crate) fn may_hold_key(&self, user_key: &[u8]) -> bool {
        let key = self.bare(user_key);
        if self.whole_keys {
            return self.get(key);
        }
        self.prefix(key).is_none_or(|p| self.get(p))
    }

    /// False if no key with the prefix of this one was added.
    pub(crate) fn may_hold_prefix_of(&self, user_key: &[u8]) -> bool {
        self.prefix(self.bare(user_key)).is_none_or(|p| self.get(p))
    }

    fn line(&self, hash: u64) -> &Line {
        let at = ((hash >> 32) * self.lines.len() as u64) >> 32;
        &self.lines[at as usize]
    }

    fn set(&self, bytes: &[u8]) {
        let hash = xxh3_64(bytes);
        let line = self.line(hash);
        for bit in bits(hash) {
            let (word, mask) = (&line.0[(bit / 64) as usize], 1 << (bit % 64));
            // Prefixes repeat; a line that need not change stays shared between cores.
            if word.load(Ordering::Relaxed) & mask == 0 {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    fn get(&self, bytes: &[u8]) -> bool {
        let hash = xxh3_64(bytes);
        let line = self.line(hash);
        bits(hash)
            .all(|bit| line.0[(bit / 64) as usize].load(Ordering::Relaxed) & (1 << (bit % 64)) != 0)
    }
}

/// Places in the line, from the half of the hash that does not choose the line.
fn bits(hash: u64) -> impl Iterator<Item = u32> {
    let mut h = hash as u32;
    (0..PROBES).map(move |_| {
        h = h.wrapping_mul(0x9e37_79b9);
        h >> (32 - LINE_BITS.trailing_zeros())
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn bloom(whole_keys: bool, prefixes: Option<SliceTransform>) -> Bloom {
        let options = BloomOptions {
            size_bytes: 2000,
            whole_keys,
            prefixes,
        };
        Bloom::new(&options, &Comparator::Bytewise).unwrap()
    }

    #[test]
    fn added_keys_are_found_and_few_others() {
        let b = bloom(true, None);
        let key = |n: u32| n.to_be_bytes();
        (0..1000).for_each(|n| b.add(&key(n)));
        assert!((0..1000).all(|n| b.may_hold_key(&key(n))));
        let wrong = (1000..11_000).filter(|&n| b.may_hold_key(&key(n))).count();
        assert!(wrong < 300, "{wrong} of 10000 at 16 bits per key");
        assert!(b.may_hold_prefix_of(&key(5_000)), "no prefixes, no verdict");
        assert_eq!(b.memory_usage(), 2048);
    }

    #[test]
    fn prefixes_decide_where_whole_keys_do_not() {
        let b = bloom(false, Some(SliceTransform::FixedPrefix(3)));
        b.add(b"abcd");
        b.add(b"x");
        assert!(b.may_hold_key(b"abcz") && b.may_hold_prefix_of(b"abc"));
        assert!(!b.may_hold_key(b"abzz") && !b.may_hold_prefix_of(b"abz"));
        assert!(b.may_hold_key(b"y"), "out of the domain");
    }

    #[test]
    fn a_filter_of_nothing_is_none() {
        let none = BloomOptions {
            size_bytes: 100,
            whole_keys: false,
            prefixes: None,
        };
        assert!(Bloom::new(&none, &Comparator::Bytewise).is_none());
    }
}
