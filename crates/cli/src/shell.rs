//! `spanlith shell`: one command a line, on a database that stays open.
//!
//! Read-only unless `--write` is given. From a terminal with a prompt; from a pipe without one, and then
//! the first command that fails ends the shell with exit code 1.

use crate::bytes::{parse, show};
use crate::db::open::{How, Target, WriteFlags};
use crate::fail::{At, Failure, Usage};
use crate::term::{Paint, bytes, count};
use clap::Args;
use spanlith::{Cf, ReadOptions, WriteOptions};
use std::io::{BufRead, IsTerminal, Write};
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

const HELP: &str = "\
get KEY                    the value of a key
scan [FROM [TO [LIMIT]]]   entries from FROM up to before TO, 100 unless LIMIT says otherwise
count [FROM [TO]]          number of entries
put KEY VALUE              sets a key (with --write)
delete KEY                 removes a key (with --write)
families                   column families; use NAME goes to one
use NAME                   the column family that commands are about
stats [PROPERTY]           tables per level, or a property by RocksDB's name
refresh                    looks at the directory anew (a read-only view stays as it was opened)
help, quit                 quotes around words hold blanks: put 'a b' c; escapes are \\t \\n \\xNN, 0x…";

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
    /// Keys and values are bare hexadecimal, in and out
    #[arg(long)]
    hex: bool,
}

/// What comes after a command.
enum Next {
    Again,
    End,
}

struct Session {
    target: Target,
    cf: Cf,
    write: bool,
    hex: bool,
}

impl Shell {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let target = Target {
            db: self.db,
            cf: self.cf,
            how: self.how,
        };
        let cf = open(&target, self.write)?;
        let mut session = Session {
            target,
            cf,
            write: self.write,
            hex: self.hex,
        };
        let talks = std::io::stdin().is_terminal();
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        loop {
            if talks {
                let mark = if session.write { "#" } else { ">" };
                print!("{}{mark} ", session.cf.name());
                std::io::stdout().flush()?;
            }
            line.clear();
            if input.read_line(&mut line)? == 0 {
                break;
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

fn open(target: &Target, write: bool) -> anyhow::Result<Cf> {
    match write {
        true => target.open_read_write(&WriteFlags::plain()),
        false => target.open_read_only(),
    }
}

impl Session {
    fn command(&mut self, line: &str) -> anyhow::Result<Next> {
        let words = words(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut out = std::io::stdout().lock();
        let dir = self.target.db.clone();
        match words[..] {
            [] => {}
            ["quit" | "exit"] => return Ok(Next::End),
            ["help" | "?"] => writeln!(out, "{HELP}")?,
            ["get", key] => {
                let key = parse(key, self.hex)?;
                match self.cf.get_opt(&key, &self.reading()).at(&dir)? {
                    Some(v) => writeln!(out, "{}", show(self.target.value(&v), self.hex))?,
                    None => writeln!(out, "(no entry)")?,
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
                writeln!(out, "{entries}")?;
            }
            ["put", key, value] => {
                self.may_write()?;
                let (key, value) = (parse(key, self.hex)?, parse(value, self.hex)?);
                let value = self.target.stored(value);
                self.cf
                    .put_opt(&key, &value, &WriteOptions::new())
                    .at(&dir)?;
                writeln!(out, "OK")?;
            }
            ["delete", key] => {
                self.may_write()?;
                let key = parse(key, self.hex)?;
                self.cf.delete_opt(&key, &WriteOptions::new()).at(&dir)?;
                writeln!(out, "OK")?;
            }
            ["families"] => {
                let names = spanlith::Db::list_families(&dir, &spanlith_env::Env::system());
                for name in names.at(&dir)? {
                    writeln!(out, "{}", show(name.as_bytes(), false))?;
                }
            }
            ["use", name] => {
                let name = String::from_utf8(parse(name, false)?).unwrap_or_default();
                self.go_to(&name)?;
            }
            ["refresh"] if self.write => {}
            ["refresh"] => self.cf = open(&self.target, false)?,
            ["stats"] => self.stats(&mut out)?,
            ["stats", name] => {
                let name = match name.starts_with("rocksdb.") {
                    true => name.to_string(),
                    false => format!("rocksdb.{name}"),
                };
                match self.cf.property(&name) {
                    Some(text) => writeln!(out, "{}", text.trim_end())?,
                    None => {
                        let hint = "spanlith db properties lists them";
                        return Err(Usage::new(format!("unknown property '{name}'"), hint).into());
                    }
                }
            }
            [first, ..] => {
                let known = HELP
                    .lines()
                    .find(|l| l.split([' ', ',']).next() == Some(first));
                return Err(Usage::new(
                    format!("'{line}' is no command"),
                    known.unwrap_or("help lists the commands"),
                )
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
                writeln!(out, "… more; scan FROM TO LIMIT shows it")?;
                break;
            }
            left -= 1;
            let value = show(self.target.value(cursor.value()), self.hex);
            writeln!(out, "{}\t{value}", show(cursor.key(), self.hex))?;
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
            false => open(&self.target, false),
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
        writeln!(out, "{} some {} keys", paint.bold(name), count(keys))?;
        let files = self.cf.live_files();
        for level in 0..self.cf.num_levels() {
            let here = files.iter().filter(|f| f.level == level);
            let (n, size) = here.fold((0, 0), |(n, size), f| (n + 1, size + f.size));
            if n > 0 {
                writeln!(out, "L{level:<3} {n:6} tables {:>12}", bytes(size))?;
            }
        }
        let memory = number("rocksdb.cur-size-all-mem-tables");
        writeln!(out, "memtables {}", bytes(memory))
    }

    fn may_write(&self) -> anyhow::Result<()> {
        if self.write {
            return Ok(());
        }
        let hint = "leave the shell and begin it with --write";
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
        return Err(Usage::new("a quote is not closed", "put 'a b' c"));
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
