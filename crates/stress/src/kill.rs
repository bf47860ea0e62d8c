//! Real processes on a real disk: a child writes and acknowledges, the parent kills it at a random
//! moment, opens what is left and compares.
//!
//! Each writer of the child has keys of its own, and its n-th write is a function of the seed, so the
//! parent knows what was written without being told. The child acknowledges over its standard output
//! after each call. The end of a process loses nothing that was handed to the operating system, so
//! every acknowledged write must be there, synced or not (D2), and of each writer's others at most
//! the one it was making (D4, D5).

use crate::model::history::{Change, Contents, History};
use crate::model::setup::{MergeKind, Setup, Tuning, own_options};
use crate::model::world::open_with;
use crate::watchdog::watched;
use spanlith::{WriteBatch, WriteOptions};
use spanlith_env::Env;
use spanlith_testkit::Rng;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Describes what to run.
#[derive(Clone, Debug)]
pub struct KillPlan {
    /// The program and the words before those of the child, which are DIR SEED ROUND WRITERS OWN-OPTIONS: [`child`].
    pub command: (PathBuf, Vec<&'static str>),
    /// Where the database goes; must not exist.
    pub dir: PathBuf,
    /// Seed of the run.
    pub seed: u64,
    /// Kills.
    pub rounds: u64,
    /// Writers of a child.
    pub writers: u64,
    /// Options that RocksDB does not have, of every open; empty for the defaults.
    pub own: String,
}

/// Describes what was seen.
#[derive(Clone, Debug, Default)]
pub struct KillReport {
    /// Kills.
    pub rounds: u64,
    /// Of those, before the child had opened the database.
    pub while_opening: u64,
    /// Acknowledged writes, all found.
    pub acknowledged: u64,
    /// Of those, synced.
    pub synced: u64,
    /// Writes found although their acknowledgement was not.
    pub unacknowledged: u64,
}

fn setup(own: &'static str) -> Setup {
    Setup {
        reverse: false,
        merge: MergeKind::Append,
        levels: 7,
        families: 1,
        logs_apart: false,
        real: true,
        world_seed: 0,
        own,
    }
}

/// Options of a round: small memtables and tables, the rest by chance.
fn tuning_of(seed: u64, round: u64) -> Tuning {
    let mut rng = Rng::new(seed ^ (round << 20));
    let mut t = Tuning::draw(&mut rng);
    // Enough memtables that writers run on while jobs do.
    t.auto = 1;
    t.buffers = t.buffers.max(3);
    t
}

/// Write `n` of a writer in a round: its updates, and whether it is synced.
fn write_of(seed: u64, round: u64, writer: u64, n: u64) -> (Vec<(Vec<u8>, Change)>, bool) {
    let mut rng = Rng::new(seed ^ (round << 40) ^ (writer << 32) ^ n);
    let count = if rng.one_in(5) { rng.between(2, 6) } else { 1 };
    let changes = (0..count).map(|_| {
        let key = format!("w{writer}-{:05}", rng.below(2000)).into_bytes();
        let mut value = format!("{round}.{n}.").into_bytes();
        let change = match rng.below(8) {
            0 => Change::Delete,
            1 => Change::Merge(value.as_slice().into()),
            _ => {
                let len = value.len() + rng.skewed(600) as usize;
                value.resize(len, b'.');
                Change::Put(value.as_slice().into())
            }
        };
        (key, change)
    });
    (changes.collect(), rng.one_in(20))
}

/// The child: opens the database and writes until it is killed. Says `open`, then 16 bytes per
/// acknowledged write: writer and number.
///
/// # Errors
/// A text, if the database cannot be opened or written.
pub fn child(dir: &Path, seed: u64, round: u64, writers: u64, own: &str) -> Result<(), String> {
    let setup = setup(own_options(own));
    let tuning = tuning_of(seed, round);
    let db = open_with(&setup, &tuning, Env::system(), dir, false);
    let db = db.map_err(|e| format!("open: {e}"))?;
    let say = |bytes: &[u8]| {
        // One write call each: whole or not at all.
        std::io::stdout().lock().write_all(bytes).is_ok() && std::io::stdout().flush().is_ok()
    };
    say(b"open");
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..writers)
            .map(|writer| {
                let db = db.clone();
                scope.spawn(move || {
                    for n in 0.. {
                        let (changes, synced) = write_of(seed, round, writer, n);
                        let mut batch = WriteBatch::new();
                        for (key, change) in &changes {
                            match change {
                                Change::Put(v) => batch.put(key, v),
                                Change::Merge(v) => batch.merge(key, v),
                                Change::Delete | Change::SingleDelete => batch.delete(key),
                                Change::DeleteRange(end) => batch.delete_range(key, end),
                            };
                        }
                        db.write_opt(&batch, &WriteOptions::new().sync(synced))
                            .map_err(|e| format!("write: {e}"))?;
                        let mut ack = [0u8; 16];
                        ack[..8].copy_from_slice(&writer.to_le_bytes());
                        ack[8..].copy_from_slice(&n.to_le_bytes());
                        if !say(&ack) {
                            return Ok(());
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|h| h.join())
            .try_for_each(|r| r.unwrap_or_else(|_| Err("a writer panicked".to_string())))
    })
}

/// Starts a child, kills it after `delay`; returns what it acknowledged per writer, `None` if it had
/// not opened the database.
fn kill_one(plan: &KillPlan, round: u64, delay: Duration) -> Result<Option<Vec<u64>>, String> {
    let (program, words) = &plan.command;
    let mut child = Command::new(program)
        .args(words)
        .arg(&plan.dir)
        .args([plan.seed, round, plan.writers].map(|n| n.to_string()))
        .arg(&plan.own)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).map(|_| all)
    });
    let until = Instant::now() + delay;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            let mut text = String::new();
            if let Some(mut e) = child.stderr.take() {
                let _ = e.read_to_string(&mut text);
            }
            return Err(format!("the child ended by itself: {status}: {text}"));
        }
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(5)));
    }
    child.kill().map_err(|e| format!("kill: {e}"))?;
    child.wait().map_err(|e| format!("wait: {e}"))?;
    let bytes = reader
        .join()
        .map_err(|_| "the reader panicked".to_string())?
        .map_err(|e| format!("pipe: {e}"))?;
    let Some(acks) = bytes.strip_prefix(b"open") else {
        return Ok(None);
    };
    let mut done = vec![0u64; plan.writers as usize];
    for ack in acks.chunks_exact(16) {
        let number = |at: usize| u64::from_le_bytes(ack[at..at + 8].try_into().unwrap_or_default());
        if let Some(slot) = done.get_mut(number(0) as usize) {
            *slot = number(8) + 1;
        }
    }
    Ok(Some(done))
}

