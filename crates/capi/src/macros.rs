//! How C functions are declared.

/// Declares C functions: exported under their own names, documented with the one rule about safety,
/// their bodies unsafe as a whole because each is about pointers.
macro_rules! c_api {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    )*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// The arguments keep the promises of the [crate documentation](crate#safety).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: The caller keeps the promises of the C API, see the crate documentation.
            #[allow(unused_unsafe, reason = "some functions touch no pointer")]
            unsafe { $body }
        }
    )*};
}

/// Declares `NAME_destroy` of handles whose end has no further effect; NULL is ignored.
macro_rules! destroyers {
    ($($name:ident($handle:ty);)*) => {
        c_api! {$(
            #[doc = concat!("Destroys a `", stringify!($handle), "`; NULL is ignored.")]
            fn $name(handle: *mut $handle) {
                drop($crate::ffi::unbox(handle));
            }
        )*}
    };
}

/// Declares setters and getters of fields, one line per field:
/// `field.path: setter(c_type), getter -> c_type;`. A value that the field cannot hold is kept in
/// the handle's `deferred` and reported when the handle is used.
macro_rules! accessors {
    ($handle:ident { $(
        $($field:ident).+ : $set:ident($set_type:ty), $get:ident -> $get_type:ty;
    )* }) => {
        c_api! {$(
            #[doc = concat!("Sets `", stringify!($($field).+), "`.")]
            fn $set(handle: *mut $handle, value: $set_type) {
                let handle = &mut *handle;
                let name = stringify!($($field).+);
                $crate::convert::assign(
                    &mut handle.$($field).+,
                    value,
                    name,
                    &mut handle.deferred,
                );
            }

            #[doc = concat!("Value of `", stringify!($($field).+), "`.")]
            fn $get(handle: *mut $handle) -> $get_type {
                let handle = &*handle;
                match handle.deferred.get(stringify!($($field).+)) {
                    None => $crate::convert::ToC::to_c(&handle.$($field).+),
                    Some(complaint) => $crate::convert::Number::of_f64(complaint.value),
                }
            }
        )*}

        impl $handle {
            /// Getters of this table with their values, for comparison with RocksDB's.
            #[cfg(test)]
            pub(crate) fn printed_values(&self) -> Vec<(&'static str, String)> {
                let handle = std::ptr::from_ref(self).cast_mut();
                vec![$((
                    stringify!($get),
                    // SAFETY: The handle is borrowed, and getters change nothing.
                    unsafe { $get(handle) }.to_string(),
                )),*]
            }
        }
    };
}
