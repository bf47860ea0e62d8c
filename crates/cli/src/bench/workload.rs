//! Describes what one thread does in each of db_bench's benchmarks.

use super::kind::Kind;
use super::outstanding;
use super::settings::Settings;
use super::ycsb;
use spanlith::{Cf, FamilyOptions, ReadOptions, Result, WriteBatch, WriteOptions};
use spanlith_workload::generate::{Keys, Rng, Shuffle, Values};
use spanlith_workload::measure::Meter;

use Kind::{
    DeleteRandom, DeleteRangeRandom, FillBatch, FillFamilies, FillSync, MergeRandom, Overwrite,
    ReadRandomWriteRandom, ReadSeq,
};

/// Returns what one thread does.
///
/// # Errors
/// The first of the database.
pub fn run(kind: Kind, cf: &Cf, s: &Settings, thread: u64, meter: &mut Meter<'_>) -> Result<()> {
    let rng = Rng::new(s.stream(thread));
    if s.outstanding > 1 {
        return match kind {
            Kind::ReadRandom => outstanding::get_random(cf, s, rng, meter, Pick::All),
            Kind::ReadHot => outstanding::get_random(cf, s, rng, meter, Pick::Hot),
            Kind::ReadMissing => outstanding::get_random(cf, s, rng, meter, Pick::Missing),
            kind => outstanding::put_random(kind, cf, s, rng, meter),
        };
    }
    match kind {
        Kind::FillSeq | FillBatch => fill_in_order(kind, cf, s, thread, meter),
        Kind::FillUniqueRandom => fill_once(cf, s, thread, meter),
        Kind::FillRandom | FillSync | Overwrite => put_random(kind, cf, s, rng, meter),
        Kind::Fill100K => put_random(kind, cf, &s.with_value_size(100_000), rng, meter),
        Kind::UpdateRandom => rewrite(kind, cf, s, rng, meter),
        Kind::AppendRandom => rewrite(kind, cf, s, rng, meter),
        Kind::DeleteSeq => delete_in_order(cf, s, thread, meter),
        DeleteRandom => delete_random(cf, s, rng, meter),
        DeleteRangeRandom => delete_ranges(cf, s, rng, meter),
        MergeRandom => merge_random(cf, s, rng, meter),
        FillFamilies => fill_families(cf, s, rng, meter),
        Kind::ReadFamilies => read_families(cf, s, rng, meter),
        Kind::ReadRandom | Kind::ReadWhileWriting | Kind::ReadWhileMerging => {
            get_random(cf, s, rng, meter, Pick::All)
        }
        Kind::ReadHot => get_random(cf, s, rng, meter, Pick::Hot),
        Kind::ReadMissing => get_random(cf, s, rng, meter, Pick::Missing),
        Kind::MultiReadRandom => multi_get(cf, s, rng, meter),
        Kind::SeekRandom | Kind::SeekRandomWhileWriting | Kind::SeekRandomWhileMerging => {
            seek_random(cf, s, rng, meter)
        }
        ReadSeq | Kind::ReadReverse => scan(kind, cf, meter),
        ReadRandomWriteRandom => mixed(cf, s, rng, meter),
        _ if kind.is_ycsb() => ycsb::run(kind, cf, s, thread, rng, meter),
        _ => Ok(()),
    }
}

/// The share of the key space that a thread walks through.
fn share(s: &Settings, thread: u64) -> std::ops::Range<u64> {
    let begin = |n: u64| (u128::from(s.num) * u128::from(n) / u128::from(s.threads)) as u64;
    begin(thread)..begin(thread + 1)
}

