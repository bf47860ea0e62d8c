//! mixgraph: the load that models of production workloads generate ([WL] §7, A.3).
//!
//! Two semantics. [`Semantics::Tool`] is what db_bench of RocksDB does, number for number: one draw of
//! a Mersenne Twister decides type, key and sizes, popular keys are hashed over their range, sizes beyond the maximum wrap
//! around. [`Semantics::Paper`] is what the text describes: independent draws, hot keys side by side in their range,
//! sizes drawn again when they are too large.

use super::{Rng, Shuffle, Twister};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// db_bench's.
    Tool,
    /// The text's.
    Paper,
}

/// Parameters, by the names of db_bench's flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Keys of the key space, at least one.
    pub num: u64,
    /// Ranges into which it is divided.
    pub keyrange_num: u64,
    /// Two-term exponential of the shares of ranges; all 0: no ranges.
    pub keyrange_dist: [f64; 4],
    /// Power function `a·x^b` of the popularity of keys; `a` or `b` 0: all alike.
    pub key_dist: (f64, f64),
    /// Generalised Pareto distribution of value sizes: theta, k, sigma.
    pub value: (f64, f64, f64),
    /// The same of scan lengths.
    pub iter: (f64, f64, f64),
    /// Shares of gets, puts and seeks; any sum above 0.
    pub ratios: [f64; 3],
    /// Largest value.
    pub value_max: u64,
    /// Longest scan.
    pub scan_max: u64,
}

/// Which parts of the model are used ([WL] §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Popularity without place: keys are scattered.
    AllRandom,
    /// Popular keys, no ranges.
    AllDist,
    /// Popular ranges, keys without order inside.
    PrefixRandom,
    /// Popular ranges with popular keys inside.
    PrefixDist,
}

/// The variants and their names.
pub const VARIANTS: [(&str, Variant); 4] = [
    ("all_random", Variant::AllRandom),
    ("all_dist", Variant::AllDist),
    ("prefix_random", Variant::PrefixRandom),
    ("prefix_dist", Variant::PrefixDist),
];

impl Model {
    /// The published model of ZippyDB over so many keys.
    pub fn zippydb(num: u64) -> Self {
        Self {
            num: num.max(1),
            keyrange_num: 30,
            keyrange_dist: [14.18, -2.917, 0.0164, -0.08082],
            key_dist: (0.002_312, 0.3467),
            value: (0.0, 0.2615, 25.45),
            iter: (0.0, 2.517, 14.236),
            ratios: [0.83, 0.14, 0.03],
            value_max: 1024,
            scan_max: 10_000,
        }
    }

    /// The published model of UDB's Assoc family (Figure 15).
    pub fn assoc(num: u64) -> Self {
        Self {
            value: (0.0, 0.1033, 39.0),
            ratios: [0.806, 0.159, 0.035],
            ..Self::zippydb(num)
        }
    }

    /// With the parts that a variant leaves out switched off, as the flags of the tool do.
    pub fn variant(mut self, variant: Variant) -> Self {
        if matches!(variant, Variant::AllRandom | Variant::AllDist) {
            self.keyrange_dist = [0.0; 4];
        }
        if matches!(variant, Variant::AllRandom | Variant::PrefixRandom) {
            self.key_dist = (0.0, 0.0);
        }
        self
    }

    fn has_ranges(&self) -> bool {
        self.keyrange_dist.iter().any(|p| *p != 0.0)
    }

    fn all_keys_alike(&self) -> bool {
        self.key_dist.0 == 0.0 || self.key_dist.1 == 0.0
    }

    /// Keys of a range.
    fn range_size(&self) -> u64 {
        (self.num / self.keyrange_num.max(1)).max(1)
    }

    /// Share of range `x`, counted from 1, not normalised.
    fn share(&self, x: u64) -> f64 {
        let [a, b, c, d] = self.keyrange_dist;
        let x = x as f64;
        let p = a * (b * x).exp() + c * (d * x).exp();
        if p < 1e-16 { 0.0 } else { p }
    }
}

