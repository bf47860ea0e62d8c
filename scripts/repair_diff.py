#!/usr/bin/env python3
"""Damaged directories of RocksDB, repaired by two libraries: what is read afterwards is compared.

  scripts/repair_diff.py OURS ROCKSDB HEADER [FIRST [LAST]]

OURS and ROCKSDB are directories with a librocksdb.so, HEADER is RocksDB's c.h. For each seed (1 to 20) RocksDB writes a database of
two families with flushes and without compactions, so that nothing in it is obsolete; it is damaged in each of eight ways, each library
repairs a copy with rocksdb_repair_db, opens it and reads it. Both must read the same of each key, except where RocksDB's repair is
at fault by RocksDB's own word:

- it has lost a family of which no table was there, with its updates in the logs;
- its get and its iterator give other values, since a merge operand stands in the log's table and in another one;
- ours has what RocksDB read before the damage, or reads of a directory with a cut log without a repair, and RocksDB's has not:
  an operand counts twice, or more of a flipped table is lost.

Then each opens and reads what the other repaired. Exit status 1 if anything else differs.

  repair_diff.py --child LIBRARY HEADER make|repair|read DIRECTORY SEED      does one step
"""
import ctypes as C
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = [b"default", b"other"]
DAMAGES = ["nothing", "current", "manifest", "both", "table", "flipped", "log cut", "old manifest"]


def library(directory, header):
    spec = importlib.util.spec_from_file_location("adversary", os.path.join(HERE, "adversary.py"))
    adversary = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adversary)
    return adversary.Library(directory, header)


class Error(Exception):
    pass


def call(function, *arguments):
    error = C.c_char_p()
    result = function(*arguments, C.byref(error))
    if error.value:
        raise Error(error.value.decode(errors="replace"))
    return result


def options(lib):
    o = lib.options_create()
    lib.options_set_create_if_missing(o, 1)
    lib.options_set_create_missing_column_families(o, 1)
    lib.options_set_disable_auto_compactions(o, 1)
    lib.options_set_uint64add_merge_operator(o)
    return o


def open_all(lib, directory, o):
    names = (C.c_char_p * 2)(*FAMILIES)
    each = (C.c_void_p * 2)(o, o)
    handles = (C.c_void_p * 2)()
    db = call(lib.open_column_families, o, directory.encode(), 2, names, each, handles)
    return db, list(handles)


def make(lib, directory, seed):
    rng, o = random.Random(seed), options(lib)
    db, handles = open_all(lib, directory, o)
    write = lib.writeoptions_create()
    number = lambda: rng.randrange(1000).to_bytes(8, "little")
    for _ in range(rng.randrange(2, 6)):
        for _ in range(rng.randrange(1, 60)):
            h, key = rng.choice(handles), b"key%03d" % rng.randrange(80)
            kind = rng.randrange(10)
            if kind < 5:
                v = number()
                call(lib.put_cf, db, write, h, key, len(key), v, len(v))
            elif kind < 7:
                call(lib.delete_cf, db, write, h, key, len(key))
            elif kind < 9:
                v = number()
                call(lib.merge_cf, db, write, h, key, len(key), v, len(v))
            else:
                end = b"key%03d" % rng.randrange(80)
                if key < end:
                    call(lib.delete_range_cf, db, write, h, key, len(key), end, len(end))
        if rng.random() < 0.7:
            flush = lib.flushoptions_create()
            for h in handles:
                if rng.random() < 0.8:
                    call(lib.flush_cf, db, flush, h)
    # As after a kill: nothing is flushed at the end.
    os._exit(0)


def read(lib, directory):
    o = options(lib)
    try:
        db, handles = open_all(lib, directory, o)
    except Error as e:
        print("open:", str(e).split(":")[0])
        return
    ro = lib.readoptions_create()
    for name, h in zip(FAMILIES, handles):
        it = lib.create_iterator_cf(db, ro, h)
        lib.iter_seek_to_first(it)
        length = C.c_size_t()
        while lib.iter_valid(it):
            key = C.string_at(lib.iter_key(it, C.byref(length)), length.value)
            value = C.string_at(lib.iter_value(it, C.byref(length)), length.value)
            found = call(lib.get_cf, db, ro, h, key, len(key), C.byref(length))
            print(name.decode(), key.decode(), value.hex(), C.string_at(found, length.value).hex())
            lib.iter_next(it)
        lib.iter_destroy(it)
    for h in handles:
        lib.column_family_handle_destroy(h)
    lib.close(db)


def child(words):
    lib, (step, directory, seed) = library(words[0], words[1]), words[2:]
    if step == "make":
        make(lib, directory, int(seed))
    elif step == "repair":
        try:
            call(lib.repair_db, options(lib), directory.encode())
        except Error as e:
            print("repair:", str(e).split(":")[0])
        # For the other one, since an open changes a directory.
        shutil.copytree(directory, directory + "-as-repaired")
        read(lib, directory)
    else:
        read(lib, directory)
    return 0


def files(directory, begin="", end=""):
    return sorted(n for n in os.listdir(directory) if n.startswith(begin) and n.endswith(end))


