//! Traces.

use super::log::Bytes;
use spanlith::trace::{Query, TraceHeader, TraceReader, TraceRecord};

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
