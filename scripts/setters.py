#!/usr/bin/env python3
"""Opens a database with every value of every setter of the C functions, in two libraries.

  scripts/setters.py OURS PEER HEADER [--only PATTERN]

HEADER is rocksdb/c.h of the peer. Each case is one object of options (of the database, of tables, reads, writes,
flushes or compactions) on which one setter was called with one value: what its getter says then, what an open, puts,
flushes, a delete, gets, a scan and a compaction answer, the OPTIONS file, and a get after the database was opened
again with default options. A case in which the peer crashes is counted and not judged; LEFT_OUT are not run. Exit
code 1 if another differs.
"""
import argparse
import collections
import ctypes as C
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

OBJECTS = ("options", "writeoptions", "readoptions", "block_based_table_options", "flushoptions", "compactoptions")
TYPES = {
    "int": C.c_int, "unsigned char": C.c_ubyte, "size_t": C.c_size_t, "uint64_t": C.c_uint64, "uint32_t": C.c_uint32,
    "int64_t": C.c_int64, "double": C.c_double,
}
BIG = 1 << 64
ENUMERATED = re.compile("compression|style|_pri|mode|type|tier|checksum|temperature|shortening|prepopulate|info_log_level")
# Not run: features that did not exist yet, values of enumerations that the peer cuts to a byte, limits of ours, and what
# would take all threads or the whole disk.
LEFT_OUT = [
    ("rocksdb_options_set_create_if_missing", "*"), ("rocksdb_options_set_compaction_style", "*"),
    ("rocksdb_options_set_*allow_ingest_behind", "*"), ("rocksdb_options_set_enable_blob_*", "*"),
    ("rocksdb_options_set_bottommost_compression", "6"), ("rocksdb_options_set_num_levels", "-*"),
    ("rocksdb_options_set_num_levels", "??*"), ("rocksdb_options_set_*temperature", "-1"),
    ("rocksdb_options_set_info_log_level", "-1"), ("rocksdb_options_set_lowest_used_cache_tier", "-1"),
    ("rocksdb_options_set_prepopulate_blob_cache", "-1"), ("rocksdb_options_set_write_buffer_size", "??????????*"),
    ("rocksdb_options_set_target_file_size_base", "1844*"), ("rocksdb_readoptions_set_deadline", "1844*"),
    *((f"rocksdb_options_*{what}", value) for what in ("threads", "parallelism", "max_background_*", "subcompactions")
      for value in ("65536", "2147*")),
]
REFUSED_ENUMERATION = re.compile("option has no such value|No mapping for enum|Cannot serialize option")


def prototypes(header):
    with open(header) as file:
        text = re.sub(r"//.*", "", file.read())
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for p in re.findall(r"extern\s+ROCKSDB_LIBRARY_API\s+([^;]+?);", text, flags=re.S):
        m = re.match(r"(.+?)\b(rocksdb_\w+)\s*\((.*)\)$", " ".join(p.split()))
        if m:
            yield m.group(2), m.group(1).strip(), [a.strip() for a in m.group(3).split(",")]


def values(setter, kind):
    if kind == "double":
        return [0, 1, 0.5, -1.5, 1e18, 0.0001]
    if kind == "unsigned char":
        return [0, 1, 2]
    if kind in ("size_t", "uint64_t", "int64_t"):
        return [0, 1, 100, 65536, 1 << 32, BIG - 1]
    if ENUMERATED.search(setter):
        return [*range(8), -1]
    return [0, 1, 2, 3, 7, 100, -1, 65536, (1 << 31) - 1]


def cases(header, only):
    for name, _, args in sorted(prototypes(header)):
        if "_set_" not in name or len(args) != 2:
            continue
        of = re.match(r"rocksdb_(\w+?)_t\s*\*", args[0].replace("const ", ""))
        kind = re.sub(r"\s*\b\w+$", "", args[1]) if args[1] not in TYPES else args[1]
        if not of or of.group(1) not in OBJECTS or kind not in TYPES:
            continue
        for value in values(name, kind):
            case = f"{name}({value})"
            if not only or fnmatch.fnmatch(case, only):
                yield case, name, of.group(1), kind, value


def is_left_out(name, value):
    return any(fnmatch.fnmatch(name, n) and fnmatch.fnmatch(str(value), v) for n, v in LEFT_OUT)


