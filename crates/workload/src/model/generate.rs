//! Requests that a model describes, as a trace of queries with the file beside it.
//!
//! Every key gets its number of accesses, from the table of its range, so that the distribution of accesses is the
//! model's whatever chance does. The first access falls into a part of time that the range has, the others between it and
//! the end of the key's interest. Requests are put into the order of these times; then they get the times that the rate
//! of the model says.

use super::content::Content;
use super::firsts::Firsts;
use super::observe::OPS;
use super::places::Counted;
use super::places::Layout;
use super::shape::Shape;
use super::table::{FamilyModel, Model, RangeModel};
use super::together::Together;
use super::{Dice, mix, spans};
use crate::analyze::Operation;
use spanlith::trace::{
    Extension, kinds, put_get, put_multi_get, put_query_header, put_record, put_seek,
    put_write_head,
};
use spanlith_base::{Error, Result};
use spanlith_wal::WriteBatch;
use std::collections::BTreeMap;
use std::io::Write;

/// Bytes of a key that say which it is.
const ID: usize = 8;
/// Largest value that is made; of larger ones a trace had to be shared out over memory.
const VALUE_MAX: u64 = 64 << 20;

/// Describes what is made of a model.
#[derive(Clone, Copy, Debug)]
pub struct GenerateOptions {
    /// Everything that chance decides follows from it.
    pub seed: u64,
    /// Accesses relative to the model's: 0.5 makes half as many of each key.
    pub scale: f64,
    /// Timestamp of the header.
    pub began: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            scale: 1.0,
            began: 1_700_000_000_000_000,
        }
    }
}

/// Describes what was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// Records.
    pub requests: u64,
    /// Accesses to keys.
    pub accesses: u64,
}

/// An access.
#[derive(Clone, Copy)]
struct Token {
    /// In the model's time, in a share of 2^32.
    at: u32,
    cf: u32,
    op: u8,
    /// The last that concerns its key in this order, for values that differ.
    turn: u32,
    key: u64,
}

/// The key of that place among the accessed keys of a family. Keys are in the order of their places.
pub fn key_of(model: &FamilyModel, cf: u32, place: u64) -> Vec<u8> {
    key_of_size(model, &model.key_sizes, cf, model.positions.position(place))
}

/// The key of that position among all keys of a family, which is not accessed.
pub fn key_at(model: &FamilyModel, cf: u32, position: u64) -> Vec<u8> {
    let stored = model.stored.as_ref().map(|s| &s.key_sizes);
    let sizes = stored.filter(|s| !s.is_empty());
    key_of_size(model, sizes.unwrap_or(&model.key_sizes), cf, position)
}

fn key_of_size(model: &FamilyModel, sizes: &Shape, cf: u32, position: u64) -> Vec<u8> {
    let chance = mix(position ^ (u64::from(cf) << 48) ^ 0x006b_6579);
    // Shares of neighbours spread evenly: few hot keys have the sizes of all.
    let spread = position
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(mix(u64::from(cf)));
    let size = sizes.draw(share(spread)) as usize;
    // As many bytes as it takes to tell all keys apart.
    let all = model.keys.saturating_add(model.positions.cold()).max(1);
    let needed = (64 - all.leading_zeros() as usize).div_ceil(8);
    let id = position.to_be_bytes();
    // As many as the observed keys take, unless others lie between them.
    let wide = (model.key_id as usize).clamp(needed, ID);
    let mut key = id[ID - size.clamp(needed, wide)..].to_vec();
    let mut more = Dice::new(chance);
    // Letters, as keys have them; then always the same one, so that tables compress as those of the observed keys.
    let behind = size.saturating_sub(key.len());
    let drawn = key.len() + (behind as f64 * model.key_noise).round() as usize;
    while key.len() < size {
        let letter = match key.len() < drawn {
            true => (more.next() % 16) as u8,
            false => 0,
        };
        key.push(b'a' + letter);
    }
    key
}