fn contents(dir: &Path, tuning: &Tuning, setup: &Setup) -> Result<Contents, String> {
    let db = open_with(setup, tuning, Env::system(), dir, false);
    let db = db.map_err(|e| format!("open after the kill: {e}"))?;
    let all: Result<Contents, String> = db
        .default_cf()
        .iter()
        .map(|row| {
            let (k, v) = row.map_err(|e| format!("scan after the kill: {e}"))?;
            Ok((k.to_vec(), v.to_vec()))
        })
        .collect();
    db.close().map_err(|e| format!("close: {e}"))?;
    all
}

/// Runs the rounds; `progress` is told after each.
///
/// # Errors
/// What was lost or invented, with the round; the directory is left as it is.
pub fn run_kill(
    plan: &KillPlan,
    mut progress: impl FnMut(&KillReport),
) -> Result<KillReport, String> {
    let mut report = KillReport::default();
    let mut rng = Rng::new(plan.seed);
    let setup = setup(own_options(&plan.own));
    let mut histories: Vec<History> = (0..plan.writers).map(|_| History::new(&setup)).collect();
    for round in 0..plan.rounds {
        let seed = plan.seed;
        let _watched = watched(move || format!("round {round} of seed {seed}"));
        let opening = rng.one_in(3);
        let delay = if opening {
            Duration::from_micros(rng.skewed(15_000))
        } else {
            Duration::from_millis(rng.between(1, 500))
        };
        let acked = kill_one(plan, round, delay).map_err(|e| format!("round {round}: {e}"))?;
        report.rounds += 1;
        report.while_opening += u64::from(acked.is_none());
        let acked = acked.unwrap_or_else(|| vec![0; plan.writers as usize]);
        let found = contents(&plan.dir, &tuning_of(plan.seed, round ^ 0x5555), &setup)
            .map_err(|e| format!("round {round}: {e}"))?;
        for (writer, history) in histories.iter_mut().enumerate() {
            let (writer, mine) = (writer as u64, format!("w{writer}-").into_bytes());
            let done = acked[writer as usize];
            for n in 0..=done {
                let (changes, synced) = write_of(plan.seed, round, writer, n);
                report.synced += u64::from(synced && n < done);
                history.commit(changes, true);
                if n + 1 == done {
                    history.logged_is_durable();
                }
            }
            report.acknowledged += done;
            let own: Contents = found
                .iter()
                .filter(|(k, _)| k.starts_with(&mine))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            let prefix = history
                .explain(&own, history.bounds())
                .map_err(|e| format!("round {round}, writer {writer}: {e}"))?;
            report.unacknowledged += (prefix as u64).saturating_sub(done);
            history.restart(own, 0);
        }
        progress(&report);
    }
    Ok(report)
}
