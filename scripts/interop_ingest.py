#!/usr/bin/env python3
"""Files for ingestion go from one library to the other and back.

  interop_ingest.py OURS ROCKSDB [SEED]

For each pair of libraries: the first writes files at random, the second takes them into a database beside
writes of its own, and both open that database afterwards and show what the model says.
"""
import ctypes
import os
import random
import sys
import tempfile

from interop_engine import Engine

SETTINGS = {"write_buffer": 1 << 20, "file_size": 1 << 16, "compression": 4, "block_size": 512,
            "format": 5, "bloom": 10}
ROUNDS = 12


def key(n):
    return b"k%05d" % n


class Library(Engine):
    def write(self, path, entries, ranges):
        """A file with these entries, `None` for a deletion, and range deletions."""
        options = self.pointer("options_create")
        self.call("options_set_compression", options, ctypes.c_int(SETTINGS["compression"]))
        self.call("options_set_uint64add_merge_operator", options)
        env = self.pointer("envoptions_create")
        writer = self.pointer("sstfilewriter_create", env, options)
        self.checked("sstfilewriter_open", writer, os.fsencode(path))
        for k, v in sorted(entries.items()):
            if v is None:
                self.checked("sstfilewriter_delete", writer, k, ctypes.c_size_t(len(k)))
            else:
                self.checked("sstfilewriter_put", writer, k, ctypes.c_size_t(len(k)), v,
                             ctypes.c_size_t(len(v)))
        for a, b in ranges:
            self.checked("sstfilewriter_delete_range", writer, a, ctypes.c_size_t(len(a)), b,
                         ctypes.c_size_t(len(b)))
        self.checked("sstfilewriter_finish", writer)
        for kind, handle in (("sstfilewriter", writer), ("envoptions", env), ("options", options)):
            self.call(kind + "_destroy", handle)

    def ingest(self, paths, moves):
        options = self.pointer("ingestexternalfileoptions_create")
        self.call("ingestexternalfileoptions_set_move_files", options, ctypes.c_ubyte(moves))
        names = (ctypes.c_char_p * len(paths))(*[os.fsencode(p) for p in paths])
        self.checked("ingest_external_file", self.db, names, ctypes.c_size_t(len(paths)), options)
        self.call("ingestexternalfileoptions_destroy", options)

    def rows(self):
        """Everything, by an iterator."""
        scanned = {bytes.fromhex(k): bytes.fromhex(v) for k, v in dict(self.scan(False)).items()}
        return scanned


def apply(model, entries, ranges):
    for a, b in ranges:
        for k in [k for k in model if a <= k < b]:
            del model[k]
    for k, v in entries.items():
        if v is None:
            model.pop(k, None)
        else:
            model[k] = v


def exchange(writer, reader, chance, where):
    path, model = os.path.join(where, "db"), {}
    for turn in range(ROUNDS):
        reader.open(path, SETTINGS)
        for n in range(chance.randrange(40)):
            k, v = key(chance.randrange(400)), b"put %d %d" % (turn, n)
            reader.apply(["p", k.hex(), v.hex()])
            model[k] = v
        paths = []
        for nth in range(1 + chance.randrange(3)):
            first = chance.randrange(400)
            picked = {key(n) for n in range(first, first + 60) if chance.randrange(3)}
            entries = {k: None if chance.randrange(5) == 0 else b"file %d %d" % (turn, nth)
                       for k in picked | {key(first)}}
            ranges = []
            if chance.randrange(2):
                a = chance.randrange(400)
                ranges.append((key(a), key(a + 1 + chance.randrange(50))))
            paths.append(os.path.join(where, f"{turn}-{nth}.sst"))
            writer.write(paths[-1], entries, ranges)
            apply(model, entries, ranges)
        reader.ingest(paths, turn % 2)
        if chance.randrange(4) == 0:
            reader.compact()
        for engine in (reader, writer, reader):
            if engine.db is None:
                engine.open(path, SETTINGS)
            if engine.rows() != model:
                raise SystemExit(f"turn {turn}: the library shows something else than the model")
            engine.close()


def main():
    ours, theirs = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print("seed", seed, flush=True)
    chance = random.Random(seed)
    for writer, reader in ((ours, theirs), (theirs, ours)):
        with tempfile.TemporaryDirectory() as where:
            exchange(Library(writer), Library(reader), chance, where)
        print("files of", os.path.basename(os.path.dirname(writer)), "taken in", flush=True)


if __name__ == "__main__":
    main()
