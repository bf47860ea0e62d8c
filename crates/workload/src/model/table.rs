//! The model itself, made of an observation.

use super::content::Content;
use super::curves::{self, Curve};
use super::firsts::{Classes, Collected};
use super::observe::{Counted, FamilyObservation, OPS, Observation};
use super::shape::{Shape, Sizes};
use super::stored::{Positions, StoredModel};
use crate::analyze::Operation;
use crate::fit::{pearson, spearman};
use std::collections::BTreeMap;

/// Ranges of keys at most.
const RANGES: usize = 256;
/// Keys of a range at least.
const RANGE_KEYS: usize = 16;
/// Parts of time in which keys are accessed first.
pub(super) const TIMES: usize = 16;
/// Classes of ranges by the mean number of accesses of a key.
pub(super) const CLASSES: usize = 6;
/// Classes of keys by their number of accesses, for how long they are of interest.
pub(super) const SPANS: usize = 4;
/// A correlation from which on two variables are drawn together.
pub(super) const RELATED: f64 = 0.1;
/// Keys that are looked at for the size of groups, and distances up to two to this power.
const GROUP_KEYS: usize = 200_000;
const GROUP_LAGS: u32 = 14;
/// Neighbours are alike from this correlation of their accesses on.
const ADJACENT: f64 = 0.3;

/// An operation on a family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationModel {
    /// Accesses.
    pub accesses: u64,
    /// Keys.
    pub keys: u64,
    /// Accesses of a key, in ranges of the class: those whose keys have up to 1.5, 3, 10, 30, 100, more on average.
    pub counts: [Shape; CLASSES],
    /// Millionths of the trace between the first and the last access of a key that has 2 to 3, 4 to 15, 16 to 63, more.
    pub spans: [Shape; SPANS],
    /// Billionths of the trace up to the first access of a key that has 1 access, 2 or 3, 4 to 7, and so on; empty in models that
    /// were made before this was looked at.
    pub firsts: Classes,
    /// The operation that most of its keys are shared with, by its id, and the share of keys.
    pub shared: Option<(usize, f64)>,
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
    /// Of each operation: first accesses in parts of the trace's time.
    pub times: BTreeMap<usize, [u64; TIMES]>,
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
    /// Share of the bytes of a key after its eighth that differ from those of its neighbour as bytes drawn by chance do.
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
    /// Where accessed keys stand among all.
    pub positions: Positions,
    /// In the order of the keys.
    pub ranges: Vec<RangeModel>,
    /// Hot keys of a range lie together.
    pub is_adjacent: bool,
    /// In groups of about so many keys; 0 if that is not known, and all of a range do.
    pub group: u64,
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

pub(super) fn class_of(mean: f64) -> usize {
    let limits = [1.5, 3.0, 10.0, 30.0, 100.0];
    limits
        .iter()
        .position(|&l| mean <= l)
        .unwrap_or(CLASSES - 1)
}

pub(super) fn span_class(count: u32) -> usize {
    match count {
        0..=3 => 0,
        4..=15 => 1,
        16..=63 => 2,
        _ => 3,
    }
}

