//! Draws programs. Each uses its own subset of operations and weights (swarm testing), a small set of
//! keys that meet again and again, and values around the sizes where the formats change.

use super::player::SLOTS;
use super::program::{At, Durability, MaybeKey, Op, Program, Update, ValueSpec};
use super::setup::{MergeKind, Setup, Tuning};
use spanlith_testkit::{KeyGen, KeyShape, Rng};

/// Weights of the kinds of operations of one program.
struct Swarm {
    weights: Vec<(Kind, u32)>,
    keys: KeyGen,
    singles: u64,
    values: u8,
    synced: u64,
    unlogged: bool,
    stamp: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Delete,
    Toggle,
    Merge,
    DeleteRange,
    Batch,
    Get,
    MultiGet,
    Scan,
    Within,
    Iter,
    Move,
    Snapshot,
    Release,
    Flush,
    Sync,
    Compact,
    Work,
    Reopen,
    Kill,
    PowerLoss,
    ReadOnly,
    Recreate,
    Pass,
}

/// Kind, usual weight, whether a program may do without.
const KINDS: &[(Kind, u32, bool)] = &[
    (Kind::Put, 300, false),
    (Kind::Delete, 80, true),
    (Kind::Toggle, 60, true),
    (Kind::Merge, 100, true),
    (Kind::DeleteRange, 8, true),
    (Kind::Batch, 60, true),
    (Kind::Get, 120, false),
    (Kind::MultiGet, 20, true),
    (Kind::Scan, 12, true),
    (Kind::Within, 30, true),
    (Kind::Iter, 20, true),
    (Kind::Move, 200, true),
    (Kind::Snapshot, 15, true),
    (Kind::Release, 10, true),
    (Kind::Flush, 10, true),
    (Kind::Sync, 4, true),
    (Kind::Compact, 3, true),
    (Kind::Work, 40, true),
    (Kind::Reopen, 2, true),
    (Kind::Kill, 2, true),
    (Kind::PowerLoss, 4, true),
    (Kind::ReadOnly, 1, true),
    (Kind::Recreate, 1, true),
    (Kind::Pass, 6, true),
];

/// Draws a program of about `len` operations.
pub fn draw_program(rng: &mut Rng, len: usize, real: bool) -> Program {
    let setup = Setup::draw(rng, real);
    let mut swarm = Swarm::draw(rng, &setup);
    let ops = (0..len).map(|_| swarm.op(rng)).collect();
    Program {
        setup,
        tuning: swarm.tuning(rng),
        ops,
    }
}

/// A length: most programs are short, so that many options are drawn; some long enough to fill levels.
pub fn draw_len(rng: &mut Rng) -> usize {
    match rng.below(10) {
        0..3 => rng.between(20, 200) as usize,
        3..8 => rng.between(300, 1500) as usize,
        _ => rng.between(2000, 8000) as usize,
    }
}

impl Swarm {
    fn draw(rng: &mut Rng, setup: &Setup) -> Self {
        // The loss of families without a log is not a prefix of the writes.
        let unlogged = setup.families == 1 && rng.one_in(6);
        let mut weights = Vec::new();
        for (kind, usual, optional) in KINDS {
            let possible = match kind {
                Kind::Merge => setup.merge != MergeKind::None,
                // Losing an unlogged single delete would leave two puts in a row.
                Kind::Toggle => !unlogged,
                Kind::Recreate => setup.families > 1,
                Kind::Kill | Kind::PowerLoss | Kind::ReadOnly | Kind::Work | Kind::Pass => {
                    !setup.real
                }
                _ => true,
            };
            if possible && !(*optional && rng.one_in(4)) {
                let scale = *rng.pick(&[1, 2, 4, 8]);
                weights.push((*kind, usual * scale));
            }
        }
        let space = *rng.pick(&[4, 16, 64, 64, 300, 300, 1000]);
        let shape = *rng.pick(&[
            KeyShape::Uniform,
            KeyShape::Uniform,
            KeyShape::Zipf,
            KeyShape::Adversarial,
        ]);
        Self {
            weights,
            keys: KeyGen::new(shape, space),
            singles: *rng.pick(&[2, 10, 50]),
            values: rng.below(4) as u8,
            synced: *rng.pick(&[0, 3, 20, 100]),
            unlogged,
            stamp: 0,
        }
    }

