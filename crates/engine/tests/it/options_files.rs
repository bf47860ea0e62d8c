//! OPTIONS files of databases with many families, which are continued instead of written anew.

use spanlith::{Db, FamilyOptions};
use spanlith_env::{Env, FaultFs, FaultRule, FileSystem, MemFs, OpClass};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/db";

/// Of many families the older OPTIONS file is continued, which nobody notices: both files say at any time what the
/// database had, one that others have linked is left alone, and an error leaves the newest one.
#[test]
fn a_large_options_file_is_continued_and_both_are_whole_all_the_time() {
    let fs = MemFs::new();
    let faults = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let mut env = Env::system();
    env.fs = faults.clone();
    let db = Db::builder(Path::new(DIR)).create_if_missing(true);
    let db = db.env(env.clone()).no_info_log().open().unwrap();
    let files = || {
        let names = fs.list(Path::new(DIR)).unwrap();
        let is_options = |n: &String| n.starts_with("OPTIONS-") && !n.ends_with(".dbtmp");
        let paths = names.into_iter().filter(is_options);
        paths
            .map(|n| Path::new(DIR).join(n))
            .collect::<Vec<PathBuf>>()
    };
    let families = |path: &Path| -> Vec<String> {
        let file = spanlith::options::OptionsFile::read(&env, path, false).unwrap();
        file.families.into_iter().map(|f| f.0).collect()
    };
    let make = |name: &str| db.create_cf(FamilyOptions::new(name));
    let mut expected = vec!["default".to_string()];
    let mut kept = Vec::new();
    for n in 0..210 {
        expected.push(format!("family{n:03}"));
        kept.push(make(&expected[expected.len() - 1]).unwrap());
    }
    let check = |expected: &[Vec<String>]| {
        let found: Vec<_> = files().iter().map(|f| families(f)).collect();
        assert!(found == expected, "{found:?}");
    };
    let all = expected.len();
    check(&[expected[..all - 1].to_vec(), expected.clone()]);
    // The sections of two families are written, not a MiB.
    let before = faults.appended();
    kept.push(make("more").unwrap());
    let bytes = faults.appended() - before;
    assert!(bytes < 20_000, "{bytes}");
    let before = [expected.clone(), vec!["more".to_string()]].concat();
    check(&[expected.clone(), before.clone()]);
    // The sections of a removed family in the middle become a comment, and those of the newest are added.
    let bytes = faults.appended();
    db.drop_cf(&kept.remove(7)).unwrap();
    let bytes = faults.appended() - bytes;
    assert!(bytes < 20_000, "{bytes}");
    let mut fewer = before.clone();
    fewer.remove(8);
    check(&[before, fewer.clone()]);
    kept.push(make("x").unwrap());
    kept.push(make("y").unwrap());
    let x = [fewer.clone(), vec!["x".to_string()]].concat();
    let y = [x.clone(), vec!["y".to_string()]].concat();
    check(&[x.clone(), y.clone()]);
    // A link of the older file, as backups of others make, stays what it was.
    let link = Path::new(DIR).join("linked");
    fs.link(&files()[0], &link).unwrap();
    kept.push(make("z").unwrap());
    assert_eq!(families(&link), x);
    let z = [y.clone(), vec!["z".to_string()]].concat();
    check(&[y, z.clone()]);
    // Options that change are written anew.
    kept[3]
        .set_options(&[("write_buffer_size", "1000000")])
        .unwrap();
    check(&[z.clone(), z.clone()]);
    // Families go one after the other, until so many are gone that both files are small; each file says what is there.
    let mut z = z;
    while z.len() > 20 {
        let at = z.len() / 2;
        let gone = z.remove(at);
        let place = kept.iter().position(|cf| cf.name() == gone).unwrap();
        let older = [z[..at].to_vec(), vec![gone], z[at..].to_vec()].concat();
        db.drop_cf(&kept.remove(place)).unwrap();
        if z.len() % 16 == 0 {
            check(&[older, z.clone()]);
        }
    }
    while z.len() < 230 {
        z.push(format!("again{}", z.len()));
        kept.push(make(z.last().unwrap()).unwrap());
    }
    // The file that goes on cannot be written: the newest one is there.
    kept.push(make("last").unwrap());
    let last = [z.clone(), vec!["last".to_string()]].concat();
    check(&[z, last.clone()]);
    for class in [OpClass::Append, OpClass::Sync, OpClass::Rename] {
        let rule = faults.add(FaultRule::fail(class, 1, 5).named(".dbtmp"));
        drop(make(&format!("refused by {class:?}")));
        assert_eq!(faults.fired(rule), 1);
        let newest = files().pop().unwrap();
        assert!(families(&newest).starts_with(&last), "{class:?}");
    }
    for class in [OpClass::Append, OpClass::Sync, OpClass::Rename] {
        let named = families(&files().pop().unwrap());
        let rule = faults.add(FaultRule::fail(class, 1, 5).named(".dbtmp"));
        let gone = kept.remove(5);
        drop(db.drop_cf(&gone));
        assert_eq!(faults.fired(rule), 1);
        // It is named until a file without it is whole; the MANIFEST counts.
        assert_eq!(families(&files().pop().unwrap()), named, "{class:?}");
        kept.push(make(&format!("after {class:?}")).unwrap());
        assert!(
            !families(&files().pop().unwrap())
                .iter()
                .any(|n| n == gone.name())
        );
    }
    drop(kept);
    drop(db);
}
