//! The process that has a database open, as the system knows it.
//!
//! Linux tells who holds a lock (`/proc/locks`) and what a process uses; elsewhere nothing is known.
//! Nothing here touches the lock file.

use serde_json::{Value, json};
use std::fs::read_to_string;
use std::path::Path;

/// A process and what it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Name of its program.
    pub name: String,
    /// Resident bytes.
    pub resident: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Bytes it had the device read, since it began; of processes of the same user.
    pub read_bytes: Option<u64>,
    /// Bytes it had the device write.
    pub written_bytes: Option<u64>,
    /// Descriptors it has open.
    pub descriptors: Option<u64>,
}

/// A line `Name: N kB` or `Name: N` of a process's status file, in bytes if it has a unit.
pub fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    field(&read_to_string(format!("/proc/{pid}/status")).ok()?, name)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.starts_with(name))?;
    let mut words = line[name.len()..].split_whitespace();
    let n: u64 = words.next()?.parse().ok()?;
    Some(match words.next() {
        Some("kB") => n * 1024,
        _ => n,
    })
}

/// The process that holds a lock on a file; `None` if nobody does or the system does not say.
pub fn holder(lock: &Path) -> Option<u32> {
    owner_in(&read_to_string("/proc/locks").ok()?, inode(lock)?)
}

#[cfg(unix)]
fn inode(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(std::fs::metadata(path).ok()?.ino())
}

#[cfg(not(unix))]
fn inode(_path: &Path) -> Option<u64> {
    None
}

/// `1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`: process, device and inode.
fn owner_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = words.iter().find(|w| w.matches(':').count() == 2)?;
        let found: u64 = place.rsplit(':').next()?.parse().ok()?;
        let at = words.iter().position(|w| w == place)?;
        let pid = words.get(at.checked_sub(1)?)?;
        (found == inode && words.contains(&"WRITE")).then(|| pid.parse().ok())?
    })
}

impl Process {
    /// Returns what the system says of a process; `None` if it is gone.
    pub fn look(pid: u32) -> Option<Self> {
        let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
        let io = read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let name = status.lines().find_map(|l| l.strip_prefix("Name:"));
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok();
        Some(Self {
            pid,
            name: name.unwrap_or_default().trim().to_string(),
            resident: field(&status, "VmRSS:"),
            threads: field(&status, "Threads:"),
            read_bytes: field(&io, "read_bytes:"),
            written_bytes: field(&io, "write_bytes:"),
            descriptors: descriptors.map(|d| d.count() as u64),
        })
    }

    /// All of it.
    pub fn json(&self) -> Value {
        json!({
            "pid": self.pid, "name": self.name, "resident_bytes": self.resident,
            "threads": self.threads, "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes, "descriptors": self.descriptors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_lock_is_found_by_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 99 00:2f:77 0 EOF\n\
                     3: POSIX  ADVISORY  READ 12 fd:01:88 0 EOF\n";
        assert_eq!(owner_in(locks, 5678), Some(1234));
        assert_eq!(owner_in(locks, 77), Some(99));
        assert_eq!(owner_in(locks, 88), None);
        assert_eq!(owner_in("", 1), None);
    }

    #[test]
    fn fields_have_units() {
        assert_eq!(
            field("VmRSS:\t  10 kB\nThreads:\t4\n", "VmRSS:"),
            Some(10240)
        );
        assert_eq!(field("VmRSS:\t  10 kB\nThreads:\t4\n", "Threads:"), Some(4));
        assert_eq!(field("x", "Threads:"), None);
    }
}
