use super::*;
use crate::rng::SeededRng;
use crate::traits::*;
use spanlith_base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

fn create(fs: &MemFs, path: &str) -> Box<dyn WritableFile> {
    fs.create(Path::new(path), IoActivity::Other).unwrap()
}

fn read(fs: &MemFs, path: &str) -> String {
    fs.read_file(Path::new(path)).map_or_else(
        |_| "-".into(),
        |bytes| String::from_utf8(bytes).unwrap().replace('\0', "0"),
    )
}

fn sync_dir(fs: &MemFs, path: &str) {
    fs.sync_dir(Path::new(path)).unwrap();
}

/// Every state `crash_clone` can give, by trying all answers to all questions.
fn all_states(fs: &MemFs) -> Vec<MemFs> {
    let mut states = Vec::new();
    let mut script: Vec<(u64, u64)> = Vec::new();
    loop {
        let mut asked = 0;
        states.push(fs.crash_clone(&mut |n| {
            if asked == script.len() {
                script.push((0, n));
            }
            let (answer, ways) = script[asked];
            assert_eq!(ways, n, "the same answers lead to the same questions");
            assert!(n > 1, "a question with one answer is not asked");
            asked += 1;
            answer
        }));
        while script.last().is_some_and(|(answer, n)| answer + 1 == *n) {
            script.pop();
        }
        match script.last_mut() {
            Some((answer, _)) => *answer += 1,
            None => return states,
        }
    }
}

fn outcomes(fs: &MemFs, show: impl Fn(&MemFs) -> String) -> BTreeSet<String> {
    all_states(fs).iter().map(show).collect()
}

fn set(shown: &[&str]) -> BTreeSet<String> {
    shown.iter().map(ToString::to_string).collect()
}

fn names(fs: &MemFs, dir: &str) -> String {
    fs.list(Path::new(dir))
        .map_or_else(|_| "-".into(), |names| names.join(","))
}

#[test]
fn a_strict_clone_has_only_what_was_synced() {
    let fs = MemFs::new();
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    let mut a = create(&fs, "/db/a");
    a.append(b"one").unwrap();
    a.sync().unwrap();
    a.append(b"two").unwrap();
    assert_eq!(names(&fs.strict_clone(), "/"), "");
    sync_dir(&fs, "/");
    assert_eq!(names(&fs.strict_clone(), "/db"), "");
    sync_dir(&fs, "/db");
    assert_eq!(read(&fs.strict_clone(), "/db/a"), "one");
    a.sync().unwrap();
    assert_eq!(read(&fs.strict_clone(), "/db/a"), "onetwo");
}

#[test]
fn unsynced_appends_persist_as_a_prefix_torn_or_with_zeros() {
    let fs = MemFs::new();
    let mut f = create(&fs, "/f");
    f.append(b"ab").unwrap();
    f.sync().unwrap();
    sync_dir(&fs, "/");
    f.append(b"cd").unwrap();
    f.append(b"e").unwrap();
    let want = [
        "ab", "ab00", "ab000", "abc", "abc0", "abc00", "abcd", "abcd0", "abcde",
    ];
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&want));
    f.sync().unwrap();
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&["abcde"]));
}

#[test]
fn a_file_whose_name_was_synced_may_have_lost_its_data() {
    let fs = MemFs::new();
    let mut f = create(&fs, "/f");
    f.append(b"x").unwrap();
    sync_dir(&fs, "/");
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&["", "0", "x"]));
}

#[test]
fn a_file_whose_data_was_synced_may_have_lost_its_name() {
    let fs = MemFs::new();
    let mut f = create(&fs, "/f");
    f.append(b"x").unwrap();
    f.sync().unwrap();
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&["-", "x"]));
}

#[test]
fn changes_of_a_directory_persist_in_their_order() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/c"), b"").unwrap();
    create(&fs, "/a");
    fs.rename(Path::new("/a"), Path::new("/b")).unwrap();
    fs.delete(Path::new("/c")).unwrap();
    fs.link(Path::new("/b"), Path::new("/d")).unwrap();
    let want = ["c", "a,c", "b,c", "b", "b,d"];
    assert_eq!(outcomes(&fs, |fs| names(fs, "/")), set(&want));
}

