//! The figures with which [WL] describes a workload (Figures 2 to 13, Tables 1 and 2), of the trace at hand: as
//! numbers, as text with tabs, and as drawings for a page.

mod draw;

pub use draw::svg;

use crate::analyze::Operation;
use crate::model::{FamilyObservation, Observation, Sizes};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Points of a curve at most, and bins of a key space.
const POINTS: usize = 400;

/// Cells in which accesses to single keys are told apart, across and up.
const DOTS: (u64, u64) = (240, 120);

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A bar for each point of each series; x counts the labels.
    Bars,
    /// Distribution functions; the x axis is logarithmic.
    Distribution,
    /// Lines from zero.
    Lines,
    /// A dot for each point.
    Dots,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Name of its file, without an ending.
    pub name: String,
    /// Says what it shows.
    pub title: String,
    /// The figure or table of the document that it is.
    pub document: &'static str,
    /// Names of the axes, with units.
    pub axes: [&'static str; 2],
    /// How it is drawn.
    pub form: Form,
    /// Labels of the x axis, of bars.
    pub labels: Vec<String>,
    /// Names and points.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plot {
    /// Lines of series, x and y with tabs between them, after a head line.
    pub fn tsv(&self) -> String {
        let mut out = format!("series\t{}\t{}\n", self.axes[0], self.axes[1]);
        for (name, points) in &self.series {
            for (x, y) in points {
                let label = self
                    .labels
                    .get(*x as usize)
                    .filter(|_| self.form == Form::Bars);
                let _ = match label {
                    Some(label) => writeln!(out, "{name}\t{label}\t{y}"),
                    None => writeln!(out, "{name}\t{x}\t{y}"),
                };
            }
        }
        out
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.1.is_empty())
    }
}

fn distribution(sizes: &Sizes) -> Vec<(f64, f64)> {
    let (xs, ys) = sizes.distribution();
    let step = xs.len().div_ceil(POINTS).max(1);
    let last = xs.len().saturating_sub(1);
    let points = xs.into_iter().zip(ys).enumerate();
    points
        .filter(|(n, _)| n % step == 0 || *n == last)
        .map(|(_, point)| point)
        .collect()
}

/// All figures that a trace has something for.
pub fn of(seen: &Observation) -> Vec<Plot> {
    let mut all = vec![
        composition(seen),
        distinct(seen),
        rate(seen),
        sizes_table(seen),
    ];
    for (cf, family) in &seen.families {
        all.push(accesses(*cf, family));
        all.push(scans(*cf, family));
        all.push(sizes(*cf, family));
        all.extend(heat(*cf, family));
        all.push(single(*cf, family, seen.requests));
    }
    all.retain(|plot| !plot.is_empty());
    all
}

/// A series and its name.
type Named = (String, Vec<(f64, f64)>);

/// Families by name on the x axis, and a series for each operation that occurs.
fn by_operation(
    seen: &Observation,
    value: impl Fn(&FamilyObservation, Operation) -> Option<f64>,
) -> (Vec<String>, Vec<Named>) {
    let labels = seen
        .families
        .keys()
        .map(|cf| format!("family {cf}"))
        .collect();
    let series = Operation::ALL.into_iter().filter_map(|operation| {
        let points: Vec<(f64, f64)> = seen
            .families
            .values()
            .enumerate()
            .filter_map(|(n, f)| Some((n as f64, value(f, operation)?)))
            .collect();
        (!points.is_empty()).then(|| (operation.name().to_string(), points))
    });
    (labels, series.collect())
}

fn composition(seen: &Observation) -> Plot {
    let (labels, series) = by_operation(seen, |f, operation| {
        let n = f.accesses[operation.id()];
        (n > 0).then_some(n as f64)
    });
    Plot {
        name: "composition".to_string(),
        title: "Accesses by type and family".to_string(),
        document: "Figure 2",
        axes: ["family", "accesses"],
        form: Form::Bars,
        labels,
        series,
    }
}

fn distinct(seen: &Observation) -> Plot {
    let (labels, series) = by_operation(seen, |f, operation| {
        let counts = f.access_counts(operation);
        let accesses: f64 = counts.iter().map(|(n, keys)| n as f64 * keys as f64).sum();
        (accesses > 0.0).then(|| counts.total() as f64 / accesses)
    });
    Plot {
        name: "distinct-keys".to_string(),
        title: "Distinct keys over accesses".to_string(),
        document: "Table 1",
        axes: ["family", "share"],
        form: Form::Bars,
        labels,
        series,
    }
}

