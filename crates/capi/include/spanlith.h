/* What Spanlith's library has beside RocksDB's C interface.
 *
 * Functions begin with spanlith_, so they cannot collide with those of RocksDB's header, which has to be
 * included first. Errors are reported as RocksDB's functions report them; texts come from malloc.
 */
#ifndef SPANLITH_H
#define SPANLITH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Sets options that RocksDB does not have, by name: "evidence=false;reserve_file_bytes=1048576".
 * Nothing is changed if a name is unknown or a value is wrong.
 *
 *   evidence              records in logs and MANIFEST what was durable when          true
 *   synced_log_damage     refuse or truncate: what an open makes of lost synced bytes
 *   orphan_files          keep or delete: tables that nothing explains  
 *   lost_files_max_bytes  of the directory lost/; 0 is a tenth of the database        0
 *   lost_files_max_age    seconds                                                     604800
 *   witness_spacing       bytes of log between two witnesses                          8192
 *   min_free_bytes        of a disk, below which compactions wait; 0 is automatic     0
 *   reserve_file_bytes    of a file that is given up when the disk is full            0
 *   disk_stall_threshold  seconds after which a call that hangs is reported; 0 never  10
 */
extern void spanlith_options_set_evidence(rocksdb_options_t* options, const char* values,
                                          char** errptr);

/* All of them with their values, in the same form. */
extern char* spanlith_options_get_evidence(const rocksdb_options_t* options);

#ifdef __cplusplus
}
#endif

#endif
