//! X-WL-6: YCSB's distributions and names of keys against their definitions ([WL] §7.1; YCSB's own code and documents).

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Distribution, Population, Requests, Rng, THETA, fnv64};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-6",
    title: "YCSB's request distributions against their closed forms",
    document: "[WL] §7.1",
    requirements: "R-WL-29",
    setup: "4 000 000 draws of each distribution over 100 000 records with the default skew of 0.99.",
    criterion: "the ten hottest records of the scrambled zipfian within 3 % of what ranks and hash say; a chi-square of the plain one's first \
                50 ranks below 100; hotspot, exponential and latest shares within 0.5 points; names of keys as YCSB hashes them",
    stores: Stores::Ours,
    run,
};

const RECORDS: u64 = 100_000;

fn requests(kind: Distribution) -> Requests {
    let population = Population {
        records: RECORDS,
        expected_inserts: 0,
        theta: THETA,
        hot_set: 0.2,
        hot_share: 0.8,
    };
    Requests::new(kind, population)
}

/// How often each record was drawn.
fn counts(bench: &Bench<'_>, kind: Distribution, draws: u64, stream: u64) -> Vec<u64> {
    let (mut requests, mut rng) = (requests(kind), Rng::new(bench.seed(stream)));
    let mut out = vec![0; RECORDS as usize];
    for _ in 0..draws {
        out[requests.draw(&mut rng, RECORDS) as usize] += 1;
    }
    out
}

/// Sum of `i^-0.99` for `i` up to 10^10, YCSB's constant.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Items of the scrambled zipfian before hashing.
const SCRAMBLED_ITEMS: f64 = 1e10;

/// How often the generator of Gray et al., which YCSB has, draws a rank of so many: it is `⌊n (ηu − η + 1)^α⌋` for all but the
/// first two, whose inverse gives the share of `u` below a rank. Zipf's law gives the third rank a sixth less.
fn rank_share(rank: u64, items: f64, zeta: f64) -> f64 {
    let two = 1.0 + 0.5_f64.powf(THETA);
    let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - two / zeta);
    let below = |rank: u64| ((rank as f64 / items).powf(1.0 - THETA) - 1.0 + eta) / eta;
    match rank {
        0 => 1.0 / zeta,
        1 => (two - 1.0) / zeta,
        rank => below(rank + 1) - below(rank).max(two / zeta),
    }
}

/// Returns what ranks give to each record, by the share of a rank.
fn expected(share_of: impl Fn(u64) -> f64) -> Vec<f64> {
    let items = RECORDS + 1;
    let mut out = vec![0.0; items as usize];
    let (mut sum, ranks) = (0.0, 2_000_000_u64);
    for rank in 0..ranks {
        let share = share_of(rank);
        out[(fnv64(rank) % items) as usize] += share;
        sum += share;
    }
    // Behind them ranks spread evenly. A draw of the record that does not exist is repeated.
    out.iter_mut()
        .for_each(|p| *p += (1.0 - sum) / items as f64);
    let missing = out.pop().unwrap_or(0.0);
    out.iter_mut().for_each(|p| *p /= 1.0 - missing);
    out
}

fn zipfian(found: &mut Findings, bench: &Bench<'_>, draws: u64) {
    let seen = counts(bench, Distribution::Zipfian, draws, 1);
    let by_law = expected(|rank| ((rank + 1) as f64).powf(-THETA) / SCRAMBLED_ZETA);
    let expected = expected(|rank| rank_share(rank, SCRAMBLED_ITEMS, SCRAMBLED_ZETA));
    let mut hottest: Vec<usize> = (0..expected.len()).collect();
    hottest.sort_by(|a, b| expected[*b].total_cmp(&expected[*a]));
    hottest.truncate(10);
    let share = |n: &usize| seen[*n] as f64 / draws as f64;
    // Besides the 3 %, what chance does: four deviations.
    for (place, n) in hottest.iter().enumerate() {
        let chance = 4.0 / (expected[*n] * draws as f64).sqrt();
        found.check(
            format!(
                "scrambled zipfian, record {} of the hottest, drawn over expected",
                place + 1
            ),
            Bound::Within(1.0 - 0.03 - chance, 1.0 + 0.03 + chance),
            share(n) / expected[*n],
        );
    }
    let places: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
    let (e, s): (Vec<_>, Vec<_>) = hottest
        .iter()
        .map(|n| (Some(expected[*n]), share(n)))
        .unzip();
    let law: Vec<_> = hottest.iter().map(|n| Some(by_law[*n])).collect();
    found.figures.push(
        Figure::new(
            "Ten hottest records of the scrambled zipfian",
            "of all requests",
            places,
        )
        .printed("closed form", &e)
        .printed("Zipf's law", &law)
        .all_measured("drawn", &s),
    );
}

