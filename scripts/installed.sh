#!/usr/bin/env bash
# What `cargo xtask install` lays down can be used: programs in C and C++ are built against it through pkg-config,
# linked with the shared and the static library, and run; the same binary then runs on RocksDB.
#
#   scripts/installed.sh [--profile NAME]     PEERS as for scripts/get-peers.sh
#
# Also holds the declarations of include/rocksdb/c.h to those of RocksDB 11.8.1. Exit code 1 on any difference.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=release
[[ ${1:-} != --profile ]] || profile=$2
peers=${PEERS:-${TMPDIR:-/tmp}/peers}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Enumerations and the struct are compared by value and by use; a repeated declaration of a function compiles only
# if both are the same. Functions of later releases and of earlier ones have no counterpart.
sed -e '/^enum {/,/^};/d' -e '/^typedef struct rocksdb_slice_t {/,/^}/d' include/rocksdb/c.h >"$work/declarations.h"
{
  echo "#include \"$peers/inc11/rocksdb/c.h\""
  echo "#include \"$work/declarations.h\""
  awk -F'\t' '$1 == "constant" { printf "_Static_assert(%s == %s, \"%s\");\n", $3, $4, $3 }' crates/capi/spec/c-api.tsv
} >"$work/both.c"
gcc -std=c11 -Wall -Werror -fsyntax-only "$work/both.c"
echo "installed: $(grep -c 'ROCKSDB_LIBRARY_API rocksdb\|ROCKSDB_LIBRARY_API.*(' include/rocksdb/c.h) declarations agree with RocksDB 11.8.1"
for standard in c99 c11 c17; do gcc -std=$standard -Wall -Wextra -pedantic -Werror -fsyntax-only include/rocksdb/c.h; done

cargo xtask install --prefix "$work/prefix" --profile "$profile" --soname 7.8 >"$work/install.log"
cat >"$work/program.c" <<'PROGRAM'
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(char* error, const char* what) {
  if (error != NULL) {
    fprintf(stderr, "%s: %s\n", what, error);
    exit(1);
  }
}

int main(int argc, char** argv) {
  char* error = NULL;
  size_t length = 0;
  if (argc != 2) return 2;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compression(options, rocksdb_lz4_compression);
  rocksdb_t* db = rocksdb_open(options, argv[1], &error);
  check(error, "open");
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_put(db, writes, "key", 3, "value", 5, &error);
  check(error, "put");
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  char* value = rocksdb_get(db, reads, "key", 3, &length, &error);
  check(error, "get");
  if (length != 5 || memcmp(value, "value", 5) != 0) return 1;
  rocksdb_free(value);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  puts("ok");
  return 0;
}
PROGRAM
cp "$work/program.c" "$work/program.cc"
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
flags=$(pkg-config --cflags --libs rocksdb)
# shellcheck disable=SC2086 # The flags are words.
{
  gcc -Wall -Wextra -Werror "$work/program.c" $flags -o "$work/in-c"
  g++ -Wall -Wextra -Werror "$work/program.cc" $flags -o "$work/in-cxx"
  gcc "$work/program.c" $(pkg-config --cflags rocksdb) "$work/prefix/lib/librocksdb.a" -lm -o "$work/static"
}
readelf -d "$work/in-c" | grep -q 'librocksdb.so.11.8' || { echo "installed: the soname is not librocksdb.so.11.8" >&2; exit 1; }
for link in librocksdb.so librocksdb.so.11 librocksdb.so.11.8 librocksdb.so.7 librocksdb.so.7.8; do
  [[ -e $work/prefix/lib/$link ]] || { echo "installed: no $link" >&2; exit 1; }
done
mkdir "$work/rocksdb" && ln -s "$peers/lib11/librocksdb.so" "$work/rocksdb/librocksdb.so.11.8"
for program in in-c in-cxx; do
  LD_LIBRARY_PATH=$work/prefix/lib "$work/$program" "$work/db-$program" >/dev/null
  LD_LIBRARY_PATH=$work/rocksdb "$work/$program" "$work/db-$program" >/dev/null
