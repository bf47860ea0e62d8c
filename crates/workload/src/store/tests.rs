//! Describes what every store promises, against a map: batches, scans in both directions, transactions, reopening.

use super::*;
use spanlith_testkit::{Rng, TempDir, test_name};
use std::collections::BTreeMap;
use std::path::Path;

type Model = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// Stores that this build has.
fn built() -> Vec<StoreName> {
    let mut all = vec![StoreName::Ours, StoreName::Slab];
    if cfg!(feature = "lmdb") {
        all.push(StoreName::Lmdb);
    }
    if cfg!(feature = "redb") {
        all.push(StoreName::Redb);
    }
    if cfg!(feature = "fjall") {
        all.push(StoreName::Fjall);
    }
    all
}

fn open(name: &StoreName, dir: &Path) -> Box<dyn Store> {
    let options = StoreOptions {
        families: vec!["other".to_string()],
        transactions: *name != StoreName::Slab,
        ..StoreOptions::default()
    };
    let opened = name.open(dir, &options);
    opened.unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns what a scan shows.
fn shown(store: &dyn Store, start: &[u8], direction: Direction, limit: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| {
        out.push([key, b"=", value].concat());
        true
    };
    let seen = store.scan(1, start, direction, limit, &mut each).unwrap();
    assert_eq!(seen, out.len());
    out
}

fn scans_agree(store: &dyn Store, model: &Model, start: &[u8], limit: usize, what: &str) {
    let text = |(key, value): (&Vec<u8>, &Vec<u8>)| [key, b"=".as_slice(), value].concat();
    let all = &model[1];
    let forward: Vec<_> = all.range(start.to_vec()..).take(limit).map(text).collect();
    let backward: Vec<_> = all
        .range(..=start.to_vec())
        .rev()
        .take(limit)
        .map(text)
        .collect();
    assert_eq!(
        shown(store, start, Direction::Forward, limit),
        forward,
        "{what}"
    );
    assert_eq!(
        shown(store, start, Direction::Backward, limit),
        backward,
        "{what}"
    );
}

/// A transaction that writes, looks at its own writes, and is committed or dropped.
fn transact(store: &dyn Store, model: &mut Model, key: &[u8], commits: bool, what: &str) {
    let isolation = match commits {
        true => Isolation::ReadCommitted,
        false => Isolation::RepeatableRead,
    };
    let mut txn = store.begin(isolation).unwrap();
    let mut value = Vec::new();
    let found = txn.get_for_update(1, key, &mut value).unwrap();
    assert_eq!(found.then_some(&value), model[1].get(key), "{what}");
    txn.put(1, key, b"in").unwrap();
    txn.put(0, key, b"in").unwrap();
    txn.delete(0, key).unwrap();
    assert!(txn.get(1, key, &mut value).unwrap(), "{what}");
    assert_eq!(value, b"in", "{what}");
    assert!(!txn.get(0, key, &mut value).unwrap(), "{what}");
    let mut first = Vec::new();
    let mut each = |key: &[u8], _: &[u8]| {
        first = key.to_vec();
        true
    };
    let seen = txn.scan(1, key, Direction::Forward, 1, &mut each).unwrap();
    assert_eq!((seen, first.as_slice()), (1, key), "{what}");
    if commits {
        txn.commit().unwrap();
        model[1].insert(key.to_vec(), b"in".to_vec());
        model[0].remove(key);
    }
}

fn agrees_with_a_map(name: &StoreName, rng: &mut Rng, dir: &Path, seed: u64) {
    let mut model = Model::default();
    let mut store = open(name, dir);
    for step in 0..600_u64 {
        let what = format!("{name}, step {step}, seed {seed}");
        let family = rng.index(2);
        let key = format!("k{}", rng.below(60)).into_bytes();
        match rng.below(if step % 100 == 99 { 1 } else { 12 }) {
            0 if step % 100 == 99 => {
                store.close().unwrap();
                store = open(name, dir);
            }
            0 | 1 => {
                store.delete(family, &key).unwrap();
                model[family].remove(&key);
            }
            2 => {
                let mut batch = Batch::default();
                batch.put(0, &key, b"batch");
                batch.delete(1, &key);
                store.write(&batch).unwrap();
                model[0].insert(key.clone(), b"batch".to_vec());
                model[1].remove(&key);
            }
            3 => {
                store.merge(1, b"counter", step).unwrap();
                let old = model[1].get(b"counter".as_slice());
                let old = old.map_or(0, |v| u64::from_le_bytes(v.as_slice().try_into().unwrap()));
                let new = old.wrapping_add(step).to_le_bytes().to_vec();
                model[1].insert(b"counter".to_vec(), new);
            }
            4 if *name != StoreName::Slab => {
                transact(store.as_ref(), &mut model, &key, rng.one_in(2), &what);
            }
            5 => scans_agree(store.as_ref(), &model, &key, rng.index(70), &what),
            _ => {
                // Sizes around the borders of size classes.
                let value = vec![step as u8; rng.index(300)];
                store.put(family, &key, &value).unwrap();
                model[family].insert(key.clone(), value);
            }
        }
        let mut value = b"left over".to_vec();
        let found = store.get(family, &key, &mut value).unwrap();
        assert_eq!(found.then_some(&value), model[family].get(&key), "{what}");
    }
    let what = format!("{name}, at the end, seed {seed}");
    scans_agree(store.as_ref(), &model, b"k", usize::MAX, &what);
    let keys: Vec<&[u8]> = vec![b"k1", b"k2", b"absent"];
    let there = keys.iter().filter(|k| model[1].contains_key(**k)).count();
    assert_eq!(store.multi_get(1, &keys).unwrap(), there, "{what}");
    store.flush().unwrap();
    store.wait_idle().unwrap();
    assert!(
        store.levels().unwrap().iter().any(|l| l.bytes > 0),
        "{what}"
    );
    store.close().unwrap();
}

#[test]
fn every_store_holds_what_a_map_holds() {
    let temp = TempDir::new(test_name!());
    let seed = spanlith_testkit::seed(test_name!());
    let mut rng = Rng::new(seed);
    for name in built() {
        agrees_with_a_map(&name, &mut rng, &temp.join(name.to_string()), seed);
    }
}

#[test]
fn threads_that_count_in_transactions_lose_nothing() {
    let temp = TempDir::new(test_name!());
    for name in built().into_iter().filter(|n| *n != StoreName::Slab) {
        for (n, isolation) in [Isolation::ReadCommitted, Isolation::RepeatableRead]
            .into_iter()
            .enumerate()
        {
            let store = open(&name, &temp.join(format!("{name}{n}")));
            let store = store.as_ref();
            let count = || -> Result<()> {
                let mut txn = store.begin(isolation)?;
                let mut value = Vec::new();
                txn.get_for_update(0, b"n", &mut value)?;
                let old = value.as_slice().try_into().map_or(0, u64::from_le_bytes);
                txn.put(0, b"n", &(old + 1).to_le_bytes())?;
                txn.commit()
            };
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..30 {
                            while let Err(e) = count() {
                                assert!(e.is_conflict(), "{name}: {e}");
                            }
                        }
                    });
                }
            });
            let mut value = Vec::new();
            store.get(0, b"n", &mut value).unwrap();
            assert_eq!(value, 90_u64.to_le_bytes(), "{name}");
        }
    }
}

