//! Version edits and superversions: written, synced, installed, in this order (V3).

use super::catalog::Urgency;
use super::gate;
use super::hiding::{Pressure, debt_of_space};
use super::level0_shape::is_dynamic;
use super::state::{DbState, FamilyState};
use super::superversion::asks_in_turn;
use super::{Family, Lsm, PaceControl, SuperVersion, ThrottleSettings};
use crate::options::CompactionStyle;
use crate::version::{LevelTargets, ValueSizes, Version, VersionBuilder, VersionEdit};

use spanlith_base::{Error, FileNumber, Result, Severity};
use spanlith_pace::{StallCause, StallCondition, StallInput, stall_condition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Describes what one edit changes, and in which family.
pub(crate) struct FamilyEdit {
    pub family: Arc<Family>,
    pub edit: VersionEdit,
}

/// Why edits were not applied.
pub(crate) struct NotApplied {
    pub error: Error,
    /// Records may be in the MANIFEST, and the next open may read them: the files they name have to stay. Else
    /// nobody ever asks for these.
    pub may_be_written: bool,
}

impl From<NotApplied> for Error {
    fn from(e: NotApplied) -> Self {
        e.error
    }
}

impl From<Error> for NotApplied {
    /// An error before anything is written.
    fn from(error: Error) -> Self {
        Self {
            error,
            may_be_written: false,
        }
    }
}

/// A family whose next version was built.
struct Next {
    family: Arc<Family>,
    base: Arc<Version>,
    builder: VersionBuilder,
    version: Arc<Version>,
    log_number: u64,
}

impl Lsm {
    /// Logs one edit; see [`Self::log_and_apply_all`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn log_and_apply(
        &self,
        family: &Arc<Family>,
        edit: VersionEdit,
        with_state: impl FnOnce(&mut DbState),
    ) -> std::result::Result<(), NotApplied> {
        let family = family.clone();
        self.log_and_apply_all(vec![FamilyEdit { family, edit }], with_state)
    }

    /// Logs the edits, of different families, as one atomic group if there are several, then
    /// installs the versions they lead to. `with_state` runs under the state mutex together with
    /// the installation, so that what it changes becomes visible in the same step.
    ///
    /// # Errors
    /// Nothing is installed. The MANIFEST is started anew by the next edit (E2); the caller decides
    /// what else the error means. `ColumnFamilyDropped` if a family is gone: nothing was written.
    /// New tables that no record may name are the caller's to remove.
    pub(crate) fn log_and_apply_all(
        &self,
        edits: Vec<FamilyEdit>,
        with_state: impl FnOnce(&mut DbState),
    ) -> std::result::Result<(), NotApplied> {
        self.log_and_apply_untold(edits, with_state)?;
        self.reporter.tell_stalls();
        Ok(())
    }

    /// As [`Self::log_and_apply_all`]; listeners hear of nothing yet, so that locks may be held.
    pub(crate) fn log_and_apply_untold(
        &self,
        edits: Vec<FamilyEdit>,
        with_state: impl FnOnce(&mut DbState),
    ) -> std::result::Result<(), NotApplied> {
        let mut manifest = self.catalog.lock();
        let (next, mut records, new_sequence) = self.prepare_edits(edits)?;
        let kept_log = records.iter().filter_map(|e| e.min_log_number_to_keep);
        let kept_log = kept_log.max().unwrap_or(0);
        self.name_oldest_log(&manifest, &mut records, kept_log)?;
        records.extend(manifest.forget_logs(kept_log, new_sequence));
        self.write_edits(&mut manifest, records, Urgency::Background)
            .map_err(|error| NotApplied {
                error,
                may_be_written: true,
            })?;
        manifest.retain_logs(kept_log);
        debug_assert!(
            manifest.is_durable(),
            "V3: a version is visible, and files are obsolete, after its edit is durable"
        );

        let mut state = self.state.lock();
        state.table_sequence = state.table_sequence.max(new_sequence);
        state.logs.keep_from(kept_log);
        let mut changed = Vec::with_capacity(next.len());
        let mut kept = Vec::with_capacity(next.len());
        for n in next {
            for file in n.builder.removed_files() {
                file.mark_obsolete();
            }
            for file in n.builder.removed_blob_files(&n.version) {
                file.mark_obsolete();
            }
            if let Some(f) = state.family_mut(n.family.id) {
                f.version = n.version;
                f.log_number = f.log_number.max(n.log_number);
                changed.push(n.family.id);
            }
            // Dropped outside the lock: the last reference to a version frees files.
            kept.push((n.base, n.builder));
        }
        with_state(&mut state);
        self.install_superversions(&mut state, changed);
        drop(state);
        drop(manifest);
        drop(kept);
        self.state.notify_all();
        Ok(())
    }

    /// Raises the family's `full_history_ts_low`.
    pub(crate) fn increase_history_low(&self, family: &Arc<Family>, low: &[u8]) -> Result<()> {
        self.writable()?;
        let c = &family.comparator;
        if c.timestamp_size() == 0 {
            let text = "Timestamp is not enabled in this column family";
            return Err(Error::invalid_argument(text));
        }
        if c.timestamp_size() != low.len() {
            return Err(Error::invalid_argument("ts_low size mismatch"));
        }
        let known = family.superversion.load().version.history_low.clone();
        if !known.is_empty() && c.compare_timestamp(low, &known).is_lt() {
            return Err(Error::invalid_argument(format!(
                "Current full_history_ts_low: {} is higher than provided ts: {}\n",
                c.timestamp_text(&known),
                c.timestamp_text(low)
            )));
        }
        let edit = VersionEdit {
            full_history_ts_low: Some(low.to_vec()),
            ..VersionEdit::default()
        };
        self.log_and_apply(family, edit, |state| {
            if let Some(f) = state.family_mut(family.id) {
                f.keeps_history_low = true;
            }
        })?;
        Ok(())
    }

    /// Builds the versions that `edits` lead to and completes the records. Requires: the manifest
    /// token.
    fn prepare_edits(&self, edits: Vec<FamilyEdit>) -> Result<(Vec<Next>, Vec<VersionEdit>, u64)> {
        let (bases, mut sequence, others_need) = {
            let state = self.state.lock();
            let mut bases = Vec::with_capacity(edits.len());
            for e in &edits {
                let f = state.alive(e.family.id)?;
                bases.push((f.version.clone(), f.log_number));
            }
            let of_edits: BTreeMap<u32, FileNumber> = edits
                .iter()
                .map(|e| (e.family.id, e.edit.log_number.unwrap_or(0)))
                .collect();
            let others = state.min_log_without(|id| of_edits.get(&id).copied());
            (bases, state.table_sequence, others)
        };
        let mut next = Vec::with_capacity(edits.len());
        let mut records = Vec::with_capacity(edits.len());
        for (FamilyEdit { family, mut edit }, (base, log_number)) in edits.into_iter().zip(bases) {
            let largest = edit.new_files.iter().map(|f| f.largest_seqno);
            sequence = largest.chain(edit.last_sequence).fold(sequence, u64::max);
            let log_number = edit.log_number.unwrap_or(log_number).max(log_number);
            let mut builder = VersionBuilder::new(&base).with_purge_sink(family.sink());
            // A version that contradicts itself is a broken promise of ours.
            let broken = |e: Error| e.with_severity(Severity::Fatal);
            builder.apply(&edit).map_err(broken)?;
            let version = Arc::new(builder.build().map_err(broken)?);
            // A new table is opened before anything depends on it: what cannot be read back fails
            // the job, and the first reader finds index and filter in place.
            let mut value_sizes = ValueSizes::of(&base);
            for new in &edit.new_files {
                if let Some((level, at)) = version.locate(new.number) {
                    let file = &version.levels[level].files[at];
                    family.cache.charge_metadata(file)?;
                    family.cache.reader(file)?;
                    value_sizes.add(file);
                    file.forget_weight();
                    self.c.resources.track_table(&self.c.purge, &family, file);
                }
            }
            for blob in &edit.blob_file_additions {
                self.c.resources.track_blob(&self.c.purge, &family, blob);
            }
            // Nobody has seen the version yet.
            let _ = version.value_sizes.set(value_sizes);
            edit.column_family = family.id;
            edit.prev_log_number = Some(0);
            edit.last_sequence = Some(sequence);
            edit.strip_timestamps(family.comparator.timestamp_size());
            records.push(edit);
            next.push(Next {
                family,
                base,
                builder,
                version,
                log_number,
            });
        }
        let of_these = next.iter().map(|n| n.log_number).min();
        let min_log = others_need.min(of_these.unwrap_or(u64::MAX));
        let left = records.len();
        for (i, edit) in records.iter_mut().enumerate() {
            if edit.log_number.is_some() {
                edit.min_log_number_to_keep = Some(min_log);
            }
            if left > 1 {
                edit.remaining_in_atomic_group = Some((left - 1 - i) as u32);
            }
        }
        Ok((next, records, sequence))
    }

    /// Publishes a family's memtables and version to readers, recomputes stalls and scores, and queues the jobs that
    /// this asks for. Nothing happens if the family was dropped.
    pub(crate) fn install_superversion(&self, state: &mut DbState, id: u32) {
        self.install_superversions(state, [id]);
    }

    /// As [`Self::install_superversion`] for several families, whose jobs are looked for once.
    pub(crate) fn install_superversions(
        &self,
        state: &mut DbState,
        ids: impl IntoIterator<Item = u32>,
    ) {
        for id in ids {
            self.publish_superversion(state, id);
        }
        self.schedule(state);
    }

    /// As [`Self::install_superversion`] for a family that asks for no job, as a new one, or whose jobs the caller queues.
    pub(crate) fn publish_superversion(&self, state: &mut DbState, id: u32) {
        let is_ingesting = state.jobs.is_ingesting();
        let Some(f) = state.family_mut(id) else {
            return;
        };
        debug_assert!(
            f.imm.is_sorted_by_key(|sealed| sealed.last_sequence),
            "F1: sealed memtables are in the order of their age, in which flushes take them"
        );
        f.superversion_number += 1;
        f.flush.postpone(false);
        f.family.counters.note_version(&f.version);
        // Raising the bound alone loses nothing: as in RocksDB, reads below it go on until the next
        // change of files or memtables.
        let history_low = match std::mem::take(&mut f.keeps_history_low) {
            true => f.family.superversion.load().history_low.clone(),
            false => f.version.history_low.clone(),
        };
        let old = f.family.superversion.load_full();
        let number = f.superversion_number;
        // While files are taken in, a reader does not know all that it would delete.
        f.mem.convert_for(if is_ingesting { 0 } else { number });
        f.mem.forget_dead_runs(number);
        let is_same =
            Arc::ptr_eq(&old.version, &f.version) && Arc::ptr_eq(&old.settings, &f.settings);
        if !is_same || f.compaction.judged_at() == 0 {
            f.compaction.judge_at(self.c.env.clock.now_seconds());
        }
        f.family.superversion.replace(Arc::new(SuperVersion {
            mem: f.mem.clone(),
            imm: f.imm.iter().rev().map(|i| i.mem.clone()).collect(),
            version: f.version.clone(),
            settings: f.settings.clone(),
            history_low,
            number,
            asks_in_turn: asks_in_turn(&f.family.cache, &f.settings),
        }));
        self.recompute(state, id);
    }

    /// Scores and stall condition of the installed version.
    pub(super) fn recompute(&self, state: &mut DbState, id: u32) {
        let Some(f) = state.family_mut(id) else {
            return;
        };
        let targets = LevelTargets::compute(&f.version, &f.settings.levels);
        f.compaction.note_targets(&targets);
        let is_automatic = !f.settings.options.disable_auto_compactions;
        let is_due = is_automatic && f.wants_compaction(&self.times, &self.options());
        f.compaction.set_due(is_due);
        self.await_release(state, id);
        let worst = self.judge_stall(state, id);
        PaceControl::of(self).follow(state, id, targets.base_level);
        self.set_gate(state, worst);
    }

    /// Has a release of snapshots start a compaction of a family, if one waits for that.
    fn await_release(&self, state: &mut DbState, id: u32) {
        if let Some(f) = state.family_mut(id) {
            let held = self.times.held_by_snapshot(&f.settings);
            let threshold = mark_threshold(f).min(held);
            f.compaction.set_mark_threshold(threshold);
        }
        let all = state.families.values();
        let threshold = all.map(|f| f.compaction.mark_threshold()).min();
        self.c
            .snapshots
            .set_threshold(threshold.unwrap_or(u64::MAX));
    }

    /// The stall condition that comes of `input`.
    fn condition(&self, input: &StallInput) -> StallCondition {
        match stall_condition(input) {
            // Level 0 and debt only pace.
            StallCondition::Stopped(cause)
                if self.throttle.is_smooth() && cause != StallCause::MemtableLimit =>
            {
                StallCondition::Delayed(cause)
            }
            condition => condition,
        }
    }

    /// Stall condition of a family as it is now; returns that of the family that is worst off.
    fn judge_stall(&self, state: &mut DbState, id: u32) -> StallCondition {
        let Some(f) = state.family_mut(id) else {
            return worst_stall(state);
        };
        let input = stall_input(f);
        let condition = self.condition(&input);
        let before = std::mem::replace(&mut f.stall, condition);
        let own = f.stall;
        let worst = worst_stall(state);
        // The rate follows the family that is worst off.
        if own.severity() == worst.severity() {
            self.throttle.update(&own, &input);
        }
        if let Some(f) = state.family(id) {
            self.reporter.note_stall(f, before, || self.throttle.rate());
        }
        worst
    }

    /// A compaction that was due cannot run for now: writers that wait for it go on, unless something else is to come, and so
    /// do flushes.
    pub(crate) fn put_off_compaction(&self, state: &mut DbState, id: u32) {
        let Some(f) = state.family_mut(id) else {
            return;
        };
        f.compaction.put_off();
        self.lift_stalls(state);
        self.await_release(state, id);
        self.state.notify_all();
    }

    /// Compactions of these families that could not run may be able to now.
    pub(crate) fn retry_compactions(&self, state: &mut DbState, ids: &[u32]) {
        for &id in ids {
            self.recompute(state, id);
        }
        self.schedule(state);
    }

    /// Lets writers go on that wait for a job that has ended, or cannot run, unless another is to come. It is called after
    /// every change by which less is to come than before.
    pub(crate) fn lift_stalls(&self, state: &mut DbState) {
        let is_over = |f: &&FamilyState| {
            let stall = f.stall.severity();
            stall > 0 && stall > self.condition(&stall_input(f)).severity()
        };
        let over = state.families.values().filter(is_over);
        let over: Vec<u32> = over.map(|f| f.family.id).collect();
        for &id in &over {
            let worst = self.judge_stall(state, id);
            self.set_gate(state, worst);
        }
        if !over.is_empty() {
            self.state.notify_all();
        }
    }

    /// Slows writers down by other rules, or at other rates, from now on. Requires: the state mutex.
    pub(crate) fn set_throttle(&self, state: &mut DbState, settings: ThrottleSettings) {
        if self.throttle.set(settings) {
            let ids: Vec<u32> = state.families.keys().copied().collect();
            for id in ids {
                self.recompute(state, id);
            }
        }
    }

    /// Has writers wait, or wait no more, for files that are taken in.
    pub(crate) fn hold_writers(&self, yes: bool) {
        let mut state = self.state.lock();
        match yes {
            true => state.jobs.hold_writers(),
            false => state.jobs.release_writers(),
        }
        self.gate.put(gate::HOLD, state.jobs.hold_back_writers());
        drop(state);
        self.state.notify_all();
    }

    /// Opens or narrows the gate of writers.
    pub(super) fn set_gate(&self, state: &DbState, worst: StallCondition) {
        let is_smooth = self.throttle.is_smooth();
        let mut bits = match worst {
            StallCondition::Normal => 0,
            // Nobody waits in the queue.
            StallCondition::Delayed(_) if is_smooth => 0,
            StallCondition::Delayed(_) => gate::DELAY,
            StallCondition::Stopped(_) if is_smooth => gate::FULL,
            StallCondition::Stopped(_) => gate::STOP,
        };
        if state.families.values().any(is_dynamic) {
            bits |= gate::COUNT_READS;
        }
        let mut families = state.families.values();
        if is_smooth && families.any(|f| f.family.pacer.is_watched()) {
            bits |= gate::PACE;
        }
        let mask = gate::DELAY | gate::STOP | gate::FULL | gate::PACE | gate::COUNT_READS;
        self.gate.replace(mask, bits);
    }
}