/// A value for a key, which compresses as the model says; `turn` tells values of one key apart, and is 0 for the one that is
/// there before the first request.
pub fn value_of(model: &FamilyModel, key: &[u8], turn: u64) -> Vec<u8> {
    let (words, rest) = key.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().fold(1, |n, byte| n << 8 | u64::from(*byte));
    let seed = words.chain([rest]).fold(mix(turn), |h, word| mix(h ^ word));
    let class = model.value_sizes.iter().find(|c| key.len() as u64 <= c.0);
    let shape = class.or(model.value_sizes.last()).map(|s| &s.1);
    let (shape, contents) = match &model.stored {
        Some(stored) if turn == 0 => (Some(&stored.value_sizes), &stored.contents),
        _ => (shape, &model.contents),
    };
    let size = shape.map_or(0, |s| s.draw(share(mix(seed)))).min(VALUE_MAX) as usize;
    let mut value = Vec::with_capacity(size);
    let content = Content::for_size(contents, size as u64);
    content.fill(&mut value, size, &mut Dice::new(seed));
    value
}

fn share(n: u64) -> f64 {
    (n >> 11) as f64 / (1u64 << 53) as f64
}

/// Places of the accessed keys that are there before the first request: all, but for those that gets do not find.
pub fn population(model: &FamilyModel) -> impl Iterator<Item = u64> + use<> {
    let absent = model.absent;
    (0..model.keys).filter(move |&place| share(mix(place ^ 0x0061_6273)) >= absent)
}

/// Writes a trace, and the file beside it, of what a model describes.
///
/// # Errors
/// `InvalidArgument` if the model describes nothing, or more than 4 billion accesses; of writing.
pub fn generate(
    model: &Model,
    options: &GenerateOptions,
    trace: &mut dyn Write,
    beside: &mut dyn Write,
) -> Result<Generated> {
    let total: f64 = model.accesses() * options.scale;
    if total.is_nan() || !(1.0..=f64::from(u32::MAX)).contains(&total) {
        return Err(Error::invalid_argument(format!(
            "the model: {total} accesses to make; between 1 and 4294967295 can be"
        )));
    }
    let mut dice = Dice::new(options.seed);
    let mut tokens = Vec::with_capacity(total as usize + 1024);
    for (&cf, family) in &model.families {
        let of = (cf, model.requests as f64);
        place_family(family, of, options.scale, &mut dice, &mut tokens);
    }
    tokens.sort_by_key(|t| (t.at, t.turn));
    let mut writer = Writer {
        model,
        dice,
        trace,
        beside,
        record: Vec::new(),
        payload: Vec::new(),
        ordinal: 0,
        began: options.began,
    };
    writer.header()?;
    let accesses = tokens.len() as u64;
    writer.requests(&tokens)?;
    Ok(Generated {
        requests: writer.ordinal,
        accesses,
    })
}

impl Model {
    fn accesses(&self) -> f64 {
        let of = |f: &FamilyModel| {
            f.operations
                .values()
                .map(|o| o.accesses as f64)
                .sum::<f64>()
        };
        self.families.values().map(of).fold(0.0, |sum, n| sum + n)
    }
}

fn place_family(
    family: &FamilyModel,
    (cf, requests): (u32, f64),
    scale: f64,
    dice: &mut Dice,
    tokens: &mut Vec<Token>,
) {
    let mut first_place = 0;
    let firsts: BTreeMap<usize, Firsts<'_>> = family
        .operations
        .iter()
        .map(|(&op, model)| (op, Firsts::of(&model.firsts)))
        .collect();
    let layout = Layout::of(family);
    let together = family.together.as_ref();
    let begins = together.map(|t| (t, Firsts::of(&t.firsts)));
    for range in &family.ranges {
        let concerned = layout.range(range, dice);
        if let Some((together, begins)) = &begins {
            let of = OfRange {
                together,
                begins,
                range,
                cf,
                first_place,
                requests,
            };
            of.place(&concerned, scale, dice, tokens);
            first_place += range.keys;
            continue;
        }
        for (op, keys) in concerned {
            let model = &family.operations[&op];
            let counts: Vec<u32> = keys.iter().map(|k| k.1).collect();
            let own = range.times.get(&op);
            let firsts = firsts[&op].of_range(own, &counts);
            for (place, count) in keys {
                let many = scaled(count, scale, dice);
                let begin = firsts.draw(count, dice);
                let times = spans::times(begin, &model.spans, many, dice);
                let token = |(turn, at): (usize, f64)| Token {
                    at: in_trace(at),
                    cf,
                    op: op as u8,
                    turn: turn as u32,
                    key: first_place + place,
                };
                tokens.extend(times.into_iter().enumerate().map(token));
            }
        }
        first_place += range.keys;
    }
}

