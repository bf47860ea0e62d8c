//! The picture of one look, for a person: head, rates, tree, jobs, complaints.
//!
//! Every line fits the columns it is given and there are no more lines than rows, so that a live
//! picture can be drawn over the one before it.

use super::log::{self, Job};
use super::{Look, Rates};
use crate::inventory::{Family, Inventory};
use crate::term::{self, Paint, bytes, count, counted, padded};
use crate::written::drive_of;
use spanlith::options::CfOptions;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Columns of the names at the left.
const NAME: usize = 12;
/// Columns of the longest bar of a level; the first on narrow terminals.
const BAR: [usize; 2] = [12, 24];
/// Columns from which on a terminal is not narrow.
const WIDE: usize = 100;
/// Families that are shown level by level; with more of them each gets a line.
const FAMILIES_IN_FULL: usize = 3;
/// Name of the row of what logs grew by.
const LOGGED: &str = "  logged";
/// Rates that are kept for the little charts.
pub const HISTORY: usize = 60;
/// Heights of the columns of a little chart.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Room for a picture.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Columns of a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

impl Room {
    /// Of a file or a pipe, where nothing is cut.
    pub const ENDLESS: Self = Self {
        columns: usize::MAX,
        rows: usize::MAX,
    };
}

/// Rates since the last look, as far as there was one.
pub type History = VecDeque<Rates>;

/// A name and what belongs to it.
fn row(paint: Paint, name: &str, value: &str) -> String {
    format!("{}{value}", paint.bold(format!("{name:NAME$}")))
}

/// The lines of a picture.
pub fn lines(look: &Look, history: &History, paint: Paint, room: Room) -> Vec<String> {
    let mut head = head(look, paint);
    head.extend(rates(history, paint, room));
    let mut tree = tree(&look.inventory, paint, room);
    let mut jobs = jobs(look, paint);
    let mut complaints: Vec<String> = look
        .log
        .complaints
        .iter()
        .rev()
        .take(4)
        .map(|line| format!("  {}", paint.yellow(log::short(line))))
        .collect();
    if !complaints.is_empty() {
        complaints.insert(0, paint.bold("complaints of the info log, newest first"));
    }
    let mut stats: Vec<String> = look
        .log
        .stats
        .iter()
        .map(|s| format!("  {}", paint.dim(s)))
        .collect();
    if !stats.is_empty() {
        let title = "statistics, as last dumped to the info log";
        stats.insert(0, paint.bold(title));
    }
    // The line that says least goes first when there is little room.
    let free = room.rows.saturating_sub(head.len());
    let mut over = (tree.len() + jobs.len() + complaints.len() + stats.len()).saturating_sub(free);
    let lists = [&mut stats, &mut jobs, &mut complaints, &mut tree];
    for (list, least) in [(0, 0), (1, 4), (2, 2), (3, 3), (1, 0), (2, 0), (3, 0)] {
        let list = &mut *lists[list];
        let cut = over.min(list.len().saturating_sub(least));
        over -= cut;
        if cut > 0 {
            list.truncate(list.len() - cut);
            // A title alone says nothing.
            if list.len() == 1 {
                list.clear();
            }
        }
    }
    let all = [head, tree, jobs, complaints, stats].concat();
    all.iter()
        .take(room.rows)
        .map(|line| term::cut(line, room.columns))
        .collect()
}

fn head(look: &Look, paint: Paint) -> Vec<String> {
    let i = &look.inventory;
    let process = match (&look.process, look.holder) {
        (Some(p), _) => {
            let mut parts = vec![format!("{} ({})", p.pid, p.name)];
            parts.extend(p.resident.map(|b| format!("{} resident", bytes(b))));
            parts.extend(p.threads.map(|n| counted(n, "thread")));
            parts.extend(
                p.descriptors
                    .map(|n| format!("{} open", counted(n, "file"))),
            );
            parts.join(", ")
        }
        (None, Some(pid)) => format!("{pid}; nothing more is known about it"),
        (None, None) => "nobody has it open, as far as this system tells".to_string(),
    };
    let live = i.live_logs().count() as u64;
    let size = format!(
        "{} in tables, {} in {}, {} in all",
        bytes(i.table_bytes()),
        bytes(i.live_logs().map(|l| l.1).sum::<u64>()),
        counted(live, "live log"),
        bytes(i.listing.values().sum())
    );
    let progress = format!(
        "sequence number {} is in tables; next file {}",
        count(i.last_sequence),
        i.next_file
    );
    let mut rows = vec![
        row(paint, "database", &i.dir.display().to_string()),
        row(paint, "process", &process),
        row(paint, "size", &size),
        row(paint, "progress", &progress),
    ];
    if let Some(written) = &look.log.written {
        let lines = written.lines(drive_of(&i.dir));
        rows.extend(lines.iter().map(|(name, text)| row(paint, name, text)));
    }
    rows
}

