//! The info log over the in-memory file system.

use super::*;
use crate::options::{BlockBasedTableOptions, CfOptions};
use spanlith_env::{FaultFs, FaultRule, ManualExecutor, MemFs, OpClass, SeededRng, VirtualClock};
use std::time::Duration;

const TIME: u64 = 1_795_305_599_123_456;

pub(super) struct Rig {
    env: Env,
    clock: Arc<VirtualClock>,
    faults: Arc<FaultFs>,
}

pub(super) fn rig() -> Rig {
    let clock = Arc::new(VirtualClock::at(TIME));
    let faults = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let env = Env {
        fs: faults.clone(),
        clock: clock.clone(),
        executor: Arc::new(ManualExecutor::new()),
        rng: Arc::new(SeededRng::new(1)),
    };
    Rig { env, clock, faults }
}

impl Rig {
    pub(super) fn open(&self, options: &DbOptions) -> Arc<InfoLog> {
        InfoLog::open(&self.env, Path::new("/db"), options).unwrap()
    }

    pub(super) fn read(&self, name: &str) -> String {
        String::from_utf8(
            self.env
                .fs
                .read_all(&Path::new("/db").join(name), 1 << 30)
                .unwrap(),
        )
        .unwrap()
    }

    fn files(&self) -> Vec<String> {
        self.env.fs.list(Path::new("/db")).unwrap()
    }
}

/// Lines without time and thread.
fn messages(text: &str) -> Vec<String> {
    text.lines()
        .map(|l| l.splitn(3, ' ').nth(2).unwrap().to_string())
        .collect()
}

#[test]
fn a_line_has_time_thread_level_and_message() {
    let rig = rig();
    let log = rig.open(&DbOptions::default());
    log.info(format_args!("flushed {}", 3));
    log.warn(format_args!("odd\n"));
    log.debug(format_args!("hidden"));
    log.event(
        Some(4),
        "flush_started",
        &[
            ("n", EventValue::U64(1)),
            ("d", EventValue::I64(-1)),
            ("r", EventValue::F64(0.5)),
            ("s", EventValue::Str("a\"b\\c\n")),
            ("ok", EventValue::Bool(true)),
            ("levels", EventValue::List(&[1, 2])),
        ],
    );
    let text = rig.read("LOG");
    let thread = thread_number();
    let prefix = format!("2026/11/21-23:59:59.123456 {thread} ");
    assert_eq!(
        text,
        format!(
            "{prefix}flushed 3\n{prefix}[WARN] odd\n{prefix}EVENT_LOG_v1 {{\"time_micros\": {TIME}, \
             \"job\": 4, \"event\": \"flush_started\", \"n\": 1, \"d\": -1, \"r\": 0.5, \
             \"s\": \"a\\\"b\\\\c\\u000a\", \"ok\": 1, \"levels\": [1, 2]}}\n"
        )
    );
}

#[test]
fn dates_are_right_around_leap_days_and_centuries() {
    for (days, want) in [
        (0, (1970, 1, 1)),
        (59, (1970, 3, 1)),
        (11_016, (2000, 2, 29)),
        (11_017, (2000, 3, 1)),
        (19_782, (2024, 2, 29)),
        (47_540, (2100, 2, 28)),
        (47_541, (2100, 3, 1)),
    ] {
        assert_eq!(civil(days), want);
    }
}

#[test]
fn the_level_hides_what_is_below_it_but_not_headers() {
    let rig = rig();
    let log = rig.open(&DbOptions::new().info_log_level(InfoLogLevel::Error));
    log.warn(format_args!("no"));
    log.event(None, "no", &[]);
    log.error(format_args!("yes"));
    log.header(format_args!("also"));
    assert_eq!(messages(&rig.read("LOG")), ["[ERROR] yes", "also"]);
    assert!(!log.is_enabled(InfoLogLevel::Warn));
    let none = InfoLog::none();
    none.error(format_args!("nowhere"));
    none.dump_db_options(&DbOptions::default(), DumpParts::default());
    assert!(!none.is_enabled(InfoLogLevel::Fatal));
}

