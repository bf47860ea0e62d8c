use super::*;
use crate::traits::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const FAR: Duration = Duration::from_secs(1 << 40);

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
                if n % 10 == 0 {
                    std::panic::resume_unwind(Box::new("a job fails"));
                }
            }),
        );
    }
    drop(executor);
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}

#[test]
fn a_class_runs_as_many_jobs_at_once_as_were_reserved() {
    let executor = ThreadExecutor::new();
    assert_eq!(executor.threads(JobClass::Low), 0);
    executor.reserve(JobClass::Low, 3);
    executor.reserve(JobClass::Low, 2);
    // The jobs end only together, so that fewer threads would hang.
    let together = Arc::new(Barrier::new(4));
    for _ in 0..3 {
        let together = Arc::clone(&together);
        executor.spawn(JobClass::Low, Box::new(move || _ = together.wait()));
    }
    together.wait();
    assert!(!executor.help());
    assert_eq!(executor.threads(JobClass::Low), 3);
    assert_eq!(executor.threads(JobClass::High), 0);
}

#[test]
fn a_reservation_starts_threads_for_jobs_that_wait() {
    let executor = ThreadExecutor::new();
    let together = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let together = Arc::clone(&together);
        executor.spawn(JobClass::Low, Box::new(move || _ = together.wait()));
    }
    assert_eq!(executor.threads(JobClass::Low), 1);
    executor.reserve(JobClass::Low, 2);
    together.wait();
}

#[test]
fn a_long_compaction_does_not_delay_a_flush() {
    let executor = ThreadExecutor::new();
    let (go, wait) = sync_channel::<()>(0);
    let (tell, done) = channel();
    executor.spawn(JobClass::Low, Box::new(move || _ = wait.recv()));
    executor.spawn(
        JobClass::High,
        Box::new(move || {
            let name = std::thread::current().name().map(str::to_string);
            tell.send(name).unwrap();
        }),
    );
    assert_eq!(done.recv().unwrap().as_deref(), Some("spanlith-high-0"));
    go.send(()).unwrap();
}

#[test]
fn a_pool_takes_jobs_in_their_order() {
    let executor = ThreadExecutor::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..50 {
        let order = Arc::clone(&order);
        executor.spawn(
            JobClass::High,
            Box::new(move || order.lock().unwrap().push(n)),
        );
    }
    drop(executor);
    assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_job_may_drop_the_last_handle_of_its_executor() {
    let executor = Arc::new(ThreadExecutor::new());
    let (give, take) = channel::<Arc<ThreadExecutor>>();
    let (tell, done) = channel();
    executor.spawn(
        JobClass::Low,
        Box::new(move || {
            drop(take.recv().unwrap());
            tell.send(()).unwrap();
        }),
    );
    give.send(executor).unwrap();
    done.recv().unwrap();
}

#[test]
fn a_timer_ticks_until_it_says_no() {
    let executor = ThreadExecutor::new();
    let (tell, ticks) = channel();
    let mut left = 3;
    let guard = executor.periodic(
        "stats",
        Duration::from_micros(100),
        Box::new(move || {
            left -= 1;
            tell.send(std::thread::current().name().map(str::to_string))
                .unwrap();
            left > 0
        }),
    );
    // The channel closes when the timers let the tick go.
    let names: Vec<_> = ticks.iter().flatten().collect();
    assert_eq!(names, ["spanlith-time-0"; 3]);
    drop(guard);
}

#[test]
fn dropping_a_timer_ends_it_at_once_and_for_good() {
    let executor = ThreadExecutor::new();
    for period in [Duration::from_secs(3600), FAR] {
        let (tell, ticks) = channel::<()>();
        let tick = Box::new(move || tell.send(()).is_ok());
        drop(executor.periodic("rare", period, tick));
        assert!(ticks.try_recv().is_err());
    }
    let count = Arc::new(AtomicUsize::new(0));
    let (tell, ticks) = channel();
    let counted = Arc::clone(&count);
    let tick = Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        tell.send(()).is_ok()
    });
    let guard = executor.periodic("often", Duration::from_micros(50), tick);
    ticks.recv().unwrap();
    drop(guard);
    let seen = count.load(Ordering::SeqCst);
    assert_eq!(
        ticks.iter().count() + 1,
        seen,
        "the tick is gone, and its end of the channel"
    );
}

#[test]
fn a_tick_may_drop_its_own_timer() {
    let executor = ThreadExecutor::new();
    let (give, take) = channel::<Box<dyn Send + Sync>>();
    let (tell, done) = channel();
    let guard = executor.periodic(
        "self",
        Duration::from_micros(1),
        Box::new(move || {
            drop(take.recv().unwrap());
            tell.send(()).unwrap();
            true
        }),
    );
    give.send(guard).unwrap();
    assert_eq!(done.iter().count(), 1);
}

