//! The distinct keys of an operation and family, with their counts: a hash table while they are collected, parts of it in files when
//! they are too many, and one order in the end.

use super::spool::{Section, SectionReader, SectionWriter};
use spanlith_base::checksum::xxh3_128;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufReader, Read, Result};
use std::path::Path;

/// One key as an operation saw it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyStats {
    /// Number of its first access among those of its operation and family.
    pub first: u64,
    /// Of the first access.
    pub value_size: u64,
    pub accesses: u64,
    /// Time of the last access.
    pub latest: u64,
    /// Says what stands for the key in the series of accesses.
    pub ordinal: u32,
    /// Of each pair of operations: how often, and microseconds in between.
    pub followed: Box<[(u64, u64)]>,
}

/// Bytes that a key takes in the table beside its own: its slot, twice while the table grows or is put into order,
/// and what the allocator adds.
const OVERHEAD: usize = 2 * (size_of::<KeyStats>() + size_of::<Box<[u8]>>()) + 32;

/// Hashes keys with a seed of this process, so that a trace cannot be made of keys that collide.
#[derive(Clone, Debug)]
struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

struct SeededHasher {
    seed: u64,
    hash: u64,
}

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher {
            seed: self.0,
            hash: 0,
        }
    }
}

impl Hasher for SeededHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.hash = self.hash.rotate_left(5) ^ xxh3_128(bytes, self.seed).0;
    }

    /// Lengths of keys say nothing that their bytes do not.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

/// Keys while they are collected.
#[derive(Debug, Default)]
pub(super) struct Collected {
    table: HashMap<Box<[u8]>, KeyStats, Seeded>,
    bytes: usize,
    /// Sorted parts that were moved out.
    runs: Vec<Section>,
    next_ordinal: u32,
}

impl Collected {
    /// The key, if it is in the table.
    pub(super) fn get(&self, key: &[u8]) -> Option<&KeyStats> {
        self.table.get(key)
    }

    /// Changes a key, new with the given access if it is not in the table.
    #[inline]
    pub(super) fn change<T>(
        &mut self,
        key: &[u8],
        new: impl FnOnce() -> KeyStats,
        change: impl FnOnce(&mut KeyStats) -> T,
    ) -> T {
        if let Some(stats) = self.table.get_mut(key) {
            return change(stats);
        }
        let mut stats = KeyStats {
            ordinal: self.next_ordinal,
            ..new()
        };
        self.next_ordinal = self.next_ordinal.saturating_add(1);
        self.bytes += key.len() + OVERHEAD;
        let result = change(&mut stats);
        self.table.insert(key.into(), stats);
        result
    }

