#!/usr/bin/env python3
"""Column families that one library exported are imported by the other, and by itself.

    scripts/interop_export.py OURS PEER [--rounds N] [--seed N]

Each library is driven through its C functions in a process of its own. A random family (overwrites, deletions, range
deletions, merges by an operator that both have, several levels, flushed or compacted) is exported; what the C functions
say of its files is handed on as text, made into metadata again, and imported; contents are compared by scans, before and
after a compaction and another open. Prints what was compared; ends with 1 at the first difference.
"""
import argparse
import ctypes as C
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

P, S, N = C.c_void_p, C.c_char_p, C.c_size_t


class Lib:
    def __init__(self, path):
        self.lib = C.CDLL(path)

    def __call__(self, name, *args, res=P):
        f = getattr(self.lib, "rocksdb_" + name)
        f.restype = res
        conv = []
        for a in args:
            conv.append(a if not isinstance(a, int) or isinstance(a, bool) else C.c_longlong(a))
        return f(*conv)

    def tried(self, name, *args, res=P):
        err = S()
        out = self(name, *args, C.byref(err), res=res)
        if err.value is not None:
            raise RuntimeError(f"{name}: {err.value.decode()}")
        return out


FIELDS = ["column_family_name", "name", "directory"]
NUMBERS = ["level", "size", "smallest_seqno", "largest_seqno"]


def describe(L, meta):
    """What the C functions say of an export."""
    files = P(L("export_import_files_metadata_get_files", meta))
    out = []
    for at in range(L("livefiles_count", files, res=C.c_int)):
        f = {k: L("livefiles_" + k, files, at, res=S).decode() for k in FIELDS}
        f |= {k: L("livefiles_" + k, files, at, res=C.c_uint64 if "seq" in k or k == "size" else C.c_int) for k in NUMBERS}
        for k in ["smallestkey", "largestkey"]:
            n = N()
            at_key = L("livefiles_" + k, files, at, C.byref(n), res=P)
            f[k] = C.string_at(at_key, n.value).hex()
        f["counts"] = [L("livefiles_" + k, files, at, res=C.c_uint64) for k in ["entries", "deletions"]]
        out.append(f)
    name = L("export_import_files_metadata_get_db_comparator_name", meta, res=P)
    return {"comparator": C.string_at(name).decode(), "files": out}


def metadata(L, told):
    meta = P(L("export_import_files_metadata_create"))
    L("export_import_files_metadata_set_db_comparator_name", meta, told["comparator"].encode(), res=None)
    files = P(L("livefiles_create"))
    for f in told["files"]:
        one = P(L("livefile_create"))
        for k in FIELDS:
            L("livefile_set_" + k, one, f[k].encode(), res=None)
        for k in NUMBERS:
            L("livefile_set_" + k, one, f[k], res=None)
        for k, setter in [("smallestkey", "smallest_key"), ("largestkey", "largest_key")]:
            key = bytes.fromhex(f[k])
            L("livefile_set_" + setter, one, key, N(len(key)), res=None)
        L("livefiles_add", files, one, res=None)
    L("export_import_files_metadata_set_files", meta, files, res=None)
    return meta


def options(L):
    o = P(L("options_create"))
    for name, value in [
        ("create_if_missing", 1), ("create_missing_column_families", 1), ("write_buffer_size", 64 << 10),
        ("target_file_size_base", 16 << 10), ("max_bytes_for_level_base", 64 << 10),
    ]:
        L("options_set_" + name, o, value, res=None)
    L("options_set_uint64add_merge_operator", o, res=None)
    return o


def scan(L, db, cf):
    ro = P(L("readoptions_create"))
    it = P(L("create_iterator_cf", db, ro, cf))
    L("iter_seek_to_first", it, res=None)
    out = []
    while L("iter_valid", it, res=C.c_ubyte):
        n = N()
        key = C.string_at(L("iter_key", it, C.byref(n)), n.value)
        value = C.string_at(L("iter_value", it, C.byref(n)), n.value)
        out.append((key.hex(), value.hex()))
        L("iter_next", it, res=None)
    L("iter_destroy", it, res=None)
    return out