/// A time in a share of the trace, in one of 2^32.
fn in_trace(at: f64) -> u32 {
    (at.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// So many accesses times a factor; what is left over counts with its probability.
fn scaled(count: u32, scale: f64, dice: &mut Dice) -> u32 {
    let scaled = f64::from(count) * scale;
    let whole = scaled.floor();
    whole as u32 + u32::from(dice.unit() < scaled - whole)
}

/// A range of keys whose operations have their times together.
struct OfRange<'a> {
    together: &'a Together,
    begins: &'a Firsts<'a>,
    range: &'a RangeModel,
    cf: u32,
    first_place: u64,
    requests: f64,
}

impl OfRange<'_> {
    fn place(
        &self,
        concerned: &BTreeMap<usize, Counted>,
        scale: f64,
        dice: &mut Dice,
        tokens: &mut Vec<Token>,
    ) {
        let mut keys: BTreeMap<u64, [u32; OPS]> = BTreeMap::new();
        for (&op, counted) in concerned {
            for &(place, count) in counted {
                keys.entry(place).or_insert([0; OPS])[op] = count;
            }
        }
        let total = |counts: &[u32; OPS]| counts.iter().sum::<u32>();
        let totals: Vec<u32> = keys.values().map(total).collect();
        let begins = self.begins.of_range(self.range.begins.as_ref(), &totals);
        for (place, counts) in keys {
            let begin = begins.draw(total(&counts), dice);
            let counts = counts.map(|count| scaled(count, scale, dice));
            let placed = self.together.place(&counts, begin, self.requests, dice);
            let token = |(turn, (op, at)): (u32, (u8, f64))| Token {
                at: in_trace(at),
                cf: self.cf,
                op,
                turn,
                key: self.first_place + place,
            };
            tokens.extend((0..).zip(placed).map(token));
        }
    }
}

struct Writer<'a> {
    model: &'a Model,
    dice: Dice,
    trace: &'a mut dyn Write,
    beside: &'a mut dyn Write,
    record: Vec<u8>,
    payload: Vec<u8>,
    ordinal: u64,
    began: u64,
}

fn failed(e: std::io::Error) -> Error {
    Error::io(e.to_string())
}

