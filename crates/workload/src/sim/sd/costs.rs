//! The time that the stages of a request take of a processor.

use crate::generate::{Keys, Rng, Values};
use spanlith::options::CfOptions;
use spanlith::{Cf, Db, Error, ReadOptions, Result, WriteBatch, WriteOptions};
use spanlith_env::{Clock, Env, MemFs, SystemClock, WritableFile};
use spanlith_speed::emulated::{EmulatedDevice, Profile};
use spanlith_speed::{FormatOptions, LogFile, SpeedDisk, SpeedOptions, format_disk};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Service times in nanoseconds, for values of about a kilobyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A client makes a call.
    pub issue: u64,
    /// An asynchronous call goes to the queue and its result comes back.
    pub request: u64,
    /// A group, whatever it holds.
    pub group: u64,
    /// An entry becomes part of the log's bytes.
    pub log_entry: u64,
    /// An entry goes into the memtable.
    pub insert: u64,
    /// A get whose block is in a cache.
    pub get: u64,
    /// A scan of fifty entries.
    pub scan: u64,
    /// A thread wakes another.
    pub wake: u64,
    /// A thread that was woken runs.
    pub switch: u64,
}

impl Costs {
    /// Service times of a release build on a virtual machine of 2026 (EPYC class): `insert`, `group` and `get` follow from the
    /// processor time of `bench fillrandom` alone and in batches of 64 and of `readrandom`, rounded up; the others are
    /// estimates. [`Self::measure`] measures all of them where it runs.
    pub const fn reference() -> Self {
        Self {
            issue: 400,
            request: 900,
            group: 1_000,
            log_entry: 250,
            insert: 1_900,
            get: 2_500,
            scan: 15_000,
            wake: 4_000,
            switch: 6_000,
        }
    }

    /// Measures them here, which takes about a second. Other programs that run make waking and switching dearer.
    ///
    /// # Errors
    /// Of a database in memory.
    pub fn measure() -> Result<Self> {
        let clock = SystemClock;
        let cpu = |work: &mut dyn FnMut() -> Result<()>, times: u64| -> Result<u64> {
            let mut rounds = Vec::new();
            for _ in 0..5 {
                let begun = clock.thread_cpu_nanos();
                work()?;
                rounds.push((clock.thread_cpu_nanos() - begun) / times.max(1));
            }
            rounds.sort_unstable();
            Ok(rounds.get(2).copied().unwrap_or(0))
        };
        let (env, _, _) = Env::test(Arc::new(MemFs::new()), 1);
        let mut options = CfOptions::default();
        options.write_buffer_size = 512 << 20;
        let builder = Db::builder("/db").env(env).create_if_missing(true);
        let db = builder.no_info_log().cf_options(options).open()?;
        let cf = db.default_cf();
        let unlogged = WriteOptions::new().disable_wal(true);
        let mut next = 0u64;
        let alone = cpu(
            &mut || puts(&db, &cf, &unlogged, 1, 2_000, &mut next),
            2_000,
        )?;
        let together = cpu(
            &mut || puts(&db, &cf, &unlogged, 64, 6_400, &mut next),
            6_400,
        )?;
        let log_entry = cpu(&mut || log_pages(2_000), 2_000)?;
        // Gets and scans find blocks in the cache.
        db.flush(true)?;
        let mut at = 0u64;
        let mut look = || -> Result<()> {
            for _ in 0..2_000 {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if cf.get(name_of(at % next))?.is_none() {
                    return Err(Error::corruption("a key that was written is not there"));
                }
            }
            Ok(())
        };
        let get = cpu(&mut look, 2_000)?;
        let scan = cpu(&mut || scans(&cf, next), 100)?;
        drop(cf);
        db.close()?;
        let (wake, switch) = ping_pong();
        let issue = cpu(&mut || draws(20_000), 20_000)?;
        Ok(Self {
            issue,
            request: request(issue)?,
            group: alone.saturating_sub(together).max(200),
            log_entry,
            insert: together,
            get,
            scan,
            wake,
            switch,
        })
    }
}

