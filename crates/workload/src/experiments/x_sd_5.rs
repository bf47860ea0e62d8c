//! X-SD-5: YCSB on three pairs of devices, with the log in files and calls one by one, and asynchronously on a speed disk
//! ([SPAN] Figure 12 and Table 3), on 40 virtual cores.

use super::on_device::spec;
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::sim::sd::{Mix, Outcome, Params, Way, run as simulate};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-5",
    title: "YCSB on pairs of devices: calls one by one, and asynchronous on a speed disk",
    document: "[SPAN] Figure 12, Table 3",
    requirements: "R-SPAN-48, R-SPAN-49, R-SPAN-50, R-SPAN-51, R-SPAN-52, R-SPAN-55",
    setup: "the simulated machine of spanlith sim sd: 40 virtual cores of which 8 flush and compact, entries of 1 KB, 60 % of reads from caches, 1 s. \
            Pairs S-N2, S-O and N1-O of tables and log, S as RAID5 of 4+1. Plain: 40 threads, the log in files with the tables. Speed disk: 8 \
            clients with 50 calls outstanding and 64 reading threads (async_threads); snapshots are immutable.",
    criterion: "speed disk over plain: all writes at least 6 on S-N2 and S-O, and at least 2 on N1-O; A at least 2.6 on S-N2 and S-O; B, E and F at \
                least 1 on S-N2 and S-O, and 0.95 on N1-O; all writes on S-N2 at least plain on N1-O",
    stores: Stores::OnDevices,
    run,
};

const MIXES: [Mix; 5] = [Mix::Writes, Mix::A, Mix::B, Mix::E, Mix::F];
const PAIRS: [(&str, &str, &str); 3] = [
    ("S-N2", "S-RAID5", "N2"),
    ("S-O", "S-RAID5", "O"),
    ("N1-O", "N1", "O"),
];
/// Speed disk over RocksDB, as printed: least and most of the three pairs.
const PRINTED: [(Mix, Option<f64>, Option<f64>); 5] = [
    (Mix::Writes, Some(7.6), Some(8.8)),
    (Mix::A, Some(2.6), Some(4.0)),
    (Mix::B, Some(1.03), Some(1.66)),
    (Mix::E, Some(1.03), Some(1.66)),
    (Mix::F, Some(2.6), Some(4.0)),
];

struct Row {
    mix: Mix,
    plain: [Outcome; 3],
    fast: [Outcome; 3],
}

impl Row {
    fn ratios(&self) -> [f64; 3] {
        std::array::from_fn(|n| self.fast[n].per_second / self.plain[n].per_second)
    }
}

fn measure(bench: &Bench<'_>, mix: Mix, seconds: f64) -> Result<Row> {
    let one = |way: Way| -> Result<[Outcome; 3]> {
        let mut all = [Outcome::default(); 3];
        for (place, (_, tables, log)) in all.iter_mut().zip(PAIRS) {
            let params = Params {
                seconds,
                seed: bench.seed(1),
                ..Params::new(spec(tables)?, spec(log)?, way, mix)
            };
            *place = simulate(&params)?;
        }
        Ok(all)
    };
    Ok(Row {
        mix,
        plain: one(Way::WithTables)?,
        fast: one(Way::Async)?,
    })
}

fn figures(found: &mut Findings, rows: &[Row]) {
    let pairs = PAIRS.map(|p| p.0);
    for row in rows {
        let name = row.mix.name();
        let rates = |of: &[Outcome; 3]| of.map(|o| o.per_second / 1e3);
        found.figures.push(
            Figure::new(format!("{name}: calls by second"), "thousand", pairs)
                .all_measured("plain", &rates(&row.plain))
                .all_measured("speed disk", &rates(&row.fast)),
        );
        let printed = PRINTED.iter().find(|p| p.0 == row.mix);
        let (least, most) = printed.map_or((None, None), |p| (p.1, p.2));
        found.figures.push(
            Figure::new(format!("{name}: speed disk over plain"), "times", pairs)
                .printed("[SPAN] least", &[least; 3])
                .printed("[SPAN] most", &[most; 3])
                .all_measured("simulated", &row.ratios()),
        );
        let places = ["mean", "50 %", "90 %", "99 %", "99.9 %"];
        let times = |o: &Outcome| {
            let l = &o.latency;
            [l.mean, l.p50, l.p90, l.p99, l.p999].map(|n| n / 1e3)
        };
        found.figures.push(
            Figure::new(format!("{name}: time of a call on S-O"), "us", places)
                .all_measured("plain", &times(&row.plain[1]))
                .all_measured("speed disk", &times(&row.fast[1])),
        );
    }
    let of = |get: &dyn Fn(&Row) -> f64| rows.iter().map(get).collect::<Vec<f64>>();
    let mixes: Vec<&str> = rows.iter().map(|r| r.mix.name()).collect();
    let micros = |o: &Outcome| o.processor * 32.0 / o.per_second * 1e6;
    found.figures.push(
        Figure::new("Processor time of a call on S-O", "us", mixes.clone())
            .all_measured("plain", &of(&|r| micros(&r.plain[1])))
            .all_measured("speed disk", &of(&|r| micros(&r.fast[1]))),
    );
    found.figures.push(
        Figure::new("Share of the cores in use on S-O", "%", mixes)
            .all_measured("plain", &of(&|r| r.plain[1].processor * 100.0))
            .all_measured("speed disk", &of(&|r| r.fast[1].processor * 100.0)),
    );
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let seconds = bench.scale().clamp(0.02, 100.0);
    bench.expect(MIXES.len() as u64);
    let mut rows = Vec::new();
    for mix in MIXES {
        bench.step(mix.name());
        rows.push(measure(bench, mix, seconds)?);
    }
    figures(&mut found, &rows);
    for row in &rows {
        for ((pair, ..), ratio) in PAIRS.iter().zip(row.ratios()) {
            let least = match (row.mix, *pair) {
                (Mix::Writes, "N1-O") => 2.0,
                (Mix::Writes, _) => 6.0,
                (Mix::A, "N1-O") => 1.0,
                (Mix::A, _) => 2.6,
                // There the device of the tables bounds both.
                (_, "N1-O") => 0.95,
                _ => 1.0,
            };
            let what = format!("{}: speed disk over plain on {pair}", row.mix.name());
            found.check(what, Bound::AtLeast(least), ratio);
        }
    }
    if let Some(writes) = rows.first() {
        found.check(
            "writes: speed disk on S-N2 over plain on N1-O",
            Bound::AtLeast(1.0),
            writes.fast[0].per_second / writes.plain[2].per_second,
        );
    }
    found.note(
        "Plain is this engine's grouping with its log in files, whose groups wake their members one by one; RocksDB's on real devices of the \
         document depends less on the device. Stalls and placement are left out.",
    );
    Ok(found)
}
