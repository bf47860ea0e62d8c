#!/usr/bin/env python3
"""Whether `spanlith doctor` says of RocksDB's directories what opening and reading them shows.

    scripts/doctor_states.py SPANLITH PEER [--seed N] [--short] [--keep DIR] [--only TEXT]

SPANLITH is the program, PEER a librocksdb.so of release 11.8. RocksDB writes directories in processes of its own, one
with values in tables and one with values in blob files, which are killed before the n-th sync of a flush, of a compaction
and of an open, for every n; then files of each kind are deleted, emptied, cut, flipped, grown and exchanged, one, two and
all of a kind at a time. Of each state the program is asked three things: what doctor says, whether it opens for writing,
and what a scan of a copy gives.

A state agrees if
  - doctor changes nothing, its exit code is 0 exactly where it says healthy, and a verdict is never contradicted by
    what stands above it;
  - whatever only a kill made is healthy and has all that was acknowledged;
  - healthy means that it opens and that every entry is there, but for a newest log that was cut, of which RocksDB
    records nowhere how long it had been;
  - "it does not open" means that the open is refused, every other verdict that it is not;
  - "with all its contents" and "without some of its contents" mean what they say, and "reads of the damaged parts
    fail" that a scan does;
  - the commands of a way out that mend (CURRENT, salvage) succeed, and salvage invents nothing: each value that it
    finds is one that was written for its key.

Prints each disagreement and a line of counts; the exit code is 1 if there was one. More than 300 states; --short takes a
sample of some 100.
"""
import argparse
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

