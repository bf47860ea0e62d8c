//! The benchmarks by db_bench's names, and what one thread does in each.

use super::Settings;
use super::meter::Meter;
use crate::rng::Rng;
use spanlith::{Cf, FamilyOptions, ReadOptions, Result, WriteBatch, WriteOptions};

/// Everything `bench` can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    FillSeq,
    FillRandom,
    FillBatch,
    FillSync,
    Overwrite,
    ReadRandom,
    ReadMissing,
    ReadSeq,
    ReadReverse,
    SeekRandom,
    MultiReadRandom,
    DeleteRandom,
    DeleteRangeRandom,
    MergeRandom,
    FillFamilies,
    ReadFamilies,
    ReadWhileWriting,
    ReadRandomWriteRandom,
    Compact,
    Flush,
    WaitForCompaction,
    Stats,
}

use Kind::{
    Compact, DeleteRandom, DeleteRangeRandom, FillBatch, FillFamilies, FillRandom, FillSeq,
    FillSync, Flush, MergeRandom, MultiReadRandom, Overwrite, ReadFamilies, ReadMissing,
    ReadRandom, ReadRandomWriteRandom, ReadReverse, ReadSeq, ReadWhileWriting, SeekRandom, Stats,
    WaitForCompaction,
};

/// Name, kind, what it does.
pub const ALL: &[(&str, Kind, &str)] = &[
    (
        "fillseq",
        FillSeq,
        "puts every key once, in order, into a fresh database",
    ),
    (
        "fillrandom",
        FillRandom,
        "puts random keys into a fresh database",
    ),
    (
        "fillbatch",
        FillBatch,
        "as fillseq, in batches (--batch-size, else 1000)",
    ),
    (
        "fillsync",
        FillSync,
        "as fillrandom with sync; a thousandth of --num",
    ),
    (
        "overwrite",
        Overwrite,
        "puts random keys into the existing database",
    ),
    ("readrandom", ReadRandom, "gets random keys"),
    (
        "readmissing",
        ReadMissing,
        "gets keys that are not there, among those that are",
    ),
    (
        "readseq",
        ReadSeq,
        "one scan from the first key to the last",
    ),
    (
        "readreverse",
        ReadReverse,
        "one scan from the last key to the first",
    ),
    (
        "seekrandom",
        SeekRandom,
        "seeks random keys with a new iterator, then --seek-nexts steps",
    ),
    (
        "multireadrandom",
        MultiReadRandom,
        "multi-get of --batch-size (else 32) random keys",
    ),
    ("deleterandom", DeleteRandom, "deletes random keys"),
    (
        "deleterangerandom",
        DeleteRangeRandom,
        "range deletions of --range-size keys at random places",
    ),
    (
        "mergerandom",
        MergeRandom,
        "adds 1 to random counters by merges",
    ),
    (
        "fillfamilies",
        FillFamilies,
        "batches of a random key in each of --families families",
    ),
    (
        "readfamilies",
        ReadFamilies,
        "gets random keys from random families of --families",
    ),
    (
        "readwhilewriting",
        ReadWhileWriting,
        "readrandom on --threads while one more thread puts",
    ),
    (
        "readrandomwriterandom",
        ReadRandomWriteRandom,
        "--readwritepercent gets, the rest puts; 'mixed' for short",
    ),
    ("compact", Compact, "compacts everything"),
    ("flush", Flush, "writes the memtables out"),
    (
        "waitforcompaction",
        WaitForCompaction,
        "waits until nothing runs or is due",
    ),
    ("stats", Stats, "prints rocksdb.stats"),
];

impl Kind {
    /// The benchmark of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "mixed" {
            return Some(ReadRandomWriteRandom);
        }
        ALL.iter().find(|w| w.0 == name).map(|w| w.1)
    }

    /// Whether it begins with a database of its own.
    pub fn is_fresh(self) -> bool {
        matches!(self, FillSeq | FillRandom | FillBatch | FillSync)
    }

    /// Whether it is one call on the whole database.
    pub fn is_single_call(self) -> bool {
        matches!(self, Compact | Flush | WaitForCompaction | Stats)
    }

    /// Operations of all threads together, if neither time nor the end of the keys ends it.
    pub fn operations(self, s: &Settings) -> Option<u64> {
        match self {
            FillSeq | FillBatch => None,
            ReadSeq | ReadReverse => s.reads,
            _ if s.duration > 0 => None,
            FillSync => Some((s.num / 1000).max(1)),
            FillRandom | FillFamilies | Overwrite | DeleteRandom | MergeRandom => Some(s.num),
            DeleteRangeRandom => Some((s.num / 1000).max(1)),
            _ => Some(s.reads.unwrap_or(s.num)),
        }
    }
}