done
"$work/static" "$work/db-static" >/dev/null
"$work/prefix/bin/spanlith" db get --db "$work/db-static" key >/dev/null
echo "installed: programs in C and C++ run on the installed libraries, and on RocksDB"

# A program of release 7.8, in which functions have other arguments. It says the same on both.
cat >"$work/older.c" <<'PROGRAM'
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void handle;
extern handle* rocksdb_options_create(void);
extern void rocksdb_options_set_create_if_missing(handle*, unsigned char);
extern void rocksdb_options_set_prefix_extractor(handle*, handle*);
extern handle* rocksdb_slicetransform_create(void*, void (*)(void*), char* (*)(void*, const char*, size_t, size_t*),
                                             unsigned char (*)(void*, const char*, size_t),
                                             unsigned char (*)(void*, const char*, size_t), const char* (*)(void*));
extern handle* rocksdb_open(handle*, const char*, char**);
extern handle* rocksdb_writeoptions_create(void);
extern void rocksdb_put(handle*, handle*, const char*, size_t, const char*, size_t, char**);
extern void rocksdb_disable_file_deletions(handle*, char**);
extern void rocksdb_enable_file_deletions(handle*, unsigned char, char**);
extern int rocksdb_property_int(handle*, const char*, uint64_t*);
extern void rocksdb_close(handle*);

static char* first(void* state, const char* key, size_t length, size_t* prefix) {
  (void)state, (void)length;
  *prefix = 1;
  return (char*)key;
}
static unsigned char any(void* state, const char* key, size_t length) {
  (void)state, (void)key;
  return length > 0;
}
static const char* name(void* state) { return state; }
static void none(void* state) { (void)state; }

int main(int argc, char** argv) {
  char* error = NULL;
  uint64_t disabled = 9;
  if (argc != 2) return 2;
  handle* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_prefix_extractor(options, rocksdb_slicetransform_create("first", none, first, any, any, name));
  handle* db = rocksdb_open(options, argv[1], &error);
  for (int i = 0; error == NULL && i < 7; i++) rocksdb_put(db, rocksdb_writeoptions_create(), "key", 3, "value", 5, &error);
  for (int i = 0; error == NULL && i < 3; i++) rocksdb_disable_file_deletions(db, &error);
  if (error == NULL) rocksdb_enable_file_deletions(db, 0, &error);
  if (error == NULL) rocksdb_property_int(db, "rocksdb.is-file-deletions-enabled", &disabled);
  printf("%s, disabled %d", error ? error : "ok", (int)disabled);
  if (error == NULL) rocksdb_enable_file_deletions(db, 1, &error);
  if (error == NULL) rocksdb_property_int(db, "rocksdb.is-file-deletions-enabled", &disabled);
  printf(", then %d\n", (int)disabled);
  rocksdb_close(db);
  return error != NULL;
}
PROGRAM
gcc -Wall -Wextra -Werror "$work/older.c" "$peers/lib78/librocksdb.so" -Wl,--allow-shlib-undefined -o "$work/older"
readelf -d "$work/older" | grep -q 'librocksdb.so.7.8' || { echo "installed: the program does not ask for 7.8" >&2; exit 1; }
mkdir "$work/rocksdb78" && ln -s "$peers/lib78/librocksdb.so" "$work/rocksdb78/librocksdb.so.7.8"
theirs=$(LD_LIBRARY_PATH=$work/rocksdb78 "$work/older" "$work/db-theirs")
ours=$(LD_LIBRARY_PATH=$work/prefix/lib "$work/older" "$work/db-ours")
[[ $ours == "$theirs" ]] || { printf 'installed: RocksDB 7.8 says "%s", ours "%s"\n' "$theirs" "$ours" >&2; exit 1; }
echo "installed: a program of 7.8 says the same on both: $ours"
