//! The traffic with an A2A agent, as `synapse send --wire` shows it on standard error.

use crate::show;
use synapse_peer::a2a::{WireEvent, WireTap};

/// Longest body that is shown.
const BODY_CHARS_MAX: usize = 8_000;

pub(in crate::cli) fn tap() -> WireTap {
    WireTap::new(|event| match event {
        WireEvent::Sent { verb, url, body } => {
            eprintln!("{} {verb} {}", show::paint_err("36", "→"), show::safe(url));
            tell_body(body);
        }
        WireEvent::Received { status, body } => {
            let status = status.map(|status| status.to_string()).unwrap_or_default();
            eprintln!("{} {status}", show::paint_err("36", "←"));
            tell_body(body);
        }
        WireEvent::Odd(note) => {
            eprintln!("  {}", show::paint_err("33", &format!("odd: {}", show::safe(note))));
        }
    })
}

fn tell_body(body: &[u8]) {
    match std::str::from_utf8(body) {
        Ok("") => {}
        Ok(text) => eprintln!("  {}", show::line(text, BODY_CHARS_MAX)),
        Err(_) => eprintln!("  {} bytes", body.len()),
    }
}