#[test]
fn a_rename_leaves_the_old_or_the_new_file_and_nothing_between() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/CURRENT"), b"old").unwrap();
    let mut f = create(&fs, "/tmp");
    f.append(b"new").unwrap();
    f.sync().unwrap();
    fs.rename(Path::new("/tmp"), Path::new("/CURRENT")).unwrap();
    let show = |fs: &MemFs| format!("{} {}", read(fs, "/CURRENT"), names(fs, "/"));
    let want = ["old CURRENT", "old CURRENT,tmp", "new CURRENT"];
    assert_eq!(outcomes(&fs, show), set(&want));
    sync_dir(&fs, "/");
    assert_eq!(outcomes(&fs, show), set(&["new CURRENT"]));
}

#[test]
fn a_rename_across_directories_needs_both_syncs() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/a/f"), b"x").unwrap();
    fs.write_file(Path::new("/b/other"), b"").unwrap();
    fs.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
    let show = |fs: &MemFs| format!("{}|{}", names(fs, "/a"), names(fs, "/b"));
    assert_eq!(
        outcomes(&fs, show),
        set(&["f|other", "f|f,other", "|other", "|f,other"])
    );
    sync_dir(&fs, "/b");
    assert_eq!(outcomes(&fs, show), set(&["f|f,other", "|f,other"]));
    sync_dir(&fs, "/a");
    assert_eq!(outcomes(&fs, show), set(&["|f,other"]));
}

#[test]
fn the_sync_of_an_open_directory_is_for_what_it_was_opened_as_not_for_what_its_path_means_now() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/old/f"), b"x").unwrap();
    let open = fs.open_dir(Path::new("/old")).unwrap();
    fs.rename(Path::new("/old"), Path::new("/new")).unwrap();
    fs.create_dir_if_missing(Path::new("/old")).unwrap();
    sync_dir(&fs, "/");
    create(&fs, "/new/g");
    create(&fs, "/old/h");
    let show = |fs: &MemFs| format!("{}|{}", names(fs, "/new"), names(fs, "/old"));
    assert_eq!(outcomes(&fs, show), set(&["f|", "f|h", "f,g|", "f,g|h"]));
    open.sync().unwrap();
    assert_eq!(outcomes(&fs, show), set(&["f,g|", "f,g|h"]));
    // A state after a crash is another file system.
    let left = fs.process_crash_clone();
    create(&left, "/new/i");
    open.sync().unwrap();
    assert_eq!(
        outcomes(&left, show),
        set(&["f,g|", "f,g|h", "f,g,i|", "f,g,i|h"])
    );
}

#[test]
fn a_directory_moved_and_kept_in_both_places_has_one_of_them() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/a/d/f"), b"x").unwrap();
    fs.write_file(Path::new("/b/other"), b"").unwrap();
    fs.rename(Path::new("/a/d"), Path::new("/b/d")).unwrap();
    for state in all_states(&fs) {
        let places = ["/a/d/f", "/b/d/f"].map(|path| read(&state, path));
        assert!(
            places.iter().filter(|content| *content == "x").count() <= 1,
            "{places:?}"
        );
    }
}

#[test]
fn a_cut_file_may_have_its_old_bytes_back_until_it_is_synced() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/f"), b"old").unwrap();
    let mut f = create(&fs, "/f");
    f.append(b"n").unwrap();
    assert_eq!(read(&fs, "/f"), "n");
    assert_eq!(
        outcomes(&fs, |fs| read(fs, "/f")),
        set(&["old", "", "0", "n"])
    );
    f.sync().unwrap();
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&["n"]));
}

#[test]
fn a_deleted_file_comes_back_unless_its_directory_is_synced() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/f"), b"x").unwrap();
    fs.delete(Path::new("/f")).unwrap();
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&["-", "x"]));
    sync_dir(&fs, "/");
    assert_eq!(outcomes(&fs, |fs| read(fs, "/f")), set(&["-"]));
}