    /// Logs that are reused refuse writes that leave them out.
    fn tuning(&self, rng: &mut Rng) -> Tuning {
        let mut tuning = Tuning::draw(rng);
        if self.unlogged {
            tuning.recycle = 0;
        }
        tuning
    }

    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        if rng.one_in(12) {
            return self.single(rng);
        }
        self.keys.draw(rng)
    }

    /// Keys of the single-delete class lie between the others and equal none.
    fn single(&self, rng: &mut Rng) -> Vec<u8> {
        format!("key{:013}s", rng.below(self.singles)).into_bytes()
    }

    fn value(&mut self, rng: &mut Rng) -> ValueSpec {
        self.stamp += 1;
        let len = match self.values {
            0 => rng.between(0, 20),
            1 => rng.between(50, 400),
            2 => *rng.pick(&[0, 1, 7, 8, 9, 63, 64, 127, 128, 255, 256, 1000, 4000]),
            _ => rng.skewed(3000),
        };
        let len = if rng.one_in(800) {
            *rng.pick(&[32_740, 32_768, 40_000, 65_536, 100_000])
        } else {
            len
        };
        ValueSpec {
            stamp: self.stamp,
            len: len as u32,
            style: u8::from(rng.one_in(2)),
        }
    }

    /// Operands are short, and for numbers mostly of their size: they add up.
    fn operand(&mut self, rng: &mut Rng) -> ValueSpec {
        self.stamp += 1;
        ValueSpec {
            stamp: self.stamp,
            len: if rng.one_in(10) {
                rng.below(12) as u32
            } else {
                8
            },
            style: 0,
        }
    }

    fn durability(&self, rng: &mut Rng) -> Durability {
        if self.unlogged && rng.one_in(3) {
            Durability::Unlogged
        } else if self.synced > 0 && rng.one_in(self.synced) {
            Durability::Synced
        } else {
            Durability::Logged
        }
    }

    fn update(&mut self, kind: Kind, rng: &mut Rng) -> Update {
        // The key is drawn from the class that the kind may touch.
        match kind {
            Kind::Delete => Update::Delete(self.keys.draw(rng)),
            Kind::DeleteRange => {
                let begin = self.maybe(rng, 1).unwrap_or_default();
                let mut end = self.maybe(rng, 1).unwrap_or_default();
                if end == begin {
                    // RocksDB counts an empty range when it is written, but not when it is replayed.
                    end.push(0);
                }
                Update::DeleteRange(begin, end)
            }
            Kind::Toggle => Update::Toggle(self.single(rng), self.value(rng)),
            Kind::Merge => Update::Merge(self.keys.draw(rng), self.operand(rng)),
            _ => Update::Put(self.keys.draw(rng), self.value(rng)),
        }
    }

    fn at(rng: &mut Rng) -> At {
        rng.one_in(3).then(|| rng.index(SLOTS) as u8)
    }

    fn maybe(&self, rng: &mut Rng, one_in: u64) -> MaybeKey {
        rng.one_in(one_in).then(|| {
            let mut key = self.key(rng);
            match rng.below(6) {
                0 => key.push(0),
                1 => key.truncate(key.len() / 2),
                _ => {}
            }
            key
        })
    }

    fn write_kinds(&self) -> Vec<(Kind, u32)> {
        let is_write = |k: Kind| {
            use Kind::{Delete, DeleteRange, Merge, Put, Toggle};
            matches!(k, Put | Delete | Toggle | Merge | DeleteRange)
        };
        let kinds = self.weights.iter().copied();
        kinds.filter(|(k, _)| is_write(*k)).collect()
    }

    fn op(&mut self, rng: &mut Rng) -> Op {
        let weights: Vec<u32> = self.weights.iter().map(|w| w.1).collect();
        let kind = self.weights[rng.weighted(&weights)].0;
        let slot = rng.index(SLOTS) as u8;
        match kind {
            Kind::Put | Kind::Delete | Kind::Toggle | Kind::Merge | Kind::DeleteRange => {
                let update = self.update(kind, rng);
                Op::Write(update, self.durability(rng))
            }
            Kind::Batch => {
                let kinds = self.write_kinds();
                let weights: Vec<u32> = kinds.iter().map(|w| w.1).collect();
                let count = rng.skewed(40);
                let updates = (0..count)
                    .map(|_| self.update(kinds[rng.weighted(&weights)].0, rng))
                    .collect();
                Op::Batch(updates, self.durability(rng))
            }
            Kind::Get => Op::Get(self.maybe(rng, 1).unwrap_or_default(), Self::at(rng)),
            Kind::MultiGet => {
                let keys = (0..rng.skewed(20)).map(|_| self.key(rng)).collect();
                Op::MultiGet(keys, Self::at(rng))
            }
            Kind::Scan => Op::Scan {
                lower: self.maybe(rng, 2),
                upper: self.maybe(rng, 2),
                back: rng.one_in(2),
                at: Self::at(rng),
            },
            Kind::Within => Op::Within(self.maybe(rng, 1).unwrap_or_default(), Self::at(rng)),
            Kind::Iter => match rng.below(6) {
                0 => Op::DropIter(slot),
                1 => Op::Refresh(slot),
                _ => Op::Iter {
                    slot,
                    lower: self.maybe(rng, 3),
                    upper: self.maybe(rng, 3),
                    at: Self::at(rng),
                },
            },
            Kind::Move => match rng.below(10) {
                0 => Op::First(slot),
                1 => Op::Last(slot),
                2 | 3 => Op::Seek(slot, self.maybe(rng, 1).unwrap_or_default()),
                4 | 5 => Op::SeekForPrev(slot, self.maybe(rng, 1).unwrap_or_default()),
                6 | 7 => Op::Next(slot, 1 + rng.skewed(20) as u32),
                _ => Op::Prev(slot, 1 + rng.skewed(20) as u32),
            },
            Kind::Snapshot => Op::Snapshot(slot),
            Kind::Release => Op::Release(slot),
            Kind::Flush => Op::Flush(!rng.one_in(4)),
            Kind::Sync => Op::Sync,
            Kind::Compact => Op::Compact(self.maybe(rng, 2), self.maybe(rng, 2)),
            Kind::Work => Op::Work(1 + rng.skewed(8) as u32),
            Kind::Reopen => Op::Reopen(self.tuning(rng)),
            Kind::Kill => Op::Kill(self.tuning(rng)),
            Kind::PowerLoss => Op::PowerLoss {
                after: rng.skewed(60) as u32,
                choice: if rng.one_in(4) {
                    rng.below(2)
                } else {
                    rng.next_u64()
                },
                tuning: self.tuning(rng),
            },
            Kind::ReadOnly => Op::ReadOnly,
            Kind::Recreate => Op::Recreate(1 + rng.below(2)),
            Kind::Pass => Op::Pass(1 + rng.below(40) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_drawn_program_is_read_back_as_the_same_program() {
        let mut rng = Rng::new(spanlith_testkit::seed(spanlith_testkit::test_name!()));
        for _ in 0..20 {
            let program = draw_program(&mut rng, 200, false);
            let back = Program::parse(&program.to_string());
            assert_eq!(back.as_ref(), Ok(&program));
        }
    }
}
