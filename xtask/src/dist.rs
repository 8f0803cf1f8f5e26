//! The archive people download: one stripped binary, the licence, the readme, and a checksum. Beside it, what the binary
//! is made of (`sbom`).
//!
//! Everything lands in `target/dist`; nothing is sent anywhere.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::{audit, sbom, shell};

/// Builds with the `dist` profile and packs `synapse-<version>-<target>.tar.gz` beside its SHA-256 and its
/// bill of materials.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    shell::show(root, &["cargo", "build", "--package", "synapse", "--profile", "dist", "--locked"], &[])?;
    let metadata =
        shell::read(root, &["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("reading `cargo metadata`")?;
    let version = version_of(&metadata, "synapse").context("no package called synapse")?;
    let target_dir = metadata["target_directory"].as_str().context("no target folder in `cargo metadata`")?;
    let compiler = shell::read(root, &["rustc", "-vV"])?;
    let target = host_of(&compiler).context("`rustc -vV` names no host")?;

    // The `dist` profile puts its binary into this very folder; the archive goes beside it.
    let dist = Path::new(target_dir).join("dist");
    let name = format!("synapse-{version}-{target}");
    let staged = dist.join(&name);
    if staged.exists() {
        fs::remove_dir_all(&staged).with_context(|| format!("clearing {}", staged.display()))?;
    }
    fs::create_dir_all(&staged).with_context(|| format!("making {}", staged.display()))?;
    for (from, to) in [
        (dist.join("synapse"), "synapse"),
        (root.join("LICENSE"), "LICENSE"),
        (root.join("README.md"), "README.md"),
    ] {
        fs::copy(&from, staged.join(to)).with_context(|| format!("copying {}", from.display()))?;
    }

    let archive = format!("{name}.tar.gz");
    shell::show(&dist, &["tar", "-czf", &archive, &name], &[])?;
    let sum = shell::read(&dist, &["sha256sum", &archive])?;
    fs::write(dist.join(format!("{archive}.sha256")), &sum).context("writing the checksum")?;
    print!("{sum}");

    let lock = fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let bom = sbom::of(&audit::metadata(root, &["--filter-platform", target])?, &lock, "synapse")?;
    let file = dist.join(format!("{name}.cdx.json"));
    fs::write(&file, format!("{bom:#}\n")).with_context(|| format!("writing {}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

fn version_of<'a>(metadata: &'a Value, package: &str) -> Option<&'a str> {
    let packages = metadata["packages"].as_array()?;
    packages.iter().find(|found| found["name"] == package)?["version"].as_str()
}

fn host_of(compiler: &str) -> Option<&str> {
    compiler.lines().find_map(|line| line.strip_prefix("host: "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_archive_is_named_after_version_and_machine() {
        let metadata = json!({ "packages": [
            { "name": "synapse-core", "version": "9.9.9" },
            { "name": "synapse", "version": "0.1.0" },
        ]});
        assert_eq!(version_of(&metadata, "synapse"), Some("0.1.0"));
        assert_eq!(version_of(&metadata, "absent"), None);
        assert_eq!(
            host_of("rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\n"),
            Some("x86_64-unknown-linux-gnu")
        );
    }
}
