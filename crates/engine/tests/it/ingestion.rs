//! Tables written outside and taken in: an ingestion is as if everything in the files had been written then, all of
//! it at once; what fails or is cut off by a power loss has no effect.

use crate::world::World;
use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith::{
    Cf, Db, ErrorKind, FamilyOptions, IngestOptions, Ingestion, OpenBuilder, ReadOptions, Snapshot,
    SstWriter, StringAppend, VerifyLevel, WriteBatch,
};
use spanlith_env::{Env, FaultRule, FileSystem, FsOp, MemFs, OpClass};
use spanlith_testkit::{Rng, seed, test_name};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Describes what an entry of a file does.
#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    /// Older than what else is in the file.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Tables and levels so small that files find several of them.
fn small() -> CfOptions {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 16 << 10;
    cf.target_file_size_base = 4 << 10;
    cf.max_bytes_for_level_base = 16 << 10;
    cf.max_bytes_for_level_multiplier = 3.0;
    cf.level0_file_num_compaction_trigger = 3;
    cf
}

fn family(name: &str, cf: CfOptions) -> FamilyOptions {
    let mut table = BlockBasedTableOptions::default();
    table.block_size = 256;
    table.filter_policy = "bloomfilter:10:false".to_string();
    FamilyOptions::new(name)
        .options(cf)
        .table_options(table)
        .merge_operator(Arc::new(StringAppend::new(b",")))
}

fn builder(dir: &str, env: &Env, cf: &CfOptions) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    Db::builder(dir)
        .options(options)
        .family(family("default", cf.clone()))
        .family(family("two", cf.clone()))
        .env(env.clone())
        .no_info_log()
}

fn open(env: &Env) -> Db {
    builder("/db", env, &small()).open().unwrap()
}

/// Writes a file for the families above.
fn write(env: &Env, path: &str, ops: &[Op]) -> PathBuf {
    let made = SstWriter::new(family("", small()), &DbOptions::default(), env, None);
    let mut table = made.unwrap();
    table.open(path).unwrap();
    for op in ops {
        match op {
            Op::Put(k, v) => table.put(k, v),
            Op::Delete(k) => table.delete(k),
            Op::Merge(k, v) => table.merge(k, v),
            Op::DeleteRange(a, b) => table.delete_range(a, b),
        }
        .unwrap();
    }
    table.finish().unwrap();
    path.into()
}

