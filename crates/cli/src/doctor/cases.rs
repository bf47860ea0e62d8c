//! From findings to cases: what kind of damage, what is at stake, what to do.

use super::disk;
use super::rehearsal::Rehearsal;
use super::stakes::{Behind, Referring, exchanged};
use crate::bytes::{show, show_short};
use crate::db::log_order::Arranged;
use crate::db::mend::has_records;
use crate::fail::shell_word;
use crate::inventory::{Family, Finding, Grade, Inventory};
use crate::places::Places;
use crate::tables;
use crate::term::{bytes, count};
use serde_json::{Value, json};
use spanlith::blob::walk_blobs;
use spanlith::version::{FileKind, NewFile, filenames, parse_file_name};
use spanlith_base::keys::split_internal;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

/// Bytes of a sector: what a device loses at once.
const SECTOR: usize = 512;
/// Says what errors of the system begin with: they say nothing about what a file holds.
const IO_ERROR: &str = "IO error";
/// Characters of a key that are shown.
const KEY: usize = 40;

/// The words for fragments of a record without its first.
const HEADLESS: &str = "missing start of fragmented record";

/// Tells a record that looks torn from the end of a log.
const NOT_THE_END: &str = "but whole records follow, which an open drops with it";

/// The way out where nothing of the MANIFEST can be read.
fn no_manifest(i: &Inventory) -> String {
    format!(
        "restore CURRENT and MANIFEST from a backup; else copy what tables and logs hold, where older values and \
         deleted entries may come to light: {}",
        copy_what_is_left(i)
    )
}

/// Describes what happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// The end of the newest log or MANIFEST was not written whole: what a crash leaves.
    Torn,
    /// Bytes are other than those that were written.
    Flipped,
    /// Whole sectors read as zeros.
    Zeroed,
    /// The file is shorter than what was recorded.
    Truncated,
    /// The file is not there.
    Missing,
    /// The file is that of something else.
    Swapped,
    /// Whole, but refers to what is not there or contradicts something.
    Inconsistent,
    /// This program could not check it.
    Unchecked,
}

impl Damage {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Torn => "torn",
            Self::Flipped => "flipped",
            Self::Zeroed => "zeroed",
            Self::Truncated => "truncated",
            Self::Missing => "missing",
            Self::Swapped => "swapped",
            Self::Inconsistent => "inconsistent",
            Self::Unchecked => "unchecked",
        }
    }
}

/// One damaged place, explained.
#[derive(Debug)]
pub struct Case {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: Option<u64>,
    /// The kind.
    pub damage: Damage,
    /// Says what was found.
    pub what: String,
    /// Says what it concerns: keys, entries, updates. Empty if unknown.
    pub stake: String,
    /// Says what can be done.
    pub way_out: String,
    /// Says whether no entry is concerned.
    pub spares_data: bool,
    /// Family and key of the only value that is at stake. If the opened database answers for the key, a newer entry
    /// hides that value.
    pub probe: Option<(String, Vec<u8>)>,
}

impl Case {
    /// All of it.
    pub fn json(&self) -> Value {
        json!({
            "file": self.file, "offset": self.offset, "damage": self.damage.name(),
            "what": self.what, "at_stake": self.stake, "way_out": self.way_out,
        })
    }

    /// Returns whether there is no log although the MANIFEST expects one: an open does not miss it.
    pub fn is_lost_log(&self) -> bool {
        self.what
            .starts_with("missing: the MANIFEST says that this log")
    }

    /// Returns whether an open succeeds without what is at stake, and does not know of it.
    pub fn is_lost(&self) -> bool {
        let is_other_manifest =
            self.file == filenames::CURRENT_FILE && self.damage == Damage::Swapped;
        self.is_lost_log() || is_other_manifest || self.what.ends_with(NOT_THE_END)
    }

    /// Returns whether a crash explains it, so that nothing that was durable is concerned, or it has no effect.
    pub fn is_harmless(&self) -> bool {
        self.damage == Damage::Torn || self.file == filenames::IDENTITY_FILE
    }
}

