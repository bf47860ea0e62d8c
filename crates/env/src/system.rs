//! The two worlds: the real one, and one that is a function of its seed.

use crate::clock::{SystemClock, VirtualClock};
use crate::executor::{ManualExecutor, ThreadExecutor};
use crate::posix::PosixFs;
use crate::rng::{SeededRng, SystemRng};
use crate::traits::{Env, FileSystem};
use std::sync::{Arc, OnceLock};

/// Shared by all databases of the process; its threads end with the process.
static THREADS: OnceLock<Arc<ThreadExecutor>> = OnceLock::new();

impl Env {
    /// The real world: the operating system's files, clock and randomness, and the threads that all
    /// databases of this process share.
    pub fn system() -> Self {
        let threads = THREADS.get_or_init(|| Arc::new(ThreadExecutor::new()));
        Self {
            fs: Arc::new(PosixFs::new()),
            clock: Arc::new(SystemClock),
            executor: Arc::clone(threads) as _,
            rng: Arc::new(SystemRng),
        }
    }

    /// A world for tests over `fs`: background jobs run when the executor is told to, time passes when
    /// the clock is, and chance is `seed`'s.
    pub fn test(
        fs: Arc<dyn FileSystem>,
        seed: u64,
    ) -> (Self, Arc<ManualExecutor>, Arc<VirtualClock>) {
        let executor = Arc::new(ManualExecutor::new());
        let clock = Arc::new(VirtualClock::new());
        let env = Self {
            fs,
            clock: Arc::clone(&clock) as _,
            executor: Arc::clone(&executor) as _,
            rng: Arc::new(SeededRng::new(seed)),
        };
        (env, executor, clock)
    }
}
