//! Which record a request asks for: the request distributions of YCSB.
//!
//! The zipfian generator is that of Gray et al. with YCSB's constants. YCSB's default "zipfian" is the
//! scrambled one: ranks are drawn from 10^10 items and hashed to record numbers, so that the hot
//! records lie scattered and their popularity does not depend on how many records there are.

use super::Rng;

/// Skew of YCSB's zipfian distributions.
pub const THETA: f64 = 0.99;
/// Items that the scrambled zipfian draws from, before hashing.
const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// Generalised harmonic number of 10^10 items at [`THETA`], as YCSB has it.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;
/// Share of the records that the exponential distribution looks at...
const EXPONENTIAL_FRACTION: f64 = 0.857_142_857_1;
/// ...with this share of its requests.
const EXPONENTIAL_SHARE: f64 = 0.95;
/// Draws of which one nearly surely hits a record that exists.
const DRAWS_MAX: u32 = 10_000;

/// FNV-1 over the eight octets of a number, low first, xor before multiplication, as YCSB hashes
/// record numbers: the absolute value of the signed result.
pub fn fnv64(value: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for octet in value.to_le_bytes() {
        hash = (hash ^ u64::from(octet)).wrapping_mul(1_099_511_628_211);
    }
    hash.cast_signed().unsigned_abs()
}

/// Sum of `i^-theta` for `i` in `1..=n`: a head term by term, the rest by Euler and Maclaurin, exact to
/// ten digits.
fn zeta(n: u64, theta: f64) -> f64 {
    const HEAD: u64 = 200;
    let term = |i: u64| (i as f64).powf(-theta);
    let head: f64 = (1..=n.min(HEAD)).map(term).sum();
    if n <= HEAD {
        return head;
    }
    let (from, to) = (HEAD as f64, n as f64);
    let integral = if (theta - 1.0).abs() < 1e-9 {
        (to / from).ln()
    } else {
        (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta)
    };
    let ends = (term(n) - term(HEAD)) / 2.0;
    let slopes = theta / 12.0 * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0));
    head + integral + ends + slopes
}

/// Ranks from 0, each less often than the one before: probability of rank `i` about
/// `1 / (zeta * (i + 1)^theta)`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `items` items, at least one; `theta` in 0..1 is the skew.
    pub fn new(items: u64, theta: f64) -> Self {
        let items = items.max(1);
        Self::with_zeta(items, theta, zeta(items, theta))
    }

    fn with_zeta(items: u64, theta: f64, zeta_of_items: f64) -> Self {
        let eta =
            (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta(2, theta) / zeta_of_items);
        Self {
            items,
            theta,
            zeta: zeta_of_items,
            eta,
        }
    }

    /// The rank that a number in 0..1 falls on.
    pub fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) || self.items == 2 {
            return 1;
        }
        let share = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        ((self.items as f64 * share) as u64).min(self.items - 1)
    }
}

/// Which records requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// YCSB's zipfian: hot records scattered over all
    Zipfian,
    /// Zipfian without scrambling: the lowest record numbers are the hot ones
    ZipfianPlain,
    /// The newest records are the hot ones
    Latest,
    /// All records alike
    Uniform,
    /// A share of the records gets a share of the requests
    Hotspot,
    /// 95 % of the requests to the newest 85.7 % of the records, falling off exponentially
    Exponential,
    /// One after the other, again from the first after the last
    Sequential,
}

/// Names of the distributions, and what they are.
pub const DISTRIBUTIONS: [(&str, Distribution, &str); 7] = [
    (
        "zipfian",
        Distribution::Zipfian,
        "YCSB's: hot records scattered over all",
    ),
    (
        "zipfian-plain",
        Distribution::ZipfianPlain,
        "the lowest record numbers are hot",
    ),
    ("latest", Distribution::Latest, "the newest records are hot"),
    ("uniform", Distribution::Uniform, "all records alike"),
    (
        "hotspot",
        Distribution::Hotspot,
        "a share of the records gets a share of the requests",
    ),
    (
        "exponential",
        Distribution::Exponential,
        "95 % of the requests to the newest 85.7 % of the records",
    ),
    (
        "sequential",
        Distribution::Sequential,
        "one after the other",
    ),
];

impl std::str::FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = DISTRIBUTIONS.iter().find(|d| d.0 == text);
        row.map(|d| d.1).ok_or_else(|| {
            let names: Vec<&str> = DISTRIBUTIONS.iter().map(|d| d.0).collect();
            format!("unknown distribution '{text}': one of {}", names.join(", "))
        })
    }
}

