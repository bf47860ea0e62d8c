//! Taking in an error of the background, telling whom it concerns, and trying again by itself.
//!
//! Errors come from jobs and from leaders of writes; tries come from a timer that lives as long as
//! something is going to be tried. With a manual executor nobody ticks but tests; a stopped writer
//! then lets the clock pass on its own.

use super::background_error::{Incident, Place, classify, is_lack, is_no_space, wait_before};
use super::state::DbState;
use super::{BackgroundWork, Lsm, gate, min_free_bytes};
use crate::options::DbOptions;
use crate::version::FileMeta;
use spanlith_base::stats::{Histogram, Ticker};
use spanlith_base::{Error, ErrorKind, Result, Severity};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The input files of a compaction.
pub(crate) type CompactedFiles = Vec<Arc<FileMeta>>;

/// How often the timer looks whether a try is due.
const PERIOD: Duration = Duration::from_millis(100);

/// Room beside what is to be written before a full disk is tried again, in bytes.
const SPARE: u64 = 4096;

/// The period between tries, if the options say another than RocksDB's default.
fn fixed_wait(o: &DbOptions) -> Option<Duration> {
    let set = o.bgerror_resume_retry_interval;
    (set != DbOptions::default().bgerror_resume_retry_interval).then(|| Duration::from_micros(set))
}

/// Tries after which nothing is tried by itself any more. A full disk is tried for ever.
fn most_tries(o: &DbOptions) -> u32 {
    u32::try_from(o.max_bgerror_resume_count).unwrap_or(0)
}

impl Lsm {
    /// Refuses writes from now on, after a panic while a group of them was carried out (W5). Returns the error that the
    /// writers of the group get.
    #[cold]
    pub(crate) fn write_panicked(&self) -> Error {
        let e =
            Error::aborted("panic while writes were carried out").with_severity(Severity::Fatal);
        self.set_error(Place::Panic, &e);
        e
    }

    /// Takes in an error: tells listeners, and holds back work or refuses writes (W5) as its class
    /// says. Requires: the state mutex is free.
    pub(crate) fn set_error(&self, place: Place, error: &Error) {
        self.raise(place, error, None);
    }

    /// As [`Self::set_error`] for a compaction that met corruption: its files are in no plan from now
    /// on.
    pub(crate) fn set_error_of(&self, files: CompactedFiles, error: &Error) {
        self.raise(Place::Compaction, error, Some(files));
    }

    fn raise(&self, place: Place, error: &Error, files: Option<CompactedFiles>) {
        let class = classify(place, error);
        {
            let mut state = self.state.lock();
            if matches!(place, Place::Flush | Place::Compaction | Place::Panic) {
                state.trouble.error_count += 1;
            }
            if place == Place::Flush {
                state.trouble.failed_flushes += 1;
                state.trouble.flush_error = Some(error.clone());
            }
            // Known or not: the group that failed may stand in the log.
            state.trouble.log_poisoned |= place == Place::Log;
            // The MANIFEST has said so itself, or the log.
            if state.trouble.is_known(error) {
                drop(state);
                self.state.notify_all();
                return;
            }
        }
        self.reporter.count_error(error, class);
        if is_lack(error) {
            self.c.io.close_idle();
        }
        let told = error.clone().with_severity(class);
        let left = self
            .reporter
            .listeners()
            .on_background_error(place.reason(), told);
        let Some(error) = left.or_else(|| (!place.may_be_cleared()).then(|| error.clone())) else {
            self.reporter.log().warn(format_args!(
                "{} failed, a listener cleared the error: {error}",
                place.text()
            ));
            self.state.notify_all();
            return;
        };
        if class == Severity::None {
            self.reporter
                .log()
                .warn(format_args!("{} failed: {error}", place.text()));
            return;
        }
        let o = self.options();
        let most = most_tries(&o);
        let is_corrupt = class == Severity::Soft && error.kind() == ErrorKind::Corruption;
        let mut by_itself =
            class < Severity::Fatal && !is_corrupt && (most > 0 || is_no_space(&error));
        let before = self.state.lock().trouble.attempts(class, place);
        if by_itself && before.is_none() {
            let tell = self.reporter.listeners();
            by_itself = tell.on_error_recovery_begin(place.reason(), &error);
            if by_itself {
                self.reporter.tick(Ticker::ErrorHandlerAutoresumeCount);
            }
        }
        let clock = &self.c.env.clock;
        let attempts = before.map_or(0, |n| n + 1);
        let has_room_now = is_no_space(&error) && self.reserve.release(self.reporter.log());
        let wait = match has_room_now || (is_lack(&error) && attempts == 0) {
            true => Duration::ZERO,
            false => wait_before(attempts, fixed_wait(&o)),
        };
        let incident = Incident {
            place,
            class,
            error: error.clone(),
            latest: None,
            since_micros: clock.now_micros(),
            attempts: 0,
            next_try: clock.monotonic_nanos() + wait.as_nanos() as u64,
            by_itself,
            held: class == Severity::Soft,
        };
        let mut state = self.state.lock();
        match files {
            Some(files) if is_corrupt => state.trouble.quarantine(incident, files),
            _ => _ = state.trouble.add(incident),
        }
        if class > Severity::Soft {
            self.gate.set(gate::REFUSE);
            debug_assert!(
                state.trouble.refuses(),
                "W5: a {class:?} error refuses writes"
            );
        }
        let start = by_itself && self.wants_timer(&mut state);
        drop(state);
        if start {
            self.start_tries();
        }
        self.state.notify_all();
        let effect = match class {
            Severity::Soft if is_corrupt => "its files are left alone",
            Severity::Soft => "it is tried again",
            _ => "writes stop",
        };
        self.reporter
            .log()
            .warn(format_args!("{} failed, {effect}: {error}", place.text()));
    }

