//! `model`: what a trace says of a workload, as a file without keys; and requests made of such a file. [`twin`] does all
//! of it at once and compares what both do to the engine.
//!
//! The work is [`spanlith_workload::model`]'s; here are files, texts and the page.

mod checkpoint;
mod head;
mod page;
pub mod plot;
mod run;
pub mod twin;

use crate::dump::kind::{self, Kind};
use crate::fail::{At, Failure};
use crate::term;
use anyhow::Context;
use clap::{Args, Subcommand};
use spanlith::trace::{ExtensionReader, TraceReader, extension_path};
use spanlith_env::Env;
use spanlith_workload::analyze::Operation;
use spanlith_workload::model::{
    FamilyObservation, GenerateOptions, Model, Observation, ObserveOptions, generate,
};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes, uses and compares models of workloads
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Fits a model to a trace
    Fit(Fit),
    /// Makes a trace of a model
    Generate(Generate),
    /// Says how far the distributions of two traces are apart
    Compare(Compare),
}

/// Flags of who reads traces.
#[derive(Clone, Debug, Args)]
pub struct Limits {
    /// Keys that are kept in memory at most; of more, a share
    #[arg(long, value_name = "N", default_value_t = 2_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    keys_max: u64,
}

#[derive(Debug, Args)]
pub struct Fit {
    /// The trace; TRACE.ext beside it says how long scans were
    trace: PathBuf,
    /// File of the model; standard output if left out
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
}

#[derive(Debug, Args)]
pub struct Generate {
    /// The model
    model: PathBuf,
    /// The trace to write; TRACE.ext is written, too
    #[arg(long, short, value_name = "TRACE")]
    output: PathBuf,
    /// Everything that chance decides follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Accesses relative to those of the model
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The one
    first: PathBuf,
    /// The other
    second: PathBuf,
    /// Fails if a distance of Kolmogorov and Smirnov is larger
    #[arg(long, value_name = "D")]
    limit: Option<f64>,
    /// One object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: Limits,
}

/// Reads a trace and what lies beside it.
pub fn observe(path: &Path, limits: &Limits) -> anyhow::Result<Observation> {
    kind::expect(path, Kind::Trace)?;
    let env = Env::system();
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut reader = TraceReader::new(env.fs.open_sequential(path).at(dir)?);
    let beside = extension_path(path);
    let beside = match env.fs.entry(&beside).at(dir)? {
        None => None,
        Some(_) => {
            let file = env.fs.open_sequential(&beside).at(dir)?;
            Some(
                ExtensionReader::new(file)
                    .map_err(|e| e.with_path(&beside))
                    .at(dir)?,
            )
        }
    };
    let options = ObserveOptions {
        keys_max: usize::try_from(limits.keys_max).unwrap_or(usize::MAX),
    };
    let seen = Observation::read(&mut reader, beside, options);
    let seen = seen.map_err(|e| {
        Failure::new(
            format!("{}: {e}", path.display()),
            "spanlith trace check TRACE says what is wrong; only traces of queries tell of workloads",
        )
    })?;
    if seen.requests == 0 {
        let what = format!("{}: the trace has no request", path.display());
        return Err(Failure::new(what, "trace a database that is used").into());
    }
    Ok(seen)
}

/// Reads a model.
pub fn load(path: &Path) -> anyhow::Result<Model> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let wrong = |what: String| {
        let what = format!("{}: {what}", path.display());
        Failure::new(what, "a model is what spanlith model fit TRACE writes")
    };
    let value = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    Ok(Model::from_json(&value).map_err(|e| wrong(e.to_string()))?)
}

/// Makes a trace of a model, and the file beside it.
pub fn write_trace(model: &Model, options: &GenerateOptions, path: &Path) -> anyhow::Result<u64> {
    let create = |path: &Path| {
        let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
        Ok::<_, anyhow::Error>(BufWriter::with_capacity(1 << 20, file))
    };
    let (mut trace, mut beside) = (create(path)?, create(&extension_path(path))?);
    let made = generate(model, options, &mut trace, &mut beside)
        .at(path.parent().unwrap_or(Path::new(".")))?;
    trace.flush().context("writing the trace")?;
    beside
        .flush()
        .context("writing the file beside the trace")?;
    Ok(made.requests)
}

/// A distribution of two workloads.
pub struct Compared {
    pub name: String,
    /// Of Kolmogorov and Smirnov.
    pub distance: f64,
    /// Points of both distribution functions, for a picture.
    pub curves: [Vec<(f64, f64)>; 2],
}

