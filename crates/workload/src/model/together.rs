//! The operations on a key as one history: in which order they follow each other, and after how many requests.
//!
//! [`super::firsts`] and [`super::spans`] say when keys are accessed by one operation. Where a key lives for a while, and is written in
//! that while because it was read, times of its operations belong together: a key is born, and each access follows the one before
//! it after a gap whose size depends on both operations and on how often the key is accessed at all. Which operation follows which is
//! told by how much more often it does than in an order that chance decides ([`Class::follow`]), so that keys of any numbers of
//! accesses can be laid out. A family has such a history only if it says better when keys are accessed than their
//! operations one by one do ([`is_closer`]).

use super::Dice;
use super::coupled::Coupled;
use super::firsts::{self, Classes, Firsts};
use super::histories::{Access, Histories, counts_of};
use super::observe::OPS;
use super::shape::{Shape, Sizes};
use super::spans;
use super::table::OperationModel;
use std::collections::BTreeMap;

/// Classes of keys by accesses: 2 and 3, 4 to 7, and so on; 65536 and more.
pub(super) const CLASSES: usize = 16;
/// Parts of the trace in which keys begin.
pub(super) const QUARTERS: usize = 4;
/// Unit of spans, which are parts of what is left of the trace.
const WHOLE: f64 = 1e6;
/// Gaps below this part of a key's mean one stay as they are while others grow or shrink to its span.
const SHORT: f64 = 0.25;
/// Keys of fewer accesses last as long as their gaps; others as long as such keys do.
const SPANNED: u32 = 4;
/// Gaps from which on a table says something.
const GAPS_MIN: u64 = 8;
/// Accesses of a class that are looked at for the order of operations.
const LOOKED_AT: usize = 50_000;
/// Accesses by which it is judged whether histories say better when keys are accessed.
const JUDGED_BY: f64 = 200_000.0;
/// Rounds in which the order of operations is brought to that of the trace.
const ROUNDS: usize = 4;
/// Gaps are drawn so often until they fit into the trace.
const DRAWS: usize = 16;
/// Histories have to be so much closer to the trace, since times of operations alone tell ranges of keys apart by operation, too.
const CLOSER: f64 = 0.9;
/// How often an operation follows another at most, relative to chance.
pub(super) const FOLLOW_MAX: f64 = 1e6;

/// An operation after another.
pub(super) type Pair = (usize, usize);

/// Describes keys that are accessed about as often.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Class {
    /// How much more often an operation is the first than by chance.
    pub begin: BTreeMap<usize, f64>,
    /// How much more often an operation follows another than by chance.
    pub follow: BTreeMap<Pair, f64>,
    /// Requests between them.
    pub gaps: BTreeMap<Pair, Shape>,
    /// How much of what is left of the trace passes until the last access, by where the first one lies.
    pub spans: [Shape; QUARTERS],
}

/// When keys are accessed by all operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Together {
    /// First accesses by any operation.
    pub firsts: Classes,
    /// How numbers of accesses of a key by one operation and by others depend on each other.
    pub coupled: Coupled,
    /// By class of the number of accesses.
    pub classes: [Class; CLASSES],
}

/// An access in a share of the trace.
pub(super) type Placed = (u8, f64);

fn class_of(accesses: u32) -> usize {
    (accesses.max(2).ilog2() as usize - 1).min(CLASSES - 1)
}

fn quarter_of(begin: f64) -> usize {
    ((begin * QUARTERS as f64) as usize).min(QUARTERS - 1)
}

