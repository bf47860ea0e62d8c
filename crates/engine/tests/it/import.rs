//! Families that are exported and imported: the new one shows what the old one did, level by level.

use spanlith::options::{CfOptions, CompactionStyle, CompressionType, DbOptions};
use spanlith::{
    Cf, Db, DbPath, ErrorKind, ExportedFamily, FamilyOptions, ImportOptions, IngestOptions,
    LiveFile, OpenBuilder, SstWriter, StringAppend, VerifyLevel,
};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use spanlith_testkit::{Rng, TempDir, seed, test_name};
use std::path::Path;
use std::sync::Arc;

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
    FamilyOptions::new(name)
        .options(cf)
        .merge_operator(Arc::new(StringAppend::new(b",")))
}

fn builder(dir: impl AsRef<Path>) -> OpenBuilder {
    let mut options = DbOptions::default();
    options.create_if_missing = true;
    Db::builder(dir).options(options).no_info_log()
}

/// Everything that readers see of a family.
fn contents(cf: &Cf) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entry = |e: spanlith::Result<(spanlith::Pinned, spanlith::Pinned)>| {
        let (key, value) = e.unwrap();
        (key.to_vec(), value.to_vec())
    };
    cf.iter().map(entry).collect()
}

fn shape(files: &[LiveFile]) -> Vec<(usize, u64, u64)> {
    let of = |f: &LiveFile| (f.level, f.size, f.largest_seqno);
    files.iter().map(of).collect()
}

fn write(cf: &Cf, rng: &mut Rng, ops: usize) {
    for _ in 0..ops {
        let key = format!("{:04}", rng.below(500));
        match rng.below(10) {
            0 => cf.delete(key).unwrap(),
            1 => cf.merge(key, "m").unwrap(),
            2 => {
                let end = format!("{key}~");
                cf.delete_range(key, end).unwrap();
            }
            3 => cf.flush(true).unwrap(),
            _ => cf.put(key, vec![b'v'; rng.below(200) as usize]).unwrap(),
        }
    }
}

