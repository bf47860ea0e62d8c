#!/usr/bin/env python3
"""Cuckoo and plain tables of one library are read, written on and compacted by the other.

  interop_flat.py OURS PEER [--programs N] [--seed N]

OURS and PEER are two librocksdb.so. A program is four sessions of writes, flushes and compactions on one directory, by
the two libraries in turn, beginning with either; after each session both read a copy: a forward scan and a get of every key
must give what was written. Each session is a process of its own. The same program is also written by each library alone without
a compaction, and the tables must be equal but for the identity of their database. The last line is "N programs, M failed".
"""
import argparse
import ctypes
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

P, S, Z, U8, U32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_ubyte, ctypes.c_uint32
# Name: [factory, prefix, options]. Those of plain tables are key length, bits, ratio, sparseness, encoding, stored index.
SHAPES = {
    "cuckoo": ["cuckoo", 0, [0.9, 100, 5, 0, 1]],
    "cuckoo, mask": ["cuckoo", 0, [0.9, 100, 5, 0, 0]],
    "cuckoo, full": ["cuckoo", 0, [0.98, 10, 1, 0, 1]],
    "cuckoo, identity": ["cuckoo", 0, [0.7, 100, 2, 1, 1]],
    "plain": ["plain", 6, [0, 10, 0.75, 16, 0, 0]],
    "plain, one length": ["plain", 6, [12, 10, 0.75, 16, 0, 0]],
    "plain, total order": ["plain", 0, [0, 10, 0.0, 16, 0, 0]],
    "plain, total order, stored": ["plain", 0, [0, 6, 0.0, 8, 0, 1]],
    "plain, prefixes": ["plain", 6, [0, 10, 0.75, 4, 1, 0]],
    "plain, prefixes, stored": ["plain", 6, [0, 12, 0.5, 3, 1, 1]],
}


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)

    def call(self, name, kind, *args, error=False):
        function = getattr(self.lib, "rocksdb_" + name)
        function.restype = kind
        function.argtypes = [k for k, _ in args] + ([ctypes.POINTER(S)] if error else [])
        values = [v for _, v in args]
        if not error:
            return function(*values)
        said = S()
        result = function(*values, ctypes.byref(said))
        if said.value:
            raise RuntimeError(f"{name}: {said.value.decode()}")
        return result

    def open(self, path, shape):
        factory, prefix, o = SHAPES[shape]
        options = self.call("options_create", P)
        self.call("options_set_create_if_missing", None, (P, options), (U8, 1))
        self.call("options_set_allow_mmap_reads", None, (P, options), (U8, 1))
        self.call("options_set_compression", None, (P, options), (ctypes.c_int, 0))
        self.call("options_set_disable_auto_compactions", None, (P, options), (ctypes.c_int, 1))
        if prefix:
            extractor = self.call("slicetransform_create_fixed_prefix", P, (Z, prefix))
            self.call("options_set_prefix_extractor", None, (P, options), (P, extractor))
        if factory == "cuckoo":
            cuckoo = self.call("cuckoo_options_create", P)
            names = ["hash_table_ratio", "max_search_depth", "cuckoo_block_size", "identity_as_first_hash", "use_module_hash"]
            for name, kind, value in zip(names, [ctypes.c_double, U32, U32, U8, U8], o):
                self.call("cuckoo_options_set_" + name, None, (P, cuckoo), (kind, value))
            self.call("options_set_cuckoo_table_factory", None, (P, options), (P, cuckoo))
        else:
            self.call("options_set_plain_table_factory", None, (P, options), (U32, o[0]), (ctypes.c_int, o[1]),
                      (ctypes.c_double, o[2]), (Z, o[3]), (Z, 0), (ctypes.c_char, bytes([o[4]])), (U8, 0), (U8, o[5]))
        return self.call("open", P, (P, options), (S, path.encode()), error=True)

    def rows(self, db, keys):
        """What a scan shows; gets must say the same."""
        read = self.call("readoptions_create", P)
        self.call("readoptions_set_total_order_seek", None, (P, read), (U8, 1))
        it, n, out = self.call("create_iterator", P, (P, db), (P, read)), Z(), {}
        self.call("iter_seek_to_first", None, (P, it))
        while self.call("iter_valid", U8, (P, it)):
            part = [ctypes.string_at(self.call("iter_" + what, P, (P, it), (ctypes.POINTER(Z), ctypes.byref(n))), n.value)
                    for what in ("key", "value")]
            out[part[0].decode()] = part[1].decode()
            self.call("iter_next", None, (P, it))
        self.call("iter_get_error", None, (P, it), error=True)
        self.call("iter_destroy", None, (P, it))
        for key in keys:
            found = self.call("get", P, (P, db), (P, read), (S, key.encode()), (Z, len(key)),
                              (ctypes.POINTER(Z), ctypes.byref(n)), error=True)
            value = ctypes.string_at(found, n.value).decode() if found else None
            if value != out.get(key):
                raise RuntimeError(f"get of {key} gives {value}, a scan {out.get(key)}")
        return out


