//! Describes what is known of errors in the background, and what each means: the table of classes of the
//! design (reliability, section 3.1).
//!
//! A *soft* error holds back the work that failed until its next try; writes go on. A *hard* one
//! refuses writes until the database is resumed, a *fatal* one until it is opened again. Readers are
//! served in any case. Everything here is bookkeeping under the state mutex.

use crate::listener::BackgroundErrorReason;
use crate::version::FileMeta;
use spanlith_base::{Error, ErrorKind, FileNumber, Severity, SubCode};
use std::sync::Arc;
use std::time::Duration;

/// Wait before the first try to go on.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Error numbers that name a lack of something the process itself holds: files, threads, memory.
const LACKS: [i32; 4] = [24, 23, 11, 12];

/// The error number of a file system that takes no writes.
const EROFS: i32 = 30;

/// Describes what was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A write to the log, or a sync of it.
    Log,
    /// Sealing a memtable, which begins a log.
    Seal,
    /// An insert into the memtable.
    Insert,
    /// A write to the MANIFEST, or a sync of it.
    Manifest,
    Flush,
    Compaction,
    /// Anything that panicked.
    Panic,
}

impl Place {
    /// As messages name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Log => "a write to the log",
            Self::Seal => "sealing a memtable",
            Self::Insert => "an insert into the memtable",
            Self::Manifest => "a write to the MANIFEST",
            Self::Flush => "a flush",
            Self::Compaction => "a compaction",
            Self::Panic => "a job",
        }
    }

    /// As listeners hear it.
    pub fn reason(self) -> BackgroundErrorReason {
        match self {
            Self::Log => BackgroundErrorReason::WriteCallback,
            Self::Seal | Self::Insert => BackgroundErrorReason::MemTable,
            Self::Manifest => BackgroundErrorReason::ManifestWrite,
            Self::Flush | Self::Panic => BackgroundErrorReason::Flush,
            Self::Compaction => BackgroundErrorReason::Compaction,
        }
    }

    /// Returns whether a listener may clear the error, so that nothing stops. What a log holds after a failed
    /// write is not known, so such an error stays; a memtable that could not be sealed is as it was.
    pub fn may_be_cleared(self) -> bool {
        matches!(self, Self::Flush | Self::Compaction | Self::Seal)
    }
}

/// Returns whether the disk, or the owner's share of it, is full.
pub(crate) fn is_no_space(e: &Error) -> bool {
    e.subcode() == Some(SubCode::NoSpace)
}

/// Returns whether the process lacks files, threads or memory.
pub(crate) fn is_lack(e: &Error) -> bool {
    e.os_error().is_some_and(|n| LACKS.contains(&n))
}

/// Returns what an error means. A severity that the error brings along counts, unless it is none.
pub(crate) fn classify(place: Place, e: &Error) -> Severity {
    let is_fenced = e.os_error() == Some(EROFS)
        || matches!(e.subcode(), Some(SubCode::StaleFile | SubCode::IoFenced));
    if matches!(place, Place::Insert | Place::Panic) || is_fenced {
        return Severity::Fatal;
    }
    if e.severity() != Severity::None {
        return e.severity();
    }
    match (place, e.kind()) {
        (_, ErrorKind::Io) if e.subcode() == Some(SubCode::SpaceLimit) => Severity::Hard,
        // Nothing was changed: the call fails, and the next one tries again.
        (Place::Seal, ErrorKind::Io) if is_lack(e) => Severity::None,
        (Place::Flush | Place::Compaction, ErrorKind::Io) => Severity::Soft,
        // The files of the plan are left alone; other work goes on.
        (Place::Compaction, ErrorKind::Corruption) => Severity::Soft,
        (Place::Log | Place::Seal | Place::Manifest, ErrorKind::Io) => Severity::Hard,
        _ => Severity::Fatal,
    }
}

/// How long to wait before try number `attempts` + 1. `fixed` is a period that the user set.
pub(crate) fn wait_before(attempts: u32, fixed: Option<Duration>) -> Duration {
    match fixed {
        Some(period) => period,
        None => LONGEST_WAIT.min(FIRST_WAIT * 2u32.pow(attempts.min(9))),
    }
}

