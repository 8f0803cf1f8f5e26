//! Records the scene of the README's picture: a person at Claude Code asks Codex for a review.
//!
//! The recordings are everything that `synapse claude` and `synapse codex` print in the person's two
//! terminals. The CLIs, the message, `git show` and the way of the answer are real. Only what the
//! models say is scripted here.
//! Not here: how the recordings become a picture (`record::panes`).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::json;
use synapse_terminal::cast::Cast;
use synapse_terminal::{Screen, Size};
use synapse_testkit::mock_llm::{Script, Step, now_ms};
use synapse_testkit::pty::{Colours, Pty};
use synapse_testkit::recorder::Recorder;

use super::catalog::{self, Cli, ESCAPE};
use super::stage::{PATIENCE, Site};
use super::{install, own_network};
use crate::shell;

/// The hidden subcommand that records within the network namespace.
pub(crate) const INSIDE: &str = "__record-panes";
/// Columns and rows of each of the two terminals.
const SIZE: (u16, u16) = (52, 20);

/// What the person types before the recording begins.
const WORK: &str = "commit the retries";
const COMMIT: &str = "git commit -am 'Try uploads three times'";
const COMMITTED: &str = "Committed. An upload is now tried three times.";
/// What the person types to Codex in the recording.
const ASK: &str = "review the last commit";
const LOOK: &str = "git show --oneline";
/// Short enough to be shown in full at Claude's terminal.
const FOUND: &str = "One bug: the third failure returns None.";

const BEFORE: &str = "def upload(path):\n    return send(path)\n";
const AFTER: &str = "import time

def upload(path):
    for attempt in range(3):
        try:
            return send(path)
        except ConnectionError:
            time.sleep(2 ** attempt)
";

/// The captions below the panes.
const ASKING: &str = "1. At Claude's prompt, type a line to Codex";
const WORKING: &str = "2. Codex gets it as its next message";
const ANSWERED: &str = "3. The answer is shown where you asked";

/// One terminal with its program.
struct Terminal {
    cli: &'static Cli,
    person: Pty,
    recorder: Recorder,
}

/// Records both terminals into these files.
pub(crate) fn record(root: &Path, colours: Colours, claude: &Path, codex: &Path) -> anyhow::Result<()> {
    let agents = root.join("target/agents");
    for name in ["claude", "codex"] {
        install::ensure(&agents, catalog::find(name)?)?;
    }
    shell::show(root, &["cargo", "build", "--quiet", "--package", "synapse", "--locked"], &[])?;
    let Colours::Own(text, background) = colours else { bail!("the picture needs its own colours") };
    let own = std::env::current_exe().context("finding this program")?;
    let network = own_network(root)?;
    let status = Command::new(network[0])
        .args(&network[1..])
        .arg(own)
        .arg(INSIDE)
        .args([claude, codex])
        .args(text.iter().chain(&background).map(u8::to_string))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .context("starting in a separate network namespace")?;
    ensure!(status.success(), "the scene could not be recorded: {status}");
    Ok(())
}

/// The part within the network namespace.
pub(crate) fn inside(root: &Path, words: &[String]) -> anyhow::Result<()> {
    let [claude, codex, colours @ ..] = words else { bail!("{INSIDE} needs two files and two colours") };
    let colours: Vec<u8> = colours.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let &[r, g, b, paper_r, paper_g, paper_b] = &colours[..] else { bail!("{INSIDE} needs two colours") };
    let colours = Colours::Own([r, g, b], [paper_r, paper_g, paper_b]);
    shell::show(root, &["ip", "link", "set", "lo", "up"], &[]).context("bringing loopback up")?;
    let synapse = root.join("target/debug/synapse");
    let agents = root.join("target/agents");
    let kept = agents.join("runs").join(format!("panes-{}", now_ms()));
    let clis = [catalog::find("claude")?, catalog::find("codex")?];
    let site = Site::working_in("home/shop", &synapse, &agents, &clis, &kept, script())?;
    prepare(&site)?;
    let mut terminals = Vec::new();
    for cli in clis {
        let (person, recorder) = site.start_attached(cli, SIZE, colours)?;
        terminals.push(Terminal { cli, person, recorder });
        site.wait_idle(cli.name)?;
    }
    let [mut claude_terminal, mut codex_terminal] =
        <[Terminal; 2]>::try_from(terminals).ok().context("two terminals")?;
    let played = play(&site, &mut claude_terminal, &mut codex_terminal);
    let screens = format!("{}\n\n{}\n", claude_terminal.recorder.screen(), codex_terminal.recorder.screen());
    let times = played.with_context(|| format!("see {}; shown:\n{screens}", kept.display()))?;
    fs::write(claude, claude_terminal.cast(&times)).with_context(|| format!("writing {claude}"))?;
    fs::write(codex, codex_terminal.cast(&times)).with_context(|| format!("writing {codex}"))?;
    drop((claude_terminal, codex_terminal, site));
    fs::remove_dir_all(&kept).with_context(|| format!("removing {}", kept.display()))
}

