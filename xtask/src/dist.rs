//! `cargo xtask dist`: the files of a release, into `target/packages`. Nothing is sent anywhere.
//!
//! For each target a static binary is built and packed as an archive, a package of Debian, of npm
//! and of pip. Beside them are the bills of materials (`sbom`) and `SHA256SUMS` of all files.
//!
//! Invariant: the same binary and tree give the same bytes.

mod archive;
mod build;
mod check;
mod contents;
mod deb;
mod elf;
mod empty_root;
mod install;
mod notices;
mod npm;
mod sizes;
mod tarball;
mod target;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use empty_root::{INSIDE, inside};

use crate::{audit, sbom, shell};
use build::Built;
use contents::Contents;
use target::Target;

const USAGE: &str = "usage: cargo xtask dist [--target TRIPLE]... [--check] [--sizes]";
const SUMS: &str = "SHA256SUMS";

/// A file of the release.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    name: String,
    bytes: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// None: the one of this machine.
    targets: Vec<&'static Target>,
    /// Install and run each package.
    check: bool,
    /// Print what the binary consists of instead.
    sizes: bool,
}

pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let mut options = parse(words)?;
    let rustc = shell::read(root, &["rustc", "-vV"])?;
    if options.targets.is_empty() {
        options.targets.push(Target::of_host(&rustc)?);
    }
    let built = options
        .targets
        .iter()
        .map(|target| build::build(root, target, &rustc))
        .collect::<anyhow::Result<Vec<Built>>>()?;
    if options.sizes {
        return built.iter().try_for_each(|built| sizes::print(root, built));
    }
    let own = built.iter().find(|built| built.target.runs_here(&rustc));
    let own = own.context(
        "completions and man pages are printed by the binary, and none of these runs on this machine: \
         add `--target` for this machine",
    )?;
    let contents = Contents::gather(root, &own.path)?;
    let mut files = pack(&contents, &built)?;
    for built in &built {
        files.push(bill_of_materials(root, &contents, built.target)?);
    }
    let folder = target_dir(root)?.join("packages");
    write(&folder, files)?;
    if options.check {
        check::run(root, &folder, &contents, own)?;
    }
    Ok(())
}

fn parse(words: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--check" => options.check = true,
            "--sizes" => options.sizes = true,
            "--target" => {
                let triple = words.next().with_context(|| format!("--target needs a triple\n{USAGE}"))?;
                options.targets.push(Target::parse(triple).map_err(anyhow::Error::msg)?);
            }
            _ => bail!("`{word}` is not an option of dist\n{USAGE}"),
        }
    }
    Ok(options)
}

/// All packages.
fn pack(contents: &Contents, built: &[Built]) -> anyhow::Result<Vec<File>> {
    let targets: Vec<&Target> = built.iter().map(|built| built.target).collect();
    let mut files = vec![npm::main(contents, &targets)?];
    for Built { target, binary, .. } in built {
        files.push(tarball::pack(contents, target, binary)?);
        files.push(deb::pack(contents, target, binary)?);
        files.push(npm::of_target(contents, target, binary)?);
        files.push(wheel::pack(contents, target, binary)?);
    }
    Ok(files)
}

fn bill_of_materials(root: &Path, contents: &Contents, target: &Target) -> anyhow::Result<File> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let bom = sbom::of(&audit::metadata(root, &["--filter-platform", target.triple])?, &lock, "synapse")?;
    let name = format!("{}.cdx.json", tarball::stem(contents, target));
    Ok(File { name, bytes: format!("{bom:#}\n").into_bytes() })
}

/// Writes the files and their checksums; what an earlier run left there is removed.
fn write(folder: &Path, mut files: Vec<File>) -> anyhow::Result<()> {
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.push(File { name: SUMS.to_owned(), bytes: sums(&files).into_bytes() });
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    println!("{}:", folder.display());
    for file in files {
        fs::write(folder.join(&file.name), &file.bytes).with_context(|| format!("writing {}", file.name))?;
        println!("{:>11} {}", file.bytes.len(), file.name);
    }
    Ok(())
}

/// As `sha256sum` prints it, and `sha256sum -c` reads it.
fn sums(files: &[File]) -> String {
    files.iter().map(|file| format!("{}  {}\n", hex(&Sha256::digest(&file.bytes)), file.name)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn target_dir(root: &Path) -> anyhow::Result<PathBuf> {
    let metadata: Value = audit::metadata(root, &["--no-deps"])?;
    let folder = metadata["target_directory"].as_str().context("no target folder in `cargo metadata`")?;
    Ok(folder.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program of the size of a letter that prints what the binary prints.
    const STAND_IN: &str = "#!/bin/sh
case \"$1 $2\" in
  '--version ') echo 'synapse 1.2.0-rc.3' ;;
  'completions '*) echo \"# completes in $2\" ;;
  'man --dir')
    mkdir \"$3\"
    for page in synapse-send synapse synapse-list; do echo \".TH $page 1\" >\"$3/$page.1\"; done
    ;;
  *) echo \"unknown: $*\" >&2; exit 2 ;;
