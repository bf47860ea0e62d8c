#!/usr/bin/env python3
"""Compares the shapes of two libraries' trees: the same loads, the same flushes, the same files?

  shape.py OURS PEER [--cases PATTERN] [--list] [--keep DIRECTORY] [--bytes N]
  shape.py PEER PEER --record DIRECTORY        writes what the engine's tests compare with

OURS and PEER are librocksdb.so files, or directories with one; the peer is RocksDB 11.8. Each case is
a load under some options, with one background job at a time and compactions waited for after each
flush, so that every decision is taken from the same facts. After each step both trees must hold the
same files: level, smallest and largest key, entries, deletions, sequence numbers, and sizes that
differ by no more than `--bytes` (properties hold names, numbers and times of differing length), or, where
a codec makes them differ, by as many percent as the case says. Of a
case that differs the first step is shown with the compactions of that step. Files marked for compaction
are left out: RocksDB starts with any of them, by the address of an object.
"""
import argparse
import fnmatch
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile

ENGINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shape_engine.py")
PRIORITIES = (
    "kByCompensatedSize",
    "kOldestLargestSeqFirst",
    "kOldestSmallestSeqFirst",
    "kMinOverlappingRatio",
    "kRoundRobin",
)
LOADS = (
    "uniform",
    "sequential",
    "skewed",
    "corner",
    "series",
    "deletes",
    "waves",
    "singles",
    "merges",
    "versions",
    "ranges",
    "wide_ranges",
    "only_ranges",
)
SMALL = {
    "create_if_missing": "true",
    "compression": "kNoCompression",
    "target_file_size_base": 64 << 10,
    "max_bytes_for_level_base": 256 << 10,
    "max_bytes_for_level_multiplier": 4,
    "ttl": 0,
    "periodic_compaction_seconds": 0,
    "max_background_jobs": 2,
    "write_buffer_size": 64 << 20,
    "block_based_table_factory": "{filter_policy=bloomfilter:10:false}",
}


def case(name, load, options=None, steps=100, keys=1000, value=100, **more):
    text = ";".join(f"{k}={v}" for k, v in {**SMALL, **(options or {})}.items())
    return {"name": name, "load": load, "options": text, "steps": steps, "keys": keys, "value": value, "seed": 1, **more}


