//! The end of a database's info log: what happened last.
//!
//! Understood are `EVENT_LOG_v1` lines, the lines of warnings and errors, and of the statistics that
//! are dumped now and then the ones about writes and stalls. RocksDB's logs and ours have the same.

use serde_json::{Value, json};
use spanlith::Result;
use spanlith_env::{Env, FileSystem};
use std::path::Path;

/// Bytes of the log that are looked at.
const TAIL: u64 = 256 << 10;
/// Events and complaints that are kept.
const KEPT: usize = 6;
/// Lines of a dump of statistics that are shown, by how they begin.
const SHOWN: [&str; 7] = [
    "Uptime(secs)",
    "Cumulative writes",
    "Interval writes",
    "Cumulative stall",
    "Interval stall",
    "Cumulative compaction",
    "Stalls(count)",
];

/// What the end of the log says.
#[derive(Debug, Default, PartialEq)]
pub struct LogTail {
    /// Last flushes and compactions, oldest first.
    pub events: Vec<String>,
    /// Last warnings and errors, oldest first.
    pub complaints: Vec<String>,
    /// Lines of the last dump of statistics.
    pub stats: Vec<String>,
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
            if let Some((head, event)) = line.split_once("EVENT_LOG_v1 ") {
                if let Some(text) = describe(head, event) {
                    out.events.push(text);
                }
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
        for list in [&mut out.events, &mut out.complaints] {
            list.drain(..list.len().saturating_sub(KEPT));
        }
        out
    }

    /// All of it.
    pub fn json(&self) -> Value {
        json!({ "events": self.events, "complaints": self.complaints, "stats": self.stats })
    }
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

/// One line about a finished job, with the time of its log line.
fn describe(head: &str, event: &str) -> Option<String> {
    let event: Value = serde_json::from_str(event.trim()).ok()?;
    let n = |name: &str| event.get(name).and_then(Value::as_u64);
    let family = event.get("cf_name").and_then(Value::as_str).unwrap_or("");
    let time = head.split_whitespace().next().unwrap_or("");
    let what = match event.get("event")?.as_str()? {
        "compaction_finished" => format!(
            "compaction to L{}, {} in {:.2} s",
            n("output_level")?,
            crate::term::bytes(n("total_output_size")?),
            n("compaction_time_micros")? as f64 / 1e6
        ),
        "table_file_creation" => format!(
            "table {:06}, {} {family}",
            n("file_number")?,
            crate::term::bytes(n("file_size")?)
        ),
        "flush_started" => format!(
            "flush of {} entries ({})",
            n("num_entries")?,
            event
                .get("flush_reason")
                .and_then(Value::as_str)
                .unwrap_or("")
        ),
        _ => return None,
    };
    Some(format!("{time}  {}", what.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_jobs_complaints_and_statistics_are_found() {
        let text = "2020/01/01-00:00:00.1 1 [WARN] something odd\n\
            2020/01/01-00:00:01.1 1 EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 3, \"event\": \
            \"compaction_finished\", \"output_level\": 6, \"total_output_size\": 2048, \
            \"compaction_time_micros\": 500000}\n\
            x ------- DUMPING STATS -------\nInterval stall: old\n\
            x ------- DUMPING STATS -------\nInterval stall: 00:00:0.000 H:M:S, 0.0 percent\n";
        let found = LogTail::parse(text);
        let job = "2020/01/01-00:00:01.1  compaction to L6, 2.0 KiB in 0.50 s";
        assert_eq!(found.events, [job]);
        assert_eq!(
            found.complaints,
            ["2020/01/01-00:00:00.1 1 [WARN] something odd"]
        );
        assert_eq!(
            found.stats,
            ["Interval stall: 00:00:0.000 H:M:S, 0.0 percent"]
        );
        assert_eq!(
            LogTail::parse("EVENT_LOG_v1 {\"event\": 5}\nEVENT_LOG_v1 {{\n"),
            LogTail::default()
        );
    }
}