/// Explains all findings but plain remarks. `can_give_up` finds out whether the directory opens without what
/// lies after damage of its logs.
pub fn explain(
    i: &Inventory,
    places: &Places,
    findings: &[Finding],
    can_give_up: &dyn Fn() -> bool,
) -> Vec<Case> {
    let mut out: Vec<Case> = Vec::new();
    let manifest_is_sound = !findings
        .iter()
        .any(|f| f.grade == Grade::Damage && f.file == i.manifest);
    let known = OnceCell::new();
    let can_give_up = || *known.get_or_init(|| manifest_is_sound && can_give_up());
    for (n, f) in findings.iter().enumerate() {
        if is_consequence(findings.get(n.wrapping_sub(1)), f) {
            continue;
        }
        let torn = f.grade == Grade::Note && f.what.starts_with("torn");
        let name = Path::new(&f.file).file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let kind = parse_file_name(&name);
        let is_advice = matches!(kind, Some(FileKind::Options(_) | FileKind::Identity));
        if f.grade == Grade::Note && !torn && !is_advice {
            continue;
        }
        let mut case = Case {
            file: f.file.clone(),
            offset: f.offset,
            damage: classify(i, places, f, torn, kind),
            what: f.what.clone(),
            stake: String::new(),
            way_out: String::new(),
            spares_data: is_advice,
            probe: None,
        };
        match kind {
            Some(FileKind::Table(n)) => about_table(i, places, n, &mut case),
            Some(FileKind::Log(n)) => about_log(i, n, &can_give_up, &mut case),
            Some(FileKind::Manifest(_)) => about_manifest(i, &mut case),
            // None is there, so it has no number.
            None if case.file == i.manifest => about_manifest(i, &mut case),
            Some(FileKind::Current) => about_current(i, &mut case),
            Some(FileKind::Blob(n)) => about_blob(i, places, n, &mut case),
            Some(FileKind::Options(_)) => about_options(i, &mut case),
            Some(FileKind::Identity) => {
                case.stake = "nothing: the id in the MANIFEST counts".to_string();
                case.way_out = "nothing to do".to_string();
            }
            _ if disk::is_disk(i, &case.file) => disk::about_damage(i, &mut case),
            _ => {
                case.way_out = format!("restore {} from a copy", case.file);
            }
        }
        if case.damage == Damage::Unchecked && case.what.starts_with(IO_ERROR) {
            case.way_out = let_it_be_read(i, &case);
        }
        out.push(case);
    }
    if out
        .iter()
        .any(|c| c.way_out.contains("--salvage") || c.way_out.contains("printf"))
        && !has_records(i)
    {
        // Both begin with what a MANIFEST says.
        for case in &mut out {
            if case.way_out.contains("--salvage") || case.way_out.contains("printf") {
                case.way_out = no_manifest(i);
            }
        }
    }
    out.extend(exchanged_blobs(i, places, &out));
    out.extend(other_manifests(i));
    out.extend(other_orders(i));
    out.extend(logs_out_of_order(i));
    out
}

/// Blob files that are whole and hold the values of others.
fn exchanged_blobs(i: &Inventory, places: &Places, found: &[Case]) -> Vec<Case> {
    let families = i.families.values().filter(|f| !f.blobs.is_empty());
    let numbers = families.flat_map(|f| exchanged(i, places, f));
    let cases = numbers.map(|n| (n, filenames::blob_file_name(n)));
    let cases = cases.filter(|(_, name)| found.iter().all(|c| c.file != *name));
    cases
        .map(|(n, file)| {
            let mut case = Case {
                file,
                offset: None,
                damage: Damage::Swapped,
                what: "holds values of other keys than the tables refer to".to_string(),
                stake: String::new(),
                way_out: String::new(),
                spares_data: false,
                probe: None,
            };
            about_blob(i, places, n, &mut case);
            case
        })
        .collect()
}

