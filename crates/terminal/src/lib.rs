//! A terminal without a window: what an agent's CLI shows, and from that, what it is doing.
//!
//! Bytes go through `screen` (grid, title, status reports, answers to queries) into `fold`, which ranks the
//! evidence and says the state; `watch` is the two together. Profiles are data about one CLI. All of it is pure:
//! time is an argument, so a recording is replayed by exactly the code that runs live.
//! Not here: the PTY itself and who holds it (`synapse-holder`), typing into it.

pub mod added;
mod canvas;
mod cap;
pub mod cast;
mod choice;
pub mod composer;
pub mod disagreement;
pub mod fold;
pub mod frame;
mod held;
pub mod hooks;
pub mod interrupt;
mod joined;
mod key_reader;
mod keyboard;
pub mod keys;
pub mod learn;
pub mod leftover;
pub mod opencode;
mod palette;
pub mod pattern;
pub mod pause;
mod picture;
pub mod profile;
pub mod prompt;
pub mod quiet;
pub mod replay;
pub mod request;
pub mod resume;
pub mod rules;
pub mod runs;
mod screen;
pub mod session_log;
mod sight;
mod signal;
mod skim;
mod status;
mod strip;
pub mod summary;
mod tap;
pub mod text;
pub mod tokens;
pub mod turn;
mod turn_end;
mod utf8;
mod watch;

pub use profile::Profile;
pub use rules::Sees;
pub use screen::{SCROLLBACK, Screen, Seen, Size};
pub use status::{Report, Says};
pub use strip::Strip;
pub use watch::Watch;
