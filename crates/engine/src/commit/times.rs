//! Times the stages of a group, for its leader.

use super::{Stage, Stages, TimesByStage};

/// The times of a group; nothing is read if nobody wants to know.
pub(super) struct GroupTimes<'a, S: Stages> {
    stages: &'a S,
    /// When the stage began, and where its time goes.
    running: Option<(u64, &'a mut S::Times)>,
}

impl<'a, S: Stages> GroupTimes<'a, S> {
    /// Begins the first stage.
    pub(super) fn begin(stages: &'a S, times: Option<&'a mut S::Times>) -> Self {
        Self {
            stages,
            running: times.map(|times| (stages.now_nanos(), times)),
        }
    }

    /// Ends a stage and begins the next.
    pub(super) fn end(&mut self, stage: Stage) {
        if let Some((since, times)) = &mut self.running {
            let now = self.stages.now_nanos();
            times.add(stage, now.saturating_sub(*since));
            *since = now;
        }
    }
}
