//! Which codec a data block gets: the one of the options, another one, or none.
//!
//! Two rules, each off by default:
//!
//! - *Skipping* (`auto_skip`, RocksDB 11.12's): a running estimate of stored bytes per raw byte, in units of
//!   2^-20. It moves an eighth of the way towards a block that compresses better and a sixteenth towards one that
//!   compresses worse. While it is above the bar below which a compressed block is kept, only about one of
//!   [`SAMPLE_EVERY`] blocks is tried.
//! - *Adaptive* (`codec_choice=adaptive`, ours): estimates for a fast codec, LZ4, and for the codec of the options, if
//!   that is a slower one. A block gets the slow codec while it needs less than the fast one by the share that the
//!   level asks for, the fast one while it shrinks blocks at all, and else none. One of [`PROBE_EVERY`] blocks is tried
//!   with both, so that the estimates follow the data; of those stored as they are one of [`TRIAL_EVERY`] is tried.
//!   Blocks whose bytes look like noise have estimates of their own ([`is_noisy`]): where both kinds lie side by side
//!   an estimate over both would fit neither.
//!
//! Both store blocks that any reader understands: the trailer of a block names its codec. The estimates outlive a
//! table ([`CodecMemory`]), so that the next one does not learn anew; what is written may then depend on the tables
//! before, as with RocksDB.

use crate::format::{CompressionOptions, Compressor};
use crate::meter::WriteCounters;
use spanlith_base::compression::DEFAULT_LEVEL;
use spanlith_base::{CompressionType, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One whole: a block that does not shrink.
const WHOLE: u32 = 1 << 20;
/// Of so many blocks that are skipped about one is tried, if the options do not say.
const SAMPLE_EVERY: u32 = 64;
/// Of so many blocks one is tried with both codecs.
const PROBE_EVERY: u32 = 32;
/// Of so many blocks that are stored as they are one is tried, with the fast codec if there is one.
const TRIAL_EVERY: u32 = 5;
/// The same of blocks that look like noise.
const NOISY_TRIAL_EVERY: u32 = 16;
/// Kinds of blocks with estimates of their own.
const KINDS: usize = 2;
/// Runs of bytes that are looked at in a block, and bytes of each.
const LOOKS: usize = 16;
const LOOK_BYTES: usize = 16;
/// Different values among these bytes from which on a block looks like noise, of which 162 are expected there; text has
/// 30 to 60, numbers in binary form 60 to 100.
const NOISY_FROM: u32 = 140;
/// Level of zstd where the options leave it to the codec: the next ones save little for what they cost.
const ADAPTIVE_ZSTD_LEVEL: i32 = 1;

/// How the codec of data blocks is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodecChoice {
    /// The codec of the options.
    #[default]
    Fixed,
    /// Block by block.
    Adaptive {
        /// By how many per cent a slow codec must undercut the fast one; with 100 it is not tried.
        saving_percent: u32,
    },
}

/// When a data block of format version 8 stores once what its keys have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommonPrefix {
    /// Never.
    Never,
    /// With keys in order of their bytes, or the reverse.
    #[default]
    Bytewise,
    /// Always, in any order of keys.
    Always,
}

/// Describes what was learned from the tables before. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CodecMemory(Arc<Memory>);

/// Estimates by type byte of the codec, plus one so that 0 means none. Relaxed: each stands for itself.
#[derive(Debug, Default)]
struct Memory {
    skipping: [AtomicU32; 8],
    adaptive: [[AtomicU32; 8]; KINDS],
}

impl PartialEq for CodecMemory {
    /// Returns whether it is the same memory.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn recall(memory: &[AtomicU32; 8], codec: CompressionType) -> Option<u32> {
    let known = memory[usize::from(codec.as_byte() & 7)].load(Ordering::Relaxed);
    known.checked_sub(1)
}

fn keep(memory: &[AtomicU32; 8], codec: CompressionType, estimate: u32) {
    memory[usize::from(codec.as_byte() & 7)].store(estimate + 1, Ordering::Relaxed);
}

/// `estimate` moved towards `seen`.
fn towards(estimate: u32, seen: u32) -> u32 {
    let distance = seen.abs_diff(estimate);
    match seen < estimate {
        true => estimate - (distance >> 3).max(1).min(distance),
        false => estimate + (distance >> 4).max(u32::from(distance > 0)),
    }
}

