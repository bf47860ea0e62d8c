#!/usr/bin/env python3
"""Files cross between engines: what one writes, every other must read exactly, and back.

  interop.py --subject NAME=DIR --peer NAME=DIR:FORMAT [--peer ...] [--seed N] [--rounds N] [--ops N]
             [--work DIR] [--keep] [--tools] [--mixes all|NAME [--mix-ops N] [--jobs N]]

DIR holds a librocksdb.so; each engine is driven through its C functions, by ctypes, in a process of
its own. FORMAT is the format version of table files that both sides write when they meet that peer
(5 for RocksDB 7.8.3, which knows none later; 7 for 11.8.1).

A round draws settings (compression, filter, checksum, sizes) and operations (put, delete, single
delete, merge of counters, range delete, batches of them) from its seed and does, for each peer and
in both directions:

  flush     the writer flushes and closes
  compact   the writer compacts everything and closes
  log       the writer closes, what it wrote last is only in its log
  kill      the writer is killed (SIGKILL) while it writes

then the other engine opens a copy, all contents are compared with a model (a dictionary), it writes
on, and the first engine opens the result. At last both alternate on one directory, five sessions
each, every one of which ends in one of these four ways. With --tools the tools of 7.8.3 judge every
directory of its format: `ldb checkconsistency`, `sst_dump --command=verify`.

With --mixes, every option mix of interop_mixes.py that a peer knows is written by one engine (tables in
several levels, level 0 and a log), read and written on by the other, whose last family is dropped and
made anew, and read again by the first; both ways, some with writers that are killed.

Contents are compared through a forward and a backward scan and a get of every key, present or not.
After a kill they must be those after some number of operations, at least all that were acknowledged.
Where both sides can, a read-only open must show the same and change no file.

The last line is a JSON summary. Exit 1 on any difference, error, crash or hang; a failing directory
is kept. The same seed gives the same operations; the moment of a kill is up to the machine.
--plant N lets every writer lose its N-th operation in silence: such a run must fail, which shows that
the comparison works.
"""
import argparse
import collections
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True  # the folder of the scripts stays clean
from interop_engine import named, parted  # noqa: E402
from interop_mixes import MIXES  # noqa: E402

ANSWER_SECONDS = 120
REQUIRED = """open_column_families close options_create options_destroy options_set_create_if_missing
 options_set_write_buffer_size options_set_target_file_size_base options_set_compression
 options_set_block_based_table_factory options_set_uint64add_merge_operator
 block_based_options_create block_based_options_destroy block_based_options_set_block_size
 block_based_options_set_filter_policy filterpolicy_create_bloom_full
 block_based_options_set_format_version
 writeoptions_create writeoptions_destroy writeoptions_set_sync readoptions_create readoptions_destroy
 readoptions_set_total_order_seek flushoptions_create flushoptions_destroy flush compact_range put delete write
 writebatch_create writebatch_destroy writebatch_put writebatch_delete_range
 get_pinned pinnableslice_value pinnableslice_destroy create_iterator iter_destroy iter_valid
 iter_seek_to_first iter_seek_to_last iter_next iter_prev iter_key iter_value
 column_family_handle_destroy free get_options_from_string drop_column_family put_cf delete_cf
 singledelete_cf merge_cf writebatch_put_cf writebatch_delete_cf writebatch_delete_range_cf flush_cf
 compact_range_cf get_pinned_cf create_iterator_cf""".split()
# An operation or check that needs one of these is left out when either side lacks it, and named.
OPTIONAL = {
    "merge": ["merge"],
    "single": ["singledelete"],
    "batch-delete": ["writebatch_delete"],
    "checksum": ["block_based_options_set_checksum"],
    "read-only": ["open_for_read_only_column_families"],
    "iterator-errors": ["iter_get_error"],
}


class Failure(Exception):
    pass


