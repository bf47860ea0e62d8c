//! The report of `bench`: one page that shows a run to a person, without a network.
//!
//! Headline first, then each benchmark over time, then what it cost, then what it depends on. Every chart
//! has its numbers in a table below it.

mod facts;
mod over_time;

use super::report::Outcome;
use crate::term;
use serde_json::Value;
use spanlith::options::OptionsFile;
use spanlith_workload::measure::Histogram;
use spanlith_workload::report::STYLE;
use spanlith_workload::report::chart::{Chart, Line, Scale, Steps, escape};
use spanlith_workload::report::environment::Environment;
use spanlith_workload::report::text::short_nanos;
use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Describes what the page is about.
pub struct Page<'a> {
    /// The benchmarks, in order.
    pub outcomes: &'a [Outcome],
    /// Says what was asked for, as in JSON.
    pub settings: &'a Value,
    /// Options in force at the end.
    pub options: Option<&'a OptionsFile>,
    /// Where the database was.
    pub dir: &'a Path,
    /// When the run began.
    pub started: SystemTime,
}

/// A number and its unit apart, so that they can be set apart.
fn split_unit(text: &str) -> (String, String) {
    match text.rsplit_once(' ') {
        Some((number, unit)) if unit.parse::<f64>().is_err() => (number.into(), unit.into()),
        _ => (text.to_string(), String::new()),
    }
}

/// Returns whether a number is too long for a tile at the size of the others; a letter of the unit takes two
/// thirds of a digit.
fn is_long(number: &str, unit: &str) -> bool {
    3 * number.chars().count() + 2 * unit.chars().count() > 24
}

fn tile(out: &mut String, class: &str, value: &str, what: &str) {
    let (number, unit) = split_unit(value);
    let long = match is_long(&number, &unit) {
        true => " class=\"long\"",
        false => "",
    };
    let _ = write!(
        out,
        "<div class=\"tile {class}\"><b{long}>{}{}</b><span>{}</span></div>",
        escape(&number),
        match unit.is_empty() {
            true => String::new(),
            false => format!(" <small>{}</small>", escape(&unit)),
        },
        escape(what)
    );
}

/// The percentiles that tables and tiles show.
const PERCENTILES: [(f64, &str); 4] = [
    (50.0, "p50"),
    (99.0, "p99"),
    (99.9, "p99.9"),
    (99.99, "p99.99"),
];

fn latency_cells(l: &Histogram) -> String {
    let mut out = String::new();
    for (percent, _) in PERCENTILES {
        let _ = write!(out, "<td>{}</td>", term::nanos(l.percentile(percent)));
    }
    let _ = write!(out, "<td>{}</td>", term::nanos(l.max()));
    out
}