/// Numbers as a row of columns, the newest at the right.
fn spark(values: &[f64]) -> String {
    let max = values.iter().copied().fold(0.0, f64::max);
    let height = |v: &f64| match max > 0.0 && *v > 0.0 {
        true => HEIGHTS[((v / max * 8.0).ceil() as usize).clamp(1, 8) - 1],
        false => ' ',
    };
    values.iter().map(height).collect()
}

fn rates(history: &History, paint: Paint, room: Room) -> Vec<String> {
    if history.is_empty() {
        return Vec::new();
    }
    let title = format!("{:>14}{:>14}", "now", "mean");
    let mut out = vec![row(paint, "per second", &paint.dim(title))];
    let mut line = |name: &str, get: fn(&Rates) -> Option<f64>, format: fn(f64) -> String| {
        let values: Vec<f64> = history.iter().filter_map(get).collect();
        let (Some(now), n) = (values.last(), values.len()) else {
            return;
        };
        let mean = values.iter().sum::<f64>() / n as f64;
        let wide = room.columns.saturating_sub(NAME + 30).min(HISTORY);
        let chart = spark(&values[n.saturating_sub(wide)..]);
        let at_least = |shown: String| match name {
            LOGGED if history.back().is_some_and(|r| r.is_less) => format!("≥ {shown}"),
            _ => shown,
        };
        let text = format!(
            "{:>14}{:>14}  {}",
            at_least(format(*now)),
            format(mean),
            paint.cyan(chart)
        );
        out.push(format!("{name:NAME$}{text}"));
    };
    let whole = |v: f64| bytes(v as u64);
    line(LOGGED, |r| Some(r.log_bytes), whole);
    line("  written", |r| r.written_bytes, whole);
    line("  read", |r| r.read_bytes, whole);
    line("  entries", |r| Some(r.sequence), |v| count(v as u64));
    line("  new files", |r| Some(r.files), |v| format!("{v:.1}"));
    out
}

fn tree(i: &Inventory, paint: Paint, room: Room) -> Vec<String> {
    let bar_columns = BAR[usize::from(room.columns >= WIDE)];
    let mut families: Vec<&Family> = i.families.values().collect();
    families.sort_by_key(|f| std::cmp::Reverse(size(f)));
    let total = counted(families.len() as u64, "family").replace("familys", "families");
    if families.len() > FAMILIES_IN_FULL {
        let mut out = vec![row(
            paint,
            "tree",
            &paint.dim(format!("{total}, largest first")),
        )];
        out.extend(families.iter().map(|f| in_one_line(f)));
        return out;
    }
    let title = paint.dim(format!("{:>8}{:>14}", "files", "size"));
    let mut out = vec![row(paint, "tree", &title)];
    for family in &families {
        if families.len() > 1 || family.name != "default" {
            let name = crate::bytes::show_short(family.name.as_bytes(), 40);
            out.push(format!("  {}", paint.bold(name)));
        }
        let levels = family.levels();
        if levels.is_empty() && family.blobs.is_empty() {
            out.push(format!("  {}", paint.dim("no tables yet")));
        }
        let largest = levels.values().map(|l| l.1).max().unwrap_or(0).max(1);
        for (level, (files, size)) in levels {
            let columns = (size as f64 / largest as f64 * bar_columns as f64).ceil() as usize;
            let bar = padded(&"█".repeat(columns.min(bar_columns)), bar_columns);
            let hint = match level {
                0 => triggers(i, &family.name),
                _ => String::new(),
            };
            let line = format!(
                "{:NAME$}{:>8}{:>14}  {}  {}",
                format!("  L{level}"),
                count(files),
                bytes(size),
                paint.cyan(bar),
                paint.dim(hint)
            );
            out.push(line.trim_end().to_string());
        }
        if !family.blobs.is_empty() {
            let (n, size) = (family.blobs.len() as u64, family.blob_bytes());
            out.push(format!(
                "{:NAME$}{:>8}{:>14}",
                "  blobs",
                count(n),
                bytes(size)
            ));
        }
    }
    out
}