/// Describes what the distributions need to know.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// Records when the run begins.
    pub records: u64,
    /// Records that the run is expected to insert.
    pub expected_inserts: u64,
    /// Skew of the zipfian distributions.
    pub theta: f64,
    /// Share of the records that is hot.
    pub hot_set: f64,
    /// Share of the requests that goes there.
    pub hot_share: f64,
}

/// Draws record numbers.
#[derive(Clone, Debug)]
pub struct Requests {
    kind: Distribution,
    population: Population,
    zipfian: Option<Zipfian>,
    next: u64,
}

impl Requests {
    /// Requests of a population.
    pub fn new(kind: Distribution, population: Population) -> Self {
        let theta = population.theta;
        let zipfian = match kind {
            Distribution::Zipfian if (theta - THETA).abs() < 1e-12 => {
                Some(Zipfian::with_zeta(SCRAMBLED_ITEMS, theta, SCRAMBLED_ZETA))
            }
            Distribution::Zipfian => Some(Zipfian::new(SCRAMBLED_ITEMS, theta)),
            Distribution::ZipfianPlain | Distribution::Latest => {
                Some(Zipfian::new(population.records, theta))
            }
            _ => None,
        };
        Self {
            kind,
            population,
            zipfian,
            next: 0,
        }
    }

    /// A record below `count`, the number of records that exist now; 0 if there are none.
    pub fn draw(&mut self, rng: &mut Rng, count: u64) -> u64 {
        for _ in 0..DRAWS_MAX {
            match self.attempt(rng, count) {
                Some(n) if n < count => return n,
                _ => {}
            }
        }
        rng.below(count)
    }

