//! Drives the C functions as a C program does.

mod components;
mod database;
mod families;
mod handles;
mod logs;
mod options;
mod support;
