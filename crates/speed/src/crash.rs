//! The crash programme: short random histories of logs on a small device, the power lost at every request of each in
//! every way that [`PowerLoss`] knows, and what is recovered compared with what was promised.
//!
//! Checked of every state, with *durable* and *written* as the model of the history knows them:
//!
//! 1. A log that was there before and after the step of the crash is there.
//! 2. It holds a prefix of what was appended, at least what was durable.
//! 3. If it holds anything, every older log holds at least what it held when that was appended.
//! 4. What an open has shown is there after every further loss of power, whatever was written meanwhile.
//! 5. An open that is cut short by a loss of power changes nothing of this.
//! 6. What is read of the logs while they are still being found is what they hold after the verdict.

use crate::disk::SpeedDisk;
use crate::emulated::{EmulatedDevice, Media, Op, PowerLoss, Profile};
use crate::format::{FormatOptions, format_disk};
use crate::log::Log;
use crate::plant::Plant;
use crate::usage::{LogReading, SpeedOptions};
use crate::writer::LogFile;
use spanlith_env::{BlockDevice, Durability, Rng, SeededRng, WritableFile};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Of the device: a superblock area and 12 page groups of 4 pages.
const SIZE: u64 = (256 << 10) + 12 * GROUP;
const GROUP: u64 = 4 * 4096;
/// Steps of a history.
const STEPS: u64 = 14;
const OWNER: &str = "crash programme";

/// Describes what a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Histories.
    pub histories: u64,
    /// States that were opened.
    pub states: u64,
    /// The same, by how the state came to be.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Promises that were broken; none is what one wants.
    pub broken: Vec<String>,
}

impl CrashReport {
    /// A state of a kind is opened.
    pub(crate) fn count(&mut self, kind: &'static str) {
        self.states += 1;
        *self.kinds.entry(kind).or_default() += 1;
    }
}

/// Describes what is known of a log at some time.
#[derive(Clone, Debug, Default)]
struct Known {
    bytes: Vec<u8>,
    durable: usize,
    /// Bytes after each append, and the bytes of all older logs then.
    appends: Vec<(usize, BTreeMap<u64, usize>)>,
}

/// Describes what is known after a step.
#[derive(Clone, Debug, Default)]
struct Mark {
    requests: usize,
    logs: BTreeMap<u64, Known>,
}

struct History {
    base: Media,
    ops: Vec<Op>,
    marks: Vec<Mark>,
}

/// Runs histories of seeds from `seed` on until about `states` states were opened or a promise is broken.
pub fn crash_programme(seed: u64, states: u64) -> CrashReport {
    run(seed, states, None)
}

pub(crate) fn run(seed: u64, states: u64, plant: Option<Plant>) -> CrashReport {
    let mut report = CrashReport::default();
    while report.states < states && report.broken.is_empty() {
        let seed = seed + report.histories;
        let rng = SeededRng::new(seed);
        match make(&rng, plant) {
            Ok(history) => sweep(&history, &rng, seed, plant, &mut report),
            Err(e) => report.broken.push(format!("seed {seed}: {e}")),
        }
        report.histories += 1;
    }
    report
}

fn device(media: Media) -> EmulatedDevice {
    let profile = Profile::by_name("S").unwrap_or_else(|| Profile::all().remove(0));
    EmulatedDevice::with_media(profile, SIZE, media)
}

fn options() -> SpeedOptions {
    SpeedOptions {
        owner: Some(OWNER.into()),
        ..SpeedOptions::default()
    }
}

struct Writing {
    number: u64,
    file: LogFile,
}