/// Keys of db_bench: a big-endian number, then `0` characters.
#[derive(Clone, Debug)]
pub struct Keys {
    key: Vec<u8>,
}

impl Keys {
    /// Keys of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self {
            key: vec![b'0'; size],
        }
    }

    /// The key of number `n`.
    #[inline]
    pub fn set(&mut self, n: u64) -> &[u8] {
        let bytes = n.to_be_bytes();
        let len = self.key.len();
        if len >= 8 {
            self.key[..8].copy_from_slice(&bytes);
        } else {
            self.key.copy_from_slice(&bytes[8 - len..]);
        }
        &self.key
    }

    /// A key that no workload puts: right before that of number `n` if there is room behind the
    /// number, else with a large number.
    #[inline]
    pub fn set_missing(&mut self, n: u64) -> &[u8] {
        if self.key.len() <= 8 {
            return self.set(!n);
        }
        self.set(n);
        if let Some(last) = self.key.last_mut() {
            *last = b'.';
        }
        &self.key
    }
}

/// Values of which half compresses away.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    size: usize,
    at: usize,
}

impl Values {
    /// Values of `size` bytes.
    pub fn new(size: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut pool = Vec::new();
        while pool.len() < (1 << 20).max(size * 2) {
            // 50 random printable characters, then the same again.
            let piece: Vec<u8> = (0..50).map(|_| b' ' + (rng.below(95) as u8)).collect();
            pool.extend_from_slice(&piece);
            pool.extend_from_slice(&piece);
        }
        Self { pool, size, at: 0 }
    }

    /// The next value.
    #[inline]
    pub fn next(&mut self) -> &[u8] {
        if self.at + self.size > self.pool.len() {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + self.size];
        self.at += self.size;
        value
    }
}

/// What one thread does.
///
/// # Errors
/// The first of the database.
pub fn run(kind: Kind, cf: &Cf, s: &Settings, thread: u64, meter: &mut Meter<'_>) -> Result<()> {
    let rng = Rng::new(s.stream(thread));
    match kind {
        FillSeq | FillBatch => fill_in_order(kind, cf, s, thread, meter),
        FillRandom | FillSync | Overwrite => put_random(kind, cf, s, rng, meter),
        DeleteRandom => delete_random(cf, s, rng, meter),
        DeleteRangeRandom => delete_ranges(cf, s, rng, meter),
        MergeRandom => merge_random(cf, s, rng, meter),
        FillFamilies => fill_families(cf, s, rng, meter),
        ReadFamilies => read_families(cf, s, rng, meter),
        ReadRandom | ReadWhileWriting => get_random(cf, s, rng, meter, false),
        ReadMissing => get_random(cf, s, rng, meter, true),
        MultiReadRandom => multi_get(cf, s, rng, meter),
        SeekRandom => seek_random(cf, s, rng, meter),
        ReadSeq | ReadReverse => scan(kind, cf, meter),
        ReadRandomWriteRandom => mixed(cf, s, rng, meter),
        Compact | Flush | WaitForCompaction | Stats => Ok(()),
    }
}

/// How a benchmark writes.
fn write_options(kind: Kind, s: &Settings) -> WriteOptions {
    WriteOptions::new()
        .sync(s.sync || kind == FillSync)
        .disable_wal(s.disable_wal)
}

/// Each thread fills its share of the key space.
fn fill_in_order(
    kind: Kind,
    cf: &Cf,
    s: &Settings,
    thread: u64,
    meter: &mut Meter<'_>,
) -> Result<()> {
    let per_batch = match kind {
        FillBatch if s.batch_size <= 1 => 1000,
        _ => s.batch_size,
    };
    let share = |n: u64| (u128::from(s.num) * u128::from(n) / u128::from(s.threads)) as u64;
    let (mut next, end) = (share(thread), share(thread + 1));
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(kind, s);
    let mut batch = WriteBatch::new();
    meter.restart();
    while next < end {
        let ops = per_batch.min(end - next);
        if !meter.go_on(ops) {
            break;
        }
        if per_batch <= 1 {
            cf.put_opt(keys.set(next), values.next(), &options)?;
        } else {
            batch.clear();
            for n in next..next + ops {
                batch.put(keys.set(n), values.next());
            }
            cf.db().write_opt(&batch, &options)?;
        }
        next += ops;
        meter.done(ops, ops * s.entry_size());
    }
    Ok(())
}