#[test]
fn two_names_of_a_file_lose_the_same_bytes() {
    let fs = MemFs::new();
    let mut f = create(&fs, "/a");
    fs.link(Path::new("/a"), Path::new("/b")).unwrap();
    sync_dir(&fs, "/");
    f.append(b"xy").unwrap();
    let show = |fs: &MemFs| format!("{} {}", read(fs, "/a"), read(fs, "/b"));
    let want = [" ", "00 00", "x x", "x0 x0", "xy xy"];
    assert_eq!(outcomes(&fs, show), set(&want));
    let copy = fs.process_crash_clone();
    create(&copy, "/b").append(b"shared").unwrap();
    assert_eq!(read(&copy, "/a"), "shared");
}

#[test]
fn after_a_process_crash_pending_bytes_are_there_and_still_pending() {
    let fs = MemFs::new();
    fs.write_file(Path::new("/db/f"), b"old").unwrap();
    let mut f = create(&fs, "/db/f");
    f.append(b"one").unwrap();
    f.sync().unwrap();
    f.append(b"two").unwrap();
    create(&fs, "/db/new").append(b"n").unwrap();
    fs.delete(Path::new("/db/f")).unwrap();
    let before = outcomes(&fs, |fs| {
        format!("{} {}", names(fs, "/db"), read(fs, "/db/f"))
    });
    let copy = fs.process_crash_clone();
    assert_eq!(names(&copy, "/db"), "new");
    assert_eq!(read(&copy, "/db/new"), "n");
    let after = outcomes(&copy, |fs| {
        format!("{} {}", names(fs, "/db"), read(fs, "/db/f"))
    });
    assert_eq!(before, after);
    assert!(before.contains("f,new onetwo"));
    // The copy syncs on its own.
    sync_dir(&copy, "/db");
    assert_eq!(names(&copy.strict_clone(), "/db"), "new");
    assert_eq!(names(&fs.strict_clone(), "/db"), "f");
}

#[test]
fn a_copy_lives_its_own_life_without_locks_or_observer() {
    let fs = MemFs::new();
    fs.set_observer(Some(Arc::new(|op| {
        assert!(!matches!(op, FsOp::Append { len: 13, .. }), "{op:?}");
    })));
    let mut f = create(&fs, "/f");
    f.append(b"shared").unwrap();
    let _lock = fs.lock(Path::new("/LOCK")).unwrap();
    let copy = fs.process_crash_clone();
    assert_eq!((copy.op_count(), fs.op_count()), (0, 3));
    let _other = copy.lock(Path::new("/LOCK")).unwrap();
    f.append(b" and ours").unwrap();
    assert_eq!(read(&copy, "/f"), "shared");
    create(&copy, "/f").append(b"thirteen byte").unwrap();
    copy.delete(Path::new("/LOCK")).unwrap();
    assert_eq!(read(&fs, "/f"), "shared and ours");
    assert_eq!(names(&fs, "/"), "LOCK,f");
    let newer = copy.modified(Path::new("/f")).unwrap();
    assert!(newer > 3, "time goes on in a copy");
}

