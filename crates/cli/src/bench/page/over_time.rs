//! One benchmark over time: throughput, latencies, the tree.

use super::{PERCENTILES, tile};
use crate::bench::report::Outcome;
use crate::bench::sampler::{Point, Tree, Work};
use crate::term;
use spanlith_workload::report::chart::{Chart, Line, Scale, Steps, escape, plain};
use spanlith_workload::report::text::{short_bytes, short_nanos};
use std::fmt::Write;

/// Colour of memtables in the chart of the tree; levels have those from here on.
const LEVELS: usize = 10;
const LEVEL_COLOURS: usize = 7;
const MEMTABLES: usize = 19;

/// The section of one benchmark.
pub fn section(out: &mut String, number: usize, o: &Outcome) {
    let plural = if o.threads == 1 { "thread" } else { "threads" };
    let _ = write!(
        out,
        "<section id=\"run{number}\"><div class=\"head\"><h2>{}</h2><p class=\"sub\">{} · {} {plural}, {:.1} s{}</p></div>",
        escape(&o.name),
        escape(o.what),
        o.threads,
        o.seconds,
        match o.rate {
            Some(rate) => format!(", {} ops/s asked for", term::count(rate as u64)),
            None => String::new(),
        }
    );
    out.push_str("<div class=\"tiles\">");
    let rate = term::count(o.ops_per_second() as u64);
    tile(out, "first", &rate, "ops per second");
    if o.tally.bytes > 0 {
        let rate = format!("{:.1} MB/s", o.megabytes());
        tile(out, "", &rate, "of entries");
    }
    for (percent, name) in PERCENTILES {
        let value = term::nanos(o.tally.latency.percentile(percent));
        tile(out, "", &value, &format!("{name} latency"));
    }
    tile(out, "", &term::nanos(o.tally.latency.max()), "slowest call");
    if o.tally.looked_up > 0 {
        let share = 100.0 * o.tally.found as f64 / o.tally.looked_up as f64;
        tile(
            out,
            "",
            &format!("{} %", plain((share * 10.0).round() / 10.0)),
            "keys found",
        );
    }
    out.push_str("</div>");
    if let Some(rate) = o.rate.filter(|r| o.ops_per_second() < r * 0.98) {
        let _ = write!(
            out,
            "<p class=\"warn\"><b>Overloaded.</b> {} operations per second were asked for and {} done: \
             calls queued up, and latencies grow with the length of the run.</p>",
            term::count(rate as u64),
            term::count(o.ops_per_second() as u64)
        );
    }
    let points = o.series.points();
    if points.len() < 2 {
        out.push_str(
            "<p class=\"note\">Too short for charts over time: use a larger --num, --duration, or a \
             smaller --report-interval-ms.</p></section>",
        );
        return;
    }
    out.push_str("<div class=\"charts\">");
    throughput(out, o, points);
    latencies(out, points);
    let work = o.shapes.work();
    bytes_moved(out, o, points);
    tree(out, o, points);
    if o.shapes.after.tables() > 0 {
        at_the_end(out, &o.shapes.after);
    }
    // While nothing is written they stay as they were.
    if work.user > 0 || work.written > 0 {
        debt(out, o, points);
        space(out, o, points);
    }
    out.push_str("</div>");
    table(out, points);
    out.push_str("</section>");
}

fn times(points: &[Point]) -> Vec<f64> {
    points.iter().map(|p| p.at).collect()
}

fn card(out: &mut String, title: &str, unit: &str, chart: &Chart<'_>) {
    let _ = write!(
        out,
        "<div class=\"card\"><h3>{title} <small>{unit}</small></h3>{}</div>",
        chart.svg()
    );
}

fn throughput(out: &mut String, o: &Outcome, points: &[Point]) {
    let xs = times(points);
    let lines = [Line {
        name: "operations per second".to_string(),
        colour: 0,
        values: points.iter().map(Point::rate).collect(),
    }];
    let chart = Chart {
        filled: true,
        mark: Some((o.ops_per_second(), "mean")),
        ..Chart::over_time("Throughput over time", &xs, &lines)
    };
    let (min, max) = lines[0]
        .values
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    let unit = format!(
        "operations per second; {} to {}",
        term::count(min as u64),
        term::count(max as u64)
    );
    card(out, "Throughput", &unit, &chart);
}

