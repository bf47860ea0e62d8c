#!/usr/bin/env python3
"""Runs the tests of programs that link librocksdb.so, one process each, with two libraries, and compares.

  each_test.py OURS PEER PROGRAM...

  OURS, PEER      folders with librocksdb.so
  PROGRAM         test programs of Rust (`--list`) or of Go (names end in .test), linked against PEER
  --cwd DIR       where they run (default: here); CARGO_MANIFEST_DIR is that, too
  --jobs N        tests at a time (default: the number of cores)
  --timeout N     seconds a test may take (default 120)
  --json          one object per test that the libraries do not answer alike, then one with the sums

Functions that PEER exports and OURS does not are given by a library that is built and preloaded: it ends the
test that calls one, and the test counts as `absent`. So one missing function does not keep a program from
starting. The exit code is 1 if a test passes with PEER and fails with OURS for another reason.
`docs/testing.md` says how the programs of some suites are built.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

ABSENT = 77


def exported(folder):
    command = ["nm", "-D", "--defined-only", os.path.join(folder, "librocksdb.so")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" T (rocksdb_\w+)$", out, re.MULTILINE))


def stubs(names, work):
    """A library whose functions say their name and end the process."""
    source = "#include <stdio.h>\n#include <unistd.h>\n"
    source += '#define ABSENT(f) void f(void) { dprintf(2, "ABSENT %s\\n", #f); _exit(77); }\n'
    source += "".join(f"ABSENT({name})\n" for name in sorted(names))
    path = os.path.join(work, "libabsent.so")
    command = ["cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def tests_of(program, env, cwd):
    is_go = program.endswith(".test")
    words = ["-test.list", "."] if is_go else ["--list"]
    done = subprocess.run([program, *words], capture_output=True, text=True, env=env, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"each_test: {program} does not start: {done.stderr.strip()[-300:]}")
    lines = done.stdout.splitlines()
    names = [n for n in lines if n.startswith("Test")] if is_go else [n[:-6] for n in lines if n.endswith(": test")]
    for name in names:
        run = ["-test.run", f"^{name}$"] if is_go else ["--exact", name, "--test-threads", "1", "--nocapture"]
        yield name, [program, *run]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("ours")
    parser.add_argument("peer")
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--cwd", default=".")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    work = tempfile.TemporaryDirectory()
    cwd = os.path.abspath(args.cwd)
    also = os.environ.get("LD_LIBRARY_PATH", "")
    common = dict(os.environ, RUST_BACKTRACE="0", TMPDIR=work.name, CARGO_MANIFEST_DIR=cwd)
    envs = {
        side: dict(common, LD_LIBRARY_PATH=f"{os.path.abspath(folder)}:{also}")
        for side, folder in (("ours", args.ours), ("peer", args.peer))
    }
    envs["ours"]["LD_PRELOAD"] = stubs(exported(args.peer) - exported(args.ours), work.name)

    def answer(command, env):
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env,
                cwd=cwd, timeout=args.timeout,
            )
        except subprocess.TimeoutExpired as late:
            return "hangs", (late.stdout or b"").decode(errors="replace")
        absent = re.findall(r"ABSENT (rocksdb_\w+)$", done.stdout, re.MULTILINE)
        if done.returncode == 0:
            return "passes", ""
        return ("absent", absent[0]) if absent else ("fails", done.stdout)

    programs = [os.path.abspath(p) for p in args.programs]
    jobs = [(p, name, command) for p in programs for name, command in tests_of(p, envs["peer"], cwd)]
    sums = collections.Counter()
    worse = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        run = lambda job: [answer(job[2], envs[side]) for side in ("ours", "peer")]
        for n, ((program, name, _), (ours, peer)) in enumerate(zip(jobs, pool.map(run, jobs)), 1):
            print(f"\reach_test: {n} of {len(jobs)}", end="", file=sys.stderr)
            sums[f"{ours[0]}, peer {peer[0]}"] += 1
            if ours[0] == peer[0]:
                continue
            worse += peer[0] == "passes" and ours[0] in ("fails", "hangs")
            where = f"{os.path.basename(program)} {name}"
            if args.json:
                print(json.dumps(dict(test=where, ours=ours[0], peer=peer[0], output=ours[1][-2000:])))
            elif ours[0] == "absent":
                print(f"absent {ours[1]}: {where}")
            else:
                print(f"{ours[0]}, peer {peer[0]}: {where}\n{ours[1][-2000:]}")
    print(file=sys.stderr)
    if args.json:
        print(json.dumps(dict(tests=len(jobs), worse=worse, sums=sums)))
    else:
        print(f"{len(jobs)} tests: " + "; ".join(f"{count} {what}" for what, count in sorted(sums.items())))
    return worse != 0


if __name__ == "__main__":
    sys.exit(main())
