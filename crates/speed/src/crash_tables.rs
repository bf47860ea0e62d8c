//! The crash programme of tables on a speed disk: short random histories of files, beside a log, on a small device; the power
//! lost at every request of each in every way that [`PowerLoss`] knows; and what is found compared with what was promised.
//!
//! Checked of every state:
//!
//! 1. There are exactly the files that there were before the step of the crash, or those that there were after it, under
//!    the same names and with the same bytes: each step of a history changes one thing.
//! 2. The log beside them holds a prefix of what was appended, at least what was durable.
//! 3. No page belongs to two files (the open refuses that).
//! 4. What an open has shown is there after a further loss of power, and so is a file that was synced meanwhile.
//! 5. An open that is cut short by a loss of power changes nothing of this.
//!
//! And while a history is made: a file that somebody has open is read whole, whatever became of its name.

use crate::crash::{CrashReport, losses_at, perform, torn_opens};
use crate::disk::SpeedDisk;
use crate::emulated::{EmulatedDevice, Media, Op, Profile};
use crate::format::{FormatOptions, format_disk};
use crate::plant::Plant;
use crate::top::{Top, TopReader};
use crate::usage::SpeedOptions;
use crate::writer::LogFile;
use spanlith_env::{BlockDevice, RandomAccessFile, Rng, SeededRng, WritableFile};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Page groups of 4 pages, two halves of 16 pages, and 40 pages of tables.
const GROUP: u64 = 4 * 4096;
const TABLES: u64 = (32 + 40) * 4096;
const SIZE: u64 = (256 << 10) + 6 * GROUP + TABLES;
const STEPS: u64 = 30;
const OWNER: &str = "crash programme";
const LOG: u64 = 7;
const PATH: &str = "/sd/tables/table";

type Files = BTreeMap<String, Vec<u8>>;

/// Describes what is known after a step.
#[derive(Clone, Debug, Default)]
struct Mark {
    requests: usize,
    files: Files,
    /// Bytes of the log, and how many of them are durable.
    log: (Vec<u8>, usize),
}

/// Runs histories of seeds from `seed` on until about `states` states were opened or a promise is broken.
pub fn crash_programme_of_tables(seed: u64, states: u64) -> CrashReport {
    run(seed, states, None)
}

fn run(seed: u64, states: u64, plant: Option<Plant>) -> CrashReport {
    let mut report = CrashReport::default();
    while report.states < states && report.broken.is_empty() {
        let seed = seed + report.histories;
        let rng = SeededRng::new(seed);
        let swept = make(&rng, plant).and_then(|history| {
            let text = |e| format!("seed {seed}, {e}");
            history.sweep(&rng, plant, &mut report).map_err(text)
        });
        if let Err(e) = swept {
            report.broken.push(e);
        }
        report.histories += 1;
    }
    report
}

fn device(media: Media) -> EmulatedDevice {
    let profile = Profile::by_name("S").unwrap_or_else(|| Profile::all().remove(0));
    EmulatedDevice::with_media(profile, SIZE, media)
}

fn open(device: Arc<dyn BlockDevice>, plant: Option<Plant>) -> Result<Arc<SpeedDisk>, String> {
    let options = SpeedOptions {
        owner: Some(OWNER.into()),
        ..SpeedOptions::default()
    };
    SpeedDisk::open_planted(device, &options, plant).map_err(|e| format!("it does not open: {e}"))
}

fn top(disk: &SpeedDisk) -> Result<&Arc<Top>, String> {
    disk.top()
        .ok_or_else(|| "there is no part for tables".to_string())
}

fn write(top: &Arc<Top>, name: &str, data: &[u8], rng: &SeededRng) -> spanlith_base::Result<()> {
    let mut file = top.create(name, Path::new(PATH))?;
    if rng.below(3) == 0 {
        file.preallocate(data.len() as u64);
    }
    let mut left = data;
    while !left.is_empty() {
        let len = 1 + rng.below(left.len() as u64) as usize;
        let (now, rest) = left.split_at(len);
        file.append(now)?;
        left = rest;
    }
    file.sync()?;
    file.close()
}

fn bytes_of(file: &TopReader) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; file.size() as usize];
    let n = file.read_at(0, &mut bytes);
    let n = n.map_err(|e| format!("a table cannot be read: {e}"))?;
    bytes.truncate(n);
    Ok(bytes)
}

fn files(top: &Arc<Top>) -> Result<Files, String> {
    let read = |name: String| {
        let file = top.read(&name, Path::new(PATH), "While reading");
        let file = file.map_err(|e| format!("{name}: {e}"))?;
        Ok((name, bytes_of(&file)?))
    };
    top.names().into_iter().map(read).collect()
}