def cases():
    """All cases, the common ones first."""
    for dynamic in ("true", "false"):
        levels = {"level_compaction_dynamic_level_bytes": dynamic}
        style = "dynamic" if dynamic == "true" else "static"
        for load in LOADS:
            for priority in PRIORITIES:
                options = {**levels, "compaction_pri": priority}
                yield case(f"{style}-{load}-{priority}", load, options)
        variants = {
            "multipliers": {"max_bytes_for_level_multiplier_additional": "1:2:3:1:1:1:1"},
            "growing-files": {"target_file_size_multiplier": 2},
            "four-levels": {"num_levels": 4},
            "two-levels": {"num_levels": 2},
            "three-levels": {"num_levels": 3},
            "small-compactions": {"max_compaction_bytes": 256 << 10},
            "large-compactions": {"max_compaction_bytes": 16 << 20},
            "trigger-two": {"level0_file_num_compaction_trigger": 2},
            "trigger-eight": {"level0_file_num_compaction_trigger": 8},
            "trigger-one": {"level0_file_num_compaction_trigger": 1},
            "per-level-codecs": {"compression_per_level": "kNoCompression:kNoCompression:kLZ4Compression"},
            "multiplier-ten": {"max_bytes_for_level_multiplier": 10, "max_bytes_for_level_base": 128 << 10},
            "multiplier-two": {"max_bytes_for_level_multiplier": 2},
            "multiplier-half": {"max_bytes_for_level_multiplier": 2.5},
            "tiny-files": {"target_file_size_base": 16 << 10},
            "large-files": {"target_file_size_base": 1 << 20},
            "partitions": {"sst_partitioner_factory": "{id=SstPartitionerFixedPrefixFactory;length=13}"},
        }
        for name, options in variants.items():
            for load in ("uniform", "corner", "deletes", "ranges"):
                yield case(f"{style}-{name}-{load}", load, {**levels, **options})
        yield case(f"{style}-small-steps", "uniform", levels, steps=300, keys=150)
        yield case(f"{style}-uneven-steps", "uniform", levels, steps=60, keys=4000)
        yield case(f"{style}-large-values", "uniform", levels, steps=60, keys=100, value=5000, space=4000)
        whole = {str(s): ["compact", None, None, 2 if s % 40 == 39 else 1] for s in range(19, 100, 20)}
        part = {str(s): ["compact", s * 1000, s * 1000 + 50_000, s % 4] for s in range(5, 100, 7)}
        snaps = {str(s): ["snapshot"] if s % 10 == 5 else ["release"] for s in range(5, 100, 5)}
        for load in ("uniform", "corner", "deletes", "ranges", "series"):
            for priority in ("kMinOverlappingRatio", "kRoundRobin"):
                split = {**levels, "max_subcompactions": 4, "compaction_pri": priority}
                yield case(f"{style}-split-{priority}-{load}", load, split)
            hours = {"hours": 1}
            ages = {"ttl": 30 * 3600 + 1800, "periodic": 45 * 3600 + 1800}
            for age, seconds in ages.items():
                option = "ttl" if age == "ttl" else "periodic_compaction_seconds"
                yield case(f"{style}-{age}-{load}", load, {**levels, option: seconds}, **hours)
            both = {"ttl": ages["ttl"], "periodic_compaction_seconds": ages["periodic"]}
            yield case(f"{style}-ages-{load}", load, {**levels, **both}, **hours)
            turns = {**levels, "ttl": ages["ttl"], "compaction_pri": "kRoundRobin"}
            yield case(f"{style}-ttl-turns-{load}", load, turns, **hours)
        for load in ("uniform", "corner", "deletes", "ranges", "wide_ranges", "merges"):
            # What was written within the last twenty steps stays out of the last level. It fits the level
            # above: else RocksDB writes it there over and over.
            young = {**levels, "preclude_last_level_data_seconds": 20 * 3600 + 1800, "num_levels": 4}
            young["max_bytes_for_level_base"] = 4 << 20
            more = {"hours": 1, "noted": True}
            yield case(f"{style}-young-{load}", load, young, **more)
            yield case(f"{style}-young-manual-{load}", load, young, manual=whole, **more)
            split = {**young, "max_subcompactions": 4, "compaction_pri": "kRoundRobin"}
            yield case(f"{style}-young-split-{load}", load, split, **more)
        for load in ("uniform", "deletes", "ranges", "wide_ranges", "series"):
            yield case(f"{style}-manual-whole-{load}", load, levels, manual=whole)
            yield case(f"{style}-manual-part-{load}", load, levels, manual=part)
            yield case(f"{style}-snapshots-{load}", load, levels, manual=snaps)


