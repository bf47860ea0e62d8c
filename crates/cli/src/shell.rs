//! `spanlith shell`: one command a line, on a database that stays open.
//!
//! Read-only unless `--write` is given. From a terminal with a prompt, a history of the session and
//! completion of commands and families; from a pipe without, and then the first command that fails ends
//! the shell with its exit code. Data goes to standard output, everything else to standard error.

use crate::bytes::{self, parse, show};
use crate::db::open::{How, Target, WriteFlags};
use crate::fail::{At, Failure, Usage};
use crate::own::OwnFlags;
use crate::term::{Paint, bytes, count};
use clap::Args;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Editor, Helper};
use serde_json::json;
use spanlith::{Cf, ReadOptions, WriteOptions};
use std::io::{BufRead, IsTerminal, StdinLock, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Entries that a scan prints unless it is told another limit.
const SCAN: u64 = 100;

const EXAMPLES: &str = "\
Examples:
  spanlith shell --db /data/db
  spanlith shell --db /data/db --write
  printf 'get a\\nscan k l\\n' | spanlith shell --db /data/db

help lists the commands.";

/// Commands, what follows them, and what they do: at most 80 columns.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("get", "KEY", "the value of a key"),
    (
        "scan",
        "[FROM [TO [LIMIT]]]",
        "entries from FROM up to before TO, at most 100",
    ),
    ("count", "[FROM [TO]]", "number of entries"),
    ("put", "KEY VALUE", "sets a key (with --write)"),
    ("delete", "KEY", "removes a key (with --write)"),
    ("families", "", "the column families"),
    ("use", "NAME", "goes to another column family"),
    (
        "stats",
        "[PROPERTY]",
        "tables per level, or a property by RocksDB's name",
    ),
    (
        "refresh",
        "",
        "looks anew: a read-only view stays as it was opened",
    ),
    ("help", "", "this; quit, exit or Ctrl-D ends the shell"),
];

/// Says what the help says below the commands.
const HELP: &str = "Quotes hold blanks together: put 'a b' c. Keys and values: plain text with
\\t \\n \\\\ \\xNN, or 0x… in hexadecimal.";

