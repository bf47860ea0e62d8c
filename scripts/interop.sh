#!/usr/bin/env bash
# Files cross between Spanlith and two RocksDB releases, both ways (scripts/interop.py says how).
#
#   scripts/interop.sh [--seed N] [--rounds N] [--ops N] [--mixes all|NAME] [--keep]
#
#   PROFILE    release (default), dist or test: the build of ours that is checked; it is built first. `test` shares
#              its objects with `cargo test`, and has debug assertions
#   SUBJECT    folder with another librocksdb.so to check instead of ours; then only the tools are built
#   PEERS      folder of the releases, see scripts/get-peers.sh
#
# First a run with a planted loss, which must fail; then the run that counts. Exit 1 on any difference.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
peers=${PEERS:-${TMPDIR:-/tmp}/peers}
scripts/get-peers.sh "$peers" >/dev/null

profile=${PROFILE:-release}
folder=${CARGO_TARGET_DIR:-target}/$profile
# One selection of packages in every build: another one may unify features otherwise, and compile all again.
selection=(-p spanlith-librocksdb -p spanlith-cli -p spanlith-stress)
if [[ $profile == test ]]; then
  folder=${CARGO_TARGET_DIR:-target}/debug
  selection=(--workspace)
fi
cargo build --quiet --profile "$profile" "${selection[@]}"
SUBJECT=${SUBJECT:-$folder}
echo "interop: subject $SUBJECT/librocksdb.so"

# Can the comparison fail at all? One operation is lost in every session of two real engines.
if out=$(python3 scripts/interop.py --subject "rocksdb11=$peers/lib11" --peer "rocksdb78=$peers/lib78:5" \
  --ops 60 --plant 50 2>&1); then
  echo "interop: a planted loss was not noticed:" >&2
  tail -n 3 <<<"$out" >&2
  exit 1
fi
planted=$(grep -cE '^FAIL .*(differ|gives)' <<<"$out") || { tail -n 5 <<<"$out" >&2; exit 1; }
rm -rf "$(sed -n 's/^ *directory kept: \(.*\)\/[^/]*$/\1/p' <<<"$out" | head -n 1)"
echo "interop: a planted loss is noticed ($planted of 9 scenarios)"

# The list of exported functions is part of the documents.
scripts/capi-list.sh --check "$SUBJECT/librocksdb.so"

# What is installed can be used, and its header declares what RocksDB's does.
PEERS=$peers scripts/installed.sh --profile "$profile"

# The tests of the Rust crate `rocksdb`, through crates/librocksdb-sys.
python3 scripts/rust_suite.py --work "${CARGO_TARGET_DIR:-target}/rust-suite" | tail -n 12
python3 scripts/rust_suite.py --version 0.24.0 --work "${CARGO_TARGET_DIR:-target}/rust-suite" | tail -n 3

# What the doctor says of RocksDB's directories, killed and damaged, is what opening and reading them shows.
python3 scripts/doctor_states.py "$folder/spanlith" "$peers/lib11/librocksdb.so" --short

# The faults that a day of use found do not come back.
python3 scripts/faults.py "$SUBJECT/librocksdb.so" "$folder/spanlith" "$peers/lib11/librocksdb.so"

# Tables written outside go from one library into the other's databases.
python3 scripts/interop_ingest.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so"
python3 scripts/interop_export.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so"

# Cuckoo and plain tables go from one library to the other, and are the same bytes.
python3 scripts/interop_flat.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so"

# Tables whose blocks have several codecs are read by both releases.
python3 scripts/interop_codecs.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so:7" "$peers/lib78/librocksdb.so:5"

# Backups of one library are restored by the other, and added to.
python3 scripts/interop_backup.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so" --programs 16
python3 scripts/interop_backup.py "$SUBJECT/librocksdb.so" "$peers/lib78/librocksdb.so" --programs 8 --format 5

# Traces of one library are read and replayed by the other, and by db_bench of 7.8.3.
bench=()
[[ -x /usr/bin/db_bench ]] && bench=(--bench /usr/bin/db_bench)
python3 scripts/interop_trace.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so" --programs 6 "${bench[@]}"

# Nobody notices interrupted and short system calls below the library.
"$folder/spanlith-stress" interrupts --ours "$SUBJECT/librocksdb.so" --runs 200

# Programs of transactions answer alike, and each library opens what the other left prepared.
python3 scripts/txn_diff.py "$SUBJECT/librocksdb.so" "$peers/lib11/librocksdb.so" --programs 24

exec python3 scripts/interop.py --subject "spanlith=$SUBJECT" --peer "rocksdb78=$peers/lib78:5" \
  --peer "rocksdb11=$peers/lib11:7" --tools --rounds 2 --mixes all --mix-ops 250 "$@"
