//! Small values in the block cache: each is found wherever it lies in its file, and none that is another's.

use super::format::RECORD_HEADER_LEN;
use super::pieces::{PieceFeed, Pieces};
use super::tests::{blob_files, open, records};
use super::*;
use spanlith_base::ErrorKind;
use spanlith_cache::Policy;
use spanlith_env::{Env, FileSystem, IoActivity, MemFs};
use spanlith_table::BlockCache;
use spanlith_testkit::{Rng, fixtures_dir, seed};
use std::path::PathBuf;
use std::sync::Arc;

const CACHE: usize = 8 << 20;

fn pieces() -> (BlockCache, Arc<Pieces>) {
    let cache = BlockCache::with_shards(CACHE, Policy::Lru, 0, false);
    (cache.clone(), Arc::new(Pieces::new(cache)))
}

/// A file of as many records with values of up to `len_max` bytes: its bytes, and keys and pointers.
fn written(
    pieces: &Arc<Pieces>,
    rng: &mut Rng,
    (count, len_max): (usize, u64),
) -> (Vec<u8>, Vec<(Vec<u8>, BlobPointer)>) {
    let fs = MemFs::new();
    let path = PathBuf::from("/000007.blob");
    let file = fs.create(&path, IoActivity::Flush).unwrap();
    let mut writer = BlobFileWriter::new((7, file, None), 0, 0).keeping(Some(pieces));
    for n in 0..count {
        let value: Vec<u8> = (0..1 + rng.below(len_max))
            .map(|_| rng.next_u64() as u8)
            .collect();
        writer.add(format!("key{n:06}").as_bytes(), &value).unwrap();
    }
    writer.finish().unwrap();
    let bytes = fs.read_file(&path).unwrap();
    let records = records(7, &bytes);
    assert_eq!(records.len(), count);
    (bytes, records)
}

/// The value by both ways, which agree.
fn value(pieces: &Pieces, key: &[u8], pointer: &BlobPointer) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    let copied = pieces.copy(key, pointer, &mut out).then_some(out);
    for verify in [false, true] {
        let pinned = pieces.value(key, pointer, verify).map(|v| v.to_vec());
        assert_eq!(pinned, copied, "verify: {verify}");
    }
    copied
}

#[test]
fn every_value_is_found_whether_it_lies_in_one_piece_or_crosses_two() {
    let mut rng = Rng::new(seed("pieces"));
    // The first file is shorter than a piece, the others are written in several calls.
    for (count, len_max) in [(5, 300), (1, 1), (4000, 1500), (20_000, 60)] {
        let (_, pieces) = pieces();
        let (bytes, records) = written(&pieces, &mut rng, (count, len_max));
        let mut crossing = 0;
        for (key, pointer) in &records {
            let stored = &bytes[pointer.offset as usize..][..pointer.size as usize];
            assert_eq!(value(&pieces, key, pointer).as_deref(), Some(stored));
            let start = pointer.offset - (RECORD_HEADER_LEN + key.len()) as u64;
            crossing += u64::from(start >> 13 != (pointer.offset + pointer.size - 1) >> 13);
        }
        assert_eq!(crossing > 0, count > 5, "{crossing}");
    }
}

#[test]
fn a_reference_that_leads_elsewhere_finds_nothing() {
    let (_, pieces) = pieces();
    let (_, records) = written(&pieces, &mut Rng::new(seed("pieces")), (200, 400));
    let (key, pointer) = &records[100];
    assert!(value(&pieces, key, pointer).is_some());
    assert_eq!(value(&pieces, b"key000101", pointer), None);
    assert_eq!(value(&pieces, b"key", pointer), None);
    type Change = fn(&mut BlobPointer);
    let changes: [Change; 9] = [
        |p| p.file = 8,
        |p| p.offset += 1,
        |p| p.offset = 3,
        |p| p.offset = u64::MAX,
        |p| p.offset = 1 << 50,
        |p| p.size -= 1,
        |p| p.size += 1,
        |p| p.size = u64::MAX,
        |p| p.file = u64::MAX,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut wrong = *pointer;
        change(&mut wrong);
        assert_eq!(value(&pieces, key, &wrong), None, "change {n}");
    }
}

#[test]
fn a_flipped_byte_gives_no_value_to_those_who_compare_checksums() {
    let (_, first) = pieces();
    let (bytes, records) = written(&first, &mut Rng::new(seed("pieces")), (40, 300));
    let (key, pointer) = &records[20];
    let head = RECORD_HEADER_LEN + key.len();
    let start = pointer.offset as usize - head;
    for at in start..start + head + pointer.size as usize {
        let (_, pieces) = pieces();
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        let mut feed = PieceFeed::new(pieces.clone(), 7);
        feed.written(0, &bytes, 40);
        feed.finish();
        assert!(pieces.value(key, pointer, true).is_none(), "byte {at}");
        // Without, as from a block in the cache; but never another record's.
        let unchecked = pieces.value(key, pointer, false);
        let is_unseen = at >= start + head || (start + 28..start + 32).contains(&at);
        assert_eq!(unchecked.is_some(), is_unseen, "byte {at}");
        let (key, pointer) = &records[21];
        assert!(pieces.value(key, pointer, true).is_some());
    }
}