fn points(sizes: &spanlith_workload::model::Sizes) -> Vec<(f64, f64)> {
    let (xs, ys) = sizes.distribution();
    let step = xs.len().div_ceil(300).max(1);
    let mut all = xs.iter().copied().zip(ys.iter().copied());
    let mut some: Vec<_> = all.clone().step_by(step).collect();
    some.extend(all.next_back());
    some
}

/// All distributions of two workloads, family by family.
pub fn compare(a: &Observation, b: &Observation) -> Vec<Compared> {
    let mut all = Vec::new();
    let none = FamilyObservation::default();
    let mut families: Vec<u32> = a
        .families
        .keys()
        .chain(b.families.keys())
        .copied()
        .collect();
    families.sort_unstable();
    families.dedup();
    for cf in families {
        let (fa, fb) = (
            a.families.get(&cf).unwrap_or(&none),
            b.families.get(&cf).unwrap_or(&none),
        );
        let mut note = |name: String, x: &_, y: &_| {
            let of = |s: &spanlith_workload::model::Sizes| s.total() > 0;
            if of(x) || of(y) {
                all.push(Compared {
                    name: format!("family {cf}: {name}"),
                    distance: x.distance(y),
                    curves: [points(x), points(y)],
                });
            }
        };
        note("key size".into(), &fa.key_sizes, &fb.key_sizes);
        note("value size".into(), &fa.value_sizes, &fb.value_sizes);
        if a.is_extended && b.is_extended {
            note("scan length".into(), &fa.scan_lengths, &fb.scan_lengths);
        }
        for operation in Operation::ALL {
            let name = format!("accesses of a key by {}", operation.name());
            note(
                name,
                &fa.access_counts(operation),
                &fb.access_counts(operation),
            );
        }
    }
    all
}

pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Fit(fit) => {
            let model = Model::of(&observe(&fit.trace, &fit.limits)?);
            let text = format!("{:#}\n", model.to_json());
            match &fit.output {
                None => std::io::stdout().write_all(text.as_bytes())?,
                Some(path) => {
                    std::fs::write(path, &text)
                        .with_context(|| format!("writing {}", path.display()))?;
                    describe(&model)?;
                }
            }
        }
        Verb::Generate(make) => {
            let options = GenerateOptions {
                seed: make.seed,
                scale: make.scale,
                ..GenerateOptions::default()
            };
            let made = write_trace(&load(&make.model)?, &options, &make.output)?;
            tell!(
                "{} in {}",
                term::counted(made, "request"),
                make.output.display()
            );
        }
        Verb::Compare(two) => {
            let a = observe(&two.first, &two.limits)?;
            let b = observe(&two.second, &two.limits)?;
            let all = compare(&a, &b);
            let mut out = std::io::stdout().lock();
            for c in &all {
                match two.json {
                    true => writeln!(
                        out,
                        "{}",
                        serde_json::json!({ "variable": c.name, "ks": c.distance })
                    )?,
                    false => writeln!(out, "{:<52} {:.4}", c.name, c.distance)?,
                }
            }
            let most = all.iter().map(|c| c.distance).fold(0.0, f64::max);
            if two.limit.is_some_and(|limit| most > limit) {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what a model says.
fn describe(model: &Model) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} in {:.1} s",
        term::counted(model.requests, "request"),
        model.seconds
    )?;
    let curve = |out: &mut dyn Write, name: &str, c: &spanlith_workload::model::Curve| {
        let numbers: Vec<String> = c
            .fit
            .parameters
            .iter()
            .map(|p| format!("{p:.4e}"))
            .collect();
        writeln!(
            out,
            "  {name}: {} ({}), FSE {:.4}, R² {:.4}, at most {:.3} off",
            c.fit.family.name(),
            numbers.join(", "),
            c.fit.fse,
            c.fit.r2,
            c.fit.largest
        )
    };
    if let Some(rate) = &model.rate_curve {
        curve(&mut out, "requests per second", rate)?;
    }
    for (cf, family) in &model.families {
        writeln!(
            out,
            "family {cf}: {}, {} of neighbours, hot keys {}",
            term::counted(family.keys, "key"),
            term::counted(family.ranges.len() as u64, "range"),
            if family.is_adjacent() {
                "together"
            } else {
                "scattered"
            }
        )?;
        for (name, (r, rho)) in &family.correlations {
            writeln!(out, "  {name}: r {r:.3}, ρ {rho:.3}")?;
        }
        for (name, c) in &family.curves {
            curve(&mut out, name, c)?;
        }
    }
    Ok(())
}
