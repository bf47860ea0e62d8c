//! X-SD-6: a cache of pages against one of whole files for the tables on a speed disk ([SPAN] Figure 13), in virtual time.

use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Lru, Rng, Shuffle, Zipfian};
use spanlith_env::emulated::{Direction, Model, Profile};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-6",
    title: "A cache of pages and one of files, by size, for the upper levels on a speed disk",
    document: "[SPAN] Figure 13",
    requirements: "R-SPAN-41",
    setup: "64 MB in pages of 4 KiB, of which 27 % are the upper levels on an emulated O and the rest is on S, as 27.3 of 100 GB were. 60 % of reads find \
            their key in the upper levels; keys by YCSB's Zipf, scattered over tables of 64 KiB. 200 000 reads (half, for mix A) by 32 threads, caches \
            of 5 to 45 % of the data by least recent use. A page that is missing is read alone; a file that is missing is read whole, in pieces of \
            64 KiB, and takes the place of files.",
    criterion: "pages over files in reads by second: at least 1.05 below 20 % of the data in each mix, never below 0.97, and 0.97 to 1.03 from 30 % \
                on; so they meet between 20 and 30 %",
    stores: Stores::OnDevices,
    run,
};

const PAGE: u64 = 4096;
/// Pages of a file.
const FILE_PAGES: u64 = 16;
/// Bytes of one request of those that read a file.
const PIECE: u64 = 64 << 10;
const THREADS: usize = 32;
/// Hundredths of the data that caches hold.
const SIZES: [u64; 9] = [5, 10, 15, 20, 25, 30, 35, 40, 45];
/// Hundredths of the data that are on the speed disk.
const UPPER: u64 = 27;
/// Reads of a hundred whose key is found there.
const UPPER_READS: u64 = 60;
/// Processor time of a read that a cache answers.
const LOOK_NANOS: u64 = 2_500;
const THETA: f64 = 0.99;

/// A load: reads of a hundred calls.
const MIXES: [(&str, u64); 2] = [("A", 50), ("B", 95)];

struct World {
    pages: u64,
    upper: u64,
    zipfian: Zipfian,
    scatter: Shuffle,
    below: Shuffle,
}

impl World {
    fn new(bytes: u64, seed: u64) -> Self {
        let pages = bytes / PAGE;
        let upper = pages * UPPER / 100;
        Self {
            pages,
            upper,
            zipfian: Zipfian::new(upper, THETA),
            scatter: Shuffle::new(upper, seed),
            below: Shuffle::new(pages - upper, seed + 1),
        }
    }

    /// The page that a read needs: on the speed disk, or below it.
    fn draw(&self, rng: &mut Rng) -> Option<u64> {
        let rank = self.zipfian.rank(rng.unit());
        match rng.below(100) < UPPER_READS {
            true => Some(self.scatter.place(rank)),
            false => None,
        }
    }

    fn below(&self, rng: &mut Rng) -> u64 {
        let pages = self.pages - self.upper;
        self.below.place(rng.below(pages))
    }

