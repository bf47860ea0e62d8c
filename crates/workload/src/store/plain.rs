//! Describes what adapters of stores without RocksDB's options share: refusals, and bytes on disk.

use super::{Error, Result, StoreOptions};
use std::path::Path;

/// Refuses what a store cannot do as it was asked to.
///
/// # Errors
/// Names the option.
pub fn refuse(store: &str, options: &StoreOptions, has_cache: bool) -> Result<()> {
    if !options.options.is_empty() {
        let text = format!("it does not have RocksDB's options '{}'", options.options);
        return Err(Error::new(store, text));
    }
    if options.disable_wal {
        let text = "it has no log that writes could do without: leave out disable_wal";
        return Err(Error::new(store, text));
    }
    if options.cache_bytes.is_some() && !has_cache {
        let text = "it has no cache of its own, only the system's: leave out the size of the cache";
        return Err(Error::new(store, text));
    }
    Ok(())
}

/// Bytes that the files of a directory and those below it take up on disk. Files may have holes, and may vanish
/// meanwhile.
///
/// # Errors
/// Of reading the directory.
pub fn files_and_bytes(dir: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let (mut files, mut bytes) = (0, 0);
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => open.push(path),
                Ok(found) => {
                    files += 1;
                    bytes += found.blocks() * 512;
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok((files, bytes))
}

/// The value of a counter after an operand of eight bytes, little-endian. A value of another length counts as 0, as
/// RocksDB's operator does.
#[cfg(any(feature = "lmdb", feature = "redb", feature = "fjall"))]
pub fn added(old: Option<&[u8]>, operand: u64) -> [u8; 8] {
    let old = old.and_then(|old| old.try_into().ok());
    old.map_or(0, u64::from_le_bytes)
        .wrapping_add(operand)
        .to_le_bytes()
}
