//! The rate limiter in virtual time, where sleeping costs nothing and is exact.

use super::*;
use crate::clock::VirtualClock;

const SECOND: u64 = 1_000_000;

fn limiter(options: &RateLimiterOptions) -> (Arc<VirtualClock>, RateLimiter) {
    let clock = Arc::new(VirtualClock::new());
    let limiter = RateLimiter::new(options, clock.clone());
    (clock, limiter)
}

fn write(limiter: &RateLimiter, bytes: u64) -> u64 {
    limiter.request(bytes, IoPriority::Low, IoDirection::Write)
}

#[test]
fn bytes_pass_at_the_rate_and_no_faster() {
    let (clock, limiter) = limiter(&RateLimiterOptions::new(SECOND));
    let start = clock.monotonic_nanos();
    for _ in 0..300 {
        write(&limiter, 10_000);
    }
    let micros = (clock.monotonic_nanos() - start) / 1000;
    // Three seconds' worth; the first and the last period may be given in advance.
    assert!((2_800_000..=3_000_000).contains(&micros), "{micros}");
    assert_eq!(limiter.total_bytes(None), 3_000_000);
    assert_eq!(limiter.total_requests(Some(IoPriority::Low)), 300);
    assert_eq!(limiter.total_bytes(Some(IoPriority::High)), 0);
}

#[test]
fn unused_bytes_do_not_pile_up_beyond_one_period() {
    let (clock, limiter) = limiter(&RateLimiterOptions::new(SECOND));
    write(&limiter, 1);
    clock.advance(Duration::from_secs(60));
    assert_eq!(write(&limiter, 99_999), 0);
    write(&limiter, 1);
    assert!(write(&limiter, 100_000) > 0);
}

#[test]
fn a_request_larger_than_a_burst_is_split() {
    let mut options = RateLimiterOptions::new(SECOND);
    let (_, whole) = limiter(&options);
    assert_eq!(whole.single_burst_bytes(), 100_000);
    let waited = write(&whole, 1_000_000);
    assert!((800_000..=1_000_000).contains(&waited), "{waited}");
    assert_eq!(whole.total_requests(None), 10);
    options.single_burst_bytes = 250_000;
    let (_, wide) = limiter(&options);
    write(&wide, 1_000_000);
    assert_eq!(wide.total_requests(None), 4);
    assert_eq!(wide.total_bytes(None), 1_000_000);
}

#[test]
fn only_the_direction_of_the_mode_is_limited() {
    for (mode, read, written) in [
        (RateLimiterMode::Reads, 7, 0),
        (RateLimiterMode::Writes, 0, 7),
        (RateLimiterMode::All, 7, 7),
    ] {
        let mut options = RateLimiterOptions::new(SECOND);
        options.mode = mode;
        let (_, limiter) = limiter(&options);
        limiter.request(7, IoPriority::High, IoDirection::Read);
        assert_eq!(limiter.total_bytes(None), read, "{mode:?}");
        write(&limiter, 7);
        assert_eq!(limiter.total_bytes(None), read + written, "{mode:?}");
        assert_eq!(RateLimiterMode::from_number(mode as i32), Some(mode));
    }
    assert_eq!(RateLimiterMode::from_number(3), None);
}

#[test]
fn a_new_rate_counts_from_the_next_refill() {
    let (clock, limiter) = limiter(&RateLimiterOptions::new(SECOND));
    write(&limiter, 100_000);
    limiter.set_bytes_per_second(10 * SECOND);
    assert_eq!(limiter.bytes_per_second(), 10 * SECOND);
    let start = clock.monotonic_nanos();
    write(&limiter, 10_000_000);
    let micros = (clock.monotonic_nanos() - start) / 1000;
    assert!((900_000..=1_100_000).contains(&micros), "{micros}");
}

#[test]
fn user_requests_are_served_first_and_none_starves() {
    let (clock, limiter) = limiter(&RateLimiterOptions::new(SECOND));
    let mut state = limiter.state.lock();
    let mut served = [0u64; 4];
    let mut first_of_the_rest = [0u64; 4];
    for round in 0..2000u64 {
        for queue in &mut state.queues {
            queue.clear();
            queue.push_back(Waiting {
                ticket: round,
                bytes_left: 50_000,
            });
        }
        state.available = 0;
        limiter.refill(&mut state, clock.monotonic_nanos() / 1000);
        let mut count = 0;
        for class in 0..4 {
            if state.queues[class].is_empty() {
                served[class] += 1;
                count += 1;
                if class != IoPriority::User as usize {
                    first_of_the_rest[class] += 1;
                }
            }
        }
        // One period's 100 000 bytes serve two requests.
        assert_eq!(count, 2);
        assert!(state.queues[IoPriority::User as usize].is_empty());
    }
    let [low, mid, high, _] = first_of_the_rest;
    // One time in ten something else goes before the high ones, and of these one in ten low.
    assert!((1700..1900).contains(&high), "{high}");
    assert!((120..280).contains(&mid), "{mid}");
    assert!((3..60).contains(&low), "{low}");
}

#[test]
fn a_tuned_rate_follows_the_demand_between_its_bounds() {
    let mut options = RateLimiterOptions::new(20 * SECOND);
    options.auto_tuned = true;
    let (clock, limiter) = limiter(&options);
    assert_eq!(limiter.bytes_per_second(), 10 * SECOND);
    // Nobody waits: down to the least.
    for _ in 0..3 {
        clock.advance(Duration::from_secs(10));
        write(&limiter, 1);
    }
    assert_eq!(limiter.bytes_per_second(), SECOND);
    // Everybody waits: up again, by a twentieth each time, and no further than the limit.
    for _ in 0..3000 {
        write(&limiter, limiter.single_burst_bytes());
    }
    let risen = limiter.bytes_per_second();
    assert!(risen > SECOND * 2, "{risen}");
    for _ in 0..20_000 {
        write(&limiter, limiter.single_burst_bytes());
    }
    assert_eq!(limiter.bytes_per_second(), 20 * SECOND);
}

#[test]
fn many_threads_wait_for_one_bucket_and_all_are_served() {
    let mut options = RateLimiterOptions::new(100 * SECOND);
    options.refill_period_micros = 1000;
    let limiter = RateLimiter::new(&options, Arc::new(crate::clock::SystemClock));
    std::thread::scope(|scope| {
        for priority in IoPriority::ALL {
            let limiter = &limiter;
            scope.spawn(move || {
                for _ in 0..20 {
                    limiter.request(50_000, priority, IoDirection::Write);
                }
            });
        }
    });
    assert_eq!(limiter.total_bytes(None), 4_000_000);
    assert_eq!(limiter.pending_requests(None), 0);
}