fn log_of(disk: &Arc<SpeedDisk>) -> Result<Vec<u8>, String> {
    let Some(log) = disk.log(LOG) else {
        return Ok(Vec::new());
    };
    let mut bytes = vec![0; log.len() as usize];
    let n = log.read_at(disk, 0, &mut bytes);
    let n = n.map_err(|e| format!("the log cannot be read: {e}"))?;
    bytes.truncate(n);
    Ok(bytes)
}

fn random(rng: &SeededRng, len: u64) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

struct History {
    base: Media,
    ops: Vec<Op>,
    marks: Vec<Mark>,
}

/// Runs a history once, on a device without faults.
fn make(rng: &SeededRng, plant: Option<Plant>) -> Result<History, String> {
    let fresh = device(Media::default());
    let format = FormatOptions {
        group_bytes: GROUP,
        tables: TABLES,
        ..FormatOptions::default()
    };
    format_disk(&fresh, &format, *b"crash programme!").map_err(fail)?;
    let shared = Arc::new(device(fresh.media()));
    let base = shared.media();
    shared.record();
    let disk = open(shared.clone(), plant)?;
    let log = disk.create_log(LOG).map_err(fail)?;
    let mut maker = Maker {
        top: top(&disk)?,
        rng,
        log: LogFile::new(disk.clone(), log, Path::new("log")),
        now: Mark::default(),
        held: Vec::new(),
        number: 9,
    };
    let mut marks = vec![Mark::default()];
    for step in 0..=STEPS {
        if step > 0 {
            maker.step()?;
            maker.look()?;
        }
        maker.now.requests = shared.recorded();
        marks.push(maker.now.clone());
    }
    drop(maker);
    let ops = shared.take_record();
    Ok(History { base, ops, marks })
}

fn fail(e: spanlith_base::Error) -> String {
    format!("without any loss of power: {e}")
}

/// A history that is made.
struct Maker<'a> {
    top: &'a Arc<Top>,
    rng: &'a SeededRng,
    log: LogFile,
    now: Mark,
    /// Files that are open, and their bytes.
    held: Vec<(TopReader, Vec<u8>)>,
    /// The last number of a table.
    number: u64,
}

impl Maker<'_> {
    /// Changes one thing.
    fn step(&mut self) -> Result<(), String> {
        let (top, rng) = (self.top, self.rng);
        let at = rng.below(self.now.files.len().max(1) as u64) as usize;
        let some = self.now.files.keys().nth(at).cloned();
        let path = Path::new(PATH);
        match (rng.below(12), some) {
            (0..4, _) => self.add()?,
            (4..7, Some(name)) => {
                top.delete(&name, path).map_err(fail)?;
                self.now.files.remove(&name);
            }
            (7, Some(from)) => {
                let at = rng.below(self.now.files.len() as u64) as usize;
                let to = match rng.below(2) {
                    0 => self.now.files.keys().nth(at).cloned().unwrap_or_default(),
                    _ => format!("renamed-{}", self.number),
                };
                top.rename(&from, &to, path).map_err(fail)?;
                if let Some(data) = self.now.files.remove(&from) {
                    self.now.files.insert(to, data);
                }
            }
            (8, Some(name)) if self.held.len() < 2 => {
                let file = top.read(&name, path, "While reading").map_err(fail)?;
                let data = self.now.files.get(&name).cloned().unwrap_or_default();
                self.held.push((file, data));
            }
            (8, _) => self.held.clear(),
            (9, _) => {
                // One that nobody syncs.
                let mut file = top.create("unsynced", path).map_err(fail)?;
                let len = 1 + rng.below(9000);
                // A full disk has room for the next one.
                let _ = file.append(&random(rng, len));
                drop(file);
                top.delete("unsynced", path).map_err(fail)?;
            }
            _ => self.log()?,
        }
        Ok(())
    }

    /// Writes a table, if there is room for it.
    fn add(&mut self) -> Result<(), String> {
        let (top, rng) = (self.top, self.rng);
        self.number += 1;
        let name = format!("{:06}.sst", self.number);
        let len = [100, 5000, 20_000][rng.below(3) as usize];
        let data = random(rng, 1 + rng.below(len));
        match write(top, &name, &data, rng) {
            Ok(()) => _ = self.now.files.insert(name, data),
            Err(e) if e.subcode() == Some(spanlith_base::SubCode::NoSpace) => {
                top.delete(&name, Path::new(PATH)).map_err(fail)?;
            }
            Err(e) => return Err(fail(e)),
        }
        Ok(())
    }

    /// Appends to the log, and syncs it or not.
    fn log(&mut self) -> Result<(), String> {
        let data = random(self.rng, 1 + self.rng.below(3000));
        if !self.log.has_room(data.len() + 4096) {
            return Ok(());
        }
        let is_synced = self.rng.below(2) == 0;
        if is_synced {
            self.log.expect_sync();
        }
        self.log.append(&data).map_err(fail)?;
        self.now.log.0.extend_from_slice(&data);
        if is_synced {
            self.log.sync().map_err(fail)?;
            self.now.log.1 = self.now.log.0.len();
        }
        Ok(())
    }

    /// Compares what is there with what should be.
    fn look(&self) -> Result<(), String> {
        for (file, data) in &self.held {
            if bytes_of(file)? != *data {
                return Err("a table that is open has other bytes than before".to_string());
            }
        }
        match files(self.top)? == self.now.files {
            true => Ok(()),
            false => Err("without any loss of power there are other tables".to_string()),
        }
    }
}

