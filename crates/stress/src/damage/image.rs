//! Databases to be damaged: what a random program leaves, closed or killed, and what it held.

use super::cases::Others;
use crate::model::check::read_all;
use crate::model::generate::draw_program;
use crate::model::history::{Bounds, Contents, History};
use crate::model::player::Player;
use crate::model::program::{Op, Program};
use crate::model::world::{LOGS_DIR, MEM_DIR, World};
use spanlith_env::{FileSystem, MemFs};
use spanlith_testkit::Rng;
use std::path::{Path, PathBuf};

/// A file of an image.
#[derive(Clone, Debug)]
pub struct File {
    /// Name in the directory of the database.
    pub name: String,
    /// Contents.
    pub bytes: Vec<u8>,
    /// Says what else it may be made to hold.
    pub others: Others,
}

/// A database at rest.
pub struct Image {
    /// The program that made it.
    pub program: Program,
    /// All files.
    pub fs: MemFs,
    /// The files of the database, `LOCK` left out.
    pub files: Vec<File>,
    /// Says what it holds.
    pub contents: Contents,
    /// Says what was written to it.
    pub history: History,
    /// It was closed; otherwise its process ended.
    pub closed: bool,
}

/// Kind of a file by its name: `MANIFEST`, `CURRENT`, `.log`, `.sst` and so on.
pub fn kind(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    let tail = name.trim_start_matches(|c: char| c.is_ascii_digit());
    tail.split('-').next().unwrap_or(tail)
}

/// Where a file is that is named from the directory of the database.
pub fn path(name: &str) -> PathBuf {
    Path::new(MEM_DIR).join(name)
}

fn files(fs: &MemFs) -> Vec<(String, Vec<u8>)> {
    let names = fs.list(Path::new(MEM_DIR)).unwrap_or_default();
    let logs = fs.list(&path(LOGS_DIR)).unwrap_or_default();
    let logs = logs.into_iter().map(|n| format!("{LOGS_DIR}/{n}"));
    names
        .into_iter()
        .chain(logs)
        .filter(|n| n != "LOCK")
        .filter_map(|n| fs.read_file(&path(&n)).ok().map(|bytes| (n, bytes)))
        .collect()
}

/// Describes what images to draw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Nothing that needs callbacks of the program, so that another engine can open it.
    pub plain: bool,
    /// Tables without checksums, whose damage cannot be noticed: to see that the programme notices.
    pub unchecked: bool,
}

/// The program of an image. No operation of it forgets history.
fn program(rng: &mut Rng, wanted: Wanted) -> Program {
    let len = rng.between(40, 400) as usize;
    let mut program = draw_program(rng, len, false);
    if wanted.plain {
        program.setup.reverse = false;
        program.setup.logs_apart = false;
        program.setup.merge = crate::model::MergeKind::None;
        let no_merge = |u: &crate::model::program::Update| {
            !matches!(u, crate::model::program::Update::Merge(..))
        };
        program.ops.retain(|op| match op {
            Op::Write(u, _) => no_merge(u),
            Op::Batch(us, _) => us.iter().all(no_merge),
            _ => true,
        });
    }
    program.ops.retain(|op| {
        !matches!(
            op,
            Op::Kill(_) | Op::PowerLoss { .. } | Op::Recreate(_) | Op::ReadOnly
        )
    });
    // Families beyond the first draw theirs from these: see the caller.
    let mend = |t: &mut crate::model::Tuning| {
        t.checksum = match t.checksum {
            _ if wanted.unchecked => 0,
            // Without checksums nothing can be noticed.
            0 => 4,
            other => other,
        };
    };
    mend(&mut program.tuning);
    for op in &mut program.ops {
        if let Op::Reopen(t) = op {
            mend(t);
        }
    }
    program
}

/// False of a log without an opening record, as an open begins it: in the place of one of which no end is
/// known it is taken for that (docs/formats/evidence.md).
fn says_whose(file: &File) -> bool {
    // The first note is one: mark, checksum, kind.
    let head = &file.bytes[..file.bytes.len().min(128)];
    let mark = head.windows(8).position(|w| w == b"spanlith");
    kind(&file.name) != ".log" || mark.is_some_and(|at| head.get(at + 12) == Some(&1))
}

/// Returns whether a file may be that of another database: what the first log of one begins with may have been
/// copied from there, so nothing is said of it (docs/formats/evidence.md).
fn may_be_foreign(name: &str) -> bool {
    !name.ends_with("000004.log")
}

/// Draws an image; `foreign` is the one drawn before.
///
/// # Errors
/// If the database fails without damage.
pub fn draw(rng: &mut Rng, foreign: Option<&Image>, wanted: Wanted) -> Result<Image, String> {
    loop {
        let program = program(rng, wanted);
        if program.has_unchecked(1..program.setup.families) {
            continue;
        }
        let closed = rng.one_in(2);
        let mut player = Player::new(&program, None);
        player.keep_history = true;
        let early = program.ops.len() / 2 + rng.index(program.ops.len() / 2 + 1);
        player.start()?;
        let mut before = Vec::new();
        for (at, op) in program.ops.iter().enumerate() {
            player.step(op)?;
            if at == early
                && let Some(fs) = player.world.mem()
            {
                before = files(&fs.process_crash_clone());
            }
        }
        if closed {
            player.close()?;
        }
        let Some(fs) = player.world.mem().map(MemFs::process_crash_clone) else {
            continue;
        };
        let history = player.history.clone();
        drop(player);
        let mut world = World::on(&program.setup, fs.process_crash_clone(), None);
        let db = world
            .open(&program.tuning)
            .map_err(|e| format!("open: {e}"))?;
        let contents = read_all(&db, &history)?;
        drop(db);
        // Programs that write without a log may hold less than they wrote.
        if contents != history.contents(history.seqno()) || contents.is_empty() {
            continue;
        }
        let all = files(&fs);
        let files = all
            .iter()
            .map(|(name, bytes)| {
                let same = |n: &str| kind(n) == kind(name);
                let twins = all
                    .iter()
                    .filter(|(n, b)| n != name && same(n) && b != bytes);
                let older = before.iter().find(|(n, b)| n == name && b != bytes);
                let donates = |f: &&File| same(&f.name) && says_whose(f);
                let foreign = foreign.filter(|_| may_be_foreign(name));
                let foreign = foreign.and_then(|i| i.files.iter().find(donates));
                File {
                    name: name.clone(),
                    bytes: bytes.clone(),
                    others: Others {
                        twins: twins.cloned().collect(),
                        older: older.map(|(_, b)| b.clone()),
                        foreign: foreign.map(|f| f.bytes.clone()),
                    },
                }
            })
            .collect();
        return Ok(Image {
            program,
            fs,
            files,
            contents,
            history,
            closed,
        });
    }
}

impl Image {
    /// Returns whether contents are those after some number of the commits, so that what is missing was the
    /// end of what was written.
    pub fn is_prefix(&self, found: &Contents) -> bool {
        let bounds = Bounds {
            durable: 0,
            flushed: 0,
            issued: self.history.bounds().issued,
        };
        self.history.explain(found, bounds).is_ok()
    }
}
