use super::*;
use crate::traits::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn dropping_the_executor_runs_what_is_queued_and_survives_panics() {
    let ran = Arc::new(AtomicUsize::new(0));
    let executor = ThreadExecutor::new();
    executor.reserve(JobClass::Low, 2);
    for n in 0..100 {
        let ran = Arc::clone(&ran);
        executor.spawn(
            if n % 2 == 0 {
                JobClass::Low
            } else {
                JobClass::High
            },
            Box::new(move || {
                ran.fetch_add(1, Ordering::Relaxed);
                if n == 50 {
                    std::panic::resume_unwind(Box::new("a job fails"));
                }
            }),
        );
    }
    drop(executor);
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}
