//! The systems that a release has binaries for, and what each kind of package calls them.

use anyhow::Context;

/// A system with a static binary.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// As Rust calls it.
    pub(super) triple: &'static str,
    /// The machine, as the kernel calls it (`uname -m`).
    pub(super) machine: &'static str,
    /// As Debian calls it.
    pub(super) debian: &'static str,
    /// As Node.js calls the processor.
    pub(super) npm_cpu: &'static str,
}

pub(super) const TARGETS: &[Target] = &[
    Target { triple: "x86_64-unknown-linux-musl", machine: "x86_64", debian: "amd64", npm_cpu: "x64" },
    Target { triple: "aarch64-unknown-linux-musl", machine: "aarch64", debian: "arm64", npm_cpu: "arm64" },
];

impl Target {
    pub(super) fn parse(triple: &str) -> Result<&'static Self, String> {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
        TARGETS
            .iter()
            .find(|target| target.triple == triple)
            .ok_or_else(|| format!("no packages are made for `{triple}`, only for {}", known.join(", ")))
    }

    /// The static target for the machine that `rustc` runs on.
    pub(super) fn of_host(rustc: &str) -> anyhow::Result<&'static Self> {
        let host = host(rustc).context("`rustc -vV` names no host")?;
        let machine = host.split('-').next().unwrap_or_default();
        let found = TARGETS.iter().find(|target| host.contains("linux") && target.machine == machine);
        found.with_context(|| format!("no packages are made on {host}: packages are for Linux"))
    }

    /// Whether a binary for this target runs on the machine that `rustc` runs on.
    pub(super) fn runs_here(&self, rustc: &str) -> bool {
        Self::of_host(rustc).is_ok_and(|host| host == self)
    }
}

/// The host in the output of `rustc -vV`.
pub(super) fn host(rustc: &str) -> Option<&str> {
    rustc.lines().find_map(|line| line.strip_prefix("host: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_target_of_a_machine_is_found() {
        let rustc = "rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\n";
        let target = Target::of_host(rustc).unwrap();
        assert_eq!(target.triple, "x86_64-unknown-linux-musl");
        assert!(target.runs_here(rustc));
        assert!(!TARGETS[1].runs_here(rustc));
        let error = Target::of_host("host: aarch64-apple-darwin\n").unwrap_err().to_string();
        assert!(error.contains("aarch64-apple-darwin"), "{error}");
        assert!(Target::parse("riscv").unwrap_err().contains("x86_64-unknown-linux-musl"));
        assert_eq!(Target::parse("aarch64-unknown-linux-musl").unwrap().npm_cpu, "arm64");
    }
}
