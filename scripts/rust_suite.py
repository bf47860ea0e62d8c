#!/usr/bin/env python3
"""Runs the tests of the published crate `rocksdb` on Spanlith, through one [patch.crates-io] entry.

  scripts/rust_suite.py [--version 0.25.0] [--work DIR] [--filter NAME] [--clean-build]

The package is fetched with cargo, its `librocksdb-sys` replaced by ours of the same generation (crates/librocksdb-sys
for 0.25, a folder of crates/librocksdb-sys/older for 0.21 to 0.24), and its unit and integration tests run. Neither bindgen nor a C++ compiler takes part. A test that is known to need what does not
exist stands in MISSING with the reason. Any other failure, or a test of MISSING that passes, makes the exit code 1.
The last line is "N passed, M failed". `--clean-build` also prints the CPU seconds of a build of a program that
opens a database, from an empty target folder.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tests that fail, with the reason.
MISSING = {}
# These compare messages of the compiler and never call the library.
COMPILER = re.compile("_outlive_|multiple_refs_as_single_threaded")
# Needs a host name of 18 letters on RocksDB too: it compares the size of a table in which the name stands.
HOST = "set_column_family_metadata_test"


def stand_in(version):
    """Our package of the generation of a published `librocksdb-sys`."""
    generation = ".".join(version.split(".")[:2])
    older = ROOT / "crates/librocksdb-sys/older" / generation
    return older if older.exists() else ROOT / "crates/librocksdb-sys"


def fetch(version, work):
    """The sources of the package, made ready for a build of their own."""
    source = work / f"rocksdb-{version}"
    if not (source / "ready").exists():
        get = work / "fetch"
        (get / "src").mkdir(parents=True, exist_ok=True)
        (get / "src/lib.rs").write_text("")
        (get / "Cargo.toml").write_text(
            f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
            f'[dependencies]\nrocksdb = {{ version = "={version}", default-features = false }}\n')
        meta = subprocess.run(["cargo", "metadata", "--format-version", "1"], cwd=get, check=True,
                              capture_output=True, text=True).stdout
        packages = {p["name"]: p for p in json.loads(meta)["packages"]}
        manifest = packages["rocksdb"]["manifest_path"]
        ours = stand_in(packages["librocksdb-sys"]["version"])
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(pathlib.Path(manifest).parent, source)
        for name in ("rust-toolchain.toml", "Cargo.lock", ".cargo-ok"):
            (source / name).unlink(missing_ok=True)
        with open(source / "Cargo.toml", "a") as manifest:
            manifest.write(f'\n[workspace]\n\n[patch.crates-io]\nlibrocksdb-sys = {{ path = "{ours}" }}\n')
        (source / "ready").write_text("")
    return source


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(executable, names, source, env, seconds):
    """Exit code (None after a timeout) and output of some tests of one binary."""
    try:
        done = subprocess.run([executable, "--exact", *names, "--test-threads", "2"], cwd=source, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, text=True,
                              errors="replace")
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return None, ""


def clean_build(work):
    """CPU seconds of building a small program with and without link-time checks."""
    program = work / "small"
    shutil.rmtree(program, ignore_errors=True)
    (program / "src").mkdir(parents=True)
    (program / "src/main.rs").write_text(
        'fn main() { let db = rocksdb::DB::open_default("small.db").unwrap(); db.put(b"k", b"v").unwrap();\n'
        '    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v"); }\n')
    (program / "Cargo.toml").write_text(
        '[package]\nname = "small"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
        '[dependencies]\nrocksdb = { version = "0.25", default-features = false }\n'
        f'[patch.crates-io]\nlibrocksdb-sys = {{ path = "{ROOT}/crates/librocksdb-sys" }}\n')
    subprocess.run(["cargo", "fetch", "--quiet"], cwd=program, check=True)
    before = children()
    subprocess.run(["cargo", "run", "--quiet"], cwd=program, check=True,
                   env=dict(os.environ, CARGO_TARGET_DIR=str(program / "target")))
    print(f"clean build and run of a small program: {children() - before:.0f} s of CPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="0.25.0")
    parser.add_argument("--work", type=pathlib.Path,
                        default=pathlib.Path(tempfile.gettempdir()) / "spanlith-rust-suite")
    parser.add_argument("--filter", default="")
    parser.add_argument("--clean-build", action="store_true")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    scratch = args.work / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    source = fetch(args.version, args.work)
    target = os.environ.get("CARGO_TARGET_DIR", str(args.work / "target"))
    env = dict(os.environ, CARGO_TARGET_DIR=target, TMPDIR=str(scratch), CARGO_MANIFEST_DIR=str(source),
               RUST_BACKTRACE="0")
    features = "lz4,zstd,snappy,zlib,bzip2"
    if "\nbindgen-runtime" in (source / "Cargo.toml").read_text():
        features += ",bindgen-runtime"
    before = children()
    build = subprocess.run(["cargo", "test", "--no-run", "--message-format=json-render-diagnostics",
                            "--no-default-features", "--features", features],
                           cwd=source, env=env, stdout=subprocess.PIPE, text=True)
    if build.returncode:
        print("the tests do not build\n0 passed, 1 failed")
        return 1
    print(f"built with {children() - before:.0f} s of CPU", flush=True)
    executables = []
    for line in build.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable") \
                and message["profile"]["test"] and message["manifest_path"].startswith(str(source)):
            executables.append((message["target"]["name"], message["executable"]))
    passed, failed, left_out = 0, [], []
    for binary, executable in sorted(executables):
        listing = subprocess.run([executable, "--list"], capture_output=True, text=True, env=env, cwd=source)
        names = [line[:-6] for line in listing.stdout.splitlines() if line.endswith(": test")]
        names = [n for n in names if args.filter in n and not COMPILER.search(n)]
        if len(os.uname().nodename) < 18:
            left_out += [n for n in names if n.endswith(HOST)]
            names = [n for n in names if not n.endswith(HOST)]
        if not names:
            continue
        code, output = run(executable, names, source, env, 600)
        totals = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", output, re.M)
        if code in (0, 101) and totals:
            passed += int(totals[-1][0])
            bad = re.findall(r"^    (\S+)$", output.split("\nfailures:\n")[-1], re.M) if code else []
            if code:
                print(output[-5000:])
        else:  # A crash or a hang costs one test.
            bad = []
            for name in names:
                code, output = run(executable, [name], source, env, 120)
                passed += code == 0
                if code != 0:
                    bad.append(name)
                    print(f"---- {binary}::{name}: ended with {code}\n{output[-1500:]}")
        failed += [f"{binary}::{name}" for name in bad]
        print(f"{binary}: {len(names) - len(bad)} of {len(names)}", flush=True)
    if args.clean_build:
        clean_build(args.work)
    for name in left_out:
        print(f"left out on this host, whose name is short: {name}")
    for name in failed:
        print("failed:", name, "-", MISSING.get(name, "not expected"))
    unexpected = [name for name in failed if name not in MISSING]
    healed = [] if args.filter else [name for name in MISSING if name not in failed]
    for name in healed:
        print("passes, though the list says that it cannot:", name)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if unexpected or healed else 0


if __name__ == "__main__":
    sys.exit(main())
