//! How well values compress: observed of a sample of them, kept as a few numbers, and values that compress alike.
//!
//! Neither sizes nor counts tell how many bytes a table takes, and a load whose values compress worse than the original's fills
//! more blocks, reads more of them and writes more. A sample of the values of each class of sizes is compressed in blocks, as
//! tables do; the model keeps what is left, the entropy of single bytes, and how many bytes of a value must be drawn by
//! chance, from how many symbols, for made values of the same sizes to come out alike. No byte of a value is kept (R-WL-36).

use super::{Dice, mix};
use spanlith_base::CompressionType;
use spanlith_table::{CompressionOptions, Compressor};

/// Classes of sizes: values of up to so many bytes, and how many of them are kept as a sample.
const CLASSES: [(u64, usize); 6] = [
    (16, 2048),
    (64, 1024),
    (256, 512),
    (1024, 128),
    (4096, 32),
    (u64::MAX, 16),
];
/// Bytes of a value that are kept at most.
const KEPT: usize = 4096;
/// Bytes that are compressed together, as many as a block of a table has.
const BLOCK: usize = 4096;
/// Bytes after which a value repeats itself: drawn ones first, then always the same one.
const PIECE: usize = 100;
/// A sample with fewer bytes says nothing.
const LEAST: usize = 64;
/// Numbers of symbols that are tried.
const SYMBOLS: [u32; 5] = [256, 95, 64, 32, 16];
/// Halvings of the share that is drawn, until it is found.
const STEPS: usize = 9;

fn class_of(size: u64) -> usize {
    CLASSES.partition_point(|class| class.0 < size)
}

/// Values that were chosen by chance, by class of sizes, while a trace is read. Memory: at most 400 KiB.
#[derive(Clone, Debug, Default)]
pub struct ValueSample {
    classes: [(u64, Vec<Box<[u8]>>); CLASSES.len()],
}

impl ValueSample {
    /// Shows a value; `chance` decides whether it is kept, each with the same probability.
    pub(super) fn add(&mut self, value: &[u8], chance: u64) {
        let class = class_of(value.len() as u64).min(CLASSES.len() - 1);
        let (seen, kept) = &mut self.classes[class];
        *seen += 1;
        let short = |value: &[u8]| Box::from(&value[..value.len().min(KEPT)]);
        if kept.len() < CLASSES[class].1 {
            kept.push(short(value));
        } else if let Some(old) = kept.get_mut((mix(chance) % *seen) as usize) {
            *old = short(value);
        }
    }

    /// Returns what the sample says, ascending by size; empty if there were no values.
    pub(super) fn contents(&self) -> Vec<Content> {
        let classes = self.classes.iter().zip(CLASSES);
        let mut all: Vec<Content> = classes
            .filter(|((_, kept), _)| kept.iter().map(|v| v.len()).sum::<usize>() >= LEAST)
            .map(|((_, kept), (bytes_max, _))| Content::of(bytes_max, kept))
            .collect();
        // Larger values than were seen are as the largest that were.
        if let Some(last) = all.last_mut() {
            last.bytes_max = u64::MAX;
        }
        all
    }
}

/// How well values of a class of sizes compress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Content {
    /// Values of up to so many bytes.
    pub bytes_max: u64,
    /// Entropy of single bytes, in bits.
    pub entropy: f64,
    /// Share of their bytes that LZ4 leaves in blocks of 4 KiB.
    pub left: f64,
    /// Share of the bytes of a made value that are drawn by chance.
    pub drawn: f64,
    /// Symbols that they are drawn from, 2 to 256.
    pub symbols: u32,
}

impl Default for Content {
    /// Values of which nothing is known compress to half of their size, as those of most benchmarks do.
    fn default() -> Self {
        Self {
            bytes_max: u64::MAX,
            entropy: 5.0,
            left: 0.5,
            drawn: 0.46,
            symbols: 256,
        }
    }
}

impl Content {
    /// The content of a sample, and of made values that come closest to it.
    fn of(bytes_max: u64, sample: &[Box<[u8]>]) -> Self {
        let sizes: Vec<usize> = sample.iter().map(|v| v.len()).collect();
        let bytes = sample.concat();
        let (entropy, left) = (entropy(&bytes), left(&bytes));
        let tried = SYMBOLS.map(|symbols| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..STEPS {
                let drawn = (low + high) / 2.0;
                match self::left(&made(&sizes, drawn, symbols)) < left {
                    true => low = drawn,
                    false => high = drawn,
                }
            }
            let drawn = (low + high) / 2.0;
            let apart = (self::entropy(&made(&sizes, drawn, symbols)) - entropy).abs();
            (apart, drawn, symbols)
        });
        let best = tried.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, drawn, symbols) = best.unwrap_or((0.0, 1.0, 256));
        Self {
            bytes_max,
            entropy,
            left,
            drawn,
            symbols,
        }
    }

    /// The one of a list for values of a size.
    pub(super) fn for_size(all: &[Self], size: u64) -> Self {
        let found = all.iter().find(|content| size <= content.bytes_max);
        found.or(all.last()).copied().unwrap_or_default()
    }

    /// Makes a value of `size` bytes.
    pub(super) fn fill(&self, value: &mut Vec<u8>, size: usize, dice: &mut Dice) {
        while value.len() < size {
            let begin = value.len();
            let piece = (size - begin).min(PIECE);
            // Chance decides over fractions of a byte, so that short values come out right on average.
            let wanted = piece as f64 * self.drawn;
            let more = usize::from(dice.unit() < wanted.fract());
            let end = begin + (wanted as usize + more).min(piece);
            while value.len() < end {
                let bytes = dice.next().to_le_bytes();
                let n = (end - value.len()).min(bytes.len());
                let symbol = |byte: &u8| ((u32::from(*byte) * self.symbols) >> 8) as u8;
                value.extend(bytes[..n].iter().map(symbol));
            }
            value.resize(begin + piece, b'v');
        }
    }
}

