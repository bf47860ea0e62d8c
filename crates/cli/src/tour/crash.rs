//! Steps 6 and 7: a child writes with sync and acknowledges each write over a pipe; it is killed hard.
//!
//! A line on the pipe is an acknowledgement: `THREAD NUMBER`, printed after the synced write has
//! returned. What was acknowledged must be there after the kill. What was written and not
//! acknowledged may be there: at most one entry for each thread.

use super::builder;
use super::model::SYNCED;
use super::show::Show;
use crate::fail::{At, Failure};
use crate::term;
use clap::Args;
use serde_json::json;
use spanlith::{Cf, ReadOptions, WriteOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Writers in the child: they share each sync.
const THREADS: u64 = 8;
/// The child is killed after so long, however few acknowledgements came.
const TIME_MAX: Duration = Duration::from_secs(20);

/// The child: writes until it is killed.
#[derive(Debug, Args)]
pub struct Writer {
    #[arg(long)]
    db: PathBuf,
    /// The speed disk that takes the log
    #[arg(long)]
    disk: Option<PathBuf>,
    /// Number of the first thread
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Describes what a child left.
pub struct Left {
    /// Entries.
    pub found: u64,
    /// Acknowledgements by second, its start included.
    pub rate: f64,
}

fn key_of(thread: u64, n: u64) -> Vec<u8> {
    format!("synced-{thread}-{n:08}").into_bytes()
}

/// The value of a key of the child.
pub fn value_of(key: &[u8]) -> Vec<u8> {
    [b"acknowledged only once it is on disk: ", key].concat()
}

impl Writer {
    /// Writes and acknowledges until killed.
    ///
    /// # Errors
    /// Of opening and writing; a closed pipe ends it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut builder = builder(&self.db);
        if let Some(disk) = &self.disk {
            builder = builder
                .set(format!("sd_path={}", disk.display()))
                .at(&self.db)?;
        }
        let db = builder.open().at(&self.db)?;
        let cf = db.default_cf();
        let results: Vec<anyhow::Result<()>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (self.first..self.first.saturating_add(THREADS))
                .map(|t| {
                    let (cf, dir) = (&cf, &self.db);
                    scope.spawn(move || write(cf, t, dir))
                })
                .collect();
            writers
                .into_iter()
                .map(|w| {
                    w.join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        results.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(cf: &Cf, thread: u64, dir: &Path) -> anyhow::Result<()> {
    let options = WriteOptions::new().sync(true);
    for n in 0.. {
        let key = key_of(thread, n);
        cf.put_opt(&key, value_of(&key), &options).at(dir)?;
        let line = format!("{thread} {n}\n");
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// Kills the child when dropped, so that none is left behind.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the child on `data`, whose log is on the speed disk `disk` if there is one, kills it, and checks.
pub fn run(
    data: &Path,
    disk: Option<&Path>,
    acks_wanted: u64,
    show: &mut Show,
) -> anyhow::Result<Left> {
    // Those of the first child have other numbers.
    let first = match disk {
        None => 0,
        Some(_) => THREADS,
    };
    let failed = |what: &str, e: std::io::Error| {
        Failure::new(
            format!("{what}: {e}"),
            "run the tour again; without a child it cannot go on",
        )
    };
    let me = std::env::current_exe().map_err(|e| failed("cannot find this program", e))?;
    let mut child = Command::new(me)
        .arg("crash-writer")
        .arg("--db")
        .arg(data)
        .args(["--first", &first.to_string()])
        .args(disk.iter().flat_map(|d| [Path::new("--disk"), d]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map(Guard)
        .map_err(|e| failed("cannot start a child", e))?;
    let pid = child.0.id();
    let pipe = child.0.stdout.take();
    let pipe = pipe.ok_or_else(|| failed("no pipe to the child", std::io::Error::other("none")))?;
    let (send, acks) = std::sync::mpsc::channel();
    // Reads to the end of the pipe: what the child acknowledged before it died counts.
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let mut acked = vec![0u64; usize::try_from(THREADS).unwrap_or(0)];
    let total = gather(&acks, first, &mut acked, acks_wanted);
    let running = matches!(child.0.try_wait(), Ok(None));
    child
        .0
        .kill()
        .map_err(|e| failed("cannot kill the child", e))?;
    let status = child
        .0
        .wait()
        .map_err(|e| failed("cannot wait for the child", e))?;
    let took = start.elapsed();
    if reader.join().is_err() {
        show.wrong("the reader of the pipe failed");
    }
    while let Ok(line) = acks.try_recv() {
        note(first, &mut acked, &line);
    }
    let total_acked: u64 = acked.iter().sum();
    show.say(&format!(
        "child {pid} wrote with sync from {THREADS} threads: {} acknowledgements in {:.1} s, then \
         SIGKILL",
        term::count(total_acked),
        took.as_secs_f64()
    ));
    if !running {
        show.wrong(&format!("the child had ended by itself ({status})"));
    }
    if total == 0 {
        show.wrong("the child acknowledged nothing");
    }
    let start = Instant::now();
    let db = builder(data).open().at(data)?;
    let opened = start.elapsed();
    let (found, lost, beyond) = compare(&db.default_cf(), first, &acked).at(data)?;
    db.close().at(data)?;
    show.verdict(
        lost == 0,
        &format!(
            "reopened in {}: {} of {} acknowledged writes there, {lost} lost",
            term::nanos(u64::try_from(opened.as_nanos()).unwrap_or(u64::MAX)),
            term::count(total_acked - lost),
            term::count(total_acked)
        ),
    );
    show.verdict(
        beyond <= THREADS,
        &format!("{beyond} writes were done and not yet acknowledged when the child died"),
    );
    let name = match disk {
        None => "crash",
        Some(_) => "crash_on_speed_disk",
    };
    show.record(
        name,
        json!({
            "acknowledged": total_acked, "lost": lost, "unacknowledged": beyond,
            "seconds": took.as_secs_f64(), "reopen_seconds": opened.as_secs_f64(),
        }),
    );
    Ok(Left {
        found,
        rate: total_acked as f64 / took.as_secs_f64().max(1e-9),
    })
}

/// Receives acknowledgements until there are enough, the time is up, or the child has ended.
fn gather(acks: &Receiver<Vec<u8>>, first: u64, acked: &mut [u64], wanted: u64) -> u64 {
    let progress = term::bar(wanted, "synced writes", "waiting for");
    let end = Instant::now() + TIME_MAX;
    let mut total = 0;
    while total < wanted {
        match acks.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                note(first, acked, &line);
                total += 1;
                progress.set_position(total);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    progress.finish_and_clear();
    total
}

/// Counts an acknowledgement; those of a thread come in order. A line that the kill cut is none.
fn note(first: u64, acked: &mut [u64], line: &[u8]) {
    let parsed = std::str::from_utf8(line)
        .ok()
        .and_then(|l| l.split_once(' '));
    let Some((thread, n)) = parsed else { return };
    let (Ok(thread), Ok(n)) = (thread.parse::<u64>(), n.parse::<u64>()) else {
        return;
    };
    let place = thread.checked_sub(first);
    let place = place.and_then(|place| usize::try_from(place).ok());
    if let Some(count) = place.and_then(|place| acked.get_mut(place))
        && *count == n
    {
        *count += 1;
    }
}

/// Entries of the child that are there, acknowledged ones that are not, others that are.
fn compare(cf: &Cf, first: u64, acked: &[u64]) -> spanlith::Result<(u64, u64, u64)> {
    let mut lost = 0;
    for (t, &count) in (first..).zip(acked) {
        for n in 0..count {
            let key = key_of(t, n);
            if cf.get(&key)?.as_deref() != Some(&value_of(&key)[..]) {
                lost += 1;
            }
        }
    }
    let mut end = SYNCED.to_vec();
    end.push(0xff);
    let mut found = 0;
    for entry in cf.iter_opt(ReadOptions::new().lower(SYNCED).upper(&end)) {
        let (key, _) = entry?;
        let number = key
            .get(SYNCED.len()..)
            .and_then(|rest| std::str::from_utf8(rest).ok());
        let thread = number.and_then(|n| n.split_once('-')?.0.parse::<u64>().ok());
        found += u64::from(thread.is_some_and(|t| (first..first + THREADS).contains(&t)));
    }
    let there = acked.iter().sum::<u64>() - lost;
    Ok((found, lost, found.saturating_sub(there)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_count_in_order_and_cut_lines_do_not() {
        let mut acked = vec![0; 2];
        for line in ["0 0", "1 0", "0 1", "0", "", "x y", "9 0", "1 2"] {
            note(0, &mut acked, line.as_bytes());
        }
        assert_eq!(acked, [2, 1]);
        note(8, &mut acked, b"9 1");
        note(8, &mut acked, b"1 1");
        assert_eq!(acked, [2, 2]);
    }
}
