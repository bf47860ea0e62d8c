//! `db dump --salvage`: what a damaged directory still holds.
//!
//! Where no MANIFEST can be read, one is made of the tables ([`super::remake`]).
//! The directory is read through an [`Overlay`](crate::overlay::Overlay), in which [`super::mend`] repairs it as
//! far as reading needs: CURRENT names the newest MANIFEST, MANIFEST and logs consist of the records that can
//! be read, and tables that cannot be opened are not part of it. Ways to do that are tried until one opens.
//! Where a block of data cannot be
//! read, the entries that other tables hold in its range take its place, and where a value cannot be
//! read its key is left out. Nothing below changes, and everything that is missing is named.
//!
//! An entry that is lost may have been newer than what is found: an older value, or one that had been deleted,
//! may come to light.

use super::dump::Lines;
use super::log_order::Arranged;
use super::mend::{Mended, Order, Records, Way, has_records, mend};
use super::open::Target;
use super::remake::{caveat, remake};
use super::verify::{self, Scope};
use crate::bytes::show_short;
use crate::fail::{At, Failure};
use crate::inventory::{Family, Inventory};
use crate::places::Places;
use crate::tables;
use crate::term;
use spanlith::inspect::{LogOrigin, log_origin};
use spanlith::version::{FileKind, NewFile, filenames, parse_file_name};
use spanlith::{Cf, Comparator, ReadOptions};
use spanlith_base::keys::split_internal;
use spanlith_env::Env;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Characters of a key that are shown.
const KEY: usize = 40;
/// Keys whose values are lost that are named.
const KEYS_NAMED: u64 = 10;

/// A data block that cannot be read.
#[derive(Debug)]
struct Gap {
    /// Name of the family.
    family: String,
    /// Number of the table.
    table: u64,
    /// No key of the block is above it.
    last: Vec<u8>,
}

/// A directory made readable.
pub struct Salvage {
    /// Families by name, in the order of their ids.
    pub families: Vec<String>,
    /// With all tables that open.
    whole: Env,
    /// Without those that have unreadable blocks, too; `None` if there are none.
    rest: Option<Env>,
    gaps: Vec<Gap>,
    /// Places that were left out.
    pub lost: u64,
}

