#!/usr/bin/env python3
"""Backups made by one library, restored and added to by the other, and back again.

  interop_backup.py OURS ROCKSDB [--programs N] [--first SEED] [--format N] [--keep]

Each program makes backups of a database in some form (how files are shared and named, the schema of lists, with or
without flushes and logs), deletes some, and remembers what each held. Then the other library lists, verifies and
restores all of them, goes on with the newest, and makes one more; and the first does the same with that one. Both
libraries begin in turn. Exit code 1 if contents, lists or answers differ.
"""
import argparse
import ctypes
import os
import random
import shutil
import sys
import tempfile
from ctypes import c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from txn_diff import Library as Calls

FORMS = [
    {},
    {"share_table_files": 0},
    {"share_files_with_checksum": 0},
    {"share_files_with_checksum_naming": 1},
    {"share_files_with_checksum_naming": 2},
    {"schema_version": 2},
    {"sync": 0, "schema_version": 2, "share_files_with_checksum_naming": 1},
    {"backup_log_files": 0},
]


class Library(Calls):
    def __init__(self, path, format):
        super().__init__(path)
        self.env = self.pointer("create_default_env")
        self.options = self.pointer("options_create")
        self.call("options_set_create_if_missing", self.options, 1)
        self.call("options_set_write_buffer_size", self.options, c_size_t(1 << 20))
        table = self.pointer("block_based_options_create")
        self.call("block_based_options_set_format_version", table, format)
        self.call("options_set_block_based_table_factory", self.options, table)
        self.restoring = self.pointer("restore_options_create")
        self.writing, self.reading = self.pointer("writeoptions_create"), self.pointer("readoptions_create")
        self.flushing = self.pointer("flushoptions_create")

    def has(self, name):
        return hasattr(self.lib, "rocksdb_" + name)

    def must(self, name, *args, ret=None):
        answer, error = self.tried(name, *args, ret=ret)
        if error:
            raise AssertionError(f"{name}: {error}")
        return answer

    def open(self, path):
        return c_void_p(self.must("open", self.options, path.encode(), ret=c_void_p))

    def backups(self, path, form):
        o = self.pointer("backup_engine_options_create", path.encode())
        for name, value in form.items():
            if self.has(f"backup_engine_options_set_{name}"):
                self.call(f"backup_engine_options_set_{name}", o, value)
        engine = c_void_p(self.must("backup_engine_open_opts", o, self.env, ret=c_void_p))
        self.call("backup_engine_options_destroy", o)
        return engine

    def infos(self, engine):
        info = self.pointer("backup_engine_get_backup_info", engine)
        n = self.call("backup_engine_info_count", info, ret=ctypes.c_int)
        fields = [("backup_id", c_uint32), ("timestamp", c_int64), ("size", c_uint64), ("number_files", c_uint32)]
        all = [tuple(self.call(f"backup_engine_info_{f}", info, i, ret=t) for f, t in fields) for i in range(n)]
        self.call("backup_engine_info_destroy", info)
        return all

    def contents(self, path):
        db = self.open(path)
        it = self.pointer("create_iterator", db, self.reading)
        self.call("iter_seek_to_first", it)
        found = {}
        while self.call("iter_valid", it, ret=ctypes.c_ubyte):
            n = c_size_t()
            key = ctypes.string_at(self.call("iter_key", it, ctypes.byref(n), ret=c_void_p), n.value)
            value = ctypes.string_at(self.call("iter_value", it, ctypes.byref(n), ret=c_void_p), n.value)
            found[key] = value
            self.call("iter_next", it)
        self.must("iter_get_error", it)
        self.call("iter_destroy", it)
        self.call("close", db)
        return found


