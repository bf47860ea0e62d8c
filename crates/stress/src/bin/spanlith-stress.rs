//! Command line of the stress programmes.
#![forbid(unsafe_code)]

use spanlith_stress::beside;
use spanlith_stress::crash::{CrashPlan, run_crash};
use spanlith_stress::damage::image::Wanted;
use spanlith_stress::damage::{DamagePlan, run_damage};
use spanlith_stress::diff::{DiffPlan, replay_diff, run_diff};
use spanlith_stress::faults::{FaultsPlan, run_faults};
use spanlith_stress::histories::{HistoriesPlan, run_histories};
use spanlith_stress::interrupts::{InterruptsPlan, run_interrupts};
use spanlith_stress::kill::{KillPlan, run_kill};
use spanlith_stress::large::{LargePlan, run_large};
use spanlith_stress::model::program::Program;
use spanlith_stress::model::run::{ModelPlan, reduce_program, run_model, run_program};
use spanlith_stress::model::setup::own_options;
use spanlith_stress::threads::{ThreadsPlan, run_threads};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: spanlith-stress PROGRAMME [--seed S] ...
  model    [--ops N] [--real N] [--set OWN-OPTIONS]
                                        random programs against a reference
  crash    [--states N] [--workload W] [--images N] [--double N] [--set OWN]
                                        power loss at every change
  damage   [--cases N] [--per-image N] [--jobs N] [--image I] [--stop N]
                                        files at rest, changed in every way
  faults   [--runs N] [--jobs N] [--run I] [--stop N]
                                        one failing call, at every place
  beside   --ours LIB --peer LIB [--damages N] [--faults N]
                                        both under the same damage and failing calls
  interrupts --ours LIB [--runs N] [--jobs N] [--run I] [--stop N]
                                        interrupted and short system calls
  kill     [--rounds N] [--dir D] [--writers N] [--set OWN-OPTIONS]
                                        real processes, killed
  large    [--dir D]                    entries of 4 GiB (13 GB of memory)
  threads  [--rounds N] [--writers N] [--readers N]
                                        writers and readers at once
  histories [--rounds N]                linearizability of what threads saw
  diff     --ours LIB --peer LIB [--programs N] [--first N] [--jobs N] [--reduce N] [--replay FILE]
                                        against RocksDB through the C functions
  replay   FILE                         a program that model printed
";

/// Flags of each programme.
const FLAGS: [(&str, &[&str]); 13] = [
    ("model", &["seed", "ops", "real", "set"]),
    (
        "crash",
        &["seed", "states", "workload", "images", "double", "set"],
    ),
    (
        "damage",
        &["seed", "cases", "per-image", "jobs", "image", "stop"],
    ),
    ("faults", &["seed", "runs", "jobs", "run", "stop"]),
    ("beside", &["seed", "ours", "peer", "damages", "faults"]),
    (
        "interrupts",
        &["seed", "ours", "runs", "jobs", "run", "stop"],
    ),
    ("kill", &["seed", "rounds", "dir", "writers", "set"]),
    ("kill-child", &[]),
    ("large", &["dir"]),
    ("threads", &["seed", "rounds", "writers", "readers"]),
    ("histories", &["seed", "rounds"]),
    (
        "diff",
        &[
            "seed", "ours", "peer", "programs", "first", "jobs", "reduce", "replay",
        ],
    ),
    ("replay", &[]),
];

struct Args {
    words: Vec<String>,
    flags: BTreeMap<String, String>,
}

impl Args {
    fn read() -> Self {
        let mut words = Vec::new();
        let mut flags = BTreeMap::new();
        let mut rest = std::env::args().skip(1);
        while let Some(word) = rest.next() {
            match word.strip_prefix("--") {
                Some(name) => {
                    flags.insert(name.to_string(), rest.next().unwrap_or_default());
                }
                None => words.push(word),
            }
        }
        Self { words, flags }
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.number_if_given(name).unwrap_or(default)
    }

    fn number_if_given(&self, name: &str) -> Option<u64> {
        let text = self.flags.get(name)?;
        let Ok(n) = text.parse() else {
            eprintln!("--{name} {text}: not a number");
            std::process::exit(2);
        };
        Some(n)
    }
}