#[test]
fn the_observer_sees_every_change_before_it_happens() {
    let fs = MemFs::new();
    let seen = Arc::new(Mutex::new(10, Vec::new()));
    let (log, watched) = (Arc::clone(&seen), fs.clone());
    fs.set_observer(Some(Arc::new(move |op| {
        let shown = match op {
            FsOp::Create { path } => format!("create {}", path.display()),
            FsOp::Append { path, len } => format!("append {} {len}", path.display()),
            FsOp::Write { path, offset, len } => {
                format!("write {} {offset} {len}", path.display())
            }
            FsOp::Sync { path } => format!("sync {}", path.display()),
            FsOp::Rename { from, to } => format!("rename {} {}", from.display(), to.display()),
            FsOp::Delete { path } => format!("delete {}", path.display()),
            FsOp::Link { from, to } => format!("link {} {}", from.display(), to.display()),
            FsOp::CreateDir { path } => format!("mkdir {}", path.display()),
            FsOp::DeleteDir { path } => format!("rmdir {}", path.display()),
            FsOp::SyncDir { path } => format!("syncdir {}", path.display()),
            FsOp::Truncate { path, len } => format!("truncate {} {len}", path.display()),
        };
        let state = watched.crash_clone(&mut |n| n - 1);
        log.lock().push(format!("{shown}: {}", names(&state, "/d")));
    })));
    let path = Path::new;
    fs.create_dir_if_missing(path("/d")).unwrap();
    fs.create_dir_if_missing(path("/d")).unwrap();
    let mut f = create(&fs, "/d/a");
    f.append(b"xy").unwrap();
    f.sync().unwrap();
    fs.link(path("/d/a"), path("/d/b")).unwrap();
    fs.rename(path("/d/b"), path("/d/c")).unwrap();
    fs.sync_dir(path("/d")).unwrap();
    fs.delete(path("/d/a")).unwrap();
    fs.delete(path("/d/c")).unwrap();
    fs.delete_dir(path("/d")).unwrap();
    let want = "mkdir /d: -|create /d/a: |append /d/a 2: a|sync /d/a: a|link /d/a /d/b: a|\
        rename /d/b /d/c: a,b|syncdir /d: a,c|delete /d/a: a,c|delete /d/c: c|rmdir /d: ";
    assert_eq!(seen.lock().join("|"), want);
    assert_eq!(fs.op_count(), 10);
    fs.set_observer(None);
    create(&fs, "/f");
    assert_eq!((seen.lock().len(), fs.op_count()), (10, 11));
}

#[test]
fn a_flipped_bit_is_on_the_disk() {
    let fs = MemFs::new();
    let f = Path::new("/f");
    fs.write_file(f, b"abc").unwrap();
    fs.flip_bit(f, 1, 0).unwrap();
    assert_eq!(read(&fs, "/f"), "acc");
    assert_eq!(read(&fs.strict_clone(), "/f"), "acc");
    fs.flip_bit(f, 1, 0).unwrap();
    assert_eq!(read(&fs, "/f"), "abc");
    let e = fs.flip_bit(f, 3, 0).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Invalid argument: no such byte in the file: file=/f offset=3"
    );
}

#[test]
fn a_written_file_is_durable_with_its_directories_and_nothing_else_is() {
    let fs = MemFs::new();
    create(&fs, "/pending");
    fs.write_file(Path::new("/x/y/z"), b"1").unwrap();
    fs.write_file(Path::new("/x/y/z"), b"22").unwrap();
    let strict = fs.strict_clone();
    assert_eq!(names(&strict, "/"), "x");
    assert_eq!(read(&strict, "/x/y/z"), "22");
    assert!(fs.write_file(Path::new("/x/y"), b"").is_err());
    assert!(fs.write_file(Path::new("/x/y/z/below"), b"").is_err());
}

#[test]
fn answers_may_come_from_the_file_system_and_from_behind_a_lock() {
    let fs = MemFs::new();
    create(&fs, "/a").append(b"xy").unwrap();
    let asked = Mutex::new(10, 0);
    let state = fs.crash_clone(&mut |n| {
        *asked.lock() += 1;
        assert_eq!(names(&fs, "/"), "a");
        n - 1
    });
    assert_eq!(read(&state, "/a"), "xy");
    assert_eq!(*asked.lock(), 3);
}

#[test]
fn copies_share_the_bytes() {
    let fs = MemFs::new();
    create(&fs, "/f").append(&vec![1; 1 << 20]).unwrap();
    let address = |fs: &MemFs| fs.bytes_address(Path::new("/f"));
    let first = address(&fs);
    assert_eq!(address(&fs.crash_clone(&mut |n| n - 1)), first);
    let copy = fs.process_crash_clone();
    assert_eq!(address(&copy), first);
    copy.flip_bit(Path::new("/f"), 5, 1).unwrap();
    assert_ne!(address(&copy), first);
    assert_eq!(fs.read_file(Path::new("/f")).unwrap()[5], 1);
}

