#!/usr/bin/env bash
# Puts the two RocksDB releases that Spanlith is measured and checked against into one folder.
#
#   scripts/get-peers.sh [DEST]        DEST: default ${PEERS:-${TMPDIR:-/tmp}/peers}
#
#   DEST/lib11/librocksdb.so    11.8.1, taken out of the Java package org.rocksdb:rocksdbjni; it
#                               exports the whole C interface
#   DEST/lib78/librocksdb.so    7.8.3 of the Linux distribution (a link); its tools ldb and sst_dump
#                               are installed with it
#   DEST/inc11/rocksdb/c.h      the C header of 11.8.1, out of the crate librocksdb-sys
#
# Every file is pinned by its SHA-256. A file that is there and right is not fetched again, so a
# second run needs no network. Needs x86-64 Linux, mvn with a JDK, cargo, python3, and apt-get with
# root if the packages of the distribution are missing. Prints "sha256  file" for each file.
set -euo pipefail

sum_lib11=265c656af5c6502cb8d71db1a74858509f706cc47f1a5b6f603c736d11ce677d
sum_inc11=d2d96eb10b8670e37cb51c91758e39d7f10acfede72ab69e765326585eefb41f
# Debian's 7.8.3-2. Another build of 7.8.3 is accepted with a warning: it is the same release.
sum_lib78=0e11ed1c215582becf15f3d445a69c91e2945fa91a89c7e63abbe36f25d0e2c8

note() { printf 'get-peers: %s\n' "$*" >&2; }
fail() { note "$*"; exit 1; }
sum_of() { sha256sum "$1" | cut -d' ' -f1; }
is_there() { [[ -s $1 && $(sum_of "$1") == "$2" ]]; }           # is_there FILE SUM
need() { command -v "$1" >/dev/null || fail "$1 is missing"; }

[[ $(uname -sm) == "Linux x86_64" ]] || fail "the pinned files are for x86-64 Linux, this is $(uname -sm)"
dest=${1:-${PEERS:-${TMPDIR:-/tmp}/peers}}
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
tmp=$(mktemp -d "$dest/.fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# A fetched file takes its place only with the right checksum, and in one step.
install_checked() { # install_checked FILE SUM TARGET
  local got
  got=$(sum_of "$1")
  [[ $got == "$2" ]] || fail "${3#"$dest"/}: checksum $got instead of $2"
  mkdir -p "$(dirname "$3")"
  mv "$1" "$3"
}

fetch_lib11() {
  need mvn
  need python3
  local jar=rocksdbjni-11.8.1.jar
  note "fetching $jar"
  if ! mvn -q -B dependency:copy -Dartifact=org.rocksdb:rocksdbjni:11.8.1:jar \
    -DoutputDirectory="$tmp" >"$tmp/mvn.log" 2>&1; then
    mvn -q -B dependency:get -Dartifact=org.rocksdb:rocksdbjni:11.8.1:jar -Dtransitive=false \
      >>"$tmp/mvn.log" 2>&1 || { tail -n 3 "$tmp/mvn.log" >&2; fail "mvn could not fetch $jar"; }
    cp "${M2_REPO:-$HOME/.m2/repository}/org/rocksdb/rocksdbjni/11.8.1/$jar" "$tmp/"
  fi
  python3 -c '
import sys, zipfile
sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("librocksdbjni-linux64.so"))' \
    "$tmp/$jar" >"$tmp/librocksdb.so"
  chmod 755 "$tmp/librocksdb.so"
  install_checked "$tmp/librocksdb.so" $sum_lib11 "$dest/lib11/librocksdb.so"
}

installed_lib78() { find /usr/lib -name librocksdb.so.7.8.3 2>/dev/null | head -n 1; }

fetch_lib78() {
  if [[ -z $(installed_lib78) ]] || ! command -v ldb >/dev/null || ! command -v sst_dump >/dev/null; then
    [[ $(id -u) == 0 ]] || fail "install rocksdb-tools and librocksdb-dev (7.8.3), or run this as root"
    note "installing rocksdb-tools and librocksdb-dev"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q rocksdb-tools librocksdb-dev >&2 ||
      { apt-get update -q >&2 && apt-get install -y -q rocksdb-tools librocksdb-dev >&2; } ||
      fail "apt-get could not install them"
  fi
  local lib
  lib=$(installed_lib78)
  [[ -n $lib ]] || fail "the distribution has another release than 7.8.3"
  mkdir -p "$dest/lib78"
  ln -sfn "$lib" "$dest/lib78/librocksdb.so"
  is_there "$dest/lib78/librocksdb.so" $sum_lib78 || note "warning: another build of 7.8.3 than the pinned one"
}

fetch_inc11() {
  need cargo
  need python3
  note "fetching c.h"
  mkdir -p "$tmp/header/src"
  : >"$tmp/header/src/lib.rs"
  cat >"$tmp/header/Cargo.toml" <<'TOML'
[package]
name = "header"
version = "0.0.0"
edition = "2021"
[dependencies]
librocksdb-sys = { version = "=0.19.0", default-features = false }
[workspace]
TOML
  local crate
  crate=$(cd "$tmp/header" && cargo metadata -q --format-version 1 | python3 -c '
import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == "librocksdb-sys":
        print(os.path.dirname(package["manifest_path"]))') || fail "cargo could not fetch librocksdb-sys"
  cp "$crate/rocksdb/include/rocksdb/c.h" "$tmp/c.h"
  install_checked "$tmp/c.h" $sum_inc11 "$dest/inc11/rocksdb/c.h"
}

is_there "$dest/lib11/librocksdb.so" $sum_lib11 || fetch_lib11
fetch_lib78
is_there "$dest/inc11/rocksdb/c.h" $sum_inc11 || fetch_inc11

cd "$dest"
sha256sum lib11/librocksdb.so lib78/librocksdb.so inc11/rocksdb/c.h
