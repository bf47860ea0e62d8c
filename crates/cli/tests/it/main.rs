//! The binary from outside: golden directories, round trips, damage, bad usage, benchmarks, tour.

mod at_risk;
mod bad_input;
mod copies;
mod damage;
mod db;
mod devices;
mod doctor;
mod drive;
mod experiment;
mod foreign_tools;
mod golden;
mod operators;
mod programs;
mod refusals;
mod repair;
mod salvage;
mod sd;
mod shown;
mod stress;
mod support;
mod terminal;
mod tools;
mod traces;
mod twin;
mod usage;
mod way_out;
