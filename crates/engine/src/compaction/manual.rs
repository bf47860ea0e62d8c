//! `compact_range`: flushes, then compacts a key range level by level down to the deepest.

use crate::core::{Engine, Family};
use crate::picker::pick_manual;
use crate::version::LevelTargets;
use spanlith_base::{Error, MAX_SEQUENCE, Result, keys};
use std::sync::Arc;

impl Engine {
    /// Compacts all entries with `begin ≤ key ≤ end` (`None`: unbounded) into the deepest level that
    /// holds any, as RocksDB: the bottommost level itself is not rewritten.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.writable()?;
        if let (Some(begin), Some(end)) = (begin, end)
            && family.comparator.compare(begin, end).is_gt()
        {
            return Ok(());
        }
        if in_memtables(family, begin, end) {
            self.flush(&[family.clone()], true)?;
        }
        {
            let mut state = self.state.lock();
            if state.closing {
                return Err(Error::shutdown(""));
            }
            state.manual += 1;
        }
        let result = self.compact_levels(family, begin, end);
        let mut state = self.state.lock();
        state.manual -= 1;
        self.schedule(&mut state);
        drop(state);
        self.changed.notify_all();
        for n in self.c.purge.run() {
            self.c.log.info(format_args!("deleted table {n:06}"));
        }
        result
    }

    fn compact_levels(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let last = family.superversion.load().version.num_levels() - 1;
        let mut level = 0;
        while level < last {
            let output = {
                let state = self.state.lock();
                let f = state.alive(family.id)?;
                let v = &f.version;
                let deepest = (0..v.levels.len())
                    .rev()
                    .find(|&l| !v.overlapping(l, begin, end).is_empty());
                let Some(deepest) = deepest else {
                    return Ok(());
                };
                if level > 0 && level >= deepest {
                    return Ok(());
                }
                if level == 0 {
                    LevelTargets::compute(v, &f.settings.levels).base_level
                } else {
                    level + 1
                }
            };
            self.compact_level(family, level, output, begin, end)?;
            level = output;
        }
        Ok(())
    }

    /// Compacts what the range holds in one level into another.
    fn compact_level(
        self: &Arc<Self>,
        family: &Arc<Family>,
        level: usize,
        output: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let mut from = begin.map(<[u8]>::to_vec);
        loop {
            let mut state = self.state.lock();
            if state.closing {
                return Err(Error::shutdown(""));
            }
            if let Some(e) = &state.error {
                return Err(e.clone());
            }
            if state.compactions_running > 0 {
                // Automatic jobs that began before; no new ones start while `manual` counts.
                drop(self.wait_changed(state));
                continue;
            }
            let input = self.picker_input(state.alive(family.id)?);
            let Some(picked) = pick_manual(&input, level, output, from.as_deref(), end) else {
                return Ok(());
            };
            let job = self.start_plan(&mut state, family.id, picked.plan);
            drop(state);
            if let Some(job) = job {
                let result = self.run_plan(&job);
                self.end_plan(&job);
                result?;
            }
            match picked.next_begin {
                Some(next) => from = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// Whether a memtable holds a key of the range. A range open at either end counts as touched
/// without looking, as in RocksDB.
fn in_memtables(family: &Family, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
    let (Some(begin), Some(end)) = (begin, end) else {
        return true;
    };
    let from = keys::internal_key(begin, keys::seek_tag(MAX_SEQUENCE));
    let view = family.superversion.load();
    std::iter::once(&view.mem).chain(&view.imm).any(|mem| {
        let ranges = mem.range_tombstones();
        if ranges.is_some_and(|r| r.overlaps(Some(begin), Some(end))) {
            return true;
        }
        let mut iter = mem.iter();
        iter.seek(&from);
        let comparator = &family.comparator;
        iter.valid() && comparator.compare(keys::user_key(iter.key()), end).is_le()
    })
}
