//! Gives level 0 the shape that the measured load asks for (`dynamic_level0`): large files where reads prevail, small ones where
//! writes do ([`spanlith_pace::ShapePlanner`]).
//!
//! A family of which it is asked has settings in which the size of memtables, the triggers of level 0 and, for merged memtables,
//! their numbers are the planner's; what the user set stays beside them and is what OPTIONS files say. It is looked at when a
//! memtable is sealed, and after so many reads; reads are counted only while some family wants it.

use super::state::{DbState, FamilyState};
use super::{Engine, Family, FamilySettings, Lsm, gate};
use crate::options::{CfOptions, DynamicLevel0};
use spanlith_pace::{FILES_MAX, Level0Shape, ShapePlanner, ShapeRule};
use spanlith_table::FilterKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads between two looks of readers at the time.
const READS: u64 = 1 << 14;
/// Memtables that are kept beside those that become one file.
const BESIDE: i32 = 2;

/// Options whose values are the planner's, as the user set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserShape {
    write_buffer_size: u64,
    triggers: [i32; 3],
    min_write_buffer_number_to_merge: i32,
    max_write_buffer_number: i32,
}

impl UserShape {
    fn of(o: &CfOptions) -> Self {
        Self {
            write_buffer_size: o.write_buffer_size,
            triggers: [
                o.level0_file_num_compaction_trigger,
                o.level0_slowdown_writes_trigger,
                o.level0_stop_writes_trigger,
            ],
            min_write_buffer_number_to_merge: o.min_write_buffer_number_to_merge,
            max_write_buffer_number: o.max_write_buffer_number,
        }
    }

    /// Puts the values into options.
    pub(crate) fn put(self, o: &mut CfOptions) {
        o.write_buffer_size = self.write_buffer_size;
        [
            o.level0_file_num_compaction_trigger,
            o.level0_slowdown_writes_trigger,
            o.level0_stop_writes_trigger,
        ] = self.triggers;
        o.min_write_buffer_number_to_merge = self.min_write_buffer_number_to_merge;
        o.max_write_buffer_number = self.max_write_buffer_number;
    }

    /// Returns what the options of a family become in a shape that they are not in yet: limits come down no further than
    /// `there` allows, so that a change stops nobody. Later looks bring them down.
    fn towards(self, target: Self, there: Held) -> Self {
        let [due, slow, stop] = target.triggers;
        let [_, slow_now, stop_now] = self.triggers;
        let kept = |target: i32, now: i32, least: i32| target.max(now.min(least));
        Self {
            triggers: [
                due,
                kept(slow, slow_now, there.files.saturating_add(1)),
                kept(stop, stop_now, there.files.saturating_add(1 + stop - slow)),
            ],
            max_write_buffer_number: kept(
                target.max_write_buffer_number,
                self.max_write_buffer_number,
                there.sealed.saturating_add(BESIDE),
            ),
            ..target
        }
    }

    /// Returns what the options of a family are in a shape.
    fn shaped(self, shape: Level0Shape, volume: u64) -> Self {
        let volume = match volume {
            0 => self.write_buffer_size.saturating_mul(u64::from(FILES_MAX)),
            set => set,
        };
        let merged = i32::try_from(shape.merged).unwrap_or(1);
        Self {
            write_buffer_size: shape.memtable_bytes(volume),
            triggers: shape.triggers(),
            min_write_buffer_number_to_merge: self.min_write_buffer_number_to_merge.max(merged),
            max_write_buffer_number: match merged {
                1 => self.max_write_buffer_number,
                _ => self.max_write_buffer_number.max(merged + BESIDE),
            },
        }
    }
}

/// Describes what a family holds when its shape changes.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Files in level 0.
    files: i32,
    /// Memtables that wait for a flush.
    sealed: i32,
}

impl FamilySettings {
    /// The settings in a shape, as far as what is `there` allows; `None` if they have it already.
    fn in_shape(&self, shape: Level0Shape, there: Held) -> Option<Self> {
        let now = UserShape::of(&self.options);
        let user = self.user.unwrap_or(now);
        let target = user.shaped(shape, self.options.own.dynamic_level0_volume);
        let next = now.towards(target, there);
        (next != now).then(|| self.with_shape(user, next))
    }
}

/// Counts reads of a family, and plans the shape of its level 0.
#[derive(Default)]
pub(crate) struct ShapeState {
    planner: ShapePlanner,
    /// Entries of memtables that were sealed.
    sealed: u64,
}

/// Reads of a family while they are counted. Relaxed: a figure of its own.
#[derive(Default)]
pub(crate) struct ReadCount(AtomicU64);

impl ReadCount {
    /// Counts `n`; says whether it is time to look at the clock.
    fn add(&self, n: u64) -> bool {
        let before = self.0.fetch_add(n, Ordering::Relaxed);
        before / READS != before.wrapping_add(n) / READS
    }
}