/// Type of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A point read.
    Get,
    /// A write of a value.
    Put,
    /// A scan.
    Seek,
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its type.
    pub kind: Kind,
    /// Number of its key. In the tool's semantics it may be above `num`: a signed remainder is read unsigned.
    pub key: u64,
    /// Bytes of the value of a put.
    pub value_size: u64,
    /// Steps of a scan after the seek.
    pub scan_length: u64,
}

/// The number whose generalised Pareto distribution is at `1 - u`.
pub fn pareto(u: f64, (theta, k, sigma): (f64, f64, f64)) -> f64 {
    match k == 0.0 {
        true => theta - sigma * u.ln(),
        false => theta + sigma * (u.powf(-k) - 1.0) / k,
    }
}

/// As C++ converts a number of floating point that is not below 0; one too large becomes the smallest number
/// there, as processors of x86 have it.
fn whole(value: f64) -> i64 {
    match value.is_finite() && value < i64::MAX as f64 {
        true => value as i64,
        false => i64::MIN,
    }
}

/// Ranges with the numbers that fall on each.
#[derive(Clone, Debug)]
struct Ranges {
    /// Where each begins.
    starts: Vec<u64>,
    total: u64,
}

impl Ranges {
    fn new(model: &Model) -> Self {
        let count = model.keyrange_num.max(1);
        let mut amplify = 0;
        let mut weights: Vec<u64> = Vec::new();
        for x in (1..=count).rev() {
            let p = model.share(x);
            if amplify == 0 && p > 0.0 {
                amplify = (1.0 / p).floor() as u64 + 1;
            }
            weights.push((amplify as f64 * p).floor() as u64);
        }
        let total = weights.iter().sum();
        let mut twister = Twister::new(total);
        for i in 0..weights.len() {
            let other = (twister.next_u64() % count) as usize;
            weights.swap(i, other);
        }
        let mut start = 0;
        let starts = weights.iter().map(|w| {
            start += w;
            start - w
        });
        Self {
            starts: starts.collect(),
            total,
        }
    }

    /// The range that a number below the total falls on, as a search by halves finds it.
    fn find(&self, slot: u64) -> u64 {
        let (mut begin, mut end) = (0, self.starts.len());
        while begin + 1 < end {
            let middle = begin + (end - begin) / 2;
            if slot < self.starts[middle] {
                end = middle;
            } else {
                begin = middle;
            }
        }
        begin as u64
    }
}

/// Queries as db_bench draws them on one thread.
#[derive(Clone, Debug)]
pub struct Tool {
    model: Model,
    ranges: Option<Ranges>,
    /// Upper ends of the types' numbers.
    types: [u64; 3],
    twister: Twister,
}

impl Tool {
    /// Queries of the thread of number `thread`, from 0. db_bench seeds its threads with `--seed` + 1, + 2 and so on.
    pub fn new(model: Model, seed: u64, thread: u64) -> Self {
        let sum: f64 = model.ratios.iter().sum();
        let mut end = 0;
        let types = model.ratios.map(|ratio| {
            end += (1000.0 * (ratio / sum)).ceil() as u64;
            end
        });
        Self {
            model,
            ranges: model.has_ranges().then(|| Ranges::new(&model)),
            types,
            twister: Twister::new(seed.wrapping_add(thread).wrapping_add(1)),
        }
    }

    fn key(&self, r: u64) -> u64 {
        let (a, b) = self.model.key_dist;
        let seed = |u: f64| whole((u / a).powf(1.0 / b).ceil()).cast_unsigned();
        // The tool asks for this first, so that keys that are all alike have no ranges, whatever the flags say.
        if self.model.all_keys_alike() {
            return r;
        }
        let num = self.model.num;
        match &self.ranges {
            None => {
                let first = Twister::first(seed(r as f64 / num as f64)).cast_signed();
                (first % num.cast_signed()).cast_unsigned()
            }
            Some(ranges) => {
                let size = self.model.range_size();
                let u = (r % size) as f64 / size as f64;
                let offset = Twister::first(seed(u)) % size;
                size * ranges.find(r % ranges.total.max(1)) + offset
            }
        }
    }

