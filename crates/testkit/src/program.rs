//! A program that runs beside the test and is talked to by lines: `synapse join`, or a command in the foreground.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than anything should take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn next_line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("the program says something")
    }

    /// The next line, which is JSON.
    pub fn next(&self) -> Value {
        let line = self.next_line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("no JSON ({e}): {line}"))
    }

    /// The next line of a type; answers to what was said (`ok`) are passed over.
    pub fn next_of(&self, kind: &str) -> Value {
        loop {
            let line = self.next();
            if line["type"] == kind {
                return line;
            }
            assert_eq!(line["type"], "ok", "waiting for {kind}: {line}");
        }
    }

    /// All that was said so far.
    pub fn said(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub fn say(&mut self, line: &Value) {
        self.say_raw(&format!("{line}\n"));
    }

    pub fn say_raw(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
