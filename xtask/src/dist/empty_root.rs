//! Runs the binary in a root that holds nothing else: no loader, no libraries, no shell.
//!
//! There are `/proc`, `/tmp`, `/dev/null` and two files under `/etc`, which say where names are looked
//! up. The network has only loopback, with a name server that we play. So what works here needs
//! nothing of the system but its kernel.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, bail, ensure};

use super::archive::PROGRAM;
use super::contents::COMMAND;
use crate::shell;

/// The inner word by which this program goes on in namespaces of its own.
pub(crate) const INSIDE: &str = "__empty-root";

const NAMESPACES: &[&str] =
    &["unshare", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child"];

/// Known only to the name server.
const NAME: &str = "agent.test";

/// Each line is a command and, after `=>`, what it has to print.
const STORY: &[&str] = &[
    "run --detach --name echo --echo =>",
    "send echo hello --response => hello",
    "certs make --name agent.test =>",
    "run --detach --name secure --echo --port 8443 --listen 127.0.0.1 --tls-cert /tmp/.synapse/certs/server.pem \
     --tls-key /tmp/.synapse/certs/server.key =>",
    "send https://agent.test:8443 encrypted --response --ca /tmp/.synapse/certs/ca.pem \
     --token-file /tmp/.synapse/token => encrypted",
    "kill echo =>",
    "kill secure =>",
];

pub(super) fn run(root: &Path, binary: &[u8]) -> anyhow::Result<()> {
    if !shell::works(root, &[NAMESPACES, &["true"]].concat()) {
        println!("empty root: skipped, `{} true` does not work here", NAMESPACES.join(" "));
        return Ok(());
    }
    let scratch = tempfile::Builder::new().prefix("synapse-root-").tempdir()?;
    let program = scratch.path().join(COMMAND);
    fs::write(&program, binary)?;
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(PROGRAM))?;
    let own = std::env::current_exe().context("the path of this program")?;
    let status = Command::new(NAMESPACES[0])
        .args(&NAMESPACES[1..])
        .arg(own)
        .arg(INSIDE)
        .arg(scratch.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .status()
        .context("starting in namespaces of its own")?;
    ensure!(status.success(), "in an empty root: {status}");
    println!("empty root: starts, answers, resolves a name, speaks TLS");
    Ok(())
}

/// The other half: in namespaces that end with this process, and take all that was started along.
pub(crate) fn inside(words: &[String]) -> anyhow::Result<()> {
    let [top] = words else { bail!("{INSIDE} needs a folder") };
    let root = Path::new(top);
    for folder in ["dev", "etc", "proc", "tmp"] {
        fs::create_dir(root.join(folder))?;
    }
    fs::write(root.join("dev/null"), "")?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    fs::write(root.join("etc/resolv.conf"), "nameserver 127.0.0.1\n")?;
    shell::read(root, &["mount", "-t", "proc", "proc", "proc"])?;
    shell::read(root, &["mount", "--bind", "/dev/null", "dev/null"])?;
    shell::read(root, &["ip", "link", "set", "lo", "up"])?;
    let server = UdpSocket::bind("127.0.0.1:53").context("playing the name server")?;
    thread::spawn(move || serve_names(&server));
    let path = format!("PATH={}", std::env::var("PATH").unwrap_or_default());
    for line in STORY {
        let (command, wanted) = line.split_once("=>").context("a line of the story")?;
        let program = format!("/{COMMAND}");
        let mut words = vec!["env", "-i", "HOME=/tmp", &path, "chroot", ".", &program];
        words.extend(command.split_whitespace());
        let printed = shell::read(root, &words)?;
        let wanted = wanted.trim();
        ensure!(
            wanted.is_empty() || printed.lines().any(|line| line == wanted),
            "`synapse {command}` does not print {wanted:?}: {printed}"
        );
    }
    Ok(())
}

fn serve_names(server: &UdpSocket) {
    let mut buffer = [0; 512];
    while let Ok((size, from)) = server.recv_from(&mut buffer) {
        if let Some(answer) = answer(&buffer[..size]) {
            let _ = server.send_to(&answer, from);
        }
    }
}

/// The answer to a question of DNS: 127.0.0.1 for the IPv4 address of `NAME`; no other kind of
/// address, and no other name.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    let name: Vec<u8> =
        NAME.split('.').flat_map(|part| [&[part.len() as u8], part.as_bytes()].concat()).collect();
    let asked = question.get(HEAD..)?;
    let end = asked.iter().position(|byte| *byte == 0)?;
    let kind = asked.get(end + 1..end + 5)?;
    let (is_known, is_ipv4) = (asked[..end] == name, kind == [0, 1, 0, 1]);
    let mut answer = question[..2].to_vec();
    // An answer, recursion available; code 3: there is no such name.
    answer.extend([0x81, if is_known { 0x80 } else { 0x83 }]);
    answer.extend([0, 1, 0, u8::from(is_known && is_ipv4), 0, 0, 0, 0]);
    answer.extend(&asked[..end + 5]);
    if is_known && is_ipv4 {
        // The name of the question, an address of IPv4, for 60 seconds, four bytes.
        answer.extend([0xc0, HEAD as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_story_is_known() {
        let question = |name: &str, kind: u8| {
            let mut question = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            question.extend(name.split('.').flat_map(|part| [&[part.len() as u8], part.as_bytes()].concat()));
            question.extend([0, 0, kind, 0, 1]);
            question
        };
        let told = answer(&question(NAME, 1)).unwrap();
        assert!(told.starts_with(&[7, 9, 0x81, 0x80, 0, 1, 0, 1]), "{told:?}");
        assert!(told.ends_with(&[127, 0, 0, 1]), "{told:?}");
        let no_ipv6 = answer(&question(NAME, 28)).unwrap();
        assert!(no_ipv6.starts_with(&[7, 9, 0x81, 0x80, 0, 1, 0, 0]), "{no_ipv6:?}");
        assert_eq!(answer(&question("other.test", 1)).unwrap()[3], 0x83);
        assert_eq!(answer(b"short"), None);
    }
}
