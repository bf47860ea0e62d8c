//! `plot`: the figures of [WL] of a trace, on one page and as text.

use super::{Limits, observe};
use anyhow::Context;
use clap::Args;
use spanlith_workload::figures::{self, Plot, svg};
use spanlith_workload::model::Observation;
use spanlith_workload::report::chart::escape;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2230; --paper: #fff; --line: #c9ced8; --soft: #5a6272;
  --c0: #1f5fbf; --c1: #c2410c; --c2: #15803d; --c3: #7e22ce; --c4: #a16207; --c5: #0e7490 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --paper: #15181f; --line: #3a4150; --soft: #a7afbf;
  --c0: #7db0ff; --c1: #ff9d66; --c2: #6fd08c; --c3: #c9a3ff; --c4: #e5c35c; --c5: #67d3e8 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
.all { display: grid; grid-template-columns: repeat(auto-fill, minmax(28rem, 1fr)); gap: 2rem }
figure { margin: 0 } figcaption { font-size: .95rem } figcaption span { color: var(--soft) }
svg { width: 100%; height: auto } text { fill: var(--soft); font-size: 11px } .axis { stroke: var(--line); fill: none }
.s0 { stroke: var(--c0) } .s1 { stroke: var(--c1) } .s2 { stroke: var(--c2) } .s3 { stroke: var(--c3) } .s4 { stroke: var(--c4) } .s5 { stroke: var(--c5) }
.s0, .s1, .s2, .s3, .s4, .s5 { fill: none; stroke-width: 1.6 } .d1 { stroke-dasharray: 6 3 } .d2 { stroke-dasharray: 2 3 }
.f0 { fill: var(--c0) } .f1 { fill: var(--c1) } .f2 { fill: var(--c2) } .f3 { fill: var(--c3) } .f4 { fill: var(--c4) } .f5 { fill: var(--c5) }
";

/// Draws what a trace says: types, popularity, sizes, rate, places in the key space
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanlith plot /tmp/trace --page workload.html
  spanlith plot /tmp/trace --tsv figures/")]
pub struct PlotArgs {
    /// The trace; TRACE.ext beside it says how long scans were
    trace: PathBuf,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "plot.html")]
    page: PathBuf,
    /// Writes the numbers of each figure to a file in this directory, too
    #[arg(long, value_name = "DIR")]
    tsv: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
}

impl PlotArgs {
    /// Draws.
    ///
    /// # Errors
    /// Names the trace, the page or the directory.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let seen = observe(&self.trace, &self.limits)?;
        let plots = figures::of(&seen);
        std::fs::write(&self.page, html(&self.trace, &seen, &plots))
            .with_context(|| format!("writing {}", self.page.display()))?;
        if let Some(dir) = &self.tsv {
            std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
            for plot in &plots {
                let file = dir.join(format!("{}.tsv", plot.name));
                std::fs::write(&file, plot.tsv())
                    .with_context(|| format!("writing {}", file.display()))?;
            }
        }
        tell!("{}", self.page.display());
        Ok(ExitCode::SUCCESS)
    }
}

fn html(trace: &Path, seen: &Observation, plots: &[Plot]) -> String {
    let name = escape(&trace.display().to_string());
    let kept = match seen.keys_kept_one_of > 1.0 {
        true => format!(" One key of {:.0} was looked at.", seen.keys_kept_one_of),
        false => String::new(),
    };
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{name}</title><style>{STYLE}</style><h1>What {name} asks for</h1><p>{} over {:.1} s.{kept}</p><div class=all>",
        crate::term::counted(seen.requests, "request"),
        seen.span_micros as f64 / 1e6
    );
    for plot in plots {
        let _ = write!(
            page,
            "<figure>{}<figcaption>{} <span>([WL] {})</span></figcaption></figure>",
            svg(plot),
            escape(&plot.title),
            plot.document
        );
    }
    page.push_str("</div></html>\n");
    page
}