/// Returns what a family's stall condition depends on. Files and debt stop writes only while a compaction is to come, and
/// delay them otherwise: one that the picker declines, because what is young stays out of the last level, say, or because an
/// input is quarantined, ends no stop. RocksDB takes it that one is to come.
pub(crate) fn stall_input(f: &FamilyState) -> StallInput {
    let o = &f.settings.options;
    let limits = (
        o.soft_pending_compaction_bytes_limit,
        o.hard_pending_compaction_bytes_limit,
    );
    let budget = f.settings.levels.blob_budget;
    let budget = budget.filter(|_| f.settings.levels.is_leveled());
    let space = budget.map_or(0, |b| {
        debt_of_space(&f.version, b, Pressure::of(f, b), limits)
    });
    let mut runs = match waits_for_age(f) {
        true => 0,
        false => f.settings.levels.sorted_runs(&f.version),
    };
    let mut debt = f.compaction.pending_bytes();
    if !f.compaction.is_coming() {
        runs = runs.min((o.level0_stop_writes_trigger.max(1) - 1) as usize);
        debt = debt.min(match limits.1 {
            0 => u64::MAX,
            hard => hard - 1,
        });
    }
    StallInput {
        immutable_count: f.imm.len(),
        max_write_buffer_number: o.max_write_buffer_number,
        min_write_buffer_number_to_merge: o.min_write_buffer_number_to_merge,
        l0_files: runs,
        level0_slowdown_writes_trigger: o.level0_slowdown_writes_trigger,
        level0_stop_writes_trigger: o.level0_stop_writes_trigger,
        pending_compaction_bytes: debt.max(space),
        soft_pending_compaction_bytes_limit: limits.0,
        hard_pending_compaction_bytes_limit: limits.1,
        disable_auto_compactions: o.disable_auto_compactions,
    }
}

