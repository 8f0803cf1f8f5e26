//! Selects the profile of a program, and whether messages are typed into it.

use super::{Chosen, Seat};
use crate::launch::InTerminal;
use crate::profiles::{BadFile, Found};
use std::path::Path;
use std::sync::PoisonError;
use synapse_core::ids::Timestamp;
use synapse_terminal::Profile;
use synapse_terminal::quiet::TypeWhen;

/// The settings for typing into a program whose profile has no composer.
#[derive(Debug, Clone, Default)]
pub struct Typing {
    /// The name of its program.
    pub program: String,
    /// The user's choice at the start.
    pub when: Option<TypeWhen>,
    /// A shell would run each message as a command.
    pub is_shell: bool,
}

impl Typing {
    pub fn of(terminal: &InTerminal, folder: &Path) -> Self {
        let program = terminal.argv.first().map(|program| program.rsplit('/').next().unwrap_or_default());
        Self {
            program: program.unwrap_or_default().to_owned(),
            when: terminal.type_when,
            is_shell: terminal.is_shell(folder),
        }
    }

    /// Adapts a profile to this program.
    pub(super) fn settle(&self, mut profile: Profile) -> Profile {
        let when = self.when.or(profile.type_when);
        profile.type_when = when.filter(|when| *when == TypeWhen::QuietShell || !self.is_shell);
        profile
    }
}

impl Seat {
    /// Returns the active profile.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn profile_changes(&self) -> u32 {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).changes
    }

    /// Applies the result of reading the profile's file. An invalid file changes nothing.
    pub fn take_up(&self, now: Timestamp, found: Result<Option<Found>, BadFile>) {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = chosen.fault.take();
        chosen.fault = match found {
            Ok(Some(found)) => {
                chosen.from = found.from();
                let text = found.made_of();
                if chosen.text != text {
                    tracing::info!(from = %chosen.from, "another profile is used from now on");
                    chosen.text = text;
                    chosen.changes = chosen.changes.wrapping_add(1);
                    self.watch().reprofile(now, self.typing.settle(found.profile));
                    let known = self.cli.borrow().version.clone();
                    known.inspect(|version| self.said_version(version));
                    self.bell.notify_one();
                }
                None
            }
            Ok(None) => Some("its file was removed; its last content stays in use".to_owned()),
            Err(bad) => Some(bad.to_string()),
        };
        if let Some(fault) = chosen.fault.as_ref().filter(|fault| before.as_ref() != Some(fault)) {
            tracing::warn!(%fault, "cannot load the profile; the previous one stays in use");
        }
    }

    /// Returns why no message will ever be typed into the program; `None` if messages are typed.
    pub fn untyped(&self) -> Option<String> {
        let watch = self.watch();
        let profile = watch.profile();
        if profile.composer.is_some() || profile.type_when.is_some() {
            return None;
        }
        let program = &self.typing.program;
        let why = match (self.typing.is_shell, profile.name.as_str()) {
            (true, _) => return Some(format!("will not be typed: {program} would run it as a command")),
            (false, "generic") => format!("no profile for {program}"),
            (false, name) => format!("the profile {name} has no composer"),
        };
        Some(format!("will not be typed: {why}; `synapse profile learn -- {program}`"))
    }
}