/// Brings the sum of gaps to `wanted`. Short ones stay as long as others can make up for them: an access that belongs to the one
/// before it comes as soon after it as the trace says, for however long its key lives.
fn stretch(gaps: &mut [f64], wanted: f64) {
    let short = SHORT * wanted / gaps.len().max(1) as f64;
    let (mut kept, mut rest) = (0.0, 0.0);
    for gap in gaps.iter() {
        match *gap <= short {
            true => kept += gap,
            false => rest += gap,
        }
    }
    let factor = match (rest > 0.0, kept > 0.0) {
        (true, _) => (wanted - kept) / rest,
        (false, true) => wanted / kept,
        (false, false) => 0.0,
    };
    for gap in gaps.iter_mut().filter(|gap| **gap > short || rest == 0.0) {
        *gap *= factor;
    }
}

/// How often operations are first, and follow each other.
#[derive(Clone, Default)]
struct Order {
    begin: BTreeMap<usize, f64>,
    follow: BTreeMap<Pair, f64>,
}

impl Order {
    fn add(&mut self, ops: impl Iterator<Item = u8>) {
        let mut before = None;
        for op in ops.map(usize::from) {
            match before {
                None => *self.begin.entry(op).or_default() += 1.0,
                Some(a) => *self.follow.entry((a, op)).or_default() += 1.0,
            }
            before = Some(op);
        }
    }

    /// As chance would have it, of a key of these numbers of accesses.
    fn expect(&mut self, counts: &[u32; OPS]) {
        let n = f64::from(counts.iter().sum::<u32>());
        let has = |op: &usize| counts[*op] > 0;
        for a in (0..OPS).filter(has) {
            *self.begin.entry(a).or_default() += f64::from(counts[a]) / n;
            for b in (0..OPS).filter(has) {
                let others = f64::from(counts[b]) - f64::from(u8::from(a == b));
                *self.follow.entry((a, b)).or_default() += f64::from(counts[a]) * others / n;
            }
        }
    }
}

/// Brings factors to where what they make is what was seen.
fn correct<K: Ord + Copy>(
    factors: &mut BTreeMap<K, f64>,
    seen: &BTreeMap<K, f64>,
    made: &BTreeMap<K, f64>,
) {
    for (key, expected) in made {
        let seen = seen.get(key).copied().unwrap_or(0.0);
        let factor = factors.entry(*key).or_insert(1.0);
        if *expected > 0.0 {
            *factor = (*factor * seen / expected).min(FOLLOW_MAX);
        }
    }
}

impl Class {
    /// The operations of a key in their order.
    fn order(&self, counts: &[u32; OPS], dice: &mut Dice, ops: &mut Vec<u8>) {
        ops.clear();
        let mut left = *counts;
        let some: Vec<usize> = (0..OPS).filter(|&op| counts[op] > 0).collect();
        let mut before = None;
        for _ in 0..counts.iter().sum::<u32>() {
            let factor = |op: usize| match before {
                None => self.begin.get(&op).copied().unwrap_or(1.0),
                Some(a) => self.follow.get(&(a, op)).copied().unwrap_or(1.0),
            };
            let op = match some.as_slice() {
                &[op] => op,
                _ => draw(&some, |op| f64::from(left[op]) * factor(op), dice)
                    .or_else(|| draw(&some, |op| f64::from(left[op]), dice))
                    .unwrap_or(0),
            };
            left[op] -= 1;
            ops.push(op as u8);
            before = Some(op);
        }
    }

    /// Learns the order of keys of this class, of which these are some.
    fn learn(&mut self, keys: &[&[Access]]) {
        let (mut seen, mut chance) = (Order::default(), Order::default());
        for history in keys {
            seen.add(history.iter().map(|access| access.op));
            chance.expect(&counts_of(history));
        }
        correct(&mut self.begin, &seen.begin, &chance.begin);
        correct(&mut self.follow, &seen.follow, &chance.follow);
        let mut ops = Vec::new();
        for round in 0..ROUNDS {
            let (mut made, mut dice) = (Order::default(), Dice::new(round as u64));
            for history in keys {
                self.order(&counts_of(history), &mut dice, &mut ops);
                made.add(ops.iter().copied());
            }
            correct(&mut self.begin, &seen.begin, &made.begin);
            correct(&mut self.follow, &seen.follow, &made.follow);
        }
    }
}

