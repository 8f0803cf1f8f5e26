//! `POST /api/v1/keys`: a person presses keys in an agent's terminal.
//!
//! Only the user may do this, on the Unix socket, from a process that no agent started: a key can
//! approve anything. The audit log records who pressed which keys. Of typed text it records
//! only the length, since it may be a secret.

use super::{Refused, Shared, read_body};
use crate::audit;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use synapse_core::Refusal;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::parse;
use synapse_dialects::terminal::{KeysAnswer, KeysRequest};
use synapse_terminal::keys::{self, Key, Pressed};

/// Press keys in the agent's terminal.
#[utoipa::path(post, path = "/api/v1/keys", request_body = KeysRequest, responses(
    (status = 200, body = KeysAnswer), (status = "default", body = ErrorBody),
))]
pub(super) async fn press(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<KeysAnswer>, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Keys, About::default())?;
    let body = read_body(&app, body).await?;
    audit::note(audit::Facts::only_length);
    let request: KeysRequest = parse::json(&body)?;
    let seat = app.seat.as_ref().ok_or_else(|| super::screen::no_terminal(&app))?;
    let wanted = keys::read(&request.keys, request.literal)
        .map_err(|bad| Refusal::bad_field("keys", bad.to_string()))?;
    let names: Vec<String> = wanted.iter().map(Key::to_string).collect();
    audit::note(|facts| facts.note(names.join(" ")));
    let not = |why: String| Refused(Refusal::NotPressed { why });
    let some = |pressed: usize| match pressed {
        0 => "nothing was pressed".to_owned(),
        pressed => format!("only {} was pressed", names[..pressed].join(" ")),
    };
    match seat.press(wanted, request.wait).await.ok_or(Refusal::Stopping)? {
        Ok(Pressed::All) => Ok(Json(KeysAnswer { pressed: names })),
        Ok(Pressed::Ended { pressed }) => {
            Err(not(format!("{}: its program has ended; `synapse list --all` says how", some(pressed))))
        }
        Ok(Pressed::NoKeyboard { pressed }) => Err(not(format!(
            "{}: its keyboard was not to be had; look with `synapse screen`, and try again",
            some(pressed)
        ))),
        Err(taken) => Err(not(format!("nothing was pressed: {}; --wait waits for its end", taken.0))),
    }
}
