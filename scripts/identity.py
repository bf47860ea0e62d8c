#!/usr/bin/env python3
"""Which bytes of a table differ between two libraries that flush the same entries with equal options?

  identity.py OURS PEER [--mixes PATTERN]

Each mix of options is one flush in each library. Tables begin with data blocks, filter and index; what
follows is the properties, which hold names, numbers and times of the database, and the footer. Up to the
properties everything must be equal, except the four bytes of each block's checksum from format version 6
on: they depend on a number that each file draws for itself. Where a codec is at work its encoder is free,
so such mixes are only told, not judged.
"""
import argparse
import fnmatch
import os
import shutil
import sys
import tempfile

from shape import case, library, run

NAMED = b"rocksdb.block.based.table"  # the first property's name begins so
MIXES = {
    "plain": {},
    **{f"format-{v}": {"format_version": v} for v in (2, 3, 4, 5, 6, 7)},
    **{f"checksum-{c}": {"checksum": c, "format_version": 5} for c in ("kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3")},
    "bloom": {"filter_policy": "bloomfilter:10:false"},
    "bloom-7-5": {"filter_policy": "bloomfilter:7.5:false"},
    "bloom-old-format": {"filter_policy": "bloomfilter:10:false", "format_version": 4},
    "ribbon": {"filter_policy": "ribbonfilter:10"},
    "bloom-partitions": {"filter_policy": "bloomfilter:10:false", "partition_filters": "true", "index_type": "kTwoLevelIndexSearch", "metadata_block_size": 512},
    "index-partitions": {"index_type": "kTwoLevelIndexSearch", "metadata_block_size": 512},
    "index-first-key": {"index_type": "kBinarySearchWithFirstKey"},
    "index-restart-8": {"index_block_restart_interval": 8},
    "no-shortening": {"index_shortening": "kNoShortening"},
    "shorten-last": {"index_shortening": "kShortenSeparatorsAndSuccessor"},
    "blocks-1k": {"block_size": 1024},
    "blocks-64k": {"block_size": 65536},
    "deviation-30": {"block_size_deviation": 30},
    "restart-4": {"block_restart_interval": 4},
    "hash-index": {"data_block_index_type": "kDataBlockBinaryAndHash"},
    "aligned": {"block_align": "true"},
    "uniform-index": {"uniform_cv_threshold": 0.2},
    "uniform-any-index": {"uniform_cv_threshold": 5},
    "uniform-old-index": {"uniform_cv_threshold": 5, "format_version": 2},
    "uniform-restart-8": {"uniform_cv_threshold": 5, "index_block_restart_interval": 8},
    "uniform-partitions": {"uniform_cv_threshold": 5, "index_type": "kTwoLevelIndexSearch", "metadata_block_size": 64},
    "uniform-filters": {"uniform_cv_threshold": 5, "index_type": "kTwoLevelIndexSearch", "metadata_block_size": 64, "filter_policy": "bloomfilter:10:false", "partition_filters": "true"},
}
LOADS = ("uniform", "deletes", "merges", "versions", "ranges")
# Index and filter under a dictionary, which holds blocks back. Told, not judged: a codec is at work.
HELD = {
    "hash-search": {"index_type": "kHashSearch"},
    "partitions": {"index_type": "kTwoLevelIndexSearch", "partition_filters": "true", "metadata_block_size": 256, "filter_policy": "bloomfilter:10:false"},
    "first-key": {"index_type": "kBinarySearchWithFirstKey", "filter_policy": "bloomfilter:10:false"},
    "bloom": {"filter_policy": "bloomfilter:10:false"},
}
CODECS = ("kSnappyCompression", "kLZ4Compression", "kLZ4HCCompression", "kZlibCompression", "kZSTD")


def mixes():
    for name, table in MIXES.items():
        for load in LOADS if name == "plain" else ("uniform", "ranges"):
            yield f"{name}-{load}", load, table, "kNoCompression"
    for codec in CODECS:
        yield f"codec-{codec}", "uniform", {}, codec
    for name, table in HELD.items():
        yield f"dictionary-{name}", "uniform", {**table, "block_size": 300}, "kLZ4Compression"


def table_of(directory):
    names = [n for n in os.listdir(directory) if n.endswith(".sst")]
    assert len(names) == 1, names
    with open(os.path.join(directory, names[0]), "rb") as file:
        return file.read()


def differences(a, b):
    """Runs of bytes that differ; runs less than four bytes apart are one."""
    runs, at = [], 0
    for at in range(min(len(a), len(b))):
        if a[at] == b[at]:
            continue
        if runs and at - runs[-1][1] < 4 and at - runs[-1][0] < 4:
            runs[-1][1] = at
        else:
            runs.append([at, at])
    return [(first, last - first + 1) for first, last in runs]


def verdict(ours, theirs, load_checksums_free):
    """What differs in the part before the properties."""
    ends = [t.index(NAMED) for t in (ours, theirs)]
    # The properties block has a header of few bytes before the name.
    end = min(ends) - 3
    found = differences(ours[:end], theirs[:end])
    wide = [f for f in found if f[1] > 4]
    if ends[0] == ends[1] and not found:
        return True, f"identical up to the properties: {end} of {len(ours)} bytes"
    if ends[0] == ends[1] and load_checksums_free and not wide:
        return True, f"identical but for {len(found)} checksums up to the properties: {end} of {len(ours)} bytes"
    first = found[0] if found else None
    return False, f"properties at {ends}, {len(found)} places differ, the first at {first}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("peer")
    parser.add_argument("--mixes", default="*")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="identity.")
    bad = total = 0
    for name, load, table, codec in mixes():
        if not fnmatch.fnmatch(name, args.mixes):
            continue
        text = ";".join(f"{k}={v}" for k, v in table.items())
        options = {"block_based_table_factory": "{" + text + "}", "compression": codec, "disable_auto_compactions": "true"}
        if name.startswith("dictionary-"):
            options |= {"compression_opts": "{max_dict_bytes=4096}", "prefix_extractor": "capped:4"}
        tables = []
        for path in (args.ours, args.peer):
            directory = os.path.join(work, "db")
            run(library(path), directory, case(name, load, options, steps=1))
            tables.append(table_of(directory))
        free = table.get("format_version", 7) > 5
        same, text = verdict(*tables, free)
        judged = codec == "kNoCompression"
        total += judged
        bad += judged and not same
        print(f"{'same' if same else 'DIFFERENT' if judged else 'free'} {name}: {text}", flush=True)
    shutil.rmtree(work)
    print(f"{total - bad} of {total} mixes are the same")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
