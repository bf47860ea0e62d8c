//! X-WL-7: LinkBench as it runs here against its published laws ([SPACE] §5; LinkBench's own configuration).

use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::drivers::{Settings, find};
use crate::generate::Values;
use crate::store::StoreOptions;
use spanlith_base::CompressionType;
use spanlith_table::{CompressionOptions, Compressor};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-WL-7",
    title: "LinkBench's mix, payloads and consistency",
    document: "[SPACE] §5, LinkBench's default configuration",
    requirements: "R-WL-34, R-WL-35",
    setup: "10 000 nodes, 60 000 operations on two threads; a megabyte of payloads of links and of nodes through ZSTD.",
    criterion: "shares of operations within four deviations of the defaults; payloads of links compress to 0.3 and those of nodes to 0.6, both within \
                0.05; counts and both orders of links agree",
    stores: Stores::Transactional,
    run,
};

/// Operations and their shares in percent.
const MIX: [(&str, f64); 10] = [
    ("get_link_list", 50.71),
    ("get_node", 12.93),
    ("add_link", 8.99),
    ("update_link", 8.01),
    ("update_node", 7.37),
    ("count_link", 4.89),
    ("delete_link", 2.99),
    ("add_node", 2.57),
    ("delete_node", 1.01),
    ("get_link", 0.53),
];

/// Returns what ZSTD leaves of values of a ratio.
fn compressed(ratio: f64, seed: u64) -> Result<f64> {
    let bytes = Values::with_ratio(1 << 19, ratio, seed).next().to_vec();
    let mut zstd = Compressor::unlimited(CompressionType::Zstd, &CompressionOptions::default())?;
    // Blocks of the size of a table's.
    let kept = bytes
        .chunks(16 << 10)
        .map(|block| zstd.compress(block).map_or(block.len(), <[u8]>::len));
    Ok(kept.sum::<usize>() as f64 / bytes.len() as f64)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let driver = find("linkbench").ok_or_else(|| Error::new("no driver linkbench"))?;
    let changes = [
        format!("keys={}", bench.scaled(10_000, 500)),
        format!("ops={}", bench.scaled(60_000, 2_000)),
        format!("seed={}", bench.seed(1) % 1_000_000),
        "threads=2".to_string(),
    ];
    let settings = Settings::of(driver, changes).map_err(Error::new)?;
    bench.expect(bench.stores().len() as u64);
    let mut figure = Figure::new("Shares of operations", "%", MIX.map(|m| m.0))
        .printed("LinkBench", &MIX.map(|m| Some(m.1)));
    for name in bench.stores() {
        bench.step(&name.to_string());
        let dir = bench.place()?;
        let (label, phases) = driver.drive(name, &dir, &StoreOptions::default(), &settings)?;
        std::fs::remove_dir_all(&dir)?;
        let last = phases
            .last()
            .ok_or_else(|| Error::new("the driver measured nothing"))?;
        let of = |part: &str| {
            last.tally
                .parts
                .get(part)
                .map_or(0, crate::measure::Histogram::count)
        };
        let shares = MIX.map(|m| 100.0 * of(m.0) as f64 / last.tally.ops as f64);
        for ((part, wanted), share) in MIX.iter().zip(shares) {
            // Four deviations of chance, and what rounding leaves.
            let most = 4.0 * (wanted * (100.0 - wanted) / last.tally.ops as f64).sqrt() + 0.01;
            found.check(
                format!("{label}: share of {part} less the default"),
                Bound::Within(-most, most),
                share - wanted,
            );
        }
        let holds = f64::from(u8::from(last.holds() && !last.verdicts.is_empty()));
        found.check(
            format!("{label}: counts and orders agree"),
            Bound::Within(1.0, 1.0),
            holds,
        );
        figure = figure.all_measured(&label, &shares);
    }
    found.figures.push(figure);
    for (what, ratio) in [("links", 0.3), ("nodes", 0.6)] {
        let kept = compressed(ratio, bench.seed(2))?;
        found.check(
            format!("what ZSTD leaves of payloads of {what}"),
            Bound::Within(ratio - 0.05, ratio + 0.05),
            kept,
        );
    }
    Ok(found)
}
