//! `spanlith doctor`: what is wrong with a directory, what is at stake, and the way out.
//!
//! Three steps, none of which changes anything: every checksum is verified ([`crate::db::verify`]), what
//! is found is explained ([`cases`], [`disk`] for a speed disk), and opening is rehearsed on a file system in memory
//! ([`rehearsal`]), so that what an open would refuse, drop or put aside is known before.

mod cases;
mod disk;
mod rehearsal;
mod stakes;

use crate::db::open::{How, Target};
use crate::db::verify::{self, Scope};
use crate::fail::{At, Failure, shell_word};
use crate::inventory::Inventory;
use crate::term::{self, Paint};
use crate::top::process;
use cases::{Case, Damage};
use clap::Args;
use rehearsal::Rehearsal;
use serde_json::json;
use spanlith::version::filenames;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  spanlith doctor --db /data/db
  spanlith doctor --db /data/db --json | jq .cases
  spanlith doctor --db /data/db --quick        without reading the blocks of tables

Exit code 0: nothing is wrong, or only what a crash leaves and opening mends. 1: something is damaged or
missing, or opening would refuse or drop something. Nothing is changed, whatever is found; logs are
replayed in memory, which takes about their size. Copy the directory before anything opens it.";

/// Says what is wrong with a directory and the way out, without changing it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    how: How,
    /// Leaves out the blocks of tables
    #[arg(long)]
    quick: bool,
    /// Does not rehearse opening
    #[arg(long)]
    no_rehearsal: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// All that was found out.
struct Diagnosis {
    cases: Vec<Case>,
    rehearsal: Option<Rehearsal>,
    checked: String,
    holder: Option<u32>,
    /// The commands that copy what can be read.
    copy: String,
}

impl Diagnosis {
    fn is_healthy(&self) -> bool {
        let opens = self.rehearsal.as_ref().is_none_or(|r| {
            r.is_about_program || (r.error.is_none() && (r.is_quiet() || self.explains_drops()))
        });
        opens
            && self
                .cases
                .iter()
                .all(|c| c.is_harmless() || c.damage == Damage::Unchecked)
    }

    /// Returns whether torn ends are all that opening drops.
    fn explains_drops(&self) -> bool {
        let torn = || self.cases.iter().filter(|c| c.is_harmless());
        let drops = self.rehearsal.as_ref().map_or(0, |r| r.drops().count());
        drops <= torn().count() && drops > 0
    }

    /// Returns whether files that cannot be read are all that is wrong.
    fn is_only_unread(&self) -> bool {
        let mut cases = self.cases.iter().filter(|c| !c.is_harmless()).peekable();
        cases.peek().is_some() && cases.all(|c| c.damage == Damage::Unchecked)
    }

    fn verdict(&self) -> &'static str {
        match (self.is_healthy(), self.cases.is_empty(), &self.rehearsal) {
            (true, _, Some(r)) if r.is_about_program => {
                "healthy as far as can be told: only another program can open it"
            }
            (true, true, _) => "healthy",
            (true, false, _) => "healthy: what was found is harmless, or could not be checked",
            (false, _, Some(r)) if r.error.is_some() && self.is_only_unread() => {
                "not known: it does not open, because files cannot be read"
            }
            (false, _, Some(r)) if r.error.is_some() => "damaged: it does not open",
            (false, _, Some(r)) if !r.is_quiet() || self.cases.iter().any(Case::is_lost) => {
                "damaged: it opens without some of its contents"
            }
            (false, _, Some(_)) if self.cases.iter().all(|c| c.spares_data || c.is_harmless()) => {
                "damaged: it opens with all its contents"
            }
            (false, _, Some(_)) => "damaged: it opens, and reads of the damaged parts fail",
            (false, _, None) => "damaged",
        }
    }
}

