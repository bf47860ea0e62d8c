//! X-SP-4: LinkBench and TPC-C on a log-structured tree and on B-trees ([SPACE] §5, Figures 3 to 5).
//!
//! All stores run the same operations on one thread, so that their order is the same as well; what they write is
//! counted where they call the system, which neither the cache of the system nor the load of the machine changes.

use super::b_tree::{Space, compressed_bytes};
use super::{Bench, Bound, Error, Experiment, Figure, Findings, Result, Stores};
use crate::drivers::{Phase, Settings, find};
use crate::store::{StoreName, StoreOptions};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SP-4",
    title: "LinkBench and TPC-C on a log-structured tree and on B-trees",
    document: "[SPACE] §5, Figures 3 to 5",
    requirements: "R-SPACE-02, R-SPACE-19, R-SPACE-20, R-SPACE-21, R-WL-35",
    setup: "LinkBench: 20 000 nodes, 100 000 operations. TPC-C: one warehouse with 300 customers a district and 10 000 items, 10 000 \
            transactions, read committed and repeatable read. One thread, no sync at commits, logs on, caches of 16 MiB where a store has \
            one, trees with ZSTD and blocks of 16 KiB; B-trees do not compress. What compressed ones would take is computed of the \
            entries of this engine.",
    criterion: "every consistency condition holds on every store; a log-structured tree takes at most half the space of each B-tree and \
                writes at most half of its bytes; this engine takes at most 0.55 of the space of each of two compressed B-trees, computed",
    stores: Stores::Transactional,
    run,
};

/// A load: its name, its driver, and what is set.
const LOADS: [(&str, &str, &[&str]); 3] = [
    ("LinkBench", "linkbench", &[]),
    ("TPC-C rc", "tpcc", &["isolation=rc"]),
    ("TPC-C rr", "tpcc", &["isolation=rr"]),
];