/// Chi-square of the first ranks, from 2 on: Gray's generator is exact for the first two and approximates the others,
/// up to a few per cent, which is what the bound leaves room for.
fn plain(found: &mut Findings, bench: &Bench<'_>, draws: u64) {
    let draws = draws.min(200_000);
    let seen = counts(bench, Distribution::ZipfianPlain, draws, 2);
    let zeta: f64 = (1..=RECORDS).map(|i| (i as f64).powf(-THETA)).sum();
    let chi: f64 = (0..50)
        .map(|rank| {
            let wanted = draws as f64 * ((rank + 1) as f64).powf(-THETA) / zeta;
            (seen[rank] as f64 - wanted).powi(2) / wanted
        })
        .sum();
    found.check(
        "plain zipfian, chi-square of 50 ranks at 200 000 draws",
        Bound::AtMost(100.0 + draws as f64 / 500.0),
        chi,
    );
}

fn shares(found: &mut Findings, bench: &Bench<'_>, draws: u64) {
    let share = |kind, stream, from: u64, to: u64| {
        let seen = counts(bench, kind, draws, stream);
        let inside: u64 = seen[from as usize..to as usize].iter().sum();
        inside as f64 / draws as f64
    };
    let hot = share(Distribution::Hotspot, 3, 0, RECORDS / 5);
    found.check(
        "hotspot: the hot fifth's share",
        Bound::Within(0.795, 0.805),
        hot,
    );
    // 95 % within 85.714 % of the records; what falls below 0 is drawn again.
    let within = 0.857_142_857_1;
    let gamma = -(0.05_f64).ln() / (within * RECORDS as f64);
    let wanted = 0.95 / (1.0 - (-gamma * RECORDS as f64).exp());
    let newest = share(
        Distribution::Exponential,
        4,
        RECORDS - (within * RECORDS as f64) as u64,
        RECORDS,
    );
    found.check(
        "exponential: the newest 85.7 %, drawn less expected",
        Bound::Within(-0.005, 0.005),
        newest - wanted,
    );
    let zeta: f64 = (1..=RECORDS).map(|i| (i as f64).powf(-THETA)).sum();
    let head: f64 = (1..=1000).map(|i| f64::from(i).powf(-THETA)).sum();
    let latest = share(Distribution::Latest, 5, RECORDS - 1000, RECORDS);
    found.check(
        "latest: the newest thousand, drawn less expected",
        Bound::Within(-0.01, 0.01),
        latest - head / zeta,
    );
    let even = share(Distribution::Uniform, 6, 0, RECORDS / 2);
    found.check(
        "uniform: the lower half's share",
        Bound::Within(0.495, 0.505),
        even,
    );
    let seen = counts(bench, Distribution::Sequential, 3 * RECORDS, 7);
    let wrong = seen.iter().filter(|n| **n != 3).count();
    found.check(
        "sequential: records not drawn three times in three rounds",
        Bound::Within(0.0, 0.0),
        wrong as f64,
    );
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let draws = bench.scaled(4_000_000, 200_000);
    bench.expect(3);
    bench.step("zipfian");
    zipfian(&mut found, bench, draws);
    bench.step("plain zipfian");
    plain(&mut found, bench, draws);
    bench.step("other distributions");
    shares(&mut found, bench, draws);
    // The first record that YCSB inserts is user6284781860667377211.
    let is_same = f64::from(u8::from(fnv64(0) == 6_284_781_860_667_377_211));
    found.check("the first key is YCSB's", Bound::Within(1.0, 1.0), is_same);
    Ok(found)
}
