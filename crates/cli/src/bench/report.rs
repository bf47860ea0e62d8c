//! Results as db_bench prints them, as a table, as JSON.

use super::sampler::{Series, Shapes};
use crate::term::{self, Paint};
use serde_json::{Value, json};
use spanlith_workload::measure::Histogram;
use spanlith_workload::measure::Tally;
use std::fmt::Write;

/// Describes what a benchmark measured.
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Says what it does.
    pub what: &'static str,
    /// Counts and latencies.
    pub tally: Tally,
    /// Wall-clock time.
    pub seconds: f64,
    /// Says whether it only printed what the database says of itself.
    pub is_text: bool,
    /// More to show, below the line.
    pub text: Option<String>,
    /// Threads that made calls.
    pub threads: u64,
    /// Operations per second that were asked for, if the loop was open.
    pub rate: Option<f64>,
    /// Points over time; none if nobody asked for them.
    pub series: Series,
    /// The tree before and after.
    pub shapes: Shapes,
}

/// Percentiles of a histogram, in nanoseconds.
fn percentiles(l: &Histogram) -> Value {
    json!({
        "mean": l.mean(), "p50": l.percentile(50.0), "p90": l.percentile(90.0),
        "p99": l.percentile(99.0), "p99_9": l.percentile(99.9), "p99_99": l.percentile(99.99),
        "max": l.max(),
    })
}

impl Outcome {
    /// Operations per second of wall-clock time.
    pub fn ops_per_second(&self) -> f64 {
        self.tally.ops as f64 / self.seconds.max(1e-9)
    }

    /// Megabytes per second, as db_bench: 2^20 bytes of keys and values.
    pub fn megabytes(&self) -> f64 {
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
            self.ops_per_second(),
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
            "name": self.name, "ops": t.ops, "seconds": self.seconds, "ops_per_sec": self.ops_per_second(),
            "micros_per_op": t.busy.as_secs_f64() * 1e6 / t.ops.max(1) as f64,
            "bytes": t.bytes, "mb_per_sec": self.megabytes(), "looked_up": t.looked_up,
            "found": t.found,
            "calls": t.latency.count(), "threads": self.threads, "rate": self.rate,
            "latency_ns": percentiles(&t.latency),
            "service_ns": self.rate.map(|_| percentiles(&t.service)),
            "parts": t.parts.iter().map(|(name, l)| {
                (name.to_string(), json!({ "ops": l.count(), "latency_ns": percentiles(l) }))
            }).collect::<serde_json::Map<_, _>>(),
            "shape": self.shapes.json(), "series": self.series.json(),
            "text": self.text,
        })
    }
}

/// Columns of the closing table with everything in it.
const TABLE: usize = 112;

/// The closing table, without what the result lines say as well if there are fewer columns than it
/// takes. Latencies are those of calls: a batch, or 64 steps of a scan, is one call.
pub fn table(outcomes: &[Outcome], paint: Paint, columns: usize) -> String {
    let is_whole = columns >= TABLE;
    let percents: &[f64] = match is_whole {
        true => &[50.0, 99.0, 99.9, 99.99],
        false => &[50.0, 99.0, 99.9],
    };
    let cells = |ops: &str, rate: &str, megabytes: &str| match is_whole {
        true => format!("{ops:>13}{rate:>11}{megabytes:>9}"),
        false => format!("{rate:>11}"),
    };
    let mut head = format!("{:<24}{}", "benchmark", cells("ops", "ops/s", "MB/s"));
    for percent in percents {
        let _ = write!(head, "{:>11}", format!("p{percent}"));
    }
    let mut out = paint.bold(format!("{head}{:>11}", "max"));
    out.push('\n');
    let latencies = |l: &Histogram| {
        let mut text = String::new();
        for percent in percents {
            let _ = write!(text, "{:>11}", term::nanos(l.percentile(*percent)));
        }
        text + &format!("{:>11}", term::nanos(l.max()))
    };
    for o in outcomes {
        let megabytes = match o.tally.bytes {
            0 => String::new(),
            _ => format!("{:.1}", o.megabytes()),
        };
        let rate = term::count(o.ops_per_second() as u64);
        let _ = writeln!(
            out,
            "{:<24}{}{}",
            o.name,
            cells(&term::count(o.tally.ops), &rate, &megabytes),
            latencies(&o.tally.latency),
        );
        for (part, latency) in &o.tally.parts {
            let count = latency.count();
            let rate = term::count((count as f64 / o.seconds.max(1e-9)) as u64);
            let line = format!(
                "  {part:<22}{}{}",
                cells(&term::count(count), &rate, ""),
                latencies(latency)
            );
            let _ = writeln!(out, "{line}");
        }
        if let Some(rate) = o.rate.filter(|_| o.tally.service.count() > 0) {
            let line = format!(
                "  {:<22}{}{}",
                "from actual start",
                cells("", "", ""),
                latencies(&o.tally.service)
            );
            let _ = writeln!(out, "{}", paint.dim(line));
            if o.ops_per_second() < rate * 0.98 {
                let _ = writeln!(
                    out,
                    "  {}",
                    paint.yellow(format!(
                        "{} ops/s asked for, {} done: calls queue up, so latencies grow with the run",
                        term::count(rate as u64),
                        term::count(o.ops_per_second() as u64)
                    ))
                );
            }
        }
    }
    out
}
