//! Small things: integers, CURRENT, file names, unique ids.

use spanlith::version::filenames::{
    blob_file_name, current_content, info_log_prefix, log_file_name, manifest_file_name,
    marked_current_content, old_info_log_file_name, options_file_name, options_temp_file_name,
    parse_current, parse_file_name_with_log_prefix, parse_marked_current, table_file_name,
    temp_file_name,
};
use spanlith::version::{FileKind, parse_file_name};
use spanlith_base::coding::{
    Decoder, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64,
};
use spanlith_table::unique_id::unique_id as table_unique_id;

/// Integers and counted strings decode as they were encoded.
pub fn coding(data: &[u8]) {
    if let Some((v, rest)) = get_varint64(data) {
        let mut out = Vec::new();
        put_varint64(&mut out, v);
        assert!(out.len() <= data.len() - rest.len());
        assert_eq!(get_varint64(&out), Some((v, &[][..])));
    }
    if let Some((v, rest)) = get_varint32(data) {
        let mut out = Vec::new();
        put_varint32(&mut out, v);
        assert!(data.len() - rest.len() <= 5 && out.len() <= data.len() - rest.len());
        assert_eq!(get_varint64(data).map(|(v, _)| v as u32), Some(v));
    }
    let mut decoder = Decoder::new(data, "input");
    if let Ok(bytes) = decoder.length_prefixed("bytes") {
        let mut out = Vec::new();
        put_length_prefixed(&mut out, bytes);
        assert_eq!(
            Decoder::new(&out, "copy").length_prefixed("bytes").ok(),
            Some(bytes)
        );
    }
    let mut decoder = Decoder::new(data, "input");
    let mut steps = 0;
    while !decoder.is_empty() && steps <= data.len() {
        steps += 1;
        let done = match steps % 4 {
            0 => decoder.u8("u8").is_err(),
            1 => decoder.varint32("varint32").is_err(),
            2 => decoder.varint64("varint64").is_err(),
            _ => decoder.fixed32("fixed32").is_err(),
        };
        if done {
            break;
        }
    }
    assert!(steps <= data.len());
}

/// The contents of CURRENT.
pub fn current(data: &[u8]) {
    if let Ok(number) = parse_current(data) {
        assert_eq!(
            parse_current(current_content(number).as_bytes()).ok(),
            Some(number)
        );
    }
    // With what stands on a speed disk.
    if let Ok((number, marks)) = parse_marked_current(data) {
        let written = marked_current_content(number, &marks);
        let again = parse_marked_current(written.as_bytes());
        assert_eq!(again.ok(), Some((number, marks)));
    }
}

/// Names of files.
pub fn file_name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_file_name_with_log_prefix(&text, &info_log_prefix(&text));
    let Some(kind) = parse_file_name(&text) else {
        return;
    };
    let canonical = match kind {
        FileKind::Manifest(n) => manifest_file_name(n),
        FileKind::Log(n) => log_file_name(n),
        FileKind::Table(n) => table_file_name(n),
        FileKind::Blob(n) => blob_file_name(n),
        FileKind::Options(n) => options_file_name(n),
        FileKind::OptionsTemp(n) => options_temp_file_name(n),
        FileKind::Temp(n) => temp_file_name(n),
        FileKind::OldInfoLog(n) => old_info_log_file_name(n),
        _ => return,
    };
    assert_eq!(parse_file_name(&canonical), Some(kind), "{text:?}");
}

/// The unique id of a table made from three properties: `db id \n session id \n number`.
pub fn unique_id(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let (db, session) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let number = lines
        .next()
        .and_then(|n| n.trim().parse().ok())
        .unwrap_or(7);
    let id = table_unique_id(db, session, number);
    assert_eq!(id, table_unique_id(db, session, number));
}