    /// Called for a stopped writer: the error that refuses it if the work it waits for keeps failing.
    pub(crate) fn escalate(&self, state: &mut DbState) -> Option<Error> {
        let is_idle = state.jobs.are_over();
        let incident = state.trouble.escalate(is_idle)?;
        self.gate.set(gate::REFUSE);
        self.state.notify_all();
        self.reporter.log().warn(format_args!(
            "{} keeps failing while writers wait for it, writes stop: {}",
            incident.place.text(),
            incident.error
        ));
        Some(incident.refusal())
    }

    /// With a manual executor, lets the time pass until held work may begin, and begins it. Returns
    /// false if nothing is held.
    pub(crate) fn pass_time_for_tries(&self) -> bool {
        if !self.c.env.executor.is_manual() {
            return false;
        }
        let Some(at) = self.state.lock().trouble.next_release() else {
            return false;
        };
        let clock = &self.c.env.clock;
        let now = clock.monotonic_nanos();
        clock.sleep(Duration::from_nanos(at.saturating_sub(now)));
        self.release_held(Some(clock.monotonic_nanos()));
        true
    }

    /// Lets held work begin whose time has come; all of it for `None`.
    pub(crate) fn release_held(&self, now: Option<u64>) {
        let mut state = self.state.lock();
        let released = state.trouble.release(now);
        if released == (false, false) {
            return;
        }
        if released.0 {
            for f in state.families.values_mut() {
                if !f.imm.is_empty() {
                    f.flush.request();
                }
            }
        }
        if released.1 {
            let ids: Vec<u32> = state.families.keys().copied().collect();
            for id in ids {
                self.recompute(&mut state, id);
            }
        }
        self.reporter
            .tick(Ticker::ErrorHandlerAutoresumeRetryTotalCount);
        self.schedule(&mut state);
    }

    fn wants_timer(&self, state: &mut DbState) -> bool {
        let starts = state.life.runs() && !state.trouble.timer_runs;
        state.trouble.timer_runs |= starts;
        starts
    }

    fn start_tries(&self) {
        let work = self.weak_work();
        let tick = Box::new(move || {
            let work = work.upgrade();
            work.is_some_and(|work| work.lsm().tick_tries(&*work))
        });
        let executor = &*self.c.env.executor;
        // The timer before has said that it ends.
        self.timers.tries.restart(executor, "resume", PERIOD, tick);
    }

    /// One look of the timer; false if nothing is left to be tried.
    fn tick_tries(&self, work: &dyn BackgroundWork) -> bool {
        let now = self.c.env.clock.monotonic_nanos();
        let lacks_space = {
            let mut state = self.state.lock();
            if state.ends() || !state.trouble.waits_for_a_try() {
                state.trouble.timer_runs = false;
                return false;
            }
            state.trouble.errors_of_space(now)
        };
        if !lacks_space.is_empty() {
            self.put_off(now, lacks_space);
        }
        let (is_resume_due, is_release_due) = {
            let t = &self.state.lock().trouble;
            let at = t.next_release();
            (t.is_resume_due(now), at.is_some_and(|at| at <= now))
        };
        if is_release_due {
            self.release_held(Some(now));
        }
        if is_resume_due {
            // How it went stands in the state.
            let _ = work.resume_by_itself();
        }
        true
    }

