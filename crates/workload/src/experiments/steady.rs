//! A steady client, whose requests are timed from when they were due, beside writers that put as fast as they may.
//!
//! Times are those of a clock on the wall: they are judged as quotients of runs one after the other on one machine only.

use super::{Error, Result};
use crate::generate::{Rng, Values};
use crate::measure::Histogram;
use spanlith::options::{CfOptions, CompressionType, OwnDbOptions, WriteThrottlePolicy};
use spanlith::{Cf, Db, OpenBuilder, WriteOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a value of the writers, and of one of the client.
pub(super) const VALUE_SIZE: usize = 1000;
const SMALL: usize = 100;

/// A client that asks every so often.
pub(super) struct Client<'a> {
    pub family: &'a Cf,
    /// Gets keys instead of putting them.
    pub reads: bool,
    pub options: WriteOptions,
    pub every: Duration,
}

/// Threads that put values of [`VALUE_SIZE`].
pub(super) struct Crowd<'a> {
    pub family: &'a Cf,
    pub threads: u64,
    /// Most puts by second of each thread; `None` for as many as it can.
    pub most: Option<f64>,
}

/// Describes what came of a run.
pub(super) struct Seen {
    /// Nanoseconds from when a request was due until it was answered.
    pub waits: Histogram,
    /// Puts of the crowd by second.
    pub puts: f64,
}

/// Options of a family whose memtables and levels are small beside its data.
pub(super) fn small_family() -> CfOptions {
    CfOptions::new()
        .write_buffer_size(2u64 << 20)
        .max_bytes_for_level_base(8u64 << 20)
        .target_file_size_base(2u64 << 20)
        .compression(CompressionType::None)
}

/// How a database of these experiments is opened.
pub(super) fn opening(dir: &Path, policy: WriteThrottlePolicy, own: OwnDbOptions) -> OpenBuilder {
    Db::builder(dir)
        .create_if_missing(true)
        .no_info_log()
        .cf_options(small_family())
        .own(own.write_throttle_policy(policy))
}

pub(super) fn key(n: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Puts `keys` keys, flushes them, and waits until the tree is in order.
///
/// # Errors
/// Of the database.
pub(super) fn fill(db: &Db, family: &Cf, keys: u64, seed: u64) -> Result<()> {
    let mut values = Values::incompressible(VALUE_SIZE, seed);
    for n in 0..keys {
        family.put(key(n), values.next())?;
    }
    db.flush(true)?;
    db.wait_idle(None)?;
    Ok(())
}

/// Runs a client beside crowds for `time`, of which the first sixth is not counted. Keys are below `keys`.
///
/// # Errors
/// Of a request.
pub(super) fn beside(
    client: &Client<'_>,
    crowds: &[Crowd<'_>],
    keys: u64,
    seed: u64,
    time: Duration,
) -> Result<Seen> {
    let stop = AtomicBool::new(false);
    let puts = AtomicU64::new(0);
    let mut waits = Histogram::default();
    let counted = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (c, crowd) in crowds.iter().enumerate() {
            for t in 0..crowd.threads {
                let (stop, puts) = (&stop, &puts);
                let seed = seed ^ ((c as u64 * 64 + t + 1) << 32);
                running.push(scope.spawn(move || put_all(crowd, keys, seed, stop, puts)));
            }
        }
        let asked = ask(client, keys, seed, time, &mut waits, &puts);
        stop.store(true, Ordering::Relaxed);
        for thread in running {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        asked
    })?;
    let seconds = time.as_secs_f64() * 5.0 / 6.0;
    Ok(Seen {
        waits,
        puts: counted as f64 / seconds,
    })
}

/// Puts of one thread of a crowd until it is told to stop.
fn put_all(
    crowd: &Crowd<'_>,
    keys: u64,
    seed: u64,
    stop: &AtomicBool,
    puts: &AtomicU64,
) -> Result<()> {
    let mut rng = Rng::new(seed);
    let mut values = Values::incompressible(VALUE_SIZE, seed);
    let began = Instant::now();
    let mut done = 0u64;
    while !stop.load(Ordering::Relaxed) {
        if let Some(most) = crowd.most {
            let due = Duration::from_secs_f64(done as f64 / most);
            let ahead = due.saturating_sub(began.elapsed());
            if !ahead.is_zero() {
                std::thread::sleep(ahead.min(Duration::from_millis(50)));
                continue;
            }
        }
        crowd.family.put(key(rng.below(keys)), values.next())?;
        puts.fetch_add(1, Ordering::Relaxed);
        done += 1;
    }
    Ok(())
}

/// The requests of the client; returns the puts of the crowds in the time that counts.
fn ask(
    client: &Client<'_>,
    keys: u64,
    seed: u64,
    time: Duration,
    waits: &mut Histogram,
    puts: &AtomicU64,
) -> Result<u64> {
    let mut rng = Rng::new(seed);
    let mut values = Values::incompressible(SMALL, seed);
    let began = Instant::now();
    let from = time / 6;
    let mut before = 0;
    let mut due = Duration::ZERO;
    while due < time {
        let ahead = due.saturating_sub(began.elapsed());
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
        }
        let key = key(rng.below(keys));
        match client.reads {
            true => drop(client.family.get(key)?),
            false => client.family.put_opt(key, values.next(), &client.options)?,
        }
        let late = began.elapsed().saturating_sub(due);
        match due < from {
            true => before = puts.load(Ordering::Relaxed),
            false => waits.add(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)),
        }
        due += client.every;
    }
    if waits.count() == 0 {
        return Err(Error::new("no request was counted"));
    }
    Ok(puts.load(Ordering::Relaxed) - before)
}

/// p50, p99, p99.9 and the longest, in microseconds.
pub(super) fn row(waits: &Histogram) -> [f64; 4] {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    [
        micros(waits.percentile(50.0)),
        micros(waits.percentile(99.0)),
        micros(waits.percentile(99.9)),
        micros(waits.max()),
    ]
}
