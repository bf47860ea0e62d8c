#!/bin/sh
# A database far larger than memory, loaded, compacted, read and changed under a memory limit that
# counts the page cache: peak memory of the process beside its budget, for each library.
#
#   budget.sh [OPTIONS] NAME=DIR...      DIR has librocksdb.so; the runs come one after the other
#     --limit MB       of the control group (1024)      --num N        keys (20000000: about 8 GB)
#     --cache MB       block cache (256)                --buffer MB    write buffer (64)
#     --reads N        of each kind (300000)            --kvbench FILE (built if not given)
#     --work DIR       where the database is made and removed (default: a new directory in TMPDIR)
#
# The limit needs a writable memory control group (version 1 or 2). Without one the run goes on under
# no limit and says so: peak memory is measured either way. The budget is cache + two write buffers +
# what open tables hold (`rocksdb.estimate-table-readers-mem`, printed by the workload `props`).
set -eu
limit=1024 num=20000000 cache=256 buffer=64 reads=300000 bench= work=
while [ $# -gt 0 ]; do
  case $1 in
    --limit) limit=$2 ;; --num) num=$2 ;; --cache) cache=$2 ;; --buffer) buffer=$2 ;;
    --reads) reads=$2 ;; --kvbench) bench=$2 ;; --work) work=$2 ;;
    *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || { sed -n '2,15p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
made=
[ -n "$work" ] || { work=$(mktemp -d); made=$work; }
[ -n "$bench" ] || { "$here/build.sh" "$work/kvbench" >/dev/null; bench=$work/kvbench/kvbench; }

group=
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  if mkdir "$root/budget.$$" 2>/dev/null; then
    for file in memory.limit_in_bytes memory.max; do
      # Only one of the two is there; a refused write leaves no limit.
      if [ -e "$root/budget.$$/$file" ] && echo "${limit}M" >"$root/budget.$$/$file" 2>/dev/null; then
        group=$root/budget.$$
      fi
    done
    [ -n "$group" ] && break
    rmdir "$root/budget.$$"
  fi
done
[ -n "$group" ] || echo "budget.sh: no writable memory control group; no limit" >&2
trap 'rm -rf "$work/db" ${made:+"$made"}; [ -z "$group" ] || rmdir "$group" 2>/dev/null || true' EXIT

anonymous() { # peak of what only this process holds, in MB, polled: the high-water mark less mapped files
  awk '/^(VmHWM|RssFile)/ { v[$1] = $2 } END { printf "%d", (v["VmHWM:"] - v["RssFile:"]) / 1024 }' \
    "/proc/$1/status" 2>/dev/null
}

echo "| library | workload | ops | ops/s | CPU us/op | peak MB so far |"
echo "|---|---|---|---|---|---|"
for pair; do
  name=${pair%%=*} dir=${pair#*=}
  rm -rf "$work/db"
  [ ! -e "$group/memory.max_usage_in_bytes" ] || echo 0 >"$group/memory.max_usage_in_bytes"
  (
    # The group is entered by this shell, so that the benchmark starts in it.
    [ -z "$group" ] || sh -c 'echo $PPID' >"$group/cgroup.procs"
    LD_LIBRARY_PATH=$dir exec "$bench" --db "$work/db" --num "$num" --value-size 400 \
      --cache-mb "$cache" --write-buffer-mb "$buffer" --bg-jobs 2 --json 1 --verify 1 \
      --benchmarks "fillrandom,wait,readrandom:$reads,readmissing:$reads,seekrandom:$((reads / 10)),overwrite:$((num / 20)),wait,compact,readrandom:$reads,props"
  ) >"$work/out" 2>"$work/err" &
  pid=$!
  peak=0
  while kill -0 "$pid" 2>/dev/null; do
    now=$(anonymous "$pid")
    [ "${now:-0}" -gt "$peak" ] && peak=$now
    sleep 1
  done
  wait "$pid" || { echo "$name failed" >&2; tail -5 "$work/err" >&2; }
  python3 - "$name" "$work/out" <<'PY'
import json, sys
for line in open(sys.argv[2]):
    row = json.loads(line)
    print("| {} | {} | {} | {:.0f} | {:.2f} | {} |".format(
        sys.argv[1], row["bench"], row["ops"], row["ops_s"], row["cpu_us_op"], row["rss_mb"]))
PY
  pages=
  [ ! -e "$group/memory.max_usage_in_bytes" ] || pages=", with page cache $(($(cat "$group/memory.max_usage_in_bytes") >> 20)) MB"
  echo "$name: peak $peak MB without mapped files$pages; database $(du -sm "$work/db" | cut -f1) MB" \
    "; pages reclaimed at the limit so far $(cat "$group/memory.failcnt" 2>/dev/null || echo unknown)"
  grep -i "table-readers-mem\|error" "$work/err" || true
done
