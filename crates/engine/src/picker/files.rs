//! A compaction of files that a caller names.
//!
//! The named files are completed until the result keeps the order of versions: neighbours that share
//! a user key, older files of level 0, and what overlaps in the levels down to the output.

use super::inputs::{Draft, Files, PickerInput, Picking, any_busy};
use super::plan::{CompactionPlan, CompactionReason};
use crate::version::filenames::table_file_name;
use crate::version::version::sstable_key_compare;
use crate::version::{FileMeta, Version};
use spanlith_base::{Error, Result};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Describes what the caller asks for.
#[derive(Clone, Debug)]
pub struct NamedFiles<'a> {
    /// Numbers of the files.
    pub numbers: &'a [u64],
    /// Level of the outputs.
    pub output_level: usize,
    /// Index of the directory of the outputs.
    pub output_path: u32,
    /// Size at which outputs are cut; `u64::MAX` for any.
    pub output_file_size_limit: u64,
    /// Name of the family, for messages.
    pub family: &'a str,
}

/// The plan for named files.
///
/// # Errors
/// `InvalidArgument` if a file is not there, lies below the output level, or none is named;
/// `Aborted` if a running plan is in the way.
pub fn pick_files(input: &PickerInput<'_>, named: &NamedFiles<'_>) -> Result<CompactionPlan> {
    let picking = Picking::new(input);
    let last = input.version.num_levels() - 1;
    if named.output_level > last {
        return Err(Error::invalid_argument(format!(
            "Output level for column family {} must between [0, {last}].",
            named.family
        )));
    }
    if named.numbers.is_empty() {
        return Err(Error::invalid_argument(
            "A compaction must contain at least one file.",
        ));
    }
    let mut wanted: BTreeSet<u64> = named.numbers.iter().copied().collect();
    for &number in &wanted {
        let name = table_file_name(number);
        match input.version.locate(number) {
            None => {
                return Err(Error::invalid_argument(format!(
                    "Specified compaction input file /{name} does not exist in column family {}.",
                    named.family
                )));
            }
            Some((level, _)) if level > named.output_level => {
                return Err(Error::invalid_argument(format!(
                    "Cannot compact file to up level, input file: /{name} level {level} > output \
                     level {}",
                    named.output_level
                )));
            }
            Some((level, at)) if input.version.files(level)[at].is_being_compacted() => {
                return Err(busy(number));
            }
            Some(_) => {}
        }
    }
    let mut inputs: Vec<(usize, Files)> = Vec::new();
    for level in 0..=named.output_level {
        let files = picking.completed(level, named.output_level, &wanted);
        if files.is_empty() {
            continue;
        }
        if let Some(f) = files.iter().find(|f| f.is_being_compacted()) {
            return Err(busy(f.number));
        }
        wanted.extend(files.iter().map(|f| f.number));
        inputs.push((level, files));
        // All that overlaps what goes down comes along.
        let sets: Vec<&[Arc<FileMeta>]> = inputs.iter().map(|(_, f)| &f[..]).collect();
        let (low, high) = picking.range(&sets);
        for below in level + 1..=named.output_level {
            let files = picking.overlapping(below, low, high);
            wanted.extend(files.iter().map(|f| f.number));
        }
    }
    let sets: Vec<&[Arc<FileMeta>]> = inputs.iter().map(|(_, f)| &f[..]).collect();
    let level0 = inputs.first().is_some_and(|i| i.0 == 0);
    if picking.output_conflicts(named.output_level, &sets) || (level0 && picking.level0_is_busy()) {
        return Err(Error::aborted(
            "A running compaction is writing to the same output level(s) in an overlapping key \
             range",
        ));
    }
    let grandparents = picking.grandparents(named.output_level, &sets);
    let mut plan = picking.plan(Draft {
        inputs,
        output_level: named.output_level,
        output_path: Some(named.output_path),
        grandparents,
        reason: CompactionReason::ManualFiles,
        score: -1.0,
        level0_inputs_are_apart: false,
    });
    plan.is_trivial_move = false;
    if named.output_level > 0 {
        plan.max_output_file_size = named.output_file_size_limit;
        plan.target_file_size = named.output_file_size_limit;
    }
    Ok(plan)
}

fn busy(number: u64) -> Error {
    Error::aborted(format!(
        "Necessary compaction input file {} is currently being compacted.",
        table_file_name(number)
    ))
}

/// Files of a sorted level that lie wholly inside a range of internal keys (`None` is open) and share
/// no user key with files that do not. An end that is the sentinel of a range tombstone is not in the
/// range: what is added must not reach beyond what the range was found to overlap.
pub fn files_within(
    version: &Version,
    level: usize,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Files {
    let c = &version.comparator;
    let files = version.files(level);
    let inside = |f: &FileMeta| {
        begin.is_none_or(|b| sstable_key_compare(c, &f.smallest, b) != Ordering::Less)
            && end.is_none_or(|e| sstable_key_compare(c, &f.largest, e) != Ordering::Greater)
    };
    let touches =
        |a: &FileMeta, b: &FileMeta| sstable_key_compare(c, &a.largest, &b.smallest).is_eq();
    let Some(mut first) = files.iter().position(|f| inside(f)) else {
        return Files::new();
    };
    let mut last = files
        .iter()
        .rposition(|f| inside(f))
        .map_or(first, |at| at + 1);
    while first < last && first > 0 && touches(&files[first - 1], &files[first]) {
        first += 1;
    }
    while first < last && last < files.len() && touches(&files[last - 1], &files[last]) {
        last -= 1;
    }
    files[first..last].to_vec()
}

impl Picking<'_> {
    /// The wanted files of a level and what has to go with them.
    fn completed(&self, level: usize, output_level: usize, wanted: &BTreeSet<u64>) -> Files {
        let files = self.version().files(level);
        let is_wanted = |f: &Arc<FileMeta>| wanted.contains(&f.number);
        let (Some(mut first), Some(mut last)) = (
            files.iter().position(is_wanted),
            files.iter().rposition(is_wanted),
        ) else {
            return Files::new();
        };
        let c = self.comparator();
        let touch = |a: &FileMeta, b: &FileMeta| {
            let (end, begin) = (a.largest_user_key(), b.smallest_user_key());
            c.compare_without_timestamp(end, true, begin, true) != Ordering::Less
        };
        if level > 0 {
            while first > 0 && touch(&files[first - 1], &files[first]) {
                first -= 1;
            }
            while last + 1 < files.len() && touch(&files[last], &files[last + 1]) {
                last += 1;
            }
        } else if output_level > 0 {
            // All files that are older than a file that sinks must sink with it.
            last = files.len() - 1;
        }
        files[first..=last].to_vec()
    }

    /// Returns whether none of the files is in a running plan and no plan writes where they go.
    pub(super) fn is_free(&self, output_level: usize, sets: &[&[Arc<FileMeta>]]) -> bool {
        !sets.iter().any(|s| any_busy(s)) && !self.output_conflicts(output_level, sets)
    }
}