fn size(family: &Family) -> u64 {
    let tables = family.files.values().map(|f| f.size).sum::<u64>();
    tables + family.blob_bytes()
}

fn in_one_line(family: &Family) -> String {
    let name = crate::bytes::show_short(family.name.as_bytes(), 20);
    let mut out = format!("  {}{:>12} ", padded(&name, 22), bytes(size(family)));
    for (level, (files, _)) in family.levels() {
        let _ = write!(out, " L{level} {}", count(files));
    }
    if !family.blobs.is_empty() {
        let _ = write!(out, " {}", counted(family.blobs.len() as u64, "blob file"));
    }
    out
}

/// Returns what a number of files in level 0 leads to, by the newest OPTIONS file.
fn triggers(i: &Inventory, family: &str) -> String {
    let parsed = i.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
    let Some(cf) = parsed.and_then(|p| p.cf(family)) else {
        return String::new();
    };
    let o: &CfOptions = &cf.options;
    if o.disable_auto_compactions {
        return "no automatic compactions".to_string();
    }
    format!(
        "compacts {}, slows {}, stops {}",
        o.level0_file_num_compaction_trigger,
        o.level0_slowdown_writes_trigger,
        o.level0_stop_writes_trigger
    )
}

fn seconds(s: f64) -> String {
    match s {
        0.0..10.0 => format!("{s:.1} s"),
        10.0..120.0 => format!("{s:.0} s"),
        120.0..7200.0 => format!("{:.0} min", s / 60.0),
        7200.0..172_800.0 => format!("{:.0} h", s / 3600.0),
        _ => format!("{} days", count((s / 86_400.0) as u64)),
    }
}

fn jobs(look: &Look, paint: Paint) -> Vec<String> {
    let line = |when: String, job: &Job| {
        let took = job.seconds(look.micros).map(seconds).unwrap_or_default();
        format!("  {} {took:>7}  {}", padded(&when, NAME), job.text())
    };
    let running: &[Job] = match look.holder {
        Some(_) => &look.log.open,
        None => &[],
    };
    let done = &look.log.done;
    if running.is_empty() && done.is_empty() {
        return Vec::new();
    }
    let summary = match running.is_empty() {
        true => "none runs".to_string(),
        false => format!("{} now", log::summary(running)),
    };
    let mut out = vec![row(paint, "jobs", &paint.dim(summary))];
    out.extend(running.iter().map(|j| line(paint.green("running"), j)));
    let newest = done.iter().rev().take(8);
    out.extend(newest.map(|j| {
        let ago = look.micros.saturating_sub(j.ended.unwrap_or(0)) as f64 / 1e6;
        line(format!("{} ago", seconds(ago)), j)
    }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_charts_show_the_share_of_the_largest() {
        assert_eq!(spark(&[0.0, 1.0, 4.0, 8.0]), " ▁▄█");
        assert_eq!(spark(&[0.0, 0.0]), "  ");
        assert_eq!(spark(&[]), "");
    }

    #[test]
    fn durations_are_short() {
        let shown = [0.04, 9.94, 30.0, 600.0, 10_000.0, 1e6].map(seconds);
        assert_eq!(
            shown,
            ["0.0 s", "9.9 s", "30 s", "10 min", "3 h", "11 days"]
        );
    }

    #[test]
    fn a_picture_fits_its_room() {
        let temp = spanlith_testkit::TempDir::new(spanlith_testkit::test_name!());
        let dir = spanlith_testkit::golden_case("golden-7.8", "multi-cf").copy_to(temp.join("db"));
        let mut look = Look::take(&dir).unwrap();
        look.log.stats = vec!["Uptime(secs): 1".to_string(); 7];
        look.log.complaints = vec!["2020/01/01-00:00:00.1 1 [WARN] x".to_string(); 9];
        look.log.done = vec![Job::default(); 16];
        let mut history = History::new();
        history.extend([Rates::default(), Rates::default()]);
        let paint = Paint::none();
        for rows in 1..60 {
            for columns in [20, 80, 300] {
                let room = Room { columns, rows };
                let lines = lines(&look, &history, paint, room);
                assert!(lines.len() <= rows, "{rows}: {lines:#?}");
                assert!(lines.iter().all(|l| term::width(l) <= columns));
            }
        }
        let all = lines(&look, &history, paint, Room::ENDLESS).join("\n");
        for part in [
            "database",
            "process",
            "tree",
            "jobs",
            "complaints",
            "Uptime",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
