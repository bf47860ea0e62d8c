//! The files of an analysis, line by line as `trace_analyzer` writes them.

use super::collect::{FamilyStats, SERIES};
use super::{Analysis, Operation};
use std::collections::BTreeMap;
use std::io::{BufRead, Error, ErrorKind, Read, Result, Write};

/// Makes the files, by their names without the prefix that all share.
pub trait Sink {
    /// Creates a file.
    ///
    /// # Errors
    /// Of creating it.
    fn create(&mut self, name: &str) -> Result<Box<dyn Write>>;
}

/// Opens the list of all keys of a family, one `0x…` a line in ascending order; `NotFound` if there is none.
pub type KeySpaces<'a> = dyn FnMut(u32) -> Result<Box<dyn BufRead>> + 'a;

/// Bytes as `0x` and upper-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + 2 * bytes.len());
    out.push_str("0x");
    for byte in bytes {
        out.push_str(&format!("{byte:02X}"));
    }
    out
}

fn unhex(line: &[u8]) -> Option<Vec<u8>> {
    let digits = line.strip_prefix(b"0x")?;
    let value = |d: u8| (d as char).to_digit(16);
    let (pairs, odd) = digits.as_chunks::<2>();
    let byte = |[a, b]: &[u8; 2]| Some((value(*a)? << 4 | value(*b)?) as u8);
    match odd.is_empty() {
        true => pairs.iter().map(byte).collect(),
        false => None,
    }
}

/// The next access of a series: second, and what stands for its key.
fn next_of_series(from: &mut impl Read, bytes: &mut [u8; SERIES]) -> Result<Option<(u64, u32)>> {
    match from.read(&mut bytes[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut bytes[1..])?,
    }
    let (second, ordinal) = bytes.split_at(8);
    let second = second.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    let ordinal = ordinal.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
    Ok(Some((second, ordinal)))
}

/// Returns the share of a whole; 0 of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        n => part as f64 / n as f64,
    }
}

/// Keys that begin alike, as they follow each other in the order of keys.
struct PrefixRun {
    prefix: Vec<u8>,
    accesses: u64,
    keys: u64,
}

/// A prefix and how much it was accessed.
#[derive(Debug, Default)]
pub(super) struct TopPrefixes {
    /// Accesses and prefix.
    pub accesses: Vec<(u64, String)>,
    /// Accesses per key and prefix.
    pub per_key: Vec<(f64, String)>,
}

/// Keeps the `n` largest, of equal ones those that came first; in ascending order.
pub(super) fn keep_top<N: PartialOrd + Copy, T: Ord>(top: &mut Vec<(N, T)>, n: usize, new: (N, T)) {
    if top.len() >= n {
        match top.first() {
            Some(least) if new.0 > least.0 => top.remove(0),
            _ => return,
        };
    }
    let at = top.partition_point(|old| match old.0.partial_cmp(&new.0) {
        Some(std::cmp::Ordering::Equal) | None => old.1 < new.1,
        Some(order) => order.is_lt(),
    });
    top.insert(at, new);
}

