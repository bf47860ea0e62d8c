//! Checks of blob files.

use super::report::{Finding, VerifyLevel};
use super::verifier::Verifier;
use crate::blob::walk_blobs;
use crate::version::filenames;
use spanlith_base::{Result, SubCode};
use std::path::Path;

impl Verifier<'_> {
    /// Checks a blob file in `dir`: that it is there, of the size that the MANIFEST says unless that is
    /// 0, and, but for the quick level, every record.
    pub(super) fn blob_file(&mut self, dir: &Path, number: u64, expected: u64) -> Result<()> {
        let name = filenames::blob_file_name(number);
        let path = dir.join(&name);
        self.begin(&name)?;
        let size = match self.env.fs.size(&path) {
            Ok(size) => size,
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => {
                let what = "missing; the MANIFEST names it";
                self.add(Finding::damage(&name, None, what));
                return Ok(());
            }
            Err(e) => {
                self.add(Finding::from_error(&name, None, &e));
                return Ok(());
            }
        };
        self.report.blob_files += 1;
        if expected != 0 && size != expected {
            let what = format!("{size} bytes, the MANIFEST says {expected}");
            let at = Some(size.min(expected));
            self.add(Finding::damage(&name, at, what));
        }
        if self.level() == VerifyLevel::Quick {
            return Ok(());
        }
        self.report.bytes += size;
        let file = match self.open(&path) {
            Ok(file) => file,
            Err(e) => {
                self.add(Finding::from_error(&name, None, &e));
                return Ok(());
            }
        };
        let mut seen = 0;
        let walked = walk_blobs(&file, &mut |_, _, pointer| {
            seen += 1;
            self.step(pointer.size)
        });
        self.report.blobs += seen;
        match walked {
            Err(e) if self.report.was_called_off => return Err(e),
            Err(e) => self.add(Finding::from_error(&name, None, &e)),
            Ok(_) => {}
        }
        Ok(())
    }
}
