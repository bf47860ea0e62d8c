#!/usr/bin/env python3
"""Fuzzes every target until each has had its hours of processor time, over as many sittings as it takes.

  fuzz_hours.py [TARGET...]        goes on where the ledger stands
  fuzz_hours.py --sum              the table of what the ledger holds

  --hours N       processor hours per target (default 1)
  --chunk N       seconds of one run at most (default 240); the target that has had least comes next
  --jobs N        runs at a time (default: the number of cores)
  --minutes N     begins no run after so long
  --pause FILE    begins no run while FILE exists, for measurements in between
  --ledger FILE   one line per target and build (default docs/fuzz-hours.tsv)

Builds with `scripts/fuzz.sh 0`. The corpus under the fuzz target directory grows from run to run. A run that
crashes, hangs or takes too much memory is printed with the input it found, and ends everything with exit
code 1; time before a failure counts, the line says how many failed. SIGINT ends one run without a failure.
"""
import argparse
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIELDS = ["target", "build", "cpu_s", "runs", "failed", "coverage"]


def targets():
    with open(os.path.join(ROOT, "fuzz/src/lib.rs")) as source:
        return re.findall(r'^    \("([a-z_]*)", ', source.read(), re.MULTILINE)


def read(ledger):
    """The ledger as (target, build) -> [cpu seconds, runs, failed, coverage]."""
    rows = {}
    if os.path.exists(ledger):
        with open(ledger) as lines:
            for line in lines.read().splitlines()[1:]:
                target, build, *numbers = line.split("\t")
                rows[target, build] = [int(n) for n in numbers]
    return rows


def write(ledger, rows):
    with open(ledger + ".new", "w") as out:
        out.write("\t".join(FIELDS) + "\n")
        for key in sorted(rows):
            out.write("\t".join([*key, *map(str, rows[key])]) + "\n")
    os.replace(ledger + ".new", ledger)


def table(rows):
    print("| target | processor time | runs | coverage | failed | builds |\n|---|---|---|---|---|---|")
    for name in targets():
        mine = {build: row for (target, build), row in rows.items() if target == name}
        cpu, runs, failed = (sum(row[i] for row in mine.values()) for i in range(3))
        best = max((row[3] for row in mine.values()), default=0)
        print(f"| `{name}` | {cpu / 60:.0f} min | {runs:,} | {best} | {failed} | {', '.join(sorted(mine))} |")
    print(f"\n{sum(row[0] for row in rows.values()) / 3600:.1f} hours, {sum(row[1] for row in rows.values()):,} runs")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--sum", action="store_true")
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--chunk", type=int, default=240)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--pause")
    parser.add_argument("--ledger", default=os.path.join(ROOT, "docs/fuzz-hours.tsv"))
    args = parser.parse_args()
    for name in args.targets:
        if name not in targets():
            parser.error(f"no target {name}; there are: {', '.join(targets())}")
    rows = read(args.ledger)
    if args.sum:
        table(rows)
        return 0
    git = ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]
    build = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([os.path.join(ROOT, "scripts/fuzz.sh"), "0"], check=True)
    base = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "fuzz/target"))
    host = re.search(r"^host: (\S+)", subprocess.run(["rustc", "-vV"], capture_output=True, text=True).stdout, re.M)
    begun = time.monotonic()
    lock = threading.Lock()
    failed = []
    running = set()
    had = {t: sum(row[0] for (name, _), row in rows.items() if name == t) for t in args.targets or targets()}

    def draw():
        """The target that has had least, if it is not done and does not run."""
        while args.pause and os.path.exists(args.pause):
            time.sleep(1)
        with lock:
            if failed or (args.minutes and time.monotonic() - begun > args.minutes * 60):
                return None
            left = [(cpu, name) for name, cpu in had.items() if cpu < args.hours * 3600 and name not in running]
            if not left:
                return None
            running.add(min(left)[1])
            return min(left)[1]

    def work():
        while (name := draw()) is not None:
            found = os.path.join(base, "findings", name)
            corpora = [os.path.join(base, "corpus", name), os.path.join(ROOT, "fuzz/corpus-min", name)]
            for directory in [found, *corpora]:
                os.makedirs(directory, exist_ok=True)
            command = [os.path.join(base, host[1], "release", name), *corpora]
            # Not much longer than what it lacks.
            lacks = int(args.hours * 3600 - had[name]) + 2
            command += [f"-max_total_time={max(1, min(args.chunk, lacks))}", "-max_len=65536", "-timeout=20", "-rss_limit_mb=1500"]
            command += ["-malloc_limit_mb=512", "-print_final_stats=1", f"-artifact_prefix={found}/"]
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
            out = child.stderr.read()
            _pid, status, usage = os.wait4(child.pid, 0)
            cpu = int(usage.ru_utime + usage.ru_stime)
            runs = re.search(r"^stat::number_of_executed_units: *(\d+)", out, re.MULTILINE)
            # A run that got SIGINT ends with 72 and its figures.
            ok = status == 0 or os.waitstatus_to_exitcode(status) == 72
            reached = [int(n) for n in re.findall(r"cov: (\d+)", out)]
            with lock:
                running.discard(name)
                had[name] += cpu
                row = rows.setdefault((name, build), [0, 0, 0, 0])
                row[0] += cpu
                row[1] += int(runs[1]) if runs else 0
                row[2] += not ok
                row[3] = max([row[3], *reached])
                write(args.ledger, rows)
                print(f"fuzz: {time.monotonic() - begun:.0f} s: {name} {had[name] / 60:.0f} min", file=sys.stderr)
                if not ok:
                    failed.append(name)
                    print(f"fuzz: FAILED: {name}, inputs in {found}\n{out[-4000:]}")

    workers = [threading.Thread(target=work) for _ in range(args.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    table(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
