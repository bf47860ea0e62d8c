#!/usr/bin/env python3
"""Random programs of transactions on two libraries: what calls answer is compared, line by line.

  txn_diff.py OURS ROCKSDB [--programs N] [--first SEED] [--steps N] [--keep]

Each program opens a database with locks or an optimistic one, holds up to four transactions at a time beside plain
writes, flushes and opens anew, and writes down what every call answers. At the end each library opens the
directory of the other: contents and prepared transactions are the same. RocksDB fails with TryAgain where its
memtables no longer tell; from there on a program is not compared, and counted.

  txn_diff.py --child LIBRARY DIRECTORY SEED STEPS     runs one program (used by the above)
  txn_diff.py --look LIBRARY DIRECTORY KIND            shows what a directory holds (used by the above)
"""
import argparse
import ctypes
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_ubyte, c_uint64, c_void_p

FAMILIES = [b"default", b"other"]
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
NO_WAIT = 0
AGAIN = "Operation failed. Try again."


class Library:
    """Calls by name, without the leading `rocksdb_`."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)

    def call(self, name, *args, ret=None):
        f = getattr(self.lib, "rocksdb_" + name)
        f.restype = ret
        return f(*args)

    def pointer(self, name, *args):
        return c_void_p(self.call(name, *args, ret=c_void_p))

    def tried(self, name, *args, ret=None):
        """The answer and the text of the error, if there is one."""
        err = c_void_p(None)
        answer = self.call(name, *args, ctypes.byref(err), ret=ret)
        if not err.value:
            return answer, None
        text = ctypes.string_at(err.value).decode(errors="replace")
        self.call("free", err)
        return answer, text

    def taken(self, pointer, size):
        if not pointer:
            return None
        data = ctypes.string_at(pointer, size)
        self.call("free", c_void_p(pointer))
        return data


def sized(data):
    return data, c_size_t(len(data))


def number(n):
    return struct.pack("<Q", n)


class Program:
    def __init__(self, library, directory, seed, steps, out):
        self.l = library
        self.dir = os.fsencode(directory)
        self.rng = random.Random(seed)
        self.locks = self.rng.random() < 0.6
        self.steps = steps
        self.out = out
        self.open_transactions = []
        self.names = 0
        self.options = self.l.pointer("options_create")
        self.l.call("options_set_create_if_missing", self.options, c_ubyte(1))
        self.l.call("options_set_create_missing_column_families", self.options, c_ubyte(1))
        self.l.call("options_set_uint64add_merge_operator", self.options)
        self.l.call("options_set_write_buffer_size", self.options, c_size_t(1 << 20))
        self.writes = self.l.pointer("writeoptions_create")
        self.reads = self.l.pointer("readoptions_create")
        self.db = None
        self.open()

    def say(self, *words):
        print(*words, file=self.out, flush=True)

    def open(self):
        n = len(FAMILIES)
        names = (c_char_p * n)(*FAMILIES)
        options = (c_void_p * n)(*[self.options.value] * n)
        handles = (c_void_p * n)()
        common = (c_char_p(self.dir), c_int(n), names, options, handles)
        if self.locks:
            own = self.l.pointer("transactiondb_options_create")
            for what in ("default_lock_timeout", "transaction_lock_timeout"):
                self.l.call("transactiondb_options_set_" + what, own, c_int64(NO_WAIT))
            db, err = self.l.tried("transactiondb_open_column_families", self.options, own, *common,
                                   ret=c_void_p)
            self.l.call("transactiondb_options_destroy", own)
        else:
            db, err = self.l.tried("optimistictransactiondb_open_column_families", self.options,
                                   *common, ret=c_void_p)
        self.say("open", err)
        self.db = c_void_p(db)
        self.cfs = [c_void_p(h) for h in handles]
        if not self.locks:
            self.base = self.l.pointer("optimistictransactiondb_get_base_db", self.db)

    def close(self):
        for t in self.open_transactions:
            self.l.call("transaction_destroy", t["handle"])
        self.open_transactions = []
        for h in self.cfs:
            self.l.call("column_family_handle_destroy", h)
        if self.locks:
            self.l.call("transactiondb_close", self.db)
        else:
            self.l.call("optimistictransactiondb_close_base_db", self.base)
            self.l.call("optimistictransactiondb_close", self.db)

    # ---- Steps

    def key(self):
        return self.rng.randrange(len(FAMILIES)), self.rng.choice(KEYS)

    def begin(self):
        snapshot = self.rng.random() < 0.3
        if self.locks:
            o = self.l.pointer("transaction_options_create")
            self.l.call("transaction_options_set_set_snapshot", o, c_ubyte(snapshot))
            self.l.call("transaction_options_set_deadlock_detect", o, c_ubyte(self.rng.random() < 0.3))
            self.l.call("transaction_options_set_lock_timeout", o, c_int64(NO_WAIT))
            if self.rng.random() < 0.1:
                self.l.call("transaction_options_set_max_write_batch_size", o, c_size_t(60))
            h = self.l.pointer("transaction_begin", self.db, self.writes, o, None)
            self.l.call("transaction_options_destroy", o)
        else:
            o = self.l.pointer("optimistictransaction_options_create")
            self.l.call("optimistictransaction_options_set_set_snapshot", o, c_ubyte(snapshot))
            h = self.l.pointer("optimistictransaction_begin", self.db, self.writes, o, None)
            self.l.call("optimistictransaction_options_destroy", o)
        self.open_transactions.append({"handle": h, "prepared": False, "named": False})
        self.say("begin", snapshot)

    def write(self, t):
        family, key = self.key()
        kind = self.rng.choice(["put", "put", "merge", "delete"])
        value = number(self.rng.randrange(100))
        if t["prepared"]:
            # What RocksDB takes there is in no log.
            return
        args = [t["handle"], self.cfs[family], *sized(key)]
        if kind != "delete":
            args += sized(value)
        _, err = self.l.tried("transaction_%s_cf" % kind, *args)
        self.say(kind, family, key, value.hex(), err)

    def get(self, t):
        family, key = self.key()
        size = c_size_t()
        for_update = self.rng.random() < 0.5
        alone = self.rng.random() < 0.5
        own = self.rng.random() < 0.3
        reads, snapshot = self.reads, None
        if t["prepared"] and for_update:
            return
        if own:
            snapshot = self.l.pointer("transaction_get_snapshot", t["handle"])
            reads = self.l.pointer("readoptions_create")
            self.l.call("readoptions_set_snapshot", reads, snapshot)
        name = "transaction_get_for_update_cf" if for_update else "transaction_get_cf"
        args = [t["handle"], reads, self.cfs[family], *sized(key), ctypes.byref(size)]
        if for_update:
            args.append(c_ubyte(alone))
        value, err = self.l.tried(name, *args, ret=c_void_p)
        value = self.l.taken(value, size.value)
        self.say("get", family, key, for_update, alone, own, value and value.hex(), err)
        if own:
            self.l.call("readoptions_destroy", reads)
            self.l.call("free", snapshot)

    def multi_get(self, t):
        n = self.rng.randrange(1, 5)
        picked = [self.key() for _ in range(n)]
        families = (c_void_p * n)(*[self.cfs[f].value for f, _ in picked])
        keys = (c_char_p * n)(*[k for _, k in picked])
        sizes = (c_size_t * n)(*[len(k) for _, k in picked])
        values, lens, errs = (c_void_p * n)(), (c_size_t * n)(), (c_void_p * n)()
        self.l.call("transaction_multi_get_cf", t["handle"], self.reads, families, c_size_t(n), keys, sizes,
                    values, lens, errs)
        for at, (f, k) in enumerate(picked):
            value = self.l.taken(values[at], lens[at])
            err = errs[at] and ctypes.string_at(errs[at])
            self.say("multi", f, k, value and value.hex(), err)

    def walk(self, t):
        family, key = self.key()
        if t is None and self.locks:
            it = self.l.pointer("transactiondb_create_iterator_cf", self.db, self.reads, self.cfs[family])
        elif t is None:
            it = self.l.pointer("create_iterator_cf", self.base, self.reads, self.cfs[family])
        else:
            it = self.l.pointer("transaction_create_iterator_cf", t["handle"], self.reads, self.cfs[family])
        how = self.rng.randrange(4)
        if how < 2:
            self.l.call(["iter_seek_to_first", "iter_seek_to_last"][how], it)
        else:
            self.l.call(["iter_seek", "iter_seek_for_prev"][how - 2], it, *sized(key))
        step = ["iter_next", "iter_prev"][how % 2]
        while self.l.call("iter_valid", it, ret=c_ubyte):
            size = c_size_t()
            k = ctypes.string_at(self.l.call("iter_key", it, ctypes.byref(size), ret=c_void_p), size.value)
            v = ctypes.string_at(self.l.call("iter_value", it, ctypes.byref(size), ret=c_void_p), size.value)
            self.say("  ", family, how, k, v.hex())
            self.l.call(step, it)
            if self.rng.random() < 0.1 and self.l.call("iter_valid", it, ret=c_ubyte):
                step = "iter_prev" if step == "iter_next" else "iter_next"
                # Not for ever.
                if self.rng.random() < 0.3:
                    break
        _, err = self.l.tried("iter_get_error", it)
        self.say("walk", family, how, err)
        self.l.call("iter_destroy", it)

    def save_point(self, t):
        if t["prepared"]:
            return
        if self.rng.random() < 0.5:
            self.l.call("transaction_set_savepoint", t["handle"])
            self.say("savepoint")
        else:
            _, err = self.l.tried("transaction_rollback_to_savepoint", t["handle"])
            self.say("rollback to savepoint", err)

    def batch(self, t):
        view = self.l.pointer("transaction_get_writebatch_wi", t["handle"])
        self.say("count", self.l.call("writebatch_wi_count", view, ret=c_int))
        family, key = self.key()
        size = c_size_t()
        value, err = self.l.tried("writebatch_wi_get_from_batch_cf", view, self.options, self.cfs[family],
                                  *sized(key), ctypes.byref(size), ret=c_void_p)
        value = self.l.taken(value, size.value)
        self.say("in batch", family, key, value and value.hex(), err)
        self.l.call("free", view)

    def rebuild(self, t):
        if t["prepared"]:
            return
        batch = self.l.pointer("writebatch_create")
        for _ in range(self.rng.randrange(1, 4)):
            family, key = self.key()
            value = number(self.rng.randrange(100))
            if self.rng.random() < 0.7:
                self.l.call("writebatch_put_cf", batch, self.cfs[family], *sized(key), *sized(value))
            else:
                self.l.call("writebatch_delete_cf", batch, self.cfs[family], *sized(key))
        if self.locks and self.rng.random() < 0.5:
            _, err = self.l.tried("transactiondb_write", self.db, self.writes, batch)
            self.say("locked write", err)
        else:
            _, err = self.l.tried("transaction_rebuild_from_writebatch", t["handle"], batch)
            self.say("rebuild", err)
        self.l.call("writebatch_destroy", batch)

    def name(self, t):
        name = b"n%d" % self.rng.randrange(6)
        _, err = self.l.tried("transaction_set_name", t["handle"], *sized(name))
        t["named"] = t["named"] or err is None
        self.say("name", name, err)

    def prepare(self, t):
        if not t["named"] and self.rng.random() < 0.8:
            self.name(t)
        _, err = self.l.tried("transaction_prepare", t["handle"])
        t["prepared"] = t["prepared"] or err is None
        self.say("prepare", err)

    def end(self, t):
        how = self.rng.choice(["commit", "commit", "commit", "rollback"])
        if how == "rollback" and not t["prepared"] and self.rng.random() < 0.5:
            how = "destroy"
        err = None
        if how != "destroy":
            _, err = self.l.tried("transaction_" + how, t["handle"])
        self.say(how, err)
        self.open_transactions.remove(t)
        if err and t["prepared"]:
            # Whatever is wrong, nobody decided.
            self.say("undecided")
        if err is None and self.rng.random() < 0.2:
            _, again = self.l.tried("transaction_" + self.rng.choice(["commit", "rollback"]), t["handle"])
            self.say("again", again)
        self.l.call("transaction_destroy", t["handle"])

    def plain(self):
        family, key = self.key()
        value = number(self.rng.randrange(100))
        kind = self.rng.choice(["put", "merge", "delete"])
        where = ("transactiondb_", self.db) if self.locks else ("", self.base)
        args = [where[1], self.writes, self.cfs[family], *sized(key)]
        if kind != "delete":
            args += sized(value)
        _, err = self.l.tried(where[0] + kind + "_cf", *args)
        self.say("plain", kind, family, key, value.hex(), err)

    def flush(self):
        family = self.rng.randrange(len(FAMILIES))
        options = self.l.pointer("flushoptions_create")
        self.l.call("flushoptions_set_wait", options, c_ubyte(1))
        name, db = ("transactiondb_flush_cf", self.db) if self.locks else ("flush_cf", self.base)
        _, err = self.l.tried(name, db, options, self.cfs[family])
        self.say("flush", family, err)
        self.l.call("flushoptions_destroy", options)

    def properties(self):
        for name in (b"rocksdb.num-snapshots", b"rocksdb.estimate-num-keys"):
            if self.locks:
                text = self.l.call("transactiondb_property_value", self.db, name, ret=c_void_p)
            else:
                text = self.l.call("property_value", self.base, name, ret=c_void_p)
            # Estimates may differ: only that there is one.
            shown = ctypes.string_at(text) if text else None
            if b"estimate" in name:
                shown = shown is not None
            self.say("property", name, shown)
            self.l.call("free", c_void_p(text))

    def decide(self):
        """About all that is prepared, as after an open."""
        count = c_size_t()
        listed = self.l.call("transactiondb_get_prepared_transactions", self.db, ctypes.byref(count), ret=c_void_p)
        handles = []
        if listed:
            array = ctypes.cast(listed, ctypes.POINTER(c_void_p))
            handles = [c_void_p(array[at]) for at in range(count.value)]
            self.l.call("free", c_void_p(listed))
        found = []
        for h in handles:
            size = c_size_t()
            name = self.l.taken(self.l.call("transaction_get_name", h, ctypes.byref(size), ret=c_void_p), size.value)
            found.append((name, h))
        for name, h in sorted(found, key=lambda f: f[0]):
            how = self.rng.choice(["commit", "rollback"])
            _, err = self.l.tried("transaction_" + how, h)
            self.say("prepared", name, how, err)
            self.l.call("transaction_destroy", h)
        self.say("decided", len(found))

    def reopen(self):
        self.close()
        self.say("closed")
        self.open()
        if self.locks:
            self.decide()

    def step(self):
        choice = self.rng.randrange(100)
        t = self.rng.choice(self.open_transactions) if self.open_transactions else None
        if choice < 12:
            if len(self.open_transactions) < 4:
                self.begin()
        elif choice < 20:
            self.plain()
        elif choice < 23:
            self.flush()
        elif choice < 24:
            self.properties()
        elif choice < 26:
            self.walk(None)
        elif choice < 27:
            if self.rng.random() < 0.4:
                self.reopen()
        elif t is None:
            pass
        elif choice < 55:
            self.write(t)
        elif choice < 70:
            self.get(t)
        elif choice < 74:
            self.multi_get(t)
        elif choice < 80:
            self.walk(t)
        elif choice < 85:
            self.save_point(t)
        elif choice < 88:
            self.batch(t)
        elif choice < 90:
            self.rebuild(t)
        elif choice < 92:
            self.name(t)
        elif choice < 95:
            self.prepare(t)
        else:
            self.end(t)

    def run(self):
        for _ in range(self.steps):
            self.step()
        for _ in FAMILIES:
            self.walk(None)
        # What is prepared is left to who opens the directory next.
        self.close()
        self.say("end")


def look(library, directory, with_locks):
    """What another library finds in a directory."""
    p = Program.__new__(Program)
    p.l, p.dir, p.rng, p.locks, p.out = library, os.fsencode(directory), random.Random(1), with_locks, sys.stdout
    p.open_transactions = []
    p.options = library.pointer("options_create")
    library.call("options_set_uint64add_merge_operator", p.options)
    p.writes, p.reads = library.pointer("writeoptions_create"), library.pointer("readoptions_create")
    p.open()
    if with_locks:
        p.decide()
    for family in range(len(FAMILIES)):
        p.key = lambda family=family: (family, b"a")
        p.rng = random.Random(0)
        p.rng.randrange = lambda *_: 0
        p.rng.random = lambda: 1.0
        p.walk(None)
    p.close()


def child(words):
    mode, library, directory = words[0], Library(words[1]), words[2]
    if mode == "--child":
        Program(library, directory, int(words[3]), int(words[4]), sys.stdout).run()
    else:
        look(library, directory, words[3] == "locks")


def output(*words):
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    if done.returncode:
        lines.append("exit %d %s" % (done.returncode, done.stderr[-2000:]))
    return lines


def main():
    if len(sys.argv) > 1 and sys.argv[1] in ("--child", "--look"):
        return child(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("rocksdb")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--keep", action="store_true", help="keep directories of programs that differ")
    args = parser.parse_args()
    failed = again = lines = 0
    for seed in range(args.first, args.first + args.programs):
        where = tempfile.mkdtemp(prefix="spanlith-txn-")
        dirs = [os.path.join(where, n) for n in ("ours", "theirs")]
        libs = [args.ours, args.rocksdb]
        outs = [output("--child", lib, d, seed, args.steps) for lib, d in zip(libs, dirs)]
        lines += len(outs[0])
        at = next((n for n, (a, b) in enumerate(zip(*outs)) if a != b), None)
        if at is None and len(outs[0]) != len(outs[1]):
            at = min(map(len, outs))
        if at is not None and AGAIN in (outs[1] + [""])[at]:
            again += 1
        elif at is not None:
            failed += 1
            print("seed %d, line %d:" % (seed, at))
            for n in range(max(0, at - 12), at):
                print("      ", outs[0][n])
            print("  ours ", *outs[0][at:at + 1])
            print("  peer ", *outs[1][at:at + 1], flush=True)
        else:
            kind = "locks" if random.Random(seed).random() < 0.6 else "checked"
            # Each other's directories; the first look decides about what is prepared, in one way.
            looks = [output("--look", lib, d, kind) for lib, d in zip(reversed(libs), dirs)]
            if looks[0] != looks[1]:
                failed += 1
                print("seed %d, each in the other's directory:" % seed)
                print("\n".join("  ours' by peer: %s\n  peer's by ours: %s" % p for p in zip(*looks) if p[0] != p[1]))
        if not (args.keep and at is not None):
            shutil.rmtree(where, ignore_errors=True)
        if sys.stderr.isatty():
            print("\r%d of %d" % (seed - args.first + 1, args.programs), end="", file=sys.stderr, flush=True)
    print("%d programs, %d lines, %d differ; %d ended where RocksDB asks to try again" %
          (args.programs, lines, failed, again))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
