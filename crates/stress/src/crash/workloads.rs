//! The canonical workloads: short programs, each about one way in which files come and go.

use crate::model::program::{Durability, Op, Program, Update, ValueSpec};
use crate::model::{MergeKind, Setup, Tuning};
use spanlith_testkit::Rng;

/// Names of the workloads.
pub const WORKLOADS: &[&str] = &[
    "create",
    "fill",
    "sync",
    "sealed",
    "overwrite",
    "move",
    "roll",
    "merge",
    "single",
    "reopen",
    "unlogged",
    "large",
    "recycled",
    "continued",
    "families",
    "apart",
    "together",
    "blobs",
    "collected",
];

struct Maker {
    rng: Rng,
    stamp: u64,
    ops: Vec<Op>,
}

impl Maker {
    fn value(&mut self, len: u32) -> ValueSpec {
        self.stamp += 1;
        ValueSpec {
            stamp: self.stamp,
            len,
            style: u8::from(self.rng.one_in(2)),
        }
    }

    fn key(&mut self, space: u64) -> Vec<u8> {
        format!("k{:04}", self.rng.below(space)).into_bytes()
    }

    fn durability(&mut self, synced_one_in: u64) -> Durability {
        if synced_one_in > 0 && self.rng.one_in(synced_one_in) {
            Durability::Synced
        } else {
            Durability::Logged
        }
    }

    /// Puts, deletions and small batches.
    fn writes(&mut self, count: usize, space: u64, len: u32, synced_one_in: u64) {
        for _ in 0..count {
            let d = self.durability(synced_one_in);
            let op = match self.rng.below(6) {
                0 => Op::Write(Update::Delete(self.key(space)), d),
                1 => {
                    let n = self.rng.between(2, 4);
                    let updates = (0..n).map(|_| {
                        let key = self.key(space);
                        Update::Put(key, self.value(len))
                    });
                    Op::Batch(updates.collect(), d)
                }
                _ => {
                    let key = self.key(space);
                    Op::Write(Update::Put(key, self.value(len)), d)
                }
            };
            self.ops.push(op);
        }
    }

    fn flush(&mut self) {
        self.ops.push(Op::Flush(true));
    }

    fn work(&mut self) {
        self.ops.push(Op::Work(100));
    }
}

