//! Against the files that `trace_analyzer` 7.8.3 wrote for `fixtures/trace/query2.trace`.

use super::*;
use spanlith::trace::TraceReader;
use spanlith_base::{ErrorKind, Result};
use spanlith_env::SequentialFile;
use spanlith_testkit::fixtures_dir;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::rc::Rc;

struct Bytes(Vec<u8>, usize);

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let rest = &self.0[self.1..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        self.1 += n;
        Ok(n)
    }
}

type Files = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

struct InMemory(Files);
struct OneFile(Files, String);

impl Sink for InMemory {
    fn create(&mut self, name: &str) -> std::io::Result<Box<dyn Write>> {
        let before = self.0.borrow_mut().insert(name.to_string(), Vec::new());
        assert_eq!(before, None, "{name} is made twice");
        Ok(Box::new(OneFile(self.0.clone(), name.to_string())))
    }
}

impl Write for OneFile {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0
            .borrow_mut()
            .get_mut(&self.1)
            .unwrap()
            .extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The operations and files of the recorded run.
fn recorded() -> AnalyzerOptions {
    use Operation::{Delete, Get, Put, Seek, SeekForPrev};
    AnalyzerOptions {
        operations: vec![Get, Put, Delete, Seek, SeekForPrev],
        key_stats: true,
        access_counts: true,
        time_series: true,
        qps: true,
        key_sizes: true,
        value_sizes: true,
        prefix_len: 1,
        top: 2,
        ..AnalyzerOptions::default()
    }
}

fn read(bytes: Vec<u8>, options: AnalyzerOptions) -> Result<Analysis> {
    let mut reader = TraceReader::new(Box::new(Bytes(bytes, 0)));
    Analysis::read(&mut reader, options, &mut |_| {}, &mut |_| Ok(()))
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures_dir().join("trace").join(name)).unwrap()
}

