//! Reading on in a log that is being written.

use super::{BLOCK_SIZE, Current, LogReader};
use spanlith_base::Result;
use spanlith_env::SequentialFile;

impl LogReader {
    /// File offset that [`Self::read_on`] wants its file to begin at, for records after `end`.
    pub fn block_of(end: u64) -> u64 {
        end - end % BLOCK_SIZE as u64
    }

    /// Forgets what was read after `end`, the end of a record that was returned, and reads on there. `file` is
    /// the same log from [`Self::block_of`] on: what had been torn when it was read may be whole by now. What
    /// was learned of the log, as that its data is compressed, stays.
    ///
    /// # Errors
    /// Those of the file, which every later call repeats.
    pub fn read_on(&mut self, file: Box<dyn SequentialFile>, end: u64) -> Result<()> {
        self.file = file;
        self.block_start = Self::block_of(end);
        self.filled = 0;
        self.last_block = false;
        self.done = false;
        self.returned = false;
        self.current = Current::None;
        self.pending = None;
        self.close_open();
        let filled = self.fill();
        self.failed = filled.as_ref().err().cloned();
        let into = usize::try_from(end - self.block_start).unwrap_or(BLOCK_SIZE);
        self.pos = into.min(self.filled);
        filled
    }
}
