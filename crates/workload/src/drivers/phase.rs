//! Describes what a part of a driver's run did, and its JSON.

use super::process::Usage;
use crate::measure::{Histogram, Tally};
use crate::store::{Counters, Result, Store};
use serde_json::{Value, json};

/// Operations of one kind.
pub type Part = (&'static str, Histogram);

/// Says whether something that must hold was found to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Says what must hold.
    pub what: String,
    /// Says what was found instead; `None` if it holds.
    pub wrong: Option<String>,
}

/// One part of a run: a load, a measured part, one point of a sweep.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Threads that made calls.
    pub threads: u64,
    /// Operations per second that were asked for, if the loop was open.
    pub rate: Option<f64>,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Says what the process used meanwhile.
    pub usage: Usage,
    /// Operations and their latencies.
    pub tally: Tally,
    /// Says what the store counted meanwhile.
    pub counters: Counters,
    /// Bytes of its files at the end.
    pub disk_bytes: u64,
    /// Says what must hold at the end.
    pub verdicts: Vec<Verdict>,
    /// Remarks.
    pub notes: Vec<String>,
}

fn latency(l: &Histogram) -> Value {
    json!({
        "calls": l.count(), "mean": l.mean(), "p50": l.percentile(50.0), "p99": l.percentile(99.0),
        "p99_9": l.percentile(99.9), "max": l.max(),
    })
}

impl Phase {
    /// Operations per second of wall-clock time.
    pub fn per_second(&self) -> f64 {
        self.tally.ops as f64 / self.seconds.max(1e-9)
    }

    /// Microseconds of processor time for an operation, background work included.
    pub fn cpu_micros(&self) -> f64 {
        self.usage.cpu_seconds * 1e6 / self.tally.ops.max(1) as f64
    }

    /// Returns whether everything that must hold does.
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|v| v.wrong.is_none())
    }

    /// Writes to files what is in memory, waits for what follows, and takes the bytes on disk anew.
    ///
    /// # Errors
    /// The store's.
    pub fn settle(&mut self, store: &dyn Store) -> Result<()> {
        store.flush()?;
        store.wait_idle()?;
        self.disk_bytes = store.levels()?.iter().map(|l| l.bytes).sum();
        Ok(())
    }

    /// All numbers; latencies in nanoseconds.
    pub fn json(&self) -> Value {
        let t = &self.tally;
        let parts = t.parts.iter();
        json!({
            "name": self.name, "threads": self.threads, "rate": self.rate, "seconds": self.seconds,
            "ops": t.ops, "ops_per_sec": self.per_second(), "bytes": t.bytes,
            "looked_up": t.looked_up, "found": t.found,
            "latency_ns": latency(&t.latency),
            "service_ns": self.rate.map(|_| latency(&t.service)),
            "parts": parts.map(|(name, l)| ((*name).to_string(), latency(l)))
                .collect::<serde_json::Map<_, _>>(),
            "cpu_micros_per_op": self.cpu_micros(), "device_read": self.usage.device_read,
            "device_written": self.usage.device_written, "calls_written": self.usage.calls_written, "disk_bytes": self.disk_bytes,
            "data_blocks_read": self.counters.data_blocks_read(),
            "data_blocks_hit": self.counters.data_blocks_hit(),
            "table_bytes_written": self.counters.table_bytes_written(),
            "consistency": self.verdicts.iter().map(|v| json!({
                "what": v.what, "holds": v.wrong.is_none(), "wrong": v.wrong,
            })).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
