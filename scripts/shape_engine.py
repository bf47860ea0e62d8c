#!/usr/bin/env python3
"""One engine of scripts/shape.py: carries out one load over one library and tells the shape of the tree.

  shape_engine.py LIBRARY DIRECTORY < case

The case is one line of JSON: `options` (a string of options), `load` (a method of `Load`), `steps`,
`keys` (operations per step), `value` (bytes), `seed`,
`manual` (verbs after given steps), `hours` (that pass before each step) and `noted` (the time is taken
down before each flush). After each step the memtable is flushed and all compactions are
waited for. Each line of the answer is the list of files: level, smallest and largest user key, size,
entries, deletions, smallest and largest sequence number.
"""
import ctypes
import json
import os
import random
import sys

from interop_engine import Engine

PUT, DELETE, MERGE, SINGLE_DELETE, RANGE_DELETE = 1, 0, 2, 7, 15
SPACE = 200_000  # keys of a load that writes keys again


def key_of(number):
    return b"k%015d" % number


class Batch:
    """Operations in the form of a write batch."""

    def __init__(self):
        self.parts = []
        self.count = 0

    def add(self, tag, *strings):
        self.count += 1
        self.parts.append(bytes([tag]))
        for text in strings:
            size = len(text)
            while size > 127:
                self.parts.append(bytes([size & 127 | 128]))
                size >>= 7
            self.parts.append(bytes([size]))
            self.parts.append(text)

    def bytes(self):
        return bytes(8) + self.count.to_bytes(4, "little") + b"".join(self.parts)