/// Returns whether a finding is about the rest of a record whose beginning the finding before it dropped: one flipped byte is
/// one case.
fn is_consequence(before: Option<&Finding>, f: &Finding) -> bool {
    let is_of_same = before.is_some_and(|b| b.file == f.file && b.grade == Grade::Damage);
    is_of_same && f.what.starts_with(HEADLESS)
}

/// Returns what makes a file readable that the system refuses to read.
fn let_it_be_read(i: &Inventory, case: &Case) -> String {
    let path = shell_word(&i.dir.join(&case.file));
    if case.what.contains("Too many open files") {
        return "raise the limit of open files: ulimit -n; then ask again".to_string();
    }
    if case.what.contains("Permission denied") {
        return format!("check owner and permissions: ls -l {path}; then ask again");
    }
    format!("check the file and the device: ls -l {path}; then ask again")
}

/// Logs that cannot be replayed where their numbers put them.
fn logs_out_of_order(i: &Inventory) -> Vec<Case> {
    let logs: Vec<u64> = i.live_logs().map(|l| l.0).collect();
    let arranged = Arranged::of(&*crate::reading::env().fs, i, &logs);
    let case = |(log, what)| Case {
        file: filenames::log_file_name(log),
        offset: None,
        damage: Damage::Swapped,
        what,
        stake: "its updates, and those of the logs behind it".to_string(),
        way_out: format!(
            "take it away if it is a copy, or of another database, put it back if it is exchanged; else take all \
             writes that can be read, in their order: {}",
            copy_what_is_left(i)
        ),
        spares_data: false,
        probe: None,
    };
    arranged.obstacles().into_iter().map(case).collect()
}

/// Returns what an open is refused for, if none of the cases can be why.
pub fn unexplained(i: &Inventory, rehearsal: &Rehearsal, cases: &[Case]) -> Option<Case> {
    if cases.iter().any(|c| !c.is_harmless() && !c.spares_data) {
        return None;
    }
    let (error, (path, offset)) = (rehearsal.error.as_ref()?, rehearsal.damaged.as_ref()?);
    let file = path.file_name()?.to_string_lossy().into_owned();
    if file == i.manifest {
        let mut case = Case {
            file,
            offset: *offset,
            damage: Damage::Inconsistent,
            what: error.clone(),
            stake: String::new(),
            way_out: String::new(),
            spares_data: false,
            probe: None,
        };
        if i.manifest_bytes == 0 {
            case.damage = Damage::Truncated;
        }
        about_manifest(i, &mut case);
        return Some(case);
    }
    Some(Case {
        file,
        offset: *offset,
        damage: Damage::Inconsistent,
        what: error.clone(),
        stake: "all that an open would read".to_string(),
        way_out: format!(
            "take the file away if it is a copy, or one of another database; else copy what can be read: {}",
            copy_what_is_left(i)
        ),
        spares_data: false,
        probe: None,
    })
}

/// MANIFESTs that describe tables which are here, where the current one knows of none: it was made anew in their
/// place.
fn other_manifests(i: &Inventory) -> Vec<Case> {
    let has_tables = |i: &Inventory| i.families.values().any(|f| !f.files.is_empty());
    // Behind a kill while a database is opened for the first time, the next MANIFEST knows tables that are in logs
    // still; a current one that was just made knows of no log either.
    let was_used = i.edits > 1 && i.live_logs().any(|(_, size)| size > 0);
    if has_tables(i) || was_used {
        return Vec::new();
    }
    let others = i.listing.keys().filter(|name| {
        matches!(parse_file_name(name), Some(FileKind::Manifest(_))) && **name != i.manifest
    });
    let cases = others.filter_map(|name| {
        let other = Inventory::read_manifest_file(&i.dir, name).ok()?;
        let named = other.families.values().flat_map(|f| f.files.values());
        let is_here = |f: &&NewFile| other.listing.contains_key(&tables::name(&other, f.number));
        let (mut tables, mut size) = (0, 0);
        for f in named.filter(is_here) {
            tables += 1;
            size += f.size;
        }
        (tables > 0).then(|| Case {
            file: filenames::CURRENT_FILE.to_string(),
            offset: None,
            damage: Damage::Swapped,
            what: format!(
                "names {}, which knows of no table, and {name} describes {} that are here",
                i.manifest,
                crate::term::counted(tables, "table")
            ),
            stake: format!("all that is in them, {}", bytes(size)),
            way_out: format!(
                "if nothing was written since that should stay: printf '{name}\\n' > {}",
                shell_word(&i.dir.join(filenames::CURRENT_FILE))
            ),
            spares_data: false,
            probe: None,
        })
    });
    cases.collect()
}