fn puts(env: &Env, path: &str, keys: std::ops::Range<u64>, value: &str) -> PathBuf {
    let ops: Vec<Op> = keys.map(|n| Op::Put(key(n), value.into())).collect();
    write(env, path, &ops)
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

fn apply(model: &mut Model, ops: &[Op]) {
    for op in ops {
        if let Op::DeleteRange(a, b) = op {
            let range = (Bound::Included(a.clone()), Bound::Excluded(b.clone()));
            let doomed: Vec<_> = model.range(range).map(|e| e.0.clone()).collect();
            doomed.iter().for_each(|k| drop(model.remove(k)));
        }
    }
    for op in ops {
        match op {
            Op::Put(k, v) => drop(model.insert(k.clone(), v.clone())),
            Op::Delete(k) => drop(model.remove(k)),
            Op::Merge(k, v) => {
                let value = model.entry(k.clone()).or_default();
                if !value.is_empty() {
                    value.push(b',');
                }
                value.extend_from_slice(v);
            }
            Op::DeleteRange(..) => {}
        }
    }
}

fn contents_at(cf: &Cf, at: Option<&Snapshot>) -> Model {
    let options = at.map_or_else(ReadOptions::new, |s| ReadOptions::new().snapshot(s));
    let all = cf.iter_opt(options).map(|entry| {
        let (k, v) = entry.unwrap();
        (k.to_vec(), v.to_vec())
    });
    all.collect()
}

fn contents(cf: &Cf) -> Model {
    contents_at(cf, None)
}

/// Level, smallest and largest sequence number of each file, upper levels first.
fn places(db: &Db) -> Vec<(usize, u64, u64)> {
    let files = db.live_files();
    let mut all: Vec<_> = files
        .iter()
        .map(|f| (f.level, f.smallest_seqno, f.largest_seqno))
        .collect();
    all.sort_unstable();
    all
}

/// Entries of one file in order, and range tombstones.
fn draw_file(rng: &mut Rng, tag: &mut u64) -> Vec<Op> {
    let (from, len) = (rng.below(300), 1 + rng.skewed(7));
    let mut ops = Vec::new();
    for n in from..from + len {
        *tag += 1;
        let value = format!("file{tag}").into_bytes();
        match rng.below(8) {
            0 => {}
            1 => ops.push(Op::Delete(key(n))),
            2 => ops.push(Op::Merge(key(n), value)),
            _ => ops.push(Op::Put(key(n), value)),
        }
    }
    if rng.one_in(3) || ops.is_empty() {
        for _ in 0..1 + rng.below(2) {
            let a = rng.below(300);
            let b = a + 1 + rng.below(40);
            ops.push(Op::DeleteRange(key(a), key(b)));
        }
    }
    ops
}

#[test]
fn an_ingestion_is_as_if_everything_had_been_written() {
    let mut rng = Rng::new(seed(test_name!()));
    for round in 0..30 {
        let w = World::new(round);
        let mut cf_options = small();
        cf_options.level_compaction_dynamic_level_bytes = rng.one_in(2);
        let open = || builder("/db", &w.env, &cf_options).open().unwrap();
        let mut db = open();
        let mut models = [Model::new(), Model::new()];
        let mut snapshots: Vec<(Snapshot, [Model; 2])> = Vec::new();
        let mut tag = 0;
        for step in 0..120 {
            let at = rng.index(2);
            let cf = [db.default_cf(), db.cf("two").unwrap()][at].clone();
            let n = rng.below(320);
            tag += 1;
            let value = format!("put{tag}").into_bytes();
            match rng.below(14) {
                0..=3 => {
                    cf.put(key(n), &value).unwrap();
                    models[at].insert(key(n), value);
                }
                4 => {
                    cf.delete(key(n)).unwrap();
                    models[at].remove(&key(n));
                }
                5 => {
                    let ops = [Op::DeleteRange(key(n), key(n + rng.below(30)))];
                    let Op::DeleteRange(a, b) = &ops[0] else {
                        unreachable!()
                    };
                    cf.delete_range(a, b).unwrap();
                    apply(&mut models[at], &ops);
                }
                6 => cf.flush(true).unwrap(),
                7 if rng.one_in(3) => cf.compact_range(None, None).unwrap(),
                8 => drop(w.executor.jobs.run_until_idle()),
                9 => snapshots.push((db.snapshot(), models.clone())),
                10 if !snapshots.is_empty() => {
                    let at = rng.index(snapshots.len());
                    drop(snapshots.swap_remove(at));
                }
                11 if rng.one_in(6) => {
                    snapshots.clear();
                    drop(cf);
                    db.close().unwrap();
                    db = open();
                    continue;
                }
                _ => {
                    let both = rng.one_in(3);
                    let mut all = Vec::new();
                    for target in 0..2 {
                        if target != at && !both {
                            continue;
                        }
                        let files: Vec<Vec<Op>> = (0..1 + rng.below(3))
                            .map(|_| draw_file(&mut rng, &mut tag))
                            .collect();
                        let paths = files.iter().enumerate().map(|(i, ops)| {
                            apply(&mut models[target], ops);
                            write(&w.env, &format!("/{target}-{i}.sst"), ops)
                        });
                        let how = rng.below(3);
                        all.push(Ingestion {
                            cf: [db.default_cf(), db.cf("two").unwrap()][target].clone(),
                            files: paths.collect(),
                            options: IngestOptions::new()
                                .move_files(how == 1)
                                .link_files(how == 2),
                        });
                    }
                    db.ingest(&all).unwrap();
                    // Linked files are not to be written again: they are the database's.
                    for file in all.iter().flat_map(|i| &i.files) {
                        let there = w.env.fs.entry(file).unwrap().is_some();
                        let moved = all
                            .iter()
                            .any(|i| i.files.contains(file) && i.options.move_files);
                        assert_eq!(there, !moved);
                        if there {
                            w.env.fs.delete(file).unwrap();
                        }
                    }
                }
            }
            let families = [db.default_cf(), db.cf("two").unwrap()];
            for (cf, model) in families.iter().zip(&models) {
                assert_eq!(&contents(cf), model, "round {round}, step {step}");
                let k = key(rng.below(320));
                assert_eq!(
                    cf.get(&k).unwrap().as_deref(),
                    model.get(&k).map(Vec::as_slice),
                    "round {round}, step {step}"
                );
            }
            for (snapshot, models) in &snapshots {
                for (cf, model) in families.iter().zip(models) {
                    let seen = contents_at(cf, Some(snapshot));
                    assert_eq!(&seen, model, "round {round}, step {step}, a snapshot");
                }
            }
        }
        let report = db.verify(VerifyLevel::Full).unwrap();
        assert!(report.findings.is_empty(), "round {round}: {report:?}");
        snapshots.clear();
        db.close().unwrap();
    }
}

#[test]
fn a_file_goes_as_deep_as_it_can_and_has_a_number_only_if_it_needs_one() {
    let w = World::new(1);
    let mut cf_options = CfOptions::default();
    cf_options.disable_auto_compactions = true;
    cf_options.level_compaction_dynamic_level_bytes = false;
    let db = builder("/db", &w.env, &cf_options).open().unwrap();
    let cf = db.default_cf();
    let ingest = |range: std::ops::Range<u64>| {
        let file = puts(&w.env, "/f.sst", range, "v");
        cf.ingest([file], &IngestOptions::new()).unwrap();
    };
    ingest(0..5);
    assert_eq!(places(&db), [(6, 0, 0)]);
    ingest(3..8);
    assert_eq!(places(&db), [(5, 1, 1), (6, 0, 0)]);
    ingest(10..12);
    assert_eq!(places(&db), [(5, 1, 1), (6, 0, 0), (6, 0, 0)]);
    // A key of the memtable that lies beside: no flush.
    cf.put(key(20), "m").unwrap();
    ingest(30..31);
    assert_eq!(places(&db).len(), 4);
    // One that lies between the file's keys, though not among them.
    let between = [Op::Put(key(19), "v".into()), Op::Put(key(21), "v".into())];
    let file = write(&w.env, "/f.sst", &between);
    let blocked = IngestOptions::new().allow_blocking_flush(false);
    let e = cf.ingest([&file], &blocked).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: External file requires flush"
    );
    cf.ingest([&file], &IngestOptions::new()).unwrap();
    assert_eq!(&places(&db)[..2], [(0, 2, 2), (0, 3, 3)]);
    // With a snapshot everything has a number.
    let snapshot = db.snapshot();
    ingest(40..41);
    assert_eq!(places(&db).last(), Some(&(6, 4, 4)));
    let loose = IngestOptions::new().snapshot_consistency(false);
    let file = puts(&w.env, "/f.sst", 42..43, "v");
    cf.ingest([&file], &loose).unwrap();
    assert!(contents_at(&cf, Some(&snapshot)).contains_key(&key(42)));
    assert!(!contents_at(&cf, Some(&snapshot)).contains_key(&key(40)));
    let bottom = IngestOptions::new().fail_if_not_bottommost_level(true);
    let e = cf.ingest([&file], &bottom).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TryAgain);
    let want = contents(&cf);
    drop(snapshot);
    db.close().unwrap();
    let db = builder("/db", &w.env, &cf_options).open().unwrap();
    assert_eq!(contents(&db.default_cf()), want);
    db.close().unwrap();
}

