//! The second line of a CURRENT of a database whose logs are on a speed disk.
//!
//! ```text
//! MANIFEST-000012
//! speed-disk 1 000102030405060708090a0b0c0d0e0f 7 stays /fast/log.sd
//! ```
//!
//! Version, instance of the disk, its epoch when the line was written, whether the logs stay there, and where the disk
//! was. RocksDB, which knows only the first line, takes the file for damaged and touches nothing; so it does not
//! open the database without the logs. Copies (checkpoints, backups) have their logs as files, and no such line.

use spanlith_base::{Error, Result};

const WORD: &str = "speed-disk";
const VERSION: &str = "1";

/// On which speed disk the logs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedMark {
    /// Instance of the disk.
    pub instance: [u8; 16],
    /// Its epoch when the mark was written.
    pub epoch: u64,
    /// The logs were copied into files beside the database, which only wait for their names.
    pub is_leaving: bool,
    /// Where the disk was.
    pub target: String,
}

impl SpeedMark {
    /// Its line, with the line feed.
    pub fn line(&self) -> String {
        let instance = hex(&self.instance);
        let state = if self.is_leaving { "leaves" } else { "stays" };
        let (epoch, target) = (self.epoch, &self.target);
        format!("{WORD} {VERSION} {instance} {epoch} {state} {target}\n")
    }

    /// Reads a line without its line feed; `None` if it is none of these.
    ///
    /// # Errors
    /// `NotSupported` for another version.
    pub fn parse(line: &str) -> Result<Option<Self>> {
        let mut parts = line.splitn(6, ' ');
        if parts.next() != Some(WORD) {
            return Ok(None);
        }
        match parts.next() {
            Some(VERSION) => {}
            Some(other) => {
                let text = format!("CURRENT: logs on a speed disk, version {other}");
                return Err(Error::not_supported(text));
            }
            None => return Ok(None),
        }
        let instance = parts.next().and_then(parse_instance);
        let epoch = parts.next().and_then(|e| e.parse().ok());
        let is_leaving = parts.next().and_then(|state| match state {
            "stays" => Some(false),
            "leaves" => Some(true),
            _ => None,
        });
        let target = parts.next().filter(|t| !t.is_empty());
        Ok(match (instance, epoch, is_leaving, target) {
            (Some(instance), Some(epoch), Some(is_leaving), Some(target)) => Some(Self {
                instance,
                epoch,
                is_leaving,
                target: target.to_string(),
            }),
            _ => None,
        })
    }
}

/// Sixteen bytes as digits.
pub(super) fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads what [`hex`] wrote.
pub(super) fn parse_instance(text: &str) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (place, digits) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *place = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_nothing_else_is_one() {
        let mark = SpeedMark {
            instance: *b"0123456789abcdef",
            epoch: 7,
            is_leaving: true,
            target: "/fast disk/log.sd@0+65536".into(),
        };
        let line = mark.line();
        let text = line.strip_suffix('\n').unwrap();
        assert_eq!(SpeedMark::parse(text).unwrap(), Some(mark));
        for other in [
            "",
            "MANIFEST-000005",
            "speed-disk",
            "speed-disk 1",
            "speed-disk 1 00 7 stays /x",
            "speed-disk 1 30313233343536373839616263646566 x stays /x",
            "speed-disk 1 30313233343536373839616263646566 7 goes /x",
            "speed-disk 1 30313233343536373839616263646566 7 stays ",
        ] {
            assert_eq!(SpeedMark::parse(other).unwrap(), None, "{other}");
        }
        let e = SpeedMark::parse("speed-disk 2 whatever").unwrap_err();
        assert!(e.to_string().contains("version 2"), "{e}");
    }
}
