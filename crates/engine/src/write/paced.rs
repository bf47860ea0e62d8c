//! Writes that ask the rate limiter for their bytes in the log (`rate_limiter_priority`).

use super::WriteOptions;
use spanlith_base::{Error, Result};
use spanlith_env::{IoDirection, IoPriority, RateLimiter};
use std::sync::Arc;

/// Bytes of a record of the log in front of what is written.
const RECORD_HEADER: usize = 7;

/// Returns whether a write may have this priority.
///
/// # Errors
/// `InvalidArgument` with RocksDB's texts.
#[cold]
pub(super) fn check_priority(
    priority: IoPriority,
    options: &WriteOptions,
    manual_wal_flush: bool,
) -> Result<()> {
    if priority != IoPriority::User {
        return Err(Error::invalid_argument(
            "WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and Env::IO_USER due to \
             implementation constraints",
        ));
    }
    if options.disable_wal || manual_wal_flush {
        return Err(Error::invalid_argument(
            "WriteOptions::rate_limiter_priority currently only supports rate-limiting automatic WAL \
             flush, which requires `WriteOptions::disableWAL` and `DBOptions::manual_wal_flush` both \
             set to false",
        ));
    }
    Ok(())
}

/// Waits until the limiter grants the bytes of a batch. It is the writer that waits, before it joins the
/// queue: those without a priority pass it. In RocksDB the leader waits, and all behind it.
#[cold]
pub(super) fn wait_for_rate(limiter: Option<&Arc<RateLimiter>>, bytes: usize) {
    let Some(limiter) = limiter else {
        return;
    };
    if !limiter.limits(IoDirection::Write) {
        return;
    }
    let mut left = (bytes + RECORD_HEADER) as u64;
    while left > 0 {
        let part = left.min(limiter.single_burst_bytes().max(1));
        // How long it took interests nobody.
        let _ = limiter.request(part, IoPriority::User, IoDirection::Write);
        left -= part;
    }
}