/// Returns whether the runs of a family stay apart until their data is old: no compaction is coming that would make them
/// fewer, so that they must not slow writes down.
fn waits_for_age(f: &FamilyState) -> bool {
    let levels = &f.settings.levels;
    let may_wait = levels.precludes_last_level && levels.style == CompactionStyle::Universal;
    may_wait && !f.compaction.is_coming()
}

/// Returns whether one more memtable or file of level 0 would delay writes to a family, and background work
/// will change that.
pub(crate) fn wait_would_help(f: &FamilyState) -> bool {
    let mut input = stall_input(f);
    let o = &f.settings.options;
    let due = f.imm.len() >= o.min_write_buffer_number_to_merge.max(1) as usize
        || (f.compaction.is_coming()
            && input.l0_files >= o.level0_file_num_compaction_trigger.max(0) as usize);
    input.immutable_count += 1;
    input.l0_files += 1;
    due && stall_condition(&input) != StallCondition::Normal
}

/// See `CompactionTurn::mark_threshold`.
fn mark_threshold(f: &FamilyState) -> u64 {
    let files = f.version.bottommost_files().iter();
    files
        .map(|&(level, at)| f.version.files(level)[at].largest_seqno)
        .filter(|&seqno| seqno != 0 && seqno >= f.compaction.oldest_snapshot())
        .min()
        .unwrap_or(u64::MAX)
}

