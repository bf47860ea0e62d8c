//! Every example runs to its end.

macro_rules! examples {
    ($($path:literal $name:ident),* $(,)?) => { $(
        #[path = $path]
        mod $name;
    )*
        #[test]
        fn every_example_runs_to_its_end() {
            $( $name::main().unwrap_or_else(|e| panic!("{}: {e}", stringify!($name))); )*
        }

        #[test]
        fn every_example_is_run() {
            let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
            let files = std::fs::read_dir(dir).unwrap().count();
            assert_eq!(files, [$(stringify!($name)),*].len());
        }
    };
}

examples! {
    "../../examples/async_block_on.rs" async_block_on,
    "../../examples/async_tokio.rs" async_tokio,
    "../../examples/batch.rs" batch,
    "../../examples/families.rs" families,
    "../../examples/merge.rs" merge,
    "../../examples/open_put_get.rs" open_put_get,
    "../../examples/options_file.rs" options_file,
    "../../examples/prefix.rs" prefix,
    "../../examples/range_scan.rs" range_scan,
    "../../examples/snapshots.rs" snapshots,
}
