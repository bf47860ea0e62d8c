//! The bytes that a database has written, as the last event `written_bytes` of its info log says: by what wrote it, for each byte of
//! the user, and how often a day that writes the drive (R-TR-06, R-TR-08).
//!
//! The event is written with each dump of statistics and when the database is closed.

use crate::term::bytes;
use serde_json::{Map, Value, json};
use spanlith::WrittenBytes;
use spanlith_env::Env;
use std::path::Path;
use std::time::Duration;

/// Bytes written between an open and the event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// When the event was written, in microseconds since the epoch.
    pub at: u64,
    bytes: WrittenBytes,
}

/// The words for a part.
fn words(part: &str) -> &str {
    match part {
        "flush_tables" => "flushes, tables",
        "flush_blobs" => "flushes, blob files",
        "compaction_tables" => "compactions, tables",
        "compaction_blobs" => "compactions, blob files",
        "collection" => "collection of garbage",
        other => other,
    }
}

impl Written {
    /// Takes an event; `None` if it is another one.
    pub fn of_event(event: &Value) -> Option<Self> {
        if event.get("event")?.as_str()? != "written_bytes" {
            return None;
        }
        let n = |name: &str| event.get(name).and_then(Value::as_u64);
        let mut bytes = WrittenBytes::default();
        bytes.time = Duration::from_micros(n("open_micros")?);
        bytes.user = n("user")?;
        bytes.set_parts(|name| n(name))?;
        Some(Self {
            at: n("time_micros")?,
            bytes,
        })
    }

    /// Bytes that a day like the time of the event writes; `None` if there was none.
    fn bytes_per_day(&self) -> Option<f64> {
        (!self.bytes.time.is_zero()).then(|| self.bytes.bytes_per_day())
    }

    /// The share of each part that wrote something: `log 30 %, flushes, tables 20 %`.
    fn shares(&self) -> String {
        let all = self.bytes.all().max(1) as f64;
        let parts = self.bytes.parts().into_iter().filter(|(_, n)| *n > 0);
        let share =
            |(name, n): (&str, u64)| format!("{} {:.0} %", words(name), n as f64 / all * 100.0);
        parts.map(share).collect::<Vec<_>>().join("; ")
    }

    /// Lines for a person, with their names; `drive` is the size of the drive, if it is known.
    pub fn lines(&self, drive: Option<u64>) -> Vec<(&'static str, String)> {
        let hours = self.bytes.time.as_secs_f64() / 3600.0;
        let each = self.bytes.amplification().map_or(String::new(), |n| {
            format!(
                ", {n:.2} bytes for each of the user's {}",
                bytes(self.bytes.user)
            )
        });
        let mut lines = vec![(
            "written",
            format!("{} in {hours:.2} hours{each}", bytes(self.bytes.all())),
        )];
        if self.bytes.all() > 0 {
            lines.push(("", self.shares()));
        }
        if let Some(day) = self.bytes_per_day().filter(|_| self.bytes.all() > 0) {
            let often = drive.filter(|&n| n > 0).map_or(String::new(), |n| {
                format!(
                    ", {:.3} times the {} of the drive",
                    day / n as f64,
                    bytes(n)
                )
            });
            lines.push(("endurance", format!("{} a day{often}", bytes(day as u64))));
        }
        lines
    }

    /// All of it, for programs.
    pub fn json(&self, drive: Option<u64>) -> Value {
        let parts = self.bytes.parts().into_iter();
        let parts: Map<String, Value> = parts
            .map(|(name, n)| (name.to_string(), n.into()))
            .collect();
        let day = self.bytes_per_day();
        let often = day.zip(drive).map(|(day, n)| day / n.max(1) as f64);
        json!({
            "time_micros": self.at, "open_micros": self.bytes.time.as_micros() as u64, "user_bytes": self.bytes.user,
            "written_bytes": self.bytes.all(), "by": parts, "write_amplification": self.bytes.amplification(),
            "bytes_per_day": day, "drive_bytes": drive, "drive_writes_per_day": often,
        })
    }
}

/// Size of the file system that holds a directory, taken for that of the drive.
pub fn drive_of(dir: &Path) -> Option<u64> {
    Env::system().fs.total_space(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Value {
        json!({
            "time_micros": 7, "event": "written_bytes", "open_micros": 21_600_000_000u64, "user": 1000,
            "log": 1000, "flush_tables": 100, "flush_blobs": 900, "compaction_tables": 1500,
            "compaction_blobs": 0, "collection": 500,
        })
    }

    #[test]
    fn an_event_says_who_wrote_and_how_long_a_drive_would_last() {
        let written = Written::of_event(&event()).unwrap();
        let lines = written.lines(Some(8000));
        let text: Vec<String> = lines.iter().map(|(n, t)| format!("{n}|{t}")).collect();
        assert_eq!(
            text,
            [
                "written|3.9 KiB in 6.00 hours, 4.00 bytes for each of the user's 1000 B",
                "|log 25 %; flushes, tables 2 %; flushes, blob files 22 %; compactions, tables 38 %; \
                 collection of garbage 12 %",
                "endurance|15.6 KiB a day, 2.000 times the 7.8 KiB of the drive",
            ]
        );
        let json = written.json(Some(8000));
        assert_eq!(json["drive_writes_per_day"], 2.0);
        assert_eq!(json["write_amplification"], 4.0);
        assert_eq!(json["by"]["collection"], 500);
        assert_eq!(written.lines(None).len(), 3);
    }

    #[test]
    fn other_events_and_events_without_a_part_are_none() {
        assert_eq!(
            Written::of_event(&json!({ "event": "flush_started" })),
            None
        );
        let mut cut = event();
        cut.as_object_mut().unwrap().remove("collection");
        assert_eq!(Written::of_event(&cut), None);
        let mut idle = event();
        for (name, _) in WrittenBytes::default().parts() {
            idle[name] = 0.into();
        }
        idle["user"] = 0.into();
        let idle = Written::of_event(&idle).unwrap();
        assert_eq!(
            idle.lines(Some(1)),
            [("written", "0 B in 6.00 hours".to_string())]
        );
    }
}