fn latencies(out: &mut String, points: &[Point]) {
    // Intervals in which no call ended say nothing.
    let points: Vec<&Point> = points
        .iter()
        .filter(|p| p.tally.latency.count() > 0)
        .collect();
    let xs: Vec<f64> = points.iter().map(|p| p.at).collect();
    let lines = [
        ("p50", 50.0),
        ("p99", 99.0),
        ("p99.9", 99.9),
        ("max", 100.0),
    ];
    let lines = lines
        .iter()
        .enumerate()
        .map(|(colour, (name, percent))| Line {
            name: (*name).to_string(),
            colour,
            values: points
                .iter()
                .map(|p| p.tally.latency.percentile(*percent) as f64)
                .collect(),
        });
    let lines: Vec<Line> = lines.collect();
    let chart = Chart {
        scale: Scale::Log,
        format: short_nanos,
        ..Chart::over_time("Latency over time", &xs, &lines)
    };
    if !chart.is_empty() {
        card(
            out,
            "Latency",
            "percentiles of each interval, logarithmic",
            &chart,
        );
    }
}

/// The tree when the benchmark began, then at each point.
fn trees<'a>(o: &'a Outcome, points: &'a [Point]) -> (Vec<f64>, Vec<&'a Tree>) {
    let later = points.iter().map(|p| (p.at, &p.tree));
    std::iter::once((0.0, &o.shapes.before))
        .chain(later)
        .unzip()
}

