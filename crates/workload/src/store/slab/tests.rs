//! Slots that a kill leaves behind, and what is refused. `store::tests` compares the store with a map.

use super::*;
use spanlith_testkit::{TempDir, test_name};

fn options() -> StoreOptions {
    StoreOptions {
        families: vec!["other".to_string()],
        ..StoreOptions::default()
    }
}

#[test]
fn of_two_slots_that_a_kill_left_the_newer_one_counts() {
    let temp = TempDir::new(test_name!());
    let store = Slab::open(temp.path(), &options()).unwrap();
    store.put(0, b"k", b"old").unwrap();
    let before = std::fs::read(temp.join("64.slab")).unwrap();
    store.put(0, b"k", &[7; 100]).unwrap();
    drop(store);
    // As if the process had been killed before the old slot was emptied.
    std::fs::write(temp.join("64.slab"), before).unwrap();
    for _ in 0..2 {
        let store = Slab::open(temp.path(), &options()).unwrap();
        let mut value = Vec::new();
        assert!(store.get(0, b"k", &mut value).unwrap());
        assert_eq!(value, [7; 100]);
        store.delete(0, b"k").unwrap();
        assert!(!store.get(0, b"k", &mut value).unwrap());
        store.put(0, b"k", &[7; 100]).unwrap();
    }
}

#[test]
fn what_it_does_not_have_is_refused_by_name() {
    let temp = TempDir::new(test_name!());
    let refused =
        |options: StoreOptions| Slab::open(temp.path(), &options).unwrap_err().to_string();
    let mut with = options();
    with.transactions = true;
    assert!(refused(with).contains("transactions"));
    let store = Slab::open(temp.path(), &options()).unwrap();
    assert!(store.compact().is_err());
    let large = vec![0; 1 << 20];
    let e = store.put(0, b"k", &large).unwrap_err().to_string();
    assert!(e.contains("largest slot"), "{e}");
    store.put(1, b"k", b"v").unwrap();
    drop(store);
    let e = refused(StoreOptions::default());
    assert!(e.contains("family 1"), "{e}");
}
