//! Describes what the experiments of separated values share: sizes of payloads, cells, and what a phase cost.

use super::{Bench, Result};
use crate::generate::{Keys, Rng, Shuffle, Values, Zipfian};
use crate::store::{Direction, Store, StoreName, StoreOptions};
use std::fs;

/// Payloads in bytes, as [TR] has them.
pub(super) const PAYLOADS: [u64; 8] = [500, 1000, 2000, 4000, 8000, 16_000, 64_000, 256_000];

/// Bytes of a key.
const KEY: usize = 16;
/// Skew of the mixed run.
const THETA: f64 = 0.99;
/// Entries of a scan.
const SCAN: usize = 100;

/// Where values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Into tables.
    Inline,
    /// All into blob files, collected as RocksDB does.
    Separated,
    /// As the engine chooses.
    Adaptive,
}

/// Processor time and bytes written of the whole process, up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Seconds of all threads that live.
    pub cpu: f64,
    /// Bytes handed to the system by writing calls.
    pub written: f64,
}

impl Cost {
    /// Up to now. A thread that ended is not counted: no database may be closed between two looks.
    pub(super) fn now() -> Self {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
        let nanos = tasks.flatten().map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let first = text.split(' ').next();
            first.and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0)
        });
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written = io.lines().find_map(|l| l.strip_prefix("wchar: "));
        Self {
            cpu: nanos.sum::<f64>() / 1e9,
            written: written.and_then(|n| n.parse().ok()).unwrap_or(0.0),
        }
    }

    /// From then up to now.
    pub(super) fn since(before: Self) -> Self {
        let now = Self::now();
        Self {
            cpu: now.cpu - before.cpu,
            written: now.written - before.written,
        }
    }
}

/// Describes what the phases of one cell took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    /// Microseconds of processor time for each operation, or entry of a scan: load, mixed, overwrite, scan.
    pub micros: [f64; 4],
    /// Bytes written for each byte of the user: load, overwrite.
    pub written: [f64; 2],
    /// Bytes of files at rest after the load over bytes of keys and values.
    pub space: f64,
}

/// Names of the phases.
pub(super) const PHASES: [&str; 4] = ["load", "50/50", "overwrite", "scan of 100"];

fn options(mode: Mode, data: u64) -> StoreOptions {
    // Three levels below level 0 with values inline, whatever the scale.
    let base = (data / 20).max(1 << 18);
    let separation = match mode {
        Mode::Inline => String::new(),
        _ => format!(
            "enable_blob_files=true;enable_blob_garbage_collection=true;blob_file_size={};",
            (data / 16).max(1 << 20)
        ),
    };
    StoreOptions {
        options: format!(
            "{separation}compression=kNoCompression;write_buffer_size={};target_file_size_base={};\
             max_bytes_for_level_base={base};max_bytes_for_level_multiplier=4;max_background_jobs=2",
            base / 4,
            base / 4,
        ),
        own: match mode {
            Mode::Adaptive => "kvsep_mode=adaptive".to_string(),
            _ => String::new(),
        },
        // All of it: what a read costs beside I/O is compared.
        cache_bytes: Some(2 * data),
        disable_wal: true,
        ..StoreOptions::default()
    }
}

/// Bytes of tables and blob files in the directory.
pub(super) fn bytes_of_files(store: &dyn Store) -> f64 {
    let files = fs::read_dir(store.dir()).into_iter().flatten().flatten();
    let of_data = files.filter(|f| {
        let name = f.file_name();
        let name = name.to_string_lossy();
        name.ends_with(".sst") || name.ends_with(".blob")
    });
    of_data
        .filter_map(|f| f.metadata().ok())
        .map(|m| m.len() as f64)
        .sum()
}

fn settle(store: &dyn Store) -> Result<()> {
    store.flush()?;
    Ok(store.wait_idle()?)
}

/// Runs all phases of a cell in a database of its own, with about `data` bytes.
pub(super) fn run_cell(
    bench: &Bench<'_>,
    name: &StoreName,
    mode: Mode,
    payload: u64,
    data: u64,
) -> Result<Cell> {
    let store = bench.open(name, &options(mode, data))?;
    let count = (data / payload).max(64);
    let user = (count * (KEY as u64 + payload)) as f64;
    let mut keys = Keys::new(KEY);
    let mut values = Values::incompressible(payload as usize, bench.seed(1));
    let mut rng = Rng::new(bench.seed(2));
    let mut cell = Cell::default();
    let mut phase = |n: usize, ops: u64, work: &mut dyn FnMut() -> Result<()>| -> Result<Cost> {
        let before = Cost::now();
        work()?;
        let cost = Cost::since(before);
        cell.micros[n] = cost.cpu * 1e6 / ops as f64;
        Ok(cost)
    };
    let order = Shuffle::new(count, bench.seed(3));
    let load = phase(0, count, &mut || {
        for n in 0..count {
            store.put(0, keys.set(order.place(n)), values.next())?;
        }
        settle(store.as_ref())
    })?;
    let space = bytes_of_files(store.as_ref()) / user;
    let zipf = Zipfian::new(count, THETA);
    let mut value = Vec::new();
    phase(1, count, &mut || {
        for n in 0..count {
            let key = keys.set(order.place(zipf.rank(rng.unit())));
            match n % 2 {
                0 => store.put(0, key, values.next())?,
                _ => {
                    store.get(0, key, &mut value)?;
                }
            }
        }
        // Work that it leaves behind is its own cost, too.
        settle(store.as_ref())
    })?;
    let over = phase(2, count, &mut || {
        for _ in 0..count {
            store.put(0, keys.set(rng.below(count)), values.next())?;
        }
        settle(store.as_ref())
    })?;
    let scans = (count / SCAN as u64).clamp(2, 200);
    let mut seen = 0;
    phase(3, scans * SCAN as u64, &mut || {
        for _ in 0..scans {
            let from = rng.below(count.saturating_sub(SCAN as u64).max(1));
            let start = keys.set(from).to_vec();
            store.scan(0, &start, Direction::Forward, SCAN, &mut |_, value| {
                seen += value.len();
                true
            })?;
        }
        Ok(())
    })?;
    cell.written = [load.written / user, over.written / user];
    cell.space = space;
    bench.discard(store)?;
    Ok(cell)
}
