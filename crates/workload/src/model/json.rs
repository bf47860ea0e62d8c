//! Models as JSON: `model.json`.
//!
//! Curves are written for people and not read back. What is read is checked, since such files come from strangers:
//! a number that is missing, no number, or impossible is an error that names its path.

use super::content::Content;
use super::curves::Curve;
use super::firsts::{Classes, FIRSTS, WHOLE};
use super::json_together::{together, together_json};
use super::ranges::{BINS, CountBin, Mask, Nearness, Part};
use super::shape::Shape;
use super::spans::SPANS;
use super::stored::{Positions, StoredModel};
use super::table::{FamilyModel, KEY_ID, Model, OperationModel, RangeModel, TIMES};
use crate::analyze::Operation;
use crate::fit::Fit;
use serde_json::{Map, Value, json};
use spanlith_base::{Error, Result};
use std::collections::BTreeMap;

/// Says what the file says it is.
const FORMAT: &str = "spanlith-model-3";
/// Says what files from before say they are; they lack what they lack.
const FORMAT_BEFORE: &str = "spanlith-model-2";
/// Ranges, families, slots and spikes at most; keys at most.
const LIST_MAX: usize = 100_000;
const KEYS_MAX: u64 = 1 << 40;

impl Model {
    /// As JSON, without a byte of a key or value.
    pub fn to_json(&self) -> Value {
        let families: Map<String, Value> = self
            .families
            .iter()
            .map(|(cf, f)| (cf.to_string(), family_json(f)))
            .collect();
        json!({
            "format": FORMAT,
            "seconds": self.seconds,
            "requests": self.requests,
            "rate": self.rate,
            "rate_curve": self.rate_curve.as_ref().map(curve_json),
            "batch_sizes": shape_json(&self.batch_sizes),
            "multi_get_sizes": shape_json(&self.multi_get_sizes),
            "keys_kept_one_of": self.keys_kept_one_of,
            "families": families,
        })
    }

    /// Reads what [`Self::to_json`] wrote; curves are left out.
    ///
    /// # Errors
    /// `InvalidArgument` that names what is missing or impossible.
    pub fn from_json(value: &Value) -> Result<Self> {
        let at = At {
            value,
            path: String::new(),
        };
        match value.get("format").and_then(Value::as_str) {
            Some(FORMAT | FORMAT_BEFORE) => {}
            _ => return Err(wrong("format", &format!("not {FORMAT:?}"))),
        }
        let mut families = BTreeMap::new();
        for (name, f) in at.field("families").object()? {
            let cf = name
                .parse()
                .map_err(|_| wrong(&f.path, "no id of a family"))?;
            families.insert(cf, family(&f)?);
        }
        Ok(Self {
            families,
            batch_sizes: shape(&at.field("batch_sizes"))?,
            multi_get_sizes: shape(&at.field("multi_get_sizes"))?,
            seconds: at.field("seconds").number(0.0, 1e12)?,
            requests: at.field("requests").whole(u64::MAX)?,
            rate: at.field("rate").wholes(LIST_MAX)?,
            rate_curve: None,
            keys_kept_one_of: at.field("keys_kept_one_of").number(1.0, 1e12)?,
        })
    }
}

pub(super) fn shape_json(s: &Shape) -> Value {
    json!({ "spikes": s.spikes, "quantiles": s.quantiles })
}

fn fit_json(f: &Fit) -> Value {
    json!({ "family": f.family.name(), "parameters": f.parameters, "fse": f.fse, "r2": f.r2,
            "largest_distance": f.largest })
}

fn curve_json(c: &Curve) -> Value {
    json!({ "closest": fit_json(&c.fit), "next": c.next.as_ref().map(fit_json) })
}

pub(super) fn name_of(op: usize) -> &'static str {
    Operation::ALL.get(op).map_or("unknown", |o| o.name())
}

fn mask_name(mask: Mask) -> String {
    let ids = (0..Operation::ALL.len()).filter(|op| mask >> op & 1 == 1);
    ids.map(name_of).collect::<Vec<_>>().join("+")
}

