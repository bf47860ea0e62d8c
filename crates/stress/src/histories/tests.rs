//! The search against histories whose answer is known, and against trying all orders.

use super::history::{Action, Effect, Event, History, State};
use super::search::{Verdict, check};
use spanlith_testkit::{Rng, seed, test_name};

use Effect::{Add, Delete, Put};

fn event(invoked: u64, returned: u64, action: Action) -> Event {
    Event {
        thread: 0,
        verb: "test",
        invoked,
        returned,
        action,
    }
}

fn write(invoked: u64, returned: u64, effects: &[(usize, Effect)]) -> Event {
    event(invoked, returned, Action::Write(effects.to_vec()))
}

fn saw(invoked: u64, returned: u64, seen: &[(usize, Option<u64>)]) -> Event {
    event(invoked, returned, Action::Observe(seen.to_vec()))
}

fn is_linearizable(events: Vec<Event>) -> bool {
    match check(&History { keys: 3, events }, 1_000_000) {
        Verdict::Linearizable => true,
        Verdict::Broken(_) => false,
        Verdict::Undecided => panic!("undecided"),
    }
}

#[test]
fn what_one_order_explains_is_linearizable() {
    assert!(is_linearizable(Vec::new()));
    // Two writes overlap, and the reads after them agree on the one that began first as the last.
    assert!(is_linearizable(vec![
        write(1, 6, &[(0, Put(10))]),
        write(2, 5, &[(0, Put(20))]),
        saw(7, 8, &[(0, Some(10))]),
        saw(9, 10, &[(0, Some(10))]),
    ]));
    // A read sees a write that has not returned, and one that began earlier does not.
    assert!(is_linearizable(vec![
        write(1, 9, &[(0, Put(10))]),
        saw(2, 8, &[(0, None)]),
        saw(3, 4, &[(0, Some(10))]),
    ]));
    assert!(is_linearizable(vec![
        write(1, 2, &[(0, Add(5)), (1, Put(1)), (0, Add(6)), (1, Delete)]),
        saw(3, 4, &[(0, Some(11)), (1, None), (2, None)]),
    ]));
}

#[test]
fn stale_reads_are_caught() {
    assert!(!is_linearizable(vec![
        write(1, 2, &[(0, Put(10))]),
        saw(3, 4, &[(0, None)]),
    ]));
    // The second read sees an older state than the first.
    assert!(!is_linearizable(vec![
        write(1, 9, &[(0, Put(10))]),
        saw(2, 3, &[(0, Some(10))]),
        saw(4, 5, &[(0, None)]),
    ]));
}

#[test]
fn values_that_nobody_wrote_or_that_come_too_early_are_caught() {
    assert!(!is_linearizable(vec![saw(1, 2, &[(0, Some(10))])]));
    assert!(!is_linearizable(vec![
        saw(1, 2, &[(0, Some(10))]),
        write(3, 4, &[(0, Put(10))]),
    ]));
}

#[test]
fn half_a_batch_is_caught() {
    let batch = || write(1, 6, &[(0, Put(10)), (1, Put(11))]);
    assert!(!is_linearizable(vec![
        batch(),
        saw(2, 3, &[(0, Some(10)), (1, None)]),
    ]));
    // Each key by itself is fine, but no moment serves both reads.
    assert!(!is_linearizable(vec![
        batch(),
        saw(2, 3, &[(0, Some(10))]),
        saw(4, 5, &[(1, None)]),
    ]));
}

#[test]
fn lost_additions_are_caught() {
    let adds = [write(1, 4, &[(0, Add(10))]), write(2, 3, &[(0, Add(20))])];
    for (sum, fine) in [(10, false), (20, false), (30, true), (50, false)] {
        let mut events = adds.to_vec();
        events.push(saw(5, 6, &[(0, Some(sum))]));
        assert_eq!(is_linearizable(events), fine, "{sum}");
    }
}

#[test]
fn readers_that_disagree_about_the_order_of_writes_are_caught() {
    // Every key alone is linearizable.
    assert!(!is_linearizable(vec![
        write(1, 10, &[(0, Put(10))]),
        write(2, 11, &[(1, Put(11))]),
        saw(3, 4, &[(0, Some(10)), (1, None)]),
        saw(5, 6, &[(0, None), (1, Some(11))]),
    ]));
}

#[test]
fn a_deletion_that_comes_back_is_caught() {
    assert!(!is_linearizable(vec![
        write(1, 2, &[(0, Put(10))]),
        write(3, 4, &[(0, Delete)]),
        saw(5, 6, &[(0, None)]),
        saw(7, 8, &[(0, Some(10))]),
    ]));
}

#[test]
fn the_report_names_what_did_not_fit() {
    let events = vec![write(1, 2, &[(0, Put(10))]), saw(3, 4, &[(0, Some(12))])];
    let Verdict::Broken(text) = check(&History { keys: 1, events }, 100) else {
        panic!("not caught");
    };
    assert!(
        text.contains("[   3..   4] thread 0 test saw k0:c"),
        "{text}"
    );
}

/// Returns whether some order works, by trying all.
fn by_trying(events: &[Event], left: &mut Vec<usize>, state: &State) -> bool {
    if left.is_empty() {
        return true;
    }
    for at in 0..left.len() {
        let e = &events[left[at]];
        let fits = left.iter().all(|o| events[*o].returned > e.invoked) && e.action.agrees(state);
        if !fits {
            continue;
        }
        let mut after = state.clone();
        if let Action::Write(effects) = &e.action {
            for &(key, effect) in effects {
                after[key] = effect.apply(after[key]);
            }
        }
        let event = left.remove(at);
        let works = by_trying(events, left, &after);
        left.insert(at, event);
        if works {
            return true;
        }
    }
    false
}

#[test]
fn the_search_agrees_with_trying_all_orders() {
    let mut rng = Rng::new(seed(test_name!()));
    let mut counts = [0_u64; 2];
    for _ in 0..4000 {
        let number = 3 + rng.index(4);
        let mut ticks: Vec<u64> = (0..2 * number as u64).collect();
        rng.shuffle(&mut ticks);
        let mut events: Vec<Event> = Vec::new();
        for n in 0..number {
            let (a, b) = (ticks[2 * n], ticks[2 * n + 1]);
            let mut keys = vec![rng.index(3)];
            if rng.one_in(2) {
                keys.push(rng.index(3));
            }
            // Few values, so that several orders explain one observation.
            let value = |rng: &mut Rng| rng.below(3);
            let action = match rng.one_in(2) {
                true => Action::Write(
                    keys.iter()
                        .map(|k| {
                            let effect = match rng.below(4) {
                                0 => Delete,
                                1 => Add(value(&mut rng)),
                                _ => Put(value(&mut rng)),
                            };
                            (*k, effect)
                        })
                        .collect(),
                ),
                false => Action::Observe(
                    keys.iter()
                        .map(|k| (*k, rng.one_in(2).then(|| value(&mut rng))))
                        .collect(),
                ),
            };
            events.push(event(a.min(b), a.max(b), action));
        }
        let want = by_trying(&events, &mut (0..number).collect(), &vec![None; 3]);
        counts[usize::from(want)] += 1;
        let text: Vec<String> = events.iter().map(Event::to_string).collect();
        assert_eq!(is_linearizable(events), want, "{text:#?}");
    }
    assert!(counts.iter().all(|n| *n > 300), "{counts:?}");
}
