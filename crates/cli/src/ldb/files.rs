//! Commands that read the files of a database: logs, MANIFEST, lists of live files.

use super::args::upper;
use super::{Ldb, Stop};
use crate::inventory::{Family, Inventory};
use crate::places::Places;
use crate::{sst_dump, tables};
use spanlith::version::{NewFile, VersionEdit, filenames};
use spanlith::{Comparator, Error};
use spanlith_base::byte_text::{bytes_of_text, text_of_bytes};
use spanlith_base::keys::{split_internal, tag_sequence, tag_type};
use spanlith_env::Env;
use spanlith_wal::record::HEADER_SIZE;
use spanlith_wal::{BatchIter, BatchOp, LogReader, PrepareKind, ReadEvent};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Levels that a dump of a MANIFEST lists, whether they hold something or not.
const LEVELS: u32 = 64;

/// An internal key as the reference shows it, as text by [`text_of_bytes`].
fn internal(key: &[u8], hex: bool) -> String {
    match split_internal(key) {
        Some((user, tag)) => {
            let line = sst_dump::internal_key(user, tag_sequence(tag), tag_type(tag), hex);
            text_of_bytes(&line)
        }
        None => upper(key),
    }
}

impl Ldb {
    pub(super) fn dump_wal(&mut self) -> Result<(), Stop> {
        let Some(path) = self.args.path("walfile") else {
            return Err(Stop::failed("Argument --walfile must be specified."));
        };
        self.print_log(&path, self.args.is("header"), self.args.is("print_value"))
    }

    pub(super) fn print_log(
        &mut self,
        path: &Path,
        header: bool,
        values: bool,
    ) -> Result<(), Stop> {
        let number = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let number = number
            .and_then(|n| n.split('.').next()?.parse().ok())
            .unwrap_or(0);
        let mut reader = LogReader::new(Env::system().fs.open_sequential(path)?, number);
        if header {
            let value = if values { " : value " } else { "" };
            writeln!(
                self.out,
                "Sequence,Count,ByteSize,Physical Offset,Key(s){value}"
            )?;
        }
        let mut end_before = 0;
        loop {
            let offset = match reader.next_event()? {
                ReadEvent::Record { offset, end } => {
                    // The reference counts what fills up a block to the next record.
                    let is_filled = offset.saturating_sub(end_before) < HEADER_SIZE as u64;
                    let begin = if is_filled { end_before } else { offset };
                    end_before = end;
                    begin
                }
                ReadEvent::Eof | ReadEvent::OldRecord { .. } => return Ok(()),
                event @ ReadEvent::Corruption { .. } => {
                    if let Some(e) = event.into_error() {
                        self.out.flush()?;
                        tell!("Corruption detected in log file {}: {e}", path.display());
                    }
                    continue;
                }
                _ => continue,
            };
            let bytes = reader.record();
            let batch = match BatchIter::new(bytes) {
                Ok(batch) => batch,
                Err(e) => {
                    writeln!(self.out, "{e}")?;
                    continue;
                }
            };
            let mut row = format!(
                "{},{},{},{offset},",
                batch.sequence(),
                batch.header_count(),
                bytes.len()
            );
            for op in batch {
                op_text(&op?, values, &mut row);
            }
            self.line(row.as_bytes())?;
        }
    }

    /// The MANIFEST that the options name, or that of the database.
    fn manifest_path(&self) -> Result<PathBuf, Stop> {
        if let Some(path) = self.args.path("path") {
            return Ok(path);
        }
        let dir = self.dir()?;
        let current = dir.join(filenames::CURRENT_FILE);
        let bytes = Env::system().fs.read_all(&current, 4096)?;
        let number = filenames::parse_current(&bytes)?;
        Ok(dir.join(filenames::manifest_file_name(number)))
    }

