#!/usr/bin/env python3
"""Records what db_bench's mixgraph asks for, as fixtures/mixgraph/golden.tsv has it.

  scripts/mixgraph_golden.py [DB_BENCH] >fixtures/mixgraph/golden.tsv

Runs db_bench of RocksDB 7.8.3 (Debian's rocksdb-tools; another binary may be named) with 10 000 operations on one
thread for each variant and seed, tracing them, and prints for each thousand operations the FNV-1a hash over kind (0 get,
1 put, 2 seek), key and size of the value (0 if it is no put), each as 8 bytes, little-endian; and the first three
operations in clear.
"""
import struct
import subprocess
import sys
import tempfile

RANGES = ("--keyrange_num=30 --keyrange_dist_a=14.18 --keyrange_dist_b=-2.917 --keyrange_dist_c=0.0164 "
          "--keyrange_dist_d=-0.08082").split()
KEYS = "--key_dist_a=0.002312 --key_dist_b=0.3467".split()
VARIANTS = {"all_random": [], "all_dist": KEYS, "prefix_random": RANGES, "prefix_dist": RANGES + KEYS}
COMMON = ("--benchmarks=mixgraph --num=1000000 --reads=10000 --threads=1 --key_size=48 --value_k=0.2615 "
          "--value_sigma=25.45 --iter_k=2.517 --iter_sigma=14.236 --mix_get_ratio=0.83 --mix_put_ratio=0.14 "
          "--mix_seek_ratio=0.03 --compression_type=none").split()
WRITE, GET, SEEK, SEEK_FOR_PREV = 3, 4, 5, 6


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def operations(data):
    """Kind, key and size of the value of each record of a trace."""
    at = 0
    while at < len(data):
        _, kind, size = struct.unpack_from("<QBI", data, at)
        at += 13
        body = data[at:at + size]
        at += size
        if kind == WRITE:
            # A map of what follows, the length of the batch, its header of 12 bytes, one put.
            length, begin = varint(body, 8) if len(body) > 8 else (0, 8)
            batch = body[begin:begin + length]
            assert batch[12] == 1, "one put in each batch"
            key_size, key_at = varint(batch, 13)
            value_size, _ = varint(batch, key_at + key_size)
            yield 1, struct.unpack(">Q", batch[key_at:key_at + 8])[0], value_size
        elif kind in (GET, SEEK, SEEK_FOR_PREV):
            key = body.rindex(b"0" * 40) - 8
            yield (0 if kind == GET else 2), struct.unpack(">Q", body[key:key + 8])[0], 0


def fnv(rows):
    value = 0xcbf29ce484222325
    for row in rows:
        for byte in struct.pack("<QQQ", *row):
            value = ((value ^ byte) * 0x100000001b3) & (2 ** 64 - 1)
    return value


def main():
    db_bench = sys.argv[1] if len(sys.argv) > 1 else "db_bench"
    print("# variant\tseed\tfirst three operations\thash of each thousand")
    for variant, flags in VARIANTS.items():
        for seed in (1, 2, 3):
            with tempfile.TemporaryDirectory() as place:
                trace = place + "/trace"
                command = [db_bench, *COMMON, *flags, f"--seed={seed}", f"--db={place}/db", f"--trace_file={trace}"]
                subprocess.run(command, check=True, capture_output=True)
                rows = list(operations(open(trace, "rb").read()))
            assert len(rows) == 10000, f"{len(rows)} operations"
            first = " ".join(",".join(map(str, row)) for row in rows[:3])
            hashes = " ".join(f"{fnv(rows[n:n + 1000]):016x}" for n in range(0, 10000, 1000))
            print(f"{variant}\t{seed}\t{first}\t{hashes}")


if __name__ == "__main__":
    main()
