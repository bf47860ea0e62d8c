//! The flush job: sealed memtables become one table in level 0.
//!
//! Order (F1, reliability 2.6): write and sync the table, sync the directory, log and sync the
//! version edit, install, and only then retire logs.

use crate::compaction::{CompactionIter, IterSettings};
use crate::core::{Engine, FileBounds, Immutable};
use crate::info_log::EventValue;
use crate::iter::{MergingIter, Source};
use crate::version::{NewFile, VersionEdit, filenames};
use spanlith_base::{Error, Result};
use spanlith_env::IoActivity;
use spanlith_memtable::MemTable;
use spanlith_table::{BuilderOptions, Compression, TableBuilder};
use std::sync::Arc;

/// What a new table is built from.
pub(crate) struct TableRequest<'a> {
    pub number: u64,
    pub mems: &'a [Arc<MemTable>],
    pub snapshots: Vec<u64>,
}

impl Engine {
    /// Options of a table that becomes file `number`.
    pub(crate) fn builder_options(
        &self,
        number: u64,
        compression: Compression,
        ancester_time: u64,
    ) -> BuilderOptions {
        let f = &self.c.family;
        BuilderOptions {
            table: f.table.clone(),
            comparator: f.comparator.clone(),
            compression,
            column_family_id: f.id,
            column_family_name: f.name.clone(),
            file_number: number,
            db_id: self.c.db_id.clone(),
            db_session_id: self.c.session_id.clone(),
            db_host_id: self.c.host_id.clone(),
            merge_operator_name: f
                .merge_operator
                .as_ref()
                .map_or_else(|| "nullptr".to_string(), |m| m.name().to_string()),
            creation_time: ancester_time,
            oldest_key_time: ancester_time,
            file_creation_time: self.c.env.clock.now_seconds(),
            ..BuilderOptions::default()
        }
    }

    /// Body of the background flush job.
    pub(crate) fn background_flush(self: &Arc<Self>) {
        loop {
            let picked = {
                let mut state = self.state.lock();
                let stop = state.error.is_some() || self.stopping();
                if stop || !self.flush_is_due(&state) {
                    state.flush_scheduled = false;
                    state.flush_running = false;
                    state.flush_requested = false;
                    drop(state);
                    self.changed.notify_all();
                    return;
                }
                state.flush_running = true;
                state.imm.clone()
            };
            if let Err(e) = self.flush_memtables(&picked) {
                self.set_error("a flush", &e);
            }
            for n in self.c.purge.run() {
                self.c.log.info(format_args!("deleted table {n:06}"));
            }
        }
    }

    /// Flushes `picked`, oldest first, into one table.
    fn flush_memtables(self: &Arc<Self>, picked: &[Immutable]) -> Result<()> {
        let number = self.new_file_number();
        let started = self.c.env.clock.monotonic_nanos();
        let mems: Vec<Arc<MemTable>> = picked.iter().map(|i| i.mem.clone()).collect();
        let request = TableRequest {
            number,
            mems: &mems,
            snapshots: self.c.snapshots.sequences(),
        };
        let file = build_table(self, &request)?;
        let next_log = picked.last().map_or(0, |i| i.next_log);
        let mut edit = VersionEdit {
            log_number: Some(next_log),
            last_sequence: picked.last().map(|i| i.last_sequence),
            ..VersionEdit::default()
        };
        let size = file.as_ref().map_or(0, |f| f.size);
        if let Some(mut f) = file {
            f.epoch_number = self.state.lock().version.max_epoch_number() + 1;
            edit.new_files.push(f);
        }
        let count = picked.len();
        self.log_and_apply(edit, |state| {
            state.imm.drain(..count);
        })?;
        let micros = (self.c.env.clock.monotonic_nanos() - started) / 1000;
        let fields = [
            ("file_number", EventValue::U64(number)),
            ("file_size", EventValue::U64(size)),
            ("num_memtables", EventValue::U64(count as u64)),
            ("micros", EventValue::U64(micros)),
        ];
        self.c.log.event(None, "flush_finished", &fields);
        self.retire_logs();
        Ok(())
    }

    /// Deletes logs that hold nothing unflushed (WAL3).
    pub(crate) fn retire_logs(&self) {
        let dead: Vec<u64> = {
            let mut state = self.state.lock();
            let keep = state.log_number;
            let n = state.logs.iter().take_while(|&&l| l < keep).count();
            state.logs.drain(..n).collect()
        };
        for n in dead {
            // A log that cannot be unlinked is older than the family's log number: the next open
            // ignores and deletes it.
            let _ = self
                .c
                .env
                .fs
                .delete(&self.path(filenames::log_file_name(n)));
        }
    }
}

/// Writes the table of a request; `None` if nothing is left to write. The file and its directory
/// entry are durable when this returns.
pub(crate) fn build_table(engine: &Engine, r: &TableRequest<'_>) -> Result<Option<NewFile>> {
    let path = engine.path(filenames::table_file_name(r.number));
    let built = write_table(engine, r);
    match &built {
        Ok(Some(_)) => engine.c.env.fs.sync_dir(&engine.c.dir)?,
        // Nothing refers to what was written: an error here changes nothing.
        Ok(None) | Err(_) => drop(engine.c.env.fs.delete(&path)),
    }
    built
}

fn write_table(engine: &Engine, r: &TableRequest<'_>) -> Result<Option<NewFile>> {
    let c = &engine.c;
    let path = engine.path(filenames::table_file_name(r.number));
    // Newer memtables first.
    let sources = r.mems.iter().rev().map(|m| Source::Mem(m.iter())).collect();
    let input = MergingIter::new(c.family.comparator.clone(), sources);
    let expected: u64 = r.mems.iter().map(|m| m.len()).sum();
    let mut iter = CompactionIter::new(
        input,
        IterSettings {
            comparator: c.family.comparator.clone(),
            merge_operator: c.family.merge_operator.clone(),
            snapshots: r.snapshots.clone(),
            bottommost: false,
            below: None,
        },
    );
    iter.seek_to_first()?;
    let now = c.env.clock.now_seconds();
    let compression = c.family.levels.compression_for(0);
    let file = c.env.fs.create(&path, IoActivity::Flush)?;
    let mut builder = TableBuilder::new(engine.builder_options(r.number, compression, now), file);
    let mut meta = FileBounds::default();
    while iter.valid() {
        builder.add(iter.key(), iter.value())?;
        meta.add(iter.key());
        iter.next()?;
    }
    let seen = iter.input_entries();
    if seen != expected && c.options.flush_verify_memtable_count {
        builder.abandon();
        return Err(
            Error::corruption("Number of keys read from memtables differs from expected")
                .with("expected", expected)
                .with("read", seen),
        );
    }
    if builder.num_entries() == 0 {
        builder.abandon();
        return Ok(None);
    }
    let summary = builder.finish()?;
    Ok(Some(meta.into_new_file(0, r.number, &summary, now, now)))
}