fn put_random(
    kind: Kind,
    cf: &Cf,
    s: &Settings,
    mut rng: Rng,
    meter: &mut Meter<'_>,
) -> Result<()> {
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(kind, s);
    let mut batch = WriteBatch::new();
    meter.restart();
    while meter.go_on(s.batch_size) {
        if s.batch_size <= 1 {
            cf.put_opt(keys.set(rng.below(s.num)), values.next(), &options)?;
        } else {
            batch.clear();
            for _ in 0..s.batch_size {
                batch.put(keys.set(rng.below(s.num)), values.next());
            }
            cf.db().write_opt(&batch, &options)?;
        }
        meter.done(s.batch_size, s.batch_size * s.entry_size());
    }
    Ok(())
}

fn delete_random(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    let options = write_options(DeleteRandom, s);
    meter.restart();
    while meter.go_on(1) {
        cf.delete_opt(keys.set(rng.below(s.num)), &options)?;
        meter.done(1, s.key_size as u64);
    }
    Ok(())
}

fn delete_ranges(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let (mut begin, mut end) = (Keys::new(s.key_size), Keys::new(s.key_size));
    let options = write_options(DeleteRangeRandom, s);
    let size = s.range_size.min(s.num);
    meter.restart();
    while meter.go_on(1) {
        let first = rng.below(s.num - size + 1);
        cf.delete_range_opt(begin.set(first), end.set(first + size), &options)?;
        meter.done(1, 2 * s.key_size as u64);
    }
    Ok(())
}

fn merge_random(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    let options = write_options(MergeRandom, s);
    let operand = 1u64.to_le_bytes();
    meter.restart();
    while meter.go_on(1) {
        cf.merge_opt(keys.set(rng.below(s.num)), operand, &options)?;
        meter.done(1, (s.key_size + operand.len()) as u64);
    }
    Ok(())
}

/// The families of the benchmarks, made if they are not there.
fn families(cf: &Cf, s: &Settings) -> Result<Vec<Cf>> {
    (1..=s.families)
        .map(|n| {
            let family = FamilyOptions::new(format!("family{n}"))
                .options(cf.options())
                .table_options(cf.table_options());
            cf.db().cf_or_create(family)
        })
        .collect()
}

fn fill_families(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let families = families(cf, s)?;
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(FillFamilies, s);
    let mut batch = WriteBatch::new();
    meter.restart();
    while meter.go_on(s.families) {
        batch.clear();
        let key = keys.set(rng.below(s.num));
        for family in &families {
            batch.put_cf(family.id(), key, values.next());
        }
        cf.db().write_opt(&batch, &options)?;
        meter.done(s.families, s.families * s.entry_size());
    }
    Ok(())
}

fn read_families(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let families = families(cf, s)?;
    let mut keys = Keys::new(s.key_size);
    let options = ReadOptions::new();
    meter.restart();
    while meter.go_on(1) {
        let family = &families[rng.below(s.families) as usize];
        match family.get_opt(keys.set(rng.below(s.num)), &options)? {
            Some(value) => meter.looked_up(1, 1, (s.key_size + value.len()) as u64),
            None => meter.looked_up(1, 0, 0),
        }
    }
    Ok(())
}

fn get_random(
    cf: &Cf,
    s: &Settings,
    mut rng: Rng,
    meter: &mut Meter<'_>,
    missing: bool,
) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    let options = ReadOptions::new();
    meter.restart();
    while meter.go_on(1) {
        let n = rng.below(s.num);
        let key = if missing {
            keys.set_missing(n)
        } else {
            keys.set(n)
        };
        match cf.get_opt(key, &options)? {
            Some(value) => meter.looked_up(1, 1, (s.key_size + value.len()) as u64),
            None => meter.looked_up(1, 0, 0),
        }
    }
    Ok(())
}

