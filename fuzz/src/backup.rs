//! A directory of two backups, of which the list of one is the input.

use spanlith::{
    BackupEngine, BackupOptions, CreateBackupOptions, Db, RestoreMode, RestoreOptions, Result,
};
use spanlith_env::{Env, FileSystem, MemFs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

fn open(fs: &Arc<MemFs>) -> Result<BackupEngine> {
    let (env, ..) = Env::test(fs.clone(), 9);
    BackupEngine::open(BackupOptions::new(BACKUPS), &env)
}

fn builder(fs: &Arc<MemFs>, dir: &str) -> spanlith::OpenBuilder {
    let (env, ..) = Env::test(fs.clone(), 9);
    Db::builder(dir).env(env).no_info_log()
}

/// Two backups that share a table; each has another and its log.
fn make() -> Result<MemFs> {
    let fs = Arc::new(MemFs::new());
    let db = builder(&fs, "/db").create_if_missing(true).open()?;
    let backups = open(&fs)?;
    let mut options = CreateBackupOptions::default();
    options.app_metadata = b"of a program".to_vec();
    db.default_cf().put("shared", "by both")?;
    db.flush(true)?;
    for key in ["one", "two"] {
        db.default_cf().put(key, "in a table")?;
        db.flush(true)?;
        db.default_cf().put("log", key)?;
        db.sync()?;
        backups.create(&db, &options)?;
    }
    db.close()?;
    Ok(fs.process_crash_clone())
}

fn image() -> &'static MemFs {
    static IMAGE: OnceLock<MemFs> = OnceLock::new();
    IMAGE.get_or_init(|| make().unwrap_or_else(|e| panic!("the sound backups: {e}")))
}

fn list_of(id: u32) -> PathBuf {
    Path::new(BACKUPS).join("meta").join(id.to_string())
}

/// The lists as they are, the second one also in the second schema.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for id in [1, 2] {
        if let Ok(bytes) = image().read_file(&list_of(id)) {
            let flag = [id as u8 - 1];
            out.push([&flag[..], &bytes].concat());
            let head = b"schema_version 2.1\n";
            out.push([&flag[..], head, &bytes, b"// FOOTER\nfield value\n"].concat());
        }
    }
    out
}

/// Everything below a directory that is no part of the backups, with its bytes.
fn database(fs: &MemFs) -> Vec<(String, Vec<u8>)> {
    let names = fs.list(Path::new("/db")).unwrap_or_default();
    let read = |name: String| {
        let bytes = fs.read_file(&Path::new("/db").join(&name));
        bytes.ok().map(|bytes| (name, bytes))
    };
    names.into_iter().filter_map(read).collect()
}

/// Opens the directory, judges and restores the backup of the input, and deletes it. Bit 0 of byte 0 chooses the
/// list, bit 1 how it is restored. The other backup is as good as before after each step.
pub fn backup_list(data: &[u8]) {
    let Some((&flags, list)) = data.split_first() else {
        return;
    };
    let id = 1 + u32::from(flags & 1);
    let other = 3 - id;
    let fs = Arc::new(image().process_crash_clone());
    if fs.write_file(&list_of(id), list).is_err() {
        return;
    }
    let before = database(&fs);
    let backups =
        open(&fs).unwrap_or_else(|e| panic!("a bad list is no failure of the directory: {e}"));
    let known = backups.backups();
    let damaged = backups.damaged();
    assert_eq!(
        known.len() + damaged.len(),
        2,
        "each list is one or the other"
    );
    // Two lists that contradict each other: the one that was read second is told to be wrong.
    let is_other_sound = known.iter().any(|b| b.id == other);
    assert!(is_other_sound || other == 2, "{damaged:?}");
    if let Some(info) = known.iter().find(|b| b.id == id) {
        let named = info.files as usize + info.excluded.len();
        assert!(named > 0 && named <= list.len(), "{info:?}");
        assert!(info.app_metadata.len() <= list.len() / 2);
        let verified = backups.verify(id, true);
        let mut options = RestoreOptions::default();
        if flags & 2 != 0 {
            options.mode = RestoreMode::KeepSame;
            options.keep_log_files = true;
        }
        let restored = backups.restore(Some(id), RESTORED, RESTORED, &options);
        assert!(verified.is_ok() || restored.is_err(), "{verified:?}");
        let made = fs.list(Path::new(RESTORED)).unwrap_or_default();
        if restored.is_ok() {
            assert!(made.len() <= named + 1, "{made:?}");
            if let Ok(db) = builder(&fs, RESTORED).open_read_only() {
                let _ = db.default_cf().get("shared");
            }
        } else {
            assert!(made.iter().all(|name| name == "LOCK"), "{made:?}");
        }
    }
    check_other(&backups, is_other_sound, other);
    let deleted = backups.delete(id);
    deleted.unwrap_or_else(|e| panic!("whatever its list says, a backup can be deleted: {e}"));
    check_other(&backups, is_other_sound, other);
    drop(backups);
    // The list is gone, and what it said of files that both have with it.
    let backups = open(&fs).unwrap_or_else(|e| panic!("O1: opened once, but not again: {e}"));
    check_other(&backups, true, other);
    assert_eq!(
        database(&fs),
        before,
        "a file outside of the backups was touched"
    );
}

fn check_other(backups: &BackupEngine, is_sound: bool, other: u32) {
    let verified = backups.verify(other, true);
    if is_sound {
        verified.unwrap_or_else(|e| panic!("the other backup: {e}"));
    }
}