KILLER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
static long armed, seen;
void arm(long n) { seen = 0; armed = n; }
long syncs(void) { return seen; }
static void count(void) {
  if (armed && __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) == armed) kill(getpid(), SIGKILL);
}
int fsync(int fd) {
  static int (*next)(int);
  if (!next) next = dlsym(RTLD_NEXT, "fsync");
  count();
  return next(fd);
}
int fdatasync(int fd) {
  static int (*next)(int);
  if (!next) next = dlsym(RTLD_NEXT, "fdatasync");
  count();
  return next(fd);
}
"""

ENTRIES = 900
PHASES = ("flush", "compaction", "open", "none")
KINDS = ("plain", "blob")


def key(n):
    return b"key%06d" % n


def value(n):
    return (b"value %06d " % n) * 4


# ------------------------------------------------------------------ the process that writes


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)

    def call(self, name, *args, result=None):
        function = getattr(self.lib, "rocksdb_" + name)
        function.restype = result
        return function(*args)

    def pointer(self, name, *args):
        return ctypes.c_void_p(self.call(name, *args, result=ctypes.c_void_p))

    def checked(self, name, *args, result=None):
        error = ctypes.c_char_p()
        out = self.call(name, *args, ctypes.byref(error), result=result)
        if error.value:
            raise RuntimeError(error.value.decode())
        return out


def write(peer, killer, directory, kind, phase, n):
    """Entries in two levels, in an unflushed memtable and in the log; killed before sync number n of the phase, or at
    the end. Prints how many syncs a phase that was not killed made."""
    arm = ctypes.CDLL(killer)
    lib = Library(peer)
    options = lib.pointer("options_create")
    lib.call("options_set_create_if_missing", options, ctypes.c_ubyte(1))
    lib.call("options_set_write_buffer_size", options, ctypes.c_size_t(1 << 20))
    lib.call("options_set_target_file_size_base", options, ctypes.c_uint64(16 << 10))
    lib.call("options_set_disable_auto_compactions", options, ctypes.c_int(1))
    lib.call("options_set_compression", options, ctypes.c_int(0))
    if kind == "blob":
        lib.call("options_set_enable_blob_files", options, ctypes.c_ubyte(1))
        lib.call("options_set_min_blob_size", options, ctypes.c_uint64(20))
    sync = lib.pointer("writeoptions_create")
    flush = lib.pointer("flushoptions_create")

    def open_it():
        db = lib.checked("open", options, directory.encode(), result=ctypes.c_void_p)
        return ctypes.c_void_p(db)

    def put(db, numbers):
        for i in numbers:
            k, v = key(i), value(i)
            lib.checked("put", db, sync, k, ctypes.c_size_t(len(k)), v, ctypes.c_size_t(len(v)))

    db = open_it()
    third = ENTRIES // 3
    put(db, range(0, third, 2))
    lib.checked("flush", db, flush)
    put(db, range(1, third, 2))
    lib.checked("flush", db, flush)
    lib.call("compact_range", db, None, ctypes.c_size_t(0), None, ctypes.c_size_t(0))
    # Over what is deeper, so that a compaction has to merge.
    put(db, [*range(third, 2 * third), *range(0, third, 5)])
    lib.checked("flush", db, flush)
    put(db, range(2 * third, ENTRIES))
    if phase == "flush":
        arm.arm(n)
        lib.checked("flush", db, flush)
    elif phase == "compaction":
        lib.checked("flush", db, flush)
        arm.arm(n)
        lib.call("compact_range", db, None, ctypes.c_size_t(0), None, ctypes.c_size_t(0))
    elif phase == "open":
        lib.call("close", db)
        arm.arm(n)
        open_it()
    print(arm.syncs(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


# ------------------------------------------------------------------ states


def kinds(directory):
    found = {}
    for path in sorted(directory.iterdir()):
        name = path.name
        kind = (
            "table" if name.endswith(".sst") else "log" if name.endswith(".log")
            else "blob" if name.endswith(".blob") else name.split("-")[0]
        )
        if kind not in ("LOG", "LOCK") and not name.startswith("LOG") and path.is_file():
            found.setdefault(kind, []).append(path)
    return found


def delete(rng, paths):
    paths[0].unlink()


def empty(rng, paths):
    paths[0].write_bytes(b"")


def cut(rng, paths):
    data = paths[0].read_bytes()
    paths[0].write_bytes(data[: rng.randrange(len(data) // 4, len(data) * 3 // 4 + 1)])


def flip(rng, paths):
    data = bytearray(paths[0].read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    paths[0].write_bytes(data)


def grow(rng, paths):
    paths[0].write_bytes(paths[0].read_bytes() + bytes(rng.randrange(256) for _ in range(100)))


def swap(rng, paths):
    if len(paths) < 2:
        return False
    a, b = paths[0].read_bytes(), paths[1].read_bytes()
    paths[0].write_bytes(b)
    paths[1].write_bytes(a)


DAMAGES = {f.__name__: f for f in (delete, empty, cut, flip, grow, swap)}


class Run:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.rng = random.Random(args.seed)
        source, self.killer = work / "killer.c", work / "killer.so"
        source.write_text(KILLER)
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.killer, source, "-ldl"], check=True)
        self.written = {key(n).decode(): value(n).decode() for n in range(ENTRIES)}
        self.states = self.bad = 0
        self.healthy = self.damaged = 0

    def make(self, directory, kind, phase, n):
        """What the writer left, and whether it was killed in its phase."""
        shutil.rmtree(directory, ignore_errors=True)
        command = [sys.executable, __file__, "--write", self.args.peer, str(self.killer), str(directory), kind, phase, str(n)]
        environment = dict(os.environ, LD_PRELOAD=str(self.killer))
        out = subprocess.run(command, env=environment, capture_output=True, text=True)
        if out.returncode != -signal.SIGKILL:
            raise RuntimeError(f"the writer ended with {out.returncode}: {out.stderr}")
        return out.stdout.strip() == ""

    def spanlith(self, *args):
        out = subprocess.run([self.args.spanlith, *map(str, args)], capture_output=True, text=True)
        return out.returncode, out.stdout, out.stderr

    def complain(self, name, what, said):
        self.bad += 1
        print(f"{name}: {what}")
        for line in said:
            print(f"    {line}")
        if self.args.keep:
            kept = Path(self.args.keep) / re.sub(r"\W+", "-", name)
            shutil.copytree(self.work / "state", kept, dirs_exist_ok=True)

    def contents(self, directory):
        """Entries of a scan, or why there is none."""
        code, out, err = self.spanlith("db", "scan", "--db", directory)
        if code != 0:
            return None, err
        return dict(line.split("\t", 1) for line in out.splitlines()), ""

    def judge(self, name, state, killed_only, cannot_tell=False):
        if self.args.only and self.args.only not in name:
            return
        self.states += 1
        before = {p.name: p.read_bytes() for p in state.iterdir() if p.is_file()}
        code, out, err = self.spanlith("doctor", "--json", "--db", state)
        after = {p.name: p.read_bytes() for p in state.iterdir() if p.is_file()}
        try:
            found = json.loads(out)
        except ValueError:
            found = None
        copy = self.work / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(state, copy)
        # As the rehearsal says that it opens.
        rehearsed = (found or {}).get("open") or {}
        defaults = ["--default-options"] if str(rehearsed.get("options")).startswith("defaults") else []
        opened, _, refusal = self.spanlith("db", "flush", *defaults, "--db", copy)
        entries, unread = self.contents(copy) if opened == 0 else (None, "")
        is_whole = entries == self.written
        shown = [f"opens: {opened == 0} {refusal.strip()[:300]}", f"whole: {is_whole} {unread.strip()[:300]}"]
        if found is None:
            # Nothing that could be judged: an open must not think otherwise.
            self.damaged += 1
            if opened == 0:
                self.complain(name, "doctor has no verdict, and it opens", [err.strip(), *shown])
            if code != 1:
                self.complain(name, f"doctor has no verdict and exit code {code}", [err.strip()])
            return
        verdict, healthy = found["verdict"], found["healthy"]
        shown = [f"says {verdict!r}", *shown]
        shown += [f"{c['damage']}: {c['file']}: {c['what']} | {c['way_out']}"[:400] for c in found["cases"]]
        self.healthy += healthy
        self.damaged += not healthy

        def check(holds, what):
            if not holds:
                self.complain(name, what, shown)

        check(before == after, "doctor changed the directory")
        check(code == (0 if healthy else 1), f"exit code {code}")
        check(verdict.startswith("healthy") == healthy, "verdict and judgement differ")
        if killed_only:
            check(healthy, "what only a kill made is not healthy")
            check(is_whole, "a kill lost what was acknowledged")
        if healthy:
            check(opened == 0, "healthy, and does not open")
            check(is_whole or cannot_tell, "healthy, and not whole")
            check(found["open"]["ok"], "healthy, and its rehearsal fails")
        else:
            refused = "does not open" in verdict
            check(refused == (opened != 0), "the verdict errs about opening")
            if "with all its contents" in verdict:
                check(is_whole, "not all contents are there")
            elif "without some of its contents" in verdict:
                check(opened == 0 and not is_whole, "all contents are there")
            elif "reads of the damaged parts fail" in verdict:
                check(entries is None, "a scan does not fail")
            check(found["cases"] or found["open"]["error"] or found["open"]["drops"], "nothing says why")
        self.follow(name, state, found, shown)

    def follow(self, name, state, found, shown):
        """Ways out that are commands of a shell work."""
        for case in found["cases"]:
            way_out = case["way_out"]
            command = re.search(r"printf 'MANIFEST-\d+\\n' > \S+", way_out)
            if command:
                copy = self.work / "mended"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(state, copy)
                line = command.group(0).replace(str(state), str(copy))
                subprocess.run(["sh", "-c", line], check=True)
                code, _, err = self.spanlith("db", "scan", "--db", copy, "--keys-only")
                if code != 0 and len(found["cases"]) == 1:
                    self.complain(name, f"a way out does not work: {line}", [*shown, err.strip()])
            command = re.search(r"mv \S+ \S+ && mv \S+ \S+ && mv \S+ \S+", way_out)
            if command:
                copy = self.work / "mended"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(state, copy)
                subprocess.run(["sh", "-c", command.group(0).replace(str(state), str(copy))], check=True)
                code, _, err = self.spanlith("doctor", "--db", copy)
                if code != 0 and len(found["cases"]) == 2:
                    self.complain(name, f"a way out does not work: {command.group(0)}", [*shown, err.strip()])
            if "dump --salvage" in way_out:
                text = self.work / "salvaged.tsv"
                code, _, err = self.spanlith("db", "dump", "--salvage", "--db", state, text)
                if not re.search(r"^[1-9][0-9,]* entries dumped", err, re.M):
                    self.complain(name, "salvage does not work", [*shown, err.strip()])
                else:
                    lines = text.read_text().splitlines()
                    entries = dict(line.split("\t", 1) for line in lines if not line.startswith("@"))
                    wrong = [k for k, v in entries.items() if self.written.get(k) != v]
                    if wrong:
                        self.complain(name, f"salvage invents {wrong[:3]}", [*shown, err.strip()])
                text.unlink(missing_ok=True)
                return

    def kills(self, of):
        state = self.work / "state"
        for phase in PHASES[:3]:
            step = 3 if self.args.short else 1
            for n in range(1, 60, step):
                if not self.make(state, of, phase, n):
                    print(f"{of}, {phase}: {n - 1} syncs", flush=True)
                    break
                self.judge(f"{of}: killed before sync {n} of {phase}", state, True)

    def damages(self, of):
        base, state = self.work / "base", self.work / "state"
        self.make(base, of, "none", 0)
        self.judge_base(base, state)
        for kind, paths in kinds(base).items():
            for damage, change in DAMAGES.items():
                times = {"flip": 6, "cut": 3, "delete": 2, "swap": 2}.get(damage, 1)
                for turn in range(1 if self.args.short else times):
                    shutil.rmtree(state, ignore_errors=True)
                    shutil.copytree(base, state)
                    mine = kinds(state)[kind]
                    self.rng.shuffle(mine)
                    if change(self.rng, mine) is False:
                        continue
                    # Nothing in RocksDB's files says how far the newest log had been written.
                    cannot_tell = kind == "log" and damage in ("cut", "empty")
                    self.judge(f"{of}: {damage} {kind} {mine[0].name} ({turn})", state, False, cannot_tell)
            # All of a kind at once.
            shutil.rmtree(state, ignore_errors=True)
            shutil.copytree(base, state)
            for path in kinds(state)[kind]:
                path.unlink()
            self.judge(f"{of}: delete every {kind}", state, False)
        # Without both that lead to the tables.
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(base, state)
        for path in [*kinds(state)["MANIFEST"], *kinds(state)["CURRENT"]]:
            path.unlink()
        self.judge(f"{of}: delete CURRENT and MANIFEST", state, False)
        # Two files at once.
        for turn in range(4 if self.args.short else 40):
            shutil.rmtree(state, ignore_errors=True)
            shutil.copytree(base, state)
            names = []
            for _ in range(2):
                kind, paths = self.rng.choice(sorted(kinds(state).items()))
                damage = self.rng.choice(sorted(DAMAGES))
                if DAMAGES[damage](self.rng, paths) is not False:
                    names.append(f"{damage} {paths[0].name}")
            cannot_tell = any(n.startswith(("cut ", "empty ")) and n.endswith(".log") for n in names)
            self.judge(f"{of}: {turn}: {' and '.join(names)}", state, False, cannot_tell)

    def judge_base(self, base, state):
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(base, state)
        self.judge(f"{base.name}: killed, nothing else", state, True)


def main():
    if sys.argv[1:2] == ["--write"]:
        peer, killer, directory, kind, phase, n = sys.argv[2:]
        return write(peer, killer, directory, kind, phase, int(n))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spanlith")
    parser.add_argument("peer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--keep", help="a directory for states that disagree")
    parser.add_argument("--only", help="states with this in their names")
    args = parser.parse_args()
    args.spanlith = str(Path(args.spanlith).resolve())
    args.peer = str(Path(args.peer).resolve())
    with tempfile.TemporaryDirectory(prefix="doctor-states-") as work:
        run = Run(args, Path(work))
        for kind in KINDS:
            run.kills(kind)
            run.damages(kind)
        counts = f"{run.states} states, {run.healthy} healthy, {run.damaged} not"
        print(f"{counts}, {run.bad} disagreements (seed {args.seed})")
        sys.exit(bool(run.bad))


if __name__ == "__main__":
    main()