fn multi_get(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let per_call = if s.batch_size <= 1 { 32 } else { s.batch_size };
    let mut keys: Vec<Keys> = (0..per_call).map(|_| Keys::new(s.key_size)).collect();
    let options = ReadOptions::new();
    meter.restart();
    while meter.go_on(per_call) {
        let slices: Vec<&[u8]> = keys.iter_mut().map(|k| k.set(rng.below(s.num))).collect();
        let (mut found, mut bytes) = (0, 0);
        for value in cf.multi_get_opt(&slices, &options) {
            if let Some(value) = value? {
                found += 1;
                bytes += (s.key_size + value.len()) as u64;
            }
        }
        meter.looked_up(per_call, found, bytes);
    }
    Ok(())
}

fn seek_random(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    meter.restart();
    while meter.go_on(1) {
        let key = keys.set(rng.below(s.num));
        let mut cursor = cf.cursor(ReadOptions::new());
        let mut on = cursor.seek(key)?;
        let found = u64::from(on && cursor.key() == key);
        let mut bytes = 0;
        for _ in 0..s.seek_nexts {
            if !on {
                break;
            }
            bytes += (cursor.key().len() + cursor.value().len()) as u64;
            on = cursor.next()?;
        }
        drop(cursor);
        meter.looked_up(1, found, bytes);
    }
    Ok(())
}

/// Entries of a scan that are timed together: a clock is slower than a step.
const SCAN_GROUP: u64 = 64;

fn scan(kind: Kind, cf: &Cf, meter: &mut Meter<'_>) -> Result<()> {
    let mut cursor = cf.cursor(ReadOptions::new());
    meter.restart();
    let mut on = if kind == ReadSeq {
        cursor.seek_to_first()?
    } else {
        cursor.seek_to_last()?
    };
    while on && meter.go_on(SCAN_GROUP) {
        let (mut ops, mut bytes) = (0, 0);
        while on && ops < SCAN_GROUP {
            ops += 1;
            bytes += (cursor.key().len() + cursor.value().len()) as u64;
            on = if kind == ReadSeq {
                cursor.next()?
            } else {
                cursor.prev()?
            };
        }
        meter.done(ops, bytes);
    }
    Ok(())
}

fn mixed(cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let (read, write) = (ReadOptions::new(), write_options(ReadRandomWriteRandom, s));
    meter.restart();
    while meter.go_on(1) {
        let key = keys.set(rng.below(s.num));
        if rng.below(100) < s.read_percent {
            match cf.get_opt(key, &read)? {
                Some(value) => meter.looked_up(1, 1, (s.key_size + value.len()) as u64),
                None => meter.looked_up(1, 0, 0),
            }
        } else {
            cf.put_opt(key, values.next(), &write)?;
            meter.done(1, s.entry_size());
        }
    }
    Ok(())
}

/// The writer beside the readers of `readwhilewriting`: puts until told to stop, uncounted.
///
/// # Errors
/// The first of the database.
pub fn write_beside(cf: &Cf, s: &Settings, stop: &std::sync::atomic::AtomicBool) -> Result<u64> {
    let mut rng = Rng::new(s.stream(u64::from(u32::MAX)));
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(Overwrite, s);
    let mut written = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        cf.put_opt(keys.set(rng.below(s.num)), values.next(), &options)?;
        written += 1;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_db_bench() {
        let mut keys = Keys::new(16);
        assert_eq!(keys.set(0x0102), b"\0\0\0\0\0\0\x01\x0200000000");
        assert_eq!(Keys::new(4).set(0x0102), b"\0\0\x01\x02");
        assert_eq!(keys.set_missing(1), b"\0\0\0\0\0\0\0\x010000000.");
        assert_eq!(
            Keys::new(8).set_missing(1),
            b"\xff\xff\xff\xff\xff\xff\xff\xfe"
        );
    }

    #[test]
    fn values_have_their_size_and_differ() {
        let mut values = Values::new(100, 1);
        let a = values.next().to_vec();
        assert_eq!(a.len(), 100);
        assert_ne!(values.next(), a);
        assert_eq!(a[..50], a[50..]);
    }

    #[test]
    fn every_name_is_found() {
        for (name, kind, _) in ALL {
            assert_eq!(Kind::from_name(name), Some(*kind));
        }
        assert_eq!(Kind::from_name("mixed"), Some(ReadRandomWriteRandom));
        assert_eq!(Kind::from_name("fill"), None);
    }
}
