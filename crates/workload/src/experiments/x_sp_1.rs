//! X-SP-1: space amplification with static and with dynamic level sizes ([SPACE] §3.1).
//!
//! The amount of data is chosen so that the last level of the static tree is barely larger than the target of
//! the level above it, which is the case in which static sizes waste most.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Rng, Values};
use crate::store::{Level, Store, StoreName, StoreOptions};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SP-1",
    title: "Space amplification with static and dynamic level sizes",
    document: "[SPACE] §3.1",
    requirements: "R-SPACE-01, R-SPACE-04, R-SPACE-05",
    setup: "370 000 keys of 16 bytes with incompressible values of 104 bytes in the last level, then three times as \
            many overwrites of uniformly chosen keys; level base 4 MiB, multiplier 10, memtables of 1 MiB, \
            no compression. Amplification is bytes of tables when idle over bytes after a full compaction.",
    criterion: "dynamic: at most 1.111 without level 0, with 5 % for files that are not split; static: more than 1.5, \
                and more than dynamic",
    stores: Stores::RocksDbLike,
    run,
};

const VALUE_SIZE: usize = 104;
/// Bytes of an entry in a table: key, value, sequence number, lengths.
const ENTRY_SIZE: u64 = 16 + VALUE_SIZE as u64 + 11;
/// Bytes of all keys over the base of the levels: above 10, so that a static tree has a level after the second, and
/// little above, so that this level is small against the targets before it.
const DATA: f64 = 11.5;

struct Space {
    /// Bytes over those of an empty copy, without level 0.
    levels: f64,
    /// The same of level 0 alone.
    zero: f64,
}

fn bytes(levels: &[Level]) -> f64 {
    levels.iter().map(|l| l.bytes as f64).sum()
}

fn key(n: u64) -> String {
    let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 10_u64.pow(16);
    format!("{scattered:016}")
}

/// Puts every key once, with levels so small that all end up in the third.
fn load(store: &dyn Store, bench: &Bench<'_>, keys: u64) -> Result<()> {
    let mut values = Values::incompressible(VALUE_SIZE, bench.seed(2));
    let mut sorted: Vec<String> = (0..keys).map(key).collect();
    sorted.sort_unstable();
    for key in sorted {
        store.put(0, key.as_bytes(), values.next())?;
    }
    store.flush()?;
    store.wait_idle()?;
    store.compact()?;
    Ok(store.wait_idle()?)
}

fn space(store: &dyn Store, bench: &Bench<'_>, keys: u64) -> Result<Space> {
    let mut rng = Rng::new(bench.seed(1));
    let mut values = Values::incompressible(VALUE_SIZE, bench.seed(3));
    for _ in 0..3 * keys {
        store.put(0, key(rng.below(keys)).as_bytes(), values.next())?;
    }
    store.flush()?;
    store.wait_idle()?;
    let before = store.levels()?;
    store.compact()?;
    store.wait_idle()?;
    let after = bytes(&store.levels()?);
    let zero = before.first().map_or(0.0, |l| l.bytes as f64);
    Ok(Space {
        levels: (bytes(&before) - zero) / after,
        zero: zero / after,
    })
}

fn options(dynamic: bool, base: u64) -> StoreOptions {
    StoreOptions {
        options: format!(
            "level_compaction_dynamic_level_bytes={dynamic};max_bytes_for_level_base={base};\
             max_bytes_for_level_multiplier=10;write_buffer_size={};target_file_size_base={};\
             compression=kNoCompression;max_background_jobs=2;num_levels=7",
            base / 4,
            base / 8,
        ),
        disable_wal: true,
        ..StoreOptions::default()
    }
}

fn measure(bench: &Bench<'_>, name: &StoreName, dynamic: bool) -> Result<(String, Space)> {
    let base = bench.scaled(4 << 20, 1 << 17);
    let keys = (base as f64 * DATA) as u64 / ENTRY_SIZE;
    let dir = bench.place()?;
    let small = bench.reopen(name, &dir, &options(dynamic, base / 4))?;
    let label = small.label().to_string();
    let kind = if dynamic { "dynamic" } else { "static" };
    bench.step(&format!("{label}, {kind} sizes"));
    load(small.as_ref(), bench, keys)?;
    small.close()?;
    let store = bench.reopen(name, &dir, &options(dynamic, base))?;
    let space = space(store.as_ref(), bench, keys)?;
    bench.discard(store)?;
    Ok((label, space))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let mut figure = Figure::new(
        "Bytes on disk over live bytes",
        "times",
        ["dynamic", "dynamic, level 0", "static", "static, level 0"],
    )
    .printed("[SPACE]", &[Some(1.111), None, Some(2.0), None]);
    bench.expect(2 * bench.stores().len() as u64);
    for name in bench.stores() {
        let (label, dynamic) = measure(bench, name, true)?;
        let (_, fixed) = measure(bench, name, false)?;
        figure = figure.all_measured(
            &label,
            &[dynamic.levels, dynamic.zero, fixed.levels, fixed.zero],
        );
        found.check(
            format!("{label}: dynamic, without level 0"),
            Bound::AtMost(1.111 * 1.05),
            dynamic.levels,
        );
        found.check(
            format!("{label}: static, without level 0"),
            Bound::AtLeast(1.5),
            fixed.levels,
        );
        found.check(
            format!("{label}: static over dynamic"),
            Bound::AtLeast(1.3),
            fixed.levels / dynamic.levels,
        );
    }
    found.figures.push(figure);
    found.note(
        "The document says that static sizes can exceed 2, with level 0 and the data of all levels at its worst; printed here \
         is that 2.",
    );
    Ok(found)
}
