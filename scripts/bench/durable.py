#!/usr/bin/env python3
"""Durable puts beside RocksDB: one thread, eight, many outstanding, and an open loop beside background writes.

  scripts/bench/durable.py --spanlith BIN --kvbench BIN --floor BIN --peer DIR [--work DIR] [--runs N] [--ops N] [--json FILE]

BIN are the program `spanlith` and what scripts/bench/build.sh built, DIR the folder with RocksDB's librocksdb.so, --work
a folder on the disk to be measured. Every put is synced. The runs of all rows are interleaved; the figures are medians
over the runs, the ratios medians of the ratio within a run. Rows:

  rocksdb 1, 8, 400     RocksDB with so many threads (kvbench fillsync)
  file 1, 8             ours, the log in files (spanlith bench fillrandom --sync)
  file 8x50             ours, 8 threads with 50 asynchronous calls outstanding each
  disk 1, 8, 8x50       ours, the log on a speed disk that is a file of the same disk
  floor 1, 8            no engine: a group commit of bare durable writes (group_floor.c), the leader waiting 30 us for the
                        others; the most that blocking calls reach on this disk and these cores

CPU of our rows is that of the whole process, its start included; with fewer than 100,000 operations that shows.
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile

# name, threads, outstanding, speed disk; operations as a share of --ops
ROWS = [
    ("rocksdb 1", 1, 0, False, 0.05), ("file 1", 1, 1, False, 0.05), ("disk 1", 1, 1, True, 0.05),
    ("rocksdb 8", 8, 0, False, 0.25), ("file 8", 8, 1, False, 0.25), ("disk 8", 8, 1, True, 0.25),
    ("floor 1", 1, 1, False, 0.05), ("floor 8", 8, 1, False, 0.25),
    ("rocksdb 400", 400, 0, False, 0.5), ("file 8x50", 8, 50, False, 1.0), ("disk 8x50", 8, 50, True, 1.0),
]


def rocksdb(args, db, threads, ops):
    out = subprocess.run([args.kvbench, "--db", db, "--threads", str(threads), "--benchmarks", f"fillsync:{ops}",
                          "--json", "1"], env=dict(os.environ, LD_LIBRARY_PATH=args.peer), check=True,
                         capture_output=True, text=True).stdout
    row = [json.loads(line) for line in out.splitlines() if line.startswith("{")][0]
    write = row["write"]
    return {"ops_s": row["ops_s"], "cpu_us": row["cpu_us_op"], "p50_us": write["p50_us"], "p99_us": write["p99_us"],
            "p999_us": write["p999_us"]}


def ours(args, db, threads, outstanding, disk, ops):
    command = [args.spanlith, "bench", "fillrandom", "--sync", "--threads", str(threads), "--num", str(ops),
               "--db", db, "--json"]
    if outstanding > 1:
        command += ["--outstanding", str(outstanding)]
    if disk:
        place = db + ".sd"
        subprocess.run([args.spanlith, "sd", "format", place, "--size", "256M", "--force"], check=True,
                       capture_output=True)
        command += ["--set", f"sd_path={place}"]
    before = os.times()
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = os.times()
    row = json.loads(out)["results"][0]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    latency = row["latency_ns"]
    return {"ops_s": row["ops_per_sec"], "cpu_us": cpu * 1e6 / row["ops"], "p50_us": latency["p50"] / 1e3,
            "p99_us": latency["p99"] / 1e3, "p999_us": latency["p99_9"] / 1e3}


def floor(args, db, threads, ops):
    out = subprocess.run([args.floor, db, str(threads), str(ops), "30"], check=True, capture_output=True, text=True)
    row = json.loads(out.stdout)
    return {"ops_s": row["ops_s"], "cpu_us": row["cpu_us_op"], "p50_us": row["p50_us"], "p99_us": row["p99_us"],
            "p999_us": row["p999_us"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spanlith", required=True)
    parser.add_argument("--kvbench", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--floor", required=True, help="what build.sh made of group_floor.c")
    parser.add_argument("--work", default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ops", type=int, default=400_000)
    parser.add_argument("--json")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="durable-", dir=args.work)
    runs = {name: [] for name, *_ in ROWS}
    try:
        for run in range(args.runs):
            for name, threads, outstanding, disk, share in ROWS:
                print(f"run {run + 1} of {args.runs}: {name}", file=sys.stderr)
                db = os.path.join(work, "db")
                ops = int(args.ops * share)
                if name.startswith("rocksdb"):
                    figures = rocksdb(args, db, threads, ops)
                elif name.startswith("floor"):
                    figures = floor(args, db, threads, ops)
                    os.remove(db)
                else:
                    figures = ours(args, db, threads, outstanding, disk, ops)
                runs[name].append(figures)
                shutil.rmtree(db, ignore_errors=True)
                if disk:
                    os.remove(db + ".sd")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{'row':14}{'ops/s':>10}{'CPU us':>9}{'p50 us':>9}{'p99 us':>10}{'p99.9 us':>10}{'beside':>16}{'ratio':>8}")
    found = {}
    for name, threads, outstanding, *_ in ROWS:
        middle = {key: statistics.median(r[key] for r in runs[name]) for key in runs[name][0]}
        peer = f"rocksdb {threads}"
        ratio = statistics.median(a["ops_s"] / b["ops_s"] for a, b in zip(runs[name], runs[peer]))
        found[name] = dict(middle, beside=peer, ratio=ratio, spread=[min(r["ops_s"] for r in runs[name]),
                                                                    max(r["ops_s"] for r in runs[name])])
        print(f"{name:14}{middle['ops_s']:10.0f}{middle['cpu_us']:9.1f}{middle['p50_us']:9.0f}{middle['p99_us']:10.0f}"
              f"{middle['p999_us']:10.0f}{peer:>16}{ratio:8.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