impl Salvage {
    /// Looks for damage and works around it, and says what that leaves out.
    ///
    /// # Errors
    /// `Failure` if there is nothing that could be read.
    pub fn prepare(target: &Target, places: &Places) -> anyhow::Result<Self> {
        let wal_dir = target.how.files.wal_dir.as_deref();
        let damaged = Inventory::read_leniently(&target.db, wal_dir).at(&target.db)?;
        let nothing = || {
            Failure::new(
                format!(
                    "{}: no MANIFEST, no table and no log that can be read",
                    target.db.display()
                ),
                format!(
                    "check the path: ls -l {}",
                    crate::fail::shell_word(&target.db)
                ),
            )
        };
        let mut damaged = damaged.ok_or_else(nothing)?;
        let mut made = None;
        if !has_records(&damaged) {
            let remade = remake(&damaged).at(&target.db)?.ok_or_else(nothing)?;
            made = Some(remade.left_out);
            damaged = remade.inventory;
        }
        let is_cut = damaged.manifest_end < damaged.manifest_bytes;
        let Some(chosen) = choose(target, places, &damaged)? else {
            return Err(nothing().into());
        };
        let Trial { way, i, .. } = chosen;
        let progress = term::bar(0, "B", "looking for damage");
        let scope = Scope {
            level: spanlith::VerifyLevel::Checksums,
            all_of_logs: true,
            places: Some(places),
            ..Scope::default()
        };
        let report = verify::check(&i, scope, &progress);
        progress.finish_and_clear();
        let mut out = Self {
            families: i.families.values().map(|f| f.name.clone()).collect(),
            whole: Env::system(),
            rest: None,
            gaps: Vec::new(),
            lost: 0,
        };
        if let Some(left_out) = made {
            tell!("no MANIFEST can be read: tables and logs are taken as they are");
            out.miss(&caveat(&damaged));
            for what in &left_out {
                out.miss(what);
            }
        }
        let mut is_told = false;
        for f in damaged.findings.iter().chain(report.problems()) {
            let kind = parse_file_name(&f.file);
            let is_manifest = matches!(kind, Some(FileKind::Manifest(_)));
            // A fact that the first finding about it explains need not be said again.
            if matches!(kind, Some(FileKind::Log(_))) || (is_manifest && !is_told) {
                is_told |= is_manifest;
                let at = f.offset.map_or(String::new(), |o| format!(" at {o}"));
                // How much readers drop is not how much is lost here.
                let what = f.what.split(" (").next().unwrap_or_default();
                out.miss(&format!("some of {}{at}: {what}", f.file));
            }
        }
        for what in &chosen.left_out {
            out.miss(what);
        }
        let mut broken: Vec<(u32, u32, u64)> = Vec::new();
        let mut holed: Vec<(u32, u32, u64)> = Vec::new();
        for (id, family) in &i.families {
            for f in family.files.values() {
                if let Some(why) = chosen.broken.get(&(*id, f.level, f.number)) {
                    broken.push((*id, f.level, f.number));
                    out.miss(&format!(
                        "table {:06}, keys {} .. {} in level {} of family {}: {why}",
                        f.number,
                        show_short(tables::user(&f.smallest), KEY),
                        show_short(tables::user(&f.largest), KEY),
                        f.level,
                        family.name,
                    ));
                    continue;
                }
                let name = tables::path(&i, places, family, f);
                let in_table = report
                    .findings
                    .iter()
                    .filter(|finding| Path::new(&finding.file).file_name() == name.file_name());
                let before = out.gaps.len();
                for offset in in_table.filter_map(|finding| finding.offset) {
                    out.gaps.extend(gap(&i, places, family, f, offset));
                }
                if out.gaps.len() > before {
                    holed.push((*id, f.level, f.number));
                }
            }
        }
        let is_short = is_cut || is_told || chosen.is_rewritten;
        if is_short {
            out.miss_strangers(&i);
        }
        doubt_logs(&i);
        out.whole = on(&mend(&damaged, way, &broken, is_short).at(&target.db)?);
        if !holed.is_empty() {
            broken.extend(holed);
            out.rest = Some(on(&mend(&damaged, way, &broken, is_short).at(&target.db)?));
        }
        Ok(out)
    }

    /// Names the tables that a MANIFEST without all its records does not name.
    fn miss_strangers(&mut self, i: &Inventory) {
        let named = i.families.values().flat_map(|f| f.files.keys());
        let named: BTreeSet<u64> = named.map(|key| key.1).collect();
        for name in i.listing.keys() {
            if let Some(FileKind::Table(n)) = parse_file_name(name)
                && !named.contains(&n)
                && let Ok(reader) = crate::dump::open_table(&i.dir.join(name))
            {
                let p = reader.properties();
                self.miss(&format!(
                    "{name}, {} entries of family {}, which no record names; it may be obsolete: spanlith sst dump \
                     shows it",
                    term::count(p.num_entries),
                    p.column_family_name,
                ));
            }
        }
    }

    fn miss(&mut self, what: &str) {
        self.lost += 1;
        tell!("left out: {what}");
    }

