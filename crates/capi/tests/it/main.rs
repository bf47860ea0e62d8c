//! Drives the C functions as a C program does.

mod backups;
mod blob_listeners;
mod checkpoints;
mod components;
mod database;
mod families;
mod forks;
mod handles;
mod ingestion;
mod jobs;
mod listeners;
mod logs;
mod newer;
mod options;
mod priorities;
mod repair;
mod requests;
mod support;
mod timestamps;
mod traces;
mod transactions;
mod ttl;
