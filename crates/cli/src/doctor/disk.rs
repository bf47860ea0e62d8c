//! Explains what is wrong with the speed disk of a database, and the way out.

use super::cases::{Case, Damage};
use crate::fail::shell_word;
use crate::inventory::Inventory;
use crate::term::{bytes, counted};
use spanlith::version::{CurrentMarks, FileKind, SPEED_PATH, filenames, parse_file_name};
use spanlith::{Error, ErrorKind, SubCode};
use spanlith_env::Env;

/// Longest CURRENT that is read.
const CURRENT_MAX: u64 = 1 << 20;

/// Returns what CURRENT says of speed disks.
fn marks(i: &Inventory) -> CurrentMarks {
    let current = i.dir.join(filenames::CURRENT_FILE);
    let content = Env::system().fs.read_all(&current, CURRENT_MAX);
    let marked = content.and_then(|c| filenames::parse_marked_current(&c));
    marked.map(|(_, marks)| marks).unwrap_or_default()
}

/// Returns whether a finding about `file` is one about the disk of the logs.
pub fn is_disk(i: &Inventory, file: &str) -> bool {
    marks(i).logs.is_some_and(|mark| mark.target == file)
}

/// The disk is there, and a part of it is damaged.
pub fn about_damage(i: &Inventory, case: &mut Case) {
    let (disk, dir) = (
        shell_word(std::path::Path::new(&case.file)),
        shell_word(&i.dir),
    );
    case.damage = Damage::Flipped;
    case.stake =
        "writes since the last flush of each column family, from the damaged place on".to_string();
    case.way_out = format!(
        "take what its logs hold: spanlith sd status {disk} lists them, spanlith sd dump {disk} --log N --out FILE writes \
         one; then open the tables without the logs: spanlith db migrate --to-files --lose-logs --db {dir}"
    );
}

/// Returns whether an error says that the disk is the right one and cannot be read. Its path stands in the text, too.
fn is_broken(message: &str) -> bool {
    ["log directory are damaged", "metadata log are damaged"]
        .iter()
        .any(|what| message.contains(what))
}

/// Says that the disk cannot be used, and leaves out what follows from that.
pub fn explain_lost(i: &Inventory, e: &Error, cases: &mut Vec<Case>) {
    let marks = marks(i);
    let target = marks
        .logs
        .as_ref()
        .map_or("the speed disk", |mark| &mark.target);
    let had_tables = crate::reading::has_tables(&Env::system(), &marks);
    let is_leaving = marks.logs.as_ref().is_some_and(|mark| mark.is_leaving);
    let damage = match e.kind() {
        _ if is_leaving => Damage::Inconsistent,
        _ if e.subcode() == Some(SubCode::PathNotFound) => Damage::Missing,
        ErrorKind::Corruption if is_broken(e.message()) => Damage::Flipped,
        // Another disk, an older copy, or something else altogether.
        ErrorKind::Corruption => Damage::Swapped,
        _ => Damage::Unchecked,
    };
    let files = i.families.values().flat_map(|family| family.files.values());
    let lost: Vec<_> = files
        .filter(|f| had_tables && f.path_id == SPEED_PATH)
        .collect();
    let mut stake = match is_leaving {
        true => "nothing".to_string(),
        false => "every write since the last flush of each column family".to_string(),
    };
    if !lost.is_empty() && !is_leaving {
        let count = counted(lost.len() as u64, "table");
        let size = bytes(lost.iter().map(|f| f.size).sum());
        stake.push_str(&format!(", and {count}, {size}"));
    }
    cases.retain(|case| {
        let name = std::path::Path::new(&case.file)
            .file_name()
            .unwrap_or_default();
        let is_on_disk = match parse_file_name(&name.to_string_lossy()) {
            Some(FileKind::Table(n)) => lost.iter().any(|f| f.number == n),
            Some(FileKind::Log(_)) => case.damage == Damage::Missing,
            _ => false,
        };
        !case.is_lost_log() && !is_on_disk
    });
    cases.push(Case {
        file: target.to_string(),
        offset: None,
        damage,
        what: match damage {
            Damage::Missing => {
                "missing: the speed disk that has the logs of this database".to_string()
            }
            _ => e.message().to_string(),
        },
        stake,
        way_out: way_out(i, damage, target, had_tables),
        spares_data: is_leaving,
        probe: None,
    });
}

fn way_out(i: &Inventory, damage: Damage, target: &str, had_tables: bool) -> String {
    let dir = shell_word(&i.dir);
    match damage {
        Damage::Inconsistent => format!(
            "nothing is lost: spanlith db migrate --to-files --db {dir} ends that, and so does an open"
        ),
        Damage::Unchecked => format!(
            "check the device and the permissions: ls -l {}; then ask again",
            shell_word(std::path::Path::new(target))
        ),
        _ => {
            let flags = match had_tables {
                true => "--lose-logs --lose-tables",
                false => "--lose-logs",
            };
            format!(
                "bring the disk back; if it has another name now, spanlith db migrate --to-files --sd-path DISK --db {dir} \
                 brings what is on it into files; if it is gone for good, spanlith db migrate --to-files {flags} --db {dir} \
                 opens what is left"
            )
        }
    }
}