#[test]
fn many_timers_share_few_threads() {
    let executor = ThreadExecutor::new();
    let (tell, ticks) = channel();
    let mut guards = Vec::new();
    for n in 0..200 {
        let tell = tell.clone();
        let period = Duration::from_micros(5000 + 70 * n);
        guards.push(executor.periodic("one", period, Box::new(move || tell.send(n).is_ok())));
        guards.push(executor.periodic("never", FAR, Box::new(|| panic!("is never due"))));
    }
    let mut seen = std::collections::HashMap::new();
    while seen.len() < 200 || seen.values().any(|times| *times < 3) {
        *seen.entry(ticks.recv().unwrap()).or_insert(0) += 1;
    }
    // Threads that lose the processor in a tick let others be started.
    let threads = executor.timer_threads();
    assert!(threads <= 100, "{threads}");
    drop(guards);
    drop(tell);
    // No tick is left that could send.
    ticks.iter().for_each(drop);
}

#[test]
fn ticks_that_block_delay_no_other_timer() {
    let executor = ThreadExecutor::new();
    let (tell, ticks) = channel();
    let held = super::timers::LIMIT - 1;
    // The ticks and this thread.
    let together = Arc::new(Barrier::new(held + 1));
    let blocked: Vec<_> = (0..held)
        .map(|_| {
            let together = Arc::clone(&together);
            let tick = move || {
                together.wait();
                together.wait();
                false
            };
            executor.periodic("blocks", Duration::from_micros(1), Box::new(tick))
        })
        .collect();
    together.wait();
    let tick = Box::new(move || tell.send(()).is_ok());
    let guard = executor.periodic("ticks", Duration::from_micros(1), tick);
    for _ in 0..3 {
        ticks.recv().unwrap();
    }
    together.wait();
    drop((guard, blocked));
}

#[test]
fn dropping_a_timer_waits_for_its_tick() {
    let executor = ThreadExecutor::new();
    let (tell, began) = channel();
    let ended = Arc::new(AtomicUsize::new(0));
    let mark = Arc::clone(&ended);
    let tick = Box::new(move || {
        tell.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        mark.fetch_add(1, Ordering::SeqCst);
        true
    });
    let guard = executor.periodic("slow", Duration::from_micros(1), tick);
    began.recv().unwrap();
    drop(guard);
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert!(began.recv().is_err(), "and nothing of it is left");
}

#[test]
fn timers_come_and_go_on_many_threads() {
    let executor = ThreadExecutor::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let executor = &executor;
            scope.spawn(move || {
                for n in 0..300 {
                    let (tell, ticks) = channel();
                    let period = Duration::from_micros((n * 13 + thread * 5) % 90);
                    let tick = Box::new(move || tell.send(()).is_ok());
                    let guard = executor.periodic("brief", period, tick);
                    if n % 3 != 0 {
                        ticks.recv().unwrap();
                    }
                    drop(guard);
                    ticks.iter().for_each(drop);
                }
            });
        }
    });
}

#[test]
fn a_panicking_tick_ends_its_timer_alone() {
    let executor = ThreadExecutor::new();
    let (tell, ticks) = channel();
    let (held, gone) = channel::<()>();
    let bad = executor.periodic(
        "bad",
        Duration::from_micros(1),
        Box::new(move || {
            let _held = &held;
            std::panic::resume_unwind(Box::new("a tick fails"));
        }),
    );
    assert!(gone.recv().is_err());
    let tick = Box::new(move || tell.send(()).is_ok());
    let good = executor.periodic("good", Duration::from_micros(1), tick);
    for _ in 0..3 {
        ticks.recv().unwrap();
    }
    drop((bad, good));
}

#[test]
fn timers_end_with_their_executor() {
    let executor = ThreadExecutor::new();
    let (tell, ticks) = channel();
    let tick = Box::new(move || tell.send(()).is_ok());
    let guard = executor.periodic("late", Duration::from_micros(1), tick);
    ticks.recv().unwrap();
    drop(executor);
    ticks.iter().for_each(drop);
    drop(guard);
}

fn note(log: &Arc<Mutex<Vec<&'static str>>>, what: &'static str) -> Job {
    let log = Arc::clone(log);
    Box::new(move || log.lock().unwrap().push(what))
}

#[test]
fn manual_jobs_run_when_asked_flushes_first() {
    let executor = ManualExecutor::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    executor.spawn(JobClass::Bottom, note(&log, "bottom"));
    executor.spawn(JobClass::Low, note(&log, "low 1"));
    executor.spawn(JobClass::Low, note(&log, "low 2"));
    executor.spawn(JobClass::High, note(&log, "high"));
    assert_eq!(
        (executor.pending(), executor.pending_of(JobClass::Low)),
        (4, 2)
    );
    assert!(log.lock().unwrap().is_empty());
    assert!(executor.run_one_of(JobClass::Low));
    assert!(executor.run_one());
    assert!(executor.help());
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(*log.lock().unwrap(), ["low 1", "high", "low 2", "bottom"]);
    assert!(!executor.run_one() && !executor.help());
    assert!(!executor.run_one_of(JobClass::High));
}