fn clean(db: &Db) {
    let report = db.verify(VerifyLevel::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn an_imported_family_shows_what_the_exported_one_did() {
    for round in 0..12 {
        let seed = seed(test_name!()) + round;
        let mut rng = Rng::new(seed);
        let temp = TempDir::new("import");
        let mut options = small();
        if round % 3 == 1 {
            options.compaction_style = CompactionStyle::Universal;
        }
        let from = builder(temp.join("from")).open().unwrap();
        let old = from.create_cf(family("old", options.clone())).unwrap();
        write(&old, &mut rng, 600);
        if round % 2 == 0 {
            // A table from outside has its number in the MANIFEST only.
            let path = temp.join("outside.sst");
            let mut sst = SstWriter::create(&path, family("old", options.clone())).unwrap();
            sst.put("0100", "taken in").unwrap();
            sst.put("0200", "taken in").unwrap();
            sst.finish().unwrap();
            old.ingest([&path], &IngestOptions::default()).unwrap();
        }
        write(&old, &mut rng, 30);
        let exported = old.export(temp.join("out")).unwrap();
        let (want, wanted_shape) = (contents(&old), shape(&exported.files));
        assert!(
            exported
                .files
                .iter()
                .all(|f| f.path.starts_with(temp.join("out")))
        );
        // The exported files are their own.
        from.drop_cf(&old).unwrap();
        for (at, moves) in [(0, false), (1, false), (2, true)] {
            let to = builder(temp.join(format!("to{at}"))).open().unwrap();
            to.default_cf().put("other", "v").unwrap();
            let how = ImportOptions::new().move_files(moves);
            // A caller that does not say how old files are leaves that to sequence numbers.
            let mut told = exported.clone();
            if at == 1 {
                told.files.iter_mut().for_each(|f| f.epoch_number = 0);
            }
            // Compactions would change the shape before it is compared.
            let mut still = options.clone();
            still.disable_auto_compactions = true;
            let cf = to.import_cf(family("new", still), &told, how).unwrap();
            assert_eq!(contents(&cf), want, "seed {seed}, {at}");
            assert_eq!(shape(&cf.live_files()), wanted_shape, "seed {seed}, {at}");
            clean(&to);
            let is_left = exported.files.iter().all(|f| f.path.exists());
            assert_eq!(is_left, !moves);
            // A later write is newer, and all writes are there after an open.
            cf.put("0100", "later").unwrap();
            cf.merge("0200", "later").unwrap();
            let seen = contents(&cf);
            drop(cf);
            to.close().unwrap();
            let again = builder(temp.join(format!("to{at}")));
            let to = again.family(family("new", options.clone())).open().unwrap();
            let cf = to.cf("new").unwrap();
            assert_eq!(contents(&cf), seen, "seed {seed}, {at}");
            assert_eq!(cf.get("0100").unwrap().as_deref(), Some(&b"later"[..]));
            cf.compact_range(None, None).unwrap();
            assert_eq!(contents(&cf), seen, "seed {seed}, {at}");
            clean(&to);
        }
        from.close().unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_no_family() {
    let temp = TempDir::new("import-refused");
    let db = builder(temp.join("db")).open().unwrap();
    let mut levels = small();
    levels.num_levels = 7;
    levels.compression = CompressionType::None;
    let old = db.create_cf(family("old", levels.clone())).unwrap();
    let mut rng = Rng::new(1);
    write(&old, &mut rng, 800);
    old.compact_range(None, None).unwrap();
    old.put("x", "in level 0").unwrap();
    let good = old.export(temp.join("out")).unwrap();
    db.wait_idle(None).unwrap();
    assert!(good.files.iter().filter(|f| f.level > 0).count() > 1);
    let refused = |e: spanlith::Result<ExportedFamily>| e.unwrap_err().to_string();
    assert_eq!(
        refused(old.export(temp.join("out"))),
        "Invalid argument: Specified export_dir exists"
    );
    assert_eq!(
        refused(old.export("..")),
        "Invalid argument: Specified export_dir exists"
    );
    let files = || std::fs::read_dir(temp.join("db")).unwrap().count();
    let import = |options: CfOptions, told: &ExportedFamily| {
        let before = files();
        let e = db.import_cf(family("new", options), told, ImportOptions::new());
        let e = e.unwrap_err();
        assert!(db.cf("new").is_none());
        // An OPTIONS file and nothing else may have come.
        assert!(files() <= before + 1, "{e}");
        e
    };
    let e = import(
        small(),
        &ExportedFamily {
            files: Vec::new(),
            ..good.clone()
        },
    );
    assert_eq!(
        e.to_string(),
        "Invalid argument: The list of files is empty"
    );
    let mut told = good.clone();
    told.comparator = "leveldb.ReverseBytewiseComparator".into();
    let e = import(small(), &told);
    assert!(
        e.message().contains("is leveldb.ReverseBytewiseComparator"),
        "{e}"
    );
    let mut few = small();
    few.num_levels = 2;
    let mut told = good.clone();
    told.files.iter_mut().for_each(|f| f.level *= 3);
    let e = import(few, &told);
    assert!(e.to_string().contains("for a family with 2 levels"), "{e}");
    let mut told = good.clone();
    told.files.iter_mut().for_each(|f| f.level = 1);
    told.files.push(told.files[1].clone());
    let e = import(small(), &told);
    assert!(e.to_string().contains("overlap"), "{e}");
    let mut told = good.clone();
    told.files[0].path = temp.join("missing.sst");
    assert_eq!(import(small(), &told).kind(), ErrorKind::Io);
    let bytes = std::fs::read(&good.files[1].path).unwrap();
    std::fs::remove_file(&good.files[1].path).unwrap();
    let mut broken = bytes.clone();
    broken[20] ^= 1;
    std::fs::write(&good.files[1].path, broken).unwrap();
    assert_eq!(import(small(), &good).kind(), ErrorKind::Corruption);
    // The database's own table was another file by then.
    clean(&db);
    std::fs::write(&good.files[1].path, bytes).unwrap();
    let mut taken = family("old", small());
    taken = taken.paths(vec![DbPath::new(temp.join("elsewhere"), 1 << 30)]);
    let e = db
        .import_cf(taken, &good, ImportOptions::new())
        .unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: Column family already exists"
    );
    let cf = db
        .import_cf(family("new", small()), &good, ImportOptions::new())
        .unwrap();
    assert_eq!(contents(&cf), contents(&old));
}

/// Whichever call fails: the import is there as a whole, or the family is not.
#[test]
fn an_import_that_fails_leaves_nothing() {
    let mem = Arc::new(MemFs::new());
    let (env, _, _) = Env::test(mem.clone(), 1);
    let db = builder("/from").env(env).open().unwrap();
    let old = db.create_cf(family("old", small())).unwrap();
    write(&old, &mut Rng::new(2), 300);
    let exported = old.export("/out").unwrap();
    let want = contents(&old);
    let classes = [
        OpClass::Create,
        OpClass::Append,
        OpClass::Sync,
        OpClass::Rename,
    ];
    let mut failed = 0;
    for class in classes {
        for nth in 1..40 {
            let fs = Arc::new(FaultFs::new(mem.clone()));
            let (env, _, _) = Env::test(fs.clone(), 1);
            let dir = format!("/to-{class:?}-{nth}");
            let to = builder(&dir).env(env).open().unwrap();
            let rule = fs.add(FaultRule::fail(class, nth, 5));
            let how = ImportOptions::new();
            let made = to
                .import_cf(family("new", small()), &exported, how)
                .map(drop);
            let was_hit = fs.fired(rule) > 0;
            fs.clear();
            drop(to.close());
            let (env, _, _) = Env::test(mem.clone(), 2);
            let names = Db::list_families(&dir, &env).unwrap();
            let again = builder(&dir).env(env);
            let is_there = names.iter().any(|n| n == "new");
            let to = match is_there {
                true => again.family(family("new", small())).open().unwrap(),
                false => again.open().unwrap(),
            };
            let seen = to.cf("new").map(|cf| contents(&cf)).unwrap_or_default();
            let is_whole = seen == want;
            assert!(is_whole || seen.is_empty(), "{class:?} {nth}");
            assert!(made.is_err() || is_whole, "{class:?} {nth}");
            clean(&to);
            failed += usize::from(made.is_err());
            to.close().unwrap();
            if !was_hit {
                break;
            }
        }
    }
    assert!(failed > 8, "{failed}");
    assert!(mem.entry(Path::new("/out.tmp")).unwrap().is_none());
}