/// Takes in what was seen. The first block is all that is known; one that is worth compressing after others that were not
/// begins other data.
fn learn(estimate: &mut Option<u32>, seen: u32, bar: u32) {
    *estimate = Some(match *estimate {
        Some(before) if before <= bar || seen > bar => towards(before, seen),
        _ => seen,
    });
}

/// Stored bytes per raw byte; a block that is kept as it is counts whole.
fn share(stored: Option<usize>, raw: usize) -> u32 {
    let stored = stored.unwrap_or(raw) as u64;
    (stored * u64::from(WHOLE) / (raw as u64).max(1)).min(WHOLE.into()) as u32
}

/// Returns whether some bytes of a block have almost as many values as bytes drawn at random would.
fn is_noisy(raw: &[u8]) -> bool {
    let mut seen = [0u64; 4];
    for look in raw.chunks_exact((raw.len() / LOOKS).max(LOOK_BYTES)) {
        for &byte in look.iter().take(LOOK_BYTES) {
            seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }
    seen.iter().map(|word| word.count_ones()).sum::<u32>() >= NOISY_FROM
}

/// A block as it goes to the file.
pub(crate) struct Packed<'c> {
    /// Its compressed bytes; `None` if it is stored as it is.
    pub(crate) bytes: Option<&'c [u8]>,
    /// The codec of these.
    pub(crate) codec: CompressionType,
    /// Nobody tried to compress it.
    pub(crate) is_bypassed: bool,
}

/// Chooses for the data blocks of one table.
pub(crate) struct Chooser {
    memory: CodecMemory,
    /// A block is kept compressed if its share is at most this.
    bar: u32,
    skipping: Option<Skipping>,
    adaptive: Option<Adaptive>,
    /// State of a generator of random numbers.
    random: u64,
}

struct Skipping {
    codec: CompressionType,
    estimate: u32,
    every: u32,
    /// Blocks to skip before the next one is tried.
    left: u32,
}

struct Adaptive {
    /// The fast codec; `None` if the codec of the options is as fast.
    fast: Option<Compressor>,
    slow: CompressionType,
    /// The slow codec is worth it below this share, in per cent, of what the fast one needs; never if 0.
    worth_percent: u64,
    /// Estimates of ordinary blocks, and of those that look like noise.
    kinds: [Kind; KINDS],
}

/// Describes what is known of one kind of blocks.
struct Kind {
    /// `None` before the first block that was tried with it.
    fast_estimate: Option<u32>,
    slow_estimate: Option<u32>,
    /// Blocks until both are tried.
    left: u32,
    /// Blocks that are stored as they are until one is tried.
    until_trial: u32,
}

/// Describes what a chooser needs to know.
pub(crate) struct Wanted<'o> {
    pub(crate) choice: CodecChoice,
    pub(crate) codec: CompressionType,
    pub(crate) options: &'o CompressionOptions,
    pub(crate) max_per_kb: u32,
    pub(crate) seed: u64,
}

