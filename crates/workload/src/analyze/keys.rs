//! The distinct keys of an operation and family, with their counts: a hash table while they are collected, parts of it in files when
//! they are too many, and one order in the end.

use super::spool::{Section, SectionReader, SectionWriter};
use super::table::{KeyStats, KeyTable};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufReader, Read, Result};
use std::ops::Range;
use std::path::Path;

/// Accesses that are counted together, so that their misses of the processor's cache overlap.
const BATCH: usize = 64;

/// An access, and what a new key takes from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub key: &'a [u8],
    /// Its number among those of its operation and family.
    pub number: u64,
    pub value_size: u64,
    /// Second in the series of accesses.
    pub second: u64,
}

/// An access that is not counted yet.
#[derive(Debug)]
struct Waiting {
    hash: u32,
    key: Range<u32>,
    number: u64,
    value_size: u64,
    second: u64,
}

/// Keys while they are collected.
#[derive(Debug, Default)]
pub(super) struct Collected {
    table: KeyTable,
    waiting: Vec<Waiting>,
    /// Keys of the accesses that wait.
    bytes: Vec<u8>,
    /// Sorted parts that were moved out.
    runs: Vec<Section>,
    next_ordinal: u32,
}

/// Is told the second of each access and what stands for its key.
pub(super) type Series<'a> = dyn FnMut(u64, u32) -> Result<()> + 'a;

impl Collected {
    /// The key, if it is in the table; no access waits.
    pub(super) fn get(&self, key: &[u8]) -> Option<KeyStats> {
        debug_assert!(self.waiting.is_empty(), "all have been counted");
        self.table.get(key)
    }

    /// Takes an access; it is counted with the others of its batch.
    ///
    /// # Errors
    /// As [`Self::settle`].
    #[inline]
    pub(super) fn add(&mut self, seen: &Seen<'_>, series: &mut Series<'_>) -> Result<()> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(seen.key);
        self.waiting.push(Waiting {
            hash: self.table.hash(seen.key),
            key: begin as u32..self.bytes.len() as u32,
            number: seen.number,
            value_size: seen.value_size,
            second: seen.second,
        });
        match self.waiting.len() >= BATCH || self.bytes.len() >= 1 << 20 {
            true => self.settle(series),
            false => Ok(()),
        }
    }

    /// Counts the accesses that wait.
    ///
    /// # Errors
    /// Of `series`; if the keys take more than 32 GiB of memory.
    pub(super) fn settle(&mut self, series: &mut Series<'_>) -> Result<()> {
        self.table.reserve(self.waiting.len());
        std::hint::black_box(self.table.warm(self.waiting.iter().map(|w| w.hash)));
        for one in self.waiting.drain(..) {
            let key = &self.bytes[one.key.start as usize..one.key.end as usize];
            let new = KeyStats {
                first: one.number,
                value_size: one.value_size,
                ordinal: self.next_ordinal,
                accesses: 0,
            };
            let ordinal = self.table.count(one.hash, key, &new)?;
            if ordinal == self.next_ordinal {
                self.next_ordinal = self.next_ordinal.saturating_add(1);
            }
            series(one.second, ordinal)?;
        }
        self.bytes.clear();
        Ok(())
    }

    /// How many numbers stand for keys in the series.
    pub(super) fn ordinals(&self) -> u32 {
        self.next_ordinal
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Moves the table into a file; no access waits.
    pub(super) fn spill(&mut self, to: &mut SectionWriter) -> Result<()> {
        debug_assert!(self.waiting.is_empty(), "all have been counted");
        if self.table.len() == 0 {
            return Ok(());
        }
        let mut buffer = Vec::new();
        let order = self.table.order();
        self.table.each(&order, &mut |key, stats| {
            encode(&mut buffer, key, stats);
            to.push(&buffer)
        })?;
        self.table.clear();
        self.runs.push(to.cut()?);
        Ok(())
    }

    /// Puts all keys into one order; no access waits. `each` is told, for every key in that order, its stats and everything that
    /// stood for it in the series.
    pub(super) fn finish(
        mut self,
        dir: &Path,
        each: &mut dyn FnMut(&KeyStats, &[u32]),
    ) -> Result<Keys> {
        debug_assert!(self.waiting.is_empty(), "all have been counted");
        if self.runs.is_empty() {
            let order = self.table.order();
            self.table.each(&order, &mut |_, stats| {
                each(stats, &[stats.ordinal]);
                Ok(())
            })?;
            return Ok(Keys::InMemory(self.table, order));
        }
        let mut out = SectionWriter::create(dir)?;
        self.spill(&mut out)?;
        let mut out = SectionWriter::create(dir)?;
        let (mut count, mut buffer) = (0, Vec::new());
        let mut merge = Merge::new(&self.runs)?;
        let mut summed = Summed::default();
        while merge.next(&mut summed)? {
            each(&summed.stats, &summed.ordinals);
            count += 1;
            encode(&mut buffer, &summed.key, &summed.stats);
            out.push(&buffer)?;
        }
        Ok(Keys::InFile(out.cut()?, count))
    }
}

