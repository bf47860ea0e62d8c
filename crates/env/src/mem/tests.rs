use super::*;
use crate::traits::*;
use std::path::Path;

#[test]
fn a_strict_clone_has_only_what_was_synced() {
    let fs = MemFs::new();
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let mut a = fs.create(Path::new("/db/a"), IoActivity::Other).unwrap();
    a.append(b"one").unwrap();
    a.sync().unwrap();
    a.append(b"two").unwrap();
    assert_eq!(
        fs.strict_clone().list(Path::new("/db")).unwrap(),
        Vec::<String>::new()
    );
    fs.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(
        fs.strict_clone().read_file(Path::new("/db/a")).unwrap(),
        b"one"
    );
    assert_eq!(fs.read_file(Path::new("/db/a")).unwrap(), b"onetwo");
    let crashed = fs.process_crash_clone();
    assert_eq!(crashed.read_file(Path::new("/db/a")).unwrap(), b"onetwo");
    assert_eq!(
        crashed
            .strict_clone()
            .read_file(Path::new("/db/a"))
            .unwrap(),
        b"one"
    );
}
