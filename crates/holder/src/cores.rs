//! Core dumps: our own memory holds tokens, so our processes leave none; what agents run keeps the limit of its user.
//!
//! The limit alone is not enough: where the kernel pipes dumps to a program, it does not look at it. So nothing of our
//! memory would be in a dump either. Both are inherited, and are put back while another process is started.
//!
//! Not here: a debugger of the same user, which can read everything (SECURITY.md).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

/// What the user had set; none if nothing was changed.
static USERS: Mutex<Option<CoreLimits>> = Mutex::new(None);

#[derive(Clone)]
struct CoreLimits {
    size: Rlimit,
    /// Which memory a dump has in it; only Linux knows of that.
    filter: Option<String>,
}

impl CoreLimits {
    fn set(&self) {
        let _ = setrlimit(Resource::Core, self.size);
        if let Some(filter) = &self.filter {
            let _ = std::fs::write(FILTER, filter);
        }
    }

    fn none(&self) -> Self {
        let filter = self.filter.as_ref().map(|_| "0x0".to_owned());
        Self { size: Rlimit { current: Some(0), ..self.size }, filter }
    }
}

const FILTER: &str = "/proc/self/coredump_filter";

/// From now on this process leaves no core dump.
pub fn forbid() {
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    if users.is_some() {
        return;
    }
    let filter = std::fs::read_to_string(FILTER).ok().map(|filter| format!("0x{}", filter.trim()));
    let found = CoreLimits { size: getrlimit(Resource::Core), filter };
    found.none().set();
    *users = Some(found);
}

/// Starts a process with the user's own limits.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // One at a time: another thread must not take them away in between.
    let users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(found) = &*users else { return command.spawn() };
    found.set();
    // It returns when the program runs, or cannot.
    let child = command.spawn();
    found.none().set();
    child
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// Finding L18: our own dumps are empty, and what we start has the user's own limits. One test, since they are the process's.
    #[test]
    fn core_dumps_are_off_for_us_and_as_before_for_what_we_start() {
        let limits = |text: &str| {
            text.lines().find(|line| line.starts_with("Max core file size")).unwrap_or_default().to_owned()
        };
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let before = (limits(&read("/proc/self/limits")), read(FILTER));
        forbid();
        forbid();
        let own = limits(&read("/proc/self/limits"));
        assert_eq!(own.split_whitespace().nth(4), Some("0"), "{own}");
        assert_eq!(read(FILTER).trim(), "00000000");
        let child = spawn(Command::new("cat").args(["/proc/self/limits", FILTER]).stdout(Stdio::piped()));
        let told = String::from_utf8(child.unwrap().wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(limits(&told), before.0);
        assert!(told.ends_with(&before.1), "{told}");
        assert_eq!(read(FILTER).trim(), "00000000");
        spawn(&mut Command::new("/no/such/program")).unwrap_err();
        assert_eq!(read(FILTER).trim(), "00000000");
    }
}
