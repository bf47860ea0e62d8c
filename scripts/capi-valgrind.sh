#!/bin/sh
# Runs crates/capi/tests/c/smoke.c over the shared library under valgrind (errors and leaks), and
# built with AddressSanitizer (the program's own accesses, and leaks of both sides).
#
# usage: capi-valgrind.sh INCLUDE [LIBDIR]
#   INCLUDE  directory that holds rocksdb/c.h of RocksDB 11.8 (scripts/get-peers.sh fetches it)
#   LIBDIR   directory that holds librocksdb.so; default: target/release, which is built if missing
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
include=${1:?usage: capi-valgrind.sh INCLUDE [LIBDIR]}
lib=${2:-}
if [ -z "$lib" ]; then
    (cd "$here" && cargo build --release -p spanlith-librocksdb)
    lib=${CARGO_TARGET_DIR:-$here/target}/release
fi
lib=$(cd "$lib" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$here/crates/capi/tests/c/smoke.c

build() {
    cc -g -O1 -Wall -Wextra -Werror "$@" -I"$include" "$source" -o "$work/smoke" \
        -L"$lib" -l:librocksdb.so
    rm -rf "$work/db"
    mkdir "$work/db"
}

build
echo "smoke, plain"
LD_LIBRARY_PATH=$lib "$work/smoke" "$work/db"

build
echo "smoke, valgrind"
# The threads that all databases share live until the process ends: reachable, not lost.
LD_LIBRARY_PATH=$lib valgrind -q --error-exitcode=9 --leak-check=full \
    --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
    "$work/smoke" "$work/db"

if build -fsanitize=address -fno-omit-frame-pointer 2>"$work/log"; then
    echo "smoke, AddressSanitizer"
    LD_LIBRARY_PATH=$lib ASAN_OPTIONS=detect_leaks=1 "$work/smoke" "$work/db"
else
    echo "smoke, AddressSanitizer: the compiler has none"
fi
