//! "No dead pressure", against the real picker: whatever slows writers down is worked on by a job that runs or is due.

use super::*;
use crate::Db;
use crate::options::{CfOptions, CompactionStyle};
use spanlith_env::{Env, ManualExecutor, MemFs};
use std::sync::Arc;

const MEMTABLE: u64 = 64 << 10;

fn open(style: CompactionStyle, hard_limit: u64) -> (Db, Arc<ManualExecutor>) {
    let (env, executor, _) = Env::test(Arc::new(MemFs::new()), 7);
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
    let db = db.no_info_log().cf_options(cf);
    let db = db.set("write_throttle_policy=smooth").unwrap();
    (db.open().unwrap(), executor)
}

/// The pressures of the default family now.
fn pressures(db: &Db) -> [f64; 4] {
    let engine = db.engine();
    engine.pace_tick(&engine.default);
    let decision = engine.default.pacer.decision().0;
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