/// The workload `name`, varied by `seed`.
///
/// # Panics
/// If there is no workload of that name.
pub fn workload(name: &str, seed: u64) -> Program {
    let mut m = Maker {
        rng: Rng::new(seed),
        stamp: 0,
        ops: Vec::new(),
    };
    let mut setup = Setup {
        reverse: false,
        merge: MergeKind::None,
        levels: 7,
        families: 1,
        logs_apart: m.rng.one_in(4),
        real: false,
        world_seed: seed,
        own: "",
    };
    let mut tuning = Tuning::plain();
    tuning.block = 256;
    tuning.cache = 0;
    tuning.format = *m.rng.pick(&[5, 7]);
    tuning.dynamic = m.rng.below(2);
    tuning.tracked = m.rng.below(2);
    tuning.recycle = u64::from(m.rng.one_in(4));
    match name {
        "create" => {
            m.ops.push(Op::Reopen(tuning));
            m.writes(1, 4, 10, 1);
            m.ops.push(Op::Reopen(tuning));
        }
        "fill" => {
            for _ in 0..3 {
                m.writes(12, 200, 60, 6);
                m.flush();
                m.work();
            }
        }
        "sync" => m.writes(60, 20, 40, 3),
        "sealed" => {
            tuning.buffers = 6;
            for _ in 0..3 {
                m.writes(4, 20, 30, 0);
                m.ops.push(Op::Flush(false));
                m.writes(4, 20, 30, 5);
            }
            m.work();
            m.writes(3, 20, 30, 0);
        }
        "overwrite" => {
            tuning.l0 = 2;
            tuning.file = 4 << 10;
            tuning.base = 16 << 10;
            tuning.growth = 2;
            for round in 0..6 {
                m.writes(10, 30, 400, 8);
                m.flush();
                if round % 2 == 1 {
                    m.work();
                }
            }
            m.ops.push(Op::Compact(None, None));
            m.work();
        }
        "move" => {
            tuning.l0 = 1;
            tuning.file = 4 << 10;
            for round in 0..4 {
                for n in 0..6 {
                    let key = format!("r{round}k{n}").into_bytes();
                    let value = m.value(100);
                    m.ops
                        .push(Op::Write(Update::Put(key, value), Durability::Logged));
                }
                m.flush();
                m.work();
            }
        }
        "roll" => {
            tuning.manifest = 100;
            for _ in 0..4 {
                m.writes(5, 20, 30, 4);
                m.flush();
            }
            m.work();
        }
        "merge" => {
            setup.merge = *m.rng.pick(&[MergeKind::Add, MergeKind::Append]);
            tuning.l0 = 2;
            m.ops.push(Op::Snapshot(0));
            for round in 0..4 {
                for _ in 0..8 {
                    let key = m.key(4);
                    let operand = m.value(8);
                    let d = m.durability(8);
                    m.ops.push(Op::Write(Update::Merge(key, operand), d));
                }
                m.writes(2, 4, 8, 0);
                if round == 1 {
                    m.ops.push(Op::Snapshot(1));
                }
                m.flush();
                m.work();
            }
        }
        "single" => {
            tuning.l0 = 1;
            for _ in 0..4 {
                for _ in 0..8 {
                    let key = m.key(5);
                    let value = m.value(20);
                    let d = m.durability(8);
                    m.ops.push(Op::Write(Update::Toggle(key, value), d));
                }
                m.flush();
                m.work();
            }
        }
        "reopen" => {
            for _ in 0..4 {
                m.writes(6, 20, 50, 4);
                if m.rng.one_in(2) {
                    m.flush();
                }
                m.writes(3, 20, 50, 0);
                m.ops.push(Op::Reopen(tuning));
            }
        }
        "unlogged" => {
            // Recycled logs take no unlogged writes.
            tuning.recycle = 0;
            tuning.zlog = m.rng.below(2);
            for round in 0..3 {
                for _ in 0..8 {
                    let key = m.key(10);
                    let value = m.value(20);
                    let d = *m.rng.pick(&[
                        Durability::Unlogged,
                        Durability::Logged,
                        Durability::Synced,
                    ]);
                    m.ops.push(Op::Write(Update::Put(key, value), d));
                }
                if round != 1 {
                    m.flush();
                }
            }
        }
        "large" => {
            for len in [30_000, 33_000, 70_000, 100] {
                m.writes(2, 6, len, 3);
            }
            m.work();
            m.writes(2, 6, 50_000, 2);
        }
        "recycled" => {
            tuning.recycle = 2;
            for round in 0..4 {
                m.writes(5, 20, 90, 4);
                m.flush();
                m.writes(4, 20, 30, 3);
                if round == 1 {
                    m.ops.push(Op::Reopen(tuning));
                }
            }
        }
        "continued" => {
            tuning.reuse = 1;
            tuning.manifest = *m.rng.pick(&[1 << 30, 2000]);
            for round in 0..4 {
                m.writes(5, 20, 50, 4);
                m.flush();
                m.work();
                m.writes(2, 20, 50, 2);
                if round < 3 {
                    m.ops.push(Op::Reopen(tuning));
                }
            }
        }
        "families" => {
            setup.families = 3;
            tuning.recycle = m.rng.below(2);
            for round in 0..3 {
                m.writes(8, 60, 40, 5);
                m.flush();
                m.writes(4, 60, 40, 3);
                m.ops.push(match round {
                    0 => Op::Compact(None, None),
                    _ => Op::Reopen(tuning),
                });
            }
            m.writes(4, 60, 40, 2);
        }
        "apart" => {
            // Families whose memtables fill at different times, so that a log is needed by some only.
            setup.families = 3;
            tuning.stay = m.rng.below(2);
            for len in [9000, 100, 5000] {
                m.writes(10, 12, len, 5);
                m.work();
                m.ops.push(Op::Sync);
                m.writes(3, 60, 40, 0);
            }
            m.ops.push(Op::Reopen(tuning));
            m.writes(3, 60, 40, 2);
        }
        "together" => {
            setup.families = 3;
            tuning.atomic = 1;
            tuning.reuse = m.rng.below(2);
            for round in 0..3 {
                for _ in 0..6 {
                    let key = m.key(60);
                    let value = m.value(40);
                    let d = *m.rng.pick(&[Durability::Logged, Durability::Synced]);
                    m.ops.push(Op::Write(Update::Put(key, value), d));
                }
                m.flush();
                m.work();
                if round == 1 {
                    m.ops.push(Op::Reopen(tuning));
                }
            }
        }
        "blobs" => {
            // Values in blob files; garbage is collected by the age of files, and separation goes off and on.
            tuning.blob_min = 41;
            tuning.blob_file = *m.rng.pick(&[1, 600, 256 << 20]);
            tuning.blob_gc = *m.rng.pick(&[0, 51, 101]);
            tuning.blob_force = *m.rng.pick(&[30, 100]);
            tuning.blob_codec = *m.rng.pick(&[0, 4]);
            tuning.blob_ahead = *m.rng.pick(&[0, 4096]);
            tuning.l0 = 2;
            for round in 0..4 {
                m.writes(6, 12, 100, 4);
                m.flush();
                m.work();
                if round == 1 {
                    m.ops.push(Op::Compact(None, None));
                }
                m.writes(2, 12, 60, 2);
                if round == 2 {
                    let mut next = tuning;
                    next.blob_min = 41 * m.rng.below(2);
                    m.ops.push(Op::Reopen(next));
                }
            }
        }
        "collected" => {
            // Blob files are emptied by a target of space, table by table.
            tuning.blob_min = 1;
            tuning.blob_file = *m.rng.pick(&[300, 1000]);
            tuning.blob_budget = *m.rng.pick(&[1, 1, 1, 3]);
            tuning.l0 = 2;
            tuning.file = 1;
            for _ in 0..5 {
                m.writes(8, 10, 90, 5);
                m.flush();
                m.work();
            }
            m.ops.push(Op::Reopen(tuning));
            m.writes(3, 10, 90, 1);
            m.flush();
            m.work();
        }
        other => panic!("no workload {other}"),
    }
    Program {
        setup,
        tuning,
        ops: m.ops,
    }
}
