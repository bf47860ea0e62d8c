//! The lines of a CURRENT after the first one: what of a database stands on a speed disk.
//!
//! ```text
//! MANIFEST-000012
//! speed-disk 1 000102030405060708090a0b0c0d0e0f 7 stays /fast/log.sd
//! speed-tables 1 000102030405060708090a0b0c0d0e0f stays /fast/tables
//! ```
//!
//! The first of them is a [`SpeedMark`]. The second, a [`TablesMark`], holds version, the token of the last open (which
//! the directory has, too), whether the tables stay there, and the directory. Either may be missing. RocksDB takes the
//! file for damaged and touches nothing. Copies (checkpoints, backups) have no such lines, since their tables are all
//! in one directory.

use super::SpeedMark;
use super::speed_mark::{hex, parse_instance};
use spanlith_base::{Error, Result};

const WORD: &str = "speed-tables";
const VERSION: &str = "1";

/// In which directory of a speed disk the tables with path id 3 are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesMark {
    /// Token of the last open for writing.
    pub token: [u8; 16],
    /// No table is there any more; only the directory has to be emptied.
    pub is_leaving: bool,
    /// The directory.
    pub dir: String,
}

impl TablesMark {
    /// Its line, with the line feed.
    pub fn line(&self) -> String {
        let state = if self.is_leaving { "leaves" } else { "stays" };
        format!(
            "{WORD} {VERSION} {} {state} {}\n",
            hex(&self.token),
            self.dir
        )
    }

    /// Reads a line without its line feed; `None` if it is none of these.
    ///
    /// # Errors
    /// `NotSupported` for another version.
    pub fn parse(line: &str) -> Result<Option<Self>> {
        let mut parts = line.splitn(5, ' ');
        if parts.next() != Some(WORD) {
            return Ok(None);
        }
        match parts.next() {
            Some(VERSION) => {}
            Some(other) => {
                let text = format!("CURRENT: tables on a speed disk, version {other}");
                return Err(Error::not_supported(text));
            }
            None => return Ok(None),
        }
        let token = parts.next().and_then(parse_instance);
        let is_leaving = parts.next().and_then(|state| match state {
            "stays" => Some(false),
            "leaves" => Some(true),
            _ => None,
        });
        let dir = parts.next().filter(|dir| !dir.is_empty());
        Ok(match (token, is_leaving, dir) {
            (Some(token), Some(is_leaving), Some(dir)) => Some(Self {
                token,
                is_leaving,
                dir: dir.to_string(),
            }),
            _ => None,
        })
    }
}

/// Says which parts of a database stand on a speed disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentMarks {
    /// Its logs.
    pub logs: Option<SpeedMark>,
    /// Some of its tables.
    pub tables: Option<TablesMark>,
}

impl CurrentMarks {
    /// Their lines.
    pub fn lines(&self) -> String {
        let logs = self.logs.as_ref().map(SpeedMark::line);
        let tables = self.tables.as_ref().map(TablesMark::line);
        logs.unwrap_or_default() + &tables.unwrap_or_default()
    }

    /// Reads what follows the first line; `None` if it is anything else.
    ///
    /// # Errors
    /// `NotSupported` for marks of a later release.
    pub fn parse(content: &[u8]) -> Result<Option<Self>> {
        let text = std::str::from_utf8(content).ok();
        let Some(text) = text.and_then(|text| text.strip_suffix('\n')) else {
            return Ok(None);
        };
        let mut marks = Self::default();
        for line in text.split('\n') {
            if let Some(mark) = SpeedMark::parse(line)?
                && marks == Self::default()
            {
                marks.logs = Some(mark);
            } else if let Some(mark) = TablesMark::parse(line)?
                && marks.tables.is_none()
            {
                marks.tables = Some(mark);
            } else {
                return Ok(None);
            }
        }
        Ok(Some(marks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_in_their_order_and_nothing_else_is_any() {
        let logs = SpeedMark {
            instance: *b"0123456789abcdef",
            epoch: 7,
            is_leaving: false,
            target: "/fast disk/log.sd".into(),
        };
        let tables = TablesMark {
            token: *b"fedcba9876543210",
            is_leaving: true,
            dir: "/fast disk/tables".into(),
        };
        for marks in [
            CurrentMarks {
                logs: Some(logs.clone()),
                tables: None,
            },
            CurrentMarks {
                logs: None,
                tables: Some(tables.clone()),
            },
            CurrentMarks {
                logs: Some(logs.clone()),
                tables: Some(tables.clone()),
            },
        ] {
            let lines = marks.lines();
            assert_eq!(CurrentMarks::parse(lines.as_bytes()).unwrap(), Some(marks));
            let cut = &lines[..lines.len() - 1];
            assert_eq!(CurrentMarks::parse(cut.as_bytes()).unwrap(), None);
        }
        for other in [
            String::new(),
            "\n".into(),
            tables.line() + &logs.line(),
            tables.line() + &tables.line(),
            logs.line() + &logs.line(),
            tables.line() + "\n",
            tables.line() + "more\n",
            tables.line().replace("leaves", "went"),
            tables.line().replace("/fast disk/tables", ""),
            tables.line().replace("6665", "66"),
        ] {
            assert_eq!(
                CurrentMarks::parse(other.as_bytes()).unwrap(),
                None,
                "{other}"
            );
        }
        let later = tables.line().replace("tables 1", "tables 2");
        let e = CurrentMarks::parse(later.as_bytes()).unwrap_err();
        assert!(e.to_string().contains("version 2"), "{e}");
    }
}
