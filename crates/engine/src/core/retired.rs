//! Logs that recovery does not need any more are put away once the MANIFEST says so (WAL3).

use super::witness::Voucher;
use super::{Leadership, Lsm};
use spanlith_env::Unlinked;

/// Puts logs away.
pub(crate) struct LogRetirement<'a> {
    lsm: &'a Lsm,
    leader: &'a Leadership,
}

impl<'a> LogRetirement<'a> {
    /// Of these trees. The current log, which `leader` has, is told what went.
    pub(crate) fn new(lsm: &'a Lsm, leader: &'a Leadership) -> Self {
        Self { lsm, leader }
    }

    /// Puts away logs that hold nothing unflushed (WAL3). Returns what holds the contents of those that were
    /// deleted: to be dropped where nobody waits.
    pub(crate) fn run(&self) -> Vec<Unlinked> {
        let (lsm, voucher) = (self.lsm, Voucher::new(self.lsm, self.leader));
        let mut contents = Vec::new();
        if lsm.c.purge.is_disabled() {
            return contents;
        }
        let dead = lsm.state.lock().logs.take_dead();
        if dead.is_empty() {
            voucher.vouch_for_unlogged();
        } else {
            lsm.logs.forget_unsynced(&dead);
            voucher.vouch_for_manifest();
        }
        let mut is_away = false;
        let reusable_max = lsm.c.options.recycle_log_file_num as usize;
        for n in dead {
            debug_assert!(
                lsm.state.lock().min_log_number() > n,
                "WAL3: log {n} is needed"
            );
            if lsm.state.lock().logs.keep_for_reuse(n, reusable_max) {
                continue;
            }
            // A log that cannot be put away is older than any family's log number: the next open
            // ignores it and tries again.
            match lsm.logs.put_away(n, &lsm.reporter) {
                Ok(unlinked) => {
                    is_away = true;
                    contents.push(unlinked);
                }
                Err(e) => {
                    let log = lsm.reporter.log();
                    log.warn(format_args!("cannot put away log {n:06}: {e}"));
                }
            }
        }
        if is_away {
            lsm.logs.sync_away(&lsm.reporter);
        }
        lsm.logs.purge_archive(&*lsm.c.env.clock, &lsm.reporter);
        contents
    }
}
