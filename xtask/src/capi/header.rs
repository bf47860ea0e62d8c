//! `include/rocksdb/c.h`.

use super::spec::Spec;
use std::collections::BTreeSet;
use std::fmt::Write;

const HEAD: &str = "\
/* C interface of Spanlith, compatible with RocksDB 11.8.1.
 *
 * SPDX-License-Identifier: Apache-2.0
 * Written by `cargo xtask capi` from crates/capi/spec/c-api.tsv.
 *
 * Rules for all functions:
 *  - A handle is opaque. The function that makes it says what it is; the function that ends in
 *    _destroy (or _close, _cancel) frees it.
 *  - `char** errptr` points to NULL or to a text from malloc(). A call that succeeds leaves it
 *    alone; a call that fails frees the old text and stores a new one, which the caller frees with
 *    rocksdb_free() or free().
 *  - A `char*` result comes from malloc() and belongs to the caller; a `const char*` result belongs
 *    to the handle it was asked of.
 *  - Keys and values are bytes with a length and may contain NUL. They are not terminated.
 *  - `unsigned char` parameters and results are booleans: 0 is false.
 *  - Enumerations are passed as `int`.
 */
#ifndef SPANLITH_ROCKSDB_C_H_
#define SPANLITH_ROCKSDB_C_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef ROCKSDB_LIBRARY_API
#define ROCKSDB_LIBRARY_API
#endif

#ifdef __cplusplus
extern \"C\" {
#endif

/* ---- Handles and bytes ---- */

";

const SLICE: &str = "
/* Bytes and their length, passed by value. */
typedef struct rocksdb_slice_t {
  const char* data;
  size_t size;
} rocksdb_slice_t;

/* ---- Callbacks ---- */

";

const FOOT: &str = "
#ifdef __cplusplus
} /* extern \"C\" */
#endif

#endif /* SPANLITH_ROCKSDB_C_H_ */
";

/// The header with the functions that the library exports.
pub fn write(spec: &Spec, exported: &BTreeSet<&str>) -> String {
    let mut out = HEAD.to_string();
    for name in &spec.handles {
        let _ = writeln!(out, "typedef struct {name} {name};");
    }
    out += SLICE;
    for row in &spec.callbacks {
        wrapped(&mut out, &format!("typedef {};", row.c));
    }
    out += "\n/* ---- Constants ---- */\n";
    for group in spec.groups() {
        out += "\nenum {\n";
        for constant in group {
            let _ = writeln!(out, "  {} = {},", constant.name, constant.value);
        }
        out.truncate(out.len() - 2);
        out += "\n};\n";
    }
    let mut area = "";
    for row in &spec.functions {
        if !exported.contains(row.parsed.name.as_str()) {
            continue;
        }
        if row.area != area {
            area = &row.area;
            let _ = writeln!(out, "\n/* ---- {} ---- */\n", title(area));
        }
        let parameters = if row.parsed.arguments.is_empty() {
            row.c.replace("()", "(void)")
        } else {
            row.c.clone()
        };
        wrapped(
            &mut out,
            &format!("extern ROCKSDB_LIBRARY_API {parameters};"),
        );
    }
    out + FOOT
}

/// Adds a declaration, broken after commas and opening parentheses where it is longer than a line.
fn wrapped(out: &mut String, declaration: &str) {
    let mut column = 0;
    for piece in declaration.split_inclusive([',', '(']) {
        let width = piece.trim_end().chars().count();
        if column > 0 && column + width > 100 {
            out.truncate(out.trim_end_matches(' ').len());
            out.push_str("\n    ");
            column = 4;
        }
        let piece = if column == 4 {
            piece.trim_start()
        } else {
            piece
        };
        out.push_str(piece);
        column += piece.chars().count();
    }
    out.push('\n');
}

/// The heading of a part of the interface.
fn title(area: &str) -> &str {
    match area {
        "db" => "Databases: open, close, read and write",
        "cf" => "Column families",
        "iter" => "Iterators",
        "batch" => "Write batches",
        "batch-wi" => "Write batches with an index",
        "bbto" => "Options of block-based tables",
        "options" => "Options: setters and texts",
        "options-get" => "Options: getters",
        "readoptions" => "Read options",
        "writeoptions" => "Write options",
        "own" => "Spanlith's own: options that RocksDB does not have",
        "txn" => "Transactions",
        "txn-options" => "Options of transactions",
        "opt-txn" => "Optimistic transactions",
        "table-props" => "Table properties",
        "compaction-svc" => "Remote compaction",
        "sst-ingest" => "Tables from outside",
        "livefiles" => "Live files",
        "wbm" => "Write buffer manager",
        other => other,
    }
}
