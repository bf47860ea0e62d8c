//! The model itself, made of an observation.

use super::content::Content;
use super::coupled::Coupled;
use super::curves::{self, Curve};
use super::firsts::{Classes, Collected};
use super::observe::{Counted, FamilyObservation, OPS, Observation};
use super::ranges::{self, CountBin, Mask, Nearness, Part};
use super::shape::{Shape, Sizes};
use super::spans::{self, Spans};
use super::stored::{Positions, StoredModel};
use super::together::{Together, is_closer};
use crate::analyze::Operation;
use crate::fit::{pearson, spearman};
use std::collections::BTreeMap;

/// Ranges of keys at most.
const RANGES: usize = 1024;
/// Keys of a range at least.
const RANGE_KEYS: usize = 16;
/// Bytes that say at most which key it is.
pub(super) const KEY_ID: usize = 8;
/// Parts of time in which keys are accessed first.
pub(super) const TIMES: usize = 16;
/// A correlation from which on two variables are drawn together.
pub(super) const RELATED: f64 = 0.1;
/// Neighbours are alike from this correlation of their accesses on.
const ADJACENT: f64 = 0.3;

/// An operation on a family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationModel {
    /// Accesses.
    pub accesses: u64,
    /// Keys.
    pub keys: u64,
    /// Accesses of a key.
    pub counts: Shape,
    /// For how long keys are of interest, by number of accesses and beginning.
    pub(super) spans: Spans,
    /// Billionths of the trace up to the first access of a key that has 1 access, 2 or 3, 4 to 7, and so on.
    pub firsts: Classes,
    /// How its keys lie beside each other.
    pub nearness: Nearness,
}

/// Consecutive keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeModel {
    /// How many are accessed.
    pub keys: u64,
    /// How many lie between them and are not.
    pub cold: u64,
    /// Of each operation: keys and accesses.
    pub accessed: BTreeMap<usize, (u64, u64)>,
    /// Keys that are concerned by exactly these operations.
    pub parts: BTreeMap<Mask, Part>,
    /// Those that concern its first and its last key.
    pub ends: Option<(Mask, Mask)>,
    /// Of each operation: how many keys are accessed about how often.
    pub counts: BTreeMap<usize, Vec<CountBin>>,
    /// Of each operation: how much accesses of a key rise with its place, from -1 to 1.
    pub tilts: BTreeMap<usize, f64>,
    /// Of each operation: first accesses in parts of the trace's time.
    pub times: BTreeMap<usize, [u64; TIMES]>,
    /// The same for first accesses by any operation; of models whose operations have their times alone, none.
    pub begins: Option<[u64; TIMES]>,
}

/// A column family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FamilyModel {
    /// Keys that were accessed.
    pub keys: u64,
    /// By id of the operation.
    pub operations: BTreeMap<usize, OperationModel>,
    /// Bytes of a key.
    pub key_sizes: Shape,
    /// So many bytes say which key it is, 1 to 8: neighbours have all but the last of them in common, as those observed have.
    pub key_id: u64,
    /// Share of the bytes of a key after these that differ from those of its neighbour as bytes drawn by chance do.
    pub key_noise: f64,
    /// Bytes of a value, by class of key size: up to so many bytes.
    pub value_sizes: Vec<(u64, Shape)>,
    /// How well values compress, by class of size; empty if nothing is known.
    pub contents: Vec<Content>,
    /// Steps after a seek; empty if nothing is known.
    pub scan_lengths: Shape,
    /// Share of the keys that were not there: of those of gets, or of all if a checkpoint was looked at.
    pub absent: f64,
    /// Keys and values that the database held before the first request, if a checkpoint was looked at.
    pub stored: Option<StoredModel>,
    /// When keys are accessed by all operations, if these belong together.
    pub(super) together: Option<Together>,
    /// Where accessed keys stand among all.
    pub positions: Positions,
    /// In the order of the keys.
    pub ranges: Vec<RangeModel>,
    /// Of keys of the same operations: where they stand among those of the operation of most keys, by accesses.
    pub ranks: BTreeMap<Mask, f64>,
    /// Pearson's r and Spearman's ρ of pairs of variables.
    pub correlations: BTreeMap<String, (f64, f64)>,
    /// Curves that come close to the tables, by variable.
    pub curves: BTreeMap<String, Curve>,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// By id.
    pub families: BTreeMap<u32, FamilyModel>,
    /// Entries of a write.
    pub batch_sizes: Shape,
    /// Keys of a multi-get.
    pub multi_get_sizes: Shape,
    /// Seconds that the requests took.
    pub seconds: f64,
    /// Requests.
    pub requests: u64,
    /// Requests in equal parts of that time.
    pub rate: Vec<u64>,
    /// Curves through the rate.
    pub rate_curve: Option<Curve>,
    /// Of so many keys one was looked at.
    pub keys_kept_one_of: f64,
}