#[test]
fn what_cannot_be_taken_in_is_refused_and_leaves_nothing() {
    let w = World::new(2);
    let db = open(&w.env);
    let cf = db.default_cf();
    cf.put(key(1), "v").unwrap();
    cf.flush(true).unwrap();
    let good = puts(&w.env, "/good.sst", 0..200, "v");
    let own = db.live_files()[0].path.clone();
    let files_before = w.mem.list(Path::new("/db")).unwrap().len();
    let default = IngestOptions::new();
    let refused = |files: &[&Path], options: &IngestOptions| {
        let e = cf.ingest(files, options).unwrap_err();
        assert_eq!(w.mem.list(Path::new("/db")).unwrap().len(), files_before);
        e.to_string()
    };
    let none = "Invalid argument: external_files[0] is empty";
    assert_eq!(refused(&[], &default), none);
    let missing = refused(&[&good, Path::new("/no.sst")], &default);
    assert!(
        missing.contains("while stat a file for size: /no.sst"),
        "{missing}"
    );
    let foreign = refused(&[&own], &default);
    assert!(
        foreign.starts_with("Corruption: External file version not found"),
        "{foreign}"
    );
    let generated = refused(&[&own], &default.allow_db_generated_files(true));
    assert!(
        generated.contains("assigned a non-zero sequence number"),
        "{generated}"
    );
    let moved = refused(
        &[&own],
        &default.allow_db_generated_files(true).move_files(true),
    );
    assert!(
        moved.contains("a table of the database cannot be moved into it"),
        "{moved}"
    );
    let both = refused(&[&good], &default.move_files(true).link_files(true));
    assert!(both.contains("can not both be true"), "{both}");
    let numbers = default.allow_global_seqno(false);
    let number = refused(&[&good], &numbers);
    assert!(
        number.contains("Global seqno is required, but disabled"),
        "{number}"
    );
    let overlapping = refused(&[&good, &good], &numbers);
    assert!(overlapping.contains("key range overlaps"), "{overlapping}");
    let behind = refused(&[&good], &default.ingest_behind(true));
    assert!(behind.contains("cf_allow_ingest_behind=false"), "{behind}");
    assert_eq!(contents(&cf).len(), 1);

    let two = db.cf("two").unwrap();
    let twice = [two.clone(), two.clone()].map(|cf| Ingestion {
        cf,
        files: vec![good.clone()],
        options: default,
    });
    let e = db.ingest(&twice).unwrap_err();
    assert!(e.to_string().contains("duplicate CFs"), "{e}");
    let other = builder("/other", &w.env, &small()).open().unwrap();
    let theirs = [Ingestion {
        cf: other.default_cf(),
        files: vec![good.clone()],
        options: default,
    }];
    let e = db.ingest(&theirs).unwrap_err();
    assert!(e.to_string().contains("another database's"), "{e}");
    other.close().unwrap();
    db.drop_cf(&two).unwrap();
    let e = two.ingest([&good], &default).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ColumnFamilyDropped);
    db.close().unwrap();
    let e = cf.ingest([&good], &default).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress);
    open(&w.env).close().unwrap();
    let db = builder("/db", &w.env, &small()).open_read_only().unwrap();
    let e = db.default_cf().ingest([&good], &default).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported);
}

