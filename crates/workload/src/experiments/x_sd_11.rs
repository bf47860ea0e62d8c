//! X-SD-11: bytes that a log on a speed disk writes for each byte that it is given, by group and by size of page.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith_env::WritableFile;
use spanlith_env::emulated::Profile;
use spanlith_speed::emulated::EmulatedDevice;
use spanlith_speed::{FormatOptions, LogFile, SpeedDisk, SpeedOptions, format_disk};
use std::path::Path;
use std::sync::Arc;

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-11",
    title: "Padding of a log in pages, by size of group and of page",
    document: "none: the price of pages that are never written again",
    requirements: "R-SPAN-21, R-SPAN-24, R-SPAN-27",
    setup: "entries of 100 bytes and of 1 KB in groups of 1 to 256, each group made durable by itself; 2 000 groups; pages of 512 and 4096 bytes, \
            the real layout on a device that takes no time.",
    criterion: "groups of 64 and more: at most 1.1 times with pages of 4096 bytes and 1 KB; a lone entry of 100 bytes: one page",
    stores: Stores::OnDevices,
    run,
};

const GROUPS: [u64; 6] = [1, 4, 16, 64, 128, 256];
const PAGES: [u32; 2] = [512, 4096];
const ENTRIES: [u64; 2] = [100, 1000];
const DISK_BYTES: u64 = 64 << 20;

/// Bytes of pages over bytes of entries.
fn padding(page_size: u32, entry: u64, group: u64, groups: u64) -> Result<f64> {
    let profile = Profile::all().remove(0);
    let device = EmulatedDevice::new(profile, DISK_BYTES).with_block(page_size);
    let device = Arc::new(device);
    let options = FormatOptions {
        page_size,
        ..FormatOptions::default()
    };
    format_disk(&*device, &options, [1; 16])?;
    let disk = SpeedDisk::open(device, &SpeedOptions::default())?;
    let bytes = vec![7; (entry * group) as usize];
    let mut written = 0;
    let mut number = 1;
    let mut file = LogFile::new(disk.clone(), disk.create_log(number)?, Path::new("/log"));
    for _ in 0..groups {
        if written > DISK_BYTES / 4 {
            file.close()?;
            drop(file);
            disk.delete_log(number)?;
            number += 1;
            file = LogFile::new(disk.clone(), disk.create_log(number)?, Path::new("/log"));
            written = 0;
        }
        file.expect_sync();
        file.append(&bytes)?;
        file.sync()?;
        written += (bytes.len() as u64 / 400 + 1) * 512 + u64::from(page_size);
    }
    let usage = disk.usage();
    let pages = usage.pages_written * u64::from(page_size);
    Ok(pages as f64 / usage.bytes_written.max(1) as f64)
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let groups = bench.scaled(2_000, 100);
    bench.expect((PAGES.len() * ENTRIES.len()) as u64);
    for entry in ENTRIES {
        let mut figure = Figure::new(
            format!("Bytes of pages over bytes of entries of {entry} bytes"),
            "times",
            GROUPS.map(|g| format!("groups of {g}")),
        );
        for page_size in PAGES {
            bench.step(&format!("entries of {entry} bytes, pages of {page_size}"));
            let mut row = Vec::new();
            for group in GROUPS {
                row.push(padding(page_size, entry, group, groups)?);
            }
            if (entry, page_size) == (1000, 4096) {
                let most = row.iter().skip(3).copied().fold(0.0, f64::max);
                found.check("1 KB, groups of 64 and more", Bound::AtMost(1.1), most);
                found.check("1 KB, groups of 256", Bound::AtMost(1.05), row[5]);
            }
            if (entry, page_size) == (100, 4096) {
                found.check("100 bytes alone", Bound::Within(40.9, 41.0), row[0]);
            }
            figure = figure.all_measured(&format!("pages of {page_size}"), &row);
        }
        found.figures.push(figure);
    }
    found.note(
        "Small pages pad less and carry a header more often; they are used where the physical block of a device is as small, because a page \
         shares its block with none.",
    );
    Ok(found)
}
