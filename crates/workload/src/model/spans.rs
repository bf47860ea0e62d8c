//! For how long a key is of interest: how much of the trace that is left after its first access passes until its last.
//!
//! A key whose accesses come at any time has a part that depends on their number alone, and not on when it is accessed first; of a
//! key that is of interest for a while the part depends on both. So there is a table for each class of numbers and quarter of the
//! trace in which the first access lies.

use super::Dice;
use super::shape::{Shape, Sizes};

/// Classes of keys by their number of accesses: 2, 3, 4 to 7, 8 to 15, 16 to 63, more.
const COUNTS: usize = 6;
/// Parts of the trace in which keys begin.
const QUARTERS: usize = 4;
/// Tables.
pub(super) const SPANS: usize = COUNTS * QUARTERS;
/// Unit of the parts.
const WHOLE: f64 = 1e6;
/// Keys from which on a table says something.
const KEYS_MIN: u64 = 8;

/// Parts of what is left of the trace.
pub(super) type Spans = [Shape; SPANS];

fn table_of(count: u32, begin: f64) -> usize {
    let class = match count {
        0..=2 => 0,
        3 => 1,
        4..=7 => 2,
        8..=15 => 3,
        16..=63 => 4,
        _ => 5,
    };
    let quarter = ((begin * QUARTERS as f64) as usize).min(QUARTERS - 1);
    class * QUARTERS + quarter
}

/// Collects spans.
#[derive(Clone, Debug)]
pub(super) struct Collected(Vec<Sizes>);

impl Default for Collected {
    fn default() -> Self {
        Self(vec![Sizes::default(); SPANS])
    }
}

impl Collected {
    /// Notes a key of at least two accesses, the first and the last in shares of the trace.
    pub(super) fn add(&mut self, count: u32, first: f64, last: f64) {
        let part = (last - first).max(0.0) / (1.0 - first).max(1e-12);
        let part = (part.min(1.0) * WHOLE).round() as u64;
        self.0[table_of(count, first)].add(part, 1);
    }

    /// The tables; those of few keys are empty.
    pub(super) fn spans(&self) -> Spans {
        std::array::from_fn(|at| match &self.0[at] {
            few if few.total() < KEYS_MIN => Shape::default(),
            sizes => Shape::of(sizes),
        })
    }
}

/// The last access of a key of so many whose first is at `begin`.
pub(super) fn draw(spans: &Spans, count: u32, begin: f64, dice: &mut Dice) -> f64 {
    let own = table_of(count, begin);
    let class = own - own % QUARTERS;
    let of_class = (class..class + QUARTERS).filter(|at| !spans[*at].is_empty());
    let nearest = of_class.min_by_key(|at| at.abs_diff(own));
    let part = match nearest {
        Some(at) => (spans[at].draw(dice.unit()) as f64 / WHOLE).min(1.0),
        // As of accesses at any time.
        None => dice.unit().powf(1.0 / f64::from(count.max(2) - 1)),
    };
    begin + part * (1.0 - begin)
}

/// When a key is accessed that is accessed first at `begin`, so many times, in shares of the trace.
pub(super) fn times(begin: f64, spans: &Spans, count: u32, dice: &mut Dice) -> Vec<f64> {
    if count == 0 {
        return Vec::new();
    }
    let mut times = vec![begin];
    if count > 1 {
        let end = draw(spans, count, begin, dice);
        times.push(end);
        times.extend((2..count).map(|_| begin + (end - begin) * dice.unit()));
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means of the first and the last access, and of what lies between them, of keys that begin in the last half.
    fn of(keys: &[(u32, f64, f64)]) -> (f64, f64) {
        let late: Vec<_> = keys.iter().filter(|k| k.1 > 0.5).collect();
        let mean = |f: &dyn Fn(&(u32, f64, f64)) -> f64, all: &[&(u32, f64, f64)]| {
            all.iter().map(|k| f(k)).sum::<f64>() / all.len() as f64
        };
        let all: Vec<_> = keys.iter().collect();
        (mean(&|k| k.2 - k.1, &all), mean(&|k| k.2 - k.1, &late))
    }

    /// Both of keys that are accessed at any time and of those with a window of time.
    #[test]
    fn spans_are_those_of_the_keys_wherever_they_begin() {
        let mut dice = Dice::new(1);
        for window in [1.0, 0.1] {
            let mut keys = Vec::new();
            for count in [2, 3, 5, 12, 40] {
                for _ in 0..4000 {
                    let from = dice.unit() * (1.0 - window);
                    let mut at: Vec<f64> =
                        (0..count).map(|_| from + window * dice.unit()).collect();
                    at.sort_by(f64::total_cmp);
                    keys.push((count, at[0], at[count as usize - 1]));
                }
            }
            let mut collected = Collected::default();
            keys.iter().for_each(|k| collected.add(k.0, k.1, k.2));
            let spans = collected.spans();
            let again = |k: &(u32, f64, f64)| {
                (
                    k.0,
                    k.1,
                    draw(&spans, k.0, k.1, &mut Dice::new((k.1 * 1e12) as u64)),
                )
            };
            let made: Vec<_> = keys.iter().map(again).collect();
            let ((all, late), (made_all, made_late)) = (of(&keys), of(&made));
            assert!(
                (made_all / all - 1.0).abs() < 0.05,
                "{window}: {all} {made_all}"
            );
            assert!(
                (made_late / late - 1.0).abs() < 0.08,
                "{window}: {late} {made_late}"
            );
        }
    }

    #[test]
    fn without_tables_accesses_come_at_any_time() {
        let spans = Spans::default();
        let mut dice = Dice::new(2);
        let mut last = 0.0;
        for _ in 0..10_000 {
            last += draw(&spans, 3, 0.5, &mut dice) / 10_000.0;
        }
        // Of two more accesses in a half the later one lies at two thirds of it.
        assert!((last - (0.5 + 0.5 * 2.0 / 3.0)).abs() < 0.01, "{last}");
    }
}