/// Any byte of a file is changed: the file is refused, or the change is one that means nothing.
#[test]
fn no_changed_byte_of_a_file_is_taken_in_as_data() {
    crate::suite_disk::needs_log_files(
        "the test deletes the database by hand, whose disk stays its own",
    );
    let w = World::new(3);
    let ops = [
        Op::DeleteRange(key(0), key(2)),
        Op::DeleteRange(key(50), key(60)),
    ];
    let mut all: Vec<Op> = (0..40).map(|n| Op::Put(key(n), "value".into())).collect();
    all.extend(ops);
    let path = write(&w.env, "/f.sst", &all);
    let whole = w.env.fs.read_all(&path, 1 << 20).unwrap();
    let mut model = Model::new();
    apply(&mut model, &all);
    let (mut refused, mut taken) = (0, 0);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        let mut file = w
            .env
            .fs
            .create(&path, spanlith_env::IoActivity::Other)
            .unwrap();
        file.append(&changed).unwrap();
        file.close().unwrap();
        let db = open(&w.env);
        let cf = db.default_cf();
        match cf.ingest([&path], &IngestOptions::new()) {
            Ok(()) => {
                taken += 1;
                assert_eq!(contents(&cf), model, "byte {at}");
            }
            Err(_) => {
                refused += 1;
                assert_eq!(contents(&cf), Model::new(), "byte {at}");
            }
        }
        cf.put(key(1), "v").unwrap();
        db.close().unwrap();
        for name in w.env.fs.list(Path::new("/db")).unwrap() {
            w.env.fs.delete(&Path::new("/db").join(name)).unwrap();
        }
    }
    // The filter is asked by nobody here, and the number of an earlier database may be any.
    assert!(
        refused > whole.len() * 8 / 10,
        "{refused} of {} refused, {taken} taken",
        whole.len()
    );
}

