//! Command lines that clap refuses, in the words of the other messages: what is wrong with which value, and what to
//! write or ask next.
//!
//! Clap's own text stays where it says more (similar names, what is missing); its last line gives way to the help of
//! the verb that was called. Numbers that are none are told with their flag, their value and an example.

use crate::fail::Usage;
use crate::term::Paint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Reads a command line, the name of the program included.
///
/// # Errors
/// The exit code, after what is wrong, or the help that was asked for, has been printed.
pub fn read<C: Parser + CommandFactory>(args: Vec<OsString>) -> Result<C, ExitCode> {
    C::try_parse_from(&args).map_err(|e| {
        let code = u8::try_from(e.exit_code()).unwrap_or(2);
        let is_help = e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if !e.use_stderr() || is_help {
            // Where nobody reads it, the exit code says it.
            let _ = e.print();
            return ExitCode::from(code);
        }
        complain(&e, &verb(&C::command(), &args));
        ExitCode::from(code)
    })
}

/// The verb that was called, as it is typed: `spanlith db scan`.
pub fn verb(command: &Command, args: &[OsString]) -> String {
    let mut path = vec![command.get_name().to_string()];
    let mut command = command;
    for arg in args.iter().skip(1) {
        let Some(inner) = arg.to_str().and_then(|name| command.find_subcommand(name)) else {
            break;
        };
        path.push(inner.get_name().to_string());
        command = inner;
    }
    path.join(" ")
}

fn complain(e: &clap::Error, verb: &str) {
    let paint = Paint::stderr();
    if let Some(usage) = bad_value(e, verb) {
        tell!("{} {usage}", paint.red("error:"));
        tell!("{}  {}", paint.bold("next:"), usage.hint());
        return;
    }
    let rendered = e.render();
    let text = match crate::term::is_live() {
        true => rendered.ansi().to_string(),
        false => rendered.to_string(),
    };
    let text = text.split("For more information").next().unwrap_or(&text);
    tell!("{}", text.trim_end());
    tell!("{}  {verb} --help shows what it takes", paint.bold("next:"));
}

/// A number that is none, or too large.
fn bad_value(e: &clap::Error, verb: &str) -> Option<Usage> {
    if e.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let text = |kind| match e.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (arg, value) = (
        text(ContextKind::InvalidArg)?,
        text(ContextKind::InvalidValue)?,
    );
    let why = std::error::Error::source(e)?.to_string();
    // `--limit <N>` is shown, `--limit` is typed; a word in its place has no other name.
    let flag = arg.split_once(' ').map_or(arg, |(flag, _)| flag);
    let example = |number: &str| match flag.starts_with('-') {
        true => format!("{flag} {number}"),
        false => format!("{verb} {number}"),
    };
    let (is, number) = match why.as_str() {
        "invalid digit found in string" => ("is no whole number", "1000"),
        "cannot parse integer from empty string" => ("is empty, and a number is wanted", "1000"),
        "invalid float literal" => ("is no number", "0.5"),
        "cannot parse float from empty string" => ("is empty, and a number is wanted", "0.5"),
        _ if why.starts_with("number too large") => ("is too large", "1000"),
        _ if why.starts_with("number too small") => ("is too small", "1000"),
        _ => return None,
    };
    Some(Usage::new(
        format!("{flag}: '{value}' {is}"),
        format!("write digits only, as in {}", example(number)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "tool")]
    struct Tool {
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Verb {
        Scan {
            #[arg(long, value_name = "N")]
            limit: Option<u64>,
            #[arg(long)]
            share: Option<f64>,
            from: Option<u32>,
        },
    }

    fn said(args: &[&str]) -> Option<(String, String)> {
        let e = Tool::try_parse_from(args).unwrap_err();
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let usage = bad_value(&e, &verb(&Tool::command(), &args))?;
        Some((usage.to_string(), usage.hint().to_string()))
    }

    #[test]
    fn numbers_are_told_with_flag_value_and_example() {
        let two = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
        assert_eq!(
            said(&["tool", "scan", "--limit", "1M"]),
            two(
                "--limit: '1M' is no whole number",
                "write digits only, as in --limit 1000"
            )
        );
        assert_eq!(
            said(&["tool", "scan", "--limit", "99999999999999999999"])
                .unwrap()
                .0,
            "--limit: '99999999999999999999' is too large"
        );
        assert_eq!(
            said(&["tool", "scan", "--share", "half"]).unwrap().1,
            "write digits only, as in --share 0.5"
        );
        assert_eq!(
            said(&["tool", "scan", "abc"]),
            two(
                "[FROM]: 'abc' is no whole number",
                "write digits only, as in tool scan 1000"
            )
        );
        // A value that is no number has clap's text.
        assert_eq!(said(&["tool", "scan", "--limi", "1"]), None);
    }
}
