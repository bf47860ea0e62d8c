#!/usr/bin/env python3
"""Traces of queries cross between Spanlith and RocksDB: what one writes, the other reads and replays.

  interop_trace.py OURS ROCKSDB11 [--bench db_bench] [--programs N] [--first SEED] [--keep]

For each program: random writes and reads of two families run under both libraries while both trace; the records must be
the same, timestamps aside, also with filters, samples and writes in the order of their effect. Then each library replays
the other's trace into an empty database, which must end as the traced one. With --bench (7.8.3's) db_bench replays a
trace of ours, and ours one of db_bench's. Damaged traces must end in a text that both begin alike. Exit code 1 on any
difference.
"""
import argparse
import ctypes
import os
import random
import shutil
import subprocess
import sys
import tempfile
from ctypes import c_char_p, c_double, c_size_t, c_uint32, c_uint64, c_void_p

from txn_diff import Library as Calls

FORMS = [
    {},
    {"filter": 1},
    {"filter": 2 | 16},
    {"sampling_frequency": 3},
    {"preserve_write_order": 1},
    {"max_trace_file_size": 4000},
]


class Library(Calls):
    def __init__(self, path):
        super().__init__(path)
        self.env = self.pointer("create_default_env")
        self.envoptions = self.pointer("envoptions_create")
        self.options = self.pointer("options_create")
        self.call("options_set_create_if_missing", self.options, 1)
        self.call("options_set_create_missing_column_families", self.options, 1)
        self.writing, self.reading = self.pointer("writeoptions_create"), self.pointer("readoptions_create")

    def must(self, name, *args, ret=None):
        answer, error = self.tried(name, *args, ret=ret)
        if error:
            raise AssertionError(f"{name}: {error}")
        return answer

    def open(self, path, families=("default", "f")):
        names = (c_char_p * len(families))(*[f.encode() for f in families])
        options = (c_void_p * len(families))(*[self.options] * len(families))
        handles = (c_void_p * len(families))()
        db = c_void_p(self.must("open_column_families", self.options, path.encode(), len(families), names, options,
                                handles, ret=c_void_p))
        return db, [c_void_p(h) for h in handles]

    def close(self, db, families):
        for f in families:
            self.call("column_family_handle_destroy", f)
        self.call("close", db)

    def contents(self, db, family):
        it = self.pointer("create_iterator_cf", db, self.reading, family)
        self.call("iter_seek_to_first", it)
        all = []
        while self.call("iter_valid", it, ret=ctypes.c_ubyte):
            n = c_size_t()
            key = ctypes.string_at(self.call("iter_key", it, ctypes.byref(n), ret=c_void_p), n.value)
            value = ctypes.string_at(self.call("iter_value", it, ctypes.byref(n), ret=c_void_p), n.value)
            all.append((key, value))
            self.call("iter_next", it)
        self.call("iter_destroy", it)
        return all

    def run(self, db, families, program):
        for op in program:
            name, f = op[0], families[op[1]]
            if name == "put":
                self.must("put_cf", db, self.writing, f, op[2], c_size_t(len(op[2])), op[3], c_size_t(len(op[3])))
            elif name == "delete":
                self.must("delete_cf", db, self.writing, f, op[2], c_size_t(len(op[2])))
            elif name == "get":
                n = c_size_t()
                self.taken(self.must("get_cf", db, self.reading, f, op[2], c_size_t(len(op[2])), ctypes.byref(n),
                                     ret=c_void_p), n.value)
            elif name == "batch":
                batch = self.pointer("writebatch_create")
                for cf, key, value in op[2]:
                    if value is None:
                        self.call("writebatch_delete_range_cf", batch, families[cf], key, c_size_t(len(key)), key + b"~",
                                  c_size_t(len(key) + 1))
                    else:
                        self.call("writebatch_put_cf", batch, families[cf], key, c_size_t(len(key)), value,
                                  c_size_t(len(value)))
                self.must("write", db, self.writing, batch)
                self.call("writebatch_destroy", batch)
            elif name == "multi_get":
                n = len(op[2])
                handles = (c_void_p * n)(*[families[cf] for cf, _ in op[2]])
                keys = (c_char_p * n)(*[key for _, key in op[2]])
                sizes = (c_size_t * n)(*[len(key) for _, key in op[2]])
                values, lens, errs = (c_void_p * n)(), (c_size_t * n)(), (c_void_p * n)()
                self.call("multi_get_cf", db, self.reading, handles, c_size_t(n), keys, sizes, values, lens, errs)
                for value in values:
                    if value:
                        self.call("free", c_void_p(value))
            else:
                reading = self.pointer("readoptions_create")
                lower, upper = op[4], op[5]
                if lower:
                    self.call("readoptions_set_iterate_lower_bound", reading, lower, c_size_t(len(lower)))
                if upper:
                    self.call("readoptions_set_iterate_upper_bound", reading, upper, c_size_t(len(upper)))
                it = self.pointer("create_iterator_cf", db, reading, f)
                if name in ("seek", "seek_for_prev"):
                    self.call("iter_" + name, it, op[2], c_size_t(len(op[2])))
                else:
                    self.call("iter_" + name, it)
                for _ in range(op[3]):
                    if self.call("iter_valid", it, ret=ctypes.c_ubyte):
                        self.call("iter_next", it)
                self.call("iter_destroy", it)
                self.call("readoptions_destroy", reading)

    def start(self, db, path, form):
        options = self.pointer("trace_options_create")
        for name, value in form.items():
            kind = ctypes.c_ubyte if name == "preserve_write_order" else c_uint64
            self.call("trace_options_set_" + name, options, kind(value))
            got = self.call("trace_options_get_" + name, options, ret=kind)
            assert got == value, (name, got, value)
        self.must("start_trace", db, self.env, self.envoptions, options, path.encode())
        self.call("trace_options_destroy", options)

    def records(self, path):
        """Kind and payload of each record, and the text of an error at the end."""
        reader = c_void_p(self.must("trace_reader_create", self.env, self.envoptions, path.encode(), ret=c_void_p))
        all, error = [], None
        while True:
            n = c_size_t()
            p, error = self.tried("trace_reader_read", reader, ctypes.byref(n), ret=c_void_p)
            if error or not p:
                break
            data = self.taken(p, n.value)
            all.append((data[8], data[13:]))
        self.must("trace_reader_reset", reader)
        self.must("trace_reader_close", reader)
        self.call("trace_reader_destroy", reader)
        return all, error

    def replay(self, db, families, path, threads=1, fast_forward=1e6):
        handles = (c_void_p * len(families))(*families)
        replayer, error = self.tried("new_default_replayer", db, handles, c_size_t(len(families)), self.env,
                                     self.envoptions, path.encode(), ret=c_void_p)
        if error:
            return error
        replayer = c_void_p(replayer)
        options = self.pointer("replay_options_create")
        self.call("replay_options_set_num_threads", options, c_uint32(threads))
        self.call("replay_options_set_fast_forward", options, c_double(fast_forward))
        # Before it is prepared it says so.
        _, early = self.tried("replayer_replay", replayer, options)
        assert early and early.startswith("Result incomplete: Not prepared"), early
        _, error = self.tried("replayer_prepare", replayer)
        if not error:
            assert self.call("replayer_get_header_timestamp", replayer, ret=c_uint64) > 1_000_000
            _, error = self.tried("replayer_replay", replayer, options)
        if not error:
            _, again = self.tried("replayer_replay", replayer, options)
            assert again and again.startswith("Result incomplete: Trace end"), again
        self.call("replay_options_destroy", options)
        self.call("replayer_destroy", replayer)
        return error


