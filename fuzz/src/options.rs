//! OPTIONS files and option strings.

use spanlith::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, ParsedOptions, apply_options_string,
    parse_options_file, sanitize_cf, sanitize_db, write_options_file,
};

fn write(parsed: &ParsedOptions) -> String {
    let families = parsed.cfs.iter();
    let families: Vec<_> = families
        .map(|c| (c.name.clone(), c.options.clone(), c.table.clone()))
        .collect();
    write_options_file(&parsed.db, &families)
}

/// Reads an OPTIONS file; what is written of it reads the same.
pub fn options_file(data: &[u8]) {
    let Ok(parsed) = parse_options_file(&String::from_utf8_lossy(data)) else {
        return;
    };
    reread(&write(&parsed));
}

fn reread(written: &str) {
    match parse_options_file(written) {
        Ok(again) => {
            let again = write(&again);
            let changed = again.lines().zip(written.lines()).find(|(a, b)| a != b);
            assert!(again == written, "(read, written): {changed:?}");
        }
        Err(e) => panic!("what was written does not read: {e}"),
    }
}

/// Applies `name=value;...` to defaults; what becomes of them can be written and read.
pub fn options_string(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut db = DbOptions::default();
    let (mut cf, mut table) = (CfOptions::default(), BlockBasedTableOptions::default());
    if apply_options_string(&text, &mut db, &mut cf, &mut table).is_err() {
        return;
    }
    sanitize_db(&mut db, None);
    sanitize_cf(&mut cf);
    reread(&write_options_file(
        &db,
        &[("default".to_string(), cf, table)],
    ));
}
