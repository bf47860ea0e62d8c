"""Option mixes of scripts/interop.py: what both sides write with, as texts for
`rocksdb_get_options_from_string`.

The first part crosses every codec with every format version; checksums, kinds of index and filter,
shapes of data blocks, dictionaries and levels go round beside them with periods that share no factor
with each other, so that pairs of most of them meet. The second part names features one by one.
"""
from dataclasses import dataclass, field

SMALL = "merge_operator=uint64add;write_buffer_size=65536;target_file_size_base=32768;max_bytes_for_level_base=65536"
OLD_CODECS = ["kNoCompression", "kSnappyCompression", "kZlibCompression", "kBZip2Compression",
              "kLZ4Compression", "kLZ4HCCompression", "kZSTD"]
CHECKSUMS = ["kCRC32c", "kxxHash", "kxxHash64", "kXXH3", "kNoChecksum"]
INDEXES = ["kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey", "kHashSearch"]
FILTERS = ["", "bloomfilter:10:false", "ribbonfilter:10", "bloomfilter:6:false", "ribbonfilter:12:1"]
SHAPES = [(256, 1), (1024, 4), (4096, 16), (700, 7), (16384, 32), (64, 2)]
DICTIONARIES = ["", "max_dict_bytes=4096", "max_dict_bytes=8192;zstd_max_train_bytes=65536"]


@dataclass
class Mix:
    """One mix. Texts hold options of the database and of the family, and of tables."""

    name: str
    text: str = ""
    table: str = ""
    # Options that only releases are given: what they write with them is read by ours.
    theirs: str = ""
    format: int = 5
    only_new: bool = False
    # Sessions of the way back end by SIGKILL.
    kill: bool = False
    reverse: bool = False
    # Families beside the default one: name and text.
    more: list = field(default_factory=list)
    # Operations that are left out.
    without: tuple = ()

    @property
    def families(self):
        return ["default"] + [name for name, _ in self.more]

    def texts(self, theirs):
        """[name, text] of every family."""
        def whole(text):
            order = "comparator=rocksdb.ReverseBytewiseComparator" if self.reverse else ""
            return ";".join(part for part in (SMALL, order, text, self.theirs if theirs else "") if part)

        own = f"{self.text};block_based_table_factory={{format_version={self.format};{self.table}}}".lstrip(";")
        return [["default", whole(own)]] + [[name, whole(text)] for name, text in self.more]


