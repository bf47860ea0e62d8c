use super::*;
use crate::{FaultFs, FaultRule, MemFs, OpClass};

#[test]
fn the_trace_tells_every_change_in_order_and_nothing_else() {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    faults.add(FaultRule::fail(OpClass::Sync, 2, libc::EIO));
    let fs = TraceFs::new(Arc::new(faults), Path::new("/db"));
    let dir = Path::new("/db");
    fs.create_dir_if_missing(dir).unwrap();
    fs.create_dir_if_missing(dir).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let lock = fs.lock(&dir.join("LOCK")).unwrap();
    let mut log = fs.create(&dir.join("000004.log"), IoActivity::Wal).unwrap();
    log.preallocate(100);
    log.append(&[0; 130]).unwrap();
    log.append(&[0; 7]).unwrap();
    log.sync().unwrap();
    log.append(&[0; 1]).unwrap();
    log.sync().unwrap_err();
    log.append(&[0; 1]).unwrap_err();
    log.close().unwrap_err();
    fs.create(&dir.join("000005.dbtmp"), IoActivity::Other)
        .unwrap()
        .close()
        .unwrap();
    fs.rename(&dir.join("000005.dbtmp"), &dir.join("CURRENT"))
        .unwrap();
    fs.create_dir_if_missing(&dir.join("backup")).unwrap();
    fs.link(&dir.join("CURRENT"), &dir.join("backup/CURRENT"))
        .unwrap();
    fs.sync_dir(dir).unwrap();
    fs.read_all(&dir.join("CURRENT"), 10).unwrap();
    fs.delete(&dir.join("missing")).unwrap_err();
    fs.delete(&dir.join("backup/CURRENT")).unwrap();
    fs.delete_dir(&dir.join("backup")).unwrap();
    drop(lock);
    let want = "mkdir .|syncdir ..|lock LOCK|create 000004.log|append 000004.log 130|\
        append 000004.log 7|sync 000004.log|append 000004.log 1|sync 000004.log failed|\
        append 000004.log 1 failed|create 000005.dbtmp|rename 000005.dbtmp CURRENT|mkdir backup|\
        link CURRENT backup/CURRENT|syncdir .|delete missing failed|delete backup/CURRENT|\
        rmdir backup";
    assert_eq!(fs.lines().join("|"), want);
    assert_eq!(fs.take().len(), 18);
    assert!(fs.lines().is_empty());
}

#[test]
fn the_order_of_calls_is_the_same_for_other_sizes() {
    let order = |sizes: &[usize]| {
        let fs = TraceFs::new(Arc::new(MemFs::new()), Path::new("/"));
        let mut file = fs.create(Path::new("/a"), IoActivity::Wal).unwrap();
        for &size in sizes {
            file.append(&vec![0; size]).unwrap();
        }
        file.sync().unwrap();
        file.sync().unwrap();
        file.append(b"x").unwrap();
        fs.take_order()
    };
    assert_eq!(
        order(&[5]),
        "create a\nappend a\nsync a\nsync a\nappend a\n"
    );
    assert_eq!(order(&[5, 100, 3]), order(&[5]));
}