/// Operations with a plus between them, and what belongs to them.
pub(super) fn masks_json<T: Clone + Into<Value>>(all: &BTreeMap<Mask, T>) -> Map<String, Value> {
    let value = |(&mask, value): (&Mask, &T)| (mask_name(mask), value.clone().into());
    all.iter().map(value).collect()
}

fn content_json(c: &Content) -> Value {
    let limit = (c.bytes_max != u64::MAX).then_some(c.bytes_max);
    json!({ "value_bytes_max": limit, "entropy_bits": c.entropy, "lz4_leaves": c.left, "drawn": c.drawn,
            "symbols": c.symbols })
}

fn stored_json(s: &StoredModel) -> Value {
    json!({ "keys": s.keys, "key_sizes": shape_json(&s.key_sizes), "value_sizes": shape_json(&s.value_sizes),
            "contents": s.contents.iter().map(content_json).collect::<Vec<_>>() })
}

fn family_json(f: &FamilyModel) -> Value {
    let operations: Map<String, Value> = f
        .operations
        .iter()
        .map(|(&op, o)| {
            let near = &o.nearness;
            let value = json!({
                "accesses": o.accesses, "keys": o.keys,
                "nearness": { "together": near.together, "group": near.group, "with_main": near.with_main },
                "counts": shape_json(&o.counts),
                "spans": o.spans.iter().map(shape_json).collect::<Vec<_>>(),
                "firsts": o.firsts.iter().map(shape_json).collect::<Vec<_>>(),
            });
            (name_of(op).to_string(), value)
        })
        .collect();
    let ranges: Vec<Value> = f
        .ranges
        .iter()
        .map(|r| {
            let accessed: Map<String, Value> = r
                .accessed
                .iter()
                .map(|(&op, &(keys, accesses))| {
                    let times = r.times.get(&op).map(|t| t.to_vec());
                    let bins = r.counts.get(&op).into_iter().flatten();
                    let bins = bins.map(|b| [b.bin as u64, b.keys, b.accesses]);
                    let value = json!({ "keys": keys, "accesses": accesses, "times": times,
                                        "tilt": r.tilts.get(&op), "counts": bins.collect::<Vec<_>>() });
                    (name_of(op).to_string(), value)
                })
                .collect();
            let parts = r.parts.iter().map(|(&mask, p)| (mask, vec![p.keys, p.runs]));
            let parts = masks_json(&parts.collect());
            let ends = r.ends.map(|(a, b)| [mask_name(a), mask_name(b)]);
            json!({ "keys": r.keys, "cold": r.cold, "parts": parts, "ends": ends, "accessed": accessed,
                    "begins": r.begins.map(|b| b.to_vec()) })
        })
        .collect();
    let classes: Vec<Value> = f
        .value_sizes
        .iter()
        .map(|(limit, s)| {
            let limit = (*limit != u64::MAX).then_some(*limit);
            json!({ "key_bytes_max": limit, "shape": shape_json(s) })
        })
        .collect();
    let curves: Map<String, Value> = f
        .curves
        .iter()
        .map(|(name, c)| (name.clone(), curve_json(c)))
        .collect();
    json!({
        "keys": f.keys,
        "key_sizes": shape_json(&f.key_sizes),
        "key_id": f.key_id,
        "key_noise": f.key_noise,
        "value_sizes": classes,
        "contents": f.contents.iter().map(content_json).collect::<Vec<_>>(),
        "scan_lengths": shape_json(&f.scan_lengths),
        "absent": f.absent,
        "stored": f.stored.as_ref().map(stored_json),
        "ranks": masks_json(&f.ranks),
        "correlations": f.correlations,
        "operations": operations,
        "ranges": ranges,
        "curves": curves,
        "together": f.together.as_ref().map(together_json),
    })
}

pub(super) fn wrong(path: &str, what: &str) -> Error {
    Error::invalid_argument(format!(
        "the model: {}: {what}",
        path.trim_start_matches('.')
    ))
}

/// A place in a file.
pub(super) struct At<'a> {
    pub value: &'a Value,
    pub path: String,
}

