//! Priorities of background threads.

use spanlith::{Db, options::OwnDbOptions};
use spanlith_env::{Env, Executor, Job, JobClass, Lowered, MemFs, ThreadExecutor};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Notes what is asked of it.
#[derive(Default)]
struct Asked {
    threads: ThreadExecutor,
    lowered: Mutex<Vec<(JobClass, Lowered)>>,
}

impl Executor for Asked {
    fn spawn(&self, class: JobClass, job: Job) {
        self.threads.spawn(class, job);
    }

    fn reserve(&self, class: JobClass, threads: usize) {
        self.threads.reserve(class, threads);
    }

    fn lower(&self, class: JobClass, what: Lowered) {
        self.lowered.lock().unwrap().push((class, what));
    }

    fn periodic(
        &self,
        name: &str,
        period: Duration,
        tick: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync> {
        self.threads.periodic(name, period, tick)
    }
}

#[test]
fn threads_of_compactions_are_lowered_if_the_option_says_so() {
    for (nice, expected) in [
        (0u64, vec![]),
        (7, vec![(JobClass::Low, Lowered::Processor(7))]),
    ] {
        let asked = Arc::new(Asked::default());
        let env = Env {
            fs: Arc::new(MemFs::new()),
            executor: asked.clone(),
            ..Env::system()
        };
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db
            .no_info_log()
            .own(OwnDbOptions::new().compaction_nice(nice));
        db.open().unwrap().close().unwrap();
        assert_eq!(*asked.lowered.lock().unwrap(), expected);
    }
    let db = Db::builder("/db").set("compaction_nice=20");
    assert!(db.is_err() || db.unwrap().env(Env::system()).open().is_err());
}
