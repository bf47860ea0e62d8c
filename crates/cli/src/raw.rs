//! All entries of a family as tables and logs hold them, in the order of internal keys.
//!
//! Nothing is opened by the engine, so no merge operator is needed and what is covered or deleted is there too.
//! Tables of a level below the first are opened one after the other; logs are held in memory, sorted.

use crate::inventory::{Family, Inventory};
use crate::places::Places;
use crate::tables;
use spanlith::version::{NewFile, filenames};
use spanlith::{Comparator, Error, Result};
use spanlith_base::ValueType;
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use spanlith_env::Env;
use spanlith_table::TableIter;
use spanlith_wal::{BatchIter, BatchOp, LogReader, ReadEvent};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// An entry. Of a range tombstone the key is the begin and the value the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEntry {
    pub user: Vec<u8>,
    pub sequence: u64,
    pub kind: u8,
    pub value: Vec<u8>,
}

/// A sorted part of the entries.
enum Source<'a> {
    /// Tables that do not overlap.
    Tables {
        left: VecDeque<&'a NewFile>,
        now: Option<Box<TableIter>>,
    },
    Memory(std::vec::IntoIter<RawEntry>),
}

/// The entries of one family.
pub struct RawScan<'a> {
    i: &'a Inventory,
    places: &'a Places,
    family: &'a Family,
    order: Comparator,
    sources: Vec<(Option<RawEntry>, Source<'a>)>,
    /// Says whether the first entries of the sources have been read.
    began: bool,
    /// Says what could not be read after the entry that was returned last.
    failed: Option<Error>,
}

/// The order of a family's keys.
pub fn order_of(i: &Inventory, family: &str) -> Comparator {
    let name = i.family(family).map_or("", |f| f.comparator.as_str());
    crate::db::verify::comparator_or_stand_in(name)
}

impl<'a> RawScan<'a> {
    /// Of the family called `name`, by `order`; `None` if there is no such family.
    ///
    /// # Errors
    /// Of the logs.
    pub fn new(
        i: &'a Inventory,
        places: &'a Places,
        name: &str,
        order: Comparator,
    ) -> Result<Option<Self>> {
        let found = i.families.iter().find(|(_, f)| f.name == name);
        let Some((&id, family)) = found else {
            return Ok(None);
        };
        let mut sources = Vec::new();
        let mut levels: Vec<u32> = family.files.values().map(|f| f.level).collect();
        levels.sort_unstable();
        levels.dedup();
        for level in levels {
            let mut files: Vec<&NewFile> = family.files.values().collect();
            files.retain(|f| f.level == level);
            files.sort_by(|a, b| {
                order.compare(tables::user(&a.smallest), tables::user(&b.smallest))
            });
            let step = if level == 0 { 1 } else { files.len() };
            for part in files.chunks(step) {
                let left = part.iter().copied().collect();
                sources.push((None, Source::Tables { left, now: None }));
            }
        }
        let mut scan = Self {
            i,
            places,
            family,
            order,
            sources,
            began: false,
            failed: None,
        };
        let logged = scan.logged(id)?;
        scan.push_sorted(logged);
        Ok(Some(scan))
    }

    /// Adds the range tombstones of the tables, which are no entries of theirs.
    ///
    /// # Errors
    /// Of the tables.
    pub fn with_table_ranges(mut self) -> Result<Self> {
        let mut ranges = Vec::new();
        for f in self.family.files.values() {
            let reader = tables::open(self.i, self.places, self.family, f)?;
            let kind = ValueType::RangeDeletion as u8;
            ranges.extend(
                reader
                    .range_tombstones()?
                    .into_iter()
                    .map(|(user, value, sequence)| RawEntry {
                        user,
                        sequence,
                        kind,
                        value,
                    }),
            );
        }
        self.push_sorted(ranges);
        Ok(self)
    }

    fn push_sorted(&mut self, mut entries: Vec<RawEntry>) {
        entries.sort_by(|a, b| precedes(&self.order, a, b));
        self.sources
            .push((None, Source::Memory(entries.into_iter())));
    }

