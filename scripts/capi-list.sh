#!/usr/bin/env bash
# The C functions that the built library exports, as docs/compat.md.
#
#   scripts/capi-list.sh LIBRARY           writes docs/compat.md
#   scripts/capi-list.sh --check LIBRARY   exit 1 if docs/compat.md says something else
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=
if [[ ${1:-} == --check ]]; then check=1; shift; fi
[[ $# == 1 && -e $1 ]] || { sed -n '2,6p' "$0" >&2; exit 2; }
page() {
  local names
  names=$(nm -D --defined-only "$1" | awk '$2 == "T" && $3 ~ /^rocksdb_/ { print $3 }' | LC_ALL=C sort)
  cat <<'HEAD'
# Compatibility

Written by `scripts/capi-list.sh` from the built library; `.ci/run` fails when it is stale.

**Files.** Read and written: logs in every form, MANIFEST, CURRENT, IDENTITY, OPTIONS, block-based
tables of format versions 2 to 7 with every codec, checksum, index and filter that RocksDB writes, column
families, puts, deletes, single deletes, range deletions and merges (built-in operators, and those given
through the API). Everything else in a directory makes `open` fail with `Not
implemented: ` and the name of the feature; nothing in the directory is changed then.

**Options.** An option whose feature does not exist yet makes `open` fail with `Not implemented: ` and
the names of all such options. Options that are hints, or parts of features that are off, are accepted.

**Behaviour.** RocksDB 11.8.1's, but for these, where it loses data or stops the database: a write that
could not be applied (a range that ends before it begins, a merge without an operator, a batch that does
not decode) is refused before it is logged and writes go on; merge records in a log fail an open without
their operator instead of dropping everything behind them; a table that the MANIFEST does not name is
deleted at open only if its origin is explained; best-efforts recovery puts aside, into `lost/`, the logs
and what else it leaves out; `close` syncs the log. Backward, an iterator with a first timestamp
(`iter_start_ts`) shows what it shows forward; RocksDB's also shows versions before that timestamp and
behind its snapshot, and of two writes at one timestamp the first.

**C functions.** A function that is not listed is not exported: a program that needs it does not link, or
fails when it looks the symbol up.

HEAD
  printf '%s functions:\n\n```text\n%s\n```\n' "$(wc -l <<<"$names")" "$names"
}
if [[ -n $check ]]; then
  if ! diff -u docs/compat.md <(page "$1") >&2; then
    echo "docs/compat.md is stale: scripts/capi-list.sh $1" >&2
    exit 1
  fi
  exit 0
fi
page "$1" >docs/compat.md.new
mv docs/compat.md.new docs/compat.md
