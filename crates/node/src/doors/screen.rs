//! `GET /api/v1/screen`, `GET /api/v1/terminal`: what an agent's terminal shows, and the evidence
//! for its state.

use super::extract::Query;
use super::{Refused, Shared};
use crate::driver::now;
use crate::hands::terminal::Seat;
use crate::launch::Tells;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::IntoResponse;
use http::header;
use serde::Deserialize;
use synapse_core::Refusal;
use synapse_core::policy::{self, About, Caller, Verb};
use synapse_dialects::error::ErrorBody;
use synapse_dialects::terminal::{Evidence, PausedView, TellsView, TerminalView};
use synapse_dialects::time;
use synapse_terminal::Watch;
use synapse_terminal::pause::Paused;

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wish {
    /// `text`, `ansi` or `svg`; `text` if absent.
    #[serde(default)]
    #[param(pattern = "^(text|ansi|svg)$")]
    format: Option<String>,
}

/// What the agent's terminal shows now: as text, as escape sequences, or as a picture.
#[utoipa::path(get, path = "/api/v1/screen",
    params(Wish),
    responses((status = 200, content((String = "text/plain"), (String = "image/svg+xml"))), (status = "default", body = ErrorBody)))]
pub(super) async fn screen(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Query(wish): Query<Wish>,
) -> Result<impl IntoResponse, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Read, About::default())?;
    let seat = app.seat.as_ref().ok_or_else(|| no_terminal(&app))?;
    let watch = seat.watch();
    let (kind, text) = match wish.format.as_deref() {
        None | Some("text") => ("text/plain; charset=utf-8", watch.screen().rows().join("\n") + "\n"),
        Some("ansi") => ("text/plain; charset=utf-8", watch.screen().as_ansi(false)),
        Some("svg") => ("image/svg+xml", watch.screen().as_svg()),
        Some(_) => return Err(Refused(Refusal::bad_field("format", "it must be text, ansi or svg"))),
    };
    Ok(([(header::CONTENT_TYPE, kind)], text))
}

/// Every piece of evidence about what the agent does, and which of it won.
#[utoipa::path(get, path = "/api/v1/terminal",
    responses((status = 200, body = TerminalView), (status = "default", body = ErrorBody)))]
pub(super) async fn terminal(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TerminalView>, Refused> {
    policy::may(&app.gate.rules(), &caller, Verb::Read, About::default())?;
    let seat = app.seat.as_ref().ok_or_else(|| no_terminal(&app))?;
    Ok(Json(view(seat)))
}

fn view(seat: &Seat) -> TerminalView {
    let (cli, chosen, untyped) = (seat.cli().borrow().clone(), seat.chosen(), seat.untyped());
    let watch = seat.watch();
    let (verdict, size) = (watch.verdict(), watch.screen().size());
    TerminalView {
        state: verdict.state.name().into(),
        since: time::show(verdict.since),
        source: verdict.source.name().into(),
        why: verdict.why.clone(),
        because: verdict.because.into(),
        evidence: watch
            .readings()
            .into_iter()
            .map(|(rank, reading)| Evidence {
                source: rank.name().into(),
                says: reading.sees.name().into(),
                since: time::show(reading.since),
                at: time::show(reading.at),
                confidence: rank.confidence().into(),
                why: reading.why.clone(),
            })
            .collect(),
        profile: watch.profile().name.clone(),
        profile_from: chosen.from,
        profile_fault: chosen.fault,
        version: cli.version,
        tested: cli.tested,
        tested_versions: watch.profile().version.tested.clone(),
        way_in: way_in(seat, &watch),
        untyped,
        paused: watch.paused(now()).map(paused),
        wedged_since: watch.wedged(now()).map(time::show),
        title: watch.screen().title().to_owned(),
        columns: size.columns(),
        rows: size.rows(),
        tells: tells(seat, &watch),
        prompt: super::approve::shown(&watch),
    }
}

fn paused(paused: &Paused) -> PausedView {
    PausedView {
        limit: paused.limit.clone(),
        since: time::show(paused.since),
        until: paused.until.map(time::show),
        said: paused.said.clone(),
    }
}

/// Describes how messages reach the program.
fn way_in(seat: &Seat, watch: &Watch) -> String {
    if watch.types_lines() {
        return "typed at its cursor as one line while its screen is quiet (--type-when), and proven by what it shows"
            .into();
    }
    if watch.profile().composer.is_none() {
        return "read by the agent with `synapse inbox`: its profile does not say where it is typed to"
            .into();
    }
    let proof = match seat.tells() {
        Tells::ClaudeHooks | Tells::CodexHooks => "its hook, which names the text",
        Tells::OpencodeServer { .. } if seat.trouble().is_none() => "its server, which names the text",
        Tells::Nothing | Tells::Unused(_) | Tells::OpencodeServer { .. } | Tells::SessionLog { .. } => {
            "what it reports and shows"
        }
    };
    format!("typed into its terminal: pasted, seen in its composer, submitted, and proven by {proof}")
}

fn tells(seat: &Seat, watch: &Watch) -> TellsView {
    let heard = watch.heard();
    let trouble = seat.trouble().unwrap_or_default();
    let (way, why) = match seat.tells() {
        Tells::Nothing => ("nothing", "its profile knows of no hooks"),
        Tells::Unused(why) => ("nothing", why.as_str()),
        Tells::ClaudeHooks | Tells::CodexHooks if heard.events == 0 => ("hooks", "no event has come yet"),
        Tells::ClaudeHooks | Tells::CodexHooks => ("hooks", ""),
        Tells::OpencodeServer { .. } => ("server", trouble.as_str()),
        Tells::SessionLog { .. } => ("log", "answers are read from its session log"),
    };
    TellsView {
        way: way.into(),
        why: why.into(),
        events: heard.events,
        last_event: heard.last.as_ref().map(|(name, _)| name.clone()),
        last_event_at: heard.last.as_ref().map(|(_, at)| time::show(*at)),
        session_id: heard.session.clone(),
        prompt_at: heard.prompt.as_ref().map(|(_, at)| time::show(*at)),
        answer_at: heard.answer.as_ref().map(|(_, at)| time::show(*at)),
    }
}

pub(super) fn no_terminal(app: &Shared) -> Refused {
    Refused(crate::decide::no_terminal(app))
}
