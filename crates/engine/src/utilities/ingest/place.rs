//! Where a file goes, and whether it needs a sequence number.
//!
//! A file goes to the deepest level that it fits into without anything overlapping above or in between: it is newer
//! than all there is. Levels between 0 and the base level are not used. What a compaction is about to write counts as
//! being there, wherever its keys come to lie. Files of a call that overlap each other go above one another, the
//! first one deepest.

/// Describes what a level has in the range of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touch {
    /// A key or range tombstone in the range.
    pub keys: bool,
    /// A file whose bounds overlap the range.
    pub bounds: bool,
    /// A running compaction that writes into the range.
    pub output: bool,
}

/// Where a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub level: usize,
    /// Something that is there, or comes before it in the same call, has keys in its range.
    pub overlaps: bool,
}

/// The place of a file. `touches` are those of the levels, as far as they are known: none is asked for after the
/// first with keys or outputs. `above` is the level that files have which come before it in the call and overlap.
pub(super) fn place(base_level: usize, touches: &[Touch], above: Option<usize>) -> Placed {
    let mut placed = Placed {
        level: 0,
        overlaps: false,
    };
    for (level, touch) in touches.iter().enumerate() {
        if level > 0 && level < base_level {
            continue;
        }
        if above.is_some_and(|above| level >= above) || touch.output || touch.keys {
            placed.overlaps = true;
            break;
        }
        if level == 0 || !touch.bounds {
            placed.level = level;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Touch = Touch {
        keys: false,
        bounds: false,
        output: false,
    };
    const KEYS: Touch = Touch {
        keys: true,
        bounds: true,
        output: false,
    };
    const BOUNDS: Touch = Touch {
        bounds: true,
        ..NOTHING
    };
    const OUTPUT: Touch = Touch {
        output: true,
        ..NOTHING
    };

    #[test]
    fn a_file_goes_as_deep_as_nothing_overlaps_above_it() {
        let n = NOTHING;
        /// Name, base level, what the levels have, the level of files before it; level and whether it overlaps.
        type Case<'a> = (&'a str, usize, &'a [Touch], Option<usize>, (usize, bool));
        let cases: [Case<'_>; 11] = [
            ("nothing there", 1, &[n, n, n, n], None, (3, false)),
            ("dynamic levels", 3, &[n, n, n, n], None, (3, false)),
            ("keys at the bottom", 1, &[n, n, n, KEYS], None, (2, true)),
            ("base level below", 3, &[n, n, n, KEYS], None, (0, true)),
            ("keys in level 0", 1, &[KEYS, n, n, n], None, (0, true)),
            ("bounds only", 1, &[BOUNDS, n, BOUNDS, n], None, (3, false)),
            ("no room below", 1, &[n, n, BOUNDS, KEYS], None, (1, true)),
            ("an output", 1, &[n, n, OUTPUT, n], None, (1, true)),
            ("output in level 0", 1, &[OUTPUT, n, n, n], None, (0, true)),
            ("one before it", 1, &[n, n, n, n], Some(2), (1, true)),
            ("one in level 0", 1, &[n, n, n, n], Some(0), (0, true)),
        ];
        for (what, base, touches, above, (level, overlaps)) in cases {
            let want = Placed { level, overlaps };
            assert_eq!(place(base, touches, above), want, "{what}");
        }
    }
}
