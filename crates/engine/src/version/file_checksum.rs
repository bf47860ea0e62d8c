//! Checksums of whole files (`file_checksum_gen_factory`), recorded in the MANIFEST.
//!
//! One function exists, RocksDB's `FileChecksumCrc32c`: CRC-32C over all bytes, unmasked, four bytes,
//! most significant first. It is computed while the file is written, so it costs no read.

use super::edit::{BlobFileAddition, NewFile};
use crate::options::{FixedDbOptions, file_checksum_factory};
use spanlith_base::checksum::crc32c_append;
use spanlith_base::{Error, Result};
use spanlith_env::{FileSystem, WritableFile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of the function in the MANIFEST.
pub const CRC32C_FUNCTION: &[u8] = b"FileChecksumCrc32c";
/// Bytes read at a time to verify a file.
const PIECE: usize = 256 << 10;

/// Says whether files get checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileChecksum {
    /// They do not.
    #[default]
    None,
    /// `FileChecksumCrc32c`.
    Crc32c,
}

impl FileChecksum {
    /// The value of `file_checksum_gen_factory`; `None` if there is no such factory.
    pub fn parse(text: &str) -> Option<Self> {
        match file_checksum_factory(text)? {
            "" => Some(Self::None),
            _ => Some(Self::Crc32c),
        }
    }

    /// Returns whether the files of a database get checksums. Options that are not understood are refused before it is opened.
    pub(crate) fn of(options: &FixedDbOptions) -> Self {
        Self::parse(&options.file_checksum_gen_factory).unwrap_or_default()
    }

    /// `file`, and what will be the checksum of all that is appended to it.
    pub fn watch(self, file: Box<dyn WritableFile>) -> (Box<dyn WritableFile>, Option<FileSum>) {
        if self == Self::None {
            return (file, None);
        }
        let sum = FileSum::default();
        let summed = Summed {
            file,
            sum: sum.clone(),
        };
        (Box::new(summed), Some(sum))
    }

    /// The checksum of a file that is there; `None` if files get none.
    ///
    /// # Errors
    /// Of the file.
    pub fn of_file(self, fs: &dyn FileSystem, path: &Path) -> Result<Option<FileSum>> {
        if self == Self::None {
            return Ok(None);
        }
        let sum = FileSum::default();
        sum.crc.store(crc_of(fs, path)?, Ordering::Relaxed);
        Ok(Some(sum))
    }

    /// Compares a file with the checksum recorded for it.
    ///
    /// # Errors
    /// `Corruption` if it differs; `InvalidArgument` if `function` made it, which is not this one; of
    /// the file.
    pub fn verify(
        self,
        fs: &dyn FileSystem,
        path: &Path,
        function: &[u8],
        expected: &[u8],
    ) -> Result<()> {
        if function != CRC32C_FUNCTION {
            let name = String::from_utf8_lossy(function).into_owned();
            return Err(Error::invalid_argument(format!(
                "No matching file checksum generator for {name}"
            ))
            .with_path(path));
        }
        let actual = crc_of(fs, path)?.to_be_bytes();
        if actual == expected {
            return Ok(());
        }
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02X}")).collect() };
        Err(Error::corruption(format!(
            "{} file checksum mismatch, expecting {}, but actual {}",
            path.display(),
            hex(expected),
            hex(&actual)
        ))
        .with_path(path))
    }
}

/// The function over all bytes of a file.
fn crc_of(fs: &dyn FileSystem, path: &Path) -> Result<u32> {
    let file = fs.open_random(path)?;
    let (mut crc, mut offset) = (0, 0);
    let mut buffer = vec![0; PIECE];
    loop {
        let read = file.read_at(offset, &mut buffer)?;
        if read == 0 {
            return Ok(crc);
        }
        crc = crc32c_append(crc, &buffer[..read]);
        offset += read as u64;
    }
}

/// The checksum of a file that is being written, or was.
#[derive(Clone, Debug, Default)]
pub struct FileSum {
    /// Written by the file's only writer, read by it: nothing is published.
    crc: Arc<AtomicU32>,
}

impl FileSum {
    /// Enters the checksum of all that was appended.
    pub fn describe(&self, file: &mut NewFile) {
        let crc = self.crc.load(Ordering::Relaxed);
        file.file_checksum = crc.to_be_bytes().to_vec();
        file.file_checksum_func_name = CRC32C_FUNCTION.to_vec();
    }

    /// As [`Self::describe`], of a blob file.
    pub fn describe_blob_file(&self, file: &mut BlobFileAddition) {
        let crc = self.crc.load(Ordering::Relaxed);
        file.checksum_value = crc.to_be_bytes().to_vec();
        file.checksum_method = CRC32C_FUNCTION.to_vec();
    }
}

/// A file whose bytes are summed on the way.
struct Summed {
    file: Box<dyn WritableFile>,
    sum: FileSum,
}

impl WritableFile for Summed {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file.append(data)?;
        let crc = self.sum.crc.load(Ordering::Relaxed);
        let crc = crc32c_append(crc, data);
        self.sum.crc.store(crc, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn write_back(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file.write_back(offset, len)
    }

    fn write_back_strictly(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file.write_back_strictly(offset, len)
    }

    fn preallocate(&mut self, len: u64) {
        self.file.preallocate(len);
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}
