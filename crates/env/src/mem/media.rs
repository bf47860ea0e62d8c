//! Describes what a device in memory holds: what is durable, what its cache holds beside that, and what is left of it when the power
//! goes.

use crate::traits::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: usize = 4096;
/// Says what a disk writes as a whole, whatever happens.
const SECTOR: usize = 512;

/// Blocks that are found together.
const BLOCKS_OF_RUN: u64 = 256;

type Block = Option<Arc<[u8; BLOCK]>>;

/// Bytes by block; blocks nobody wrote are zeros and take no room.
#[derive(Clone, Debug, Default)]
struct Image {
    runs: BTreeMap<u64, Vec<Block>>,
}

impl Image {
    fn read(&self, mut offset: u64, mut buf: &mut [u8]) {
        while !buf.is_empty() {
            let (block, within) = (offset / BLOCK as u64, (offset % BLOCK as u64) as usize);
            let run = self.runs.get(&(block / BLOCKS_OF_RUN));
            // To the end of the run.
            let rest = (BLOCKS_OF_RUN - block % BLOCKS_OF_RUN) as usize * BLOCK - within;
            let (mut part, after) = buf.split_at_mut(buf.len().min(rest));
            offset += part.len() as u64;
            buf = after;
            let (mut at, mut within) = ((block % BLOCKS_OF_RUN) as usize, within);
            while !part.is_empty() {
                let n = part.len().min(BLOCK - within);
                let (now, next) = part.split_at_mut(n);
                let bytes = run.and_then(|run| run.get(at)).and_then(Option::as_ref);
                match bytes.and_then(|b| b.get(within..within + n)) {
                    Some(bytes) => now.copy_from_slice(bytes),
                    None => now.fill(0),
                }
                (at, within, part) = (at + 1, 0, next);
            }
        }
    }

    fn write(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let (block, within) = (offset / BLOCK as u64, (offset % BLOCK as u64) as usize);
            let n = data.len().min(BLOCK - within);
            let (part, rest) = data.split_at(n);
            let run = self.runs.entry(block / BLOCKS_OF_RUN).or_default();
            let at = (block % BLOCKS_OF_RUN) as usize;
            if run.len() <= at {
                run.resize(at + 1, None);
            }
            if let Some(place) = run.get_mut(at) {
                let bytes = place.get_or_insert_with(|| Arc::new([0; BLOCK]));
                if let Some(place) = Arc::make_mut(bytes).get_mut(within..within + n) {
                    place.copy_from_slice(part);
                }
            }
            data = rest;
            offset += n as u64;
        }
    }
}

/// A part of a write that is in the cache only.
#[derive(Clone, Debug)]
struct Cached {
    write: u64,
    offset: u64,
    /// At most a sector, and within one.
    data: Vec<u8>,
}

/// Describes what is left of the cache when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// Nothing.
    Nothing,
    /// Everything: the process ended and the power stayed.
    Everything,
    /// Whole writes, each by chance.
    Writes,
    /// Sectors of 512 bytes, each by chance, so that writes tear.
    Sectors,
    /// Everything up to some write, which tears, and nothing after it.
    Prefix,
}

impl PowerLoss {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Everything,
        Self::Writes,
        Self::Sectors,
        Self::Prefix,
    ];
}

/// Describes what a device holds.
#[derive(Clone, Debug, Default)]
pub struct Media {
    durable: Image,
    visible: Image,
    cache: Vec<Cached>,
    next_write: u64,
}

impl Media {
    /// Reads what was written last.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        self.visible.read(offset, buf);
    }

    /// Writes into the cache.
    pub fn write_cached(&mut self, offset: u64, data: &[u8]) {
        self.visible.write(offset, data);
        let write = self.next_write;
        self.next_write += 1;
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let n = rest.len().min(SECTOR - (at % SECTOR as u64) as usize);
            let (part, behind) = rest.split_at(n);
            self.cache.push(Cached {
                write,
                offset: at,
                data: part.to_vec(),
            });
            at += n as u64;
            rest = behind;
        }
    }

    /// Writes past the cache; what the cache holds of the same place is older and gone.
    pub fn write_durable(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let mut kept = Vec::with_capacity(self.cache.len());
        for cached in self.cache.drain(..) {
            let (from, to) = (cached.offset, cached.offset + cached.data.len() as u64);
            if to <= offset || from >= end {
                kept.push(cached);
            } else if from < offset || to > end {
                // Of a sector that is written in part the rest goes with it.
                self.durable.write(from, &cached.data);
            }
        }
        self.cache = kept;
        self.visible.write(offset, data);
        self.durable.write(offset, data);
    }

    /// Empties the cache.
    pub fn flush(&mut self) {
        for cached in self.cache.drain(..) {
            self.durable.write(cached.offset, &cached.data);
        }
    }

    /// Returns what is there after the power was gone.
    #[must_use]
    pub fn after(&self, loss: PowerLoss, rng: &dyn Rng) -> Self {
        let mut durable = self.durable.clone();
        let last = self.next_write.saturating_sub(1);
        let first = self.cache.first().map_or(last, |c| c.write);
        let cut = first + rng.next_u64() % (last - first + 1);
        let mut decided: Option<(u64, bool)> = None;
        for cached in &self.cache {
            let by_chance = || rng.next_u64() & 1 == 1;
            let is_kept = match loss {
                PowerLoss::Nothing => false,
                PowerLoss::Everything => true,
                PowerLoss::Sectors => by_chance(),
                PowerLoss::Prefix => cached.write < cut || (cached.write == cut && by_chance()),
                PowerLoss::Writes => match decided {
                    Some((write, is_kept)) if write == cached.write => is_kept,
                    _ => decided.insert((cached.write, by_chance())).1,
                },
            };
            if is_kept {
                durable.write(cached.offset, &cached.data);
            }
        }
        Self {
            visible: durable.clone(),
            durable,
            cache: Vec::new(),
            next_write: self.next_write,
        }
    }
}

