//! The seed of a random test.
//!
//! A test asks `seed(test_name!())` once. The answer is a function of the name, so that a commit is
//! tested the same way everywhere; `SEED=<number>` replaces it (decimal, or hexadecimal with `0x`),
//! `SEED=random` draws a new one for longer hunts. The seed is printed either way; the test harness
//! shows the line when the test fails.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns the seed of the test `name`, and prints it together with the way to repeat the run.
///
/// # Panics
/// If `SEED` is set to something that is neither a number nor `random`.
pub fn seed(name: &str) -> u64 {
    let setting = std::env::var("SEED").ok();
    let seed = match choose(name, setting.as_deref()) {
        Ok(seed) => seed,
        Err(text) => panic!("SEED={text}: give a decimal number, 0x and hexadecimal, or random"),
    };
    println!("{name}: seed {seed} (repeat with SEED={seed})");
    seed
}

fn choose(name: &str, setting: Option<&str>) -> Result<u64, String> {
    match setting {
        None | Some("") => Ok(of_name(name)),
        Some("random") => Ok(RandomState::new().build_hasher().finish()),
        Some(text) => {
            let parsed = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            parsed.map_err(|_| text.to_string())
        }
    }
}

/// FNV-1a: short, and stable over releases of the compiler.
fn of_name(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Cuts the name of the helper function that [`test_name!`](crate::test_name) puts inside a test.
#[doc(hidden)]
pub fn function_name_of(helper: &'static str) -> &'static str {
    let path = helper.strip_suffix("::helper").unwrap_or(helper);
    path.strip_suffix("::{{closure}}").unwrap_or(path)
}

/// The full path of the function it stands in, for [`seed`].
#[macro_export]
macro_rules! test_name {
    () => {{
        fn helper() {}
        fn name_of<T>(_: T) -> &'static str {
            std::any::type_name::<T>()
        }
        $crate::function_name_of(name_of(helper))
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_depends_on_the_name_and_on_nothing_else() {
        assert_eq!(choose("a", None), choose("a", None));
        assert_eq!(choose("a", None), choose("a", Some("")));
        assert_ne!(choose("a", None), choose("b", None));
    }

    #[test]
    fn the_environment_replaces_a_seed() {
        assert_eq!(choose("a", Some("17")), Ok(17));
        assert_eq!(choose("a", Some("0xfF")), Ok(255));
        assert_eq!(choose("a", Some("18446744073709551615")), Ok(u64::MAX));
        assert_eq!(choose("a", Some("x")), Err("x".to_string()));
        assert_ne!(choose("a", Some("random")), choose("a", Some("random")));
    }

    #[test]
    fn a_test_knows_its_own_name() {
        let name = crate::test_name!();
        assert!(
            name.ends_with("seed::tests::a_test_knows_its_own_name"),
            "{name}"
        );
        let inside = || crate::test_name!();
        assert_eq!(inside(), name);
    }
}