impl Analysis {
    /// Writes all files that the options ask for; returns the families without a list of their keys.
    ///
    /// # Errors
    /// Of creating and writing files, and of a list of keys that is not hexadecimal.
    pub fn write_files(
        &mut self,
        sink: &mut dyn Sink,
        mut key_spaces: Option<&mut KeySpaces<'_>>,
    ) -> Result<Vec<u32>> {
        for operation in Operation::ALL {
            for (cf, stats) in &self.stats[operation.id()] {
                let name = format!("{}-{cf}", operation.name());
                self.of_family(sink, &name, operation, *cf, stats)?;
            }
        }
        if self.options.qps {
            self.all_qps(sink)?;
        }
        let mut missing = Vec::new();
        if let Some(key_spaces) = key_spaces.as_mut() {
            let families: Vec<u32> = self.families.keys().copied().collect();
            for cf in families {
                match key_spaces(cf) {
                    Ok(lines) => {
                        let whole_keys = self.key_space(sink, cf, Some(lines))?;
                        if let Some(family) = self.families.get_mut(&cf) {
                            family.whole_keys = whole_keys;
                        }
                    }
                    Err(e) if e.kind() == ErrorKind::NotFound => {
                        self.key_space(sink, cf, None)?;
                        missing.push(cf);
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(missing)
    }

    fn of_family(
        &self,
        sink: &mut dyn Sink,
        name: &str,
        operation: Operation,
        cf: u32,
        stats: &FamilyStats,
    ) -> Result<()> {
        let options = &self.options;
        let mut create = |suffix: &str| sink.create(&format!("{name}-{suffix}.txt"));
        if options.key_stats {
            let mut file = create("accessed_key_stats")?;
            stats.keys.each(&mut |id, _, key| {
                let (value_size, accesses) = (key.value_size, key.accesses);
                writeln!(file, "{cf} {value_size} {id} {accesses} 1.000000")
            })?;
            file.flush()?;
            let mut file = create("accessed_unique_key_num_change")?;
            let (mut distinct, mut share) = (0, 0.0);
            if options.qps {
                for second in 0..self.duration() {
                    if let Some(&n) = stats.distinct.get(&second) {
                        (distinct, share) = (n, ratio(n, stats.keys.len()));
                    }
                    writeln!(file, "{distinct} {share:.12}")?;
                }
            }
            file.flush()?;
        }
        if options.access_counts {
            let mut file = create("accessed_key_count_distribution")?;
            for (accesses, keys) in self.distribution(stats, |_, accesses| accesses)? {
                writeln!(file, "access_count: {accesses} num: {keys}")?;
            }
            file.flush()?;
        }
        if options.key_sizes {
            let mut file = create("accessed_key_size_distribution")?;
            for (size, keys) in self.distribution(stats, |key, _| key.len() as u64)? {
                writeln!(file, "{size} {keys}")?;
            }
            file.flush()?;
        }
        if options.value_sizes {
            let mut file = create("accessed_value_size_distribution")?;
            if operation.has_values() {
                for (begin, end, n) in self.value_ranges(stats) {
                    writeln!(
                        file,
                        "Number_of_value_size_between {begin} and {end} is: {n}"
                    )?;
                }
            }
            file.flush()?;
        }
        if options.prefix_len > 0 {
            let mut file = create("accessed_key_prefix_cut")?;
            self.prefixes(stats, &mut |id, run| {
                let per_key = ratio(run.accesses, run.keys);
                // Nothing of a trace says what was found: every access counts as a success.
                let found = ratio(run.accesses, run.accesses);
                let (accesses, keys, prefix) = (run.accesses, run.keys, hex(&run.prefix));
                writeln!(
                    file,
                    "{id} {accesses} {keys} {per_key:.6} {found:.6} {prefix}"
                )
            })?;
            file.flush()?;
        }
        if options.prefix_len > 0 && options.qps {
            let mut file = create("accessed_top_k_qps_prefix_cut")?;
            for (qps, second) in self.busiest(stats) {
                writeln!(file, "At time: {second} with QPS: {qps}")?;
                for (prefix, n) in stats.prefix_qps.get(&second).into_iter().flatten() {
                    writeln!(file, "The prefix: {} Access count: {n}", hex(prefix))?;
                }
            }
            file.flush()?;
        }
        if options.qps {
            let mut file = create("qps_stats")?;
            let mut line = 0;
            for (&second, n) in stats.qps.all().range(..self.duration()) {
                for _ in line..second {
                    writeln!(file, "0")?;
                }
                writeln!(file, "{n}")?;
                line = second + 1;
            }
            file.flush()?;
        }
        if options.time_series {
            let mut file = create("time_series")?;
            let (mut series, mut bytes) = (stats.series.reader(), [0; SERIES]);
            while let Some((second, ordinal)) = next_of_series(&mut series, &mut bytes)? {
                let id = stats.ids.get(ordinal as usize).copied().unwrap_or(0);
                writeln!(file, "{} {second} {id}", operation.id())?;
            }
            file.flush()?;
        }
        Ok(())
    }

    /// How many keys have each value of `what`, of those that are accessed often enough.
    pub(super) fn distribution(
        &self,
        stats: &FamilyStats,
        what: impl Fn(&[u8], u64) -> u64,
    ) -> Result<BTreeMap<u64, u64>> {
        let mut found = BTreeMap::new();
        stats.keys.each(&mut |_, key, unit| {
            if unit.accesses > self.options.ignore_count {
                *found.entry(what(key, unit.accesses)).or_default() += 1;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Ranges of value sizes with their counts; a range begins where the one before it ended.
    pub(super) fn value_ranges(&self, stats: &FamilyStats) -> Vec<(u64, u64, u64)> {
        let mut end = 0;
        let range = |(&size, &n): (&u64, &u64)| {
            let begin = end;
            end = size
                .saturating_add(1)
                .saturating_mul(self.options.value_interval.max(1));
            (begin, end, n)
        };
        stats.value_sizes.iter().map(range).collect()
    }

    /// Tells the runs of keys with one prefix, each with the id of the key after it; not the last.
    fn prefixes(
        &self,
        stats: &FamilyStats,
        tell: &mut dyn FnMut(u64, &PrefixRun) -> Result<()>,
    ) -> Result<()> {
        let len = self.options.prefix_len;
        let new = |prefix: &[u8]| PrefixRun {
            prefix: prefix.to_vec(),
            accesses: 0,
            keys: 0,
        };
        let mut run = new(b"0");
        stats.keys.each(&mut |id, key, unit| {
            let prefix = key.get(..len).unwrap_or(key);
            if prefix != run.prefix {
                tell(id, &run)?;
                run = new(prefix);
            }
            run.accesses += unit.accesses;
            run.keys += 1;
            Ok(())
        })
    }

    /// The most accessed prefixes, and those with most accesses per key.
    pub(super) fn top_prefixes(&self, stats: &FamilyStats) -> Result<TopPrefixes> {
        let mut top = TopPrefixes::default();
        let n = self.options.top;
        self.prefixes(stats, &mut |_, run| {
            let prefix = hex(&run.prefix);
            keep_top(&mut top.accesses, n, (run.accesses, prefix.clone()));
            keep_top(&mut top.per_key, n, (ratio(run.accesses, run.keys), prefix));
            Ok(())
        })?;
        Ok(top)
    }

    /// Accesses and second of the seconds with most accesses.
    fn busiest(&self, stats: &FamilyStats) -> Vec<(u32, u32)> {
        let mut top = Vec::new();
        for (&second, &n) in stats.qps.all().range(..self.duration()) {
            keep_top(&mut top, self.options.top, (n, second));
        }
        top
    }

    /// Accesses per second: of each operation, and of each family.
    fn all_qps(&self, sink: &mut dyn Sink) -> Result<()> {
        let mut file = sink.create("qps_stats.txt")?;
        for second in 0..self.duration() {
            let row = self.qps_row(second);
            let row: Vec<String> = row.iter().map(u32::to_string).collect();
            writeln!(file, "{}", row.join(" "))?;
        }
        file.flush()?;
        let mut file = sink.create("cf_qps_stats.txt")?;
        for second in 0..self.duration() {
            let of = |f: &super::collect::Family| f.qps.all().get(&second).copied().unwrap_or(0);
            let row: Vec<String> = self.families.values().map(|f| of(f).to_string()).collect();
            if !row.is_empty() {
                writeln!(file, "{}", row.join(" "))?;
            }
        }
        file.flush()
    }

    /// Accesses of one second by operation, then of all.
    pub(super) fn qps_row(&self, second: u32) -> Vec<u32> {
        let of = |family: &FamilyStats| family.qps.all().get(&second).copied().unwrap_or(0);
        let operations = self.stats.iter().take(self.columns);
        let mut row: Vec<u32> = operations.map(|s| s.values().map(of).sum()).collect();
        row.push(row.iter().sum());
        row
    }

    /// The files about the whole key space of a family; returns how many keys it has.
    fn key_space(
        &self,
        sink: &mut dyn Sink,
        cf: u32,
        lines: Option<Box<dyn BufRead>>,
    ) -> Result<u64> {
        let options = &self.options;
        let mut files = Vec::new();
        for operation in Operation::ALL {
            let Some(stats) = self.stats[operation.id()].get(&cf) else {
                continue;
            };
            let name = operation.name();
            let mut create = |asked: bool, suffix| match asked {
                true => sink.create(&format!("{name}-{cf}-{suffix}.txt")).map(Some),
                false => Ok(None),
            };
            let keys = create(options.key_stats, "whole_key_stats")?;
            let prefixes = create(options.prefix_len > 0, "whole_key_prefix_cut")?;
            files.push((stats.keys.ascending(), keys, prefixes));
        }
        let (mut n, mut last) = (0u64, Vec::new());
        for line in lines.into_iter().flat_map(|lines| lines.split(b'\n')) {
            let line = line?;
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let Some(key) = unhex(line) else {
                let what = format!("line {} of the keys of family {cf} is not 0x…", n + 1);
                return Err(Error::new(ErrorKind::InvalidData, what));
            };
            let prefix = key.get(..options.prefix_len).unwrap_or(&key);
            let is_next = prefix != last.as_slice();
            for (accessed, keys, prefixes) in &mut files {
                if let Some(file) = keys
                    && let Some(accesses) = accessed.accesses(&key)?
                {
                    writeln!(file, "{n} {accesses}")?;
                }
                if let (Some(file), true) = (prefixes, is_next) {
                    writeln!(file, "{n} {}", hex(prefix))?;
                }
            }
            last = prefix.to_vec();
            n += 1;
        }
        for (_, keys, prefixes) in files {
            for mut file in keys.into_iter().chain(prefixes) {
                file.flush()?;
            }
        }
        Ok(n)
    }
}