/// Keys of a class, as they are looked at.
#[derive(Default)]
struct Collected<'a> {
    spans: [Sizes; QUARTERS],
    gaps: BTreeMap<Pair, Sizes>,
    /// Some of them.
    keys: Vec<&'a [Access]>,
    accesses: usize,
}

impl<'a> Collected<'a> {
    /// A key of at least two accesses.
    fn add(&mut self, history: &'a [Access], requests: u64) {
        let share = |at: u32| f64::from(at) / requests.max(1) as f64;
        if let (Some(first), Some(last)) = (history.first(), history.last()) {
            let (from, to) = (share(first.at), share(last.at));
            let part = ((to - from) / (1.0 - from).max(1e-12)).clamp(0.0, 1.0);
            self.spans[quarter_of(from)].add((part * WHOLE).round() as u64, 1);
        }
        for (a, b) in history.iter().zip(&history[1..]) {
            let pair = (usize::from(a.op), usize::from(b.op));
            let gap = b.at.saturating_sub(a.at);
            self.gaps.entry(pair).or_default().add(u64::from(gap), 1);
        }
        if self.accesses < LOOKED_AT {
            self.accesses += history.len();
            self.keys.push(history);
        }
    }

    fn class(self) -> Class {
        let shape = |sizes: &Sizes| match sizes.total() {
            0 => Shape::default(),
            _ => Shape::of(sizes),
        };
        let gaps = self.gaps.iter().filter(|gap| gap.1.total() >= GAPS_MIN);
        let mut class = Class {
            gaps: gaps.map(|(&pair, sizes)| (pair, shape(sizes))).collect(),
            spans: self.spans.each_ref().map(shape),
            ..Class::default()
        };
        class.learn(&self.keys);
        class
    }
}

/// One of several with the probability that its weight has among all; none if no weight is above 0.
fn draw(some: &[usize], weight: impl Fn(usize) -> f64, dice: &mut Dice) -> Option<usize> {
    let all: f64 = some.iter().map(|&op| weight(op)).sum();
    if all <= 0.0 {
        return None;
    }
    let mut at = dice.unit() * all;
    let found = some.iter().find(|&&op| {
        at -= weight(op);
        at < 0.0
    });
    found.copied().or_else(|| {
        let last = some.iter().rev().find(|&&op| weight(op) > 0.0);
        last.copied()
    })
}

