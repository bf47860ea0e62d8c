//! The bytes of one file and how much of them would survive a power loss.
//!
//! A file is the list of its appends. A sync makes a prefix of the list durable; what follows is
//! *pending*. Cutting a file to nothing is pending too: until the next sync the old durable bytes may
//! come back.
//!
//! ```text
//!   pieces:   [ a ][ b ][ c ][ d ][ e ]        old: bytes before a pending cut
//!              \____ durable ___/\pending/
//! ```
//!
//! Appended bytes never change, so pieces are shared between a file system and its clones, and a clone
//! copies one counted pointer per file.

use super::media::Media;
use std::sync::{Arc, Weak};

/// Immutable bytes and where they end in the file.
#[derive(Clone)]
struct Piece {
    end: u64,
    bytes: Arc<[u8]>,
}

/// The bytes of a file as the list of its appends.
#[derive(Clone, Default)]
pub(super) struct Pieces(Arc<Vec<Piece>>);

impl Pieces {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut pieces = Self::default();
        pieces.push(bytes);
        pieces
    }

    pub(super) fn len(&self) -> u64 {
        self.0.last().map_or(0, |piece| piece.end)
    }

    /// Number of appends.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Where the first `count` appends end.
    pub(super) fn end_of(&self, count: usize) -> u64 {
        count
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .map_or(0, |piece| piece.end)
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let end = self.len() + bytes.len() as u64;
            Arc::make_mut(&mut self.0).push(Piece {
                end,
                bytes: bytes.into(),
            });
        }
    }

    /// Copies from `offset` until `buf` is full or the file ends; returns the bytes copied.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let first = self.0.partition_point(|piece| piece.end <= offset);
        let mut done = 0;
        for piece in &self.0[first..] {
            let start = piece.end - piece.bytes.len() as u64;
            // Only the first piece can begin before the wanted offset.
            let skip = offset.saturating_sub(start) as usize;
            let from = &piece.bytes[skip..];
            let n = from.len().min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&from[..n]);
            done += n;
            if done == buf.len() {
                break;
            }
        }
        done
    }

    /// Where the first append lies in memory.
    #[cfg(test)]
    pub(super) fn address(&self) -> Option<usize> {
        self.0.first().map(|piece| piece.bytes.as_ptr() as usize)
    }

    /// All bytes in one vector.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|piece| piece.bytes.iter().copied())
            .collect()
    }

    /// These bytes, and after them what is longer in `under`.
    fn over(&self, under: &Self) -> Self {
        let mut all = self.clone();
        let from = self.len();
        if under.len() > from {
            let mut rest = vec![0; (under.len() - from) as usize];
            under.read_at(from, &mut rest);
            all.push(&rest);
        }
        all
    }

    /// The first `count` appends.
    fn prefix(&self, count: usize) -> Self {
        if count >= self.0.len() {
            return self.clone();
        }
        Self(Arc::new(self.0[..count].to_vec()))
    }

    /// The first `len` bytes, in their appends.
    fn cut(&self, len: u64) -> Self {
        let whole = self.0.partition_point(|piece| piece.end <= len);
        let mut cut = self.prefix(whole);
        if let Some(torn) = self.0.get(whole) {
            let keep = len - cut.len();
            cut.push(&torn.bytes[..keep as usize]);
        }
        cut
    }

    /// Replaces byte `at` by `change` of it; false if the file is shorter.
    fn change(&mut self, at: u64, change: impl FnOnce(u8) -> u8) -> bool {
        let index = self.0.partition_point(|piece| piece.end <= at);
        let Some(piece) = Arc::make_mut(&mut self.0).get_mut(index) else {
            return false;
        };
        let mut bytes = piece.bytes.to_vec();
        let within = (at + bytes.len() as u64 - piece.end) as usize;
        bytes[within] = change(bytes[within]);
        piece.bytes = bytes.into();
        true
    }
}

/// A file: its bytes, and what of them is durable.
#[derive(Clone, Default)]
pub(super) struct Content {
    /// Says what a reader sees.
    pub(super) pieces: Pieces,
    /// How many of `pieces` are durable; 0 while a cut is pending.
    durable: usize,
    /// The durable bytes from before a cut that was not synced yet.
    old: Option<Pieces>,
    /// Set while the file is written again from its front.
    again: Option<Box<Again>>,
    /// Modification time in seconds.
    pub(super) modified: u64,
    /// Its size and what it holds, if it is a device; it has no pieces then.
    pub(super) device: Option<(u64, Media)>,
    /// The writers that have the device open keep it alive.
    pub(super) holder: Weak<()>,
}

/// A file that is written again from its front. `Content::pieces` holds what a reader sees: what was
/// written, then the rest of what was there.
#[derive(Clone)]
struct Again {
    /// Says what was there, and what of it is durable.
    before: Content,
    written: Pieces,
    /// How many of `written` are durable.
    durable: usize,
}

impl Content {
    /// A file whose bytes are durable.
    pub(super) fn durable(pieces: Pieces, modified: u64) -> Self {
        let durable = pieces.count();
        Self {
            pieces,
            durable,
            old: None,
            again: None,
            modified,
            ..Self::default()
        }
    }

    /// A device of `size` bytes, all of them zero.
    pub(super) fn of_device(size: u64) -> Self {
        Self {
            device: Some((size, Media::default())),
            ..Self::default()
        }
    }

    /// Bytes that a reader sees.
    pub(super) fn len(&self) -> u64 {
        match &self.device {
            Some((size, _)) => *size,
            None => self.pieces.len(),
        }
    }