/// Runs a history once, on a device without faults.
fn make(rng: &SeededRng, plant: Option<Plant>) -> Result<History, String> {
    let fail = |e: spanlith_base::Error| format!("without any loss of power: {e}");
    let fresh = device(Media::default());
    let format = FormatOptions {
        group_bytes: GROUP,
        ..FormatOptions::default()
    };
    format_disk(&fresh, &format, *b"crash programme!").map_err(fail)?;
    let shared = Arc::new(device(fresh.media()));
    let base = shared.media();
    shared.record();
    let disk = SpeedDisk::open_planted(shared.clone(), &options(), plant).map_err(fail)?;
    let mut marks = vec![Mark::default()];
    let mut now = Mark::default();
    let mut open: Vec<Writing> = Vec::new();
    let mut number = 3;
    for step in 0..STEPS {
        let choice = if step == 0 { 0 } else { rng.below(16) };
        match choice {
            0 | 1 => {
                number += 1 + rng.below(2);
                let log = disk.create_log(number).map_err(fail)?;
                let file = LogFile::new(disk.clone(), log, Path::new("log"));
                open.push(Writing { number, file });
                now.logs.insert(number, Known::default());
            }
            2 | 3 => {
                // The oldest, or any but the newest, goes.
                let older = now.logs.len().saturating_sub(1) as u64;
                let at = if rng.below(4) > 0 {
                    0
                } else {
                    rng.below(older.max(1))
                };
                let victim = now
                    .logs
                    .keys()
                    .copied()
                    .take(older as usize)
                    .nth(at as usize);
                if let Some(victim) = victim {
                    open.retain(|w| w.number != victim);
                    disk.delete_log(victim).map_err(fail)?;
                    now.logs.remove(&victim);
                }
            }
            4 if open.len() > 1 => {
                // A log that is not the newest ends, synced or not.
                let mut old = open.remove(0);
                if rng.below(2) == 0 {
                    old.file.sync().map_err(fail)?;
                    note_sync(&mut now, old.number);
                }
                old.file.close().map_err(fail)?;
            }
            5 | 6 => {
                if let Some(w) = open.last_mut() {
                    w.file.sync().map_err(fail)?;
                    note_sync(&mut now, w.number);
                }
            }
            7 | 8 => {
                if let Some(w) = open.last_mut() {
                    let mut note = |now: &mut Mark| {
                        now.requests = shared.recorded();
                        marks.push(now.clone());
                    };
                    fly(w, rng, &mut now, &mut note).map_err(fail)?;
                }
            }
            _ => {
                let old = rng.below(10) == 0;
                let at = if old { 0 } else { open.len().saturating_sub(1) };
                let Some(w) = open.get_mut(at) else {
                    continue;
                };
                let len = match rng.below(4) {
                    0 => 1 + rng.below(100),
                    1 | 2 => 1 + rng.below(3000),
                    _ => 1 + rng.below(9000),
                };
                if !w.file.has_room(len as usize + 4096) {
                    continue;
                }
                let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                let is_synced = rng.below(3) == 0;
                if is_synced {
                    w.file.expect_sync();
                }
                w.file.append(&data).map_err(fail)?;
                note_append(&mut now, w.number, &data);
                if is_synced {
                    w.file.sync().map_err(fail)?;
                    note_sync(&mut now, w.number);
                }
            }
        }
        now.requests = shared.recorded();
        marks.push(now.clone());
    }
    // Files that are still open are not closed: nobody does that when the power goes.
    let ops = shared.take_record();
    Ok(History { base, ops, marks })
}

/// Begins durable writes beside each other and ends them in any order. Each counts as soon as it is settled.
fn fly(
    w: &mut Writing,
    rng: &SeededRng,
    now: &mut Mark,
    note: &mut dyn FnMut(&mut Mark),
) -> spanlith_base::Result<()> {
    let mut flights = Vec::new();
    for _ in 0..2 + rng.below(3) {
        let len = 1 + rng.below([100, 3000, 9000][rng.below(3) as usize]);
        if !w.file.has_room(len as usize + 4096) {
            break;
        }
        let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        w.file.expect_sync();
        w.file.append(&data)?;
        note_append(now, w.number, &data);
        match w.file.begin_flight()? {
            Some(flight) => {
                let end = now.logs.get(&w.number).map_or(0, |known| known.bytes.len());
                flights.push((flight, end, false));
            }
            // It goes on after those under way, and by itself.
            None => break,
        }
    }
    let mut left: Vec<usize> = (0..flights.len()).collect();
    while !left.is_empty() {
        let at = left.swap_remove(rng.below(left.len() as u64) as usize);
        if let Some((flight, _, is_written)) = flights.get_mut(at) {
            flight.write()?;
            *is_written = true;
        }
        for (flight, end, is_written) in &flights {
            if *is_written && flight.is_settled() {
                note_durable(now, w.number, *end);
            }
        }
        note(now);
    }
    for (flight, ..) in &flights {
        flight.settle()?;
    }
    w.file.sync()?;
    note_sync(now, w.number);
    Ok(())
}