/// A kind of computed B-tree, and its bytes.
type Computed = (&'static str, fn(&Space) -> u64);

const COMPUTED: [Computed; 2] = [
    (
        "compressed B-tree, computed, pages rounded up to 4 KiB",
        |s| s.rounded,
    ),
    ("compressed B-tree, computed, pages of 8 KiB", |s| s.fixed),
];

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

const CACHE: u64 = 16 << 20;
const ON_DISK: &str = "Bytes on disk at the end";

/// Describes what one store did under one load.
struct Measured {
    throughput: f64,
    /// Latencies of the 50th, 99th and 99.9th percentile.
    micros: [f64; 3],
    cpu_micros: f64,
    disk: f64,
    written: f64,
    holds: f64,
    /// Bytes that compressed B-trees would take for what this engine holds in the end; 0 for other stores.
    computed: Space,
}

impl Measured {
    fn of(phases: &[Phase]) -> Result<Self> {
        let last = phases
            .last()
            .ok_or_else(|| Error::new("the driver measured nothing"))?;
        let written: u64 = phases.iter().map(|p| p.usage.calls_written).sum();
        Ok(Self {
            throughput: last.per_second(),
            micros: [50.0, 99.0, 99.9]
                .map(|share| last.tally.latency.percentile(share) as f64 / 1000.0),
            cpu_micros: last.cpu_micros(),
            disk: mib(last.disk_bytes),
            written: mib(written),
            holds: f64::from(u8::from(last.holds() && !last.verdicts.is_empty())),
            computed: Space::default(),
        })
    }
}

fn is_b_tree(name: &StoreName) -> bool {
    matches!(name, StoreName::Lmdb | StoreName::Redb)
}

fn options(name: &StoreName) -> StoreOptions {
    StoreOptions {
        // Memtables are small against the data, so that the tree has levels.
        options: match name.is_rocksdb_like() {
            true => "write_buffer_size=2097152;target_file_size_base=2097152;max_bytes_for_level_base=8388608;\
                     level_compaction_dynamic_level_bytes=true;compression=kZSTD;block_based_table_factory={block_size=16384}"
                .to_string(),
            false => String::new(),
        },
        cache_bytes: (*name != StoreName::Lmdb).then_some(CACHE),
        ..StoreOptions::default()
    }
}

fn measure(
    bench: &Bench<'_>,
    name: &StoreName,
    load: (&str, &str, &[&str]),
) -> Result<(String, Measured)> {
    let (_, driver, more) = load;
    let driver = find(driver).ok_or_else(|| Error::new(format!("no driver {driver}")))?;
    let sizes = match driver.name {
        "linkbench" => vec![
            format!("keys={}", bench.scaled(20_000, 300)),
            format!("ops={}", bench.scaled(100_000, 500)),
        ],
        _ => vec![
            format!("customers={}", bench.scaled(300, 20)),
            format!("items={}", bench.scaled(10_000, 200)),
            format!("ops={}", bench.scaled(10_000, 200)),
        ],
    };
    let seed = format!("seed={}", bench.seed(1) % 1_000_000);
    let changes = sizes.iter().map(String::as_str).chain(more.iter().copied());
    let settings = Settings::of(driver, changes.chain([seed.as_str()])).map_err(Error::new)?;
    let dir = bench.place()?;
    let options = options(name);
    let (label, phases) = driver.drive(name, &dir, &options, &settings)?;
    let mut measured = Measured::of(&phases)?;
    if *name == StoreName::Ours {
        let families = 1 + driver.families.len();
        let mut space = Ok(Space::default());
        driver.show(name, &dir, &options, |store| {
            space = compressed_bytes(store, families);
            Ok(())
        })?;
        measured.computed = space?;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok((label, measured))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let stores = bench.stores();
    bench.expect((LOADS.len() * stores.len()) as u64);
    // Of each store, its name and what it did under each load.
    let mut all: Vec<(&StoreName, String, Vec<Measured>)> = Vec::new();
    for name in stores {
        let (mut label, mut measured) = (String::new(), Vec::new());
        for load in LOADS {
            bench.step(&format!("{name}, {}", load.0));
            let (of, m) = measure(bench, name, load)?;
            label = of;
            measured.push(m);
        }
        all.push((name, label, measured));
    }
    type Number = fn(&Measured) -> f64;
    let figures: [(&str, &str, Number); 7] = [
        ("Throughput", "operations/s", |m| m.throughput),
        ("Latency, median", "µs", |m| m.micros[0]),
        ("Latency, 99th percentile", "µs", |m| m.micros[1]),
        ("Latency, 99.9th percentile", "µs", |m| m.micros[2]),
        ("Processor time of an operation", "µs", |m| m.cpu_micros),
        (ON_DISK, "MiB", |m| m.disk),
        ("Bytes written, with the load", "MiB", |m| m.written),
    ];
    for (title, unit, number) in figures {
        let mut figure = Figure::new(title, unit, LOADS.map(|l| l.0));
        for (name, label, measured) in &all {
            let numbers: Vec<f64> = measured.iter().map(number).collect();
            figure = figure.all_measured(label, &numbers);
            if title == ON_DISK && **name == StoreName::Ours {
                for (label, bytes) in COMPUTED {
                    let computed: Vec<f64> =
                        measured.iter().map(|m| mib(bytes(&m.computed))).collect();
                    figure = figure.all_measured(label, &computed);
                }
            }
        }
        found.figures.push(figure);
    }
    for (_, label, measured) in &all {
        for (load, m) in LOADS.iter().zip(measured) {
            found.check(
                format!("{label}: conditions hold, {}", load.0),
                Bound::Within(1.0, 1.0),
                m.holds,
            );
        }
    }
    let ours = all.iter().find(|s| *s.0 == StoreName::Ours);
    if let Some((_, label, measured)) = ours {
        for (load, m) in LOADS.iter().zip(measured) {
            for (tree, bytes) in COMPUTED {
                found.check(
                    format!(
                        "bytes on disk of {label} over those of a {tree}, {}",
                        load.0
                    ),
                    Bound::AtMost(0.55),
                    m.disk / mib(bytes(&m.computed)),
                );
            }
        }
    }
    for (_, label, tree) in all.iter().filter(|s| is_b_tree(s.0)) {
        let Some((_, name, lsm)) = ours else { break };
        for ((load, lsm), tree) in LOADS.iter().zip(lsm).zip(tree) {
            let what = |of: &str| format!("{of} of {name} over {label}'s, {}", load.0);
            found.check(
                what("bytes on disk"),
                Bound::AtMost(0.5),
                lsm.disk / tree.disk,
            );
            found.check(
                what("bytes written"),
                Bound::AtMost(0.5),
                lsm.written / tree.written,
            );
        }
    }
    found.note(
        "The document compares with a compressed B-tree engine, of which the tree takes half the space and 10 to 15 % of the writes. LMDB \
         and redb do not compress; the computed ones have pages of 16 KiB, 0.69 full, with ZSTD at level 1, and neither inner pages nor logs. \
         One rounds a compressed page up to 4 KiB; the other has 8 KiB for each, as the document's engine. Bytes written are those that calls of the system were given.",
    );
    Ok(found)
}