#[test]
fn values_of_rocksdbs_files_are_found_compressed_ones_too() {
    let mut files = Vec::new();
    blob_files(&fixtures_dir().join("blob"), &mut files);
    blob_files(&fixtures_dir().join("golden"), &mut files);
    let (mut found, mut compressed) = (0, 0);
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let Ok(reader) = open(&path) else { continue };
        let records = records(7, &bytes);
        let (_, pieces) = pieces();
        let mut feed = PieceFeed::new(pieces.clone(), 7);
        feed.written(0, &bytes, bytes.len() as u64);
        feed.finish();
        for (key, pointer) in records.iter().filter(|(_, p)| p.size <= 2048) {
            let expected = reader.get(key, pointer, true).unwrap();
            let value = value(&pieces, key, pointer);
            assert_eq!(value.as_deref(), Some(&*expected), "{}", path.display());
            found += 1;
            compressed += u32::from(pointer.compression != 0);
        }
    }
    assert!(found >= 40 && compressed >= 5, "{found}, {compressed}");
}

#[test]
fn however_a_file_is_written_pieces_are_whole_and_parts_with_large_values_are_left_out() {
    let mut rng = Rng::new(seed("pieces"));
    let bytes: Vec<u8> = (0..100_000).map(|_| rng.next_u64() as u8).collect();
    for _ in 0..200 {
        let (cache, pieces) = pieces();
        let mut feed = PieceFeed::new(pieces.clone(), 7);
        let (mut at, mut kept) = (0, vec![false; bytes.len()]);
        while at < bytes.len() {
            let most = 1 << (1 + rng.below(16));
            let len = (1 + rng.below(most) as usize).min(bytes.len() - at);
            let is_small = rng.below(5) > 0 || len <= 2560;
            let records = if is_small { len as u64 } else { 1 };
            feed.written(at as u64, &bytes[at..at + len], records);
            kept[at..at + len].fill(is_small);
            at += len;
            if at < bytes.len() && rng.below(10) == 0 {
                // Written past the feed, as large values are.
                at = (at + rng.below(20_000) as usize).min(bytes.len() - 1);
            }
        }
        feed.finish();
        let mut expected = 0;
        for (piece, part) in bytes.chunks(8192).enumerate() {
            let all = kept[piece * 8192..][..part.len()].iter().all(|&kept| kept);
            expected += usize::from(all);
            match pieces.load(7, piece as u64) {
                Some(block) => assert!(block.bytes() == part && all, "piece {piece}"),
                None => assert!(!all, "piece {piece}"),
            }
        }
        assert_eq!(cache.len(), expected);
        pieces.forget(7);
        assert_eq!(cache.len(), 0, "a file that is gone leaves nothing");
    }
}

#[test]
fn a_source_reads_no_file_for_what_is_in_memory() {
    let fs = Arc::new(MemFs::new());
    let (env, ..) = Env::test(fs.clone(), 1);
    let dir = PathBuf::from("/db");
    fs.create_dir_if_missing(&dir).unwrap();
    let cache = BlockCache::new(CACHE, Policy::Clock);
    let source = BlobSource::new(env.fs.clone(), dir.clone(), ExpectedFamily::Id(0), 2);
    let source = source.with_pieces(Some(&cache));
    let file = fs
        .create(&dir.join("000007.blob"), IoActivity::Flush)
        .unwrap();
    let writer = BlobFileWriter::new((7, file, None), 0, 0);
    let mut writer = writer.keeping(source.pieces());
    let pointer = writer.add(b"key", b"value").unwrap();
    writer.finish().unwrap();
    let from_memory = BlobRead {
        may_read: false,
        ..BlobRead::default()
    };
    assert_eq!(
        &*source.get(b"key", &pointer, from_memory).unwrap(),
        b"value"
    );
    assert_eq!(source.open_files(), 0);
    // A reference that is wrong has the error of the file.
    let e = source
        .get(b"yek", &pointer, BlobRead::default())
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    assert!(
        e.to_string().contains("Key mismatch when reading blob"),
        "{e}"
    );
    // Damage was found: what was in memory is not trusted either.
    let e = source.get(b"key", &pointer, from_memory).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Incomplete);
    assert_eq!(
        &*source.get(b"key", &pointer, BlobRead::default()).unwrap(),
        b"value"
    );
}
