//! A cache of blocks that counts only: which share of a load an LRU cache would serve.

use std::collections::HashMap;

const NONE: usize = usize::MAX;

/// Least recently used blocks leave first. Numbers of blocks stand for blocks.
#[derive(Clone, Debug)]
pub struct Lru {
    /// Place of each block that is there.
    places: HashMap<u64, usize>,
    /// Block, place before, place behind, in the order of use.
    entries: Vec<(u64, usize, usize)>,
    newest: usize,
    oldest: usize,
    capacity: usize,
    /// Blocks that were there when they were asked for.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
}

impl Lru {
    /// A cache of so many blocks, at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            places: HashMap::new(),
            entries: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity: capacity.max(1),
            hits: 0,
            misses: 0,
        }
    }

    fn unlink(&mut self, place: usize) {
        let (_, newer, older) = self.entries[place];
        match newer {
            NONE => self.newest = older,
            n => self.entries[n].2 = older,
        }
        match older {
            NONE => self.oldest = newer,
            o => self.entries[o].1 = newer,
        }
    }

    fn push(&mut self, place: usize) {
        self.entries[place].1 = NONE;
        self.entries[place].2 = self.newest;
        match self.newest {
            NONE => self.oldest = place,
            n => self.entries[n].1 = place,
        }
        self.newest = place;
    }

    /// Asks for a block.
    pub fn touch(&mut self, block: u64) {
        if let Some(&place) = self.places.get(&block) {
            self.hits += 1;
            self.unlink(place);
            self.push(place);
            return;
        }
        self.misses += 1;
        let place = if self.entries.len() < self.capacity {
            self.entries.push((block, NONE, NONE));
            self.entries.len() - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.entries[place].0);
            self.entries[place].0 = block;
            place
        };
        self.places.insert(block, place);
        self.push(place);
    }

    /// Counts from here on.
    pub fn reset_counts(&mut self) {
        (self.hits, self.misses) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;

    #[test]
    fn it_is_the_list_that_a_simple_form_keeps() {
        let seed = 5;
        let mut rng = Rng::new(seed);
        for capacity in [1, 2, 7] {
            let (mut lru, mut list, mut hits) = (Lru::new(capacity), Vec::new(), 0);
            for _ in 0..5000 {
                let block = rng.below(12);
                lru.touch(block);
                if let Some(at) = list.iter().position(|b| *b == block) {
                    list.remove(at);
                    hits += 1;
                }
                list.push(block);
                if list.len() > capacity {
                    list.remove(0);
                }
            }
            assert_eq!(
                (lru.hits, lru.hits + lru.misses),
                (hits, 5000),
                "seed {seed}"
            );
        }
    }
}
