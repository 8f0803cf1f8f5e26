//! The viewer as a job of the person's shell.
//!
//! The ids are those of our PID namespace. The id of a process group or session is 0 if it was
//! created outside of the namespace.

use rustix::io::Errno;
use rustix::termios::tcgetpgrp;
use std::io;
use synapse_holder::{Job, job_of, parent_of};

const ANCESTORS_MAX: usize = 64;

/// Whether a shell could resume us: an ancestor on our terminal, outside of our process group.
pub(super) fn can_be_resumed() -> bool {
    let own = std::process::id();
    // Not `ancestors`, because in a container the shell may be process 1.
    let above = std::iter::successors(parent_of(own), |pid| parent_of(*pid)).take(ANCESTORS_MAX);
    job_of(own).is_some_and(|own| is_below_a_shell(own, above.map_while(job_of)))
}

/// Whether we may change the terminal. In the background it belongs to another job, and changing it
/// would stop us.
pub(super) fn is_in_front() -> bool {
    let front = match tcgetpgrp(io::stdin()) {
        Ok(group) => group.as_raw_nonzero().get().unsigned_abs(),
        Err(Errno::OPNOTSUPP) => 0,
        Err(_) => return false,
    };
    job_of(std::process::id()).is_some_and(|own| own.group == front)
}

fn is_below_a_shell(own: Job, mut above: impl Iterator<Item = Job>) -> bool {
    let shell = above.find(|job| job.group != own.group);
    shell.is_some_and(|shell| own.terminal != 0 && shell.terminal == own.terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shell_at_our_terminal_brings_us_back() {
        let job = |group, terminal| Job { group, terminal };
        let cases = [
            ("a shell", job(20, 7), vec![job(10, 7)], true),
            ("a script in our group, below a shell", job(20, 7), vec![job(20, 7), job(10, 7)], true),
            ("a terminal program", job(20, 7), vec![job(10, 0)], false),
            ("a shell at another terminal", job(20, 7), vec![job(10, 8)], false),
            ("no terminal at all", job(20, 0), vec![job(10, 0)], false),
            ("all of it our own group", job(20, 7), vec![job(20, 7)], false),
            ("nobody", job(20, 7), vec![], false),
            ("a shell whose group is outside of our namespace", job(20, 7), vec![job(0, 7)], true),
            ("our group is outside, as is all above", job(0, 7), vec![job(0, 7)], false),
        ];
        for (name, own, above, expected) in cases {
            assert_eq!(is_below_a_shell(own, above.into_iter()), expected, "{name}");
        }
    }
}