/// Families of which the OPTIONS file says another order than the MANIFEST.
fn other_orders(i: &Inventory) -> Vec<Case> {
    let file = i.options.as_ref();
    let Some((file, parsed)) = file.and_then(|f| Some((f, f.parsed.as_ref().ok()?))) else {
        return Vec::new();
    };
    let other = i.families.values().filter_map(|family| {
        let said = &parsed.cf(&family.name)?.options.comparator;
        (*said != family.comparator).then(|| {
            let mut case = Case {
                file: file.name.clone(),
                offset: None,
                damage: Damage::Inconsistent,
                what: format!(
                    "comparator of family {} is {said}, the MANIFEST says {}, which counts",
                    family.name, family.comparator
                ),
                stake: String::new(),
                way_out: String::new(),
                spares_data: true,
                probe: None,
            };
            about_options(i, &mut case);
            case
        })
    });
    other.collect()
}

/// The commands that copy what can be read into a new directory.
pub fn copy_what_is_left(i: &Inventory) -> String {
    let name = |suffix: &str| {
        let mut path = i.dir.clone().into_os_string();
        path.push(suffix);
        shell_word(Path::new(&path))
    };
    format!(
        "spanlith db dump --salvage --db {} {text} && spanlith db load --create --dump --db {} {text}",
        shell_word(&i.dir),
        name(".salvaged"),
        text = name(".tsv"),
    )
}

fn classify(
    i: &Inventory,
    places: &Places,
    f: &Finding,
    torn: bool,
    kind: Option<FileKind>,
) -> Damage {
    if torn {
        return Damage::Torn;
    }
    let is_missing = f.what.starts_with("missing") && !f.what.starts_with(HEADLESS);
    if is_missing || f.what.contains("No such file") {
        return Damage::Missing;
    }
    if f.grade == Grade::Unchecked || f.what.starts_with(IO_ERROR) {
        return Damage::Unchecked;
    }
    if f.what.contains("unique ID") {
        return Damage::Swapped;
    }
    if f.what.contains("blobs, the MANIFEST says") {
        return Damage::Swapped;
    }
    let path = match kind {
        Some(FileKind::Blob(n)) => {
            let path = blob_path(i, places, n);
            if f.what.contains("bytes, the MANIFEST says") && is_whole_blob_file(&path) {
                return Damage::Swapped;
            }
            Some((path, None))
        }
        Some(FileKind::Table(n)) => find_table(i, n).map(|(family, t)| {
            let path = tables::path(i, places, family, t);
            (path, Some(t.size))
        }),
        Some(FileKind::Log(n)) => {
            let path = i.wal_dir.join(filenames::log_file_name(n));
            Some((path, None))
        }
        _ => Some((i.dir.join(&f.file), None)),
    };
    let Some((path, recorded)) = path else {
        return Damage::Inconsistent;
    };
    let size = crate::reading::env().fs.size(&path).unwrap_or(0);
    if recorded.is_some_and(|r| size < r) || size == 0 {
        return Damage::Truncated;
    }
    if recorded.is_some_and(|r| size > r) {
        return Damage::Swapped;
    }
    if kind == Some(FileKind::Identity) || f.what.contains("which is not there") {
        return Damage::Inconsistent;
    }
    if f.what.contains("reaches beyond the end") || synced(&f.what).is_some_and(|n| size < n) {
        return Damage::Truncated;
    }
    match f.offset {
        Some(offset) if has_zeroed_sector(&path, offset) => Damage::Zeroed,
        _ if f.what.contains("unknown tag") || f.what.contains("VersionEdit") => {
            Damage::Inconsistent
        }
        _ => Damage::Flipped,
    }
}