fn note_append(now: &mut Mark, number: u64, data: &[u8]) {
    let older = now.logs.range(..number);
    let older = older.map(|(&n, k)| (n, k.bytes.len())).collect();
    if let Some(known) = now.logs.get_mut(&number) {
        known.bytes.extend_from_slice(data);
        known.appends.push((known.bytes.len(), older));
    }
}

fn note_sync(now: &mut Mark, number: u64) {
    let len = now.logs.get(&number).map_or(0, |known| known.bytes.len());
    note_durable(now, number, len);
}

/// A sync of a log up to an append makes durable what older logs held then, too.
fn note_durable(now: &mut Mark, number: u64, len: usize) {
    let mut durable = BTreeMap::new();
    if let Some(known) = now.logs.get_mut(&number) {
        known.durable = known.durable.max(len);
        if let Some((_, older)) = known.appends.iter().rfind(|(end, _)| *end <= len) {
            durable.clone_from(older);
        }
    }
    for (number, len) in durable {
        if let Some(older) = now.logs.get_mut(&number) {
            older.durable = older.durable.max(len);
        }
    }
}

/// Loses the power at every request.
fn sweep(
    history: &History,
    rng: &SeededRng,
    seed: u64,
    plant: Option<Plant>,
    report: &mut CrashReport,
) {
    let mut media = history.base.clone();
    let mut at = 0;
    for k in 0..=history.ops.len() {
        while history.marks.get(at + 1).is_some_and(|m| m.requests <= k) {
            at += 1;
        }
        let before = history.marks.get(at).cloned().unwrap_or_default();
        let after = history.marks.get(at + 1).unwrap_or(&before).clone();
        let step = Step {
            before: &before,
            after: &after,
        };
        let op = history.ops.get(k);
        for (kind, which, media) in losses_at(&media, op, rng) {
            report.count(kind);
            if let Err(e) = judge(&media, &step, rng, plant, report) {
                let all = history.ops.len();
                let text = format!("seed {seed}, request {k} of {all}, {which}: {e}");
                report.broken.push(text);
                return;
            }
        }
        if let Some(op) = op {
            perform(&mut media, op);
        }
    }
}

/// States that a loss of power before or within the request `op` may leave of `media`: their kinds, what they are called.
pub(crate) fn losses_at(
    media: &Media,
    op: Option<&Op>,
    rng: &SeededRng,
) -> Vec<(&'static str, String, Media)> {
    let mut begun = media.clone();
    if let Some(Op::Write { offset, data, .. }) = op {
        begun.write_cached(*offset, data);
    }
    // The process ends and the power stays: what is in the cache is still there for the next.
    let ended = "the process ended";
    let mut states = vec![(ended, ended.to_string(), media.clone())];
    for (kind, when, media) in [
        ("before a request", "before", media),
        ("within a request", "within", &begun),
    ] {
        for loss in PowerLoss::ALL {
            let which = format!("{when} it, {loss:?}");
            states.push((kind, which, media.after(loss, rng)));
        }
    }
    if let Some(Op::Write { offset, data, .. }) = op {
        // A sector that was being written holds anything.
        let mut torn = data.clone();
        let cut = rng.below(data.len() as u64 / 4) as usize;
        for byte in torn.iter_mut().skip(cut) {
            *byte = rng.next_u64() as u8;
        }
        let mut media = media.after(PowerLoss::Nothing, rng);
        media.write_durable(*offset, &torn);
        let which = format!("within it, garbage from byte {cut} on");
        states.push(("garbage in a request", which, media));
    }
    states
}