impl Together {
    /// Learns from histories of keys of a trace of so many requests; none without any.
    pub(super) fn of(histories: &Histories, requests: u64) -> Option<Self> {
        let mut firsts = firsts::Collected::default();
        let mut classes: [Collected<'_>; CLASSES] = Default::default();
        for history in histories.keys() {
            let n = history.len() as u32;
            if let Some(first) = history.first() {
                firsts.add(n, u64::from(first.at), requests);
            }
            if n > 1 {
                classes[class_of(n)].add(history, requests);
            }
        }
        let all = Self {
            firsts: firsts.classes(),
            coupled: Coupled::default(),
            classes: classes.map(|class| class.class()),
        };
        all.firsts.iter().any(|f| !f.is_empty()).then_some(all)
    }

    /// Requests from one operation to the next on a key of that class: as of the nearest class that has both.
    fn gap(&self, class: usize, pair: Pair, dice: &mut Dice) -> f64 {
        let near = (0..CLASSES).filter(|&c| self.classes[c].gaps.contains_key(&pair));
        let near = near.min_by_key(|c| c.abs_diff(class));
        let shape = near.and_then(|c| self.classes[c].gaps.get(&pair));
        // Of such a pair no gap is known; the key's span says the rest.
        shape.map_or(1.0, |shape| shape.draw(dice.unit()) as f64)
    }

    /// How much of what is left of the trace passes until the last access of a key of that class whose first is at `begin`.
    fn span(&self, class: usize, begin: f64, dice: &mut Dice) -> f64 {
        let quarter = quarter_of(begin);
        let near = (0..CLASSES).flat_map(|c| (0..QUARTERS).map(move |q| (c, q)));
        let near = near.filter(|&(c, q)| !self.classes[c].spans[q].is_empty());
        let near = near.min_by_key(|&(c, q)| QUARTERS * c.abs_diff(class) + q.abs_diff(quarter));
        let part = near.map(|(c, q)| self.classes[c].spans[q].draw(dice.unit()));
        part.map_or(1.0, |part| (part as f64 / WHOLE).min(1.0))
    }

    /// Accesses of a key of these numbers of accesses, of which the first is at `begin`, in a trace of so many requests.
    pub(super) fn place(
        &self,
        counts: &[u32; OPS],
        begin: f64,
        requests: f64,
        dice: &mut Dice,
    ) -> Vec<Placed> {
        let n = counts.iter().sum::<u32>();
        let class = class_of(n);
        let mut ops = Vec::with_capacity(n as usize);
        self.classes[class].order(counts, dice, &mut ops);
        let room = (1.0 - begin).max(0.0);
        let mut gaps: Vec<f64> = Vec::with_capacity(ops.len());
        let mut span = 0.0;
        for _ in 0..DRAWS {
            gaps.clear();
            for pair in ops.windows(2) {
                let pair = (usize::from(pair[0]), usize::from(pair[1]));
                gaps.push(self.gap(class, pair, dice) / requests.max(1.0));
            }
            span = gaps.iter().sum();
            if n >= SPANNED || span <= room {
                break;
            }
        }
        match n >= SPANNED {
            true => stretch(&mut gaps, self.span(class, begin, dice) * room),
            false => stretch(&mut gaps, span.min(room)),
        }
        let mut at = begin;
        let mut placed = Vec::with_capacity(ops.len());
        for (op, gap) in ops.iter().zip(std::iter::once(0.0).chain(gaps)) {
            at += gap;
            placed.push((*op, at));
        }
        placed
    }
}

/// How many requests pass between accesses to a key, by both operations and power of a half of two; and when operations come first.
#[derive(Default)]
struct Profile {
    gaps: BTreeMap<(usize, Pair), f64>,
    accesses: f64,
}

impl Profile {
    const FIRST: usize = 1000;

    fn add(&mut self, history: impl Iterator<Item = (u8, f64)>, requests: f64) {
        let mut before = None;
        let mut last: [Option<f64>; OPS] = [None; OPS];
        for (op, at) in history {
            let op = usize::from(op);
            let mut note = |slot: usize, pair: Pair| {
                *self.gaps.entry((slot, pair)).or_default() += 1.0;
            };
            let slot = |gap: f64| (2.0 * (gap * requests + 1.0).log2()) as usize;
            match before {
                None => note(Self::FIRST + (at * 16.0) as usize, (op, op)),
                Some((a, then)) => note(slot(at - then), (a, op)),
            }
            // Since each other operation, too, however many lie between.
            for (other, then) in last.iter().enumerate() {
                if let Some(then) = then
                    && other != op
                {
                    note(500 + slot(at - then), (other, op));
                }
            }
            self.accesses += 1.0;
            last[op] = Some(at);
            before = Some((op, at));
        }
    }