impl Chooser {
    /// A chooser, if there is anything to choose.
    pub(crate) fn of(wanted: &Wanted<'_>, memory: &CodecMemory) -> Result<Option<Box<Self>>> {
        let codec = wanted.codec;
        let adaptive = match wanted.choice {
            CodecChoice::Adaptive { saving_percent } if codec != CompressionType::None => {
                Some(Adaptive::new(wanted, saving_percent, memory)?)
            }
            _ => None,
        };
        let skips =
            wanted.options.auto_skip && codec != CompressionType::None && adaptive.is_none();
        let every = u32::try_from(wanted.options.auto_skip_min_sample_every).unwrap_or(0);
        let skipping = skips.then(|| Skipping {
            codec,
            estimate: recall(&memory.0.skipping, codec).unwrap_or(0),
            every: if every == 0 { SAMPLE_EVERY } else { every },
            left: 0,
        });
        if skipping.is_none() && adaptive.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            memory: memory.clone(),
            bar: wanted.max_per_kb.min(1023) << 10,
            skipping,
            adaptive,
            random: wanted.seed | 1,
        })))
    }

    /// The options of the codec itself: the adaptive rule asks zstd for less.
    pub(crate) fn options_of(wanted: &Wanted<'_>) -> CompressionOptions {
        let mut options = wanted.options.clone();
        let is_adaptive = wanted.choice != CodecChoice::Fixed;
        if is_adaptive && wanted.codec == CompressionType::Zstd && options.level == DEFAULT_LEVEL {
            options.level = ADAPTIVE_ZSTD_LEVEL;
        }
        options
    }

    /// Remembers for the next table.
    pub(crate) fn remember(&self) {
        let Memory { skipping, adaptive } = &*self.memory.0;
        if let Some(s) = &self.skipping {
            keep(skipping, s.codec, s.estimate);
        }
        if let Some(a) = &self.adaptive {
            for (memory, kind) in adaptive.iter().zip(&a.kinds) {
                for (codec, estimate) in [
                    (a.slow, kind.slow_estimate),
                    (CompressionType::Lz4, kind.fast_estimate),
                ] {
                    if let Some(estimate) = estimate {
                        keep(memory, codec, estimate);
                    }
                }
            }
        }
    }

    fn draw(&mut self, below: u32) -> u32 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 32) % u64::from(below.max(1))) as u32
    }

    /// Returns whether the skipping rule passes over the next block.
    fn skips(&mut self) -> bool {
        let bar = self.bar;
        let Some(s) = &mut self.skipping else {
            return false;
        };
        if s.estimate <= bar {
            return false;
        }
        if s.left > 0 {
            s.left -= 1;
            return true;
        }
        let (every, spread) = (s.every, s.every / 4);
        let jitter = self.draw(2 * spread + 1);
        if let Some(s) = &mut self.skipping {
            s.left = every - spread + jitter;
        }
        false
    }
}

impl Adaptive {
    fn new(wanted: &Wanted<'_>, saving_percent: u32, memory: &CodecMemory) -> Result<Self> {
        let is_fast = wanted.codec.is_fast();
        let fast = match is_fast {
            true => None,
            // The dictionary, if there is one, is the slow codec's: readers offer it to both, and LZ4 refers to
            // nothing that was not offered.
            false => Some(Compressor::new(
                CompressionType::Lz4,
                &CompressionOptions::default(),
                wanted.max_per_kb,
            )?),
        };
        let kind = |memory: &[AtomicU32; 8]| {
            let slow_estimate = recall(memory, wanted.codec);
            Kind {
                fast_estimate: recall(memory, CompressionType::Lz4).filter(|_| !is_fast),
                slow_estimate,
                // Nothing is known before the first block.
                left: match slow_estimate {
                    None => 0,
                    Some(_) => PROBE_EVERY / 2,
                },
                until_trial: TRIAL_EVERY - 1,
            }
        };
        // Without a fast codec the slow one is all there is.
        let saving_percent = if is_fast { 0 } else { saving_percent };
        Ok(Self {
            fast,
            slow: wanted.codec,
            worth_percent: 100 - u64::from(saving_percent.min(100)),
            kinds: memory.0.adaptive.each_ref().map(kind),
        })
    }

    fn slow_is_worth_it(kind: &Kind, worth_percent: u64) -> bool {
        match (kind.fast_estimate, kind.slow_estimate) {
            _ if worth_percent == 0 => false,
            (Some(fast), Some(slow)) => u64::from(slow) < u64::from(fast) * worth_percent / 100,
            // There is no fast one, or it was not tried yet.
            _ => true,
        }
    }