    /// The next entry.
    ///
    /// # Errors
    /// Of the table that has it; all before it have been returned.
    pub fn next(&mut self) -> Result<Option<RawEntry>> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        if !self.began {
            for at in 0..self.sources.len() {
                self.advance(at)?;
            }
            self.began = true;
        }
        let mut first: Option<usize> = None;
        for (at, (head, _)) in self.sources.iter().enumerate() {
            let best = first.and_then(|f| self.sources[f].0.as_ref());
            if let Some(head) = head
                && best.is_none_or(|b| precedes(&self.order, head, b) == Ordering::Less)
            {
                first = Some(at);
            }
        }
        let Some(at) = first else { return Ok(None) };
        let out = self.sources[at].0.take();
        self.failed = self.advance(at).err();
        Ok(out)
    }

    /// Reads the next entry of a source.
    fn advance(&mut self, at: usize) -> Result<()> {
        let (head, source) = &mut self.sources[at];
        match source {
            Source::Memory(entries) => *head = entries.next(),
            Source::Tables { left, now } => loop {
                if let Some(entries) = now {
                    if entries.valid() {
                        if let Some((user, tag)) = split_internal(entries.key()) {
                            *head = Some(RawEntry {
                                user: user.to_vec(),
                                sequence: tag_sequence(tag),
                                kind: tag_type(tag),
                                value: entries.value().to_vec(),
                            });
                        }
                        entries.next();
                        if head.is_some() {
                            return Ok(());
                        }
                        continue;
                    }
                    let status = entries.status();
                    *now = None;
                    status?;
                }
                let Some(f) = left.pop_front() else {
                    return Ok(());
                };
                let reader = tables::open(self.i, self.places, self.family, f)?;
                let mut entries = reader.iter(tables::walk());
                entries.seek_to_first();
                *now = Some(Box::new(entries));
            },
        }
        Ok(())
    }

    /// The entries that the live logs have.
    fn logged(&self, id: u32) -> Result<Vec<RawEntry>> {
        let mut out = Vec::new();
        let live = self.i.live_logs();
        for (number, _) in live.filter(|(n, _)| *n >= self.family.log_number) {
            let path = self.i.wal_dir.join(filenames::log_file_name(number));
            let mut reader = LogReader::new(Env::system().fs.open_sequential(&path)?, number);
            loop {
                match reader.next_event()? {
                    ReadEvent::Record { .. } => {}
                    ReadEvent::Eof | ReadEvent::Corruption { .. } => break,
                    _ => continue,
                }
                let batch = BatchIter::new(reader.record())?;
                let mut next = batch.sequence();
                for op in batch {
                    let op = op?;
                    let sequence = next;
                    next += u64::from(op.is_counted());
                    if op.cf() != Some(id) {
                        continue;
                    }
                    let entry = match (point(&op), &op) {
                        (Some(entry), _) => Some(entry),
                        (None, BatchOp::DeleteRange { begin, end, .. }) => {
                            Some((ValueType::RangeDeletion, *begin, *end))
                        }
                        _ => None,
                    };
                    out.extend(entry.map(|(kind, user, value)| RawEntry {
                        user: user.to_vec(),
                        sequence,
                        kind: kind as u8,
                        value: value.to_vec(),
                    }));
                }
            }
        }
        Ok(out)
    }
}

fn precedes(order: &Comparator, a: &RawEntry, b: &RawEntry) -> Ordering {
    order
        .compare(&a.user, &b.user)
        .then(b.sequence.cmp(&a.sequence))
        .then(b.kind.cmp(&a.kind))
}

/// Kind, key and value of an update of one key.
pub fn point<'b>(op: &BatchOp<'b>) -> Option<(ValueType, &'b [u8], &'b [u8])> {
    Some(match *op {
        BatchOp::Put { key, value, .. } => (ValueType::Value, key, value),
        BatchOp::Merge { key, value, .. } => (ValueType::Merge, key, value),
        BatchOp::Delete { key, .. } => (ValueType::Deletion, key, b""),
        BatchOp::SingleDelete { key, .. } => (ValueType::SingleDeletion, key, b""),
        BatchOp::BlobIndex { key, index, .. } => (ValueType::BlobIndex, key, index),
        BatchOp::WideColumnEntity { key, entity, .. } => (ValueType::WideColumnEntity, key, entity),
        BatchOp::ValuePreferredSeqno { key, value, .. } => {
            (ValueType::ValuePreferredSeqno, key, value)
        }
        _ => return None,
    })
}
