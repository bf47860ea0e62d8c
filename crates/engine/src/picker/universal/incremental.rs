//! A part of the two oldest runs instead of all of them (`incremental`).
//!
//! A window is moved over the files of the second oldest run, with what they overlap in the oldest one.
//! The window with the best ratio between what is rewritten and what goes down is taken, if it is not
//! much worse than that of the whole; files of newer levels that lie within it come along.

use super::super::inputs::{Files, Growth};
use super::super::plan::{CompactionPlan, CompactionReason};
use super::{Runs, Universal};
use crate::version::FileMeta;
use crate::version::version::sstable_key_compare;
use std::sync::Arc;

/// The window that is looked at.
#[derive(Default)]
struct Window {
    /// First file of the upper run.
    start: usize,
    /// First and last file of the oldest run.
    bottom: std::ops::Range<usize>,
    upper_bytes: u64,
    bottom_bytes: u64,
    /// The last file of the oldest run is counted in `bottom_bytes`.
    end_is_counted: bool,
}

impl Window {
    fn bytes(&self) -> u64 {
        self.upper_bytes.wrapping_add(self.bottom_bytes)
    }

    /// Counts the last file of the oldest run, once.
    fn count_end(&mut self, bottom: &[Arc<FileMeta>]) {
        if !self.end_is_counted {
            self.bottom_bytes += bottom[self.bottom.end].size;
            self.end_is_counted = true;
        }
    }

    /// Steps after the last file of the oldest run.
    fn next_end(&mut self) {
        self.bottom.end += 1;
        self.end_is_counted = false;
    }
}

impl Universal<'_> {
    /// The best part of the two oldest runs whose ratio is below `fanout`; `None` if there is none, or a
    /// running plan is in the way.
    pub(super) fn incremental(&self, fanout: f64) -> Option<CompactionPlan> {
        let [.., second, oldest] = &self.runs[..] else {
            return None;
        };
        if second.level == 0 {
            return None;
        }
        let (level, output_level) = (second.level, oldest.level);
        let picking = &self.picking;
        let files = picking.version().files(level);
        let taken = self.best_window(files, picking.version().files(output_level), fanout)?;
        let files = files[taken].to_vec();
        let files = picking.clean_cut(level, files)?;
        let (files, outputs) =
            picking.with_output_level(level, files, output_level, Growth::BothWays)?;
        let mut above: Vec<(usize, Files)> = Vec::new();
        let newer = self.runs[..self.runs.len() - 2].iter().rev();
        for run in newer.take_while(|run| run.level > 0) {
            let of = above.last().map_or(&files, |(_, files)| files);
            let sets = [&of[..]];
            let (low, high) = picking.range(&sets);
            let inside = picking.clean_within(run.level, low, high);
            if !inside.is_empty() {
                above.push((run.level, inside));
            }
        }
        above.reverse();
        let mut inputs = above;
        inputs.push((level, files));
        if !outputs.is_empty() {
            inputs.push((output_level, outputs));
        }
        // Of levels between, some files may be in running plans; RocksDB looks at the range only, and so
        // would take them twice.
        let busy = inputs.iter().any(|(_, files)| super::any_busy(files));
        if busy || self.conflicts(output_level, &inputs) {
            return None;
        }
        Some(self.plan(Runs {
            inputs,
            output_level,
            output_path: 0,
            grandparents: Files::new(),
            reason: CompactionReason::UniversalSizeAmplification,
            compresses: true,
            score: self.score,
        }))
    }

    /// The files of the upper run to take, by their indices.
    fn best_window(
        &self,
        files: &[Arc<FileMeta>],
        bottom: &[Arc<FileMeta>],
        fanout: f64,
    ) -> Option<std::ops::Range<usize>> {
        let c = self.picking.comparator();
        let before = |a: &[u8], b: &[u8]| c.compare_internal(a, b).is_lt();
        debug_assert!(
            files.is_sorted_by(|a, b| { sstable_key_compare(c, &a.largest, &b.smallest).is_le() })
        );
        let limit = self.picking.input.options.compaction_bytes_limit() / 2;
        let (mut best, mut picked) = (fanout, None);
        let mut w = Window::default();
        for (end, file) in files.iter().enumerate() {
            let mut skipped = 0;
            while w.bottom.end < bottom.len()
                && before(&bottom[w.bottom.end].largest, &file.smallest)
            {
                w.count_end(bottom);
                w.next_end();
                skipped += 1;
            }
            if skipped > 1 {
                // Files of the oldest run lie in the gap: a window over it would gain nothing.
                w.start = end;
            }
            if w.start == end {
                (w.upper_bytes, w.bottom_bytes) = (0, 0);
                w.bottom.start = w.bottom.end;
                w.end_is_counted = false;
            }
            w.upper_bytes += file.size;
            while w.bottom.end < bottom.len()
                && before(&bottom[w.bottom.end].smallest, &file.largest)
            {
                w.count_end(bottom);
                if before(&file.largest, &bottom[w.bottom.end].largest) {
                    break;
                }
                w.next_end();
            }
            let is_last = end + 1 == files.len();
            if (w.bytes() <= limit && !is_last) || w.upper_bytes == 0 {
                continue;
            }
            let ratio = w.bottom_bytes as f64 / w.upper_bytes as f64;
            if ratio < best {
                best = ratio;
                picked = Some(w.start..end + 1);
            }
            while w.bytes() > limit && w.start <= end {
                w.upper_bytes -= files[w.start].size;
                w.start += 1;
                let Some(first) = files.get(w.start) else {
                    continue;
                };
                while w.bottom.start <= w.bottom.end
                    && let Some(passed) = bottom.get(w.bottom.start)
                    && before(&passed.largest, &first.smallest)
                {
                    w.bottom_bytes = w.bottom_bytes.saturating_sub(passed.size);
                    w.bottom.start += 1;
                }
            }
        }
        picked
    }
}
