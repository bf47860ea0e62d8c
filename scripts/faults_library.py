"""Scenarios of faults.py that a program sees through the C functions."""
import ctypes
import glob
import os
import shutil
import signal
import sys
import threading
import time
from ctypes import c_char_p, c_double, c_int, c_size_t, c_ubyte, c_uint64, c_void_p

SCENARIOS = {}
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = c_void_p


def scenario(number, what):
    def keep(function):
        SCENARIOS[number] = (what, function)
        return function
    return keep


class Failed(Exception):
    """An error of a C function."""


class Library:
    """Calls by name, without the leading `rocksdb_`."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.kept = []

    def has(self, name):
        return hasattr(self.lib, "rocksdb_" + name)

    def call(self, name, *args, ret=None):
        f = getattr(self.lib, "rocksdb_" + name)
        f.restype = ret
        return f(*args)

    def pointer(self, name, *args):
        return c_void_p(self.call(name, *args, ret=c_void_p))

    def tried(self, name, *args, ret=None):
        err = c_void_p(None)
        answer = self.call(name, *args, ctypes.byref(err), ret=ret)
        if err.value:
            text = ctypes.string_at(err.value).decode(errors="replace")
            self.call("free", err)
            raise Failed(text)
        return c_void_p(answer) if ret is c_void_p else answer

    def options(self, text="", **setters):
        """Options that create what is missing, with the C functions `options_set_NAME` called and a text applied."""
        options = self.pointer("options_create")
        for name in ("create_if_missing", "create_missing_column_families"):
            self.call("options_set_" + name, options, c_ubyte(1))
        if text:
            base, options = options, self.pointer("options_create")
            self.tried("get_options_from_string", base, c_char_p(text.encode()), options)
        for name, value in setters.items():
            self.call("options_set_" + name, options, value)
        return options

    def open(self, path, options=None):
        return Db(self, self.tried("open", options or self.options(), path.encode(), ret=c_void_p))

    def open_families(self, path, names, options=None):
        options = options or self.options()
        n = len(names)
        handles = (c_void_p * n)()
        given = (c_char_p * n)(*[name.encode() for name in names]), (c_void_p * n)(*[options.value] * n)
        db = self.tried("open_column_families", options, path.encode(), c_int(n), *given, handles, ret=c_void_p)
        return Db(self, db, [c_void_p(h) for h in handles])

    def bytes_of(self, data):
        """Memory that the other side frees."""
        place = LIBC.malloc(c_size_t(max(1, len(data))))
        ctypes.memmove(place, data, len(data))
        return place

    def merge_operator(self, name, fold):
        """`fold(existing or None, operands)` of bytes."""
        full = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t,
                                ctypes.POINTER(c_void_p), ctypes.POINTER(c_size_t), c_int,
                                ctypes.POINTER(c_ubyte), ctypes.POINTER(c_size_t))
        partial = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t, ctypes.POINTER(c_void_p),
                                   ctypes.POINTER(c_size_t), c_int, ctypes.POINTER(c_ubyte), ctypes.POINTER(c_size_t))

        def whole(_, key, key_len, old, old_len, operands, lengths, count, success, length):
            existing = ctypes.string_at(old, old_len) if old else None
            value = fold(existing, [ctypes.string_at(operands[n], lengths[n]) for n in range(count)])
            success[0], length[0] = 1, len(value)
            return self.bytes_of(value)

        def part(_, key, key_len, operands, lengths, count, success, length):
            success[0], length[0] = 0, 0
            return None

        freed = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)(lambda _, place, n: LIBC.free(c_void_p(place)))
        kept = (nothing, full(whole), partial(part), freed, *text_of(name))
        self.kept.append(kept)
        return self.pointer("mergeoperator_create", None, *kept[:5])

    def comparator(self, name, compare):
        kind = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)
        order = kind(lambda _, a, n, b, m: compare(ctypes.string_at(a, n), ctypes.string_at(b, m)))
        kept = (nothing, order, *text_of(name))
        self.kept.append(kept)
        return self.pointer("comparator_create", None, *kept[:3])

    def filter(self, name, judge):
        """A compaction filter that keeps everything and calls `judge(key)`."""
        kind = ctypes.CFUNCTYPE(c_ubyte, c_void_p, c_int, c_void_p, c_size_t, c_void_p, c_size_t,
                                ctypes.POINTER(c_void_p), ctypes.POINTER(c_size_t), ctypes.POINTER(c_ubyte))

        def keep(_, level, key, key_len, value, value_len, new, new_len, changed):
            judge(ctypes.string_at(key, key_len))
            return 0
        kept = (nothing, kind(keep), *text_of(name))
        self.kept.append(kept)
        return self.pointer("compactionfilter_create", None, *kept[:3])


@ctypes.CFUNCTYPE(None, c_void_p)
def nothing(_):
    """The destructor of objects without a state."""


def text_of(name):
    """The function that tells a name, and its text, which has to stay."""
    text = ctypes.create_string_buffer(name.encode())
    return ctypes.CFUNCTYPE(c_void_p, c_void_p)(lambda _: ctypes.addressof(text)), text


class Db:
    def __init__(self, library, handle, families=()):
        self.l, self.handle, self.families = library, handle, list(families)
        self.writes = library.pointer("writeoptions_create")
        self.reads = library.pointer("readoptions_create")

    def write(self, what, key, value, cf=None, writes=None):
        named = (cf,) if cf else ()
        name = what + ("_cf" if cf else "")
        self.l.tried(name, self.handle, writes or self.writes, *named, key, c_size_t(len(key)), value,
                     c_size_t(len(value)))

    def put(self, key, value, cf=None, writes=None):
        self.write("put", key, value, cf, writes)

    def get(self, key, cf=None, reads=None):
        length = c_size_t()
        name, named = ("get_cf", (cf,)) if cf else ("get", ())
        found = self.l.tried(name, self.handle, reads or self.reads, *named, key, c_size_t(len(key)),
                             ctypes.byref(length), ret=c_void_p)
        if not found.value:
            return None
        value = ctypes.string_at(found.value, length.value)
        self.l.call("free", found)
        return value

    def flush(self, cf=None):
        options = self.l.pointer("flushoptions_create")
        self.l.tried("flush_cf" if cf else "flush", self.handle, options, *((cf,) if cf else ()))

    def compact(self):
        self.l.call("compact_range", self.handle, None, c_size_t(0), None, c_size_t(0))

    def keys(self):
        it = self.l.pointer("create_iterator", self.handle, self.reads)
        self.l.call("iter_seek_to_first", it)
        found, length = [], c_size_t()
        while self.l.call("iter_valid", it, ret=c_ubyte):
            key = self.l.call("iter_key", it, ctypes.byref(length), ret=c_void_p)
            found.append(ctypes.string_at(key, length.value))
            self.l.call("iter_next", it)
        self.l.call("iter_destroy", it)
        return found

    def property(self, name, cf=None):
        kind, named = ("property_value_cf", (cf,)) if cf else ("property_value", ())
        place = self.l.call(kind, self.handle, *named, name.encode(), ret=c_void_p)
        if not place:
            return None
        text = ctypes.string_at(place).decode(errors="replace")
        self.l.call("free", c_void_p(place))
        return text

    def create(self, name, options):
        return self.l.tried("create_column_family", self.handle, options, name.encode(), ret=c_void_p)

    def drop(self, cf):
        self.l.tried("drop_column_family", self.handle, cf)

    def checkpoint(self, to, limit):
        made = self.l.tried("checkpoint_object_create", self.handle, ret=c_void_p)
        try:
            self.l.tried("checkpoint_create", made, to.encode(), c_uint64(limit))
        finally:
            self.l.call("checkpoint_object_destroy", made)

    def close(self):
        for cf in self.families:
            self.l.call("column_family_handle_destroy", cf)
        self.l.call("close", self.handle)


def in_child(function):
    """The exit code of `function` in a process of its own; 99 if it fails, -9 if it kills itself."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException as e:
            print(e, file=sys.stderr, flush=True)
            os._exit(99)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status)