    fn attempt(&mut self, rng: &mut Rng, count: u64) -> Option<u64> {
        let p = &self.population;
        match self.kind {
            Distribution::Zipfian => {
                let items = p.records + 2 * p.expected_inserts + 1;
                let rank = self.zipfian.as_ref()?.rank(rng.unit());
                Some(fnv64(rank) % items)
            }
            Distribution::ZipfianPlain => Some(self.zipfian.as_ref()?.rank(rng.unit())),
            Distribution::Latest => {
                let zipfian = self.zipfian.as_mut()?;
                if zipfian.items != count.max(1) {
                    *zipfian = Zipfian::new(count, zipfian.theta);
                }
                (count.checked_sub(1)?).checked_sub(zipfian.rank(rng.unit()))
            }
            Distribution::Uniform => Some(rng.below(p.records)),
            Distribution::Hotspot => {
                let hot = ((p.records as f64 * p.hot_set) as u64).clamp(1, p.records.max(1));
                if hot >= p.records || rng.unit() < p.hot_share {
                    Some(rng.below(hot))
                } else {
                    Some(hot + rng.below(p.records - hot))
                }
            }
            Distribution::Exponential => {
                let gamma =
                    -(1.0 - EXPONENTIAL_SHARE).ln() / (p.records as f64 * EXPONENTIAL_FRACTION);
                let back = -(1.0 - rng.unit()).ln() / gamma;
                (count.checked_sub(1)?).checked_sub(back as u64)
            }
            Distribution::Sequential => {
                let n = self.next;
                self.next = (n + 1) % count.max(1);
                Some(n)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 1000;

    fn population(records: u64) -> Population {
        Population {
            records,
            expected_inserts: 0,
            theta: THETA,
            hot_set: 0.2,
            hot_share: 0.8,
        }
    }

    /// How often each record is asked for in so many draws.
    fn counts(kind: Distribution, draws: u64) -> Vec<u64> {
        let mut requests = Requests::new(kind, population(RECORDS));
        let seed = 11;
        let mut rng = Rng::new(seed);
        let mut counts = vec![0; RECORDS as usize];
        for _ in 0..draws {
            counts[requests.draw(&mut rng, RECORDS) as usize] += 1;
        }
        assert_eq!(counts.iter().sum::<u64>(), draws, "seed {seed}");
        counts
    }

    #[test]
    fn record_numbers_are_hashed_as_ycsb_does() {
        // The first records of every YCSB database with hashed order of insertion.
        let known = [
            6_284_781_860_667_377_211,
            8_517_097_267_634_966_620,
            1_820_151_046_732_198_393,
            4_052_466_453_699_787_802,
            3_232_700_585_171_816_769,
        ];
        for (n, hash) in (0..).zip(known) {
            assert_eq!(fnv64(n), hash, "{n}");
        }
    }

    #[test]
    fn sums_of_powers_are_those_of_term_by_term_and_of_ycsb() {
        for (n, theta) in [(1, 0.99), (2, 0.99), (201, 0.5), (5000, 0.99), (5000, 1.0)] {
            let exact: f64 = (1..=n).map(|i| (i as f64).powf(-theta)).sum();
            let close = zeta(n, theta);
            assert!((close - exact).abs() < 1e-8 * exact, "{n}: {close} {exact}");
        }
        let ycsb = zeta(10_000_000_000, THETA);
        assert!((ycsb - SCRAMBLED_ZETA).abs() < 1e-6, "{ycsb}");
    }

    #[test]
    fn zipfian_ranks_are_as_frequent_as_the_closed_form_says() {
        let zipfian = Zipfian::new(RECORDS, THETA);
        let (seed, draws) = (5, 400_000_u64);
        let mut rng = Rng::new(seed);
        let mut seen = vec![0_u64; RECORDS as usize];
        for _ in 0..draws {
            seen[zipfian.rank(rng.unit()) as usize] += 1;
        }
        // The first two ranks are exact in Gray's method; the rest follows the curve, in groups.
        let share = |from: usize, to: usize| {
            (from..to)
                .map(|i| ((i + 1) as f64).powf(-THETA))
                .sum::<f64>()
                / zipfian.zeta
        };
        for (from, to, tolerance) in [
            (0, 1, 0.02),
            (1, 2, 0.02),
            (2, 10, 0.15),
            (10, 100, 0.05),
            (100, 1000, 0.05),
        ] {
            let got = seen[from..to].iter().sum::<u64>() as f64 / draws as f64;
            let want = share(from, to);
            assert!(
                (got - want).abs() < want * tolerance,
                "ranks {from} to {to}: {got} for {want}, seed {seed}"
            );
        }
    }

    #[test]
    fn the_hottest_record_of_the_scrambled_zipfian_gets_3_78_percent() {
        let draws = 400_000;
        let counts = counts(Distribution::Zipfian, draws);
        let hottest = (fnv64(0) % (RECORDS + 1)) as usize;
        let share = counts[hottest] as f64 / draws as f64;
        // Others hash to the same record, and draws of record 1000 are repeated: a little more.
        assert!((0.0378..0.041).contains(&share), "{share}");
        assert_eq!(counts.iter().max(), Some(&counts[hottest]));
        assert!(counts.iter().filter(|&&c| c > 0).count() > 990);
    }

    #[test]
    fn latest_asks_for_the_newest_most() {
        let counts = counts(Distribution::Latest, 100_000);
        assert!(
            counts[999] > counts[998] && counts[998] > counts[990] && counts[990] > counts[500]
        );
        let share = counts[999] as f64 / 100_000.0;
        let want = 1.0 / zeta(RECORDS, THETA);
        assert!((share - want).abs() < want * 0.05, "{share} {want}");
        let mut grown = Requests::new(Distribution::Latest, population(10));
        let mut rng = Rng::new(3);
        assert!((0..1000).any(|_| grown.draw(&mut rng, 500) == 499));
    }

    #[test]
    fn the_hot_spot_is_the_first_fifth_with_four_fifths_of_the_requests() {
        let counts = counts(Distribution::Hotspot, 100_000);
        let hot = counts[..200].iter().sum::<u64>() as f64 / 100_000.0;
        assert!((hot - 0.8).abs() < 0.01, "{hot}");
        assert!(counts.iter().all(|&c| c > 0));
    }

    #[test]
    fn exponential_puts_95_percent_on_the_newest_six_sevenths() {
        let counts = counts(Distribution::Exponential, 100_000);
        let newest = counts[143..].iter().sum::<u64>() as f64 / 100_000.0;
        // A draw before the first record is repeated.
        let mass = 1.0 - (-(1.0_f64 - 0.95).ln() / -EXPONENTIAL_FRACTION).exp();
        assert!((newest - 0.95 / mass).abs() < 0.01, "{newest} {mass}");
    }

    #[test]
    fn uniform_and_sequential_reach_every_record() {
        let uniform = counts(Distribution::Uniform, 200_000);
        assert!(uniform.iter().all(|&c| (120..290).contains(&c)));
        assert!(
            counts(Distribution::Sequential, 3000)
                .iter()
                .all(|&c| c == 3)
        );
    }

    #[test]
    fn populations_of_none_and_one_end() {
        for (name, kind, _) in DISTRIBUTIONS {
            assert_eq!(name.parse(), Ok(kind));
            for records in [0, 1, 2] {
                let mut requests = Requests::new(kind, population(records));
                let n = requests.draw(&mut Rng::new(1), records);
                assert!(n < records.max(1), "{kind:?} of {records}");
            }
        }
    }
}
