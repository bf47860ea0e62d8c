//! `rocksdb_ratelimiter_t`: how fast background work may write, shared by databases.

use crate::ffi::boxed;
use crate::options::rocksdb_options_t;
use spanlith_env::{Env, RateLimiter, RateLimiterMode, RateLimiterOptions};
use std::sync::Arc;

/// A rate limiter; a counted reference.
pub struct rocksdb_ratelimiter_t(pub(crate) Arc<RateLimiter>);

/// Writes only, RocksDB's default.
const WRITES_ONLY: i32 = 1;

fn create(
    rate_bytes_per_sec: i64,
    refill_period_us: i64,
    fairness: i32,
    mode: i32,
    auto_tuned: bool,
) -> *mut rocksdb_ratelimiter_t {
    let mut options =
        RateLimiterOptions::new(u64::try_from(rate_bytes_per_sec).unwrap_or(1).max(1));
    options.refill_period_micros = u64::try_from(refill_period_us).unwrap_or(1).max(1);
    options.fairness = u32::try_from(fairness).unwrap_or(1).max(1);
    options.mode = RateLimiterMode::from_number(mode).unwrap_or(RateLimiterMode::Writes);
    options.auto_tuned = auto_tuned;
    let clock = Env::system().clock;
    boxed(rocksdb_ratelimiter_t(Arc::new(RateLimiter::new(
        &options, clock,
    ))))
}

c_api! {
    /// Limits writes to bytes per second, refilled every so many microseconds; a lower priority goes
    /// first once in `fairness` refills.
    fn rocksdb_ratelimiter_create(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        create(rate_bytes_per_sec, refill_period_us, fairness, WRITES_ONLY, false)
    }

    /// As `rocksdb_ratelimiter_create`; the rate follows the demand up to the given one.
    fn rocksdb_ratelimiter_create_auto_tuned(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        create(rate_bytes_per_sec, refill_period_us, fairness, WRITES_ONLY, true)
    }

    /// As `rocksdb_ratelimiter_create`; `mode` says what is limited: 0 reads, 1 writes, 2 both.
    fn rocksdb_ratelimiter_create_with_mode(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
        mode: i32,
        auto_tuned: bool,
    ) -> *mut rocksdb_ratelimiter_t {
        create(rate_bytes_per_sec, refill_period_us, fairness, mode, auto_tuned)
    }

    /// Shares a limiter; NULL keeps the one before.
    fn rocksdb_options_set_ratelimiter(
        options: *mut rocksdb_options_t,
        limiter: *mut rocksdb_ratelimiter_t,
    ) {
        if let Some(limiter) = limiter.as_ref() {
            (*options).parts.rate_limiter = Some(limiter.0.clone());
        }
    }
}

destroyers! {
    rocksdb_ratelimiter_destroy(rocksdb_ratelimiter_t);
}
