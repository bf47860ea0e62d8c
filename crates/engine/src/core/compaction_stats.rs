//! What flushes and compactions of a family have done, by the level they wrote to.

use crate::picker::CompactionPlan;

/// Work whose outputs went to one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Jobs.
    pub count: u64,
    /// Microseconds of all jobs.
    pub micros: u64,
    /// Bytes read from tables of levels above.
    pub bytes_read_above: u64,
    /// Bytes read from tables of the level itself.
    pub bytes_read_in_level: u64,
    /// Bytes of new tables.
    pub bytes_written: u64,
    /// Bytes of tables that were moved here without rewriting.
    pub bytes_moved: u64,
    /// Tables read from levels above.
    pub files_read_above: u64,
    /// Tables read from the level itself.
    pub files_read_in_level: u64,
    /// New tables.
    pub files_written: u64,
    /// Entries read.
    pub records_in: u64,
    /// Entries read and not written.
    pub records_dropped: u64,
    /// Entries written.
    pub records_out: u64,
}

impl LevelStats {
    /// What a plan reads; nothing of it is done yet.
    pub(crate) fn of_inputs(plan: &CompactionPlan) -> Self {
        let mut stats = Self {
            count: 1,
            ..Self::default()
        };
        for (level, files) in &plan.inputs {
            let bytes: u64 = files.iter().map(|f| f.size).sum();
            if *level == plan.output_level {
                stats.bytes_read_in_level += bytes;
                stats.files_read_in_level += files.len() as u64;
            } else {
                stats.bytes_read_above += bytes;
                stats.files_read_above += files.len() as u64;
            }
        }
        stats
    }

    /// The sum with further work.
    pub fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.micros += more.micros;
        self.bytes_read_above += more.bytes_read_above;
        self.bytes_read_in_level += more.bytes_read_in_level;
        self.bytes_written += more.bytes_written;
        self.bytes_moved += more.bytes_moved;
        self.files_read_above += more.files_read_above;
        self.files_read_in_level += more.files_read_in_level;
        self.files_written += more.files_written;
        self.records_in += more.records_in;
        self.records_dropped += more.records_dropped;
        self.records_out += more.records_out;
    }
}

/// The work of a family since the database was opened.
#[derive(Clone, Debug, Default)]
pub struct CompactionStats {
    /// By output level; flushes count for level 0.
    pub levels: Vec<LevelStats>,
    /// Bytes written by flushes alone.
    pub flushed_bytes: u64,
}

impl CompactionStats {
    /// Takes in a job's work.
    pub(crate) fn add(&mut self, level: usize, work: &LevelStats) {
        if self.levels.len() <= level {
            self.levels.resize(level + 1, LevelStats::default());
        }
        if let Some(stats) = self.levels.get_mut(level) {
            stats.add(work);
        }
    }

    /// Takes in a flush.
    pub(crate) fn add_flush(&mut self, micros: u64, bytes: u64, files: u64) {
        self.flushed_bytes += bytes;
        let work = LevelStats {
            count: 1,
            micros,
            bytes_written: bytes,
            files_written: files,
            ..LevelStats::default()
        };
        self.add(0, &work);
    }
}