#[test]
fn a_table_of_another_database_is_taken_in_where_it_overlaps_nothing() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    let w = World::new(5);
    let db = open(&w.env);
    let cf = db.default_cf();
    for n in 0..50 {
        cf.put(key(n), "first").unwrap();
        cf.put(key(n), "second").unwrap();
    }
    cf.flush(true).unwrap();
    let other = builder("/other", &w.env, &small()).open().unwrap();
    let options = IngestOptions::new().allow_db_generated_files(true);
    let theirs = db.live_files()[0].path.clone();
    other.default_cf().ingest([&theirs], &options).unwrap();
    let highest = other.live_files()[0].largest_seqno;
    assert_eq!(highest, 100);
    let want = contents(&cf);
    assert_eq!(contents(&other.default_cf()), want);
    other.default_cf().put(key(3), "third").unwrap();
    assert_eq!(
        other.default_cf().get(key(3)).unwrap().as_deref(),
        Some(&b"third"[..])
    );
    other.close().unwrap();
    db.close().unwrap();
}

#[test]
fn whichever_call_fails_all_files_are_there_or_none_and_the_originals_stay() {
    let classes = [
        OpClass::Append,
        OpClass::Sync,
        OpClass::Close,
        OpClass::Create,
        OpClass::Link,
        OpClass::OpenDir,
        OpClass::SyncDir,
        OpClass::Open,
        OpClass::Read,
        OpClass::Stat,
        OpClass::Delete,
    ];
    let (mut failed, mut survived) = (0, 0);
    for moves in [false, true] {
        for class in classes {
            for nth in 1.. {
                let w = World::new(6);
                let db = open(&w.env);
                let mut before = Model::new();
                for n in 0..30 {
                    db.default_cf().put(key(n), "old").unwrap();
                    before.insert(key(n), b"old".to_vec());
                }
                let cfs = [db.default_cf(), db.cf("two").unwrap()];
                let mut all = Vec::new();
                let mut after = [before.clone(), Model::new()];
                for (i, cf) in cfs.iter().enumerate() {
                    let mut files = Vec::new();
                    for part in 0..2u64 {
                        let keys = part * 10..part * 10 + 15;
                        let value = format!("new{part}");
                        for n in keys.clone() {
                            after[i].insert(key(n), value.clone().into_bytes());
                        }
                        files.push(puts(&w.env, &format!("/{i}{part}.sst"), keys, &value));
                    }
                    all.push(Ingestion {
                        cf: cf.clone(),
                        files,
                        options: IngestOptions::new().move_files(moves),
                    });
                }
                let rule = w.fs.add(FaultRule::fail(class, nth, 5));
                let done = db.ingest(&all);
                let fired = w.fs.fired(rule);
                w.fs.clear();
                let what = format!("{class:?} {nth}, moves {moves}: {done:?}");
                let want = match &done {
                    Ok(()) => {
                        survived += u64::from(fired > 0);
                        after.clone()
                    }
                    Err(_) => {
                        failed += 1;
                        for file in all.iter().flat_map(|i| &i.files) {
                            assert!(w.fs.entry(file).unwrap().is_some(), "{what}");
                        }
                        [before.clone(), Model::new()]
                    }
                };
                assert_eq!(cfs.each_ref().map(contents), want, "{what}");
                // The database goes on, by itself or once it is told to.
                db.resume().unwrap_or_else(|e| panic!("{what}: {e}"));
                cfs[0]
                    .put("after", "v")
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                drop(cfs);
                drop(all);
                db.close().unwrap_or_else(|e| panic!("{what}: {e}"));
                let db = open(&w.env);
                let mut seen = [db.default_cf(), db.cf("two").unwrap()]
                    .each_ref()
                    .map(contents);
                assert!(seen[0].remove(&b"after"[..]).is_some(), "{what}");
                assert_eq!(seen, want, "{what}, opened again");
                db.close().unwrap();
                if fired == 0 {
                    break;
                }
            }
        }
    }
    assert!(failed > 40 && survived > 3, "{failed} {survived}");
}