def universal_cases():
    """Cases of universal compaction."""
    style = {"compaction_style": "kCompactionStyleUniversal", "level_compaction_dynamic_level_bytes": "false"}
    variants = {
        "usual": ({}, {}),
        "one-level": ({}, {"num_levels": 1}),
        "two-levels": ({}, {"num_levels": 2}),
        "three-levels": ({}, {"num_levels": 3}),
        "ratio-zero": ({"size_ratio": 0}, {}),
        "ratio-fifty": ({"size_ratio": 50, "max_size_amplification_percent": 400}, {}),
        "ratio-large": ({"size_ratio": 300, "max_size_amplification_percent": 900}, {}),
        "narrow": ({"max_merge_width": 3, "max_size_amplification_percent": 500}, {}),
        "wide": ({"min_merge_width": 5, "max_size_amplification_percent": 500}, {"level0_file_num_compaction_trigger": 3}),
        "amplification-25": ({"max_size_amplification_percent": 25}, {}),
        "amplification-1000": ({"max_size_amplification_percent": 1000}, {}),
        "amplification-1000-one-level": ({"max_size_amplification_percent": 1000}, {"num_levels": 1}),
        "similar": ({"stop_style": "kCompactionStopStyleSimilarSize", "max_size_amplification_percent": 500}, {}),
        "similar-fifty": (
            {"stop_style": "kCompactionStopStyleSimilarSize", "size_ratio": 50, "max_size_amplification_percent": 900},
            {},
        ),
        "moves": ({"allow_trivial_move": "true"}, {}),
        "moves-amplification-900": ({"allow_trivial_move": "true", "max_size_amplification_percent": 900}, {}),
        "codec-share-0": ({"compression_size_percent": 0}, {"compression": "kLZ4Compression"}),
        "codec-share-50": (
            {"compression_size_percent": 50, "max_size_amplification_percent": 900},
            {"compression": "kLZ4Compression"},
        ),
        "read-amplification-auto": ({"max_read_amp": 0, "max_size_amplification_percent": 900}, {"write_buffer_size": 64 << 10}),
        "read-amplification-12": ({"max_read_amp": 12, "max_size_amplification_percent": 900}, {}),
        "incremental": ({"incremental": "true", "max_size_amplification_percent": 50}, {"target_file_size_base": 16 << 10}),
        "incremental-small": (
            {"incremental": "true", "max_size_amplification_percent": 100},
            {"target_file_size_base": 8 << 10, "max_compaction_bytes": 128 << 10, "level0_file_num_compaction_trigger": 3},
        ),
        "trigger-one": ({}, {"level0_file_num_compaction_trigger": 1}),
        "trigger-two": ({}, {"level0_file_num_compaction_trigger": 2}),
        "trigger-nine": ({"max_size_amplification_percent": 900}, {"level0_file_num_compaction_trigger": 9}),
        "near-stop": ({}, {"level0_slowdown_writes_trigger": 5, "level0_stop_writes_trigger": 6}),
        "near-stop-narrow": (
            {"max_merge_width": 4},
            {"level0_file_num_compaction_trigger": 6, "level0_slowdown_writes_trigger": 8, "level0_stop_writes_trigger": 8},
        ),
        "bottommost-codec": ({}, {"bottommost_compression": "kLZ4Compression"}),
        "per-level-codecs": ({}, {"compression_per_level": "kNoCompression:kNoCompression:kLZ4Compression"}),
        "growing-files": ({}, {"target_file_size_multiplier": 2, "target_file_size_base": 16 << 10}),
        "partitions": ({}, {"sst_partitioner_factory": "{id=SstPartitionerFixedPrefixFactory;length=13}"}),
        "split": ({"max_size_amplification_percent": 100}, {"max_subcompactions": 4, "target_file_size_base": 16 << 10}),
        "turns": ({}, {"compaction_pri": "kRoundRobin", "max_subcompactions": 3, "target_file_size_base": 16 << 10}),
    }
    loads = ("uneven", "uniform", "deletes", "ranges", "sequential", "corner")

    def universal(name, load, own, options, **more):
        text = "{" + ";".join(f"{k}={v}" for k, v in own.items()) + "}"
        options = {**style, **options}
        if own:
            options["compaction_options_universal"] = text
        return case(f"universal-{name}-{load}", load, options, **{"steps": 60, "keys": 400, **more})

    for name, (own, options) in variants.items():
        more = {"percent": 1} if "codec" in name else {}
        for load in loads:
            yield universal(name, load, own, options, **more)
    for load in ("skewed", "series", "waves", "singles", "merges", "versions", "wide_ranges", "only_ranges"):
        yield universal("usual", load, {}, {})
        yield universal("calm", load, {"max_size_amplification_percent": 900}, {})
    whole = {str(s): ["compact", None, None, 2 if s % 40 == 39 else 1] for s in range(9, 60, 11)}
    part = {str(s): ["compact", s * 1000, s * 1000 + 50_000, s % 4] for s in range(5, 60, 7)}
    snaps = {str(s): ["snapshot"] if s % 10 == 5 else ["release"] for s in range(5, 60, 5)}
    calm = {"max_size_amplification_percent": 900}
    for load in ("uneven", "deletes", "ranges", "wide_ranges"):
        for levels in (1, 7):
            levels = {"num_levels": levels}
            count = f"{levels['num_levels']}-levels"
            yield universal(f"manual-whole-{count}", load, calm, levels, manual=whole)
            yield universal(f"manual-part-{count}", load, calm, levels, manual=part)
            yield universal(f"snapshots-{count}", load, calm, levels, manual=snaps)
            ages = {**levels, "periodic_compaction_seconds": 9 * 3600 + 1800}
            yield universal(f"periodic-{count}", load, calm, ages, hours=1)
            ages = {**levels, "ttl": 13 * 3600 + 1800}
            yield universal(f"ttl-{count}", load, calm, ages, hours=1)
    for load in ("uneven", "deletes", "ranges"):
        young = {"preclude_last_level_data_seconds": 10 * 3600 + 1800, "num_levels": 4}
        yield universal("young", load, {}, young, hours=1, noted=True)


