//! Paces a write before it joins the queue: the policy `smooth`.
//!
//! A family whose memtables are full holds its own writers here, too, so that the queue stands still for nobody.
//! A large batch is charged in slices, so that small writes come in between. Nobody sleeps with a lock; whoever closes the
//! database finds every sleeper awake within [`NAP`].

use super::WriteOptions;
use super::count::WriteWaits;
use super::room::{RoomWaits, no_room, too_slow};
use crate::commit::Entries;
use crate::core::{Family, Lsm, PaceControl, Payload, WaitCause, gate};
use spanlith_base::{Result, sync};
use spanlith_wal::{BatchIter, BatchOp};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are charged at once.
const SLICE: u64 = 256 << 10;
/// Longest sleep before a writer looks again.
const NAP: Duration = Duration::from_millis(5);

/// Holds writes back as the policy says.
pub(super) struct Pacing<'a> {
    lsm: &'a Lsm,
}

impl<'a> Pacing<'a> {
    /// Of writes to these trees.
    pub(super) fn new(lsm: &'a Lsm) -> Self {
        Self { lsm }
    }

    /// Waits until the families that are written to take the write; returns for how many nanoseconds.
    ///
    /// # Errors
    /// `Incomplete` if it would have to wait and does not want to, and `TimedOut` if it has waited as long as it wants to:
    /// nothing is written then.
    #[cold]
    pub(super) fn wait(&self, payload: &Payload<'_>, options: &WriteOptions) -> Result<u64> {
        match *payload {
            Payload::One { cf: 0, .. }
            | Payload::Batch {
                families: false, ..
            } => self.pace_family(self.lsm.families.default(), payload.bytes() as u64, options),
            Payload::One { cf, .. } => self.pace_each(&[(cf, payload.bytes() as u64)], options),
            Payload::Batch { body, .. } => self.pace_each(&bytes_by_family(&[body]), options),
            Payload::Transaction(t) => self.pace_each(&bytes_by_family(&t.applied), options),
        }
    }

    fn pace_each(&self, parts: &[(u32, u64)], options: &WriteOptions) -> Result<u64> {
        let set = self.lsm.families.load_full();
        let mut waited = 0;
        for &(cf, bytes) in parts {
            if let Some(family) = set.get(cf) {
                waited += self.pace_family(family, bytes, options)?;
            }
        }
        Ok(waited)
    }

    /// Waits for its turn, and then while the memtables of the family are full.
    fn pace_family(&self, family: &Arc<Family>, bytes: u64, options: &WriteOptions) -> Result<u64> {
        let paced = match family.pacer.is_watched() {
            true => self.await_turn(family, bytes, options)?,
            false => 0,
        };
        match self.lsm.gate.has(gate::FULL) {
            true => Ok(paced + RoomWaits::new(self.lsm).for_family(family, options)?),
            false => Ok(paced),
        }
    }

    fn await_turn(&self, family: &Arc<Family>, bytes: u64, options: &WriteOptions) -> Result<u64> {
        let pacer = &family.pacer;
        let clock = &self.lsm.c.env.clock;
        let began = clock.monotonic_nanos();
        if pacer.is_due(began) {
            PaceControl::of(self.lsm).tick(&self.lsm.state, family);
        }
        let (mut now, mut left) = (began, bytes);
        let paced = loop {
            let slice = left.min(SLICE);
            let places = pacer.take(now, slice, options.class, !options.no_slowdown);
            let Some(places) = places else {
                break Err(no_room());
            };
            let waited = loop {
                let (wait, is_due) = pacer.wait(now, places);
                if wait.is_zero() || self.lsm.stopping() {
                    break Ok(());
                }
                if is_due {
                    PaceControl::of(self.lsm).tick(&self.lsm.state, family);
                }
                let spent = now.saturating_sub(began);
                let Some(nap) = nap(wait, spent, options.wait_max) else {
                    break Err(too_slow());
                };
                sync::assert_no_lock_is_held();
                clock.sleep(nap);
                let woke = clock.monotonic_nanos();
                pacer.overslept(Duration::from_nanos(woke.saturating_sub(now)).saturating_sub(nap));
                now = woke;
            };
            left -= slice;
            if left == 0 || waited.is_err() {
                break waited;
            }
        };
        let spent = now.saturating_sub(began);
        if spent > 0 {
            pacer.add_wait(spent);
            WriteWaits::new(self.lsm).count(spent, WaitCause::Pace);
        }
        paced.map(|()| spent)
    }
}

