//! The file that says whose a directory of tables on a speed disk is.
//!
//! ```text
//! spanlith-tables 1
//! owner 5c1d…            identity of the database
//! token 0001…            of the last open for writing
//! next 0203…             of an open that has not reached CURRENT yet; may be missing
//! ```
//!
//! CURRENT has the token, too. An open gives the directory a new one: first as the next, then to CURRENT, then as the
//! only one. So a copy of a database's directory that stayed behind is told from the database: its token is an old one,
//! and its tables are gone.

use spanlith_base::{Error, Result};
use spanlith_env::{Env, FileSystem, IoActivity};
use std::path::{Path, PathBuf};

/// Name of the file.
pub(super) const OWNER_FILE: &str = "SPANLITH.tables";
/// Name while it is written.
const OWNER_TEMP: &str = "SPANLITH.tables.tmp";
/// Longest file.
const BYTES_MAX: u64 = 4096;
const FIRST_LINE: &str = "spanlith-tables 1";

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Identity of the database.
    pub id: String,
    /// Tokens that CURRENT may have: the last one, and the next.
    pub tokens: Vec<[u8; 16]>,
}

impl Owner {
    /// Reads the file of a directory; `None` if there is none.
    ///
    /// # Errors
    /// `Corruption` if it is anything else; of the file.
    pub(super) fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(OWNER_FILE);
        if fs.entry(dir)?.is_none() || fs.entry(&path)?.is_none() {
            return Ok(None);
        }
        let bytes = fs.read_all(&path, BYTES_MAX)?;
        let owner = std::str::from_utf8(&bytes).ok().and_then(Self::parse);
        let unreadable = || Error::corruption(format!("{OWNER_FILE} is damaged")).with_path(&path);
        owner.ok_or_else(unreadable).map(Some)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let id = lines.next()?.strip_prefix("owner ")?.to_string();
        let token = token(lines.next()?.strip_prefix("token ")?)?;
        let mut tokens = vec![token];
        if let Some(line) = lines.next() {
            tokens.push(self::token(line.strip_prefix("next ")?)?);
        }
        lines.next().is_none().then_some(Self { id, tokens })
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nowner {}\n", self.id);
        for (word, token) in ["token", "next"].iter().zip(&self.tokens) {
            let digits: String = token.iter().map(|b| format!("{b:02x}")).collect();
            text += &format!("{word} {digits}\n");
        }
        text
    }

    /// Writes the file: temporary file, sync, rename, sync of the directory.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn write(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        let temp = dir.join(OWNER_TEMP);
        let mut file = fs.create(&temp, IoActivity::Other)?;
        file.append(self.text().as_bytes())?;
        file.sync()?;
        file.close()?;
        fs.rename(&temp, &dir.join(OWNER_FILE))?;
        fs.sync_dir(dir)
    }

    /// The files of a directory that go when nobody owns it any more.
    pub(super) fn files(dir: &Path) -> [PathBuf; 2] {
        [dir.join(OWNER_TEMP), dir.join(OWNER_FILE)]
    }
}

fn token(digits: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(digits, 16).ok();
    let number = number.filter(|_| digits.len() == 32 && !digits.starts_with('+'))?;
    Some(number.to_be_bytes())
}

/// A token that no other open has.
pub(super) fn new_token(env: &Env) -> [u8; 16] {
    let high = u128::from(env.rng.next_u64());
    (high << 64 | u128::from(env.rng.next_u64())).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::MemFs;

    #[test]
    fn an_owner_comes_back_and_damage_is_told() {
        let fs = MemFs::new();
        let dir = Path::new("/fast");
        assert_eq!(Owner::read(&fs, dir).unwrap(), None);
        fs.create_dir_if_missing(dir).unwrap();
        assert_eq!(Owner::read(&fs, dir).unwrap(), None);
        for tokens in [vec![[7; 16]], vec![[7; 16], [0xab; 16]]] {
            let owner = Owner {
                id: "an id".into(),
                tokens,
            };
            owner.write(&fs, dir).unwrap();
            assert_eq!(Owner::read(&fs, dir).unwrap(), Some(owner.clone()));
            let text = owner.text();
            for bad in [
                text.replace("tables 1", "tables 2"),
                text.replace("owner", "owned"),
                text.replace("0707", "07"),
                text.replace("0707", "+707"),
                text.clone() + "more\n",
                text.trim_end().to_string(),
                String::new(),
            ] {
                assert_eq!(Owner::parse(&bad), None, "{bad}");
            }
        }
        let mut file = fs.create(&dir.join(OWNER_FILE), IoActivity::Other).unwrap();
        file.append(&[0xff; 9]).unwrap();
        let e = Owner::read(&fs, dir).unwrap_err();
        assert!(e.to_string().contains("SPANLITH.tables is damaged"), "{e}");
    }
}
