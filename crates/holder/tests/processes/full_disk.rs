//! What a runner does while the disk has no room (A1): it waits, and nothing fails for it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use synapse_holder::{How, RunDir, RunSpec, RunState};

use crate::world::World;

/// Set in the process that runs on the small disk.
const SMALL_DISK: &str = "SYNAPSE_TEST_SMALL_DISK";
const GO: &str = "until [ -e $1/go ]; do sleep 0.02; done; ";

/// Calls `story` in a second process of this test, whose temporary folder is a disk of 2 MB.
fn on_a_small_disk(test: &str, story: fn(SmallDisk)) {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return story(SmallDisk { filler: PathBuf::from(disk).join("filler"), world: World::new() });
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount a small disk");
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=2m,mode=0700 tmpfs \"$0\" || exit 99; exec \"$@\"";
    let ran = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("full_disk::{test}"), "--nocapture"])
        .env(SMALL_DISK, disk.path())
        .env("TMPDIR", disk.path())
        .status();
    match ran.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(99)) | Err(_) => eprintln!("left out: this system does not allow mounting a small disk"),
        Ok(code) => panic!("it failed on the small disk: {code:?}"),
    }
}

struct SmallDisk {
    world: World,
    filler: PathBuf,
}

impl SmallDisk {
    fn fill(&self) {
        let mut file = fs::File::options().append(true).create(true).open(&self.filler).unwrap();
        for size in [64 << 10, 4 << 10, 1] {
            while file.write(&vec![b'x'; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(&self.filler).unwrap();
    }

    /// Starts a run and fills the disk; the command goes on on the full disk.
    fn run_until_full(&mut self, script: &str, more: impl Fn(&mut RunSpec)) -> RunDir {
        let mut spec = self.world.script(&format!("echo $$ > $1/command; {GO}{script}"));
        more(&mut spec);
        let run = self.world.prepare(&spec, b"");
        self.world.run(&run);
        self.world.process_in("command");
        self.fill();
        run
    }

    fn go(&self) {
        fs::write(self.world.path().join("go"), "").unwrap();
    }
}

/// Finding A1: how a command ended was lost if the disk was full, and its task failed.
#[test]
fn end_of_a_command_is_kept_on_a_full_disk() {
    on_a_small_disk("end_of_a_command_is_kept_on_a_full_disk", |mut disk| {
        let run = disk.run_until_full("echo last words >&2; exit 3", |_| {});
        disk.go();
        let exit = disk.world.exit_of(&run);
        assert_eq!((exit.how, exit.code), (How::Exited, Some(3)), "{exit:?}");
        assert_eq!(exit.stderr_tail, "last words\n");
    });
}

/// Finding A1: where room cannot be reserved, the end is written as soon as there is some.
#[test]
fn end_of_a_command_is_written_once_there_is_room() {
    on_a_small_disk("end_of_a_command_is_written_once_there_is_room", |mut disk| {
        let run = disk.run_until_full("exit 0", |_| {});
        let command = disk.world.process_in("command");
        let reserved = run.path().join(".exit.json.tmp");
        if reserved.exists() {
            fs::remove_file(reserved).unwrap();
        }
        disk.fill();
        disk.go();
        disk.world.wait_until("the command has ended", |_| !command.is_alive());
        let mut looks = 0;
        disk.world.wait_until("it has been looked at for a while", |_| {
            assert!(matches!(run.state().unwrap(), RunState::Running { .. }), "{:?}", run.state());
            looks += 1;
            looks == 200
        });
        disk.free();
        let exit = disk.world.exit_of(&run);
        assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
    });
}

/// Finding A1: a command was ended because the disk had no room for its output.
#[test]
fn output_waits_for_room() {
    on_a_small_disk("output_waits_for_room", |mut disk| {
        let run = disk.run_until_full("head -c 300000 /dev/zero; echo end", |_| {});
        disk.go();
        disk.world.wait_until("its output waits", |_| {
            assert!(matches!(run.state().unwrap(), RunState::Running { .. }), "{:?}", run.state());
            run.waits_for_room()
        });
        disk.free();
        let exit = disk.world.exit_of(&run);
        assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
        let out = run.read_out_from(0, 1_000_000).unwrap();
        assert!(out.len() == 300_004 && out.ends_with(b"end\n"), "{}", out.len());
        assert!(!run.waits_for_room());
    });
}

/// Finding A1: what a command said before it ended is in a pipe when the disk is full; it waits too.
#[test]
fn last_output_of_an_ended_command_waits_for_room() {
    on_a_small_disk("last_output_of_an_ended_command_waits_for_room", |mut disk| {
        let run = disk.run_until_full("head -c 10000 /dev/zero", |_| {});
        let command = disk.world.process_in("command");
        disk.go();
        disk.world.wait_until("the command has ended", |_| !command.is_alive());
        let began = std::time::Instant::now();
        // Longer than a runner waits for the pipes of an ended command.
        disk.world.wait_until("three seconds are over", |_| {
            assert!(matches!(run.state().unwrap(), RunState::Running { .. }), "{:?}", run.state());
            began.elapsed() > std::time::Duration::from_secs(3)
        });
        disk.free();
        let exit = disk.world.exit_of(&run);
        assert_eq!((exit.how, exit.code), (How::Exited, Some(0)), "{exit:?}");
        assert_eq!(run.read_out_from(0, 1_000_000).unwrap().len(), 10_000);
    });
}

#[test]
fn cancel_ends_a_command_whose_output_waits() {
    on_a_small_disk("cancel_ends_a_command_whose_output_waits", |mut disk| {
        let run = disk.run_until_full("head -c 300000 /dev/zero", |_| {});
        disk.go();
        disk.world.wait_until("its output waits", |_| run.waits_for_room());
        run.cancel().unwrap();
        assert_eq!(disk.world.exit_of(&run).how, How::Cancelled);
    });
}

#[test]
fn time_limit_ends_a_command_whose_output_waits() {
    on_a_small_disk("time_limit_ends_a_command_whose_output_waits", |mut disk| {
        let run = disk.run_until_full("head -c 300000 /dev/zero", |spec| spec.time_limit_ms = Some(1_500));
        disk.go();
        assert_eq!(disk.world.exit_of(&run).how, How::TimedOut);
    });
}