/// Name of a line, and what of the work it shows.
type Kind = (&'static str, fn(&Work) -> u64);

/// Draws what was written and read, per second of each interval.
fn bytes_moved(out: &mut String, o: &Outcome, points: &[Point]) {
    let (xs, trees) = trees(o, points);
    let moved: Vec<Work> = trees
        .windows(2)
        .map(|pair| pair[1].done.since(&pair[0].done))
        .collect();
    let kinds: [Kind; 3] = [
        ("logs", |w| w.log),
        ("tables", |w| w.written),
        ("compaction reads", |w| w.read),
    ];
    let lines: Vec<Line> = kinds
        .iter()
        .enumerate()
        .filter(|(_, (_, get))| moved.iter().any(|w| get(w) > 0))
        .map(|(colour, (name, get))| Line {
            name: (*name).to_string(),
            colour,
            values: moved
                .iter()
                .zip(xs.windows(2))
                .map(|(w, x)| get(w) as f64 / (x[1] - x[0]).max(1e-9))
                .collect(),
        })
        .collect();
    let chart = Chart {
        format: short_bytes,
        steps: Steps::Binary,
        ..Chart::over_time(
            "Bytes written and read per second over time",
            &xs[1..],
            &lines,
        )
    };
    if chart.is_empty() {
        return;
    }
    let unit = match &lines[..] {
        [one] => format!("to {}, bytes per second", one.name),
        _ => "bytes per second; tables by flushes and compactions".to_string(),
    };
    card(out, "Bytes moved", &unit, &chart);
}

/// Levels of a tree, as bars.
fn at_the_end(out: &mut String, tree: &Tree) {
    let largest = tree.levels.iter().map(|l| l.1).max().unwrap_or(0).max(1);
    out.push_str(
        "<div class=\"card\"><h3>Tree at the end <small>files and bytes by level</small></h3>\
         <table><thead><tr><th>level</th><th>files</th><th>bytes</th></tr></thead><tbody>",
    );
    for (n, (files, bytes)) in tree.levels.iter().enumerate().filter(|(_, l)| l.0 > 0) {
        let _ = write!(
            out,
            "<tr><td>L{n}</td><td>{}</td><td class=\"bar\">{}<i style=\"--w:{:.1}%\"></i></td></tr>",
            term::count(*files),
            term::bytes(*bytes),
            100.0 * *bytes as f64 / largest as f64
        );
    }
    let _ = write!(
        out,
        "<tr class=\"part\"><td>memtables</td><td></td><td>{}</td></tr></tbody></table></div>",
        term::bytes(tree.memtables)
    );
}

fn tree(out: &mut String, o: &Outcome, points: &[Point]) {
    let (xs, trees) = trees(o, points);
    let deepest = trees
        .iter()
        .flat_map(|t| t.levels.iter().enumerate().filter(|(_, l)| l.1 > 0))
        .map(|(n, _)| n);
    let used: std::collections::BTreeSet<usize> = deepest.collect();
    // The last level at the bottom, as in a tree; above all, what is in memory.
    let mut lines: Vec<Line> = used
        .iter()
        .rev()
        .map(|&n| Line {
            name: format!("L{n}"),
            colour: LEVELS + n.min(LEVEL_COLOURS - 1),
            values: trees
                .iter()
                .map(|t| t.levels.get(n).map_or(0.0, |l| l.1 as f64))
                .collect(),
        })
        .collect();
    lines.push(Line {
        name: "memory".to_string(),
        colour: MEMTABLES,
        values: trees.iter().map(|t| t.memtables as f64).collect(),
    });
    let chart = Chart {
        stacked: true,
        format: short_bytes,
        steps: Steps::Binary,
        ..Chart::over_time("Size of the tree by level over time", &xs, &lines)
    };
    let unit = match used.is_empty() {
        true => "bytes; no table was written, all is in memtables",
        false => "bytes by level, and in memtables",
    };
    card(out, "Shape of the tree", unit, &chart);
}

fn debt(out: &mut String, o: &Outcome, points: &[Point]) {
    let (xs, trees) = trees(o, points);
    let files = |t: &&Tree| t.levels.first().map_or(0.0, |l| l.0 as f64);
    let pending = trees.iter().any(|t| t.pending > 0);
    if !pending && trees.iter().all(|t| files(t) == 0.0) {
        return;
    }
    let lines = [Line {
        name: "files in L0".to_string(),
        colour: 2,
        values: trees.iter().map(files).collect(),
    }];
    let chart = Chart {
        filled: true,
        ..Chart::over_time("Files in level 0 over time", &xs, &lines)
    };
    card(out, "Files in L0", "each is one more place to look", &chart);
    let lines = [Line {
        name: "bytes to compact".to_string(),
        colour: 3,
        values: trees.iter().map(|t| t.pending as f64).collect(),
    }];
    let chart = Chart {
        filled: true,
        format: short_bytes,
        steps: Steps::Binary,
        ..Chart::over_time("Bytes that wait for compaction over time", &xs, &lines)
    };
    let unit = "bytes still to be rewritten, estimated";
    card(out, "Compaction debt", unit, &chart);
}

fn space(out: &mut String, o: &Outcome, points: &[Point]) {
    let (xs, trees) = trees(o, points);
    // Before the first flush there is nothing to compare.
    let known = |(x, t): (&f64, &&Tree)| Some((*x, t.space_amplification()?));
    let (xs, values): (Vec<f64>, Vec<f64>) = xs.iter().zip(&trees).filter_map(known).unzip();
    let lines = [Line {
        name: "space amplification".to_string(),
        colour: 1,
        values,
    }];
    let chart = Chart {
        filled: true,
        from_zero: false,
        mark: Some((1.0, "none")),
        format: times_as_much,
        ..Chart::over_time("Space amplification over time", &xs, &lines)
    };
    if !chart.is_empty() {
        let unit = "bytes of tables for each byte of live entries, estimated";
        card(out, "Space amplification", unit, &chart);
    }
}

fn times_as_much(value: f64) -> String {
    format!("{}×", plain((value * 100.0).round() / 100.0))
}

fn table(out: &mut String, points: &[Point]) {
    out.push_str(
        "<details><summary>The numbers behind these charts</summary><div class=\"card scroll\"><table>\
         <thead><tr><th>seconds</th><th>ops/s</th>",
    );
    for (_, name) in PERCENTILES {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str(
        "<th>max</th><th>files by level</th><th>tables</th><th>memtables</th><th>to compact</th></tr>\
         </thead><tbody>",
    );
    for p in points {
        let levels = p.tree.levels.iter().enumerate().filter(|(_, l)| l.0 > 0);
        let levels: Vec<String> = levels.map(|(n, l)| format!("L{n} {}", l.0)).collect();
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td>{}<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            plain((p.at * 100.0).round() / 100.0),
            term::count(p.rate() as u64),
            super::latency_cells(&p.tally.latency),
            levels.join(" "),
            term::bytes(p.tree.tables()),
            term::bytes(p.tree.memtables),
            term::bytes(p.tree.pending)
        );
    }
    out.push_str("</tbody></table></div></details>");
}
