//! Locks without a database.

use super::*;

const NOW: Patience = Patience {
    timeout: Some(Duration::ZERO),
    detect: None,
};

fn table(max_num_locks: i64) -> LockTable {
    let options = LockOptions {
        max_num_locks,
        num_stripes: 1,
        ..LockOptions::default()
    };
    LockTable::new(options, spanlith_env::Env::system().clock)
}

fn is_busy(r: Result<()>) -> bool {
    match r {
        Ok(()) => false,
        Err(e) => {
            assert_eq!(e.subcode(), Some(SubCode::LockTimeout));
            true
        }
    }
}

#[test]
fn one_or_all_who_share() {
    let t = table(-1);
    let [a, b, c] = [t.owner(None), t.owner(None), t.owner(None)];
    let key = (0, &b"k"[..]);
    t.lock(&a, key, LockMode::Shared, NOW).unwrap();
    t.lock(&b, key, LockMode::Shared, NOW).unwrap();
    assert!(is_busy(t.lock(&c, key, LockMode::Exclusive, NOW)));
    assert!(
        is_busy(t.lock(&a, key, LockMode::Exclusive, NOW)),
        "b shares it"
    );
    t.unlock(&b, key);
    t.lock(&a, key, LockMode::Exclusive, NOW).unwrap();
    assert!(is_busy(t.lock(&b, key, LockMode::Shared, NOW)));
    t.lock(&b, (1, b"k"), LockMode::Exclusive, NOW).unwrap();
    t.weaken(&a, key);
    t.lock(&b, key, LockMode::Shared, NOW).unwrap();
    // Not its own, and one that is not there.
    t.unlock(&c, key);
    t.unlock(&a, (0, b"x"));
    assert_eq!((t.locked(0), t.locked(1)), (1, 1));
    t.unlock(&a, key);
    t.unlock(&b, key);
    assert_eq!(t.locked(0), 0);
    t.forget_family(1);
    assert_eq!(t.locked(1), 0);
    t.unlock(&b, (1, b"k"));
}

#[test]
fn the_limit_counts_keys_and_not_holders() {
    let t = table(1);
    let [a, b] = [t.owner(None), t.owner(None)];
    t.lock(&a, (0, b"k"), LockMode::Shared, NOW).unwrap();
    t.lock(&b, (0, b"k"), LockMode::Shared, NOW).unwrap();
    let full = t.lock(&a, (0, b"l"), LockMode::Shared, NOW).unwrap_err();
    assert_eq!(full.subcode(), Some(SubCode::LockLimit));
    t.unlock(&a, (0, b"k"));
    t.unlock(&b, (0, b"k"));
    t.lock(&a, (0, b"l"), LockMode::Exclusive, NOW).unwrap();
}

#[test]
fn who_is_past_his_time_is_robbed_unless_he_has_decided() {
    let t = table(-1);
    let [late, firm, thief] = [
        t.owner(Some(Duration::ZERO)),
        t.owner(Some(Duration::ZERO)),
        t.owner(None),
    ];
    assert!(firm.decide());
    for (owner, key) in [(&late, b"l"), (&firm, b"f")] {
        t.lock(owner, (0, key), LockMode::Exclusive, NOW).unwrap();
    }
    t.lock(&thief, (0, b"l"), LockMode::Exclusive, NOW).unwrap();
    assert!(is_busy(t.lock(&thief, (0, b"f"), LockMode::Exclusive, NOW)));
    assert!(late.is_robbed() && !late.decide() && !firm.is_robbed() && firm.decide());
    // A lock that was taken over is not released by the owner that lost it.
    t.unlock(&late, (0, b"l"));
    assert_eq!(t.locked(0), 2);
}

#[test]
fn a_chain_that_is_too_long_counts_as_a_circle() {
    let t = table(-1);
    let key = |n: u8| vec![n];
    let owners: Vec<_> = (0..5).map(|_| t.owner(None)).collect();
    for (n, owner) in owners.iter().enumerate() {
        t.lock(owner, (0, &key(n as u8)), LockMode::Exclusive, NOW)
            .unwrap();
    }
    // Each waits for the next, as it would in `lock`.
    for n in 0..3 {
        t.wait_for(owners[n + 1].id(), vec![owners[n].id()], 50)
            .unwrap();
    }
    let wait = |depth| t.wait_for(owners[4].id(), vec![owners[3].id()], depth);
    assert_eq!(wait(3).unwrap_err().subcode(), Some(SubCode::Deadlock));
    wait(4).unwrap();
    let circle = t
        .wait_for(owners[0].id(), vec![owners[4].id()], 50)
        .unwrap_err();
    assert_eq!(circle.subcode(), Some(SubCode::Deadlock));
}

#[test]
fn a_wait_ends_with_the_time_or_the_release() {
    let t = Arc::new(table(-1));
    let [a, b] = [t.owner(None), t.owner(None)];
    t.lock(&a, (0, b"k"), LockMode::Exclusive, NOW).unwrap();
    assert!(is_busy(t.lock(
        &b,
        (0, b"k"),
        LockMode::Shared,
        Patience::of_millis(5)
    )));
    std::thread::scope(|s| {
        let waits = s.spawn(|| t.lock(&b, (0, b"k"), LockMode::Shared, Patience::of_millis(-1)));
        t.unlock(&a, (0, b"k"));
        waits.join().unwrap().unwrap();
    });
    assert!(is_busy(t.lock(&a, (0, b"k"), LockMode::Exclusive, NOW)));
}