    /// Returns what becomes of `raw`.
    fn pack<'c>(
        &'c mut self,
        bar: u32,
        slow: &'c mut Compressor,
        counters: Option<&WriteCounters>,
        block: (&[u8], bool),
    ) -> Result<Packed<'c>> {
        let len = block.0.len();
        let (slow_codec, percent) = (self.slow, self.worth_percent);
        let is_noisy = is_noisy(block.0);
        let kind = &mut self.kinds[usize::from(is_noisy)];
        let is_probe = kind.left == 0 && percent > 0;
        kind.left = match kind.left {
            0 => PROBE_EVERY,
            left => left - 1,
        };
        let worth = Self::slow_is_worth_it(kind, percent);
        let estimate = match worth {
            true => kind.slow_estimate,
            false => kind.fast_estimate,
        };
        let mut is_trial = false;
        if !is_probe && estimate.is_some_and(|share| share > bar) {
            if kind.until_trial > 0 {
                kind.until_trial -= 1;
                return Ok(Packed::bypassed(counters, len));
            }
            kind.until_trial = match is_noisy {
                true => NOISY_TRIAL_EVERY - 1,
                false => TRIAL_EVERY - 1,
            };
            is_trial = self.fast.is_some();
        }
        let mut with_slow = None;
        if is_probe || worth && !is_trial {
            with_slow = WriteCounters::pack(counters, slow_codec, slow, block)?;
            learn(
                &mut kind.slow_estimate,
                share(with_slow.map(<[u8]>::len), len),
                bar,
            );
        }
        let mut with_fast = None;
        if let Some(fast) = &mut self.fast
            && (is_probe || is_trial || !worth)
        {
            with_fast = WriteCounters::pack(counters, CompressionType::Lz4, fast, block)?;
            learn(
                &mut kind.fast_estimate,
                share(with_fast.map(<[u8]>::len), len),
                bar,
            );
        }
        Ok(match (with_slow, with_fast) {
            (Some(slow), Some(fast)) if slow.len() as u64 * 100 >= fast.len() as u64 * percent => {
                Packed::of(Some(fast), CompressionType::Lz4)
            }
            (Some(slow), _) => Packed::of(Some(slow), slow_codec),
            (None, fast) => Packed::of(fast, CompressionType::Lz4),
        })
    }
}

impl<'c> Packed<'c> {
    fn of(bytes: Option<&'c [u8]>, codec: CompressionType) -> Self {
        Self {
            bytes,
            codec,
            is_bypassed: false,
        }
    }

    fn bypassed(counters: Option<&WriteCounters>, len: usize) -> Self {
        if let Some(counters) = counters {
            counters.bypassed(len);
        }
        Self {
            bytes: None,
            codec: CompressionType::None,
            is_bypassed: true,
        }
    }