# ------------------------------------------------------------------ A: data at risk


@scenario("A4", "another wal_dir or other db_paths after a crash")
def moved(place):
    names = {n: place.path(n) for n in ("db", "a", "b", "one", "other")}

    def open_with(logs=None, tables=None, path=names["db"]):
        l = Library(place.library)
        options = l.options()
        if logs:
            l.call("options_set_wal_dir", options, logs.encode())
        if tables:
            one = l.pointer("dbpath_create", tables.encode(), c_uint64(1 << 30))
            l.call("options_set_db_paths", options, (c_void_p * 1)(one.value), c_size_t(1))
        return l.open(path, options)

    def killed():
        db = open_with(names["a"])
        db.l.call("writeoptions_set_sync", db.writes, c_ubyte(1))
        for n in range(50):
            db.put(b"k%d" % n, b"v")
        os.kill(os.getpid(), signal.SIGKILL)
    if in_child(killed) != -9:
        return "the writer failed"
    try:
        db = open_with(names["b"])
        if len(db.keys()) != 50:
            return f"opens with another wal_dir and shows {len(db.keys())} of 50 synced keys"
        db.close()
    except Failed as e:
        if names["a"] not in str(e) or names["b"] not in str(e):
            return f"the refusal does not name both directories: {e}"
        try:
            db = open_with(names["a"])
        except Failed as e:
            return f"going back to the first directory is refused: {e}"
        if len(db.keys()) != 50:
            return "keys are gone after going back"
        db.close()
    # The same of tables.
    path = place.path("tables")
    db = open_with(None, names["one"], path)
    db.put(b"k", b"v")
    db.flush()
    db.close()
    try:
        db = open_with(None, names["other"], path)
        return "opens with other db_paths"
    except Failed as e:
        if names["one"] not in str(e):
            return f"the refusal of other db_paths does not name where the table is: {e}"
    db = open_with(None, names["one"], path)
    if db.get(b"k") != b"v":
        return "the value is gone after going back to the first db_paths"
    db.close()


