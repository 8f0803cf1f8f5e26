//! `cargo xtask record`: makes the animated pictures of the docs from recordings of real programs.
//!
//! Without flags it records `synapse demo` in a terminal, as a cast and as a picture. The cast has
//! the true times. The picture shows a line at a time, slowly enough to be read.
//! With `--panes` it records `synapse claude` and `synapse codex` side by side. `--redraw` only draws
//! that picture again, from the casts in the docs.
//! Not here: whether the recording of the demo is still true (the demo's own test compares).

mod draw;
mod panes;
mod shapes;

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::pty::{Winsize, openpty};
use serde_json::json;
use synapse_terminal::replay::Recording;
use synapse_testkit::pty::Colours;

use crate::{real_agents, shell};
use panes::{Animation, Pane};

const COLUMNS: u16 = 112;
const ROWS: u16 = 48;
const CAST: &str = "docs/demo.cast";
const PICTURE: &str = "docs/demo.svg";
/// How long the picture waits before each line.
const LINE_PAUSE_S: f64 = 0.35;

const PANES: &str = "docs/panes.svg";
const CLAUDE: &str = "docs/panes-claude.cast";
const CODEX: &str = "docs/panes-codex.cast";
const ABOUT: &str = "Left, synapse claude: somebody types @codex review the last commit at Claude's prompt. \
                     Right, synapse codex: the line arrives as Codex's next message, Codex looks at the \
                     commit and answers. Its answer is shown on the left. Recorded with the real CLIs and \
                     a mock of their models.";

/// What was printed, and when.
type Events = Vec<(Duration, String)>;

/// Records what the flags ask for.
pub(crate) fn run(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => demo(root),
        ["--panes"] => {
            let colours = Colours::Own(draw::COLOURS.0, draw::COLOURS.1);
            real_agents::panes::record(root, colours, &root.join(CLAUDE), &root.join(CODEX))?;
            redraw(root)
        }
        ["--panes", "--redraw"] => redraw(root),
        _ => bail!("usage: cargo xtask record [--panes [--redraw]]"),
    }
}

/// Draws the two panes from their casts.
fn redraw(root: &Path) -> anyhow::Result<()> {
    let svg = drawn(root)?;
    fs::write(root.join(PANES), &svg).with_context(|| format!("writing {PANES}"))?;
    println!("{PANES} is written: {} KB", svg.len() / 1000);
    Ok(())
}

fn drawn(root: &Path) -> anyhow::Result<String> {
    let pane = |command: &'static str, path: &str| {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
        let recording = Recording::parse(&text).with_context(|| path.to_owned())?;
        anyhow::Ok(Pane { command, recording })
    };
    let panes = [pane("synapse claude", CLAUDE)?, pane("synapse codex", CODEX)?];
    Ok(draw::draw(&panes, &Animation::of(&panes), ABOUT))
}

/// Records the demo of the release binary.
fn demo(root: &Path) -> anyhow::Result<()> {
    shell::show(root, &["cargo", "build", "--release", "--quiet", "--package", "synapse"], &[])?;
    let events = play(Command::new(root.join("target/release/synapse")).arg("demo"))?;
    fs::write(root.join(CAST), cast(&events)).with_context(|| format!("writing {CAST}"))?;
    let text: String = events.iter().map(|(_, text)| text.as_str()).collect();
    fs::write(root.join(PICTURE), picture(&text)).with_context(|| format!("writing {PICTURE}"))?;
    println!("{CAST} and {PICTURE} are written");
    Ok(())
}

fn play(command: &mut Command) -> anyhow::Result<Events> {
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).context("opening a terminal")?;
    let end = |fd: &std::os::fd::OwnedFd| Ok::<_, std::io::Error>(Stdio::from(fd.try_clone()?));
    command.stdin(end(&pty.slave)?).stdout(end(&pty.slave)?).stderr(end(&pty.slave)?);
    let began = Instant::now();
    let mut child = command.env_remove("NO_COLOR").env("TERM", "xterm-256color").spawn()?;
    drop(pty.slave);
    // The ends that the command was given are still open in it; only when they are closed does reading end.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut master = File::from(pty.master);
    let (mut events, mut rest, mut buffer) = (Events::new(), Vec::new(), [0; 4096]);
    loop {
        let read = match master.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            // Linux says so when the last writer has closed the other end.
            Err(_) => break,
        };
        rest.extend_from_slice(&buffer[..read]);
        let whole = match std::str::from_utf8(&rest) {
            Ok(text) => text.len(),
            Err(e) => e.valid_up_to(),
        };
        let text = String::from_utf8(rest.drain(..whole).collect())?;
        events.push((began.elapsed(), text));
    }
    ensure!(child.wait()?.success(), "the demo failed; run it by hand");
    Ok(events)
}

