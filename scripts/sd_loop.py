#!/usr/bin/env python3
"""Speed disks on loop devices that are mounted, in use, for reading only, smaller than they were, or gone, before an open or while a
database writes; and in a file that cannot be written past the page cache.

    scripts/sd_loop.py SPANLITH [--dir DIR]

Needs root, losetup, mkfs.ext4 and mount. Each case says what the program has to answer; whatever is refused must leave the device as it
was. Exit 1 if one answers otherwise, 77 where the machine lets nobody make loop devices.
"""

import argparse
import errno
import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

SIZE = 64 << 20

# Where a speed disk's page groups begin.
LOGS_BEGIN = 256 << 10

# Entries that a writer is given at a time.
STEP = 200

# Of linux/loop.h.
LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05
STATUS = struct.Struct("5Q 4I 64s 64s 32s 2Q")
SIZE_LIMIT = 4


def shell(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def limit(device, size):
    """Has a loop device end at a size, and 0 where its file does; nothing of the file changes."""
    handle = os.open(device, os.O_RDWR)
    try:
        status = list(STATUS.unpack(fcntl.ioctl(handle, LOOP_GET_STATUS64, bytes(STATUS.size))))
        status[SIZE_LIMIT] = size
        fcntl.ioctl(handle, LOOP_SET_STATUS64, STATUS.pack(*status))
    finally:
        os.close(handle)


def knows_direct(path):
    """Whether the file can be written past the page cache."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_DIRECT))
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise
        return False
    return True


class Writer:
    """A process that makes entries durable one by one. `begun` counts them: the database has all of a step once it returns."""

    def __init__(self, program, db, begun):
        words = [program, "db", "load", "--db", db, "--sync", "--batch-size", "1"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.begun = begun

    def give(self):
        lines = (f"w{self.begun + n:06}\tvalue\n" for n in range(STEP))
        try:
            self.process.stdin.write("".join(lines))
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        self.begun += STEP

    def step(self):
        """Returns once it asks for more."""
        self.give()
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            with open(f"/proc/{self.process.pid}/wchan", encoding="ascii") as f:
                if "pipe_read" in f.read():
                    return
            time.sleep(0.01)
        self.process.kill()
        raise TimeoutError("the writer never asked for more")

    def end(self):
        try:
            _, errors = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None, "it hangs"
        return self.process.returncode, errors


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
        self.tell(what, is_right, f"code {done.returncode}: {done.stderr.strip()}")

    def tell(self, what, is_right, why):
        print(f"{'ok   ' if is_right else 'WRONG'} {what}")
        if not is_right:
            print(f"      {why}")
            self.wrong += 1

    def expect_entries(self, what, least):
        """The writers' first entries are there, as many as were made durable at least, and none is missing among them."""
        words = [self.program, "db", "scan", "--db", self.db]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        keys = [line.split("\t")[0] for line in done.stdout.splitlines() if line.startswith("w")]
        is_whole = keys == [f"w{n:06}" for n in range(len(keys))]
        self.tell(what, done.returncode == 0 and is_whole and len(keys) >= least, f"{len(keys)} of {least}: {done.stderr.strip()}")
        return len(keys)

    def make_file_system(self, *size):
        # All of it at once: nothing is written once it is mounted.
        shell("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device, *size)

    def run(self):
        self.refusals()
        self.changes_beside_a_writer()
        self.mounted_beside_a_part()
        self.without_direct_writes()

    def refusals(self):
        disk, db = self.device, ["--db", self.db]
        part = f"{disk}@{SIZE // 2}+{SIZE // 4}"
        self.make_file_system()
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

    def changes_beside_a_writer(self):
        writer = Writer(self.program, self.db, 0)
        writer.step()
        # The system detaches it once it is closed.
        shell("losetup", "-d", self.device)
        writer.step()
        code, errors = writer.end()
        self.tell("detached while it is written", code == 0, f"code {code}: {errors.strip()}")
        self.expect("detached, opened again", ["db", "get", "--db", self.db, "k"], "holds no speed disk")
        shell("losetup", self.device, self.image)
        there = self.expect_entries("detached and back", writer.begun)
        writer = Writer(self.program, self.db, there)
        writer.step()
        durable = writer.begun
        limit(self.device, LOGS_BEGIN)
        writer.give()
        code, errors = writer.end()
        self.tell("ends early while it is written", code == 1 and "While writing a speed disk" in errors, f"code {code}: {errors.strip()}")
        self.expect("ends early, opened again", ["db", "get", "--db", self.db, "k"], "when it was formatted")
        limit(self.device, 0)
        self.expect_entries("its end again", durable)

    def mounted_beside_a_part(self):
        """The system lets a device be mounted of which a process has a part: nobody has claimed all of it."""
        shutil.rmtree(self.db)
        self.make_file_system("16M")
        part = f"{self.device}@{SIZE // 2}+{SIZE // 4}"
        self.expect("a part beside a file system", ["sd", "format", part, "--force"])
        self.expect("a database takes it", ["db", "put", "--set", f"sd_path={part}", "--create", "--db", self.db, "k", "v"])
        writer = Writer(self.program, self.db, 0)
        writer.step()
        shell("mount", self.device, self.mounted)
        with open(os.path.join(self.mounted, "file"), "wb") as f:
            f.write(bytes(1 << 20))
        writer.step()
        code, errors = writer.end()
        self.tell("mounted after the part was opened", code == 0, f"code {code}: {errors.strip()}")
        os.sync()
        self.expect("mounted, opened again", ["db", "put", "--db", self.db, "k", "w"], "Device or resource busy")
        shell("umount", self.mounted)
        self.expect_entries("unmounted", writer.begun)
        checked = subprocess.run(["fsck.ext4", "-n", "-f", self.device], capture_output=True, text=True)
        self.tell("the file system beside it", checked.returncode == 0, checked.stdout)

    def without_direct_writes(self):
        shutil.rmtree(self.db)
        shell("mount", "-t", "ramfs", "ramfs", self.mounted)
        disk = os.path.join(self.mounted, "disk")
        self.expect("a file without direct writes", ["sd", "format", disk, "--size", "16M"])
        self.tell("it has none", not knows_direct(disk), "the system lets it be written past the page cache")
        self.expect("a database takes it", ["db", "put", "--set", f"sd_path={disk}", "--create", "--db", self.db, "k", "v"])
        writer = Writer(self.program, self.db, 0)
        writer.step()
        writer.process.kill()
        writer.end()
        self.expect_entries("killed, without direct writes", writer.begun)
        shell("umount", self.mounted)


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
