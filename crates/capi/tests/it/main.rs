//! Drives the C functions as a C program does.

mod database;
mod handles;
mod options;
mod support;
