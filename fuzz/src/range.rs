//! Range tombstones cut into fragments.

use spanlith_base::Comparator;
use spanlith_base::range_del::{FragmentedTombstones, RangeTombstone};

/// Tombstones from bytes (three small numbers each: start, length, sequence number) agree with a walk
/// over all of them, for every key and every snapshot.
pub fn range_tombstones(data: &[u8]) {
    let keys: Vec<[u8; 1]> = (0..=u8::MAX).map(|b| [b]).collect();
    let given: Vec<(u8, u8, u64)> = data
        .chunks_exact(3)
        .take(64)
        .map(|c| {
            (
                c[0] & 31,
                (c[0] & 31).saturating_add(c[1] & 15),
                u64::from(c[2] & 31),
            )
        })
        .collect();
    let tombstones = given.iter().map(|(start, end, seqno)| RangeTombstone {
        start: &keys[usize::from(*start)],
        end: &keys[usize::from(*end)],
        seqno: *seqno,
    });
    let comparator = Comparator::Bytewise;
    let bounded = FragmentedTombstones::build_bounded(&comparator, tombstones.clone(), 8);
    let list = FragmentedTombstones::build(&comparator, tombstones);
    if let Ok(bounded) = bounded {
        assert_eq!(bounded.len(), list.len());
    }
    let mut last: &[u8] = &[];
    for i in 0..list.len() {
        let fragment = list.get(i);
        assert!(last <= fragment.start && fragment.start < fragment.end);
        assert!(fragment.seqnos.windows(2).all(|w| w[0] >= w[1]));
        last = fragment.end;
    }
    for key in 0..48u8 {
        for snapshot in [0, 7, 31] {
            let expected = given
                .iter()
                .filter(|(start, end, seqno)| *start <= key && key < *end && *seqno <= snapshot);
            let expected = expected.map(|t| t.2).max();
            let fragment = (0..list.len())
                .map(|i| list.get(i))
                .find(|f| f.start <= &[key][..] && &[key][..] < f.end);
            let found = fragment.and_then(|f| {
                f.visible(snapshot, None, &comparator)
                    .map(|at| f.seqnos[at])
            });
            assert_eq!(found, expected, "key {key} at {snapshot}: {given:?}");
        }
    }
}
