//! Which threads carry out what: a pure function of mode, threads and cores.

use crate::options::AsyncMode;

/// Kinds of work, each with a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A group of writes; one at a time.
    Write,
    /// A read, a scan, or a commit that is not a plain write.
    Job,
    /// Takes as long as a flush.
    Long,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Write, Self::Job, Self::Long];
}

/// Lanes and their threads. Threads of a lane take all work of that lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// A thread that waits for its result carries out what is queued, if no other thread does.
    pub waiters_carry: bool,
    /// The lane of each kind.
    lane_of: [usize; 3],
    /// Most threads of each lane.
    pub threads: [usize; 3],
}

impl Plan {
    /// `threads` as the option `async_threads` says; 0 lets mode and cores decide.
    pub(super) fn new(mode: AsyncMode, threads: u64, cores: usize) -> Self {
        let mode = match (mode, cores) {
            (AsyncMode::Auto, ..=2) => AsyncMode::Inline,
            (AsyncMode::Auto, 3..=7) => AsyncMode::Shared,
            (AsyncMode::Auto, _) => AsyncMode::Dedicated,
            (mode, _) => mode,
        };
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        let asked = (threads > 0).then_some(threads);
        let of = |default: usize| asked.unwrap_or(default);
        let (is_one_lane, total) = match mode {
            AsyncMode::Inline => (false, of(2)),
            AsyncMode::Shared => (true, of(cores.saturating_sub(1).max(2))),
            _ => (false, of(1 + (cores / 2).max(1))),
        };
        let waiters_carry = mode == AsyncMode::Inline;
        match is_one_lane || total == 1 {
            true => Self {
                waiters_carry,
                lane_of: [0, 0, 2],
                threads: [total, 0, 1],
            },
            false => Self {
                waiters_carry,
                lane_of: [0, 1, 2],
                threads: [1, total - 1, 1],
            },
        }
    }

    /// The lane of a kind.
    pub(super) fn lane(&self, kind: Kind) -> usize {
        self.lane_of[kind as usize]
    }

    /// All threads together.
    pub(super) fn total(&self) -> usize {
        self.threads.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_choose_the_mode_and_options_overrule_them() {
        use AsyncMode::{Auto, Dedicated, Inline, Shared};
        for (mode, threads, cores, carry, lanes) in [
            (Auto, 0, 1, true, [1, 1, 1]),
            (Auto, 0, 2, true, [1, 1, 1]),
            (Auto, 0, 3, false, [2, 0, 1]),
            (Auto, 0, 7, false, [6, 0, 1]),
            (Auto, 0, 8, false, [1, 4, 1]),
            (Auto, 0, 64, false, [1, 32, 1]),
            (Inline, 0, 64, true, [1, 1, 1]),
            (Inline, 1, 2, true, [1, 0, 1]),
            (Inline, 4, 2, true, [1, 3, 1]),
            (Shared, 0, 1, false, [2, 0, 1]),
            (Shared, 1, 2, false, [1, 0, 1]),
            (Shared, 4, 2, false, [4, 0, 1]),
            (Dedicated, 0, 1, false, [1, 1, 1]),
            (Dedicated, 1, 8, false, [1, 0, 1]),
            (Dedicated, 4, 2, false, [1, 3, 1]),
        ] {
            let plan = Plan::new(mode, threads, cores);
            assert_eq!(
                (plan.waiters_carry, plan.threads),
                (carry, lanes),
                "{mode} {threads} {cores}"
            );
        }
    }

    #[test]
    fn every_kind_has_a_lane_with_a_thread() {
        for mode in AsyncMode::ALL {
            for threads in 0..5 {
                for cores in 1..10 {
                    let plan = Plan::new(*mode, threads, cores);
                    for kind in Kind::ALL {
                        assert!(plan.threads[plan.lane(kind)] > 0, "{plan:?} {kind:?}");
                    }
                }
            }
        }
    }
}
