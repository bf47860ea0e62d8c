//! LinkBench's graph: how many links a node has, keys and values.

use crate::generate::{Rng, Shuffle};
use crate::store::{Error, Result};

/// Share of nodes that have at most so many links.
const DEGREES: [(f64, f64); 10] = [
    (0.0, 0.4533),
    (1.0, 0.7746),
    (2.0, 0.8696),
    (3.0, 0.9199),
    (5.0, 0.9583),
    (10.0, 0.9833),
    (20.0, 0.9933),
    (100.0, 0.9983),
    (1000.0, 0.999_51),
    (961_963.0, 1.0),
];

/// Links of the node at a place of the distribution, 0 to 1: between two points by powers.
fn degree_at(u: f64) -> u64 {
    let behind = DEGREES.iter().position(|d| u < d.1);
    let Some(n) = behind.filter(|n| *n > 0) else {
        return if behind == Some(0) { 0 } else { 961_963 };
    };
    let ((x0, y0), (x1, y1)) = (DEGREES[n - 1], DEGREES[n]);
    let share = (u - y0) / (y1 - y0);
    let (low, high) = ((x0 + 1.0).ln(), (x1 + 1.0).ln());
    // Up to the next whole number, so that the share of at most x1 links is y1.
    ((low + share * (high - low)).exp() - 1.0)
        .ceil()
        .max(x0 + 1.0) as u64
}

/// Nodes 1 to `nodes`, and their links when they are loaded.
#[derive(Debug)]
pub struct Graph {
    degrees: Vec<u32>,
    order: Shuffle,
}

impl Graph {
    /// A graph of so many nodes.
    pub fn new(nodes: u64, seed: u64) -> Self {
        let order = Shuffle::new(nodes, seed ^ 0xde9);
        let mut degrees = vec![0; usize::try_from(nodes).unwrap_or(usize::MAX)];
        for place in 0..nodes {
            // The first places have the most links; no node has more than there are nodes.
            let u = 1.0 - (place as f64 + 0.5) / nodes as f64;
            let degree = degree_at(u).min(nodes);
            degrees[order.place(place) as usize] = u32::try_from(degree).unwrap_or(u32::MAX);
        }
        Self { degrees, order }
    }

    /// Nodes that the load made.
    pub fn nodes(&self) -> u64 {
        self.degrees.len() as u64
    }

    /// Links of a node when it was loaded; none of one that was added later.
    pub fn degree(&self, id: u64) -> u64 {
        let degree = usize::try_from(id)
            .ok()
            .and_then(|n| self.degrees.get(n.wrapping_sub(1)));
        degree.copied().unwrap_or(0).into()
    }

    /// The node with the most links of all but `rank` others.
    pub fn by_degree(&self, rank: u64) -> u64 {
        1 + self.order.place(rank.min(self.nodes() - 1))
    }
}

/// A size of a log-normal distribution with sigma 1.
pub fn log_normal(rng: &mut Rng, median: f64, most: usize) -> usize {
    let (u, v) = (1.0 - rng.unit(), rng.unit());
    let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    ((median * normal.exp()).round() as usize).min(most)
}

/// Key of a link.
pub fn link_key(id1: u64, kind: u64, id2: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&id1.to_be_bytes());
    key[8..16].copy_from_slice(&kind.to_be_bytes());
    key[16..].copy_from_slice(&id2.to_be_bytes());
    key
}

/// Key of a link among those of its node by time, visible ones first, newest first.
pub fn time_key(id1: u64, kind: u64, visible: bool, time: u64, id2: u64) -> [u8; 33] {
    let mut key = [0; 33];
    key[..16].copy_from_slice(&link_key(id1, kind, 0)[..16]);
    key[16] = u8::from(!visible);
    key[17..25].copy_from_slice(&(!time).to_be_bytes());
    key[25..].copy_from_slice(&id2.to_be_bytes());
    key
}

/// Key of the count of a node's links.
pub fn count_key(id1: u64, kind: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&link_key(id1, kind, 0)[..16]);
    key
}

/// Value of a count.
pub fn count_value(count: u64, time: u64) -> Vec<u8> {
    [count.to_be_bytes(), time.to_be_bytes()].concat()
}

/// The count of a value.
///
/// # Errors
/// If it is none.
pub fn count_of(value: &[u8]) -> Result<u64> {
    number(value, 0)
}

/// Value of a node.
pub fn node_value(version: u64, data: &[u8]) -> Vec<u8> {
    let mut out = 2048_u32.to_be_bytes().to_vec();
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(data);
    out
}

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let part = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    let part = part.ok_or_else(|| Error::new("linkbench", "a value is too short"))?;
    Ok(u64::from_be_bytes(part))
}

/// Describes what a link holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkValue {
    /// Says whether lists and counts have it.
    pub visible: bool,
    /// When it was changed.
    pub time: u64,
    /// How often.
    pub version: u64,
    /// Says what users keep in it.
    pub data: Vec<u8>,
}

impl LinkValue {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.visible)];
        out.extend_from_slice(&self.time.to_be_bytes());
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&self.data);
        out
    }

    /// Of its bytes.
    ///
    /// # Errors
    /// If they are too few.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(Self {
            visible: bytes.first() == Some(&1),
            time: number(bytes, 1)?,
            version: number(bytes, 9)?,
            data: bytes[17..].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_as_many_links_as_linkbench_says() {
        let nodes = 200_000;
        let graph = Graph::new(nodes, 3);
        let at_most = |n: u64| {
            let count = (1..=nodes).filter(|id| graph.degree(*id) <= n).count();
            count as f64 / nodes as f64
        };
        for (degree, share) in &DEGREES[..9] {
            let got = at_most(*degree as u64);
            assert!((got - share).abs() < 0.001, "{degree}: {got} {share}");
        }
        assert_eq!(graph.degree(0) + graph.degree(nodes + 1), 0);
        let most = (1..=nodes).map(|id| graph.degree(id)).max();
        assert_eq!(Some(graph.degree(graph.by_degree(0))), most);
    }

    #[test]
    fn sizes_have_the_median_and_spread_of_their_law() {
        let seed = 7;
        let mut rng = Rng::new(seed);
        let mut sizes: Vec<usize> = (0..40_000)
            .map(|_| log_normal(&mut rng, 128.0, 1 << 20))
            .collect();
        sizes.sort_unstable();
        let quantile = |p: f64| sizes[(p * 40_000.0) as usize] as f64 / 128.0;
        // e^±1 lie at one standard deviation.
        for (p, deviations) in [(0.5, 0.0), (0.1587, -1.0), (0.8413, 1.0)] {
            let want = f64::exp(deviations);
            assert!(
                (quantile(p) / want - 1.0).abs() < 0.04,
                "{p}: {}, seed {seed}",
                quantile(p)
            );
        }
    }

    #[test]
    fn newer_and_visible_links_come_first_and_values_are_read_back() {
        assert!(time_key(1, 0, true, 9, 5) < time_key(1, 0, true, 8, 1));
        assert!(time_key(1, 0, true, 1, 5) < time_key(1, 0, false, 9, 5));
        let link = LinkValue {
            visible: true,
            time: 3,
            version: 2,
            data: b"x".to_vec(),
        };
        assert_eq!(LinkValue::decode(&link.encode()), Ok(link));
        assert!(LinkValue::decode(&[1, 2]).is_err());
    }
}
