//! The runner: a C program that executes lines against a library, one process per library.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Source of the runner. Built against no header: it declares what it loads.
const SOURCE: &str = include_str!("../../runner/runner.c");
/// Says what stands before the C library in it.
const FAULTS: &str = include_str!("../../runner/faults.c");

/// A segment that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Compiles the runner into `dir` with the system's C compiler (`CC`, else `cc`).
///
/// # Errors
/// A text with the compiler's output.
pub fn build_runner(dir: &Path) -> Result<PathBuf, String> {
    let source = dir.join("runner.c");
    let binary = dir.join("runner");
    let faults = dir.join("faults.c");
    for (path, text) in [(&source, SOURCE), (&faults, FAULTS)] {
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let built = Command::new(&compiler)
        // Exported, so that the library's calls find the runner's functions first.
        .args(["-O1", "-std=gnu11", "-rdynamic", "-o"])
        .args([&binary, &source, &faults])
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|e| format!("{compiler}: {e}"))?;
    if built.status.success() {
        Ok(binary)
    } else {
        Err(String::from_utf8_lossy(&built.stderr).into_owned())
    }
}

struct Running {
    child: Child,
    input: ChildStdin,
    /// Lines of one segment each, complete when they end in `=`.
    output: Receiver<Vec<String>>,
}

/// One library; its process is started when needed.
pub struct Library {
    runner: PathBuf,
    path: PathBuf,
    running: Option<Running>,
    patience: Duration,
}

impl Library {
    /// `path`, executed by `runner`.
    pub fn new(runner: &Path, path: &Path) -> Self {
        Self {
            runner: runner.to_path_buf(),
            path: path.to_path_buf(),
            running: None,
            patience: PATIENCE,
        }
    }

    /// A segment that takes longer hangs.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same library, in a process of its own.
    pub fn again(&self) -> Self {
        Self::new(&self.runner, &self.path).patient(self.patience)
    }

    fn start(&self) -> Result<Running, String> {
        let mut child = Command::new(&self.runner)
            .arg(&self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.runner.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".to_string());
        };
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let mut segment = Vec::new();
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                let ends = line == "=";
                segment.push(line);
                if ends && tell.send(std::mem::take(&mut segment)).is_err() {
                    return;
                }
            }
            // The process has ended: what it said so far, without the end mark.
            let _ = tell.send(segment);
        });
        Ok(Running {
            child,
            input,
            output: lines,
        })
    }

    /// Executes lines; one result each. A crash or a hang is a last line of its own.
    ///
    /// # Errors
    /// If the runner cannot be started.
    pub fn run(&mut self, lines: &[String]) -> Result<Vec<String>, String> {
        let mut running = match self.running.take() {
            Some(r) => r,
            None => self.start()?,
        };
        let mut text = lines.join("\n");
        text.push_str("\n=\n");
        // A process that has died is noticed below.
        let _ = running.input.write_all(text.as_bytes());
        let _ = running.input.flush();
        match running.output.recv_timeout(self.patience) {
            Ok(mut results) if results.last().is_some_and(|l| l == "=") => {
                results.pop();
                if lines.last().is_some_and(|l| l == "abandon") {
                    let _ = running.child.wait();
                } else {
                    self.running = Some(running);
                }
                Ok(results)
            }
            Ok(mut results) => {
                let status = running.child.wait();
                results.push(format!("CRASH {status:?}"));
                Ok(results)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let stacks = stacks(running.child.id());
                let _ = running.child.kill();
                let _ = running.child.wait();
                // In the places of the directory and the setup, too.
                Ok(vec![format!("HANG {stacks}"); 3])
            }
        }
    }
}

/// Where the threads of a process stand, as far as a debugger is there to tell.
fn stacks(process: u32) -> String {
    let output = Command::new("gdb")
        .args(["-p", &process.to_string(), "-batch"])
        .args(["-ex", "thread apply all bt 12"])
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else {
        return String::new();
    };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|l| l.starts_with('#') || l.starts_with("Thread"))
        .fold(String::new(), |all, l| all + "\n    " + l)
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.input);
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