/// Makes a hundred scans of fifty entries, of `keys` that were written.
fn scans(cf: &Cf, keys: u64) -> Result<()> {
    for n in 0..100u64 {
        let from = name_of(n * 37 % keys);
        let mut entries = cf.iter_opt(ReadOptions::new().lower(from));
        for _ in 0..50 {
            if entries.next().transpose()?.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// The key of the `n`-th entry: in no order.
fn name_of(n: u64) -> [u8; 16] {
    key_of(n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff)
}

fn key_of(n: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn puts(
    db: &Db,
    cf: &Cf,
    options: &WriteOptions,
    batch_len: u64,
    entries: u64,
    next: &mut u64,
) -> Result<()> {
    let value = [7u8; 1000];
    for _ in 0..entries / batch_len {
        let mut batch = WriteBatch::new();
        for _ in 0..batch_len {
            batch.put_cf(cf, name_of(*next), value);
            *next += 1;
        }
        db.write_opt(&batch, options)?;
    }
    Ok(())
}

/// Entries of a kilobyte as pages of a log on a device that takes no time.
fn log_pages(entries: u64) -> Result<()> {
    let profile = Profile::all().remove(0);
    let device = Arc::new(EmulatedDevice::new(profile, 16 << 20));
    format_disk(&*device, &FormatOptions::default(), [1; 16])?;
    let disk = SpeedDisk::open(device, &SpeedOptions::default())?;
    let mut file = LogFile::new(disk.clone(), disk.create_log(1)?, Path::new("/log"));
    let bytes = [7u8; 1040];
    for n in 1..=entries {
        file.expect_sync();
        file.append(&bytes)?;
        if n.is_multiple_of(64) {
            file.sync()?;
        }
    }
    file.sync()?;
    Ok(())
}

/// Draws keys and values as clients do.
fn draws(times: u64) -> Result<()> {
    let mut rng = Rng::new(1);
    let (mut keys, mut values) = (Keys::new(16), Values::new(1000, 1));
    for _ in 0..times {
        std::hint::black_box((keys.set(rng.below(1 << 20)), values.next()));
    }
    Ok(())
}

/// Nanoseconds of processor time of a client for a call that is outstanding: its way into the queue, and the taking of a result that
/// is there. `issue`: what it does before. A database in memory carries the calls out in between.
fn request(issue: u64) -> Result<u64> {
    const ROUNDS: usize = 100;
    const CALLS: u64 = 50;
    let env = Env::test(Arc::new(MemFs::new()), 1).0;
    let db = Db::builder("/db").env(env).no_info_log().open()?;
    let cf = db.default_cf();
    let (later, options) = (cf.to_async(), WriteOptions::new().sync(true));
    let (clock, value) = (SystemClock, [7u8; 1000]);
    let mut rounds = Vec::with_capacity(ROUNDS);
    for n in 0..ROUNDS as u64 {
        let begun = clock.thread_cpu_nanos();
        let put = |k: u64| later.put_opt(name_of(n * CALLS + k), value, &options);
        let mut calls: Vec<_> = (0..CALLS).map(put).collect();
        let issued = clock.thread_cpu_nanos() - begun;
        // Writes take effect in their order: the last one has all others done.
        if let Some(last) = calls.pop() {
            last.wait()?;
        }
        let begun = clock.thread_cpu_nanos();
        for call in calls {
            call.wait()?;
        }
        rounds.push((issued + clock.thread_cpu_nanos() - begun) / CALLS);
    }
    drop((cf, later));
    db.close()?;
    rounds.sort_unstable();
    let all = rounds.get(ROUNDS / 2).copied().unwrap_or(0);
    Ok(all.saturating_sub(issue).max(100))
}

/// Nanoseconds of processor time to wake a thread, and nanoseconds from then until it runs.
fn ping_pong() -> (u64, u64) {
    const ROUNDS: u64 = 2_000;
    let turn = Arc::new(AtomicU64::new(0));
    let (first, clock) = (std::thread::current(), SystemClock);
    let spent = |work: &dyn Fn()| {
        let begun = clock.thread_cpu_nanos();
        work();
        clock.thread_cpu_nanos() - begun
    };
    let (mut waking, mut nothing) = (0, 0);
    let begun = clock.monotonic_nanos();
    let other = {
        let turn = turn.clone();
        std::thread::spawn(move || {
            for n in 0..ROUNDS {
                while turn.load(Ordering::Acquire) != 2 * n + 1 {
                    std::thread::park();
                }
                turn.store(2 * n + 2, Ordering::Release);
                first.unpark();
            }
        })
    };
    for n in 0..ROUNDS {
        turn.store(2 * n + 1, Ordering::Release);
        waking += spent(&|| other.thread().unpark());
        nothing += spent(&|| {});
        while turn.load(Ordering::Acquire) != 2 * n + 2 {
            std::thread::park();
        }
    }
    let took = clock.monotonic_nanos() - begun;
    // It has ended: its last turn was seen.
    let _ = other.join();
    let wake = waking.saturating_sub(nothing) / ROUNDS;
    let took = took.saturating_sub(waking + nothing) / (2 * ROUNDS);
    (wake, took)
}
