//! Counters and histograms (filled in with the C functions that read them).