    /// Reads by second, and the share of those on the speed disk that the cache answers.
    fn run(&self, cache_percent: u64, by_file: bool, load: (u64, u64), seed: u64) -> Result<Rate> {
        let profile =
            |name| Profile::by_name(name).ok_or_else(|| Error::new("a device is missing"));
        let (mut fast, mut slow) = (Model::new(profile("O")?), Model::new(profile("S")?));
        let unit = if by_file { FILE_PAGES } else { 1 };
        let mut cache = Lru::new((self.pages * cache_percent / 100 / unit) as usize);
        let (read_percent, calls) = load;
        let mut rng = Rng::new(seed);
        let mut free = [0u64; THREADS];
        let (mut begun, mut reads) = (0, 0u64);
        // The first half warms the cache.
        for n in 0..2 * calls {
            if n == calls {
                cache.reset_counts();
                begun = free.iter().copied().max().unwrap_or(0);
                free = [begun; THREADS];
                reads = 0;
            }
            let Some(thread) = free.iter_mut().min() else {
                break;
            };
            if rng.below(100) >= read_percent {
                // A write goes to the log, beside the reads.
                *thread = fast.serve(*thread, Direction::Write, n * PAGE, PAGE) + LOOK_NANOS;
                continue;
            }
            reads += 1;
            let now = *thread + LOOK_NANOS;
            let Some(page) = self.draw(&mut rng) else {
                let place = self.below(&mut rng) * PAGE;
                *thread = slow.serve(now, Direction::Read, place, PAGE);
                continue;
            };
            let missed = cache.misses;
            cache.touch(page / unit);
            *thread = match (cache.misses > missed, by_file) {
                (false, _) => now,
                (true, false) => fast.serve(now, Direction::Read, page * PAGE, PAGE),
                (true, true) => read_file(&mut fast, now, page / unit),
            };
        }
        let end = free.iter().copied().max().unwrap_or(0);
        Ok(Rate {
            per_second: reads as f64 / ((end - begun).max(1) as f64 / 1e9),
            hits: cache.hits as f64 / (cache.hits + cache.misses).max(1) as f64,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    hits: f64,
}

/// When a file has been read that is asked for at `now`.
fn read_file(device: &mut Model, now: u64, file: u64) -> u64 {
    let bytes = FILE_PAGES * PAGE;
    let pieces = (0..bytes).step_by(PIECE as usize);
    let read = |at: u64| device.serve(now, Direction::Read, file * bytes + at, PIECE.min(bytes));
    pieces.map(read).max().unwrap_or(now)
}

fn judge(found: &mut Findings, mix: &str, ratios: &[f64]) {
    let of = |keep: &dyn Fn(u64) -> bool| {
        let kept = SIZES.iter().zip(ratios).filter(|(size, _)| keep(**size));
        kept.map(|(_, ratio)| *ratio).collect::<Vec<f64>>()
    };
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    found.check(
        format!("{mix}: pages over files below 20 %, least"),
        Bound::AtLeast(1.05),
        least(&of(&|size| size < 20)),
    );
    found.check(
        format!("{mix}: pages over files, least of all"),
        Bound::AtLeast(0.97),
        least(ratios),
    );
    found.check(
        format!("{mix}: pages over files from 30 % on, most"),
        Bound::AtMost(1.03),
        most(&of(&|size| size >= 30)),
    );
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let calls = bench.scaled(200_000, 20_000);
    let world = World::new(bench.scaled(64 << 20, 8 << 20), bench.seed(1));
    bench.expect(MIXES.len() as u64);
    for (mix, read_percent) in MIXES {
        bench.step(mix);
        let (mut rates, mut hits) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for size in SIZES {
            for (way, by_file) in [false, true].into_iter().enumerate() {
                let rate = world.run(size, by_file, (read_percent, calls), bench.seed(2))?;
                rates[way].push(rate.per_second / 1e3);
                hits[way].push(rate.hits * 100.0);
            }
        }
        let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(p, f)| p / f).collect();
        let places = || SIZES.map(|s| format!("{s} % of the data"));
        for (title, unit, rows) in [
            ("reads by second", "thousand", &rates),
            ("reads that the cache answers", "%", &hits),
        ] {
            found.figures.push(
                Figure::new(format!("{mix}: {title}"), unit, places())
                    .all_measured("pages", &rows[0])
                    .all_measured("files", &rows[1]),
            );
        }
        // The document's curves meet at 30 GB (A) and 25 GB (B) of 100.
        let meets = if mix == "A" { 30 } else { 25 };
        let printed = SIZES.map(|s| (s >= meets).then_some(1.0));
        found.figures.push(
            Figure::new(format!("{mix}: pages over files"), "times", places())
                .printed("[SPAN]", &printed)
                .all_measured("model", &ratios),
        );
        judge(&mut found, mix, &ratios);
    }
    found.note(
        "A model of the cache alone. The engine's cache holds blocks, which is the way of pages; it has none of files. That they meet where all \
         of the speed disk's tables fit follows from the set-up, as it did in the document.",
    );
    Ok(found)
}
