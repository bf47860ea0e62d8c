//! Pages that any browser shows without a network: charts as SVG, numbers in tables, what they depend on.
//!
//! [`chart`] draws lines over an axis, [`bars`] puts measured beside printed numbers, [`text`] has numbers for
//! people, [`environment`] tells of the machine; [`experiments`] is the page of `spanlith experiment`.

pub mod bars;
pub mod chart;
pub mod environment;
pub mod experiments;
pub mod text;

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("style.css");
