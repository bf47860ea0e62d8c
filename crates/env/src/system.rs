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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemFs;
    use crate::traits::JobClass;
    use std::time::Duration;

    #[test]
    fn the_real_world_has_one_set_of_threads() {
        let (a, b) = (Env::system(), Env::system());
        assert!(Arc::ptr_eq(&a.executor, &b.executor));
        let (tell, done) = std::sync::mpsc::channel();
        a.executor
            .spawn(JobClass::High, Box::new(move || tell.send(7).unwrap()));
        assert_eq!(done.recv().unwrap(), 7);
        assert_ne!(a.rng.next_u64(), a.rng.next_u64());
        let before = (a.clock.now_micros(), a.clock.monotonic_nanos());
        a.clock.sleep(Duration::from_micros(1));
        assert!(a.clock.monotonic_nanos() > before.1);
        assert!(before.0 > 1_500_000_000_000_000);
    }

    #[test]
    fn a_test_world_is_a_function_of_its_seed() {
        let run = |seed| {
            let (env, executor, clock) = Env::test(Arc::new(MemFs::new()), seed);
            env.executor.spawn(JobClass::Low, Box::new(|| {}));
            env.clock.sleep(Duration::from_secs(3));
            clock.advance(Duration::from_secs(4));
            let random = [env.rng.next_u64(), env.rng.next_u64()];
            (
                random,
                env.clock.now_micros(),
                env.clock.monotonic_nanos(),
                executor.pending(),
            )
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1).0, run(2).0);
        assert_eq!(run(1).2, 7_000_000_000);
        assert_eq!(run(1).3, 1);
    }
}
