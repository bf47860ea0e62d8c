//! Synthetic days of three production databases with their published marginals ([WL] §4, R-WL-15 to R-WL-20): UDB, ZippyDB
//! and UP2X.
//!
//! A day is a list of events. How often each key is asked for is decided first, by laws of counts with the published steps,
//! so that shares of keys and of accesses are exact up to the draw; the events then get times, by a rate with the
//! published daily course, and are sorted by them. Keys with many accesses lie side by side, in groups that lie anywhere.

use super::mixgraph::pareto;
use super::{Rng, Shuffle};

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A point read.
    Get,
    /// A write of a value.
    Put,
    /// An operand of a merge operator.
    Merge,
    /// A deletion.
    Delete,
    /// A deletion of a key that was put once.
    SingleDelete,
    /// A scan.
    Scan,
}

/// One event of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since the day began.
    pub at: u64,
    /// Place of the family in [`Reference::families`].
    pub family: usize,
    /// Its type.
    pub action: Action,
    /// Number of its key in the family.
    pub key: u64,
    /// Bytes of the value, of a put or a merge.
    pub value_size: u64,
    /// Entries that a scan shows.
    pub scan_length: u64,
}

/// A law of whole numbers: shares and from where to where; inside a part small numbers come more often, as `1/n`.
type Steps = &'static [(f64, u64, u64)];

fn draw(rng: &mut Rng, steps: Steps) -> u64 {
    let mut u = rng.unit() * steps.iter().map(|s| s.0).sum::<f64>();
    for &(share, low, high) in steps {
        if u < share {
            let span = (high as f64 + 1.0) / low.max(1) as f64;
            let value = low.max(1) as f64 * span.powf(u / share);
            return (value as u64).clamp(low, high);
        }
        u -= share;
    }
    steps.last().map_or(0, |s| s.2)
}

/// Sizes of values.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    Steps(Steps),
    /// Theta, k, sigma, and the largest.
    Pareto((f64, f64, f64), u64),
    /// Median and sigma of a log-normal law, least and most.
    LogNormal(f64, f64, u64, u64),
}

fn size(rng: &mut Rng, sizes: Sizes) -> u64 {
    match sizes {
        Sizes::Steps(steps) => draw(rng, steps),
        Sizes::Pareto(law, most) => {
            let value = pareto(1.0 - rng.unit(), law).ceil();
            (value.max(1.0) as u64).min(most)
        }
        Sizes::LogNormal(median, sigma, least, most) => {
            let (u, v) = (1.0 - rng.unit(), rng.unit());
            let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
            ((median * (sigma * normal).exp()) as u64).clamp(least, most)
        }
    }
}

/// Events of one type in a family: share of all events of the day, and how often a key comes.
type Part = (Action, f64, Steps);

/// One family of a database.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    parts: &'static [Part],
    keys: Steps,
    values: Sizes,
    scans: Steps,
}

/// A database whose days can be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Its name.
    pub name: &'static str,
    /// Its families.
    pub families: &'static [Family],
    /// Amplitude of the daily course of the rate, as a share of it, and the hour of its peak.
    pub course: (f64, f64),
}

const ONCE: Steps = &[(1.0, 1, 1)];

/// ZippyDB: metadata of an object store (R-WL-16).
pub const ZIPPYDB: Reference = Reference {
    name: "zippydb",
    families: &[Family {
        name: "default",
        parts: &[
            (
                Action::Get,
                0.78,
                &[
                    (0.8, 1, 1),
                    (0.06, 2, 19),
                    (0.13, 20, 99),
                    (0.01, 100, 2570),
                ],
            ),
            (
                Action::Put,
                0.13,
                &[(0.73, 1, 1), (0.22, 2, 4), (0.05, 5, 11)],
            ),
            (Action::Delete, 0.06, ONCE),
            (
                Action::Scan,
                0.03,
                &[
                    (0.55, 1, 1),
                    (0.06, 11, 11),
                    (0.11, 12, 12),
                    (0.05, 13, 13),
                    (0.1, 23, 23),
                    (0.1, 46, 46),
                    (0.03, 24, 31),
                ],
            ),
        ],
        // The shares that Table 2's mean of 47.9 and deviation of 3.7 leave: almost all at the lower end.
        keys: &[(0.93, 48, 48), (0.0625, 49, 53), (0.0075, 90, 91)],
        values: Sizes::Pareto((0.0, 0.2615, 25.45), 1 << 16),
        scans: &[(0.7, 1, 10), (0.3, 11, 200)],
    }],
    course: (0.2, 17.0),
};