#[test]
fn a_store_that_was_not_built_says_how_to_build_it() {
    let temp = TempDir::new(test_name!());
    for (name, built) in [
        (StoreName::Lmdb, cfg!(feature = "lmdb")),
        (StoreName::Redb, cfg!(feature = "redb")),
        (StoreName::Fjall, cfg!(feature = "fjall")),
    ] {
        let opened = name.open(&temp.join(name.to_string()), &StoreOptions::default());
        match opened {
            Ok(_) => assert!(built, "{name}"),
            Err(e) => assert!(
                !built && e.to_string().contains(&format!("--features {name}")),
                "{e}"
            ),
        }
    }
}

/// R-WL-35: a library that cannot be loaded, or is another one, is an error that names its file and what is wrong with it.
#[test]
fn libraries_that_are_no_rocksdb_are_refused_by_file() {
    let temp = TempDir::new(test_name!());
    let text = temp.join("text.so");
    std::fs::write(&text, "no library").unwrap();
    let refused = |path: &Path| {
        let name = StoreName::RocksDb(path.to_path_buf());
        match name.open(&temp.join("db"), &StoreOptions::default()) {
            Ok(_) => panic!("{} was opened", path.display()),
            Err(e) => e.to_string(),
        }
    };
    for path in [temp.join("nowhere.so"), text, temp.path().to_path_buf()] {
        let e = refused(&path);
        assert!(
            e.contains("cannot be loaded") && e.contains(&*path.to_string_lossy()),
            "{e}"
        );
    }
    // One that can be loaded, as any program's is: it lacks the first function that is asked for.
    let e = refused(Path::new("libc.so.6"));
    assert!(e.contains("libc.so.6: has no function rocksdb_"), "{e}");
    assert!(!temp.join("db").join("CURRENT").exists());
}

#[test]
fn options_that_a_store_does_not_have_are_refused_by_name() {
    let temp = TempDir::new(test_name!());
    let refused = |name: &StoreName, change: fn(&mut StoreOptions), word: &str| {
        let mut options = StoreOptions::default();
        change(&mut options);
        let Err(e) = name.open(&temp.join(name.to_string()), &options) else {
            panic!("{name} took {word}");
        };
        assert!(e.to_string().contains(word), "{name}: {e}");
    };
    for name in built().iter().filter(|n| **n != StoreName::Ours) {
        refused(
            name,
            |o| o.options = "num_levels=3".to_string(),
            "num_levels=3",
        );
        refused(name, |o| o.own = "budget=1".to_string(), "budget=1");
        refused(name, |o| o.disable_wal = true, "disable_wal");
        if [StoreName::Slab, StoreName::Lmdb].contains(name) {
            refused(name, |o| o.cache_bytes = Some(1 << 20), "cache");
        }
    }
}
