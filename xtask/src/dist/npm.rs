//! The packages of npm: one that people install, and one per machine that carries the binary.
//!
//! The first names the others as optional dependencies, and npm installs the one whose `os` and
//! `cpu` fit. No script runs at installation, and nothing else is downloaded.

use serde_json::{Value, json};

use super::File;
use super::archive::{self, Entry, PROGRAM, TEXT};
use super::contents::{COMMAND, Contents, PACKAGE};
use super::target::Target;

/// The package that people install. It is the same for every machine.
pub(super) fn main(contents: &Contents, targets: &[&Target]) -> anyhow::Result<File> {
    let man: Vec<String> = contents.man.iter().map(|(name, _)| format!("man/{name}")).collect();
    let binaries: serde_json::Map<String, Value> =
        targets.iter().map(|target| (binary_package(target), json!(contents.version))).collect();
    let mut manifest = manifest(contents, PACKAGE);
    manifest["bin"] = json!({ COMMAND: format!("bin/{COMMAND}") });
    manifest["man"] = json!(man);
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = targets.iter().map(|target| target.npm_cpu).collect();
    manifest["optionalDependencies"] = Value::Object(binaries);
    let mut entries = vec![Entry::new(format!("bin/{COMMAND}"), PROGRAM, launcher(targets))];
    entries.extend(contents.completion_scripts(|shell| format!("completions/{shell}")));
    entries.extend(contents.man_pages("man"));
    pack(contents, &manifest, entries)
}

/// The package with the binary for one machine.
pub(super) fn of_target(contents: &Contents, target: &Target, binary: &[u8]) -> anyhow::Result<File> {
    let mut manifest = manifest(contents, &binary_package(target));
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([target.npm_cpu]);
    // A program cannot be started from within an archive.
    manifest["preferUnplugged"] = json!(true);
    pack(contents, &manifest, vec![Entry::new(format!("bin/{COMMAND}"), PROGRAM, binary)])
}

pub(super) fn binary_package(target: &Target) -> String {
    format!("{PACKAGE}-linux-{}", target.npm_cpu)
}

fn manifest(contents: &Contents, name: &str) -> Value {
    json!({
        "name": name,
        "version": contents.version,
        "description": contents.summary,
        "homepage": contents.homepage,
        "repository": { "type": "git", "url": format!("git+{}.git", contents.homepage) },
        "license": "Apache-2.0",
    })
}

fn pack(contents: &Contents, manifest: &Value, mut entries: Vec<Entry>) -> anyhow::Result<File> {
    entries.insert(0, Entry::new("package.json", TEXT, format!("{manifest:#}\n")));
    entries.extend(contents.papers());
    let name = manifest["name"].as_str().unwrap_or_default();
    let bytes = archive::gzip(&archive::tar("package/", &entries)?)?;
    Ok(File { name: file_name(contents, name), bytes })
}

/// As `npm pack` would call it.
pub(super) fn file_name(contents: &Contents, package: &str) -> String {
    format!("{package}-{}.tgz", contents.version)
}

/// The program of the main package: a shell script that becomes the binary, so that signals, exit
/// codes and the process id are those of the binary. It looks for the package as Node.js would, in
/// `node_modules` of each folder above its own.
fn launcher(targets: &[&Target]) -> String {
    let cases: String = targets
        .iter()
        .map(|target| {
            let machine = if target.machine == "aarch64" { "aarch64 | arm64" } else { target.machine };
            format!("  {machine}) package={} ;;\n", binary_package(target))
        })
        .collect();
    format!(
        "#!/bin/sh
# Runs the binary, which is in the package for this machine.
machine=$(uname -m)
case $machine in
{cases}  *)
    echo \"error: no binary for $machine: {PACKAGE} has none\" >&2
    exit 1
    ;;
esac
folder=$(dirname \"$(readlink -f \"$0\")\")
while :; do
  binary=${{folder%/}}/node_modules/$package/bin/{COMMAND}
  if [ -x \"$binary\" ]; then
    exec \"$binary\" \"$@\"
  fi
  if [ \"$folder\" = / ]; then
    break
  fi
  folder=$(dirname \"$folder\")
done
echo \"error: the package $package is not installed: {PACKAGE} needs it for its binary\" >&2
echo \"hint: npm install $package, and do not leave out optional dependencies\" >&2
exit 1
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::target::TARGETS;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::Command;

    fn write(file: &Path, script: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, script).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(PROGRAM)).unwrap();
    }

    /// As npm lays packages out in a project, and as pnpm does: the package is a link into a folder
    /// where it stands beside those that it needs.
    #[test]
    fn launcher_finds_the_binary_beside_and_above() {
        for top in ["node_modules", "node_modules/.pnpm/own@1/node_modules"] {
            let scratch = tempfile::tempdir().unwrap();
            let program = scratch.path().join(top).join(PACKAGE).join("bin/synapse");
            write(&program, &launcher(&TARGETS.iter().collect::<Vec<_>>()));
            let link = scratch.path().join("node_modules/.bin/synapse");
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&program, &link).unwrap();

            let output = Command::new(&link).arg("list").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains("is not installed"), "{said}");

            for target in TARGETS {
                let binary = scratch.path().join(top).join(binary_package(target)).join("bin/synapse");
                write(&binary, "#!/bin/sh\necho \"$$ $*\"\nexit 7\n");
            }
            let child = Command::new(&link)
                .args(["send", "a b"])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let id = child.id();
            let output = child.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{id} send a b\n"));
            assert_eq!(output.status.code(), Some(7));
        }
    }
}
