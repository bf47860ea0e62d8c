#!/usr/bin/env python3
"""Random programs over the C API, run with two libraries; everything they show is compared.

  scripts/adversary.py OURS REFERENCE HEADER [FIRST [LAST]]

OURS and REFERENCE are directories with a librocksdb.so, HEADER is RocksDB's c.h. Seeds FIRST to LAST (1 to 20)
are run in two processes each, one per library; the first lines that differ are printed, and the exit status
is 1 if there are any. Knows nothing of `spanlith-stress diff`, and covers what that does not: comparators,
merge operators, filters and prefixes written by the client, iterators that outlive snapshots, limits of skipped
keys, batches in several forms, entries of files.
"""
import ctypes as C
import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile

PTR, SIZE, BYTE, TEXT = C.c_void_p, C.c_size_t, C.c_ubyte, C.c_char_p
SCALARS = {
    "void": None, "int": C.c_int, "size_t": SIZE, "uint64_t": C.c_uint64, "uint32_t": C.c_uint32,
    "int64_t": C.c_int64, "int32_t": C.c_int32, "uint8_t": C.c_uint8, "unsigned char": BYTE,
    "unsigned int": C.c_uint,
    "char": C.c_char, "double": C.c_double, "bool": C.c_bool, "_Bool": C.c_bool,
}


class Slice(C.Structure):
    _fields_ = [("data", PTR), ("size", SIZE)]


class Library:
    """The functions of a header, without their prefix."""

    def __init__(self, directory, header):
        self.lib = C.CDLL(directory + "/librocksdb.so")
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", open(header).read(), flags=re.S)
        found = re.findall(r"extern\s+ROCKSDB_LIBRARY_API\s+([^;]*?)\brocksdb_(\w+)\s*\(([^;]*)\)\s*;", text)
        self.signatures = {name: (result, arguments) for result, name, arguments in found}

    @staticmethod
    def type_of(text):
        text = text.replace("const", " ").strip()
        if any(c in text for c in "*[(") or "_cb" in text:
            return PTR
        words = re.sub(r"\s+", " ", text)
        for candidate in (words, words.rsplit(" ", 1)[0]):
            if candidate in SCALARS:
                return SCALARS[candidate]
            if candidate == "rocksdb_slice_t":
                return Slice
        raise ValueError(text)

    def __getattr__(self, name):
        result, arguments = self.signatures[name]
        parts, depth = [""], 0
        for c in arguments:
            depth += (c == "(") - (c == ")")
            if c == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += c
        parts = [p for p in map(str.strip, parts) if p not in ("", "void")]
        function = getattr(self.lib, "rocksdb_" + name)
        function.restype = self.type_of(result)
        function.argtypes = [self.type_of(p) for p in parts]
        setattr(self, name, function)
        return function


libc = C.CDLL(None)
libc.free.argtypes = [PTR]
libc.malloc.argtypes, libc.malloc.restype = [SIZE], PTR


def on_heap(data):
    block = libc.malloc(max(1, len(data)))
    C.memmove(block, data, len(data))
    return block


def taken(block, length=None):
    """Bytes that the library gave away; None for NULL."""
    if not block:
        return None
    data = C.string_at(block) if length is None else C.string_at(block, length)
    libc.free(block)
    return data


def lent(block, length):
    return C.string_at(block, length) if length else b""


def pointers(items):
    return (PTR * max(1, len(items)))(*items)


def texts(items):
    return (TEXT * max(1, len(items)))(*items)


def lengths(items):
    return (SIZE * max(1, len(items)))(*[len(i) for i in items])


def shown(data):
    if data is None or len(data) <= 60:
        return repr(data)
    return f"{data[:12]!r}..{len(data)}#{hashlib.md5(data).hexdigest()[:8]}"