fn rate(seen: &Observation) -> Plot {
    let width = seen.span_micros as f64 / 1e6 / seen.slots.len().max(1) as f64;
    let points = seen.slots.iter().enumerate().map(|(n, count)| {
        let x = (n as f64 + 0.5) * width;
        (x, *count as f64 / width.max(1e-9))
    });
    Plot {
        name: "rate".to_string(),
        title: "Requests over time".to_string(),
        document: "Figure 7",
        axes: ["seconds", "requests per second"],
        form: Form::Lines,
        labels: Vec::new(),
        series: vec![("all".to_string(), points.collect())],
    }
}

fn sizes_table(seen: &Observation) -> Plot {
    let labels = seen
        .families
        .keys()
        .map(|cf| format!("family {cf}"))
        .collect();
    let column = |name: &str, of: fn(&FamilyObservation) -> (u64, f64)| {
        let points = seen.families.values().enumerate();
        let points = points.map(|(n, f)| (n as f64, of(f)));
        let there = points
            .filter(|(_, (n, _))| *n > 0)
            .map(|(x, (_, y))| (x, y));
        (name.to_string(), there.collect())
    };
    Plot {
        name: "sizes".to_string(),
        title: "Mean sizes and deviations".to_string(),
        document: "Table 2",
        axes: ["family", "bytes"],
        form: Form::Bars,
        labels,
        series: vec![
            column("key", |f| (f.key_sizes.total(), f.key_sizes.mean())),
            column("key, deviation", |f| {
                (f.key_sizes.total(), f.key_sizes.deviation())
            }),
            column("value", |f| (f.value_sizes.total(), f.value_sizes.mean())),
            column("value, deviation", |f| {
                (f.value_sizes.total(), f.value_sizes.deviation())
            }),
        ],
    }
}

fn accesses(cf: u32, family: &FamilyObservation) -> Plot {
    let series = Operation::ALL.into_iter().filter_map(|operation| {
        let counts = family.access_counts(operation);
        (counts.total() > 0).then(|| (operation.name().to_string(), distribution(&counts)))
    });
    Plot {
        name: format!("accesses-{cf}"),
        title: format!("Family {cf}: accesses of a key, distribution over keys"),
        document: "Figures 3 to 6",
        axes: ["accesses of a key", "share of keys"],
        form: Form::Distribution,
        labels: Vec::new(),
        series: series.collect(),
    }
}

fn scans(cf: u32, family: &FamilyObservation) -> Plot {
    Plot {
        name: format!("scans-{cf}"),
        title: format!("Family {cf}: steps behind a seek"),
        document: "Figure 4",
        axes: ["steps", "share of seeks"],
        form: Form::Distribution,
        labels: Vec::new(),
        series: vec![("seek".to_string(), distribution(&family.scan_lengths))],
    }
}

fn sizes(cf: u32, family: &FamilyObservation) -> Plot {
    let series = [("key", &family.key_sizes), ("value", &family.value_sizes)];
    let there = series.into_iter().filter(|(_, sizes)| sizes.total() > 0);
    Plot {
        name: format!("sizes-{cf}"),
        title: format!("Family {cf}: sizes of keys and values"),
        document: "Figure 8",
        axes: ["bytes", "share"],
        form: Form::Distribution,
        labels: Vec::new(),
        series: there
            .map(|(name, s)| (name.to_string(), distribution(s)))
            .collect(),
    }
}

/// Accesses of a key over the key space in order, in bins.
fn heat(cf: u32, family: &FamilyObservation) -> Option<Plot> {
    let keys = family.keys.len();
    let width = keys.div_ceil(POINTS).max(1);
    let series = Operation::ALL.into_iter().filter_map(|operation| {
        let mut bins = vec![0_u64; keys.div_ceil(width)];
        for (n, counted) in family.keys.values().enumerate() {
            bins[n / width] += u64::from(counted.counts[operation.id()]);
        }
        if bins.iter().all(|n| *n == 0) {
            return None;
        }
        let points = bins.iter().enumerate().map(|(n, sum)| {
            // The last bin may be smaller.
            let of = width.min(keys - n * width);
            ((n * width) as f64, *sum as f64 / of as f64)
        });
        Some((operation.name().to_string(), points.collect()))
    });
    Some(Plot {
        name: format!("key-space-{cf}"),
        title: format!("Family {cf}: accesses of a key over the accessed keys in order"),
        document: "Figures 9, 11, 12",
        axes: ["place of the key", "accesses of a key"],
        form: Form::Lines,
        labels: Vec::new(),
        series: series.collect(),
    })
}

