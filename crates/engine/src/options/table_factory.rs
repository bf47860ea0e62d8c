//! Values of `table_factory` other than block-based tables.
//!
//! The option is a text: the name of the factory, or `{id=NAME;OPTION=VALUE;}` if some of its options differ from their
//! defaults. An OPTIONS file has the name there, and all options in a section of their own.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

use super::CfOptions;
use super::objects::id;
use super::text::nested_pairs;
use super::values::{OptionValue, ValueError};
use spanlith_base::{Error, Result};
use spanlith_table::{CuckooOptions, PlainEncoding, PlainOptions, TableFormat};

/// Name of the factory of cuckoo tables.
pub const CUCKOO: &str = "CuckooTable";
/// Name of the factory of plain tables.
pub const PLAIN: &str = "PlainTable";

/// A factory's options by name: how each is printed and set, in the order in which RocksDB writes them.
macro_rules! rows {
    ($list:ident, $set:ident, $type:ty: $($field:ident),* $(,)?) => {
        fn $list(o: &$type) -> Vec<(&'static str, String)> {
            vec![$((stringify!($field), o.$field.print())),*]
        }

        fn $set(o: &mut $type, name: &str, value: &str) -> Result<()> {
            match name {
                $(stringify!($field) => o.$field.parse_into(value),)*
                _ => {
                    let text = format!("Could not find option: : {name}");
                    return Err(Error::invalid_argument(text));
                }
            }
            .map_err(|e| e.into_error(name, value))
        }
    };
}

rows!(cuckoo_rows, set_cuckoo, CuckooOptions:
    use_module_hash, identity_as_first_hash, max_search_depth, cuckoo_block_size, hash_table_ratio);

rows!(plain_rows, set_plain, PlainOptions:
    store_index_in_file, encoding_type, huge_page_tlb_size, hash_table_ratio, full_scan_mode, bloom_bits_per_key,
    index_sparseness, user_key_len);

impl OptionValue for PlainEncoding {
    fn print(&self) -> String {
        match self {
            Self::Plain => "kPlain",
            Self::Prefix => "kPrefix",
        }
        .to_string()
    }

    fn parse_into(&mut self, text: &str) -> std::result::Result<(), ValueError> {
        *self = match text {
            "kPlain" => Self::Plain,
            "kPrefix" => Self::Prefix,
            _ => return Err(ValueError::Enum(vec!["kPlain", "kPrefix"])),
        };
        Ok(())
    }
}

/// The format that a value of `table_factory` asks for.
///
/// # Errors
/// `NotSupported` for a factory that this build does not have; `InvalidArgument` for an option of one that is not
/// understood.
pub fn format_of(text: &str) -> Result<TableFormat> {
    let mut format = default_of(id(text).unwrap_or_default())
        .ok_or_else(|| Error::not_supported("table_factory"))?;
    if text.trim_start().starts_with('{') && format != TableFormat::BlockBased {
        for (name, value) in nested_pairs(text)? {
            if name != "id" {
                set(&mut format, &name, &value)?;
            }
        }
    }
    Ok(format)
}

/// The format of a factory with all its options at their defaults; `None` if there is no such factory.
fn default_of(name: &str) -> Option<TableFormat> {
    match name {
        "BlockBasedTable" => Some(TableFormat::BlockBased),
        CUCKOO => Some(TableFormat::Cuckoo(CuckooOptions::default())),
        PLAIN => Some(TableFormat::Plain(PlainOptions::default())),
        _ => None,
    }
}

/// Returns whether there is a factory of that name that makes tables without blocks.
pub(super) fn is_other(name: &str) -> bool {
    default_of(name).is_some_and(|f| f != TableFormat::BlockBased)
}

fn set(format: &mut TableFormat, name: &str, value: &str) -> Result<()> {
    match format {
        TableFormat::BlockBased => Ok(()),
        TableFormat::Cuckoo(o) => set_cuckoo(o, name, value),
        TableFormat::Plain(o) => set_plain(o, name, value),
    }
}

/// The format of new tables of a family with these options.
pub fn format_in(cf: &CfOptions) -> TableFormat {
    // A text that names no format is refused when a family is opened.
    match format_of(&cf.table_factory).unwrap_or_default() {
        TableFormat::Plain(plain) => TableFormat::Plain(PlainOptions {
            bloom_locality: cf.bloom_locality,
            ..plain
        }),
        other => other,
    }
}