    /// Writes all that can be read of a family.
    ///
    /// # Errors
    /// Of opening it, and of writing.
    pub fn family(&mut self, target: &Target, lines: &mut Lines) -> anyhow::Result<()> {
        let cf = target.open_damaged(&self.whole)?;
        lines.family(&cf)?;
        let rest = match &self.rest {
            Some(env) => Some(target.open_damaged(env)?),
            None => None,
        };
        let is_bytewise = cf.comparator().name() == Comparator::Bytewise.name();
        let mut values_lost = 0u64;
        let mut from: Option<Vec<u8>> = None;
        loop {
            let (last, error) = match walk(&cf, target, from.as_deref(), None, lines)? {
                Stop::End => break,
                Stop::Value(key, why) => {
                    values_lost += 1;
                    if values_lost <= KEYS_NAMED {
                        let key = show_short(&key, KEY);
                        self.miss(&format!("value of {key} in family {}: {why}", target.cf));
                    } else {
                        self.lost += 1;
                    }
                    from = Some(behind(key));
                    continue;
                }
                Stop::Broken(last, why) => (last, why),
            };
            let last = last.or_else(|| from.clone());
            let gaps = self.gaps.iter().filter(|g| g.family == target.cf);
            let next = gaps
                .filter(|g| last.as_ref().is_none_or(|last| g.last > *last))
                .min_by(|a, b| a.last.cmp(&b.last));
            let (Some(gap), Some(rest), true) = (next, &rest, is_bytewise) else {
                let key = last.map_or("the first key".to_string(), |k| show_short(&k, KEY));
                self.miss(&format!("family {} from {key} on: {error}", target.cf));
                break;
            };
            let text = format!(
                "a block of table {:06}, keys up to {} in family {}: {error}",
                gap.table,
                show_short(&gap.last, KEY),
                target.cf
            );
            let end = behind(gap.last.clone());
            let begin = last.map(behind);
            // A failure there is reported by the steps that follow.
            let _ = walk(rest, target, begin.as_deref(), Some(&end), lines)?;
            from = Some(end);
            self.miss(&text);
        }
        if values_lost > KEYS_NAMED {
            tell!(
                "left out: {} more values of family {}",
                term::count(values_lost - KEYS_NAMED),
                target.cf
            );
        }
        Ok(())
    }
}

/// One way to make the directory readable, and what it comes to.
struct Trial {
    way: Way,
    i: Inventory,
    left_out: Vec<String>,
    is_rewritten: bool,
    /// Tables that do not open, by family, level and number, and why.
    broken: BTreeMap<(u32, u32, u64), String>,
    /// Bytes of those that do.
    bytes: u64,
    /// Why it does not open, if damage is why.
    refusal: Option<String>,
}

/// The way that is tried first of those in which most opens; `None` if no record of the MANIFEST can be read.
fn choose(target: &Target, places: &Places, damaged: &Inventory) -> anyhow::Result<Option<Trial>> {
    let is_cut = damaged.manifest_end < damaged.manifest_bytes;
    let logs: Vec<u64> = damaged.logs.keys().copied().collect();
    let orders: &[Order] = match Arranged::of(&*Env::system().fs, damaged, &logs).is_sound() {
        true => &[Order::Numbers],
        false => &[Order::Updates, Order::Numbers],
    };
    let mut best: Option<Trial> = None;
    for records in [Records::Readable, Records::Sound] {
        if records == Records::Sound && !is_cut {
            continue;
        }
        for &order in orders {
            let way = Way { records, order };
            let trial = Trial::run(target, places, damaged, way)?;
            let (opens, is_whole) = (trial.refusal.is_none(), trial.broken.is_empty());
            if trial.i.edits > 0
                && best
                    .as_ref()
                    .is_none_or(|b| (opens, trial.bytes) > (b.refusal.is_none(), b.bytes))
            {
                best = Some(trial);
            }
            if opens && is_whole && best.is_some() {
                return Ok(best);
            }
            if opens {
                break;
            }
        }
    }
    Ok(best)
}

/// The environment with a directory that was mended.
fn on(mended: &Mended) -> Env {
    Env {
        fs: mended.fs.clone(),
        ..Env::system()
    }
}

impl Trial {
    fn run(
        target: &Target,
        places: &Places,
        damaged: &Inventory,
        way: Way,
    ) -> anyhow::Result<Self> {
        let mended = mend(damaged, way, &[], false).at(&target.db)?;
        let wal_dir = target.how.files.wal_dir.as_deref();
        let i = Inventory::read_on(&on(&mended), &target.db, wal_dir).at(&target.db)?;
        let (mut broken, mut bytes) = (BTreeMap::new(), 0u64);
        for (id, family) in &i.families {
            for f in family.files.values() {
                match check_table(&i, places, family, f) {
                    Ok(()) => bytes = bytes.saturating_add(f.size),
                    Err(why) => {
                        broken.insert((*id, f.level, f.number), why);
                    }
                }
            }
        }
        let left_out: Vec<(u32, u32, u64)> = broken.keys().copied().collect();
        let rehearsed = mend(damaged, way, &left_out, true).at(&target.db)?;
        let opened = target.open_damaged(&on(&rehearsed));
        let refusal = opened.err().map(|e| format!("{e:#}"));
        Ok(Self {
            way,
            i,
            left_out: mended.left_out,
            is_rewritten: mended.is_rewritten,
            broken,
            bytes,
            // No other way helps against a fault that this program does not know.
            refusal: refusal.filter(|e| e.contains("Corruption")),
        })
    }
}

