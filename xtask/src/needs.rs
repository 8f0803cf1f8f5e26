//! The programs that the checks need, and how to install them.
//!
//! A program is probed by running it. What can be installed without questions is installed. The
//! rest is listed, with hints, all at once.

use std::path::Path;

use anyhow::{Context, bail};

use crate::{sdk, shell};

struct Need {
    name: &'static str,
    /// Succeeds if the need is met.
    probe: &'static [&'static str],
    remedy: Remedy,
    hint: &'static str,
}

/// How a missing program is installed, if that is allowed.
enum Remedy {
    None,
    Run(&'static [&'static str]),
    /// Only tried as root: on a build server, not on somebody's own machine.
    RunAsRoot(&'static [&'static str]),
}

const NEEDS: &[Need] = &[
    Need {
        name: "a C compiler",
        probe: &["cc", "--version"],
        remedy: Remedy::None,
        hint: "SQLite is built from its source: install gcc or clang",
    },
    Need {
        name: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        remedy: Remedy::Run(&["rustup", "component", "add", "rustfmt"]),
        hint: "`rustup component add rustfmt`",
    },
    Need {
        name: "clippy",
        probe: &["cargo", "clippy", "--version"],
        remedy: Remedy::Run(&["rustup", "component", "add", "clippy"]),
        hint: "`rustup component add clippy`",
    },
    Need {
        name: "cargo-nextest",
        probe: &["cargo", "nextest", "--version"],
        remedy: Remedy::Run(&["cargo", "install", "cargo-nextest", "--locked"]),
        hint: "`cargo install cargo-nextest --locked`",
    },
    Need {
        name: "python3",
        probe: &["python3", "--version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "python3"]),
        hint: "some tests play the other side of a protocol with it: install python3",
    },
    Need {
        name: "python3-venv",
        probe: &["python3", "-c", "import ensurepip, venv"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "python3-venv"]),
        hint: "the official SDKs of A2A are fetched with it: install python3-venv",
    },
    Need {
        name: "openssl",
        probe: &["openssl", "version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "openssl"]),
        hint: "tests of TLS call a node with it: install openssl",
    },
    Need {
        name: "curl",
        probe: &["curl", "--version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "curl"]),
        hint: "tests of TLS and the pages under docs call a node with it: install curl",
    },
    // Real CLIs are tried on Linux only.
    #[cfg(target_os = "linux")]
    Need {
        name: "npm",
        probe: &["npm", "--version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "nodejs", "npm"]),
        hint: "it fetches the real CLIs and the SDK that are tried: install nodejs (20 or later) and npm",
    },
    #[cfg(target_os = "linux")]
    Need {
        name: "dpkg-deb",
        probe: &["dpkg-deb", "--version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "dpkg"]),
        hint: "the package of Debian that `cargo xtask dist` makes is tested with it: install dpkg",
    },
    #[cfg(target_os = "linux")]
    Need {
        name: "ip",
        probe: &["ip", "-V"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "iproute2"]),
        hint: "it makes the network without a world in which real CLIs are tried: install iproute2",
    },
];

/// What a static binary needs.
const STATIC_NEEDS: &[Need] = &[
    Need {
        name: "musl-gcc",
        probe: &["musl-gcc", "--version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "musl-tools"]),
        hint: "what is written in C is compiled with it: install musl-tools (Debian) or musl-gcc",
    },
    Need {
        name: "nm",
        probe: &["nm", "--version"],
        remedy: Remedy::RunAsRoot(&["apt-get", "install", "-y", "binutils"]),
        hint: "`cargo xtask dist --sizes` reads the symbols with it: install binutils",
    },
];

/// Makes sure that a static binary can be built.
pub(crate) fn meet_for_static(root: &Path) -> anyhow::Result<()> {
    meet_all(STATIC_NEEDS, |line| shell::works(root, line), |line| shell::show(root, line, &[]).is_ok())
}

/// Makes sure that everything the steps need is installed. The error names what is missing.
pub(crate) fn meet(root: &Path) -> anyhow::Result<()> {
    meet_all(NEEDS, |line| shell::works(root, line), |line| shell::show(root, line, &[]).is_ok())?;
    sdk::ensure_all(root).context("the official SDKs of A2A, which call us in the tests")
}

fn meet_all(
    needs: &[Need],
    works: impl Fn(&[&str]) -> bool,
    mut fetch: impl FnMut(&[&str]) -> bool,
) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    for need in needs {
        if works(need.probe) {
            continue;
        }
        let remedy = match need.remedy {
            Remedy::None => None,
            Remedy::Run(line) => Some(line),
            Remedy::RunAsRoot(line) => works(IS_ROOT).then_some(line),
        };
        let fetched = remedy.is_some_and(|line| {
            println!("{} is missing; running `{}`", need.name, line.join(" "));
            fetch(line) && works(need.probe)
        });
        if !fetched {
            missing.push(format!("{} is missing ({})", need.name, need.hint));
        }
    }
    if !missing.is_empty() {
        bail!("{}", missing.join("\n"));
    }
    Ok(())
}

const IS_ROOT: &[&str] = &["sh", "-c", "test \"$(id -u)\" = 0"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Checks the needs on a machine that has `has`. Returns what was installed and the error.
    fn check(has: &[&str], root: bool, fetching_works: bool) -> (Vec<String>, Option<String>) {
        let here = RefCell::new(has.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let fetched = RefCell::new(Vec::new());
        let probe_of =
            |line: &[&str]| if line[0] == "cargo" { line[1].to_owned() } else { line[0].to_owned() };
        let works = |line: &[&str]| {
            if line == IS_ROOT { root } else { here.borrow().contains(&probe_of(line)) }
        };
        let fetch = |line: &[&str]| {
            fetched.borrow_mut().push(line.join(" "));
            for name in ["fmt", "clippy", "nextest", "python3", "openssl", "curl", "npm", "iproute2"] {
                if fetching_works && line.iter().any(|word| word.contains(name)) {
                    here.borrow_mut().push(name.to_owned());
                }
            }
            fetching_works
        };
        let said = meet_all(NEEDS, works, fetch).err().map(|error| error.to_string());
        (fetched.into_inner(), said)
    }

    const FULL: &[&str] =
        &["cc", "fmt", "clippy", "nextest", "python3", "openssl", "curl", "npm", "dpkg-deb", "ip"];

    fn without(name: &str) -> Vec<&'static str> {
        FULL.iter().copied().filter(|own| *own != name).collect()
    }

    #[test]
    fn a_full_machine_fetches_nothing() {
        assert_eq!(check(FULL, false, false), (vec![], None));
    }

    #[test]
    fn a_missing_runner_is_installed() {
        let (fetched, said) = check(&without("nextest"), false, true);
        assert_eq!(fetched, ["cargo install cargo-nextest --locked"]);
        assert_eq!(said, None);
    }

    #[test]
    fn only_root_installs_packages() {
        let (fetched, said) = check(&without("python3"), true, true);
        assert_eq!(fetched, ["apt-get install -y python3"]);
        assert_eq!(said, None);

        let (fetched, said) = check(&without("python3"), false, true);
        assert!(fetched.is_empty());
        assert!(said.unwrap().starts_with("python3 is missing"));
    }

    #[test]
    fn a_static_build_names_the_package_of_its_compiler() {
        let installed = std::cell::Cell::new(false);
        let works = |line: &[&str]| line == IS_ROOT || line[0] == "nm" || installed.get();
        let install = |line: &[&str]| {
            installed.set(line.contains(&"musl-tools"));
            true
        };
        meet_all(STATIC_NEEDS, works, install).unwrap();
        assert!(installed.get());
        let said = meet_all(STATIC_NEEDS, |line| line[0] == "nm", |_| false).unwrap_err().to_string();
        assert!(said.contains("musl-gcc is missing") && said.contains("musl-tools"), "{said}");
    }

    #[test]
    fn everything_missing_is_named_at_once() {
        let (_, said) = check(&[], false, false);
        assert_eq!(said.unwrap().lines().count(), NEEDS.len());
    }
}
