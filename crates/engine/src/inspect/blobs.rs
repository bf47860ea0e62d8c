//! Checks of blob files.

use super::report::{Finding, VerifyLevel};
use super::verifier::Verifier;
use crate::blob::walk_blobs;
use crate::version::{BlobFileAddition, BlobFileMeta, filenames};
use spanlith_base::{Result, SubCode};
use std::path::Path;

/// Describes what the MANIFEST says of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobsToVerify {
    /// Bytes of the file.
    pub size: u64,
    /// Its blobs.
    pub count: u64,
}

impl BlobsToVerify {
    /// By what was said when it was added.
    pub fn of(added: &BlobFileAddition) -> Self {
        Self {
            size: BlobFileMeta::new(added.clone(), None).size(),
            count: added.total_count,
        }
    }
}

impl Verifier<'_> {
    /// Checks a blob file in `dir`: that it is there, of the size that the MANIFEST says, and, but for the
    /// quick level, every record, and that there are as many.
    pub(super) fn blob_file(
        &mut self,
        dir: &Path,
        number: u64,
        expected: BlobsToVerify,
    ) -> Result<()> {
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
        let is_other = size != expected.size;
        if is_other {
            let what = format!("{size} bytes, the MANIFEST says {}", expected.size);
            let at = Some(size.min(expected.size));
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
            Ok(found) if found != expected.count && !is_other => {
                let what = format!("{found} blobs, the MANIFEST says {}", expected.count);
                self.add(Finding::damage(&name, None, what));
            }
            Ok(_) => {}
        }
        Ok(())
    }
}
