//! Describes what listeners are told: `rocksdb_flushjobinfo_t` and its kin. Valid during the call only; strings
//! are lent for as long.

use crate::blob_info::{rocksdb_blob_file_addition_info_t, rocksdb_blob_file_garbage_info_t};
use crate::ffi::{boxed, bytes, lend_if, report};
use crate::job_stats::rocksdb_compaction_job_stats_t;
use crate::live_files::c_string;
use crate::table_properties::rocksdb_table_properties_t;
use libc::c_char;
use spanlith::listener::{
    CompactionFile, CompactionInfo, ExternalFileInfo, FlushInfo, MemtableInfo, WriteStallInfo,
};
use spanlith_base::byte_text::bytes_of_text;
use spanlith_base::{Error, Result};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr;

fn path_string(path: &Path) -> CString {
    c_string(path.as_os_str().as_encoded_bytes())
}

/// Adds the name of the family and what else is lent to the facts.
macro_rules! infos {
    ($(
        $(#[$doc:meta])*
        $name:ident($info:ty) { $($lent:ident: $kind:ty = |$from:ident| $make:expr,)* }
    )*) => {$(
        $(#[$doc])*
        pub struct $name {
            info: $info,
            cf_name: CString,
            $($lent: $kind,)*
        }

        impl $name {
            pub(crate) fn new(info: &$info) -> Self {
                Self {
                    cf_name: c_string(&bytes_of_text(&info.cf_name)),
                    $($lent: { let $from = info; $make },)*
                    info: info.clone(),
                }
            }
        }
    )*};
}

fn strings(paths: &[PathBuf]) -> Vec<CString> {
    paths.iter().map(|p| path_string(p)).collect()
}

/// A table that takes part in a compaction; lent by what the listener is told.
pub struct rocksdb_compaction_file_info_t {
    info: CompactionFile,
}

fn files(infos: &[CompactionFile]) -> Vec<rocksdb_compaction_file_info_t> {
    let infos = infos.iter();
    infos
        .map(|&info| rocksdb_compaction_file_info_t { info })
        .collect()
}

fn properties(info: &CompactionInfo) -> Vec<(CString, rocksdb_table_properties_t)> {
    let tables = info.table_properties.iter();
    tables
        .map(|(path, properties)| (path_string(path), properties.clone().into()))
        .collect()
}

infos! {
    /// A flush.
    rocksdb_flushjobinfo_t(FlushInfo) {
        file_path: CString = |i| path_string(&i.file_path),
        properties: rocksdb_table_properties_t = |i| i.properties.clone().into(),
        blobs: Vec<rocksdb_blob_file_addition_info_t> =
            |i| rocksdb_blob_file_addition_info_t::all_of(&i.blob_files),
    }

    /// A compaction.
    rocksdb_compactionjobinfo_t(CompactionInfo) {
        inputs: Vec<CString> = |i| strings(&i.input_files),
        outputs: Vec<CString> = |i| strings(&i.output_files),
        input_infos: Vec<rocksdb_compaction_file_info_t> = |i| files(&i.input_file_infos),
        output_infos: Vec<rocksdb_compaction_file_info_t> = |i| files(&i.output_file_infos),
        properties: Vec<(CString, rocksdb_table_properties_t)> = |i| properties(i),
        stats: rocksdb_compaction_job_stats_t =
            |i| rocksdb_compaction_job_stats_t::of_job(&i.stats),
        blobs: Vec<rocksdb_blob_file_addition_info_t> =
            |i| rocksdb_blob_file_addition_info_t::all_of(&i.blob_files),
        garbage: Vec<rocksdb_blob_file_garbage_info_t> =
            |i| rocksdb_blob_file_garbage_info_t::all_of(&i.blob_garbage),
    }

    /// A part of a compaction.
    rocksdb_subcompactionjobinfo_t(CompactionInfo) {
        stats: rocksdb_compaction_job_stats_t =
            |i| rocksdb_compaction_job_stats_t::of_part(&i.stats),
    }

    /// A file that was taken in from outside.
    rocksdb_externalfileingestioninfo_t(ExternalFileInfo) {
        external: CString = |i| path_string(&i.external_path),
        internal: CString = |i| path_string(&i.internal_path),
        properties: rocksdb_table_properties_t = |i| i.properties.clone().into(),
    }

    /// A memtable that takes no more writes.
    rocksdb_memtableinfo_t(MemtableInfo) {}
}

/// How writers are treated: 0 slowed down, 1 stopped, 2 as usual.
#[repr(transparent)]
pub struct rocksdb_writestallcondition_t(i32);

/// A change in how writers are treated.
pub struct rocksdb_writestallinfo_t {
    cf_name: CString,
    current: rocksdb_writestallcondition_t,
    previous: rocksdb_writestallcondition_t,
}

impl rocksdb_writestallinfo_t {
    pub(crate) fn new(info: &WriteStallInfo) -> Self {
        Self {
            cf_name: c_string(&bytes_of_text(&info.cf_name)),
            current: rocksdb_writestallcondition_t(info.current as i32),
            previous: rocksdb_writestallcondition_t(info.previous as i32),
        }
    }
}

/// An error that is about to stop writes; a listener may take it away.
pub struct rocksdb_status_ptr_t(pub(crate) Option<Error>);

macro_rules! numbers {
    ($($handle:ident { $($getter:ident -> $ty:ty: |$i:ident| $value:expr;)* })*) => {
        c_api! {$($(
            #[doc = concat!("`", stringify!($value), "`.")]
            fn $getter(info: *const $handle) -> $ty {
                let $i = &(*info).info;
                $value
            }
        )*)*}
    };
}

macro_rules! names {
    ($($handle:ident { $($getter:ident: $field:ident;)* })*) => {
        c_api! {$($(
            #[doc = concat!("`", stringify!($field), "`.")]
            fn $getter(info: *const $handle, size: *mut usize) -> *const c_char {
                lend_if(Some((*info).$field.as_bytes()), size)
            }
        )*)*}
    };
}

names! {
    rocksdb_flushjobinfo_t {
        rocksdb_flushjobinfo_cf_name: cf_name;
        rocksdb_flushjobinfo_file_path: file_path;
    }
    rocksdb_compactionjobinfo_t {
        rocksdb_compactionjobinfo_cf_name: cf_name;
    }
    rocksdb_subcompactionjobinfo_t {
        rocksdb_subcompactionjobinfo_cf_name: cf_name;
    }
    rocksdb_externalfileingestioninfo_t {
        rocksdb_externalfileingestioninfo_cf_name: cf_name;
        rocksdb_externalfileingestioninfo_external_file_path: external;
        rocksdb_externalfileingestioninfo_internal_file_path: internal;
    }
    rocksdb_memtableinfo_t {
        rocksdb_memtableinfo_cf_name: cf_name;
    }
    rocksdb_writestallinfo_t {
        rocksdb_writestallinfo_cf_name: cf_name;
    }
}

numbers! {
    rocksdb_flushjobinfo_t {
        rocksdb_flushjobinfo_cf_id -> u32: |i| i.cf_id;
        rocksdb_flushjobinfo_file_number -> u64: |i| i.file_number;
        rocksdb_flushjobinfo_thread_id -> u64: |i| i.thread_id;
        rocksdb_flushjobinfo_job_id -> i32: |i| i.job as i32;
        rocksdb_flushjobinfo_triggered_writes_slowdown -> u8: |i| i.triggered_writes_slowdown.into();
        rocksdb_flushjobinfo_triggered_writes_stop -> u8: |i| i.triggered_writes_stop.into();
        rocksdb_flushjobinfo_smallest_seqno -> u64: |i| i.smallest_seqno;
        rocksdb_flushjobinfo_largest_seqno -> u64: |i| i.largest_seqno;
        rocksdb_flushjobinfo_flush_reason -> u32: |i| i.reason as u32;
        rocksdb_flushjobinfo_oldest_blob_file_number -> u64: |i| i.oldest_blob_file;
        rocksdb_flushjobinfo_blob_compression_type -> u32: |i| i.blob_compression.into();
        rocksdb_flushjobinfo_blob_file_addition_infos_count -> usize: |i| i.blob_files.len();
    }
    rocksdb_compactionjobinfo_t {
        rocksdb_compactionjobinfo_cf_id -> u32: |i| i.cf_id;
        rocksdb_compactionjobinfo_thread_id -> u64: |i| i.thread_id;
        rocksdb_compactionjobinfo_job_id -> i32: |i| i.job as i32;
        rocksdb_compactionjobinfo_base_input_level -> i32: |i| i.base_input_level as i32;
        rocksdb_compactionjobinfo_output_level -> i32: |i| i.output_level as i32;
        rocksdb_compactionjobinfo_compaction_reason -> u32: |i| i.reason.1;
        rocksdb_compactionjobinfo_elapsed_micros -> u64: |i| i.stats.elapsed_micros;
        rocksdb_compactionjobinfo_num_corrupt_keys -> u64: |i| i.stats.corrupt_keys;
        rocksdb_compactionjobinfo_input_records -> u64: |i| i.stats.input_records;
        rocksdb_compactionjobinfo_output_records -> u64: |i| i.stats.output_records;
        rocksdb_compactionjobinfo_total_input_bytes -> u64: |i| i.stats.input_bytes;
        rocksdb_compactionjobinfo_total_output_bytes -> u64: |i| i.stats.output_bytes;
        rocksdb_compactionjobinfo_num_input_files -> usize: |i| i.input_files.len();
        rocksdb_compactionjobinfo_num_input_files_at_output_level -> usize:
            |i| i.stats.input_files_at_output_level;
        rocksdb_compactionjobinfo_input_files_count -> usize: |i| i.input_files.len();
        rocksdb_compactionjobinfo_output_files_count -> usize: |i| i.output_files.len();
        rocksdb_compactionjobinfo_input_file_infos_count -> usize: |i| i.input_file_infos.len();
        rocksdb_compactionjobinfo_output_file_infos_count -> usize: |i| i.output_file_infos.len();
        rocksdb_compactionjobinfo_table_properties_count -> usize: |i| i.table_properties.len();
        rocksdb_compactionjobinfo_aborted -> u8: |i| i.is_aborted().into();
        rocksdb_compactionjobinfo_num_l0_files -> i32: |i| i.level0_files as i32;
        rocksdb_compactionjobinfo_compression -> u32: |i| i.compression.into();
        rocksdb_compactionjobinfo_blob_compression_type -> u32: |i| i.blob_compression.into();
        rocksdb_compactionjobinfo_blob_file_addition_infos_count -> usize: |i| i.blob_files.len();
        rocksdb_compactionjobinfo_blob_file_garbage_infos_count -> usize: |i| i.blob_garbage.len();
    }
    rocksdb_compaction_file_info_t {
        rocksdb_compaction_file_info_level -> i32: |i| i.level as i32;
        rocksdb_compaction_file_info_file_number -> u64: |i| i.number;
        rocksdb_compaction_file_info_oldest_blob_file_number -> u64: |i| i.oldest_blob_file;
    }
    rocksdb_subcompactionjobinfo_t {
        rocksdb_subcompactionjobinfo_cf_id -> u32: |i| i.cf_id;
        rocksdb_subcompactionjobinfo_thread_id -> u64: |i| i.thread_id;
        rocksdb_subcompactionjobinfo_job_id -> i32: |i| i.job as i32;
        rocksdb_subcompactionjobinfo_subcompaction_job_id -> i32: |i| i.subcompaction as i32;
        rocksdb_subcompactionjobinfo_base_input_level -> i32: |i| i.base_input_level as i32;
        rocksdb_subcompactionjobinfo_output_level -> i32: |i| i.output_level as i32;
        rocksdb_subcompactionjobinfo_compaction_reason -> u32: |i| i.reason.1;
        rocksdb_subcompactionjobinfo_compression -> u32: |i| i.compression.into();
        rocksdb_subcompactionjobinfo_blob_compression_type -> u32: |i| i.blob_compression.into();
    }
    rocksdb_externalfileingestioninfo_t {
        rocksdb_externalfileingestioninfo_global_seqno -> u64: |i| i.global_seqno;
    }
    rocksdb_memtableinfo_t {
        rocksdb_memtableinfo_first_seqno -> u64: |i| i.first_seqno;
        rocksdb_memtableinfo_earliest_seqno -> u64: |i| i.earliest_seqno;
        rocksdb_memtableinfo_num_entries -> u64: |i| i.entries;
        rocksdb_memtableinfo_num_deletes -> u64: |i| i.deletions;
    }
}

c_api! {
    /// Properties of the new table; empty ones before the flush.
    fn rocksdb_flushjobinfo_table_properties(
        info: *const rocksdb_flushjobinfo_t,
    ) -> *const rocksdb_table_properties_t {
        &raw const (*info).properties
    }

    /// Returns what the compaction did, lent.
    fn rocksdb_compactionjobinfo_stats(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> *const rocksdb_compaction_job_stats_t {
        &raw const (*info).stats
    }

    /// Returns what the part did, lent.
    fn rocksdb_subcompactionjobinfo_stats(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> *const rocksdb_compaction_job_stats_t {
        &raw const (*info).stats
    }

    /// Path of a table whose properties are known; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_table_properties_key_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        key_len: *mut usize,
    ) -> *const c_char {
        lend_if((&*info).properties.get(pos).map(|(path, _)| path.as_bytes()), key_len)
    }

    /// Properties of a table, lent; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_table_properties_value_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_table_properties_t {
        let found = (&*info).properties.get(pos);
        found.map_or(ptr::null(), |(_, properties)| ptr::from_ref(properties))
    }

    /// Properties of the table with this path, lent; NULL if they are not known.
    fn rocksdb_compactionjobinfo_table_properties_for_file(
        info: *const rocksdb_compactionjobinfo_t,
        file_name: *const c_char,
        file_name_len: usize,
    ) -> *const rocksdb_table_properties_t {
        let name = bytes(file_name, file_name_len);
        let found = (&*info).properties.iter().find(|(path, _)| path.as_bytes() == name);
        found.map_or(ptr::null(), |(_, properties)| ptr::from_ref(properties))
    }

    /// The latest timestamp in the memtable; empty unless tables leave timestamps out.
    fn rocksdb_memtableinfo_newest_udt(
        info: *const rocksdb_memtableinfo_t,
        size: *mut usize,
    ) -> *const c_char {
        lend_if(Some(&(&*info).info.newest_timestamp), size)
    }

    /// Properties of the file.
    fn rocksdb_externalfileingestioninfo_table_properties(
        info: *const rocksdb_externalfileingestioninfo_t,
    ) -> *const rocksdb_table_properties_t {
        &raw const (*info).properties
    }

    /// How it went.
    fn rocksdb_compactionjobinfo_status(
        info: *const rocksdb_compactionjobinfo_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*info).info.result.clone());
    }

    /// How it went.
    fn rocksdb_subcompactionjobinfo_status(
        info: *const rocksdb_subcompactionjobinfo_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || (*info).info.result.clone());
    }

    /// Path of a table that is read; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_input_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: *mut usize,
    ) -> *const c_char {
        lend_if((&*info).inputs.get(pos).map(|path| path.as_bytes()), size)
    }

    /// Path of a table that was written; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_output_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: *mut usize,
    ) -> *const c_char {
        lend_if((&*info).outputs.get(pos).map(|path| path.as_bytes()), size)
    }

    /// A table that is read, lent; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_input_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t {
        (&*info).input_infos.get(pos).map_or(ptr::null(), ptr::from_ref)
    }

    /// A table that was written, lent; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_output_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t {
        (&*info).output_infos.get(pos).map_or(ptr::null(), ptr::from_ref)
    }

    /// A blob file that was written, lent; NULL if there are not so many.
    fn rocksdb_flushjobinfo_blob_file_addition_info_at(
        info: *const rocksdb_flushjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_addition_info_t {
        (&*info).blobs.get(pos).map_or(ptr::null(), ptr::from_ref)
    }

    /// A blob file that was written, lent; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_blob_file_addition_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_addition_info_t {
        (&*info).blobs.get(pos).map_or(ptr::null(), ptr::from_ref)
    }

    /// Garbage in an older blob file, lent; NULL if there are not so many.
    fn rocksdb_compactionjobinfo_blob_file_garbage_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_garbage_info_t {
        (&*info).garbage.get(pos).map_or(ptr::null(), ptr::from_ref)
    }

    /// How writers are treated from now on, lent; an `int` at the pointer.
    fn rocksdb_writestallinfo_cur(
        info: *const rocksdb_writestallinfo_t,
    ) -> *const rocksdb_writestallcondition_t {
        &raw const (*info).current
    }

    /// How writers were treated until now, lent; an `int` at the pointer.
    fn rocksdb_writestallinfo_prev(
        info: *const rocksdb_writestallinfo_t,
    ) -> *const rocksdb_writestallcondition_t {
        &raw const (*info).previous
    }

    /// The error.
    fn rocksdb_status_ptr_get_error(status: *mut rocksdb_status_ptr_t, errptr: *mut *mut c_char) {
        report(errptr, (), || -> Result<()> { (*status).0.clone().map_or(Ok(()), Err) });
    }

    /// Takes the error away: writes go on.
    fn rocksdb_reset_status(status_ptr: *mut rocksdb_status_ptr_t) {
        (*status_ptr).0 = None;
    }
}

c_api! {
    /// A place for what a compaction of named tables does.
    fn rocksdb_compactionjobinfo_create() -> *mut rocksdb_compactionjobinfo_t {
        boxed(rocksdb_compactionjobinfo_t::new(&CompactionInfo::default()))
    }
}

destroyers! {
    rocksdb_compactionjobinfo_destroy(rocksdb_compactionjobinfo_t);
}
