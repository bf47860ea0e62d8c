//! The stages of a write: prepare, log, apply, publish.
//!
//! ```text
//!   caller: check ──► join queue ──► leader: make room ─► form group ─► log ─► apply ─► publish
//! ```
//!
//! A batch is checked by its caller before it joins, so that nothing that could fail later than the
//! log reaches the log (no partial effect, no poisoned database). W1–W6 are kept here: the log is
//! written before the memtable, in sequence order, one record per group, and the visible sequence
//! rises only after all inserts of the group.

use super::apply::{Published, Slots, apply};
use super::check::{
    check_again, check_batch, check_unlogged, lacks_timestamps, no_such_family, takes_no_writes,
    wrong_protection,
};
use super::in_flight::lead_in_flight;
use super::limits::check_entry;
use super::measured::Stages;
use super::paced::{check_priority, wait_for_rate};
use super::room::{Room, RoomWaits, Waited};
use super::timed::timed_batch;
use super::unwind::{Carried, Following, Unled};
use super::watched;
use crate::core::{
    Company, Engine, Family, LeaderState, Leadership, Part, Parts, Payload, Place, Request, gate,
};
use crate::read::timestamp_missing;
use crate::write::WriteOptions;
use crate::write::count::{GroupFacts, perf_time};
use spanlith_base::keys::MAX_SEQUENCE;
use spanlith_base::perf::{self, PerfCounter, PerfTime};
use spanlith_base::stats::Histogram;
use spanlith_base::sync::{Group, MutexGuard, Role, Waiter, thread};
use spanlith_base::{Error, Result, SequenceNumber, Severity, ValueType, callbacks};
use spanlith_wal::{BATCH_HEADER_SIZE, entry_checksums};
use std::sync::atomic::Ordering;

/// Groups at least this large insert into the memtable on their own threads; waking a thread costs
/// more than a few inserts.
const PARALLEL_BYTES: usize = 32 << 10;

impl Engine {
    /// Writes one entry.
    #[inline]
    pub(crate) fn write_one(
        &self,
        family: &Family,
        kind: ValueType,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        check_entry(key, value)?;
        if family.is_special && family.comparator.timestamp_size() != 0 {
            self.writable()?;
            return Err(timestamp_missing(&family.name));
        }
        // With times it is a batch, which has a text of its own.
        if kind == ValueType::Merge && family.merge_operator.is_none() && family.times.is_none() {
            return Err(Error::not_supported(
                "Provide a merge_operator when opening DB",
            ));
        }
        // A value that has a time gets it in a batch.
        if family.is_special || options.needs_batch() {
            return self.write_one_as_batch(family.id, kind, key, value, options);
        }
        if family.refuses_writes {
            return Err(takes_no_writes());
        }
        let generation = self.generation();
        if family.is_dropped() {
            return Err(no_such_family());
        }
        let cf = family.id;
        let payload = Payload::One {
            cf,
            kind,
            key,
            value,
        };
        self.submit(payload, generation, options).map(drop)
    }