#[test]
fn opening_keeps_old_logs_under_their_time_and_deletes_what_is_too_much() {
    let rig = rig();
    let options = DbOptions::new().keep_log_file_num(3u64);
    for n in 0..5 {
        rig.open(&options).info(format_args!("open {n}"));
    }
    assert_eq!(
        rig.files(),
        [
            "LOG".to_string(),
            format!("LOG.old.{}", TIME + 2),
            format!("LOG.old.{}", TIME + 3)
        ]
    );
    assert_eq!(messages(&rig.read("LOG")), ["open 4"]);
    assert_eq!(
        messages(&rig.read(&format!("LOG.old.{}", TIME + 3))),
        ["open 3"]
    );
}

#[test]
fn a_full_piece_is_closed_and_the_header_repeated() {
    let rig = rig();
    let log = rig.open(
        &DbOptions::new()
            .max_log_file_size(200u64)
            .keep_log_file_num(100u64),
    );
    log.header(format_args!("RocksDB version: 11.8.1"));
    for n in 0..20 {
        log.info(format_args!("line {n}"));
    }
    let mut seen = Vec::new();
    let mut files = rig.files();
    assert!(files.len() > 5, "{files:?}");
    files.sort_by_key(|f| {
        if f == "LOG" {
            "Z".to_string()
        } else {
            f.clone()
        }
    });
    for name in files {
        let text = rig.read(&name);
        assert!(text.len() <= 200, "{name} {}", text.len());
        let lines = messages(&text);
        assert_eq!(lines[0], "RocksDB version: 11.8.1");
        seen.extend_from_slice(&lines[1..]);
    }
    let want: Vec<String> = (0..20).map(|n| format!("line {n}")).collect();
    assert_eq!(seen, want);
}

#[test]
fn by_default_all_pieces_together_stay_below_eighty_mebibytes() {
    let rig = rig();
    let log = rig.open(&DbOptions::default());
    let line = "x".repeat(60 << 10);
    for n in 0..2000 {
        log.info(format_args!("{n} {line}"));
    }
    let sizes: Vec<u64> = rig
        .files()
        .iter()
        .map(|f| rig.env.fs.size(&Path::new("/db").join(f)).unwrap())
        .collect();
    assert!(sizes.iter().all(|s| *s <= PIECE_BYTES));
    let total: u64 = sizes.iter().sum();
    assert!(
        total <= TOTAL_BYTES && total > TOTAL_BYTES - 2 * PIECE_BYTES,
        "{total}"
    );
}

#[test]
fn a_piece_is_closed_when_it_is_old() {
    let rig = rig();
    let log = rig.open(&DbOptions::new().log_file_time_to_roll(10u64));
    log.info(format_args!("a"));
    rig.clock.advance(Duration::from_secs(9));
    log.info(format_args!("b"));
    rig.clock.advance(Duration::from_secs(1));
    log.info(format_args!("c"));
    assert_eq!(messages(&rig.read("LOG")), ["c"]);
}

#[test]
fn a_log_that_cannot_be_written_is_tried_again_and_says_what_was_lost() {
    let rig = rig();
    let log = rig.open(&DbOptions::default());
    log.header(format_args!("head"));
    let rule = rig
        .faults
        .add(FaultRule::fail(OpClass::Append, 1, 28).forever());
    log.info(format_args!("lost"));
    rig.faults.remove(rule);
    log.info(format_args!("too soon"));
    rig.clock.advance(Duration::from_secs(60));
    log.info(format_args!("back"));
    assert_eq!(
        messages(&rig.read("LOG")),
        ["head", "[WARN] 2 lines of this log were lost", "back"]
    );
}

#[test]
fn with_a_log_directory_the_name_carries_the_database() {
    let rig = rig();
    let log = rig.open(&DbOptions::new().db_log_dir("/logs"));
    log.info(format_args!("x"));
    drop(log);
    rig.open(&DbOptions::new().db_log_dir("/logs"));
    let files = rig.env.fs.list(Path::new("/logs")).unwrap();
    assert_eq!(files, ["db_LOG".to_string(), format!("db_LOG.old.{TIME}")]);
}

