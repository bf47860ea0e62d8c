//! Replays write-ahead logs. What damage means is decided in [`super::decide`]; what RocksDB 11.8
//! recovers is recovered (`docs/formats/log.md`). On top of that, a log of ours names the log before
//! it, and witnesses say what had been synced: what is missing of that is reported
//! ([`super::evidence`]).
//!
//! Not left to the mode, because it would lose data that is whole: a batch that cannot be decoded, a
//! merge without an operator, an entry of a kind this build does not execute, and a read error all
//! fail the open.

use super::decide::{Decider, Verdict, WalInfo};
use super::evidence::{Dropped, Known, LogJudge, synced_bytes};
use super::numbering::Numbering;
use super::plain::{self, Spare, Written};
use super::prepared::{Policy, Prepared};
use super::runs::{Run, plan};
use super::speed::conclude;
use super::wal_filter::{Filtered, Filtering, WalFilter};
use crate::core::{
    Engine, Family, FamilySettings, ManifestExtent, Note, Opening, PreparedSection, Witness,
    repeated_mark,
};
use crate::filter::TableCreation;
use crate::flush::{TableRequest, build_table, history_low_after};
use crate::version::NewFile;
use crate::version::edit::BlobFileAddition;
use crate::write::{deletion_type, not_executed};
use spanlith_base::coding::{get_fixed32, get_fixed64};
use spanlith_base::{Error, MAX_SEQUENCE, Result, SequenceNumber, ValueType};
use spanlith_memtable::{Loader, MemTable};
use spanlith_wal::{
    BATCH_HEADER_SIZE, BatchIter, BatchOp, LogPlace, LogReader, ReadEvent, reconcile_timestamps,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Number of the log that a new database begins with.
const NEW_DATABASE_LOG: u64 = 4;

/// Describes what the logs held.
pub(super) struct Replayed {
    /// Says what each family got, by id.
    pub families: BTreeMap<u32, Recovering>,
    /// Highest sequence number seen, or what recovery began with.
    pub last_sequence: SequenceNumber,
    /// Sequence number of the first batch replayed.
    pub first_sequence: Option<SequenceNumber>,
    /// Says what was dropped.
    pub dropped: Vec<Dropped>,
    /// Where each log ends as replayed, and whether nothing of it was dropped.
    pub ends: BTreeMap<u64, (u64, bool)>,
    /// Logs that had lost bytes which had been synced, and were replayed all the same.
    pub proven_losses: u64,
    /// Prepared sections that nobody decided about, by name of the transaction.
    pub prepared: BTreeMap<Vec<u8>, PreparedSection>,
    /// Number of the log replayed last, and where the records replayed end.
    pub end: Option<(u64, u64)>,
    /// The log replayed last.
    pub last_log: Option<WalInfo>,
}

/// Describes what the logs held for one family.
pub(super) struct Recovering {
    pub family: Arc<Family>,
    pub settings: Arc<FamilySettings>,
    /// Older logs hold nothing for it.
    pub(super) log_number: u64,
    /// Says whether the MANIFEST names tables of it.
    has_tables: bool,
    /// Inserts into the memtable.
    pub(super) loader: Loader,
    /// Tables written because memtables filled up, oldest first.
    pub tables: Vec<NewFile>,
    /// Blob files that these refer to.
    pub blobs: Vec<BlobFileAddition>,
    /// Memtables with what was not written, oldest first.
    pub mems: Vec<Arc<MemTable>>,
    /// `full_history_ts_low` that the tables written ask for.
    pub history_low: Option<Vec<u8>>,
    /// Number of the job that writes the tables.
    job: u64,
}

pub(super) struct Replay<'a> {
    engine: &'a Engine,
    /// Says what is known of the logs.
    known: &'a Known,
    /// Write tables when memtables fill up (else keep them all).
    may_flush: bool,
    out: Replayed,
    decider: Decider,
    prepared: Prepared,
    policy: Policy,
    numbering: Numbering,
    /// Logs below this are retired: all they held is in tables.
    first_log: u64,
    /// Number of the log replayed last, and where the records replayed end.
    before: Option<(u64, u64)>,
    /// End of the last record replayed of the current log.
    end: u64,
    /// Sizes of user timestamps that the current log records, by family.
    recorded: BTreeMap<u32, usize>,
    /// Says whether any family has user timestamps.
    has_timestamps: bool,
    filter: Option<Arc<dyn WalFilter>>,
    filtering: Filtering,
    spare: Spare,
    /// Says what follows sections that were written before.
    repeated_mark: Vec<u8>,
}