/// The rule that a family is under.
fn rule(options: &CfOptions) -> Option<ShapeRule> {
    match options.own.dynamic_level0 {
        DynamicLevel0::Off => None,
        DynamicLevel0::Paper => Some(ShapeRule::Paper),
        DynamicLevel0::Continuous => Some(ShapeRule::Continuous),
        DynamicLevel0::Merged => Some(ShapeRule::Merged),
    }
}

/// Returns whether reads of a family are to be counted.
pub(super) fn is_dynamic(f: &FamilyState) -> bool {
    rule(&f.settings.options).is_some()
}

/// Counts reads of a family, if somebody wants to know.
#[inline]
pub(crate) fn count_reads(engine: &Engine, family: &Family, n: usize) {
    if engine.gate.has(gate::COUNT_READS) && family.reads.add(n as u64) {
        look_at_shape(engine, family);
    }
}

/// Looks at the shape of a family between two reads, unless somebody leads.
#[cold]
fn look_at_shape(engine: &Engine, family: &Family) {
    let Some(mut leader) = engine.leader.try_lock() else {
        return;
    };
    let mut state = engine.state.lock();
    if plan_shape(engine, &mut state, family.id, 0) {
        if let (Some(at), Some(f)) = (leader.slot(family.id), state.family(family.id)) {
            leader.slots[at].limit = f.settings.options.write_buffer_size as usize;
        }
        engine.install_superversion(&mut state, family.id);
        engine.schedule(&mut state);
        drop(state);
        drop(leader);
        engine.state.notify_all();
        engine.reporter.tell_stalls();
    }
}

