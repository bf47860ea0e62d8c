//! Where blocks lie in a file, and in how many pieces a scan reads them.

mod common;

use common::{ReadFile, build};
use spanlith_base::CompressionType;
use spanlith_base::Result;
use spanlith_base::keys::{internal_key, pack_tag};
use spanlith_env::RandomAccessFile;
use spanlith_table::{BuilderOptions, ReadParams, ReaderOptions, TableOptions, TableReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn entries(n: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |i: u64| internal_key(format!("key{i:06}").as_bytes(), pack_tag(i + 1, 1));
    (0..n).map(|i| (key(i), vec![i as u8; 90])).collect()
}

fn plain(table: TableOptions) -> BuilderOptions {
    BuilderOptions {
        table,
        compression: CompressionType::None,
        ..BuilderOptions::default()
    }
}

/// A file that counts the reads of it.
struct Counting {
    file: ReadFile,
    reads: AtomicUsize,
}

impl RandomAccessFile for Counting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(offset, buf)
    }
    fn size(&self) -> u64 {
        self.file.size()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

fn open(bytes: Vec<u8>) -> (Arc<Counting>, Arc<TableReader>) {
    let path = "mem/000007.sst".into();
    let file = Arc::new(Counting {
        file: ReadFile { bytes, path },
        reads: AtomicUsize::new(0),
    });
    let reader = TableReader::open(file.clone(), file.size(), ReaderOptions::default());
    (file, reader.unwrap())
}

#[test]
fn blocks_do_not_cross_super_blocks_where_little_is_wasted_by_it() {
    const SUPER_BLOCK: u64 = 16 << 10;
    for (size, ratio) in [(0, 2), (SUPER_BLOCK, 2), (SUPER_BLOCK, 1 << 12)] {
        let table = TableOptions {
            block_size: 3000,
            super_block_alignment_size: size as usize,
            super_block_alignment_space_overhead_ratio: ratio,
            ..TableOptions::default()
        };
        let (_, reader) = open(build(plain(table), &entries(5000)));
        let index = reader.dump().unwrap().index;
        assert!(index.len() > 100, "{}", index.len());
        let crossing = index.iter().filter(|(_, block)| {
            // With the five bytes after it.
            let last = block.offset + block.size + 4;
            block.offset / SUPER_BLOCK != last / SUPER_BLOCK
        });
        let crossing = crossing.count();
        // The last asks for less waste than a block is long, so that hardly any can be moved.
        let moves = size > 0 && ratio == 2;
        assert_eq!(
            crossing == 0,
            moves,
            "size {size}, ratio {ratio}: {crossing}"
        );
    }
}

#[test]
fn a_scan_reads_many_blocks_at_once_and_a_seek_only_its_own() {
    let table = TableOptions {
        block_size: 1000,
        ..TableOptions::default()
    };
    let (file, reader) = open(build(plain(table), &entries(5000)));
    let blocks = reader.num_data_blocks().unwrap();
    assert!(blocks > 400, "{blocks}");
    let reads = |readahead, work: &dyn Fn(&mut spanlith_table::TableIter)| {
        let before = file.reads.load(Ordering::Relaxed);
        let mut iter = reader.iter(ReadParams {
            readahead,
            ..ReadParams::default()
        });
        work(&mut iter);
        iter.status().unwrap();
        file.reads.load(Ordering::Relaxed) - before
    };
    let scan = |iter: &mut spanlith_table::TableIter| {
        iter.seek_to_first();
        let mut count = 0;
        while iter.valid() {
            count += 1;
            iter.next();
        }
        assert_eq!(count, 5000);
    };
    // Found out by itself: two single blocks, then 8 KiB, 16 KiB and so on up to 256 KiB.
    let by_itself = reads(0, &scan);
    assert!(
        (5..15).contains(&by_itself),
        "{by_itself} reads of {blocks} blocks"
    );
    // As asked for: half a megabyte in pieces of 100,000 bytes.
    let asked = reads(100_000, &scan);
    assert!((5..9).contains(&asked), "{asked}");
    let all = entries(5000);
    let seeks = |iter: &mut spanlith_table::TableIter| {
        for i in [4000, 100, 2500, 700] {
            iter.seek(&all[i].0);
            assert_eq!(iter.key(), all[i].0);
        }
    };
    assert_eq!(reads(0, &seeks), 4, "one block each");
}