def program_of(rng, n):
    key = lambda: b"k%03d" % rng.randrange(200)
    value = lambda: bytes(rng.randrange(97, 123) for _ in range(rng.randrange(0, 60)))
    bound = lambda: rng.choice([b"", b"", key()])
    ops = []
    for _ in range(n):
        name = rng.choice(["put", "put", "put", "delete", "get", "get", "batch", "multi_get", "seek", "seek_for_prev",
                           "seek_to_first", "seek_to_last"])
        f = rng.randrange(2)
        if name == "put":
            ops.append((name, f, key(), value()))
        elif name in ("delete", "get"):
            ops.append((name, f, key()))
        elif name == "batch":
            some = [(rng.randrange(2), key(), rng.choice([None, value(), value()])) for _ in range(rng.randrange(1, 6))]
            ops.append((name, f, some))
        elif name == "multi_get":
            ops.append((name, f, [(rng.randrange(2), key()) for _ in range(rng.randrange(1, 5))]))
        else:
            lower, upper = sorted((bound(), bound()))
            ops.append((name, f, key(), rng.randrange(4), lower, upper))
    return ops


def first_words(error):
    return error and error.split(":")[0]


class Check:
    def __init__(self):
        self.failed = 0
        self.passed = 0

    def same(self, what, a, b):
        if a == b:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAIL {what}")
        if isinstance(a, list) and isinstance(b, list):
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            print(f"  {len(a)} and {len(b)} entries; the first difference at {at}: {a[at:at + 1]} and {b[at:at + 1]}")
        else:
            print(f"  {a!r} and {b!r}")


