//! Which call fails, how, and how often.

use crate::model::world::FaultPlan;
use spanlith_env::{Effect, FaultFs, FaultRule, OpClass};
use spanlith_testkit::Rng;
use std::sync::{Arc, Mutex, MutexGuard};

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

/// All classes of calls, with the errors they may meet.
const CLASSES: &[(OpClass, &[i32])] = &[
    (OpClass::Append, &[EIO, ENOSPC, EDQUOT]),
    (OpClass::Sync, &[EIO, ENOSPC]),
    (OpClass::Close, &[EIO]),
    (OpClass::Create, &[EMFILE, ENOSPC, EROFS, EIO]),
    (OpClass::Truncate, &[EIO]),
    (OpClass::Rename, &[EIO, ENOSPC]),
    (OpClass::Delete, &[EIO, EROFS]),
    (OpClass::Link, &[EIO]),
    (OpClass::Dir, &[EIO]),
    (OpClass::OpenDir, &[EMFILE, EIO]),
    (OpClass::SyncDir, &[EIO]),
    (OpClass::Lock, &[EIO]),
    (OpClass::Open, &[EMFILE, EIO]),
    (OpClass::Read, &[EIO]),
    (OpClass::List, &[EIO]),
    (OpClass::Stat, &[EIO]),
    (OpClass::DeviceOpen, &[EMFILE, EIO]),
    (OpClass::DeviceRead, &[EIO]),
    (OpClass::DeviceWrite, &[EIO, ENOSPC]),
    (OpClass::DeviceFlush, &[EIO]),
];

/// One fault.
#[derive(Clone, Debug)]
pub struct Fault {
    class: OpClass,
    effect: Effect,
    /// The call that is hit, from 1, over all openings.
    nth: u64,
    /// Calls that are hit from there on.
    times: u64,
}

impl Fault {
    /// Reads give other bytes than were written.
    pub fn flips(&self) -> bool {
        matches!(self.effect, Effect::FlipBit { .. })
    }

    /// For counts.
    pub fn name(&self) -> String {
        let times = match self.times {
            1 => "once",
            u64::MAX => "until it ends",
            _ => "some times",
        };
        match self.effect {
            Effect::Fail { errno, keep } => {
                let short = if keep > 0 { ", short" } else { "" };
                format!("{:?} errno {errno}{short}, {times}", self.class)
            }
            _ => format!("{:?} flipped bit, {times}", self.class),
        }
    }

    /// Returns whether a message may come of it.
    pub fn explains(&self, text: &str) -> bool {
        // A file that could not be deleted is there until the next open.
        if text.contains("left behind") {
            return true;
        }
        match self.effect {
            Effect::Fail { .. } => text.contains("IO error: "),
            _ => text.contains("Corruption: "),
        }
    }
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    systems: Vec<FaultFs>,
}

impl State {
    fn calls(&self, class: OpClass) -> u64 {
        self.systems.iter().map(|fs| fs.calls(class)).sum()
    }
}

/// A fault under all openings of one world.
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

impl Faults {
    /// None: calls are counted.
    pub fn none() -> Self {
        Self::default()
    }

    /// This one.
    pub fn of(fault: Fault) -> Self {
        let faults = Self::default();
        faults.lock().fault = Some(fault);
        faults
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns what a world lays over its file system.
    pub fn plan(&self) -> FaultPlan {
        let this = self.clone();
        Arc::new(move |fs: &FaultFs| {
            let mut state = this.lock();
            if let Some(f) = state.fault.clone() {
                let made = state.calls(f.class);
                // Calls hit before count against the number of times.
                let nth = f.nth.saturating_sub(made);
                let hit = made.saturating_sub(f.nth - 1).min(f.times);
                if nth > 0 || f.times > hit {
                    let rule = FaultRule::with_effect(f.class, nth.max(1), f.effect);
                    let rule = rule.times(f.times.saturating_sub(hit));
                    fs.add(match f.effect {
                        Effect::FlipBit { .. } => rule.named(".sst"),
                        _ => rule,
                    });
                }
            }
            state.systems.push(fs.clone());
        })
    }

    /// The cause has ended.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.fault = None;
        for fs in &state.systems {
            fs.clear();
        }
    }

    /// How often it took effect.
    pub fn fired(&self) -> u64 {
        self.lock().systems.iter().map(FaultFs::fired_total).sum()
    }
}

/// Draws a fault for a program whose calls were counted.
pub fn draw(rng: &mut Rng, counted: &Faults) -> Fault {
    let state = counted.lock();
    loop {
        let (class, errors) = *rng.pick(CLASSES);
        let calls = state.calls(class);
        if calls == 0 {
            continue;
        }
        let errno = *rng.pick(errors);
        let effect = match class {
            OpClass::Read if rng.one_in(3) => Effect::FlipBit {
                bit: rng.next_u64(),
            },
            OpClass::Append => Effect::Fail {
                errno,
                keep: *rng.pick(&[0, 1, 3, 20, 1 << 20]),
            },
            // All or nothing: a page that stays torn takes with it what was acknowledged and not synced.
            OpClass::DeviceWrite => Effect::Fail {
                errno,
                keep: *rng.pick(&[0, 1 << 20]),
            },
            _ => Effect::Fail { errno, keep: 0 },
        };
        return Fault {
            class,
            effect,
            nth: rng.between(1, calls),
            times: *rng.pick(&[1, 1, 2, 5, u64::MAX]),
        };
    }
}
