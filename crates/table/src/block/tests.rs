//! Blocks of RocksDB with features that are skipped or refused, and blocks that contradict
//! themselves.

use super::Block;
use super::build::BlockBuilder;
use super::cursor::BlockCursor;
use super::seek::Lookup;
use spanlith_base::keys::{internal_key, pack_tag, seek_tag};
use spanlith_base::{Comparator, ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

const CMP: Comparator = Comparator::Bytewise;

/// The keys and values of a block, walked forward.
fn entries(block: Block) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = BlockCursor::default();
    cursor.set_block(Arc::new(block));
    let mut out = Vec::new();
    while cursor.next()? {
        out.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    Ok(out)
}

fn parse(bytes: &[u8]) -> Result<Block> {
    Block::data(bytes.to_vec(), &CMP, true)
}

/// Entry bytes: shared length, rest of the key, value.
fn entry(shared: u8, rest: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![shared, rest.len() as u8, value.len() as u8];
    out.extend_from_slice(rest);
    out.extend_from_slice(value);
    out
}

/// A block of entries and restart offsets.
fn block(entries: &[Vec<u8>], restarts: &[u32]) -> Vec<u8> {
    let mut out = entries.concat();
    for r in restarts {
        out.extend_from_slice(&r.to_le_bytes());
    }
    out.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    out
}

#[test]
fn a_hash_index_behind_the_restarts_is_no_entry() {
    let file = include_bytes!("../../../../fixtures/table/r78-v5-datahash.sst");
    // First data block of the table: 468 bytes, bit 31 set.
    let got = entries(parse(&file[..468]).unwrap()).unwrap();
    let keys: Vec<&[u8]> = got.iter().map(|(k, _)| &k[..6]).collect();
    assert_eq!(keys, [b"bin000", b"bin001", b"bin002", b"bin003"]);
}

#[test]
fn separated_keys_and_values_are_brought_together() {
    let (a, b) = (
        internal_key(b"a", 1 << 8 | 1),
        internal_key(b"b", 1 << 8 | 1),
    );
    // Two entries of nine bytes of key; the first says that its value begins at byte 1.
    let mut bytes = vec![0, 9, 2, 1];
    bytes.extend_from_slice(&a);
    bytes.extend_from_slice(&[0, 9, 3]);
    bytes.extend_from_slice(&b);
    let values = bytes.len() as u32;
    bytes.extend_from_slice(b"-onetwo");
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&values.to_le_bytes());
    bytes.extend_from_slice(&(1u32 | 1 << 28).to_le_bytes());
    let want = [(a, b"on".to_vec()), (b, b"etw".to_vec())];
    assert_eq!(entries(parse(&bytes).unwrap()).unwrap(), want);
    // The values do not reach that far, the entries do not begin after them, a bit is reserved.
    for (at, value) in [(3, 7), (bytes.len() - 8, 0xff), (bytes.len() - 1, 0x50)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        assert_eq!(parse(&bad).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_hash_index_finds_what_a_search_finds() {
    let file = include_bytes!("../../../../fixtures/table/r78-v5-datahash.sst");
    let hashed = Arc::new(parse(&file[..468]).unwrap());
    let keys = entries(parse(&file[..468]).unwrap()).unwrap();
    for (key, value) in &keys {
        let mut found = None;
        let mut sink = |_: u64, v: &[u8], _: &Arc<Block>| {
            found = Some(v.to_vec());
            ControlFlow::Break(())
        };
        let user = &key[..key.len() - 8];
        let end = hashed
            .lookup(&CMP, user, seek_tag(1 << 40), &mut sink)
            .unwrap();
        assert_eq!((end, found.as_ref()), (Lookup::Done, Some(value)));
    }
    for absent in [b"bin".as_slice(), b"bin0005", b"zzz"] {
        let mut sink = |_: u64, _: &[u8], _: &Arc<Block>| panic!("there is no such key");
        hashed
            .lookup(&CMP, absent, seek_tag(1 << 40), &mut sink)
            .unwrap();
    }
}

#[test]
fn an_empty_block_has_no_entries_in_any_direction() {
    let mut cursor = BlockCursor::default();
    assert!(!cursor.next().unwrap());
    let empty = Arc::new(parse(&[0, 0, 0, 0, 1, 0, 0, 0]).unwrap());
    cursor.set_block(empty.clone());
    assert!(!cursor.seek_to_first().unwrap());
    assert!(!cursor.seek_to_last().unwrap());
    assert!(!cursor.seek(&CMP, b"k", seek_tag(9)).unwrap());
    let mut sink = |_: u64, _: &[u8], _: &Arc<Block>| ControlFlow::Continue(());
    assert_eq!(
        empty.lookup(&CMP, b"k", seek_tag(9), &mut sink).unwrap(),
        Lookup::Exhausted
    );
}

#[test]
fn restart_points_that_contradict_the_entries_are_corruption() {
    let key = |k: &[u8]| internal_key(k, 1 << 8 | 1);
    let two = [entry(0, &key(b"a"), b"1"), entry(0, &key(b"b"), b"2")];
    assert_eq!(
        entries(parse(&block(&two, &[0, 13])).unwrap())
            .unwrap()
            .len(),
        2
    );
    let shares = [entry(0, &key(b"a"), b"1"), entry(1, &key(b"b"), b"2")];
    let short = [entry(0, b"1234567", b"1")];
    let bad: [Vec<u8>; 9] = [
        block(&two, &[]),
        block(&two, &[1]),
        block(&two, &[13, 0]),
        block(&two, &[0, 0]),
        block(&two, &[0, 26]),
        block(&two, &[0, u32::MAX]),
        block(&shares, &[0, 13]),
        block(&short, &[0]),
        vec![0; 3],
    ];
    for bytes in bad {
        let e = parse(&bytes).map(|_| bytes).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn entries_that_contradict_their_block_are_corruption() {
    let first = entry(0, &internal_key(b"a", 1 << 8 | 1), b"1");
    let bad = [
        // Shares more than the previous key has.
        entry(10, b"12345678", b""),
        // Too short for a tag.
        entry(1, b"123", b""),
        // An unknown type.
        entry(0, &internal_key(b"b", 0x77), b""),
        // Runs past the end.
        vec![0, 9, 100, b'b', 1, 1, 0, 0, 0, 0, 0, 0, 0],
        // A length that never ends.
        vec![0xff; 12],
    ];
    for second in bad {
        let block = parse(&block(&[first.clone(), second.clone()], &[0])).unwrap();
        let block = Arc::new(block);
        let mut cursor = BlockCursor::default();
        cursor.set_block(block.clone());
        assert!(cursor.next().unwrap());
        let e = cursor.next().map(|_| &second).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{second:?}");
        assert!(!cursor.valid());
        assert!(cursor.seek_to_last().is_err(), "{second:?}");
        assert!(!cursor.valid());
    }
}

#[test]
fn keys_longer_than_the_copied_piece_are_rebuilt_whole() {
    let mut builder = BlockBuilder::new(4);
    let mut last = Vec::new();
    let mut want = Vec::new();
    for i in 0..60usize {
        // Lengths of the keys' own parts from 8 to 67, and values across the header's forms.
        let mut user = format!("{i:02}").into_bytes();
        user.extend(std::iter::repeat_n(b'x', i));
        let key = internal_key(&user, pack_tag(i as u64, 1));
        let value = vec![i as u8; [0, 1, 127, 128, 300, 16_383, 16_384][i % 7]];
        builder.add_after(&last, &key, &value);
        want.push((key.clone(), value));
        last = key;
    }
    let block = parse(builder.finish()).unwrap();
    assert_eq!(entries(block).unwrap(), want);
}
