//! Every fuzz target over its committed inputs and over seeds made from `fixtures/`, without a
//! fuzzer: what was found once stays mended.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs one input; the name of the input if it breaks a promise.
fn judge(target: &targets::Target, name: &str, bytes: &[u8]) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.1)(bytes)));
    outcome.err().map(|_| format!("{}/{name}", target.0))
}

/// Holds B3.
#[test]
fn every_target_keeps_its_promises_on_the_committed_inputs() {
    let folder = root().join("fuzz/corpus-min");
    let mut broken = Vec::new();
    for target in targets::TARGETS {
        let folder = folder.join(target.0);
        let inputs = std::fs::read_dir(&folder);
        let inputs = inputs.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut count = 0;
        for input in inputs.flatten() {
            let bytes = std::fs::read(input.path()).unwrap();
            broken.extend(judge(target, &input.file_name().to_string_lossy(), &bytes));
            count += 1;
        }
        assert!(count > 0, "no inputs for {}", target.0);
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_target_keeps_its_promises_on_files_of_rocksdb() {
    let seeds = targets::seeds::seeds(&root().join("fixtures"), 60);
    assert!(seeds.len() > 300, "only {} seeds", seeds.len());
    let mut broken = Vec::new();
    for (i, (name, bytes)) in seeds.iter().enumerate() {
        let target = targets::TARGETS.iter().find(|t| t.0 == *name).unwrap();
        broken.extend(judge(target, &format!("seed {i}"), bytes));
        // The same with one byte changed, at a place that depends on the input.
        if let Some(at) = (bytes.len() > 1).then(|| 1 + i * 7 % (bytes.len() - 1)) {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            broken.extend(judge(
                target,
                &format!("seed {i} changed at {at}"),
                &changed,
            ));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
