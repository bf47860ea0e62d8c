//! An index in parts beside its whole keys.

use super::*;

impl IndexTable {
    fn is_made_as(&self, other: &Self) -> bool {
        let bytes = (self.keys == other.keys) && (self.heads == other.heads);
        let numbers = (self.ends == other.ends) && (self.prefixes == other.prefixes);
        let handles =
            self.handles.near == other.handles.near && self.handles.far == other.handles.far;
        let shape = |t: &Self| (t.stride, t.common, t.reverse, t.user_keys, t.memory_usage());
        bytes && numbers && handles && shape(self) == shape(other)
    }
}

use spanlith_base::coding::{put_varint32, put_varint64};
use spanlith_testkit::{Rng, seed, test_name};

/// An index block with one restart point per key, as plain handles.
fn block(keys: &[Vec<u8>]) -> Vec<u8> {
    let (mut out, mut restarts) = (Vec::new(), Vec::new());
    for (i, key) in keys.iter().enumerate() {
        restarts.push(out.len() as u32);
        let mut value = Vec::new();
        put_varint64(&mut value, 10 * i as u64);
        put_varint64(&mut value, 5);
        for len in [0, key.len(), value.len()] {
            put_varint32(&mut out, len as u32);
        }
        out.extend_from_slice(key);
        out.extend_from_slice(&value);
    }
    restarts.push(restarts.len() as u32);
    restarts.iter().for_each(|n| out.extend(n.to_le_bytes()));
    out
}

#[test]
fn an_index_in_parts_gives_back_its_keys_and_finds_what_a_search_of_whole_keys_finds() {
    let seed = seed(test_name!());
    let mut rng = Rng::new(seed);
    for round in 0..300 {
        let cmp = match round % 2 {
            0 => Comparator::Bytewise,
            _ => Comparator::ReverseBytewise,
        };
        // Few byte values, zeros among them, and lengths around that of a word.
        let shared = rng.index(4);
        let even = rng.one_in(3).then(|| 1 + rng.index(12));
        let user = |rng: &mut Rng, stray: bool| {
            let mut key = vec![7; shared - usize::from(stray && shared > 0)];
            let len = even.unwrap_or_else(|| rng.index(12));
            key.extend((0..len).map(|_| *rng.pick(&[0, 0, 1, 255])));
            key
        };
        let user_keys = rng.one_in(2);
        let mut keys: Vec<(Vec<u8>, u64)> = (0..1 + rng.index(40))
            .map(|_| {
                (
                    user(&mut rng, false),
                    if user_keys { 0 } else { rng.below(4) },
                )
            })
            .collect();
        keys.sort_by(|a, b| compare(&cmp, (&a.0, a.1), (&b.0, b.1)));
        keys.dedup();
        let whole: Vec<Vec<u8>> = keys
            .iter()
            .map(|(user, tag)| {
                let tag = tag.to_le_bytes();
                let tag = if user_keys { &[][..] } else { &tag };
                [user, tag].concat()
            })
            .collect();
        let form = IndexForm {
            user_keys,
            delta: false,
            first_keys: false,
            padding: 0,
            escapes: false,
        };
        let block = block(&whole);
        let table = IndexTable::parse(&block, form, 1 << 20, &cmp).unwrap();
        assert_eq!(table.len(), keys.len());
        let parts = parts(&block).unwrap();
        let entries = &block[..parts.entries_end];
        let last = get_fixed32(&block, block.len() - 8).unwrap() as usize;
        let quick = IndexTable::parse_whole_keys(entries, last, form, 1 << 20, &cmp).unwrap();
        let any = IndexTable::parse_any(entries, &[], form, 1 << 20, &cmp).unwrap();
        assert!(quick.is_made_as(&any), "seed {seed} round {round}");
        for (i, key) in whole.iter().enumerate() {
            assert_eq!(&table.key(i), key, "seed {seed} round {round}");
        }
        for _ in 0..100 {
            let stray = rng.one_in(4);
            let (user, tag) = (user(&mut rng, stray), rng.below(4));
            let less =
                |i: usize| compare(&cmp, (&keys[i].0, keys[i].1), (&user, tag)) == Ordering::Less;
            let want = (0..keys.len()).take_while(|&i| less(i)).count();
            assert_eq!(
                table.seek(&cmp, &user, tag),
                want,
                "seed {seed} round {round}"
            );
            let near = rng.index(want + 1);
            let near_want = match near < keys.len() && !less(near) {
                true => near,
                false => want,
            };
            assert_eq!(table.seek_near(&cmp, (&user, tag), near), near_want);
        }
    }
}

