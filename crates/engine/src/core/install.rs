//! Version edits and superversions: written, synced, installed, in this order (V3).

use super::engine::gate;
use super::manifest::SnapshotFacts;
use super::state::DbState;
use super::throttle::{StallCondition, StallInput, stall_condition};
use super::{Engine, SuperVersion};
use crate::picker::needs_compaction;
use crate::version::{LevelTargets, PurgeSink, Version, VersionBuilder, VersionEdit, filenames};

use spanlith_base::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Logs `edit`, then installs the version it leads to. `with_state` runs under the state mutex
    /// together with the installation, so that what it changes becomes visible in the same step.
    ///
    /// # Errors
    /// The edit is not installed. The MANIFEST is started anew by the next edit (E2); the caller
    /// decides what else the error means.
    pub(crate) fn log_and_apply(
        self: &Arc<Self>,
        mut edit: VersionEdit,
        with_state: impl FnOnce(&mut DbState),
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let (base, log_number, table_sequence) = {
            let state = self.state.lock();
            (
                state.version.clone(),
                state.log_number,
                state.table_sequence,
            )
        };
        let new_sequence = edit
            .new_files
            .iter()
            .map(|f| f.largest_seqno)
            .chain(edit.last_sequence)
            .fold(table_sequence, u64::max);
        let new_log = edit.log_number.unwrap_or(log_number).max(log_number);
        if edit.log_number.is_some() {
            edit.min_log_number_to_keep = Some(new_log);
        }
        let sink: Arc<dyn PurgeSink> = self.c.purge.clone();
        let mut builder = VersionBuilder::new(&base).with_purge_sink(Arc::downgrade(&sink));
        builder.apply(&edit)?;
        let version = Arc::new(builder.build()?);
        // A new table is opened before anything depends on it: what cannot be read back fails the
        // job, and the first reader finds index and filter in place.
        for new in &edit.new_files {
            if let Some((level, at)) = version.locate(new.number) {
                self.c.cache.reader(&version.levels[level].files[at])?;
            }
        }

        let roll = match &manifest.writer {
            None => true,
            Some(w) => w.len() > self.c.options.max_manifest_file_size,
        };
        let number = if roll {
            self.new_file_number()
        } else {
            manifest.number
        };
        edit.prev_log_number = Some(0);
        edit.next_file_number = Some(self.next_file.load(Ordering::Relaxed));
        edit.last_sequence = Some(new_sequence);
        let written = if roll {
            let facts = SnapshotFacts {
                version: &base,
                comparator: self.c.family.comparator.name(),
                db_id: &self.c.db_id,
                log_number,
                min_log_number: log_number,
                table_sequence,
            };
            self.roll_manifest(number, &facts, &edit).map(|w| {
                let old = std::mem::replace(&mut manifest.number, number);
                if old != number && old != 0 {
                    // The new MANIFEST is current; a failure leaves a file for the next open.
                    let _ = self
                        .c
                        .env
                        .fs
                        .delete(&self.path(filenames::manifest_file_name(old)));
                }
                manifest.writer = Some(w);
                self.manifest_number.store(number, Ordering::Relaxed);
            })
        } else {
            let writer = manifest.writer.as_mut().expect("checked above");
            writer
                .add_record(&edit.encode())
                .and_then(|()| writer.sync())
        };
        if let Err(e) = written {
            manifest.writer = None;
            return Err(e);
        }

        let mut state = self.state.lock();
        for file in builder.removed_files() {
            file.mark_obsolete();
        }
        state.version = version;
        state.log_number = new_log;
        state.table_sequence = new_sequence;
        with_state(&mut state);
        self.install_superversion(&mut state);
        drop(state);
        drop(manifest);
        drop((base, builder));
        self.changed.notify_all();
        Ok(())
    }

    /// Publishes the state's memtables and version to readers, and recomputes stalls and scores.
    pub(crate) fn install_superversion(self: &Arc<Self>, state: &mut DbState) {
        let mem = self.superversion.load().mem.clone();
        self.install_with(state, mem);
    }

    /// As [`Self::install_superversion`], with a new mutable memtable.
    pub(crate) fn install_with(
        self: &Arc<Self>,
        state: &mut DbState,
        mem: Arc<spanlith_memtable::MemTable>,
    ) {
        state.superversion_number += 1;
        self.superversion.replace(Arc::new(SuperVersion {
            mem,
            imm: state.imm.iter().rev().map(|i| i.mem.clone()).collect(),
            version: state.version.clone(),
        }));
        self.recompute(state);
        self.schedule(state);
    }

    /// Scores and stall condition of the installed version.
    fn recompute(&self, state: &mut DbState) {
        let f = &self.c.family;
        let targets = self.targets(&state.version);
        state.pending_compaction_bytes = targets.pending_compaction_bytes;
        state.compaction_due =
            !f.options.disable_auto_compactions && needs_compaction(&self.picker_input(state));
        let o = &f.options;
        let input = StallInput {
            immutable_count: state.imm.len(),
            max_write_buffer_number: o.max_write_buffer_number,
            min_write_buffer_number_to_merge: o.min_write_buffer_number_to_merge,
            l0_files: state.version.num_files(0),
            level0_slowdown_writes_trigger: o.level0_slowdown_writes_trigger,
            level0_stop_writes_trigger: o.level0_stop_writes_trigger,
            pending_compaction_bytes: state.pending_compaction_bytes,
            soft_pending_compaction_bytes_limit: o.soft_pending_compaction_bytes_limit,
            hard_pending_compaction_bytes_limit: o.hard_pending_compaction_bytes_limit,
            disable_auto_compactions: o.disable_auto_compactions,
        };
        let condition = stall_condition(&input);
        self.throttle.update(&condition, &input);
        let bits = match condition {
            StallCondition::Normal => 0,
            StallCondition::Delayed(_) => gate::DELAY,
            StallCondition::Stopped(_) => gate::STOP,
        };
        let keep = self.write_gate.load(Ordering::Relaxed) & gate::REFUSE;
        self.write_gate.store(keep | bits, Ordering::Relaxed);
    }

    /// Level targets, scores and debt of a version.
    pub(crate) fn targets(&self, version: &Version) -> LevelTargets {
        LevelTargets::compute(version, &self.c.family.levels)
    }
}