class Program:
    """A program drawn from a seed; what it shows goes to standard output."""

    def __init__(self, library, seed, directory):
        self.lib, self.rng, self.directory = library, random.Random(seed), directory
        self.kept, self.keys, self.stamp, self.filtered = [], [], 0, []
        r = self.rng
        # Nothing happens in the background: counts are compared.
        self.exact = r.random() < 0.75
        self.order = r.choice(["bytes"] * 4 + ["reverse", "length"])
        # What an operator that shows its steps yields depends on what was compacted.
        self.merge = r.choice(["none", "largest"] + ["none", "join", "join", "partial", "fails"] * self.exact)
        self.prefix = r.choice(["none", "none", "none", "fixed", "slash"])
        self.filter = r.choice(["none", "none", "one", "factory"]) if self.exact else "none"
        self.levels = r.choice([7, 7, 3, 2])
        self.block_size, self.format = r.choice([64, 400, 4096]), r.choice([2, 4, 5, 6, 7])
        self.bloom, self.index, self.dynamic = r.random() < 0.5, r.choice([0, 0, 2]), r.random() < 0.5
        self.comparator, self.merging = self.make_comparator(), self.make_merge()
        self.judged = ["compaction-pending"]
        self.db, self.families, self.dropped, self.snapshots, self.iterators = None, {}, [], {}, {}
        self.writing, self.reading = library.writeoptions_create(), library.readoptions_create()

    def show(self, *words):
        line = " ".join(w if isinstance(w, str) else repr(w) for w in words)
        print(line.replace(self.directory, "DIR"), flush=True)

    def call(self, name, *arguments):
        error = PTR(None)
        result = getattr(self.lib, name)(*arguments, C.byref(error))
        text = taken(error.value)
        return result, "ok" if text is None else text.decode("latin1").replace(self.directory, "DIR")

    # What the client implements.

    def callback(self, result, *arguments):
        def keep(function):
            self.kept.append(C.CFUNCTYPE(result, *arguments)(function))
            return self.kept[-1]
        return keep

    def named(self, name):
        name = TEXT(name)
        self.kept.append(name)
        return self.callback(PTR, PTR)(lambda _: C.cast(name, PTR).value)

    def nothing(self):
        return self.callback(None, PTR)(lambda _: None)

    def rank(self, key):
        return (len(key), key) if self.order == "length" else key

    def before(self, a, b):
        return self.rank(b) < self.rank(a) if self.order == "reverse" else self.rank(a) < self.rank(b)

    def make_comparator(self):
        if self.order == "bytes":
            return None

        def compare(_, a, a_len, b, b_len):
            a, b = lent(a, a_len), lent(b, b_len)
            return self.before(b, a) - self.before(a, b)
        compare = self.callback(C.c_int, PTR, PTR, SIZE, PTR, SIZE)(compare)
        return self.lib.comparator_create(None, self.nothing(), compare, self.named(b"adversary.order"))

    def make_merge(self):
        if self.merge == "none":
            return None

        def operands(items, sizes, count):
            items, sizes = C.cast(items, C.POINTER(PTR)), C.cast(sizes, C.POINTER(SIZE))
            return [lent(items[n], sizes[n]) for n in range(count)]

        def give(data, ok, length):
            ok[0], length[0] = data is not None, len(data or b"")
            return None if data is None else on_heap(data)

        def full(_, _key, _key_len, old, old_len, items, sizes, count, ok, length):
            all_of = operands(items, sizes, count)
            base = lent(old, old_len) if old else None
            if self.merge == "fails" and any(o.startswith(b"F") for o in all_of):
                return give(None, ok, length)
            if self.merge == "largest":
                return give(max(all_of + ([] if base is None else [base])), ok, length)
            return give((b"" if base is None else b"<" + base + b">") + b"|".join(all_of), ok, length)

        def partial(_, _key, _key_len, items, sizes, count, ok, length):
            all_of = operands(items, sizes, count)
            if self.merge == "largest":
                return give(max(all_of), ok, length)
            if self.merge == "partial" and all(len(o) < 40 for o in all_of):
                return give(b"|".join(all_of), ok, length)
            return give(None, ok, length)

        ok, length = C.POINTER(BYTE), C.POINTER(SIZE)
        full = self.callback(PTR, PTR, PTR, SIZE, PTR, SIZE, PTR, PTR, C.c_int, ok, length)(full)
        partial = self.callback(PTR, PTR, PTR, SIZE, PTR, PTR, C.c_int, ok, length)(partial)
        free = self.callback(None, PTR, PTR, SIZE)(lambda _, block, _len: libc.free(block))
        return self.nothing(), full, partial, free, self.named(b"adversary.merge")

    def make_prefix(self):
        if self.prefix == "none":
            return None
        if self.prefix == "fixed":
            return self.lib.slicetransform_create_fixed_prefix(3)

        def transform(_, key, key_len, length):
            length[0] = lent(key, key_len).find(b"/") + 1
            return key
        transform = self.callback(PTR, PTR, PTR, SIZE, C.POINTER(SIZE))(transform)
        domain = self.callback(BYTE, PTR, PTR, SIZE)(lambda _, key, length: b"/" in lent(key, length))
        return self.lib.slicetransform_create(None, self.nothing(), transform, domain, self.named(b"adversary.slash"))

    def set_filter(self, options):
        if self.filter == "none":
            return
        changed = TEXT(b"CHANGED")
        self.kept.append(changed)

        def decide(_, level, key, key_len, value, value_len, new, new_len, is_changed):
            value = lent(value, value_len)
            self.filtered.append((level, lent(key, key_len), value_len))
            if value.startswith(b"v2"):
                is_changed[0], new[0], new_len[0] = 1, C.cast(changed, PTR).value, 7
            return value.startswith(b"v1")
        decide = self.callback(BYTE, PTR, C.c_int, PTR, SIZE, PTR, SIZE, C.POINTER(PTR), C.POINTER(SIZE),
                               C.POINTER(BYTE))(decide)
        name, nothing = self.named(b"adversary.filter"), self.nothing()

        def make(*_):
            return self.lib.compactionfilter_create(None, nothing, decide, name)
        if self.filter == "one":
            self.lib.options_set_compaction_filter(options, make())
        else:
            factory = self.lib.compactionfilterfactory_create(None, nothing, self.callback(PTR, PTR, PTR)(make), name)
            self.lib.options_set_compaction_filter_factory(options, factory)

    def options(self):
        lib, r, o = self.lib, self.rng, self.lib.options_create()
        # Each family, and each open, has its own.
        max_skip = r.choice([8, 8, 8, 0, 1, 2, 3])
        for name, value in [
            ("create_if_missing", 1), ("num_levels", self.levels), ("compression", 0), ("allow_fallocate", 0),
            ("level_compaction_dynamic_level_bytes", self.dynamic), ("stats_dump_period_sec", 0),
            ("stats_persist_period_sec", 0), ("max_sequential_skip_in_iterations", max_skip),
            ("memtable_prefix_bloom_size_ratio", r.choice([0.0, 0.0, 0.1])),
            ("memtable_whole_key_filtering", r.random() < 0.3),
            ("optimize_filters_for_hits", r.random() < 0.2), ("max_successive_merges", 0 if self.merge == "fails" else r.choice([0, 0, 0, 2])),
        ]:
            getattr(lib, "options_set_" + name)(o, value)
        if self.exact:
            lib.options_set_disable_auto_compactions(o, 1)
        else:
            lib.options_set_write_buffer_size(o, 65536)
            lib.options_set_target_file_size_base(o, 20000)
            lib.options_set_max_bytes_for_level_base(o, 60000)
        if self.comparator:
            lib.options_set_comparator(o, self.comparator)
        if self.merging:
            lib.options_set_merge_operator(o, lib.mergeoperator_create(None, *self.merging))
        if self.prefix != "none":
            lib.options_set_prefix_extractor(o, self.make_prefix())
        self.set_filter(o)
        table = lib.block_based_options_create()
        lib.block_based_options_set_block_size(table, self.block_size)
        lib.block_based_options_set_format_version(table, self.format)
        lib.block_based_options_set_index_type(table, self.index)
        lib.block_based_options_set_data_block_index_type(table, r.choice([0, 0, 1]))
        lib.block_based_options_set_whole_key_filtering(table, r.random() < 0.8)
        lib.block_based_options_set_block_restart_interval(table, r.choice([16, 16, 1, 3]))
        lib.block_based_options_set_index_block_restart_interval(table, r.choice([1, 1, 4]))
        lib.block_based_options_set_checksum(table, bytes([r.choice([1, 4])]))
        lib.block_based_options_set_partition_filters(table, self.index == 2 and r.random() < 0.5)
        if self.bloom:
            lib.block_based_options_set_filter_policy(table, lib.filterpolicy_create_bloom_full(10.0))
        lib.options_set_block_based_table_factory(o, table)
        return o

    # What is drawn.

    def key(self):
        r = self.rng
        if self.keys and r.random() < 0.6:
            return r.choice(self.keys)
        kind = r.random()
        if self.prefix == "slash":
            key = bytes([r.choice(b"ab"), r.choice(b"xy")]) + b"/" * (r.random() < 0.8) + b"%d" % r.randrange(30)
        elif self.prefix == "fixed":
            key = b"p%02d" % r.randrange(4) + bytes(r.choice(b"abAB\x00\xff") for _ in range(r.randrange(4)))
        elif kind < 0.5:
            key = b"k%04d" % r.randrange(60)
        elif kind < 0.9:
            key = bytes(r.choice(b"aAbB\x00\xff") for _ in range(r.randrange(5)))
        elif kind < 0.93:
            key = b"L" * r.choice([100, 1000, 65536])
        else:
            key = bytes(r.randrange(256) for _ in range(r.randrange(20)))
        self.keys.append(key)
        return key

    def value(self):
        self.stamp += 1
        one = b"v%d-%d" % (self.rng.randrange(9), self.stamp)
        return self.rng.choice([one] * 16 + [b"", one * self.rng.randrange(1, 200), one * 20000])

    def operand(self):
        self.stamp += 1
        fails = self.merge == "fails" and self.rng.random() < 0.15
        return (b"F%d" if fails else b"o%d") % self.stamp

    def family(self):
        name = self.rng.choice(list(self.families))
        return name, self.families[name]

    def read_options(self, iterates=False):
        r, lib, said, held = self.rng, self.lib, [], []
        o = lib.readoptions_create()
        if self.snapshots and r.random() < 0.3:
            which = r.choice(list(self.snapshots))
            lib.readoptions_set_snapshot(o, self.snapshots[which])
            said.append(f"snapshot{which}")
        if not iterates:
            return o, said, held
        for side in ("upper", "lower"):
            if r.random() < 0.35:
                key = self.key()
                held.append(C.create_string_buffer(key, len(key) + 1))
                getattr(lib, f"readoptions_set_iterate_{side}_bound")(o, held[-1], len(key))
                said.append(f"{side}={shown(key)}")
        for name, value in [("fill_cache", 0), ("pin_data", 1), ("readahead_size", 8192), ("async_io", 1)]:
            if r.random() < 0.1:
                getattr(lib, "readoptions_set_" + name)(o, value)
                said.append(name)
        if self.prefix != "none":
            # In another order keys of one prefix do not stand together, and RocksDB leaves some out.
            automatic = "auto_prefix_mode" if self.order == "bytes" else "total_order_seek"
            how = r.choice(["total_order_seek", "total_order_seek", automatic])
            getattr(lib, "readoptions_set_" + how)(o, 1)
            said.append(how)
            # A prefix of what has none means nothing.
            if (self.prefix, self.order) == ("fixed", "bytes") and r.random() < 0.15:
                lib.readoptions_set_prefix_same_as_start(o, 1)
                said.append("same prefix")
        if self.exact and r.random() < 0.05:
            lib.readoptions_set_ignore_range_deletions(o, 1)
            said.append("ignores ranges")
        if self.exact and r.random() < 0.1:
            most = r.choice([1, 2, 3, 5, 9])
            lib.readoptions_set_max_skippable_internal_keys(o, most)
            said.append(f"skips{most}")
        return o, said, held

    # What is done.

    def open(self, read_only=False):
        lib, count, names, options = self.lib, SIZE(0), [b"default"], self.options()
        if os.path.exists(self.directory + "/CURRENT"):
            listed, said = self.call("list_column_families", options, self.directory.encode(), C.byref(count))
            names = [C.string_at(C.cast(listed, C.POINTER(PTR))[n]) for n in range(count.value)]
            self.show("list", said, names)
        handles = pointers([None] * len(names))
        each = pointers([options] + [self.options() for _ in names[1:]])
        arguments = (options, self.directory.encode(), len(names), texts(names), each, handles)
        if read_only:
            self.db, said = self.call("open_for_read_only_column_families", *arguments, 0)
        else:
            self.db, said = self.call("open_column_families", *arguments)
        self.show("open", read_only, said)
        self.families = dict(zip(names, handles))
        self.show([(n, lib.column_family_handle_get_id(h)) for n, h in self.families.items()])

    def close(self):
        for which in list(self.iterators):
            self.lib.iter_destroy(self.iterators.pop(which)[0])
        for which in list(self.snapshots):
            self.lib.release_snapshot(self.db, self.snapshots.pop(which))
        for handle in list(self.families.values()) + self.dropped:
            self.lib.column_family_handle_destroy(handle)
        self.dropped = []
        self.lib.close(self.db)
        self.show("closed")

    def put(self):
        (name, h), key, value = self.family(), self.key(), self.value()
        _, said = self.call("put_cf", self.db, self.writing, h, key, len(key), value, len(value))
        self.show("put", name, shown(key), shown(value), said)

    def delete(self):
        (name, h), key = self.family(), self.key()
        self.show("delete", name, shown(key), self.call("delete_cf", self.db, self.writing, h, key, len(key))[1])

    def do_merge(self):
        (name, h), key, value = self.family(), self.key(), self.operand()
        _, said = self.call("merge_cf", self.db, self.writing, h, key, len(key), value, len(value))
        self.show("merge", name, shown(key), shown(value), said)

    def single_delete(self):
        # Once after one put of a key that nothing else touches.
        (name, h), key = self.family(), b"s%d" % self.rng.randrange(10000)
        self.call("put_cf", self.db, self.writing, h, key, len(key), b"", 0)
        if self.rng.random() < 0.4 and self.merge != "fails":
            self.flush()
        self.show("single", name, key, self.call("singledelete_cf", self.db, self.writing, h, key, len(key))[1])

    def ends(self):
        a, b = self.key(), self.key()
        return (b, a) if self.before(b, a) else (a, b)

    def delete_range(self):
        (name, h), (a, b) = self.family(), self.ends()
        if self.before(a, b):
            _, said = self.call("delete_range_cf", self.db, self.writing, h, a, len(a), b, len(b))
            self.show("range", name, shown(a), shown(b), said)

    def pinned(self, handle):
        length = SIZE(0)
        if not handle:
            return None
        value = lent(self.lib.pinnableslice_value(handle, C.byref(length)), length.value)
        self.lib.pinnableslice_destroy(handle)
        return value

    def get(self):
        (name, h), key, length, form = self.family(), self.key(), SIZE(77), self.rng.randrange(3)
        o, said, _ = self.read_options()
        if form == 0:
            found, error = self.call("get_cf", self.db, o, h, key, len(key), C.byref(length))
            value = taken(found, length.value)
        elif form == 1:
            found, error = self.call("get_pinned_cf", self.db, o, h, key, len(key))
            value = self.pinned(found)
        else:
            room, is_found = C.create_string_buffer(self.rng.choice([0, 5, 100, 100000])), BYTE(9)
            fits, error = self.call("get_into_buffer_cf", self.db, o, h, key, len(key), room, len(room),
                                    C.byref(length), C.byref(is_found))
            value = room.raw[:length.value] if fits else (fits, is_found.value, length.value)
        value = shown(value) if not isinstance(value, tuple) else value
        self.show("get", form, name, shown(key), said, value, error)
        self.lib.readoptions_destroy(o)

    def multi_get(self):
        o, said, _ = self.read_options()
        # Who is left out depends on which file a value lies in.
        if self.exact and self.rng.random() < 0.2:
            said.append(self.rng.choice([0, 5, 20, 1000]))
            self.lib.readoptions_set_value_size_soft_limit(o, said[-1])
        keys, form = [self.key() for _ in range(self.rng.randrange(8))], self.rng.randrange(3)
        values, errors, sizes = pointers([1] * len(keys)), pointers([1] * len(keys)), (SIZE * (len(keys) + 1))()
        families = [self.family() for _ in keys]
        if form == 0:
            self.lib.multi_get_cf(self.db, o, pointers([h for _, h in families]), len(keys), texts(keys),
                                  lengths(keys), values, sizes, errors)
        else:
            families = [self.family()] * len(keys)
            h = families[0][1] if keys else self.family()[1]
            self.lib.batched_multi_get_cf(self.db, o, h, len(keys), texts(keys), lengths(keys), values, errors, False)
        got = [taken(values[n], sizes[n]) if form == 0 else self.pinned(values[n]) for n in range(len(keys))]
        for n, key in enumerate(keys):
            self.show("multi_get", form, said, families[n][0], shown(key), shown(got[n]), taken(errors[n]))
        self.lib.readoptions_destroy(o)

    def state(self, it):
        if not self.lib.iter_valid(it):
            return "nowhere " + self.call("iter_get_error", it)[1]
        length = SIZE()
        key = lent(self.lib.iter_key(it, C.byref(length)), length.value)
        value = lent(self.lib.iter_value(it, C.byref(length)), length.value)
        return shown(key) + "=" + shown(value)

    def move(self, it, said=()):
        move, key = self.rng.choice(["first", "last", "seek", "seek_for_prev", "next", "next", "next", "prev"]), b""
        if move == "last" and "same prefix" in said:
            # RocksDB, passing over many hidden entries, asks filters for the prefix of one of these and ends.
            move = "first"
        if move in ("seek", "seek_for_prev"):
            key = self.key()
            getattr(self.lib, "iter_" + move)(it, key, len(key))
        elif move in ("first", "last"):
            getattr(self.lib, "iter_seek_to_" + move)(it)
        elif self.lib.iter_valid(it):
            getattr(self.lib, "iter_" + move)(it)
        return f"{move} {shown(key)}: {self.state(it)}"

    def iterate(self):
        if not self.iterators or (len(self.iterators) < 3 and self.rng.random() < 0.5):
            (name, h), (o, said, held), which = self.family(), self.read_options(True), self.rng.randrange(1000)
            it = self.lib.create_iterator_cf(self.db, o, h)
            self.iterators[which] = (it, o, held, said)
            self.show("iterator", which, name, said, self.state(it))
            return
        which = self.rng.choice(list(self.iterators))
        for _ in range(self.rng.randrange(1, 8)):
            it, _, _, said = self.iterators[which]
            self.show(which, self.move(it, said))
        if self.rng.random() < 0.1 and self.may_refresh(said):
            self.show(which, "refresh", self.call("iter_refresh", self.iterators[which][0])[1])
            self.lib.iter_seek_to_first(self.iterators[which][0])
            self.show(which, self.state(self.iterators[which][0]))
        if self.rng.random() < 0.1:
            self.lib.iter_destroy(self.iterators.pop(which)[0])

    def may_refresh(self, _said):
        return True

    def walk(self, it, said):
        self.lib.iter_seek_to_first(it)
        there, back = [], []
        while self.lib.iter_valid(it):
            there.append(self.state(it))
            self.lib.iter_next(it)
        self.show("there", len(there), there[:8], hashlib.md5(repr(there).encode()).hexdigest(), self.state(it))
        if "same prefix" in said:
            return
        self.lib.iter_seek_to_last(it)
        while self.lib.iter_valid(it):
            back.append(self.state(it))
            self.lib.iter_prev(it)
        self.show("back", len(back), hashlib.md5(repr(back[::-1]).encode()).hexdigest(), self.state(it))

    def scan(self):
        (name, h), (o, said, _held) = self.family(), self.read_options(True)
        it = self.lib.create_iterator_cf(self.db, o, h)
        self.show("scan", name, said)
        self.walk(it, said)
        self.lib.iter_destroy(it)

    def fill(self, kind, batch):
        lib, r = self.lib, self.rng
        for _ in range(r.randrange(1, 9)):
            (_, h), key, what = self.family(), self.key(), r.randrange(12)

            def add(name, *parts):
                flat = [x for part in parts for x in (part, len(part))]
                getattr(lib, f"{kind}_{name}_cf")(batch, h, *flat)
            if what < 5:
                add("put", key, self.value())
            elif what < 7:
                add("delete", key)
            elif what == 7 and self.merging:
                add("merge", key, self.operand())
            elif what == 8 and kind == "writebatch":
                a, b = self.ends()
                if self.before(a, b):
                    add("delete_range", a, b)
            elif what == 9:
                blob = self.value()
                getattr(lib, kind + "_put_log_data")(batch, blob, len(blob))
            elif what == 10:
                getattr(lib, kind + "_set_save_point")(batch)
            elif what == 11:
                self.show("rollback", self.call(kind + "_rollback_to_save_point", batch)[1])
        length = SIZE()
        data = getattr(lib, kind + "_data")(batch, C.byref(length))
        self.show(kind, getattr(lib, kind + "_count")(batch), shown(lent(data, length.value)))

    def batch(self):
        batch = self.lib.writebatch_create()
        self.fill("writebatch", batch)
        if self.rng.random() < 0.8:
            self.show("write", self.call("write", self.db, self.writing, batch)[1])
        self.lib.writebatch_destroy(batch)

    def indexed(self):
        batch, length = self.lib.writebatch_wi_create(0, self.rng.random() < 0.5), SIZE()
        self.fill("writebatch_wi", batch)
        for _ in range(self.rng.randrange(4)):
            (name, h), key = self.family(), self.key()
            found, said = self.call("writebatch_wi_get_from_batch_and_db_cf", batch, self.db, self.reading, h, key,
                                    len(key), C.byref(length))
            self.show("indexed get", name, shown(key), shown(taken(found, length.value)), said)
        (name, h), (o, said, _held) = self.family(), self.read_options(True)
        base = self.lib.create_iterator_cf(self.db, o, h)
        it = self.lib.writebatch_wi_create_iterator_with_base_cf_readopts(batch, base, h, o)
        self.show("indexed scan", name, said)
        self.walk(it, said)
        for _ in range(6):
            self.show(self.move(it, said))
        self.lib.iter_destroy(it)
        if self.rng.random() < 0.7:
            self.show("write", self.call("write_writebatch_wi", self.db, self.writing, batch)[1])
        self.lib.writebatch_wi_destroy(batch)

    def snapshot(self):
        which = self.rng.randrange(6)
        if which in self.snapshots:
            self.lib.release_snapshot(self.db, self.snapshots.pop(which))
            self.show("release", which)
        else:
            self.snapshots[which] = self.lib.create_snapshot(self.db)
            self.show("snapshot", which)

    def flush(self):
        name, h = self.family()
        self.show("flush", name, self.call("flush_cf", self.db, self.lib.flushoptions_create(), h)[1])

    def flush_several(self):
        some = self.rng.sample(list(self.families), self.rng.randrange(1, len(self.families) + 1))
        handles = pointers([self.families[name] for name in some])
        said = self.call("flush_cfs", self.db, self.lib.flushoptions_create(), handles, len(some))[1]
        self.show("flush", some, said)

    def sizes(self):
        if not self.exact:
            return
        (name, h), (a, b), size = self.family(), self.ends(), (C.c_uint64 * 1)()
        _, said = self.call("approximate_sizes_cf", self.db, h, 1, texts([a]), lengths([a]), texts([b]), lengths([b]),
                            size)
        self.show("size", name, shown(a), shown(b), size[0], said)

    def drop_files(self):
        if self.exact:
            (name, h), (a, b) = self.family(), self.ends()
            _, said = self.call("delete_file_in_range_cf", self.db, h, a, len(a), b, len(b))
            self.show("drop files", name, shown(a), shown(b), said)
            self.files()

    def dropped_family(self):
        if self.dropped:
            kept, h = self.families, self.rng.choice(self.dropped)
            self.families = {b"(dropped)": h}
            self.rng.choice([self.get, self.multi_get, self.scan, self.sizes, self.flush])()
            if self.exact:
                count = self.lib.property_value_cf(self.db, h, b"rocksdb.estimate-num-keys")
                self.show("entries", taken(count))
            self.families = kept

    def beside(self):
        if not self.exact:
            return
        # A reader of the same directory; what it sees is what is in the files.
        writer = (self.db, self.families, self.snapshots, self.iterators)
        self.snapshots, self.iterators = {}, {}
        self.open(read_only=True)
        for _ in range(5):
            self.rng.choice([self.get, self.multi_get, self.scan])()
        dropped, self.dropped = self.dropped, []
        self.close()
        self.db, self.families, self.snapshots, self.iterators = writer
        self.dropped = dropped

    def compact(self):
        (name, h), (a, b), o = self.family(), self.ends(), self.lib.compactoptions_create()
        if self.exact and self.rng.random() < 0.2:
            level = self.rng.randrange(self.levels)
            self.lib.compactoptions_set_change_level(o, 1)
            self.lib.compactoptions_set_target_level(o, level)
            self.show("to level", level)
        a, b = (k if self.rng.random() < 0.5 else None for k in (a, b))
        bottommost = self.rng.randrange(4)
        self.lib.compactoptions_set_bottommost_level_compaction(o, bottommost)
        self.lib.compact_range_cf_opt(self.db, h, o, a, len(a or b""), b, len(b or b""))
        self.show("compact", name, shown(a), shown(b), bottommost, self.filtered)
        self.filtered.clear()
        if self.exact and self.rng.random() < 0.3:
            self.files()

    def properties(self):
        _, h = self.family()
        names = ["num-snapshots", "background-errors", "is-file-deletions-enabled", "no-such-property"]
        if self.exact:
            names += ["num-files-at-level0", "num-files-at-level1", "num-entries-active-mem-table", "levelstats",
                      "num-entries-imm-mem-tables", "num-deletes-active-mem-table", "estimate-num-keys",
                      "num-immutable-mem-table", "aggregated-table-properties",
                      "mem-table-flush-pending", *self.judged, "base-level", "num-deletes-imm-mem-tables",
                      "estimate-pending-compaction-bytes"]
        for name in names:
            self.show(name, taken(self.lib.property_value_cf(self.db, h, b"rocksdb." + name.encode())))

    def files(self):
        if not self.exact:
            return
        lib, live = self.lib, self.lib.livefiles(self.db)
        for n in range(lib.livefiles_count(live)):
            length, ends = SIZE(), []
            for side in (lib.livefiles_smallestkey, lib.livefiles_largestkey):
                key = side(live, n, C.byref(length))
                ends.append(shown(lent(key, length.value)))
            self.show("file", C.string_at(lib.livefiles_column_family_name(live, n)), lib.livefiles_level(live, n),
                      ends, lib.livefiles_entries(live, n), lib.livefiles_deletions(live, n))
        lib.livefiles_destroy(live)

    def set_options(self):
        (name, h), pairs = self.family(), self.rng.choice([
            [("ttl", "1000")], [("nope", "1")], [("num_levels", "3")], [("write_buffer_size", "x")], [],
            [("paranoid_file_checks", "1")], [("block_based_table_factory", "{block_size=200}")],
            [("max_successive_merges", "0x1")], [("max_sequential_skip_in_iterations", "2")],
            [("disable_auto_compactions", "yes")], [("target_file_size_base", "10k")], [("write_buffer_size", "1m ")],
            [("level0_slowdown_writes_trigger", " 7")], [("max_bytes_for_level_multiplier", "1e1")],
            [("compression", "none")],
            [("compression_per_level", "kNoCompression:kNoCompression")], [("report_bg_io_stats", "TRUE")],
            [("block_based_table_factory.block_size", "300")], [("block_based_table_factory", "{}")],
            [("bottommost_compression_opts", "{level=1;enabled=false}")], [("inplace_update_support", "1")],
            [("max_compaction_bytes", "18446744073709551616")], [("periodic_compaction_seconds", "-1")], [("ttl", "{7}")], [("compression_opts", "1:2")]])
        names, values = (texts([p[n].encode() for p in pairs]) for n in (0, 1))
        self.show("set", name, pairs, self.call("set_options_cf", self.db, h, len(pairs), names, values)[1])

    def change_families(self):
        if len(self.families) < 4 and self.rng.random() < 0.6:
            name = b"f%d" % self.rng.randrange(8)
            h, said = self.call("create_column_family", self.db, self.options(), name)
            if h:
                self.families[name] = h
            self.show("create", name, said)
        elif len(self.families) > 1:
            name = self.rng.choice([n for n in self.families if n != b"default"])
            self.dropped.append(self.families.pop(name))
            self.show("drop", name, self.call("drop_column_family", self.db, self.dropped[-1])[1])

    def reopen(self):
        self.close()
        if self.rng.random() < 0.3:
            self.open(read_only=True)
            for _ in range(8):
                self.rng.choice([self.get, self.multi_get, self.scan, self.put, self.flush, self.properties])()
            self.close()
        self.open()

    def run(self):
        settled = 0 if self.merge == "fails" else 1
        steps = {
            self.put: 30, self.delete: 6, self.do_merge: 8 * bool(self.merging), self.delete_range: 3, self.get: 16,
            self.multi_get: 6, self.iterate: 16, self.scan: 3, self.batch: 5, self.indexed: 4, self.snapshot: 3,
            self.single_delete: 1, self.flush_several: settled, self.sizes: 2, self.drop_files: 0.5 * settled,
            self.dropped_family: 1, self.beside: 0.7, self.flush: 3 * settled, self.compact: 3 * settled, self.properties: 3, self.files: 2,
            self.set_options: 1, self.change_families: 2, self.reopen: settled,
        }
        self.open()
        for n in range(self.rng.choice([80, 300, 300, 800])):
            step = self.rng.choices(list(steps), list(steps.values()))[0]
            self.show(f"#{n} {step.__name__}")
            step()
        self.close()