/// One error and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Incident {
    pub place: Place,
    pub class: Severity,
    /// The first cause.
    pub error: Error,
    /// Says what the last try failed with.
    pub latest: Option<Error>,
    /// When it began, in microseconds of wall time.
    pub since_micros: u64,
    /// Tries that failed.
    pub attempts: u32,
    /// Monotonic time of the next try, in nanoseconds.
    pub next_try: u64,
    /// It is tried again without being asked.
    pub by_itself: bool,
    /// Soft only: the work waits for its next try.
    pub held: bool,
}

impl Incident {
    /// Returns what stands in the way now.
    pub fn current(&self) -> &Error {
        self.latest.as_ref().unwrap_or(&self.error)
    }

    /// Returns what would end it.
    fn way_out(&self) -> &'static str {
        match self.class {
            Severity::Fatal | Severity::Unrecoverable => "reopen",
            _ if !self.by_itself => "on-request",
            _ if is_no_space(self.current()) => "when-there-is-space",
            _ => "automatic",
        }
    }

    /// The error that a refused caller gets: the first cause, and how things stand.
    pub fn refusal(&self) -> Error {
        let mut e = self.error.clone().with_severity(self.class);
        e = e
            .with("refused_since", self.since_micros / 1_000_000)
            .with("retries", self.attempts)
            .with("resume", self.way_out());
        match &self.latest {
            Some(latest) => e.with("latest", format_args!("[{latest}]")),
            None => e,
        }
    }

    fn describe(&self, what: &str) -> String {
        format!(
            "{what}: {} failed: {}; since {} retries {} resume {}{}\n",
            self.place.text(),
            self.error,
            self.since_micros / 1_000_000,
            self.attempts,
            self.way_out(),
            match &self.latest {
                Some(latest) => format!("; latest: {latest}"),
                None => String::new(),
            }
        )
    }
}

/// All that is wrong with an open database.
#[derive(Default)]
pub(crate) struct Trouble {
    /// Why writes are refused.
    refusal: Option<Incident>,
    /// Soft errors.
    flush: Option<Incident>,
    compaction: Option<Incident>,
    /// The corruption that some compaction met, and the files of such compactions: they are in no
    /// plan until somebody asks to resume.
    quarantine: Option<(Incident, Vec<Arc<FileMeta>>)>,
    /// Counts incidents that refuse writes, so that a resume does not clear one it knows nothing of.
    pub serial: u64,
    /// The logs hold something that is not known, or lack something that was acknowledged to be
    /// unsynced: they are given up by the next resume.
    pub log_poisoned: bool,
    /// Logs below this number are given up as soon as all memtables are in tables; 0 for none.
    pub give_up_below: FileNumber,
    /// Flushes and compactions that failed so far.
    pub error_count: u64,
    /// A resume is under way: no job begins.
    pub resuming: bool,
    /// The timer of tries is running.
    pub timer_runs: bool,
    /// Flushes that failed so far, and the last one's error. Callers who wait for one look at it.
    pub failed_flushes: u64,
    pub flush_error: Option<Error>,
}

impl Trouble {
    /// Why writes are refused, if they are.
    pub fn refusal(&self) -> Option<Error> {
        self.refusal.as_ref().map(Incident::refusal)
    }

    /// Returns what refuses writes.
    pub fn refused_by(&self) -> Option<&Incident> {
        self.refusal.as_ref()
    }