impl Model {
    /// The model of what was observed.
    pub fn of(seen: &Observation) -> Self {
        let span = seen.requests.max(1);
        let families = seen
            .families
            .iter()
            .map(|(&cf, f)| (cf, family(f, seen, span)))
            .collect();
        Self {
            families,
            batch_sizes: Shape::of(&seen.batch_sizes),
            multi_get_sizes: Shape::of(&seen.multi_get_sizes),
            seconds: seen.span_micros as f64 / 1e6,
            requests: seen.requests,
            rate: seen.slots.clone(),
            rate_curve: curves::rate(&seen.slots, seen.span_micros as f64 / 1e6),
            keys_kept_one_of: seen.keys_kept_one_of,
        }
    }
}

fn family(f: &FamilyObservation, seen: &Observation, span: u64) -> FamilyModel {
    let scale = seen.keys_kept_one_of.max(1.0);
    let keys: Vec<&Counted> = f.keys.values().collect();
    let many = (keys.len() / RANGE_KEYS).clamp(1, RANGES);
    let width = keys.len().div_ceil(many).max(1);
    let chunks: Vec<&[&Counted]> = keys.chunks(width).collect();
    let up = |n: u64| (n as f64 * scale).round() as u64;
    let of_range = |(at, chunk): (usize, &&[&Counted])| {
        let cold = up(cold_of(f, at * width, chunk.len()));
        range(chunk, cold, span, scale)
    };
    let mut ranges: Vec<RangeModel> = chunks.iter().enumerate().map(of_range).collect();
    let main = main_of(&ranges);
    let mut operations: BTreeMap<usize, OperationModel> = BTreeMap::new();
    for op in (0..OPS).filter(|&op| f.accesses[op] > 0) {
        let nearness = ranges::nearness(&chunks, op, main);
        let nearness = Nearness {
            group: up(nearness.group),
            ..nearness
        };
        operations.insert(op, operation(f, &keys, (op, nearness), span, &up));
    }
    let gets: Vec<_> = keys
        .iter()
        .filter(|k| k.counts[Operation::Get.id()] > 0)
        .collect();
    let looked_at: &[&&Counted] = &match f.stored {
        None => gets,
        Some(_) => keys.iter().collect(),
    };
    let absent = looked_at.iter().filter(|k| k.is_absent).count() as f64;
    let absent = absent / (looked_at.len() as f64).max(1.0);
    let together = Together::of(f.keys.histories(), span)
        .filter(|t| is_closer(t, &operations, f.keys.histories(), span));
    let together = together.map(|t| Together {
        coupled: Coupled::of(&keys, main),
        ..t
    });
    if together.is_some() {
        for (range, chunk) in ranges.iter_mut().zip(&chunks) {
            range.begins = Some(begins(chunk, span));
        }
    }
    let (key_id, key_noise) = key_bytes(f, seen.keys_kept_one_of > 1.0 || f.stored.is_some());
    let correlations = correlations(f, &keys);
    let related = correlations
        .get("key size, value size")
        .is_some_and(|c| c.0.abs() >= RELATED || c.1.abs() >= RELATED);
    FamilyModel {
        keys: ranges.iter().map(|r| r.keys).sum(),
        operations,
        key_sizes: Shape::of(&f.key_sizes),
        key_id,
        key_noise,
        value_sizes: value_sizes(f, related),
        contents: f.values.contents(),
        scan_lengths: Shape::of(&f.scan_lengths),
        absent,
        stored: f.stored.as_ref().map(StoredModel::of),
        together,
        positions: Positions::of(&ranges),
        curves: curves::of_family(f, &ranges),
        ranges,
        ranks: ranges::ranks(&chunks, main),
        correlations,
    }
}

