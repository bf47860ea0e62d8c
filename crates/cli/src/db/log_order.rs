//! Logs of a damaged directory put into an order in which they can be replayed.
//!
//! Replay takes logs by their numbers and refuses numbers of updates that run backwards. They do where a log
//! was copied under another name, where two were exchanged, and where one is of another database. The logs are
//! then replayed in the order of their updates, and one whose updates lie among those of another is left out.

use super::mend::{records_of, rewrite};
use crate::inventory::Inventory;
use spanlith::inspect::{LogOrigin, log_origin};
use spanlith::version::filenames;
use spanlith_env::{Env, FileSystem};
use spanlith_wal::{BatchIter, each_record};

/// Where the batches of a log begin. Where they end says less: of a prepared section the numbers are given
/// out when it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the log.
    pub log: u64,
    /// Of the first batch in the order of updates.
    pub first: u64,
    /// Of the last one.
    pub last: u64,
    /// Its notes are of another database or log.
    is_strange: bool,
}

/// Logs in the order of their updates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arranged {
    /// Those that can be replayed one after the other.
    pub kept: Vec<Span>,
    /// Those that cannot, and the one that they get in the way of.
    pub left_out: Vec<(Span, Span)>,
}

impl Span {
    fn collides(&self, other: &Self) -> bool {
        let is_same = (self.first, self.last) == (other.first, other.last);
        is_same || (self.first < other.last && other.first < self.last)
    }
}

impl Arranged {
    /// Reads which updates the logs hold. What cannot be read holds none.
    pub fn of(fs: &dyn FileSystem, i: &Inventory, logs: &[u64]) -> Self {
        let path = |log: u64| i.wal_dir.join(filenames::log_file_name(log));
        let mut spans = Vec::new();
        for &log in logs {
            let (mut first, mut last) = (u64::MAX, 0);
            // The numbers of records that a recovery dropped were given out once more.
            let cut = i.log_cuts.get(&log).copied().unwrap_or(u64::MAX);
            let read = each_record(fs, &path(log), log, &mut |offset, record| {
                if offset < cut
                    && let Ok(batch) = BatchIter::new(record)
                    && batch.header_count() > 0
                {
                    first = first.min(batch.sequence());
                    last = last.max(batch.sequence());
                }
            });
            if read.is_ok() && first <= last {
                spans.push(Span {
                    log,
                    first,
                    last,
                    is_strange: false,
                });
            }
        }
        let as_they_are = Self::arrange(spans.clone());
        if as_they_are.is_sound() {
            return as_they_are;
        }
        let id = i.db_id.as_deref().or(i.identity.as_deref());
        for span in &mut spans {
            let id = id.unwrap_or_default();
            let origin = log_origin(&Env::system(), &path(span.log), span.log, id);
            span.is_strange = matches!(origin, Ok(LogOrigin::Another));
        }
        Self::arrange(spans)
    }

    fn arrange(mut spans: Vec<Span>) -> Self {
        spans.sort_by_key(|s| (s.first, s.log));
        let mut out = Self::default();
        // Those that are surely ours choose first.
        for is_strange in [false, true] {
            for &span in spans.iter().filter(|s| s.is_strange == is_strange) {
                match out.kept.iter().find(|k| k.collides(&span)) {
                    Some(&other) => out.left_out.push((span, other)),
                    None => out.kept.push(span),
                }
            }
        }
        out.kept.sort_by_key(|s| (s.first, s.log));
        out
    }

    /// Returns whether the numbers of the logs are in the order of their updates.
    pub fn is_sound(&self) -> bool {
        self.left_out.is_empty() && self.kept.is_sorted_by_key(|s| s.log)
    }

    /// Returns what stands in the way of replaying the logs by their numbers: a log, and why.
    pub fn obstacles(&self) -> Vec<(u64, String)> {
        let among = self.left_out.iter().map(|(span, other)| {
            let what = format!(
                "its updates {} to {} lie among those of log {:06}: it is a copy, or of another database",
                span.first, span.last, other.log
            );
            (span.log, what)
        });
        let pairs = self.kept.windows(2).filter_map(|pair| match pair {
            [before, behind] if before.log > behind.log => {
                let what = format!(
                    "its updates {} to {} come in front of those of log {:06}",
                    before.first, before.last, behind.log
                );
                Some((before.log, what))
            }
            _ => None,
        });
        among.chain(pairs).collect()
    }
}

/// Rewrites logs so that their updates follow each other, and says what that leaves out or moves.
///
/// # Errors
/// Those of the files.
pub fn arrange_logs(
    fs: &dyn FileSystem,
    i: &Inventory,
    logs: &[u64],
) -> spanlith::Result<Vec<String>> {
    let path = |log: u64| i.wal_dir.join(filenames::log_file_name(log));
    let arranged = Arranged::of(fs, i, logs);
    let obstacles = arranged.obstacles().into_iter();
    let said = obstacles.map(|(log, what)| format!("of log {log:06}, or its place: {what}"));
    let said = said.collect();
    for (span, _) in &arranged.left_out {
        rewrite(fs, &path(span.log), span.log, &[])?;
    }
    let mut places: Vec<u64> = arranged.kept.iter().map(|s| s.log).collect();
    places.sort_unstable();
    let mut moves = Vec::new();
    for (span, place) in arranged.kept.iter().zip(places) {
        if span.log != place {
            // Of a log that needs more than its records the place cannot be changed, so of none.
            let Some(records) = records_of(fs, &path(span.log), span.log)? else {
                return Ok(said);
            };
            moves.push((place, records));
        }
    }
    for (place, records) in moves {
        rewrite(fs, &path(place), place, &records)?;
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(log: u64, first: u64, last: u64) -> Span {
        Span {
            log,
            first,
            last,
            is_strange: false,
        }
    }

    #[test]
    fn copies_and_strangers_are_left_out_and_the_rest_follows_the_updates() {
        let (a, b, copy) = (span(3, 10, 19), span(7, 20, 29), span(9, 10, 19));
        let arranged = Arranged::arrange(vec![copy, a, b]);
        assert_eq!(
            (&arranged.kept[..], &arranged.left_out[..]),
            (&[a, b][..], &[(copy, a)][..])
        );
        assert_eq!(arranged.obstacles()[0].0, 9);
        let exchanged = [span(3, 20, 29), span(7, 10, 19)];
        let arranged = Arranged::arrange(exchanged.to_vec());
        assert_eq!(arranged.kept, [exchanged[1], exchanged[0]]);
        assert_eq!(arranged.obstacles()[0].0, 7);
        let stranger = Span {
            is_strange: true,
            ..span(5, 1, 15)
        };
        let arranged = Arranged::arrange(vec![a, b, stranger]);
        assert_eq!(arranged.left_out, [(stranger, a)]);
        // A section that was prepared gives out no number.
        assert!(Arranged::arrange(vec![a, span(4, 19, 19), span(5, 19, 25)]).is_sound());
    }
}
