#!/usr/bin/env python3
"""Databases with tables on a speed disk beside RocksDB: refused while tables are there, opened when they are back.

  scripts/speed_tables.py --spanlith BIN [--peers DIR] [--work DIR]

BIN is the program `spanlith`; DIR what scripts/get-peers.sh made ($PEERS). RocksDB 11.8.1 makes a database with several
levels; `spanlith db migrate --to-speed-disk` takes its upper tables to another directory, and more are written there. Each
release of RocksDB tries to open it, for writing, for reading and for a list of its families: each must refuse and
change nothing but its info log. A checkpoint must open as it is. After `db migrate --to-files` RocksDB 11.8.1 must find
every key with its newest value, and no key that was deleted. Exit code 0 if all is so.
"""
import argparse, ctypes, os, shutil, subprocess, sys, tempfile

from speed_disk import Rocks, state

KEYS = 3000


class Writer(Rocks):
    def __init__(self, path):
        super().__init__(path)
        for name in ("rocksdb_writeoptions_create", "rocksdb_flushoptions_create"):
            getattr(self.l, name).restype = ctypes.c_void_p
        self.l.rocksdb_options_set_create_if_missing(self.options, ctypes.c_ubyte(1))
        self.write = ctypes.c_void_p(self.l.rocksdb_writeoptions_create())
        self.read = ctypes.c_void_p(self.l.rocksdb_readoptions_create())

    def must(self, call, *args):
        result, e = self.error(call, *args)
        if e:
            raise SystemExit(f"{call.__name__}: {e}")
        return result

    def put(self, db, key, value):
        self.must(self.l.rocksdb_put, ctypes.c_void_p(db), self.write, key, ctypes.c_size_t(len(key)), value,
                  ctypes.c_size_t(len(value)))

    def delete(self, db, key):
        self.must(self.l.rocksdb_delete, ctypes.c_void_p(db), self.write, key, ctypes.c_size_t(len(key)))

    def flush(self, db):
        self.must(self.l.rocksdb_flush, ctypes.c_void_p(db), ctypes.c_void_p(self.l.rocksdb_flushoptions_create()))

    def compact(self, db):
        self.l.rocksdb_compact_range(ctypes.c_void_p(db), None, ctypes.c_size_t(0), None, ctypes.c_size_t(0))

    def get(self, db, key):
        n = ctypes.c_size_t()
        value = self.must(self.l.rocksdb_get, ctypes.c_void_p(db), self.read, key, ctypes.c_size_t(len(key)),
                          ctypes.byref(n))
        return None if value is None else ctypes.string_at(value, n.value)


def expected(i):
    if i % 7 == 0:
        return None
    return b"ours%05d" % i if i % 3 == 0 else b"new%05d" % i if i % 2 == 0 else b"old%05d" % i


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spanlith", required=True)
    parser.add_argument("--peers", default=os.environ.get("PEERS", "/tmp/peers"))
    parser.add_argument("--work")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="speed-tables-", dir=args.work)
    wrong = []

    def run(*words, stdin=None):
        done = subprocess.run([args.spanlith, *words], input=stdin, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def check(what, ok, text=""):
        print(("ok     " if ok else "WRONG  ") + what + (": " + text if text else ""))
        if not ok:
            wrong.append(what)

    def tables(path):
        return len([n for n in os.listdir(path) if n.endswith(".sst")]) if os.path.isdir(path) else 0

    try:
        fast, db = os.path.join(work, "fast"), os.path.join(work, "db")
        rocks = {name: Writer(os.path.join(args.peers, lib, "librocksdb.so"))
                 for name, lib in (("11.8.1", "lib11"), ("7.8.3", "lib78"))}
        new = rocks["11.8.1"]
        handle = new.must(new.l.rocksdb_open, new.options, db.encode())
        key = lambda i: b"key%05d" % i
        for i in range(KEYS):
            new.put(handle, key(i), b"old%05d" % i)
        new.flush(handle)
        new.compact(handle)
        for i in range(0, KEYS, 2):
            new.put(handle, key(i), b"new%05d" % i)
        new.flush(handle)
        for i in range(0, KEYS, 7):
            new.delete(handle, key(i))
        new.flush(handle)
        new.close(handle)
        before = tables(db)
        print("       " + run("db", "migrate", "--to-speed-disk", fast, "--placement", "lad:1", "--db", db).strip())
        check("tables are in both directories", tables(fast) > 0 and tables(db) > 0 and tables(fast) + tables(db) == before,
              f"{tables(fast)} and {tables(db)}")
        entries = "".join(f"key{i:05d}\tours{i:05d}\n" for i in range(0, KEYS, 3) if i % 7)
        run("db", "load", "--db", db, "--set", "sd_placement=lad:1", stdin=entries)
        run("db", "flush", "--db", db, "--set", "sd_placement=lad:1")
        check("new tables go there", tables(fast) + tables(db) > before, f"{tables(fast)} and {tables(db)}")
        run("db", "verify", "--deep", "--db", db)
        run("db", "checkpoint", "--db", db, os.path.join(work, "copy"))
        there = state(db), state(fast)
        for name, r in rocks.items():
            for how, call in (("for writing", lambda: r.open(db)), ("for reading", lambda: r.open(db, True)),
                              ("for its families", lambda: r.families(db))):
                _, e = call()
                check(f"RocksDB {name} refuses it {how}", e is not None, e or "opened")
            check(f"RocksDB {name} changed nothing", (state(db), state(fast)) == there)
        print("       " + run("db", "migrate", "--to-files", "--db", db).strip().replace("\n", "\n       "))
        check("the directory is gone", not os.path.exists(fast))
        for path, what in ((db, "the database"), (os.path.join(work, "copy"), "its checkpoint")):
            each = os.path.join(work, "each")
            shutil.copytree(path, each)
            handle, e = new.open(each)
            found = sum(new.get(handle, key(i)) == expected(i) for i in range(KEYS)) if handle else 0
            check(f"RocksDB 11.8.1 reads all of {what}", found == KEYS, e or f"{found} of {KEYS}")
            if handle:
                new.compact(handle)
                found = sum(new.get(handle, key(i)) == expected(i) for i in range(KEYS))
                check(f"and after a compaction of {what}", found == KEYS, f"{found} of {KEYS}")
                new.close(handle)
            shutil.rmtree(each)
        run("db", "verify", "--deep", "--db", db)
    finally:
        shutil.rmtree(work)
    print("all as it should be" if not wrong else f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