fn made(sizes: &[usize], drawn: f64, symbols: u32) -> Vec<u8> {
    let content = Content {
        drawn,
        symbols,
        ..Content::default()
    };
    let (mut dice, mut all, mut value) = (Dice::new(7), Vec::new(), Vec::new());
    for &size in sizes {
        value.clear();
        content.fill(&mut value, size, &mut dice);
        all.extend_from_slice(&value);
    }
    all
}

/// Bits of entropy of single bytes.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let all = (bytes.len() as f64).max(1.0);
    let of = |n: &u32| {
        let share = f64::from(*n) / all;
        -share * share.log2()
    };
    counts.iter().filter(|n| **n > 0).map(of).sum()
}

/// The share of bytes that LZ4 leaves, in blocks.
fn left(bytes: &[u8]) -> f64 {
    let options = CompressionOptions::default();
    let Ok(mut lz4) = Compressor::unlimited(CompressionType::Lz4, &options) else {
        // LZ4 is in every build.
        return 1.0;
    };
    let blocks = bytes.chunks(BLOCK);
    let kept = blocks.map(|block| {
        let compressed = lz4.compress(block).map_or(block.len(), <[u8]>::len);
        compressed.min(block.len())
    });
    kept.sum::<usize>() as f64 / (bytes.len() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Values;

    fn sampled(values: impl Iterator<Item = Vec<u8>>) -> Vec<Content> {
        let mut sample = ValueSample::default();
        for (chance, value) in (0..).zip(values) {
            sample.add(&value, chance);
        }
        sample.contents()
    }

    /// Values of every class compress as those they were made after, whatever these are: db_bench's, text, and noise.
    #[test]
    fn made_values_compress_as_the_sample() {
        for size in [10_usize, 48, 200, 700, 3000, 20_000] {
            let mut half = Values::with_ratio(size, 0.5, 1);
            let mut most = Values::with_ratio(size, 0.2, 1);
            let mut noise = Values::incompressible(size, 1);
            let text = |n: u32| {
                let words = ["alpha", "beta", "gamma", "delta", "{\"id\":", "}, "];
                let mut dice = Dice::new(u64::from(n));
                let mut text = Vec::new();
                while text.len() < size {
                    text.extend_from_slice(words[dice.below(words.len())].as_bytes());
                    text.push(b'0' + dice.below(10) as u8);
                }
                text.truncate(size);
                text
            };
            let n = 3000;
            let kinds = [
                sampled((0..n).map(|_| half.next().to_vec())),
                sampled((0..n).map(|_| most.next().to_vec())),
                sampled((0..n).map(|_| noise.next().to_vec())),
                sampled((0..n).map(text)),
            ];
            for (kind, contents) in kinds.iter().enumerate() {
                let content = contents[0];
                let again = left(&made(
                    &vec![size.min(KEPT); 200],
                    content.drawn,
                    content.symbols,
                ));
                let apart = (again - content.left).abs();
                assert!(
                    apart < 0.04,
                    "{size} bytes, kind {kind}: {again} {content:?}"
                );
            }
        }
    }

    #[test]
    fn classes_are_found_by_size() {
        let mut sample = ValueSample::default();
        assert!(sample.contents().is_empty());
        for n in 0..100 {
            sample.add(&[7; 12], n);
            sample.add(&[n as u8; 800], n);
        }
        let all = sample.contents();
        assert_eq!(
            all.iter().map(|c| c.bytes_max).collect::<Vec<_>>(),
            [16, u64::MAX]
        );
        assert!(all[0].left < 0.1, "{all:?}");
        assert_eq!(Content::for_size(&all, 16).bytes_max, 16);
        assert_eq!(Content::for_size(&all, 17).bytes_max, u64::MAX);
        assert_eq!(Content::for_size(&[], 17), Content::default());
        let mut value = Vec::new();
        for size in [0, 1, 99, 100, 101, 5000] {
            value.clear();
            Content::default().fill(&mut value, size, &mut Dice::new(1));
            assert_eq!(value.len(), size);
        }
    }
}
