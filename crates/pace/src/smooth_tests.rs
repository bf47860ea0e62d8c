//! The tests of `smooth`.

use super::*;
use crate::pressure::{DebtFacts, Level0Facts, MemoryFacts};

const MS: u64 = 1_000_000;
const MB: f64 = 1e6;

fn memory(unflushed: f64, room: f64) -> Facts {
    Facts {
        memory: MemoryFacts {
            unflushed: unflushed as u64,
            room: room as u64,
            drains: true,
        },
        ..Facts::default()
    }
}

/// Debt under a pressure.
fn debt(pressure: f64) -> Facts {
    Facts {
        debt: DebtFacts {
            work: (pressure * 1e6) as u64,
            hard: 1_000_000,
            drains: true,
        },
        ..Facts::default()
    }
}

/// One whose stages have all been measured at 100 MB/s, with as much arriving.
fn measured() -> (Smooth, u64, Retired, u64) {
    let mut s = Smooth::new(SmoothOptions::default());
    let busy = Facts {
        memory: MemoryFacts {
            drains: true,
            room: 1 << 40,
            unflushed: 1,
        },
        level0: Level0Facts {
            files: 4.0,
            file_bytes: 1e6,
            trigger: 4,
            stop: 36,
            drains: true,
            ..Level0Facts::default()
        },
        debt: DebtFacts {
            work: 0,
            hard: 0,
            drains: true,
        },
        ..Facts::default()
    };
    let (mut now, mut done) = (0, 0);
    for _ in 0..4000 {
        now += 10 * MS;
        done += 1_000_000;
        s.tick(now, &busy, [done; 4], done);
    }
    (s, now, [done; 4], done)
}

#[test]
fn what_was_not_measured_does_not_limit() {
    let mut s = Smooth::new(SmoothOptions::default());
    for i in 1..100 {
        let d = s.tick(i * MS, &memory(100.0, 1.0), [0; 4], 0);
        assert_eq!((d.rate, d.stage), (None, None));
    }
}

#[test]
fn the_factor_falls_from_two_to_zero_without_a_step() {
    let (mut s, now, done, admitted) = measured();
    let mut rate = |d: f64| {
        s.tick(now, &memory(d * 1e9, (1.0 - d) * 1e9), done, admitted)
            .rate
    };
    assert_eq!(rate(0.29), None);
    let close = |rate: Option<f64>, expected: f64| {
        let rate = rate.unwrap();
        assert!((rate / expected - 1.0).abs() < 0.01, "{rate} {expected}");
    };
    close(rate(0.3001), 233.0 * MB);
    close(rate(0.5), 100.0 * MB);
    close(rate(0.75), 33.3 * MB);
    close(rate(0.95), 5.26 * MB);
    assert_eq!(rate(1.0), Some(MEMORY_RATE_MIN));
    let mut last = f64::MAX;
    for step in 0..700 {
        let now = rate(0.3 + f64::from(step) / 1000.0 + 1e-9).unwrap();
        assert!(now <= last);
        if step > 0 {
            assert!(last - now < 2.0 * MB, "step at {step}: {last} {now}");
        }
        last = now;
    }
}

/// Each pressure is paired with the capacity of its own stage.
#[test]
fn a_burst_is_not_throttled_to_the_speed_of_deep_compactions() {
    let mut s = Smooth::new(SmoothOptions::default());
    let busy = Facts {
        debt: DebtFacts {
            work: 0,
            hard: 1 << 40,
            drains: true,
        },
        ..memory(1.0, 1e12)
    };
    let (mut flushed, mut deep, mut now) = (0u64, 0u64, 0);
    for _ in 0..2000 {
        now += 10 * MS;
        flushed += 2_000_000;
        deep += 50_000;
        s.tick(now, &busy, [flushed, 0, deep, 0], flushed);
    }
    let d = s.tick(now, &memory(50.0, 50.0), [flushed, 0, deep, 0], flushed);
    assert_eq!(d.stage, Some(Stage::Memory));
    assert!((190.0 * MB..210.0 * MB).contains(&d.rate.unwrap()));
}

#[test]
fn rates_of_the_tree_move_slowly_and_never_to_zero() {
    let (mut s, mut now, done, mut admitted) = measured();
    let mut look = |pressure, retired| {
        now += 10 * MS;
        admitted += 1_000_000;
        let d = s.tick(now, &debt(pressure), retired, admitted);
        assert_eq!(d.stage, Some(Stage::Debt));
        d.rate.unwrap()
    };
    // The tree stands still.
    let falling: Vec<f64> = (0..3000).map(|_| look(0.75, done)).collect();
    for pair in falling.windows(2) {
        let step = pair[1] / pair[0];
        let most = (1.0 + SLEW).powf(0.0101);
        assert!(step > 1.0 / most && step < most, "{step}");
    }
    assert!(falling[2999] < 0.5 * falling[0]);
    // Far above the bound, for ever.
    let least = (0..3000).map(|_| look(1.9, done)).fold(f64::MAX, f64::min);
    assert!((RATE_MIN..MB).contains(&least), "{least}");
    // And back, as it drains.
    let mut retired = done;
    let back = (0..6000).map(|_| {
        retired[2] += 1_000_000;
        look(0.375, retired)
    });
    let back: Vec<f64> = back.collect();
    assert!(back.windows(2).all(|p| p[1] / p[0] < 1.01));
    assert!(back[5999] > 50.0 * MB, "{}", back[5999]);
}

