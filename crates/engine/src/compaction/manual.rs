//! `compact_range`: flushes, then compacts a key range level by level down to the deepest.

use crate::core::Engine;
use crate::picker::pick_manual;
use spanlith_base::{Error, MAX_SEQUENCE, Result, keys};
use std::sync::Arc;

impl Engine {
    /// Compacts all entries with `begin ≤ key ≤ end` (`None`: unbounded) into the deepest level that
    /// holds any, as RocksDB: the bottommost level itself is not rewritten.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        if let (Some(begin), Some(end)) = (begin, end)
            && self.c.family.comparator.compare(begin, end).is_gt()
        {
            return Ok(());
        }
        if self.in_memtables(begin, end) {
            self.flush(true)?;
        }
        {
            let mut state = self.state.lock();
            if state.closing {
                return Err(Error::shutdown(""));
            }
            state.manual += 1;
        }
        let result = self.compact_levels(begin, end);
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

    /// Whether a memtable holds a key of the range. A range open at either end counts as touched
    /// without looking, as in RocksDB.
    fn in_memtables(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        let (Some(begin), Some(end)) = (begin, end) else {
            return true;
        };
        let from = keys::internal_key(begin, keys::seek_tag(MAX_SEQUENCE));
        let view = self.superversion.load();
        std::iter::once(&view.mem).chain(&view.imm).any(|mem| {
            let mut iter = mem.iter();
            iter.seek(&from);
            let comparator = &self.c.family.comparator;
            iter.valid() && comparator.compare(keys::user_key(iter.key()), end).is_le()
        })
    }

    fn compact_levels(self: &Arc<Self>, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let last = self.c.family.levels.num_levels as usize - 1;
        let mut level = 0;
        while level < last {
            let output = {
                let state = self.state.lock();
                let v = &state.version;
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
                    self.targets(v).base_level
                } else {
                    level + 1
                }
            };
            self.compact_level(level, output, begin, end)?;
            level = output;
        }
        Ok(())
    }

    /// Compacts what the range holds in one level into another.
    fn compact_level(
        self: &Arc<Self>,
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
            let input = self.picker_input(&state);
            let Some(picked) = pick_manual(&input, level, output, from.as_deref(), end) else {
                return Ok(());
            };
            let (plan, id) = self.start_plan(&mut state, picked.plan);
            drop(state);
            let result = self.run_plan(&plan);
            self.end_plan(&plan, id);
            result?;
            match picked.next_begin {
                Some(next) => from = Some(next),
                None => return Ok(()),
            }
        }
    }
}
