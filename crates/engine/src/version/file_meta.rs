//! A table file as the MANIFEST describes it, and its life on disk.
//!
//! A [`FileMeta`] is shared by all versions that hold the file. Its description never changes;
//! beside it lie three things that are learned or decided later: what the table's properties say,
//! the open reader, and whether a compaction works on it.
//!
//! **Deletion.** Whoever removes a file from the newest version for good calls
//! [`FileMeta::mark_obsolete`] once the edit is durable (V3). When the last holder (version, job,
//! iterator) lets go, the drop reports the number to the [`PurgeSink`], never earlier (V5). Two
//! descriptions of one file (a moved file whose description changed) share the flag, and only the
//! last of them reports. They also share whether a compaction works on the file: the one that began
//! it holds the older description when it ends.
//!
//! Threads: shared freely; the atomics order nothing but themselves, except the obsolete flag, whose
//! final read follows all drops because it sits in an `Arc`.

use super::blob_refs::{BLOB_REFS, BlobRefs};
use super::edit::NewFile;
use spanlith_base::range_del::{FragmentedTombstones, TruncatedTombstones};
use spanlith_table::{Charge, TableReader};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// In place of a weight that is not known yet.
const UNWEIGHED: u64 = u64::MAX;

/// Receives the numbers of files that nobody holds any more and that the MANIFEST does not list.
pub trait PurgeSink: Send + Sync {
    /// The file may be deleted. Called from the drop of a [`FileMeta`], on any thread, possibly
    /// under locks: must only take note.
    fn file_obsolete(&self, number: u64, path_id: u32, size: u64);
    /// The same for a blob file. Called from the drop of its last description.
    fn blob_file_obsolete(&self, number: u64);
}

/// Describes what the properties of a table say; known once the table has been opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Entries, tombstones included.
    pub num_entries: u64,
    /// Tombstones, range tombstones included.
    pub num_deletions: u64,
    /// Range tombstones.
    pub num_range_deletions: u64,
    /// Bytes of all keys.
    pub raw_key_size: u64,
    /// Bytes of all values.
    pub raw_value_size: u64,
}

/// One table file of one column family.
pub struct FileMeta {
    /// File number.
    pub number: u64,
    /// Level it was in when it was described.
    pub level: u32,
    /// Level it came to last; a hint for how to open it. Relaxed: it stands for itself.
    pub last_level: AtomicU32,
    /// Index into the family's list of paths.
    pub path_id: u32,
    /// Size of the file in bytes.
    pub size: u64,
    /// Smallest internal key.
    pub smallest: Vec<u8>,
    /// Largest internal key; for a range tombstone an exclusive sentinel.
    pub largest: Vec<u8>,
    /// Smallest sequence number of all entries.
    pub smallest_seqno: u64,
    /// Largest sequence number of all entries.
    pub largest_seqno: u64,
    /// Unix seconds of the oldest data, 0 for unknown.
    pub oldest_ancester_time: u64,
    /// Unix seconds when the file was made, 0 for unknown.
    pub file_creation_time: u64,
    /// Age rank among the files of level 0; 0 only before it is inferred.
    pub epoch_number: u64,
    /// Unique id of the table, zero for unknown.
    pub unique_id: [u64; 2],
    /// Bytes after the data blocks, 0 for unknown.
    pub tail_size: u64,
    /// Temperature byte, 0 for unknown.
    pub temperature: u8,
    /// Whole-file checksum; empty for none.
    pub file_checksum: Vec<u8>,
    /// Name of the function that made the checksum.
    pub file_checksum_func_name: Vec<u8>,
    /// A table property collector asked for compaction.
    pub marked_for_compaction: bool,
    /// A caller asked for compaction since.
    pub suggested: AtomicBool,
    /// The open table said that RocksDB misses keys in it
    /// ([`TableReader::has_misleading_hash_index`]), so that it is to be rewritten where it is.
    pub misleads: AtomicBool,
    /// Reads that found no value in the table, by sample. Relaxed: it stands for itself.
    wasted_reads: AtomicU64,
    /// Oldest blob file the table refers to, 0 for none.
    pub oldest_blob_file_number: u64,
    /// Bytes below that the range tombstones of the file cover, by estimate.
    pub compensated_range_deletion_size: u64,
    /// Says whether keys in the file carry their user-defined timestamps.
    pub user_defined_timestamps_persisted: bool,
    /// Smallest user-defined timestamp; empty for none.
    pub min_timestamp: Vec<u8>,
    /// Largest user-defined timestamp; empty for none.
    pub max_timestamp: Vec<u8>,
    /// Says what a fast open needs to know of the table; empty for none.
    pub open_metadata: Vec<u8>,
    /// Says what it refers to in blob files, if it says so. Filled when the table is opened.
    blob_refs: OnceLock<Option<Arc<BlobRefs>>>,
    /// Filled when the table is opened.
    pub stats: OnceLock<FileStats>,
    /// Bytes that its surplus tombstones count in scores, with the average size of values when they
    /// were weighed: when the file came to its level. Later versions go on with that figure, as RocksDB
    /// does. `u64::MAX` until then.
    tombstone_weight: AtomicU64,
    /// A running plan holds the file. Set and cleared under the state mutex; pickers read it. Shared by
    /// all descriptions of the file.
    pub being_compacted: Arc<AtomicBool>,
    /// The open table. Filled at most once.
    pub reader: OnceLock<Arc<TableReader>>,
    /// Range tombstones of the table; filled before `reader` and `stats` if it has any.
    pub tombstones: OnceLock<Arc<FragmentedTombstones>>,
    /// Those, cut to the bounds of the file; made when an iterator first asks.
    truncated: OnceLock<TruncatedTombstones>,
    /// Its id in the family's block cache if it has no identity of its own; given when it is first opened.
    pub cache_id: OnceLock<u64>,
    /// Its memory in the family's block cache, if that is charged.
    pub charge: OnceLock<Charge>,
    /// The newest version does not hold the file any more. Shared by all descriptions of the file.
    pub obsolete: Arc<AtomicBool>,
    /// Where to report the number when the last holder of an obsolete file lets go.
    sink: Option<Weak<dyn PurgeSink>>,
}

