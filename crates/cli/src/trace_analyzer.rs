//! `trace_analyzer`: RocksDB's analysis of traces of queries, with its flags, its files and its output.
//!
//! The counting is [`spanlith_workload::analyze`]'s; here are the command line and the directory.

use crate::fail::{self, At, Failure, Usage};
use crate::{bytes, os_text, term};
use spanlith::trace::TraceReader;
use spanlith::{Error, ErrorKind};
use spanlith_env::Env;
use spanlith_workload::analyze::{Analysis, AnalyzerOptions, Operation, Sink};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
trace_analyzer - what a trace of queries says of a workload (Spanlith)

Usage: trace_analyzer --trace_path=FILE [--output_dir=DIR] [--output_prefix=trace] [FLAGS]

What is analysed:
  --analyze_get --analyze_put --analyze_delete --analyze_single_delete --analyze_range_delete
  --analyze_merge --analyze_iterator --analyze_multiget     (--analyze_put: entities as well)
  --sample_ratio=R       one of 1/R accesses of each operation (default 1.0)
  --output_ignore_count=N   keys with N accesses or fewer are left out of distributions
  --try_process_corrupted_trace   what comes before damage is analysed

Files, DIR/PREFIX-OPERATION-FAMILY-NAME.txt:
  --output_key_stats --output_access_count_stats --output_key_distribution --output_time_series
  --output_value_distribution [--value_interval=8]   --output_qps_stats   --output_prefix_cut=N
  --key_space_dir=DIR    also counts over all keys of a family, listed in DIR/FAMILY.txt
  --convert_to_human_readable_trace [--no_key]   the trace as text

Printed:
  --print_overall_stats (default) --print_top_k_access=1 --print_correlation=[get,put][put,get] --no_print

Example: trace_analyzer --trace_path=/tmp/trace --output_dir=/tmp/out --analyze_get --analyze_put \\
           --output_key_stats --output_qps_stats";

const SWITCHES: [&str; 19] = [
    "analyze_get",
    "analyze_put",
    "analyze_delete",
    "analyze_single_delete",
    "analyze_range_delete",
    "analyze_merge",
    "analyze_iterator",
    "analyze_multiget",
    "output_key_stats",
    "output_access_count_stats",
    "output_time_series",
    "output_qps_stats",
    "output_key_distribution",
    "output_value_distribution",
    "convert_to_human_readable_trace",
    "no_key",
    "no_print",
    "print_overall_stats",
    "try_process_corrupted_trace",
];

/// The command line.
#[derive(Debug)]
struct Args {
    trace: PathBuf,
    dir: PathBuf,
    prefix: OsString,
    key_space_dir: Option<PathBuf>,
    human_readable: bool,
    no_key: bool,
    no_print: bool,
    options: AnalyzerOptions,
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<N, Usage> {
    value.parse().map_err(|_| {
        Usage::new(
            format!("--{name}={value}: no number that it takes"),
            "trace_analyzer --help lists the flags with their defaults",
        )
    })
}

/// `[get,put][put,get]`.
fn correlations(text: &str) -> Result<Vec<(Operation, Operation)>, Usage> {
    let wrong = || {
        let names: Vec<_> = Operation::ALL.iter().map(|o| o.name()).collect();
        Usage::new(
            format!("Invalid correlation input: {text}"),
            format!(
                "pairs in brackets without anything in between: [get,put][put,get]; operations: {}",
                names.join(" ")
            ),
        )
    };
    let mut pairs = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (pair, behind) = rest
            .strip_prefix('[')
            .and_then(|r| r.split_once(']'))
            .ok_or_else(wrong)?;
        let (first, second) = pair.split_once(',').ok_or_else(wrong)?;
        let operation = |name| Operation::by_name(name).ok_or_else(wrong);
        pairs.push((operation(first)?, operation(second)?));
        rest = behind;
    }
    Ok(pairs)
}

