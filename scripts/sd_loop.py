#!/usr/bin/env python3
"""Speed disks on loop devices that are mounted, in use, for reading only, smaller than they were, or gone.

    scripts/sd_loop.py SPANLITH [--dir DIR]

Needs root, losetup, mkfs.ext4 and mount. Each case says what the program has to answer; whatever is refused must leave the device as it
was. Exit 1 if one answers otherwise, 77 where the machine lets nobody make loop devices.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

SIZE = 64 << 20


def shell(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class World:
    """An image, the loop device over it, and a database with its logs there."""

    def __init__(self, program, base):
        self.program = program
        self.base = tempfile.mkdtemp(prefix="sd-loop-", dir=base)
        self.image = os.path.join(self.base, "image")
        self.db = os.path.join(self.base, "db")
        self.mounted = os.path.join(self.base, "mounted")
        os.mkdir(self.mounted)
        with open(self.image, "wb") as f:
            f.truncate(SIZE)
        self.device = shell("losetup", "--show", "-f", self.image)
        self.wrong = 0

    def close(self):
        subprocess.run(["umount", self.mounted], capture_output=True)
        subprocess.run(["losetup", "-d", self.device], capture_output=True)
        shutil.rmtree(self.base)

    def again(self, *how):
        shell("losetup", "-d", self.device)
        shell("losetup", *how, self.device, self.image)

    def print_of(self):
        os.sync()
        with open(self.image, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def expect(self, what, words, text=None):
        """Runs the program; without `text` it has to succeed, else to fail with it and to change nothing."""
        before = self.print_of() if text else None
        done = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=60)
        if text is None:
            is_right = done.returncode == 0
        else:
            is_right = done.returncode == 1 and text in done.stderr and self.print_of() == before
        print(f"{'ok   ' if is_right else 'WRONG'} {what}")
        if not is_right:
            print(f"      code {done.returncode}: {done.stderr.strip()}")
            self.wrong += 1

    def run(self):
        disk, db = self.device, ["--db", self.db]
        part = f"{disk}@{SIZE // 2}+{SIZE // 4}"
        shell("mkfs.ext4", "-q", disk)
        shell("mount", disk, self.mounted)
        for words in (["sd", "format", disk, "--force"], ["sd", "format", part, "--force"]):
            self.expect(f"mounted: {words[2]}", words, "Device or resource busy")
        shell("umount", self.mounted)
        self.expect("foreign", ["sd", "format", disk], "holds an ext2, ext3 or ext4 file system")
        self.expect("foreign, by force", ["sd", "format", disk, "--force"])
        self.expect("a database takes it", ["db", "put", "--set", f"sd_path={disk}", "--create", *db, "k", "v"])
        self.expect("of another database", ["sd", "format", disk], "is the speed disk of the database with identity")
        holder = os.open(disk, os.O_RDWR | os.O_EXCL)
        self.expect("in use by another process", ["db", "put", *db, "k", "w"], "Device or resource busy")
        os.close(holder)
        self.again("-r")
        self.expect("for reading only, written", ["db", "put", *db, "k", "w"], "Operation not permitted")
        self.expect("for reading only, read", ["db", "get", *db, "k"])
        os.truncate(self.image, SIZE // 2)
        self.again()
        self.expect("smaller than it was", ["db", "get", *db, "k"], "it had 67108864 when it was formatted")
        os.truncate(self.image, SIZE)
        self.again()
        self.expect("its size again", ["db", "put", *db, "k", "w"])
        shell("losetup", "-d", self.device)
        self.expect("gone", ["db", "get", *db, "k"], "holds no speed disk")
        shell("losetup", self.device, self.image)
        self.expect("back", ["db", "get", *db, "k"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spanlith")
    parser.add_argument("--dir", help="where the image lies")
    asked = parser.parse_args()
    try:
        world = World(os.path.abspath(asked.spanlith), asked.dir)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"no loop device: {e}")
        return 77
    try:
        world.run()
    finally:
        world.close()
    print(f"{world.wrong} of the cases are wrong")
    return int(world.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