impl Doctor {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let files = &self.how.files;
        let places = files.tables.parse()?;
        let wal_dir = files.wal_dir.as_deref();
        let (inventory, lost_disk) =
            Inventory::read_leniently_despite_disk(&self.db, wal_dir).at(&self.db)?;
        let Some(inventory) = inventory else {
            return Err(Failure::new(
                format!("there is no database in {}", self.db.display()),
                format!("check the path: ls -l {}", shell_word(&self.db)),
            )
            .into());
        };
        let mut target = Target {
            db: self.db.clone(),
            cf: "default".to_string(),
            how: self.how,
        };
        let progress = term::bar(0, "B", "examining");
        let scope = Scope {
            level: match self.quick {
                true => spanlith::VerifyLevel::Quick,
                false => spanlith::VerifyLevel::Checksums,
            },
            all_of_logs: true,
            places: Some(&places),
            ..Scope::default()
        };
        let found = verify::check(&inventory, scope, &progress);
        progress.finish_and_clear();
        if inventory.wal_dir != self.db {
            target.how.files.wal_dir = Some(inventory.wal_dir.clone());
        }
        let can_give_up = || !self.no_rehearsal && rehearsal::opens_without_damage(&target);
        let mut cases = cases::explain(&inventory, &places, &found.findings, &can_give_up);
        if let Some(e) = &lost_disk {
            disk::explain_lost(&inventory, e, &mut cases);
        }
        let rehearsal = (!self.no_rehearsal).then(|| {
            let spinner = term::spinner("", "rehearsing an open");
            let probes: Vec<_> = cases.iter().filter_map(|c| c.probe.clone()).collect();
            let out = rehearsal::rehearse(&target, Some(&inventory), &probes);
            spinner.finish_and_clear();
            out
        });
        if let Some(r) = &rehearsal {
            for case in &mut cases {
                if case.probe.as_ref().is_some_and(|p| r.readable.contains(p)) {
                    case.spares_data = true;
                    case.stake
                        .push_str(": an older one, which a newer entry hides");
                }
            }
            cases.extend(cases::unexplained(&inventory, r, &cases));
        }
        cases.sort_by(|a, b| {
            (a.is_harmless(), &a.file, a.offset).cmp(&(b.is_harmless(), &b.file, b.offset))
        });
        let diagnosis = Diagnosis {
            cases,
            rehearsal,
            checked: verify::checked(&found),
            copy: cases::copy_what_is_left(&inventory),
            holder: process::holder(&self.db.join(filenames::LOCK_FILE)),
        };
        match self.json {
            true => print_json(&diagnosis)?,
            false => print_text(&diagnosis, &self.db)?,
        }
        Ok(match diagnosis.is_healthy() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

fn print_json(d: &Diagnosis) -> std::io::Result<()> {
    let open = d.rehearsal.as_ref().map(|r| {
        json!({
            "ok": r.error.is_none(), "error": r.error, "about_this_program": r.is_about_program,
            "options": r.options, "warnings": r.warnings,
            "drops": r.drops().collect::<Vec<_>>(), "files_gone": r.gone,
        })
    });
    let object = json!({
        "healthy": d.is_healthy(), "verdict": d.verdict(), "checked": d.checked,
        "held_by": d.holder, "open": open,
        "cases": d.cases.iter().map(Case::json).collect::<Vec<_>>(),
    });
    writeln!(std::io::stdout(), "{object}")
}

fn print_text(d: &Diagnosis, dir: &std::path::Path) -> std::io::Result<()> {
    let paint = Paint::stdout();
    let mut out = std::io::stdout().lock();
    if let Some(pid) = d.holder {
        let text = "has the database open: what it writes meanwhile may look torn";
        writeln!(out, "{} process {pid} {text}", paint.yellow("note:"))?;
    }
    for (index, case) in d.cases.iter().enumerate() {
        let at = case
            .offset
            .map_or_else(String::new, |o| format!(" at offset {o}"));
        let word = match case.damage {
            Damage::Torn | Damage::Unchecked => paint.yellow(case.damage.name()),
            other => paint.red(other.name()),
        };
        writeln!(out, "{word}: {}{at}: {}", paint.bold(&case.file), case.what)?;
        // Text that several findings about one file share is printed once.
        let next = d.cases.get(index + 1);
        if next.is_some_and(|n| {
            (&n.file, &n.stake, &n.way_out) == (&case.file, &case.stake, &case.way_out)
        }) {
            continue;
        }
        if !case.stake.is_empty() {
            writeln!(out, "    at stake  {}", case.stake)?;
        }
        writeln!(out, "    way out   {}", case.way_out)?;
    }
    if let Some(r) = &d.rehearsal {
        let text = match &r.error {
            None => paint.green("succeeds"),
            Some(e) if r.is_about_program => {
                paint.yellow(format!("cannot be tried with this program: {e}"))
            }
            Some(e) => paint.red(format!("is refused: {e}")),
        };
        writeln!(out, "opening {text}  (options: {})", r.options)?;
        for warning in &r.warnings {
            let text = match r.spared.contains(warning) {
                true => " (all its updates are recovered)",
                false => "",
            };
            writeln!(out, "    {} {warning}{text}", paint.yellow("warns"))?;
        }
        for gone in &r.gone {
            writeln!(out, "    then {gone}")?;
        }
    }
    let verdict = match d.is_healthy() {
        true => paint.green(d.verdict()),
        false => paint.red(d.verdict()),
    };
    writeln!(out, "{verdict} ({})", d.checked)?;
    out.flush()?;
    if !d.is_healthy() {
        let dir = shell_word(dir);
        tell!("next:  copy the directory before anything opens it: cp -a {dir} {dir}.copy");
        let loses = d.rehearsal.as_ref().is_some_and(|r| !r.is_quiet());
        if loses && d.cases.iter().all(Case::is_harmless) {
            tell!("       then copy what can be read: {}", d.copy);
        }
    }
    Ok(())
}
