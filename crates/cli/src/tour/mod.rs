//! `spanlith tour`: the main job in one go, on real input, within two minutes.
//!
//! 1. [`foreign`]: two directories that RocksDB wrote are unpacked, opened and compared.
//! 2. [`load`]: a million entries with a progress bar.
//! 3. [`mixed`]: ten seconds of reads, writes and scans with a line each second.
//! 4. [`workload`]: requests are recorded, modelled without their keys, and made again.
//! 5. [`pace`]: a simulated tree is written faster than it carries, by policy of the write controller.
//! 6. [`crash`]: a child acknowledges synced writes, is killed, nothing acknowledged is missing.
//! 7. [`disk`]: a speed disk takes the log, another child is killed, the log comes back into files.
//! 8. Every checksum is verified and every entry compared with a model of what was written.
//! 9. The directories stay; the last lines say what to try with them.
//!
//! Everything that is not as it should be becomes a problem; any problem makes the exit code 1.

pub mod crash;
mod disk;
mod foreign;
mod load;
mod mixed;
mod model;
mod pace;
mod show;
mod workload;

use crate::db::verify::{self, Scope};
use crate::fail::{At, Failure, shell_word};
use crate::inventory::Inventory;
use crate::term;
use clap::Args;
use serde_json::json;
use show::Show;
use spanlith::options::{BlockBasedTableOptions, CfOptions, DbOptions};
use spanlith::{Db, OpenBuilder};
use spanlith_cache::Policy;
use spanlith_table::BlockCache;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
Examples:
  spanlith tour
  spanlith tour --dir /data/tour
  spanlith tour --json > tour.json

Takes about a minute on two cores and 400 MB of disk. Exit code 1 if anything is wrong.";

/// Shows everything in two minutes, on real data.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Tour {
    /// Directory to work in; kept. A new one below the system's temporary directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints a JSON summary to standard output and the rest to standard error
    #[arg(long)]
    json: bool,
    /// Entries to load
    #[arg(long, hide = true, default_value_t = 1_000_000)]
    entries: u64,
    /// Seconds of mixed work
    #[arg(long, hide = true, default_value_t = 10)]
    seconds: u64,
    /// Acknowledgements before a child is killed
    #[arg(long, hide = true, default_value_t = 3000)]
    acks: u64,
}

impl Tour {
    /// Gives the tour.
    ///
    /// # Errors
    /// What made it impossible to go on, with the way out.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        let dir = self.place()?;
        let mut show = Show::new(self.json);
        show.title(&format!("Spanlith {}: the tour", env!("CARGO_PKG_VERSION")));
        show.say(&format!("everything happens in {}", dir.display()));
        let data = dir.join("data");

        show.step("Directories that RocksDB 11.8 wrote");
        let foreign = foreign::run(&dir, &mut show)?;

        show.step(&format!("Load {} entries", term::count(self.entries)));
        let mut model = load::run(&data, self.entries, &mut show)?;

        show.step(&format!(
            "Reads, writes and scans at once, for {} seconds",
            self.seconds
        ));
        mixed::run(&data, self.seconds, &mut model, &mut show)?;

        show.step("Requests are recorded, and made again without their keys");
        workload::run(&dir, &data, self.entries, &mut show)?;

        show.step("More writes than a tree carries, by policy, simulated");
        pace::run(&mut show);

        show.step("A process is killed while it writes");
        let files = crash::run(&data, None, self.acks, &mut show)?;

        show.step("A speed disk takes the log, and is taken away again");
        let on_disk = disk::run(&dir, &data, self.acks, &files, &mut show)?;
        let synced = files.found + on_disk;

        show.step("Check everything");
        check(&data, &foreign, &model, synced, &mut show)?;

        show.step("What to try next");
        next(&data, &foreign, &mut show);
        let seconds = start.elapsed().as_secs_f64();
        show.record("seconds", json!(seconds));
        show.record("directory", json!(dir.display().to_string()));
        show.finish(seconds)
    }

    /// The directory to work in: new or empty.
    fn place(&self) -> anyhow::Result<PathBuf> {
        let dir = self.dir.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("spanlith-tour-{}", std::process::id()))
        });
        let quoted = shell_word(&dir);
        let failed = |e: std::io::Error| {
            Failure::new(
                format!("cannot use {}: {e}", dir.display()),
                "choose a directory you may write to: spanlith tour --dir DIR",
            )
        };
        std::fs::create_dir_all(&dir).map_err(failed)?;
        if std::fs::read_dir(&dir).map_err(failed)?.next().is_some() {
            // Only what a tour has made is offered for removal.
            let is_ours = ["data", "rocksdb-default"]
                .iter()
                .all(|d| dir.join(d).is_dir());
            return Err(Failure::new(
                format!("{} is not empty", dir.display()),
                match is_ours {
                    true => format!(
                        "choose another, or remove what an earlier tour left: rm -r {quoted}"
                    ),
                    false => "choose a new or an empty directory".to_string(),
                },
            )
            .into());
        }
        Ok(dir)
    }
}