impl History {
    /// Loses the power at every request.
    fn sweep(
        &self,
        rng: &SeededRng,
        plant: Option<Plant>,
        report: &mut CrashReport,
    ) -> Result<(), String> {
        let mut media = self.base.clone();
        let mut at = 0;
        for k in 0..=self.ops.len() {
            while self.marks.get(at + 1).is_some_and(|m| m.requests <= k) {
                at += 1;
            }
            let before = self.marks.get(at).cloned().unwrap_or_default();
            let after = self.marks.get(at + 1).unwrap_or(&before);
            let op = self.ops.get(k);
            for (kind, which, lost) in losses_at(&media, op, rng) {
                report.count(kind);
                let text = |e| format!("request {k} of {}, {which}: {e}", self.ops.len());
                judge(&lost, (&before, after), rng, plant, report).map_err(text)?;
            }
            if let Some(op) = op {
                perform(&mut media, op);
            }
        }
        Ok(())
    }
}

/// Opens what was left and compares it with what was promised.
fn judge(
    media: &Media,
    step: (&Mark, &Mark),
    rng: &SeededRng,
    plant: Option<Plant>,
    report: &mut CrashReport,
) -> Result<(), String> {
    let shared = Arc::new(device(media.clone()));
    shared.record();
    let disk = open(shared.clone(), plant)?;
    check(&disk, step)?;
    if rng.below(3) > 0 {
        return Ok(());
    }
    for again in torn_opens(media, &shared.take_record(), rng) {
        report.count("an open cut short");
        let second = open(Arc::new(device(again)), plant);
        let second = second.and_then(|disk| check(&disk, step));
        second.map_err(|e| format!("after an open that was cut short: {e}"))?;
    }
    // The open was complete: it goes on, and the power goes after a sync.
    let top = top(&disk)?;
    let mut expected = files(top)?;
    if rng.below(2) == 0
        && let Some((name, _)) = expected.pop_first()
    {
        let deleted = top.delete(&name, Path::new(PATH));
        deleted.map_err(|e| format!("behind the open: {e}"))?;
    }
    let data = random(rng, 1 + rng.below(9000));
    match write(top, "next", &data, rng) {
        Ok(()) => _ = expected.insert("next".into(), data),
        Err(e) if e.subcode() == Some(spanlith_base::SubCode::NoSpace) => {}
        Err(e) => return Err(format!("behind the open: {e}")),
    }
    report.count("a second loss");
    let third = shared.after(crate::emulated::PowerLoss::Nothing, rng);
    let third = open(Arc::new(third), plant).map_err(|e| format!("after a second loss: {e}"))?;
    match files(self::top(&third)?)? == expected {
        true => Ok(()),
        false => Err("after a second loss there are other tables".to_string()),
    }
}

fn check(disk: &Arc<SpeedDisk>, (before, after): (&Mark, &Mark)) -> Result<(), String> {
    let found = files(top(disk)?)?;
    if found != before.files && found != after.files {
        let lens = |files: &Files| {
            let lens = files.iter().map(|(n, b)| format!("{n}: {}", b.len()));
            lens.collect::<Vec<_>>().join(", ")
        };
        return Err(format!(
            "there are the tables [{}]; there were [{}], then [{}]",
            lens(&found),
            lens(&before.files),
            lens(&after.files)
        ));
    }
    let log = log_of(disk)?;
    if !after.log.0.starts_with(&log) || log.len() < before.log.1 {
        return Err(format!(
            "the log has {} bytes, which are not the front of those appended, or fewer than the {} durable ones",
            log.len(),
            before.log.1
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-SPAN-40, D7: what was synced is there, what was deleted is not, whatever the power does.
    #[test]
    fn every_loss_of_power_leaves_the_tables_before_or_after_the_step() {
        let seed = spanlith_testkit::seed(spanlith_testkit::test_name!());
        let report = run(seed, 6_000, None);
        assert!(report.broken.is_empty(), "{:#?}", report.broken);
        assert!(report.histories > 2, "{report:?}");
    }

    #[test]
    fn every_planted_mistake_is_found() {
        let missed: Vec<Plant> = [
            Plant::TablesEarlyReuse,
            Plant::TablesReaders,
            Plant::TablesUnflushed,
            Plant::TablesOneHalf,
            Plant::TablesNoChecksum,
            Plant::TablesTwoSteps,
        ]
        .into_iter()
        .filter(|&plant| run(1, 40_000, Some(plant)).broken.is_empty())
        .collect();
        assert_eq!(missed, []);
    }
}