/// Says how far a run is: on a terminal in one line that is rewritten every half second at the most, else
/// in a line every half minute.
struct Live {
    name: &'static str,
    start: Instant,
    shown: Mutex<Option<Instant>>,
}

impl Live {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            start: Instant::now(),
            shown: Mutex::new(None),
        }
    }

    fn show(&self, text: impl FnOnce() -> String) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let terminal = std::io::stderr().is_terminal();
        let pause = Duration::from_millis(if terminal { 500 } else { 30_000 });
        if shown.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        *shown = Some(Instant::now());
        if terminal {
            eprint!("\r{}: {} ", self.name, text());
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{}: {}", self.name, text());
        }
    }

    /// Ends the line; seconds since it was made.
    fn end(self) -> f64 {
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        self.start.elapsed().as_secs_f64()
    }
}

fn outcome(clean: bool) -> ExitCode {
    if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints each text as a comment that says what kind it is of.
fn print_notes<'a>(what: &str, texts: impl IntoIterator<Item = &'a String>) {
    for text in texts {
        println!("# {what}: {}", text.replace('\n', "\n#   "));
    }
}

/// A text to standard error, and the exit code of a run that could not be made.
fn refused(text: impl std::fmt::Display) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(2)
}

/// The two libraries that a programme compares.
fn libraries(args: &Args, programme: &str) -> Result<(PathBuf, PathBuf), ExitCode> {
    match (args.flags.get("ours"), args.flags.get("peer")) {
        (Some(ours), Some(peer)) => Ok((ours.into(), peer.into())),
        _ => Err(refused(format_args!(
            "{programme}: give --ours LIBRARY and --peer LIBRARY"
        ))),
    }
}

/// Ends the process if a flag is none of the programme's.
fn check_flags(args: &Args, programme: &str) {
    let Some((_, known)) = FLAGS.iter().find(|(name, _)| *name == programme) else {
        return;
    };
    for name in args.flags.keys() {
        if !known.contains(&name.as_str()) {
            let known: Vec<String> = known.iter().map(|k| format!("--{k}")).collect();
            eprintln!(
                "spanlith-stress {programme}: --{name} is unknown; it takes {}",
                known.join(" ")
            );
            std::process::exit(2);
        }
    }
}

