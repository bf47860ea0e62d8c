#!/usr/bin/env bash
# What is compatible with RocksDB and how far, with the C functions that the built library exports, as
# docs/compat.md.
#
#   scripts/capi-list.sh LIBRARY           writes docs/compat.md
#   scripts/capi-list.sh --check LIBRARY   exit 1 if docs/compat.md says something else
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=
if [[ ${1:-} == --check ]]; then check=1; shift; fi
[[ $# == 1 && -e $1 ]] || { sed -n '2,7p' "$0" >&2; exit 2; }
# Names in a list of crates/engine/src/options/unsupported.rs, as one paragraph.
options_of() {
  sed -n "/^const $1: /,/^];/p" crates/engine/src/options/unsupported.rs \
    | sed -n 's/^ *"\(.*\)",.*/`\1`/p' | paste -sd, | sed 's/,/, /g' | fold -sw 108 | sed 's/ *$//'
}

# Fails if a function that the text names is not exported.
named_functions_exist() {
  local name lost=0
  while read -r name; do
    grep -qx "$name" <<<"$2" || { echo "capi-list.sh names $name, which is not exported" >&2; lost=1; }
  done < <(grep -o '`rocksdb_[a-z0-9_]*`' <<<"$1" | tr -d '`')
  return "$lost"
}

head_text() {
  cat <<'HEAD'
# Compatibility

Written by `scripts/capi-list.sh` from the built library and the lists of options in
`crates/engine/src/options/unsupported.rs`; `.ci/run` fails when it is stale.

## Files

Read: logs in every form, MANIFEST, CURRENT, IDENTITY, OPTIONS, block-based tables of format versions 0 to
8 with every codec, checksum, index and filter that RocksDB writes, cuckoo and plain tables, blob files; column families, puts,
deletes, single deletes, range deletions, merges (built-in operators, and those given through the API),
wide-column entities, TimedPut values, values in blob files, user-defined timestamps, prepared transactions.
Written: the same, but for tables of format versions 0 and 1, and transactions of the policies write-prepared and
write-unprepared.

Refused, by name, when a directory is opened: codecs of Windows and of a compression manager, logs compressed otherwise than by Zstandard, undecided transactions without
`allow_2pc`, and undecided write-prepared transactions of which a part is in tables. Nothing in the
directory is changed then.

The newest release whose files were read here is RocksDB 11.12.0. OPTIONS files are written with the names of 11.8; options that
came later stand in them only if they are not the defaults, and such a file says that it is of 11.12.

## Options

An option whose feature does not exist makes `open` fail with `Not implemented: ` and the names of all such
options. A new option is refused until somebody implements it. The others are honoured, but for those in the
next section. Names of objects that RocksDB does not know either, those of a program, are left out where the C
functions read options from a text or a file, as there.

## Accepted without effect

Hints, of which RocksDB promises no result either, and parts of features that are themselves refused. They
are kept, written to OPTIONS and given back by the getters, and change nothing.

Of the database:

HEAD
  options_of DB_WITHOUT_EFFECT
  printf '\nOf a family:\n\n'
  options_of CF_WITHOUT_EFFECT
  printf '\nOf tables:\n\n'
  options_of TABLE_WITHOUT_EFFECT
  cat <<'HEAD'

In parts:

| what | instead |
|---|---|
| `memtable_factory`: skip list, vector, hash skip list, hash linked list | there is one memtable; other factories are refused. With the hashing ones, iterators in the mode of prefixes that begin at an end of the order meet only tables, as in RocksDB |
| `enable_pipelined_write`, `unordered_write`, `two_write_queues` | combinations are checked as RocksDB does; the one write path promises more than each |
| `memtable_protection_bytes_per_key`, `block_protection_bytes_per_key` | data blocks have one checksum each, for all their entries, verified whenever a block is taken; indexes have one per entry; Bloom filters, which RocksDB leaves out, have one per 128 bytes |
| `reduce_file_locking` of `compaction_options_universal` | there is one pool of compaction threads |
| `age_for_warm`, `allow_trivial_copy_when_change_temperature`, `trivial_copy_buffer_size` of `compaction_options_fifo` | the first has no effect in RocksDB either; a file whose temperature changes is written anew, not copied |
| `compression_opts.parallel_threads`, `compression_opts.strategy` | one thread compresses a file, zlib's default strategy |

In the C API:

| function or object | what has no effect |
|---|---|
| `rocksdb_options_set_blob_cache` | the cache: values of blob files are read where they are |
| `rocksdb_env_lower_thread_pool_io_priority`, `rocksdb_env_lower_thread_pool_cpu_priority`, `rocksdb_env_lower_high_priority_thread_pool_io_priority`, `rocksdb_env_lower_high_priority_thread_pool_cpu_priority` | the call |
| `rocksdb_options_set_access_hint_on_compaction_start`, `rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open`, `rocksdb_options_set_max_write_buffer_number_to_maintain`, `rocksdb_readoptions_set_managed`, `rocksdb_block_based_options_set_block_cache_compressed`, `rocksdb_writebatch_wi_create_from` | the call: functions of earlier releases; getters say what was set, or the former defaults, the last one NULL |
| `rocksdb_env_join_all_threads` | the call: threads belong to the process |
| `rocksdb_env_set_background_threads` and its kin | a number below what open databases need |
| `rocksdb_readoptions_t` | `io_timeout`, `rate_limiter_priority`, `async_io`, `optimize_multiget_for_io`, `adaptive_readahead`, `auto_readahead_size`, `background_purge_on_iterator_cleanup`, `allow_unprepared_value`, `auto_refresh_iterator_with_snapshot` |
| `rocksdb_writeoptions_t` | `low_pri`, `memtable_insert_hint_per_batch`, `io_activity` |
| `rocksdb_flushoptions_t` | `listener_wait`: flushes always wait for listeners |
| `rocksdb_flushwaloptions_t` | `rate_limiter_priority` |
| `rocksdb_compactoptions_t` | `blob_garbage_collection_age_cutoff`; a policy other than the default is refused |
| `rocksdb_compaction_options_t` | `allow_trivial_move` |
| `rocksdb_wait_for_compact_options_t` | `wait_for_purge`: the job that made files obsolete deletes them |
| `rocksdb_hyper_clock_cache_options_t`, `rocksdb_cache_create_hyper_clock` | `estimated_entry_charge` |
| `rocksdb_verify_checksum_with_options`, `rocksdb_verify_file_checksums_with_options` | the read options, but for `io_activity` |
| `rocksdb_filterpolicy_create_bloom_format` | the format: there is one |
| `rocksdb_get_updates_since` | `verify_checksums`: records are always verified |
| `rocksdb_writebatch_wi_get_from_batch`, `rocksdb_writebatch_wi_get_from_batch_cf` | the options: the batch knows the order |
| `rocksdb_writebatch_wi_create`, `rocksdb_writebatch_wi_create_with_params` | whether keys are overwritten: answers are the same |
| `rocksdb_batched_multi_get_cf`, `rocksdb_batched_multi_get_cf_slice` | `sorted_input`: keys are sorted in any case |
| `rocksdb_key_may_exist`, `rocksdb_key_may_exist_cf` | `timestamp`; that of the read options counts |
| `rocksdb_envoptions_t` | all but `use_direct_writes`, `bytes_per_sync`, `strict_bytes_per_sync` and the rate limiter |
| `rocksdb_sstfilewriter_create_with_comparator` | the comparator, as in RocksDB: that of the options counts |
| `rocksdb_ingestexternalfileoptions_t` | `write_global_seqno`: files stay as they are, readers ask the MANIFEST; `verify_file_checksum`, as in RocksDB's C API; `prefetch_lmax_index_and_filter_blocks`, `file_opening_threads` |
| `rocksdb_transactiondb_options_t` | `max_num_deadlocks`, `rollback_merge_operands`, `use_per_key_point_lock_mgr`, `default_write_batch_flush_threshold`, `enable_udt_validation`, `txn_commit_bypass_memtable_threshold`; a `write_policy` other than that of commits is refused |
| `rocksdb_transaction_options_t` | `deadlock_timeout_us`, `use_only_the_last_commit_time_batch_for_recovery`, `write_batch_flush_threshold`, `write_batch_track_timestamp_size`, `commit_bypass_memtable`, `large_txn_commit_optimize_threshold`, `large_txn_commit_optimize_byte_threshold` |
| `rocksdb_optimistictransactiondb_options_t`, `rocksdb_optimistictransactiondb_lock_buckets_t` | all: conflicts are looked for without buckets |
| `rocksdb_transaction_set_commit_timestamp`, `rocksdb_transaction_set_read_timestamp_for_validation` | the call: transactions refuse families with timestamps |

## Behaviour

RocksDB 11.8.1's, but for these, most of them where it loses data or stops the database:

- Background compactions wait while less than `min_free_bytes` are free (room for one memtable of each
  family, at most 64 MiB). A directory may hold `SPANLITH`, with the options that RocksDB does not have, if
  some are not at their defaults.
- A write that could not be applied (a range that ends before it begins, a merge without an operator, a
  batch that does not decode, a family that was dropped) is refused before it is logged, and writes go on.
- A batch with index that was asked for a range deletion, which it cannot hold, is refused when it is written. RocksDB
  writes the rest of it, without the deletion, and says so to nobody.
- Merge records in a log fail an open without their operator instead of dropping everything after them.
- A table that the MANIFEST does not name is deleted at open only if its origin is explained.
- Best-efforts recovery puts aside, into `lost/`, the logs and what else it leaves out.
- Damage to bytes of a log, or of the MANIFEST, that had been synced makes `open` fail with `Corruption`
  where the files prove it; RocksDB opens without everything after it. Files that RocksDB wrote
  prove nothing and are opened as by RocksDB ([formats/evidence.md](formats/evidence.md)).
- Logs and MANIFEST hold records and fields that RocksDB skips. Its readers of updates show them as batches
  without updates; ours hide them.
- A clean close syncs the log and says in the MANIFEST where it ends.
- More than four `cf_paths` are refused, as more than four `db_paths` are in both. RocksDB takes them, but has two
  bits for a directory: a table meant for the fifth is looked for in the first, and the flush or compaction fails.
- Tables and blob files that nothing explains, and what is not replayed of logs, are kept in `lost/` for a
  week; RocksDB deletes them.
- `close` syncs the log.
- A flush or compaction that fails for want of space, files or a working disk is tried again while writes
  go on; a writer that waits in vain for it gets its error. RocksDB stops writes, for most errors until the
  database is opened again. A failed write or sync of the log or the MANIFEST stops writes in both; here all
  of them can be resumed, by themselves or by a call, but for a file system without writes. Waits between
  tries begin at 100 ms and double up to 30 s; `bgerror_resume_retry_interval`, if set, is a fixed one.
  Corruption in an input of a compaction keeps the files of that compaction out of others until
  `Db::resume`; RocksDB stops writes. `paranoid_checks=false` does not hide errors of background work.
- A refused write has the text of the error that stopped writes and after it since when, how often it was
  tried to go on, and what would clear it.
- Of keys that a comparator calls equal the newest is shown in both directions. RocksDB's iterators show one or the
  other on the way back.
- With `atomic_flush` a flush of one family flushes all, so that they stand at one point; RocksDB's flushes those
  it is given.
- `prefix_same_as_start` holds an iterator to the prefix of what it was sent to, in total order as well; where that has
  no prefix, nothing holds it. What RocksDB then does depends on bytes after the key. A refreshed iterator has no error
  any more; RocksDB's keeps one until the next seek.
  Kept so in total order, RocksDB's asks filters of tables for the prefix of an entry that it passes over on the way
  back, and may end where there are keys (`SeekToLast` after newer writes, `max_sequential_skip_in_iterations`
  small). With an order in which keys of one prefix do not stand together, `auto_prefix_mode` leaves some out there.
- An iterator without a mode that goes on after the prefix it was sent to shows all keys there, in both built-in orders:
  tables that its filters left out are read then. RocksDB's iterators miss keys there.
- A merge operator that gives up while operands are folded fails the flush or compaction in RocksDB, and with it the
  writes that follow, until the database is opened again, which fails in the same way. Here the operands stay
  as they are, and only a read that needs them fails.
- When a memtable is full is RocksDB's rule, but memory is counted in other blocks: with a filter in the memtable and
  a `write_buffer_size` set to less than it takes, memtables may end some entries earlier or later.
- An empty range deletion, and a write to a family that is dropped before its memtable is flushed, take
  their sequence numbers for good. RocksDB takes the last number from its tables, so that it may hand one
  out twice after a crash.
- A file that is taken in is read as a whole first: keys that do not increase, counts that do not fit, references to blob files are
  refused. RocksDB looks at the first and last key, and lets the rest be found by readers. Snapshots and multi-gets over families see all of a
  call or nothing; in RocksDB those that are made while the MANIFEST is written may see its files appear. The log is synced first. What is
  written into a file by an earlier database (`write_global_seqno` of RocksDB 7.8) is taken out of the copy. A symbolic link leads to the file
  that is linked; RocksDB links the link and fails. A table of the database itself cannot be moved into it.
- A tailing iterator knows range tombstones; RocksDB's does only at times. So do multi-gets: one of 11.8.1 was
  seen to return a key below a range tombstone, depending on what a job in the background had finished.
- `rocksdb_writebatch_put_cf` and its like keep the place of a timestamp in the default family too. RocksDB leaves
  the update out, and says so to nobody, unless the batch was made with `default_cf_ts_sz`.
- Iterators of a database that is open for reading only can be refreshed; RocksDB refuses that unless all tables lie in one
  level. A tailing iterator in the tier of memtables shows memtables only; RocksDB's shows tables, too.
- Multi-gets that must not read from files say `Incomplete` for keys they cannot decide, as gets do; RocksDB's read.
- Keys that are shorter than the prefix are found in memtables that hash prefixes; RocksDB's gets miss them.
- Values near 4 GiB: see [operations.md](operations.md); RocksDB takes them, and no read finds them once they are flushed.
- `rocksdb_iter_refresh` at a timestamp whose history was given up is refused, as a new iterator is; RocksDB's
  then shows what is left.
- A tailing iterator that has made steps and then seeks finds every key; RocksDB's was seen to pass over keys
  between that place and where it stood (`scripts/adversary_ts.py`, seeds 53 and 115).
- Backward, an iterator with a first timestamp (`iter_start_ts`) shows what it shows forward; RocksDB's
  also shows versions before that timestamp and after its snapshot, and of two writes at one timestamp the
  first.
- A merge operand that is not older than `full_history_ts_low` takes in no operand or value of an earlier
  timestamp. RocksDB folds them together in flushes and compactions, so that reads between the two
  timestamps miss the earlier ones, or find what lay below them.
- Bottommost files whose timestamps are all given up are rewritten when `full_history_ts_low` rises;
  RocksDB's wait for the next flush or compaction. In both only after a snapshot was released once.
- With `preserve_internal_time_seconds`, bottommost files whose numbers tell their time are not rewritten
  when a snapshot is released. RocksDB 11.8.1 rewrites them over and over. A compaction dates entries by what
  the database knows of its sequence numbers, not only by its inputs.
- With `preclude_last_level_data_seconds`, data that is too young for the last level and does not fit the level above
  is left there until it is old enough, or until the snapshot goes that keeps it there. Universal compaction merges the two
  runs once and then leaves them. RocksDB 11.8.1 writes it into the same level
  over and over, and waiting for compactions never ends. A flush with `allow_write_stall=false` waits for no more compactions than
  there are tables when it is called.
- Files of level 0, sorted runs and debt stop writes only while a compaction of the family runs or is to come; else they
  delay them. RocksDB stops writes also where its picker declines every compaction, and no job ends the stop.
- `blob_garbage_collection_force_threshold` rewrites no table that refers only to blob files after the last one with garbage, and nothing
  if there is no garbage, also with a threshold of 0.
- A flush that waits for `full_history_ts_low` (`persist_user_defined_timestamps=false`) is no pending work:
  waiting for compactions and flushes does not wait for it. RocksDB's `WaitForCompact` does.
- The cache of rows (`row_cache`) is not asked in families with timestamps. Range deletions that were written
  before it was set are honoured; RocksDB's rows hide them.
- `user_key_comparison_count` counts calls of user comparators, comparisons of merged streams and steps of searches
  in indexes; other comparisons with the built-in orders are not counted. It is below RocksDB's.
- Filters of tables, names of requests and thresholds of merge operands in read options are kept per handle; the
  threshold shows nowhere, as it does not in RocksDB's C functions. Sequence numbers of batches that a filter of
  logs leaves out at the end of the logs are given to nobody, where RocksDB gives them again.
- Lengths of filters depend on the allocator (`optimize_filters_for_memory`): with glibc they are not fitted, which
  differs from RocksDB by a segment of few Ribbon filters, and in filters so large that glibc maps them.
- A database that was opened for reading only drops no family. RocksDB's writes a new MANIFEST without it, into a
  directory that another process may have open. Options that are changed there hold in memory; RocksDB's writes
  OPTIONS files.
- Aligned blocks that are to be compressed are refused when options are changed, with the text that an open has for
  them. RocksDB takes the change, and the next flush fails and with it all writes.
- `table_factory={...}` without an id is an option of the present factory; RocksDB 11.8.1 crashes.
- Of `approximate_sizes` in memtables, entries are counted; RocksDB extrapolates from some of them.
- A get of a database that was opened for reading only knows range tombstones. RocksDB's does not if all tables are in one
  level and stay open (`CompactedDBImpl`): it returns what a snapshot kept below a tombstone; iterators do not. Its get finds
  no value that is in a blob file there, either, without an error.
- `key_may_exist` is true where a table could not be read.
- Databases with times to live: single deletes in batches count, which RocksDB 11.8.1 leaves out; batches with an index,
  iterators of `rocksdb_create_iterators` and merge operands are read without times. An iterator that meets a value
  too short for a time has the error of a get and goes on with the next seek; RocksDB's shows it with a length
  below zero. A value without a time is as old as it likes in compactions. Entities and TimedPut are refused.
- Updates that a transaction takes after it was prepared are applied with the commit, as in RocksDB, and are in the log
  with it; RocksDB loses them when it crashes. A transaction that was prepared and whose handle was destroyed is found again by
  `rocksdb_transactiondb_get_prepared_transactions`, in RocksDB only after the next open. Prepared transactions are
  listed in the order of their names.
- A commit into a family that was dropped meanwhile is refused, and writes go on; in RocksDB all writes fail from then on.
- Of the roles of `cache_usage_options` (`FamilyOptions::cache_usage`) `BlobCache` cannot be charged: there is no
  cache of values of blob files.

## C functions

A function that is not listed is not exported: a program that needs it does not link, or fails when it looks
the symbol up.

HEAD
}

page() {
  local names text
  names=$(nm -D --defined-only "$1" | awk '$2 == "T" && $3 ~ /^(rocksdb|spanlith)_/ { print $3 }' | LC_ALL=C sort)
  text=$(head_text)
  named_functions_exist "$(tr '|,' '\n\n' <<<"$text" | grep -o '`rocksdb_[a-z0-9_]*`' | grep -v '_t`')" "$names"
  printf '%s\n\n%s functions:\n\n```text\n%s\n```\n' "$text" "$(wc -l <<<"$names")" "$names"
}
if [[ -n $check ]]; then
  if ! diff -u docs/compat.md <(page "$1") >&2; then
    echo "docs/compat.md is stale: scripts/capi-list.sh $1" >&2
    exit 1
  fi
  exit 0
fi
page "$1" >docs/compat.md.new
mv docs/compat.md.new docs/compat.md