#[test]
fn a_power_loss_leaves_all_files_or_none_and_nothing_older_is_lost_where_they_are() {
    crate::suite_disk::needs_table_files(
        "the test looks for tables in the directory of the database",
    );
    for moves in [false, true] {
        let w = World::new(7);
        let db = open(&w.env);
        let cfs = [db.default_cf(), db.cf("two").unwrap()];
        let mut before = [Model::new(), Model::new()];
        for n in 0..20 {
            // Not synced, and beside the files: no flush makes it durable.
            for (cf, model) in cfs.iter().zip(&mut before) {
                cf.put(key(500 + n), "old").unwrap();
                model.insert(key(500 + n), b"old".to_vec());
            }
        }
        let mut after = before.clone();
        let mut all = Vec::new();
        for (i, cf) in cfs.iter().enumerate() {
            let files = [(0, "a"), (5, "b")].map(|(from, value)| {
                for n in from..from + 10 {
                    after[i].insert(key(n), value.into());
                }
                puts(&w.env, &format!("/{i}{value}.sst"), from..from + 10, value)
            });
            all.push(Ingestion {
                cf: cf.clone(),
                files: files.to_vec(),
                options: IngestOptions::new().move_files(moves),
            });
        }
        w.env.fs.sync_dir(Path::new("/")).unwrap();
        let images: Arc<Mutex<Vec<(String, MemFs)>>> = Arc::default();
        let (mem, kept) = (w.mem.clone(), images.clone());
        w.mem.set_observer(Some(Arc::new(move |op: &FsOp| {
            for keep_all in [false, true] {
                let image = mem.crash_clone(&mut |n| if keep_all { n - 1 } else { 0 });
                kept.lock().unwrap().push((format!("{op:?}"), image));
            }
        })));
        db.ingest(&all).unwrap();
        w.mem.set_observer(None);
        let last = ("the end".to_string(), w.mem.strict_clone());
        images.lock().unwrap().push(last);
        let (mut none, mut whole) = (0, 0);
        for (cut, image) in images.lock().unwrap().drain(..) {
            let (env, ..) = Env::test(Arc::new(image), 5);
            let originals = all.iter().flat_map(|i| &i.files);
            let there = originals
                .filter(|f| env.fs.entry(f).unwrap().is_some())
                .count();
            for round in 0..2 {
                let db = open(&env);
                let seen = [db.default_cf(), db.cf("two").unwrap()]
                    .each_ref()
                    .map(contents);
                let has_files = seen[0].contains_key(&key(0)[..]);
                if has_files {
                    assert_eq!(seen, after, "before {cut}");
                    whole += u64::from(round == 0);
                } else {
                    assert_ne!(cut, "the end");
                    assert_eq!(there, 4, "before {cut}");
                    for (seen, before) in seen.iter().zip(&before) {
                        assert!(
                            seen.iter().all(|e| before.get(e.0) == Some(e.1)),
                            "before {cut}"
                        );
                    }
                    none += u64::from(round == 0);
                }
                let names = env.fs.list(Path::new("/db")).unwrap();
                let tables = names.iter().filter(|n| n.ends_with(".sst")).count();
                let live = db.live_files().len();
                assert_eq!(tables, live, "before {cut}: {names:?}");
                db.close().unwrap();
            }
        }
        assert!(none > 10 && whole > 1, "{none} {whole}");
        drop(cfs);
        drop(all);
        db.close().unwrap();
    }
}