/// Names logs that may be of another database though nothing speaks against replaying them.
fn doubt_logs(i: &Inventory) {
    let id = i.db_id.as_deref().or(i.identity.as_deref());
    let Some(id) = id else { return };
    for (number, size) in i.live_logs() {
        let name = filenames::log_file_name(number);
        let known = i.log_ends.get(&number).filter(|&&end| end > 0);
        let why = match (
            log_origin(&Env::system(), &i.wal_dir.join(&name), number, id),
            known,
        ) {
            (Ok(LogOrigin::Another), _) => "its notes are not of this database".to_string(),
            (Ok(LogOrigin::Unknown), Some(&end)) if end != size => {
                format!("it has {size} bytes, {end} had been written, and no note of this database")
            }
            _ => continue,
        };
        tell!("doubtful: {name} may be of another database: {why}; what it holds is taken");
    }
}

/// Where a walk ended.
enum Stop {
    End,
    /// At a value that cannot be read.
    Value(Vec<u8>, String),
    /// Behind this key.
    Broken(Option<Vec<u8>>, String),
}

/// The key next to `key` in the bytewise order.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// Writes the entries of a range until something cannot be read.
fn walk(
    cf: &Cf,
    target: &Target,
    from: Option<&[u8]>,
    upto: Option<&[u8]>,
    lines: &mut Lines,
) -> anyhow::Result<Stop> {
    let mut options = ReadOptions::new().fill_cache(false);
    options.allow_unprepared_value = true;
    options.upper = upto.map(<[u8]>::to_vec);
    let mut cursor = cf.cursor(options);
    let mut last = None;
    let mut on = match from {
        Some(key) => cursor.seek(key),
        None => cursor.seek_to_first(),
    };
    loop {
        match on {
            Ok(true) => {}
            Ok(false) => return Ok(Stop::End),
            Err(e) => return Ok(Stop::Broken(last, e.to_string())),
        }
        let key = cursor.key().to_vec();
        if let Err(e) = cursor.prepare_value() {
            return Ok(Stop::Value(key, e.to_string()));
        }
        lines.entry(&key, target.value(cursor.value()))?;
        last = Some(key);
        on = cursor.next();
    }
}

/// Why a table cannot be part of a database that opens.
fn check_table(
    i: &Inventory,
    places: &Places,
    family: &Family,
    f: &NewFile,
) -> std::result::Result<(), String> {
    let path = tables::path(i, places, family, f);
    let size = Env::system().fs.size(&path).map_err(|e| e.to_string())?;
    if size != f.size {
        return Err(format!("{size} bytes, the MANIFEST says {}", f.size));
    }
    let reader = tables::open(i, places, family, f).map_err(|e| e.to_string())?;
    reader.dump().map(|_| ()).map_err(|e| e.to_string())
}

/// The data block of a table that begins at an offset.
fn gap(i: &Inventory, places: &Places, family: &Family, f: &NewFile, offset: u64) -> Option<Gap> {
    let dump = tables::open(i, places, family, f).ok()?.dump().ok()?;
    let (separator, _) = dump.index.iter().find(|(_, h)| h.offset == offset)?;
    let last = match dump.index_keys_are_user_keys {
        true => separator.clone(),
        false => split_internal(separator).map_or(separator.clone(), |(user, _)| user.to_vec()),
    };
    Some(Gap {
        family: family.name.clone(),
        table: f.number,
        last,
    })
}
