//! The parts of one compaction, each on a thread of its own as far as the system has threads.

use spanlith_base::{Error, Result, callbacks};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, ScopedJoinHandle};

/// Runs all parts at once, the first on this thread, and after it those for which there is no other.
/// The results are in the order of the parts.
pub(super) fn at_once<P: Send>(
    parts: &mut [P],
    run: impl Fn(&mut P) -> Result<()> + Sync,
) -> Vec<Result<()>> {
    let Some((first, others)) = parts.split_first_mut() else {
        return Vec::new();
    };
    let run = &run;
    std::thread::scope(|scope| {
        let started: Vec<Started<'_, '_, P>> = others
            .iter_mut()
            .map(|part| {
                // A part that was moved into a refused thread would be gone: the thread gets its part once it runs.
                let (give, take) = sync_channel::<&mut P>(1);
                let body = move || {
                    let _inside = callbacks::enter(callbacks::Place::Job);
                    take.recv().map_or_else(|_| Err(lost()), run)
                };
                match builder().and_then(|thread| thread.spawn_scoped(scope, body)) {
                    // It takes the part at once.
                    Ok(thread) => match give.send(part) {
                        Ok(()) => Started::Elsewhere(thread),
                        Err(back) => Started::Here(back.0),
                    },
                    Err(_) => Started::Here(part),
                }
            })
            .collect();
        let mut results = vec![run(first)];
        results.extend(started.into_iter().map(|part| match part {
            Started::Elsewhere(thread) => thread.join().unwrap_or_else(|_| Err(lost())),
            Started::Here(part) => run(part),
        }));
        results
    })
}

enum Started<'scope, 'p, P> {
    Elsewhere(ScopedJoinHandle<'scope, Result<()>>),
    Here(&'p mut P),
}

fn lost() -> Error {
    Error::aborted("panic in a part of a compaction")
}

#[cfg(not(test))]
fn builder() -> std::io::Result<Builder> {
    Ok(Builder::new().name("spanlith-part".to_string()))
}

#[cfg(test)]
use tests::builder;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread::ThreadId;

    thread_local! {
        /// Threads that there are for this one's parts.
        static THREADS: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    pub(super) fn builder() -> std::io::Result<Builder> {
        match THREADS.get().checked_sub(1) {
            Some(left) => THREADS.set(left),
            None => return Err(std::io::Error::from_raw_os_error(11)),
        }
        Ok(Builder::new())
    }

    #[test]
    fn parts_for_which_there_is_no_thread_run_on_that_of_the_caller() {
        for threads in 0..4 {
            THREADS.set(threads);
            let mut parts: Vec<(usize, Option<ThreadId>)> = (0..4).map(|n| (n, None)).collect();
            let results = at_once(&mut parts, |part| {
                part.1 = Some(std::thread::current().id());
                match part.0 {
                    2 => Err(Error::aborted("the third")),
                    _ => Ok(()),
                }
            });
            let failed: Vec<bool> = results.iter().map(Result::is_err).collect();
            assert_eq!(failed, [false, false, true, false]);
            let me = Some(std::thread::current().id());
            let here = parts.iter().filter(|part| part.1 == me).count();
            assert_eq!(here, 4 - threads);
            assert!(parts.iter().all(|part| part.1.is_some()));
        }
    }
}
