//! Writes that somebody looks at, or that may have to wait before they join the queue: those of a database whose writers are
//! paced, traced or measured or that takes none, or whose order is code of the user's, of threads in callbacks, and of children of the process that opened it.
//!
//! All reasons are bits of one word ([`gate::WATCHED`]) and two counters of the process, so that other writes pay a load for
//! each. A reason may be gone when it is looked at here. While any thread of the process is in a callback or a job of any
//! database, all writes come here.

use super::WriteOptions;
use super::check::check_unlogged;
use super::count::WriteWaits;
use super::pace::Pacing;
use super::room::RoomWaits;
use super::urgent::{Urgent, address};
use crate::core::{Engine, Payload, gate};
use spanlith_base::{Result, SequenceNumber, callbacks};

/// As `Engine::submit`.
#[cold]
#[inline(never)]
pub(super) fn submit(
    engine: &Engine,
    payload: &Payload<'_>,
    generation: u64,
    options: &WriteOptions,
) -> Result<SequenceNumber> {
    engine.writable()?;
    if options.disable_wal {
        check_unlogged(engine, options.sync)?;
    }
    if options.no_slowdown {
        RoomWaits::new(engine).check()?;
    }
    let urgent = match callbacks::place() {
        None => None,
        Some(place) => Urgent::begin(engine, place)?,
    };
    let mut measured = engine.reporter.begin_measured(payload);
    if engine.gate.has(gate::PACE | gate::FULL) && urgent.is_none() {
        let waited = Pacing::new(engine).wait(payload, options)?;
        if let Some(m) = &mut measured {
            m.paced(waited);
        }
    }
    let traced = match engine.tracing.queries.is_on() {
        true => engine.tracing.record_write(payload),
        false => None,
    };
    // User code that an insertion calls cannot write: it would wait for this write.
    let inside = engine
        .gate
        .has(gate::CALLS_BACK)
        .then(|| callbacks::enter(callbacks::Place::Write(address(engine))));
    let parts = measured.as_mut().and_then(|m| m.parts());
    let (seqno, error) = engine.enqueue(*payload, generation, options, parts);
    drop((inside, urgent));
    if let Some(measured) = measured {
        WriteWaits::new(engine).end(measured);
    }
    if let Some(ticket) = traced {
        engine
            .tracing
            .extend_write(ticket, payload, error.is_none());
    }
    match error {
        None => Ok(seqno),
        Some(e) => Err(e),
    }
}
