//! "No dead pressure", against the real picker: whatever slows writers down is worked on by a job that runs or is due.

use super::*;
use crate::Db;
use crate::options::{CfOptions, CompactionStyle};
use spanlith_env::{Env, ManualExecutor, MemFs, SstFileManager, SstFileManagerOptions};
use std::sync::Arc;

const MEMTABLE: u64 = 64 << 10;

fn open(style: CompactionStyle, hard_limit: u64) -> (Db, Arc<ManualExecutor>) {
    open_within(style, hard_limit, 0)
}

/// With a manager of tables that may take `space` bytes; 0: no limit.
fn open_within(style: CompactionStyle, hard_limit: u64, space: u64) -> (Db, Arc<ManualExecutor>) {
    let (env, executor, _) = Env::test(Arc::new(MemFs::new()), 7);
    let manager = SstFileManagerOptions {
        max_space_bytes: space,
        ..SstFileManagerOptions::default()
    };
    let manager = SstFileManager::new(&env, manager);
    let cf = CfOptions::new()
        .compaction_style(style)
        .write_buffer_size(MEMTABLE)
        .max_write_buffer_number(4)
        .level0_file_num_compaction_trigger(2)
        .level0_slowdown_writes_trigger(4)
        .level0_stop_writes_trigger(8)
        .max_bytes_for_level_base(4 * MEMTABLE)
        .target_file_size_base(MEMTABLE)
        .soft_pending_compaction_bytes_limit(hard_limit / 2)
        .hard_pending_compaction_bytes_limit(hard_limit);
    let db = Db::builder("/db").create_if_missing(true).env(env);
    let db = db.no_info_log().cf_options(cf).sst_file_manager(manager);
    let db = db.set("write_throttle_policy=smooth").unwrap();
    (db.open().unwrap(), executor)
}

/// The pressures of the default family now.
fn pressures(db: &Db) -> [f64; 4] {
    let engine = db.engine();
    PaceControl::of(engine).tick(&engine.state, engine.families.default());
    let decision = engine.families.default().pacer.decision().0;
    Stage::ALL.map(|stage| decision.pressure.get(stage))
}

#[test]
fn every_pressure_is_reduced_by_a_job_that_is_due() {
    let styles = [
        CompactionStyle::Level,
        CompactionStyle::Universal,
        CompactionStyle::Fifo,
        CompactionStyle::None,
    ];
    for style in styles {
        let (db, executor) = open(style, 20 * MEMTABLE);
        let mut chance = 0x9e37_79b9_u64;
        let mut next = move |below: u64| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (chance >> 33) % below
        };
        let mut seen = [0.0f64; 4];
        for round in 0..120 {
            for _ in 0..next(60) {
                let key = next(4000).to_be_bytes();
                db.default_cf().put(key, vec![b'v'; 2000]).unwrap();
            }
            // Part of the work is done, so that all states between occur.
            for _ in 0..next(3) {
                executor.run_one();
            }
            let before = pressures(&db);
            if before.iter().all(|&p| p == 0.0) {
                continue;
            }
            assert!(
                executor.pending() > 0,
                "{style:?}, round {round}: {before:?}"
            );
            if next(4) == 0 {
                executor.run_until_idle();
                let after = pressures(&db);
                for (stage, (before, after)) in Stage::ALL.iter().zip(before.iter().zip(after)) {
                    let fell = *before == 0.0 || after < *before;
                    assert!(
                        fell,
                        "{style:?}, {stage:?}, round {round}: {before} {after}"
                    );
                }
            }
            for (most, p) in seen.iter_mut().zip(before) {
                *most = most.max(p);
            }
        }
        // The states were worth looking at.
        assert!(seen[Stage::Memory as usize] > 0.2, "{style:?}: {seen:?}");
        if style == CompactionStyle::Level {
            assert!(seen[Stage::Level0 as usize] > 0.2, "{seen:?}");
            assert!(seen[Stage::Debt as usize] > 0.0, "{seen:?}");
        }
        if style == CompactionStyle::None {
            assert_eq!(seen[Stage::Level0 as usize], 0.0, "{seen:?}");
        }
        db.close().unwrap();
    }
}

#[test]
fn with_compactions_held_back_only_memory_presses() {
    let (db, executor) = open(CompactionStyle::Level, 4 * MEMTABLE);
    db.abort_compactions();
    for i in 0..600u32 {
        db.default_cf()
            .put(i.to_be_bytes(), vec![b'v'; 2000])
            .unwrap();
        executor.run_until_idle();
    }
    let all = pressures(&db);
    assert_eq!(all[1..], [0.0; 3], "{all:?}");
    db.resume_compactions();
    assert!(pressures(&db)[Stage::Level0 as usize] > 0.0);
    executor.run_until_idle();
    assert_eq!(pressures(&db)[Stage::Level0 as usize], 0.0);
    db.close().unwrap();
}

/// Space presses only while compactions give some back: with overwrites, not with new keys.
#[test]
fn space_presses_where_compactions_give_some_back() {
    const KEYS: u32 = 500;
    for overwrites in [true, false] {
        let (db, executor) = open(CompactionStyle::Level, 0);
        let room = db.engine().throttle.room();
        let mut seen = 0.0f64;
        for round in 0..4000u32 {
            let key = match overwrites {
                true => round.wrapping_mul(7919) % KEYS,
                false => round.wrapping_mul(7919),
            };
            let value = vec![b'v'; 2000];
            db.default_cf().put(key.to_be_bytes(), value).unwrap();
            // Enough for memtables to be full twice: a writer who waits has them flushed, and two files make a compaction due.
            if round % 250 != 0 {
                continue;
            }
            // A disk that is half as empty as it should be.
            room.note(4500, 1000);
            let before = pressures(&db)[Stage::Space as usize];
            seen = seen.max(before);
            if before > 0.0 {
                assert!(executor.pending() > 0, "round {round}: {before}");
            }
            executor.run_until_idle();
            room.note(4500, 1000);
            let after = pressures(&db)[Stage::Space as usize];
            assert_eq!(after, 0.0, "round {round}: nothing is due any more");
        }
        let expected = if overwrites { 0.5 } else { 0.0 };
        assert!((seen - expected).abs() < 1e-9, "{overwrites}: {seen}");
        db.close().unwrap();
    }
}

/// The limit of a manager presses from four fifths of it on.
#[test]
fn the_limit_of_a_manager_is_space() {
    let (db, executor) = open_within(CompactionStyle::Level, 0, 1 << 20);
    let facts = |db: &Db| {
        let e = db.engine();
        let manager = e.c.resources.sst_files.as_deref();
        space_facts(e.throttle.room(), manager, SpaceFacts::default(), true)
    };
    let mut chance = 7u64;
    let mut next = move || {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (chance >> 33) as u8
    };
    for i in 0..450u32 {
        // No codec makes these smaller.
        let value: Vec<u8> = (0..2000).map(|_| next()).collect();
        db.default_cf().put(i.to_be_bytes(), value).unwrap();
        if i % 30 == 0 {
            executor.run_until_idle();
        }
    }
    db.flush(true).unwrap();
    let s = facts(&db);
    assert!(s.used > s.target && s.used < s.max, "{s:?}");
    assert_eq!(s.target, (0.8 * f64::from(1 << 20)) as u64);
    db.close().unwrap();
}
