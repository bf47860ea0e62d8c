//! Paces a write before it joins the queue: the policy `smooth`.
//!
//! A large batch is charged in slices, so that small writes come in between. Nobody sleeps with a lock; whoever closes the
//! database finds every sleeper awake within [`NAP`].

use super::WriteOptions;
use super::room::no_room;
use crate::core::{Engine, Family, Payload};
use spanlith_base::{Error, ErrorKind, Result, sync};
use spanlith_wal::{BatchIter, BatchOp};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are charged at once.
const SLICE: u64 = 256 << 10;
/// Longest sleep before a writer looks again.
const NAP: Duration = Duration::from_millis(5);

impl Engine {
    /// Waits until the families that are written to take the write.
    ///
    /// # Errors
    /// `Incomplete` if it would have to wait and does not want to, and `TimedOut` if it has waited as long as it wants to:
    /// nothing is written then.
    #[cold]
    pub(super) fn pace(&self, payload: &Payload<'_>, options: &WriteOptions) -> Result<()> {
        match *payload {
            Payload::One { cf: 0, .. }
            | Payload::Batch {
                families: false, ..
            } => self.pace_family(&self.default, payload.bytes() as u64, options),
            Payload::One { cf, .. } => self.pace_each(&[(cf, payload.bytes() as u64)], options),
            Payload::Batch { body, .. } => self.pace_each(&bytes_by_family(&[body]), options),
            Payload::Transaction(t) => self.pace_each(&bytes_by_family(&t.applied), options),
        }
    }

    fn pace_each(&self, parts: &[(u32, u64)], options: &WriteOptions) -> Result<()> {
        let set = self.families.load_full();
        for &(cf, bytes) in parts {
            if let Some(family) = set.get(cf) {
                self.pace_family(family, bytes, options)?;
            }
        }
        Ok(())
    }

    fn pace_family(&self, family: &Arc<Family>, bytes: u64, options: &WriteOptions) -> Result<()> {
        let pacer = &family.pacer;
        if !pacer.is_watched() {
            return Ok(());
        }
        let clock = &self.c.env.clock;
        let began = clock.monotonic_nanos();
        if pacer.is_due(began) {
            self.pace_tick(family);
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
                if wait.is_zero() || self.stopping() {
                    break Ok(());
                }
                if is_due {
                    self.pace_tick(family);
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
            self.count_stall(spent);
        }
        paced
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

fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "Write stall")
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
    use crate::core::gate;
    use crate::{Cf, Db, FamilyOptions, WriteBatch, WriteClass};
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
                .default
                .pacer
                .force(engine.c.env.clock.monotonic_nanos(), 1e6);
            engine.write_gate.fetch_or(gate::PACE, Ordering::Relaxed);
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
        let pacer = &p.db.engine().default.pacer;
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
        // What a tenth of the rate pays for passes a bulk of others.
        let all = p.db.engine().default.pacer.take(
            p.clock.monotonic_nanos(),
            10_000_000,
            WriteClass::Normal,
            true,
        );
        assert!(all.is_some());
        let high = write(WriteClass::High, 10);
        assert!(high < 105, "{high}");
    }

    #[test]
    fn the_end_of_pressure_and_close_release_who_waits() {
        let p = Paced::new();
        let engine = p.db.engine().clone();
        let big = vec![0; 250_000];
        // Ends with the first tick, which finds no pressure.
        engine.default.pacer.force(p.clock.monotonic_nanos(), 1.0);
        engine.stopping.store(true, Ordering::Relaxed);
        let took = p.millis(|| {
            // It is not the pace that refuses.
            p.cf().put("k", &big).unwrap();
        });
        assert_eq!(took, 0);
        engine.stopping.store(false, Ordering::Relaxed);
        engine.default.pacer.allow_ticks();
        let took = p.millis(|| p.cf().put("k", &big).unwrap());
        assert!(took <= 10, "{took}");
    }
}
