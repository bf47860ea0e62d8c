//! Directories whose merge operator only its program has: everything that copies or rewrites keeps the operands.

use crate::support::{contents, db};
use spanlith::{Db, MergeOperator, StringAppend};
use spanlith_testkit::TempDir;
use std::path::Path;
use std::sync::Arc;

struct ShopAppend;

impl MergeOperator for ShopAppend {
    fn name(&self) -> &str {
        "shop.Append"
    }
    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = base.into_iter().chain(operands.iter().copied());
        Some(all.collect::<Vec<_>>().join(&b"|"[..]))
    }
}

fn open(dir: &Path) -> Db {
    let builder = Db::builder(dir).create_if_missing(true);
    builder.merge_operator(Arc::new(ShopAppend)).open().unwrap()
}

/// 20 operands of one key in tables, two in the log.
fn make(dir: &Path) -> Vec<u8> {
    let made = open(dir);
    let cf = made.default_cf();
    made.default_cf().put("base", "x").unwrap();
    for n in 0..20 {
        cf.merge("list", format!("item{n}")).unwrap();
        if n % 7 == 6 {
            cf.flush(true).unwrap();
        }
    }
    let value = cf.get("list").unwrap().unwrap().to_vec();
    made.close().unwrap();
    value
}

fn value(dir: &Path) -> Vec<u8> {
    let db = open(dir);
    let value = db.default_cf().get("list").unwrap().unwrap().to_vec();
    db.close().unwrap();
    value
}

fn options(dir: &Path) -> String {
    let files = contents(dir).into_iter();
    let newest = files.filter(|(name, _)| name.starts_with("OPTIONS-")).max();
    String::from_utf8(newest.unwrap().1).unwrap()
}

#[test]
fn writing_verbs_keep_operands_of_an_operator_they_do_not_have() {
    let temp = TempDir::new("cli operands");
    let dir = temp.join("db");
    let expected = make(&dir);
    // Another operator is for reading only, under either form of the flag.
    let before = contents(&dir);
    for flag in ["shop.Append=uint64add", "uint64add", "none"] {
        for verb in ["compact", "flush"] {
            let err = db(verb, &dir, &["--merge-operator", flag]).fails(1);
            assert!(
                err.contains("recorded as shop.Append") && err.contains("reading only"),
                "{err}"
            );
            assert!(!err.contains("uint64add or"), "{err}");
        }
        assert!(contents(&dir) == before, "{flag}");
    }
    let read = db(
        "get",
        &dir,
        &["--merge-operator", "shop.Append=stringappend:|", "list"],
    );
    assert_eq!(read.ok().trim_end().as_bytes(), expected);
    // Without one a read names what is recorded and nothing that writes.
    let err = db("scan", &dir, &[]).fails(1);
    assert!(
        err.contains("records the merge operator shop.Append"),
        "{err}"
    );
    assert!(
        err.contains("scan --raw") && !err.contains("uint64add"),
        "{err}"
    );
    let raw = db("scan", &dir, &["--raw"]).ok();
    assert_eq!(raw.lines().count(), 21, "{raw}");
    assert!(raw.lines().next().unwrap().ends_with("\tx"), "{raw}");
    let newest = raw.lines().nth(1).unwrap();
    assert!(
        newest.starts_with("list\t") && newest.ends_with("\titem19"),
        "{raw}"
    );

    db("verify", &dir, &[]).ok();
    db("flush", &dir, &[]).ok();
    db("compact", &dir, &["--force-bottommost"]).ok();
    assert!(
        options(&dir).contains("  merge_operator=shop.Append\n"),
        "{}",
        options(&dir)
    );
    let copy = temp.join("copy");
    db("checkpoint", &dir, &[copy.to_str().unwrap()]).ok();
    let backups = temp.join("backups");
    let backups = backups.to_str().unwrap();
    let text = crate::support::run([
        "db",
        "backup",
        "create",
        "--db",
        dir.to_str().unwrap(),
        backups,
    ]);
    text.ok();
    let restored = temp.join("restored");
    db("restore", &restored, &["--from", backups]).ok();
    for dir in [&dir, &copy, &restored] {
        assert_eq!(value(dir), expected, "{}", dir.display());
    }
    // The tables know the name where the OPTIONS file is gone.
    for (name, _) in contents(&copy) {
        if name.starts_with("OPTIONS-") {
            std::fs::remove_file(copy.join(name)).unwrap();
        }
    }
    db("compact", &copy, &["--force-bottommost"]).ok();
    assert_eq!(value(&copy), expected);
}