    /// From 0 for the same on.
    fn distance(&self, other: &Self) -> f64 {
        let mut keys: Vec<_> = self.gaps.keys().chain(other.gaps.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let of =
            |all: &Self, key| all.gaps.get(key).copied().unwrap_or(0.0) / all.accesses.max(1.0);
        keys.iter()
            .map(|key| (of(self, key) - of(other, key)).abs())
            .sum()
    }
}

/// Returns whether times of all operations on a key together are more like those of the trace than each operation's alone.
pub(super) fn is_closer(
    together: &Together,
    alone: &BTreeMap<usize, OperationModel>,
    histories: &Histories,
    requests: u64,
) -> bool {
    let span = requests.max(1) as f64;
    let [mut seen, mut as_one, mut apart]: [Profile; 3] = Default::default();
    let begins = Firsts::of(&together.firsts);
    let begins = begins.of_range(None, &[]);
    let firsts = alone
        .iter()
        .map(|(&op, model)| (op, Firsts::of(&model.firsts)));
    let firsts: BTreeMap<usize, Firsts<'_>> = firsts.collect();
    let mut dice = Dice::new(7);
    for history in histories.keys() {
        if seen.accesses > JUDGED_BY {
            break;
        }
        let counts = counts_of(history);
        let share = |a: &Access| (a.op, f64::from(a.at) / span);
        seen.add(history.iter().map(share), span);
        let begin = begins.draw(history.len() as u32, &mut dice);
        let placed = together.place(&counts, begin, span, &mut dice);
        as_one.add(placed.into_iter(), span);
        let mut placed: Vec<Placed> = Vec::with_capacity(history.len());
        for (&op, model) in alone {
            let begin = firsts[&op].of_range(None, &[]).draw(counts[op], &mut dice);
            let times = spans::times(begin, &model.spans, counts[op], &mut dice);
            placed.extend(times.into_iter().map(|at| (op as u8, at)));
        }
        placed.sort_by(|a, b| a.1.total_cmp(&b.1));
        apart.add(placed.into_iter(), span);
    }
    seen.distance(&as_one) < CLOSER * seen.distance(&apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Operation;

    const REQUESTS: u64 = 1_000_000;
    const GET: usize = Operation::Get as usize;
    const PUT: usize = Operation::Put as usize;

    /// Accesses of keys as histories.
    fn histories(keys: &[Vec<(usize, f64)>]) -> Histories {
        let mut all = Histories::default();
        for (number, key) in (0..).zip(keys) {
            for &(op, at) in key {
                all.add(number, op, (at * REQUESTS as f64) as u64);
            }
        }
        all.sort();
        all
    }

    /// Keys that live for a tenth of the trace and are got at any time of it; three of ten gets are followed by a put at once.
    fn written_as_they_are_read(dice: &mut Dice) -> Vec<Vec<(usize, f64)>> {
        let key = |number: u32| {
            let (born, mut all) = (0.9 * dice.unit(), Vec::new());
            for _ in 0..1 + number % 30 {
                let at = born + 0.1 * dice.unit();
                all.push((GET, at));
                if dice.unit() < 0.3 {
                    all.push((PUT, at + 20e-6 * (1.0 + dice.unit())));
                }
            }
            all.sort_by(|a, b| a.1.total_cmp(&b.1));
            all
        };
        (0..4000).map(key).collect()
    }

    /// Keys whose gets have nothing to do with their puts.
    fn with_times_alone(dice: &mut Dice) -> Vec<Vec<(usize, f64)>> {
        let key = |_| {
            let mut all = Vec::new();
            for op in [GET, PUT] {
                let born = 0.95 * dice.unit();
                all.extend((0..8).map(|_| (op, born + 0.05 * dice.unit())));
            }
            all.sort_by(|a, b| a.1.total_cmp(&b.1));
            all
        };
        (0..4000).map(key).collect()
    }

    fn alone(histories: &Histories) -> BTreeMap<usize, OperationModel> {
        let mut all = BTreeMap::new();
        for op in [GET, PUT] {
            let mut firsts = firsts::Collected::default();
            let mut lasting = spans::Collected::default();
            for history in histories.keys() {
                let of: Vec<u32> = history
                    .iter()
                    .filter(|a| usize::from(a.op) == op)
                    .map(|a| a.at)
                    .collect();
                if let (Some(&first), Some(&last)) = (of.first(), of.last()) {
                    let share = |at: u32| f64::from(at) / REQUESTS as f64;
                    firsts.add(of.len() as u32, u64::from(first), REQUESTS);
                    lasting.add(of.len() as u32, share(first), share(last));
                }
            }
            let model = OperationModel {
                firsts: firsts.classes(),
                spans: lasting.spans(),
                ..OperationModel::default()
            };
            all.insert(op, model);
        }
        all
    }

    /// Of each kind: puts that follow a get within 50 requests, and the mean from the first to the last access.
    fn described(keys: &[Vec<(usize, f64)>]) -> (f64, f64) {
        let (mut soon, mut puts, mut span) = (0.0, 0.0, 0.0);
        for key in keys {
            for pair in key.windows(2).filter(|pair| pair[1].0 == PUT) {
                puts += 1.0;
                let gap = (pair[1].1 - pair[0].1) * REQUESTS as f64;
                soon += f64::from(u8::from(pair[0].0 == GET && gap < 50.0));
            }
            span += key[key.len() - 1].1 - key[0].1;
        }
        (soon / puts, span / keys.len() as f64)
    }

    #[test]
    fn keys_that_are_written_as_they_are_read_are_made_so_again() {
        let mut dice = Dice::new(1);
        let keys = written_as_they_are_read(&mut dice);
        let histories = histories(&keys);
        let together = Together::of(&histories, REQUESTS).unwrap();
        assert!(is_closer(
            &together,
            &alone(&histories),
            &histories,
            REQUESTS
        ));
        let begins = Firsts::of(&together.firsts);
        let begins = begins.of_range(None, &[]);
        let made: Vec<Vec<(usize, f64)>> = histories
            .keys()
            .map(|history| {
                let begin = begins.draw(history.len() as u32, &mut dice);
                let counts = counts_of(history);
                let placed = together.place(&counts, begin, REQUESTS as f64, &mut dice);
                let placed: Vec<_> = placed.iter().map(|p| (usize::from(p.0), p.1)).collect();
                let of = |op| placed.iter().filter(|p| p.0 == op).count() as u32;
                assert_eq!((of(GET), of(PUT)), (counts[GET], counts[PUT]));
                assert!(
                    placed.iter().all(|p| (0.0..=1.0001).contains(&p.1)),
                    "{placed:?}"
                );
                placed
            })
            .collect();
        let ((soon, span), (made_soon, made_span)) = (described(&keys), described(&made));
        assert!(
            soon > 0.9 && (made_soon / soon - 1.0).abs() < 0.05,
            "{soon} {made_soon}"
        );
        assert!((made_span / span - 1.0).abs() < 0.05, "{span} {made_span}");
    }

    #[test]
    fn operations_with_times_alone_stay_alone() {
        let keys = with_times_alone(&mut Dice::new(2));
        let histories = histories(&keys);
        let together = Together::of(&histories, REQUESTS).unwrap();
        assert!(!is_closer(
            &together,
            &alone(&histories),
            &histories,
            REQUESTS
        ));
    }

    /// As many accesses come out as go in, for any numbers of a stranger's model.
    #[test]
    fn a_model_without_gaps_or_order_still_makes_every_access() {
        let mut together = Together::default();
        let mut counts = [0; OPS];
        (counts[GET], counts[PUT]) = (3, 2);
        let mut dice = Dice::new(3);
        assert_eq!(together.place(&counts, 0.5, 10.0, &mut dice).len(), 5);
        let class = &mut together.classes[class_of(5)];
        class.begin = BTreeMap::from([(GET, 0.0), (PUT, 0.0)]);
        for pair in [(GET, GET), (GET, PUT), (PUT, GET), (PUT, PUT)] {
            class.follow.insert(pair, 0.0);
        }
        let placed = together.place(&counts, 1.0, 0.0, &mut dice);
        assert_eq!(placed.len(), 5);
        assert!(placed.iter().all(|p| p.1 == 1.0), "{placed:?}");
        assert!(together.place(&[0; OPS], 0.1, 10.0, &mut dice).is_empty());
    }
}
