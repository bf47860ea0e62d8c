//! A table of keys with their counts, made for tables that are much larger than the processor's cache.
//!
//! Slots of eight bytes, half of a hash and half of a place, are probed one after the other; a key with its counts is a
//! record of whole words in a list of chunks that never moves. An access to a cold key then costs two misses of the cache, which
//! do not depend on those of the next access: [`KeyTable::warm`] asks for the slots and records of a batch of accesses, so that their
//! misses overlap.

use spanlith_base::checksum::xxh3_128;
use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

/// Words of a chunk, unless a single record is longer; a power of two.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 17;
/// Places are below 2^32, since a slot has 32 bits for them, and 0 is an empty slot.
const CHUNKS: usize = (1 << (32 - CHUNK_BITS)) - 1;
/// Words of a record before its key: accesses, first access, size of the value, length of the key and ordinal.
const HEAD: usize = 4;
/// Fewer keys than these with one beginning are compared as they are.
const FEW: usize = 24;
/// Keys that are shown in order are asked for so many ahead.
const AHEAD: usize = 32;
/// Bytes that a key takes beside its record: slots at three eighths of their number on average while they grow, and the places by
/// which keys are put into order.
const OVERHEAD: usize = 8 * HEAD + 48;

/// One key as an operation saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyStats {
    /// Number of its first access among those of its operation and family.
    pub first: u64,
    /// Of the first access.
    pub value_size: u64,
    pub accesses: u64,
    /// Says what stands for the key in the series of accesses.
    pub ordinal: u32,
}

/// Keys and what was counted of them.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    /// Keys are hashed with a seed of this process, so that a trace cannot be made of keys that collide.
    seed: u64,
    /// Upper half: the hash; lower half: the place and 1. A power of two of them, and 0 is empty.
    slots: Vec<u64>,
    chunks: Vec<Vec<u64>>,
    keys: usize,
    bytes: usize,
}

impl Default for KeyTable {
    fn default() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
            slots: Vec::new(),
            chunks: Vec::new(),
            keys: 0,
            bytes: 0,
        }
    }
}

/// The last bytes of a key as a word, zeros after their end.
#[inline]
fn last_word(rest: &[u8]) -> u64 {
    rest.iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}