def fifo_cases():
    """Cases of FIFO compaction."""
    style = {
        "compaction_style": "kCompactionStyleFIFO",
        "level_compaction_dynamic_level_bytes": "false",
        "max_open_files": -1,
    }
    hour = {"hours": 1}
    small = {"max_table_files_size": 700_000}
    merging = {**small, "allow_compaction": "true"}
    tiers = {**merging, "use_kv_ratio_compaction": "true", "max_data_files_size": 900_000}
    ages = "{{temperature=kWarm;age=%d}:{temperature=kCold;age=%d}}" % (5 * 3600 + 1800, 12 * 3600 + 1800)
    variants = {
        "size": (small, {}, {}),
        "size-one-level": (small, {"num_levels": 1}, {}),
        "size-tiny": ({"max_table_files_size": 60_000}, {}, {}),
        "size-none": ({"max_table_files_size": 1}, {}, {}),
        "data-size": ({"max_data_files_size": 500_000}, {}, {}),
        "merging": (merging, {"write_buffer_size": 64 << 10}, {}),
        "merging-trigger-two": (merging, {"write_buffer_size": 1 << 20, "level0_file_num_compaction_trigger": 2}, {}),
        "merging-trigger-nine": (merging, {"write_buffer_size": 1 << 20, "level0_file_num_compaction_trigger": 9}, {}),
        "merging-limit": (merging, {"max_compaction_bytes": 200_000}, {}),
        "tiers": (tiers, {}, {}),
        "tiers-target": (tiers, {"max_compaction_bytes": 250_000}, {}),
        "tiers-trigger-three": (tiers, {"level0_file_num_compaction_trigger": 3}, {}),
        "tiers-one": (tiers, {"level0_file_num_compaction_trigger": 1}, {}),
        "ttl": ({}, {"ttl": 9 * 3600 + 1800}, hour),
        "ttl-size": (small, {"ttl": 20 * 3600 + 1800}, hour),
        "ttl-merging": (merging, {"ttl": 9 * 3600 + 1800}, hour),
        "ages": (
            {"file_temperature_age_thresholds": ages, **small},
            {"num_levels": 1, "ttl": 0},
            hour,
        ),
        "ages-ttl": ({"file_temperature_age_thresholds": ages}, {"num_levels": 1, "ttl": 25 * 3600 + 1800}, hour),
    }
    loads = ("uneven", "uniform", "deletes", "ranges", "sequential")

    def fifo(name, load, own, options, **more):
        text = "{" + ";".join(f"{k}={v}" for k, v in own.items()) + "}"
        options = {**style, **options}
        if own:
            options["compaction_options_fifo"] = text
        return case(f"fifo-{name}-{load}", load, options, **{"steps": 60, "keys": 400, **more})

    for name, (own, options, more) in variants.items():
        for load in loads:
            yield fifo(name, load, own, options, **more)
    manual = {str(s): ["compact", None, None, 2] for s in range(9, 60, 11)}
    for load in ("uneven", "ranges"):
        yield fifo("manual", load, small, {}, manual=manual)
        yield fifo("manual-merging", load, merging, {}, manual=manual)