class Process:
    """A worker, seen from the driver."""

    planted = 0

    def __init__(self, name, library):
        self.name = name
        self.log = tempfile.TemporaryFile("w+")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "interop_engine.py")
        command = [sys.executable, script, library, str(Process.planted)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def died(self):
        code = self.child.wait()
        self.log.seek(0)
        said = self.log.read().strip()[-600:]
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return Failure(f"{self.name} died: {how}" + (f": {said}" if said else ""))

    def send(self, **ask):
        try:
            self.child.stdin.write(json.dumps(ask) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            raise self.died() from None

    def receive(self, what):
        timer = threading.Timer(ANSWER_SECONDS, self.child.kill)
        timer.start()
        line = self.child.stdout.readline()
        late = not timer.is_alive()
        timer.cancel()
        if late:
            raise Failure(f"{self.name}: no answer to {what} in {ANSWER_SECONDS} s")
        if not line:
            raise self.died()
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"{self.name}: {what}: {answer['error']}")
        return answer

    def ask(self, do, **more):
        self.send(do=do, **more)
        return self.receive(do)

    def kill(self):
        self.child.kill()
        self.end()

    def end(self):
        for pipe in (self.child.stdin, self.child.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        self.child.wait()
        self.log.close()


# ---------------------------------------------------------------- model and operations


def apply_to_model(model, op, family=0):
    kind = op[0]
    if kind == "@":
        apply_to_model(model, op[2], op[1])
    elif kind == "b":
        for inner in op[1]:
            apply_to_model(model, inner, family)
    elif kind == "p":
        model[named(family, op[1])] = op[2]
    elif kind in "ds":
        model.pop(named(family, op[1]), None)
    elif kind == "r":
        low, high = min(op[1:]), max(op[1:])  # hexadecimal keeps the order of bytes
        for name in list(model):
            at, key = parted(name)
            # A reverse order begins with the greater key, which is in the range; its end is not.
            if at == family and (low <= key < high if op[1] == low else low < key <= high):
                del model[name]
    elif kind == "m":
        old = model.get(named(family, op[1]), "")
        old = int.from_bytes(bytes.fromhex(old), "little") if len(old) == 16 else 0
        add = int.from_bytes(bytes.fromhex(op[2]), "little")
        model[named(family, op[1])] = ((old + add) % 2**64).to_bytes(8, "little").hex()


class Operations:
    """Draws operations. Keys beginning with c are counters, with s are single-deleted (each is put
    once before it), the rest is free."""

    def __init__(self, rng, features, families=1, reverse=False):
        self.rng, self.features, self.count = rng, features, 0
        self.families, self.reverse = families, reverse
        edges = [b"", b"\0", b"\0\0", b"\xff", b"\xff" * 9, b"a", b"a\0", b"a\0b", b"aa", b"p" * 300, b"p" * 300 + b"q"]
        self.plain = edges + [b"key%06d" % i for i in range(700)] + [b"k%dx" % i * 3 for i in range(60)]
        self.counters = [b"c%d" % i for i in range(40)]
        self.singles = [b"s%d" % i for i in range(60)]

    def value(self):
        self.count += 1
        r = self.rng
        stamp = b"%d:" % self.count
        size = 0 if r.random() < 0.03 else r.choice([8, 40, 100, 100, 400, 2000, 60_000 if r.random() < 0.05 else 16])
        body = r.randbytes(size) if r.random() < 0.5 else bytes([r.randrange(256)]) * size
        return (stamp + body).hex() if size else ""

    def simple(self):
        key = self.rng.choice(self.plain).hex()
        if self.rng.random() < 0.75:
            return ["p", key, self.value()]
        return ["d", key]

    def draw(self, model):
        if self.families == 1:
            return self.draw_in(0, model)
        family = self.rng.randrange(self.families)
        op = self.draw_in(family, model)
        if op[0] == "b":  # batches cross families
            return ["b", [["@", self.rng.randrange(self.families), inner] for inner in op[1]]]
        return ["@", family, op]

    def draw_in(self, family, model):
        r = self.rng
        dice = r.random()
        if dice < 0.08 and "merge" in self.features:
            key = r.choice(self.counters).hex()
            number = r.choice([1, 7, 2**63, 2**64 - 1]).to_bytes(8, "little").hex()
            return r.choices([["m", key, number], ["d", key], ["p", key, number]], [8, 1, 1])[0]
        if dice < 0.14 and "single" in self.features:
            key = r.choice(self.singles).hex()
            return ["s", key] if named(family, key) in model else ["p", key, self.value()]
        if dice < 0.24:
            inner = [self.simple() for _ in range(r.randrange(1, 12))]
            if "batch-delete" not in self.features:
                inner = [op for op in inner if op[0] != "d"] or [["p", self.plain[0].hex(), ""]]
            return ["b", inner]
        if dice < 0.25 and "ranges" in self.features:
            # Counters and single-deleted keys lie outside of the ranges.
            low, high = sorted(r.sample(range(640), 2))
            high = min(high, low + r.randrange(1, 40))
            ends = [(b"key%06d" % n).hex() for n in (low, high)]
            return ["b", [["r", *(ends[::-1] if self.reverse else ends)]]]
        return self.simple()

    def list(self, model, number):
        """`number` operations; `model` becomes what it is after them."""
        ops = []
        for _ in range(number):
            op = self.draw(model)
            apply_to_model(model, op)
            ops.append(op)
        return ops

    def absent(self, model):
        near = [k[:-1] for k in self.plain if k] + [k + b"\0" for k in self.plain]
        keys = {k.hex() for k in self.plain + self.counters + self.singles} | {k.hex() for k in self.rng.sample(near, 100)}
        return sorted({named(family, k) for family in range(self.families) for k in keys} - model.keys())


# ---------------------------------------------------------------- the driver


class Interop:
    def __init__(self, arguments):
        self.a = arguments
        self.checks, self.failures = collections.Counter(), []
        self.skipped, self.kept = [], []
        self.number = 0
        self.lock = threading.Lock()

    def say(self, text):
        print(text, flush=True)

    def missing(self, engine):
        process = Process(engine[0], library(engine[1]))
        try:
            names = REQUIRED + [n for needs in OPTIONAL.values() for n in needs]
            return process.ask("missing", names=names)["missing"]
        finally:
            process.end()

    # ------------------------------------------------ sessions

    def write_session(self, engine, path, settings, model, ops, ending):
        """Opens, writes, ends as asked. Returns the states that are allowed afterwards."""
        before = dict(model)
        operations = ops.list(model, self.a.ops)
        process = Process(engine[0], library(engine[1]))
        try:
            process.ask("open", path=path, settings=settings)
            if ending == "kill":
                return self.write_until_killed(process, before, operations, ops.rng)
            if ending == "mixed":
                return self.write_mixed(process, model, operations)
            # For "log" the first half is flushed into tables, the rest stays in the log.
            cut = len(operations) // 2 if ending == "log" else len(operations)
            self.apply(process, operations[:cut])
            if ending in ("flush", "log"):
                process.ask("flush")
            self.apply(process, operations[cut:])
            if ending == "compact":
                process.ask("compact")
            process.ask("close")
            return [model]
        finally:
            process.end()

    def write_mixed(self, process, model, operations):
        """Leaves lower levels, level 0 and a log with contents."""
        part = len(operations) // 4
        for number, chunk in enumerate(chunks(operations, part)):
            self.apply(process, chunk)
            if number < 3:
                process.ask("flush")
            if number == 1:
                process.ask("compact")
        process.ask("close")
        return [model]

    def apply(self, process, operations):
        for chunk in chunks(operations, 200):
            process.ask("apply", ops=chunk)

    def write_until_killed(self, process, before, operations, rng):
        # The worker acknowledges chunk by chunk, so it is at most one chunk ahead of its last answer.
        size = 25
        sent = list(chunks(operations, size))
        stop_after = rng.randrange(1, max(2, len(sent)))

        def feed():
            try:
                for chunk in sent:
                    process.send(do="apply", ops=chunk)
            except (Failure, ValueError, OSError):
                pass  # it was killed while we wrote to it

        feeder = threading.Thread(target=feed)
        feeder.start()
        acknowledged = 0
        try:
            for _ in range(stop_after):
                acknowledged = process.receive("apply")["done"]
            time.sleep(rng.random() * 0.002)
        finally:
            process.child.kill()
            feeder.join()
        for line in process.child.stdout:  # answered between our last look and the kill
            if line.endswith("\n"):
                acknowledged = json.loads(line)["done"]
        state = dict(before)
        for op in operations[:acknowledged]:
            apply_to_model(state, op)
        allowed = [dict(state)]
        for op in operations[acknowledged:acknowledged + size]:
            apply_to_model(state, op)
            allowed.append(dict(state))
        return allowed

    def compare(self, engine, path, settings, allowed, ops, what, read_only=False):
        """Opens `path`, reads everything, compares; returns the state that was found."""
        process = Process(engine[0], library(engine[1]))
        try:
            process.ask("open", path=path, settings=settings, read_only=read_only)
            entries = process.ask("scan", backward=False)["entries"]
            for family in range(ops.families):
                keys = [parted(k)[1] for k, _ in entries if parted(k)[0] == family]
                if keys != sorted(keys, reverse=ops.reverse):
                    raise Failure(f"{what}: the scan is not in key order")
            found = dict(map(tuple, entries))
            if len(found) != len(entries):
                raise Failure(f"{what}: the scan shows a key twice")
            state = next((s for s in reversed(allowed) if s == found), None)
            if state is None:
                raise Failure(f"{what}: {difference(allowed, found)}")
            backward = process.ask("scan", backward=True)["entries"]
            if backward != entries[::-1]:
                raise Failure(f"{what}: the backward scan differs from the forward scan")
            keys = sorted(state) + ops.absent(state)
            values = process.ask("get", keys=keys)["values"]
            for key, value in zip(keys, values):
                if value != state.get(key):
                    raise Failure(f"{what}: get {key} gives {shown(value)} instead of {shown(state.get(key))}")
            process.ask("close")
            self.checks["contents"] += 1
            return state
        finally:
            process.end()

    # ------------------------------------------------ scenarios

    def settings(self, rng, form, features):
        out = dict(compression=rng.choice([0, 4]), bloom=rng.choice([0, 10]), block_size=rng.choice([512, 4096]),
                   write_buffer=rng.choice([65_536, 262_144, 4 << 20]), file_size=rng.choice([65_536, 2 << 20]), format=form)
        if "checksum" in features:
            out["checksum"] = rng.choice([1, 4])  # CRC-32C, XXH3
        return out

    def tools(self, path, what):
        """The tools of 7.8.3 over a copy."""
        if not self.a.tools:
            return
        copy = self.copy(path)
        # An OPTIONS file of 11.8.1 holds options that 7.8.3 does not know.
        command = ["ldb", f"--db={copy}", "--ignore_unknown_options", "checkconsistency"]
        checks = [("ldb checkconsistency", command, "OK")]
        if any(name.endswith(".sst") for name in os.listdir(copy)):
            checks.append(("sst_dump verify", ["sst_dump", f"--file={copy}", "--command=verify"], None))
        for name, command, wanted in checks:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_SECONDS, cwd=self.a.work)
            out = done.stdout + done.stderr
            bad = done.returncode != 0 or (wanted and wanted not in done.stdout)
            bad = bad or any(word in out for word in ("orruption", "is corrupted", "Not implemented", "not a valid", "IO error"))
            if bad:
                raise Failure(f"{what}: {name}: exit {done.returncode}: {out.strip()[-400:]}")
            self.checks[name] += 1
        shutil.rmtree(copy)

    def copy(self, path):
        target = os.path.join(self.a.work, f"copy{self.fresh()}")
        shutil.copytree(path, target)
        return target

    def read_only(self, engine, path, settings, allowed, ops, what):
        copy = self.copy(path)
        before = fingerprint(copy)
        self.compare(engine, copy, settings, allowed, ops, f"{what}, {engine[0]} read-only", read_only=True)
        after = fingerprint(copy)
        if before != after:
            changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
            raise Failure(f"{what}, {engine[0]} read-only: changed {', '.join(changed)}")
        self.checks["read-only"] += 1
        shutil.rmtree(copy)

    def cross(self, writer, reader, ending, settings, ops, features, path):
        """`writer` writes, `reader` reads and writes on, `writer` reads."""
        what = f"{writer[0]} -> {reader[0]}, {ending}"
        allowed = self.write_session(writer, path, settings, {}, ops, ending)
        if "read-only" in features:
            self.read_only(reader, path, settings, allowed, ops, what)
        if settings["format"] <= 5 and ending != "kill":
            self.tools(path, what)
        state = self.compare(reader, path, settings, allowed, ops, what)
        back = ops.rng.choice(["flush", "compact", "log", "kill"])
        what = f"{what}, back after {back}"
        allowed = self.write_session(reader, path, settings, dict(state), ops, back)
        self.compare(writer, path, settings, allowed, ops, what)
        if settings["format"] <= 5:
            self.tools(path, what)

    def alternate(self, engines, settings, ops, features, path):
        model, ended = {}, []
        for session in range(10):
            engine = engines[session % 2]
            ending = ops.rng.choice(["flush", "compact", "log", "kill"])
            ended.append(f"{engine[0]} {ending}")
            what = "alternating: " + ", ".join(ended)
            allowed = self.write_session(engine, path, settings, model, ops, ending)
            state = self.compare(engines[(session + 1) % 2], path, settings, allowed, ops, what)
            model = dict(state)
            self.compare(engine, path, settings, [state], ops, what + ", itself")
        if settings["format"] <= 5:
            self.tools(path, what)

    def mix(self, writer, reader, mix, both, path, rng):
        """`writer` writes under the options of a mix, `reader` reads, writes on, drops the last family
        and makes it anew, `writer` reads and writes on, `reader` reads."""
        what = f"{writer[0]} -> {reader[0]}"
        families, reverse = len(mix.families), mix.reverse
        ops = Operations(rng, both, families, reverse)
        sides = [dict(families=mix.texts(engine[0] != self.a.subject[0])) for engine in (writer, reader)]
        old = mix.format <= 5 and not mix.only_new
        allowed = self.write_session(writer, path, sides[0], {}, ops, "mixed")
        if old:
            self.tools(path, what)
        state = self.compare(reader, path, sides[1], allowed, ops, what)
        if families > 2:
            self.drop(reader, path, sides[1])
            state = {k: v for k, v in state.items() if parted(k)[0] != families - 1}
        back = "kill" if mix.kill else "mixed"
        allowed = self.write_session(reader, path, sides[1], state, ops, back)
        what += f", back after {back}"
        state = self.compare(writer, path, sides[0], allowed, ops, what)
        if old:
            self.tools(path, what)
        if mix.kill:
            allowed = self.write_session(writer, path, sides[0], state, ops, "kill")
            self.compare(reader, path, sides[1], allowed, ops, what + ", and again")

    def drop(self, engine, path, settings):
        process = Process(engine[0], library(engine[1]))
        try:
            process.ask("open", path=path, settings=settings)
            process.ask("drop")
            process.ask("close")
        finally:
            process.end()

    def fresh(self):
        with self.lock:
            self.number += 1
            return self.number

    def scenario(self, name, seed, run):
        rng = random.Random(f"{seed} {name}")
        path = os.path.join(self.a.work, f"db{self.fresh()}")
        start = time.monotonic()
        try:
            run(rng, path)
            self.say(f"ok    {name} ({time.monotonic() - start:.1f} s)")
            shutil.rmtree(path, ignore_errors=True)
        except Failure as failure:
            self.failures.append(f"{name}: {failure}")
            self.kept.append(path)
            self.say(f"FAIL  {name}: {failure}\n      directory kept: {path}")
        except subprocess.TimeoutExpired as late:
            self.failures.append(f"{name}: {late}")
            self.say(f"FAIL  {name}: {late}")
        self.checks["scenarios"] += 1

    def run(self):
        subject, missing = self.a.subject, {}
        for engine in [subject] + [peer for peer, _ in self.a.peers]:
            missing[engine[0]] = self.missing(engine)
        for name, functions in missing.items():
            if functions:
                self.say(f"{name} does not export: " + " ".join("rocksdb_" + f for f in functions))
            needed = [f for f in functions if f in REQUIRED]
            if needed:
                self.failures.append(f"{name} lacks " + " ".join("rocksdb_" + f for f in needed))
        if self.failures:
            return
        for peer, form in self.a.peers:
            lacking = set(missing[subject[0]]) | set(missing[peer[0]])
            features = {f for f, needs in OPTIONAL.items() if not lacking & set(needs)}
            if self.a.ranges:
                features.add("ranges")
            for feature in sorted(OPTIONAL.keys() - features):
                self.skipped.append(f"{subject[0]} and {peer[0]}: {feature}")
            for round_number in range(self.a.rounds):
                seed = self.a.seed + round_number
                for ending in ("flush", "compact", "log", "kill"):
                    for writer, reader in ((subject, peer), (peer, subject)):
                        def cross(rng, path):
                            settings = self.settings(rng, form, features)
                            self.cross(writer, reader, ending, settings, Operations(rng, features), features, path)

                        self.scenario(f"seed {seed}: {writer[0]} -> {reader[0]} -> {writer[0]}, {ending}", seed, cross)

                def alternate(rng, path):
                    settings = self.settings(rng, form, features)
                    self.alternate((subject, peer), settings, Operations(rng, features), features, path)

                self.scenario(f"seed {seed}: {subject[0]} and {peer[0]} alternate, 5 sessions each", seed, alternate)
        if self.a.mixes:
            self.run_mixes(missing)

    def run_mixes(self, missing):
        """Every mix with every peer that knows its options, both ways."""
        self.a.ops = self.a.mix_ops
        wanted = [m for m in MIXES if self.a.mixes == "all" or self.a.mixes in m.name]
        running = []
        with ThreadPoolExecutor(self.a.jobs) as pool:
            for peer, form in self.a.peers:
                lacking = set(missing[self.a.subject[0]]) | set(missing[peer[0]])
                both = {f for f, needs in OPTIONAL.items() if not lacking & set(needs)} | {"ranges"}
                for mix in wanted:
                    if mix.format > form or (mix.only_new and form < 6):
                        continue
                    self.checks["mixes"] += 1
                    for writer, reader in ((self.a.subject, peer), (peer, self.a.subject)):
                        def cross(rng, path, writer=writer, reader=reader, mix=mix, both=both):
                            self.mix(writer, reader, mix, both - set(mix.without), path, rng)

                        name = f"mix {mix.name}: {writer[0]} -> {reader[0]} -> {writer[0]}"
                        running.append(pool.submit(self.scenario, name, self.a.seed, cross))
            for one in running:
                one.result()  # an exception that is no difference ends the run


def library(directory):
    return os.path.join(directory, "librocksdb.so")


def chunks(items, size):
    return (items[at:at + size] for at in range(0, len(items), size))


def shown(value):
    return "nothing" if value is None else f"{value[:40]}{'...' if len(value) > 40 else ''} ({len(value) // 2} bytes)"


def difference(allowed, found):
    """How `found` differs from the nearest allowed state."""
    def distance(state):
        return sum(state.get(k) != found.get(k) for k in state.keys() | found.keys())

    best = min(allowed, key=distance)
    keys = sorted(k for k in best.keys() | found.keys() if best.get(k) != found.get(k))
    few = "; ".join(f"{k}: {shown(found.get(k))} instead of {shown(best.get(k))}" for k in keys[:4])
    return f"{len(keys)} of {len(best)} keys differ (from the nearest of {len(allowed)} allowed states): {few}"


def fingerprint(path):
    """Name -> digest of every file that holds data."""
    out = {}
    for name in os.listdir(path):
        if name != "LOCK" and not name.startswith("LOG"):  # RocksDB writes its info log even then
            with open(os.path.join(path, name), "rb") as file:
                out[name] = hashlib.sha256(file.read()).hexdigest()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", required=True, metavar="NAME=DIR")
    parser.add_argument("--peer", action="append", required=True, metavar="NAME=DIR:FORMAT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ops", type=int, default=2000, help="operations per session")
    parser.add_argument("--work", help="scratch folder (default: a new one below the temporary directory)")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder")
    parser.add_argument("--tools", action="store_true", help="let ldb and sst_dump of 7.8.3 judge, too")
    parser.add_argument("--ranges", action=argparse.BooleanOptionalAction, default=True, help="range deletes, too")
    parser.add_argument("--mixes", default="", metavar="NAME", help="option mixes, too: all, or those named so")
    parser.add_argument("--mix-ops", type=int, default=400, help="operations per session of a mix")
    parser.add_argument("--jobs", type=int, default=2, help="mixes at once")
    parser.add_argument("--plant", type=int, default=0, metavar="N", help="lose the N-th operation of each session")
    a = parser.parse_args()
    Process.planted = a.plant
    name, _, directory = a.subject.partition("=")
    a.subject, a.peers = (name, os.path.abspath(directory)), []
    for text in a.peer:
        name, _, rest = text.partition("=")
        directory, _, form = rest.rpartition(":")
        a.peers.append(((name, os.path.abspath(directory)), int(form)))
    for engine in [a.subject] + [peer for peer, _ in a.peers]:
        if not os.path.exists(library(engine[1])):
            parser.error(f"{library(engine[1])} is missing")
    if a.work:
        os.makedirs(a.work, exist_ok=True)
        made = None
    else:
        a.work = made = tempfile.mkdtemp(prefix="interop.")
    start = time.monotonic()
    interop = Interop(a)
    interop.run()
    for line in interop.skipped:
        print("left out:", line)
    if made and not a.keep and not interop.kept:
        shutil.rmtree(made, ignore_errors=True)
    print(json.dumps(dict(interop="fail" if interop.failures else "ok", subject=a.subject[0],
                          peers=[p[0] for p, _ in a.peers], seed=a.seed, rounds=a.rounds, ops=a.ops,
                          **{k.replace(" ", "_"): v for k, v in interop.checks.items()},
                          left_out=interop.skipped, failures=interop.failures,
                          seconds=round(time.monotonic() - start, 1))))
    return 1 if interop.failures else 0


if __name__ == "__main__":
    sys.exit(main())
