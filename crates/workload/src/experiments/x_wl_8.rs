//! X-WL-8: TPC-C's mix and consistency conditions under both isolations ([SPACE] §5; clauses 3.3.2 and 5.2.3 of the standard).

use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::drivers::{Settings, find};
use crate::store::StoreOptions;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-8",
    title: "TPC-C's mix, consistency conditions and bytes for a New-Order",
    document: "[SPACE] §5, TPC-C clauses 3.3.2 and 5.2.3",
    requirements: "R-SPACE-21, R-WL-35",
    setup: "Two warehouses with 100 customers a district and 2000 items; 10 000 transactions on two threads; read committed, then repeatable \
            read.",
    criterion: "conditions 1 to 4 hold in both; shares of transactions within four deviations of 45/43/4/4/4",
    stores: Stores::Transactional,
    run,
};

const MIX: [(&str, f64); 5] = [
    ("new_order", 45.0),
    ("payment", 43.0),
    ("order_status", 4.0),
    ("delivery", 4.0),
    ("stock_level", 4.0),
];
const ISOLATIONS: [&str; 2] = ["rc", "rr"];

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let driver = find("tpcc").ok_or_else(|| Error::new("no driver tpcc"))?;
    bench.expect(2 * bench.stores().len() as u64);
    let mut mix = Figure::new("Shares of transactions", "%", MIX.map(|m| m.0))
        .printed("TPC-C", &MIX.map(|m| Some(m.1)));
    let mut bytes = Figure::new(
        "Bytes for a New-Order",
        "bytes",
        ["on disk, rc", "written, rc", "on disk, rr", "written, rr"],
    );
    for name in bench.stores() {
        let (mut label, mut each) = (String::new(), Vec::new());
        for isolation in ISOLATIONS {
            bench.step(&format!("{name}, {isolation}"));
            let changes = [
                "warehouses=2".to_string(),
                "threads=2".to_string(),
                format!("customers={}", bench.scaled(100, 20)),
                format!("items={}", bench.scaled(2_000, 200)),
                format!("ops={}", bench.scaled(10_000, 500)),
                format!("seed={}", bench.seed(1) % 1_000_000),
                format!("isolation={isolation}"),
            ];
            let settings = Settings::of(driver, changes).map_err(Error::new)?;
            let dir = bench.place()?;
            let (of, phases) = driver.drive(name, &dir, &StoreOptions::default(), &settings)?;
            std::fs::remove_dir_all(&dir)?;
            label = of;
            let last = phases
                .last()
                .ok_or_else(|| Error::new("the driver measured nothing"))?;
            let count = |part: &str| {
                last.tally
                    .parts
                    .get(part)
                    .map_or(0, crate::measure::Histogram::count) as f64
            };
            let shares = MIX.map(|m| 100.0 * count(m.0) / last.tally.ops as f64);
            for ((part, wanted), share) in MIX.iter().zip(shares) {
                // Four deviations of chance.
                let most = 4.0 * (wanted * (100.0 - wanted) / last.tally.ops as f64).sqrt();
                found.check(
                    format!("{label}, {isolation}: share of {part} less the standard's"),
                    Bound::Within(-most, most),
                    share - wanted,
                );
            }
            for verdict in &last.verdicts {
                let holds = f64::from(u8::from(verdict.wrong.is_none()));
                found.check(
                    format!("{label}, {isolation}: {}", verdict.what),
                    Bound::Within(1.0, 1.0),
                    holds,
                );
            }
            let orders = count("new_order").max(1.0);
            each.extend([
                last.disk_bytes as f64 / orders,
                last.usage.calls_written as f64 / orders,
            ]);
            mix = mix.all_measured(&format!("{label}, {isolation}"), &shares);
        }
        bytes = bytes.all_measured(&label, &each);
    }
    found.figures.extend([mix, bytes]);
    Ok(found)
}
