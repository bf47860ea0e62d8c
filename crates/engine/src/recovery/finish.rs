//! The end of recovery: what was replayed becomes tables, or stays in memtables and in its logs.

use super::evidence::Dropped;
use super::replay::{Recovering, Replayed};
use crate::core::{Engine, FamilyEdit, Opening};
use crate::version::VersionEdit;
use crate::write::LogFactory;
use spanlith_base::Result;
use spanlith_wal::{LogPlace, LogWriter, WriteBatch};
use std::collections::BTreeMap;

/// Makes what was recovered durable: tables, a new log, a new MANIFEST. Of `logs`, those that were
/// replayed, and of others below `beyond`, no more is needed.
pub(super) fn finish(
    engine: &Engine,
    mut replayed: Replayed,
    logs: &[u64],
    beyond: u64,
) -> Result<()> {
    // Once something was flushed, all is: the logs are then over with.
    let keep = engine.c.options.avoid_flush_during_recovery
        && replayed.families.values().all(|f| f.tables.is_empty())
        && replayed.families.values().any(|f| !f.mems.is_empty());
    if keep {
        sync_kept_logs(engine, logs)?;
    }
    let mut edits = Vec::with_capacity(replayed.families.len());
    for mut recovering in std::mem::take(&mut replayed.families).into_values() {
        let mut edit = VersionEdit {
            last_sequence: Some(replayed.last_sequence),
            ..VersionEdit::default()
        };
        if keep && !recovering.mems.is_empty() {
            // Not in tables: the MANIFEST must not say that it is.
            edit.last_sequence = None;
            keep_in_memory(engine, &recovering)?;
        } else {
            let mems = std::mem::take(&mut recovering.mems);
            let last = recovering.flush(engine, &mems)?;
            edit.full_history_ts_low = recovering.history_low;
            edit.new_files = recovering.tables;
            edit.new_files.extend(last);
            edit.blob_file_additions = recovering.blobs;
            let mut state = engine.state.lock();
            if !edit.new_files.is_empty()
                && let Some(f) = state.family_mut(recovering.family.id)
            {
                f.mem_since = replayed.last_sequence;
            }
            let f = state.alive(recovering.family.id)?;
            edit.log_number = Some(f.log_number.max(beyond));
            let mut epoch = f.version.max_epoch_number();
            for f in &mut edit.new_files {
                epoch += 1;
                f.epoch_number = epoch;
            }
        }
        edits.push(FamilyEdit {
            family: recovering.family,
            edit,
        });
    }
    if keep {
        for e in &mut edits {
            e.edit.last_sequence = None;
        }
        keep_ends(engine, &replayed.dropped, &replayed.ends, &mut edits);
    }
    let number = engine.catalog.new_file_number();
    let mut log = LogFactory::new(engine).create(number)?;
    if engine.c.options.track_and_verify_wals
        && let Some(before) = replayed.last_log
    {
        log.add_predecessor(before.number, before.size, before.last_sequence)?;
    }
    let mut leader = engine.leader.lock();
    let mut last_record = 0;
    if keep && let Some((number, size)) = replayed.end {
        // The logs before may end in damage that the next recovery stops at again. The sequence goes
        // on here, and this note says that nothing lies between.
        let opening = Opening {
            number,
            size,
            sequence: replayed.last_sequence,
        };
        let batch = match engine.c.options.own.evidence {
            true => opening.to_batch(&engine.c.db_id)?,
            // As RocksDB: an empty batch with the next sequence number.
            false => {
                let mut empty = WriteBatch::new();
                empty.set_sequence(replayed.last_sequence + 1);
                empty
            }
        };
        log.add_record(batch.as_bytes())?;
        last_record = batch.sequence();
        log.sync()?;
        engine.logs.store().sync_names(LogPlace::Live)?;
        engine.logs.names_are_durable(log.log_number());
    }
    leader.log.begin(engine, log, 0, last_record);
    let mut sizes = Vec::with_capacity(logs.len());
    for &n in logs {
        sizes.push((n, engine.logs.store().size(n, LogPlace::Live)?));
    }
    {
        let mut state = engine.state.lock();
        // Those that are needed stay; the others go when the edits are written.
        state.logs.add_replayed(&sizes);
        state.logs.begin_apart(number, None);
        state.prepared = replayed.prepared;
    }
    drop(leader);
    engine.log_and_apply_all(edits, |state| {
        // Their files are put away as what is obsolete.
        state.logs.take_dead();
    })?;
    Ok(())
}

/// Records how the logs that stay end: where they were cut, so that what was dropped stays dropped, or,
/// as all of them is synced, with which size.
fn keep_ends(
    engine: &Engine,
    dropped: &[Dropped],
    ends: &BTreeMap<u64, (u64, bool)>,
    edits: &mut [FamilyEdit],
) {
    if !engine.c.options.own.evidence {
        return;
    }
    let cuts = dropped.iter().filter(|d| d.is_tail);
    let cuts: Vec<(u64, u64)> = cuts.map(|d| (d.log, d.offset)).collect();
    if let Some(first) = edits.first_mut() {
        first.edit.log_cuts = cuts;
    }
    let whole = ends.iter().filter(|(_, end)| end.1 && end.0 > 0);
    let whole = whole.map(|(&n, end)| (n, end.0));
    engine.state.lock().logs.note_ends(whole);
}

/// Everything that an open returned survives every later crash, so logs that stay are synced first.
fn sync_kept_logs(engine: &Engine, logs: &[u64]) -> Result<()> {
    for &n in logs {
        let file = engine.logs.store().reopen(n)?;
        let mut log = LogWriter::new(file, n);
        log.sync()?;
        log.close()?;
    }
    engine.logs.store().sync_names(LogPlace::Live)
}

/// Makes the replayed entries of a family its mutable memtable.
fn keep_in_memory(engine: &Engine, recovering: &Recovering) -> Result<()> {
    let id = recovering.family.id;
    let mut leader = engine.leader.lock();
    let mut state = engine.state.lock();
    if let [mem] = &recovering.mems[..]
        && let Some(at) = leader.slot(id)
        && let Some(f) = state.family_mut(id)
    {
        let budget = engine.c.resources.write_buffers.as_ref();
        leader.slots[at].replace(mem, budget);
        f.mem = mem.clone();
        return Ok(());
    }
    Err(spanlith_base::Error::corruption(
        "O1: memtables that were not flushed at recovery are one",
    ))
}