    /// The next query.
    pub fn draw(&mut self) -> Query {
        let m = &self.model;
        // The first number of each query chooses among databases, of which there is one.
        self.twister.next_u64();
        let r = self.twister.next_u64() % m.num;
        let u = r as f64 / m.num as f64;
        let place = r % self.types[2].max(1);
        let kind = match self.types.iter().position(|end| place < *end) {
            Some(1) => Kind::Put,
            Some(2) => Kind::Seek,
            _ => Kind::Get,
        };
        let size = |law| whole(pareto(u, law).ceil());
        let value_size = match size(m.value) {
            n if n < 10 => 10,
            n if n > m.value_max.cast_signed() => n.cast_unsigned() % m.value_max.max(1),
            n => n.cast_unsigned(),
        };
        let scan_length = size(m.iter) % m.scan_max.max(1).cast_signed();
        Query {
            kind,
            key: self.key(r),
            value_size: if kind == Kind::Put { value_size } else { 0 },
            scan_length: match kind {
                Kind::Seek => scan_length.max(0).cast_unsigned(),
                _ => 0,
            },
        }
    }
}

/// Queries as the text describes them.
#[derive(Clone, Debug)]
pub struct Paper {
    model: Model,
    variant: Variant,
    /// Sums of the shares of ranges, the last 1.
    shares: Vec<f64>,
    /// Which range has the share of each rank.
    places: Shuffle,
    /// Order of all keys for popularity without place.
    scattered: Shuffle,
    /// Order of the keys of a range for hot and cold mixed.
    mixed: Shuffle,
    /// Where the hot keys of each range begin.
    offsets: Vec<u64>,
    kinds: Rng,
    ranges: Rng,
    ranks: Rng,
    sizes: Rng,
}

impl Paper {
    /// Queries of a thread. `layout` decides where hot ranges and keys lie and is the same for all threads; `seed` is
    /// the thread's.
    pub fn new(model: Model, variant: Variant, layout: u64, seed: u64) -> Self {
        let count = model.keyrange_num.max(1);
        let size = model.range_size();
        let total: f64 = (1..=count).map(|x| model.share(x)).sum();
        let mut sum = 0.0;
        let shares = (1..=count).map(|x| {
            sum += model.share(x) / total.max(1e-300);
            sum
        });
        let mut rng = Rng::new(layout);
        let mut stream = Rng::new(seed);
        let shares = shares.collect();
        let mut own = || Rng::new(stream.next_u64());
        Self {
            model,
            variant,
            shares,
            places: Shuffle::new(count, layout ^ 0x51),
            scattered: Shuffle::new(model.num, layout ^ 0x52),
            mixed: Shuffle::new(size, layout ^ 0x53),
            offsets: (0..count).map(|_| rng.below(size)).collect(),
            kinds: own(),
            ranges: own(),
            ranks: own(),
            sizes: own(),
        }
    }

    /// A rank below `count`, by the power function of popularity, whose distribution ends at `count`.
    fn rank(&mut self, count: u64) -> u64 {
        let (a, b) = self.model.key_dist;
        let u = self.ranks.unit();
        if self.model.all_keys_alike() {
            return (u * count as f64) as u64;
        }
        // a·x^b is the distribution of all keys; one that ends at `count` has the same shape.
        let end = a * (count as f64).powf(b);
        let rank = (u * end / a).powf(1.0 / b);
        (rank as u64).min(count - 1)
    }