/// Where a blob file is.
fn blob_path(i: &Inventory, places: &Places, number: u64) -> PathBuf {
    let family = i.families.values().find(|f| f.blobs.contains_key(&number));
    let dir = family.and_then(|f| places.dir(&f.name, 0));
    dir.unwrap_or(&i.dir)
        .join(filenames::blob_file_name(number))
}

/// Returns whether a blob file is as it was written, if perhaps under another name.
fn is_whole_blob_file(path: &Path) -> bool {
    let file = crate::reading::env().fs.open_random(path);
    file.is_ok_and(|file| walk_blobs(&file, &mut |_, _, _| Ok(())).is_ok())
}

/// How many bytes a finding says had been synced.
fn synced(what: &str) -> Option<u64> {
    let (before, _) = what.split_once(" bytes of ")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Returns whether one of the sectors from `offset` on reads as zeros: a page that was never written.
fn has_zeroed_sector(path: &Path, offset: u64) -> bool {
    let Ok(file) = crate::reading::env().fs.open_random(path) else {
        return false;
    };
    let first = offset.next_multiple_of(SECTOR as u64);
    let mut sectors = vec![0u8; SECTOR * 8];
    let n = file.read_at(first, &mut sectors).unwrap_or(0);
    sectors[..n]
        .chunks_exact(SECTOR)
        .any(|s| s.iter().all(|b| *b == 0))
}

/// The table of that number.
fn find_table(i: &Inventory, number: u64) -> Option<(&Family, &NewFile)> {
    i.families.values().find_map(|family| {
        let found = family.files.values().find(|f| f.number == number)?;
        Some((family, found))
    })
}

/// A key as messages show it.
pub(super) fn key(bytes: &[u8]) -> String {
    show_short(bytes, KEY)
}

fn about_table(i: &Inventory, places: &Places, number: u64, case: &mut Case) {
    let Some((family, f)) = find_table(i, number) else {
        case.way_out = "nothing needs the file: it may go".to_string();
        return;
    };
    let place = format!(
        "level {} of family {}",
        f.level,
        show(family.name.as_bytes(), false)
    );
    let all = format!(
        "all of a table in {place}, {}: keys {} .. {}",
        bytes(f.size),
        key(tables::user(&f.smallest)),
        key(tables::user(&f.largest))
    );
    case.stake = match block_range(i, places, family, f, case.offset) {
        Some(text) => format!("{text} in {place}"),
        None => all.clone(),
    };
    if case.what.starts_with("its hash index") {
        case.damage = Damage::Inconsistent;
        case.spares_data = true;
        case.stake = format!("no entry here; in RocksDB, {all}");
        case.way_out = format!(
            "rewrite it: spanlith db compact --force-bottommost --cf {} --db {}",
            shell_word(Path::new(&family.name)),
            shell_word(&i.dir)
        );
        return;
    }
    if let Some((other, is_exchanged)) = really(i, places, family, f) {
        case.damage = Damage::Swapped;
        case.what = format!(
            "{}; it is {} of this database",
            case.what,
            tables::name(i, other)
        );
        let path = |number| shell_word(&i.dir.join(tables::name(i, number)));
        let (here, there) = (path(number), path(other));
        // The other one's case says the same.
        case.way_out = match is_exchanged {
            true => format!(
                "give both their names back: mv {here} {here}.0 && mv {there} {here} && mv {here}.0 {there}"
            ),
            false => format!("it belongs to {there}; bring {here} back from a backup or a replica"),
        };
        return;
    }
    case.way_out = match case.damage {
        Damage::Unchecked => "nothing is known to be wrong; see what this build lacks".to_string(),
        Damage::Missing => format!(
            "bring {} back from a backup, or from the directory it was moved to; else copy what can be \
             read: {}",
            case.file,
            copy_what_is_left(i)
        ),
        _ => format!(
            "restore {} (exactly {} bytes) from a backup or a replica; else copy what can be read: {}",
            case.file,
            f.size,
            copy_what_is_left(i)
        ),
    };
}

/// The number of the table of this database that lies under the name of another one, and whether that one lies under
/// its name in turn. By the ids in their properties.
fn really(i: &Inventory, places: &Places, family: &Family, f: &NewFile) -> Option<(u64, bool)> {
    let id_at = |family: &Family, f: &NewFile| {
        let reader = crate::dump::open_table(&tables::path(i, places, family, f)).ok()?;
        Some(reader.properties().unique_id())
    };
    let own = id_at(family, f).filter(|&id| id != f.unique_id && f.unique_id != [0, 0])?;
    let mut all = i
        .families
        .values()
        .flat_map(|family| family.files.values().map(move |f| (family, f)));
    let (other_family, other) = all.find(|(_, other)| other.unique_id == own)?;
    let is_exchanged = id_at(other_family, other) == Some(f.unique_id);
    Some((other.number, is_exchanged))
}

/// Keys and entries of the data block at an offset.
fn block_range(
    i: &Inventory,
    places: &Places,
    family: &Family,
    f: &NewFile,
    offset: Option<u64>,
) -> Option<String> {
    let offset = offset?;
    let reader = tables::open(i, places, family, f).ok()?;
    let dump = reader.dump().ok()?;
    let at = dump
        .index
        .iter()
        .position(|(_, handle)| handle.offset == offset)?;
    let bound = |separator: &Vec<u8>| match dump.index_keys_are_user_keys {
        true => separator.clone(),
        false => split_internal(separator).map_or(separator.clone(), |(user, _)| user.to_vec()),
    };
    let before = at.checked_sub(1).and_then(|n| dump.index.get(n));
    let from = before.map_or_else(
        || format!("from {}", key(tables::user(&f.smallest))),
        |(separator, _)| format!("behind {}", key(&bound(separator))),
    );
    let upto = dump
        .index
        .get(at)
        .map(|(separator, _)| key(&bound(separator)))?;
    let blocks = dump.index.len().max(1) as u64;
    let entries = dump.properties.num_entries.div_ceil(blocks);
    Some(format!(
        "some {} entries {from} up to {upto}",
        count(entries)
    ))
}

fn about_log(i: &Inventory, number: u64, can_give_up: &dyn Fn() -> bool, case: &mut Case) {
    if case.is_lost_log() {
        case.damage = Damage::Missing;
        case.stake = "the writes since the last flush; how many cannot be told".to_string();
        case.way_out = format!(
            "put it back from where it was moved to, or name its directory: spanlith doctor --wal-dir DIR --db {}; \
             opened without it the database has what had been flushed, and goes on from there",
            shell_word(&i.dir)
        );
        return;
    }
    let behind = Behind::read(i, number, case.offset);
    if case.damage == Damage::Torn && behind.updates > 0 {
        case.damage = Damage::Flipped;
        case.what = format!(
            "{}; {NOT_THE_END}",
            case.what.replace("torn end, as after a crash: ", "")
        );
    }
    case.stake = match (case.damage, behind.updates) {
        (Damage::Torn, _) => "a write that was not acknowledged as synced, or none".to_string(),
        (Damage::Missing, 0) => "all writes of the log".to_string(),
        (_, 0) => "the writes of this place; none can be read behind it".to_string(),
        (_, n) => format!(
            "the writes of this place and {} updates in {} batches behind it (sequence numbers {} to {}; \
             first keys {})",
            count(n),
            count(behind.batches),
            behind.first,
            behind.last,
            behind.keys.join(", ")
        ),
    };
    case.way_out = match case.damage {
        Damage::Torn => "nothing to do: opening cuts it off".to_string(),
        _ => {
            // It opens nothing if the MANIFEST is damaged, too.
            let give_up = match case.what.contains("synced") && can_give_up() {
                true => format!(
                    "; or open without them{}: spanlith db flush --give-up-damage --db {}",
                    match case.damage {
                        Damage::Missing => "",
                        _ => ", which keeps the end of the log in lost/",
                    },
                    shell_word(&i.dir)
                ),
                false => String::new(),
            };
            format!(
                "restore {} from a copy; else take all writes that can be read, those behind the damage \
                 too: {}{give_up}",
                case.file,
                copy_what_is_left(i)
            )
        }
    };
}

fn about_manifest(i: &Inventory, case: &mut Case) {
    let older = i.listing.keys().filter(|name| {
        matches!(parse_file_name(name), Some(FileKind::Manifest(_))) && **name != i.manifest
    });
    let older: Vec<&str> = older.map(String::as_str).collect();
    case.stake = match case.damage {
        Damage::Torn => "a change of files that was not finished".to_string(),
        _ => format!(
            "which files make up the database from here on; {} tables are known up to here",
            i.families.values().map(|f| f.files.len()).sum::<usize>()
        ),
    };
    case.way_out = match (case.damage, older.is_empty()) {
        (Damage::Torn, _) => "nothing to do: opening leaves it out".to_string(),
        _ if !has_records(i) => no_manifest(i),
        (_, is_only) => format!(
            "restore it from a backup{}; else copy what can be read: {}",
            match is_only {
                true => String::new(),
                false => format!(" ({} here may hold an earlier state)", older.join(", ")),
            },
            copy_what_is_left(i),
        ),
    };
}

fn about_options(i: &Inventory, case: &mut Case) {
    case.stake = "the options only, no entry".to_string();
    let older = i.listing.keys().filter(|name| {
        matches!(parse_file_name(name), Some(FileKind::Options(_))) && **name != case.file
    });
    let older: Vec<&str> = older.map(String::as_str).collect();
    case.way_out = format!(
        "correct it by hand{}, or open with defaults, which writes a new one: spanlith db flush \
         --default-options --db {}",
        match older.is_empty() {
            true => String::new(),
            false => format!(" ({} is an earlier one)", older.join(", ")),
        },
        shell_word(&i.dir)
    );
}

fn about_blob(i: &Inventory, places: &Places, number: u64, case: &mut Case) {
    let family = i.families.values().find(|f| f.blobs.contains_key(&number));
    let Some(family) = family else {
        case.way_out = "nothing needs the file: it may go".to_string();
        return;
    };
    let refers = Referring::find(i, places, family, number, case.offset);
    let of_family = show(family.name.as_bytes(), false);
    // A record belongs to one key, so a file of which one is damaged has the others.
    case.probe = refers.at.clone().map(|key| (family.name.clone(), key));
    case.stake = match (&refers.at, refers.values) {
        (Some(at), _) => format!("the value of {} in family {of_family}", key(at)),
        (None, 0) => format!("values of family {of_family}"),
        (None, n) => format!(
            "{} values of family {of_family}, keys {} .. {}",
            count(n),
            key(&refers.first),
            key(&refers.last)
        ),
    };
    case.way_out = format!(
        "restore {} from a backup or a replica; else copy what can be read: {}",
        case.file,
        copy_what_is_left(i)
    );
}

fn about_current(i: &Inventory, case: &mut Case) {
    case.stake = "nothing but the name of the MANIFEST".to_string();
    case.way_out = format!(
        "if {} is the right one: printf '{}\\n' > {}",
        i.manifest,
        i.manifest,
        shell_word(&i.dir.join(filenames::CURRENT_FILE))
    );
}
