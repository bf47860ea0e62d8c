//! The end of a database's info log: the jobs that run and ran, complaints, statistics.
//!
//! Understood are `EVENT_LOG_v1` lines, the lines of warnings and errors, and of the statistics that
//! are dumped now and then the ones about writes and stalls. RocksDB's logs and ours have the same.

use crate::term::{bytes, counted};
use crate::written::Written;
use serde_json::{Value, json};
use spanlith::Result;
use spanlith_env::{Env, FileSystem};
use std::path::Path;

/// Bytes of the log that are looked at.
const TAIL: u64 = 256 << 10;
/// Jobs and complaints that are kept.
const KEPT: usize = 16;
/// Lines of a dump of statistics that are shown, by how they begin.
const SHOWN: [&str; 10] = [
    "Uptime(secs)",
    "Cumulative writes",
    "Interval writes",
    "Cumulative stall",
    "Interval stall",
    "Cumulative compaction",
    "Stalls(count)",
    "Write pace",
    "Write waits",
    "Write parts",
];

/// A flush or a compaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its number, unique in one log.
    pub id: u64,
    /// Says whether it is a flush.
    pub is_flush: bool,
    /// The family, if the log says.
    pub family: String,
    /// Level and number of input files of a compaction.
    pub inputs: Vec<(u64, u64)>,
    /// Level that the output goes to, if it is known.
    pub output_level: Option<u64>,
    /// Why it was begun, in the words of the log.
    pub reason: String,
    /// Bytes that it reads; of a flush, those of keys and values.
    pub input_bytes: u64,
    /// Bytes of the tables made so far.
    pub output_bytes: u64,
    /// When it began, in microseconds since the epoch; 0 if that is before what was read.
    pub began: u64,
    /// When it ended; `None` while it runs.
    pub ended: Option<u64>,
}

impl Job {
    /// Returns what it does or did, without times.
    pub fn text(&self) -> String {
        let to = self.output_level.map(|l| format!("L{l}"));
        let family = match self.family.as_str() {
            "" | "default" => String::new(),
            name => format!("{}: ", crate::bytes::show_short(name.as_bytes(), 24)),
        };
        if self.is_flush {
            return match (self.ended, self.input_bytes) {
                (None, read) => format!("{family}flush of {}", bytes(read)),
                (Some(_), 0) => format!("{family}flush, {} written", bytes(self.output_bytes)),
                (Some(_), read) => format!(
                    "{family}flush, {} → {}",
                    bytes(read),
                    bytes(self.output_bytes)
                ),
            };
        }
        let inputs: Vec<String> = self
            .inputs
            .iter()
            .map(|(level, n)| format!("L{level} × {n}"))
            .collect();
        let from = match inputs.is_empty() {
            true => String::new(),
            false => format!(" {}", inputs.join(" + ")),
        };
        let to = to.map(|l| format!(" → {l}")).unwrap_or_default();
        let moved = match (self.ended, self.input_bytes) {
            (None, read) => format!(
                "{} to read, {} written",
                bytes(read),
                bytes(self.output_bytes)
            ),
            (Some(_), 0) => format!("{} written", bytes(self.output_bytes)),
            (Some(_), read) => format!("{} → {}", bytes(read), bytes(self.output_bytes)),
        };
        format!("{family}compaction{from}{to}, {moved}")
    }

    /// Seconds that it took, or runs at `now` (microseconds since the epoch); `None` if unknown.
    pub fn seconds(&self, now: u64) -> Option<f64> {
        let end = self.ended.unwrap_or(now);
        (self.began > 0).then(|| end.saturating_sub(self.began) as f64 / 1e6)
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let inputs: Vec<Value> = self
            .inputs
            .iter()
            .map(|(level, files)| json!({ "level": level, "files": files }))
            .collect();
        json!({
            "job": self.id, "kind": if self.is_flush { "flush" } else { "compaction" },
            "family": self.family, "inputs": inputs, "output_level": self.output_level,
            "reason": self.reason, "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "began_micros": (self.began > 0).then_some(self.began), "ended_micros": self.ended,
        })
    }
}

/// Describes what the end of the log says.
#[derive(Debug, Default, PartialEq)]
pub struct LogTail {
    /// Flushes and compactions that ended, oldest first.
    pub done: Vec<Job>,
    /// Those that began and did not end: they run, or their process has gone.
    pub open: Vec<Job>,
    /// Last warnings and errors, oldest first.
    pub complaints: Vec<String>,
    /// Lines of the last dump of statistics.
    pub stats: Vec<String>,
    /// The bytes written, as last told.
    pub written: Option<Written>,
}

