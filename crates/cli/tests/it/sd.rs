//! `spanlith sd`: speed disks in files.

use crate::support::{db, holder, run};
use spanlith_testkit::{TempDir, test_name};
use std::ffi::OsStr;

#[test]
fn a_file_becomes_a_speed_disk_and_is_measured_and_shown() {
    let temp = TempDir::new(test_name!());
    let path = temp.join("log.sd");
    let disk = path.to_str().unwrap();
    let out = run(["sd", "format", disk, "--size", "2M"]).ok();
    assert!(
        out.contains("is a speed disk") && out.contains("owner       nobody"),
        "{out}"
    );
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 << 20);
    let out = run(["sd", "calibrate", disk, "--rounds", "3"]).ok();
    assert!(out.contains("durable writes by 8 threads"), "{out}");
    let out = run(["sd", "status", disk, "--json"]).ok();
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(object["write_nanos"].as_u64() > Some(0), "{out}");
    assert_eq!(object["free_groups"], object["groups"]);
    run(["sd", "dump", disk]).ok();
    let err = run(["sd", "dump", disk, "--log", "4"]).fails(1);
    assert!(err.contains("there is no log 4"), "{err}");
    // Nobody's disk may be formatted again; a size is for files that are missing.
    run(["sd", "format", disk]).ok();
    run(["sd", "format", disk, "--size", "2M"]).fails(2);
}

#[test]
fn whatever_else_is_there_is_formatted_only_by_force() {
    let temp = TempDir::new(test_name!());
    let path = temp.join("notes");
    let disk = path.to_str().unwrap();
    std::fs::write(&path, vec![b'x'; 2 << 20]).unwrap();
    let err = run(["sd", "format", disk]).fails(1);
    assert!(
        err.contains("bytes of an unknown kind, the first at byte 0"),
        "{err}"
    );
    assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == b'x'));
    run(["sd", "format", disk, "--force"]).ok();
    run(["sd", "status", disk]).ok();
    for (args, what) in [
        (["sd", "status", "/nowhere/disk"], "sd format PATH"),
        (["sd", "status", "/"], "a file or a block device"),
    ] {
        let err = run(args).fails(1);
        assert!(err.contains(what), "{err}");
    }
    let small = temp.join("small");
    let err = run(["sd", "format", small.to_str().unwrap(), "--size", "100K"]).fails(1);
    assert!(err.contains("too small") && !small.exists(), "{err}");
    // A part of a device is a disk of its own.
    let part = format!("{disk}@1048576+1048576");
    run(["sd", "format", &part, "--force"]).ok();
    run(["sd", "status", &part]).ok();
}

#[test]
fn the_crash_programme_is_a_verb() {
    for what in [&[][..], &["--tables"]] {
        let line = ["sd", "crash", "--states", "500"];
        let out = run(line.iter().chain(what)).ok();
        assert!(out.contains("nothing lost, no hole"), "{out}");
        assert!(out.contains("an open cut short"), "{out}");
    }
}

