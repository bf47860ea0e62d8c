//! One function per decoder of untrusted bytes, for the fuzzer and for `cargo test`.
//!
//! A target takes any bytes, calls a decoder through the public interface of its crate, and panics
//! if a promise is broken: B3 (a value or an error, no panic, no unwarranted allocation), what was
//! decoded encodes to bytes that decode to the same, and walks end. Inputs that hold checksums have
//! them mended first, so that mutations reach what lies behind.
//!
//! `fuzz/fuzz_targets/` wraps each for libFuzzer. The package `spanlith-stress` includes this folder
//! as a module of its tests and runs every target over `fuzz/corpus-min/<target>/` and over the
//! seeds made from `fixtures/`.

pub mod assemble;
pub mod backup;
pub mod blob;
pub mod database;
pub mod log;
pub mod manifest;
pub mod names;
pub mod options;
pub mod range;
pub mod seeds;
pub mod speed;
pub mod table;
pub mod trace;

/// A target: its name, and the function that judges one input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets. The names are those of the folders of inputs and of the libFuzzer programs.
pub const TARGETS: &[Target] = &[
    ("backup_list", backup::backup_list),
    ("blob_file", blob::blob_file),
    ("blob_index", blob::blob_index),
    ("blob_refs", blob::blob_refs),
    ("coding", names::coding),
    ("compression", table::compression),
    ("cuckoo_table", table::cuckoo_table),
    ("current", names::current),
    ("data_block", table::data_block),
    ("database", database::database),
    ("file_name", names::file_name),
    ("filter", table::filter),
    ("index_block", table::index_block),
    ("log_reader", log::log_reader),
    ("meta_block", table::meta_block),
    ("options_file", options::options_file),
    ("options_string", options::options_string),
    ("plain_table", table::plain_table),
    ("properties", table::properties),
    ("range_tombstones", range::range_tombstones),
    ("speed_disk", speed::speed_disk),
    ("table", table::table),
    ("trace", trace::trace),
    ("trace_extension", trace::trace_extension),
    ("trace_replay", trace::trace_replay),
    ("unique_id", names::unique_id),
    ("version_edit", manifest::version_edit),
    ("wide_columns", blob::wide_columns),
    ("write_batch", log::write_batch),
];

/// Runs the target `name` over `data`.
///
/// # Panics
/// If there is no such target, or the input breaks a promise.
#[allow(dead_code, reason = "the tests walk the list")]
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(n, _)| *n == name);
    let (_, function) = target.unwrap_or_else(|| panic!("no fuzz target {name}"));
    function(data);
}