esac
";

    /// Everything that is packed, gathered from the stand-in and this tree.
    fn gathered(scratch: &Path) -> (Contents, Vec<Built>) {
        let path = scratch.join("stand-in");
        fs::write(&path, STAND_IN).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(archive::PROGRAM)).unwrap();
        let mut contents = Contents::gather(&shell::root(), &path).unwrap();
        contents.version = "1.2.0-rc.3".to_owned();
        let built = target::TARGETS
            .iter()
            .map(|target| Built { target, path: path.clone(), binary: STAND_IN.into() })
            .collect();
        (contents, built)
    }

    #[test]
    fn the_same_binary_gives_the_same_bytes() {
        let pack_once = || {
            let scratch = tempfile::tempdir().unwrap();
            let (contents, built) = gathered(scratch.path());
            pack(&contents, &built).unwrap()
        };
        let (first, second) = (pack_once(), pack_once());
        assert_eq!(first.len(), 9);
        for (first, second) in first.iter().zip(&second) {
            assert!(first == second, "{} differs", first.name);
        }
    }

    /// Each package goes through the program of its makers, in a home that is thrown away.
    #[cfg(target_os = "linux")]
    #[test]
    fn every_package_installs_and_has_all_its_files() {
        let scratch = tempfile::tempdir().unwrap();
        let (contents, built) = gathered(scratch.path());
        let packages = scratch.path().join("packages");
        write(&packages, pack(&contents, &built).unwrap()).unwrap();
        shell::read(&packages, &["sha256sum", "--check", "--strict", SUMS]).unwrap();
        let rustc = shell::read(&shell::root(), &["rustc", "-vV"]).unwrap();
        let own = built.iter().find(|built| built.target.runs_here(&rustc)).unwrap();
        for install in install::WAYS {
            let prefix = tempfile::tempdir().unwrap();
            let installed = install(&packages, &contents, own.target, prefix.path()).unwrap();
            let version = installed.version(prefix.path()).unwrap();
            assert_eq!(version, "synapse 1.2.0-rc.3\n", "{}", installed.way);
            installed.has_texts(&contents).unwrap();
        }
    }

    #[test]
    fn docs_name_the_files_of_this_version() {
        let root = shell::root();
        let scratch = tempfile::tempdir().unwrap();
        let (mut contents, _) = gathered(scratch.path());
        contents.version = env!("CARGO_PKG_VERSION").to_owned();
        let target = &target::TARGETS[0];
        let wheel = wheel::file_name(&contents, target).unwrap();
        let names = [
            deb::file_name(&contents, target).unwrap(),
            npm::file_name(&contents, contents::PACKAGE),
            npm::file_name(&contents, &npm::binary_package(target)),
            // The rest of the name is long, and not written out.
            wheel.split_once("many").unwrap().0.to_owned(),
            format!("{}.tar.gz", tarball::stem(&contents, target)),
        ];
        for page in ["README.md", "docs/install.md"] {
            let text = fs::read_to_string(root.join(page)).unwrap();
            for name in &names {
                assert!(text.contains(name), "{page} does not name {name}");
            }
        }
    }

    #[test]
    fn no_package_runs_a_script() {
        let scratch = tempfile::tempdir().unwrap();
        let (contents, built) = gathered(scratch.path());
        let packages = scratch.path().join("packages");
        let files = pack(&contents, &built).unwrap();
        write(&packages, files.clone()).unwrap();
        for file in files {
            if file.name.ends_with(".deb") {
                let control = format!("ar p {} control.tar.gz | tar -tz", file.name);
                let list = shell::read(&packages, &["sh", "-c", &control]).unwrap();
                assert_eq!(list, "./\n./control\n./md5sums\n", "{}", file.name);
            }
            if file.name.ends_with(".tgz") {
                let manifest = ["tar", "-xzOf", &file.name, "package/package.json"];
                let manifest: Value =
                    serde_json::from_str(&shell::read(&packages, &manifest).unwrap()).unwrap();
                assert!(manifest["scripts"].is_null() && manifest["dependencies"].is_null(), "{manifest}");
            }
        }
    }

    #[test]
    fn an_earlier_run_leaves_no_files() {
        let scratch = tempfile::tempdir().unwrap();
        let packages = scratch.path().join("packages");
        let file = |name: &str| vec![File { name: name.to_owned(), bytes: b"text".to_vec() }];
        write(&packages, file("old")).unwrap();
        write(&packages, file("new")).unwrap();
        assert!(!packages.join("old").exists());
        let sums = fs::read_to_string(packages.join(SUMS)).unwrap();
        // `printf text | sha256sum`.
        assert_eq!(sums, "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1  new\n");
    }

    #[test]
    fn options_are_words_of_the_command_line() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let options = parse(&words("--check --target aarch64-unknown-linux-musl")).unwrap();
        assert!(options.check && !options.sizes);
        assert_eq!(options.targets, [&target::TARGETS[1]]);
        for wrong in ["--target", "--target vax", "--fast"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
