//! Drives the C functions as a C program does.

mod components;
mod database;
mod families;
mod handles;
mod options;
mod support;
