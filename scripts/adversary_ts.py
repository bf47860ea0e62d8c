#!/usr/bin/env python3
"""Random programs over the C API with timestamps and with tailing iterators, run with two libraries.

  scripts/adversary_ts.py OURS REFERENCE HEADER [FIRST [LAST]]

As scripts/adversary.py, whose programs these are. Of those with timestamps, even seeds, a family has keys with a
timestamp of eight bytes, ordered by RocksDB's own comparator or by one of the client, and families without; odd
seeds draw iterators that tail.
"""
import ctypes as C
import sys

import adversary
from adversary import BYTE, PTR, SIZE, TEXT, lengths, lent, pointers, shown, taken, texts

NAME = b"adversary.order.u64ts"


class Timed(adversary.Program):
    """Keys with timestamps, which grow from write to write as RocksDB demands."""

    def __init__(self, library, seed, directory):
        super().__init__(library, seed, directory)
        r = self.rng
        self.exact, self.prefix, self.merge, self.filter, self.merging = True, "none", "none", "none", None
        self.order, self.builtin = r.choice(["bytes", "bytes", "reverse"]), r.random() < 0.5
        # Bottommost files with timestamps are rewritten for other reasons here (docs/compat.md).
        self.judged = []
        self.now = 10
        # Tables keep no timestamps: a flush gives history up.
        self.brief = r.random() < 0.25
        if self.builtin:
            self.order = "bytes"
        self.comparator = None
        self.timed_comparator = None if self.builtin else self.make_timed_comparator()
        self.untimed = set()

    def make_timed_comparator(self):
        def number(ts):
            return int.from_bytes(ts, "little")

        def by_key(a, b):
            return self.before(b, a) - self.before(a, b)

        def compare(_, a, a_len, b, b_len):
            a, b = lent(a, a_len), lent(b, b_len)
            order = by_key(a[:-8], b[:-8])
            return order or (number(a[-8:]) < number(b[-8:])) - (number(b[-8:]) < number(a[-8:]))

        def compare_ts(_, a, a_len, b, b_len):
            a, b = number(lent(a, a_len)), number(lent(b, b_len))
            return (a > b) - (a < b)

        def compare_without(_, a, a_len, a_has, b, b_len, b_has):
            a, b = lent(a, a_len), lent(b, b_len)
            return by_key(a[:-8] if a_has else a, b[:-8] if b_has else b)

        compare = self.callback(C.c_int, PTR, PTR, SIZE, PTR, SIZE)(compare)
        compare_ts = self.callback(C.c_int, PTR, PTR, SIZE, PTR, SIZE)(compare_ts)
        compare_without = self.callback(C.c_int, PTR, PTR, SIZE, BYTE, PTR, SIZE, BYTE)(compare_without)
        return self.lib.comparator_with_ts_create(None, self.nothing(), compare, compare_ts, compare_without,
                                                  self.named(NAME), 8)

    def options_of(self, name):
        o = self.options()
        self.lib.options_set_allow_concurrent_memtable_write(o, not self.brief)
        if name not in self.untimed:
            self.lib.options_set_persist_user_defined_timestamps(o, not self.brief)
            if self.builtin:
                other = self.lib.options_create()
                self.call("get_options_from_string", o, b"comparator=leveldb.BytewiseComparator.u64ts", other)
                return other
            self.lib.options_set_comparator(o, self.timed_comparator)
        return o

    def open(self, read_only=False):
        lib, count, names, options = self.lib, SIZE(0), [b"default"], self.options()
        if adversary.os.path.exists(self.directory + "/CURRENT"):
            listed, said = self.call("list_column_families", options, self.directory.encode(), C.byref(count))
            names = [C.string_at(C.cast(listed, C.POINTER(PTR))[n]) for n in range(count.value)]
            self.show("list", said, names)
        handles = pointers([None] * len(names))
        each = pointers([self.options_of(name) for name in names])
        arguments = (self.options_of(names[0]), self.directory.encode(), len(names), texts(names), each, handles)
        if read_only:
            self.db, said = self.call("open_for_read_only_column_families", *arguments, 0)
        else:
            self.db, said = self.call("open_column_families", *arguments)
        self.show("open", read_only, said)
        self.families = dict(zip(names, handles))
        if len(names) == 1 and not read_only:
            self.untimed.add(b"plain")
            self.families[b"plain"], said = self.call("create_column_family", self.db, self.options_of(b"plain"), b"plain")
            self.show("create plain", said)

    def timed_family(self):
        name = self.rng.choice([n for n in self.families if n not in self.untimed] or list(self.families))
        return name, self.families[name]

    def tick(self):
        self.now += self.rng.choice([0, 0, 1, 1, 1, 5])
        return self.now.to_bytes(8, "little")

    def a_time(self):
        r = self.rng
        return r.choice([self.now, self.now, r.randrange(self.now + 3), 2**64 - 1, 0])

    def read_options(self, iterates=False):
        r, lib = self.rng, self.lib
        o, said, held = super().read_options(iterates)
        if r.random() < 0.95:
            time = self.a_time()
            held.append(C.create_string_buffer(time.to_bytes(8, "little"), 8))
            lib.readoptions_set_timestamp(o, held[-1], 8 if r.random() < 0.99 else 4)
            said.append(f"at {time}")
            if iterates and r.random() < 0.25:
                since = min(self.a_time(), time)
                held.append(C.create_string_buffer(since.to_bytes(8, "little"), 8))
                lib.readoptions_set_iter_start_ts(o, held[-1], 8)
                said.append(f"since {since}")
        self.kept.append(held)
        return o, said, held

    def put(self):
        (name, h), key, value, ts = self.family(), self.key(), self.value(), self.tick()
        if name in self.untimed and self.rng.random() < 0.95 or self.rng.random() < 0.03:
            _, said = self.call("put_cf", self.db, self.writing, h, key, len(key), value, len(value))
        else:
            _, said = self.call("put_cf_with_ts", self.db, self.writing, h, key, len(key), ts, len(ts), value, len(value))
        self.show("put", name, shown(key), ts, shown(value), said)

    def delete(self):
        (name, h), key, ts = self.timed_family(), self.key(), self.tick()
        _, said = self.call("delete_cf_with_ts", self.db, self.writing, h, key, len(key), ts, len(ts))
        self.show("delete", name, shown(key), ts, said)

    def single_delete(self):
        (name, h), key = self.timed_family(), b"s%d" % self.rng.randrange(10000)
        ts = self.tick()
        self.call("put_cf_with_ts", self.db, self.writing, h, key, len(key), ts, len(ts), b"", 0)
        if self.rng.random() < 0.4:
            self.flush()
        ts = self.tick()
        _, said = self.call("singledelete_cf_with_ts", self.db, self.writing, h, key, len(key), ts, len(ts))
        self.show("single", name, key, said)

    def delete_range(self):
        name, h = self.rng.choice(list(self.families.items()))
        a, b = self.ends()
        if name in self.untimed:
            a, b = min(a, b), max(a, b)
        if a != b and (name in self.untimed or self.rng.random() < 0.2):
            _, said = self.call("delete_range_cf", self.db, self.writing, h, a, len(a), b, len(b))
            self.show("range", name, shown(a), shown(b), said)

    def get(self):
        (name, h), key, length, ts_length, ts = self.family(), self.key(), SIZE(77), SIZE(0), PTR(None)
        o, said, _ = self.read_options()
        if self.rng.random() < 0.2:
            return super().get()
        found, error = self.call("get_cf_with_ts", self.db, o, h, key, len(key), C.byref(length), C.byref(ts),
                                 C.byref(ts_length))
        value = taken(found, length.value)
        stamp = taken(ts.value, ts_length.value) if found else None
        self.show("get", name, shown(key), said, shown(value), stamp, error)

    def multi_get(self):
        if self.rng.random() < 0.2:
            # Whom a limit of bytes leaves out depends on where values lie: no limits here.
            self.exact = False
            super().multi_get()
            self.exact = True
            return None
        o, said, _ = self.read_options()
        keys = [self.key() for _ in range(self.rng.randrange(8))]
        families = [self.timed_family() for _ in keys]
        values, errors, sizes = pointers([1] * len(keys)), pointers([1] * len(keys)), (SIZE * (len(keys) + 1))()
        stamps, stamp_sizes = pointers([None] * len(keys)), (SIZE * (len(keys) + 1))()
        self.lib.multi_get_cf_with_ts(self.db, o, pointers([h for _, h in families]), len(keys), texts(keys),
                                      lengths(keys), values, sizes, stamps, stamp_sizes, errors)
        for n, key in enumerate(keys):
            value, error = taken(values[n], sizes[n]), taken(errors[n])
            stamp = None if value is None else taken(stamps[n], stamp_sizes[n])
            self.show("multi_get", said, families[n][0], shown(key), shown(value), stamp, error)

    def state(self, it):
        state = super().state(it)
        if self.lib.iter_valid(it):
            length = SIZE()
            ts = self.lib.iter_timestamp(it, C.byref(length))
            state += " @" + repr(lent(ts, length.value))
        return state

    def batch(self):
        # Without the size RocksDB leaves out what has no timestamp yet in the default family.
        batch = self.lib.writebatch_create_with_params(0, 0, 0, 8)
        self.fill("writebatch", batch)
        if self.rng.random() < 0.8:
            self.show("write", self.call("write", self.db, self.writing, batch)[1])
        self.lib.writebatch_destroy(batch)

    def fill(self, kind, batch):
        r, lib = self.rng, self.lib
        late = r.random() < 0.4
        for _ in range(r.randrange(1, 9)):
            (name, h), key, what = self.family(), self.key(), r.randrange(9)
            ts = b"" if late or name in self.untimed else self.tick()
            timed = [ts, len(ts)] if ts else []
            suffix = "_cf_with_ts" if ts else "_cf"
            if what < 6:
                value = self.value()
                getattr(lib, f"{kind}_put{suffix}")(batch, h, key, len(key), *timed, value, len(value))
            elif what < 8:
                getattr(lib, f"{kind}_delete{suffix}")(batch, h, key, len(key), *timed)
            else:
                getattr(lib, kind + "_put_log_data")(batch, key, len(key))
        if late:
            ids = {lib.column_family_handle_get_id(h): 0 if n in self.untimed else 8 for n, h in self.families.items()}
            size_of = self.callback(SIZE, PTR, C.c_uint32)(lambda _, cf: ids.get(cf, 0))
            ts = self.tick()
            if r.random() < 0.9:
                self.show("update", self.call(kind + "_update_timestamps", batch, ts, len(ts), None, size_of)[1])
        length = SIZE()
        data = getattr(lib, kind + "_data")(batch, C.byref(length))
        self.show(kind, getattr(lib, kind + "_count")(batch), shown(lent(data, length.value)))

    def indexed(self):
        """Batches with an index that hold timestamps are read by key without them."""

    def raise_low(self):
        name, h = self.rng.choice(list(self.families.items()))
        ts = self.rng.randrange(self.now + 2).to_bytes(8, "little")
        self.show("raise", name, ts, self.call("increase_full_history_ts_low", self.db, h, ts, 8)[1])
        length = SIZE()
        found, said = self.call("get_full_history_ts_low", self.db, h, C.byref(length))
        self.show("low", taken(found, length.value) if found else None, said)

    def compact(self):
        (name, h), (a, b), o = self.family(), self.ends(), self.lib.compactoptions_create()
        said = None
        if name not in self.untimed and self.rng.random() < 0.5:
            said = self.rng.randrange(self.now + 2)
            ts = C.create_string_buffer(said.to_bytes(8, "little"), 8)
            self.kept.append(ts)
            self.lib.compactoptions_set_full_history_ts_low(o, ts, 8)
        a, b = (k if self.rng.random() < 0.5 else None for k in (a, b))
        bottommost = self.rng.randrange(4)
        self.lib.compactoptions_set_bottommost_level_compaction(o, bottommost)
        self.lib.compact_range_cf_opt(self.db, h, o, a, len(a or b""), b, len(b or b""))
        self.show("compact", name, shown(a), shown(b), bottommost, said)
        self.files()

    def move(self, it, said=()):
        if not any(s.startswith("since") for s in said):
            return super().move(it, said)
        # Backwards RocksDB shows what the bound hides, and what was written since the iterator was made.
        move, key = self.rng.choice(["first", "seek", "next", "next", "next"]), b""
        if move == "seek":
            key = self.key()
            self.lib.iter_seek(it, key, len(key))
        elif move == "first":
            self.lib.iter_seek_to_first(it)
        elif self.lib.iter_valid(it):
            self.lib.iter_next(it)
        return f"{move} {shown(key)}: {self.state(it)}"

    def may_refresh(self, said):
        # RocksDB does not look whether history of that time is still there.
        return not any(s.startswith("at ") and int(s[3:]) < self.now for s in said)

    def walk(self, it, said):
        since = any(s.startswith("since") for s in said)
        super().walk(it, [*said, "same prefix"] if since else said)

    def change_families(self):
        if len(self.families) < 4 and self.rng.random() < 0.6:
            name = b"f%d" % self.rng.randrange(8)
            h, said = self.call("create_column_family", self.db, self.options_of(name), name)
            if h:
                self.families[name] = h
            self.show("create", name, said)

    def run(self):
        steps = {
            self.put: 30, self.delete: 6, self.delete_range: 2, self.get: 16, self.multi_get: 6, self.iterate: 16,
            self.scan: 4, self.batch: 6, self.snapshot: 3, self.single_delete: 1, self.flush_several: 1,
            self.sizes: 2, self.flush: 3, self.compact: 3, self.raise_low: 1, self.properties: 3, self.files: 2,
            self.change_families: 1, self.reopen: 1, self.beside: 0.7,
        }
        self.steps(steps)

    def steps(self, steps):
        self.open()
        for n in range(self.rng.choice([80, 300, 300, 800])):
            step = self.rng.choices(list(steps), list(steps.values()))[0]
            self.show(f"#{n} {step.__name__}")
            step()
        self.close()


