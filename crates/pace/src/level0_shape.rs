//! How many files level 0 is to have, and how large they are: few large ones where reads prevail, many small ones where
//! writes do.
//!
//! A read looks into each file of level 0, and an insert searches a memtable whose size decides how large such a file is. The
//! product of both, the volume, stays, and so does what a compaction out of level 0 takes in;
//! the memory of memtables grows with their size. Three rules:
//!
//! - `Paper`: case study B of the study of RocksDB on 3D XPoint. 24 files, or 6 while less than a quarter of the operations are
//!   writes, with a hysteresis of five points to both sides, judged every five seconds by the last ten.
//! - `Continuous`: the number of files, between the two, at which reads and writes together take least time, in steps of two,
//!   one in ten seconds at most.
//! - `Merged`: as `Paper`, but a memtable stays as small as for 24 files, and a flush makes one file of four of them: inserts stay
//!   as fast, reads find as few files, and at least six memtables are needed.

use std::collections::VecDeque;

/// Most and fewest files.
pub const FILES_MAX: u32 = 24;
/// See [`FILES_MAX`].
pub const FILES_MIN: u32 = 6;
/// Time between two looks, and the time that they look back at, in nanoseconds.
const EVERY: u64 = 5_000_000_000;
const BACK: u64 = 10_000_000_000;
/// Looks that are kept: a few more than that time has.
const LOOKS_MAX: usize = 8;
/// Share of writes from which level 0 has many files, and below which it has few.
const ENTER: f64 = 0.30;
const LEAVE: f64 = 0.20;
/// Nanoseconds that one more file costs a read, without and with a filter of its keys, and twice the entries of a memtable an
/// insert. They are rough: a factor of two moves the number of files by one step.
const FILE_COSTS: [f64; 2] = [1500.0, 250.0];
const DOUBLING_COST: f64 = 40.0;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// See the head of the module.
    Paper,
    /// See the head of the module.
    Continuous,
    /// See the head of the module.
    Merged,
}

/// Describes level 0 as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level0Shape {
    /// Files at which RocksDB's rules begin to slow writers down.
    pub files: u32,
    /// Memtables that become one file.
    pub merged: u32,
}

impl Level0Shape {
    /// Bytes of one memtable for a volume.
    pub fn memtable_bytes(&self, volume: u64) -> u64 {
        (volume / u64::from(self.files.max(1)) / u64::from(self.merged.max(1))).max(64 << 10)
    }

    /// Files that make a compaction due, that slow writers down, and that stop them.
    pub fn triggers(&self) -> [i32; 3] {
        let n = self.files.min(1 << 20) as i32;
        [(n / 6).max(1), n, n + n * 4 / 5]
    }
}

/// Counts of operations at a time.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: u64,
    reads: u64,
    writes: u64,
}

/// The planner of one family.
#[derive(Clone, Debug)]
pub struct ShapePlanner {
    looks: VecDeque<Look>,
    files: u32,
    changed: u64,
}

impl Default for ShapePlanner {
    fn default() -> Self {
        Self {
            looks: VecDeque::new(),
            files: FILES_MAX,
            changed: 0,
        }
    }
}

impl ShapePlanner {
    /// Returns whether a look is due.
    pub fn is_due(&self, now: u64) -> bool {
        let last = self.looks.back();
        last.is_none_or(|l| now.saturating_sub(l.at) >= EVERY)
    }

    /// Takes in how many operations there were in all, and returns the shape that level 0 is to have from now on.
    pub fn look(
        &mut self,
        now: u64,
        (reads, writes): (u64, u64),
        rule: ShapeRule,
        has_filter: bool,
    ) -> Level0Shape {
        self.looks.push_back(Look {
            at: now,
            reads,
            writes,
        });
        // One that is as old as what is looked back at stays.
        let is_old = |looks: &VecDeque<Look>| now.saturating_sub(looks[1].at) >= BACK;
        while self.looks.len() > LOOKS_MAX || self.looks.len() > 2 && is_old(&self.looks) {
            self.looks.pop_front();
        }
        let first = self.looks[0];
        let reads = reads.saturating_sub(first.reads) as f64;
        let writes = writes.saturating_sub(first.writes) as f64;
        if reads + writes > 0.0 {
            self.files = match rule {
                ShapeRule::Paper | ShapeRule::Merged => self.by_share(writes / (reads + writes)),
                ShapeRule::Continuous => self.by_cost(now, reads, writes, has_filter),
            };
        }
        let is_few = self.files < FILES_MAX;
        Level0Shape {
            files: self.files,
            merged: match rule {
                ShapeRule::Merged if is_few => FILES_MAX / FILES_MIN,
                _ => 1,
            },
        }
    }

    fn by_share(&self, writes: f64) -> u32 {
        if writes > ENTER {
            FILES_MAX
        } else if writes < LEAVE {
            FILES_MIN
        } else {
            // As it is, of the two: the rule may have been another one before.
            match self.files > FILES_MIN {
                true => FILES_MAX,
                false => FILES_MIN,
            }
        }
    }

