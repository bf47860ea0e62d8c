"""Scenarios of faults.py about the command line, about directories that operators bring to it, and about the tree."""
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_ubyte, c_void_p

from faults_library import Db, Library, in_child

SCENARIOS = {}


def scenario(number, what):
    def keep(function):
        SCENARIOS[number] = (what, function)
        return function
    return keep


def contents(path):
    return {f.name: f.read_bytes() for f in sorted(pathlib.Path(path).iterdir()) if f.is_file()}


def make(place, name="db", entries=200, unflushed=20):
    """A directory of RocksDB with two tables and entries in its log, as a process that ended left it."""
    path = place.path(name)

    def write():
        l = Library(place.peer)
        db = l.open(path)
        for part in range(2):
            for n in range(entries // 2):
                db.put(b"%d-%05d" % (part, n), b"value %d" % n)
            db.flush()
        for n in range(unflushed):
            db.put(b"logged-%05d" % n, b"value %d" % n)
    assert in_child(write) == 0
    return path


def newest(path, pattern):
    return max(glob.glob(os.path.join(path, pattern)))


def way_outs(text):
    """The commands that a report prescribes."""
    return re.findall(r"^\s*(?:\$ )?((?:spanlith|mv|printf|cp) .*)$", text, re.MULTILINE)


# ------------------------------------------------------------------ A: data at risk


@scenario("A1", "a tool folds operands with another operator")
def another_operator(place):
    path = place.path("db")
    fold = lambda old, operands: b"|".join(([old] if old else []) + operands)

    def session(work):
        l = Library(place.peer)
        options = l.options()
        l.call("options_set_merge_operator", options, l.merge_operator("shop.Append", fold))
        db = l.open(path, options)
        found = work(db)
        db.close()
        return found

    def fill(db):
        for n in range(200):
            db.write("merge", b"list", b"item%d" % n)
            if n % 70 == 69:
                db.flush()
        return db.get(b"list")
    expected = session(fill)
    hint = "".join(place.run("db", "scan", "--db", path)[1:])
    place.run("db", "compact", "--db", path, "--merge-operator", "shop.Append=uint64add")
    found = session(lambda db: db.get(b"list"))
    if found != expected:
        return f"compact with uint64add leaves {len(found or b'')} of {len(expected)} bytes of 200 operands"
    if "uint64add" in hint:
        return "the hint of scan names an operator that is not recorded"
    code, out, err = place.run("db", "compact", "--db", path, "--force-bottommost")
    if code or session(lambda db: db.get(b"list")) != expected:
        return f"compact without the operator does not keep the operands: {err.strip()}"
    for verb, rest in (("checkpoint", [place.path("copy")]), ("verify", []), ("scan", ["--raw"])):
        code, out, err = place.run("db", verb, "--db", path, *rest)
        if code:
            return f"{verb} needs the operator: {err.strip()}"


@scenario("A2", "a refused create hides data")
def refused_create(place):
    path = make(place)
    os.remove(os.path.join(path, "CURRENT"))
    before = contents(path)
    for verb in (["scan"], ["get", "k"], ["put", "k", "v"], ["put", "--create", "k", "v"]):
        code, out, err = place.run("db", *verb[:1], "--db", path, *verb[1:])
        if code == 0:
            return f"{' '.join(verb)} succeeds over what is left of a database"
        if contents(path).keys() != before.keys():
            left = sorted(contents(path).keys() - before.keys())
            return f"a refused {' '.join(verb)} leaves {', '.join(left)}"
        if "--create" in err:
            return f"{' '.join(verb)} hints --create: {err.strip()}"
    said = place.run("doctor", "--db", path)[1]
    if "MANIFEST-" not in said or "printf" not in said:
        return "doctor does not name the MANIFEST that knows the tables"


@scenario("A3", "a directory without its last log is called healthy")
def lost_log(place):
    path = make(place)
    os.remove(newest(path, "*.log"))
    for verb in (["doctor"], ["db", "verify"], ["db", "info"]):
        code, out, err = place.run(*verb, "--db", path)
        if verb[-1] != "info" and code != 1:
            return f"{' '.join(verb)} ends with {code} although the log that the MANIFEST expects is gone"
        if "log" not in out + err or "needed" not in out + err:
            return f"{' '.join(verb)} does not tell that the MANIFEST expects a log"


@scenario("A6", "verbs open for writing before they check")
def checked_first(place):
    path = make(place)
    no_table = place.path("no.sst")
    pathlib.Path(no_table).write_text("no table")
    place.run("db", "backup", "create", "--db", path, place.path("backups"))
    before = contents(path)
    for verb in (["set-options", "write_bufer_size=1M"], ["set-options", "write_buffer_size=many"],
                 ["ingest", no_table], ["restore", "--from", place.path("backups")]):
        code, out, err = place.run("db", verb[0], "--db", path, *verb[1:])
        changed = sorted(n for n, c in contents(path).items() if before.get(n) != c and n != "LOCK")
        if code == 0:
            return f"{' '.join(verb[:2])} succeeds"
        if changed:
            return f"{verb[0]} fails and has changed {', '.join(changed)}"


# ------------------------------------------------------------------ B: answers of the tools


@scenario("B15", "verdicts of doctor contradict what it saw")
def verdicts(place):
    source = make(place, unflushed=0)
    table = newest(source, "*.sst")

    def state(name, change):
        path = place.path(name)
        shutil.copytree(source, path)
        change(path)
        code, out, err = place.run("doctor", "--json", "--db", path)
        return code, json.loads(out), place.run("doctor", "--db", path)[1]

    def leftovers(path):
        shutil.copy(table, os.path.join(path, "000998.sst"))
        open(os.path.join(path, "000999.sst"), "w").close()
    code, said, text = state("leftovers", leftovers)
    if code or said["cases"]:
        return "tables that a killed compaction left are called damage"

    def exchanged(path):
        one, two = sorted(glob.glob(path + "/*.sst"))
        os.rename(one, path + "/x")
        os.rename(two, one)
        os.rename(path + "/x", two)
    code, said, text = state("exchanged", exchanged)
    if code != 1 or not re.search(r"\bmv\b|rename", text) or "restore a backup" in text:
        return "of two tables under each other's names the way out is not two renames"

    def flipped(path):
        data = bytearray(open(table, "rb").read())
        data[40] ^= 0x10
        open(os.path.join(path, os.path.basename(table)), "wb").write(data)
    code, said, text = state("flipped", flipped)
    if code != 1 or len(said["cases"]) != 1:
        return f"one flipped byte of a table is {len(said['cases'])} cases with exit code {code}"
    if "0 findings" in text:
        return "a case is listed with '0 findings'"


@scenario("B16", "nothing is salvaged without a MANIFEST")
def without_manifest(place):
    source = make(place, unflushed=10)
    counts = {}
    for name in ("flipped", "missing"):
        path = place.path(name)
        shutil.copytree(source, path)
        manifest = newest(path, "MANIFEST-*")
        data = bytearray(open(manifest, "rb").read())
        data[len(data) // 2] ^= 0x10
        os.remove(manifest)
        if name == "flipped":
            open(manifest, "wb").write(data)
        out = place.run("db", "dump", "--salvage", "--db", path)[1]
        counts[name] = len([line for line in out.splitlines() if not line.startswith("@")])
    # The flipped one lost the record of one table, which may have been obsolete.
    if counts["missing"] < 210 or counts["flipped"] < 110:
        return f"of 210 entries {counts['flipped']} are salvaged beside a flipped MANIFEST, {counts['missing']} without one"


@scenario("B17", "the Rust version that is promised cannot build it")
def promised_rust(place):
    script = pathlib.Path(__file__).with_name("msrv.py")
    done = subprocess.run([sys.executable, script], cwd=place.tree, capture_output=True, text=True)
    if done.returncode:
        return (done.stdout.strip() or done.stderr.strip()).replace("\n", "; ")


@scenario("B21", "operators within, comparators with colons, damaged tables, bytes as text")
def command_line(place):
    # The entries of a table around a damaged block. First, since a process that has RocksDB's threads forks badly.
    path = make(place, "damaged", entries=4000, unflushed=0)
    table = newest(path, "*.sst")
    data = bytearray(open(table, "rb").read())
    data[len(data) // 2] ^= 0xFF
    open(table, "wb").write(data)
    whole = place.run("ldb", "idump", f"--db={path}", "--max_keys=100000")[1]
    if whole.count("=>") < 100:
        return f"ldb idump shows {whole.count('=>')} entries of a database with one damaged block"
    # An operator inside that of times to live.
    path, l = place.path("ttl"), Library(place.peer)
    options = l.options("create_if_missing=true;merge_operator={id=StringAppendOperator;delimiter=,;}")
    db = Db(l, l.tried("open_with_ttl", options, path.encode(), c_int(1 << 30), ret=c_void_p))
    for part in (b"a", b"b"):
        db.write("merge", b"k", part)
        db.flush()
    db.close()
    for flags in ([], ["--ttl"]):
        code, out, err = place.run("db", "get", "--db", path, *flags, "k")
        if code or not out.startswith("a,b"):
            return f"the operator inside that of a TTL database is not found: {(out + err).strip()}"
    # An order whose name has a colon.
    path = place.path("order")
    compare = lambda a, b: (a < b) - (a > b)
    options = l.options()
    l.call("options_set_comparator", options, l.comparator("rev:acme.Down", compare))
    db = l.open(path, options)
    for key in (b"a", b"b"):
        db.put(key, b"v")
    db.flush()
    db.close()
    code, out, err = place.run("db", "scan", "--db", path, "--comparator", "rev:acme.Down=reverse")
    if code or out.split() != ["b", "v", "a", "v"]:
        return f"an order with a colon in its name is not taken: {(out + err).strip()}"
    # Text is text.
    path, given = place.path("text"), place.path("given.tsv")
    pathlib.Path(given).write_text("0xdAC1\tbook\nкниг\tа\n")
    code, out, err = place.run("db", "load", "--create", "--db", path, given)
    code, out, more = place.run("db", "scan", "--db", path)
    if "0xdAC1\t" not in out:
        return f"load takes a key 0xdAC1 of a text file for hexadecimal: {(out + err + more).strip()}"
    if "книг" not in out:
        return f"valid UTF-8 is shown as {out.split()[-2]}"
    out = place.run("db", "scan", "--json", "--db", path)[1]
    if '"книг"' not in out:
        return f"valid UTF-8 is escaped in JSON: {out.strip()[:80]}"


# ------------------------------------------------------------------ C: texts

# Verb and rest, and what the message has to name.
TEXTS = [
    (["db", "scan", "--db", "@", "--limit", "abc"], "abc"),
    (["db", "set-options", "--db", "@", "write_bufer_size=1M"], "nearest name is write_buffer_size"),
    (["db", "set-options", "--db", "@", "write_buffer_size="], "has no value"),
    (["db", "set-options", "--db", "@", "write_buffer_size=abc"], "'abc'"),
    (["db", "set-options", "--db", "@", "table_factory.filter_policy=blom:10"], "blom:10"),
    (["wal", "dump", "@table"], "table"),
    (["sst", "dump", "@log"], "log"),
]


@scenario("C22", "texts without value, file or next step")
def texts(place):
    path = make(place)
    files = {"@": path, "@table": newest(path, "*.sst"), "@log": newest(path, "*.log")}
    for words, named in TEXTS:
        code, out, err = place.run(*[files.get(w, w) for w in words])
        text = " ".join(words)
        if code == 0:
            return f"{text} succeeds"
        if named not in err:
            return f"{text} does not say '{named}': {err.strip()}"
        if "invalid digit found" in err or "stoull" in err:
            return f"{text}: {err.strip()}"
        for line in err.splitlines():
            if line.rstrip().endswith(":") and "next" not in line:
                return f"{text}: a line ends in a colon: {line}"
    with open(os.path.join(path, "CURRENT"), "w") as current:
        current.write("MANIFEST-nonsense\n")
    code, out, err = place.run("db", "verify", "--db", path)
    if code == 0 or "db verify" in err:
        return f"of a damaged CURRENT verify recommends itself: {err.strip()}"


# ------------------------------------------------------------------ D: what users touch first


@scenario("D23", "there is no header")
def header(place):
    found = pathlib.Path(place.tree, "include/rocksdb/c.h")
    if not found.exists():
        return "the tree has no include/rocksdb/c.h"
    for language, flags in (("c", []), ("c++", ["-x", "c++"])):
        done = subprocess.run(["cc", *flags, "-Wall", "-Werror", "-fsyntax-only", found], capture_output=True, text=True)
        if done.returncode:
            return f"the header does not compile as {language}: {done.stderr.strip()[:200]}"
    declared = set(re.findall(r"\b(rocksdb_\w+)\(", re.sub(r"/\*.*?\*/", "", found.read_text(), flags=re.DOTALL)))
    lib = ctypes.CDLL(place.library)
    absent = sorted(name for name in declared if not hasattr(lib, name))
    if absent:
        return f"{len(absent)} of {len(declared)} declared functions are not exported: {', '.join(absent[:3])}"


@scenario("D24", "there is no crate librocksdb-sys, and older bindings do not link")
def crate(place):
    manifest = pathlib.Path(place.tree, "crates/librocksdb-sys/Cargo.toml")
    if not manifest.exists():
        return "the tree has no crates/librocksdb-sys"
    text = manifest.read_text()
    if 'links = "rocksdb"' not in text or "0.19.0+11.8.1" not in text:
        return "the crate does not stand for librocksdb-sys 0.19.0+11.8.1"
    lib = ctypes.CDLL(place.library)
    # 11.8 has dropped them; older bindings name them.
    for name in ("skip_checking_sst_file_sizes_on_db_open", "access_hint_on_compaction_start"):
        for verb in ("set", "get"):
            if not hasattr(lib, f"rocksdb_options_{verb}_{name}"):
                return f"rocksdb_options_{verb}_{name} is not exported"


@scenario("D25", "the first screen of README")
def readme(place):
    screen = pathlib.Path(place.tree, "README.md").read_text().split("\n")[:75]
    text = "\n".join(screen)
    for needed in ("**It does**", "**It does not", "[patch.crates-io]", "librocksdb.so", "```rust"):
        if needed not in text:
            return f"the first {len(screen)} lines do not show {needed}"
    if re.search(r"milestone", text, re.IGNORECASE):
        return "the first screen speaks of milestones"