    fn key(&mut self) -> u64 {
        let (num, size) = (self.model.num, self.model.range_size());
        match self.variant {
            Variant::AllRandom => {
                let rank = self.rank(num);
                self.scattered.place(rank)
            }
            Variant::AllDist => (self.rank(num) + self.offsets[0]) % num,
            Variant::PrefixRandom | Variant::PrefixDist => {
                let u = self.ranges.unit();
                let at = self.shares.partition_point(|sum| *sum <= u);
                let at = at.min(self.shares.len() - 1) as u64;
                let range = self.places.place(at);
                let rank = self.rank(size);
                let inside = match self.variant {
                    Variant::PrefixDist => (rank + self.offsets[range as usize]) % size,
                    _ => self.mixed.place(rank),
                };
                (range * size + inside).min(num - 1)
            }
        }
    }

    fn size(&mut self, law: (f64, f64, f64), most: u64) -> u64 {
        for _ in 0..1000 {
            let value = pareto(1.0 - self.sizes.unit(), law).ceil();
            if value <= most as f64 {
                return value as u64;
            }
        }
        most
    }

    /// The next query.
    pub fn draw(&mut self) -> Query {
        let m = self.model;
        let sum: f64 = m.ratios.iter().sum();
        let u = self.kinds.unit() * sum;
        let kind = if u < m.ratios[0] {
            Kind::Get
        } else if u < m.ratios[0] + m.ratios[1] {
            Kind::Put
        } else {
            Kind::Seek
        };
        Query {
            kind,
            key: self.key(),
            value_size: match kind {
                Kind::Put => self.size(m.value, m.value_max),
                _ => 0,
            },
            scan_length: match kind {
                Kind::Seek => self.size(m.iter, m.scan_max),
                _ => 0,
            },
        }
    }
}

/// Queries of either semantics.
#[derive(Clone, Debug)]
pub enum Queries {
    /// db_bench's.
    Tool(Box<Tool>),
    /// The text's.
    Paper(Box<Paper>),
}

impl Queries {
    /// Queries of thread `thread`.
    pub fn new(
        semantics: Semantics,
        model: Model,
        variant: Variant,
        seed: u64,
        thread: u64,
    ) -> Self {
        match semantics {
            Semantics::Tool => {
                Self::Tool(Box::new(Tool::new(model.variant(variant), seed, thread)))
            }
            Semantics::Paper => {
                let own = Rng::new(seed.wrapping_add(thread << 32)).next_u64();
                Self::Paper(Box::new(Paper::new(model, variant, seed, own)))
            }
        }
    }

    /// The next query.
    pub fn draw(&mut self) -> Query {
        match self {
            Self::Tool(tool) => tool.draw(),
            Self::Paper(paper) => paper.draw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `scripts/mixgraph_golden.py` hashes a thousand queries.
    fn hash(queries: &[Query]) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for q in queries {
            for number in [q.kind as u64, q.key, q.value_size] {
                for byte in number.to_le_bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
                }
            }
        }
        hash
    }