/// When single keys are accessed: a dot where any of the keys and of the requests beside each other meet.
fn single(cf: u32, family: &FamilyObservation, requests: u64) -> Plot {
    let cell = |n: u64, all: u64, cells: u64| {
        let width = all.div_ceil(cells).max(1);
        n / width * width
    };
    let keys = family.keys.len() as u64;
    let mut seen: BTreeMap<usize, BTreeSet<(u64, u64)>> = BTreeMap::new();
    for (place, operation, at) in family.keys.accesses() {
        let x = cell(at, requests, DOTS.0);
        let y = cell(u64::from(place), keys, DOTS.1);
        seen.entry(operation).or_default().insert((x, y));
    }
    let series = Operation::ALL.into_iter().filter_map(|operation| {
        let cells = seen.get(&operation.id())?.iter();
        let points = cells.map(|&(x, y)| (x as f64, y as f64));
        Some((operation.name().to_string(), points.collect()))
    });
    Plot {
        name: format!("single-keys-{cf}"),
        title: format!("Family {cf}: when single keys are accessed, by their places"),
        document: "Figures 10, 13",
        axes: ["requests before", "place of the key"],
        form: Form::Dots,
        labels: Vec::new(),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::{Ask, TraceWriter, observe};
    use spanlith_testkit::{TempDir, test_name};

    /// Twenty gets of one key, one of each of nine others, a put, a scan.
    fn plots() -> Vec<Plot> {
        let temp = TempDir::new(test_name!());
        let path = temp.join("trace");
        let mut trace = TraceWriter::create(&path).unwrap();
        for n in 0..29_u64 {
            let key = format!("key{}", n.saturating_sub(19));
            trace.ask(n * 1000, 0, Ask::Get(key.as_bytes())).unwrap();
        }
        trace.ask(29_000, 1, Ask::Put(b"p", &[0; 50])).unwrap();
        trace.ask(30_000, 0, Ask::Seek(b"key0", 7)).unwrap();
        assert_eq!(trace.finish().unwrap(), 31);
        of(&observe(&path).unwrap())
    }

    fn lines(plots: &[Plot], name: &str) -> String {
        let plot = plots.iter().find(|p| p.name == name);
        plot.unwrap_or_else(|| panic!("{name}")).tsv()
    }

    #[test]
    fn figures_have_the_numbers_of_the_trace() {
        let plots = plots();
        assert_eq!(
            lines(&plots, "composition"),
            "series\tfamily\taccesses\nget\tfamily 0\t29\nput\tfamily 1\t1\niterator_Seek\tfamily 0\t1\n"
        );
        // Nine of ten keys were asked for once, one twenty times.
        assert_eq!(
            lines(&plots, "accesses-0")
                .lines()
                .take(3)
                .collect::<Vec<_>>(),
            [
                "series\taccesses of a key\tshare of keys",
                "get\t1\t0.9",
                "get\t20\t1"
            ]
        );
        assert_eq!(
            lines(&plots, "scans-0"),
            "series\tsteps\tshare of seeks\nseek\t7\t1\n"
        );
        assert!(lines(&plots, "key-space-0").contains("get\t0\t20\nget\t1\t1\n"));
        assert!(lines(&plots, "sizes").contains("value\tfamily 1\t50\n"));
        // The first key twenty times, and the others one after the other; the scan is of the first one.
        let single = lines(&plots, "single-keys-0");
        assert!(single.contains("get\t0\t0\nget\t1\t0\n"), "{single}");
        assert!(
            single.contains("get\t28\t9\niterator_Seek\t30\t0\n"),
            "{single}"
        );
        assert_eq!(single.lines().count(), 1 + 29 + 1);
        // A family without scans has no figure of them.
        assert!(!plots.iter().any(|p| p.name == "scans-1"));
    }

    #[test]
    fn drawings_have_all_series_and_no_number_that_is_none() {
        for plot in plots() {
            let drawn = svg(&plot);
            assert!(
                drawn.starts_with("<svg") && drawn.ends_with("</svg>"),
                "{}",
                plot.name
            );
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
            for (name, _) in &plot.series {
                assert!(
                    drawn.contains(&format!(">{name}</text>")),
                    "{}: {name}",
                    plot.name
                );
            }
        }
    }
}