def traces(seed, libraries, header):
    for library in libraries:
        with tempfile.TemporaryDirectory() as scratch:
            child = [sys.executable, __file__, "--child", library, header, str(seed), scratch + "/db"]
            done = subprocess.run(child, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
            yield done.stdout.decode("latin1").split("\n") + [f"exit status {done.returncode}"]


def main():
    if sys.argv[1:2] == ["--child"]:
        library, header, seed, directory = sys.argv[2:6]
        Program(Library(library, header), int(seed), directory).run()
        # Callbacks are gone before the interpreter ends.
        os._exit(0)
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    first, last = int((sys.argv + ["1"])[4]) if len(sys.argv) > 4 else 1, 20
    last = int(sys.argv[5]) if len(sys.argv) > 5 else max(first, last)
    differing = 0
    for seed in range(first, last + 1):
        ours, reference = traces(seed, sys.argv[1:3], sys.argv[3])
        if reference[-1] != "exit status 0":
            # A program that does not run with the reference shows nothing.
            sys.exit("\n".join([f"seed {seed} fails with the reference:"] + reference[-8:]))
        at = next((n for n, pair in enumerate(zip(ours, reference)) if pair[0] != pair[1]), None)
        if at is None and len(ours) == len(reference):
            continue
        differing += 1
        step = next((line for line in reversed(reference[:at]) if line.startswith("#")), "")
        print(f"seed {seed}, line {(at or 0) + 1}, {step}", f"  ours:      {ours[at or 0][:400]}",
              f"  reference: {reference[at or 0][:400]}", sep="\n", flush=True)
    print(f"{last - first + 1} programs, {differing} differ")
    sys.exit(differing != 0)


if __name__ == "__main__":
    main()
