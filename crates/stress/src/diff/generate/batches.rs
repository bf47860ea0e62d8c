//! Draws batches: written, read before they are written, and never written.

use super::Maker;
use spanlith_testkit::hex;

impl Maker<'_> {
    /// A batch that is filled, and written.
    pub(super) fn batch(&mut self) {
        let slot = self.rng.below(3);
        for _ in 0..self.rng.skewed(12) {
            let line = match self.rng.below(16) {
                0..5 => format!("put {} {}", self.key(), self.value()),
                5 | 6 => format!("del {}", self.key()),
                7 if self.merge > 0 => format!("merge {} {}", self.key(), self.operand()),
                8 => format!(
                    "putv {} {} {} {}",
                    self.key(),
                    self.key(),
                    self.value(),
                    self.value()
                ),
                9 => format!("delv {} {}", self.key(), self.key()),
                10 if self.ranges => format!("range {}", self.range()),
                10 => format!("log {}", self.value()),
                11 => "save".into(),
                12 => "rollback".into(),
                13 => "pop".into(),
                14 => "data".into(),
                _ => "iterate".into(),
            };
            let family = self.live();
            self.out.push(format!("{family}b {slot} {line}"));
        }
        let flags = self.flags();
        self.out.push(format!("write {slot} {flags}"));
        if self.rng.one_in(2) {
            self.out.push(format!("b {slot} clear"));
        }
    }

    /// A batch that is read before it is written.
    pub(super) fn indexed(&mut self) {
        let slot = self.rng.below(3);
        for _ in 0..1 + self.rng.skewed(10) {
            let line = match self.rng.below(16) {
                0..4 => format!("put {} {}", self.key(), self.value()),
                4 | 5 => format!("del {}", self.key()),
                6 | 7 if self.merge > 0 => format!("merge {} {}", self.key(), self.operand()),
                8 => "save".into(),
                9 => "rollback".into(),
                10 => "data".into(),
                11 => format!("get {}", self.key()),
                12 | 13 => format!("getdb {} {}", self.at(), self.key()),
                14 => format!("log {}", self.value()),
                _ => {
                    let mut moves = format!("iter {} {}", self.maybe(), self.maybe());
                    for _ in 0..1 + self.rng.skewed(12) {
                        moves += &match self.rng.below(8) {
                            0 => " f".to_string(),
                            1 => " l".to_string(),
                            2 => format!(" s{}", self.key()),
                            3 => format!(" r{}", self.key()),
                            4 | 5 => " n".to_string(),
                            _ => " p".to_string(),
                        };
                    }
                    moves
                }
            };
            let family = self.live();
            self.out.push(format!("{family}w {slot} {line}"));
        }
        if self.rng.one_in(2) {
            let flags = self.flags();
            self.out.push(format!("w {slot} write {flags}"));
        }
        if self.rng.one_in(2) {
            self.out.push(format!("w {slot} clear"));
        }
    }

    /// A batch that is never written: what is built, decoded and iterated is compared.
    pub(super) fn scratch(&mut self) {
        let line = match self.rng.below(8) {
            0 => format!("range {} {}", self.key(), self.key()),
            1 => format!("sdel {}", self.key()),
            2 => format!("merge {} {}", self.key(), self.value()),
            3 => {
                // A whole representation, cut or changed at random; never shorter than its header.
                let mut rep = vec![0u8; 8];
                rep.extend_from_slice(&2u32.to_le_bytes());
                rep.extend_from_slice(b"\x01\x03abc\x02de\x00\x01f");
                let at = self.rng.index(rep.len());
                if self.rng.one_in(2) {
                    rep[at] ^= 1 << self.rng.below(8);
                } else {
                    rep.truncate(at.max(12));
                }
                self.out.push(format!("b 3 from {}", hex(&rep)));
                "iterate".into()
            }
            4 => "clear".into(),
            5 => "data".into(),
            _ => format!("put {} {}", self.key(), self.value()),
        };
        self.out.push(format!("b 3 {line}"));
    }
}
