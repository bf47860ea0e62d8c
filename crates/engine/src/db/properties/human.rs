//! Numbers as RocksDB prints them for people.

/// `52.51 KB`: at least kilobytes, two digits after the point.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while unit < UNITS.len() - 1 && size >= 1024.0 {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.2} {}", UNITS[unit])
}

/// `15K`: in full below ten thousand, then in thousands, millions, milliards.
pub(super) fn number(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{}K", n / 1000),
        10_000_000..10_000_000_000 => format!("{}M", n / 1_000_000),
        _ => format!("{}G", n / 1_000_000_000),
    }
}

/// `00:00:0.000`: hours, minutes, seconds.
pub(super) fn duration(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let rest = (micros % 60_000_000) as f64 / 1e6;
    format!("{:02}:{:02}:{rest:.3}", seconds / 3600, seconds / 60 % 60)
}

pub(super) const GIB: f64 = (1u64 << 30) as f64;
pub(super) const MIB: f64 = (1u64 << 20) as f64;
