//! `cargo xtask proto`: generates the code of the A2A messages from their protos. The code is
//! checked in.
//!
//! The generator is a separate package (`xtask/proto`) with its own lock file, so that building
//! Synapse needs neither it nor a protobuf compiler. `--check` generates the code again and
//! compares.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::shell;

/// The proto, and the folder of its generated code.
const MADE: &[(&str, &str)] = &[
    ("crates/a2a-v1/proto/a2a_v1.proto", "crates/a2a-v1/src/generated"),
    ("crates/a2a-v03/proto/a2a_v03.proto", "crates/a2a-v03/src/generated"),
];

const FILES: [&str; 2] = ["messages.rs.inc", "json.rs.inc"];

pub(crate) fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    for (proto, folder) in MADE {
        if check {
            let made = root.join("target/proto").join(folder);
            generate(root, proto, &made)?;
            compare(&root.join(folder), &made)?;
        } else {
            generate(root, proto, &root.join(folder))?;
        }
    }
    println!("the code of {} protos is as they say", MADE.len());
    Ok(())
}

fn generate(root: &Path, proto: &str, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let folder = folder.to_str().context("the path of the tree is not UTF-8")?;
    let cargo = ["cargo", "run", "--quiet", "--locked", "--manifest-path", "xtask/proto/Cargo.toml"];
    let line = [&cargo[..], &["--target-dir", "target/proto/build", "--", proto, folder]].concat();
    shell::show(root, &line, &[])
}

fn compare(own: &Path, made: &Path) -> anyhow::Result<()> {
    for name in FILES {
        let read = |folder: &Path| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        if read(own)? != read(made)? {
            bail!("{} is not what its proto says; run `cargo xtask proto`", own.join(name).display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding D: a change by hand to the code, or a change of its proto, is noticed.
    #[test]
    fn changed_code_is_noticed() {
        let (own, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&own, &made] {
            for name in FILES {
                fs::write(folder.path().join(name), "struct Message;\n").unwrap();
            }
        }
        assert!(compare(own.path(), made.path()).is_ok());
        fs::write(own.path().join(FILES[1]), "struct Message2;\n").unwrap();
        let said = compare(own.path(), made.path()).unwrap_err().to_string();
        assert!(said.contains("cargo xtask proto"), "{said}");
    }
}
