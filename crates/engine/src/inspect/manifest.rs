//! Checks of the MANIFEST.

use super::report::{Finding, VerifyLevel};
use super::verifier::Verifier;
use crate::core::ManifestExtent;
use crate::recovery::of_manifest;
use crate::version::{VersionEdit, filenames};
use spanlith_base::{Error, Result, SubCode};
use spanlith_env::Env;
use spanlith_wal::{LogReader, ReadEvent};
use std::path::Path;

/// Longest CURRENT.
const CURRENT_MAX: u64 = 4096;

/// Judges a MANIFEST that nobody writes and that cannot be read from `offset` on, or ends there. `mark`
/// is the largest mark of the records before. Returns how many bytes of it had been durable if it was
/// damaged or cut; `None` for a torn end, a whole file, or if nothing is known.
///
/// # Errors
/// Of the file.
pub fn judge_manifest(
    env: &Env,
    path: &Path,
    offset: u64,
    mark: Option<u64>,
) -> Result<Option<u64>> {
    let found = of_manifest(env, path, offset, mark)?;
    Ok(found.is_damaged.then_some(found.proven))
}

impl Verifier<'_> {
    /// Checks CURRENT and the MANIFEST of an open database, of which `extent` is durable. Returns false
    /// if there is another one by now, and nothing can be said.
    ///
    /// # Errors
    /// `Aborted` if the verification is called off.
    pub(super) fn live_manifest(&mut self, dir: &Path, extent: ManifestExtent) -> Result<bool> {
        let name = filenames::manifest_file_name(extent.number);
        self.begin(&name)?;
        let fs = self.env.fs.clone();
        let current = fs.read_all(&dir.join(filenames::CURRENT_FILE), CURRENT_MAX);
        match current.and_then(|bytes| filenames::parse_marked_current(&bytes).map(|c| c.0)) {
            Ok(number) if number == extent.number => {}
            Ok(number) if number > extent.number => return Ok(false),
            Ok(number) => {
                let what = format!("names MANIFEST {number:06}, not {:06}", extent.number);
                self.add(Finding::damage(filenames::CURRENT_FILE, None, what));
            }
            Err(e) => self.add(Finding::from_error(filenames::CURRENT_FILE, None, &e)),
        }
        let path = dir.join(&name);
        let size = match fs.size(&path) {
            Ok(size) => size,
            Err(e) if e.subcode() == Some(SubCode::PathNotFound) => {
                let what = "missing; CURRENT names it";
                self.add(Finding::damage(&name, None, what));
                return Ok(true);
            }
            Err(e) => {
                self.add(Finding::from_error(&name, None, &e));
                return Ok(true);
            }
        };
        if size < extent.size {
            let what = format!("{size} bytes, {} had been synced", extent.size);
            self.add(Finding::damage(&name, Some(size), what));
        }
        if self.level() == VerifyLevel::Quick {
            return Ok(true);
        }
        match self.manifest_records(&path, extent.size) {
            Err(e) if self.report.was_called_off => return Err(e),
            Err(e) => self.add(Finding::from_error(&name, None, &e)),
            Ok(()) => {}
        }
        Ok(true)
    }

    /// Every record that begins below `limit`; if that is 0, as many as there are before a torn end.
    fn manifest_records(&mut self, path: &Path, limit: u64) -> Result<()> {
        let mut reader = LogReader::new(self.env.fs.open_sequential(path)?, 0);
        let is_known = limit > 0;
        let limit = if is_known { limit } else { u64::MAX };
        while reader.position() < limit {
            let before = reader.position();
            let event = reader.next_event()?;
            let read = reader.position().saturating_sub(before);
            self.pace(read);
            self.step(read)?;
            match event {
                ReadEvent::Record { offset, .. } => {
                    self.report.manifest_records += 1;
                    VersionEdit::decode(reader.record()).map_err(|e| e.with_offset(offset))?;
                }
                ReadEvent::Eof | ReadEvent::Corruption { tail: true, .. } if !is_known => break,
                ReadEvent::Eof => {
                    let what = "ends before its last synced record";
                    return Err(Error::corruption(what).with_offset(before));
                }
                event => {
                    let foreign = || Error::corruption("a record that belongs into a log");
                    return Err(event.into_error().unwrap_or_else(foreign));
                }
            }
        }
        self.report.bytes += reader.position();
        Ok(())
    }
}
