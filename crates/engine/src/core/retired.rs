//! Logs that recovery does not need any more are put away once the MANIFEST says so (WAL3).

use super::Engine;
use spanlith_env::Unlinked;

impl Engine {
    /// Puts away logs that hold nothing unflushed (WAL3). Returns what holds the contents of those that were
    /// deleted: to be dropped where nobody waits.
    pub(crate) fn retire_logs(&self) -> Vec<Unlinked> {
        let mut contents = Vec::new();
        if self.c.purge.is_disabled() {
            return contents;
        }
        let dead = self.state.lock().logs.take_dead();
        if dead.is_empty() {
            self.vouch_for_unlogged();
        } else {
            self.logs.forget_unsynced(&dead);
            self.vouch_for_manifest();
        }
        let mut is_away = false;
        let reusable_max = self.c.options.recycle_log_file_num as usize;
        for n in dead {
            if self.state.lock().logs.keep_for_reuse(n, reusable_max) {
                continue;
            }
            // A log that cannot be put away is older than any family's log number: the next open
            // ignores it and tries again.
            match self.logs.put_away(n, &self.reporter) {
                Ok(unlinked) => {
                    is_away = true;
                    contents.push(unlinked);
                }
                Err(e) => {
                    let log = self.reporter.log();
                    log.warn(format_args!("cannot put away log {n:06}: {e}"));
                }
            }
        }
        if is_away {
            self.logs.sync_away(&self.reporter);
        }
        self.logs.purge_archive(&*self.c.env.clock, &self.reporter);
        contents
    }
}
