#!/usr/bin/env bash
# Runs the models under shuttle and sums the schedules.
#
#   scripts/shuttle.sh [COMPONENTS [ENGINE]]
#
# COMPONENTS schedules for each model of a component (default 20000) and ENGINE for each model of the
# whole engine (default a tenth of that; 0 leaves them out). Half of the schedules are random, the others
# by priorities with depths 3, 4 and 5. SHUTTLE_SEED says where chance begins. The last line is the sum;
# exit 1 if a model failed. A failure prints its schedule, for `shuttle::replay`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
components=${1:-20000}
engine=${2:-$((components / 10))}
# A folder of its own: other flags, other builds.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/shuttle
export RUSTFLAGS="--cfg shuttle" SHUTTLE_SILENCE_WARNINGS=1

packages=()
while read -r folder; do
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1)
  packages+=(-p "$name")
done < <(grep -rl --include='*.rs' 'cfg(all(test, shuttle))' crates | cut -d/ -f1-2 | sort -u)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
outcome=0
# Millions of steps: optimized, unlike other tests.
fast=(--config 'profile.test.opt-level=1' --config 'profile.test.package."*".opt-level=3')
SHUTTLE_SCHEDULES=$components cargo test --quiet "${fast[@]}" "${packages[@]}" --lib shuttle -- --nocapture 2>&1 |
  tee "$log" || outcome=1
if [[ $engine != 0 ]]; then
  SHUTTLE_SCHEDULES=$engine cargo test --quiet "${fast[@]}" -p spanlith-stress --test schedules -- --nocapture 2>&1 |
    tee -a "$log" || outcome=1
fi
awk '/shuttle: .* schedules, seed/ { for (n = 1; n < NF; n++) if ($(n + 1) == "schedules,") sum += $n; models++ }
  END { printf "shuttle: %d models, %d schedules\n", models, sum }' "$log"
exit $outcome
