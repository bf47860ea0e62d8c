//! Point lookups through the cache of rows.

use super::get::{Lookup, ReadContext};
use crate::version::{FileMeta, Row, RowCache, RowPlace, RowWriter};
use spanlith_base::Result;
use spanlith_base::perf::{self, PerfCounter, PerfTime};

impl Lookup<'_> {
    /// Takes in a table: its range tombstones, then its entries.
    pub(super) fn in_file(
        &mut self,
        file: &FileMeta,
        hash: u64,
        ctx: &ReadContext<'_>,
    ) -> Result<()> {
        let counters = ctx.cache.readers.counters.as_ref();
        let timer = counters.map(|c| {
            let now = || c.clock.monotonic_nanos();
            perf::timer(PerfCounter::FindTableNanos, PerfTime::Work, now)
        });
        let reader = ctx.cache.reader(file)?;
        drop(timer);
        if let Some(list) = file.tombstones.get() {
            self.note_ranges(list);
        }
        self.in_table(&reader, hash, &ctx.params)
    }

    /// As [`Self::in_file`], by the row of the cache if it is there; else the row is put there.
    pub(super) fn in_table_by_row(
        &mut self,
        rows: &RowCache,
        file: &FileMeta,
        hash: u64,
        ctx: &ReadContext<'_>,
    ) -> Result<()> {
        let place = RowPlace::new(
            (file.number, file.largest_seqno),
            (self.key(), hash),
            self.snapshot(),
        );
        // A row says that no range tombstone of its table lies over the key, too.
        let Some(row) = rows.find(&place) else {
            let reader = ctx.cache.reader(file)?;
            if let Some(list) = file.tombstones.get() {
                self.note_ranges(list);
            }
            if !self.keeps_row_of(file, ctx) {
                return self.in_table(&reader, hash, &ctx.params);
            }
            let mut row = RowWriter::new(&place);
            self.in_table_seen(&reader, hash, &ctx.params, |tag, value| {
                row.push(tag, value);
            })?;
            rows.keep(&place, row);
            return Ok(());
        };
        self.take_row(&row)
    }

    /// Takes in what a row says.
    pub(super) fn take_row(&mut self, row: &Row) -> Result<()> {
        for (tag, value) in row.entries() {
            if self.visit(tag, || row.block().pin(value))? {
                break;
            }
        }
        Ok(())
    }

    /// Says whether what is read of a table, whose range tombstones are noted, may be kept as a row: what a range
    /// tombstone cuts short is not all that the table holds of the key.
    pub(super) fn keeps_row_of(&self, file: &FileMeta, ctx: &ReadContext<'_>) -> bool {
        !(self.is_covered() || ctx.ignore_ranges && file.tombstones.get().is_some())
    }
}