impl Media {
    /// Returns what a power loss leaves, by `choice`, which is asked for a number below what it is given: 0 loses all that it
    /// can, the largest nothing.
    pub(super) fn after_power_loss(&self, choice: &mut dyn FnMut(u64) -> u64) -> Self {
        let mut durable = self.durable.clone();
        if !self.cache.is_empty() {
            let way = choice(4).min(3);
            let mut decided: Option<(u64, bool)> = None;
            for cached in &self.cache {
                let is_kept = match (way, decided) {
                    (0, _) => false,
                    (3, _) => true,
                    (1, Some((write, is_kept))) if write == cached.write => is_kept,
                    _ => choice(2) > 0,
                };
                decided = Some((cached.write, is_kept));
                if is_kept {
                    durable.write(cached.offset, &cached.data);
                }
            }
        }
        Self {
            visible: durable.clone(),
            durable,
            cache: Vec::new(),
            next_write: self.next_write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SeededRng;

    fn read(media: &Media, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        media.read(offset, &mut out);
        out
    }

    #[test]
    fn a_power_loss_takes_from_the_cache_and_leaves_what_is_durable() {
        let rng = SeededRng::new(1);
        let mut media = Media::default();
        media.write_durable(0, &[1; 1024]);
        media.write_cached(512, &[2; 1024]);
        media.write_durable(512, &[3; 512]);
        assert_eq!(
            read(&media, 0, 2048),
            [vec![1; 512], vec![3; 512], vec![2; 512], vec![0; 512]].concat()
        );
        let lost = media.after(PowerLoss::Nothing, &rng);
        assert_eq!(
            read(&lost, 0, 2048),
            [vec![1; 512], vec![3; 512], vec![0; 1024]].concat()
        );
        let kept = media.after(PowerLoss::Everything, &rng);
        assert_eq!(read(&kept, 0, 2048), read(&media, 0, 2048));
        media.flush();
        let kept = media.after(PowerLoss::Nothing, &rng);
        assert_eq!(read(&kept, 0, 2048), read(&media, 0, 2048));
    }

    #[test]
    fn what_was_written_anywhere_is_read_back_across_blocks_and_runs() {
        let run = BLOCKS_OF_RUN * BLOCK as u64;
        let mut media = Media::default();
        for (n, offset) in [0, run - 3, 3 * run + 4090, 9 * run - 8000]
            .iter()
            .enumerate()
        {
            media.write_durable(*offset, &[n as u8 + 1; 9000]);
        }
        let mut wanted = vec![0; 10 * run as usize];
        for (n, offset) in [0, run - 3, 3 * run + 4090, 9 * run - 8000]
            .iter()
            .enumerate()
        {
            wanted[*offset as usize..][..9000].fill(n as u8 + 1);
        }
        for (from, len) in [
            (0, wanted.len()),
            (run as usize - 5, 20),
            (9 * run as usize - 1, 3 * BLOCK),
        ] {
            assert!(
                read(&media, from as u64, len) == wanted[from..from + len],
                "{from}"
            );
        }
    }

    #[test]
    fn writes_tear_at_sectors_and_never_within_one() {
        let rng = SeededRng::new(7);
        let mut media = Media::default();
        media.write_cached(0, &[9; 4096]);
        let mut torn = 0;
        for _ in 0..50 {
            let after = read(&media.after(PowerLoss::Sectors, &rng), 0, 4096);
            let sectors: Vec<bool> = after
                .chunks(SECTOR)
                .map(|s| {
                    assert!(s.iter().all(|&b| b == s[0]));
                    s[0] == 9
                })
                .collect();
            torn += usize::from(sectors.contains(&true) && sectors.contains(&false));
            let whole = read(&media.after(PowerLoss::Writes, &rng), 0, 4096);
            assert!(whole.iter().all(|&b| b == whole[0]));
        }
        assert!(torn > 40);
    }
}