    /// Tries nothing whose disk is still full, and lets those know who wait for it.
    fn put_off(&self, now: u64, mut errors: Vec<Error>) {
        errors.retain(|e| !self.has_space(e.path().unwrap_or(&self.c.dir)));
        let is_full = |e: &Error| errors.iter().any(|full| full.path() == e.path());
        if self.state.lock().trouble.put_off(now, is_full) {
            self.state.notify_all();
        }
    }

    /// Returns whether the disk of a file, or of a directory, that found no space has some now: in a directory
    /// of tables for what memtables would become. Not knowing is no reason to wait.
    fn has_space(&self, path: &Path) -> bool {
        let is_place = |dir: &Path| path == dir || path.parent() == Some(dir);
        let families = self.families.load_full();
        let speed = self.c.resources.tables.as_ref();
        if speed.is_some_and(|t| is_place(t.state.dir())) {
            // Tables that find no room there go elsewhere.
            return true;
        }
        let tables = families.iter().flat_map(|f| f.cache.paths.dirs());
        let (dir, needed) = match tables.into_iter().find(|dir| is_place(dir)) {
            Some(dir) => (dir, self.bytes_in_memtables()),
            None => {
                let others = [self.c.dir.as_path(), self.logs.dir()];
                let Some(dir) = others.into_iter().find(|dir| is_place(dir)) else {
                    return true;
                };
                (dir, 0)
            }
        };
        let free = self.c.env.fs.free_space(dir);
        free.unwrap_or(u64::MAX) >= needed + SPARE
    }

    fn bytes_in_memtables(&self) -> u64 {
        let state = self.state.lock();
        let of = |f: &super::FamilyState| {
            let sealed = f.imm.iter().map(|i| i.mem.data_bytes());
            sealed.sum::<u64>() + f.mem.data_bytes()
        };
        state.families.values().map(of).sum()
    }

    /// Says that a kind of background work succeeded. Requires: the state mutex is free.
    pub(crate) fn work_succeeded(&self, place: Place) {
        let over = {
            let mut state = self.state.lock();
            state.trouble.end_soft(place)
        };
        if let Some(incident) = over {
            self.tell_end(&incident, Ok(()));
        }
        if place == Place::Flush && self.reserve.is_wanted() {
            let kept_free = min_free_bytes(&self.options(), &self.families.load());
            self.reserve.keep(kept_free, self.reporter.log());
        }
    }

    /// Tells that an incident is over, or that nothing is tried any more.
    pub(crate) fn tell_end(&self, incident: &Incident, outcome: Result<()>) {
        if outcome.is_ok() {
            self.reporter.log().info(format_args!(
                "{} failed before; that is over after {} more tries",
                incident.place.text(),
                incident.attempts
            ));
            if incident.by_itself {
                self.reporter
                    .tick(Ticker::ErrorHandlerAutoresumeSuccessCount);
            }
        }
        if let Some(s) = self.reporter.statistics() {
            s.record(
                Histogram::ErrorHandlerAutoresumeRetryCount,
                u64::from(incident.attempts),
            );
        }
        let tell = self.reporter.listeners();
        tell.on_error_recovery_end(|| crate::listener::ErrorRecoveryInfo {
            old_error: incident.error.clone(),
            new_error: outcome.err(),
        });
    }

    /// A try to resume failed. Returns whether it is the last one by itself.
    pub(crate) fn note_failed_resume(&self, error: &Error) {
        let o = self.options();
        let class = match error.kind() {
            ErrorKind::ShutdownInProgress => Severity::None,
            // The same mismatch again, or nothing that could go away.
            ErrorKind::Corruption => Severity::Fatal,
            _ => classify(Place::Flush, error),
        };
        let now = self.c.env.clock.monotonic_nanos();
        let mut state = self.state.lock();
        let t = &mut state.trouble;
        t.resuming = false;
        t.failed_flushes += 1;
        t.flush_error = Some(error.clone());
        let attempts = t.refused_by().map_or(0, |i| i.attempts + 1);
        let next = now + wait_before(attempts, fixed_wait(&o)).as_nanos() as u64;
        let was = t.refused_by().is_some_and(|i| i.by_itself);
        t.resume_failed(error, class, next, most_tries(&o));
        let given_up = match t.refused_by() {
            Some(i) if was && !i.by_itself => Some(i.clone()),
            _ => None,
        };
        drop(state);
        self.state.notify_all();
        self.reporter
            .log()
            .warn(format_args!("cannot resume yet: {error}"));
        if let Some(incident) = given_up {
            self.tell_end(&incident, Err(error.clone()));
        }
    }
}
