//! A database in memory on a file system that fails when told to, whose background jobs and timers run
//! when a test says so.

use spanlith_env::{Env, Executor, FaultFs, Job, JobClass, ManualExecutor, MemFs, VirtualClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Tick = Box<dyn FnMut() -> bool + Send>;

/// A manual executor whose timers tick when a test says so.
#[derive(Default)]
pub struct Ticking {
    pub jobs: ManualExecutor,
    pub timers: Mutex<Vec<(String, Tick)>>,
}

impl Ticking {
    /// Runs the timers of that name once, and forgets those that want no more.
    pub fn tick(&self, name: &str) {
        // Not under the lock: a tick may start another timer.
        let (mut due, rest): (Vec<_>, Vec<_>) = {
            let mut timers = self.timers.lock().unwrap();
            timers.drain(..).partition(|t| t.0 == name)
        };
        self.timers.lock().unwrap().extend(rest);
        due.retain_mut(|(_, tick)| tick());
        self.timers.lock().unwrap().extend(due);
    }
}

impl Executor for Ticking {
    fn spawn(&self, class: JobClass, job: Job) {
        self.jobs.spawn(class, job);
    }

    fn reserve(&self, _: JobClass, _: usize) {}

    fn is_manual(&self) -> bool {
        true
    }

    fn help(&self) -> bool {
        self.jobs.help()
    }

    fn periodic(&self, name: &str, _: Duration, tick: Tick) -> Box<dyn Send + Sync> {
        self.timers.lock().unwrap().push((name.to_string(), tick));
        Box::new(())
    }
}

/// The world and its parts.
pub struct World {
    pub mem: Arc<MemFs>,
    pub fs: Arc<FaultFs>,
    pub env: Env,
    pub executor: Arc<Ticking>,
    pub clock: Arc<VirtualClock>,
}

impl World {
    /// With random numbers from `seed`.
    pub fn new(seed: u64) -> Self {
        let mem = Arc::new(MemFs::new());
        let fs = Arc::new(FaultFs::new(mem.clone()));
        let (mut env, _, clock) = Env::test(fs.clone(), seed);
        let executor = Arc::new(Ticking::default());
        env.executor = executor.clone();
        Self {
            mem,
            fs,
            env,
            executor,
            clock,
        }
    }

    /// Lets time pass, and the timer of tries look once.
    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.executor.tick("resume");
        self.executor.jobs.run_until_idle();
    }
}