    pub(super) fn manifest_dump(&mut self) -> Result<(), Stop> {
        let path = self.manifest_path()?;
        let (verbose, json) = (self.args.is("verbose"), self.args.is("json"));
        if verbose {
            writeln!(self.out, "Processing Manifest file {}", path.display())?;
        }
        self.print_manifest(&path, verbose || json, json)?;
        if verbose {
            writeln!(self.out, "Processing Manifest file {} done", path.display())?;
        }
        Ok(())
    }

    /// The edits if asked for, then, unless only they are, the state they lead to.
    pub(super) fn print_manifest(
        &mut self,
        path: &Path,
        edits: bool,
        json: bool,
    ) -> Result<(), Stop> {
        let hex = self.args.is("hex");
        if edits {
            let mut reader = LogReader::new(Env::system().fs.open_sequential(path)?, 0);
            let mut number = 0u64;
            loop {
                match reader.next_event()? {
                    ReadEvent::Record { .. } => {}
                    ReadEvent::Eof => break,
                    event @ ReadEvent::Corruption { tail: false, .. } => match event.into_error() {
                        Some(e) => return Err(e.into()),
                        None => continue,
                    },
                    _ => continue,
                }
                let edit = VersionEdit::decode(reader.record())?;
                number += 1;
                let text = match json {
                    true => edit_json(&edit, number, hex),
                    false => edit_text(&edit, hex),
                };
                self.line(&bytes_of_text(&text))?;
            }
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
        let i = Inventory::read_manifest_file(dir.unwrap_or(Path::new(".")), &name)?;
        if let Some(f) = i.findings.iter().find(|f| f.file == name) {
            return Err(Error::corruption(f.what.clone()).into());
        }
        // The reference numbers versions from the one that follows those of the empty families.
        for (n, (id, family)) in (i.families.len()..).zip(&i.families) {
            self.print_family(*id, n, family, hex)?;
        }
        let highest = i
            .families
            .keys()
            .chain(&i.dropped)
            .max()
            .copied()
            .unwrap_or(0);
        writeln!(
            self.out,
            "next_file_number {} last_sequence {}  prev_log_number 0 max_column_family {highest} \
             min_log_number_to_keep {}",
            // The reference shows the number that the next open would begin with.
            i.next_file + 1,
            i.last_sequence,
            i.min_log_number
        )?;
        Ok(())
    }

    fn print_family(
        &mut self,
        id: u32,
        version: usize,
        family: &Family,
        hex: bool,
    ) -> Result<(), Stop> {
        let head = format!(
            "--------------- Column family \"{}\"  (ID {id}) --------------",
            family.name
        );
        self.line(&bytes_of_text(&head))?;
        writeln!(self.out, "log number: {}", family.log_number)?;
        if family.comparator == Comparator::Bytewise.name() {
            writeln!(self.out, "comparator: {}", family.comparator)?;
        } else {
            // The words of a tool that has no other.
            let name = &family.comparator;
            let text = "but the comparator object is not available.";
            writeln!(self.out, "comparator: <{name}>, {text}")?;
        }
        for level in 0..LEVELS {
            let mut head = format!("--- level {level} --- version# {version} ---");
            if let Some(cursor) = family.compact_cursors.get(&level) {
                head.push_str(&format!(" compact_cursor: {} ---", internal(cursor, hex)));
            }
            self.line(&bytes_of_text(&head))?;
            for f in of_level(family, level) {
                let row = format!(
                    " {}:{}[{} .. {}][{} .. {}]{}",
                    f.number,
                    f.size,
                    f.smallest_seqno,
                    f.largest_seqno,
                    internal(&f.smallest, hex),
                    internal(&f.largest, hex),
                    match f.oldest_blob_file_number {
                        0 => String::new(),
                        n => format!(" blob_file:{n}"),
                    }
                );
                self.line(&bytes_of_text(&row))?;
            }
        }
        if !family.blobs.is_empty() {
            writeln!(self.out, "--- blob files --- version# {version} ---")?;
        }
        for (number, blobs) in &family.blobs {
            let linked: String = family
                .files
                .values()
                .filter(|f| f.oldest_blob_file_number == *number)
                .map(|f| format!("{} ", f.number))
                .collect();
            writeln!(
                self.out,
                "blob_file_number: {number} total_blob_count: {} total_blob_bytes: {} \
                 checksum_method: {} checksum_value: {} linked_ssts: {{ {linked}}} \
                 garbage_blob_count: {} garbage_blob_bytes: {}",
                blobs.added.total_count,
                blobs.added.total_bytes,
                String::from_utf8_lossy(&blobs.added.checksum_method),
                upper(&blobs.added.checksum_value),
                blobs.garbage_count,
                blobs.garbage_bytes
            )?;
        }
        Ok(())
    }

    pub(super) fn file_checksum_dump(&mut self) -> Result<(), Stop> {
        let path = self.manifest_path()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
        let i = Inventory::read_manifest_file(dir.unwrap_or(Path::new(".")), &name)?;
        let hex = self.args.is("hex");
        let mut row = |number: u64, name: &[u8], checksum: &[u8]| -> Result<(), Stop> {
            write!(self.out, "{number}, {}, ", String::from_utf8_lossy(name))?;
            match hex && !checksum.is_empty() {
                true => write!(self.out, "0x{}", upper(checksum))?,
                false => self.out.write_all(checksum)?,
            }
            Ok(writeln!(self.out)?)
        };
        for family in i.families.values() {
            for f in family.files.values() {
                row(f.number, &f.file_checksum_func_name, &f.file_checksum)?;
            }
            for (number, b) in &family.blobs {
                row(*number, &b.added.checksum_method, &b.added.checksum_value)?;
            }
        }
        self.line(b"Print SST file checksum information finished ")
    }

    pub(super) fn list_live_files(&mut self) -> Result<(), Stop> {
        let dir = self.dir()?;
        let i = Inventory::read(&dir)?;
        if self.args.is("sort_by_filename") {
            self.line(b"Live SST and Blob Files:")?;
            let mut rows: Vec<(String, String)> = Vec::new();
            for family in i.families.values() {
                for f in family.files.values() {
                    let name = tables::name(&i, f.number);
                    let text = format!(" : level {}, column family '{}'", f.level, family.name);
                    rows.push((name, text));
                }
                for n in family.blobs.keys() {
                    let text = format!(", column family '{}'", family.name);
                    rows.push((filenames::blob_file_name(*n), text));
                }
            }
            rows.sort();
            for (name, text) in rows {
                writeln!(self.out, "{}{text}", dir.join(name).display())?;
            }
        } else {
            for family in i.families.values() {
                writeln!(self.out, "===== Column Family: {} =====", family.name)?;
                self.line(b"Live SST Files:")?;
                let options = i.options.as_ref().and_then(|o| o.parsed.as_ref().ok());
                let options = options.and_then(|p| p.cf(&family.name));
                let levels = options.map_or(7, |cf| cf.options.num_levels);
                for level in 0..u32::try_from(levels).unwrap_or(7) {
                    writeln!(self.out, "---------- level {level} ----------")?;
                    for f in of_level(family, level) {
                        let path = dir.join(tables::name(&i, f.number));
                        writeln!(self.out, "{}", path.display())?;
                    }
                }
                self.line(b"Live Blob Files:")?;
                for n in family.blobs.keys() {
                    let path = dir.join(filenames::blob_file_name(*n));
                    writeln!(self.out, "{}", path.display())?;
                }
            }
        }
        self.line(b"------------------------------")
    }

    pub(super) fn list_range_deletes(&mut self) -> Result<(), Stop> {
        let mut left = self.args.most()?.unwrap_or(u64::MAX);
        let target = self.target()?;
        self.family_exists(&target)?;
        let i = Inventory::read(&target.db)?;
        let Some(family) = i.family(&target.cf).filter(|_| left > 0) else {
            return Ok(());
        };
        for f in (0..LEVELS).flat_map(|level| of_level(family, level)) {
            let path = target.db.join(tables::name(&i, f.number));
            writeln!(self.out, "=== file : {} ===", path.display())?;
            let reader = tables::open(&i, &Places::default(), family, f)?;
            for (begin, end, sequence) in reader.range_tombstones()? {
                if left == 0 {
                    break;
                }
                let (begin, end) = (upper(&begin), upper(&end));
                writeln!(self.out, "start: {begin} end: {end} seq: {sequence}")?;
                left -= 1;
            }
            if left == 0 {
                self.line(b"(results may not be complete)")?;
                break;
            }
        }
        self.line(b"")
    }

    pub(super) fn dump_live_files(&mut self) -> Result<(), Stop> {
        const RULE: &[u8] = b"==============================";
        let dir = self.dir()?;
        let i = Inventory::read(&dir)?;
        let (hex, decode) = (self.args.is("hex"), self.args.is("decode_blob_index"));
        self.line(b"Manifest File")?;
        self.line(RULE)?;
        let manifest = dir.join(&i.manifest);
        writeln!(self.out, "{}", manifest.display())?;
        self.print_manifest(&manifest, false, false)?;
        self.line(b"")?;
        for family in i.families.values() {
            writeln!(self.out, "Column family name: {}", family.name)?;
            self.line(RULE)?;
            self.line(b"\nSST Files")?;
            self.line(RULE)?;
            for f in (0..LEVELS).flat_map(|level| of_level(family, level)) {
                let path = dir.join(tables::name(&i, f.number));
                writeln!(self.out, "{} level:{}", path.display(), f.level)?;
                self.line(b"------------------------------")?;
                sst_dump::scan_with_properties(&path, hex, decode, &mut self.out)?;
                self.line(b"")?;
            }
            self.line(b"Blob Files")?;
            self.line(RULE)?;
            for n in family.blobs.keys() {
                let path = dir.join(filenames::blob_file_name(*n));
                writeln!(self.out, "{}", path.display())?;
            }
        }
        self.line(b"\nWrite Ahead Log Files")?;
        self.line(RULE)?;
        // As there, logs that hold nothing are left out.
        for (number, _) in i.live_logs().filter(|l| l.1 > 0) {
            let path = i.wal_dir.join(filenames::log_file_name(number));
            writeln!(self.out, "{}", path.display())?;
            self.print_log(&path, true, true)?;
        }
        Ok(())
    }
}

/// Tables of a level in the order of a version: newest first in level 0, else by key.
fn of_level(family: &Family, level: u32) -> Vec<&NewFile> {
    let files = family.files.range((level, 0)..=(level, u64::MAX));
    let mut files: Vec<&NewFile> = files.map(|f| f.1).collect();
    let order = Comparator::from_name(&family.comparator);
    match (level, order) {
        (0, _) => files.sort_by_key(|f| {
            std::cmp::Reverse((f.epoch_number, f.largest_seqno, f.smallest_seqno, f.number))
        }),
        (_, Some(order)) => files.sort_by(|a, b| order.compare_internal(&a.smallest, &b.smallest)),
        (_, None) => {}
    }
    files
}

/// An entry of a log's batch, with a blank after it.
fn op_text(op: &BatchOp<'_>, values: bool, row: &mut String) {
    let cf = op.cf().unwrap_or(0);
    let mut entry = |name: &str, key: &[u8], value: Option<&[u8]>| {
        row.push_str(&format!("{name}({cf}) : 0x{} ", upper(key)));
        if let (true, Some(value)) = (values, value) {
            row.push_str(&format!(": 0x{} ", upper(value)));
        }
    };
    match *op {
        BatchOp::Put { key, value, .. } => entry("PUT", key, Some(value)),
        BatchOp::Merge { key, value, .. } => entry("MERGE", key, Some(value)),
        BatchOp::Delete { key, .. } => entry("DELETE", key, None),
        BatchOp::SingleDelete { key, .. } => entry("SINGLE_DELETE", key, None),
        BatchOp::BlobIndex { key, index, .. } => entry("BLOB_INDEX", key, Some(index)),
        BatchOp::WideColumnEntity { key, entity, .. } => entry("PUT_ENTITY", key, Some(entity)),
        BatchOp::ValuePreferredSeqno { key, value, .. } => entry("TIMED_PUT", key, Some(value)),
        BatchOp::DeleteRange { begin, end, .. } => {
            let (begin, end) = (upper(begin), upper(end));
            row.push_str(&format!("DELETE_RANGE({cf}) : 0x{begin} 0x{end} "));
        }
        BatchOp::BeginPrepare(kind) => {
            // The reference prints whether the transaction was written before it was prepared.
            let unprepared = matches!(kind, PrepareKind::Unprepared);
            row.push_str(&format!("BEGIN_PREPARE({unprepared}) "));
        }
        BatchOp::EndPrepare { xid } => row.push_str(&format!("END_PREPARE(0x{}) ", upper(xid))),
        BatchOp::Commit { xid } => row.push_str(&format!("COMMIT(0x{}) ", upper(xid))),
        BatchOp::CommitWithTimestamp { ts, xid } => row.push_str(&format!(
            "COMMIT_WITH_TIMESTAMP(0x{}, 0x{}) ",
            upper(xid),
            upper(ts)
        )),
        BatchOp::Rollback { xid } => row.push_str(&format!("ROLLBACK(0x{}) ", upper(xid))),
        BatchOp::Noop => row.push_str("NOOP "),
        BatchOp::LogData { .. } => {}
    }
}

/// The numbers of an edit under the names of the reference.
fn numbers_of(e: &VersionEdit) -> [(&'static str, Option<u64>); 6] {
    [
        ("LogNumber", e.log_number),
        ("PrevLogNumber", e.prev_log_number),
        ("NextFileNumber", e.next_file_number),
        ("MaxColumnFamily", e.max_column_family.map(u64::from)),
        ("MinLogNumberToKeep", e.min_log_number_to_keep),
        ("LastSeq", e.last_sequence),
    ]
}

/// An edit as the reference prints it.
fn edit_text(e: &VersionEdit, hex: bool) -> String {
    let mut out = String::from("VersionEdit {");
    let text = text_of_bytes;
    let mut line = |name: &str, value: String| out.push_str(&format!("\n  {name}: {value}"));
    if let Some(id) = &e.db_id {
        line("DB ID", text(id));
    }
    if let Some(name) = &e.comparator {
        line("Comparator", text(name));
    }
    for (name, value) in numbers_of(e) {
        if let Some(n) = value {
            line(name, n.to_string());
        }
    }
    for (level, key) in &e.compact_cursors {
        line("CompactCursor", format!("{level} {}", internal(key, hex)));
    }
    for (level, number) in &e.deleted_files {
        line("DeleteFile", format!("{level} {number}"));
    }
    for f in &e.new_files {
        line("AddFile", new_file_text(f, hex));
    }
    for b in &e.blob_file_additions {
        line(
            "BlobFileAddition",
            format!(
                "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} checksum_method: {} \
                 checksum_value: {}",
                b.number,
                b.total_count,
                b.total_bytes,
                text(&b.checksum_method),
                upper(&b.checksum_value)
            ),
        );
    }
    for g in &e.blob_file_garbages {
        line(
            "BlobFileGarbage",
            format!(
                "blob_file_number: {} garbage_blob_count: {} garbage_blob_bytes: {}",
                g.number, g.count, g.bytes
            ),
        );
    }
    for w in &e.wal_additions {
        let size = w
            .synced_size
            .map_or_else(|| "-1".to_string(), |n| n.to_string());
        line(
            "WalAddition",
            format!("log_number: {} synced_size_in_bytes: {size}", w.number),
        );
    }
    if let Some(number) = e.wal_deletion {
        line("WalDeletion", format!("log_number: {number}"));
    }
    line("ColumnFamily", e.column_family.to_string());
    if let Some(name) = &e.column_family_add {
        line("ColumnFamilyAdd", text(name));
    }
    if e.column_family_drop {
        out.push_str("\n  ColumnFamilyDrop");
    }
    let mut line = |name: &str, value: String| out.push_str(&format!("\n  {name}: {value}"));
    if let Some(left) = e.remaining_in_atomic_group {
        line("AtomicGroup", format!("{left} entries remains"));
    }
    if let Some(low) = &e.full_history_ts_low {
        line("FullHistoryTsLow", upper(low));
    }
    out.push_str("\n}");
    out
}

fn new_file_text(f: &NewFile, hex: bool) -> String {
    let mut out = format!(
        "{} {} {} {} .. {}",
        f.level,
        f.number,
        f.size,
        internal(&f.smallest, hex),
        internal(&f.largest, hex)
    );
    if f.oldest_blob_file_number != 0 {
        out.push_str(&format!(" blob_file:{}", f.oldest_blob_file_number));
    }
    out.push_str(&format!(
        " oldest_ancester_time:{} file_creation_time:{} file_checksum:{} file_checksum_func_name: {}",
        f.oldest_ancester_time,
        f.file_creation_time,
        upper(&f.file_checksum),
        text_of_bytes(&f.file_checksum_func_name)
    ));
    if f.temperature != 0 {
        out.push_str(&format!(" temperature: {}", f.temperature));
    }
    if f.unique_id != [0, 0] {
        out.push_str(&format!(
            " unique_id(internal): {{{},{}}} public_unique_id: {}",
            f.unique_id[0],
            f.unique_id[1],
            sst_dump::public_id(f.unique_id)
        ));
    }
    out
}

/// An edit as one object.
fn edit_json(e: &VersionEdit, number: u64, hex: bool) -> String {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    // JSON is text.
    let readable = |key: &[u8]| text(&bytes_of_text(&internal(key, hex)).into_owned());
    let mut o = serde_json::Map::new();
    let mut add = |name: &str, value: serde_json::Value| {
        o.insert(name.to_string(), value);
    };
    add("EditNumber", number.into());
    if let Some(name) = &e.comparator {
        add("Comparator", text(name).into());
    }
    for (name, value) in numbers_of(e) {
        if let Some(n) = value {
            add(name, n.into());
        }
    }
    if !e.deleted_files.is_empty() {
        let files = e
            .deleted_files
            .iter()
            .map(|(level, number)| serde_json::json!({ "Level": level, "FileNumber": number }));
        add("DeletedFiles", files.collect::<Vec<_>>().into());
    }
    if !e.new_files.is_empty() {
        let files = e.new_files.iter().map(|f| {
            serde_json::json!({
                "Level": f.level, "FileNumber": f.number, "FileSize": f.size,
                "SmallestIKey": readable(&f.smallest), "LargestIKey": readable(&f.largest),
                "OldestAncesterTime": f.oldest_ancester_time,
                "FileCreationTime": f.file_creation_time,
                "FileChecksum": upper(&f.file_checksum),
                "FileChecksumFuncName": text(&f.file_checksum_func_name),
            })
        });
        add("AddedFiles", files.collect::<Vec<_>>().into());
    }
    add("ColumnFamily", e.column_family.into());
    if let Some(name) = &e.column_family_add {
        add("ColumnFamilyAdd", text(name).into());
    }
    if e.column_family_drop {
        add("ColumnFamilyDrop", true.into());
    }
    if let Some(left) = e.remaining_in_atomic_group {
        add("AtomicGroup", left.into());
    }
    serde_json::Value::Object(o).to_string()
}