/// Does to `media` what a request does.
pub(crate) fn perform(media: &mut Media, op: &Op) {
    match op {
        Op::Write {
            offset,
            data,
            durability: Durability::Durable,
        } => media.write_durable(*offset, data),
        Op::Write { offset, data, .. } => media.write_cached(*offset, data),
        Op::Flush => media.flush(),
    }
}

/// Returns what an open that made the requests `ops` leaves of `media` if the power goes within one of them.
pub(crate) fn torn_opens(media: &Media, ops: &[Op], rng: &SeededRng) -> Vec<Media> {
    let cut = rng.below(ops.len() as u64 + 1) as usize;
    let mut again = media.clone();
    for (i, op) in ops.iter().take(cut + 1).enumerate() {
        match op {
            op if i < cut => perform(&mut again, op),
            Op::Write { offset, data, .. } => again.write_cached(*offset, data),
            Op::Flush => {}
        }
    }
    [PowerLoss::Sectors, PowerLoss::Nothing]
        .map(|loss| again.after(loss, rng))
        .to_vec()
}

struct Step<'a> {
    before: &'a Mark,
    after: &'a Mark,
}

type Contents = BTreeMap<u64, Vec<u8>>;

fn contents(disk: &Arc<SpeedDisk>) -> Result<Contents, String> {
    let mut all = Contents::new();
    for number in disk.numbers() {
        let log: Option<Arc<Log>> = disk.log(number);
        let Some(log) = log else {
            continue;
        };
        let mut bytes = Vec::new();
        let mut part = [0; 3000];
        loop {
            // Its length is not asked for: that would wait for all of it.
            let n = log.read_at(disk, bytes.len() as u64, &mut part);
            let n = n.map_err(|e| format!("log {number} cannot be read: {e}"))?;
            bytes.extend_from_slice(part.get(..n).unwrap_or_default());
            if n == 0 {
                break;
            }
        }
        all.insert(number, bytes);
    }
    Ok(all)
}

/// Opens what was left and compares it with what was promised.
fn judge(
    media: &Media,
    step: &Step<'_>,
    rng: &SeededRng,
    plant: Option<Plant>,
    report: &mut CrashReport,
) -> Result<(), String> {
    let shared = Arc::new(device(media.clone()));
    shared.record();
    let options_of_state = match report.states % 2 {
        0 => options(),
        _ => SpeedOptions {
            reading: LogReading::AlwaysBeside,
            ..options()
        },
    };
    let disk = SpeedDisk::open_planted(shared.clone(), &options_of_state, plant);
    let disk = disk.map_err(|e| format!("it does not open: {e}"))?;
    let while_read = match disk.is_being_read() {
        true => Some(contents(&disk)?),
        false => None,
    };
    let concluded = disk.conclude();
    concluded.map_err(|e| format!("it does not open: {e}"))?;
    let shown = contents(&disk)?;
    if while_read.is_some_and(|before| before != shown) {
        return Err("logs held something else while they were read".to_string());
    }
    check(&shown, step)?;
    if rng.below(3) > 0 {
        return Ok(());
    }
    // The power goes once more, while the open is under way.
    for again in torn_opens(media, &shared.take_record(), rng) {
        report.count("an open cut short");
        let second = Arc::new(device(again));
        let second = SpeedDisk::open_planted(second, &options(), plant);
        let second = second.map_err(|e| format!("after an open that was cut short: {e}"))?;
        let found = contents(&second)?;
        check(&found, step).map_err(|e| format!("after an open that was cut short: {e}"))?;
    }
    // The open was complete: it goes on, and the power goes after a sync.
    // Its number may be that of a log that is gone, if nothing told the database of that one.
    let mut numbers = 4..;
    let number = match rng.below(2) {
        0 => numbers.find(|n| !shown.contains_key(n)),
        _ => shown.keys().next_back().map(|n| n + 1),
    };
    let number = number.unwrap_or(50);
    let mut expected = shown.clone();
    let write = || -> spanlith_base::Result<Vec<u8>> {
        let log = disk.create_log(number)?;
        let mut file = LogFile::new(disk.clone(), log, Path::new("log"));
        let data: Vec<u8> = (0..1 + rng.below(5000))
            .map(|_| rng.next_u64() as u8)
            .collect();
        if rng.below(2) == 0 {
            file.expect_sync();
        }
        file.append(&data)?;
        file.sync()?;
        Ok(data)
    };
    match write() {
        Ok(data) => expected.insert(number, data),
        // Logs fill the disk.
        Err(e) if e.subcode() == Some(spanlith_base::SubCode::NoSpace) => {
            expected.insert(number, Vec::new())
        }
        Err(e) => return Err(format!("behind the open: {e}")),
    };
    let third = Arc::new(shared.after(PowerLoss::Nothing, rng));
    let third: Arc<dyn BlockDevice> = third;
    report.count("a second loss");
    let third = SpeedDisk::open_planted(third, &options(), plant);
    let third = third.map_err(|e| format!("after a second loss: {e}"))?;
    let mut found = contents(&third)?;
    if expected.get(&number).is_some_and(Vec::is_empty) {
        found.remove(&number);
        expected.remove(&number);
    }
    if found != expected {
        let lens = |c: &Contents| c.iter().map(|(n, b)| (*n, b.len())).collect::<Vec<_>>();
        return Err(format!(
            "an open showed {:?}, and the next one {:?}",
            lens(&expected),
            lens(&found)
        ));
    }
    Ok(())
}

