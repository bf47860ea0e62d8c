//! Where writes enter: checks, and the request that the driver of groups carries through its stages.
//!
//! ```text
//!   caller: check ─► request ─► commit: queue ─► room ─► group ─► order ─► log ─► insert ─► publish
//! ```
//!
//! A batch is checked by its caller before it joins, so that nothing that could fail later than the
//! log reaches the log (no partial effect, no poisoned database). The driver ([`crate::commit`]) keeps W1 to W6 with the
//! stages of `stages.rs`: the log is written before the memtable, in sequence order, one record per group, and the visible
//! sequence rises only after all inserts of the group.

use super::check::{
    check_batch, check_unlogged, lacks_timestamps, no_such_family, takes_no_writes,
    wrong_protection,
};
use super::limits::check_entry;
use super::paced::{check_priority, wait_for_rate};
use super::room::RoomWaits;
use super::timed::timed_batch;
use super::watched;
use crate::commit::commit;
use crate::core::{Engine, Family, Parts, Payload, Request, gate};
use crate::read::timestamp_missing;
use crate::write::WriteOptions;
use spanlith_base::sync::Waiter;
use spanlith_base::{Error, Result, SequenceNumber, ValueType, callbacks};
use spanlith_wal::{BATCH_HEADER_SIZE, entry_checksums};

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
    /// with the Release after a removal, so that a family that is gone by this count is not found.
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
        commit(self, &waiter, parts);
        let request = waiter.data_mut();
        (request.seqno, request.error.take())
    }
}

/// Lengthens the lifetime of a request to that of the queue's type.
#[expect(unsafe_code, reason = "requests live on the stacks of blocked callers")]
fn erase(payload: Payload<'_>) -> Payload<'static> {
    // SAFETY: `enqueue` returns only after `commit` has, when nobody looks at the request any more: the slices are not
    // used after their borrow ends.
    unsafe { std::mem::transmute::<Payload<'_>, Payload<'static>>(payload) }
}