impl Writer<'_> {
    fn header(&mut self) -> Result<()> {
        put_query_header(&mut self.payload);
        self.put(kinds::BEGIN, self.began)?;
        let mut head = Vec::new();
        Extension::put_header(&mut head, self.began);
        self.beside.write_all(&head).map_err(failed)
    }

    fn put(&mut self, kind: u8, timestamp: u64) -> Result<()> {
        self.record.clear();
        put_record(&mut self.record, timestamp, kind, &self.payload);
        self.payload.clear();
        self.trace.write_all(&self.record).map_err(failed)
    }

    fn requests(&mut self, tokens: &[Token]) -> Result<()> {
        let mut times = Rate::new(self.model, tokens.len());
        let mut at = 0;
        while at < tokens.len() {
            let many = self.group(tokens, at);
            let timestamp = self.began + times.of(at);
            self.request(&tokens[at..at + many], timestamp)?;
            at += many;
        }
        self.put(kinds::END, self.began + times.of(tokens.len()))
    }

    /// Tokens from here on that become one request.
    fn group(&mut self, tokens: &[Token], at: usize) -> usize {
        let first = &tokens[at];
        let shape: &Shape = match Operation::ALL[usize::from(first.op)] {
            Operation::MultiGet => &self.model.multi_get_sizes,
            op if is_write(op) => &self.model.batch_sizes,
            _ => return 1,
        };
        let wanted = shape.draw(self.dice.unit()).max(1) as usize;
        let alike = |t: &&Token| {
            let (a, b) = (
                Operation::ALL[usize::from(t.op)],
                Operation::ALL[usize::from(first.op)],
            );
            a == b || (is_write(a) && is_write(b))
        };
        tokens[at..]
            .iter()
            .take(wanted)
            .take_while(alike)
            .count()
            .max(1)
    }

    fn request(&mut self, tokens: &[Token], timestamp: u64) -> Result<()> {
        let first = tokens[0];
        let Some(family) = self.model.families.get(&first.cf) else {
            return Ok(());
        };
        let keys: Vec<(u32, Vec<u8>)> = tokens
            .iter()
            .filter_map(|t| Some((t.cf, key_of(self.model.families.get(&t.cf)?, t.cf, t.key))))
            .collect();
        let mut beside = Extension {
            ordinal: self.ordinal,
            cf: first.cf,
            nanos: 1,
            found: 1,
            ..Extension::default()
        };
        let operation = Operation::ALL[usize::from(first.op)];
        let kind = match operation {
            Operation::Get => {
                put_get(&mut self.payload, first.cf, &keys[0].1);
                kinds::GET
            }
            Operation::Seek | Operation::SeekForPrev => {
                put_seek(&mut self.payload, first.cf, &keys[0].1, None, None);
                let steps = family.scan_lengths.draw(self.dice.unit());
                match operation == Operation::Seek {
                    true => beside.next = steps,
                    false => beside.prev = steps,
                }
                match operation == Operation::Seek {
                    true => kinds::SEEK,
                    false => kinds::SEEK_FOR_PREV,
                }
            }
            Operation::MultiGet => {
                let keys = keys.iter().map(|(cf, key)| (*cf, key.as_slice()));
                put_multi_get(&mut self.payload, keys);
                beside.found = tokens.len() as u64;
                kinds::MULTI_GET
            }
            _ => {
                let mut batch = WriteBatch::new();
                for (token, (cf, key)) in tokens.iter().zip(&keys) {
                    let Some(family) = self.model.families.get(cf) else {
                        continue;
                    };
                    let value = || value_of(family, key, u64::from(token.turn) + 1);
                    match Operation::ALL[usize::from(token.op)] {
                        Operation::Delete => batch.delete_cf(*cf, key)?,
                        Operation::SingleDelete => batch.single_delete_cf(*cf, key)?,
                        Operation::RangeDelete => {
                            // Its end is not known: the next key is gone, too.
                            let end = key_of(family, *cf, token.key + 1);
                            if end > *key {
                                batch.delete_range_cf(*cf, key, &end)?;
                            }
                        }
                        Operation::Merge => batch.merge_cf(*cf, key, &value())?,
                        _ => batch.put_cf(*cf, key, &value())?,
                    }
                }
                put_write_head(&mut self.payload, batch.as_bytes().len());
                self.payload.extend_from_slice(batch.as_bytes());
                kinds::WRITE
            }
        };
        beside.kind = kind;
        self.put(kind, timestamp)?;
        self.ordinal += 1;
        self.record.clear();
        beside.encode(&mut self.record);
        self.beside.write_all(&self.record).map_err(failed)
    }
}

fn is_write(op: Operation) -> bool {
    !matches!(
        op,
        Operation::Get | Operation::Seek | Operation::SeekForPrev | Operation::MultiGet
    )
}

/// When requests come: the model's rate, in the order of the requests.
struct Rate {
    /// Requests up to the end of each part.
    sums: Vec<f64>,
    micros: f64,
    requests: f64,
    part: usize,
}

impl Rate {
    fn new(model: &Model, requests: usize) -> Self {
        let total: u64 = model.rate.iter().sum();
        let mut sum = 0.0;
        let sums = model.rate.iter().map(|&n| {
            sum += n as f64 / total.max(1) as f64;
            sum
        });
        Self {
            sums: sums.collect(),
            micros: model.seconds * 1e6,
            requests: requests as f64,
            part: 0,
        }
    }

    /// Microseconds to the request of that number. Numbers rise.
    fn of(&mut self, number: usize) -> u64 {
        let part = number as f64 / self.requests.max(1.0);
        while self.part + 1 < self.sums.len() && self.sums[self.part] < part {
            self.part += 1;
        }
        let end = self.sums.get(self.part).copied().unwrap_or(1.0);
        let begin = match self.part {
            0 => 0.0,
            at => self.sums[at - 1],
        };
        let inside = ((part - begin) / (end - begin).max(1e-12)).clamp(0.0, 1.0);
        let slots = self.sums.len().max(1) as f64;
        ((self.part as f64 + inside) / slots * self.micros) as u64
    }
}