    /// How many numbers stand for keys in the series.
    pub(super) fn ordinals(&self) -> u32 {
        self.next_ordinal
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves the table into a file.
    pub(super) fn spill(&mut self, to: &mut SectionWriter) -> Result<()> {
        if self.table.is_empty() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        for (key, stats) in self.sorted() {
            encode(&mut buffer, &key, &stats);
            to.push(&buffer)?;
        }
        self.runs.push(to.cut()?);
        Ok(())
    }

    fn sorted(&mut self) -> Vec<(Box<[u8]>, KeyStats)> {
        self.bytes = 0;
        let table = std::mem::take(&mut self.table);
        let mut all: Vec<_> = table.into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Puts all keys into one order. `each` is told, for every key in that order, its stats and everything that stood for
    /// it in the series.
    pub(super) fn finish(
        mut self,
        dir: &Path,
        each: &mut dyn FnMut(&KeyStats, &[u32]),
    ) -> Result<Keys> {
        if self.runs.is_empty() {
            let all = self.sorted();
            for (_, stats) in &all {
                each(stats, &[stats.ordinal]);
            }
            return Ok(Keys::InMemory(all));
        }
        let mut out = SectionWriter::create(dir)?;
        self.spill(&mut out)?;
        let mut out = SectionWriter::create(dir)?;
        let (mut count, mut buffer) = (0, Vec::new());
        let mut merge = Merge::new(&self.runs)?;
        while let Some((key, stats, ordinals)) = merge.next()? {
            each(&stats, &ordinals);
            count += 1;
            encode(&mut buffer, &key, &stats);
            out.push(&buffer)?;
        }
        Ok(Keys::InFile(out.cut()?, count))
    }
}

/// One key in a file: lengths and numbers, little-endian, then the key. Pairs of operations are not kept: with them
/// nothing is moved out.
fn encode(to: &mut Vec<u8>, key: &[u8], stats: &KeyStats) {
    to.clear();
    to.extend((key.len() as u32).to_le_bytes());
    to.extend(stats.ordinal.to_le_bytes());
    for number in [stats.first, stats.value_size, stats.accesses] {
        to.extend(number.to_le_bytes());
    }
    to.extend(key);
}

const HEAD: usize = 32;

fn decode(from: &mut impl Read, key: &mut Vec<u8>) -> Result<Option<KeyStats>> {
    let mut head = [0; HEAD];
    match from.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut head[1..])?,
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let number = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    key.resize(word(0) as usize, 0);
    from.read_exact(key)?;
    Ok(Some(KeyStats {
        ordinal: word(4),
        first: number(8),
        value_size: number(16),
        accesses: number(24),
        ..KeyStats::default()
    }))
}

/// A key, the sum of its parts, and their identifiers.
type Summed = (Vec<u8>, KeyStats, Vec<u32>);

/// Sees a key with its place in the order.
type Visitor<'a> = dyn FnMut(u64, &[u8], &KeyStats) -> Result<()> + 'a;

/// Sorted parts as one.
struct Merge {
    readers: Vec<BufReader<SectionReader>>,
    /// Key, part, stats.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    stats: Vec<KeyStats>,
}

impl Merge {
    fn new(runs: &[Section]) -> Result<Self> {
        let mut out = Self {
            readers: runs.iter().map(Section::reader).collect(),
            heads: BinaryHeap::new(),
            stats: vec![KeyStats::default(); runs.len()],
        };
        for part in 0..runs.len() {
            out.advance(part, Vec::new())?;
        }
        Ok(out)
    }

    fn advance(&mut self, part: usize, mut key: Vec<u8>) -> Result<()> {
        if let Some(stats) = decode(&mut self.readers[part], &mut key)? {
            self.stats[part] = stats;
            self.heads.push(Reverse((key, part)));
        }
        Ok(())
    }

    /// The next key with the sum of its parts, and what stands for it.
    fn next(&mut self) -> Result<Option<Summed>> {
        let Some(Reverse((key, part))) = self.heads.pop() else {
            return Ok(None);
        };
        let mut sum = self.stats[part].clone();
        let mut ordinals = vec![sum.ordinal];
        self.advance(part, Vec::new())?;
        while self.heads.peek().is_some_and(|head| head.0.0 == key) {
            let Some(Reverse((again, part))) = self.heads.pop() else {
                break;
            };
            let stats = self.stats[part].clone();
            self.advance(part, again)?;
            ordinals.push(stats.ordinal);
            sum.accesses += stats.accesses;
            if stats.first < sum.first {
                (sum.first, sum.value_size) = (stats.first, stats.value_size);
            }
        }
        Ok(Some((key, sum, ordinals)))
    }
}

/// All keys in their order.
#[derive(Debug)]
pub(super) enum Keys {
    InMemory(Vec<(Box<[u8]>, KeyStats)>),
    /// So many.
    InFile(Section, u64),
}

impl Default for Keys {
    fn default() -> Self {
        Self::InMemory(Vec::new())
    }
}

impl Keys {
    /// How many.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::InMemory(all) => all.len() as u64,
            Self::InFile(_, count) => *count,
        }
    }

    /// Shows each with its place in the order.
    pub(super) fn each(&self, f: &mut Visitor<'_>) -> Result<()> {
        match self {
            Self::InMemory(all) => {
                for (id, (key, stats)) in (0..).zip(all) {
                    f(id, key, stats)?;
                }
            }
            Self::InFile(section, _) => {
                let (mut reader, mut key, mut id) = (section.reader(), Vec::new(), 0);
                while let Some(stats) = decode(&mut reader, &mut key)? {
                    f(id, &key, &stats)?;
                    id += 1;
                }
            }
        }
        Ok(())
    }

    /// For look-ups of keys in ascending order.
    pub(super) fn ascending(&self) -> Ascending<'_> {
        match self {
            Self::InMemory(all) => Ascending::InMemory(all),
            Self::InFile(section, _) => Ascending::InFile {
                reader: Box::new(section.reader()),
                key: Vec::new(),
                stats: None,
                is_begun: false,
            },
        }
    }
}

