//! `cargo xtask install --prefix DIR`: the libraries, the header, `rocksdb.pc` and the command line,
//! laid out as packages of RocksDB lay them out.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask install --prefix DIR [--soname X.Y]... [--profile NAME]

Builds Spanlith and installs below DIR:
  lib/librocksdb.so.11.8.1   the shared library, soname librocksdb.so.11.8, with the usual links
  lib/librocksdb.a           the static library; `cc program.c librocksdb.a -lm` is enough
  lib/pkgconfig/rocksdb.pc
  include/rocksdb/c.h
  bin/spanlith

  --soname X.Y    also installs lib/librocksdb.so.X.Y and the link librocksdb.so.X, for programs that
                  were linked with RocksDB X.Y (7.8 and 8.11, for example): arguments of functions
                  and numbers of counters are those of that release
  --profile NAME  dist (default; link-time optimisation), release, dev or test
";

/// The release whose interface the library has.
const VERSION: &str = "11.8.1";

struct Plan {
    prefix: PathBuf,
    sonames: Vec<String>,
    profile: String,
}

/// Runs the chore with its arguments.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    if arguments
        .iter()
        .any(|word| matches!(*word, "--help" | "-h"))
    {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let plan = match parse(arguments) {
        Ok(plan) => plan,
        Err(what) => {
            eprintln!("xtask install: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match install(root, &plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask install: {what}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[&str]) -> Result<Plan, String> {
    let mut prefix = None;
    let mut sonames = Vec::new();
    let mut profile = "dist".to_string();
    let mut words = arguments.iter();
    while let Some(flag) = words.next() {
        let value = words.next().ok_or(format!("{flag} needs a value"))?;
        match *flag {
            "--prefix" => prefix = Some(PathBuf::from(value)),
            "--soname" if is_version(value) => sonames.push((*value).to_string()),
            "--soname" => return Err(format!("--soname {value}: give X.Y, such as 7.8")),
            "--profile" => profile = (*value).to_string(),
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    let prefix = prefix.ok_or("--prefix DIR is missing")?;
    let prefix =
        std::path::absolute(&prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    Ok(Plan {
        prefix,
        sonames,
        profile,
    })
}

/// Returns whether `text` is two numbers with a dot between them.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.')
        .is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// The feature of `spanlith-capi` with the C interface of a release; `None` is the newest.
fn generation(release: &str) -> Option<&'static str> {
    let (major, minor) = release.split_once('.')?;
    match (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?) {
        (..=7, _) | (8, ..=1) => Some("generation-8-1"),
        (8, _) => Some("generation-8-10"),
        (9 | 10, _) => Some("generation-10-4"),
        (11.., _) => None,
    }
}

fn install(root: &Path, plan: &Plan) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder));
    let folder = match plan.profile.as_str() {
        "dev" | "test" => "debug",
        other => other,
    };
    let built = target.join(folder);
    let lib = plan.prefix.join("lib");
    // Builds of one package replace each other's library, so that each is copied before the next is built.
    for release in &plan.sonames {
        let name = format!("librocksdb.so.{release}");
        build(
            root,
            plan,
            &name,
            generation(release),
            &["spanlith-librocksdb"],
        )?;
        copy(&built.join("librocksdb.so"), &lib.join(&name), 0o755)?;
        let major = release.split('.').next().unwrap_or_default();
        link(&lib, &name, &format!("librocksdb.so.{major}"))?;
    }
    build(
        root,
        plan,
        "librocksdb.so.11.8",
        None,
        &["spanlith-librocksdb", "spanlith-cli"],
    )?;
    let library = format!("librocksdb.so.{VERSION}");
    copy(&built.join("librocksdb.so"), &lib.join(&library), 0o755)?;
    copy(
        &built.join("librocksdb.a"),
        &lib.join("librocksdb.a"),
        0o644,
    )?;
    copy(
        &built.join("spanlith"),
        &plan.prefix.join("bin/spanlith"),
        0o755,
    )?;
    let header = plan.prefix.join("include/rocksdb/c.h");
    copy(&root.join(crate::capi::HEADER), &header, 0o644)?;
    for name in ["librocksdb.so", "librocksdb.so.11", "librocksdb.so.11.8"] {
        link(&lib, &library, name)?;
    }
    let pc = lib.join("pkgconfig/rocksdb.pc");
    make_folder(&pc)?;
    fs::write(&pc, pkg_config(&plan.prefix))
        .map_err(|error| format!("{}: {error}", pc.display()))?;
    println!("{}", pc.display());
    Ok(())
}

/// Makes the link `name` to `library`, which lies beside it, in place of what has the name.
fn link(lib: &Path, library: &str, name: &str) -> Result<(), String> {
    let place = lib.join(name);
    let _ = fs::remove_file(&place); // It may not be there; making the link reports what is wrong.
    symlink(library, &place).map_err(|error| format!("{}: {error}", place.display()))?;
    println!("{}", place.display());
    Ok(())
}

/// Builds packages; the library is named `soname` and has the C interface of a generation.
fn build(
    root: &Path,
    plan: &Plan,
    soname: &str,
    generation: Option<&str>,
    packages: &[&str],
) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--profile", &plan.profile]);
    for package in packages {
        command.args(["-p", package]);
    }
    if let Some(feature) = generation {
        command.args(["--features", &format!("spanlith-capi/{feature}")]);
    }
    let status = command
        .env("SPANLITH_SONAME", soname)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("cargo build failed".to_string())
    }
}

fn make_folder(file: &Path) -> Result<(), String> {
    match file.parent() {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
        }
        None => Ok(()),
    }
}

/// Puts a file in its place in one step: a library that a program has mapped keeps its contents.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    make_folder(to)?;
    let mut name = to.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::copy(from, &temporary).map_err(|error| at(from, error))?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))
        .map_err(|error| at(&temporary, error))?;
    fs::rename(&temporary, to).map_err(|error| at(to, error))?;
    println!("{}", to.display());
    Ok(())
}

fn pkg_config(prefix: &Path) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: rocksdb\n\
         Description: Spanlith, an embedded key-value store with RocksDB's files and C interface\n\
         Version: {VERSION}\n\
         Libs: -L${{libdir}} -lrocksdb\n\
         Libs.private: -lm -lpthread -ldl\n\
         Cflags: -I${{includedir}}\n",
        prefix.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let plan =
            parse(&["--prefix", "/opt/s", "--soname", "7.8", "--profile", "dev"]).expect("plan");
        assert_eq!(plan.prefix, Path::new("/opt/s"));
        assert_eq!(plan.sonames, ["7.8"]);
        assert_eq!(plan.profile, "dev");
        for wrong in [
            &[][..],
            &["--prefix"],
            &["--prefix", "/a", "--soname", "7"],
            &["--prefix", "/a", "--soname", "7.x"],
            &["--nonsense", "1"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn generations_of_releases() {
        for (release, expected) in [
            ("6.29", Some("generation-8-1")),
            ("7.8", Some("generation-8-1")),
            ("8.1", Some("generation-8-1")),
            ("8.11", Some("generation-8-10")),
            ("9.7", Some("generation-10-4")),
            ("10.10", Some("generation-10-4")),
            ("11.8", None),
        ] {
            assert_eq!(generation(release), expected, "{release}");
        }
    }
}