def open_with(L, path, names):
    o = options(L)
    handles = (P * len(names))()
    array = (S * len(names))(*[n.encode() for n in names])
    opts = (P * len(names))(*[o] * len(names))
    db = P(L.tried("open_column_families", o, path.encode(), len(names), array, opts, handles))
    return o, db, [P(h) for h in handles]


def export(L, work, seed):
    rng = random.Random(seed)
    o, db, (_, cf) = open_with(L, work + "/from", ["default", "old"])
    wo, fo = P(L("writeoptions_create")), P(L("flushoptions_create"))
    for n in range(rng.choice([0, 1, 300, 3000])):
        key = b"%04d" % rng.randrange(600)
        kind = rng.random()
        if kind < 0.1:
            L.tried("delete_cf", db, wo, cf, key, N(len(key)), res=None)
        elif kind < 0.13:
            end = key + b"~"
            L.tried("delete_range_cf", db, wo, cf, key, N(len(key)), end, N(len(end)), res=None)
        elif kind < 0.2:
            L.tried("merge_cf", db, wo, cf, key, N(len(key)), (5).to_bytes(8, "little"), N(8), res=None)
        else:
            value = rng.randrange(1 << 60).to_bytes(8, "little")
            L.tried("put_cf", db, wo, cf, key, N(len(key)), value, N(8), res=None)
        if rng.random() < 0.002:
            L.tried("flush_cf", db, fo, cf, res=None)
        if rng.random() < 0.0005:
            L("compact_range_cf", db, cf, None, N(0), None, N(0), res=None)
    if rng.random() < 0.3:
        L("compact_range_cf", db, cf, None, N(0), None, N(0), res=None)
    cp = P(L.tried("checkpoint_object_create", db))
    try:
        meta = P(L.tried("checkpoint_export_column_family", cp, cf, (work + "/out").encode()))
        told, error = describe(L, meta), None
    except RuntimeError as e:
        told, error = None, str(e)
    try:
        L.tried("checkpoint_export_column_family", cp, cf, (work + "/out").encode())
        twice = None
    except RuntimeError as e:
        twice = str(e)
    listed = sorted(os.listdir(work + "/out")) if os.path.isdir(work + "/out") else None
    seen = scan(L, db, cf)
    L("column_family_handle_destroy", cf, res=None)
    L("close", db, res=None)
    return {"told": told, "error": error, "twice": twice, "listed": len(listed or []), "seen": seen}


def take(L, work, told, moves):
    o, db, handles = open_with(L, work + "/to", ["default"])
    io = P(L("import_column_family_options_create"))
    L("import_column_family_options_set_move_files", io, moves, res=None)
    # Else a compaction may have moved the tables before their levels are looked at.
    L("options_set_disable_auto_compactions", o, 1, res=None)
    errors = []
    wrong = [
        {**told, "files": []},
        {**told, "comparator": "leveldb.ReverseBytewiseComparator"},
        {**told, "files": [{**f, "name": "/missing.sst"} for f in told["files"]]},
    ]
    for w in wrong:
        try:
            L.tried("create_column_family_with_import", db, o, b"wrong", io, metadata(L, w))
            errors.append("none")
        except RuntimeError as e:
            errors.append(str(e).split(": ")[1])
    try:
        cf = P(L.tried("create_column_family_with_import", db, o, b"new", io, metadata(L, told)))
    except RuntimeError as e:
        return {"error": str(e), "errors": errors}
    seen = [scan(L, db, cf)]
    prop = lambda p: L("property_value_cf", db, cf, p.encode(), res=S).decode()
    shape = [prop(f"rocksdb.num-files-at-level{n}") for n in range(7)]
    wo = P(L("writeoptions_create"))
    L.tried("put_cf", db, wo, cf, b"0100", N(4), b"laterlat", N(8), res=None)
    seen.append(scan(L, db, cf))
    L("compact_range_cf", db, cf, None, N(0), None, N(0), res=None)
    seen.append(scan(L, db, cf))
    L("column_family_handle_destroy", cf, res=None)
    L("close", db, res=None)
    o, db, (_, cf) = open_with(L, work + "/to", ["default", "new"])
    seen.append(scan(L, db, cf))
    L("column_family_handle_destroy", cf, res=None)
    L("close", db, res=None)
    left = len(os.listdir(work + "/out"))
    return {"seen": seen, "shape": shape, "left": left, "errors": errors, "error": None}


