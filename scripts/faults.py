#!/usr/bin/env python3
"""One black-box scenario for each fault that a day of use found (docs/coverage.md, A1 to D25).

    scripts/faults.py LIBRARY SPANLITH PEER [--tree DIR] [--only A3,B9] [--json] [--seconds N] [--keep DIR]

LIBRARY is the librocksdb.so and SPANLITH the program that are looked at, PEER a librocksdb.so of release 11.8, which
writes the directories that have to be RocksDB's and reads what must be readable there. --tree is the clone they were
built from, for what is in the sources (default: this one). Each scenario is a process of its own; one that does not
end within --seconds (default 40) hangs, which is a fault.

Prints a line for each number, `ok` or the fault; the exit code is 1 if there was one, 2 for bad usage. The scenarios
stand in faults_library.py (what programs see through the C functions) and faults_tools.py (the command line, and
the tree). A scenario returns nothing or the text of the fault.
"""
import argparse
import difflib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

import faults_library
import faults_tools

SCENARIOS = {**faults_library.SCENARIOS, **faults_tools.SCENARIOS}
ORDER = [f"A{n}" for n in range(1, 9)] + [f"B{n}" for n in range(9, 22)] + ["C22", "D23", "D24", "D25"]


class Place:
    """What a scenario gets: the libraries, the program, and a folder of its own."""

    def __init__(self, args, folder):
        self.library, self.spanlith, self.peer, self.tree = args.library, args.spanlith, args.peer, args.tree
        self.folder = pathlib.Path(folder)

    def path(self, name):
        return str(self.folder / name)

    def run(self, *args, text=None):
        """The program's exit code, its output and its messages."""
        done = subprocess.run([self.spanlith, *args], capture_output=True, text=True, errors="replace", input=text)
        return done.returncode, done.stdout, done.stderr


def child(args):
    """Runs one scenario in this process; the last line of the output is its outcome."""
    place = Place(args, args.child_folder)
    try:
        fault = SCENARIOS[args.child][1](place)
    except Exception:
        fault = "the scenario ended with " + traceback.format_exc().strip().replace("\n", " / ")
    print("\n" + json.dumps({"fault": fault}), flush=True)
    # Handles that a fault left open are of no concern here.
    os._exit(0)


def outcome(number, args, folder):
    command = [sys.executable, __file__, args.library, args.spanlith, args.peer, "--tree", args.tree,
               "--child", number, "--child-folder", folder]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=args.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"it hangs: no end within {args.seconds} s"
    try:
        return json.loads(out.strip().splitlines()[-1])["fault"]
    except (IndexError, ValueError, KeyError):
        return f"the process ended with {process.returncode}: {err.strip()[-300:]}"


def numbers(text):
    """The numbers that --only names."""
    chosen = []
    for name in text.split(","):
        name = name.strip().upper()
        if name not in SCENARIOS:
            near = difflib.get_close_matches(name, ORDER, 1, 0.1) or [n for n in ORDER if n[1:] == name] or ORDER[:1]
            sys.exit(f"faults: there is no number '{name}'; the nearest is {near[0]}, the last {ORDER[-1]}")
        chosen.append(name)
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("library")
    parser.add_argument("spanlith")
    parser.add_argument("peer")
    parser.add_argument("--tree", default=str(pathlib.Path(__file__).resolve().parent.parent))
    parser.add_argument("--only", type=numbers, default=ORDER)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--keep")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--child-folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("library", "spanlith", "peer", "tree"):
        path = os.path.abspath(getattr(args, name))
        if not os.path.exists(path):
            parser.error(f"{path}: there is no such file")
        setattr(args, name, path)
    if args.child:
        child(args)
    count = 0
    work = args.keep or tempfile.mkdtemp(prefix="faults-")
    for number in args.only:
        folder = os.path.join(work, number)
        os.makedirs(folder, exist_ok=True)
        fault = outcome(number, args, folder)
        count += fault is not None
        if args.json:
            print(json.dumps({"number": number, "what": SCENARIOS[number][0], "fault": fault}), flush=True)
        else:
            print(f"{number:4} {SCENARIOS[number][0]}: {'ok' if fault is None else 'FAULT: ' + fault}", flush=True)
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if not args.keep:
        shutil.rmtree(work, ignore_errors=True)
    if not args.json:
        print(f"{len(args.only)} scenarios, {count} faults")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
