//! Asks a program about itself before it is started for real: its version, its help, or a question
//! to its server.
//!
//! It is the program that the person is about to run, and it may do anything. So each question has
//! a deadline and a size limit, and no answer is a valid result.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use synapse_terminal::Profile;

const PATIENCE: Duration = Duration::from_secs(3);
/// A help text has a few kilobytes, a list of hooks a few more.
const BYTES_MAX: u64 = 1 << 20;

/// What the program prints when it is asked for its version.
pub(super) fn version(profile: &Profile, program: &str) -> Option<String> {
    let said = printed(program, &profile.version.ask)?;
    Some(said.chars().take(200).collect())
}

/// The version of a program that npm has installed, by its package: some need seconds to print it.
pub(super) fn npm_version(program: &str) -> Option<String> {
    const PARENTS_MAX: usize = 4;
    let file = if program.contains('/') { program.into() } else { crate::program::on_path(program)? };
    let file = file.canonicalize().ok()?;
    let folder = file.ancestors().skip(1).take(PARENTS_MAX).find(|dir| dir.join("package.json").is_file())?;
    let mut text = Vec::new();
    std::fs::File::open(folder.join("package.json")).ok()?.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    let package: Value = serde_json::from_slice(&text).ok()?;
    let bins = match &package["bin"] {
        Value::Object(bins) => bins.values().filter_map(Value::as_str).collect(),
        bin => Vec::from_iter(bin.as_str()),
    };
    let is_it = |bin: &&str| folder.join(bin).canonicalize().is_ok_and(|bin| bin == file);
    bins.iter().find(|bin| is_it(bin)).and_then(|_| Some(package["version"].as_str()?.to_owned()))
}

/// What the program prints when it is started with these arguments. None if it does not exit in
/// time.
pub(super) fn printed(program: &str, words: &[String]) -> Option<String> {
    let mut child = start(program, words, Stdio::null())?;
    let (told, heard) = mpsc::channel();
    let stdout = child.stdout.take()?;
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.take(BYTES_MAX).read_to_end(&mut text);
        let _ = told.send(String::from_utf8_lossy(&text).into_owned());
    });
    let text = heard.recv_timeout(PATIENCE).ok();
    end(&mut child);
    text
}

/// The response to the last of some requests, each one JSON object per line. The program exits when
/// its input ends.
pub(super) fn answered(program: &str, words: &[String], requests: &[Value]) -> Option<Value> {
    let mut child = start(program, words, Stdio::piped())?;
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    let wanted = requests.last()?.get("id")?.clone();
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout.take(BYTES_MAX)).lines().map_while(Result::ok) {
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            if value.get("id") == Some(&wanted) && value.get("method").is_none() {
                let _ = told.send(value);
                return;
            }
        }
    });
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let is_asked = stdin.write_all(lines.as_bytes()).and_then(|()| stdin.flush()).is_ok();
    let answer = is_asked.then(|| heard.recv_timeout(PATIENCE).ok()).flatten();
    drop(stdin);
    end(&mut child);
    answer
}

fn start(program: &str, words: &[String], stdin: Stdio) -> Option<Child> {
    let mut command = Command::new(program);
    command.args(words).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    crate::program::withhold_secrets(&mut command);
    command.spawn().ok()
}

/// Gives the program a moment to exit by itself: then its children exit too, which a kill would
/// leave behind.
fn end(child: &mut Child) {
    const MOMENT: Duration = Duration::from_millis(500);
    const BETWEEN: Duration = Duration::from_millis(5);
    let until = Instant::now() + MOMENT;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(BETWEEN);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sh(script: &str) -> Vec<String> {
        vec!["-c".to_owned(), script.to_owned()]
    }

    #[test]
    fn programs_that_do_not_answer_are_no_answer() {
        assert_eq!(printed("sh", &sh("echo one; echo two")).as_deref(), Some("one\ntwo\n"));
        assert_eq!(printed("sh", &sh("exit 3")).as_deref(), Some(""));
        assert_eq!(printed("/no/such/program", &[]), None);
        let long = printed("sh", &sh("yes")).unwrap();
        assert_eq!(long.len() as u64, BYTES_MAX, "not without end");
        let began = Instant::now();
        assert_eq!(printed("sh", &sh("exec sleep 600")), None);
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn version_of_a_package_is_that_of_its_own_programs() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("lib/node_modules/cli");
        std::fs::create_dir_all(package.join("dist")).unwrap();
        std::fs::write(package.join("dist/cli.js"), "").unwrap();
        std::fs::write(package.join("dist/other.js"), "").unwrap();
        let link = root.path().join("cli");
        std::os::unix::fs::symlink(package.join("dist/cli.js"), &link).unwrap();
        let version = |text: &str, file: &std::path::Path| {
            std::fs::write(package.join("package.json"), text).unwrap();
            npm_version(file.to_str().unwrap())
        };
        let object = r#"{"version":"0.61.0","bin":{"cli":"dist/cli.js"}}"#;
        assert_eq!(version(object, &link).as_deref(), Some("0.61.0"));
        assert_eq!(version(r#"{"version":"1.2.3","bin":"./dist/cli.js"}"#, &link).as_deref(), Some("1.2.3"));
        assert_eq!(version(object, &package.join("dist/other.js")), None, "a file that it does not name");
        for text in ["", "[]", r#"{"version":"1"}"#, r#"{"bin":"dist/cli.js"}"#, r#"{"version":"1","bin":7}"#]
        {
            assert_eq!(version(text, &link), None, "{text}");
        }
        assert_eq!(npm_version("/no/such/program"), None);
    }

    #[test]
    fn the_answer_to_the_last_request_is_taken() {
        let requests = [json!({ "id": 1, "method": "hello" }), json!({ "id": 2, "method": "list" })];
        let ask = |script: &str| answered("sh", &sh(script), &requests);
        let talk = r#"read a; read b; echo noise; echo '{"id":2,"method":"may I?"}'; echo '{"id":2,"result":"so"}'; cat >/dev/null"#;
        assert_eq!(ask(talk), Some(json!({ "id": 2, "result": "so" })));
        assert_eq!(ask("read a; exit 1"), None);
        assert_eq!(ask("yes"), None);
    }
}