impl FileMeta {
    /// The file an edit adds.
    pub fn from_new_file(f: &NewFile, sink: Option<Weak<dyn PurgeSink>>) -> Self {
        let f = f.clone();
        Self {
            number: f.number,
            level: f.level,
            last_level: AtomicU32::new(f.level),
            path_id: f.path_id,
            size: f.size,
            smallest: f.smallest,
            largest: f.largest,
            smallest_seqno: f.smallest_seqno,
            largest_seqno: f.largest_seqno,
            oldest_ancester_time: f.oldest_ancester_time,
            file_creation_time: f.file_creation_time,
            epoch_number: f.epoch_number,
            unique_id: f.unique_id,
            tail_size: f.tail_size,
            temperature: f.temperature,
            file_checksum: f.file_checksum,
            file_checksum_func_name: f.file_checksum_func_name,
            marked_for_compaction: f.marked_for_compaction,
            suggested: AtomicBool::new(false),
            misleads: AtomicBool::new(false),
            wasted_reads: AtomicU64::new(0),
            oldest_blob_file_number: f.oldest_blob_file_number,
            compensated_range_deletion_size: f.compensated_range_deletion_size,
            user_defined_timestamps_persisted: f.user_defined_timestamps_persisted,
            min_timestamp: f.min_timestamp,
            max_timestamp: f.max_timestamp,
            open_metadata: f.open_metadata,
            blob_refs: OnceLock::new(),
            stats: OnceLock::new(),
            tombstone_weight: AtomicU64::new(UNWEIGHED),
            being_compacted: Arc::new(AtomicBool::new(false)),
            reader: OnceLock::new(),
            tombstones: OnceLock::new(),
            truncated: OnceLock::new(),
            cache_id: OnceLock::new(),
            charge: OnceLock::new(),
            obsolete: Arc::new(AtomicBool::new(false)),
            sink,
        }
    }

