//! Runs clients on threads: closed loop, or intended start times that do not wait for answers.

use super::process::Usage;
use super::{Phase, Settings};
use crate::measure::{Board, Rate};
use crate::store::{Batch, Result, Store};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Describes what one call was and did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// Kind of the operation.
    pub part: &'static str,
    /// Operations that it counts for; 0 counts as one.
    pub ops: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys that were looked up.
    pub looked_up: u64,
    /// Those that were there.
    pub found: u64,
}

impl Call {
    /// A write of so many bytes.
    pub fn wrote(part: &'static str, bytes: usize) -> Self {
        Self {
            part,
            bytes: bytes as u64,
            ..Self::default()
        }
    }

    /// A read of one key and its value, if it is there.
    pub fn read(part: &'static str, found: bool, bytes: usize) -> Self {
        Self {
            part,
            bytes: if found { bytes as u64 } else { 0 },
            looked_up: 1,
            found: u64::from(found),
            ..Self::default()
        }
    }
}

/// Describes what one thread does, call by call.
pub trait Client: Send {
    /// Makes one call; `None` when there is nothing left to do.
    ///
    /// # Errors
    /// The store's; it ends the run.
    fn call(&mut self, store: &dyn Store) -> Result<Option<Call>>;
}

/// How much, how fast, for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Threads, at least one.
    pub threads: u64,
    /// Calls of all threads together.
    pub ops: u64,
    /// Ends after so long if it has not before.
    pub seconds: Option<f64>,
    /// Calls per second of all threads together; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Seed of exponential gaps; `None` for equal ones.
    pub poisson: Option<u64>,
    /// Amplitude of the rate as a share of it, and its period in seconds.
    pub sine: Option<(f64, f64)>,
}

impl Load {
    /// As the common parameters say.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn of(s: &Settings) -> Result<Self> {
        let seconds = s.number("seconds", 0.0, 1e9)?;
        let rate = s.number("rate", 0.0, 1e9)?;
        let poisson = s.word("arrivals", &["regular", "poisson"])? == 1;
        Ok(Self {
            threads: s.whole("threads", 1)?.min(1024),
            ops: match seconds > 0.0 {
                true => u64::MAX,
                false => s.whole("ops", 1)?,
            },
            seconds: (seconds > 0.0).then_some(seconds),
            rate: (rate > 0.0).then_some(rate),
            poisson: match poisson {
                true => Some(s.seed()? ^ 0x9015),
                false => None,
            },
            sine: None,
        })
    }

    /// All of so many calls on one thread in a closed loop: how data sets are loaded.
    pub fn all(ops: u64) -> Self {
        Self {
            threads: 1,
            ops,
            seconds: None,
            rate: None,
            poisson: None,
            sine: None,
        }
    }

    /// The same with a rate that goes up and down: by `amplitude` of the rate, 0 to 1, in periods of so many seconds.
    /// Without a rate it changes nothing.
    #[must_use]
    pub fn with_sine(self, amplitude: f64, period: f64) -> Self {
        Self {
            sine: (amplitude > 0.0).then_some((amplitude, period)),
            ..self
        }
    }

    /// Runs one client for each thread.
    ///
    /// # Errors
    /// The first of a client.
    pub fn run<'c>(
        &self,
        name: impl Into<String>,
        store: &dyn Store,
        mut client: impl FnMut(u64) -> Result<Box<dyn Client + 'c>>,
    ) -> Result<Phase> {
        let threads = usize::try_from(self.threads.max(1)).unwrap_or(1);
        let clients = (0..threads as u64).map(&mut client);
        let clients: Vec<_> = clients.collect::<Result<_>>()?;
        let (counters, usage) = (store.counters(), Usage::now());
        let start = Instant::now();
        let rate = self.rate.map(|rate| match self.poisson {
            None => Rate::regular(rate, start),
            Some(seed) => Rate::poisson(rate, start, seed),
        });
        let rate = rate.map(|rate| match self.sine {
            None => rate,
            Some((amplitude, period)) => rate.with_sine(amplitude, period),
        });
        let board = Board::new(threads, self.ops).at_rate(rate);
        let (tell, done) = std::sync::mpsc::channel();
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let workers: Vec<_> = clients
                .into_iter()
                .enumerate()
                .map(|(n, client)| {
                    let (board, tell) = (&board, tell.clone());
                    scope.spawn(move || {
                        let result = work(board, n, client, store);
                        if result.is_err() {
                            board.stop();
                        }
                        // The receiver is gone only when nobody waits any more.
                        let _ = tell.send(());
                        result
                    })
                })
                .collect();
            drop(tell);
            if let Some(seconds) = self.seconds {
                let end = start + Duration::from_secs_f64(seconds);
                let left = || end.saturating_duration_since(Instant::now());
                // All threads are done when nobody can tell any more.
                while done.recv_timeout(left()) != Err(RecvTimeoutError::Disconnected) {
                    if left().is_zero() {
                        board.stop();
                        break;
                    }
                }
            }
            workers
                .into_iter()
                .map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
                .collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        results.into_iter().collect::<Result<()>>()?;
        Ok(Phase {
            name: name.into(),
            threads: threads as u64,
            rate: self.rate,
            seconds,
            usage: Usage::now().since(usage),
            tally: board.total(),
            counters: store.counters().since(&counters),
            disk_bytes: store.levels()?.iter().map(|l| l.bytes).sum(),
            verdicts: Vec::new(),
            notes: Vec::new(),
        })
    }
}

fn work(
    board: &Board,
    n: usize,
    mut client: Box<dyn Client + '_>,
    store: &dyn Store,
) -> Result<()> {
    let mut meter = board.meter(n);
    meter.restart();
    while meter.go_on(1) {
        let Some(call) = client.call(store)? else {
            break;
        };
        meter.part(call.part);
        meter.called(call.ops.max(1), call.looked_up, call.found, call.bytes);
    }
    Ok(())
}

/// A client made of a closure.
struct Closure<F>(F);

impl<F: FnMut(&dyn Store) -> Result<Option<Call>> + Send> Client for Closure<F> {
    fn call(&mut self, store: &dyn Store) -> Result<Option<Call>> {
        (self.0)(store)
    }
}

/// A boxed client made of a closure.
pub fn client<'a>(
    f: impl FnMut(&dyn Store) -> Result<Option<Call>> + Send + 'a,
) -> Box<dyn Client + 'a> {
    Box::new(Closure(f))
}

/// Puts the entries of all numbers below `count`, in batches of a hundred.
///
/// # Errors
/// The store's.
pub fn fill<'c>(
    store: &dyn Store,
    family: usize,
    count: u64,
    mut entry: impl FnMut(u64, &mut Vec<u8>, &mut Vec<u8>) + Send + 'c,
) -> Result<Phase> {
    const BATCH: u64 = 100;
    let mut entry =
        Some(move |n: u64, key: &mut Vec<u8>, value: &mut Vec<u8>| entry(n, key, value));
    let load = Load::all(count.div_ceil(BATCH));
    load.run("load", store, |_| {
        let (mut batch, mut next) = (Batch::default(), 0);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        // One thread, so one client.
        let mut entry = entry.take();
        Ok(client(move |store| {
            let Some(entry) = &mut entry else {
                return Ok(None);
            };
            batch.clear();
            let end = count.min(next + BATCH);
            for n in next..end {
                entry(n, &mut key, &mut value);
                batch.put(family, &key, &value);
            }
            store.write(&batch)?;
            let ops = end - next;
            next = end;
            Ok((ops > 0).then(|| Call {
                ops,
                ..Call::wrote("put", batch.bytes())
            }))
        }))
    })
}
