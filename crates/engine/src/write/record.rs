//! The records of writes in the log, in the representation of batches, whose bytes are `wal`'s business.
//!
//! A group is one record (W2), with a witness in front of it now and then (`core::witness`). The entry of a lone writer is put together in the log's own buffer.

use crate::core::{LeaderState, Lsm, Payload, Request};
use spanlith_base::sync::Group;
use spanlith_base::{Result, SequenceNumber};
use spanlith_wal::{
    BATCH_HEADER_SIZE, ENTRY_OVERHEAD_MAX, LogWriter, batch_header, push_entry, push_entry_head,
};

/// Largest value that goes into the log by way of the short form of a record.
const SHORT_MAX: usize = 4096;

impl LeaderState {
    /// One log record for one writer.
    #[inline]
    pub(super) fn log_alone(&mut self, lsm: &Lsm, r: &Request<'static>, count: u32) -> Result<()> {
        // Relaxed: set under leadership, before the first write to such a family.
        if lsm.logs.has_timestamps() {
            self.log_timestamp_sizes()?;
        }
        if self.log.witness_may_be_due()
            && let Some(witness) = self.log.take_witness(lsm)?
        {
            let log = self.log.open_writer()?;
            return log_with_note(log, witness.as_bytes(), r, r.seqno, count);
        }
        log_request(self.log.open_writer()?, r, r.seqno, count)
    }

    /// One log record for the group.
    pub(super) fn log_group(
        &mut self,
        lsm: &Lsm,
        group: &mut Group<Request<'static>>,
        base: SequenceNumber,
        count: u32,
    ) -> Result<()> {
        // Relaxed: set under leadership, before the first write to such a family.
        if lsm.logs.has_timestamps() {
            self.log_timestamp_sizes()?;
        }
        let witness = match self.log.witness_may_be_due() {
            true => self.log.take_witness(lsm)?,
            false => None,
        };
        let log = self.log.open_writer()?;
        if group.len() == 1 {
            let mut result = Ok(());
            group.for_each(|r| {
                result = match &witness {
                    None => log_request(log, r, base, count),
                    Some(w) => log_with_note(log, w.as_bytes(), r, base, count),
                };
            });
            return result;
        }
        let mut body = Vec::with_capacity(BATCH_HEADER_SIZE + 4096);
        body.extend_from_slice(&batch_header(base, count));
        group.for_each(|r| match r.payload {
            _ if r.error.is_some() => {}
            Payload::One {
                cf,
                kind,
                key,
                value,
            } => push_entry(&mut body, cf, kind, key, value),
            Payload::Batch { body: b, .. } => body.extend_from_slice(b),
            Payload::Transaction(t) => body.extend_from_slice(t.log),
        });
        match &witness {
            None => log.add_record(&body),
            Some(w) => log.add_note_and_record(w.as_bytes(), &[&body]),
        }
    }

    /// Tells the log the sizes of timestamps that it does not know yet.
    #[cold]
    fn log_timestamp_sizes(&mut self) -> Result<()> {
        let sizes = self.slots.iter().map(|s| {
            let size = s.family.comparator.timestamp_size();
            (s.family.id, u16::try_from(size).unwrap_or(u16::MAX))
        });
        let sizes: Vec<_> = sizes.collect();
        self.log.open_writer()?.add_timestamp_sizes(&sizes)
    }
}

/// Adds the record of one request, which is all of its group.
#[inline]
fn log_request(
    log: &mut LogWriter,
    r: &Request<'_>,
    base: SequenceNumber,
    count: u32,
) -> Result<()> {
    let header = batch_header(base, count);
    match r.payload {
        Payload::One {
            cf,
            kind,
            key,
            value,
        } => {
            let most = BATCH_HEADER_SIZE + ENTRY_OVERHEAD_MAX + key.len() + value.len();
            if most > SHORT_MAX {
                return log_large(log, &header, r);
            }
            log.add_record_with(most, |to| {
                to.extend_from_slice(&header);
                push_entry(to, cf, kind, key, value);
            })
        }
        Payload::Batch { body, .. } => log.add_record_parts(&[&header, body]),
        Payload::Transaction(t) => log.add_record_parts(&[&header, t.log]),
    }
}

/// Adds a note and the record of one request after it.
#[cold]
#[inline(never)]
fn log_with_note(
    log: &mut LogWriter,
    note: &[u8],
    r: &Request<'_>,
    base: SequenceNumber,
    count: u32,
) -> Result<()> {
    let header = batch_header(base, count);
    match r.payload {
        Payload::One {
            cf,
            kind,
            key,
            value,
        } => {
            let mut body = Vec::with_capacity(ENTRY_OVERHEAD_MAX + key.len() + value.len());
            push_entry(&mut body, cf, kind, key, value);
            log.add_note_and_record(note, &[&header, &body])
        }
        Payload::Batch { body, .. } => log.add_note_and_record(note, &[&header, body]),
        Payload::Transaction(t) => log.add_note_and_record(note, &[&header, t.log]),
    }
}

/// A large entry, without a copy more than needed.
#[inline(never)]
fn log_large(log: &mut LogWriter, header: &[u8], r: &Request<'_>) -> Result<()> {
    let Payload::One {
        cf,
        kind,
        key,
        value,
    } = r.payload
    else {
        return Ok(());
    };
    let mut head = Vec::with_capacity(header.len() + ENTRY_OVERHEAD_MAX + key.len());
    head.extend_from_slice(header);
    push_entry_head(&mut head, cf, kind, key, value.len());
    if kind.is_point_deletion() {
        return log.add_record(&head);
    }
    log.add_record_parts(&[&head, value])
}