def with_bench(check, ours, peer, bench, dir):
    """db_bench of 7.8.3 on both sides. Its keys are its own; contents are read by the peer."""
    db, families = ours.open(f"{dir}/ours", ("default",))
    trace = f"{dir}/ours.trace"
    ours.start(db, trace, {})
    rng = random.Random(7)
    ours.run(db, families, [op for op in program_of(rng, 400) if op[1] == 0 and op[0] in
                            ("put", "delete", "get", "seek", "seek_for_prev")])
    ours.must("end_trace", db)
    expected = ours.contents(db, families[0])
    ours.close(db, families)
    run = lambda *args: subprocess.run([bench, "--compression_type=none", *args], check=True, capture_output=True, text=True)
    run("--benchmarks=replay", f"--trace_file={trace}", f"--db={dir}/by-bench", "--trace_replay_fast_forward=1000000",
        "--num=1", "--num_column_families=2")
    # Without families of its own it has no handles to replay with.
    db, families = peer.open(f"{dir}/by-bench", ("default", "column_family_name_000001"))
    check.same("our trace, replayed by db_bench", peer.contents(db, families[0]), expected)
    peer.close(db, families)

    trace = f"{dir}/bench.trace"
    run("--benchmarks=fillrandom", f"--trace_file={trace}", f"--db={dir}/bench", "--num=2000", "--value_size=50")
    run("--benchmarks=mixgraph", f"--trace_file={trace}.mix", f"--db={dir}/bench", "--use_existing_db", "--num=2000",
        "--reads=3000", "--key_size=16", "--value_k=0.2615", "--value_sigma=25.45", "--iter_k=2.517",
        "--iter_sigma=14.236", "--mix_get_ratio=0.83", "--mix_put_ratio=0.14", "--mix_seek_ratio=0.03")
    db, families = ours.open(f"{dir}/of-bench", ("default",))
    for name in (trace, trace + ".mix"):
        check.same(f"{os.path.basename(name)}, replayed by ours", ours.replay(db, families, name), None)
    found = ours.contents(db, families[0])
    ours.close(db, families)
    db, families = peer.open(f"{dir}/bench", ("default",))
    check.same("db_bench's traces, replayed by ours", found, peer.contents(db, families[0]))
    peer.close(db, families)


def damaged(check, ours, peer, trace, dir):
    with open(trace, "rb") as f:
        whole = f.read()
    cases = {"cut in a record": whole[:-20], "cut in its header": whole[:30], "empty": b"", "no trace": b"x" * 500,
             "a record of another kind": whole[:-13] + whole[-13:-5] + b"\x63" + whole[-4:],
             "no end": whole[:-13]}
    for name, data in cases.items():
        path = f"{dir}/damaged"
        with open(path, "wb") as f:
            f.write(data)
        got = []
        for library in (ours, peer):
            target = tempfile.mkdtemp(dir=dir)
            db, families = library.open(target)
            got.append(first_words(library.replay(db, families, path)))
            library.close(db, families)
        check.same(f"a trace that is damaged ({name}): what the replayer says", *got)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ours")
    parser.add_argument("peer")
    parser.add_argument("--bench")
    parser.add_argument("--programs", type=int, default=6)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    ours, peer = Library(args.ours), Library(args.peer)
    check = Check()
    dir = tempfile.mkdtemp(prefix="interop-trace.")
    for at in range(args.programs):
        seed, form = args.first + at, FORMS[at % len(FORMS)]
        program = program_of(random.Random(seed), 300)
        traces, ends, records = [], [], []
        for name, library in (("ours", ours), ("peer", peer)):
            db, families = library.open(f"{dir}/{seed}-{name}")
            trace = f"{dir}/{seed}-{name}.trace"
            library.start(db, trace, form)
            library.run(db, families, program)
            library.must("end_trace", db)
            _, again = library.tried("end_trace", db)
            ends.append([library.contents(db, f) for f in families] + [first_words(again)])
            library.close(db, families)
            traces.append(trace)
            records.append(library.records(trace)[0])
        what = f"seed {seed} {form}"
        check.same(f"{what}: states", ends[0], ends[1])
        # The header names the release.
        check.same(f"{what}: records", records[0][1:], records[1][1:])
        for name, library, trace, theirs in (("ours", ours, traces[1], records[1]), ("peer", peer, traces[0], records[0])):
            check.same(f"{what}: records of the other, read by {name}", library.records(trace)[0], theirs)
            db, families = library.open(f"{dir}/{seed}-{name}-replayed")
            check.same(f"{what}: replayed by {name}", library.replay(db, families, trace), None)
            if form in ({}, {"filter": 1}, {"preserve_write_order": 1}):
                check.same(f"{what}: replayed by {name}: states", [library.contents(db, f) for f in families], ends[0][:2])
            library.close(db, families)
        if at == 0:
            damaged(check, ours, peer, traces[0], dir)
    if args.bench:
        with_bench(check, ours, peer, args.bench, dir)
    print(f"interop_trace: {check.passed} comparisons agree, {check.failed} differ")
    if check.failed or args.keep:
        print(f"  directory kept: {dir}")
    else:
        shutil.rmtree(dir)
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