    /// Bytes of memory it occupies, without its open table.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.smallest.len()
            + self.largest.len()
            + self.file_checksum.len()
            + self.file_checksum_func_name.len()
    }

    /// The entry that adds this file to `level`.
    pub fn to_new_file(&self, level: u32) -> NewFile {
        NewFile {
            level,
            number: self.number,
            path_id: self.path_id,
            size: self.size,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            smallest_seqno: self.smallest_seqno,
            largest_seqno: self.largest_seqno,
            marked_for_compaction: self.is_marked(),
            oldest_blob_file_number: self.oldest_blob_file_number,
            oldest_ancester_time: self.oldest_ancester_time,
            file_creation_time: self.file_creation_time,
            epoch_number: self.epoch_number,
            file_checksum: self.file_checksum.clone(),
            file_checksum_func_name: self.file_checksum_func_name.clone(),
            temperature: self.temperature,
            unique_id: self.unique_id,
            compensated_range_deletion_size: self.compensated_range_deletion_size,
            tail_size: self.tail_size,
            user_defined_timestamps_persisted: self.user_defined_timestamps_persisted,
            min_timestamp: self.min_timestamp.clone(),
            max_timestamp: self.max_timestamp.clone(),
            open_metadata: self.open_metadata.clone(),
        }
    }

    /// Returns whether `f` describes this file, in whatever level: then it can stay as it is. A caller may ask
    /// for compaction at any time, also between the making of a move and its installation.
    pub fn is_described_by(&self, f: &NewFile) -> bool {
        let mut own = self.to_new_file(f.level);
        if f.marked_for_compaction || !self.marked_for_compaction {
            own.marked_for_compaction = f.marked_for_compaction;
        }
        own == *f
    }

    /// Another description of the same file: takes over what was learned, and the file is reported
    /// to the purge sink only when both are gone.
    pub fn redescribe(&self, f: &NewFile) -> Self {
        debug_assert_eq!(self.number, f.number, "V4: a description keeps its file");
        let mut new = Self::from_new_file(f, self.sink.clone());
        new.misleads = AtomicBool::new(self.is_misleading());
        // In this order: who finds reader or statistics finds the tombstones too, also if another thread
        // opens the table meanwhile.
        if let Some(stats) = self.stats.get() {
            new.stats = OnceLock::from(*stats);
        }
        if let Some(refs) = self.blob_refs.get() {
            new.blob_refs = OnceLock::from(refs.clone());
        }
        if let Some(reader) = self.reader.get() {
            new.reader = OnceLock::from(Arc::clone(reader));
        }
        if let Some(list) = self.tombstones.get() {
            new.tombstones = OnceLock::from(Arc::clone(list));
        }
        if let Some(id) = self.cache_id.get() {
            new.cache_id = OnceLock::from(*id);
        }
        new.being_compacted = Arc::clone(&self.being_compacted);
        new.obsolete = Arc::clone(&self.obsolete);
        new
    }

    /// Returns what the open table refers to in blob files; `None` if it does not say so, or was not opened.
    pub fn blob_refs(&self) -> Option<&BlobRefs> {
        self.blob_refs.get().and_then(|refs| refs.as_deref())
    }

    /// Takes the open table from another description of the same file.
    pub fn take_over(&self, other: &Self) {
        debug_assert_eq!(self.number, other.number, "V4: a number is given once");
        if self.size != other.size || self.reader.get().is_some() {
            return;
        }
        // In this order, and as in `redescribe`: who finds the reader finds the tombstones.
        if let Some(list) = other.tombstones.get() {
            let _ = self.tombstones.set(Arc::clone(list));
        }
        if let Some(stats) = other.stats.get() {
            let _ = self.stats.set(*stats);
        }
        if let Some(id) = other.cache_id.get() {
            let _ = self.cache_id.set(*id);
        }
        if let Some(refs) = other.blob_refs.get() {
            let _ = self.blob_refs.set(refs.clone());
        }
        if let Some(reader) = other.reader.get() {
            let _ = self.reader.set(Arc::clone(reader));
        }
    }

    /// Takes the statistics from the open table's properties.
    pub fn note_stats(&self, reader: &TableReader) {
        let p = reader.properties();
        // Always the same values, whoever comes first.
        let _ = self.stats.set(FileStats {
            num_entries: p.num_entries,
            num_deletions: p.num_deletions,
            num_range_deletions: p.num_range_deletions,
            raw_key_size: p.raw_key_size,
            raw_value_size: p.raw_value_size,
        });
        let refs = p.user_collected.get(BLOB_REFS);
        // Damage counts as absence: the oldest file is known from the MANIFEST.
        let refs = refs.and_then(|bytes| BlobRefs::decode(bytes).ok());
        let _ = self.blob_refs.set(refs.map(Arc::new));
    }

    /// Bytes that surplus tombstones count in scores; `weigh` is asked if that is not decided yet.
    pub fn tombstone_weight(&self, weigh: impl FnOnce() -> u64) -> u64 {
        // Relaxed: a figure of its own. Of two that weigh at once either may win.
        let known = self.tombstone_weight.load(Ordering::Relaxed);
        if known != UNWEIGHED {
            return known;
        }
        let weight = weigh().min(UNWEIGHED - 1);
        self.tombstone_weight.store(weight, Ordering::Relaxed);
        weight
    }

    /// Has the surplus tombstones weighed again: the file comes to another level.
    pub fn forget_weight(&self) {
        self.tombstone_weight.store(UNWEIGHED, Ordering::Relaxed);
    }

    /// The range tombstones of the open table, cut to the bounds of the file; `None` without any.
    /// Requires: the table was opened.
    pub fn truncated_tombstones(&self) -> Option<TruncatedTombstones> {
        let list = self.tombstones.get()?;
        let cut = || TruncatedTombstones::of_file(list.clone(), &self.smallest, &self.largest);
        Some(self.truncated.get_or_init(cut).clone())
    }

    /// Returns whether the writer of the file or a caller asked for compaction.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.marked_for_compaction || self.suggested.load(Ordering::Relaxed)
    }

    /// Returns whether RocksDB misses keys in the table, as far as it has been opened.
    #[inline]
    pub fn is_misleading(&self) -> bool {
        // Relaxed: a hint on its own.
        self.misleads.load(Ordering::Relaxed)
    }

    /// About how many reads found no value in the table; only counted where the family's options ask for it.
    pub fn wasted_reads(&self) -> u64 {
        self.wasted_reads.load(Ordering::Relaxed)
    }

    /// So many more reads found no value in the table.
    pub fn add_wasted_reads(&self, count: u64) {
        self.wasted_reads.fetch_add(count, Ordering::Relaxed);
    }

    /// Asks for compaction.
    pub fn suggest(&self) {
        self.suggested.store(true, Ordering::Relaxed);
    }

    /// Unix seconds of the oldest data, from the table if the MANIFEST does not say; 0 for unknown.
    pub fn ancester_time(&self) -> u64 {
        match (self.oldest_ancester_time, self.reader.get()) {
            (0, Some(reader)) => reader.properties().creation_time,
            (known, _) => known,
        }
    }

    /// Unix seconds when the file was made, as far as anybody knows; 0 for unknown.
    pub fn made_at(&self) -> u64 {
        let known = match (self.file_creation_time, self.reader.get()) {
            (0, Some(reader)) => reader.properties().file_creation_time,
            (known, _) => known,
        };
        if known == 0 {
            self.ancester_time()
        } else {
            known
        }
    }

    /// Smallest user key.
    #[inline]
    pub fn smallest_user_key(&self) -> &[u8] {
        spanlith_base::keys::user_key(&self.smallest)
    }

    /// Largest user key; exclusive if [`Self::largest_is_sentinel`].
    #[inline]
    pub fn largest_user_key(&self) -> &[u8] {
        spanlith_base::keys::user_key(&self.largest)
    }

    /// Returns whether the largest key is the exclusive end of a range tombstone.
    #[inline]
    pub fn largest_is_sentinel(&self) -> bool {
        is_range_sentinel(&self.largest)
    }

    /// Returns whether a running plan holds the file.
    #[inline]
    pub fn is_being_compacted(&self) -> bool {
        self.being_compacted.load(Ordering::Relaxed)
    }

    /// Sets whether a running plan holds the file.
    pub fn set_being_compacted(&self, held: bool) {
        self.being_compacted.store(held, Ordering::Relaxed);
    }

    /// The newest version does not hold the file any more: the drop of the last holder reports it.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