    /// Packs a data block; the flag says whether the way back is tried.
    pub(crate) fn pack(
        chooser: Option<&'c mut Chooser>,
        compressor: &'c mut Compressor,
        counters: Option<&WriteCounters>,
        block: (&[u8], bool),
    ) -> Result<Self> {
        let codec = compressor.codec();
        let Some(chooser) = chooser else {
            let bytes = WriteCounters::pack(counters, codec, compressor, block)?;
            return Ok(Self {
                bytes,
                codec,
                is_bypassed: codec == CompressionType::None,
            });
        };
        if chooser.skips() {
            return Ok(Self::bypassed(counters, block.0.len()));
        }
        let Chooser {
            bar,
            skipping,
            adaptive,
            ..
        } = chooser;
        if let Some(adaptive) = adaptive {
            return adaptive.pack(*bar, compressor, counters, block);
        }
        let bytes = WriteCounters::pack(counters, codec, compressor, block)?;
        if let Some(s) = skipping {
            s.estimate = towards(s.estimate, share(bytes.map(<[u8]>::len), block.0.len()));
        }
        Ok(Self::of(bytes, codec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that do not shrink.
    fn noise(seed: u64) -> Vec<u8> {
        let mut x = seed | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        };
        (0..4096).map(|_| next()).collect()
    }

    fn text(seed: u64) -> Vec<u8> {
        let words = [
            "account", "balance", "customer", "delivery", "event", "forward",
        ];
        let mut out = Vec::new();
        let mut n = seed;
        while out.len() < 4096 {
            n = n
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            out.extend_from_slice(words[(n >> 33) as usize % words.len()].as_bytes());
            out.extend_from_slice(format!("={} ", (n >> 40) % 1000).as_bytes());
        }
        out
    }

    struct Setup {
        options: CompressionOptions,
        memory: CodecMemory,
        choice: CodecChoice,
        codec: CompressionType,
    }

    impl Setup {
        fn new(choice: CodecChoice, codec: CompressionType) -> Self {
            Self {
                options: CompressionOptions::default(),
                memory: CodecMemory::default(),
                choice,
                codec,
            }
        }

        /// Codecs of the blocks of one table, and how many were not tried.
        fn table(&self, blocks: impl Iterator<Item = Vec<u8>>) -> (Vec<CompressionType>, usize) {
            let wanted = Wanted {
                choice: self.choice,
                codec: self.codec,
                options: &self.options,
                max_per_kb: 896,
                seed: 1,
            };
            let mut chooser = Chooser::of(&wanted, &self.memory).unwrap();
            let options = Chooser::options_of(&wanted);
            let mut compressor = Compressor::new(self.codec, &options, 896).unwrap();
            let (mut codecs, mut bypassed) = (Vec::new(), 0);
            for raw in blocks {
                let packed =
                    Packed::pack(chooser.as_deref_mut(), &mut compressor, None, (&raw, true));
                let packed = packed.unwrap();
                bypassed += usize::from(packed.is_bypassed);
                codecs.push(match packed.bytes {
                    Some(_) => packed.codec,
                    None => CompressionType::None,
                });
            }
            if let Some(chooser) = chooser {
                chooser.remember();
            }
            (codecs, bypassed)
        }
    }

    #[test]
    fn without_a_rule_every_block_gets_the_codec_of_the_options() {
        let setup = Setup::new(CodecChoice::Fixed, CompressionType::Lz4);
        let (codecs, bypassed) = setup.table((0..40).map(text).chain((0..40).map(noise)));
        assert!(codecs[..40].iter().all(|c| *c == CompressionType::Lz4));
        assert!(codecs[40..].iter().all(|c| *c == CompressionType::None));
        assert_eq!(bypassed, 0);
    }

    #[test]
    fn skipping_stops_where_data_does_not_shrink_and_begins_again_where_it_does() {
        let mut setup = Setup::new(CodecChoice::Fixed, CompressionType::Lz4);
        setup.options.auto_skip = true;
        let (_, bypassed) = setup.table((0..1000).map(noise));
        assert!((900..1000).contains(&bypassed), "{bypassed}");
        // The next table knows, and finds out within a sample that data has changed.
        let (codecs, bypassed) = setup.table((0..400).map(text));
        assert!((1..200).contains(&bypassed), "{bypassed}");
        assert!(codecs[300..].iter().all(|c| *c == CompressionType::Lz4));
    }

    #[test]
    fn the_adaptive_rule_takes_the_slow_codec_only_where_it_saves_enough() {
        let eager = CodecChoice::Adaptive { saving_percent: 5 };
        let (codecs, _) = Setup::new(eager, CompressionType::Zstd).table((0..200).map(text));
        let slow = codecs
            .iter()
            .filter(|c| **c == CompressionType::Zstd)
            .count();
        assert!(slow > 190, "{slow}");
        let reluctant = CodecChoice::Adaptive { saving_percent: 95 };
        let (codecs, _) = Setup::new(reluctant, CompressionType::Zstd).table((0..200).map(text));
        let fast = codecs
            .iter()
            .filter(|c| **c == CompressionType::Lz4)
            .count();
        assert!(fast > 190, "{fast}");
        let (codecs, bypassed) =
            Setup::new(eager, CompressionType::Zstd).table((0..200).map(noise));
        assert!(codecs.iter().all(|c| *c == CompressionType::None));
        assert!(bypassed > 150, "{bypassed}");
    }

    /// Noise and text side by side, each block by itself; and a fast codec alone where the slow one is not asked for.
    #[test]
    fn blocks_of_noise_do_not_speak_for_those_beside_them() {
        let both = |i: u64| {
            if i.is_multiple_of(3) {
                noise(i)
            } else {
                text(i)
            }
        };
        for (saving_percent, wanted) in [(5, CompressionType::Zstd), (100, CompressionType::Lz4)] {
            let choice = CodecChoice::Adaptive { saving_percent };
            let setup = Setup::new(choice, CompressionType::Zstd);
            let (codecs, bypassed) = setup.table((0..600).map(both));
            let counted = codecs.iter().filter(|c| **c == wanted).count();
            assert_eq!(counted, 400, "{saving_percent}");
            assert!((150..200).contains(&bypassed), "{bypassed}");
        }
        assert!(!is_noisy(b"") && !is_noisy(&[7; 5000]) && is_noisy(&noise(1)));
    }

    #[test]
    fn estimates_reach_what_they_see_and_never_pass_it() {
        for seen in [0, 1, 1000, WHOLE / 2, WHOLE] {
            let mut estimate = WHOLE / 3;
            for _ in 0..5000 {
                let next = towards(estimate, seen);
                assert!(next.abs_diff(seen) <= estimate.abs_diff(seen));
                estimate = next;
            }
            assert_eq!(estimate.abs_diff(seen), 0, "{seen}");
        }
    }
}
