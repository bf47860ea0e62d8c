#!/usr/bin/env python3
"""Tables whose blocks have several codecs (`codec_choice=adaptive`) are read, written on and compacted by RocksDB.

  interop_codecs.py OURS PEER:FORMAT...

OURS and each PEER are a librocksdb.so; FORMAT is the format version of the tables, 5 for 7.8.3 and 7 for 11.8.1. Ours
writes text, repeated noise and noise in three ranges of keys, flushes and compacts, so that one table has blocks with
Zstandard, with LZ4 and with none: a table of version 7 names its codecs, and they are looked at. The peer scans it and gets
each key, overwrites and deletes some, compacts, and ours reads that. Each session is a process of its own. The last line is
"N peers, M failed".
"""
import ctypes
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile

from interop_flat import P, S, U8, Z, Library

COMMON = ("create_if_missing=true;compression=kZSTD;write_buffer_size=1048576;target_file_size_base=67108864;"
          "disable_auto_compactions=true;block_based_table_factory={format_version=%s;filter_policy=bloomfilter:10:false}")


def open_with(library, path, form, own):
    base, options = library.call("options_create", P), library.call("options_create", P)
    library.call("get_options_from_string", None, (P, base), (S, (COMMON % form).encode()), (P, options), error=True)
    if own:
        said = S()
        library.lib.spanlith_options_set(P(options), S(own.encode()), ctypes.byref(said))
        if said.value:
            raise RuntimeError(said.value.decode())
    return library.call("open", P, (P, options), (S, path.encode()), error=True)


def session(path, form, own, writes, compacts):
    """What the database holds after the writes, as the library shows it."""
    library = Library(sys.argv[2])
    db = open_with(library, path, form, own)
    write, flush = library.call("writeoptions_create", P), library.call("flushoptions_create", P)
    for key, value in writes:
        if value is None:
            library.call("delete", None, (P, db), (P, write), (S, key), (Z, len(key)), error=True)
        else:
            library.call("put", None, (P, db), (P, write), (S, key), (Z, len(key)), (S, value), (Z, len(value)), error=True)
    if writes:
        library.call("flush", None, (P, db), (P, flush), error=True)
    if compacts:
        library.call("compact_range", None, (P, db), (S, None), (Z, 0), (S, None), (Z, 0))
    read, n, rows = library.call("readoptions_create", P), Z(), {}
    library.call("readoptions_set_verify_checksums", None, (P, read), (U8, 1))
    it = library.call("create_iterator", P, (P, db), (P, read))
    library.call("iter_seek_to_first", None, (P, it))
    while library.call("iter_valid", U8, (P, it)):
        key, value = [ctypes.string_at(library.call("iter_" + what, P, (P, it), (ctypes.POINTER(Z), ctypes.byref(n))), n.value)
                      for what in ("key", "value")]
        rows[key] = value
        library.call("iter_next", None, (P, it))
    library.call("iter_get_error", None, (P, it), error=True)
    library.call("iter_destroy", None, (P, it))
    for key, value in rows.items():
        found = library.call("get", P, (P, db), (P, read), (S, key), (Z, len(key)), (ctypes.POINTER(Z), ctypes.byref(n)),
                             error=True)
        if not found or ctypes.string_at(found, n.value) != value:
            raise RuntimeError(f"a get of {key} gives something else than a scan")
    library.call("close", None, (P, db))
    return rows


def run(lib, *what):
    done = subprocess.run([sys.executable, __file__, "--session", lib], capture_output=True, input=pickle.dumps(what),
                          timeout=300)
    if done.returncode:
        raise RuntimeError(f"{lib}: exit code {done.returncode}: {done.stderr.decode().strip().splitlines()[-1:]}")
    return pickle.loads(done.stdout)


def values(rng):
    """Text, noise that lies twice in a value, and noise."""
    words = [bytes(rng.choices(b"etaoinshrdlu", k=rng.randrange(2, 9))) for _ in range(500)]
    out = {}
    for n in range(2000):
        out[b"a%06d" % n] = b" ".join(rng.choices(words, k=70))
        out[b"b%06d" % n] = rng.randbytes(200) * 2
        out[b"c%06d" % n] = rng.randbytes(400)
    return out


def codecs(path):
    """Codecs that the tables of version 7 name."""
    found = set()
    for table in pathlib.Path(path).glob("*.sst"):
        for names in re.findall(rb"BuiltinV2;([0-9A-F]*);", table.read_bytes()):
            found.add(names.decode())
    return found


def crossing(ours, peer, form, path):
    rng = random.Random(form)
    model = values(rng)
    writes = list(model.items())
    rng.shuffle(writes)
    if run(ours, path, form, "codec_choice=adaptive", writes, True) != model:
        raise RuntimeError("ours shows something else than was written")
    if form == "7" and "0407" not in codecs(path):
        raise RuntimeError(f"no table has blocks of LZ4 and of Zstandard: {codecs(path)}")
    raw = sum(len(key) + len(value) for key, value in model.items())
    size = sum(table.stat().st_size for table in pathlib.Path(path).glob("*.sst"))
    if not raw // 3 < size < raw * 3 // 4:
        raise RuntimeError(f"{size} bytes for {raw}: noise is a third, and half of another")
    if run(peer, path, form, "", [], False) != model:
        raise RuntimeError("the peer reads something else")
    writes = [(key, None if rng.random() < 0.3 else rng.randbytes(50) * 4) for key in rng.sample(sorted(model), 1500)]
    for key, value in writes:
        if value is None:
            model.pop(key)
        else:
            model[key] = value
    for lib, own, what, compacts in ((peer, "", writes, True), (ours, "codec_choice=adaptive", [], True), (peer, "", [], False)):
        if run(lib, path, form, own, what, compacts) != model:
            raise RuntimeError(f"{lib} shows something else after the peer's writes")


def main():
    if sys.argv[1:2] == ["--session"]:
        sys.stdout.buffer.write(pickle.dumps(session(*pickle.loads(sys.stdin.buffer.read()))))
        return 0
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    failed = 0
    for peer in sys.argv[2:]:
        lib, _, form = peer.rpartition(":")
        with tempfile.TemporaryDirectory(prefix="interop-codecs") as work:
            try:
                crossing(sys.argv[1], lib, form, work + "/db")
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                failed += 1
                print(f"FAIL {peer}: {e}")
    print(f"{len(sys.argv) - 2} peers, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