    /// Returns what a power loss leaves of it, durable.
    pub(super) fn left(&self, choice: &mut dyn FnMut(u64) -> u64) -> Self {
        match &self.device {
            Some((size, media)) => Self {
                device: Some((*size, media.after_power_loss(choice))),
                modified: self.modified,
                ..Self::default()
            },
            None => Self::durable(self.after_power_loss(choice), self.modified),
        }
    }

    /// The same, open by nobody.
    pub(super) fn closed(&self) -> Self {
        Self {
            holder: Weak::new(),
            ..self.clone()
        }
    }

    /// Adds bytes at the end of what was written.
    pub(super) fn append(&mut self, data: &[u8]) {
        match &mut self.again {
            None => self.pieces.push(data),
            Some(again) => {
                again.written.push(data);
                self.pieces = again.written.over(&again.before.pieces);
            }
        }
    }

    /// Appends go to the front from now on.
    pub(super) fn begin_overwrite(&mut self) {
        let before = self.clone();
        self.again = Some(Box::new(Again {
            before,
            written: Pieces::default(),
            durable: 0,
        }));
    }

    /// Appends go to the end again. What was written and synced stays durable; if something was not,
    /// the bytes after it may be those from before.
    pub(super) fn end_overwrite(&mut self) {
        let Some(again) = self.again.take() else {
            return;
        };
        let is_before_synced = again.before.is_synced();
        if is_before_synced && again.durable == again.written.count() {
            self.durable = self.pieces.count();
            self.old = None;
            return;
        }
        self.durable = if is_before_synced { again.durable } else { 0 };
        let old = again.written.prefix(again.durable);
        self.old = Some(old.over(&again.before.durable_pieces()));
    }

    fn is_synced(&self) -> bool {
        match &self.again {
            Some(again) => again.durable == again.written.count() && again.before.is_synced(),
            None => self.old.is_none() && self.durable == self.pieces.count(),
        }
    }

    /// Returns what is durable.
    fn durable_pieces(&self) -> Pieces {
        match (&self.again, &self.old) {
            (Some(again), _) => {
                let written = again.written.prefix(again.durable);
                written.over(&again.before.durable_pieces())
            }
            (None, Some(old)) => old.clone(),
            (None, None) => self.pieces.prefix(self.durable),
        }
    }

    /// Makes everything durable.
    pub(super) fn sync(&mut self) {
        match &mut self.again {
            Some(again) => {
                again.durable = again.written.count();
                again.before.sync();
            }
            None => {
                self.durable = self.pieces.count();
                self.old = None;
            }
        }
        debug_assert!(self.is_synced(), "E1: a sync leaves nothing pending");
    }

    /// Cuts the file to nothing, which is pending until the next sync.
    pub(super) fn cut_to_nothing(&mut self) {
        self.end_overwrite();
        if self.old.is_none() && self.durable > 0 {
            self.old = Some(self.pieces.prefix(self.durable));
        }
        self.pieces = Pieces::default();
        self.durable = 0;
    }

    /// Cuts the file to `len` bytes or extends it with zeros, which is pending until the next sync.
    pub(super) fn truncate(&mut self, len: u64) {
        self.end_overwrite();
        let before = self.pieces.len();
        if len == 0 {
            self.cut_to_nothing();
        } else if len < before {
            let durable_end = self.pieces.end_of(self.durable);
            if len < durable_end && self.old.is_none() {
                self.old = Some(self.pieces.prefix(self.durable));
            }
            self.pieces = self.pieces.cut(len);
            self.durable = self.durable.min(self.pieces.count());
        } else if len > before {
            self.pieces.push(&vec![0; (len - before) as usize]);
        }
    }

    /// Flips one bit, in durable and pending state alike; false if the file is shorter.
    pub(super) fn flip_bit(&mut self, at: u64, bit: u8) -> bool {
        self.pieces.change(at, |byte| byte ^ (1 << (bit % 8)))
    }

    /// Returns what a power loss leaves, by `choice`: see [`super::MemFs::crash_clone`].
    pub(super) fn after_power_loss(&self, choice: &mut dyn FnMut(u64) -> u64) -> Pieces {
        if let Some(again) = &self.again {
            let before = again.before.after_power_loss(choice);
            let written = Self {
                pieces: again.written.clone(),
                durable: again.durable,
                ..Self::default()
            };
            return written.after_power_loss(choice).over(&before);
        }
        if let Some(old) = &self.old
            && pick(choice, 2) == 0
        {
            return old.clone();
        }
        let pending = self.pieces.count() - self.durable;
        let kept = self.durable + pick(choice, pending as u64 + 1) as usize;
        let mut left = self.pieces.prefix(kept);
        if kept > self.durable {
            let start = self.pieces.end_of(kept - 1);
            let torn_len = left.len() - start;
            // A single byte cannot tear.
            if torn_len > 1 && pick(choice, 2) == 0 {
                left = left.cut(start + 1 + pick(choice, torn_len - 1));
            }
        }
        if left.len() < self.pieces.len() && pick(choice, 2) == 1 {
            // The size was written before the data: zeros up to the end of some later append.
            let first = self
                .pieces
                .0
                .partition_point(|piece| piece.end <= left.len());
            let ends = (self.pieces.count() - first) as u64;
            let end = self.pieces.end_of(first + 1 + pick(choice, ends) as usize);
            left.push(&vec![0; (end - left.len()) as usize]);
        }
        left
    }
}

/// Asks for one of `n` ways; a question with one answer is not asked.
pub(super) fn pick(choice: &mut dyn FnMut(u64) -> u64, n: u64) -> u64 {
    if n <= 1 { 0 } else { choice(n).min(n - 1) }
}