fn utc(time: SystemTime) -> String {
    term::utc(time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// Returns whether a benchmark did something worth a chart.
fn is_measured(o: &Outcome) -> bool {
    o.tally.latency.count() > 1
}

impl Page<'_> {
    /// Benchmarks that did something worth a chart.
    fn measured(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|o| is_measured(o))
    }

    /// The whole page.
    pub fn html(&self) -> String {
        let names: Vec<&str> = self.outcomes.iter().map(|o| o.name.as_str()).collect();
        let title = format!("Spanlith bench: {}", names.join(", "));
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n",
            escape(&title)
        );
        self.header(&mut out);
        self.summary(&mut out);
        for (number, outcome) in self.outcomes.iter().enumerate() {
            if is_measured(outcome) {
                over_time::section(&mut out, number, outcome);
            }
        }
        facts::cost(&mut out, self.outcomes);
        facts::texts(&mut out, self.outcomes);
        facts::environment(&mut out, self, &Environment::of(self.dir));
        out.push_str("</main></body></html>\n");
        out
    }

    fn header(&self, out: &mut String) {
        let seconds: f64 = self.outcomes.iter().map(|o| o.seconds).sum();
        let data = self.settings["data"].as_str().unwrap_or_default();
        let _ = write!(
            out,
            "<header><h1>Spanlith benchmark</h1><p class=\"sub\">{} · {} · {:.1} s of work</p></header>",
            escape(&utc(self.started)),
            escape(data),
            seconds
        );
        if cfg!(debug_assertions) {
            out.push_str(
                "<p class=\"warn\"><b>Debug build.</b> Figures say nothing about speed; build with \
                 --profile dist.</p>",
            );
        }
    }

    fn summary(&self, out: &mut String) {
        let best = self
            .measured()
            .map(Outcome::ops_per_second)
            .fold(0.0, f64::max);
        out.push_str(
            "<section style=\"margin-top:24px\"><div class=\"card\"><h3>Results</h3>\
             <div class=\"scroll\"><table><thead><tr><th>benchmark</th><th>operations</th>\
             <th>ops/s</th><th>MB/s</th>",
        );
        for (_, name) in PERCENTILES {
            let _ = write!(out, "<th>{name}</th>");
        }
        out.push_str("<th>max</th></tr></thead><tbody>");
        for (number, o) in self.outcomes.iter().enumerate() {
            let single = !is_measured(o);
            let share = 100.0 * o.ops_per_second() / best.max(1e-9);
            let name = match single {
                true => escape(&o.name),
                false => format!("<a href=\"#run{number}\">{}</a>", escape(&o.name)),
            };
            let _ = write!(
                out,
                "<tr><td><b>{name}</b></td><td>{}</td>",
                term::count(o.tally.ops)
            );
            if single {
                let _ = write!(
                    out,
                    "<td colspan=\"7\" class=\"sub\">one call, {}</td></tr>",
                    term::nanos(o.tally.latency.max())
                );
                continue;
            }
            let _ = write!(
                out,
                "<td class=\"bar\">{}<i style=\"--w:{share:.1}%\"></i></td><td>{}</td>{}</tr>",
                term::count(o.ops_per_second() as u64),
                match o.tally.bytes {
                    0 => String::new(),
                    _ => format!("{:.1}", o.megabytes()),
                },
                latency_cells(&o.tally.latency)
            );
            for (part, l) in &o.tally.parts {
                let _ = write!(
                    out,
                    "<tr class=\"part\"><td>{}</td><td>{}</td><td>{}</td><td></td>{}</tr>",
                    escape(part),
                    term::count(l.count()),
                    term::count((l.count() as f64 / o.seconds.max(1e-9)) as u64),
                    latency_cells(l)
                );
            }
            if o.rate.is_some() {
                let _ = write!(
                    out,
                    "<tr class=\"part\"><td>from actual start</td><td></td><td></td><td></td>{}</tr>",
                    latency_cells(&o.tally.service)
                );
            }
        }
        out.push_str("</tbody></table></div>");
        let open = self.outcomes.iter().any(|o| o.rate.is_some());
        let _ = write!(
            out,
            "<p class=\"note\">{} A latency is that of a call: a batch, or 64 steps of a scan, is one \
             call.</p></div>",
            if open {
                "Open loop: calls have intended start times, and latencies count from those, so a stall \
                 counts for every call that it delayed."
            } else {
                "Closed loop: a thread makes its next call when the last one has returned, so a stall \
                 counts once however long it lasts. For latencies under a given load use --rate."
            }
        );
        self.distribution(out);
        out.push_str("</section>");
    }

    /// How long calls took, from the median to the slowest.
    fn distribution(&self, out: &mut String) {
        const PLACES: [(f64, &str); 7] = [
            (0.0, "min"),
            (50.0, "50 %"),
            (90.0, "90 %"),
            (99.0, "99 %"),
            (99.9, "99.9 %"),
            (99.99, "99.99 %"),
            (100.0, "max"),
        ];
        // More lines than colours would not be told apart.
        let shown: Vec<&Outcome> = self.measured().take(4).collect();
        if shown.is_empty() {
            return;
        }
        let xs: Vec<f64> = (0..PLACES.len()).map(|n| n as f64).collect();
        let marks: Vec<(f64, &str)> = xs.iter().copied().zip(PLACES.map(|p| p.1)).collect();
        let lines: Vec<Line> = shown
            .iter()
            .enumerate()
            .map(|(colour, o)| Line {
                name: o.name.clone(),
                colour,
                values: PLACES
                    .iter()
                    .map(|(percent, _)| o.tally.latency.percentile(*percent) as f64)
                    .collect(),
            })
            .collect();
        let chart = Chart {
            title: "Latency by percentile",
            xs: &xs,
            x_title: "share of calls that took no longer",
            x_marks: Some(&marks),
            lines: &lines,
            scale: Scale::Log,
            steps: Steps::Decimal,
            stacked: false,
            filled: false,
            from_zero: false,
            mark: None,
            format: short_nanos,
            width: 1120.0,
            height: 250.0,
        };
        let more = self.measured().count().saturating_sub(shown.len());
        let _ = write!(
            out,
            "<div class=\"card\" style=\"margin-top:12px\"><h3>Latency of calls <small>from the fastest \
             to the slowest, logarithmic{}</small></h3><div class=\"scroll wide\">{}</div></div>",
            match more {
                0 => String::new(),
                n => format!("; the first 4 benchmarks, {n} more in the table"),
            },
            chart.svg()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_workload::report::text::{short_bytes, short_count};
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59 UTC");
    }

    #[test]
    fn axis_numbers_are_short() {
        assert_eq!(short_count(250_000.0), "250 k");
        assert_eq!(short_count(0.0), "0");
        assert_eq!(short_nanos(20_000.0), "20 µs");
        assert_eq!(short_nanos(1_234_567.0), "1.2 ms");
        assert_eq!(short_bytes(f64::from(64 << 20)), "64 MiB");
        assert_eq!(split_unit("12.3 ms"), ("12.3".into(), "ms".into()));
        assert_eq!(split_unit("1 234"), ("1 234".into(), String::new()));
        assert!(!is_long("164.3", "MB/s") && !is_long("141.3", "µs") && !is_long("239 845", ""));
        assert!(is_long("1234.5", "MB/s") && is_long("1 398 426", ""));
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        for word in ["url(", "@import", "http"] {
            assert!(!STYLE.contains(word), "{word}");
        }
    }
}
