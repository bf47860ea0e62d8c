//! Databases whose files, or speed disks, are on emulated devices.

use spanlith::{Db, OpenBuilder, WriteOptions};
use spanlith_env::{Clock, Env, FileSystem, MemFs, VirtualClock};
use spanlith_speed::{FormatOptions, Target, format_disk};
use std::path::Path;
use std::sync::Arc;

fn builder(env: &Env, own: &str) -> OpenBuilder {
    let builder = Db::builder("/db").env(env.clone()).no_info_log();
    builder.create_if_missing(true).set(own).unwrap()
}

fn world() -> (Arc<MemFs>, Env, Arc<VirtualClock>) {
    let mem = Arc::new(MemFs::new());
    let (env, _, clock) = Env::test(mem.clone(), 7);
    (mem, env, clock)
}

/// Virtual nanoseconds of a synced put, after a first one.
fn synced_put(env: &Env, clock: &VirtualClock, own: &str) -> u64 {
    let db = builder(env, own).open().unwrap();
    let options = WriteOptions::new().sync(true);
    let cf = db.default_cf();
    cf.put_opt("k", "v", &options).unwrap();
    let begun = clock.monotonic_nanos();
    cf.put_opt("k", "w", &options).unwrap();
    let took = clock.monotonic_nanos() - begun;
    drop(cf);
    db.close().unwrap();
    took
}

#[test]
fn a_synced_put_takes_the_time_of_the_device_that_the_log_is_on() {
    crate::suite_disk::needs_log_files("the test measures the device that files of logs are on");
    // A write, 3.05 more for the journal, and a flush of a volatile cache.
    for (own, nanos) in [
        ("", 0),
        ("env_device=S", 37_000 + 112_850 + 400_000),
        ("env_device=O", 10_000 + 30_500),
        ("env_device=N1:cache=0", 18_000 + 54_900),
    ] {
        let (_, env, clock) = world();
        assert_eq!(synced_put(&env, &clock, own), nanos, "{own}");
    }
    // The log on a speed disk of its own, past any file system.
    for (own, nanos) in [
        ("sd_device=O", 10_000),
        ("sd_device=O;env_device=S", 10_000),
    ] {
        let (mem, env, clock) = world();
        mem.make_device(Path::new("/disk"), 2 << 20).unwrap();
        let device = Target::parse("/disk").unwrap().open(&*mem, false).unwrap();
        format_disk(&*device, &FormatOptions::default(), [7; 16]).unwrap();
        drop(device);
        let own = format!("sd_path=/disk;{own}");
        assert_eq!(synced_put(&env, &clock, &own), nanos, "{own}");
    }
}

#[test]
fn tables_beyond_the_page_cache_are_read_from_the_device() {
    crate::suite_disk::needs_table_files("the test measures the device of the directory");
    let (_, env, clock) = world();
    let db = builder(&env, "env_device=N1:cache=16k").open().unwrap();
    let cf = db.default_cf();
    for i in 0..400u32 {
        let value: Vec<u8> = (0..1000).map(|n| (n * i) as u8 ^ (n >> 3) as u8).collect();
        cf.put(i.to_be_bytes(), value).unwrap();
    }
    db.flush(true).unwrap();
    let begun = clock.monotonic_nanos();
    assert!(cf.get(0u32.to_be_bytes()).unwrap().is_some());
    let first = clock.monotonic_nanos() - begun;
    assert!(first >= 77_000, "{first}");
    let begun = clock.monotonic_nanos();
    assert!(cf.get(0u32.to_be_bytes()).unwrap().is_some());
    // From the block cache.
    assert_eq!(clock.monotonic_nanos() - begun, 0);
}

#[test]
fn a_device_is_refused_by_name_and_not_kept() {
    let (mem, env, _) = world();
    let e = Db::builder("/db").env(env.clone()).set("env_device=floppy");
    let e = e.err().unwrap().to_string();
    assert!(
        e.contains("one of H, S, N1, N2, O, H-RAID5, S-RAID5"),
        "{e}"
    );
    assert!(mem.entry(Path::new("/db")).unwrap().is_none());
    let own = "env_device=O;sd_device=S;witness_spacing=4096";
    builder(&env, own).open().unwrap().close().unwrap();
    let kept = mem.read_file(Path::new("/db/SPANLITH")).unwrap();
    let kept = String::from_utf8(kept).unwrap();
    assert!(
        kept.contains("witness_spacing") && !kept.contains("device"),
        "{kept}"
    );
}
