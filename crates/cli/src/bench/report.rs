//! Results as db_bench prints them, as a table, as JSON.

use super::meter::Tally;
use crate::term::{self, Paint};
use serde_json::{Value, json};
use std::fmt::Write;

/// What a benchmark measured.
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Counts and latencies.
    pub tally: Tally,
    /// Wall-clock time.
    pub seconds: f64,
    /// More to show, below the line.
    pub text: Option<String>,
}

impl Outcome {
    /// Operations per second of wall-clock time.
    fn rate(&self) -> f64 {
        self.tally.ops as f64 / self.seconds.max(1e-9)
    }

    /// Megabytes per second, as db_bench: 2^20 bytes of keys and values.
    fn megabytes(&self) -> f64 {
        self.tally.bytes as f64 / f64::from(1 << 20) / self.seconds.max(1e-9)
    }

    /// The line of db_bench, with so many columns for the name. The first number is the time of one
    /// operation on one thread.
    pub fn line(&self, width: usize) -> String {
        let t = &self.tally;
        let mut line = format!(
            "{:<width$} : {:11.3} micros/op {:.0} ops/sec {:.3} seconds {} operations;",
            self.name,
            t.busy.as_secs_f64() * 1e6 / t.ops.max(1) as f64,
            self.rate(),
            self.seconds,
            t.ops,
        );
        if t.bytes > 0 {
            let _ = write!(line, " {:6.1} MB/s", self.megabytes());
        }
        if t.looked_up > 0 {
            let _ = write!(line, " ({} of {} found)", t.found, t.looked_up);
        }
        line
    }

    /// All numbers.
    pub fn json(&self) -> Value {
        let t = &self.tally;
        json!({
            "name": self.name, "ops": t.ops, "seconds": self.seconds, "ops_per_sec": self.rate(),
            "micros_per_op": t.busy.as_secs_f64() * 1e6 / t.ops.max(1) as f64,
            "bytes": t.bytes, "mb_per_sec": self.megabytes(), "looked_up": t.looked_up,
            "found": t.found,
            "calls": t.latency.count(),
            "latency_ns": {
                "mean": t.latency.mean(), "p50": t.latency.percentile(50.0),
                "p90": t.latency.percentile(90.0), "p99": t.latency.percentile(99.0),
                "p99_9": t.latency.percentile(99.9), "max": t.latency.max(),
            },
            "text": self.text,
        })
    }
}

/// The closing table. Latencies are those of calls: a batch, or 64 steps of a scan, is one call.
pub fn table(outcomes: &[Outcome], paint: Paint) -> String {
    let mut out = paint.bold(format!(
        "{:<22}{:>14}{:>14}{:>12}{:>12}{:>12}{:>12}{:>10}",
        "benchmark", "ops", "ops/s", "p50", "p99", "p99.9", "max", "MB/s"
    ));
    out.push('\n');
    for o in outcomes {
        let l = &o.tally.latency;
        let _ = writeln!(
            out,
            "{:<22}{:>14}{:>14}{:>12}{:>12}{:>12}{:>12}{:>10.1}",
            o.name,
            term::count(o.tally.ops),
            term::count(o.rate() as u64),
            term::nanos(l.percentile(50.0)),
            term::nanos(l.percentile(99.0)),
            term::nanos(l.percentile(99.9)),
            term::nanos(l.max()),
            o.megabytes(),
        );
    }
    out
}