impl LogTail {
    /// Reads the end of a log; nothing if there is none.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn read(path: &Path) -> Result<Self> {
        let fs = Env::system().fs;
        let Some(_) = fs.entry(path)? else {
            return Ok(Self::default());
        };
        Ok(Self::parse(&tail(&*fs, path)?))
    }

    fn parse(text: &str) -> Self {
        let mut out = Self::default();
        for line in text.lines() {
            if let Some((_, event)) = line.split_once("EVENT_LOG_v1 ") {
                // An event of a later release may look otherwise; it is left out.
                let _ = serde_json::from_str(event.trim()).map(|e| out.event(&e));
            } else if line.contains("DUMPING STATS") {
                out.stats.clear();
            } else if ["[WARN]", "[ERROR]", "[FATAL]"]
                .iter()
                .any(|w| line.contains(w))
            {
                out.complaints.push(line.to_string());
            } else if SHOWN.iter().any(|name| line.starts_with(name)) {
                out.stats.push(line.to_string());
            }
        }
        out.done.drain(..out.done.len().saturating_sub(KEPT));
        let extra = out.complaints.len().saturating_sub(KEPT);
        out.complaints.drain(..extra);
        out
    }

    fn event(&mut self, event: &Value) -> Option<()> {
        let n = |name: &str| event.get(name).and_then(Value::as_u64);
        let text = |name: &str| {
            let value = event.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_string()
        };
        if let Some(written) = Written::of_event(event) {
            self.written = Some(written);
            return Some(());
        }
        let (id, time) = (n("job")?, n("time_micros")?);
        let kind = text("event");
        match kind.as_str() {
            "flush_started" | "compaction_started" => {
                let is_flush = kind == "flush_started";
                self.open.retain(|j| j.id != id);
                self.open.push(Job {
                    id,
                    is_flush,
                    family: text("cf_name"),
                    inputs: inputs(event),
                    reason: text(if is_flush {
                        "flush_reason"
                    } else {
                        "compaction_reason"
                    }),
                    input_bytes: n("total_data_size")
                        .or_else(|| n("input_data_size"))
                        .unwrap_or(0),
                    began: time,
                    ..Job::default()
                });
            }
            "table_file_creation" => {
                let job = self.open.iter_mut().find(|j| j.id == id)?;
                job.output_bytes += n("file_size")?;
                if job.family.is_empty() {
                    job.family = text("cf_name");
                }
            }
            "flush_finished" | "compaction_finished" => {
                let at = self.open.iter().position(|j| j.id == id);
                let mut job = match at {
                    Some(at) => self.open.remove(at),
                    // It began before the part of the log that was read.
                    None => Job {
                        id,
                        is_flush: kind == "flush_finished",
                        began: n("compaction_time_micros").map_or(0, |t| time.saturating_sub(t)),
                        ..Job::default()
                    },
                };
                job.output_level = n("output_level");
                job.output_bytes = n("total_output_size").unwrap_or(job.output_bytes);
                job.ended = Some(time);
                self.done.push(job);
            }
            _ => {}
        }
        Some(())
    }

    /// All of it; `running` says whether jobs that did not end still run.
    pub fn json(&self, running: bool) -> Value {
        let jobs = |jobs: &[Job]| jobs.iter().map(Job::json).collect::<Vec<_>>();
        json!({
            "running": running.then(|| jobs(&self.open)), "done": jobs(&self.done),
            "complaints": self.complaints, "stats": self.stats,
        })
    }
}

/// `"files_L0": [9, 7], "files_L1": [5]` of an event: level and number of files.
fn inputs(event: &Value) -> Vec<(u64, u64)> {
    let Some(fields) = event.as_object() else {
        return Vec::new();
    };
    let mut found: Vec<(u64, u64)> = fields
        .iter()
        .filter_map(|(name, files)| {
            let level = name.strip_prefix("files_L")?.parse().ok()?;
            Some((level, files.as_array()?.len() as u64))
        })
        .collect();
    found.sort_unstable();
    found
}

/// A line of the log without its date, thread and place in the source: `12:31:05 [WARN] text`.
pub fn short(line: &str) -> String {
    let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
    let time = head
        .split_once('-')
        .map_or(head, |(_, time)| time.split('.').next().unwrap_or(time));
    let level = ["[WARN]", "[ERROR]", "[FATAL]"];
    let Some(level) = level.into_iter().find(|l| rest.contains(l)) else {
        return line.to_string();
    };
    let text = rest.split_once(level).map_or("", |(_, text)| text.trim());
    // RocksDB puts the file of its source in brackets first.
    let text = match text.strip_prefix('[').and_then(|t| t.split_once("] ")) {
        Some((place, text)) if place.contains(".cc:") || place.contains(".h:") => text,
        _ => text,
    };
    format!("{time} {level} {text}")
}

/// Jobs in words: `1 flush, 2 compactions`.
pub fn summary(jobs: &[Job]) -> String {
    let flushes = jobs.iter().filter(|j| j.is_flush).count() as u64;
    let compactions = jobs.len() as u64 - flushes;
    let mut parts = Vec::new();
    match flushes {
        0 => {}
        1 => parts.push("1 flush".to_string()),
        n => parts.push(format!("{n} flushes")),
    }
    if compactions > 0 {
        parts.push(counted(compactions, "compaction"));
    }
    parts.join(", ")
}

