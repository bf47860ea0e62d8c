//! Describes what a figure depends on beside the program: processor, memory, storage, kernel, build.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Names and values; what the system does not tell is left out.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<(&'static str, String)>);

impl Environment {
    /// Of this process, with its data below `dir`.
    pub fn of(dir: &Path) -> Self {
        let mut e = Self::default();
        e.put("processor", processor());
        e.put("instructions", Some(instructions()));
        e.put("memory", memory());
        e.put("load when done", load());
        let (file_system, device) = storage(dir);
        e.put("file system", file_system);
        e.put("storage", device);
        e.put("kernel", kernel());
        let profile = if cfg!(debug_assertions) {
            "debug build: figures mean little"
        } else {
            "release build"
        };
        e.put(
            "program",
            Some(format!(
                "Spanlith {}, {profile}, {} {}",
                env!("CARGO_PKG_VERSION"),
                std::env::consts::OS,
                std::env::consts::ARCH
            )),
        );
        e
    }

    fn put(&mut self, name: &'static str, value: Option<String>) {
        self.0.extend(value.map(|v| (name, v)));
    }

    /// In the order to show them.
    pub fn rows(&self) -> &[(&'static str, String)] {
        &self.0
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let rows = self.0.iter();
        rows.map(|(name, value)| (name.replace(' ', "_"), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_string())
}

/// The value after `name` and a colon in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Threads that this process may run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn processor() -> Option<String> {
    let cores = cores();
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "processor".to_string());
    let plural = if cores == 1 { "core" } else { "cores" };
    Some(format!("{model}, {cores} {plural} usable"))
}

fn instructions() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("SSE4.2", std::is_x86_feature_detected!("sse4.2")),
            ("PCLMULQDQ", std::is_x86_feature_detected!("pclmulqdq")),
            ("AVX2", std::is_x86_feature_detected!("avx2")),
            ("BMI2", std::is_x86_feature_detected!("bmi2")),
            ("AVX-512F", std::is_x86_feature_detected!("avx512f")),
        ];
        let there = all.iter().filter(|f| f.1).map(|f| f.0);
        there.collect::<Vec<_>>().join(", ")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_string()
    }
}

fn memory() -> Option<String> {
    let value = field("/proc/meminfo", "MemTotal")?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(super::text::bytes(kib << 10))
}

fn load() -> Option<String> {
    let text = read("/proc/loadavg")?;
    let three: Vec<_> = text.split_whitespace().take(3).collect();
    Some(format!("{} over 1, 5, 15 minutes", three.join(", ")))
}

fn kernel() -> Option<String> {
    Some(format!(
        "{} {}",
        read("/proc/sys/kernel/ostype")?,
        read("/proc/sys/kernel/osrelease")?
    ))
}

/// The file system and the device below a directory.
fn storage(dir: &Path) -> (Option<String>, Option<String>) {
    // The database may be gone already; where it was is what counts.
    let there = dir.ancestors().find_map(|d| fs::canonicalize(d).ok());
    let (Some(dir), Some(mounts)) = (there, read("/proc/self/mountinfo")) else {
        return (None, None);
    };
    let Some((numbers, text)) = mount_of(&mounts, &dir) else {
        return (None, None);
    };
    (Some(text), device(&numbers))
}

/// Device numbers, and type and source of the file system, of the mount that holds `dir`.
fn mount_of(mounts: &str, dir: &Path) -> Option<(String, String)> {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        let (kind, source) = (right.next()?, right.next()?);
        let point = left.get(4)?.replace("\\040", " ");
        dir.starts_with(&point).then(|| {
            let numbers = (*left.get(2).unwrap_or(&"")).to_string();
            (point.len(), numbers, format!("{kind} on {source}"))
        })
    };
    // A later mount on the same point hides an earlier one.
    let best = mounts.lines().filter_map(parse).max_by_key(|m| m.0)?;
    Some((best.1, best.2))
}

fn device(numbers: &str) -> Option<String> {
    let base = fs::canonicalize(format!("/sys/dev/block/{numbers}")).ok()?;
    // A partition's queue is that of its disk.
    let disk = [base.as_path(), base.parent()?]
        .into_iter()
        .find(|d| d.join("queue").exists())?;
    let get = |name: &str| read(disk.join(name).to_str()?).filter(|t| !t.is_empty());
    let mut parts = vec![disk.file_name()?.to_string_lossy().into_owned()];
    parts.extend(get("device/model"));
    if let Some(sectors) = get("size").and_then(|s| s.parse::<u64>().ok()) {
        parts.push(super::text::bytes(sectors * 512));
    }
    parts.extend(get("queue/rotational").map(|r| match r.as_str() {
        "0" => "not rotating".to_string(),
        _ => "rotating, or so it says".to_string(),
    }));
    parts.extend(get("queue/write_cache").map(|c| format!("cache {c}")));
    Some(parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_is_found() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      23 22 8:2 / /data rw,noatime shared:1 - xfs /dev/sda2 rw\n\
                      24 22 0:5 / /data\\040two rw - tmpfs tmpfs rw\n";
        let of = |dir: &str| mount_of(mounts, Path::new(dir)).map(|m| m.1);
        assert_eq!(of("/data/x").as_deref(), Some("xfs on /dev/sda2"));
        assert_eq!(of("/database").as_deref(), Some("ext4 on /dev/sda1"));
        assert_eq!(of("/data two/x").as_deref(), Some("tmpfs on tmpfs"));
        assert_eq!(mount_of("nonsense\n - \n", Path::new("/")), None);
    }

    #[test]
    fn something_is_known_everywhere() {
        let rows = Environment::of(Path::new("no such directory"));
        assert!(rows.rows().iter().any(|r| r.0 == "processor"));
        assert!(rows.json()["program"].is_string());
    }
}