/// The condition that holds for all writers: that of the family that is worst off.
pub(crate) fn worst_stall(state: &DbState) -> StallCondition {
    let all = state.families.values().map(|f| f.stall);
    all.max_by_key(|s| s.severity())
        .unwrap_or(StallCondition::Normal)
}

#[cfg(test)]
mod tests {
    use super::super::double::Double;
    use super::super::{BackgroundWork, gate};
    use crate::options::{CfOptions, CompactionStyle, DbOptions};
    use std::fmt::Write;
    use std::sync::Arc;

    fn tree(style: CompactionStyle) -> Arc<Double> {
        let cf = CfOptions {
            compaction_style: style,
            ..CfOptions::default()
        };
        Double::new(&DbOptions::new(), &["default"], &cf)
    }

    /// As many files of level 0 as stop writes.
    fn many(flag: &str) -> String {
        (1..=36).fold(String::new(), |mut text, n| {
            writeln!(text, "L0 {n} a..z 1MB {flag}").expect("a string takes all");
            text
        })
    }

    fn stops(double: &Double) -> bool {
        double.lsm().gate.has(gate::STOP)
    }

    /// Files of a compaction that failed are quarantined, and stay so.
    #[test]
    fn files_that_no_compaction_takes_stop_no_writers() {
        for style in [CompactionStyle::Level, CompactionStyle::Universal] {
            let double = tree(style);
            double.install(0, &many(""));
            assert!(stops(&double), "a compaction is to come");
            let double = tree(style);
            double.install(0, &many("busy"));
            assert!(!stops(&double));
        }
    }

    #[test]
    fn a_compaction_that_cannot_run_stops_no_writers() {
        let double = tree(CompactionStyle::Level);
        double.install(0, &many(""));
        let mut state = double.state();
        assert_eq!(state.jobs.pop_family(), Some(0));
        state.family_mut(0).unwrap().compaction.unqueue();
        assert!(stops(&double));
        double.lsm().put_off_compaction(&mut state, 0);
        assert!(!stops(&double));
        drop(state);
        double.install(0, &many(""));
        assert!(stops(&double), "it is tried again");
    }

    /// Debt counts as files do.
    #[test]
    fn debt_that_no_compaction_lowers_stops_no_writers() {
        let double = tree(CompactionStyle::Level);
        double.install(0, "L1 1 a..c 800GB\nL6 2 a..z 900GB");
        assert!(stops(&double), "a compaction is to come");
        let mut state = double.state();
        assert_eq!(state.jobs.pop_family(), Some(0));
        state.family_mut(0).unwrap().compaction.unqueue();
        double.lsm().put_off_compaction(&mut state, 0);
        assert!(!stops(&double));
    }
}