fn tail(fs: &dyn FileSystem, path: &Path) -> Result<String> {
    let file = fs.open_random(path)?;
    let size = file.size();
    let from = size.saturating_sub(TAIL);
    let mut bytes = vec![0; usize::try_from(size - from).unwrap_or(0)];
    let n = file.read_at(from, &mut bytes)?;
    bytes.truncate(n);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line is whole only if the log begins with it.
    let text = match (from, text.split_once('\n')) {
        (1.., Some((_, rest))) => rest.to_string(),
        _ => text,
    };
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2020/01/01-00:00:00.1 1 [WARN] [/column_family.cc:932] [default] slower\n\
        x 1 EVENT_LOG_v1 {\"time_micros\": 5000000, \"job\": 3, \"event\": \"compaction_started\", \
        \"compaction_reason\": \"LevelL0FilesNum\", \"files_L0\": [9, 7], \"files_L1\": [5], \
        \"input_data_size\": 4096}\n\
        x 1 EVENT_LOG_v1 {\"time_micros\": 5000001, \"job\": 4, \"event\": \"flush_started\", \
        \"total_data_size\": 1024, \"flush_reason\": \"Write Buffer Full\"}\n\
        x 1 EVENT_LOG_v1 {\"time_micros\": 5100000, \"cf_name\": \"meta\", \"job\": 4, \"event\": \
        \"table_file_creation\", \"file_number\": 10, \"file_size\": 512}\n\
        x 1 EVENT_LOG_v1 {\"time_micros\": 5200000, \"job\": 2, \"event\": \"compaction_finished\", \
        \"output_level\": 6, \"total_output_size\": 2048, \"compaction_time_micros\": 500000}\n\
        x ------- DUMPING STATS -------\nInterval stall: old\n\
        x ------- DUMPING STATS -------\nInterval stall: 00:00:0.000 H:M:S, 0.0 percent\n\
        2020/01/01-00:00:01.1 1 \nWrite pace: policy smooth, pace 5 bytes/s [default] memory 0.50\nWrite waits: pace 1.000 s\n";

    #[test]
    fn jobs_run_until_the_log_says_that_they_ended() {
        let found = LogTail::parse(LOG);
        let texts: Vec<String> = found.open.iter().map(Job::text).collect();
        let running = [
            "compaction L0 × 2 + L1 × 1, 4.0 KiB to read, 0 B written",
            "meta: flush of 1.0 KiB",
        ];
        assert_eq!(texts, running);
        assert_eq!(found.open[0].seconds(6_500_000), Some(1.5));
        let done: Vec<String> = found.done.iter().map(Job::text).collect();
        assert_eq!(done, ["compaction → L6, 2.0 KiB written"]);
        assert_eq!(found.done[0].seconds(0), Some(0.5));
        assert_eq!(summary(&found.open), "1 flush, 1 compaction");
        assert_eq!(summary(&found.open[..1]), "1 compaction");

        let ended = "x 1 EVENT_LOG_v1 {\"time_micros\": 7000001, \"job\": 4, \"event\": \
             \"flush_finished\"}\n";
        let found = LogTail::parse(&format!("{LOG}{ended}"));
        assert_eq!(found.open.len(), 1);
        let flush = &found.done[1];
        assert_eq!(flush.text(), "meta: flush, 1.0 KiB → 512 B");
        assert_eq!(flush.seconds(0), Some(2.0));
        assert!(found.json(false)["running"].is_null());
        assert_eq!(found.json(true)["running"][0]["inputs"][0]["files"], 2);
    }

    #[test]
    fn complaints_and_the_last_statistics_are_found_and_shortened() {
        let found = LogTail::parse(LOG);
        assert_eq!(
            short(&found.complaints[0]),
            "00:00:00 [WARN] [default] slower"
        );
        assert_eq!(
            found.stats,
            [
                "Interval stall: 00:00:0.000 H:M:S, 0.0 percent",
                "Write pace: policy smooth, pace 5 bytes/s [default] memory 0.50",
                "Write waits: pace 1.000 s",
            ]
        );
        assert_eq!(short("nonsense"), "nonsense");
    }

    #[test]
    fn events_that_make_no_sense_are_left_out() {
        let text = "EVENT_LOG_v1 {\"event\": 5}\nEVENT_LOG_v1 {{\nEVENT_LOG_v1 []\n\
             EVENT_LOG_v1 {\"job\": 1, \"time_micros\": 2, \"event\": \"flush_started\", \
             \"files_Lx\": 3}\n";
        let found = LogTail::parse(text);
        assert_eq!((found.open.len(), found.done.len()), (1, 0));
    }
}