/// UP2X: counters of user activity for models, merges above all (R-WL-17).
pub const UP2X: Reference = Reference {
    name: "up2x",
    families: &[Family {
        name: "default",
        parts: &[
            (
                Action::Merge,
                0.9253,
                &[(0.75, 1, 9), (0.21, 10, 99), (0.04, 100, 900)],
            ),
            (
                Action::Get,
                0.0746,
                &[(0.5, 1, 9), (0.492, 10, 99), (0.008, 100, 200)],
            ),
            (Action::Put, 0.0001, &[(1.0, 1, 60)]),
        ],
        keys: &[(0.82, 9, 9), (0.18, 17, 17)],
        values: Sizes::Steps(&[(0.4, 2, 9), (0.52, 64, 64), (0.08, 10, 63)]),
        scans: ONCE,
    }],
    course: (0.2, 15.0),
};

/// UDB: a social graph under a layer of SQL (R-WL-15, R-WL-18).
pub const UDB: Reference = Reference {
    name: "udb",
    families: &[
        Family {
            name: "Object",
            parts: &[
                (
                    Action::Get,
                    0.13,
                    &[(0.62, 1, 1), (0.36, 2, 20), (0.02, 21, 300)],
                ),
                (
                    Action::Put,
                    0.05,
                    &[(0.78, 1, 1), (0.21, 2, 10), (0.01, 11, 50)],
                ),
                (Action::Delete, 0.01, ONCE),
            ],
            keys: &[(1.0, 14, 20)],
            values: Sizes::LogNormal(235.0, 1.85, 16, 10_240),
            scans: ONCE,
        },
        Family {
            name: "Assoc",
            parts: &[
                (
                    Action::Get,
                    0.2,
                    &[(0.27, 1, 1), (0.67, 2, 20), (0.06, 21, 300)],
                ),
                (
                    Action::Put,
                    0.1,
                    &[(0.77, 1, 1), (0.215, 2, 10), (0.015, 11, 50)],
                ),
                (Action::Scan, 0.09, &[(0.992, 1, 1), (0.008, 2, 4)]),
                (Action::Delete, 0.03, ONCE),
            ],
            keys: &[(0.9, 24, 24), (0.1, 28, 28)],
            values: Sizes::LogNormal(44.0, 0.55, 10, 200),
            scans: &[
                (0.6, 1, 1),
                (0.2, 2, 100),
                (0.08, 200, 200),
                (0.12, 101, 2000),
            ],
        },
        Family {
            name: "Assoc_count",
            parts: &[
                (
                    Action::Get,
                    0.12,
                    &[(0.61, 1, 1), (0.37, 2, 20), (0.02, 21, 300)],
                ),
                (
                    Action::Put,
                    0.06,
                    &[(0.77, 1, 1), (0.215, 2, 10), (0.015, 11, 50)],
                ),
            ],
            keys: &[(1.0, 20, 20)],
            values: Sizes::Steps(&[(1.0, 20, 20)]),
            scans: ONCE,
        },
        Family {
            name: "Object_2ry",
            parts: &[
                (Action::Scan, 0.02, &[(0.995, 1, 1), (0.005, 2, 3)]),
                (Action::Put, 0.03, ONCE),
                (Action::Delete, 0.005, ONCE),
            ],
            keys: &[(1.0, 20, 34)],
            values: Sizes::Steps(&[(0.5, 1, 1), (0.5, 6, 6)]),
            scans: &[(0.65, 1, 1), (0.35, 2, 50)],
        },
        Family {
            name: "Assoc_2ry",
            parts: &[
                (Action::Scan, 0.05, &[(0.993, 1, 1), (0.007, 2, 4)]),
                (Action::Put, 0.05, ONCE),
                (Action::SingleDelete, 0.025, ONCE),
            ],
            keys: &[(1.0, 62, 66)],
            values: Sizes::Steps(&[(0.4, 1, 1), (0.3, 6, 6), (0.3, 16, 16)]),
            scans: &[(0.62, 1, 1), (0.28, 2, 100), (0.1, 101, 1000)],
        },
        Family {
            name: "Non_SG",
            parts: &[
                (Action::Get, 0.02, &[(0.65, 1, 1), (0.35, 2, 50)]),
                (Action::Put, 0.01, &[(0.8, 1, 1), (0.2, 2, 10)]),
            ],
            keys: &[(1.0, 16, 34)],
            values: Sizes::LogNormal(100.0, 1.0, 8, 4096),
            scans: ONCE,
        },
    ],
    course: (0.35, 17.0),
};

/// All of them.
pub const REFERENCES: [Reference; 3] = [UDB, ZIPPYDB, UP2X];

const DAY: f64 = 86_400.0e6;
/// Keys of a group that lies together.
const GROUP: u64 = 64;