/// Gives the settings of a family the shape of level 0 that the load asks for, after `sealed` more entries. Says whether they
/// are others now, which the next superversion shows. Requires: leadership.
pub(crate) fn plan_shape(lsm: &Lsm, state: &mut DbState, id: u32, sealed: u64) -> bool {
    let now = lsm.c.env.clock.monotonic_nanos();
    let Some(f) = state.family_mut(id) else {
        return false;
    };
    let Some(rule) = rule(&f.settings.options) else {
        return false;
    };
    f.pace.shape.sealed += sealed;
    if !f.pace.shape.planner.is_due(now) {
        return false;
    }
    let open = if sealed == 0 { f.mem.len() } else { 0 };
    let writes = f.pace.shape.sealed + open;
    let reads = f.family.reads.0.load(Ordering::Relaxed);
    let has_filter = !matches!(f.settings.table.filter, FilterKind::None);
    let planner = &mut f.pace.shape.planner;
    let shape = planner.look(now, (reads, writes), rule, has_filter);
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let there = Held {
        files: count(f.version.num_files(0)),
        sealed: count(f.imm.len()),
    };
    let Some(settings) = f.settings.in_shape(shape, there) else {
        return false;
    };
    let size = settings.options.write_buffer_size;
    lsm.reporter.log().info(format_args!(
        "[{}] Level 0 is to have {} files of {} memtables of {size} bytes; {reads} reads and {writes} writes so far",
        f.family.name, shape.files, shape.merged,
    ));
    f.settings = Arc::new(settings);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::options::OwnCfOptions;
    use spanlith_env::{Clock, Env, MemFs, VirtualClock};
    use std::time::Duration;

    const MEMTABLE: u64 = 64 << 10;

    fn open(rule: DynamicLevel0) -> (Db, Arc<VirtualClock>) {
        let (env, _, clock) = Env::test(Arc::new(MemFs::new()), 7);
        let cf = CfOptions::new()
            .write_buffer_size(MEMTABLE)
            .max_write_buffer_number(4)
            .disable_auto_compactions(true)
            .own(OwnCfOptions::new().dynamic_level0(rule));
        let db = Db::builder("/db").create_if_missing(true).env(env);
        (db.no_info_log().cf_options(cf).open().unwrap(), clock)
    }

    /// Effective: size of memtables, the three triggers, memtables that become one file, and all there may be.
    fn shape(db: &Db) -> (u64, [i32; 3], i32, i32) {
        let settings = db.engine().families.default().settings();
        let u = UserShape::of(&settings.options);
        assert_eq!(
            u.triggers[0],
            settings.levels.level0_file_num_compaction_trigger
        );
        assert_eq!(u.triggers[2], settings.levels.level0_stop_writes_trigger);
        (
            u.write_buffer_size,
            u.triggers,
            u.min_write_buffer_number_to_merge,
            u.max_write_buffer_number,
        )
    }

    /// Passes ten seconds in which as many reads and writes are made for each hundred.
    fn load(db: &Db, clock: &VirtualClock, reads: u32, writes: u32) {
        for _ in 0..2 {
            for i in 0..writes * 4 {
                db.default_cf().put(i.to_be_bytes(), [b'v'; 200]).unwrap();
            }
            for i in 0..reads * 4 {
                db.default_cf().get(i.to_be_bytes()).unwrap();
            }
            clock.sleep(Duration::from_secs(5));
            db.flush(true).unwrap();
        }
    }

    const MANY: [i32; 3] = [4, 24, 43];
    const FEW: [i32; 3] = [1, 6, 10];

    /// Twelve files that nothing had slowed down, and three memtables that wait: neither is beyond a limit after the change.
    #[test]
    fn a_change_of_shape_stops_nobody_and_limits_come_down_later() {
        let of = |triggers, max_write_buffer_number| UserShape {
            write_buffer_size: MEMTABLE,
            triggers,
            min_write_buffer_number_to_merge: 1,
            max_write_buffer_number,
        };
        let (mut now, target) = (of(MANY, 6), of(FEW, 2));
        for (files, sealed, expected) in [
            (12, 3, of([1, 13, 17], 5)),
            // It does not go up again.
            (20, 3, of([1, 13, 17], 5)),
            (7, 1, of([1, 8, 12], 3)),
            (0, 0, target),
        ] {
            now = now.towards(target, Held { files, sealed });
            assert_eq!(now, expected);
        }
        let up = now.towards(
            of(MANY, 6),
            Held {
                files: 0,
                sealed: 0,
            },
        );
        assert_eq!(up, of(MANY, 6));
    }

    #[test]
    fn memtables_grow_while_reads_prevail_and_shrink_again() {
        let (db, clock) = open(DynamicLevel0::Paper);
        let user = UserShape::of(&db.default_cf().options());
        load(&db, &clock, 10, 90);
        assert_eq!(shape(&db), (MEMTABLE, MANY, 1, 4));
        load(&db, &clock, 90, 10);
        assert_eq!(shape(&db), (4 * MEMTABLE, FEW, 1, 4));
        // The user finds what was set.
        assert_eq!(UserShape::of(&db.default_cf().options()), user);
        let text = db.engine().families.default().settings().text(None).clone();
        assert!(format!("{text:?}").contains("65536"), "{text:?}");
        // The memtable that is written now is as large as that.
        for i in 0..800u32 {
            db.default_cf().put(i.to_be_bytes(), [b'v'; 200]).unwrap();
        }
        let sealed = db
            .default_cf()
            .int_property("rocksdb.num-immutable-mem-table");
        assert_eq!(sealed, Some(0));
        load(&db, &clock, 10, 90);
        load(&db, &clock, 10, 90);
        assert_eq!(shape(&db), (MEMTABLE, MANY, 1, 4));
        db.default_cf()
            .set_options(&[("dynamic_level0", "off")])
            .unwrap();
        assert_eq!(shape(&db), (MEMTABLE, [4, 20, 36], 1, 4));
        assert!(!db.engine().gate.has(gate::COUNT_READS));
        db.close().unwrap();
    }

    /// R-XP-27, and reads that bring the change about by themselves.
    #[test]
    fn the_volume_and_the_rule_follow_their_options() {
        let (db, clock) = open(DynamicLevel0::Merged);
        load(&db, &clock, 10, 90);
        load(&db, &clock, 90, 10);
        assert_eq!(shape(&db), (MEMTABLE, FEW, 4, 6));
        let change = [
            ("dynamic_level0", "continuous"),
            ("dynamic_level0_volume", "3145728"),
        ];
        db.default_cf().set_options(&change).unwrap();
        load(&db, &clock, 0, 100);
        load(&db, &clock, 0, 100);
        load(&db, &clock, 0, 100);
        assert_eq!(shape(&db), ((3 << 20) / 24, MANY, 1, 4));
        let read = || {
            clock.sleep(Duration::from_secs(11));
            for i in 0..READS as u32 {
                db.default_cf().get(i.to_be_bytes()).unwrap();
            }
        };
        (0..3).for_each(|_| read());
        assert_eq!(shape(&db).1, [1, 11, 15], "ten files are there");
        db.default_cf().compact_range(None, None).unwrap();
        read();
        assert_eq!(shape(&db).1, FEW, "nobody wrote");
        db.close().unwrap();
        let universal = CfOptions::new()
            .compaction_style(crate::options::CompactionStyle::Universal)
            .own(OwnCfOptions::new().dynamic_level0(DynamicLevel0::Paper));
        let (env, _, _) = Env::test(Arc::new(MemFs::new()), 7);
        let db = Db::builder("/db").create_if_missing(true).env(env);
        let e = db.no_info_log().cf_options(universal).open().unwrap_err();
        assert_eq!(
            e.to_string(),
            "Invalid argument: dynamic_level0 needs leveled compaction"
        );
    }
}