/// What the models do.
fn script() -> Script {
    let run = |command: &str| Step::Run { command: command.to_owned(), asks: false };
    let work = vec![run(COMMIT), Step::Say(COMMITTED.to_owned())];
    let mut review = vec![Step::Think(1_500), run(LOOK), Step::Think(2_000)];
    review.extend(spoken(FOUND));
    Script::default().rule(ASK, review).rule(WORK, work)
}

/// A text word by word.
fn spoken(text: &str) -> impl Iterator<Item = Step> {
    text.split_inclusive(' ').flat_map(|word| [Step::Say(word.to_owned()), Step::Think(90)])
}

/// Creates a repository with an uncommitted change, which Claude may commit without asking.
fn prepare(site: &Site) -> anyhow::Result<()> {
    let settings = site.home.join(".claude/settings.json");
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&settings)?)?;
    text["permissions"] = json!({ "allow": ["Bash(git commit:*)"] });
    fs::write(&settings, text.to_string())?;
    // Codex warns about models that are in no catalog.
    let (config, models) = (site.home.join(".codex/config.toml"), site.home.join(".codex/models.json"));
    fs::write(&models, catalog_of_models().to_string())?;
    let rest = fs::read_to_string(&config)?;
    fs::write(&config, format!("model_catalog_json = {models:?}\n{rest}"))?;
    let git = |args: &[&str]| {
        let own = ["-c", "init.defaultBranch=main"];
        let mut command = Command::new("git");
        command.args(own).args(args).current_dir(&site.work).env("HOME", &site.home).stdin(Stdio::null());
        let output = command.output().context("starting git")?;
        ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    let file = site.work.join("upload.py");
    fs::write(&file, BEFORE)?;
    git(&["init", "--quiet"])?;
    git(&["config", "user.name", "you"])?;
    git(&["config", "user.email", "you@example.org"])?;
    git(&["add", "."])?;
    git(&["commit", "--quiet", "-m", "Upload a file"])?;
    fs::write(&file, AFTER)?;
    Ok(())
}

/// The entry of the mock's model in Codex's catalog of models.
fn catalog_of_models() -> serde_json::Value {
    json!({ "models": [{
        "slug": "mock",
        "display_name": "mock",
        "base_instructions": "Work on this repository.",
        "supported_reasoning_levels": [],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": true,
        "priority": 1,
        "support_verbosity": false,
        "truncation_policy": { "mode": "tokens", "limit": 10_000 },
        "experimental_supported_tools": [],
    }] })
}

/// The times of a recording, in milliseconds since 1970.
struct SceneTimes {
    begin: u64,
    captions: Vec<(u64, &'static str)>,
    end: u64,
}

fn play(site: &Site, claude: &mut Terminal, codex: &mut Terminal) -> anyhow::Result<SceneTimes> {
    const LOOK_FIRST: Duration = Duration::from_millis(1_500);
    const LOOK_LAST: Duration = Duration::from_millis(1_000);
    codex.dismiss_warnings();
    claude.type_line(WORK)?;
    claude.wait_shown(COMMITTED)?;
    site.wait_idle("claude")?;
    // By then the hints of a start are gone, and the person's last key no longer delays messages.
    std::thread::sleep(Duration::from_secs(6));
    let begin = now_ms();
    std::thread::sleep(LOOK_FIRST);
    claude.type_line(&format!("@codex {ASK}"))?;
    let arrived = codex.wait_shown(ASK)?;
    codex.wait_shown(FOUND)?;
    let shown = format!("codex: {FOUND}");
    let until = std::time::Instant::now() + PATIENCE;
    while !claude.last_row().contains(&shown) {
        ensure!(std::time::Instant::now() < until, "{shown:?} is not shown: {:?}", claude.last_row());
        std::thread::sleep(Duration::from_millis(20));
    }
    let answered = now_ms();
    std::thread::sleep(LOOK_LAST);
    let captions = vec![(begin, ASKING), (arrived, WORKING), (answered, ANSWERED)];
    Ok(SceneTimes { begin, captions, end: now_ms() })
}

impl Terminal {
    /// Types a line as a person would, and presses Enter.
    fn type_line(&mut self, text: &str) -> anyhow::Result<()> {
        const KEY: Duration = Duration::from_millis(65);
        const AFTER_WORD: Duration = Duration::from_millis(130);
        const BEFORE_ENTER: Duration = Duration::from_millis(900);
        for key in text.chars() {
            self.person.keys(key.encode_utf8(&mut [0; 4]));
            std::thread::sleep(if key == ' ' { AFTER_WORD } else { KEY });
        }
        std::thread::sleep(BEFORE_ENTER);
        self.person.keys("\r");
        Ok(())
    }