fn printed(analysis: &Analysis) -> String {
    let mut out = Vec::new();
    analysis.print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn all_files_are_those_of_trace_analyzer() {
    // The result is the same with keys in memory and on disk.
    for memory_bytes in [0, 2000, usize::MAX] {
        files_are_those_of_trace_analyzer(memory_bytes);
    }
}

fn files_are_those_of_trace_analyzer(memory_bytes: usize) {
    let options = AnalyzerOptions {
        memory_bytes,
        ..recorded()
    };
    let mut lines = String::new();
    let mut reader = TraceReader::new(Box::new(Bytes(fixture("query2.trace"), 0)));
    let mut analysis = Analysis::read(&mut reader, options, &mut |_| {}, &mut |a| {
        let (key, op) = (files::hex(a.key), a.operation.id());
        lines += &format!("{key} {op} {} {} {}\n", a.cf, a.value_size, a.timestamp);
        Ok(())
    })
    .unwrap();
    let files = Files::default();
    files
        .borrow_mut()
        .insert("human_readable_trace.txt".into(), lines.into_bytes());
    let mut keys = |cf: u32| {
        let path = fixtures_dir().join(format!("trace/key-space/{cf}.txt"));
        Ok(Box::new(BufReader::new(std::fs::File::open(path)?)) as Box<dyn std::io::BufRead>)
    };
    let missing = analysis
        .write_files(&mut InMemory(files.clone()), Some(&mut keys))
        .unwrap();
    assert!(missing.is_empty(), "{missing:?}");
    let mut compared = 0;
    for entry in std::fs::read_dir(fixtures_dir().join("trace/analyzer-out")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let ours = files.borrow_mut().remove(name.strip_prefix("t-").unwrap());
        let ours = ours.unwrap_or_else(|| panic!("{name} was not written"));
        let theirs = std::fs::read(entry.path()).unwrap();
        assert_eq!(
            String::from_utf8(ours).unwrap(),
            String::from_utf8(theirs).unwrap(),
            "{name}"
        );
        compared += 1;
    }
    assert_eq!(compared, 113);
    assert_eq!(
        files.borrow().keys().cloned().collect::<Vec<_>>(),
        [] as [String; 0]
    );
    // The sums at the end of what it printed.
    let text = printed(&analysis);
    assert!(
        text.contains("Average QPS per second: 68.666667 Peak QPS: 70\n"),
        "{text}"
    );
    assert!(
        text.contains("The whole key space key numbers: 25\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "Total_requests: 240 Total_accessed_keys: 117 Total_gets: 97 Total_write_batches: 101 \
             Total_seeks: 24 Total_seek_for_prevs: 18 Total_multigets: 0\n"
        ),
        "{text}"
    );
}

/// Each option asks for its files and for no others, so that none is written unasked.
#[test]
fn files_come_only_when_asked_for() {
    let base = AnalyzerOptions {
        operations: vec![Operation::Put],
        ..AnalyzerOptions::default()
    };
    let written = |options: AnalyzerOptions| {
        let files = Files::default();
        let mut analysis = read(fixture("query2.trace"), options).unwrap();
        analysis
            .write_files(&mut InMemory(files.clone()), None)
            .unwrap();
        files.borrow().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(written(base.clone()), [] as [String; 0]);
    let one = written(AnalyzerOptions {
        access_counts: true,
        ..base.clone()
    });
    assert_eq!(
        one,
        [
            "put-0-accessed_key_count_distribution.txt",
            "put-1-accessed_key_count_distribution.txt"
        ]
    );
    let qps = written(AnalyzerOptions {
        qps: true,
        ..base.clone()
    });
    assert_eq!(
        qps,
        [
            "cf_qps_stats.txt",
            "put-0-qps_stats.txt",
            "put-1-qps_stats.txt",
            "qps_stats.txt"
        ]
    );
    let prefixes = written(AnalyzerOptions {
        prefix_len: 1,
        ..base
    });
    assert_eq!(
        prefixes,
        [
            "put-0-accessed_key_prefix_cut.txt",
            "put-1-accessed_key_prefix_cut.txt"
        ]
    );
}

/// A trace of queries from requests: kind, payload, microseconds after the header.
fn trace(rocksdb: &str, records: &[(u8, Vec<u8>, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |time: u64, kind: u8, payload: &[u8]| {
        out.extend_from_slice(&time.to_le_bytes());
        out.push(kind);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    };
    let head =
        format!("feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: {rocksdb}\tFormat: x\n");
    put(1_000_000, 1, head.as_bytes());
    for (kind, payload, after) in records {
        put(1_000_000 + after, *kind, payload);
    }
    out
}

fn get(key: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, key.len() as u8];
    payload.extend_from_slice(key);
    payload
}

fn write(entries: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
    let mut batch = vec![0; 8];
    let counted = entries
        .iter()
        .filter(|(tag, _, _)| ![9, 10, 11].contains(tag))
        .count();
    batch.extend_from_slice(&(counted as u32).to_le_bytes());
    for (tag, key, value) in entries {
        batch.push(*tag);
        if *tag != 9 {
            batch.push(key.len() as u8);
            batch.extend_from_slice(key);
        }
        if [1, 2, 15, 22].contains(tag) {
            batch.push(value.len() as u8);
            batch.extend_from_slice(value);
        }
    }
    let mut payload = vec![2, 0, 0, 0, 0, 0, 0, 0, batch.len() as u8];
    payload.extend_from_slice(&batch);
    payload
}

/// A get after a put of its key counts with the time in between, from the second get of a key on.
#[test]
fn what_follows_what_is_counted() {
    let bytes = trace(
        "11.8",
        &[
            (3, write(&[(1, b"k", b"v")]), 1000),
            (4, get(b"k"), 3000),
            (4, get(b"k"), 7000),
            (4, get(b"other"), 8000),
        ],
    );
    let options = AnalyzerOptions {
        operations: vec![Operation::Get, Operation::Put],
        correlations: vec![
            (Operation::Put, Operation::Get),
            (Operation::Get, Operation::Get),
        ],
        ..AnalyzerOptions::default()
    };
    let text = printed(&read(bytes, options).unwrap());
    let after_put = "'get' after 'put' is: total numbers: 2 average time: 4.000000(ms)";
    let after_get = "'get' after 'get' is: total numbers: 1 average time: 4.000000(ms)";
    assert!(
        text.contains(after_put) && text.contains(after_get),
        "{text}"
    );
}

#[test]
fn one_of_some_is_counted_when_sampling() {
    let records: Vec<_> = (0..10)
        .map(|i| (4, get(&[b'a' + i]), u64::from(i)))
        .collect();
    let options = AnalyzerOptions {
        operations: vec![Operation::Get],
        sample_every: 4,
        ..AnalyzerOptions::default()
    };
    let text = printed(&read(trace("7.8", &records), options).unwrap());
    assert!(
        text.contains("Total number of queries to this cf by get: 3\n"),
        "{text}"
    );
    assert!(text.contains("Total_gets: 10 "), "{text}");
}

/// Prepared batches come again when they are committed; entities have a column from release 8 on.
#[test]
fn batches_are_taken_apart_by_operation() {
    let bytes = |release| {
        trace(
            release,
            &[
                (
                    3,
                    write(&[(9, b"", b""), (1, b"prepared", b"v"), (10, b"x", b"")]),
                    0,
                ),
                (
                    3,
                    write(&[(22, b"e", b"\x01\x00"), (2, b"m", b"12"), (7, b"s", b"")]),
                    1,
                ),
                (3, write(&[(15, b"a", b"b")]), 2),
                (4, get(b"k"), 1_500_000),
            ],
        )
    };
    let options = AnalyzerOptions {
        operations: Operation::ALL.to_vec(),
        qps: true,
        ..AnalyzerOptions::default()
    };
    let qps = |release| {
        let files = Files::default();
        let mut analysis = read(bytes(release), options.clone()).unwrap();
        analysis
            .write_files(&mut InMemory(files.clone()), None)
            .unwrap();
        let text = files.borrow()["qps_stats.txt"].clone();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(qps("11.8"), "0 0 0 1 2 1 0 0 0 1 5\n");
    assert_eq!(qps("7.8"), "0 0 0 1 2 1 0 0 0 4\n");
}

#[test]
fn damage_stops_an_analysis_unless_it_is_tolerated() {
    let mut bytes = trace(
        "11.8",
        &[(4, get(b"a"), 0), (4, get(b"b"), 1), (4, get(b"c"), 2)],
    );
    let at = bytes.len() - 14;
    bytes[at] = 0xff;
    let options = AnalyzerOptions {
        operations: vec![Operation::Get],
        ..AnalyzerOptions::default()
    };
    let e = read(bytes.clone(), options.clone()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    let lenient = AnalyzerOptions {
        tolerate_damage: true,
        ..options
    };
    let analysis = read(bytes, lenient.clone()).unwrap();
    assert!(analysis.damage().is_some());
    assert_eq!(analysis.totals().gets, 2);
    for name in ["blockcache.trace", "io.trace"] {
        let e = read(fixture(name), lenient.clone()).unwrap_err();
        assert!(e.to_string().contains("Incorrect magic"), "{e}");
    }
}

/// R-REL hostile input: one wrong time must not make files of billions of lines.
#[test]
fn a_trace_of_more_than_a_year_is_refused() {
    let bytes = trace("11.8", &[(4, get(b"a"), 0), (4, get(b"b"), u64::MAX / 2)]);
    let options = AnalyzerOptions {
        operations: vec![Operation::Get],
        ..AnalyzerOptions::default()
    };
    let e = read(bytes, options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_list_of_keys_that_is_not_hexadecimal_is_refused_with_its_line() {
    let mut analysis = read(fixture("query2.trace"), recorded()).unwrap();
    let mut keys = |_| {
        let text: &[u8] = b"0x61\n0x6\n";
        Ok(Box::new(text) as Box<dyn std::io::BufRead>)
    };
    let e = analysis
        .write_files(&mut InMemory(Files::default()), Some(&mut keys))
        .unwrap_err();
    assert!(e.to_string().contains("line 2"), "{e}");
}
