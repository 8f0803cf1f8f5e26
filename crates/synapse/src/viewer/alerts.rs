//! Rings the bell and shows a line when an agent of this home starts to wait for the person.
//!
//! Not here: which agents those are (`cli::alerts`).

use super::{Viewer, notice};
use crate::cli::alerts;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the notice covers the last line.
const ALERT_TIME: Duration = Duration::from_secs(8);
/// The bell waits until the program has finished drawing, but at most this many pauses.
const RING_TRIES: usize = 20;
const RING_PAUSE: Duration = Duration::from_millis(50);

/// Follows the alerts until the person leaves.
pub(super) fn start(viewer: &Arc<Viewer>) -> io::Result<()> {
    let viewer = viewer.clone();
    std::thread::Builder::new().name("alerts".into()).spawn(move || {
        let tell = |words: Option<String>| ring(&viewer).and_then(|()| show(&viewer, words)).is_ok();
        alerts::follow(&viewer.home, viewer.agent, &tell);
    })?;
    Ok(())
}

fn ring(viewer: &Viewer) -> io::Result<()> {
    for n in 1..=RING_TRIES {
        if viewer.shown().ring(n == RING_TRIES)? {
            break;
        }
        std::thread::sleep(RING_PAUSE);
    }
    Ok(())
}

/// Shows the notice of another agent. The program's own prompt is on the screen already, perhaps on
/// its last line.
fn show(viewer: &Arc<Viewer>, words: Option<String>) -> io::Result<()> {
    if viewer.gone.load(Ordering::SeqCst) != super::STAYS {
        return Err(io::ErrorKind::NotConnected.into());
    }
    words.map_or(Ok(()), |words| notice(viewer, words, ALERT_TIME))
}
