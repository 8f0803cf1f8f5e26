//! Builds a static binary for a target, and takes its symbols out.
//!
//! Rust brings the C library (musl), the start code and the linker (`rust-lld`) for its targets. What
//! is written in C needs a compiler: `musl-gcc` for the machine that builds, `zig cc` for others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::archive::PROGRAM;
use super::target::{self, Target};
use super::{elf, target_dir};
use crate::{needs, sdk, shell};

pub(super) struct Built {
    pub(super) target: &'static Target,
    /// The binary as it was linked, with its symbols.
    pub(super) path: PathBuf,
    /// The binary as it is packed.
    pub(super) binary: Vec<u8>,
}

/// How the binary is linked: functions with the same code become one, and the list of addresses that
/// are adjusted at the start is written in its short form.
const LINK: &[&str] = &[
    "-Clinker=rust-lld",
    "-Clink-self-contained=yes",
    "-Clink-arg=--icf=all",
    "-Clink-arg=--pack-dyn-relocs=relr",
];

pub(super) fn build(root: &Path, target: &'static Target, rustc: &str) -> anyhow::Result<Built> {
    let triple = target.triple;
    ensure_rust_target(root, triple)?;
    let folder = target_dir(root)?;
    let env = if target.runs_here(rustc) {
        needs::meet_for_static(root)?;
        vec![]
    } else {
        cross_compilers(&sdk::python(root, &sdk::ZIG), &sdk::ensure(root, &sdk::ZIG)?, target)?
    };
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let build =
        ["cargo", "rustc", "--package", "synapse", "--bin", "synapse", "--profile", "dist", "--locked"];
    let line = [&build[..], &["--target", triple, "--"], LINK].concat();
    println!("{}", line.join(" "));
    shell::show(root, &line, &env)?;

    let path = folder.join(triple).join("dist/synapse");
    let binary = strip(root, &path, rustc)?;
    elf::ensure_static(&binary).with_context(|| path.display().to_string())?;
    Ok(Built { target, path, binary })
}

/// Rust's own library for a target.
fn ensure_rust_target(root: &Path, triple: &str) -> anyhow::Result<()> {
    let folder = shell::read(root, &["rustc", "--print", "target-libdir", "--target", triple])?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    let add = ["rustup", "target", "add", triple];
    println!("Rust's library for {triple} is missing; running `{}`", add.join(" "));
    shell::show(root, &add, &[]).with_context(|| format!("Rust's library for {triple} is missing"))
}

/// Takes out the symbols, by the program that Rust brings: it knows the binaries of all machines.
fn strip(root: &Path, path: &Path, rustc: &str) -> anyhow::Result<Vec<u8>> {
    let sysroot = shell::read(root, &["rustc", "--print", "sysroot"])?;
    let sysroot = sysroot.trim();
    let host = target::host(rustc).context("`rustc -vV` names no host")?;
    let scratch = tempfile::tempdir().context("a folder for the stripped binary")?;
    let stripped = scratch.path().join("stripped");
    // It is linked with a library of the compiler.
    let libraries = format!("LD_LIBRARY_PATH={sysroot}/lib");
    let objcopy = format!("{sysroot}/lib/rustlib/{host}/bin/rust-objcopy");
    let (from, to) = (path.display().to_string(), stripped.display().to_string());
    shell::read(root, &["env", &libraries, &objcopy, "--strip-all", &from, &to])?;
    fs::read(&stripped).context("reading the stripped binary")
}

/// Scripts that call `zig` as the C compiler and archiver of a target, and the variables that name
/// them for build scripts.
fn cross_compilers(python: &Path, folder: &Path, target: &Target) -> anyhow::Result<Vec<(String, String)>> {
    let zig = format!("'{}' -m ziglang", python.display());
    let compile = format!("{zig} cc -target {}-linux-musl -fno-sanitize=all", target.machine);
    let scripts = [("CC", format!("{WITHOUT_TARGET}exec {compile}")), ("AR", format!("exec {zig} ar"))];
    let mut env = Vec::new();
    for (name, script) in scripts {
        let file = folder.join(format!("{}-{}", name.to_lowercase(), target.triple));
        fs::write(&file, format!("#!/bin/sh\n{script} \"$@\"\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(PROGRAM))?;
        env.push((format!("{name}_{}", target.triple.replace('-', "_")), file.display().to_string()));
    }
    Ok(env)
}

/// Drops the target that build scripts name as Rust does, which `zig` does not know.
const WITHOUT_TARGET: &str = "for word do
  shift
  case $word in
    --target=*) ;;
    *) set -- \"$@\" \"$word\" ;;
  esac
done
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::target::TARGETS;

    #[test]
    fn zig_gets_its_own_name_of_the_target() {
        let scratch = tempfile::tempdir().unwrap();
        // `echo` in place of Python prints what it is called with.
        let env = cross_compilers(Path::new("echo"), scratch.path(), &TARGETS[1]).unwrap();
        assert_eq!(env[0].0, "CC_aarch64_unknown_linux_musl");
        let called =
            |script: &str, words: &[&str]| shell::read(scratch.path(), &[&[script], words].concat()).unwrap();
        assert_eq!(
            called(&env[0].1, &["-O3", "--target=aarch64-unknown-linux-musl", "-c", "a file.c"]),
            "-m ziglang cc -target aarch64-linux-musl -fno-sanitize=all -O3 -c a file.c\n"
        );
        assert_eq!(called(&env[1].1, &["crs", "lib.a"]), "-m ziglang ar crs lib.a\n");
    }
}