/// An entry to insert: family, sequence number, kind, key, value.
type Entry<'e> = (u32, SequenceNumber, ValueType, &'e [u8], &'e [u8]);

/// The memory of a list for another one of the same shape.
pub(super) fn recycled<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    // Nothing is converted: collecting in place keeps the allocation.
    list.into_iter().map_while(|_| None).collect()
}

fn out_of_range() -> Error {
    Error::corruption("sequence number out of range")
}

/// Describes what a batch comes to.
enum Inserted<'e> {
    Entries(Vec<Entry<'e>>),
    /// It decodes but cannot be inserted.
    Refused(Error),
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        last_sequence: u64,
        may_flush: bool,
        write_prepared: bool,
        known: &'a Known,
        job: u64,
    ) -> Self {
        let state = engine.state.lock();
        let families = state.families.values().map(|f| Recovering {
            family: f.family.clone(),
            settings: f.settings.clone(),
            log_number: f.log_number,
            has_tables: f.version.file_iter().next().is_some(),
            loader: Loader::new(new_memtable(&f.family, &f.settings)),
            tables: Vec::new(),
            blobs: Vec::new(),
            mems: Vec::new(),
            history_low: None,
            job,
        });
        let families: BTreeMap<u32, Recovering> = families.map(|f| (f.family.id, f)).collect();
        let mut comparators = families.values().map(|f| &f.family.comparator);
        let o = &engine.c.options;
        Self {
            engine,
            known,
            may_flush,
            has_timestamps: comparators.any(|c| c.timestamp_size() > 0),
            out: Replayed {
                families,
                last_sequence,
                first_sequence: None,
                dropped: Vec::new(),
                ends: BTreeMap::new(),
                proven_losses: 0,
                prepared: BTreeMap::new(),
                end: None,
                last_log: None,
            },
            decider: Decider::new(
                o.wal_recovery_mode,
                o.paranoid_checks,
                o.track_and_verify_wals,
                state.logs.kept(),
            ),
            prepared: Prepared::default(),
            policy: match (write_prepared, o.allow_2pc) {
                (true, _) => Policy::WritePrepared,
                (false, true) => Policy::WriteCommitted,
                (false, false) => Policy::None,
            },
            numbering: Numbering::new(write_prepared),
            first_log: state.logs.kept(),
            before: None,
            end: 0,
            recorded: BTreeMap::new(),
            filter: None,
            filtering: Filtering::NONE,
            spare: Spare::default(),
            repeated_mark: repeated_mark(&engine.c.db_id),
        }
    }

    /// Asks `filter` about each batch.
    pub(super) fn filtered(mut self, filter: Option<Arc<dyn WalFilter>>) -> Self {
        self.filter = filter;
        self
    }

    /// Replays the logs `numbers`, ascending.
    pub(super) fn run(mut self, numbers: &[u64]) -> Result<Replayed> {
        self.check_missing(numbers)?;
        if let Some(filter) = self.filter.take().filter(|_| !numbers.is_empty()) {
            let families = self.out.families.iter();
            let families = families.map(|(&id, f)| (id, &*f.family.name, f.log_number));
            self.filtering = Filtering::begin(filter, families);
        }
        for &n in numbers {
            let path = self.engine.logs.path(n);
            self.end = 0;
            self.recorded.clear();
            self.decider.begin_log(n);
            let recycled = self.log(n, &path)?;
            // Behind the end of a recycled log lie bytes that are not of this log.
            let size = match recycled {
                true => self.end,
                false => self.engine.logs.store().size(n, LogPlace::Live)?,
            };
            self.decider.end_log(size);
            self.before = Some((n, self.end));
            let is_whole = self.out.dropped.last().is_none_or(|d| d.log != n);
            self.out.ends.insert(n, (self.end, is_whole));
        }
        let families = self.out.families.values();
        let facts = families.map(|f| (&*f.family.name, f.log_number, f.has_tables));
        self.decider.finish(facts).map_err(|e| self.at_stop(e))?;
        for f in self.out.families.values_mut() {
            is_new(f.loader.finish())?;
            let mem = f.loader.memtable();
            if !mem.is_empty() {
                f.mems.push(mem.clone());
            }
        }
        if self.policy == Policy::WritePrepared {
            self.check_undecided()?;
        }
        self.out.prepared = self.prepared.into_inner();
        self.out.end = self.before;
        self.out.last_log = self.decider.last_log();
        Ok(self.out)
    }

    /// Names the place where replay stopped.
    fn at_stop(&self, error: Error) -> Error {
        let mut dropped = self.out.dropped.iter().rev();
        match dropped.find(|d| Some(d.log) == self.decider.stopped_in()) {
            Some(d) => {
                let path = self.engine.logs.path(d.log);
                error.with_path(&path).with_offset(d.offset)
            }
            None => error,
        }
    }

    /// Reports logs that are needed, ended at a known size, and are gone.
    fn check_missing(&mut self, numbers: &[u64]) -> Result<()> {
        let known = self.known;
        if !known.is_used {
            return Ok(());
        }
        for (&n, &synced) in known.ends.range(self.first_log..) {
            if synced > 0 && !numbers.contains(&n) && !known.has_moved_on(&self.engine.c) {
                self.judge_loss(n, 0, &synced_bytes(synced))?;
            }
        }
        Ok(())
    }

    /// Bytes of a log from `offset` on cannot be read, and `proof` says why that is no torn tail.
    fn judge_loss(&mut self, log: u64, offset: u64, proof: &str) -> Result<()> {
        let text = format!(
            "log {log:06} cannot be read from offset {offset} on, though {proof}: it was damaged, cut or \
             deleted since"
        );
        // WAL1: what was durable is found, or its loss is reported.
        if self.known.refuses && !self.decider.passes_over_proven() {
            let path = self.engine.logs.path(log);
            return Err(Error::corruption(text).with_path(&path).with_offset(offset));
        }
        self.out.proven_losses += 1;
        self.engine.reporter.log().warn(format_args!("{text}"));
        Ok(())
    }

    /// Returns whether a log begins as one of another database. A record that was copied from there, as one copies
    /// updates, can stand first only where none of our own does: in the log of a new database.
    fn is_of_another(&self, number: u64, record: &[u8]) -> bool {
        let known = self.known;
        let follows = number > NEW_DATABASE_LOG && known.is_used && known.names_database;
        follows && Note::opens_another(record, &self.engine.c.db_id)
    }

    /// A log was made by another database: what it holds was never written here.
    fn judge_foreign(&mut self, log: u64, path: &Path) -> Result<()> {
        let text = format!("log {log:06} begins with the opening record of another database");
        if self.known.refuses && !self.decider.passes_over_proven() {
            return Err(Error::corruption(text).with_path(path).with_offset(0));
        }
        self.engine.reporter.log().warn(format_args!("{text}"));
        Ok(())
    }

    /// Replays one log; says whether it may hold bytes of an older one.
    fn log(&mut self, number: u64, path: &Path) -> Result<bool> {
        let at = |e: Error, offset: u64| e.with_path(path).with_offset(offset);
        let engine = self.engine;
        let file = engine.logs.store().open(number, LogPlace::Live)?;
        let mut reader = LogReader::new(file, number);
        let mut first = true;
        let cut = self.known.cuts.get(&number).copied();
        // An earlier recovery has judged the part that it cut off.
        let synced = self.known.ends.get(&number).copied().unwrap_or(0);
        let synced = synced.min(cut.unwrap_or(u64::MAX));
        let mut judge = LogJudge::new(&engine.c.db_id, number, synced);
        loop {
            let event = reader.next_event().map_err(|e| e.with_path(path))?;
            let offset = match &event {
                ReadEvent::Record { offset, .. }
                | ReadEvent::Corruption { offset, .. }
                | ReadEvent::OldRecord { offset } => Some(*offset),
                _ => None,
            };
            if cut.is_some_and(|cut| offset.is_some_and(|offset| offset >= cut)) {
                return Ok(reader.is_recycled());
            }
            let is_failure = matches!(
                event,
                ReadEvent::Corruption { .. } | ReadEvent::OldRecord { .. }
            );
            self.judge(&mut judge, path, &reader, offset.filter(|_| is_failure))?;
            let offset = offset.unwrap_or(0);
            let mut bytes = 0;
            let verdict = match event {
                ReadEvent::Record { end, .. } => {
                    bytes = end - offset;
                    if first && self.is_of_another(number, reader.record()) {
                        self.judge_foreign(number, path)?;
                    }
                    let note = judge.note(reader.record(), offset);
                    let record = (reader.record(), number, first.then_some(note).flatten());
                    if let Some(Note::Witness(Witness {
                        manifest: Some(manifest),
                        ..
                    })) = note
                    {
                        self.check_manifest(manifest).map_err(|e| at(e, offset))?;
                    }
                    let verdict = self.batch(record).map_err(|e| at(e, offset))?;
                    if verdict == Verdict::GoOn {
                        self.end = end;
                    }
                    first = false;
                    verdict
                }
                ReadEvent::Eof => {
                    if self.out.dropped.last().is_none_or(|d| d.log != number) {
                        // A log may hold nothing else: the next one names its whole length.
                        self.end = self.end.max(reader.settings_end());
                    }
                    let end = match reader.is_recycled() {
                        true => self.end,
                        false => reader.position(),
                    };
                    let proves = self.known.is_used && !self.filtering.has_cut;
                    if let Some(proof) = judge.end(end).proof().filter(|_| proves) {
                        self.judge_loss(number, end, &proof)?;
                    }
                    return Ok(reader.is_recycled());
                }
                ReadEvent::TimestampSizes(sizes) => {
                    let sizes = sizes.iter().map(|&(cf, size)| (cf, usize::from(size)));
                    self.recorded.extend(sizes);
                    Verdict::GoOn
                }
                event => {
                    if let ReadEvent::Corruption { dropped, .. } = &event {
                        bytes = *dropped;
                    }
                    let recycled = reader.is_recycled();
                    self.decider.event(&event, recycled).map_err(|e| {
                        if e.offset().is_some() {
                            e.with_path(path)
                        } else {
                            at(e, offset)
                        }
                    })?
                }
            };
            let (why, is_tail) = match verdict {
                Verdict::GoOn => continue,
                Verdict::Skip(why) => (why, false),
                Verdict::NextLog(why) => (why, true),
            };
            if is_tail {
                // Whole records that are not replayed can tell something.
                self.judge(&mut judge, path, &reader, Some(offset))?;
                bytes = match reader.is_recycled() {
                    true => 0,
                    false => engine.c.env.fs.size(path)?.saturating_sub(offset),
                };
            }
            self.out.dropped.push(Dropped {
                log: number,
                offset,
                bytes,
                records: judge.records(),
                is_tail,
                why,
            });
            if is_tail {
                return Ok(reader.is_recycled());
            }
        }
    }

    /// Looks at the first place where a log fails, by an event at `failure` or by bytes that were
    /// passed over.
    fn judge(
        &mut self,
        judge: &mut LogJudge<'_>,
        path: &Path,
        reader: &LogReader,
        failure: Option<u64>,
    ) -> Result<()> {
        let Some(offset) = reader.skipped_at().or(failure) else {
            return Ok(());
        };
        if !self.known.is_used {
            return Ok(());
        }
        let place = (offset, reader.is_recycled());
        let least = self.decider.least_sequence();
        let finding = judge.fail(&self.engine.c.env, path, place, least)?;
        if let Some(manifest) = judge.manifest() {
            self.check_manifest(manifest)?;
        }
        match finding.proof() {
            // The filter says where the log ends, not the file.
            Some(_) if self.filtering.has_cut => Ok(()),
            Some(proof) => self.judge_loss(judge.log(), offset, &proof),
            None => Ok(()),
        }
    }

    /// Compares the MANIFEST with what a witness says of it.
    fn check_manifest(&self, witnessed: ManifestExtent) -> Result<()> {
        let checked = match self.known.is_used {
            true => self.known.check_manifest(witnessed),
            false => Ok(()),
        };
        match checked {
            Err(_) if self.known.has_moved_on(&self.engine.c) => Ok(()),
            Err(e) if self.decider.passes_over_proven() => {
                self.engine.reporter.log().warn(format_args!("{e}"));
                Ok(())
            }
            checked => checked,
        }
    }

    /// Refuses sections whose entries are in tables though nobody decided about them.
    fn check_undecided(&self) -> Result<()> {
        for (xid, section) in self.prepared.iter() {
            for op in BatchIter::entries(&section.entries) {
                let family = op?.cf().and_then(|cf| self.out.families.get(&cf));
                if family.is_some_and(|f| section.log < f.log_number) {
                    return Err(Error::not_supported(
                        "write-prepared transactions that are undecided and partly in tables",
                    )
                    .with("transaction", xid.escape_ascii()));
                }
            }
        }
        Ok(())
    }

    /// Returns whether the log before ended where this one says it did.
    fn continues(&self, opening: &Opening) -> bool {
        opening.number < self.first_log || self.before == Some((opening.number, opening.size))
    }

    /// Replays the batch of a record of `log`; `opening` is the note that the log begins with.
    fn batch(&mut self, (rep, log, opening): (&[u8], u64, Option<Note>)) -> Result<Verdict> {
        let sequence = get_fixed64(rep, 0).filter(|_| rep.len() >= BATCH_HEADER_SIZE);
        match self.decider.record(sequence)? {
            Verdict::GoOn => {}
            other => return Ok(other),
        }
        let sequence = sequence.unwrap_or(0);
        let given = sequence + u64::from(get_fixed32(rep, 8).unwrap_or(0));
        let changed = if self.has_timestamps || !self.recorded.is_empty() {
            self.reconcile(rep)?
        } else {
            None
        };
        let rep = changed.as_ref().map_or(rep, |batch| batch.as_bytes());
        let replaced;
        let (mut rep, mut least_next) = (rep, 0);
        match self
            .filtering
            .ask(rep, log, || self.engine.logs.path(log))?
        {
            Filtered::Kept => {}
            Filtered::LeftOut(updates) => return self.pass_over(sequence, updates),
            Filtered::Damaged(error) => {
                // Told to go on, RocksDB takes the batch all the same.
                if self.decider.is_paranoid() {
                    let verdict = self.decider.damage(error)?;
                    self.filtering.has_cut = matches!(verdict, Verdict::NextLog(_));
                    return Ok(verdict);
                }
            }
            Filtered::Replaced(new, updates) => {
                replaced = new;
                rep = replaced.as_bytes();
                least_next = sequence.saturating_add(updates);
            }
        }
        // Where the log before is missing or ended early.
        let refuses = self.known.is_used && self.known.refuses;
        let is_gap = matches!(opening, Some(Note::Opening(o)) if !self.continues(&o));
        let families = &self.out.families;
        // Under write-prepared, numbers go by batch.
        let plain = match self.policy {
            Policy::WritePrepared => None,
            _ => plain::collect(rep, log, families, sequence, &mut self.spare),
        };
        if let Some(plain) = plain {
            if is_gap
                && let refused @ (Verdict::Skip(_) | Verdict::NextLog(_)) =
                    self.decider.gap(refuses)?
            {
                return Ok(refused);
            }
            let next = plain.next.max(least_next);
            if next > MAX_SEQUENCE {
                return self.decider.damage(out_of_range());
            }
            self.decider.accept(sequence, next)?;
            self.decider.given(given);
            let written = plain.written;
            plain.insert(&mut self.out.families, &mut self.spare)?;
            return self.advance(sequence, next, written);
        }
        let (runs, sections) = plan(
            rep,
            &self.prepared,
            families,
            self.policy,
            &self.repeated_mark,
        )?;
        if is_gap
            && let refused @ (Verdict::Skip(_) | Verdict::NextLog(_)) = self.decider.gap(refuses)?
        {
            return Ok(refused);
        }
        // Everything is looked at before anything is inserted: a batch is recovered whole or not at
        // all.
        let mut next = sequence;
        let mut numbering = std::mem::replace(&mut self.numbering, Numbering::new(false));
        numbering.begin();
        let inserted = self.entries(&runs, log, (&mut numbering, &mut next));
        if self.policy == Policy::WritePrepared {
            // A prepared section takes its numbers now.
            for entries in sections.entries() {
                for op in BatchIter::entries(entries) {
                    let op = op?;
                    let Some(cf) = op.cf() else { continue };
                    numbering.take(cf, op.key().unwrap_or_default(), &mut next);
                }
            }
            numbering.end(&mut next);
        }
        self.numbering = numbering;
        let entries = match inserted? {
            Inserted::Entries(entries) => entries,
            Inserted::Refused(error) => return self.decider.damage(error),
        };
        next = next.max(least_next);
        if next > MAX_SEQUENCE {
            return self.decider.damage(out_of_range());
        }
        self.decider.accept(sequence, next)?;
        if self.policy != Policy::WritePrepared {
            self.decider.given(given);
        }
        for (cf, seqno, kind, key, value) in entries {
            let Some(family) = self.out.families.get_mut(&cf) else {
                debug_assert!(false, "W4: an entry of a batch has lost its family");
                continue;
            };
            if kind == ValueType::RangeDeletion {
                let mem = family.loader.memtable();
                mem.add_range_tombstone(seqno, key, value);
            } else {
                is_new(family.loader.add(seqno, kind, key, value))?;
            }
        }
        self.prepared.take(sections, log, sequence);
        self.advance(sequence, next, Written::Several)
    }

    /// The batch from `sequence` up to `next` was inserted.
    fn advance(
        &mut self,
        sequence: SequenceNumber,
        next: SequenceNumber,
        written: Written,
    ) -> Result<Verdict> {
        let out = &mut self.out;
        out.first_sequence.get_or_insert(sequence);
        out.last_sequence = out.last_sequence.max(next.saturating_sub(1));
        match written {
            Written::Nothing => {}
            Written::One(cf) => {
                if let Some(family) = out.families.get_mut(&cf) {
                    family.seal_if_full(self.engine, self.may_flush)?;
                }
            }
            Written::Several => {
                for family in out.families.values_mut() {
                    family.seal_if_full(self.engine, self.may_flush)?;
                }
            }
        }
        Ok(Verdict::GoOn)
    }

    /// Replays nothing of a batch, whose sequence numbers are used up.
    fn pass_over(&mut self, sequence: SequenceNumber, updates: u64) -> Result<Verdict> {
        let next = sequence.saturating_add(updates);
        if next > MAX_SEQUENCE {
            return self.decider.damage(out_of_range());
        }
        self.decider.accept(sequence, next)?;
        self.advance(sequence, next, Written::Nothing)
    }

    /// The batch with keys as long as timestamps are now; `None` if they are.
    fn reconcile(&self, rep: &[u8]) -> Result<Option<spanlith_wal::WriteBatch>> {
        let running = |cf: u32| {
            let family = self.out.families.get(&cf)?;
            Some(family.family.comparator.timestamp_size())
        };
        // Releases before 8 record no sizes. Timestamps that are stored in tables cannot be switched
        // on or off, so a log that is silent about such a family has them as they are now.
        let stored = |cf: u32| {
            let family = self.out.families.get(&cf)?;
            let persists = family.settings.options.persist_user_defined_timestamps;
            running(cf).filter(|&size| persists && size > 0)
        };
        let recorded = |cf: u32| self.recorded.get(&cf).copied().or_else(|| stored(cf));
        reconcile_timestamps(rep, recorded, running)
    }

    /// The entries of `runs`, numbered from `next` on, that are not in tables yet.
    fn entries<'e>(
        &self,
        runs: &'e [Run<'_>],
        log: u64,
        (numbering, next): (&mut Numbering, &mut SequenceNumber),
    ) -> Result<Inserted<'e>> {
        let mut entries: Vec<Entry<'e>> = Vec::new();
        let own_runs = runs.iter().map(|run| {
            let own = run.prepared_at.map(|(at, _)| (Numbering::new(true), at));
            (run, own, run.prepared_at.map_or(log, |(_, log)| log))
        });
        for (run, mut own, log) in own_runs {
            for op in BatchIter::entries(&run.entries) {
                let op = op?;
                let Some(cf) = op.cf() else { continue };
                let mut number = |key: &[u8]| match &mut own {
                    Some((numbering, at)) => numbering.take(cf, key, at),
                    None => numbering.take(cf, key, next),
                };
                // A family that was dropped, or is not opened, or has everything in tables.
                let family = self.out.families.get(&cf);
                let Some(family) = family.filter(|f| log >= f.log_number) else {
                    number(op.key().unwrap_or_default());
                    continue;
                };
                let (kind, key, value): (_, _, &[u8]) = match op {
                    BatchOp::Put { key, value, .. } => (ValueType::Value, key, value),
                    BatchOp::Delete { key, .. } => {
                        let timed = family.family.comparator.timestamp_size() != 0;
                        (deletion_type(timed), key, &[])
                    }
                    BatchOp::BlobIndex { key, index, .. } => (ValueType::BlobIndex, key, index),
                    BatchOp::WideColumnEntity { key, entity, .. } => {
                        (ValueType::WideColumnEntity, key, entity)
                    }
                    BatchOp::ValuePreferredSeqno { key, value, .. } => {
                        (ValueType::ValuePreferredSeqno, key, value)
                    }
                    BatchOp::SingleDelete { key, .. } => (ValueType::SingleDeletion, key, &[]),
                    BatchOp::Merge { key, value, .. } => {
                        if family.family.merge_operator.is_none() {
                            return Err(Error::invalid_argument(
                                "merge_operator is not properly initialized. The log holds merge \
                             records: open with the operator they were written with",
                            ));
                        }
                        (ValueType::Merge, key, value)
                    }
                    BatchOp::DeleteRange { begin, end, .. } => {
                        match family.family.comparator.compare(begin, end) {
                            // Counted, but neither inserted nor given a number.
                            std::cmp::Ordering::Equal => continue,
                            std::cmp::Ordering::Greater => {
                                let text = "end key comes before start key";
                                return Ok(Inserted::Refused(Error::invalid_argument(text)));
                            }
                            std::cmp::Ordering::Less => (ValueType::RangeDeletion, begin, end),
                        }
                    }
                    other => return Err(not_executed(&other)),
                };
                entries.push((cf, number(key), kind, key, value));
            }
        }
        Ok(Inserted::Entries(entries))
    }
}

