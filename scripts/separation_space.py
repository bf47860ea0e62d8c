#!/usr/bin/env python3
"""Space and written bytes of values in blob files while data is overwritten (X-TR-2, R-TR-06, R-TR-13, R-TR-16).

  separation_space.py --lib NAME=DIR[:own options] ... [--values BYTES] [--keys N] [--overwrites N] [--zipf]
                      [--options TEXT] [--rate MB] [--work DIR] [--seed N]

DIR holds a librocksdb.so. Each library, in a process of its own, loads N keys in random order and then overwrites
them N × overwrites times, uniformly or by a Zipf law, without a log. Every 100 ms the bytes of tables and blob files in the
directory are divided by the bytes of the live keys and values. The last line of a library says the largest and the mean of
these shares during the overwrites, bytes written to files for each byte of the user, and the process's CPU seconds. Own options, which RocksDB
lacks, follow the directory behind a colon.
"""
import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

BASE = "create_if_missing=true;compression=kNoCompression;write_buffer_size={buffer};max_bytes_for_level_base={base}"


def written():
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file.read().splitlines())["wchar"])


def run(a):
    name, _, rest = a.one.partition("=")
    directory, _, own = rest.partition(":")
    lib = ctypes.CDLL(os.path.join(directory, "librocksdb.so"))
    pointer = ctypes.c_void_p
    for function in ("options_create", "open", "writeoptions_create", "flushoptions_create"):
        getattr(lib, "rocksdb_" + function).restype = pointer
    lib.rocksdb_property_int.argtypes = [pointer, ctypes.c_char_p, pointer]
    error = ctypes.c_char_p()

    def check():
        if error.value:
            sys.exit(f"{name}: {error.value.decode(errors='replace')}")

    options, plain = pointer(lib.rocksdb_options_create()), pointer(lib.rocksdb_options_create())
    text = BASE.format(buffer=a.buffer, base=a.buffer * 4) + ";" + a.options
    lib.rocksdb_get_options_from_string(plain, text.encode(), options, ctypes.byref(error))
    check()
    if own:
        lib.spanlith_options_set(options, own.encode(), ctypes.byref(error))
        check()
    path = os.path.join(a.work, name.replace("/", "_"))
    db = pointer(lib.rocksdb_open(options, path.encode(), ctypes.byref(error)))
    check()
    write = pointer(lib.rocksdb_writeoptions_create())
    lib.rocksdb_writeoptions_disable_WAL(write, 1)
    rng = random.Random(a.seed)
    filler = bytes(rng.getrandbits(8) for _ in range(a.values + 4096))
    largest = None
    user, phase, shares, live = 0, "load", [], a.keys * (16 + a.values)

    def sample():
        total = 0
        for entry in os.scandir(path):
            if entry.name.endswith((".sst", ".blob")):
                try:
                    total += entry.stat().st_size
                except FileNotFoundError:
                    pass
        return total / live

    def number(name):
        value = ctypes.c_uint64()
        lib.rocksdb_property_int(db, b"rocksdb." + name, ctypes.byref(value))
        return value.value

    def parts():
        """Garbage that is known, values that are hidden by newer ones, and tables, as shares; all files of the version."""
        garbage, blobs = number(b"live-blob-file-garbage-size"), number(b"live-blob-file-size")
        tables = number(b"live-sst-files-size")
        return dict(garbage=round(garbage / live, 3), hidden=round((blobs - garbage) / live - 1, 3),
                    tables=round(tables / live, 3)), (blobs + tables) / live

    def watch():
        nonlocal largest
        while phase != "end":
            if phase == "overwrite":
                (of_version, known), share = parts(), sample()
                shares.append(share)
                if share >= max(shares):
                    # Written and not yet of the version, or not yet deleted.
                    largest = of_version | dict(share=round(share, 3), other_files=round(share - known, 3))
            time.sleep(0.1)

    def put(key):
        nonlocal user
        at = rng.randrange(4096)
        key = b"%016d" % (key * 2654435761 % 10**16)
        lib.rocksdb_put(db, write, key, ctypes.c_size_t(16), filler[at:at + a.values], ctypes.c_size_t(a.values), ctypes.byref(error))
        check()
        user += 16 + a.values
        if a.rate:
            ahead = user / (a.rate * 1e6) - (time.monotonic() - began)
            if ahead > 0.01:
                time.sleep(ahead)

    order = list(range(a.keys))
    rng.shuffle(order)
    before, began = written(), time.monotonic()
    for key in order:
        put(key)
    loaded = (written() - before) / user
    watcher = threading.Thread(target=watch)
    phase = "overwrite"
    watcher.start()
    first, user_first = written(), user
    for _ in range(a.keys * a.overwrites):
        put(order[min(int(rng.paretovariate(0.6)) - 1, a.keys - 1)] if a.zipf else rng.randrange(a.keys))
    over = (written() - first) / (user - user_first)
    phase = "end"
    watcher.join()
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    out = ctypes.create_string_buffer(1)
    lib.rocksdb_property_value.restype = pointer
    blobs = ctypes.string_at(lib.rocksdb_property_value(db, b"rocksdb.blob-stats")).decode().replace("\n", "; ")
    print(json.dumps(dict(library=name, own=own, zipf=a.zipf, value=a.values, keys=a.keys, overwrites=a.overwrites, samples=len(shares),
                          space_max=round(max(shares), 3), space_mean=round(sum(shares) / len(shares), 3),
                          written_load=round(loaded, 2), written_overwrite=round(over, 2), at_largest=largest,
                          cpu_seconds=round(cpu.ru_utime + cpu.ru_stime, 1), blobs=blobs)), flush=True)
    del out
    lib.rocksdb_close(db)
    shutil.rmtree(path, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", action="append", default=[], metavar="NAME=DIR[:OWN]")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--values", type=int, default=4096)
    parser.add_argument("--keys", type=int, default=16000)
    parser.add_argument("--overwrites", type=int, default=5)
    parser.add_argument("--buffer", type=int, default=2 << 20, help="bytes of a memtable; the level base is four times that")
    parser.add_argument("--rate", type=float, default=0, metavar="MB", help="megabytes that are written in a second at most; 0 for no limit")
    parser.add_argument("--zipf", action="store_true")
    parser.add_argument("--options", default="enable_blob_files=true;blob_file_size=4194304;enable_blob_garbage_collection=true")
    parser.add_argument("--work")
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    made = None if a.work else tempfile.mkdtemp(prefix="separation.")
    a.work = a.work or made
    if a.one:
        return run(a)
    rest = [arg for arg in sys.argv[1:]]
    for lib in a.lib:
        while "--lib" in rest:
            at = rest.index("--lib")
            del rest[at:at + 2]
        subprocess.run([sys.executable, __file__, "--one", lib, "--work", a.work] + [r for r in rest], check=False)
    if made:
        shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    main()
