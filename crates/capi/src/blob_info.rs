//! Describes what listeners are told of blob files: `rocksdb_blob_file_addition_info_t` and
//! `rocksdb_blob_file_garbage_info_t`, lent by what they are told of a flush or a compaction.

use crate::ffi::lend_if;
use crate::live_files::c_string;
use libc::c_char;
use spanlith::listener::BlobFileRecords;
use std::ffi::CString;

macro_rules! handles {
    ($(
        $(#[$doc:meta])*
        $name:ident, $path:ident, $number:ident, $count:ident, $bytes:ident;
    )*) => {
        $(
            $(#[$doc])*
            pub struct $name {
                path: CString,
                records: BlobFileRecords,
            }

            impl $name {
                pub(crate) fn all_of(files: &[BlobFileRecords]) -> Vec<Self> {
                    let made = files.iter().map(|records| Self {
                        path: c_string(records.path.as_os_str().as_encoded_bytes()),
                        records: records.clone(),
                    });
                    made.collect()
                }
            }
        )*

        c_api! {$(
            /// Path of the blob file.
            fn $path(info: *const $name, size: *mut usize) -> *const c_char {
                lend_if(Some((*info).path.as_bytes()), size)
            }

            /// Number of the blob file.
            fn $number(info: *const $name) -> u64 {
                (*info).records.number
            }

            /// Records: values with their headers and keys.
            fn $count(info: *const $name) -> u64 {
                (*info).records.count
            }

            /// Bytes of these records.
            fn $bytes(info: *const $name) -> u64 {
                (*info).records.bytes
            }
        )*}
    };
}

handles! {
    /// A blob file that was written.
    rocksdb_blob_file_addition_info_t,
        rocksdb_blob_file_addition_info_blob_file_path,
        rocksdb_blob_file_addition_info_blob_file_number,
        rocksdb_blob_file_addition_info_total_blob_count,
        rocksdb_blob_file_addition_info_total_blob_bytes;
    /// Says what a compaction left without references in a blob file.
    rocksdb_blob_file_garbage_info_t,
        rocksdb_blob_file_garbage_info_blob_file_path,
        rocksdb_blob_file_garbage_info_blob_file_number,
        rocksdb_blob_file_garbage_info_garbage_blob_count,
        rocksdb_blob_file_garbage_info_garbage_blob_bytes;
}