@scenario("A5", "a handle or a snapshot of another database is accepted")
def foreign(place):
    l = Library(place.library)
    a, b = l.open(place.path("a")), l.open(place.path("b"))
    for db, value in ((a, b"a"), (b, b"b")):
        db.put(b"k", value)
    snapshot = l.pointer("create_snapshot", b.handle)
    reads = l.pointer("readoptions_create")
    l.call("readoptions_set_snapshot", reads, snapshot)
    try:
        found = a.get(b"k", reads=reads)
        return f"a read of one database at a snapshot of another answers {found}"
    except Failed as e:
        if "another database" not in str(e):
            return f"the refusal says '{e}'"
    # The batches of Rust, whose families are no numbers any more, have a test in the tree.
    source = os.path.join(place.tree, "crates/engine/tests/it/at_risk.rs")
    if not os.path.exists(source) or "a_batch_belongs_to_the_database_of_its_families" not in open(source).read():
        return "no test of the tree has a batch refused by another database"


@scenario("A7", "hash indexes of tables with dictionaries mislead RocksDB")
def misleading(place):
    text = ("compression=kLZ4Compression;compression_opts={max_dict_bytes=4096;};prefix_extractor=rocksdb.FixedPrefix.4;"
            "block_based_table_factory={index_type=kHashSearch;block_size=256;format_version=5;};create_if_missing=true")
    l = Library(place.library)
    db = l.open(place.path("db"), l.options(text))
    keys = [b"%04d-key" % n for n in range(200)]
    for key in keys:
        db.put(key, key * 5)
    db.flush()
    db.close()
    peer = Library(place.peer)
    db = peer.open(place.path("db"), peer.options(text))
    missed = [key for key in keys if db.get(key) != key * 5]
    db.close()
    if missed:
        return f"RocksDB misses {len(missed)} of {len(keys)} keys"