impl FamilyModel {
    /// Returns whether hot keys of a range lie together.
    pub fn is_adjacent(&self) -> bool {
        let most = self.operations.values().max_by_key(|o| o.accesses);
        most.is_some_and(|o| o.nearness.together >= ADJACENT)
    }
}

/// Consecutive keys.
fn range(chunk: &[&Counted], cold: u64, span: u64, scale: f64) -> RangeModel {
    let up = |n: u64| (n as f64 * scale).round() as u64;
    let parts = ranges::parts(chunk).into_iter();
    let parts = parts.map(|(mask, part)| (mask, part.of_sample(scale)));
    let parts: BTreeMap<Mask, Part> = parts.collect();
    let mut range = RangeModel {
        keys: parts.values().map(|p| p.keys).sum(),
        cold,
        parts,
        ends: chunk
            .first()
            .zip(chunk.last())
            .map(|(first, last)| (ranges::mask_of(first), ranges::mask_of(last))),
        ..RangeModel::default()
    };
    for op in 0..OPS {
        let of_op = || chunk.iter().filter(|k| k.counts[op] > 0);
        let distinct = of_op().count() as u64;
        if distinct == 0 {
            continue;
        }
        let accesses = of_op().map(|k| u64::from(k.counts[op])).sum();
        range.accessed.insert(op, (up(distinct), up(accesses)));
        let bins = ranges::count_bins(chunk, op).into_iter();
        let bins = bins.map(|b| CountBin {
            keys: up(b.keys),
            accesses: up(b.accesses),
            ..b
        });
        range.counts.insert(op, bins.collect());
        range.tilts.insert(op, ranges::tilt(chunk, op));
        range
            .times
            .insert(op, in_parts(of_op().map(|k| k.first[op]), span));
    }
    range
}

/// How many of these times lie in each part of the trace.
fn in_parts(times: impl Iterator<Item = u64>, span: u64) -> [u64; TIMES] {
    let mut parts = [0; TIMES];
    for at in times {
        let part = at.saturating_mul(TIMES as u64) / (span + 1);
        parts[(part as usize).min(TIMES - 1)] += 1;
    }
    parts
}

/// First accesses of keys by any operation in parts of the trace.
fn begins(chunk: &[&Counted], span: u64) -> [u64; TIMES] {
    let first = |key: &&Counted| {
        let of_op = (0..OPS).filter(|&op| key.counts[op] > 0);
        of_op.map(|op| key.first[op]).min().unwrap_or(0)
    };
    in_parts(chunk.iter().map(first), span)
}

/// The operation that concerns most keys.
pub(super) fn main_of(ranges: &[RangeModel]) -> usize {
    let mut keys = [0_u64; OPS];
    for (&op, &(distinct, _)) in ranges.iter().flat_map(|r| &r.accessed) {
        keys[op] = keys[op].saturating_add(distinct);
    }
    (0..OPS).max_by_key(|&op| (keys[op], OPS - op)).unwrap_or(0)
}

fn operation(
    f: &FamilyObservation,
    keys: &[&Counted],
    (op, nearness): (usize, Nearness),
    span: u64,
    up: &dyn Fn(u64) -> u64,
) -> OperationModel {
    let (mut firsts, mut spans) = (Collected::default(), spans::Collected::default());
    let (mut counts, mut distinct) = (Sizes::default(), 0);
    let part = |at: u64| at as f64 / span as f64;
    for key in keys.iter().filter(|k| k.counts[op] > 0) {
        distinct += 1;
        counts.add(u64::from(key.counts[op]), 1);
        firsts.add(key.counts[op], key.first[op], span);
        if key.counts[op] > 1 {
            spans.add(key.counts[op], part(key.first[op]), part(key.last[op]));
        }
    }
    OperationModel {
        accesses: f.accesses[op],
        keys: up(distinct),
        counts: Shape::of(&counts),
        spans: spans.spans(),
        firsts: firsts.classes(),
        nearness,
    }
}