/// Looks keys up, each behind the one before.
pub(super) enum Ascending<'a> {
    InMemory(&'a [(Box<[u8]>, KeyStats)]),
    InFile {
        reader: Box<BufReader<SectionReader>>,
        key: Vec<u8>,
        stats: Option<KeyStats>,
        is_begun: bool,
    },
}

impl Ascending<'_> {
    /// Accesses of a key, if it was accessed.
    pub(super) fn accesses(&mut self, wanted: &[u8]) -> Result<Option<u64>> {
        match self {
            Self::InMemory(all) => {
                let found = all.binary_search_by(|(key, _)| key.as_ref().cmp(wanted));
                Ok(found.ok().map(|at| all[at].1.accesses))
            }
            Self::InFile {
                reader,
                key,
                stats,
                is_begun,
            } => {
                while !*is_begun || stats.is_some() && key.as_slice() < wanted {
                    *is_begun = true;
                    *stats = decode(reader, key)?;
                }
                let found = stats.as_ref().filter(|_| key == wanted);
                Ok(found.map(|stats| stats.accesses))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_testkit::{Rng, TempDir, test_name};
    use std::collections::BTreeMap;

    #[test]
    fn keys_that_went_through_files_are_those_that_stayed_in_memory() {
        let temp = TempDir::new(test_name!());
        let seed = spanlith_testkit::seed(test_name!());
        let mut rng = Rng::new(seed);
        let (mut stays, mut goes) = (Collected::default(), Collected::default());
        let mut model = BTreeMap::<Vec<u8>, (u64, u64)>::new();
        for access in 0..5000_u64 {
            let key = format!("{:03}", rng.skewed(600)).into_bytes();
            let new = || KeyStats {
                first: access,
                value_size: access % 97,
                ..KeyStats::default()
            };
            for keys in [&mut stays, &mut goes] {
                keys.change(&key, new, |stats| stats.accesses += 1);
            }
            model.entry(key).or_insert((0, access % 97)).0 += 1;
            if rng.one_in(400) {
                let mut to = SectionWriter::create(temp.path()).unwrap();
                goes.spill(&mut to).unwrap();
                assert_eq!(goes.bytes(), 0);
            }
        }
        assert!(goes.runs.len() > 3, "seed {seed}");
        let (mut ordinals, all) = (Vec::new(), goes.ordinals());
        let mut each = |_: &KeyStats, of: &[u32]| ordinals.extend_from_slice(of);
        let goes = goes.finish(temp.path(), &mut each).unwrap();
        // Each number stands for one key.
        ordinals.sort_unstable();
        assert_eq!(ordinals, (0..all).collect::<Vec<_>>(), "seed {seed}");
        let stays = stays.finish(temp.path(), &mut |_, _| {}).unwrap();
        assert_eq!(
            (goes.len(), stays.len()),
            (model.len() as u64, model.len() as u64)
        );
        for keys in [&goes, &stays] {
            let mut wanted = model.iter();
            keys.each(&mut |_, key, stats| {
                let (k, (accesses, value_size)) = wanted.next().unwrap();
                assert_eq!(
                    (key, stats.accesses),
                    (k.as_slice(), *accesses),
                    "seed {seed}"
                );
                assert_eq!(stats.value_size, *value_size, "seed {seed}");
                Ok(())
            })
            .unwrap();
            let mut look = keys.ascending();
            for n in 0..600 {
                let key = format!("{n:03}").into_bytes();
                let wanted = model.get(&key).map(|m| m.0);
                assert_eq!(look.accesses(&key).unwrap(), wanted, "{n}, seed {seed}");
            }
        }
        // Nothing is left behind.
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