impl Args {
    fn parse(args: &[String]) -> Result<Self, Usage> {
        let mut parsed = Self {
            trace: PathBuf::new(),
            dir: PathBuf::new(),
            prefix: "trace".into(),
            key_space_dir: None,
            human_readable: false,
            no_key: false,
            no_print: false,
            options: AnalyzerOptions::default(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some(named) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
                return Err(Usage::new(
                    format!("'{arg}' is no flag"),
                    "trace_analyzer takes --name=value: trace_analyzer --trace_path=FILE --analyze_get",
                ));
            };
            let (name, value) = match named.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (named, None),
            };
            let positive = name.strip_prefix("no").filter(|n| SWITCHES.contains(n));
            if SWITCHES.contains(&name) {
                let on = match value {
                    None | Some("true" | "1" | "yes" | "t" | "y") => true,
                    Some("false" | "0" | "no" | "f" | "n") => false,
                    Some(other) => {
                        return Err(Usage::new(
                            format!("--{name}={other} is neither true nor false"),
                            format!("write --{name} or --no{name}"),
                        ));
                    }
                };
                parsed.switch(name, on);
            } else if let (Some(name), None) = (positive, value) {
                parsed.switch(name, false);
            } else {
                let value = match value {
                    Some(value) => value,
                    None => args.next().map(String::as_str).ok_or_else(|| {
                        Usage::new(
                            format!("--{name} has no value"),
                            "trace_analyzer --help lists the flags",
                        )
                    })?,
                };
                parsed.set(name, value)?;
            }
        }
        if parsed.trace.as_os_str().is_empty() {
            return Err(Usage::new(
                "which trace?",
                "trace_analyzer --trace_path=FILE --analyze_get",
            ));
        }
        Ok(parsed)
    }

    fn switch(&mut self, name: &str, on: bool) {
        use Operation as O;
        let o = &mut self.options;
        let operations: &[O] = match name {
            "analyze_get" => &[O::Get],
            "analyze_put" => &[O::Put, O::PutEntity],
            "analyze_delete" => &[O::Delete],
            "analyze_single_delete" => &[O::SingleDelete],
            "analyze_range_delete" => &[O::RangeDelete],
            "analyze_merge" => &[O::Merge],
            "analyze_iterator" => &[O::Seek, O::SeekForPrev],
            "analyze_multiget" => &[O::MultiGet],
            _ => &[],
        };
        o.operations.retain(|known| !operations.contains(known));
        if on {
            o.operations.extend(operations);
        }
        match name {
            "output_key_stats" => o.key_stats = on,
            "output_access_count_stats" => o.access_counts = on,
            "output_time_series" => o.time_series = on,
            "output_qps_stats" => o.qps = on,
            "output_key_distribution" => o.key_sizes = on,
            "output_value_distribution" => o.value_sizes = on,
            "convert_to_human_readable_trace" => self.human_readable = on,
            "no_key" => self.no_key = on,
            "no_print" => self.no_print = on,
            "print_overall_stats" => o.overall = on,
            "try_process_corrupted_trace" => o.tolerate_damage = on,
            _ => {}
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Usage> {
        let o = &mut self.options;
        match name {
            "trace_path" => self.trace = os_text::to_path(value),
            "output_dir" => self.dir = os_text::to_path(value),
            "output_prefix" => self.prefix = os_text::to_os(value),
            "key_space_dir" => {
                self.key_space_dir = (!value.is_empty()).then(|| os_text::to_path(value));
            }
            "output_prefix_cut" => o.prefix_len = number(name, value)?,
            "print_top_k_access" => o.top = number(name, value)?,
            "output_ignore_count" => o.ignore_count = number(name, value)?,
            "value_interval" => {
                o.value_interval = number::<std::num::NonZeroU32>(name, value)?.get().into();
            }
            "sample_ratio" => {
                let ratio: f64 = number(name, value)?;
                let is_share = ratio > 0.0 && ratio <= 1.0;
                o.sample_every = if is_share { (1.0 / ratio) as u32 } else { 1 };
            }
            "print_correlation" => o.correlations = correlations(value)?,
            _ => {
                return Err(Usage::new(
                    format!("unknown command line flag '{name}'"),
                    "trace_analyzer --help lists the flags",
                ));
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut file = self.prefix.clone();
        file.push(format!("-{name}"));
        self.dir.join(file)
    }

    /// Where the files go there is room for keys that wait.
    fn analyzer(&self) -> AnalyzerOptions {
        AnalyzerOptions {
            scratch: (!self.dir.as_os_str().is_empty()).then(|| self.dir.clone()),
            ..self.options.clone()
        }
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        let at = self.trace.as_path();
        let fs = Env::system().fs;
        let bar = term::bar(fs.size(at).at(at)?, "B", "reading the trace");
        let mut trace = TraceReader::new(fs.open_sequential(at).at(at)?);
        let mut human = match self.human_readable {
            true => Some(create(&self.path("human_readable_trace.txt"))?),
            false => None,
        };
        let read = Analysis::read(
            &mut trace,
            self.analyzer(),
            &mut |at| bar.set_position(at),
            &mut |access| {
                let Some(out) = &mut human else { return Ok(()) };
                let mut line = Vec::new();
                if !self.no_key {
                    line.extend_from_slice(b"0x");
                    line.extend(
                        bytes::hex(access.key)
                            .bytes()
                            .map(|d| d.to_ascii_uppercase()),
                    );
                    line.push(b' ');
                }
                let (id, cf) = (access.operation.id(), access.cf);
                let (size, time) = (access.value_size, access.timestamp);
                line.extend(format!("{id} {cf} {size} {time}\n").bytes());
                let written = out.write_all(&line);
                written.map_err(|e| Error::io(e.to_string()))
            },
        );
        bar.finish_and_clear();
        let mut analysis = read.map_err(|e| {
            let hint = match e.kind() {
                ErrorKind::Corruption => {
                    "--try_process_corrupted_trace analyses what comes before; spanlith trace dump shows the records"
                }
                _ => "spanlith trace dump shows the records",
            };
            Failure::new(format!("{}: {e}", at.display()), hint)
        })?;
        if let Some(mut out) = human {
            out.flush()?;
        }
        if let Some(damage) = analysis.damage() {
            tell!("{}: analysed up to the damage: {damage}", at.display());
        }
        let mut open = |cf: u32| -> std::io::Result<Box<dyn BufRead>> {
            let dir = self.key_space_dir.as_deref().unwrap_or(Path::new(""));
            Ok(Box::new(BufReader::new(File::open(
                dir.join(format!("{cf}.txt")),
            )?)))
        };
        let mut sink = InDirectory(&self);
        let key_spaces = self.key_space_dir.is_some().then_some(&mut open as _);
        for cf in analysis.write_files(&mut sink, key_spaces)? {
            tell!("Cannot open the whole key space file of CF: {cf}");
        }
        if !self.no_print {
            let mut out = BufWriter::new(std::io::stdout().lock());
            analysis.print(&mut out)?;
            out.flush()?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct InDirectory<'a>(&'a Args);

fn create(path: &Path) -> std::io::Result<BufWriter<File>> {
    let file = File::create(path);
    let file = file.map_err(|e| {
        std::io::Error::new(
            e.kind(),
            format!("Cannot open file: {}: {e}", path.display()),
        )
    })?;
    Ok(BufWriter::new(file))
}

impl Sink for InDirectory<'_> {
    fn create(&mut self, name: &str) -> std::io::Result<Box<dyn Write>> {
        Ok(Box::new(create(&self.0.path(name))?))
    }
}

/// Runs `trace_analyzer` with arguments that do not include its own name.
///
/// # Errors
/// Of the command line, of reading the trace, of writing files.
pub fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    if args
        .iter()
        .any(|a| a == "--help" || a == "-h" || a == "-help")
    {
        return Ok(fail::show(HELP));
    }
    if args.iter().any(|a| a == "--version") {
        return Ok(fail::show(concat!(
            "trace_analyzer from Spanlith ",
            env!("CARGO_PKG_VERSION")
        )));
    }
    Args::parse(args)?.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, Usage> {
        let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Args::parse(&args)
    }

    #[test]
    fn flags_are_written_as_gflags_takes_them() {
        let args = parse(
            "-trace_path=t --analyze_get -analyze_put=true --noprint_overall_stats -output_prefix p \
             --output_prefix_cut=3 -sample_ratio=0.25 -print_correlation=[get,put][put,get] \
             --analyze_merge --noanalyze_merge -no_key",
        )
        .unwrap();
        let o = &args.options;
        assert_eq!(
            o.operations,
            [Operation::Get, Operation::Put, Operation::PutEntity]
        );
        assert!(!o.overall && args.no_key && !args.no_print);
        assert_eq!(
            (args.prefix.to_str().unwrap(), o.prefix_len, o.sample_every),
            ("p", 3, 4)
        );
        assert_eq!(
            o.correlations,
            [
                (Operation::Get, Operation::Put),
                (Operation::Put, Operation::Get)
            ]
        );
        assert_eq!(args.path("x.txt"), Path::new("p-x.txt"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_hint() {
        for line in [
            "",
            "--analyze_get",
            "--trace_path=t --analyze_got",
            "--trace_path=t word",
            "--trace_path=t --value_interval=0",
            "--trace_path=t --output_prefix_cut=-1",
            "--trace_path=t --analyze_get=perhaps",
            "--trace_path=t --print_correlation=[get,put],[put,get]",
            "--trace_path=t --print_correlation=[get]",
            "--trace_path=t --output_dir",
        ] {
            let e = parse(line).unwrap_err();
            assert!(!e.hint().is_empty(), "{line}");
        }
    }
}
