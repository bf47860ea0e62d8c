#!/usr/bin/env python3
"""Whether the oldest Rust that each package of the workspace advertises can be true.

    scripts/msrv.py

Asks cargo for the packages that each one is built from, tests left out, and compares what they declare: a package
cannot be built by a Rust that one of its dependencies refuses. Takes a second and needs no other toolchain. A
dependency that needs a Rust without declaring it shows only when it is built by that Rust, and stands in UNDECLARED:

    cargo +1.88 check -p spanlith -p spanlith-capi
"""

import json
import subprocess
import sys


UNDECLARED = {("rustyline", "19"): "1.95"}


def version(text):
    return tuple(int(part) for part in (text + ".0.0").split(".")[:3])


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {p["id"]: p for p in found["packages"]}
    uses = {}
    for node in found["resolve"]["nodes"]:
        is_built = lambda d: any(k["kind"] != "dev" for k in d["dep_kinds"])
        uses[node["id"]] = [d["pkg"] for d in node["deps"] if is_built(d)]
    wrong = []
    for member in found["workspace_members"]:
        own = packages[member]["rust_version"]
        if own is None:
            wrong.append(f"{packages[member]['name']} advertises no Rust")
            continue
        seen, left = set(), [member]
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            left += uses[at]
            major = packages[at]["version"].split(".")[0]
            needed = packages[at]["rust_version"] or UNDECLARED.get((packages[at]["name"], major))
            if needed and version(needed) > version(own):
                name = f"{packages[at]['name']} {packages[at]['version']}"
                wrong.append(f"{packages[member]['name']} advertises Rust {own}, {name} needs {needed}")
    for line in wrong:
        print(line)
    print(f"{len(found['workspace_members'])} packages, {len(wrong)} advertise a Rust that cannot build them")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
