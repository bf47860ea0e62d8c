//! From an open to a close: which stage a database is in. Guarded by the state mutex.

/// See the head of the module.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// Recovery is over: background jobs may run. Before that, an output of theirs would look like
    /// a left-over of a crash.
    started: bool,
    /// Close, or calling off background work, has begun: a stopped writer gives up, so that a last flush
    /// need not wait for it.
    leaving: bool,
    /// No new work is accepted.
    closing: bool,
    /// Background work was called off for good; reads and writes go on.
    canceled: bool,
}

impl Lifecycle {
    /// Recovery is over.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    /// Close, or calling off background work, has begun.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Background work is called off for good.
    pub(crate) fn cancel(&mut self) {
        self.canceled = true;
    }

    /// Returns whether background work was called off.
    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled
    }

    /// No new work is accepted from now on. False if that was so before.
    pub(crate) fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closing, true)
    }

    /// Returns whether no new work is accepted.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Returns whether background work is over for good.
    pub(crate) fn ends(&self) -> bool {
        self.closing || self.canceled
    }

    /// Returns whether a writer that is stopped gives up.
    pub(crate) fn gives_up(&self) -> bool {
        self.leaving || self.ends()
    }

    /// Returns whether background jobs may begin.
    pub(crate) fn runs(&self) -> bool {
        self.started && !self.ends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_close_is_the_first() {
        let mut life = Lifecycle::default();
        assert!(!life.runs());
        life.start();
        assert!(life.runs() && !life.gives_up());
        life.leave();
        assert!(life.runs() && life.gives_up());
        assert!(life.close() && !life.close());
        assert!(!life.runs() && life.is_closing() && !life.is_canceled());
    }
}
