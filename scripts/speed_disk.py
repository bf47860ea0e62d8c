#!/usr/bin/env python3
"""Databases with a speed disk beside RocksDB: refused while their logs are there, opened when they are files again.

  scripts/speed_disk.py --spanlith BIN [--peers DIR] [--work DIR]

BIN is the program `spanlith`; DIR what scripts/get-peers.sh made ($PEERS). A database is made on a speed disk, each
release of RocksDB tries to open it, for writing, for reading and for a list of its families: each must refuse and
change nothing but its info log. The logs are brought back by `spanlith db migrate --to-files`, and RocksDB 11.8.1 must
find every key (7.8.3 does not read tables of format_version 7, which are the default). Last, the same for a copy by
`db checkpoint`, which needs no migration. Exit code 0 if all is so.
"""
import argparse, ctypes, hashlib, os, shutil, subprocess, sys, tempfile

KEYS = 200


class Rocks:
    def __init__(self, path):
        self.l = ctypes.CDLL(path)
        for name in ("rocksdb_options_create", "rocksdb_readoptions_create", "rocksdb_open",
                     "rocksdb_open_for_read_only", "rocksdb_list_column_families", "rocksdb_get"):
            getattr(self.l, name).restype = ctypes.c_void_p
        self.options = ctypes.c_void_p(self.l.rocksdb_options_create())

    def error(self, call, *args):
        e = ctypes.c_char_p()
        result = call(*args, ctypes.byref(e))
        return result, e.value.decode() if e.value else None

    def open(self, path, read_only=False):
        if read_only:
            return self.error(self.l.rocksdb_open_for_read_only, self.options, path.encode(), ctypes.c_ubyte(0))
        return self.error(self.l.rocksdb_open, self.options, path.encode())

    def families(self, path):
        n = ctypes.c_size_t()
        return self.error(self.l.rocksdb_list_column_families, self.options, path.encode(), ctypes.byref(n))

    def count(self, db):
        read = ctypes.c_void_p(self.l.rocksdb_readoptions_create())
        found = 0
        for i in range(KEYS):
            key, n = b"key%05d" % i, ctypes.c_size_t()
            value, e = self.error(self.l.rocksdb_get, ctypes.c_void_p(db), read, key, ctypes.c_size_t(len(key)),
                                  ctypes.byref(n))
            if e:
                raise SystemExit(f"get: {e}")
            found += value is not None and n.value == 5
        return found

    def close(self, db):
        self.l.rocksdb_close(ctypes.c_void_p(db))


def state(path):
    out = {}
    for name in sorted(os.listdir(path)):
        if name.startswith("LOG") or name == "LOCK":
            continue
        with open(os.path.join(path, name), "rb") as f:
            out[name] = hashlib.sha256(f.read()).hexdigest()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spanlith", required=True)
    parser.add_argument("--peers", default=os.environ.get("PEERS", "/tmp/peers"))
    parser.add_argument("--work")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="speed-", dir=args.work)
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

    try:
        disk, db = os.path.join(work, "log.sd"), os.path.join(work, "db")
        run("sd", "format", disk, "--size", "8M")
        entries = "".join(f"key{i:05d}\tvalue\n" for i in range(KEYS))
        run("db", "load", "--create", "--db", db, "--set", f"sd_path={disk}", stdin=entries)
        logs = [n for n in os.listdir(db) if n.endswith(".log")]
        check("no log is a file", not logs, " ".join(logs))
        rocks = {name: Rocks(os.path.join(args.peers, lib, "librocksdb.so"))
                 for name, lib in (("11.8.1", "lib11"), ("7.8.3", "lib78"))}
        before = state(db)
        for name, r in rocks.items():
            for how, call in (("for writing", lambda: r.open(db)), ("for reading", lambda: r.open(db, True)),
                              ("for its families", lambda: r.families(db))):
                _, e = call()
                check(f"RocksDB {name} refuses it {how}", e is not None, e or "opened")
            check(f"RocksDB {name} changed nothing", state(db) == before)
        run("db", "checkpoint", "--db", db, os.path.join(work, "copy"))
        print("       " + run("db", "migrate", "--to-files", "--db", db).strip())
        for path, what in ((db, "the database"), (os.path.join(work, "copy"), "its checkpoint")):
            for name, r in [(n, r) for n, r in rocks.items() if n == "11.8.1"]:
                each = os.path.join(work, "each")
                shutil.copytree(path, each)
                handle, e = r.open(each)
                found = r.count(handle) if handle else 0
                check(f"RocksDB {name} finds all keys of {what}", found == KEYS, e or f"{found} of {KEYS}")
                if handle:
                    r.close(handle)
                shutil.rmtree(each)
        check("the disk is nobody's again", '"owner": ""' in run("sd", "status", disk, "--json"))
    finally:
        shutil.rmtree(work)
    print("all as it should be" if not wrong else f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