fn main() -> ExitCode {
    let args = Args::read();
    if args.flags.contains_key("help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if let Some(programme) = args.words.first() {
        check_flags(&args, programme);
    }
    // Panics are failures that are reported once, with their program.
    std::panic::set_hook(Box::new(|_| {}));
    match args.words.first().map(String::as_str) {
        Some("model") => model(&args),
        Some("crash") => crash(&args),
        Some("damage") => damage(&args),
        Some("faults") => faults(&args),
        Some("beside") => beside(&args),
        Some("diff") => diff(&args),
        Some("histories") => histories(&args),
        Some("interrupts") => interrupts(&args),
        Some("kill") => kill(&args),
        Some("kill-child") => kill_child(&args),
        Some("large") => large(&args),
        Some("threads") => threads(&args),
        Some("replay") => replay(&args),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn model(args: &Args) -> ExitCode {
    let mut plan = ModelPlan::new(args.number("seed", 1), args.number("ops", 1_000_000));
    plan.real_one_in = args.number("real", plan.real_one_in);
    plan.own = own_options(args.flags.get("set").map_or("", String::as_str));
    let live = Live::new("model");
    let result = run_model(&plan, |r| {
        let operations = || r.tally.get("operations");
        live.show(|| format!("{} programs, {} operations", r.programs, operations()));
    });
    let seconds = live.end();
    match result {
        Ok(r) => {
            println!(
                "model: seed {}, {} programs, {:.1} s: no difference",
                plan.seed, r.programs, seconds
            );
            for (what, n) in &r.tally.0 {
                println!("  {what:20} {n}");
            }
            ExitCode::SUCCESS
        }
        Err(f) => {
            print!("# seed {}\n{f}", plan.seed);
            ExitCode::FAILURE
        }
    }
}

fn crash(args: &Args) -> ExitCode {
    let mut plan = CrashPlan::new(args.number("seed", 1), args.number("states", 20_000));
    plan.images = args.number("images", plan.images as u64) as usize;
    plan.double_one_in = args.number("double", plan.double_one_in);
    plan.only = args.flags.get("workload").cloned();
    plan.own = own_options(args.flags.get("set").map_or("", String::as_str));
    let live = Live::new("crash");
    let r = run_crash(&plan, |r| {
        live.show(|| format!("{} workloads, {} states", r.workloads, r.states));
    });
    let seconds = live.end();
    println!(
        "crash: seed {}, {} workloads, {} changes, {} states and {} of a second crash ({} equal ones \
         skipped), {:.1} s",
        plan.seed, r.workloads, r.points, r.states, r.double_states, r.equal, seconds
    );
    println!(
        "  lost {}, holes {}, unopenable {}, unstable {}, broken without a crash {}",
        r.lost, r.holes, r.unopenable, r.unstable, r.broken
    );
    for f in &r.failures {
        println!(
            "# {} --seed {}: {}",
            f.workload,
            f.seed,
            f.text.replace('\n', "\n# ")
        );
    }
    let program = r.failures.iter().find_map(|f| f.program.as_ref());
    if let Some(program) = program {
        match run_program(program, None).0 {
            Err(failure) => print!("{}", reduce_program(program, &failure, None, 2000)),
            Ok(()) => println!("# as a program it does not fail"),
        }
    }
    outcome(r.is_clean())
}

fn damage(args: &Args) -> ExitCode {
    let plan = DamagePlan {
        seed: args.number("seed", 1),
        cases: args.number("cases", 200_000),
        per_image: args.number("per-image", 2_000) as usize,
        jobs: args.number("jobs", 2) as usize,
        wanted: Wanted::default(),
        only: args.number_if_given("image"),
        stop: args.number("stop", 50),
    };
    let live = Live::new("damage");
    let r = run_damage(&plan, |r| {
        live.show(|| format!("{} images, {} cases", r.images, r.cases));
    });
    let seconds = live.end();
    println!(
        "damage: seed {}, {} images, {} cases, {:.1} s: {} broken promises",
        plan.seed, r.images, r.cases, seconds, r.broken
    );
    for ((file, class, outcome), n) in &r.outcomes {
        println!("  {file:10} {class:8} {:12} {n}", outcome.name());
    }
    print_notes("shorter", r.shorter.values());
    print_notes("BROKEN", &r.failures);
    outcome(r.broken == 0)
}

fn faults(args: &Args) -> ExitCode {
    let plan = FaultsPlan {
        seed: args.number("seed", 1),
        runs: args.number("runs", 10_000),
        jobs: args.number("jobs", 2) as usize,
        only: args.number_if_given("run"),
        stop: args.number("stop", 50),
    };
    let live = Live::new("faults");
    let r = run_faults(&plan, |r| live.show(|| format!("{} runs", r.runs)));
    let seconds = live.end();
    println!(
        "faults: seed {}, {} runs, the fault took effect in {}, an operation failed in {}, writes went \
         on in place in {}, {:.1} s: {} broken promises",
        plan.seed,
        r.runs,
        r.fired.values().sum::<u64>(),
        r.surfaced,
        r.resumed,
        seconds,
        r.broken
    );
    for (what, n) in &r.fired {
        println!("  {what:40} {n}");
    }
    for (what, n) in &r.reopened {
        println!("# had to be reopened {n} times: {what}");
    }
    print_notes("BROKEN", &r.failures);
    outcome(r.broken == 0)
}

fn interrupts(args: &Args) -> ExitCode {
    let Some(library) = args.flags.get("ours").map(PathBuf::from) else {
        return refused("interrupts: give --ours LIBRARY");
    };
    let plan = InterruptsPlan {
        library,
        seed: args.number("seed", 1),
        runs: args.number("runs", 2_000),
        jobs: args.number("jobs", 2) as usize,
        only: args.number_if_given("run"),
        stop: args.number("stop", 50),
    };
    let live = Live::new("interrupts");
    let result = run_interrupts(&plan, |r| live.show(|| format!("{} runs", r.runs)));
    let seconds = live.end();
    let r = match result {
        Ok(r) => r,
        Err(text) => return refused(text),
    };
    println!(
        "interrupts: seed {}, {} runs, {} calls disturbed, {} results compared, {} programs that waver by \
         themselves, {:.1} s: {} broken promises",
        plan.seed,
        r.runs,
        r.fired.values().sum::<u64>(),
        r.lines,
        r.wavering,
        seconds,
        r.broken
    );
    for (what, n) in &r.fired {
        println!("  {what:40} {n}");
    }
    print_notes("BROKEN", &r.failures);
    outcome(r.broken == 0 && r.runs > 0)
}

fn histories(args: &Args) -> ExitCode {
    let plan = HistoriesPlan {
        seed: args.number("seed", 1),
        rounds: args.number("rounds", 10_000),
    };
    let live = Live::new("histories");
    let result = run_histories(&plan, |r| live.show(|| r.rounds.to_string()));
    let seconds = live.end();
    match result {
        Ok(r) => {
            println!(
                "histories: seed {}, {} of {} operations on {} databases with {} files, {} overlaps, {:.1} s: all \
                 linearizable, {} undecided",
                plan.seed,
                r.rounds,
                r.operations.values().sum::<u64>(),
                r.databases,
                r.files,
                r.overlaps,
                seconds,
                r.undecided
            );
            for (what, n) in &r.operations {
                println!("  {what:20} {n}");
            }
            ExitCode::SUCCESS
        }
        Err(text) => {
            print_notes("BROKEN", [&text]);
            ExitCode::FAILURE
        }
    }
}

fn beside(args: &Args) -> ExitCode {
    let (ours, peer) = match libraries(args, "beside") {
        Ok(both) => both,
        Err(code) => return code,
    };
    let seed = args.number("seed", 1);
    let (damages, faults) = (args.number("damages", 2000), args.number("faults", 500));
    let live = Live::new("beside");
    let show = |what: &str, n: u64| live.show(|| format!("{what} {n}"));
    let result = beside::Pair::new(&ours, &peer).and_then(|mut pair| {
        let damage = beside::damaged::run(&mut pair, seed, damages, |n| show("damages", n))?;
        let failing = beside::failing::run(&mut pair, seed, faults, |n| show("faults", n))?;
        eprintln!();
        println!(
            "seed {seed}, {damages} cases of damage\n\n{}",
            damage.markdown()
        );
        println!(
            "seed {seed}, {faults} failing calls\n\n{}",
            failing.markdown()
        );
        for (what, example) in &pair.examples {
            println!("# {what}\n#   {}", example.replace('\n', "\n#   "));
        }
        Ok(())
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => refused(text),
    }
}

fn diff(args: &Args) -> ExitCode {
    let (ours, peer) = match libraries(args, "diff") {
        Ok(both) => both,
        Err(code) => return code,
    };
    if let Some(file) = args.flags.get("replay") {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        return match replay_diff(&ours, &peer, &text) {
            Ok(Ok(())) => {
                println!("no difference");
                ExitCode::SUCCESS
            }
            Ok(Err(d)) => {
                println!("line {}: {}", d.at, d.text);
                ExitCode::FAILURE
            }
            Err(e) => refused(e),
        };
    }
    let plan = DiffPlan {
        ours,
        peer,
        programs: args.number("programs", 5000),
        seed: args.number("seed", 1),
        first: args.number("first", 0),
        jobs: args.number("jobs", 1) as usize,
        reduce_budget: args.number("reduce", 300) as usize,
    };
    let live = Live::new("diff");
    let result = run_diff(&plan, |r| {
        live.show(|| format!("{} programs", r.programs.load(Ordering::Relaxed)));
    });
    let seconds = live.end();
    match result {
        Ok(r) => {
            let get = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
            println!(
                "diff: seed {}, {} programs, {} lines compared, {} of them errors, {} openings of the \
                 other's directory, {} programs in which the peer hung, {} in which it answered in two \
                 ways, {:.1} s: no difference",
                plan.seed,
                get(&r.programs),
                get(&r.lines),
                get(&r.errors),
                get(&r.swaps),
                get(&r.peer_hangs),
                get(&r.peer_wavers),
                seconds
            );
            ExitCode::SUCCESS
        }
        Err((_, Some(f))) => {
            print!("# seed {}\n{f}", plan.seed);
            ExitCode::FAILURE
        }
        Err((text, None)) => refused(text),
    }
}

fn kill(args: &Args) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(p) => p,
        Err(e) => {
            eprintln!("kill: cannot find myself: {e}");
            return ExitCode::from(2);
        }
    };
    let temp = spanlith_testkit::TempDir::new("stress-kill");
    let dir = args.flags.get("dir").map(std::path::PathBuf::from);
    let plan = KillPlan {
        command: (program, vec!["kill-child"]),
        dir: dir.unwrap_or_else(|| temp.join("db")),
        seed: args.number("seed", 1),
        rounds: args.number("rounds", 50),
        writers: args.number("writers", 2),
        own: args.flags.get("set").cloned().unwrap_or_default(),
    };
    let live = Live::new("kill");
    let result = run_kill(&plan, |r| {
        live.show(|| format!("{} rounds, {} acknowledged", r.rounds, r.acknowledged));
    });
    let seconds = live.end();
    match result {
        Ok(r) => {
            println!(
                "kill: seed {}, {} kills ({} while opening), {} acknowledged writes ({} synced), {} \
                 unacknowledged ones found, {:.1} s: nothing lost",
                plan.seed,
                r.rounds,
                r.while_opening,
                r.acknowledged,
                r.synced,
                r.unacknowledged,
                seconds
            );
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("kill: seed {}: {text}", plan.seed);
            ExitCode::FAILURE
        }
    }
}

fn large(args: &Args) -> ExitCode {
    let temp = spanlith_testkit::TempDir::new("stress-large");
    let dir = args.flags.get("dir").map(PathBuf::from);
    let plan = LargePlan {
        dir: dir.unwrap_or_else(|| temp.join("db")),
    };
    let live = Live::new("large");
    let result = run_large(&plan, |step| eprintln!("large: {step}"));
    let seconds = live.end();
    match result {
        Ok(reads) => {
            println!("large: {reads} reads, {seconds:.1} s: all as written");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("large: {text}");
            ExitCode::FAILURE
        }
    }
}

fn kill_child(args: &Args) -> ExitCode {
    let [_, dir, seed, round, writers, own] = args.words.as_slice() else {
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse().unwrap_or(0);
    let (seed, round, writers) = (number(seed), number(round), number(writers));
    match spanlith_stress::kill::child(dir.as_ref(), seed, round, writers, own) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn threads(args: &Args) -> ExitCode {
    let mut plan = ThreadsPlan::new(args.number("seed", 1));
    plan.rounds = args.number("rounds", plan.rounds);
    plan.writers = args.number("writers", plan.writers);
    plan.readers = args.number("readers", plan.readers);
    let start = Instant::now();
    let result = run_threads(&plan, |_| {});
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(r) => {
            println!(
                "threads: seed {}, {} rounds, {} writes, {} checks, {:.1} s: no difference",
                plan.seed, r.rounds, r.writes, r.checks, seconds
            );
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("threads: seed {}: {text}", plan.seed);
            ExitCode::FAILURE
        }
    }
}

fn replay(args: &Args) -> ExitCode {
    let Some(path) = args.words.get(1) else {
        eprintln!("replay: give a file");
        return ExitCode::from(2);
    };
    let program = match std::fs::read_to_string(path)
        .map_err(|e| e.to_string())
        .and_then(|t| Program::parse(&t))
    {
        Ok(p) => p,
        Err(e) => {
            eprintln!("{path}: {e}");
            return ExitCode::from(2);
        }
    };
    drop(std::panic::take_hook());
    match run_program(&program, None).0 {
        Ok(()) => {
            println!("no difference");
            ExitCode::SUCCESS
        }
        Err(f) => {
            println!("operation {}: {}", f.op, f.text);
            if let Some(op) = program.ops.get(f.op) {
                println!("  {op}");
            }
            ExitCode::FAILURE
        }
    }
}