impl Model {
    /// The model of what was observed.
    pub fn of(seen: &Observation) -> Self {
        let span = seen.span_micros.max(1);
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
    let mut ranges = Vec::new();
    let mut operations: BTreeMap<usize, OperationModel> = BTreeMap::new();
    let mut counts: BTreeMap<usize, Vec<Sizes>> = BTreeMap::new();
    let mut spans: BTreeMap<usize, Vec<Sizes>> = BTreeMap::new();
    let mut firsts: BTreeMap<usize, Collected> = BTreeMap::new();
    let up = |n: u64| (n as f64 * scale).round() as u64;
    for (at, chunk) in keys.chunks(width).enumerate() {
        let mut range = RangeModel {
            keys: up(chunk.len() as u64),
            cold: up(cold_of(f, at * width, chunk.len())),
            ..RangeModel::default()
        };
        for op in 0..OPS {
            let of = chunk.iter().filter(|k| k.counts[op] > 0);
            let accesses: u64 = of.clone().map(|k| u64::from(k.counts[op])).sum();
            let distinct = of.clone().count() as u64;
            if distinct == 0 {
                continue;
            }
            range.accessed.insert(op, (up(distinct), up(accesses)));
            let class = class_of(accesses as f64 / distinct as f64);
            let of_class = counts
                .entry(op)
                .or_insert_with(|| vec![Sizes::default(); CLASSES]);
            let of_span = spans
                .entry(op)
                .or_insert_with(|| vec![Sizes::default(); SPANS]);
            let mut times = [0; TIMES];
            let of_first = firsts.entry(op).or_default();
            for key in of {
                of_first.add(key.counts[op], key.first[op], span);
                of_class[class].add(u64::from(key.counts[op]), 1);
                let at = key.first[op].saturating_mul(TIMES as u64) / (span + 1);
                times[(at as usize).min(TIMES - 1)] += 1;
                if key.counts[op] > 1 {
                    let lasts = key.last[op].saturating_sub(key.first[op]);
                    let share = (lasts as f64 / span as f64 * 1e6) as u64;
                    of_span[span_class(key.counts[op])].add(share, 1);
                }
            }
            range.times.insert(op, times);
        }
        ranges.push(range);
    }
    for op in 0..OPS {
        if f.accesses[op] == 0 {
            continue;
        }
        let distinct = keys.iter().filter(|k| k.counts[op] > 0).count();
        let shapes = |all: Option<&Vec<Sizes>>, at: usize| {
            all.and_then(|a| a.get(at))
                .map_or_else(Shape::default, Shape::of)
        };
        operations.insert(
            op,
            OperationModel {
                accesses: f.accesses[op],
                keys: up(distinct as u64),
                counts: std::array::from_fn(|at| shapes(counts.get(&op), at)),
                spans: std::array::from_fn(|at| shapes(spans.get(&op), at)),
                firsts: firsts.remove(&op).unwrap_or_default().classes(),
                shared: shared(&keys, op, distinct),
            },
        );
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
    let (correlations, is_adjacent) = correlations(f, &keys);
    let group = match is_adjacent {
        true => group(&keys),
        false => 0,
    };
    let related = correlations
        .get("key size, value size")
        .is_some_and(|c| c.0.abs() >= RELATED || c.1.abs() >= RELATED);
    FamilyModel {
        keys: up(keys.len() as u64),
        operations,
        key_sizes: Shape::of(&f.key_sizes),
        key_noise: key_noise(f),
        value_sizes: value_sizes(f, related),
        contents: f.values.contents(),
        scan_lengths: Shape::of(&f.scan_lengths),
        absent,
        stored: f.stored.as_ref().map(StoredModel::of),
        positions: Positions::of(&ranges),
        curves: curves::of_family(f, &ranges),
        ranges,
        is_adjacent,
        group: up(group),
        correlations,
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

/// The operation of smaller id, or of more keys, that shares most keys with one.
fn shared(keys: &[&Counted], op: usize, distinct: usize) -> Option<(usize, f64)> {
    let best = (0..op)
        .map(|other| {
            let both = keys
                .iter()
                .filter(|k| k.counts[op] > 0 && k.counts[other] > 0);
            (other, both.count())
        })
        .max_by_key(|&(_, both)| both)?;
    Some((best.0, best.1 as f64 / distinct.max(1) as f64)).filter(|s| s.1 > 0.0)
}

fn correlations(f: &FamilyObservation, keys: &[&Counted]) -> (BTreeMap<String, (f64, f64)>, bool) {
    let mut all = BTreeMap::new();
    let mut note = |name: &str, pairs: &[(f64, f64)]| {
        let both = (pearson(pairs), spearman(pairs));
        all.insert(name.to_string(), both);
        both
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
    let (r, _) = note(
        "accesses, accesses of the next key",
        &next.collect::<Vec<_>>(),
    );
    (all, r >= ADJACENT)
}

/// How many keys lie together that are accessed about as often: twice the distance at which the correlation of their accesses has
/// come down to half of that of neighbours, since in groups of *n* keys it falls by an *n*th with each key. 0 if it does not come
/// down.
fn group(keys: &[&Counted]) -> u64 {
    let logs: Vec<f64> = keys
        .iter()
        .take(GROUP_KEYS)
        .map(|k| (k.total() as f64).ln())
        .collect();
    let at = |lag: usize| {
        let pairs = logs.iter().zip(logs.iter().skip(lag));
        pearson(&pairs.map(|(a, b)| (*a, *b)).collect::<Vec<_>>())
    };
    let next = at(1);
    let mut before = (1, next);
    for lag in (1..=GROUP_LAGS)
        .map(|power| 1 << power)
        .take_while(|lag| 4 * lag < logs.len())
    {
        let here = at(lag);
        if here < next / 2.0 {
            let part = (before.1 - next / 2.0) / (before.1 - here).max(1e-9);
            return (2.0 * (before.0 as f64 + part * (lag - before.0) as f64)).round() as u64;
        }
        before = (lag, here);
    }
    0
}

/// How much of a key, after the bytes that say which it is, is not as in the key before it.
fn key_noise(f: &FamilyObservation) -> f64 {
    const ID: usize = 8;
    // Of 16 letters drawn by chance one is the neighbour's.
    const BY_CHANCE: f64 = 15.0 / 16.0;
    let (mut differ, mut all) = (0_u64, 0_u64);
    let mut before = Vec::new();
    for (key, _) in f.keys.iter().take(100_000) {
        let pairs = key.iter().zip(&before).skip(ID);
        for (a, b) in pairs {
            differ += u64::from(a != b);
            all += 1;
        }
        before = key;
    }
    match all {
        0 => 1.0,
        _ => (differ as f64 / all as f64 / BY_CHANCE).min(1.0),
    }
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
