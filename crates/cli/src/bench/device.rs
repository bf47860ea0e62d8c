//! `--device`: a database on an emulated device, and `bench raw`: the device alone.
//!
//! A database on one takes real time: calls that would reach the device wait until it would be done. Devices alone are
//! run in virtual time, so that their figures are the same everywhere.

use crate::term::{self, Paint};
use clap::Args;
use serde_json::{Value, json};
use spanlith_env::Env;
use spanlith_env::emulated::{
    DeviceFs, DeviceSpec, DeviceUsage, Emulator, Profile, RawLoad, RawRate, Way,
};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Requests of one load of a device alone, and of one that goes to random places both ways.
const RAW_REQUESTS: u64 = 8_000;
const MIXED_REQUESTS: u64 = 40_000;
/// Printed by the document on 3D XPoint, figure 1: SATA flash and XPoint, thousands per second.
const PRINTED_MIXED: [(&str, f64); 2] = [("S", 26.0), ("O", 408.0)];
/// Printed by the document on speed disks, figure 2: durable writes directly over those by way of a file system.
const PRINTED_PATHS: f64 = 4.05;

/// The device that the files of a database are on.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct DeviceFlag {
    /// Files take the time of an emulated device: H, S, N1, N2, O, H-RAID5 or S-RAID5, with :cache=BYTES for the page cache
    /// (64m; 0 for none) and :scale=PERCENT for a share of its bandwidth. Nothing is synced to the real disk
    #[arg(long, value_name = "NAME")]
    device: Option<DeviceSpec>,
}

/// The real environment with its files on `device`.
pub(super) fn env_on(device: &Arc<Emulator>) -> Env {
    let env = Env::system();
    let fs = DeviceFs::new(env.fs.clone(), Some(device.clone()), None);
    Env {
        fs: Arc::new(fs.without_syncs()),
        ..env
    }
}

pub(super) fn usage_json(u: &DeviceUsage) -> Value {
    json!({
        "reads": u.reads, "read_bytes": u.read_bytes, "writes": u.writes, "write_bytes": u.write_bytes,
        "syncs": u.syncs, "cached_reads": u.cached_reads,
    })
}

pub(super) fn usage_line(device: &Emulator) -> String {
    let u = device.usage();
    format!(
        "device {}: {} writes of {}, {} reads of {}, {} syncs; {} reads from the page cache",
        device.spec(),
        term::count(u.writes),
        term::bytes(u.write_bytes),
        term::count(u.reads),
        term::bytes(u.read_bytes),
        term::count(u.syncs),
        term::count(u.cached_reads),
    )
}

/// A load of a device, and how it is shown.
struct Row {
    what: &'static str,
    load: RawLoad,
}

impl Row {
    fn requests(&self) -> u64 {
        match self.load.read_percent {
            0 | 100 => RAW_REQUESTS,
            _ => MIXED_REQUESTS,
        }
    }
}

fn rows() -> Vec<Row> {
    let durable = |bytes, way| RawLoad {
        bytes,
        ..RawLoad::durable_writes(way)
    };
    let read = |bytes, is_random, way| RawLoad {
        read_percent: 100,
        is_random,
        ..durable(bytes, way)
    };
    let row = |what, load| Row { what, load };
    vec![
        row(
            "4 KiB at random places, half reads, 8 threads",
            RawLoad::mixed(),
        ),
        row(
            "4 KiB reads at random places, 16 threads",
            read(4096, true, Way::Device),
        ),
        row("  by way of files", read(4096, true, Way::Files)),
        row(
            "1 MiB reads in order, 16 threads",
            read(1 << 20, false, Way::Device),
        ),
        row("  by way of files", read(1 << 20, false, Way::Files)),
        row(
            "4 KiB durable writes in order, 16 threads",
            durable(4096, Way::Device),
        ),
        row("  by way of files", durable(4096, Way::Files)),
        row(
            "64 KiB durable writes in order, 16 threads",
            durable(64 << 10, Way::Device),
        ),
        row("  by way of files", durable(64 << 10, Way::Files)),
    ]
}

