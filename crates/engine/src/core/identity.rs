//! Names that tables record of who wrote them.

use spanlith_env::Env;

/// 20 base-36 digits from two random words, as RocksDB forms session ids.
pub(crate) fn new_session_id(env: &Env) -> String {
    let (upper, lower) = (env.rng.next_u64() >> 2, env.rng.next_u64());
    let digits = |mut v: u64, n: usize| {
        let mut out = vec![b'0'; n];
        for d in out.iter_mut().rev() {
            *d = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(v % 36) as usize];
            v /= 36;
        }
        String::from_utf8(out).expect("ASCII digits")
    };
    let a = digits((upper << 2) | (lower >> 62), 8);
    let b = digits(lower & ((1 << 62) - 1), 12);
    a + &b
}

/// Name recorded in tables, as RocksDB's `__hostname__`.
pub(crate) fn host_name(env: &Env, option: &str) -> String {
    if option != "__hostname__" {
        return option.to_string();
    }
    // Not there in a test world: recorded as unknown.
    let name = env
        .fs
        .read_all(std::path::Path::new("/proc/sys/kernel/hostname"), 4096);
    let name = name.map(|n| String::from_utf8_lossy(&n).trim().to_string());
    name.unwrap_or_default()
}
