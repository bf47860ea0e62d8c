//! Takes images of a file system in memory, as power losses may leave them, while operations run.
//!
//! The observer of the file system is called before each change with the engine in the middle of
//! something, so images are only taken there; they are opened after the operation has returned.

use super::history::Bounds;
use spanlith_env::{FsOp, MemFs};
use spanlith_testkit::Rng;
use std::sync::{Arc, Mutex, MutexGuard};

/// An image, and what it has to hold.
pub struct Image {
    /// The file system, all of it durable.
    pub fs: MemFs,
    /// Bounds at the moment of the loss.
    pub bounds: Bounds,
    /// The change before which it was taken.
    pub before: String,
    /// How many changes were made since the camera was last asked for images.
    pub change: u32,
    /// The pending changes that it keeps.
    pub choice: Choice,
    /// Answers that led to it.
    pub answers: Vec<u64>,
}

/// The pending changes that a power loss keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Only what is durable.
    Strict,
    /// Everything.
    All,
    /// By chance, both ends included often.
    Random(u64),
}

impl Choice {
    /// 0 is strict, 1 keeps all, anything else is a seed.
    pub fn of(number: u64) -> Self {
        match number {
            0 => Self::Strict,
            1 => Self::All,
            n => Self::Random(n),
        }
    }

    /// The number that [`Self::of`] takes.
    pub fn number(self) -> u64 {
        match self {
            Self::Strict => 0,
            Self::All => 1,
            Self::Random(n) => n,
        }
    }

    /// A copy of `fs` after a power loss, and the answers given to the questions that had more than
    /// one.
    pub fn image(self, fs: &MemFs) -> (MemFs, Vec<u64>) {
        let mut answers = Vec::new();
        let mut rng = match self {
            Self::Random(seed) => Rng::new(seed),
            Self::Strict | Self::All => Rng::new(0),
        };
        let image = fs.crash_clone(&mut |n| {
            let answer = match self {
                Self::Strict => 0,
                Self::All => n - 1,
                Self::Random(_) => match rng.below(4) {
                    0 => 0,
                    1 => n - 1,
                    _ => rng.below(n),
                },
            };
            if n > 1 {
                answers.push(answer);
            }
            answer
        });
        (image, answers)
    }
}

struct State {
    /// Choices to take before the next change; `None` while not armed.
    left: Option<u32>,
    choices: Vec<Choice>,
    every: bool,
    bounds: Bounds,
    taken: Vec<Image>,
    changes: u32,
    points: u64,
    equal: u64,
}

/// Watches one file system.
pub struct Camera {
    state: Arc<Mutex<State>>,
    fs: MemFs,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl State {
    fn take(&mut self, fs: &MemFs, before: &str) {
        self.points += 1;
        let mut seen: Vec<Vec<u64>> = Vec::new();
        for choice in self.choices.clone() {
            let (image, answers) = choice.image(fs);
            if seen.contains(&answers) {
                self.equal += 1;
                continue;
            }
            self.taken.push(Image {
                fs: image,
                bounds: self.bounds,
                before: before.to_string(),
                change: self.changes,
                choice,
                answers: answers.clone(),
            });
            seen.push(answers);
        }
    }
}

impl Camera {
    /// Watches `fs`; takes nothing until armed.
    pub fn new(fs: &MemFs) -> Self {
        let state = Arc::new(Mutex::new(State {
            left: None,
            choices: Vec::new(),
            every: false,
            bounds: Bounds::default(),
            taken: Vec::new(),
            changes: 0,
            points: 0,
            equal: 0,
        }));
        let (shared, watched) = (state.clone(), fs.clone());
        fs.set_observer(Some(Arc::new(move |op: &FsOp| {
            let mut s = lock(&shared);
            let Some(left) = s.left else { return };
            if left > 0 {
                s.left = Some(left - 1);
                return;
            }
            s.take(&watched, &format!("{op:?}"));
            s.changes += 1;
            if !s.every {
                s.left = None;
            }
        })));
        Self {
            state,
            fs: fs.clone(),
        }
    }

    /// Takes one image after `after` more changes.
    pub fn arm(&self, after: u32, choice: Choice) {
        let mut s = lock(&self.state);
        s.left = Some(after);
        s.choices = vec![choice];
        s.every = false;
    }

    /// Takes images before every change from now on.
    pub fn arm_always(&self, choices: Vec<Choice>) {
        let mut s = lock(&self.state);
        s.left = Some(0);
        s.choices = choices;
        s.every = true;
    }

    /// Changes the choices.
    pub fn choose(&self, choices: Vec<Choice>) {
        lock(&self.state).choices = choices;
    }

    /// Takes an image now, whatever is armed.
    pub fn take_now(&self) {
        lock(&self.state).take(&self.fs, "nothing");
    }

    /// Returns whether an image is still to come.
    pub fn armed(&self) -> bool {
        lock(&self.state).left.is_some()
    }

    /// Images from now on have these bounds.
    pub fn set_bounds(&self, bounds: Bounds) {
        lock(&self.state).bounds = bounds;
    }

    /// The images taken so far.
    pub fn images(&self) -> Vec<Image> {
        let mut s = lock(&self.state);
        s.changes = 0;
        std::mem::take(&mut s.taken)
    }

    /// Changes before which images were taken, and images left out because they equal another one
    /// of the same change.
    pub fn counts(&self) -> (u64, u64) {
        let s = lock(&self.state);
        (s.points, s.equal)
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        // The observer holds the file system, which holds the observer.
        self.fs.set_observer(None);
    }
}
