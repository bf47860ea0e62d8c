#!/usr/bin/env python3
"""Kills a process that acknowledges synced writes, again and again, and counts what was lost.

  kill-loop.py [--rounds N] [--seed N] [--dir DIR] SPANLITH

SPANLITH is the command-line program. Each round starts `SPANLITH crash-writer` on a real disk: eight
threads put with sync and print a line once the put has returned. After a random time the process gets
SIGKILL. Then the directory is scanned: every acknowledged entry must be there with its value, entries
beyond the acknowledged ones at most one per thread, nothing else. Every third round goes on in the
directory of the round before, so that recovery is recovered from, too. The last line is a JSON summary;
exit 1 if anything was lost or invented.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

THREADS = 8


def acknowledged(program, directory, seconds):
    child = subprocess.Popen([program, "crash-writer", "--db", directory], stdout=subprocess.PIPE)
    counts = [0] * THREADS

    def read():
        for line in child.stdout:
            if line.endswith(b"\n"):
                thread, number = map(int, line.split())
                counts[thread] = number + 1

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(seconds)
    early = child.poll()
    child.kill()
    child.wait()
    reader.join()
    if early is not None:
        sys.exit(f"kill-loop: the writer ended by itself with {early}")
    return counts


def scan(program, directory):
    out = subprocess.run([program, "db", "scan", "--db", directory, "--hex"], check=True, stdout=subprocess.PIPE).stdout
    rows = {}
    for line in out.decode().splitlines():
        key, value = line.split("\t")
        rows[bytes.fromhex(key)] = bytes.fromhex(value)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir")
    a = parser.parse_args()
    rng = random.Random(a.seed)
    work = tempfile.mkdtemp(prefix="kill-loop.", dir=a.dir)
    total = lost = invented = 0
    highest = [0] * THREADS
    for number in range(a.rounds):
        directory = os.path.join(work, "db")
        if number % 3 == 0:
            shutil.rmtree(directory, ignore_errors=True)
            highest = [0] * THREADS
            subprocess.run([a.program, "db", "load", "--create", "--db", directory], input=b"", check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts = acknowledged(a.program, directory, rng.choice([0.05, 0.2, 0.6]) + rng.random() * 0.4)
        total += sum(counts)
        # Entries of an earlier round in this directory are there as well, with the same values.
        highest = [max(h, c) for h, c in zip(highest, counts)]
        rows = scan(a.program, directory)
        for thread in range(THREADS):
            for n in range(highest[thread]):
                key = b"synced-%d-%08d" % (thread, n)
                if rows.pop(key, None) != b"acknowledged only once it is on disk: " + key:
                    lost += 1
        extra = len(rows)
        if extra > THREADS * (1 + number % 3):
            invented += extra
        for key in rows:
            thread = int(key.split(b"-")[1])
            highest[thread] = max(highest[thread], int(key.split(b"-")[2]) + 1)
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {a.rounds}, {total} acknowledged, {lost} lost", end="", file=sys.stderr)
    shutil.rmtree(work, ignore_errors=True)
    ok = lost == 0 and invented == 0 and total > 0
    print(json.dumps({"kill_loop": "ok" if ok else "fail", "rounds": a.rounds, "seed": a.seed,
                      "acknowledged": total, "lost": lost, "invented": invented}))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
