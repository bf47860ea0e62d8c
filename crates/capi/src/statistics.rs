//! Counters and histograms of an options object and the databases opened with it.

use crate::ffi::{boxed, malloc_copy};
use crate::generation;
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith_base::stats::{Histogram, HistogramData, Statistics, StatsLevel, Ticker};
use std::ptr;
use std::sync::Arc;

/// Describes what a histogram said when it was asked.
#[derive(Default)]
pub struct rocksdb_statistics_histogram_data_t(HistogramData);

c_api! {
    /// Counts from now on, from zero; databases that are open go on with what they had.
    fn rocksdb_options_enable_statistics(options: *mut rocksdb_options_t) {
        (*options).statistics = Some(Arc::new(Statistics::new()));
    }

    /// How much is counted; ignored before statistics are enabled.
    fn rocksdb_options_set_statistics_level(options: *mut rocksdb_options_t, level: i32) {
        if let Some(statistics) = &(*options).statistics {
            statistics.set_level(StatsLevel::from_number(level));
        }
    }

    /// How much is counted; 0 without statistics.
    fn rocksdb_options_get_statistics_level(options: *mut rocksdb_options_t) -> i32 {
        (*options).statistics.as_ref().map_or(0, |s| s.level() as i32)
    }

    /// All counters and histograms, from `malloc`; NULL without statistics.
    fn rocksdb_options_statistics_get_string(options: *mut rocksdb_options_t) -> *mut c_char {
        let statistics = (*options).statistics.as_ref();
        statistics.map_or(ptr::null_mut(), |s| malloc_copy(s.text().as_bytes()))
    }

    /// A counter by its number in the generation of this build; 0 for unknown ones and without statistics.
    fn rocksdb_options_statistics_get_ticker_count(
        options: *mut rocksdb_options_t,
        ticker_type: u32,
    ) -> u64 {
        let statistics = (*options).statistics.as_ref();
        let ticker = generation::ticker(ticker_type).and_then(Ticker::from_number);
        statistics.zip(ticker).map_or(0, |(s, t)| s.ticker(t))
    }

    /// A histogram by its number in the generation of this build; zeros for unknown ones and without statistics.
    fn rocksdb_options_statistics_get_histogram_data(
        options: *mut rocksdb_options_t,
        histogram_type: u32,
        data: *mut rocksdb_statistics_histogram_data_t,
    ) {
        let statistics = (*options).statistics.as_ref();
        let histogram = generation::histogram(histogram_type).and_then(Histogram::from_number);
        (*data).0 = statistics
            .zip(histogram)
            .map_or_else(HistogramData::default, |(s, h)| s.histogram(h));
    }

    /// Zeros.
    fn rocksdb_statistics_histogram_data_create() -> *mut rocksdb_statistics_histogram_data_t {
        boxed(rocksdb_statistics_histogram_data_t::default())
    }
}

macro_rules! fields {
    ($($field:ident -> $ty:ty: $get:ident;)*) => {
        c_api! {$(
            #[doc = concat!("Field `", stringify!($field), "`.")]
            fn $get(data: *mut rocksdb_statistics_histogram_data_t) -> $ty {
                (*data).0.$field
            }
        )*}
    };
}

fields! {
    median -> f64: rocksdb_statistics_histogram_data_get_median;
    p95 -> f64: rocksdb_statistics_histogram_data_get_p95;
    p99 -> f64: rocksdb_statistics_histogram_data_get_p99;
    average -> f64: rocksdb_statistics_histogram_data_get_average;
    std_dev -> f64: rocksdb_statistics_histogram_data_get_std_dev;
    max -> f64: rocksdb_statistics_histogram_data_get_max;
    count -> u64: rocksdb_statistics_histogram_data_get_count;
    sum -> u64: rocksdb_statistics_histogram_data_get_sum;
    min -> f64: rocksdb_statistics_histogram_data_get_min;
}

destroyers! {
    rocksdb_statistics_histogram_data_destroy(rocksdb_statistics_histogram_data_t);
}
