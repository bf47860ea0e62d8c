//! Describes what C programs attach to `rocksdb_readoptions_t`: a filter of tables, a name of the request, a number
//! of merge operands.

use crate::comparator::{DestructorFn, State};
use crate::ffi::{bytes, lend_if};
use crate::read_options::rocksdb_readoptions_t;
use crate::table_properties::rocksdb_table_properties_t;
use libc::{c_char, c_void};
use spanlith::{TableFilter, TableProperties};
use std::sync::Arc;

/// State, properties of a table, lent during the call: 0 leaves the table out.
pub type TableFilterFn = unsafe extern "C" fn(*mut c_void, *const rocksdb_table_properties_t) -> u8;

/// Asks a C function about a table.
struct Decider {
    state: State,
    decide: TableFilterFn,
}

impl Decider {
    fn takes(&self, properties: &TableProperties) -> bool {
        let properties = rocksdb_table_properties_t::from(Arc::new(properties.clone()));
        // SAFETY: The properties are lent during the call; the function is the C program's.
        unsafe { (self.decide)(self.state.state, &raw const properties) != 0 }
    }
}

/// Describes what no read looks at.
#[derive(Default)]
pub(crate) struct Labels {
    request_id: Option<Box<[u8]>>,
    /// A get that folds more operands says so beside its status, which C programs do not see.
    merge_operand_count_threshold: Option<usize>,
}

c_api! {
    /// Iterators leave out tables for which the function says 0. The state ends when the filter is
    /// replaced or removed, or the options go, and no iterator uses it any more.
    fn rocksdb_readoptions_set_table_filter(
        options: *mut rocksdb_readoptions_t,
        state: *mut c_void,
        destructor: Option<DestructorFn>,
        table_filter: Option<TableFilterFn>,
    ) {
        let state = State::new(state, destructor);
        (*options).options.table_filter = table_filter.map(|decide| {
            let decider = Decider { state, decide };
            TableFilter::new(move |properties| decider.takes(properties))
        });
    }

    /// Iterators read all tables.
    fn rocksdb_readoptions_clear_table_filter(options: *mut rocksdb_readoptions_t) {
        (*options).options.table_filter = None;
    }

    /// Returns whether there is a filter of tables.
    fn rocksdb_readoptions_has_table_filter(options: *const rocksdb_readoptions_t) -> u8 {
        (&*options).options.table_filter.is_some().into()
    }

    /// A name for the request, which is kept.
    fn rocksdb_readoptions_set_request_id(
        options: *mut rocksdb_readoptions_t,
        request_id: *const c_char,
        request_id_len: usize,
    ) {
        (*options).labels.request_id = Some(bytes(request_id, request_id_len).into());
    }

    /// Forgets the name of the request.
    fn rocksdb_readoptions_clear_request_id(options: *mut rocksdb_readoptions_t) {
        (*options).labels.request_id = None;
    }

    /// The name of the request, lent; NULL if it has none.
    fn rocksdb_readoptions_get_request_id(
        options: *mut rocksdb_readoptions_t,
        request_id_len: *mut usize,
    ) -> *const c_char {
        lend_if((&*options).labels.request_id.as_deref(), request_id_len)
    }

    /// Merge operands from which on a get says that there were many; no function for C shows it.
    fn rocksdb_readoptions_set_merge_operand_count_threshold(
        options: *mut rocksdb_readoptions_t,
        threshold: usize,
    ) {
        (*options).labels.merge_operand_count_threshold = Some(threshold);
    }

    /// Forgets the number of merge operands.
    fn rocksdb_readoptions_clear_merge_operand_count_threshold(
        options: *mut rocksdb_readoptions_t,
    ) {
        (*options).labels.merge_operand_count_threshold = None;
    }

    /// Returns whether a number of merge operands is set.
    fn rocksdb_readoptions_has_merge_operand_count_threshold(
        options: *mut rocksdb_readoptions_t,
    ) -> u8 {
        (*options).labels.merge_operand_count_threshold.is_some().into()
    }

    /// The number of merge operands; 0 if it is not set.
    fn rocksdb_readoptions_get_merge_operand_count_threshold(
        options: *mut rocksdb_readoptions_t,
    ) -> usize {
        (*options).labels.merge_operand_count_threshold.unwrap_or(0)
    }
}
