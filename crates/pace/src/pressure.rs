//! How close the stages behind writers are to their bounds: the pressures of the policy `smooth`, from facts.
//!
//! Each pressure lies between 0 and 1. At one half the buffer in front of a stage is half full; at 1 the bound is reached.
//! A stage that has no job that runs or could run has no pressure: writers would wait for nothing. This is the invariant "no
//! dead pressure": in every state in which a pressure is above zero, some job that runs or is due reduces exactly it.

/// From this pressure on writers look at their pace; below, they do not.
pub const WATCHED: f64 = 0.15;

/// Memory of a family's memtables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryFacts {
    /// Bytes of sealed memtables that are not in a table yet; of those that are being flushed, the part that is left.
    pub unflushed: u64,
    /// Bytes that may still be written before writes have to stop.
    pub room: u64,
    /// A flush of them runs, is queued, or is due.
    pub drains: bool,
}

/// Level 0 of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level0Facts {
    /// Files that writes brought, those being compacted whole, those being flushed by what is there.
    pub files: f64,
    /// Bytes of keys and values in a file.
    pub file_bytes: f64,
    /// Bytes of keys and values in all of them; 0 where they say nothing.
    pub volume: f64,
    /// Seconds until the compaction out of level 0 that runs will end; `None` if none runs.
    pub relief: Option<f64>,
    /// Seconds for which it has run; 0 if none does.
    pub spent: f64,
    /// Compactions out of level 0 that ended, in all.
    pub rounds: u64,
    /// Files that compactions within level 0 have taken off, in all.
    pub merged: u64,
    /// Files that make a compaction due.
    pub trigger: i32,
    /// Files at which RocksDB would stop writes.
    pub stop: i32,
    /// A compaction out of level 0, or one that it waits for, runs or is due.
    pub drains: bool,
}

/// Debt of a family's tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DebtFacts {
    /// Bytes of it that writes made ([`crate::WorkDebt`]).
    pub work: u64,
    /// Debt at which RocksDB would stop writes; 0: never.
    pub hard: u64,
    /// A compaction runs or is due.
    pub drains: bool,
}

/// Space on the disk, where there is a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceFacts {
    /// Bytes in use.
    pub used: u64,
    /// Bytes up to which there is no pressure.
    pub target: u64,
    /// Bytes that may not be exceeded; 0: no limit.
    pub max: u64,
    /// A job runs or is due that gives space back.
    pub drains: bool,
}

/// The state of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Its memtables.
    pub memory: MemoryFacts,
    /// Its level 0.
    pub level0: Level0Facts,
    /// Its deeper levels.
    pub debt: DebtFacts,
    /// The disk.
    pub space: SpaceFacts,
}

/// A stage that writers may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Flushes.
    Memory,
    /// Compactions out of level 0.
    Level0,
    /// Compactions below.
    Debt,
    /// All jobs that give space back.
    Space,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Level0, Self::Debt, Self::Space];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Level0 => "level0",
            Self::Debt => "debt",
            Self::Space => "space",
        }
    }
}

/// The pressures of one family, by [`Stage`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure([f64; 4]);

impl Pressure {
    /// The pressures of `facts`.
    pub fn of(facts: &Facts) -> Self {
        let m = &facts.memory;
        let memory = match m.drains {
            // Half: what is left to flush is as much as may still be written, so that both end together at the same speed.
            true => share(m.unflushed as f64, m.unflushed as f64 + m.room as f64),
            false => 0.0,
        };
        let l = &facts.level0;
        let (trigger, stop) = (f64::from(l.trigger), f64::from(l.stop));
        let level0 = match l.drains && l.trigger >= 0 && stop > trigger {
            true => share(l.files - trigger, stop - trigger),
            false => 0.0,
        };
        let d = &facts.debt;
        let debt = match d.drains && d.hard > 0 {
            true => share(d.work as f64, d.hard as f64),
            false => 0.0,
        };
        let s = &facts.space;
        let space = match s.drains && s.max > s.target {
            true => share(s.used as f64 - s.target as f64, (s.max - s.target) as f64),
            false => 0.0,
        };
        Self([memory, level0, debt, space])
    }

