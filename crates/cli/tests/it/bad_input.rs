//! A table of bad input over the verbs. Whatever is wrong, the message names the value, says what to do next, ends no line
//! in a colon with nothing after it, does not send back to the verb that failed, and the exit code is not 0.

use crate::support::run;
use spanlith_testkit::{TempDir, golden_case, test_name};
use std::path::Path;

/// A row: the verb, the rest of the command line with `@` for the directory of the case, and what the message has to
/// name.
type Row = (&'static str, &'static [&'static str], &'static str);

/// Bad values of flags and arguments.
const VALUES: &[Row] = &[
    (
        "db scan",
        &["--db", "@/db", "--limit", "abc"],
        "--limit: 'abc' is no whole number",
    ),
    (
        "db scan",
        &["--db", "@/db", "--limit", "99999999999999999999"],
        "is too large",
    ),
    (
        "db scan",
        &["--db", "@/db", "--limit", ""],
        "--limit: '' is empty",
    ),
    ("db scan", &["--db", "@/db", "--from", "0xz"], "'0xz'"),
    ("db scan", &["--db", "@/db", "--cf", "nosuch"], "nosuch"),
    (
        "db scan",
        &["--db", "@/db", "--comparator", "sideways"],
        "'sideways'",
    ),
    (
        "db scan",
        &["--db", "@/db", "--merge-operator", "sum"],
        "'sum'",
    ),
    ("db scan", &["--db", "@/db", "--db-paths", "/a"], "'/a'"),
    (
        "db load",
        &["--db", "@/db", "--batch-size", "x"],
        "--batch-size: 'x' is no whole number",
    ),
    ("db load", &["--db", "@/db", "@/nosuch.tsv"], "nosuch.tsv"),
    (
        "db verify",
        &["--db", "@/db", "--level", "deepest"],
        "'deepest'",
    ),
    (
        "db verify",
        &["--db", "@/db", "--bytes-per-second", "1M"],
        "--bytes-per-second: '1M'",
    ),
    ("db get", &["--db", "@/db", "a", "surplus"], "'surplus'"),
    ("db get", &["--db", "@/db", "a\\q"], "a\\q"),
    ("db get", &["--db", "@/db", "--hex", "xyz"], "'xyz'"),
    (
        "db compact",
        &["--db", "@/db", "--from", "z", "--to", "a"],
        "--from",
    ),
    (
        "db compact-files",
        &["--db", "@/db", "--level", "1", "twelve"],
        "'twelve'",
    ),
    (
        "db compact-files",
        &["--db", "@/db", "--level", "x", "12"],
        "--level: 'x'",
    ),
    (
        "db options",
        &["--db", "@/db", "nosuchoption"],
        "'nosuchoption'",
    ),
    (
        "db properties",
        &["--db", "@/db", "rocksdb.nosuch"],
        "'rocksdb.nosuch'",
    ),
    ("db checkpoint", &["--db", "@/db", "@/db"], "/db"),
    (
        "db checkpoint",
        &["--db", "@/db", "@/no/such/place"],
        "/no/such/place",
    ),
    (
        "db backup create",
        &["--db", "@/db", "@/db/CURRENT"],
        "/db/CURRENT",
    ),
    ("db backup list", &["@/db"], "/db: no directory of backups"),
    ("db backup verify", &["@/nosuch"], "/nosuch"),
    (
        "db restore",
        &["--from", "@/nosuch", "--db", "@/new"],
        "/nosuch",
    ),
    (
        "db ingest",
        &["--db", "@/db", "@/db/CURRENT"],
        "/db/CURRENT is a CURRENT file",
    ),
    (
        "db ingest",
        &["--db", "@/db", "@/nosuch.sst"],
        "nosuch.sst: there is no such file",
    ),
    ("db migrate", &["--to-files", "--db", "@/nosuch"], "/nosuch"),
    (
        "db set-options",
        &["--db", "@/db", "write_bufer_size=1M"],
        "the nearest name is write_buffer_size",
    ),
    (
        "db set-options",
        &["--db", "@/db", "write_buffer_size=abc"],
        "write_buffer_size: 'abc' is no number",
    ),
    (
        "db set-options",
        &["--db", "@/db", "write_buffer_size="],
        "write_buffer_size has no value",
    ),
    (
        "db set-options",
        &["--db", "@/db", "write_buffer_size"],
        "'write_buffer_size'",
    ),
    (
        "db set-options",
        &["--db", "@/db", "disable_auto_compactions=maybe"],
        "'maybe' is neither true nor false",
    ),
    (
        "db set-options",
        &["--db", "@/db", "compression=zip"],
        "compression: 'zip' is none of its values: k",
    ),
    (
        "db set-options",
        &["--db", "@/db", "num_levels=5"],
        "num_levels cannot be changed",
    ),
    (
        "db set-options",
        &["--db", "@/db", "block_size=8k"],
        "block_size is an option of tables",
    ),
    (
        "db set-options",
        &["--db", "@/db", "--database", "max_bakground_jobs=3"],
        "the nearest name is max_background_jobs",
    ),
    (
        "db set-options",
        &["--db", "@/db", "--database", "ttl=3"],
        "ttl is an option of column families",
    ),
    (
        "db set-options",
        &["--db", "@/db", "block_based_table_factory={blok_size=8k}"],
        "no option blok_size; the nearest name is block_size",
    ),
    (
        "db set-options",
        &[
            "--db",
            "@/db",
            "block_based_table_factory={filter_policy=blom:10}",
        ],
        "'blom:10'",
    ),
    (
        "db set-options",
        &["--db", "@/db", "table_factory.filter_policy=blom:10"],
        "'blom:10'",
    ),
    (
        "db set-options",
        &["--db", "@/db", "compression_opts={levl=3}"],
        "compression_opts has no field levl; the nearest name is level",
    ),
    (
        "db put",
        &["--db", "@/db", "--set", "min_free_bytes=x", "a", "b"],
        "min_free_bytes: 'x'",
    ),
    (
        "db put",
        &["--db", "@/db", "--set", "min_fre_bytes=1", "a", "b"],
        "min_free_bytes",
    ),
    ("find", &["--db", "@/db", "0xz"], "'0xz'"),
    ("find", &["--db", "@/db", "k", "--cf", "nosuch"], "nosuch"),
    (
        "wal since",
        &["abc", "--db", "@/db"],
        "'abc' is no whole number",
    ),
    (
        "bench",
        &["fillseq", "--num", "x"],
        "--num: 'x' is no whole number",
    ),
    (
        "bench",
        &["fillseq", "--num", "10", "--options", "write_bufer_size=1"],
        "write_buffer_size",
    ),
    ("bench", &["nosuch"], "'nosuch'"),
    ("drive", &["nosuch", "--store", "spanlith"], "'nosuch'"),
    ("experiment run", &["X-NO"], "'X-NO'"),
    ("sim lsm", &["--seconds", "x"], "'x'"),
    (
        "stress run",
        &["--ops", "x"],
        "--ops: 'x' is no whole number",
    ),
    ("stress kill", &["--db", "@/db"], "/db exists"),
    ("tour", &["--dir", "@/db"], "/db is not empty"),
    (
        "replay",
        &["@/db/CURRENT", "--db", "@/db"],
        "/db/CURRENT is a CURRENT file",
    ),
    (
        "replay",
        &["@/nosuch", "--db", "@/db"],
        "/nosuch: there is no such file",
    ),
    ("model fit", &["@/nosuch"], "/nosuch: there is no such file"),
    (
        "options diff",
        &["@/db", "@/nosuch"],
        "/nosuch: there is no such file",
    ),
    ("sst write", &["--db", "@/nosuch", "@/out.sst"], "/nosuch"),
    ("nosuch", &[], "'nosuch'"),
    ("db nosuch", &["--db", "@/db"], "'nosuch'"),
    ("db scan", &["--db", "@/db", "--limi", "1"], "--limi"),
];

/// Verbs that take a database, with the arguments they need beside it.
const ABOUT_DATABASES: &[(&str, &[&str])] = &[
    ("db get", &["k"]),
    ("db scan", &[]),
    ("db scan", &["--raw"]),
    ("db count", &[]),
    ("db dump", &[]),
    ("db dump", &["--salvage"]),
    ("db families", &[]),
    ("db info", &[]),
    ("db files", &[]),
    ("db space", &[]),
    ("db memory", &[]),
    ("db explain", &["k"]),
    ("db properties", &[]),
    ("db options", &[]),
    ("db verify", &[]),
    ("db put", &["k", "v"]),
    ("db delete", &["k"]),
    ("db flush", &[]),
    ("db compact", &[]),
    ("db set-options", &["ttl=5"]),
    ("db checkpoint", &["@/copy"]),
    ("find", &["k"]),
    ("doctor", &[]),
    ("compat", &[]),
    ("shell", &[]),
    ("top", &["--once"]),
    ("blob live", &[]),
    ("wal since", &["1"]),
];

/// Verbs that show or check one file, and the file of the golden database that is of their kind.
const ABOUT_FILES: &[(&str, &str)] = &[
    ("sst dump", "000012.sst"),
    ("sst properties", "000012.sst"),
    ("sst layout", "000012.sst"),
    ("sst verify", "000012.sst"),
    ("wal dump", ".log"),
    ("wal check", ".log"),
    ("manifest dump", "MANIFEST"),
    ("manifest check", "MANIFEST"),
    ("blob dump", ".blob"),
    ("blob verify", ".blob"),
    ("options dump", "OPTIONS"),
    ("options check", "OPTIONS"),
    ("trace dump", "trace"),
    ("trace check", "trace"),
];

/// Runs a bad command line; what is wrong with the answer.
fn judge(verb: &str, args: &[String], named: &str) -> Vec<String> {
    let line: Vec<&str> = verb
        .split(' ')
        .chain(args.iter().map(String::as_str))
        .collect();
    let done = run(&line);
    let said = format!("{}{}", done.out, done.err);
    let mut wrong = Vec::new();
    let mut check = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{}: {what}:\n{said}", line.join(" ")));
        }
    };
    check(done.code.is_some_and(|code| code != 0), "no failure");
    check(!said.contains("panicked"), "a panic");
    check(said.contains(named), &format!("does not name {named}"));
    let lines: Vec<&str> = done.err.lines().collect();
    let next = lines.iter().find(|l| l.starts_with("next:"));
    check(next.is_some(), "no next step");
    for (n, line) in lines.iter().enumerate() {
        let goes_on = lines.get(n + 1).is_some_and(|l| l.starts_with(' '));
        check(
            !line.trim_end().ends_with(':') || goes_on,
            "a colon with nothing after it",
        );
    }
    let circle = format!("spanlith {verb} ");
    let in_circle = next.is_some_and(|l| l.contains(&circle) && !l.contains("--help"));
    // How to write it instead is no circle.
    let is_example = next.is_some_and(|l| l.contains("as in ") || l.contains("--create"));
    check(
        !in_circle || is_example,
        "sends back to the verb that failed",
    );
    for cryptic in ["stoi", "stoull", "stod", "invalid digit", "(os error"] {
        check(!said.contains(cryptic), cryptic);
    }
    wrong
}