/// Each ingestion sets all keys of two families to one value; writers do the same with other keys, so that
/// memtables overlap and have to be flushed.
#[test]
fn readers_beside_ingestions_see_all_of_a_call_or_nothing() {
    let temp = spanlith_testkit::TempDir::new("ingestions");
    let env = Env::system();
    let dir = temp.join("db");
    let db = builder(dir.to_str().unwrap(), &env, &small())
        .open()
        .unwrap();
    let done = AtomicBool::new(false);
    let rounds = 60;
    let same = |values: &[Option<Vec<u8>>], what: &str| {
        assert!(
            values.windows(2).all(|w| w[0] == w[1]),
            "half an ingestion, {what}: {values:?}"
        );
    };
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                for n in 0u64.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut batch = WriteBatch::new();
                    for cf in [db.default_cf(), db.cf("two").unwrap()] {
                        // Between the keys of the files.
                        let k = format!("k{:04}w{writer}", n % 40);
                        batch.put_cf(&cf, k, vec![b'x'; 100]);
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
        for reader in 0..3 {
            let (db, done, same) = (&db, &done, &same);
            scope.spawn(move || {
                let cfs = [db.default_cf(), db.cf("two").unwrap()];
                while !done.load(Ordering::Relaxed) {
                    match reader {
                        0 => {
                            let keys: Vec<_> = (0..40).step_by(13).map(key).collect();
                            let pairs: Vec<(&Cf, &[u8])> = cfs
                                .iter()
                                .flat_map(|cf| keys.iter().map(move |k| (cf, &k[..])))
                                .collect();
                            let found = db.multi_get(&pairs);
                            let found: Vec<_> = found
                                .into_iter()
                                .map(|v| v.unwrap().map(|v| v.to_vec()))
                                .collect();
                            same(&found, "multi-get");
                        }
                        1 => {
                            let found = contents(&cfs[0]);
                            let all: Vec<_> =
                                (0..40).map(|n| found.get(&key(n)).cloned()).collect();
                            same(&all, "iterator");
                        }
                        _ => {
                            let snapshot = db.snapshot();
                            let at = ReadOptions::new().snapshot(&snapshot);
                            let mut all = Vec::new();
                            for n in (0..40).chain((0..40).rev()) {
                                for cf in &cfs {
                                    let v = cf.get_opt(key(n), &at).unwrap();
                                    all.push(v.map(|v| v.to_vec()));
                                }
                            }
                            same(&all, "snapshot");
                        }
                    }
                }
            });
        }
        for round in 0..rounds {
            let value = format!("{round:04}");
            let all = [db.default_cf(), db.cf("two").unwrap()].map(|cf| {
                // Two files each, one of which sometimes lies where nothing is yet.
                let paths = [(0, 20), (20, 40)].map(|(from, to)| {
                    let path = temp.join(format!("{}-{from}.sst", cf.id()));
                    puts(&env, path.to_str().unwrap(), from..to, &value)
                });
                Ingestion {
                    cf,
                    files: paths.to_vec(),
                    options: IngestOptions::new().move_files(round % 2 == 0),
                }
            });
            db.ingest(&all).unwrap();
            let got = db.default_cf().get(key(39)).unwrap();
            assert_eq!(got.as_deref(), Some(value.as_bytes()));
        }
        done.store(true, Ordering::Relaxed);
    });
    let report = db.verify(VerifyLevel::Full).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    db.close().unwrap();
}
