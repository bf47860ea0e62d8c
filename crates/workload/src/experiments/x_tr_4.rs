//! X-TR-4: with values out of the tree, a small cache holds all keys: what a get reads from files.

use super::file_reads::{FileReads, counted};
use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use crate::generate::{Keys, Rng, Shuffle, Values};
use spanlith::options::{CfOptions, CompressionType};
use spanlith::{Db, FamilyOptions};
use spanlith_cache::Policy;
use spanlith_table::BlockCache;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-TR-4",
    title: "Reads of files for each get when the cache holds the keys",
    document: "[TR] overview: keys cached in memory",
    requirements: "R-TR-03",
    setup: "64 MB of values of 4 KB under keys of 16 bytes, put once in random order and compacted; a block cache of 1.2 times \
            the bytes of the separated tables, with index and filter in it; uniform gets, of which the first half warms the cache. \
            The same with values inline. Reads are counted by an I/O trace.",
    criterion: "separated: at most 1.05 reads for each get, of which at most 0.05 of tables; at least 0.9 of the data blocks are in \
                the cache",
    stores: Stores::Ours,
    run,
};

const KEY: usize = 16;
const VALUE: usize = 4000;

/// The database, and bytes of its tables.
fn load(bench: &Bench<'_>, count: u64, is_separated: bool, cache: u64) -> Result<(Db, u64)> {
    let mut options = CfOptions::default();
    options.enable_blob_files = is_separated;
    options.compression = CompressionType::None;
    let mut table = spanlith::options::BlockBasedTableOptions::default();
    table.cache_index_and_filter_blocks = true;
    table.filter_policy = "bloomfilter:10".into();
    let cache = usize::try_from(cache).unwrap_or(usize::MAX);
    let blocks = BlockCache::new(cache, Policy::Lru);
    let family = FamilyOptions::new("default")
        .options(options)
        .table_options(table)
        .block_cache(blocks);
    let db = Db::builder(bench.place()?.join("db"))
        .create_if_missing(true)
        .family(family)
        .open()?;
    let cf = db.default_cf();
    let (mut keys, order) = (Keys::new(KEY), Shuffle::new(count, bench.seed(1)));
    let mut values = Values::incompressible(VALUE, bench.seed(2));
    for n in 0..count {
        cf.put(keys.set(order.place(n)), values.next())?;
    }
    db.flush(true)?;
    cf.compact_range(None, None)?;
    let tables = db.int_property("rocksdb.live-sst-files-size");
    Ok((db, tables.unwrap_or(0)))
}

/// Reads for each get, and the share of data blocks that are in the cache afterwards.
fn gets(bench: &Bench<'_>, db: &Db, count: u64) -> Result<(FileReads, f64)> {
    let cf = db.default_cf();
    let (mut keys, mut rng) = (Keys::new(KEY), Rng::new(bench.seed(3)));
    let ops = 4 * count;
    let mut get = |n: u64| -> Result<()> {
        for _ in 0..n {
            cf.get(keys.set(rng.below(count)))?;
        }
        Ok(())
    };
    get(ops)?;
    let mut reads = counted(db, &bench.place()?.join("calls"), || get(ops))?;
    for r in [&mut reads.tables, &mut reads.blobs] {
        for n in [&mut r.alone, &mut r.together, &mut r.bytes] {
            *n /= ops as f64;
        }
    }
    let resident = cf.index_residency()?.share();
    Ok((reads, resident))
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    bench.expect(3);
    let count = bench.scaled(64 << 20, 8 << 20) / VALUE as u64;
    bench.step("size of the tree");
    let (db, tables) = load(bench, count, true, 64 << 20)?;
    drop(db);
    let cache = tables * 12 / 10;
    let places = ["of tables", "of blob files", "data blocks in the cache"];
    let mut figure = Figure::new("Reads of files for each get", "", places);
    for (label, is_separated) in [("separated", true), ("inline", false)] {
        bench.step(label);
        let (db, _) = load(bench, count, is_separated, cache)?;
        let (reads, resident) = gets(bench, &db, count)?;
        let (tables, blobs) = (reads.tables.all(), reads.blobs.all());
        figure = figure.all_measured(label, &[tables, blobs, resident]);
        if is_separated {
            found.check(
                "separated: reads for each get",
                Bound::AtMost(1.05),
                tables + blobs,
            );
            found.check(
                "separated: reads of tables for each get",
                Bound::AtMost(0.05),
                tables,
            );
            found.check(
                "separated: data blocks in the cache",
                Bound::AtLeast(0.9),
                resident,
            );
        }
    }
    found.figures.push(figure);
    Ok(found)
}