/// How long to sleep next; `None` if a writer that has waited `spent` nanoseconds does not want to wait so long.
fn nap(wait: Duration, spent: u64, wait_max: Option<Duration>) -> Option<Duration> {
    match wait_max {
        None => Some(wait.min(NAP)),
        Some(max) => {
            let left = max.saturating_sub(Duration::from_nanos(spent));
            (wait <= left).then(|| wait.min(NAP))
        }
    }
}

/// Bytes of an entry in a batch, roughly.
fn bytes_of(op: &BatchOp<'_>) -> usize {
    const BESIDE: usize = 4;
    let two = |a: &[u8], b: &[u8]| a.len() + b.len() + BESIDE;
    match *op {
        BatchOp::Put { key, value, .. }
        | BatchOp::Merge { key, value, .. }
        | BatchOp::ValuePreferredSeqno { key, value, .. } => two(key, value),
        BatchOp::WideColumnEntity { key, entity, .. } => two(key, entity),
        BatchOp::DeleteRange { begin, end, .. } => two(begin, end),
        BatchOp::Delete { key, .. } | BatchOp::SingleDelete { key, .. } => two(key, &[]),
        _ => BESIDE,
    }
}

/// Bytes of entries by family, in the order in which families occur first.
fn bytes_by_family(parts: &[&[u8]]) -> Vec<(u32, u64)> {
    let mut sums: Vec<(u32, u64)> = Vec::new();
    let entries = parts.iter().flat_map(|part| BatchIter::entries(part));
    for op in entries.flatten() {
        let Some(cf) = op.cf() else { continue };
        let bytes = bytes_of(&op) as u64;
        match sums.iter_mut().find(|s| s.0 == cf) {
            Some(sum) => sum.1 += bytes,
            None => sums.push((cf, bytes)),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CfOptions;
    use crate::{Cf, Db, FamilyOptions, WriteBatch, WriteClass};
    use spanlith_base::ErrorKind;
    use spanlith_env::{Clock, Env, MemFs, VirtualClock};
    use std::sync::atomic::Ordering;

    /// A database whose default family may be written at 1 MB/s, and another family without a limit.
    struct Paced {
        db: Db,
        clock: Arc<VirtualClock>,
    }

    impl Paced {
        fn new() -> Self {
            let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 1);
            let db = Db::builder("/db").create_if_missing(true).env(env);
            let db = db.no_info_log().open().unwrap();
            db.create_cf(FamilyOptions::new("other")).unwrap();
            let engine = db.engine();
            engine
                .families
                .default()
                .pacer
                .force(engine.c.env.clock.monotonic_nanos(), 1e6);
            engine.gate.set(gate::PACE);
            Self { db, clock }
        }

        fn cf(&self) -> Cf {
            self.db.default_cf()
        }

        /// Milliseconds of the clock that `f` takes.
        fn millis(&self, f: impl FnOnce()) -> u64 {
            let before = self.clock.monotonic_nanos();
            f();
            (self.clock.monotonic_nanos() - before) / 1_000_000
        }
    }

    #[test]
    fn writes_keep_to_the_pace_of_their_family() {
        let p = Paced::new();
        let value = vec![0; 985];
        let took = p.millis(|| {
            for i in 0..1000u32 {
                p.cf().put(i.to_be_bytes(), &value).unwrap();
            }
        });
        assert!((990..1030).contains(&took), "{took}");
        let other = p.db.cf("other").unwrap();
        let took = p.millis(|| {
            for i in 0..1000u32 {
                other.put(i.to_be_bytes(), &value).unwrap();
            }
        });
        assert_eq!(
            took, 0,
            "a family that is not under pressure waits for nothing"
        );
        let pacer = &p.db.engine().families.default().pacer;
        let waited = pacer.waited_nanos(spanlith_pace::Stage::Level0);
        assert!(waited > 900_000_000, "{waited}");
    }

    /// X-WC-15: bytes by rate, and ten percent.
    #[test]
    fn a_large_batch_waits_for_its_bytes_and_no_longer() {
        let p = Paced::new();
        let mut batch = WriteBatch::new();
        for i in 0..15u32 {
            batch.put(i.to_be_bytes(), vec![0; 1_000_000]);
        }
        let took = p.millis(|| p.db.write(&batch).unwrap());
        assert!((15_000..16_500).contains(&took), "{took}");
    }

    #[test]
    fn who_does_not_want_to_wait_is_told_and_leaves_nothing_behind() {
        let p = Paced::new();
        let big = vec![0; 100_000];
        p.cf().put("first", &big).unwrap();
        let mut hurried = WriteOptions::new();
        hurried.no_slowdown = true;
        let e = p.cf().put_opt("a", &big, &hurried).unwrap_err();
        assert_eq!(
            (e.kind(), e.to_string().as_str()),
            (ErrorKind::Incomplete, "Result incomplete: Write stall")
        );
        let patient = WriteOptions::new().wait_max(Some(Duration::from_millis(20)));
        let took = p.millis(|| {
            let e = p.cf().put_opt("a", &big, &patient).unwrap_err();
            assert_eq!(e.to_string(), "Operation timed out: Write stall");
        });
        assert_eq!(took, 0, "it is known at once that it would take longer");
        assert_eq!(p.cf().get("a").unwrap(), None);
    }

    #[test]
    fn classes_have_shares_of_their_own() {
        let p = Paced::new();
        let value = vec![0; 985];
        let write = |class, n: u32| {
            let options = WriteOptions::new().class(class);
            p.millis(|| {
                for i in 0..n {
                    p.cf().put_opt(i.to_be_bytes(), &value, &options).unwrap();
                }
            })
        };
        let low = write(WriteClass::Low, 200);
        assert!((790..830).contains(&low), "{low}: a quarter of the rate");
        // A write that a tenth of the rate pays for passes a bulk of others.
        let all = p.db.engine().families.default().pacer.take(
            p.clock.monotonic_nanos(),
            10_000_000,
            WriteClass::Normal,
            true,
        );
        assert!(all.is_some());
        let high = write(WriteClass::High, 10);
        assert!(high < 105, "{high}");
    }

    /// X-WC-14: a family whose memtables are full holds up its own writers, before they join the queue. Those of another pass
    /// although no job runs for them.
    #[test]
    fn full_memtables_of_a_family_hold_nobody_else_up() {
        let (env, executor, _) = Env::test(Arc::new(MemFs::new()), 1);
        let small = CfOptions::new().write_buffer_size(64u64 << 10);
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.no_info_log().cf_options(small.clone());
        let db = db.set("write_throttle_policy=smooth").unwrap();
        let db = db.open().unwrap();
        let calm = db
            .create_cf(FamilyOptions::new("calm").options(small))
            .unwrap();
        let hot = db.default_cf();
        let mut hurried = WriteOptions::new();
        hurried.no_slowdown = true;
        let put = |i: u32| hot.put_opt(i.to_be_bytes(), vec![0; 2000], &hurried);
        let refused = (0..1000).find_map(|i| put(i).err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::Incomplete);
        let gate = &db.engine().gate;
        assert!(gate.has(gate::FULL) && !gate.has(gate::STOP));
        let stopped = || hot.property("rocksdb.is-write-stopped");
        assert_eq!(stopped().as_deref(), Some("1"));
        let due = executor.pending();
        for i in 0..20u32 {
            calm.put(i.to_be_bytes(), vec![0; 2000]).unwrap();
            calm.put_opt("k", "v", &hurried).unwrap();
        }
        assert_eq!(executor.pending(), due, "nobody waited for a job");
        // A batch waits for all of its families.
        let mut both = WriteBatch::new();
        both.put_cf(&calm, "b", "v");
        db.write(&both).unwrap();
        both.put_cf(&hot, "b", "v");
        let e = db.write_opt(&both, &hurried).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Incomplete);
        let now = WriteOptions::new().wait_max(Some(Duration::ZERO));
        let e = hot.put_opt("k", "v", &now).unwrap_err();
        assert_eq!(e.to_string(), "Operation timed out: Write stall");
        // A writer that waits has the flush run, and goes on after it.
        hot.put("k", "v").unwrap();
        assert_eq!(stopped().as_deref(), Some("0"));
        assert!(!gate.has(gate::FULL) && executor.pending() < due + 2);
    }

    /// Keeps the lines of the info log.
    #[derive(Default)]
    struct Lines(std::sync::Mutex<Vec<String>>);

    impl crate::Logger for Lines {
        fn log(&self, _: crate::options::InfoLogLevel, line: &str) {
            self.0.lock().unwrap().push(line.to_string());
        }
    }

    #[test]
    fn waits_are_told_by_cause_and_slow_writes_in_the_log() {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 1);
        let lines = Arc::new(Lines::default());
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.set("write_throttle_policy=smooth").unwrap();
        let db = db.logger(lines.clone()).open().unwrap();
        let engine = db.engine();
        let pacer = &engine.families.default().pacer;
        pacer.force(clock.monotonic_nanos(), 1e6);
        engine.gate.set(gate::PACE);
        let value = vec![0; 100_000];
        for i in 0..50u32 {
            db.default_cf().put(i.to_be_bytes(), &value).unwrap();
        }
        let m = db.metrics().writes;
        let waited = m.waited.iter().find(|w| w.0 == "pace").unwrap().1;
        assert!((4800..5100).contains(&waited.as_millis()), "{m:?}");
        let longest = m.longest_wait.as_millis();
        assert!((95..120).contains(&longest), "{longest}");
        assert!(m.slow >= 48 && m.timed == 0 && m.usual.is_none(), "{m:?}");
        assert!(m.windows > 40 && m.below_half == 0, "{m:?}");
        let slow = |l: &&String| l.contains("Slow write: ");
        let told: Vec<String> = lines
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(slow)
            .cloned()
            .collect();
        assert_eq!(told.len(), 1, "one in ten seconds: {told:?}");
        let line = &told[0];
        assert!(
            line.contains("policy smooth, pace 1000000 bytes/s [default] memory"),
            "{line}"
        );
        assert!(line.contains("waited pace "), "{line}");
        let mut text = String::new();
        db.metrics().write_prometheus(&mut text).unwrap();
        assert!(
            text.contains("spanlith_write_wait_seconds_total{cause=\"pace\"} 4.9")
                || text.contains("spanlith_write_wait_seconds_total{cause=\"pace\"} 5"),
            "{text}"
        );
        // Families do not add up: one pace, of the family that is slowed down most.
        db.create_cf(FamilyOptions::new("other")).unwrap();
        let other = engine
            .families
            .load_full()
            .iter()
            .find(|f| f.name == "other")
            .cloned();
        other.unwrap().pacer.force(clock.monotonic_nanos(), 5e5);
        assert_eq!(db.metrics().write_pace_bytes_per_sec, Some(500_000));
    }

    #[test]
    fn measured_writes_are_split_into_parts() {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 1);
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let statistics = Arc::new(spanlith_base::stats::Statistics::new());
        let db = db.set("write_throttle_policy=smooth").unwrap();
        let db = db.no_info_log().statistics(statistics).open().unwrap();
        let engine = db.engine();
        engine
            .families
            .default()
            .pacer
            .force(clock.monotonic_nanos(), 1e6);
        engine.gate.set(gate::PACE);
        for i in 0..20u32 {
            db.default_cf()
                .put(i.to_be_bytes(), vec![0; 50_000])
                .unwrap();
        }
        let m = db.metrics().writes;
        assert_eq!(m.timed, 20);
        let part = |name| m.parts.iter().find(|p| p.0 == name).unwrap().1;
        // The clock stands still but for sleeps.
        assert!(part("throttle").as_millis() > 900, "{m:?}");
        assert_eq!(part("log") + part("memtable"), Duration::ZERO);
        assert!(m.usual.is_some());
        // The first one: nothing was known of how long writes usually take.
        assert_eq!(m.slow, 1, "each is judged once: {m:?}");
    }

    #[test]
    fn sleep_in_the_queue_is_counted_without_statistics() {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 1);
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let db = db.no_info_log().open().unwrap();
        let slept = || {
            let waited = db.metrics().writes.waited;
            waited.iter().find(|w| w.0 == "queue").unwrap().1
        };
        db.default_cf().put("k", "v").unwrap();
        assert_eq!(
            slept(),
            Duration::ZERO,
            "a writer that leads reads no clock"
        );
        // One leads and waits for leadership, the other sleeps sooner or later.
        for round in 0..20 {
            let leader = db.engine().leader.lock();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| db.default_cf().put("k", "v").unwrap());
                }
                for _ in 0..100u32 << round {
                    clock.sleep(Duration::from_micros(1));
                    std::thread::yield_now();
                }
                drop(leader);
            });
            if !slept().is_zero() {
                return;
            }
        }
        panic!("no writer slept");
    }

    #[test]
    fn the_end_of_pressure_and_close_release_who_waits() {
        let p = Paced::new();
        let engine = p.db.engine().clone();
        let big = vec![0; 250_000];
        // Ends with the first tick, which finds no pressure.
        engine
            .families
            .default()
            .pacer
            .force(p.clock.monotonic_nanos(), 1.0);
        engine.switches.close();
        let took = p.millis(|| {
            // It is not the pace that refuses.
            p.cf().put("k", &big).unwrap();
        });
        assert_eq!(took, 0);
        engine.switches.closing().store(false, Ordering::Relaxed);
        engine.families.default().pacer.allow_ticks();
        let took = p.millis(|| p.cf().put("k", &big).unwrap());
        assert!(took <= 10, "{took}");
    }
}