/// Returns what a [`Loader`] returns, as a result.
pub(super) fn is_new(taken: Option<SequenceNumber>) -> Result<()> {
    match taken {
        None => Ok(()),
        Some(seqno) => {
            // M2, of what the log holds.
            let error = Error::corruption("the log holds one sequence number twice");
            Err(error.with("seqno", seqno))
        }
    }
}

impl Recovering {
    /// A full memtable becomes a table at once, so that replay needs no more memory than writing did.
    fn seal_if_full(&mut self, engine: &Engine, may_flush: bool) -> Result<()> {
        let limit = self.settings.options.write_buffer_size as usize;
        if !self.loader.memtable().should_flush(limit) {
            return Ok(());
        }
        is_new(self.loader.finish())?;
        let fresh = Loader::new(new_memtable(&self.family, &self.settings));
        let full = std::mem::replace(&mut self.loader, fresh).into_memtable();
        if may_flush {
            if let Some(speed) = &engine.c.speed {
                conclude(&engine.c.dir, &speed.fs)?;
            }
            let table = self.flush(engine, &[full])?;
            self.tables.extend(table);
        } else {
            self.mems.push(full);
        }
        Ok(())
    }

    /// Writes recovered memtables as one table.
    pub(super) fn flush(
        &mut self,
        engine: &Engine,
        mems: &[Arc<MemTable>],
    ) -> Result<Option<NewFile>> {
        if mems.is_empty() {
            return Ok(None);
        }
        if let Some(low) = history_low_after(&self.family, &self.settings, mems) {
            let c = &self.family.comparator;
            let known = self.history_low.get_or_insert_with(|| low.clone());
            if c.compare_timestamp(&low, known).is_gt() {
                *known = low;
            }
        }
        let number = engine.catalog.new_file_number();
        let request = TableRequest {
            family: &self.family,
            settings: &self.settings,
            number,
            mems,
            snapshots: Vec::new(),
            creation: TableCreation::Recovery,
        };
        let built = build_table(engine, &request)?;
        if let Some(table) = &built.table {
            engine.reporter.note_table(&self.family, self.job, table);
        }
        self.blobs.extend(built.blobs);
        Ok(built.table.map(|t| t.file))
    }
}

fn new_memtable(family: &Family, settings: &FamilySettings) -> Arc<MemTable> {
    settings.new_memtable(&family.comparator)
}
