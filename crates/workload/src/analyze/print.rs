//! The summary of an analysis, in the words of `trace_analyzer`.

use super::collect::FamilyStats;
use super::files::{hex, keep_top, ratio};
use super::{Analysis, Operation};
use std::io::{Result, Write};

const STARS: &str = "*********************************************************";

/// Peak and mean accesses per second, by operation and of all.
struct Rates {
    peak: Vec<u32>,
    mean: Vec<f64>,
}

/// Mean of sizes, and how far they spread.
fn mean_and_spread(sum: u64, squares: u64, n: u64) -> (f64, f64) {
    let mean = ratio(sum, n);
    // Rounding may leave less than nothing.
    (mean, (ratio(squares, n) - mean * mean).max(0.0).sqrt())
}

impl Analysis {
    /// Writes the summary.
    ///
    /// # Errors
    /// Of writing.
    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        let options = &self.options;
        let rates = options.qps.then(|| self.rates());
        let mut accessed = std::collections::BTreeMap::<u32, u64>::new();
        let mut of_operation = Vec::new();
        for operation in Operation::ALL {
            if !options.is_analysed(operation) || operation.id() >= self.columns {
                continue;
            }
            let name = operation.name();
            writeln!(
                out,
                "\n################# Operation Type: {name} #####################"
            )?;
            if let Some(rates) = &rates {
                let (peak, mean) = (rates.peak[operation.id()], rates.mean[operation.id()]);
                writeln!(out, "Peak QPS is: {peak} Average QPS is: {mean:.6}")?;
            }
            let (mut keys, mut accesses) = (0, 0);
            for (&cf, stats) in &self.stats[operation.id()] {
                keys += stats.keys.len();
                accesses += stats.accesses;
                *accessed.entry(cf).or_default() += stats.keys.len();
                self.print_family(out, operation, cf, stats)?;
            }
            writeln!(out, "{STARS}")?;
            writeln!(out, "Total keys of '{name}' is: {keys}")?;
            writeln!(out, "Total access is: {accesses}")?;
            of_operation.push((name, keys, accesses));
        }
        writeln!(
            out,
            "\n{STARS}\n{STARS}\nThe column family based statistics"
        )?;
        for (cf, family) in &self.families {
            writeln!(out, "The column family id: {cf}")?;
            writeln!(
                out,
                "The whole key space key numbers: {}",
                family.whole_keys
            )?;
            let keys = accessed.get(cf).copied().unwrap_or(0);
            writeln!(out, "The accessed key space key numbers: {keys}")?;
        }
        if options.overall {
            writeln!(out, "\n{STARS}\n{STARS}")?;
            if let Some(rates) = &rates {
                let (mean, peak) = (rates.mean[self.columns], rates.peak[self.columns]);
                writeln!(out, "Average QPS per second: {mean:.6} Peak QPS: {peak}")?;
            }
            let every = options.sample_every;
            writeln!(
                out,
                "The statistics related to query number need to times: {every}"
            )?;
            let t = self.totals();
            let keys: u64 = of_operation.iter().map(|(_, keys, _)| keys).sum();
            writeln!(
                out,
                "Total_requests: {} Total_accessed_keys: {keys} Total_gets: {} Total_write_batches: {} \
                 Total_seeks: {} Total_seek_for_prevs: {} Total_multigets: {}",
                t.requests, t.gets, t.write_batches, t.seeks, t.seeks_for_prev, t.multi_gets
            )?;
            for (name, _, accesses) in &of_operation {
                writeln!(out, "Operation: '{name}' has: {accesses}")?;
            }
        }
        Ok(())
    }

    fn print_family(
        &self,
        out: &mut dyn Write,
        operation: Operation,
        cf: u32,
        stats: &FamilyStats,
    ) -> Result<()> {
        let (options, name) = (&self.options, operation.name());
        let n = stats.accesses;
        writeln!(out, "{STARS}")?;
        // The spelling is the original's; scripts look for it.
        writeln!(out, "colume family id: {cf}")?;
        writeln!(out, "Total number of queries to this cf by {name}: {n}")?;
        writeln!(out, "Total unique keys in this cf: {}", stats.keys.len())?;
        let (mean, spread) = mean_and_spread(stats.key_bytes, stats.key_bytes_squared, n);
        // Always the smallest size that occurs, and known only with the distribution.
        let sizes = match options.key_sizes {
            true => Some(self.distribution(stats, |key, _| key.len() as u64)?),
            false => None,
        };
        let medium = sizes.and_then(|s| s.keys().next().copied()).unwrap_or(0);
        writeln!(
            out,
            "Average key size: {mean:.6} key size medium: {medium} Key size Variation: {spread:.6}"
        )?;
        if operation.has_values() {
            let (mean, spread) = mean_and_spread(stats.value_bytes, stats.value_bytes_squared, n);
            let mut seen = 0;
            let ranges = self.value_ranges(stats);
            let half = ranges.iter().find(|(_, _, count)| {
                seen += count;
                seen >= n / 2
            });
            let medium = match half {
                Some((begin, end, _)) if mean != 0.0 => (begin + end) / 2,
                _ => 0,
            };
            writeln!(
                out,
                "Average value size: {mean:.6} Value size medium: {medium} Value size variation: {spread:.6}"
            )?;
        }
        let (mut peak, mut mean) = (0, 0.0);
        if options.qps {
            let seconds = stats.qps.all().range(..self.duration());
            peak = seconds.clone().map(|(_, &n)| n).max().unwrap_or(0);
            let sum: u64 = seconds.map(|(_, &n)| u64::from(n)).sum();
            mean = ratio(sum, u64::from(self.duration()));
        }
        writeln!(out, "Peak QPS is: {peak} Average QPS is: {mean:.6}")?;
        let top = options.top;
        if top > 0 {
            writeln!(out, "The Top {top} keys that are accessed:")?;
            let mut keys = Vec::new();
            stats.keys.each(&mut |_, key, unit| {
                // Most keys are not among them, and need no copy.
                let is_below = |least: &(u64, Vec<u8>)| unit.accesses <= least.0;
                if keys.len() < top || !keys.first().is_some_and(is_below) {
                    keep_top(&mut keys, top, (unit.accesses, key.to_vec()));
                }
                Ok(())
            })?;
            for (n, key) in keys {
                writeln!(out, "Access_count: {n} {}", hex(&key))?;
            }
        }
        if options.prefix_len > 0 {
            let found = self.top_prefixes(stats)?;
            writeln!(out, "The Top {top} accessed prefix range:")?;
            for (n, prefix) in found.accesses {
                writeln!(out, "Prefix: {prefix} Access count: {n}")?;
            }
            writeln!(out, "The Top {top} prefix with highest access per key:")?;
            for (per_key, prefix) in found.per_key {
                writeln!(out, "Prefix: {prefix} access per key: {per_key:.6}")?;
            }
        }
        let pairs = options.correlations.len();
        for (pair, (first, second)) in options.correlations.iter().enumerate() {
            let (mut times, mut micros) = (0u64, 0u64);
            stats.keys.each(&mut |_, _, unit| {
                if unit.accesses > options.ignore_count {
                    let (n, after) = stats.followed.of(unit.ordinal, pair, pairs);
                    times += n;
                    micros = micros.wrapping_add(after);
                }
                Ok(())
            })?;
            let mean = ratio(micros, times.saturating_mul(1000));
            let (first, second) = (first.name(), second.name());
            writeln!(
                out,
                "The correlation statistics of '{second}' after '{first}' is: total numbers: {times} \
                 average time: {mean:.6}(ms)"
            )?;
        }
        Ok(())
    }

    fn rates(&self) -> Rates {
        let columns = self.columns + 1;
        let mut rates = Rates {
            peak: vec![0; columns],
            mean: vec![0.0; columns],
        };
        let mut sums = vec![0u64; columns];
        for second in 0..self.duration() {
            for (column, n) in self.qps_row(second).into_iter().enumerate() {
                rates.peak[column] = rates.peak[column].max(n);
                sums[column] += u64::from(n);
            }
        }
        for (mean, sum) in rates.mean.iter_mut().zip(sums) {
            *mean = ratio(sum, u64::from(self.duration()));
        }
        rates
    }
}