/// One key in a file: lengths and numbers, little-endian, then the key.
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
    }))
}

/// A key, the sum of its parts, and their identifiers.
#[derive(Default)]
struct Summed {
    key: Vec<u8>,
    stats: KeyStats,
    ordinals: Vec<u32>,
}

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

    /// The next key with the sum of its parts, and what stands for it; false at the end.
    fn next(&mut self, to: &mut Summed) -> Result<bool> {
        let Some(Reverse((key, part))) = self.heads.pop() else {
            return Ok(false);
        };
        to.stats = self.stats[part];
        to.ordinals.clear();
        to.ordinals.push(to.stats.ordinal);
        let room = std::mem::replace(&mut to.key, key);
        self.advance(part, room)?;
        while self.heads.peek().is_some_and(|head| head.0.0 == to.key) {
            let Some(Reverse((again, part))) = self.heads.pop() else {
                break;
            };
            let stats = self.stats[part];
            self.advance(part, again)?;
            to.ordinals.push(stats.ordinal);
            to.stats.accesses += stats.accesses;
            if stats.first < to.stats.first {
                (to.stats.first, to.stats.value_size) = (stats.first, stats.value_size);
            }
        }
        Ok(true)
    }
}

/// All keys in their order.
#[derive(Debug)]
pub(super) enum Keys {
    /// With the places in order.
    InMemory(KeyTable, Vec<u32>),
    /// So many.
    InFile(Section, u64),
}

impl Default for Keys {
    fn default() -> Self {
        Self::InMemory(KeyTable::default(), Vec::new())
    }
}

impl Keys {
    /// How many.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::InMemory(_, order) => order.len() as u64,
            Self::InFile(_, count) => *count,
        }
    }

    /// Shows each with its place in the order.
    pub(super) fn each(&self, f: &mut Visitor<'_>) -> Result<()> {
        match self {
            Self::InMemory(table, order) => {
                let mut id = 0;
                table.each(order, &mut |key, stats| {
                    id += 1;
                    f(id - 1, key, stats)
                })?;
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
            Self::InMemory(table, order) => Ascending::InMemory(table, order),
            Self::InFile(section, _) => Ascending::InFile {
                reader: Box::new(section.reader()),
                key: Vec::new(),
                stats: None,
                is_begun: false,
            },
        }
    }
}

/// Looks keys up, each after the one before.
pub(super) enum Ascending<'a> {
    InMemory(&'a KeyTable, &'a [u32]),
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
            Self::InMemory(table, order) => Ok(table.search(order, wanted).map(|s| s.accesses)),
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
            let seen = Seen {
                key: &key,
                number: access,
                value_size: access % 97,
                second: 0,
            };
            for keys in [&mut stays, &mut goes] {
                keys.add(&seen, &mut |_, _| Ok(())).unwrap();
            }
            model.entry(key).or_insert((0, access % 97)).0 += 1;
            if rng.one_in(400) {
                goes.settle(&mut |_, _| Ok(())).unwrap();
                let mut to = SectionWriter::create(temp.path()).unwrap();
                goes.spill(&mut to).unwrap();
                assert_eq!(goes.bytes(), 0);
            }
        }
        for keys in [&mut stays, &mut goes] {
            keys.settle(&mut |_, _| Ok(())).unwrap();
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