    #[test]
    fn the_tools_queries_are_those_that_db_bench_makes() {
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/mixgraph/golden.tsv"
        );
        let text = std::fs::read_to_string(golden).unwrap();
        let mut cases = 0;
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            cases += 1;
            let columns: Vec<&str> = line.split('\t').collect();
            let row = VARIANTS.iter().find(|v| v.0 == columns[0]).unwrap();
            let model = Model::zippydb(1_000_000).variant(row.1);
            let mut tool = Tool::new(model, columns[1].parse().unwrap(), 0);
            let queries: Vec<Query> = (0..10_000).map(|_| tool.draw()).collect();
            let first = queries[..3]
                .iter()
                .map(|q| format!("{},{},{}", q.kind as u64, q.key, q.value_size));
            let first = first.collect::<Vec<_>>().join(" ");
            assert_eq!(first, columns[2], "{} {}", columns[0], columns[1]);
            let hashes = queries.chunks(1000).map(|c| format!("{:016x}", hash(c)));
            let hashes = hashes.collect::<Vec<_>>().join(" ");
            assert_eq!(hashes, columns[3], "{} {}", columns[0], columns[1]);
        }
        assert_eq!(cases, 12);
    }

    #[test]
    fn the_published_ranges_have_the_published_weights() {
        let ranges = Ranges::new(&Model::zippydb(1_000_000));
        assert_eq!((ranges.starts.len(), ranges.total), (30, 667));
        let mut weights: Vec<u64> = ranges.starts.windows(2).map(|w| w[1] - w[0]).collect();
        weights.push(ranges.total - ranges.starts[29]);
        weights.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(weights[..5], [538, 38, 10, 8, 7]);
    }

    #[test]
    fn the_papers_ranges_and_popularity_are_those_of_the_model() {
        let num = 300_000;
        let model = Model::zippydb(num);
        let (seed, draws) = (11, 200_000);
        let mut paper = Paper::new(model, Variant::PrefixDist, 5, seed);
        let mut ranges = [0_u64; 30];
        let (mut puts, mut seeks, mut sizes) = (0_u64, 0_u64, Vec::new());
        for _ in 0..draws {
            let q = paper.draw();
            ranges[(q.key / (num / 30)) as usize] += 1;
            match q.kind {
                Kind::Put => {
                    puts += 1;
                    sizes.push(q.value_size);
                }
                Kind::Seek => seeks += 1,
                Kind::Get => {}
            }
        }
        ranges.sort_unstable_by(|a, b| b.cmp(a));
        let total: f64 = (1..=30).map(|x| model.share(x)).sum();
        for (x, seen) in (1..).zip(&ranges[..4]) {
            let (want, got) = (model.share(x) / total, *seen as f64 / f64::from(draws));
            assert!(
                (want - got).abs() < 0.01 + want * 0.05,
                "{x}: {want} {got}, seed {seed}"
            );
        }
        let share = |n: u64| n as f64 / f64::from(draws);
        assert!((share(puts) - 0.14).abs() < 0.005 && (share(seeks) - 0.03).abs() < 0.003);
        sizes.sort_unstable();
        let quantile = |p: f64| sizes[(p * sizes.len() as f64) as usize];
        // The median of the published law is 19.3 and its 99 % is at 227.
        assert!((18..=21).contains(&quantile(0.5)), "{}", quantile(0.5));
        assert!((200..=255).contains(&quantile(0.99)), "{}", quantile(0.99));
        assert!(*sizes.last().unwrap() <= 1024);
    }

    #[test]
    fn variants_place_hot_keys_as_their_names_say() {
        let num = 30_000;
        let places = |variant| {
            let mut paper = Paper::new(Model::zippydb(num), variant, 5, 7);
            let mut seen = vec![0_u32; num as usize];
            (0..100_000).for_each(|_| seen[paper.draw().key as usize] += 1);
            seen
        };
        // Blocks of a hundred keys that hold half of the requests: fewer, the closer hot keys lie together.
        let blocks = |variant| {
            let seen = places(variant);
            let mut blocks: Vec<u32> = seen.chunks(100).map(|c| c.iter().sum()).collect();
            blocks.sort_unstable_by(|a, b| b.cmp(a));
            let mut sum = 0;
            blocks.iter().position(|b| {
                sum += b;
                sum > 50_000
            })
        };
        let (dist, random) = (blocks(Variant::PrefixDist), blocks(Variant::PrefixRandom));
        let (all_dist, all_random) = (blocks(Variant::AllDist), blocks(Variant::AllRandom));
        assert!(
            dist <= random && random < all_dist && all_dist < all_random,
            "{dist:?} {random:?} {all_dist:?} {all_random:?}"
        );
    }

    #[test]
    fn odd_models_draw_without_end_or_panic() {
        for num in [1, 2, 29, 31] {
            for (_, variant) in VARIANTS {
                for semantics in [Semantics::Tool, Semantics::Paper] {
                    let mut model = Model::zippydb(num);
                    model.value = (0.0, 0.0, 10.0);
                    model.scan_max = 0;
                    let mut queries = Queries::new(semantics, model, variant, 3, 1);
                    (0..100).for_each(|_| {
                        queries.draw();
                    });
                }
            }
        }
    }
}