REPLAYED = {
    "dynamic": {},
    "static": {"level_compaction_dynamic_level_bytes": "false"},
    "turns": {"compaction_pri": "kRoundRobin"},
    "largest": {"compaction_pri": "kByCompensatedSize"},
}


def record(library, directory):
    """One file per case, one line per step: of each level its files, entries, deletions, and the sum
    of the numbers in the smallest and largest keys of its files."""
    for name, options in REPLAYED.items():
        options = {
            "target_file_size_base": 32 << 10,
            "max_bytes_for_level_base": 128 << 10,
            "max_bytes_for_level_multiplier": 3,
            "block_based_table_factory": "{}",
            **options,
        }
        steps = run(library, os.path.join(tempfile.gettempdir(), "shape-record"), case(name, "chain", options, 50, 600))
        with open(os.path.join(directory, name + ".tsv"), "w") as out:
            for files in steps:
                levels = []
                for level in sorted({f[0] for f in files}):
                    own = [f for f in files if f[0] == level]
                    ends = sum(int(f[1][1:]) + int(f[2][1:]) for f in own)
                    levels.append(f"L{level} {len(own)} {sum(f[4] for f in own)} {sum(f[5] for f in own)} {ends}")
                out.write("\t".join(levels) + "\n")


def clock(directory):
    """The shared object that moves the time of day."""
    made = os.path.join(directory, "shape_clock.so")
    if not os.path.exists(made):
        source = os.path.join(os.path.dirname(ENGINE), "shape_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, source], check=True)
    return made


def run(library, directory, spec, limit=None):
    shutil.rmtree(directory, ignore_errors=True)
    command = [sys.executable, ENGINE, library, directory]
    environment = dict(os.environ)
    if "hours" in spec:
        os.makedirs(directory)
        environment["SHAPE_CLOCK"] = os.path.join(os.path.dirname(directory), "clock")
        environment["LD_PRELOAD"] = clock(os.path.dirname(directory))
        with open(environment["SHAPE_CLOCK"], "wb") as file:
            file.write(bytes(8))
    try:
        done = subprocess.run(
            command, input=json.dumps(spec), capture_output=True, text=True, env=environment, timeout=limit
        )
        out, code, errors = done.stdout, done.returncode, done.stderr
    except subprocess.TimeoutExpired as stuck:
        out, code, errors = (stuck.stdout or b"").decode(), 0, ""
        out = out[: out.rfind("\n") + 1]
        print(f"  {library}: no end within {limit} s")
    steps = [sorted(tuple(f) for f in json.loads(line)) for line in out.splitlines()]
    if code:
        print(f"  {library}: step {len(steps)}: {errors.strip()[-800:]}")
    return steps


def same(a, b, slack):
    """Whether two files are the same but for their exact size."""
    slack, percent = slack
    return a[:3] == b[:3] and a[4:] == b[4:] and abs(a[3] - b[3]) <= slack + a[3] * percent // 100


def equal(ours, theirs, slack):
    return len(ours) == len(theirs) and all(same(a, b, slack) for a, b in zip(ours, theirs))


def events(directory):
    """One line per compaction, flushes as marks between them."""
    lines, sizes = [], {}
    logs = sorted(n for n in os.listdir(directory) if n.startswith("LOG.old.")) + ["LOG"]
    for name in logs:
        for line in open(os.path.join(directory, name), errors="replace"):
            _, found, text = line.partition("EVENT_LOG_v1 ")
            if not found:
                continue
            event = json.loads(text)
            kind = event["event"]
            if kind == "table_file_creation":
                sizes[event["file_number"]] = event["file_size"]
            if kind == "flush_started":
                lines.append("flush")
            elif kind == "compaction_started":
                inputs = {k[6:]: [sizes.get(n, 0) for n in v] for k, v in event.items() if k.startswith("files_L")}
                lines.append(f"{event['compaction_reason']} {inputs} score {event['score']}")
            elif kind == "compaction_finished":
                lines.append(f"  -> L{event['output_level']} {event['num_output_files']} files {event['total_output_size']}")
            elif kind == "trivial_move":
                lines.append(f"move of {event.get('files')} files to L{event['destination_level']}")
    return lines


def events_of_step(directory, step):
    """The compactions between two flushes."""
    lines, flushes, found = events(directory), 0, []
    for line in lines:
        flushes += line == "flush"
        if flushes == step + 1:
            found.append(line)
    return found


def shape(files):
    """Files and bytes of each level, for a reader."""
    levels = sorted({f[0] for f in files})
    return " ".join(f"L{l}:{sum(f[0] == l for f in files)}/{sum(f[3] for f in files if f[0] == l)}" for l in levels)


def report(directories, shapes, step, slack):
    print(f"  step {step}: ours {shape(shapes[0])}")
    print(f"  step {step}: peer {shape(shapes[1])}")
    for name, mine, other in (("ours", *shapes), ("peer", *reversed(shapes))):
        lone = [f for f in mine if not any(same(f, g, slack) for g in other)]
        for f in lone[:6]:
            print(f"    only {name}: {f}")
    for name, directory in zip(("ours", "peer"), directories):
        for line in events_of_step(directory, step):
            print(f"    {name}: {line}")


def totals(directory):
    """Compactions, moves, and bytes written by compactions."""
    lines = events(directory)
    written = sum(int(l.rsplit(" ", 1)[1]) for l in lines if l.startswith("  ->"))
    return sum(l.startswith("  ->") for l in lines), sum(l.startswith("move") for l in lines), written


def library(path):
    return os.path.join(path, "librocksdb.so") if os.path.isdir(path) else path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("peer")
    parser.add_argument("--cases", default="*")
    parser.add_argument("--keep", help="directory for the databases")
    parser.add_argument("--bytes", type=int, default=64, help="how far sizes of files may differ")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one library and one case")
    parser.add_argument("--record")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.record:
        record(library(args.peer), args.record)
        return 0
    everything = itertools.chain(cases(), universal_cases(), fifo_cases())
    chosen = [c for c in everything if fnmatch.fnmatch(c["name"], args.cases)]
    if args.list:
        print("\n".join(c["name"] for c in chosen))
        return 0
    memory = "/dev/shm"  # the databases are small, and syncs take most of the time
    work = args.keep or tempfile.mkdtemp(prefix="shape.", dir=memory if os.path.isdir(memory) else None)
    os.makedirs(work, exist_ok=True)
    directories = [os.path.join(work, name) for name in ("ours", "peer")]
    failed, stuck = [], []
    for spec in chosen:
        slack = (args.bytes, spec.get("percent", 0))
        libraries = zip((args.ours, args.peer), directories)
        trees = [run(library(l), d, spec, args.limit) for l, d in libraries]
        pairs = list(zip(*trees))
        wrong = next((i for i, pair in enumerate(pairs) if not equal(*pair, slack)), None)
        complete = len(pairs) == spec["steps"]
        if wrong is None and complete:
            counts = totals(directories[0])
            print(f"same {spec['name']}: {len(pairs)} steps, {counts[0]} compactions, {counts[1]} moves", flush=True)
            continue
        if wrong is None and len(trees[0]) == spec["steps"]:
            # RocksDB's writers wait for ever where a trigger that stops them is below what starts a compaction.
            stuck.append(spec["name"])
            print(f"STUCK {spec['name']}: the peer does not go on behind {len(pairs)} equal steps", flush=True)
            continue
        failed.append(spec["name"])
        agreed = sum(equal(*pair, slack) for pair in pairs)
        print(f"DIFFERENT {spec['name']}: {agreed} of {spec['steps']} steps agree; compactions, moves, bytes: "
              f"{totals(directories[0])} and {totals(directories[1])}", flush=True)
        if wrong is not None:
            report(directories, pairs[wrong], wrong, slack)
    if not args.keep:
        shutil.rmtree(work)
    same_ones = len(chosen) - len(failed) - len(stuck)
    print(f"{same_ones} of {len(chosen)} cases are the same; in {len(stuck)} the peer hangs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
