//! Comparing a database with the reference.

use super::history::{Contents, History, difference, short};
use super::setup::Setup;
use spanlith::{Cf, Db, ErrorKind, ReadOptions, Snapshot};

/// Before what reads say that contradicts itself, unlike errors that they return.
pub const CONTRADICTION: &str = "contradiction: ";

/// Describes what differed, in words.
pub type Check = Result<(), String>;

/// Returns what a flush answered. One that does not wait may be told to try again while writes are stopped.
///
/// # Errors
/// Every other error.
pub fn flushed(wait: bool, answer: spanlith::Result<()>) -> spanlith::Result<()> {
    match answer {
        Err(e) if !wait && e.kind() == ErrorKind::TryAgain => Ok(()),
        answer => answer,
    }
}

/// Read options at a snapshot, or now.
pub fn options_at(snapshot: Option<&Snapshot>) -> ReadOptions {
    let options = ReadOptions::new();
    match snapshot {
        Some(s) => options.snapshot(s),
        None => options,
    }
}

/// Contents of all families, see [`read_family`]; no key is in a family that is not its own.
///
/// # Errors
/// What differed, or the error of a read.
pub fn read_all(db: &Db, history: &History) -> Result<Contents, String> {
    let mut contents = Contents::new();
    for family in 0..history.setup().families {
        let name = Setup::family_name(family);
        let cf = db.cf(&name).ok_or_else(|| format!("no family {name}"))?;
        let found = read_family(&cf, family, history).map_err(|e| format!("{name}: {e}"))?;
        if let Some(key) = found
            .keys()
            .find(|k| history.setup().family_of(k) != family)
        {
            return Err(format!(
                "{name}: {CONTRADICTION}holds {} of another family",
                short(key)
            ));
        }
        contents.extend(found);
    }
    Ok(contents)
}

/// Contents of a family, read forward; the order is checked, and that a second scan, backward,
/// and point reads find the same.
///
/// # Errors
/// What differed, or the error of a read.
fn read_family(cf: &Cf, family: u64, history: &History) -> Result<Contents, String> {
    let mut cursor = cf.cursor(ReadOptions::new());
    let mut contents = Contents::new();
    let mut last: Option<Vec<u8>> = None;
    let mut on = cursor.seek_to_first().map_err(|e| format!("scan: {e}"))?;
    while on {
        let (k, v) = (cursor.key().to_vec(), cursor.value().to_vec());
        if let Some(last) = &last
            && !history.before(last, &k)
        {
            return Err(format!(
                "{CONTRADICTION}scan: {} comes after {}",
                short(&k),
                short(last)
            ));
        }
        contents.insert(k.clone(), v);
        last = Some(k);
        on = cursor.next().map_err(|e| format!("scan: {e}"))?;
    }
    let mut backward = Contents::new();
    let mut on = cursor
        .seek_to_last()
        .map_err(|e| format!("scan back: {e}"))?;
    while on {
        let (k, v) = (cursor.key().to_vec(), cursor.value().to_vec());
        if let Some(last) = &last
            && !backward.is_empty()
            && !history.before(&k, last)
        {
            return Err(format!(
                "{CONTRADICTION}scan back: {} before {}",
                short(&k),
                short(last)
            ));
        }
        backward.insert(k.clone(), v);
        last = Some(k);
        on = cursor.prev().map_err(|e| format!("scan back: {e}"))?;
    }
    if backward != contents {
        return Err(format!(
            "{CONTRADICTION}scans differ, forward wanted: {}",
            difference(&contents, &backward)
        ));
    }
    let here = |k: &&[u8]| history.setup().family_of(k) == family;
    let known: Vec<&[u8]> = history.keys().filter(here).collect();
    let found = cf.multi_get_opt(&known, &ReadOptions::new());
    for (key, multi) in known.iter().zip(found) {
        let one = cf
            .get(key)
            .map_err(|e| format!("get {}: {e}", short(key)))?;
        let multi = multi.map_err(|e| format!("multi-get {}: {e}", short(key)))?;
        let want = contents.get(*key).map(Vec::as_slice);
        if one.as_deref() != want || multi.as_deref() != want {
            return Err(format!(
                "{CONTRADICTION}point read of {}: scan says {:?}, get {:?}, multi-get {:?}",
                short(key),
                want.map(short),
                one.as_deref().map(short),
                multi.as_deref().map(short)
            ));
        }
    }
    Ok(contents)
}

/// Compares all contents with the reference at its newest sequence number.
///
/// # Errors
/// What differs.
pub fn compare_all(db: &Db, history: &History) -> Check {
    let found = read_all(db, history)?;
    let want = history.contents(history.seqno());
    if found == want {
        Ok(())
    } else {
        Err(format!("contents differ:{}", difference(&want, &found)))
    }
}
