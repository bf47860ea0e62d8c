//! Writes that are recorded in a trace: each as the batch of its caller, its sequence number 0.

use super::two_phase::batch_of;
use crate::commit::Entries;
use crate::core::{Mark, Payload, Tracing, TransactionWrite};
use crate::trace::{Extension, Ticket, kinds, put_write_head};
use spanlith_base::Result;
use spanlith_wal::{BATCH_HEADER_SIZE, WriteBatch, push_entry};

impl Tracing {
    /// Records a write as its call begins, unless its leader will.
    #[cold]
    pub(super) fn record_write(&self, payload: &Payload<'_>) -> Option<Ticket> {
        if self.is_ordered() {
            return None;
        }
        self.record(kinds::WRITE, |to| put_payload(to, payload))
    }

    /// Records a write as its leader comes to it. Requires: leadership.
    #[cold]
    pub(super) fn record_led(&self, payload: &Payload<'_>) {
        self.record_ordered(|to| put_payload(to, payload));
    }

    /// Notes how a write ended.
    #[cold]
    pub(super) fn extend_write(&self, ticket: Ticket, payload: &Payload<'_>, is_done: bool) {
        let extension = Extension {
            kind: kinds::WRITE,
            cf: match payload {
                Payload::One { cf, .. } => *cf,
                _ => 0,
            },
            found: is_done.into(),
            bytes: payload.bytes() as u64,
            ..Extension::default()
        };
        self.extend(ticket, extension);
    }
}

fn put_header(to: &mut Vec<u8>, count: u32) {
    to.extend_from_slice(&[0; BATCH_HEADER_SIZE - 4]);
    to.extend_from_slice(&count.to_le_bytes());
}

fn put_payload(to: &mut Vec<u8>, payload: &Payload<'_>) {
    match *payload {
        Payload::One {
            cf,
            kind,
            key,
            value,
        } => {
            put_write_head(to, payload.bytes());
            put_header(to, 1);
            push_entry(to, cf, kind, key, value);
        }
        Payload::Batch { body, count, .. } => {
            put_write_head(to, BATCH_HEADER_SIZE + body.len());
            put_header(to, count);
            to.extend_from_slice(body);
        }
        Payload::Transaction(t) => {
            // A transaction that was prepared is there twice, as in RocksDB: as it was prepared, and after the mark
            // that commits it.
            let committed = match t.mark {
                Mark::Committed(xid) => committed(t, xid).ok(),
                _ => None,
            };
            let (body, count) = match &committed {
                Some(batch) => (batch.body(), batch.count()),
                None => (t.log, t.log_count),
            };
            put_write_head(to, BATCH_HEADER_SIZE + body.len());
            put_header(to, count);
            to.extend_from_slice(body);
        }
    }
}

fn committed(t: &TransactionWrite<'_>, xid: &[u8]) -> Result<WriteBatch> {
    let mut batch = batch_of(t.applied[0])?;
    batch.mark_commit(xid)?;
    batch.append(&batch_of(t.applied[1])?)?;
    Ok(batch)
}
