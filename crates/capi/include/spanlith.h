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

/* Sets options that RocksDB does not have, by name: "evidence=false;reserve_file_bytes=1048576". Names of the
 * database and of column families may be mixed, as rocksdb_options_t holds both. Nothing is changed if a name
 * is unknown or a value is wrong; the error tells the nearest name that is known. Names, defaults and meaning
 * are printed by `spanlith db options --own`.
 */
extern void spanlith_options_set(rocksdb_options_t* options, const char* values, char** errptr);

/* The value of one of them; with NULL for the name all of them, in the form that the setter takes. */
extern char* spanlith_options_get(const rocksdb_options_t* options, const char* name,
                                  char** errptr);

#ifdef __cplusplus
}
#endif

#endif