/// A backlog that drains by large jobs goes up and down; writers do not.
#[test]
fn the_rate_does_not_follow_every_job() {
    let (mut s, mut now, mut done, mut admitted) = measured();
    let mut rates = Vec::new();
    for i in 0..20_000u64 {
        now += 10 * MS;
        admitted += 1_000_000;
        // Two seconds up, two seconds down at twice the speed of writers.
        let phase = i % 400;
        let pressure = if phase < 200 {
            0.25 + phase as f64 * 0.0025
        } else {
            0.75 - (phase - 200) as f64 * 0.0025
        };
        done[2] += if phase < 200 { 0 } else { 2_000_000 };
        rates.extend(s.tick(now, &debt(pressure), done, admitted).rate);
    }
    let e = crate::evenness(&rates[rates.len() / 2..]);
    assert!(e.variation < 0.1, "{e:?}");
    assert!((80.0 * MB..120.0 * MB).contains(&e.mean), "{e:?}");
}

/// Without pressure the rate gets out of the way, but not at once.
#[test]
fn pacing_ends_with_a_slope() {
    let (mut s, mut now, done, admitted) = measured();
    let mut look = |pressure| {
        now += 10 * MS;
        s.tick(now, &debt(pressure), done, admitted + now / 10).rate
    };
    for _ in 0..1000 {
        look(0.5);
    }
    let mut last = look(0.0).unwrap();
    let mut looks = 0;
    while let Some(rate) = look(0.0) {
        assert!(rate / last < 1.02, "{rate} {last}");
        last = rate;
        looks += 1;
    }
    assert!((100..4000).contains(&looks), "{looks}");
}

#[test]
fn writers_keep_the_floor_until_half_of_the_buffers_are_full() {
    let (mut s, mut now, done, admitted) = measured();
    s.set_options(SmoothOptions {
        stage1_floor_rate: 150_000_000,
    });
    let mut at = |pressure| {
        // Long enough for the rate to arrive.
        for _ in 0..6000 {
            now += 10 * MS;
            s.tick(now, &debt(pressure), done, admitted);
        }
        s.tick(now, &debt(pressure), done, admitted).rate.unwrap()
    };
    assert!(at(0.495) >= 150e6);
    assert!(at(0.505) < 150e6);
}

/// Memory as it is: two memtables, flushes at `flush` bytes per second with a tail, writers that bring `offered`. Returns
/// bytes written per 100 ms, and how long writes were stopped in milliseconds.
fn two_memtables(flush: impl Fn(f64) -> f64, offered: f64, seconds: f64) -> (Vec<f64>, f64) {
    let size = 64e6;
    let mut s = Smooth::new(SmoothOptions::default());
    let (mut active, mut sealed) = (0.0, 0.0);
    let (mut flushed, mut admitted, mut stopped) = (0.0, 0.0, 0.0);
    let mut series = Vec::new();
    let mut now = 0.0;
    let mut window = 0.0;
    let step = 0.001;
    let mut rate = None;
    let mut tick = 0;
    while now < seconds {
        now += step;
        tick += 1;
        if tick % 5 == 0 {
            let facts = if sealed > 0.0 {
                memory(sealed, size - active)
            } else {
                Facts::default()
            };
            let retired = [flushed as u64, 0, 0, 0];
            rate = s
                .tick((now * 1e9) as u64, &facts, retired, admitted as u64)
                .rate;
        }
        let done = (flush(now) * step).min(sealed);
        sealed -= done;
        flushed += done;
        if active >= size && sealed <= 0.0 {
            sealed = active;
            active = 0.0;
        }
        if active >= size {
            stopped += step * 1e3;
        } else {
            let bytes = rate.map_or(offered, |r: f64| r.min(offered)) * step;
            active += bytes;
            admitted += bytes;
            window += bytes;
        }
        if tick % 100 == 0 {
            series.push(window);
            window = 0.0;
        }
    }
    (series, stopped)
}

/// R-XP-08: writers at three times what flushes manage are neither stopped nor in bursts.
#[test]
fn an_overload_of_memory_is_a_flat_line() {
    let flush = |t: f64| 100e6 * (1.0 + 0.2 * (t * 0.7).sin());
    let (series, stopped) = two_memtables(flush, 300e6, 60.0);
    // Behind the first flush, before which nothing is known.
    let e = crate::evenness(&series[50..]);
    assert!(stopped < 1000.0, "{stopped} ms");
    assert_eq!(e.below_half, 0, "{e:?}");
    assert!(e.variation < 0.2, "{e:?}");
    let mean = series[50..].iter().sum::<f64>() / (series.len() - 50) as f64 * 10.0;
    assert!(mean > 95e6, "{mean}");
}

/// A disk that stops for seconds slows writers down in proportion to what is left of the reserve, and releases them.
#[test]
fn a_flush_that_stands_still_for_seconds_is_survived() {
    let flush = |t: f64| {
        if (20.0..23.0).contains(&t) {
            0.0
        } else {
            100e6
        }
    };
    let (series, _) = two_memtables(flush, 90e6, 60.0);
    let last = &series[400..];
    assert!(last.iter().sum::<f64>() / last.len() as f64 > 8.9e6);
}