#[test]
fn a_manual_job_may_queue_jobs_and_run_others_itself() {
    let executor = Arc::new(ManualExecutor::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let (inner, inner_log) = (Arc::clone(&executor), Arc::clone(&log));
    executor.spawn(
        JobClass::Low,
        Box::new(move || {
            inner.spawn(
                JobClass::High,
                note(&inner_log, "flush the compaction waits for"),
            );
            inner.spawn(JobClass::Low, note(&inner_log, "later"));
            while inner.pending_of(JobClass::High) > 0 {
                assert!(inner.help());
            }
            inner_log.lock().unwrap().push("compaction");
        }),
    );
    assert_eq!(executor.run_until_idle(), 2);
    let want = ["flush the compaction waits for", "compaction", "later"];
    assert_eq!(*log.lock().unwrap(), want);
}

#[test]
fn manual_jobs_that_never_ran_are_dropped_with_the_executor() {
    struct SpawnsWhenDropped(std::sync::Weak<ManualExecutor>, Arc<AtomicUsize>);
    impl Drop for SpawnsWhenDropped {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            if let Some(executor) = self.0.upgrade() {
                executor.spawn(JobClass::High, Box::new(|| {}));
            }
        }
    }
    let executor = Arc::new(ManualExecutor::new());
    let dropped = Arc::new(AtomicUsize::new(0));
    let held = SpawnsWhenDropped(Arc::downgrade(&executor), Arc::clone(&dropped));
    executor.spawn(JobClass::Low, Box::new(move || drop(held)));
    drop(executor.periodic(
        "none",
        Duration::ZERO,
        Box::new(|| panic!("starts nothing")),
    ));
    drop(executor);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_job_whose_thread_was_refused_runs_as_soon_as_there_are_threads() {
    let executor = ThreadExecutor::new();
    for _ in 0..2 {
        let (done, ran) = channel();
        executor.refuse(JobClass::High, 3);
        executor.spawn(JobClass::High, Box::new(move || done.send(()).unwrap()));
        ran.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(executor.threads(JobClass::High), 1);
    }
}

#[test]
fn who_waits_helps_as_long_as_there_is_no_thread() {
    let executor = ThreadExecutor::new();
    assert!(!executor.lacks_threads());
    executor.refuse(JobClass::Low, usize::MAX);
    let (done, ran) = channel();
    executor.spawn(JobClass::Low, Box::new(move || done.send(()).unwrap()));
    assert!(executor.lacks_threads() && executor.help());
    ran.try_recv().unwrap();
    assert!(!executor.lacks_threads() && !executor.help());
}

#[test]
#[cfg(target_os = "linux")]
fn threads_take_on_a_lower_priority_before_their_next_job_and_keep_it() {
    let executor = ThreadExecutor::new();
    let nice = |class| {
        let (tell, told) = channel();
        let job = move || tell.send(crate::sys::thread_nice()).unwrap();
        executor.spawn(class, Box::new(job));
        told.recv().unwrap()
    };
    let before = nice(JobClass::Low);
    executor.lower(JobClass::Low, Lowered::Processor(7));
    assert_eq!(nice(JobClass::Low), before.max(7));
    // Others are as they were, and nothing makes it higher again.
    assert_eq!(nice(JobClass::High), before);
    executor.lower(JobClass::Low, Lowered::Processor(3));
    executor.lower(JobClass::Low, Lowered::Disk);
    assert_eq!(nice(JobClass::Low), before.max(7));
    executor.lower(JobClass::Low, Lowered::Processor(255));
    assert_eq!(nice(JobClass::Low), 19);
}

/// A thread inherits the priority of the one that starts it.
#[test]
#[cfg(target_os = "linux")]
fn a_lowered_thread_starts_no_thread_of_another_class() {
    let executor = Arc::new(ThreadExecutor::new());
    let before = crate::sys::thread_nice();
    executor.lower(JobClass::Low, Lowered::Processor(7));
    executor.reserve(JobClass::High, 2);
    let (tell, told) = channel();
    let inner = executor.clone();
    let job = move || {
        assert!(crate::sys::thread_nice() >= 7);
        for _ in 0..2 {
            let tell = tell.clone();
            let job = move || tell.send(crate::sys::thread_nice()).unwrap();
            inner.spawn(JobClass::High, Box::new(job));
        }
    };
    executor.spawn(JobClass::Low, Box::new(job));
    assert_eq!([told.recv().unwrap(), told.recv().unwrap()], [before; 2]);
}

#[test]
fn a_job_is_lent_a_thread_where_all_of_its_class_are_taken() {
    let executor = ThreadExecutor::new();
    assert!(!executor.lend(JobClass::High), "nothing waits");
    let (begun, has_begun) = channel();
    let (end, ends) = sync_channel::<()>(0);
    let busy = move || {
        begun.send(()).unwrap();
        ends.recv().unwrap();
    };
    executor.spawn(JobClass::High, Box::new(busy));
    has_begun.recv().unwrap();
    let ran_on = Arc::new(Mutex::new(None));
    let note = ran_on.clone();
    let second = move || *note.lock().unwrap() = Some(std::thread::current().id());
    executor.spawn(JobClass::High, Box::new(second));
    assert!(!executor.lend(JobClass::Low), "of another class");
    assert!(executor.lend(JobClass::High) && !executor.lend(JobClass::High));
    assert_eq!(*ran_on.lock().unwrap(), Some(std::thread::current().id()));
    end.send(()).unwrap();
}
