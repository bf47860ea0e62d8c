//! Temporary folders.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own below the system's temporary directory; removed with everything in it when
/// dropped, unless `KEEP_TMP` is set.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates an empty folder whose name contains `hint`.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new(hint: &str) -> TempDir {
        /// Counts the folders of this process; orders nothing.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let hint: String = hint
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("spanlith-{hint}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return TempDir { path },
                // Left behind by an earlier process of the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `name` inside the folder.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::env::var_os("KEEP_TMP").is_some() {
            eprintln!("kept {}", self.path.display());
            return;
        }
        // A folder that stays behind harms no test, and a panic here would hide the real failure.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Copies the folder `from` with everything in it to `to`, which is created if it is missing.
/// Symbolic links are followed.
///
/// # Panics
/// If anything cannot be read or written.
pub fn copy_dir(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    copy_tree(from.as_ref(), to.as_ref());
}

fn copy_tree(from: &Path, to: &Path) {
    let fail = |path: &Path, error: std::io::Error| -> ! { panic!("{}: {error}", path.display()) };
    if let Err(error) = fs::create_dir_all(to) {
        fail(to, error);
    }
    let entries = fs::read_dir(from).unwrap_or_else(|error| fail(from, error));
    for entry in entries {
        let source = entry.unwrap_or_else(|error| fail(from, error)).path();
        let target = to.join(source.file_name().expect("an entry of a folder has a name"));
        if source.is_dir() {
            copy_tree(&source, &target);
        } else if let Err(error) = fs::copy(&source, &target) {
            fail(&source, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_is_new_and_goes_away() {
        let (a, b) = (TempDir::new("same name"), TempDir::new("same name"));
        assert_ne!(a.path(), b.path());
        assert_eq!(fs::read_dir(&a).unwrap().count(), 0);
        let kept = a.path().to_path_buf();
        fs::create_dir(a.join("sub")).unwrap();
        fs::write(a.join("sub/file"), b"x").unwrap();
        drop(a);
        assert!(std::env::var_os("KEEP_TMP").is_some() || !kept.exists());
    }

    #[test]
    fn a_copy_holds_every_file_and_every_empty_folder() {
        let dir = TempDir::new("copy");
        fs::create_dir_all(dir.join("a/b/empty")).unwrap();
        fs::write(dir.join("a/one"), b"1").unwrap();
        fs::write(dir.join("a/b/nothing"), b"").unwrap();
        copy_dir(dir.join("a"), dir.join("target/deep"));
        assert_eq!(fs::read(dir.join("target/deep/one")).unwrap(), b"1");
        assert_eq!(fs::read(dir.join("target/deep/b/nothing")).unwrap(), b"");
        assert!(dir.join("target/deep/b/empty").is_dir());
    }
}
