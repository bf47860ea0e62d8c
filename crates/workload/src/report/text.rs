//! Numbers for people: units, separators, dates; whole for tables, short for axes.

use super::chart::plain;

/// Bytes with a binary unit: `5.3 KiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{n} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A count with separators: `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A count and the thing counted, in the plural unless there is one: `2 tables`.
pub fn counted(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(n))
}

/// Nanoseconds with the unit that fits: `1.23 ms`.
pub fn nanos(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} ns"),
        1_000..1_000_000 => format!("{:.1} µs", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", n as f64 / 1e6),
        _ => format!("{:.2} s", n as f64 / 1e9),
    }
}

/// Seconds since the epoch as a date and time in UTC.
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil from days, of the proleptic Gregorian calendar, with years beginning in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60
    )
}

/// Operations per second for an axis: `250 k`.
pub fn short_count(value: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= unit {
            return format!("{} {name}", plain(value / unit));
        }
    }
    plain(value)
}

/// Nanoseconds for an axis: `20 µs`.
pub fn short_nanos(value: f64) -> String {
    for (unit, name) in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] {
        if value >= unit {
            let digits = if value / unit < 100.0 { 10.0 } else { 1.0 };
            return format!("{} {name}", plain((value / unit * digits).round() / digits));
        }
    }
    format!("{} ns", plain(value.round()))
}

/// Bytes for an axis: `64 MiB`.
pub fn short_bytes(value: f64) -> String {
    for (power, name) in [(3, "GiB"), (2, "MiB"), (1, "KiB")] {
        let unit = 1024_f64.powi(power);
        if value >= unit {
            return format!("{} {name}", plain((value / unit * 10.0).round() / 10.0));
        }
    }
    format!("{} B", plain(value.round()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(5530), "5.4 KiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(nanos(999), "999 ns");
        assert_eq!(nanos(1_500), "1.5 µs");
        assert_eq!(nanos(12_340_000), "12.34 ms");
    }
}
