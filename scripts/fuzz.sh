#!/usr/bin/env bash
# Runs the fuzz targets one after the other and prints what each did.
#
#   scripts/fuzz.sh [--keep] [SECONDS] [TARGET...]
#
#   SECONDS   time per target, default 60; 0 only builds programs and seeds
#   TARGET    names from fuzz/src/lib.rs, default all
#   --keep    afterwards copies small inputs that reach something new to fuzz/corpus-min/
#
#   CARGO_TARGET_DIR   where programs, corpus and findings go, default fuzz/target
#
# Needs a nightly toolchain and cargo-fuzz, and installs what is missing. Starts from seeds made of
# fixtures/ and from fuzz/corpus-min/. Exit 1 if a target crashes, hangs or takes too much memory; the
# input is then named, and belongs into fuzz/corpus-min/<target>/ together with the mend.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
keep=
if [[ ${1:-} == --keep ]]; then
  keep=yes
  shift
fi
seconds=60
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
mapfile -t targets < <(sed -n 's/^    ("\([a-z_]*\)", .*/\1/p' "$root/fuzz/src/lib.rs")
if (($#)); then
  targets=("$@")
fi

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/fuzz/target}
mkdir -p "$CARGO_TARGET_DIR"
CARGO_TARGET_DIR=$(cd "$CARGO_TARGET_DIR" && pwd)
tools=$CARGO_TARGET_DIR/tools
PATH=$PATH:$tools/bin
if ! rustup toolchain list | grep -q '^nightly'; then
  rustup toolchain install nightly --profile minimal
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: installing cargo-fuzz" >&2
  cargo install --quiet cargo-fuzz --root "$tools" --target-dir "$CARGO_TARGET_DIR/tools-build"
fi

corpus=$CARGO_TARGET_DIR/corpus
findings=$CARGO_TARGET_DIR/findings
cd "$root/fuzz"
if ((${#targets[@]} == 1)); then
  cargo +nightly fuzz build --fuzz-dir . "${targets[0]}"
  cargo +nightly fuzz build --fuzz-dir . seeds
else
  cargo +nightly fuzz build --fuzz-dir .
fi
host=$(rustc -vV | sed -n 's/^host: //p')
programs=$CARGO_TARGET_DIR/$host/release
ASAN_OPTIONS=detect_leaks=0 "$programs/seeds" "$root/fixtures" "$corpus"

if ((seconds == 0)); then
  exit 0
fi
failed=0
printf '%-16s %12s %10s %10s %8s %s\n' target runs exec/s coverage corpus result
for target in "${targets[@]}"; do
  mkdir -p "$corpus/$target" "$findings/$target" "$root/fuzz/corpus-min/$target"
  log=$findings/$target.log
  result=clean
  "$programs/$target" "$corpus/$target" "$root/fuzz/corpus-min/$target" \
    -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=1500 \
    -malloc_limit_mb=512 -print_final_stats=1 -artifact_prefix="$findings/$target/" \
    >"$log" 2>&1 || result="FAILED, see $log"
  last=$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -n 1 || true)
  stat() { sed -n "s/^stat::$1: *//p" "$log"; }
  printf '%-16s %12s %10s %10s %8s %s\n' "$target" "$(stat number_of_executed_units)" \
    "$(stat average_exec_per_sec)" "$(sed -E 's/cov: ([0-9]+).*/\1/' <<<"$last")" \
    "$(sed -E 's/.*corp: //' <<<"$last")" "$result"
  if [[ $result != clean ]]; then
    failed=1
    grep -hE 'panicked at|ERROR:|assertion|^ *(left|right):|Test unit written' -A1 "$log" | head -n 12
  elif [[ -n $keep ]]; then
    # The smallest set that reaches everything, small inputs first; then those of at most 1 KiB.
    small=$CARGO_TARGET_DIR/small/$target
    rm -rf "$small"
    mkdir -p "$small"
    "$programs/$target" -merge=1 "$small" "$root/fuzz/corpus-min/$target" "$corpus/$target" \
      >"$findings/$target.merge.log" 2>&1 || true
    find "$small" -type f -size -2 -printf '%s %p\n' | sort -n | awk -v n=40 '{ all[NR] = $2 }
      END { step = NR > n ? NR / n : 1; for (i = 1; int(i) <= NR; i += step) print all[int(i)] }' |
      xargs -r cp -n -t "$root/fuzz/corpus-min/$target"
  fi
done
exit "$failed"