/// Returns whether an internal key is the exclusive end that a range tombstone gives a file.
#[inline]
pub fn is_range_sentinel(internal: &[u8]) -> bool {
    use spanlith_base::keys::{MAX_SEQUENCE, ValueType, pack_tag, tag};
    tag(internal) == pack_tag(MAX_SEQUENCE, ValueType::RangeDeletion as u8)
}

impl Drop for FileMeta {
    fn drop(&mut self) {
        let shared = std::mem::take(&mut self.obsolete);
        // Of all descriptions dropped at the same time exactly one gets the flag by value.
        let Some(flag) = Arc::into_inner(shared) else {
            return;
        };
        if flag.into_inner()
            && let Some(sink) = self.sink.as_ref().and_then(Weak::upgrade)
        {
            sink.file_obsolete(self.number, self.path_id, self.size);
        }
    }
}

impl fmt::Debug for FileMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileMeta")
            .field("number", &self.number)
            .field("size", &self.size)
            .field("smallest", &debug_internal_key(&self.smallest))
            .field("largest", &debug_internal_key(&self.largest))
            .field("seqnos", &(self.smallest_seqno, self.largest_seqno))
            .field("epoch", &self.epoch_number)
            .finish_non_exhaustive()
    }
}

/// An internal key as RocksDB prints it: upper-case hexadecimal user key, sequence number, type.
pub fn debug_internal_key(internal: &[u8]) -> String {
    use std::fmt::Write;
    let Some((user, tag)) = spanlith_base::keys::split_internal(internal) else {
        return "(bad)".to_string();
    };
    let mut text = String::from("'");
    for byte in user {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    let _ = write!(text, "' seq:{}, type:{}", tag >> 8, tag & 0xff);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_base::keys::{internal_key, pack_tag};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Sink(Mutex<Vec<(u64, u32)>>);

    impl PurgeSink for Sink {
        fn file_obsolete(&self, number: u64, path_id: u32, _size: u64) {
            self.0.lock().unwrap().push((number, path_id));
        }

        fn blob_file_obsolete(&self, number: u64) {
            panic!("a blob file: {number}");
        }
    }

    fn new_file(number: u64) -> NewFile {
        NewFile {
            number,
            path_id: 2,
            size: 77,
            smallest: internal_key(b"a", pack_tag(9, 1)),
            largest: internal_key(b"q", pack_tag(4, 1)),
            smallest_seqno: 4,
            largest_seqno: 9,
            epoch_number: 3,
            unique_id: [1, 2],
            tail_size: 11,
            temperature: 8,
            marked_for_compaction: true,
            ..NewFile::default()
        }
    }

    fn meta(number: u64, sink: &Arc<Sink>) -> FileMeta {
        let sink: Arc<dyn PurgeSink> = sink.clone();
        FileMeta::from_new_file(&new_file(number), Some(Arc::downgrade(&sink)))
    }

    #[test]
    fn a_description_survives_the_way_to_an_edit_and_back() {
        let entry = NewFile {
            level: 4,
            ..new_file(12)
        };
        assert_eq!(FileMeta::from_new_file(&entry, None).to_new_file(4), entry);
    }

    #[test]
    fn only_the_last_holder_of_an_obsolete_file_reports_it() {
        let sink = Arc::new(Sink::default());
        let kept = Arc::new(meta(5, &sink));
        drop(kept);
        assert_eq!(*sink.0.lock().unwrap(), []);

        let file = Arc::new(meta(6, &sink));
        let reader = Arc::clone(&file);
        file.mark_obsolete();
        drop(file);
        assert_eq!(*sink.0.lock().unwrap(), []);
        drop(reader);
        assert_eq!(*sink.0.lock().unwrap(), [(6, 2)]);
    }

    #[test]
    fn two_descriptions_of_a_file_report_it_once_and_together() {
        let sink = Arc::new(Sink::default());
        let old = meta(8, &sink);
        old.set_being_compacted(true);
        let new = old.redescribe(&NewFile {
            marked_for_compaction: false,
            ..new_file(8)
        });
        assert!(new.is_being_compacted());
        old.set_being_compacted(false);
        assert!(!new.is_being_compacted());
        new.mark_obsolete();
        drop(new);
        assert_eq!(*sink.0.lock().unwrap(), []);
        drop(old);
        assert_eq!(*sink.0.lock().unwrap(), [(8, 2)]);
    }

    #[test]
    fn a_sink_that_is_gone_is_not_called() {
        let sink = Arc::new(Sink::default());
        let file = meta(5, &sink);
        file.mark_obsolete();
        drop(sink);
        drop(file);
    }

    #[test]
    fn keys_print_as_rocksdb_prints_them() {
        let key = internal_key(b"\xabz", pack_tag(300, 15));
        assert_eq!(debug_internal_key(&key), "'AB7A' seq:300, type:15");
        assert_eq!(debug_internal_key(b"short"), "(bad)");
    }
}