/// Keys that are not accessed before each of so many accessed ones, and after the last of all.
fn cold_of(f: &FamilyObservation, from: usize, many: usize) -> u64 {
    let Some(stored) = &f.stored else { return 0 };
    let to = match from + many == f.keys.len() {
        true => stored.cold.len(),
        false => from + many,
    };
    let cold = stored.cold.get(from..to).unwrap_or_default();
    cold.iter().map(|&n| u64::from(n)).sum()
}

fn correlations(f: &FamilyObservation, keys: &[&Counted]) -> BTreeMap<String, (f64, f64)> {
    let mut all = BTreeMap::new();
    let mut note = |name: &str, pairs: &[(f64, f64)]| {
        all.insert(name.to_string(), (pearson(pairs), spearman(pairs)));
    };
    note("key size, value size", &f.pairs);
    let step = (keys.len() / 50_000).max(1);
    let sizes = keys.iter().enumerate().step_by(step);
    let sizes: Vec<(f64, f64)> = sizes
        .map(|(at, c)| (f.keys.key_len(at) as f64, c.total() as f64))
        .collect();
    note("key size, accesses", &sizes);
    let place = keys.iter().enumerate().step_by(step);
    let place: Vec<(f64, f64)> = place.map(|(at, c)| (at as f64, c.total() as f64)).collect();
    note("place of the key, accesses", &place);
    let log = |c: &Counted| (c.total() as f64).ln();
    let next = keys
        .windows(2)
        .take(200_000)
        .map(|w| (log(w[0]), log(w[1])));
    note(
        "accesses, accesses of the next key",
        &next.collect::<Vec<_>>(),
    );
    all
}

/// In how many bytes keys say which they are, as far as neighbours have the same ones before; and how much of a key after them is
/// not as in the key before it. Neighbours among a sample, or with others between them, are none.
fn key_bytes(f: &FamilyObservation, is_sample: bool) -> (u64, f64) {
    // Of 16 letters drawn by chance one is the neighbour's.
    const BY_CHANCE: f64 = 15.0 / 16.0;
    // By place; all from the last one on are counted together.
    let (mut differ, mut all) = ([0_u64; KEY_ID + 1], [0_u64; KEY_ID + 1]);
    let (mut shared, mut keys) = (0_u64, 0_u64);
    let mut before = Vec::new();
    for (key, _) in f.keys.iter().take(100_000) {
        let differs = |(a, b): (&u8, &u8)| a != b;
        for (at, pair) in key.iter().zip(&before).enumerate() {
            differ[at.min(KEY_ID)] += u64::from(differs(pair));
            all[at.min(KEY_ID)] += 1;
        }
        if !before.is_empty() {
            let same = key.iter().zip(&before).take_while(|pair| !differs(*pair));
            shared += same.count() as u64;
            keys += 1;
        }
        before = key;
    }
    // Numbers that follow each other differ in their last byte.
    let id = match (keys, is_sample) {
        (0, _) | (_, true) => KEY_ID as u64,
        _ => (shared as f64 / keys as f64).round() as u64 + 1,
    };
    let id = id.clamp(1, KEY_ID as u64);
    let after = |of: &[u64]| of.iter().skip(id as usize).sum::<u64>() as f64;
    let noise = match after(&all) {
        0.0 => 1.0,
        all => (after(&differ) / all / BY_CHANCE).min(1.0),
    };
    (id, noise)
}

/// Value sizes; by classes of key sizes if these have to do with each other.
fn value_sizes(f: &FamilyObservation, related: bool) -> Vec<(u64, Shape)> {
    if !related || f.pairs.is_empty() {
        return vec![(u64::MAX, Shape::of(&f.value_sizes))];
    }
    let mut pairs = f.pairs.clone();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut classes = Vec::new();
    let mut from = 0;
    while from < pairs.len() {
        let mut to = (from + pairs.len().div_ceil(4)).min(pairs.len());
        // Keys of one size stay together.
        while to < pairs.len() && pairs[to].0 == pairs[to - 1].0 {
            to += 1;
        }
        let mut sizes = Sizes::default();
        pairs[from..to]
            .iter()
            .for_each(|p| sizes.add(p.1 as u64, 1));
        let limit = match to == pairs.len() {
            true => u64::MAX,
            false => pairs[to - 1].0 as u64,
        };
        classes.push((limit, Shape::of(&sizes)));
        from = to;
    }
    classes
}