    /// Closes Codex's warnings about this machine.
    fn dismiss_warnings(&mut self) {
        const BETWEEN: Duration = Duration::from_secs(1);
        if self.recorder.screen().contains("f2 to view") {
            for key in ["\u{1b}OQ", ESCAPE] {
                self.person.keys(key);
                std::thread::sleep(BETWEEN);
            }
        }
    }

    fn wait_shown(&self, text: &str) -> anyhow::Result<u64> {
        let shown = self.recorder.wait_shown(text, PATIENCE);
        shown.with_context(|| format!("{} does not show {text:?}", self.cli.name))
    }

    /// The last row of the person's terminal, where Synapse shows its notices.
    fn last_row(&self) -> String {
        let mut screen = Screen::new(Size::new(SIZE.0, SIZE.1), 0);
        screen.feed(&self.person.bytes(), &mut Vec::new());
        screen.row(usize::from(SIZE.1) - 1)
    }

    /// What the person saw in the recorded time, as a cast. Its first event draws the screen as it was
    /// at the beginning.
    fn cast(&self, times: &SceneTimes) -> String {
        let title = format!("synapse {} (its model is a mock)", self.cli.name);
        cast_of(&self.person.pieces(), &title, times)
    }
}

fn cast_of(pieces: &[(u64, Vec<u8>)], title: &str, times: &SceneTimes) -> String {
    let (before, since): (Vec<_>, Vec<_>) = pieces.iter().partition(|(at, _)| *at < times.begin);
    let mut screen = Screen::new(Size::new(SIZE.0, SIZE.1), 0);
    before.iter().for_each(|(_, bytes)| screen.feed(bytes, &mut Vec::new()));
    let mut cast = Cast::default();
    let mut text = Cast::head(SIZE.0, SIZE.1, times.begin / 1000, title);
    text += &cast.output(0, screen.as_ansi(false).as_bytes());
    let mut captions = times.captions.iter().peekable();
    for (at, bytes) in since.into_iter().take_while(|(at, _)| *at <= times.end) {
        while let Some((at, caption)) = captions.next_if(|(due, _)| due <= at) {
            text += &Cast::marker(at - times.begin, caption);
        }
        text += &cast.output(at - times.begin, bytes);
    }
    for (at, caption) in captions {
        text += &Cast::marker(at - times.begin, caption);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse_terminal::replay::{Event, Recording, What};

    #[test]
    fn cast_begins_with_the_screen_as_it_was_and_ends_in_time() {
        let piece = |at: u64, text: &str| (at, text.as_bytes().to_vec());
        let pieces = [
            piece(1_000, "old\x1b[2J\x1b[H"),
            piece(1_500, "first"),
            piece(2_500, " then"),
            piece(9_000, "late"),
        ];
        let times = SceneTimes { begin: 2_000, captions: vec![(2_000, "one"), (3_000, "two")], end: 4_000 };
        let cast = Recording::parse(&cast_of(&pieces, "t", &times)).unwrap();
        let What::Output(drawn) = &cast.events[0].what else { panic!("{cast:?}") };
        let mut screen = Screen::new(cast.size, 0);
        screen.feed(drawn.as_bytes(), &mut Vec::new());
        assert_eq!(screen.rows().concat(), "first");
        let event = |at_ms, what| Event { at_ms, what };
        assert_eq!(
            cast.events[1..],
            [
                event(0, What::Marker("one".into())),
                event(500, What::Output(" then".into())),
                event(1_000, What::Marker("two".into())),
            ]
        );
    }
}