def crossed():
    number = 0
    for form in range(2, 8):
        for codec in OLD_CODECS:
            checksum = CHECKSUMS[number % 5]
            index = INDEXES[(number // 2) % 4]
            policy = FILTERS[(number * 3 + form) % 5]
            block, restarts = SHAPES[number % 6]
            dictionary = DICTIONARIES[(number + form) % 3]
            table = [f"checksum={checksum}", f"index_type={index}", f"block_size={block}",
                     f"block_restart_interval={restarts}", f"index_block_restart_interval={1 if index == 'kHashSearch' else 1 + number % 3}"]
            text = [f"compression={codec}"]
            names = [f"v{form}", codec[1:].replace("Compression", ""), checksum[1:], index[1:]]
            if policy:
                table.append(f"filter_policy={policy}")
                names.append(policy.partition(":")[0])
                if index == "kTwoLevelIndexSearch" and number % 3:
                    table += ["partition_filters=true", "metadata_block_size=512"]
                    names.append("partitioned")
            if index == "kHashSearch" or number % 7 == 3:
                # 7.8.3 builds hash indexes only over prefixes that every key has.
                kind = "fixed:4" if number % 2 and index != "kHashSearch" else "capped:5"
                text += [f"prefix_extractor={kind}", "memtable_prefix_bloom_size_ratio=0.1"]
                names.append(kind)
                if policy and number % 4 == 1:
                    table.append("whole_key_filtering=false")
                    names.append("prefixes only")
            if number % 3 == 1:
                table += ["data_block_index_type=kDataBlockBinaryAndHash", "data_block_hash_table_util_ratio=0.6"]
                names.append("hashed blocks")
            if form >= 6 and number % 2:
                table.append("separate_key_value_in_data_block=true")
                names.append("separate values")
            if dictionary and codec in ("kZlibCompression", "kLZ4Compression", "kLZ4HCCompression", "kZSTD"):
                text.append(f"compression_opts={{{dictionary}}}")
                names.append("trained" if "train" in dictionary else "dictionary")
            if number % 4 == 2:
                text += ["level_compaction_dynamic_level_bytes=false", "num_levels=4"]
            yield Mix(" ".join(names), ";".join(text), ";".join(table), format=form)
            number += 1


BLOBS = "enable_blob_files=true"
GC = "enable_blob_garbage_collection=true"
FORMAT_5 = "block_based_table_factory={format_version=5}"
BLOOM = "filter_policy=bloomfilter:10:false"
UNIVERSAL = "compaction_style=kCompactionStyleUniversal;level_compaction_dynamic_level_bytes=false"
FIFO = "compaction_style=kCompactionStyleFIFO;level_compaction_dynamic_level_bytes=false;max_open_files=-1"
THREE = [("one", "compression=kZSTD;block_based_table_factory={format_version=4;filter_policy=ribbonfilter:10}"),
         ("two", "compression=kNoCompression;prefix_extractor=capped:3;level_compaction_dynamic_level_bytes=false;"
                 "block_based_table_factory={index_type=kHashSearch;checksum=kxxHash64;format_version=3}"),
         ("three", "compression=kSnappyCompression;num_levels=3;"
                   "block_based_table_factory={index_type=kTwoLevelIndexSearch;format_version=5}")]

# A dictionary holds blocks back, and with them all that index and filter record by blocks.
HELD = [Mix(f"dictionary {name} {codec[1:].replace('Compression', '')}",
            f"compression={codec};compression_opts={{max_dict_bytes=4096}};prefix_extractor=capped:5",
            f"block_size=300;{table}", format=5)
        for codec in ("kLZ4Compression", "kZSTD")
        for name, table in (
            ("hash search", "index_type=kHashSearch;" + BLOOM),
            ("partitions", "index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=256;"
             + BLOOM),
            ("partitions of Ribbon filters", "index_type=kTwoLevelIndexSearch;partition_filters=true;"
             "metadata_block_size=256;filter_policy=ribbonfilter:10"),
            ("first keys", "index_type=kBinarySearchWithFirstKey;" + BLOOM))]
MIXES = list(crossed()) + HELD + [
    Mix("universal", f"{UNIVERSAL};compaction_options_universal={{size_ratio=10;max_size_amplification_percent=100}}", BLOOM),
    Mix("universal, one level", f"{UNIVERSAL};num_levels=1"),
    Mix("universal, moves and parts", f"{UNIVERSAL};num_levels=4;compaction_options_universal={{allow_trivial_move=true;"
        "incremental=true;max_size_amplification_percent=50}"),
    Mix("universal, killed", f"{UNIVERSAL};num_levels=3", kill=True),
    Mix("fifo", FIFO),
    Mix("fifo, merging", f"{FIFO};num_levels=1;compaction_options_fifo={{max_table_files_size=1000000000;allow_compaction=true}}", BLOOM),
    Mix("style changes from universal to level", "level_compaction_dynamic_level_bytes=false", theirs=UNIVERSAL),
    Mix("no compaction by itself", "compaction_style=kCompactionStyleNone;level_compaction_dynamic_level_bytes=false"),
    Mix("codec per level", "compression_per_level=kNoCompression:kLZ4Compression:kZSTD:kZlibCompression:kBZip2Compression"),
    Mix("codec per level, static", "level_compaction_dynamic_level_bytes=false;num_levels=5;"
        "compression_per_level=kNoCompression:kSnappyCompression:kZSTD:kZlibCompression:kLZ4HCCompression"),
    Mix("bottommost with trained dictionary", "compression=kLZ4Compression;bottommost_compression=kZSTD;"
        "bottommost_compression_opts={enabled=true;max_dict_bytes=8192;zstd_max_train_bytes=65536;level=5}", BLOOM),
    Mix("bottommost with raw dictionary", "compression=kNoCompression;bottommost_compression=kZlibCompression;"
        "bottommost_compression_opts={enabled=true;max_dict_bytes=4096}"),
    Mix("bottommost without codec", "compression=kZSTD;bottommost_compression=kNoCompression"),
    Mix("zstd levels", "compression=kZSTD;compression_opts={level=19}"),
    Mix("aligned blocks", "compression=kNoCompression", "block_align=true"),
    Mix("separated values, hashed blocks", "compression=kZSTD", "separate_key_value_in_data_block=true;"
        "data_block_index_type=kDataBlockBinaryAndHash", format=7),
    Mix("separated values, every key a restart", "", "separate_key_value_in_data_block=true;block_restart_interval=1;" + BLOOM,
        format=6),
    Mix("super blocks", "compression=kNoCompression", "super_block_alignment_size=32768;"
        "super_block_alignment_space_overhead_ratio=64", format=7),
    Mix("index of full keys", "", "index_shortening=kNoShortening;index_block_restart_interval=8"),
    Mix("index shortened at both ends", "", "index_shortening=kShortenSeparatorsAndSuccessor;index_block_restart_interval=2"),
    Mix("metadata in the cache", "", "cache_index_and_filter_blocks=true;pin_l0_filter_and_index_blocks_in_cache=true;" + BLOOM),
    Mix("partitions in the cache", "", "index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=256;"
        "cache_index_and_filter_blocks=true;pin_top_level_index_and_filter=false;" + BLOOM),
    Mix("no cache", "", "no_block_cache=true;" + BLOOM),
    Mix("reverse order", "", BLOOM, reverse=True),
    Mix("reverse order, partitioned ribbon", "compression=kZSTD", "index_type=kTwoLevelIndexSearch;partition_filters=true;"
        "filter_policy=ribbonfilter:10;metadata_block_size=300", reverse=True, format=4),
    Mix("reverse order, separated values", "", "separate_key_value_in_data_block=true;index_type=kBinarySearchWithFirstKey",
        reverse=True, format=7),
    Mix("three families", more=THREE),
    Mix("three families, atomic flush", "atomic_flush=true", BLOOM, more=THREE),
    Mix("three families, killed", "", BLOOM, more=THREE, kill=True),
    Mix("three families, atomic flush, killed", "atomic_flush=true", more=THREE, kill=True),
    Mix("two families, reverse order", "", BLOOM, reverse=True, more=[("other", "compression=kLZ4HCCompression;block_based_table_factory={format_version=5}")]),
    Mix("recycled logs", theirs="recycle_log_file_num=3", kill=True),
    Mix("recycled logs, absolute consistency", "wal_recovery_mode=kAbsoluteConsistency", theirs="recycle_log_file_num=2"),
    Mix("compressed logs", "wal_compression=kZSTD"),
    Mix("compressed logs, killed", "wal_compression=kZSTD", kill=True),
    Mix("compressed and recycled logs", "wal_compression=kZSTD", theirs="recycle_log_file_num=2", kill=True),
    Mix("compressed logs of three families", "wal_compression=kZSTD", more=THREE, kill=True),
    Mix("logs flushed by hand", "manual_wal_flush=true", BLOOM),
    Mix("logs tracked in the MANIFEST", "track_and_verify_wals_in_manifest=true", kill=True),
    Mix("logs that know their predecessor", "track_and_verify_wals=true", kill=True, only_new=True),
    Mix("tolerated tails", "wal_recovery_mode=kTolerateCorruptedTailRecords", kill=True),
    Mix("point in time, killed", "wal_recovery_mode=kPointInTimeRecovery", kill=True),
    Mix("short MANIFESTs", "max_manifest_file_size=300"),
    Mix("two levels", "num_levels=2;level_compaction_dynamic_level_bytes=false"),
    Mix("vector memtables", "memtable_factory=vector;allow_concurrent_memtable_write=false"),
    Mix("several threads per compaction", "max_subcompactions=4;max_background_jobs=4"),
    Mix("larger files", "target_file_size_base=4194304;max_bytes_for_level_base=16777216;write_buffer_size=4194304", BLOOM),
    Mix("young data above the last level", "preclude_last_level_data_seconds=2;num_levels=3;max_bytes_for_level_base=4194304", BLOOM),
    Mix("universal compactions of theirs", theirs="compaction_style=kCompactionStyleUniversal"),
    Mix("blobs of all values", f"{BLOBS};min_blob_size=1"),
    Mix("blobs, empty values too", f"{BLOBS};min_blob_size=0"),
    Mix("blobs of large values, cut small", f"{BLOBS};min_blob_size=60;blob_file_size=500", BLOOM),
    Mix("blobs, Snappy", f"{BLOBS};min_blob_size=8;blob_compression_type=kSnappyCompression"),
    Mix("blobs, LZ4, collected", f"{BLOBS};min_blob_size=8;blob_compression_type=kLZ4Compression;blob_file_size=3000;{GC};"
        "blob_garbage_collection_age_cutoff=0.5"),
    Mix("blobs, ZSTD, all collected", f"{BLOBS};min_blob_size=8;blob_compression_type=kZSTD;blob_file_size=2000;{GC};"
        "blob_garbage_collection_age_cutoff=1.0;blob_compaction_readahead_size=4096"),
    Mix("blobs, forced collection", f"{BLOBS};min_blob_size=8;blob_file_size=1000;{GC};"
        "blob_garbage_collection_age_cutoff=1.0;blob_garbage_collection_force_threshold=0.2"),
    Mix("blobs, zlib, killed", f"{BLOBS};min_blob_size=8;blob_compression_type=kZlibCompression;blob_file_size=2000;{GC}", kill=True),
    Mix("blobs from level 1 on", f"{BLOBS};min_blob_size=8;blob_file_starting_level=1", kill=True),
    Mix("blobs of theirs only", theirs=f"{BLOBS};min_blob_size=8;blob_file_size=2000", kill=True),
    Mix("blobs off, values collected back", f"{GC};blob_garbage_collection_age_cutoff=1.0",
        theirs=f"{BLOBS};min_blob_size=8;blob_file_size=2000"),
    Mix("blobs of three families", f"{BLOBS};min_blob_size=8;blob_file_size=2000", kill=True,
        more=[("one", f"{BLOBS};min_blob_size=20;blob_compression_type=kZSTD;{FORMAT_5}"), ("two", f"compression=kNoCompression;{FORMAT_5}"),
              ("three", f"{BLOBS};min_blob_size=1;{GC};blob_garbage_collection_age_cutoff=1.0;{FORMAT_5}")]),
    Mix("blobs, checksums of whole files", f"{BLOBS};min_blob_size=8;file_checksum_gen_factory=FileChecksumGenCrc32cFactory", only_new=True),
]
assert len({mix.name for mix in MIXES}) == len(MIXES)