#[test]
fn short_separators_take_seventeen_bytes_each() {
    let keys: Vec<Vec<u8>> = (0..1000u32)
        .map(|n| format!("prefix{n:05}").into_bytes()[..11 - (n % 10 == 0) as usize].to_vec())
        .collect();
    let form = IndexForm {
        user_keys: true,
        delta: false,
        first_keys: false,
        padding: 0,
        escapes: false,
    };
    let table = IndexTable::parse(&block(&keys), form, 1 << 20, &Comparator::Bytewise).unwrap();
    let fixed = size_of::<IndexTable>() + "prefix00".len();
    assert_eq!(table.memory_usage() - fixed, 17 * keys.len());
}

#[test]
fn handles_on_both_sides_of_four_gigabytes_come_back_in_order() {
    let offsets = [0, 5, u64::from(u32::MAX), 1 << 32, (1 << 40) + 3];
    let all = offsets.map(|offset| BlockHandle { offset, size: 7 });
    let mut handles = Handles::EMPTY;
    for handle in all {
        handles.push(handle);
    }
    assert_eq!((handles.near.len(), handles.len()), (3, 5));
    for (i, handle) in all.into_iter().enumerate() {
        assert_eq!(handles.get(i), Some(handle));
    }
    assert_eq!(handles.get(5), None);
}

/// A block of format version 8: a prefix in front, restart keys without it, and a handle that does not follow
/// the one before after a zero.
#[test]
fn a_common_prefix_and_handles_behind_an_escape_are_read() {
    let form = IndexForm {
        user_keys: true,
        delta: true,
        first_keys: false,
        padding: 0,
        escapes: true,
    };
    let mut block = b"key".to_vec();
    block.extend_from_slice(&[0, 1, b'a', 0, 10]);
    // A difference of -2 is 3 in zigzag form, and one more.
    block.extend_from_slice(&[3, 1, b'b', 4]);
    block.extend_from_slice(&[3, 1, b'c', 0, 50, 7]);
    let second = block.len() as u32;
    block.extend_from_slice(&[0, 1, b'd', 90, 9]);
    for n in [3, second, 2] {
        spanlith_base::coding::put_fixed32(&mut block, n);
    }
    let read = |form| IndexTable::parse(&block, form, 1 << 20, &Comparator::Bytewise);
    let table = read(form).unwrap();
    let handles: Vec<_> = (0..4).filter_map(|i| table.handle(i)).collect();
    let want = [(0, 10), (15, 8), (50, 7), (90, 9)];
    let want = want.map(|(offset, size)| BlockHandle { offset, size });
    assert_eq!(handles, want);
    let keys: Vec<Vec<u8>> = (0..4).map(|i| table.key(i)).collect();
    assert_eq!(keys, [b"keya", b"keyb", b"keyc", b"keyd"]);
    let older = IndexForm {
        escapes: false,
        ..form
    };
    assert!(
        read(older).is_err(),
        "differences mean something else there"
    );
    let mut cut = block.clone();
    let at = cut.len() - 12;
    cut[at..at + 4].copy_from_slice(&200u32.to_le_bytes());
    assert!(IndexTable::parse(&cut, form, 1 << 20, &Comparator::Bytewise).is_err());
}
