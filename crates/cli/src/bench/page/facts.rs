//! Describes what a run cost, what it depends on, and what the database said.

use super::{Page, term};
use crate::bench::report::Outcome;
use spanlith::options::{DbOptions, OptionRow, OptionTable};
use spanlith_workload::report::chart::{escape, plain};
use spanlith_workload::report::environment::Environment;
use std::fmt::Write;

fn times(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_string(), |v| format!("{v:.2}×"))
}

fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_string(), term::bytes)
}

/// Amplification of each benchmark.
pub fn cost(out: &mut String, outcomes: &[Outcome]) {
    out.push_str(
        "<section><div class=\"head\"><h2>What it cost</h2><p class=\"sub\">bytes moved while each \
         benchmark ran</p></div><div class=\"card\"><div class=\"scroll\"><table class=\"tight\"><thead><tr>\
         <th>benchmark</th><th>batches</th><th>log</th><th>tables written</th>\
         <th>write amp.</th><th>compactions read</th><th>space amp.</th><th>device read</th>\
         <th>device written</th><th>stalled</th></tr></thead><tbody>",
    );
    for o in outcomes.iter().filter(|o| !o.is_text) {
        let work = o.shapes.work();
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><b>{}</b></td><td>{}</td>\
             <td><b>{}</b></td><td>{}</td><td>{}</td><td>{} s</td></tr>",
            escape(&o.name),
            term::bytes(work.user),
            term::bytes(work.log),
            term::bytes(work.written),
            times(work.write_amplification()),
            term::bytes(work.read),
            times(o.shapes.after.space_amplification()),
            bytes(work.device_read),
            bytes(work.device_written),
            plain(work.stalled_micros as f64 / 1e6)
        );
    }
    out.push_str(
        "</tbody></table></div><p class=\"note\">Write amplification: bytes in logs, flushes and \
         compactions for each byte of batches; compactions that finish later count for the benchmark \
         that is then running. Space amplification: bytes of tables for each byte that one copy of every \
         live entry would take, estimated. Device: what the kernel counts for this process; reads that \
         its page cache serves are not among them.</p></div></section>",
    );
}

/// Writes what `stats` and its like printed.
pub fn texts(out: &mut String, outcomes: &[Outcome]) {
    let with = outcomes.iter().filter(|o| o.is_text);
    for (o, text) in with.filter_map(|o| Some((o, o.text.as_ref()?))) {
        let _ = write!(
            out,
            "<details><summary>{}</summary><div class=\"card scroll\"><pre>{}</pre></div></details>",
            escape(&o.name),
            escape(text.trim_end())
        );
    }
}

/// The words of the command line, quoted where a shell would need it.
fn command_line() -> String {
    let words = std::env::args_os().map(|w| crate::fail::shell_word(w.as_ref()));
    words.collect::<Vec<_>>().join(" ")
}

/// Options that differ from their defaults: name, value, default.
fn changed<T: OptionTable>(options: &T) -> Vec<[String; 3]> {
    let defaults = T::default();
    // The largest numbers but one mean that the database chooses.
    let shown = |text: String| match text.as_str() {
        "18446744073709551614" => "automatic".to_string(),
        _ => text,
    };
    let row = |row: &OptionRow<T>| {
        let (value, default) = (shown((row.get)(options)), shown((row.get)(&defaults)));
        (value != default).then(|| [row.name.to_string(), value, default])
    };
    T::ROWS.iter().filter_map(row).collect()
}

/// The last sections: command, environment, options.
pub fn environment(out: &mut String, page: &Page<'_>, environment: &Environment) {
    out.push_str(
        "<section><div class=\"head\"><h2>How to repeat it</h2></div><div class=\"card\"><h3>Command \
         line</h3>",
    );
    let _ = write!(out, "<pre>{}</pre></div>", escape(&command_line()));
    out.push_str(
        "<div class=\"two\" style=\"margin-top:12px\"><div class=\"card\"><h3>Environment</h3>\
         <table class=\"facts\"><tbody>",
    );
    for (name, value) in environment.rows() {
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    let dir = page.dir.display().to_string();
    let _ = write!(
        out,
        "<tr><th>database</th><td>{}</td></tr></tbody></table></div>",
        escape(&dir)
    );
    let Some(file) = page.options else {
        out.push_str("</div></section>");
        return;
    };
    out.push_str(
        "<div class=\"card\"><h3>Options <small>that differ from their defaults</small></h3>\
         <table class=\"facts\"><tbody>",
    );
    let mut rows = changed::<DbOptions>(&file.db);
    if let Some((_, options, table)) = file.families.first() {
        rows.extend(changed(options));
        rows.extend(changed(table));
    }
    for [name, value, default] in rows {
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{} <span class=\"sub\">(default {})</span></td></tr>",
            escape(&name),
            escape(&value),
            escape(if default.is_empty() { "none" } else { &default })
        );
    }
    let _ = write!(
        out,
        "</tbody></table></div></div><details><summary>All options, as in the OPTIONS file</summary>\
         <div class=\"card scroll\"><pre>{}</pre></div></details></section>",
        escape(file.to_text().trim_end())
    );
}