    /// The pressure of a stage.
    pub fn get(&self, stage: Stage) -> f64 {
        self.0[stage as usize]
    }

    /// The stage that is under most pressure, and that.
    pub fn worst(&self) -> (Stage, f64) {
        let all = Stage::ALL.map(|s| (s, self.get(s)));
        let first = all[0];
        all.into_iter()
            .fold(first, |a, b| if b.1 > a.1 { b } else { a })
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 && part > 0.0 {
        (part / whole).min(1.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(unflushed: u64, room: u64) -> f64 {
        let memory = MemoryFacts {
            unflushed,
            room,
            drains: true,
        };
        let facts = Facts {
            memory,
            ..Facts::default()
        };
        Pressure::of(&facts).get(Stage::Memory)
    }

    #[test]
    fn memory_is_half_full_when_both_sides_end_together() {
        assert_eq!(memory(0, 100), 0.0);
        assert_eq!(memory(0, 0), 0.0);
        assert_eq!(memory(100, 100), 0.5);
        assert_eq!(memory(100, 300), 0.25);
        assert_eq!(memory(300, 100), 0.75);
        assert_eq!(memory(1, 0), 1.0);
        assert_eq!(memory(u64::MAX, u64::MAX), 0.5);
    }

    #[test]
    fn level_0_counts_from_the_trigger_to_the_stop() {
        let at = |files, trigger, stop| {
            let level0 = Level0Facts {
                files,
                trigger,
                stop,
                drains: true,
                ..Level0Facts::default()
            };
            let facts = Facts {
                level0,
                ..Facts::default()
            };
            Pressure::of(&facts).get(Stage::Level0)
        };
        assert_eq!(at(4.0, 4, 36), 0.0);
        assert_eq!(at(20.0, 4, 36), 0.5);
        assert_eq!(at(36.0, 4, 36), 1.0);
        assert_eq!(at(400.0, 4, 36), 1.0);
        // Contradictory, and switched off.
        assert_eq!(at(20.0, 36, 36), 0.0);
        assert_eq!(at(20.0, 40, 36), 0.0);
        assert_eq!(at(20.0, -1, 36), 0.0);
    }

    #[test]
    fn debt_and_space_without_a_limit_do_not_count() {
        let facts = |work, hard, used, max| Facts {
            debt: DebtFacts {
                work,
                hard,
                drains: true,
            },
            space: SpaceFacts {
                used,
                target: 100,
                max,
                drains: true,
            },
            ..Facts::default()
        };
        let p = Pressure::of(&facts(u64::MAX, 0, u64::MAX, 0));
        assert_eq!(p, Pressure::default());
        let p = Pressure::of(&facts(64, 256, 150, 200));
        assert_eq!((p.get(Stage::Debt), p.get(Stage::Space)), (0.25, 0.5));
        assert_eq!(p.worst(), (Stage::Space, 0.5));
        let p = Pressure::of(&facts(512, 256, 100, 200));
        assert_eq!(p.worst(), (Stage::Debt, 1.0));
    }

    /// No dead pressure (cockroach#79463): what no job reduces is no pressure.
    #[test]
    fn what_nobody_works_on_is_no_pressure() {
        let full = Facts {
            memory: MemoryFacts {
                unflushed: 10,
                room: 0,
                drains: false,
            },
            level0: Level0Facts {
                files: 100.0,
                trigger: 4,
                stop: 36,
                drains: false,
                ..Level0Facts::default()
            },
            debt: DebtFacts {
                work: 10,
                hard: 1,
                drains: false,
            },
            space: SpaceFacts {
                used: 10,
                target: 1,
                max: 2,
                drains: false,
            },
        };
        assert_eq!(Pressure::of(&full), Pressure::default());
    }
}
