//! Background work that happens only when asked for, on the thread that asks.
//!
//! Jobs run in order of class (flushes, compactions, last level, requests) and first in, first out within one,
//! so that a run is a function of its calls. A job may queue jobs and may itself run others (it waits
//! for them through [`Executor::help`]): the queue's lock is not held while a job runs. Jobs that were
//! never run are dropped with the executor. A panic of a job goes to whoever ran it.

use crate::traits::{Executor, Job, JobClass};
use spanlith_base::sync::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

const RANK: u8 = 94;

const CLASSES: [JobClass; 4] = [
    JobClass::High,
    JobClass::Low,
    JobClass::Bottom,
    JobClass::Request,
];

/// A queue of background jobs without threads.
pub struct ManualExecutor {
    /// One queue per class, in order of urgency.
    queues: Mutex<[VecDeque<Job>; CLASSES.len()]>,
}

impl ManualExecutor {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            queues: Mutex::new(RANK, Default::default()),
        }
    }

    /// Runs the most urgent job, if there is one.
    pub fn run_one(&self) -> bool {
        CLASSES.into_iter().any(|class| self.run_one_of(class))
    }

    /// Runs the oldest job of a class, if there is one.
    pub fn run_one_of(&self, class: JobClass) -> bool {
        let job = self.queues.lock()[class as usize].pop_front();
        match job {
            Some(job) => {
                job();
                true
            }
            None => false,
        }
    }

    /// Runs jobs until none is left, those queued meanwhile included; returns how many.
    pub fn run_until_idle(&self) -> usize {
        let mut count = 0;
        while self.run_one() {
            count += 1;
        }
        count
    }

    /// Jobs waiting.
    pub fn pending(&self) -> usize {
        self.queues.lock().iter().map(VecDeque::len).sum()
    }

    /// Jobs of a class waiting.
    pub fn pending_of(&self, class: JobClass) -> usize {
        self.queues.lock()[class as usize].len()
    }
}

impl Default for ManualExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ManualExecutor {
    fn drop(&mut self) {
        // A job that is dropped may drop the last handle of something that queues another.
        loop {
            let jobs = std::mem::take(&mut *self.queues.lock());
            if jobs.iter().all(VecDeque::is_empty) {
                break;
            }
        }
    }
}

impl Executor for ManualExecutor {
    fn spawn(&self, class: JobClass, job: Job) {
        self.queues.lock()[class as usize].push_back(job);
    }

    fn reserve(&self, _class: JobClass, _threads: usize) {}

    fn is_manual(&self) -> bool {
        true
    }

    fn help(&self) -> bool {
        self.run_one()
    }

    fn lend(&self, class: JobClass) -> bool {
        self.run_one_of(class)
    }

    fn periodic(
        &self,
        _name: &str,
        _period: Duration,
        _tick: Box<dyn FnMut() -> bool + Send>,
    ) -> Box<dyn Send + Sync> {
        Box::new(())
    }
}
