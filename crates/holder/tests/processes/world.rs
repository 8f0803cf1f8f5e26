//! One test's world: a folder, the fixture processes it started, and waits
//! that say what they wait for.
//!
//! Invariant: when a world is dropped, what it started through fixtures ends.
//! Not here: what is expected of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use synapse_holder::{Exit, ProcessMark, RunDir, RunMode, RunSpec, RunState, reaper};

pub(crate) struct World {
    folder: tempfile::TempDir,
    fixtures: Vec<Child>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), fixtures: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts `holder-fixture words.. sh -c script sh folder`.
    pub(crate) fn start_with_script(&mut self, words: &[&str], script: &str) -> u32 {
        let mut command = fixture();
        command.args(words).args(["sh", "-c", script, "sh"]).arg(self.path());
        self.start(command)
    }

    pub(crate) fn hold(&mut self, script: &str) -> u32 {
        let agent = self.path().to_str().unwrap().to_owned();
        self.start_with_script(&["hold", &agent], script)
    }

    pub(crate) fn start(&mut self, mut command: Command) -> u32 {
        let log = fs::File::options().append(true).create(true).open(self.path().join("log"));
        let child = command.stdin(Stdio::null()).stderr(log.unwrap()).spawn().unwrap();
        let pid = child.id();
        self.fixtures.push(child);
        pid
    }

    pub(crate) fn run(&mut self, run: &RunDir) -> u32 {
        let mut command = fixture();
        command.arg("run").arg(run.path());
        let child = run.spawn_runner(command).unwrap();
        let pid = child.id();
        self.fixtures.push(child);
        pid
    }

    pub(crate) fn prepare(&self, spec: &RunSpec, input: &[u8]) -> RunDir {
        RunDir::prepare(self.path(), "run", spec, input).unwrap()
    }

    pub(crate) fn script(&self, script: &str) -> RunSpec {
        let folder = self.path().to_str().unwrap();
        self.argv(&["sh", "-c", script, "sh", folder])
    }

    pub(crate) fn argv(&self, argv: &[&str]) -> RunSpec {
        RunSpec {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: self.path().to_owned(),
            env: BTreeMap::new(),
            mode: RunMode::Plain,
            time_limit_ms: None,
            output_limit: 10_000_000,
            open_files: None,
        }
    }

    pub(crate) fn wait_until(&mut self, wish: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "waited in vain until {wish}\n{}", self.describe());
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    /// The process that wrote its pid into `file`, once it has.
    pub(crate) fn process_in(&mut self, file: &str) -> ProcessMark {
        self.nth_process_in(file, 0)
    }

    pub(crate) fn nth_process_in(&mut self, file: &str, index: usize) -> ProcessMark {
        let mut found = None;
        self.wait_until(&format!("process {index} is named in {file}"), |world| {
            let text = fs::read_to_string(world.path().join(file)).unwrap_or_default();
            // A line without its end may still be half a number.
            let line = text.split_inclusive('\n').nth(index).and_then(|line| line.strip_suffix('\n'));
            found = line.map(|line| line.parse().unwrap());
            found.is_some()
        });
        let pid = found.unwrap();
        ProcessMark::of(pid).unwrap_or_else(|| panic!("{pid} is gone\n{}", self.describe()))
    }

    /// Waits for a fixture to end by itself.
    pub(crate) fn end_of(&mut self, pid: u32) -> ExitStatus {
        let mut status = None;
        self.wait_until(&format!("fixture {pid} ended"), |world| {
            let fixture = world.fixtures.iter_mut().find(|child| child.id() == pid).unwrap();
            status = fixture.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn exit_of(&mut self, run: &RunDir) -> Exit {
        let mut exit = None;
        self.wait_until("the run ended", |_| {
            if let RunState::Ended(ended) = run.state().unwrap() {
                exit = Some(ended);
            }
            exit.is_some()
        });
        exit.unwrap()
    }

    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        describe_files(self.path(), &mut text);
        for pid in reaper::descendants(std::process::id()) {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let parent = synapse_holder::parent_of(pid);
            writeln!(text, "process {pid} of {parent:?}: {line}").unwrap();
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for fixture in &mut self.fixtures {
            if let Some(mark) = ProcessMark::of(fixture.id()) {
                mark.terminate();
            }
            let _ = fixture.wait();
        }
    }
}

pub(crate) fn fixture() -> Command {
    Command::new(env!("CARGO_BIN_EXE_holder-fixture"))
}

pub(crate) fn terminate(pid: u32) {
    assert!(ProcessMark::of(pid).unwrap().terminate());
}

fn describe_files(folder: &Path, text: &mut String) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            describe_files(&path, text);
        } else {
            let content = fs::read(&path).unwrap_or_default();
            let shown = String::from_utf8_lossy(&content[..content.len().min(2000)]).into_owned();
            writeln!(text, "--- {} ({} bytes)\n{shown}", path.display(), content.len()).unwrap();
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);
