//! Brings a file into the database's directory: linked where it may be, else copied.

use super::external::External;
use super::options::IngestOptions;
use crate::core::{Components, Engine, Family};
use crate::info_log::InfoLog;
use crate::version::{FileChecksum, NewFile};
use spanlith_base::{Error, FileNumber, Result};
use spanlith_env::IoActivity;
use std::path::Path;

/// Bytes of one read.
const STEP: usize = 1 << 20;

/// Takes files into the directory of one family.
pub(super) struct Intake<'a> {
    components: &'a Components,
    log: &'a InfoLog,
    family: &'a Family,
    options: &'a IngestOptions,
}

impl<'a> Intake<'a> {
    /// Takes files into `family` as the options say.
    pub(super) fn new(engine: &'a Engine, family: &'a Family, options: &'a IngestOptions) -> Self {
        Self {
            components: &engine.c,
            log: engine.reporter.log(),
            family,
            options,
        }
    }

    /// Makes `file` table `number` of the family, durable but for its name. What whole-file checksums say of it goes
    /// into `described`.
    ///
    /// # Errors
    /// `Io`; `Corruption` if the file changes meanwhile.
    pub(super) fn take(
        &self,
        file: &External,
        number: FileNumber,
        described: &mut NewFile,
    ) -> Result<()> {
        let (options, to) = (self.options, self.family.table_path(number, 0));
        let may_link = options.move_files || options.link_files;
        // Entries of another database in it would have to be taken out.
        if may_link && file.patched_at.is_none() {
            match self.link_in(file, &to) {
                Ok(()) => return self.sum_up(&to, described),
                Err(e) if options.failed_move_fall_back_to_copy => {
                    let from = file.path.display();
                    self.log.info(format_args!("ingestion: copies {from}: {e}"));
                    // The rest of it is in the way.
                    self.components.purge.discard(number, &to);
                }
                Err(e) => return Err(e),
            }
        }
        self.copy_in(file, &to, described)
    }

    /// Links it, and makes what it holds durable: whoever wrote it need not have.
    fn link_in(&self, file: &External, to: &Path) -> Result<()> {
        let fs = &self.components.env.fs;
        fs.link(&file.path, to)?;
        let mut linked = fs.reopen(to, IoActivity::Other)?;
        linked.sync()?;
        linked.close()?;
        match fs.size(to)? {
            size if size == file.size => Ok(()),
            size => Err(changed(file, size)),
        }
    }

    fn sum_up(&self, path: &Path, described: &mut NewFile) -> Result<()> {
        if let Some(sum) =
            FileChecksum::of(&self.components.options).of_file(&*self.components.env.fs, path)?
        {
            sum.describe(described);
        }
        Ok(())
    }

    fn copy_in(&self, file: &External, to: &Path, described: &mut NewFile) -> Result<()> {
        let mut source = self.components.env.fs.open_sequential(&file.path)?;
        let out = self
            .components
            .io
            .create_table(to, IoActivity::Other, false, None)?;
        let (mut out, sum) = FileChecksum::of(&self.components.options).watch(out);
        let mut buffer = vec![0; STEP.min(file.size.max(1) as usize)];
        let mut at = 0;
        while at < file.size {
            let want = buffer.len().min((file.size - at) as usize);
            let n = source.read(&mut buffer[..want])?;
            if n == 0 {
                return Err(changed(file, at));
            }
            let piece = &mut buffer[..n];
            if let Some(patched_at) = file.patched_at {
                unpatch(piece, at, patched_at);
            }
            out.append(piece)?;
            at += n as u64;
        }
        out.sync()?;
        out.close()?;
        if let Some(sum) = sum {
            sum.describe(described);
        }
        Ok(())
    }
}

/// Puts zeros in the place of a sequence number as far as it lies in this piece of the file, which begins at `at`.
fn unpatch(piece: &mut [u8], at: u64, patched_at: u64) {
    for place in patched_at..patched_at + 8 {
        let offset = place.checked_sub(at).and_then(|o| usize::try_from(o).ok());
        if let Some(byte) = offset.and_then(|o| piece.get_mut(o)) {
            *byte = 0;
        }
    }
}

fn changed(file: &External, size: u64) -> Error {
    Error::corruption("External file changed while it was taken in")
        .with_path(&file.path)
        .with("expected", file.size)
        .with("found", size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_out_wherever_pieces_are_cut() {
        let file: Vec<u8> = (1..=40).collect();
        for step in 1..=40 {
            let mut copy = Vec::new();
            for piece in file.chunks(step) {
                let at = copy.len() as u64;
                let mut piece = piece.to_vec();
                unpatch(&mut piece, at, 17);
                copy.extend(piece);
            }
            let mut want = file.clone();
            want[17..25].fill(0);
            assert_eq!(copy, want, "pieces of {step}");
        }
    }
}
