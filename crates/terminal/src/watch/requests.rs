//! Permissions that the hooks of a program tell of, while it waits for one.

use super::Watch;
use crate::request::{PermissionRequest, REQUESTS_MAX};

impl Watch {
    /// Keeps a permission that a hook tells of, with the others of the same wait.
    pub(super) fn requested(&mut self, request: PermissionRequest) {
        let since = self.verdict().since;
        if self.requests.since != since {
            self.requests.hooked.clear();
            self.requests.overflowed = false;
        }
        self.requests.since = since;
        // None is dropped for another: a tool could so replace the command of its own agent's prompt (finding H4).
        if self.requests.hooked.len() == REQUESTS_MAX {
            self.requests.overflowed = true;
        } else {
            self.requests.hooked.push(request);
        }
    }
}