class Program:
    def __init__(self, seed, libraries, root):
        self.random = random.Random(seed)
        self.libraries, self.root = libraries, root
        self.form = FORMS[seed % len(FORMS)]
        self.kept = {}
        self.held = {}
        self.crossings = 0

    def change(self, library, db):
        for _ in range(self.random.randrange(40, 120)):
            key, value = b"k%04d" % self.random.randrange(300), self.random.randbytes(self.random.randrange(200))
            if self.random.random() < 0.2:
                library.must("delete", db, library.writing, key, c_size_t(len(key)))
                self.held.pop(key, None)
            else:
                args = (key, c_size_t(len(key)), value, c_size_t(len(value)))
                library.must("put", db, library.writing, *args)
                self.held[key] = value
        step = self.random.random()
        if step < 0.4:
            library.must("flush", db, library.flushing)
        elif step < 0.5:
            library.call("compact_range", db, None, c_size_t(0), None, c_size_t(0))

    def save(self, library, db, engine, at_least):
        flush = int(self.form.get("backup_log_files", 1) == 0 or self.random.random() < 0.4)
        library.must("backup_engine_create_new_backup_flush", engine, db, flush)
        id = library.infos(engine)[-1][0]
        assert id > at_least, f"backup {id} behind {at_least}"
        self.kept[id] = dict(self.held)
        return id

    def look(self, library, engine):
        """Restores and compares every backup."""
        infos = library.infos(engine)
        assert [i[0] for i in infos] == sorted(self.kept), f"{infos}, not {sorted(self.kept)}"
        for id, *_ in infos:
            library.must("backup_engine_verify_backup", engine, c_uint32(id))
            to = os.path.join(self.root, "restored")
            args = (to.encode(), to.encode(), library.restoring, c_uint32(id))
            library.must("backup_engine_restore_db_from_backup", engine, *args)
            found = library.contents(to)
            assert found == self.kept[id], f"backup {id} is restored as something else"
            self.crossings += 1
        _, error = library.tried("backup_engine_verify_backup", engine, c_uint32(999))
        assert error == "NotFound: ", error
        args = (b"/nowhere", b"/nowhere", library.restoring, c_uint32(999))
        _, error = library.tried("backup_engine_restore_db_from_backup", engine, *args)
        assert error == "NotFound: Backup not found", error
        return infos

    def run(self):
        first, second = self.libraries
        home, where = os.path.join(self.root, "db"), os.path.join(self.root, "backups")
        db, engine = first.open(home), first.backups(where, self.form)
        for _ in range(self.random.randrange(2, 6)):
            self.change(first, db)
            self.save(first, db, engine, max(self.kept, default=0))
            if self.random.random() < 0.3:
                keep = self.random.randrange(1, 4)
                first.must("backup_engine_purge_old_backups", engine, c_uint32(keep))
                self.kept = {id: self.kept[id] for id in sorted(self.kept)[-keep:]}
        mine = self.look(first, engine)
        first.call("close", db)
        first.call("backup_engine_close", engine)
        for library in (second, first):
            engine = library.backups(where, self.form)
            theirs = self.look(library, engine)
            assert theirs == mine, f"{theirs}, not {mine}"
            newest = max(self.kept)
            args = (home.encode(), home.encode(), library.restoring)
            library.must("backup_engine_restore_db_from_latest_backup", engine, *args)
            self.held = dict(self.kept[newest])
            db = library.open(home)
            self.change(library, db)
            self.save(library, db, engine, newest)
            library.must("backup_engine_purge_old_backups", engine, c_uint32(4))
            self.kept = {id: self.kept[id] for id in sorted(self.kept)[-4:]}
            mine = self.look(library, engine)
            library.call("close", db)
            library.call("backup_engine_close", engine)
        engine = second.backups(where, self.form)
        assert self.look(second, engine) == mine
        second.call("backup_engine_close", engine)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("ours")
    parser.add_argument("peer")
    parser.add_argument("--programs", type=int, default=16)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--format", type=int, default=7, help="of tables; older releases read up to 5")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    libraries = [Library(args.ours, args.format), Library(args.peer, args.format)]
    crossings, failed = 0, 0
    for seed in range(args.first, args.first + args.programs):
        root = tempfile.mkdtemp(prefix="interop-backup-")
        order = libraries if seed // len(FORMS) % 2 == 0 else libraries[::-1]
        program = Program(seed, order, root)
        try:
            program.run()
        except AssertionError as e:
            failed += 1
            who = "ours" if order is libraries else "the peer"
            print(f"backup: program {seed} ({program.form}, {who} first): {e} [{root}]")
            continue
        finally:
            crossings += program.crossings
        if not args.keep:
            shutil.rmtree(root)
    print(f"backup: {args.programs} programs, {crossings} backups restored, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
