//! Many calls of one thread at once: `--outstanding N` (R-SPAN-12).
//!
//! A thread issues until N calls are outstanding, waits for the oldest, takes all that are done, and issues again. Latencies
//! count from the issue of a call to the moment when its result was taken.

use super::kind::Kind;
use super::settings::Settings;
use super::workload::{Pick, write_options};
use spanlith::{Cf, ReadOptions, Result};
use spanlith_workload::generate::{Keys, Rng, Values};
use spanlith_workload::measure::Meter;
use std::collections::VecDeque;

/// Returns whether a benchmark has a form with many calls outstanding.
pub fn has_form(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::FillRandom
            | Kind::FillSync
            | Kind::Overwrite
            | Kind::ReadRandom
            | Kind::ReadHot
            | Kind::ReadMissing
    )
}

/// Puts random keys.
pub fn put_random(
    kind: Kind,
    cf: &Cf,
    s: &Settings,
    mut rng: Rng,
    meter: &mut Meter<'_>,
) -> Result<()> {
    let (mut keys, mut values) = (Keys::new(s.key_size), Values::new(s.value_size, s.seed));
    let options = write_options(kind, s);
    let cf = cf.to_async();
    let most = usize::try_from(s.outstanding).unwrap_or(usize::MAX);
    let mut calls = VecDeque::new();
    meter.restart();
    loop {
        while calls.len() < most && meter.go_on(1) {
            let begun = meter.issue();
            let key = keys.set(rng.below(s.num));
            calls.push_back((begun, cf.put_opt(key, values.next(), &options)));
        }
        let Some((mut begun, mut call)) = calls.pop_front() else {
            return Ok(());
        };
        loop {
            call.wait()?;
            meter.resume(begun);
            meter.done(1, s.entry_size());
            match calls.front() {
                Some((_, next)) if next.is_ready() => {}
                _ => break,
            }
            let Some(next) = calls.pop_front() else { break };
            (begun, call) = next;
        }
    }
}

/// Gets random keys.
pub fn get_random(
    cf: &Cf,
    s: &Settings,
    mut rng: Rng,
    meter: &mut Meter<'_>,
    pick: Pick,
) -> Result<()> {
    let mut keys = Keys::new(s.key_size);
    let options = ReadOptions::new();
    let cf = cf.to_async();
    let most = usize::try_from(s.outstanding).unwrap_or(usize::MAX);
    let range = pick.range(s);
    let mut calls = VecDeque::new();
    meter.restart();
    loop {
        while calls.len() < most && meter.go_on(1) {
            let begun = meter.issue();
            let key = pick.key(&mut keys, rng.below(range));
            calls.push_back((begun, cf.get_opt(key, &options)));
        }
        let Some((begun, call)) = calls.pop_front() else {
            return Ok(());
        };
        let found = call.wait()?;
        meter.resume(begun);
        match found {
            Some(value) => meter.looked_up(1, 1, (s.key_size + value.len()) as u64),
            None => meter.looked_up(1, 0, 0),
        }
    }
}