fn check(found: &Contents, step: &Step<'_>) -> Result<(), String> {
    for (number, known) in &step.before.logs {
        if !step.after.logs.contains_key(number) {
            continue;
        }
        let Some(bytes) = found.get(number) else {
            return Err(format!("log {number} is gone"));
        };
        if bytes.len() < known.durable {
            return Err(format!(
                "log {number} has {} bytes; {} were durable",
                bytes.len(),
                known.durable
            ));
        }
    }
    for (number, bytes) in found {
        let known = step.after.logs.get(number).or(step.before.logs.get(number));
        let Some(known) = known else {
            return Err(format!("log {number} is nobody's"));
        };
        if !known.bytes.starts_with(bytes) {
            return Err(format!(
                "log {number}: its {} bytes are not the front of the {} that were appended",
                bytes.len(),
                known.bytes.len()
            ));
        }
        let last = known.appends.iter().rfind(|(end, _)| *end <= bytes.len());
        for (older, len) in last.iter().flat_map(|(_, older)| older) {
            let there = found.get(older).map(Vec::len);
            if there.is_some_and(|there| there < *len) {
                return Err(format!(
                    "log {number} has {} bytes, and log {older} before it {there:?} of {len}",
                    bytes.len()
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_of_power_leaves_a_durable_prefix_of_all_logs() {
        let seed = spanlith_testkit::seed(spanlith_testkit::test_name!());
        let report = run(seed, 30_000, None);
        assert!(report.broken.is_empty(), "{:#?}", report.broken);
        assert!(
            report.states >= 30_000 && report.histories > 10,
            "{report:?}"
        );
    }

    #[test]
    fn every_planted_mistake_is_found() {
        let missed: Vec<Plant> = [
            Plant::NoChecksum,
            Plant::SameEpoch,
            Plant::Holes,
            Plant::NoColour,
            Plant::Rewrite,
            Plant::DurableAlone,
            Plant::EarlyReuse,
            Plant::LateDirectory,
            Plant::OneDirectory,
            Plant::Unflushed,
        ]
        .into_iter()
        .filter(|&plant| run(1, 40_000, Some(plant)).broken.is_empty())
        .collect();
        assert_eq!(missed, []);
    }
}