impl KeyTable {
    /// Hash of a key, for this table.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        (xxh3_128(key, self.seed).0 >> 32) as u32
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.keys
    }

    /// Bytes of memory, about, with what it takes to put the keys into order.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all keys, and keeps the memory of the slots.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.chunks = Vec::new();
        (self.keys, self.bytes) = (0, 0);
    }

    #[inline]
    fn record(&self, place: u32) -> &[u64] {
        let chunk = &self.chunks[(place >> CHUNK_BITS) as usize];
        &chunk[place as usize & (CHUNK - 1)..]
    }

    /// Makes slots for so many more keys.
    pub(crate) fn reserve(&mut self, more: usize) {
        let wanted = (self.keys + more) * 4 / 3 + 1;
        if wanted <= self.slots.len() {
            return;
        }
        let mut slots = vec![0; wanted.next_power_of_two().max(64)];
        let mask = slots.len() - 1;
        for slot in self.slots.drain(..).filter(|&slot| slot != 0) {
            let mut at = (slot >> 32) as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = slot;
        }
        self.slots = slots;
    }

    /// Loads what accesses with these hashes will look at. Returns a number of no meaning, which keeps the loads from being left
    /// out.
    #[inline]
    pub(crate) fn warm(&self, hashes: impl Iterator<Item = u32> + Clone) -> u64 {
        if self.slots.is_empty() {
            return 0;
        }
        let mask = self.slots.len() - 1;
        let slot = |hash: u32| self.slots[hash as usize & mask];
        let slots = hashes.clone().fold(0, |sum, hash| sum ^ slot(hash));
        let slots = std::hint::black_box(slots);
        hashes.fold(slots, |sum, hash| match slot(hash) as u32 {
            0 => sum,
            place => {
                let record = self.record(place - 1);
                sum ^ record[0] ^ record.get(8).unwrap_or(&0)
            }
        })
    }

    /// The place of a key, or the slot where it belongs.
    #[inline]
    fn find(&self, hash: u32, key: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            if (slot >> 32) as u32 == hash && self.is_at(slot as u32 - 1, key) {
                return Ok(slot as u32 - 1);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn is_at(&self, place: u32, key: &[u8]) -> bool {
        let record = self.record(place);
        if record[3] as u32 as usize != key.len() {
            return false;
        }
        let (whole, rest) = key.as_chunks::<8>();
        let (same, last) = record[HEAD..].split_at(whole.len());
        let is_same = |(a, b): (&[u8; 8], &u64)| u64::from_le_bytes(*a) == *b;
        whole.iter().zip(same).all(is_same) && (rest.is_empty() || last[0] == last_word(rest))
    }

    /// Returns the counts of a key, if it is there.
    pub(crate) fn get(&self, key: &[u8]) -> Option<KeyStats> {
        if self.slots.is_empty() {
            return None;
        }
        let place = self.find(self.hash(key), key).ok()?;
        Some(self.stats(place))
    }

    /// Counts an access of a key, which is new with `stats` if it is not there; returns its ordinal. Slots for it have been
    /// reserved.
    ///
    /// # Errors
    /// If records take more than 32 GiB.
    #[inline]
    pub(crate) fn count(
        &mut self,
        hash: u32,
        key: &[u8],
        stats: &KeyStats,
    ) -> std::io::Result<u32> {
        let place = match self.find(hash, key) {
            Ok(place) => place,
            Err(slot) => {
                let place = self.append(key, stats)?;
                self.slots[slot] = u64::from(hash) << 32 | u64::from(place + 1);
                place
            }
        };
        let chunk = &mut self.chunks[(place >> CHUNK_BITS) as usize];
        let record = &mut chunk[place as usize & (CHUNK - 1)..];
        record[0] += 1;
        Ok((record[3] >> 32) as u32)
    }

    fn append(&mut self, key: &[u8], stats: &KeyStats) -> std::io::Result<u32> {
        let length = u32::try_from(key.len()).map_err(std::io::Error::other)?;
        let size = HEAD + key.len().div_ceil(8);
        let fits = |chunk: &Vec<u64>| chunk.len() + size <= CHUNK;
        if !self.chunks.last().is_some_and(fits) {
            if self.chunks.len() >= CHUNKS {
                return Err(std::io::Error::other("keys take more than 32 GiB"));
            }
            // The first chunk of a table grows, since most tables are small.
            let room = if self.chunks.is_empty() { size } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room.max(size)));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let place = (number << CHUNK_BITS | chunk.len()) as u32;
        let last = u64::from(length) | u64::from(stats.ordinal) << 32;
        chunk.extend([stats.accesses, stats.first, stats.value_size, last]);
        let (whole, rest) = key.as_chunks::<8>();
        chunk.extend(whole.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        chunk.extend((!rest.is_empty()).then(|| last_word(rest)));
        self.keys += 1;
        self.bytes += OVERHEAD + 8 * key.len().div_ceil(8);
        Ok(place)
    }

    /// The ordinal of the key at a place.
    pub(crate) fn ordinal(&self, place: u32) -> u32 {
        (self.record(place)[3] >> 32) as u32
    }

    fn stats(&self, place: u32) -> KeyStats {
        let record = self.record(place);
        KeyStats {
            accesses: record[0],
            first: record[1],
            value_size: record[2],
            ordinal: (record[3] >> 32) as u32,
        }
    }

    /// Bytes of the key at a place.
    pub(crate) fn length(&self, place: u32) -> usize {
        self.record(place)[3] as u32 as usize
    }

    /// Copies the key at a place.
    pub(crate) fn key(&self, place: u32, to: &mut Vec<u8>) {
        let length = self.length(place);
        let record = &self.record(place)[HEAD..];
        to.clear();
        for word in &record[..length.div_ceil(8)] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        to.truncate(length);
    }

    /// A word of a key as a number in the order of its bytes; 0 after its end.
    #[inline]
    fn digit(&self, place: u32, at: usize) -> u64 {
        let record = self.record(place);
        let length = record[3] as u32 as usize;
        match at < length.div_ceil(8) {
            true => record[HEAD + at].swap_bytes(),
            false => 0,
        }
    }

    /// Compares keys whose first words, so many, are known to be the same.
    fn compare(&self, a: u32, b: u32, same: usize) -> Ordering {
        let (long_a, long_b) = (self.length(a), self.length(b));
        for at in same..long_a.min(long_b).div_ceil(8) {
            let order = self.digit(a, at).cmp(&self.digit(b, at));
            // Zeros after the end of the shorter one say less than its length.
            if order.is_ne() {
                return order;
            }
        }
        long_a.cmp(&long_b)
    }

    /// Places of all keys in the order of their bytes.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut all: Vec<(u64, u32)> = Vec::with_capacity(self.keys);
        all.extend(
            self.slots
                .iter()
                .filter(|&&slot| slot != 0)
                .map(|&slot| (0, slot as u32 - 1)),
        );
        // Parts of the list, and how many first words their keys share.
        let mut parts = vec![(0, all.len(), 0)];
        while let Some((begin, end, depth)) = parts.pop() {
            let part = &mut all[begin..end];
            if part.len() < FEW {
                part.sort_unstable_by(|a, b| self.compare(a.1, b.1, depth));
                continue;
            }
            for item in part.iter_mut() {
                item.0 = self.digit(item.1, depth);
            }
            part.sort_unstable();
            let mut from = 0;
            while from < part.len() {
                let digit = part[from].0;
                let to = from + part[from..].partition_point(|item| item.0 == digit);
                if to - from > 1 {
                    let same = &mut part[from..to];
                    // Those that end here come first, by length; the others go on.
                    let reached = 8 * (depth + 1);
                    same.sort_unstable_by_key(|item| self.length(item.1).min(reached + 1));
                    let go_on = same.partition_point(|item| self.length(item.1) <= reached);
                    parts.push((begin + from + go_on, begin + to, depth + 1));
                }
                from = to;
            }
        }
        all.into_iter().map(|(_, place)| place).collect()
    }

    /// Shows the keys of these places, in that order, until `f` fails.
    pub(crate) fn each(
        &self,
        places: &[u32],
        f: &mut dyn FnMut(&[u8], &KeyStats) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut key = Vec::new();
        for some in places.chunks(AHEAD) {
            let warm = |sum, place: &u32| {
                let record = self.record(*place);
                sum ^ record[0] ^ record.get(8).unwrap_or(&0)
            };
            std::hint::black_box(some.iter().fold(0, warm));
            for &place in some {
                self.key(place, &mut key);
                f(&key, &self.stats(place))?;
            }
        }
        Ok(())
    }

    /// Where in the order of these places a key is.
    pub(crate) fn search(&self, places: &[u32], key: &[u8]) -> Option<KeyStats> {
        let mut bytes = Vec::new();
        let found = places.binary_search_by(|&place| {
            self.key(place, &mut bytes);
            bytes.as_slice().cmp(key)
        });
        found.ok().map(|at| self.stats(places[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_testkit::{Rng, test_name};
    use std::collections::BTreeMap;

    fn counted(table: &mut KeyTable, key: &[u8], stats: &KeyStats) -> u32 {
        table.reserve(1);
        let hash = table.hash(key);
        table.warm([hash].into_iter());
        table.count(hash, key, stats).unwrap()
    }

    /// Keys of which many begin alike, end in zeros, or are the beginning of another.
    fn keys(rng: &mut Rng, n: usize) -> Vec<Vec<u8>> {
        let key = |rng: &mut Rng| {
            let mut key = vec![b'k'; 8 * rng.below(5) as usize];
            let more = rng.below(20) as usize;
            key.extend((0..more).map(|_| [0, 0, 1, 255][rng.below(4) as usize]));
            key
        };
        (0..n).map(|_| key(rng)).collect()
    }

    #[test]
    fn keys_are_counted_and_shown_in_order() {
        let seed = spanlith_testkit::seed(test_name!());
        let mut rng = Rng::new(seed);
        let (mut table, mut model) = (KeyTable::default(), BTreeMap::<Vec<u8>, KeyStats>::new());
        for (access, key) in (0..).zip(keys(&mut rng, 40_000)) {
            let new = KeyStats {
                first: access,
                value_size: access % 7,
                ordinal: model.len() as u32,
                ..KeyStats::default()
            };
            let ordinal = counted(&mut table, &key, &new);
            let of_model = model.entry(key).or_insert(new);
            of_model.accesses += 1;
            assert_eq!(ordinal, of_model.ordinal, "seed {seed}");
        }
        assert_eq!(table.len(), model.len());
        let (order, mut shown) = (table.order(), Vec::new());
        let mut show = |key: &[u8], stats: &KeyStats| {
            shown.push((key.to_vec(), *stats));
            Ok(())
        };
        table.each(&order, &mut show).unwrap();
        assert!(shown.iter().map(|(k, s)| (k, s)).eq(&model), "seed {seed}");
        for (key, stats) in &model {
            assert_eq!(table.get(key), Some(*stats), "seed {seed}");
            assert_eq!(table.search(&order, key), Some(*stats), "seed {seed}");
        }
        assert_eq!(table.search(&order, b"absent"), None);
        assert_eq!(table.get(b"absent"), None);
        table.clear();
        assert_eq!((table.len(), table.bytes(), table.get(b"")), (0, 0, None));
    }

    /// A key that is longer than a chunk has one of its own, and those after it are found.
    #[test]
    fn a_key_of_megabytes_does_not_disturb_others() {
        let mut table = KeyTable::default();
        let long = vec![7; 3 << 20];
        for key in [b"a".as_slice(), &long, b"b", &long, b"c"] {
            counted(&mut table, key, &KeyStats::default());
        }
        assert_eq!(table.len(), 4);
        assert_eq!(table.get(&long).map(|s| s.accesses), Some(2));
        assert_eq!(table.get(b"c").map(|s| s.accesses), Some(1));
        let mut lengths = Vec::new();
        let mut show = |key: &[u8], _: &KeyStats| {
            lengths.push(key.len());
            Ok(())
        };
        table.each(&table.order(), &mut show).unwrap();
        assert_eq!(lengths, [3 << 20, 1, 1, 1]);
    }
}
