//! Interruptions of the demo: a signal, or a closed output.
//!
//! The demo checks for them between its steps and while it waits, so that it can always clean up.
//! Not here: cleaning up (`demo`).

use crate::fail::{Done, Fail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The interruption, if there was one.
pub(super) struct Interruption {
    /// The last signal, or 0 if there was none.
    signal: Arc<AtomicUsize>,
}

impl Interruption {
    /// Starts recording these signals. They no longer end this process.
    pub(super) fn watch() -> io::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            let value = usize::try_from(number).unwrap_or_default();
            signal_hook::flag::register_usize(number, signal.clone(), value)?;
        }
        Ok(Self { signal })
    }

    pub(super) fn is_there(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }

    /// An error once the demo was interrupted. Its exit code is that of a program killed by the
    /// signal.
    pub(super) fn check(&self) -> Done {
        match self.signal.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(Fail::ended(u8::try_from(128 + signal).unwrap_or(u8::MAX))),
        }
    }

    /// Prints a line. A closed output ends the demo, as SIGPIPE would.
    pub(super) fn print(&self, text: &str) {
        let mut to = io::stdout().lock();
        if writeln!(to, "{text}").and_then(|()| to.flush()).is_err() {
            let pipe = usize::try_from(SIGPIPE).unwrap_or_default();
            let _ = self.signal.compare_exchange(0, pipe, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}
