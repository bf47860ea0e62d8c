//! One failing system call under the same program, in both: what is acknowledged and lost, whether
//! writes go on by themselves, whether the directory opens.

use super::{Pair, Table};
use spanlith_testkit::Rng;

/// Classes of calls as `runner/faults.c` counts them.
const CLASSES: [&str; 8] = [
    "append",
    "sync",
    "directory sync",
    "create",
    "open",
    "read",
    "rename",
    "delete",
];
const ERRORS: [i64; 8] = [28, 5, 5, 24, 24, 5, 5, 5];

const OPEN: &str = "create_if_missing=true;stats_dump_period_sec=0;write_buffer_size=65536;\
                    level0_file_num_compaction_trigger=2;target_file_size_base=32768;max_open_files=10;\
                    max_background_jobs=2";

/// Puts of a part, by number; every fourth is synced.
fn puts(from: u32, to: u32) -> Vec<String> {
    (from..to)
        .map(|i| {
            format!(
                "put {:08x} s{i}.700 {}",
                i.wrapping_mul(0x9e37_79b1),
                u8::from(i % 4 == 0)
            )
        })
        .collect()
}

fn middle() -> Vec<String> {
    let mut lines = puts(0, 150);
    lines.push("flush 1".to_string());
    lines.extend(puts(150, 250));
    lines.push("flush 1".to_string());
    lines.push("compact * *".to_string());
    lines.extend(puts(250, 350));
    lines
}

fn strings(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

/// Calls of each class that the program makes without a fault, on a side.
fn calls(pair: &mut Pair, side: usize) -> Result<Vec<u64>, String> {
    pair.cleared(side)?;
    let open = format!("open rw {OPEN}");
    let mut lines = vec![open, "calls".to_string()];
    lines.extend(middle());
    lines.push("calls".to_string());
    lines.push("close".to_string());
    let results = pair.run(side, &strings(&lines))?;
    let numbers =
        |l: &String| -> Vec<u64> { l.split(' ').filter_map(|n| n.parse().ok()).collect() };
    let (before, after) = (numbers(&results[1]), numbers(&results[results.len() - 2]));
    Ok(before.iter().zip(&after).map(|(a, b)| b - a).collect())
}

/// Runs so many cases per side.
///
/// # Errors
/// If a runner does not start.
pub fn run(
    pair: &mut Pair,
    seed: u64,
    cases: u64,
    mut progress: impl FnMut(u64),
) -> Result<Table, String> {
    let mut table = Table::default();
    let mut rng = Rng::new(seed);
    let counts = [calls(pair, 0)?, calls(pair, 1)?];
    for done in 0..cases {
        let class = rng.index(CLASSES.len());
        let at = rng.unit();
        let times = *rng.pick(&[1u64, 1, 3, 1_000_000]);
        let row = format!(
            "{}, {}",
            CLASSES[class],
            match times {
                1 => "once",
                3 => "three times",
                _ => "until it ends",
            }
        );
        for (side, counts) in counts.iter().enumerate() {
            // The same place of the program, whatever number of calls each makes.
            let calls = counts.get(class).copied().unwrap_or(0);
            if calls == 0 {
                table.add(&row, "no such call", side);
                continue;
            }
            let nth = 1 + (at * calls as f64) as u64;
            for end in one(pair, side, class, nth, times)? {
                table.add(&row, end, side);
            }
        }
        progress(done + 1);
    }
    Ok(table)
}

fn one(
    pair: &mut Pair,
    side: usize,
    class: usize,
    nth: u64,
    times: u64,
) -> Result<Vec<&'static str>, String> {
    pair.cleared(side)?;
    let mut ends = vec!["all"];
    let mut lines = vec![
        format!("open rw {OPEN}"),
        format!("fault {class} {nth} {} {times}", ERRORS[class]),
    ];
    let program = middle();
    lines.extend(program.iter().cloned());
    lines.push("faultoff".to_string());
    let mut results = pair.run(side, &strings(&lines))?;
    let ended = |l: &String| l.starts_with("CRASH") || l.starts_with("HANG");
    if !results.iter().any(ended) {
        let mut rest = puts(350, 360);
        rest.push("abandon".to_string());
        if results[1..].iter().any(|l| l.starts_with("E ")) {
            // Time to resume by itself: RocksDB tries after a second.
            rest.insert(0, "sleep 1500".to_string());
        }
        let more = pair.run(side, &strings(&rest))?;
        lines.extend(rest);
        results.extend(more);
    }
    let died = |r: &[String]| r.iter().any(|l| l.starts_with("CRASH"));
    if results.iter().any(|l| l.starts_with("HANG")) {
        ends.push("hangs");
        let at = results.len().saturating_sub(1);
        let key = format!("{} hangs, side {side}", lines[1]);
        let told = format!("line {at}: {:?}\n{results:?}", lines.get(at));
        pair.examples.entry(key).or_insert(told);
        return Ok(ends);
    }
    if died(&results) {
        ends.push("the process dies");
    }
    let middle = &results[2.min(results.len())..];
    let surfaced = middle.iter().any(|l| l.starts_with("E "));
    if surfaced {
        ends.push("an operation failed");
        let after = results.iter().rev().skip(1).take(10);
        ends.push(
            if after.clone().count() == 10 && after.clone().all(|l| l == "ok") {
                "then writes go on without reopening"
            } else {
                "then writes are refused until reopened"
            },
        );
    }
    // Another process; what was acknowledged has to be there.
    let mut look = vec![format!("open rw {OPEN}")];
    let mut wanted = Vec::new();
    for (line, result) in lines.iter().zip(&results) {
        if let Some(rest) = line.strip_prefix("put ")
            && result == "ok"
        {
            let key = rest.split(' ').next().unwrap_or(rest);
            wanted.push(look.len());
            look.push(format!("get 0 now {key}"));
        }
    }
    look.push("put aa s1.10 1".to_string());
    look.push("close".to_string());
    let seen = pair.run(side, &strings(&look))?;
    if seen.iter().any(|l| l.starts_with("HANG")) || died(&seen) {
        ends.push("reopening hangs or dies");
    } else if seen.first().is_some_and(|l| l.starts_with("E ")) {
        ends.push("cannot be reopened");
    } else if wanted.iter().any(|n| {
        seen.get(*n)
            .is_none_or(|l| l.starts_with("E ") || l == "absent")
    }) {
        ends.push("acknowledged writes are lost");
    }
    Ok(ends)
}