    /// Counts removals of families. Asked for before a writer looks whether its families are there: Acquire pairs
    /// with the Release behind a removal, so that a family that is gone by this count is not found.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.leader.generation()
    }

    /// Writes one entry with an option that only batches have.
    #[cold]
    fn write_one_as_batch(
        &self,
        cf: u32,
        kind: ValueType,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        let mut batch = spanlith_wal::WriteBatch::new();
        if options.protection_bytes_per_key != 0 {
            batch.protect()?;
        }
        match kind {
            ValueType::Deletion => batch.delete_cf(cf, key)?,
            ValueType::SingleDeletion => batch.single_delete_cf(cf, key)?,
            ValueType::Merge => batch.merge_cf(cf, key, value)?,
            _ => batch.put_cf(cf, key, value)?,
        }
        self.write_batch(&batch, options).map(drop)
    }

    /// Writes a batch; returns the sequence number of its first entry.
    pub(crate) fn write_batch(
        &self,
        batch: &spanlith_wal::WriteBatch,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.write_joined(batch, 1, options)
    }

    /// As [`Self::write_batch`], for a batch to which several calls were joined.
    #[inline]
    pub(crate) fn write_joined(
        &self,
        batch: &spanlith_wal::WriteBatch,
        calls: u32,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        if batch.lacks_timestamps() {
            return Err(lacks_timestamps());
        }
        if let Some(priority) = options.rate_limiter_priority {
            check_priority(priority, options, self.c.options.manual_wal_flush)?;
        }
        if self.families.default().is_special
            && let Some(times) = &self.families.default().times
        {
            let stored = timed_batch(batch, times, &self.families.load_full())?;
            return self.write_batch_stored(&stored, 1, options);
        }
        self.write_batch_stored(batch, calls, options)
    }

    /// As [`Self::write_batch`], with values as they are stored.
    #[inline]
    pub(super) fn write_batch_stored(
        &self,
        batch: &spanlith_wal::WriteBatch,
        calls: u32,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let computed;
        let checksums = match options.protection_bytes_per_key {
            0 => batch.checksums(),
            8 if batch.is_protected() => batch.checksums(),
            8 => {
                computed = entry_checksums(&batch.as_bytes()[BATCH_HEADER_SIZE..])?;
                &computed
            }
            _ => return Err(wrong_protection()),
        };
        let ignore_missing = options.ignore_missing_column_families;
        let generation = match checksums {
            // The leader looks at it once more.
            [_, ..] => u64::MAX,
            [] => self.generation(),
        };
        let (count, families) = check_batch(self, batch.as_bytes(), ignore_missing)?;
        if options.rate_limiter_priority.is_some() {
            wait_for_rate(self.c.io.rate_limiter(), batch.as_bytes().len());
        }
        self.submit(
            Payload::Batch {
                body: &batch.as_bytes()[BATCH_HEADER_SIZE..],
                count,
                families,
                ignore_missing,
                checksums,
                calls,
            },
            generation,
            options,
        )
    }

    // Inlined, so that a request is made where the queue finds it.
    #[inline(always)]
    pub(super) fn submit(
        &self,
        payload: Payload<'_>,
        generation: u64,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        if self.gate.has(gate::WATCHED) || callbacks::has_any() || !self.owner.is_current() {
            return watched::submit(self, &payload, generation, options);
        }
        if options.disable_wal {
            check_unlogged(self, options.sync)?;
        }
        if options.no_slowdown {
            RoomWaits::new(self).check()?;
        }
        let (seqno, error) = self.enqueue(payload, generation, options, None);
        match error {
            None => Ok(seqno),
            Some(e) => Err(e),
        }
    }

    /// Brings a request through the queue; returns the first of its sequence numbers, and how it went. `parts` are the times
    /// that a leader notes.
    #[inline(always)]
    pub(super) fn enqueue(
        &self,
        payload: Payload<'_>,
        generation: u64,
        options: &WriteOptions,
        parts: Option<&mut Parts>,
    ) -> (SequenceNumber, Option<Error>) {
        let mut waiter = Waiter::new(Request {
            payload: erase(payload),
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            generation,
            seqno: 0,
            error: None,
        });
        if options.sync {
            waiter.set_long(self.leader.syncs_slowly());
        }
        match self.queue.join(&waiter) {
            Role::Leader => match parts {
                None => self.lead(&waiter),
                Some(parts) => self.lead_timed(&waiter, parts),
            },
            Role::Apply => self.follow(&waiter),
            Role::Done => {}
        }
        let request = waiter.data_mut();
        (request.seqno, request.error.take())
    }

    /// Carries the group that begins with this writer through all stages.
    #[inline(never)]
    fn lead(&self, waiter: &Waiter<Request<'static>>) {
        let first = own(waiter);
        if first.sync && lead_in_flight(self, waiter, None) {
            return;
        }
        let bytes = first.payload.bytes();
        let mut leader = self.leader.lock();
        // The leader's own request decides what it may wait for; followers that differ are left out.
        let unled = Unled {
            engine: self,
            waiter,
        };
        let room = leader.make_room(self, first.no_slowdown, Waited::default());
        let is_plain = matches!(room, Ok(Room::Made)) && leader.untold.is_empty();
        if is_plain
            && !first.sync
            && !perf::is_timed(PerfTime::Work)
            && let Some(group) = self.queue.form_alone(waiter)
        {
            std::mem::forget(unled);
            let mut carried = Carried {
                engine: self,
                group,
                is_done: false,
            };
            if let Err(e) = self.carry_alone(&mut leader, first, bytes) {
                first.error = Some(e);
            }
            carried.is_done = true;
            // Before the group ends, which lets the next leader come.
            drop(leader);
        } else {
            let (leader, room) = self.wait_for_room(waiter, leader, room, bytes);
            std::mem::forget(unled);
            self.lead_group(waiter, leader, room, bytes, None);
        }
    }

    /// As [`Self::lead`], with the times of its stages: of groups only, so that a lone writer's way holds no timers.
    #[cold]
    #[inline(never)]
    fn lead_timed(&self, waiter: &Waiter<Request<'static>>, parts: &mut Parts) {
        if own(waiter).sync && lead_in_flight(self, waiter, Some(parts)) {
            return;
        }
        let bytes = own(waiter).payload.bytes();
        let began = self.c.env.clock.monotonic_nanos();
        let mut leader = self.leader.lock();
        // The leader's own request decides what it may wait for; followers that differ are left out.
        let unled = Unled {
            engine: self,
            waiter,
        };
        let room = leader.make_room(self, own(waiter).no_slowdown, Waited::default());
        let (leader, room) = self.wait_for_room(waiter, leader, room, bytes);
        std::mem::forget(unled);
        parts.add(
            Part::Throttle,
            self.c.env.clock.monotonic_nanos().saturating_sub(began),
        );
        self.lead_group(waiter, leader, room, bytes, Some(parts));
    }

    /// Goes on with making room for the group that begins with this writer, if there is none yet.
    fn wait_for_room<'a>(
        &'a self,
        waiter: &Waiter<Request<'static>>,
        leader: MutexGuard<'a, LeaderState>,
        room: Result<Room>,
        bytes: usize,
    ) -> (MutexGuard<'a, LeaderState>, Result<()>) {
        match room {
            Ok(Room::Made) if leader.untold.is_empty() => (leader, Ok(())),
            room => {
                let no_slowdown = own(waiter).no_slowdown;
                self.leader
                    .make_room_slowly(self, leader, room, no_slowdown, bytes)
            }
        }
    }

    /// The general case: several writers, a sync, or no room.
    #[inline(never)]
    fn lead_group(
        &self,
        waiter: &Waiter<Request<'static>>,
        mut leader: MutexGuard<'_, LeaderState>,
        room: Result<()>,
        bytes: usize,
        parts: Option<&mut Parts>,
    ) {
        let mut take = self.taking(bytes);
        let mut carried = Carried {
            engine: self,
            group: self.queue.form(waiter, &mut take),
            is_done: false,
        };
        let group = &mut carried.group;
        let is_synced = own(waiter).sync;
        if is_synced {
            self.await_company(&mut leader.company, group, take);
        }
        let done = room.and_then(|()| self.carry(waiter, &mut leader, group, parts));
        if is_synced {
            let joined = self.queue.joined_after(group);
            leader.company.synced(group.len(), joined);
        }
        if let Err(e) = done {
            group.for_each(|r| r.error = Some(r.error.take().unwrap_or_else(|| e.clone())));
        }
        carried.is_done = true;
        drop(leader);
        drop(carried);
    }

    /// Says which writers join a group of one of `bytes`.
    pub(super) fn taking(
        &self,
        bytes: usize,
    ) -> impl FnMut(&mut Request<'static>, &mut Request<'static>) -> bool + use<> {
        let mut total = bytes;
        let limit = self.group_limit(bytes);
        move |first, next| {
            total += next.payload.bytes();
            total <= limit
                && (first.sync || !next.sync)
                && first.disable_wal == next.disable_wal
                && first.no_slowdown == next.no_slowdown
                && first.payload.is_checked() == next.payload.is_checked()
        }
    }

    /// Notes that memtables hold what no log does. Readers look at what shares the line, so that it is written once.
    #[inline]
    fn note_unlogged(&self) {
        self.logs.note_unlogged();
    }

    /// As [`Self::carry`] for a writer without company that asks for no sync: the common case, without
    /// what a group needs.
    #[inline]
    fn carry_alone(
        &self,
        leader: &mut LeaderState,
        r: &mut Request<'static>,
        bytes: usize,
    ) -> Result<()> {
        let base = self.order.next();
        r.seqno = base;
        if self.tracing.is_ordered() {
            self.tracing.record_led(&r.payload);
        }
        if r.generation != leader.generation {
            check_again(self, leader, &r.payload, base - 1)?;
        }
        let count = r.payload.count();
        let next = base + u64::from(count);
        if next > MAX_SEQUENCE {
            return Err(used_up());
        }
        if r.disable_wal {
            self.note_unlogged();
        } else {
            if let Err(e) = leader.log_alone(self, r, r.payload.log_count()) {
                self.order.take(next - 1);
                return Err(self.log_failed(e));
            }
            leader.log.note_batches(bytes, base);
        }
        debug_assert!(
            r.disable_wal || leader.log.last_record() == base,
            "W1: logged first"
        );
        let mut to = Slots {
            engine: self,
            slots: &leader.slots,
            touched: &mut leader.touched,
        };
        if let Err(e) = apply(&mut to, r) {
            return Err(self.insert_failed(e));
        }
        if let Payload::Transaction(t) = r.payload {
            leader.take_mark(self, t, base);
        }
        if leader.first_is_new {
            self.note_first_write(leader);
        }
        // Publish (W3).
        self.order.publish_alone(next - 1);
        self.counters.count_group(
            &self.reporter,
            &GroupFacts {
                writes: u64::from(r.payload.calls()),
                keys: u64::from(count),
                bytes: bytes as u64,
                is_logged: !r.disable_wal,
                is_synced: false,
            },
        );
        Ok(())
    }

    /// A group may or may not be in the log; its numbers stay assigned.
    #[cold]
    fn log_failed(&self, error: Error) -> Error {
        self.set_error(Place::Log, &error);
        error
    }

    #[cold]
    fn insert_failed(&self, error: Error) -> Error {
        self.set_error(Place::Insert, &error);
        error
    }

    /// Tells the first memtable when its first entry came, if it has one.
    #[cold]
    fn note_first_write(&self, leader: &mut LeaderState) {
        let mem = &leader.slots[0].mem;
        if !mem.is_empty() {
            mem.note_first_write(|| self.c.env.clock.now_seconds());
            leader.first_is_new = false;
        }
    }

    /// Waits for the writers that synced together last time and are on their way back: one sync for all is cheaper than one
    /// each. A lone writer does not wait.
    pub(super) fn await_company(
        &self,
        company: &mut Company,
        group: &mut Group<Request<'static>>,
        mut take: impl FnMut(&mut Request<'static>, &mut Request<'static>) -> bool,
    ) {
        let before = group.len();
        if before >= company.writers() {
            return;
        }
        let clock = &self.c.env.clock;
        let until = clock.monotonic_nanos() + company.patience(self.leader.sync_nanos());
        while group.len() < company.writers() && clock.monotonic_nanos() < until {
            Leadership::pause();
            if !self.queue.grow(group, &mut take) {
                return;
            }
        }
        company.waited(before, group.len());
    }

    /// Bytes a group may hold: RocksDB's rule, so that a small write does not wait for a large one.
    fn group_limit(&self, first: usize) -> usize {
        let max = self.c.options.max_write_batch_group_size_bytes as usize;
        let small = max / 8;
        if first <= small {
            first + small
        } else {
            max.max(first)
        }
    }

    fn carry(
        &self,
        waiter: &Waiter<Request<'static>>,
        leader: &mut LeaderState,
        group: &mut Group<Request<'static>>,
        parts: Option<&mut Parts>,
    ) -> Result<()> {
        // Prepare: one contiguous range of sequence numbers.
        let base = self.order.next();
        let mut next = base;
        let (mut sync, mut disable_wal, mut bytes) = (false, false, 0);
        let (mut refused, mut logged, mut calls) = (0, 0u32, 0u64);
        group.for_each(|r| {
            r.seqno = next;
            sync |= r.sync;
            disable_wal |= r.disable_wal;
            if r.generation != leader.generation
                && let Err(e) = check_again(self, leader, &r.payload, base - 1)
            {
                r.error = Some(e);
                refused += 1;
                return;
            }
            if self.tracing.is_ordered() {
                self.tracing.record_led(&r.payload);
            }
            next += u64::from(r.payload.count());
            calls += u64::from(r.payload.calls());
            logged = logged.wrapping_add(r.payload.log_count());
            bytes += r.payload.bytes();
        });
        if refused == group.len() {
            return Ok(());
        }
        if next > MAX_SEQUENCE {
            return Err(used_up());
        }
        let ticket = self.order.begin(next - base);
        debug_assert_eq!(ticket.first, base, "W2");
        let mut stages = Stages::begin(self, parts);
        if !disable_wal {
            let _timer = perf_time(&self.c.env.clock, PerfCounter::WriteWalTime);
            if let Err(e) = self.log_and_sync(leader, group, (base, logged), sync) {
                return Err(self.log_failed(e));
            }
            leader.log.note_batches(bytes, base);
        } else {
            self.note_unlogged();
        }
        debug_assert!(
            disable_wal || leader.log.last_record() == base,
            "W1: logged first"
        );
        stages.end(Part::Log);
        // Apply.
        let parallel = group.len() > 1
            && bytes >= PARALLEL_BYTES
            && self.c.options.allow_concurrent_memtable_write
            && leader.slots.iter().all(|s| s.merges.max == 0);
        let timer = perf_time(&self.c.env.clock, PerfCounter::WriteMemtableTime);
        let applied = if parallel {
            // Nobody says which memtables the followers fill.
            if leader.slots.len() > 1 {
                leader.touched = (1..leader.slots.len()).collect();
            }
            self.apply_in_parallel(waiter, leader, group)
        } else {
            let mut result = Ok(());
            let mut to = Slots {
                engine: self,
                slots: &leader.slots,
                touched: &mut leader.touched,
            };
            group.for_each(|r| {
                if result.is_ok() && r.error.is_none() {
                    result = apply(&mut to, r);
                }
            });
            result
        };
        drop(timer);
        applied.map_err(|e| self.insert_failed(e))?;
        stages.end(Part::Memtable);
        group.for_each(|r| {
            if let Payload::Transaction(t) = r.payload
                && r.error.is_none()
            {
                leader.take_mark(self, t, r.seqno);
            }
        });
        if leader.first_is_new {
            self.note_first_write(leader);
        }
        // Publish (W3).
        self.order.finish(ticket);
        self.counters.count_group(
            &self.reporter,
            &GroupFacts {
                writes: calls,
                keys: next - base,
                bytes: bytes as u64,
                is_logged: !disable_wal,
                is_synced: sync,
            },
        );
        stages.end(Part::Publish);
        Ok(())
    }

    /// Logs a group with its first sequence number and its number of entries; durable if a member asked.
    fn log_and_sync(
        &self,
        leader: &mut LeaderState,
        group: &mut Group<Request<'static>>,
        (base, count): (SequenceNumber, u32),
        sync: bool,
    ) -> Result<()> {
        if !sync {
            return leader.log_group(self, group, base, count);
        }
        if self.c.speed.is_some() {
            leader.log.expect_sync();
        }
        leader.log_group(self, group, base, count)?;
        let clock = &self.c.env.clock;
        let began = clock.monotonic_nanos();
        let timed = self.reporter.timed();
        leader.log.sync(self)?;
        debug_assert!(leader.log.is_synced(), "W6: synced before acknowledged");
        self.reporter
            .record_since(timed, Histogram::WalFileSyncMicros);
        self.leader.note_sync(clock.monotonic_nanos() - began);
        Ok(())
    }

    /// Followers insert their own batches while the leader inserts its own.
    fn apply_in_parallel(
        &self,
        waiter: &Waiter<Request<'static>>,
        leader: &mut LeaderState,
        group: &mut Group<Request<'static>>,
    ) -> Result<()> {
        // Published to the followers by `start_apply`.
        self.apply_left.store(group.len() - 1, Ordering::Relaxed);
        self.queue.start_apply(group);
        let mut to = Slots {
            engine: self,
            slots: &leader.slots,
            touched: &mut leader.touched,
        };
        let first = own(waiter);
        let mut result = match first.error {
            Some(_) => Ok(()),
            None => apply(&mut to, first),
        };
        let mut round = 0u32;
        // Acquire: pairs with the Release in `follow`; the followers' inserts and errors are seen.
        while self.apply_left.load(Ordering::Acquire) != 0 {
            round += 1;
            if round < 200 {
                thread::spin()
            } else {
                thread::yield_now()
            }
        }
        group.for_each(|r| {
            // A follower that could not insert; a refused one fails alone.
            if let Some(e) = &r.error
                && e.severity() == Severity::Fatal
            {
                result = Err(e.clone());
            }
        });
        result
    }

    /// A follower's part of `apply_in_parallel`.
    fn follow(&self, waiter: &Waiter<Request<'static>>) {
        // The leader holds leadership until all followers are done: no memtable is switched and no
        // family dropped.
        let mut following = Following {
            engine: self,
            waiter,
            is_done: false,
        };
        let request = own(waiter);
        if request.error.is_none() {
            let mut to = Published {
                engine: self,
                last: None,
            };
            request.error = apply(&mut to, request).err();
        }
        following.is_done = true;
    }
}

/// Lengthens the lifetime of a request to that of the queue's type.
#[expect(unsafe_code, reason = "requests live on the stacks of blocked callers")]
fn erase(payload: Payload<'_>) -> Payload<'static> {
    // SAFETY: `submit` returns only after the queue is done with the waiter (role `Done`, or the end
    // of `lead`), so nobody looks at the slices after their borrow ends.
    unsafe { std::mem::transmute::<Payload<'_>, Payload<'static>>(payload) }
}

/// The caller's own request.
#[expect(
    unsafe_code,
    clippy::mut_from_ref,
    reason = "ownership is handed over by the queue"
)]
pub(super) fn own<'a>(waiter: &'a Waiter<Request<'static>>) -> &'a mut Request<'static> {
    // SAFETY: Called by the leader for its own waiter while it walks no group, and by a follower in
    // role `Apply`, whose data is its own until it reports back.
    unsafe { waiter.own_data() }
}

#[cold]
fn used_up() -> Error {
    Error::aborted("sequence numbers are used up")
}