@scenario("A8", "copies lack committed transactions")
def committed(place):
    for flushed in (True, False):
        l = Library(place.library)
        own = l.pointer("transactiondb_options_create")
        path = place.path(f"db{flushed}")
        db = l.tried("transactiondb_open", l.options(), own, path.encode(), ret=c_void_p)
        writes = l.pointer("writeoptions_create")
        txn = l.pointer("transaction_begin", db, writes, l.pointer("transaction_options_create"), None)
        l.tried("transaction_set_name", txn, b"t", c_size_t(1))
        l.tried("transactiondb_put", db, writes, b"a", c_size_t(1), b"1", c_size_t(1))
        l.tried("transaction_put", txn, b"b", c_size_t(1), b"2", c_size_t(1))
        l.tried("transaction_prepare", txn)
        if flushed:
            l.tried("transactiondb_flush", db, l.pointer("flushoptions_create"))
        l.tried("transaction_commit", txn)
        l.tried("transactiondb_put", db, writes, b"c", c_size_t(1), b"3", c_size_t(1))
        copy = place.path(f"copy{flushed}")
        made = l.tried("transactiondb_checkpoint_object_create", db, ret=c_void_p)
        l.tried("checkpoint_create", made, copy.encode(), c_uint64(1 << 30))
        for library in (l, Library(place.peer)):
            whose = "this library" if library is l else "RocksDB"
            try:
                opened = library.tried("open_for_read_only", library.options(), copy.encode(), c_ubyte(0), ret=c_void_p)
            except Failed as e:
                return f"{whose} refuses the copy: {e}"
            keys = Db(library, opened).keys()
            if keys != [b"a", b"b", b"c"]:
                return f"{whose} finds {keys} in the copy"
        l.call("transaction_destroy", txn)
        l.call("transactiondb_close", db)


# ------------------------------------------------------------------ B: answers, hangs, resources


@scenario("B9", "copies fail beside families that come and go")
def come_and_go(place):
    l = Library(place.library)
    small = l.options(write_buffer_size=c_size_t(128 << 10))
    db = l.open(place.path("db"), small)
    done = threading.Event()

    def passing():
        while not done.is_set():
            cf = db.create("passing", small)
            for n in range(20):
                db.put(b"%d" % n, b"x" * 1000, cf)
            db.drop(cf)
            l.call("column_family_handle_destroy", cf)

    def writing():
        n = 0
        while not done.is_set():
            n += 1
            db.put(b"%d" % (n % 1000), b"y" * 1000)
    threads = [threading.Thread(target=t, daemon=True) for t in (passing, writing)]
    for t in threads:
        t.start()
    failed = []
    for n in range(60):
        copy = place.path(f"copy{n}")
        try:
            db.checkpoint(copy, 0)
        except Failed as e:
            failed.append(str(e))
        shutil.rmtree(copy, ignore_errors=True)
    done.set()
    for t in threads:
        t.join()
    db.close()
    if failed:
        return f"{len(failed)} of 60 checkpoints failed: '{failed[0]}'"


def blocks(path):
    return sum(os.stat(f).st_blocks * 512 for f in glob.glob(path + "/*"))


@scenario("B10", "an idle database takes 72 MB of disk")
def idle(place):
    l = Library(place.library)
    db = l.open(place.path("db"))
    opened = blocks(place.path("db"))
    db.put(b"k", b"v")
    db.flush()
    flushed = blocks(place.path("db"))
    db.close()
    if max(opened, flushed) > 1 << 20:
        return f"{opened >> 10} KB after the open, {flushed >> 10} KB after a flush"


