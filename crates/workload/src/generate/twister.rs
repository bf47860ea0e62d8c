//! The 64-bit Mersenne Twister of C++ (`std::mt19937_64`), for generators that must draw what RocksDB's draw.

const STATES: usize = 312;
const MIDDLE: usize = 156;
const UPPER: u64 = 0xffff_ffff_8000_0000;
const LOWER: u64 = 0x7fff_ffff;
const TWIST: u64 = 0xb502_6f5a_a966_19e9;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Twister {
    states: Box<[u64; STATES]>,
    next: usize,
}

impl Twister {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut states = Box::new([0; STATES]);
        states[0] = seed;
        for i in 1..STATES {
            let last = states[i - 1];
            states[i] = (last ^ (last >> 62))
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(i as u64);
        }
        Self {
            states,
            next: STATES,
        }
    }

    /// The first number of the stream of a seed. Costs less than a stream: half of the states are made, one is twisted.
    pub fn first(seed: u64) -> u64 {
        let mut state = seed;
        let (mut zero, mut one) = (seed, 0);
        for i in 1..=MIDDLE {
            state = (state ^ (state >> 62))
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(i as u64);
            if i == 1 {
                one = state;
            }
        }
        zero = (zero & UPPER) | (one & LOWER);
        temper(state ^ (zero >> 1) ^ if zero & 1 == 0 { 0 } else { TWIST })
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        if self.next == STATES {
            for i in 0..STATES {
                let x = (self.states[i] & UPPER) | (self.states[(i + 1) % STATES] & LOWER);
                let twist = if x & 1 == 0 { 0 } else { TWIST };
                self.states[i] = self.states[(i + MIDDLE) % STATES] ^ (x >> 1) ^ twist;
            }
            self.next = 0;
        }
        let x = self.states[self.next];
        self.next += 1;
        temper(x)
    }
}

fn temper(mut x: u64) -> u64 {
    x ^= (x >> 29) & 0x5555_5555_5555_5555;
    x ^= (x << 17) & 0x71d6_7fff_eda6_0000;
    x ^= (x << 37) & 0xfff7_eee0_0000_0000;
    x ^ (x >> 43)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_thousandth_number_is_the_one_of_the_standard() {
        // C++ prescribes it for the seed 5489.
        let mut twister = Twister::new(5489);
        let numbers: Vec<u64> = (0..10_000).map(|_| twister.next_u64()).collect();
        assert_eq!(numbers[9999], 9_981_545_732_273_789_042);
    }

    #[test]
    fn the_first_number_alone_is_that_of_the_stream() {
        for seed in [0, 1, 667, u64::MAX, 0x1234_5678_9abc_def0] {
            assert_eq!(
                Twister::first(seed),
                Twister::new(seed).next_u64(),
                "{seed}"
            );
        }
    }
}
