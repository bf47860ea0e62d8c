//! Bytes written to files since the open, by what wrote them, beside the bytes of the user (R-TR-06, 08).

use super::Db;
use super::properties::Properties;
use crate::core::{DbCounters, FamilySet, JobNumbers};
use crate::info_log::{EventValue, InfoLog};
use std::fmt::Write as _;
use std::time::Duration;

/// Bytes written since the open; see [`Db::metrics`]. Blob files count by their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenBytes {
    /// How long the database is open.
    pub time: Duration,
    /// Bytes of the batches that were written.
    pub user: u64,
    /// Bytes of them that went to logs.
    pub log: u64,
    /// Tables of flushes.
    pub flush_tables: u64,
    /// Values that flushes put into blob files.
    pub flush_blobs: u64,
    /// Tables of compactions.
    pub compaction_tables: u64,
    /// Values that compactions took out of tables into blob files.
    pub compaction_blobs: u64,
    /// Values that compactions moved from one blob file to another, to empty it.
    pub collection: u64,
}

impl WrittenBytes {
    /// Everything that was written to files.
    pub fn all(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The bytes by who wrote them.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("log", self.log),
            ("flush_tables", self.flush_tables),
            ("flush_blobs", self.flush_blobs),
            ("compaction_tables", self.compaction_tables),
            ("compaction_blobs", self.compaction_blobs),
            ("collection", self.collection),
        ]
    }

    /// Sets the parts by their names in [`Self::parts`]; `None` if `of` lacks one, and nothing is set then.
    pub fn set_parts(&mut self, of: impl Fn(&str) -> Option<u64>) -> Option<()> {
        let mut values = [0; 6];
        for (value, (name, _)) in values.iter_mut().zip(self.parts()) {
            *value = of(name)?;
        }
        [
            self.log,
            self.flush_tables,
            self.flush_blobs,
            self.compaction_tables,
            self.compaction_blobs,
            self.collection,
        ] = values;
        Some(())
    }

    /// Bytes written for each byte of the user; `None` if nothing was written yet.
    pub fn amplification(&self) -> Option<f64> {
        (self.user > 0).then(|| self.all() as f64 / self.user as f64)
    }

    /// Bytes that a day like the time since the open writes.
    pub fn bytes_per_day(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        match seconds > 0.0 {
            true => self.all() as f64 / seconds * 86_400.0,
            false => 0.0,
        }
    }

    /// How many times such a day writes a drive of so many bytes: the figure by which endurance is
    /// specified. What the drive itself writes more than that is not known here.
    pub fn drive_writes_per_day(&self, capacity: u64) -> f64 {
        self.bytes_per_day() / capacity.max(1) as f64
    }
}

impl WrittenBytes {
    /// Returns what an open database has written.
    /// `now`: monotonic nanoseconds.
    pub(super) fn of(now: u64, counters: &DbCounters, families: &FamilySet) -> Self {
        let writes = counters.numbers(now);
        let mut w = Self {
            time: Duration::from_nanos(now.saturating_sub(counters.opened_nanos)),
            user: writes.bytes,
            log: writes.wal_bytes,
            ..Self::default()
        };
        for family in families.iter() {
            let n = family.counters.numbers();
            let JobNumbers {
                written_bytes,
                blob_written_bytes,
                collected_bytes,
                ..
            } = n.low;
            w.flush_tables += n.high.written_bytes;
            w.flush_blobs += n.high.blob_written_bytes;
            w.compaction_tables += written_bytes;
            w.compaction_blobs += blob_written_bytes.saturating_sub(collected_bytes);
            w.collection += collected_bytes;
        }
        w
    }

    /// Writes the event `written_bytes` to the info log, from which tools read it that do not open the database.
    pub(super) fn tell(&self, log: &InfoLog) {
        let micros = u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX);
        let mut fields = vec![
            ("open_micros", EventValue::U64(micros)),
            ("user", EventValue::U64(self.user)),
        ];
        let parts = self.parts();
        fields.extend(parts.map(|(name, bytes)| (name, EventValue::U64(bytes))));
        log.event(None, "written_bytes", &fields);
    }

    /// The property `spanlith.written-bytes`.
    pub(super) fn text(&self) -> String {
        let mut text = format!("user: {}\n", self.user);
        for (name, bytes) in self.parts() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}: {bytes}", name.replace('_', " "));
        }
        let _ = writeln!(
            text,
            "all: {}, {:.2} for each byte of the user",
            self.all(),
            self.amplification().unwrap_or(0.0)
        );
        let _ = writeln!(text, "a day at this rate: {:.0}", self.bytes_per_day());
        text
    }
}

impl Db {
    /// Bytes written to files since the open, by what wrote them. Costs a lock for each family.
    pub fn written_bytes(&self) -> WrittenBytes {
        Properties::of(self.engine()).written_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_the_sum_and_a_day_follows_from_the_time() {
        let w = WrittenBytes {
            time: Duration::from_secs(8640),
            user: 100,
            log: 100,
            flush_tables: 1,
            flush_blobs: 90,
            compaction_tables: 2,
            compaction_blobs: 7,
            collection: 50,
        };
        assert_eq!((w.all(), w.amplification()), (250, Some(2.5)));
        assert!((w.bytes_per_day() - 2500.0).abs() < 1e-6);
        assert!((w.drive_writes_per_day(1000) - 2.5).abs() < 1e-9);
        assert_eq!(WrittenBytes::default().amplification(), None);
        assert_eq!(WrittenBytes::default().bytes_per_day(), 0.0);
    }
}