impl Reference {
    /// The one of a name.
    pub fn of(name: &str) -> Option<Self> {
        REFERENCES.into_iter().find(|r| r.name == name)
    }

    /// A time of the day, by its course.
    fn time(&self, rng: &mut Rng) -> u64 {
        let (amplitude, peak) = self.course;
        loop {
            let hour = rng.unit() * 24.0;
            let rate = 1.0 + amplitude * (std::f64::consts::TAU * (hour - peak) / 24.0).cos();
            if rng.unit() * (1.0 + amplitude) < rate {
                return (hour / 24.0 * DAY) as u64;
            }
        }
    }

    /// Bytes of a key; the same for each event that asks for it.
    pub fn key_size(&self, family: usize, key: u64) -> u64 {
        let mut rng = Rng::new(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ family as u64);
        draw(&mut rng, self.families[family].keys)
    }

    /// A key's bytes, in the order of its number.
    pub fn key(&self, family: usize, key: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&key.to_be_bytes());
        let size = usize::try_from(self.key_size(family, key)).unwrap_or(8);
        out.resize(size.max(8), b'0');
    }

    /// About `count` events of a day, in the order of their times.
    pub fn day(&self, count: u64, seed: u64) -> Vec<Event> {
        let mut rng = Rng::new(seed);
        let mut events = Vec::new();
        for (number, family) in self.families.iter().enumerate() {
            for &(action, share, counts) in family.parts {
                let wanted = (count as f64 * share).round() as u64;
                let mut times = Vec::new();
                let mut sum = 0;
                while sum < wanted {
                    let n = draw(&mut rng, counts).min(wanted - sum);
                    sum += n;
                    times.push(n);
                }
                self.part(&mut events, &mut rng, (number, action), times);
            }
        }
        events.sort_by_key(|e: &Event| (e.at, e.family, e.key));
        events
    }

    /// The events of one type in a family, given how often each key comes.
    fn part(
        &self,
        events: &mut Vec<Event>,
        rng: &mut Rng,
        (number, action): (usize, Action),
        mut times: Vec<u64>,
    ) {
        let family = &self.families[number];
        times.sort_unstable_by(|a, b| b.cmp(a));
        let groups = (times.len() as u64).div_ceil(GROUP).max(1);
        let places = Shuffle::new(groups, rng.next_u64());
        for (rank, n) in (0_u64..).zip(times) {
            let key = places.place(rank / GROUP) * GROUP + rank % GROUP;
            for _ in 0..n {
                let is_write = matches!(action, Action::Put | Action::Merge);
                events.push(Event {
                    at: self.time(rng),
                    family: number,
                    action,
                    key,
                    value_size: if is_write {
                        size(rng, family.values)
                    } else {
                        0
                    },
                    scan_length: match action {
                        Action::Scan => draw(rng, family.scans),
                        _ => 0,
                    },
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const EVENTS: u64 = 300_000;
    const SEED: u64 = 17;

    /// How often each key of a family comes with an action.
    fn counts(events: &[Event], family: usize, action: Action) -> Vec<u64> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for e in events
            .iter()
            .filter(|e| e.family == family && e.action == action)
        {
            *counts.entry(e.key).or_default() += 1;
        }
        counts.into_values().collect()
    }

    fn share<T>(all: &[T], is: impl Fn(&T) -> bool) -> f64 {
        all.iter().filter(|x| is(x)).count() as f64 / all.len().max(1) as f64
    }

    #[track_caller]
    fn near(got: f64, want: f64, tolerance: f64) {
        assert!(
            (got - want).abs() <= tolerance,
            "{got} for {want}, seed {SEED}"
        );
    }

    #[test]
    fn zippydb_has_the_published_mix_counts_and_sizes() {
        let events = ZIPPYDB.day(EVENTS, SEED);
        for (action, want) in [
            (Action::Get, 0.78),
            (Action::Put, 0.13),
            (Action::Delete, 0.06),
            (Action::Scan, 0.03),
        ] {
            near(share(&events, |e| e.action == action), want, 0.002);
        }
        let mean = |all: &[u64]| all.iter().sum::<u64>() as f64 / all.len() as f64;
        let gets = counts(&events, 0, Action::Get);
        near(share(&gets, |n| *n == 1), 0.8, 0.01);
        near(share(&gets, |n| *n >= 100), 0.01, 0.003);
        near(mean(&gets), 15.2, 1.5);
        let hot: u64 = gets.iter().filter(|n| **n >= 100).sum();
        near(hot as f64 / gets.iter().sum::<u64>() as f64, 0.5, 0.06);
        let puts = counts(&events, 0, Action::Put);
        near(share(&puts, |n| *n == 1), 0.73, 0.01);
        near(mean(&puts), 1.7, 0.15);
        let scans = counts(&events, 0, Action::Scan);
        near(mean(&scans), 10.9, 1.0);
        near(share(&scans, |n| *n == 1), 0.55, 0.04);
        let sizes: Vec<u64> = (0..20_000).map(|k| ZIPPYDB.key_size(0, k)).collect();
        assert!(
            sizes
                .iter()
                .all(|s| (48..=53).contains(s) || (90..=91).contains(s))
        );
        let written: Vec<&Event> = events.iter().filter(|e| e.action == Action::Put).collect();
        near(share(&written, |e| e.value_size > 1024), 0.0001, 0.0006);
    }

    #[test]
    fn up2x_merges_and_its_values_are_small_or_sixty_four() {
        let events = UP2X.day(EVENTS, SEED);
        near(share(&events, |e| e.action == Action::Merge), 0.9253, 0.002);
        near(share(&events, |e| e.action == Action::Get), 0.0746, 0.002);
        let merges = counts(&events, 0, Action::Merge);
        near(share(&merges, |n| *n >= 10), 0.25, 0.02);
        near(share(&merges, |n| *n >= 100), 0.04, 0.01);
        let gets = counts(&events, 0, Action::Get);
        near(share(&gets, |n| *n >= 10), 0.5, 0.05);
        let written: Vec<&Event> = events
            .iter()
            .filter(|e| e.action == Action::Merge)
            .collect();
        near(share(&written, |e| e.value_size < 10), 0.4, 0.01);
        near(share(&written, |e| e.value_size == 64), 0.52, 0.01);
        assert!((0..1000).all(|k| [9, 17].contains(&UP2X.key_size(0, k))));
    }

    #[test]
    fn udb_has_six_families_with_the_published_popularity() {
        let total: f64 = UDB.families.iter().flat_map(|f| f.parts).map(|p| p.1).sum();
        near(total, 1.0, 1e-9);
        let events = UDB.day(EVENTS, SEED);
        assert_eq!(UDB.families.len(), 6);
        // More than 70 % of the keys of Assoc are read at least twice, less than 40 % of the others.
        for (family, name) in UDB.families.iter().enumerate().map(|(n, f)| (n, f.name)) {
            let gets = counts(&events, family, Action::Get);
            let twice = share(&gets, |n| *n >= 2);
            match name {
                "Assoc" => assert!(twice > 0.7, "{twice}"),
                _ => assert!(twice < 0.4, "{name} {twice}"),
            }
            let puts = counts(&events, family, Action::Put);
            assert!(share(&puts, |n| *n == 1) > 0.75 && share(&puts, |n| *n > 10) < 0.02);
            let scans = counts(&events, family, Action::Scan);
            assert!(share(&scans, |n| *n > 1) < 0.01, "{name}");
        }
        let scans: Vec<&Event> = events
            .iter()
            .filter(|e| e.family == 1 && e.action == Action::Scan)
            .collect();
        near(share(&scans, |e| e.scan_length == 1), 0.6, 0.01);
        near(share(&scans, |e| e.scan_length > 100), 0.2, 0.01);
        let has = |family: usize, action| counts(&events, family, action).len();
        assert!(has(4, Action::SingleDelete) > 0 && has(2, Action::Delete) == 0);
        let mut objects: Vec<u64> = events
            .iter()
            .filter(|e| e.family == 0 && e.action == Action::Put)
            .map(|e| e.value_size)
            .collect();
        objects.sort_unstable();
        near(objects[objects.len() / 2] as f64, 235.0, 15.0);
        assert!(share(&objects, |s| *s > 1024) > 0.2);
    }

    #[test]
    fn keys_have_the_published_mean_sizes() {
        for (database, want) in [(&UDB, 27.1), (&ZIPPYDB, 47.9), (&UP2X, 10.45)] {
            let events = database.day(EVENTS, SEED);
            let size = |e: &Event| database.key_size(e.family, e.key) as f64;
            let mean = events.iter().map(size).sum::<f64>() / events.len() as f64;
            near(mean / want, 1.0, 0.02);
        }
    }

    #[test]
    fn days_have_their_course_are_in_order_and_follow_from_the_seed() {
        let events = UDB.day(60_000, SEED);
        assert!(events.is_sorted_by_key(|e| e.at));
        let hour = |e: &Event| e.at / 3_600_000_000;
        let at = |from, to| share(&events, |e| (from..to).contains(&hour(e)));
        assert!(at(15, 19) > 1.5 * at(3, 7), "{} {}", at(15, 19), at(3, 7));
        assert_eq!(events, UDB.day(60_000, SEED));
        assert_ne!(events, UDB.day(60_000, SEED + 1));
    }
}