/// Runs commands on a database that stays open; read-only unless asked
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Shell {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Column family to begin with
    #[arg(long, value_name = "NAME", default_value = "default")]
    cf: String,
    #[command(flatten)]
    how: How,
    /// Allows put and delete; takes the lock
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    own: OwnFlags,
    /// Keys and values are bare hexadecimal, in and out
    #[arg(long)]
    hex: bool,
    /// Prints JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Describes what comes after a command.
enum Next {
    Again,
    End,
}

struct Session {
    target: Target,
    cf: Cf,
    write: bool,
    hex: bool,
    json: bool,
}

/// Where lines come from.
enum Lines {
    Person(Box<Editor<Words, MemHistory>>),
    Pipe(StdinLock<'static>),
}

impl Lines {
    /// The next line; `None` at the end.
    fn next(&mut self, prompt: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::Person(editor) => loop {
                match editor.readline(prompt) {
                    Ok(line) => return Ok(Some(line)),
                    // The line is given up, not the session.
                    Err(ReadlineError::Interrupted) => {}
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(e) => return Err(e.into()),
                }
            },
            Self::Pipe(input) => {
                let mut line = String::new();
                let n = input.read_line(&mut line)?;
                Ok((n > 0).then_some(line))
            }
        }
    }
}

/// Completes commands, and names of families after `use`.
struct Words {
    families: Vec<String>,
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Validator for Words {}
impl Hinter for Words {
    type Hint = String;
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or(line);
        if let Some(name) = typed.strip_prefix("use ") {
            let families = self.families.iter().filter(|f| f.starts_with(name));
            return Ok((at - name.len(), families.cloned().collect()));
        }
        let commands = COMMANDS.iter().map(|c| c.0).chain(["quit"]);
        let fitting = commands.filter(|c| c.starts_with(typed));
        Ok((0, fitting.map(|c| format!("{c} ")).collect()))
    }
}

impl Shell {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let target = Target {
            db: self.db,
            cf: self.cf,
            how: self.how,
        };
        let cf = open(&target, self.write, &self.own)?;
        let mut session = Session {
            target,
            cf,
            write: self.write,
            hex: self.hex,
            json: self.json,
        };
        let talks = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let mut lines = match talks {
            true => Lines::Person(session.greet()?),
            false => Lines::Pipe(std::io::stdin().lock()),
        };
        loop {
            let mark = if session.write { "#" } else { ">" };
            let prompt = format!("{}{mark} ", show(session.cf.name().as_bytes(), false));
            let Some(line) = lines.next(&prompt)? else {
                break;
            };
            if let Lines::Person(editor) = &mut lines {
                editor.add_history_entry(line.trim())?;
            }
            match session.command(line.trim()) {
                Ok(Next::Again) => {}
                Ok(Next::End) => break,
                Err(e) if talks => {
                    crate::fail::report(&e);
                }
                Err(e) => return Err(e),
            }
        }
        if session.write {
            session.cf.db().clone().close().at(&session.target.db)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn open(target: &Target, write: bool, own: &OwnFlags) -> anyhow::Result<Cf> {
    match write {
        true => target.open_read_write(&WriteFlags {
            own: own.clone(),
            ..WriteFlags::plain()
        }),
        false => target.open_read_only(),
    }
}

impl Session {
    /// The first lines, and what reads the others.
    fn greet(&self) -> anyhow::Result<Box<Editor<Words, MemHistory>>> {
        let dir = &self.target.db;
        let families = spanlith::Db::list_families(dir, &spanlith_env::Env::system()).at(dir)?;
        writeln!(
            std::io::stdout(),
            "{}: {}, {}; help lists the commands",
            dir.display(),
            match self.write {
                true => "open for reading and writing",
                false => "read-only, as it is now",
            },
            match families.len() {
                1 => "1 column family".to_string(),
                n => format!("{n} column families"),
            }
        )?;
        let mut editor = Editor::with_history(Config::default(), MemHistory::new())?;
        editor.set_helper(Some(Words { families }));
        Ok(Box::new(editor))
    }

    fn command(&mut self, line: &str) -> anyhow::Result<Next> {
        let words = words(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut out = std::io::stdout().lock();
        let dir = self.target.db.clone();
        match words[..] {
            [] => {}
            ["quit" | "exit"] => return Ok(Next::End),
            ["help" | "?"] => {
                for (name, rest, what) in COMMANDS {
                    writeln!(out, "{:28}{what}", format!("{name} {rest}"))?;
                }
                writeln!(out, "{HELP}")?;
            }
            ["get", key] => {
                let key = parse(key, self.hex)?;
                let found = self.cf.get_opt(&key, &self.reading()).at(&dir)?;
                let value = found.as_deref().map(|v| self.target.value(v));
                match value {
                    value if self.json => {
                        let object = json!({
                            "key": bytes::json(&key, self.hex), "found": value.is_some(),
                            "value": value.map(|v| bytes::json(v, self.hex)),
                        });
                        writeln!(out, "{object}")?;
                    }
                    Some(value) => writeln!(out, "{}", show(value, self.hex))?,
                    None => tell!("no entry"),
                }
            }
            ["scan", ref rest @ ..] if rest.len() <= 3 => {
                let limit = match rest.get(2) {
                    Some(text) => text.parse().map_err(|_| {
                        Usage::new(format!("'{text}' is no number"), "scan FROM TO LIMIT")
                    })?,
                    None => SCAN,
                };
                self.scan(rest, limit, &mut out)?;
            }
            ["count", ref rest @ ..] if rest.len() <= 2 => {
                let mut cursor = self.cf.cursor(self.range(rest)?);
                let mut entries = 0u64;
                let mut on = cursor.seek_to_first();
                while on.at(&dir)? {
                    entries += 1;
                    on = cursor.next();
                }
                match self.json {
                    true => writeln!(out, "{}", json!({ "count": entries }))?,
                    false => writeln!(out, "{entries}")?,
                }
            }
            ["put", key, value] => {
                self.may_write()?;
                let (key, value) = (parse(key, self.hex)?, parse(value, self.hex)?);
                let value = self.target.stored(value);
                self.cf
                    .put_opt(&key, &value, &WriteOptions::new())
                    .at(&dir)?;
                tell!("ok");
            }
            ["delete", key] => {
                self.may_write()?;
                let key = parse(key, self.hex)?;
                self.cf.delete_opt(&key, &WriteOptions::new()).at(&dir)?;
                tell!("ok");
            }
            ["families"] => {
                let names = spanlith::Db::list_families(&dir, &spanlith_env::Env::system());
                for name in names.at(&dir)? {
                    match self.json {
                        true => writeln!(out, "{}", json!({ "family": name }))?,
                        false => writeln!(out, "{}", show(name.as_bytes(), false))?,
                    }
                }
            }
            ["use", name] => {
                let name = String::from_utf8(parse(name, false)?).unwrap_or_default();
                self.go_to(&name)?;
            }
            ["refresh"] if self.write => {}
            ["refresh"] => self.cf = self.target.open_read_only()?,
            ["stats"] => self.stats(&mut out)?,
            ["stats", name] => {
                let name = match name.starts_with("rocksdb.") {
                    true => name.to_string(),
                    false => format!("rocksdb.{name}"),
                };
                match self.cf.property(&name) {
                    Some(text) if self.json => {
                        let object = json!({ "property": name, "value": text });
                        writeln!(out, "{object}")?;
                    }
                    Some(text) => writeln!(out, "{}", text.trim_end())?,
                    None => {
                        let hint = "spanlith db properties lists them";
                        return Err(Usage::new(format!("unknown property '{name}'"), hint).into());
                    }
                }
            }
            [first, ..] => {
                let known = COMMANDS.iter().find(|c| c.0 == first);
                let shown: String = first.escape_debug().collect();
                return Err(match known {
                    Some((name, "", _)) => Usage::new(format!("{name} stands alone"), *name),
                    Some((name, rest, _)) => Usage::new(
                        format!("{name} needs other arguments"),
                        format!("{name} {rest}; quotes hold blanks together"),
                    ),
                    None => Usage::new(
                        format!("'{shown}' is no command"),
                        "help lists the commands",
                    ),
                }
                .into());
            }
        }
        out.flush()?;
        Ok(Next::Again)
    }

    fn reading(&self) -> ReadOptions {
        let mut options = ReadOptions::new();
        let timestamp = self.cf.comparator().timestamp_size();
        if timestamp > 0 {
            // The latest there is.
            options.timestamp = Some(vec![0xff; timestamp]);
        }
        options
    }

    fn range(&self, words: &[&str]) -> anyhow::Result<ReadOptions> {
        let mut options = self.reading().fill_cache(false);
        let key = |at: usize| words.get(at).map(|k| parse(k, self.hex)).transpose();
        options.lower = key(0)?;
        options.upper = key(1)?;
        Ok(options)
    }

    fn scan(&self, words: &[&str], limit: u64, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut cursor = self.cf.cursor(self.range(words)?);
        let mut left = limit;
        let mut on = cursor.seek_to_first();
        while on.at(&self.target.db)? {
            if left == 0 {
                out.flush()?;
                tell!("… more; scan FROM TO LIMIT shows it");
                break;
            }
            left -= 1;
            let (key, value) = (cursor.key(), self.target.value(cursor.value()));
            let hex = self.hex;
            match self.json {
                true => {
                    let object =
                        json!({ "key": bytes::json(key, hex), "value": bytes::json(value, hex) });
                    writeln!(out, "{object}")?;
                }
                false => writeln!(out, "{}\t{}", show(key, hex), show(value, hex))?,
            }
            on = cursor.next();
        }
        Ok(())
    }

    fn go_to(&mut self, name: &str) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.target.cf, name.to_string());
        let found = match self.write {
            true => self.cf.db().cf(name).ok_or_else(|| {
                let hint = "families lists the column families";
                Failure::new(format!("Column family not found: {name}"), hint).into()
            }),
            false => self.target.open_read_only(),
        };
        match found {
            Ok(cf) => {
                self.cf = cf;
                Ok(())
            }
            Err(e) => {
                self.target.cf = before;
                Err(e)
            }
        }
    }

    fn stats(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let paint = Paint::stdout();
        let number = |name: &str| self.cf.int_property(name).unwrap_or(0);
        let keys = number("rocksdb.estimate-num-keys");
        let name = show(self.cf.name().as_bytes(), false);
        let files = self.cf.live_files();
        let memory = number("rocksdb.cur-size-all-mem-tables");
        if self.json {
            let levels = (0..self.cf.num_levels()).map(|level| {
                let here = files.iter().filter(|f| f.level == level);
                json!({ "tables": here.clone().count(), "bytes": here.map(|f| f.size).sum::<u64>() })
            });
            let object = json!({
                "family": self.cf.name(), "estimated_keys": keys, "memtable_bytes": memory,
                "levels": levels.collect::<Vec<_>>(),
            });
            return writeln!(out, "{object}");
        }
        writeln!(out, "{}: about {} keys", paint.bold(name), count(keys))?;
        for level in 0..self.cf.num_levels() {
            let here = files.iter().filter(|f| f.level == level);
            let (n, size) = here.fold((0, 0), |(n, size), f| (n + 1, size + f.size));
            if n > 0 {
                writeln!(out, "L{level:<3} {n:6} tables {:>12}", bytes(size))?;
            }
        }
        writeln!(out, "memtables {}", bytes(memory))
    }

    fn may_write(&self) -> anyhow::Result<()> {
        if self.write {
            return Ok(());
        }
        let dir = crate::fail::shell_word(&self.target.db);
        let hint = format!("leave it and begin anew: spanlith shell --write --db {dir}");
        Err(Failure::new("the shell is read-only", hint).into())
    }
}

/// Words of a line; quotes hold blanks together.
fn words(line: &str) -> Result<Vec<String>, Usage> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => out.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Usage::new(
            "a quote is not closed",
            "put 'a b' c; \\x27 and \\x22 are quotes inside words",
        ));
    }
    out.extend(word);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_blanks() {
        let split = |t: &str| words(t).ok();
        let expect = |w: &[&str]| Some(w.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(
            split("put 'a b' \"c'd\"  e"),
            expect(&["put", "a b", "c'd", "e"])
        );
        assert_eq!(split("put a ''"), expect(&["put", "a", ""]));
        assert_eq!(split("  "), expect(&[]));
        assert!(words("put 'a").is_err());
    }
}