fn at(args: &[&str], dir: &Path) -> Vec<String> {
    args.iter()
        .map(|a| a.replace('@', dir.to_str().unwrap()))
        .collect()
}

#[test]
fn bad_values_are_named_with_what_to_write_instead() {
    let temp = TempDir::new(test_name!());
    let db = golden_case("golden-11.8", "default").copy_to(temp.join("case"));
    let dir = db.parent().unwrap().to_path_buf();
    assert!(db.ends_with("db"));
    let rows = VALUES.iter();
    let wrong: Vec<String> = rows
        .flat_map(|(verb, args, named)| judge(verb, &at(args, &dir), named))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Of a damaged CURRENT, `verify` sent to `verify`.
#[test]
fn directories_that_hold_no_sound_database_are_named_with_a_way_on() {
    let temp = TempDir::new(test_name!());
    let dir = temp.join("case");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("file"), "text").unwrap();
    std::fs::create_dir(dir.join("empty")).unwrap();
    let damaged = golden_case("golden-11.8", "default").copy_to(temp.join("whole"));
    std::fs::write(damaged.join("CURRENT"), "MANIFEST-000").unwrap();
    std::fs::rename(&damaged, dir.join("damaged")).unwrap();
    let mut wrong = Vec::new();
    for (verb, args) in ABOUT_DATABASES {
        for place in ["nosuch", "file", "empty", "damaged"] {
            // It leaves out what is damaged, and says so.
            if place == "damaged" && args.contains(&"--salvage") {
                continue;
            }
            let mut line = at(args, &dir);
            line.extend(["--db".to_string(), dir.join(place).display().to_string()]);
            let named = match place {
                "damaged" => "CURRENT",
                place => place,
            };
            wrong.extend(judge(verb, &line, named));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A table was called a damaged log, and sent to `db verify`.
#[test]
fn files_of_another_kind_are_named_with_the_verb_that_shows_them() {
    let temp = TempDir::new(test_name!());
    let dir = golden_case("golden-11.8", "default").copy_to(temp.join("db"));
    std::fs::create_dir(temp.join("folder")).unwrap();
    let mut files: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path().display().to_string())
        .filter(|f| std::fs::metadata(f).unwrap().len() > 0 && !f.contains("LOG"))
        .collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    let mut wrong = Vec::new();
    for (verb, own) in ABOUT_FILES {
        for file in files.iter().filter(|f| !f.contains(own)) {
            // Another table is one, too.
            if own.ends_with(".sst") && file.ends_with(".sst") {
                continue;
            }
            wrong.extend(judge(verb, std::slice::from_ref(file), file));
            wrong.extend(judge(verb, std::slice::from_ref(file), " is a"));
        }
        for (place, named) in [
            ("nosuch", "there is no such file"),
            ("folder", "is a directory"),
        ] {
            // Of a directory its OPTIONS file is shown.
            if place == "folder" && *verb == "options dump" {
                continue;
            }
            let path = temp.join(place).display().to_string();
            wrong.extend(judge(verb, std::slice::from_ref(&path), named));
        }
    }
    let table = files.iter().find(|f| f.ends_with(".sst")).unwrap();
    let said = run(["wal", "dump", table]).fails(1);
    let next = format!("next:  spanlith sst dump {table} shows it");
    assert!(
        said.contains("is a table, not a write-ahead log") && said.contains(&next),
        "{said}"
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
