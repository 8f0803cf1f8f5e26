//! Turns recordings of several terminals into the frames of one animation.
//!
//! The casts are replayed through our terminal model on one clock. A frame is what all terminals show
//! at one time, with the caption below them.
//!
//! Invariant: the same casts always give the same frames.
//! Not here: making the casts (`real_agents::panes`), drawing (`draw`).

use synapse_terminal::replay::{Event, Recording, What};
use synapse_terminal::runs::TextRun;
use synapse_terminal::{Screen, Seen};

/// Changes closer together than this are one frame.
const MERGE_MS: u64 = 80;
/// Longer pauses are shortened to this.
const STILL_MS_MAX: u64 = 1_500;
/// How long the last frame stays before the animation starts again.
const LAST_MS: u64 = 5_000;
/// Longer captions are cut: they would not fit below the panes.
const CAPTION_CHARS_MAX: usize = 60;

/// One terminal of the animation.
pub(super) struct Pane {
    /// The command that was typed to start its program.
    pub(super) command: &'static str,
    pub(super) recording: Recording,
}

/// One row of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) runs: Vec<TextRun>,
    /// The column of the cursor, if it is in this row and shown.
    pub(super) cursor: Option<usize>,
}

/// What is shown from `at_ms` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) at_ms: u64,
    /// All rows of each pane.
    pub(super) panes: Vec<Vec<Row>>,
    pub(super) caption: String,
}

/// All frames, and how long they take together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Animation {
    pub(super) frames: Vec<Frame>,
    pub(super) ms: u64,
}

impl Animation {
    /// Replays the recordings, which begin at the same time.
    pub(super) fn of(panes: &[Pane]) -> Self {
        let mut frames: Vec<Frame> = Vec::new();
        let mut playback = Playback::of(panes);
        let mut events: Vec<(usize, &Event)> = Vec::new();
        for (n, pane) in panes.iter().enumerate() {
            events.extend(pane.recording.events.iter().map(|event| (n, event)));
        }
        events.sort_by_key(|(_, event)| event.at_ms);
        let mut events = events.into_iter().peekable();
        while let Some((n, first)) = events.next() {
            playback.take(n, first);
            let within = first.at_ms + MERGE_MS;
            // A drawing that arrives in several pieces is shown once it is complete.
            while let Some((n, event)) =
                events.next_if(|(_, next)| next.at_ms < within || playback.is_drawing())
            {
                playback.take(n, event);
            }
            let frame = playback.frame(first.at_ms);
            let is_new = frames
                .last()
                .is_none_or(|last| (&last.panes, &last.caption) != (&frame.panes, &frame.caption));
            frames.extend(is_new.then_some(frame));
        }
        Self::without_long_pauses(frames)
    }

    fn without_long_pauses(mut frames: Vec<Frame>) -> Self {
        let (mut before, mut now) = (frames.first().map_or(0, |first| first.at_ms), 0);
        for frame in &mut frames {
            now += (frame.at_ms - before).min(STILL_MS_MAX);
            before = std::mem::replace(&mut frame.at_ms, now);
        }
        Self { frames, ms: now + LAST_MS }
    }
}

/// The terminals during the replay.
struct Playback {
    screens: Vec<Screen>,
    /// Which programs are in the middle of a drawing.
    drawing: Vec<bool>,
    caption: String,
}

impl Playback {
    fn of(panes: &[Pane]) -> Self {
        Self {
            screens: panes.iter().map(|pane| Screen::new(pane.recording.size, 0)).collect(),
            drawing: vec![false; panes.len()],
            caption: String::new(),
        }
    }

    fn take(&mut self, n: usize, event: &Event) {
        match &event.what {
            What::Output(text) => {
                let mut seen = Vec::new();
                self.screens[n].feed(text.as_bytes(), &mut seen);
                for seen in seen {
                    if let Seen::Frame { begins } = seen {
                        self.drawing[n] = begins;
                    }
                }
            }
            What::Resize(size) => self.screens[n].resize(*size),
            What::Marker(caption) => self.caption = caption.chars().take(CAPTION_CHARS_MAX).collect(),
            What::Input(_) => {}
        }
    }