/// Name and value of all options of a format that has options of its own.
pub fn rows_of(format: &TableFormat) -> Vec<(&'static str, String)> {
    match format {
        TableFormat::BlockBased => Vec::new(),
        TableFormat::Cuckoo(o) => cuckoo_rows(o),
        TableFormat::Plain(o) => plain_rows(o),
    }
}

/// The value of `table_factory` that asks for a format.
pub fn text_of(format: &TableFormat) -> String {
    let name = match format {
        TableFormat::BlockBased => "BlockBasedTable",
        TableFormat::Cuckoo(_) => CUCKOO,
        TableFormat::Plain(_) => PLAIN,
    };
    let usual = default_of(name).map(|f| rows_of(&f)).unwrap_or_default();
    let mut text = String::new();
    for row in rows_of(format) {
        if !usual.contains(&row) {
            text += &format!("{}={};", row.0, row.1);
        }
    }
    match text.is_empty() {
        true => name.to_string(),
        false => format!("{{id={name};{text}}}"),
    }
}

/// Sets an option of the factory that `text` asks for; a factory that this build does not have takes any.
///
/// # Errors
/// `InvalidArgument` for an option that the factory does not have, or a value that is none.
pub(super) fn set_option(text: &mut String, name: &str, value: &str) -> Result<()> {
    if let Ok(mut format) = format_of(text) {
        set(&mut format, name, value)?;
        *text = text_of(&format);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::BlockBasedTableOptions;
    use super::super::ini::{parse_options_file, write_options_file};
    use super::super::text::set_cf_option;
    use super::*;

    #[test]
    fn a_factory_with_options_is_printed_as_it_is_read() {
        let text = "{ id = CuckooTable; hash_table_ratio=0.5; cuckoo_block_size=2 }";
        let format = format_of(text).unwrap();
        let TableFormat::Cuckoo(cuckoo) = format else {
            panic!("{format:?}");
        };
        assert_eq!(
            (cuckoo.hash_table_ratio, cuckoo.cuckoo_block_size),
            (0.5, 2)
        );
        let text = text_of(&format);
        assert_eq!(
            text,
            "{id=CuckooTable;cuckoo_block_size=2;hash_table_ratio=0.500000;}"
        );
        assert_eq!(format_of(&text).unwrap(), format);
        assert_eq!(text_of(&format_of("CuckooTable").unwrap()), "CuckooTable");
    }

    #[test]
    fn options_of_the_factory_that_is_there_change_one_by_one() {
        let (mut cf, mut table) = (CfOptions::default(), BlockBasedTableOptions::default());
        for (name, value) in [
            ("table_factory", "PlainTable"),
            (
                "plain_table_factory",
                "{user_key_len=8;encoding_type=kPrefix}",
            ),
            ("plain_table_factory.index_sparseness", "4"),
            ("table_factory", "{store_index_in_file=true}"),
            ("table_factory.bloom_bits_per_key", "7"),
        ] {
            set_cf_option(&mut cf, &mut table, name, value).unwrap();
        }
        assert_eq!(
            cf.table_factory,
            "{id=PlainTable;store_index_in_file=true;encoding_type=kPrefix;bloom_bits_per_key=7;\
             index_sparseness=4;user_key_len=8;}"
        );
        let text = write_options_file(
            &Default::default(),
            &[("default".into(), cf.clone(), table)],
        );
        assert!(text.contains("\n  table_factory=PlainTable\n"), "{text}");
        let parsed = parse_options_file(&text).unwrap();
        assert_eq!(parsed.cfs[0].options.table_factory, cf.table_factory);
    }

    #[test]
    fn what_is_no_factory_or_no_option_of_one_is_refused() {
        for (text, want) in [
            ("mine", "Not implemented: table_factory"),
            ("{id=mine;a=b}", "Not implemented: table_factory"),
            (
                "{id=CuckooTable;a=b}",
                "Invalid argument: Could not find option: : a",
            ),
            (
                "{id=CuckooTable;max_search_depth=deep}",
                "Invalid argument: Error parsing max_search_depth:",
            ),
        ] {
            let e = format_of(text).unwrap_err().rocksdb_text();
            assert!(e.starts_with(want), "{text}: {e}");
        }
    }
}