/// R-SPAN-40: tables on a disk without a file system, from the command line: every verb finds them, and they leave it again.
#[test]
fn tables_come_to_a_disk_itself_and_leave_it_again() {
    let temp = TempDir::new(test_name!());
    let (disk, db) = (temp.join("log.sd"), temp.join("db"));
    let (disk, db) = (disk.to_str().unwrap(), db.to_str().unwrap());
    let out = run(["sd", "format", disk, "--size", "8M", "--tables", "4M"]).ok();
    assert!(out.contains("for tables"), "{out}");
    let files = || {
        let out = run(["sd", "status", disk, "--json"]).ok();
        let object: serde_json::Value = serde_json::from_str(&out).unwrap();
        object["tables"]["files"].as_u64().unwrap()
    };
    assert_eq!(files(), 0);
    // The option alone takes tables there.
    // So small a disk that the rule would keep it for the next memtable.
    let own = format!("sd_path={disk};sd_placement=lad:9");
    run(["db", "put", "--create", "--db", db, "--set", &own, "k", "v"]).ok();
    run(["db", "flush", "--set", &own, "--db", db]).ok();
    run(["db", "put", "--db", db, "l", "w"]).ok();
    assert_eq!(files(), 2, "a table, and whose they are");
    let dump = run(["sd", "dump", disk]).ok();
    assert!(
        dump.contains("table 0") && dump.contains(", pages "),
        "{dump}"
    );
    assert_eq!(run(["db", "get", "--db", db, "k"]).ok(), "v\n");
    assert!(
        run(["db", "verify", "--deep", "--db", db])
            .ok()
            .contains("ok")
    );
    let out = run(["doctor", "--db", db]).ok();
    assert!(out.contains("healthy"), "{out}");
    let found = run(["find", "k", "--db", db]);
    assert!(found.out.contains("(level 0)"), "{found:?}");
    let out = run(["db", "files", "--db", db]).ok();
    assert!(
        out.contains("log.sd/tables") && !out.contains("missing"),
        "{out}"
    );
    run(["db", "info", "--db", db]).ok();
    run(["db", "space", "--db", db]).ok();
    run(["compat", "--db", db, "--require", "11.8"]).fails(1);
    let copy = temp.join("copy");
    let copy = copy.to_str().unwrap();
    run(["db", "checkpoint", copy, "--db", db]).ok();
    assert_eq!(run(["db", "count", "--db", copy]).ok().trim(), "2");
    let out = run(["db", "migrate", "--to-files", "--db", db]).ok();
    assert!(
        out.contains("2 tables (") && out.contains("brought back"),
        "{out}"
    );
    assert!(run(["sd", "status", disk]).ok().contains("nobody"));
    assert_eq!(files(), 0);
    assert_eq!(run(["db", "count", "--db", db]).ok().trim(), "2");
    assert!(run(["db", "verify", "--db", db]).ok().contains("ok"));
    // And in again, by the name of the disk.
    let to = ["--to-speed-disk", disk, "--placement", "lad:9"];
    let out = run(["db", "migrate", "--db", db].iter().chain(&to)).ok();
    assert!(out.contains("2 tables ("), "{out}");
    assert_eq!(run(["db", "get", "--db", db, "k"]).ok(), "v\n");
    assert_eq!(files(), 3);
    // Another name.
    let moved = temp.join("moved.sd");
    let moved = moved.to_str().unwrap();
    std::fs::rename(disk, moved).unwrap();
    let found = run(["doctor", "--db", db]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(
        found.out.contains("2 tables") && found.out.contains("--lose-logs --lose-tables"),
        "{found:?}"
    );
    let err = run(["db", "get", "--db", db, "k"]).fails(1);
    assert!(err.contains("and the tables that were on it"), "{err}");
    let set = format!("sd_path={moved}");
    run(["db", "put", "--db", db, "--set", &set, "m", "x"]).ok();
    assert_eq!(run(["db", "count", "--db", db]).ok().trim(), "3");
    // Gone for good.
    std::fs::remove_file(moved).unwrap();
    run(["db", "migrate", "--to-files", "--lose-logs", "--db", db]).fails(1);
    let lose = ["--lose-logs", "--lose-tables", "--db", db];
    let out = run(["db", "migrate", "--to-files"].iter().chain(&lose)).ok();
    assert!(out.contains("given up"), "{out}");
    run(["db", "flush", "--give-up-damage", "--db", db]).ok();
    assert_eq!(run(["db", "count", "--db", db]).ok().trim(), "0");
    // A disk for logs alone takes none.
    let small = temp.join("small.sd");
    let small = small.to_str().unwrap();
    run(["sd", "format", small, "--size", "2M"]).ok();
    let err = run(["db", "migrate", "--to-speed-disk", small, "--db", db]).fails(1);
    assert!(err.contains("has no part for tables"), "{err}");
    let err = run(["sd", "format", small, "--tables", "100K"]).fails(1);
    assert!(err.contains("for tables is too small"), "{err}");
}

/// `doctor` says of every fault of the disk of the logs how to go on, and changes nothing.
#[test]
fn doctor_explains_a_disk_that_is_another_older_damaged_or_leaving() {
    let temp = TempDir::new(test_name!());
    let (disk, db) = (temp.join("log.sd"), temp.join("db"));
    let (disk, db) = (disk.to_str().unwrap(), db.to_str().unwrap());
    run(["sd", "format", disk, "--size", "4M"]).ok();
    let own = format!("sd_path={disk}");
    run(["db", "put", "--create", "--db", db, "--set", &own, "k", "v"]).ok();
    let older = std::fs::read(disk).unwrap();
    run(["db", "put", "--sync", "--db", db, "l", "w"]).ok();
    let whole = std::fs::read(disk).unwrap();
    let doctor = |code: i32| {
        let before = std::fs::read(disk).unwrap();
        let found = run(["doctor", "--db", db]);
        assert_eq!(found.code, Some(code), "{found:?}");
        assert!(std::fs::read(disk).unwrap() == before, "nothing is changed");
        found.out
    };
    assert!(doctor(0).contains("healthy"));
    std::fs::write(disk, &older).unwrap();
    let out = doctor(1);
    assert!(
        out.contains("swapped:") && out.contains("is older than the database"),
        "{out}"
    );
    std::fs::remove_file(disk).unwrap();
    run(["sd", "format", disk, "--size", "4M"]).ok();
    let out = doctor(1);
    assert!(
        out.contains("swapped:")
            && out.contains("is another speed disk")
            && out.contains("it does not open")
            && out.contains("--lose-logs"),
        "{out}"
    );
    std::fs::write(disk, vec![b'x'; 4 << 20]).unwrap();
    let out = doctor(1);
    assert!(out.contains("holds no speed disk"), "{out}");
    // A page of a log that was durable.
    let mut damaged = whole.clone();
    let status = run(["sd", "dump", disk]);
    assert_eq!(status.code, Some(1));
    std::fs::write(disk, &whole).unwrap();
    let dump = run(["sd", "dump", disk, "--json"]).ok();
    let first = dump.lines().find_map(|line| {
        let object: serde_json::Value = serde_json::from_str(line).ok()?;
        object["byte"].as_u64()
    });
    let at = first.unwrap() as usize + 100;
    damaged[at..at + 8].copy_from_slice(b"damaged!");
    std::fs::write(disk, &damaged).unwrap();
    let out = doctor(1);
    assert!(
        out.contains("flipped") && out.contains("sd dump") && out.contains("--lose-logs"),
        "{out}"
    );
    std::fs::write(disk, &whole).unwrap();
    assert_eq!(run(["db", "count", "--db", db]).ok().trim(), "2");
}

#[test]
fn a_database_takes_a_speed_disk_and_leaves_it_again() {
    let temp = TempDir::new(test_name!());
    let (disk, db) = (temp.join("log.sd"), temp.join("db"));
    let (disk, db) = (disk.to_str().unwrap(), db.to_str().unwrap());
    run(["sd", "format", disk, "--size", "4M"]).ok();
    let own = format!("sd_path={disk}");
    run(["db", "put", "--create", "--db", db, "--set", &own, "k", "v"]).ok();
    // Nothing has to name the disk any more.
    run(["db", "put", "--db", db, "l", "w"]).ok();
    assert_eq!(run(["db", "get", "--db", db, "k"]).ok(), "v\n");
    assert_eq!(run(["db", "count", "--db", db]).ok().trim(), "2");
    let status = run(["sd", "status", disk]).ok();
    assert!(
        status.contains("log 0") && !status.contains("nobody"),
        "{status}"
    );
    assert!(run(["sd", "dump", disk]).ok().contains("ordinal"));
    let is_log = |n: &str| n.ends_with(".log");
    let logs = || {
        let names = std::fs::read_dir(temp.join("db")).unwrap();
        let mut names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.any(|n| is_log(&n))
    };
    assert!(!logs());
    // Verbs that read without opening find its logs.
    let found = run(["find", "l", "--db", db]);
    assert_eq!(found.code, Some(0), "{found:?}");
    assert!(found.out.contains(".log"), "{found:?}");
    let info = run(["db", "info", "--db", db]).ok();
    assert!(info.contains(".log"), "{info}");
    assert!(run(["db", "verify", "--db", db]).ok().contains("ok"));
    let since = run(["wal", "since", "2", "--db", db]).ok();
    assert!(since.contains('w'), "{since}");
    for args in [
        &["db", "explain", "k"][..],
        &["db", "files"],
        &["db", "space"],
    ] {
        run(args.iter().chain(&["--db", db])).ok();
    }
    let out = run(["doctor", "--db", db]).ok();
    assert!(out.contains("healthy"), "{out}");
    let out = run(["compat", "--db", db]).ok();
    assert!(
        out.contains("none, whatever the release") && out.contains("migrate --to-files"),
        "{out}"
    );
    let required = run(["compat", "--db", db, "--require", "11.8"]);
    assert_eq!(required.code, Some(1), "{required:?}");
    run(["db", "migrate", "--db", db]).fails(2);
    let out = run(["db", "migrate", "--to-files", "--db", db]).ok();
    assert!(out.contains("brought back into files"), "{out}");
    assert!(logs());
    assert!(run(["db", "verify", "--db", db]).ok().contains("ok"));
    assert_eq!(run(["db", "get", "--db", db, "l"]).ok(), "w\n");
    assert!(run(["sd", "status", disk]).ok().contains("nobody"));
    // Gone for good.
    run(["db", "put", "--db", db, "--set", &own, "m", "x"]).ok();
    std::fs::remove_file(temp.join("log.sd")).unwrap();
    let err = run(["db", "get", "--db", db, "k"]).fails(1);
    assert!(err.contains("is missing, and with it the logs"), "{err}");
    let err = run(["db", "migrate", "--to-files", "--db", db]).fails(1);
    assert!(err.contains("--lose-logs"), "{err}");
    run(["db", "migrate", "--to-files", "--lose-logs", "--db", db]).ok();
    run(["db", "flush", "--give-up-damage", "--db", db]).ok();
    run(["db", "count", "--db", db]).ok();
}

#[test]
fn tables_come_to_a_speed_disk_and_leave_it_again() {
    let temp = TempDir::new(test_name!());
    let (fast, db) = (temp.join("fast"), temp.join("db"));
    let (fast, db) = (fast.to_str().unwrap(), db.to_str().unwrap());
    run(["db", "put", "--create", "--db", db, "k", "v"]).ok();
    run(["db", "compact", "--db", db]).ok();
    run(["db", "put", "--db", db, "l", "w"]).ok();
    run(["db", "flush", "--db", db]).ok();
    let tables = |dir: &str| {
        let names = std::fs::read_dir(dir).map(|names| {
            let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
            names.filter(|n| n.ends_with(".sst")).count()
        });
        names.unwrap_or(0)
    };
    assert_eq!(tables(db), 2);
    let err = run(["db", "migrate", "--db", db]).fails(2);
    assert!(err.contains("--to-speed-disk"), "{err}");
    let to = ["--to-speed-disk", fast, "--placement", "lad:1"];
    let out = run(["db", "migrate", "--db", db].iter().chain(&to)).ok();
    assert!(out.contains("1 table ("), "{out}");
    assert_eq!((tables(fast), tables(db)), (1, 1));
    // Every command finds them.
    assert_eq!(run(["db", "get", "--db", db, "l"]).ok(), "w\n");
    assert!(
        run(["db", "verify", "--deep", "--db", db])
            .ok()
            .contains("ok")
    );
    run(["doctor", "--db", db]).ok();
    run(["db", "info", "--db", db]).ok();
    let found = run(["find", "l", "--db", db]);
    assert_eq!(found.code, Some(0), "{found:?}");
    assert!(found.out.contains("(level 0)"), "{found:?}");
    let out = run(["db", "files", "--db", db]).ok();
    assert!(out.contains(fast) && !out.contains("missing"), "{out}");
    let err = run(["compat", "--db", db]).fails(1);
    assert!(
        err.contains("are on a speed disk") && err.contains("--to-files"),
        "{err}"
    );
    // New tables go there, since CURRENT names it; and back.
    run(["db", "put", "--db", db, "m", "x"]).ok();
    run(["db", "flush", "--db", db]).ok();
    assert_eq!((tables(fast), tables(db)), (2, 1));
    let out = run(["db", "migrate", "--to-files", "--db", db]).ok();
    assert!(
        out.contains("2 tables (") && out.contains("brought back"),
        "{out}"
    );
    assert_eq!((tables(fast), tables(db)), (0, 3));
    assert!(!temp.join("fast").exists());
    assert_eq!(run(["db", "count", "--db", db]).ok().trim(), "3");
    // Gone for good.
    run(["db", "migrate", "--db", db].iter().chain(&to)).ok();
    std::fs::rename(fast, temp.join("elsewhere")).unwrap();
    for verb in ["db get k", "db flush", "db migrate --to-files"] {
        let line = verb.split(' ').chain(["--db", db]);
        let err = run(line.collect::<Vec<_>>()).fails(1);
        assert!(
            err.contains("is missing, and with it") && err.contains("--lose-tables"),
            "{verb}: {err}"
        );
    }
    let out = run(["db", "migrate", "--to-files", "--lose-tables", "--db", db]).ok();
    assert!(out.contains("given up"), "{out}");
    assert_eq!(run(["db", "get", "--db", db, "k"]).ok(), "v\n");
}

/// Reading verbs were said to work, and the path to be checked.
#[test]
fn of_a_disk_that_is_missing_every_verb_says_how_to_go_on() {
    let temp = TempDir::new(test_name!());
    let (disk, dir) = (temp.join("log.sd"), temp.join("db"));
    let (disk, dir) = (disk.to_str().unwrap(), dir.to_str().unwrap());
    run(["sd", "format", disk, "--size", "4M"]).ok();
    let set = format!("sd_path={disk}");
    run([
        "db", "put", "--create", "--set", &set, "--db", dir, "a", "b",
    ])
    .ok();
    std::fs::remove_file(disk).unwrap();
    let found = run(["doctor", "--db", dir]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(
        found
            .out
            .contains("missing: the speed disk that has the logs")
            && found.out.contains("--lose-logs"),
        "{found:?}"
    );
    for verb in [
        "db verify",
        "db info",
        "db scan",
        "db files",
        "compat",
        "db flush",
    ] {
        let line = verb.split(' ').chain(["--db", dir]);
        let err = run(line.collect::<Vec<_>>()).fails(1);
        let hint = "next:  the speed disk is not there: bring it back";
        assert!(
            err.contains(hint) && err.contains("--lose-logs"),
            "{verb}: {err}"
        );
        assert!(!err.contains("work as it is"), "{verb}: {err}");
    }
}

/// Two parts of one disk are those of two databases at a time, and each is one process's alone.
#[test]
fn a_second_process_is_kept_out_of_the_part_of_the_first() {
    let temp = TempDir::new(test_name!());
    let disk = temp.join("log.sd");
    let disk = disk.to_str().unwrap();
    let (first, second) = (
        format!("{disk}@0+4194304"),
        format!("{disk}@4194304+4194304"),
    );
    run(["sd", "format", disk, "--size", "8M"]).ok();
    for part in [&first, &second] {
        run(["sd", "format", part.as_str(), "--force"]).ok();
    }
    let (own, other) = (format!("sd_path={first}"), format!("sd_path={second}"));
    let (one, two) = (temp.join("one"), temp.join("two"));
    let load = ["load", "--create", "--batch-size", "1", "--set", &own];
    let args = ["db"].iter().chain(&load).chain(&["--db"]);
    let args = args.map(OsStr::new).chain([one.as_os_str()]);
    let (mut holder, input) = holder(args, || db("get", &one, &["b"]));
    let put = |own: &str| db("put", &two, &["--create", "--set", own, "k", "v"]);
    for err in [
        put(&own).fails(1),
        run(["sd", "format", first.as_str(), "--force"]).fails(1),
        run(["sd", "format", disk, "--force"]).fails(1),
    ] {
        assert!(err.contains("While lock speed disk"), "{err}");
    }
    put(&other).ok();
    drop(input);
    assert!(holder.wait().unwrap().success());
    // It is free, and somebody else's.
    let third = temp.join("three");
    let err = db("put", &third, &["--create", "--set", &own, "k", "v"]).fails(1);
    assert!(
        err.contains("belongs to the database with identity"),
        "{err}"
    );
    assert_eq!(db("get", &one, &["b"]).ok(), "2\n");
    assert_eq!(db("get", &two, &["k"]).ok(), "v\n");
}