impl<'a> At<'a> {
    pub(super) fn field(&self, name: &str) -> At<'a> {
        At {
            value: self.value.get(name).unwrap_or(&Value::Null),
            path: format!("{}.{name}", self.path),
        }
    }

    pub(super) fn object(&self) -> Result<Vec<(String, At<'a>)>> {
        let object = self
            .value
            .as_object()
            .ok_or_else(|| wrong(&self.path, "no object"))?;
        if object.len() > LIST_MAX {
            return Err(wrong(&self.path, "too many"));
        }
        let of = |(name, value): (&String, &'a Value)| {
            let path = format!("{}.{name}", self.path);
            (name.clone(), At { value, path })
        };
        Ok(object.iter().map(of).collect())
    }

    pub(super) fn list(&self, most: usize) -> Result<Vec<At<'a>>> {
        let list = self
            .value
            .as_array()
            .ok_or_else(|| wrong(&self.path, "no list"))?;
        if list.len() > most {
            return Err(wrong(&self.path, &format!("more than {most}")));
        }
        let of = |(at, value)| At {
            value,
            path: format!("{}[{at}]", self.path),
        };
        Ok(list.iter().enumerate().map(of).collect())
    }

    pub(super) fn number(&self, low: f64, high: f64) -> Result<f64> {
        let n = self
            .value
            .as_f64()
            .ok_or_else(|| wrong(&self.path, "no number"))?;
        match (low..=high).contains(&n) {
            true => Ok(n),
            false => Err(wrong(
                &self.path,
                &format!("{n} is not between {low} and {high}"),
            )),
        }
    }

    fn whole(&self, most: u64) -> Result<u64> {
        let n = self
            .value
            .as_u64()
            .ok_or_else(|| wrong(&self.path, "no whole number"))?;
        match n <= most {
            true => Ok(n),
            false => Err(wrong(&self.path, &format!("{n} is more than {most}"))),
        }
    }

    fn wholes(&self, most: usize) -> Result<Vec<u64>> {
        self.list(most)?
            .iter()
            .map(|n| n.whole(u64::MAX >> 8))
            .collect()
    }
}

pub(super) fn shape(at: &At<'_>) -> Result<Shape> {
    let mut spikes = Vec::new();
    for spike in at.field("spikes").list(LIST_MAX)? {
        match spike.list(2)?.as_slice() {
            [value, part] => spikes.push((value.whole(u64::MAX)?, part.number(0.0, 1.0)?)),
            _ => return Err(wrong(&spike.path, "no value with its share")),
        }
    }
    if spikes.iter().map(|s| s.1).sum::<f64>() > 1.0 + 1e-6 {
        return Err(wrong(&at.path, "shares of more than 1"));
    }
    let grid = Shape::grid().len();
    let quantiles = at.field("quantiles").list(grid)?;
    let quantiles: Vec<u64> = quantiles
        .iter()
        .map(|n| n.whole(u64::MAX))
        .collect::<Result<_>>()?;
    if !quantiles.is_empty() && quantiles.len() != grid || !quantiles.is_sorted() {
        return Err(wrong(
            &at.path,
            "quantiles that are not as many as there are, or do not rise",
        ));
    }
    Ok(Shape { spikes, quantiles })
}

pub(super) fn operation_id(name: &str, path: &str) -> Result<usize> {
    let found = Operation::by_name(name).map(Operation::id);
    found.ok_or_else(|| wrong(path, "no operation"))
}

pub(super) fn shapes<const N: usize>(at: &At<'_>) -> Result<[Shape; N]> {
    let all: Vec<Shape> = at.list(N)?.iter().map(shape).collect::<Result<_>>()?;
    all.try_into()
        .map_err(|_| wrong(&at.path, &format!("not {N}")))
}

pub(super) fn firsts(at: &At<'_>) -> Result<Classes> {
    let all = shapes::<FIRSTS>(at)?;
    let times = all.iter().flat_map(|s| {
        let spikes = s.spikes.iter().map(|spike| &spike.0);
        s.quantiles.iter().chain(spikes)
    });
    match times.max().is_some_and(|&last| last > WHOLE) {
        true => Err(wrong(&at.path, "a time after the end of the trace")),
        false => Ok(all),
    }
}

fn mask(name: &str, path: &str) -> Result<Mask> {
    let mut ids = name
        .split('+')
        .map(|operation| operation_id(operation, path));
    ids.try_fold(0, |mask, id| Ok(mask | 1 << id?))
}

