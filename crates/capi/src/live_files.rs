//! `rocksdb_livefiles_t`: the tables of a database, also made by hand.

use crate::db::rocksdb_t;
use crate::ffi::{boxed, bytes, lend_if, text, unbox};
use libc::c_char;
use spanlith::LiveFile;
use spanlith_base::byte_text::{bytes_of_text, text_of_bytes};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A table.
#[derive(Clone, Default)]
pub struct rocksdb_livefile_t {
    column_family_name: CString,
    level: i32,
    /// Begins with a slash.
    name: CString,
    /// Does not end with one.
    directory: CString,
    size: usize,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    smallest_seqno: u64,
    largest_seqno: u64,
    entries: u64,
    deletions: u64,
    /// Its age among the files of level 0; 0 for unknown. C programs do not see it.
    epoch_number: u64,
}

/// Tables at one moment; independent of the database.
#[derive(Clone, Default)]
pub struct rocksdb_livefiles_t(Vec<rocksdb_livefile_t>);

/// The bytes up to the first NUL.
pub(crate) fn c_string(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// File name and directory of a table.
pub(crate) fn place(file: &LiveFile) -> (String, CString) {
    let name = file.path.file_name().unwrap_or_default();
    let dir = file.path.parent().map(|d| d.as_os_str().as_encoded_bytes());
    (
        name.to_string_lossy().into_owned(),
        c_string(dir.unwrap_or_default()),
    )
}

impl From<LiveFile> for rocksdb_livefile_t {
    fn from(file: LiveFile) -> Self {
        let (name, directory) = place(&file);
        Self {
            column_family_name: c_string(&bytes_of_text(&file.cf_name)),
            level: file.level as i32,
            name: c_string(format!("/{name}").as_bytes()),
            directory,
            size: file.size as usize,
            smallest: file.smallest,
            largest: file.largest,
            smallest_seqno: file.smallest_seqno,
            largest_seqno: file.largest_seqno,
            entries: file.entries,
            deletions: file.deletions,
            epoch_number: file.epoch_number,
        }
    }
}

impl rocksdb_livefile_t {
    /// The table as the engine describes it.
    fn to_table(&self) -> LiveFile {
        let name = self.name.as_bytes();
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let dir = OsStr::from_bytes(self.directory.as_bytes());
        let mut file = LiveFile::default();
        file.cf_name = text_of_bytes(self.column_family_name.as_bytes());
        file.path = Path::new(dir).join(OsStr::from_bytes(name));
        // A number that is no level is above all that there are.
        file.level = usize::try_from(self.level).unwrap_or(usize::MAX);
        file.size = self.size as u64;
        file.smallest.clone_from(&self.smallest);
        file.largest.clone_from(&self.largest);
        file.smallest_seqno = self.smallest_seqno;
        file.largest_seqno = self.largest_seqno;
        file.entries = self.entries;
        file.deletions = self.deletions;
        file.epoch_number = self.epoch_number;
        file
    }
}

impl rocksdb_livefiles_t {
    pub(crate) fn of(files: Vec<LiveFile>) -> Self {
        Self(files.into_iter().map(Into::into).collect())
    }

    /// The tables of an export. As in RocksDB, these name no family and have no counts of entries.
    pub(crate) fn of_export(files: Vec<LiveFile>) -> Self {
        let mut list = Self::of(files);
        for file in &mut list.0 {
            file.column_family_name = CString::default();
            (file.entries, file.deletions) = (0, 0);
        }
        list
    }

    pub(crate) fn to_tables(&self) -> Vec<LiveFile> {
        self.0.iter().map(rocksdb_livefile_t::to_table).collect()
    }

    fn at(&self, index: i32) -> Option<&rocksdb_livefile_t> {
        self.0.get(usize::try_from(index).ok()?)
    }
}

c_api! {
    /// The tables of all families.
    fn rocksdb_livefiles(db: *mut rocksdb_t) -> *const rocksdb_livefiles_t {
        let files = (*db).cf.db().live_files();
        boxed(rocksdb_livefiles_t::of(files))
    }

    /// No tables.
    fn rocksdb_livefiles_create() -> *mut rocksdb_livefiles_t {
        boxed(rocksdb_livefiles_t::default())
    }

    /// Takes a table.
    fn rocksdb_livefiles_add(files: *mut rocksdb_livefiles_t, file: *mut rocksdb_livefile_t) {
        (*files).0.extend(unbox(file).map(|f| *f));
    }

    /// Number of tables.
    fn rocksdb_livefiles_count(files: *const rocksdb_livefiles_t) -> i32 {
        (*files).0.len() as i32
    }

    /// Frees a list.
    fn rocksdb_livefiles_destroy(files: *const rocksdb_livefiles_t) {
        drop(unbox(files.cast_mut()));
    }

    /// A table without anything.
    fn rocksdb_livefile_create() -> *mut rocksdb_livefile_t {
        boxed(rocksdb_livefile_t::default())
    }
}

macro_rules! texts {
    ($($field:ident: $get:ident, $set:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Field `", stringify!($field), "`, lent; NULL without such a table.")]
            fn $get(files: *const rocksdb_livefiles_t, index: i32) -> *const c_char {
                (*files).at(index).map_or(std::ptr::null(), |f| f.$field.as_ptr())
            }

            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(file: *mut rocksdb_livefile_t, value: *const c_char) {
                (*file).$field = c_string(text(value).as_bytes());
            }
        )*}
    };
}