@scenario("B11", "a flush in a child hangs after the parent closed")
def forked(place):
    l = Library(place.library)

    def session(path):
        db = l.open(place.path(path))
        db.put(b"k", b"v")
        db.flush()
        return db
    session("first").close()
    for path in ("first", "second"):
        pid = os.fork()
        if pid == 0:
            session(path).close()
            os._exit(0)
        for _ in range(1000):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.01)
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"open, put and flush of the {path} database do not end in a child"
        if status:
            return f"the child that opens the {path} database ends with status {status}"


@scenario("B12", "changed options stop writes for ever")
def stopped(place):
    changes = [
        {"level0_stop_writes_trigger": "1", "level0_file_num_compaction_trigger": "4"},
        {"level0_file_num_compaction_trigger": "0", "level0_slowdown_writes_trigger": "0",
         "level0_stop_writes_trigger": "0"},
        {"max_write_buffer_number": "1"},
    ]
    l = Library(place.library)
    for number, change in enumerate(changes):
        options = l.options("create_if_missing=true;max_write_buffer_number=4;min_write_buffer_number_to_merge=2")
        db = l.open(place.path(f"db{number}"), options)
        names, values = ((c_char_p * len(change))(*[t.encode() for t in texts])
                         for texts in (change.keys(), change.values()))
        l.tried("set_options", db.handle, c_int(len(change)), names, values)
        ended = threading.Event()

        def write():
            for part in range(6):
                for n in range(10):
                    db.put(b"%d-%d" % (part, n), b"v")
                db.flush()
            ended.set()
        threading.Thread(target=write, daemon=True).start()
        if not ended.wait(8):
            return f"writes stop for ever after set_options of {change}"
        db.close()


@scenario("B13", "a compaction filter that writes while writers are stopped hangs")
def filter_writes(place):
    l = Library(place.library)
    for number in range(6):
        go, errors, wrote = threading.Event(), [], []
        box = []

        def judge(key):
            if key.startswith(b"user"):
                go.wait()
                try:
                    box[0].put(b"filter-" + key, b"v")
                    wrote.append(key)
                except Failed as e:
                    errors.append(str(e))
        options = l.options("create_if_missing=true;disable_auto_compactions=true;level0_file_num_compaction_trigger=2;"
                            "level0_slowdown_writes_trigger=2;level0_stop_writes_trigger=3")
        l.call("options_set_compaction_filter", options, l.filter("test.Writes", judge))
        db = l.open(place.path(f"db{number}"), options)
        box.append(db)
        for part in range(3):
            for key in (b"user0", b"user1", b"user2"):
                db.put(key, b"%d" % part)
            db.flush()
        l.tried("set_options", db.handle, c_int(1), (c_char_p * 1)(b"disable_auto_compactions"), (c_char_p * 1)(b"false"))
        writers = [threading.Thread(target=db.put, args=(b"writer%d" % n, b"v"), daemon=True) for n in range(3)]
        for t in writers:
            t.start()
        time.sleep(0.02)
        go.set()
        for t in writers:
            t.join(5)
            if t.is_alive():
                return f"writers wait for ever in round {number + 1} of 6"
        for _ in range(500):
            if len(wrote) + len(errors) >= 3:
                break
            time.sleep(0.01)
        else:
            return f"the filter waits for ever in round {number + 1} of 6"
        # A write of a job may be refused by a text; it may not hang.
        db.close()