    /// Returns whether writes are refused.
    pub fn refuses(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns whether no job may begin.
    pub fn stops_work(&self) -> bool {
        self.refuses() || self.resuming
    }

    /// Returns whether anything is wrong, soft errors included; for those who wait until all work is done.
    pub fn any(&self) -> Option<Error> {
        let quarantine = self.quarantine.as_ref().map(|q| &q.0);
        let soft = self.flush.as_ref().or(self.compaction.as_ref());
        self.refusal()
            .or_else(|| soft.or(quarantine).map(|i| i.current().clone()))
    }

    /// Returns whether work of that kind waits for its next try.
    pub fn holds(&self, place: Place) -> bool {
        self.soft(place).is_some_and(|i| i.held)
    }

    fn soft(&self, place: Place) -> Option<&Incident> {
        match place {
            Place::Flush => self.flush.as_ref(),
            Place::Compaction => self.compaction.as_ref(),
            _ => None,
        }
    }

    /// Returns whether that kind of work failed and has not succeeded since.
    pub fn has_failed(&self, place: Place) -> bool {
        self.soft(place).is_some()
    }

    /// Returns whether this is the error that refuses writes already.
    pub fn is_known(&self, e: &Error) -> bool {
        let known = self.refusal.as_ref();
        known.is_some_and(|i| i.current().to_string() == e.to_string())
    }

    /// Takes in an error of a class that holds something back. Returns the number of tries that have
    /// failed because of it; 0 for a new one.
    pub fn add(&mut self, new: Incident) -> u32 {
        let slot = match (new.class, new.place) {
            (Severity::Soft, Place::Flush) => &mut self.flush,
            (Severity::Soft, _) => &mut self.compaction,
            _ => {
                self.serial += 1;
                &mut self.refusal
            }
        };
        match slot {
            Some(old) if old.class >= new.class => {
                // Of the others, resumes count their tries.
                old.attempts += u32::from(new.class == Severity::Soft);
                old.latest = Some(new.error);
                old.next_try = new.next_try;
                old.held = new.held;
                old.attempts
            }
            _ => {
                *slot = Some(new);
                0
            }
        }
    }

    /// Tries of that kind of work that have failed; `None` if it is in order.
    pub fn attempts(&self, class: Severity, place: Place) -> Option<u32> {
        let of = match class {
            Severity::Soft => self.soft(place),
            _ => self.refusal.as_ref(),
        };
        of.map(|i| i.attempts)
    }

    /// Leaves files out of compactions from now on.
    pub fn quarantine(&mut self, incident: Incident, files: Vec<Arc<FileMeta>>) {
        match &mut self.quarantine {
            Some((_, all)) => all.extend(files),
            None => self.quarantine = Some((incident, files)),
        }
    }

    /// The corruption because of which files are left out of compactions.
    pub fn quarantined(&self) -> Option<Error> {
        self.quarantine.as_ref().map(|q| q.0.error.clone())
    }

    /// Returns whether a file is left out of compactions.
    pub fn is_quarantined(&self, file: &FileMeta) -> bool {
        let all = self.quarantine.as_ref();
        all.is_some_and(|q| q.1.iter().any(|f| f.number == file.number))
    }

    /// The files that were left out, which are not any more.
    pub fn end_quarantine(&mut self) -> Vec<Arc<FileMeta>> {
        self.quarantine.take().map_or_else(Vec::new, |q| q.1)
    }

    /// Work of that kind succeeded: what it suffered from is over.
    pub fn end_soft(&mut self, place: Place) -> Option<Incident> {
        match place {
            Place::Flush => self.flush.take(),
            Place::Compaction => self.compaction.take(),
            _ => None,
        }
    }

    /// Lets held work begin whose time has come; all of it for `None`. Tells whether flushes and
    /// compactions are let go.
    pub fn release(&mut self, now: Option<u64>) -> (bool, bool) {
        let release = |i: &mut Option<Incident>| match i {
            Some(i) if i.held && now.is_none_or(|now| i.by_itself && i.next_try <= now) => {
                i.held = false;
                true
            }
            _ => false,
        };
        (release(&mut self.flush), release(&mut self.compaction))
    }

    /// Returns whether flushes have failed and may try again.
    pub fn has_released_flush(&self) -> bool {
        self.flush.as_ref().is_some_and(|i| !i.held)
    }

    /// When the next held work may begin, in monotonic nanoseconds.
    pub fn next_release(&self) -> Option<u64> {
        let soft = [&self.flush, &self.compaction].into_iter().flatten();
        soft.filter(|i| i.held && i.by_itself)
            .map(|i| i.next_try)
            .min()
    }

    /// Returns what is due and failed for want of space on a disk.
    fn due_for_space(&mut self, now: u64) -> impl Iterator<Item = &mut Incident> {
        let is_due = move |i: &Incident| i.by_itself && i.next_try <= now;
        let refusal = self.refusal.as_mut();
        let refusal = refusal.filter(|i| i.class < Severity::Fatal);
        let soft = [self.flush.as_mut(), self.compaction.as_mut()];
        let soft = soft.into_iter().flatten().filter(|i| i.held);
        let all = refusal.into_iter().chain(soft);
        all.filter(move |i| is_due(i) && is_no_space(i.current()))
    }

    /// The errors of what is due and failed for want of space.
    pub fn errors_of_space(&mut self, now: u64) -> Vec<Error> {
        self.due_for_space(now)
            .map(|i| i.current().clone())
            .collect()
    }

    /// Those of [`Self::errors_of_space`] whose disk `is_full` are not due until the next look. Of work that
    /// a writer may wait for, the first such look counts as a try that failed: he waits in vain. Returns
    /// whether one was counted.
    pub fn put_off(&mut self, now: u64, is_full: impl Fn(&Error) -> bool) -> bool {
        let mut is_counted = false;
        for i in self.due_for_space(now).filter(|i| is_full(i.current())) {
            i.next_try = now + 1;
            if i.held && i.attempts == 0 {
                i.attempts = 1;
                is_counted = true;
            }
        }
        is_counted
    }

    /// Returns whether a resume is due that nobody has to ask for.
    pub fn is_resume_due(&self, now: u64) -> bool {
        let r = self.refusal.as_ref();
        r.is_some_and(|i| i.by_itself && i.class < Severity::Fatal && i.next_try <= now)
    }

    /// Returns whether anything is going to be tried again by itself.
    pub fn waits_for_a_try(&self) -> bool {
        let all = [&self.refusal, &self.flush, &self.compaction];
        all.into_iter()
            .flatten()
            .any(|i| i.by_itself && i.class < Severity::Fatal)
    }

    /// A writer is stopped. If the work that could let it go keeps failing, or is not going to be
    /// tried, that error refuses writes from now on. Returns it.
    pub fn escalate(&mut self, is_idle: bool) -> Option<Incident> {
        if self.refuses() {
            return None;
        }
        let hopeless = |i: &Incident| i.attempts > 0 || (i.held && !i.by_itself);
        let mut incident = None;
        for slot in [&mut self.flush, &mut self.compaction] {
            if incident.is_none() && slot.as_ref().is_some_and(hopeless) {
                incident = slot.take();
            }
        }
        if incident.is_none() && is_idle {
            incident = self.quarantine.as_ref().map(|q| q.0.clone());
        }
        let mut incident = incident?;
        incident.class = Severity::Hard;
        incident.held = false;
        self.serial += 1;
        self.refusal = Some(incident.clone());
        Some(incident)
    }

    /// A resume failed with `error`; the next try is at `next_try`, by itself or not.
    pub fn resume_failed(&mut self, error: &Error, class: Severity, next_try: u64, most: u32) {
        if let Some(i) = &mut self.refusal {
            i.attempts += 1;
            i.latest = Some(error.clone());
            i.class = i.class.max(class);
            i.next_try = next_try;
            i.by_itself &= is_no_space(error) || i.attempts < most;
        }
    }

    /// Writes are not refused any more. Returns why they were.
    pub fn clear(&mut self) -> Option<Incident> {
        self.flush = None;
        self.flush_error = None;
        self.log_poisoned = false;
        self.give_up_below = 0;
        self.refusal.take()
    }

    /// One line for each thing that is wrong.
    pub fn describe(&self) -> String {
        let quarantine = self.quarantine.as_ref().map(|q| &q.0);
        let refusing = self.refusal.as_ref().map(|i| match i.class {
            Severity::Soft | Severity::Hard => i.describe("hard"),
            _ => i.describe("fatal"),
        });
        let soft = [self.flush.as_ref(), self.compaction.as_ref(), quarantine];
        let soft = soft.into_iter().flatten().map(|i| i.describe("soft"));
        refusing.into_iter().chain(soft).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn io(errno: i32) -> Error {
        let source = std::io::Error::from_raw_os_error(errno);
        Error::from_io("While appending to file", Path::new("d/1"), source)
    }

    #[test]
    fn each_place_and_cause_has_its_class() {
        use Place::*;
        const EIO: i32 = 5;
        const ENOSPC: i32 = 28;
        const EDQUOT: i32 = 122;
        const EMFILE: i32 = 24;
        const ESTALE: i32 = 116;
        let table = [
            (Compaction, io(EIO), Severity::Soft),
            (Compaction, io(ENOSPC), Severity::Soft),
            (Compaction, io(EDQUOT), Severity::Soft),
            (Compaction, io(EMFILE), Severity::Soft),
            (Compaction, Error::corruption("x"), Severity::Soft),
            (
                Compaction,
                Error::corruption("x").with_severity(Severity::Fatal),
                Severity::Fatal,
            ),
            (
                Compaction,
                io(EIO).with_subcode(SubCode::SpaceLimit),
                Severity::Hard,
            ),
            (Compaction, Error::not_supported("x"), Severity::Fatal),
            (Flush, io(EIO), Severity::Soft),
            (Flush, io(ENOSPC), Severity::Soft),
            (Flush, Error::corruption("x"), Severity::Fatal),
            (Log, io(EIO), Severity::Hard),
            (Log, io(ENOSPC), Severity::Hard),
            (Log, io(EROFS), Severity::Fatal),
            (Log, io(ESTALE), Severity::Fatal),
            (Manifest, io(EIO), Severity::Hard),
            (Manifest, io(ENOSPC), Severity::Hard),
            (Seal, io(EMFILE), Severity::None),
            (Seal, io(EIO), Severity::Hard),
            (Insert, io(EIO), Severity::Fatal),
            (Panic, Error::aborted("x"), Severity::Fatal),
        ];
        for (place, error, class) in table {
            assert_eq!(classify(place, &error), class, "{place:?} {error}");
        }
        assert!(is_no_space(&io(ENOSPC)) && is_no_space(&io(EDQUOT)));
        assert!(!is_no_space(&io(EIO)) && is_lack(&io(EMFILE)));
    }

    #[test]
    fn waits_double_up_to_half_a_minute_unless_the_user_set_them() {
        let waits: Vec<u128> = (0..11).map(|n| wait_before(n, None).as_millis()).collect();
        let want = [
            100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
        ];
        assert_eq!(waits, want);
        let fixed = Some(Duration::from_secs(7));
        assert_eq!(wait_before(9, fixed), Duration::from_secs(7));
    }

    fn incident(place: Place, class: Severity) -> Incident {
        Incident {
            place,
            class,
            error: io(5),
            latest: None,
            since_micros: 7_000_000,
            attempts: 0,
            next_try: 50,
            by_itself: true,
            held: class == Severity::Soft,
        }
    }

    #[test]
    fn the_first_error_stays_and_a_more_severe_one_takes_its_place() {
        let mut t = Trouble::default();
        assert_eq!(t.add(incident(Place::Log, Severity::Hard)), 0);
        assert_eq!(t.add(incident(Place::Seal, Severity::Hard)), 0);
        assert_eq!(t.refused_by().unwrap().place, Place::Log);
        t.add(incident(Place::Insert, Severity::Fatal));
        t.add(incident(Place::Log, Severity::Hard));
        let now = t.refused_by().unwrap();
        assert_eq!((now.place, now.class), (Place::Insert, Severity::Fatal));
        assert!(!t.is_resume_due(u64::MAX) && !t.waits_for_a_try());
        let text = t.refusal().unwrap().to_string();
        assert!(text.starts_with("IO error: While appending"), "{text}");
        assert!(text.contains("resume=reopen"), "{text}");
    }

    #[test]
    fn soft_work_is_held_until_its_time_and_refuses_writes_only_if_a_stopped_one_waits_in_vain() {
        let mut t = Trouble::default();
        t.add(incident(Place::Flush, Severity::Soft));
        assert!(t.holds(Place::Flush) && !t.holds(Place::Compaction) && !t.refuses());
        assert_eq!(t.next_release(), Some(50));
        assert_eq!(t.release(Some(49)), (false, false));
        assert!(t.escalate(true).is_none());
        assert_eq!(t.release(Some(50)), (true, false));
        assert_eq!(t.add(incident(Place::Flush, Severity::Soft)), 1);
        assert!(t.holds(Place::Flush));
        assert!(t.escalate(false).is_some());
        assert!(t.refuses() && t.refusal().unwrap().severity() == Severity::Hard);
        assert!(t.clear().is_some() && t.any().is_none());
    }
}
