#!/usr/bin/env python3
"""One engine of scripts/interop.py: the C functions of one librocksdb.so over one open database.

  interop_engine.py LIBRARY PLANTED

Answers one JSON line per JSON line on standard input. An operation is a list: `p` put, `d` delete,
`s` single delete, `m` merge, each with key and value in hexadecimal; `b` a batch, a list of
operations, `r` a range delete in one; `@` the number of a family and an operation in it. The
operation number PLANTED of each session is skipped in silence.
"""
import ctypes
import json
import os
import sys


# A key of the model: hexadecimal, behind the number of its family unless that is the default one.


def named(family, key):
    return f"{family}@{key}" if family else key


def parted(name):
    family, at, key = name.rpartition("@")
    return (int(family), key) if at else (0, name)


class Engine:
    """The C functions of one library over one open database."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.db = None
        self.kept = []

    def has(self, name):
        return hasattr(self.lib, "rocksdb_" + name)

    def call(self, name, *args, result=None):
        function = getattr(self.lib, "rocksdb_" + name)
        function.restype = result
        return function(*args)

    def checked(self, name, *args, result=None):
        """A call with an error pointer at its end."""
        error = ctypes.c_void_p()
        value = self.call(name, *args, ctypes.byref(error), result=result)
        if error.value:
            text = ctypes.string_at(error.value).decode(errors="replace")
            self.call("free", error)
            raise RuntimeError(text)
        return value

    def pointer(self, name, *args):
        return ctypes.c_void_p(self.call(name, *args, result=ctypes.c_void_p))

    def open(self, path, settings, read_only=False):
        self.handles = []
        if "families" in settings:
            return self.open_texts(path, settings["families"])
        options = self.pointer("options_create")
        table = self.pointer("block_based_options_create")
        self.call("options_set_create_if_missing", options, ctypes.c_ubyte(1))
        self.call("options_set_write_buffer_size", options, ctypes.c_size_t(settings["write_buffer"]))
        self.call("options_set_target_file_size_base", options, ctypes.c_uint64(settings["file_size"]))
        self.call("options_set_compression", options, ctypes.c_int(settings["compression"]))
        self.call("options_set_uint64add_merge_operator", options)
        self.call("block_based_options_set_block_size", table, ctypes.c_size_t(settings["block_size"]))
        self.call("block_based_options_set_format_version", table, ctypes.c_int(settings["format"]))
        if settings["bloom"]:
            policy = self.pointer("filterpolicy_create_bloom_full", ctypes.c_double(settings["bloom"]))
            self.call("block_based_options_set_filter_policy", table, policy)
        if settings.get("checksum"):
            self.call("block_based_options_set_checksum", table, ctypes.c_char(settings["checksum"]))
        self.call("options_set_block_based_table_factory", options, table)
        names = (ctypes.c_char_p * 1)(b"default")
        each = (ctypes.c_void_p * 1)(options)
        handles = (ctypes.c_void_p * 1)()
        try:
            if read_only:
                db = self.checked("open_for_read_only_column_families", options, path.encode(), ctypes.c_int(1),
                                  names, each, handles, ctypes.c_ubyte(0), result=ctypes.c_void_p)
            else:
                db = self.checked("open_column_families", options, path.encode(), ctypes.c_int(1),
                                  names, each, handles, result=ctypes.c_void_p)
        finally:
            self.call("block_based_options_destroy", table)
            self.call("options_destroy", options)
        self.opened(db, handles)

    def options_of(self, text):
        base, options = self.pointer("options_create"), self.pointer("options_create")
        self.call("options_set_create_if_missing", base, ctypes.c_ubyte(1))
        self.call("options_set_create_missing_column_families", base, ctypes.c_ubyte(1))
        try:
            self.checked("get_options_from_string", base, text.encode(), options)
        finally:
            self.call("options_destroy", base)
        return options

    def open_texts(self, path, families):
        """Opens the families [name, options as text], the default one first."""
        number = len(families)
        names = (ctypes.c_char_p * number)(*(name.encode() for name, _ in families))
        each = [self.options_of(text) for _, text in families]
        handles = (ctypes.c_void_p * number)()
        try:
            db = self.checked("open_column_families", each[0], path.encode(), ctypes.c_int(number), names,
                              (ctypes.c_void_p * number)(*each), handles, result=ctypes.c_void_p)
        finally:
            for options in each:
                self.call("options_destroy", options)
        self.opened(db, handles)

    def opened(self, db, handles):
        self.db, self.handles = ctypes.c_void_p(db), [ctypes.c_void_p(h) for h in handles]
        self.wo, self.ro = self.pointer("writeoptions_create"), self.pointer("readoptions_create")
        # Scans cross the prefixes of a mix.
        self.call("readoptions_set_total_order_seek", self.ro, ctypes.c_ubyte(1))

    def drop(self):
        """Drops the last family."""
        handle = self.handles.pop()
        self.checked("drop_column_family", self.db, handle)
        self.call("column_family_handle_destroy", handle)

    def close(self):
        for handle in self.handles:
            self.call("column_family_handle_destroy", handle)
        self.call("writeoptions_destroy", self.wo)
        self.call("readoptions_destroy", self.ro)
        self.call("close", self.db)
        self.db = None

    def on(self, name, first, family, *args):
        """A verb and its leading arguments, over a family: the default one needs no handle."""
        return (name + "_cf", *first, self.handles[family], *args) if family else (name, *first, *args)

    def apply(self, op, family=0):
        kind, size = op[0], ctypes.c_size_t
        if kind == "@":
            return self.apply(op[2], op[1])
        if kind == "b":
            batch = self.pointer("writebatch_create")
            for inner in op[1]:
                here = family
                if inner[0] == "@":
                    here, inner = inner[1:]
                k = bytes.fromhex(inner[1])
                if inner[0] == "p":
                    v = bytes.fromhex(inner[2])
                    self.call(*self.on("writebatch_put", [batch], here, k, size(len(k)), v, size(len(v))))
                elif inner[0] == "d":
                    self.call(*self.on("writebatch_delete", [batch], here, k, size(len(k))))
                elif inner[0] == "r":
                    end = bytes.fromhex(inner[2])
                    self.call(*self.on("writebatch_delete_range", [batch], here, k, size(len(k)), end, size(len(end))))
                else:
                    raise RuntimeError("no such operation in a batch: " + inner[0])
            try:
                self.checked("write", self.db, self.wo, batch)
            finally:
                self.call("writebatch_destroy", batch)
            return
        k = bytes.fromhex(op[1])
        v = bytes.fromhex(op[2]) if len(op) > 2 else b""
        verb = {"p": "put", "d": "delete", "s": "singledelete", "m": "merge"}.get(kind)
        if verb is None:
            raise RuntimeError("no such operation: " + kind)
        value = [v, size(len(v))] if kind in "pm" else []
        self.checked(*self.on(verb, [self.db, self.wo], family, k, size(len(k)), *value))

    def flush(self):
        options = self.pointer("flushoptions_create")
        try:
            for family in range(len(self.handles)):
                self.checked(*self.on("flush", [self.db, options], family))
        finally:
            self.call("flushoptions_destroy", options)

    def compact(self):
        nothing, size = ctypes.c_char_p(None), ctypes.c_size_t(0)
        for family in range(len(self.handles)):
            self.call(*self.on("compact_range", [self.db], family, nothing, size, nothing, size))

    def scan(self, backward):
        """All entries, family by family."""
        families = range(len(self.handles))
        return [e for family in (families[::-1] if backward else families) for e in self.scan_family(backward, family)]

    def scan_family(self, backward, family):
        first, step = ("iter_seek_to_last", "iter_prev") if backward else ("iter_seek_to_first", "iter_next")
        lib = self.lib
        for name in ("iter_key", "iter_value"):
            getattr(lib, "rocksdb_" + name).restype = ctypes.c_void_p
        valid, advance = lib.rocksdb_iter_valid, getattr(lib, "rocksdb_" + step)
        valid.restype = ctypes.c_ubyte
        advance.restype = None
        entries, size = [], ctypes.c_size_t()
        it = self.pointer(*self.on("create_iterator", [self.db, self.ro], family))
        try:
            self.call(first, it)
            while valid(it):
                k = lib.rocksdb_iter_key(it, ctypes.byref(size))
                k = ctypes.string_at(k, size.value) if size.value else b""
                v = lib.rocksdb_iter_value(it, ctypes.byref(size))
                v = ctypes.string_at(v, size.value) if size.value else b""
                entries.append((named(family, k.hex()), v.hex()))
                advance(it)
            if self.has("iter_get_error"):
                self.checked("iter_get_error", it)
        finally:
            self.call("iter_destroy", it)
        return entries

    def get(self, name):
        family, key = parted(name)
        key, size = bytes.fromhex(key), ctypes.c_size_t()
        slot = self.checked(*self.on("get_pinned", [self.db, self.ro], family, key, ctypes.c_size_t(len(key))),
                            result=ctypes.c_void_p)
        if not slot:
            return None
        slot = ctypes.c_void_p(slot)
        value = self.call("pinnableslice_value", slot, ctypes.byref(size), result=ctypes.c_void_p)
        if value is None:
            out = None  # the slot exists but is empty: not found
        else:
            out = ctypes.string_at(value, size.value).hex() if size.value else ""
        self.call("pinnableslice_destroy", slot)
        return out


def worker(library, planted):
    """Answers one JSON line per JSON line on standard input. Skips the operation `planted`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the library prints must not mix with the answers
    engine, done = Engine(library), 0

    def serve(ask):
        nonlocal done
        what = ask["do"]
        if what == "missing":
            return {"missing": [n for n in ask["names"] if not engine.has(n)]}
        if what == "open":
            done = 0
            engine.open(ask["path"], ask["settings"], ask.get("read_only", False))
        elif what == "apply":
            for op in ask["ops"]:
                done += 1
                if done != planted:
                    engine.apply(op)
            return {"done": done}
        elif what == "flush":
            engine.flush()
        elif what == "compact":
            engine.compact()
        elif what == "drop":
            engine.drop()
        elif what == "close":
            engine.close()
        elif what == "scan":
            return {"entries": engine.scan(ask["backward"])}
        elif what == "get":
            return {"values": [engine.get(k) for k in ask["keys"]]}
        return {}

    for line in sys.stdin:
        try:
            answer = serve(json.loads(line))
        except Exception as error:  # told to the driver, which decides
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]))
