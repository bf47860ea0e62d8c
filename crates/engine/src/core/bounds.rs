//! What a version edit needs to know of a table, gathered while it is written.

use crate::version::NewFile;
use spanlith_base::keys;

/// Key and sequence bounds of a table while it is written.
#[derive(Default)]
pub(crate) struct FileBounds {
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub smallest_seqno: u64,
    pub largest_seqno: u64,
    any: bool,
}

impl FileBounds {
    /// Takes in the next key, in order.
    #[inline]
    pub(crate) fn add(&mut self, internal_key: &[u8]) {
        let seqno = keys::tag_sequence(keys::tag(internal_key));
        if self.any {
            self.smallest_seqno = self.smallest_seqno.min(seqno);
            self.largest_seqno = self.largest_seqno.max(seqno);
        } else {
            self.any = true;
            self.smallest = internal_key.to_vec();
            self.smallest_seqno = seqno;
            self.largest_seqno = seqno;
        }
        self.largest.clear();
        self.largest.extend_from_slice(internal_key);
    }

    /// The entry for a version edit.
    pub(crate) fn into_new_file(
        self,
        level: u32,
        number: u64,
        summary: &spanlith_table::TableSummary,
        ancester_time: u64,
        creation_time: u64,
    ) -> NewFile {
        NewFile {
            level,
            number,
            size: summary.file_size,
            smallest: self.smallest,
            largest: self.largest,
            smallest_seqno: self.smallest_seqno,
            largest_seqno: self.largest_seqno,
            oldest_ancester_time: ancester_time,
            file_creation_time: creation_time,
            unique_id: summary.unique_id,
            tail_size: summary.tail_size,
            ..NewFile::default()
        }
    }
}