pub(super) fn masks<T>(
    at: &At<'_>,
    value: impl Fn(&At<'_>) -> Result<T>,
) -> Result<BTreeMap<Mask, T>> {
    let all = at.object()?.into_iter();
    all.map(|(name, of)| Ok((mask(&name, &of.path)?, value(&of)?)))
        .collect()
}

fn part(at: &At<'_>) -> Result<Part> {
    match at.wholes(2)?.as_slice() {
        &[keys, runs] if (1..=keys).contains(&runs) && keys <= u64::from(u32::MAX) => {
            Ok(Part { keys, runs })
        }
        _ => Err(wrong(&at.path, "not keys and the runs they lie in")),
    }
}

fn ends(at: &At<'_>) -> Result<Option<(Mask, Mask)>> {
    if at.value.is_null() {
        return Ok(None);
    }
    let name = |of: &At<'_>| mask(of.value.as_str().unwrap_or_default(), &of.path);
    match at.list(2)?.as_slice() {
        [first, last] => Ok(Some((name(first)?, name(last)?))),
        _ => Err(wrong(&at.path, "not the first and the last key")),
    }
}

fn begins(at: &At<'_>) -> Result<Option<[u64; TIMES]>> {
    if at.value.is_null() {
        return Ok(None);
    }
    let times = at.wholes(TIMES)?.try_into();
    Ok(Some(times.map_err(|_| wrong(&at.path, "times"))?))
}

fn operation(at: &At<'_>) -> Result<OperationModel> {
    let near = at.field("nearness");
    Ok(OperationModel {
        accesses: at.field("accesses").whole(KEYS_MAX)?,
        keys: at.field("keys").whole(KEYS_MAX)?,
        counts: shape(&at.field("counts"))?,
        spans: shapes::<SPANS>(&at.field("spans"))?,
        firsts: firsts(&at.field("firsts"))?,
        nearness: Nearness {
            together: near.field("together").number(0.0, 1.0)?,
            group: near.field("group").whole(KEYS_MAX)?,
            with_main: near.field("with_main").number(-1.0, 1.0)?,
        },
    })
}

fn count_bin(at: &At<'_>) -> Result<CountBin> {
    match at.wholes(3)?.as_slice() {
        &[bin, keys, accesses] if (1..BINS as u64).contains(&bin) => Ok(CountBin {
            bin: bin as usize,
            keys,
            accesses,
        }),
        _ => Err(wrong(
            &at.path,
            "no part of numbers with its keys and accesses",
        )),
    }
}

fn range(at: &At<'_>, operations: &BTreeMap<usize, OperationModel>) -> Result<RangeModel> {
    let mut range = RangeModel {
        keys: at.field("keys").whole(u64::from(u32::MAX))?,
        cold: at.field("cold").whole(u64::from(u32::MAX))?,
        parts: masks(&at.field("parts"), part)?,
        ends: ends(&at.field("ends"))?,
        begins: begins(&at.field("begins"))?,
        ..RangeModel::default()
    };
    let in_parts: u64 = range.parts.values().map(|p| p.keys).sum();
    if in_parts != range.keys {
        let what = format!("{} keys, and {in_parts} in parts", range.keys);
        return Err(wrong(&at.path, &what));
    }
    for (name, a) in at.field("accessed").object()? {
        let op = operation_id(&name, &a.path)?;
        if !operations.contains_key(&op) {
            return Err(wrong(&a.path, "an operation that the family does not have"));
        }
        let accessed = (
            a.field("keys").whole(KEYS_MAX)?,
            a.field("accesses").whole(KEYS_MAX)?,
        );
        let times = a.field("times").wholes(TIMES)?;
        let times = times.try_into().map_err(|_| wrong(&a.path, "times"))?;
        let bins = a.field("counts").list(BINS)?;
        let bins = bins.iter().map(count_bin).collect::<Result<_>>()?;
        range.accessed.insert(op, accessed);
        range.times.insert(op, times);
        range.tilts.insert(op, a.field("tilt").number(-1.0, 1.0)?);
        range.counts.insert(op, bins);
    }
    Ok(range)
}

fn family(at: &At<'_>) -> Result<FamilyModel> {
    let mut operations = BTreeMap::new();
    for (name, o) in at.field("operations").object()? {
        operations.insert(operation_id(&name, &o.path)?, operation(&o)?);
    }
    let mut ranges = Vec::new();
    for r in at.field("ranges").list(LIST_MAX)? {
        ranges.push(range(&r, &operations)?);
    }
    let keys = at.field("keys").whole(KEYS_MAX)?;
    let in_ranges: u64 = ranges.iter().map(|r| r.keys).sum();
    if in_ranges.abs_diff(keys) > keys / 10 + ranges.len() as u64 {
        return Err(wrong(
            &at.path,
            &format!("{keys} keys, and {in_ranges} in ranges"),
        ));
    }
    let accesses = operations.values().map(|o| o.accesses).sum::<u64>();
    // Of a sample both are estimates.
    if in_ranges / 2 > accesses + 1000 {
        return Err(wrong(
            &at.path,
            &format!("{in_ranges} keys, and {accesses} accesses"),
        ));
    }
    let mut value_sizes = Vec::new();
    for class in at.field("value_sizes").list(64)? {
        let limit = class.field("key_bytes_max");
        let limit = match limit.value {
            Value::Null => u64::MAX,
            _ => limit.whole(u64::MAX)?,
        };
        value_sizes.push((limit, shape(&class.field("shape"))?));
    }
    Ok(FamilyModel {
        keys,
        operations,
        contents: contents(&at.field("contents"))?,
        key_sizes: sizes_of_keys(&at.field("key_sizes"))?,
        key_id: key_id(&at.field("key_id"))?,
        key_noise: at.field("key_noise").number(0.0, 1.0)?,
        value_sizes,
        scan_lengths: shape(&at.field("scan_lengths"))?,
        absent: at.field("absent").number(0.0, 1.0)?,
        stored: stored(&at.field("stored"))?,
        together: together(&at.field("together"))?,
        positions: Positions::of(&ranges),
        ranges,
        ranks: masks(&at.field("ranks"), |n| n.number(0.0, 1.0))?,
        correlations: BTreeMap::new(),
        curves: BTreeMap::new(),
    })
}

/// Models of traces alone have none.
fn stored(at: &At<'_>) -> Result<Option<StoredModel>> {
    if at.value.is_null() {
        return Ok(None);
    }
    Ok(Some(StoredModel {
        keys: at.field("keys").whole(KEYS_MAX)?,
        key_sizes: sizes_of_keys(&at.field("key_sizes"))?,
        value_sizes: shape(&at.field("value_sizes"))?,
        contents: contents(&at.field("contents"))?,
    }))
}

fn contents(at: &At<'_>) -> Result<Vec<Content>> {
    let mut all = Vec::new();
    for c in at.list(64)? {
        let limit = c.field("value_bytes_max");
        let symbols = c.field("symbols");
        all.push(Content {
            bytes_max: match limit.value {
                Value::Null => u64::MAX,
                _ => limit.whole(u64::MAX)?,
            },
            entropy: c.field("entropy_bits").number(0.0, 8.0)?,
            left: c.field("lz4_leaves").number(0.0, 1.0)?,
            drawn: c.field("drawn").number(0.0, 1.0)?,
            symbols: match symbols.whole(256)? as u32 {
                n if n < 2 => return Err(wrong(&symbols.path, "fewer than 2")),
                n => n,
            },
        });
    }
    Ok(all)
}

/// Models from before have all bytes there are.
fn key_id(at: &At<'_>) -> Result<u64> {
    if at.value.is_null() {
        return Ok(KEY_ID as u64);
    }
    match at.whole(KEY_ID as u64)? {
        0 => Err(wrong(&at.path, "no byte")),
        bytes => Ok(bytes),
    }
}

/// Keys of megabytes are no keys.
fn sizes_of_keys(at: &At<'_>) -> Result<Shape> {
    let sizes = shape(at)?;
    let most = sizes
        .spikes
        .iter()
        .map(|s| s.0)
        .chain(sizes.quantiles.iter().copied())
        .max();
    match most.unwrap_or(0) {
        n if n > 1 << 20 => Err(wrong(&at.path, &format!("keys of {n} bytes"))),
        _ => Ok(sizes),
    }
}
