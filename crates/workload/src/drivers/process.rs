//! Describes what the process used so far: processor time, bytes to and from the device.

/// Sums since the process began; 0 where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds of processor time of all threads.
    pub cpu_seconds: f64,
    /// Bytes that reads fetched from the device.
    pub device_read: u64,
    /// Bytes that were written to go to the device.
    pub device_written: u64,
    /// Bytes that calls of the system were given to write, whether or not they have reached the device.
    pub calls_written: u64,
}

/// The kernel counts processor time in ticks of this many a second, whatever the machine.
const TICKS: f64 = 100.0;

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|l| l.trim().parse().ok()).unwrap_or(0)
}

/// Ticks in user mode and in the kernel of a line of `/proc/self/stat`.
fn ticks(stat: &str) -> f64 {
    // The name of the program may hold blanks; it ends with the last parenthesis.
    let behind = stat.rsplit_once(") ").map_or("", |s| s.1);
    let numbers: Vec<f64> = behind
        .split(' ')
        .map(|n| n.parse().unwrap_or(0.0))
        .collect();
    numbers.get(11).unwrap_or(&0.0) + numbers.get(12).unwrap_or(&0.0)
}

impl Usage {
    /// Up to now.
    pub fn now() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let io = read("/proc/self/io");
        Self {
            cpu_seconds: ticks(&read("/proc/self/stat")) / TICKS,
            device_read: field(&io, "read_bytes:"),
            device_written: field(&io, "write_bytes:"),
            calls_written: field(&io, "wchar:"),
        }
    }

    /// Returns what was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            device_read: self.device_read.saturating_sub(before.device_read),
            device_written: self.device_written.saturating_sub(before.device_written),
            calls_written: self.calls_written.saturating_sub(before.calls_written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_is_passed_over() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert!((ticks(stat) - 200.0).abs() < 1e-9);
        assert_eq!(field("a: 1\nwrite_bytes: 42\n", "write_bytes:"), 42);
    }
}