def session(lib, path, shape, steps, keys):
    library = Library(lib)
    db = library.open(path, shape)
    write, flush = library.call("writeoptions_create", P), library.call("flushoptions_create", P)
    for step in steps:
        if step[0] == "put":
            library.call("put", None, (P, db), (P, write), (S, step[1].encode()), (Z, len(step[1])), (S, step[2].encode()),
                         (Z, len(step[2])), error=True)
        elif step[0] == "delete":
            library.call("delete", None, (P, db), (P, write), (S, step[1].encode()), (Z, len(step[1])), error=True)
        elif step[0] == "flush":
            library.call("flush", None, (P, db), (P, flush), error=True)
        else:
            library.call("compact_range", None, (P, db), (S, None), (Z, 0), (S, None), (Z, 0))
    rows = library.rows(db, keys)
    library.call("close", None, (P, db))
    return rows


def run(lib, path, shape, steps, keys):
    done = subprocess.run([sys.executable, __file__, "--session", lib, str(path), shape], capture_output=True, text=True,
                          input=json.dumps([steps, keys]), timeout=120)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def steps_of(rng, shape, model, compacts):
    fixed = SHAPES[shape][0] == "cuckoo"
    steps = []
    for _ in range(rng.randrange(1, 4)):
        for _ in range(rng.randrange(1, 400)):
            n = rng.randrange(600)
            key = f"{n // 25:06d}{n:06d}" + ("" if fixed or SHAPES[shape][2][0] else "x" * (n % 5))
            if model and rng.random() < 0.2:
                key = rng.choice(sorted(model))
                model.pop(key)
                steps.append(["delete", key])
                continue
            model[key] = f"{rng.randrange(10 ** 8):08d}" + ("" if fixed else "v" * rng.randrange(60))
            steps.append(["put", key, model[key]])
        if steps[-1][0] == "delete" and fixed:
            # A table of deletions alone has no length of values, and RocksDB's reader then has none for others.
            model[key] = "00000000"
            steps.append(["put", key, model[key]])
        steps.append(["flush"])
    if compacts and rng.random() < 0.6:
        steps.append(["compact"])
    return steps


def tables(path):
    """Tables without what names their database."""
    identity = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Z]{20}")
    return [identity.sub(b"", table.read_bytes()) for table in sorted(path.glob("*.sst"))]


def program(libs, shape, seed, work):
    rng = random.Random(f"{shape} {seed}")
    path, model = work / "db", {}
    for number in range(4):
        steps = steps_of(rng, shape, model, True)
        writer = libs[(number + seed) % 2]
        keys = sorted(model) + ["000000000000", "000001999999"]
        shutil.rmtree(work / "copy", ignore_errors=True)
        for lib, where, what in ((writer, path, steps), *((lib, None, []) for lib in libs)):
            if where is None:
                shutil.rmtree(work / "copy", ignore_errors=True)
                shutil.copytree(path, work / "copy")
                where = work / "copy"
            rows = run(lib, where, shape, what, keys)
            if rows != model:
                raise RuntimeError(f"session {number} of {writer}, read by {lib}: {len(rows)} rows, expected {len(model)}")
    steps = steps_of(rng, shape, {}, False)
    for number, lib in enumerate(libs):
        run(lib, work / f"alone{number}", shape, steps, [])
    ours, theirs = (tables(work / f"alone{number}") for number in range(2))
    if ours != theirs:
        raise RuntimeError(f"tables differ: {[len(t) for t in ours]} and {[len(t) for t in theirs]} bytes")


def main():
    if sys.argv[1:2] == ["--session"]:
        steps, keys = json.load(sys.stdin)
        json.dump(session(*sys.argv[2:5], steps, keys), sys.stdout)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libs", nargs=2)
    parser.add_argument("--programs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    failed = count = 0
    for shape in SHAPES:
        for seed in range(args.seed, args.seed + args.programs):
            count += 1
            with tempfile.TemporaryDirectory(prefix="interop-flat") as work:
                try:
                    program(args.libs, shape, seed, pathlib.Path(work))
                except (RuntimeError, subprocess.TimeoutExpired) as e:
                    failed += 1
                    print(f"FAIL {shape}, seed {seed}: {e}")
    print(f"{count} programs, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
