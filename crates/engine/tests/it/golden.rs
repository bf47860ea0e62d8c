//! Databases written by RocksDB 7.8.3 and 11.8.1: those of milestone 1 read back equal, the others
//! are refused by name or read right, never misread.