    fn by_cost(&mut self, now: u64, reads: f64, writes: f64, has_filter: bool) -> u32 {
        if now.saturating_sub(self.changed) < BACK && self.changed != 0 {
            return self.files;
        }
        // reads * file * n + writes * doubling * log2(volume / n) is least here; half of the files are there on average.
        let file = FILE_COSTS[usize::from(has_filter)] / 2.0;
        let best = writes * DOUBLING_COST / (std::f64::consts::LN_2 * (reads * file).max(1.0));
        let files = f64::from(self.files);
        let next = if best > files * 1.5 {
            self.files * 2
        } else if best < files / 1.5 {
            self.files / 2
        } else {
            self.files
        };
        let next = next.clamp(FILES_MIN, FILES_MAX);
        if next != self.files {
            self.changed = now.max(1);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Files after each five seconds of so many reads and writes.
    fn plan(rule: ShapeRule, phases: &[(u64, u64, usize)]) -> Vec<Level0Shape> {
        let mut p = ShapePlanner::default();
        let (mut now, mut reads, mut writes) = (S, 0, 0);
        let mut seen = vec![p.look(now, (0, 0), rule, true)];
        for &(r, w, times) in phases {
            for _ in 0..times {
                now += EVERY;
                assert!(p.is_due(now) && !p.is_due(now - 1));
                reads += r;
                writes += w;
                seen.push(p.look(now, (reads, writes), rule, true));
            }
        }
        seen
    }

    /// R-XP-23: 24 files while writes prevail, 6 while they are less than a quarter, with a hysteresis.
    #[test]
    fn the_rule_of_the_study_has_two_numbers_and_a_hysteresis() {
        let phases = [
            (10, 90, 3),
            (90, 10, 3),
            (75, 25, 4),
            (69, 31, 4),
            (75, 25, 4),
        ];
        let files: Vec<u32> = plan(ShapeRule::Paper, &phases)
            .iter()
            .map(|s| s.files)
            .collect();
        // The last ten seconds count: the first five of a phase are seen half.
        assert_eq!(files[..4], [24, 24, 24, 24]);
        assert_eq!(files[5..7], [6, 6]);
        assert_eq!(files[7..11], [6, 6, 6, 6], "between the two: as it was");
        assert_eq!(files[12..15], [24, 24, 24]);
        assert_eq!(files[15..], [24, 24, 24, 24], "between the two: as it was");
    }

    #[test]
    fn the_volume_stays() {
        let few = Level0Shape {
            files: 6,
            merged: 1,
        };
        let merged = Level0Shape {
            files: 6,
            merged: 4,
        };
        let many = Level0Shape {
            files: 24,
            merged: 1,
        };
        let volume = 24 * (64u64 << 20);
        assert_eq!(few.memtable_bytes(volume), 256 << 20);
        assert_eq!(merged.memtable_bytes(volume), 64 << 20);
        assert_eq!(many.memtable_bytes(volume), 64 << 20);
        assert_eq!(many.triggers(), [4, 24, 43]);
        assert_eq!(few.triggers(), [1, 6, 10]);
    }

    /// R-XP-27: several small memtables become one file while reads prevail.
    #[test]
    fn merged_memtables_stay_small() {
        let seen = plan(ShapeRule::Merged, &[(90, 10, 3), (10, 90, 3)]);
        let shape = |files, merged| Level0Shape { files, merged };
        assert_eq!(seen[0], shape(24, 1));
        assert_eq!(seen[3], shape(6, 4));
        assert_eq!(seen[6], shape(24, 1));
    }

    #[test]
    fn the_continuous_rule_goes_by_costs_in_steps() {
        let phases = [(0, 1000, 2), (1000, 10, 8), (10, 1000, 8)];
        let files: Vec<u32> = plan(ShapeRule::Continuous, &phases)
            .iter()
            .map(|s| s.files)
            .collect();
        assert_eq!(files[2], 24);
        assert!(files.contains(&12), "{files:?}");
        assert_eq!(files[10], 6);
        assert_eq!(files[18], 24);
        for pair in files.windows(2) {
            let (a, b) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            assert!(b <= a * 2, "{files:?}");
        }
    }

    #[test]
    fn counts_and_clocks_that_go_back_change_nothing() {
        let mut p = ShapePlanner::default();
        for rule in [ShapeRule::Paper, ShapeRule::Continuous, ShapeRule::Merged] {
            for now in [0, u64::MAX, 5, 0] {
                let s = p.look(now, (u64::MAX - now, now), rule, false);
                assert!((FILES_MIN..=FILES_MAX).contains(&s.files));
                assert!(s.memtable_bytes(0) > 0 && s.triggers()[0] > 0);
            }
        }
        let mut idle = ShapePlanner::default();
        for now in 0..20 {
            let s = idle.look(now * EVERY, (7, 7), ShapeRule::Paper, true);
            assert_eq!(s.files, FILES_MAX, "nobody reads or writes");
        }
    }
}