class Session:
    """One case in one library; prints what it sees."""

    def __init__(self, lib, directory):
        self.lib, self.directory = lib, directory

    def make(self, what):
        creator = {"block_based_table_options": "block_based_options"}.get(what, what)
        f = getattr(self.lib, f"rocksdb_{creator}_create")
        f.restype = C.c_void_p
        return C.c_void_p(f())

    def call(self, what, name, *args, restype=None):
        error = C.c_char_p()
        f = getattr(self.lib, "rocksdb_" + name)
        f.restype = restype
        result = f(*args, C.byref(error))
        if error.value:
            text = error.value.decode().replace(self.directory, "@DIR")
            print(what, "!" if REFUSED_ENUMERATION.search(text) else text)
            return None
        return result

    def get(self, db, read, key):
        size = C.c_size_t()
        value = self.call("get", "get", db, read, key, C.c_size_t(len(key)), C.byref(size), restype=C.c_void_p)
        print("get", key, C.string_at(value, size.value) if value else None)

    def run(self, name, of, kind, value):
        objects = {o: self.make(o) for o in OBJECTS}
        setter = getattr(self.lib, name)
        setter.restype, setter.argtypes = None, [C.c_void_p, TYPES[kind]]
        setter(objects[of], value)
        getter = getattr(self.lib, name.replace("_set_", "_get_", 1), None)
        if getter:
            getter.restype, getter.argtypes = TYPES[kind], [C.c_void_p]
            print("getter", getter(objects[of]))
        options, read, write = objects["options"], objects["readoptions"], objects["writeoptions"]
        if of == "block_based_table_options":
            self.lib.rocksdb_options_set_block_based_table_factory(options, objects[of])
        self.lib.rocksdb_options_set_create_if_missing(options, C.c_ubyte(1))
        path = self.directory.encode()
        db = self.call("open", "open", options, path, restype=C.c_void_p)
        if not db:
            return
        db = C.c_void_p(db)
        for n in range(300):
            key, text = b"k%05d" % (n * 7 % 300), b"valuevaluevalue"[:5 + n % 10]
            self.call("put", "put", db, write, key, C.c_size_t(6), text, C.c_size_t(len(text)))
            if n in (100, 200):
                self.call("flush", "flush", db, objects["flushoptions"])
        self.call("delete", "delete", db, write, b"k00005", C.c_size_t(6))
        for key in (b"k00000", b"k00003", b"k00005", b"k00299"):
            self.get(db, read, key)
        self.scan(db, read)
        self.lib.rocksdb_compact_range_opt(db, objects["compactoptions"], None, C.c_size_t(0), None, C.c_size_t(0))
        self.get(db, read, b"k00009")
        self.lib.rocksdb_close(db)
        newest = max(glob.glob(self.directory + "/OPTIONS-*"), key=lambda p: int(p.rsplit("-")[-1]))
        with open(newest) as file:
            for line in file:
                if line.startswith(("  ", "[")) and "_version=" not in line.replace("format_version", ""):
                    print(line.strip())
        db = self.call("reopen", "open", self.make("options"), path, restype=C.c_void_p)
        if db:
            self.get(C.c_void_p(db), self.make("readoptions"), b"k00009")

    def scan(self, db, read):
        self.lib.rocksdb_create_iterator.restype = C.c_void_p
        it = C.c_void_p(self.lib.rocksdb_create_iterator(db, read))
        self.lib.rocksdb_iter_valid.restype = C.c_ubyte
        self.lib.rocksdb_iter_seek(it, b"k00002", C.c_size_t(6))
        count = 0
        while self.lib.rocksdb_iter_valid(it) and count < 1000:
            count += 1
            self.lib.rocksdb_iter_next(it)
        self.call("scan", "iter_get_error", it)
        print("scan", count)
        self.lib.rocksdb_iter_destroy(it)


def child(path, header, only):
    """Runs all cases, each in a process of its own, and prints one JSON object per case."""
    lib = C.CDLL(path)
    for case, name, of, kind, value in cases(header, only):
        if is_left_out(name, value) or not hasattr(lib, name):
            continue
        directory = tempfile.mkdtemp(prefix="setters.")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(writing, 1)
            os.close(2)
            import signal
            signal.alarm(20)
            Session(lib, directory + "/db").run(name, of, kind, value)
            sys.stdout.flush()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, errors="replace") as file:
            lines = file.read().splitlines()
        status = os.waitpid(pid, 0)[1]
        shutil.rmtree(directory, ignore_errors=True)
        died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        print(json.dumps({"case": case, "died": died, "lines": lines}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", metavar="OURS PEER HEADER")
    parser.add_argument("--only", help="cases whose setter and value match, as 'rocksdb_options_set_*(0)'")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args.libraries[0], args.only)
    if len(args.libraries) != 3:
        parser.error("OURS, PEER and HEADER are wanted")
    ours, peer, header = args.libraries
    of = [os.path.join(p, "librocksdb.so") if os.path.isdir(p) else p for p in (ours, peer)]
    only = ["--only", args.only] if args.only else []
    runs = []
    for path in of:
        done = subprocess.run([sys.executable, __file__, header, "--child", path, *only], stdout=subprocess.PIPE, text=True,
                              check=True)
        runs.append({r["case"]: r for r in map(json.loads, done.stdout.splitlines())})
        print(f"{path}: {len(runs[-1])} cases", file=sys.stderr)
    counts = collections.Counter()
    for case, a in runs[0].items():
        b = runs[1].get(case)
        if b is None or b["died"]:
            counts["not judged"] += 1
        elif a["lines"] == b["lines"] and not a["died"]:
            counts["same"] += 1
        else:
            counts["different"] += 1
            print(case, "died" if a["died"] else "")
            for line in [x for x in a["lines"] if x not in b["lines"]][:5]:
                print("  ours ", line)
            for line in [x for x in b["lines"] if x not in a["lines"]][:5]:
                print("  peer ", line)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if counts["different"] or not counts["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