    fn is_drawing(&self) -> bool {
        self.drawing.contains(&true)
    }

    fn frame(&self, at_ms: u64) -> Frame {
        let rows = |screen: &Screen| -> Vec<Row> {
            let (row, column) = screen.cursor();
            let cursor = |own: usize| (own == row && screen.cursor_is_visible()).then_some(column);
            let rows = 0..usize::from(screen.size().rows());
            rows.map(|row| Row { runs: screen.runs(row), cursor: cursor(row) }).collect()
        };
        Frame { at_ms, panes: self.screens.iter().map(rows).collect(), caption: self.caption.clone() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A small terminal in which this happens: `at|text`, `at|# caption`.
    pub(in super::super) fn pane(command: &'static str, events: &[(f64, &str)]) -> Pane {
        let mut cast = String::from("{\"version\":2,\"width\":20,\"height\":3}\n");
        for (at, text) in events {
            let (kind, text) = text.strip_prefix("# ").map_or(("o", *text), |caption| ("m", caption));
            cast += &format!("{}\n", serde_json::json!([at, kind, text]));
        }
        Pane { command, recording: Recording::parse(&cast).unwrap() }
    }

    fn animation(events: &[&[(f64, &str)]]) -> Animation {
        let panes: Vec<Pane> = events.iter().map(|events| pane("sh", events)).collect();
        Animation::of(&panes)
    }

    /// When, and what stands in the first rows and below.
    fn shown(animation: &Animation) -> Vec<String> {
        let row = |rows: &Vec<Row>| rows[0].runs.iter().map(|run| run.text.as_str()).collect::<String>();
        let shown = |frame: &Frame| {
            let rows: Vec<String> = frame.panes.iter().map(row).collect();
            format!("{} {} {}", frame.at_ms, rows.join("|"), frame.caption).trim().to_owned()
        };
        animation.frames.iter().map(shown).collect()
    }

    #[test]
    fn both_terminals_are_on_one_clock() {
        let animation = animation(&[&[(0.0, "a"), (0.5, "b"), (0.5, "# one")], &[(0.2, "x"), (1.0, "y")]]);
        assert_eq!(shown(&animation), ["0 a|", "200 a|x", "500 ab|x one", "1000 ab|xy one"]);
        assert_eq!(animation.ms, 6_000);
    }

    #[test]
    fn changes_close_together_are_one_frame() {
        let animation =
            animation(&[&[(0.0, "a"), (0.05, "b"), (0.07, "c"), (0.08, "d"), (0.1, "e"), (0.9, "\x1b[31m")]]);
        assert_eq!(shown(&animation), ["0 abc", "80 abcde"]);
    }

    #[test]
    fn half_a_drawing_is_not_shown() {
        let animation = animation(&[&[
            (0.0, "a"),
            (0.5, "\x1b[?2026h\r"),
            (0.7, "b"),
            (0.9, "c\x1b[?2026l"),
            (2.0, "d"),
        ]]);
        assert_eq!(shown(&animation), ["0 a", "500 bc", "2000 bcd"]);
    }

    #[test]
    fn long_pauses_are_cut() {
        let animation = animation(&[&[(3.0, "a"), (33.0, "b"), (34.0, "c")]]);
        assert_eq!(shown(&animation), ["0 a", "1500 ab", "2500 abc"]);
    }

    #[test]
    fn cursor_is_in_its_row_while_it_is_visible() {
        let animation = animation(&[&[(0.0, "ab"), (1.0, "\x1b[?25l")]]);
        assert_eq!(animation.frames[0].panes[0][0].cursor, Some(2));
        assert_eq!(animation.frames[0].panes[0][1].cursor, None);
        assert_eq!(animation.frames[1].panes[0][0].cursor, None);
    }
}