#[test]
fn a_delimiter_is_recorded_and_one_that_is_not_is_not_guessed() {
    let temp = TempDir::new("cli delimiter");
    let dir = temp.join("db");
    let open = |delimiter: &[u8]| {
        let builder = Db::builder(&dir).create_if_missing(true);
        let operator = Arc::new(StringAppend::new(delimiter));
        builder.merge_operator(operator).open().unwrap()
    };
    let made = open(b"#:");
    for part in ["a", "b", "c"] {
        made.default_cf().merge("k", part).unwrap();
        made.default_cf().flush(true).unwrap();
    }
    made.close().unwrap();
    assert_eq!(db("get", &dir, &["k"]).ok(), "a#:b#:c\n");
    db("flush", &dir, &[]).ok();
    assert_eq!(db("get", &dir, &["k"]).ok(), "a#:b#:c\n");
    // Files of older releases name no delimiter.
    for (name, text) in contents(&dir) {
        if name.starts_with("OPTIONS-") {
            let text = String::from_utf8(text).unwrap();
            let lines = text
                .lines()
                .map(|l| match l.trim_start().starts_with("merge_operator=") {
                    true => "  merge_operator=StringAppendOperator",
                    false => l,
                });
            std::fs::write(dir.join(name), lines.collect::<Vec<_>>().join("\n")).unwrap();
        }
    }
    db("compact", &dir, &["--force-bottommost"]).ok();
    let again = open(b"#:");
    let value = again.default_cf().get("k").unwrap().unwrap().to_vec();
    assert_eq!(value, b"a#:b#:c");
    again.close().unwrap();
}

/// The operator of a database with times to live is found inside that of the database, with the flag and without.
#[test]
fn the_operator_inside_that_of_times_to_live_is_found() {
    let temp = TempDir::new("cli ttl operator");
    let dir = temp.join("db");
    let builder = Db::builder(&dir).create_if_missing(true);
    let builder = builder.merge_operator(Arc::new(StringAppend::new(b",")));
    let made = builder
        .with_ttl(std::time::Duration::from_secs(1 << 30))
        .open()
        .unwrap();
    made.default_cf().merge("k", "a").unwrap();
    made.default_cf().flush(true).unwrap();
    made.default_cf().merge("k", "b").unwrap();
    made.close().unwrap();
    assert!(options(&dir).contains("user_operator={id=StringAppendOperator;delimiter=,;}"));
    assert_eq!(db("get", &dir, &["--ttl", "k"]).ok(), "a,b\n");
    let plain = db("get", &dir, &["k"]).ok();
    assert!(
        plain.starts_with("a,b") && plain.len() > "a,b\n".len(),
        "{plain}"
    );
    // Of the filter that forgets old values only its program knows how old.
    let flags = ["--force-bottommost", "--default-options"];
    db("compact", &dir, &flags).ok();
    assert_eq!(db("get", &dir, &["--ttl", "k"]).ok(), "a,b\n");
    assert!(options(&dir).contains("user_operator={id=StringAppendOperator;delimiter=,;}"));
}

struct Down;

impl spanlith::UserComparator for Down {
    fn name(&self) -> &str {
        "rev:acme.Down"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
fn an_order_that_the_tables_contradict_is_not_written_with() {
    let temp = TempDir::new("cli order");
    let dir = temp.join("db");
    let order = spanlith::Comparator::User(Arc::new(Down));
    let builder = Db::builder(&dir).create_if_missing(true);
    let made = builder.comparator(order).open().unwrap();
    made.default_cf().put("a", "1").unwrap();
    made.default_cf().put("b", "2").unwrap();
    made.default_cf().flush(true).unwrap();
    made.close().unwrap();
    let before = contents(&dir);
    let wrong = ["--comparator", "rev:acme.Down=bytewise"];
    let err = db("compact", &dir, &wrong).fails(1);
    assert!(
        err.contains("is not in the order that --comparator gives"),
        "{err}"
    );
    assert!(contents(&dir) == before);
    let right = ["--comparator", "rev:acme.Down=reverse"];
    db("compact", &dir, &right).ok();
    assert_eq!(db("scan", &dir, &right).ok(), "b\t2\na\t1\n");
}