/// How the database of the tour is opened: small memtables and levels, so that the tree grows while
/// one watches.
fn builder(dir: &Path) -> OpenBuilder {
    let mut cf = CfOptions::default();
    cf.write_buffer_size = 8 << 20;
    cf.target_file_size_base = 8 << 20;
    cf.max_bytes_for_level_base = 32 << 20;
    let mut table = BlockBasedTableOptions::default();
    table.filter_policy = "bloomfilter:10:false".to_string();
    // Releases of RocksDB before 11 read it too, such as those of Linux distributions.
    table.format_version = 5;
    Db::builder(dir)
        .options(DbOptions::default())
        .cf_options(cf)
        .table_options(table)
        .block_cache(BlockCache::new(64 << 20, Policy::Clock))
}

/// Files per level: `L0 2 · L5 3 · L6 9`.
fn shape(db: &Db) -> String {
    let levels: Vec<String> = (0..16)
        .map_while(|n| Some((n, db.property(&format!("rocksdb.num-files-at-level{n}"))?)))
        .filter(|(_, files)| files != "0")
        .map(|(n, files)| format!("L{n} {files}"))
        .collect();
    if levels.is_empty() {
        "no tables yet".to_string()
    } else {
        levels.join(" · ")
    }
}

/// Step 8.
fn check(
    data: &Path,
    foreign: &[PathBuf],
    model: &model::Model,
    synced: u64,
    show: &mut Show,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let db = builder(data).open_read_only().at(data)?;
    let progress = term::bar(model.len() + synced, "entries", "comparing");
    let outcome = model.compare(&db.default_cf(), &progress).at(data);
    progress.finish_and_clear();
    let outcome = outcome?;
    let summary = format!(
        "{} entries compared with what was written, {} synced ones among them, in {:.1} s",
        term::count(outcome.right + outcome.synced),
        term::count(outcome.synced),
        start.elapsed().as_secs_f64()
    );
    show.verdict(outcome.wrong == 0 && outcome.right == model.len(), &summary);
    for text in &outcome.examples {
        show.wrong(text);
    }
    show.verdict(
        outcome.synced == synced,
        &format!(
            "{} of {} entries of the killed processes",
            term::count(outcome.synced),
            term::count(synced)
        ),
    );
    let mut blocks = 0;
    for dir in foreign.iter().map(PathBuf::as_path).chain([data]) {
        let inventory = Inventory::read(dir).at(dir)?;
        let progress = term::bar(inventory.table_bytes(), "B", "verifying");
        let scope = Scope {
            level: match dir == data {
                true => spanlith::VerifyLevel::Full,
                false => spanlith::VerifyLevel::Checksums,
            },
            ..Scope::default()
        };
        let report = verify::check(&inventory, scope, &progress);
        progress.finish_and_clear();
        blocks += report.blocks;
        let name = dir
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        show.verdict(
            report.is_clean(),
            &format!("{name}: {}", verify::summary(&report)),
        );
        for f in report.problems() {
            show.wrong(&format!("{}{}: {}", f.file, crate::db::place(f), f.what));
        }
    }
    show.record(
        "check",
        json!({
            "entries": outcome.right, "synced_entries": outcome.synced, "wrong": outcome.wrong,
            "blocks": blocks,
        }),
    );
    Ok(())
}

/// Step 9.
fn next(data: &Path, foreign: &[PathBuf], show: &mut Show) {
    let me = std::env::args_os().next().map(PathBuf::from);
    let me = me.map_or_else(|| "spanlith".to_string(), |p| shell_word(&p));
    let dir = shell_word(data);
    let mut lines = vec![
        ("look inside", format!("{me} db info --db {dir} --files")),
        (
            "read it",
            format!("{me} db scan --db {dir} --from user00000100 --limit 5"),
        ),
        (
            "change it",
            format!("{me} db put --db {dir} user00000100 'me'"),
        ),
        (
            "measure",
            format!("{me} bench fillrandom readrandom mixed --num 1000000 --report bench.html"),
        ),
        (
            "with RocksDB",
            format!("ldb --db={dir} --ignore_unknown_options checkconsistency"),
        ),
        (
            "",
            format!("ldb --db={dir} --ignore_unknown_options scan --max_keys=5"),
        ),
    ];
    if let Some(dir) = foreign.first() {
        let dir = shell_word(dir);
        lines.insert(
            2,
            (
                "RocksDB's own",
                format!("{me} db scan --db {dir} --limit 5"),
            ),
        );
    }
    if let Some(dir) = data.parent() {
        lines.push(("clean up", format!("rm -r {}", shell_word(dir))));
    }
    for (what, command) in &lines {
        show.command(what, command);
    }
    show.record(
        "next",
        json!(lines.iter().map(|l| &l.1).collect::<Vec<_>>()),
    );
}