@scenario("B14", "a cache that outlives a close is cold and keeps dead copies")
def outlives(place):
    l = Library(place.library)
    cache = l.pointer("cache_create_lru", c_size_t(64 << 20))
    table = l.pointer("block_based_options_create")
    l.call("block_based_options_set_block_cache", table, cache)
    options = l.options()
    l.call("options_set_block_based_table_factory", options, table)
    l.call("options_set_compression", options, c_int(0))
    usages = []
    for number in range(6):
        db = l.open(place.path("db"), options)
        if not number:
            for n in range(2000):
                db.put(b"%05d" % n, os.urandom(1000))
            db.flush()
        if len(db.keys()) != 2000:
            return "keys are missing"
        db.close()
        usages.append(l.call("cache_get_usage", cache, ret=c_size_t))
    if usages[-1] > usages[0] * 3 // 2:
        return f"six opens of one table hold {usages[-1] >> 10} KB, the first held {usages[0] >> 10} KB"


@scenario("B18", "snapshots that nobody took, flushes that nobody asked for")
def asked_for(place):
    l = Library(place.library)
    db = l.open_families(place.path("db"), ["default", "a", "b"])
    _, a, b = db.families
    for cf in (a, b):
        db.put(b"k", b"v", cf)
    iterators = (c_void_p * 2)()
    l.tried("create_iterators", db.handle, db.reads, (c_void_p * 2)(a.value, b.value), iterators, c_size_t(2))
    count = db.property("rocksdb.num-snapshots")
    for it in iterators:
        l.call("iter_destroy", c_void_p(it))
    db.close()
    if count != "0":
        return f"rocksdb.num-snapshots is {count} while iterators of two families exist"
    db = l.open_families(place.path("atomic"), ["default", "a", "b"], l.options(atomic_flush=c_ubyte(1)))
    _, a, b = db.families
    for cf in (a, b):
        db.put(b"k", b"v", cf)
    db.flush(a)
    left = db.property("rocksdb.num-entries-active-mem-table", b)
    db.close()
    if left != "1":
        return "with atomic_flush a flush of one family flushed another"


@scenario("B19", "properties of a cache that is not there, filters of -5 bits")
def absent_cache(place):
    l = Library(place.library)
    for bits in (-5.0, float("nan")):
        table = l.pointer("block_based_options_create")
        l.call("block_based_options_set_no_block_cache", table, c_ubyte(1))
        l.call("block_based_options_set_filter_policy", table, l.pointer("filterpolicy_create_bloom", c_double(bits)))
        options = l.options()
        l.call("options_set_block_based_table_factory", options, table)
        try:
            db = l.open(place.path(f"db{bits}"), options)
        except Failed as e:
            return f"bloom({bits}) is refused: {e}"
        for n in range(100):
            db.put(b"%d" % n, b"v")
        db.flush()
        facts = db.property("rocksdb.aggregated-table-properties")
        answers = [n for n in ("capacity", "usage", "pinned-usage", "entry-stats")
                   if db.property("rocksdb.block-cache-" + n) is not None]
        db.close()
        if answers:
            return f"without a block cache these properties answer: {', '.join(answers)}"
        # Of what is no number RocksDB makes the largest filter there is.
        is_filter = "filter block size=0;" not in facts
        if is_filter != (bits != bits):
            return f"bloom({bits}) makes {'a' if is_filter else 'no'} filter"


@scenario("B20", "families cost more the more there are")
def many_families(place):
    def written():
        with open("/proc/self/io") as counts:
            return int(dict(line.split(": ") for line in counts)["wchar"])
    l = Library(place.library)
    options = l.options()
    db = l.open(place.path("db"), options)
    # Processor time would say the same, more or less.
    bytes_of, time_of = [], []
    for part in range(3):
        begin, cpu = written(), time.process_time()
        db.families += [db.create(f"f{part}-{n}", options) for n in range(100)]
        bytes_of.append(written() - begin)
        time_of.append(time.process_time() - cpu)
    db.close()
    if bytes_of[-1] > bytes_of[0]:
        return (f"three hundreds of families write {', '.join(f'{b >> 20} MB' for b in bytes_of)} and take "
                f"{', '.join(f'{t:.2f} s' for t in time_of)} of processor time")