impl DeviceFlag {
    /// The device, new and idle, if one is asked for.
    pub(super) fn emulate(&self) -> Option<Arc<Emulator>> {
        let spec = self.device?;
        Some(Emulator::new(spec, Env::system().clock))
    }

    /// Returns what it is called.
    pub(super) fn text(&self) -> Option<String> {
        self.device.map(|spec| spec.to_string())
    }

    /// Runs loads of devices alone.
    ///
    /// # Errors
    /// Of the output.
    pub(super) fn raw(&self, seed: u64, is_json: bool) -> anyhow::Result<ExitCode> {
        let specs: Vec<DeviceSpec> = match self.device {
            Some(spec) => vec![spec],
            None => Profile::all().into_iter().map(DeviceSpec::new).collect(),
        };
        let rows = rows();
        let rates: Vec<Vec<RawRate>> = rows
            .iter()
            .map(|row| {
                specs
                    .iter()
                    .map(|s| row.load.run(s, row.requests(), seed))
                    .collect()
            })
            .collect();
        let mut out = std::io::stdout().lock();
        if is_json {
            let all: Vec<Value> = rows.iter().zip(&rates).flat_map(|(row, rates)| {
                let of = |(spec, rate): (&DeviceSpec, &RawRate)| json!({
                    "load": row.what.trim(), "device": spec.to_string(), "threads": row.load.threads,
                    "bytes": row.load.bytes, "files": row.load.way == Way::Files,
                    "per_second": rate.per_second, "mean_nanos": rate.mean_nanos,
                });
                specs.iter().zip(rates).map(of).collect::<Vec<_>>()
            }).collect();
            writeln!(out, "{}", Value::from(all))?;
            return Ok(ExitCode::SUCCESS);
        }
        write!(out, "{}", table(&specs, &rows, &rates, Paint::stdout()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Requests per second by load and device, and the ratios that documents print.
fn table(specs: &[DeviceSpec], rows: &[Row], rates: &[Vec<RawRate>], paint: Paint) -> String {
    let mut out = format!("{:<48}", "requests per second");
    for spec in specs {
        out.push_str(&format!("{:>11}", spec.to_string()));
    }
    out = paint.bold(out) + "\n";
    for (row, rates) in rows.iter().zip(rates) {
        out.push_str(&format!("{:<48}", row.what));
        for rate in rates {
            out.push_str(&format!("{:>11}", term::count(rate.per_second as u64)));
        }
        out.push('\n');
    }
    let at = |row: usize, name: &str| {
        let column = specs.iter().position(|s| s.profile.name == name)?;
        rates.get(row)?.get(column).map(|r| r.per_second)
    };
    if let (Some(flash), Some(xpoint)) = (at(0, "S"), at(0, "O")) {
        let [(_, printed_flash), (_, printed_xpoint)] = PRINTED_MIXED;
        out.push_str(&format!(
            "half reads, O over S: {:.2}, printed {:.2} ({printed_flash} and {printed_xpoint} thousand)\n",
            xpoint / flash,
            printed_xpoint / printed_flash,
        ));
    }
    if let (Some(device), Some(files)) = (at(5, "O"), at(6, "O")) {
        out.push_str(&format!(
            "4 KiB durable writes on O, directly over by way of files: {:.2}, printed {PRINTED_PATHS}\n",
            device / files,
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_the_printed_ratios() {
        let specs: Vec<DeviceSpec> = ["S", "O"].iter().map(|s| s.parse().unwrap()).collect();
        let rows = rows();
        let rates: Vec<Vec<RawRate>> = rows
            .iter()
            .map(|r| {
                specs
                    .iter()
                    .map(|s| r.load.run(s, r.requests(), 301))
                    .collect()
            })
            .collect();
        let text = table(&specs, &rows, &rates, Paint::none());
        assert!(text.contains("O over S: 15.7"), "{text}");
        assert!(
            text.contains("by way of files: 4.05, printed 4.05"),
            "{text}"
        );
    }
}