/// Random changes with a note of what must survive: a synced file under a synced name that was not
/// touched since keeps its bytes, and a durable prefix of an appended file stays a prefix.
#[test]
fn what_was_synced_survives_every_power_loss() {
    for seed in 0..300u64 {
        let rng = SeededRng::new(seed);
        let fs = MemFs::new();
        let mut open: BTreeMap<String, Box<dyn WritableFile>> = BTreeMap::new();
        let mut durable_bytes: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut durable_names: BTreeSet<String> = BTreeSet::new();
        for step in 0..60u8 {
            let name = format!("/{}", rng.below(5));
            match rng.below(8) {
                0 if !open.contains_key(&name) => {
                    open.insert(name.clone(), create(&fs, &name));
                    durable_bytes.insert(name, Vec::new());
                }
                1..=3 => {
                    if let Some(file) = open.get_mut(&name) {
                        file.append(&vec![step + 1; rng.below(20) as usize])
                            .unwrap();
                    }
                }
                4 => {
                    if let Some(file) = open.get_mut(&name) {
                        file.sync().unwrap();
                        durable_bytes.insert(name.clone(), fs.read_file(Path::new(&name)).unwrap());
                    }
                }
                5 if rng.below(4) == 0 && open.remove(&name).is_some() => {
                    fs.delete(Path::new(&name)).unwrap();
                    durable_names.remove(&name);
                    durable_bytes.remove(&name);
                }
                6 => {
                    sync_dir(&fs, "/");
                    durable_names = open.keys().cloned().collect();
                }
                _ => {}
            }
            let mut answers = Vec::new();
            let state = fs.crash_clone(&mut |n| {
                answers.push(rng.below(n));
                answers[answers.len() - 1]
            });
            for name in &durable_names {
                let got = state.read_file(Path::new(name));
                let got = got.unwrap_or_else(|e| panic!("seed {seed} step {step}: {e}"));
                let want = &durable_bytes[name];
                assert!(got.starts_with(want), "seed {seed} step {step} {name}");
                let now = fs.read_file(Path::new(name)).unwrap();
                assert!(got.len() <= now.len(), "seed {seed} step {step} {name}");
                let same = got.iter().zip(&now).take_while(|(a, b)| a == b).count();
                assert!(
                    got[same..].iter().all(|b| *b == 0),
                    "seed {seed} step {step} {name}"
                );
            }
            // The same answers give the same state, and a power loss is final: nothing more is lost.
            let mut replay = answers.iter().copied();
            let again = fs.crash_clone(&mut |_| replay.next().unwrap());
            for other in [again, state.strict_clone()] {
                assert_eq!(
                    names(&other, "/"),
                    names(&state, "/"),
                    "seed {seed} step {step}"
                );
                for name in state.list(Path::new("/")).unwrap() {
                    let path = format!("/{name}");
                    assert_eq!(read(&other, &path), read(&state, &path), "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn a_truncation_is_pending_until_the_next_sync() {
    let fs = MemFs::new();
    let path = Path::new("/f");
    fs.write_file(path, b"durable").unwrap();
    let mut file = fs.reopen(path, IoActivity::Wal).unwrap();
    file.truncate(3).unwrap();
    file.append(b"new").unwrap();
    let lost = fs.strict_clone();
    assert_eq!(lost.read_file(path).unwrap(), b"durable");
    let kept = fs.crash_clone(&mut |n| n - 1);
    assert_eq!(kept.read_file(path).unwrap(), b"durnew");
    // The cut arrived, the append did not.
    let mut answers = [1, 0, 0].into_iter();
    let torn = fs.crash_clone(&mut |_| answers.next().unwrap_or(0));
    assert_eq!(torn.read_file(path).unwrap(), b"dur");
    file.sync().unwrap();
    assert_eq!(fs.strict_clone().read_file(path).unwrap(), b"durnew");
}

#[test]
fn what_is_written_over_a_file_is_pending_until_the_next_sync() {
    let fs = MemFs::new();
    let path = Path::new("/f");
    fs.write_file(path, b"0123456789").unwrap();
    let mut file = fs.overwrite(path, IoActivity::Wal).unwrap();
    file.append(b"ab").unwrap();
    file.sync().unwrap();
    file.append(b"cd").unwrap();
    assert_eq!(fs.read_file(path).unwrap(), b"abcd456789");
    assert_eq!(fs.strict_clone().read_file(path).unwrap(), b"ab23456789");
    let kept = fs.crash_clone(&mut |n| n - 1);
    assert_eq!(kept.read_file(path).unwrap(), b"abcd456789");
    drop(file);
    // Again, before the second append was synced.
    let mut file = fs.overwrite(path, IoActivity::Wal).unwrap();
    file.append(b"x").unwrap();
    assert_eq!(fs.read_file(path).unwrap(), b"xbcd456789");
    assert_eq!(fs.strict_clone().read_file(path).unwrap(), b"ab23456789");
    file.sync().unwrap();
    assert_eq!(fs.strict_clone().read_file(path).unwrap(), b"xbcd456789");
}

#[test]
fn what_was_written_over_a_file_and_synced_outlives_a_truncation_that_was_not() {
    let fs = MemFs::new();
    let path = Path::new("/f");
    fs.write_file(path, b"01").unwrap();
    let mut file = fs.overwrite(path, IoActivity::Wal).unwrap();
    file.append(b"abcd").unwrap();
    file.sync().unwrap();
    file.append(b"ef").unwrap();
    file.truncate(6).unwrap();
    for first in [0, 1] {
        let mut answers = [first].into_iter();
        let torn = fs.crash_clone(&mut |_| answers.next().unwrap_or(0));
        assert_eq!(torn.read_file(path).unwrap(), b"abcd");
    }
    file.sync().unwrap();
    assert_eq!(fs.strict_clone().read_file(path).unwrap(), b"abcdef");
}

#[test]
fn a_device_with_its_size_in_its_name_is_there_when_it_is_first_opened() {
    use crate::device::DeviceAccess;
    let fs = MemFs::new();
    let open = |path: &str| fs.open_device(Path::new(path), DeviceAccess::Read);
    let device = open("/dev/memory/8192/any").unwrap();
    assert_eq!(device.geometry().size, 8192);
    for path in ["/dev/memory/8192", "/dev/memory/x/any", "/dev/disk"] {
        let e = open(path).err().unwrap();
        assert!(e.to_string().starts_with("IO error"), "{path}: {e}");
    }
}

#[test]
fn a_device_is_written_in_place_by_one_and_loses_what_was_not_flushed() {
    use crate::device::{DeviceAccess, Durability};
    let fs = MemFs::new();
    let path = Path::new("/dev/disk");
    fs.make_device(path, 8192).unwrap();
    assert_eq!(fs.size(path).unwrap(), 8192);
    let write = DeviceAccess::Write { offset: 0, len: 0 };
    let device = fs.open_device(path, write).unwrap();
    device.write_at(0, b"durable", Durability::Durable).unwrap();
    device
        .write_at(4096, b"cached", Durability::Cached)
        .unwrap();
    let e = fs.open_device(path, write).err().unwrap();
    assert_eq!(e.subcode(), Some(spanlith_base::SubCode::LockHeld));
    device
        .write_at(8190, b"abc", Durability::Durable)
        .unwrap_err();
    let bytes = |fs: &MemFs, at: u64| {
        let mut buf = [0; 7];
        let device = fs.open_device(path, DeviceAccess::Read).unwrap();
        device.read_at(at, &mut buf).unwrap();
        buf
    };
    assert_eq!(&bytes(&fs.strict_clone(), 0), b"durable");
    assert_eq!(bytes(&fs.strict_clone(), 4096), [0; 7]);
    assert_eq!(&bytes(&fs.process_crash_clone(), 4096), b"cached\0");
    device.flush().unwrap();
    assert_eq!(&bytes(&fs.strict_clone(), 4096), b"cached\0");
    // The right to write goes with the device, and by itself.
    device.unlock();
    drop(fs.open_device(path, write).unwrap());
    fs.write_file(Path::new("/file"), b"x").unwrap();
    assert!(
        fs.open_device(Path::new("/file"), DeviceAccess::Read)
            .is_err()
    );
}