#[test]
fn the_summary_and_the_dump_read_like_rocksdbs() {
    let rig = rig();
    let log = rig.open(&DbOptions::default());
    for name in ["CURRENT", "MANIFEST-000005", "000009.sst", "000004.log"] {
        let path = Path::new("/db").join(name);
        rig.env
            .fs
            .create(&path, IoActivity::Other)
            .unwrap()
            .append(b"12345")
            .unwrap();
    }
    log.summary(Path::new("/db"), "SESSION");
    log.dump_db_options(&DbOptions::default(), DumpParts::default());
    let table = BlockBasedTableOptions::default();
    log.dump_cf_options("default", 0, &CfOptions::default(), (&table, None));
    log.dump_cf_options("eleventh", 10, &CfOptions::default(), (&table, None));
    let lines = messages(&rig.read("LOG"));
    assert_eq!(lines[0], "RocksDB version: 11.8.1");
    for want in [
        "DB SUMMARY",
        "DB Session ID:  SESSION",
        "CURRENT file:  CURRENT",
        "MANIFEST file:  MANIFEST-000005 size: 5 Bytes",
        "SST files in /db dir, Total Num: 1, files: 000009.sst ",
        "Write Ahead Log file in /db: 000004.log size: 5 ; ",
        "--------------- Options for column family [default]:",
        "\t(skipping printing options)",
    ] {
        assert!(lines.iter().any(|l| l == want), "{want}\n{lines:#?}");
    }
    let trimmed: Vec<&str> = lines.iter().map(|l| l.trim()).collect();
    assert!(trimmed.contains(&"Options.create_if_missing: 0"));
    assert!(trimmed.contains(&"Options.compression: LZ4"));
    assert!(trimmed.contains(&"block_size: 4096"));
}

#[test]
fn a_dump_of_options_stays_in_order_and_goes_out_in_few_writes() {
    let rig = rig();
    let log = rig.open(&DbOptions::default());
    log.info(format_args!("before"));
    let before = rig.faults.calls(OpClass::Append);
    log.dump_db_options(&DbOptions::default(), DumpParts::default());
    let writes = rig.faults.calls(OpClass::Append) - before;
    log.info(format_args!("behind"));
    let lines = messages(&rig.read("LOG"));
    assert_eq!(
        (lines[0].as_str(), lines[lines.len() - 1].as_str()),
        ("before", "behind")
    );
    assert!(lines.len() > 100, "{}", lines.len());
    assert!(writes <= 2, "{writes} writes for {} lines", lines.len());
}

#[test]
fn a_logger_gets_the_lines_of_its_level_and_there_is_no_file() {
    #[derive(Default)]
    struct Keep(std::sync::Mutex<Vec<(InfoLogLevel, String)>>);
    impl Logger for Keep {
        fn log(&self, level: InfoLogLevel, line: &str) {
            self.0.lock().unwrap().push((level, line.to_string()));
        }
    }
    let rig = rig();
    let kept = Arc::new(Keep::default());
    let log = InfoLog::to_logger(&rig.env, kept.clone(), InfoLogLevel::Info);
    log.debug(format_args!("hidden"));
    log.warn(format_args!("odd\n"));
    log.header(format_args!("head"));
    log.event(Some(4), "e", &[]);
    assert!(log.is_enabled(InfoLogLevel::Info) && !log.is_enabled(InfoLogLevel::Debug));
    let event = format!("EVENT_LOG_v1 {{\"time_micros\": {TIME}, \"job\": 4, \"event\": \"e\"}}");
    assert_eq!(
        *kept.0.lock().unwrap(),
        [
            (InfoLogLevel::Warn, "odd".to_string()),
            (InfoLogLevel::Header, "head".to_string()),
            (InfoLogLevel::Info, event),
        ]
    );
    assert!(rig.env.fs.entry(Path::new("/db")).unwrap().is_none());
}
