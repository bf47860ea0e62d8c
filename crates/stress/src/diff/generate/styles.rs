//! Draws compaction styles and their options.
//!
//! A database goes from style to style with its opens. When a compaction runs in the background depends on
//! the machine, so what deletes data by itself (the size limit of FIFO compaction) is drawn only for
//! programs in which nothing happens in the background: there a manual compaction applies it at a known
//! moment. Ages are drawn so large that nothing comes of age while a program runs.

use super::Maker;

/// Styles of an open.
const STYLES: &[&str] = &[
    "kCompactionStyleUniversal",
    "kCompactionStyleUniversal",
    "kCompactionStyleFIFO",
    "kCompactionStyleLevel",
    "kCompactionStyleNone",
];

/// Fields of `compaction_options_universal`.
const UNIVERSAL: &[(&str, &[&str])] = &[
    ("size_ratio", &["0", "1", "50"]),
    ("min_merge_width", &["2", "3"]),
    ("max_merge_width", &["2", "5", "4294967295"]),
    ("max_size_amplification_percent", &["1", "50", "200", "900"]),
    ("compression_size_percent", &["-1", "0", "50"]),
    ("max_read_amp", &["-1", "0", "6"]),
    (
        "stop_style",
        &[
            "kCompactionStopStyleSimilarSize",
            "kCompactionStopStyleTotalSize",
        ],
    ),
    ("allow_trivial_move", &["true", "false"]),
    ("incremental", &["true", "false"]),
];

/// Fields of `compaction_options_fifo` that delete nothing within the life of a program.
const FIFO: &[(&str, &[&str])] = &[
    ("allow_compaction", &["true", "true", "false"]),
    ("age_for_warm", &["0", "1000000"]),
    (
        "file_temperature_age_thresholds",
        &[
            "{{temperature=kWarm;age=1000000}}",
            "{{temperature=kWarm;age=1000000}:{temperature=kCold;age=2000000}}",
        ],
    ),
    (
        "allow_trivial_copy_when_change_temperature",
        &["true", "false"],
    ),
    ("max_data_files_size", &["0", "10000000000"]),
];

/// The limits with which a FIFO compaction deletes everything, or nothing.
const LIMITS: &[(&str, &[&str])] = &[
    ("max_table_files_size", &["1", "1073741824", "10000000000"]),
    ("max_data_files_size", &["0", "1", "10000000000"]),
];

impl Maker<'_> {
    /// Options of the style of an open or a family, each with its `;`. Empty in a program without styles.
    pub(super) fn style(&mut self) -> String {
        if !self.styles {
            return String::new();
        }
        let mut out = String::new();
        if !self.rng.one_in(4) {
            let style = self.rng.pick(STYLES);
            out.push_str(&format!("compaction_style={style};"));
        }
        if self.rng.one_in(2) {
            let fields = self.fields(UNIVERSAL);
            out.push_str(&format!("compaction_options_universal={{{fields}}};"));
        }
        if self.rng.one_in(2) {
            let fields = self.fifo_fields();
            out.push_str(&format!("compaction_options_fifo={{{fields}}};"));
        }
        for (name, values) in [
            ("ttl", ["0", "1000000"]),
            ("periodic_compaction_seconds", ["0", "1000000"]),
        ] {
            if self.rng.one_in(4) {
                out.push_str(&format!("{name}={};", self.rng.pick(&values)));
            }
        }
        out
    }

    /// A change of a style's options while the database runs; `None` in a program without styles.
    pub(super) fn style_change(&mut self) -> Option<String> {
        if !self.styles || self.rng.one_in(2) {
            return None;
        }
        Some(match self.rng.below(3) {
            0 => format!(
                "compaction_options_universal={{{}}}",
                self.fields(UNIVERSAL)
            ),
            1 => format!("compaction_options_fifo={{{}}}", self.fifo_fields()),
            // Fixed at the open.
            _ => "compaction_style=kCompactionStyleUniversal".to_string(),
        })
    }

    fn fifo_fields(&mut self) -> String {
        let mut fields = self.fields(FIFO);
        if self.exact {
            fields.push_str(&self.fields(LIMITS));
        }
        fields
    }

    fn fields(&mut self, rows: &[(&str, &[&str])]) -> String {
        let mut out = String::new();
        for (name, values) in rows {
            if self.rng.one_in(3) {
                out.push_str(&format!("{name}={};", self.rng.pick(values)));
            }
        }
        out
    }
}