texts! {
    column_family_name:
        rocksdb_livefiles_column_family_name, rocksdb_livefile_set_column_family_name;
    name: rocksdb_livefiles_name, rocksdb_livefile_set_name;
    directory: rocksdb_livefiles_directory, rocksdb_livefile_set_directory;
}

macro_rules! keys {
    ($($field:ident: $get:ident, $set:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Field `", stringify!($field), "`, lent; NULL without such a table.")]
            fn $get(
                files: *const rocksdb_livefiles_t,
                index: i32,
                size: *mut usize,
            ) -> *const c_char {
                lend_if((*files).at(index).map(|f| &f.$field[..]), size)
            }

            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(file: *mut rocksdb_livefile_t, key: *const c_char, len: usize) {
                (*file).$field = bytes(key, len).to_vec();
            }
        )*}
    };
}

keys! {
    smallest: rocksdb_livefiles_smallestkey, rocksdb_livefile_set_smallest_key;
    largest: rocksdb_livefiles_largestkey, rocksdb_livefile_set_largest_key;
}

macro_rules! numbers {
    ($($field:ident: $ty:ty, $get:ident, $set:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Field `", stringify!($field), "`; 0 without such a table.")]
            fn $get(files: *const rocksdb_livefiles_t, index: i32) -> $ty {
                (*files).at(index).map_or(0, |f| f.$field)
            }

            #[doc = concat!("Sets `", stringify!($field), "`.")]
            fn $set(file: *mut rocksdb_livefile_t, value: $ty) {
                (*file).$field = value;
            }
        )*}
    };
}

numbers! {
    level: i32, rocksdb_livefiles_level, rocksdb_livefile_set_level;
    size: usize, rocksdb_livefiles_size, rocksdb_livefile_set_size;
    smallest_seqno: u64, rocksdb_livefiles_smallest_seqno, rocksdb_livefile_set_smallest_seqno;
    largest_seqno: u64, rocksdb_livefiles_largest_seqno, rocksdb_livefile_set_largest_seqno;
    entries: u64, rocksdb_livefiles_entries, rocksdb_livefile_set_num_entries;
    deletions: u64, rocksdb_livefiles_deletions, rocksdb_livefile_set_num_deletions;
}

destroyers! {
    rocksdb_livefile_destroy(rocksdb_livefile_t);
}
