//! Traces.

use super::log::Bytes;
use spanlith::trace::{ExtensionReader, Query, TraceHeader, TraceReader, TraceRecord};
use spanlith::{Db, Env, FamilyOptions, ReplayOptions, Replayer};
use spanlith_env::mem::MemFs;
use spanlith_env::{IoActivity, VirtualClock};
use std::path::Path;
use std::sync::Arc;

/// Reads a trace to its end and takes every record apart.
pub fn trace(data: &[u8]) {
    let mut reader = TraceReader::new(Box::new(Bytes::new(data.to_vec())));
    let mut header = None;
    let mut end = 0;
    loop {
        let record = reader.next_record().expect("memory can be read");
        let Some(record) = record else { break };
        assert_eq!(record.offset, end, "records lie behind each other");
        end += 13 + record.payload.len() as u64;
        let Some(header) = header else {
            header = TraceHeader::from_record(&record).ok();
            if header.is_none() {
                return;
            }
            continue;
        };
        if let Ok(TraceRecord::Query(Query::MultiGet(keys))) = header.decode(&record) {
            assert_eq!(keys.iter().count(), keys.len());
            let bytes: usize = keys.iter().map(|(_, key)| 5 + key.len()).sum();
            assert!(bytes <= record.payload.len(), "more keys than bytes");
        }
    }
    assert_eq!(reader.position(), end);
    let torn = reader.torn().map_or(0, |torn| torn.bytes);
    assert_eq!(end + torn, data.len() as u64, "bytes that nobody read");
}

/// Reads the file beside a trace; what it says encodes to what reads the same.
pub fn trace_extension(data: &[u8]) {
    let Ok(mut reader) = ExtensionReader::new(Box::new(Bytes::new(data.to_vec()))) else {
        return;
    };
    let mut again = data[..28].to_vec();
    let mut all = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        record.encode(&mut again);
        all.push(record);
        assert!(all.len() <= data.len(), "more records than bytes");
    }
    let mut reader =
        ExtensionReader::new(Box::new(Bytes::new(again))).expect("the header is the same");
    for record in all {
        assert_eq!(reader.next_record().expect("it was encoded"), Some(record));
    }
}

/// Replays a trace into a database in memory, as fast as it goes.
pub fn trace_replay(data: &[u8]) {
    let env = Env {
        fs: Arc::new(MemFs::new()),
        clock: Arc::new(VirtualClock::new()),
        ..Env::system()
    };
    let trace = Path::new("/trace");
    let mut file = env.fs.create(trace, IoActivity::Other).expect("memory");
    file.append(data).expect("memory");
    drop(file);
    let db = Db::builder("/db")
        .create_if_missing(true)
        .env(env.clone())
        .open()
        .expect("memory");
    db.create_cf(FamilyOptions::new("f")).expect("memory");
    let mut replayer = Replayer::new(&db, &[], &env, trace).expect("the file is there");
    if replayer.prepare().is_err() {
        return;
    }
    let options = ReplayOptions {
        fast_forward: 1e15,
        ..ReplayOptions::default()
    };
    if let Ok(summary) = replayer.replay(&options, None) {
        assert!(summary.requests() + summary.skipped <= data.len() as u64 / 13);
    }
    db.close().expect("a trace harms no database");
}