class Tailing(adversary.Program):
    """Iterators that see what is written behind their back. RocksDB's know no range deletions."""

    def delete_range(self):
        pass

    def ends(self):
        a, b = super().ends()
        # Batches delete nothing between equal keys.
        return (a, a) if sys._getframe(1).f_code.co_name == "fill" else (a, b)

    def read_options(self, iterates=False):
        o, said, held = super().read_options(iterates)
        if iterates and not any(s.startswith("snapshot") for s in said) and self.rng.random() < 0.8:
            self.lib.readoptions_set_tailing(o, 1)
            said.append("tails")
        return o, said, held

    def move(self, it, said=()):
        if "tails" not in said:
            return super().move(it, said)
        r, key = self.rng, b""
        move = r.choice(["first", "seek", "seek", "next", "next", "next", "next", "prev", "seek_for_prev", "last"]
                        if r.random() < 0.1 else ["first", "seek", "seek", "next", "next", "next"])
        if move in ("seek", "seek_for_prev"):
            key = self.key()
            getattr(self.lib, "iter_" + move)(it, key, len(key))
        elif move in ("first", "last"):
            getattr(self.lib, "iter_seek_to_" + move)(it)
        elif self.lib.iter_valid(it):
            getattr(self.lib, "iter_" + move)(it)
        return f"{move} {shown(key)}: {self.state(it)}"

    def walk(self, it, said):
        if "tails" not in said:
            return super().walk(it, said)
        self.lib.iter_seek_to_first(it)
        there = []
        while self.lib.iter_valid(it):
            there.append(self.state(it))
            self.lib.iter_next(it)
        self.show("there", len(there), there[:8], adversary.hashlib.md5(repr(there).encode()).hexdigest(), self.state(it))

    def iterate(self):
        """As there, but a position is used only right after it was taken: what a tailing iterator shows of
        a place that changed since is not said anywhere."""
        if not self.iterators or (len(self.iterators) < 3 and self.rng.random() < 0.5):
            return super().iterate()
        for which in self.iterators:
            it, _, _, said = self.iterators[which]
            if "tails" in said:
                key = self.key()
                self.lib.iter_seek(it, key, len(key))
                self.show(which, "seek", shown(key), self.state(it))
        return super().iterate()


adversary.__file__, adversary.__doc__ = __file__, __doc__
adversary.Program = lambda library, seed, directory: (Tailing if seed % 2 else Timed)(library, seed, directory)
if __name__ == "__main__":
    adversary.main()
