#!/usr/bin/env python3
"""Evidence of durability and RocksDB: each opens, reads, writes and closes what the other leaves.

  evidence.py --subject DIR --peer NAME=DIR [--peer ...] [--work DIR]

DIR holds a librocksdb.so; each engine is driven through its C functions, in a process of its own. The
subject writes a database with synced batches, empty ones and log data of its user among them, flushes
in between, so that its MANIFEST names the oldest log (tag 0x53506C04), and
ends by close or by SIGKILL. Then, on copies, each peer
  - reads the options file,
  - walks the updates (`rocksdb_get_updates_since`): the users' batches must be byte for byte those that
    the subject shows; besides them there may be batches without updates only,
  - finds all keys, writes, closes;
and the subject finds all keys after that, and writes and closes again. Exit 1 on any difference.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

P, SZ, S = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
PUTS = 400
# The tag, as a varint32, and the length of its one byte of varint64.
OLDEST_LOG = bytes.fromhex("84d8c19a0501")


class Engine:
    def __init__(self, lib):
        name = next(n for n in sorted(os.listdir(lib)) if n.startswith("librocksdb.so"))
        self.l = ctypes.CDLL(os.path.join(lib, name))

    def call(self, name, result, *args):
        f = getattr(self.l, name)
        f.restype = result
        return f(*args)

    def checked(self, name, result, *args):
        error = P()
        out = self.call(name, result, *args, ctypes.byref(error))
        if error.value:
            raise SystemExit(f"{name}: {ctypes.string_at(error.value).decode()}")
        return out

    def options(self):
        o = P(self.call("rocksdb_options_create", P))
        self.call("rocksdb_options_set_create_if_missing", None, o, ctypes.c_ubyte(1))
        self.call("rocksdb_options_set_WAL_ttl_seconds", None, o, ctypes.c_uint64(3600))
        # Tables that both releases read.
        t = P(self.call("rocksdb_block_based_options_create", P))
        self.call("rocksdb_block_based_options_set_format_version", None, t, ctypes.c_int(5))
        self.call("rocksdb_options_set_block_based_table_factory", None, o, t)
        return o

    def open(self, path):
        return P(self.checked("rocksdb_open", P, self.options(), path.encode()))

    def close(self, db):
        self.call("rocksdb_close", None, db)

    def write(self, db, first, count):
        w = P(self.call("rocksdb_writeoptions_create", P))
        for n in range(first, first + count):
            self.call("rocksdb_writeoptions_set_sync", None, w, ctypes.c_ubyte(n % 3 == 0))
            b = P(self.call("rocksdb_writebatch_create", P))
            k, v = b"key%05d" % n, b"value%05d " % n * 12
            if n % 7 == 0:
                self.call("rocksdb_writebatch_put_log_data", None, b, b"spanlith, says a user", SZ(21))
            if n % 11:
                self.call("rocksdb_writebatch_put", None, b, k, SZ(len(k)), v, SZ(len(v)))
            self.checked("rocksdb_write", None, db, w, b)

    def keys(self, db):
        ro = P(self.call("rocksdb_readoptions_create", P))
        it = P(self.call("rocksdb_create_iterator", P, db, ro))
        self.call("rocksdb_iter_seek_to_first", None, it)
        out, n = {}, SZ()
        while self.call("rocksdb_iter_valid", ctypes.c_ubyte, it):
            k = self.call("rocksdb_iter_key", P, it, ctypes.byref(n))
            key = ctypes.string_at(k, n.value)
            v = self.call("rocksdb_iter_value", P, it, ctypes.byref(n))
            out[key.decode()] = ctypes.string_at(v, n.value).decode()
            self.call("rocksdb_iter_next", None, it)
        self.call("rocksdb_iter_destroy", None, it)
        return out

    def updates(self, db):
        it = P(self.checked("rocksdb_get_updates_since", P, db, ctypes.c_uint64(0), P()))
        out, n, seq = [], SZ(), ctypes.c_uint64()
        while self.call("rocksdb_wal_iter_valid", ctypes.c_ubyte, it):
            b = P(self.call("rocksdb_wal_iter_get_batch", P, it, ctypes.byref(seq)))
            data = self.call("rocksdb_writebatch_data", P, b, ctypes.byref(n))
            out.append(ctypes.string_at(data, n.value).hex())
            self.call("rocksdb_wal_iter_next", None, it)
        self.call("rocksdb_wal_iter_destroy", None, it)
        return out

    def load_options(self, path):
        env = P(self.call("rocksdb_create_default_env", P))
        cache = P(self.call("rocksdb_cache_create_lru", P, SZ(1 << 20)))
        db, num, names, cfs = P(), SZ(), P(), P()
        # Options that a release does not know are those of later releases of RocksDB.
        self.checked("rocksdb_load_latest_options", None, path.encode(), env, ctypes.c_bool(True),
                     cache, ctypes.byref(db), ctypes.byref(num), ctypes.byref(names),
                     ctypes.byref(cfs))


def act(lib, what, path, first):
    e = Engine(lib)
    if what == "visit":
        e.load_options(path)
    db = e.open(path)
    out = {"before": e.keys(db), "old": e.updates(db)}
    e.write(db, first, PUTS // 2)
    if what != "visit":
        f = P(e.call("rocksdb_flushoptions_create", P))
        e.checked("rocksdb_flush", None, db, f)
    e.write(db, first + PUTS // 2, PUTS - PUTS // 2)
    out["keys"], out["updates"] = e.keys(db), e.updates(db)
    print(json.dumps(out))
    sys.stdout.flush()
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    e.close(db)


def run(lib, what, path, first):
    me = [sys.executable, __file__, "--act", lib, what, path, str(first)]
    p = subprocess.run(me, capture_output=True, text=True, timeout=300)
    if p.returncode not in (0, -signal.SIGKILL) or not p.stdout:
        raise SystemExit(f"{what} {lib}: {p.returncode} {p.stderr[-2000:]}")
    return json.loads(p.stdout)


def named(path):
    """Whether a MANIFEST names its oldest log."""
    manifests = [n for n in os.listdir(path) if n.startswith("MANIFEST-")]
    return any(OLDEST_LOG in open(os.path.join(path, n), "rb").read() for n in manifests)


def count(batch):
    return int.from_bytes(bytes.fromhex(batch)[8:12], "little")


def main():
    if sys.argv[1:2] == ["--act"]:
        return act(*sys.argv[2:5], int(sys.argv[5]))
    a = argparse.ArgumentParser()
    a.add_argument("--subject", required=True)
    a.add_argument("--peer", action="append", required=True)
    a.add_argument("--work")
    a = a.parse_args()
    work = tempfile.mkdtemp(dir=a.work)
    failures = 0
    for end in ("close", "kill"):
        base = os.path.join(work, end)
        written = run(a.subject, end, base, 0)
        oldest = named(base)
        for peer in a.peer:
            name, lib = peer.split("=", 1)
            path = f"{base}-{name}"
            shutil.copytree(base, path)
            seen = run(lib, "visit", path, PUTS)
            shown = [b for b in seen["old"] if count(b)]
            users = [b for b in written["updates"] if count(b)]
            extra = len(seen["old"]) - len(written["updates"])
            back = run(a.subject, "close", path, 2 * PUTS)
            oldest_back = named(path)
            again = run(lib, "visit", path, 3 * PUTS)
            checks = {
                "oldest log": oldest and oldest_back,
                "keys": seen["before"] == written["keys"],
                "batches": shown == users and len(users) > 0,
                "keys back": back["before"] == seen["keys"],
                "keys again": again["before"] == back["keys"],
            }
            bad = [k for k, ok in checks.items() if not ok]
            failures += len(bad)
            print(f"{end} {name}: {len(users)} batches of users, {extra} notes shown as batches "
                  f"without updates, {'differs: ' + ', '.join(bad) if bad else 'equal'}")
    if not failures:
        shutil.rmtree(work)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
