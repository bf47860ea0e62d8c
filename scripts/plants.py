#!/usr/bin/env python3
"""Plants bugs in a copy of the sources and counts which the programmes of `spanlith-stress` catch.

  plants.py [--check] [--together] [--no-baseline] [--only N,...] [--programmes NAME,...] [--seed N] [--work DIR]

Each plant changes one place of the engine, builds `spanlith-stress` in a copy with a target folder of its
own, and runs `model`, `crash`, `threads`, `histories`, `damage` and `faults` until one reports a violation;
the programme made for a plant goes first. With --together all plants that have a switch are built once, and each is
switched on by the environment of its hunt. The last line is a JSON summary; exit
1 if a plant cannot be planted any more (the source changed) or if one was not caught.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ENGINE = "crates/engine/src/"
PLANTS = [
    ("tombstones are dropped above older entries", ENGINE + "compaction/iterator.rs",
     "if self.seen_by_all(seqno) && self.nothing_below() {", "if self.seen_by_all(seqno) {"),
    ("version edits are not synced", ENGINE + "core/catalog.rs",
     "let synced = writer.sync();", "let synced: Result<()> = Ok(());"),
    ("iterators return the upper bound", ENGINE + "read/db_iter.rs",
     "compare_without_timestamp(user, true, upper, false)\n                    .is_ge()",
     "compare_without_timestamp(user, true, upper, false)\n                    .is_gt()"),
    ("the filter is built from other keys", "crates/table/src/filter/bloom.rs",
     "let hash = hash64(key);\n        if self.hashes",
     "let hash = hash64(&key[..key.len().saturating_sub(1)]);\n        if self.hashes"),
    ("flushes ignore snapshots", ENGINE + "flush/job.rs",
     "snapshots: self.lsm.c.snapshots.sequences(),", "snapshots: Vec::new(),"),
    ("level 0 is searched oldest first", ENGINE + "version/version.rs",
     "b.epoch_number\n        .cmp(&a.epoch_number)", "a.epoch_number\n        .cmp(&b.epoch_number)"),
    ("sequence numbers are zeroed although a snapshot needs them", ENGINE + "compaction/iterator.rs",
     "let zero = seqno < self.zero_below && loses_seqno(kind);",
     "let zero = self.s.bottommost && loses_seqno(kind);"),
    ("merge operands are folded newest first", ENGINE + "merge/resolver.rs",
     "newest_first.iter().rev()", "newest_first.iter()"),
    ("a synced write does not sync the log", ENGINE + "core/current_log.rs",
     "        log.sync()?;\n        lsm.settle_log_name", "        let _ = &log;\n        lsm.settle_log_name"),
    ("iterators miss the newest visible entry", ENGINE + "read/db_iter.rs",
     "let mut visible = keys::tag_sequence(tag) <= self.parts.snapshot;",
     "let mut visible = keys::tag_sequence(tag) < self.parts.snapshot;"),
    ("the directory is not synced behind a new table", ENGINE + "flush/job.rs",
     "let Err(e) = sync_flushed(lsm, r.family, path_id, !built.blobs.is_empty())", "let Err(e) = Ok::<(), spanlith_base::Error>(())"),
    ("logs are retired before the flush is recorded", ENGINE + "flush/job.rs",
     "        let done = &mut self.done;\n        let installed = lsm.log_and_apply_all(edits, |state| {",
     "        self.plant();\n        let done = &mut self.done;\n        let installed = lsm.log_and_apply_all(edits, |state| {"),
    ("a write is visible before it is in the memtable", ENGINE + "commit/pipeline.rs",
     "    let inserting = stages.begin_inserts();\n",
     "    order.finish(ticket);\n    let inserting = stages.begin_inserts();\n"),
    ("the search for a restart point ends one too far", "crates/table/src/block/seek.rs",
     "Ok(range.start.saturating_sub(1))", "Ok(range.start.min(self.num_restarts() - 1))"),
    ("a replayed batch loses its last entry", ENGINE + "recovery/plain.rs",
     "    Some(Plain {\n", "    if entries.len() > 1 {\n        entries.pop();\n    }\n    Some(Plain {\n"),
    ("a log is replayed although the one before it lost its end", ENGINE + "recovery/replay.rs",
     "if !self.continues(&o));", "if log == 0 && !self.continues(&o));"),
    ("merge operands are folded over snapshots", ENGINE + "compaction/iterator/merge.rs",
     "            if self.stripe_of(seqno) != stripe {\n", "            if seqno == u64::MAX {\n"),
    ("a single delete is dropped under a newer entry", ENGINE + "compaction/iterator.rs",
     "if self.stripe == Some(stripe) && byte != ValueType::SingleDeletion as u8 {", "if self.stripe == Some(stripe) {"),
    ("a get heeds range tombstones behind its snapshot", ENGINE + "read/get.rs",
     "list.max_covering(self.key, self.snapshot)", "list.max_covering(self.key, u64::MAX >> 8)"),
    ("a flush of one family does not sync the logs of the others", ENGINE + "flush/job.rs",
     "            self.lsm.sync_old_logs().inspect_err(|e| {\n                self.discard();\n                self.lsm.set_error(Place::Log, e);\n            })?;\n", ""),
    ("a log goes although one family still needs it", ENGINE + "core/state.rs",
     "        let needed = numbers.chain([self.min_prepared_log_without(&gone)]).min();", "        let needed = numbers.max();"),
    ("replay brings back what a family has in tables", ENGINE + "recovery/plain.rs",
     "if log < family.log_number {", "if log < family.log_number.min(1) {"),
    ("a compaction drops range tombstones above older entries", ENGINE + "compaction/outputs.rs",
     "            drops_settled: plan.bottommost,", "            drops_settled: true,"),
    ("range tombstones drop entries that a snapshot sees", "crates/base/src/range_del/compaction.rs",
     "self.snapshots.get(at).copied().unwrap_or(MAX_SEQUENCE)", "MAX_SEQUENCE.max(at as u64)"),
    ("an output's tombstones reach over its neighbour", ENGINE + "compaction/outputs.rs",
     "            upper: upper.as_deref(),\n", "            upper: None,\n"),
    ("damaged blocks are served", "crates/table/src/format/trailer.rs",
     "            if stored != computed {", "            if stored != computed && handle.size == u64::MAX {"),
    ("damaged log records are replayed", "crates/wal/src/reader.rs",
     "                self.pos = self.filled;\n                return Ok((Physical::BadChecksum { dropped: left }, start));\n", ""),
    ("damaged filters are asked", "crates/table/src/format/trailer.rs",
     "            if stored != computed {", "            if stored != computed && !matches!(kind, BlockKind::Filter) {"),
    ("a failed sync of the log is taken for a success", ENGINE + "core/current_log.rs",
     "        log.sync()?;\n        lsm.settle_log_name", "        let _ = log.sync();\n        lsm.settle_log_name"),
    ("a failed sync of the MANIFEST is taken for a success", ENGINE + "core/catalog.rs",
     "let synced = writer.sync();", "let _ = writer.sync();\n                let synced: Result<()> = Ok(());"),
    ("a table is used although its sync failed", "crates/table/src/builder.rs",
     # A file whose sync failed is not closed either without an error.
     "        self.out.sync()?;\n        self.out.file.close()?;\n",
     "        let _ = self.out.sync();\n        let _ = self.out.file.close();\n"),
    ("a table is used although its end could not be written", "crates/table/src/builder.rs",
     "        self.out.flush()?;\n        self.out.sync()?;\n        self.out.file.close()?;\n",
     "        let _ = self.out.flush();\n        let _ = self.out.sync();\n"
     "        let _ = self.out.file.close();\n"),
    ("the directory of outputs is not synced if that fails", ENGINE + "compaction/job.rs",
     "failed = synced.find_map(Result::err);", "let _ = synced.find_map(Result::err);"),
    ("a compaction passes over an entry", ENGINE + "compaction/iterator.rs",
     "            self.input.next_inlined();\n            if self.find_plain() {\n",
     "            self.input.next_inlined();\n            if self.entries.is_multiple_of(97) && self.input.valid() {\n"
     "                self.input.next_inlined();\n            }\n            if self.find_plain() {\n"),
    ("a compaction forgets an entry it has read", ENGINE + "compaction/iterator.rs",
     "    fn step(&mut self) {\n        self.entries += 1;\n",
     "    fn step(&mut self) {\n        self.entries += 1;\n        if self.entries.is_multiple_of(97) {\n"
     "            self.input.next();\n            self.entries += 1;\n            if !self.input.valid() {\n"
     "                return;\n            }\n        }\n"),
    ("a flush leaves an entry out", ENGINE + "flush/job.rs",
     "            None => table.add(key, value)?,\n",
     "            None if written.is_multiple_of(97) => {}\n            None => table.add(key, value)?,\n"),
    ("damage to a log is taken for a torn tail", ENGINE + "recovery/evidence.rs",
     "            proven: (self.proven > offset && !self.has_failed).then_some(self.proven),",
     "            proven: (self.proven > offset && self.has_failed).then_some(self.proven),"),
    ("a MANIFEST that lost its end is believed", ENGINE + "recovery/evidence.rs",
     "        if witnessed.number == read.number && witnessed.size > read.size {",
     "        if witnessed.number == read.number && witnessed.size > read.size + (1 << 40) {"),
    ("young data of the last level moves up again", ENGINE + "core/times.rs",
     "young.max(proximal.last_level_through)", "young.max(proximal.last_level_through.min(0))"),
    ("range tombstones of young data go to the last level", ENGINE + "compaction/placed.rs",
     "        let above = (proximal.level, after + 1..=MAX_SEQUENCE);\n"
     "        Self {\n            lsm,\n            job,\n            sink: None,\n            main: Outputs::new(lsm, job, (level, 0..=after), start, end),\n",
     "        let above = (proximal.level, MAX_SEQUENCE..=MAX_SEQUENCE);\n"
     "        Self {\n            lsm,\n            job,\n            sink: None,\n            main: Outputs::new(lsm, job, (level, 0..=MAX_SEQUENCE), start, end),\n"),
    ("range tombstones of old data are lost beside young data", ENGINE + "compaction/placed.rs",
     "            main: Outputs::new(lsm, job, (level, 0..=after), start, end),\n",
     "            main: Outputs::new(lsm, job, (level, MAX_SEQUENCE..=MAX_SEQUENCE), start, end),\n"),
    ("a blob file is used although its sync failed", ENGINE + "blob/writer.rs",
     "        self.file.sync()?;\n", "        let _ = self.file.sync();\n"),
    ("blob files are not synced", ENGINE + "blob/writer.rs",
     "        self.file.sync()?;\n", ""),
    ("garbage of blob files is counted twice", ENGINE + "compaction/blob_meter.rs",
     "                count: input.count.saturating_sub(output.count),\n"
     "                bytes: input.bytes.saturating_sub(output.bytes),\n",
     "                count: 2 * input.count.saturating_sub(output.count),\n"
     "                bytes: 2 * input.bytes.saturating_sub(output.bytes),\n"),
    ("the oldest blob file goes although a table refers to it", ENGINE + "version/builder.rs",
     "let candidates = self.blob_files.range(oldest..);", "let candidates = self.blob_files.range(oldest + 1..);"),
    ("a file without a link goes although values in it live", ENGINE + "version/builder.rs",
     "            linked.contains(number) || blob.garbage_count < blob.file.total_count\n",
     "            let _ = blob;\n            linked.contains(number)\n"),
    ("a relocated value that becomes inline is put behind the last one", ENGINE + "output/sink.rs",
     "        self.value.clear();\n        self.value.extend_from_slice(&value);\n",
     "        self.value.extend_from_slice(&value);\n"),
    ("a separated value gets another sequence number", ENGINE + "output/sink.rs",
     "keys::pack_tag(keys::tag_sequence(keys::tag(key)), kind as u8)",
     "keys::pack_tag(keys::tag_sequence(keys::tag(key)).max(1) - 1, kind as u8)"),
    ("damaged values of blob files are served", ENGINE + "blob/reader.rs",
     "    match blob_crc(user_key, value) == header.blob_crc {\n",
     "    match blob_crc(user_key, value) == header.blob_crc || header.value_len != u64::MAX {\n"),
    ("values of other keys are served from blob files", ENGINE + "blob/reader.rs",
     "    } else if key != user_key {\n", "    } else if key.len() != user_key.len() {\n"),
    ("values that are read together change places", ENGINE + "blob/batch.rs",
     "let (mut own, from) = (Vec::new(), (extent.offset - self.start) as usize);",
     "let (mut own, from) = (Vec::new(), (extent.offset - extent.offset.max(self.start)) as usize);"),
    ("the cache of values knows files only", ENGINE + "blob/cache.rs",
     "block: pointer.file << OFFSET_BITS | pointer.offset,", "block: pointer.file << OFFSET_BITS,"),
    ("relocated references are not counted as garbage", ENGINE + "compaction/job.rs",
     "            range.garbage.extend(files.relocated);\n", ""),
]
# A plant that needs more than one place.
EXTRA = {
    "logs are retired before the flush is recorded": (
        ENGINE + "flush/job.rs", "    /// Records the tables, and installs them in place of the memtables",
        "    fn plant(&self) {\n        let logs: Vec<u64> = self.lsm.state.lock().logs.needed().collect();\n"
        "        for n in &logs[..logs.len().saturating_sub(1)] {\n"
        "            let _ = self.lsm.logs.store().delete(*n, spanlith_wal::LogPlace::Live);\n        }\n    }\n\n"
        "    /// Records the tables, and installs them in place of the memtables"),
}

# Plants as switches: number, file, and what stands there instead; `ON` is whether the plant is switched on.
SWITCHES = [
    (13, ENGINE + "commit/pipeline.rs", "    let inserting = stages.begin_inserts();\n",
     "    if ON {\n        order.finish(ticket);\n    }\n    let inserting = stages.begin_inserts();\n"),
    (14, "crates/table/src/block/seek.rs", "Ok(range.start.saturating_sub(1))",
     "Ok(if ON { range.start.min(self.num_restarts() - 1) } else { range.start.saturating_sub(1) })"),
    (16, ENGINE + "recovery/replay.rs", "if !self.continues(&o));",
     "if (log == 0 || !ON) && !self.continues(&o));"),
    (17, ENGINE + "compaction/iterator/merge.rs", "            if self.stripe_of(seqno) != stripe {\n",
     "            if (!ON || seqno == u64::MAX) && self.stripe_of(seqno) != stripe {\n"),
    (18, ENGINE + "compaction/iterator.rs",
     "if self.stripe == Some(stripe) && byte != ValueType::SingleDeletion as u8 {",
     "if self.stripe == Some(stripe) && (ON || byte != ValueType::SingleDeletion as u8) {"),
    (19, ENGINE + "read/get.rs", "list.max_covering(self.key, self.snapshot)",
     "list.max_covering(self.key, if ON { u64::MAX >> 8 } else { self.snapshot })"),
    (20, ENGINE + "flush/job.rs",
     "            self.lsm.sync_old_logs().inspect_err(|e| {\n                self.discard();\n                self.lsm.set_error(Place::Log, e);\n            })?;\n",
     "            if !ON {\n                self.lsm.sync_old_logs()\n"
     "                    .inspect_err(|e| self.lsm.set_error(Place::Log, e))?;\n            }\n"),
    (21, ENGINE + "core/state.rs", "numbers.chain([self.min_prepared_log_without(&gone)]).min();",
     "if ON { numbers.max() } else { numbers.chain([self.min_prepared_log_without(&gone)]).min() };"),
    (22, ENGINE + "recovery/plain.rs", "if log < family.log_number {",
     "if log < if ON { family.log_number.min(1) } else { family.log_number } {"),
    (23, ENGINE + "compaction/outputs.rs", "drops_settled: plan.bottommost,",
     "drops_settled: ON || plan.bottommost,"),
    (24, "crates/base/src/range_del/compaction.rs", "self.snapshots.get(at).copied().unwrap_or(MAX_SEQUENCE)",
     "self.snapshots.get(at).copied().filter(|_| !ON).unwrap_or(MAX_SEQUENCE)"),
    (25, ENGINE + "compaction/outputs.rs", "            upper: upper.as_deref(),\n",
     "            upper: upper.as_deref().filter(|_| !ON),\n"),
    (26, "crates/table/src/format/trailer.rs", "            if stored != computed {",
     "            if stored != computed && !ON {"),
    (28, "crates/table/src/format/trailer.rs", "            if stored != computed && ",
     "            if stored != computed && !(ON && matches!(kind, BlockKind::Filter)) && "),
    (32, "crates/table/src/builder.rs",
     "        self.out.flush()?;\n        self.out.sync()?;\n        self.out.file.close()?;\n",
     "        if ON {\n            let _ = self.out.flush();\n        } else {\n            self.out.flush()?;\n        }\n"
     "        let ended = self.out.sync().and_then(|()| self.out.file.close());\n"
     "        if !ON {\n            ended?;\n        }\n"),
    (31, "crates/table/src/builder.rs", "            ended?;\n",
     "            let _ = ON || ended.map(|()| false)?;\n"),
    (33, ENGINE + "compaction/job.rs", "failed = synced.find_map(Result::err);",
     "failed = synced.find_map(Result::err).filter(|_| !ON);"),
]
SWITCH = """
/// Whether a plant is switched on.
pub fn planted(number: u32) -> bool {
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var("SPANLITH_PLANT").ok()?.parse().ok();
    *ON.get_or_init(|| read().unwrap_or(0)) == number
}
"""


def switch_all(root):
    """Puts all switches in; the numbers of the plants whose places are gone."""
    gone = []
    for number, path, old, new in SWITCHES:
        name = "crate::planted" if path.startswith("crates/base/") else "spanlith_base::planted"
        if change(root, path, old, re.sub(r"\bON\b", f"{name}({number})", new)) is None:
            gone.append(number)
    with open(os.path.join(root, "crates/base/src/lib.rs"), "a") as f:
        f.write(SWITCH)
    return gone


def change(root, path, old, new):
    with open(os.path.join(root, path)) as f:
        text = f.read()
    if old not in text:
        return None
    with open(os.path.join(root, path), "w") as f:
        f.write(text.replace(old, new))
    return text


def misfits(root):
    """Names of the plants whose places the sources do not have any more."""
    def fits(path, old):
        with open(os.path.join(root, path)) as f:
            return old in f.read()
    places = [(name, path, old) for name, path, old, _ in PLANTS]
    places += [(name, path, old) for name, (path, old, _) in EXTRA.items()]
    gone = {name for name, path, old in places if not fits(path, old)}
    texts = {}
    for number, path, old, new in SWITCHES:
        if path not in texts:
            with open(os.path.join(root, path)) as f:
                texts[path] = f.read()
        if old not in texts[path]:
            gone.add(f"{PLANTS[number - 1][0]} (its switch)")
        texts[path] = texts[path].replace(old, new)
    return sorted(gone)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="say whether all fit the sources, and build nothing")
    parser.add_argument("--together", action="store_true", help="build once, with switches")
    parser.add_argument("--no-baseline", action="store_true", help="do not hunt first without a plant")
    parser.add_argument("--only", help="numbers of plants, from 1")
    parser.add_argument("--programmes", default="model,crash,threads,histories,damage,faults", help="what hunts, in this order")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--work")
    a = parser.parse_args()
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if a.check:
        broken = misfits(home)
        print(json.dumps({"plants": "fail" if broken else "ok", "count": len(PLANTS), "cannot": broken}))
        sys.exit(1 if broken else 0)
    work = a.work or tempfile.mkdtemp(prefix="plants.")
    root = os.path.join(work, "src")
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", home, root], check=True)
    # One crate changes from build to build, and nothing is timed.
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(work, "target"), CARGO_PROFILE_RELEASE_LTO="off",
               CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16", CARGO_PROFILE_RELEASE_INCREMENTAL="true",
               CARGO_PROFILE_RELEASE_OPT_LEVEL="1")
    chosen = [int(n) for n in a.only.split(",")] if a.only else range(1, len(PLANTS) + 1)
    caught, missed, broken = [], [], []
    program = os.path.join(work, "target/release/spanlith-stress")
    if a.together:
        switched = {number for number, *_ in SWITCHES}
        broken = [PLANTS[number - 1][0] for number in switch_all(root)]
        chosen = [n for n in chosen if n in switched and PLANTS[n - 1][0] not in broken]
    if a.together or not a.no_baseline:
        # What is reported without a plant says nothing about one.
        subprocess.run(["cargo", "build", "-q", "--release", "-p", "spanlith-stress"], cwd=root, env=env, check=True)
    if not a.no_baseline:
        found = hunt(program, a.seed, a.programmes.split(","))
        if found:
            sys.exit(f"without any plant: {found}")
    for number in chosen:
        name, path, old, new = PLANTS[number - 1]
        changes = [(path, old, new)] + ([EXTRA[name]] if name in EXTRA else [])
        before = {}
        if a.together:
            os.environ["SPANLITH_PLANT"] = str(number)
            changes = []
        for p, o, n in changes:
            text = change(root, p, o, n)
            if text is None:
                broken.append(name)
                break
            before.setdefault(p, text)
        if name not in broken:
            began = time.monotonic()
            build = subprocess.run(["cargo", "build", "-q", "--release", "-p", "spanlith-stress"], cwd=root, env=env,
                                   stderr=subprocess.PIPE)
            if build.returncode:
                broken.append(name)
                print(build.stderr.decode()[-2000:], file=sys.stderr)
            else:
                order = a.programmes.split(",")
                if number in FIRST:
                    order = [FIRST[number]] + [p for p in order if p != FIRST[number]]
                caught_by = hunt(program, a.seed, order, os.path.join(work, f"caught-{number}.txt"))
                (caught if caught_by else missed).append(name)
                print(f"{number:2} {name}: {caught_by or 'NOT CAUGHT'} ({time.monotonic() - began:.0f} s)", flush=True)
        for p, text in before.items():
            with open(os.path.join(root, p), "w") as f:
                f.write(text)
    if not a.work:
        shutil.rmtree(work, ignore_errors=True)
    ok = not missed and not broken
    print(json.dumps({"plants": "ok" if ok else "fail", "caught": len(caught), "missed": missed, "cannot": broken}))
    sys.exit(0 if ok else 1)


HUNTS = {"model": ["--ops", "60000"], "crash": ["--states", "6000"], "threads": ["--rounds", "6"],
         "histories": ["--rounds", "10000"], "damage": ["--cases", "60000", "--stop", "1"],
         "faults": ["--runs", "6000", "--stop", "1"],
         # Workloads of `crash`.
         "families": ["--workload", "families", "--states", "600"],
         "large": ["--workload", "large", "--states", "2000", "--double", "1000000"],
         "blobs": ["--workload", "blobs", "--states", "2000"],
         "collected": ["--workload", "collected", "--states", "2000"],
         # `model`, for what needs several rare things at once.
         "long": ["--ops", "500000"]}
NAMES = {"families": "crash", "large": "crash", "blobs": "crash", "collected": "crash", "long": "model"}
# Where another programme than `model` is the one made for a plant: it hunts first, the others after it.
FIRST = {11: "crash", 12: "crash", 13: "threads", 16: "large", 20: "families", 21: "families", 26: "damage", 27: "damage",
         28: "damage", 29: "faults", 30: "faults", 31: "faults", 32: "faults", 33: "faults", 37: "damage", 38: "damage", 40: "long",
         42: "faults", 43: "blobs", 44: "blobs", 45: "blobs", 46: "collected", 49: "damage", 50: "damage"}


def hunt(program, seed, programmes, report=os.devnull):
    """What the first programme that reports a violation says of its counts; its whole output goes to `report`."""
    for programme in programmes:
        arguments = [NAMES.get(programme, programme), *HUNTS[programme], "--seed", str(seed)]
        try:
            run = subprocess.run([program] + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        except subprocess.TimeoutExpired:
            # A busy machine is no violation; the programmes report what hangs by themselves.
            print(f"{programme} ran out of time", file=sys.stderr)
            continue
        if -run.returncode in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
            sys.exit(f"{programme} was ended from outside: it caught nothing")
        if run.returncode:
            text = run.stdout.decode(errors="replace")
            with open(report, "w") as f:
                f.write(f"{' '.join(arguments)}\n{text}")
            counts = re.findall(r"(\d+) (programs|states|cases|runs)", text)
            return f"{arguments[0]}, after {' '.join(counts[-1]) if counts else 'the first program'}"
    return None


if __name__ == "__main__":
    main()
