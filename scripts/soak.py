#!/usr/bin/env python3
"""Runs the stress programmes in shards until each has done its count, and sums what they did.

  soak.py merge [PROGRAMME...]     counts for a merge: some ten minutes of two cores
  soak.py soak [PROGRAMME...]      counts for a release: some four hours of two cores
  soak.py sum                      the table of what the log holds

  --stress FILE   the spanlith-stress to run (default: builds it, release profile)
  --library FILE  the librocksdb.so that `interrupts` disturbs (default: builds it, release profile)
  --log FILE      one JSON object per shard (default <target>/soak.jsonl); shards in it whose program was
                  built of the same commit are not run again, so a run that was stopped goes on
  --commit NAME   what was built, for the log (default: git's HEAD, and + if the tree differs from it)
  --jobs N        shards at a time (default: the number of cores)
  --minutes N     begins no shard after so long
  --first N       the first seed (default 1); shard n of a programme has seed N + n

A shard that fails is printed with its output; the exit code is then 1.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Programme: what is counted, arguments of a shard, its count about, counts of a merge and of a soak.
PROGRAMMES = {
    "model": ("operations", ["--ops", "500000"], 500_000, 1_000_000, 15_000_000),
    "crash": ("states", ["--states", "6000"], 50_000, 200_000, 5_000_000),
    "faults": ("runs", ["--runs", "2500", "--jobs", "1"], 2_500, 10_000, 1_000_000),
    "interrupts": ("runs", ["--runs", "1000", "--jobs", "1", "--ours", "LIBRARY"], 1_000, 2_000, 20_000),
    "damage": ("cases", ["--cases", "25000", "--per-image", "500", "--jobs", "1"], 25_000, 200_000, 10_000_000),
    "histories": ("histories", ["--rounds", "5000"], 5_000, 20_000, 200_000),
    "threads": ("checks", ["--rounds", "10"], 1_000_000, 2_000_000, 20_000_000),
    "kill": ("kills", ["--rounds", "50"], 50, 100, 1_000),
}
COUNTS = {
    "model": r"^  operations +(\d+)",
    "crash": r"(\d+) states and (\d+) of a second crash",
    "faults": r"(\d+) runs, the fault",
    "interrupts": r"seed \d+, (\d+) runs",
    "damage": r"(\d+) cases, ",
    "histories": r"seed \d+, (\d+) of \d+ operations",
    "threads": r"(\d+) checks",
    "kill": r"(\d+) kills",
}


def build(package, name):
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", package], check=True, cwd=ROOT)
    return os.path.join(target, "release", name)


def head():
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def shards_of(log):
    if not os.path.exists(log):
        return []
    with open(log) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def table(shards):
    print("| programme | counted | done | shards | processor time | failed | seeds | builds |\n|---|---|---|---|---|---|---|---|")
    for name, (unit, *_rest) in PROGRAMMES.items():
        mine = [s for s in shards if s["programme"] == name]
        if not mine:
            continue
        seeds = sorted(s["seed"] for s in mine)
        builds = sorted({s["commit"] for s in mine})
        print(
            f"| `{name}` | {unit} | {sum(s['count'] for s in mine):,} | {len(mine)} "
            f"| {sum(s['cpu'] for s in mine) / 60:.0f} min | {sum(not s['ok'] for s in mine)} "
            f"| {seeds[0]} to {seeds[-1]} | {', '.join(builds)} |"
        )


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("form", choices=["merge", "soak", "sum"])
    parser.add_argument("programmes", nargs="*")
    parser.add_argument("--stress")
    parser.add_argument("--library")
    parser.add_argument("--log")
    parser.add_argument("--commit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--first", type=int, default=1)
    args = parser.parse_args()
    for name in args.programmes:
        if name not in PROGRAMMES:
            parser.error(f"no programme {name}; there are: {', '.join(PROGRAMMES)}")
    log = args.log or os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "soak.jsonl")
    if args.form == "sum":
        table(shards_of(log))
        return 0
    commit = args.commit or head()
    stress = args.stress or build("spanlith-stress", "spanlith-stress")
    wanted = args.programmes or list(PROGRAMMES)
    if "interrupts" in wanted:
        library = args.library or build("spanlith-librocksdb", "librocksdb.so")
        PROGRAMMES["interrupts"][1][-1] = library
    begun = time.monotonic()
    lock = threading.Lock()
    done = [s for s in shards_of(log) if s["commit"] == commit]
    state = {n: dict(count=0, next=args.first, running=0, have=set()) for n in wanted}
    for shard in done:
        if shard["programme"] in state:
            state[shard["programme"]]["count"] += shard["count"]
            state[shard["programme"]]["have"].add(shard["seed"])
    failed = []

    def draw():
        """The programme that is least done, and its next seed."""
        with lock:
            if failed or (args.minutes and time.monotonic() - begun > args.minutes * 60):
                return None
            open_ones = []
            for name, s in state.items():
                _unit, _args, about, merge, soak = PROGRAMMES[name]
                share = (s["count"] + s["running"] * about) / (merge if args.form == "merge" else soak)
                if share < 1:
                    open_ones.append((share, name))
            if not open_ones:
                return None
            name = min(open_ones)[1]
            s = state[name]
            while s["next"] in s["have"]:
                s["next"] += 1
            s["have"].add(s["next"])
            s["running"] += 1
            return name, s["next"]

    def work():
        while (drawn := draw()) is not None:
            name, seed = drawn
            command = [stress, name, "--seed", str(seed), *PROGRAMMES[name][1]]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            out = child.stdout.read()
            _pid, status, usage = os.wait4(child.pid, 0)
            found = re.search(COUNTS[name], out, re.MULTILINE)
            count = sum(int(n) for n in found.groups()) if found else 0
            ok = status == 0 and count > 0
            shard = dict(
                programme=name, seed=seed, count=count, ok=ok, commit=commit, cpu=usage.ru_utime + usage.ru_stime
            )
            with lock:
                state[name]["running"] -= 1
                state[name]["count"] += count
                with open(log, "a") as lines:
                    lines.write(json.dumps(shard) + "\n")
                sums = ", ".join(f"{n} {s['count']:,}" for n, s in state.items())
                print(f"soak: {time.monotonic() - begun:.0f} s: {sums}", file=sys.stderr)
                if not ok:
                    failed.append(shard)
                    print(f"soak: FAILED: {' '.join(command)} (exit {status})\n{out}")

    workers = [threading.Thread(target=work) for _ in range(args.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    table([s for s in shards_of(log) if s["commit"] == commit])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
