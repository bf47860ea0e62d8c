//! Texts with places for options. `{name}` is an option in the words of an OPTIONS file, with 1 and 0 for
//! true and false; `{name.member}` a member of a nested one; after `|` stands another form, after `@`
//! what no option holds. Taken apart once, since every open writes some three hundred of their lines.

use crate::options::CompressionType;
use crate::options::table::{OptionRow, OptionTable};

/// Options that are shown with six decimals.
const FLOATS: [&str; 7] = [
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "data_block_hash_table_util_ratio",
    "experimental_mempurge_threshold",
    "max_bytes_for_level_multiplier",
    "memtable_prefix_bloom_size_ratio",
    "uniform_cv_threshold",
];

/// The lines of a text.
pub(super) struct Template<T: 'static>(Vec<Line<T>>);

/// A line of a text.
pub(super) struct Line<T: 'static> {
    pub(super) text: &'static str,
    pieces: Vec<Piece<T>>,
}

enum Piece<T: 'static> {
    Text(&'static str),
    /// Says what no option holds.
    Own(&'static str),
    Option(Field<T>),
}

struct Field<T: 'static> {
    row: &'static OptionRow<T>,
    /// Member of a nested option.
    member: Option<&'static str>,
    form: &'static str,
    is_float: bool,
}

/// Fills in the values of `options`.
pub(super) struct Filler<'o, T: 'static> {
    options: &'o T,
    /// Yields what no option holds.
    own: &'o dyn Fn(&str) -> String,
    /// The nested option of the last member, as several members follow each other.
    nested: Option<(&'static str, String)>,
    out: String,
}

impl<T: OptionTable> Template<T> {
    /// Takes a text apart; names of no option stand for nothing.
    pub(super) fn new(text: &'static str) -> Self {
        Self(text.lines().map(Line::new).collect())
    }

    pub(super) fn lines(&self) -> &[Line<T>] {
        &self.0
    }
}

impl<T: OptionTable> Line<T> {
    pub(super) fn new(text: &'static str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, (name, after))) = rest
            .split_once('{')
            .and_then(|(before, inside)| Some((before, inside.split_once('}')?)))
        {
            pieces.push(Piece::Text(before));
            match name.strip_prefix('@') {
                Some(name) => pieces.push(Piece::Own(name)),
                None => pieces.extend(Field::new(name).map(Piece::Option)),
            }
            rest = after;
        }
        pieces.push(Piece::Text(rest));
        Self { text, pieces }
    }

    /// The text before the first value.
    pub(super) fn head(&self) -> &'static str {
        match self.pieces.first() {
            Some(Piece::Text(head)) => head,
            _ => "",
        }
    }

    /// Returns whether the option is shown in it.
    pub(super) fn shows(&self, name: &str) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Option(field) if field.row.name == name))
    }
}

impl<T: OptionTable> Field<T> {
    fn new(name: &'static str) -> Option<Self> {
        let (name, form) = name.split_once('|').unwrap_or((name, ""));
        let (name, member) = match name.split_once('.') {
            Some((option, member)) => (option, Some(member)),
            None => (name, None),
        };
        Some(Self {
            row: T::row(name)?,
            member,
            form,
            is_float: member.is_none() && FLOATS.contains(&name),
        })
    }
}

impl<'o, T: OptionTable> Filler<'o, T> {
    pub(super) fn new(options: &'o T, own: &'o dyn Fn(&str) -> String) -> Self {
        Self {
            options,
            own,
            nested: None,
            out: String::new(),
        }
    }

    /// The line with its values.
    pub(super) fn filled(&mut self, line: &Line<T>) -> &str {
        self.out.clear();
        for piece in &line.pieces {
            match piece {
                Piece::Text(text) => self.out.push_str(text),
                Piece::Own(name) => self.out.push_str(&(self.own)(name)),
                Piece::Option(field) => self.value(field),
            }
        }
        &self.out
    }

    fn value(&mut self, field: &Field<T>) {
        let row = field.row;
        let Some(name) = field.member else {
            push_shown(&mut self.out, field, &(row.get)(self.options));
            return;
        };
        let nested = match self.nested.take() {
            Some((whole, value)) if whole == row.name => value,
            _ => (row.get)(self.options),
        };
        push_shown(&mut self.out, field, member(&nested, name));
        self.nested = Some((row.name, nested));
    }
}

fn push_shown<T>(out: &mut String, field: &Field<T>, value: &str) {
    let shown = match (field.form, value) {
        ("word", _) => value,
        ("codec", name) => codec_word(name),
        ("none", "nullptr") => "None",
        ("unknown", "nullptr") => "Unknown",
        ("class", text) => text.split(':').next().unwrap_or_default(),
        (_, "true") => "1",
        (_, "false") => "0",
        _ => {
            if field.is_float
                && let Ok(float) = value.parse::<f64>()
            {
                out.push_str(&format!("{float:.6}"));
                return;
            }
            value
        }
    };
    out.push_str(shown);
}

/// RocksDB's short word for a codec: `kZSTD` is `ZSTD`, `kNoCompression` stays what it says.
pub(super) fn codec_word(name: &str) -> &str {
    match CompressionType::from_name(name) {
        Some(CompressionType::Disable) => "Disabled",
        // A codec of the user's has its byte in the name only.
        Some(CompressionType::Custom(_)) | None => name.strip_prefix('k').unwrap_or(name),
        Some(known) => known.word(),
    }
}

/// A member of a nested option in the words of an OPTIONS file.
fn member<'n>(nested: &'n str, name: &str) -> &'n str {
    let members = nested.trim_matches(['{', '}']).split(';');
    let mut found = members.filter_map(|m| m.trim().strip_prefix(name)?.strip_prefix('='));
    found.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CfOptions;

    #[test]
    fn values_stand_in_the_words_that_rocksdb_logs() {
        let cf = CfOptions {
            compression: CompressionType::Snappy,
            ..CfOptions::default()
        };
        let own = |name: &str| format!("<{name}>");
        let mut filler = Filler::new(&cf, &own);
        for (template, want) in [
            ("{compression|codec}", "Snappy"),
            ("{bottommost_compression|codec}", "Disabled"),
            ("{merge_operator|none}", "None"),
            ("{prefix_extractor}", "nullptr"),
            ("{enable_blob_files|word}", "false"),
            ("{disable_auto_compactions}", "0"),
            ("{compression_opts.window_bits}", "-14"),
            ("{compression_opts.enabled|word}", "false"),
            ("{max_bytes_for_level_multiplier}", "10.000000"),
            ("{compaction_options_universal.size_ratio}", "1"),
            ("{compaction_options_universal.reduce_file_locking}", "1"),
            (
                "{compaction_options_fifo.max_table_files_size}",
                "1073741824",
            ),
            (
                "a {@address}, {num_levels} and {compression_opts.level|word}.",
                "a <address>, 7 and 32767.",
            ),
            ("plain", "plain"),
            ("open {num_levels", "open {num_levels"),
            ("", ""),
        ] {
            assert_eq!(filler.filled(&Line::new(template)), want, "{template}");
        }
    }
}
