#!/usr/bin/env python3
"""Range deletions, snapshots and compactions over six keys in tables of one entry; two libraries compared.

  scripts/range_cuts.py OURS REFERENCE HEADER [FIRST [LAST]]

OURS and REFERENCE are directories with a librocksdb.so, HEADER is RocksDB's c.h. Seeds FIRST to LAST (1 to
100) are run in a process per library. Outputs are cut between versions of one key, at tombstones and inside
them, and compacted again and again. After each compaction every table is listed: level, keys, entries,
deletions, bytes, name; and after each step all keys are read and compared with a model. The exit status is 1
if a seed differs, or a read is wrong.
"""
import ctypes as C
import os
import random
import subprocess
import sys
import tempfile

from adversary import PTR, SIZE, Library, lent, taken

STEPS = 150


def run(library, header, seed, directory):
    lib, rng = Library(library, header), random.Random(seed)

    def call(name, *arguments):
        error = PTR(None)
        result = getattr(lib, name)(*arguments, C.byref(error))
        text = taken(error.value)
        if text:
            print(name, text.decode().replace(directory, "DIR"))
        return result

    options, table = lib.options_create(), lib.block_based_options_create()
    lib.options_set_create_if_missing(options, 1)
    lib.options_set_compression(options, 0)
    lib.options_set_level_compaction_dynamic_level_bytes(options, rng.random() < 0.5)
    lib.options_set_disable_auto_compactions(options, 1)
    lib.options_set_num_levels(options, rng.choice([3, 4, 7]))
    lib.options_set_target_file_size_base(options, rng.choice([1, 300, 1000, 3000]))
    lib.block_based_options_set_block_size(table, 64)
    lib.options_set_block_based_table_factory(options, table)
    db = call("open", options, directory.encode())
    writing, reading = lib.writeoptions_create(), lib.readoptions_create()
    family, flushing = lib.get_default_column_family_handle(db), lib.flushoptions_create()
    keys = [b"%c%s" % (97 + i, b"x" * rng.randrange(3)) for i in range(6)]
    model, snapshots = {}, []

    def compact():
        o = lib.compactoptions_create()
        lib.compactoptions_set_bottommost_level_compaction(o, rng.choice([0, 1, 2, 3]))
        if rng.random() < 0.4:
            lib.compactoptions_set_change_level(o, 1)
            lib.compactoptions_set_target_level(o, rng.randrange(1, 3))
        a, b = sorted(rng.sample(keys, 2))
        a, b = (k if rng.random() < 0.5 else None for k in (a, b))
        lib.compact_range_cf_opt(db, family, o, a, len(a or b""), b, len(b or b""))
        live, length = lib.livefiles(db), SIZE()
        for n in range(lib.livefiles_count(live)):
            ends = []
            for side in (lib.livefiles_smallestkey, lib.livefiles_largestkey):
                end = side(live, n, C.byref(length))
                ends.append(lent(end, length.value))
            print(lib.livefiles_level(live, n), ends,
                  lib.livefiles_entries(live, n), lib.livefiles_deletions(live, n), lib.livefiles_size(live, n),
                  C.string_at(lib.livefiles_name(live, n)))
        lib.livefiles_destroy(live)
        print(taken(lib.property_value(db, b"rocksdb.aggregated-table-properties")).decode()[:260])

    for step in range(STEPS):
        kind = rng.random()
        if kind < 0.45:
            key, value = rng.choice(keys), b"%d" % step * rng.choice([1, 30, 300])
            call("put", db, writing, key, len(key), value, len(value))
            model[key] = value
        elif kind < 0.6:
            a, b = sorted(rng.sample(keys + [b"zz"], 2))
            call("delete_range_cf", db, writing, family, a, len(a), b, len(b))
            for key in keys:
                if a <= key < b:
                    model.pop(key, None)
        elif kind < 0.75:
            snapshots.append(lib.create_snapshot(db))
            if len(snapshots) > 5:
                lib.release_snapshot(db, snapshots.pop(rng.randrange(len(snapshots))))
        elif kind < 0.9:
            call("flush", db, flushing)
        else:
            print(f"# {step}")
            compact()
        for key in keys:
            length = SIZE()
            got = taken(call("get", db, reading, key, len(key), C.byref(length)), length.value)
            if got != model.get(key):
                print(f"WRONG at step {step}: {key} is {(got or b'-')[:10]}, not {model.get(key, b'-')[:10]}")
    # Callbacks and the database are gone with the process.
    sys.stdout.flush()
    os._exit(0)


def main():
    if sys.argv[1:2] == ["--child"]:
        library, header, seed, directory = sys.argv[2:6]
        run(library, header, int(seed), directory)
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    last = int(sys.argv[5]) if len(sys.argv) > 5 else max(first, 100)
    differing = 0
    for seed in range(first, last + 1):
        traces = []
        for library in sys.argv[1:3]:
            with tempfile.TemporaryDirectory() as scratch:
                child = [sys.executable, __file__, "--child", library, sys.argv[3], str(seed), scratch + "/db"]
                done = subprocess.run(child, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
                traces.append(done.stdout.decode("latin1").split("\n") + [f"exit status {done.returncode}"])
        ours, reference = traces
        if ours == reference and not any(line.startswith("WRONG") for line in ours):
            continue
        differing += 1
        at = next((n for n, pair in enumerate(zip(ours, reference)) if pair[0] != pair[1]), 0)
        wrong = [line for line in ours if line.startswith("WRONG")][:1]
        print(f"seed {seed}, line {at + 1}", f"  ours:      {ours[at][:300]}", f"  reference: {reference[at][:300]}",
              *wrong, sep="\n", flush=True)
    print(f"{last - first + 1} programs, {differing} differ")
    sys.exit(differing != 0)


if __name__ == "__main__":
    main()