/// How a benchmark writes.
pub fn write_options(kind: Kind, s: &Settings) -> WriteOptions {
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
    let std::ops::Range {
        start: mut next,
        end,
    } = share(s, thread);
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

fn fill_once(cf: &Cf, s: &Settings, thread: u64, meter: &mut Meter<'_>) -> Result<()> {
    let shuffle = Shuffle::new(s.num, s.seed);
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(Kind::FillUniqueRandom, s);
    meter.restart();
    for n in share(s, thread) {
        if !meter.go_on(1) {
            break;
        }
        cf.put_opt(keys.set(shuffle.place(n)), values.next(), &options)?;
        meter.done(1, s.entry_size());
    }
    Ok(())
}

/// Gets a random key and puts it again: a new value, or the old one and a new one after it.
fn rewrite(kind: Kind, cf: &Cf, s: &Settings, mut rng: Rng, meter: &mut Meter<'_>) -> Result<()> {
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let (read, write) = (ReadOptions::new(), write_options(kind, s));
    let mut whole = Vec::new();
    meter.restart();
    while meter.go_on(1) {
        let key = keys.set(rng.below(s.num));
        whole.clear();
        let mut bytes = 0;
        let old = cf.get_opt(key, &read)?;
        if let Some(old) = &old {
            bytes += key.len() + old.len();
            if kind == Kind::AppendRandom {
                whole.extend_from_slice(old);
            }
        }
        whole.extend_from_slice(values.next());
        cf.put_opt(key, &whole, &write)?;
        bytes += key.len() + whole.len();
        meter.looked_up(1, u64::from(old.is_some()), bytes as u64);
    }
    Ok(())
}

fn delete_in_order(cf: &Cf, s: &Settings, thread: u64, meter: &mut Meter<'_>) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    let options = write_options(Kind::DeleteSeq, s);
    meter.restart();
    for n in share(s, thread) {
        if !meter.go_on(1) {
            break;
        }
        cf.delete_opt(keys.set(n), &options)?;
        meter.done(1, s.key_size as u64);
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
            batch.put_cf(family, key, values.next());
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

/// Which keys are got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    All,
    /// The first hundredth.
    Hot,
    Missing,
}

impl Pick {
    /// Numbers of keys that are asked for.
    pub fn range(self, s: &Settings) -> u64 {
        match self {
            Self::Hot => s.num.div_ceil(100),
            Self::All | Self::Missing => s.num,
        }
    }

    /// The key of a number.
    pub fn key(self, keys: &mut Keys, n: u64) -> &[u8] {
        match self {
            Self::Missing => keys.set_missing(n),
            Self::All | Self::Hot => keys.set(n),
        }
    }
}

fn get_random(
    cf: &Cf,
    s: &Settings,
    mut rng: Rng,
    meter: &mut Meter<'_>,
    pick: Pick,
) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    let options = ReadOptions::new();
    meter.restart();
    let range = pick.range(s);
    while meter.go_on(1) {
        let key = pick.key(&mut keys, rng.below(range));
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
            meter.part("get");
            match cf.get_opt(key, &read)? {
                Some(value) => meter.looked_up(1, 1, (s.key_size + value.len()) as u64),
                None => meter.looked_up(1, 0, 0),
            }
        } else {
            meter.part("put");
            cf.put_opt(key, values.next(), &write)?;
            meter.done(1, s.entry_size());
        }
    }
    Ok(())
}

/// Returns what the writer beside the readers does, in some benchmarks.
pub fn beside(kind: Kind) -> Option<Beside> {
    match kind {
        Kind::ReadWhileWriting | Kind::SeekRandomWhileWriting => Some(Beside::Puts),
        Kind::ReadWhileMerging | Kind::SeekRandomWhileMerging => Some(Beside::Merges),
        _ => None,
    }
}

/// Puts or merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Puts,
    Merges,
}

/// The writer beside the readers: writes until told to stop, uncounted.
///
/// # Errors
/// The first of the database.
pub fn write_beside(
    what: Beside,
    cf: &Cf,
    s: &Settings,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<u64> {
    let mut rng = Rng::new(s.stream(u64::from(u32::MAX)));
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(Overwrite, s);
    let mut written = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let key = keys.set(rng.below(s.num));
        match what {
            Beside::Puts => cf.put_opt(key, values.next(), &options)?,
            Beside::Merges => cf.merge_opt(key, 1_u64.to_le_bytes(), &options)?,
        }
        written += 1;
    }
    Ok(written)
}
