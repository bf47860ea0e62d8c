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

/* Asynchronous requests.
 *
 * spanlith_async_t issues requests of a column family (NULL: the default one); each is answered with a token. Keys, values,
 * batches and bounds are copied: the caller's may go when the call returns. Results are asked for (check), waited for (wait, and
 * all functions that take a result), or announced by a callback, and taken once. Order, cancellation, close and costs
 * are described in docs/async.md.
 *
 * A request that finds no room (options async_queue_length and async_queue_bytes) is refused: NULL is returned, with an error that
 * begins with "Resource busy: ", and nothing is outstanding. Issue it again later, or let requests wait for room with
 * spanlith_async_set_waits(requests, 1). Other errors are the result of the token.
 *
 * A token is used by one thread at a time. Destroying it takes no accepted write back.
 */
typedef struct spanlith_async_t spanlith_async_t;
typedef struct spanlith_token_t spanlith_token_t;

extern spanlith_async_t* spanlith_async_create(rocksdb_t* db, rocksdb_column_family_handle_t* cf);
extern void spanlith_async_set_waits(spanlith_async_t* requests, unsigned char waits);
extern void spanlith_async_destroy(spanlith_async_t* requests);
extern spanlith_token_t* spanlith_async_put(
    spanlith_async_t* requests, const rocksdb_writeoptions_t* options, const char* key, size_t keylen, const char* val, size_t vallen, char** errptr);
extern spanlith_token_t* spanlith_async_merge(
    spanlith_async_t* requests, const rocksdb_writeoptions_t* options, const char* key, size_t keylen, const char* val, size_t vallen, char** errptr);
extern spanlith_token_t* spanlith_async_delete(
    spanlith_async_t* requests, const rocksdb_writeoptions_t* options, const char* key, size_t keylen, char** errptr);
extern spanlith_token_t* spanlith_async_write(
    spanlith_async_t* requests, const rocksdb_writeoptions_t* options, const rocksdb_writebatch_t* batch, char** errptr);
extern spanlith_token_t* spanlith_async_get(
    spanlith_async_t* requests, const rocksdb_readoptions_t* options, const char* key, size_t keylen, char** errptr);
extern spanlith_token_t* spanlith_async_scan(
    spanlith_async_t* requests, const rocksdb_readoptions_t* options, size_t entries_max, char** errptr);
extern spanlith_token_t* spanlith_async_flush(spanlith_async_t* requests, char** errptr);
/* Commits a transaction; its locks are held until the outcome is known. The handle has a new transaction with default
 * options afterwards, and may be destroyed at once. */
extern spanlith_token_t* spanlith_transaction_commit_async(
    rocksdb_transaction_t* txn, char** errptr);
/* 1 if the request is done, 0 while it is in progress. */
extern unsigned char spanlith_token_check(spanlith_token_t* token);
/* Waits until it is done. The calling thread may carry requests out meanwhile. */
extern void spanlith_token_wait(spanlith_token_t* token);
/* Calls the callback once when it is done, on the thread that completes it or at once. The callback may issue requests, but
 * not use the token. It is not called any more when the token was destroyed before. */
extern void spanlith_token_on_done(
    spanlith_token_t* token, void (*callback)(void* state), void* state);
/* Waits, and tells how it went. */
extern void spanlith_token_status(spanlith_token_t* token, char** errptr);
/* Waits for a get and takes its value, from malloc; NULL if there is none. */
extern char* spanlith_token_take_value(spanlith_token_t* token, size_t* vallen, char** errptr);
/* Waits for a scan. Keys and values belong to the token; the next page begins at page_next, NULL at the end. */
extern size_t spanlith_token_page_len(spanlith_token_t* token, char** errptr);
extern const char* spanlith_token_page_key(spanlith_token_t* token, size_t at, size_t* keylen);
extern const char* spanlith_token_page_value(spanlith_token_t* token, size_t at, size_t* vallen);
extern const char* spanlith_token_page_next(spanlith_token_t* token, size_t* keylen);
extern void spanlith_token_destroy(spanlith_token_t* token);

#ifdef __cplusplus
}
#endif

#endif