/// As asciinema's version 2: a head, then one event per line.
fn cast(events: &Events) -> String {
    let head = json!({ "version": 2, "width": COLUMNS, "height": ROWS, "title": "synapse demo" });
    let mut lines = vec![head.to_string()];
    let seconds = |at: &Duration| (at.as_secs_f64() * 1000.0).round() / 1000.0;
    lines.extend(events.iter().map(|(at, text)| json!([seconds(at), "o", text]).to_string()));
    lines.join("\n") + "\n"
}

/// An SVG in which the lines appear one after another.
fn picture(text: &str) -> String {
    const LINE_PX: usize = 19;
    const CHAR_PX: f64 = 8.4;
    let lines: Vec<&str> = text.split("\r\n").filter(|line| !line.is_empty()).collect();
    let (width, height) = (f64::from(COLUMNS) * CHAR_PX + 32.0, (lines.len() + 2) * LINE_PX);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" role=\"img\" aria-label=\"synapse demo\">\n\
         <style>text{{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre;animation:show 1ms both}}\
         .b{{font-weight:bold;fill:#fff}}.d{{fill:#8892a6}}.g{{fill:#7fd88f}}\
         @keyframes show{{from{{visibility:hidden}}to{{visibility:visible}}}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b2028\"/>\n"
    );
    for (n, line) in lines.iter().enumerate() {
        let (y, at) = ((n + 1) * LINE_PX + LINE_PX / 2, n as f64 * LINE_PAUSE_S);
        svg.push_str(&format!(
            "<text x=\"16\" y=\"{y}\" style=\"animation-delay:{at:.2}s\">{}</text>\n",
            spans(line)
        ));
    }
    svg + "</svg>\n"
}

/// A line with its colours as classes; only those that our own output uses.
fn spans(line: &str) -> String {
    let (mut out, mut open) = (String::new(), false);
    let mut parts = line.split("\u{1b}[");
    out.push_str(&escaped(parts.next().unwrap_or_default()));
    for part in parts {
        let (code, text) = part.split_once('m').unwrap_or(("0", part));
        if std::mem::take(&mut open) {
            out.push_str("</tspan>");
        }
        if let Some(class) = match code {
            "1" => Some("b"),
            "2" => Some("d"),
            "32" => Some("g"),
            _ => None,
        } {
            out.push_str(&format!("<tspan class=\"{class}\">"));
            open = true;
        }
        out.push_str(&escaped(text));
    }
    if open {
        out.push_str("</tspan>");
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_text_stays_text() {
        assert_eq!(
            spans("\u{1b}[1ma <b>\u{1b}[0m & \u{1b}[32mok"),
            "<tspan class=\"b\">a &lt;b&gt;</tspan> &amp; <tspan class=\"g\">ok</tspan>"
        );
        assert_eq!(spans("plain"), "plain");
    }

    /// What the README shows.
    #[test]
    fn two_panes_in_the_docs_are_drawn_from_their_casts() {
        let svg = fs::read_to_string(shell::root().join(PANES)).unwrap();
        assert!(svg == drawn(&shell::root()).unwrap(), "run `cargo xtask record --panes --redraw`");
        assert!(svg.len() < 400_000, "{} bytes are too many for a page", svg.len());
        for part in ["@codex review the last commit", "] review the last commit", "Ran", "codex: One bug:"] {
            assert!(svg.contains(part), "{part:?} is not shown");
        }
    }

    #[test]
    fn flags_that_record_does_not_have_are_refused() {
        for words in [&["--redraw"][..], &["--panes", "--all"], &["panes"]] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert!(run(Path::new("."), &words).unwrap_err().to_string().contains("usage"), "{words:?}");
        }
    }

    #[test]
    fn a_cast_begins_with_its_head_and_keeps_the_times() {
        let events = vec![(Duration::from_millis(1234), "a\r\n".to_owned())];
        let text = cast(&events);
        let mut lines = text.lines();
        assert!(lines.next().unwrap().contains("\"version\":2"));
        assert_eq!(lines.next(), Some("[1.234,\"o\",\"a\\r\\n\"]"));
    }

    #[test]
    fn what_a_command_prints_on_a_terminal_is_kept() {
        let events = play(Command::new("sh").args(["-c", "test -t 1 && echo '世界' && exit 0"])).unwrap();
        let text: String = events.into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, "世界\r\n");
        assert!(play(&mut Command::new("false")).is_err());
    }
}