def worker():
    lib, verb, work, rest = sys.argv[2:6]
    L, rest = Lib(lib), json.loads(rest)
    out = export(L, work, rest) if verb == "export" else take(L, work, *rest)
    print(json.dumps(out))


def run(lib, verb, work, rest):
    cmd = [sys.executable, __file__, "--worker", lib, verb, work, json.dumps(rest)]
    done = subprocess.run(cmd, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{verb} by {lib} in {work}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("ours")
    p.add_argument("peer")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    libs = {"ours": a.ours, "peer": a.peer}
    crossings = 0
    for seed in range(a.seed, a.seed + a.rounds):
        exports = {}
        for who, lib in libs.items():
            work = tempfile.mkdtemp(prefix=f"export-{seed}-{who}-")
            exports[who] = (work, run(lib, "export", work, seed))
        ours, peer = exports["ours"][1], exports["peer"][1]
        for field in ["seen", "error", "twice"]:
            if ours[field] != peer[field]:
                sys.exit(f"seed {seed}: exports differ in {field}: {ours[field]!r:.300} {peer[field]!r:.300}")
        if ours["told"] and ours["told"]["files"] and peer["told"]["files"]:
            one, other = (side["told"]["files"][0] for side in [ours, peer])
            if [one["column_family_name"], one["counts"]] != [other["column_family_name"], other["counts"]]:
                sys.exit(f"seed {seed}: exports describe their files differently: {one} {other}")
        for who, (work, made) in exports.items():
            if made["told"] is None:
                continue
            for other, lib in libs.items():
                moves = seed % 2
                place = tempfile.mkdtemp(prefix=f"import-{seed}-")
                shutil.copytree(work + "/out", place + "/out")
                told = json.loads(json.dumps(made["told"]).replace(work, place))
                got = run(lib, "import", place, [told, moves])
                where = f"seed {seed}: {who} exported, {other} imported"
                if not made["told"]["files"]:
                    if got["error"] is None:
                        sys.exit(f"{where}: nothing was taken")
                elif got["error"]:
                    sys.exit(f"{where}: {got['error']}")
                else:
                    later = dict(map(tuple, made["seen"])) | {b"0100".hex(): b"laterlat".hex()}
                    want = [made["seen"]] + [[list(x) for x in sorted(later.items())]] * 3
                    if got["seen"] != want:
                        sys.exit(f"{where}: contents differ in {place}")
                    if got["left"] != (0 if moves else len(made["told"]["files"])):
                        sys.exit(f"{where}: {got['left']} files are left")
                if other == "ours":
                    mine = got
                elif mine.get("shape") != got.get("shape") or mine["errors"] != got["errors"]:
                    sys.exit(f"{where}: {mine.get('shape')} {got.get('shape')} {mine['errors']} {got['errors']}")
                crossings += 1
                shutil.rmtree(place)
        for work, _ in exports.values():
            shutil.rmtree(work)
    print(f"{a.rounds} families, {crossings} imports, seeds {a.seed} to {a.seed + a.rounds - 1}: the same")


if __name__ == "__main__":
    worker() if len(sys.argv) > 1 and sys.argv[1] == "--worker" else main()