class Load:
    """What each step writes; the methods behind `put` are the loads."""

    def __init__(self, case):
        self.rng = random.Random(case["seed"])
        self.keys = case["keys"]
        self.size = case["value"]
        self.pool = random.Random(7).randbytes(1 << 20)
        self.step = getattr(self, case["load"])
        self.link = case["seed"]
        self.space = case.get("space", SPACE)

    def value(self):
        at = self.rng.randrange(len(self.pool) - self.size)
        return self.pool[at : at + self.size]

    def put(self, batch, number):
        batch.add(PUT, key_of(number), self.value())

    def uniform(self, batch, step):
        for _ in range(self.keys):
            self.put(batch, self.rng.randrange(self.space))

    def uneven(self, batch, step):
        """Steps of very different sizes."""
        for _ in range(int(self.keys * 4 ** self.rng.uniform(-1.5, 1.5))):
            self.put(batch, self.rng.randrange(self.space))

    def sequential(self, batch, step):
        for i in range(self.keys):
            self.put(batch, step * self.keys + i)

    def skewed(self, batch, step):
        for _ in range(self.keys):
            number = int(self.space * self.rng.random() ** 6)
            self.put(batch, number * 7919 % self.space)

    def corner(self, batch, step):
        """Most writes fall into a narrow band that moves."""
        low = step * 977 % self.space
        for _ in range(self.keys):
            wide = self.rng.random() < 0.1
            number = self.rng.randrange(self.space) if wide else low + self.rng.randrange(3000)
            self.put(batch, number)

    def series(self, batch, step):
        """Hundred rows that each grow at their end."""
        for i in range(self.keys):
            row, time = self.rng.randrange(100), step * 1000 + i
            self.put(batch, row * 10**9 + time)

    def deletes(self, batch, step):
        for _ in range(self.keys):
            number = self.rng.randrange(self.space)
            if self.rng.random() < 0.5:
                batch.add(DELETE, key_of(number))
            else:
                self.put(batch, number)

    def waves(self, batch, step):
        """Ranges that are written, then deleted key by key."""
        low = step // 2 * self.keys % self.space
        for i in range(self.keys):
            if step % 2:
                batch.add(DELETE, key_of(low + i))
            else:
                self.put(batch, low + i)

    def singles(self, batch, step):
        for i in range(self.keys // 2):
            self.put(batch, (step * self.keys // 2 + i) * 7919 % 10**6)
        if step > 3:
            for i in range(self.keys // 2):
                number = ((step - 4) * self.keys // 2 + i) * 7919 % 10**6
                batch.add(SINGLE_DELETE, key_of(number))

    def merges(self, batch, step):
        for _ in range(self.keys):
            number = int(self.space * self.rng.random() ** 2)
            batch.add(MERGE, key_of(number), self.rng.randrange(99).to_bytes(8, "little"))

    def versions(self, batch, step):
        """Few keys with many versions, in steps that overlap."""
        for _ in range(self.keys):
            self.put(batch, self.rng.randrange(self.space // 200))

    def ranges(self, batch, step):
        """Keys and some short range deletions."""
        for i in range(self.keys):
            number = self.rng.randrange(self.space)
            if i % 100 == 99:
                end = number + 1 + self.rng.randrange(400)
                batch.add(RANGE_DELETE, key_of(number), key_of(end))
            else:
                self.put(batch, number)

    def wide_ranges(self, batch, step):
        """Keys, and every few steps a range deletion over a good part of them."""
        for i in range(self.keys):
            self.put(batch, self.rng.randrange(self.space))
            if step % 5 == 4 and i == self.keys // 2:
                low = self.rng.randrange(self.space)
                end = low + self.space // 10
                batch.add(RANGE_DELETE, key_of(low), key_of(end))

    def chain(self, batch, step):
        """Puts, deletes and range deletions from one chain of numbers: the engine's tests replay it."""
        for _ in range(self.keys):
            number, kind = self.next(20_000), self.next(1000)
            if kind < 650:
                batch.add(PUT, key_of(number), bytes(100))
            elif kind < 995:
                batch.add(DELETE, key_of(number))
            else:
                batch.add(RANGE_DELETE, key_of(number), key_of(number + 400))

    def next(self, below):
        self.link = (self.link * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.link >> 33) % below

    def only_ranges(self, batch, step):
        """Steps of keys; every third is nothing but range deletions."""
        for _ in range(self.keys if step % 3 != 2 else 20):
            number = self.rng.randrange(self.space)
            if step % 3 == 2:
                batch.add(RANGE_DELETE, key_of(number), key_of(number + 2000))
            else:
                self.put(batch, number)


class Run(Engine):
    """A database with the options of a case."""

    def __init__(self, library, directory, case):
        super().__init__(library)
        lib = self.lib
        for name, result in (
            ("livefiles_smallestkey", ctypes.POINTER(ctypes.c_char)),
            ("livefiles_largestkey", ctypes.POINTER(ctypes.c_char)),
            ("livefiles_size", ctypes.c_size_t),
            ("livefiles_entries", ctypes.c_uint64),
            ("livefiles_deletions", ctypes.c_uint64),
            ("livefiles_smallest_seqno", ctypes.c_uint64),
            ("livefiles_largest_seqno", ctypes.c_uint64),
        ):
            getattr(lib, "rocksdb_" + name).restype = result
        base = self.pointer("options_create")
        options = self.pointer("options_create")
        self.checked("get_options_from_string", base, case["options"].encode(), options)
        if case["load"] == "merges":
            self.call("options_set_uint64add_merge_operator", options)
        self.db = ctypes.c_void_p(
            self.checked("open", options, directory.encode(), result=ctypes.c_void_p)
        )
        self.no_log = self.pointer("writeoptions_create")
        self.call("writeoptions_disable_WAL", self.no_log, 1)
        self.flush_options = self.pointer("flushoptions_create")
        self.wait_options = self.pointer("wait_for_compact_options_create")
        self.load = Load(case)
        self.manual = {int(step): verb for step, verb in case.get("manual", {}).items()}
        self.snapshots = []
        self.hours = case.get("hours", 0)
        self.noted = case.get("noted", False)

    def pass_hours(self, step):
        with open(os.environ["SHAPE_CLOCK"], "r+b") as file:
            file.write((step * self.hours * 3600).to_bytes(8, sys.byteorder))

    def do(self, step):
        if self.hours:
            self.pass_hours(step)
        part = Batch()
        self.load.step(part, step)
        text = part.bytes()
        batch = ctypes.c_void_p(
            self.call(
                "writebatch_create_from", text, ctypes.c_size_t(len(text)), result=ctypes.c_void_p
            )
        )
        self.checked("write", self.db, self.no_log, batch)
        self.call("writebatch_destroy", batch)
        if self.noted:
            # One of the moments at which both take down which number was written when; without it only
            # a timer does, which no clock of a case moves.
            names, values = (ctypes.c_char_p * 1)(b"ttl"), (ctypes.c_char_p * 1)(b"0")
            self.checked("set_options", self.db, 1, names, values)
        self.checked("flush", self.db, self.flush_options)
        self.settle()
        verb = self.manual.get(step)
        if verb:
            getattr(self, verb[0])(*verb[1:])
            self.settle()

    def settle(self):
        self.checked("wait_for_compact", self.db, self.wait_options)

    def compact(self, low, high, bottommost):
        options = self.pointer("compactoptions_create")
        self.call("compactoptions_set_bottommost_level_compaction", options, bottommost)
        # Or jobs of its own choice run between the steps, or not, as chance has it.
        self.call("compactoptions_set_exclusive_manual_compaction", options, 1)
        low, high = (None if k is None else key_of(k) for k in (low, high))
        sizes = [ctypes.c_size_t(len(k or b"")) for k in (low, high)]
        self.call("compact_range_opt", self.db, options, low, sizes[0], high, sizes[1])
        self.call("compactoptions_destroy", options)

    def snapshot(self):
        self.snapshots.append(self.pointer("create_snapshot", self.db))

    def release(self):
        self.call("release_snapshot", self.db, self.snapshots.pop(0))

    def files(self):
        live = self.pointer("livefiles", self.db)
        size = ctypes.c_size_t()
        found = []
        for i in range(self.call("livefiles_count", live, result=ctypes.c_int)):
            ends = []
            for name in ("smallestkey", "largestkey"):
                text = getattr(self.lib, "rocksdb_livefiles_" + name)(live, i, ctypes.byref(size))
                ends.append(text[: size.value].decode(errors="replace"))
            numbers = [
                getattr(self.lib, "rocksdb_livefiles_" + name)(live, i)
                for name in ("size", "entries", "deletions", "smallest_seqno", "largest_seqno")
            ]
            level = self.call("livefiles_level", live, i, result=ctypes.c_int)
            found.append([level, *ends, *numbers])
        self.call("livefiles_destroy", live)
        return found

    def close(self):
        for snapshot in self.snapshots:
            self.call("release_snapshot", self.db, snapshot)
        self.call("close", self.db)


def main():
    library, directory = sys.argv[1:3]
    case = json.loads(sys.stdin.read())
    os.makedirs(directory, exist_ok=True)
    run = Run(library, directory, case)
    for step in range(case["steps"]):
        run.do(step)
        print(json.dumps(run.files()), flush=True)
    run.close()


if __name__ == "__main__":
    main()
