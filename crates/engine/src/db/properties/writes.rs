//! The statistics of a database's writes: `rocksdb.dbstats`, and how they are paced: `spanlith.write-pace`.

use super::Properties;
use super::human::{GIB, MIB, duration, number};
use crate::core::WriteNumbers;
use crate::db::metrics::pace_metrics;
use spanlith_pace::Stage;
use std::fmt::Write;

/// How often the limit over all memtables stopped writes.
pub(super) fn stall_text() -> String {
    "Write Stall (count): write-buffer-manager-limit-stops: 0\n".to_string()
}

fn ratio(of: u64, per: u64) -> f64 {
    of as f64 / per.max(1) as f64
}

impl Properties<'_> {
    /// The property `spanlith.write-pace`: the policy, and by family what writers may write and why.
    pub(super) fn write_pace_text(&self) -> String {
        let policy = self.options.own.write_throttle_policy;
        let families = self.families.load_full();
        let mut text = format!("policy: {}\n", policy.name());
        let rate = self.throttle.pace(&families);
        if !self.throttle.is_smooth() {
            let _ = writeln!(text, "rate: {rate} (0: not delayed)");
            return text;
        }
        let pace = pace_metrics(self.throttle, &families);
        // Writing to a string does not fail.
        for f in families.iter() {
            let (decision, _) = f.pacer.decision();
            let (work, external) = {
                let state = self.state.lock();
                state.family(f.id).map_or((0, 0), |f| f.pace.debt())
            };
            let stage = decision.stage.map_or("none", Stage::name);
            let rate = decision.rate.map_or(0, |r| r as u64);
            let _ = writeln!(
                text,
                "[{}] rate: {rate} (0: not paced), stage: {stage}, debt of writes: {work}, other debt: {external}",
                f.name
            );
            for p in pace.iter().filter(|p| p.family == f.name) {
                let _ = writeln!(
                    text,
                    "[{}] {}: pressure {:.3}, capacity {:.0}, waited {:.3} s",
                    f.name,
                    p.stage,
                    p.pressure,
                    p.capacity.unwrap_or(0.0),
                    p.waited.as_secs_f64()
                );
            }
        }
        text
    }

    /// The text of `dbstats`; begins another interval.
    pub(in crate::db) fn db_stats_text(&self) -> String {
        let counters = self.counters;
        let now = counters.numbers(self.now());
        let last = counters.next_interval(now);
        let up = (now.at_nanos - counters.opened_nanos.min(now.at_nanos)) as f64 / 1e9;
        let interval = now.at_nanos.saturating_sub(last.at_nanos) as f64 / 1e9;
        let mut out =
            format!("\n** DB Stats **\nUptime(secs): {up:.1} total, {interval:.1} interval\n");
        let none = WriteNumbers::default();
        let mut part = |name: &str, before: &WriteNumbers, seconds: f64| {
            let seconds = seconds.max(0.001);
            let of = |now: u64, before: u64| now.saturating_sub(before);
            let (writes, groups) = (of(now.writes, before.writes), of(now.groups, before.groups));
            let bytes = of(now.bytes, before.bytes) as f64;
            let in_full = before.at_nanos == 0;
            let (unit, size) = if in_full { (GIB, "GB") } else { (MIB, "MB") };
            let _ = writeln!(
                out,
                "{name} writes: {} writes, {} keys, {} commit groups, {:.1} writes per commit group, \
                 ingest: {:.2} {size}, {:.2} MB/s",
                number(writes),
                number(of(now.keys, before.keys)),
                number(groups),
                ratio(writes, groups),
                bytes / unit,
                bytes / MIB / seconds,
            );
            let logged = of(now.wal_writes, before.wal_writes);
            let syncs = of(now.wal_syncs, before.wal_syncs);
            let log_bytes = of(now.wal_bytes, before.wal_bytes) as f64;
            let _ = writeln!(
                out,
                "{name} WAL: {} writes, {} syncs, {:.2} writes per sync, written: {:.2} GB, {:.2} \
                 MB/s",
                number(logged),
                number(syncs),
                ratio(logged, syncs),
                log_bytes / GIB,
                log_bytes / MIB / seconds,
            );
            let stalled = of(now.stall_micros, before.stall_micros);
            let _ = writeln!(
                out,
                "{name} stall: {} H:M:S, {:.1} percent",
                duration(stalled),
                stalled as f64 / 1e4 / seconds,
            );
        };
        part("Cumulative", &none, up);
        // An interval begins at a time that is not zero.
        let last = WriteNumbers {
            at_nanos: last.at_nanos.max(1),
            ..last
        };
        part("Interval", &last, interval);
        out + &stall_text()
    }
}