def damage(directory, how, rng, early):
    path = lambda name: os.path.join(directory, name)
    if how in ("current", "both"):
        os.remove(path("CURRENT"))
    if how in ("manifest", "both"):
        for name in files(directory, "MANIFEST"):
            os.remove(path(name))
    tables, logs = files(directory, end=".sst"), files(directory, end=".log")
    if how == "table" and tables:
        os.remove(path(rng.choice(tables)))
    if how == "flipped" and tables:
        name = path(rng.choice(tables))
        with open(name, "r+b") as f:
            f.seek(rng.randrange(0, max(1, os.path.getsize(name) // 3)))
            byte = f.read(1)
            f.seek(-1, 1)
            f.write(bytes([byte[0] ^ 16]))
    if how == "log cut" and logs:
        name = path(logs[-1])
        os.truncate(name, os.path.getsize(name) // 2)
    if how == "old manifest":
        name = path(files(directory, "MANIFEST")[-1])
        with open(name, "wb") as f:
            f.write(early)


def rows(text):
    """Lines by family and key; others, like an error, by themselves."""
    found = {}
    for line in text.splitlines():
        words = line.split(" ")
        found[tuple(words[:2]) if len(words) == 4 else line] = tuple(words[2:])
    return found


def without_tables(directory):
    """Families that no table of a directory says it is of."""
    left = {f.decode() for f in FAMILIES}
    for name in files(directory, end=".sst"):
        with open(os.path.join(directory, name), "rb") as f:
            content = f.read()
        # The block of properties shares no beginnings of keys with values.
        left -= {f.decode() for f in FAMILIES if b"column.family.name" + f in content or b"name" + f in content}
    return left


def differing(ours, peer, witnesses=(), lost=()):
    """Keys of which two texts say something else, but for those where RocksDB is at fault."""
    ours, peer = rows(ours), rows(peer)
    witnesses = [found for found in map(rows, witnesses) if all(isinstance(key, tuple) for key in found)]
    seen = {key[0] for key in peer if isinstance(key, tuple)}
    out = []
    for key in sorted(set(ours) | set(peer), key=str):
        a, b = ours.get(key), peer.get(key)
        is_family_lost = isinstance(key, tuple) and key[0] in lost and key[0] not in seen
        is_doubled = b is not None and len(b) == 2 and b[0] != b[1]
        is_right = any(w.get(key) == a for w in witnesses)
        if a != b and not (is_family_lost or is_doubled or is_right):
            out.append((key, a, b))
    return out


def run(library, header, step, directory, seed=0):
    command = [sys.executable, os.path.abspath(__file__), "--child", library, header, step, directory, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    crash = "" if done.returncode == 0 else f"exit {done.returncode} {done.stderr[-300:]}\n"
    return done.stdout + crash


def main():
    ours, peer, header = sys.argv[1:4]
    numbers = [int(n) for n in sys.argv[4:6]]
    first = numbers[0] if numbers else 1
    last = numbers[1] if len(numbers) > 1 else max(first, 20)
    differ = cases = 0
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as scratch:
            base = os.path.join(scratch, "base")
            run(peer, header, "make", base, seed)
            name = files(base, "MANIFEST")[-1]
            whole = open(os.path.join(base, name), "rb").read()
            truth = read_copy(peer, header, base, scratch)
            for how in DAMAGES:
                rng, seen = random.Random(f"{seed} {how}"), {}
                bad = os.path.join(scratch, "bad")
                shutil.copytree(base, bad)
                # As it was some records earlier: a prefix that RocksDB's log format allows to be read.
                damage(bad, how, rng, whole[: len(whole) // 2])
                witnesses = [truth]
                if how == "log cut":
                    # A table that is lost or damaged would leave keys out here, too.
                    witnesses.append(read_copy(peer, header, bad, scratch))
                lost = without_tables(bad)
                for who, lib in (("ours", ours), ("peer", peer)):
                    copy = os.path.join(scratch, who)
                    shutil.copytree(bad, copy)
                    seen[who] = run(lib, header, "repair", copy)
                    crossed = run(peer if who == "ours" else ours, header, "read", copy + "-as-repaired")
                    # The second text is RocksDB's.
                    texts = (seen[who], crossed) if who == "ours" else (crossed, seen[who])
                    differ += show(f"seed {seed}, {how}: what {who} repaired the other reads otherwise", differing(*texts))
                cases += 1
                wrong = differing(seen["ours"], seen["peer"], witnesses, lost)
                differ += show(f"seed {seed}, {how}:", wrong)
                for name in os.listdir(scratch):
                    if name != "base":
                        shutil.rmtree(os.path.join(scratch, name))
    print(f"{cases} directories, {differ} differ")
    return 1 if differ else 0


def read_copy(library, header, directory, scratch):
    copy = os.path.join(scratch, "witness")
    shutil.copytree(directory, copy)
    text = run(library, header, "read", copy)
    shutil.rmtree(copy)
    return text


def show(title, wrong):
    if wrong:
        print(title, flush=True)
    for key, ours, peer in wrong[:8]:
        print("  " + (" ".join(key) if isinstance(key, tuple) else key), "ours:", ours, "peer:", peer)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(child(sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main())
